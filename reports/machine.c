/* machine.c - where something ran: machines with what bound their CPUs, compilers, and what a machine
 * did while a run measured on it: its load, its clock, time that went to others. */
#include <math.h>
#include <string.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* ---- what it is ---- */

/* A row: a fact about a machine or a compiler that something ran with. */
const Sheet sheet_machine = {
    "machine",
    {{"of", 0, "machine or compiler, and the first digits of its id"},
     {"fact", 0, "column of the table machine or toolchain, as db/schema.sql describes it"},
     {"value", 0, "as recorded"},
     {"part", 0, "hard: decides whether a winner serves; soft: told only"}}};

static bool is_hard(const char *fact)
{
    static const char *const hard[] = {"isa",      "l1d_bytes", "l2_bytes",
                                       "l3_bytes", "n_cores",   "version",
                                       "words",    "flags",     "target"};
    for (size_t i = 0; i < countof(hard); i++) {
        if (!strcmp(hard[i], fact)) {
            return true;
        }
    }
    return false;
}

/* Every column of every row but its keys: a column that the schema gains shows up by itself. */
static void put_facts(Report *r, const char *of, const char *sql)
{
    DbSql *q = QUERY_ALL(r, sql);
    int n = db_sql_columns(q);
    while (db_sql_next(q)) {
        const char *who = arena_printf(r->a, "%s %.8s", of, db_sql_cell(q, 0).text);
        for (int i = 2; i < n; i++) {
            const char *name = arena_str(r->a, db_sql_name(q, i));
            cell_add(r, "%s", who);
            cell_add(r, "%s", name);
            DbCell c = db_sql_cell(q, i);
            cell_add(r, "%s", c.kind == DB_NULL ? "(not known)" : c.text);
            cell_add(r, "%s", is_hard(name) ? "hard" : "soft");
        }
    }
}

static void say_bounds(Report *r)
{
    DbSql *q =
        QUERY_ALL(r, "SELECT substr(id, 1, 8), n_cores, n_online, n_affinity, cpu_quota, "
                     "bound_by FROM machine ORDER BY id");
    while (db_sql_next(q)) {
        DbCell online = db_sql_cell(q, 2), quota = db_sql_cell(q, 4);
        Buf b;
        buf_init(&b, r->a);
        buf_printf(&b, "Machine %s used %s CPUs", db_sql_cell(q, 0).text,
                   db_sql_cell(q, 1).text);
        if (online.kind != DB_NULL) {
            buf_printf(&b, ": %s are online", db_sql_cell(q, 2).text);
            buf_printf(&b, ", its affinity allowed %s", db_sql_cell(q, 3).text);
        }
        buf_str(&b, quota.kind == DB_NULL ? ", no quota was in force" : ", its quota was ");
        buf_str(&b, quota.kind == DB_NULL ? "" : db_sql_cell(q, 4).text);
        const char *by = cell_text(r, q, 5);
        report_say(r, by ? "%s; bound by %s." : "%s%s.", b.at, by ? by : "");
    }
}

/* ---- what it did meanwhile ---- */

/* A row: a run: the machine while its processes ran; empty: not known. */
const Sheet sheet_conditions = {
    "conditions",
    {{"run", 0, "its id"},
     {"started", 0, "when, UTC"},
     {"machine", 0, "brand of the CPU"},
     {"cpus", 0, "that it might use: its affinity mask"},
     {"cpuset", NUMBER, "CPUs in the set of its control groups"},
     {"quota", NUMBER, "of its control groups, in CPUs"},
     {"processes", NUMBER, "that measured"},
     {"cpu_time", NUMBER | PEOPLE, "of all processes, in programs and in the kernel"},
     {"cpu_ns", NUMBER | MACHINE, "of all processes, in programs and in the kernel"},
     {"memory", NUMBER, "MiB, of the largest process"},
     {"load", PEOPLE, "of the machine over one minute when they began, least to most"},
     {"load_least", NUMBER | MACHINE, "over one minute when they began, least"},
     {"load_most", NUMBER | MACHINE, "over one minute when they began, most"},
     {"mhz", PEOPLE, "clock of the CPU that they ran on, least to most"},
     {"mhz_least", NUMBER | MACHINE, "clock of the CPU that they ran on, least"},
     {"mhz_most", NUMBER | MACHINE, "clock of the CPU that they ran on, most"},
     {"celsius", NUMBER, "of the warmest thermal zone, most"},
     {"pairs", NUMBER, "that were measured"},
     {"switched_out", NUMBER, "pairs in which another program took the CPU"},
     {"steal", NUMBER, "pairs in whose batch a hypervisor gave time to others"},
     {"steal_jiffies", NUMBER | MACHINE, "given to others while processes ran, over all CPUs"},
     {"held_back", NUMBER, "pairs in whose batch a quota held the control group back"},
     {"throttled", NUMBER | MACHINE, "periods in which a quota did, while processes ran"}}};

static const char select_conditions[] =
    "SELECT run, started_ns, brand, cpus, n_cpuset, cpu_quota, n_processes, cpu_ns, "
    "max_rss_bytes / 1048576.0, load_least, load_most, mhz_least, mhz_most, celsius, n_pairs, "
    "n_switched, n_steal, steal_jiffies, n_throttled, throttled FROM v_conditions ORDER BY "
    "started_ns, run";

/* For people from least to most in one cell, for machines in two. */
static void put_range(Report *r, double least, double most, const char *format)
{
    const char *lo = isfinite(least) ? arena_printf(r->a, format, least) : "";
    const char *hi = isfinite(most) ? arena_printf(r->a, format, most) : "";
    cell_add(r, strcmp(lo, hi) != 0 ? "%s to %s" : "%s", lo, hi);
    cell_add_number(r, least, format);
    cell_add_number(r, most, format);
}

static void put_conditions(Report *r)
{
    report_sheet(r, &sheet_conditions);
    DbSql *q = QUERY_ALL(r, select_conditions);
    while (db_sql_next(q)) {
        const char *brand = cell_text(r, q, 2), *cpus = cell_text(r, q, 3);
        cell_add(r, "%s", db_sql_cell(q, 0).text);
        cell_add_time(r, cell_int(q, 1));
        cell_add_text(r, brand);
        cell_add_text(r, cpus);
        cell_add_int(r, cell_int(q, 4));
        cell_add_number(r, cell_real(q, 5), "%.2f");
        cell_add_int(r, cell_int(q, 6));
        cell_add_ns_both(r, cell_real(q, 7));
        cell_add_number(r, cell_real(q, 8), "%.0f");
        put_range(r, cell_real(q, 9), cell_real(q, 10), "%.2f");
        put_range(r, cell_real(q, 11), cell_real(q, 12), "%.0f");
        cell_add_number(r, cell_real(q, 13), "%.1f");
        for (int i = 14; i < 20; i++) {
            cell_add_int(r, cell_int(q, i));
        }
    }
}

void report_machine(Report *r)
{
    report_sheet(r, &sheet_machine);
    put_facts(r, "machine",
              "SELECT id, hard, isa, l1d_bytes, l2_bytes, "
              "l3_bytes, n_cores, host, vendor, brand, family, model, stepping, "
              "microcode, kernel_release, governor, turbo, smt, thp, clocksource, "
              "aslr, hypervisor, n_online, n_affinity, cpu_quota, bound_by, n_nodes, "
              "memory_bytes FROM machine ORDER BY id");
    put_facts(
        r, "compiler",
        "SELECT id, hard, version, words, flags, target, path FROM toolchain ORDER BY id");
    say_bounds(r);
    put_conditions(r);
    report_has_runs(r);
}
