/* apply.c - a schedule on a kernel: a copy of the naive kernel is edited step by step, or the first step
 * that is illegal says why. Illegal is a normal answer: a value, never a log line.
 * needs: a finished kernel. keeps: the meaning, bitwise for exact steps. */
#include "loop/apply_int.h"

#include <stdlib.h>
#include <string.h>

static StepFn *const step_fn[N_STEPS] = {
    [STEP_SPLIT] = step_split,   [STEP_ORDER] = step_order,       [STEP_ACC] = step_acc,
    [STEP_VEC] = step_vec,       [STEP_UNROLL] = step_unroll,     [STEP_FMA] = step_fma,
    [STEP_DOT] = step_dot,       [STEP_APPROX] = step_approx,     [STEP_PACK] = step_pack,
    [STEP_KEEP] = step_keep,     [STEP_STORE] = step_store,       [STEP_CUT] = step_cut,
    [STEP_STAGE] = step_stage,   [STEP_PREFETCH] = step_prefetch, [STEP_PAR] = step_par,
    [STEP_RESUME] = step_resume,
};

void refuse(Apply *a, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    fail(a->e, E_ILLEGAL, "%s", text);
}

/* ---- words ---- */

void need_words(Apply *a, int least, int most)
{
    if (a->n_words < least || a->n_words > most) {
        refuse(a, "takes %d%s arguments, not %d", least, most > least ? " or more" : "",
               a->n_words);
    }
}

int64_t number_word(Apply *a, const char *word, int64_t least, int64_t most)
{
    char *end;
    long long v = strtoll(word, &end, 10);
    if (*end || end == word || v < least || v > most) {
        refuse(a, "'%s' is not a number from %lld to %lld", word, (long long)least,
               (long long)most);
    }
    return v;
}

Axis *axis_of_nest(Apply *a, int axis)
{
    return &a->k->nest.axis.at[axis];
}

static bool holds(const int *at, int n, int axis)
{
    for (int i = 0; i < n; i++) {
        if (at[i] == axis) {
            return true;
        }
    }
    return false;
}

Phase *phase_of(Apply *a, int axis)
{
    for (int i = 0; i < a->k->nest.phase.n; i++) {
        Phase *p = &a->k->nest.phase.at[i];
        if (holds(p->loops.at, p->loops.n, axis)) {
            return p;
        }
    }
    return NULL;
}

static bool is_loop(Apply *a, int axis)
{
    const Nest *n = &a->k->nest;
    return holds(n->outer.at, n->outer.n, axis) || phase_of(a, axis);
}

int axis_named(Apply *a, const char *name)
{
    for (int i = 0; i < a->k->nest.axis.n; i++) {
        const Axis *x = axis_of_nest(a, i);
        if (!strcmp(x->name, name)) {
            if (x->outer) {
                refuse(a, "axis %s is split: name %s.o or %s.i", name, name, name);
            }
            if (!is_loop(a, i)) {
                refuse(a, "axis %s is cut: name %s.0 or %s.1", name, name, name);
            }
            return i;
        }
    }
    refuse(a, "there is no axis '%s'", name);
}

int operand_named(Apply *a, const char *name)
{
    for (int i = 0; i < a->k->operand.n; i++) {
        if (!strcmp(a->k->operand.at[i].name, name)) {
            if (i == 0) {
                refuse(a, "%s is the output, which is only written", name);
            }
            return i;
        }
    }
    refuse(a, "there is no operand '%s'", name);
}

/* ---- expressions ---- */

typedef struct Mapper {
    Apply *a;
    const Expr *(*map)(Apply *a, const Expr *x);
} Mapper;

static const Expr *map_tree(Mapper *m, const Expr *x)
{
    if (!x) {
        return NULL;
    }
    Expr y = *x;
    y.a = map_tree(m, x->a);
    y.b = map_tree(m, x->b);
    y.c = map_tree(m, x->c);
    bool same = y.a == x->a && y.b == x->b && y.c == x->c;
    return m->map(m->a, same ? x : arena_dup(m->a->m, &y, sizeof y));
}

static void map_slot(const Expr **slot, void *ctx)
{
    *slot = map_tree(ctx, *slot);
}

void map_exprs(Apply *a, const Expr *(*map)(Apply *a, const Expr *x))
{
    Mapper m = {a, map};
    nest_exprs(&a->k->nest, map_slot, &m);
}

static bool is_var(const Expr *x, int var)
{
    return x->kind == X_VAR && x->id == var;
}

bool acc_is_sum(const Accum *acc, const Expr **addend)
{
    const Expr *u = acc->update;
    bool sum = u->kind == X_OP && u->op == S_ADD && is_var(u->a, acc->var);
    *addend = sum ? u->b : NULL;
    return sum || u->kind == X_FMA;
}

bool acc_is_max(const Accum *acc, const Expr **value)
{
    const Expr *u = acc->update;
    *value = u->b;
    return u->kind == X_SELECT && is_var(u->c, acc->var) && u->a->kind == X_OP &&
           (u->a->op == S_OR || u->a->op == S_LT);
}

/* ---- copying and applying ---- */

#define COPY_VEC(m, v)                                                               \
    ((v).at = (v).n ? arena_dup((m), (v).at, (size_t)(v).n * sizeof *(v).at) : NULL, \
     (v).cap = (v).n)

static Kernel *copy_kernel(Arena *m, const Kernel *from)
{
    Kernel *k = arena_dup(m, from, sizeof *from);
    COPY_VEC(m, k->operand);
    COPY_VEC(m, k->nest.axis);
    COPY_VEC(m, k->nest.var);
    COPY_VEC(m, k->nest.outer);
    COPY_VEC(m, k->nest.phase);
    for (int i = 0; i < k->operand.n; i++) {
        COPY_VEC(m, k->operand.at[i].span);
    }
    for (int i = 0; i < k->nest.phase.n; i++) {
        Phase *p = &k->nest.phase.at[i];
        COPY_VEC(m, p->loops);
        COPY_VEC(m, p->body);
        COPY_VEC(m, p->acc);
        COPY_VEC(m, p->finish);
    }
    return k;
}

static void split_words(Apply *a, const Step *s)
{
    char *rest = arena_str(a->m, s->args), *word;
    a->n_words = 0;
    while ((word = strsep(&rest, " "))) {
        if (*word && a->n_words == MAX_WORDS) {
            refuse(a, "has more than %d arguments", MAX_WORDS);
        }
        if (*word) {
            a->word[a->n_words++] = word;
        }
    }
}

typedef struct Job {
    Arena *m;
    const Kernel *naive;
    const Schedule *s;
    int n_steps, at;  /* steps to apply, step being applied */
    const char *late; /* asked when all steps are applied */
    Kernel *out;
} Job;

static void apply_all(Env *e, void *arg)
{
    Job *j = arg;
    Apply a = {.e = e, .m = j->m, .k = copy_kernel(j->m, j->naive)};
    a.k->exact = true;
    for (j->at = 0; j->at < j->n_steps; j->at++) {
        split_words(&a, &j->s->step[j->at]);
        step_fn[j->s->step[j->at].kind](&a);
    }
    if (j->n_steps == j->s->n) {
        j->late = "pad";
        check_pads(&a);
        j->late = "resume";
        check_resumed(&a);
        j->late = "vec";
        check_all_lanes(&a);
    }
    j->out = a.k;
}

/* Another schedule is another function: its name is the hash of the key and the schedule. */
static void name_kernel(Arena *m, Kernel *k, const Schedule *s, int n_steps)
{
    Schedule done = *s;
    Buf text;
    if (n_steps == 0) {
        return;
    }
    done.n = n_steps;
    buf_init(&text, m);
    schedule_print(&done, &text);
    k->schedule = arena_strn(m, text.at, text.len);
    buf_printf(&text, "\n%s", k->text);
    hash_hex(hash_bytes(text.at, text.len), k->symbol + 3);
}

/* Names the step; where all were applied, the one whose legality rests on all. */
static Kernel *refused(Env *e, const Job *j, Err *why)
{
    Schedule one = {.n = 1};
    Buf step;
    Err err = e->err;
    buf_init(&step, &e->kernel);
    if (j->at < j->n_steps) {
        one.step[0] = j->s->step[j->at];
        schedule_print(&one, &step);
    } else {
        buf_str(&step, j->late);
    }
    err_set(why, err.code, "%s: %s.", step.at, err.text);
    return NULL;
}

Kernel *kernel_schedule(Env *e, Arena *m, const Kernel *naive, const Schedule *s, int n_steps,
                        Err *why)
{
    Job j = {m, naive, s, n_steps < s->n ? n_steps : s->n, 0, "schedule", NULL};
    if (!env_try(e, apply_all, &j)) {
        return refused(e, &j, why);
    }
    name_kernel(m, j.out, s, j.n_steps);
    return j.out;
}

bool kernel_exact(const Kernel *k)
{
    return !k->schedule || k->exact;
}
