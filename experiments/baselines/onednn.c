/* onednn.c - oneDNN as a baseline, where libdnnl 2 is installed: its matmul primitive, for each
 * shape anew, with the weights reordered into the layout that it asks for.
 *
 * Nothing is needed to build: the few functions and numbers used are declared here, as the
 * library's interface has them since 2.0. Its descriptors are filled and read by the library
 * alone, so room for them is all that is known. Threads are OpenMP's. */
#include "experiments/baselines/baselines_int.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define SONAME "libdnnl.so.2"
#define SPINS "3000" /* of an idle thread of libgomp: about 0.05 ms */

/* dnnl_types.h of 2.6: dnnl_data_type_t, dnnl_format_tag_t, dnnl_query_t, DNNL_ARG_*, ... */
enum {
    F32 = 3,
    TAG_ANY = 1,
    TAG_AB = 3,  /* row-major */
    TAG_BA = 22, /* transposed */
    CPU = 1,
    IN_ORDER = 1,
    QUERY_WEIGHTS = 131,
    ARG_SRC = 1,
    ARG_DST = 17,
    ARG_WEIGHTS = 33,
};

typedef int Status; /* 0: success */
typedef struct MemoryDesc {
    _Alignas(16) char room[1024]; /* 696 bytes in 2.6 */
} MemoryDesc;
typedef struct MatmulDesc {
    _Alignas(16) char room[8192]; /* 2800 bytes in 2.6 */
} MatmulDesc;
typedef struct ExecArg {
    int arg;
    void *memory;
} ExecArg;
typedef struct Version {
    int major, minor, patch;
} Version;

/* Columns: name after dnnl_, return type, parameters */
#define DNNL_CALLS(X)                                                                          \
    X(version, const Version *, (void))                                                        \
    X(engine_create, Status, (void **engine, int kind, size_t index))                          \
    X(engine_destroy, Status, (void *engine))                                                  \
    X(stream_create, Status, (void **stream, void *engine, unsigned flags))                    \
    X(stream_destroy, Status, (void *stream))                                                  \
    X(stream_wait, Status, (void *stream))                                                     \
    X(memory_desc_init_by_tag, Status,                                                         \
      (MemoryDesc *, int rank, const int64_t *dims, int type, int tag))                        \
    X(memory_desc_get_size, size_t, (const MemoryDesc *))                                      \
    X(memory_create, Status, (void **memory, const MemoryDesc *, void *engine, void *data))    \
    X(memory_set_data_handle, Status, (void *memory, void *data))                              \
    X(memory_destroy, Status, (void *memory))                                                  \
    X(matmul_desc_init, Status,                                                                \
      (MatmulDesc *, const MemoryDesc *src, const MemoryDesc *weights, const MemoryDesc *bias, \
       const MemoryDesc *dst))                                                                 \
    X(primitive_desc_create, Status,                                                           \
      (void **desc, const void *op, const void *attr, void *engine, const void *hint))         \
    X(primitive_desc_query_md, const MemoryDesc *, (const void *desc, int what, int index))    \
    X(primitive_desc_destroy, Status, (void *desc))                                            \
    X(reorder_primitive_desc_create, Status,                                                   \
      (void **desc, const MemoryDesc *from, void *from_engine, const MemoryDesc *to,           \
       void *to_engine, const void *attr))                                                     \
    X(primitive_create, Status, (void **primitive, const void *desc))                          \
    X(primitive_execute, Status,                                                               \
      (const void *primitive, void *stream, int n, const ExecArg *))                           \
    X(primitive_destroy, Status, (void *primitive))

struct OneDnn {
    void *lib;
    void *engine, *stream;
    char says[160];
#define X(name, returns, params) returns(*name) params;
    DNNL_CALLS(X)
#undef X
};

/* ---- the library ------------------------------------------------------------------------- */

static void say(OneDnn *d, const char *why)
{
    snprintf(d->says, sizeof d->says, "%s", why);
}

static bool find_all(OneDnn *d)
{
    void *fn;
#define X(name, returns, params)              \
    fn = os.dlsym(d->lib, "dnnl_" #name);     \
    if (!fn) {                                \
        say(d, SONAME " has no dnnl_" #name); \
        return false;                         \
    }                                         \
    memcpy(&d->name, &fn, sizeof fn);
    DNNL_CALLS(X)
#undef X
    return true;
}

/* Its threads are libgomp's, which it loads. */
static void set_threads(OneDnn *d, int n_threads)
{
    void *fn = os.dlsym(d->lib, "omp_set_num_threads");
    if (fn) {
        void (*set)(int);
        memcpy(&set, &fn, sizeof fn);
        set(n_threads);
    }
}

static bool start(OneDnn *d, int n_threads)
{
    if (!find_all(d)) {
        return false;
    }
    const Version *v = d->version();
    if (v->major != 2) {
        say(d, SONAME " is not version 2");
        return false;
    }
    set_threads(d, n_threads);
    if (d->engine_create(&d->engine, CPU, 0) ||
        d->stream_create(&d->stream, d->engine, IN_ORDER)) {
        say(d, SONAME " cannot use this CPU");
        return false;
    }
    snprintf(d->says, sizeof d->says, "oneDNN %d.%d.%d, threads %d", v->major, v->minor,
             v->patch, n_threads);
    return true;
}

OneDnn *onednn_open(Env *e, int n_threads)
{
    OneDnn *d = arena_new(&e->model, OneDnn);
    setenv("GOMP_SPINCOUNT", SPINS, 1);
    /* It stays when closed: its OpenMP threads live on and must not lose their code. */
    d->lib = os.dlopen(SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!d->lib) {
        say(d, SONAME " is not installed (package libdnnl2)");
    } else if (!start(d, n_threads)) {
        onednn_close(d);
    }
    return d;
}

void onednn_close(OneDnn *d)
{
    if (d->lib) {
        if (d->stream) {
            d->stream_destroy(d->stream);
        }
        if (d->engine) {
            d->engine_destroy(d->engine);
        }
        os.dlclose(d->lib);
        d->lib = d->engine = d->stream = NULL;
    }
}

const char *onednn_says(const OneDnn *d)
{
    return d->says;
}

const char *onednn_lacks(const Baselines *s)
{
    return s->onednn->lib ? NULL : s->onednn->says;
}

/* ---- one product ------------------------------------------------------------------------- */

typedef struct Plan {
    void *primitive;
    void *desc;                /* of the primitive: it owns the next */
    const MemoryDesc *layout;  /* that the primitive asks for the weights in */
    void *src, *weights, *dst; /* memory objects; their data is set for each call */
} Plan;

static void plan_free(const OneDnn *d, Plan *plan)
{
    d->memory_destroy(plan->dst);
    d->memory_destroy(plan->weights);
    d->memory_destroy(plan->src);
    d->primitive_destroy(plan->primitive);
    d->primitive_desc_destroy(plan->desc);
    free(plan);
}

/* A matrix; memory of its own is not given yet. */
static bool describe(const OneDnn *d, MemoryDesc *desc, int64_t rows, int64_t columns, int tag)
{
    const int64_t dims[] = {rows, columns};
    return d->memory_desc_init_by_tag(desc, 2, dims, F32, tag) == 0;
}

static bool make_plan(const OneDnn *d, const Product *p, Plan *plan)
{
    MemoryDesc src, any, dst;
    MatmulDesc op;
    if (!describe(d, &src, p->m, p->k, TAG_AB) || !describe(d, &any, p->k, p->n, TAG_ANY) ||
        !describe(d, &dst, p->m, p->n, TAG_AB) ||
        d->matmul_desc_init(&op, &src, &any, NULL, &dst) ||
        d->primitive_desc_create(&plan->desc, &op, NULL, d->engine, NULL) ||
        d->primitive_create(&plan->primitive, plan->desc)) {
        return false;
    }
    plan->layout = d->primitive_desc_query_md(plan->desc, QUERY_WEIGHTS, 0);
    return plan->layout && d->memory_create(&plan->src, &src, d->engine, NULL) == 0 &&
           d->memory_create(&plan->weights, plan->layout, d->engine, NULL) == 0 &&
           d->memory_create(&plan->dst, &dst, d->engine, NULL) == 0;
}

bool onednn_plan(const Baselines *s, Product *p, Err *err)
{
    const OneDnn *d = s->onednn;
    Plan *plan = os.alloc(sizeof *plan);
    if (!plan) {
        return err_set(err, E_NOMEM, "Out of memory for a plan of oneDNN.");
    }
    *plan = (Plan){0};
    if (p->m == 0 || p->n == 0 || p->k == 0 || !make_plan(d, p, plan)) {
        plan_free(d, plan);
        return err_set(err, E_SHAPE, "oneDNN has no product of %lld x %lld x %lld.",
                       (long long)p->m, (long long)p->n, (long long)p->k);
    }
    p->plan = plan;
    p->b_bytes = d->memory_desc_get_size(plan->layout);
    return true;
}

void onednn_unplan(const Baselines *s, Product *p)
{
    plan_free(s->onednn, p->plan);
    p->plan = NULL;
}

/* A reorder primitive, made, used and dropped. */
static bool reorder(const OneDnn *d, const MemoryDesc *from, void *from_data,
                    const MemoryDesc *to, void *to_data)
{
    void *desc = NULL, *primitive = NULL, *src = NULL, *dst = NULL;
    bool done =
        d->memory_create(&src, from, d->engine, from_data) == 0 &&
        d->memory_create(&dst, to, d->engine, to_data) == 0 &&
        d->reorder_primitive_desc_create(&desc, from, d->engine, to, d->engine, NULL) == 0 &&
        d->primitive_create(&primitive, desc) == 0;
    if (done) {
        const ExecArg args[] = {{ARG_SRC, src}, {ARG_DST, dst}};
        done = d->primitive_execute(primitive, d->stream, countof(args), args) == 0 &&
               d->stream_wait(d->stream) == 0;
    }
    d->primitive_destroy(primitive);
    d->primitive_desc_destroy(desc);
    d->memory_destroy(dst);
    d->memory_destroy(src);
    return done;
}

void onednn_pack(const Baselines *s, const Product *p, const float *weights, void *packed)
{
    const OneDnn *d = s->onednn;
    const Plan *plan = p->plan;
    MemoryDesc given;
    float *data = (float *)weights; /* only read, but the interface does not say so */
    if (!describe(d, &given, p->k, p->n, TAG_BA) ||
        !reorder(d, &given, data, plan->layout, packed)) {
        bug("oneDNN cannot reorder the weights it planned for");
    }
}

void onednn_run(const Baselines *s, const Product *p, int part, int n_parts)
{
    (void)part, (void)n_parts;
    const OneDnn *d = s->onednn;
    const Plan *plan = p->plan;
    d->memory_set_data_handle(plan->src, (void *)p->a);
    d->memory_set_data_handle(plan->weights, (void *)p->b);
    d->memory_set_data_handle(plan->dst, p->c);
    const ExecArg args[] = {
        {ARG_SRC, plan->src}, {ARG_WEIGHTS, plan->weights}, {ARG_DST, plan->dst}};
    if (d->primitive_execute(plan->primitive, d->stream, countof(args), args) ||
        d->stream_wait(d->stream)) {
        bug("oneDNN cannot run what it planned");
    }
}
