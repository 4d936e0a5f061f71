/* pack.c - options for the file that keeps a built library's weights as they are laid out: where it lies,
 * whether it is mapped or copied, how closely it is looked at. */
#include <string.h>

#include "cli/model.h"

enum { KEY_FILE = 1200, KEY_COPY, KEY_CHECK };

static const struct argp_option options[] = {
    {"pack-file", KEY_FILE, "FILE", OPTION_ARG_OPTIONAL,
     "keep the weights as they are laid out in this file, so that the next start only maps it "
     "(default: beside the library, with .pack for .so)",
     3},
    {"pack-copy", KEY_COPY, NULL, 0,
     "read that file into memory, in huge pages where there are some, instead of mapping it",
     3},
    {"pack-check", KEY_CHECK, NULL, 0,
     "look at every byte of that file, as --pack-copy does; else at 256 pieces of it", 3},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    PackOptions *o = state->input;
    switch (key) {
    case KEY_FILE:
        o->wanted = true;
        o->file = arg;
        return 0;
    case KEY_COPY: o->wanted = o->copy = true; return 0;
    case KEY_CHECK: o->wanted = o->check = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

const struct argp pack_argp = {.options = options, .parser = parse};

static void say(void *ctx, const char *sentence)
{
    (void)ctx;
    fprintf(stderr, "%s\n", sentence);
}

void pack_use(Env *e, const PackOptions *p, const char *lib, nc_options *o)
{
    size_t len = strlen(lib) - (text_ends_with(lib, ".so") ? 3 : 0);
    if (p->wanted) {
        o->pack = p->file ? p->file : arena_printf(&e->model, "%.*s.pack", (int)len, lib);
        o->pack_copy = p->copy;
        o->pack_check = p->check;
        o->note = say;
    }
}
