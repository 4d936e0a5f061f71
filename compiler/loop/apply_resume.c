/* apply_resume.c - resume: a reduction in blocks, with loops over space axes between the blocks and the
 * rest. What was summed so far waits in the output, where the last turn leaves the result: no order
 * changes and no bit. needs: one f32 sum, stored to one f32 element. */
#include "loop/apply_int.h"

static void need_one_store(Apply *a, const Phase *p)
{
    int n = 0;
    for (int i = 0; i < p->finish.n; i++) {
        n += p->finish.at[i].kind == STMT_STORE;
    }
    if (n != 1) {
        refuse(a, "the phase stores %s", n ? "more than one element" : "nothing");
    }
}

static void need_one_sum(Apply *a, const Phase *p)
{
    if (a->k->nest.phase.n > 1) {
        refuse(a, "there are several phases, and the output has room for one sum");
    }
    if (p->acc.n > 1) {
        refuse(a, "there are %d accumulators, and the output has room for one", p->acc.n);
    }
    need_one_store(a, p);
    Dtype sum = a->k->nest.var.at[p->acc.at[0].var].dtype, out = a->k->operand.at[0].dtype;
    if (sum != DT_F32 || out != DT_F32) {
        refuse(a, "a sum of %s cannot wait in an output of %s: only f32 can", dtype_name(sum),
               dtype_name(out));
    }
}

/* Whoever stores an element takes it up again, alone, and at each turn. */
static void need_owners(Apply *a, const Phase *p)
{
    for (int i = 0; i < a->k->nest.axis.n; i++) {
        const Axis *x = axis_of_nest(a, i);
        bool apart = x->tail == TAIL_NONE || x->tail == TAIL_PEEL || x->tail == TAIL_SWITCH;
        if (x->kind == AXIS_SPACE && x->outer && !apart) {
            refuse(a, "some points of the last tile of %s have no element of their own",
                   x->name);
        }
    }
    for (int i = 0; i < p->loops.n; i++) {
        const Axis *x = axis_of_nest(a, p->loops.at[i]);
        if (x->priv) {
            refuse(a, "%s has private sums, and the output has room for one", x->name);
        }
    }
}

void check_resumed(Apply *a)
{
    for (int i = 0; i < a->k->nest.axis.n; i++) {
        if (axis_of_nest(a, i)->resumed) {
            need_one_sum(a, phase_of(a, i));
            need_owners(a, phase_of(a, i));
        }
    }
}

void step_resume(Apply *a)
{
    need_words(a, 1, 1);
    need_no_stage(a);
    int axis = axis_named(a, a->word[0]), first = 0;
    Axis *x = axis_of_nest(a, axis);
    const Phase *p = phase_of(a, axis);
    if (x->kind != AXIS_REDUCE) {
        refuse(a, "%s is no reduce axis", x->name);
    }
    while (axis_of_nest(a, p->loops.at[first])->kind != AXIS_REDUCE) {
        first++;
    }
    if (p->loops.at[first] != axis) {
        refuse(a, "%s is not the outermost reduce loop", x->name);
    }
    if (x->extent->kind != X_CONST || x->extent->value.i + axis_peels(&a->k->nest, axis) < 1) {
        refuse(a,
               "%s has no constant extent of at least 1, and without a turn nothing is stored",
               x->name);
    }
    if (x->vec || x->unroll || x->dot || x->resumed) {
        refuse(a, "axis %s already has %s annotation", x->name,
               x->resumed ? "this" : "another");
    }
    x->resumed = true;
    check_resumed(a);
}
