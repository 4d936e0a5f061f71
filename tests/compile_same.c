/* compile_same.c - same input, same bytes out: twice in one process, in two processes, and under every
 * compiler's build of nanocompile (the golden hash is the same for all of them). */
#include "tests/compile_util.h"

#include <stdlib.h>
#include <string.h>

/* XXH3-128 of `dump c` of the 24-layer model, fused and not. Whoever changes the emitted C
 * changes these two lines, and says so. */
#define GOLDEN_FUSED "490035503ae80674728700951c846a7b"
#define GOLDEN_UNFUSED "c945fbd7f4a02e7e68336d3dc5a85dc2"

static void emit_all(Env *e, unsigned without, Buf *out)
{
    Compile c;
    Program *p = compiled(e, model_graph(e, size_05b, true), without, &c);
    for (int i = 0; i < p->kernel.n; i++) {
        compile_kernel(&c, p->kernel.at[i], out);
    }
}

static void twice(Env *e, void *arg)
{
    Buf first, second;
    (void)arg;
    for (unsigned without = 0; without <= ALL_STAGES; without += ALL_STAGES) {
        buf_init(&first, &e->model);
        buf_init(&second, &e->model);
        emit_all(e, without, &first);
        emit_all(e, without, &second);
        cr_assert(first.len > 5000);
        cr_assert_str_eq(first.at, second.at);
    }
}

Test(same_bytes, twice_in_one_process)
{
    Env e;
    env_init(&e);
    must_work(&e, twice, NULL);
    env_release(&e);
}

static void golden(Env *e, void *arg)
{
    Buf text;
    char hex[33];
    (void)arg;
    buf_init(&text, &e->model);
    emit_all(e, 0, &text);
    hash_hex(hash_bytes(text.at, text.len), hex);
    cr_expect_str_eq(hex, GOLDEN_FUSED);
    buf_clear(&text);
    emit_all(e, ALL_STAGES, &text);
    hash_hex(hash_bytes(text.at, text.len), hex);
    cr_expect_str_eq(hex, GOLDEN_UNFUSED);
}

Test(same_bytes, under_every_build)
{
    Env e;
    env_init(&e);
    must_work(&e, golden, NULL);
    env_release(&e);
}

/* The names of symbols and of the graph are nothing to a kernel. */
static void renamed(Env *e, void *arg)
{
    static const char *const texts[] = {
        "graph one\nx = input f32[seq, 4]\ny = neg x\nreturn y=y\n",
        "graph two\nother = input f32[rows, 4]\nz = neg other\nreturn out=z\n"};
    Hash h[2];
    (void)arg;
    for (int i = 0; i < 2; i++) {
        Program *p = compiled(e, ncg_parse(e, texts[i], strlen(texts[i]), "test.ncg"), 0, NULL);
        h[i] = p->kernel.at[0]->hash;
    }
    cr_expect(hash_eq(h[0], h[1]));
}

Test(same_bytes, names_do_not_reach_the_key)
{
    Env e;
    env_init(&e);
    must_work(&e, renamed, NULL);
    env_release(&e);
}
