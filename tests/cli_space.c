/* cli_space.c - `dump space` as its user meets it: knobs with their choices, rules with their
 * reasons, counts, and the default with its rank, in every format; sizes that are given narrow
 * the space. */
#include "tests/cli_util.h"
#include "tests/folder_fixture.h"

#include <stdlib.h>
#include <string.h>

TestSuite(cli_space, .init = start, .fini = stop, .timeout = 120);

#define TWO                                                                        \
    "graph two\nx = input f32[seq, 64]\nw = weight f32[64, 96]\ny = matmul x, w\n" \
    "s = reduce_sum y axis=-1\nreturn s=s\n"

static const char *two(void)
{
    return file_in(&env, &dir, "two.ncg", TWO);
}

Test(cli_space, knobs_rules_counts_and_the_default)
{
    const char *path = two();
    shows(NC(&env, "dump", "space", path), "rows of the register tile");
    shows(NC(&env, "dump", "space", path), "accumulators, the vectors of one factor");
    shows(NC(&env, "dump", "space", path), "that keep every rule, each another schedule");
    shows(NC(&env, "dump", "space", path, "-k", "0"), "pack b n.o,k,n.i");
    shows(NC(&env, "dump", "space", path, "-k", "1"), "lanes along the reductions");
    shows(NC(&env, "dump", "space", path, "--format", "json"), "\"what\": \"knob\"");
    shows(NC(&env, "dump", "space", path, "--format", "csv"),
          "kernel,class,what,name,choices,meaning");
    shows(NC(&env, "dump", "space", path, "--format", "md"), "| contraction |");
}

/* The number in the row of this count. */
static long long counted(Ran r, const char *name)
{
    const char *row = strstr(r.out, name);
    cr_assert(row, "%s", r.out);
    return strtoll(row + strlen(name), NULL, 10);
}

Test(cli_space, known_sizes_narrow_the_space)
{
    const char *path = two();
    long long any = counted(NC(&env, "dump", "space", path, "-k", "0", "--format", "csv"),
                            "count,schedules,");
    long long one =
        counted(NC(&env, "dump", "space", path, "-k", "0", "--format", "csv", "--seq", "1"),
                "count,schedules,");
    long long all =
        counted(NC(&env, "dump", "space", path, "-k", "0", "--format", "csv"), "count,points,");
    cr_expect_gt(one, 0);
    cr_expect_lt(one, any);
    cr_expect_lt(any, all);
}
