/* safetensors.c - a model's files, mapped: one file, or shards named by an index.
 *
 * Tensors are handed out as pointers into the mappings. The index is as untrusted as the files:
 * a shard must be a plain file name beside it, and each tensor must be where the index says.
 * Needs: header.c for the format. Keeps: mappings until checkpoint_release; a failure on the
 * way releases them first. */
#include "model/model_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_INDEX_BYTES (32 << 20) /* published ones have up to 9 MB */

/* ---- mapping ----------------------------------------------------------------------- */

/* False fills err. An empty file has no mapping. */
static bool map_file(Shard *shard, Err *err)
{
    int fd = os.open(shard->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (fd < 0) {
        return err_set(err, E_IO, "%s: %s.", shard->path, strerror(errno));
    }
    struct stat st;
    bool ok = os.fstat(fd, &st) == 0;
    if (!ok) {
        err_set(err, E_IO, "%s: %s.", shard->path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        ok = err_set(err, E_IO, "%s is not a regular file.", shard->path);
    } else if (st.st_size > 0) {
        void *p = os.mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        ok = p != MAP_FAILED;
        if (ok) {
            shard->map = p;
            shard->n_bytes = (size_t)st.st_size;
        } else {
            err_set(err, E_IO, "%s cannot be mapped: %s.", shard->path, strerror(errno));
        }
    }
    os.close(fd);
    return ok;
}

void pages_drop(const void *p, size_t n_bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    uintptr_t from = (uintptr_t)p & ~page, to = ((uintptr_t)p + n_bytes) & ~page;
    if (to > from) {
        os.madvise((void *)from, to - from, MADV_DONTNEED);
    }
}

void checkpoint_release(Checkpoint *c)
{
    for (int i = 0; i < c->shards.n; i++) {
        if (c->shards.at[i].map) {
            os.munmap((void *)c->shards.at[i].map, c->shards.at[i].n_bytes);
        }
    }
    *c = (Checkpoint){0};
}

/* Names are bytes with a length. Sorted, not hashed: no file can choose names that collide. */
static int compare_names(const FileTensor *a, const FileTensor *b)
{
    size_t n = a->name_len < b->name_len ? a->name_len : b->name_len;
    int order = memcmp(a->name, b->name, n);
    return order ? order : (a->name_len > b->name_len) - (a->name_len < b->name_len);
}

static int by_name(const void *a, const void *b)
{
    return compare_names(*(const FileTensor *const *)a, *(const FileTensor *const *)b);
}

const FileTensor *checkpoint_find(const Checkpoint *c, const char *name)
{
    const FileTensor key = {.name = name, .name_len = strlen(name)}, *p = &key;
    const FileTensor **at = c->tensors.n ? bsearch(&p, c->by_name, (size_t)c->tensors.n,
                                                   sizeof *c->by_name, by_name)
                                         : NULL;
    return at ? *at : NULL;
}

int64_t file_tensor_count(const FileTensor *t)
{
    return (int64_t)((t->end - t->begin) * 8 / (uint64_t)file_dtype_bits(t->dtype));
}

void file_tensor_print(Env *e, const FileTensor *t, Buf *out)
{
    buf_printf(out, "%s %s[", quoted(e, t->name, t->name_len), file_dtype_name(t->dtype));
    for (int i = 0; i < t->rank && i < MAX_RANK; i++) {
        buf_printf(out, "%s%lld", i ? ", " : "", (long long)t->dim[i]);
    }
    if (t->rank > MAX_RANK) {
        buf_printf(out, ", ... %d dimensions", t->rank);
    }
    buf_char(out, ']');
}

/* ---- shards ------------------------------------------------------------------------ */

/* Maps one more file and takes its tensors in. */
static void add_shard(Env *e, Checkpoint *c, const char *path)
{
    Shard *shard = vec_push(&e->model, &c->shards);
    *shard = (Shard){.path = path};
    Err err;
    if (!map_file(shard, &err)) {
        fail_err(e, &err);
    }
    FileTensors list;
    shard->header_bytes = safetensors_parse(e, shard->map, shard->n_bytes, path, &list);
    for (int i = 0; i < list.n; i++) {
        list.at[i].shard = c->shards.n - 1;
        *vec_push(&e->model, &c->tensors) = list.at[i];
    }
}

static void index_names(Env *e, Checkpoint *c)
{
    int n = c->tensors.n;
    c->by_name = arena_array(&e->model, const FileTensor *, n);
    for (int i = 0; i < n; i++) {
        c->by_name[i] = &c->tensors.at[i];
    }
    if (n > 1) {
        qsort(c->by_name, (size_t)n, sizeof *c->by_name, by_name);
    }
    for (int i = 1; i < n; i++) {
        const FileTensor *a = c->by_name[i - 1], *b = c->by_name[i];
        if (compare_names(a, b) == 0) {
            fail(e, E_SYNTAX, "%s: tensor %s is in %s too.", c->shards.at[b->shard].path,
                 quoted(e, b->name, b->name_len), c->shards.at[a->shard].path);
        }
    }
}

/* Why a shard's name is refused, or NULL. It must be a plain name beside the index. */
static const char *shard_fault(const char *name, size_t len)
{
    if (len == 0) {
        return "is empty";
    }
    if (strlen(name) != len) {
        return "holds a NUL";
    }
    if (name[0] == '/') {
        return "is an absolute path";
    }
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strncmp(name, "../", 3) == 0 ||
        strstr(name, "/../")) {
        return "is path traversal out of the folder";
    }
    return strchr(name, '/') ? "is not a plain file name" : NULL;
}

typedef struct Index {
    Checkpoint *c;
    Map shards; /* hash of a name -> its Shard path, each once */
    Vec(const char *) paths;
    Buf faults;
} Index;

static const char *beside(Env *e, const char *file, const char *name)
{
    const char *slash = strrchr(file, '/');
    int n = slash ? (int)(slash + 1 - file) : 0;
    return arena_printf(&e->model, "%.*s%s", n, file, name);
}

/* One member of weight_map: remembers the shard, or notes what is wrong with it. */
static void add_member(Env *e, Index *x, const char *file, const char *tensor, json_t *v)
{
    const char *name = json_string_value(v);
    size_t len = json_string_length(v);
    const char *fault = name ? shard_fault(name, len) : "is not a string";
    Hash h = name ? hash_bytes(name, len) : (Hash){0};
    if (!fault && !map_get(&x->shards, h)) {
        const char *path = beside(e, file, name);
        struct stat st;
        if (os.stat(path, &st) == 0) {
            *vec_push(&e->model, &x->paths) = path;
            map_put(&x->shards, h, (void *)path);
        } else {
            fault = "is a missing shard";
        }
    }
    if (fault) {
        buf_printf(&x->faults, "%s%s of %s %s", x->faults.len ? "; " : "",
                   name ? quoted(e, name, len) : "the value", quoted(e, tensor, strlen(tensor)),
                   fault);
    }
}

/* Every tensor must be in the shard that the index names. */
static void check_members(Env *e, Index *x, const char *file, json_t *weight_map)
{
    const char *tensor;
    json_t *v;
    json_object_foreach (weight_map, tensor, v) {
        const FileTensor *t = checkpoint_find(x->c, tensor);
        const char *want =
            map_get(&x->shards, hash_bytes(json_string_value(v), json_string_length(v)));
        if (!t || x->c->shards.at[t->shard].path != want) {
            fail(e, E_SYNTAX,
                 "%s: \"weight_map\" says that %s holds tensor %s, but it does not.", file,
                 want, quoted(e, tensor, strlen(tensor)));
        }
    }
}

static void read_index(Env *e, const char *file, json_t *root, void *arg)
{
    Index *x = arg;
    json_t *weight_map = json_object_get(root, "weight_map"), *v;
    if (!json_is_object(weight_map)) {
        fail(e, E_SYNTAX, "%s: \"weight_map\" is missing or not an object.", file);
    }
    const char *tensor;
    json_object_foreach (weight_map, tensor, v) {
        add_member(e, x, file, tensor, v);
    }
    if (x->faults.len) {
        fail(e, E_SYNTAX, "%s: \"weight_map\": %s.", file, x->faults.at);
    }
    for (int i = 0; i < x->paths.n; i++) {
        add_shard(e, x->c, x->paths.at[i]);
    }
    index_names(e, x->c);
    check_members(e, x, file, weight_map);
}

/* ---- opening ----------------------------------------------------------------------- */

static void open_index(Env *e, Checkpoint *c, const char *path)
{
    char *text;
    size_t len;
    Err err;
    if (!os_read_file(&e->kernel, path, MAX_INDEX_BYTES, &text, &len, &err)) {
        fail_err(e, &err);
    }
    Index x = {.c = c};
    map_init(&x.shards, &e->kernel);
    buf_init(&x.faults, &e->kernel);
    json_visit(e, path, text, len, read_index, &x);
}

static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};

/* The file that a folder means: the single one, else the index. NULL: neither is there. */
static const char *in_folder(Env *e, const char *folder)
{
    struct stat st;
    for (size_t i = 0; i < countof(names); i++) {
        const char *path = arena_printf(&e->model, "%s/%s", folder, names[i]);
        if (os.stat(path, &st) == 0) {
            return path;
        }
    }
    return NULL;
}

bool checkpoint_there(Env *e, const char *dir)
{
    return in_folder(e, dir) != NULL;
}

static void open_path(Env *e, void *arg)
{
    Checkpoint *c = arg;
    struct stat st;
    if (os.stat(c->path, &st) < 0) {
        fail(e, E_IO, "%s: %s.", c->path, strerror(errno));
    }
    if (S_ISDIR(st.st_mode)) {
        const char *folder = c->path;
        c->path = in_folder(e, folder);
        if (!c->path) {
            fail(e, E_IO, "%s holds neither %s nor %s.", folder, names[0], names[1]);
        }
    }
    if (text_ends_with(c->path, ".json")) {
        open_index(e, c, c->path);
    } else {
        add_shard(e, c, c->path);
        index_names(e, c);
    }
}

void checkpoint_open(Env *e, Checkpoint *c, const char *path)
{
    *c = (Checkpoint){.path = arena_str(&e->model, path)};
    if (!env_try(e, open_path, c)) {
        Err err = e->err;
        checkpoint_release(c);
        fail_err(e, &err);
    }
}
