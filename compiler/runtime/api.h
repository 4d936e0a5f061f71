/* A model as one library: what it can be asked. Every buffer is the caller's, every sentence ends
 * up in nc_error. A model runs one call at a time; two models may run side by side.
 *
 *     nc_error why;
 *     const float *logits;
 *     nc_model *m = nc_open(NULL, &why);
 *     if (!m || nc_prefill(m, 0, ids, n, &logits, &why) != NC_OK) { puts(why.text); }
 *     nc_decode(m, n, best(logits), &logits, &why);        one token more, as often as wanted
 *     nc_close(m);
 *
 * A call says at which position its first token stands: 0 begins anew, the number of tokens fed
 * so far goes on, less forgets what stood behind. A call that fails leaves what was fed before
 * its position as it was. */
#ifndef NC_API_H
#define NC_API_H

#include <stdint.h>

/* Columns: id, meaning */
#define NC_CODES(X)                                                                   \
    X(OK, "done")                                                                     \
    X(INPUT, "no tokens, a token outside the vocabulary, a position nobody reached")  \
    X(FULL, "more tokens than the context holds")                                     \
    X(NOMEM, "out of memory")                                                         \
    X(FILE, "the weights cannot be read, or are not those the library was built for") \
    X(CPU, "the library was built for another CPU")                                   \
    X(STOPPED, "nc_options.stop was set")                                             \
    X(BROKEN, "a kernel refused its own data")

typedef enum nc_code {
#define X(id, meaning) NC_##id,
    NC_CODES(X)
#undef X
} nc_code;

typedef struct nc_error {
    nc_code code;
    char text[1024]; /* one sentence; empty where the code is NC_OK */
} nc_error;

typedef struct nc_options {
    const char *weights; /* the model's folder; NULL: nc_facts.model */
    int n_threads; /* 0: as many as the schedules were chosen for; the bits are the same */
    /* While weights are read and laid out, on the calling thread; may be NULL. */
    void (*progress)(void *ctx, int64_t done_bytes, int64_t total_bytes);
    void *progress_ctx;
    /* A file that keeps the weights as they are laid out, for the next start. It is made where it is
     * missing or not for these weights; NULL: there is none. */
    const char *pack;
    int pack_copy; /* not 0: it is read into memory; else it is mapped, and nobody may shorten it */
    int pack_check; /* not 0: all of its bytes are looked at; else, where it is mapped, samples */
    /* What became of that file, in a sentence, where it is not just used; may be NULL. */
    void (*note)(void *ctx, const char *sentence);
    void *note_ctx;
    const volatile int *stop; /* not 0: a call ends between two kernels; may be NULL */
    /* After each kernel, with the number of its call in nc_facts.site, on the calling thread; may
     * be NULL. Else threads meet only behind calls that need nothing of each other. */
    void (*watch)(void *ctx, int site);
    void *watch_ctx;
    /* For who compares programs: prompts go through the one of this number in nc_facts, whatever
     * their length. NULL, or less than 0: through the first that takes them at once. */
    const volatile int *through;
} nc_options;

/* One way through the model: kernels in a fixed order, temporaries at fixed places. */
typedef struct nc_program {
    const char *name; /* decode, prefill or prefill_16 .., score */
    /* So many tokens at once are fed by it; more than any program takes, in parts. */
    int64_t min_tokens, max_tokens;
    int64_t usual_tokens; /* that its kernels' schedules were chosen for; 0: for any number */
    int n_calls;          /* of kernels */
    int n_joins;          /* how often all threads meet: behind one or more calls */
    int64_t arena_bytes;  /* temporaries */
    /* Bytes that kernels read and write for one token: rising with its position. */
    int64_t bytes_first, bytes_last;
} nc_program;

/* One call of a kernel, and where its schedule comes from. */
typedef struct nc_site {
    const char *program, *site; /* "decode", "layers.3.mlp.down_proj matmul" */
    const char *kernel;         /* the symbol of its function: nc_ and 32 hex digits */
    const char *key;            /* hash of what it computes */
    const char *schedule;       /* steps; "": none */
    const char *outcome;        /* hit, kept, imported, miss, stale, refused, default, naive */
    const char *why;            /* a sentence; "": there is nothing to say */
} nc_site;

/* A weight in memory, as a kernel reads it; one that is read in several ways has several. */
typedef struct nc_layout {
    const char *weight; /* "model.layers.3.mlp.down_proj.weight"; "": a constant of the model */
    const char *fill;   /* the function that lays it out; "": it lies as in its file */
    int64_t bytes;
} nc_layout;

typedef struct nc_facts {
    const char *version;   /* of nanocompile */
    const char *model;     /* the folder it was built from; "": it must be told one */
    const char *cpu;       /* the vectors of its kernels: avx512, avx2, neon ... */
    const char *toolchain; /* the C compiler and the flags of its kernels */
    const char *buckets;   /* how it was chosen which lengths of prompts share a program */
    int64_t vocab_size;    /* floats of a row of logits */
    int64_t context;       /* positions that it holds */
    int n_threads;         /* that the schedules were chosen for */
    int64_t weight_bytes;  /* held in memory, panels included */
    int64_t panel_bytes;   /* of them laid out anew for a kernel */
    int64_t cache_bytes;   /* keys and values of all positions */
    int64_t arena_bytes;   /* temporaries of the largest program */
    int n_programs, n_sites, n_layouts;
    const nc_program *program;
    const nc_site *site;
    const nc_layout *layout;
} nc_facts;

typedef struct nc_model nc_model;

#pragma GCC visibility push(default)

/* On any CPU, before or without nc_open. */
const nc_facts *nc_info(void);
/* Reads the weights, lays them out, starts the threads. NULL: error has the reason. options may
 * be NULL. */
nc_model *nc_open(const nc_options *options, nc_error *error);
void nc_close(nc_model *m); /* NULL is fine */

/* ids: n tokens for positions at, at + 1 ... *logits: vocab_size floats, those behind the last
 * token, until the next call. */
nc_code nc_prefill(nc_model *m, int64_t at, const int32_t *ids, int64_t n, const float **logits,
                   nc_error *error);
/* The same for one token; allocates nothing and locks nothing. */
nc_code nc_decode(nc_model *m, int64_t at, int32_t id, const float **logits, nc_error *error);
/* logits: n rows of vocab_size floats of the caller's, one behind each token. */
nc_code nc_score(nc_model *m, int64_t at, const int32_t *ids, int64_t n, float *logits,
                 nc_error *error);

#pragma GCC visibility pop

#endif
