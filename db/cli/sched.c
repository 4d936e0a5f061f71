/* sched.c - .sched files out of the database and into it. A file holds the rows of one
 * signature: the machine, compiler, threads and regime that they were found with. What a
 * file brings has no evidence here, so it is kept apart from winners. */
#include <inttypes.h>
#include <string.h>

#include "db/cli/cli.h"
#include "schedules/schedules.h"

/* ---- out ---- */

typedef struct Winners {
    SchedbOptions *o;
    SchedFile file; /* signature NULL: none so far */
    int n_others;   /* rows of other signatures */
    Buf signatures; /* all that there are */
} Winners;

static void keep_signature(Winners *w, const char *signature)
{
    const char *quoted = arena_printf(&w->o->e->model, "'%s'", signature);
    if (!strstr(w->signatures.at, quoted)) {
        buf_printf(&w->signatures, "%s%s", w->signatures.len ? ", " : "", quoted);
    }
}

/* Is a row of this signature to be written? */
static bool wanted(Winners *w, const char *signature)
{
    const char *only = w->o->signature;
    keep_signature(w, signature);
    if ((only && strcmp(only, signature)) ||
        (w->file.signature && strcmp(w->file.signature, signature))) {
        w->n_others++;
        return false;
    }
    w->file.signature = arena_str(&w->o->e->model, signature);
    return true;
}

static TunedRow *new_row(Winners *w, const char *schedule)
{
    Err err;
    TunedRow *r = vec_push(&w->o->e->model, &w->file.row);
    *r = (TunedRow){.n_ranges = 0};
    if (!schedule_parse(schedule, &r->schedule, &err)) {
        fail(w->o->e, E_SYNTAX, "A schedule in %s cannot be read: %s", db_path(w->o->db),
             err.text);
    }
    return r;
}

static void add_ranges(Winners *w, TunedRow *r, int64_t run, int64_t task)
{
    DbWinnerRange g;
    DbCursor c = DB_FIND(w->o->db, RANGES, run, task);
    while (db_next(&c, &w->o->e->kernel, &g)) {
        if (g.slot < 0 || g.slot >= MAX_RANGES) {
            db_end(&c);
            fail(w->o->e, E_INPUT, "A .sched file holds sizes of %d symbols at most.",
                 MAX_RANGES);
        }
        for (; r->n_ranges <= g.slot; r->n_ranges++) {
            r->range[r->n_ranges] = (SymRange){0, INT64_MAX};
        }
        r->range[g.slot] = (SymRange){g.least, g.most};
    }
}

static void add_winner(Winners *w, int64_t run, int64_t task_id)
{
    Arena *a = &w->o->e->model;
    Db *db = w->o->db;
    DbWinner winner;
    DbRun r;
    DbMachine m;
    DbToolchain t;
    DbTask task;
    DbKernel k;
    if (!DB_ONE(db, WINNER, a, &winner, run, task_id) || !DB_ONE(db, RUN, a, &r, run) ||
        !DB_ONE(db, MACHINE, a, &m, r.machine) || !DB_ONE(db, TOOLCHAIN, a, &t, r.toolchain) ||
        !DB_ONE(db, TASK, a, &task, task_id) || !DB_ONE(db, KERNEL, a, &k, task.kernel)) {
        fail(w->o->e, E_IO, "%s lacks rows: `schedb verify` says which.", db_path(db));
    }
    if (wanted(w, db_signature(a, &m, &t, task.n_threads, task.regime))) {
        TunedRow *row = new_row(w, winner.schedule);
        row->key = k.hash, row->c_hash = winner.c_hash;
        add_ranges(w, row, run, task_id);
    }
}

/* A row as its file had it: by way of the file's own parser. */
static void add_imported(Winners *w, const DbImported *m)
{
    char key[33], c_hash[33] = "-";
    hash_hex(m->kernel_hash, key);
    if (m->c_hash.hi || m->c_hash.lo) {
        hash_hex(m->c_hash, c_hash);
    }
    const char *text =
        arena_printf(&w->o->e->model, "nanocompile schedules 1 %s\n%s %s => %s%s; %s\nend 1\n",
                     m->signature, key, m->sizes, m->schedule, *m->schedule ? " " : "", c_hash);
    SchedFile one = {0};
    sched_parse(w->o->e, text, strlen(text), db_path(w->o->db), NULL, &one);
    *vec_push(&w->o->e->model, &w->file.row) = one.row.at[0];
}

void export_sched(SchedbOptions *o)
{
    Winners w = {.o = o};
    DbImported m;
    Buf out;
    buf_init(&w.signatures, &o->e->model);
    buf_init(&out, &o->e->model);
    DbSql *q =
        db_sql(o->db, "SELECT run, task FROM v_best ORDER BY kernel_hash, sizes, task, run");
    while (db_sql_next(q)) {
        add_winner(&w, db_sql_cell(q, 0).i, db_sql_cell(q, 1).i);
    }
    DbCursor c = DB_FIND_ALL(o->db, IMPORTED);
    while (db_next(&c, &o->e->model, &m)) {
        if (wanted(&w, m.signature)) {
            add_imported(&w, &m);
        }
    }
    if (!w.file.signature) {
        fail(o->e, E_INPUT, "%s has no schedules%s%s.", db_path(o->db),
             o->signature ? " of this signature; there are: " : "", w.signatures.at);
    }
    if (w.n_others && !o->signature) {
        fail(o->e, E_INPUT,
             "%s has schedules of several signatures; say which by --signature: %s.",
             db_path(o->db), w.signatures.at);
    }
    sched_print(&w.file, &out);
    write_out(o, out.at, out.len);
}

/* ---- in ---- */

static const char *ranges_text(Arena *a, const TunedRow *r)
{
    Buf b;
    buf_init(&b, a);
    for (int i = 0; i < r->n_ranges; i++) {
        buf_printf(&b, "%ss%d=", i ? "," : "", i);
        if (r->range[i].least <= 0 && r->range[i].most == INT64_MAX) {
            buf_char(&b, '*');
        } else if (r->range[i].most == INT64_MAX) {
            buf_printf(&b, "%" PRId64 "..", r->range[i].least);
        } else {
            buf_printf(&b, "%" PRId64 "..%" PRId64, r->range[i].least, r->range[i].most);
        }
    }
    return r->n_ranges ? b.at : "*";
}

typedef struct Importing {
    SchedbOptions *o;
    SchedFile file;
    int n_new;
} Importing;

static void import_rows(Env *e, void *arg)
{
    Importing *m = arg;
    for (int i = 0; i < m->file.row.n; i++) {
        const TunedRow *r = &m->file.row.at[i];
        Buf schedule;
        buf_init(&schedule, &e->model);
        schedule_print(&r->schedule, &schedule);
        DbImported row = {.signature = m->file.signature,
                          .kernel_hash = r->key,
                          .sizes = ranges_text(&e->model, r),
                          .schedule = schedule.at,
                          .c_hash = r->c_hash};
        m->n_new += db_put_imported(m->o->db, &row);
    }
}

int import_sched(SchedbOptions *o, const char *text, size_t len, const char *file)
{
    Importing m = {.o = o};
    sched_parse(o->e, text, len, file, NULL, &m.file);
    db_transact(o->db, import_rows, &m);
    return m.n_new;
}
