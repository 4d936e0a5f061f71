/* tuner_program.c - the program tune as its user meets it: what it lists and refuses, a short search from end
 * to end whose record is sound, Ctrl-C. No time and no winner is asserted. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/db_fixture.h"
#include "tests/db_util.h"
#include "tuner/tuner.h"

TestSuite(tuner_program, .init = start, .fini = stop, .timeout = 300);

Test(tuner_program, lists_the_kernels_of_the_model)
{
    Ran all = TUNE(&env, "--list"),
        some = TUNE(&env, "--list", "--kernel", "decode matmul.*n=4864");
    has(all, 0, "decode matmul m=1 n=896 k=896");
    has(all, 0, "prefill matmul+epilogue m=64 n=4864 k=896");
    has(some, 0, "decode matmul+epilogue m=1 n=4864 k=896");
    cr_expect_not(strstr(some.out, "prefill"), "%s", some.out);
    has(TUNE(&env, "--shape", "m=5,n=40,k=24", "--dry-run"), 0, "about");
}

Test(tuner_program, refuses_in_one_sentence)
{
    static const struct {
        const char *option, *value, *words;
    } rows[] = {
        {"--kernel", "(", "is no pattern"},
        {"--kernel", "nobody", "No kernel that can be tuned has \"nobody\" in its label"},
    };
    static const struct {
        const char *option, *value, *words;
    } usage[] = {
        {"--shape", "m=0,n=1,k=1", "--shape takes m=M,n=N,k=K"},
        {"--budget", "soon", "is no budget"},
        {"--strategy", "luck", "there is no strategy 'luck'"},
        {"--regime", "warm", "--regime is hot or cold"},
        {"--set", "alpha", "--set takes NAME=VALUE"},
        {"--set", "magic=1", "magic"},
        {"--threads", "0", "--threads takes a number from 1"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        has(TUNE(&env, rows[i].option, rows[i].value, "--list"), 1, rows[i].words);
    }
    for (size_t i = 0; i < countof(usage); i++) {
        has(TUNE(&env, usage[i].option, usage[i].value), 2, usage[i].words);
    }
    has(TUNE(&env, "-q"), 2, "say what to tune");
    has(TUNE(&env, "--shape", "m=5,n=40,k=24", "--db", "/dev/null/x.db", "--budget", "2trials"),
        1, "/dev/null");
}

Test(tuner_program, a_short_search_leaves_a_sound_record)
{
    has(TUNE(&env, "--shape", "m=5,n=40,k=24", "--budget", "4trials", "--threads", "1", "--db",
             path),
        0, "4 candidates in");
    is_sound(&env, path);
    gives(&env, path, "SELECT count(*), count(status) FROM trial", "4,4");
    gives(&env, path, "SELECT ending FROM run", "finished");
    has(TUNE(&env, "--shape", "m=5,n=40,k=24", "--noise", "--threads", "1", "--db", path), 0,
        "a win must be by");
    is_sound(&env, path);
}

Test(tuner_program, a_second_is_too_short_to_confirm_anything)
{
    Ran r = TUNE(&env, "--shape", "m=5,n=40,k=24", "--budget", "1s", "--db", path);
    has(r, 0, "nothing can be confirmed in a budget of");
    has(r, 0, "no candidate was tried");
    gives(&env, path, "SELECT ending FROM run_task", "too-short");
    has(TUNE(&env, "--kernel", "decode matmul", "--budget", "1s", "--dry-run"), 0,
        "nothing can be confirmed in it");
}

/* What a candidate costs is told from constants, and from trials where there are some. */
Test(tuner_program, a_dry_run_is_an_estimate_that_can_be_true)
{
    Ran r = TUNE(&env, "--shape", "m=5,n=40,k=24", "--threads", "1", "--dry-run", "--budget",
                 "10m", "--db", path);
    has(r, 0, "constants");
    const char *row = strstr(r.out, "matmul m=5"), *last = row ? strstr(row, " s ") : NULL;
    cr_assert(last, "%s", r.out);
    int n = atoi(last + 3);
    cr_expect(n > 100 && n < 20000, "%d of them in ten minutes: %s", n, r.out);
    TUNE(&env, "-q", "--shape", "m=5,n=40,k=24", "--threads", "1", "--budget", "2trials",
         "--db", path);
    has(TUNE(&env, "--shape", "m=5,n=40,k=24", "--threads", "1", "--dry-run", "--db", path), 0,
        "its earlier trials");
}

Test(tuner_program, how_operands_lay_is_recorded)
{
    TUNE(&env, "-q", "--shape", "m=1,n=40,k=24", "--threads", "1", "--budget", "1trials",
         "--db", path);
    gives(&env, path, "SELECT ring_bytes FROM run_task", "0");
    TUNE(&env, "-q", "--shape", "m=1,n=40,k=24", "--threads", "1", "--budget", "1trials",
         "--regime", "cold", "--db", path);
    gives(
        &env, path,
        "SELECT ring_bytes > 1000000, huge_pages IN (0, 1) FROM run_task WHERE ring_bytes > 0",
        "1,1");
    is_sound(&env, path);
}

Test(tuner_program, several_tasks_and_what_is_known_of_each_before_it_begins)
{
    Ran r = TUNE(&env, "--kernel", "decode elementwise h=", "--threads", "1", "--regime", "hot",
                 "--budget", "2trials", "--db", path);
    has(r, 0, "decode elementwise h=2 i=1 j=64");
    has(r, 0, "share: of the model's time");
    gives(&env, path,
          "SELECT count(*) > 1, min(share) > 0, sum(share) <= 1, count(*) = "
          "count(default_c_hash) FROM run_task",
          "1,1,1,1");
    gives(
        &env, path,
        "SELECT count(*) > 0, sum(started_ns IS NULL OR verify_ns IS NULL OR decide_ns IS NULL "
        "OR elapsed_ns IS NULL) FROM trial",
        "1,0");
    is_sound(&env, path);
}

Test(tuner_program, time_is_dealt_out_in_slices_that_are_recorded)
{
    has(TUNE(&env, "--kernel", "decode elementwise h=", "--threads", "1", "--regime", "hot",
             "--budget", "12s", "--db", path),
        0, "strategy auto");
    gives(&env, path, "SELECT count(*) >= 1, min(share) > 0, sum(budget_ns) < 60e9 FROM slice",
          "1,1,1");
    is_sound(&env, path);
}

/* Everything included: by a real clock. */
Test(tuner_program, a_budget_of_a_minute_ends_within_a_candidates_limit_of_it)
{
    if (!getenv("NC_FULL")) {
        cr_skip_test("a minute by a real clock is part of the long campaign (NC_FULL)");
    }
    uint64_t from_ns = os_now_ns();
    has(TUNE(&env, "--shape", "m=64,n=512,k=512", "--budget", "60s", "--db", path), 0,
        "candidates in");
    double took_s = (double)(os_now_ns() - from_ns) / 1e9;
    cr_expect_leq(took_s, 60 + protocol_default().candidate_limit_s, "%.1f s", took_s);
}

/* All but what a virtual machine may not have: its clock's rate, a thermal zone, a cpuset. */
Test(tuner_program, nothing_that_can_be_known_stays_unknown)
{
    has(TUNE(&env, "--shape", "m=5,n=40,k=24", "--budget", "2trials", "--threads", "1", "--db",
             path),
        0, "2 candidates in");
    static const char *const none[] = {
        "process WHERE pid IS NULL OR b_loaded_first IS NULL OR stack_pad IS NULL OR env_pad "
        "IS "
        "NULL OR reps = 0 OR exit_code IS NULL OR flipped IS NULL OR elapsed_ns IS NULL",
        "process WHERE utime_ns + stime_ns > 0 IS NOT 1 OR max_rss_bytes > 0 IS NOT 1 OR "
        "minor_faults > 0 IS NOT 1 OR major_faults + voluntary_switches + involuntary_switches "
        "IS NULL",
        "process WHERE steal_jiffies IS NULL OR throttled IS NULL OR load1 + load5 + load15 IS "
        "NULL",
        "trial WHERE build_ns IS NULL OR outcome <> 'same-code' AND (measure_ns > 0 IS NOT 1 "
        "OR "
        "verify_ns > 0 IS NOT 1)",
        "calibration WHERE waited_ns IS NULL OR elapsed_ns > 0 IS NOT 1",
        "run WHERE cpus IS NULL"};
    for (size_t i = 0; i < countof(none); i++) {
        gives(&env, path, arena_printf(&env.model, "SELECT count(*) FROM %s", none[i]), "0");
    }
}

/* Its exit status when it was sent SIGINT after so long. */
static int interrupted(const char *const *words, int after_ms)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        char **argv = tune_words(&env, words);
        freopen("/dev/null", "w", stderr);
        execv(argv[0], argv);
        _exit(1);
    }
    usleep((useconds_t)after_ms * 1000);
    kill(pid, SIGINT);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(tuner_program, ctrl_c_ends_it_and_keeps_what_was_recorded)
{
    const char *words[] = {
        "--shape", "m=64,n=256,k=256", "--budget", "10m", "--quiet", "--db", path, NULL};
    cr_expect_eq(interrupted(words, 3000), 130);
    is_sound(&env, path);
    gives(&env, path, "SELECT ending FROM run", "interrupted");
    has(TUNE(&env, "--shape", "m=64,n=256,k=256", "--budget", "30s", "--quiet", "--resume",
             "--db", path),
        0, "resumed");
    gives(&env, path, "SELECT ending FROM run", "finished");
    is_sound(&env, path);
}

/* The time that it was given before binds it no more. */
Test(tuner_program, a_search_by_time_goes_on_by_trials)
{
    const char *words[] = {"--shape", "m=5,n=40,k=24", "--threads", "1",  "--budget",
                           "12s",     "--quiet",       "--db",      path, NULL};
    cr_expect_eq(interrupted(words, 1500), 130);
    has(TUNE(&env, "--shape", "m=5,n=40,k=24", "--threads", "1", "--budget", "200trials",
             "--quiet", "--resume", "--db", path),
        0, "all 200 trials of the budget were made");
    is_sound(&env, path);
}

Test(tuner_program, one_process_measures_on_a_machine)
{
    const char *lock = temp_path(&dir, "nanocompile-measuring.lock");
    setenv("TMPDIR", dir.path, 1);
    has(TUNE(&env, "--shape", "m=5,n=40,k=24", "--noise", "--threads", "1", "--db", path), 0,
        "a win must be by");
    cr_expect_eq(access(lock, F_OK), 0);
}

/* What a build looks up is what was tuned, and what it takes where nothing was faster is what candidates were
 * raced against. */
Test(tuner_program, a_build_finds_what_was_tuned)
{
    const char *out = arena_printf(&env.model, "%s/out", dir.path);
    has(TUNE(&env, "--model", "tests/data/tiny-qwen2", "--kernel",
             "decode (matmul m=1 n=2048 k=224|matmul m=1 n=224 k=224|row h=14)", "-q",
             "--budget", "1trials", "--db", path),
        0, "1 candidates in");
    const char *rows = NC(&env, "build", "--model", "tests/data/tiny-qwen2", "-o", out, "--db",
                          path, "--format", "csv")
                           .out;
    const char *sites[] = {"decode,embed_tokens matmul,", "decode,layers.0 row,",
                           "decode,layers.0.self_attn.q_proj matmul,"};
    for (size_t i = 0; i < countof(sites); i++) {
        const char *row = strstr(rows, sites[i]), *end = row ? strchr(row, '\n') : NULL;
        const char *line = row && end ? arena_strn(&env.model, row, (size_t)(end - row)) : "";
        cr_expect(strstr(line, ",kept,") || strstr(line, ",hit,"), "%s: %s", sites[i], line);
    }
    gives(&env, path, "SELECT count(*) FROM run_task WHERE default_schedule LIKE '%pack%'",
          "1");
}
