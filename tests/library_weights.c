/* library_weights.c - how a library's weights get into memory: what was taken is given back when that
 * fails. The run time is the process's own, so its calls of the system are seen. */
#include "tests/library_util.h"

#include "schedules/schedules.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

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
