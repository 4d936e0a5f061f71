/* recount.c - what the raw pairs of a duel say, by the very function that recorded it, under the constants
 * that were in force in its run. */
#include "db/cli/cli.h"
#include "tuner/evidence.h"

bool recount(void *ctx, Env *e, const DbDuel *stored, const DbProcess *process, int n,
             DbPair *const *pair, DbDuel *again, Err *err)
{
    SchedbOptions *o = ctx;
    Rules r;
    Terms t;
    evidence_rules(o->db, e, stored, &r, &t);
    evidence_fill(e, &r, &t, again, process, n, pair);
    bool holds = evidence_holds(o->db, e, stored, process, n, pair, err);
    env_reset_kernel(e);
    return holds;
}
