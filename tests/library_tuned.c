/* library_tuned.c - from nothing to a tuned model by the commands alone: tune, build, run, report. Whether
 * anything faster is found depends on the machine; that what was tuned is found again does not. */
#include "tests/library_util.h"
#include "tests/report_util.h"

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
    has(NC(&e, "build", "--model", TINY, "-o", out, "--threads", "2", "--db", db,
           "--exact-only"),
        0, "3 programs");
    has(REPORT(&e, db, "builds", "last"), 0, "mlp.gate_proj+up_proj");
    has(REPORT(&e, db, "builds", first_build(&e, db), "last"), 0,
        "171 call sites stand at the same place in both, and 33 of them have the same C.");
    env_release(&e);
    temp_remove(&d);
}
