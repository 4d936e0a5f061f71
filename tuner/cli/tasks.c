/* tasks.c - what is tuned: a product of a given shape, or the kernels of a model that a pattern
 * selects, as a model runs them: one token at a time, and a prompt. Those are the kernels that builds
 * look up, so a model's tasks are cold. What all of the model's kernels take is needed to tell what a
 * part of them is worth, so those that are not selected are counted too. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>
#include <sys/stat.h>

#include "tuner/cli/tune.h"

/* Qwen2.5-0.5B, whose kernels are tuned where no model is named. */
static const char builtin_config[] =
    "{\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", \"hidden_act\": "
    "\"silu\","
    " \"hidden_size\": 896, \"intermediate_size\": 4864, \"num_hidden_layers\": 24,"
    " \"num_attention_heads\": 14, \"num_key_value_heads\": 2, \"vocab_size\": 151936,"
    " \"max_position_embeddings\": 32768, \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0,"
    " \"tie_word_embeddings\": true, \"use_sliding_window\": false}";

/* ---- what is known of one ---- */

/* Of one call. Of a table that is looked up in, what is looked up. */
static void count_work(Env *e, Item *it)
{
    DbRunTask row;
    work_row(e, it->kernel, it->task.sym, &row);
    it->flops = row.flops;
    it->write_bytes = row.write_bytes;
    it->read_bytes = it->space.class == CLASS_GATHER ? row.write_bytes : row.read_bytes;
}

/* The default: its text, its C, its place in the space. */
static void describe_default(const Workplace *w, Item *it, const PickHint *hint)
{
    Env *e = w->e;
    Point p;
    Buf text;
    Err err;
    schedule_default(e, it->kernel, hint, &it->base);
    buf_init(&text, &e->model);
    schedule_print(&it->base, &text);
    it->base_text = text.at;
    it->has_rank = space_default(e, &it->space, &p);
    it->base_rank = it->has_rank ? space_rank(&it->space, &p) : 0;
    const Kernel *k = kernel_schedule(e, &e->kernel, it->kernel, &it->base, it->base.n, &err);
    if (!k) {
        fail_err(e, &err);
    }
    it->base_c_hash = emit_hash(e, k, w->tc.target);
}

/* ---- one task ---- */

PickHint hint_here(const Workplace *w)
{
    PickHint hint = hint_of_machine(&w->machine, w->n_threads);
    hint.target = w->tc.target; /* what the compiler can really make */
    return hint;
}

static int64_t extent_of(const Axis *x, const int64_t *sym)
{
    return x->extent->kind == X_CONST ? x->extent->value.i
           : x->extent->kind == X_SYM ? sym[x->extent->id]
                                      : -1;
}

int64_t kernel_extent(const Kernel *k, const int64_t *sym, const char *name)
{
    for (int i = 0; i < k->nest.axis.n; i++) {
        const Axis *x = &k->nest.axis.at[i];
        if (!strcmp(x->name, name)) {
            return extent_of(x, sym);
        }
    }
    return -1;
}

const char *kernel_label(Arena *m, const Kernel *k, const int64_t *sym, const char *phase)
{
    Buf b;
    buf_init(&b, m);
    buf_printf(&b, "%s%s%s", phase, *phase ? " " : "", k->kind);
    for (int i = 0; i < k->nest.axis.n; i++) {
        const Axis *x = &k->nest.axis.at[i];
        int64_t n = extent_of(x, sym);
        if (n >= 0) {
            buf_printf(&b, " %s=%lld", x->name, (long long)n);
        }
    }
    return b.at;
}

typedef struct Use {   /* of a kernel, by what is tuned */
    const char *phase; /* or "" */
    double calls;
    uint64_t rotates;
    bool in_place; /* builds start from weights as the graph has them */
} Use;

static void add_item(const Workplace *w, Items *out, Kernel *k, const int64_t *sym,
                     const Use *use)
{
    Env *e = w->e;
    bool cold = w->o->regime_given ? w->o->regime == REGIME_COLD : w->o->m == 0;
    Item *it = vec_push(&e->model, out);
    PickHint hint = hint_here(w);
    hint.in_place = use->in_place;
    *it = (Item){.kernel = k,
                 .calls = use->calls,
                 .task = {.kernel = k->text,
                          .n_syms = k->n_syms,
                          .n_threads = w->n_threads,
                          .regime = cold ? REGIME_COLD : REGIME_HOT,
                          .rotates = use->rotates}};
    memcpy(it->task.sym, sym, sizeof *sym * (size_t)k->n_syms);
    memset(hint.sym, 0xff, sizeof hint.sym);
    memcpy(hint.sym, sym, sizeof *sym * (size_t)k->n_syms);
    it->label = kernel_label(&e->model, k, sym, use->phase);
    space_init(e, &e->model, &it->space, k, &hint);
    count_work(e, it);
    describe_default(w, it, &hint);
    env_reset_kernel(e);
}

/* One kernel may serve several places of a model, and both its phases: it is one task. */
static Item *same_task(Items *items, const Kernel *k, const int64_t *sym)
{
    for (int i = 0; i < items->n; i++) {
        Item *it = &items->at[i];
        if (!strcmp(it->kernel->text, k->text) &&
            !memcmp(it->task.sym, sym, sizeof *sym * (size_t)k->n_syms)) {
            return it;
        }
    }
    return NULL;
}

static void add_calls(const Workplace *w, Items *out, Kernel *k, const int64_t *sym,
                      const Use *use)
{
    Item *known = same_task(out, k, sym);
    if (known) {
        known->calls += use->calls;
        known->task.rotates |= use->rotates;
    } else {
        add_item(w, out, k, sym, use);
    }
}

/* ---- a shape ---- */

bool shape_parse(const char *text, int64_t *m, int64_t *n, int64_t *k)
{
    long long a, b, c;
    char extra;
    if (sscanf(text, "m=%lld,n=%lld,k=%lld%c", &a, &b, &c, &extra) != 3 || a < 1 || b < 1 ||
        c < 1 || a > 1 << 20 || b > 1 << 24 || c > 1 << 20) {
        return false;
    }
    *m = a, *n = b, *k = c;
    return true;
}

Kernel *kernel_of_shape(Env *e, int64_t m, int64_t n, int64_t k, bool bf16)
{
    const char *text =
        arena_printf(&e->model,
                     "graph product\nx = input f32[m, %lld]\nw = weight f32[%lld, %lld]%s\n"
                     "t = permute w perm=[1, 0]\ny = matmul x, t\nreturn y=y\n",
                     (long long)k, (long long)n, (long long)k, bf16 ? " from=bf16" : "");
    Compile c = {.env = e};
    Graph *g = ncg_parse(e, text, strlen(text), "product");
    Sym rows = sym_intern(e, "m", 1);
    c.known.value[rows] = m;
    c.known.bound[rows] = m == 1; /* as decode is: one row is compiled in */
    return compile_model(&c, g)->kernel.at[0];
}

static void add_product(const Workplace *w, Items *out)
{
    const TuneOptions *o = w->o;
    add_item(w, out, kernel_of_shape(w->e, o->m, o->n, o->k, o->bf16), &o->m,
             &(Use){.phase = "", .calls = 1});
}

/* ---- a model ---- */

typedef struct Pattern {
    pcre2_code *code;
    pcre2_match_data *match;
} Pattern;

static Pattern pattern_of(Env *e, const char *text)
{
    int number;
    size_t at;
    Pattern p = {.code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, PCRE2_UTF,
                                       &number, &at, NULL)};
    if (!p.code) {
        unsigned char why[128];
        pcre2_get_error_message(number, why, sizeof why);
        fail(e, E_INPUT, "--kernel: \"%s\" is no pattern: %s at character %zu.", text,
             (char *)why, at + 1);
    }
    p.match = pcre2_match_data_create_from_pattern(p.code, NULL);
    return p;
}

static bool pattern_fits(const Pattern *p, const char *label)
{
    return pcre2_match(p->code, (PCRE2_SPTR)label, strlen(label), 0, 0, p->match, NULL) >= 0;
}

static Config config_of(const Workplace *w)
{
    return w->o->model ? config_read(w->e, w->o->model)
                       : config_parse(w->e, builtin_config, strlen(builtin_config),
                                      "the built-in configuration");
}

/* The program's kernels at these sizes, each once. */
static void add_program(const Workplace *w, Items *out, const Program *p, const char *phase,
                        int n_times, const int64_t *size)
{
    for (int k = 0; k < p->kernel.n; k++) {
        int64_t sym[MAX_SYMBOLS] = {0};
        Use use = {.phase = phase, .in_place = weights_are_shared(p, k)};
        for (int c = 0; c < p->call.n; c++) {
            const Call *call = &p->call.at[c];
            for (int s = 0; call->kernel == k && s < call->sym.n; s++) {
                sym[s] = size[call->sym.at[s]];
            }
            use.rotates |= call->kernel == k ? call_caches(p, call) : 0;
            use.calls += call->kernel == k ? n_times : 0;
        }
        add_calls(w, out, p->kernel.at[k], sym, &use);
    }
}

/* Marked as its weights come; the built-in model's come as BF16. */
static Graph *model_graph(const Workplace *w, const Config *config)
{
    Graph *g = qwen2_build(w->e, config, -1, true);
    if (w->o->model) {
        graph_mark_from(w->e, g, w->o->model);
    } else {
        graph_mark_bf16(g);
    }
    return g;
}

/* The model's work, once: a prompt, and as many tokens after it, one by one. */
static void add_model(const Workplace *w, Items *out)
{
    Config config = config_of(w);
    for (int alone = 1; alone >= 0; alone--) {
        Compile c = {.env = w->e, .cache = true};
        Graph *g = model_graph(w, &config);
        if (alone) {
            compile_one_token(&c);
        }
        compile_at_usual_sizes(&c, alone ? 1 : USUAL_PROMPT);
        Program *p = compile_model(&c, g);
        add_program(w, out, p, alone ? "decode" : "prefill", alone ? USUAL_PROMPT : 1, c.usual);
    }
}

static void select_items(const Workplace *w, Items *items)
{
    Pattern p = pattern_of(w->e, w->o->kernel ? w->o->kernel : "");
    int n = 0;
    for (int i = 0; i < items->n; i++) {
        Item *it = &items->at[i];
        it->selected = pattern_fits(&p, it->label) && it->space.n_legal > 1;
        n += it->selected;
    }
    pcre2_match_data_free(p.match);
    pcre2_code_free(p.code);
    if (n == 0) {
        fail(w->e, E_INPUT,
             "No kernel that can be tuned has \"%s\" in its label; --list shows all.",
             w->o->kernel ? w->o->kernel : "");
    }
}

void items_find(const Workplace *w, Items *out)
{
    *out = (Items){0};
    if (w->o->m) {
        add_product(w, out);
        out->at[0].selected = true;
    } else {
        add_model(w, out);
        select_items(w, out);
    }
}
