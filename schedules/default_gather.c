/* default_gather.c - looked-up rows are copied like elements: lanes along the row, rows over threads. The class
 * is its own because what is slow in it is: reading where no prefetcher looks. */
#include "schedules/schedules_int.h"

bool default_gather(Env *e, const Kernel *k, const PickHint *hint, Schedule *out)
{
    return default_elementwise(e, k, hint, out);
}
