/* roofline.c - winners under the best rates that the probes beside their pairs showed. */
#include <math.h>

#include "reports/reports.h"

void roofline_add(Report *r, Roofline *roof, const Recount *match, double ns)
{
    DbRunTask rt;
    if (!isfinite(match->roofline) ||
        !DB_ONE(r->db, RUN_TASK, r->a, &rt, match->duel.run, match->duel.task) ||
        rt.flops <= 0 || rt.read_bytes <= 0) {
        return;
    }
    *vec_push(r->a, &roof->x) = (double)rt.flops / (double)rt.read_bytes;
    *vec_push(r->a, &roof->y) = (double)rt.flops / ns;
    for (int i = 0; i < match->n_processes; i++) {
        roof->read = fmax(roof->read, match->process[i].read);
        roof->flops = fmax(roof->flops, match->process[i].flops);
    }
}

void roofline_plot(Report *r, const Roofline *roof)
{
    if (roof->x.n == 0 || !(roof->read > 0) || !(roof->flops > 0)) {
        return;
    }
    double ridge = roof->flops / roof->read, lo = ridge, hi = ridge;
    for (int i = 0; i < roof->x.n; i++) {
        lo = fmin(lo, roof->x.at[i]);
        hi = fmax(hi, roof->x.at[i]);
    }
    double *x = arena_array(r->a, double, 3), *y = arena_array(r->a, double, 3);
    x[0] = lo / 2, x[1] = ridge, x[2] = hi * 2;
    y[0] = roof->read * x[0], y[1] = y[2] = roof->flops;
    Plot p = {.title = "Roofline",
              .x_label = "flops a byte that has to be read",
              .y_label = "GFLOP/s",
              .x_log = true,
              .y_log = true,
              .line = {{.name = "best rates of the probes", .x = x, .y = y, .n = 3},
                       {.name = "winners",
                        .x = roof->x.at,
                        .y = roof->y.at,
                        .n = roof->x.n,
                        .points = true}},
              .n_lines = 2};
    report_plot(r, &p);
}
