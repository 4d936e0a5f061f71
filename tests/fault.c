/* fault.c - see fault.h. One wrapper for each row of OS_CALLS, all expanded from the list. */
#include "tests/fault.h"
#include "tests/helpers.h"

#include <errno.h>
#include <string.h>

typedef enum CallId {
#define X(ret, name, params, args, failed) CALL_##name,
    OS_CALLS(X) N_CALLS
#undef X
} CallId;

static const char *const call_name[N_CALLS] = {
#define X(ret, name, params, args, failed) #name,
    OS_CALLS(X)
#undef X
};

/* These give something back even when they report an error. */
static const bool releases[N_CALLS] = {
    [CALL_close] = true, [CALL_munmap] = true, [CALL_dlclose] = true};

static struct Fault {
    int call, nth, err;
    bool persistent;
    int calls[N_CALLS];
    int hits;
} fault;

static bool hit(CallId id)
{
    int n = __atomic_add_fetch(&fault.calls[id], 1, __ATOMIC_RELAXED);
    bool now = (int)id == fault.call && fault.nth > 0 &&
               (fault.persistent ? n >= fault.nth : n == fault.nth);
    if (now) {
        __atomic_add_fetch(&fault.hits, 1, __ATOMIC_RELAXED);
    }
    return now;
}

#define X(ret, name, params, args, failed) \
    static ret faulty_##name params        \
    {                                      \
        if (!hit(CALL_##name)) {           \
            return os_system.name args;    \
        }                                  \
        if (releases[CALL_##name]) {       \
            (void)os_system.name args;     \
        }                                  \
        errno = fault.err;                 \
        return failed;                     \
    }
OS_CALLS(X)
#undef X

static int call_id(const char *call)
{
    for (int i = 0; i < N_CALLS; i++) {
        if (strcmp(call_name[i], call) == 0) {
            return i;
        }
    }
    cr_assert(false, "the os table has no call %s", call);
    return -1;
}

void fault_arm(const char *call, int nth, bool persistent, int err)
{
    fault =
        (struct Fault){.call = call_id(call), .nth = nth, .persistent = persistent, .err = err};
    os = (Os){
#define X(ret, name, params, args, failed) .name = faulty_##name,
        OS_CALLS(X)
#undef X
    };
}

void fault_disarm(void)
{
    os = os_system;
}

int fault_calls(const char *call)
{
    return fault.calls[call_id(call)];
}

int fault_hits(void)
{
    return fault.hits;
}

/* One run; false when it met no fault. */
static bool fault_run(const char *call, int nth, bool persistent, FaultBody *body, void *ctx)
{
    bool memory = strcmp(call, "alloc") == 0 || strcmp(call, "realloc") == 0;
    int before = open_descriptors();
    Err err = {.code = E_OK};
    fault_arm(call, nth, persistent, memory ? ENOMEM : EIO);
    bool ok = body(ctx, &err);
    fault_disarm();
    cr_assert(ok || err.code != E_OK, "%s %d failed and the work gave no reason", call, nth);
    cr_assert(ok || err.text[0], "%s %d failed and the reason has no text", call, nth);
    cr_assert(ok || fault.hits > 0, "without a fault: %s", err.text);
    cr_assert_eq(open_descriptors(), before, "%s %d left a descriptor open", call, nth);
    return fault.hits > 0;
}

enum { MAX_RUNS = 100000 };

int fault_loop(const char *call, FaultBody *body, void *ctx)
{
    int runs = 0;
    for (int persistent = 0; persistent <= 1; persistent++) {
        int nth = 1;
        while (fault_run(call, nth, persistent, body, ctx)) {
            cr_assert_lt(++nth, MAX_RUNS, "%s never ran without a fault", call);
            runs++;
        }
    }
    return runs;
}
