/* model.h - what the commands that run a model share: opening it, its options, Ctrl-C. */
#ifndef NC_CLI_MODEL_H
#define NC_CLI_MODEL_H

#include "cli/cli.h"

typedef struct ModelOptions {
    const char *dir;      /* NULL: the model that comes with the program */
    EngineWay way;
    bool blas;
    unsigned without;
    int n_threads;        /* 0: as many as this process may use */
} ModelOptions;

extern const struct argp model_argp; /* as an argp child; its input is a ModelOptions */

typedef struct Model {
    const char *dir;
    int n_threads;
    Config config;
    Weights weights;
    Tokenizer *tokenizer;
    Engine *engine;
} Model;

/* Everything a step needs. Fails with one sentence, holding nothing. */
void model_open(Env *e, Model *m, const ModelOptions *o);
void model_close(Model *m);
/* Opens, runs body with the Model in use, closes on every way out. Returns the exit status. */
int with_model(const ModelOptions *o, void (*body)(Env *e, Model *m, void *arg), void *arg);
const char *model_dir(Env *e, const char *given); /* given, else the model that comes with the program */

extern volatile int interrupted; /* Ctrl-C came: finish the current token. A second one ends the program */
void catch_interrupt(void);

/* ---- sampling.c: options for how tokens are chosen ------------------------------------------------- */
typedef struct SamplingOptions {
    Sampling value;
    bool is_given[8];     /* by column of SAMPLING */
    uint64_t seed;
    int max_tokens;
} SamplingOptions;

extern const struct argp sampling_argp; /* as an argp child; its input is a SamplingOptions */
SamplingOptions sampling_options(void);
/* What was asked for, on top of base. Fails with E_INPUT. */
Sampling sampling_apply(Env *e, const SamplingOptions *o, Sampling base);

/* ---- speak.c: one reply, streamed ------------------------------------------------------------------ */
typedef struct Reply {
    Generated made;
    uint64_t first_ns, all_ns; /* to the first token; to the last */
    int n_prompt;
} Reply;

/* Feeds ids, prints what the model says as it comes, appends its tokens to said (may be NULL). */
void speak(Env *e, Model *m, Sampler *sampler, const Stops *stops, int max_tokens, const Ids *prompt, Ids *said,
           Reply *r);
void reply_report(const Reply *r); /* tok/s and time to first token, to stderr */

#endif
