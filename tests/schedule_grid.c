/* schedule_grid.c - whole grids of schedules, at every size from 1 to 40: the scheduled nest against the naive
 * one for all, and C against the nest for a seeded sample. NC_FULL tries every size with every schedule. */
#include <stdlib.h>

#include "tests/bench_fixture.h"

TestSuite(schedule_grid, .init = start, .fini = stop, .timeout = 3600);

#define MAX_SIZE 40
#define MAX_GRID 2048

typedef struct Grid {
    const Kernel *k;
    int n;
    const char *schedule[MAX_GRID];
} Grid;

static void grid_add(Grid *g, const char *fmt, ...) PRINTF(2, 3);
static void grid_add(Grid *g, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    cr_assert(g->n < MAX_GRID);
    g->schedule[g->n++] = arena_str(&env.model, text);
}

static void check_nest(Env *e, const Grid *g, const Kernel *k, int64_t size)
{
    int64_t syms[2] = {size, (size * 7) % (MAX_SIZE + 1)};
    Case c = {.naive = g->k, .k = k};
    Bench b = {.e = e};
    bench_check_nest(&b, &c, syms, 1 + (int)(size % 3), (uint64_t)size);
}

/* Each schedule at a few sizes, so that together they meet all of 1 to 40; C for one in eight. */
static void run_grid(Env *e, void *arg)
{
    const Grid *g = arg;
    int step = getenv("NC_FULL") ? 1 : 13;
    cr_assert_geq(g->n, 200, "only %d schedules", g->n);
    for (int i = 0; i < g->n; i++) {
        const Kernel *k = kernel_under(e, g->k, g->schedule[i]);
        for (int64_t size = 1 + i % step; size <= MAX_SIZE; size += step) {
            check_nest(e, g, k, size);
        }
        if (i % 8 == 3) {
            bench_add(&bench, g->k, g->schedule[i]);
        }
    }
    bench_compile(&bench, NULL);
    for (int64_t size = 1; size <= MAX_SIZE; size += step) {
        bench_check_all(&bench, (int64_t[]){size, (size * 7) % (MAX_SIZE + 1)});
    }
    bench_close(&bench);
}

static void contraction(Env *e, void *arg)
{
    static const char *const tails[] = {"peel", "mask", "switch"};
    Grid *g = arg;
    g->k = kernel_of_graph(
        e,
        "graph g\nx = input f32[seq, 11]\nw = weight f32[37, 11]\nt = permute w perm=[1, 0]\n"
        "y = matmul x, t\nreturn y=y\n");
    for (int mr = 1; mr <= 14; mr++) {
        for (int nr = 4; nr <= 32; nr *= 2) {
            for (int t = 0; t < 3; t++) {
                grid_add(g,
                         "split n %d pad; split m %d %s; order n.o m.o k m.i n.i; vec n.i; "
                         "unroll m.i; %spack b n.o,k,n.i; par n.o",
                         nr, mr, tails[t], mr % 2 ? "fma; " : "");
                grid_add(g,
                         "split m %d %s; split n %d %s; split k %d %s; order m.o n.o k.o k.i "
                         "m.i n.i%s",
                         mr, tails[t], nr, tails[(t + 1) % 3], 1 + mr % 5, tails[(t + 2) % 3],
                         nr > 8 ? "; par m.o" : "; unroll m.i");
            }
        }
    }
    run_grid(e, g);
}

Test(schedule_grid, contractions)
{
    Grid *g = calloc(1, sizeof *g);
    must_work(&env, contraction, g);
    free(g);
}

static void row(Env *e, void *arg)
{
    static const char *const tails[] = {"peel", "mask", "switch"};
    Grid *g = arg;
    g->k =
        kernel_of_graph(e, "graph g\nx = input f32[seq, past]\nm = reduce_max x axis=-1\n"
                           "mb = broadcast m shape=[seq, past]\nd = sub x, mb\ne = exp d\ns = "
                           "reduce_sum e axis=-1\n"
                           "sb = broadcast s shape=[seq, past]\ny = div e, sb\nreturn y=y\n");
    for (int w = 2; w <= 32; w *= 2) {
        for (int way = 0; way < 48; way++) {
            grid_add(g, "%s%ssplit r %d peel; %ssplit j %d %s; vec j.i; %s",
                     way & 1 ? "approx exp; " : "", way & 2 ? "keep t2 r; " : "", w,
                     way & 4 ? "acc r.i; vec r.i; " : "", w, tails[way / 16],
                     way & 8 ? "split i 2 peel; par i.o" : "par i");
        }
    }
    run_grid(e, g);
}

Test(schedule_grid, rows)
{
    Grid *g = calloc(1, sizeof *g);
    must_work(&env, row, g);
    free(g);
}

static void pointwise(Env *e, void *arg)
{
    static const char *const tails[] = {"peel", "mask", "switch"};
    Grid *g = arg;
    g->k = kernel_of_graph(
        e,
        "graph g\nx = input f32[seq, past]\nz = input f32[seq, past]\na = mul x, z\nb = exp a\n"
        "c = add b, x\nd = sqrt c\nreturn d=d\n");
    for (int w = 2; w <= 64; w *= 2) {
        for (int way = 0; way < 36; way++) {
            grid_add(g, "split j %d %s; split i %d %s; order i.o %s; vec j.i%s%s", w,
                     tails[way % 3], 1 + way % 5, tails[way / 3 % 3],
                     way & 1 ? "j.o i.i j.i" : "i.i j.o j.i", way % 4 < 2 ? "; approx exp" : "",
                     way > 17 ? "; par i.o" : "; unroll i.i");
        }
    }
    run_grid(e, g);
}

Test(schedule_grid, elementwise)
{
    Grid *g = calloc(1, sizeof *g);
    must_work(&env, pointwise, g);
    free(g);
}
