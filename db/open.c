/* open.c - opening and closing. What is no schedule database, is empty, damaged or newer is
 * refused and left alone. Reading works wherever the file can be read at all, also where SQLite
 * itself would want to write beside it, and leaves nothing behind. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/db_int.h"

/* ---- where ---- */

const char *db_default_path(Env *e)
{
    const char *path = getenv("NANOCOMPILE_DB"), *data = getenv("XDG_DATA_HOME"),
               *home = getenv("HOME");
    if (path && *path) {
        return arena_str(&e->model, path);
    }
    if (data && *data) {
        return arena_printf(&e->model, "%s/nanocompile/schedules.db", data);
    }
    if (home && *home) {
        return arena_printf(&e->model, "%s/.local/share/nanocompile/schedules.db", home);
    }
    fail(e, E_IO, "There is no place for the schedule database: set NANOCOMPILE_DB or HOME.");
}

const char *db_path(const Db *db)
{
    return db->path;
}

Env *db_env(const Db *db)
{
    return db->e;
}

/* ---- what lies there ---- */

enum { HEADER_BYTES = 100 };

static bool read_header(const char *path, unsigned char *header, Err *err)
{
    int fd = os.open(path, O_RDONLY, 0);
    ssize_t n = -1;
    if (fd >= 0) {
        do {
            n = os.read(fd, header, HEADER_BYTES);
        } while (n < 0 && errno == EINTR);
        int why = errno;
        os.close(fd);
        errno = why;
    }
    if (n < 0) {
        return err_set(err, E_IO, "Cannot read %s: %s.", path, strerror(errno));
    }
    memset(header + n, 0, HEADER_BYTES - (size_t)n);
    return true;
}

static uint32_t big_endian(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool foreign(uint32_t application, const char *path, Err *err)
{
    return application == APPLICATION_ID ||
           err_set(err, E_IO,
                   "%s is a database of another program (application id %u) and is left as it "
                   "is; name a schedule database by --db or NANOCOMPILE_DB.",
                   path, application);
}

/* Its first bytes, and whether it is as long as they say. Where a -shm lies beside it the
 * file is in use, perhaps by this very process, whose locks our close() would drop: SQLite
 * tells then. */
static bool look_at_header(const char *path, int64_t bytes, Err *err)
{
    unsigned char h[HEADER_BYTES + 1];
    bool empty;
    if (beside(path, "-shm", &empty)) {
        return true;
    }
    if (!read_header(path, h, err)) {
        return false;
    }
    if (memcmp(h, "SQLite format 3", 16) != 0) {
        return err_set(err, E_IO,
                       "%s is no schedule database (%s) and is left as it is; name another by "
                       "--db or NANOCOMPILE_DB.",
                       path, bytes < HEADER_BYTES ? "too short" : "not made by SQLite");
    }
    int64_t page = h[16] << 8 | h[17], n_pages = big_endian(h + 28);
    page = page == 1 ? 65536 : page;
    bool counted = big_endian(h + 24) == big_endian(h + 92);
    if (at_rest(path) && counted && bytes < page * n_pages) {
        return err_set(err, E_IO,
                       "%s is cut short (%lld of %lld bytes) and is left as it is; "
                       "`sqlite3 FILE .recover | sqlite3 NEW` salvages what can still be read.",
                       path, (long long)bytes, (long long)(page * n_pages));
    }
    return foreign(big_endian(h + 68), path, err);
}

static bool look_at_file(const char *path, const struct stat *st, Err *err)
{
    if (!S_ISREG(st->st_mode)) {
        return err_set(err, E_IO, "%s is %s, not a schedule database.", path,
                       S_ISDIR(st->st_mode) ? "a folder" : "no regular file");
    }
    if (st->st_size == 0) {
        return err_set(
            err, E_IO,
            "%s is empty: that is no schedule database, and it is not made into one; "
            "remove it if nothing was lost with it.",
            path);
    }
    return look_at_header(path, st->st_size, err);
}

/* ---- versions ---- */

static bool bring_up_to_date(Db *db, int64_t version, Err *err)
{
    if (version < DB_VERSION && db->mode == DB_READ) {
        return err_set(
            err, E_IO,
            "%s has the older schema version %lld: `schedb init --db FILE` brings it "
            "to version %d.",
            db->path, (long long)version, DB_VERSION);
    }
    int code = version < DB_VERSION ? migrate(db->sql, db_schema) : SQLITE_OK;
    code = code || db->mode == DB_READ ? code : probe(db, DB_VERSION);
    return !code || cannot_write(db, code, err);
}

static bool check_version(Db *db, Err *err)
{
    int64_t application = 0, version = 0;
    if (!sqlite_number(db->sql, "PRAGMA application_id", &application) ||
        !sqlite_number(db->sql, "PRAGMA user_version", &version)) {
        return sqlite_error(db->sql, sqlite3_extended_errcode(db->sql), "read", db->path, err);
    }
    if (!foreign((uint32_t)application, db->path, err)) {
        return false;
    }
    if (version > DB_VERSION) {
        return err_set(err, E_IO,
                       "%s has schema version %lld, and this program knows versions up to %d: "
                       "use a newer one, or another database by --db or NANOCOMPILE_DB.",
                       db->path, (long long)version, DB_VERSION);
    }
    return bring_up_to_date(db, version, err);
}

/* ---- both ---- */

static bool make_default_folder(const char *path, Err *err)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash && slash != folder) {
        *slash = '\0';
        return os_mkdirs(folder, err);
    }
    return true;
}

static bool refuse_without_locks(const char *path, Err *err)
{
    return locks_work(path) ||
           err_set(
               err, E_IO,
               "The file system of %s has no working locks (%s), so nothing can be recorded "
               "there: put the database on a local disk, by --db or NANOCOMPILE_DB.",
               path, strerror(errno));
}

static bool find_file(Db *db, bool is_default, Err *err)
{
    struct stat st;
    if (db->mode == DB_WRITE && is_default && !make_default_folder(db->path, err)) {
        return false;
    }
    if (db->mode == DB_WRITE && !refuse_without_locks(db->path, err)) {
        return false;
    }
    if (os.stat(db->path, &st) == 0) {
        return look_at_file(db->path, &st, err);
    }
    if (errno != ENOENT) {
        return err_set(err, E_IO, "Cannot open %s: %s.", db->path, strerror(errno));
    }
    return db->mode == DB_WRITE
               ? create_database(db->path, err)
               : err_set(err, E_IO, "There is no schedule database %s.", db->path);
}

typedef struct Opening {
    const char *path;
    DbMode mode;
    Db *db;
    Err *err;
    bool ok;
} Opening;

static void open_body(Env *e, void *arg)
{
    Opening *o = arg;
    o->db = arena_new(&e->model, Db);
    o->db->e = e;
    arena_init(&o->db->work, e);
    arena_init(&o->db->scratch, e);
    o->db->mode = o->mode;
    o->db->path = o->path ? arena_str(&e->model, o->path) : db_default_path(e);
    if (strlen(o->db->path) > PATH_MAX - 32) {
        fail(e, E_IO, "The path of the schedule database has more than %d bytes.",
             PATH_MAX - 32);
    }
    o->ok =
        find_file(o->db, !o->path, o->err) &&
        (o->mode == DB_READ ? connect_reader(o->db, o->err) : connect_writer(o->db, o->err)) &&
        check_version(o->db, o->err);
}

Db *db_open(Env *e, const char *path, DbMode mode, Err *err)
{
    Err own;
    Opening o = {.path = path, .mode = mode, .err = err ? err : &own};
    if (!env_try(e, open_body, &o)) {
        *o.err = e->err;
        o.ok = false;
    }
    if (!o.ok) {
        db_close(o.db);
        return NULL;
    }
    return o.db;
}

Db *db_must_open(Env *e, const char *path, DbMode mode)
{
    Err err;
    Db *db = db_open(e, path, mode, &err);
    if (!db) {
        fail_err(e, &err);
    }
    return db;
}

static void finalize(sqlite3_stmt **s, int n)
{
    for (int i = 0; i < n; i++) {
        sqlite3_finalize(s[i]);
        s[i] = NULL;
    }
}

void db_close(Db *db)
{
    if (db) {
        finalize(db->statement, N_STATEMENTS);
        finalize(db->insert, N_DB_TABLES);
        finalize(db->update, N_DB_TABLES);
        finalize(db->query, N_DB_QUERIES);
        disconnect(db);
        arena_release(&db->work);
        arena_release(&db->scratch);
    }
}
