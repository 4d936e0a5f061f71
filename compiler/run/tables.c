/* tables.c - compiled programs as the tables that a library's run time walks: where each parameter
 * lies, which sizes it depends on, which weights are read as they are and which are laid out anew.
 *
 * Temporaries get fixed places, planned for the most tokens and the longest past: counts only grow
 * with sizes, so that every smaller step fits. Panels that two calls want alike are one, whatever
 * program they stand in; that their functions have the same text says so.
 * needs: programs with the cache in place; an open checkpoint that fits the config. */
#include "run/run_int.h"

#include <inttypes.h>
#include <string.h>

_Static_assert((int)N_NC_SIZES == N_STEP_SIZES, "a size of a step has no symbol");

typedef struct Maker {
    Env *e;
    Arena *m;
    const LibraryParts *parts;
    Sym size[N_NC_SIZES];
    Vec(NcWeight) weight;
    Vec(NcPanel) panel;
    Vec(const char *) fill;
    Vec(Hash) layout; /* by panel */
    Map fills;        /* hashes of the texts of their functions, by name */
    Vec(const Buffer *) fixed;
    Vec(const Kernel *) kernel;
    Map known; /* kernels by hash of their symbol */
    Vec(nc_site) site;
} Maker;

typedef struct Lists { /* of one program */
    const LibraryPart *part;
    Vec(NcCall) call;
    Vec(NcPlace) param;
    Vec(uint8_t) sym;
    Vec(NcMove) move;
    Vec(NcTerm) term;
} Lists;

/* ---- sizes ---------------------------------------------------------------------------------- */

static NcSize size_of(const Maker *k, Sym s)
{
    for (int i = 0; i < N_NC_SIZES; i++) {
        if (k->size[i] == s) {
            return (NcSize)i;
        }
    }
    fail(k->e, E_INPUT, "The model depends on a size that no step knows: %.64s.",
         k->e->symbol[s]);
}

static int64_t bytes_at_one(const Maker *k, const Program *p, int64_t past)
{
    int64_t value[MAX_SYMBOLS], bytes = 0;
    step_sizes(k->e, 1, past, k->parts->o.context, value);
    for (int i = 0; i < p->call.n; i++) {
        bytes += call_bytes(p, &p->call.at[i], value);
    }
    return bytes;
}

/* The list of sizes that a call wants, once. */
static int add_syms(Maker *k, Lists *l, const Call *call)
{
    uint8_t want[MAX_SYMBOLS];
    int n = call->sym.n;
    for (int i = 0; i < n; i++) {
        want[i] = (uint8_t)size_of(k, call->sym.at[i]);
    }
    for (int at = 0; n > 0 && at + n <= l->sym.n; at++) {
        if (!memcmp(&l->sym.at[at], want, (size_t)n)) {
            return at;
        }
    }
    for (int i = 0; i < n; i++) {
        *vec_push(k->m, &l->sym) = want[i];
    }
    return l->sym.n - n;
}

/* Bytes behind a parameter's own place: the constant part is returned. */
static int64_t add_move(Maker *k, Lists *l, Dim offset, int bytes)
{
    int64_t constant = 0;
    NcMove move = {l->param.n, l->term.n, 0};
    for (int i = 0; i < offset.n; i++) {
        const Term *t = &offset.term[i];
        NcTerm term = {.coef = t->coef * bytes};
        for (int d = 0; d < t->degree; d++) {
            term.power[size_of(k, t->sym[d])]++;
        }
        if (t->degree == 0) {
            constant = term.coef;
        } else {
            *vec_push(k->m, &l->term) = term;
            move.n_terms++;
        }
    }
    if (move.n_terms) {
        *vec_push(k->m, &l->move) = move;
    }
    return offset.n ? constant : offset.k * bytes;
}

/* ---- weights and panels ----------------------------------------------------------------------- */

static NcStorage storage_of(const FileTensor *t)
{
    check(file_dtype_widens(t->dtype)); /* weights_match */
    return t->dtype == FD_F32 ? NC_F32 : t->dtype == FD_F16 ? NC_F16 : NC_BF16;
}

static int add_weight(Maker *k, const char *name, NcStorage stored)
{
    for (int i = 0; i < k->weight.n; i++) {
        if (!strcmp(k->weight.at[i].name, name) && k->weight.at[i].stored == stored) {
            return i;
        }
    }
    const FileTensor *t = checkpoint_find(k->parts->o.file, name);
    NcWeight w = {.name = name,
                  .shard = t->shard,
                  .offset = t->data - k->parts->o.file->shards.at[t->shard].map,
                  .count = file_tensor_count(t),
                  .source = storage_of(t),
                  .stored = stored};
    if (stored == NC_BF16 && w.source != NC_BF16) {
        fail(k->e, E_INPUT, "Weight %.200s is to be stored as bf16, but the file has it as %s.",
             name, file_dtype_name(t->dtype));
    }
    *vec_push(k->m, &k->weight) = w;
    return k->weight.n - 1;
}

static int add_fixed(Maker *k, const Buffer *b)
{
    size_t bytes = (size_t)b->count.k * (size_t)dtype_bytes(b->dtype);
    for (int i = 0; i < k->fixed.n; i++) {
        const Buffer *f = k->fixed.at[i];
        if (f->dtype == b->dtype && dim_eq(f->count, b->count) &&
            !memcmp(f->value, b->value, bytes)) {
            return i;
        }
    }
    *vec_push(k->m, &k->fixed) = b;
    return k->fixed.n - 1;
}

/* Of the function's text, however often the kernel is called. */
static Hash fill_hash(Maker *k, const Kernel *kernel, int operand)
{
    const char *name = arena_printf(&k->e->kernel, "%s_pack_%d", kernel->symbol, operand);
    Hash *known = map_get(&k->fills, hash_str(name));
    if (!known) {
        known = arena_new(k->m, Hash);
        *known = emit_pack_hash(k->e, kernel, k->parts->o.tc->target, operand);
        map_put(&k->fills, hash_str(name), known);
    }
    return *known;
}

static int add_panel(Maker *k, const Kernel *kernel, int operand, NcPlace from)
{
    static const int64_t none[MAX_SYMBOLS];
    Hash fill = fill_hash(k, kernel, operand);
    const char *text = arena_printf(&k->e->kernel, "%" PRIx64 "%" PRIx64 " %d %d %" PRId64,
                                    fill.hi, fill.lo, from.base, from.index, from.at);
    Hash layout = hash_str(text);
    for (int i = 0; i < k->layout.n; i++) {
        if (hash_eq(k->layout.at[i], layout)) {
            return i;
        }
    }
    int64_t bytes =
        kernel_span(kernel, operand, none) * operand_bytes(&kernel->operand.at[operand]);
    *vec_push(k->m, &k->layout) = layout;
    *vec_push(k->m, &k->fill) = arena_printf(k->m, "%s_pack_%d", kernel->symbol, operand);
    *vec_push(k->m, &k->panel) = (NcPanel){NULL, from, bytes};
    return k->panel.n - 1;
}

/* ---- calls ------------------------------------------------------------------------------------- */

static NcPlace place_of(Maker *k, const Lists *l, int buffer, const Operand *o)
{
    const Buffer *b = &l->part->program->buffer.at[buffer];
    switch (b->kind) {
    case BUF_TEMP: return (NcPlace){NC_TEMP, 0, l->part->plan.offset[buffer]};
    case BUF_CONST: return (NcPlace){NC_FIXED, add_fixed(k, b), 0};
    case BUF_WEIGHT:
        return (NcPlace){NC_WEIGHT,
                         add_weight(k, b->name, operand_takes_bf16(o) ? NC_BF16 : NC_F32), 0};
    case BUF_OUTPUT: return (NcPlace){NC_LOGITS, 0, 0};
    default:
        return (NcPlace){!strcmp(b->name, "token_ids")    ? NC_IDS
                         : !strcmp(b->name, "cache_keys") ? NC_KEYS
                                                          : NC_VALUES,
                         0, 0};
    }
}

static void add_param(Maker *k, Lists *l, const Kernel *kernel, const Call *call, int i)
{
    const Operand *o = &kernel->operand.at[i];
    const Arg *arg = &call->arg.at[i];
    NcPlace p = place_of(k, l, arg->buffer, o);
    p.at += add_move(k, l, arg->offset, operand_given_bytes(o));
    if (o->pack) {
        check(dim_is_const(arg->offset));
        p = (NcPlace){NC_PANEL, add_panel(k, kernel, i, p), 0};
    } else if (p.base == NC_WEIGHT) {
        k->weight.at[p.index].kept = true;
    }
    *vec_push(k->m, &l->param) = p;
}

static void add_kernel(Maker *k, const Kernel *kernel)
{
    Hash name = hash_str(kernel->symbol);
    if (!map_get(&k->known, name)) {
        map_put(&k->known, name, (void *)(uintptr_t)kernel);
        *vec_push(k->m, &k->kernel) = kernel;
    }
}

static void add_call(Maker *k, Lists *l, const Call *call)
{
    const Kernel *kernel = l->part->program->kernel.at[call->kernel];
    add_kernel(k, kernel);
    *vec_push(k->m, &l->call) =
        (NcCall){NULL, l->param.n, add_syms(k, l, call), kernel->parallel, call->with_next};
    for (int i = 0; i < call->arg.n; i++) {
        add_param(k, l, kernel, call, i);
    }
}

/* ---- where in the model a call stands --------------------------------------------------------- */

/* "model.layers.3.mlp.down_proj.weight": "layers.3.mlp.down_proj" */
static const char *short_name(const Maker *k, const char *weight)
{
    size_t skip = strncmp(weight, "model.", 6) ? 0 : 6, len = strlen(weight);
    const char *dot = strrchr(weight, '.');
    return arena_strn(k->m, weight + skip,
                      (dot && dot > weight + skip ? (size_t)(dot - weight) : len) - skip);
}

/* The weights that it reads, else the block of those before, and its kind. */
static const char *site_name(const Maker *k, const LibraryPart *part, const Call *call,
                             const char **block)
{
    const Kernel *kernel = part->program->kernel.at[call->kernel];
    Buf b;
    const char *last = NULL;
    buf_init(&b, k->m);
    for (int i = 0; i < call->arg.n; i++) {
        const Buffer *buf = &part->program->buffer.at[call->arg.at[i].buffer];
        const char *name = buf->kind == BUF_WEIGHT ? short_name(k, buf->name) : NULL;
        if (name && (!last || strcmp(name, last))) {
            const char *dot = last ? strrchr(name, '.') : NULL;
            buf_printf(&b, "%s%s", last ? "+" : "", dot ? dot + 1 : name);
            last = last ? last : name;
        }
    }
    if (last && !strncmp(last, "layers.", 7)) {
        *block = arena_strn(k->m, last, 7 + strspn(last + 7, "0123456789"));
    }
    buf_printf(&b, "%s%s%s", last ? "" : *block, b.len || **block ? " " : "", kernel->kind);
    return b.at;
}

static void add_sites(Maker *k, int part)
{
    const LibraryPart *p = &k->parts->part[part];
    const char *block = "";
    for (int i = 0; i < p->program->call.n; i++) {
        const Call *call = &p->program->call.at[i];
        const Kernel *kernel = p->program->kernel.at[call->kernel];
        char *key = arena_alloc(k->m, 33);
        hash_hex(kernel->hash, key);
        nc_site s = {p->name,
                     site_name(k, p, call, &block),
                     kernel->symbol,
                     key,
                     kernel->schedule ? kernel->schedule : "",
                     "default",
                     ""};
        if (k->parts->o.explain) {
            k->parts->o.explain(k->parts->o.ctx, part, call->kernel, &s.outcome, &s.why);
        }
        *vec_push(k->m, &k->site) = s;
    }
}

/* ---- programs ---------------------------------------------------------------------------------- */

static void plan_part(Maker *k, LibraryPart *part)
{
    int64_t value[MAX_SYMBOLS];
    for (int i = 0; i < part->program->buffer.n; i++) {
        const Buffer *b = &part->program->buffer.at[i];
        if (b->kind == BUF_TEMP && !dim_never_negative(b->count)) {
            fail(k->e, E_ILLEGAL,
                 "A temporary of %s does not grow with its sizes: no fixed plan fits.",
                 part->name);
        }
    }
    plan_init(&part->plan, part->program, k->m);
    step_sizes(k->e, part->max_tokens, k->parts->o.context - 1, k->parts->o.context, value);
    if (!plan_update(&part->plan, part->program, value)) {
        fail(k->e, E_NOMEM, "The temporaries of %s need more memory than can be addressed.",
             part->name);
    }
}

/* Regions with a call that is run on all threads. */
static int count_joins(const NcCall *call, int n_calls)
{
    int n = 0;
    bool parallel = false;
    for (int i = 0; i < n_calls; i++) {
        parallel = parallel || call[i].parallel;
        if (!call[i].with_next) {
            n += parallel;
            parallel = false;
        }
    }
    return n;
}

static NcProgram make_program(Maker *k, int index)
{
    LibraryPart *part = &k->parts->part[index];
    const Program *p = part->program;
    Lists l = {.part = part};
    nc_program f = {.name = part->name,
                    .min_tokens = part->min_tokens,
                    .max_tokens = part->max_tokens,
                    .usual_tokens = part->usual_tokens,
                    .n_calls = p->call.n};
    plan_part(k, part);
    for (int i = 0; i < p->call.n; i++) {
        add_call(k, &l, &p->call.at[i]);
    }
    f.n_joins = count_joins(l.call.at, l.call.n);
    add_sites(k, index);
    f.arena_bytes = part->plan.arena_bytes;
    f.bytes_first = bytes_at_one(k, p, 0);
    f.bytes_last = bytes_at_one(k, p, k->parts->o.context - 1);
    return (NcProgram){f,       l.call.at, l.param.at, l.param.n, l.sym.at,
                       l.sym.n, l.move.at, l.move.n,   l.term.at, part->all_rows};
}

/* Of one of the two caches, at the largest capacity. */
static int64_t cache_bytes(const Maker *k)
{
    const Program *p = k->parts->part[0].program;
    int64_t value[MAX_SYMBOLS];
    step_sizes(k->e, 1, 0, k->parts->o.context, value);
    for (int i = 0; i < p->buffer.n; i++) {
        const Buffer *b = &p->buffer.at[i];
        if (b->kind == BUF_INPUT && !strcmp(b->name, "cache_keys")) {
            return dim_value(b->count, value) * dtype_bytes(b->dtype);
        }
    }
    fail(k->e, E_INPUT, "The model has no cache of keys that can be appended in place.");
}

/* ---- all of it --------------------------------------------------------------------------------- */

static nc_facts *make_facts(Maker *k, const NcProgram *program)
{
    const LibraryParts *parts = k->parts;
    nc_facts *f = arena_new(k->m, nc_facts);
    nc_program *facts = arena_array(k->m, nc_program, parts->n);
    *f = (nc_facts){.version = NC_VERSION,
                    .model = parts->model,
                    .cpu = parts->o.tc->target->name,
                    .toolchain = parts->toolchain,
                    .buckets = parts->buckets,
                    .vocab_size = parts->o.config->vocab_size,
                    .context = parts->o.context,
                    .n_threads = parts->o.n_threads,
                    .cache_bytes = 2 * cache_bytes(k),
                    .n_programs = parts->n,
                    .n_sites = k->site.n,
                    .program = facts,
                    .site = k->site.at};
    for (int i = 0; i < parts->n; i++) {
        facts[i] = program[i].facts;
        f->arena_bytes =
            facts[i].arena_bytes > f->arena_bytes ? facts[i].arena_bytes : f->arena_bytes;
    }
    return f;
}

void tables_make(Env *e, const LibraryParts *parts, LibraryText *out)
{
    Maker k = {.e = e, .m = &e->model, .parts = parts};
    Match match;
    NcProgram *program = arena_array(k.m, NcProgram, parts->n);
    NcTables *t = arena_new(k.m, NcTables);
    for (int i = 0; i < N_NC_SIZES; i++) {
        k.size[i] = step_size(e, i);
    }
    map_init(&k.known, k.m);
    map_init(&k.fills, k.m);
    weights_match(e, parts->o.config, parts->o.file, &match);
    match_require(e, parts->o.config, parts->o.file, &match);
    for (int i = 0; i < parts->n; i++) {
        program[i] = make_program(&k, i);
    }
    nc_facts *f = make_facts(&k, program);
    *t = (NcTables){.facts = f,
                    .program = program,
                    .shard = shards_list(e, parts->o.file),
                    .weight = k.weight.at,
                    .panel = k.panel.at,
                    .n_shards = parts->o.file->shards.n,
                    .n_weights = k.weight.n,
                    .n_panels = k.panel.n};
    f->weight_bytes = weights_bytes(t, &f->panel_bytes);
    *out = (LibraryText){t, k.kernel.at, k.kernel.n, k.fill.at, k.fixed.at, k.fixed.n};
    f->layout = layouts_list(e, out, &f->n_layouts);
    t->layout = layouts_hash(e, out, k.layout.at);
}
