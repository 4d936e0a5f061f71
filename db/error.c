/* error.c - what SQLite reports, as one sentence with the file, the cause and, where there is
 * one, the remedy. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "db/db_int.h"

/* The first row whose code is the extended or the primary one. %s: SQLite's or the system's
 * words. */
static const struct {
    int code;
    ErrCode err;
    const char *text;
} reasons[] = {
    {SQLITE_NOMEM, E_NOMEM, "%s"},
    {SQLITE_INTERRUPT, E_INTERRUPT, "%s"},
    {SQLITE_FULL, E_IO,
     "there is no room left on its disk (%s); what was there before is safe"},
    {SQLITE_CORRUPT, E_IO,
     "it is damaged (%s) and is left as it is; `sqlite3 FILE .recover | sqlite3 NEW` salvages "
     "what can still be read"},
    {SQLITE_NOTADB, E_IO, "it is no database (%s) and is left as it is"},
    {SQLITE_READONLY, E_IO, "the file or its folder cannot be written (%s)"},
    {SQLITE_PERM, E_IO, "the file or its folder may not be accessed (%s)"},
    {SQLITE_CONSTRAINT, E_INPUT, "%s"},
    {SQLITE_BUSY, E_IO, "another program has kept it locked for a minute (%s)"},
    {SQLITE_IOERR_SHMMAP, E_IO,
     "its file system cannot share memory between programs (%s): put it on a local disk, by "
     "--db or NANOCOMPILE_DB"},
    {SQLITE_IOERR_SHMOPEN, E_IO, "its folder cannot be written (%s)"},
    {SQLITE_IOERR_WRITE, E_IO,
     "a write failed (%s), by a quota, a limit on the size of files or a broken disk; what was "
     "there before is safe"},
    {SQLITE_IOERR, E_IO, "%s"},
};

bool locks_work(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    snprintf(slash ? slash + 1 : folder, 2, ".");
    /* The folder, not the file: closing that would drop the locks that this process holds on
     * it. */
    int fd = os.open(folder, O_RDONLY, 0);
    if (fd < 0) {
        return true; /* not known: the first lock will tell */
    }
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
    bool ok = fcntl(fd, F_SETLK, &lock) == 0 || errno == EACCES || errno == EAGAIN;
    int why = errno;
    os.close(fd);
    errno = why;
    return ok;
}

bool sqlite_error(sqlite3 *sql, int code, const char *doing, const char *path, Err *err)
{
    int number = sql ? sqlite3_system_errno(sql) : 0;
    bool about_file = (code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN ||
                      (code & 0xff) == SQLITE_FULL;
    char why[400], reason[700];
    const char *says = sql && sqlite3_errcode(sql) ? sqlite3_errmsg(sql) : sqlite3_errstr(code);
    snprintf(why, sizeof why, "%s%s%s", says, about_file && number ? ": " : "",
             about_file && number ? strerror(number) : "");
    ErrCode as = E_IO;
    snprintf(reason, sizeof reason, "%s", why);
    for (size_t i = 0; i < countof(reasons); i++) {
        if (reasons[i].code == code || reasons[i].code == (code & 0xff)) {
            as = reasons[i].err;
            snprintf(reason, sizeof reason, reasons[i].text, why);
            break;
        }
    }
    return err_set(err, as, "Cannot %s %s: %s.", doing, path, reason);
}

_Noreturn void db_fail(Db *db, int code, const char *doing)
{
    Err err;
    sqlite_error(db->sql, code, doing, db->path, &err);
    fail_err(db->e, &err);
}
