/* dump.h - what the stages that `nanocompile dump` shows have in common. */
#ifndef NC_CLI_DUMP_H
#define NC_CLI_DUMP_H

#include "cli/cli.h"

typedef struct Dump {
    Env *e;
    const Source *source;
    /* Only this one: a number, a kind, or the beginning of a hash; NULL: all. */
    const char *kernel;
    const char *schedule; /* steps for the kernels shown; NULL: none */
    bool steps;           /* show them after every prefix of the steps */
    const Graph *g;       /* as built */
    Compile c;
    Program *p;
    Sizes sizes;
    Buf out;
} Dump;

typedef struct Sums { /* one kernel's calls together */
    int calls;
    Dim read_bytes, write_bytes;
} Sums;
Sums dump_sums(Dump *d, int kernel);

/* ---- dump_memory.c: where temporaries lie, and what kernels read and write ---- */
void dump_plan(Dump *d);
void dump_traffic(Dump *d);

#endif
