/* cli_bench.c - `nanocompile bench` as its user meets it: who takes part, what is refused. No time is asserted. */
#include <stdlib.h>
#include <string.h>

#include "tests/cli_util.h"
#include "tests/env_fixture.h"

#define TINY "tests/data/tiny-qwen2"

TestSuite(cli_bench, .init = start, .fini = stop, .timeout = 600);

Test(cli_bench, a_product_meets_its_rivals)
{
    without_leak_check(&env);
    Ran r = NC(&env, "bench", "--shape", "m=3,n=40,k=24", "--blocks", "1", "--naive",
               "--schedule", "split n 8; vec n.i; order m n.o k n.i");
    has(r, 1, "vec n.i: axis n.i is not the innermost loop");
    r = NC(&env, "bench", "--shape", "m=3,n=40,k=24", "--blocks", "1", "--naive", "--schedule",
           "split n 8; order m n.o k n.i; pack b n.o,k,n.i; vec n.i");
    has(r, 0, "default");
    has(r, 0, "naive");
    has(r, 0, "given 1: split n 8; order m n.o k n.i; pack b n.o,k,n.i; vec n.i");
    r = NC(&env, "bench", "--shape", "m=3,n=40,k=24", "--blocks", "1", "--bf16", "--sweep", "6",
           "--schedule", "order n m k", "--schedule", "order n m k");
    has(r, 0, "given 2: order n m k");
    has(r, 0, "swept: ");
    has(NC(&env, "bench", "--shape", "m=1,n=40,k=24", "--blocks", "1", "--regime", "cold",
           "--format", "json", "--threads", "1"),
        0, "\"contender\": \"default\"");
}

Test(cli_bench, a_kernel_of_a_model)
{
    const char *config = "tests/data/qwen2.5/config.json";
    has(NC(&env, "bench", config, "--kernel", "9", "--seq", "2", "--past", "5", "--blocks",
           "1"),
        0, "default");
    has(NC(&env, "bench", config, "--kernel", "nobody", "--blocks", "1"), 1,
        "no kernel has the number, kind or hash 'nobody'");
}

Test(cli_bench, usage)
{
    has(NC(&env, "bench"), 2, "say what to measure");
    has(NC(&env, "bench", "--shape", "m=0,n=1,k=1"), 2, "each 1 or more");
    has(NC(&env, "bench", "--shape", "64x64"), 2, "each 1 or more");
    has(NC(&env, "bench", "--kernel", "1"), 2, "--kernel needs a model");
    has(NC(&env, "bench", "--shape", "m=1,n=1,k=1", "--regime", "warm"), 2, "warm");
}

/* The small model's context is 512: what needs more is left out, and said. */
Test(cli_bench, a_library_alone_and_in_turns_with_another)
{
    TempDir d = temp_dir();
    const char *lib[2];
    for (int i = 0; i < 2; i++) {
        const char *out = arena_printf(&env.model, "%s/%d", d.path, i);
        lib[i] = arena_printf(&env.model, "%s/model.so", out);
        has(NC(&env, "build", "--model", TINY, "-o", out, "--no-db", i ? "--f32" : NULL), 0,
            "3 programs");
    }
    Ran r = NC(&env, "bench", "--lib", lib[0], "--blocks", "1", "--threads", "1");
    has(r, 0, "prefill 128");
    has(r, 0, "decode at 16");
    has(r, 0, "The context is too short for decode at 512.");
    r = NC(&env, "bench", "--lib", lib[0], "--vs", lib[1], "--blocks", "1", "--format", "json");
    has(r, 0, "\"times as fast\": ");
    has(r, 0, "\"rounds won\": \"");
    r = NC(&env, "bench", "--lib", lib[0], "--profile", "--format", "csv");
    has(r, 0, "decode at 16,matmul+epilogue,mlp.gate_proj+up_proj,nc_");
    has(r, 0, "prefill 128,row,all,,");
    has(NC(&env, "bench", "--vs", lib[0]), 2, "go with --lib or a model alone");
    has(NC(&env, "bench", "--lib", lib[0], "--no-db"), 2, "--lib stands alone");
    r = NC(&env, "bench", TINY, "--no-db", "--context", "96", "--profile");
    has(r, 0, "decode at 16");
    has(NC(&env, "bench", "--lib", "tests/data/tiny-qwen2/config.json"), 1, "cannot be loaded");
    temp_remove(&d);
}

/* What is chosen depends on the machine; that a build finds it does not. */
Test(cli_bench, lengths_that_share_a_program_are_measured_for_builds)
{
    TempDir d = temp_dir();
    const char *db = arena_printf(&env.model, "%s/s.db", d.path);
    const char *out = arena_printf(&env.model, "%s/tiny", d.path);
    has(NC(&env, "bench", TINY, "--buckets", "--db", db), 1, "s.db");
    setenv("NANOCOMPILE_DB", db, 1);
    Ran r = NC(&env, "bench", TINY, "--buckets=20", "--blocks", "1", "--threads", "1",
               "--context", "100", "--format", "csv");
    has(r, 0, "tokens,scheduled for,ms,\"regret, %\",at least,at most,program");
    has(r, 0, "96,512,");
    has(r, 0, "the margin of 20.0%");
    has(r, 0, "Kept in ");
    r = NC(&env, "build", "--model", TINY, "-o", out, "--threads", "1");
    has(r, 0, "lengths of prompts that share a program: measured: the worst regret is ");
    has(r, 0, "(margin 20%)");
    r = NC(&env, "build", "--model", TINY, "-o", out, "--threads", "1", "--buckets",
           "8,99:200");
    has(r, 0, "prefill_99 9 to 200 tokens (scheduled for 99): ");
    has(r, 0, "lengths of prompts that share a program: given");
    char *header = read_text(&env, arena_printf(&env.model, "%s/model.h", out));
    cr_expect(strstr(header, "prefill_99      9 to  200, with schedules for 99"), "%.700s",
              header);
    r = NC(&env, "build", "--model", TINY, "-o", out, "--threads", "2");
    has(r, 0, "lengths of prompts that share a program: default");
    unsetenv("NANOCOMPILE_DB");
    temp_remove(&d);
}

Test(cli_bench, what_is_no_list_of_lengths_is_refused)
{
    static const char *const bad[] = {"",          "0",     "x",   "16,", "16,16",   "64,16",
                                      "16:512,64", "16:8x", "4;5", "16:", "99999999"};
    for (size_t i = 0; i < countof(bad); i++) {
        has(NC(&env, "build", "--model", TINY, "-o", "/nowhere", "--buckets", bad[i]), 2,
            "rising numbers of tokens");
    }
    has(NC(&env, "bench", "--buckets"), 2, "--buckets goes with a model alone");
    has(NC(&env, "bench", TINY, "--buckets=-1"), 2, "takes a percentage above 0");
    has(NC(&env, "bench", TINY, "--buckets=0"), 2, "takes a percentage above 0");
    has(NC(&env, "bench", TINY, "--buckets=nan"), 2, "takes a percentage above 0");
    has(NC(&env, "bench", TINY, "--buckets", "--profile"), 2, "goes with a model alone");
}
