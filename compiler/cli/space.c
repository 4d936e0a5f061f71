/* space.c - `nanocompile dump space`: what can be tuned in a kernel on this machine. One row is
 * a knob with its choices, a rule with its reason, a count, or the default schedule. */
#include <string.h>

#include "cli/cli.h"
#include "schedules/schedules.h"

Table space_table(Env *e, const Source *s, Compile *c)
{
    static const char *const columns[] = {"#kernel", "class",   "what",
                                          "name",    "choices", "meaning"};
    Table t;
    Machine m;
    table_init(&t, &e->model, "space", countof(columns), columns);
    machine_read(e, "", &m);
    c->hint = hint_of_machine(&m, m.n_threads);
    for (int i = 0; i < s->sizes.n; i++) {
        Sym sym = sym_intern(e, s->sizes.at[i].name, strlen(s->sizes.at[i].name));
        c->usual[sym] = s->sizes.at[i].value;
        c->usual_known[sym] = true;
    }
    return t;
}

static void row(Table *t, int kernel, const Space *s, const char *what, const char *name,
                const char *choices, const char *meaning)
{
    table_cell(t, "%d", kernel);
    table_cell(t, "%s", class_name(s->class));
    table_cell(t, "%s", what);
    table_cell(t, "%s", name);
    table_cell(t, "%s", choices);
    table_cell(t, "%s", meaning);
}

static void knob_rows(Env *e, Table *t, int kernel, const Space *s)
{
    for (int i = 0; i < s->n_knobs; i++) {
        Buf words;
        buf_init(&words, &e->kernel);
        for (int c = 0; c < s->knob[i].n; c++) {
            buf_str(&words, c ? " " : "");
            knob_word(s, i, c, &words);
        }
        row(t, kernel, s, "knob", s->knob[i].name, words.at, s->knob[i].meaning);
    }
}

static void default_row(Env *e, Table *t, int kernel, const Space *s)
{
    Schedule schedule;
    Point p;
    Buf text;
    bool inside = space_default(e, s, &p);
    buf_init(&text, &e->kernel);
    schedule_default(e, s->kernel, &s->hint, &schedule);
    schedule_print(&schedule, &text);
    const char *rank =
        inside ? arena_printf(&e->kernel, "%llu", (unsigned long long)space_rank(s, &p)) : "-";
    row(t, kernel, s, "default", "rank", rank, text.at);
}

void space_rows(Env *e, Table *t, const Compile *c, const Program *p, int kernel)
{
    Space s;
    PickHint hint = compile_hint(c, p, kernel);
    space_init(e, &e->model, &s, p->kernel.at[kernel], &hint);
    knob_rows(e, t, kernel, &s);
    for (int i = 0; i < s.n_rules; i++) {
        row(t, kernel, &s, "rule", s.rule[i].name, "", s.rule[i].reason);
    }
    row(t, kernel, &s, "count", "points",
        arena_printf(&e->kernel, "%llu", (unsigned long long)s.n_points),
        "all combinations of choices");
    row(t, kernel, &s, "count", "schedules",
        arena_printf(&e->kernel, "%llu", (unsigned long long)s.n_legal),
        "that keep every rule, each another schedule");
    default_row(e, t, kernel, &s);
}
