/* library_tuned.c - from nothing to a tuned model by the commands alone: tune, build, run, report. Whether
 * anything faster is found depends on the machine; that what was tuned is found again does not. */
#include "tests/library_util.h"
#include "tests/report_util.h"

#include <stdlib.h>
#include <string.h>

TestSuite(library_tuned, .timeout = 900);

/* Few candidates, few pairs. */
#define BRIEF                                                                               \
    "--budget", "4trials", "-q", "--set", "unflagged_least=3", "--set", "pairs=3", "--set", \
        "pairs_wide=3", "--set", "title_processes=13", "--set", "calibration_processes=4",  \
        "--set", "biased=1"

/* Lines of csv that begin so and hold the words. */
static int lines_with(const char *csv, const char *begin, const char *words)
{
    int n = 0;
    for (const char *at = csv; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        const char *end = strchr(at, '\n'), *found = strstr(at, words);
        n += !strncmp(at, begin, strlen(begin)) && found && (!end || found < end);
    }
    return n;
}

static const char *first_build(Env *e, const char *db)
{
    const char *line = strchr(REPORT(e, db, "builds", "--format", "csv").out, '\n') + 1;
    return arena_strn(&e->model, line, strcspn(line, ","));
}

/* A cell of csv without quotes around it; "": there is none. */
static const char *cell(Env *e, const char *line, int column)
{
    for (; line && column > 0; column--) {
        line = strchr(line, ',');
        line = line ? line + 1 : NULL;
    }
    return line ? arena_strn(&e->model, line, strcspn(line, ",\n")) : "";
}

/* Of two builds' lists: how many sites have the same kernel in both. Kernels are called like their C. */
static int alike(Env *e, const char *a, const char *b)
{
    enum { KERNEL = 3 };
    int n = 0;
    a = strstr(a, "program,site,"), b = strstr(b, "program,site,");
    for (; a && b; a = strchr(a + 1, '\n'), b = strchr(b + 1, '\n')) {
        const char *kernel = cell(e, a, KERNEL);
        n += !strncmp(kernel, "nc_", 3) && !strcmp(kernel, cell(e, b, KERNEL));
    }
    return n;
}

Test(library_tuned, tune_build_run_report)
{
    TempDir d = temp_dir();
    Env e;
    env_init(&e);
    const char *db = arena_printf(&e.model, "%s/s.db", d.path);
    const char *out = arena_printf(&e.model, "%s/tiny", d.path);
    has(TUNE(&e, "--model", TINY, "--threads", "2", "--db", db, "--kernel",
             "decode matmul.epilogue m=1 n=448", BRIEF),
        0, "1 task");
    Ran r = NC(&e, "build", "--model", TINY, "-o", out, "--threads", "2", "--db", db,
               "--format", "csv");
    has(r, 0, "3 programs");
    int hit = lines_with(r.out, "decode,", ",hit,"),
        kept = lines_with(r.out, "decode,", ",kept,");
    cr_expect_eq(hit + kept, 4, "%d hit, %d kept: %s", hit, kept, r.out); /* one a layer */
    has(NC(&e, "run", "--lib", arena_printf(&e.model, "%s/model.so", out), "--raw", "--prompt",
           "Once upon", "--max-tokens", "3"),
        0, "3 tokens");
    has(REPORT(&e, db, "misses"), 0, "miss");
    Ran exact = NC(&e, "build", "--model", TINY, "-o", out, "--threads", "2", "--db", db,
                   "--format", "csv", "--exact-only");
    has(exact, 0, "3 programs");
    int n = alike(&e, r.out, exact.out); /* those that a processor's defaults sum in order */
    cr_expect(n > 0 && n < 171, "%d alike", n);
    has(REPORT(&e, db, "builds", "last"), 0, "mlp.gate_proj+up_proj");
    has(REPORT(&e, db, "builds", first_build(&e, db), "last"), 0,
        arena_printf(
            &e.model,
            "171 call sites stand at the same place in both, and %d of them have the same C.",
            n));
    env_release(&e);
    temp_remove(&d);
}

/* ---- the whole model, real clocks ---- */

static const char *built(Env *e, const char *dir, const char *name, const char *option,
                         const char *value)
{
    const char *out = arena_printf(&e->model, "%s/%s", dir, name);
    has(NC(e, "build", "--model", TINY, "-o", out, option, value), 0, "3 programs");
    return arena_printf(&e->model, "%s/model.so", out);
}

/* Each kind of work in turns: the interval of how many times as fast the tuned one is may not lie
 * below 1. */
Test(library_tuned, acceptance_20_a_tuned_build_is_not_slower_than_the_default)
{
    enum { AT_MOST = 13, N_WORKS = 4 };
    int n = 0;
    TempDir d = temp_dir();
    Env e;
    if (!getenv("NC_FULL")) {
        cr_skip_test("real clocks: in make full");
    }
    env_init(&e);
    const char *db = arena_printf(&e.model, "%s/s.db", d.path);
    has(TUNE(&e, "--model", TINY, "--db", db, "-q", "--budget", "90s"), 0, "candidates in");
    const char *tuned = built(&e, d.path, "tuned", "--db", db);
    const char *plain = built(&e, d.path, "plain", "--no-db", NULL);
    Ran r = NC(&e, "bench", "--lib", tuned, "--vs", plain, "--format", "csv");
    cr_assert_eq(r.status, 0, "%s", r.out);
    for (const char *at = strstr(r.out, "work,"); at && at[1]; at = strchr(at + 1, '\n')) {
        const char *most = cell(&e, at + 1, AT_MOST);
        bool ratio = *most >= '0' && *most <= '9';
        n += ratio;
        cr_expect(!ratio || atof(most) >= 1, "slower: %s", r.out);
    }
    cr_expect_eq(n, N_WORKS, "%s", r.out);
    env_release(&e);
    temp_remove(&d);
}
