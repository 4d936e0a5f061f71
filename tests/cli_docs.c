/* cli_docs.c - what is written about the program is what the program does: every command and option of --help
 * is in the man page, every command in the README, completion offers them, and the README's examples print
 * what it says they print. */
#include "tests/cli_util.h"
#include "tests/env_fixture.h"
#include "tuner/tuner.h"

#include <stdlib.h>
#include <string.h>

TestSuite(cli_docs, .init = start, .fini = stop, .timeout = 120);

typedef Vec(const char *) Words;

/* The names of a listing in a help text: lines of two blanks, a word, two blanks. */
static Words listed(const char *help)
{
    Words out = {0};
    for (const char *line = help; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t len =
            strspn(line + (strncmp(line, "  ", 2) ? 0 : 2), "abcdefghijklmnopqrstuvwxyz");
        if (!strncmp(line, "  ", 2) && len && !strncmp(line + 2 + len, "  ", 2)) {
            *vec_push(&env.model, &out) = arena_strn(&env.model, line + 2, len);
        }
    }
    return out;
}

/* Every --word in it. */
static Words options_in(const char *help)
{
    Words out = {0};
    for (const char *at = help; (at = strstr(at, "--")); at += 2) {
        size_t len = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
        if (len && at[1 + len] != '-') {
            *vec_push(&env.model, &out) = arena_strn(&env.model, at, len + 2);
        }
    }
    return out;
}

static Words commands(void)
{
    Words all = listed(NC(&env, "--help").out);
    cr_assert_geq(all.n, 10, "%d commands", all.n);
    return all;
}

static const char *without_backslashes(const char *text)
{
    char *out = arena_str(&env.model, text), *to = out;
    for (; *text; text++) {
        *to = *text;
        to += *text != '\\';
    }
    *to = '\0';
    return out;
}

static void expect_in(const char *text, const char *word, const char *where)
{
    cr_expect(strstr(text, word), "%s says nothing of %s", where, word);
}

static bool is_usual(const char *option)
{
    return !strcmp(option, "--help") || !strcmp(option, "--usage") ||
           !strcmp(option, "--version");
}

Test(cli_docs, the_man_page_has_every_command_and_option)
{
    const char *page = without_backslashes(read_text(&env, "docs/man/nanocompile.1"));
    Words all = commands();
    for (int i = 0; i < all.n; i++) {
        const char *help = NC(&env, all.at[i], "--help").out;
        Words options = options_in(help), rows = listed(help);
        expect_in(page, all.at[i], "the man page");
        for (int k = 0; k < options.n; k++) {
            expect_in(page, is_usual(options.at[k]) ? "--help" : options.at[k], "the man page");
        }
        for (int k = 0; k < rows.n; k++) { /* what dump shows */
            expect_in(page, arena_printf(&env.model, "\n.B %s\n", rows.at[k]), "the man page");
        }
    }
}

/* ---- the man pages of the programs with one --help ---- */

/* The first words of a listing's lines, arguments or not behind them. */
static Words sections_of(const char *help)
{
    Words out = {0};
    for (const char *line = help; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        size_t len =
            strncmp(line, "  ", 2) ? 0 : strspn(line + 2, "abcdefghijklmnopqrstuvwxyz");
        if (len && line[2 + len] == ' ') {
            *vec_push(&env.model, &out) = arena_strn(&env.model, line + 2, len);
        }
    }
    return out;
}

/* As a man page writes it where it is explained; examples are bare. */
static const char *escaped(const char *option)
{
    Buf out;
    buf_init(&out, &env.model);
    for (; *option; option++) {
        buf_printf(&out, "%s%c", *option == '-' ? "\\" : "", *option);
    }
    return out.at;
}

/* Each of the help's options, with these characters or others than a name's behind it; how many there were. */
static int page_has_options(const char *page, const char *help, const char *behind)
{
    Words options = options_in(help);
    for (int i = 0; i < options.n; i++) {
        const char *name = escaped(options.at[i]), *at = page;
        size_t len = strlen(name);
        while ((at = strstr(at, name)) && (strspn(at + len, "abcdefghijklmnopqrstuvwxyz\\") ||
                                           strncmp(at + len, behind, strlen(behind)))) {
            at += len;
        }
        cr_expect(at || is_usual(options.at[i]), "the man page says nothing of %s", name);
    }
    return options.n;
}

static void page_has_sections(const char *page, Words names)
{
    for (int i = 0; i < names.n; i++) {
        cr_expect(strstr(page, arena_printf(&env.model, "\n.SS %s\n", names.at[i])) ||
                      strstr(page, arena_printf(&env.model, "\n.SS \"%s ", names.at[i])),
                  "the man page has no %s", names.at[i]);
    }
}

static const char *page_of(const char *program)
{
    return read_text(&env, arena_printf(&env.model, "docs/man/%s.1", program));
}

Test(cli_docs, the_man_page_of_schedb_has_every_command_and_option)
{
    const char *page = page_of("schedb"), *help = SCHEDB(&env, "export", "--help").out;
    static const char *names[] = {"init",   "verify", "merge", "export",
                                  "import", "vacuum", "sql"};
    page_has_sections(page, (Words){.at = names, .n = countof(names)});
    cr_expect_geq(page_has_options(page, help, "="), 7);
}

Test(cli_docs, the_man_page_of_report_has_every_command_and_option)
{
    const char *page = page_of("report"), *help = RUN(&env, "report", "--help").out;
    Words names = sections_of(help);
    cr_expect_geq(names.n, 14);
    page_has_sections(page, names);
    cr_expect_gt(page_has_options(page, help, ""), 3);
}

Test(cli_docs, the_man_page_of_tune_has_every_option)
{
    cr_expect_gt(page_has_options(page_of("tune"), TUNE(&env, "--help").out, ""), 14);
}

Test(cli_docs, the_readme_names_every_command)
{
    const char *readme = read_text(&env, "README.md");
    Words all = commands();
    for (int i = 0; i < all.n; i++) {
        expect_in(readme, arena_printf(&env.model, "`%s`", all.at[i]), "the README");
    }
}

Test(cli_docs, the_readme_shows_what_its_examples_print)
{
    const char *readme = read_text(&env, "README.md");
    const char *graph = "examples/linear.ncg";
    expect_in(readme, read_text(&env, graph), "the README");
    expect_in(readme, NC(&env, "dump", "loops", graph).out, "the README");
    expect_in(readme, NC(&env, "eval", graph, "--compare=interp,nest,c", "--seq=3").out,
              "the README");
}

/* What bash would offer behind these words of a program, one blank between two. */
static const char *completed_of(const char *program, const char *words)
{
    const char *script = arena_printf(&env.model,
                                      "source docs/completion/%s\n"
                                      "COMP_WORDS=(%s %s)\n"
                                      "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                                      "_nanocompile; echo \" ${COMPREPLY[*]} \"",
                                      program, built_program(&env, program), words);
    char *argv[] = {"bash", "-c", (char *)script, NULL};
    Buf out;
    int status;
    Err err;
    buf_init(&out, &env.model);
    if (!os_run(argv, NULL, 30000, 1 << 16, &out, &status, &err)) {
        cr_skip_test("%s", err.text);
    }
    return out.at;
}

static const char *completed(const char *words)
{
    return completed_of("nanocompile", words);
}

Test(cli_docs, completion_offers_what_help_lists)
{
    Words all = commands();
    const char *first = completed("''");
    for (int i = 0; i < all.n; i++) {
        Words options = options_in(NC(&env, all.at[i], "--help").out);
        const char *offered = completed(arena_printf(&env.model, "%s -", all.at[i]));
        expect_in(first, arena_printf(&env.model, " %s ", all.at[i]), "completion");
        for (int k = 0; k < options.n; k++) {
            expect_in(offered, arena_printf(&env.model, " %s ", options.at[k]), "completion");
        }
    }
}

Test(cli_docs, completion_knows_values)
{
    cr_expect_str_eq(completed("dump k"), " kernels keys \n");
    cr_expect_str_eq(completed("run --by ''"), " lib c nest interp \n");
    cr_expect_str_eq(completed("run --by = n"), " nest \n");
    cr_expect_str_eq(completed("eval --without ''"), " cse fold fuse \n");
    cr_expect_str_eq(completed("run --without ''"), " fuse cache specialise \n");
    cr_expect_str_eq(completed("eval --seq ''"), "  \n");
    cr_expect_str_eq(completed("eval examples/lin"), " examples/linear.ncg \n");
}

Test(cli_docs, completion_serves_every_program)
{
    cr_expect_str_eq(completed_of("schedb", "ver"), " verify \n");
    cr_expect(strstr(completed_of("schedb", "export --"), " --signature "));
    cr_expect_str_eq(completed_of("report", "fail"), " failures \n");
    cr_expect(strstr(completed_of("report", "trials --"), " --run "));
    cr_expect_str_eq(completed_of("report", "--format m"), " md \n");
    cr_expect_str_eq(completed_of("report", "summary --plot examples/lin"),
                     " examples/linear.ncg \n");
    cr_expect(strstr(completed_of("tune", "--"), " --strategy "));
    cr_expect_str_eq(completed_of("tune", "--regime = c"), " cold \n");
    cr_expect_str_eq(completed_of("tune", "--budget ''"), "  \n");
}

/* The few values that help texts do not list one by one. */
Test(cli_docs, completion_knows_the_words_of_other_tables)
{
    Buf names;
    buf_init(&names, &env.model);
    for (int i = 0; i < N_STRATEGIES; i++) {
        buf_printf(&names, " %s", strategy_name((StrategyId)i));
    }
    buf_str(&names, " \n");
    cr_expect_str_eq(completed_of("tune", "--strategy ''"), names.at);
    const char *sections = completed("explain --show ''");
    for (const char *at = sections + 1; *at != '\n'; at += strcspn(at, " ") + 1) {
        const char *word = arena_strn(&env.model, at, strcspn(at, " "));
        Ran r = NC(&env, "explain", "examples/linear.ncg", "--show", word);
        shows(r, word);
    }
}
