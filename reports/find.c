/* find.c - what the words of a command line mean: tasks by id, by its beginning or by a piece of
 * their label, runs by id; and small queries. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "reports/reports.h"

DbSql *report_query(Report *r, const char *sql, const int64_t *arg, int n)
{
    DbSql *q = db_sql(r->db, sql);
    for (int i = 0; i < n; i++) {
        db_sql_bind_int(q, i + 1, arg[i]);
    }
    return q;
}

int64_t cell_int(const DbSql *q, int column)
{
    DbCell c = db_sql_cell(q, column);
    return c.kind == DB_NULL ? DB_NONE : c.i;
}

double cell_real(const DbSql *q, int column)
{
    DbCell c = db_sql_cell(q, column);
    return c.kind == DB_NULL ? NAN : c.r;
}

const char *cell_text(Report *r, const DbSql *q, int column)
{
    DbCell c = db_sql_cell(q, column);
    return c.kind == DB_NULL ? NULL : arena_str(r->a, c.text);
}

/* ---- what a word means ---- */

typedef struct Found {
    int64_t id;
    int n;
} Found;

/* Every row of a query whose ?1 is the word: (id). */
static Found look(Report *r, const char *sql, const char *word)
{
    Found f = {DB_NONE, 0};
    DbSql *q = db_sql(r->db, sql);
    db_sql_bind_text(q, 1, word);
    while (db_sql_next(q)) {
        f.id = db_sql_cell(q, 0).i;
        f.n++;
    }
    return f;
}

bool is_digits(const char *s)
{
    return *s && s[strspn(s, "0123456789")] == '\0';
}

/* By all of its digits, or else by the first of them. */
static Found look_id(Report *r, const char *table, const char *word)
{
    Found f = look(
        r, arena_printf(r->a, "SELECT id FROM %s WHERE CAST(id AS TEXT) = ?1", table), word);
    return f.n ? f
               : look(r,
                      arena_printf(r->a,
                                   "SELECT id FROM %s WHERE CAST(id AS TEXT) LIKE ?1 || '%%'",
                                   table),
                      word);
}

static _Noreturn void not_one(Report *r, const char *what, const char *word, int n)
{
    if (n > 1) {
        fail(r->e, E_INPUT, "%d %ss of %s fit '%s': say more of it.", n, what, db_path(r->db),
             word);
    }
    fail(r->e, E_INPUT, "%s has no %s '%s'; `report%s` lists what it has.", db_path(r->db),
         what, word,
         !strcmp(what, "run")     ? " runs"
         : !strcmp(what, "build") ? " builds"
                                  : "");
}

int64_t report_find_task(Report *r, const char *word)
{
    Found f = is_digits(word) ? look_id(r, "task", word) : (Found){DB_NONE, 0};
    if (!f.n) {
        f = look(r, "SELECT DISTINCT task FROM run_task WHERE instr(label, ?1) > 0", word);
    }
    if (f.n != 1) {
        not_one(r, "task", word, f.n);
    }
    return f.id;
}

/* What begins at a time, a run or a build: the last to begin is "last". */
static Found look_begun(Report *r, const char *table, const char *word)
{
    return !strcmp(word, "last")
               ? look(r,
                      arena_printf(r->a,
                                   "SELECT id FROM %s WHERE ?1 = 'last' ORDER BY started_ns "
                                   "DESC, id DESC LIMIT 1",
                                   table),
                      word)
           : is_digits(word) ? look_id(r, table, word)
                             : (Found){DB_NONE, 0};
}

int64_t report_find_build(Report *r, const char *word)
{
    Found f = look_begun(r, "build", word);
    if (f.n != 1) {
        not_one(r, "build", word, f.n);
    }
    return f.id;
}

int64_t report_find_run(Report *r, const char *word)
{
    Found f = look_begun(r, "run", word);
    if (f.n != 1) {
        not_one(r, "run", word, f.n);
    }
    return f.id;
}

bool report_is_run(Report *r, const char *word)
{
    return look_begun(r, "run", word).n == 1;
}

/* ---- names ---- */

const char *report_task_name(Report *r, int64_t task)
{
    DbSql *q =
        QUERY(r,
              "SELECT coalesce((SELECT label FROM run_task WHERE task = t.id AND label IS "
              "NOT NULL ORDER BY run DESC LIMIT 1), 'kernel ' || substr(k.hash, 1, 8)), "
              "t.sizes, t.n_threads, t.regime FROM task t JOIN kernel k ON k.id = "
              "t.kernel WHERE t.id = ?1",
              task);
    const char *name = "";
    while (db_sql_next(q)) {
        const char *sizes = db_sql_cell(q, 1).text;
        int64_t n = db_sql_cell(q, 2).i;
        name = arena_printf(r->a, "%s%s%s%s, %lld thread%s", cell_text(r, q, 0),
                            *sizes ? " (" : "", sizes, *sizes ? ")" : "", (long long)n,
                            n == 1 ? "" : "s");
        name = arena_printf(r->a, "%s, %s", name, cell_text(r, q, 3));
    }
    return name;
}

bool report_has_runs(Report *r)
{
    if (db_count(r->db, DB_T_RUN) > 0) {
        return true;
    }
    report_say(r, "%s holds no run yet: `tune` records them.", db_path(r->db));
    return false;
}
