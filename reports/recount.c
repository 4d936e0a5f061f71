/* recount.c - what the raw pairs of a duel say, once more, by tuner/stat.h: which pairs count, whom
 * each process speaks for, the e-value on the way. Stands on what is stored of the rules (margin,
 * metric, alpha, constants of the run), and on nothing that is stored of the outcome.
 * MEASUREMENT 2.1, 2.4, 2.9, 3.4 */
#include <math.h>
#include <string.h>

#include "reports/reports.h"

enum { DISTURBED = 1 | 2 | 4, CLOCK = 32 };

typedef struct Rules { /* constants of the run, or where it stored none, the protocol's */
    int64_t unflagged_least, window;
    double noisy_share, confidence;
} Rules;

/* A file may say anything. */
static int64_t within(double v, int64_t least, int64_t most)
{
    return !(v > (double)least) ? least : v < (double)most ? (int64_t)v : most;
}

static Rules rules_of(Report *r, int64_t run)
{
    Rules rules = {5, 20, 0.5, 0.95};
    DbRunConstant c;
    DbCursor at = DB_FIND(r->db, RUN_CONSTANTS, run);
    while (db_next(&at, r->a, &c)) {
        if (!strcmp(c.name, "unflagged_least")) {
            rules.unflagged_least = within(c.value, 0, 1000000);
        } else if (!strcmp(c.name, "noisy_window")) {
            rules.window = within(c.value, 1, 64);
        } else if (!strcmp(c.name, "noisy_share")) {
            rules.noisy_share = fmin(fmax(c.value, 0), 1);
        } else if (!strcmp(c.name, "confidence")) {
            rules.confidence = fmin(fmax(c.value, 0.5), 0.9999);
        }
    }
    return rules;
}

bool duel_is_match(const DbDuel *d)
{
    return strcmp(d->stage, "search") != 0 && strcmp(d->stage, "replicate") != 0;
}

/* ---- pairs ---- */

/* By CPU time where that decides and both have it. */
static void times_of(const DbDuel *d, const DbPair *p, uint64_t *a, uint64_t *b)
{
    bool cpu = !strcmp(d->metric, "cpu") && p->a_cpu_ns > 0 && p->b_cpu_ns > 0;
    *a = (uint64_t)(cpu ? p->a_cpu_ns : p->a_ns);
    *b = (uint64_t)(cpu ? p->b_cpu_ns : p->b_ns);
}

static bool is_valid(const DbPair *p)
{
    return p->a_ns > 0 && p->b_ns > 0 && !(p->flags & CLOCK);
}

static void read_pairs(Report *r, Counted *c)
{
    Vec(DbPair) v = {0};
    DbPair p;
    DbCursor at = DB_FIND(r->db, PAIRS, c->process.run, c->process.duel, c->process.idx);
    while (db_next(&at, r->a, &p)) {
        *vec_push(r->a, &v) = p;
    }
    c->pair = v.at;
    c->process.n_pairs = v.n;
}

/* ---- a process ---- */

static void count_process(Report *r, const Rules *rules, const DbDuel *d, Counted *c)
{
    int n = (int)c->process.n_pairs, n_clean = 0, k = 0;
    double *ln = arena_array(r->a, double, n + 1), *a_ns = arena_array(r->a, double, n + 1),
           *b_ns = arena_array(r->a, double, n + 1);
    for (int i = 0; i < n; i++) {
        n_clean += is_valid(&c->pair[i]) && !(c->pair[i].flags & DISTURBED);
    }
    for (int i = 0; i < n; i++) {
        const DbPair *p = &c->pair[i];
        c->n_flagged += (p->flags & DISTURBED) != 0;
        if (is_valid(p) && (n_clean < rules->unflagged_least || !(p->flags & DISTURBED))) {
            uint64_t a, b;
            times_of(d, p, &a, &b);
            c->n_ties += a == b;
            c->wins += stat_is_win(a, b, (int)within((double)d->margin_e4, 0, 10000));
            ln[k] = log((double)b / (double)a);
            a_ns[k] = (double)p->a_ns / (double)c->process.reps;
            b_ns[k] = (double)p->b_ns / (double)c->process.reps;
            k++;
        }
    }
    c->n_counted = k;
    c->ratio = exp(stat_median(ln, k));
    c->a_ns = stat_median(a_ns, k);
    c->b_ns = stat_median(b_ns, k);
}

/* What the probes beside the pairs allow: a fraction of 1 is the roofline. */
static void count_roofline(const DbRunTask *rt, Counted *c)
{
    const DbProcess *p = &c->process;
    double read = (p->read_before + p->read_after) / 2,
           flops = (p->flops_before + p->flops_after) / 2;
    double memory_ns = rt->read_bytes > 0 && read > 0 ? (double)rt->read_bytes / read : 0;
    double flops_ns = rt->flops > 0 && flops > 0 ? (double)rt->flops / flops : 0;
    double floor_ns = fmax(memory_ns, flops_ns);
    c->read = read;
    c->flops = flops;
    c->by_memory = memory_ns > flops_ns;
    c->floor_ns = floor_ns > 0 && p->flipped != 1 ? floor_ns : NAN;
    c->roofline = c->floor_ns / c->b_ns;
}

/* ---- the test ---- */

/* Whoever does not win loses, so a tie speaks for neither. */
static void add(Recount *c, bool win, bool loss)
{
    c->n++;
    c->wins += win;
    c->losses += loss;
    double other = exp(-stat_ln_e(c->losses, c->n - c->losses));
    c->p_other = fmin(c->p_other, other);
    c->ln_e_max = fmax(c->ln_e_max, stat_ln_e(c->wins, c->n - c->wins));
}

/* Pair by pair, as far as the sequential test went. Flagged pairs count once too many are. */
static void test_pairs(const Rules *rules, Recount *c)
{
    SignRule rule;
    const DbDuel *d = &c->duel;
    uint64_t recent = 0, window = UINT64_MAX >> (64 - rules->window);
    bool noisy = false, over = false;
    int n_most = (int)within((double)d->n_max, 1, SIGN_MAX);
    sign_rule(&rule, d->alpha, d->theta1, d->beta, n_most);
    for (int i = 0; c->n_processes > 0 && i < c->process[0].process.n_pairs && !over; i++) {
        const DbPair *p = &c->process[0].pair[i];
        bool flagged = p->flags & DISTURBED;
        recent = (recent << 1 | flagged) & window;
        noisy |=
            i + 1 >= rules->window &&
            __builtin_popcountll(recent) > (int)(rules->noisy_share * (double)rules->window);
        if (is_valid(p) && (noisy || !flagged)) {
            uint64_t a, b;
            times_of(d, p, &a, &b);
            bool win = stat_is_win(a, b, (int)within((double)d->margin_e4, 0, 10000));
            add(c, win, !win);
            over = c->n >= n_most || c->wins <= rule.lose[c->n] ||
                   (rule.win[c->n] >= 0 && c->wins >= rule.win[c->n]);
        }
    }
}

/* A replicate has no sequential test: all pairs that count speak. */
static void count_replicate(Recount *c)
{
    if (c->n_processes > 0) {
        c->n = c->process[0].n_counted;
        c->wins = c->process[0].wins;
        c->losses = c->n - c->wins;
    }
}

/* Process by process; the interval holds whenever the match ends. */
static void test_processes(Report *r, const Rules *rules, Recount *c)
{
    double *ln = arena_array(r->a, double, c->n_processes + 1);
    for (int i = 0; i < c->n_processes; i++) {
        const Counted *p = &c->process[i];
        if (!strcmp(p->process.status, "ok")) {
            ln[c->n] = p->n_counted > 0 ? log(p->ratio) : 0;
            add(c, p->ratio<1, p->ratio> 1); /* NaN: no pair counts */
        }
    }
    c->ratio = stat_interval_anytime(ln, (int)c->n, rules->confidence);
    c->ratio.median = exp(c->ratio.median);
    c->ratio.lo = exp(c->ratio.lo);
    c->ratio.hi = exp(c->ratio.hi);
}

static void median_roofline(Report *r, Recount *c)
{
    double *of_a = arena_array(r->a, double, c->n_processes + 1),
           *of_b = arena_array(r->a, double, c->n_processes + 1);
    int n = 0, n_memory = 0;
    for (int i = 0; i < c->n_processes; i++) {
        const Counted *p = &c->process[i];
        if (isfinite(p->roofline)) {
            of_a[n] = p->floor_ns / p->a_ns;
            of_b[n++] = p->roofline;
            n_memory += p->by_memory;
        }
    }
    c->a_roofline = stat_median(of_a, n);
    c->roofline = stat_median(of_b, n);
    c->by_memory = 2 * n_memory > n;
}

static bool near(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * fmax(1, fabs(b));
}

/* Do the pairs say what is stored? */
static bool agrees(const Recount *c)
{
    const DbDuel *d = &c->duel;
    bool counts = c->n == d->n && c->wins == d->wins && near(c->ln_e_max, d->ln_e_max);
    return counts && (!duel_is_match(d) ||
                      (near(c->ratio.median, d->ratio) && near(c->ratio.lo, d->ratio_lo) &&
                       near(c->ratio.hi, d->ratio_hi)));
}

bool report_recount(Report *r, int64_t run, int64_t duel, Recount *out)
{
    Rules rules = rules_of(r, run);
    Vec(Counted) v = {0};
    DbProcess p;
    DbRunTask rt;
    *out = (Recount){.roofline = NAN, .p_other = 1};
    if (!DB_ONE(r->db, DUEL, r->a, &out->duel, run, duel) ||
        !DB_ONE(r->db, RUN_TASK, r->a, &rt, run, out->duel.task)) {
        return false;
    }
    DbCursor at = DB_FIND(r->db, PROCESSES, run, duel);
    while (db_next(&at, r->a, &p)) {
        *vec_push(r->a, &v) = (Counted){.process = p};
    }
    out->process = v.at;
    out->n_processes = v.n;
    for (int i = 0; i < v.n; i++) {
        read_pairs(r, &v.at[i]);
        count_process(r, &rules, &out->duel, &v.at[i]);
        count_roofline(&rt, &v.at[i]);
        out->n_pairs += v.at[i].n_counted;
    }
    if (duel_is_match(&out->duel)) {
        test_processes(r, &rules, out);
    } else if (!strcmp(out->duel.stage, "replicate")) {
        count_replicate(out);
    } else {
        test_pairs(&rules, out);
    }
    out->tested = strcmp(out->duel.stage, "calibrate") && strcmp(out->duel.stage, "replicate");
    if (!out->tested) {
        out->ln_e_max = 0;
        out->p_other = 1;
    }
    median_roofline(r, out);
    out->p = fmin(1, exp(-out->ln_e_max));
    out->agrees = !out->tested || agrees(out);
    return true;
}
