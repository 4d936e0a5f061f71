/* base.h - what every folder stands on: errors, memory, text, hashes, random
 * numbers, the operating system, this machine, dtypes, symbolic dimensions and
 * the scalar operations. Sections are named after the .c file that defines them. */
#ifndef NC_BASE_H
#define NC_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#define NC_VERSION "0.2.0"
#define countof(a) (sizeof(a) / sizeof *(a))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* ---- err.c: three words for failure ------------------------------------
 * bug()  ours: prints and aborts.
 * fail() the input's or the candidate's: returns to the one boundary (env_try).
 * die()  only in a program's main and cli files: prints and exits 1. */

#define ERR_CODES(X)                                       \
    X(OK, "ok")                                            \
    X(NOMEM, "out of memory")                              \
    X(SYNTAX, "malformed text or file")                    \
    X(TYPE, "operand of the wrong kind or dtype")          \
    X(SHAPE, "a node does not fit its primitive")          \
    X(GRAPH, "malformed whole graph")                      \
    X(INPUT, "arguments do not fit the graph")             \
    X(RANGE, "an index or bound out of range at run time") \
    X(ILLEGAL, "an illegal schedule or request")           \
    X(BUILD, "the C compiler or linker failed")            \
    X(IO, "a file or system call failed")                  \
    X(INTERRUPT, "stopped by the user")

typedef enum ErrCode {
#define X(id, meaning) E_##id,
    ERR_CODES(X)
#undef X
} ErrCode;

typedef struct Err {
    ErrCode code;    /* E_OK: nothing happened */
    char text[1024]; /* one complete sentence, no newline; longer text is cut with "..." */
} Err;

/* Fills err and returns false, so that `return err_set(...)` works. err may be NULL. */
bool err_set(Err *err, ErrCode code, const char *fmt, ...) PRINTF(3, 4);
bool err_vset(Err *err, ErrCode code, const char *fmt, va_list ap);
const char *err_name(ErrCode code);

_Noreturn void bug_at(const char *file, int line, const char *fmt, ...) PRINTF(3, 4);
#define bug(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
#define check(cond) ((cond) ? (void)0 : bug("check failed: %s", #cond))

extern const char *program_name; /* set once by main; prefix of die() and warn() */
_Noreturn void die(const char *fmt, ...) PRINTF(1, 2);
void warn(const char *fmt, ...) PRINTF(1, 2);

/* ---- arena.c: memory in two lifetimes, and the error boundary ------------
 * All memory of the compiler belongs to an Env, so a fail() from any depth
 * leaks nothing. Nothing inside the boundary holds a descriptor or a lock. */

typedef struct Env Env;
typedef struct Block Block;

typedef struct Arena {
    Env *env;          /* where an allocation failure goes */
    Block *block;      /* newest block; older ones are chained behind it */
    size_t used_bytes; /* sum of all requests, for reports and tests */
} Arena;

struct Trap; /* one level of env_try */

#define MAX_SYMBOLS 255
struct Env {
    Arena model;  /* lives as long as the Env */
    Arena kernel; /* one kernel's or one step's work: env_reset_kernel empties it */
    Err err;      /* why the last env_try returned false */
    struct Trap *trap;
    const char *symbol[MAX_SYMBOLS]; /* interned symbol names, by id (dim.c) */
    int n_symbols;
};

void env_init(Env *e);
void env_release(Env *e);
void env_reset_kernel(Env *e);

/* Runs body(e, arg). True: it returned. False: it failed and e->err says why. Nests. */
bool env_try(Env *e, void (*body)(Env *e, void *arg), void *arg);
/* Runs body, then release on every way out; a failure goes on afterwards. */
void env_finally(Env *e, void (*body)(Env *e, void *arg), void (*release)(void *arg),
                 void *arg);

/* Leaves to the innermost env_try. Without one it is a bug. */
_Noreturn void fail(Env *e, ErrCode code, const char *fmt, ...) PRINTF(3, 4);
_Noreturn void fail_err(Env *e, const Err *err);

void arena_init(Arena *a, Env *e);
void arena_release(Arena *a);
/* Zeroed, 16-aligned; fails with E_NOMEM, never NULL. */
void *arena_alloc(Arena *a, size_t bytes);
void *arena_alloc_n(Arena *a, size_t n, size_t size); /* n * size, overflow is E_NOMEM */
void *arena_dup(Arena *a, const void *p, size_t bytes);
char *arena_str(Arena *a, const char *s);
char *arena_strn(Arena *a, const char *s, size_t len);
char *arena_printf(Arena *a, const char *fmt, ...) PRINTF(2, 3);
void *arena_grow(Arena *a, void *old, int n, int *cap, size_t size); /* for vec_push */
#define arena_new(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define arena_array(a, T, n) ((T *)arena_alloc_n((a), (size_t)(n), sizeof(T)))

/* A growable array in an arena: Vec(int) v = {0}; *vec_push(&arena, &v) = 3; */
#define Vec(T)      \
    struct {        \
        T *at;      \
        int n, cap; \
    }
#define vec_push(a, v)                                                                    \
    ((v)->n == (v)->cap                                                                   \
         ? (void)((v)->at = arena_grow((a), (v)->at, (v)->n, &(v)->cap, sizeof *(v)->at)) \
         : (void)0,                                                                       \
     &(v)->at[(v)->n++])

/* ---- buf.c: growing text in an arena ------------------------------------- */

typedef struct Buf {
    Arena *arena;
    char *at;   /* always NUL-terminated, never NULL after buf_init */
    size_t len; /* without the NUL */
    size_t cap;
} Buf;

void buf_init(Buf *b, Arena *a);
void buf_clear(Buf *b);
void buf_char(Buf *b, char c);
void buf_str(Buf *b, const char *s);
void buf_bytes(Buf *b, const void *p, size_t len);
void buf_printf(Buf *b, const char *fmt, ...) PRINTF(2, 3);
void buf_pad(Buf *b, size_t column, size_t line_start); /* spaces up to a column of the line */
void buf_json(Buf *b, const char *s, size_t len);       /* a quoted, escaped JSON string */
bool text_ends_with(const char *text, const char *end); /* of any text */

/* ---- table.c: listings in five formats ------------------------------------ */

#define FORMATS(X)  \
    X(TEXT, "text") \
    X(MD, "md")     \
    X(CSV, "csv")   \
    X(JSON, "json") \
    X(TEX, "tex")

typedef enum Format {
#define X(id, name) FORMAT_##id,
    FORMATS(X) N_FORMATS
#undef X
} Format;

extern const char *const format_name[N_FORMATS];

typedef struct Table {
    Arena *arena;
    const char *name; /* of the JSON array */
    int n_columns;
    /* A heading that starts with '#' is a number: right-aligned, bare in JSON. */
    const char **column;
    Vec(const char *) cell; /* row after row */
} Table;

void table_init(Table *t, Arena *a, const char *name, int n_columns,
                const char *const *columns);
void table_cell(Table *t, const char *fmt, ...) PRINTF(2, 3);
void table_number(Table *t, double v, const char *fmt);    /* empty unless finite */
int table_rows(const Table *t);                            /* without the heading */
const char *table_at(const Table *t, int row, int column); /* row -1: the heading, bare */
bool table_is_number(const Table *t, int column);
void table_print(const Table *t, Format format, Buf *out);
void table_json_member(const Table *t, Buf *out); /* "NAME": [...], for objects with several */
void tex_text(Buf *out, const char *s);           /* with TeX's own characters escaped */

/* ---- hash.c: XXH3-128 keys, and a map keyed by them ---------------------- */

typedef struct Hash {
    uint64_t hi, lo;
} Hash;

Hash hash_bytes(const void *p, size_t len);
Hash hash_str(const char *s);
bool hash_eq(Hash a, Hash b);
void hash_hex(Hash h, char out[33]); /* 32 lower-case digits and a NUL */

typedef struct Map { /* Hash -> pointer, open addressing, in an arena */
    Arena *arena;
    struct MapSlot *slot;
    size_t n, cap;
} Map;

void map_init(Map *m, Arena *a);
void *map_get(const Map *m, Hash key);       /* NULL when absent */
void map_put(Map *m, Hash key, void *value); /* replaces; value is not NULL */

/* ---- rng.c: xoshiro256**, seeded by splitmix64 --------------------------- */

typedef struct Rng {
    uint64_t s[4];
} Rng;

uint64_t splitmix64(uint64_t *state); /* the next of a stream that is as good as its seed */
void rng_seed(Rng *r, uint64_t seed);
uint64_t rng_u64(Rng *r);
uint64_t rng_below(Rng *r, uint64_t n); /* uniform in [0, n), n > 0, no modulo bias */
double rng_unit(Rng *r);                /* uniform in [0, 1), 53 bits */
double rng_normal(Rng *r);              /* N(0, 1), Marsaglia's polar method */

/* ---- os.c, run_program.c: the world -----------------------------------------
 * Every file, process, memory and clock call of the project goes through this
 * table, so that tests can fail the Nth call. It is the one mutable global.
 * Columns: return type, name, parameters, arguments, what a failing call returns. */

struct dirent;
/* clang-format off */
#define OS_CALLS(X)                                                                         \
    X(void *, alloc, (size_t bytes), (bytes), NULL)                                         \
    X(void *, realloc, (void *p, size_t bytes), (p, bytes), NULL)                           \
    X(int, open, (const char *path, int flags, mode_t mode), (path, flags, mode), -1)       \
    X(int, close, (int fd), (fd), -1)                                                       \
    X(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n), -1)                           \
    X(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n), -1)                    \
    X(int, fstat, (int fd, struct stat *st), (fd, st), -1)                                  \
    X(int, stat, (const char *path, struct stat *st), (path, st), -1)                       \
    X(int, fsync, (int fd), (fd), -1)                                                       \
    X(int, rename, (const char *from, const char *to), (from, to), -1)                      \
    X(int, unlink, (const char *path), (path), -1)                                          \
    X(int, mkdir, (const char *path, mode_t mode), (path, mode), -1)                        \
    X(int, rmdir, (const char *path), (path), -1)                                           \
    X(char *, mkdtemp, (char *path), (path), NULL)                                          \
    X(void *, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t off),           \
      (at, n, prot, flags, fd, off), (void *)-1)                                            \
    X(int, munmap, (void *at, size_t n), (at, n), -1)                                       \
    X(int, madvise, (void *at, size_t n, int advice), (at, n, advice), -1)                  \
    X(int, pipe, (int fd[2]), (fd), -1)                                                     \
    X(int, poll, (struct pollfd *fds, unsigned long n, int timeout_ms), (fds, n, timeout_ms), -1) \
    X(pid_t, spawn, (const char *path, char *const argv[], char *const envp[], int fd_out), \
      (path, argv, envp, fd_out), -1)                                                       \
    X(int, memfd, (const char *name, off_t bytes), (name, bytes), -1)                       \
    X(int, pidfd, (pid_t pid), (pid), -1)                                                   \
    X(pid_t, waitpid, (pid_t pid, int *status, int flags), (pid, status, flags), -1)        \
    X(pid_t, wait4, (pid_t pid, int *status, int flags, struct rusage *usage),              \
      (pid, status, flags, usage), -1)                                                      \
    X(int, kill, (pid_t pid, int sig), (pid, sig), -1)                                      \
    X(void *, dlopen, (const char *path, int flags), (path, flags), NULL)                   \
    X(void *, dlsym, (void *lib, const char *name), (lib, name), NULL)                      \
    X(int, dlclose, (void *lib), (lib), -1)                                                 \
    X(int, clock_gettime, (clockid_t clock, struct timespec *ts), (clock, ts), -1)
/* clang-format on */

struct pollfd;
struct rusage;
typedef struct Os {
#define X(ret, name, params, args, failed) ret(*name) params;
    OS_CALLS(X)
#undef X
} Os;

extern Os os;              /* what is called */
extern const Os os_system; /* the real calls, for tests that wrap and restore */

/* os.spawn: posix_spawnp (a name without a slash is looked up in PATH) with stdin from /dev/null,
 * stdout and stderr to fd_out, its own process group, default signals; envp NULL: ours.
 * Returns the pid, or -1 with errno. */

/* os.memfd: memory with a descriptor and no name in any folder, so many bytes of zeros. os.pidfd: a
 * descriptor that poll finds readable when the process has ended. */

uint64_t os_now_ns(void); /* CLOCK_MONOTONIC */
int64_t os_wall_ns(void); /* since 1970: for records, never for durations */
/* Whole files. The text gets a NUL behind its last byte. False fills err (names the path). */
bool os_read_file(Arena *a, const char *path, size_t max_bytes, char **text, size_t *len,
                  Err *err);
/* Writes beside path and renames, so that path is either old or complete. */
bool os_write_file(const char *path, const void *p, size_t len, Err *err);
bool os_mkdirs(const char *path, Err *err); /* like mkdir -p, mode 0777 & ~umask */
/* Runs a program to its end, at most timeout_ms; its stdout and stderr (at most max_bytes, the
 * last ones kept) go to out. *status is waitpid's. False: could not be run, or timed out. */
bool os_run(char *const argv[], char *const envp[], int timeout_ms, size_t max_bytes, Buf *out,
            int *status, Err *err);

/* ---- machine.c: who this machine is (libcpuid, /proc, /sys) --------------- */

#define FEATURES(X)             \
    X(SSE42, "sse4.2")          \
    X(AVX, "avx")               \
    X(AVX2, "avx2")             \
    X(FMA, "fma")               \
    X(F16C, "f16c")             \
    X(AVX512F, "avx512f")       \
    X(AVX512BW, "avx512bw")     \
    X(AVX512DQ, "avx512dq")     \
    X(AVX512VL, "avx512vl")     \
    X(AVX512VNNI, "avx512vnni") \
    X(AVXVNNI, "avxvnni")       \
    X(AVX512BF16, "avx512bf16") \
    X(NEON, "neon")

typedef enum Feature {
#define X(id, name) FEAT_##id,
    FEATURES(X) N_FEATURES
#undef X
} Feature;

const char *feature_name(Feature f);

typedef struct Machine {
    char arch[16];   /* x86_64, aarch64 ... */
    char vendor[32]; /* AuthenticAMD ... */
    char brand[80];  /* marketing name */
    int family, model, stepping;
    bool feature[N_FEATURES]; /* CPUID and XCR0 agree, and not masked by NANOCOMPILE_CPU */
    int64_t l1d_bytes, l2_bytes, l3_bytes; /* per instance; 0: unknown */
    int n_online;                          /* online CPUs */
    int n_affinity;                        /* CPUs in this process's mask */
    double cpu_quota;                      /* cgroup v1 or v2, own and parent groups; 0: none */
    int n_threads;                         /* min of the three, at least 1 */
    int n_cpuset; /* CPUs in the set of its cgroups, which bounds the mask; 0: there is none */
    const char *bound_by; /* which one: "affinity" "quota" "online" */
    int n_nodes;          /* NUMA nodes */
    /* Installed, or the least limit of the cgroups where that is less; 0: unknown. */
    int64_t memory_bytes;
} Machine;

/* root: "" for this machine, else a folder with made-up proc/ and sys/ (tests). The affinity
 * mask and CPUID stay the process's own. Unreadable files count as absent. */
void machine_read(Env *e, const char *root, Machine *m);
/* The part that decides which binary code runs: arch, family, features. Stable text. */
void machine_isa(const Machine *m, Buf *out);
/* In how many periods the quota of this process's groups held them back so far. Where it moves during
 * a measurement, that measured the quota. */
int64_t machine_throttled(Env *e, const char *root);
/* The affinity mask of this process as the kernel prints it, "0-3,8", in a; NULL: not known. */
const char *machine_cpus(Env *e, Arena *a, const char *root);

/* ---- machine_load.c: what it is doing at the moment ------------------------------ */

typedef struct MachineLoad {
    int64_t steal; /* time that a hypervisor gave to others so far, in jiffies; -1: not known */
    int64_t throttled; /* as machine_throttled says */
    double load[3];    /* mean over 1, 5 and 15 minutes; NAN: not known */
    double mhz;        /* of one CPU; NAN: not known */
    double celsius;    /* of the warmest thermal zone; NAN: none can be read */
} MachineLoad;

/* Of all CPUs; -1: not known. Texts are left in e->kernel. */
int64_t machine_steal(Env *e, const char *root);
/* cpu: whose clock. root as above. */
void machine_load(Env *e, const char *root, int cpu, MachineLoad *out);

#include "base/values.h"

#endif
