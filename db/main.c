/* main.c - the program schedb: care for the schedule database. A table of commands; what
 * they need besides db/ is wired in db/cli. */
#include <argp.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/cli/cli.h"

/* ---- output ---- */

void say(void *ctx, const char *sentence)
{
    SchedbOptions *o = ctx;
    o->n_told++;
    fprintf(stderr, "%s\n", sentence);
}

static _Noreturn void cannot_write(SchedbOptions *o)
{
    fail(o->e, E_IO, "%s cannot be written: %s.", o->output ? o->output : "Standard output",
         strerror(errno));
}

void write_out(void *ctx, const char *text, size_t len)
{
    SchedbOptions *o = ctx;
    if (fwrite(text, 1, len, o->out) != len) {
        cannot_write(o);
    }
}

/* /dev/stdout, a pipe: not to be replaced by a file. */
static bool is_device(const char *path)
{
    struct stat st;
    return os.stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

/* A file appears complete or not at all. */
static void with_output(SchedbOptions *o, void (*body)(Env *e, void *arg))
{
    const char *path = o->output;
    const char *temp = path && !is_device(path)
                           ? arena_printf(&o->e->model, "%s.%ld.tmp", path, (long)getpid())
                           : NULL;
    o->out = path ? fopen(temp ? temp : path, "w") : stdout;
    if (!o->out) {
        cannot_write(o);
    }
    bool ok = env_try(o->e, body, o);
    Err err = o->e->err;
    bool closed = (path ? fclose(o->out) : fflush(o->out)) == 0;
    if (ok && closed && (!temp || os.rename(temp, path) == 0)) {
        return;
    }
    int why = errno;
    if (temp) {
        os.unlink(temp);
    }
    if (!ok) {
        fail_err(o->e, &err);
    }
    errno = why;
    cannot_write(o);
}

/* ---- commands ---- */

static void cmd_init(SchedbOptions *o)
{
    printf("%s is ready (schema version %d).\n", db_path(o->db), DB_VERSION);
}

static void cmd_verify(SchedbOptions *o)
{
    int64_t n = db_verify(o->db, recount, say, o);
    if (n) {
        fail(o->e, E_INPUT, "%s has %lld faults.", db_path(o->db), (long long)n);
    }
    printf("%s is sound: %lld duels follow from their %lld pairs, %lld winners from their "
           "duels.\n",
           db_path(o->db), (long long)db_count(o->db, DB_T_DUEL),
           (long long)db_count(o->db, DB_T_PAIR), (long long)db_count(o->db, DB_T_WINNER));
}

static void tell_merged(const char *from, DbMerged m)
{
    printf("%s: %lld rows are new, %lld records were known, %lld conflicts.\n", from,
           (long long)m.n_added, (long long)m.n_known, (long long)m.n_conflicts);
}

/* merge INTO FROM: INTO is opened here, not --db. */
static void cmd_merge(SchedbOptions *o)
{
    tell_merged(o->word[1], db_merge(o->db, o->word[1], say, o));
}

typedef struct ExportFormat {
    const char *name;
    void (*export)(SchedbOptions *o);
} ExportFormat;

static void export_csv(SchedbOptions *o)
{
    db_export_csv(o->db, o->view ? o->view : "v_trials", write_out, o);
}

static void export_json(SchedbOptions *o)
{
    db_export_json(o->db, write_out, o);
}

static void export_t4(SchedbOptions *o)
{
    db_export_t4(o->db, o->run, write_out, o);
}

static void export_t4_metadata(SchedbOptions *o)
{
    db_export_t4_metadata(o->db, o->run, write_out, o);
}

static void export_cache(SchedbOptions *o)
{
    db_export_cache(o->db, o->run, o->task, write_out, o);
}

static const ExportFormat export_formats[] = {{"sched", export_sched},
                                              {"csv", export_csv},
                                              {"json", export_json},
                                              {"t4", export_t4},
                                              {"t4-metadata", export_t4_metadata},
                                              {"kernel-tuner", export_cache}};

static void export_body(Env *e, void *arg)
{
    SchedbOptions *o = arg;
    for (size_t i = 0; i < countof(export_formats); i++) {
        if (!strcmp(export_formats[i].name, o->format ? o->format : "sched")) {
            export_formats[i].export(o);
            return;
        }
    }
    fail(e, E_INPUT,
         "A database is exported as sched, csv, json, t4, t4-metadata or kernel-tuner, not as "
         "'%s'.",
         o->format);
}

static void cmd_export(SchedbOptions *o)
{
    with_output(o, export_body);
}

enum { MAX_FILE_BYTES = 1 << 30 };

static void cmd_import(SchedbOptions *o)
{
    Err err;
    char *text;
    size_t len;
    if (!os_read_file(&o->e->model, o->word[0], MAX_FILE_BYTES, &text, &len, &err)) {
        fail_err(o->e, &err);
    }
    if (text[strspn(text, " \t\r\n")] == '{') {
        tell_merged(o->word[0], db_import_json(o->db, text, len, o->word[0], say, o));
    } else {
        int n = import_sched(o, text, len, o->word[0]);
        printf("%s: %d rows are new.\n", o->word[0], n);
    }
}

static void cmd_vacuum(SchedbOptions *o)
{
    db_vacuum(o->db);
    printf("%s is as small as it can be.\n", db_path(o->db));
}

static void sql_body(Env *e, void *arg)
{
    (void)e;
    SchedbOptions *o = arg;
    show_query(o, o->word[0]);
}

static void cmd_sql(SchedbOptions *o)
{
    with_output(o, sql_body);
}

typedef struct Command {
    const char *name;
    int n_words;
    const char *args;
    DbMode mode;
    bool word_is_path; /* the first word is the database */
    void (*run)(SchedbOptions *o);
    const char *doc;
} Command;

static const Command commands[] = {
    {"init", 0, "", DB_WRITE, false, cmd_init,
     "make a database, or bring an older one up to date"},
    {"verify", 0, "", DB_READ, false, cmd_verify,
     "recompute every verdict from the raw pairs; names what does not follow from them"},
    {"merge", 2, "INTO FROM", DB_WRITE, true, cmd_merge,
     "add what FROM has to INTO, and say what they tell differently"},
    {"export", 0, "", DB_READ, false, cmd_export,
     "the winners as a .sched file, a view as CSV, everything as JSON, trials as T4 or for "
     "Kernel Tuner"},
    {"import", 1, "FILE", DB_WRITE, false, cmd_import,
     "a .sched file or a JSON export, all of it or nothing"},
    {"vacuum", 0, "", DB_WRITE, false, cmd_vacuum, "give unused space back"},
    {"sql", 1, "STATEMENT", DB_READ, false, cmd_sql, "show what a reading statement answers"},
};

/* ---- command line ---- */

const char *argp_program_version = "schedb " NC_VERSION;

enum { OPT_DB = 1000, OPT_FORMAT, OPT_VIEW, OPT_SIGNATURE, OPT_RUN, OPT_TASK };

static const struct argp_option options[] = {
    {"db", OPT_DB, "FILE", 0,
     "the database (default: $NANOCOMPILE_DB, else schedules.db in the data folder)", 0},
    {"format", OPT_FORMAT, "FORMAT", 0,
     "export: sched, csv, json, t4, t4-metadata, kernel-tuner; sql: text, md, csv, json", 0},
    {"output", 'o', "FILE", 0, "write there instead of to standard output", 0},
    {"view", OPT_VIEW, "NAME", 0, "export csv: this table or view (default: v_trials)", 0},
    {"signature", OPT_SIGNATURE, "LINE", 0,
     "export sched: of this machine, compiler, threads and regime", 0},
    {"run", OPT_RUN, "ID", 0, "export t4, t4-metadata, kernel-tuner: this run only", 0},
    {"task", OPT_TASK, "ID", 0, "export kernel-tuner: this task of the run", 0},
    {0}};

typedef struct CommandLine {
    SchedbOptions o;
    const Command *command;
} CommandLine;

static int64_t id_of(struct argp_state *state, const char *option, const char *text)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*end || end == text || errno || v < 1) {
        argp_error(state, "--%s takes an id, not '%s'", option, text);
    }
    return v;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    CommandLine *c = state->input;
    switch (key) {
    case OPT_DB: c->o.path = arg; return 0;
    case OPT_FORMAT: c->o.format = arg; return 0;
    case OPT_VIEW: c->o.view = arg; return 0;
    case OPT_SIGNATURE: c->o.signature = arg; return 0;
    case OPT_RUN: c->o.run = id_of(state, "run", arg); return 0;
    case OPT_TASK: c->o.task = id_of(state, "task", arg); return 0;
    case 'o': c->o.output = arg; return 0;
    case ARGP_KEY_ARG:
        if (c->o.n_words == c->command->n_words) {
            argp_error(state, "'%s' is one word too many", arg);
        }
        c->o.word[c->o.n_words++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (c->o.n_words < c->command->n_words) {
            argp_error(state, "say %s", c->command->args);
        }
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void usage(FILE *out)
{
    fprintf(
        out,
        "Usage: schedb COMMAND [OPTION...] [ARG...]\n"
        "The database of tuned schedules: what was tried, what won, and on what evidence.\n\n");
    for (size_t i = 0; i < countof(commands); i++) {
        fprintf(out, "  %-8s %-10s %s\n", commands[i].name, commands[i].args, commands[i].doc);
    }
    fprintf(out, "\nTables and views are described in db/schema.sql. `schedb COMMAND --help` "
                 "says more.\n"
                 "Exit status: 0 success, 1 failure with one sentence on stderr, 2 usage.\n");
}

static void command_body(Env *e, void *arg)
{
    CommandLine *c = arg;
    const char *path = c->command->word_is_path ? c->o.word[0] : c->o.path;
    c->o.e = e;
    c->o.db = db_must_open(e, path, c->command->mode);
    c->command->run(&c->o);
    if (fflush(stdout)) {
        cannot_write(&c->o);
    }
}

static int run_command(CommandLine *c)
{
    Env e;
    env_init(&e);
    bool ok = env_try(&e, command_body, c);
    if (!ok) {
        fprintf(stderr, "schedb: %s\n", e.err.text);
    }
    db_close(c->o.db);
    env_release(&e);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    argp_err_exit_status = 2;
    program_name = "schedb";
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-?") ||
        !strcmp(argv[1], "help")) {
        usage(argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        puts(argp_program_version);
        return 0;
    }
    for (size_t i = 0; i < countof(commands); i++) {
        if (!strcmp(argv[1], commands[i].name)) {
            char name[64];
            CommandLine c = {.command = &commands[i]};
            struct argp argp = {options, parse, commands[i].args, commands[i].doc, NULL,
                                NULL,    NULL};
            snprintf(name, sizeof name, "schedb %s", commands[i].name);
            argv[1] = name;
            argp_parse(&argp, argc - 1, argv + 1, 0, NULL, &c);
            return run_command(&c);
        }
    }
    fprintf(stderr, "schedb: there is no command '%s'; `schedb --help` lists them.\n", argv[1]);
    return 2;
}
