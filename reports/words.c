/* words.c - numbers in words: times with a unit, ratios with their direction, verdicts as an answer
 * to the question whether the difference is real. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "reports/reports.h"

const char *ns_text(Arena *a, double ns)
{
    static const struct {
        double ns;
        const char *name;
    } unit[] = {{3.6e12, "h"}, {60e9, "min"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {0, "ns"}};
    if (!isfinite(ns)) {
        return "";
    }
    size_t i = 0;
    while (fabs(ns) < 0.9995 * unit[i].ns) { /* what three digits round up to one */
        i++;
    }
    double v = unit[i].ns > 0 ? ns / unit[i].ns : ns;
    return arena_printf(a, "%.3g %s", v, unit[i].name);
}

const char *time_text(Arena *a, int64_t ns)
{
    char text[64];
    struct tm tm;
    time_t s = (time_t)(ns / 1000000000);
    if (ns == DB_NONE || !gmtime_r(&s, &tm) ||
        !strftime(text, sizeof text, "%Y-%m-%d %H:%M:%SZ", &tm)) {
        return "";
    }
    return arena_str(a, text);
}

static int n_digits(double factor)
{
    return factor < 1.095 ? 3 : factor < 10 ? 2 : 1;
}

const char *ratio_text(Arena *a, double ratio)
{
    if (!(ratio > 0) || !isfinite(ratio)) {
        return "";
    }
    bool faster = ratio < 1;
    double factor = faster ? 1 / ratio : ratio;
    if (factor < 1.0005) {
        return "equal";
    }
    return arena_printf(a, "%.*fx %s", n_digits(factor), factor, faster ? "faster" : "slower");
}

const char *interval_text(Arena *a, double ratio, double lo, double hi)
{
    const char *middle = ratio_text(a, ratio);
    if (!*middle || !isfinite(lo) || !isfinite(hi)) {
        return middle;
    }
    if (hi < 1 || lo > 1) { /* one direction: said once */
        double least = hi < 1 ? 1 / hi : lo, most = hi < 1 ? 1 / lo : hi;
        return arena_printf(a, "%s (%.*f to %.*f)", middle, n_digits(least), least,
                            n_digits(most), most);
    }
    return arena_printf(a, "%s (%s to %s)", middle, ratio_text(a, hi), ratio_text(a, lo));
}

const char *verdict_words(const char *verdict, const char *stage)
{
    static const struct {
        const char *verdict, *words;
    } said[] = {
        {"FASTER", "real: faster"},
        {"SLOWER", "real: slower"},
        {"EQUIVALENT", "equal within the margin"},
        {"UNDECIDED", "not shown: it may be noise"},
    };
    bool proof = !stage || !strcmp(stage, "title") || !strcmp(stage, "compare") ||
                 !strcmp(stage, "equivalence");
    for (size_t i = 0; verdict && proof && i < countof(said); i++) {
        if (!strcmp(said[i].verdict, verdict)) {
            return said[i].words;
        }
    }
    return "no claim: one process";
}

const char *verdict_from(const char *verdict, bool b)
{
    bool faster = !strcmp(verdict, "FASTER"), slower = !strcmp(verdict, "SLOWER");
    return b || !(faster || slower) ? verdict : faster ? "SLOWER" : "FASTER";
}

const char *schedule_text(Arena *a, const char *schedule)
{
    return !schedule ? "(not ours)" : *schedule ? arena_str(a, schedule) : "(no steps)";
}
