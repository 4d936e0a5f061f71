/* space_gather.c - what can be tuned in looked-up rows: how wide they are copied, and who
 * copies them. The rules are those of points; rows are found by data, so nothing can be packed
 * or foreseen. */
#include "schedules/schedules_int.h"

const ClassPolicy policy_gather = {
    .schedule = point_schedule,
    .recipe = default_gather,
    .knob = point_knobs,
    .n_knobs = N_POINT_KNOBS,
    .rule = point_rules,
    .n_rules = N_POINT_RULES,
    .choices = point_choices,
};
