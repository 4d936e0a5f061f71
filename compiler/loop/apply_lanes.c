/* apply_lanes.c - what an axis in lanes asks of a nest: every access along it has unit stride or none, and
 * what differs between lanes is f32 (or a condition on f32, or an i32 that dot products made). */
#include <string.h>

#include "loop/apply_int.h"

/* Looking through the expressions of one phase for what lanes cannot do. */
typedef struct Lanes {
    Apply *a;
    int axis;
    bool varies[512]; /* by variable: differs from lane to lane */
} Lanes;

static bool lanes_differ(Lanes *l, const Expr *x);

/* Every access along the axis has stride 1 or none. */
static void check_access(Lanes *l, const Expr *index, const char *operand)
{
    int64_t stride;
    const char *axis = axis_of_nest(l->a, l->axis)->name;
    if (!index_stride(l->a->e, &l->a->k->nest, index, l->axis, &stride)) {
        refuse(l->a, "the index of %s is not linear in %s", operand, axis);
    }
    if (stride != 0 && stride != 1) {
        refuse(l->a, "%s is accessed with stride %lld along %s", operand, (long long)stride,
               axis);
    }
}

static bool lanes_differ_load(Lanes *l, const Expr *x)
{
    int64_t stride = 0;
    check_access(l, x->a, l->a->k->operand.at[x->id].name);
    index_stride(l->a->e, &l->a->k->nest, x->a, l->axis, &stride);
    if (stride && x->dtype != DT_F32) {
        refuse(l->a, "%s holds %s: only f32 has lanes", l->a->k->operand.at[x->id].name,
               dtype_name(x->dtype));
    }
    return stride != 0;
}

/* An i64 comparison of the axis with something that is the same in all lanes: a mask of lanes. */
static bool lane_compare(Lanes *l, const Expr *x)
{
    int64_t stride;
    bool linear = x->kind == X_OP && (x->op == S_LE || x->op == S_LT) &&
                  x->a->dtype == DT_I64 &&
                  index_stride(l->a->e, &l->a->k->nest, x->a, l->axis, &stride);
    return linear && stride == 1 && !lanes_differ(l, x->b);
}

static bool lanes_differ(Lanes *l, const Expr *x)
{
    int64_t stride;
    if (!x || x->kind == X_CONST || x->kind == X_SYM) {
        return false;
    }
    if (x->kind == X_VAR) {
        return l->varies[x->id];
    }
    if (x->kind == X_LOAD) {
        return lanes_differ_load(l, x);
    }
    if (lane_compare(l, x)) {
        return true;
    }
    if (x->kind == X_AXIS) {
        if (!index_stride(l->a->e, &l->a->k->nest, x, l->axis, &stride) || stride) {
            refuse(l->a, "a value is computed from the index %s itself",
                   axis_of_nest(l->a, l->axis)->name);
        }
        return false;
    }
    bool cond = x->kind == X_SELECT && lanes_differ(l, x->a);
    if (cond) {
        need_reads_inside(l->a, x->b);
        need_reads_inside(l->a, x->c);
    }
    bool a = x->kind != X_SELECT && lanes_differ(l, x->a);
    bool b = lanes_differ(l, x->b), c = lanes_differ(l, x->c);
    bool counts = x->kind == X_CAST && x->dtype == DT_F32 && x->a->dtype == DT_I32;
    if ((a || b || c || cond) && x->dtype != DT_F32 && x->dtype != DT_BOOL) {
        refuse(l->a, "a value of %s differs between lanes: only f32 has lanes",
               dtype_name(x->dtype));
    }
    if (x->kind == X_SELECT && x->dtype == DT_BOOL && (b || c || cond)) {
        refuse(l->a, "a choice between conditions differs between lanes");
    }
    if (x->kind == X_CAST && a && !counts) {
        refuse(l->a, "a cast differs between lanes");
    }
    return a || b || c || cond;
}

static void check_stmts(Lanes *l, const Stmt *s, int n)
{
    for (int i = 0; i < n; i++) {
        bool differs = lanes_differ(l, s[i].value);
        if (s[i].kind == STMT_LET) {
            l->varies[s[i].var] = differs;
        } else if (s[i].kind == STMT_FAIL && differs) {
            refuse(l->a, "whether the kernel fails differs between lanes");
        } else if (s[i].kind == STMT_STORE) {
            int64_t stride;
            check_access(l, s[i].index, l->a->k->operand.at[0].name);
            index_stride(l->a->e, &l->a->k->nest, s[i].index, l->axis, &stride);
            if (stride != 1) {
                refuse(l->a, "the output is the same element in all lanes");
            }
            if (s[i].value->dtype != DT_F32 && s[i].value->dtype != DT_I32) {
                refuse(l->a, "the output holds %s: only f32 and i32 have lanes",
                       dtype_name(s[i].value->dtype));
            }
        }
    }
}

static int dot_axis(Apply *a, const Phase *p)
{
    int last = p->loops.at[p->loops.n - 1];
    return axis_of_nest(a, last)->dot ? last : -1;
}

/* Four bytes of x for all lanes, and four of w for each, side by side. */
static void check_dot(Lanes *l, const Accum *acc, int dot)
{
    const Expr *x, *w;
    int64_t along_dot[2] = {0}, along_lanes[2] = {0};
    check(dot_factors(acc, &x, &w));
    const Expr *const load[] = {x->a, w->a};
    for (int i = 0; i < 2; i++) {
        const Nest *n = &l->a->k->nest;
        bool linear = index_stride(l->a->e, n, load[i]->a, dot, &along_dot[i]) &&
                      index_stride(l->a->e, n, load[i]->a, l->axis, &along_lanes[i]);
        if (!linear || along_dot[i] != 1) {
            refuse(l->a, "the four bytes of %s do not lie together",
                   l->a->k->operand.at[load[i]->id].name);
        }
    }
    if (along_lanes[0] != 0 || along_lanes[1] != 4) {
        refuse(l->a, "lanes take the same four bytes of %s and the next four of %s each",
               l->a->k->operand.at[load[0]->id].name, l->a->k->operand.at[load[1]->id].name);
    }
}

static void check_lanes(Apply *a, int axis, const Phase *p)
{
    Lanes l = {.a = a, .axis = axis};
    int dot = dot_axis(a, p);
    bool reduce = axis_of_nest(a, axis)->kind == AXIS_REDUCE;
    check(a->k->nest.var.n <= (int)countof(l.varies));
    for (int i = 0; i < p->acc.n; i++) {
        l.varies[p->acc.at[i].var] = true;
    }
    check_stmts(&l, p->body.at, p->body.n);
    for (int i = 0; i < p->acc.n; i++) {
        if (dot >= 0) {
            check_dot(&l, &p->acc.at[i], dot);
        } else {
            lanes_differ(&l, p->acc.at[i].update);
        }
    }
    if (!reduce) {
        check_stmts(&l, p->finish.at, p->finish.n);
    }
}

/* Asked when all steps are done: a later pack may give an access its stride. */
void check_all_lanes(Apply *a)
{
    for (int i = 0; i < a->k->nest.phase.n; i++) {
        const Phase *p = &a->k->nest.phase.at[i];
        for (int k = 0; k < p->loops.n; k++) {
            const Axis *x = axis_of_nest(a, p->loops.at[k]);
            if (x->vec) {
                a->word[0] = x->name;
                check_lanes(a, p->loops.at[k], p);
            }
        }
    }
    a->k->in_lanes = true;
}
