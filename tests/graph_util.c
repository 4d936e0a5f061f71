/* graph_util.c - small graphs for tests. */
#include "graph_util.h"

#include <string.h>

void world_init(World *w)
{
    env_init(&w->e);
    front_init(&w->f, &w->e, "g");
}

void world_release(World *w)
{
    env_release(&w->e);
}

Dim dim_from(Env *e, const char *text)
{
    return dim_parse(e, &text, "test");
}

Shape shape_from(Env *e, const char *text)
{
    Shape s = {.rank = 0};
    cr_assert_eq(*text, '[');
    text++;
    while (*text != ']') {
        s.dim[s.rank++] = dim_parse(e, &text, "test");
        text += strspn(text, ", ");
    }
    return s;
}

Node *operand(Front *f, const char *type)
{
    Env *e = f->g->env;
    const char *bracket = strchr(type, '[');
    Dtype t = DT_F32;
    cr_assert(bracket && dtype_parse(type, (size_t)(bracket - type), &t), "%s", type);
    const char *name = arena_printf(&e->model, "x%d", f->g->inputs.n);
    return f_input(f, name, t, shape_from(e, bracket));
}

Node *make1(Front *f, Op op, Attr attr, Node *a)
{
    return node_make(f->g->env, op, &a, 1, &attr, 0);
}

Node *make2(Front *f, Op op, Attr attr, Node *a, Node *b)
{
    return node_make(f->g->env, op, (Node *[]){a, b}, 2, &attr, 0);
}

Node *make3(Front *f, Op op, Attr attr, Node *a, Node *b, Node *c)
{
    return node_make(f->g->env, op, (Node *[]){a, b, c}, 3, &attr, 0);
}

const char *type_of(Front *f, const Node *n)
{
    return node_type_text(f->g->env, n);
}

Graph *finished(Front *f, Node *out)
{
    graph_output(f->g, "y", out);
    graph_finish(f->g);
    return f->g;
}

const char *ops_of(const Graph *g)
{
    Buf b;
    buf_init(&b, &g->env->kernel);
    for (int i = 0; i < g->nodes.n; i++) {
        Op op = g->nodes.at[i]->op;
        if (op != OP_INPUT && op != OP_WEIGHT) {
            buf_printf(&b, "%s%s", b.len ? " " : "", op_info[op].name);
        }
    }
    return b.at;
}

typedef struct Attempt {
    World w;
    void (*build)(Front *f);
} Attempt;

static void attempt(Env *e, void *arg)
{
    (void)e;
    Attempt *a = arg;
    a->build(&a->w.f);
}

void assert_rejects(void (*build)(Front *f), ErrCode code, const char *message)
{
    Attempt a = {.build = build};
    world_init(&a.w);
    bool built = env_try(&a.w.e, attempt, &a);
    cr_assert(!built, "was accepted; expected: %s", message);
    cr_expect_str_eq(a.w.e.err.text, message);
    cr_expect_eq(a.w.e.err.code, code, "%s", err_name(a.w.e.err.code));
    world_release(&a.w);
}
