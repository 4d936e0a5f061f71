/* verdict.c - the sentence of a verdict: what is wrong and where, then on which inputs and at which sizes. It is
 * put together in place, in memory that a parent may be reading when the candidate ends the process. */
#include <stdio.h>
#include <string.h>

#include "run/verify_int.h"

static void add(Verdict *v, const char *fmt, va_list ap)
{
    size_t used = strlen(v->text);
    vsnprintf(v->text + used, sizeof v->text - used, fmt, ap);
}

void verdict_start(Verdict *v, const char *fmt, ...)
{
    va_list ap;
    v->text[0] = 0;
    va_start(ap, fmt);
    add(v, fmt, ap);
    va_end(ap);
}

void verdict_add(Verdict *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add(v, fmt, ap);
    va_end(ap);
}

void verdict_value(const VerifyRun *x, int operand, const void *from, int64_t index)
{
    Dtype t = x->naive->operand.at[operand].dtype;
    Value v = value_load(from, t, index);
    if (t == DT_F32) {
        verdict_add(x->v, "%.9g", (double)v.f);
    } else {
        verdict_add(x->v, "%lld", (long long)v.i);
    }
}

bool verdict_wrong(const VerifyRun *x)
{
    static const char *const names[N_ROUNDS] = {
#define X(id, name) [ROUND_##id] = name,
        ROUNDS(X)
#undef X
    };
    verdict_add(x->v, " (%s, seed %llu", names[x->in.round], (unsigned long long)x->in.seed);
    for (int i = 0; i < x->naive->n_syms; i++) {
        verdict_add(x->v, ", s%d = %lld", i, (long long)x->syms[i]);
    }
    verdict_add(x->v, ").");
    return false;
}
