/* model.h - real models: config.json, the graph it means, the weights on disk, the text side.
 * Nothing here compiles or runs: it makes Graphs and NamedTensors for whoever does.
 * Sections are named after the .c file that defines them. */
#ifndef NC_MODEL_H
#define NC_MODEL_H

#include "graph/graph.h"

/* ---- config.c: config.json -------------------------------------------------
 * Everything that changes the numbers is read or refused by name; nothing is defaulted that
 * would silently ruin text. spec: graph-ir 9 */

#define MAX_STOP_TOKENS 64

/* Columns: id, "architectures" entry, "model_type", q/k/v biases */
#define ARCHS(X)                                \
    X(QWEN2, "Qwen2ForCausalLM", "qwen2", true) \
    X(LLAMA, "LlamaForCausalLM", "llama", false)

typedef enum Arch {
#define X(id, architecture, model_type, qkv_bias) ARCH_##id,
    ARCHS(X) N_ARCHS
#undef X
} Arch;

typedef struct ArchInfo {
    const char *architecture;
    const char *model_type; /* also the graph's name */
    bool qkv_bias;
} ArchInfo;

extern const ArchInfo arch_info[N_ARCHS];

typedef struct Config {
    const char *path; /* of the config.json that was read */
    Arch arch;
    int64_t vocab_size;
    int64_t hidden_size;
    int64_t intermediate_size;
    int64_t n_layers;
    int64_t n_heads;
    int64_t n_kv_heads;
    int64_t head_dim;
    int64_t max_positions; /* 0: the file does not say */
    double rms_norm_eps;
    double rope_theta;
    bool tied;   /* the head is the embedding */
    int64_t bos; /* -1: none */
    int n_eos;   /* eos_token_id: none, one or a list */
    int64_t eos[MAX_STOP_TOKENS];
} Config;

/* path: a model folder or a config.json. Fails with E_IO or E_SYNTAX; the sentence names file
 * and field. All products of sizes are known to fit 63 bits afterwards. */
Config config_read(Env *e, const char *path);
/* The same from text; file is what messages call it. */
Config config_parse(Env *e, const char *text, size_t len, const char *file);

/* ---- tensors.c: which weights a model of this config has --------------------- */

/* Columns: id, scope, name (behind "model.layers.N." where LAYER), rows, columns (0: a vector).
 * HIDDEN, Q ... are widths of the config; a linear weight is [out, in]. */
#define MODEL_WEIGHTS(X)                                              \
    X(EMBED, MODEL, "model.embed_tokens.weight", VOCAB, HIDDEN)       \
    X(NORM_1, LAYER, "input_layernorm.weight", HIDDEN, NONE)          \
    X(Q, LAYER, "self_attn.q_proj.weight", Q, HIDDEN)                 \
    X(Q_BIAS, BIAS, "self_attn.q_proj.bias", Q, NONE)                 \
    X(K, LAYER, "self_attn.k_proj.weight", KV, HIDDEN)                \
    X(K_BIAS, BIAS, "self_attn.k_proj.bias", KV, NONE)                \
    X(V, LAYER, "self_attn.v_proj.weight", KV, HIDDEN)                \
    X(V_BIAS, BIAS, "self_attn.v_proj.bias", KV, NONE)                \
    X(O, LAYER, "self_attn.o_proj.weight", HIDDEN, Q)                 \
    X(NORM_2, LAYER, "post_attention_layernorm.weight", HIDDEN, NONE) \
    X(GATE, LAYER, "mlp.gate_proj.weight", INTER, HIDDEN)             \
    X(UP, LAYER, "mlp.up_proj.weight", INTER, HIDDEN)                 \
    X(DOWN, LAYER, "mlp.down_proj.weight", HIDDEN, INTER)             \
    X(NORM, MODEL, "model.norm.weight", HIDDEN, NONE)                 \
    X(HEAD, UNTIED, "lm_head.weight", VOCAB, HIDDEN)

typedef enum WeightId {
#define X(id, scope, name, rows, cols) W_##id,
    MODEL_WEIGHTS(X) N_WEIGHT_IDS
#undef X
} WeightId;

typedef struct TensorSpec {
    const char *name;
    int rank; /* 1 or 2 */
    int64_t dim[2];
} TensorSpec;

bool config_has(const Config *c, WeightId id); /* is it part of this model? */
/* Its name, in e->model, and shape; layer counts for the weights of blocks only. */
TensorSpec config_tensor(Env *e, const Config *c, WeightId id, int64_t layer);
/* All of them: embedding, blocks, final norm, untied head. */
TensorSpec *config_tensors(Env *e, const Config *c, int *n);
int64_t config_parameters(const Config *c);
int64_t tensor_spec_count(const TensorSpec *t); /* elements */

/* ---- qwen2.c: the graph ------------------------------------------------------
 * Inputs token_ids i64[seq], past_keys and past_values f32[layers, kv, past, d]. Outputs logits
 * f32[seq or 1, vocab], keys and values f32[layers, kv, seq, d] (the new tokens only).
 * n_layers: -1 for the config's own, else that many blocks. last_only: logits of the last row. */
Graph *qwen2_build(Env *e, const Config *c, int n_layers, bool last_only);

/* ---- header.c, safetensors.c: tensors on disk, in place --------------------------
 * One file or a sharded index, mapped read-only; every rule of the format is checked before a
 * tensor is handed out, and nothing is allocated by a length that a file claims. */

/* Columns: id and name in files, bits of an element */
#define FILE_DTYPES(X) \
    X(BOOL, 8)         \
    X(U8, 8)           \
    X(I8, 8)           \
    X(F8_E5M2, 8)      \
    X(F8_E4M3, 8)      \
    X(F8_E8M0, 8)      \
    X(F4, 4)           \
    X(F6_E2M3, 6)      \
    X(F6_E3M2, 6)      \
    X(I16, 16)         \
    X(U16, 16)         \
    X(F16, 16)         \
    X(BF16, 16)        \
    X(I32, 32)         \
    X(U32, 32)         \
    X(F32, 32)         \
    X(F64, 64)         \
    X(I64, 64)         \
    X(U64, 64)         \
    X(C64, 64)

typedef enum FileDtype {
#define X(id, bits) FD_##id,
    FILE_DTYPES(X) N_FILE_DTYPES
#undef X
} FileDtype;

const char *file_dtype_name(FileDtype t);

typedef struct FileTensor {
    const char *name; /* NUL-terminated, but may hold NULs itself: name_len counts */
    size_t name_len;
    FileDtype dtype;
    int rank; /* may exceed MAX_RANK; then only the first MAX_RANK dims are kept */
    int64_t dim[MAX_RANK];
    uint64_t begin, end; /* bytes within the file's data */
    const uint8_t *data; /* in the mapping; any alignment */
    int shard;           /* index in Checkpoint.shards */
} FileTensor;

typedef Vec(FileTensor) FileTensors;

/* Parses and checks one file's bytes; tensors come in order of their data. Returns the bytes before
 * the data. Fails with E_SYNTAX: the sentence names file, tensor and cause. */
size_t safetensors_parse(Env *e, const uint8_t *p, size_t len, const char *file,
                         FileTensors *out);

typedef struct Shard {
    const char *path;
    const uint8_t *map;
    size_t n_bytes, header_bytes; /* the data lie behind the header */
} Shard;

typedef struct Checkpoint {
    const char *path; /* of the file or the index */
    Vec(Shard) shards;
    FileTensors tensors;        /* of all shards */
    const FileTensor **by_name; /* sorted, for checkpoint_find */
} Checkpoint;

/* path: a .safetensors file, an index (.json), or a folder that holds one of them. Fails with
 * E_IO or E_SYNTAX and holds nothing then. */
void checkpoint_open(Env *e, Checkpoint *c, const char *path);
void checkpoint_release(Checkpoint *c);
bool checkpoint_there(Env *e, const char *dir);                           /* in that folder? */
const FileTensor *checkpoint_find(const Checkpoint *c, const char *name); /* NULL: none */
int64_t file_tensor_count(const FileTensor *t);                           /* elements */
void file_tensor_print(Env *e, const FileTensor *t, Buf *out); /* "name" BF16[4, 8] */
/* Bytes of a checkpoint's mapping that are not needed for now: lets the pages go, so that peak
 * memory stays small. Never for other memory: it would be zeroed. */
void pages_drop(const void *p, size_t n_bytes);

/* ---- ranges.c: what is in a tensor ------------------------------------------------ */
typedef struct Range {
    bool known;      /* false: a dtype without plain numbers (F8 and smaller, C64) */
    double min, max; /* of the finite elements; min > max where there are none */
    int64_t n_nan, n_inf;
} Range;

/* t of an open checkpoint: its mapping's pages are let go on the way. */
Range file_tensor_range(const FileTensor *t);

/* ---- widen.c ---------------------------------------------------------------------- */
bool file_dtype_widens(FileDtype t); /* F32, F16, BF16: every value is an f32 */
/* n elements from the first one on, to f32; the data may lie at any address. */
void file_tensor_widen(const FileTensor *t, int64_t first, int64_t n, float *to);

/* ---- weights.c, match.c: from a checkpoint to the graph's arguments ------------------- */

typedef struct Match { /* a config's expected tensors against a checkpoint's */
    const TensorSpec *spec;
    const FileTensor **found; /* by spec */
    int n;
    int n_missing, n_unexpected, n_unfit; /* unfit: other shape, or no F32, F16, BF16 */
    const char *report;                   /* every one of them, a line each */
    const char *note;                     /* worth saying though it loads, or NULL */
} Match;

/* Never fails on a mismatch: counts and lists them all. */
void weights_match(Env *e, const Config *c, const Checkpoint *ck, Match *m);
/* Fails with E_INPUT where something does not match. */
void match_require(Env *e, const Config *c, const Checkpoint *ck, const Match *m);

typedef struct Weights {
    /* f32, for Args.weight; in the order of config_tensors. Without data: kept as bf16, and
     * nobody has asked for more yet. */
    NamedTensor *tensor;
    const uint16_t **bf16;     /* by tensor: its values, where it is kept so; NULL: none is */
    const FileTensor **source; /* the same in the file: dtype and bytes, readable in place */
    int n;
    size_t f32_bytes, bf16_bytes; /* of all tensors as f32; of those that are kept as bf16 */
    void *memory;                 /* what is not used in place; NULL: all is */
    size_t memory_bytes;
    void **widened;   /* by tensor: memory of those that were kept and then asked for */
    const char *note; /* as in Match */
    Checkpoint file;  /* open while the weights are in use */
} Weights;

typedef void LoadProgress(void *ctx, int64_t done_bytes, int64_t total_bytes);

/* Opens, matches, widens once in parallel (F32 that is aligned stays in place). progress (may be
 * NULL) is called on this thread. Fails with E_IO, E_SYNTAX, E_INPUT or E_NOMEM, holding nothing. */
void weights_load(Env *e, Weights *w, const Config *c, const char *path, int n_threads,
                  LoadProgress *progress, void *ctx);
/* The same, but BF16 is only copied, so that peak memory is half of that. */
void weights_keep(Env *e, Weights *w, const Config *c, const char *path, int n_threads,
                  LoadProgress *progress, void *ctx);
int weights_find(const Weights *w, const char *name);       /* -1: there is none */
const uint16_t *weights_bf16(const Weights *w, int tensor); /* NULL: it is not kept so */
/* Gives tensor i its data, if it has none. False: err says that memory is short. */
bool weights_widen(Weights *w, int i, Err *err);
void weights_release(Weights *w);

/* ---- marks.c: Attr.from_bf16 of a graph's weights ------------------------------------- */
void weights_mark(const Weights *w, Graph *g); /* those that are kept so */
void graph_mark_file(const Checkpoint *c, Graph *g); /* those that are BF16 there */
/* The same of a folder; none, where it has no weights. Fails as checkpoint_open. */
void graph_mark_from(Env *e, Graph *g, const char *dir);
void graph_mark_bf16(Graph *g); /* all */

/* ---- synth.c: a model folder of any config, with seeded random weights ----------------- */

/* config: a folder or a config.json, copied to dir with the tokenizer files beside it; weights are
 * BF16 in one model.safetensors, the same bytes for the same seed on any number of threads.
 * Files appear complete or not at all. Fails with E_IO. */
void synth_write(Env *e, const char *config, const char *dir, uint64_t seed, int n_threads,
                 LoadProgress *progress, void *ctx);

/* ---- tokenizer.c, encode.c, decode.c: tokenizer.json -----------------------------
 * Byte-level BPE as Hugging Face's fast tokenizers do it, id for id. Everything is read from
 * the file; a setting that is not supported is refused by name. spec: tokenizer 1 to 7
 * A Tokenizer remembers pieces and owns scratch memory: one thread at a time. */

typedef struct Ids { /* vec_push(ids->arena, ids) */
    Arena *arena;
    int32_t *at;
    int n, cap;
} Ids;

typedef struct Tokenizer Tokenizer;

/* path: a tokenizer.json, or a folder with one. vocab_size: the model's rows of logits; a token
 * beyond them is an error; 0: unknown. Fails with E_IO or E_SYNTAX. Memory is e->model, scratch
 * (some 5 times the file) e->kernel. */
Tokenizer *tokenizer_load(Env *e, const char *path, int64_t vocab_size);
Tokenizer *tokenizer_parse(Env *e, const char *text, size_t len, const char *file,
                           int64_t vocab_size);
void tokenizer_release(Tokenizer *t); /* the compiled pattern; NULL is fine */
int32_t tokenizer_find_added(const Tokenizer *t, const char *content); /* its id, or -1 */
int64_t tokenizer_n_ids(const Tokenizer *t); /* highest id that has a token, plus 1 */

/* Appends the ids of text. With parse_special added tokens are recognised; without, no text
 * ever becomes one. Fails with E_INPUT: text is not UTF-8 (names the byte), or longer than 1 GiB. */
void tokenizer_encode(Tokenizer *t, const char *text, size_t len, bool parse_special, Ids *out);

/* Appends the text of ids: bytes that are not UTF-8 become U+FFFD, one for each maximal broken
 * sequence. An id without a token is nothing. Fails with E_INPUT: an id is negative or outside
 * the model's vocabulary. */
void tokenizer_decode(const Tokenizer *t, const int32_t *ids, int n, bool skip_special,
                      Buf *out);

/* The same a token at a time: text comes out as soon as a character is complete. */
typedef struct Decoder {
    const Tokenizer *tokenizer;
    bool skip_special;
    uint8_t held[4]; /* bytes of a character that is not complete */
    int n_held, n_missing;
    uint8_t low, high; /* what the next byte of it must lie between */
} Decoder;

Decoder decoder_start(const Tokenizer *t, bool skip_special);
void decoder_add(Decoder *d, int32_t id, Buf *out);
void decoder_end(Decoder *d, Buf *out); /* U+FFFD for a character that never became complete */

/* ---- generation.c: generation_config.json, and when to stop ---------------------- */

/* Columns: field, type, its value when off, the values allowed (x), the same in words */
#define SAMPLING(X)                                                                   \
    X(temperature, double, 1, x == 0 || (x >= 1e-6 && x <= 1e6), "0, or 1e-6 to 1e6") \
    X(top_k, int64_t, 0, x >= 0 && x <= INT32_MAX, "0 to 2147483647")                 \
    X(top_p, double, 1, x > 0 && x <= 1, "above 0 and at most 1")                     \
    X(min_p, double, 0, x >= 0 && x <= 1, "0 to 1")                                   \
    X(repetition_penalty, double, 1, x > 0 && x <= 1e6, "above 0 and at most 1e6")

/* temperature 0 is greedy; top_k 0, top_p 1, min_p 0 and repetition_penalty 1 are off. */
typedef struct Sampling {
#define X(field, type, off, allowed, words) type field;
    SAMPLING(X)
#undef X
} Sampling;

Sampling sampling_off(void);    /* temperature 1, the rest off: the distribution as it is */
Sampling sampling_greedy(void); /* temperature 0, the rest off */
void sampling_check(Env *e, const Sampling *s); /* fails with E_INPUT, naming the setting */

typedef struct Generation {
    bool found;        /* is there a generation_config.json? */
    Sampling sampling; /* greedy unless do_sample is true; a field the file lacks is off */
    int n_eos;         /* eos_token_id: none, one or a list */
    int64_t eos[MAX_STOP_TOKENS];
} Generation;

Generation generation_read(Env *e, const char *dir);
Generation generation_parse(Env *e, const char *text, size_t len, const char *file);
void sampling_print(const Sampling *s, Buf *out); /* "greedy", "temperature 0.7, top_k 20" */

typedef struct Stops {
    int n;
    int32_t id[3 * MAX_STOP_TOKENS];
} Stops;

/* The union of what config.json, generation_config.json and the eos_token of
 * tokenizer_config.json say; ids without a row of logits are left out. t may be NULL. */
Stops stops_read(Env *e, const char *dir, const Config *c, const Generation *g,
                 const Tokenizer *t);
bool stops_has(const Stops *s, int32_t id);

/* ---- chat.c: ChatML with the folder's own default system prompt -------------------
 * spec: tokenizer 8. The template is not run: it is recognised, but for its default prompt. */

typedef struct Chat {
    const char *template_name;  /* "Qwen2" or "Qwen2.5" */
    const char *default_system; /* from the folder's template */
    bool any_role;              /* the template prints roles it does not know, or drops them */
    int32_t start, end;         /* <|im_start|>, <|im_end|> */
    Tokenizer *tokenizer;
} Chat;

typedef struct Message {
    const char *role; /* system, user, assistant */
    const char *content;
    size_t len;
} Message;

/* False: the folder has no template, or one we do not know exactly; why says which. */
bool chat_open(Env *e, const char *dir, Tokenizer *t, Chat *chat, Err *why);
bool chat_recognise(Env *e, const char *text, size_t len, Chat *chat); /* template alone */

/* A whole conversation. open: ends with an assistant's turn that has only begun. parse_special:
 * are control tokens in the contents recognised? Fails with E_INPUT: role "tool". */
void chat_encode(Env *e, const Chat *chat, const Message *message, int n, bool open,
                 bool parse_special, Ids *out);
void chat_render(Env *e, const Chat *chat, const Message *message, int n, bool open, Buf *out);
/* The same in parts, for a conversation that grows: begin with the system message (NULL: the
 * default), then turns; chat_reply opens the assistant's turn, and chat_reply_end closes it
 * behind the ids the model made (last: the last of them, maybe the end token already). */
void chat_begin(Env *e, const Chat *chat, const Message *system, bool parse_special, Ids *out);
void chat_turn(Env *e, const Chat *chat, const Message *message, bool parse_special, Ids *out);
void chat_reply(const Chat *chat, Ids *out);
void chat_reply_end(const Chat *chat, int32_t last, Ids *out);

/* ---- sampler.c: from logits to a token ---------------------------------------------
 * In this order, all in f32: repetition penalty, temperature, top-k, top-p, min-p, softmax,
 * draw. spec: tokenizer 10; penalty and min-p as Hugging Face defines them. */

typedef struct Candidate {
    float logit;
    int32_t id;
} Candidate;

typedef struct Sampler {
    Env *env;
    Sampling sampling;
    int n_vocab;
    Rng rng;
    bool *seen;           /* by id: in the prompt or chosen before; what the penalty is for */
    Candidate *candidate; /* what is left, by id */
    uint64_t *key, *swap; /* for sorting */
    float *prob;
} Sampler;

/* Memory (about 33 bytes an id) is e->model. Fails with E_INPUT: a setting out of its range. */
void sampler_init(Sampler *s, Env *e, const Sampling *sampling, int n_vocab, uint64_t seed);
void sampler_reset(Sampler *s, uint64_t seed); /* forgets what was seen, restarts the numbers */
void sampler_see(Sampler *s, const int32_t *ids, int n);
/* The next token, which is then seen. Fails with E_INPUT: a logit is NaN or +inf (names it), or
 * all are -inf. The logits are not changed. */
int32_t sampler_next(Sampler *s, const float *logits);

/* ---- generate.c: text and perplexity, over whoever can run the model ------------------------ */

typedef struct Stepper Stepper;
struct Stepper {
    void *ctx;
    int64_t n_vocab;
    int64_t max_positions; /* 0: not known */
    int64_t n_fed;         /* tokens fed since the last restart; kept by feed and restart */
    /* Feeds n ids behind those fed before. logits: rows of n_vocab, n of them where all is set, else
     * the last one; they hold until the next call. False fills err and feeds nothing; E_INTERRUPT:
     * the user stopped it. */
    bool (*feed)(Stepper *s, const int32_t *ids, int n, bool all, const float **logits,
                 Err *err);
    void (*restart)(Stepper *s);
};

/* Why a text ended: max_tokens, a stop token, no position left (for the prompt: last is -1 then),
 * the caller or the user, a step that failed. */
typedef enum GenerateEnd {
    END_LENGTH,
    END_STOP,
    END_CONTEXT,
    END_INTERRUPTED,
    END_FAILED
} GenerateEnd;

typedef struct Generate {
    Sampler *sampler;   /* NULL: greedy, the first maximum. The caller lets it see the prompt */
    const Stops *stops; /* may be NULL */
    int max_tokens;
    const volatile int *interrupted; /* set by a signal's handler; may be NULL */
    /* Each new token but a stop token; false ends; may be NULL. */
    bool (*token)(void *ctx, int32_t id);
    void *ctx;
} Generate;

typedef struct Generated {
    int n;        /* tokens, the stop token not counted */
    int32_t last; /* the newest, stop token included; it has not been fed */
    GenerateEnd end;
} Generated;

/* False: the prompt is empty, or a step failed; err says why. */
bool generate(const Generate *g, Stepper *s, const int32_t *prompt, int n_prompt,
              Generated *out, Err *err);

typedef struct Perplexity {
    double perplexity, mean_nll; /* nats */
    int n_scored, n_chunks;
} Perplexity;

/* Chunks do not overlap; each is one pass from position 0, its first token is not scored. */
bool perplexity(Stepper *s, const int32_t *ids, int n, int chunk, Perplexity *out, Err *err);

#endif
