/* probe.c - what the C compiler is, and which flags it accepts on this machine.
 *
 * A compiler may accept -march=native and hand its assembler instructions that this refuses.
 * So the flags are tried once on a text that provokes them: compiled, assembled and linked.
 * The answer is kept in the cache under all it depends on (the programs' paths, sizes and
 * times, the wanted flags, the machine), and a later start runs no compiler at all. */
#include "run/run_int.h"

#include <stdlib.h>
#include <string.h>

/* ---- asking ----------------------------------------------------------------------------- */

/* Provokes what kernels may: wide float loops, conversions, and the int8 dot product, whose
 * instruction older assemblers lack. */
static const char probe_text[] =
    "#include <math.h>\n"
    "#include <stdint.h>\n"
    "void nc_axpy(float *restrict y, const float *restrict x, float a, int64_t n)\n"
    "{ for (int64_t i = 0; i < n; i++) y[i] = y[i] + a * x[i]; }\n"
    "void nc_cast(int32_t *restrict y, const float *restrict x, int64_t n)\n"
    "{ for (int64_t i = 0; i < n; i++) y[i] = (int32_t)sqrtf(x[i]); }\n"
    "int32_t nc_dot(const uint8_t *restrict a, const int8_t *restrict b, int64_t n)\n"
    "{ int32_t s = 0; for (int64_t i = 0; i < n; i++) s += a[i] * b[i]; return s; }\n";

enum { MAX_MARCH = 3 };
typedef struct March {
    const char *masked_to; /* NANOCOMPILE_CPU; NULL: not masked */
    Feature needs;         /* where masked */
    const char *flag[MAX_MARCH];
} March;

/* Tried from the top; the last row is what is left when nothing else works. */
static const March marches[] = {
    {NULL, 0, {"-march=native"}},
    {NULL, 0, {"-march=native", "-mno-avx512vnni", "-mno-avxvnni"}},
    {"avx2", FEAT_AVX2, {"-march=x86-64-v3"}},
    {"sse4.2", FEAT_SSE42, {"-march=x86-64-v2"}},
    {NULL, 0, {NULL}},
};
enum { LAST_MARCH = countof(marches) - 1 };

static bool march_fits(const March *m, const Machine *machine)
{
    const char *mask = getenv("NANOCOMPILE_CPU");
    mask = mask && mask[0] ? mask : NULL;
    if (!m->masked_to || !mask) {
        return m->masked_to == mask;
    }
    return strcmp(m->masked_to, mask) == 0 && machine->feature[m->needs];
}

static void set_flags(Env *e, Toolchain *tc, const March *m)
{
    Vec(const char *) flags = {0};
    for (int i = 0; emit_flags[i]; i++) {
        *vec_push(&e->model, &flags) = emit_flags[i];
    }
    *vec_push(&e->model, &flags) = "-pipe"; /* no files of its own that a kill would leave */
    for (int i = 0; i < MAX_MARCH && m->flag[i]; i++) {
        *vec_push(&e->model, &flags) = m->flag[i];
    }
    tc->flags = flags.at;
    tc->n_flags = flags.n;
}

static void read_version(Env *e, Toolchain *tc)
{
    char **argv = arena_array(&e->kernel, char *, tc->n_argv + 2);
    memcpy(argv, tc->argv, sizeof *argv * (size_t)tc->n_argv);
    argv[tc->n_argv] = arena_str(&e->kernel, "--version");
    Job job = job_new(e, argv);
    int which;
    Err err;
    if (!jobs_run(&job, 1, 1, tc, NULL, &which, &err)) {
        toolchain_fail(e, tc, &job, "--version", "; set CC to a working compiler", &err);
    }
    tc->version = arena_strn(&e->model, job.said, strcspn(job.said, "\n"));
}

typedef struct Probe {
    Toolchain *tc;
    const char *c, *lib; /* files of the scratch folder */
    Job job;
    Err err;
    bool ok;
} Probe;

static void try_march(Env *e, Probe *p, const March *m)
{
    set_flags(e, p->tc, m);
    /* The probe's plain loops reach the instructions it asks about only as vectors. */
    const char *const more[] = {"-ftree-vectorize", "-shared", "-o", p->lib, p->c, "-lm"};
    p->job = job_new(e, toolchain_argv(e, p->tc, more, countof(more)));
    int which;
    struct stat st;
    p->ok = jobs_run(&p->job, 1, 1, p->tc, NULL, &which, &p->err);
    if (p->ok && os.stat(p->lib, &st) != 0) {
        p->ok = err_set(&p->err, E_BUILD, "wrote no file");
    }
}

typedef struct ProbeAll {
    Probe probe;
    const Machine *machine;
    int march; /* the row that works */
} ProbeAll;

static void try_marches(Env *e, void *arg)
{
    ProbeAll *a = arg;
    if (!os_write_file(a->probe.c, probe_text, strlen(probe_text), &e->err)) {
        fail_err(e, &e->err);
    }
    for (a->march = 0; a->march <= LAST_MARCH; a->march++) {
        if (a->march == LAST_MARCH || march_fits(&marches[a->march], a->machine)) {
            try_march(e, &a->probe, &marches[a->march]);
            if (a->probe.ok) {
                return;
            }
        }
    }
    toolchain_fail(e, a->probe.tc, &a->probe.job, "a small test file",
                   "; set CC to a working compiler", &a->probe.err);
}

static int probe(Env *e, Toolchain *tc, const Machine *machine)
{
    read_version(e, tc);
    const char *tmp = getenv("TMPDIR");
    Err err;
    const char *dir = scratch_make(e, tmp && tmp[0] ? tmp : "/tmp", &err);
    if (!dir) {
        fail(e, err.code, "%s Set TMPDIR to a directory that can be written.", err.text);
    }
    const char *const files[] = {"probe.c", "probe.so"};
    ProbeAll all = {
        .probe = {.tc = tc,
                  .c = arena_printf(&e->kernel, "%s/%s", dir, files[0]),
                  .lib = arena_printf(&e->kernel, "%s/%s", dir, files[1])},
        .machine = machine,
    };
    bool ok = env_try(e, try_marches, &all);
    scratch_remove(dir, files, countof(files));
    if (!ok) {
        fail_err(e, &e->err);
    }
    return all.march;
}

/* ---- the answer, kept ------------------------------------------------------------------- */

static void stamp(Env *e, Buf *b, const char *word)
{
    const char *path = program_find(e, word);
    struct stat st;
    if (path && os.stat(path, &st) == 0) {
        buf_printf(b, "%s %lld %lld.%09ld\n", path, (long long)st.st_size,
                   (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
    }
}

/* All that the probe's answer depends on, as far as it can be seen without running anything. */
static const char *probe_key(Env *e, const Toolchain *tc, const char *isa)
{
    Buf b;
    buf_init(&b, &e->kernel);
    for (int i = 0; i < tc->n_argv; i++) {
        buf_printf(&b, "%s\n", tc->argv[i]);
        stamp(e, &b, tc->argv[i]);
    }
    stamp(e, &b, "as");
    stamp(e, &b, "ld");
    const char *mask = getenv("NANOCOMPILE_CPU");
    buf_printf(&b, "%s\n%s\n%s\n", mask ? mask : "", isa, probe_text);
    for (int i = 0; emit_flags[i]; i++) {
        buf_printf(&b, "%s\n", emit_flags[i]);
    }
    char *key = arena_alloc(&e->kernel, 33);
    hash_hex(hash_bytes(b.at, b.len), key);
    return key;
}

/* The row, and tc->version; -1: nothing usable is stored. */
static int recall(Env *e, Toolchain *tc, const char *file, const char *key)
{
    char *text;
    size_t len;
    if (seal_read(&e->kernel, file, key, &text, &len) != SEAL_INTACT) {
        return -1;
    }
    char *version;
    long row = strtol(text, &version, 10);
    if (row < 0 || row > LAST_MARCH || *version != ' ') {
        return -1;
    }
    tc->version = arena_strn(&e->model, version + 1, (size_t)(text + len - version - 1));
    return (int)row;
}

void toolchain_probe(Env *e, Toolchain *tc, const Machine *machine, const char *isa)
{
    const char *key = probe_key(e, tc, isa), *dir = cache_default_dir(e);
    const char *folder = dir ? arena_printf(&e->kernel, "%s/cc", dir) : NULL;
    const char *file = dir ? arena_printf(&e->kernel, "%s/%s", folder, key) : NULL;
    int row = file ? recall(e, tc, file, key) : -1;
    if (row < 0) {
        row = probe(e, tc, machine);
        const char *text = arena_printf(&e->kernel, "%d %s", row, tc->version);
        if (file && os_mkdirs(folder, NULL)) { /* if not kept: probed again next time */
            seal_write(&e->kernel, file, key, text, strlen(text), NULL);
        }
    }
    set_flags(e, tc, &marches[row]);
}
