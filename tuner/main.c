/* main.c - the program tune: options. The hidden first argument makes it a process that measures. */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/cli/duels.h"
#include "tuner/cli/run.h"

volatile int tune_interrupted;

static void on_interrupt(int signal)
{
    (void)signal;
    if (tune_interrupted) {
        _exit(130);
    }
    tune_interrupted = 1;
}

const char *argp_program_version = "tune " NC_VERSION;

enum {
    KEY_SHAPE = 1000,
    KEY_BF16,
    KEY_MODEL,
    KEY_DB,
    KEY_LIST,
    KEY_DRY_RUN,
    KEY_RESUME,
    KEY_NOISE,
    KEY_THREADS,
    KEY_JOBS,
    KEY_REGIME,
    KEY_STRATEGY,
    KEY_BUDGET,
    KEY_SEED,
    KEY_MARGIN,
    KEY_SET,
    KEY_COMPARE,
    KEY_AGAINST,
    KEY_RIVALS,
    KEY_ABLATE,
    KEY_REPLAY,
    KEY_SEEDS
};

static const struct argp_option options[] = {
    {NULL, 0, NULL, 0, "What is tuned:", 1},
    {"kernel", 'k', "PATTERN", 0, "the model's kernels whose label has this regular expression",
     0},
    {"shape", KEY_SHAPE, "m=M,n=N,k=K", 0, "the product x[m, k] times w[n, k] transposed", 0},
    {"bf16", KEY_BF16, NULL, 0, "its weights were widened from BF16, as those of models are",
     0},
    {"model", KEY_MODEL, "DIR", 0,
     "a model folder or config.json (default: the configuration of Qwen2.5-0.5B)", 0},
    {"threads", KEY_THREADS, "N", 0, "that a kernel runs on (default: all it may use)", 0},
    {"regime", KEY_REGIME, "hot|cold", 0,
     "weights in the cache or in a ring of copies, as a model finds them (default: cold; hot "
     "with --shape)",
     0},
    {"list", KEY_LIST, NULL, 0, "only list the tasks", 0},
    {"dry-run", KEY_DRY_RUN, NULL, 0,
     "only list the tasks, what they are worth, and how many candidates may fit the budget; "
     "with --against, print a rival to begin with",
     0},
    {NULL, 0, NULL, 0, "How it is searched:", 2},
    {"budget", KEY_BUDGET, "TIME", 0,
     "30s, 30m, 2h, for the whole command, or 500trials for each task (default: 10m)", 0},
    {"strategy", KEY_STRATEGY, "NAME", 0,
     "exhaustive, random, greedy, anneal, evolve, model or auto (default: auto)", 0},
    {"seed", KEY_SEED, "N", 0, "of the search and all that is random in it (default: 1)", 0},
    {"resume", KEY_RESUME, "RUN", OPTION_ARG_OPTIONAL,
     "go on with a run of this command that was stopped or killed (default: the newest)", 0},
    {"jobs", KEY_JOBS, "N", 0, "compilers at once (default: as many as CPUs)", 0},
    {NULL, 0, NULL, 0, "Instead of a search, measure (BEST: the database's winner):", 3},
    {"compare", KEY_COMPARE, "A B", 0,
     "schedule B against A, each of them default, best, naive, a .sched file or steps; the "
     "exit "
     "status is the verdict",
     0},
    {"against", KEY_AGAINST, "FILE", 0,
     "a kernel of yours, C or a shared library, against the best or else the default; likewise",
     0},
    {"rivals", KEY_RIVALS, NULL, 0,
     "the best or else the default against OpenBLAS, oneDNN and kernels written by hand", 0},
    {"ablate", KEY_ABLATE, "all", OPTION_ARG_OPTIONAL,
     "the best against itself with one knob at a time put back to the default's choice, or to "
     "each other choice",
     0},
    {"noise", KEY_NOISE, NULL, 0,
     "the default against a copy of itself, which shows this machine's noise", 0},
    {NULL, 0, NULL, 0, "Instead of measuring:", 4},
    {"replay", KEY_REPLAY, "RUN", 0,
     "try the strategies (or --strategy) on what this run recorded, against random search", 0},
    {"seeds", KEY_SEEDS, "N", 0, "of a replay (default: 50)", 0},
    {NULL, 0, NULL, 0, "How it is measured and recorded:", 5},
    {"db", KEY_DB, "FILE", 0,
     "the database (default: $NANOCOMPILE_DB, else schedules.db in the data folder)", 0},
    {"margin", KEY_MARGIN, "PERCENT", 0,
     "what a win must be by (default: follows from calibration, 1 to 5)", 0},
    {"set", KEY_SET, "NAME=VALUE", 0, "change a constant of the measurement protocol", 0},
    {"quiet", 'q', NULL, 0, "show no progress", 0},
    {NULL, 0, NULL, 0, "About this program:", -1},
    {0},
};

static double number(struct argp_state *state, const char *name, const char *text, double least,
                     double most)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    if (end == text || *end || errno || !(v >= least && v <= most)) {
        argp_error(state, "--%s takes a number from %g to %g, not '%s'", name, least, most,
                   text);
    }
    return v;
}

static void parse_shape(struct argp_state *state, TuneOptions *o, const char *text)
{
    if (!shape_parse(text, &o->m, &o->n, &o->k)) {
        argp_error(state, "--shape takes m=M,n=N,k=K, each 1 or more, not '%s'", text);
    }
}

static void parse_set(struct argp_state *state, TuneOptions *o, char *text)
{
    char *equals = strchr(text, '=');
    Err err;
    if (!equals) {
        argp_error(state, "--set takes NAME=VALUE, not '%s'", text);
        return;
    }
    *equals = '\0';
    double v = number(state, "set", equals + 1, -1e12, 1e12);
    if (!protocol_set(&o->protocol, text, v, &err)) {
        argp_error(state, "--set: %s", err.text);
    }
}

static void set_command(struct argp_state *state, TuneOptions *o, const Command *c)
{
    if (o->command) {
        argp_error(state, "--%s and --%s do not go together", o->command->option, c->option);
    }
    o->command = c;
}

static void add_side(struct argp_state *state, TuneOptions *o, const char *word)
{
    if (o->command != &command_compare || o->side[1]) {
        argp_error(state, "there is nothing that '%s' would be for", word);
    }
    o->side[1] = word;
}

static void parse_ablate(struct argp_state *state, TuneOptions *o, const char *arg)
{
    if (arg && strcmp(arg, "all")) {
        argp_error(state, "--ablate takes nothing or =all, not '%s'", arg);
    }
    o->all_choices = arg != NULL;
    set_command(state, o, &command_ablate);
}

/* The options of what measures without a search. */
static error_t parse_command(int key, char *arg, struct argp_state *state)
{
    TuneOptions *o = state->input;
    switch (key) {
    case KEY_COMPARE:
    case KEY_AGAINST:
    case KEY_REPLAY:
        set_command(state, o,
                    key == KEY_COMPARE   ? &command_compare
                    : key == KEY_AGAINST ? &command_against
                                         : &command_replay);
        o->side[0] = arg;
        return 0;
    case KEY_RIVALS: set_command(state, o, &command_rivals); return 0;
    case KEY_NOISE: set_command(state, o, &command_noise); return 0;
    case KEY_ABLATE: parse_ablate(state, o, arg); return 0;
    case KEY_SEEDS: o->n_seeds = (int)number(state, "seeds", arg, 1, 100000); return 0;
    case ARGP_KEY_ARG: add_side(state, o, arg); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void check_options(struct argp_state *state, const TuneOptions *o)
{
    bool alone = o->command && o->command->alone;
    Err err;
    if (!protocol_agrees(&o->protocol, &err)) {
        argp_error(state, "--set: %s", err.text);
    }
    if (o->command == &command_compare && !o->side[1]) {
        argp_error(state, "--compare takes two schedules: --compare A B");
    }
    if (o->resume && (o->command || o->list || o->dry_run)) {
        argp_error(state, "--resume goes on with a search: it goes without --%s",
                   o->command ? o->command->option
                   : o->list  ? "list"
                              : "dry-run");
    }
    if (o->m && (o->kernel || o->model)) {
        argp_error(state, "--shape goes without --kernel and --model");
    }
    if (o->bf16 && !o->m) {
        argp_error(state, "--bf16 says where the weights of --shape come from");
    }
    if (!o->m && !o->kernel && !o->model && !o->list && !alone) {
        argp_error(state, "say what to tune: --kernel, --shape or --model; --list shows all");
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    TuneOptions *o = state->input;
    Err err;
    switch (key) {
    case 'k': o->kernel = arg; return 0;
    case 'q': o->quiet = true; return 0;
    case KEY_SHAPE: parse_shape(state, o, arg); return 0;
    case KEY_BF16: o->bf16 = true; return 0;
    case KEY_MODEL: o->model = arg; return 0;
    case KEY_DB: o->db = arg; return 0;
    case KEY_LIST: o->list = true; return 0;
    case KEY_DRY_RUN: o->dry_run = true; return 0;
    case KEY_RESUME:
        o->resume = true;
        o->resume_run = arg ? (int64_t)number(state, "resume", arg, 1, 0x1p53) : 0;
        return 0;
    case KEY_THREADS: o->n_threads = (int)number(state, "threads", arg, 1, 4096); return 0;
    case KEY_JOBS: o->n_jobs = (int)number(state, "jobs", arg, 1, 4096); return 0;
    case KEY_SEED: o->seed = (uint64_t)number(state, "seed", arg, 0, 9e15); return 0;
    case KEY_SET: parse_set(state, o, arg); return 0;
    case KEY_MARGIN:
        if (!protocol_set(&o->protocol, "margin", number(state, "margin", arg, 0, 50) / 100,
                          &err)) {
            argp_error(state, "--margin: %s", err.text);
        }
        return 0;
    case KEY_REGIME:
        o->regime = (Regime)word_place(regime_name, N_REGIMES, arg);
        if (strcmp(arg, regime_name[o->regime])) {
            argp_error(state, "--regime is hot or cold, not '%s'", arg);
        }
        o->regime_given = true;
        return 0;
    case KEY_STRATEGY:
        if (!strategy_parse(arg, &o->strategy)) {
            argp_error(state, "there is no strategy '%s'", arg);
        }
        o->strategy_given = true;
        return 0;
    case KEY_BUDGET:
        if (!budget_parse(arg, &o->budget, &err)) {
            argp_error(state, "%s", err.text);
        }
        return 0;
    case ARGP_KEY_END: check_options(state, o); return 0;
    default: return parse_command(key, arg, state);
    }
}

static const struct argp argp = {
    options,
    parse,
    "[B]",
    "Searches the schedules of kernels and records in the database what was tried and what won."
    "\vEvery candidate is verified against the naive nest in a process of its own before it is "
    "timed, in randomly ordered pairs with the best so far. What is called faster has won a "
    "match "
    "against the default across fresh processes; `report` shows the evidence. Exit status: 0 "
    "success, 1 failure with one sentence on stderr, 2 usage, 130 after Ctrl-C, which finishes "
    "the current candidate. Of --compare and --against the verdict: 0 B (the file) is FASTER, "
    "3 "
    "EQUIVALENT, 4 SLOWER, 5 UNDECIDED; of several tasks the greatest.",
    NULL,
    NULL,
    NULL};

static const char *joined(int argc, char **argv)
{
    static char words[2048];
    size_t len = 0;
    for (int i = 0; i < argc && len < sizeof words - 1; i++) {
        len += (size_t)snprintf(words + len, sizeof words - len, "%s%s", i ? " " : "",
                                i ? argv[i] : "tune");
    }
    return words;
}

int main(int argc, char **argv)
{
    program_name = "tune";
    if (argc > 1 && !strcmp(argv[1], CHILD_WORD)) {
        return child_main(argc, argv, rival_open);
    }
    if (argc > 1 && !strcmp(argv[1], KEEPER_WORD)) {
        return keeper_main(argc, argv, rival_open);
    }
    if (argc > 1 && !strcmp(argv[1], SAY_RIVALS_WORD)) {
        return rivals_say(argc, argv);
    }
    setlocale(LC_CTYPE, "");
    argp_err_exit_status = 2;
    TuneOptions o = {.strategy = STRATEGY_AUTO,
                     .budget = {.ns = 600000000000},
                     .seed = 1,
                     .n_seeds = 50,
                     .protocol = protocol_default(),
                     .words = joined(argc, argv)};
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    struct sigaction act = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &act, NULL);
    Env e;
    env_init(&e);
    bool ok = env_try(&e, tune_body, &o);
    int status = ok ? o.status : e.err.code == E_INTERRUPT ? 130 : 1;
    if (!ok) {
        fprintf(stderr, "tune: %s\n", e.err.text);
    }
    env_release(&e);
    return status;
}
