/* sides.c - who meets whom: what a word of the command line stands for, of one task. Whatever it says is
 * text: it is parsed and checked like any candidate, wherever it came from. */
#include <string.h>

#include "tuner/cli/duels.h"

enum { MAX_FILE_BYTES = 64 << 20 };

static Side *new_side(Contest *c, const char *name)
{
    Side *s = vec_push(&c->w->e->model, &c->side);
    *s = (Side){.name = name};
    return s;
}

int side_add(Contest *c, const char *name, const Schedule *schedule)
{
    new_side(c, name)->schedule = *schedule;
    return c->side.n - 1;
}

int side_add_rival(Contest *c, const char *name, const Built *b)
{
    new_side(c, name)->built = *b;
    return c->side.n - 1;
}

/* ---- what the database has ---------------------------------------------------------------- */

static Schedule parsed(Env *e, const char *text)
{
    Schedule s;
    Err err;
    if (!schedule_parse(text, &s, &err)) {
        fail_err(e, &err);
    }
    return s;
}

bool side_best(Contest *c, Schedule *out, DbAnswer *answer, const char **why)
{
    Env *e = c->w->e;
    const Task *t = &c->item->task;
    DbKey key = {.kernel = t->kernel,
                 .size = t->sym,
                 .n_sizes = t->n_syms,
                 .n_threads = t->n_threads,
                 .regime = regime_name[t->regime],
                 .machine = &c->w->db_machine,
                 .toolchain = &c->w->db_toolchain};
    db_lookup(c->record->in.db, &e->model, &key, answer);
    *why = answer->why;
    if (answer->found == DB_HIT || answer->found == DB_IMPORTED_ROW) {
        bool hit = answer->found == DB_HIT;
        *out = parsed(e, hit ? answer->winner.schedule : answer->imported.schedule);
        return true;
    }
    return false;
}

int side_add_ours(Contest *c)
{
    Schedule best;
    DbAnswer answer;
    const char *why;
    bool found = side_best(c, &best, &answer, &why);
    return found ? side_add(c, "best", &best) : side_add(c, "default", &c->item->base);
}

bool rank_is(const Space *s, int64_t rank, const char *schedule, Point *out)
{
    Schedule made, want;
    Err err;
    if (rank < 0 || (uint64_t)rank >= s->n_legal || !schedule_parse(schedule, &want, &err)) {
        return false;
    }
    space_unrank(s, (uint64_t)rank, out);
    space_schedule(s, out, &made);
    return schedule_eq(&made, &want);
}

/* ---- words -------------------------------------------------------------------------------- */

static Schedule of_default(Contest *c)
{
    return c->item->base;
}

static Schedule of_naive(Contest *c)
{
    (void)c;
    return (Schedule){0};
}

static Schedule of_best(Contest *c)
{
    Schedule best;
    DbAnswer answer;
    const char *why;
    if (side_best(c, &best, &answer, &why)) {
        return best;
    }
    if (answer.found != DB_KEPT) {
        fail(c->w->e, E_INPUT, "There is no best schedule yet in %s: %s",
             db_path(c->record->in.db), *why ? why : "this kernel was never tuned there.");
    }
    contest_say(c, "best is the default: %s", why);
    return c->item->base;
}

static bool row_serves(const TunedRow *r, const Item *it)
{
    for (int i = 0; i < r->n_ranges && i < it->task.n_syms; i++) {
        int64_t n = it->task.sym[i];
        if (n < r->range[i].least || n > r->range[i].most) {
            return false;
        }
    }
    return hash_eq(r->key, it->kernel->hash);
}

/* The first row for this kernel at these sizes. */
static Schedule of_file(Contest *c, const char *path)
{
    Env *e = c->w->e;
    SchedFile f;
    char *text;
    size_t len;
    Err err;
    if (!os_read_file(&e->model, path, MAX_FILE_BYTES, &text, &len, &err)) {
        fail_err(e, &err);
    }
    sched_parse(e, text, len, path, NULL, &f);
    for (int i = 0; i < f.row.n; i++) {
        if (row_serves(&f.row.at[i], c->item)) {
            return f.row.at[i].schedule;
        }
    }
    fail(e, E_INPUT, "%s has no row for this kernel at these sizes.", path);
}

int side_add_word(Contest *c, const char *word, const char *given)
{
    static const struct {
        const char *word;
        Schedule (*find)(Contest *c);
    } rows[] = {{"default", of_default}, {"best", of_best}, {"naive", of_naive}};
    for (size_t i = 0; i < countof(rows); i++) {
        if (!strcmp(word, rows[i].word)) {
            Schedule s = rows[i].find(c);
            return side_add(c, word, &s);
        }
    }
    bool is_file = text_ends_with(word, ".sched");
    Schedule s = is_file ? of_file(c, word) : parsed(c->w->e, word);
    return side_add(c, is_file ? word : given, &s);
}
