/* budget.c - what a session may take, as text, and how much of it is kept for the end: a search
 * whose best find cannot be confirmed was for nothing. Pure. */
#include "tuner/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *word;
    double seconds; /* 0: trials */
} units[] = {{"s", 1}, {"m", 60}, {"h", 3600}, {"trials", 0}, {"trial", 0}};

#define BUDGET_MOST 1e9 /* seconds or trials: thirty years */

bool budget_parse(const char *text, Budget *out, Err *err)
{
    char *end;
    double value = strtod(text, &end);
    bool number = end > text && strspn(text, "0123456789.") == (size_t)(end - text);
    for (size_t i = 0; number && i < countof(units); i++) {
        if (strcmp(end, units[i].word) != 0) {
            continue;
        }
        bool timed = units[i].seconds > 0;
        double amount = timed ? value * units[i].seconds : value;
        if (!(amount > 0 && amount <= BUDGET_MOST) || (!timed && value != floor(value))) {
            break;
        }
        *out = timed ? (Budget){.ns = (uint64_t)(1e9 * amount)}
                     : (Budget){.trials = (int64_t)value};
        return true;
    }
    return err_set(
        err, E_INPUT,
        "\"%s\" is no budget: give a time as 90s, 30m or 2h, or a number as 500trials", text);
}

void budget_print(Budget b, Buf *out)
{
    if (b.trials > 0) {
        buf_printf(out, "%lld trials", (long long)b.trials);
    } else if (b.ns > 0) {
        buf_printf(out, "%g s", (double)b.ns / 1e9);
    } else {
        buf_str(out, "no limit");
    }
}

static double process_or_least(const Rules *r, uint64_t process_ns)
{
    return process_ns > 0 ? (double)process_ns : 1e9 * r->p.least_process_s;
}

uint64_t budget_limit_ns(const Rules *r, const Calibration *c)
{
    const Protocol *p = &r->p;
    double race_ns = rules_pairs(r, DUEL_SEARCH, false) * p->screen_first * (double)c->pair_ns;
    double slow_ns =
        fmax(p->limit_factor * (double)c->process_ns, 2.0 * (double)c->process_most_ns);
    return (uint64_t)fmin(fmax(slow_ns + race_ns, 1e9 * p->limit_least_s),
                          1e9 * p->candidate_limit_s);
}

uint64_t budget_reserve_ns(const Rules *r, const Calibration *c, uint64_t left_ns)
{
    double one = process_or_least(r, c->process_ns);
    double want = r->p.reserve_processes * one + (double)budget_limit_ns(r, c);
    double most = r->p.reserve_share * (double)left_ns;
    return (uint64_t)fmax(fmin(want, most), r->title_least * one);
}

bool budget_allows(const Rules *r, uint64_t left_ns, int n_processes, uint64_t process_ns)
{
    return (double)left_ns >= n_processes * process_or_least(r, process_ns);
}

uint64_t budget_least_ns(const Rules *r, const Calibration *c, uint64_t reserve_ns)
{
    double one = process_or_least(r, c->process_ns);
    double least = 2.0 * r->title_least * one + (double)budget_limit_ns(r, c);
    return (uint64_t)fmin(least, (double)reserve_ns);
}

BudgetSplit budget_split(const Rules *r, Budget b, uint64_t process_ns, uint64_t candidate_ns)
{
    if (b.ns == 0) {
        return (BudgetSplit){.n_candidates = b.trials};
    }
    uint64_t one_ns = (uint64_t)process_or_least(r, process_ns);
    Calibration c = {.process_ns = one_ns, .process_most_ns = one_ns};
    BudgetSplit s = {.calibrate_ns = (uint64_t)r->p.calibration_processes * one_ns};
    uint64_t left_ns = b.ns > s.calibrate_ns ? b.ns - s.calibrate_ns : 0;
    s.reserve_ns = budget_reserve_ns(r, &c, left_ns);
    s.search_ns = left_ns > s.reserve_ns ? left_ns - s.reserve_ns : 0;
    s.n_candidates = (int64_t)(s.search_ns / (candidate_ns > 0 ? candidate_ns : 1));
    return s;
}
