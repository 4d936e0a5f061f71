/* space.c - the schedules of one kernel on one machine as an enumerable space: a class's knobs
 * with the choices that this kernel allows, its rules with their reasons, and the walk among
 * the points that keep them. Two legal points are two schedules: a knob that would change
 * nothing is held at its first choice by a rule. needs: a finished naive kernel. breaks:
 * nothing. */
#include <math.h>

#include "schedules/schedules_int.h"

void space_init(Env *e, Arena *m, Space *s, const Kernel *k, const PickHint *hint)
{
    SpaceInside *in = arena_new(m, SpaceInside);
    kernel_look(e, k, &in->look);
    in->policy = class_policy(in->look.class);
    in->hint = *hint;
    *s = (Space){.class = in->look.class,
                 .kernel = k,
                 .hint = *hint,
                 .n_knobs = in->policy->n_knobs,
                 .n_rules = in->policy->n_rules,
                 .n_points = 1,
                 .in = in};
    check(s->n_knobs <= MAX_KNOBS && s->n_rules <= MAX_RULES);
    check(s->n_knobs + in->policy->n_features <= MAX_FEATURES);
    for (int i = 0; i < s->n_knobs; i++) {
        s->knob[i].name = in->policy->knob[i].name;
        s->knob[i].meaning = in->policy->knob[i].meaning;
    }
    in->policy->choices(e, m, s, in);
    in->n_knobs = s->n_knobs;
    in->knob = arena_dup(m, s->knob, sizeof s->knob);
    for (int i = 0; i < s->n_knobs; i++) {
        check(s->knob[i].n > 0);
        s->n_points *= (uint64_t)s->knob[i].n;
    }
    for (int i = 0; i < s->n_rules; i++) {
        s->rule[i] = in->policy->rule[i].say;
    }
    s->n_legal = count_all(m, in);
}

bool rules_hold(const SpaceInside *in, const Recipe *p, int knob)
{
    for (int i = 0; i < in->policy->n_rules; i++) {
        const Rule *r = &in->policy->rule[i];
        if (rule_last_knob(r) == knob && !r->holds(in, p)) {
            return false;
        }
    }
    return true;
}

bool space_legal(const Space *s, const Point *p, int *broken)
{
    Recipe recipe;
    recipe_set(s->in, &recipe, p);
    for (int i = 0; i < s->n_rules; i++) {
        if (!s->in->policy->rule[i].holds(s->in, &recipe)) {
            if (broken) {
                *broken = i;
            }
            return false;
        }
    }
    return true;
}

void space_schedule(const Space *s, const Point *p, Schedule *out)
{
    Recipe recipe;
    recipe_set(s->in, &recipe, p);
    s->in->policy->schedule(&s->in->look, &recipe, out);
}

bool space_default(Env *e, const Space *s, Point *out)
{
    Recipe recipe = {0};
    *out = (Point){{0}};
    s->in->policy->recipe(e, &s->in->look, &s->hint, &recipe);
    for (int i = 0; i < s->n_knobs; i++) {
        int v = *recipe_slot(s->in, &recipe, i), c = 0;
        while (c < s->knob[i].n && s->knob[i].value[c] != v) {
            c++;
        }
        if (c == s->knob[i].n) {
            return false;
        }
        out->at[i] = (uint8_t)c;
    }
    return space_legal(s, out, NULL);
}

int space_neighbours(const Space *s, const Point *p, Point *out)
{
    int n = 0;
    for (int i = 0; i < s->n_knobs; i++) {
        for (int c = 0; c < s->knob[i].n; c++) {
            Point q = *p;
            q.at[i] = (uint8_t)c;
            if (c != p->at[i] && space_legal(s, &q, NULL)) {
                out[n++] = q;
            }
        }
    }
    return n;
}

void space_sample(const Space *s, Rng *r, Point *out)
{
    space_unrank(s, rng_below(r, s->n_legal), out);
}

/* ---- features ---- */

/* Rises with the value, so that no two choices look alike: 0, 1, 2, 4, 8 become 0, 1, 2, 3, 4. */
static double knob_feature(int value)
{
    return value > 0 ? 1 + log2(value) : value;
}

int space_features(const Space *s, const Point *p, double out[MAX_FEATURES])
{
    Recipe recipe;
    recipe_set(s->in, &recipe, p);
    for (int i = 0; i < s->n_knobs; i++) {
        out[i] = knob_feature(*recipe_slot(s->in, &recipe, i));
    }
    if (s->in->policy->features) {
        s->in->policy->features(s->in, &recipe, out + s->n_knobs);
    }
    return s->n_knobs + s->in->policy->n_features;
}

const char *space_feature_name(const Space *s, int feature)
{
    return feature < s->n_knobs ? s->knob[feature].name
                                : s->in->policy->feature[feature - s->n_knobs];
}
