/* tuner.h - the door of this folder: what it offers, in six parts, each section named after the .c file that
 * defines it; stat.h has the statistics and evidence.h what needs the database. */
#ifndef NC_TUNER_H
#define NC_TUNER_H

#include "tuner/allocate.h"
#include "tuner/measure.h"
#include "tuner/process.h"
#include "tuner/protocol.h"
#include "tuner/search.h"
#include "tuner/session.h"

#endif
