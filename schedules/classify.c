/* classify.c - what a nest looks like: which class a kernel belongs to, and what its axes are
 * there. Only the nest is looked at, never the kernel's kind, so that a graph written by hand,
 * fused or not, gets the schedule that its loops deserve. Contractions have a file of their
 * own: look_contraction.c. needs: a finished naive kernel. breaks: nothing. */
#include "schedules/schedules_int.h"

#include <inttypes.h>
#include <string.h>

static const char *const names[N_KERNEL_CLASSES] = {
#define X(id, name, meaning) name,
    KERNEL_CLASSES(X)
#undef X
};

const char *class_name(KernelClass c)
{
    return names[c];
}

const ClassPolicy *class_policy(KernelClass c)
{
    static const ClassPolicy *const policies[N_KERNEL_CLASSES] = {
        [CLASS_CONTRACTION] = &policy_contraction,
        [CLASS_ROW] = &policy_row,
        [CLASS_ELEMENTWISE] = &policy_elementwise,
        [CLASS_GATHER] = &policy_gather,
        [CLASS_OTHER] = &policy_other,
    };
    return policies[c];
}

/* ---- rows ---- */

static bool adds_product(const Kernel *k, const Phase *p)
{
    for (int i = 0; i < p->acc.n; i++) {
        const Expr *x;
        bool sum = acc_is_sum(&p->acc.at[i], &x) && x &&
                   k->nest.var.at[p->acc.at[i].var].dtype == DT_F32;
        x = sum ? let_of(p, x) : NULL;
        if (x && x->kind == X_OP && x->op == S_MUL) {
            return true;
        }
    }
    return false;
}

/* The last value that the reductions compute and the last phase computes again, as far as
 * the mechanism sees. */
static const char *find_keep(Env *e, const Kernel *k)
{
    const Nest *n = &k->nest;
    for (int i = n->phase.n - 2; i >= 0; i--) {
        const Phase *p = &n->phase.at[i];
        int r = p->loops.n ? p->loops.at[p->loops.n - 1] : -1;
        for (int s = p->body.n - 1; r >= 0 && s >= 0; s--) {
            Schedule keep = {0};
            const char *var = n->var.at[p->body.at[s].var].name;
            if (strlen(var) > MAX_LOOK_NAME) {
                continue;
            }
            schedule_add(&keep, STEP_KEEP, "%s %s", var, axis_text(k, r));
            if (schedule_legal(e, k, &keep, NULL)) {
                return arena_str(&e->model, keep.step[0].args);
            }
        }
    }
    return NULL;
}

static void add_phase(const Kernel *k, Rows *r, const Phase *p)
{
    for (int i = 0; r->single && i < p->loops.n; i++) {
        if (k->nest.axis.at[p->loops.at[i]].kind == AXIS_SPACE) {
            list_add(&r->outer, p->loops.at[i]);
        }
    }
    if (p->loops.n > 0) {
        int last = p->loops.at[p->loops.n - 1];
        bool reduce = k->nest.axis.at[last].kind == AXIS_REDUCE;
        if (reduce || !r->single) {
            list_add(reduce ? &r->reduce : &r->inner, last);
        }
    }
    r->product = r->product || adds_product(k, p);
}

static bool look_rows(Env *e, const Kernel *k, Rows *r)
{
    const Nest *n = &k->nest;
    *r = (Rows){.single = n->outer.n == 0 && n->phase.n == 1, .exp = kernel_has_op(k, S_EXP)};
    if (!names_fit(k)) {
        return false;
    }
    for (int i = 0; i < n->outer.n; i++) {
        list_add(&r->outer, n->outer.at[i]);
    }
    for (int i = 0; i < n->phase.n; i++) {
        add_phase(k, r, &n->phase.at[i]);
    }
    r->keep = r->reduce.n > 0 && !r->single ? find_keep(e, k) : NULL;
    return r->reduce.n > 0;
}

/* ---- points ---- */

typedef struct Cuts {
    int axis, n;
    const Expr *at[MAX_CUTS];
    bool many;
} Cuts;

/* Bounds in rising order, each once. A symbol can be compared with nothing: it must be
 * alone. */
static void find_cuts(const Expr *x, void *ctx)
{
    Cuts *c = ctx;
    const Expr *bound = cut_bound(x, c->axis);
    int place = 0;
    for (int i = 0; bound && i < c->n; i++) {
        if (expr_eq(c->at[i], bound)) {
            return;
        }
        c->many = c->many || c->at[i]->kind != X_CONST || bound->kind != X_CONST;
        place += !c->many && c->at[i]->value.i < bound->value.i;
    }
    c->many = c->many || (bound && c->n == MAX_CUTS);
    if (bound && !c->many) {
        memmove(&c->at[place + 1], &c->at[place], (size_t)(c->n - place) * sizeof *c->at);
        c->at[place] = bound;
        c->n++;
    }
}

static void give_cuts(Env *e, const Kernel *k, Points *p)
{
    int last = p->inner.n ? p->inner.at[p->inner.n - 1] : -1;
    int64_t from = 0, extent = last < 0 ? 1 : axis_constant(k, last);
    Cuts c = {.axis = last};
    for (int i = 0; last >= 0 && i < k->nest.phase.n; i++) {
        finish_visit(&k->nest.phase.at[i], find_cuts, &c);
    }
    p->n_cuts = c.many ? 0 : c.n;
    for (int i = 0; i < p->n_cuts; i++) {
        bool constant = c.at[i]->kind == X_CONST;
        p->piece[i] = constant ? c.at[i]->value.i - from : -1;
        p->cut[i] = constant ? arena_printf(&e->model, "%" PRId64, p->piece[i])
                             : cut_word(&e->model, c.at[i]);
        from = constant ? c.at[i]->value.i : -1;
    }
    p->piece[p->n_cuts] = extent < 0 || from < 0 ? -1 : extent - from;
}

static bool look_points(Env *e, const Kernel *k, Points *p)
{
    const Nest *n = &k->nest;
    *p = (Points){.exp = kernel_has_op(k, S_EXP)};
    if (!names_fit(k) || n->phase.n == 0) {
        return false;
    }
    for (int i = 0; i < n->phase.n; i++) {
        if (phase_has(n, &n->phase.at[i], AXIS_REDUCE)) {
            return false;
        }
    }
    for (int i = 0; i < n->outer.n; i++) {
        list_add(&p->outer, n->outer.at[i]);
    }
    const Phase *last = &n->phase.at[n->phase.n - 1];
    for (int i = 0; i < last->loops.n; i++) {
        list_add(&p->inner, last->loops.at[i]);
    }
    give_cuts(e, k, p);
    return true;
}

/* ---- looking up ---- */

static void find_data(const Expr *x, void *ctx)
{
    bool *data = ctx;
    *data = *data || x->kind == X_VAR || x->kind == X_LOAD;
}

static void find_indirect(const Expr *x, void *ctx)
{
    if (x->kind == X_LOAD) {
        expr_visit(x->a, find_data, ctx);
    }
}

/* An index is data, or what the kernel is given may be refused. */
static bool looks_up(const Kernel *k)
{
    bool found = false;
    for (int i = 0; i < k->nest.phase.n; i++) {
        const Phase *p = &k->nest.phase.at[i];
        for (int s = 0; s < p->finish.n; s++) {
            found = found || p->finish.at[s].kind == STMT_FAIL;
        }
        reduction_visit(p, find_indirect, &found);
        finish_visit(p, find_indirect, &found);
    }
    return found;
}

/* Nothing is ever computed along some axis. */
static bool is_empty(const Kernel *k)
{
    bool empty = false;
    for (int i = 0; i < k->nest.axis.n; i++) {
        empty = empty || axis_constant(k, i) == 0;
    }
    return empty;
}

void kernel_look(Env *e, const Kernel *k, Look *l)
{
    *l = (Look){.k = k};
    if (is_empty(k)) {
        l->class = CLASS_OTHER;
    } else if (looks_up(k)) {
        l->class = look_points(e, k, &l->p) ? CLASS_GATHER : CLASS_OTHER;
    } else if (look_contraction(e, k, &l->c)) {
        l->class = CLASS_CONTRACTION;
    } else if (look_rows(e, k, &l->r)) {
        l->class = CLASS_ROW;
    } else {
        l->class = look_points(e, k, &l->p) ? CLASS_ELEMENTWISE : CLASS_OTHER;
    }
}

KernelClass kernel_class(Env *e, const Kernel *k)
{
    Look l;
    kernel_look(e, k, &l);
    return l.class;
}
