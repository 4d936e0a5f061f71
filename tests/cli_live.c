/* cli_live.c - see cli_live.h. */
#include "tests/cli_live.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONGEST_MS = 120000 };

/* ours[0] is the child's end, ours[1] the test's. */
static void open_input(Input input, int ends[2])
{
    if (input == IN_PIPE) {
        cr_assert_eq(pipe(ends), 0);
    } else if (input == IN_SOCKET) {
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    } else {
        ends[1] = posix_openpt(O_RDWR | O_NOCTTY);
        cr_assert(ends[1] >= 0 && grantpt(ends[1]) == 0 && unlockpt(ends[1]) == 0);
        ends[0] = open(ptsname(ends[1]), O_RDWR | O_NOCTTY);
        cr_assert_geq(ends[0], 0);
    }
}

static _Noreturn void become(char *const *argv, int in, int out, int err)
{
    dup2(in, 0);
    dup2(out, 1);
    dup2(err, 2);
    for (int fd = 3; fd < 64; fd++) {
        close(fd);
    }
    execv(argv[0], argv);
    _exit(127);
}

Live live_start(Env *e, Input input, const char *const *words)
{
    char **argv = built_words(e, "nanocompile", words);
    int in[2], out[2], err[2];
    Live l = {.whole = true};
    buf_init(&l.said, &e->model);
    buf_init(&l.told, &e->model);
    signal(SIGPIPE, SIG_IGN);
    open_input(input, in);
    cr_assert(pipe(out) == 0 && pipe(err) == 0);
    l.pid = fork();
    if (l.pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        become(argv, in[0], out[1], err[1]);
    }
    cr_assert_gt(l.pid, 0);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    l.in = in[1];
    l.out = out[0];
    l.err = err[0];
    return l;
}

void live_send(Live *l, const char *text)
{
    size_t len = strlen(text);
    cr_assert_eq(write(l->in, text, len), (ssize_t)len, "%s", strerror(errno));
}

/* Does text end with a character that has only begun? */
static bool ends_whole(const char *text, size_t len)
{
    size_t back = 0;
    while (back < len && back < 4 && ((unsigned char)text[len - 1 - back] & 0xC0) == 0x80) {
        back++;
    }
    unsigned char lead = back < len ? (unsigned char)text[len - 1 - back] : 0;
    size_t wants = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : lead >= 0xC0 ? 1 : 0;
    return back == wants;
}

static void take(int *fd, Buf *to)
{
    char piece[4096];
    ssize_t n = read(*fd, piece, sizeof piece);
    if (n > 0) {
        buf_bytes(to, piece, (size_t)n);
    } else if (n == 0 || errno != EINTR) {
        close(*fd);
        *fd = -1;
    }
}

/* Reads what comes next; false when nothing can come any more. */
static bool more(Live *l)
{
    struct pollfd fds[] = {{l->out, POLLIN, 0}, {l->err, POLLIN, 0}};
    if (l->out < 0 && l->err < 0) {
        return false;
    }
    int n = poll(fds, 2, LONGEST_MS);
    if (n == 0) {
        kill(l->pid, SIGKILL);
    }
    cr_assert_neq(n, 0, "nothing came for too long; so far: %s%s", l->said.at, l->told.at);
    if (fds[0].revents) {
        take(&l->out, &l->said);
        l->whole = l->whole && ends_whole(l->said.at, l->said.len);
    }
    if (fds[1].revents) {
        take(&l->err, &l->told);
    }
    return true;
}

void live_wait_said(Live *l, size_t n_bytes)
{
    while (l->said.len < n_bytes) {
        cr_assert(more(l), "it ended after %zu bytes: %s", l->said.len, l->told.at);
    }
}

void live_wait_told(Live *l, int n, const char *words)
{
    while (how_often(l->told.at, words) < n) {
        cr_assert(more(l), "it ended without '%s': %s", words, l->told.at);
    }
}

/* Has it said that SIGINT is its own affair? /proc shows that as a mask. */
static bool catches_interrupt(pid_t pid)
{
    char path[64], line[256];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        sscanf(line, "SigCgt: %llx", &caught);
    }
    cr_assert(f, "%s is gone", path);
    fclose(f);
    return caught >> (SIGINT - 1) & 1;
}

void live_interrupt(Live *l)
{
    for (int ms = 0; !catches_interrupt(l->pid); ms++) {
        cr_assert_lt(ms, LONGEST_MS);
        usleep(1000);
    }
    cr_assert_eq(kill(l->pid, SIGINT), 0);
}

int live_end(Live *l)
{
    int status;
    close(l->in);
    while (more(l)) {
    }
    cr_assert_eq(waitpid(l->pid, &status, 0), l->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

Talked talk(Env *e, const char *in, const char *const *words)
{
    Live l = live_start(e, IN_PIPE, words);
    size_t len = in ? strlen(in) : 0, at = 0;
    while (at < len) { /* it may end, or write much, before it has read everything */
        struct pollfd fds[] = {{l.in, POLLOUT, 0}, {l.out, POLLIN, 0}, {l.err, POLLIN, 0}};
        cr_assert_gt(poll(fds, 3, LONGEST_MS), 0);
        if (fds[1].revents || fds[2].revents) {
            more(&l);
        } else {
            size_t n = len - at < 4096 ? len - at : 4096;
            ssize_t done = write(l.in, in + at, n);
            at = done < 0 ? len : at + (size_t)done;
        }
    }
    int status = live_end(&l);
    return (Talked){status, l.said.at, l.told.at};
}

static void with_words(Talked t, const char *where, const char *words)
{
    cr_expect_eq(t.status, 0, "status %d: %s", t.status, t.told);
    cr_expect(strstr(where, words), "no '%s' in: %s", words, where);
}

void says(Talked t, const char *words)
{
    with_words(t, t.said, words);
}

void tells(Talked t, const char *words)
{
    with_words(t, t.told, words);
}

void declines(Talked t, int status, const char *words)
{
    const char *end = strchr(t.told, '\n');
    cr_expect_eq(t.status, status, "status %d: %s", t.status, t.told);
    cr_expect(strstr(t.told, words), "no '%s' in: %s", words, t.told);
    cr_expect(!strncmp(t.told, "nanocompile", 11), "%s", t.told);
    cr_expect(end && (status == 2 || end[1] == '\0'), "more than one line: %s", t.told);
    cr_expect_str_eq(t.said, "");
}
