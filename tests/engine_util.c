/* engine_util.c - see engine_util.h. */
#include "tests/engine_util.h"

#include "schedules/schedules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void open_body(Env *e, void *arg)
{
    TestModel *m = arg;
    m->c = config_read(e, m->dir);
    (m->keep ? weights_keep : weights_load)(e, &m->w, &m->c, m->dir, 2, NULL, NULL);
}

static void open_model(TestModel *m, const char *dir, bool keep)
{
    *m = (TestModel){.dir = dir, .keep = keep};
    env_init(&m->e);
    must_work(&m->e, open_body, m);
}

void test_model_open(TestModel *m, const char *dir)
{
    open_model(m, dir, false);
}

void test_model_keep(TestModel *m, const char *dir)
{
    open_model(m, dir, true);
}

void test_model_close(TestModel *m)
{
    pool_free(m->pool);
    weights_release(&m->w);
    env_release(&m->e);
}

Engine *test_engine(TestModel *m, EngineWay way, unsigned without)
{
    EngineOptions o = {.way = way, .without = without, .n_threads = 2};
    return engine_new(&m->e, &m->c, &m->w, &o);
}

typedef struct Made {
    TestModel *m;
    bool in_place;
    Engine *g;
} Made;

static void make_scheduled(Env *e, void *arg)
{
    Made *made = arg;
    TestModel *m = made->m;
    Machine machine;
    Err err;
    machine_read(e, "", &machine);
    m->picker = picker_default();
    m->pool = m->pool ? m->pool : pool_new(2, &err);
    cr_assert(m->pool, "%s", err.text);
    EngineOptions o = {.way = BY_C,
                       .n_threads = 2,
                       .picker = &m->picker,
                       .hint = hint_of_machine(&machine, 2),
                       .target = target_of(&machine),
                       .pool = m->pool};
    o.hint.in_place = made->in_place;
    made->g = engine_new(e, &m->c, &m->w, &o);
}

Engine *scheduled_engine(TestModel *m)
{
    Made made = {.m = m};
    must_work(&m->e, make_scheduled, &made);
    return made.g;
}

Engine *in_place_engine(TestModel *m)
{
    Made made = {.m = m, .in_place = true};
    must_work(&m->e, make_scheduled, &made);
    return made.g;
}

const float *must_feed(Engine *g, const int32_t *ids, int n, bool all)
{
    Stepper *s = engine_stepper(g);
    const float *logits;
    Err err;
    cr_assert(s->feed(s, ids, n, all, &logits, &err), "%s", err.text);
    return logits;
}

static bool keep(void *ctx, int32_t id)
{
    Ids *ids = ctx;
    *vec_push(ids->arena, ids) = id;
    return true;
}

Ids greedy(Env *e, Engine *g, const Ids *prompt, int n)
{
    Ids made = {.arena = &e->model};
    Stepper *s = engine_stepper(g);
    Generate how = {.max_tokens = n, .token = keep, .ctx = &made};
    Generated out;
    Err err;
    s->restart(s);
    cr_assert(generate(&how, s, prompt->at, prompt->n, &out, &err), "%s", err.text);
    cr_assert_eq(out.end, END_LENGTH);
    cr_assert_eq(made.n, n);
    return made;
}

typedef struct Heldout {
    int n;
    Ids ids;
} Heldout;

static void encode_heldout(Env *e, void *arg)
{
    Heldout *h = arg;
    const char *text = read_text(e, TINY "/heldout.txt");
    Tokenizer *t = tokenizer_load(e, TINY, 0);
    h->ids.arena = &e->model;
    tokenizer_encode(t, text, strlen(text), false, &h->ids);
    tokenizer_release(t);
    cr_assert_geq(h->ids.n, h->n);
    h->ids.n = h->n;
}

Ids heldout_ids(Env *e, int n)
{
    Heldout h = {.n = n};
    must_work(e, encode_heldout, &h);
    return h.ids;
}

int32_t row_argmax(const float *row, int64_t n)
{
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        best = row[i] > row[best] ? (int32_t)i : best;
    }
    return best;
}

double worst_difference(const float *a, const float *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        cr_assert_not(isnan(d), "element %lld is %g, not %g", (long long)i, a[i], b[i]);
        most = fmax(most, d);
    }
    return most;
}

json_t *golden_json(Env *e, const char *dir)
{
    json_t *golden = json_load_file(arena_printf(&e->model, "%s/golden.json", dir), 0, NULL);
    cr_assert(golden, "%s has no golden.json", dir);
    return golden;
}

const float *golden_floats(Env *e, const char *dir)
{
    return (const float *)read_text(e, arena_printf(&e->model, "%s/golden_logits.f32", dir));
}
