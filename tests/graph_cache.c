/* graph_cache.c - the passes cache and specialise on graphs: what the cache pass recognises
 * and what it leaves alone, the graph it makes, that both keep what the graph computes, and
 * what specialise refuses. */
#include "ncg_util.h"
#include "tests/compile_util.h"
#include "tests/env_fixture.h"

#include <string.h>

TestSuite(graph_cache, .init = start, .fini = stop);
TestSuite(graph_specialise, .init = start, .fini = stop);

/* Two layers that sum over old and fresh rows. */
static const char two[] = "graph two\n"
                          "x = input f32[2, seq, 3]\n"
                          "past_k = input f32[2, 2, past, 3]\n"
                          "p0 = slice past_k axis=0 start=0 stop=1\n"
                          "r0 = reshape p0 shape=[2, past, 3]\n"
                          "k0 = neg x\n"
                          "j0 = concat r0, k0 axis=1\n"
                          "s0 = reduce_sum j0 axis=1\n"
                          "b0 = broadcast s0 shape=[2, seq, 3]\n"
                          "k1 = add x, b0\n"
                          "p1 = slice past_k axis=0 start=1 stop=2\n"
                          "r1 = reshape p1 shape=[2, past, 3]\n"
                          "j1 = concat r1, k1 axis=1\n"
                          "y = reduce_sum j1 axis=1\n"
                          "o0 = reshape k0 shape=[1, 2, seq, 3]\n"
                          "o1 = reshape k1 shape=[1, 2, seq, 3]\n"
                          "k = concat o0, o1 axis=0\n"
                          "return y=y, k=k\n";

static const char two_cached[] = "graph two\n"
                                 "x = input f32[2, seq, 3]\n"
                                 "cache_k = input f32[2, 2, capacity, 3]\n"
                                 "past = input bool[past, 0]\n"
                                 "%3 = neg x\n"
                                 "%4 = reshape %3 shape=[1, 2, seq, 3]\n"
                                 "%5 = update cache_k, %4 at=[0, 0, past, 0]\n"
                                 "%6 = slice %5 axis=0 start=0 stop=1\n"
                                 "%7 = reshape %6 shape=[2, capacity, 3]\n"
                                 "%8 = slice %7 axis=1 start=0 stop=past + seq\n"
                                 "%9 = reduce_sum %8 axis=1\n"
                                 "%10 = broadcast %9 shape=[2, seq, 3]\n"
                                 "%11 = add x, %10\n"
                                 "%12 = reshape %11 shape=[1, 2, seq, 3]\n"
                                 "%13 = update %5, %12 at=[1, 0, past, 0]\n"
                                 "%14 = slice %13 axis=0 start=1 stop=2\n"
                                 "%15 = reshape %14 shape=[2, capacity, 3]\n"
                                 "%16 = slice %15 axis=1 start=0 stop=past + seq\n"
                                 "%17 = reduce_sum %16 axis=1\n"
                                 "return y=%17, k=%13\n";

static void rewrites(Env *e, void *arg)
{
    (void)arg;
    cr_expect_str_eq(printed(graph_cache(parsed(e, two))), two_cached);
    cr_expect_str_eq(printed(graph_cache(graph_cse(parsed(e, two)))), two_cached);
}

Test(graph_cache, rewrites_every_layer_and_the_output)
{
    must_work(&env, rewrites, NULL);
}

/* ---- what is left alone ---------------------------------------- */

/* `two` with one piece of its text replaced. */
static const char *edited(Env *e, const char *old, const char *new)
{
    const char *at = strstr(two, old);
    cr_assert(at, "%s", old);
    return arena_printf(&e->model, "%.*s%s%s", (int)(at - two), two, new, at + strlen(old));
}

static void unchanged(Env *e, void *arg)
{
    static const char *const edits[][2] = {
        {"return y=y, k=k", "return y=y"},
        {"return y=y, k=k", "return y=y, k=o1"},
        {"return y=y, k=k", "return y=y, k=k, again=k"},
        {"return y=y, k=k", "z = neg k\nreturn y=y, k=k, z=z"},
        {"return y=y, k=k", "z = neg past_k\nreturn y=y, k=k, z=z"},
        {"return y=y, k=k", "z = neg r1\nreturn y=y, k=k, z=z"},
        {"return y=y, k=k", "z = input f32[capacity]\nreturn y=y, k=k, z=z"},
        {"return y=y, k=k", "cache_k = input f32[2]\nreturn y=y, k=k, z=cache_k"},
        {"return y=y, k=k", "z = input \"past\" f32[2]\nreturn y=y, k=k, z=z"},
        {"concat r0, k0", "concat k0, r0"},
        {"concat r1, k1 axis=1", "concat r1, k1, k1 axis=1"},
        {"concat o0, o1", "concat o1, o0"},
        {"slice past_k axis=0 start=1 stop=2", "slice past_k axis=0 start=0 stop=1"},
        {"o1 = reshape k1", "o1 = reshape k0"},
    };
    (void)arg;
    for (size_t i = 0; i < countof(edits); i++) {
        const Graph *g = parsed(e, edited(e, edits[i][0], edits[i][1]));
        cr_expect_eq(graph_cache(g), g, "%s", edits[i][1]);
    }
    const Graph *plain = parsed(e, "graph g\nx = input f32[seq]\ny = neg x\nreturn y=y\n");
    cr_expect_eq(graph_cache(plain), plain);
}

Test(graph_cache, leaves_every_other_graph_alone)
{
    must_work(&env, unchanged, NULL);
}

static void other_name(Env *e, void *arg)
{
    (void)arg;
    const char *text = arena_str(&e->model, two);
    for (char *at = (char *)text; (at = strstr(at, "past_k"));) {
        memcpy(at, "last_k", 6);
    }
    const Graph *g = parsed(e, text);
    cr_expect_eq(graph_cache(g), g);
}

Test(graph_cache, goes_by_the_name_past_too)
{
    must_work(&env, other_name, NULL);
}

static void twice(Env *e, void *arg)
{
    (void)arg;
    const Graph *once = graph_cache(parsed(e, two));
    cr_expect_eq(graph_cache(once), once);
}

Test(graph_cache, does_it_once)
{
    must_work(&env, twice, NULL);
}

/* ---- odd places of what belongs to it ---------------------------------------- */

/* The fresh rows come first among the outputs: they are met before the layers have been. */
static void output_first(Env *e, void *arg)
{
    (void)arg;
    const Graph *g = graph_cache(parsed(e, edited(e, "return y=y, k=k", "return k=k, y=y")));
    const Node *k = g->outputs.at[0].node;
    cr_expect_eq(k->op, OP_UPDATE);
    cr_expect_eq(k->in[0]->op, OP_UPDATE);
    cr_expect_eq(k->in[0]->in[0], g->inputs.at[1]);
}

Test(graph_cache, finds_the_output_wherever_it_stands)
{
    must_work(&env, output_first, NULL);
}

static void past_is_bound(Env *e, void *arg)
{
    (void)arg;
    const Graph *g = graph_cache(
        parsed(e, edited(e, "return y=y, k=k", "z = input f32[past]\nreturn y=y, k=k, z=z")));
    cr_assert_eq(g->inputs.n, 3);
    cr_expect_str_eq(g->inputs.at[2]->attr.name, "z");
}

Test(graph_cache, adds_no_input_where_another_binds_past)
{
    must_work(&env, past_is_bound, NULL);
}

/* ---- the model ---------------------------------------- */

static int count(const Graph *g, Op op)
{
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        n += g->nodes.at[i]->op == op;
    }
    return n;
}

static void model(Env *e, void *arg)
{
    static const char *const inputs[][2] = {{"token_ids", "i64[seq]"},
                                            {"cache_keys", "f32[24, 2, capacity, 64]"},
                                            {"cache_values", "f32[24, 2, capacity, 64]"},
                                            {"past", "bool[past, 0]"}};
    (void)arg;
    const Graph *plain = model_graph(e, size_05b, true), *g = graph_cache(plain);
    cr_assert_eq(g->inputs.n, 4);
    for (int i = 0; i < 4; i++) {
        cr_expect_str_eq(g->inputs.at[i]->attr.name, inputs[i][0]);
        cr_expect_str_eq(node_type_text(e, g->inputs.at[i]), inputs[i][1]);
    }
    for (int i = 0; i < 3; i++) {
        cr_expect_str_eq(g->outputs.at[i].name, plain->outputs.at[i].name);
    }
    cr_expect_str_eq(node_type_text(e, g->outputs.at[1].node), "f32[24, 2, capacity, 64]");
    cr_expect_eq(count(g, OP_UPDATE), 48);
    cr_expect_eq(count(plain, OP_CONCAT) - count(g, OP_CONCAT), 50);
    cr_expect_eq(plain->nodes.n, 3657);
    cr_expect_eq(g->nodes.n, 3704);
}

Test(graph_cache, of_the_model_has_an_update_a_layer_and_no_concat_of_the_history)
{
    must_work(&env, model, NULL);
}

/* ---- specialise ---------------------------------------- */

static void symbol_goes(Env *e, void *arg)
{
    (void)arg;
    Graph *g = parsed(
        e, "graph g\nx = input f32[seq, 2*rows]\ny = input f32[rows]\n"
           "i = iota i64[2*rows, seq] axis=0\nd = dim rows*rows + 1\ne = dim rows + seq\n"
           "s = slice x axis=1 start=rows - 1 stop=2*rows - 1\n"
           "u = update x, s at=[0, rows]\n"
           "return x=x, i=i, d=d, e=e, u=u, y=y\n");
    cr_expect_str_eq(printed(graph_specialise(g, sym_intern(e, "rows", 4), 3)),
                     "graph g\nx = input f32[seq, 6]\ny = input f32[3]\n"
                     "%2 = iota i64[6, seq] axis=0\n%3 = const i64[] 10\n%4 = dim seq + 3\n"
                     "%5 = slice x axis=1 start=2 stop=5\n"
                     "%6 = update x, %5 at=[0, 3]\n"
                     "return x=x, i=%2, d=%3, e=%4, u=%6, y=y\n");
}

Test(graph_specialise, replaces_the_symbol_everywhere)
{
    must_work(&env, symbol_goes, NULL);
}

static void all_symbols(Env *e, void *arg)
{
    (void)arg;
    const Graph *g = model_graph(e, size_tiny, false);
    g = graph_specialise(g, sym_intern(e, "seq", 3), 1);
    cr_expect_eq(g->symbols.n, 1);
    g = graph_specialise(g, sym_intern(e, "past", 4), 0);
    cr_expect_eq(g->symbols.n, 0);
    cr_expect_eq(g->inputs.n, 3);
    cr_expect_eq(count(g, OP_DIM), 0);
}

Test(graph_specialise, can_leave_a_graph_without_symbols)
{
    must_work(&env, all_symbols, NULL);
}

static void either_order(Env *e, void *arg)
{
    (void)arg;
    Sym seq = sym_intern(e, "seq", 3);
    const Graph *g = model_graph(e, size_tiny, true);
    cr_expect(graph_eq(graph_cache(graph_specialise(g, seq, 1)),
                       graph_specialise(graph_cache(g), seq, 1)));
}

Test(graph_specialise, and_cache_give_one_graph_in_either_order)
{
    must_work(&env, either_order, NULL);
}

/* The mask, the rope tables and the last row are right at the size that is gone. */
static void same_values(Env *e, void *arg)
{
    (void)arg;
    for (int64_t seq = 1; seq <= 4; seq += 3) {
        const Graph *g = model_graph(e, size_tiny, true);
        const Graph *known = graph_specialise(g, sym_intern(e, "seq", 3), seq);
        Args args = model_args(e, g, seq, 5, 3);
        Tensor want[3], got[3];
        Err err;
        cr_assert(graph_interpret(g, &args, NULL, &e->model, want, &err), "%s", err.text);
        cr_assert(graph_interpret(known, &args, NULL, &e->model, got, &err), "%s", err.text);
        assert_same_bits(g, want, got, "specialised");
    }
}

Test(graph_specialise, keeps_every_value)
{
    must_work(&env, same_values, NULL);
}

typedef struct Refused {
    const char *symbol;
    int64_t value;
} Refused;

static void specialise_body(Env *e, void *arg)
{
    const Refused *r = arg;
    Graph *g = parsed(
        e,
        "graph g\nx = input f32[seq]\ny = slice x axis=0 start=seq - 2 stop=seq\nreturn y=y\n");
    graph_specialise(g, sym_intern(e, r->symbol, strlen(r->symbol)), r->value);
}

static void refuses(const char *symbol, int64_t value, ErrCode code, const char *words)
{
    Refused r = {symbol, value};
    must_fail(&env, specialise_body, &r, code, words);
}

Test(graph_specialise, refuses_what_cannot_be)
{
    refuses("rows", 1, E_INPUT, "cannot be specialised to rows = 1: it has no such symbol");
    refuses("seq", -1, E_INPUT, "cannot be specialised to seq = -1: a size is not negative");
    refuses("seq", 1, E_SHAPE, "slice: start -1 is negative");
}
