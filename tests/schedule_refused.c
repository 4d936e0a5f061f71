/* schedule_refused.c - each step that a kernel does not allow says why, in a sentence; steps as text. */
#include "tests/env_fixture.h"
#include "tests/schedule_util.h"
#include "tests/schedules_util.h"

TestSuite(schedule_refused, .init = start, .fini = stop, .timeout = 600);

/* ---- kernels ---- */

static const Kernel *two_axes(Env *e)
{
    return kernel_from(
        e,
        "kernel reduce\ny: f32[s0]\nx0: f32[s0*77]\naxis i space s0\naxis r reduce 7\naxis q "
        "reduce 11\n"
        "phase i r q\n    acc0: f32 = 0.0f -> acc0 + x0[i*77 + r*11 + q]\n    y[i] = acc0\n");
}

static const Kernel *from_one(Env *e)
{
    return kernel_from(e, "kernel reduce\ny: f32[s0]\nx0: f32[s0*8]\naxis i space s0\naxis r "
                          "reduce 8\nphase i r\n"
                          "    acc0: f32 = 0x1p+0f -> acc0 + x0[i*8 + r]\n    y[i] = acc0\n");
}

static const Kernel *of_itself(Env *e)
{
    return kernel_from(e,
                       "kernel reduce\ny: f32[s0]\nx0: f32[s0*8]\naxis i space s0\naxis r "
                       "reduce 8\nphase i r\n"
                       "    acc0: f32 = 0.0f -> acc0 + acc0 * x0[i*8 + r]\n    y[i] = acc0\n");
}

static void refusals(Env *e, void *arg)
{
    const Kernel *k = odd_matmul(e), *row = odd_softmax(e);
    (void)arg;
    refuses(e, k, "split q 4 peel", "split q 4 peel: there is no axis 'q'.");
    refuses(e, k, "split n 8",
            "split n 8: 8 does not divide the extent of n: say what happens to the tail.");
    refuses(e, k, "split n 0 peel", "split n 0 peel: '0' is not a number from 1 to 4096.");
    refuses(e, k, "split n 8 magic",
            "split n 8 magic: a tail is peel, mask, pad, overlap or switch, not 'magic'.");
    refuses(e, k, "split k 8 pad",
            "split k 8 pad: a reduce axis cannot be padded: what is added would be summed.");
    refuses(e, k, "split k 8 overlap",
            "split k 8 overlap: a reduce axis cannot overlap: elements would be summed twice.");
    refuses(e, k, "split m 8 overlap",
            "split m 8 overlap: the extent of m is not constant, so a tile may not fit to be "
            "moved back.");
    refuses(e, k, "split n 64 overlap",
            "split n 64 overlap: n has only 45 elements: a tile of 64 cannot be moved back.");
    refuses(e, k, "split n 8 peel; split n 4 peel",
            "split n 4 peel: axis n is split: name n.o or n.i.");
    refuses(e, k, "order m n", "order m n: axis k of the same loops is not named.");
    refuses(e, k, "order m n n k", "order m n n k: axis n is named twice.");
    refuses(e, k, "order k m n",
            "order k m n: space axis m stands inside the reduction, and its extent is not "
            "constant.");
    refuses(e, k, "split n 8 peel; order n.i m n.o k",
            "order n.i m n.o k: n.o stands inside n.i, its other half.");
    refuses(e, k, "split k 4 peel; order m n k.i k.o",
            "order m n k.i k.o: k.o stands inside k.i, its other half.");
    refuses(e, k, "unroll m", "unroll m: axis m has no constant extent of at most 64.");
    refuses(e, k, "par k",
            "par k: a reduction is never split over threads, and k is a reduce axis.");
    refuses(e, k, "par n", "par n: axis n is not the outermost loop.");
    refuses(e, k, "split n 8 overlap; order n.o m n.i k; par n.o",
            "par n.o: tiles of n overlap: two threads would write one element.");
    refuses(e, k, "vec k",
            "vec k: axis k has no constant extent that is a power of two from 2 to 256.");
    refuses(e, k, "split k 4 peel; vec k.i",
            "vec k.i: reduce axis k.i needs accumulators of its own: acc k.i first.");
    refuses(e, k, "split n 8 peel; vec n.i", "vec n.i: axis n.i is not the innermost loop.");
    refuses(e, k, "split n 8 peel; order m n.o k n.i; vec n.i",
            "vec: b is accessed with stride 37 along n.i.");
    refuses(e, k, "split k 4 peel; split k.o 2 peel",
            "split k.o 2 peel: behind k.o comes the tail of k.");
    refuses(e, k, "split k 16 peel; split k.i 3 peel; acc k.i.i",
            "acc k.i.i: k.i.i has private sums, and the tail of k.i.o inside the reduction has "
            "no part in them.");
    refuses(e, k, "split k 16 peel; acc k.i; order m k.o n k.i; split k.i 3 peel",
            "split k.i 3 peel: axis k.i already has an "
            "annotation; split it first.");
    refuses(e, two_axes(e), "split q 4 peel; acc q.i",
            "acc q.i: q.i has private sums, and the tail of q.o inside the reduction has no "
            "part in them.");
    refuses(e, two_axes(e), "split r 2 peel; acc r.i; split q 4 peel",
            "split q 4 peel: r.i has private sums, and the tail of q.o inside the reduction "
            "has no part in them.");
    refuses(e, from_one(e), "split r 2; acc r.i",
            "acc r.i: acc0 does not start at 0, and each private sum would add its start.");
    refuses(e, of_itself(e), "split r 2; acc r.i",
            "acc r.i: what is added to acc0 depends on it.");
    refuses(e, k, "acc n",
            "acc n: axis n is not a reduce axis with a constant extent of at most 256.");
    refuses(e, k, "pack a m,k",
            "pack a m,k: a is not constant: it would be packed at every run.");
    refuses(e, k, "pack b n", "pack b n: b is read along k, which the layout does not name.");
    refuses(e, k, "pack b n,k; pack b k,n", "pack b k,n: b is already packed.");
    refuses(e, k, "pack y n,k", "pack y n,k: y is the output, which is only written.");
    refuses(e, k, "approx exp", "approx exp: the kernel computes no exp.");
    refuses(e, k, "approx exp fast",
            "approx exp fast: its multiplies and adds can only be fused, by fma, not 'fast'.");
    refuses(e, k, "approx sin", "approx sin: only exp has an approximation, not 'sin'.");
    refuses(e, k, "fma; fma", "fma: no accumulator adds a product.");
    refuses(e, k, "dot k", "dot k: axis k is not a reduce axis of extent 4.");
    refuses(e, k, "split k 4 peel; dot k.i", "dot k.i: acc0 is no i32 sum of products of i8.");
    refuses(e, k, "split m 4 peel; stage a m.o; split n 8 peel",
            "split n 8 peel: an operand is already staged: split, cut and order come first.");
    refuses(e, k, "order n m k; stage a n",
            "stage a n: the tile is as long as m, whose extent is not constant.");
    refuses(e, k, "pack b n,k; store b bf16",
            "store b bf16: b does not come from bf16: storage must be lossless.");
    refuses(e, bf16_matmul(e), "store b bf16; store b bf16",
            "store b bf16: b is stored as bf16 already.");
    refuses(e, k, "store b i8",
            "store b i8: the only storage besides an operand's own is bf16, not 'i8'.");
    refuses(e, k, "cut k 4", "cut k 4: k is a reduce axis, and its sum is one.");
    refuses(e, k, "cut n 46", "cut n 46: n does not surely have as many elements.");
    refuses(e, k, "cut m 4", "cut m 4: m does not surely have as many elements.");
    refuses(e, k, "cut n 4; cut n 2", "cut n 2: axis n is cut: name n.0 or n.1.");
    refuses(e, k, "keep t9 k", "keep t9 k: no reduction computes a value 't9'.");
    refuses(e, k, "prefetch b k 0", "prefetch b k 0: '0' is not a number from 1 to 1048576.");
    refuses(e, k, "split n", "split n: takes 2 or more arguments, not 1.");
    refuses(e, row, "keep t2 i",
            "keep t2 i: i is not the axis of a reduction before the last phase.");
    refuses(e, row, "keep t0 r", "keep t0 r: the last phase does not compute t0 again.");
    refuses(e, row, "par j", "par j: axis j is not the outermost loop.");
    refuses(e, row, "vec i",
            "vec i: axis i has no constant extent that is a power of two from 2 to 256.");
}

Test(schedule_refused, each_illegal_step_says_why)
{
    must_work(&env, refusals, NULL);
}

/* ---- text ---- */

Test(schedule_refused, the_page_of_steps_is_current)
{
    Buf out;
    buf_init(&out, &env.model);
    steps_table(&out);
    cr_assert_str_eq(read_text(&env, "docs/steps.md"), out.at,
                     "make it again: nanocompile dump steps >docs/steps.md");
}

Test(schedule_refused, text_round_trip)
{
    Schedule a, b;
    Err err;
    Buf out;
    buf_init(&out, &env.model);
    cr_assert(schedule_parse("  split n   32 pad ;; order n.o  n.i;fma; ", &a, &err));
    schedule_print(&a, &out);
    cr_expect_str_eq(out.at, "split n 32 pad; order n.o n.i; fma");
    cr_assert(schedule_parse(out.at, &b, &err));
    cr_expect(schedule_eq(&a, &b));
    cr_expect(!schedule_parse("frob n", &a, &err));
    cr_expect_str_eq(err.text, "there is no schedule step 'frob'.");
}
