/* rows.c - processes and their pairs as rows of the database, and back: what is read is what a
 * decision looks at, so that deciding again from rows gives what was decided when they were
 * measured. Numbers that are not known are NULL there and 0 here. */
#include <math.h>
#include <string.h>

#include "tuner/evidence.h"

int word_place(const char *const *name, int n, const char *word)
{
    int i = 0;
    while (i < n - 1 && strcmp(name[i], word)) {
        i++;
    }
    return i;
}

/* ---- to rows ------------------------------------------------------------------------------- */

static DbPair *pair_rows(Arena *m, const ProcessResult *p)
{
    DbPair *row = arena_array(m, DbPair, p->n_pairs);
    for (int i = 0; i < p->n_pairs; i++) {
        const Pair *x = &p->pair[i];
        row[i] = (DbPair){.idx = i,
                          .b_first = x->b_first,
                          .a_ns = (int64_t)x->a_ns,
                          .b_ns = (int64_t)x->b_ns,
                          .a_cpu_ns = (int64_t)x->a_cpu_ns,
                          .b_cpu_ns = (int64_t)x->b_cpu_ns,
                          .cpu = x->cpu,
                          .flags = x->flags};
    }
    return row;
}

static int64_t or_none(int64_t v)
{
    return v < 0 ? DB_NONE : v;
}

static void put_meanwhile(const Meanwhile *x, DbProcess *row)
{
    if (x->known) {
        row->utime_ns = or_none(x->utime_ns), row->stime_ns = or_none(x->stime_ns);
        row->max_rss_bytes = or_none(x->max_rss_bytes);
        row->minor_faults = or_none(x->minor_faults);
        row->major_faults = or_none(x->major_faults);
        row->voluntary_switches = or_none(x->voluntary_switches);
        row->involuntary_switches = or_none(x->involuntary_switches);
        row->steal_jiffies = or_none(x->steal_jiffies);
        row->throttled = or_none(x->throttled);
        row->load1 = x->load[0], row->load5 = x->load[1], row->load15 = x->load[2];
        row->cpu_mhz = x->cpu_mhz, row->temperature = x->celsius;
    }
}

static DbProcess process_row(Arena *m, const DuelProcess *p)
{
    const ProcessResult *x = &p->result;
    DbProcess row = db_blank_process();
    row.status = status_name[x->status];
    row.why = x->status == STATUS_OK ? NULL : arena_str(m, x->why);
    row.pid = x->pid;
    row.seed = (int64_t)p->seed;
    row.b_loaded_first = x->b_loaded_first;
    row.stack_pad = x->stack_pad, row.env_pad = x->env_pad;
    row.base_a = (int64_t)x->base_a, row.base_b = (int64_t)x->base_b;
    row.cpu = x->cpu < 0 ? DB_NONE : x->cpu;
    row.reps = x->reps;
    row.warm_a_ns = (int64_t)x->warm_a_ns, row.warm_b_ns = (int64_t)x->warm_b_ns;
    row.n_pairs = x->n_pairs;
    row.started_ns = (int64_t)x->start_ns, row.took_ns = (int64_t)x->took_ns;
    row.exit_code = x->exit_code, row.signal = x->signal;
    row.read_before = x->before.read_bytes_per_ns, row.read_after = x->after.read_bytes_per_ns;
    row.fork_join_before = x->before.fork_join_ns, row.fork_join_after = x->after.fork_join_ns;
    row.flops_before = x->before.flops_per_ns, row.flops_after = x->after.flops_per_ns;
    row.flipped = probes_differ(&x->before, &x->after);
    row.elapsed_ns = (int64_t)p->elapsed_ns;
    put_meanwhile(&x->meanwhile, &row);
    return row;
}

void rows_add(Arena *m, DuelRows *rows, const DuelProcess *p)
{
    *vec_push(m, &rows->process) = process_row(m, p);
    *vec_push(m, &rows->pair) = pair_rows(m, &p->result);
    *vec_push(m, &rows->n_pairs) = p->result.n_pairs;
}

/* ---- from the database ---------------------------------------------------------------------- */

static DbPair *read_pairs(Db *db, Arena *m, const DbProcess *p, int *n)
{
    Vec(DbPair) v = {0};
    DbPair row;
    DbCursor at = DB_FIND(db, PAIRS, p->run, p->duel, p->idx);
    while (db_next(&at, m, &row)) {
        *vec_push(m, &v) = row;
    }
    *n = v.n;
    return v.at;
}

void rows_read(Db *db, Arena *m, int64_t run, int64_t duel, DuelRows *rows)
{
    DbProcess row;
    DbCursor at = DB_FIND(db, PROCESSES, run, duel);
    while (db_next(&at, m, &row)) {
        int n;
        *vec_push(m, &rows->pair) = read_pairs(db, m, &row, &n);
        *vec_push(m, &rows->n_pairs) = n;
        row.n_pairs = n;
        *vec_push(m, &rows->process) = row;
    }
}

/* ---- from rows ------------------------------------------------------------------------------ */

static uint64_t known(int64_t v)
{
    return v == DB_NONE ? 0 : (uint64_t)v;
}

static double known_rate(double v)
{
    return isnan(v) ? 0 : v;
}

static Probe probe_of(double read, double fork_join, double flops)
{
    return (Probe){known_rate(read), known_rate(fork_join), known_rate(flops)};
}

static Pair pair_of(const DbPair *p)
{
    return (Pair){.a_ns = (uint64_t)p->a_ns,
                  .b_ns = (uint64_t)p->b_ns,
                  .a_cpu_ns = (uint64_t)p->a_cpu_ns,
                  .b_cpu_ns = (uint64_t)p->b_cpu_ns,
                  .cpu = (uint32_t)p->cpu,
                  .flags = (uint16_t)p->flags,
                  .b_first = p->b_first != 0};
}

DuelProcess rows_process(Arena *m, DuelStage stage, const DbProcess *p, const DbPair *pair)
{
    DuelProcess x = {.stage = stage,
                     .seed = (uint64_t)p->seed,
                     .n_asked = (int)p->n_pairs,
                     .elapsed_ns = known(p->elapsed_ns)};
    ProcessResult *r = &x.result;
    r->status = (Status)word_place(status_name, N_STATUSES, p->status);
    snprintf(r->why, sizeof r->why, "%s", p->why ? p->why : "");
    r->warm_a_ns = known(p->warm_a_ns), r->warm_b_ns = known(p->warm_b_ns);
    r->reps = p->reps;
    r->took_ns = known(p->took_ns), r->start_ns = known(p->started_ns);
    r->before = probe_of(p->read_before, p->fork_join_before, p->flops_before);
    r->after = probe_of(p->read_after, p->fork_join_after, p->flops_after);
    r->pid = (int)known(p->pid);
    r->n_pairs = (int)p->n_pairs;
    r->pair = arena_array(m, Pair, r->n_pairs);
    for (int i = 0; i < r->n_pairs; i++) {
        r->pair[i] = pair_of(&pair[i]);
    }
    return x;
}
