/* report_errors.c - an empty database, unknown names, files that cannot be read, wrong words: one clear
 * sentence each, and never an empty report in place of an unreadable database. */
#include "tests/db_fixture.h"
#include "tests/report_util.h"

#include <string.h>
#include <unistd.h>

TestSuite(report_errors, .init = start, .fini = stop, .timeout = 120);

Test(report_errors, an_empty_database_is_said_to_be_empty)
{
    static const char *const command[] = {"summary", "trials",     "failures", "evidence",
                                          "rivals",  "knobs",      "runs",     "machine",
                                          "noise",   "convergence"};
    db_close(open_db(&env, path, DB_WRITE));
    for (size_t i = 0; i < countof(command); i++) {
        shows(REPORT(&env, path, command[i]), "holds no run yet: `tune` records them.");
        shows(REPORT(&env, path, command[i], "--format", "json"), "[\n]}\n");
    }
    shows(REPORT(&env, path, "misses"), "No build is recorded");
}

Test(report_errors, what_is_not_there_is_named)
{
    scene_make(&env, path);
    refused(REPORT(&env, path, "task", "conv"), 1,
            "has no task 'conv'; `report` lists what it has");
    refused(REPORT(&env, path, "task", "64"), 1, "2 tasks of");
    refused(REPORT(&env, path, "trials", "--run", "77"), 1,
            "has no run '77'; `report runs` lists");
    refused(REPORT(&env, path, "evidence", "1001", "99"), 1, "has no duel 99");
    refused(REPORT(&env, path, "evidence", "1001", "x"), 1, "whole number from 0, not 'x'");
    refused(REPORT(&env, path, "compare", "1001", "4"), 1, "has no run '4'");
    shows(REPORT(&env, path, "trials", "--run", "last"), "norm 64");
}

Test(report_errors, a_file_that_is_no_database_is_never_an_empty_report)
{
    refused(REPORT(&env, path, "summary"), 1, "There is no schedule database");
    write_text(path,
               "this is a letter, and it is longer than a header of SQLite would be: a hundred "
               "bytes at the least, that is.\n");
    refused(REPORT(&env, path, "summary"), 1, "is no schedule database (not made by SQLite)");
    write_text(path, "");
    refused(REPORT(&env, path, "summary"), 1, "is empty");
    refused(REPORT(&env, dir.path, "summary"), 1, "is a folder, not a schedule database");
}

Test(report_errors, rows_that_make_no_sense_are_told_of_and_break_nothing)
{
    static const char *const command[] = {"summary",     "trials", "evidence", "knobs",
                                          "convergence", "rivals", "runs",     "noise"};
    scene_make(&env, path);
    set_sql(path, "INSERT INTO run_constant VALUES (1001, 'noisy_window', -1e300), (1001, "
                  "'unflagged_least', 1e300), (2002, 'noisy_window', 1e300)");
    set_sql(path,
            "UPDATE duel SET n_max = -5, margin_e4 = 123456789, ratio = -1, a_ns = 1e308");
    set_sql(path, "UPDATE process SET reps = 0, read_before = -1, flops_before = 1e308");
    set_sql(path, "UPDATE run SET started_ns = 9223372036854775807, ended_ns = -1");
    set_sql(path, "UPDATE trial SET incumbent = idx, build_ns = 9223372036854775807");
    for (size_t i = 0; i < countof(command); i++) {
        cr_expect_eq(REPORT(&env, path, command[i]).status, 0, "%s", command[i]);
        cr_expect_eq(REPORT(&env, path, command[i], "--format", "json").status, 0, "%s",
                     command[i]);
    }
    shows(REPORT(&env, path, "evidence"), "NOT PROVED");
    const char *folder = arena_str(&env.model, temp_path(&dir, "page"));
    shows(REPORT(&env, path, "html", "-o", folder), "holds all of it");
}

Test(report_errors, wrong_words_are_usage_errors)
{
    refused(REPORT(&env, path, "sumary"), 2, "there is no command 'sumary'");
    refused(REPORT(&env, path, "task"), 2, "say task TASK");
    refused(REPORT(&env, path, "runs", "x"), 2, "'x' is one word too many");
    refused(REPORT(&env, path, "--format", "xml"), 2, "not 'xml'");
}

Test(report_errors, help_lists_every_command)
{
    Ran r = REPORT(&env, path, "--help");
    shows(r, "  evidence    [RUN [DUEL]]   the pairs behind claims");
    shows(r, "Exit status: 0 success");
}

Test(report_errors, nothing_is_left_beside_the_database)
{
    scene_make(&env, path);
    int n = folder_entries(dir.path);
    shows(REPORT(&env, path, "summary"), "matmul");
    cr_expect_eq(folder_entries(dir.path), n);
}
