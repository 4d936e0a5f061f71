/* schedule_resume.c - sums that wait in the output between blocks of a reduction: C has the bits of the
 * nest, exact schedules those of the naive nest, and what has no room to wait is refused. */
#include "tests/bench_fixture.h"

TestSuite(schedule_resume, .init = start, .fini = stop, .timeout = 600);

static const int64_t some_rows[][2] = {{0}, {1}, {2}, {5}, {6}, {7}, {13}, {24}};

#define CHECK(make, schedules)                                            \
    do {                                                                  \
        Cases cases = {make,      schedules,          countof(schedules), \
                       some_rows, countof(some_rows), false};             \
        bench_check_cases(&bench, &cases);                                \
    } while (0)

static const Kernel *matmul(Env *e)
{
    return kernel_of_graph(
        e,
        "graph g\nx = input f32[seq, 37]\nw = weight f32[48, 37]\nt = permute w perm=[1, 0]\n"
        "y = matmul x, t\nreturn y=y\n");
}

Test(schedule_resume, blocks_around_tiles_of_rows)
{
    static const char *const schedules[] = {
        "resume k; order k m n",
        "split k 8 peel; resume k.o; order k.o n m k.i",
        "split k 8 mask; resume k.o; order n k.o m k.i; par n",
        "split k 8 switch; resume k.o; split m 3 peel; order m.o k.o n m.i k.i",
        "split k 64 peel; resume k.o; order k.o m n k.i",
        "split n 16; split m 4 switch; split k 16 peel; resume k.o; order n.o k.o m.o k.i m.i "
        "n.i; vec n.i; unroll m.i; fma; pack b n.o,k.o,k.i,n.i; prefetch b k.i 64; par n.o",
        "split n 32 peel; split m 6 switch; split k 12 peel; split k.i 4; resume k.o; order "
        "m.o "
        "k.o n.o k.i.o k.i.i m.i n.i; vec n.i; unroll m.i; unroll k.i.i; pack b "
        "k.o,n.o,k.i.o,k.i.i,n.i; par m.o",
        "split n 16; split k 10 peel; resume k.o; order n.o k.o m k.i n.i; stage b k.o; vec "
        "n.i",
    };
    CHECK(matmul, schedules);
}

/* What follows the sum happens once, after the last block. */
static const Kernel *with_epilogue(Env *e)
{
    return kernel_of_graph(
        e,
        "graph g\nx = input f32[seq, 37]\nw = weight f32[48, 37]\nz = input f32[seq, 48]\n"
        "t = permute w perm=[1, 0]\np = matmul x, t\nq = mul p, p\ny = add z, q\nreturn y=y\n");
}

Test(schedule_resume, an_epilogue_comes_last)
{
    static const char *const schedules[] = {
        "split k 8 peel; resume k.o; order k.o m n k.i",
        "split n 16; split m 4 switch; split k 12 peel; resume k.o; order n.o k.o m.o k.i m.i "
        "n.i; vec n.i; unroll m.i; fma; pack b n.o,k.o,k.i,n.i; par n.o",
    };
    CHECK(with_epilogue, schedules);
}

/* ---- what is refused, and why ---- */

static const Kernel *two_sums(Env *e)
{
    return kernel_of_graph(
        e, "graph g\nx = input f32[seq, 20]\ng = weight f32[33, 20]\nu = weight f32[33, 20]\n"
           "gt = permute g perm=[1, 0]\nut = permute u perm=[1, 0]\na = matmul x, gt\nb = "
           "matmul x, ut\ny = mul a, b\nreturn y=y\n");
}

static const Kernel *two_phases(Env *e)
{
    return kernel_of_graph(e, "graph g\nx = input f32[seq, 8]\nm = reduce_max x axis=-1\n"
                              "mb = broadcast m shape=[seq, 8]\ny = sub x, mb\nreturn y=y\n");
}

static const Kernel *of_bytes(Env *e)
{
    return kernel_from(e, "kernel matmul\ny: i32[8*s0]\na: i8[4*s0]\nb: const i8[32]\naxis m "
                          "space s0\naxis n space 8\naxis k reduce 4\nphase m n k\n"
                          "    acc0: i32 = 0i32 -> acc0 + i32(a[m*4 + k]) * i32(b[n*4 + k])\n"
                          "    y[m*8 + n] = acc0\n");
}

/* ---- panels ---- */

static const char *panels_of(Env *e, const Kernel *naive, const char *schedule)
{
    Buf text;
    bench_add(&bench, naive, schedule);
    buf_init(&text, &e->model);
    emit_pack(e, bench.at[bench.n - 1].k, target_generic(), 2, "pack", &text);
    return text.at;
}

static void layouts(Env *e, void *arg)
{
    const Kernel *k = matmul(e);
    (void)arg;
    const char *whole = panels_of(e, k, "pack b n,k"),
               *halves = panels_of(e, k, "split n 8 peel; pack b n.o,n.i,k"),
               *quarters = panels_of(e, k, "split n 8; split n.i 4; pack b n.o,n.i.o,n.i.i,k");
    cr_expect_str_eq(halves, whole);
    cr_expect_str_eq(quarters, whole);
    cr_expect_str_neq(panels_of(e, k, "split n 8 peel; pack b n.i,n.o,k"), whole, "turned");
    cr_expect_str_neq(panels_of(e, k, "split n 8 peel; pack b n.o,k,n.i"), whole, "apart");
    cr_expect_str_neq(panels_of(e, k, "split k 8 peel; pack b n,k.o,k.i"), whole, "a rest");
}

/* A model's panels of one layout are one: their text says so, however the loops are split. */
Test(schedule_resume, halves_side_by_side_are_laid_out_as_the_whole)
{
    must_work(&env, layouts, NULL);
}

static const Kernel *of_any_length(Env *e)
{
    return kernel_from(e, "kernel reduce\ny: f32[s0]\nx0: f32[s0*s1]\naxis i space s0\naxis r "
                          "reduce s1\nphase i r\n"
                          "    acc0: f32 = 0.0f -> acc0 + x0[i*s1 + r]\n    y[i] = acc0\n");
}

static void refusals(Env *e, void *arg)
{
    const Kernel *k = matmul(e);
    (void)arg;
    refuses(e, k, "resume n", "resume n: n is no reduce axis.");
    refuses(e, k, "split k 8 peel; resume k.i",
            "resume k.i: k.i is not the outermost reduce loop.");
    refuses(e, k, "resume k; resume k", "resume k: axis k already has this annotation.");
    refuses(e, k, "resume k; split k 8 peel",
            "split k 8 peel: axis k already has an annotation; split it first.");
    refuses(e, k, "order m n k; stage a m; resume k",
            "resume k: an operand is already staged: split, cut and order come first.");
    refuses(e, two_sums(e), "resume k",
            "resume k: there are 2 accumulators, and the output has room for one.");
    refuses(e, two_phases(e), "resume r",
            "resume r: there are several phases, and the output has room for one sum.");
    refuses(e, of_bytes(e), "resume k",
            "resume k: a sum of i32 cannot wait in an output of i32: only f32 can.");
    refuses(e, of_any_length(e), "resume r",
            "resume r: r has no constant extent of at least 1, and without a turn nothing is "
            "stored.");
    refuses(e, k, "split k 8 peel; resume k.o; split n 32 pad; pack b n.o,k.o,k.i,n.i",
            "resume: some points of the last tile of n have no element of their own.");
    refuses(e, k, "split n 32 overlap; resume k",
            "resume k: some points of the last tile of n have no element of their own.");
    refuses(e, k, "split k 8 peel; resume k.o; acc k.i",
            "resume: k.i has private sums, and the output has room for one.");
    refuses(e, k, "resume k; cut n 8",
            "resume: there are several phases, and the output has room for one sum.");
}

Test(schedule_resume, what_has_no_room_says_why)
{
    must_work(&env, refusals, NULL);
}
