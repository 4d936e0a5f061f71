/* verify.c - does everything in the database follow from its raw data? SQLite's own checks come
 * first, then names against content, then each duel against its pairs, then trials, winners and
 * tie sets against their duels. Every fault is told; nothing is mended. */
#include <string.h>

#include "db/db_int.h"

typedef struct Checking {
    Db *db;
    DbRecompute *recompute;
    DbComplain *complain;
    void *ctx;
    int64_t n_faults;
} Checking;

static void PRINTF(2, 3) complain(Checking *c, const char *fmt, ...)
{
    char text[1000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    c->n_faults++;
    c->complain(c->ctx, text);
}

/* ---- SQLite's checks ---- */

static void check_file(Checking *c)
{
    DbSql *q = db_sql(c->db, "PRAGMA integrity_check");
    while (db_sql_next(q)) {
        if (strcmp(db_sql_cell(q, 0).text, "ok") != 0) {
            complain(c, "The file is damaged: %s.", db_sql_cell(q, 0).text);
        }
    }
    q = db_sql(c->db, "SELECT \"table\", rowid, parent FROM pragma_foreign_key_check");
    while (db_sql_next(q)) {
        char table[64];
        snprintf(table, sizeof table, "%s", db_sql_cell(q, 0).text);
        complain(c, "A row of %s refers to a row of %s that is not there.", table,
                 db_sql_cell(q, 2).text);
    }
}

/* ---- names ---- */

static void compare_names(Checking *c, DbTable t, int64_t id, int64_t again, bool same_hash)
{
    if (id != again || !same_hash) {
        complain(c, "Row %lld of %s is not what its %s says.", (long long)id, db_table[t].name,
                 id != again ? "id" : "hash");
    }
}

static void check_machines(Checking *c)
{
    DbMachine m;
    DbCursor at = DB_FIND_ALL(c->db, MACHINES);
    while (db_next(&at, scratch(c->db), &m)) {
        DbMachine again = m;
        identify_machine(c->db, &again);
        compare_names(c, DB_T_MACHINE, m.id, again.id, hash_eq(m.hard, again.hard));
    }
}

static void check_toolchains(Checking *c)
{
    DbToolchain t;
    DbCursor at = DB_FIND_ALL(c->db, TOOLCHAINS);
    while (db_next(&at, scratch(c->db), &t)) {
        DbToolchain again = t;
        identify_toolchain(c->db, &again);
        compare_names(c, DB_T_TOOLCHAIN, t.id, again.id, hash_eq(t.hard, again.hard));
    }
}

static void check_kernels(Checking *c)
{
    DbKernel k;
    DbCursor at = DB_FIND_ALL(c->db, KERNELS);
    while (db_next(&at, scratch(c->db), &k)) {
        DbKernel again = k;
        identify_kernel(&again);
        compare_names(c, DB_T_KERNEL, k.id, again.id, hash_eq(k.hash, again.hash));
    }
}

static void check_tasks(Checking *c)
{
    DbTask t;
    DbCursor at = DB_FIND_ALL(c->db, TASKS);
    while (db_next(&at, scratch(c->db), &t)) {
        DbTask again = t;
        identify_task(c->db, &again);
        compare_names(c, DB_T_TASK, t.id, again.id, true);
    }
}

static void check_spaces(Checking *c)
{
    DbSpace s;
    DbCursor at = DB_FIND_ALL(c->db, SPACES);
    while (db_next(&at, scratch(c->db), &s)) {
        Arena *a = &c->db->scratch;
        DbSpace again = s;
        Vec(DbKnob) knob = {0};
        Vec(DbKnobChoice) choice = {0};
        DbKnob k;
        DbKnobChoice one;
        DbCursor in = DB_FIND(c->db, KNOBS, s.id);
        while (db_next(&in, a, &k)) {
            *vec_push(a, &knob) = k;
        }
        in = DB_FIND(c->db, KNOB_CHOICES, s.id);
        while (db_next(&in, a, &one)) {
            *vec_push(a, &choice) = one;
        }
        identify_space(c->db, &again, knob.at, knob.n, choice.at, choice.n);
        compare_names(c, DB_T_SPACE, s.id, again.id, true);
    }
}

/* ---- duels ---- */

/* The columns from n to reason are what recompute may set: the first that differs. -1: none. */
static int first_difference(const DbDuel *d, const DbDuel *again)
{
    const DbTableInfo *t = &db_table[DB_T_DUEL];
    bool derived = false;
    for (int i = 0; i < t->n_columns; i++) {
        derived = derived || !strcmp(t->column[i].name, "n");
        if (derived && !cells_agree(DB_T_DUEL, d, again, i)) {
            return i;
        }
        if (!strcmp(t->column[i].name, "reason")) {
            break;
        }
    }
    return -1;
}

static void compare_duel(Checking *c, const DbDuel *d, const DbDuel *again, const char *who)
{
    int i = first_difference(d, again);
    if (i >= 0) {
        Buf stored, computed;
        buf_init(&stored, &c->db->scratch);
        buf_init(&computed, &c->db->scratch);
        row_cell(DB_T_DUEL, d, i, &stored);
        row_cell(DB_T_DUEL, again, i, &computed);
        complain(c, "%s: %s is stored as %s, and its pairs say %s.", who,
                 db_table[DB_T_DUEL].column[i].name, stored.at, computed.at);
    }
}

static DbPair *read_pairs(Db *db, Arena *a, const DbProcess *p, int *n)
{
    Vec(DbPair) v = {0};
    DbPair pair;
    DbCursor at = DB_FIND(db, PAIRS, p->run, p->duel, p->idx);
    while (db_next(&at, a, &pair)) {
        *vec_push(a, &v) = pair;
    }
    *n = v.n;
    return v.at;
}

static void check_duel(Checking *c, const DbDuel *d)
{
    Arena *a = &c->db->scratch;
    Vec(DbProcess) process = {0};
    Vec(DbPair *) pair = {0};
    DbProcess p;
    bool complete = true;
    DbCursor at = DB_FIND(c->db, PROCESSES, d->run, d->idx);
    const char *who =
        arena_printf(a, "Run %lld, duel %lld (%s, %s against %s)", (long long)d->run,
                     (long long)d->idx, d->stage, d->b_name, d->a_name);
    while (db_next(&at, a, &p)) {
        int n;
        *vec_push(a, &pair) = read_pairs(c->db, a, &p, &n);
        *vec_push(a, &process) = p;
        complete = complete && n == p.n_pairs;
    }
    if (!complete) {
        complain(c, "%s: a process has not as many pairs as it says.", who);
        return;
    }
    if (!hash_eq(d->seal, duel_seal(work(c->db), d, process.at, process.n, pair.at))) {
        complain(c, "%s: it was changed after it was recorded (its seal does not fit).", who);
    }
    if (c->recompute) {
        DbDuel again = *d;
        Err err;
        if (!c->recompute(c->ctx, c->db->e, d, process.at, process.n, pair.at, &again, &err)) {
            complain(c, "%s: %s.", who, err.text);
        }
        compare_duel(c, d, &again, who);
    }
}

static void check_duels(Checking *c)
{
    DbDuel d;
    DbCursor at = DB_FIND_ALL(c->db, ALL_DUELS);
    while (db_next(&at, scratch(c->db), &d)) {
        check_duel(c, &d);
    }
}

/* ---- what is said of duels elsewhere ---- */

/* A statement whose rows are (run, id of a trial or task), and what is wrong with each. */
typedef struct Claim {
    const char *who, *what, *sql;
} Claim;

/* The pick may be another schedule with the champion's own C, which a trial found. */
#define SAME_C                                                                     \
    "EXISTS (SELECT 1 FROM trial t WHERE t.run = w.run AND t.task = w.task AND "   \
    "t.schedule = w.schedule AND t.c_hash = w.c_hash)"

static const Claim claims[] = {
    {"trial", "has another outcome or other code than its last duel",
     "SELECT t.run, t.idx FROM trial t JOIN duel d ON d.run = t.run AND d.trial = t.idx "
     "WHERE d.idx = (SELECT max(idx) FROM duel l WHERE l.run = t.run AND l.trial = t.idx "
     "AND l.stage IN ('search', 'replicate')) AND (d.reason <> t.outcome OR "
     "d.b_schedule IS NOT t.schedule OR d.b_c_hash IS NOT t.c_hash)"},
    {"the winner of task", "is not what its title match proved",
     "SELECT w.run, w.task FROM winner w LEFT JOIN duel d ON d.run = w.run AND d.idx = w.duel "
     "AND d.task = w.task AND d.stage = 'title' AND d.verdict = 'FASTER' AND d.b_c_hash = "
     "w.c_hash AND d.a_c_hash = w.default_c_hash AND (d.b_schedule = w.schedule OR " SAME_C
     ") AND d.a_schedule = w.default_schedule AND d.ratio = w.ratio AND d.ratio_lo IS "
     "w.ratio_lo AND d.ratio_hi IS w.ratio_hi AND d.b_ns = w.b_ns WHERE d.run IS NULL"},
    {"the tie set of task", "has a schedule that no match found equivalent",
     "SELECT t.run, t.task FROM tie_set t LEFT JOIN duel d ON d.run = t.run AND d.idx = t.duel "
     "AND d.task = t.task AND d.stage = 'equivalence' AND d.verdict = 'EQUIVALENT' AND "
     "d.b_c_hash = t.c_hash WHERE t.duel IS NOT NULL AND d.run IS NULL"},
};

static void check_claims(Checking *c)
{
    for (size_t i = 0; i < countof(claims); i++) {
        DbSql *q = db_sql(c->db, claims[i].sql);
        while (db_sql_next(q)) {
            complain(c, "Run %lld: %s %lld %s.", (long long)db_sql_cell(q, 0).i, claims[i].who,
                     (long long)db_sql_cell(q, 1).i, claims[i].what);
        }
    }
}

int64_t db_verify(Db *db, DbRecompute *recompute, DbComplain *complain_to, void *ctx)
{
    Checking c = {db, recompute, complain_to, ctx, 0};
    static void (*const checks[])(Checking * c) = {
        check_file,  check_machines, check_toolchains, check_kernels,
        check_tasks, check_spaces,   check_duels,      check_claims};
    for (size_t i = 0; i < countof(checks); i++) {
        checks[i](&c);
    }
    return c.n_faults;
}
