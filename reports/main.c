/* main.c - the program report: tells what the schedule database knows. A table of commands; each is
 * a function that puts parts together. Opens the database for reading only. */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <string.h>

#include "reports/plot.h"

typedef struct Command {
    const char *name, *args;
    int n_least, n_most; /* words */
    void (*run)(Report *r);
    const char *doc;
} Command;

/* clang-format off */
static const Command commands[] = {
    {"summary", "", 0, 0, report_summary, "a line a task; the same as no command"},
    {"task", "TASK", 1, 1, report_task, "one in full: runs, claims, ties"},
    {"trials", "", 0, 0, report_trials, "every candidate, and what became of it"},
    {"failures", "", 0, 0, report_failures, "what did not end well, by reason"},
    {"evidence", "[RUN [DUEL]]", 0, 2, report_evidence, "the pairs behind claims, counted again"},
    {"rivals", "", 0, 0, report_rivals, "ours against OpenBLAS and hand-written kernels"},
    {"compare", "A B", 2, 2, report_compare, "two runs, schedules or database files"},
    {"convergence", "", 0, 0, report_convergence, "how the best so far came about"},
    {"knobs", "", 0, 0, report_knobs, "which knobs matter"},
    {"runs", "", 0, 0, report_runs, "what recorded something, and how it ended"},
    {"machine", "", 0, 0, report_machine, "machines, compilers, what bound the CPUs"},
    {"noise", "", 0, 0, report_noise, "calibrations: the default against its own copy"},
    {"builds", "[A [B]]", 0, 2, report_builds, "models built with it; the call sites of one; two compared"},
    {"misses", "", 0, 0, report_misses, "builds, and call sites that got no winner"},
    {"html", "-o DIR", 0, 0, report_page, "all of it as one page, DIR/index.html"},
    {"columns", "", 0, 0, report_columns, "every column of these tables, explained"},
};
/* clang-format on */

typedef struct Options {
    const Command *command;
    const char *db, *task, *run, *output, *plot, *pack;
    Format format;
    const char *word[2];
    int n_words;
} Options;

/* ---- command line ---- */

const char *argp_program_version = "report " NC_VERSION;

enum { OPT_DB = 1000, OPT_FORMAT, OPT_TASK, OPT_RUN, OPT_PLOT, OPT_PACK };

static const struct argp_option options[] = {
    {"db", OPT_DB, "FILE", 0,
     "the database (default: $NANOCOMPILE_DB, else schedules.db in the data folder)", 0},
    {"format", OPT_FORMAT, "text|md|csv|json|tex", 0, "of the tables (default: text)", 0},
    {"task", OPT_TASK, "TASK", 0,
     "only this one: an id, its first digits, or a piece of a label", 0},
    {"run", OPT_RUN, "RUN", 0, "only this one: an id, its first digits, or 'last'", 0},
    {"output", 'o', "DIR", 0, "html: the folder that the page is written to", 0},
    {"plot", OPT_PLOT, "FILE.svg|png|pdf", 0,
     "also draw the report's first plot, by gnuplot: of summary, convergence, knobs, task, "
     "evidence",
     0},
    {"pack", OPT_PACK, "FILE", 0,
     "instead of a report: a tar archive of all rows, kernels, schedules, hashes and "
     "environments, "
     "for others to check",
     0},
    {0}};

static Format parse_format(struct argp_state *state, const char *text)
{
    for (int i = 0; i < N_FORMATS; i++) {
        if (!strcmp(format_name[i], text)) {
            return (Format)i;
        }
    }
    argp_error(state, "--format is text, md, csv, json or tex, not '%s'", text);
    return FORMAT_TEXT;
}

static const Command *parse_command(struct argp_state *state, const char *word)
{
    for (size_t i = 0; i < countof(commands); i++) {
        if (!strcmp(commands[i].name, word)) {
            return &commands[i];
        }
    }
    argp_error(state, "there is no command '%s'; `report --help` lists them", word);
    return NULL;
}

static void take_word(struct argp_state *state, Options *o, const char *word)
{
    if (!o->command) {
        o->command = parse_command(state, word);
    } else if (o->n_words == o->command->n_most) {
        argp_error(state, "'%s' is one word too many", word);
    } else {
        o->word[o->n_words++] = word;
    }
}

static bool is_page(const Options *o)
{
    return o->command->run == report_page;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    Options *o = state->input;
    switch (key) {
    case OPT_DB: o->db = arg; return 0;
    case OPT_FORMAT: o->format = parse_format(state, arg); return 0;
    case OPT_TASK: o->task = arg; return 0;
    case OPT_RUN: o->run = arg; return 0;
    case OPT_PLOT: o->plot = arg; return 0;
    case OPT_PACK: o->pack = arg; return 0;
    case 'o': o->output = arg; return 0;
    case ARGP_KEY_ARG: take_word(state, o, arg); return 0;
    case ARGP_KEY_END:
        o->command = o->command ? o->command : &commands[0];
        if (o->n_words < o->command->n_least) {
            argp_error(state, "say %s %s", o->command->name, o->command->args);
        }
        if (is_page(o) != (o->output != NULL)) {
            argp_error(state, "html and -o DIR go together");
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* The commands, from their table, below the options. */
static char *help(int key, const char *text, void *input)
{
    (void)input;
    char *all = NULL;
    size_t len;
    if (key != ARGP_KEY_HELP_PRE_DOC) {
        return (char *)text;
    }
    FILE *f = open_memstream(&all, &len);
    fprintf(f, "%s\n\n", text);
    for (size_t i = 0; i < countof(commands); i++) {
        fprintf(f, "  %-11s %-14s %s\n", commands[i].name, commands[i].args, commands[i].doc);
    }
    fclose(f);
    return all;
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[COMMAND [ARG...]]",
    .doc =
        "What the schedule database knows: what was tried, what won, by how much and on what "
        "evidence.\vNothing is compiled or measured. Exit status: 0 success, 1 failure with "
        "one sentence on stderr, 2 usage.",
    .help_filter = help};

/* ---- running ---- */

typedef struct Running {
    const Options *o;
    Db *db;
} Running;

static void flush(Env *e, const Buf *out)
{
    if (fwrite(out->at, 1, out->len, stdout) != out->len || fflush(stdout)) {
        fail(e, E_IO, "Standard output cannot be written: %s.", strerror(errno));
    }
}

/* `compare A.db B.db` needs no other. */
static const char *path_of(const Options *o)
{
    bool files = o->command->run == report_compare && compare_is_files(o->word);
    return o->db || !files ? o->db : o->word[0];
}

static void write_page(Report *r, const char *folder, Buf *out)
{
    Err err;
    Buf page;
    const char *path = arena_printf(r->a, "%s/index.html", folder);
    buf_init(&page, r->a);
    report_html(r, arena_printf(r->a, "What %s knows", db_path(r->db)), &page);
    if (!os_mkdirs(folder, &err) || !os_write_file(path, page.at, page.len, &err)) {
        fail_err(r->e, &err);
    }
    buf_printf(out, "%s holds all of it.\n", path);
}

static void draw(Report *r, const Options *o)
{
    for (int i = 0; i < r->part.n; i++) {
        if (r->part.at[i].kind == PART_PLOT) {
            plot_file(r, r->part.at[i].plot, o->plot);
            return;
        }
    }
    fail(r->e, E_INPUT, "`report %s` has nothing to plot here.", o->command->name);
}

static void run_body(Env *e, void *arg)
{
    Running *x = arg;
    const Options *o = x->o;
    Report r;
    Buf out;
    buf_init(&out, &e->model);
    x->db = db_must_open(e, path_of(o), DB_READ);
    report_init(&r, e, x->db,
                is_page(o) || (o->format != FORMAT_CSV && o->format != FORMAT_JSON));
    r.n_words = o->n_words;
    memcpy(r.word, o->word, sizeof r.word);
    r.task = o->task ? report_find_task(&r, o->task) : DB_NONE;
    r.run = o->run ? report_find_run(&r, o->run) : DB_NONE;
    if (o->pack) {
        report_pack(&r, o->pack);
        buf_printf(&out, "%s holds all that %s knows; its README says how to check it.\n",
                   o->pack, db_path(x->db));
        flush(e, &out);
        return;
    }
    o->command->run(&r);
    if (is_page(o)) {
        write_page(&r, o->output, &out);
    } else {
        report_print(&r, o->format, &out);
    }
    if (o->plot) {
        draw(&r, o);
    }
    flush(e, &out);
}

int main(int argc, char **argv)
{
    Env e;
    Options o = {0};
    setlocale(LC_CTYPE, "");
    argp_err_exit_status = 2;
    program_name = "report";
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    Running x = {.o = &o};
    env_init(&e);
    bool ok = env_try(&e, run_body, &x);
    if (!ok) {
        fprintf(stderr, "report: %s\n", e.err.text);
    }
    db_close(x.db);
    env_release(&e);
    return ok ? 0 : 1;
}
