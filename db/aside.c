/* aside.c - a copy of a database that lies where its log cannot be replayed: in a folder
 * that may not be written, or on a file system without locks. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/db_int.h"

static const char *const suffix[] = {"", "-wal", "-journal", "-shm"};
enum { N_COPIED = 3, CHUNK = 1 << 16 };

static bool copy_bytes(int from, int to)
{
    char chunk[CHUNK];
    for (;;) {
        ssize_t n = os.read(from, chunk, sizeof chunk);
        if (n == 0) {
            return true;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        for (ssize_t done = 0; done < n;) {
            ssize_t w = os.write(to, chunk + done, (size_t)(n - done));
            if (w <= 0 && errno != EINTR) {
                return false;
            }
            done += w > 0 ? w : 0;
        }
        if (n < 0) {
            return false;
        }
    }
}

/* A file that does not exist is not copied. */
static bool copy_file(const char *from, const char *to)
{
    int in = os.open(from, O_RDONLY, 0);
    if (in < 0) {
        return errno == ENOENT;
    }
    int out = os.open(to, O_WRONLY | O_CREAT | O_EXCL, 0600);
    bool ok = out >= 0 && copy_bytes(in, out);
    int why = errno;
    if (out >= 0) {
        ok = os.close(out) == 0 && ok;
    }
    os.close(in);
    errno = why;
    return ok;
}

void remove_aside(const char *folder)
{
    char name[PATH_MAX];
    for (size_t i = 0; i < countof(suffix); i++) {
        snprintf(name, sizeof name, "%s/copy.db%s", folder, suffix[i]);
        os.unlink(name);
    }
    os.rmdir(folder);
}

const char *folder_aside(Env *e, const char *path, Err *err)
{
    const char *base = getenv("TMPDIR");
    char *folder =
        arena_printf(&e->model, "%s/nanocompile-db-XXXXXX", base && *base ? base : "/tmp");
    if (!os.mkdtemp(folder)) {
        err_set(err, E_IO, "Cannot make a folder %s for a copy of %s: %s.", folder, path,
                strerror(errno));
        return NULL;
    }
    return folder;
}

const char *copy_aside(Env *e, const char *path, Err *err)
{
    const char *folder = folder_aside(e, path, err);
    if (!folder) {
        return NULL;
    }
    for (int i = 0; i < N_COPIED; i++) {
        char from[PATH_MAX + 16], to[PATH_MAX + 16]; /* nothing below may fail() */
        snprintf(from, sizeof from, "%s%s", path, suffix[i]);
        snprintf(to, sizeof to, "%s/copy.db%s", folder, suffix[i]);
        if (!copy_file(from, to)) {
            err_set(err, E_IO, "Cannot copy %s to %s: %s.", from, to, strerror(errno));
            remove_aside(folder);
            return NULL;
        }
    }
    return folder;
}
