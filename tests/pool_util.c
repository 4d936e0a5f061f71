/* pool_util.c - see pool_util.h. */
#include "tests/pool_util.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Pool *pool_of(int n_threads)
{
    Err err = {.code = E_OK};
    Pool *p = pool_new(n_threads, &err);
    cr_assert(p, "%s", err.text);
    return p;
}

void note(void *parts, int part, int n_parts)
{
    Parts *p = parts;
    p->runs[part]++;
    p->n_parts[part] = n_parts;
    p->thread[part] = gettid();
    p->cpu[part] = sched_getcpu();
    sched_getaffinity(0, sizeof p->mask[part], &p->mask[part]);
    pthread_sigmask(SIG_SETMASK, NULL, &p->blocked[part]);
}

void assert_each_ran(const Parts *parts, int n, int times)
{
    for (int i = 0; i < MAX_PARTS; i++) {
        cr_assert_eq(parts->runs[i], i < n ? times : 0, "part %d of %d ran %d times", i, n,
                     parts->runs[i]);
        cr_assert_eq(parts->n_parts[i], i < n ? n : 0);
    }
}

/* Each region reads what the region before left in other parts' places. */
typedef struct Chain {
    int64_t from[MAX_PARTS], to[MAX_PARTS];
} Chain;

static void pass_on(void *ctx, int part, int n_parts)
{
    Chain *c = ctx;
    c->to[part] = c->from[(part + 1) % n_parts] + 1;
}

void run_chain(Pool *p, int n_regions)
{
    int n = pool_threads(p);
    Chain c = {0};
    for (int i = 1; i <= n_regions; i++) {
        pool_run(p, pass_on, &c);
        for (int k = 0; k < n; k++) {
            cr_assert_eq(c.to[k], i, "part %d left %d in region %d", k, (int)c.to[k], i);
        }
        memcpy(c.from, c.to, sizeof c.from);
    }
}

/* ---- threads, from outside ---- */

/* A field of /proc/self/task/TID/stat, from 3 on, as text; "" where the thread is gone. */
static void thread_stat(pid_t thread, int field, char out[32])
{
    char path[64], line[1024] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    FILE *f = fopen(path, "r");
    char *at = f && fgets(line, sizeof line, f) ? strrchr(line, ')') : NULL;
    for (int i = 2; at && i < field; i++) {
        at = strchr(at + 1, ' ');
    }
    snprintf(out, 32, "%.31s", at ? at + 1 : "");
    out[strcspn(out, " \n")] = 0;
    if (f) {
        fclose(f);
    }
}

/* Waits until each worker sleeps. */
void await_sleep(const Parts *parts, int n)
{
    for (int i = 1; i < n; i++) {
        char state[32] = "";
        for (int tries = 0; tries < 20000 && strcmp(state, "S") != 0; tries++) {
            usleep(500);
            thread_stat(parts->thread[i], 3, state);
        }
        cr_assert_str_eq(state, "S", "the worker of part %d does not sleep", i);
    }
}

long cpu_ticks(pid_t thread)
{
    char user[32], kernel[32];
    thread_stat(thread, 14, user);
    thread_stat(thread, 15, kernel);
    return atol(user) + atol(kernel);
}

int n_cpus_allowed(void)
{
    cpu_set_t mask;
    cr_assert_eq(sched_getaffinity(0, sizeof mask, &mask), 0);
    return CPU_COUNT(&mask);
}
