/* speak.c - one reply of the model: fed, sampled, decoded and printed as it comes. */
#include "cli/model.h"

typedef struct Speech {
    Decoder decoder;
    Buf text;
    Ids *said;
    Reply *r;
    uint64_t start_ns;
} Speech;

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
    if (s->said) {
        *vec_push(s->said->arena, s->said) = id;
    }
    decoder_add(&s->decoder, id, &s->text);
    print_now(s);
    return !ferror(stdout);
}

void speak(Env *e, Model *m, Sampler *sampler, const Stops *stops, int max_tokens, const Ids *prompt, Ids *said,
           Reply *r)
{
    Err err;
    Speech s = {.decoder = decoder_start(m->tokenizer, true), .said = said, .r = r};
    Generate g = {sampler, stops, max_tokens, &interrupted, heard, &s};
    *r = (Reply){.n_prompt = prompt->n};
    buf_init(&s.text, &e->model);
    if (!engine_prepare(m->engine, false, &err)) {
        fail_err(e, &err);
    }
    s.start_ns = os_now_ns();
    bool ok = generate(&g, engine_stepper(m->engine), prompt->at, prompt->n, &r->made, &err);
    decoder_end(&s.decoder, &s.text);
    buf_char(&s.text, '\n');
    print_now(&s);
    if (!ok) {
        fail_err(e, &err);
    }
}

void reply_report(const Reply *r)
{
    static const char *const ends[] = {[END_LENGTH] = "token limit reached", [END_STOP] = "stop token",
                                       [END_CONTEXT] = "context full", [END_INTERRUPTED] = "interrupted"};
    double after_ms = (double)(r->all_ns - r->first_ns) / 1e6;
    fprintf(stderr, "[%d prompt tokens, first token after %.1f ms", r->n_prompt, (double)r->first_ns / 1e6);
    if (r->made.n > 1) {
        fprintf(stderr, "; %d tokens, %.2f tok/s", r->made.n, (r->made.n - 1) * 1e3 / after_ms);
    }
    fprintf(stderr, "; %s]\n", ends[r->made.end]);
}
