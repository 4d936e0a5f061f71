/* create.c - a new database. It is made under another name and linked into place complete, so
 * that two programs that start at once, or one that is killed, never meet half of one - and so
 * that an empty file is never taken for one that only waits to be filled. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "db/db_int.h"

static void remove_all(const char *path)
{
    static const char *const suffix[] = {"", "-wal", "-shm", "-journal"};
    char name[PATH_MAX + 16];
    for (size_t i = 0; i < countof(suffix); i++) {
        snprintf(name, sizeof name, "%s%s", path, suffix[i]);
        os.unlink(name);
    }
}

/* An empty file of our own beside path. */
static bool make_temp(const char *path, char *temp, size_t size, Err *err)
{
    for (int i = 0; i < 100; i++) {
        int n = snprintf(temp, size, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        if (n < 0 || (size_t)n >= size) {
            return err_set(err, E_IO, "Cannot make %s: the path is too long.", path);
        }
        int fd = os.open(temp, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (fd >= 0) {
            os.close(fd);
            return true;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    return err_set(err, E_IO, "Cannot make the database %s: %s.", path, strerror(errno));
}

/* A file system may say that it can, and then fail at the first write: only that counts. */
static bool try_wal(sqlite3 *sql)
{
    return sqlite3_exec(sql, "PRAGMA journal_mode = wal", NULL, NULL, NULL) == SQLITE_OK &&
           sqlite3_exec(sql, "BEGIN IMMEDIATE; PRAGMA user_version = 0; COMMIT", NULL, NULL,
                        NULL) == SQLITE_OK;
}

/* Once, at the end: nobody sees it before. */
static bool sync_file(const char *temp, const char *path, Err *err)
{
    int fd = os.open(temp, O_RDONLY, 0);
    bool ok = fd >= 0 && os.fsync(fd) == 0;
    int why = errno;
    if (fd >= 0) {
        os.close(fd);
    }
    return ok || err_set(err, E_IO, "Cannot write the database %s: %s.", path, strerror(why));
}

static int fill(sqlite3 *sql)
{
    char text[64];
    snprintf(text, sizeof text, "PRAGMA application_id = %d", APPLICATION_ID);
    int code = sqlite3_exec(sql, text, NULL, NULL, NULL);
    return code ? code : migrate(sql, db_schema);
}

static bool make_at(const char *temp, bool wal, const char *path, bool *again, Err *err)
{
    sqlite3 *sql = NULL;
    int code = sqlite_at(temp, SQLITE_OPEN_READWRITE, "", &sql);
    if (!code) {
        sqlite3_exec(sql, "PRAGMA synchronous = off", NULL, NULL, NULL);
    }
    *again = wal && !code && !try_wal(sql);
    code = code || *again ? code : fill(sql);
    if (code) {
        sqlite_error(sql, code, "make the database", path, err);
    }
    int closed = sqlite3_close(sql);
    return !*again && !code && !closed;
}

static bool put_in_place(const char *temp, const char *path, Err *err)
{
    struct stat st;
    if (link(temp, path) == 0 || errno == EEXIST) {
        return true;
    }
    int why = errno; /* a file system without links? */
    if (os.stat(path, &st) && errno == ENOENT && os.rename(temp, path) == 0) {
        return true;
    }
    return err_set(err, E_IO, "Cannot make the database %s: %s.", path, strerror(why));
}

bool create_database(const char *path, Err *err)
{
    char temp[PATH_MAX];
    bool ok = false, again = true;
    for (int wal = 1; wal >= 0 && again; wal--) {
        if (!make_temp(path, temp, sizeof temp, err)) {
            return false;
        }
        ok = make_at(temp, wal, path, &again, err) && sync_file(temp, path, err) &&
             put_in_place(temp, path, err);
        remove_all(temp);
    }
    return ok;
}
