/* cli.h - what the commands of schedb share; main.c has their table. */
#ifndef NC_DB_CLI_H
#define NC_DB_CLI_H

#include "db/db.h"

typedef struct SchedbOptions {
    Env *e;
    Db *db;
    const char *path; /* NULL: the default */
    const char *format, *view, *output, *signature;
    int64_t run, task;
    const char *word[2];
    int n_words;
    FILE *out;
    int64_t n_told;
} SchedbOptions;

void say(void *ctx, const char *sentence); /* ctx: the options. A DbComplain: to stderr */
void write_out(void *ctx, const char *text, size_t len); /* a DbWrite */

/* ---- show.c: the answer to a statement, as text, md, csv or json ---- */
void show_query(SchedbOptions *o, const char *sql);

/* ---- sched.c: .sched files ---- */
/* Winners, and rows that were imported, of one signature. */
void export_sched(SchedbOptions *o);
/* All of its rows or none; how many were new. */
int import_sched(SchedbOptions *o, const char *text, size_t len, const char *file);

/* ---- recount.c: what the pairs of a duel say, by tuner/stat.h; a DbRecompute ---- */
bool recount(void *ctx, Env *e, const DbDuel *stored, const DbProcess *process, int n,
             DbPair *const *pair, DbDuel *again, Err *err);

#endif
