/* child_limits.c - what a process may do that is about to run foreign code. It sets its limits
 * itself, after it knows how much memory its task needs and before it loads any library: until
 * then it runs only this program. What a system refuses to set is left, since the parent's
 * deadline and the checks of what is handed over hold without it.
 *
 * RLIMIT_NPROC does not stop root from forking, so a filter of system calls does: threads yes,
 * processes and programs no. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tuner/tuner_int.h"

#ifdef NC_SANITIZED /* it maps terabytes, and writes its reports to files */
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum {
    N_FILES = 64,
    STACK_BYTES = 8 << 20,
    PROBE_BYTES = 512 << 20, /* half of what every process has to spare */
    SIGNAL_STACK_BYTES = 64 << 10,
};

bool child_bind_life(int parent)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
}

/* ---- limits -------------------------------------------------------------------------- */

static void limit(int what, rlim_t soft, rlim_t hard)
{
    struct rlimit had;
    if (getrlimit((__rlimit_resource_t)what, &had) == 0) {
        hard = hard < had.rlim_max ? hard : had.rlim_max;
        struct rlimit now = {soft < hard ? soft : hard, hard};
        setrlimit((__rlimit_resource_t)what, &now);
    }
}

/* What is mapped now; 0: not known. */
static uint64_t mapped_bytes(void)
{
    char text[64];
    int fd = os.open("/proc/self/statm", O_RDONLY, 0);
    ssize_t n = fd < 0 ? -1 : os.read(fd, text, sizeof text - 1);
    if (fd >= 0) {
        os.close(fd);
    }
    text[n > 0 ? n : 0] = 0;
    return strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void child_limit(const ChildJob *j, uint64_t more_bytes)
{
    uint64_t seconds = (j->job.limit_ns / 1000000000 + 1) * (uint64_t)j->task.n_threads;
    uint64_t now = mapped_bytes();
    limit(RLIMIT_CPU, seconds, seconds + 1);
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_NOFILE, N_FILES, N_FILES);
    limit(RLIMIT_STACK, STACK_BYTES, STACK_BYTES);
    if (!SANITIZED) {
        limit(RLIMIT_FSIZE, 0, 0);
        if (now > 0) {
            limit(RLIMIT_AS, now + more_bytes, now + more_bytes);
        }
    }
}

/* ---- no processes, no programs ------------------------------------------------------- */

#if defined __x86_64__
#define ARCH AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef ARCH
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, (what))
#define KILLED(call) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##call, 0, 1), ANSWER(SECCOMP_RET_KILL_PROCESS)

void child_forbid_processes(void)
{
    struct sock_filter rule[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
#ifdef SYS_fork
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1), /* x32 */
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        KILLED(fork),
        KILLED(vfork),
#endif
        KILLED(execve),
        KILLED(execveat),
        KILLED(setpgid),
        KILLED(setsid),
        /* Its flags are in memory, where a filter does not look: libc then takes clone. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        ANSWER(SECCOMP_RET_ALLOW),
        LOAD(args[0]), /* little-endian: its low half */
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
        ANSWER(SECCOMP_RET_KILL_PROCESS),
        ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {countof(rule), rule};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    }
}
#else
void child_forbid_processes(void)
{
    limit(RLIMIT_NPROC, 0, 0);
}
#endif

/* ---- was it memory? ------------------------------------------------------------------ */

static uint32_t *ran_out; /* a handler has no other way to know where to say it */

static void on_death(int signal_number)
{
    void *p = mmap(NULL, PROBE_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        __atomic_store_n(ran_out, 1, __ATOMIC_RELEASE);
    }
    raise(signal_number); /* SA_RESETHAND: now it kills */
}

void child_watch_memory(uint32_t *flag)
{
    static const int deaths[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGTRAP};
    static char stack[SIGNAL_STACK_BYTES];
    stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction act = {.sa_handler = on_death, .sa_flags = SA_RESETHAND | SA_ONSTACK};
    ran_out = flag;
    if (!SANITIZED && sigaltstack(&own, NULL) == 0) {
        for (size_t i = 0; i < countof(deaths); i++) {
            sigaction(deaths[i], &act, NULL);
        }
    }
}

bool child_bind_cpu(int cpu)
{
    enum { MAX_CPUS = 1 << 14 };
    cpu_set_t set[MAX_CPUS / CPU_SETSIZE];
    CPU_ZERO_S(sizeof set, set);
    if (cpu < 0 || cpu >= MAX_CPUS) {
        return false;
    }
    CPU_SET_S(cpu, sizeof set, set);
    return sched_setaffinity(0, sizeof set, set) == 0;
}
