/* default_gather.c - looked-up rows are copied like elements: lanes along the row, rows shared
 * by threads. The class is its own because its memory is: no prefetcher foresees where a row
 * comes from. */
#include "schedules/schedules_int.h"

bool default_gather(Env *e, const Look *l, const PickHint *hint, Recipe *out)
{
    return default_elementwise(e, l, hint, out);
}
