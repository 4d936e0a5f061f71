/* ncg_util.c - text to graph and back, asserting success. */
#include "ncg_util.h"

#include <criterion/criterion.h>
#include <string.h>

void parse_text(Env *e, void *arg)
{
    Text *t = arg;
    t->g = ncg_parse(e, t->at, t->len, "t.ncg");
}

Graph *parsed(Env *e, const char *text)
{
    Text t = {.at = text, .len = strlen(text)};
    cr_assert(env_try(e, parse_text, &t), "%s", e->err.text);
    return t.g;
}

const char *printed(const Graph *g)
{
    Buf b;
    buf_init(&b, &g->env->kernel);
    ncg_print(g, &b);
    return b.at;
}
