/* explain_answer.c - what a build would take at a call site: the database is asked, and what it says is
 * judged by the picker that builds use: is the schedule still legal, does it still give the C that was
 * measured? Without a database every call site misses. */
#include <string.h>

#include "cli/explain.h"

void here_init(Env *e, Here *h, int n_threads)
{
    h->e = e;
    machine_read(e, "", &h->machine);
    toolchain_find(e, &h->tc);
    h->n_threads = n_threads ? n_threads : h->machine.n_threads;
    db_machine_here(e, &e->model, "", &h->machine, &h->db_machine);
    h->db_toolchain = toolchain_row(&e->model, &h->tc);
}

typedef struct Judged {
    PickOutcome outcome;
    const char *why;
    Arena *m;
} Judged;

static void note(void *ctx, const Kernel *k, PickOutcome o, const TunedRow *row,
                 const char *why)
{
    Judged *j = ctx;
    (void)k;
    (void)row;
    j->outcome = o;
    j->why = why ? arena_str(j->m, why) : "";
}

/* The recorded schedule, as a row of the picker; or why its text cannot be one. */
static bool row_of(const Site *s, const DbAnswer *found, TunedRow *row, Err *err)
{
    bool hit = found->found == DB_HIT;
    *row = (TunedRow){.key = s->kernel->hash,
                      .text = s->kernel->text,
                      .c_hash = hit ? found->winner.c_hash : found->imported.c_hash};
    return schedule_parse(hit ? found->winner.schedule : found->imported.schedule,
                          &row->schedule, err);
}

static void take_recorded(const Here *h, Answer *a)
{
    TunedRow row;
    Err err;
    Judged judged = {.m = &h->e->model};
    Tuned tuned = {&row, 1, note, &judged};
    Picker picker = picker_tuned(&tuned);
    if (!row_of(a->site, &a->found, &row, &err)) {
        tuned.n = 0;
        judged.why = arena_str(judged.m, err.text);
    }
    const char *unreadable = judged.why;
    picker.pick(picker.ctx, h->e, a->site->kernel, &a->site->hint, &a->schedule);
    if (!tuned.n) {
        a->outcome = pick_outcome_name(PICK_REFUSED);
        a->why = unreadable;
    } else if (judged.outcome != PICK_HIT) {
        a->outcome = pick_outcome_name(judged.outcome);
        a->why = judged.why;
    }
}

static void ask(const Here *h, Answer *a)
{
    static const char *const outcomes[] = {[DB_HIT] = "hit",
                                           [DB_IMPORTED_ROW] = "imported",
                                           [DB_KEPT] = "kept",
                                           [DB_MISS] = "miss"};
    if (!h->db) {
        a->found.found = DB_MISS;
        a->outcome = "miss", a->field = "database", a->why = h->no_db.text;
        return;
    }
    db_lookup(h->db, &h->e->model, &a->key, &a->found);
    a->outcome = outcomes[a->found.found];
    a->why = a->found.why;
    if (a->found.found == DB_MISS) {
        a->field = db_key_field_name(a->found.field);
    }
}

void answer_find(const Here *h, const Site *s, Answer *a)
{
    Env *e = h->e;
    Err err;
    *a = (Answer){.site = s, .outcome = "", .field = "", .why = ""};
    a->key = (DbKey){s->kernel->text, s->sym,         s->kernel->n_syms, s->n_threads,
                     s->regime,       &h->db_machine, &h->db_toolchain};
    ask(h, a);
    if (a->found.found == DB_HIT || a->found.found == DB_IMPORTED_ROW) {
        take_recorded(h, a);
    } else {
        schedule_default(e, s->kernel, &s->hint, &a->schedule);
    }
    a->built = kernel_schedule(e, &e->model, s->kernel, &a->schedule, a->schedule.n, &err);
    if (!a->built) {
        fail_err(e, &err);
    }
    a->c_hash = emit_hash(e, a->built, h->tc.target);
    env_reset_kernel(e);
}
