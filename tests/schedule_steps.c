/* schedule_steps.c - schedules keep the meaning: C equals the nest interpreter bitwise for every schedule, and
 * both equal the naive nest where the schedule is exact, and on small integers always. */
#include "tests/bench_fixture.h"
#include "tests/schedules_util.h"

TestSuite(schedule, .init = start, .fini = stop, .timeout = 600);

#define CHECK(make, schedules, sizes)                                       \
    do {                                                                    \
        Cases cases = {make,  schedules,           (int)countof(schedules), \
                       sizes, (int)countof(sizes), true};                   \
        bench_check_cases(&bench, &cases);                                  \
    } while (0)

/* ---- a contraction with odd widths, m known at run time ---- */

static const int64_t some_rows[][2] = {{0}, {1}, {2}, {5}, {6}, {7}, {13}, {24}};

Test(schedule, matmul_tails)
{
    static const char *const schedules[] = {
        "split n 8 peel",
        "split n 8 mask",
        "split n 8 overlap",
        "split n 8 switch",
        "split m 4 peel",
        "split m 4 mask",
        "split m 4 switch",
        "split k 5 peel",
        "split k 5 mask",
        "split k 5 switch",
        "split m 4 switch; split n 8 pad; order n.o m.o k m.i n.i; pack b n.o,k,n.i",
        "split m 4 peel; split n 8 peel; order n.o m.o k m.i n.i",
        "split m 4 mask; split n 8 mask; order m.o n.o k m.i n.i; unroll m.i",
        "split m 8 switch; split m.i 4 peel; order m.o m.i.o m.i.i n k",
        "split n 16 peel; split n.i 4; order m n.o n.i.o n.i.i k",
    };
    CHECK(odd_matmul, schedules, some_rows);
}

Test(schedule, matmul_register_tiles)
{
    static const char *const schedules[] = {
        "split n 32 pad; split m 6 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; fma; "
        "pack b n.o,k,n.i; par n.o",
        "split n 16 pad; split m 4 peel; order n.o m.o k m.i n.i; vec n.i; unroll m.i; pack b "
        "n.o,k,n.i; par n.o",
        "split n 8 pad; split m 3 switch; order m.o n.o k m.i n.i; vec n.i; unroll m.i; pack b "
        "n.o,k,n.i; par m.o",
        "split n 32 pad; split m 2 switch; split k 4 peel; order n.o m.o k.o k.i m.i n.i; vec "
        "n.i; unroll m.i; unroll k.i; "
        "fma; pack b n.o,k.o,k.i,n.i; prefetch b k.o 512",
        "split n 32 switch; order n.o m k n.i; vec n.i; pack b n.o,k,n.i",
        "split n 4 mask; split m 4 mask; order n.o m.o k m.i n.i; vec n.i; unroll m.i; pack b "
        "n.o,k,n.i",
    };
    CHECK(odd_matmul, schedules, some_rows);
}

Test(schedule, matmul_lanes_along_k)
{
    static const char *const schedules[] = {
        "split k 16 peel; order m n k.o k.i; acc k.i; vec k.i; fma; par m",
        "split k 32 peel; split n 4 peel; order n.o m k.o n.i k.i; acc k.i; vec k.i; unroll "
        "n.i; fma; par n.o",
        "split k 8 peel; split n 2 switch; order m n.o k.o n.i k.i; acc k.i; vec k.i; unroll "
        "n.i",
        "split k 4 peel; acc k.i; unroll k.i",
        "split k 4 peel; acc k.i",
    };
    CHECK(odd_matmul, schedules, some_rows);
}

/* ---- sums that join many at once ---- */

/* Lanes fill the reduction; what follows reads along n, and once for all. */
static const Kernel *whole_lanes(Env *e)
{
    return kernel_of_graph(
        e, "graph g\nx = input f32[seq, 64]\nw = input f32[past, 64]\nb = input f32[past]\n"
           "r = input f32[seq, 1]\nt = permute w perm=[1, 0]\na = matmul x, t\nv = reshape b "
           "shape=[1, past]\nc = broadcast v shape=[seq, past]\nd = add a, c\ns = broadcast r "
           "shape=[seq, past]\nf = mul d, s\ny = exp f\nreturn y=y\n");
}

static const int64_t some_columns[][2] = {{1, 16}, {3, 0},  {2, 1},  {1, 15}, {5, 17},
                                          {2, 33}, {1, 48}, {3, 63}, {4, 7}};

Test(schedule, sums_of_many_points_join_at_once)
{
    static const char *const schedules[] = {
        "split k 16 peel; split n 16 switch; order m n.o k.o n.i k.i; acc k.i; vec k.i; unroll "
        "n.i; fma; par m",
        "split k 8 peel; split n 8 peel; order n.o m k.o n.i k.i; acc k.i; vec k.i; unroll "
        "n.i; "
        "par n.o",
        "split k 4 peel; split n 4 mask; order m n.o k.o n.i k.i; acc k.i; vec k.i; unroll "
        "n.i; "
        "approx exp",
        "split k 16 peel; split n 16 mask; order m n.o k.o n.i k.i; acc k.i; vec k.i; unroll "
        "n.i; approx exp fma",
        "split k 32 peel; split n 16 switch; split m 2 switch; order n.o m.o k.o m.i n.i k.i; "
        "acc k.i; vec k.i; unroll m.i; unroll n.i; fma",
        "split k 16 peel; split n 32 switch; split m 2 peel; order n.o m.o k.o n.i m.i k.i; "
        "acc "
        "k.i; vec k.i; unroll n.i; fma",
        "split k 2 peel; split n 4 switch; order m n.o k.o n.i k.i; acc k.i; vec k.i; unroll "
        "n.i",
    };
    CHECK(whole_lanes, schedules, some_columns);
}

static void check_sums_text(Env *e, void *unused)
{
    static const struct {
        const Kernel *(*make)(Env *e);
        const char *schedule;
        bool joins; /* many at once, on AVX2 */
    } rows[] = {
        {whole_lanes,
         "split k 8 peel; split n 8 peel; order m n.o k.o n.i k.i; acc k.i; vec k.i; unroll "
         "n.i",
         true},
        {whole_lanes,
         "split k 16 peel; split n 16 peel; order m n.o k.o n.i k.i; acc k.i; vec k.i; unroll "
         "n.i",
         true},
        /* too few, loops, and rows that lie apart in the output */
        {whole_lanes,
         "split k 8 peel; split n 4 peel; order m n.o k.o n.i k.i; acc k.i; vec k.i; unroll "
         "n.i",
         false},
        {whole_lanes,
         "split k 8 peel; split n 8 peel; order m n.o k.o n.i k.i; acc k.i; vec k.i", false},
        {whole_lanes,
         "split k 8 peel; split m 8 peel; order n m.o k.o m.i k.i; acc k.i; vec k.i; unroll "
         "m.i",
         false},
        /* what does not fill the lanes is added later, point by point */
        {odd_matmul,
         "split k 8 peel; split n 8 peel; order m n.o k.o n.i k.i; acc k.i; vec k.i; unroll "
         "n.i",
         false},
    };
    (void)unused;
    for (size_t i = 0; i < countof(rows); i++) {
        Buf c;
        buf_init(&c, &e->model);
        const Kernel *k = kernel_under(e, rows[i].make(e), rows[i].schedule);
        emit_kernel(e, k, target_named("avx2"), &c);
        cr_expect_eq(strstr(c.at, "= sums8(") != NULL, rows[i].joins, "%s", rows[i].schedule);
    }
}

Test(schedule, sums_join_at_once_where_they_may_stay_in_lanes)
{
    must_work(&env, check_sums_text, NULL);
}

Test(schedule, matmul_with_a_staged_tile)
{
    static const char *const schedules[] = {
        "split n 16 pad; split m 4 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; fma; "
        "pack b n.o,k,n.i; stage a m.o; par n.o",
        "split n 16 mask; split m 4 peel; order m.o n.o k m.i n.i; stage a m.o; stage b n.o",
        "split n 8 peel; split k 5 peel; order m n.o k.o k.i n.i; stage b k.o; vec n.i",
    };
    CHECK(odd_matmul, schedules, some_rows);
}

/* ---- two products and an epilogue ---- */

static const Kernel *swiglu(Env *e)
{
    return kernel_of_graph(
        e, "graph g\nx = input f32[seq, 20]\ng = weight f32[33, 20]\nu = weight f32[33, 20]\n"
           "gt = permute g perm=[1, 0]\nut = permute u perm=[1, 0]\na = matmul x, gt\nb = "
           "matmul x, ut\n"
           "n = neg a\ne = exp n\no = const f32[1, 1] 1.0\nob = broadcast o shape=[seq, 33]\nd "
           "= add ob, e\n"
           "s = div a, d\ny = mul s, b\nreturn y=y\n");
}

Test(schedule, two_products_and_an_epilogue)
{
    static const char *const schedules[] = {
        "split n 16 pad; split m 4 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; fma; "
        "pack b n.o,k,n.i; "
        "pack b1 n.o,k,n.i; approx exp; par n.o",
        "split n 8 peel; split m 2 peel; order m.o n.o k m.i n.i; vec n.i; unroll m.i; pack b "
        "n.o,k,n.i; pack b1 n.o,k,n.i",
        "split k 16 peel; order m n k.o k.i; acc k.i; vec k.i; fma; approx exp fma; par m",
    };
    CHECK(swiglu, schedules, some_rows);
}

/* ---- rows ---- */

static const int64_t row_sizes[][2] = {{1, 1}, {2, 15}, {3, 16}, {1, 17}, {5, 33}, {2, 70}};

Test(schedule, softmax_rows)
{
    static const char *const schedules[] = {
        "par i",
        "split j 16 peel; vec j.i",
        "split r 16 peel; acc r.i; vec r.i; split j 16 peel; vec j.i; approx exp; par i",
        "split r 32 peel; acc r.i; vec r.i; split j 32 mask; vec j.i; approx exp fma",
        "split r 8 peel; split j 8 switch; vec j.i",
        "approx exp",
        "approx exp fma",
    };
    CHECK(odd_softmax, schedules, row_sizes);
}

static const Kernel *rms_norm(Env *e)
{
    return kernel_of_graph(e, "graph g\nx = input f32[seq, 40]\nw = weight f32[40]\nq = mul x, "
                              "x\ns = reduce_sum q axis=-1\n"
                              "sb = broadcast s shape=[seq, 40]\nr = sqrt sb\ny = div x, r\n"
                              "wr = reshape w shape=[1, 40]\nwb = broadcast wr shape=[seq, "
                              "40]\nz = mul y, wb\nreturn z=z\n");
}

Test(schedule, rms_norm_rows)
{
    static const char *const schedules[] = {
        "split r 16 peel; acc r.i; vec r.i; fma; split j 8; vec j.i; par i",
        "split r 8; acc r.i; vec r.i; split j 16 mask; vec j.i",
        "split r 8; split r.i 4; acc r.i.i; vec r.i.i; fma",
    };
    CHECK(rms_norm, schedules, some_rows);
}

Test(schedule, softmax_computes_exp_once)
{
    static const char *const schedules[] = {
        "keep t2 r",
        "keep t2 r; split r 16 peel; acc r.i; vec r.i; split j 16 peel; vec j.i; approx exp; "
        "par i",
        "split r 8 peel; split j 8 mask; vec j.i; keep t2 r",
    };
    CHECK(odd_softmax, schedules, row_sizes);
}

/* ---- elementwise, gather ---- */

static const Kernel *rotated(Env *e)
{
    return kernel_of_graph(
        e,
        "graph g\nx = input f32[seq, 16]\nc = input f32[seq, 16]\n"
        "hi = slice x axis=1 start=8 stop=16\nlo = slice x axis=1 start=0 stop=8\nn = neg hi\n"
        "r = concat n, lo axis=1\na = mul x, c\nb = mul r, c\ny = add a, b\nreturn y=y\n");
}

Test(schedule, a_cut_settles_both_halves_of_a_rotation)
{
    static const char *const schedules[] = {"cut j 8", "cut j 8; vec j.0; vec j.1",
                                            "cut j 3; par i", "cut j 16", "cut j 0"};
    CHECK(rotated, schedules, some_rows);
}

static const Kernel *scores(Env *e)
{
    return kernel_of_graph(
        e,
        "graph g\nq = input f32[seq, 16]\nk = input f32[past, 16]\nl = input f32[seq, 16]\n"
        "all = concat k, l axis=0\nt = permute all perm=[1, 0]\ny = matmul q, t\nreturn y=y\n");
}

Test(schedule, a_cut_parts_the_cache_from_the_new)
{
    static const char *const schedules[] = {
        "cut n s1",
        "cut n s1; split k 16; order m n.0 k.o k.i; acc k.i; vec k.i; fma; par m",
        "split k 8; acc k.i; vec k.i; par m",
    };
    CHECK(scores, schedules, row_sizes);
}

static const Kernel *masked(Env *e)
{
    return kernel_of_graph(
        e, "graph g\nx = input f32[seq, past]\ni = iota i64[seq, past] axis=0\n"
           "j = iota i64[seq, past] axis=1\na = less_equal j, i\nz = const f32[1, 1] -2.5\n"
           "zb = broadcast z shape=[seq, past]\ny = where a, x, zb\nreturn y=y\n");
}

Test(schedule, a_causal_mask_in_lanes)
{
    static const char *const schedules[] = {"split j 16 peel; vec j.i; par i",
                                            "split j 8 mask; vec j.i",
                                            "split i 3 peel; par i.o"};
    CHECK(masked, schedules, row_sizes);
}

static const Kernel *gather(Env *e)
{
    return kernel_of_graph(
        e, "graph g\nt = weight f32[3, 40]\ni = input i64[seq]\ny = gather t, i\nreturn y=y\n");
}

Test(schedule, gathered_rows)
{
    static const char *const schedules[] = {"split j 16 peel; vec j.i; par i"};
    CHECK(gather, schedules, some_rows);
}

/* ---- storage ---- */

Test(schedule, weights_stored_as_bf16_lose_nothing)
{
    static const char *const schedules[] = {
        "pack b n,k; store b bf16",
        "split n 16 pad; split m 4 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; pack "
        "b n.o,k,n.i; store b bf16; par n.o",
        "split k 16 peel; order m n k.o k.i; acc k.i; vec k.i; fma; pack b n,k.o,k.i; store b "
        "bf16",
        "store b bf16",
        "pack b n,k",
        "store b bf16; split n 16 pad; order m n.o k n.i; vec n.i; pack b n.o,k,n.i; par m",
        "split n 3 switch; split m 4 switch; split k 8 peel; order n.o m.o k.o m.i n.i k.i; "
        "acc "
        "k.i; vec k.i; unroll n.i; unroll m.i; fma; store b bf16; prefetch b k.o 64; par n.o",
        "split n 5 switch; order n.o m k n.i; unroll n.i; stage b n.o; store b bf16; par n.o",
        "split m 4 switch; order m.o n k m.i; unroll m.i; store b bf16; par m.o",
    };
    CHECK(bf16_matmul, schedules, some_rows);
}

/* ---- int8 ---- */

static const Kernel *int8_matmul(Env *e)
{
    return kernel_from(e, "kernel matmul\ny: i32[s0*29]\na: i8[s0*24]\nb: const i8[696]\naxis "
                          "m space s0\naxis n space 29\n"
                          "axis k reduce 24\nphase m n k\n"
                          "    acc0: i32 = 0i32 -> acc0 + i32(a[m*24 + k]) * i32(b[n*24 + "
                          "k])\n    y[m*29 + n] = acc0\n");
}

static const Kernel *int8_scaled(Env *e)
{
    return kernel_from(e, "kernel matmul+epilogue\ny: f32[s0*29]\na: i8[s0*24]\nb: const "
                          "i8[696]\nx0: const f32[29]\n"
                          "axis m space s0\naxis n space 29\naxis k reduce 24\nphase m n k\n"
                          "    acc0: i32 = 0i32 -> acc0 + i32(a[m*24 + k]) * i32(b[n*24 + k])\n"
                          "    y[m*29 + n] = f32(acc0) * x0[n]\n");
}

static const char *const int8_schedules[] = {
    "split n 16 pad; split m 6 switch; split k 4; order n.o m.o k.o m.i n.i k.i; dot k.i; vec "
    "n.i; unroll m.i; "
    "pack b n.o,k.o,n.i,k.i; par n.o",
    "split n 8 pad; split k 4; order n.o m k.o n.i k.i; dot k.i; vec n.i; pack b "
    "n.o,k.o,n.i,k.i",
    "split k 4; dot k.i",
    "split k 4; split k.o 2; order m n k.o.o k.o.i k.i; dot k.i; par m",
};

Test(schedule, int8_panels_with_dot)
{
    CHECK(int8_matmul, int8_schedules, some_rows);
}

/* The scale has to lie in panels too, so that padded lanes read inside it. */
Test(schedule, int8_panels_with_a_scale)
{
    static const char *const schedules[] = {
        "split n 16 pad; split m 3 switch; split k 4; order n.o m.o k.o m.i n.i k.i; dot k.i; "
        "vec n.i; unroll m.i; "
        "pack b n.o,k.o,n.i,k.i; par n.o",
    };
    CHECK(int8_scaled, schedules, some_rows);
}
