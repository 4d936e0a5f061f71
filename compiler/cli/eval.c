/* eval.c - `nanocompile eval MODEL`: runs a graph by any of its three meanings (the graph
 * interpreter, the nest interpreter, compiled C) on seeded or given inputs, prints the
 * outputs or compares them. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"

#define MAX_WAYS 3
#define LIBM_TOLERANCE 2e-6 /* relative, where exp, sin or cos is involved */

typedef struct Options {
    Source source;
    int n_ways;
    const char *way[MAX_WAYS];
    bool compare;
    bool all; /* print every element */
    bool blas;
    uint64_t seed;
    const char *out_dir; /* NULL: print */
    int n_given;
    Given given[64];
} Options;

typedef struct Eval {
    Env *e;
    const Options *o;
    const Graph *g; /* as built and asked for: its interpretation is the definition */
    Compile c;
    Program *p;
    Weights weights; /* of the model folder, or empty */
    Args args;
} Eval;

/* ---- the three ways ------------------------------------------------------------------ */

static void by_interpreter(Eval *v, Tensor *out)
{
    Err err;
    Gemm gemm = NULL;
    const char *says;
    if (v->o->blas) {
        if (!blas_gemm(&gemm, &says, &err)) {
            fail_err(v->e, &err);
        }
        fprintf(stderr, "matmul by %s: sums are not in index order.\n", says);
    }
    if (!graph_interpret(v->g, &v->args, gemm, &v->e->model, out, &err)) {
        fail_err(v->e, &err);
    }
}

/* The arguments, with copies of the inputs that the program writes: every way gets them as they were. */
static Args fresh_args(Eval *v)
{
    Arena *m = &v->e->model;
    Args args = v->args;
    NamedTensor *input = arena_dup(m, args.input, (size_t)args.n_inputs * sizeof *input);
    for (int i = 0; i < v->p->buffer.n; i++) {
        const Buffer *b = &v->p->buffer.at[i];
        if (b->written) {
            Tensor *t = &input[b->index].t;
            t->data = arena_dup(m, t->data, (size_t)(tensor_count(t) * dtype_bytes(t->dtype)));
        }
    }
    args.input = input;
    return args;
}

static void run_program(Eval *v, KernelFn *fn, Tensor *out)
{
    Err err;
    Args args = fresh_args(v);
    Exec *x = exec_new(v->e, v->c.graph, v->p, fn);
    exec_watch(x, &interrupted);
    bool ok = exec_run(x, &args, &v->e->model, out, &err);
    exec_free(x);
    if (!ok) {
        fail_err(v->e, &err);
    }
}

static void by_nests(Eval *v, Tensor *out)
{
    run_program(v, NULL, out);
}

typedef struct InLibrary {
    Eval *v;
    Library lib;
    Tensor *out;
} InLibrary;

static void in_library(Env *e, void *arg)
{
    InLibrary *x = arg;
    Machine machine;
    machine_read(e, "", &machine);
    library_build(e, x->v->p, machine.n_threads, &interrupted, &x->lib);
    run_program(x->v, x->lib.fn, x->out);
}

static void close_library(void *arg)
{
    library_release(&((InLibrary *)arg)->lib);
}

static void by_c(Eval *v, Tensor *out)
{
    InLibrary x = {.v = v, .out = out};
    env_finally(v->e, in_library, close_library, &x);
}

typedef struct Way {
    const char *name;
    void (*run)(Eval *v, Tensor *out);
} Way;

static const Way ways[] = {{"interp", by_interpreter}, {"nest", by_nests}, {"c", by_c}};

static const Way *find_way(const char *name)
{
    for (size_t i = 0; i < countof(ways); i++) {
        if (!strcmp(ways[i].name, name)) {
            return &ways[i];
        }
    }
    return NULL;
}

/* ---- printing ------------------------------------------------------------------------ */

static void print_type(const Tensor *t, Buf *out)
{
    buf_printf(out, "%s[", dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++) {
        buf_printf(out, i ? ", %lld" : "%lld", (long long)t->dim[i]);
    }
    buf_char(out, ']');
}

static void print_tensor(const char *name, const Tensor *t, bool all, Buf *out)
{
    int64_t count = tensor_count(t), shown = all || count < 8 ? count : 8;
    char hex[33];
    hash_hex(hash_bytes(t->data, (size_t)count * (size_t)dtype_bytes(t->dtype)), hex);
    buf_printf(out, "%s: ", name);
    print_type(t, out);
    buf_printf(out, " hash %.16s\n ", hex);
    for (int64_t i = 0; i < shown; i++) {
        buf_char(out, ' ');
        value_print(value_load(t->data, t->dtype, i), t->dtype, out);
    }
    buf_str(out, shown < count ? " ...\n" : "\n");
}

/* A name comes from the graph's text, and may only ever name a file of the folder. */
static const char *output_path(Eval *v, const char *name)
{
    if (strchr(name, '/')) {
        fail(v->e, E_INPUT, "%s: the output \"%.64s\" cannot name a file, since it has a '/'.",
             v->o->source.path, name);
    }
    return arena_printf(&v->e->model, "%s/%s.npy", v->o->out_dir, name);
}

static void write_outputs(Eval *v, const Tensor *out)
{
    Err err;
    if (!os_mkdirs(v->o->out_dir, &err)) {
        fail_err(v->e, &err);
    }
    for (int i = 0; i < v->g->outputs.n; i++) {
        const char *path = output_path(v, v->g->outputs.at[i].name);
        if (!npy_write(path, out[i], &err)) {
            fail_err(v->e, &err);
        }
    }
}

/* ---- comparing ----------------------------------------------------------------------- */

typedef struct Difference {
    int64_t n_bits; /* elements whose bits differ; all NaNs are alike */
    double max_abs, max_rel;
} Difference;

static void differ(Difference *d, Dtype t, Value a, Value b)
{
    double x = t == DT_F32 ? (double)a.f : (double)a.i,
           y = t == DT_F32 ? (double)b.f : (double)b.i;
    double abs = x == y ? 0 : fabs(x - y), scale = fmax(fabs(x), fabs(y));
    if (value_same(a, b, t)) {
        return;
    }
    d->n_bits++;
    abs = isnan(abs) ? INFINITY : abs;
    double rel = scale > 0 && isfinite(abs) ? abs / scale : abs;
    d->max_abs = fmax(d->max_abs, abs);
    d->max_rel = fmax(d->max_rel, rel);
}

static Difference difference(const Tensor *a, const Tensor *b)
{
    Difference d = {0};
    for (int64_t i = 0, n = tensor_count(a); i < n; i++) {
        differ(&d, a->dtype, value_load(a->data, a->dtype, i),
               value_load(b->data, b->dtype, i));
    }
    return d;
}

static bool print_comparison(Eval *v, const char *way, const Tensor *first, const Tensor *out,
                             Table *t)
{
    bool agree = true;
    for (int i = 0; i < v->g->outputs.n; i++) {
        Difference d = difference(&first[i], &out[i]);
        bool close = d.n_bits == 0 || d.max_rel <= LIBM_TOLERANCE;
        table_cell(t, "%s", v->o->way[0]);
        table_cell(t, "%s", way);
        table_cell(t, "%s", v->g->outputs.at[i].name);
        table_cell(t, "%lld", (long long)tensor_count(&out[i]));
        table_cell(t, "%lld", (long long)d.n_bits);
        table_cell(t, isfinite(d.max_abs) ? "%.3g" : "1e999", d.max_abs);
        table_cell(t, isfinite(d.max_rel) ? "%.3g" : "1e999", d.max_rel);
        table_cell(t, "%s", d.n_bits == 0 ? "same bits" : close ? "close" : "DIFFERENT");
        agree = agree && close;
    }
    return agree;
}

static void compare(Eval *v, Tensor **out)
{
    static const char *const columns[] = {"of",      "and",      "output",   "#elements",
                                          "#differ", "#max abs", "#max rel", "verdict"};
    Table t;
    Buf text;
    bool agree = true;
    table_init(&t, &v->e->model, "comparison", countof(columns), columns);
    buf_init(&text, &v->e->model);
    for (int i = 1; i < v->o->n_ways; i++) {
        agree = print_comparison(v, v->o->way[i], out[0], out[i], &t) && agree;
    }
    table_print(&t, v->o->source.format, &text);
    cli_flush(&text);
    if (!agree) {
        fail(v->e, E_RANGE, "%s: the outputs differ by more than %g, relative.",
             v->o->source.path, LIBM_TOLERANCE);
    }
}

/* ---- the command --------------------------------------------------------------------- */

/* Refuses what would only end in a machine without memory: arguments, outputs and
 * temporaries together. */
static void need_memory(const Eval *v, const Sizes *z)
{
    Machine m;
    Plan plan;
    double bytes = 0;
    plan_init(&plan, v->p, &v->e->kernel);
    bool counted = plan_update(&plan, v->p, z->value);
    for (int i = 0; i < v->p->buffer.n; i++) {
        const Buffer *b = &v->p->buffer.at[i];
        int copies = b->kind == BUF_TEMP || b->kind == BUF_CONST ? 0
                     : b->kind == BUF_OUTPUT                     ? v->o->n_ways
                                                                 : 1;
        bytes += (double)dim_value(b->count, z->value) * dtype_bytes(b->dtype) * copies;
    }
    bytes += counted ? (double)plan.arena_bytes : HUGE_VAL;
    machine_read(v->e, "", &m);
    if (m.memory_bytes && bytes > (double)m.memory_bytes) {
        fail(v->e, E_INPUT,
             "%s: at these sizes it takes %.3g bytes of memory, and this machine has %.3g.",
             v->o->source.path, bytes, (double)m.memory_bytes);
    }
}

static void show_outputs(Eval *v, const Tensor *out)
{
    Buf text;
    buf_init(&text, &v->e->model);
    for (int i = 0; i < v->g->outputs.n; i++) {
        print_tensor(v->g->outputs.at[i].name, &out[i], v->o->all, &text);
    }
    cli_flush(&text);
}

static void evaluate(Env *e, void *arg)
{
    Eval *v = arg;
    const Options *o = v->o;
    Sizes z;
    Tensor *out[MAX_WAYS];
    const Graph *built = source_graph(e, &o->source);
    v->g = source_meaning(e, &o->source, built);
    source_sizes(e, &o->source, v->g, &z);
    v->p = source_compile(e, &o->source, built, &v->c);
    need_memory(v, &z);
    arguments_make(e, &o->source, v->g, &z, o->seed, o->given, o->n_given, &v->weights,
                   &v->args);
    for (int i = 0; i < o->n_ways; i++) {
        out[i] = arena_array(&e->model, Tensor, v->g->outputs.n);
        find_way(o->way[i])->run(v, out[i]);
    }
    if (o->n_ways > 1) {
        compare(v, out);
    }
    if (o->out_dir) {
        write_outputs(v, out[0]);
    } else if (o->n_ways == 1) {
        show_outputs(v, out[0]);
    }
}

static void close_weights(void *arg)
{
    weights_release(&((Eval *)arg)->weights);
}

static void eval_body(Env *e, void *arg)
{
    Eval v = {.e = e, .o = arg};
    catch_interrupt();
    env_finally(e, evaluate, close_weights, &v);
}

enum { KEY_WITH_WAY = 512, KEY_COMPARE, KEY_SEED, KEY_INPUT, KEY_OUT, KEY_BLAS, KEY_ALL };

static const struct argp_option options[] = {
    {"by", KEY_WITH_WAY, "interp|nest|c", 0, "how to run it (default: c)", 0},
    {"compare", KEY_COMPARE, "WAY,WAY[,WAY]", 0, "run it these ways and compare with the first",
     0},
    {"seed", KEY_SEED, "N", 0, "of inputs and weights that are not given (default: 1)", 0},
    {"input", KEY_INPUT, "NAME=FILE.npy", 0, "an input or weight from a file; may be repeated",
     0},
    {"out", KEY_OUT, "DIR", 0, "write each output to DIR/NAME.npy instead of printing it", 0},
    {"all", KEY_ALL, NULL, 0, "print every element", 0},
    {"blas", KEY_BLAS, NULL, 0, "interp only: matmul by OpenBLAS, faster, other rounding", 0},
    {0},
};

static void parse_ways(struct argp_state *state, Options *o, char *list)
{
    o->n_ways = 0;
    for (char *rest = list, *name; (name = strsep(&rest, ","));) {
        if (!find_way(name)) {
            argp_error(state, "there is no way '%s' to run a graph: interp, nest and c are",
                       name);
        } else if (o->n_ways == MAX_WAYS) {
            argp_error(state, "at most %d ways can be compared", MAX_WAYS);
        } else {
            o->way[o->n_ways++] = name;
        }
    }
}

static void parse_input(struct argp_state *state, Options *o, char *arg)
{
    char *equals = strchr(arg, '=');
    if (!equals || o->n_given == (int)countof(o->given)) {
        argp_error(state, "--input takes NAME=FILE.npy, at most %zu times", countof(o->given));
        return;
    }
    *equals = '\0';
    o->given[o->n_given++] = (Given){arg, equals + 1};
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    Options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &o->source; return 0;
    case KEY_WITH_WAY: parse_ways(state, o, arg); return 0;
    case KEY_COMPARE: parse_ways(state, o, arg); return 0;
    case KEY_SEED: o->seed = option_seed(state, arg); return 0;
    case KEY_INPUT: parse_input(state, o, arg); return 0;
    case KEY_OUT: o->out_dir = arg; return 0;
    case KEY_ALL: o->all = true; return 0;
    case KEY_BLAS: o->blas = true; return 0;
    case ARGP_KEY_ARG: o->source.path = arg; return state->arg_num > 0 ? ARGP_ERR_UNKNOWN : 0;
    case ARGP_KEY_END:
        if (!o->source.path) {
            argp_error(state, "say which model: a folder, a config.json or a .ncg file");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int cmd_eval(int argc, char **argv)
{
    static const struct argp_child children[] = {{&source_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "MODEL",
        .doc = "Runs a graph on seeded or given inputs; prints or compares the outputs. "
               "A model folder's own weights are used where it has them.",
        .children = children,
    };
    Options o = {.source = source_default(), .n_ways = 1, .way = {"c"}, .seed = 1};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return cli_run(eval_body, &o);
}
