/* library_first_use.c - a command that runs a model builds its library at the first use, says so, and finds
 * it from then on; whatever the library depends on makes it another one. */
#include "tests/cli_live.h"
#include "tests/db_util.h"
#include "tests/folder_fixture.h"
#include "tests/library_util.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static TestModel model;
static TestLibrary library;
static const char *db;

/* A cache with the objects and answers of the tests' own, and without its libraries. */
static void use_new_cache(void)
{
    static const char *const parts[] = {"obj", "cc"};
    Cache real;
    cache_open(&env, &real, NULL);
    for (size_t i = 0; i < countof(parts); i++) {
        char from[PATH_MAX];
        cr_assert(realpath(arena_printf(&env.model, "%s/%s", real.dir, parts[i]), from));
        cr_assert_eq(symlink(from, temp_path(&dir, parts[i])), 0);
    }
    setenv("NANOCOMPILE_CACHE", dir.path, 1);
}

static void begin(void)
{
    start();
    use_new_cache();
    test_model_open(&model, TINY);
    library = (TestLibrary){0};
    library_tables_test(&library, &model);
    db = arena_str(&env.model, temp_path(&dir, "s.db"));
}

static void end(void)
{
    test_model_close(&model);
    stop();
}

TestSuite(library_first_use, .init = begin, .fini = end, .timeout = 600);

#define SCORE(...) \
    TALK(&env, NULL, "perplexity", "--text", TINY "/heldout.txt", "--tokens", "80", __VA_ARGS__)

static const char *first(Talked t)
{
    tells(t, "[built a library of ");
    return t.said;
}

static const char *later(Talked t)
{
    cr_assert_eq(t.status, 0, "%s", t.told);
    cr_assert_not(strstr(t.told, "[built"), "%s", t.told);
    return t.said;
}

Test(library_first_use, a_model_is_built_once_and_then_found)
{
    const char *said = first(SCORE("-m", TINY, "--no-db"));
    cr_assert_str_eq(later(SCORE("-m", TINY, "--no-db")), said);
    cr_assert_str_eq(later(SCORE("-m", TINY, "--no-db", "--by=lib")), said);
    later(TALK(&env, NULL, "run", "-m", TINY, "--no-db", "--max-tokens", "2", "x"));
    later(SCORE("-m", TINY, "--by=c"));
    later(SCORE("-m", TINY, "--naive"));
}

Test(library_first_use, another_context_other_threads_or_storage_are_another_library)
{
    const char *said = first(SCORE("-m", TINY, "--no-db"));
    first(SCORE("-m", TINY, "--no-db", "--context", "100"));
    first(SCORE("-m", TINY, "--no-db", "--threads", "1"));
    cr_assert_str_eq(first(SCORE("-m", TINY, "--no-db", "--f32")), said);
    later(SCORE("-m", TINY, "--no-db", "--f32"));
    later(SCORE("-m", TINY, "--no-db"));
}

static const char *copy_of_model(char changed)
{
    static const char *const files[] = {"config.json", "tokenizer.json", "model.safetensors"};
    const char *to = arena_printf(&env.model, "%s/copy", dir.path);
    Err err;
    cr_assert(os_mkdirs(to, &err));
    for (size_t i = 0; i < countof(files); i++) {
        char *text;
        size_t len;
        cr_assert(os_read_file(&env.model, arena_printf(&env.model, TINY "/%s", files[i]),
                               1 << 28, &text, &len, &err));
        text[len - 1] ^= i == 2 ? changed : 0;
        cr_assert(
            os_write_file(arena_printf(&env.model, "%s/%s", to, files[i]), text, len, &err));
    }
    return to;
}

Test(library_first_use, a_copy_of_the_model_has_its_library_and_other_weights_have_another)
{
    const char *said = first(SCORE("-m", TINY, "--no-db"));
    cr_assert_str_eq(later(SCORE("-m", copy_of_model(0), "--no-db")), said);
    first(SCORE("-m", copy_of_model(1), "--no-db"));
    cr_assert_str_eq(later(SCORE("-m", TINY, "--no-db")), said);
}

Test(library_first_use, the_databases_answers_are_part_of_it)
{
    const char *said = first(SCORE("-m", TINY, "--threads", "2", "--no-db"));
    library_record_winner(&library, db, 1, 4, "split n 16 peel; order n.o m k n.i; par n.o",
                          true);
    first(SCORE("-m", TINY, "--threads", "2", "--db", db));
    later(SCORE("-m", TINY, "--threads", "2", "--db", db));
    cr_assert_str_eq(later(SCORE("-m", TINY, "--threads", "2", "--no-db")), said);
    Db *opened = open_db(&env, db, DB_READ);
    cr_assert_eq(db_count(opened, DB_T_BUILD), 0, "only `build` is recorded");
    db_close(opened);
}

Test(library_first_use, its_pack_lies_beside_it)
{
    first(SCORE("-m", TINY, "--no-db"));
    Talked t = SCORE("-m", TINY, "--no-db", "--pack-file");
    tells(t, ".pack: 4.3 MB written for the next start.");
    tells(t, arena_printf(&env.model, "%s/lib/", dir.path));
    Talked again = SCORE("-m", copy_of_model(0), "--no-db", "--pack-copy");
    cr_assert_str_eq(again.said, t.said);
    cr_assert_not(strstr(again.told, ".pack"), "%s", again.told);
}

Test(library_first_use, what_only_one_of_them_has_does_not_go_with_the_other)
{
    declines(SCORE("-m", TINY, "--naive", "--pack-file"), 2, "are for libraries");
    declines(SCORE("-m", TINY, "--by=interp", "--db", db), 2, "are for libraries");
    declines(SCORE("--lib", "x.so", "--no-db"), 2, "--lib runs what was built");
    declines(SCORE("-m", TINY, "--by=lib", "--naive"), 2, "--by lib goes without");
    declines(SCORE("-m", TINY, "--no-db", "--db", db), 2, "one of --db and --no-db");
    declines(SCORE("-m", TINY, "--db", "no/such.db"), 1, "no/such.db");
}
