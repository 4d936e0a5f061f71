/* cli_live.h - the built program while it runs: what it is told on standard input, what it
 * says on standard output and standard error, Ctrl-C. Every wait has an end and asserts. */
#ifndef NC_TESTS_CLI_LIVE_H
#define NC_TESTS_CLI_LIVE_H

#include "tests/cli_util.h"

typedef enum Input { IN_PIPE, IN_SOCKET, IN_TERMINAL } Input;

typedef struct Live {
    pid_t pid;
    int in, out, err;
    Buf said, told; /* standard output and standard error so far */
    bool whole;     /* each piece of standard output ended with a whole character */
} Live;

Live live_start(Env *e, Input input, const char *const *words);
#define LIVE(e, input, ...) live_start((e), (input), (const char *const[]){__VA_ARGS__, NULL})
void live_send(Live *l, const char *text);
void live_wait_said(Live *l, size_t n_bytes); /* until so many bytes have been said */
/* Until standard error has them n times. */
void live_wait_told(Live *l, int n, const char *words);
void live_interrupt(Live *l); /* SIGINT, once it catches that: Ctrl-C */
/* Closes its standard input, reads all; exit status, or minus the signal. */
int live_end(Live *l);

/* From start to end: standard input is text (NULL: empty). */
typedef struct Talked {
    int status;
    const char *said, *told;
} Talked;
Talked talk(Env *e, const char *in, const char *const *words);
#define TALK(e, in, ...) talk((e), (in), (const char *const[]){__VA_ARGS__, NULL})

void says(Talked t, const char *words);  /* status 0, and these words on standard output */
void tells(Talked t, const char *words); /* the same on standard error */
/* This status, one sentence (with usage, status 2: the first of several) that holds these
 * words, and nothing on standard output. */
void declines(Talked t, int status, const char *words);

#endif
