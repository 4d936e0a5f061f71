/* columns.c - every column of every table, with its meaning: the sheets themselves, as a table. */
#include "reports/reports.h"

/* A row: a column of a table of this program. */
const Sheet sheet_columns = {"columns",
                             {{"table", 0, "name of the table: of the array in JSON"},
                              {"column", 0, "its heading"},
                              {"for", 0, "people: text, md, tex, html; machines: csv, json"},
                              {"meaning", 0, "what it says"}}};

static const Sheet *const sheets[] = {
    &sheet_summary,    &sheet_task_runs,  &sheet_ties,        &sheet_outcomes,
    &sheet_trials,     &sheet_failures,   &sheet_evidence,    &sheet_processes,
    &sheet_pairs,      &sheet_rivals,     &sheet_convergence, &sheet_knobs,
    &sheet_ablation,   &sheet_compare,    &sheet_runs,        &sheet_machine,
    &sheet_noise,      &sheet_builds,     &sheet_build_sites, &sheet_build_compare,
    &sheet_build_race, &sheet_build_gain, &sheet_misses,      &sheet_columns,
    &sheet_dealt,      &sheet_conditions, &sheet_meanwhile};

void report_columns(Report *r)
{
    report_sheet(r, &sheet_columns);
    for (size_t i = 0; i < countof(sheets); i++) {
        const Column *c = sheets[i]->column;
        for (int k = 0; k < MAX_COLUMNS && c[k].name; k++) {
            cell_add(r, "%s", sheets[i]->name);
            cell_add(r, "%s", c[k].name);
            cell_add(r, "%s",
                     c[k].kind & COLUMN_PEOPLE    ? "people"
                     : c[k].kind & COLUMN_MACHINE ? "machines"
                                                  : "both");
            cell_add(r, "%s", c[k].meaning);
        }
    }
}
