/* page.c - all reports one after the other: what `report html` puts on its page. */
#include "reports/reports.h"

static const struct {
    const char *heading, *about;
    void (*run)(Report *r);
} sections[] = {
    {"Summary",
     "A line a task. Ratios are medians over fresh processes, each of randomly ordered pairs; "
     "a "
     "winner has won a title match against the default, and p is the chance of such evidence "
     "at "
     "any time were there no difference.",
     report_summary},
    {"Rivals", "Ours against kernels that are not ours.", report_rivals},
    {"Convergence", "How the best so far came about.", report_convergence},
    {"Knobs", "Which choices matter.", report_knobs},
    {"Evidence", "Title matches, counted again from their raw pairs.", report_evidence},
    {"Failures", "Candidates and processes that did not end well, by reason.", report_failures},
    {"Noise", "The default against a copy of its own library.", report_noise},
    {"Runs", "What recorded all this.", report_runs},
    {"Machines", "Where it ran, and what bound the CPUs.", report_machine},
    {"Builds", "What winners save in the models that were built with them.", report_gain},
    {"Builds and misses", "Which call sites got no winner, and why.", report_misses},
};

static void report_tasks(Report *r)
{
    Vec(int64_t) id = {0};
    DbSql *q =
        QUERY(r,
              "SELECT DISTINCT task FROM run_task WHERE ?1 IN (task, -9223372036854775807 "
              "- 1) ORDER BY label, task",
              r->task);
    while (db_sql_next(q)) {
        *vec_push(r->a, &id) = db_sql_cell(q, 0).i;
    }
    for (int i = 0; i < id.n; i++) {
        r->word[0] = arena_printf(r->a, "%lld", (long long)id.at[i]);
        report_task(r);
    }
}

void report_page(Report *r)
{
    for (size_t i = 0; i < countof(sections); i++) {
        report_heading(r, "%s", sections[i].heading);
        report_say(r, "%s", sections[i].about);
        sections[i].run(r);
    }
    report_tasks(r);
    report_heading(r, "Columns");
    report_columns(r);
}
