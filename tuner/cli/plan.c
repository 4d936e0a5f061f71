/* plan.c - before anything is measured: what tasks will cost, what they are worth, and so how the budget is split
 * among them. What one costs is taken from trials of the same task on this machine where the database has some, else
 * from all that this machine has tried, else from constants; the table says from which. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/cli/tune.h"

/* Where nothing is known. Of a machine with two cores, as orders of magnitude. */
#define COMPILE_NS 450e6      /* of one compiler */
#define PROCESS_HOT_NS 60e6   /* of a process: loading, laying out, verifying, timing */
#define PROCESS_COLD_NS 400e6 /* with rings to be filled */
#define FLOPS_PER_NS 25.0     /* of one thread */
#define BYTES_PER_NS 20.0     /* of all */
#define DEFAULT_ROOFLINE 0.5  /* what the default reaches of it */

static double or_else(double value, double otherwise)
{
    return isfinite(value) && value > 0 ? value : otherwise;
}

/* ---- what the database knows ------------------------------------------------------------------ */

/* The first row's numbers; false: a NULL is among them. */
static bool numbers(Db *db, const char *sql, int64_t task, const char *hard, const char *regime,
                    double *out, int n)
{
    DbSql *q = db_sql(db, sql);
    db_sql_bind_int(q, 1, task);
    db_sql_bind_text(q, 2, hard);
    db_sql_bind_text(q, 3, regime);
    bool all = db_sql_next(q);
    if (!all) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        DbCell cell = db_sql_cell(q, i);
        all = all && cell.kind != DB_NULL;
        out[i] = cell.kind == DB_NULL ? NAN : cell.r;
    }
    db_sql_end(q);
    return all;
}

/* task 0: of any, under the same regime. */
static bool known_cost(Db *db, int64_t task, const char *hard, const char *regime, Expected *x)
{
    double v[2], process;
    bool known =
        numbers(
            db,
            "SELECT avg(x.build_ns), avg(coalesce(x.verify_ns, 0) + x.measure_ns) FROM trial x "
            "JOIN task t ON t.id = x.task JOIN run r ON r.id = x.run JOIN machine m ON m.id = "
            "r.machine WHERE (x.task = ?1 OR ?1 = 0) AND m.hard = ?2 AND t.regime = ?3",
            task, hard, regime, v, 2) &&
        numbers(
            db,
            "SELECT avg(p.took_ns) FROM process p JOIN duel d ON d.run = p.run AND d.idx = "
            "p.duel JOIN task t ON t.id = d.task JOIN run r ON r.id = d.run JOIN machine m ON "
            "m.id = r.machine WHERE (d.task = ?1 OR ?1 = 0) AND m.hard = ?2 AND t.regime = ?3 "
            "AND d.stage = 'calibrate'",
            task, hard, regime, &process, 1);
    if (known) {
        x->candidate_ns = (uint64_t)(v[0] + v[1]);
        x->process_ns = (uint64_t)process;
    }
    return known;
}

/* Of the default, as its calibrations found it; NaN: never measured. */
static double known_default(Db *db, int64_t task, const char *hard, const char *regime)
{
    double ns = NAN;
    numbers(db,
            "SELECT avg(d.a_ns) FROM duel d JOIN task t ON t.id = d.task JOIN run r ON r.id = "
            "d.run "
            "JOIN machine m ON m.id = r.machine WHERE d.task = ?1 AND m.hard = ?2 AND t.regime "
            "= ?3 "
            "AND d.stage = 'calibrate'",
            task, hard, regime, &ns, 1);
    return ns;
}

/* What this machine can do beside a process of so many threads, as the processes found it. */
static void known_rates(Db *db, int n_threads, const char *hard, const char *regime,
                        Expected *x)
{
    double v[2] = {NAN, NAN};
    numbers(
        db,
        "SELECT avg(nullif(p.flops_before, 0)), avg(nullif(p.read_before, 0)) FROM process p "
        "JOIN "
        "duel d ON d.run = p.run AND d.idx = p.duel JOIN task t ON t.id = d.task JOIN run r ON "
        "r.id = d.run JOIN machine m ON m.id = r.machine WHERE t.n_threads = ?1 AND m.hard = "
        "?2 "
        "AND t.regime = ?3 AND d.stage = 'calibrate'",
        n_threads, hard, regime, v, 2);
    x->flops_per_ns = or_else(v[0], x->flops_per_ns);
    x->bytes_per_ns = or_else(v[1], x->bytes_per_ns);
}

static int64_t known_task(const Workplace *w, Db *db, const Item *it)
{
    char hash[33];
    hash_hex(hash_str(it->kernel->text), hash);
    DbSql *q =
        db_sql(db, "SELECT t.id FROM task t JOIN kernel k ON k.id = t.kernel WHERE k.hash = "
                   "?1 AND t.sizes = ?2 AND t.regime = ?3 AND t.n_threads = ?4");
    db_sql_bind_text(q, 1, hash);
    db_sql_bind_text(q, 2, db_sizes_text(&w->e->kernel, it->task.sym, it->task.n_syms));
    db_sql_bind_text(q, 3, regime_name[it->task.regime]);
    db_sql_bind_int(q, 4, it->task.n_threads);
    int64_t id = 0;
    if (db_sql_next(q)) {
        id = db_sql_cell(q, 0).i;
        db_sql_end(q);
    }
    return id;
}

/* ---- what is expected --------------------------------------------------------------------------- */

static double bytes_of(const Item *it)
{
    return it->task.regime == REGIME_COLD ? (double)(it->read_bytes + it->write_bytes) : 0;
}

static double flops_of(const Item *it)
{
    return it->flops == DB_NONE ? 0 : (double)it->flops;
}

static double roofline_ns(const Item *it, const Expected *x)
{
    return fmax(flops_of(it) / x->flops_per_ns, bytes_of(it) / x->bytes_per_ns);
}

/* Of any task: all of a command have one regime and as many threads. */
static Expected of_machine(const Workplace *w, Db *db, const char *hard, const Task *t)
{
    const char *regime = regime_name[t->regime];
    double process_ns = t->regime == REGIME_COLD ? PROCESS_COLD_NS : PROCESS_HOT_NS;
    Expected x = {.process_ns = (uint64_t)process_ns,
                  .candidate_ns = (uint64_t)(COMPILE_NS / w->n_jobs + process_ns),
                  .default_ns = NAN,
                  .flops_per_ns = FLOPS_PER_NS * t->n_threads,
                  .bytes_per_ns = BYTES_PER_NS,
                  .from = "constants"};
    if (db) {
        known_rates(db, t->n_threads, hard, regime, &x);
        x.from = known_cost(db, 0, hard, regime, &x) ? "this machine's trials" : x.from;
    }
    return x;
}

static void expect(const Workplace *w, Db *db, const char *hard, Item *it)
{
    Expected *x = &it->expect;
    const char *regime = regime_name[it->task.regime];
    int64_t task = db ? known_task(w, db, it) : 0;
    if (task) {
        x->default_ns = known_default(db, task, hard, regime);
        x->from = known_cost(db, task, hard, regime, x) ? "its earlier trials" : x->from;
    }
    x->default_ns = or_else(x->default_ns, roofline_ns(it, x) / DEFAULT_ROOFLINE);
}

static int by_share(const void *a, const void *b)
{
    const Item *x = a, *y = b;
    return x->share != y->share ? (x->share < y->share) - (x->share > y->share)
                                : strcmp(x->label, y->label);
}

void items_expect(const Workplace *w, Db *db, Items *items)
{
    DbMachine machine = w->db_machine;
    char hard[33] = "";
    double all_ns = 0;
    int n = 0;
    if (db) {
        db_name_machine(db, &machine);
        hash_hex(machine.hard, hard);
    }
    Expected any = of_machine(w, db, hard, &items->at[0].task); /* there is one */
    for (int i = 0; i < items->n; i++) {
        items->at[i].expect = any;
        expect(w, db, hard, &items->at[i]);
        all_ns += items->at[i].calls * items->at[i].expect.default_ns;
    }
    for (int i = 0; i < items->n; i++) {
        Item *it = &items->at[i];
        it->share = all_ns > 0 ? it->calls * it->expect.default_ns / all_ns : 1;
        if (it->selected) {
            items->at[n++] = *it;
        }
    }
    items->n = n;
    qsort(items->at, (size_t)n, sizeof *items->at, by_share);
    env_reset_kernel(w->e);
}

/* ---- what it is worth ------------------------------------------------------------------------------ */

double item_headroom(const Item *it, const Probe *p, double default_ns, double now)
{
    return headroom_of(flops_of(it), bytes_of(it), p->flops_per_ns, p->read_bytes_per_ns,
                       default_ns, now);
}

Bid item_bid(const Workplace *w, const Item *it)
{
    const Expected *x = &it->expect;
    Rules rules;
    rules_init(&rules, &w->o->protocol);
    Calibration c = {.process_ns = x->process_ns, .process_most_ns = x->process_ns};
    Probe rates = {.read_bytes_per_ns = x->bytes_per_ns, .flops_per_ns = x->flops_per_ns};
    uint64_t calibrate_ns = (uint64_t)rules.p.calibration_processes * x->process_ns;
    uint64_t reserve_ns = budget_reserve_ns(&rules, &c, UINT64_MAX);
    return (Bid){.share = it->share,
                 .headroom = item_headroom(it, &rates, x->default_ns, 1),
                 .n_left = (int64_t)it->space.n_legal,
                 .candidate_ns = x->candidate_ns,
                 .start_ns = calibrate_ns + reserve_ns,
                 .start_least_ns = calibrate_ns + budget_least_ns(&rules, &c, reserve_ns)};
}

/* ---- as a table -------------------------------------------------------------------------------------- */

static Planned *plan(const Workplace *w, const Items *items)
{
    Arena *m = &w->e->kernel;
    Bid *bid = arena_array(m, Bid, items->n);
    Planned *out = arena_array(m, Planned, items->n);
    uint64_t used_ns = workplace_spent_ns(w), all_ns = w->o->budget.ns;
    for (int i = 0; i < items->n; i++) {
        bid[i] = item_bid(w, &items->at[i]);
    }
    if (all_ns > 0) {
        bids_plan(m, bid, items->n, w->o->protocol.batch,
                  all_ns > used_ns ? all_ns - used_ns : 0, out);
        return out;
    }
    for (int i = 0; i < items->n; i++) {
        int64_t most = w->o->budget.trials;
        out[i].n_candidates = most < bid[i].n_left ? most : bid[i].n_left;
        out[i].ns = bid[i].start_ns + (uint64_t)out[i].n_candidates * bid[i].candidate_ns;
    }
    return out;
}

static bool fits(const Planned *p, int n)
{
    bool any = false;
    for (int i = 0; i < n; i++) {
        any |= p[i].n_candidates > 0;
    }
    return any;
}

static void print_plan(const Workplace *w, const Item *it, const Planned *p, FILE *to)
{
    Bid b = item_bid(w, it);
    fprintf(to, " %6.1f%% %8.0f%% %7.0f s %9lld  %s", 100 * b.share, 100 * b.headroom,
            (double)p->ns / 1e9, (long long)p->n_candidates, it->expect.from);
}

static void print_footer(const Workplace *w, bool anything, FILE *to)
{
    Buf b;
    buf_init(&b, &w->e->kernel);
    budget_print(w->o->budget, &b);
    fprintf(to, "Budget: %s%s. %s\n", b.at, w->o->budget.trials ? " for each task" : "",
            !anything
                ? "As far as can be told, nothing can be confirmed in it."
                : "share: of the model's time (a prompt, and as many tokens after it) by "
                  "the default schedules, so the most that a task can save; headroom: the "
                  "part of it above the roofline; time and fit: about what comes of the "
                  "budget, were nothing found.");
}

void items_print(const Workplace *w, const Items *items, bool plan_too, FILE *to)
{
    const Planned *p = plan_too ? plan(w, items) : NULL;
    fprintf(to, "%-44s %6s %7s %-5s %14s", "task", "calls", "threads", "", "schedules");
    fprintf(to, plan_too ? " %7s %9s %9s %9s  %s\n" : "\n", "share", "headroom", "time", "fit",
            "estimated from");
    for (int i = 0; i < items->n; i++) {
        const Item *it = &items->at[i];
        fprintf(to, "%-44s %6.0f %7d %-5s %14llu", it->label, it->calls, it->task.n_threads,
                regime_name[it->task.regime], (unsigned long long)it->space.n_legal);
        if (p) {
            print_plan(w, it, &p[i], to);
        }
        fprintf(to, "\n");
    }
    if (p) {
        print_footer(w, fits(p, items->n), to);
    }
    env_reset_kernel(w->e);
}
