/* build_layouts.c - which layouts of weights a build holds, chosen for all its programs together. A prompt, one
 * token and a table's rows may each want another layout of one weight, and each takes memory; all of them get
 * at most a cap. Over it, the layout goes that is expected to gain least for each byte: kernels that read it
 * take their default, or one that reads the weight as it is, and the manifest says `refused: layout`.
 *
 * What a winner gains over the default was measured. Where nothing was, a tenth of the time that a call's
 * bytes take is assumed; that decides between layouts of which nothing is known, and little else.
 * needs: every part's kernels picked; their calls not yet laid out. */
#include <string.h>

#include "cli/build.h"

enum { MAX_WAYS = 3 };

/* A quarter more than the default schedules take: one more layout of the embedding, or of what a phase
 * gains most by; never a second copy of everything. */
#define DEFAULT_CAP 1.25
#define ASSUMED_BYTES_PER_NS 10.0
#define ASSUMED_GAIN 0.1

typedef struct Way { /* a schedule of a kernel */
    Schedule schedule;
    Kernel *k;      /* under it */
    Hash *layout;   /* by operand: the text that fills its panels; zeros: there are none */
    double gain_ns; /* of a model's usual work, over the way behind this one */
} Way;

typedef struct Choice { /* a kernel of a part */
    Picked *pick;
    Kernel **built;   /* in its program */
    const Call *call; /* the first */
    const Program *p;
    double calls;        /* of it in a model's usual work */
    Way way[MAX_WAYS];   /* from the one that was picked on */
    int n, at, usual;    /* ways; that taken now; the default */
    int64_t saved_bytes; /* when it left its first */
} Choice;

typedef struct Layouts {
    Env *e;
    Building *b;
    const LibraryParts *parts;
    Choice *choice; /* by pick */
    int n;
    int64_t cap;
} Layouts;

/* ---- what memory they take -------------------------------------------------------------------- */

static const Buffer *weight_of(const Program *p, const Call *c, int operand)
{
    const Buffer *b = &p->buffer.at[c->arg.at[operand].buffer];
    return b->kind == BUF_WEIGHT ? b : NULL;
}

static Hash claim_hash(const Buffer *weight, const Way *w, int operand)
{
    struct {
        Hash name, layout;
        int64_t bf16;
    } claim = {hash_str(weight->name), w->layout[operand],
               operand_takes_bf16(&w->k->operand.at[operand])};
    return hash_bytes(&claim, sizeof claim);
}

static int64_t claim_bytes(const Buffer *weight, const Way *w, int operand)
{
    static const int64_t none[MAX_SYMBOLS];
    const Operand *o = &w->k->operand.at[operand];
    return nc_lines(o->pack ? kernel_span(w->k, operand, none) * operand_bytes(o)
                            : weight->count.k * operand_given_bytes(o));
}

/* Of what this call reads and no call before it did. */
static int64_t call_claims(const Program *p, const Call *c, const Way *w, Map *seen)
{
    int64_t bytes = 0;
    for (int i = 0; i < c->arg.n; i++) {
        const Buffer *weight = weight_of(p, c, i);
        Hash claim = weight ? claim_hash(weight, w, i) : (Hash){0};
        if (weight && !map_get(seen, claim)) {
            map_put(seen, claim, seen);
            bytes += claim_bytes(weight, w, i);
        }
    }
    return bytes;
}

/* Of all weights in all layouts, each once. */
static int64_t bytes_now(const Layouts *l)
{
    const Choice *x = l->choice;
    int64_t bytes = 0;
    Map seen;
    map_init(&seen, &l->e->kernel);
    for (int i = 0; i < l->parts->n; i++) {
        const Program *p = l->parts->part[i].program;
        for (int k = 0; k < p->call.n; k++) {
            const Choice *of = &x[p->call.at[k].kernel];
            bytes += call_claims(p, &p->call.at[k], &of->way[of->at], &seen);
        }
        x += p->kernel.n;
    }
    return bytes;
}

/* As the model's files have them, or as they are widened at once. */
static int64_t bytes_stored(const Layouts *l)
{
    const LibraryOptions *o = &l->parts->o;
    const Program *p = l->parts->part[0].program; /* all programs read all of the model */
    int64_t bytes = 0;
    for (int i = 0; i < p->buffer.n; i++) {
        const Buffer *b = &p->buffer.at[i];
        if (b->kind == BUF_WEIGHT) {
            const FileTensor *t = checkpoint_find(o->file, b->name);
            bytes += nc_lines(b->count.k * (t && t->dtype == FD_BF16 && !o->f32 ? 2 : 4));
        }
    }
    return bytes;
}

/* ---- the ways of a kernel ---------------------------------------------------------------------- */

/* Returns its number. */
static int add_way(const Layouts *l, Choice *x, const Schedule *s, Kernel *k)
{
    Env *e = l->e;
    for (int i = 0; i < x->n; i++) {
        if (schedule_eq(&x->way[i].schedule, s)) {
            return i;
        }
    }
    Way w = {.schedule = *s, .k = k, .layout = arena_array(&e->model, Hash, k->operand.n)};
    for (int i = 0; i < k->operand.n; i++) {
        if (k->operand.at[i].pack) {
            w.layout[i] = emit_pack_hash(e, k, l->parts->o.tc->target, i);
        }
    }
    x->way[x->n] = w;
    return x->n++;
}

static double assumed_ns(const Layouts *l, const Choice *x)
{
    int64_t size[MAX_SYMBOLS];
    step_sizes(l->e, USUAL_PROMPT, USUAL_PAST, USUAL_CAPACITY, size);
    return ASSUMED_GAIN * (double)call_bytes(x->p, x->call, size) / ASSUMED_BYTES_PER_NS;
}

/* The default, and the default that leaves weights as they are. */
static void add_ways(const Layouts *l, Choice *x)
{
    Env *e = l->e;
    const Kernel *naive = x->pick->site->kernel;
    for (int in_place = 0; in_place <= 1; in_place++) {
        Schedule s;
        Err err;
        pick_default(e, &l->b->picks, x->pick->site, in_place, &s);
        Kernel *k = kernel_schedule(e, &e->model, naive, &s, s.n, &err);
        if (!k) {
            fail_err(e, &err);
        }
        int at = add_way(l, x, &s, k);
        x->usual = in_place ? x->usual : at;
    }
    for (int i = 0; i < x->n; i++) {
        const DbWinner *w = &x->pick->answer.found.winner;
        bool measured = i == 0 && picked_winner(x->pick);
        x->way[i].gain_ns =
            x->calls * (measured ? w->b_ns * (1 / w->ratio - 1) : assumed_ns(l, x));
    }
    env_reset_kernel(e);
}

/* A model's usual work is a prompt, and as many tokens after it, one by one: what tune counts. */
static double usual_times(const LibraryPart *p)
{
    return p->max_tokens == 1 ? USUAL_PROMPT : p->all_rows ? 0 : 1;
}

static void add_part(Layouts *l, const LibraryPart *part)
{
    Program *p = part->program;
    for (int i = 0; i < p->kernel.n; i++) {
        Choice *x = &l->choice[l->n];
        x->pick = &l->b->picks.at.at[l->n++];
        x->built = &p->kernel.at[i];
        x->p = p;
        for (int k = p->call.n - 1; k >= 0; k--) {
            if (p->call.at[k].kernel == i) {
                x->call = &p->call.at[k];
                x->calls += usual_times(part);
            }
        }
        add_way(l, x, &x->pick->answer.schedule, *x->built);
    }
}

/* ---- choosing ------------------------------------------------------------------------------------ */

/* Does it read its first weights in the layout of this claim? */
static bool reads(const Choice *x, Hash claim)
{
    const Way *w = &x->way[x->at];
    for (int i = 0; i < x->call->arg.n; i++) {
        const Buffer *weight = weight_of(x->p, x->call, i);
        if (weight && hash_eq(claim_hash(weight, w, i), claim)) {
            return true;
        }
    }
    return false;
}

/* All that read it so go on to a way that does not. False: one has none. *loss_ns: what that costs. */
static bool leave(Layouts *l, Hash claim, double *loss_ns)
{
    *loss_ns = 0;
    for (int i = 0; i < l->n; i++) {
        Choice *x = &l->choice[i];
        while (reads(x, claim)) {
            *loss_ns += x->way[x->at].gain_ns;
            if (++x->at == x->n) {
                x->at--;
                return false;
            }
        }
    }
    return true;
}

/* Which way each takes, and these again. */
static int *ways_taken(const Layouts *l)
{
    int *at = arena_array(&l->e->kernel, int, l->n);
    for (int i = 0; i < l->n; i++) {
        at[i] = l->choice[i].at;
    }
    return at;
}

static void take_ways(const Layouts *l, const int *at)
{
    for (int i = 0; i < l->n; i++) {
        l->choice[i].at = at[i];
    }
}

typedef struct Leaving { /* the best so far */
    Hash claim;
    double ns_per_byte;
    int64_t saved_bytes; /* 0: there is none */
} Leaving;

/* What would it save, were this claim given up? */
static void try_leaving(Layouts *l, Hash claim, int64_t bytes, Leaving *best)
{
    double loss_ns;
    int *at = ways_taken(l);
    int64_t saved = leave(l, claim, &loss_ns) ? bytes - bytes_now(l) : 0;
    take_ways(l, at);
    if (saved > 0 && (!best->saved_bytes || loss_ns / (double)saved < best->ns_per_byte)) {
        *best = (Leaving){claim, loss_ns / (double)saved, saved};
    }
}

/* Gives up the layout that gains least for each byte. False: nothing is left to be given up. */
static bool give_up_one(Layouts *l, int64_t bytes)
{
    Leaving best = {.saved_bytes = 0};
    double loss_ns;
    for (int i = 0; i < l->n; i++) {
        const Choice *x = &l->choice[i];
        for (int k = 0; k < x->call->arg.n && x->at + 1 < x->n; k++) {
            const Buffer *weight = weight_of(x->p, x->call, k);
            if (weight) {
                try_leaving(l, claim_hash(weight, &x->way[x->at], k), bytes, &best);
            }
        }
    }
    if (!best.saved_bytes) {
        return false;
    }
    for (int i = 0; i < l->n; i++) {
        Choice *x = &l->choice[i];
        x->saved_bytes = reads(x, best.claim) && !x->at ? best.saved_bytes : x->saved_bytes;
    }
    leave(l, best.claim, &loss_ns);
    env_reset_kernel(l->e);
    return true;
}

static void take_choice(const Layouts *l, Choice *x)
{
    Answer *a = &x->pick->answer;
    if (x->at == 0) {
        return;
    }
    *x->built = x->way[x->at].k;
    a->why = arena_printf(&l->e->model,
                          "layout: its weights would take %.1f MB more in memory, beyond the "
                          "cap of %.1f MB%s",
                          (double)x->saved_bytes / 1e6, (double)l->cap / 1e6,
                          picked_winner(x->pick) ? "; it was faster than the default" : "");
    a->outcome = "refused";
    a->field = "layout";
    a->schedule = x->way[x->at].schedule;
}

/* Were nothing tuned. */
static int64_t bytes_of_defaults(const Layouts *l)
{
    int *at = ways_taken(l);
    for (int i = 0; i < l->n; i++) {
        l->choice[i].at = l->choice[i].usual;
    }
    int64_t bytes = bytes_now(l);
    take_ways(l, at);
    return bytes;
}

static void fit(Layouts *l, int64_t bytes)
{
    Env *e = l->e;
    int64_t given = l->b->o->memory_cap;
    for (int i = 0; i < l->n; i++) {
        add_ways(l, &l->choice[i]);
    }
    l->cap = given ? given : (int64_t)(DEFAULT_CAP * (double)bytes_of_defaults(l));
    while (bytes > l->cap && give_up_one(l, bytes)) {
        bytes = bytes_now(l);
    }
    if (given && bytes > given) {
        fail(e, E_INPUT,
             "Weights take at least %.1f MB in memory, and --memory-cap is %.1f MB.",
             (double)bytes / 1e6, (double)given / 1e6);
    }
    for (int i = 0; i < l->n; i++) {
        take_choice(l, &l->choice[i]);
    }
}

void layouts_settle(void *ctx, Env *e, const LibraryParts *parts)
{
    Building *b = ctx;
    Layouts l = {.e = e,
                 .b = b,
                 .parts = parts,
                 .choice = arena_array(&e->model, Choice, b->picks.at.n)};
    if (b->o->naive) {
        return;
    }
    for (int i = 0; i < parts->n; i++) {
        add_part(&l, &parts->part[i]);
    }
    int64_t bytes = bytes_now(&l);
    if (bytes > (b->o->memory_cap ? b->o->memory_cap : bytes_stored(&l))) {
        fit(&l, bytes);
    }
    env_reset_kernel(e);
}
