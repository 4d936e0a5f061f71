/* run_program.c - os_run: one program, run to its end or to its deadline, with the last part
 * of what it said. Whatever happens, the child is reaped and no descriptor stays open.
 *
 * The program is done when it has exited and every holder of its output has closed it, so a
 * forgotten background process counts as not done; the deadline then kills the whole group. */
#include "base/base.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct Run {
    const char *name;
    pid_t pid;
    int fd; /* read end of its output */
    uint64_t deadline_ns;
    int timeout_ms;
    char *ring;      /* the last size bytes of output */
    size_t size, at; /* at: where the next byte goes */
    bool wrapped;
} Run;

typedef enum Progress { GOING, DONE, BROKEN } Progress;

/* Never more than the whole timeout, even if the clock jumps. 0: too late. */
static int left_ms(const Run *r)
{
    uint64_t now = os_now_ns();
    if (now >= r->deadline_ns) {
        return 0;
    }
    uint64_t ms = (r->deadline_ns - now + 999999) / 1000000;
    return ms < (uint64_t)r->timeout_ms ? (int)ms : r->timeout_ms;
}

static Progress read_some(Run *r)
{
    ssize_t n = os.read(r->fd, r->ring + r->at, r->size - r->at);
    if (n < 0) {
        return errno == EINTR ? GOING : BROKEN;
    }
    r->at += (size_t)n;
    if (r->at == r->size) {
        r->at = 0;
        r->wrapped = true;
    }
    return n == 0 ? DONE : GOING;
}

static Progress timed_out(const Run *r, Err *err)
{
    err_set(err, E_IO, "%s did not finish within %d ms and was stopped.", r->name,
            r->timeout_ms);
    return BROKEN;
}

static Progress read_output(Run *r, Err *err)
{
    Progress p = GOING;
    while (p == GOING) {
        int ms = left_ms(r);
        if (ms == 0) {
            return timed_out(r, err);
        }
        struct pollfd fd = {.fd = r->fd, .events = POLLIN};
        int n = os.poll(&fd, 1, ms);
        if (n > 0) {
            p = read_some(r);
        } else if (n < 0 && errno != EINTR) {
            p = BROKEN;
        }
    }
    if (p == BROKEN) {
        err_set(err, E_IO, "Cannot read the output of %s: %s.", r->name, strerror(errno));
    }
    return p;
}

/* The exit follows the end of output at once, but for a program that closed its output itself:
 * hence naps, from 1 ms to 16 ms. */
static Progress await_exit(Run *r, int *status, Err *err)
{
    for (int nap_ms = 1;; nap_ms = nap_ms < 16 ? nap_ms * 2 : nap_ms) {
        pid_t pid = os.waitpid(r->pid, status, WNOHANG);
        if (pid == r->pid) {
            return DONE;
        }
        if (pid < 0 && errno != EINTR) {
            err_set(err, E_IO, "Cannot wait for %s: %s.", r->name, strerror(errno));
            return BROKEN;
        }
        if (left_ms(r) == 0) {
            return timed_out(r, err);
        }
        os.poll(NULL, 0, nap_ms);
    }
}

static void stop(Run *r)
{
    int status;
    os.kill(-r->pid, SIGKILL);
    while (os.waitpid(r->pid, &status, 0) < 0 && errno == EINTR) {
    }
}

/* Starts the program; leaves the read end of its output in r->fd. */
static bool start(Run *r, char *const argv[], char *const envp[], Err *err)
{
    int fd[2];
    if (os.pipe(fd) != 0) {
        return err_set(err, E_IO, "Cannot run %s: no pipe: %s.", r->name, strerror(errno));
    }
    r->pid = os.spawn(argv[0], argv, envp, fd[1]);
    int why = errno;
    os.close(fd[1]);
    if (r->pid < 0) {
        os.close(fd[0]);
        return err_set(err, E_IO, "Cannot run %s: %s.", r->name, strerror(why));
    }
    r->fd = fd[0];
    return true;
}

bool os_run(char *const argv[], char *const envp[], int timeout_ms, size_t max_bytes, Buf *out,
            int *status, Err *err)
{
    check(max_bytes > 0 && timeout_ms > 0);
    Run r = {.name = argv[0], .timeout_ms = timeout_ms, .size = max_bytes};
    r.ring = arena_alloc(out->arena, max_bytes); /* before there is anything to release */
    r.deadline_ns = os_now_ns() + (uint64_t)timeout_ms * 1000000u;
    if (!start(&r, argv, envp, err)) {
        return false;
    }
    bool ok = read_output(&r, err) == DONE && await_exit(&r, status, err) == DONE;
    if (!ok) {
        stop(&r);
    }
    os.close(r.fd);
    if (r.wrapped) {
        buf_bytes(out, r.ring + r.at, r.size - r.at);
    }
    buf_bytes(out, r.ring, r.at);
    return ok;
}
