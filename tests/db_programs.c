/* db_programs.c - acceptance 10 through the programs: whatever is wrong with the database, tune, schedb and
 * report say it in one sentence and leave the file as it is, and what is built goes on with the default. */
#include "tests/cli_util.h"
#include "tests/db_fixture.h"
#include "tests/db_util.h"
#include "tests/place_util.h"
#include "tests/report_util.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(db_programs, .init = start, .fini = stop, .timeout = 300);

/* ---- the programs ---- */

static Ran tunes(const char *budget)
{
    return TUNE(&env, "--quiet", "--shape", "m=5,n=40,k=24", "--budget", budget, "--threads",
                "1", "--db", path);
}

static void one_sentence(Ran r, const char *words)
{
    refused(r, 1, words);
    cr_expect(strstr(r.out, ".\n"), "no sentence: %s", r.out);
}

/* Builds do without. */
static void falls_back(const char *words)
{
    Ran r = NC(&env, "explain", "--shape", "m=5,n=40,k=24", "--db", path);
    shows(r, "answer    miss");
    shows(r, "field     database");
    shows(r, words);
    shows(r, "schedule  "); /* the default's */
}

static void all_refuse(const char *words)
{
    one_sentence(tunes("2trials"), words);
    one_sentence(SCHEDB(&env, "verify", "--db", path), words);
    one_sentence(SCHEDB(&env, "export", "--db", path), words);
    one_sentence(REPORT(&env, path, NULL), words);
    falls_back(words);
}

/* ---- files that are no database, or not one that is known ---- */

static void stays(const char *bytes, size_t n, const char *words)
{
    stays_as_it_is(&env, path, bytes, n, all_refuse, words);
}

Test(db_programs, acceptance_10_nothing_and_random_bytes)
{
    stays("", 0, "is empty");
    stays(noise_bytes(&env.model, 8192, 5), 8192, "not made by SQLite");
}

Test(db_programs, acceptance_10_cut_short)
{
    char *whole;
    size_t len;
    tell_at(&env, path, NULL);
    cr_assert(os_read_file(&env.model, path, 1 << 24, &whole, &len, NULL));
    stays(whole, len / 2, "is cut short");
}

Test(db_programs, acceptance_11_a_newer_schema)
{
    tell_at(&env, path, NULL);
    set_sql(path, "PRAGMA user_version = 99");
    all_refuse("has schema version 99");
}

/* ---- permissions ---- */

/* As another user, with a cache of its own, since root is stopped by no mode bits. */
static void become_nobody(void)
{
    const char *cache = arena_str(&env.model, temp_path(&dir, "cache"));
    cr_assert_eq(mkdir(cache, 0777), 0);
    cr_assert_eq(chmod(cache, 0777), 0);
    setenv("NANOCOMPILE_CACHE", cache, 1); /* of this test's process */
    drop_root();
    if (access(built_program(&env, "tune"), X_OK)) {
        cr_skip_test("another user may not run the programs where they lie");
    }
}

static void only_readers_go_on(mode_t file, mode_t folder, const char *words)
{
    tell_at(&env, path, NULL);
    become_nobody();
    regain_root();
    cr_assert_eq(chmod(path, file), 0);
    cr_assert_eq(chmod(dir.path, folder), 0);
    drop_root();
    one_sentence(tunes("2trials"), words);
    one_sentence(SCHEDB(&env, "vacuum", "--db", path), words);
    is_sound(&env, path);
    shows(REPORT(&env, path, NULL), "matmul 64x32");
    shows(NC(&env, "explain", "--shape", "m=5,n=40,k=24", "--db", path),
          "No winner has this kernel");
    regain_root();
    cr_assert_eq(chmod(dir.path, 0755), 0);
}

Test(db_programs, acceptance_10_a_read_only_file)
{
    only_readers_go_on(0444, 01777, "read-only");
}

Test(db_programs, acceptance_10_a_folder_without_write_permission)
{
    only_readers_go_on(0666, 0555, "not writable");
}

/* ---- a full disk ---- */

/* A file of what is left there, but for so many bytes. */
static const char *fill_up(const char *folder, off_t but)
{
    static const char zeros[4096];
    const char *name = arena_printf(&env.model, "%s/ballast", folder);
    FILE *f = fopen(name, "w");
    cr_assert(f);
    off_t n = 0;
    while (fwrite(zeros, 1, sizeof zeros, f) == sizeof zeros && fflush(f) == 0) {
        n += sizeof zeros;
    }
    fclose(f);
    cr_assert_gt(n, but);
    cr_assert_eq(truncate(name, n - but), 0);
    return name;
}

Test(db_programs, acceptance_10_a_disk_that_is_full_half_way)
{
    const char *mounted = arena_str(&env.model, temp_path(&dir, "small"));
    mount_at(mounted, 0, "size=4m");
    path = arena_printf(&env.model, "%s/schedules.db", mounted);
    tell_at(&env, path, NULL);
    const char *ballast = fill_up(mounted, 60000);
    one_sentence(tunes("60trials"), "there is no room left on its disk");
    shows(REPORT(&env, path, NULL), "matmul 64x32");
    cr_assert_eq(unlink(ballast), 0);
    is_sound(&env, path);
    unmount(mounted);
}
