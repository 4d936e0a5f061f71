/* db_open.c - what may lie where the database should: acceptance 10 and CASES 15 to 17.
 * Whatever is wrong gets one sentence with file and cause, exit status 1, and is left as it
 * was; reading works wherever the rows can be read, and leaves nothing behind. */
#include "tests/db_fixture.h"
#include "tests/db_util.h"
#include "tests/place_util.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(db_open, .init = start, .fini = stop, .timeout = 300);

/* One sentence, from reading and from writing. */
static void refuses(DbMode mode, const char *words)
{
    Err err;
    Db *db = db_open(&env, path, mode, &err);
    cr_assert_null(db, "mode %d: it opened; expected '%s'", mode, words);
    cr_expect(strstr(err.text, words), "mode %d: no '%s' in: %s", mode, words, err.text);
    cr_expect(strstr(err.text, path), "mode %d: the file is not named: %s", mode, err.text);
    size_t len = strlen(err.text);
    cr_expect(err.text[len - 1] == '.' && !strchr(err.text, '\n'), "%s", err.text);
}

static void both_refuse(const char *words)
{
    refuses(DB_READ, words);
    refuses(DB_WRITE, words);
}

/* Byte 18 of the header: is it written by way of a log? */
static bool has_log(void)
{
    char *text;
    size_t len;
    cr_assert(os_read_file(&env.model, path, 1 << 24, &text, &len, NULL));
    return text[18] == 2;
}

/* ---- new databases ---- */

Test(db_open, a_new_one_appears_complete)
{
    refuses(DB_READ, "There is no schedule database");
    cr_expect_eq(folder_entries(dir.path), 0);
    shows(SCHEDB(&env, "init", "--db", path), "is ready");
    cr_expect_eq(folder_entries(dir.path), 1, "more than the database was left");
    shows(SCHEDB(&env, "init", "--db", path), "is ready");
    shows(SCHEDB(&env, "verify", "--db", path), "0 duels");
    cr_expect(has_log());
}

Test(db_open, the_default_place)
{
    setenv("XDG_DATA_HOME", arena_printf(&env.model, "%s/a b/share", dir.path), 1);
    unsetenv("NANOCOMPILE_DB");
    shows(SCHEDB(&env, "init"), "/a b/share/nanocompile/schedules.db is ready");
    unsetenv("XDG_DATA_HOME");
    setenv("HOME", dir.path, 1);
    shows(SCHEDB(&env, "init"), "/.local/share/nanocompile/schedules.db is ready");
    setenv("NANOCOMPILE_DB", path, 1);
    shows(SCHEDB(&env, "init"), "/schedules.db is ready");
    unsetenv("NANOCOMPILE_DB");
    unsetenv("HOME");
    Ran r = SCHEDB(&env, "init");
    cr_expect_eq(r.status, 1);
    cr_expect(strstr(r.out, "set NANOCOMPILE_DB or HOME"), "%s", r.out);
}

Test(db_open, a_missing_folder_is_said)
{
    path = arena_printf(&env.model, "%s/no/where.db", dir.path);
    refuses(DB_WRITE, "No such file or directory");
}

Test(db_open, odd_paths_are_only_paths)
{
    static const char *const names[] = {
        "a b",   "quo'te\"", "new\nline", "-dash",        "?mode=memory",
        "%41#x", "file:x",   ":memory:",  "na\xc3\xafve", "\xff\xfe"};
    for (size_t i = 0; i < countof(names); i++) {
        path = arena_str(&env.model, temp_path(&dir, names[i]));
        tell_at(&env, path, NULL);
        Db *db = open_db(&env, path, DB_READ);
        cr_expect_eq(db_count(db, DB_T_TRIAL), 4);
        db_close(db);
    }
    cr_expect_eq(folder_entries(dir.path), countof(names));
    cr_assert_eq(chdir(dir.path), 0);
    path = "-relative.db";
    tell_at(&env, path, NULL);
    cr_expect_eq(folder_entries(dir.path), countof(names) + 1);
}

/* ---- what is none, CASES 17 ---- */

static void stays(const char *bytes, size_t n, const char *words)
{
    stays_as_it_is(&env, path, bytes, n, both_refuse, words);
}

Test(db_open, acceptance_10_files_that_are_no_database)
{
    stays("", 0, "is empty");
    stays("x", 1, "too short");
    stays("<html>login</html>", 18, "too short");
    stays(noise_bytes(&env.model, 8192, 1), 8192, "not made by SQLite");
    stays("SQLite format 3", 16, "database of another program");
}

Test(db_open, a_database_of_another_program)
{
    set_sql(path, "CREATE TABLE bookmarks (url)");
    both_refuse("another program (application id 0)");
    set_sql(path, "PRAGMA application_id = 1234");
    both_refuse("another program (application id 1234)");
    set_sql(path, "PRAGMA journal_mode = wal; INSERT INTO bookmarks VALUES ('x')");
    both_refuse("another program");
    cr_expect_eq(folder_entries(dir.path), 1);
}

Test(db_open, a_newer_schema)
{
    tell_at(&env, path, NULL);
    set_sql(path, "PRAGMA user_version = 99");
    both_refuse("has schema version 99, and this program knows versions up to 3");
}

Test(db_open, folders_and_devices)
{
    cr_assert_eq(mkdir(path, 0777), 0);
    both_refuse("is a folder");
    rmdir(path);
    cr_assert_eq(mkfifo(path, 0666), 0);
    both_refuse("is no regular file");
}

/* ---- damage ---- */

/* At every length it opens sound, or is refused; verify never says that half of one is
 * sound. */
Test(db_open, acceptance_10_cut_at_any_page)
{
    tell_at(&env, path, NULL);
    char *whole;
    size_t len;
    cr_assert(os_read_file(&env.model, path, 1 << 24, &whole, &len, NULL));
    cr_assert_gt(len, 10 * 4096);
    for (size_t cut = 512; cut < len; cut += 4096 + 512) {
        FILE *f = fopen(path, "w");
        cr_assert(f && fwrite(whole, 1, cut, f) == cut && fclose(f) == 0);
        both_refuse("is cut short");
        Ran r = SCHEDB(&env, "verify", "--db", path);
        cr_expect_eq(r.status, 1);
        cr_expect(strstr(r.out, ".recover"), "salvage is not told: %s", r.out);
    }
}

Test(db_open, damage_in_the_middle_is_found)
{
    tell_at(&env, path, NULL);
    struct stat st;
    cr_assert_eq(stat(path, &st), 0);
    int n_found = 0, n_pages = (int)(st.st_size / 4096);
    cr_assert_gt(n_pages, 10);
    for (int page = 1; page < n_pages; page++) {
        char old[4096], bad[4096];
        memset(bad, 0xa5, sizeof bad);
        int fd = open(path, O_RDWR);
        cr_assert_eq(pread(fd, old, sizeof old, 4096l * page), (ssize_t)sizeof old);
        cr_assert_eq(pwrite(fd, bad, sizeof bad, 4096l * page), (ssize_t)sizeof bad);
        Ran r = SCHEDB(&env, "verify", "--db", path);
        cr_expect_eq(r.status, 1, "page %d: %s", page, r.out);
        n_found += r.status == 1 && strstr(r.out, "is damaged") != NULL;
        cr_assert_eq(pwrite(fd, old, sizeof old, 4096l * page), (ssize_t)sizeof old);
        close(fd);
    }
    cr_expect_eq(n_found, n_pages - 1);
    is_sound(&env, path);
}

/* ---- permissions, as another user ---- */

/* What a reader finds, and that it left nothing. */
static void reads_here(const char *told)
{
    int before = folder_entries(dir.path);
    drop_root();
    Err err;
    Db *db = db_open(&env, path, DB_READ, &err);
    const char *text = db ? contents(&env, db) : "";
    db_close(db);
    regain_root();
    cr_assert(db, "%s", err.text);
    cr_expect_str_eq(text, told);
    cr_expect_eq(folder_entries(dir.path), before, "the reader left something");
}

Test(db_open, cases_15_a_read_only_folder)
{
    tell_at(&env, path, NULL);
    const char *told = contents_at(&env, path);
    cr_assert_eq(chmod(path, 0444), 0);
    cr_assert_eq(chmod(dir.path, 0555), 0);
    reads_here(told);
    drop_root();
    refuses(DB_WRITE, "not writable");
    regain_root();
    cr_assert_eq(chmod(dir.path, 0755), 0);
}

Test(db_open, cases_15_a_read_only_file_in_a_shared_folder)
{
    tell_at(&env, path, NULL);
    const char *told = contents_at(&env, path);
    cr_assert_eq(chmod(path, 0444), 0);
    cr_assert_eq(chmod(dir.path, 01777), 0);
    reads_here(told);
    drop_root();
    refuses(DB_WRITE, "read-only");
    regain_root();
}

Test(db_open, a_folder_without_write_permission)
{
    tell_at(&env, path, NULL);
    cr_assert_eq(chmod(path, 0666), 0);
    cr_assert_eq(chmod(dir.path, 0555), 0);
    reads_here(contents_at(&env, path));
    drop_root();
    refuses(DB_WRITE, "not writable");
    regain_root();
    cr_assert_eq(chmod(dir.path, 0755), 0);
}

Test(db_open, nothing_can_be_made_there)
{
    cr_assert_eq(chmod(dir.path, 0555), 0);
    drop_root();
    refuses(DB_WRITE, "Permission denied");
    regain_root();
    cr_assert_eq(chmod(dir.path, 0755), 0);
    cr_expect_eq(folder_entries(dir.path), 0);
}

/* A writer that was killed leaves rows in its log only. */
static void tell_and_die(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        Db *db = open_db(&env, path, DB_WRITE);
        Story s = story();
        tell(db, &s);
        kill(getpid(), SIGKILL);
    }
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFSIGNALED(status));
}

static const char *beside(const char *suffix)
{
    return arena_printf(&env.model, "%s%s", path, suffix);
}

Test(db_open, cases_15_rows_that_are_in_the_log_only)
{
    SCHEDB(&env, "init", "--db", path);
    tell_and_die();
    struct stat st;
    cr_assert(stat(beside("-wal"), &st) == 0 && st.st_size > 0);
    cr_assert_eq(unlink(beside("-shm")), 0); /* as after a restart of the machine */
    cr_assert_eq(chmod(path, 0644), 0);
    cr_assert_eq(chmod(beside("-wal"), 0644), 0);
    cr_assert_eq(chmod(dir.path, 0555), 0);
    drop_root();
    Err err;
    Db *db = db_open(&env, path, DB_READ, &err);
    int64_t n = db ? db_count(db, DB_T_TRIAL) : -1;
    db_close(db);
    regain_root();
    cr_assert(db, "%s", err.text);
    cr_expect_eq(n, 4, "an empty database was read instead");
    cr_expect_eq(folder_entries(dir.path), 2);
    cr_assert_eq(chmod(dir.path, 0755), 0);
    shows(SCHEDB(&env, "verify", "--db", path), "4 duels");
    cr_expect_eq(folder_entries(dir.path), 1, "the log was not put away");
}

Test(db_open, a_reader_beside_a_writer)
{
    Db *writer = open_db(&env, path, DB_WRITE);
    Story s = story();
    tell(writer, &s);
    Db *reader = open_db(&env, path, DB_READ);
    cr_expect_eq(db_count(reader, DB_T_RUN), 1);
    s.seed = 2;
    tell(writer, &s);
    cr_expect_eq(db_count(reader, DB_T_RUN), 2);
    db_close(reader);
    s.seed = 3;
    tell(writer, &s);
    db_close(writer);
    cr_expect_eq(folder_entries(dir.path), 1);
}

static void add_a_run(Env *e, void *arg)
{
    (void)e;
    Story s = story();
    s.seed = 9;
    tell(arg, &s);
}

Test(db_open, a_reader_cannot_write)
{
    tell_at(&env, path, NULL);
    Db *db = open_db(&env, path, DB_READ);
    must_fail(&env, add_a_run, db, E_IO, path);
    db_close(db);
}

/* ---- CASES 16: file systems without locks or shared memory ---- */

static const char *preload(void)
{
    const char *so = arena_str(&env.model, temp_path(&dir, "nolock.so"));
    char *argv[] = {"gcc",  "-shared", "-fPIC", "-o", (char *)so, "tests/preload/nolock.c",
                    "-ldl", NULL};
    Buf out;
    int status;
    Err err;
    buf_init(&out, &env.model);
    cr_assert(os_run(argv, NULL, 60000, 4096, &out, &status, &err), "%s", err.text);
    cr_assert_eq(status, 0, "%s", out.at);
    return so;
}

/* schedb with the shim; sanitizers want to be loaded first, and cannot be here. */
static Ran without(const char *name, const char *value, const char *command)
{
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
    setenv("LD_PRELOAD", temp_path(&dir, "nolock.so"), 1);
    setenv(name, value, 1);
    Ran r = SCHEDB(&env, command, "--db", path);
    unsetenv("LD_PRELOAD");
    unsetenv(name);
    return r;
}

Test(db_open, cases_16_a_file_system_without_locks)
{
    static const char *const errnos[] = {"37", "95", "5"}; /* ENOLCK, EOPNOTSUPP, EIO */
    preload();
    for (size_t i = 0; i < countof(errnos); i++) {
        path = arena_str(&env.model, temp_path(&dir, "none.db"));
        Ran r = without("NOLOCK_ERRNO", errnos[i], "init");
        cr_expect_eq(r.status, 1, "%s", r.out);
        cr_expect(strstr(r.out, "has no working locks"), "%s", r.out);
        cr_expect_eq(access(path, F_OK), -1);
        path = arena_str(&env.model, temp_path(&dir, "schedules.db"));
        if (i == 0) {
            tell_at(&env, path, NULL);
        }
        r = without("NOLOCK_ERRNO", errnos[i], "verify"); /* reading goes on */
        shows(r, "4 duels");
        r = without("NOLOCK_ERRNO", errnos[i], "vacuum");
        cr_expect_eq(r.status, 1, "%s", r.out);
    }
    cr_expect_eq(folder_entries(dir.path), 2);
}

Test(db_open, cases_16_a_file_system_without_shared_memory)
{
    preload();
    Ran r = without("NOSHM", "1", "init");
    shows(r, "is ready");
    cr_expect_not(has_log());
    tell_at(&env, path, NULL);
    shows(without("NOSHM", "1", "verify"), "4 duels");
    unlink(path);
    tell_at(&env, path, NULL); /* with a log */
    shows(without("NOSHM", "1", "verify"), "4 duels");
    r = without("NOSHM", "1", "vacuum");
    cr_expect_eq(r.status, 1, "%s", r.out);
    cr_expect(strstr(r.out, "cannot share memory"), "%s", r.out);
}

/* ---- full disks ---- */

static void tell_many(Env *e, void *arg)
{
    (void)e;
    Story s = story();
    for (s.seed = 10; s.seed < 1000; s.seed++) {
        tell(arg, &s);
    }
}

/* Filling it up is told, and what was there before is there afterwards. */
static void fills_up(const char *words)
{
    Db *db = open_db(&env, path, DB_WRITE);
    Story s = story();
    tell(db, &s);
    cr_assert_not(env_try(&env, tell_many, db), "there was no end to the disk");
    cr_expect(strstr(env.err.text, words), "no '%s' in: %s", words, env.err.text);
    cr_expect(strstr(env.err.text, path), "%s", env.err.text);
    db_close(db);
    Ran r = SCHEDB(&env, "verify", "--db", path);
    shows(r, "is sound");
}

Test(db_open, acceptance_10_a_file_that_may_not_grow)
{
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){400000, 400000}), 0);
    fills_up("a limit on the size of files");
}

Test(db_open, acceptance_10_a_full_disk)
{
    const char *mounted = arena_str(&env.model, temp_path(&dir, "small"));
    mount_at(mounted, 0, "size=700k");
    path = arena_printf(&env.model, "%s/schedules.db", mounted);
    fills_up("there is no room left on its disk");
    unmount(mounted);
}

Test(db_open, no_room_for_a_new_one)
{
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096}), 0);
    refuses(DB_WRITE, "a limit on the size of files");
    cr_expect_eq(folder_entries(dir.path), 0, "half a database was left");
}
