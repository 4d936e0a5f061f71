/* report_runs.c - what reports say of runs, of the machines and the noise that they met, of budgets and of builds, in
 * a database in which everything happened. */
#include "tests/db_fixture.h"
#include "tests/report_util.h"

#include <string.h>

static Scene scene;

static void begin(void)
{
    start();
    scene = scene_make(&env, path);
}

TestSuite(report_runs, .init = begin, .fini = stop, .timeout = 120);

Test(report_runs, a_duel_without_a_process_is_no_noise)
{
    const char *rival = arena_printf(&env.model, "%d", scene.rival);
    set_sql(path,
            arena_printf(&env.model,
                         "DELETE FROM pair WHERE run = 1001 AND duel = %s; DELETE FROM "
                         "process WHERE run = 1001 AND duel = %s; UPDATE duel SET n = 0, "
                         "wins = 0, losses = 0, ln_e_max = 0, p_anytime = 1, ratio = NULL, "
                         "ratio_lo = NULL, ratio_hi = NULL, verdict = 'UNDECIDED', reason "
                         "= 'none' WHERE run = 1001 AND idx = %s",
                         rival, rival, rival));
    line_has(line_with(&env, REPORT(&env, path, "evidence"), "OpenBLAS"),
             "not measured: no time was left");
}

Test(report_runs, cases_an_exhausted_space_is_an_ending)
{
    set_sql(path,
            "UPDATE run_task SET ending = 'exhausted', why = 'all 8 candidates were "
            "tried' WHERE run = 3003; UPDATE run SET ending = 'exhausted' WHERE id = 3003");
    line_has(line_with(&env, REPORT(&env, path, "task", "norm"), "3003"), "exhausted");
    line_has(line_with(&env, REPORT(&env, path, "task", "norm"), "3003"),
             "all 8 candidates were tried");
    line_has(line_with(&env, REPORT(&env, path, "runs"), "3003"), "exhausted");
    line_has(line_with(&env, REPORT(&env, path, "summary"), "norm 64"), "default kept");
}

/* Affinity, quota and cpuset in force, and what took the CPU away. */
Test(report_runs, cases_what_bound_a_run_and_disturbed_it_is_told)
{
    set_sql(path,
            "UPDATE run SET cpus = '2,8-9', n_cpuset = 4 WHERE id = 1001; UPDATE machine "
            "SET cpu_quota = 1.5, bound_by = 'quota'; UPDATE process SET utime_ns = "
            "1000000, stime_ns = 0, max_rss_bytes = 3145728, steal_jiffies = 2, throttled "
            "= 1, cpu_mhz = 2400 + idx, temperature = 50 + idx WHERE run = 1001 AND duel = "
            "0; UPDATE pair SET flags = 64 WHERE run = 1001 AND duel = 0 AND process = 3; "
            "UPDATE pair SET flags = 8 WHERE run = 1001 AND duel = 0 AND process = 4 AND "
            "idx < 2");
    Ran r = REPORT(&env, path, "machine");
    shows(r, "its quota was 1.5; bound by quota.");
    const char *line = line_with(&env, r, "1001  2026");
    line_has(line, "2,8-9       4   1.50");
    line_has(line, "8 ms       3  0.25  2400 to 2407     57.0");
    line_has(line, "    2          9");
    shows(REPORT(&env, path, "machine", "--format", "csv"), ",16,9,8");
    line_has(line_with(&env, REPORT(&env, path, "evidence", "1001", "0"), "2403"),
             "3.0                                         2          1   0.25");
}

Test(report_runs, how_a_budget_was_dealt_out_is_told_where_there_are_several_tasks)
{
    Ran r = REPORT(&env, path, "runs");
    cr_expect(!strstr(r.out, "headroom"), "%s", r.out);
    set_sql(path,
            "INSERT INTO run_task SELECT 1001, task, 1, ended_ns, ending, why, label, space, "
            "flops, read_bytes, write_bytes, share, default_schedule, default_c_hash, "
            "default_rank, ring_bytes, huge_pages FROM run_task WHERE run = 3003");
    set_sql(path, arena_printf(
                      &env.model,
                      "INSERT INTO slice VALUES (1001, 0, %lld, 0, 2000000000, 0.6, 0.5, "
                      "0.9, 1000000000), (1001, 1, %lld, 0, 1000000000, 0.4, 0.3, 0.8, "
                      "500000000), (1001, 2, %lld, 0, 3000000000, 0.6, 0.25, 0.1, "
                      "1000000000)",
                      (long long)scene.matmul, (long long)scene.norm, (long long)scene.matmul));
    r = REPORT(&env, path, "runs");
    line_has(line_with(&env, r, "  60.0"), "2    5 s   60.0      25.0    10.0");
    line_has(line_with(&env, r, "  40.0"), "1    1 s   40.0      30.0    80.0");
}

Test(report_runs, what_ran_where_is_told)
{
    line_has(line_with(&env, REPORT(&env, path, "runs"), "2002  "), "2026-01-02 00:00:00Z");
    shows(REPORT(&env, path, "machine"),
          "its affinity allowed 2, no quota was in force; bound by affinity.");
    line_has(line_with(&env, REPORT(&env, path, "machine"), "l2_bytes"),
             "1048576                    hard");
    line_has(line_with(&env, REPORT(&env, path, "noise"), "1001"),
             "equal   0.0148  0.0125     0.00    2.96  wall");
    line_has(line_with(&env, REPORT(&env, path, "misses"), "layer 0 up"),
             "miss     sizes  the nearest row serves s0=33..128");
}

Test(report_runs, builds_are_listed_opened_and_compared)
{
    shows(REPORT(&env, path, "builds"), "tiny-qwen2");
    line_has(line_with(&env, REPORT(&env, path, "builds", "last"), "the nearest row"), "miss");
    shows(
        REPORT(&env, path, "builds", "last", "last"),
        "1 call sites stand at the same place in both, and 1 of them have the same C. A has 0 "
        "more, B 0.");
    Ran r = REPORT(&env, path, "builds", "0");
    cr_expect_eq(r.status, 1);
    cr_expect(strstr(r.out, "has no build '0'; `report builds` lists"), "%s", r.out);
}
