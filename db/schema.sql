-- schema.sql - the schedule database. This file is built into the programs; `schedb sql` and
-- any other SQLite client read the database, and the views at the end are an interface that
-- reports stand on.
--
-- Two rules shape it. Ids mean the same in every database: an id is 53 bits (exact in JSON too)
-- of the hash of what the row says, or of who made it and when, and everything below a run is
-- numbered within the run. So merging databases copies rows and renumbers nothing. Nothing is
-- changed once it was written, but for what ends later (columns that are NULL until then; a
-- match, whose row grows with its processes; a winner, until its tie set is known). What is
-- stored besides raw data can be computed again from it, and `schedb verify` does.
--
-- Times are in ns: *_ns is a length of time, or where it is called so a moment since 1970.
-- Hashes are XXH3-128 as 32 hexadecimal digits. Seeds are 64 bits, negative where the topmost
-- is set: show them with printf('%u', seed). NULL: not known, or not so far.
--
-- A line "-- version N" opens what brings a database from version N - 1 to N (PRAGMA
-- user_version). Views hold no data: after a change of version they are made again.

-- version 1

-- ---- who: machines and compilers ------------------------------------------------------------

-- Where something ran. The hard part decides whether a schedule that was best here may serve
-- there.
CREATE TABLE machine (
    id INTEGER PRIMARY KEY,
    hard TEXT NOT NULL,              -- hash of the hard part
    -- the hard part
    isa TEXT NOT NULL,               -- architecture, family and features that code may use
    l1d_bytes INTEGER NOT NULL,      -- caches, of one instance; 0: not known
    l2_bytes INTEGER NOT NULL,
    l3_bytes INTEGER NOT NULL,
    n_cores INTEGER NOT NULL,        -- CPUs that may be used: affinity, quota and online CPUs
    -- the soft part: told, never asked for
    host TEXT,
    vendor TEXT,
    brand TEXT,
    family INTEGER,
    model INTEGER,
    stepping INTEGER,
    microcode TEXT,
    kernel_release TEXT,
    governor TEXT,
    turbo INTEGER,                   -- 0, 1
    smt INTEGER,                     -- 0, 1
    thp TEXT,                        -- transparent huge pages: always, madvise, never
    clocksource TEXT,
    aslr INTEGER,                    -- randomize_va_space
    hypervisor TEXT,                 -- none: not virtual
    n_online INTEGER,
    n_affinity INTEGER,
    cpu_quota REAL,                  -- of the control groups, in CPUs; NULL: none
    bound_by TEXT,                   -- which of the three bound n_cores
    n_nodes INTEGER,
    memory_bytes INTEGER
) STRICT;
CREATE INDEX machine_by_hard ON machine (hard);

-- What compiled it. All but the path is hard.
CREATE TABLE toolchain (
    id INTEGER PRIMARY KEY,
    hard TEXT NOT NULL,              -- hash of version, words, flags and target
    version TEXT NOT NULL,           -- first line of --version
    words TEXT NOT NULL,             -- what $CC says behind the program's name
    flags TEXT NOT NULL,
    target TEXT NOT NULL,            -- how wide emitted vectors are: a row of the targets
    path TEXT
) STRICT;
CREATE INDEX toolchain_by_hard ON toolchain (hard);

-- ---- what: kernels, tasks, spaces -----------------------------------------------------------

-- One fused group as a problem. From its text alone it can be compiled and tuned again.
CREATE TABLE kernel (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL,              -- of the text
    text TEXT NOT NULL               -- canonical
) STRICT;
CREATE INDEX kernel_by_hash ON kernel (hash);

-- What is tuned: a kernel at sizes that are known at run time only, with so many threads.
CREATE TABLE task (
    id INTEGER PRIMARY KEY,
    kernel INTEGER NOT NULL REFERENCES kernel,
    n_threads INTEGER NOT NULL,
    regime TEXT NOT NULL CHECK (regime IN ('hot', 'cold')),
    sizes TEXT NOT NULL              -- "s0=64,s1=896", by symbol slot; "": it has none
) STRICT;
CREATE INDEX task_by_kernel ON task (kernel, n_threads, regime);

-- The schedules that are searched: knobs and their choices.
CREATE TABLE space (
    id INTEGER PRIMARY KEY,
    class TEXT NOT NULL,             -- of the kernel: contraction, row ...
    n_points INTEGER NOT NULL,       -- the product of the knobs' choices
    n_legal INTEGER NOT NULL         -- that keep every rule
) STRICT;

CREATE TABLE knob (
    space INTEGER NOT NULL REFERENCES space,
    idx INTEGER NOT NULL,            -- from 0
    name TEXT NOT NULL,
    meaning TEXT NOT NULL,
    PRIMARY KEY (space, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE knob_choice (
    space INTEGER NOT NULL,
    knob INTEGER NOT NULL,
    idx INTEGER NOT NULL,            -- from 0
    value INTEGER NOT NULL,
    word TEXT NOT NULL,              -- what it is called: "12", "panels", "k32"
    PRIMARY KEY (space, knob, idx),
    FOREIGN KEY (space, knob) REFERENCES knob
) STRICT, WITHOUT ROWID;

-- ---- when: runs -----------------------------------------------------------------------------

-- One command that recorded something. What is needed to do it again, and how it ended.
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    started_ns INTEGER NOT NULL,     -- since 1970
    ended_ns INTEGER,                -- since 1970; NULL: it runs, or was killed: tune --resume
    ending TEXT,                     -- finished, budget, exhausted, interrupted, failed ...
    why TEXT,                        -- a sentence, where there is more to say
    program TEXT NOT NULL,           -- tune, import ...
    version TEXT NOT NULL,           -- of the program
    protocol INTEGER NOT NULL,       -- version of the measurement protocol
    command TEXT NOT NULL,           -- its words, joined by blanks
    machine INTEGER NOT NULL REFERENCES machine,
    toolchain INTEGER NOT NULL REFERENCES toolchain,
    strategy TEXT,
    seed INTEGER NOT NULL,
    n_threads INTEGER NOT NULL,
    n_batch INTEGER,                 -- candidates that are compiled together
    budget_ns INTEGER,               -- NULL: counted in trials, or none
    budget_trials INTEGER,
    clock_grain_ns INTEGER,          -- smallest step of the clock
    clock_cost_ns INTEGER            -- of reading it
) STRICT;

-- The constants of the protocol and of the strategy that were in force.
CREATE TABLE run_constant (
    run INTEGER NOT NULL REFERENCES run,
    name TEXT NOT NULL,              -- alpha, beta, theta1, n_max, title_alpha ...
    value REAL NOT NULL,
    PRIMARY KEY (run, name)
) STRICT, WITHOUT ROWID;

-- A task within a run.
CREATE TABLE run_task (
    run INTEGER NOT NULL REFERENCES run,
    task INTEGER NOT NULL REFERENCES task,
    idx INTEGER NOT NULL,            -- order within the run, from 0
    ended_ns INTEGER,                -- since 1970; NULL: it runs, or was stopped
    ending TEXT,                     -- winner, exhausted, budget, too-short ...
    why TEXT,
    label TEXT,                      -- what people call it: "matmul 64x4864x896"
    space INTEGER REFERENCES space,  -- NULL: nothing was searched
    flops INTEGER,                   -- of one call
    read_bytes INTEGER,              -- that one call has to move, from what lies in memory
    write_bytes INTEGER,
    share REAL,                      -- of the model's time, by the default schedules
    default_schedule TEXT NOT NULL,  -- "": no steps
    default_c_hash TEXT,
    default_rank INTEGER,            -- its number within the space; NULL: outside
    ring_bytes INTEGER,              -- of constant operands, all copies; 0: hot
    huge_pages INTEGER,              -- 0, 1: of the ring
    PRIMARY KEY (run, task)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_task_by_task ON run_task (task);

-- What the default against a copy of its own library showed; the newest before a duel holds for
-- it.
CREATE TABLE calibration (
    run INTEGER NOT NULL,
    task INTEGER NOT NULL,
    idx INTEGER NOT NULL,            -- from 0
    duel INTEGER,                    -- its processes and pairs
    margin_e4 INTEGER NOT NULL,      -- the margin it gives, in 1/10000
    sigma_p REAL NOT NULL,           -- spread of processes' medians of ln(b / a)
    iqr REAL NOT NULL,               -- of ln(b / a) over all pairs
    flagged REAL NOT NULL,           -- the part of pairs that were disturbed
    metric TEXT NOT NULL,            -- wall, cpu: what decides
    noisy INTEGER NOT NULL,          -- 0, 1: gone on with in spite of the noise
    waited_ns INTEGER NOT NULL,      -- for the machine to calm down
    n_pairs_process INTEGER NOT NULL, -- pairs of a title process
    at_ns INTEGER NOT NULL,          -- since 1970
    PRIMARY KEY (run, task, idx),
    FOREIGN KEY (run, task) REFERENCES run_task
) STRICT, WITHOUT ROWID;

-- ---- trials: one candidate each -------------------------------------------------------------

CREATE TABLE trial (
    run INTEGER NOT NULL,
    idx INTEGER NOT NULL,            -- order within the run, from 0
    task INTEGER NOT NULL,
    rank INTEGER,                    -- the candidate's number within the space
    schedule TEXT NOT NULL,
    c_hash TEXT,                     -- of its C; NULL: none came out
    object_hash TEXT,                -- of its library
    status TEXT NOT NULL CHECK (status IN ('ok', 'illegal', 'cc-error', 'cc-timeout', 'crash',
        'timeout', 'oom', 'wrong', 'garbage')), -- how the candidate ended
    outcome TEXT NOT NULL,           -- what the protocol did: screened, futile, promoted ...
    why TEXT,                        -- a sentence where the status is not ok
    incumbent INTEGER,               -- the trial it was raced against; NULL: the default
    batch INTEGER,                   -- with which others it was proposed and compiled
    strategy TEXT,                   -- who proposed it, where a run mixes several
    started_ns INTEGER,              -- since 1970: it began to be measured
    -- wall time by phase: none counts twice
    build_ns INTEGER,
    verify_ns INTEGER,
    measure_ns INTEGER,
    decide_ns INTEGER,
    PRIMARY KEY (run, idx),
    FOREIGN KEY (run, task) REFERENCES run_task
) STRICT, WITHOUT ROWID;
CREATE INDEX trial_by_task ON trial (task, c_hash);

CREATE TABLE trial_knob (
    run INTEGER NOT NULL,
    trial INTEGER NOT NULL,
    knob INTEGER NOT NULL,           -- of the task's space in this run
    choice INTEGER NOT NULL,
    PRIMARY KEY (run, trial, knob),
    FOREIGN KEY (run, trial) REFERENCES trial
) STRICT, WITHOUT ROWID;

-- ---- evidence: duels, their processes, their pairs ------------------------------------------

-- Two schedules (or a schedule and a rival) in randomly ordered pairs, and what that proves. a
-- is the incumbent, b the challenger; ratios are time of b by time of a: below 1 where b is
-- faster.
CREATE TABLE duel (
    run INTEGER NOT NULL,
    idx INTEGER NOT NULL,            -- order within the run, from 0
    task INTEGER NOT NULL,
    trial INTEGER,                   -- NULL: not in the course of a trial
    stage TEXT NOT NULL,             -- calibrate, search, replicate, title, equivalence ...
    a_name TEXT NOT NULL,            -- default, trial 17, OpenBLAS ...
    a_schedule TEXT,                 -- NULL: a rival
    a_c_hash TEXT,
    b_name TEXT NOT NULL,
    b_schedule TEXT,
    b_c_hash TEXT,
    metric TEXT NOT NULL,            -- wall, cpu
    margin_e4 INTEGER NOT NULL,      -- b wins a pair below 1 - margin_e4 / 10000 of a
    alpha REAL NOT NULL,             -- of the sequential test
    beta REAL NOT NULL,              -- of giving up
    theta1 REAL NOT NULL,
    n_max INTEGER NOT NULL,          -- the cap: pairs in a search, processes in a match
    -- what came out, all from the pairs
    n INTEGER NOT NULL,              -- what counted: pairs in a search, processes in a match
    wins INTEGER NOT NULL,           -- of b
    losses INTEGER NOT NULL,
    ties INTEGER NOT NULL,           -- losses with equal times
    discarded INTEGER NOT NULL,      -- pairs that did not count, for their flags
    ln_e_max REAL NOT NULL,          -- largest ln of the e-value on the way
    p_anytime REAL NOT NULL,         -- min(1, 1 / e-value)
    ratio REAL,                      -- median
    ratio_lo REAL,                   -- its interval; NULL: too few processes
    ratio_hi REAL,
    a_ns REAL,                       -- median of one call
    b_ns REAL,
    a_min_ns REAL,                   -- least of one call: to be shown, never to decide
    b_min_ns REAL,
    noisy INTEGER NOT NULL,          -- 0, 1: flagged pairs counted, there were too many
    verdict TEXT NOT NULL,           -- FASTER, SLOWER, EQUIVALENT, UNDECIDED; promoted ...
    reason TEXT NOT NULL,            -- r1, m3, futile, cap, rep_fail, title_pass, crash ...
    started_ns INTEGER NOT NULL,     -- since 1970
    took_ns INTEGER NOT NULL,
    seal TEXT NOT NULL,              -- hash of this row, its processes and pairs
    PRIMARY KEY (run, idx),
    FOREIGN KEY (run, task) REFERENCES run_task,
    FOREIGN KEY (run, trial) REFERENCES trial
) STRICT, WITHOUT ROWID;
CREATE INDEX duel_by_trial ON duel (run, trial);
CREATE INDEX duel_by_task ON duel (task, stage);

-- One fresh process.
CREATE TABLE process (
    run INTEGER NOT NULL,
    duel INTEGER NOT NULL,
    idx INTEGER NOT NULL,            -- from 0
    status TEXT NOT NULL CHECK (status IN ('ok', 'illegal', 'cc-error', 'cc-timeout', 'crash',
        'timeout', 'oom', 'wrong', 'garbage')),
    why TEXT,
    pid INTEGER,
    seed INTEGER NOT NULL,           -- of orders, inputs, layout
    b_loaded_first INTEGER,          -- 0, 1
    stack_pad INTEGER,               -- bytes
    env_pad INTEGER,                 -- bytes of environment, likewise
    base_a INTEGER,                  -- where the libraries were loaded
    base_b INTEGER,
    cpu INTEGER,                     -- pinned to; NULL: to none, or to a set
    reps INTEGER NOT NULL,           -- calls a sample
    warm_a_ns INTEGER,               -- of one warm call
    warm_b_ns INTEGER,
    n_pairs INTEGER NOT NULL,        -- discarded ones too
    started_ns INTEGER NOT NULL,     -- since 1970
    took_ns INTEGER NOT NULL,
    exit_code INTEGER,
    signal INTEGER,
    -- getrusage, of all its life. max_rss: at least the tuner's own, as which it begins
    utime_ns INTEGER,
    stime_ns INTEGER,
    max_rss_bytes INTEGER,
    minor_faults INTEGER,
    major_faults INTEGER,
    voluntary_switches INTEGER,
    involuntary_switches INTEGER,
    -- the machine meanwhile
    steal_jiffies INTEGER,           -- that a hypervisor gave to others, over all CPUs
    throttled INTEGER,               -- periods in which the control group was held back
    load1 REAL,                      -- when it began
    load5 REAL,
    load15 REAL,
    cpu_mhz REAL,                    -- of the CPU that it ran on, when it had ended
    temperature REAL,                -- degrees Celsius, of the warmest zone, then
    -- probes before the first pair and behind the last one
    read_before REAL,                -- bytes a ns
    read_after REAL,
    fork_join_before REAL,           -- ns
    fork_join_after REAL,
    flops_before REAL,               -- flops a ns
    flops_after REAL,
    flipped INTEGER,                 -- 0, 1: the two differ, so no fractions are quoted
    PRIMARY KEY (run, duel, idx),
    FOREIGN KEY (run, duel) REFERENCES duel
) STRICT, WITHOUT ROWID;

-- One sample of each, back to back, in random order: the raw data.
CREATE TABLE pair (
    run INTEGER NOT NULL,
    duel INTEGER NOT NULL,
    process INTEGER NOT NULL,
    idx INTEGER NOT NULL,            -- from 0
    b_first INTEGER NOT NULL,        -- 0, 1: the order
    a_ns INTEGER NOT NULL,           -- wall time of reps calls together
    b_ns INTEGER NOT NULL,
    a_cpu_ns INTEGER NOT NULL,       -- CPU time; 0: the sample is too short to ask
    b_cpu_ns INTEGER NOT NULL,
    cpu INTEGER NOT NULL,            -- it ran on last
    -- 1 involuntary switch, 2 page fault, 4 another CPU, 8 steal time in the batch,
    -- 16 voluntary switch, 32 the clock stood or went back, 64 the control group was held back
    flags INTEGER NOT NULL,
    PRIMARY KEY (run, duel, process, idx),
    FOREIGN KEY (run, duel, process) REFERENCES process
) STRICT, WITHOUT ROWID;

-- ---- answers: winners, tie sets -------------------------------------------------------------

-- What a build takes: the schedule that won a title match against the default, on this run's
-- machine with its compiler.
CREATE TABLE winner (
    run INTEGER NOT NULL,
    task INTEGER NOT NULL,
    schedule TEXT NOT NULL,
    c_hash TEXT NOT NULL,
    trial INTEGER,
    rank INTEGER,
    duel INTEGER NOT NULL,           -- the evidence
    default_schedule TEXT NOT NULL,  -- what it beat
    default_c_hash TEXT NOT NULL,
    ratio REAL NOT NULL,             -- of the evidence
    ratio_lo REAL,
    ratio_hi REAL,
    b_ns REAL NOT NULL,              -- median of one call
    at_ns INTEGER NOT NULL,          -- since 1970
    PRIMARY KEY (run, task),
    FOREIGN KEY (run, task) REFERENCES run_task,
    FOREIGN KEY (run, duel) REFERENCES duel
) STRICT, WITHOUT ROWID;
CREATE INDEX winner_by_task ON winner (task);

-- Sizes that it serves, by symbol; a symbol without a row has any size.
CREATE TABLE winner_range (
    run INTEGER NOT NULL,
    task INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    least INTEGER NOT NULL,          -- both ends included
    most INTEGER NOT NULL CHECK (least <= most),
    PRIMARY KEY (run, task, slot),
    FOREIGN KEY (run, task) REFERENCES winner
) STRICT, WITHOUT ROWID;

-- No claim without proof: whoever inserts it.
CREATE TRIGGER winner_has_evidence BEFORE INSERT ON winner
WHEN NOT EXISTS (SELECT 1 FROM duel WHERE run = new.run AND idx = new.duel AND task = new.task
    AND stage = 'title' AND verdict = 'FASTER' AND b_c_hash = new.c_hash
    AND a_c_hash = new.default_c_hash)
BEGIN
    SELECT raise(ABORT, 'a winner needs a title match that proved it faster than the default');
END;

-- Schedules that an equivalence match found as good as the champion.
CREATE TABLE tie_set (
    run INTEGER NOT NULL,
    task INTEGER NOT NULL,
    idx INTEGER NOT NULL,            -- from 0, in canonical order: simplest first
    schedule TEXT NOT NULL,
    c_hash TEXT NOT NULL,
    trial INTEGER,
    duel INTEGER,                    -- the equivalence match; NULL: the champion
    n_steps INTEGER NOT NULL,        -- simplest first
    canonical INTEGER NOT NULL,      -- 0, 1: the pick
    PRIMARY KEY (run, task, idx),
    FOREIGN KEY (run, task) REFERENCES run_task,
    FOREIGN KEY (run, duel) REFERENCES duel
) STRICT, WITHOUT ROWID;

-- Rows of .sched files: schedules without evidence in this database. They serve where no winner
-- does.
CREATE TABLE imported (
    signature TEXT NOT NULL,         -- of machine, compiler, threads and regime: one line
    kernel_hash TEXT NOT NULL,
    sizes TEXT NOT NULL,             -- as in the file: "s0=1..64,s1=*"; "*": any
    schedule TEXT NOT NULL,
    c_hash TEXT,
    PRIMARY KEY (signature, kernel_hash, sizes, schedule)
) STRICT, WITHOUT ROWID;

-- ---- use: builds, experiments ---------------------------------------------------------------

CREATE TABLE build (
    id INTEGER PRIMARY KEY,
    started_ns INTEGER NOT NULL,     -- since 1970
    took_ns INTEGER NOT NULL,
    version TEXT NOT NULL,
    machine INTEGER NOT NULL REFERENCES machine,
    toolchain INTEGER NOT NULL REFERENCES toolchain,
    model TEXT NOT NULL,
    output TEXT NOT NULL,
    output_hash TEXT,
    n_threads INTEGER NOT NULL,
    command TEXT NOT NULL
) STRICT;

-- What each call site of the model got, and why not better.
CREATE TABLE build_site (
    build INTEGER NOT NULL REFERENCES build,
    idx INTEGER NOT NULL,            -- from 0
    site TEXT NOT NULL,
    kernel INTEGER NOT NULL REFERENCES kernel,
    sizes TEXT NOT NULL,             -- that it is called with; "": it has no symbols
    regime TEXT NOT NULL,
    outcome TEXT NOT NULL,           -- hit, kept, imported, miss, stale, refused, default, naive
    field TEXT,                      -- of a miss: the key's first field that differs
    why TEXT,
    schedule TEXT NOT NULL,          -- that was built
    c_hash TEXT NOT NULL,
    winner_run INTEGER,              -- NULL: the default was built
    winner_task INTEGER,
    expected_ns REAL,                -- of one call
    PRIMARY KEY (build, idx),
    FOREIGN KEY (winner_run, winner_task) REFERENCES winner
) STRICT, WITHOUT ROWID;

-- One cell of a reproduced table.
CREATE TABLE experiment_cell (
    experiment TEXT NOT NULL,
    line TEXT NOT NULL,              -- of the table
    heading TEXT NOT NULL,           -- its column
    at_ns INTEGER NOT NULL,          -- since 1970
    machine INTEGER NOT NULL REFERENCES machine,
    toolchain INTEGER REFERENCES toolchain,
    value REAL,                      -- NULL: it is a word, or there is none
    lo REAL,                         -- its interval
    hi REAL,
    unit TEXT,
    word TEXT,
    run INTEGER,                     -- where the evidence is
    duel INTEGER,
    PRIMARY KEY (experiment, line, heading, at_ns, machine),
    FOREIGN KEY (run, duel) REFERENCES duel
) STRICT, WITHOUT ROWID;

-- version 2

-- What a stopped run needs in order to go on as it would have: what a session had used of its
-- budget when something of it was recorded. NULL in runs of version 1, which cannot be resumed.
ALTER TABLE calibration ADD COLUMN n_trials INTEGER;   -- of its task, made before it
ALTER TABLE calibration ADD COLUMN elapsed_ns INTEGER; -- of the session, at its end
ALTER TABLE calibration ADD COLUMN budget_ns INTEGER;  -- of the session then; NULL: no limit
ALTER TABLE trial ADD COLUMN elapsed_ns INTEGER;
ALTER TABLE process ADD COLUMN elapsed_ns INTEGER;

-- How the budget of a run was dealt out among its tasks, and why: see tuner/allocate.c.
CREATE TABLE slice (
    run INTEGER NOT NULL,
    idx INTEGER NOT NULL,            -- order within the run, from 0
    task INTEGER NOT NULL,
    elapsed_ns INTEGER NOT NULL,     -- that the run had used when it was dealt
    budget_ns INTEGER NOT NULL,      -- more for this task
    share REAL NOT NULL,             -- of the model's time that is this task's, by the default
    headroom REAL NOT NULL,          -- the part of that which can still go, by the roofline
    chance REAL NOT NULL,            -- of a better candidate in the next batch
    cost_ns INTEGER NOT NULL,        -- of the next batch
    PRIMARY KEY (run, idx),
    FOREIGN KEY (run, task) REFERENCES run_task
) STRICT, WITHOUT ROWID;

-- version 3

-- Which CPUs a run might use: of those that its control groups have, some.
ALTER TABLE run ADD COLUMN cpus TEXT;         -- its affinity mask, as "0-3,8"
ALTER TABLE run ADD COLUMN n_cpuset INTEGER;  -- in the set of its control groups; NULL: none

-- views

-- ---- v_best: what a build takes, one line a task, kind of machine and compiler --------------
-- Of several winners the one whose interval promises most; then the better ratio, the newer,
-- the greater run: the same in every database that holds the same rows.
CREATE VIEW v_best AS
SELECT task, kernel, kernel_hash, sizes, n_threads, regime, label,
    schedule, c_hash, default_schedule, default_c_hash,
    1 / ratio AS speedup, 1 / ratio_hi AS speedup_lo, 1 / ratio_lo AS speedup_hi,
    ratio, ratio_lo, ratio_hi, b_ns AS ns,
    run, duel, machine, brand, n_cores, compiler, at_ns
FROM (
    SELECT w.*, t.kernel, k.hash AS kernel_hash, t.sizes, t.n_threads, t.regime, rt.label,
        r.machine, m.brand, m.n_cores, c.version AS compiler,
        row_number() OVER (PARTITION BY w.task, m.hard, c.hard
            ORDER BY w.ratio_hi IS NULL, w.ratio_hi, w.ratio, w.at_ns DESC, w.run DESC) AS place
    FROM winner w
    JOIN task t ON t.id = w.task
    JOIN kernel k ON k.id = t.kernel
    JOIN run_task rt ON rt.run = w.run AND rt.task = w.task
    JOIN run r ON r.id = w.run
    JOIN machine m ON m.id = r.machine
    JOIN toolchain c ON c.id = r.toolchain
)
WHERE place = 1;

-- ---- v_trials: one line a candidate ---------------------------------------------------------
-- ratio, a_ns, b_ns: of its search duel against the incumbent of that moment; NULL where it was
-- not timed. n_pairs: that counted.
CREATE VIEW v_trials AS
SELECT tr.run, tr.idx AS trial, tr.task, rt.label, t.kernel, t.sizes, t.n_threads, t.regime,
    tr.rank, tr.schedule, tr.c_hash, tr.status, tr.outcome, tr.why, tr.incumbent, tr.batch,
    coalesce(tr.strategy, r.strategy) AS strategy,
    d.ratio, d.a_ns, d.b_ns, d.n AS n_pairs, d.wins, d.losses, d.ln_e_max, d.reason,
    tr.build_ns, tr.verify_ns, tr.measure_ns, tr.decide_ns, tr.started_ns,
    tr.started_ns - r.started_ns AS since_start_ns
FROM trial tr
JOIN run r ON r.id = tr.run
JOIN run_task rt ON rt.run = tr.run AND rt.task = tr.task
JOIN task t ON t.id = tr.task
LEFT JOIN duel d ON d.run = tr.run AND d.trial = tr.idx AND d.stage = 'search';

-- ---- v_evidence: one line a duel: who, how often, what it proves ----------------------------
-- is_winner: a winner stands on it. n counts pairs in a search and processes in a match;
-- n_processes and n_pairs count all that were measured.
CREATE VIEW v_evidence AS
SELECT d.run, d.idx AS duel, d.task, rt.label, t.sizes, t.n_threads, t.regime, d.trial, d.stage,
    d.a_name, d.a_schedule, d.a_c_hash, d.b_name, d.b_schedule, d.b_c_hash,
    d.metric, d.margin_e4, d.alpha, d.n, d.wins, d.losses, d.ties, d.discarded,
    (SELECT count(*) FROM process p WHERE p.run = d.run AND p.duel = d.idx) AS n_processes,
    (SELECT total(p.n_pairs) FROM process p WHERE p.run = d.run AND p.duel = d.idx) AS n_pairs,
    d.ln_e_max, d.p_anytime, d.ratio, d.ratio_lo, d.ratio_hi, 1 / d.ratio AS speedup,
    d.a_ns, d.b_ns, d.a_min_ns, d.b_min_ns, d.noisy, d.verdict, d.reason,
    EXISTS (SELECT 1 FROM winner w WHERE w.run = d.run AND w.task = d.task AND w.duel = d.idx)
        AS is_winner,
    d.started_ns, d.took_ns
FROM duel d
JOIN run_task rt ON rt.run = d.run AND rt.task = d.task
JOIN task t ON t.id = d.task;

-- ---- v_pairs: one line a pair of samples ----------------------------------------------------
-- ratio: b by a, wall time. a_call_ns, b_call_ns: of one call.
CREATE VIEW v_pairs AS
SELECT p.run, p.duel, p.process, p.idx AS pair, d.task, d.stage, d.a_name, d.b_name,
    p.b_first, p.a_ns, p.b_ns, p.a_cpu_ns, p.b_cpu_ns, pr.reps,
    1.0 * p.a_ns / pr.reps AS a_call_ns, 1.0 * p.b_ns / pr.reps AS b_call_ns,
    1.0 * p.b_ns / nullif(p.a_ns, 0) AS ratio, p.cpu, p.flags
FROM pair p
JOIN process pr ON pr.run = p.run AND pr.duel = p.duel AND pr.idx = p.process
JOIN duel d ON d.run = p.run AND d.idx = p.duel;

-- ---- v_misses: call sites that were not built with a winner, and why ------------------------
CREATE VIEW v_misses AS
SELECT s.build, s.idx AS site_idx, s.site, s.kernel, k.hash AS kernel_hash, s.sizes, s.regime,
    b.n_threads, s.outcome, s.field, s.why, s.schedule, b.model, b.started_ns
FROM build_site s
JOIN build b ON b.id = s.build
JOIN kernel k ON k.id = s.kernel
WHERE s.outcome <> 'hit';

-- ---- v_builds: one line a build -------------------------------------------------------------
CREATE VIEW v_builds AS
SELECT b.id AS build, b.started_ns, b.took_ns, b.version, b.model, b.output, b.n_threads,
    m.brand, c.version AS compiler,
    count(s.idx) AS n_sites,
    coalesce(sum(s.outcome = 'hit'), 0) AS n_hit,
    coalesce(sum(s.outcome = 'kept'), 0) AS n_kept,
    coalesce(sum(s.outcome = 'miss'), 0) AS n_miss,
    coalesce(sum(s.outcome = 'stale'), 0) AS n_stale,
    coalesce(sum(s.outcome = 'refused'), 0) AS n_refused,
    b.machine, b.command
FROM build b
JOIN machine m ON m.id = b.machine
JOIN toolchain c ON c.id = b.toolchain
LEFT JOIN build_site s ON s.build = b.id
GROUP BY b.id;

-- ---- v_phase_time: where the time of a run went, one line a task ----------------------------
-- duel_ns: all processes of all duels, those of trials (verify_ns and measure_ns are parts of it)
-- and of matches. waited_ns: for calm.
CREATE VIEW v_phase_time AS
SELECT rt.run, rt.task, rt.label,
    count(x.idx) AS n_trials,
    total(x.build_ns) AS build_ns,
    total(x.verify_ns) AS verify_ns,
    total(x.measure_ns) AS measure_ns,
    total(x.decide_ns) AS decide_ns,
    (SELECT total(d.took_ns) FROM duel d WHERE d.run = rt.run AND d.task = rt.task) AS duel_ns,
    (SELECT total(d.took_ns) FROM duel d WHERE d.run = rt.run AND d.task = rt.task
        AND d.trial IS NULL) AS match_ns,
    (SELECT total(c.waited_ns) FROM calibration c WHERE c.run = rt.run AND c.task = rt.task)
        AS waited_ns,
    r.ended_ns - r.started_ns AS run_ns
FROM run_task rt
JOIN run r ON r.id = rt.run
LEFT JOIN trial x ON x.run = rt.run AND x.task = rt.task
GROUP BY rt.run, rt.task;

-- ---- v_conditions: one line a run: the machine while its processes ran ----------------------
-- NULL where no process says. steal_jiffies and throttled: in all of them. celsius: the most.
-- n_steal, n_throttled, n_switched: pairs that are flagged so.
CREATE VIEW v_conditions AS
SELECT p.run, r.started_ns, m.brand, r.cpus, r.n_cpuset, m.cpu_quota,
    count(*) AS n_processes,
    sum(p.utime_ns + p.stime_ns) AS cpu_ns, max(p.max_rss_bytes) AS max_rss_bytes,
    sum(p.involuntary_switches) AS involuntary_switches, sum(p.major_faults) AS major_faults,
    sum(p.steal_jiffies) AS steal_jiffies, sum(p.throttled) AS throttled,
    min(p.load1) AS load_least, max(p.load1) AS load_most,
    min(p.cpu_mhz) AS mhz_least, max(p.cpu_mhz) AS mhz_most, max(p.temperature) AS celsius,
    total(p.n_pairs) AS n_pairs,
    (SELECT count(*) FROM pair x WHERE x.run = p.run AND x.flags & 1) AS n_switched,
    (SELECT count(*) FROM pair x WHERE x.run = p.run AND x.flags & 8) AS n_steal,
    (SELECT count(*) FROM pair x WHERE x.run = p.run AND x.flags & 64) AS n_throttled
FROM process p
JOIN run r ON r.id = p.run
JOIN machine m ON m.id = r.machine
GROUP BY p.run;

-- ---- v_slices: one line a time that a run's budget was dealt out ----------------------------
-- worth: the part of the model's time that may go for a second of search.
CREATE VIEW v_slices AS
SELECT s.run, s.idx AS slice, s.task, rt.label, t.kernel, t.sizes, t.n_threads, t.regime,
    s.elapsed_ns, s.budget_ns, s.share, s.headroom, s.chance, s.cost_ns,
    s.share * s.headroom * s.chance / nullif(s.cost_ns / 1e9, 0) AS worth
FROM slice s
JOIN run_task rt ON rt.run = s.run AND rt.task = s.task
JOIN task t ON t.id = s.task;

-- ---- v_knobs: one line a candidate and knob -------------------------------------------------
CREATE VIEW v_knobs AS
SELECT tk.run, tk.trial, tr.task, rt.space, tk.knob, k.name, tk.choice, c.value, c.word,
    tr.status, tr.outcome, d.ratio, d.a_ns, d.b_ns
FROM trial_knob tk
JOIN trial tr ON tr.run = tk.run AND tr.idx = tk.trial
JOIN run_task rt ON rt.run = tr.run AND rt.task = tr.task
LEFT JOIN knob k ON k.space = rt.space AND k.idx = tk.knob
LEFT JOIN knob_choice c ON c.space = rt.space AND c.knob = tk.knob AND c.idx = tk.choice
LEFT JOIN duel d ON d.run = tr.run AND d.trial = tr.idx AND d.stage = 'search';
