/* rivals.c - `tune --rivals`: ours against OpenBLAS, oneDNN and the kernels that we wrote by hand, for every
 * selected task that they compute: the question that this project exists for. Ours is the recorded winner,
 * or the default where there is none; it is the challenger, so FASTER says that ours is. */
#include <string.h>

#include "tuner/cli/duels.h"

typedef struct Tally {
    RivalNames rival;
    int n_tasks, n_others; /* that no rival computes */
    int n[N_VERDICTS];
    int n_unmeasured; /* for want of time */
} Tally;

static void *begin(const Workplace *w, const Items *items)
{
    Tally *t = arena_new(&w->e->model, Tally);
    t->rival = rivals_here(w);
    t->n_tasks = items->n;
    for (int i = 0; i < t->rival.n; i++) {
        const RivalName *r = &t->rival.at[i];
        if (r->lacks) {
            fprintf(stderr, "%s does not take part: %s\n", r->name, r->lacks);
        }
    }
    return t;
}

/* Does it compute a plain product, and of how many rows? Its text is compared, not its name. */
static bool is_product(Env *e, const Item *it, int64_t *m)
{
    const Kernel *k = it->kernel;
    const int64_t *sym = it->task.sym;
    int64_t n = kernel_extent(k, sym, "n"), depth = kernel_extent(k, sym, "k");
    *m = kernel_extent(k, sym, "m");
    if (k->nest.axis.n != 3 || k->operand.n != 3 || *m < 1 || n < 1 || depth < 1) {
        return false;
    }
    bool bf16 = k->operand.at[2].from_bf16;
    return !strcmp(kernel_of_shape(e, *m, n, depth, bf16)->text, k->text);
}

static void rivals(Contest *c)
{
    Tally *t = c->state;
    int64_t m;
    if (!is_product(c->w->e, c->item, &m)) {
        t->n_others++;
        c->ending = "no-rival";
        contest_say(c, "no rival computes this kernel");
        return;
    }
    int ours = side_add_ours(c);
    for (int i = 0; i < t->rival.n; i++) {
        const RivalName *r = &t->rival.at[i];
        if (r->lacks || (r->one_row && m != 1)) {
            continue;
        }
        Duel d;
        Built b = {.schedule = "", .library = "", .symbol = r->name, .rival = true};
        if (contest_play(c, side_add_rival(c, r->says, &b), ours, &d)) {
            *(d.series.n_pairs ? &t->n[d.series.verdict] : &t->n_unmeasured) += 1;
        }
    }
}

static void end(void *state)
{
    const Tally *t = state;
    int n = 0;
    for (int i = 0; i < N_VERDICTS; i++) {
        n += t->n[i];
    }
    printf("Of %d duel%s ours won %d and lost %d; %d %s equivalent and %d undecided. `report "
           "rivals` shows them.\n",
           n, n == 1 ? "" : "s", t->n[VERDICT_FASTER], t->n[VERDICT_SLOWER],
           t->n[VERDICT_EQUIVALENT], t->n[VERDICT_EQUIVALENT] == 1 ? "is" : "are",
           t->n[VERDICT_UNDECIDED]);
    if (t->n_unmeasured > 0) {
        printf("For %d more no time was left.\n", t->n_unmeasured);
    }
    if (t->n_others > 0) {
        printf("%d of %d tasks are no plain products, and no rival computes them.\n",
               t->n_others, t->n_tasks);
    }
}

const Command command_rivals = {.option = "rivals", .begin = begin, .task = rivals, .end = end};
