/* resume.c - which recorded run a `tune --resume` goes on with: the newest that was stopped and is of this very
 * command, or the one that was named. What must be the same is what its trials follow from; the first thing that
 * is not is said in one sentence. A run that some program is still at work on is left to it. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "tuner/cli/tune.h"

/* ---- one program a run -------------------------------------------------------------------------- */

static const char *lock_path(const Workplace *w, int64_t run)
{
    return arena_printf(&w->e->kernel, "%s/run-%lld.lock", w->cache.dir, (long long)run);
}

/* The lock goes with the process, however it ends. Where files cannot be locked there is none. */
void run_lock(const Workplace *w, int64_t run)
{
    int fd = os.open(lock_path(w, run), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        os.close(fd);
        fail(w->e, E_INPUT, "Another tune is still at work on run %lld.", (long long)run);
    }
}

void run_unlock(const Workplace *w, int64_t run)
{
    os.unlink(lock_path(w, run));
}

/* ---- is it the same? -------------------------------------------------------------------------------- */

typedef struct Comparing {
    const Workplace *w;
    Db *db;
    const DbRun *run;
    Items *items;
    Err *err; /* what differs */
} Comparing;

static bool PRINTF(2, 3) differs(const Comparing *c, const char *fmt, ...)
{
    char what[800];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return err_set(c->err, E_INPUT, "Run %lld (%.300s) is not of this command: %s.",
                   (long long)c->run->id, c->run->command, what);
}

static bool same_text(const Comparing *c, const char *what, const char *there, const char *here)
{
    there = there ? there : "none";
    return !strcmp(there, here) || differs(c, "%s is %s there and %s here", what, there, here);
}

static bool same_number(const Comparing *c, const char *what, double there, double here)
{
    return there == here || differs(c, "%s is %.10g there and %.10g here", what, there, here);
}

static bool same_options(const Comparing *c)
{
    const TuneOptions *o = c->w->o;
    const DbRun *r = c->run;
    return same_text(c, "the version", r->version, NC_VERSION) &&
           same_number(c, "the version of the protocol", (double)r->protocol,
                       PROTOCOL_VERSION) &&
           same_text(c, "the strategy", r->strategy, strategy_name(o->strategy)) &&
           same_number(c, "the seed", (double)r->seed, (double)o->seed) &&
           same_number(c, "the number of threads", (double)r->n_threads, c->w->n_threads);
}

static bool same_constants(const Comparing *c)
{
    Protocol there = protocol_default();
    DbRunConstant row;
    Err err;
    DbCursor at = DB_FIND(c->db, RUN_CONSTANTS, c->run->id);
    while (db_next(&at, &c->w->e->kernel, &row)) {
        if (!protocol_set(&there, row.name, row.value, &err)) {
            db_end(&at);
            return differs(c, "its constant %s is not known here", row.name);
        }
    }
    for (int i = 0; i < N_PROTOCOL; i++) {
        char what[128];
        snprintf(what, sizeof what, "the constant %s", protocol_row[i].name);
        if (!same_number(c, what, protocol_get(&there, i),
                         protocol_get(&c->w->o->protocol, i))) {
            return false;
        }
    }
    return true;
}

static bool same_machine(const Comparing *c)
{
    Arena *m = &c->w->e->kernel;
    DbMachine here = c->w->db_machine, there;
    if (!DB_ONE(c->db, MACHINE, m, &there, c->run->machine)) {
        return differs(c, "its machine is not in the database");
    }
    return same_text(c, "the host", there.host, here.host ? here.host : "none") &&
           same_text(c, "the CPU", there.isa, here.isa) &&
           same_number(c, "the L1 cache", (double)there.l1d_bytes, (double)here.l1d_bytes) &&
           same_number(c, "the L2 cache", (double)there.l2_bytes, (double)here.l2_bytes) &&
           same_number(c, "the L3 cache", (double)there.l3_bytes, (double)here.l3_bytes) &&
           same_number(c, "the number of CPUs", (double)there.n_cores, (double)here.n_cores);
}

static bool same_toolchain(const Comparing *c)
{
    DbToolchain here = c->w->db_toolchain, there;
    if (!DB_ONE(c->db, TOOLCHAIN, &c->w->e->kernel, &there, c->run->toolchain)) {
        return differs(c, "its compiler is not in the database");
    }
    return same_text(c, "the compiler", there.version, here.version) &&
           same_text(c, "what CC says", there.words, here.words) &&
           same_text(c, "the compiler's flags", there.flags, here.flags) &&
           same_text(c, "the target", there.target, here.target);
}

/* ---- tasks ---------------------------------------------------------------------------------------------- */

static Item *item_of(const Comparing *c, int64_t task)
{
    for (int i = 0; i < c->items->n; i++) {
        if (c->items->at[i].id == task) {
            return &c->items->at[i];
        }
    }
    return NULL;
}

/* Candidates are numbered within the space, and raced from the default on. */
static bool same_space(const Comparing *c, const DbRunTask *t, const Item *it)
{
    DbSpace s;
    bool known = DB_ONE(c->db, SPACE, &c->w->e->kernel, &s, t->space);
    return ((known && s.n_legal == (int64_t)it->space.n_legal &&
             s.n_points == (int64_t)it->space.n_points) ||
            differs(c, "the schedules of %s are others", it->label)) &&
           (hash_eq(t->default_c_hash, it->base_c_hash) ||
            differs(c, "the default schedule of %s gives other C", it->label));
}

static bool same_tasks(const Comparing *c)
{
    DbRunTask t;
    int n = 0;
    DbCursor at = DB_FIND(c->db, RUN_TASKS, c->run->id);
    while (db_next(&at, &c->w->e->kernel, &t)) {
        const Item *it = item_of(c, t.task);
        if (it ? !same_space(c, &t, it)
               : !differs(c, "it also tunes %s", t.label ? t.label : "another task")) {
            db_end(&at);
            return false;
        }
        n++;
    }
    return n == c->items->n || differs(c, "it tunes %d of these %d tasks", n, c->items->n);
}

static bool same_command(const Comparing *c)
{
    return same_tasks(c) && same_options(c) && same_constants(c) && same_machine(c) &&
           same_toolchain(c);
}

/* ---- which one -------------------------------------------------------------------------------------------- */

static bool was_stopped(const DbRun *r)
{
    return !strcmp(r->program, "tune") && r->strategy &&
           (r->ended_ns == DB_NONE || !r->ending || !strcmp(r->ending, "interrupted") ||
            !strcmp(r->ending, "failed"));
}

/* The newest that fits; else err says what differs from the newest there is. */
static bool newest(Comparing *c, int64_t *run)
{
    Env *e = c->w->e;
    Vec(DbRun) all = {0};
    DbRun row;
    Err first = {E_INPUT, "There is no run that was stopped: nothing to resume."};
    bool any = false;
    DbCursor at = DB_FIND_ALL(c->db, RUNS);
    while (db_next(&at, &e->model, &row)) {
        if (was_stopped(&row)) {
            *vec_push(&e->model, &all) = row;
        }
    }
    for (int i = all.n - 1; i >= 0; i--) {
        c->run = &all.at[i];
        if (same_command(c)) {
            *run = all.at[i].id;
            return true;
        }
        first = any ? first : *c->err;
        any = true;
    }
    *c->err = first;
    return false;
}

static bool named(Comparing *c, int64_t run)
{
    DbRun row;
    c->run = &row;
    if (!DB_ONE(c->db, RUN, &c->w->e->model, &row, run)) {
        return err_set(c->err, E_INPUT, "There is no run %lld in %s.", (long long)run,
                       db_path(c->db));
    }
    return was_stopped(&row) ? same_command(c)
                             : err_set(c->err, E_INPUT,
                                       "Run %lld is not a search that was stopped: it ended "
                                       "as %s.",
                                       (long long)run, row.ending ? row.ending : "unknown");
}

static void put_tasks(Env *e, void *arg)
{
    const Comparing *c = arg;
    (void)e;
    for (int i = 0; i < c->items->n; i++) {
        c->items->at[i].id = item_task_row(c->w, c->db, &c->items->at[i]);
    }
}

void resume_run(Record *r, Items *items)
{
    const Workplace *w = r->w;
    Err err = {0};
    Comparing c = {.w = w, .db = r->in.db, .items = items, .err = &err};
    db_transact(c.db, put_tasks, &c);
    int64_t run = w->o->resume_run;
    if (!(run ? named(&c, run) : newest(&c, &run))) {
        fail_err(w->e, &err);
    }
    r->in.run = run;
    run_record_resume(&r->in);
    env_reset_kernel(w->e);
}
