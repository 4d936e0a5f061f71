/* match.c - the tensors that a config asks for against those that the files hold.
 *
 * Everything that differs is listed, not only the first: missing, unexpected, of another shape
 * or of a dtype that is no plain float. A tied model may carry an equal copy of its embedding
 * as lm_head, never a different one; an untied model must have a head (CASES 4).
 * Needs: a checked config and an open checkpoint. */
#include "model/model_int.h"

#include <string.h>

static const char head_name[] = "lm_head.weight";

static bool same_shape(const TensorSpec *want, const FileTensor *t)
{
    return t->rank == want->rank &&
           memcmp(t->dim, want->dim, sizeof *t->dim * (size_t)t->rank) == 0;
}

static void match_spec(Env *e, const Checkpoint *ck, Match *m, int i, Buf *report)
{
    const TensorSpec *want = &m->spec[i];
    const FileTensor *t = checkpoint_find(ck, want->name);
    Shape s = shape_of(want->rank, (Dim[]){dim_int(want->dim[0]), dim_int(want->dim[1])});
    m->found[i] = t;
    if (!t) {
        m->n_missing++;
        buf_printf(report, "missing: %s %s\n", want->name, shape_text(e, &s));
    } else if (!same_shape(want, t) || !file_dtype_widens(t->dtype)) {
        m->n_unfit++;
        buf_printf(report, "%s: ", same_shape(want, t) ? "dtype not supported" : "misshapen");
        file_tensor_print(e, t, report);
        buf_printf(report, ", expected F32, F16 or BF16 %s\n", shape_text(e, &s));
    }
}

/* Buffers that old llama files carry; they follow from rope_theta. */
static bool is_derived(const FileTensor *t)
{
    static const char tail[] = ".self_attn.rotary_emb.inv_freq";
    size_t n = sizeof tail - 1;
    return t->name_len >= n && memcmp(t->name + t->name_len - n, tail, n) == 0;
}

/* All values equal; the pages are let go. */
static bool same_values(const FileTensor *a, const FileTensor *b)
{
    enum { BLOCK = 1 << 20 };
    size_t n = (size_t)(a->end - a->begin);
    bool same = a->dtype == b->dtype && n == b->end - b->begin;
    for (size_t at = 0; same && at < n; at += BLOCK) {
        size_t bytes = n - at < BLOCK ? n - at : BLOCK;
        same = memcmp(a->data + at, b->data + at, bytes) == 0;
        pages_drop(a->data + at, bytes);
        pages_drop(b->data + at, bytes);
    }
    return same;
}

/* A head in the file of a tied model. */
static void match_tied_head(Env *e, const Checkpoint *ck, Match *m, const FileTensor *head,
                            Buf *report)
{
    const FileTensor *embed = checkpoint_find(ck, m->spec[0].name);
    if (embed && same_values(embed, head)) {
        m->note = arena_printf(&e->model,
                               "%s: %s equals the embedding, to which this model ties it; "
                               "the copy is not used.",
                               ck->path, head_name);
        return;
    }
    m->n_unexpected++;
    buf_printf(
        report,
        "unexpected: %s differs from the embedding, but \"tie_word_embeddings\" is true\n",
        head_name);
}

static void match_rest(Env *e, const Config *c, const Checkpoint *ck, Match *m, Buf *report)
{
    bool *wanted = arena_array(&e->kernel, bool, ck->tensors.n);
    for (int i = 0; i < m->n; i++) {
        if (m->found[i]) {
            wanted[m->found[i] - ck->tensors.at] = true;
        }
    }
    for (int i = 0; i < ck->tensors.n; i++) {
        const FileTensor *t = &ck->tensors.at[i];
        if (wanted[i] || is_derived(t)) {
            continue;
        }
        if (c->tied && text_is((Text){t->name, t->name_len}, head_name)) {
            match_tied_head(e, ck, m, t, report);
            continue;
        }
        m->n_unexpected++;
        buf_str(report, "unexpected: ");
        file_tensor_print(e, t, report);
        buf_char(report, '\n');
    }
}

void weights_match(Env *e, const Config *c, const Checkpoint *ck, Match *m)
{
    *m = (Match){0};
    m->spec = config_tensors(e, c, &m->n);
    m->found = arena_array(&e->model, const FileTensor *, m->n);
    Buf report;
    buf_init(&report, &e->model);
    for (int i = 0; i < m->n; i++) {
        match_spec(e, ck, m, i, &report);
    }
    match_rest(e, c, ck, m, &report);
    m->report = report.at;
}

/* The report as one line: "missing: a [4]; unexpected: b". */
static const char *one_line(Env *e, const char *report)
{
    Buf b;
    buf_init(&b, &e->kernel);
    while (*report) {
        size_t n = strcspn(report, "\n");
        buf_printf(&b, "%s%.*s", b.len ? "; " : "", (int)n, report);
        report += n + 1;
    }
    return b.at;
}

void match_require(Env *e, const Config *c, const Checkpoint *ck, const Match *m)
{
    if (m->n_missing == 1 && m->n_unexpected + m->n_unfit == 0 && !c->tied &&
        !checkpoint_find(ck, head_name)) {
        fail(e, E_INPUT,
             "%s: %s is missing, and %s does not say that the head is tied; if it is, set "
             "\"tie_word_embeddings\": true there.",
             ck->path, head_name, c->path);
    }
    if (m->n_missing + m->n_unexpected + m->n_unfit > 0) {
        fail(e, E_INPUT,
             "%s does not fit %s: %d tensors missing, %d unexpected, %d of another shape or "
             "dtype: %s.",
             ck->path, c->path, m->n_missing, m->n_unexpected, m->n_unfit,
             one_line(e, m->report));
    }
}

/* ---- what comes as BF16 ---- */

void match_mark(const Match *m, Graph *g)
{
    for (int i = 0; i < g->weights.n; i++) {
        Attr *a = &g->weights.at[i]->attr;
        for (int k = 0; k < m->n; k++) {
            if (m->found[k] && !strcmp(m->spec[k].name, a->name)) {
                a->from_bf16 = m->found[k]->dtype == FD_BF16;
            }
        }
    }
}

typedef struct Marking {
    const Config *config;
    const char *path;
    Graph *g;
    Checkpoint file;
} Marking;

static void mark(Env *e, void *arg)
{
    Marking *x = arg;
    Match m;
    checkpoint_open(e, &x->file, x->path);
    weights_match(e, x->config, &x->file, &m);
    match_mark(&m, x->g);
}

static void close_marked(void *arg)
{
    checkpoint_release(&((Marking *)arg)->file);
}

void folder_mark(Env *e, const Config *c, const char *path, Graph *g)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    struct stat st;
    Marking x = {.config = c, .path = path, .g = g};
    for (size_t i = 0; i < countof(names); i++) {
        if (!os.stat(arena_printf(&e->kernel, "%s/%s", path, names[i]), &st)) {
            env_finally(e, mark, close_marked, &x);
            return;
        }
    }
}
