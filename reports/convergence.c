/* convergence.c - how the best so far came about, candidate by candidate: estimates along the chain of
 * incumbents, not claims. */
#include <string.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* A row: a candidate (for people those only that became the incumbent, and the last). */
const Sheet sheet_convergence = {
    "convergence",
    {{"run", 0, "its run"},
     {"task", 0, "label of the task"},
     {"strategy", 0, "of the run"},
     {"tried", NUMBER, "candidates so far"},
     {"after", NUMBER | PEOPLE, "time spent on candidates so far"},
     {"after_ns", NUMBER | MACHINE, "time spent on candidates so far"},
     {"outcome", 0, "of this candidate"},
     {"best so far", PEOPLE, "incumbent against default: an estimate, no claim"},
     {"best_to_default", NUMBER | MACHINE,
      "time of the incumbent by the default's: an estimate"},
     {"this_to_default", NUMBER | MACHINE, "likewise, of this candidate"},
     {"schedule", 0, "of this candidate"}}};

static double spent_ns(const DbTrial *t)
{
    const int64_t part[] = {t->build_ns, t->verify_ns, t->measure_ns, t->decide_ns};
    double sum = 0;
    for (size_t i = 0; i < countof(part); i++) {
        sum += part[i] == DB_NONE ? 0 : (double)part[i];
    }
    return sum;
}

typedef struct Curve {
    int64_t run;
    const char *label, *strategy;
    Chain chain;
    double *tried, *speedup; /* of the incumbent, after so many */
} Curve;

static void put_step(Report *r, const Curve *v, int i, double after_ns, double best)
{
    const Candidate *c = &v->chain.at[i];
    cell_add_id(r, v->run);
    cell_add(r, "%s", v->label);
    cell_add(r, "%s", v->strategy);
    cell_add_int(r, i + 1);
    cell_add_ns_both(r, after_ns);
    cell_add(r, "%s", strcmp(c->trial.status, "ok") ? c->trial.status : c->trial.outcome);
    cell_add(r, "%s", best < 1 ? ratio_text(r->a, best) : "the default");
    cell_add_number(r, best, "%.4f");
    cell_add_number(r, c->to_default, "%.4f");
    cell_add(r, "%s", schedule_text(r->a, c->trial.schedule));
}

static void put_curve(Report *r, Curve *v)
{
    double best = 1, after_ns = 0;
    int n = v->chain.n;
    v->tried = arena_array(r->a, double, n + 1);
    v->speedup = arena_array(r->a, double, n + 1);
    v->speedup[0] = 1;
    for (int i = 0; i < n; i++) {
        const Candidate *c = &v->chain.at[i];
        after_ns += spent_ns(&c->trial);
        if (c->promoted && c->to_default < best) {
            best = c->to_default;
        }
        v->tried[i + 1] = i + 1;
        v->speedup[i + 1] = 1 / best;
        if (!r->people || c->promoted || i == n - 1) {
            put_step(r, v, i, after_ns, best);
        }
    }
}

static void plot_curves(Report *r, const char *label, const Curve *v, int n)
{
    Plot p = {.title = arena_printf(r->a, "Convergence: %s", label),
              .x_whole = true,
              .x_label = "candidates tried",
              .y_label = "speed-up of the incumbent over the default (estimate)"};
    for (int i = 0; i < n && p.n_lines < (int)countof(p.line); i++) {
        p.line[p.n_lines++] =
            (Line){.name = arena_printf(r->a, "run %.8s, %s",
                                        arena_printf(r->a, "%lld", (long long)v[i].run),
                                        v[i].strategy),
                   .x = v[i].tried,
                   .y = v[i].speedup,
                   .n = v[i].chain.n + 1,
                   .steps = true};
    }
    report_plot(r, &p);
}

/* Tasks one after the other, each with its runs. */
void report_convergence(Report *r)
{
    Vec(Curve) v = {0};
    const char *label = NULL;
    int64_t task = DB_NONE;
    report_sheet(r, &sheet_convergence);
    DbSql *q =
        QUERY(r,
              "SELECT rt.run, rt.task, coalesce(rt.label, ''), coalesce(r.strategy, '') "
              "FROM run_task rt JOIN run r ON r.id = rt.run WHERE ?1 IN (rt.run, "
              "-9223372036854775807 - 1) AND ?2 IN (rt.task, -9223372036854775807 - 1) AND "
              "EXISTS (SELECT 1 FROM trial x WHERE x.run = rt.run AND x.task = rt.task) "
              "ORDER BY rt.label, rt.task, r.started_ns, r.id",
              r->run, r->task);
    while (db_sql_next(q)) {
        Curve c = {.run = cell_int(q, 0),
                   .label = cell_text(r, q, 2),
                   .strategy = cell_text(r, q, 3),
                   .chain = chain_of(r, cell_int(q, 0), cell_int(q, 1))};
        if (v.n && cell_int(q, 1) != task) {
            plot_curves(r, label, v.at, v.n);
            v.n = 0;
        }
        task = cell_int(q, 1);
        label = c.label;
        put_curve(r, &c);
        *vec_push(r->a, &v) = c;
    }
    if (v.n) {
        plot_curves(r, label, v.at, v.n);
        report_say(r, "Estimates along the chain of incumbents; what is claimed stands in "
                      "`report` and `report evidence`.");
    } else if (report_has_runs(r)) {
        report_say(r, "No candidate is recorded here.");
    }
}
