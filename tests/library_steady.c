/* library_steady.c - a steady step of a built library: no allocation, no lock, and no system call but one
 * wake for each time that threads meet, where some sleep. System calls are seen by a seccomp filter that
 * hands each to a handler, in a child; allocations and locks by the library's own calls of them, counted
 * where it is linked. */
#include "schedules/schedules.h"
#include "tests/library_util.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static TestModel model;
static TestLibrary library;
static Picker defaults;

static void make_library(void)
{
    test_model_open(&model, TINY);
    defaults = picker_default();
    library = (TestLibrary){.picker = &defaults, .context = 96};
    library_make_test(&library, &model);
    library_load_test(&library);
}

static void close_library(void)
{
    built_model_close(&library.built);
    test_model_close(&model);
}

TestSuite(library_steady, .init = make_library, .fini = close_library, .timeout = 300);

enum { WARM = 4, STEPS = 20, PROMPT = 30 };

typedef nc_model *OpenFn(const nc_options *, nc_error *);
typedef nc_code DecodeFn(nc_model *, int64_t, int32_t, const float **, nc_error *);
typedef nc_code PrefillFn(nc_model *, int64_t, const int32_t *, int64_t, const float **,
                          nc_error *);

/* ---- system calls ---- */

#if defined __x86_64__

enum { PASS = 0x6e63 }; /* in an argument that futex does not look at: the handler's own */

typedef struct Counts {              /* shared with the child */
    _Atomic int wakes[2], sleeps[2]; /* by the caller, by workers */
    _Atomic int other, last_other;
    bool no_filter, broken;
} Counts;

static Counts *counts;
static pthread_t caller;

/* Counts a call, and makes it where it is a futex. */
static void on_call(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number;
    greg_t *reg = ((ucontext_t *)context)->uc_mcontext.gregs;
    int kept = errno, who = !pthread_equal(pthread_self(), caller);
    if (info->si_syscall != SYS_futex) {
        atomic_fetch_add(&counts->other, 1);
        atomic_store(&counts->last_other, info->si_syscall);
        reg[REG_RAX] = -ENOSYS;
        return;
    }
    atomic_fetch_add(
        reg[REG_RSI] == FUTEX_WAKE_PRIVATE ? &counts->wakes[who] : &counts->sleeps[who], 1);
    long r = syscall(SYS_futex, reg[REG_RDI], reg[REG_RSI], reg[REG_RDX], reg[REG_R10],
                     reg[REG_R8], PASS);
    reg[REG_RAX] = r < 0 ? -errno : r;
    errno = kept;
}

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define ALLOWED(call) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), ANSWER(SECCOMP_RET_ALLOW)

/* Of all threads, from now on. */
static bool watch_calls(void)
{
    struct sock_filter rule[] = {
        LOAD(nr),
        ALLOWED(rt_sigreturn),
        ALLOWED(exit_group),
        LOAD(args[5]),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PASS, 0, 1),
        ANSWER(SECCOMP_RET_ALLOW),
        ANSWER(SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {countof(rule), rule};
    struct sigaction act = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    caller = pthread_self();
    return sigaction(SIGSYS, &act, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) ==
               0;
}

static void one_cpu(void)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET((size_t)sched_getcpu(), &mask);
    sched_setaffinity(0, sizeof mask, &mask);
}

static bool decode(nc_model *m, int n, int64_t *at)
{
    DecodeFn *step = (DecodeFn *)dlsym(library.built.handle, "nc_decode");
    const float *logits;
    nc_error why;
    for (int i = 0; i < n; i++) {
        if (step(m, (*at)++, 7, &logits, &why) != NC_OK) {
            return false;
        }
    }
    return true;
}

static void child(const nc_options *o)
{
    static const int32_t ids[PROMPT];
    OpenFn *open = (OpenFn *)dlsym(library.built.handle, "nc_open");
    PrefillFn *prefill = (PrefillFn *)dlsym(library.built.handle, "nc_prefill");
    DecodeFn *step = (DecodeFn *)dlsym(library.built.handle, "nc_decode");
    const float *logits;
    nc_error why;
    int64_t at = PROMPT;
    one_cpu(); /* more threads than CPUs: all sleep at once, and none is pinned */
    nc_model *m = open(o, &why);
    counts->broken = !m || !step || prefill(m, 0, ids, PROMPT, &logits, &why) != NC_OK ||
                     !decode(m, WARM, &at);
    if (counts->broken || (counts->no_filter = !watch_calls())) {
        _exit(0);
    }
    counts->broken =
        !decode(m, STEPS, &at) || prefill(m, 0, ids, PROMPT, &logits, &why) != NC_OK;
    _exit(0);
}

/* What steps of such a model call. */
static void count_calls(const nc_options *o)
{
#ifdef NC_SANITIZED
    cr_skip_test("libc's functions are a sanitizer's here, with system calls of its own");
#endif
    int status;
    counts =
        mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(counts != MAP_FAILED);
    pid_t pid = fork();
    if (pid == 0) {
        child(o);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    if (counts->no_filter) {
        cr_skip_test("no seccomp filter can be set here");
    }
    cr_assert(WIFEXITED(status) && !counts->broken, "the child ended with %#x", status);
}

/* Of the steps that are watched: one prompt, and single tokens. */
static int most_meetings(void)
{
    const nc_program *p = library.built.facts->program;
    return STEPS * p[0].n_joins + p[1].n_joins;
}

Test(library_steady, one_thread_makes_no_system_call)
{
    count_calls(&(nc_options){.n_threads = 1});
    cr_assert_eq(counts->other, 0, "number %d", counts->last_other);
    cr_assert_eq(counts->wakes[0] + counts->sleeps[0], 0);
}

Test(library_steady, more_threads_make_none_but_a_wake_and_a_sleep_where_they_meet)
{
    for (int n_threads = 2; n_threads <= 3; n_threads++) {
        count_calls(&(nc_options){.n_threads = n_threads});
        cr_assert_eq(counts->other, 0, "number %d", counts->last_other);
        cr_assert_gt(counts->wakes[0], 0, "workers slept");
        cr_assert_leq(counts->wakes[0], most_meetings(), "one wakes all");
        cr_assert_leq(counts->wakes[1], most_meetings(), "only the last wakes the caller");
    }
}

static void call_the_system(void *ctx, int site)
{
    (void)ctx, (void)site;
    syscall(SYS_getppid);
}

Test(library_steady, a_system_call_would_be_seen)
{
    count_calls(&(nc_options){.n_threads = 1, .watch = call_the_system});
    cr_assert_eq(counts->other, (STEPS + 1) * library.built.facts->program[0].n_calls);
    cr_assert_eq(counts->last_other, SYS_getppid);
}

#endif

/* ---- memory and locks ---- */

/* Every call that the library makes of these passes through here. */
static const char counting_c[] =
    "long nc_counted;\n"
    "#define COUNT(f) long __real_##f(long, long, long, long, long, long); \\\n"
    "    long __wrap_##f(long a, long b, long c, long d, long x, long y); \\\n"
    "    long __wrap_##f(long a, long b, long c, long d, long x, long y) \\\n"
    "    { __atomic_add_fetch(&nc_counted, 1, 0); return __real_##f(a, b, c, d, x, y); }\n";

static const char *const counted[] = {"malloc",
                                      "calloc",
                                      "realloc",
                                      "aligned_alloc",
                                      "posix_memalign",
                                      "free",
                                      "mmap",
                                      "munmap",
                                      "madvise",
                                      "pthread_mutex_lock",
                                      "pthread_rwlock_rdlock",
                                      "pthread_rwlock_wrlock",
                                      "pthread_spin_lock",
                                      "pthread_cond_wait",
                                      "pthread_cond_signal",
                                      "pthread_cond_broadcast",
                                      "pthread_barrier_wait",
                                      "sem_wait",
                                      "sem_post"};

/* The library of this folder, linked so that they are counted. */
static void *counting_library(const char *dir)
{
    Buf c, flags;
    Err err;
    buf_init(&c, &model.e.model);
    buf_init(&flags, &model.e.model);
    buf_str(&c, counting_c);
    buf_str(&flags, "count.c");
    for (size_t i = 0; i < countof(counted); i++) {
        buf_printf(&c, "COUNT(%s)\n", counted[i]);
        buf_printf(&flags, " -Wl,--wrap=%s", counted[i]);
    }
    cr_assert(os_write_file(arena_printf(&model.e.model, "%s/count.c", dir), c.at, c.len, &err),
              "%s", err.text);
    library_compile_folder(&model.e, dir, NULL, flags.at);
    void *handle = dlopen(arena_printf(&model.e.model, "%s/model.so", dir), RTLD_NOW);
    cr_assert(handle, "%s", dlerror());
    return handle;
}

Test(library_steady, a_step_neither_allocates_nor_locks)
{
    static const int32_t ids[PROMPT];
    TempDir d = temp_dir();
    nc_error why;
    const float *logits;
    library_write_test(&library, d.path);
    void *handle = counting_library(d.path);
    const long *n_counted = dlsym(handle, "nc_counted");
    nc_model *m = ((OpenFn *)dlsym(handle, "nc_open"))(&(nc_options){.n_threads = 2}, &why);
    cr_assert(m, "%s", why.text);
    cr_assert_gt(*n_counted, 0, "opening takes memory");
    long before = *n_counted;
    PrefillFn *prefill = (PrefillFn *)dlsym(handle, "nc_prefill");
    DecodeFn *step = (DecodeFn *)dlsym(handle, "nc_decode");
    cr_assert_eq(prefill(m, 0, ids, PROMPT, &logits, &why), NC_OK);
    for (int i = 0; i < STEPS; i++) {
        cr_assert_eq(step(m, PROMPT + i, 7, &logits, &why), NC_OK);
    }
    cr_assert_eq(*n_counted, before);
    ((void (*)(nc_model *))dlsym(handle, "nc_close"))(m);
    cr_assert_gt(*n_counted, before, "closing gives it back");
    dlclose(handle);
    temp_remove(&d);
}
