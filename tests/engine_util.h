/* engine_util.h - a model folder driven through the engine, its golden values, and a config
 * changed by hand. Every helper asserts. */
#ifndef NC_TESTS_ENGINE_UTIL_H
#define NC_TESTS_ENGINE_UTIL_H

#include "run/run.h"
#include "tests/text_util.h"

#define TINY "tests/data/tiny-qwen2"

typedef struct TestModel {
    Env e;
    const char *dir;
    bool keep;
    Config c;
    Weights w;
    Picker picker;
    Pool *pool; /* of scheduled_engine */
} TestModel;

void test_model_open(TestModel *m, const char *dir);
void test_model_keep(TestModel *m, const char *dir); /* BF16 stays as it is */
void test_model_close(TestModel *m);

/* An engine of the model; the kernels are kept in a cache of the tests' own. */
Engine *test_engine(TestModel *m, EngineWay way, unsigned without);
/* C with the default schedules for this machine, on two threads: what `run` does. */
Engine *scheduled_engine(TestModel *m);
Engine *in_place_engine(TestModel *m); /* without panels */
/* Feeds n ids; the logits hold until the next call. */
const float *must_feed(Engine *g, const int32_t *ids, int n, bool all);
/* n greedy tokens behind prompt, from an empty cache. */
Ids greedy(Env *e, Engine *g, const Ids *prompt, int n);

/* The first n ids of the held-out text of the tiny model. */
Ids heldout_ids(Env *e, int n);
int32_t row_argmax(const float *row, int64_t n);
/* Asserts that there is no NaN. */
double worst_difference(const float *a, const float *b, int64_t n);

json_t *golden_json(Env *e, const char *dir);        /* its golden.json; json_decref it */
const float *golden_floats(Env *e, const char *dir); /* its golden_logits.f32 */

#endif
