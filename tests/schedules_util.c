/* schedules_util.c - kernels of models and graphs under the schedules of a policy. */
#include "tests/schedules_util.h"

#include <string.h>

const ModelSize size_odd = {64, 176, 2, 4, 2, 99};

PickHint hint_at(const Target *t, int n_threads, int64_t sym)
{
    PickHint h = {.target = t, .n_threads = n_threads};
    for (int i = 0; i < MAX_SYMBOLS; i++) {
        h.sym[i] = sym;
    }
    return h;
}

const Target *target_named(const char *name)
{
    int i = 0;
    while (i < n_targets - 1 && strcmp(targets[i].name, name)) {
        i++;
    }
    cr_assert_str_eq(targets[i].name, name);
    return &targets[i];
}

bool machine_has(Env *e, const Target *t)
{
    Machine m;
    machine_read(e, "", &m);
    return t->feature == N_FEATURES || m.feature[t->feature];
}

void bulk_add(Bulk *b, const Program *p, int kernel, const Schedule *s)
{
    Buf text;
    int before = b->bench.n;
    buf_init(&text, &b->bench.e->model);
    schedule_print(s, &text);
    bench_add(&b->bench, p->kernel.at[kernel], text.at);
    if (b->bench.n > before) {
        b->of[before] = (Origin){p, kernel};
    }
}

void bulk_add_defaults(Bulk *b, const Program *p, const PickHint *hint)
{
    for (int i = 0; i < p->kernel.n; i++) {
        Schedule s;
        schedule_default(b->bench.e, p->kernel.at[i], hint, &s);
        bulk_add(b, p, i, &s);
    }
}

static void symbols_of(const Bulk *b, const Origin *o, int64_t seq, int64_t past, int64_t *syms)
{
    for (int i = 0; i < o->p->call.n; i++) {
        const Call *c = &o->p->call.at[i];
        for (int s = 0; c->kernel == o->kernel && s < c->sym.n; s++) {
            const char *name = b->bench.e->symbol[c->sym.at[s]];
            syms[s] = !strcmp(name, "seq") ? seq : !strcmp(name, "past") ? past : 2;
        }
    }
}

void bulk_check(Bulk *b, int64_t seq, int64_t past, uint64_t seed)
{
    static const int parts[] = {1, 2, 7};
    for (int i = 0; i < b->bench.n; i++) {
        int64_t syms[MAX_SYMBOLS] = {0};
        symbols_of(b, &b->of[i], seq, past, syms);
        bench_check(&b->bench, &b->bench.at[i], syms, parts[i % 3], seed + (uint64_t)i);
    }
}
