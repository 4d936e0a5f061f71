/* search.c (bench) - does a search find what there is? The product 64x4864x896, cold, is tuned for
 * two minutes; then a plane of its space, two knobs in full and all others as the default has
 * them, is run exhaustively; the two bests meet in a match across fresh processes. Once from the
 * default, which is hard to beat, and once from the middle of that plane, which is not. Prints
 * the curve of each search and each match as markdown. Takes some ten minutes. Run from the
 * source folder: make bench. */
#include "tests/bench/tune_program.h"
#include "tuner/tuner.h"

#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BUDGET_NS 120000000000u
#define BAR 1.05

enum { M = 64, N = 4864, K = 896, MAX_PLANE = MAX_CHOICES * MAX_CHOICES };

typedef struct Course {
    Machine machine;
    Toolchain tc;
    Cache cache;
    Kernel *naive;
    Space space;
    Schedule base;
    Task task;
    Children children;
    SessionPlan plan;
    uint64_t plane[MAX_PLANE];
    int n_plane, n_asked;
    bool shows; /* the curve */
} Course;

/* ---- candidates ------------------------------------------------------------------------ */

static void build(void *ctx, Env *e, Arena *m, Build *batch, int n, uint64_t limit_ns)
{
    Course *c = ctx;
    Schedule *s = arena_array(m, Schedule, n);
    Attempt *made = arena_array(m, Attempt, n);
    (void)limit_ns;
    for (int i = 0; i < n; i++) {
        Point p;
        s[i] = c->base;
        if (batch[i].index < INDEX_COPY) {
            space_unrank(&c->space, batch[i].index, &p);
            space_schedule(&c->space, &p, &s[i]);
        }
    }
    candidates_build(e, m, &c->cache, &c->tc, c->naive, s, n, c->machine.n_threads, made);
    for (int i = 0; i < n; i++) {
        bool copy = batch[i].index == INDEX_COPY;
        batch[i].status = made[i].status;
        batch[i].why = made[i].why;
        batch[i].built = copy ? built_copy(e, m, &c->cache, &made[i].built) : made[i].built;
    }
}

static bool ask_search(void *ctx, uint64_t *index)
{
    return search_ask(ctx, index);
}

static void tell_search(void *ctx, uint64_t index, Status s, double ln_ratio)
{
    search_tell(ctx, index, s, ln_ratio);
}

static bool ask_plane(void *ctx, uint64_t *index)
{
    Course *c = ctx;
    bool left = c->n_asked < c->n_plane;
    if (left) {
        *index = c->plane[c->n_asked++];
    }
    return left;
}

static void hear_nothing(void *ctx, uint64_t index, Status s, double ln_ratio)
{
    (void)ctx, (void)index, (void)s, (void)ln_ratio;
}

/* All legal points that differ from the default in two knobs only, those with the most choices.
 */
static void lay_plane(Course *c, const Point *at)
{
    int first = 0, second = 1;
    c->n_plane = 0;
    for (int i = 1; i < c->space.n_knobs; i++) {
        if (c->space.knob[i].n > c->space.knob[first].n) {
            second = first;
            first = i;
        } else if (i != first && c->space.knob[i].n > c->space.knob[second].n) {
            second = i;
        }
    }
    printf("Plane: %s and %s.\n\n", c->space.knob[first].name, c->space.knob[second].name);
    for (int i = 0; i < c->space.knob[first].n; i++) {
        for (int j = 0; j < c->space.knob[second].n; j++) {
            Point p = *at;
            p.at[first] = (uint8_t)i;
            p.at[second] = (uint8_t)j;
            if (space_legal(&c->space, &p, NULL)) {
                c->plane[c->n_plane++] = space_rank(&c->space, &p);
            }
        }
    }
}

/* ---- the course ------------------------------------------------------------------------ */

static void on_trial(void *ctx, const Trial *t)
{
    const Course *c = ctx;
    if (c->shows && t->outcome == OUTCOME_PROMOTED) {
        printf("| %.1f | %d | %.4f |\n", (double)t->elapsed_ns / 1e9, t->ordinal + 1,
               exp(t->ln_default));
    }
}

static uint64_t winner_of(const SessionResult *r)
{
    return r->winner.confirmed ? r->winner.index : INDEX_DEFAULT;
}

static void say(const char *what, const SessionResult *r)
{
    printf("\n%s: %d candidates in %.1f s; %s", what, (int)r->n_trials,
           (double)r->elapsed_ns / 1e9,
           r->winner.confirmed ? r->winner.built.schedule : "the default, nothing was faster");
    if (r->winner.confirmed) {
        printf(": %.4f of the default, %d/%d processes", r->winner.ratio.median,
               r->winner.n_wins, r->winner.n_processes);
    }
    printf("\n\n");
}

static uint64_t tune(Env *e, Course *c, uint64_t base)
{
    Search search;
    SessionResult r;
    SearchSpace space = search_space(&c->space);
    search_init(e, &e->model, &search, STRATEGY_AUTO, &space, 1, c->plan.protocol.batch);
    search_first(&search, base);
    c->plan.strategy = (Proposer){&search, ask_search, tell_search, NULL};
    c->plan.budget = (Budget){.ns = BUDGET_NS};
    c->shows = true;
    printf("| s | candidates | best so far, estimated, of the default |\n|---:|---:|---:|\n");
    session_run(e, &c->plan, &r);
    say("Tuned", &r);
    return winner_of(&r);
}

static uint64_t exhaust(Env *e, Course *c)
{
    SessionResult r;
    c->n_asked = 0;
    c->plan.strategy = (Proposer){c, ask_plane, hear_nothing, NULL};
    c->plan.budget = (Budget){.trials = c->n_plane};
    c->shows = false;
    session_run(e, &c->plan, &r);
    say("Exhausted", &r);
    return winner_of(&r);
}

static void compare(Env *e, Course *c, uint64_t exhausted, uint64_t tuned)
{
    Duel d;
    if (exhausted == tuned) {
        printf("Both are the same schedule. Bar: %g, met: yes\n", BAR);
        return;
    }
    c->plan.budget = (Budget){0};
    Session *s = session_start(e, &c->plan);
    if (session_duel(s, DUEL_COMPARE, exhausted, tuned, &d)) {
        const Interval *r = &d.series.ratio;
        printf(
            "Tuned to exhausted: %.4f (%.4f to %.4f), %s in %d processes. Bar: %g, met: %s\n",
            r->median, r->lo, r->hi, verdict_name[d.series.verdict], d.series.n, BAR,
            r->median <= BAR ? "yes" : "NO");
    }
    session_release(s);
}

static void prepare(Env *e, Course *c)
{
    const char *text =
        arena_printf(&e->model,
                     "graph product\nx = input f32[m, %d]\nw = weight f32[%d, %d]\n"
                     "t = permute w perm=[1, 0]\ny = matmul x, t\nreturn y=y\n",
                     K, N, K);
    Compile compile = {.env = e};
    machine_read(e, "", &c->machine);
    toolchain_find(e, &c->tc);
    cache_open(e, &c->cache, NULL);
    c->naive =
        compile_model(&compile, ncg_parse(e, text, strlen(text), "product"))->kernel.at[0];
    c->task = (Task){.kernel = c->naive->text,
                     .n_syms = c->naive->n_syms,
                     .sym = {M},
                     .n_threads = c->machine.n_threads,
                     .regime = REGIME_COLD};
    c->plan = (SessionPlan){.task = &c->task,
                            .protocol = protocol_default(),
                            .runner = child_runner(&c->children),
                            .builder = {c, build, NULL},
                            .recorder = {.ctx = c, .trial = on_trial},
                            .seed = 1};
}

static void search_and_exhaust(Env *e, Course *c, uint64_t from)
{
    Buf text;
    buf_init(&text, &e->model);
    schedule_print(&c->base, &text);
    printf("From %s\n\n", text.at);
    uint64_t tuned = tune(e, c, from), exhausted = exhaust(e, c);
    compare(e, c, exhausted, tuned);
    printf("\n");
}

static void begin_at(Course *c, uint64_t index)
{
    Point p;
    space_unrank(&c->space, index, &p);
    space_schedule(&c->space, &p, &c->base);
}

static void run(Env *e, void *arg)
{
    Course *c = arg;
    Point base;
    prepare(e, c);
    PickHint hint = hint_of_machine(&c->machine, c->machine.n_threads);
    hint.target = c->tc.target;
    hint.sym[0] = M;
    space_init(e, &e->model, &c->space, c->naive, &hint);
    schedule_default(e, c->naive, &hint, &c->base);
    if (!space_default(e, &c->space, &base)) {
        fail(e, E_INPUT, "The default schedule is not in the space.");
    }
    lay_plane(c, &base);
    search_and_exhaust(e, c, space_rank(&c->space, &base));
    uint64_t middle = c->plane[c->n_plane / 2];
    begin_at(c, middle);
    search_and_exhaust(e, c, middle);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

int main(void)
{
    char cache[] = "/tmp/nc-bench-XXXXXX";
    Env e;
    program_name = "bench/search";
    const char *program = tune_program();
    if (!mkdtemp(cache)) {
        die("A folder in /tmp cannot be made: %m.");
    }
    setenv("NANOCOMPILE_CACHE", cache, 1);
    env_init(&e);
    Course *c = arena_new(&e.model, Course);
    c->children.program = program;
    bool ok = env_try(&e, run, c);
    nftw(cache, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (!ok) {
        die("%s", e.err.text);
    }
    env_release(&e);
    return 0;
}
