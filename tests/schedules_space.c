/* schedules_space.c - spaces: counts are exact, every rank is one point and every point one
 * schedule, samples are uniform, and what the rules let pass the mechanism accepts. */
#include "tests/env_fixture.h"
#include "tests/gen.h"
#include "tests/schedules_util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(schedules_space, .init = start, .fini = stop, .timeout = 600);

#define SMALL 4000 /* schedules: visited whole */

typedef void SpaceCheck(Space *s);

typedef struct Visit {
    SpaceCheck *each;
    int n_graphs;
} Visit;

static void visit_program(const Program *p, const PickHint *hint, SpaceCheck *each)
{
    for (int i = 0; i < p->kernel.n; i++) {
        Space s;
        space_init(&env, &env.model, &s, p->kernel.at[i], hint);
        each(&s);
        env_reset_kernel(&env);
    }
}

/* Spaces of every class: of the model at known and unknown sizes, of random graphs fused and
 * not. */
static void visit_all(Env *e, void *arg)
{
    const Visit *v = arg;
    static const int64_t usual[] = {-1, 1, 13};
    for (size_t i = 0; i < countof(usual); i++) {
        PickHint hint = hint_at(target_named(i % 2 ? "avx2" : "avx512"), 2 + (int)i, usual[i]);
        hint.l2_bytes = 1 << 20;
        Graph *g = model_graph(e, size_odd, true);
        if (i == 1) {
            graph_mark_bf16(g);
        }
        visit_program(compiled(e, g, i == 2 ? ALL_STAGES : 0, NULL), &hint, v->each);
    }
    for (int i = 0; i < v->n_graphs; i++) {
        Rng r;
        rng_seed(&r, (uint64_t)i);
        PickHint hint =
            hint_at(target_named(i % 2 ? "generic" : "avx512"), 1 + i % 3, i % 4 - 1);
        visit_program(compiled(e, gen_graph(e, &r), i % 2 ? 1u << STAGE_FUSE : 0, NULL), &hint,
                      v->each);
    }
}

static void all_spaces(SpaceCheck *each, int n_graphs)
{
    Visit v = {each, n_graphs};
    must_work(&env, visit_all, &v);
}

static const char *text_at(const Space *s, const Point *p)
{
    Schedule schedule;
    Buf text;
    buf_init(&text, &env.kernel);
    space_schedule(s, p, &schedule);
    schedule_print(&schedule, &text);
    return text.at;
}

/* ---- counting ---- */

static bool next_point(const Space *s, Point *p)
{
    for (int i = s->n_knobs - 1; i >= 0; i--) {
        if (++p->at[i] < s->knob[i].n) {
            return true;
        }
        p->at[i] = 0;
    }
    return false;
}

/* Visiting all points in knob order meets rank after rank. */
static void counts_are_exact(Space *s)
{
    uint64_t legal = 0, points = 0;
    Point p = {{0}};
    if (s->n_points > 100000) {
        return;
    }
    do {
        points++;
        if (space_legal(s, &p, NULL)) {
            if (legal % 7 == 0 || s->n_legal < 500) {
                cr_assert_eq(space_rank(s, &p), legal, "%s", s->kernel->text);
            }
            legal++;
        }
    } while (next_point(s, &p));
    cr_assert_eq(points, s->n_points);
    cr_assert_eq(legal, s->n_legal, "%s: %llu, not %llu", s->kernel->text,
                 (unsigned long long)s->n_legal, (unsigned long long)legal);
}

Test(schedules_space, counts_equal_brute_force)
{
    all_spaces(counts_are_exact, 20);
}

static void ranks_come_back(Space *s)
{
    Rng r;
    Point p, q;
    rng_seed(&r, s->n_legal);
    cr_assert(s->n_legal > 0, "%s", s->kernel->text);
    bool small = s->n_legal <= SMALL;
    for (uint64_t i = 0; i < (small ? s->n_legal : 10000); i++) {
        uint64_t rank = small ? i : rng_below(&r, s->n_legal);
        space_unrank(s, rank, &p);
        cr_assert(space_legal(s, &p, NULL));
        cr_assert_eq(space_rank(s, &p), rank);
    }
    space_sample(s, &r, &p);
    space_unrank(s, space_rank(s, &p), &q);
    cr_assert(point_eq(s, &p, &q));
}

Test(schedules_space, unrank_of_rank_is_the_point)
{
    all_spaces(ranks_come_back, 20);
}

/* ---- points and schedules ---- */

static int compare_hashes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(Hash));
}

static void no_two_alike(Space *s)
{
    Point p;
    if (s->n_legal > SMALL) {
        return;
    }
    Hash *h = arena_array(&env.kernel, Hash, s->n_legal);
    for (uint64_t i = 0; i < s->n_legal; i++) {
        space_unrank(s, i, &p);
        h[i] = hash_str(text_at(s, &p));
    }
    qsort(h, s->n_legal, sizeof *h, compare_hashes);
    for (uint64_t i = 1; i < s->n_legal; i++) {
        cr_assert(!hash_eq(h[i - 1], h[i]), "two points are one schedule\n%s", s->kernel->text);
    }
}

Test(schedules_space, every_point_is_another_schedule)
{
    all_spaces(no_two_alike, 20);
}

static void all_are_accepted(Space *s)
{
    Rng r;
    rng_seed(&r, s->n_points);
    bool small = s->n_legal <= 100;
    int n = small ? (int)s->n_legal : getenv("NC_FULL") ? 1000 : 100;
    for (int i = 0; i < n; i++) {
        Point p;
        Schedule schedule;
        Err why;
        Arena scratch;
        arena_init(&scratch, &env);
        if (small) {
            space_unrank(s, (uint64_t)i, &p);
        } else {
            space_sample(s, &r, &p);
        }
        space_schedule(s, &p, &schedule);
        cr_assert(kernel_schedule(&env, &scratch, s->kernel, &schedule, schedule.n, &why),
                  "%s\n%s\n%s", text_at(s, &p), why.text, s->kernel->text);
        arena_release(&scratch);
    }
}

Test(schedules_space, the_mechanism_accepts_every_legal_point)
{
    all_spaces(all_are_accepted, 40);
}

static void holds_its_default(Space *s)
{
    Point p;
    Schedule by_space, by_default;
    schedule_default(&env, s->kernel, &s->hint, &by_default);
    cr_assert(space_default(&env, s, &p), "the default is no point of the space\n%s",
              s->kernel->text);
    space_schedule(s, &p, &by_space);
    cr_assert(schedule_eq(&by_space, &by_default), "%s\n%s", text_at(s, &p), s->kernel->text);
}

Test(schedules_space, the_default_is_a_point)
{
    all_spaces(holds_its_default, 100);
}

/* ---- neighbours, features ---- */

static void one_knob_apart(Space *s)
{
    static Point near[MAX_KNOBS * MAX_CHOICES];
    Point p;
    Rng r;
    rng_seed(&r, 5);
    for (int turn = 0; turn < 20; turn++) {
        space_sample(s, &r, &p);
        int n = space_neighbours(s, &p, near), expect = 0;
        for (int i = 0; i < n; i++) {
            int differs = 0;
            for (int k = 0; k < s->n_knobs; k++) {
                differs += near[i].at[k] != p.at[k];
            }
            cr_assert_eq(differs, 1);
            cr_assert(space_legal(s, &near[i], NULL));
        }
        for (int k = 0; k < s->n_knobs; k++) {
            for (int c = 0; c < s->knob[k].n; c++) {
                Point q = p;
                q.at[k] = (uint8_t)c;
                expect += c != p.at[k] && space_legal(s, &q, NULL);
            }
        }
        cr_assert_eq(n, expect);
    }
}

Test(schedules_space, neighbours_differ_in_one_knob)
{
    all_spaces(one_knob_apart, 10);
}

/* From any schedule a walk of single steps reaches every other. */
static void walks_everywhere(Space *s)
{
    static Point near[MAX_KNOBS * MAX_CHOICES];
    if (s->n_legal > SMALL) {
        return;
    }
    bool *seen = arena_array(&env.kernel, bool, s->n_legal);
    uint64_t *next = arena_array(&env.kernel, uint64_t, s->n_legal), n = 1;
    seen[0] = true;
    for (uint64_t i = 0; i < n; i++) {
        Point p;
        space_unrank(s, next[i], &p);
        for (int k = space_neighbours(s, &p, near) - 1; k >= 0; k--) {
            uint64_t rank = space_rank(s, &near[k]);
            if (!seen[rank]) {
                seen[rank] = true;
                next[n++] = rank;
            }
        }
    }
    cr_assert_eq(n, s->n_legal, "%llu of %llu are reached\n%s", (unsigned long long)n,
                 (unsigned long long)s->n_legal, s->kernel->text);
}

Test(schedules_space, neighbours_lead_everywhere)
{
    all_spaces(walks_everywhere, 20);
}

static void features_are_numbers(Space *s)
{
    double f[MAX_FEATURES];
    Point p;
    Rng r;
    rng_seed(&r, 6);
    for (int i = 0; i < 10; i++) {
        space_sample(s, &r, &p);
        int n = space_features(s, &p, f);
        for (int k = 0; k < n; k++) {
            cr_assert(isfinite(f[k]), "%s", space_feature_name(s, k));
            cr_assert(*space_feature_name(s, k));
        }
    }
}

Test(schedules_space, features_are_finite_and_named)
{
    all_spaces(features_are_numbers, 10);
}

/* A cost model must not take two choices for one, nor a larger for a smaller. */
static void features_rise(Space *s)
{
    static Point near[MAX_KNOBS * MAX_CHOICES];
    double here[MAX_FEATURES], there[MAX_FEATURES];
    Point p;
    Rng r;
    rng_seed(&r, 8);
    for (int i = 0; i < 10; i++) {
        space_sample(s, &r, &p);
        space_features(s, &p, here);
        for (int n = space_neighbours(s, &p, near) - 1; n >= 0; n--) {
            space_features(s, &near[n], there);
            for (int k = 0; k < s->n_knobs; k++) {
                cr_assert((near[n].at[k] > p.at[k]) == (there[k] > here[k]) &&
                              (near[n].at[k] < p.at[k]) == (there[k] < here[k]),
                          "%s: choice %d is %g, %d is %g", s->knob[k].name, p.at[k], here[k],
                          near[n].at[k], there[k]);
            }
        }
    }
}

Test(schedules_space, a_knobs_feature_rises_with_its_choice)
{
    all_spaces(features_rise, 10);
}

/* ---- sampling ---- */

static const Kernel *rotated(void)
{
    return kernel_of_graph(
        &env,
        "graph g\nx = input f32[seq, 16]\nc = input f32[seq, 16]\n"
        "hi = slice x axis=1 start=8 stop=16\nlo = slice x axis=1 start=0 stop=8\nn = neg hi\n"
        "r = concat n, lo axis=1\na = mul x, c\nb = mul r, c\ny = add a, b\nreturn y=y\n");
}

/* Chi-square with n - 1 degrees of freedom lies within five deviations of its mean. */
Test(schedules_space, samples_are_uniform)
{
    Space s;
    Rng r;
    PickHint hint = hint_at(target_named("avx2"), 2, -1);
    space_init(&env, &env.model, &s, rotated(), &hint);
    int n = (int)s.n_legal, per = 200;
    int *seen = arena_array(&env.model, int, n);
    cr_assert(n > 5);
    rng_seed(&r, 17);
    for (int i = 0; i < n * per; i++) {
        Point p;
        space_sample(&s, &r, &p);
        seen[space_rank(&s, &p)]++;
    }
    double chi = 0;
    for (int i = 0; i < n; i++) {
        chi += (double)(seen[i] - per) * (seen[i] - per) / per;
    }
    cr_expect_lt(fabs(chi - (n - 1)), 5 * sqrt(2.0 * (n - 1)), "chi-square %g with %d degrees",
                 chi, n - 1);
}

Test(schedules_space, the_same_seed_gives_the_same_samples)
{
    Space s;
    PickHint hint = hint_at(target_named("avx512"), 2, -1);
    space_init(&env, &env.model, &s, rotated(), &hint);
    Rng a, b;
    rng_seed(&a, 3);
    rng_seed(&b, 3);
    for (int i = 0; i < 50; i++) {
        Point p, q;
        space_sample(&s, &a, &p);
        space_sample(&s, &b, &q);
        cr_assert(point_eq(&s, &p, &q));
    }
}

/* ---- what the space of a matmul holds ---- */

static bool holds(const Space *s, const char *schedule)
{
    for (uint64_t i = 0; i < s->n_legal; i++) {
        Point p;
        space_unrank(s, i, &p);
        if (!strcmp(text_at(s, &p), schedule)) {
            return true;
        }
        if (i % 1000 == 0) {
            env_reset_kernel(&env);
        }
    }
    return false;
}

Test(schedules_space, the_tiles_that_are_known_to_be_good_are_in)
{
    Space s;
    PickHint hint = hint_at(target_named("avx512"), 2, 64);
    const Kernel *k =
        kernel_of_graph(&env, "graph g\nx = input f32[seq, 896]\nw = weight f32[896, 896]\n"
                              "t = permute w perm=[1, 0]\ny = matmul x, t\nreturn y=y\n");
    space_init(&env, &env.model, &s, k, &hint);
    static const char *const known[] = {
        "split n 32 pad; split m 14 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; fma; "
        "pack b n.o,k,n.i; par n.o",
        "split n 64 pad; split m 7 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; fma; "
        "pack b n.o,k,n.i; par n.o",
        "split n 32 pad; split m 8 switch; split k 2 peel; order n.o m.o k.o k.i m.i n.i; vec "
        "n.i; unroll m.i; "
        "unroll k.i; fma; pack b n.o,k.o,k.i,n.i; par n.o",
        "split n 64 pad; order n.o m k n.i; vec n.i; fma; pack b n.o,k,n.i; prefetch b k 1024; "
        "prefetch b k 1088; "
        "prefetch b k 1152; prefetch b k 1216; par n.o",
        "split n 4 switch; split k 32 peel; order n.o m k.o n.i k.i; acc k.i; vec k.i; unroll "
        "n.i; fma; par n.o",
        "split n 16 pad; split m 12 switch; split k 128 peel; order m.o n.o k.o k.i m.i n.i; "
        "vec n.i; unroll m.i; "
        "pack b n.o,k.o,k.i,n.i; par m.o",
    };
    for (size_t i = 0; i < countof(known); i++) {
        cr_expect(holds(&s, known[i]), "%s", known[i]);
    }
}

Test(schedules_space, broken_rules_are_named)
{
    Space s;
    Point p;
    int broken;
    PickHint hint = hint_at(target_named("avx512"), 2, 3);
    const Kernel *k =
        kernel_of_graph(&env, "graph g\nx = input f32[seq, 64]\nw = weight f32[64, 64]\n"
                              "y = matmul x, w\nreturn y=y\n");
    space_init(&env, &env.model, &s, k, &hint);
    cr_assert(space_default(&env, &s, &p));
    for (int i = 0; i < s.n_knobs; i++) {
        if (!strcmp(s.knob[i].name, "mr")) {
            p.at[i] = 7; /* eight rows, and there are three */
        }
    }
    cr_assert(!space_legal(&s, &p, &broken));
    cr_expect_str_eq(s.rule[broken].name, "rows");
    cr_expect_str_eq(s.rule[broken].reason, "a tile has no more rows than m, where m is known");
}
