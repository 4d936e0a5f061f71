/* built.c - a model's library, loaded and driven as a Stepper, so that whoever runs a model need not
 * know whether it was built before. Only what api.h declares is used.
 * needs: a library of this version of the API. keeps: the library's own sentences. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "run/run_int.h"

/* Columns: what it returns, name, parameters */
#define ENTRIES(X)                                                                 \
    X(const nc_facts *, info, (void))                                              \
    X(nc_model *, open, (const nc_options *, nc_error *))                          \
    X(void, close, (nc_model *))                                                   \
    X(nc_code, prefill,                                                            \
      (nc_model *, int64_t, const int32_t *, int64_t, const float **, nc_error *)) \
    X(nc_code, decode, (nc_model *, int64_t, int32_t, const float **, nc_error *)) \
    X(nc_code, score, (nc_model *, int64_t, const int32_t *, int64_t, float *, nc_error *))

typedef struct BuiltEntries {
#define X(type, name, params) type(*name) params;
    ENTRIES(X)
#undef X
} BuiltEntries;

static const char *const entry_name[] = {
#define X(type, name, params) "nc_" #name,
    ENTRIES(X)
#undef X
};

static ErrCode err_code(nc_code code)
{
    static const ErrCode of[] = {[NC_OK] = E_OK,
                                 [NC_INPUT] = E_INPUT,
                                 [NC_FULL] = E_INPUT,
                                 [NC_NOMEM] = E_NOMEM,
                                 [NC_FILE] = E_IO,
                                 [NC_CPU] = E_BUILD,
                                 [NC_STOPPED] = E_INTERRUPT,
                                 [NC_BROKEN] = E_RANGE};
    return (size_t)code < countof(of) ? of[code] : E_BUILD;
}

/* ---- loading ---- */

void built_model_load(Env *e, BuiltModel *b, const char *path)
{
    BuiltEntries *entry = arena_new(&e->model, BuiltEntries);
    *b = (BuiltModel){.handle = library_open(e, path)};
    for (size_t i = 0; i < countof(entry_name); i++) {
        void *fn = os.dlsym(b->handle, entry_name[i]);
        if (!fn) {
            built_model_close(b);
            fail(e, E_BUILD, "%.700s is no model's library: it has no %s.", path,
                 entry_name[i]);
        }
        memcpy((char *)entry + i * sizeof fn, &fn, sizeof fn);
    }
    b->entry = entry;
    b->facts = entry->info();
    if (strcmp(b->facts->version, NC_VERSION)) {
        const char *version = arena_str(&e->kernel, b->facts->version);
        built_model_close(b);
        fail(e, E_BUILD,
             "%.700s was built by nanocompile %.32s, and this is %s; build it again.", path,
             version, NC_VERSION);
    }
}

void built_model_close(BuiltModel *b)
{
    if (b->model) {
        b->entry->close(b->model);
    }
    if (b->handle) {
        os.dlclose(b->handle);
    }
    free(b->rows);
    *b = (BuiltModel){0};
}

/* ---- stepping ---- */

static bool take_rows(BuiltModel *b, int64_t n, Err *err)
{
    if (n > b->n_rows) {
        float *more = os.realloc(b->rows, (size_t)(n * b->facts->vocab_size) * sizeof *more);
        if (!more) {
            return err_set(err, E_NOMEM, "There is no memory for %lld rows of logits.",
                           (long long)n);
        }
        b->rows = more;
        b->n_rows = n;
    }
    return true;
}

static bool feed(Stepper *s, const int32_t *ids, int n, bool all, const float **logits,
                 Err *err)
{
    BuiltModel *b = s->ctx;
    nc_error why;
    nc_code code;
    if (all) {
        if (!take_rows(b, n < 1 ? 1 : n, err)) {
            return false;
        }
        code = b->entry->score(b->model, s->n_fed, ids, n, b->rows, &why);
        *logits = b->rows;
    } else if (n == 1) {
        code = b->entry->decode(b->model, s->n_fed, ids[0], logits, &why);
    } else {
        code = b->entry->prefill(b->model, s->n_fed, ids, n, logits, &why);
    }
    if (code != NC_OK) {
        return err_set(err, err_code(code), "%s", why.text);
    }
    s->n_fed += n;
    return true;
}

static void restart(Stepper *s)
{
    s->n_fed = 0;
}

void built_model_open(Env *e, BuiltModel *b, const nc_options *o)
{
    nc_error why;
    b->model = b->entry->open(o, &why);
    if (!b->model) {
        fail(e, err_code(why.code), "%s", why.text);
    }
    b->stepper = (Stepper){b, b->facts->vocab_size, b->facts->context, 0, feed, restart};
}
