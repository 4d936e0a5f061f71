/* cli_dump.c - the program as its user meets it: what dump, eval and check print, and every kind of bad
 * input: one sentence with file and cause, exit status 1; 2 for usage. */
#include "tests/cli_util.h"
#include "tests/folder_fixture.h"

#include <sched.h>
#include <string.h>

TestSuite(cli, .init = start, .fini = stop, .timeout = 300);

#define FIVE                                                                             \
    "graph five\nx = input f32[seq, 4]\nw = weight f32[4, 8]\ny = matmul x, w\nz = neg " \
    "y\nreturn z=z\n"

static const char *file(const char *name, const char *text)
{
    return file_in(&env, &dir, name, text);
}

/* ---- what is shown ---- */

Test(cli, every_dump_of_a_small_graph)
{
    const char *path = file("five.ncg", FIVE);
    shows(NC(&env, "dump", "graph", path), "%3 = neg %2");
    shows(NC(&env, "dump", "graph", path, "--format", "json"), "\"op\"");
    shows(NC(&env, "dump", "ncg", path), "%2 = matmul x, w");
    shows(NC(&env, "dump", "kernels", path), "1 calls of 1 distinct kernels.");
    shows(NC(&env, "dump", "kernels", path, "--without=fuse"),
          "2 calls of 2 distinct kernels.");
    shows(NC(&env, "dump", "kernels", path, "--format", "csv"), "kernel,kind,calls");
    shows(NC(&env, "dump", "keys", path), "phase m n k");
    shows(NC(&env, "dump", "loops", path), "for k in 4:");
    shows(NC(&env, "dump", "c", path), "for (int64_t k = 0; k < 4; k++)");
    shows(NC(&env, "dump", "c", path, "--kernel", "matmul+epilogue"), "-acc0");
    shows(NC(&env, "dump", "plan", path, "--without=fuse", "--seq", "3"),
          "Arena 128 bytes with reuse");
    shows(NC(&env, "dump", "traffic", path, "--seq", "3"), "48*seq + 128");
    shows(NC(&env, "dump", "stages", path, "--format", "json"), "\"fuse and lower\"");
    shows(NC(&env, "dump", "stages", path, "--time"), "ms");
    shows(NC(&env, "dump", "ops"), "| reduce_max |");
}

Test(cli, a_graph_printed_as_text_reads_back)
{
    const char *path = file("five.ncg", FIVE);
    Ran once = NC(&env, "dump", "ncg", path);
    Ran twice = NC(&env, "dump", "ncg", file("again.ncg", once.out));
    cr_expect_str_eq(once.out, twice.out);
}

Test(cli, eval_agrees_in_three_ways)
{
    const char *path = file("five.ncg", FIVE);
    Ran r = NC(&env, "eval", path, "--seq", "3", "--compare", "interp,nest,c");
    shows(r, "same bits");
    cr_expect(!strstr(r.out, "DIFFERENT"));
    shows(NC(&env, "eval", path, "--by", "interp"), "z: f32[1, 8] hash ");
}

Test(cli, eval_takes_and_gives_npy)
{
    const char *path = file("five.ncg", FIVE);
    const char *out = temp_path(&dir, "out"), *input;
    shows(NC(&env, "eval", path, "--seq", "2", "--out", out), "");
    input = arena_printf(&env.model, "w=%s/z.npy", out);
    refused(NC(&env, "eval", path, "--input", input), 1, "w");
    refused(NC(&env, "eval", path, "--input", "nobody=x.npy"), 1,
            "no input or weight of that name");
}

Test(cli, model_options)
{
    const char *config = "tests/data/qwen2.5/config.json";
    shows(NC(&env, "dump", "kernels", config), "319 calls of 20 distinct kernels.");
    shows(NC(&env, "dump", "kernels", config, "--without=fuse"),
          "1514 calls of 63 distinct kernels.");
    shows(NC(&env, "dump", "kernels", config, "--layers", "1"),
          "20 calls of 19 distinct kernels.");
    shows(NC(&env, "dump", "stages", config, "--logits", "all", "--without=fuse"), "3656");
    shows(NC(&env, "dump", "stages", config, "--without=fuse", "--with=cse"), "2855");
    shows(NC(&env, "dump", "traffic", config, "--seq", "1", "--past", "17"), "1979901704");
    shows(NC(&env, "dump", "plan", config, "--without=fuse", "--past", "17"),
          "Arena 134208 bytes with reuse, 10215680 without.");
    refused(NC(&env, "dump", "kernels", config, "--layers", "25"), 1,
            "more blocks than the model's 24");
}

Test(cli, the_cache_in_place_and_decode)
{
    const char *config = "tests/data/qwen2.5/config.json";
    shows(NC(&env, "dump", "kernels", config, "--cache"), "317 calls of 18 distinct kernels.");
    shows(NC(&env, "dump", "traffic", config, "--cache", "--specialise", "seq=1"),
          "29952*past + 1979343368");
    shows(NC(&env, "dump", "stages", config, "--cache", "--specialise", "seq=1"), "specialise");
    shows(NC(&env, "dump", "graph", config, "--cache", "--layers", "1"),
          "cache_keys: f32[1, 2, capacity, 64]");
    shows(NC(&env, "eval", "tests/data/tiny-qwen2", "--cache", "--seq", "3", "--past", "2",
             "--set", "capacity=5", "--compare", "nest,interp,c"),
          "same bits");
    shows(NC(&env, "eval", "tests/data/tiny-qwen2", "--cache", "--specialise", "seq=1",
             "--past", "2", "--compare", "interp,nest"),
          "same bits");
    refused(NC(&env, "dump", "plan", config, "--cache", "--past", "128"), 1,
            "room for the value, capacity - past - seq, is -1");
    refused(NC(&env, "dump", "plan", config, "--specialise", "seq=1", "--seq", "1"), 1,
            "no symbol 'seq' to set");
    refused(NC(&env, "dump", "graph", config, "--specialise", "rows=1"), 1,
            "it has no such symbol");
    refused(NC(&env, "dump", "graph", config, "--specialise", "seq"), 2,
            "--specialise takes NAME=N");
    refused(NC(&env, "dump", "graph", file("five.ncg", FIVE), "--cache"), 1,
            "no past_* input of the graph");
}

/* Each way gets the inputs as they were, though two of them write there. */
Test(cli, eval_of_an_update_leaves_the_inputs_alone)
{
    const char *path = file(
        "u.ncg", "graph u\nx = input f32[4]\ns = slice x axis=0 start=0 stop=1\nv = neg s\n"
                 "y = update x, v at=[2]\nt = slice y axis=0 start=2 stop=3\nw = exp t\n"
                 "z = update y, w at=[0]\nreturn z=z\n");
    Ran r = NC(&env, "eval", path, "--compare", "nest,c,interp");
    shows(r, "same bits");
    cr_expect(!strstr(r.out, "DIFFERENT"));
}

Test(cli, two_processes_print_the_same_c)
{
    const char *config = "tests/data/qwen2.5/config.json";
    Ran a = NC(&env, "dump", "c", config), b = NC(&env, "dump", "c", config);
    cr_expect_gt(strlen(a.out), 5000u);
    cr_expect_str_eq(a.out, b.out);
}

Test(cli, cases_8_check_tells_the_three_bounds_of_threads_and_which_one_bound)
{
    static const char *const words[] = {", bound by ", "(affinity ", "cgroup quota ",
                                        "online "};
    cpu_set_t allowed, one;
    cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    Ran r = NC(&env, "check");
    for (size_t i = 0; i < countof(words); i++) {
        shows(r, words[i]);
    }
    if (CPU_COUNT(&allowed) > 1) {
        int cpu = 0;
        while (!CPU_ISSET(cpu, &allowed)) {
            cpu++;
        }
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
        shows(NC(&env, "check"), "1, bound by affinity (affinity 1");
    }
}

Test(cli, check_finds_a_working_compiler)
{
    shows(NC(&env, "check"), "compiled, loaded, run and right");
}

/* ---- usage: status 2 ---- */

Test(cli, usage_errors)
{
    const char *path = file("five.ncg", FIVE);
    refused(NC(&env, "frobnicate"), 2, "there is no command 'frobnicate'");
    refused(NC(&env, "dump"), 2, "say what to dump");
    refused(NC(&env, "dump", "nonsense"), 2, "there is no 'nonsense' to dump");
    refused(NC(&env, "dump", "graph"), 2, "say of which model");
    refused(NC(&env, "dump", "graph", path, "--without=magic"), 2, "there is no stage 'magic'");
    refused(NC(&env, "dump", "graph", path, "--seq", "-1"), 2, "takes a whole number");
    refused(NC(&env, "dump", "graph", path, "--seq", "many"), 2, "takes a whole number");
    refused(NC(&env, "dump", "graph", path, "--set", "seq"), 2, "NAME=N");
    refused(NC(&env, "dump", "graph", path, "--format", "xml"), 2, "--format cannot be 'xml'");
    refused(NC(&env, "dump", "graph", path, "--logits", "some"), 2,
            "--logits cannot be 'some'");
    refused(NC(&env, "eval"), 2, "say which model");
    refused(NC(&env, "eval", path, "--by", "magic"), 2, "there is no way 'magic'");
    refused(NC(&env, "eval", path, "--seed", "x"), 2, "--seed takes a number");
}

/* ---- bad input: status 1, one sentence ---- */

Test(cli, unreadable_files)
{
    refused(NC(&env, "dump", "graph", "no/such/file.ncg"), 1, "no/such/file.ncg");
    refused(NC(&env, "dump", "graph", dir.path), 1, "config.json");
    refused(NC(&env, "dump", "graph", "no/such/config.json"), 1, "no/such/config.json");
}

Test(cli, malformed_graphs_name_file_and_line)
{
    refused(NC(&env, "dump", "graph",
               file("a.ncg", "graph g\nx = input f32[2]\ny = frob x\nreturn y=y\n")),
            1, "a.ncg:3:");
    refused(NC(&env, "dump", "graph",
               file("b.ncg", "graph g\nx = input f32[2]\ny = add x, z\nreturn y=y\n")),
            1, "b.ncg:3:");
    refused(NC(&env, "dump", "graph", file("c.ncg", "")), 1, "c.ncg:");
    refused(NC(&env, "dump", "graph",
               file("d.ncg",
                    "graph g\nx = input f32[2]\nw = input f32[3]\ny = add x, w\nreturn y=y\n")),
            1, "d.ncg:4:");
}

Test(cli, malformed_configs_name_file_and_field)
{
    refused(NC(&env, "dump", "graph", file("config.json", "{}")), 1, "config.json");
    refused(NC(&env, "dump", "graph", file("config.json", "{\"hidden_size\": -1")), 1,
            "config.json");
}

Test(cli, sizes_that_do_not_fit_are_found_before_anything_runs)
{
    const char *path =
        file("slice.ncg",
             "graph g\nx = input f32[seq]\ny = slice x axis=0 start=2 stop=seq\nreturn y=y\n");
    shows(NC(&env, "eval", path, "--seq", "3"), "y: f32[1]");
    refused(NC(&env, "eval", path, "--seq", "1"), 1, "slice");
    refused(NC(&env, "eval", path, "--set", "rows=1"), 1, "no symbol 'rows'");
}

Test(cli, odd_paths_are_only_paths)
{
    static const char *const names[] = {"a b.ncg",       "quote'\".ncg",
                                        "-dash.ncg",     "q?#%41.ncg",
                                        "new\nline.ncg", "\xc3\xa9\xe4\xb8\xad.ncg"};
    for (size_t i = 0; i < countof(names); i++) {
        shows(NC(&env, "eval", "--seq", "1", file(names[i], FIVE)), "z: f32[1, 8]");
    }
}
