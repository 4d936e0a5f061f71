/* confirm.c - what a session may claim: the champion's title match against the default,
 * earlier incumbents where it fails, the set of those that are as good as the winner, and
 * the canonical one of them. A match is recorded process by process, so that one that was
 * interrupted goes on with the evidence it had: starting over until it passes would prove
 * nothing. MEASUREMENT 2.9 */
#include "tuner/session_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one match --------------------------------------------------------------------------- */

static bool past_process(Session *s, int duel, int ordinal, DuelProcess *out)
{
    const Past *p = s->plan->past;
    if (s->past_over || !p->process(p->ctx, &s->work, duel, ordinal, out)) {
        return false;
    }
    s->n_processes++;
    session_reach(s, out->elapsed_ns);
    return true;
}

static bool out_of_time(Session *s)
{
    return session_interrupted(s) || session_left_ns(s) == 0;
}

/* False: there is no time for another process. */
static bool play_process(Session *s, Duel *d, Fighter *a, Fighter *b)
{
    DuelProcess p;
    bool recorded = past_process(s, d->ordinal, d->series.n, &p);
    if (!recorded) {
        session_go_live(s);
        if (out_of_time(s)) {
            return false;
        }
        s->began_ns = session_elapsed_ns(s);
        session_process(s, d->stage, a, b, d->series.n == 0, &p);
        d->built_a = a->built;
        d->built_b = b->built;
    }
    series_add(&d->series, &p.result);
    d->elapsed_ns = p.elapsed_ns;
    d->status = p.result.status;
    snprintf(d->why, sizeof d->why, "%s", d->status == STATUS_OK ? "" : p.result.why);
    const Recorder *r = &s->plan->recorder;
    if (!recorded && r->process) {
        r->process(r->ctx, d, &p);
    }
    arena_release(&s->work);
    return true;
}

static void play(Session *s, DuelStage stage, double alpha, Fighter *a, Fighter *b, Duel *d)
{
    *d = (Duel){.ordinal = s->n_duels++,
                .stage = stage,
                .a = a->index,
                .b = b->index,
                .terms = calibration_terms(&s->result.calibration, s->plan->task->n_threads),
                .built_a = a->built,
                .built_b = b->built};
    series_start(&d->series, &s->rules, stage, alpha, d->terms.metric);
    while (d->series.outcome == OUTCOME_NONE) {
        if (!play_process(s, d, a, b)) {
            series_cut(&d->series);
        }
    }
    if (s->plan->recorder.duel) {
        s->plan->recorder.duel(s->plan->recorder.ctx, d);
    }
}

/* ---- the title --------------------------------------------------------------------------- */

static void crown(Session *s, const Fighter *f, const Duel *d, bool canonical)
{
    const Series *m = &d->series;
    s->result.winner = (Winner){.confirmed = true,
                                .index = f->index,
                                .built = f->built,
                                .default_c_hash = s->base.built.c_hash,
                                .duel = d->ordinal,
                                .ratio = m->ratio,
                                .n_processes = m->n,
                                .n_wins = m->wins,
                                .n_pairs = m->n_pairs,
                                .p = series_p(m),
                                .canonical = canonical};
}

static void record_winner(Session *s)
{
    if (s->plan->recorder.winner) {
        s->plan->recorder.winner(s->plan->recorder.ctx, &s->result.winner);
    }
}

/* The winner's and the default's C and files, also where all their processes are of the
 * past. */
static void ready_both(Session *s, Fighter *f)
{
    session_ready(s, &s->base);
    session_ready(s, f);
}

/* The champion, else those before it, each at half the chance of error. NULL: none is shown to
 * be faster than the default. */
static Fighter *title_match(Session *s, Duel *d)
{
    const Protocol *p = &s->rules.p;
    double alpha = p->alpha_title;
    for (int i = 0; i < s->n_incumbents && i <= p->title_fallbacks; i++) {
        Fighter *f = &s->incumbent[i];
        play(s, DUEL_TITLE, alpha, &s->base, f, d);
        if (d->series.outcome == OUTCOME_TITLE_PASSED) {
            ready_both(s, f);
            crown(s, f, d, false);
            return f;
        }
        if (d->series.outcome == OUTCOME_CUT) {
            return NULL;
        }
        alpha *= p->title_next;
    }
    return NULL;
}

/* ---- those that are as good -------------------------------------------------------------- */

typedef Vec(Tie) Ties;

static void add_tie(Session *s, Ties *ties, const Finalist *f, int duel, Interval ratio)
{
    *vec_push(&s->keep, ties) = (Tie){.index = f->index,
                                      .schedule = f->schedule,
                                      .c_hash = f->c_hash,
                                      .duel = duel,
                                      .ratio = ratio};
}

static void play_for_tie(Session *s, Fighter *champion, const Finalist *f, Ties *ties)
{
    Fighter other = {.index = f->index, .built = {.schedule = f->schedule}};
    Duel d;
    play(s, DUEL_EQUIVALENCE, s->rules.p.alpha_title, champion, &other, &d);
    session_drop(s, &other.built);
    if (d.series.verdict == VERDICT_EQUIVALENT) {
        add_tie(s, ties, f, d.ordinal, d.series.ratio);
    }
}

static bool is_champion(const Fighter *champion, const Finalist *f)
{
    return f->index == champion->index || hash_eq(f->c_hash, champion->built.c_hash);
}

/* Those between the two estimates, in canonical order: the first that ties is the pick. */
static void play_band(Session *s, Fighter *champion, double above, double most, Ties *ties)
{
    for (int i = 0; i < s->n_finalists; i++) {
        const Finalist *f = &s->finalist[i];
        bool here = f->ln_default > above && f->ln_default <= most;
        bool time = !s->past_over || !out_of_time(s);
        if (here && time && !is_champion(champion, f) &&
            s->n_ties_played < s->rules.p.finalist_matches) {
            s->n_ties_played++;
            play_for_tie(s, champion, f, ties);
        }
    }
}

static int compare_ties(const void *a, const void *b)
{
    const Tie *x = a, *y = b;
    Finalist f = {.index = x->index,
                  .n_steps = schedule_steps(x->schedule),
                  .schedule = (char *)x->schedule};
    Finalist g = {.index = y->index,
                  .n_steps = schedule_steps(y->schedule),
                  .schedule = (char *)y->schedule};
    return finalist_before(&g, &f) - finalist_before(&f, &g);
}

/* Matches are few: those that look equivalent play before those that only might be. */
static void find_ties(Session *s, Fighter *champion, Ties *ties)
{
    Interval one = {.median = 1, .lo = 1, .hi = 1, .coverage = 1};
    double near = champion->ln_default + log1p(s->rules.p.equivalent);
    double most = champion->ln_default + session_band(s);
    finalists_admit(s, champion);
    finalists_sort(s);
    for (int i = 0; i < s->n_finalists; i++) {
        if (is_champion(champion, &s->finalist[i])) {
            add_tie(s, ties, &s->finalist[i], -1, one);
        }
    }
    play_band(s, champion, -INFINITY, near, ties);
    play_band(s, champion, near, most, ties);
    qsort(ties->at, (size_t)ties->n, sizeof *ties->at, compare_ties);
}

/* The canonical one has to show for itself that it is faster than the default; with the
 * champion's own C it has. */
static void pick(Session *s, const Fighter *champion, const Tie *first)
{
    if (first->index == champion->index) {
        return;
    }
    Fighter f = {.index = first->index, .built = {.schedule = first->schedule}};
    if (first->duel < 0) {
        session_ready(s, &f);
        s->result.winner.index = f.index;
        s->result.winner.built = f.built;
        s->result.winner.canonical = true;
        record_winner(s);
        return;
    }
    Duel d;
    play(s, DUEL_TITLE, s->rules.p.alpha_title, &s->base, &f, &d);
    if (d.series.outcome == OUTCOME_TITLE_PASSED) {
        session_ready(s, &f);
        crown(s, &f, &d, true);
        record_winner(s);
    }
}

static void settle_ties(Session *s, Fighter *champion)
{
    Ties ties = {0};
    find_ties(s, champion, &ties);
    pick(s, champion, &ties.at[0]);
    if (session_interrupted(s)) {
        session_end(s, ENDING_INTERRUPTED,
                    "stopped in the matches of the tie set; the champion is recorded");
        return;
    }
    TieSet set = {champion->index, s->result.winner.index, ties.n, ties.at};
    if (s->plan->recorder.ties) {
        s->plan->recorder.ties(s->plan->recorder.ctx, &set);
    }
}

/* ---- the end ----------------------------------------------------------------------------- */

static void say_why_not(Session *s, const Duel *d)
{
    bool cut = s->n_incumbents > 0 && d->series.outcome == OUTCOME_CUT;
    if (session_interrupted(s)) {
        session_end(s, ENDING_INTERRUPTED, "stopped in the title match after %d processes",
                    d->series.n);
    } else if (cut) {
        session_end(s, ENDING_BUDGET,
                    "no confirmed improvement: the budget ended in the title match after %d "
                    "processes; the default is kept",
                    d->series.n);
    } else {
        size_t len = strlen(s->result.why);
        snprintf(s->result.why + len, sizeof s->result.why - len,
                 "; no confirmed improvement; the default is kept");
    }
}

static void confirm(Session *s)
{
    Duel d = {0};
    Fighter *champion = title_match(s, &d);
    if (champion) {
        record_winner(s);
        settle_ties(s, champion);
    } else {
        say_why_not(s, &d);
        if (s->result.ending != ENDING_INTERRUPTED) {
            record_winner(s);
        }
    }
}

void session_finish(Session *s)
{
    static const bool can_confirm[N_ENDINGS] = {
        [ENDING_EXHAUSTED] = true, [ENDING_BUDGET] = true};
    if (s->result.ending == ENDING_OPEN) {
        session_end(s, ENDING_BUDGET, "the search was ended after %lld candidates",
                    (long long)s->result.n_trials);
    }
    if (can_confirm[s->result.ending]) {
        session_enter(s);
        confirm(s);
        session_leave(s);
    }
}

/* ---- any two ----------------------------------------------------------------------------- */

bool session_duel(Session *s, DuelStage stage, uint64_t a, uint64_t b, Duel *out)
{
    *out = (Duel){.ordinal = -1, .stage = stage, .a = a, .b = b};
    session_enter(s);
    bool calibrated = s->result.ending == ENDING_OPEN && gate_pass(s);
    if (calibrated) {
        Fighter of_a = {.index = a}, of_b = {.index = b};
        Fighter *fa = a == INDEX_DEFAULT ? &s->base : &of_a;
        Fighter *fb = b == INDEX_COPY ? &s->copy : &of_b;
        play(s, stage, s->rules.p.alpha_title, fa, fb, out);
        out->built_a = built_dup(&s->keep, &fa->built);
        out->built_b = built_dup(&s->keep, &fb->built);
        session_drop(s, &of_a.built);
        session_drop(s, &of_b.built);
    }
    session_leave(s);
    return calibrated;
}
