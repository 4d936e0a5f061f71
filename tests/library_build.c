/* library_build.c - what a built library is: one plan without overlaps, the measured objects' machine
 * code, C that compiles by itself, facts that can be counted, and one clear sentence for everything
 * that it refuses. */
#include "tests/library_util.h"

#include "schedules/schedules.h"
#include "tests/child_util.h"
#include "tests/cli_util.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

TestSuite(library_build, .timeout = 600);

static TestModel model;
static TestLibrary library;
static Picker defaults;
static const Bucket bucket[] = {
    {4, 4}, {16, 20}, {64, 512}, {600, 700}}; /* the last: too long */

static void open_library(void)
{
    test_model_open(&model, TINY);
    defaults = picker_default();
    library = (TestLibrary){.picker = &defaults,
                            .context = 96,
                            .bucket = bucket,
                            .n_buckets = (int)countof(bucket)};
    library_open_test(&library, &model);
}

static void close_library(void)
{
    built_model_close(&library.built);
    test_model_close(&model);
}

/* ---- the plan ---- */

static bool alive_together(const Buffer *a, const Buffer *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static void no_overlap(const LibraryPart *part)
{
    const Program *p = part->program;
    for (int i = 0; i < p->buffer.n; i++) {
        for (int k = 0; k < i; k++) {
            int64_t a = part->plan.offset[i], b = part->plan.offset[k];
            bool apart =
                a < 0 || b < 0 || a + part->plan.bytes[i] <= b || b + part->plan.bytes[k] <= a;
            cr_assert(apart || !alive_together(&p->buffer.at[i], &p->buffer.at[k]),
                      "%s: buffers %d and %d share memory", part->name, i, k);
        }
    }
}

/* Every buffer has room at every size that a step can have. */
static void room_at_every_size(const LibraryPart *part, int64_t context)
{
    Sym seq = sym_intern(&model.e, "seq", 3), past = sym_intern(&model.e, "past", 4);
    int64_t size[MAX_SYMBOLS] = {0};
    size[sym_intern(&model.e, "capacity", 8)] = context;
    for (size[seq] = 1; size[seq] <= part->max_tokens; size[seq]++) {
        for (size[past] = 0; size[past] + size[seq] <= context; size[past]++) {
            for (int i = 0; i < part->program->buffer.n; i++) {
                const Buffer *b = &part->program->buffer.at[i];
                int64_t bytes = dim_value(b->count, size) * dtype_bytes(b->dtype);
                cr_assert(part->plan.offset[i] < 0 || bytes <= part->plan.bytes[i]);
            }
        }
    }
}

Test(library_build, no_two_live_temporaries_share_memory, .init = open_library,
     .fini = close_library)
{
    const LibraryParts *p = &library.made.parts;
    cr_assert_eq(p->n, 5);
    for (int i = 0; i < p->n; i++) {
        no_overlap(&p->part[i]);
        room_at_every_size(&p->part[i], p->o.context);
    }
}

/* ---- facts ---- */

Test(library_build, its_info_counts_calls_joins_and_bytes, .init = open_library,
     .fini = close_library)
{
    const nc_facts *f = library.built.facts;
    cr_assert_eq(f->n_programs, 5);
    cr_assert_eq(f->context, 96);
    cr_assert_eq(f->vocab_size, model.c.vocab_size);
    cr_assert_eq(f->cache_bytes, 2 * 4 * 2 * 96 * 16 * 4);
    int n_sites = 0;
    for (int i = 0; i < f->n_programs; i++) {
        const nc_program *p = &f->program[i];
        cr_assert_eq(p->n_calls, 57);
        cr_assert_leq(p->n_joins, p->n_calls);
        cr_assert_eq(p->bytes_last - p->bytes_first, 95 * 1920, "%s", p->name);
        cr_assert_leq(p->arena_bytes, f->arena_bytes);
        n_sites += p->n_calls;
    }
    cr_assert_eq(f->n_sites, n_sites);
    int64_t bytes = 0, panels = 0;
    for (int i = 0; i < f->n_layouts; i++) {
        const nc_layout *l = &f->layout[i];
        bytes += l->bytes;
        panels += *l->fill ? l->bytes : 0;
        cr_assert(!strncmp(l->weight, "model.", 6) && l->bytes > 0, "%s", l->weight);
    }
    cr_assert_eq(bytes, f->weight_bytes);
    cr_assert_eq(panels, f->panel_bytes);
    cr_assert_str_eq(f->site[14].site, "layers.0.mlp.gate_proj+up_proj matmul+epilogue");
}

Test(library_build, its_info_says_which_lengths_each_program_is_for, .init = open_library,
     .fini = close_library)
{
    static const struct {
        const char *name;
        int64_t min, max, usual;
    } want[] = {{"decode", 1, 1, 1},
                {"prefill_4", 2, 4, 4},
                {"prefill_16", 5, 20, 16},
                {"prefill_64", 21, 96, 64},
                {"score", 1, 96, 64}};
    const nc_facts *f = library.built.facts;
    cr_assert_eq(f->n_programs, (int)countof(want));
    for (size_t i = 0; i < countof(want); i++) {
        const nc_program *p = &f->program[i];
        cr_assert_str_eq(p->name, want[i].name);
        cr_assert_eq(p->min_tokens, want[i].min, "%s", p->name);
        cr_assert_eq(p->max_tokens, want[i].max, "%s", p->name);
        cr_assert_eq(p->usual_tokens, want[i].usual, "%s", p->name);
    }
    cr_assert_str_eq(f->buckets, "default");
}

Test(library_build, a_context_of_one_position_has_no_program_for_more_tokens_than_it_takes)
{
    TestLibrary one = {.context = 1};
    test_model_open(&model, TINY);
    library_tables_test(&one, &model);
    const nc_facts *f = one.made.text.tables->facts;
    for (int i = 0; i < f->n_programs; i++) {
        cr_expect_leq(f->program[i].min_tokens, f->program[i].max_tokens, "%s",
                      f->program[i].name);
    }
    test_model_close(&model);
}

/* ---- machine code ---- */

typedef struct Elf {
    char *file;
    const Elf64_Shdr *section;
    const Elf64_Ehdr *head;
} Elf;

static Elf read_elf(Env *e, const char *path)
{
    size_t len;
    Elf x;
    Err err;
    cr_assert(os_read_file(&e->model, path, 1 << 28, &x.file, &len, &err), "%s", err.text);
    x.head = (const Elf64_Ehdr *)x.file;
    x.section = (const Elf64_Shdr *)(x.file + x.head->e_shoff);
    return x;
}

static const Elf64_Sym *find_symbol(const Elf *x, const char *name)
{
    for (int i = 0; i < x->head->e_shnum; i++) {
        const Elf64_Shdr *s = &x->section[i];
        const Elf64_Sym *sym = (const Elf64_Sym *)(x->file + s->sh_offset);
        for (size_t k = 0; s->sh_type == SHT_SYMTAB && k < s->sh_size / sizeof *sym; k++) {
            const char *names = x->file + x->section[s->sh_link].sh_offset;
            if (!strcmp(names + sym[k].st_name, name)) {
                return &sym[k];
            }
        }
    }
    return NULL;
}

/* Which bytes of this section the linker fills in: 4 each, 8 for absolute addresses. */
static void mark_relocations(const Elf *x, int section, bool *filled)
{
    for (int i = 0; i < x->head->e_shnum; i++) {
        const Elf64_Shdr *s = &x->section[i];
        const Elf64_Rela *r = (const Elf64_Rela *)(x->file + s->sh_offset);
        bool its = s->sh_type == SHT_RELA && (int)s->sh_info == section;
        for (size_t k = 0; its && k < s->sh_size / sizeof *r; k++) {
            memset(filled + r[k].r_offset, true, 8);
        }
    }
}

static void same_code(const Kernel *k, const char *object, void *handle)
{
    Elf x = read_elf(&model.e, object);
    const Elf64_Sym *s = find_symbol(&x, k->symbol);
    const unsigned char *linked = dlsym(handle, k->symbol);
    cr_assert(s && linked, "%s is missing", k->symbol);
    const Elf64_Shdr *text = &x.section[s->st_shndx];
    bool *filled = arena_array(&model.e.model, bool, text->sh_size + 8);
    mark_relocations(&x, s->st_shndx, filled);
    const unsigned char *built = (const unsigned char *)x.file + text->sh_offset + s->st_value;
    size_t n_same = 0;
    for (size_t i = 0; i < s->st_size; i++) {
        cr_assert(filled[s->st_value + i] || built[i] == linked[i], "%s: byte %zu differs",
                  k->symbol, i);
        n_same += !filled[s->st_value + i];
    }
    cr_assert_gt(n_same, s->st_size / 2);
}

Test(library_build, its_machine_code_is_that_of_the_cached_objects, .init = open_library,
     .fini = close_library)
{
    const LibraryText *t = &library.made.text;
    cr_assert_gt(t->n_kernels, 18);
    for (int i = 0; i < t->n_kernels; i++) {
        same_code(t->kernel[i], library.made.object[i], library.built.handle);
    }
}

/* ---- the folder ---- */

Test(library_build, its_c_compiles_by_itself_without_a_warning_and_gives_the_same_bits,
     .init = open_library, .fini = close_library)
{
    TempDir d = temp_dir();
    BuiltModel again;
    Ids ids = heldout_ids(&model.e, 20);
    library_write_test(&library, d.path);
    library_compile_folder(&model.e, d.path, NULL,
                           "-Wall -Wextra -Wshadow -Wstrict-prototypes");
    const float *want = library_feed(&library, ids.at, 20, true);
    built_model_load(&model.e, &again, temp_path(&d, "model.so"));
    built_model_open(&model.e, &again, NULL);
    const float *got;
    Err err;
    cr_assert(again.stepper.feed(&again.stepper, ids.at, 20, true, &got, &err), "%s", err.text);
    cr_assert(!memcmp(got, want, (size_t)(20 * model.c.vocab_size) * sizeof *got));
    built_model_close(&again);
    temp_remove(&d);
}

Test(library_build, a_library_for_another_cpu_says_so, .init = open_library,
     .fini = close_library)
{
#if defined __x86_64__
    TempDir d = temp_dir();
    BuiltModel other;
    nc_error why;
    library_write_test(&library, d.path);
    library_compile_folder(&model.e, d.path, NULL,
                           "-D__XOP__ -D__TBM__"); /* no CPU has them any more */
    void *handle = dlopen(temp_path(&d, "model.so"), RTLD_NOW);
    nc_model *(*open)(const nc_options *, nc_error *) =
        (nc_model * (*)(const nc_options *, nc_error *)) dlsym(handle, "nc_open");
    cr_assert_null(open(NULL, &why));
    cr_assert_eq(why.code, NC_CPU);
    cr_assert_str_eq(why.text,
                     "The library was built for another CPU: this one lacks xop, tbm; "
                     "build it again here.");
    built_model_load(&model.e, &other, temp_path(&d, "model.so"));
    cr_assert_eq(other.facts->vocab_size, model.c.vocab_size, "nc_info answers all the same");
    built_model_close(&other);
    dlclose(handle);
    temp_remove(&d);
#else
    cr_skip_test("the instructions named here are x86's");
#endif
}

/* ---- what is refused ---- */

static void feed_refused(const int32_t *ids, int n, bool all, const char *sentence)
{
    Stepper *s = &library.built.stepper;
    const float *logits;
    Err err;
    cr_assert_not(s->feed(s, ids, n, all, &logits, &err));
    cr_assert_str_eq(err.text, sentence);
}

Test(library_build, bad_feeds_are_one_clear_sentence, .init = open_library,
     .fini = close_library)
{
    int32_t low = -1, high = (int32_t)model.c.vocab_size, fine[97] = {0};
    feed_refused(fine, 0, false, "There are no tokens to feed.");
    feed_refused(fine, 0, true, "There are no tokens to feed.");
    feed_refused(&low, 1, false, "Token -1 is outside the model's vocabulary, 0..2047.");
    feed_refused(&high, 1, true, "Token 2048 is outside the model's vocabulary, 0..2047.");
    feed_refused(fine, 97, false, "The context holds 96 tokens, too few for 97 behind 0.");
    library_feed(&library, fine, 96, false);
    feed_refused(fine, 1, false, "The context holds 96 tokens, too few for 1 behind 96.");
    library.built.stepper.n_fed = 97;
    feed_refused(fine, 1, false, "Position 97 is not reached yet: 96 tokens were fed.");
}

Test(library_build, a_failed_feed_leaves_what_was_fed, .init = open_library,
     .fini = close_library)
{
    Ids ids = heldout_ids(&model.e, 30);
    int32_t bad = -1;
    int64_t v = model.c.vocab_size;
    library_feed(&library, ids.at, 20, false);
    float *want = arena_dup(&model.e.model, library_feed(&library, &ids.at[20], 10, false),
                            (size_t)v * sizeof *want);
    library.built.stepper.n_fed = 20; /* back: what stood behind is forgotten */
    feed_refused(&bad, 1, false, "Token -1 is outside the model's vocabulary, 0..2047.");
    const float *got = library_feed(&library, &ids.at[20], 10, false);
    cr_assert(!memcmp(got, want, (size_t)v * sizeof *got));
}

static void copy_model(const TempDir *d, Env *e)
{
    char *text;
    size_t len;
    Err err;
    cr_assert(os_read_file(&e->model, TINY "/model.safetensors", 1 << 28, &text, &len, &err));
    cr_assert(os_write_file(temp_path(d, "model.safetensors"), text, len, &err));
}

static void change_byte(const char *path, long at, char to)
{
    FILE *f = fopen(path, "r+b");
    cr_assert(f && !fseek(f, at, at < 0 ? SEEK_END : SEEK_SET));
    cr_assert_eq(fputc(to, f), to);
    cr_assert_eq(fclose(f), 0);
}

static void open_refused(const char *folder, nc_code code, const char *words)
{
    nc_model *(*open)(const nc_options *, nc_error *) =
        (nc_model * (*)(const nc_options *, nc_error *)) dlsym(library.built.handle, "nc_open");
    nc_error why;
    nc_model *m = open(&(nc_options){.weights = folder}, &why);
    cr_assert_null(m);
    cr_assert_eq(why.code, code);
    cr_assert(strstr(why.text, words), "%s", why.text);
    cr_assert(strchr(why.text, '.') && !strchr(why.text, '\n'));
}

Test(library_build, other_weights_than_it_was_built_for_are_refused, .init = open_library,
     .fini = close_library)
{
    TempDir d = temp_dir();
    const char *path = arena_str(&model.e.model, temp_path(&d, "model.safetensors"));
    open_refused(d.path, NC_FILE, "No such file");
    copy_model(&d, &model.e);
    change_byte(path, -1, 'x');
    open_refused(d.path, NC_FILE, "its bytes have changed; build it again.");
    copy_model(&d, &model.e);
    change_byte(path, 20, 'x');
    open_refused(d.path, NC_FILE, "its bytes have changed; build it again.");
    copy_model(&d, &model.e);
    cr_assert_eq(truncate(path, 1000), 0);
    open_refused(d.path, NC_FILE, "its length is another; build it again.");
    temp_remove(&d);
}

Test(library_build, the_commands_build_and_run_it)
{
    TempDir d = temp_dir();
    Env e;
    env_init(&e);
    const char *out = arena_printf(&e.model, "%s/tiny", d.path);
    const char *so = arena_printf(&e.model, "%s/model.so", out);
    shows(NC(&e, "build", "--model", TINY, "-o", out, "--no-db"), "3 programs");
    Ran plain = NC(&e, "perplexity", "--model", TINY, "--by", "c", "--tokens", "200", "--text",
                   TINY "/heldout.txt");
    Ran built =
        NC(&e, "perplexity", "--lib", so, "--tokens", "200", "--text", TINY "/heldout.txt");
    cr_assert(!strncmp(built.out, plain.out, strlen("perplexity 203.09")), "%s", built.out);
    shows(NC(&e, "run", "--lib", so, "--raw", "--prompt", "Once upon", "--max-tokens", "3"),
          "3 tokens");
    shows(NC(&e, "build", "--model", TINY, "-o", out, "--no-db", "--pack-file"),
          "tiny/model.pack: 4.3 MB written for the next start.");
    Ran packed = NC(&e, "perplexity", "--lib", so, "--tokens", "200", "--text",
                    TINY "/heldout.txt", "--pack-copy");
    cr_assert_str_eq(packed.out, built.out);
    refused(NC(&e, "bench", "--lib", so, "--vs", so, "--pack-file=x"), 2,
            "each library has its own");
    refused(NC(&e, "run", "--lib", so, "--naive", "--prompt", "x"), 2,
            "--lib runs what was built");
    refused(NC(&e, "run", "--lib", TINY "/config.json", "--prompt", "x"), 1,
            "cannot be loaded");
    refused(NC(&e, "build", "--model", TINY), 2, "--output DIR");
    refused(NC(&e, "build", "--model", TINY, "-o", out, "--no-db", "--context", "4096"), 1,
            "too few for a context of 4096");
    env_release(&e);
    temp_remove(&d);
}
