/* alone.h - what the run time uses of base, for a library that carries it: errors of the pool, the
 * system's calls by their names in the os table, a clock. Never compiled within nanocompile. */
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define countof(a) (sizeof(a) / sizeof *(a))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

typedef enum ErrCode { E_OK, E_NOMEM, E_IO } ErrCode;

typedef struct Err {
    ErrCode code;
    char text[1024];
} Err;

static inline bool err_set(Err *err, ErrCode code, const char *fmt, ...) PRINTF(3, 4);
static inline bool err_set(Err *err, ErrCode code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    err->code = code;
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    return false;
}

#define bug(text) (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, (text)), abort())
#define check(cond) ((cond) ? (void)0 : bug("check failed: " #cond))

static inline int open_file(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

__attribute__((unused)) static const struct Os {
    void *(*alloc)(size_t bytes);
    int (*open)(const char *path, int flags, mode_t mode);
    int (*close)(int fd);
    ssize_t (*read)(int fd, void *p, size_t n);
    ssize_t (*write)(int fd, const void *p, size_t n);
    int (*fsync)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
    int (*fstat)(int fd, struct stat *st);
    void *(*mmap)(void *at, size_t n, int prot, int flags, int fd, off_t off);
    int (*munmap)(void *at, size_t n);
    int (*madvise)(void *at, size_t n, int advice);
} os = {malloc, open_file, close, read, write,  fsync,
        rename, unlink,    fstat, mmap, munmap, madvise};

static inline uint64_t os_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
