/* library_weights.c - how a library's weights get into memory: what was taken is given back when
 * that fails; a pack file makes the next start short, and no damage to it ever gets into the
 * weights. The run time is the process's own, so its calls of the system are seen. */
#include "tests/library_util.h"

#include "schedules/schedules.h"
#include "tests/fault.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(library_weights, .timeout = 600);

static TestModel model;
static TestLibrary library;
static Picker defaults;
static NcTables tables;

/* Kept weights, panels, and panels of weights that are not kept. */
static void start(void)
{
    test_model_open(&model, TINY);
    defaults = picker_default();
    library = (TestLibrary){.picker = &defaults, .context = 32, .panels = true};
    library_make_test(&library, &model);
    tables = library_tables(&library);
    cr_assert_gt(tables.n_panels, 0);
    NcWeight *weight =
        arena_dup(&model.e.model, tables.weight, (size_t)tables.n_weights * sizeof *weight);
    weight[tables.panel[0].from.index].kept = false;
    tables.weight = weight;
}

static void stop(void)
{
    built_model_close(&library.built);
    test_model_close(&model);
}

/* ---- what is held ---- */

static int64_t held_bytes;
static int maps_left;

static void *counted_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    if (maps_left-- <= 0) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void *p = mmap(at, n, prot, flags, fd, off);
    held_bytes += p == MAP_FAILED ? 0 : (int64_t)n;
    return p;
}

static int counted_munmap(void *at, size_t n)
{
    int failed = munmap(at, n);
    held_bytes -= failed ? 0 : (int64_t)n;
    return failed;
}

Test(library_weights, whatever_cannot_be_mapped_nothing_is_held, .init = start, .fini = stop)
{
    bool ok = false;
    int n = 0;
    os.mmap = counted_mmap;
    os.munmap = counted_munmap;
    for (; !ok; n++) {
        NcWeights w;
        nc_error why;
        maps_left = n;
        ok = weights_read(&tables, &(nc_options){0}, NULL, &w, &why);
        cr_assert(ok || why.code == NC_NOMEM || why.code == NC_FILE);
        weights_drop(&w);
        cr_assert_eq(held_bytes, 0, "%lld bytes with %d mappings", (long long)held_bytes, n);
    }
    os = os_system;
    cr_assert_eq(n, 4); /* a file, what stays, and what panels are made from */
}

/* ---- the pack file ---- */

static TempDir dir;
static const char *pack;
static char note[1024];
static int n_notes;
static int64_t n_progress, let_go_bytes;

static void start_pack(void)
{
    start();
    dir = temp_dir();
    pack = arena_str(&model.e.model, temp_path(&dir, "model.pack"));
}

static void stop_pack(void)
{
    temp_remove(&dir);
    stop();
}

static void take_note(void *ctx, const char *sentence)
{
    (void)ctx;
    n_notes++;
    snprintf(note, sizeof note, "%s", sentence);
}

static void count_progress(void *ctx, int64_t done, int64_t all)
{
    (void)ctx, (void)done, (void)all;
    n_progress++;
}

static nc_options with_pack(bool copy)
{
    n_notes = 0;
    n_progress = 0;
    note[0] = '\0';
    return (nc_options){
        .pack = pack, .pack_copy = copy, .note = take_note, .progress = count_progress};
}

static NcWeights read_weights(const nc_options *o)
{
    NcWeights w;
    nc_error why;
    cr_assert(weights_read(&tables, o, NULL, &w, &why), "%s", why.text);
    return w;
}

static void same_weights(const NcWeights *a, const NcWeights *b)
{
    for (int i = 0; i < tables.n_weights; i++) {
        const NcWeight *w = &tables.weight[i];
        size_t bytes = (size_t)w->count * (w->stored == NC_F32 ? 4 : 2);
        cr_assert_eq(!a->weight[i], !w->kept);
        cr_assert(!w->kept || !memcmp(a->weight[i], b->weight[i], bytes), "%s", w->name);
    }
    for (int i = 0; i < tables.n_panels; i++) {
        cr_assert(!memcmp(a->panel[i], b->panel[i], (size_t)tables.panel[i].n_bytes),
                  "panel %d", i);
    }
}

/* With this pack file, whatever it holds, weights are what they are without. */
static void right_weights(const nc_options *o)
{
    NcWeights want = read_weights(&(nc_options){0}), got = read_weights(o);
    same_weights(&got, &want);
    weights_drop(&got);
    weights_drop(&want);
}

/* The same of a start that maps the file, or copies it. */
static void right_start(bool copy)
{
    nc_options o = with_pack(copy);
    right_weights(&o);
}

static void noted(const char *words)
{
    cr_assert(n_notes > 0 && strstr(note, words), "noted: %s", note);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static int files_in_dir(void)
{
    DIR *d = opendir(dir.path);
    int n = 0;
    cr_assert(d);
    for (struct dirent *f; (f = readdir(d));) {
        n += f->d_name[0] != '.';
    }
    closedir(d);
    return n;
}

static int counted_madvise(void *at, size_t n, int advice)
{
    let_go_bytes += advice == MADV_DONTNEED ? (int64_t)n : 0;
    return madvise(at, n, advice);
}

static void second_start(bool copy)
{
    right_start(copy);
    noted("MB written for the next start.");
    cr_assert_gt(n_progress, 0);
    nc_options o = with_pack(copy);
    os.madvise = counted_madvise;
    NcWeights w = read_weights(&o);
    os = os_system;
    cr_assert_eq(n_notes, 0, "%s", note);
    cr_assert_eq(n_progress, 0, "data of the model's files were read");
    cr_assert_eq(let_go_bytes, 0, "data of the model's files were read");
    weights_drop(&w);
    right_weights(&o);
}

Test(library_weights, a_second_start_reads_none_of_the_models_data, .init = start_pack,
     .fini = stop_pack)
{
    second_start(false);
}

Test(library_weights, nor_does_one_that_copies, .init = start_pack, .fini = stop_pack)
{
    second_start(true);
}

/* ---- damage ---- */

static char *read_pack(size_t *len)
{
    char *text;
    Err err;
    cr_assert(os_read_file(&model.e.model, pack, 1 << 28, &text, len, &err), "%s", err.text);
    return text;
}

static void write_pack_file(const char *text, size_t len)
{
    Err err;
    cr_assert(os_write_file(pack, text, len, &err), "%s", err.text);
}

enum { HEADER = 4096 };

typedef struct Damage {
    const char *what;
    long flip;    /* this byte is another; -1: none, counted from the end */
    long n_bytes; /* the file has so many; 0: as before; more than it had: zeros */
    const char *words;
} Damage;

static const Damage damages[] = {
    {"nothing left", 0, 1, "its length is another"},
    {"half a header", 0, 30, "its length is another"},
    {"only a header", 0, HEADER, "its length is another"},
    {"cut by a page", 0, -HEADER, "its length is another"},
    {"grown by a page", 0, HEADER + 1, "its length is another"},
    {"other layout", 8, 0, "it is another library's"},
    {"other length", 16, 0, "it is another library's"},
    {"other samples", 24, 0, "its bytes have changed"},
    {"first weight", HEADER, 0, "its bytes have changed"},
    {"last panel", -1, 0, "its bytes have changed"},
};

static void damage(const Damage *d, const char *good, size_t len)
{
    bool shorter = d->n_bytes<0, longer = d->n_bytes> HEADER;
    size_t size = !d->n_bytes ? len
                  : shorter   ? len - HEADER
                  : longer    ? len + HEADER
                              : (size_t)d->n_bytes;
    char *bad = arena_alloc(&model.e.model, len + HEADER);
    memcpy(bad, good, len);
    if (d->flip) {
        bad[d->flip < 0 ? (long)len + d->flip : d->flip] ^= 1;
    }
    write_pack_file(bad, size);
}

Test(library_weights, a_damaged_pack_is_never_used_and_written_anew, .init = start_pack,
     .fini = stop_pack)
{
    size_t len, n;
    right_start(false);
    char *good = read_pack(&len);
    for (size_t i = 0; i < 2 * countof(damages); i++) {
        const Damage *d = &damages[i / 2];
        damage(d, good, len);
        right_start(i % 2);
        cr_assert_eq(n_notes, 2, "%s: %s", d->what, note);
        char *again = read_pack(&n);
        cr_assert(n == len && !memcmp(again, good, len), "%s", d->what);
        right_start(i % 2);
        cr_assert_eq(n_notes, 0, "%s: %s", d->what, note);
    }
    cr_assert_eq(files_in_dir(), 1);
}

static const char *good_header;

static ssize_t read_good_header(int fd, void *p, size_t n)
{
    (void)fd;
    memcpy(p, good_header, n);
    return (ssize_t)n;
}

/* A header may be another when it is mapped than when it was read: its length is not believed then. */
Test(library_weights, a_length_that_changes_behind_the_first_look_is_not_believed,
     .init = start_pack, .fini = stop_pack)
{
    size_t len;
    right_start(false);
    char *text = read_pack(&len);
    good_header = arena_dup(&model.e.model, text, HEADER);
    memset(text + 16, 0x3f, sizeof(int64_t));
    write_pack_file(text, len);
    for (int copy = 0; copy <= 1; copy++) {
        nc_options o = with_pack(copy);
        os.read = read_good_header;
        NcWeights w = read_weights(&o);
        os = os_system;
        cr_assert_eq(n_notes, 0, "%s", note);
        weights_drop(&w);
    }
}

Test(library_weights, one_changed_byte_anywhere_is_found_by_copying_and_by_a_check,
     .init = start_pack, .fini = stop_pack)
{
    size_t len;
    right_start(false);
    char *text = read_pack(&len);
    cr_assert_gt(len, (size_t)(2 << 20), "all of so small a file would be a sample");
    text[HEADER + 5000] ^= 1; /* behind the first sample */
    write_pack_file(text, len);
    nc_options o = with_pack(false);
    NcWeights w = read_weights(&o);
    cr_assert_eq(n_notes, 0, "%s", note); /* mapped, nobody looks there */
    weights_drop(&w);
    o.pack_check = 1;
    right_weights(&o);
    noted("written for the next start");
    write_pack_file(text, len);
    right_start(true);
    noted("written for the next start");
}

Test(library_weights, another_librarys_pack_is_never_used, .init = start_pack,
     .fini = stop_pack)
{
    right_start(false);
    built_model_close(&library.built);
    library = (TestLibrary){.picker = &defaults, .context = 32, .f32 = true};
    library_make_test(&library, &model);
    NcTables wide = library_tables(&library);
    cr_assert_neq(wide.layout, tables.layout);
    tables = wide;
    right_start(false);
    cr_assert_eq(n_notes, 2);
    right_start(false);
    cr_assert_eq(n_notes, 0, "%s", note);
}

Test(library_weights, what_is_no_pack_is_left_alone, .init = start_pack, .fini = stop_pack)
{
    static const char text[] = "My thesis.";
    size_t len;
    write_pack_file(text, sizeof text);
    right_start(false);
    noted("and left as it is: it is no pack file.");
    cr_assert(!memcmp(read_pack(&len), text, sizeof text) && len == sizeof text);
    write_pack_file("", 0);
    right_start(false);
    noted("written for the next start");
    nc_options o = with_pack(false);
    o.pack = dir.path;
    right_weights(&o);
    noted("it is no pack file.");
}

/* ---- where it cannot be written ---- */

Test(library_weights, without_a_place_for_the_pack_the_model_opens_all_the_same,
     .init = start_pack, .fini = stop_pack)
{
    nc_options o = with_pack(false);
    o.pack = temp_path(&dir, "no/such/folder");
    right_weights(&o);
    noted("cannot be written: No such file or directory; weights are laid out at every start.");
    o = with_pack(false);
    fault_arm("write", 2, true, ENOSPC);
    NcWeights w = read_weights(&o);
    fault_disarm();
    weights_drop(&w);
    noted("cannot be written: No space left on device;");
    cr_assert_eq(files_in_dir(), 0);
}

/* It opens twice, or says why not; whatever is left over is a whole pack or nothing. */
static bool open_twice(void *ctx, Err *err)
{
    nc_options o = with_pack(*(bool *)ctx);
    bool ok = true;
    unlink(pack);
    for (int i = 0; ok && i < 2; i++) {
        NcWeights w;
        nc_error why;
        ok = weights_read(&tables, &o, NULL, &w, &why) || err_set(err, E_IO, "%s", why.text);
        weights_drop(&w);
    }
    return ok;
}

Test(library_weights, any_call_that_fails_leaves_no_half_a_file, .init = start_pack,
     .fini = stop_pack)
{
    static const char *const calls[] = {"open",  "read",   "write",   "fsync",  "rename",
                                        "fstat", "unlink", "madvise", "munmap", "mmap"};
    for (size_t i = 0; i < countof(calls); i++) {
        for (int copy = 0; copy < 2; copy++) {
            bool way = copy;
            fault_loop(calls[i], open_twice, &way);
            cr_assert_eq(files_in_dir(), is_there(pack), "after %s", calls[i]);
            right_start(copy);
        }
    }
}

Test(library_weights, two_processes_at_once_make_one_good_pack, .init = start_pack,
     .fini = stop_pack)
{
    enum { N = 4 };
    pid_t child[N];
    for (int i = 0; i < N; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            NcWeights w;
            nc_error why;
            nc_options o = {.pack = pack, .pack_copy = i % 2};
            _exit(!weights_read(&tables, &o, NULL, &w, &why));
        }
        cr_assert_gt(child[i], 0);
    }
    for (int i = 0; i < N; i++) {
        int status;
        cr_assert_eq(waitpid(child[i], &status, 0), child[i]);
        cr_assert_eq(status, 0);
    }
    cr_assert_eq(files_in_dir(), 1);
    right_start(true);
    cr_assert_eq(n_notes, 0, "%s", note);
}

/* ---- a whole model ---- */

Test(library_weights, logits_are_the_same_laid_out_mapped_and_copied, .init = start_pack,
     .fini = stop_pack)
{
    TestLibrary plain = {.picker = &defaults, .context = 64, .panels = true}, l[3];
    Ids ids = heldout_ids(&model.e, 21);
    library_open_test(&plain, &model);
    const float *want = library_feed(&plain, ids.at, 21, true);
    for (int i = 0; i < 3; i++) { /* written, mapped, copied */
        l[i] = (TestLibrary){.picker = &defaults, .context = 64, .panels = true};
        l[i].options = with_pack(i == 2);
        library_open_test(&l[i], &model);
        cr_assert_eq(n_notes, i == 0, "%s", note);
        const float *got = library_feed(&l[i], ids.at, 21, true);
        cr_assert(!memcmp(got, want, (size_t)(21 * model.c.vocab_size) * sizeof *got));
        built_model_close(&l[i].built);
    }
    built_model_close(&plain.built);
}

Test(library_weights, weights_that_changed_are_refused_though_there_is_a_pack,
     .init = start_pack, .fini = stop_pack)
{
    nc_options o = with_pack(false);
    char *text;
    size_t len;
    nc_error why;
    NcWeights w;
    Err err;
    right_weights(&o);
    const char *path = temp_path(&dir, "model.safetensors");
    cr_assert(
        os_read_file(&model.e.model, TINY "/model.safetensors", 1 << 28, &text, &len, &err));
    text[len - 1] ^= 1;
    cr_assert(os_write_file(path, text, len, &err));
    o.weights = dir.path;
    cr_assert_not(weights_read(&tables, &o, NULL, &w, &why));
    cr_assert(strstr(why.text, "its bytes have changed; build it again."), "%s", why.text);
}
