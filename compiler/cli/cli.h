/* cli.h - what the commands of nanocompile share. One file a command; main.c holds their
 * table. */
#ifndef NC_CLI_H
#define NC_CLI_H

#include <argp.h>

#include "compile.h"
#include "model/model.h"
#include "run/run.h"

/* ---- main.c: the commands ------------------------------------------------------------ */
/* argv[0] is "nanocompile COMMAND". Each returns the exit status. */
int cmd_dump(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_build(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_perplexity(int argc, char **argv);
int cmd_logits(int argc, char **argv);
int cmd_synth(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_detokenize(int argc, char **argv);

/* Runs body in an Env of its own; a failure is printed as one sentence. Returns 0, 1, or 130
 * after Ctrl-C. */
int cli_run(void (*body)(Env *e, void *arg), void *arg);
void cli_flush(Buf *out); /* to stdout, at once; dies when it cannot be written */

/* ---- terminal.c: standard input, progress, Ctrl-C ------------------------------------ */
/* To its end, whatever it is. Fails with E_IO, E_INPUT (more than max_bytes) or E_INTERRUPT. */
void read_stdin(Env *e, size_t max_bytes, char **text, size_t *len);
/* NULL where stderr is no terminal. The ctx to give with it: what is being done. */
LoadProgress *terminal_progress(void);
/* On a terminal: what is being waited for, shown until NULL takes it away again. */
void terminal_wait(const char *what);
extern volatile int interrupted; /* Ctrl-C came: end what runs. A second one ends the program */
void catch_interrupt(void);      /* from now on, and interrupted is 0 again */

/* ---- options.c: values of options; name: without its dashes -------------------------- */
int64_t option_int(struct argp_state *state, const char *name, const char *text, int64_t least,
                   int64_t most);
/* "1000", "950MB", "1.2GB": powers of 1000. More than 0. */
int64_t option_bytes(struct argp_state *state, const char *name, const char *text);
double option_real(struct argp_state *state, const char *name, const char *text);
uint64_t option_seed(struct argp_state *state, const char *text); /* all 64 bits; 0x... too */
int option_choice(struct argp_state *state, const char *name, const char *text, int n,
                  const char *const *choices); /* its index */
/* A list with commas: one bit for each. what: such a word is called, in a complaint. */
unsigned option_words(struct argp_state *state, const char *name, const char *what,
                      const char *list, int n, const char *const *words);
Format option_format(struct argp_state *state, const char *text);

/* ---- source.c: the model argument and the options that say what is built from it ----- */
typedef struct Setting { /* a symbol's value: --seq 1, --past 17, --set NAME=N */
    const char *name;
    int64_t value;
} Setting;

typedef struct Settings {
    int n;
    Setting at[16];
} Settings;

typedef struct Source {
    const char *path; /* a model folder, a config.json or a .ncg file */
    int n_layers;     /* -1: as the config says */
    bool last_only;   /* logits of the last row only */
    unsigned without; /* bits of StageBit */
    unsigned with;    /* switched on again though what they serve is off */
    Format format;
    bool time;      /* print time per stage */
    bool cache;     /* append to the KV cache in place */
    Settings known; /* when the graph is compiled: their symbols are gone then */
    Settings sizes; /* when it runs */
} Source;

extern const struct argp source_argp; /* as an argp child; its input is a Source */
Source source_default(void);
unsigned source_without(const Source *s);     /* without fuse, what only serves it is off too */
bool source_is_text(const Source *s);         /* a .ncg file, not a model */
Graph *source_graph(Env *e, const Source *s); /* E_IO, E_SYNTAX ...: names file and cause */
/* What the compiled program computes: the graph, but for what --cache and --specialise change. */
const Graph *source_meaning(Env *e, const Source *s, const Graph *g);
/* Compiles, and with --time prints the stages to stderr. */
Program *source_compile(Env *e, const Source *s, const Graph *g, Compile *c);
/* Values by symbol id: the settings, and 1 (seq), 0 (past), 128 (capacity) or 2 (others) where nothing
 * was said. */
void source_sizes(Env *e, const Source *s, const Graph *g, Sizes *z);

/* Is kernel i meant by a number, a kind, a symbol or the beginning of a hash? NULL: all are. */
bool kernel_named(const Program *p, int i, const char *name);

/* ---- space.c: `dump space`: knobs, rules, counts and the default of kernels ------------ */
/* For this machine; sizes that were said are usual. */
Table space_table(Env *e, const Source *s, Compile *c);
void space_rows(Env *e, Table *t, const Compile *c, const Program *p, int kernel);

/* ---- arguments.c: seeded or given tensors for a graph's inputs and weights ----------- */
typedef struct Given { /* --input NAME=FILE.npy */
    const char *name, *path;
} Given;

/* Fills args for g at sizes z. Weights are the model folder's where it has some (loaded into
 * w, which is the caller's to release and may be empty), else come from the seed: N(0, 1)
 * scaled so that activations stay finite. Inputs are N(0, 1); integers that index a table
 * stay in its range. */
void arguments_make(Env *e, const Source *s, const Graph *g, const Sizes *z, uint64_t seed,
                    const Given *given, int n_given, Weights *w, Args *args);

/* ---- weights.c: `dump weights` ------------------------------------------------------- */
/* The tensors of a file, an index or a model folder; a folder with a config.json must fit
 * it. */
void dump_weights(Env *e, const char *path, Format format, Buf *out);

#endif
