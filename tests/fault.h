/* fault.h - makes the Nth call of the os table fail, as SQLite's tests do: a loop runs the same
 * work with the first, the second, the third ... call failing until a run meets no fault. Each
 * run must either succeed or report an error, and must leave no descriptor open. */
#ifndef NC_TESTS_FAULT_H
#define NC_TESTS_FAULT_H

#include "base/base.h"

/* From now on the nth call (from 1) of this name fails with this errno; persistent: and all
 * later ones. nth 0 only counts. close, munmap and dlclose do their work and then report
 * failure. */
void fault_arm(const char *call, int nth, bool persistent, int err);
void fault_disarm(void);           /* the real calls again */
int fault_calls(const char *call); /* since fault_arm */
int fault_hits(void);              /* faults injected since fault_arm */

/* True: it worked. False: it did not, and err says why. */
typedef bool FaultBody(void *ctx, Err *err);

/* Runs body for N = 1, 2, 3 ..., first with only the Nth call failing, then with all calls from
 * the Nth on. Returns the number of runs in which a fault was injected. */
int fault_loop(const char *call, FaultBody *body, void *ctx);

#endif
