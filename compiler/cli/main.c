/* main.c - the program nanocompile: a table of commands. Each command is a file beside this one. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

typedef struct Command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *doc;
} Command;

/* clang-format off */
static const Command commands[] = {
    {"build", cmd_build, "compile a model into one library"},
    {"run", cmd_run, "continue or answer a prompt with a model"},
    {"chat", cmd_chat, "a conversation on the terminal"},
    {"perplexity", cmd_perplexity, "how well a model foretells a text"},
    {"logits", cmd_logits, "logits of every position, as a NumPy file"},
    {"tokenize", cmd_tokenize, "text to token ids"},
    {"detokenize", cmd_detokenize, "token ids to text"},
    {"synth", cmd_synth, "write a model folder with seeded random weights"},
    {"dump", cmd_dump, "show a model at some stage: graph, kernels, loops, C, plan, traffic ..."},
    {"eval", cmd_eval, "run a graph by interpreter, nest interpreter or C; compare them"},
    {"bench", cmd_bench, "a generated kernel against others, alternated in one process"},
    {"explain", cmd_explain, "which schedule a build takes for a call site, and why not a better one"},
    {"check", cmd_check, "what this machine and its tools can do, and what to do about the rest"},
};
/* clang-format on */

const char *argp_program_version = "nanocompile " NC_VERSION;

static void usage(FILE *out)
{
    fprintf(
        out,
        "Usage: nanocompile COMMAND [OPTION...] [ARG...]\n"
        "A tensor compiler for small transformers: graphs of 26 primitives to verified C.\n\n");
    for (size_t i = 0; i < countof(commands); i++) {
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].doc);
    }
    fprintf(
        out,
        "\nA chat model as Hugging Face serves it, for instance Qwen2.5-0.5B-Instruct, is a "
        "folder with\n"
        "config.json, generation_config.json, model.safetensors, tokenizer.json and\n"
        "tokenizer_config.json. To talk to it, or to ask it one thing:\n\n"
        "  nanocompile chat --model Qwen2.5-0.5B-Instruct\n"
        "  nanocompile run --model Qwen2.5-0.5B-Instruct --prompt \"What is 2+2?\"\n\n"
        "`nanocompile COMMAND --help` says more. Exit status: 0 success, 1 failure with one\n"
        "sentence on stderr, 2 usage, 130 after Ctrl-C.\n");
}

int cli_run(void (*body)(Env *e, void *arg), void *arg)
{
    Env e;
    int status = 0;
    env_init(&e);
    if (!env_try(&e, body, arg)) {
        fflush(stdout);
        fprintf(stderr, "%s: %s\n", program_name, e.err.text);
        status = e.err.code == E_INTERRUPT ? 130 : 1;
    }
    env_release(&e);
    return status;
}

void cli_flush(Buf *out)
{
    if (fwrite(out->at, 1, out->len, stdout) != out->len || fflush(stdout)) {
        die("standard output cannot be written: %m.");
    }
    buf_clear(out);
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    argp_err_exit_status = 2;
    program_name = "nanocompile";
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
            snprintf(name, sizeof name, "nanocompile %s", commands[i].name);
            argv[1] = name;
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "nanocompile: there is no command '%s'; `nanocompile --help` lists them.\n",
            argv[1]);
    return 2;
}
