/* report_commands.c - what each report says of a database in which everything happened: numbers as
 * recorded, directions in words, and no claim without its evidence. */
#include "tests/db_fixture.h"
#include "tests/report_util.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static Scene scene;

static void begin(void)
{
    start();
    scene = scene_make(&env, path);
}

TestSuite(report_commands, .init = begin, .fini = stop, .timeout = 120);

/* ---- summary ---- */

Test(report_commands, the_summary_shows_speedup_direction_evidence_and_cost)
{
    const char *line = line_with(&env, REPORT(&env, path, "summary"), "matmul 64x32");
    line_has(line, "1 us  720 ns");
    line_has(line, "1.39x faster (1.38 to 1.40)");
    line_has(line, "real: faster");
    line_has(line, "13/13 processes, 117 pairs, p 0.00085");
    line_has(line, "51% (memory)"); /* 4000 bytes at 11 a ns are 364 ns of 720 */
    line_has(line, "1 of 1");       /* the second run found another winner */
    line_has(line, "split m 6 switch; pack b n.o,k,n.i");
    cr_expect_str_eq(REPORT(&env, path, "--format", "text").out,
                     REPORT(&env, path, "summary").out);
}

Test(report_commands, where_the_default_was_kept_that_is_said_and_no_speedup)
{
    const char *line = line_with(&env, REPORT(&env, path, "summary"), "norm 64");
    line_has(line, "default kept");
    line_has(line, "nothing came near enough for a title match");
    cr_expect(!strstr(line, "faster (") && !strstr(line, "%"), "%s", line);
    set_sql(path, "DELETE FROM winner_range; DELETE FROM winner; UPDATE run_task SET ending = "
                  "'budget'; UPDATE duel SET verdict = 'UNDECIDED' "
                  "WHERE stage = 'title'");
    line = line_with(&env, REPORT(&env, path, "summary"), "matmul");
    line_has(line, "default kept; champion 1.25x faster (1.24 to 1.26)");
    line_has(line, "not shown: it may be noise");
    line_has(line, "36% (memory)"); /* of the default */
}

Test(report_commands, a_run_that_was_killed_counts_as_no_answer)
{
    set_sql(path, "UPDATE run_task SET ending = NULL, ended_ns = NULL WHERE run = 3003");
    line_has(line_with(&env, REPORT(&env, path, "--format", "text"), "norm 64"),
             "not known: it runs, or was killed");
    set_sql(path, "UPDATE run_task SET ending = 'interrupted' WHERE run = 3003");
    line_has(line_with(&env, REPORT(&env, path, "--format", "text"), "norm 64"),
             "not known: it ended as interrupted");
}

Test(report_commands, tasks_that_had_no_turn_are_counted_and_not_listed)
{
    set_sql(path, arena_printf(&env.model,
                               "INSERT INTO task SELECT 77, kernel, 3, regime, sizes FROM task "
                               "WHERE id = %lld; INSERT INTO run_task (run, task, idx, label, "
                               "space, default_schedule) SELECT 1001, 77, 1, 'idle', space, '' "
                               "FROM run_task WHERE run = 1001",
                               (long long)scene.norm));
    Ran r = REPORT(&env, path, "summary");
    cr_expect(!strstr(r.out, "idle"), "%s", r.out);
    shows(r, "1 more task had no turn");
    line_has(line_with(&env, REPORT(&env, path, "summary", "--format", "csv"), "idle"),
             "not known: it had no turn");
}

Test(report_commands, without_probes_or_with_flipped_ones_no_roofline_is_quoted)
{
    set_sql(path, "UPDATE process SET flipped = 1");
    cr_expect(!strstr(line_with(&env, REPORT(&env, path, "--format", "text"), "matmul"), "%"));
    set_sql(path, "UPDATE process SET flipped = 0, read_before = NULL, flops_before = NULL");
    cr_expect(!strstr(line_with(&env, REPORT(&env, path, "--format", "text"), "matmul"), "%"));
}

/* ---- one task, trials, failures ---- */

Test(report_commands, a_task_is_found_by_label_id_or_its_beginning_and_shown_in_full)
{
    const char *id = arena_printf(&env.model, "%lld", (long long)scene.matmul);
    Ran r = REPORT(&env, path, "task", "matmul");
    shows(r, "out f32[s0, 32]");
    shows(
        r,
        "Run 1001: 1.39x faster than the default (ratio 0.72, interval 0.7128 to 0.7272, 13/13 "
        "processes, 117 pairs, p_anytime 0.00085, FASTER; default 1 us, winner 720 ns a call; "
        "least seen 1 us and 713 ns; by wall time)");
    shows(r, "Run 2002: 1.25x faster");
    line_has(line_with(&env, r, "1001  wrong"), "failed        2");
    cr_expect_str_eq(REPORT(&env, path, "task", id).out, r.out);
    cr_expect_str_eq(REPORT(&env, path, "task", arena_strn(&env.model, id, 9)).out, r.out);
}

Test(report_commands, a_claim_from_a_noisy_machine_carries_a_warning)
{
    set_sql(path, "UPDATE calibration SET noisy = 1");
    shows(REPORT(&env, path, "task", "matmul"), "; by wall time; the machine was NOISY)");
    set_sql(path, "INSERT INTO run_constant VALUES (1001, 'confidence', 0.95)");
    shows(REPORT(&env, path, "summary"), "Intervals hold with a probability of 95%, whenever");
}

Test(report_commands, trials_tell_ratios_to_the_incumbent_and_along_the_chain)
{
    Ran r = REPORT(&env, path, "trials", "--run", "1001");
    const char *line = line_with(&env, r, "split m 6 switch; pack");
    line_has(line, "promoted  1.11x faster       1.39x faster"); /* 0.8 x 0.9 */
    line_has(line_with(&env, r, "split m 6 switch\n"), "1.040x slower      1.20x faster");
    line_has(line_with(&env, r, "cc-error"), "the C compiler said: register spill");
    cr_expect(!strstr(r.out, "norm 64"), "another run's trials: %s", r.out);
}

Test(report_commands, failures_are_counted_by_reason_each_with_an_example)
{
    Ran r = REPORT(&env, path, "failures");
    const char *line = line_with(&env, r, "element # is # instead of #");
    line_has(line, "    2   25.0  ##########");
    line_has(line, "run 1001, trial 0");
    line_has(line, "element 3 is 0.5 instead of 0.25");
    line_has(line_with(&env, r, "cc-error"), "    1   12.5");
    shows(REPORT(&env, path, "failures", "--task", "norm"),
          "None of 1 candidates failed, and none of 1 processes.");
}

/* ---- evidence ---- */

Test(report_commands, evidence_is_counted_again_and_agrees)
{
    Ran r = REPORT(&env, path, "evidence");
    line_has(line_with(&env, r, "title"), "the pairs agree");
    shows(r, "4 duels counted again from their raw pairs: all say what is stored.");
    r = REPORT(&env, path, "evidence", "1001");
    shows(r, "9 duels counted again from their raw pairs: all say what is stored.");
}

Test(report_commands, a_changed_pair_is_seen_in_every_report_that_stands_on_it)
{
    set_sql(path,
            "UPDATE pair SET b_ns = 3 * a_ns WHERE run = 1001 AND duel = 4 AND process = 5");
    Ran r = REPORT(&env, path, "evidence");
    shows(r, "NOT PROVED: its pairs say something else");
    shows(r, "THE PAIRS SAY SOMETHING ELSE");
    shows(r, "1 do NOT say what is stored");
    line_has(line_with(&env, REPORT(&env, path, "task", "matmul"), "Run 1001"), "NOT PROVED");
    line_has(line_with(&env, REPORT(&env, path, "--format", "text"), "matmul"),
             "12/13 processes, 117 pairs, p 0.011 (NOT as stored)");
}

Test(report_commands, verify_names_a_calibration_that_its_pairs_do_not_bear)
{
    is_sound(&env, path);
    set_sql(path, "UPDATE calibration SET margin_e4 = 100 WHERE run = 1001");
    Ran r = SCHEDB(&env, "verify", "--db", path);
    cr_expect_eq(r.status, 1);
    cr_expect(strstr(r.out,
                     "Run 1001, duel 0 (calibrate, copy against default): the calibration "
                     "that stands on it says other than its pairs"),
              "%s", r.out);
}

Test(report_commands, a_claim_that_is_not_its_duels_is_seen)
{
    set_sql(path, "UPDATE winner SET ratio = 0.5 WHERE run = 1001");
    line_has(line_with(&env, REPORT(&env, path, "summary"), "matmul"), "NOT PROVED");
    set_sql(path, "UPDATE winner SET ratio = 0.72 WHERE run = 1001");
    line_has(line_with(&env, REPORT(&env, path, "summary"), "matmul"), "real: faster");
    set_sql(path, "UPDATE duel SET ratio_lo = 0.5 WHERE run = 1001 AND idx = 4");
    line_has(line_with(&env, REPORT(&env, path, "summary"), "matmul"), "NOT PROVED");
}

Test(report_commands, a_duel_is_shown_down_to_its_pairs)
{
    const char *duel = arena_printf(&env.model, "%d", scene.title);
    Ran r = REPORT(&env, path, "evidence", "1001", duel, "--format", "json");
    json_t *all = json_loads(r.out, 0, NULL);
    cr_assert(all, "%s", r.out);
    cr_expect_eq(json_array_size(json_object_get(all, "processes")), 13);
    cr_expect_eq(json_array_size(json_object_get(all, "pairs")), 117);
    json_t *pair = json_array_get(json_object_get(all, "pairs"), 116);
    double a = json_number_value(json_object_get(pair, "a_ns")),
           b = json_number_value(json_object_get(pair, "b_ns"));
    cr_expect_float_eq(b / a, 0.72, 0.01);
    cr_expect_float_eq(json_number_value(json_object_get(pair, "ratio")), b / a, 1e-15);
    json_decref(all);
}

Test(report_commands, cases_every_format_for_machines_has_all_raw_samples)
{
    const char *duel = arena_printf(&env.model, "%d", scene.title);
    Ran r = REPORT(&env, path, "evidence", "1001", duel, "--format", "csv");
    const char *at = strstr(r.out, "process,pair,first,a_ns,b_ns,a_cpu_ns,b_cpu_ns,ratio,cpu");
    cr_assert(at, "%s", r.out);
    int n = -1; /* its heading */
    for (; *at && *at != '\r' && *at != '\n'; at = strchr(at, '\n') + 1) {
        n++;
    }
    cr_expect_eq(n, 117);
}

Test(report_commands, a_search_duel_claims_nothing)
{
    Ran r = REPORT(&env, path, "evidence", "1001");
    line_has(line_with(&env, r, "calibrate"), "nothing is tested");
    line_has(line_with(&env, r, "search"), "no claim: one process");
}

/* The wins and the pairs that counted, of a duel of the first run. */
static const char *counted(const char *duel)
{
    Ran r = REPORT(&env, path, "evidence", "1001", duel, "--format", "json");
    json_t *root = json_loads(r.out, 0, NULL);
    const json_t *row = json_array_get(json_object_get(root, "evidence"), 0);
    cr_assert(row, "%s", r.out);
    const char *text = arena_printf(&env.model, "%lld of %lld",
                                    json_integer_value(json_object_get(row, "wins")),
                                    json_integer_value(json_object_get(row, "n")));
    json_decref(root);
    return text;
}

Test(report_commands, of_a_replicate_all_pairs_count)
{
    set_sql(path,
            "UPDATE pair SET b_ns = 2 * a_ns WHERE run = 1001 AND duel IN (SELECT idx FROM "
            "duel WHERE stage = 'replicate')");
    Ran r = SCHEDB(&env, "sql", "--db", path, "--format", "csv",
                   "SELECT min(idx) FROM duel WHERE run = 1001 AND stage = 'replicate'");
    const char *at = strchr(r.out, '\n') + 1;
    const char *counts = counted(arena_strn(&env.model, at, strspn(at, "0123456789")));
    cr_expect_str_eq(counts, "0 of 9", "%s", counts);
}

/* Of the first 63 pairs 32 are disturbed, which is more than half; of the first 64 it is not. Three in five of the
 * others are won, so the race goes on. */
Test(report_commands, a_window_of_64_pairs_is_64_pairs)
{
    set_sql(
        path,
        "INSERT INTO run_constant (run, name, value) VALUES (1001, 'noisy_window', 64); "
        "UPDATE duel SET n_max = 200 WHERE run = 1001 AND idx = 1; "
        "DELETE FROM pair WHERE run = 1001 AND duel = 1; "
        "WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM c WHERE i < 69) "
        "INSERT INTO pair SELECT 1001, 1, 0, i, 0, 10000, iif(i % 5 < 3, 5000, 20000), 0, 0, "
        "0, i < 32 OR i = 66 FROM c");
    cr_expect_str_eq(counted("1"), "21 of 37", "%s", counted("1"));
}

/* ---- rivals, knobs, convergence, compare ---- */

Test(report_commands, rivals_are_told_from_our_side_whichever_side_we_stood_on)
{
    Ran r = REPORT(&env, path, "rivals");
    const char *line = line_with(&env, r, "OpenBLAS");
    line_has(line, "1.25x faster (1.24 to 1.26)  real: faster  13/13 processes");
    shows(r, "Of 1 duel ours won 1, the rival 0, and 0 show no difference.");
    set_sql(
        path,
        "UPDATE duel SET a_name = 'champion', b_name = 'OpenBLAS', a_schedule = b_schedule, "
        "b_schedule = NULL WHERE a_name = 'OpenBLAS'");
    line_has(line_with(&env, REPORT(&env, path, "rivals"), "OpenBLAS"),
             "1.25x slower (1.24 to 1.26)  real: slower  0/13 processes");
}

Test(report_commands, knobs_show_what_they_explain_and_what_taking_them_out_costs)
{
    Ran r = REPORT(&env, path, "knobs");
    line_has(line_with(&env, r, "rows of the register tile"), "tile");
    line_has(line_with(&env, r, "without pack"), "1.15x slower (1.14 to 1.16)  real: slower");
    line_has(line_with(&env, r, "without pack"), "0/13 processes, 117 pairs, p 0.00085");
}

Test(report_commands, a_knob_that_decides_explains_nearly_all)
{
    /* Candidates' times depend on pack alone: 1.04 without, 0.8 with. */
    set_sql(path, "UPDATE duel SET ratio = 1.04 WHERE trial IS NOT NULL AND b_schedule NOT "
                  "LIKE '%pack%'");
    set_sql(path,
            "UPDATE duel SET ratio = 0.8 WHERE trial IS NOT NULL AND b_schedule LIKE '%pack%'");
    set_sql(path, "UPDATE trial SET incumbent = NULL");
    Ran r = REPORT(&env, path, "knobs", "--task", "matmul");
    line_has(line_with(&env, r, "panels or not"), "pack       100");
    line_has(line_with(&env, r, "panels or not"),
             "panels       1.25x faster  none          1.040x slower");
}

Test(report_commands, convergence_follows_the_incumbent)
{
    Ran r = REPORT(&env, path, "convergence", "--run", "1001");
    line_has(line_with(&env, r, "split m 4 switch; pack"), "4  184 ms  promoted  1.25x faster");
    line_has(line_with(&env, r, "split m 6 switch; pack"), "6  276 ms  promoted  1.39x faster");
    shows(REPORT(&env, path, "convergence", "--format", "csv", "--run", "1001"),
          "1001,matmul 64x32,greedy,1,46001000,wrong,1,,split m 2 switch");
}

Test(report_commands, runs_are_compared_without_a_claim_unless_they_met)
{
    Ran r = REPORT(&env, path, "compare", "1001", "2002");
    shows(r, "never met in pairs");
    cr_expect(!strstr(r.out, "real:"), "%s", r.out);
    set_sql(path, "UPDATE winner SET schedule = 'split m 6 switch' WHERE run = 2002");
    shows(REPORT(&env, path, "compare", "1001", "2002"),
          "B is 1.15x slower: real: slower (run 1001, duel 6)");
}

Test(report_commands, schedules_and_databases_are_compared_too)
{
    shows(REPORT(&env, path, "compare", "split n 16 pad", "split m 6 switch; pack b n.o,k,n.i"),
          "1.39x faster (1.38 to 1.40)");
    shows(REPORT(&env, path, "compare", "default", "champion"), "1.39x faster (1.38 to 1.40)");
    shows(REPORT(&env, path, "compare", "no such", "schedules"), "never met in pairs here");
    const char *other = arena_str(&env.model, temp_path(&dir, "other.db"));
    scene_make(&env, other);
    set_sql(other, "DELETE FROM winner_range; DELETE FROM winner");
    Ran r = REPORT(&env, path, "compare", path, other);
    line_has(line_with(&env, r, "matmul"), "1.39x faster (1.38 to 1.40)  default kept");
    line_has(line_with(&env, r, "norm"), "no: the same code");
    cr_expect(!strstr(r.out, "different kinds of machine"), "%s", r.out);
    /* A duel that only the second has is found there; and a machine that only it has is told. */
    set_sql(other,
            "UPDATE run_task SET default_schedule = 'split m 6 switch', default_c_hash = NULL; "
            "UPDATE machine SET hard = '00000000000000000000000000000000'");
    r = REPORT(&env, path, "compare", path, other);
    line_has(line_with(&env, r, "matmul"),
             "B is 1.15x slower: real: slower (run 1001, duel 6)");
    shows(r, "different kinds of machine");
    r = REPORT(&env, path, "compare", path, "Makefile");
    cr_expect_eq(r.status, 1);
    cr_expect(strstr(r.out, "Makefile is no schedule database"), "%s", r.out);
}

/* A file that has one word's name is no second database. */
Test(report_commands, a_schedule_may_be_called_like_a_file)
{
    setenv("NANOCOMPILE_DB", path, 1);
    shows(RUN(&env, "report", "compare", "Makefile", "no such"), "never met in pairs here");
}
