/* run.h - the body of the program tune. */
#ifndef NC_TUNE_RUN_H
#define NC_TUNE_RUN_H

#include "tuner/cli/tune.h"

void tune_body(Env *e, void *options);
void say_result(const Workplace *w, const Item *it, const SessionResult *s); /* on stdout */

#endif
