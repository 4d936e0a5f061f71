/* compare.c - two runs, two schedules or two databases, as recorded. What never met in pairs is set
 * side by side and nothing is claimed of it; where they met, their duel speaks. */
#include <math.h>
#include <string.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* A row: a task, as the two tell of it. */
const Sheet sheet_compare = {
    "compare",
    {{"task", 0, "label of the task"},
     {"sizes", 0, "values of the kernel's symbols"},
     {"threads", NUMBER, "how many threads ran it"},
     {"regime", 0, "cold, hot"},
     {"a", PEOPLE, "the answer of A against the default"},
     {"a_ratio", NUMBER | MACHINE, "time of A's winner by the default's; empty: no winner"},
     {"a_lo", NUMBER | MACHINE, "lower end of its interval"},
     {"a_hi", NUMBER | MACHINE, "upper end of its interval"},
     {"b", PEOPLE, "the answer of B against the default"},
     {"b_ratio", NUMBER | MACHINE, "time of B's winner by the default's; empty: no winner"},
     {"b_lo", NUMBER | MACHINE, "lower end of its interval"},
     {"b_hi", NUMBER | MACHINE, "upper end of its interval"},
     {"do they differ", 0, "same code, or what a duel of the two says, or that there is none"},
     {"a schedule", 0, "of A's answer"},
     {"b schedule", 0, "of B's answer"}}};

typedef struct Answer { /* of one side, for one task */
    const char *label, *sizes, *regime, *schedule, *c_hash;
    int64_t task, n_threads;
    double ratio, lo, hi; /* NaN: the default was kept */
} Answer;
typedef Vec(Answer) Answers;

/* ---- answers ---- */

/* run DB_NONE: the best of each task, whoever found it; else that run's. */
static Answers answers_of(Report *r, int64_t run)
{
    Answers v = {0};
    DbSql *q =
        QUERY(r,
              "SELECT rt.task, coalesce(rt.label, ''), t.sizes, t.n_threads, t.regime, "
              "w.schedule, w.c_hash, w.ratio, w.ratio_lo, w.ratio_hi, rt.default_schedule, "
              "rt.default_c_hash FROM (SELECT *, max(run) FROM run_task WHERE ?1 IN (run, "
              "-9223372036854775807 - 1) GROUP BY task) rt JOIN task t ON t.id = rt.task "
              "LEFT JOIN (SELECT *, row_number() OVER (PARTITION BY task ORDER BY ratio_hi "
              "IS NULL, ratio_hi, ratio, at_ns DESC, run DESC) AS place FROM winner WHERE ?1 "
              "IN (run, -9223372036854775807 - 1)) w ON w.task = rt.task AND w.place = 1 "
              "ORDER BY rt.label, rt.task",
              run);
    while (db_sql_next(q)) {
        bool won = db_sql_cell(q, 5).kind != DB_NULL;
        *vec_push(r->a, &v) = (Answer){.task = cell_int(q, 0),
                                       .label = cell_text(r, q, 1),
                                       .sizes = cell_text(r, q, 2),
                                       .n_threads = cell_int(q, 3),
                                       .regime = cell_text(r, q, 4),
                                       .schedule = cell_text(r, q, won ? 5 : 10),
                                       .c_hash = cell_text(r, q, won ? 6 : 11),
                                       .ratio = cell_real(q, 7),
                                       .lo = cell_real(q, 8),
                                       .hi = cell_real(q, 9)};
    }
    return v;
}

static const Answer *answer_for(const Answers *v, int64_t task)
{
    for (int i = 0; i < v->n; i++) {
        if (v->at[i].task == task) {
            return &v->at[i];
        }
    }
    return NULL;
}

/* ---- did they meet? ---- */

/* The last duel across processes in which these two were, either way round. In words of b. */
static const char *duel_words(Report *r, int64_t task, const char *a, const char *b)
{
    const char *words = NULL;
    DbSql *q = db_sql(
        r->db, "SELECT run, idx, b_schedule = ?3 FROM duel WHERE task = ?1 AND stage IN "
               "('compare', 'title', 'equivalence') AND ((a_schedule = ?2 AND b_schedule = "
               "?3) OR (a_schedule = ?3 AND b_schedule = ?2)) ORDER BY started_ns, run, idx");
    db_sql_bind_int(q, 1, task);
    db_sql_bind_text(q, 2, a);
    db_sql_bind_text(q, 3, b);
    while (db_sql_next(q)) {
        Recount c;
        bool straight = db_sql_cell(q, 2).i;
        if (report_recount(r, db_sql_cell(q, 0).i, db_sql_cell(q, 1).i, &c)) {
            double ratio = straight ? c.duel.ratio : 1 / c.duel.ratio;
            words = arena_printf(
                r->a, "B is %s: %s (run %lld, duel %lld)", ratio_text(r->a, ratio),
                verdict_words(verdict_from(c.duel.verdict, straight), c.duel.stage),
                (long long)c.duel.run, (long long)c.duel.idx);
        }
    }
    return words;
}

typedef struct Two { /* what is compared */
    Answers a, b;
    Db *db[2]; /* where a duel of the two may be recorded */
} Two;

static const char *difference(Report *r, const Two *t, const Answer *a, const Answer *b)
{
    if (!a || !b) {
        return a ? "only A has this task" : "only B has this task";
    }
    bool same_c = a->c_hash && b->c_hash && !strcmp(a->c_hash, b->c_hash);
    if (same_c || !strcmp(a->schedule, b->schedule)) {
        return "no: the same code";
    }
    const char *words = NULL;
    Db *mine = r->db;
    for (int i = 0; i < 2 && !words; i++) {
        r->db = t->db[i];
        words = duel_words(r, a->task, a->schedule, b->schedule);
    }
    r->db = mine;
    return words ? words : "not known: they never met in pairs (`tune --compare` would)";
}

/* ---- telling ---- */

static void put_answer(Report *r, const Answer *x)
{
    cell_add(r, "%s",
             !x                   ? ""
             : isfinite(x->ratio) ? interval_text(r->a, x->ratio, x->lo, x->hi)
                                  : "default kept");
    cell_add_number(r, x ? x->ratio : NAN, "%.4f");
    cell_add_number(r, x ? x->lo : NAN, "%.4f");
    cell_add_number(r, x ? x->hi : NAN, "%.4f");
}

static void put_both(Report *r, const Two *t, const Answer *a, const Answer *b)
{
    const Answer *any = a ? a : b;
    cell_add(r, "%s", any->label);
    cell_add(r, "%s", any->sizes);
    cell_add_int(r, any->n_threads);
    cell_add(r, "%s", any->regime);
    put_answer(r, a);
    put_answer(r, b);
    cell_add(r, "%s", difference(r, t, a, b));
    cell_add(r, "%s", a ? schedule_text(r->a, a->schedule) : "");
    cell_add(r, "%s", b ? schedule_text(r->a, b->schedule) : "");
}

static void put_answers(Report *r, const Two *t)
{
    report_sheet(r, &sheet_compare);
    for (int i = 0; i < t->a.n; i++) {
        put_both(r, t, &t->a.at[i], answer_for(&t->b, t->a.at[i].task));
    }
    for (int i = 0; i < t->b.n; i++) {
        if (!answer_for(&t->a, t->b.at[i].task)) {
            put_both(r, t, NULL, &t->b.at[i]);
        }
    }
    report_say(r,
               "Each side against its own default, as recorded; only a duel of the two can say "
               "which is faster.");
}

/* ---- the three kinds ---- */

static void compare_runs(Report *r)
{
    int64_t a = report_find_run(r, r->word[0]), b = report_find_run(r, r->word[1]);
    report_heading(r, "A = run %lld, B = run %lld", (long long)a, (long long)b);
    put_answers(r, &(Two){answers_of(r, a), answers_of(r, b), {r->db, r->db}});
}

/* Kinds of machine that anything ran on, in order. */
static const char *machines_of(Report *r)
{
    const char *all = "";
    DbSql *q =
        QUERY_ALL(r, "SELECT group_concat(hard) FROM (SELECT DISTINCT m.hard FROM run r JOIN "
                     "machine m ON m.id = r.machine ORDER BY m.hard)");
    while (db_sql_next(q)) {
        all = arena_str(r->a, db_sql_cell(q, 0).text);
    }
    return all;
}

typedef struct Files {
    Report *r;
    Db *mine, *db[2];
} Files;

static void files_body(Env *e, void *arg)
{
    Files *f = arg;
    Report *r = f->r;
    Two t = {.db = {NULL, NULL}};
    const char *machines[2];
    for (int i = 0; i < 2; i++) {
        r->db = t.db[i] = f->db[i] = db_must_open(e, r->word[i], DB_READ);
        *(i ? &t.b : &t.a) = answers_of(r, DB_NONE);
        machines[i] = machines_of(r);
    }
    put_answers(r, &t);
    if (strcmp(machines[0], machines[1]) != 0) {
        report_say(r, "The two were measured on different kinds of machine.");
    }
}

static void close_files(void *arg)
{
    Files *f = arg;
    f->r->db = f->mine;
    db_close(f->db[0]);
    db_close(f->db[1]);
}

static void compare_files(Report *r)
{
    Files f = {.r = r, .mine = r->db};
    report_heading(r, "A = %s, B = %s", r->word[0], r->word[1]);
    env_finally(r->e, files_body, close_files, &f);
}

/* Every duel of the two, either way round; by their steps, or as duels call them: default, best. */
static void compare_schedules(Report *r)
{
    int n = 0;
    report_heading(r, "A and B as schedules");
    report_say(r, "A: %s", schedule_text(r->a, r->word[0]));
    report_say(r, "B: %s", schedule_text(r->a, r->word[1]));
    report_sheet(r, &sheet_evidence);
    DbSql *q =
        db_sql(r->db, "SELECT run, idx FROM duel WHERE (?1 IN (a_schedule, a_name) AND ?2 IN "
                      "(b_schedule, b_name)) OR (?2 IN (a_schedule, a_name) AND ?1 IN "
                      "(b_schedule, b_name)) ORDER BY run, idx");
    db_sql_bind_text(q, 1, r->word[0]);
    db_sql_bind_text(q, 2, r->word[1]);
    while (db_sql_next(q)) {
        Recount c;
        if (report_recount(r, db_sql_cell(q, 0).i, db_sql_cell(q, 1).i, &c)) {
            evidence_row(r, report_label(r, c.duel.run, c.duel.task), &c);
            n++;
        }
    }
    if (n == 0) {
        report_say(r,
                   "These two never met in pairs here, so nothing can be said of them; `tune "
                   "--compare A B` lets them meet.");
    }
}

static bool is_file(const char *path)
{
    struct stat st;
    return os.stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool compare_is_files(const char *const *word)
{
    return is_file(word[0]) && is_file(word[1]);
}

void report_compare(Report *r)
{
    if (compare_is_files(r->word)) {
        compare_files(r);
    } else if (is_digits(r->word[0]) || report_is_run(r, r->word[0]) ||
               report_is_run(r, r->word[1])) {
        compare_runs(r);
    } else {
        compare_schedules(r);
    }
}
