/* os.c - the real system calls behind the os table, and the few helpers that everybody would
 * otherwise write again: whole files, folders, running a program to its end.
 *
 * The helpers go through the table like everyone else, loop on EINTR, name the path and the
 * reason in every message, and hold no descriptor when they return - however they return. */
#include "base/base.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the calls whose C interface is not the table's ------------------------- */

static int open_cloexec(const char *path, int flags, mode_t mode)
{
    return open(path, flags | O_CLOEXEC, mode);
}

static int pipe_cloexec(int fd[2])
{
    return pipe2(fd, O_CLOEXEC);
}

/* The output is placed before stdin is opened: fd_out may itself be 0, 1 or 2. */
static int set_child_files(posix_spawn_file_actions_t *files, int fd_out)
{
    int err = posix_spawn_file_actions_adddup2(files, fd_out, 1);
    err = err ? err : posix_spawn_file_actions_adddup2(files, 1, 2);
    return err ? err : posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
}

static int set_child_signals(posix_spawnattr_t *attr)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    sigdelset(&all, SIGKILL);
    sigdelset(&all, SIGSTOP);
    int err = posix_spawnattr_setsigmask(attr, &none);
    err = err ? err : posix_spawnattr_setsigdefault(attr, &all);
    err = err ? err : posix_spawnattr_setpgroup(attr, 0);
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
    return err ? err : posix_spawnattr_setflags(attr, flags);
}

static pid_t spawn(const char *path, char *const argv[], char *const envp[], int fd_out)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    pid_t pid = -1;
    int err = posix_spawn_file_actions_init(&files);
    if (!err) {
        err = posix_spawnattr_init(&attr);
        if (!err) {
            err = set_child_files(&files, fd_out);
            err = err ? err : set_child_signals(&attr);
            char *const *env = envp ? envp : environ;
            err = err ? err : posix_spawnp(&pid, path, &files, &attr, argv, env);
            posix_spawnattr_destroy(&attr);
        }
        posix_spawn_file_actions_destroy(&files);
    }
    errno = err;
    return err ? -1 : pid;
}

static int make_memfd(const char *name, off_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, bytes) != 0) {
        int why = errno;
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

static int open_pidfd(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0); /* closed on exec by itself */
}

static int poll_fds(struct pollfd *fds, unsigned long n, int timeout_ms)
{
    return poll(fds, n, timeout_ms);
}

#define SYSTEM_CALLS                                                                          \
    {                                                                                         \
        .alloc = malloc, .realloc = realloc, .open = open_cloexec, .close = close,            \
        .read = read, .write = write, .fstat = fstat, .stat = stat, .fsync = fsync,           \
        .rename = rename, .unlink = unlink, .mkdir = mkdir, .rmdir = rmdir,                   \
        .mkdtemp = mkdtemp, .mmap = mmap, .munmap = munmap, .madvise = madvise,               \
        .pipe = pipe_cloexec, .poll = poll_fds, .spawn = spawn, .waitpid = waitpid,           \
        .wait4 = wait4, .memfd = make_memfd, .pidfd = open_pidfd, .kill = kill,               \
        .dlopen = dlopen, .dlsym = dlsym, .dlclose = dlclose, .clock_gettime = clock_gettime, \
    }

Os os = SYSTEM_CALLS;
const Os os_system = SYSTEM_CALLS;

/* ---- time -------------------------------------------------------------------- */

static int64_t read_clock(clockid_t clock)
{
    struct timespec ts = {0};
    os.clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

uint64_t os_now_ns(void)
{
    return (uint64_t)read_clock(CLOCK_MONOTONIC);
}

int64_t os_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

/* ---- whole files --------------------------------------------------------------- */

enum { CHUNK = 64 << 10 };

static int open_file(const char *path, int flags)
{
    int fd;
    do {
        fd = os.open(path, flags, 0666);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

typedef struct Reading {
    Arena *arena;
    const char *path;
    int fd;
    size_t max_bytes;
    Buf text;
} Reading;

/* In chunks up to the limit: the size a file claims is not believed, a pipe claims none. */
static void read_to_end(Env *e, void *arg)
{
    Reading *r = arg;
    buf_init(&r->text, r->arena);
    char chunk[CHUNK];
    for (;;) {
        ssize_t n = os.read(r->fd, chunk, sizeof chunk);
        if (n == 0) {
            return;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            fail(e, E_IO, "Cannot read %s: %s.", r->path, strerror(errno));
        }
        if ((size_t)n > r->max_bytes - r->text.len) {
            fail(e, E_IO, "%s is larger than the limit of %zu bytes.", r->path, r->max_bytes);
        }
        buf_bytes(&r->text, chunk, (size_t)n);
    }
}

bool os_read_file(Arena *a, const char *path, size_t max_bytes, char **text, size_t *len,
                  Err *err)
{
    Reading r = {.arena = a, .path = path, .max_bytes = max_bytes};
    r.fd = open_file(path, O_RDONLY);
    if (r.fd < 0) {
        return err_set(err, E_IO, "Cannot open %s: %s.", path, strerror(errno));
    }
    bool ok = env_try(a->env, read_to_end, &r);
    os.close(r.fd);
    if (!ok) {
        return err_set(err, a->env->err.code, "%s", a->env->err.text);
    }
    *text = r.text.at;
    *len = r.text.len;
    return true;
}

static bool write_all(int fd, const char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = os.write(fd, p, len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            errno = n == 0 ? ENOSPC : errno;
            return false;
        }
        p += n;
        len -= (size_t)n;
    }
    return true;
}

/* Closes in any case. A close that reports an error has lost data: so it counts. */
static bool write_and_close(int fd, const void *p, size_t len, bool sync)
{
    bool ok = write_all(fd, p, len) && (!sync || os.fsync(fd) == 0);
    int why = errno;
    bool closed = os.close(fd) == 0;
    errno = ok ? errno : why;
    return ok && closed;
}

static bool cannot_write(const char *path, Err *err)
{
    return err_set(err, E_IO, "Cannot write %s: %s.", path, strerror(errno));
}

/* A new file beside path; its name goes to temp. */
static int open_temp(const char *path, char *temp, size_t size)
{
    for (int i = 0; i < 100; i++) {
        int n = snprintf(temp, size, "%s.%ld-%d.tmp", path, (long)getpid(), i);
        if (n < 0 || (size_t)n >= size) {
            errno = ENAMETOOLONG;
            return -1;
        }
        int fd = open_file(temp, O_WRONLY | O_CREAT | O_EXCL);
        if (fd >= 0 || errno != EEXIST) {
            return fd;
        }
    }
    return -1;
}

bool os_write_file(const char *path, const void *p, size_t len, Err *err)
{
    struct stat st;
    if (os.stat(path, &st) == 0 && !S_ISREG(st.st_mode)) { /* /dev/stdout: not to be replaced */
        int fd = open_file(path, O_WRONLY);
        return (fd >= 0 && write_and_close(fd, p, len, false)) || cannot_write(path, err);
    }
    char temp[PATH_MAX];
    int fd = open_temp(path, temp, sizeof temp);
    if (fd < 0) {
        return cannot_write(path, err);
    }
    if (write_and_close(fd, p, len, true) && os.rename(temp, path) == 0) {
        return true;
    }
    cannot_write(path, err);
    os.unlink(temp);
    return false;
}

static bool make_folder(const char *path, Err *err)
{
    struct stat st;
    if (os.mkdir(path, 0777) == 0) {
        return true;
    }
    int why = errno;
    if (why == EEXIST && os.stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) {
            return true;
        }
        why = ENOTDIR;
    }
    return err_set(err, E_IO, "Cannot make the folder %s: %s.", path, strerror(why));
}

bool os_mkdirs(const char *path, Err *err)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof part) {
        return err_set(err, E_IO, "Cannot make the folder %s: %s.", path,
                       strerror(len ? ENAMETOOLONG : ENOENT));
    }
    for (size_t i = 1; i <= len; i++) {
        if ((path[i] == '/' || !path[i]) && path[i - 1] != '/') {
            memcpy(part, path, i);
            part[i] = 0;
            if (!make_folder(part, err)) {
                return false;
            }
        }
    }
    return true;
}
