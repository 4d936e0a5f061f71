/* cli_explain.c - `nanocompile explain` as its user meets it: a hit with its evidence, a miss with the first
 * field that differs, what went stale or is not legal any more, the code that comes out. Databases are
 * recorded by hand, for this machine and its compiler. */
#include "tests/cli_util.h"
#include "tests/db_fixture.h"
#include "tests/db_util.h"
#include "tests/schedule_util.h"
#include "tuner/evidence.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PRODUCT                                                                                \
    "graph product\nx = input f32[m, 24]\nw = weight f32[40, 24]\nt = permute w perm=[1, 0]\n" \
    "y = matmul x, t\nreturn y=y\n"
#define WINNER "split n 8 pad; order m n.o k n.i; vec n.i; fma; pack b n.o,k,n.i"

static const char *graph;
static DbMachine machine;
static DbToolchain toolchain;

static void begin(void)
{
    Machine m;
    Toolchain tc;
    start();
    graph = file_in(&env, &dir, "product.ncg", PRODUCT);
    machine_read(&env, "", &m);
    toolchain_find(&env, &tc);
    db_machine_here(&env, &env.model, "", &m, &machine);
    toolchain = toolchain_row(&env.model, &tc);
}

TestSuite(cli_explain, .init = begin, .fini = stop, .timeout = 300);

/* Behind these words: the product on two threads, at 64 rows, where the story took place. */
#define ASK(...) \
    NC(&env, "explain", graph, "--set", "m=64", "--threads", "2", "--db", path, __VA_ARGS__)

static json_t *asked(Ran r)
{
    json_error_t why;
    json_t *root = json_loads(r.out, 0, &why);
    cr_assert_eq(r.status, 0, "%s", r.out);
    cr_assert(root, "%s: %s", why.text, r.out);
    return root;
}

static const char *text_of(const json_t *root, const char *table, int row, const char *name)
{
    const json_t *cell =
        json_object_get(json_array_get(json_object_get(root, table), (size_t)row), name);
    const char *text = json_string_value(cell);
    return text ? arena_str(&env.model, text) : "";
}

/* The answer's column of this name. */
static const char *answer(const char *name)
{
    json_t *root = asked(ASK("--format", "json", "--show", "answer"));
    const char *text = text_of(root, "answer", 0, name);
    json_decref(root);
    return text;
}

static Hash hash_here(const char *schedule)
{
    Toolchain tc;
    const char *text = NC(&env, "dump", "keys", graph).out;
    const Kernel *k = kernel_from(&env, text);
    toolchain_find(&env, &tc);
    return emit_hash(&env, kernel_under(&env, k, schedule), tc.target);
}

static Story won(void)
{
    Story s = story();
    s.kernel = NC(&env, "dump", "keys", graph).out;
    s.machine = &machine, s.toolchain = &toolchain;
    s.schedule = WINNER;
    s.c_hash = hash_here(WINNER);
    return s;
}

static void record(const Story *s)
{
    Db *db = open_db(&env, path, DB_WRITE);
    tell(db, s);
    db_close(db);
}

/* ---- answers ---- */

Test(cli_explain, a_hit_shows_what_is_built_and_on_what_evidence)
{
    Story s = won();
    char hex[33];
    record(&s);
    cr_expect_str_eq(answer("answer"), "hit");
    cr_expect_str_eq(answer("schedule"), WINNER);
    hash_hex(s.c_hash, hex);
    cr_expect_str_eq(answer("c_hash"), hex);
    Ran r = ASK("--show", "key,evidence,steps");
    shows(r, "FASTER");
    shows(r, "s0=33..128");
    shows(r, "3  vec n.i");
    r = ASK("--show", "key");
    cr_expect_null(strstr(r.out, "first"), "%s", r.out);
}

Test(cli_explain, acceptance_11_a_miss_names_the_first_field_that_differs)
{
    Story s = won();
    DbToolchain other = toolchain;
    other.flags = "-O1";
    s.toolchain = &other;
    record(&s);
    cr_expect_str_eq(answer("answer"), "miss");
    cr_expect_str_eq(answer("field"), "compiler flags");
    shows(ASK("--show", "answer"), "differs in compiler flags: '-O1' there");
    shows(ASK("--show", "key"), "-O1         first");
    shows(ASK("--regime", "hot"), "differs in regime: 'cold' there, 'hot' here");
    shows(ASK("--set", "m=7"), "differs in sizes: 's0=33..128' there, 's0=7' here");
    shows(ASK("--threads", "1"), "differs in threads");
    const char *wider = file_in(&env, &dir, "wider.ncg",
                                "graph wider\nx = input f32[m, 24]\nw = weight f32[24, 41]\n"
                                "y = matmul x, w\nreturn y=y\n");
    shows(NC(&env, "explain", wider, "--db", path), "No winner has this kernel");
}

Test(cli_explain, what_was_tuned_in_vain_is_kept)
{
    Story s = won();
    s.wins = false;
    record(&s);
    cr_expect_str_eq(answer("answer"), "kept");
    shows(ASK("--show", "evidence,answer"), "none proved faster than the default");
}

Test(cli_explain, acceptance_12_other_c_than_was_measured_is_stale)
{
    Story s = won();
    s.c_hash = hash_str("other C");
    record(&s);
    cr_expect_str_eq(answer("answer"), "stale");
    cr_expect_str_neq(answer("schedule"), WINNER);
    shows(ASK("--show", "answer"), "is not the C that was measured");
}

Test(cli_explain, acceptance_12_a_schedule_that_is_not_legal_any_more_is_refused)
{
    Story s = won();
    s.schedule = "vec m";
    record(&s);
    cr_expect_str_eq(answer("answer"), "refused");
    cr_expect_str_neq(answer("schedule"), "vec m");
    cr_expect_str_neq(answer("why"), "");
    unlink(path);
    s.schedule = "no such step";
    record(&s);
    cr_expect_str_eq(answer("answer"), "refused");
}

/* From the winner to a .sched file, into another database, to the same C. */
Test(cli_explain, an_exported_winner_gives_the_same_c_elsewhere)
{
    Story s = won();
    record(&s);
    const char *tuned = answer("c_hash"), *elsewhere = temp_path(&dir, "else.db");
    const char *file = arena_str(&env.model, temp_path(&dir, "w.sched"));
    elsewhere = arena_str(&env.model, elsewhere);
    shows(SCHEDB(&env, "export", "--db", path, "-o", file), "");
    shows(SCHEDB(&env, "import", "--db", elsewhere, file), ": 1 rows are new");
    path = elsewhere;
    cr_expect_str_eq(answer("answer"), "imported");
    cr_expect_str_eq(answer("schedule"), WINNER);
    cr_expect_str_eq(answer("c_hash"), tuned);
    set_sql(path,
            "UPDATE imported SET c_hash = replace(c_hash, substr(c_hash, 1, 8), '00000000')");
    cr_expect_str_eq(answer("answer"), "stale");
}

/* Through programs; db_lookup has the same of the library. */
Test(cli_explain, acceptance_17_other_records_change_no_answer)
{
    Story s = won(), other = won();
    record(&s);
    const char *before = ASK("--format", "json").out;
    other.kernel = "another kernel\n", other.seed = 50;
    record(&other);
    cr_expect_str_eq(ASK("--format", "json").out, before);
    other = won(), other.seed = 60;
    DbMachine far = machine;
    far.n_cores = 64;
    other.machine = &far;
    record(&other);
    cr_expect_str_eq(ASK("--format", "json").out, before);
}

Test(cli_explain, acceptance_10_without_a_database_everything_misses)
{
    cr_expect_str_eq(answer("answer"), "miss");
    cr_expect_str_eq(answer("field"), "database");
    shows(ASK("--show", "answer"), "There is no schedule database");
    file_in(&env, &dir, "s.db", "I am a text file, and a rather short one");
    shows(ASK("--show", "answer"), "is no schedule database");
}

/* ---- what comes out ---- */

Test(cli_explain, nests_after_each_step_and_the_c)
{
    Story s = won();
    record(&s);
    Ran r = ASK("--show", "loops,c");
    shows(r, "# no steps\nfor m");
    shows(r, "# split n 8 pad\n");
    shows(r, "# " WINNER "\n");
    json_t *root = asked(ASK("--show", "c", "--format", "json"));
    Ran c = NC(&env, "dump", "c", graph, "--schedule", WINNER);
    cr_expect_str_eq(text_of(root, "c", 0, "text"), c.out);
    json_decref(root);
}

static bool has_objdump(void)
{
    return system("objdump --version > /dev/null 2>&1") == 0;
}

Test(cli_explain, machine_code_where_objdump_is_installed)
{
    if (!has_objdump()) {
        cr_skip_test("objdump is not installed");
    }
    Ran r = ASK("--show", "asm");
    shows(r, "Disassembly of section .text");
    shows(r, "<nc_");
    cr_expect_null(strstr(r.out, "file format"), "%s", r.out);
}

/* A PATH with the compiler's own helpers, and nothing else. */
static const char *bare_path(void)
{
    const char *bin = arena_str(&env.model, temp_path(&dir, "bin"));
    const char *links =
        "mkdir -p %s && for t in as ld; do ln -sf \"$(command -v $t)\" %s; done";
    cr_assert_eq(system(arena_printf(&env.model, links, bin, bin)), 0);
    return bin;
}

Test(cli_explain, without_objdump_one_sentence)
{
    const char *bin = bare_path(), *was = arena_str(&env.model, getenv("PATH"));
    setenv("CC", toolchain.path, 1); /* of this test's process */
    setenv("PATH", bin, 1);
    Ran r = ASK("--show", "asm");
    setenv("PATH", was, 1);
    shows(r, "No disassembly: ");
    shows(r, "binutils");
}

Test(cli_explain, the_roofline_stands_on_recorded_peaks)
{
    Story s = won();
    record(&s);
    json_t *root = asked(ASK("--show", "roofline", "--format", "json"));
    const json_t *row = json_array_get(json_object_get(root, "roofline"), 0);
    double bytes = 4.0 * (64 * 24 + 40 * 24);
    cr_expect_eq(json_number_value(json_object_get(row, "read_bytes")), bytes);
    cr_expect_eq(json_number_value(json_object_get(row, "written_bytes")), 4 * 64 * 40);
    cr_expect_eq(json_number_value(json_object_get(row, "flops")), 2 * 64 * 40 * 24);
    cr_expect_float_eq(json_number_value(json_object_get(row, "memory_ns")), bytes / 11, 0.1);
    cr_expect_float_eq(json_number_value(json_object_get(row, "flops_ns")), 122880.0 / 40, 0.1);
    cr_expect_str_eq(text_of(root, "roofline", 0, "bound_by"), "arithmetic");
    cr_expect_float_eq(json_number_value(json_object_get(row, "ns")), 502, 1);
    json_decref(root);
    unlink(path);
    shows(ASK("--show", "roofline"), "none; --peaks measures them");
}

/* ---- call sites ---- */

Test(cli_explain, call_sites_are_those_of_tune)
{
    Ran all = NC(&env, "explain", "--db", path);
    shows(all, "decode matmul m=1 n=896 k=896");
    shows(all, "prefill matmul+epilogue m=64 n=4864 k=896");
    Ran one = NC(&env, "explain", "--db", path, "--kernel", "decode matmul m=1 n=128");
    shows(one, "key:\n");
    shows(NC(&env, "explain", "--shape", "m=5,n=40,k=24", "--db", path),
          "matmul m=5 n=40 k=24");
    shows(ASK("-k", "n=40", "--format", "csv"), "call_site,answer,field,why");
    shows(ASK("-k", "matmul", "--format", "md"), "## matmul m=64 n=40 k=24\n");
}

Test(cli_explain, refuses_in_one_sentence)
{
    refused(ASK("-k", "softmax"), 1, "no kernel has the number, kind or hash 'softmax'");
    refused(NC(&env, "explain", "--kernel", "("), 1, "is no pattern");
    refused(ASK("--show", "key,everything"), 2, "there is no section 'everything'");
    refused(ASK("--shape", "m=1,n=2,k=3"), 2, "a MODEL goes without --shape and --model");
    refused(NC(&env, "explain", "--shape", "m=0,n=2,k=3"), 2, "--shape takes m=M,n=N,k=K");
    refused(NC(&env, "explain", "/nowhere.ncg"), 1, "/nowhere.ncg");
}
