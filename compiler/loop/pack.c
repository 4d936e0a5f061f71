/* pack.c - panels: a constant operand laid out in the order in which a scheduled nest reads it. The C for
 * it is emitted beside the kernel; here is the same by interpretation. */
#include "loop/schedule.h"

const Expr *pack_outside(Arena *m, const Nest *n, const Pack *p)
{
    const Expr *outside = NULL;
    for (int i = 0; i < p->n; i++) {
        for (int half = p->axis[i]; n->axis.at[half].half_of;
             half = n->axis.at[half].half_of - 1) {
            int whole = n->axis.at[half].half_of - 1;
            const Axis *w = &n->axis.at[whole];
            if (w->tail == TAIL_NONE || w->inner != half) {
                continue;
            }
            const Expr *past = x_op(m, S_LE, w->extent, x_axis(m, whole));
            outside = outside ? x_op(m, S_OR, outside, past) : past;
        }
    }
    return outside;
}

typedef struct Packer {
    const Kernel *k;
    const Pack *p;
    const Expr *source, *outside;
    const int64_t *syms;
    int64_t *axis; /* by axis: its value */
    const Operand *o;
    const void *from;
    void *to;
    int64_t next;
} Packer;

static int64_t axis_value(const Packer *p, int axis)
{
    const Axis *a = &p->k->nest.axis.at[axis];
    return a->outer ? axis_value(p, a->outer) * a->factor + axis_value(p, a->inner)
                    : p->axis[axis];
}

static int64_t value(const Packer *p, const Expr *x)
{
    if (x->kind == X_CONST) {
        return x->value.i;
    }
    if (x->kind == X_SYM) {
        return p->syms[x->id];
    }
    if (x->kind == X_AXIS) {
        return axis_value(p, x->id);
    }
    check(x->kind == X_OP && x->b);
    Value a = {.i = value(p, x->a)}, b = {.i = value(p, x->b)};
    return scalar_eval(x->op, x->a->dtype, a, b).i;
}

/* The next one of the panels; from < 0: 0. */
static void copy_element(Packer *p, int64_t from)
{
    Value v = {.i = 0};
    if (operand_takes_bf16(p->o)) {
        uint16_t h = from < 0 ? 0 : ((const uint16_t *)p->from)[from];
        if (p->o->bf16) {
            ((uint16_t *)p->to)[p->next++] = h;
            return;
        }
        v.f = bf16_float(h);
    } else if (from >= 0) {
        v = value_load(p->from, p->o->dtype, from);
    }
    value_store(p->to, p->o->dtype, p->next++, v);
}

static void fill(Packer *p, int depth)
{
    if (depth < p->p->n) {
        int axis = p->p->axis[depth];
        int64_t n = value(p, p->p->extent[depth]);
        for (p->axis[axis] = 0; p->axis[axis] < n; p->axis[axis]++) {
            fill(p, depth + 1);
        }
        return;
    }
    bool zero = p->outside && value(p, p->outside);
    copy_element(p, zero ? -1 : value(p, p->source));
}

void nest_pack(Env *e, const Kernel *k, int operand, void *to, const void *from,
               const int64_t *syms)
{
    const Operand *o = &k->operand.at[operand];
    Arena *m = &e->kernel;
    Packer p = {.k = k, .p = o->pack, .syms = syms, .o = o, .from = from, .to = to};
    p.source = o->pack->source;
    p.outside = pack_outside(m, &k->nest, o->pack);
    p.axis = arena_array(m, int64_t, k->nest.axis.n);
    fill(&p, 0);
}
