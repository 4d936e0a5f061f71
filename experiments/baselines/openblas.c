/* openblas.c - OpenBLAS as a baseline: sgemm, and sgemv for one row.
 *
 * It picks its kernels by the CPU it finds, unless OPENBLAS_CORETYPE says otherwise: a value
 * left over from elsewhere halves its speed, so it is taken out of the environment before the
 * library is loaded, and what was chosen is reported. Its workers spin for milliseconds after a
 * call; where contenders take turns that would slow the next one down, so they are told to
 * sleep earlier. */
#include "experiments/baselines/baselines_int.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define SONAME "libopenblas.so.0"
#define SPIN_CYCLES_LOG2 "17" /* 0.05 ms, longer than any gap between calls of a sample */

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 }; /* CBLAS's own numbers */

static bool find(OpenBlas *b, const char *name, void *to)
{
    void *fn = os.dlsym(b->lib, name);
    memcpy(to, &fn, sizeof fn);
    if (!fn) {
        snprintf(b->says, sizeof b->says, "%s has no %s", SONAME, name);
    }
    return fn;
}

static bool find_all(OpenBlas *b, int n_threads)
{
    char *(*config)(void);
    char *(*core)(void);
    void (*set_threads)(int);
    if (!find(b, "cblas_sgemm", &b->sgemm) || !find(b, "cblas_sgemv", &b->sgemv) ||
        !find(b, "openblas_get_config", &config) || !find(b, "openblas_get_corename", &core) ||
        !find(b, "openblas_set_num_threads", &set_threads)) {
        return false;
    }
    set_threads(n_threads);
    const char *version = config(); /* "OpenBLAS 0.3.21 NO_LAPACKE ..." */
    const char *end = strchr(version, ' ');
    end = end ? strchr(end + 1, ' ') : NULL;
    int len = end ? (int)(end - version) : (int)strlen(version);
    snprintf(b->says, sizeof b->says, "%.*s, core type %s, threads %d", len, version, core(),
             n_threads);
    return true;
}

void openblas_open(int n_threads, OpenBlas *b)
{
    *b = (OpenBlas){0};
    unsetenv("OPENBLAS_CORETYPE");
    unsetenv("OPENBLAS_L2_SIZE");
    setenv("OPENBLAS_THREAD_TIMEOUT", SPIN_CYCLES_LOG2, 1);
    b->lib = os.dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (!b->lib) {
        snprintf(b->says, sizeof b->says, "%s is not installed (package libopenblas0)", SONAME);
    } else if (!find_all(b, n_threads)) {
        openblas_close(b);
    }
}

void openblas_close(OpenBlas *b)
{
    if (b->lib) {
        os.dlclose(b->lib);
        b->lib = NULL;
    }
}

const char *openblas_lacks(const Baselines *s)
{
    return s->openblas.lib ? NULL : s->openblas.says;
}

bool openblas_plan(const Baselines *s, Product *p, Err *err)
{
    (void)s;
    if (p->m > INT_MAX || p->n > INT_MAX || p->k > INT_MAX) {
        return err_set(err, E_SHAPE,
                       "OpenBLAS counts in int, which is too short for this product.");
    }
    return true;
}

void openblas_run(const Baselines *s, const Product *p, int part, int n_parts)
{
    (void)part, (void)n_parts;
    int m = (int)p->m, n = (int)p->n, k = (int)p->k;
    int k_row = k > 0 ? k : 1, n_row = n > 0 ? n : 1; /* strides of 0 are refused */
    if (m == 1 && k > 0) { /* without columns sgemv leaves c as it was */
        s->openblas.sgemv(ROW_MAJOR, NO_TRANS, n, k, 1, p->b, k_row, p->a, 1, 0, p->c, 1);
    } else {
        s->openblas.sgemm(ROW_MAJOR, NO_TRANS, TRANS, m, n, k, 1, p->a, k_row, p->b, k_row, 0,
                          p->c, n_row);
    }
}
