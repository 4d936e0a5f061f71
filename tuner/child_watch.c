/* child_watch.c - what the parent does while a process measures, and what it makes of its end.
 * It sleeps in poll and asks nothing; at the deadline, or where too much is said, the group is
 * killed. Every end is a status and a sentence, and none of them a time. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "tuner/tuner_int.h"

enum {
    MAX_SAID_BYTES = 1 << 20, /* then it is stopped */
    NAP_MS = 5,               /* where no descriptor tells of its end */
};

/* ---- waiting ------------------------------------------------------------------------- */

/* True: it is no longer there, or cannot be waited for. */
static bool reaped(Child *p, int flags)
{
    pid_t pid;
    do {
        pid = p->kept ? keeper_wait(p, flags) : os.wait4(p->pid, &p->status, flags, &p->usage);
    } while (pid < 0 && !p->kept && errno == EINTR);
    p->end = pid < 0 ? LOST : p->end;
    return pid != 0;
}

static void listen_to(Child *p)
{
    char chunk[4096];
    ssize_t n = os.read(p->said_fd, chunk, sizeof chunk);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        os.close(p->said_fd);
        p->said_fd = -1;
    }
    if (n > 0) {
        size_t kept = p->said_bytes < SAID_KEPT_BYTES ? p->said_bytes : SAID_KEPT_BYTES;
        size_t keep = (size_t)n < SAID_KEPT_BYTES - kept ? (size_t)n : SAID_KEPT_BYTES - kept;
        memcpy(p->said + kept, chunk, keep);
        p->said_bytes += (size_t)n;
        p->end = p->said_bytes > MAX_SAID_BYTES ? LOUD : p->end;
    }
}

static int wait_ms(const Child *p)
{
    uint64_t gone_ns = clock_ns() - p->begin_ns;
    uint64_t left_ns = gone_ns < p->job->limit_ns ? p->job->limit_ns - gone_ns : 0;
    uint64_t ms = left_ns / 1000000 + (left_ns % 1000000 > 0);
    ms = p->pid_fd < 0 && ms > NAP_MS ? NAP_MS : ms;
    return ms < 60000 ? (int)ms : 60000;
}

/* Until it has ended, is late, or says too much. Its group is killed before it is reaped, since
 * from then on the number may be another's. */
static void attend(Child *p)
{
    bool gone = false;
    while (p->end == GOING) {
        struct pollfd fd[] = {{.fd = p->said_fd, .events = POLLIN},
                              {.fd = p->pid_fd, .events = POLLIN}};
        int ms = wait_ms(p), n = ms > 0 ? os.poll(fd, countof(fd), ms) : 0;
        if (ms == 0) {
            p->end = LATE;
        } else if (n < 0 && errno != EINTR) {
            p->end = LOST;
        } else if (n > 0 && fd[1].revents) {
            p->end = GONE;
        } else if (n > 0 && fd[0].revents) {
            listen_to(p);
        }
        if (p->end == GOING && p->pid_fd < 0 && reaped(p, WNOHANG)) {
            p->end = p->end == GOING ? GONE : p->end;
            gone = true;
        }
    }
    if (!gone) {
        if (!p->kept || p->end != GONE) { /* a keeper sees to those that have gone */
            os.kill(-p->pid, SIGKILL);
        }
        reaped(p, 0);
    }
}

/* What is left in the pipe when it has ended, as far as it is kept. */
static void listen_on(Child *p)
{
    struct pollfd fd = {.fd = p->said_fd, .events = POLLIN};
    while (p->said_fd >= 0 && p->said_bytes < SAID_KEPT_BYTES && os.poll(&fd, 1, 0) > 0) {
        listen_to(p);
        fd.fd = p->said_fd;
    }
}

void child_watch(Child *p)
{
    attend(p);
    listen_on(p);
}

/* ---- how it ended -------------------------------------------------------------------- */

void child_ends(Child *p, Status s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    p->out->status = s;
    vsnprintf(p->out->why, sizeof p->out->why, fmt, ap);
    va_end(ap);
}

static const char *place(const Child *p)
{
    uint32_t s = __atomic_load_n(&p->area.head->state, __ATOMIC_ACQUIRE);
    return s < N_AREA_STATES ? area_state[s] : "at an unknown point";
}

/* What the verification was about to say, where that was what ran. */
static const char *verdict(const Child *p)
{
    const AreaHead *h = p->area.head;
    bool verifying = h->state == AREA_VERIFYING || h->state == AREA_AGAIN;
    return verifying && memchr(h->verdict.text, 0, sizeof h->verdict.text) ? h->verdict.text
                                                                           : "";
}

/* The first line of what it said. */
static const char *words(Child *p)
{
    p->said[strcspn(p->said, "\n")] = 0;
    return p->said;
}

static void judge_signal(Child *p, int sig)
{
    const char *name = sigabbrev_np(sig);
    name = name ? name : "?";
    if (sig == SIGXCPU) {
        child_ends(p, STATUS_TIMEOUT, "It used up its CPU time %s.", place(p));
    } else if (sig == SIGKILL) {
        child_ends(p, STATUS_OOM, "The system killed it %s, as it does where memory ends.",
                   place(p));
    } else if (p->area.head->no_memory) {
        child_ends(p, STATUS_OOM, "It ran out of memory %s (SIG%s).", place(p), name);
    } else if (sig == SIGSYS) {
        child_ends(p, STATUS_CRASH, "It tried to start a process or a program %s.", place(p));
    } else {
        child_ends(p, STATUS_CRASH, "It died of SIG%s %s. %s", name, place(p), verdict(p));
    }
}

void child_judge(Child *p, uint64_t end_ns)
{
    Err err;
    p->out->in_a = p->area.head->in_a == 1 && p->area.head->state != AREA_DONE;
    if (p->end == LATE) {
        child_ends(p, STATUS_TIMEOUT, "It was stopped after %.3f s %s. %s",
                   (double)p->job->limit_ns / 1e9, place(p), verdict(p));
    } else if (p->end == LOST) {
        child_ends(p, STATUS_GARBAGE, "It could not be waited for and was stopped %s.",
                   place(p));
    } else if (p->end == LOUD) {
        child_ends(p, STATUS_GARBAGE, "It said more than %d bytes %s: %.100s", MAX_SAID_BYTES,
                   place(p), words(p));
    } else if (WIFSIGNALED(p->status)) {
        p->out->signal = WTERMSIG(p->status);
        judge_signal(p, WTERMSIG(p->status));
    } else if (WEXITSTATUS(p->status) == CHILD_NOT_BEGUN && p->area.head->state == AREA_NEW) {
        p->out->pid = 0;
        child_ends(p, STATUS_GARBAGE, "The process could not begin: %s", words(p));
    } else if (p->out->exit_code = WEXITSTATUS(p->status), p->out->exit_code != 0) {
        child_ends(p, STATUS_CRASH, "It left with status %d %s: %s", p->out->exit_code,
                   place(p), words(p));
    } else if (p->area.head->state != AREA_DONE) {
        child_ends(p, STATUS_GARBAGE, "It left early, %s, and without an error.", place(p));
    } else if (!area_read(&p->area, &p->cross, &p->text, (int)p->pid, p->begin_ns, end_ns, p->m,
                          p->out, &err)) {
        child_ends(p, STATUS_GARBAGE, "%.600s", err.text);
    }
}
