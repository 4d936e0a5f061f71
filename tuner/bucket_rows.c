/* bucket_rows.c - a choice of buckets in the database: the cells of an experiment whose name says for which
 * model's shape, machine, compiler and how many threads. A line for each length has its regret through each program; the line
 * "chosen" has the buckets, the line "worst" the regret that is left and the margin. The latest
 * cells count. needs: a transaction around buckets_store. */
#include "tuner/buckets.h"

#include <stdio.h>
#include <string.h>

/* The model's shape, the threads, and all of machine and compiler that a time depends on. */
static const char *experiment_name(Db *db, const BucketPlace *at)
{
    Env *e = db_env(db);
    int n;
    char hex[33];
    Buf b;
    DbMachine machine = *at->machine;
    const DbToolchain *tc = at->toolchain;
    const TensorSpec *spec = config_tensors(e, at->config, &n);
    db_name_machine(db, &machine);
    hash_hex(machine.hard, hex);
    buf_init(&b, &e->kernel);
    buf_printf(&b, "%s\n%s\n%s\n%s\n%s\n%d %lld %lld", hex, tc->version, tc->words, tc->flags,
               tc->target, at->f32, (long long)at->config->n_heads,
               (long long)at->config->n_kv_heads);
    for (int i = 0; i < n; i++) {
        buf_printf(&b, "\n%s %lld %lld", spec[i].name, (long long)spec[i].dim[0],
                   (long long)(spec[i].rank > 1 ? spec[i].dim[1] : 1));
    }
    hash_hex(hash_bytes(b.at, b.len), hex);
    return arena_printf(&e->model, "prefill buckets of %s, %d threads", hex, at->n_threads);
}

/* ---- storing ---- */

static DbExperimentCell new_cell(Db *db, const BucketPlace *at)
{
    DbExperimentCell c = db_blank_experiment_cell();
    DbMachine machine = *at->machine;
    DbToolchain toolchain = *at->toolchain;
    c.experiment = experiment_name(db, at);
    c.at_ns = os_wall_ns();
    c.machine = db_put_machine(db, &machine);
    c.toolchain = db_put_toolchain(db, &toolchain);
    return c;
}

static const char *number(Env *e, int64_t n)
{
    return arena_printf(&e->model, "%lld", (long long)n);
}

void buckets_store(Db *db, const BucketPlace *at, const BucketTimes *t, const BucketChoice *c)
{
    Env *e = db_env(db);
    DbExperimentCell cell = new_cell(db, at);
    cell.unit = "regret";
    for (int i = 0; i < t->n_lengths * t->n_programs; i++) {
        const Interval *r = &t->regret[i];
        cell.line = number(e, t->length[i / t->n_programs]);
        cell.heading = number(e, t->usual[i % t->n_programs]);
        cell.value = r->median, cell.lo = r->lo, cell.hi = r->hi;
        db_add_experiment_cell(db, &cell);
    }
    cell.line = cell.heading = "worst";
    cell.value = c->worst, cell.lo = 0, cell.hi = c->margin;
    db_add_experiment_cell(db, &cell);
    cell.line = "chosen";
    cell.unit = "tokens";
    for (int i = 0; i < c->n; i++) {
        cell.heading = number(e, c->bucket[i].usual);
        cell.value = (double)c->bucket[i].most, cell.lo = cell.hi = cell.value;
        db_add_experiment_cell(db, &cell);
    }
}

/* ---- finding ---- */

static void add_bucket(BucketChoice *c, Bucket b)
{
    int i = c->n++;
    for (; i > 0 && c->bucket[i - 1].usual > b.usual; i--) {
        c->bucket[i] = c->bucket[i - 1];
    }
    c->bucket[i] = b;
}

static void read_cell(const DbExperimentCell *cell, BucketChoice *c)
{
    long long usual;
    char extra;
    if (!strcmp(cell->line, "worst")) {
        c->worst = cell->value;
        c->margin = cell->hi;
    } else if (!strcmp(cell->line, "chosen") && c->n < MAX_BUCKETS &&
               sscanf(cell->heading, "%lld%c", &usual, &extra) == 1 && usual < INT32_MAX &&
               cell->value >= 1 && cell->value < INT32_MAX) {
        add_bucket(c, (Bucket){usual, (int64_t)cell->value});
    }
}

static bool makes_sense(const BucketChoice *c)
{
    bool rises = c->n > 0;
    for (int i = 0; i < c->n; i++) {
        const Bucket *b = &c->bucket[i];
        rises = rises && b->usual > 0 &&
                (i == 0 || (b->usual > b[-1].usual && b->most > b[-1].most));
    }
    return rises;
}

bool buckets_find(Db *db, const BucketPlace *at, BucketChoice *out)
{
    DbExperimentCell cell;
    int64_t latest_ns = 0;
    const char *name = experiment_name(db, at);
    *out = (BucketChoice){.n = 0};
    DbCursor c = DB_FIND_ALL(db, CELLS);
    while (db_next(&c, &db_env(db)->model, &cell)) {
        bool ours = !strcmp(cell.experiment, name);
        if (ours && cell.at_ns > latest_ns) {
            latest_ns = cell.at_ns;
            *out = (BucketChoice){.n = 0};
        }
        if (ours && cell.at_ns == latest_ns) {
            read_cell(&cell, out);
        }
    }
    return makes_sense(out);
}
