/* finalists.c - which candidates may be as good as the champion, by what the search saw of
 * them. There is room for a fixed number: where more come, those last in canonical order go,
 * since the first one that is equivalent to the champion is the pick. DESIGN 6 */
#include "tuner/session_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int schedule_steps(const char *schedule)
{
    int n = schedule[0] != '\0';
    for (const char *c = schedule; *c; c++) {
        n += *c == ';';
    }
    return n;
}

/* ---- canonical order: fewest steps, then smallest text ----------------------------------- */

bool finalist_before(const Finalist *x, const Finalist *y)
{
    if (x->n_steps != y->n_steps) {
        return x->n_steps < y->n_steps;
    }
    int text = strcmp(x->schedule, y->schedule);
    return text != 0 ? text < 0 : x->index < y->index;
}

static int compare(const void *a, const void *b)
{
    const Finalist *x = a, *y = b;
    return finalist_before(y, x) - finalist_before(x, y);
}

void finalists_sort(Session *s)
{
    qsort(s->finalist, (size_t)s->n_finalists, sizeof s->finalist[0], compare);
}

/* ---- who is one -------------------------------------------------------------------------- */

static bool is_outcome_of_finalist(Outcome o)
{
    static const bool of[N_OUTCOMES] = {[OUTCOME_SAME] = true,
                                        [OUTCOME_FUTILE] = true,
                                        [OUTCOME_CAP] = true,
                                        [OUTCOME_REPLICATE_FAILED] = true,
                                        [OUTCOME_PROMOTED] = true};
    return of[o];
}

static void put_schedule(Session *s, Finalist *f, const char *schedule)
{
    size_t bytes = strlen(schedule) + 1;
    if (bytes > f->cap_bytes) {
        f->cap_bytes = 2 * bytes;
        f->schedule = arena_alloc(&s->keep, f->cap_bytes);
    }
    memcpy(f->schedule, schedule, bytes);
}

/* Its text stays, for the next one in that place. */
static void forget(Session *s, int i)
{
    Finalist gone = s->finalist[i];
    s->finalist[i] = s->finalist[--s->n_finalists];
    s->finalist[s->n_finalists] = gone;
}

static void forget_slower_than(Session *s, double ln_default)
{
    for (int i = s->n_finalists - 1; i >= 0; i--) {
        if (s->finalist[i].ln_default > ln_default) {
            forget(s, i);
        }
    }
}

static int last_in_order(const Session *s)
{
    int last = 0;
    for (int i = 1; i < s->n_finalists; i++) {
        last = finalist_before(&s->finalist[last], &s->finalist[i]) ? i : last;
    }
    return last;
}

static void put(Session *s, uint64_t index, double ln_default, const Built *b)
{
    Finalist *f = &s->finalist[s->n_finalists++];
    put_schedule(s, f, b->schedule);
    f->index = index;
    f->ln_default = ln_default;
    f->c_hash = b->c_hash;
    f->n_steps = schedule_steps(f->schedule);
}

void finalists_admit(Session *s, const Fighter *champion)
{
    for (int i = 0; i < s->n_finalists; i++) {
        if (s->finalist[i].index == champion->index) {
            return;
        }
    }
    if (s->n_finalists == MAX_FINALISTS) {
        forget(s, last_in_order(s));
    }
    put(s, champion->index, champion->ln_default, &champion->built);
}

void finalists_note(Session *s, const Trial *t)
{
    double most = s->result.ln_default + session_band(s);
    if (t->outcome == OUTCOME_PROMOTED) {
        forget_slower_than(s, most);
    }
    if (!is_outcome_of_finalist(t->outcome) || !(t->ln_default <= most) || !t->built.schedule) {
        return;
    }
    if (s->n_finalists == MAX_FINALISTS) {
        int last = last_in_order(s);
        Finalist one = {.index = t->index,
                        .n_steps = schedule_steps(t->built.schedule),
                        .schedule = (char *)t->built.schedule};
        if (!finalist_before(&one, &s->finalist[last])) {
            return;
        }
        forget(s, last);
    }
    put(s, t->index, t->ln_default, &t->built);
}
