/* explain_code.c - the kernel that a call site is built with, as text: its nest after every step, its C,
 * and its machine code as objdump reads it out of the object that every build links. */
#include <string.h>

#include "cli/explain.h"

enum { MAX_LISTING_BYTES = 16 << 20, OBJDUMP_MS = 60000 };

void code_loops(const Here *h, const Answer *a, Buf *out)
{
    Env *e = h->e;
    for (int n = 0; n <= a->schedule.n; n++) {
        Err err;
        const Kernel *k = kernel_schedule(e, &e->model, a->site->kernel, &a->schedule, n, &err);
        if (!k) {
            fail_err(e, &err);
        }
        buf_printf(out, "%s# %s\n", n ? "\n" : "", k->schedule ? k->schedule : "no steps");
        nest_print(e, k, out);
        env_reset_kernel(e);
    }
}

void code_c(const Here *h, const Answer *a, Buf *out)
{
    Compile c = {.env = h->e, .target = h->tc.target};
    compile_kernel(&c, a->built, out);
}

/* The object that every build links. */
static const char *object_of(const Here *h, const Kernel *k)
{
    Cache cache;
    Kernel *one = (Kernel *)k;
    const char *path;
    cache_open(h->e, &cache, NULL);
    cache_objects(h->e, &cache, &h->tc, &one, 1, 1, &path);
    return path;
}

/* Without objdump's own lines about the file, which name a place in the cache. */
static const char *listing_of(const char *text)
{
    const char *at = strstr(text, "Disassembly of section");
    return at ? at : text;
}

void code_asm(const Here *h, const Answer *a, Buf *out)
{
    Buf text;
    int status;
    Err err;
    const char *object = object_of(h, a->built);
    char *argv[] = {"objdump", "-d", "--no-show-raw-insn", (char *)object, NULL};
    buf_init(&text, &h->e->model);
    if (!os_run(argv, h->tc.env, OBJDUMP_MS, MAX_LISTING_BYTES, &text, &status, &err)) {
        buf_printf(out, "No disassembly: %s It comes with Debian's binutils.\n", err.text);
    } else if (status != 0) {
        buf_printf(out, "No disassembly: objdump says: %.300s\n", text.at);
    } else {
        buf_str(out, listing_of(text.at));
    }
}
