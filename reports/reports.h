/* reports.h - the schedule database, read and told: each report is a few headings, sentences, tables
 * and plots, put together from rows by one function and printed in any format by another. Sections
 * are named after the .c files that define them. Nothing here compiles or measures.
 *
 * Two readers: people (text, md, tex, html) see units, directions and words; machines (csv, json) see
 * every number on its own. A table's columns say which of the two they are for. */
#ifndef NC_REPORTS_H
#define NC_REPORTS_H

#include "base/base.h"
#include "db/db.h"
#include "tuner/stat.h"

/* ---- report.c: a report under construction ------------------------------------------------ */

typedef enum ColumnKind {
    COLUMN_TEXT = 0,
    COLUMN_NUMBER = 1,
    COLUMN_PEOPLE = 2,  /* for people only */
    COLUMN_MACHINE = 4, /* for machines only */
} ColumnKind;

typedef struct Column {
    const char *name;
    int kind; /* ColumnKinds */
    const char *meaning;
} Column;

enum { MAX_COLUMNS = 32 };
typedef struct Sheet { /* a table's name and columns: documented where they are defined */
    const char *name;
    Column column[MAX_COLUMNS];
} Sheet;

typedef struct Line { /* of a plot */
    const char *name;
    const double *x, *y;
    int n;
    bool steps;  /* y holds until the next x */
    bool points; /* dots instead of a line */
} Line;

typedef struct Heat { /* rows of cells, with a word and a ratio in each */
    int n_rows, n_columns;
    const char *const *row;  /* by row */
    const char *const *word; /* by row and column; NULL: no cell */
    const double *value;     /* likewise; NaN: not known */
} Heat;

typedef struct Plot {
    const char *title, *x_label, *y_label;
    bool x_log, y_log;
    bool x_whole; /* x is counted: no ticks between whole numbers */
    double y_top; /* of the axis; 0: as the values have it */
    bool bars;    /* the first line: bars of that height around each x */
    double bar_width;
    double mark_x; /* a line upwards from there; 0: none */
    Line line[8];
    int n_lines;
    const char *const *x_word; /* bars: what stands below them; or NULL */
    const Heat *heat;          /* then title and x_label, and nothing else */
} Plot;

typedef enum PartKind { PART_HEADING, PART_SENTENCE, PART_TABLE, PART_PLOT } PartKind;
typedef struct Part {
    PartKind kind;
    const char *text; /* HEADING, SENTENCE */
    Table *table;
    const Plot *plot;
} Part;

typedef struct Report {
    Env *e;
    Arena *a;
    Db *db;
    bool people;
    Vec(Part) part;
    const Sheet *sheet; /* that is being filled */
    Table *table;
    int at;              /* its next column */
    const char *word[2]; /* the command's arguments */
    int n_words;
    int64_t task, run; /* only this one; DB_NONE: all */
} Report;

void report_init(Report *r, Env *e, Db *db, bool people);
void report_heading(Report *r, const char *fmt, ...) PRINTF(2, 3);
void report_say(Report *r, const char *fmt, ...) PRINTF(2, 3); /* a sentence or two */
void report_plot(Report *r, const Plot *p);
void report_sheet(Report *r, const Sheet *s); /* from now on cells go there, column by column */
/* The next column's cell. One whose column is not for this reader is dropped. */
void cell_add(Report *r, const char *fmt, ...) PRINTF(2, 3);
void cell_add_text(Report *r, const char *text);            /* NULL: empty */
void cell_add_id(Report *r, int64_t id);                    /* its beginning for people */
void cell_add_int(Report *r, int64_t v);                    /* DB_NONE: empty */
void cell_add_number(Report *r, double v, const char *fmt); /* NaN: empty */
void cell_add_ns(Report *r, double ns);                     /* with a unit for people */
void cell_add_ns_both(Report *r, double ns); /* two columns: one for people, one for machines */
/* Four: a sentence for people, three numbers for machines. */
void cell_add_interval(Report *r, double ratio, double lo, double hi);
void cell_add_time(Report *r, int64_t ns_since_1970); /* UTC */
void cell_add_hash(Report *r, Hash h);                /* its beginning for people */
/* Prints all parts; CSV and JSON have the tables only, JSON as one object. */
void report_print(const Report *r, Format f, Buf *out);

/* ---- words.c: numbers in words ------------------------------------------------------------ */

const char *ns_text(Arena *a, double ns); /* "12.3 us"; "" for NaN */
const char *time_text(Arena *a, int64_t ns_since_1970);
/* Of b's time by a's: "1.27x faster", "1.10x slower", "equal"; "" for NaN. */
const char *ratio_text(Arena *a, double ratio);
/* The same with its interval: "1.27x faster (1.24x faster to 1.30x faster)". */
const char *interval_text(Arena *a, double ratio, double lo, double hi);
/* Is the difference real? In words, from verdict and stage. */
const char *verdict_words(const char *verdict, const char *stage);
/* As b sees it, or else a. */
const char *verdict_from(const char *verdict, bool b);
const char *schedule_text(Arena *a, const char *schedule); /* "" is said: "no steps" */

/* ---- find.c: what the arguments mean, and small queries ------------------------------------- */

DbSql *report_query(Report *r, const char *sql, const int64_t *arg, int n);
#define QUERY(r, sql, ...)                                      \
    report_query((r), (sql), (const int64_t[]){__VA_ARGS__, 0}, \
                 (int)countof(((const int64_t[]){__VA_ARGS__, 0})) - 1)
#define QUERY_ALL(r, sql) report_query((r), (sql), NULL, 0)
int64_t cell_int(const DbSql *q, int column);                 /* DB_NONE for NULL */
double cell_real(const DbSql *q, int column);                 /* NaN for NULL */
const char *cell_text(Report *r, const DbSql *q, int column); /* a copy; NULL for NULL */
bool is_digits(const char *word);
/* An id, the beginning of one, or (tasks) a piece of a label that only one task has, "last" (runs).
 * Fails with E_INPUT: one sentence that says what there is. */
int64_t report_find_task(Report *r, const char *word);
int64_t report_find_run(Report *r, const char *word);
int64_t report_find_build(Report *r, const char *word); /* "last" too */
bool report_is_run(Report *r, const char *word);        /* does find_run know it? */
const char *report_task_name(Report *r, int64_t task);  /* label, sizes, threads, regime */
/* Whether there is anything: if not, says so in words. */
bool report_has_runs(Report *r);

/* ---- recount.c: what the pairs of a duel say, once more ------------------------------------ */

typedef struct Counted { /* one process */
    DbProcess process;
    DbPair *pair;
    int n_counted, n_flagged, n_ties;
    double ratio;       /* median of b by a over the pairs that count; NaN: none does */
    double a_ns, b_ns;  /* medians of one call */
    int wins;           /* pairs of b, by the margin */
    double read, flops; /* rates of its probes, a ns; NaN */
    double floor_ns; /* of a call at those rates; NaN: not known, or they changed meanwhile */
    double roofline; /* of b: floor_ns by its time */
    bool by_memory;  /* which of the two rates bound it */
} Counted;

typedef struct Recount {
    DbDuel duel;
    Counted *process;
    int n_processes, n_pairs;
    int64_t n, wins, losses; /* in the unit of its stage */
    Interval ratio;          /* of a match */
    double ln_e_max, p;      /* that b is faster */
    double p_other;          /* that a is */
    bool tested;             /* a calibration and a replicate test nothing */
    bool agrees;             /* with what is stored */
    double roofline;         /* of b: median of processes; NaN: it cannot be told */
    double a_roofline;       /* of a, likewise */
    bool by_memory;
} Recount;

bool duel_is_match(const DbDuel *d); /* counted by process, not by pair */
bool report_recount(Report *r, int64_t run, int64_t duel,
                    Recount *out); /* false: there is no such duel */

/* ---- chain.c: every candidate's time by the default's ---------------------------------------- */

/* A candidate was raced against the incumbent of its moment; along the chain of incumbents that gives
 * an estimate of its time by the default's: to learn from, never a claim. */
typedef struct Candidate {
    DbTrial trial;
    double ratio;      /* to its incumbent; NaN: not timed */
    double to_default; /* along the chain; NaN: cannot be told */
    bool promoted;
} Candidate;

typedef struct Chain {
    Candidate *at;
    int n;
} Chain;
Chain chain_of(Report *r, int64_t run, int64_t task);

/* ---- roofline.c, ablation.c: parts of reports ---------------------------------------------- */

typedef struct Roofline { /* points so far, and the roof above them */
    Vec(double) x;        /* flops a byte */
    Vec(double) y;        /* flops a ns */
    double read, flops;   /* a ns */
} Roofline;
void roofline_add(Report *r, Roofline *roof, const Recount *match, double ns);
void roofline_plot(Report *r, const Roofline *roof);
int ablation_rows(Report *r); /* how many */

/* ---- the reports: a file each ------------------------------------------------------------------ */

void report_summary(Report *r);
void report_task(Report *r); /* word 0 */
void report_trials(Report *r);
void report_failures(Report *r);
void report_runs(Report *r);
void report_machine(Report *r);
void report_noise(Report *r);
void report_misses(Report *r);
void report_builds(Report *r);                     /* words: none, a build, or two */
bool report_race(Report *r, int64_t a, int64_t b); /* false: these builds never ran in turns */
void report_gain(Report *r);       /* of all builds with a winner; and all races */
void report_build_rows(Report *r); /* all builds, a row each; or says that there is none */
void report_evidence(Report *r);   /* words: run and duel, or none: those of all winners */
void report_convergence(Report *r);
void report_knobs(Report *r);
void report_rivals(Report *r);
void report_compare(Report *r); /* two words */
bool compare_is_files(const char *const *word);
void report_columns(Report *r);
void report_page(Report *r); /* page.c: all of them */

/* ---- pack.c ---- */
void report_pack(Report *r, const char *path); /* E_IO: the file cannot be written */

extern const Sheet sheet_summary, sheet_failures, sheet_trials, sheet_runs, sheet_machine,
    sheet_noise, sheet_misses, sheet_builds, sheet_build_sites, sheet_build_compare,
    sheet_build_race, sheet_build_gain, sheet_evidence, sheet_processes, sheet_pairs,
    sheet_convergence, sheet_knobs, sheet_ablation, sheet_rivals, sheet_compare, sheet_columns,
    sheet_task_runs, sheet_ties, sheet_outcomes, sheet_dealt, sheet_conditions, sheet_meanwhile;

/* ---- evidence.c: parts of it that other reports show too ---- */
void evidence_row(Report *r, const char *label, const Recount *c); /* a row of sheet_evidence */
void evidence_processes(Report *r, const Recount *c);              /* processes.c */
void evidence_plot(Report *r, const Recount *c, const char *title);
const char *report_label(Report *r, int64_t run, int64_t task);

#endif
