/* schedule_util.h - scheduled kernels against the naive nest: by the nest interpreter and by C. */
#ifndef NC_TESTS_SCHEDULE_UTIL_H
#define NC_TESTS_SCHEDULE_UTIL_H

#include "emit/emit.h"
#include "loop/schedule.h"
#include "run/run.h"
#include "tests/helpers.h"

#define MAX_CASES 512

typedef struct Case { /* one kernel under one schedule */
    const Kernel *naive;
    const Kernel *k;
    KernelFn fn;
    int64_t (*pack[8])(void *to, const void *from, const int64_t *syms);
} Case;

typedef struct Bench {
    Env *e;
    int n;
    Case at[MAX_CASES];
    void *lib;
} Bench;

Kernel *kernel_from(Env *e, const char *text);    /* kernel text */
Kernel *kernel_of_graph(Env *e, const char *ncg); /* the one kernel of a small graph */
/* The kernel under the schedule; asserts that it is legal. */
Kernel *kernel_under(Env *e, const Kernel *naive, const char *schedule);
/* With odd widths, sizes known at run time: a product, a softmax of rows, a product whose weights are BF16. */
const Kernel *odd_matmul(Env *e);
const Kernel *odd_softmax(Env *e);
const Kernel *bf16_matmul(Env *e);
void bench_add(Bench *b, const Kernel *naive, const char *schedule);
void bench_compile(Bench *b, const Target *t); /* all of them, in one run of the C compiler */
/* At these symbol values: C equals the nest interpreter bitwise for n_parts parts in any order; the nest equals the
 * naive one bitwise where it is exact, and on small integers always. */
void bench_check(Bench *b, const Case *c, const int64_t *syms, int n_parts, uint64_t seed);
/* The nests only, no C. */
void bench_check_nest(Bench *b, const Case *c, const int64_t *syms, int n_parts, uint64_t seed);
void bench_check_all(Bench *b, const int64_t *syms);
void bench_close(Bench *b);

typedef struct Cases { /* a kernel, by many schedules at many sizes */
    const Kernel *(*make)(Env *e);
    const char *const *schedules;
    int n;
    const int64_t (*sizes)[2];
    int n_sizes;
    bool every_target; /* also every width that this machine can run, beside all that it has */
} Cases;

/* Adds, compiles, checks and closes. */
void bench_check_cases(Bench *b, const Cases *c);
/* Asserts that the schedule is refused with these words. */
void refuses(Env *e, const Kernel *naive, const char *schedule, const char *words);

#endif
