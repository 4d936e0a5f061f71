/* evidence.h - duels as rows of the database: the one place where the protocol and the schema meet.
 * Apart from tuner.h, so that who only measures needs no database. */
#ifndef NC_TUNER_EVIDENCE_H
#define NC_TUNER_EVIDENCE_H

#include "db/db.h"
#include "tuner/tuner.h"

/* Sets what follows from the pairs: n to b_min_ns, noisy, verdict and reason, of a duel whose stage,
 * metric, margin and alpha are set. Memory is e->kernel. */
void evidence_fill(Env *e, const Rules *r, const Terms *terms, DbDuel *d,
                   const DbProcess *process, int n, DbPair *const *pair);
/* What was in force for a recorded duel. */
void evidence_rules(Db *db, Env *e, const DbDuel *d, Rules *r, Terms *t);

/* The compiler as a row, and what one call of a kernel has to do at these sizes: flops, and the bytes of
 * all operands. Texts in m. */
DbToolchain toolchain_row(Arena *m, const Toolchain *tc);
void work_row(Env *e, const Kernel *naive, const int64_t *sym, DbRunTask *row);

#endif
