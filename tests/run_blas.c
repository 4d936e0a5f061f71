/* run_blas.c - OpenBLAS as the interpreter's matrix product: the right product, announced,
 * and an error where the library is not there. On small integers every order of summation is
 * exact. */
#include "run/run.h"
#include "tests/fault.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static Gemm gemm_or_skip(void)
{
    Gemm gemm;
    const char *says;
    Err err;
    if (!blas_gemm(&gemm, &says, &err)) {
        cr_skip_test("%s", err.text);
    }
    cr_assert(strstr(says, "OpenBLAS"), "%s", says);
    return gemm;
}

static void fill(float *p, int n, int step)
{
    for (int i = 0; i < n; i++) {
        p[i] = (float)(i * step % 15 - 7);
    }
}

Test(run_blas, product_of_small_integers_is_exact_at_every_shape)
{
    enum { MOST = 33 };
    static const int size[] = {1, 2, 5, 16, MOST};
    static float a[MOST * MOST], b[MOST * MOST], c[MOST * MOST];
    Gemm gemm = gemm_or_skip();
    fill(a, MOST * MOST, 4);
    fill(b, MOST * MOST, 11);
    for (size_t s = 0; s < countof(size) * countof(size) * countof(size); s++) {
        int m = size[s % 5], n = size[s / 5 % 5], k = size[s / 25];
        gemm(m, n, k, a, b, c);
        for (int i = 0; i < m * n; i++) {
            float sum = 0;
            for (int l = 0; l < k; l++) {
                sum += a[i / n * k + l] * b[l * n + i % n];
            }
            cr_assert_eq(c[i], sum, "%d x %d x %d, element %d", m, n, k, i);
        }
    }
}

Test(run_blas, sum_of_nothing_is_zero)
{
    float c[] = {5, 6}, none[1];
    gemm_or_skip()(1, 2, 0, none, none, c);
    cr_assert(c[0] == 0 && c[1] == 0);
    gemm_or_skip()(0, 2, 3, none, none, c);
}

Test(run_blas, absence_is_an_error_with_the_remedy)
{
    Gemm gemm;
    const char *says;
    Err err;
    fault_arm("dlopen", 1, true, ENOENT);
    bool ok = blas_gemm(&gemm, &says, &err);
    fault_disarm();
    cr_assert_not(ok);
    cr_assert_eq(err.code, E_BUILD);
    cr_assert_str_eq(err.text,
                     "OpenBLAS was not found (libopenblas.so.0); install libopenblas0.");
}

Test(run_blas, library_that_lacks_a_function_is_an_error)
{
    Gemm gemm;
    const char *says;
    Err err;
    gemm_or_skip();
    for (int nth = 1; nth <= 3; nth++) {
        fault_arm("dlsym", nth, false, 0);
        bool ok = blas_gemm(&gemm, &says, &err);
        fault_disarm();
        cr_assert_not(ok);
        cr_assert(strstr(err.text, "libopenblas.so.0 lacks "), "%s", err.text);
    }
}
