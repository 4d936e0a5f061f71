/* noise.c - `tune --noise`: the default against a copy of its own library. Nothing differs but where the loader
 * put it, so whatever shows is this machine's noise. */
#include "tuner/cli/duels.h"

static void noise(Contest *c)
{
    Duel d;
    int a = side_add(c, "default", &c->item->base);
    int b = side_add(c, "a copy of the default", &c->item->base);
    contest_play(c, a, b, &d);
    const Calibration *k = &session_result(c->session)->calibration;
    contest_say(c,
                "two copies of one library differ by %.2f%% between processes (sigma), pairs "
                "spread over %.2f%%, %.0f%% of them disturbed; a win must be by %.2f%%%s",
                100 * k->sigma_p, 100 * k->iqr_ln, 100 * k->flagged, 100 * k->margin,
                k->noisy ? "; this machine is too noisy to tell much" : "");
}

const Command command_noise = {.option = "noise", .task = noise};
