/* build_pick.c - the schedule of each kernel of a build: what the database holds, or a .sched file, judged
 * as `explain` judges it, else the default. Every answer is kept, for the manifest.
 * needs: to be asked as compile_model asks, kernel by kernel in order. */
#include "cli/build.h"

#include <string.h>

static void read_sched(Env *e, Picks *p)
{
    char *text;
    size_t len;
    Err err;
    const Here *h = &p->here;
    if (!os_read_file(&e->model, p->o->sched, 64 << 20, &text, &len, &err)) {
        fail_err(e, &err);
    }
    sched_parse(e, text, len, p->o->sched,
                db_signature(&e->model, &h->db_machine, &h->db_toolchain, h->n_threads, "cold"),
                &p->file);
}

/* ---- judging --------------------------------------------------------------------------------- */

static Site site_of(const Here *h, const Kernel *k, const PickHint *hint)
{
    Site s = {.label = "",
              .kernel = k,
              .n_threads = h->n_threads,
              .regime = "cold",
              .n_calls = 1,
              .hint = *hint};
    for (int i = 0; i < k->n_syms; i++) {
        s.sym[i] = hint->sym[i] < 0 ? 0 : hint->sym[i];
    }
    return s;
}

typedef struct FromFile {
    Answer *a;
    Arena *m;
} FromFile;

static void note_file(void *ctx, const Kernel *k, PickOutcome o, const TunedRow *row,
                      const char *why)
{
    FromFile *f = ctx;
    (void)k, (void)row;
    f->a->outcome = pick_outcome_name(o);
    f->a->why = why ? arena_str(f->m, why) : "";
}

static void ask_file(Env *e, const Picks *p, const Site *s, Answer *a)
{
    FromFile f = {a, &e->model};
    Tuned tuned = {p->file.row.at, p->file.row.n, note_file, &f};
    Picker picker = picker_tuned(&tuned);
    picker.pick(picker.ctx, e, s->kernel, &s->hint, &a->schedule);
}

/* Without the steps that change bits. */
static Schedule exact_part(const Schedule *s)
{
    Schedule out = {.n = 0};
    for (int i = 0; i < s->n; i++) {
        StepKind k = s->step[i].kind;
        if (k != STEP_FMA && k != STEP_ACC && k != STEP_APPROX) {
            out.step[out.n++] = s->step[i];
        }
    }
    return out;
}

static bool is_exact(Env *e, const Kernel *k, const Schedule *s)
{
    Err err;
    const Kernel *scheduled = kernel_schedule(e, &e->model, k, s, s->n, &err);
    return scheduled && kernel_exact(scheduled);
}

static void make_exact(Env *e, const Site *s, Answer *a)
{
    if (is_exact(e, s->kernel, &a->schedule)) {
        return;
    }
    a->schedule = exact_part(&a->schedule);
    if (!is_exact(e, s->kernel, &a->schedule)) {
        a->schedule = (Schedule){.n = 0};
    }
    a->outcome = "refused";
    a->why = "The schedule's bits are not the naive nest's.";
}

void pick_default(Env *e, const Picks *p, const Site *s, bool in_place, Schedule *out)
{
    PickHint hint = s->hint;
    Answer a = {.outcome = "default"};
    hint.in_place = hint.in_place || in_place;
    schedule_default(e, s->kernel, &hint, &a.schedule);
    if (p->o->exact_only) {
        make_exact(e, s, &a);
    }
    *out = a.schedule;
}

static void pick(void *ctx, Env *e, const Kernel *k, const PickHint *hint, Schedule *out)
{
    Picks *p = ctx;
    Site *s = arena_new(&e->model, Site);
    Answer a = {.outcome = "default", .field = "", .why = "", .found.found = DB_MISS};
    *s = site_of(&p->here, k, hint);
    if (p->o->sched) {
        ask_file(e, p, s, &a);
    } else if (p->o->naive) {
        a.outcome = "naive";
        a.why = "No schedules were asked for.";
    } else if (p->o->no_db || p->o->untuned) {
        schedule_default(e, k, hint, &a.schedule);
        a.why = "Default schedules were asked for.";
    } else {
        answer_find(&p->here, s, &a);
    }
    if (p->o->exact_only) {
        make_exact(e, s, &a);
    }
    *vec_push(&e->model, &p->at) = (Picked){s, a};
    *out = a.schedule;
}

/* ---- for others -------------------------------------------------------------------------------- */

void picks_open(Env *e, Picks *p, const BuildOptions *o)
{
    Here *h = &p->here;
    *p = (Picks){.o = o, .picker = {pick, p}};
    here_init(e, h, o->n_threads);
    if (o->sched) {
        read_sched(e, p);
    } else if (!o->no_db) {
        h->db = db_open(e, o->db, DB_READ, &h->no_db);
        if (!h->db && o->db) {
            fail_err(e, &h->no_db);
        }
    }
}

void picks_close(Picks *p)
{
    db_close(p->here.db);
}

const Picked *pick_of(const Picks *p, const LibraryParts *parts, int part, int kernel)
{
    int first = 0;
    for (int i = 0; i < part; i++) {
        first += parts->part[i].program->kernel.n;
    }
    return &p->at.at[first + kernel];
}

bool picked_tuned(const Picked *x)
{
    static const char *const tuned[] = {"hit", "kept", "imported"};
    for (size_t i = 0; i < countof(tuned); i++) {
        if (!strcmp(x->answer.outcome, tuned[i])) {
            return true;
        }
    }
    return false;
}

bool picked_winner(const Picked *x)
{
    return !strcmp(x->answer.outcome, "hit") && x->answer.found.found == DB_HIT;
}

void picks_explain(void *ctx, int part, int kernel, const char **outcome, const char **why)
{
    const Building *b = ctx;
    const Picked *x = pick_of(&b->picks, &b->library.parts, part, kernel);
    const DbWinner *w = &x->answer.found.winner;
    *outcome = x->answer.outcome;
    *why = picked_winner(x)
               ? arena_printf(
                     &b->picks.here.e->model,
                     "run %016llx, trial %lld: %.2f times as fast as the default (%.2f to "
                     "%.2f)",
                     (unsigned long long)w->run, (long long)w->trial, 1 / w->ratio,
                     1 / w->ratio_hi, 1 / w->ratio_lo)
               : x->answer.why;
}
