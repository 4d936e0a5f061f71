/* emptied.h - a library's tables with a function of ours in each kernel's place, run in this process; and
 * those of the 24-layer model without its weights' data, for who looks at the run of a step only: they are
 * address space, which nobody reads. */
#ifndef NC_TESTS_EMPTIED_H
#define NC_TESTS_EMPTIED_H

#include "run/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EMPTIED_CONFIG "tests/data/qwen2.5/config.json"

enum { EMPTIED_HEADER_BYTES = 8 };

/* ---- weights without data ---- */

static inline int by_name(const void *a, const void *b)
{
    const FileTensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static inline uint64_t elements(const TensorSpec *s)
{
    return (uint64_t)(s->dim[0] * (s->rank > 1 ? s->dim[1] : 1));
}

static inline Checkpoint without_data(Env *e, const Config *c)
{
    int n;
    const TensorSpec *spec = config_tensors(e, c, &n);
    Checkpoint out = {.path = "weights"};
    size_t bytes = EMPTIED_HEADER_BYTES;
    for (int i = 0; i < n; i++) {
        bytes += elements(&spec[i]) * 2;
    }
    const uint8_t *map =
        mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) {
        die("There is no address space for %zu bytes: %m.", bytes);
    }
    *vec_push(&e->model, &out.shards) = (Shard){"weights", map, bytes, EMPTIED_HEADER_BYTES};
    out.tensors.at = arena_array(&e->model, FileTensor, n);
    out.tensors.n = n;
    out.by_name = arena_array(&e->model, const FileTensor *, n);
    map += EMPTIED_HEADER_BYTES;
    for (int i = 0; i < n; i++) {
        FileTensor *t = &out.tensors.at[i];
        *t = (FileTensor){.name = spec[i].name,
                          .name_len = strlen(spec[i].name),
                          .dtype = FD_BF16,
                          .rank = spec[i].rank,
                          .dim = {spec[i].dim[0], spec[i].dim[1]},
                          .end = elements(&spec[i]) * 2,
                          .data = map};
        map += t->end;
        out.by_name[i] = t;
    }
    qsort(out.by_name, (size_t)n, sizeof *out.by_name, by_name);
    return out;
}

/* ---- tables without work ---- */

/* The same, but that every kernel is fn. */
static inline NcTables tables_with(Env *e, const LibraryText *text, KernelFn fn)
{
    NcTables out = *text->tables;
    int n_programs = out.facts->n_programs;
    NcProgram *program =
        arena_dup(&e->model, out.program, sizeof *program * (size_t)n_programs);
    const void **fixed = arena_array(&e->model, const void *, text->n_fixed);
    for (int i = 0; i < n_programs; i++) {
        size_t n = (size_t)program[i].facts.n_calls;
        NcCall *call = arena_dup(&e->model, program[i].call, sizeof *call * n);
        for (size_t k = 0; k < n; k++) {
            call[k].fn = fn;
        }
        program[i].call = call;
    }
    for (int i = 0; i < text->n_fixed; i++) {
        fixed[i] = text->fixed[i]->value;
    }
    out.fixed = fixed;
    out.program = program;
    out.needs = NULL;
    return out;
}

/* And no weight has elements. */
static inline NcTables emptied(Env *e, const LibraryText *text, KernelFn fn)
{
    NcTables out = tables_with(e, text, fn);
    NcWeight *weight = arena_dup(&e->model, out.weight, sizeof *weight * (size_t)out.n_weights);
    for (int i = 0; i < out.n_weights; i++) {
        weight[i].count = 0;
    }
    out.weight = weight;
    out.n_shards = out.n_panels = 0;
    return out;
}

#endif
