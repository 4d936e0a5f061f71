/* machine.c - this machine as a row: the hard part from Machine, the soft part from /proc
 * and /sys, where a file that cannot be read means not known. */
#include <stdlib.h>
#include <string.h>

#include "db/db_int.h"

typedef struct Facts {
    Arena *a;
    const char *root;
} Facts;

/* Up to the end of its first line; NULL: not to be read, or empty. */
static const char *line_of(const Facts *f, const char *path)
{
    char *text;
    size_t len;
    if (!os_read_file(f->a, arena_printf(f->a, "%s%s", f->root, path), 1 << 20, &text, &len,
                      NULL)) {
        return NULL;
    }
    text[strcspn(text, "\n")] = '\0';
    return *text ? text : NULL;
}

static int64_t number_of(const Facts *f, const char *path)
{
    const char *line = line_of(f, path);
    return line ? strtoll(line, NULL, 10) : DB_NONE;
}

/* "always [madvise] never": what is in brackets. */
static const char *chosen_of(const Facts *f, const char *path)
{
    const char *line = line_of(f, path), *from = line ? strchr(line, '[') : NULL;
    const char *to = from ? strchr(from, ']') : NULL;
    return to ? arena_strn(f->a, from + 1, (size_t)(to - from - 1)) : NULL;
}

/* The first "name : value" of /proc/cpuinfo. */
static const char *cpuinfo_of(const Facts *f, const char *cpuinfo, const char *name)
{
    for (const char *at = cpuinfo; at && (at = strstr(at, name)); at++) {
        const char *value = at + strlen(name);
        value += strspn(value, "\t ");
        if ((at == cpuinfo || at[-1] == '\n') && *value == ':') {
            value += 1 + strspn(value + 1, " ");
            return arena_strn(f->a, value, strcspn(value, "\n"));
        }
    }
    return NULL;
}

static int64_t turbo_of(const Facts *f)
{
    int64_t no_turbo = number_of(f, "/sys/devices/system/cpu/intel_pstate/no_turbo");
    return no_turbo != DB_NONE ? !no_turbo
                               : number_of(f, "/sys/devices/system/cpu/cpufreq/boost");
}

static const char *hypervisor_of(const Facts *f, const char *cpuinfo)
{
    const char *flags = cpuinfo_of(f, cpuinfo, "flags");
    if (!flags || !strstr(flags, " hypervisor")) {
        return flags ? "none" : NULL;
    }
    const char *name = line_of(f, "/sys/hypervisor/type");
    name = name ? name : line_of(f, "/sys/class/dmi/id/sys_vendor");
    return name ? name : "of some kind";
}

static void soft_part(const Facts *f, DbMachine *out)
{
    char *cpuinfo;
    size_t len;
    if (!os_read_file(f->a, arena_printf(f->a, "%s/proc/cpuinfo", f->root), 16 << 20, &cpuinfo,
                      &len, NULL)) {
        cpuinfo = NULL;
    }
    out->host = line_of(f, "/proc/sys/kernel/hostname");
    out->microcode = cpuinfo_of(f, cpuinfo, "microcode");
    out->kernel_release = line_of(f, "/proc/sys/kernel/osrelease");
    out->governor = line_of(f, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    out->turbo = turbo_of(f);
    out->smt = number_of(f, "/sys/devices/system/cpu/smt/active");
    out->thp = chosen_of(f, "/sys/kernel/mm/transparent_hugepage/enabled");
    out->clocksource =
        line_of(f, "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    out->aslr = number_of(f, "/proc/sys/kernel/randomize_va_space");
    out->hypervisor = hypervisor_of(f, cpuinfo);
}

void db_machine_here(Env *e, Arena *a, const char *root, const Machine *m, DbMachine *out)
{
    Buf isa;
    Facts f = {a, root};
    (void)e;
    buf_init(&isa, a);
    machine_isa(m, &isa);
    *out = db_blank_machine();
    out->isa = isa.at;
    out->l1d_bytes = m->l1d_bytes, out->l2_bytes = m->l2_bytes, out->l3_bytes = m->l3_bytes;
    out->n_cores = m->n_threads;
    out->vendor = arena_str(a, m->vendor), out->brand = arena_str(a, m->brand);
    out->family = m->family, out->model = m->model, out->stepping = m->stepping;
    out->n_online = m->n_online, out->n_affinity = m->n_affinity;
    if (m->cpu_quota > 0) {
        out->cpu_quota = m->cpu_quota;
    }
    out->bound_by = m->bound_by, out->n_nodes = m->n_nodes, out->memory_bytes = m->memory_bytes;
    soft_part(&f, out);
}
