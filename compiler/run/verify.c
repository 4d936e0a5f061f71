/* verify.c - is a compiled candidate the naive nest? All runs that are made before a candidate is timed: rounds of
 * inputs, at the sizes that are tuned with several seeds, then at sizes that meet each tail of its schedule.
 *
 *     small integers     every order of a sum is exact, so schedules that reassociate give the same bits
 *     floats             exact schedules give the same bits, others lie within running-error bounds
 *     special values     zeros, denormals, infinities, NaN and huge values
 *     a bad index        where the nest checks indices: the candidate returns its code
 *
 * One run is in verify_run.c. needs: a legal schedule of this kernel. */
#include <stdio.h>
#include <string.h>

#include "run/verify_int.h"

#define WORK 60e6    /* expression nodes: 4 million multiply-adds, some 20 ms */
#define TAIL_PART 8  /* other sizes get one part in so many of it */
#define EXACT_PART 4 /* and the interpreter, which is slower */
#define DEFAULT_SEEDS 2

typedef struct Verification {
    VerifyRun run;
    Arena arena;    /* what lasts longer than a run */
    int64_t *tails; /* rows of sizes; the first is the tuned one */
    int n_sizes;
    bool stopped; /* after the first run */
} Verification;

static void choose_sizes(Verification *p)
{
    const VerifyOptions *o = p->run.o;
    int n_syms = p->run.naive->n_syms;
    if (!o->sizes) {
        p->n_sizes = sizes_of(&p->arena, p->run.c->k, o->syms, o->tails_once, &p->tails);
        return;
    }
    p->n_sizes = 1 + o->n_sizes;
    p->tails = arena_array(&p->arena, int64_t, p->n_sizes * n_syms);
    memcpy(p->tails, o->syms, (size_t)n_syms * sizeof *p->tails);
    memcpy(p->tails + n_syms, o->sizes, (size_t)(o->n_sizes * n_syms) * sizeof *p->tails);
}

static void make_plan(Verification *p)
{
    int n = p->run.naive->operand.n;
    choose_sizes(p);
    p->run.slot = arena_array(&p->arena, Slot, n);
    p->run.params = arena_array(&p->arena, void *, n);
    p->run.given = arena_array(&p->arena, void *, n);
    p->run.n_elems = arena_array(&p->arena, int64_t, n);
    p->run.folded.arena = &p->arena;
}

static double work_of(const VerifyRun *x, bool first)
{
    double work = x->o->work > 0 ? x->o->work : WORK;
    return work / (first ? 1 : TAIL_PART) / (verify_exact(x->c) ? EXACT_PART : 1);
}

/* One round of inputs at the tuned sizes, and numbers at all sizes: how a tail treats NaN is no matter of its own. */
static bool run_round(Verification *p, Round round, int nth_seed)
{
    VerifyRun *x = &p->run;
    bool tails = nth_seed == 0 &&
                 (round == ROUND_INTEGERS || (round == ROUND_FLOATS && !x->o->tails_once));
    int n_sizes = tails ? p->n_sizes : 1;
    for (int i = 0; i < n_sizes; i++) {
        x->syms = p->tails + i * x->naive->n_syms;
        x->tuned = i == 0;
        x->at_end = ((int)round + nth_seed) % 2 == 0;
        x->in = inputs_of(x->naive, x->syms, round, x->o->seed + (uint64_t)nth_seed);
        x->work = work_of(x, i == 0 && nth_seed == 0);
        env_reset_kernel(x->e);
        if (!verify_run(x)) {
            return false;
        }
        if (x->tuned && x->v->n_runs == 1 && x->o->go_on && !x->o->go_on(x->o->go_on_ctx)) {
            p->stopped = true;
            break;
        }
    }
    return verify_run_constants(x);
}

static bool run_rounds(Verification *p)
{
    int n_seeds = p->run.o->n_seeds > 0 ? p->run.o->n_seeds : DEFAULT_SEEDS;
    for (int seed = 0; seed < n_seeds; seed++) {
        for (int round = 0; round < N_ROUNDS && !p->stopped; round++) {
            bool applies = (round != ROUND_BAD_INDEX || kernel_fails(p->run.naive)) &&
                           (round == ROUND_FLOATS || !p->run.o->briefly);
            if (applies && !run_round(p, (Round)round, seed)) {
                return false;
            }
        }
    }
    return true;
}

static const char *why_not_bitwise(const Kernel *k)
{
    static const ScalarOp libm[] = {S_EXP, S_SIN, S_COS};
    for (size_t i = 0; i < countof(libm); i++) {
        if (kernel_uses(k, libm[i])) {
            return scalar_info[libm[i]].name;
        }
    }
    return NULL;
}

static void say_what_agrees(const Verification *p)
{
    Verdict *v = p->run.v;
    const char *libm = verify_exact(p->run.c) ? NULL : why_not_bitwise(p->run.naive);
    int n_sizes = p->stopped ? 1 : p->n_sizes;
    int n =
        snprintf(v->text, sizeof v->text,
                 "%d run%s at %d size%s agree%s with the naive nest: %lld elements exactly, "
                 "%lld within their bounds",
                 v->n_runs, v->n_runs == 1 ? "" : "s", n_sizes, n_sizes == 1 ? "" : "s",
                 v->n_runs == 1 ? "s" : "", (long long)v->n_exact, (long long)v->n_bounded);
    if (libm && n < (int)sizeof v->text) {
        n += snprintf(v->text + n, sizeof v->text - (size_t)n,
                      " (on integers too, since the kernel computes %s)", libm);
    }
    if (n < (int)sizeof v->text) {
        snprintf(v->text + n, sizeof v->text - (size_t)n, ".");
    }
}

static void verify_all(Env *e, void *arg)
{
    Verification *p = arg;
    (void)e;
    make_plan(p);
    p->run.v->ok = run_rounds(p);
    if (p->run.v->ok) {
        say_what_agrees(p);
    }
}

bool verify_kernel(Env *e, const Kernel *naive, const BuiltKernel *c, const VerifyOptions *o,
                   Verdict *v)
{
    Verification p = {.run = {.e = e, .naive = naive, .c = c, .o = o, .v = v}};
    *v = (Verdict){.ok = false};
    arena_init(&p.arena, e);
    bool ran = env_try(e, verify_all, &p);
    if (p.run.slot) {
        verify_run_release(&p.run);
    }
    arena_release(&p.arena);
    env_reset_kernel(e);
    if (!ran) {
        Err err = e->err;
        snprintf(v->text, sizeof v->text, "The candidate could not be verified: %.500s",
                 err.text);
        fail_err(e, &err);
    }
    return v->ok;
}
