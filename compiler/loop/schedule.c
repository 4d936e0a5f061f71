/* schedule.c - schedules as text and as plain values. What a step does and whether it is legal is not
 * known here: apply.c and its siblings say. */
#include "loop/schedule.h"

#include <ctype.h>
#include <string.h>

typedef struct StepInfo {
    const char *name, *args;
    bool exact;
    const char *meaning;
} StepInfo;

static const StepInfo step_info[N_STEPS] = {
#define X(id, name, args, exact, meaning) {name, args, exact, meaning},
    STEPS(X)
#undef X
};

static bool name_is(const char *name, const char *s, size_t len)
{
    return strlen(name) == len && memcmp(name, s, len) == 0;
}

/* One step's text, between semicolons, into words with single blanks. */
static bool parse_step(const char *s, size_t len, Step *step, Err *err)
{
    size_t n = 0, at = 0;
    while (at < len && isspace((unsigned char)s[at])) {
        at++;
    }
    size_t word = at;
    while (at < len && !isspace((unsigned char)s[at])) {
        at++;
    }
    *step = (Step){.kind = N_STEPS};
    for (int i = 0; i < N_STEPS; i++) {
        step->kind = name_is(step_info[i].name, s + word, at - word) ? (StepKind)i : step->kind;
    }
    if (step->kind == N_STEPS) {
        return err_set(err, E_SYNTAX, "there is no schedule step '%.*s'.", (int)(at - word),
                       s + word);
    }
    while (at < len) {
        size_t start = at + strspn(s + at, " \t\r\n");
        size_t end = start;
        while (end < len && !isspace((unsigned char)s[end])) {
            end++;
        }
        if (start >= len) {
            break;
        }
        if (n + (end - start) + 2 > sizeof step->args) {
            return err_set(err, E_SYNTAX,
                           "the arguments of the step '%s' are longer than %d characters.",
                           step_info[step->kind].name, MAX_STEP_ARGS - 2);
        }
        n += (size_t)snprintf(step->args + n, sizeof step->args - n, "%s%.*s", n ? " " : "",
                              (int)(end - start), s + start);
        at = end;
    }
    return true;
}

bool schedule_parse(const char *text, Schedule *s, Err *err)
{
    *s = (Schedule){0};
    while (*text) {
        size_t len = strcspn(text, ";");
        bool blank = strspn(text, " \t\r\n") >= len;
        if (!blank && s->n == MAX_STEPS) {
            return err_set(err, E_SYNTAX, "a schedule has at most %d steps.", MAX_STEPS);
        }
        if (!blank && !parse_step(text, len, &s->step[s->n++], err)) {
            return false;
        }
        text += len + (text[len] == ';');
    }
    return true;
}

void schedule_print(const Schedule *s, Buf *out)
{
    for (int i = 0; i < s->n; i++) {
        const Step *step = &s->step[i];
        buf_printf(out, "%s%s%s%s", i ? "; " : "", step_info[step->kind].name,
                   *step->args ? " " : "", step->args);
    }
}

bool schedule_eq(const Schedule *a, const Schedule *b)
{
    bool same = a->n == b->n;
    for (int i = 0; same && i < a->n; i++) {
        same = a->step[i].kind == b->step[i].kind && !strcmp(a->step[i].args, b->step[i].args);
    }
    return same;
}

void schedule_add(Schedule *s, StepKind kind, const char *fmt, ...)
{
    va_list ap;
    check(s->n < MAX_STEPS);
    Step *step = &s->step[s->n++];
    *step = (Step){.kind = kind};
    va_start(ap, fmt);
    int len = vsnprintf(step->args, sizeof step->args, fmt, ap);
    va_end(ap);
    check(len >= 0 && len < MAX_STEP_ARGS);
}

void steps_table(Buf *out)
{
    buf_str(out, "# Schedule steps\n\n"
                 "Made from compiler/loop/steps.h by `nanocompile dump steps`. A schedule is a "
                 "list of steps separated\n"
                 "by semicolons; exact steps never change a bit of the result.\n\n"
                 "| step | arguments | exact | meaning and legality |\n|---|---|---|---|\n");
    for (int i = 0; i < N_STEPS; i++) {
        const StepInfo *s = &step_info[i];
        buf_printf(out, "| %s | %s | %s | %s |\n", s->name, s->args, s->exact ? "yes" : "no",
                   s->meaning);
    }
}
