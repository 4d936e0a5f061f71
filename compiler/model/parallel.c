/* parallel.c - the same work on every item of a list, over some threads.
 *
 * Items are taken from a shared counter in order. Threads that cannot be started are done
 * without: the caller works too. Needs: work that neither fails nor touches an Env. */
#include "model/model_int.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_HELPERS = 255 };

typedef struct Items {
    atomic_llong next, n_done;
    int64_t n;
    ItemWork *work;
    void *ctx;
} Items;

/* Does one item; false: none is left. */
static bool do_one(Items *x)
{
    int64_t i = atomic_fetch_add(&x->next, 1);
    if (i >= x->n) {
        return false;
    }
    x->work(x->ctx, i);
    atomic_fetch_add(&x->n_done, 1);
    return true;
}

static void *helper(void *arg)
{
    while (do_one(arg)) {
    }
    return NULL;
}

void each_item(int n_threads, int64_t n_items, ItemWork *work, ItemTick *tick, void *ctx)
{
    Items x = {.n = n_items, .work = work, .ctx = ctx};
    pthread_t thread[MAX_HELPERS];
    int n = 0;
    while (n < n_threads - 1 && n < n_items - 1 && n < MAX_HELPERS &&
           pthread_create(&thread[n], NULL, helper, &x) == 0) {
        n++;
    }
    while (do_one(&x)) {
        int64_t n_done = atomic_load(&x.n_done);
        if (tick &&
            n_done < n_items) { /* the last one is told once, when all threads are back */
            tick(ctx, n_done);
        }
    }
    for (int i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
    }
    if (tick) {
        tick(ctx, n_items);
    }
}
