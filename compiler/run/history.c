/* history.c - the keys and values of what an engine was fed, as the arguments of its next step.
 *
 *     in place   a buffer [layers, kv heads, capacity, head dim] for each: the program writes
 *                behind what is there (graph_cache)
 *     joined     two of [layers, kv heads, past, head dim] for each, without gaps, as the plain
 *                graph takes them: after a step old and new are copied into the other one
 *
 * needs: the engine counts what was fed. keeps: it, where a step fails: in place nothing is
 * read from behind the past. */
#include <stdlib.h>
#include <string.h>

#include "run/run_int.h"

static int64_t blocks(const History *h) /* that grow with every position */
{
    return h->n_layers * h->n_heads;
}

int history_inputs(const History *h, int64_t past, NamedTensor in[3])
{
    static const char *const name[2][2] = {{"past_keys", "past_values"},
                                           {"cache_keys", "cache_values"}};
    int64_t positions = h->in_place ? h->capacity : past;
    for (int i = 0; i < 2; i++) {
        Tensor t = {DT_F32, 4, {h->n_layers, h->n_heads, positions, h->depth}, h->now[i]};
        in[i] = (NamedTensor){name[h->in_place][i], t};
    }
    in[2] = (NamedTensor){"past", {DT_BOOL, 2, {past, 0}, NULL}};
    return h->in_place ? 3 : 2;
}

/* Every block of from, `there` positions long, to one of to, `here` positions long. */
static void copy_blocks(const History *h, float *to, int64_t here, const float *from,
                        int64_t there, int64_t n)
{
    for (int64_t b = 0; b < blocks(h); b++) {
        memcpy(to + b * here * h->depth, from + b * there * h->depth,
               (size_t)(n * h->depth) * sizeof *to);
    }
}

bool history_reserve(History *h, int64_t past, int64_t positions, Err *err)
{
    if (positions <= h->capacity) {
        return true;
    }
    int64_t capacity = positions > 2 * h->capacity ? positions : 2 * h->capacity;
    int64_t floats = blocks(h) * capacity * h->depth;
    float *memory = os.alloc((size_t)(floats * (h->in_place ? 2 : 4)) * sizeof *memory);
    if (!memory) {
        return err_set(err, E_NOMEM, "There is no memory for a cache of %lld positions.",
                       (long long)positions);
    }
    for (int i = 0; i < 2; i++) {
        float *now = memory + i * floats;
        if (past > 0) {
            copy_blocks(h, now, h->in_place ? capacity : past, h->now[i],
                        h->in_place ? h->capacity : past, past);
        }
        h->now[i] = now;
        h->next[i] = h->in_place ? NULL : now + 2 * floats;
    }
    free(h->memory);
    h->memory = memory;
    h->capacity = capacity;
    return true;
}

void history_append(History *h, int64_t past, const Tensor fresh[2])
{
    for (int i = 0; i < 2 && !h->in_place; i++) {
        int64_t n = fresh[i].dim[2];
        float *next = h->next[i];
        copy_blocks(h, next, past + n, h->now[i], past, past);
        copy_blocks(h, next + past * h->depth, past + n, fresh[i].data, n, n);
        h->next[i] = h->now[i];
        h->now[i] = next;
    }
}

void history_free(History *h)
{
    free(h->memory);
}
