/* terminal.c - what a command and whoever started it say to each other while it runs: standard
 * input, progress, Ctrl-C. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* Descriptor 0 itself: /dev/stdin cannot be opened where it is a socket. */
void read_stdin(Env *e, size_t max_bytes, char **text, size_t *len)
{
    Buf all;
    char chunk[64 << 10];
    buf_init(&all, &e->model);
    for (ssize_t n; (n = os.read(0, chunk, sizeof chunk)) != 0;) {
        if (n < 0 && interrupted) {
            fail(e, E_INTERRUPT, "Stopped.");
        }
        if (n < 0 && errno != EINTR) {
            fail(e, E_IO, "Standard input cannot be read: %s.", strerror(errno));
        }
        if (n > 0 && (size_t)n > max_bytes - all.len) {
            fail(e, E_INPUT, "Standard input holds more than the limit of %zu bytes.",
                 max_bytes);
        }
        buf_bytes(&all, chunk, n < 0 ? 0 : (size_t)n);
    }
    *text = all.at;
    *len = all.len;
}

static void show_progress(void *what, int64_t done_bytes, int64_t total_bytes)
{
    int percent = total_bytes ? (int)((double)done_bytes / (double)total_bytes * 100) : 100;
    fprintf(stderr, "\r%s: %3d%%%s", (const char *)what, percent,
            done_bytes == total_bytes ? "\n" : "");
}

LoadProgress *terminal_progress(void)
{
    return isatty(2) ? show_progress : NULL;
}

void terminal_wait(const char *what)
{
    if (isatty(2)) {
        fputs(what ? what : "\r\033[K", stderr);
    }
}

/* ---- Ctrl-C -------------------------------------------------------------------------- */

volatile int interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

/* SA_RESETHAND: the second Ctrl-C ends the program. No SA_RESTART: a read ends, too. */
void catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    interrupted = 0;
    sigaction(SIGINT, &action, NULL);
}
