/* run_verify_faults.c - each planted fault is caught, with a sentence that says what is wrong and where. A fault is
 * a function around the right candidate's; on its own that passes. */
#include "tests/env_fixture.h"
#include "tests/verify_util.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(verify_faults, .init = start, .fini = stop, .timeout = 600);

static KernelFn right; /* what the fault is planted in */
static int n_calls;

static int32_t drop_last_product(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    float *y = p[0];
    const float *a = p[1], *b = p[2];
    if (part == n_parts - 1 && syms[0] > 0) {
        y[4] -= a[4863] * b[4 * 4864 + 4863];
    }
    return code;
}

static int32_t leave_tail_row(void *const *p, const int64_t *syms, int part, int n_parts)
{
    float row[45], *last = (float *)p[0] + (syms[0] - 1) * 45;
    bool tail = syms[0] % 4 == 3;
    if (tail) {
        memcpy(row, last, sizeof row);
    }
    int32_t code = right(p, syms, part, n_parts);
    if (tail) {
        memcpy(last, row, sizeof row);
    }
    return code;
}

static int32_t write_behind(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    ((volatile float *)p[0])[syms[0] * 45] = 1;
    return code;
}

static int32_t write_before(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    ((volatile float *)p[0])[-1] = 1;
    return code;
}

static int32_t write_in_the_gap(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    if (syms[0] > 1) {
        ((float *)p[0])[8 + 6] = 0;
    }
    return code;
}

static int32_t read_behind(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    volatile float unused = ((float *)p[1])[syms[0] * 37];
    (void)unused;
    return code;
}

static int32_t use_what_is_behind(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    float *y = p[0];
    for (int64_t i = 0; i < syms[0]; i++) {
        y[i * 45 + 44] += ((volatile float *)p[1])[syms[0] * 37] * 0.0f;
    }
    return code;
}

static int32_t wrong_lane(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    float *y = p[0];
    for (int64_t i = 0; part == 0 && i < syms[0]; i++) {
        y[i * 33 + 21] *= 1.0001f; /* lane 5 of the second vector */
    }
    return code;
}

static int32_t right_only_once(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    if (part == 0 && ++n_calls % 2 == 0 && syms[0] > 0) {
        ((float *)p[0])[2] = 0.25f;
    }
    return code;
}

static int32_t overwrite_input(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    if (syms[0] > 0) {
        ((float *)p[1])[3] = 100;
    }
    return code;
}

static int32_t overwrite_panels(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    ((float *)p[2])[3] = 100;
    return code;
}

static int32_t overwrite_bf16(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    ((uint16_t *)p[2])[1664] = 0x42c8;
    return code;
}

static int32_t write_behind_bf16(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    ((volatile uint16_t *)p[2])[1665] = 1;
    return code;
}

static int32_t skip_last_part(void *const *p, const int64_t *syms, int part, int n_parts)
{
    return part == n_parts - 1 && n_parts > 1 ? 0 : right(p, syms, part, n_parts);
}

static int32_t never_fail(void *const *p, const int64_t *syms, int part, int n_parts)
{
    right(p, syms, part, n_parts);
    return 0;
}

static int32_t flush_denormals(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    float *y = p[0];
    for (int64_t i = 0; i < syms[0] * 8; i++) {
        y[i] = y[i] > -0x1p-126f && y[i] < 0x1p-126f ? 0 : y[i];
    }
    return code;
}

static int32_t lose_nan(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    float *y = p[0];
    for (int64_t i = 0; i < syms[0] * 45; i++) {
        y[i] = y[i] != y[i] ? 0 : y[i];
    }
    return code;
}

typedef struct Plant {
    const char *text, *schedule;
    KernelFn fault;
    int64_t syms[2];
    const char *words; /* of the sentence */
} Plant;

static void plant(Env *e, void *arg)
{
    const Plant *f = arg;
    Built b;
    build(e, &b, f->text, f->schedule);
    right = b.kernel.fn;
    n_calls = 0;
    Verdict v = verified(e, b.bench.at[0].naive, &b.kernel, f->syms);
    cr_assert(v.ok, "without the fault: %s", v.text);
    b.kernel.fn = f->fault;
    v = verified(e, b.bench.at[0].naive, &b.kernel, f->syms);
    cr_assert(!v.ok);
    cr_assert(strstr(v.text, f->words), "not '%s': %s", f->words, v.text);
    built_close(&b);
}

#define PANELS                                                                              \
    "split n 16 pad; split m 4 switch; order n.o m.o k m.i n.i; vec n.i; unroll m.i; fma; " \
    "pack b n.o,k,n.i; "                                                                    \
    "par n.o"
#define ALONG_K "split k 16 peel; order m n k.o k.i; acc k.i; vec k.i; fma; par m"

#define PLANT(name, ...)            \
    Test(verify_faults, name)       \
    {                               \
        Plant f = {__VA_ARGS__};    \
        must_work(&env, plant, &f); \
    }

PLANT(a_dropped_last_product, long_text, ALONG_K, drop_last_product, {3}, "y[4] is ")
PLANT(a_tail_row_left_unwritten, product_text, PANELS, leave_tail_row, {12}, "is never written")
PLANT(a_write_behind_the_output, product_text, PANELS, write_behind, {12},
      "writes outside of its buffers: 0 bytes behind the end of y")
PLANT(a_write_before_the_output, product_text, PANELS, write_before, {12},
      "writes outside of its buffers: 4 bytes before y")
PLANT(a_write_between_its_elements, strided_text, "", write_in_the_gap, {4},
      "y[14] is written, and is none of the elements")
PLANT(a_value_from_behind_an_input, product_text, ALONG_K, use_what_is_behind, {12},
      "is nan, and must be ")
PLANT(a_wrong_epilogue_on_one_lane, swiglu_text, "split n 16 peel; order m n.o k n.i",
      wrong_lane, {9}, "and must be ")
PLANT(a_result_right_only_on_the_first_call, product_text, PANELS, right_only_once, {12},
      "y[2] is ")
PLANT(an_input_overwritten, product_text, PANELS, overwrite_input, {12},
      "overwrites its input: a[3] was ")
PLANT(panels_overwritten, product_text, PANELS, overwrite_panels, {12},
      "overwrites its input b's panels")
PLANT(bf16_overwritten, widened_text, ALONG_K "; store b bf16", overwrite_bf16, {12},
      "overwrites its input b's bf16 values")
PLANT(a_write_behind_bf16, widened_text, ALONG_K "; store b bf16", write_behind_bf16, {12},
      "writes outside of its buffers: 0 bytes behind the end of b's bf16 values")
PLANT(part_2_of_2_missing, product_text, PANELS, skip_last_part, {12}, "is never written")
PLANT(a_bad_index_not_reported, lookup_text, "par i", never_fail, {6},
      "returns 0 from its first call, and must return 1")
PLANT(denormals_flushed, strided_text, "", flush_denormals, {6}, "special values")
PLANT(a_nan_lost, product_text, ALONG_K, lose_nan, {12}, "must be nan (special values")

static int32_t lose_one_of_many(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    if (part == 0 && syms[0] == 2000) {
        ((float *)p[0])[1234 * 45 + 5] -= 1;
    }
    return code;
}

/* 90,000 elements, of which some hundred are evaluated. */
static void too_dear(Env *e, void *arg)
{
    Built b;
    (void)arg;
    build(e, &b, product_text, PANELS);
    VerifyOptions o = {
        .syms = (const int64_t[]){2000}, .seed = 1, .in_process = true, .work = 1e5};
    Verdict v;
    cr_assert(verify_kernel(e, b.bench.at[0].naive, &b.kernel, &o, &v), "%s", v.text);
    cr_expect(v.n_sums > 2 && v.n_exact < 20000);
    right = b.kernel.fn;
    b.kernel.fn = lose_one_of_many;
    cr_assert(!verify_kernel(e, b.bench.at[0].naive, &b.kernel, &o, &v));
    cr_expect(strstr(v.text, "y[55535] is ") &&
                  strstr(v.text, "found by the sum of its row (small integers"),
              "%s", v.text);
    built_close(&b);
}

Test(verify_faults, one_wrong_element_where_the_reference_is_a_sample)
{
    must_work(&env, too_dear, NULL);
}

/* Fewer runs find the same: of tails on integers only, and of what was verified before on floats only. */
static void with_fewer_runs(Env *e, void *arg)
{
    static const int64_t no_other_size = 0;
    Built b;
    Verdict v;
    (void)arg;
    build(e, &b, product_text, PANELS);
    const Kernel *naive = b.bench.at[0].naive;
    VerifyOptions o = {
        .syms = (const int64_t[]){12}, .seed = 1, .n_seeds = 1, .in_process = true};
    cr_assert(verify_kernel(e, naive, &b.kernel, &o, &v), "%s", v.text);
    int all = v.n_runs;
    o.tails_once = true;
    cr_assert(verify_kernel(e, naive, &b.kernel, &o, &v), "%s", v.text);
    cr_expect(v.n_runs < all && v.n_runs > 3, "%d of %d", v.n_runs, all);
    right = b.kernel.fn;
    b.kernel.fn = leave_tail_row;
    cr_expect_not(verify_kernel(e, naive, &b.kernel, &o, &v));
    o = (VerifyOptions){.syms = o.syms,
                        .seed = 1,
                        .n_seeds = 1,
                        .in_process = true,
                        .sizes = &no_other_size,
                        .briefly = true};
    b.kernel.fn = right;
    cr_assert(verify_kernel(e, naive, &b.kernel, &o, &v), "%s", v.text);
    cr_expect_eq(v.n_runs, 1);
    n_calls = 0;
    b.kernel.fn = right_only_once;
    cr_expect_not(verify_kernel(e, naive, &b.kernel, &o, &v));
    cr_expect(strstr(v.text, "(floats"), "%s", v.text);
    built_close(&b);
}

Test(verify_faults, fewer_runs_find_a_tail_and_a_second_call)
{
    must_work(&env, with_fewer_runs, NULL);
}

/* ---- what is not looked at anew for each size ---- */

static int32_t lose_one_in_a_tail(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    if (part == 0 && syms[0] == 7) {
        ((float *)p[0])[2] += 1;
    }
    return code;
}

/* Each size is sampled, and the columns are summed up once. */
static void in_a_sampled_tail(Env *e, void *arg)
{
    Built b;
    Verdict v;
    (void)arg;
    build(e, &b, product_text, PANELS);
    VerifyOptions o = {.syms = (const int64_t[]){2000},
                       .seed = 1,
                       .in_process = true,
                       .tails_once = true,
                       .work = 3e3};
    cr_assert(verify_kernel(e, b.bench.at[0].naive, &b.kernel, &o, &v), "%s", v.text);
    cr_expect(v.n_sums > 5);
    right = b.kernel.fn;
    b.kernel.fn = lose_one_in_a_tail;
    cr_assert(!verify_kernel(e, b.bench.at[0].naive, &b.kernel, &o, &v));
    cr_expect(strstr(v.text, "y[2] is ") && strstr(v.text, "s0 = 7"), "%s", v.text);
    built_close(&b);
}

Test(verify_faults, one_wrong_element_of_a_tail_that_is_a_sample)
{
    must_work(&env, in_a_sampled_tail, NULL);
}

static int32_t overwrite_weights(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    if (part == 0 && ++n_calls % 2 == 0) { /* after the last look at the output */
        ((float *)p[2])[899999] = 3;
    }
    return code;
}

static const char weights_text[] =
    "kernel product\n"
    "y: f32[45*s0]\n"
    "a: f32[20000*s0]\n"
    "b: const f32[900000]\n"
    "axis m space s0\n"
    "axis n space 45\n"
    "axis k reduce 20000\n"
    "phase m n k\n"
    "    acc0: f32 = 0.0f -> acc0 + a[m*20000 + k] * b[k + n*20000]\n"
    "    y[m*45 + n] = acc0\n";

static void large_constants(Env *e, void *arg)
{
    Built b;
    Verdict v;
    (void)arg;
    build(e, &b, weights_text, "");
    VerifyOptions o = {
        .syms = (const int64_t[]){2}, .seed = 1, .in_process = true, .tails_once = true};
    cr_assert(verify_kernel(e, b.bench.at[0].naive, &b.kernel, &o, &v), "%s", v.text);
    right = b.kernel.fn;
    n_calls = 0;
    b.kernel.fn = overwrite_weights;
    cr_assert(!verify_kernel(e, b.bench.at[0].naive, &b.kernel, &o, &v));
    cr_expect(strstr(v.text, "overwrites its input: b[899999] was "), "%s", v.text);
    built_close(&b);
}

Test(verify_faults, weights_of_megabytes_overwritten)
{
    must_work(&env, large_constants, NULL);
}

/* ---- who is not worth all runs ---- */

static bool count_and_stop(void *n_asked)
{
    ++*(int *)n_asked;
    return false;
}

static void stopped_early(Env *e, void *arg)
{
    Built b;
    Verdict v;
    int n_asked = 0;
    (void)arg;
    build(e, &b, product_text, PANELS);
    VerifyOptions o = {.syms = (const int64_t[]){12},
                       .seed = 1,
                       .in_process = true,
                       .go_on = count_and_stop,
                       .go_on_ctx = &n_asked};
    cr_assert(verify_kernel(e, b.bench.at[0].naive, &b.kernel, &o, &v), "%s", v.text);
    cr_expect(n_asked == 1 && v.n_runs == 1 && v.n_exact == 12 * 45);
    cr_expect(strstr(v.text, "1 run at 1 size agrees"), "%s", v.text);
    right = b.kernel.fn;
    b.kernel.fn = right_only_once;
    n_calls = 0;
    cr_expect_not(verify_kernel(e, b.bench.at[0].naive, &b.kernel, &o, &v));
    cr_expect_eq(n_asked, 1, "what is wrong is not asked for");
    built_close(&b);
}

Test(verify_faults, the_first_run_may_be_the_last)
{
    must_work(&env, stopped_early, NULL);
}

/* ---- guard pages: the fault ends the process, and the verdict says where ---- */

typedef struct Crash {
    KernelFn fault;
    bool at_end;
} Crash;

static void crash(Env *e, void *arg)
{
    const Crash *c = arg;
    Built b;
    Verdict *v =
        mmap(NULL, sizeof *v, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    build(e, &b, product_text, PANELS);
    right = b.kernel.fn;
    b.kernel.fn = c->fault;
    VerifyOptions o = {.syms = (const int64_t[]){12}, .seed = 1};
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        verify_kernel(e, b.bench.at[0].naive, &b.kernel, &o, v);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    cr_expect(!v->ok);
    cr_expect(strstr(v->text, "does not return from its first call"), "%s", v->text);
    cr_expect(strstr(v->text,
                     c->at_end ? "that end where a page does" : "that begin where a page does"),
              "%s", v->text);
    built_close(&b);
    munmap(v, sizeof *v);
}

Test(verify_faults, a_read_behind_an_input_is_a_fault)
{
    must_work(&env, crash, &(Crash){read_behind, true});
}

Test(verify_faults, a_write_behind_the_output_is_a_fault)
{
    must_work(&env, crash, &(Crash){write_behind, true});
}

static int32_t read_before(void *const *p, const int64_t *syms, int part, int n_parts)
{
    int32_t code = right(p, syms, part, n_parts);
    volatile float unused = ((float *)p[1])[-1];
    (void)unused;
    return code;
}

Test(verify_faults, a_read_before_an_input_is_a_fault)
{
    must_work(&env, crash, &(Crash){read_before, false});
}
