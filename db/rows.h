/* rows.h - the tables of schema.sql as lists of columns, and a plain struct for a row of each. What a
 * column means is said there. */
#ifndef NC_DB_ROWS_H
#define NC_DB_ROWS_H

#include "base/base.h"

/* ---- rows.c: a struct for each table ---------------------------------------------------- */

/* How NULL looks: DB_NONE, NaN, NULL, and for a hash all zeros. A seed is its 64 bits. */
#define DB_NONE INT64_MIN
typedef int64_t DbINT;
typedef double DbREAL;
typedef const char *DbTEXT;
typedef Hash DbHASH;

/* Columns: kind, name. In the order of schema.sql. */
#define DB_MACHINE(X)                                                                   \
    X(INT, id)                                                                          \
    X(HASH, hard)                                                                       \
    X(TEXT, isa)                                                                        \
    X(INT, l1d_bytes)                                                                   \
    X(INT, l2_bytes)                                                                    \
    X(INT, l3_bytes)                                                                    \
    X(INT, n_cores)                                                                     \
    X(TEXT, host)                                                                       \
    X(TEXT, vendor)                                                                     \
    X(TEXT, brand)                                                                      \
    X(INT, family)                                                                      \
    X(INT, model)                                                                       \
    X(INT, stepping)                                                                    \
    X(TEXT, microcode)                                                                  \
    X(TEXT, kernel_release)                                                             \
    X(TEXT, governor)                                                                   \
    X(INT, turbo)                                                                       \
    X(INT, smt)                                                                         \
    X(TEXT, thp) X(TEXT, clocksource) X(INT, aslr) X(TEXT, hypervisor) X(INT, n_online) \
        X(INT, n_affinity) X(REAL, cpu_quota) X(TEXT, bound_by) X(INT, n_nodes)         \
            X(INT, memory_bytes)
#define DB_TOOLCHAIN(X) \
    X(INT, id)          \
    X(HASH, hard) X(TEXT, version) X(TEXT, words) X(TEXT, flags) X(TEXT, target) X(TEXT, path)
#define DB_KERNEL(X) X(INT, id) X(HASH, hash) X(TEXT, text)
#define DB_TASK(X) X(INT, id) X(INT, kernel) X(INT, n_threads) X(TEXT, regime) X(TEXT, sizes)
#define DB_SPACE(X) X(INT, id) X(TEXT, class) X(INT, n_points) X(INT, n_legal)
#define DB_KNOB(X) X(INT, space) X(INT, idx) X(TEXT, name) X(TEXT, meaning)
#define DB_KNOB_CHOICE(X) X(INT, space) X(INT, knob) X(INT, idx) X(INT, value) X(TEXT, word)
#define DB_RUN(X)         \
    X(INT, id)            \
    X(INT, started_ns)    \
    X(INT, ended_ns)      \
    X(TEXT, ending)       \
    X(TEXT, why)          \
    X(TEXT, program)      \
    X(TEXT, version)      \
    X(INT, protocol)      \
    X(TEXT, command)      \
    X(INT, machine)       \
    X(INT, toolchain)     \
    X(TEXT, strategy)     \
    X(INT, seed)          \
    X(INT, n_threads)     \
    X(INT, n_batch)       \
    X(INT, budget_ns)     \
    X(INT, budget_trials) \
    X(INT, clock_grain_ns) X(INT, clock_cost_ns) X(TEXT, cpus) X(INT, n_cpuset)
#define DB_RUN_CONSTANT(X) X(INT, run) X(TEXT, name) X(REAL, value)
#define DB_RUN_TASK(X)        \
    X(INT, run)               \
    X(INT, task)              \
    X(INT, idx)               \
    X(INT, ended_ns)          \
    X(TEXT, ending)           \
    X(TEXT, why)              \
    X(TEXT, label)            \
    X(INT, space)             \
    X(INT, flops)             \
    X(INT, read_bytes)        \
    X(INT, write_bytes)       \
    X(REAL, share)            \
    X(TEXT, default_schedule) \
    X(HASH, default_c_hash) X(INT, default_rank) X(INT, ring_bytes) X(INT, huge_pages)
#define DB_CALIBRATION(X)                                                     \
    X(INT, run)                                                               \
    X(INT, task)                                                              \
    X(INT, idx)                                                               \
    X(INT, duel)                                                              \
    X(INT, margin_e4)                                                         \
    X(REAL, sigma_p)                                                          \
    X(REAL, iqr)                                                              \
    X(REAL, flagged)                                                          \
    X(TEXT, metric)                                                           \
    X(INT, noisy)                                                             \
    X(INT, waited_ns)                                                         \
    X(INT, n_pairs_process) X(INT, at_ns) X(INT, n_trials) X(INT, elapsed_ns) \
        X(INT, budget_ns)
#define DB_TRIAL(X)      \
    X(INT, run)          \
    X(INT, idx)          \
    X(INT, task)         \
    X(INT, rank)         \
    X(TEXT, schedule)    \
    X(HASH, c_hash)      \
    X(HASH, object_hash) \
    X(TEXT, status)      \
    X(TEXT, outcome)     \
    X(TEXT, why)         \
    X(INT, incumbent)    \
    X(INT, batch)        \
    X(TEXT, strategy)    \
    X(INT, started_ns)   \
    X(INT, build_ns) X(INT, verify_ns) X(INT, measure_ns) X(INT, decide_ns) X(INT, elapsed_ns)
#define DB_TRIAL_KNOB(X) X(INT, run) X(INT, trial) X(INT, knob) X(INT, choice)
#define DB_DUEL(X)                                                                           \
    X(INT, run)                                                                              \
    X(INT, idx)                                                                              \
    X(INT, task)                                                                             \
    X(INT, trial)                                                                            \
    X(TEXT, stage)                                                                           \
    X(TEXT, a_name)                                                                          \
    X(TEXT, a_schedule)                                                                      \
    X(HASH, a_c_hash)                                                                        \
    X(TEXT, b_name)                                                                          \
    X(TEXT, b_schedule)                                                                      \
    X(HASH, b_c_hash)                                                                        \
    X(TEXT, metric)                                                                          \
    X(INT, margin_e4)                                                                        \
    X(REAL, alpha)                                                                           \
    X(REAL, beta)                                                                            \
    X(REAL, theta1)                                                                          \
    X(INT, n_max)                                                                            \
    X(INT, n)                                                                                \
    X(INT, wins) X(INT, losses) X(INT, ties) X(INT, discarded) X(REAL, ln_e_max)             \
        X(REAL, p_anytime) X(REAL, ratio) X(REAL, ratio_lo) X(REAL, ratio_hi) X(REAL, a_ns)  \
            X(REAL, b_ns) X(REAL, a_min_ns) X(REAL, b_min_ns) X(INT, noisy) X(TEXT, verdict) \
                X(TEXT, reason) X(INT, started_ns) X(INT, took_ns) X(HASH, seal)
#define DB_PROCESS(X)                                                                          \
    X(INT, run)                                                                                \
    X(INT, duel)                                                                               \
    X(INT, idx)                                                                                \
    X(TEXT, status)                                                                            \
    X(TEXT, why)                                                                               \
    X(INT, pid)                                                                                \
    X(INT, seed)                                                                               \
    X(INT, b_loaded_first)                                                                     \
    X(INT, stack_pad)                                                                          \
    X(INT, env_pad)                                                                            \
    X(INT, base_a)                                                                             \
    X(INT, base_b)                                                                             \
    X(INT, cpu)                                                                                \
    X(INT, reps)                                                                               \
    X(INT, warm_a_ns)                                                                          \
    X(INT, warm_b_ns)                                                                          \
    X(INT, n_pairs)                                                                            \
    X(INT, started_ns)                                                                         \
    X(INT, took_ns) X(INT, exit_code) X(INT, signal) X(INT, utime_ns) X(INT, stime_ns)         \
        X(INT, max_rss_bytes) X(INT, minor_faults) X(INT, major_faults)                        \
            X(INT, voluntary_switches) X(INT, involuntary_switches) X(INT, steal_jiffies)      \
                X(INT, throttled) X(REAL, load1) X(REAL, load5) X(REAL, load15)                \
                    X(REAL, cpu_mhz) X(REAL, temperature) X(REAL, read_before)                 \
                        X(REAL, read_after) X(REAL, fork_join_before) X(REAL, fork_join_after) \
                            X(REAL, flops_before) X(REAL, flops_after) X(INT, flipped)         \
                                X(INT, elapsed_ns)
#define DB_PAIR(X)  \
    X(INT, run)     \
    X(INT, duel)    \
    X(INT, process) \
    X(INT, idx)     \
    X(INT, b_first) \
    X(INT, a_ns) X(INT, b_ns) X(INT, a_cpu_ns) X(INT, b_cpu_ns) X(INT, cpu) X(INT, flags)
#define DB_WINNER(X)          \
    X(INT, run)               \
    X(INT, task)              \
    X(TEXT, schedule)         \
    X(HASH, c_hash)           \
    X(INT, trial)             \
    X(INT, rank)              \
    X(INT, duel)              \
    X(TEXT, default_schedule) \
    X(HASH, default_c_hash)   \
    X(REAL, ratio) X(REAL, ratio_lo) X(REAL, ratio_hi) X(REAL, b_ns) X(INT, at_ns)
#define DB_WINNER_RANGE(X) X(INT, run) X(INT, task) X(INT, slot) X(INT, least) X(INT, most)
#define DB_TIE_SET(X) \
    X(INT, run)       \
    X(INT, task)      \
    X(INT, idx)       \
    X(TEXT, schedule) \
    X(HASH, c_hash) X(INT, trial) X(INT, duel) X(INT, n_steps) X(INT, canonical)
#define DB_SLICE(X)    \
    X(INT, run)        \
    X(INT, idx)        \
    X(INT, task)       \
    X(INT, elapsed_ns) \
    X(INT, budget_ns)  \
    X(REAL, share)     \
    X(REAL, headroom) X(REAL, chance) X(INT, cost_ns)
#define DB_IMPORTED(X) \
    X(TEXT, signature) X(HASH, kernel_hash) X(TEXT, sizes) X(TEXT, schedule) X(HASH, c_hash)
#define DB_BUILD(X)    \
    X(INT, id)         \
    X(INT, started_ns) \
    X(INT, took_ns)    \
    X(TEXT, version)   \
    X(INT, machine)    \
    X(INT, toolchain)  \
    X(TEXT, model) X(TEXT, output) X(HASH, output_hash) X(INT, n_threads) X(TEXT, command)
#define DB_BUILD_SITE(X) \
    X(INT, build)        \
    X(INT, idx)          \
    X(TEXT, site)        \
    X(INT, kernel)       \
    X(TEXT, sizes)       \
    X(TEXT, regime)      \
    X(TEXT, outcome)     \
    X(TEXT, field)       \
    X(TEXT, why)         \
    X(TEXT, schedule)    \
    X(HASH, c_hash) X(INT, winner_run) X(INT, winner_task) X(REAL, expected_ns)
#define DB_EXPERIMENT_CELL(X) \
    X(TEXT, experiment)       \
    X(TEXT, line)             \
    X(TEXT, heading)          \
    X(INT, at_ns)             \
    X(INT, machine)           \
    X(INT, toolchain)         \
    X(REAL, value) X(REAL, lo) X(REAL, hi) X(TEXT, unit) X(TEXT, word) X(INT, run) X(INT, duel)

/* Columns: list of columns, struct, table, columns of the primary key, table whose row it
 * belongs to (they are one record: recorded, compared and merged together). A table stands
 * behind those it refers to. */
#define DB_TABLES(X)                                           \
    X(MACHINE, DbMachine, machine, 1, MACHINE)                 \
    X(TOOLCHAIN, DbToolchain, toolchain, 1, TOOLCHAIN)         \
    X(KERNEL, DbKernel, kernel, 1, KERNEL)                     \
    X(TASK, DbTask, task, 1, TASK)                             \
    X(SPACE, DbSpace, space, 1, SPACE)                         \
    X(KNOB, DbKnob, knob, 2, SPACE)                            \
    X(KNOB_CHOICE, DbKnobChoice, knob_choice, 3, SPACE)        \
    X(RUN, DbRun, run, 1, RUN)                                 \
    X(RUN_CONSTANT, DbRunConstant, run_constant, 2, RUN)       \
    X(RUN_TASK, DbRunTask, run_task, 2, RUN_TASK)              \
    X(CALIBRATION, DbCalibration, calibration, 3, CALIBRATION) \
    X(TRIAL, DbTrial, trial, 2, TRIAL)                         \
    X(TRIAL_KNOB, DbTrialKnob, trial_knob, 3, TRIAL)           \
    X(DUEL, DbDuel, duel, 2, DUEL)                             \
    X(PROCESS, DbProcess, process, 3, DUEL)                    \
    X(PAIR, DbPair, pair, 4, DUEL)                             \
    X(WINNER, DbWinner, winner, 2, WINNER)                     \
    X(WINNER_RANGE, DbWinnerRange, winner_range, 3, WINNER)    \
    X(TIE_SET, DbTieSet, tie_set, 3, TIE_SET)                  \
    X(SLICE, DbSlice, slice, 2, SLICE)                         \
    X(IMPORTED, DbImported, imported, 4, IMPORTED)             \
    X(BUILD, DbBuild, build, 1, BUILD)                         \
    X(BUILD_SITE, DbBuildSite, build_site, 2, BUILD)           \
    X(EXPERIMENT_CELL, DbExperimentCell, experiment_cell, 5, EXPERIMENT_CELL)

#define DB_FIELD(kind, name) Db##kind name;
#define X(list, type, table, n_key, owner) \
    typedef struct type {                  \
        DB_##list(DB_FIELD)                \
    } type;
DB_TABLES(X)
#undef X
#undef DB_FIELD

typedef enum DbTable {
#define X(list, type, table, n_key, owner) DB_T_##list,
    DB_TABLES(X) N_DB_TABLES
#undef X
} DbTable;

/* Every column NULL (a row of zeros has none): fill in what is known. */
void db_blank(DbTable t, void *row);

#endif
