/* tuner_real.c - what the protocol promises, on this machine's own clock: twenty sessions over
 * copies of one library make no winner, a kernel with a fifth more work loses and wins as the
 * incumbent's mirror, and five tunings of a large space end at schedules that a match finds
 * equal. Minutes of measuring, so only in the long campaign (NC_FULL); needs a machine that is
 * not busy otherwise. */
#include "tests/child_util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS 1000000000u

typedef struct Real {
    Lab lab;
    Space space;
    Schedule base;
    SessionPlan plan;
    Built incumbent, challenger; /* where it is no space */
    uint64_t next;               /* of the copies that are asked for */
} Real;

static Real real;

/* Skips the test where it is not asked for. */
static void begin(const char *kernel, int64_t rows)
{
    if (!getenv("NC_FULL")) {
        cr_skip_test("measures for minutes: part of the long campaign (NC_FULL)");
    }
    memset(&real, 0, sizeof real);
    lab_init(&real.lab, kernel);
    real.lab.children.ring_limit_bytes = 0;
    real.lab.task.sym[0] = rows;
    real.plan = (SessionPlan){
        .task = &real.lab.task, .protocol = protocol_default(), .runner = real.lab.runner};
}

TestSuite(tuner_real, .timeout = 3600);

/* ---- two libraries --------------------------------------------------------------------- */

static const char plain_text[] =
    "int32_t candidate(P) { return right(p, syms, part, n_parts); }";
static const char more_text[] = "int32_t candidate(P)\n"
                                "{\n"
                                "    int64_t fifth[] = {syms[0] / 5};\n"
                                "    right(p, fifth, part, n_parts);\n"
                                "    return right(p, syms, part, n_parts);\n"
                                "}\n";

/* All candidates are copies of the challenger's library, each with C of its own by name. */
static void build_copies(void *ctx, Env *e, Arena *m, Build *batch, int n, uint64_t limit_ns)
{
    Real *r = ctx;
    (void)limit_ns;
    for (int i = 0; i < n; i++) {
        bool base = batch[i].index == INDEX_DEFAULT;
        Built of = batch[i].index >= INDEX_COPY ? r->incumbent : r->challenger;
        batch[i].built = base ? of : built_copy(e, m, &r->lab.w.cache, &of);
        if (batch[i].index < INDEX_COPY) {
            batch[i].built.c_hash = (Hash){batch[i].index + 1, 1};
        }
    }
}

static bool ask_next(void *ctx, uint64_t *index)
{
    Real *r = ctx;
    *index = r->next++;
    return true;
}

static void hear_nothing(void *ctx, uint64_t index, Status s, double ln_ratio)
{
    (void)ctx, (void)index, (void)s, (void)ln_ratio;
}

static void set_sides(const char *incumbent, const char *challenger)
{
    real.incumbent = lab_hostile(&real.lab, incumbent);
    real.challenger = lab_hostile(&real.lab, challenger);
    real.plan.builder = (Builder){&real, build_copies, NULL};
    real.plan.strategy = (Proposer){&real, ask_next, hear_nothing, NULL};
}

static void twenty_sessions(Env *e, void *arg)
{
    int *n_winners = arg;
    for (int i = 0; i < 20; i++) {
        SessionResult r;
        real.next = 0;
        real.plan.seed = (uint64_t)i;
        real.plan.budget = (Budget){.trials = 30};
        session_run(e, &real.plan, &r);
        cr_assert_eq(r.n_trials, 30, "%s", r.why);
        *n_winners += r.winner.confirmed;
        printf("session %2d: %d promoted, margin %.1f%%%s%s\n", i,
               (int)r.n_outcome[OUTCOME_PROMOTED], 100 * r.calibration.margin,
               r.noisy ? ", noisy" : "", r.winner.confirmed ? ", A WINNER" : "");
    }
}

static void copies_have_no_winner(Regime regime)
{
    int n_winners = 0;
    begin(product_text, 60);
    real.lab.task.regime = regime;
    real.lab.children.ring_limit_bytes = 64 << 20; /* how cold does not matter here */
    set_sides(plain_text, plain_text);
    real.challenger = real.incumbent;
    must_work(&real.lab.w.e, twenty_sessions, &n_winners);
    cr_assert_eq(n_winners, 0);
    lab_release(&real.lab);
}

Test(tuner_real, acceptance_14_twenty_sessions_over_copies_have_no_winner)
{
    copies_have_no_winner(REGIME_HOT);
}

/* Where a search finds the rings that it keeps, and a match its own. */
Test(tuner_real, acceptance_14_twenty_cold_sessions_over_copies_have_no_winner)
{
    copies_have_no_winner(REGIME_COLD);
}

typedef struct Meeting {
    uint64_t a, b;
    DuelStage stage;
    Duel out;
} Meeting;

static void meet(Env *e, void *arg)
{
    Meeting *m = arg;
    Session *s = session_start(e, &real.plan);
    cr_assert(session_duel(s, m->stage, m->a, m->b, &m->out), "%s", session_result(s)->why);
    session_release(s);
}

static Series title_of(const char *incumbent, const char *challenger)
{
    Meeting m = {INDEX_DEFAULT, 0, DUEL_TITLE, {0}};
    set_sides(incumbent, challenger);
    must_work(&real.lab.w.e, meet, &m);
    printf("%s, ratio %.4f [%.4f, %.4f], %d of %d processes\n",
           verdict_name[m.out.series.verdict], m.out.series.ratio.median, m.out.series.ratio.lo,
           m.out.series.ratio.hi, m.out.series.wins, m.out.series.n);
    return m.out.series;
}

Test(tuner_real, a_fifth_more_work_loses_and_its_mirror_wins)
{
    begin(product_text, 60);
    Series more = title_of(plain_text, more_text);
    cr_expect(more.outcome == OUTCOME_TITLE_FAILED && more.wins == 0);
    Series less = title_of(more_text, plain_text);
    cr_expect(less.verdict == VERDICT_FASTER && less.outcome == OUTCOME_TITLE_PASSED);
    cr_expect(less.ratio.median > 0.75 && less.ratio.median < 0.92);
    lab_release(&real.lab);
}

/* ---- a large space --------------------------------------------------------------------- */

static const char large_kernel[] =
    "kernel matmul\n"
    "y: f32[896*s0]\n"
    "a: f32[896*s0]\n"
    "b: const f32[802816]\n"
    "axis m space s0\n"
    "axis n space 896\n"
    "axis k reduce 896\n"
    "phase m n k\n"
    "    acc0: f32 = 0.0f -> acc0 + a[m*896 + k] * b[k + n*896]\n"
    "    y[m*896 + n] = acc0\n";

/* The causal softmax of a prompt: the default is not the fastest. */
static const char softmax_kernel[] =
    "kernel row\n"
    "y: f32[14*s0*s1 + 14*s1*s1]\n"
    "x0: f32[14*s0*s1 + 14*s1*s1]\n"
    "axis h space 14\n"
    "axis i space s1\n"
    "axis j space s0 + s1\n"
    "axis r reduce s0 + s1\n"
    "outer h i\n"
    "phase r\n"
    "    t0: f32 = x0[h*(s0*s1 + s1*s1) + i*(s0 + s1) + r] * 0x1p-3f\n"
    "    t1: i64 = i + s0\n"
    "    t2: bool = r <= t1\n"
    "    t3: f32 = t2 ? 0.0f : -inf\n"
    "    t4: f32 = t0 + t3\n"
    "    acc0: f32 = -inf -> acc0 < t4 || t4 != t4 ? t4 : acc0\n"
    "phase r\n"
    "    t5: f32 = x0[h*(s0*s1 + s1*s1) + i*(s0 + s1) + r] * 0x1p-3f\n"
    "    t6: i64 = i + s0\n"
    "    t7: bool = r <= t6\n"
    "    t8: f32 = t7 ? 0.0f : -inf\n"
    "    t9: f32 = t5 + t8\n"
    "    t10: f32 = t9 - acc0\n"
    "    t11: f32 = exp(t10)\n"
    "    acc1: f32 = 0.0f -> acc1 + t11\n"
    "phase j\n"
    "    t12: f32 = x0[h*(s0*s1 + s1*s1) + i*(s0 + s1) + j] * 0x1p-3f\n"
    "    t13: i64 = i + s0\n"
    "    t14: bool = j <= t13\n"
    "    t15: f32 = t14 ? 0.0f : -inf\n"
    "    t16: f32 = t12 + t15\n"
    "    t17: f32 = t16 - acc0\n"
    "    t18: f32 = exp(t17)\n"
    "    y[h*(s0*s1 + s1*s1) + i*(s0 + s1) + j] = t18 / acc1\n";

static void open_space(Env *e, void *arg)
{
    Machine machine;
    (void)arg;
    machine_read(e, "", &machine);
    PickHint hint = hint_of_machine(&machine, machine.n_threads);
    real.lab.task.n_threads = machine.n_threads;
    real.lab.task.regime = REGIME_COLD;
    hint.target = real.lab.w.tc.target;
    memcpy(hint.sym, real.lab.task.sym, sizeof hint.sym);
    space_init(e, &e->model, &real.space, real.lab.naive, &hint);
    schedule_default(e, real.lab.naive, &hint, &real.base);
}

static void build_points(void *ctx, Env *e, Arena *m, Build *batch, int n, uint64_t limit_ns)
{
    Real *r = ctx;
    Schedule *s = arena_array(m, Schedule, n);
    Attempt *made = arena_array(m, Attempt, n);
    (void)limit_ns;
    for (int i = 0; i < n; i++) {
        Point p;
        s[i] = r->base;
        if (batch[i].index < INDEX_COPY) {
            space_unrank(&r->space, batch[i].index, &p);
            space_schedule(&r->space, &p, &s[i]);
        }
    }
    candidates_build(e, m, &r->lab.w.cache, &r->lab.w.tc, r->lab.naive, s, n, 2, made);
    for (int i = 0; i < n; i++) {
        bool copy = batch[i].index == INDEX_COPY;
        batch[i].status = made[i].status;
        batch[i].why = made[i].why;
        batch[i].built =
            copy ? built_copy(e, m, &r->lab.w.cache, &made[i].built) : made[i].built;
    }
}

static bool ask_search(void *ctx, uint64_t *index)
{
    return search_ask(ctx, index);
}

static void tell_search(void *ctx, uint64_t index, Status s, double ln_ratio)
{
    search_tell(ctx, index, s, ln_ratio);
}

enum { N_TUNINGS = 5 };

static void tune_all(Env *e, void *arg)
{
    uint64_t *winner = arg;
    for (int i = 0; i < N_TUNINGS; i++) {
        Search search;
        Point p;
        SessionResult r;
        SearchSpace space = search_space(&real.space);
        search_init(e, &e->model, &search, STRATEGY_AUTO, &space, (uint64_t)i,
                    real.plan.protocol.batch);
        if (space_default(e, &real.space, &p)) {
            search_first(&search, space_rank(&real.space, &p));
        }
        real.plan.strategy = (Proposer){&search, ask_search, tell_search, NULL};
        real.plan.seed = (uint64_t)i;
        real.plan.budget = (Budget){.ns = 60 * (uint64_t)SECOND_NS};
        session_run(e, &real.plan, &r);
        winner[i] = r.winner.confirmed ? r.winner.index : INDEX_DEFAULT;
        printf("seed %d: %d candidates, ratio to the default %.4f: %s\n", i, (int)r.n_trials,
               r.winner.confirmed ? r.winner.ratio.median : 1.0,
               r.winner.confirmed ? r.winner.built.schedule : "the default");
    }
}

/* Within 2%, or the very same. */
static void assert_equal(uint64_t a, uint64_t b)
{
    Meeting m = {a, b, DUEL_EQUIVALENCE, {0}};
    if (a == b) {
        return;
    }
    must_work(&real.lab.w.e, meet, &m);
    const Series *s = &m.out.series;
    printf("%s, ratio %.4f [%.4f, %.4f] in %d processes\n", verdict_name[s->verdict],
           s->ratio.median, s->ratio.lo, s->ratio.hi, s->n);
    cr_expect_eq(s->verdict, VERDICT_EQUIVALENT);
}

/* Five seeds, a minute each; then the first one's winner meets the others'. */
static void five_tunings(void)
{
    uint64_t winner[N_TUNINGS];
    real.plan.builder = (Builder){&real, build_points, NULL};
    real.plan.protocol.equivalent = 0.02;
    must_work(&real.lab.w.e, open_space, NULL);
    printf("%llu schedules\n", (unsigned long long)real.space.n_legal);
    must_work(&real.lab.w.e, tune_all, winner);
    real.plan.budget = (Budget){.ns = 60 * (uint64_t)SECOND_NS};
    for (int i = 1; i < N_TUNINGS; i++) {
        assert_equal(winner[0], winner[i]);
    }
    lab_release(&real.lab);
}

Test(tuner_real, five_tunings_of_a_large_space_end_equal)
{
    begin(large_kernel, 11);
    five_tunings();
}

Test(tuner_real, five_tunings_with_something_to_win_end_equal)
{
    begin(softmax_kernel, 0);
    real.lab.task.sym[1] = 64;
    five_tunings();
}
