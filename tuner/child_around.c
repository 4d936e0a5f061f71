/* child_around.c - what a process took, as the kernel counted it, and what the machine did while it
 * ran: counters of the machine before it began and after it ended. The parent looks, so that
 * this is known of every process, however it ended, and nothing depends on what foreign code
 * left. Where looking fails nothing is known, and the process counts all the same. */
#include <math.h>

#include "tuner/tuner_int.h"

typedef struct Look {
    const char *root;
    int cpu;
    MachineLoad *out;
} Look;

static void look(Env *e, void *arg)
{
    const Look *l = arg;
    machine_load(e, l->root, l->cpu, l->out);
}

/* In memory of its own: what it reads is not to be kept with the results. */
static bool look_around(const Child *p, int cpu, MachineLoad *out)
{
    Env e;
    env_init(&e);
    bool ok = env_try(&e, look, &(Look){p->cross.root, cpu, out});
    env_release(&e);
    return ok;
}

void child_looks_before(Child *p)
{
    p->looked = look_around(p, -1, &p->before);
}

static int64_t moved(int64_t was, int64_t is)
{
    return was >= 0 && is >= was ? is - was : -1;
}

static int64_t ns_of(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000000 + (int64_t)t.tv_usec * 1000;
}

/* The CPU that it was bound to, else the one that its last pair ran on. */
static int its_cpu(const ProcessResult *r)
{
    return r->cpu >= 0 || !r->n_pairs ? r->cpu : (int)r->pair[r->n_pairs - 1].cpu;
}

static void take_usage(const struct rusage *u, Meanwhile *out)
{
    out->utime_ns = ns_of(u->ru_utime), out->stime_ns = ns_of(u->ru_stime);
    out->max_rss_bytes = (int64_t)u->ru_maxrss * 1024;
    out->minor_faults = u->ru_minflt, out->major_faults = u->ru_majflt;
    out->voluntary_switches = u->ru_nvcsw, out->involuntary_switches = u->ru_nivcsw;
}

void child_looks_after(Child *p)
{
    MachineLoad after;
    Meanwhile *out = &p->out->meanwhile;
    if (p->end == LOST || !p->looked || !look_around(p, its_cpu(p->out), &after)) {
        return;
    }
    take_usage(&p->usage, out);
    out->steal_jiffies = moved(p->before.steal, after.steal);
    out->throttled = moved(p->before.throttled, after.throttled);
    for (int i = 0; i < 3; i++) {
        out->load[i] = p->before.load[i];
    }
    out->cpu_mhz = after.mhz, out->celsius = after.celsius;
    out->known = true;
}
