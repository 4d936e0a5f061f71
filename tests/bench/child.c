/* child.c (bench) - candidates a second, split into what they cost: random schedules of a
 * kernel are compiled, in batches as tune does it, then each meets the default in a process of
 * its own, cold and on all threads, until the rule for losers or winners ends it. Prints
 * markdown. Run from the source folder: make bench. */
#include "tests/bench/tune_program.h"
#include "tuner/tuner.h"

#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_CANDIDATES = 96, /* the first pays for what the others find laid */
    BATCH = 8,
    MARGIN_E4 = 100
};

typedef struct Subject {
    const char *name;
    int64_t m, n, k;
    double bar; /* candidates a second */
} Subject;

static const Subject subjects[] = {{"1x896x896", 1, 896, 896, 5},
                                   {"64x4864x896", 64, 4864, 896, 2}};

typedef struct Cost { /* ns in all */
    uint64_t compile, verify, lay, time, process;
    int n_ok, n_pairs;
} Cost;

typedef struct Course {
    const Subject *of;
    const char *tune; /* the program whose children measure */
    Machine machine;
    Toolchain tc;
    Cache cache;
    Kernel *naive;
    Task task;
    Attempt first, made[N_CANDIDATES];
    Cost cost;
} Course;

static Kernel *product(Env *e, const Subject *s)
{
    const char *text =
        arena_printf(&e->model,
                     "graph product\nx = input f32[m, %lld]\nw = weight f32[%lld, %lld]\n"
                     "t = permute w perm=[1, 0]\ny = matmul x, t\nreturn y=y\n",
                     (long long)s->k, (long long)s->n, (long long)s->k);
    Compile c = {.env = e};
    return compile_model(&c, ncg_parse(e, text, strlen(text), "product"))->kernel.at[0];
}

static void compile_all(Env *e, Course *c)
{
    Space space;
    Rng r;
    Schedule s[N_CANDIDATES];
    PickHint hint = {.target = c->tc.target,
                     .l1d_bytes = c->machine.l1d_bytes,
                     .l2_bytes = c->machine.l2_bytes,
                     .l3_bytes = c->machine.l3_bytes,
                     .n_threads = c->machine.n_threads};
    hint.sym[0] = c->of->m;
    schedule_default(e, c->naive, &hint, &s[0]);
    candidates_build(e, &e->model, &c->cache, &c->tc, c->naive, s, 1, 1, &c->first);
    space_init(e, &e->model, &space, c->naive, &hint);
    rng_seed(&r, 1);
    for (int i = 0; i < N_CANDIDATES; i++) {
        Point p;
        space_sample(&space, &r, &p);
        space_schedule(&space, &p, &s[i]);
    }
    uint64_t from_ns = clock_ns();
    for (int i = 0; i < N_CANDIDATES; i += BATCH) {
        candidates_build(e, &e->model, &c->cache, &c->tc, c->naive, s + i, BATCH,
                         c->machine.n_threads, c->made + i);
    }
    c->cost.compile = clock_ns() - from_ns;
}

static void meet(Env *e, Course *c, Runner r, const Rules *rules, int i)
{
    Terms terms = {.margin_e4 = MARGIN_E4, .n_threads = c->task.n_threads};
    StopRule stop = rules_stop(rules, &terms);
    ProcessJob job = {.task = &c->task,
                      .a = &c->first.built,
                      .b = &c->made[i].built,
                      .stage = DUEL_SEARCH,
                      .stop = &stop,
                      .n_pairs = rules_pairs(rules, DUEL_SEARCH, false),
                      .verify = true,
                      .seed = (uint64_t)i,
                      .margin_e4 = MARGIN_E4,
                      .limit_ns = 60000000000};
    ProcessResult out;
    if (!strcmp(c->first.built.library, c->made[i].built.library)) {
        return; /* the default itself */
    }
    r.process(r.ctx, e, &e->model, &job, &out);
    if (out.status != STATUS_OK) {
        printf("\n%s: %s\n", c->made[i].built.schedule, out.why);
    }
    c->cost.n_ok += out.status == STATUS_OK;
    c->cost.n_pairs += out.n_pairs;
    c->cost.verify += out.verify_ns;
    c->cost.lay += out.lay_ns;
    c->cost.time += out.time_ns;
    c->cost.process += out.took_ns;
}

static void run(Env *e, void *arg)
{
    Course *c = arg;
    Protocol protocol = protocol_default();
    Rules rules;
    Children children = {.program = c->tune};
    machine_read(e, "", &c->machine);
    toolchain_find(e, &c->tc);
    cache_open(e, &c->cache, NULL);
    c->naive = product(e, c->of);
    c->task = (Task){.kernel = c->naive->text,
                     .n_syms = c->naive->n_syms,
                     .sym = {c->of->m},
                     .n_threads = c->machine.n_threads,
                     .regime = REGIME_COLD};
    compile_all(e, c);
    rules_init(&rules, &protocol);
    for (int i = 0; i < N_CANDIDATES; i++) {
        if (c->made[i].status == STATUS_OK) {
            meet(e, c, child_runner(&children), &rules, i);
        }
    }
}

static void print_row(const Course *c)
{
    const Cost *k = &c->cost;
    double n = k->n_ok ? k->n_ok : 1, ms = 1e6 * n;
    double a_second = n * 1e9 / (double)(k->compile + k->process);
    uint64_t rest = k->process - k->verify - k->lay - k->time;
    printf("| %s | %d | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f | %.2f | %g | %s |\n",
           c->of->name, k->n_ok, k->n_pairs / n, (double)k->compile / ms,
           (double)k->verify / ms, (double)k->lay / ms, (double)k->time / ms, (double)rest / ms,
           a_second, c->of->bar, a_second >= c->of->bar ? "yes" : "NO");
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

int main(void)
{
    char cache[] = "/tmp/nc-bench-XXXXXX";
    program_name = "bench/child";
    const char *tune = tune_program();
    if (!mkdtemp(cache)) {
        die("no folder in /tmp");
    }
    setenv("NANOCOMPILE_CACHE", cache, 1);
    printf(
        "| kernel | candidates | pairs each | compile ms | verify ms | lay out ms | time ms | "
        "start and end ms | a second | bar | met |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|\n");
    for (size_t i = 0; i < countof(subjects); i++) {
        Course c = {.of = &subjects[i], .tune = tune};
        Env e;
        env_init(&e);
        if (!env_try(&e, run, &c)) {
            die("%s", e.err.text);
        }
        print_row(&c);
        env_release(&e);
    }
    nftw(cache, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}
