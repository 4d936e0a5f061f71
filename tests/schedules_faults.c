/* schedules_faults.c - memory running out at every single call: of choosing a default, of making
 * a space, of reading a .sched file, of picking by it. Each run ends well or says so; what leaks
 * shows under SAN=1. */
#include "tests/fault.h"
#include "tests/schedules_util.h"

#include <errno.h>
#include <string.h>

static const char graph[] = "graph g\nx = input f32[seq, 8]\nw = weight f32[5, 8]\n"
                            "t = permute w perm=[1, 0]\ny = matmul x, t\ne = exp y\n"
                            "s = reduce_sum e axis=-1\nreturn s=s\n";

static void all_of_it(Env *e, void *arg)
{
    (void)arg;
    const Program *p = compiled(e, ncg_parse(e, graph, strlen(graph), "g.ncg"), 0, NULL);
    for (int i = 0; i < p->kernel.n; i++) {
        const Kernel *k = p->kernel.at[i];
        PickHint hint = hint_at(target_generic(), 2, -1);
        TunedRow row = {.key = k->hash, .c_hash = {1, 1}};
        SchedFile f = {.signature = "here"}, again;
        Space s;
        Point point;
        Buf text;
        schedule_default(e, k, &hint, &row.schedule);
        space_init(e, &e->model, &s, k, &hint);
        cr_assert(space_default(e, &s, &point));
        *vec_push(&e->model, &f.row) = row;
        buf_init(&text, &e->model);
        sched_print(&f, &text);
        sched_parse(e, text.at, text.len, "x.sched", "here", &again);
        Tuned t = {again.row.at, again.row.n, NULL, NULL};
        Picker picker = picker_tuned(&t);
        picker.pick(picker.ctx, e, k, &hint, &row.schedule);
    }
}

static bool body(void *ctx, Err *err)
{
    Env e;
    env_init(&e);
    bool ok = env_try(&e, all_of_it, ctx);
    *err = e.err;
    cr_assert(ok || err->code == E_NOMEM, "%s", err->text);
    env_release(&e);
    return ok;
}

TestSuite(schedules_faults, .timeout = 300);

Test(schedules_faults, memory_runs_out)
{
    int before = open_descriptors();
    cr_expect_gt(fault_loop("alloc", body, NULL), 10);
    cr_expect_eq(open_descriptors(), before);
}
