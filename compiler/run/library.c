/* library.c - a model as one library: its programs compiled, their kernels' objects from the cache,
 * the tables and the run time beside them, linked. The objects are those that the tuner measured,
 * by the same key. What runs before the CPU is known is compiled for the baseline. */
#include "run/run_int.h"

#include <stdlib.h>
#include <string.h>

enum { USUAL_CONTEXT = 4096, SCORE_TOKENS = 128 };

const Bucket usual_bucket = {.usual = USUAL_PROMPT, .most = 512};

/* ---- programs --------------------------------------------------------------------------------- */

static void compile_part(Env *e, const LibraryOptions *o, LibraryPart *part)
{
    Graph *g = qwen2_build(e, o->config, -1, !part->all_rows);
    if (!o->f32) {
        graph_mark_file(o->file, g);
    }
    Compile c = {
        .env = e, .cache = true, .picker = o->picker, .hint = o->hint, .target = o->tc->target};
    if (part->max_tokens == 1) {
        compile_one_token(&c);
    }
    if (o->at_usual_sizes) {
        compile_at_usual_sizes(&c, part->usual_tokens);
    } else {
        part->usual_tokens = part->max_tokens == 1;
    }
    part->program = compile_model(&c, g);
}

/* What the bucket before leaves: those with the same `most` take each other's place. A context of
 * one position leaves nothing. */
static int64_t least_tokens(const LibraryParts *l, int64_t most)
{
    int64_t least = 2;
    for (int i = 1; i < l->n; i++) {
        int64_t before = l->part[i].max_tokens;
        least = before < most ? before + 1 : least;
    }
    return least < most ? least : most;
}

static void add_buckets(Env *e, const LibraryOptions *o, LibraryParts *l)
{
    const Bucket *bucket = o->bucket ? o->bucket : &usual_bucket;
    int n = o->bucket ? o->n_buckets : 1;
    for (int i = 0; i < n; i++) {
        const Bucket *b = &bucket[i];
        int64_t most = b->most < l->o.context ? b->most : l->o.context;
        bool reached = i == 0 || b->most == b[-1].most || b[-1].most < l->o.context;
        if (reached) {
            l->part[l->n] = (LibraryPart){
                .name = n == 1 ? "prefill"
                               : arena_printf(&e->model, "prefill_%lld", (long long)b->usual),
                .min_tokens = least_tokens(l, most),
                .max_tokens = most,
                .usual_tokens = b->usual};
            l->n++;
        }
    }
}

/* One token, prompts by length, rows of logits. */
static void add_parts(Env *e, const LibraryOptions *o, LibraryParts *l)
{
    int64_t score = SCORE_TOKENS < l->o.context ? SCORE_TOKENS : l->o.context;
    l->part = arena_array(&e->model, LibraryPart, (o->bucket ? o->n_buckets : 1) + 2);
    l->part[l->n++] =
        (LibraryPart){.name = "decode", .min_tokens = 1, .max_tokens = 1, .usual_tokens = 1};
    add_buckets(e, o, l);
    l->part[l->n++] = (LibraryPart){.name = "score",
                                    .min_tokens = 1,
                                    .max_tokens = score,
                                    .usual_tokens = usual_bucket.usual,
                                    .all_rows = true};
    for (int i = 0; i < l->n; i++) {
        compile_part(e, o, &l->part[i]);
    }
}

/* Where it lies, whoever asks from wherever. */
static const char *whole_path(Env *e, const char *dir)
{
    char *path = realpath(dir, NULL);
    const char *out = arena_str(&e->model, path ? path : dir);
    free(path);
    return out;
}

static const char *toolchain_text(Env *e, const Toolchain *tc)
{
    Buf b;
    buf_init(&b, &e->model);
    buf_str(&b, tc->version);
    for (int i = 0; i < tc->n_flags; i++) {
        buf_printf(&b, " %s", tc->flags[i]);
    }
    return b.at;
}

void model_library_compile(Env *e, const LibraryOptions *o, ModelLibrary *l)
{
    int64_t most = o->config->max_positions ? o->config->max_positions : USUAL_CONTEXT;
    int64_t context = o->context ? o->context : most < USUAL_CONTEXT ? most : USUAL_CONTEXT;
    if (context > most) {
        fail(e, E_INPUT, "The model has %lld positions, too few for a context of %lld.",
             (long long)most, (long long)context);
    }
    *l = (ModelLibrary){.parts = {.o = *o,
                                  .model = o->dir ? whole_path(e, o->dir) : "",
                                  .toolchain = toolchain_text(e, o->tc),
                                  .buckets = o->buckets_why ? o->buckets_why : "default"}};
    l->parts.o.context = context;
    add_parts(e, o, &l->parts);
    if (o->settle) {
        o->settle(o->ctx, e, &l->parts);
    }
    for (int i = 0; i < l->parts.n; i++) {
        program_regions(e, l->parts.part[i].program);
    }
    tables_make(e, &l->parts, &l->text);
}

/* ---- objects ---------------------------------------------------------------------------------- */

static CSource source(Env *e, const char *what)
{
    CSource s = {.what = what};
    buf_init(&s.text, &e->model);
    return s;
}

/* The files of the library that are not kernels, each complete in itself. */
static void own_sources(Env *e, const ModelLibrary *l, CSource *tables, CSource *runtime,
                        CSource *needs)
{
    *tables = source(e, "the model's tables");
    emit_runtime_header(&tables->text);
    emit_tables(&l->text, &tables->text);
    *runtime = source(e, "the library's run time");
    emit_runtime_header(&runtime->text);
    emit_runtime(&runtime->text);
    *needs = source(e, "the list of instructions");
    emit_needs(&needs->text);
}

/* Written one by one: what one takes meanwhile is the next one's. */
static const CSource *kernel_sources(Env *e, const ModelLibrary *l)
{
    CSource *s = arena_array(&e->model, CSource, l->text.n_kernels);
    for (int i = 0; i < l->text.n_kernels; i++) {
        const Kernel *k = l->text.kernel[i];
        s[i] = source(e, arena_printf(&e->model, "kernel %s", k->symbol));
        emit_kernel(e, k, l->parts.o.tc->target, &s[i].text);
        env_reset_kernel(e);
    }
    return s;
}

void model_library_build(Env *e, ModelLibrary *l)
{
    static const char *const link[] = {"-pthread", "-Wl,-Bsymbolic"};
    const LibraryOptions *o = &l->parts.o;
    const Toolchain *tc = o->tc;
    Cache cache;
    CSource own[3];
    cache_open(e, &cache, NULL);
    cache.stop = o->stop;
    int n = l->text.n_kernels;
    const char **object = arena_array(&e->model, const char *, n + 3);
    Toolchain baseline = toolchain_baseline(e, tc);
    l->source = kernel_sources(e, l);
    own_sources(e, l, &own[0], &own[1], &own[2]);
    cache_sources(e, &cache, tc, l->source, n, o->n_jobs, object);
    cache_sources(e, &cache, &baseline, own, 2, o->n_jobs, object + n);
    cache_sources(e, &cache, tc, own + 2, 1, 1, object + n + 2);
    l->object = object;
    l->path = cache_link(e, &cache, tc, object, n + 3, link, countof(link));
    l->n_built = cache.n_built;
    l->is_new = cache.n_linked > 0;
}

/* ---- the folder that a user gets ---------------------------------------------------------------- */

static bool holds(Env *e, const char *path, const Buf *text)
{
    char *there;
    size_t len;
    struct stat st;
    return !os.stat(path, &st) && (size_t)st.st_size == text->len &&
           os_read_file(&e->kernel, path, text->len, &there, &len, NULL) && len == text->len &&
           !memcmp(there, text->at, len);
}

/* A file that is right already is not written again: that would wait for the disk. */
static void write_text(Env *e, const char *dir, const char *file, const Buf *text)
{
    const char *path = arena_printf(&e->kernel, "%s/%s", dir, file);
    Err err;
    if (!holds(e, path, text) && !os_write_file(path, text->at, text->len, &err)) {
        fail_err(e, &err);
    }
}

/* How all of it is compiled by hand. */
static void put_cc_line(const Toolchain *tc, Buf *out)
{
    buf_str(out, tc->argv[0]);
    for (int i = 1; i < tc->n_argv; i++) {
        buf_printf(out, " %s", tc->argv[i]);
    }
    for (int i = 0; i < tc->n_flags; i++) {
        buf_printf(out, " %s", tc->flags[i]);
    }
    buf_str(out,
            " -D_GNU_SOURCE -pthread -shared -o model.so model.c runtime.c needs.c kernels/*.c "
            "-lm\n");
}

/* The header's own numbers, and which lengths share a program. */
static void put_shape(const nc_facts *f, Buf *out)
{
    buf_printf(out,
               "/* model.h - a model as a library, model.so. A row of logits is %lld floats, "
               "token ids are\n * 0..%lld, positions 0..%lld. Sizes of memory are in bytes. "
               "Tokens at once:\n *\n",
               (long long)f->vocab_size, (long long)f->vocab_size - 1,
               (long long)f->context - 1);
    for (int i = 0; i < f->n_programs; i++) {
        const nc_program *p = &f->program[i];
        buf_printf(out, " *     %-12s %4lld to %4lld, with schedules for %lld\n", p->name,
                   (long long)p->min_tokens, (long long)p->max_tokens,
                   (long long)p->usual_tokens);
    }
    buf_str(out, " *\n * A prompt goes through the first that takes it at once. */\n\n");
}

static void write_sources(Env *e, const ModelLibrary *l, const char *dir)
{
    const nc_facts *f = l->text.tables->facts;
    Buf b;
    buf_init(&b, &e->kernel);
    buf_str(
        &b,
        "/* model.c - the tables of a model's library, and its entry points. This folder "
        "compiles by\n * itself, with cc.txt's line; then what runs before the CPU is known "
        "is compiled for this one too. */\n#include \"runtime.h\"\n\n");
    emit_tables(&l->text, &b);
    write_text(e, dir, "model.c", &b);
    buf_clear(&b);
    emit_runtime_header(&b);
    write_text(e, dir, "runtime.h", &b);
    buf_clear(&b);
    buf_str(&b, "#include \"runtime.h\"\n\n");
    emit_runtime(&b);
    write_text(e, dir, "runtime.c", &b);
    buf_clear(&b);
    emit_needs(&b);
    write_text(e, dir, "needs.c", &b);
    buf_clear(&b);
    put_cc_line(l->parts.o.tc, &b);
    write_text(e, dir, "cc.txt", &b);
    buf_clear(&b);
    put_shape(f, &b);
    emit_api(&b);
    write_text(e, dir, "model.h", &b);
}

/* A sentence may quote what somebody named. */
static const char *text_in_comment(Env *e, const char *text)
{
    char *out = arena_str(&e->kernel, text);
    for (char *at = out; (at = strstr(at, "*/")); at++) {
        *at = ' ';
    }
    return out;
}

/* Where its schedule comes from, and the hash of the C below without names and comments. */
static void put_provenance(Env *e, const ModelLibrary *l, const Kernel *k, Buf *out)
{
    const nc_facts *f = l->text.tables->facts;
    char hash[33];
    int i = 0;
    while (strcmp(f->site[i].kernel, k->symbol)) {
        i++;
    }
    hash_hex(emit_hash(e, k, l->parts.o.tc->target), hash);
    buf_printf(out, "/* %s%s%s\n * hash %s */\n", f->site[i].outcome,
               *f->site[i].why ? ": " : "", text_in_comment(e, f->site[i].why), hash);
}

static void write_kernels(Env *e, const ModelLibrary *l, const char *dir)
{
    for (int i = 0; i < l->text.n_kernels; i++) {
        const Kernel *k = l->text.kernel[i];
        Buf b;
        buf_init(&b, &e->kernel);
        put_provenance(e, l, k, &b);
        buf_bytes(&b, l->source[i].text.at, l->source[i].text.len);
        write_text(e, dir, arena_printf(&e->kernel, "kernels/%s.c", k->symbol), &b);
        env_reset_kernel(e);
    }
}

void model_library_write(Env *e, const ModelLibrary *l, const char *dir)
{
    char *text;
    size_t len;
    Err err;
    const char *slash = strrchr(l->path, '/');
    const char *key = arena_strn(&e->kernel, slash + 1, strlen(slash + 1) - strlen(".so"));
    if (!os_mkdirs(arena_printf(&e->kernel, "%s/kernels", dir), &err)) {
        fail_err(e, &err);
    }
    if (seal_read(&e->kernel, l->path, key, &text, &len) != SEAL_INTACT) {
        fail(e, E_IO, "The library %.700s broke while it was read; build again.", l->path);
    }
    Buf library = {.at = text, .len = len};
    write_text(e, dir, "model.so", &library);
    write_sources(e, l, dir);
    write_kernels(e, l, dir);
}
