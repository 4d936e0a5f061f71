/* speak.c - replies of the model: fed, sampled, decoded and printed as they come. What is
 * said goes to standard output, in whole characters; all about it goes to standard error. */
#include <errno.h>
#include <string.h>

#include "cli/model.h"

void speaker_init(Env *e, Speaker *s, Model *m, const SamplingOptions *o, bool own)
{
    Generation generation = generation_read(e, m->dir);
    bool taken = own && generation.found, given = sampling_given(o);
    Sampling sampling = sampling_apply(o, own ? generation.sampling : sampling_greedy());
    Buf says;
    buf_init(&says, &e->model);
    sampling_print(&sampling, &says);
    buf_str(&says, taken && given ? " (generation_config.json and options)"
                   : taken        ? " (generation_config.json)"
                                  : "");
    *s = (Speaker){.m = m, .seed = o->seed, .max_tokens = o->max_tokens, .says = says.at};
    s->stops = stops_read(e, m->dir, &m->config, &generation, m->tokenizer);
    sampler_init(&s->sampler, e, &sampling, (int)m->config.vocab_size, o->seed);
}

/* ---- one reply ----------------------------------------------------------------------- */

typedef struct Speech {
    Decoder decoder;
    Buf text;
    Reply *r;
    uint64_t start_ns;
    bool waiting; /* for the first token */
} Speech;

static void wait_end(Speech *s)
{
    if (s->waiting) {
        terminal_wait(NULL);
    }
    s->waiting = false;
}

static void print_now(Speech *s)
{
    fwrite(s->text.at, 1, s->text.len, stdout);
    fflush(stdout);
    buf_clear(&s->text);
}

static bool heard(void *ctx, int32_t id)
{
    Speech *s = ctx;
    uint64_t now_ns = os_now_ns() - s->start_ns;
    s->r->first_ns = s->r->first_ns ? s->r->first_ns : now_ns;
    s->r->all_ns = now_ns;
    wait_end(s);
    decoder_add(&s->decoder, id, &s->text);
    print_now(s);
    return !ferror(stdout);
}

void speaker_reply(Env *e, Speaker *s, const Ids *ids, Reply *r)
{
    Err err;
    Speech speech = {.decoder = decoder_start(s->m->tokenizer, true), .r = r, .waiting = true};
    Generate g = {&s->sampler, &s->stops, s->max_tokens, &interrupted, heard, &speech};
    *r = (Reply){.n_prompt = ids->n};
    buf_init(&speech.text, &e->model);
    sampler_see(&s->sampler, ids->at, ids->n);
    terminal_wait(arena_printf(&e->kernel, "[reading %d tokens ...]", ids->n));
    speech.start_ns = os_now_ns();
    bool ok = generate(&g, s->m->stepper, ids->at, ids->n, &r->made, &err);
    wait_end(&speech);
    decoder_end(&speech.decoder, &speech.text);
    buf_str(&speech.text, r->made.last >= 0 ? "\n" : "");
    print_now(&speech);
    if (!ok) {
        fail_err(e, &err);
    }
    if (ferror(stdout)) {
        fail(e, E_IO, "Standard output cannot be written: %s.", strerror(errno));
    }
}

void reply_report(const Reply *r)
{
    static const char *const ends[] = {[END_LENGTH] = "token limit reached",
                                       [END_STOP] = "stop token",
                                       [END_CONTEXT] = "context full",
                                       [END_INTERRUPTED] = "interrupted"};
    double after_ms = (double)(r->all_ns - r->first_ns) / 1e6;
    fprintf(stderr, "[%d prompt tokens", r->n_prompt);
    if (r->made.n > 0) {
        fprintf(stderr, ", first token after %.1f ms", (double)r->first_ns / 1e6);
    }
    if (r->made.n > 1) {
        fprintf(stderr, "; %d tokens, %.2f tok/s", r->made.n, (r->made.n - 1) * 1e3 / after_ms);
    }
    fprintf(stderr, "; %s]\n", ends[r->made.end]);
}
