/* library.c - a model's tables as C: the file of a built library that is the model's own.
 *
 *     constants, declarations of kernels, then for each program its calls, parameters, sizes;
 *     weights and panels; facts and call sites; the entry points
 *
 * needs: tables with NULL for functions, and their names. Every list is printed even where it is
 * empty, with one zero more, since C has no empty arrays. Texts are printed as string literals and
 * never within comments. */
#include <inttypes.h>

#include "emit/emit_int.h"

/* ---- values ---- */

static void put_text(Buf *out, const char *s)
{
    buf_char(out, '"');
    for (; s && *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < ' ' || c == 127 || c == '?') { /* no trigraphs */
            buf_printf(out, "\\%03o", c);
        } else {
            buf_str(out, c == '"' || c == '\\' ? "\\" : "");
            buf_char(out, *s);
        }
    }
    buf_char(out, '"');
}

static void put_fixed(const LibraryText *l, int i, Buf *out)
{
    const Buffer *b = l->fixed[i];
    const int per_line = 8;
    buf_printf(out, "static const _Alignas(64) %s fixed_%d[] = {", dtype_ctype(b->dtype), i);
    for (int64_t k = 0; k < b->count.k; k++) {
        Value v = value_load(b->value, b->dtype, k);
        buf_str(out, k % per_line ? " " : "\n    ");
        c_constant(out, b->dtype, v, false);
        buf_char(out, ',');
    }
    buf_str(out, b->count.k ? "\n};\n" : "0};\n");
}

/* ---- kernels and constants ---- */

static void put_declarations(const LibraryText *l, Buf *out)
{
    for (int i = 0; i < l->n_kernels; i++) {
        const Kernel *k = l->kernel[i];
        buf_printf(
            out,
            "int32_t %s(void *const *params, const int64_t *syms, int part, int n_parts);\n",
            k->symbol);
    }
    for (int i = 0; i < l->tables->n_panels; i++) {
        buf_printf(out, "int64_t %s(void *to, const void *from, const int64_t *syms);\n",
                   l->fill[i]);
    }
    buf_printf(out, "extern const unsigned char nc_needs[%d];\n\n", N_CPU_NEEDS);
    for (int i = 0; i < l->n_fixed; i++) {
        put_fixed(l, i, out);
    }
    buf_str(out, "static const void *const fixed[] = {");
    for (int i = 0; i < l->n_fixed; i++) {
        buf_printf(out, "fixed_%d, ", i);
    }
    buf_str(out, "0};\n\n");
}

/* ---- programs ---- */

static void put_place(const NcPlace *p, Buf *out)
{
    static const char *const base[N_NC_BASES] = {
        [NC_TEMP] = "NC_TEMP",     [NC_WEIGHT] = "NC_WEIGHT", [NC_PANEL] = "NC_PANEL",
        [NC_FIXED] = "NC_FIXED",   [NC_IDS] = "NC_IDS",       [NC_KEYS] = "NC_KEYS",
        [NC_VALUES] = "NC_VALUES", [NC_LOGITS] = "NC_LOGITS"};
    buf_printf(out, "{%s, %d, %" PRId64 "}", base[p->base], p->index, p->at);
}

static void put_calls(const LibraryText *l, int program, const nc_site *site, Buf *out)
{
    const NcProgram *p = &l->tables->program[program];
    const char *name = p->facts.name;
    buf_printf(out, "static const NcCall %s_call[] = {\n", name);
    for (int i = 0; i < p->facts.n_calls; i++) {
        const NcCall *c = &p->call[i];
        buf_printf(out, "    {%s, %d, %d, %d, %d}, /* %d %s */\n", site[i].kernel, c->param,
                   c->sym, c->parallel, c->with_next, i, site[i].site);
    }
    buf_printf(out,
               "    {0}};\n\n/* By call: the output, then the operands. */\n"
               "static const NcPlace %s_param[] = {\n",
               name);
    for (int i = 0; i < p->facts.n_calls; i++) {
        int end = i + 1 < p->facts.n_calls ? p->call[i + 1].param : p->n_params;
        buf_str(out, "    ");
        for (int k = p->call[i].param; k < end; k++) {
            put_place(&p->param[k], out);
            buf_str(out, ", ");
        }
        buf_printf(out, "/* %d */\n", i);
    }
    buf_str(out, "    {0}};\n");
}

static void put_sizes(const NcProgram *p, Buf *out)
{
    static const char *const size[N_NC_SIZES] = {"NC_SEQ", "NC_PAST", "NC_CAPACITY"};
    int n_terms = 0;
    buf_printf(out, "static const uint8_t %s_sym[] = {", p->facts.name);
    for (int i = 0; i < p->n_syms; i++) {
        buf_printf(out, "%s, ", size[p->sym[i]]);
    }
    buf_printf(out, "0};\nstatic const NcMove %s_move[] = {", p->facts.name);
    for (int i = 0; i < p->n_moves; i++) {
        const NcMove *m = &p->move[i];
        buf_printf(out, "{%d, %d, %d}, ", m->param, m->term, m->n_terms);
        n_terms += m->n_terms;
    }
    buf_printf(out, "{0}};\nstatic const NcTerm %s_term[] = {", p->facts.name);
    for (int i = 0; i < n_terms; i++) {
        const NcTerm *t = &p->term[i];
        buf_printf(out, "{%" PRId64 ", {%d, %d, %d}}, ", t->coef, t->power[NC_SEQ],
                   t->power[NC_PAST], t->power[NC_CAPACITY]);
    }
    buf_str(out, "{0}};\n\n");
}

static void put_program_facts(const nc_program *f, Buf *out)
{
    buf_str(out, "{");
    put_text(out, f->name);
    buf_printf(out,
               ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %d, %d, %" PRId64 ", %" PRId64
               ", %" PRId64 "}",
               f->min_tokens, f->max_tokens, f->usual_tokens, f->n_calls, f->n_joins,
               f->arena_bytes, f->bytes_first, f->bytes_last);
}

static void put_programs(const LibraryText *l, Buf *out)
{
    const NcTables *t = l->tables;
    const nc_site *site = t->facts->site;
    for (int i = 0; i < t->facts->n_programs; i++) {
        const NcProgram *p = &t->program[i];
        buf_printf(out, "/* ---- %s: at most %" PRId64 " tokens at once ---- */\n\n",
                   p->facts.name, p->facts.max_tokens);
        put_calls(l, i, site, out);
        put_sizes(p, out);
        site += p->facts.n_calls;
    }
    buf_str(out, "static const NcProgram program[] = {\n");
    for (int i = 0; i < t->facts->n_programs; i++) {
        const NcProgram *p = &t->program[i];
        const char *n = p->facts.name;
        buf_str(out, "    {");
        put_program_facts(&p->facts, out);
        buf_printf(out,
                   ",\n     %s_call, %s_param, %d, %s_sym, %d, %s_move, %d, %s_term, %d},\n", n,
                   n, p->n_params, n, p->n_syms, n, p->n_moves, n, p->all_rows);
    }
    buf_str(out, "};\n\n");
}

/* ---- weights ---- */

static void put_weights(const LibraryText *l, Buf *out)
{
    const NcTables *t = l->tables;
    static const char *const storage[N_NC_STORAGES] = {"NC_F32", "NC_F16", "NC_BF16"};
    buf_str(out, "static const NcShard shard[] = {\n");
    for (int i = 0; i < t->n_shards; i++) {
        const NcShard *s = &t->shard[i];
        buf_str(out, "    {");
        put_text(out, s->file);
        buf_printf(out, ", %" PRId64 ", %" PRId64 ", 0x%016" PRIx64 "u},\n", s->n_bytes,
                   s->header_bytes, s->print);
    }
    buf_str(out, "    {0}};\nstatic const NcWeight weight[] = {\n");
    for (int i = 0; i < t->n_weights; i++) {
        const NcWeight *w = &t->weight[i];
        buf_str(out, "    {");
        put_text(out, w->name);
        buf_printf(out, ", %d, %" PRId64 ", %" PRId64 ", %s, %s, %d},\n", w->shard, w->offset,
                   w->count, storage[w->source], storage[w->stored], w->kept);
    }
    buf_str(out, "    {0}};\nstatic const NcPanel panel[] = {\n");
    for (int i = 0; i < t->n_panels; i++) {
        buf_printf(out, "    {%s, ", l->fill[i]);
        put_place(&t->panel[i].from, out);
        buf_printf(out, ", %" PRId64 "},\n", t->panel[i].n_bytes);
    }
    buf_str(out, "    {0}};\n\n");
}

/* ---- facts ---- */

static void put_site(const nc_site *s, Buf *out)
{
    const char *const text[] = {s->program,  s->site,    s->kernel, s->key,
                                s->schedule, s->outcome, s->why};
    buf_str(out, "    {");
    for (size_t i = 0; i < countof(text); i++) {
        buf_str(out, i ? ", " : "");
        put_text(out, text[i]);
    }
    buf_str(out, "},\n");
}

static void put_layout(const nc_layout *l, Buf *out)
{
    buf_str(out, "    {");
    put_text(out, l->weight);
    buf_str(out, ", ");
    put_text(out, l->fill);
    buf_printf(out, ", %" PRId64 "},\n", l->bytes);
}

static void put_facts(const nc_facts *f, Buf *out)
{
    const char *const text[] = {f->version, f->model, f->cpu, f->toolchain, f->buckets};
    const int64_t number[] = {f->vocab_size,  f->context,     f->n_threads,  f->weight_bytes,
                              f->panel_bytes, f->cache_bytes, f->arena_bytes};
    buf_str(out, "static const nc_site site[] = {\n");
    for (int i = 0; i < f->n_sites; i++) {
        put_site(&f->site[i], out);
    }
    buf_str(out, "    {0}};\nstatic const nc_layout layout[] = {\n");
    for (int i = 0; i < f->n_layouts; i++) {
        put_layout(&f->layout[i], out);
    }
    buf_str(out, "    {0}};\nstatic const nc_program program_facts[] = {\n");
    for (int i = 0; i < f->n_programs; i++) {
        buf_str(out, "    ");
        put_program_facts(&f->program[i], out);
        buf_str(out, ",\n");
    }
    buf_str(out, "};\nstatic const nc_facts facts = {\n    ");
    for (size_t i = 0; i < countof(text); i++) {
        put_text(out, text[i]);
        buf_str(out, ",\n    ");
    }
    for (size_t i = 0; i < countof(number); i++) {
        buf_printf(out, "%" PRId64 ", ", number[i]);
    }
    buf_printf(out, "%d, %d, %d, program_facts, site, layout};\n", f->n_programs, f->n_sites,
               f->n_layouts);
}

static const char entries[] =
    "const nc_facts *nc_info(void)\n{\n    return &facts;\n}\n\n"
    "nc_model *nc_open(const nc_options *options, nc_error *error)\n{\n"
    "    return runtime_open(&tables, options, error);\n}\n\n"
    "void nc_close(nc_model *m)\n{\n    runtime_close(m);\n}\n\n"
    "nc_code nc_prefill(nc_model *m, int64_t at, const int32_t *ids, int64_t n,\n"
    "                   const float **logits, nc_error *error)\n{\n"
    "    return runtime_feed(m, at, ids, n, false, NULL, logits, error);\n}\n\n"
    "nc_code nc_decode(nc_model *m, int64_t at, int32_t id, const float **logits,\n"
    "                  nc_error *error)\n{\n"
    "    return runtime_feed(m, at, &id, 1, false, NULL, logits, error);\n}\n\n"
    "nc_code nc_score(nc_model *m, int64_t at, const int32_t *ids, int64_t n, float *logits,\n"
    "                 nc_error *error)\n{\n"
    "    return runtime_feed(m, at, ids, n, true, logits, NULL, error);\n}\n";

void emit_tables(const LibraryText *l, Buf *out)
{
    const NcTables *t = l->tables;
    put_declarations(l, out);
    put_programs(l, out);
    put_weights(l, out);
    put_facts(t->facts, out);
    buf_printf(
        out,
        "static const NcTables tables = {&facts, program, shard, weight, panel, fixed, %d, "
        "%d, %d, 0x%016" PRIx64 "u, nc_needs};\n\n",
        t->n_shards, t->n_weights, t->n_panels, t->layout);
    buf_str(out, entries);
}
