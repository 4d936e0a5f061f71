/* weights.c - `nanocompile dump weights`: the tensors of a file, of a sharded index or of a
 * model folder, with type, shape and range. Opening checks every rule of the format; a
 * folder's config.json says which tensors there should be, and every difference is listed. */
#include <string.h>

#include "cli/cli.h"

enum { MOST_NAME_BYTES = 200 };

/* A name as a listing can show it: escaped as in JSON, cut where it is absurdly long. */
static const char *shown_name(Env *e, const FileTensor *t)
{
    Buf b;
    bool cut = t->name_len > MOST_NAME_BYTES;
    buf_init(&b, &e->kernel);
    buf_json(&b, t->name, cut ? MOST_NAME_BYTES : t->name_len);
    b.at[b.len - 1] = '\0'; /* without the quotes */
    return cut ? arena_printf(&e->kernel, "%s... (%zu bytes)", b.at + 1, t->name_len)
               : b.at + 1;
}

static const char *shape_of_tensor(Env *e, const FileTensor *t)
{
    Buf b;
    buf_init(&b, &e->kernel);
    buf_char(&b, '[');
    for (int i = 0; i < t->rank && i < MAX_RANK; i++) {
        buf_printf(&b, i ? ", %lld" : "%lld", (long long)t->dim[i]);
    }
    if (t->rank > MAX_RANK) {
        buf_printf(&b, ", ... %d dimensions", t->rank);
    }
    buf_char(&b, ']');
    return b.at;
}

static const char *file_name(const Checkpoint *c, const FileTensor *t)
{
    const char *path = c->shards.at[t->shard].path, *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A number, or nothing where it is not known. */
static void real_cell(Table *t, bool known, double v)
{
    char text[32] = "";
    snprintf(text, known ? sizeof text : 1, "%.9g", v);
    table_cell(t, "%s", text);
}

static void count_cell(Table *t, bool known, int64_t n)
{
    char text[32] = "";
    snprintf(text, known ? sizeof text : 1, "%lld", (long long)n);
    table_cell(t, "%s", text);
}

static void tensor_row(Env *e, const Checkpoint *c, const FileTensor *t, Table *table)
{
    Range r = file_tensor_range(t);
    bool some = r.known && r.min <= r.max; /* a finite element */
    table_cell(table, "%s", shown_name(e, t));
    table_cell(table, "%s", file_dtype_name(t->dtype));
    table_cell(table, "%s", shape_of_tensor(e, t));
    table_cell(table, "%llu", (unsigned long long)(t->end - t->begin));
    real_cell(table, some, r.min);
    real_cell(table, some, r.max);
    count_cell(table, r.known, r.n_nan);
    count_cell(table, r.known, r.n_inf);
    table_cell(table, "%s", file_name(c, t));
}

static void list_tensors(Env *e, const Checkpoint *c, Format format, Buf *out)
{
    static const char *const columns[] = {"tensor", "dtype", "shape", "#bytes", "#min",
                                          "#max",   "#nan",  "#inf",  "file"};
    Table table;
    unsigned long long n_bytes = 0;
    table_init(&table, &e->kernel, "tensors", countof(columns), columns);
    for (int i = 0; i < c->tensors.n; i++) {
        tensor_row(e, c, &c->tensors.at[i], &table);
        n_bytes += c->tensors.at[i].end - c->tensors.at[i].begin;
    }
    table_print(&table, format, out);
    if (format == FORMAT_TEXT) {
        buf_printf(out, "%d tensor%s, %llu bytes, in %d file%s.\n", c->tensors.n,
                   c->tensors.n == 1 ? "" : "s", n_bytes, c->shards.n,
                   c->shards.n == 1 ? "" : "s");
    }
}

/* The listing comes first, then all that does not fit, a line each. */
static void compare_with_config(Env *e, const Checkpoint *c, const char *folder, Buf *out)
{
    Config config = config_read(e, folder);
    Match m;
    weights_match(e, &config, c, &m);
    int n = m.n_missing + m.n_unexpected + m.n_unfit;
    cli_flush(out);
    if (n) {
        fputs(m.report, stderr);
        fail(e, E_INPUT, "%s does not fit %s: %d tensor%s differ, as listed.", c->path,
             config.path, n, n == 1 ? "" : "s");
    }
    if (m.note) {
        fprintf(stderr, "%s\n", m.note);
    }
}

typedef struct Listing {
    const char *path;
    Format format;
    Buf *out;
    Checkpoint c;
} Listing;

static void list(Env *e, void *arg)
{
    Listing *l = arg;
    struct stat st;
    checkpoint_open(e, &l->c, l->path);
    list_tensors(e, &l->c, l->format, l->out);
    if (!os.stat(arena_printf(&e->kernel, "%s/config.json", l->path), &st)) {
        compare_with_config(e, &l->c, l->path, l->out);
    }
}

static void close_files(void *arg)
{
    checkpoint_release(&((Listing *)arg)->c);
}

void dump_weights(Env *e, const char *path, Format format, Buf *out)
{
    Listing l = {.path = path, .format = format, .out = out};
    env_finally(e, list, close_files, &l);
}
