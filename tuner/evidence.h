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

/* Sets what follows from the pairs of the recorded duel that it stands on: margin_e4 to noisy, and
 * n_pairs_process. Memory is e->kernel. */
void evidence_calibration(Db *db, Env *e, const DbDuel *d, DbCalibration *c);
/* What else must be true of a duel's rows: each order is the one that its process's seed draws, and the
 * calibration that stands on the duel says what its pairs say. False: err says what is not. */
bool evidence_holds(Db *db, Env *e, const DbDuel *d, const DbProcess *process, int n,
                    DbPair *const *pair, Err *err);

/* ---- facts.c ---- */
/* The compiler as a row, and what one call of a kernel has to do at these sizes: flops, and the bytes of
 * all operands. Texts in m. */
DbToolchain toolchain_row(Arena *m, const Toolchain *tc);
void work_row(Env *e, const Kernel *naive, const int64_t *sym, DbRunTask *row);

#endif
