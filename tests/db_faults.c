/* db_faults.c - memory runs out and system calls fail, one after the other: of ours through
 * the os table, and of SQLite's own, by its hooks. Each time the work succeeds or says why
 * not, leaves no descriptor, no file and no half of a record. */
#include "tests/db_fixture.h"
#include "tests/db_util.h"
#include "tests/fault.h"
#include "tests/place_util.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(db_faults, .init = start, .fini = stop, .timeout = 600);

/* ---- what is done ---- */

typedef struct Work {
    DbMode mode;
    uint64_t seed; /* of the next story that is told */
} Work;

typedef struct Doing {
    Work *w;
    Db *db;
} Doing;

static void with_handle(Env *e, void *arg)
{
    Doing *d = arg;
    Story s = story();
    DbAnswer got;
    int64_t size = 64;
    DbMachine m = story_machine(&s);
    DbToolchain t = story_toolchain(&s);
    DbKey key = {s.kernel, &size, 1, 2, "cold", &m, &t};
    s.seed = d->w->seed++, s.n_trials = 2;
    if (d->w->mode == DB_WRITE) {
        tell(d->db, &s);
    } else {
        contents(e, d->db);
    }
    db_lookup(d->db, &e->model, &key, &got);
}

static bool work(void *ctx, Err *err)
{
    Env e;
    env_init(&e);
    Doing d = {.w = ctx};
    d.db = db_open(&e, path, d.w->mode, err);
    bool ok = d.db && env_try(&e, with_handle, &d);
    if (d.db && !ok) {
        *err = e.err;
    }
    db_close(d.db);
    env_release(&e);
    return ok;
}

/* Afterwards: sound, and nothing beside it. */
static void is_sound_and_alone(void)
{
    is_sound(&env, path);
    cr_expect_eq(folder_entries(dir.path), 1, "something was left");
}

static void prepare(void)
{
    Work w = {DB_WRITE, 1};
    Err err;
    cr_assert(work(&w, &err), "%s", err.text);
}

/* ---- our calls ---- */

Test(db_faults, system_calls_of_ours)
{
    static const char *const calls[] = {"open", "close", "read", "stat", "alloc"};
#ifdef NC_SANITIZED
    const bool one_by_one =
        true; /* each piece of an arena is an allocation: they are too many */
#else
    const bool one_by_one = false;
#endif
    prepare();
    Work r = {DB_READ, 0}, w = {DB_WRITE, 100};
    for (size_t i = 0; i < countof(calls); i++) {
        cr_expect_gt(fault_loop(calls[i], work, &r), 0, "%s, reading", calls[i]);
        if (!one_by_one || strcmp(calls[i], "alloc")) {
            cr_expect_gt(fault_loop(calls[i], work, &w), 0, "%s, writing", calls[i]);
        }
    }
    is_sound_and_alone();
}

static bool make_new(void *ctx, Err *err)
{
    unlink(path);
    bool ok = work(ctx, err);
    cr_expect_leq(folder_entries(dir.path), 1 + (access(path, F_OK) == 0),
                  "more than one leftover");
    return ok;
}

/* Where not even unlink works, the unfinished file stays. */
Test(db_faults, making_a_new_one)
{
    static const char *const calls[] = {"open", "close", "stat", "fsync", "alloc"};
    Work w = {DB_WRITE, 1};
    for (size_t i = 0; i < countof(calls); i++) {
        cr_expect_gt(fault_loop(calls[i], make_new, &w), 0, "%s", calls[i]);
        unlink(path);
        cr_expect_eq(folder_entries(dir.path), 0, "%s", calls[i]);
    }
}

Test(db_faults, reading_a_copy)
{
    static const char *const calls[] = {"open", "close", "read", "write", "mkdtemp", "alloc"};
    prepare();
    setenv("TMPDIR", dir.path, 1);
    FILE *f = fopen(arena_printf(&env.model, "%s-wal", path), "w");
    cr_assert(f && fputs("no log", f) >= 0 && fclose(f) == 0);
    cr_assert_eq(chmod(path, 0444), 0);
    cr_assert_eq(chmod(dir.path, 01777), 0);
    drop_root();
    Work r = {DB_READ, 0};
    for (size_t i = 0; i < countof(calls); i++) {
        cr_expect_gt(fault_loop(calls[i], work, &r), 0, "%s", calls[i]);
    }
    cr_expect_eq(folder_entries(dir.path), 2, "a copy was left");
    regain_root();
}

/* ---- SQLite's memory ---- */

static struct Memory {
    int nth, calls, hits;
    bool persistent;
} memory;

static bool no_memory(void)
{
    memory.calls++;
    bool now = memory.nth &&
               (memory.persistent ? memory.calls >= memory.nth : memory.calls == memory.nth);
    memory.hits += now;
    return now;
}

static void *some(int n)
{
    return no_memory() ? NULL : malloc((size_t)n);
}

static void *more(void *p, int n)
{
    return no_memory() ? NULL : realloc(p, (size_t)n);
}

static int size_of(void *p)
{
    return p ? (int)malloc_usable_size(p) : 0;
}

static int rounded(int n)
{
    return (n + 7) & ~7;
}

static int no_init(void *ctx)
{
    (void)ctx;
    return SQLITE_OK;
}

static void no_shutdown(void *ctx)
{
    (void)ctx;
}

static bool one_run(Work *w, int nth, bool persistent)
{
    Err err = {.code = E_OK};
    int before = open_descriptors();
    memory = (struct Memory){.nth = nth, .persistent = persistent};
    bool ok = work(w, &err);
    int hits = memory.hits;
    memory.nth = 0;
    cr_assert(ok || (err.code != E_OK && err.text[0]), "allocation %d: no reason", nth);
    cr_assert_eq(open_descriptors(), before, "allocation %d left a descriptor open", nth);
    return hits > 0;
}

/* Every allocation once; with NC_FULL each of the many, else every 7th beyond the first 300. */
Test(db_faults, memory_of_sqlite)
{
    static const sqlite3_mem_methods methods = {some,    free,    more,        size_of,
                                                rounded, no_init, no_shutdown, NULL};
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods), SQLITE_OK);
    prepare();
    Work w[] = {{DB_READ, 0}, {DB_WRITE, 1000}};
    for (int i = 0; i < 4; i++) {
        int nth = 1;
        while (one_run(&w[i / 2], nth, i % 2)) {
            nth += nth < 300 || getenv("NC_FULL") ? 1 : 7;
            cr_assert_lt(nth, 1000000);
        }
        cr_expect_gt(nth, 100);
    }
    is_sound_and_alone();
}

/* ---- SQLite's system calls ---- */

static struct Call {
    const char *name;
    sqlite3_syscall_ptr real;
    int nth, calls, hits;
} call;

static bool hit(void)
{
    bool now = ++call.calls == call.nth;
    call.hits += now;
    errno = now ? EIO : errno;
    return now;
}

static ssize_t bad_pread(int fd, void *p, size_t n, off_t at)
{
    return hit() ? -1 : ((ssize_t(*)(int, void *, size_t, off_t))call.real)(fd, p, n, at);
}

static ssize_t bad_pwrite(int fd, const void *p, size_t n, off_t at)
{
    return hit() ? -1 : ((ssize_t(*)(int, const void *, size_t, off_t))call.real)(fd, p, n, at);
}

static int bad_open(const char *name, int flags, int mode)
{
    return hit() ? -1 : ((int (*)(const char *, int, int))call.real)(name, flags, mode);
}

/* Locks that cannot be had; giving one back always works. */
static int bad_fcntl(int fd, int cmd, void *arg)
{
    bool gives_back = cmd != F_SETLK || ((struct flock *)arg)->l_type == F_UNLCK;
    return !gives_back && hit() ? -1 : ((int (*)(int, int, ...))call.real)(fd, cmd, arg);
}

static int bad_ftruncate(int fd, off_t n)
{
    return hit() ? -1 : ((int (*)(int, off_t))call.real)(fd, n);
}

static int bad_fstat(int fd, struct stat *st)
{
    return hit() ? -1 : ((int (*)(int, struct stat *))call.real)(fd, st);
}

static void *bad_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    return hit() ? (void *)-1
                 : ((void *(*)(void *, size_t, int, int, int, off_t))call.real)(at, n, prot,
                                                                                flags, fd, off);
}

static const struct {
    const char *name;
    sqlite3_syscall_ptr bad;
} vfs_calls[] = {
    {"pread64", (sqlite3_syscall_ptr)bad_pread},
    {"pwrite64", (sqlite3_syscall_ptr)bad_pwrite},
    {"pread", (sqlite3_syscall_ptr)bad_pread},
    {"pwrite", (sqlite3_syscall_ptr)bad_pwrite},
    {"open", (sqlite3_syscall_ptr)bad_open},
    {"fcntl", (sqlite3_syscall_ptr)bad_fcntl},
    {"ftruncate", (sqlite3_syscall_ptr)bad_ftruncate},
    {"fstat", (sqlite3_syscall_ptr)bad_fstat},
    {"mmap", (sqlite3_syscall_ptr)bad_mmap},
};

/* With the nth call failing; false: there were not so many. */
static bool one_call(Work *w, int i, int nth)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    Err err = {.code = E_OK};
    call = (struct Call){.name = vfs_calls[i].name, .nth = nth};
    call.real = vfs->xGetSystemCall(vfs, call.name);
    if (!call.real) {
        return false;
    }
    cr_assert_eq(vfs->xSetSystemCall(vfs, call.name, vfs_calls[i].bad), SQLITE_OK);
    bool ok = work(w, &err);
    vfs->xSetSystemCall(vfs, call.name, NULL);
    cr_assert(ok || (err.code != E_OK && strstr(err.text, path)), "%s %d: '%s'", call.name, nth,
              err.text);
    return call.hits > 0;
}

Test(db_faults, system_calls_of_sqlite)
{
    prepare();
    Work w[] = {{DB_READ, 0}, {DB_WRITE, 10000}};
    int n = 0;
    for (size_t i = 0; i < countof(vfs_calls); i++) {
        for (int k = 0; k < 2; k++) {
            for (int nth = 1; one_call(&w[k], (int)i, nth); nth++) {
                n++;
            }
        }
    }
    cr_expect_gt(n, 100);
    is_sound_and_alone();
}
