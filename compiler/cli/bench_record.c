/* bench_record.c - what `bench --lib A --vs B` measured, kept beside the builds that A and B are of: the cells of an
 * experiment whose name has the two builds' ids. A line for each kind of work; its columns are the threads and
 * the time of either side, how many times as fast A was, and every round of both, from which the rest follows.
 * `report builds A B` shows it. A library that no build of the database made is not recorded. */
#include <math.h>

#include "cli/bench.h"
#include "cli/build.h"

typedef struct Recording {
    const LibraryBench *o;
    const Machine *machine;
    const int *n_threads;
    const Measured *m; /* by work; without blocks: it was not done */
    int64_t build[2];
    Db *db;
    DbExperimentCell cell;
} Recording;

/* ---- which builds they are -------------------------------------------------------------------- */

static int64_t build_of(Env *e, Db *db, const char *lib)
{
    char hex[33];
    int64_t id = DB_NONE;
    hash_hex(library_file_hash(e, lib), hex);
    DbSql *q =
        db_sql(db, "SELECT id FROM build WHERE output_hash = ?1 ORDER BY started_ns, id");
    db_sql_bind_text(q, 1, hex);
    while (db_sql_next(q)) { /* the last one */
        id = db_sql_cell(q, 0).i;
    }
    return id;
}

/* ---- cells ------------------------------------------------------------------------------------- */

static void put(Recording *r, const char *heading, const char *unit, Interval x)
{
    r->cell.heading = heading;
    r->cell.unit = unit;
    r->cell.value = x.median, r->cell.lo = x.lo, r->cell.hi = x.hi;
    db_add_experiment_cell(r->db, &r->cell);
}

static void put_rounds(Env *e, Recording *r, const Measured *m)
{
    for (int i = 0; i < m->n_blocks * m->n_rounds; i++) {
        for (int side = 0; side < 2; side++) {
            double ns = (double)m->sample[i * m->n_contenders + side].ns / (double)m->reps;
            put(r, arena_printf(&e->kernel, "%c %d", "ab"[side], i), "ns",
                (Interval){.median = ns, .lo = ns, .hi = ns});
        }
    }
}

static void put_work(Env *e, Recording *r, const LibraryWork *w, const Measured *m)
{
    r->cell.line = w->name;
    for (int side = 0; side < 2; side++) {
        Summary s = measure_summary(e, m, side);
        put(r, side ? "b" : "a", "ns",
            (Interval){.median = s.median_ns, .lo = s.q1_ns, .hi = s.q3_ns});
        put(r, side ? "threads of b" : "threads of a", "threads",
            (Interval){.median = r->n_threads[side], .lo = NAN, .hi = NAN});
    }
    put(r, "times as fast", "ratio", measure_ratio(e, m, 1, 0));
    put_rounds(e, r, m);
}

static void put_all(Env *e, Db *db, void *arg)
{
    Recording *r = arg;
    DbMachine machine;
    r->db = db;
    db_machine_here(e, &e->model, "", r->machine, &machine);
    r->cell = db_blank_experiment_cell();
    r->cell.experiment = arena_printf(&e->model, "race of builds %lld and %lld",
                                      (long long)r->build[0], (long long)r->build[1]);
    r->cell.at_ns = os_wall_ns();
    r->cell.machine = db_put_machine(r->db, &machine);
    for (int i = 0; i < N_LIBRARY_WORKS; i++) {
        if (r->m[i].n_blocks) {
            put_work(e, r, &library_works[i], &r->m[i]);
        }
    }
}

static void find_builds(Env *e, void *arg)
{
    Recording *r = arg;
    Err err;
    r->db = db_open(e, r->o->first.db, DB_READ, &err);
    if (!r->db && r->o->first.db) {
        fail_err(e, &err);
    }
    for (int i = 0; i < 2; i++) {
        r->build[i] = r->db ? build_of(e, r->db, r->o->lib[i]) : DB_NONE;
    }
}

static void close_db(void *arg)
{
    db_close(((Recording *)arg)->db);
}

static void record(Env *e, void *arg)
{
    Recording *r = arg;
    env_finally(e, find_builds, close_db, r);
    if (r->build[0] != DB_NONE && r->build[1] != DB_NONE) {
        fprintf(stderr, "Kept in %s: `report builds %lld %lld`.\n",
                db_write(e, r->o->first.db, put_all, r), (long long)r->build[0],
                (long long)r->build[1]);
    }
}

void bench_record(Env *e, const LibraryBench *o, const Machine *machine, const int n_threads[2],
                  const Measured *by_work)
{
    Recording r = {.o = o, .machine = machine, .n_threads = n_threads, .m = by_work};
    if (!env_try(e, record, &r)) {
        fprintf(stderr, "This race is not recorded: %s\n", e->err.text);
    }
}
