/* tuner_duels.c - what tune measures without a search, as its user meets it: verdicts as exit statuses, foreign
 * kernels of every kind, ablation, replay; and that the record is sound and the reports show it. Nothing is
 * asserted of a time; where a winner is, one side has twenty times the work. */
#include <stdlib.h>
#include <string.h>

#include "tests/child_util.h"
#include "tests/db_fixture.h"
#include "tests/report_util.h"

static void begin(void)
{
    start();
    setenv("NANOCOMPILE_DB", path, 1);
}

TestSuite(tuner_duels, .init = begin, .fini = stop, .timeout = 300);

#define SHAPE "--shape", "m=5,n=40,k=24"
#define BRIEF                                                                                 \
    "-q", "--set", "unflagged_least=3", "--set", "pairs=3", "--set", "pairs_wide=3", "--set", \
        "title_processes=13", "--set", "calibration_processes=4", "--set", "biased=1"
/* One thread, few pairs. */
#define ONE(...) TUNE(&env, SHAPE, "--threads", "1", BRIEF, __VA_ARGS__)

/* ---- what the database holds ---- */

typedef struct Best {
    const char *schedule;
} Best;

/* As if a .sched file had been imported: of the machine and compiler of the last run, one thread. */
static void put_best(Env *e, void *arg)
{
    const Best *b = arg;
    Db *db = open_db(e, path, DB_WRITE);
    DbRun run;
    DbMachine machine;
    DbToolchain tc;
    DbKernel kernel;
    DbCursor at = DB_FIND_ALL(db, RUNS);
    cr_assert(db_next(&at, &e->model, &run));
    db_end(&at);
    at = DB_FIND_ALL(db, KERNELS);
    cr_assert(db_next(&at, &e->model, &kernel));
    db_end(&at);
    cr_assert(DB_ONE(db, MACHINE, &e->model, &machine, run.machine));
    cr_assert(DB_ONE(db, TOOLCHAIN, &e->model, &tc, run.toolchain));
    char hex[33];
    hash_hex(hash_str(kernel.text), hex);
    DbImported row = {.signature = db_signature(&e->model, &machine, &tc, 1, "hot"),
                      .kernel_hash = hash_str(kernel.text),
                      .sizes = "*",
                      .schedule = b->schedule};
    db_begin(db);
    cr_assert(db_put_imported(db, &row));
    db_commit(db);
    db_close(db);
}

static void best_is(const char *schedule)
{
    must_work(&env, put_best, &(Best){schedule});
}

/* Of the default, or of the nth candidate that ran, of a database of its own. */
static const char *some_schedule(const char *query)
{
    const char *other = arena_printf(&env.model, "%s/other.db", dir.path);
    has(TUNE(&env, SHAPE, "--threads", "1", BRIEF, "--db", other, "--budget", "8trials"), 0,
        "");
    const char *schedule = queried(&env, other, query);
    size_t len = strlen(schedule); /* CSV puts what has commas in quotes */
    bool quoted = schedule[0] == '"' && len > 2;
    cr_assert_gt(len, 0);
    return quoted ? arena_strn(&env.model, schedule + 1, len - 2) : schedule;
}

/* ---- --compare ---- */

Test(tuner_duels, a_verdict_is_an_exit_status_and_a_record)
{
    has(ONE("--compare", "naive", "default"), 0, "default against naive: FASTER");
    has(ONE("--compare", "default", "naive"), 4, "naive against default: SLOWER");
    Ran same = ONE("--compare", "default", "default");
    cr_expect(same.status == 3 || same.status == 5 || same.status == 0 || same.status == 4,
              "%s", same.out);
    cr_expect(strstr(same.out, "the two are the same code"), "%s", same.out);
    gives(
        &env, path,
        "SELECT count(*), min(verdict) FROM duel WHERE stage = 'compare' AND a_name = 'naive' "
        "AND a_schedule = '' AND b_name = 'default'",
        "1,FASTER");
    gives(&env, path, "SELECT count(*), count(space) FROM run_task", "3,0");
    is_sound(&env, path);
    shows(REPORT(&env, path, "evidence"), "");
}

Test(tuner_duels, steps_and_files_are_sides)
{
    const char *file = arena_printf(&env.model, "%s/x.sched", dir.path);
    Ran steps = ONE("--compare", "naive", "order n m k");
    cr_expect_neq(steps.status, 1, "%s", steps.out);
    cr_expect(strstr(steps.out, "given B against naive"), "%s", steps.out);
    shows(REPORT(&env, path, "compare", "", "order n m k"), "given B");
    best_is("order n m k");
    has(SCHEDB(&env, "export", "--db", path, "--format", "sched", "-o", file), 0, "");
    Ran from_file = ONE("--compare", "naive", file);
    cr_expect_neq(from_file.status, 1, "%s", from_file.out);
    gives(&env, path, "SELECT b_schedule FROM duel WHERE b_name LIKE '%x.sched'",
          "order n m k");
    Ran other = TUNE(&env, "--shape", "m=5,n=40,k=23", "--threads", "1", BRIEF, "--compare",
                     "naive", file);
    has(other, 1, "has no row for this kernel at these sizes");
}

Test(tuner_duels, what_cannot_be_compared_is_said_and_recorded)
{
    has(ONE("--compare", "default", "split n 8; vec n.i"), 1, "given B: illegal: vec n.i: ");
    gives(&env, path, "SELECT ending FROM run_task", "illegal");
    has(ONE("--compare", "default", "fold m"), 1, "fold");
    has(ONE("--compare", "default", "best"), 1, "There is no best schedule yet in");
    has(ONE("--compare", "default", "nowhere.sched"), 1, "nowhere.sched");
    gives(&env, path, "SELECT count(*) FROM run_task WHERE ending = 'failed'", "3");
    is_sound(&env, path);
}

Test(tuner_duels, usage_is_checked)
{
    has(ONE("--compare", "default"), 2, "--compare takes two schedules");
    has(ONE("--compare", "default", "naive", "best"), 2, "nothing that 'best' would be for");
    has(ONE("stray"), 2, "nothing that 'stray' would be for");
    has(ONE("--rivals", "--noise"), 2, "--rivals and --noise do not go together");
    has(ONE("--ablate=some"), 2, "--ablate takes nothing or =all");
    has(TUNE(&env, "--rivals"), 2, "say what to tune");
    has(TUNE(&env, "--replay", "last", "--seeds", "0"), 2, "--seeds takes a number from 1");
}

/* Where what the database has builds use became slower than the default, this says so. */
Test(tuner_duels, acceptance_20_what_a_build_would_use_is_held_against_the_default)
{
    has(ONE("--noise"), 0, "a win must be by");
    best_is("");
    has(ONE("--compare", "default", "best"), 4, "best against default: SLOWER");
    gives(&env, path, "SELECT ratio_lo > 1 FROM duel WHERE b_name = 'best'", "1");
    is_sound(&env, path);
}

Test(tuner_duels, acceptance_20_what_was_tuned_is_not_slower_than_the_default)
{
    if (!getenv("NC_FULL")) {
        cr_skip_test("real clocks: in make full");
    }
    has(TUNE(&env, "--shape", "m=11,n=200,k=100", "--threads", "1", "-q", "--budget", "60s"), 0,
        "candidates in");
    Ran r = TUNE(&env, "--shape", "m=11,n=200,k=100", "--threads", "1", "-q", "--compare",
                 "default", "best");
    bool none = !strcmp(queried(&env, path, "SELECT count(*) FROM winner"), "0");
    cr_expect(none || r.status == 0 || r.status == 3 || r.status == 5, "%s", r.out);
    cr_expect(none || !strstr(r.out, "SLOWER"), "%s", r.out);
}

/* ---- --against ---- */

static const char *rival(const char *name, const char *body)
{
    return file_in(
        &env, &dir, name,
        arena_printf(&env.model,
                     "#include <stdint.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
                     "int32_t nc_rival(void *const *p, const int64_t *s, int part, "
                     "int n)\n{ %s }\n",
                     body));
}

#define RIGHT                                                                                  \
    "float *y = p[0]; const float *a = p[1], *b = p[2]; (void)n; if (part) return 0; "         \
    "for (int i = 0; i < s[0]; i++) for (int j = 0; j < 40; j++) { float t = 0; for (int k = " \
    "23; k >= 0; k--) t += a[i * 24 + k] * b[j * 24 + k]; y[i * 40 + j] = t; } "

Test(tuner_duels, a_rival_to_begin_with_keeps_the_contract)
{
    Ran text = ONE("--against", "x.c", "--dry-run");
    has(text, 0,
        "int32_t nc_rival(void *const *params, const int64_t *syms, int part, int "
        "n_parts)");
    const char *mine = file_in(&env, &dir, "mine.c", text.out);
    has(ONE("--against", mine), 4, "mine.c against default: SLOWER");
    gives(&env, path,
          "SELECT a_schedule IS NULL, b_schedule IS NULL, b_name FROM duel WHERE stage = "
          "'compare'",
          "0,1,mine.c");
    shows(REPORT(&env, path, "rivals"), "mine.c");
    has(TUNE(&env, "--kernel", "decode", "--against", "x.c", "--dry-run"), 1, "for one kernel");
    is_sound(&env, path);
}

Test(tuner_duels, a_rival_may_sum_in_any_order_and_bring_its_threads)
{
    const char *backwards = rival("backwards.c", RIGHT "return 0;");
    has(ONE("--against", backwards), 4, "backwards.c against default: SLOWER");
    const char *own = file_in(&env, &dir, "own.c",
                              arena_printf(&env.model,
                                           "#include <stdint.h>\nstatic int told;\n"
                                           "void nc_rival_threads(int n) { told = n; }\n"
                                           "int32_t nc_rival(void *const *p, const int64_t *s, "
                                           "int part, int n) { if (told != 2 || part != 0 || n "
                                           "!= 1) return 7; %s return 0; }\n",
                                           RIGHT));
    has(TUNE(&env, SHAPE, "--threads", "2", BRIEF, "--against", own), 4,
        "own.c against default: SLOWER");
    is_sound(&env, path);
}

Test(tuner_duels, a_rival_that_fails_is_named_by_its_status)
{
    static const struct {
        const char *name, *body, *status, *words;
    } rows[] = {
        {"wrong.c", RIGHT "y[3] += 1; return 0;", "wrong", "y[3]"},
        {"input.c", RIGHT "((float *)p[1])[0] = 2; return 0;", "wrong",
         "overwrites its input: a[0] was"},
        {"beyond.c", RIGHT "y[40 * s[0]] = 1; return 0;", "crash", "SIGSEGV"},
        {"null.c", "*(volatile int *)0 = 1; return 0;", "crash", "SIGSEGV"},
        {"forks.c", "fork(); return 0;", "crash", "start a process"},
        {"code.c", RIGHT "return 3;", "wrong", "returns 3 from its first call"},
        {"broken.c", "return }", "cc-error", "expected expression"},
    };
    tame_sanitizers(&env);
    for (size_t i = 0; i < countof(rows); i++) {
        Ran r = ONE("--against", rival(rows[i].name, rows[i].body));
        has(r, 1, arena_printf(&env.model, ": %s: ", rows[i].status));
        has(r, 1, rows[i].words);
        gives(
            &env, path,
            arena_printf(&env.model,
                         "SELECT run_task.ending FROM run_task JOIN run r ON r.id = run WHERE "
                         "r.command LIKE '%%%s%%'",
                         rows[i].name),
            rows[i].status);
    }
    gives(&env, path,
          "SELECT count(*) FROM duel JOIN process USING (run) WHERE stage = 'compare' AND "
          "process.duel = duel.idx AND status = 'wrong' AND reason = 'failed'",
          "3");
    shows(REPORT(&env, path, "rivals"), "came to no verdict");
    is_sound(&env, path);
}

Test(tuner_duels, what_is_no_rival_is_refused_in_a_sentence)
{
    const char *other = file_in(&env, &dir, "other.c", "int other;\n");
    const char *garbage = file_in(&env, &dir, "garbage.so", "no library");
    has(ONE("--against", other), 1, "nc_rival");
    has(ONE("--against", garbage), 1, "no function nc_rival");
    const char *named = file_in(&env, &dir, "named.so", "nc_rival, and no library");
    has(ONE("--against", named), 1, "cannot be loaded");
    has(ONE("--against", "nowhere.c"), 1, "nowhere.c: No such file");
    gives(&env, path, "SELECT count(*) FROM run_task WHERE ending = 'cc-error'", "3");
}

Test(tuner_duels, a_rival_that_hangs_is_stopped)
{
    const char *hangs = rival("hangs.c", "for (volatile int i = 0; i < 1; ) { } return 0;");
    has(ONE("--against", hangs, "--set", "candidate_limit_s=2"), 1, "timeout");
    gives(&env, path, "SELECT status FROM process WHERE status <> 'ok'", "timeout");
}

/* ---- --rivals ---- */

Test(tuner_duels, ours_meets_every_rival_that_is_there)
{
    without_leak_check(&env);
    Ran r = TUNE(&env, SHAPE, "--threads", "2", BRIEF, "--rivals");
    has(r, 0, "Of ");
    if (strstr(r.out, "Of 0 duels")) {
        cr_skip_test("no rival is here");
    }
    shows(REPORT(&env, path, "rivals"), "default");
    gives(&env, path,
          "SELECT count(*) FROM duel WHERE stage = 'compare' AND (a_schedule IS NOT NULL OR "
          "b_schedule IS NULL)",
          "0");
    gives(&env, path, "SELECT count(*) > 0, sum(status <> 'ok') FROM process", "1,0");
    is_sound(&env, path);
}

Test(tuner_duels, rivals_that_pack_meet_cold_weights)
{
    without_leak_check(&env);
    has(TUNE(&env, "--shape", "m=1,n=64,k=32", "--threads", "1", BRIEF, "--regime", "cold",
             "--rivals"),
        0, "Of ");
    gives(&env, path, "SELECT count(*) > 0, sum(status <> 'ok') FROM process", "1,0");
    is_sound(&env, path);
}

Test(tuner_duels, no_rival_computes_what_is_no_product)
{
    without_leak_check(&env);
    Ran r = TUNE(&env, "--kernel", "decode (row h=14|matmul h=14 m=1 k)", BRIEF, "--rivals");
    has(r, 0, "no rival computes this kernel");
    has(r, 0, "2 of 2 tasks are no plain products");
}

/* A model's weights come as BF16, which makes another kernel of the same product. */
Test(tuner_duels, rivals_compute_the_products_of_models)
{
    without_leak_check(&env);
    Ran r = TUNE(&env, "--model", "tests/data/tiny-qwen2", "--kernel",
                 "decode matmul m=1 n=32 k=224", "--threads", "1", "--regime", "hot", BRIEF,
                 "--rivals");
    has(r, 0, "Of ");
    cr_expect(!strstr(r.out, "no rival computes"), "%s", r.out);
    Ran alike =
        TUNE(&env, "--shape", "m=1,n=32,k=224", "--bf16", "--threads", "1", BRIEF, "--noise");
    has(alike, 0, "");
    gives(&env, path, "SELECT count(DISTINCT kernel) FROM task", "1");
    is_sound(&env, path);
}

/* A core type left over in the environment may not slow OpenBLAS down. */
Test(tuner_duels, openblas_chooses_for_this_machine)
{
    without_leak_check(&env);
    unsetenv("OPENBLAS_CORETYPE");
    const char *chosen = TUNE(&env, "--say-rivals", "1").out;
    setenv("OPENBLAS_CORETYPE", "Prescott", 1);
    cr_expect_str_eq(TUNE(&env, "--say-rivals", "1").out, chosen);
}

/* ---- --ablate ---- */

Test(tuner_duels, each_knob_of_the_winner_is_put_back)
{
    const char *other =
        some_schedule("SELECT x.schedule FROM trial x JOIN run_task USING (run, task) WHERE "
                      "x.status = 'ok' AND x.schedule <> default_schedule LIMIT 1");
    has(ONE("--ablate"), 1, "There is no winner whose knobs could be put back");
    best_is(other);
    Ran r = ONE("--ablate");
    has(r, 0, "without ");
    gives(&env, path,
          "SELECT count(*) > 0 FROM duel WHERE a_name = 'best' AND b_name LIKE 'without %'",
          "1");
    shows(REPORT(&env, path, "knobs"), "without ");
    is_sound(&env, path);
}

Test(tuner_duels, a_winner_that_is_no_point_has_no_knobs)
{
    has(ONE("--noise"), 0, "");
    best_is("split n 7 peel");
    has(ONE("--ablate"), 1, "none of the schedules of this version's space");
}

/* ---- --replay, --noise ---- */

Test(tuner_duels, a_recorded_search_is_replayed)
{
    has(TUNE(&env, SHAPE, "--threads", "1", BRIEF, "--budget", "12trials"), 0, "");
    Ran all = TUNE(&env, "--replay", "last", "--seeds", "3");
    has(all, 0, "12 recorded candidates; mean regret of the best so far");
    has(all, 0, "(expected)");
    has(all, 0, "anneal");
    Ran one = TUNE(&env, "--replay", "last", "--seeds", "3", "--strategy", "greedy", "--budget",
                   "6trials");
    has(one, 0, "greedy");
    cr_expect(!strstr(one.out, "anneal"), "%s", one.out);
    cr_expect_str_eq(TUNE(&env, "--replay", "last", "--seeds", "3").out, all.out);
    gives(&env, path, "SELECT count(*) FROM run", "1");
}

Test(tuner_duels, what_cannot_be_replayed_is_said)
{
    has(ONE("--noise"), 0, "");
    has(TUNE(&env, "--replay", "last"), 1, "no run 'last'");
    has(TUNE(&env, "--replay", "x"), 1, "no run 'x'");
    has(TUNE(&env, "--replay", queried(&env, path, "SELECT id FROM run")), 1,
        "tried no candidates");
}

Test(tuner_duels, noise_is_a_duel_of_the_default_with_its_copy)
{
    has(ONE("--noise"), 0, "a copy of the default against default: ");
    gives(&env, path,
          "SELECT count(*) FROM duel WHERE a_name = 'default' AND b_name = 'a copy of the "
          "default' AND a_c_hash = b_c_hash AND stage = 'compare'",
          "1");
    shows(REPORT(&env, path, "noise"), "matmul m=5 n=40 k=24");
    is_sound(&env, path);
}
