/* recorded_util.c - see recorded_util.h. */
#include "tests/recorded_util.h"

#include <stdlib.h>
#include <string.h>

const char *const recorded_name[N_RECORDED] = {"matmul", "softmax", "rms_norm"};

/* ---- the file: comments, "knobs,N", names, then a row a candidate ---- */

static int count_fields(const char *line)
{
    int n = 1;
    for (; *line; line++) {
        n += *line == ',';
    }
    return n;
}

static double number(const char **at)
{
    char *end;
    double x = strtod(*at, &end);
    cr_assert(end > *at && (*end == ',' || *end == '\0'), "no number: %s", *at);
    *at = end + (*end == ',');
    return x;
}

static void add_row(Recorded *r, const char *line, double *ln_ratio, double *feature)
{
    cr_assert_eq(count_fields(line), r->n_features + 1, "%s: %s", r->name, line);
    ln_ratio[r->n] = number(&line);
    for (int i = 0; i < r->n_features; i++) {
        feature[r->n * r->n_features + i] = number(&line);
    }
    r->n++;
}

Recorded recorded_read(Env *e, const char *name)
{
    enum { MOST = 1000 };
    Recorded r = {.name = name};
    double *ln_ratio = arena_array(&e->model, double, MOST), *feature = NULL;
    char *text = read_text(e, arena_printf(&e->model, "tests/data/spaces/%s.csv", name));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (line[0] == '#') {
            continue;
        }
        if (r.n_knobs == 0) {
            cr_assert_eq(sscanf(line, "knobs,%d", &r.n_knobs), 1, "%s: %s", name, line);
        } else if (!feature) {
            r.n_features = count_fields(line) - 1;
            feature = arena_array(&e->model, double, MOST *r.n_features);
        } else {
            cr_assert_lt(r.n, MOST);
            add_row(&r, line, ln_ratio, feature);
        }
    }
    cr_assert(r.n >= 100 && r.n_knobs >= 2 && r.n_knobs <= r.n_features, "%s", name);
    r.ln_ratio = ln_ratio;
    r.feature = feature;
    return r;
}

/* ---- as a space ---- */

static const double *features_of(const Recorded *r, uint64_t index)
{
    return r->feature + index * (uint64_t)r->n_features;
}

/* Do they differ in this knob, and in no other? */
static bool differ_in(const Recorded *r, int knob, uint64_t a, uint64_t b)
{
    const double *x = features_of(r, a), *y = features_of(r, b);
    for (int i = 0; i < r->n_knobs; i++) {
        if ((x[i] != y[i]) != (i == knob)) {
            return false;
        }
    }
    return true;
}

static int neighbours(const void *ctx, uint64_t index, uint64_t out[MAX_NEAR])
{
    const Recorded *r = ctx;
    int n = 0;
    for (int knob = 0; knob < r->n_knobs; knob++) {
        for (uint64_t i = 0; i < (uint64_t)r->n; i++) {
            if (differ_in(r, knob, index, i)) {
                out[n++] = i;
            }
        }
    }
    return n;
}

static int features(const void *ctx, uint64_t index, double out[MAX_FEATURES])
{
    const Recorded *r = ctx;
    memcpy(out, features_of(r, index), (size_t)r->n_features * sizeof *out);
    return r->n_features;
}

SearchSpace recorded_space(const Recorded *r)
{
    return (SearchSpace){r, (uint64_t)r->n, neighbours, features};
}

void recorded_table(Env *e, const Recorded *r, SearchSpace *whole, SearchTable *out)
{
    SearchRow *row = arena_array(&e->model, SearchRow, r->n);
    for (int i = 0; i < r->n; i++) {
        row[i] = (SearchRow){(uint64_t)i, STATUS_OK, r->ln_ratio[i]};
    }
    *whole = recorded_space(r);
    search_table_init(e, out, whole, row, r->n);
}
