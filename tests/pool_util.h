/* pool_util.h - what the tests of the thread pool share: parts that note who ran them and
 * where, regions that depend on each other, and a look at threads from outside. */
#ifndef NC_TESTS_POOL_UTIL_H
#define NC_TESTS_POOL_UTIL_H

#include "run/run.h"
#include "tests/helpers.h"

#include <sched.h>
#include <signal.h>

enum { MAX_PARTS = 64 };
static const int pool_sizes[] = {1, 2, 7, MAX_PARTS};

typedef struct Parts { /* what each part saw; plain arrays: the pool alone orders them */
    int runs[MAX_PARTS];
    int n_parts[MAX_PARTS];
    pid_t thread[MAX_PARTS];
    int cpu[MAX_PARTS];
    cpu_set_t mask[MAX_PARTS];
    sigset_t blocked[MAX_PARTS];
} Parts;

Pool *pool_of(int n_threads); /* asserts that there is one */
void note(void *parts, int part, int n_parts);
void assert_each_ran(const Parts *parts, int n, int times);
/* Regions whose parts each read what another left in the region before; asserts every value. */
void run_chain(Pool *p, int n_regions);

void await_sleep(const Parts *parts, int n); /* until each worker that ran a part sleeps */
long cpu_ticks(pid_t thread);                /* user and system time */
int n_cpus_allowed(void);

#endif
