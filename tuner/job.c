/* job.c - what a process is asked to do, as text: it crosses fork and exec in shared memory.
 * One value a line, in the order of the tables below; texts and lists are preceded by their
 * length, since paths may hold any byte. The parser takes only what the printer writes: a job
 * that was damaged measures something else. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/tuner.h"

#define HEADLINE "nanocompile job 1\n"

enum {
    MAX_TEXT_BYTES = 16 << 20,
    MAX_SYMBOL_BYTES = 35,
    MAX_THREADS = 4096,
    MAX_PAIRS = 100000,
    MAX_X100 = 1000000,
    PAD_STEPS = 256, /* of 16 bytes */
};

/* Columns: field, least, most */
#define NUMBERS(X)                        \
    X(task.n_threads, 1, MAX_THREADS)     \
    X(task.regime, 0, N_REGIMES - 1)      \
    X(job.stage, 0, N_DUEL_STAGES - 1)    \
    X(job.n_pairs, 0, MAX_PAIRS)          \
    X(job.verify, 0, 1)                   \
    X(job.margin_e4, 0, 9999)             \
    X(parent, 1, INT32_MAX)               \
    X(cpu, -1, INT32_MAX)                 \
    X(stack_pad, 0, 16 * (PAD_STEPS - 1)) \
    X(b_loaded_first, 0, 1)               \
    X(may_ask, 0, 1)                      \
    X(a.rival, 0, 1)                      \
    X(b.rival, 0, 1)                      \
    X(stop.warm_x100, 0, MAX_X100)        \
    X(stop.first_x100, 0, MAX_X100)       \
    X(stop.third_x100, 0, MAX_X100)       \
    X(stop.most_flagged, 0, 64)           \
    X(stop.window, 0, 64)                 \
    X(stop.metric, 0, N_METRICS - 1)

#define WIDE_NUMBERS(X) \
    X(task.rotates)     \
    X(job.seed)         \
    X(job.limit_ns)     \
    X(ring_limit_bytes) \
    X(a.c_hash.hi)      \
    X(a.c_hash.lo)      \
    X(b.c_hash.hi)      \
    X(b.c_hash.lo)

/* Columns: field, most bytes */
#define TEXTS(X)                   \
    X(task.kernel, MAX_TEXT_BYTES) \
    X(a.schedule, MAX_TEXT_BYTES)  \
    X(a.library, MAX_TEXT_BYTES)   \
    X(a.symbol, MAX_SYMBOL_BYTES)  \
    X(b.schedule, MAX_TEXT_BYTES)  \
    X(b.library, MAX_TEXT_BYTES)   \
    X(b.symbol, MAX_SYMBOL_BYTES)  \
    X(root, MAX_TEXT_BYTES)

/* ---- what follows from the seed ------------------------------------------------------ */

bool pair_b_first(uint64_t seed, int nth)
{
    uint64_t state = seed + (uint64_t)nth * 0x9e3779b97f4a7c15; /* splitmix64's own step */
    return splitmix64(&state) >> 63;
}

static void point_inside(ChildJob *j)
{
    j->job.task = &j->task;
    j->job.a = &j->a;
    j->job.b = &j->b;
    j->job.stop = j->job.stop ? &j->stop : NULL;
}

void child_job_init(ChildJob *out, const ProcessJob *job)
{
    static const StopRule none = {0};
    uint64_t state = job->seed ^ 0x6c61796f7574; /* another stream than that of the orders */
    *out = (ChildJob){.task = *job->task,
                      .a = *job->a,
                      .b = *job->b,
                      .stop = job->stop ? *job->stop : none,
                      .job = *job,
                      .root = "",
                      .cpu = -1};
    out->stack_pad = (int)(splitmix64(&state) % PAD_STEPS) * 16;
    out->b_loaded_first = splitmix64(&state) >> 63;
    point_inside(out);
}

/* ---- printing ------------------------------------------------------------------------ */

static void print_text(Buf *out, const char *name, const char *text)
{
    size_t len = strlen(text);
    buf_printf(out, "%s %zu ", name, len);
    buf_bytes(out, text, len);
    buf_char(out, '\n');
}

static void print_table(Buf *out, const char *name, const int16_t *at, int n)
{
    buf_str(out, name);
    for (int i = 0; i < n; i++) {
        buf_printf(out, " %d", at[i]);
    }
    buf_char(out, '\n');
}

void child_job_print(const ChildJob *j, Buf *out)
{
    buf_str(out, HEADLINE);
#define X(field, least, most) buf_printf(out, #field " %" PRId64 "\n", (int64_t)j->field);
    NUMBERS(X)
#undef X
#define X(field) buf_printf(out, #field " %" PRIu64 "\n", j->field);
    WIDE_NUMBERS(X)
#undef X
#define X(field, most) print_text(out, #field, j->field);
    TEXTS(X)
#undef X
    buf_printf(out, "task.n_syms %d\ntask.sym", j->task.n_syms);
    for (int i = 0; i < j->task.n_syms; i++) {
        buf_printf(out, " %" PRId64, j->task.sym[i]);
    }
    buf_printf(out, "\nstop %d\nstop.n %d\n", j->job.stop != NULL, j->stop.n);
    print_table(out, "stop.win", j->stop.win, j->stop.n);
    print_table(out, "stop.lose", j->stop.lose, j->stop.n);
}

/* ---- parsing ------------------------------------------------------------------------- */

typedef struct Scan {
    Arena *m;
    const char *at, *end;
    const char *field; /* the one that is read, for the message */
    bool bad;
} Scan;

static void take(Scan *s, const char *word)
{
    size_t len = strlen(word);
    s->bad = s->bad || (size_t)(s->end - s->at) < len || memcmp(s->at, word, len) != 0;
    s->at += s->bad ? 0 : len;
}

static void begin(Scan *s, const char *field)
{
    s->field = s->bad ? s->field : field;
    take(s, field);
}

/* Digits as they are printed: no leading zeros, no sign but a minus. */
static uint64_t take_digits(Scan *s, uint64_t most)
{
    uint64_t v = 0;
    const char *from = s->at;
    while (!s->bad && s->at < s->end && *s->at >= '0' && *s->at <= '9') {
        uint64_t digit = (uint64_t)(*s->at++ - '0');
        s->bad = v > (most - digit) / 10;
        v = v * 10 + digit;
    }
    s->bad = s->bad || s->at == from || (*from == '0' && s->at > from + 1) || v > most;
    return s->bad ? 0 : v;
}

static int64_t take_number(Scan *s, int64_t least, int64_t most)
{
    take(s, " ");
    bool minus = !s->bad && s->at < s->end && *s->at == '-';
    s->at += minus;
    uint64_t size = take_digits(s, minus ? -(uint64_t)least : (uint64_t)most);
    int64_t v = minus ? (int64_t)-size : (int64_t)size;
    s->bad = s->bad || v < least || v > most || (minus && least >= 0) || (minus && v == 0);
    return s->bad ? (least > 0 ? least : 0) : v;
}

static const char *take_text(Scan *s, const char *field, int64_t most)
{
    begin(s, field);
    size_t len = (size_t)take_number(s, 0, most);
    take(s, " ");
    s->bad = s->bad || (size_t)(s->end - s->at) < len || memchr(s->at, 0, len);
    if (s->bad) {
        return "";
    }
    const char *text = arena_strn(s->m, s->at, len);
    s->at += len;
    take(s, "\n");
    return text;
}

static const int16_t *take_table(Scan *s, const char *field, int n)
{
    int16_t *at = s->bad ? NULL : arena_array(s->m, int16_t, n + 1);
    begin(s, field);
    for (int i = 0; !s->bad && i < n; i++) {
        at[i] = (int16_t)take_number(s, -1, INT16_MAX);
    }
    take(s, "\n");
    return at;
}

static void take_numbers(Scan *s, ChildJob *j)
{
    take(s, HEADLINE);
#define X(f, least, most)                                     \
    begin(s, #f);                                             \
    j->f = (__typeof__(j->f))take_number(s, (least), (most)); \
    take(s, "\n");
    NUMBERS(X)
#undef X
#define X(f)                           \
    begin(s, #f);                      \
    take(s, " ");                      \
    j->f = take_digits(s, UINT64_MAX); \
    take(s, "\n");
    WIDE_NUMBERS(X)
#undef X
}

static void take_lists(Scan *s, ChildJob *j)
{
    begin(s, "task.n_syms");
    j->task.n_syms = (int)take_number(s, 0, MAX_SYMBOLS);
    take(s, "\n");
    begin(s, "task.sym");
    for (int i = 0; i < j->task.n_syms; i++) {
        j->task.sym[i] = take_number(s, 0, INT64_MAX);
    }
    take(s, "\n");
    begin(s, "stop");
    bool stops = take_number(s, 0, 1);
    take(s, "\n");
    begin(s, "stop.n");
    j->stop.n = (int)take_number(s, 0, MAX_PAIRS + 1);
    take(s, "\n");
    j->stop.win = take_table(s, "stop.win", j->stop.n);
    j->stop.lose = take_table(s, "stop.lose", j->stop.n);
    j->job.stop = stops ? &j->stop : NULL;
}

bool child_job_parse(Arena *m, const char *text, size_t len, ChildJob *out, Err *err)
{
    Scan s = {.m = m, .at = text, .end = text + len, .field = "headline"};
    *out = (ChildJob){0};
    take_numbers(&s, out);
#define X(f, most) out->f = take_text(&s, #f, most);
    TEXTS(X)
#undef X
    take_lists(&s, out);
    point_inside(out);
    if (s.bad || s.at != s.end) {
        return err_set(err, E_SYNTAX, "The job is malformed at byte %td, field %s.",
                       s.at - text, s.bad ? s.field : "end");
    }
    return true;
}
