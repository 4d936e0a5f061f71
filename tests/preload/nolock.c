/* nolock.c - for LD_PRELOAD: a file system without working POSIX locks (NOLOCK_ERRNO: what fcntl
 * fails with), or without shared mappings (NOSHM: mapping a -shm file fails). CASES 16 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int fcntl_as(const char *name, int fd, int cmd, void *arg)
{
    const char *fails = getenv("NOLOCK_ERRNO");
    if (fails && (cmd == F_SETLK || cmd == F_SETLKW || cmd == F_GETLK)) {
        errno = atoi(fails);
        return -1;
    }
    int (*real)(int, int, ...) = (int (*)(int, int, ...))dlsym(RTLD_NEXT, name);
    return real(fd, cmd, arg);
}

int fcntl(int fd, int cmd, ...)
{
    va_list ap;
    va_start(ap, cmd);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    return fcntl_as("fcntl", fd, cmd, arg);
}

int fcntl64(int fd, int cmd, ...)
{
    va_list ap;
    va_start(ap, cmd);
    void *arg = va_arg(ap, void *);
    va_end(ap);
    return fcntl_as("fcntl64", fd, cmd, arg);
}

static int is_shm(int fd)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    return n > 4 && !memcmp(path + n - 4, "-shm", 4);
}

static void *mmap_as(const char *name, void *at, size_t n, int prot, int flags, int fd,
                     off_t off)
{
    if (getenv("NOSHM") && fd >= 0 && flags & MAP_SHARED && is_shm(fd)) {
        errno = ENODEV;
        return MAP_FAILED;
    }
    void *(*real)(void *, size_t, int, int, int, off_t) =
        (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, name);
    return real(at, n, prot, flags, fd, off);
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    return mmap_as("mmap", at, n, prot, flags, fd, off);
}

void *mmap64(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    return mmap_as("mmap64", at, n, prot, flags, fd, off);
}
