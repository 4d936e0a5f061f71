/* tuned.c - a picker over rows that a database or a file gave: the first row with this kernel
 * at these sizes serves, if its schedule is still legal and still comes out as the C that was
 * measured; else the default does, and whoever asked is told why. Rows are data: every schedule
 * is checked again here. needs: rows in the order of preference. breaks: nothing. */
#include <string.h>

#include "schedules/schedules_int.h"

static const char *const outcome_names[N_PICK_OUTCOMES] = {
#define X(id, name, meaning) name,
    PICK_OUTCOMES(X)
#undef X
};

const char *pick_outcome_name(PickOutcome o)
{
    return outcome_names[o];
}

/* A size that is not known is served only by a row for every size. */
static bool serves(const TunedRow *r, const Kernel *k, const PickHint *hint)
{
    for (int i = 0; i < r->n_ranges && i < k->n_syms; i++) {
        int64_t v = hint->sym[i];
        bool all = r->range[i].least <= 0 && r->range[i].most == INT64_MAX;
        if (v < 0 ? !all : v < r->range[i].least || v > r->range[i].most) {
            return false;
        }
    }
    return true;
}

static const TunedRow *find_row(const Tuned *t, const Kernel *k, const PickHint *hint)
{
    for (int i = 0; i < t->n; i++) {
        const TunedRow *r = &t->row[i];
        if (hash_eq(r->key, k->hash) && (!r->text || !strcmp(r->text, k->text)) &&
            serves(r, k, hint)) {
            return r;
        }
    }
    return NULL;
}

typedef struct Emission {
    const Kernel *k;
    const Schedule *s;
    const Target *target;
    Hash hash;
} Emission;

static void hash_of_c(Env *e, Arena *scratch, void *arg)
{
    Emission *m = arg;
    Err err;
    const Kernel *k = kernel_schedule(e, scratch, m->k, m->s, m->s->n, &err);
    if (!k) {
        fail_err(e, &err); /* it was legal a moment ago: memory is short */
    }
    m->hash = emit_hash(e, k, m->target);
}

/* As good as when it was measured? why says what is not. */
static PickOutcome judge(Env *e, const TunedRow *r, const Kernel *k, const PickHint *hint,
                         Err *why)
{
    Emission now = {.k = k, .s = &r->schedule, .target = hint_target(hint)};
    if (!schedule_legal(e, k, &r->schedule, why)) {
        return PICK_REFUSED;
    }
    if (r->c_hash.hi == 0 && r->c_hash.lo == 0) {
        return PICK_HIT;
    }
    with_scratch(e, hash_of_c, &now);
    if (hash_eq(now.hash, r->c_hash)) {
        return PICK_HIT;
    }
    err_set(why, E_INPUT, "the C that this schedule gives is not the C that was measured.");
    return PICK_STALE;
}

static void pick_tuned(void *ctx, Env *e, const Kernel *k, const PickHint *hint, Schedule *out)
{
    const Tuned *t = ctx;
    Err why = {0};
    const TunedRow *r = find_row(t, k, hint);
    PickOutcome o = r ? judge(e, r, k, hint, &why) : PICK_MISS;
    if (t->note) {
        t->note(t->note_ctx, k, o, r, why.code == E_OK ? NULL : why.text);
    }
    if (o == PICK_HIT) {
        *out = r->schedule;
    } else {
        schedule_default(e, k, hint, out);
    }
}

Picker picker_tuned(Tuned *t)
{
    return (Picker){pick_tuned, t};
}
