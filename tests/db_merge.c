/* db_merge.c - databases together, and out and in again: acceptance 18, Merge(A, B) =
 * Merge(B, A) = Merge(Merge(A, B), B); export and import elsewhere give the same rows, or
 * none. */
#include "tests/db_util.h"
#include "tests/folder_fixture.h"

#include <jansson.h>
#include <string.h>

TestSuite(db_merge, .init = start, .fini = stop, .timeout = 300);

static const char *in_dir(const char *name)
{
    return arena_str(&env.model, temp_path(&dir, name));
}

/* A database with these stories. */
static const char *with(const char *name, int n, const Story *s)
{
    const char *path = in_dir(name);
    Db *db = open_db(&env, path, DB_WRITE);
    for (int i = 0; i < n; i++) {
        tell(db, &s[i]);
    }
    db_close(db);
    return path;
}

/* A new database with what these have, one after the other. */
static const char *merged(const char *name, int n, const char *const *from)
{
    const char *path = in_dir(name);
    for (int i = 0; i < n; i++) {
        Ran r = SCHEDB(&env, "merge", path, from[i]);
        cr_assert_eq(r.status, 0, "%s", r.out);
    }
    return contents_at(&env, path);
}

static Story told(uint64_t seed, int n_trials, const char *flags)
{
    Story s = story();
    s.seed = seed, s.n_trials = n_trials, s.flags = flags;
    return s;
}

/* A database with one story. */
static const char *with_one(const char *name)
{
    Story s = told(1, 4, "-O3");
    return with(name, 1, &s);
}

Test(db_merge, acceptance_18_order_and_repetition_do_not_matter)
{
    Story in_a[] = {told(1, 4, "-O3"), told(2, 3, "-O2"), told(5, 4, "-O3")};
    Story in_b[] = {told(3, 5, "-O3"), told(2, 3, "-O2")};
    Story in_c[] = {told(4, 1, "-O1")};
    const char *a = with("a.db", 3, in_a), *b = with("b.db", 2, in_b),
               *c = with("c.db", 1, in_c);
    const char *ab = merged("ab.db", 2, (const char *[]){a, b});
    cr_expect_str_eq(merged("ba.db", 2, (const char *[]){b, a}), ab);
    cr_expect_str_eq(merged("abb.db", 3, (const char *[]){a, b, b}), ab);
    cr_expect_str_eq(merged("abab.db", 4, (const char *[]){a, b, a, b}), ab);
    const char *abc = merged("abc.db", 3, (const char *[]){a, b, c});
    cr_expect_str_eq(merged("cba.db", 3, (const char *[]){c, b, a}), abc);
    cr_expect_str_eq(merged("ab-c.db", 2, (const char *[]){in_dir("ab.db"), c}), abc);
    is_sound(&env, in_dir("abc.db"));
}

Test(db_merge, merging_itself_adds_nothing)
{
    const char *a = with_one("a.db"), *before = contents_at(&env, a);
    shows(SCHEDB(&env, "merge", a, a), ": 0 rows are new, ");
    cr_expect_str_eq(contents_at(&env, a), before);
}

/* A run that went on after the other database was copied is no conflict: the longer one
 * stands. */
Test(db_merge, a_run_that_went_on)
{
    const char *a = with_one("a.db"), *b = with_one("b.db");
    set_sql(
        b,
        "PRAGMA foreign_keys = 1; DELETE FROM tie_set; DELETE FROM winner_range; DELETE FROM "
        "winner; DELETE FROM pair WHERE duel > 1; DELETE FROM process WHERE duel > 1; DELETE "
        "FROM "
        "duel WHERE idx > 1; DELETE FROM trial_knob WHERE trial > 2; DELETE FROM trial WHERE "
        "idx > "
        "2; UPDATE run SET ended_ns = NULL, ending = NULL; UPDATE run_task SET ended_ns = "
        "NULL, "
        "ending = NULL");
    const char *full = contents_at(&env, a);
    Ran r = SCHEDB(&env, "merge", b, a);
    shows(r, " 0 conflicts");
    cr_expect_str_eq(contents_at(&env, b), full);
}

Test(db_merge, conflicts_are_told_and_settled_alike)
{
    const char *a = with_one("a.db"), *b = with_one("b.db");
    set_sql(b, "UPDATE trial SET why = 'element 4 differs' WHERE idx = 1; UPDATE pair SET a_ns "
               "= a_ns + 1 "
               "WHERE duel = 1 AND idx = 3; UPDATE trial_knob SET choice = 0 WHERE trial = 2 "
               "AND knob = 0");
    const char *ab = merged("ab.db", 2, (const char *[]){a, b}),
               *ba = merged("ba.db", 2, (const char *[]){b, a});
    cr_expect_str_eq(ab, ba);
    Ran r = SCHEDB(&env, "merge", a, b);
    shows(r, " 3 conflicts");
    shows(r,
          "Conflict in trial (run 1, idx 1): why of trial differs; the second file's stands.");
    shows(r, "Conflict in trial (run 1, idx 2): choice of trial_knob differs; the first file's "
             "stands.");
    shows(r,
          "Conflict in duel (run 1, idx 1): a_ns of pair differs; the second file's stands.");
    cr_expect_str_eq(contents_at(&env, a), ab);
}

/* What serves which sizes belongs to a winner: without it, it would serve all. */
Test(db_merge, a_winner_that_is_left_out_takes_nothing_with_it)
{
    const char *a = with_one("a.db"), *b = with_one("b.db");
    set_sql(b, "UPDATE duel SET b_c_hash = '00000000000000000000000000000000' WHERE stage = "
               "'title'; UPDATE winner SET schedule = 'vec z', c_hash = "
               "'00000000000000000000000000000000'");
    Ran r = SCHEDB(&env, "merge", a, b);
    shows(r, "A winner was left out");
    Db *db = open_db(&env, a, DB_READ);
    cr_expect_eq(db_count(db, DB_T_WINNER), 1);
    cr_expect_eq(db_count(db, DB_T_WINNER_RANGE), 1);
    db_close(db);
}

Test(db_merge, names_cannot_mean_two_things)
{
    Story s[] = {told(1, 1, "-O3")};
    const char *a = with("a.db", 1, s), *b = with("b.db", 1, s), *before = contents_at(&env, a);
    set_sql(b, "UPDATE kernel SET text = 'something else'");
    Ran r = SCHEDB(&env, "merge", a, b);
    cr_expect_eq(r.status, 1);
    cr_expect(strstr(r.out, "text of kernel"), "%s", r.out);
    cr_expect_str_eq(contents_at(&env, a), before);
}

Test(db_merge, what_is_no_database_is_not_merged)
{
    Story s[] = {told(1, 1, "-O3")};
    const char *a = with("a.db", 1, s), *before = contents_at(&env, a);
    const char *b = file_in(&env, &dir, "b.db", "hello, I am a text file");
    Ran r = SCHEDB(&env, "merge", a, b);
    cr_expect_eq(r.status, 1);
    cr_expect(strstr(r.out, "is no schedule database"), "%s", r.out);
    r = SCHEDB(&env, "merge", a, in_dir("gone.db"));
    cr_expect_eq(r.status, 1);
    cr_expect(strstr(r.out, "There is no schedule database"), "%s", r.out);
    cr_expect_str_eq(contents_at(&env, a), before);
}

/* ---- JSON ---- */

static const char *exported(const char *path, const char *name, const char *format)
{
    const char *out = in_dir(name);
    Ran r = SCHEDB(&env, "export", "--db", path, "--format", format, "-o", out);
    cr_assert_eq(r.status, 0, "%s", r.out);
    return out;
}

Test(db_merge, json_comes_back_as_it_was)
{
    Story s[] = {told(1, 4, "-O3"), told(2, 5, "-O2 \"quoted\" \\ und \xc3\xa4")};
    const char *a = with("a.db", 2, s), *b = in_dir("b.db");
    const char *json = exported(a, "a.json", "json");
    shows(SCHEDB(&env, "import", "--db", b, json), " 0 conflicts");
    cr_expect_str_eq(contents_at(&env, b), contents_at(&env, a));
    is_sound(&env, b);
    shows(SCHEDB(&env, "import", "--db", b, json), ": 0 rows are new");
    cr_expect_str_eq(read_text(&env, exported(b, "b.json", "json")), read_text(&env, json));
}

Test(db_merge, a_json_that_was_cut_or_changed_is_refused_whole)
{
    const char *json = read_text(&env, exported(with_one("a.db"), "a.json", "json"));
    const char *b = in_dir("b.db");
    static const struct {
        const char *from, *to, *words;
    } rows[] = {
        {"\n}\n", "", "not well-formed JSON"},
        {"\"nanocompile_schedules\": 3", "\"nanocompile_schedules\": 4",
         "no export of a schedule database"},
        {"\"status\": \"ok\"", "\"status\": \"fine\"", "CHECK constraint failed"},
        {"\"l2_bytes\": 1048576", "\"l2_bytes\": \"many\"", "cannot store TEXT value"},
        {"\"l2_bytes\": 1048576", "\"l2_bytes\": 1048577",
         "of machine is not what its id says"},
        {"\"wins\": 13", "\"wins\": 12", "was changed after it was recorded"},
        {"\"verdict\": \"FASTER\"", "\"verdict\": \"SLOWER\"",
         "a winner needs a title match that proved it faster"},
        {"\"verdict\": \"UNDECIDED\"", "\"verdict\": \"FASTER\"",
         "was changed after it was recorded"},
        {"\"machine\": [", "\"engine\": [", "FOREIGN KEY"},
    };
    SCHEDB(&env, "init", "--db", b);
    const char *empty = contents_at(&env, b);
    for (size_t i = 0; i < countof(rows); i++) {
        const char *at = strstr(json, rows[i].from);
        cr_assert(at, "row %zu", i);
        const char *bad = arena_printf(&env.model, "%.*s%s%s", (int)(at - json), json,
                                       rows[i].to, at + strlen(rows[i].from));
        Ran r = SCHEDB(&env, "import", "--db", b, file_in(&env, &dir, "bad.json", bad));
        cr_expect_eq(r.status, 1, "row %zu: %s", i, r.out);
        cr_expect(strstr(r.out, rows[i].words), "row %zu: no '%s' in %s", i, rows[i].words,
                  r.out);
        cr_expect(strstr(r.out, "bad.json"), "%s", r.out);
        cr_assert_str_eq(contents_at(&env, b), empty, "row %zu", i);
    }
}

/* ---- .sched ---- */

Test(db_merge, a_sched_file_serves_elsewhere)
{
    Story s[] = {told(1, 4, "-O3"), told(2, 4, "-O3")};
    s[1].kernel = "another kernel\n";
    const char *a = with("a.db", 2, s), *b = in_dir("b.db");
    const char *file = exported(a, "a.sched", "sched");
    const char *text = read_text(&env, file);
    cr_expect(strstr(text, "s0=33..128 => split n 103 pad; unroll n.i ; "), "%s", text);
    cr_expect(strstr(text, "\nend 2\n"), "%s", text);
    shows(SCHEDB(&env, "import", "--db", b, file), ": 2 rows are new.");
    shows(SCHEDB(&env, "import", "--db", b, file), ": 0 rows are new.");
    cr_expect_str_eq(read_text(&env, exported(b, "b.sched", "sched")), text);
    Db *db = open_db(&env, b, DB_READ);
    DbMachine m = story_machine(&s[0]);
    DbToolchain t = story_toolchain(&s[0]);
    int64_t size = 64;
    DbKey key = {s[0].kernel, &size, 1, 2, "cold", &m, &t};
    DbAnswer got;
    db_lookup(db, &env.model, &key, &got);
    cr_expect_eq(got.found, DB_IMPORTED_ROW);
    cr_expect_str_eq(got.imported.schedule, "split n 103 pad; unroll n.i");
    cr_expect(hash_eq(got.imported.c_hash, hash_str("split n 103 pad; unroll n.i")));
    db_close(db);
}

Test(db_merge, a_sched_file_has_one_signature)
{
    Story s[] = {told(1, 4, "-O3"), told(2, 4, "-O2")};
    const char *a = with("a.db", 2, s);
    Ran r = SCHEDB(&env, "export", "--db", a);
    cr_expect_eq(r.status, 1);
    cr_expect(strstr(r.out, "several signatures"), "%s", r.out);
    DbMachine m = story_machine(&s[1]);
    DbToolchain t = story_toolchain(&s[1]);
    r = SCHEDB(&env, "export", "--db", a, "--signature",
               db_signature(&env.model, &m, &t, 2, "cold"));
    shows(r, "split n 203 pad");
    cr_expect_null(strstr(r.out, "split n 103 pad"));
}

Test(db_merge, a_broken_sched_file_brings_nothing)
{
    const char *text = read_text(&env, exported(with_one("a.db"), "a.sched", "sched"));
    const char *b = in_dir("b.db");
    SCHEDB(&env, "init", "--db", b);
    const char *empty = contents_at(&env, b);
    for (size_t len = 0; len < strlen(text); len += 7) {
        const char *bad = file_in(&env, &dir, "bad.sched", arena_strn(&env.model, text, len));
        Ran r = SCHEDB(&env, "import", "--db", b, bad);
        cr_expect_eq(r.status, 1, "%zu bytes: %s", len, r.out);
        cr_expect(strstr(r.out, "bad.sched:"), "%s", r.out);
    }
    cr_expect_str_eq(contents_at(&env, b), empty);
}

/* ---- T4, CSV ---- */

static json_t *loaded(const char *path)
{
    json_error_t why;
    json_t *root = json_load_file(path, 0, &why);
    cr_assert(root, "%s", why.text);
    return root;
}

static const char *string_in(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    cr_assert(text, "no text '%s'", name);
    return text;
}

static const char *const invalidities[] = {"timeout",     "compile",     "runtime",
                                           "correctness", "constraints", "correct"};

static void check_result(const json_t *r)
{
    const json_t *times = json_object_get(r, "times"),
                 *list = json_object_get(r, "measurements");
    const char *invalidity = string_in(r, "invalidity");
    bool known = false;
    cr_assert(json_is_object(json_object_get(r, "configuration")));
    cr_assert(json_is_object(times));
    for (size_t i = 0; i < countof(invalidities); i++) {
        known = known || !strcmp(invalidity, invalidities[i]);
    }
    cr_expect(known, "%s", invalidity);
    cr_expect_eq(json_number_value(json_object_get(r, "correctness")),
                 !strcmp(invalidity, "correct"));
    cr_expect(json_is_array(json_object_get(times, "runtimes")));
    static const char *const numbers[] = {"compilation_time", "framework", "search_algorithm",
                                          "validation"};
    for (size_t i = 0; i < countof(numbers); i++) {
        cr_expect(json_is_number(json_object_get(times, numbers[i])), "%s", numbers[i]);
    }
    cr_expect(json_is_array(json_object_get(r, "objectives")));
    cr_expect(json_is_string(json_object_get(r, "timestamp")));
    cr_assert_eq(json_array_size(list), 1);
    const json_t *m = json_array_get(list, 0);
    cr_expect_str_eq(string_in(m, "name"), "time");
    cr_expect_str_eq(string_in(m, "unit"), "ms");
    cr_expect(json_object_get(m, "value"));
}

Test(db_merge, t4_keeps_the_schema)
{
    Story s[] = {told(1, 4, "-O3"), told(2, 3, "-O2")};
    json_t *root = loaded(exported(with("a.db", 2, s), "a.t4.json", "t4"));
    cr_expect_str_eq(string_in(root, "schema_version"), "1.0.0");
    const json_t *results = json_object_get(root, "results");
    cr_assert_eq(json_array_size(results), 7);
    for (size_t i = 0; i < 7; i++) {
        check_result(json_array_get(results, i));
    }
    const json_t *first = json_array_get(results, 0), *second = json_array_get(results, 1);
    const json_t *runtimes = json_object_get(json_object_get(first, "times"), "runtimes");
    cr_expect_eq(json_array_size(runtimes), 9);
    cr_expect_float_eq(json_number_value(json_array_get(runtimes, 0)), 0.0005, 0.00001);
    cr_expect_eq(
        json_integer_value(json_object_get(json_object_get(first, "configuration"), "tile")),
        2);
    cr_expect_str_eq(string_in(second, "invalidity"), "correctness");
    cr_expect_str_eq(string_in(json_object_get(second, "configuration"), "pack"), "panels");
    json_decref(root);
}

Test(db_merge, t4_metadata_say_where_and_by_what)
{
    Story s[] = {told(1, 4, "-O3"), told(2, 3, "-O2"), told(3, 1, "-O3")};
    json_t *root = loaded(exported(with("a.db", 3, s), "a.meta.json", "t4-metadata"));
    cr_expect_str_eq(string_in(root, "schema_version"), "1.0.0");
    const json_t *all = json_object_get(root, "metadata"),
                 *hardware = json_object_get(all, "hardware"),
                 *environment = json_object_get(all, "environment"),
                 *machines = json_object_get(hardware, "hardware_description"),
                 *made_by = json_object_get(environment, "requirements");
    cr_expect_str_eq(string_in(hardware, "operating_system"), "Linux 6.1");
    cr_assert_eq(json_array_size(machines), 1);
    cr_expect_str_eq(string_in(json_array_get(machines, 0), "brand"), "A CPU");
    cr_expect_eq(json_integer_value(json_object_get(json_array_get(machines, 0), "n_cores")),
                 2);
    cr_assert_eq(json_array_size(made_by), 2); /* two compilers' flags */
    cr_expect(strstr(json_string_value(json_array_get(made_by, 0)), "gcc (Debian) 12.2.0"));
    cr_expect_str_eq(string_in(json_object_get(environment, "device_query"), "time_unit"),
                     "ms");
    json_decref(root);
}

/* Kernel Tuner's own names of what an instance must have. */
static void check_instance(const json_t *x)
{
    static const char *const numbers[] = {"compile_time", "verification_time", "benchmark_time",
                                          "strategy_time", "framework_time"};
    for (size_t i = 0; i < countof(numbers); i++) {
        cr_expect(json_is_number(json_object_get(x, numbers[i])), "%s", numbers[i]);
    }
    cr_expect(json_is_array(json_object_get(x, "times")));
    string_in(x, "timestamp");
}

Test(db_merge, a_cache_of_kernel_tuner_keeps_its_schema)
{
    json_t *root = loaded(exported(with_one("a.db"), "a.kt.json", "kernel-tuner"));
    cr_expect_str_eq(string_in(root, "schema_version"), "1.1.0");
    cr_expect_str_eq(string_in(root, "kernel_name"), "matmul 64x32");
    cr_expect_str_eq(string_in(root, "problem_size"), "s0=64");
    cr_expect_str_eq(string_in(root, "objective"), "time");
    cr_expect(strstr(string_in(root, "device_name"), "A CPU"));
    const json_t *keys = json_object_get(root, "tune_params_keys"),
                 *params = json_object_get(root, "tune_params"),
                 *cache = json_object_get(root, "cache"), *x;
    cr_assert_eq(json_array_size(keys), 2);
    cr_expect_str_eq(json_string_value(json_array_get(keys, 0)), "tile");
    cr_expect_eq(json_array_size(json_object_get(params, "tile")), 3);
    cr_expect_eq(json_array_size(json_object_get(params, "pack")), 2);
    cr_assert_eq(json_object_size(cache), 4);
    cr_assert((x = json_object_get(cache, "2,none")));
    check_instance(x);
    cr_expect_float_eq(json_number_value(json_object_get(x, "time")), 0.0005, 0.00001);
    cr_expect_eq(json_array_size(json_object_get(x, "times")), 9);
    cr_expect_float_eq(json_number_value(json_object_get(x, "GFLOP/s")), 2090, 50);
    cr_expect_eq(json_integer_value(json_object_get(x, "tile")), 2);
    cr_assert((x = json_object_get(cache, "4,panels")));
    check_instance(x);
    cr_expect_str_eq(string_in(x, "time"), "RuntimeFailedConfig");
    json_decref(root);
}

Test(db_merge, a_cache_of_kernel_tuner_holds_one_search)
{
    Story s[] = {told(1, 4, "-O3"), told(2, 4, "-O3")};
    const char *a = with("a.db", 2, s);
    Ran r = SCHEDB(&env, "export", "--db", a, "--format", "kernel-tuner");
    cr_expect_eq(r.status, 1);
    cr_expect(strstr(r.out, "say which by --run and --task: run 1 task "), "%s", r.out);
    shows(SCHEDB(&env, "export", "--db", a, "--format", "kernel-tuner", "--run", "2"),
          "\"cache\": {");
    r = SCHEDB(&env, "export", "--db", a, "--format", "kernel-tuner", "--run", "7");
    cr_expect(strstr(r.out, "has no such search"), "%s", r.out);
}

static int count_of(const char *text, char c)
{
    int n = 0;
    for (; *text; text++) {
        n += *text == c;
    }
    return n;
}

Test(db_merge, csv_of_any_view)
{
    const char *a = with_one("a.db");
    const char *text = read_text(&env, exported(a, "a.csv", "csv"));
    cr_expect(!strncmp(text, "run,trial,task,label,", 21), "%s", text);
    cr_expect(strstr(text, ",ok,won,"), "%s", text);
    Ran r = SCHEDB(&env, "export", "--db", a, "--format", "csv", "--view", "v_pairs");
    cr_expect_eq(count_of(r.out, '\n'), 1 + 144);
    r = SCHEDB(&env, "export", "--db", a, "--format", "csv", "--view", "v_nothing");
    cr_expect_eq(r.status, 1);
    cr_expect(strstr(r.out, "has no table or view 'v_nothing'"), "%s", r.out);
}
