/* knobs.c - choices as numbers in a recipe, and as words for people. A knob is one int of the
 * class's recipe (KnobRow.offset); its choices rise, so that equal choices mean equal points.
 * needs: a space whose class policy is set. breaks: nothing. */
#include <string.h>

#include "schedules/schedules_int.h"

void choice_add(Knob *k, int value)
{
    int place = 0;
    while (place < k->n && k->value[place] < value) {
        place++;
    }
    if (place < k->n && k->value[place] == value) {
        return;
    }
    check(k->n < MAX_CHOICES);
    memmove(&k->value[place + 1], &k->value[place], (size_t)(k->n - place) * sizeof *k->value);
    k->value[place] = value;
    k->n++;
}

void choice_powers(Knob *k, int64_t least, int64_t most)
{
    for (int64_t p = 1; p <= most; p *= 2) {
        if (p >= least) {
            choice_add(k, (int)p);
        }
    }
}

void choice_flag(Knob *k, bool both)
{
    choice_add(k, 0);
    if (both) {
        choice_add(k, 1);
    }
}

void choice_exp(Knob *k, bool exp, const PickHint *hint)
{
    for (int way = EXP_LIBM; way <= exp_for(hint, exp); way++) {
        choice_add(k, way);
    }
}

int log2_of(int n)
{
    int log = n < 1 ? 0 : 31 - __builtin_clz((unsigned)n);
    check(log < MAX_LOG2);
    return log;
}

int *recipe_slot(const SpaceInside *in, Recipe *p, int knob)
{
    return (int *)((char *)p + in->policy->knob[knob].offset);
}

void recipe_set(const SpaceInside *in, Recipe *p, const Point *at)
{
    *p = (Recipe){0};
    for (int i = 0; i < in->n_knobs; i++) {
        *recipe_slot(in, p, i) = in->knob[i].value[at->at[i]];
    }
}

void knob_word(const Space *s, int knob, int choice, Buf *out)
{
    const KnobRow *row = &s->in->policy->knob[knob];
    int v = s->knob[knob].value[choice];
    if (v >= 0 && v < MAX_KNOB_WORDS && row->word[v]) {
        buf_str(out, row->word[v]);
    } else {
        buf_printf(out, "%s%d", row->prefix ? row->prefix : "", v);
    }
}

bool point_eq(const Space *s, const Point *a, const Point *b)
{
    return !memcmp(a->at, b->at, (size_t)s->n_knobs);
}
