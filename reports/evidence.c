/* evidence.c - the pairs behind a claim: every title match that a winner stands on, or one duel down
 * to its raw pairs, counted once more by tuner/stat.h beside what is stored. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* A row: a duel: who, how often, what it proves. */
const Sheet sheet_evidence = {
    "evidence",
    {{"run", 0, "its run"},
     {"duel", NUMBER, "its number within the run"},
     {"kernel", 0, "label of the task"},
     {"stage", 0, "calibrate, search, replicate, title, equivalence, compare"},
     {"b", 0, "the challenger: the ratio's upper term"},
     {"a", 0, "the incumbent"},
     {"result", PEOPLE, "b against a, with the interval"},
     {"ratio", NUMBER | MACHINE, "time of b by that of a: below 1 where b is faster"},
     {"ratio_lo", NUMBER | MACHINE, "lower end of its interval"},
     {"ratio_hi", NUMBER | MACHINE, "upper end of its interval"},
     {"real", 0, "is the difference real?"},
     {"verdict", MACHINE, "as stored"},
     {"reason", 0, "why the duel ended"},
     {"won", PEOPLE, "by b, of those that counted, recomputed from the pairs"},
     {"wins", NUMBER | MACHINE,
      "by b: of processes in a match, of pairs in a search; recomputed"},
     {"n", NUMBER | MACHINE,
      "that counted: processes in a match, pairs in a search; recomputed"},
     {"pairs", NUMBER, "pairs that counted"},
     {"ln_e", NUMBER, "largest ln of the e-value on the way, recomputed"},
     {"p", NUMBER, "anytime-valid chance of that were b no faster, recomputed"},
     {"p_other", NUMBER, "anytime-valid chance of a's wins were a no faster, recomputed"},
     {"stored_wins", NUMBER | MACHINE, "as stored"},
     {"stored_n", NUMBER | MACHINE, "as stored"},
     {"stored_ln_e", NUMBER | MACHINE, "as stored"},
     {"check", 0, "do the pairs say what is stored?"},
     {"margin", NUMBER, "that a win must be faster by, in percent"},
     {"metric", 0, "what decides: wall, cpu"},
     {"a_ns", NUMBER | MACHINE, "median of one call of a"},
     {"b_ns", NUMBER | MACHINE, "median of one call of b"},
     {"noisy", 0, "yes: disturbed pairs counted, there were too many"}}};

/* A row: one sample of each, back to back, in random order: the raw data. */
const Sheet sheet_pairs = {
    "pairs",
    {{"process", NUMBER, "of the duel"},
     {"pair", NUMBER, "its number within the process"},
     {"first", 0, "which of the two ran first, as a coin fell"},
     {"a_ns", NUMBER, "wall time of all calls of the sample of a"},
     {"b_ns", NUMBER, "wall time of all calls of the sample of b"},
     {"a_cpu_ns", NUMBER | MACHINE, "CPU time likewise; 0: not asked for"},
     {"b_cpu_ns", NUMBER | MACHINE, "CPU time likewise; 0: not asked for"},
     {"result", PEOPLE, "b against a"},
     {"ratio", NUMBER | MACHINE, "time of b by that of a"},
     {"cpu", NUMBER, "it ran on last"},
     {"flags", NUMBER | MACHINE, "bits as db/schema.sql lists them"},
     {"disturbed by", PEOPLE, "what happened meanwhile"}}};

/* ---- one duel as a row ---- */

static void put_claim(Report *r, const Recount *c)
{
    const DbDuel *d = &c->duel;
    cell_add_interval(r, d->ratio, d->ratio_lo, d->ratio_hi);
    cell_add(r, "%s",
             !c->agrees            ? "NOT PROVED: its pairs say something else"
             : c->n_processes == 0 ? "not measured: no time was left"
                                   : verdict_words(d->verdict, d->stage));
    cell_add(r, "%s", d->verdict);
    cell_add(r, "%s", d->reason);
    cell_add(r, "%lld/%lld %s", (long long)c->wins, (long long)c->n,
             duel_is_match(d) ? "processes" : "pairs");
    cell_add_int(r, c->wins);
    cell_add_int(r, c->n);
}

void evidence_row(Report *r, const char *label, const Recount *c)
{
    const DbDuel *d = &c->duel;
    cell_add_id(r, d->run);
    cell_add_int(r, d->idx);
    cell_add(r, "%s", label);
    cell_add(r, "%s", d->stage);
    cell_add(r, "%s", d->b_name);
    cell_add(r, "%s", d->a_name);
    put_claim(r, c);
    cell_add_int(r, c->n_pairs);
    cell_add_number(r, c->ln_e_max, "%.3f");
    cell_add_number(r, c->p, "%.2g");
    cell_add_number(r, c->p_other, "%.2g");
    cell_add_int(r, d->wins);
    cell_add_int(r, d->n);
    cell_add_number(r, d->ln_e_max, "%.3f");
    cell_add(r, "%s",
             !c->tested  ? "nothing is tested"
             : c->agrees ? "the pairs agree"
                         : "THE PAIRS SAY SOMETHING ELSE");
    cell_add_number(r, (double)d->margin_e4 / 100, "%.2f");
    cell_add(r, "%s", d->metric);
    cell_add_number(r, d->a_ns, "%.1f");
    cell_add_number(r, d->b_ns, "%.1f");
    cell_add(r, "%s", d->noisy ? "yes" : "no");
}

const char *report_label(Report *r, int64_t run, int64_t task)
{
    DbRunTask rt;
    bool ok = DB_ONE(r->db, RUN_TASK, r->a, &rt, run, task);
    return ok && rt.label ? rt.label : report_task_name(r, task);
}

/* ---- one duel in full ---- */

static const char *flag_words(Report *r, int64_t flags)
{
    static const char *const word[] = {
        "switched out", "page fault",      "moved to another CPU", "steal time",
        "it waited",    "the clock stood", "held back by a quota"};
    Buf b;
    buf_init(&b, r->a);
    for (size_t i = 0; i < countof(word); i++) {
        if (flags >> i & 1) {
            buf_printf(&b, "%s%s", b.len ? ", " : "", word[i]);
        }
    }
    return b.at;
}

static void put_pair(Report *r, const DbPair *p)
{
    double ratio = p->a_ns > 0 ? (double)p->b_ns / (double)p->a_ns : NAN;
    cell_add_int(r, p->process);
    cell_add_int(r, p->idx);
    cell_add(r, "%s", p->b_first ? "b" : "a");
    cell_add_int(r, p->a_ns);
    cell_add_int(r, p->b_ns);
    cell_add_int(r, p->a_cpu_ns);
    cell_add_int(r, p->b_cpu_ns);
    cell_add(r, "%s", ratio_text(r->a, ratio));
    cell_add_number(r, ratio, "%.4f");
    cell_add_int(r, p->cpu);
    cell_add_int(r, p->flags);
    cell_add(r, "%s", flag_words(r, p->flags));
}

/* How often pairs had which ratio: bars of equal width between the 1st and 99th percentile. */
void evidence_plot(Report *r, const Recount *c, const char *title)
{
    enum { N_BARS = 40 };
    int n = 0;
    double *x = arena_array(r->a, double, 1), *at = arena_array(r->a, double, N_BARS),
           *height = arena_array(r->a, double, N_BARS);
    for (int pass = 0; pass < 2; pass++) {
        x = pass ? arena_array(r->a, double, n + 1) : x;
        n = 0;
        for (int i = 0; i < c->n_processes; i++) {
            for (int k = 0; k < c->process[i].process.n_pairs; k++) {
                const DbPair *p = &c->process[i].pair[k];
                if (p->a_ns > 0 && p->b_ns > 0 && pass) {
                    x[n] = (double)p->b_ns / (double)p->a_ns;
                }
                n += p->a_ns > 0 && p->b_ns > 0;
            }
        }
    }
    stat_sort(x, n);
    double lo = fmin(stat_quantile(x, n, 0.01), 1), hi = fmax(stat_quantile(x, n, 0.99), 1);
    double width = fmax((hi - lo) / (N_BARS - 2), 1e-4);
    for (int i = 0; i < N_BARS; i++) {
        at[i] = lo + (i - 0.5) * width;
    }
    for (int i = 0; i < n; i++) {
        int bar = (int)floor((x[i] - lo) / width) + 1;
        height[bar < 0 ? 0 : bar >= N_BARS ? N_BARS - 1 : bar]++;
    }
    Plot p = {.title = title,
              .x_label = "time of b by that of a, pair by pair: left of 1 b is faster",
              .y_label = "pairs",
              .bars = true,
              .bar_width = width,
              .mark_x = 1,
              .line = {{.x = at, .y = height, .n = N_BARS}},
              .n_lines = 1};
    if (n > 0) {
        report_plot(r, &p);
    }
}

static int64_t whole(Report *r, const char *word)
{
    char *end;
    errno = 0;
    long long v = strtoll(word, &end, 10);
    if (*end || end == word || errno || v < 0) {
        fail(r->e, E_INPUT, "A duel is a whole number from 0, not '%s'.", word);
    }
    return v;
}

static void one_duel(Report *r, int64_t run, int64_t duel)
{
    Recount c;
    if (!report_recount(r, run, duel, &c)) {
        fail(r->e, E_INPUT,
             "Run %lld of %s has no duel %lld; `report evidence %lld` lists them.",
             (long long)run, db_path(r->db), (long long)duel, (long long)run);
    }
    report_heading(r, "%s, %s: b = %s against a = %s", report_label(r, run, c.duel.task),
                   c.duel.stage, c.duel.b_name, c.duel.a_name);
    report_say(r, "a: %s", schedule_text(r->a, c.duel.a_schedule));
    report_say(r, "b: %s", schedule_text(r->a, c.duel.b_schedule));
    report_sheet(r, &sheet_evidence);
    evidence_row(r, report_label(r, run, c.duel.task), &c);
    evidence_processes(r, &c);
    evidence_plot(r, &c, "Ratios of all pairs");
    report_sheet(r, &sheet_pairs);
    for (int i = 0; i < c.n_processes; i++) {
        for (int k = 0; k < c.process[i].process.n_pairs; k++) {
            put_pair(r, &c.process[i].pair[k]);
        }
    }
}

/* ---- several ---- */

/* Of a run all duels, else those that winners stand on, and all comparisons that were asked for. */
static void list_duels(Report *r, int64_t run)
{
    int n = 0, n_wrong = 0;
    Recount c;
    report_sheet(r, &sheet_evidence);
    DbSql *q =
        QUERY(r,
              "SELECT d.run, d.idx FROM duel d WHERE (d.run = ?1 OR (?1 = "
              "-9223372036854775807 - 1 AND (d.stage = 'compare' OR EXISTS (SELECT 1 FROM "
              "winner w WHERE w.run = d.run AND w.task = d.task AND w.duel = d.idx)))) AND "
              "?2 IN (d.task, "
              "-9223372036854775807 - 1) ORDER BY d.run, d.idx",
              run, r->task);
    while (db_sql_next(q)) {
        if (report_recount(r, db_sql_cell(q, 0).i, db_sql_cell(q, 1).i, &c)) {
            evidence_row(r, report_label(r, c.duel.run, c.duel.task), &c);
            n_wrong += !c.agrees;
        }
        n++;
    }
    if (n > 0) {
        report_say(r, "%d duel%s counted again from their raw pairs: %s.", n, n == 1 ? "" : "s",
                   n_wrong ? arena_printf(r->a, "%d do NOT say what is stored", n_wrong)
                           : "all say what is stored");
        report_say(r, "`report evidence RUN DUEL` shows the processes and pairs of one.");
    } else if (report_has_runs(r)) {
        report_say(r, "No winner and no comparison is recorded, so there is no claim to show "
                      "evidence for.");
    }
}

void report_evidence(Report *r)
{
    int64_t run = r->n_words > 0 ? report_find_run(r, r->word[0]) : r->run;
    if (r->n_words > 1) {
        one_duel(r, run, whole(r, r->word[1]));
    } else {
        list_duels(r, run);
    }
}
