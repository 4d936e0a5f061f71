/* fighter.c - schedules that a session keeps for later duels, and the processes in which they
 * meet. They are kept as indices and built again when their turn comes, so that a session holds
 * the files of two at most. */
#include "tuner/session_int.h"

#include <string.h>

/* ---- what fights ------------------------------------------------------------------------- */

uint64_t session_limit_ns(const Session *s)
{
    return (uint64_t)(1e9 * s->rules.p.candidate_limit_s);
}

Built built_dup(Arena *m, const Built *b)
{
    return (Built){.schedule = b->schedule ? arena_str(m, b->schedule) : NULL,
                   .library = b->library ? arena_str(m, b->library) : NULL,
                   .symbol = b->symbol ? arena_str(m, b->symbol) : NULL,
                   .c_hash = b->c_hash,
                   .rival = b->rival};
}

void session_drop(Session *s, Built *b)
{
    const Builder *builder = &s->plan->builder;
    if (builder->drop && b->library) {
        builder->drop(builder->ctx, b);
    }
    b->library = NULL;
}

static const char *name_of(uint64_t index)
{
    return index == INDEX_DEFAULT || index == INDEX_COPY ? "the default schedule"
                                                         : "a candidate that built before";
}

void session_ready(Session *s, Fighter *f)
{
    if (f->built.library) {
        return;
    }
    const Builder *builder = &s->plan->builder;
    Build b = {.index = f->index};
    builder->build(builder->ctx, s->e, &s->making, &b, 1, session_limit_ns(s));
    if (b.status != STATUS_OK) {
        fail(s->e, E_BUILD, "%s does not build: %s", name_of(f->index),
             b.why ? b.why : status_name[b.status]);
    }
    f->built = built_dup(&s->keep, &b.built);
    arena_release(&s->making);
}

Fighter *session_incumbent(Session *s)
{
    return s->n_incumbents > 0 ? &s->incumbent[0] : &s->base;
}

double session_band(const Session *s)
{
    return s->rules.p.finalist_margins * s->result.calibration.margin;
}

/* ---- one process ------------------------------------------------------------------------- */

static uint64_t next_seed(Session *s)
{
    Rng r;
    rng_seed(&r, s->plan->seed + s->n_processes++ * UINT64_C(0x9e3779b97f4a7c15));
    return rng_u64(&r);
}

/* Of the candidate's limit; a tenth at least, for a replicate after a long search. Who is to be
 * compared because somebody asked may be as slow as it likes. */
static uint64_t time_left_ns(const Session *s, DuelStage stage)
{
    bool calibrated = s->n_calibrations > 0 && stage != DUEL_COMPARE;
    uint64_t limit_ns =
        calibrated ? budget_limit_ns(&s->rules, &s->result.calibration) : session_limit_ns(s);
    uint64_t used_ns = session_elapsed_ns(s) - s->began_ns;
    return used_ns < limit_ns - limit_ns / 10 ? limit_ns - used_ns : limit_ns / 10;
}

enum { MAX_STARTS = 3 };

/* That no process could be started says nothing of the candidate: not recorded, tried again. */
static void start_until_it_runs(Session *s, const ProcessJob *job, ProcessResult *out)
{
    const Runner *r = &s->plan->runner;
    for (int i = 0; i < MAX_STARTS; i++) {
        *out = (ProcessResult){0};
        r->process(r->ctx, s->e, &s->work, job, out);
        if (out->status == STATUS_OK || out->pid != 0) {
            return;
        }
    }
    fail(s->e, E_IO, "no process can be started: %s", out->why);
}

void session_process(Session *s, DuelStage stage, Fighter *a, Fighter *b, bool verify,
                     DuelProcess *out)
{
    const Calibration *c = &s->result.calibration;
    Terms terms = calibration_terms(c, s->plan->task->n_threads);
    StopRule stop = rules_stop(&s->rules, &terms);
    session_ready(s, a);
    session_ready(s, b);
    ProcessJob job = {.task = s->plan->task,
                      .a = &a->built,
                      .b = &b->built,
                      .stage = stage,
                      .stop = stage == DUEL_SEARCH ? &stop : NULL,
                      .n_pairs = rules_pairs(&s->rules, stage, c->wide),
                      .verify = verify,
                      .seed = next_seed(s),
                      .margin_e4 = c->margin_e4,
                      .limit_ns = time_left_ns(s, stage)};
    *out = (DuelProcess){.stage = stage, .seed = job.seed, .n_asked = job.n_pairs};
    start_until_it_runs(s, &job, &out->result);
    out->elapsed_ns = session_elapsed_ns(s);
}
