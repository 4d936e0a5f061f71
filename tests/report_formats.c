/* report_formats.c - every report in every format: numbers for machines with each column documented, units for people,
 * the same bytes again. */
#include "tests/db_fixture.h"
#include "tests/report_util.h"

#include <jansson.h>
#include <string.h>

static void begin(void)
{
    start();
    scene_make(&env, path);
}

TestSuite(report_formats, .init = begin, .fini = stop, .timeout = 120);

/* Every column that any report prints for machines is explained. */
Test(report_formats, every_column_is_documented)
{
    static const char *const command[] = {"summary", "trials", "failures",    "evidence",
                                          "rivals",  "knobs",  "runs",        "machine",
                                          "noise",   "misses", "convergence", "builds"};
    Ran columns = REPORT(&env, path, "columns", "--format", "csv");
    for (size_t i = 0; i < countof(command); i++) {
        json_t *all =
            json_loads(REPORT(&env, path, command[i], "--format", "json").out, 0, NULL);
        const char *table, *column;
        json_t *rows, *value;
        cr_assert(all && json_object_size(all) > 0, "%s", command[i]);
        json_object_foreach (all, table, rows) {
            json_object_foreach (json_array_get(rows, 0), column, value) {
                const char *row = arena_printf(&env.model, "\n%s,%s,", table, column);
                cr_expect(strstr(columns.out, row), "%s: %s of %s", command[i], column, table);
            }
        }
        json_decref(all);
    }
}

Test(report_formats, every_report_prints_every_format)
{
    static const char *const command[] = {
        "summary", "trials", "failures", "evidence", "rivals",      "knobs", "runs",
        "machine", "noise",  "misses",   "columns",  "convergence", "builds"};
    for (size_t i = 0; i < countof(command); i++) {
        shows(REPORT(&env, path, command[i], "--format", "md"), " | ");
        shows(REPORT(&env, path, command[i], "--format", "tex"), "\\end{tabular}");
        shows(REPORT(&env, path, command[i], "--format", "csv"), ",");
        json_t *all =
            json_loads(REPORT(&env, path, command[i], "--format", "json").out, 0, NULL);
        cr_expect(json_is_object(all), "%s", command[i]);
        json_decref(all);
    }
}

Test(report_formats, machines_get_numbers_and_people_get_units)
{
    json_t *all = json_loads(REPORT(&env, path, "--format", "json").out, 0, NULL);
    json_t *row = json_array_get(json_object_get(all, "summary"), 0);
    cr_expect_float_eq(json_number_value(json_object_get(row, "ratio")), 0.72, 1e-15);
    cr_expect_float_eq(json_number_value(json_object_get(row, "default_ns")), 1000, 1e-9);
    cr_expect_eq(json_integer_value(json_object_get(row, "pairs")), 117);
    cr_expect_str_eq(json_string_value(json_object_get(row, "answer")), "winner");
    row = json_array_get(json_object_get(all, "summary"), 1);
    cr_expect(json_is_null(json_object_get(row, "ratio")));
    cr_expect_str_eq(json_string_value(json_object_get(row, "answer")), "default-kept");
    json_decref(all);
}

Test(report_formats, the_same_database_gives_the_same_bytes)
{
    cr_expect_str_eq(REPORT(&env, path, "--format", "text").out,
                     REPORT(&env, path, "--format", "text").out);
    cr_expect_str_eq(REPORT(&env, path, "knobs").out, REPORT(&env, path, "knobs").out);
}
