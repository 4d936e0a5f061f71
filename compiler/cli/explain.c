/* explain.c - `nanocompile explain`: what a build would take for a call site, and why: the key that is looked
 * up, the answer, the row that comes nearest where nothing fits, and what is built then, from its steps to its
 * machine code. Changes nothing; a database that is not there is an answer too. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/explain.h"
#include "tuner/cli/tune.h"

static void measure_peaks(Env *e, Here *h)
{
    Err err;
    Peaks p;
    Pool *pool = pool_new(h->n_threads, &err);
    if (!pool) {
        fail_err(e, &err);
    }
    peaks_measure(e, &h->machine, pool, &p);
    pool_free(pool);
    h->read_bytes_per_ns = p.read[LEVEL_MEMORY][ALL_THREADS].best;
    h->flops_per_ns = peaks_flops_per_ns(&p, ALL_THREADS);
}

static void look_around(Env *e, Here *h)
{
    here_init(e, h, h->o->n_threads);
    h->db = db_open(e, h->o->db, DB_READ, &h->no_db);
    if (h->o->peaks) {
        measure_peaks(e, h);
    }
}

static void explain(Env *e, void *arg)
{
    Here *h = arg;
    Sites sites;
    Buf out;
    look_around(e, h);
    sites_find(h, &sites);
    Answer *a = arena_array(&e->model, Answer, sites.n);
    for (int i = 0; i < sites.n; i++) {
        answer_find(h, &sites.at[i], &a[i]);
    }
    buf_init(&out, &e->model);
    sections_print(h, a, sites.n, h->o->sections, &out);
    cli_flush(&out);
}

static void close_db(void *arg)
{
    db_close(((Here *)arg)->db);
}

static void explain_body(Env *e, void *arg)
{
    Here *h = arena_new(&e->model, Here);
    h->e = e, h->o = arg;
    env_finally(e, explain, close_db, h);
}

/* ---- command line ------------------------------------------------------------------------ */

enum { KEY_SHAPE = 1000, KEY_MODEL, KEY_REGIME, KEY_THREADS, KEY_DB, KEY_SHOW, KEY_PEAKS };

static const struct argp_option options[] = {
    {"kernel", 'k', "PATTERN", 0,
     "only this call site: a regular expression on the labels of tune; of a MODEL: a part of "
     "the "
     "label, or number, kind or hash as for dump",
     0},
    {"shape", KEY_SHAPE, "m=M,n=N,k=K", 0,
     "instead: the product x[m, k] times w[n, k] transposed", 0},
    {"model", KEY_MODEL, "DIR", 0,
     "tune's tasks of this model (default: the configuration of Qwen2.5-0.5B)", 0},
    {"regime", KEY_REGIME, "hot|cold", 0, "as for tune (default: cold; hot with --shape)", 0},
    {"threads", KEY_THREADS, "N", 0, "that the kernel runs on (default: all it may use)", 0},
    {"db", KEY_DB, "FILE", 0,
     "the database (default: $NANOCOMPILE_DB, else schedules.db in the data folder)", 0},
    {"show", KEY_SHOW, "SECTION,...", 0,
     "answer, key, steps, evidence, roofline, loops, c, asm (default: all but the last three; "
     "of "
     "several call sites the answers)",
     0},
    {"peaks", KEY_PEAKS, NULL, 0, "measure the machine's peaks now, for the roofline", 0},
    {0},
};

static void parse_shape(struct argp_state *state, ExplainOptions *o, const char *text)
{
    if (!shape_parse(text, &o->m, &o->n, &o->k)) {
        argp_error(state, "--shape takes m=M,n=N,k=K, each 1 or more, not '%s'", text);
    }
}

static unsigned parse_sections(struct argp_state *state, const char *list)
{
    const char *names[N_SECTIONS];
    for (int i = 0; i < N_SECTIONS; i++) {
        names[i] = section[i].name;
    }
    return option_words(state, "show", "section", list, N_SECTIONS, names);
}

static void check_options(struct argp_state *state, const ExplainOptions *o)
{
    if (o->source.path && (o->m || o->model)) {
        argp_error(state, "a MODEL goes without --shape and --model");
    } else if (o->m && (o->kernel || o->model)) {
        argp_error(state, "--shape goes without --kernel and --model");
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    ExplainOptions *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &o->source; return 0;
    case 'k': o->kernel = arg; return 0;
    case KEY_SHAPE: parse_shape(state, o, arg); return 0;
    case KEY_MODEL: o->model = arg; return 0;
    case KEY_REGIME:
        o->regime = (Regime)option_choice(state, "regime", arg, N_REGIMES, regime_name);
        o->regime_given = true;
        return 0;
    case KEY_THREADS: o->n_threads = (int)option_int(state, "threads", arg, 1, 4096); return 0;
    case KEY_DB: o->db = arg; return 0;
    case KEY_SHOW: o->sections |= parse_sections(state, arg); return 0;
    case KEY_PEAKS: o->peaks = true; return 0;
    case ARGP_KEY_ARG: o->source.path = arg; return state->arg_num ? ARGP_ERR_UNKNOWN : 0;
    case ARGP_KEY_END: check_options(state, o); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int cmd_explain(int argc, char **argv)
{
    static const struct argp_child children[] = {{&source_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = parse,
        .args_doc = "[MODEL]",
        .doc =
            "Says which schedule a build takes for a call site, and why not a better one.\v"
            "Call sites are the tasks that `tune --list` names, or the calls of MODEL, a model "
            "folder, a config.json or a .ncg file, compiled as the other options say.",
        .children = children,
    };
    ExplainOptions o = {.source = source_default()};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return cli_run(explain_body, &o);
}
