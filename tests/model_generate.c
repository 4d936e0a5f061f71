/* model_generate.c - generation and perplexity over models whose answers are known in closed
 * form. spec: int8 7, tokenizer 10 */
#include "model/model.h"
#include "tests/helpers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a model that is a formula ------------------------------------------------------- */

enum { VOCAB = 10, MOST_FED = 64 };

typedef struct Fake {
    Stepper s;
    int32_t fed[MOST_FED]; /* since the last restart */
    int n_calls, n_restarts, most_at_once;
    int fails_at; /* call that fails, from 1; 0: none */
    ErrCode failure;
    float weight; /* of the token that the formula says; the others have 0 */
    float logits[MOST_FED * VOCAB];
} Fake;

/* The next token of the formula is the one above; 9 is followed by 0. */
static int32_t successor(int32_t id)
{
    return (id + 1) % VOCAB;
}

static bool fake_feed(Stepper *s, const int32_t *ids, int n, bool all, const float **logits,
                      Err *err)
{
    Fake *f = s->ctx;
    if (++f->n_calls == f->fails_at) {
        return err_set(err, f->failure, "The model broke.");
    }
    memset(f->logits, 0, sizeof f->logits);
    for (int i = 0; i < n; i++) {
        f->fed[s->n_fed++] = ids[i];
        f->logits[(all ? i : 0) * VOCAB + successor(ids[i])] =
            i == n - 1 || all ? f->weight : 0;
    }
    f->most_at_once = n > f->most_at_once ? n : f->most_at_once;
    *logits = f->logits;
    return true;
}

static void fake_restart(Stepper *s)
{
    s->n_fed = 0;
    ((Fake *)s->ctx)->n_restarts++;
}

static void fake_init(Fake *f, float weight)
{
    *f = (Fake){.weight = weight};
    f->s = (Stepper){f, VOCAB, 0, 0, fake_feed, fake_restart};
}

typedef struct Heard {
    int32_t id[MOST_FED];
    int n, most; /* most: the caller has had enough then; 0: never */
    volatile int *interrupted;
} Heard;

static bool hear(void *ctx, int32_t id)
{
    Heard *h = ctx;
    h->id[h->n++] = id;
    if (h->interrupted && h->n == 2) {
        *h->interrupted = 1;
    }
    return h->n != h->most;
}

static Generated say(const Generate *g, Fake *f, const int32_t *prompt, int n)
{
    Generated out;
    Err err;
    cr_assert(generate(g, &f->s, prompt, n, &out, &err), "%s", err.text);
    return out;
}

/* ---- generation ---------------------------------------------------------------------- */

Test(model_generate, greedy_follows_the_formula_and_feeds_each_token_once)
{
    Fake f;
    Heard h = {.n = 0};
    fake_init(&f, 1);
    Generate g = {.max_tokens = 5, .token = hear, .ctx = &h};
    Generated out = say(&g, &f, (int32_t[]){3, 1, 6}, 3);
    cr_assert_eq(out.n, 5);
    cr_assert_eq(out.end, END_LENGTH);
    cr_assert_eq(h.n, 5);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(h.id[i], (7 + i) % VOCAB);
    }
    cr_assert_eq(out.last, 1);
    cr_assert_eq(f.s.n_fed, 3 + 4, "the newest token is not fed");
    cr_assert_eq(f.n_calls, 5);
    cr_assert_eq(f.most_at_once, 3, "the prompt goes in one piece");
}

Test(model_generate, it_goes_on_from_what_is_in_the_cache)
{
    Fake f;
    fake_init(&f, 1);
    Generate g = {.max_tokens = 2};
    Generated out = say(&g, &f, (int32_t[]){4}, 1);
    out = say(&g, &f, &out.last, 1);
    cr_assert_eq(out.last, 8);
    cr_assert_eq(f.n_restarts, 0);
    static const int32_t fed[] = {4, 5, 6, 7};
    cr_assert_eq(memcmp(f.fed, fed, sizeof fed), 0);
}

Test(model_generate, a_stop_token_ends_it_and_is_neither_heard_nor_counted)
{
    Fake f;
    Heard h = {.n = 0};
    Stops stops = {.n = 2, .id = {0, 9}};
    fake_init(&f, 1);
    Generate g = {.max_tokens = 50, .stops = &stops, .token = hear, .ctx = &h};
    Generated out = say(&g, &f, (int32_t[]){6}, 1);
    cr_assert_eq(out.end, END_STOP);
    cr_assert_eq(out.n, 2);
    cr_assert_eq(h.n, 2);
    cr_assert_eq(out.last, 9);
    out = say(&g, &f, (int32_t[]){8}, 1);
    cr_assert_eq(out.n, 0);
    cr_assert_eq(out.end, END_STOP);
}

Test(model_generate, no_tokens_asked_for_feeds_nothing)
{
    Fake f;
    fake_init(&f, 1);
    Generate g = {.max_tokens = 0};
    Generated out = say(&g, &f, (int32_t[]){6}, 1);
    cr_assert_eq(out.n, 0);
    cr_assert_eq(out.end, END_LENGTH);
    cr_assert_eq(out.last, -1);
    cr_assert_eq(f.n_calls, 0);
}

Test(model_generate, a_full_context_ends_it)
{
    Fake f;
    Generate g = {.max_tokens = 50};
    fake_init(&f, 1);
    f.s.max_positions = 8;
    Generated out = say(&g, &f, (int32_t[]){1, 2, 3, 4, 5}, 5);
    cr_assert_eq(out.end, END_CONTEXT);
    cr_assert_eq(out.n, 4, "the last of 8 positions still yields a token");
    cr_assert_eq(f.s.n_fed, 8);
}

Test(model_generate, a_prompt_longer_than_the_context_is_not_begun)
{
    Fake f;
    Generate g = {.max_tokens = 50};
    fake_init(&f, 1);
    f.s.max_positions = 4;
    Generated out = say(&g, &f, (int32_t[]){1, 2, 3, 4, 5}, 5);
    cr_assert_eq(out.end, END_CONTEXT);
    cr_assert_eq(out.n, 0);
    cr_assert_eq(out.last, -1);
    cr_assert_eq(f.n_calls, 0);
}

Test(model_generate, the_caller_or_a_signal_ends_it_behind_a_token)
{
    Fake f;
    Heard h = {.most = 3};
    volatile int interrupted = 0;
    Generate g = {.max_tokens = 50, .token = hear, .ctx = &h, .interrupted = &interrupted};
    fake_init(&f, 1);
    Generated out = say(&g, &f, (int32_t[]){0}, 1);
    cr_assert_eq(out.end, END_INTERRUPTED);
    cr_assert_eq(out.n, 3);
    h = (Heard){.interrupted = &interrupted};
    out = say(&g, &f, (int32_t[]){0}, 1);
    cr_assert_eq(out.end, END_INTERRUPTED);
    cr_assert_eq(out.n, 2);
    cr_assert_eq(out.last, 2);
}

Test(model_generate, a_step_that_is_interrupted_is_no_failure)
{
    Fake f;
    Generate g = {.max_tokens = 50};
    fake_init(&f, 1);
    f.fails_at = 3;
    f.failure = E_INTERRUPT;
    Generated out = say(&g, &f, (int32_t[]){0}, 1);
    cr_assert_eq(out.end, END_INTERRUPTED);
    cr_assert_eq(out.n, 2);
    cr_assert_eq(out.last, 2, "it has been heard, but not fed");
    cr_assert_eq(f.s.n_fed, 2);
}

Test(model_generate, an_empty_prompt_and_a_broken_step_are_refused)
{
    Fake f;
    Generate g = {.max_tokens = 50};
    Generated out;
    Err err;
    fake_init(&f, 1);
    cr_assert_not(generate(&g, &f.s, NULL, 0, &out, &err));
    cr_assert_eq(err.code, E_INPUT);
    cr_assert(strstr(err.text, "prompt is empty"), "%s", err.text);
    f.fails_at = 2;
    f.failure = E_NOMEM;
    cr_assert_not(generate(&g, &f.s, (int32_t[]){0}, 1, &out, &err));
    cr_assert_eq(err.code, E_NOMEM);
    cr_assert_str_eq(err.text, "The model broke.");
}

typedef struct Sampled {
    Fake f;
    Generated out;
} Sampled;

static void sample(Env *e, void *arg)
{
    Sampled *s = arg;
    Sampler sampler;
    Sampling how = sampling_greedy();
    how.repetition_penalty = 100; /* what was said is said again only when nothing is left */
    Generate g = {.sampler = &sampler, .max_tokens = 9};
    sampler_init(&sampler, e, &how, VOCAB, 1);
    sampler_see(&sampler, (int32_t[]){0}, 1);
    s->out = say(&g, &s->f, (int32_t[]){0}, 1);
}

Test(model_generate, a_sampler_chooses_and_sees_what_it_chose)
{
    Env e;
    Sampled s;
    env_init(&e);
    fake_init(&s.f, 1);
    must_work(&e, sample, &s);
    cr_assert_eq(s.out.n, 9);
    bool fed[VOCAB] = {false};
    for (int i = 0; i < 9; i++) {
        cr_assert_not(fed[s.f.fed[i]], "token %d twice", s.f.fed[i]);
        fed[s.f.fed[i]] = true;
    }
    env_release(&e);
}

/* ---- perplexity ---------------------------------------------------------------------- */

static Perplexity score(Fake *f, const int32_t *ids, int n, int chunk)
{
    Perplexity p;
    Err err;
    cr_assert(perplexity(&f->s, ids, n, chunk, &p, &err), "%s", err.text);
    return p;
}

static const int32_t counting[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

Test(model_generate, a_uniform_model_is_as_perplexed_as_its_vocabulary_is_large)
{
    Fake f;
    fake_init(&f, 0);
    Perplexity p = score(&f, counting, 20, 8);
    cr_assert_float_eq(p.perplexity, VOCAB, 1e-12);
    cr_assert_float_eq(p.mean_nll, log(VOCAB), 1e-14);
}

Test(model_generate, an_oracle_is_not_perplexed)
{
    Fake f;
    fake_init(&f, 1000);
    Perplexity p = score(&f, counting, 20, 8);
    cr_assert_float_eq(p.perplexity, 1, 1e-12);
}

Test(model_generate, in_between_it_is_the_softmax)
{
    Fake f;
    fake_init(&f, 2);
    Perplexity p = score(&f, counting, 20, 20);
    double share = exp(2) / (exp(2) + VOCAB - 1);
    cr_assert_float_eq(p.perplexity, 1 / share, 1e-12);
}

Test(model_generate, chunks_start_anew_and_their_first_token_is_not_scored)
{
    Fake f;
    fake_init(&f, 1);
    Perplexity p = score(&f, counting, 20, 8); /* 8, 8, 4 */
    cr_assert_eq(p.n_chunks, 3);
    cr_assert_eq(p.n_scored, 7 + 7 + 3);
    cr_assert_eq(f.n_restarts, 3);
    p = score(&f, counting, 17, 8); /* the last chunk of one token is dropped */
    cr_assert_eq(p.n_chunks, 2);
    cr_assert_eq(p.n_scored, 14);
    p = score(&f, counting, 18, 8);
    cr_assert_eq(p.n_scored, 15);
}

Test(model_generate, too_little_to_score_is_refused)
{
    Fake f;
    Perplexity p;
    Err err;
    fake_init(&f, 1);
    cr_assert_not(perplexity(&f.s, counting, 1, 8, &p, &err));
    cr_assert_eq(err.code, E_INPUT);
    cr_assert_not(perplexity(&f.s, counting, 20, 1, &p, &err));
    cr_assert(strstr(err.text, "at least 2"), "%s", err.text);
    f.fails_at = 2;
    f.failure = E_NOMEM;
    cr_assert_not(perplexity(&f.s, counting, 20, 8, &p, &err));
    cr_assert_eq(err.code, E_NOMEM);
}
