/* db_util.h - schedule databases for tests: a small search recorded row by row, with raw
 * pairs from a seed, so that everything derived in it is true. */
#ifndef NC_TESTS_DB_UTIL_H
#define NC_TESTS_DB_UTIL_H

#include "db/db.h"
#include "tests/cli_util.h"

typedef struct Story {  /* what is recorded */
    const char *kernel; /* text */
    int64_t m;          /* its one size */
    int64_t l2_bytes;   /* of the machine */
    const char *flags;  /* of the compiler */
    const char *host;   /* a soft fact */
    uint64_t seed;      /* of the run; also makes its schedules differ */
    int n_trials;
    bool wins;                /* the last trial wins a title match */
    const char *schedule;     /* of that last trial; NULL: made up */
    Hash c_hash;              /* of its C; zero: made up */
    const DbMachine *machine; /* where it ran; NULL: made up */
    const DbToolchain *toolchain;
} Story;

Story story(void); /* with values for everything */

typedef struct Told { /* what became of it */
    int64_t machine, toolchain, kernel, task, space, run;
    int n_duels;
} Told;

Db *open_db(Env *e, const char *path, DbMode mode); /* asserts */
/* Records it, a transaction a trial; goes on where some of it is there. */
Told tell(Db *db, const Story *s);
Told tell_at(Env *e, const char *path, const Story *s); /* opens and closes it; NULL: story() */
DbMachine story_machine(const Story *s);
DbToolchain story_toolchain(const Story *s);

/* Every row of every table, in the order of their keys: two databases that hold the same
 * give the same text. */
const char *contents(Env *e, Db *db);
const char *contents_at(Env *e, const char *path);
void set_sql(const char *path, const char *sql); /* by SQLite itself, behind our back */

/* By schedb: rows as CSV, a line end between two, without their heading. */
const char *queried(Env *e, const char *path, const char *query);
void gives(Env *e, const char *path, const char *query, const char *rows); /* exactly these */
void is_sound(Env *e, const char *path); /* schedb verify says so */

#endif
