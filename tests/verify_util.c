/* verify_util.c - see verify_util.h. */
#include "tests/verify_util.h"

const char long_text[] = "kernel matmul+epilogue\n"
                         "y: f32[6*s0]\n"
                         "a: f32[4864*s0]\n"
                         "b: const f32[29184]\n"
                         "x0: f32[6*s0]\n"
                         "axis m space s0\n"
                         "axis n space 6\n"
                         "axis k reduce 4864\n"
                         "phase m n k\n"
                         "    acc0: f32 = 0.0f -> acc0 + a[m*4864 + k] * b[k + n*4864]\n"
                         "    y[m*6 + n] = x0[m*6 + n] + acc0\n";

const char swiglu_text[] = "kernel matmul+epilogue\n"
                           "y: f32[33*s0]\n"
                           "a: f32[20*s0]\n"
                           "b: const f32[660]\n"
                           "b1: const f32[660]\n"
                           "axis m space s0\n"
                           "axis n space 33\n"
                           "axis k reduce 20\n"
                           "phase m n k\n"
                           "    acc0: f32 = 0.0f -> acc0 + a[m*20 + k] * b[k + n*20]\n"
                           "    acc1: f32 = 0.0f -> acc1 + a[m*20 + k] * b1[k + n*20]\n"
                           "    t0: bool = 0.0f <= acc0\n"
                           "    t1: f32 = -acc0\n"
                           "    t2: f32 = t0 ? t1 : acc0\n"
                           "    t3: f32 = exp(t2)\n"
                           "    t4: f32 = t0 ? 0x1p+0f : t3\n"
                           "    t5: f32 = t3 + 0x1p+0f\n"
                           "    t6: f32 = t4 / t5\n"
                           "    t7: f32 = acc0 * t6\n"
                           "    y[m*33 + n] = t7 * acc1\n";

const char rows_text[] = "kernel row\n"
                         "y: f32[s0*s1]\n"
                         "x0: f32[s0*s1]\n"
                         "axis i space s0\n"
                         "axis j space s1\n"
                         "axis r reduce s1\n"
                         "outer i\n"
                         "phase r\n"
                         "    t0: f32 = x0[i*s1 + r]\n"
                         "    acc0: f32 = -inf -> acc0 < t0 || t0 != t0 ? t0 : acc0\n"
                         "phase r\n"
                         "    t1: f32 = exp(x0[i*s1 + r] - acc0)\n"
                         "    acc1: f32 = 0.0f -> acc1 + t1\n"
                         "phase j\n"
                         "    y[i*s1 + j] = exp(x0[i*s1 + j] - acc0) / acc1\n";

const char norm_text[] = "kernel row\n"
                         "y: f32[40*s0]\n"
                         "x0: f32[40*s0]\n"
                         "x1: const f32[40]\n"
                         "axis i space s0\n"
                         "axis j space 40\n"
                         "axis r reduce 40\n"
                         "outer i\n"
                         "phase r\n"
                         "    t0: f32 = x0[i*40 + r] * x0[i*40 + r]\n"
                         "    acc0: f32 = 0.0f -> acc0 + t0\n"
                         "phase j\n"
                         "    t1: f32 = acc0 / 0x1.4p+5f\n"
                         "    t2: f32 = t1 + 0x1.0c6f7ap-20f\n"
                         "    t3: f32 = reciprocal(sqrt(t2))\n"
                         "    y[i*40 + j] = x0[i*40 + j] * t3 * x1[j]\n";

const char score_text[] = "kernel matmul\n"
                          "y: f32[4*s0*s1 + 4*s1*s1]\n"
                          "a: f32[64*s1]\n"
                          "b: f32[32*s1]\n"
                          "b1: f32[32*s0]\n"
                          "axis h space 4\n"
                          "axis m space s1\n"
                          "axis n space s0 + s1\n"
                          "axis k reduce 16\n"
                          "phase h m n k\n"
                          "    acc0: f32 = 0.0f -> acc0 + a[h*(16*s1) + m*16 + k] * (n < s0 ? "
                          "b1[h/2*(16*s0) + n*16 + k] "
                          ": b[h/2*(16*s1) + (n - s0)*16 + k])\n"
                          "    y[h*(s0*s1 + s1*s1) + m*(s0 + s1) + n] = acc0\n";

const char rope_text[] =
    "kernel elementwise\n"
    "y: f32[16*s0]\n"
    "x0: const f32[8]\n"
    "axis i space s0\n"
    "axis j space 16\n"
    "phase i j\n"
    "    y[i*16 + j] = cos(j < 8 ? f32(i + s1) * x0[j] : f32(i + s1) * x0[j - 8])\n";

const char lookup_text[] = "kernel gather\n"
                           "y: f32[20*s0]\n"
                           "ids: i64[s0]\n"
                           "table: const f32[220]\n"
                           "axis i space s0\n"
                           "axis j space 20\n"
                           "outer i\n"
                           "phase\n"
                           "    t0: i64 = ids[i]\n"
                           "    fail 1 if t0 < 0 || 11 <= t0\n"
                           "phase j\n"
                           "    y[i*20 + j] = table[t0*20 + j]\n";

const char strided_text[] = "kernel copy\n"
                            "y: f32[8*s0]\n"
                            "x0: f32[5*s0]\n"
                            "axis i space s0\n"
                            "axis j space 5\n"
                            "phase i j\n"
                            "    y[i*8 + j] = x0[i*5 + j]\n";

void build(Env *e, Built *b, const char *text, const char *schedule)
{
    b->bench = (Bench){.e = e};
    bench_add(&b->bench, kernel_from(e, text), schedule);
    bench_compile(&b->bench, NULL);
    const Case *c = &b->bench.at[0];
    b->kernel = (BuiltKernel){.k = c->k, .fn = c->fn, .pack = c->pack, .n_parts = 2};
}

void built_close(Built *b)
{
    bench_close(&b->bench);
}

typedef struct VerifyJob {
    const Kernel *naive;
    const BuiltKernel *k;
    const int64_t *syms;
    Verdict v;
} VerifyJob;

static void run(Env *e, void *arg)
{
    VerifyJob *j = arg;
    VerifyOptions o = {.syms = j->syms, .seed = 1, .in_process = true};
    verify_kernel(e, j->naive, j->k, &o, &j->v);
}

Verdict verified(Env *e, const Kernel *naive, const BuiltKernel *k, const int64_t *syms)
{
    VerifyJob j = {.naive = naive, .k = k, .syms = syms};
    must_work(e, run, &j);
    return j.v;
}
