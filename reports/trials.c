/* trials.c - every candidate: what it was, how it ended, what the protocol did with it; and the
 * failures by themselves, by reason, each with one example. */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* A row: a candidate. */
const Sheet sheet_trials = {
    "trials",
    {{"run", 0, "its run"},
     {"trial", NUMBER, "its number within the run"},
     {"task", 0, "label of the task"},
     {"rank", NUMBER, "its number within the space"},
     {"status", 0,
      "how it ended: ok, illegal, cc-error, cc-timeout, crash, timeout, oom, wrong, "
      "garbage"},
     {"outcome", 0, "what the protocol did with it: screened, futile, promoted ..."},
     {"against incumbent", PEOPLE, "in its one search duel: an estimate, no claim"},
     {"ratio", NUMBER | MACHINE, "of its time to the incumbent's, in its one search duel"},
     {"against default", PEOPLE, "along the chain of incumbents: an estimate, no claim"},
     {"to_default", NUMBER | MACHINE,
      "its time by the default's along the chain of incumbents"},
     {"incumbent", NUMBER, "trial that it was raced against; empty: the default"},
     {"strategy", 0, "who proposed it"},
     {"built in", NUMBER | PEOPLE, "time to compile it"},
     {"build_ns", NUMBER | MACHINE, "time to compile it"},
     {"verify_ns", NUMBER | MACHINE, "time to verify it"},
     {"measure_ns", NUMBER | MACHINE, "time to measure it"},
     {"decide_ns", NUMBER | MACHINE, "time to decide"},
     {"c_hash", 0, "of its C (for people its beginning)"},
     {"schedule", 0, "its steps"},
     {"why", 0, "what went wrong"}}};

static void put_trial(Report *r, const Candidate *c, const char *label, const char *strategy)
{
    const DbTrial *t = &c->trial;
    cell_add_id(r, t->run);
    cell_add_int(r, t->idx);
    cell_add(r, "%s", label);
    cell_add_int(r, t->rank);
    cell_add(r, "%s", t->status);
    cell_add(r, "%s", t->outcome);
    cell_add(r, "%s", ratio_text(r->a, c->ratio));
    cell_add_number(r, c->ratio, "%.4f");
    cell_add(r, "%s", ratio_text(r->a, c->to_default));
    cell_add_number(r, c->to_default, "%.4f");
    cell_add_int(r, t->incumbent);
    cell_add(r, "%s", t->strategy ? t->strategy : strategy);
    cell_add_ns(r, t->build_ns == DB_NONE ? NAN : (double)t->build_ns);
    cell_add_int(r, t->build_ns);
    cell_add_int(r, t->verify_ns);
    cell_add_int(r, t->measure_ns);
    cell_add_int(r, t->decide_ns);
    cell_add_hash(r, t->c_hash);
    cell_add(r, "%s", schedule_text(r->a, t->schedule));
    cell_add_text(r, t->why);
}

/* Run by run, task by task, in the order tried. */
void report_trials(Report *r)
{
    report_sheet(r, &sheet_trials);
    DbSql *q =
        QUERY(r,
              "SELECT rt.run, rt.task, rt.label, r.strategy FROM run_task rt JOIN run r ON "
              "r.id = rt.run WHERE ?1 IN (rt.run, -9223372036854775807 - 1) AND ?2 IN "
              "(rt.task, -9223372036854775807 - 1) ORDER BY r.started_ns, r.id, rt.idx",
              r->run, r->task);
    while (db_sql_next(q)) {
        const char *label = cell_text(r, q, 2), *strategy = cell_text(r, q, 3);
        Chain c = chain_of(r, db_sql_cell(q, 0).i, db_sql_cell(q, 1).i);
        for (int i = 0; i < c.n; i++) {
            put_trial(r, &c.at[i], label ? label : "", strategy ? strategy : "");
        }
    }
    report_has_runs(r);
}

/* ---- failures ---- */

/* A row: a reason for which candidates, or processes of duels, did not end well. */
const Sheet sheet_failures = {
    "failures",
    {{"of", 0, "candidate, or process of a duel"},
     {"status", 0, "how they ended"},
     {"reason", 0, "in words; numbers in it are left out, so that alike reasons are one"},
     {"count", NUMBER, "how many"},
     {"share", NUMBER, "of all that were tried, in percent"},
     {"bar", PEOPLE, "the same as a picture"},
     {"example", 0, "the first of them: run, and trial or duel and process"},
     {"schedule", 0, "of the example"},
     {"said", 0, "what was said of the example, with its numbers"}}};

typedef struct Reason {
    const char *of, *status, *text, *example, *schedule, *said;
    int64_t n;
} Reason;
typedef Vec(Reason) Reasons;

/* Runs of digits (and of hexadecimal ones behind 0x) become one '#', and paths lose their folders. */
static const char *without_numbers(Report *r, const char *s)
{
    Buf b;
    buf_init(&b, r->a);
    while (*s && b.len < 120) {
        bool digit = isdigit((unsigned char)*s);
        bool in_word = digit && b.len && isalpha((unsigned char)b.at[b.len - 1]);
        if (digit && !in_word) {
            s += s[0] == '0' && s[1] == 'x' ? 2 : 0;
            while (isxdigit((unsigned char)*s) || (*s == '.' && isdigit((unsigned char)s[1]))) {
                s++;
            }
            buf_char(&b, '#');
        } else {
            buf_char(&b, *s++);
        }
    }
    return b.at;
}

static void count_reason(Report *r, Reasons *v, const Reason *one)
{
    for (int i = 0; i < v->n; i++) {
        Reason *at = &v->at[i];
        if (!strcmp(at->of, one->of) && !strcmp(at->status, one->status) &&
            !strcmp(at->text, one->text)) {
            at->n++;
            return;
        }
    }
    *vec_push(r->a, v) = *one;
}

static void count_failures(Report *r, Reasons *v, const char *of, const char *sql)
{
    DbSql *q = QUERY(r, sql, r->run, r->task);
    while (db_sql_next(q)) {
        const char *said = cell_text(r, q, 1);
        Reason one = {.of = of,
                      .status = cell_text(r, q, 0),
                      .text = said ? without_numbers(r, said) : "(nothing was said)",
                      .example = cell_text(r, q, 2),
                      .schedule = schedule_text(r->a, cell_text(r, q, 3)),
                      .said = said ? said : "",
                      .n = 1};
        count_reason(r, v, &one);
    }
}

static void sort_by_count(Reasons *v)
{
    for (int i = 1; i < v->n; i++) {
        Reason x = v->at[i];
        int k = i;
        for (; k > 0 && v->at[k - 1].n < x.n; k--) {
            v->at[k] = v->at[k - 1];
        }
        v->at[k] = x;
    }
}

static void put_reason(Report *r, const Reason *x, int64_t n_all)
{
    static const char bar[] = "########################################";
    double share = n_all > 0 ? (double)x->n / (double)n_all : 0;
    cell_add(r, "%s", x->of);
    cell_add(r, "%s", x->status);
    cell_add(r, "%s", x->text);
    cell_add_int(r, x->n);
    cell_add_number(r, 100 * share, "%.1f");
    cell_add(r, "%.*s", (int)ceil(share * (double)(sizeof bar - 1)), bar);
    cell_add(r, "%s", x->example);
    cell_add(r, "%s", x->schedule);
    cell_add(r, "%s", x->said);
}

#define CHOSEN(t)                                               \
    "?1 IN (" t ".run, -9223372036854775807 - 1) AND ?2 IN (" t \
    ".task, -9223372036854775807 - 1)"

static int64_t number(Report *r, const char *sql)
{
    int64_t n = 0;
    DbSql *q = QUERY(r, sql, r->run, r->task);
    while (db_sql_next(q)) {
        n = db_sql_cell(q, 0).i;
    }
    return n;
}

void report_failures(Report *r)
{
    Reasons v = {0};
    int64_t n_trials = number(r, "SELECT count(*) FROM trial t WHERE " CHOSEN("t"));
    int64_t n_processes =
        number(r, "SELECT count(*) FROM process p JOIN duel d ON d.run = p.run "
                  "AND d.idx = p.duel WHERE " CHOSEN("d"));
    count_failures(r, &v, "candidate",
                   "SELECT t.status, t.why, 'run ' || t.run || ', trial ' || t.idx, t.schedule "
                   "FROM trial t JOIN run r ON r.id = t.run WHERE t.status <> 'ok' "
                   "AND " CHOSEN("t") " ORDER BY r.started_ns, t.run, t.idx");
    count_failures(
        r, &v, "process",
        "SELECT p.status, p.why, 'run ' || p.run || ', duel ' || p.duel || ', process ' "
        "|| p.idx, d.b_schedule FROM process p JOIN duel d ON d.run = p.run AND d.idx = "
        "p.duel WHERE p.status <> 'ok' AND " CHOSEN("d") " ORDER BY p.run, p.duel, "
                                                         "p.idx");
    sort_by_count(&v);
    report_sheet(r, &sheet_failures);
    for (int i = 0; i < v.n; i++) {
        put_reason(r, &v.at[i], strcmp(v.at[i].of, "process") ? n_trials : n_processes);
    }
    if (v.n == 0 && report_has_runs(r)) {
        report_say(r, "None of %lld candidates failed, and none of %lld processes.",
                   (long long)n_trials, (long long)n_processes);
    }
}
