/* explain.h - a call site, what a build would take for it, and the sections that show why. */
#ifndef NC_CLI_EXPLAIN_H
#define NC_CLI_EXPLAIN_H

#include "cli/cli.h"
#include "db/db.h"
#include "schedules/schedules.h"
#include "tuner/evidence.h"

typedef struct ExplainOptions {
    Source source;      /* path NULL: the tasks of tune */
    const char *kernel; /* which call sites; NULL: all */
    const char *model, *db;
    int64_t m, n, k; /* --shape; 0: kernels of a model */
    Regime regime;
    bool regime_given;
    int n_threads;     /* 0: all */
    bool peaks;        /* measure this machine's, where none are recorded */
    unsigned sections; /* a bit each; 0: what suits the number of call sites */
} ExplainOptions;

typedef struct Here { /* where it is asked: everything of a key but the call site */
    Env *e;
    const ExplainOptions *o;
    Machine machine;
    Toolchain tc;
    int n_threads;
    DbMachine db_machine;
    DbToolchain db_toolchain;
    Db *db; /* NULL: there is none to be read, and no_db says why */
    Err no_db;
    double read_bytes_per_ns, flops_per_ns; /* peaks that were measured now; 0: they were not */
} Here;

/* All but the database; n_threads 0: all. */
void here_init(Env *e, Here *h, int n_threads); /* explain_answer.c */

/* ---- explain_sites.c: what is called, at which sizes ---- */
typedef struct Site {
    const char *label;
    const Kernel *kernel; /* naive */
    int64_t sym[MAX_SYMBOLS];
    int n_threads;
    const char *regime;
    double n_calls;
    PickHint hint;
} Site;

typedef Vec(Site) Sites;

void sites_find(const Here *h, Sites *out); /* E_INPUT when there are none */

/* ---- explain_answer.c: what a build would take there ---- */
typedef struct Answer {
    const Site *site;
    DbKey key;
    DbAnswer found;
    const char *outcome; /* hit, imported, kept, miss, stale, refused */
    const char *field;   /* of a miss: the key's first that differs; "" else */
    const char *why;     /* a sentence; "" where there is no more to say */
    Schedule schedule;   /* that is built */
    const Kernel *built; /* the kernel under it */
    Hash c_hash;
} Answer;

void answer_find(const Here *h, const Site *s, Answer *out);

/* ---- explain_rows.c: what is known of an answer, as rows of tables ---- */
enum { N_SECTIONS = 8, SECTION_ANSWER = 0 };
typedef struct Section {
    const char *name, *shows;
    const char *const *column; /* the first names the call site */
    int n_columns;
    void (*rows)(const Here *h, const Answer *a, Table *t);
    void (*text)(const Here *h, const Answer *a, Buf *out); /* instead: one long text */
} Section;

extern const Section section[N_SECTIONS];
void section_rows(const Here *h, const Section *s, const Answer *a, Table *t);

/* ---- explain_show.c: the sections that are asked for, of every call site ---- */
void sections_print(const Here *h, const Answer *a, int n, unsigned wanted, Buf *out);

/* ---- explain_code.c: what comes out, as text ---- */
void code_loops(const Here *h, const Answer *a, Buf *out); /* the nest after every step */
void code_c(const Here *h, const Answer *a, Buf *out);
void code_asm(const Here *h, const Answer *a, Buf *out); /* or why there is none */

#endif
