/* db_programs.c - acceptance 10 through the programs: whatever is wrong with the database, tune, schedb and
 * report say it in one sentence and leave the file as it is, and what is built goes on with the default. */
#include "tests/cli_util.h"
#include "tests/db_fixture.h"
#include "tests/db_util.h"
#include "tests/report_util.h"

#include <sched.h>
#include <string.h>
#include <sys/mount.h>
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

static void stays(const char *text, size_t len, const char *words)
{
    char *now;
    size_t now_len;
    FILE *f = fopen(path, "w");
    cr_assert(f && fwrite(text, 1, len, f) == len && fclose(f) == 0);
    all_refuse(words);
    cr_assert(os_read_file(&env.model, path, 1 << 24, &now, &now_len, NULL));
    cr_expect(now_len == len && !memcmp(now, text, len), "the file was changed");
    cr_expect_eq(folder_entries(dir.path), 1, "something was left beside it");
}

Test(db_programs, acceptance_10_nothing_and_random_bytes)
{
    char noise[8192];
    Rng r;
    rng_seed(&r, 5);
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (char)rng_u64(&r);
    }
    stays("", 0, "is empty");
    stays(noise, sizeof noise, "not made by SQLite");
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
    if (geteuid() == 0 && setresuid(65534, 65534, 0)) {
        cr_skip_test("this process may not become another user");
    }
    if (access(built_program(&env, "tune"), X_OK)) {
        cr_skip_test("another user may not run the programs where they lie");
    }
}

static void become_root(void)
{
    if (getuid() == 65534) {
        cr_assert_eq(setresuid(0, 0, 0), 0);
    }
}

static void only_readers_go_on(mode_t file, mode_t folder, const char *words)
{
    tell_at(&env, path, NULL);
    become_nobody();
    become_root();
    cr_assert_eq(chmod(path, file), 0);
    cr_assert_eq(chmod(dir.path, folder), 0);
    if (geteuid() == 0) {
        cr_assert_eq(setresuid(65534, 65534, 0), 0);
    }
    one_sentence(tunes("2trials"), words);
    one_sentence(SCHEDB(&env, "vacuum", "--db", path), words);
    is_sound(&env, path);
    shows(REPORT(&env, path, NULL), "matmul 64x32");
    shows(NC(&env, "explain", "--shape", "m=5,n=40,k=24", "--db", path),
          "No winner has this kernel");
    become_root();
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
    cr_assert_eq(mkdir(mounted, 0755), 0);
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("tmpfs", mounted, "tmpfs", 0, "size=4m")) {
        cr_skip_test("file systems cannot be mounted here");
    }
    path = arena_printf(&env.model, "%s/schedules.db", mounted);
    tell_at(&env, path, NULL);
    const char *ballast = fill_up(mounted, 60000);
    one_sentence(tunes("60trials"), "there is no room left on its disk");
    shows(REPORT(&env, path, NULL), "matmul 64x32");
    cr_assert_eq(unlink(ballast), 0);
    is_sound(&env, path);
    umount2(mounted, MNT_DETACH);
}
