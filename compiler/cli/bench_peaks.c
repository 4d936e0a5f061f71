/* bench_peaks.c - `nanocompile bench --peaks`: what this machine can do, as a table. */
#include "cli/bench.h"

void bench_peaks(Env *e, const Machine *m, Pool *pool, Format format)
{
    static const char *const columns[] = {"what",  "unit",         "#1 thread",
                                          "#best", "#all threads", "#all, best"};
    Peaks p;
    Table t;
    Buf out;
    peaks_measure(e, m, pool, &p);
    table_init(&t, &e->model, "peaks", countof(columns), columns);
    buf_init(&out, &e->model);
    for (int i = 0; i < N_ARITHS + (int)N_LEVELS; i++) {
        const Rate *r = i < N_ARITHS ? p.arith[i] : p.read[i - N_ARITHS];
        if (r[0].best > 0) {
            table_cell(&t, "%s", i < N_ARITHS ? arith_name[i] : level_name[i - N_ARITHS]);
            table_cell(&t, "%s", i < N_ARITHS ? "Gop/s" : "GB/s");
            for (int way = 0; way < N_WAYS; way++) {
                table_number(&t, r[way].median, "%.1f");
                table_number(&t, r[way].best, "%.1f");
            }
        }
    }
    table_cell(&t, "fork and join");
    table_cell(&t, "ns");
    table_cell(&t, "%s", "");
    table_cell(&t, "%s", "");
    table_number(&t, p.fork_join_ns.median, "%.0f");
    table_number(&t, p.fork_join_ns.best, "%.0f");
    table_print(&t, format, &out);
    cli_flush(&out);
}
