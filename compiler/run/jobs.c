/* jobs.c - several compilers at once: started, listened to, stopped at their deadline, reaped.
 *
 * No allocation and no fail() happens while a child runs: the memory for what each says is
 * there before it starts. A compiler that says a gigabyte is read to the end and only the
 * beginning is kept, since the first error is the one that counts; one that hangs is killed
 * with its whole process group. However jobs_run returns, no child and no descriptor is
 * left. */
#include "run/run_int.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum {
    MAX_PARALLEL = 64,
    LISTEN_MS = 100, /* how long a request to stop may go unnoticed */
    REAP_MS = 1,     /* output is closed: the exit follows at once */
};

typedef struct Running {
    Job *job;
    pid_t pid;
    int fd; /* read end of its output; -1: closed by all writers */
    uint64_t start_ns, deadline_ns;
} Running;

typedef struct Batch {
    const Toolchain *tc;
    Running at[MAX_PARALLEL];
    int n;
    Job *failed; /* the first that did */
    Err *err;
} Batch;

Job job_new(Env *e, char *const *argv)
{
    return (Job){.argv = argv, .said = arena_alloc(&e->kernel, SAID_BYTES)};
}

/* Of the time that is left for all, a third: one that hangs leaves some for the others. */
static uint64_t limit_ns(const Toolchain *tc, uint64_t now_ns, int n_left)
{
    uint64_t most_ns = (uint64_t)tc->timeout_ms * 1000000u;
    uint64_t left_ns = tc->until_ns > now_ns ? tc->until_ns - now_ns : 0;
    uint64_t own_ns = n_left > 1 ? left_ns / 3 : left_ns;
    return tc->until_ns > 0 && own_ns < most_ns ? own_ns : most_ns;
}

/* n_left: it and those to be started after it. */
static bool start(Batch *b, Job *job, int n_left)
{
    int fd[2];
    b->failed = job; /* until it runs */
    if (os.pipe(fd) != 0) {
        return err_set(b->err, E_IO, "could not be started: no pipe: %s", strerror(errno));
    }
    pid_t pid = os.spawn(job->argv[0], job->argv, b->tc->env, fd[1]);
    int why = errno;
    os.close(fd[1]);
    if (pid < 0) {
        os.close(fd[0]);
        return err_set(b->err, E_BUILD, "could not be started: %s", strerror(why));
    }
    uint64_t now_ns = os_now_ns();
    b->failed = NULL;
    b->at[b->n++] = (Running){
        .job = job,
        .pid = pid,
        .fd = fd[0],
        .start_ns = now_ns,
        .deadline_ns = now_ns + limit_ns(b->tc, now_ns, n_left),
    };
    return true;
}

static void stop_all(Batch *b)
{
    for (int i = 0; i < b->n; i++) {
        Running *r = &b->at[i];
        int status;
        os.kill(-r->pid, SIGKILL);
        if (r->fd >= 0) {
            os.close(r->fd);
        }
        while (os.waitpid(r->pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    b->n = 0;
}

/* Reads once; keeps what fits. */
static bool listen_to(Running *r, Err *err)
{
    char chunk[SAID_BYTES];
    ssize_t n = os.read(r->fd, chunk, sizeof chunk);
    if (n < 0) {
        return errno == EINTR ||
               err_set(err, E_IO, "could not be listened to: %s", strerror(errno));
    }
    if (n == 0) {
        os.close(r->fd);
        r->fd = -1;
    }
    size_t room = SAID_BYTES - 1 - r->job->said_len;
    size_t keep = (size_t)n < room ? (size_t)n : room;
    memcpy(r->job->said + r->job->said_len, chunk, keep);
    r->job->said_len += keep;
    return true;
}

static bool judge_exit(int status, Err *err)
{
    if (WIFSIGNALED(status)) {
        return err_set(err, E_BUILD, "was killed by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    }
    int code = WEXITSTATUS(status);
    return code == 0 || err_set(err, E_BUILD, "failed with exit status %d", code);
}

/* *gone: it has ended and is reaped. False: it ended badly, or took too long. */
static bool look_after(Batch *b, Running *r, bool *gone)
{
    int status;
    pid_t pid = r->fd < 0 ? os.waitpid(r->pid, &status, WNOHANG) : 0;
    *gone = pid == r->pid;
    if (*gone) {
        r->job->done = judge_exit(status, b->err);
        return r->job->done;
    }
    if (pid < 0 && errno != EINTR) {
        return err_set(b->err, E_IO, "could not be waited for: %s", strerror(errno));
    }
    if (os_now_ns() < r->deadline_ns) {
        return true;
    }
    return err_set(b->err, E_BUILD, "did not finish within %g seconds and was stopped",
                   (double)(r->deadline_ns - r->start_ns) / 1e9);
}

/* Waits for output or an end, and handles what there is. */
static bool attend(Batch *b)
{
    struct pollfd fd[MAX_PARALLEL];
    uint64_t now = os_now_ns(), wait_ms = LISTEN_MS;
    for (int i = 0; i < b->n; i++) {
        uint64_t end = b->at[i].deadline_ns;
        uint64_t left_ms = now < end ? (end - now) / 1000000u + 1 : 0;
        left_ms = b->at[i].fd < 0 ? REAP_MS : left_ms;
        wait_ms = left_ms < wait_ms ? left_ms : wait_ms;
        fd[i] = (struct pollfd){.fd = b->at[i].fd, .events = POLLIN};
    }
    if (os.poll(fd, (unsigned long)b->n, (int)wait_ms) < 0) {
        return errno == EINTR ||
               err_set(b->err, E_IO, "could not be waited for: %s", strerror(errno));
    }
    for (int i = b->n - 1; i >= 0; i--) { /* downwards: the last replaces one that goes */
        bool gone = false;
        Running *r = &b->at[i];
        b->failed = r->job;
        bool ok = (!fd[i].revents || listen_to(r, b->err)) && look_after(b, r, &gone);
        if (gone) {
            *r = b->at[--b->n];
        }
        if (!ok) {
            return false;
        }
    }
    b->failed = NULL;
    return true;
}

static bool run_all(Batch *b, Job *job, int n, int n_parallel, const volatile int *stop)
{
    for (int next = 0; next < n || b->n > 0;) {
        if (stop && *stop) {
            return err_set(b->err, E_INTERRUPT, "was interrupted");
        }
        if (next < n && b->n < n_parallel) {
            if (!start(b, &job[next], n - next)) {
                return false;
            }
            next++;
        } else if (!attend(b)) {
            return false;
        }
    }
    return true;
}

bool jobs_run(Job *job, int n, int n_parallel, const Toolchain *tc, const volatile int *stop,
              int *which, Err *err)
{
    Batch b = {.tc = tc, .err = err};
    n_parallel = n_parallel < 1 ? 1 : n_parallel > MAX_PARALLEL ? MAX_PARALLEL : n_parallel;
    bool ok = run_all(&b, job, n, n_parallel, stop);
    stop_all(&b);
    *which = b.failed ? (int)(b.failed - job) : -1;
    return ok;
}
