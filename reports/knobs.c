/* knobs.c - which knobs matter. Over all trials: how much of the variance of the candidates' ranks by
 * time a knob's choices explain, less what as many random groups would (epsilon squared). Ranks,
 * since one candidate that is 80 times slower would outweigh all others. */
#include <math.h>

#include "reports/reports.h"

#define PEOPLE COLUMN_PEOPLE
#define MACHINE COLUMN_MACHINE
#define NUMBER COLUMN_NUMBER

/* A row: a knob of a task's space, over the timed candidates of all runs on one kind of machine. */
const Sheet sheet_knobs = {
    "knobs",
    {{"task", 0, "label of the task"},
     {"knob", 0, "its name"},
     {"explains", NUMBER | PEOPLE,
      "percent of the variance of ranks by time, less what chance would"},
     {"explained", NUMBER | MACHINE, "the same, from 0 to 1"},
     {"timed", NUMBER, "candidates that were timed"},
     {"choices", NUMBER, "of the knob that were among them"},
     {"best choice", 0, "whose candidates have the least median time"},
     {"best median", PEOPLE, "their median against the default: an estimate, no claim"},
     {"best_to_default", NUMBER | MACHINE,
      "median of their time by the default's: an estimate"},
     {"worst choice", 0, "likewise the greatest"},
     {"worst median", PEOPLE, "their median against the default"},
     {"worst_to_default", NUMBER | MACHINE, "median of their time by the default's"},
     {"meaning", 0, "of the knob"}}};

/* ---- over all trials ---- */

typedef struct Timed { /* a timed candidate's choice of the knob at hand */
    int64_t choice;
    double ln, rank;
} Timed;

typedef struct Importance {
    double explained;
    int n, n_choices;
    int64_t best, worst;
    double best_ratio, worst_ratio;
} Importance;

static double median_of(Arena *a, const Timed *t, int n, int64_t choice)
{
    double *x = arena_array(a, double, n + 1);
    int k = 0;
    for (int i = 0; i < n; i++) {
        if (t[i].choice == choice) {
            x[k++] = t[i].ln;
        }
    }
    return exp(stat_median(x, k));
}

static void rank_choice(Importance *m, int64_t choice, double ratio)
{
    if (m->n_choices == 0 || ratio < m->best_ratio) {
        m->best = choice;
        m->best_ratio = ratio;
    }
    if (m->n_choices == 0 || ratio > m->worst_ratio) {
        m->worst = choice;
        m->worst_ratio = ratio;
    }
    m->n_choices++;
}

/* How many are below v, or where `equal`, not above it. */
static int count_below(const double *sorted, int n, double v, bool equal)
{
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (sorted[mid] < v || (equal && sorted[mid] == v)) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

/* Equal times share the mean of their ranks. */
static void rank_all(Arena *a, Timed *t, int n)
{
    double *sorted = arena_array(a, double, n + 1);
    for (int i = 0; i < n; i++) {
        sorted[i] = t[i].ln;
    }
    stat_sort(sorted, n);
    for (int i = 0; i < n; i++) {
        int below = count_below(sorted, n, t[i].ln, false);
        t[i].rank = (below + count_below(sorted, n, t[i].ln, true) + 1) / 2.0;
    }
}

static bool is_first_of_choice(const Timed *t, int i)
{
    for (int k = 0; k < i; k++) {
        if (t[k].choice == t[i].choice) {
            return false;
        }
    }
    return true;
}

static double squares_within(const Timed *t, int n, int64_t choice)
{
    double sum = 0, squares = 0;
    int size = 0;
    for (int i = 0; i < n; i++) {
        if (t[i].choice == choice) {
            sum += t[i].rank;
            squares += t[i].rank * t[i].rank;
            size++;
        }
    }
    return squares - sum * sum / size;
}

/* Sums of squares: epsilon^2 = (between - (k - 1) within / (n - k)) / all. */
static Importance importance_of(Arena *a, Timed *t, int n)
{
    Importance m = {.n = n, .explained = NAN};
    double all = 0, within = 0, mean = (n + 1) / 2.0;
    rank_all(a, t, n);
    for (int i = 0; i < n; i++) {
        all += (t[i].rank - mean) * (t[i].rank - mean);
        if (is_first_of_choice(t, i)) {
            within += squares_within(t, n, t[i].choice);
            rank_choice(&m, t[i].choice, median_of(a, t, n, t[i].choice));
        }
    }
    int k = m.n_choices;
    if (n > k && k > 1 && all > 0) {
        m.explained = fmax(0, (all - within - (k - 1) * within / (n - k)) / all);
    }
    return m;
}

typedef struct Choices { /* all timed candidates of a task's runs in one space */
    Vec(Candidate) c;
} Choices;

static int64_t choice_of(Report *r, const DbTrial *t, int64_t knob)
{
    DbTrialKnob k;
    int64_t choice = DB_NONE;
    DbCursor at = DB_FIND(r->db, TRIAL_KNOBS, t->run, t->idx);
    while (db_next(&at, r->a, &k)) {
        choice = k.knob == knob ? k.choice : choice;
    }
    return choice;
}

static const char *word_of(Report *r, int64_t space, int64_t knob, int64_t choice)
{
    DbKnobChoice c;
    DbCursor at = DB_FIND(r->db, KNOB_CHOICES, space);
    const char *word = "";
    while (db_next(&at, r->a, &c)) {
        if (c.knob == knob && c.idx == choice) {
            word = c.word;
        }
    }
    return word;
}

/* Each choice's median against the default; a choice that no timed candidate had is NaN. */
typedef struct Row {
    const char *name;
    Vec(const char *) word;
    Vec(double) ratio;
} Row;

static Row row_of(Report *r, const DbKnob *knob, const Timed *t, int n)
{
    Row row = {.name = knob->name};
    DbKnobChoice c;
    DbCursor at = DB_FIND(r->db, KNOB_CHOICES, knob->space);
    while (db_next(&at, r->a, &c)) {
        if (c.knob == knob->idx) {
            *vec_push(r->a, &row.word) = c.word;
            *vec_push(r->a, &row.ratio) = median_of(r->a, t, n, c.idx);
        }
    }
    return row;
}

static void plot_heat(Report *r, const char *label, const Row *row, int n)
{
    Heat h = {.n_rows = n};
    for (int i = 0; i < n; i++) {
        h.n_columns = row[i].word.n > h.n_columns ? row[i].word.n : h.n_columns;
    }
    const char **name = arena_array(r->a, const char *, n + 1),
               **word = arena_array(r->a, const char *, n *h.n_columns + 1);
    double *value = arena_array(r->a, double, n *h.n_columns + 1);
    for (int i = 0; i < n; i++) {
        name[i] = row[i].name;
        for (int k = 0; k < row[i].word.n; k++) {
            word[i * h.n_columns + k] = row[i].word.at[k];
            value[i * h.n_columns + k] = row[i].ratio.at[k];
        }
    }
    h.row = name, h.word = word, h.value = value;
    Plot p = {.title = arena_printf(r->a, "Choices of each knob: %s", label),
              .x_label =
                  "median time of its candidates by the default's: below 1 (blue) is faster",
              .y_label = "",
              .heat = arena_dup(r->a, &h, sizeof h)};
    if (n > 0) {
        report_plot(r, &p);
    }
}

static Importance put_knob(Report *r, const char *label, const DbKnob *knob, const Choices *all,
                           Row *row)
{
    Vec(Timed) t = {0};
    for (int i = 0; i < all->c.n; i++) {
        int64_t choice = choice_of(r, &all->c.at[i].trial, knob->idx);
        if (choice != DB_NONE) {
            *vec_push(r->a, &t) = (Timed){.choice = choice, .ln = log(all->c.at[i].to_default)};
        }
    }
    Importance m = importance_of(r->a, t.at, t.n);
    cell_add(r, "%s", label);
    cell_add(r, "%s", knob->name);
    cell_add_number(r, 100 * m.explained, "%.0f");
    cell_add_number(r, m.explained, "%.4f");
    cell_add_int(r, m.n);
    cell_add_int(r, m.n_choices);
    bool differ = m.n_choices > 1; /* one alone has none that is worse */
    cell_add(r, "%s", m.n ? word_of(r, knob->space, knob->idx, m.best) : "");
    cell_add(r, "%s", m.n ? ratio_text(r->a, m.best_ratio) : "");
    cell_add_number(r, m.n ? m.best_ratio : NAN, "%.4f");
    cell_add(r, "%s", differ ? word_of(r, knob->space, knob->idx, m.worst) : "");
    cell_add(r, "%s", differ ? ratio_text(r->a, m.worst_ratio) : "");
    cell_add_number(r, differ ? m.worst_ratio : NAN, "%.4f");
    cell_add(r, "%s", knob->meaning);
    *row = row_of(r, knob, t.at, t.n);
    return m;
}

static void plot_importance(Report *r, const char *label, const char *const *name,
                            const double *height, int n)
{
    double *x = arena_array(r->a, double, n + 1);
    for (int i = 0; i < n; i++) {
        x[i] = i + 1;
    }
    Plot p = {.title = arena_printf(r->a, "What each knob explains: %s", label),
              .x_label = "knob",
              .y_label = "% of the variance of ranks by time",
              .bars = true,
              .y_top = 100,
              .bar_width = 0.7,
              .x_word = name,
              .line = {{.x = x, .y = height, .n = n}},
              .n_lines = 1};
    if (n > 0) {
        report_plot(r, &p);
    }
}

static void put_space(Report *r, const char *label, int64_t space, const Choices *all)
{
    Vec(const char *) name = {0};
    Vec(double) height = {0};
    Vec(Row) row = {0};
    DbKnob knob;
    DbCursor at = DB_FIND(r->db, KNOBS, space);
    while (db_next(&at, r->a, &knob)) {
        Importance m = put_knob(r, label, &knob, all, vec_push(r->a, &row));
        *vec_push(r->a, &name) = knob.name;
        *vec_push(r->a, &height) = isfinite(m.explained) ? 100 * m.explained : 0;
    }
    plot_heat(r, label, row.at, row.n);
    plot_importance(r, label, name.at, height.at, name.n);
}

static void take_chain(Report *r, Choices *all, const Chain *c)
{
    for (int i = 0; i < c->n; i++) {
        if (c->at[i].to_default > 0) { /* timed: not NaN */
            *vec_push(r->a, &all->c) = c->at[i];
        }
    }
}

static void put_importance(Report *r)
{
    Choices all = {0};
    int64_t task = DB_NONE, space = DB_NONE, machine = DB_NONE;
    const char *label = "";
    report_sheet(r, &sheet_knobs);
    DbSql *q =
        QUERY(r,
              "SELECT rt.run, rt.task, rt.space, coalesce(rt.label, ''), (SELECT min(id) "
              "FROM machine WHERE hard = m.hard) FROM run_task rt JOIN run r ON r.id = "
              "rt.run JOIN machine m ON m.id = r.machine WHERE rt.space IS NOT NULL AND ?1 "
              "IN (rt.run, -9223372036854775807 - 1) AND ?2 IN (rt.task, "
              "-9223372036854775807 - 1) ORDER BY 4, 2, 3, 5, r.started_ns, r.id",
              r->run, r->task);
    while (db_sql_next(q)) {
        if (cell_int(q, 1) != task || cell_int(q, 2) != space || cell_int(q, 4) != machine) {
            if (all.c.n > 0) {
                put_space(r, label, space, &all);
            }
            all.c.n = 0;
        }
        task = cell_int(q, 1), space = cell_int(q, 2), machine = cell_int(q, 4);
        label = cell_text(r, q, 3);
        Chain c = chain_of(r, cell_int(q, 0), task);
        take_chain(r, &all, &c);
    }
    if (all.c.n > 0) {
        put_space(r, label, space, &all);
    }
}

void report_knobs(Report *r)
{
    put_importance(r);
    if (!report_has_runs(r)) {
        return;
    }
    report_say(r,
               "A knob explains what the medians of its choices differ by among the candidates "
               "that were timed; a search does not draw them evenly and knobs go together, so "
               "the parts need not add up.");
    if (ablation_rows(r) == 0) {
        report_say(r, "No one-knob-out duels are recorded: `tune --ablate` measures them.");
    }
}
