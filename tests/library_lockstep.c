/* library_lockstep.c - each kernel of a scheduled build, fed what the naive build's kernels are fed, stores
 * values within the bounds by which candidates are verified. The naive tables run, with a function in each
 * kernel's place that runs both on its parameters: the scheduled one into memory of its own. */
#include "run/verify_int.h"
#include "schedules/schedules.h"
#include "tests/emptied.h"
#include "tests/library_util.h"

#include <dlfcn.h>
#include <math.h>

TestSuite(library_lockstep, .timeout = 900);

enum { CONTEXT = 80, MOST_OPERANDS = 16 };

static TestModel model;
static TestLibrary naive, scheduled;
static Picker defaults;

/* ---- one call ---- */

static int part_now, call_now; /* who is run: calls come in order, on one thread */
static int64_t n_compared, n_exact;

typedef struct Pair { /* one call in both builds */
    const Kernel *k[2];
    KernelFn fn[2];
} Pair;

static Pair pair_at(int part, int call)
{
    Pair p;
    const TestLibrary *l[] = {&naive, &scheduled};
    for (int i = 0; i < 2; i++) {
        const Program *program = l[i]->made.parts.part[part].program;
        p.k[i] = program->kernel.at[program->call.at[call].kernel];
        p.fn[i] = (KernelFn)dlsym(l[i]->built.handle, p.k[i]->symbol);
        cr_assert(p.fn[i], "%s", p.k[i]->symbol);
    }
    cr_assert_eq(p.k[0]->operand.n, p.k[1]->operand.n);
    return p;
}

/* As the scheduled kernel takes it: narrowed, packed, both or neither. */
static void *as_stored(const Pair *p, int operand, void *from, int64_t n, const int64_t *syms)
{
    const Kernel *k = p->k[1];
    const Operand *o = &k->operand.at[operand];
    Arena *m = &model.e.kernel;
    if (operand_takes_bf16(o)) {
        uint16_t *narrow = arena_array(m, uint16_t, n);
        cr_assert(bf16_narrow(narrow, from, n), "%s: operand %d", k->symbol, operand);
        from = narrow;
    }
    if (o->pack) {
        PackFn fill = (PackFn)dlsym(scheduled.built.handle,
                                    arena_printf(m, "%s_pack_%d", k->symbol, operand));
        cr_assert(fill, "%s has no panels of operand %d", k->symbol, operand);
        int64_t count = fill(NULL, from, syms);
        void *panels = arena_alloc(m, (size_t)count * (size_t)operand_bytes(o) + 64);
        panels = (void *)(((uintptr_t)panels + 63) / 64 * 64);
        fill(panels, from, syms);
        from = panels;
    }
    return from;
}

static void run_parts(KernelFn fn, void *const *params, const int64_t *syms)
{
    for (int part = 2; part >= 0; part--) {
        cr_assert_eq(fn(params, syms, part, 3), 0);
    }
}

static void element_fits(const Pair *p, const Element *want, const void *got)
{
    Value v = value_load(got, p->k[0]->operand.at[0].dtype, want->index);
    bool same = isnan(want->v) ? isnan(v.f) : (double)v.f == want->v;
    n_compared++;
    n_exact += same;
    cr_assert(same || fabs((double)v.f - want->v) <= want->err,
              "%s, call %d, element %lld: %.9g, not %.9g within %.3g; schedule: %s",
              scheduled.made.parts.part[part_now].name, call_now, (long long)want->index,
              (double)v.f, want->v, want->err, p->k[1]->schedule);
}

static void compare_call(Env *e, void *arg)
{
    void *const *params = ((void *const **)arg)[0];
    const int64_t *syms = ((const int64_t **)arg)[1];
    Pair p = pair_at(part_now, call_now);
    const Kernel *k = p.k[0];
    int64_t n_elems[MOST_OPERANDS];
    void *given[MOST_OPERANDS];
    cr_assert_leq(k->operand.n, MOST_OPERANDS);
    cr_assert_eq(k->operand.at[0].dtype, DT_F32);
    for (int i = 0; i < k->operand.n; i++) {
        n_elems[i] = kernel_span(k, i, syms);
        given[i] = i ? as_stored(&p, i, params[i], n_elems[i], syms)
                     : arena_dup(&e->kernel, params[0], (size_t)n_elems[0] * sizeof(float));
    }
    Question q = {
        .naive = k, .scheduled = p.k[1], .params = params, .n_elems = n_elems, .syms = syms};
    run_parts(p.fn[1], given, syms);
    Expected want = bound_elements(e, &q);
    cr_assert_eq(want.code, 0);
    for (int64_t i = 0; i < want.n; i++) {
        element_fits(&p, &want.at[i], given[0]);
    }
    run_parts(p.fn[0], params, syms);
}

static int32_t both(void *const *params, const int64_t *syms, int part, int n_parts)
{
    (void)part;
    cr_assert_eq(n_parts, 1);
    must_work(&model.e, compare_call, (const void *[]){params, syms});
    env_reset_kernel(&model.e);
    call_now++;
    return 0;
}

/* ---- both builds ---- */

static void open_builds(bool panels)
{
    test_model_open(&model, TINY);
    defaults = picker_default();
    naive = (TestLibrary){.f32 = true, .context = CONTEXT};
    scheduled = (TestLibrary){.picker = &defaults, .panels = panels, .context = CONTEXT};
    library_make_test(&naive, &model);
    library_make_test(&scheduled, &model);
    library_load_test(&naive);
    library_load_test(&scheduled);
}

static nc_model *open_pairs(NcTables *t)
{
    nc_error why;
    *t = tables_with(&model.e, &naive.made.text, both);
    cr_assert_eq(t->n_panels, 0);
    nc_model *pairs = runtime_open(t, &(nc_options){.weights = TINY, .n_threads = 1}, &why);
    cr_assert(pairs, "%s", why.text);
    return pairs;
}

static void feed_pairs(nc_model *m, const NcTables *t, int64_t at, const Ids *ids, int n,
                       bool all)
{
    float *rows = arena_array(&model.e.model, float, n *model.c.vocab_size);
    const float *logits;
    nc_error why;
    call_now = part_now = 0;
    while (t->program[part_now].facts.max_tokens < n || t->program[part_now].all_rows != all) {
        part_now++;
    }
    cr_assert_eq(runtime_feed(m, at, ids->at + at, n, all, rows, &logits, &why), NC_OK, "%s",
                 why.text);
    cr_assert_eq(call_now, t->program[part_now].facts.n_calls);
}

static void lockstep(bool panels)
{
    NcTables t;
    open_builds(panels);
    Ids ids = heldout_ids(&model.e, CONTEXT);
    nc_model *m = open_pairs(&t);
    feed_pairs(m, &t, 0, &ids, 37, false);
    feed_pairs(m, &t, 37, &ids, 1, false);
    feed_pairs(m, &t, 38, &ids, 2, false);
    feed_pairs(m, &t, 40, &ids, 5, true);
    feed_pairs(m, &t, 45, &ids, 1, false);
    cr_assert_gt(n_compared, 100000);
    cr_assert_lt(n_exact, n_compared, "schedules change the order of sums");
    runtime_close(m);
    built_model_close(&naive.built);
    built_model_close(&scheduled.built);
    test_model_close(&model);
}

Test(library_lockstep, default_kernels_are_within_their_bounds)
{
    lockstep(false);
}

Test(library_lockstep, default_kernels_with_panels_are_within_their_bounds)
{
    lockstep(true);
}
