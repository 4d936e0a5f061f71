/* blas.c - the interpreter's matrix product by OpenBLAS, where somebody asks for speed.
 *
 * OpenBLAS sums in an order of its own, so results differ in the last bits: it is an option
 * that announces itself, never the definition. The library is found at run time: nothing
 * here depends on it. It is told how many threads to use, since its own guess ignores
 * quotas. A Gemm carries no context, so the function found is kept here. */
#include "run/run_int.h"

#include <dlfcn.h>
#include <limits.h>
#include <string.h>

#define SONAME "libopenblas.so.0"

enum { ROW_MAJOR = 101, NO_TRANS = 111 }; /* CBLAS's own numbers */

typedef void Sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                   const float *a, int lda, const float *b, int ldb, float beta, float *c,
                   int ldc);

static Sgemm *sgemm;

/* For rows too long to be counted in int. */
static void multiply_plainly(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                             float *c)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            float sum = 0.0f;
            for (int64_t l = 0; l < k; l++) {
                sum += a[i * k + l] * b[l * n + j];
            }
            c[i * n + j] = sum;
        }
    }
}

/* c[m, n] = a[m, k] b[k, n] */
static void multiply(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c)
{
    if (m > INT_MAX || n > INT_MAX || k > INT_MAX) {
        multiply_plainly(m, n, k, a, b, c);
        return;
    }
    int row_a = k > 0 ? (int)k : 1, row_b = n > 0 ? (int)n : 1;
    sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, (int)m, (int)n, (int)k, 1.0f, a, row_a, b, row_b, 0.0f,
          c, row_b);
}

static void read_machine(Env *e, void *arg)
{
    machine_read(e, "", arg);
}

static int thread_count(void)
{
    Env e;
    Machine m;
    env_init(&e);
    int n = env_try(&e, read_machine, &m) ? m.n_threads : 1;
    env_release(&e);
    return n;
}

static bool find(void *lib, const char *name, void *to, Err *err)
{
    void *fn = os.dlsym(lib, name);
    memcpy(to, &fn, sizeof fn);
    return fn || err_set(err, E_BUILD, "%s lacks %s; install libopenblas0.", SONAME, name);
}

bool blas_gemm(Gemm *out, const char **says, Err *err)
{
    void *lib = os.dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        return err_set(err, E_BUILD, "OpenBLAS was not found (%s); install libopenblas0.",
                       SONAME);
    }
    void (*set_threads)(int);
    char *(*config)(void);
    if (!find(lib, "cblas_sgemm", &sgemm, err) ||
        !find(lib, "openblas_set_num_threads", &set_threads, err) ||
        !find(lib, "openblas_get_config", &config, err)) {
        os.dlclose(lib);
        return false;
    }
    set_threads(thread_count());
    *out = multiply;
    *says = config();
    return true;
}
