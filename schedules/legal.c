/* legal.c - asking the mechanism whether a schedule is legal. Its answer is the only authority:
 * policies may guess, and then ask. needs: nothing but the kernel. keeps: no memory, whatever
 * happens. */
#include "schedules/schedules_int.h"

typedef struct Scratch {
    Arena arena;
    ScratchBody *body;
    void *arg;
} Scratch;

static void run_body(Env *e, void *arg)
{
    Scratch *s = arg;
    s->body(e, &s->arena, s->arg);
}

static void release_scratch(void *arg)
{
    arena_release(&((Scratch *)arg)->arena);
}

void with_scratch(Env *e, ScratchBody *body, void *arg)
{
    Scratch s = {.body = body, .arg = arg};
    arena_init(&s.arena, e);
    env_finally(e, run_body, release_scratch, &s);
}

typedef struct Question {
    const Kernel *k;
    const Schedule *s;
    Err why;
    bool legal;
} Question;

static void ask(Env *e, Arena *scratch, void *arg)
{
    Question *q = arg;
    q->legal = kernel_schedule(e, scratch, q->k, q->s, q->s->n, &q->why) != NULL;
    if (!q->legal && q->why.code != E_ILLEGAL) {
        fail_err(e, &q->why);
    }
}

bool schedule_legal(Env *e, const Kernel *k, const Schedule *s, Err *why)
{
    Question q = {.k = k, .s = s};
    with_scratch(e, ask, &q);
    if (why && !q.legal) {
        *why = q.why;
    }
    return q.legal;
}

bool recipe_legal(Env *e, const Look *l, const Recipe *p)
{
    Schedule s;
    class_policy(l->class)->schedule(l, p, &s);
    return schedule_legal(e, l->k, &s, NULL);
}
