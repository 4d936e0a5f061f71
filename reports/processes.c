/* processes.c - the processes of a duel: what each one's pairs say, what it took, and what the machine
 * did meanwhile. */
#include <math.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* A row: a fresh process of a duel. */
const Sheet sheet_processes = {
    "processes",
    {{"process", NUMBER, "its number within the duel"},
     {"status", 0, "how it ended"},
     {"result", PEOPLE, "median of its pairs: b against a"},
     {"ratio", NUMBER | MACHINE, "median over its pairs of time of b by that of a"},
     {"winner", 0, "whose process it is"},
     {"pairs", NUMBER, "that were measured"},
     {"counted", NUMBER, "pairs that count"},
     {"flagged", NUMBER, "pairs that were disturbed"},
     {"b_wins", NUMBER, "pairs that b won by the margin"},
     {"ties", NUMBER, "pairs with equal times"},
     {"a", NUMBER | PEOPLE, "median of one call of a"},
     {"a_ns", NUMBER | MACHINE, "median of one call of a"},
     {"b", NUMBER | PEOPLE, "median of one call of b"},
     {"b_ns", NUMBER | MACHINE, "median of one call of b"},
     {"roofline", NUMBER, "part of what its probes allow that b reaches, from 0 to 1"},
     {"reps", NUMBER, "calls a sample"},
     {"cpu", NUMBER, "it was bound to; empty: to none"},
     {"seed", 0, "of orders, inputs, layout"},
     {"why", 0, "what went wrong"}}};

static void put_process(Report *r, const Counted *c)
{
    const DbProcess *p = &c->process;
    cell_add_int(r, p->idx);
    cell_add(r, "%s", p->status);
    cell_add(r, "%s", ratio_text(r->a, c->ratio));
    cell_add_number(r, c->ratio, "%.4f");
    cell_add(r, "%s",
             c->ratio < 1   ? "b"
             : c->ratio > 1 ? "a"
             : c->n_counted ? "neither"
                            : "no pair counts");
    cell_add_int(r, p->n_pairs);
    cell_add_int(r, c->n_counted);
    cell_add_int(r, c->n_flagged);
    cell_add_int(r, c->wins);
    cell_add_int(r, c->n_ties);
    cell_add_ns_both(r, c->a_ns);
    cell_add_ns_both(r, c->b_ns);
    cell_add_number(r, c->roofline, "%.2f");
    cell_add_int(r, p->reps);
    cell_add_int(r, p->cpu);
    cell_add(r, "%llu", (unsigned long long)p->seed);
    cell_add_text(r, p->why);
}

/* ---- what it took, and the machine meanwhile ---- */

/* A row: what a process took and what the machine did while it ran; empty: not known. */
const Sheet sheet_meanwhile = {
    "meanwhile",
    {{"process", NUMBER, "its number within the duel"},
     {"took", NUMBER | PEOPLE, "from start to end"},
     {"took_ns", NUMBER | MACHINE, "from start to end"},
     {"program", NUMBER | PEOPLE, "CPU time of its own"},
     {"utime_ns", NUMBER | MACHINE, "CPU time of its own"},
     {"kernel", NUMBER | PEOPLE, "CPU time in the kernel"},
     {"stime_ns", NUMBER | MACHINE, "CPU time in the kernel"},
     {"memory", NUMBER | PEOPLE, "MiB at most; at least the tuner's own, as which it begins"},
     {"max_rss_bytes", NUMBER | MACHINE,
      "at most; at least the tuner's own, as which it begins"},
     {"minor_faults", NUMBER | MACHINE, "page faults that needed no reading"},
     {"major_faults", NUMBER, "page faults that needed reading"},
     {"waits", NUMBER, "times it gave the CPU away"},
     {"switched_out", NUMBER, "times that the CPU was taken from it"},
     {"steal", NUMBER, "jiffies that a hypervisor gave to others, over all CPUs"},
     {"held_back", NUMBER, "periods in which a quota held its control group back"},
     {"load1", NUMBER, "of the machine over one minute, when it began"},
     {"load5", NUMBER, "over five minutes"},
     {"load15", NUMBER, "over fifteen minutes"},
     {"mhz", NUMBER, "clock of its CPU when it had ended"},
     {"celsius", NUMBER, "of the warmest thermal zone then"}}};

static double real_of(int64_t v)
{
    return v == DB_NONE ? NAN : (double)v;
}

static void put_meanwhile(Report *r, const DbProcess *p)
{
    const int64_t ns[] = {p->took_ns, p->utime_ns, p->stime_ns};
    cell_add_int(r, p->idx);
    for (size_t i = 0; i < countof(ns); i++) {
        cell_add_ns_both(r, real_of(ns[i]));
    }
    cell_add_number(r, real_of(p->max_rss_bytes) / 0x1p20, "%.1f");
    cell_add_int(r, p->max_rss_bytes);
    cell_add_int(r, p->minor_faults);
    cell_add_int(r, p->major_faults);
    cell_add_int(r, p->voluntary_switches);
    cell_add_int(r, p->involuntary_switches);
    cell_add_int(r, p->steal_jiffies);
    cell_add_int(r, p->throttled);
    cell_add_number(r, p->load1, "%.2f");
    cell_add_number(r, p->load5, "%.2f");
    cell_add_number(r, p->load15, "%.2f");
    cell_add_number(r, p->cpu_mhz, "%.0f");
    cell_add_number(r, p->temperature, "%.1f");
}

void evidence_processes(Report *r, const Recount *c)
{
    report_sheet(r, &sheet_processes);
    for (int i = 0; i < c->n_processes; i++) {
        put_process(r, &c->process[i]);
    }
    report_sheet(r, &sheet_meanwhile);
    for (int i = 0; i < c->n_processes; i++) {
        put_meanwhile(r, &c->process[i].process);
    }
}
