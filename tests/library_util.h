/* library_util.h - built libraries of model folders, for the tests that run them. Every helper asserts. */
#ifndef NC_TESTS_LIBRARY_UTIL_H
#define NC_TESTS_LIBRARY_UTIL_H

#include "tests/engine_util.h"

typedef struct TestLibrary {
    TestModel *m;
    Toolchain tc;
    ModelLibrary made;
    BuiltModel built;
    const Picker *picker; /* NULL: naive nests */
    bool panels, f32;
    int64_t context;
    const Bucket *bucket; /* of prompts; NULL: the usual one, and schedules for any size */
    int n_buckets;
    nc_options options;
} TestLibrary;

/* Builds it with these settings (two threads), and opens it. */
void library_open_test(TestLibrary *l, TestModel *m);
void library_make_test(TestLibrary *l, TestModel *m);   /* only builds */
void library_load_test(TestLibrary *l);                 /* what was built: not opened */
void library_tables_test(TestLibrary *l, TestModel *m); /* no more than its tables */
/* In the database: that this schedule of a call's kernel won here, at 64 tokens. same_c: and is still compiled
 * as it was then. */
void library_record_winner(TestLibrary *l, const char *db, int part, int call,
                           const char *schedule, bool same_c);
/* Its tables with the library's own functions, to be run by this process. Loads it. */
NcTables library_tables(TestLibrary *l);
const float *library_feed(TestLibrary *l, const int32_t *ids, int n, bool all);

/* The folder with its C. */
void library_write_test(TestLibrary *l, const char *dir);
/* Compiles it by the documented line, with more behind it; out takes the place of "-shared -o model.so", which
 * NULL leaves. Asserts that the compiler says nothing. */
void library_compile_folder(Env *e, const char *dir, const char *out, const char *more);
/* Runs a command; returns what it says, and waitpid's status. */
const char *shell(Env *e, int *status, const char *fmt, ...) PRINTF(3, 4);

#endif
