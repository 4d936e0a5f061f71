/* model.h - what the commands that run a model share: opening it, its options, speaking. */
#ifndef NC_CLI_MODEL_H
#define NC_CLI_MODEL_H

#include "cli/cli.h"

/* ---- pack.c: the file of a built library's weights ------------------------------------ */
typedef struct PackOptions {
    bool wanted, copy, check;
    const char *file; /* NULL: beside the library */
} PackOptions;

extern const struct argp pack_argp; /* as an argp child; its input is a PackOptions */
/* For this library. What becomes of the file is said on stderr. */
void pack_use(Env *e, const PackOptions *p, const char *lib, nc_options *o);

/* ---- first_use.c: the library of a model that was built by nobody yet ------------------ */
typedef struct FirstUse {
    const char *db; /* NULL: the default one */
    bool no_db;
    int64_t context; /* 0: as build chooses */
    int n_threads;   /* of the following argp knows nothing; 0: all */
    bool f32;
} FirstUse;

extern const struct argp first_use_argp; /* as an argp child; its input is a FirstUse */
bool first_use_given(const FirstUse *f); /* was any of its options? */
/* The path of the library of this model, which may be built now; then a line on stderr says so. */
const char *first_use_library(Env *e, const FirstUse *f, const char *dir);

/* ---- model.c: a model folder, opened cheap parts first ------------------------------- */
typedef struct ModelOptions {
    const char *dir; /* NULL: the model that comes with the program, or the library's own */
    const char *lib; /* a built library to run; NULL: that of its first use, or an engine */
    bool library;    /* --by lib was said */
    bool engine;     /* not as a library: its parts are compiled one by one */
    EngineWay way;   /* of an engine */
    bool blas;
    unsigned without; /* stages, model.c's own bits */
    bool naive;       /* BY_C: no schedules */
    bool panels;      /* BY_C: schedules may lay weights out again, which holds them twice */
    bool f32;         /* BY_C: weights widened when they are read from the file */
    int n_threads;    /* 0: as many as this process may use */
    PackOptions pack; /* of a built library */
    FirstUse first;
} ModelOptions;

extern const struct argp model_argp; /* as an argp child; its input is a ModelOptions */

typedef struct Model {
    const ModelOptions *o;
    const char *dir;
    Config config;
    Tokenizer *tokenizer; /* NULL until model_tokenizer */
    Weights weights;      /* empty until model_load */
    BuiltModel built;     /* a library; empty until model_use or model_load has loaded it */
    Engine *engine;       /* or an engine; NULL until model_load */
    Stepper *stepper;     /* of either, after model_load */
    Pool *pool;           /* runs scheduled kernels; NULL: one thread, or naive */
} Model;

/* Reads the folder's config, runs body, closes the model on every way out. */
void model_use(Env *e, const ModelOptions *o, void (*body)(Env *e, Model *m, void *arg),
               void *arg);
void model_tokenizer(Env *e, Model *m);
/* Weights and compiled kernels, the dear part: to be called when all that can be refused has
 * been. all: for logits of every row, else of the last. */
void model_load(Env *e, Model *m, bool all);
void model_say_storage(const Model *m); /* a line to stderr: how its weights lie in memory */
/* given, else the model that comes with the program. E_INPUT: it is not here. */
const char *model_dir(Env *e, const char *given);

/* ---- sampling.c: options for how tokens are chosen ----------------------------------- */
#define X(field, type, off, allowed, words) SAMPLING_##field,
enum { SAMPLING(X) N_SAMPLING };
#undef X

typedef struct SamplingOptions {
    Sampling value;
    bool is_given[N_SAMPLING]; /* by column of SAMPLING */
    uint64_t seed;
    int max_tokens;
} SamplingOptions;

extern const struct argp sampling_argp; /* as an argp child; its input is a SamplingOptions */
SamplingOptions sampling_options(void);
bool sampling_given(const SamplingOptions *o); /* was any of them? */
/* What was given, on top of base. */
Sampling sampling_apply(const SamplingOptions *o, Sampling base);

/* ---- speak.c: replies, streamed ------------------------------------------------------ */
typedef struct Speaker {
    Model *m;
    Sampler sampler;
    Stops stops;
    uint64_t seed;
    int max_tokens;
    const char *says; /* how it samples, and where that comes from */
} Speaker;

typedef struct Reply {
    Generated made;
    uint64_t first_ns, all_ns; /* to the first token; to the last */
    int n_prompt;
} Reply;

/* Of a model that has a tokenizer. What o says on top of the folder's
 * generation_config.json, where own is set, else on top of greedy. */
void speaker_init(Env *e, Speaker *s, Model *m, const SamplingOptions *o, bool own);
/* Feeds ids to a loaded model and prints what it says as it comes. */
void speaker_reply(Env *e, Speaker *s, const Ids *ids, Reply *r);
void reply_report(const Reply *r); /* tok/s and time to first token, to stderr */

#endif
