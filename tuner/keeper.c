/* keeper.c - the parent's side of a process that keeps rings (bench_keep.c): who is asked to fork
 * the processes of a search, as long as they are of one task. It begins anew after some, since
 * where a ring lies in memory must not favour one side for a whole search, and ends before any
 * process of a match begins, which lays its rings itself, anew. Where there is no keeper, nothing
 * but time is lost. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "tuner/tuner_int.h"

enum { MOST_ASKED = 256, GRACE_MS = 10000 /* for the end of one that is killed */ };

/* ---- its end ------------------------------------------------------------------------- */

/* One that cannot be killed ends when nobody can ask it any more. */
static void stop(RingKeeper *k)
{
    if (k->pid > 0) {
        os.kill(-k->pid, SIGKILL); /* what it forked dies with it */
    }
    for (int i = 0; i < N_KEEPER_FDS && k->on; i++) {
        if (k->fd[i] >= 0) {
            os.close(k->fd[i]);
        }
    }
    while (k->pid > 0 && os.waitpid(k->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    k->on = false;
    k->pid = 0;
}

void children_release(Children *c)
{
    stop(&c->keeper);
}

/* ---- its start ----------------------------------------------------------------------- */

static Hash subject(const Task *t)
{
    struct {
        Hash kernel;
        uint64_t rotates, n_threads;
        int64_t sym[MAX_SYMBOLS];
    } of = {hash_str(t->kernel), t->rotates, (uint64_t)t->n_threads, {0}};
    memcpy(of.sym, t->sym, sizeof *t->sym * (size_t)t->n_syms);
    return hash_bytes(&of, sizeof of);
}

/* Only there it pays: many processes with rings of the same. */
static bool is_worth_it(const ProcessJob *j)
{
    return j->stage == DUEL_SEARCH && j->task->regime == REGIME_COLD && !j->a->rival &&
           !j->b->rival;
}

bool keeper_serves(const Child *p)
{
    const RingKeeper *k = &p->c->keeper;
    return is_worth_it(p->job) && !(k->hopeless && hash_eq(k->of, subject(p->job->task)));
}

static bool start(Child *p, char **env)
{
    const char *program = p->c->program ? p->c->program : "/proc/self/exe";
    RingKeeper *k = &p->c->keeper;
    char parent[24], in[24], out[24];
    char *argv[] = {(char *)program, (char *)KEEPER_WORD, parent, in, out, NULL};
    int *fd = k->fd, said[2] = {-1, -1};
    *k = (RingKeeper){.on = true, .of = k->of, .env_pad = p->out->env_pad, .n_laid = k->n_laid};
    memset(fd, -1, sizeof k->fd);
    if (os.pipe(&fd[KEEPER_ASK_READ]) != 0 || os.pipe(&fd[KEEPER_ANSWER]) != 0 ||
        os.pipe(said) != 0) {
        return false;
    }
    snprintf(parent, sizeof parent, "%d", p->cross.parent);
    snprintf(in, sizeof in, "%d", fd[KEEPER_ASK_READ]);
    snprintf(out, sizeof out, "%d", fd[KEEPER_ANSWER_WRITE]);
    fd[KEEPER_SAID] = said[0];
    k->pid = os.spawn(program, argv, env, said[1]);
    os.close(said[1]);
    fd[KEEPER_PID] = k->pid > 0 ? os.pidfd(k->pid) : -1;
    return fd[KEEPER_PID] >= 0;
}

/* ---- talking ------------------------------------------------------------------------- */

/* What an earlier process has left to be read. */
static void drain(const RingKeeper *k)
{
    char chunk[4096];
    struct pollfd fd = {.fd = k->fd[KEEPER_SAID], .events = POLLIN};
    while (os.poll(&fd, 1, 0) > 0 && os.read(fd.fd, chunk, sizeof chunk) > 0) {
    }
}

/* Its next reply. False: there is none within that time, or it is gone. What it prints
 * meanwhile is of no interest. */
static bool hear(const RingKeeper *k, int timeout_ms, KeeperReply *r)
{
    char chunk[4096];
    struct pollfd fd[] = {{.fd = k->fd[KEEPER_ANSWER], .events = POLLIN},
                          {.fd = k->fd[KEEPER_PID], .events = POLLIN},
                          {.fd = k->fd[KEEPER_SAID], .events = POLLIN}};
    uint64_t until_ns = clock_ns() + (uint64_t)timeout_ms * 1000000;
    for (;;) {
        uint64_t now_ns = clock_ns();
        int left_ms = now_ns < until_ns ? (int)((until_ns - now_ns) / 1000000) : 0;
        int n = os.poll(fd, countof(fd), left_ms);
        if (n > 0 && fd[0].revents) {
            return os.read(fd[0].fd, r, sizeof *r) == sizeof *r;
        }
        if ((n < 0 && errno != EINTR) || n == 0 || (n > 0 && fd[1].revents)) {
            return false;
        }
        if (n > 0 && os.read(fd[2].fd, chunk, sizeof chunk) <= 0) {
            fd[2].fd = -1;
        }
    }
}

static int limit_ms(const Child *p)
{
    uint64_t ms = p->job->limit_ns / 2000000; /* the rest is for a process without it */
    return ms < 600000 ? (int)ms : 600000;
}

static bool ask(Child *p, char **env, KeeperReply *r)
{
    RingKeeper *k = &p->c->keeper;
    if (!k->on && !start(p, env)) {
        return false;
    }
    drain(k);
    return os.write(k->fd[KEEPER_ASK], &p->area_fd, sizeof p->area_fd) == sizeof p->area_fd &&
           hear(k, limit_ms(p), r) && r->what == KEEPER_STARTED;
}

bool keeper_starts(Child *p, char **env)
{
    RingKeeper *k = &p->c->keeper;
    KeeperReply r = {0};
    if (!is_worth_it(p->job)) {
        if (p->job->stage != DUEL_REPLICATE) { /* the search goes on behind that */
            stop(k);
        }
        return false;
    }
    Hash of = subject(p->job->task);
    bool same = hash_eq(k->of, of);
    if (!same || k->n_asked >= MOST_ASKED) {
        stop(k);
    }
    k->hopeless = same && k->hopeless;
    k->of = of;
    if (k->hopeless || !ask(p, env, &r)) {
        stop(k);
        k->hopeless = true;
        p->begin_ns = clock_ns(); /* what was lost is not the candidate's time */
        return false;
    }
    k->n_asked++;
    k->n_laid += r.n_laid;
    p->kept = true;
    p->kept_lay_ns = r.lay_ns;
    p->pid = r.pid;
    p->pid_fd = os.pidfd(r.pid);
    p->said_fd = fd_of_process(p->cross.parent, k->fd[KEEPER_SAID], O_RDONLY);
    p->out->env_pad = k->env_pad;
    return true;
}

pid_t keeper_wait(Child *p, int flags)
{
    RingKeeper *k = &p->c->keeper;
    KeeperReply r = {0};
    if (hear(k, flags & WNOHANG ? 0 : GRACE_MS, &r) && r.what == KEEPER_ENDED &&
        r.pid == p->pid) {
        p->status = r.status;
        p->usage = r.usage;
        return r.pid;
    }
    if (flags & WNOHANG && r.what == 0) {
        return 0;
    }
    stop(k);
    return -1;
}
