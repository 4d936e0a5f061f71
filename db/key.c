/* key.c - what a schedule is looked up by, as people read it: the fields of a key, and those that a
 * recorded winner was found with. */
#include "db/db_int.h"

static const char *const field_name[N_DB_KEY_FIELDS] = {
#define X(id, name) name,
    DB_KEY_FIELDS(X)
#undef X
};

const char *db_key_field_name(DbKeyField f)
{
    return field_name[f];
}

static const char *number(Arena *a, int64_t v, const char *unit)
{
    return arena_printf(a, "%lld%s", (long long)v, unit);
}

static void identity_text(Arena *a, const DbMachine *m, const DbToolchain *t, DbKeyText *out)
{
    out->value[DB_KEY_ISA] = m->isa;
    out->value[DB_KEY_L1D] = number(a, m->l1d_bytes, " bytes");
    out->value[DB_KEY_L2] = number(a, m->l2_bytes, " bytes");
    out->value[DB_KEY_L3] = number(a, m->l3_bytes, " bytes");
    out->value[DB_KEY_CORES] = number(a, m->n_cores, "");
    out->value[DB_KEY_COMPILER] = t->version;
    out->value[DB_KEY_WORDS] = t->words;
    out->value[DB_KEY_FLAGS] = t->flags;
    out->value[DB_KEY_TARGET] = t->target;
}

static const char *kernel_text(Arena *a, Hash h)
{
    char *hex = arena_alloc(a, 33);
    hash_hex(h, hex);
    return hex;
}

void db_key_text(Arena *a, const DbKey *k, DbKeyText *out)
{
    *out = (DbKeyText){.value = {[DB_KEY_KERNEL] = kernel_text(a, hash_str(k->kernel)),
                                 [DB_KEY_THREADS] = number(a, k->n_threads, ""),
                                 [DB_KEY_REGIME] = k->regime,
                                 [DB_KEY_SIZES] = db_sizes_text(a, k->size, k->n_sizes)}};
    identity_text(a, k->machine, k->toolchain, out);
}

/* "s0=64" where it serves one size only, else "s0=1..64"; no rows: any. */
static const char *ranges_text(Db *db, Arena *a, int64_t run, int64_t task)
{
    Buf b;
    DbWinnerRange g;
    buf_init(&b, a);
    DbCursor c = DB_FIND(db, RANGES, run, task);
    while (db_next(&c, a, &g)) {
        buf_printf(&b, "%ss%lld=%lld", b.len ? "," : "", (long long)g.slot, (long long)g.least);
        if (g.most != g.least) {
            buf_printf(&b, "..%lld", (long long)g.most);
        }
    }
    return b.len ? b.at : "any";
}

bool db_winner_text(Db *db, Arena *a, int64_t run, int64_t task, DbKeyText *out)
{
    DbRun r;
    DbTask t;
    DbKernel k;
    DbMachine m;
    DbToolchain tc;
    if (!DB_ONE(db, RUN, a, &r, run) || !DB_ONE(db, TASK, a, &t, task) ||
        !DB_ONE(db, KERNEL, a, &k, t.kernel) || !DB_ONE(db, MACHINE, a, &m, r.machine) ||
        !DB_ONE(db, TOOLCHAIN, a, &tc, r.toolchain)) {
        return false;
    }
    *out = (DbKeyText){.value = {[DB_KEY_KERNEL] = kernel_text(a, k.hash),
                                 [DB_KEY_THREADS] = number(a, t.n_threads, ""),
                                 [DB_KEY_REGIME] = t.regime,
                                 [DB_KEY_SIZES] = ranges_text(db, a, run, task)}};
    identity_text(a, &m, &tc, out);
    return true;
}
