/* exec.c - runs a program: binds arguments, places buffers, calls each kernel.
 *
 * A decoded token is a few hundred calls of a few microseconds each, so everything that does
 * not depend on arguments is laid out once by exec_new: one flat list of parameters and one of
 * symbols, with each call's share known. Binding fills in addresses; only when a size has
 * changed are the arena planned and the offsets computed again. Calling is then a loop over
 * functions.
 *
 * Temporaries, and outputs that the caller gives no place, live in one mapping, which grows
 * ahead of need because `past` grows with every token. Inputs, weights and constants are
 * used in place; an input that updates are written into is the caller's to give up, and where the
 * program returns it, that output is the input's own memory. */
#include "run/run_int.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

typedef struct CallStep { /* one call */
    KernelFn fn;
    bool parallel; /* worth waking others for */
    void **param;
    int64_t *sym;
    int64_t *n_elems; /* by parameter; for the nest interpreter */
} CallStep;

typedef struct Slot { /* one parameter of one call */
    int buffer, elem_bytes;
    bool bf16; /* a weight, taken as that */
    int64_t offset_bytes;
} Slot;

typedef struct Moving { /* an offset that depends on sizes; most do not */
    int slot;
    Dim offset;
} Moving;

struct Exec {
    Env *e;
    const Graph *g;
    const Program *p;
    Plan plan;
    Sizes sizes;                    /* of the last bind */
    bool planned;                   /* plan, offsets and symbols fit sizes */
    const Tensor **input, **weight; /* the arguments of the last bind, in the graph's order */
    CallStep *step;                 /* by call */
    bool compiled;
    Slot *slot; /* by parameter, all calls' in a row */
    Vec(Moving) moving;
    void **param;
    int64_t *n_elems;
    int n_params;
    int64_t *sym; /* values of all calls' symbols in a row, and which symbols they are */
    Sym *sym_of;
    int n_syms;
    void **base;              /* by buffer: its first element */
    Tensor *out;              /* by output: dtype and dims at these sizes */
    int *same;                /* by output: the input that it is, written in place; -1: none */
    char *memory;             /* temporaries, then outputs without a place of their own */
    size_t capacity;          /* bytes mapped */
    const volatile int *stop; /* may be NULL */
    Pool *pool;               /* may be NULL */
    Stored stored;            /* weights as kernels take them */
    Panels panels;            /* packed operands */
};

/* ---- once ------------------------------------------------------------------------------- */

static void count_slots(Exec *x)
{
    for (int c = 0; c < x->p->call.n; c++) {
        x->n_params += x->p->call.at[c].arg.n;
        x->n_syms += x->p->call.at[c].sym.n;
    }
}

static void lay_out_slot(Exec *x, int slot, const Arg *arg, const Operand *o)
{
    const Buffer *b = &x->p->buffer.at[arg->buffer];
    int bytes = operand_given_bytes(o);
    bool bf16 = operand_takes_bf16(o);
    check(b->kind == BUF_WEIGHT || !bf16);
    if (b->kind == BUF_WEIGHT) {
        stored_want(&x->stored, b->index, bf16);
    }
    x->slot[slot] = (Slot){arg->buffer, bytes, bf16, arg->offset.k * bytes};
    if (!dim_is_const(arg->offset)) {
        *vec_push(&x->e->model, &x->moving) = (Moving){slot, arg->offset};
    }
}

static void lay_out_calls(Exec *x, KernelFn *fn, PackFn **pack)
{
    int param = 0, sym = 0;
    for (int c = 0; c < x->p->call.n; c++) {
        const Call *call = &x->p->call.at[c];
        const Kernel *k = x->p->kernel.at[call->kernel];
        x->step[c] = (CallStep){
            .fn = fn ? fn[call->kernel] : NULL,
            .parallel = k->parallel,
            .param = &x->param[param],
            .sym = &x->sym[sym],
            .n_elems = &x->n_elems[param],
        };
        for (int i = 0; i < call->arg.n; i++, param++) {
            lay_out_slot(x, param, &call->arg.at[i], &k->operand.at[i]);
            if (k->operand.at[i].pack) {
                panels_add(x->e, &x->panels, k, i, pack ? pack[call->kernel][i] : NULL, param,
                           x->step[c].sym);
            }
        }
        for (int i = 0; i < call->sym.n; i++, sym++) {
            x->sym_of[sym] = call->sym.at[i];
        }
    }
}

static void find_fixed(Exec *x)
{
    memset(x->same, -1, sizeof *x->same * (size_t)x->g->outputs.n);
    for (int i = 0; i < x->p->buffer.n; i++) {
        const Buffer *b = &x->p->buffer.at[i];
        if (b->kind == BUF_CONST) {
            x->base[i] = (void *)(uintptr_t)b->value; /* no kernel writes it */
        } else if (b->also_output) {
            x->same[b->also_output - 1] = b->index;
        }
    }
}

static Exec *new_exec(Env *e, const Graph *g, const Program *p, KernelFn *fn, PackFn **pack)
{
    Arena *m = &e->model;
    Exec *x = arena_new(m, Exec);
    *x = (Exec){.e = e, .g = g, .p = p, .compiled = fn != NULL};
    count_slots(x);
    x->input = arena_array(m, const Tensor *, g->inputs.n);
    x->weight = arena_array(m, const Tensor *, g->weights.n);
    x->step = arena_array(m, CallStep, p->call.n);
    x->slot = arena_array(m, Slot, x->n_params);
    x->param = arena_array(m, void *, x->n_params);
    x->n_elems = arena_array(m, int64_t, x->n_params);
    x->sym = arena_array(m, int64_t, x->n_syms);
    x->sym_of = arena_array(m, Sym, x->n_syms);
    x->base = arena_array(m, void *, p->buffer.n);
    x->out = arena_array(m, Tensor, g->outputs.n);
    x->same = arena_array(m, int, g->outputs.n);
    plan_init(&x->plan, p, m);
    stored_init(e, &x->stored, g);
    lay_out_calls(x, fn, pack);
    find_fixed(x);
    return x;
}

Exec *exec_new(Env *e, const Graph *g, const Program *p, KernelFn *fn)
{
    return new_exec(e, g, p, fn, NULL);
}

Exec *exec_with(Env *e, const Graph *g, const Program *p, const Library *lib)
{
    return new_exec(e, g, p, lib->fn, lib->pack);
}

static void release(Exec *x)
{
    if (x->memory) {
        os.munmap(x->memory, x->capacity);
        x->memory = NULL;
    }
}

void exec_free(Exec *x)
{
    if (x) {
        release(x);
        panels_release(&x->panels);
        stored_release(&x->stored);
    }
}

const Plan *exec_plan(const Exec *x)
{
    return &x->plan;
}

void exec_watch(Exec *x, const volatile int *stop)
{
    x->stop = stop;
}

void exec_use_weights(Exec *x, Weights *w)
{
    stored_use(&x->stored, w);
}

void exec_use_pool(Exec *x, Pool *p)
{
    x->pool = p;
}

/* ---- when a size has changed ------------------------------------------------------------ */

static void update_calls(Exec *x)
{
    const int64_t *value = x->sizes.value;
    for (int i = 0; i < x->moving.n; i++) {
        const Moving *m = &x->moving.at[i];
        Slot *s = &x->slot[m->slot];
        s->offset_bytes = dim_value(m->offset, value) * s->elem_bytes;
    }
    for (int i = 0; i < x->n_syms; i++) {
        x->sym[i] = value[x->sym_of[i]];
    }
}

/* What the nest interpreter checks every access against. */
static void update_elems(Exec *x)
{
    for (int i = 0; i < x->n_params; i++) {
        const Buffer *b = &x->p->buffer.at[x->slot[i].buffer];
        int64_t count = dim_value(b->count, x->sizes.value);
        x->n_elems[i] = count - x->slot[i].offset_bytes / x->slot[i].elem_bytes;
    }
}

static void update_outputs(Exec *x)
{
    for (int i = 0; i < x->g->outputs.n; i++) {
        x->out[i] = tensor_of_node(x->g->outputs.at[i].node, x->sizes.value);
    }
}

/* Finds the arguments and sizes; plans again where sizes are new. */
static bool bind_sizes(Exec *x, const Args *args, Err *err)
{
    Sizes z = {0};
    if (!graph_bind(x->g, args, &z, x->input, x->weight, err)) {
        return false;
    }
    if (x->planned && memcmp(&z, &x->sizes, sizeof z) == 0) {
        return true;
    }
    x->planned = false;
    x->sizes = z;
    if (!plan_update(&x->plan, x->p, z.value)) {
        return err_set(err, E_NOMEM,
                       "Graph \"%.64s\" needs more memory for its temporaries than "
                       "can be addressed.",
                       x->g->name);
    }
    update_calls(x);
    update_outputs(x);
    if (!x->compiled) {
        update_elems(x);
    }
    x->planned = true;
    return true;
}

/* ---- at every bind ---------------------------------------------------------------------- */

static size_t out_bytes(const Tensor *t) /* at a multiple of 64 */
{
    return ((size_t)(tensor_count(t) * dtype_bytes(t->dtype)) + 63) / 64 * 64;
}

static bool without_place(const Exec *x, const Tensor *out, int i)
{
    return !out[i].data && x->same[i] < 0;
}

/* Bytes for the temporaries and for each output without a place. */
static size_t memory_needed(const Exec *x, const Tensor *out)
{
    size_t bytes = (size_t)x->plan.arena_bytes;
    for (int i = 0; i < x->g->outputs.n; i++) {
        bytes += without_place(x, out, i) ? out_bytes(&x->out[i]) : 0;
    }
    return bytes;
}

static bool reserve(Exec *x, size_t bytes, Err *err)
{
    if (bytes <= x->capacity) {
        return true;
    }
    size_t ahead = bytes + bytes / 2;
    void *memory =
        os.mmap(NULL, ahead, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return err_set(err, E_NOMEM,
                       "Out of memory: %zu bytes for the temporaries of graph \"%.64s\" "
                       "cannot be had: %s.",
                       ahead, x->g->name, strerror(errno));
    }
    release(x);
    x->memory = memory;
    x->capacity = ahead;
    return true;
}

static bool same_type(const Tensor *a, const Tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dim, b->dim, sizeof a->dim[0] * (size_t)a->rank) == 0;
}

/* A place that the caller gives must fit, and be the input's where the output is written into it. */
static bool place_fits(const Exec *x, int i, const Tensor *place, Err *err)
{
    bool there = x->same[i] < 0 || place->data == x->input[x->same[i]]->data;
    if (!place->data || (there && same_type(place, &x->out[i]))) {
        return true;
    }
    return err_set(err, E_INPUT, "The place given for output \"%.64s\" %s.",
                   x->g->outputs.at[i].name,
                   there ? "has another dtype or shape than the output"
                         : "is not that of the input that it is written into");
}

/* Gives every output its place, the caller's or ours, and tells the caller. */
static bool place_outputs(Exec *x, Tensor *out, Err *err)
{
    char *next = x->memory + x->plan.arena_bytes;
    for (int i = 0; i < x->g->outputs.n; i++) {
        if (!place_fits(x, i, &out[i], err)) {
            return false;
        }
        void *data = x->same[i] >= 0 ? x->input[x->same[i]]->data : out[i].data;
        bool ours = without_place(x, out, i);
        out[i] = x->out[i];
        out[i].data = ours ? next : data;
        next += ours ? out_bytes(&x->out[i]) : 0;
    }
    return true;
}

static void fill_params(Exec *x, const Tensor *out)
{
    for (int i = 0; i < x->p->buffer.n; i++) {
        const Buffer *b = &x->p->buffer.at[i];
        if (b->kind == BUF_TEMP) {
            x->base[i] = x->memory + x->plan.offset[i];
        } else if (b->kind != BUF_CONST) {
            x->base[i] = b->kind == BUF_INPUT    ? x->input[b->index]->data
                         : b->kind == BUF_WEIGHT ? x->weight[b->index]->data
                                                 : out[b->index].data;
        }
    }
    for (int i = 0; i < x->n_params; i++) { /* as integers: an empty input may be NULL */
        const Slot *s = &x->slot[i];
        int weight = x->p->buffer.at[s->buffer].index;
        uintptr_t base = s->bf16 ? (uintptr_t)stored_bf16(&x->stored, weight)
                                 : (uintptr_t)x->base[s->buffer];
        x->param[i] = (void *)(base + (uintptr_t)s->offset_bytes);
    }
}

static bool bind_memory(Exec *x, Tensor *out, Err *err)
{
    if (!reserve(x, memory_needed(x, out), err) || !place_outputs(x, out, err) ||
        !stored_update(&x->stored, x->weight, err)) {
        return false;
    }
    fill_params(x, out);
    return panels_update(x->e, &x->panels, x->param, x->n_elems, x->pool, err);
}

bool exec_bind(Exec *x, const Args *args, Tensor *out, Err *err)
{
    return bind_sizes(x, args, err) && bind_memory(x, out, err);
}

/* ---- calling ---------------------------------------------------------------------------- */

static bool failed(const Exec *x, const Call *call, int result, Err *err)
{
    return call_failed(x->g, x->p, call, x->input, &x->sizes, result, err);
}

static bool goes_on(const Exec *x, Err *err)
{
    return !x->stop || !*x->stop || err_set(err, E_INTERRUPT, "Stopped.");
}

static int32_t run_step(const Exec *x, const CallStep *s)
{
    return x->pool && s->parallel ? pool_kernel(x->pool, s->fn, s->param, s->sym)
                                  : s->fn(s->param, s->sym, 0, 1);
}

static bool call_compiled(const Exec *x, Err *err)
{
    for (int c = 0; c < x->p->call.n; c++) {
        const CallStep *s = &x->step[c];
        if (!goes_on(x, err)) {
            return false;
        }
        int32_t result = run_step(x, s);
        if (result != 0) {
            return failed(x, &x->p->call.at[c], result, err);
        }
    }
    return true;
}

typedef struct Interpreted {
    const Exec *x;
    Err *err;
    bool ok;
} Interpreted;

static bool interpret(Env *e, const Interpreted *in, int c)
{
    const Program *p = in->x->p;
    const CallStep *s = &in->x->step[c];
    const Call *call = &p->call.at[c];
    if (!goes_on(in->x, in->err)) {
        return false;
    }
    int result = nest_run(e, p->kernel.at[call->kernel], s->param, s->n_elems, s->sym);
    env_reset_kernel(e);
    return result == 0 || failed(in->x, call, result, in->err);
}

static void call_interpreted(Env *e, void *arg)
{
    Interpreted *in = arg;
    in->ok = true;
    for (int c = 0; c < in->x->p->call.n && in->ok; c++) {
        in->ok = interpret(e, in, c);
    }
}

bool exec_call(Exec *x, Err *err)
{
    check(x->planned);
    if (x->compiled) {
        return call_compiled(x, err);
    }
    Env *e = x->e;
    Interpreted in = {.x = x, .err = err};
    Arena callers = e->kernel; /* kept: the interpreter's memory is released after every call */
    arena_init(&e->kernel, e);
    bool ran = env_try(e, call_interpreted, &in);
    arena_release(&e->kernel);
    e->kernel = callers;
    if (!ran && err) {
        *err = e->err;
    }
    return ran && in.ok;
}

/* ---- both ------------------------------------------------------------------------------- */

typedef struct NewOutputs {
    const Exec *x;
    Arena *a;
    Tensor *out;
} NewOutputs;

static void new_outputs(Env *e, void *arg)
{
    NewOutputs *n = arg;
    for (int i = 0; i < n->x->g->outputs.n; i++) {
        const Tensor *t = &n->x->out[i];
        bool given = n->x->same[i] >= 0; /* by an input */
        n->out[i] = given ? (Tensor){0} : tensor_new(e, n->a, t->dtype, t->rank, t->dim);
    }
}

bool exec_run(Exec *x, const Args *args, Arena *a, Tensor *out, Err *err)
{
    if (!bind_sizes(x, args, err)) {
        return false;
    }
    if (!env_try(x->e, new_outputs, &(NewOutputs){x, a, out})) {
        if (err) {
            *err = x->e->err;
        }
        return false;
    }
    return bind_memory(x, out, err) && exec_call(x, err);
}
