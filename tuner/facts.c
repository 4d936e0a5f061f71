/* facts.c - what is known before anything is measured, as rows: the compiler, and what one call of a kernel
 * has to do. */
#include "tuner/evidence.h"

static const char *joined(Arena *m, const char *const *word, int n)
{
    Buf b;
    buf_init(&b, m);
    for (int i = 0; i < n; i++) {
        buf_printf(&b, "%s%s", i ? " " : "", word[i]);
    }
    return b.at;
}

DbToolchain toolchain_row(Arena *m, const Toolchain *tc)
{
    DbToolchain row = db_blank_toolchain();
    row.version = tc->version;
    row.words = joined(m, (const char *const *)tc->argv + 1, tc->n_argv - 1);
    row.flags = joined(m, tc->flags, tc->n_flags);
    row.target = tc->target->name;
    row.path = tc->path;
    return row;
}

void work_row(Env *e, const Kernel *k, const int64_t *sym, DbRunTask *row)
{
    Err err;
    if (!kernel_flops_at(e, k, sym, &row->flops, &err)) {
        row->flops = DB_NONE;
    }
    row->write_bytes = (int64_t)operand_stored_bytes(k, 0, sym);
    row->read_bytes = 0;
    for (int i = 1; i < k->operand.n; i++) {
        row->read_bytes += (int64_t)operand_stored_bytes(k, i, sym);
    }
}
