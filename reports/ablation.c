/* ablation.c - which knobs matter, by pairs: the winner against itself with one knob put back. Such duels
 * are comparisons in which one side is called "without KNOB". */
#include <string.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* A row: the winner against itself with one knob put back, by pairs. */
const Sheet sheet_ablation = {
    "ablation",
    {{"run", 0, "its run"},
     {"duel", NUMBER, "its number within the run"},
     {"task", 0, "label of the task"},
     {"change", 0, "what was changed"},
     {"result", PEOPLE, "the changed schedule against the winner, with the interval"},
     {"ratio", NUMBER | MACHINE, "time of the changed schedule by the winner's"},
     {"ratio_lo", NUMBER | MACHINE, "lower end of its interval"},
     {"ratio_hi", NUMBER | MACHINE, "upper end of its interval"},
     {"real", 0, "is the difference real?"},
     {"evidence", 0, "processes won by the changed schedule, pairs, chance of that by luck"}}};

static void put_change(Report *r, const Recount *c)
{
    const DbDuel *d = &c->duel;
    bool b_is_changed = !strncmp(d->b_name, "without ", 8);
    double ratio = b_is_changed ? d->ratio : 1 / d->ratio;
    double lo = b_is_changed ? d->ratio_lo : 1 / d->ratio_hi,
           hi = b_is_changed ? d->ratio_hi : 1 / d->ratio_lo;
    cell_add_id(r, d->run);
    cell_add_int(r, d->idx);
    cell_add(r, "%s", report_label(r, d->run, d->task));
    cell_add(r, "%s", b_is_changed ? d->b_name : d->a_name);
    cell_add_interval(r, ratio, lo, hi);
    cell_add(r, "%s", verdict_words(verdict_from(d->verdict, b_is_changed), d->stage));
    cell_add(r, "%lld/%lld processes, %d pairs, p %.2g",
             (long long)(b_is_changed ? c->wins : c->losses), (long long)c->n, c->n_pairs,
             d->ratio < 1 ? c->p : c->p_other);
}

int ablation_rows(Report *r)
{
    int n = 0;
    Recount c;
    report_sheet(r, &sheet_ablation);
    DbSql *q =
        QUERY(r,
              "SELECT run, idx FROM duel WHERE stage = 'compare' AND (a_name LIKE 'without "
              "%' OR b_name LIKE 'without %') AND ?1 IN (run, -9223372036854775807 - 1) AND "
              "?2 IN (task, -9223372036854775807 - 1) ORDER BY task, run, idx",
              r->run, r->task);
    while (db_sql_next(q)) {
        if (report_recount(r, db_sql_cell(q, 0).i, db_sql_cell(q, 1).i, &c)) {
            put_change(r, &c);
            n++;
        }
    }
    return n;
}
