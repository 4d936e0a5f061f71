/* machine_files.c - what /proc and /sys say of this machine: caches, NUMA nodes, memory, and how
 * many threads a process may sensibly use, which is the least of the online CPUs, its affinity
 * mask and its cgroup CPU quota. Twice the quota is far slower than the quota.
 *
 * Files may be absent, hidden by a container or malformed: each such counts as silent. */
#include "base/base_int.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FILE = 1 << 22, MAX_CPUS = 1 << 20, MAX_CACHES = 16 };

const char *machine_file(Env *e, const char *root, const char *path)
{
    Err err;
    char *text;
    size_t len;
    const char *full = arena_printf(&e->kernel, "%s%s", root, path);
    if (os_read_file(&e->kernel, full, MAX_FILE, &text, &len, &err)) {
        return text;
    }
    if (err.code == E_NOMEM) {
        fail_err(e, &err);
    }
    return NULL;
}

/* A decimal number at *s, at most max; false leaves *s. */
static bool read_number(const char **s, int64_t max, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(*s, &end, 10);
    if (end == *s || errno || v < 0 || v > max) {
        return false;
    }
    *s = end;
    *out = v;
    return true;
}

int cpu_list_count(const char *list)
{
    int64_t count = 0, first, last;
    for (const char *s = list;; s++) {
        if (!read_number(&s, MAX_CPUS, &first)) {
            return 0;
        }
        last = first;
        if (*s == '-') {
            s++;
            if (!read_number(&s, MAX_CPUS, &last) || last < first) {
                return 0;
            }
        }
        count += last - first + 1;
        if (*s != ',') {
            return (*s == 0 || *s == '\n') && count <= MAX_CPUS ? (int)count : 0;
        }
    }
}

static int list_count(Env *e, const char *root, const char *path)
{
    const char *list = machine_file(e, root, path);
    return list ? cpu_list_count(list) : 0;
}

/* ---- caches ------------------------------------------------------------------- */

/* "48K", "32M" or plain bytes; 0 if it is none of them. */
static int64_t cache_bytes(const char *text)
{
    int64_t n;
    if (!text || !read_number(&text, INT32_MAX, &n)) {
        return 0;
    }
    return *text == 'K' ? n << 10 : *text == 'M' ? n << 20 : n;
}

static const char *cache_file(Env *e, const char *root, int index, const char *name)
{
    static const char folder[] = "/sys/devices/system/cpu/cpu0/cache";
    const char *path = arena_printf(&e->kernel, "%s/index%d/%s", folder, index, name);
    return machine_file(e, root, path);
}

/* Overwrites what CPUID said: under a hypervisor the kernel knows better. */
void machine_caches(Env *e, const char *root, Machine *m)
{
    for (int i = 0; i < MAX_CACHES; i++) {
        const char *level = cache_file(e, root, i, "level");
        const char *type = cache_file(e, root, i, "type");
        int64_t bytes = cache_bytes(cache_file(e, root, i, "size"));
        if (!level || !type) {
            return;
        }
        int64_t *const out[] = {&m->l1d_bytes, &m->l2_bytes, &m->l3_bytes};
        unsigned n = (unsigned)(level[0] - '1');
        if (n < countof(out) && bytes > 0 && type[0] != 'I') { /* not Instruction */
            *out[n] = bytes;
        }
    }
}

/* ---- control groups: the quota, how often it bound, and the limit of memory ------- */

/* 0 is no limit. */
static void keep_smaller(double *limit, double value)
{
    if (value > 0 && (*limit == 0 || value < *limit)) {
        *limit = value;
    }
}

static const char *group_file(Env *e, const char *root, const char *group, const char *name)
{
    return machine_file(e, root, arena_printf(&e->kernel, "%s/%s", group, name));
}

/* v2: "200000 100000" or "max 100000", in microseconds. */
static void quota_v2(Env *e, const char *root, const char *group, double *quota)
{
    const char *s = group_file(e, root, group, "cpu.max");
    int64_t allowed, period;
    if (s && read_number(&s, INT64_MAX, &allowed) && read_number(&s, INT64_MAX, &period) &&
        period > 0) {
        keep_smaller(quota, (double)allowed / (double)period);
    }
}

/* v1: two files; a quota of -1 is none. */
static void quota_v1(Env *e, const char *root, const char *group, double *quota)
{
    const char *q = group_file(e, root, group, "cpu.cfs_quota_us");
    const char *p = group_file(e, root, group, "cpu.cfs_period_us");
    int64_t allowed, period;
    if (q && p && read_number(&q, INT64_MAX, &allowed) && read_number(&p, INT64_MAX, &period) &&
        period > 0) {
        keep_smaller(quota, (double)allowed / (double)period);
    }
}

static void set_of(Env *e, const char *root, const char *group, const char *name, double *cpus)
{
    const char *list = group_file(e, root, group, name);
    keep_smaller(cpus, list ? cpu_list_count(list) : 0);
}

static void cpuset_v2(Env *e, const char *root, const char *group, double *cpus)
{
    set_of(e, root, group, "cpuset.cpus.effective", cpus);
}

static void cpuset_v1(Env *e, const char *root, const char *group, double *cpus)
{
    set_of(e, root, group, "cpuset.effective_cpus", cpus);
}

/* Both versions have the same file for how often it bound. */
static void throttled(Env *e, const char *root, const char *group, double *periods)
{
    static const char name[] = "nr_throttled ";
    const char *stat = group_file(e, root, group, "cpu.stat");
    const char *s = stat ? strstr(stat, name) : NULL;
    int64_t n;
    if (s && (s += strlen(name), read_number(&s, INT64_MAX, &n))) {
        *periods += (double)n;
    }
}

static void memory_limit(Env *e, const char *root, const char *group, const char *name,
                         double *bytes)
{
    const char *s = group_file(e, root, group, name);
    int64_t limit;
    if (s && read_number(&s, INT64_MAX, &limit)) {
        keep_smaller(bytes, (double)limit);
    }
}

/* "max" where there is none. */
static void memory_v2(Env *e, const char *root, const char *group, double *bytes)
{
    memory_limit(e, root, group, "memory.max", bytes);
}

/* More than any machine has where there is none. */
static void memory_v1(Env *e, const char *root, const char *group, double *bytes)
{
    memory_limit(e, root, group, "memory.limit_in_bytes", bytes);
}

/* Adds what one group says. */
typedef void GroupFn(Env *e, const char *root, const char *group, double *value);

/* The group and all its parents up to the mount. Inside a container the path may be the host's
 * and lead nowhere: the walk still ends at the mount, where the container's own limit is. */
static void walk(Env *e, const char *root, const char *mount, const char *path, GroupFn *fn,
                 double *value)
{
    char *group = arena_printf(&e->kernel, "%s%s", mount, strstr(path, "/..") ? "" : path);
    char *top = group + strlen(mount);
    for (char *end = group + strlen(group); end >= top; end--) {
        if (*end == '/' || !*end) {
            *end = 0;
            fn(e, root, group, value);
        }
    }
}

/* Is word one of the comma-separated list? */
static bool listed(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *s = list; *s; s += *s == ',') {
        size_t n = strcspn(s, ",");
        if (n == len && memcmp(s, word, n) == 0) {
            return true;
        }
        s += n;
    }
    return false;
}

/* What both versions say of one controller. */
typedef struct Controller {
    const char *name;
    GroupFn *v1, *v2;
} Controller;

/* One line of /proc/self/cgroup: "0::/path" (v2) or "4:cpu,cpuacct:/path" (v1). */
static void groups_of_line(Env *e, const char *root, char *line, const Controller *c,
                           double *value)
{
    static const char base[] = "/sys/fs/cgroup";
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) {
        return;
    }
    *controllers++ = *path++ = 0;
    if (!*controllers) {
        walk(e, root, base, path, c->v2, value);
        walk(e, root, "/sys/fs/cgroup/unified", path, c->v2, value);
    } else if (listed(controllers, c->name)) {
        const char *alone = arena_printf(&e->kernel, "%s/%s", base, c->name);
        const char *shared = arena_printf(&e->kernel, "%s/%s", base, controllers);
        walk(e, root, alone, path, c->v1, value);
        walk(e, root, shared, path, c->v1, value);
    }
}

static double of_groups(Env *e, const char *root, Controller c)
{
    double value = 0;
    const char *groups = machine_file(e, root, "/proc/self/cgroup");
    for (char *line = groups ? arena_str(&e->kernel, groups) : NULL, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) {
            *next++ = 0;
        }
        groups_of_line(e, root, line, &c, &value);
    }
    return value;
}

int64_t machine_throttled(Env *e, const char *root)
{
    return (int64_t)of_groups(e, root, (Controller){"cpu", throttled, throttled});
}

/* ---- threads -------------------------------------------------------------------- */

/* The kernel refuses a mask narrower than its own, so the mask grows until it fits. */
static int affinity_count(Env *e)
{
    for (size_t cpus = 1024; cpus <= MAX_CPUS; cpus *= 2) {
        size_t bytes = CPU_ALLOC_SIZE(cpus);
        cpu_set_t *mask = arena_alloc(&e->kernel, bytes);
        if (sched_getaffinity(0, bytes, mask) == 0) {
            return CPU_COUNT_S(bytes, mask);
        }
    }
    return 0;
}

static void bound(Machine *m, double n, const char *by)
{
    int threads = n < 1 ? 1 : n < INT_MAX ? (int)n : INT_MAX;
    if (!m->bound_by || threads < m->n_threads) {
        m->n_threads = threads;
        m->bound_by = by;
    }
}

void machine_threads(Env *e, const char *root, Machine *m)
{
    m->n_online = list_count(e, root, "/sys/devices/system/cpu/online");
    if (m->n_online == 0) {
        m->n_online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    }
    m->n_affinity = affinity_count(e);
    m->cpu_quota = of_groups(e, root, (Controller){"cpu", quota_v1, quota_v2});
    m->n_cpuset = (int)of_groups(e, root, (Controller){"cpuset", cpuset_v1, cpuset_v2});
    bound(m, m->n_online, "online");
    if (m->n_affinity > 0) {
        bound(m, m->n_affinity, "affinity");
    }
    if (m->cpu_quota > 0) {
        bound(m, m->cpu_quota, "quota");
    }
    m->n_nodes = list_count(e, root, "/sys/devices/system/node/online");
    if (m->n_nodes == 0) {
        m->n_nodes = 1;
    }
}

const char *machine_cpus(Env *e, Arena *a, const char *root)
{
    static const char name[] = "Cpus_allowed_list:";
    const char *status = machine_file(e, root, "/proc/self/status");
    const char *list = status ? strstr(status, name) : NULL;
    if (!list) {
        return NULL;
    }
    list += strlen(name);
    list += strspn(list, " \t");
    list = arena_strn(a, list, strcspn(list, "\n"));
    return cpu_list_count(list) > 0 ? list : NULL;
}

/* ---- memory --------------------------------------------------------------------- */

void machine_memory(Env *e, const char *root, Machine *m)
{
    static const char name[] = "MemTotal:";
    const char *info = machine_file(e, root, "/proc/meminfo");
    const char *s = info ? strstr(info, name) : NULL;
    double bytes = of_groups(e, root, (Controller){"memory", memory_v1, memory_v2});
    int64_t kib;
    if (s && (s += strlen(name), read_number(&s, INT64_MAX / 1024, &kib))) {
        keep_smaller(&bytes, (double)kib * 1024);
    }
    m->memory_bytes = (int64_t)bytes;
}
