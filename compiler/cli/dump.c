/* dump.c - `nanocompile dump WHAT MODEL`: the compiler's stages, one row of the table each. */
#include <string.h>

#include "cli/dump.h"
#include "loop/schedule.h"

/* ---- graphs ---- */

static void dump_graph(Dump *d)
{
    if (d->source->format == FORMAT_JSON) {
        graph_json(d->c.graph, &d->out);
    } else {
        graph_listing(d->c.graph, &d->out);
    }
}

static void dump_ncg(Dump *d)
{
    ncg_print(d->c.graph, &d->out);
}

/* ---- kernels ---- */

Sums dump_sums(Dump *d, int kernel)
{
    Sums s = {0, dim_int(0), dim_int(0)};
    for (int i = 0; i < d->p->call.n; i++) {
        const Call *c = &d->p->call.at[i];
        if (c->kernel == kernel) {
            s.calls++;
            s.read_bytes = dim_add(d->e, s.read_bytes, c->read_bytes);
            s.write_bytes = dim_add(d->e, s.write_bytes, c->write_bytes);
        }
    }
    return s;
}

static bool wanted(const Dump *d, int i)
{
    return kernel_named(d->p, i, d->kernel);
}

static void need_some_kernel(Dump *d)
{
    for (int i = 0; i < d->p->kernel.n; i++) {
        if (wanted(d, i)) {
            return;
        }
    }
    fail(d->e, E_INPUT,
         "%s: no kernel has the number, kind or hash '%s'; `dump kernels` lists them.",
         d->source->path, d->kernel);
}

static void dump_kernels(Dump *d)
{
    static const char *const columns[] = {"#kernel", "kind",       "#calls",       "#operands",
                                          "hash",    "read bytes", "written bytes"};
    Table t;
    table_init(&t, &d->e->kernel, "kernels", countof(columns), columns);
    need_some_kernel(d);
    for (int i = 0; i < d->p->kernel.n; i++) {
        const Kernel *k = d->p->kernel.at[i];
        Sums s = dump_sums(d, i);
        char hex[33];
        hash_hex(k->hash, hex);
        if (wanted(d, i)) {
            table_cell(&t, "%d", i);
            table_cell(&t, "%s", k->kind);
            table_cell(&t, "%d", s.calls);
            table_cell(&t, "%d", k->operand.n);
            table_cell(&t, "%.12s", hex);
            table_cell(&t, "%s", dim_text(d->e, s.read_bytes));
            table_cell(&t, "%s", dim_text(d->e, s.write_bytes));
        }
    }
    table_print(&t, d->source->format, &d->out);
    if (d->source->format == FORMAT_TEXT) {
        buf_printf(&d->out, "%d calls of %d distinct kernels.\n", d->p->call.n, d->p->kernel.n);
    }
}

/* Text of each kernel in turn; as JSON one object a kernel with the text in it. */
static void dump_texts(Dump *d, const char *field,
                       void (*print)(Dump *d, const Kernel *k, Buf *out))
{
    bool json = d->source->format == FORMAT_JSON, first = true;
    need_some_kernel(d);
    buf_str(&d->out, json ? "{\"kernels\": [" : "");
    for (int i = 0; i < d->p->kernel.n; i++) {
        const Kernel *k = d->p->kernel.at[i];
        if (!wanted(d, i)) {
            continue;
        }
        if (json) {
            Buf text;
            buf_init(&text, &d->e->kernel);
            print(d, k, &text);
            buf_printf(&d->out,
                       "%s\n  {\"kernel\": %d, \"kind\": \"%s\", \"symbol\": \"%s\", \"%s\": ",
                       first ? "" : ",", i, k->kind, k->symbol, field);
            buf_json(&d->out, text.at, text.len);
            buf_char(&d->out, '}');
        } else {
            buf_str(&d->out, first ? "" : "\n");
            print(d, k, &d->out);
        }
        first = false;
    }
    buf_str(&d->out, json ? "\n]}\n" : "");
}

/* The kernel after the first n steps. */
static const Kernel *scheduled(Dump *d, const Kernel *k, int n)
{
    Schedule s;
    Err err;
    if (!d->schedule) {
        return k;
    }
    if (!schedule_parse(d->schedule, &s, &err)) {
        fail_err(d->e, &err);
    }
    const Kernel *out = kernel_schedule(d->e, &d->e->model, k, &s, n < 0 ? s.n : n, &err);
    if (!out) {
        fail_err(d->e, &err);
    }
    return out;
}

static int n_steps(Dump *d)
{
    Schedule s;
    Err err;
    return d->schedule && d->steps && schedule_parse(d->schedule, &s, &err) ? s.n : 0;
}

/* After every prefix of the steps, or only after all of them. */
static void print_prefixes(Dump *d, const Kernel *k, Buf *out,
                           void (*print)(Dump *d, const Kernel *k, Buf *out))
{
    int last = n_steps(d);
    for (int n = d->steps ? 0 : -1; n <= (d->steps ? last : -1); n++) {
        const Kernel *now = scheduled(d, k, n);
        if (d->steps) {
            buf_printf(out, "%s# %s\n", n ? "\n" : "", now->schedule ? now->schedule : "naive");
        }
        print(d, now, out);
    }
}

static void print_nest(Dump *d, const Kernel *k, Buf *out)
{
    nest_print(d->e, k, out);
}

static void print_loops(Dump *d, const Kernel *k, Buf *out)
{
    print_prefixes(d, k, out, print_nest);
}

static void print_key(Dump *d, const Kernel *k, Buf *out)
{
    (void)d;
    buf_str(out, k->text);
}

static void print_kernel_c(Dump *d, const Kernel *k, Buf *out)
{
    compile_kernel(&d->c, k, out);
}

static void print_c(Dump *d, const Kernel *k, Buf *out)
{
    print_prefixes(d, k, out, print_kernel_c);
}

static void dump_loops(Dump *d)
{
    dump_texts(d, "loops", print_loops);
}

static void dump_keys(Dump *d)
{
    dump_texts(d, "key", print_key);
}

static void dump_c(Dump *d)
{
    dump_texts(d, "c", print_c);
}

static void dump_space(Dump *d)
{
    Table t = space_table(d->e, d->source, &d->c);
    need_some_kernel(d);
    for (int i = 0; i < d->p->kernel.n; i++) {
        if (wanted(d, i)) {
            space_rows(d->e, &t, &d->c, d->p, i);
        }
    }
    table_print(&t, d->source->format, &d->out);
}

/* ---- weights ---- */

static void dump_tensors(Dump *d)
{
    dump_weights(d->e, d->source->path, d->source->format, &d->out);
}

/* ---- stages ---- */

static void dump_stages(Dump *d)
{
    static const char *const columns[] = {"stage", "#nodes", "#calls", "#kernels", "#ms"};
    Table t;
    table_init(&t, &d->e->kernel, "stages", d->source->time ? 5 : 4, columns);
    for (int i = -1; i < d->c.times.n; i++) {
        const StageTime *s =
            i < 0 ? &(StageTime){.name = "build", .nodes = d->g->nodes.n} : &d->c.times.at[i];
        table_cell(&t, "%s", s->name);
        table_cell(&t, "%d", s->nodes);
        const char *calls = arena_printf(&d->e->kernel, "%d", s->calls);
        const char *kernels = arena_printf(&d->e->kernel, "%d", s->kernels);
        table_cell(&t, "%s", s->calls ? calls : "");
        table_cell(&t, "%s", s->calls ? kernels : "");
        if (d->source->time) {
            const char *ms = arena_printf(&d->e->kernel, "%.3f", (double)s->ns / 1e6);
            table_cell(&t, "%s", i < 0 ? "" : ms);
        }
    }
    table_print(&t, d->source->format, &d->out);
}

static void dump_ops(Dump *d)
{
    ops_table(&d->out);
}

static void dump_steps(Dump *d)
{
    steps_table(&d->out);
}

/* ---- the command ---- */

typedef enum Need {
    NEEDS_NOTHING,
    NEEDS_PATH,
    NEEDS_PROGRAM,
    NEEDS_SIZES
} Need; /* and all before */

typedef struct Row {
    const char *name;
    void (*dump)(Dump *d);
    Need need;
    const char *doc;
} Row;

/* clang-format off */
static const Row rows[] = {
    {"graph", dump_graph, NEEDS_PROGRAM, "the nodes after the graph stages, one a line"},
    {"ncg", dump_ncg, NEEDS_PROGRAM, "the same as text that can be read back"},
    {"stages", dump_stages, NEEDS_PROGRAM, "what each stage left: nodes, calls, kernels"},
    {"kernels", dump_kernels, NEEDS_PROGRAM, "the distinct kernels: kind, calls, bytes moved"},
    {"keys", dump_keys, NEEDS_PROGRAM, "each kernel's canonical text, which is its key"},
    {"loops", dump_loops, NEEDS_PROGRAM, "each kernel's loop nest"},
    {"c", dump_c, NEEDS_PROGRAM, "each kernel's C"},
    {"space", dump_space, NEEDS_PROGRAM, "what can be tuned in each kernel: knobs, rules, how many schedules"},
    {"plan", dump_plan, NEEDS_SIZES, "the arena: where each temporary lives, and when"},
    {"traffic", dump_traffic, NEEDS_SIZES, "bytes moved, exactly, as polynomials and at the given sizes"},
    {"weights", dump_tensors, NEEDS_PATH, "the tensors of a folder or file: type, shape, range; do they fit?"},
    {"ops", dump_ops, NEEDS_NOTHING, "the operations and how they are written, as markdown"},
    {"steps", dump_steps, NEEDS_NOTHING, "the schedule steps, as markdown"},
};
/* clang-format on */

typedef struct Options {
    Source source;
    const char *kernel;
    const char *schedule;
    bool steps;
    const Row *row;
} Options;

static void dump_body(Env *e, void *arg)
{
    const Options *o = arg;
    Machine machine;
    Dump d = {.e = e,
              .source = &o->source,
              .kernel = o->kernel,
              .schedule = o->schedule,
              .steps = o->steps};
    buf_init(&d.out, &e->model);
    if (o->row->need >= NEEDS_PROGRAM) {
        d.g = source_graph(e, &o->source);
        source_meaning(e, &o->source, d.g);
        d.p = source_compile(e, &o->source, d.g, &d.c);
        machine_read(e, "", &machine);
        d.c.target = target_of(&machine);
    }
    if (o->row->need >= NEEDS_SIZES) {
        source_sizes(e, &o->source, d.c.graph, &d.sizes);
    }
    o->row->dump(&d);
    cli_flush(&d.out);
}

static const struct argp_option options[] = {
    {"schedule", 's', "STEPS", 0, "loops, c: with these schedule steps applied", 0},
    {"steps", 'p', NULL, 0, "loops, c: after every prefix of the steps", 0},
    {"kernel", 'k', "K", 0, "only this kernel: its number, kind, or the beginning of its hash",
     0},
    {0},
};

static const Row *find_row(const char *name)
{
    for (size_t i = 0; i < countof(rows); i++) {
        if (!strcmp(rows[i].name, name)) {
            return &rows[i];
        }
    }
    return NULL;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    Options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &o->source; return 0;
    case 'k': o->kernel = arg; return 0;
    case 's': o->schedule = arg; return 0;
    case 'p': o->steps = true; return 0;
    case ARGP_KEY_ARG:
        if (!o->row && !(o->row = find_row(arg))) {
            argp_error(state, "there is no '%s' to dump", arg);
        } else if (state->arg_num == 1) {
            o->source.path = arg;
        }
        return state->arg_num > 1 ? ARGP_ERR_UNKNOWN : 0;
    case ARGP_KEY_END:
        if (!o->row) {
            argp_error(state, "say what to dump");
        } else if (o->row->need >= NEEDS_PATH && !o->source.path) {
            argp_error(
                state,
                "say of which model: a folder, a config.json, a .ncg or a .safetensors file");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static char *list_rows(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC) {
        return (char *)text;
    }
    char *all = NULL; /* argp frees it */
    size_t len = 0;
    FILE *f = open_memstream(&all, &len);
    if (!f) {
        return NULL;
    }
    fputs("WHAT is one of\n", f);
    for (size_t i = 0; i < countof(rows); i++) {
        fprintf(f, "  %-9s %s\n", rows[i].name, rows[i].doc);
    }
    fclose(f);
    return all;
}

int cmd_dump(int argc, char **argv)
{
    static const struct argp_child children[] = {{&source_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "WHAT [MODEL]",
        .doc = "Shows a model at some stage of the compiler.\v",
        .children = children,
        .help_filter = list_rows,
    };
    Options o = {.source = source_default()};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return cli_run(dump_body, &o);
}
