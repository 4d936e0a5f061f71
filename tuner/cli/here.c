/* here.c - this machine and its compiler as rows of the database: what a run is recorded under, and what a
 * lookup of its winners asks for. */
#include "tuner/cli/tune.h"

void here_machine(const Workplace *w, DbMachine *out)
{
    db_machine_here(w->e, &w->e->model, "", &w->machine, out);
}

/* Its words, the first of them left out where that is the program. */
static const char *joined(Env *e, const char *const *word, int from, int n)
{
    Buf b;
    buf_init(&b, &e->model);
    for (int i = from; i < n; i++) {
        buf_printf(&b, "%s%s", i > from ? " " : "", word[i]);
    }
    return b.at;
}

DbToolchain here_toolchain(const Workplace *w)
{
    DbToolchain row = db_blank_toolchain();
    row.version = w->tc.version;
    row.words = joined(w->e, (const char *const *)w->tc.argv, 1, w->tc.n_argv);
    row.flags = joined(w->e, w->tc.flags, 0, w->tc.n_flags);
    row.target = w->tc.target->name;
    row.path = w->tc.path;
    return row;
}
