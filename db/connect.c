/* connect.c - connections: reading works wherever the file can be read at all, also where
 * SQLite itself would want to write beside it, and leaves nothing behind; writing is tried
 * out. */
#include <string.h>
#include <unistd.h>

#include "db/db_int.h"

bool beside(const char *path, const char *suffix, bool *empty)
{
    char name[PATH_MAX + 16];
    struct stat st;
    snprintf(name, sizeof name, "%s%s", path, suffix);
    bool there = os.stat(name, &st) == 0;
    *empty = !there || st.st_size == 0;
    return there;
}

bool at_rest(const char *path)
{
    bool wal, journal;
    beside(path, "-wal", &wal);
    beside(path, "-journal", &journal);
    return wal && journal;
}

/* ---- connecting ---- */

/* As a URI, so that parameters can be given; nothing in a path is special then. */
int sqlite_at(const char *path, int flags, const char *parameters, sqlite3 **out)
{
    char uri[PATH_MAX * 3 + 64];
    size_t n = (size_t)snprintf(uri, sizeof uri, "file:%s", *path == '/' ? "" : "./");
    for (; *path && n + 32 < sizeof uri; path++) {
        bool plain = (*path >= 'a' && *path <= 'z') || (*path >= 'A' && *path <= 'Z') ||
                     (*path >= '0' && *path <= '9') || strchr("/._-", *path);
        n += (size_t)snprintf(uri + n, sizeof uri - n, plain ? "%c" : "%%%02X",
                              (unsigned char)*path);
    }
    snprintf(uri + n, sizeof uri - n, "%s", parameters);
    int code = sqlite3_open_v2(uri, out, flags | SQLITE_OPEN_URI, NULL);
    if (!code) {
        sqlite3_extended_result_codes(*out, 1);
        sqlite3_busy_timeout(*out, BUSY_MS);
    }
    return code;
}

bool sqlite_number(sqlite3 *sql, const char *query, int64_t *out)
{
    sqlite3_stmt *s = NULL;
    bool ok = sqlite3_prepare_v2(sql, query, -1, &s, NULL) == SQLITE_OK &&
              sqlite3_step(s) == SQLITE_ROW;
    *out = ok ? sqlite3_column_int64(s, 0) : *out;
    return sqlite3_finalize(s) == SQLITE_OK && ok;
}

/* Opens, and reads, which is when SQLite looks at the file. */
static int connect_to(Db *db, const char *path, int flags, const char *parameters)
{
    int64_t n;
    int code = sqlite_at(path, flags, parameters, &db->sql);
    if (!code && !sqlite_number(db->sql, "SELECT count(*) FROM sqlite_schema", &n)) {
        code = sqlite3_extended_errcode(db->sql);
    }
    return code;
}

void disconnect(Db *db)
{
    sqlite3_stmt *left; /* of a query that was not read to its end */
    while (db->sql && (left = sqlite3_next_stmt(db->sql, NULL))) {
        sqlite3_finalize(left);
    }
    sqlite3_close(db->sql);
    db->sql = NULL;
    if (db->aside) {
        remove_aside(db->aside);
        db->aside = NULL;
    }
}

bool writable(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    snprintf(slash ? slash + 1 : folder, 2, ".");
    return euidaccess(path, W_OK) == 0 && euidaccess(folder, W_OK) == 0;
}

/* Next way of reading, after one that did not work. */
static bool again(Db *db, int code, int flags, const char *parameters, int *out)
{
    int kind = code & 0xff;
    if (!code || kind == SQLITE_NOTADB || kind == SQLITE_CORRUPT || kind == SQLITE_NOMEM) {
        return false;
    }
    disconnect(db);
    *out = connect_to(db, db->path, flags, parameters);
    return true;
}

static bool read_copy(Db *db, int *code, Err *err)
{
    disconnect(db);
    db->aside = copy_aside(db->e, db->path, err);
    if (!db->aside) {
        return false;
    }
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/copy.db", db->aside);
    *code = connect_to(db, path, SQLITE_OPEN_READWRITE, "");
    return true;
}

/* Where we may write, as a writer that asks nothing to be changed: then locks hold, and SQLite
 * tidies up after itself. Elsewhere read-only, which needs the -shm of a writer; without writer
 * the file alone, unless a log holds what is not in it yet: then a copy of both. */
bool connect_reader(Db *db, Err *err)
{
    int code = SQLITE_CANTOPEN;
    bool empty, shared = beside(db->path, "-shm", &empty);
    if (writable(db->path) && locks_work(db->path)) {
        code = connect_to(db, db->path, SQLITE_OPEN_READWRITE, "");
    } else if (shared && locks_work(db->path)) {
        code = connect_to(db, db->path, SQLITE_OPEN_READONLY, "");
    }
    if (code && at_rest(db->path)) {
        again(db, code, SQLITE_OPEN_READONLY, "?immutable=1", &code);
    }
    int kind = code & 0xff;
    if (code && kind != SQLITE_NOTADB && kind != SQLITE_CORRUPT && kind != SQLITE_NOMEM &&
        !at_rest(db->path) && !read_copy(db, &code, err)) {
        return false;
    }
    return (!code && sqlite3_exec(db->sql, "PRAGMA query_only = 1", NULL, NULL, NULL) == 0) ||
           sqlite_error(db->sql, code, "read", db->path, err);
}

/* ---- writing ---- */

/* Records nothing, but writes: only that tells whether it will work. */
int probe(Db *db, int64_t version)
{
    char text[96];
    snprintf(text, sizeof text, "BEGIN IMMEDIATE; PRAGMA user_version = %lld; COMMIT",
             (long long)version);
    int code = sqlite3_exec(db->sql, text, NULL, NULL, NULL);
    if (code && !sqlite3_get_autocommit(db->sql)) {
        sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    }
    return code;
}

/* A log survives a killed program either way; a rollback journal must be synced for it. */
static const char *const for_writing = "PRAGMA foreign_keys = 1; PRAGMA temp_store = memory; "
                                       "PRAGMA synchronous = normal";

bool cannot_write(Db *db, int code, Err *err)
{
    return writable(db->path)
               ? sqlite_error(db->sql, code, "write", db->path, err)
               : err_set(err, E_IO, "Cannot write %s: the file or its folder is not writable.",
                         db->path);
}

bool connect_writer(Db *db, Err *err)
{
    int code = connect_to(db, db->path, SQLITE_OPEN_READWRITE, "");
    if (!code && sqlite3_db_readonly(db->sql, "main") == 1) {
        return err_set(err, E_IO, "Cannot write %s: the file or its file system is read-only.",
                       db->path);
    }
    code = code ? code : sqlite3_exec(db->sql, for_writing, NULL, NULL, NULL);
    return !code || cannot_write(db, code, err);
}
