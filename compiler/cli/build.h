/* build.h - a build's choices: which schedule each kernel got, from where, and why not a better one. */
#ifndef NC_CLI_BUILD_H
#define NC_CLI_BUILD_H

#include "cli/explain.h"
#include "cli/model.h"
#include "tuner/buckets.h"

typedef struct BuildOptions {
    const char *dir, *out, *db, *sched;
    const char *buckets;  /* --buckets; NULL: what was measured, else the usual one */
    const Bucket *bucket; /* instead, where n_buckets is not 0 */
    int n_buckets;
    int64_t context;
    int64_t memory_cap; /* bytes for weights; 0: build_layouts.c says */
    int n_threads;      /* 0: all */
    bool no_db, untuned, naive, f32, exact_only, require_tuned;
    PackOptions pack; /* written when it is built */
    Format format;
    int n_words; /* the whole command */
    char **word;
} BuildOptions;

/* ---- build_pick.c: the database, a file or the default, asked kernel by kernel ---- */
typedef struct Picked {
    const Site *site;
    Answer answer; /* outcome default: nobody was asked */
} Picked;

typedef struct Picks {
    const BuildOptions *o;
    Here here;
    SchedFile file; /* --sched */
    Vec(Picked) at; /* in the order of asking: part by part, kernel by kernel */
    Picker picker;
} Picks;

/* The default database may be missing; one that was named may not. */
void picks_open(Env *e, Picks *p, const BuildOptions *o);
void picks_close(Picks *p);
const Picked *pick_of(const Picks *p, const LibraryParts *parts, int part, int kernel);
bool picked_winner(const Picked *x); /* does it have the database's? */
bool picked_tuned(const Picked *x);  /* a winner, imported, or tuned and nothing was faster */

/* The schedule that is built where nothing is known. in_place: that reads weights as they are. */
void pick_default(Env *e, const Picks *p, const Site *s, bool in_place, Schedule *out);

/* ---- first_use.c ---- */
BuildOptions first_use_build(const FirstUse *f, const char *dir); /* what it asks for */

/* ---- build_make.c: a build as far as its C ---- */
typedef struct Building {
    const BuildOptions *o;
    Config config;
    Checkpoint file;
    Picks picks;
    ModelLibrary library;
    BuiltModel built; /* where it is opened, for its pack file */
} Building;

/* at_home: the library looks for its weights in this folder, unless it is told another. */
void building_compile(Env *e, Building *b, const char *dir, bool at_home);
void building_close(void *building);
/* LibraryOptions.explain; ctx is a Building. */
void picks_explain(void *ctx, int part, int kernel, const char **outcome, const char **why);

/* ---- build_buckets.c: which lengths of prompts share a program ---- */
/* "16,64:200,512": each for prompts beyond the one before, up to itself or to the number behind the colon.
 * False: it is no such list. */
bool buckets_parse(const char *text, Bucket *out, int *n);
/* Those that were given, else measured here, else none; and why. */
void buckets_choice(Env *e, const Building *b, LibraryOptions *lo);
BucketPlace buckets_place(const Building *b);

/* ---- build_layouts.c: which layouts of weights fit the memory cap ---- */
/* LibraryOptions.settle; ctx is a Building. */
void layouts_settle(void *ctx, Env *e, const LibraryParts *parts);

/* ---- build_manifest.c: what each call site got, as a table and as rows ---- */
/* text: a row for equal call sites of a program; else one for each. */
void manifest_table(Env *e, const Picks *p, const ModelLibrary *l, Table *t);
int manifest_untuned(const Picks *p, const Picked **first); /* how many kernels are not tuned */
Hash library_file_hash(Env *e, const char *path); /* as a recorded build has it of its output */
/* Into the database that was asked. Where that cannot be written, one line on stderr says so. */
void manifest_store(Env *e, const Picks *p, const ModelLibrary *l, uint64_t took_ns);

#endif
