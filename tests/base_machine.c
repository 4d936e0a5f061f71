/* base_machine.c - tests of what is made of CPUID bits, and of made-up /proc and /sys roots:
 * the machines that the one at hand is not. */
#include "base/base_int.h"
#include "tests/fault.h"
#include "tests/helpers.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static Env env;
static TempDir dir;
static Machine m;

static void start(void)
{
    unsetenv("NANOCOMPILE_CPU");
    env_init(&env);
    dir = temp_dir();
}

static void stop(void)
{
    temp_remove(&dir);
    env_release(&env);
}

TestSuite(base_machine, .init = start, .fini = stop);

static void put(const char *path, const char *text)
{
    write_text(temp_path(&dir, path), text);
}

static void read_body(Env *e, void *root)
{
    machine_read(e, root, &m);
}

static const Machine *machine(void)
{
    must_work(&env, read_body, dir.path);
    return &m;
}

/* ---- features ---- */

static const CpuBits everything = {UINT32_MAX, UINT32_MAX, UINT32_MAX,
                                   UINT32_MAX, UINT32_MAX, UINT64_MAX};

static const char *features_of(CpuBits bits)
{
    Machine some = {.arch = "x"};
    Buf b;
    buf_init(&b, &env.model);
    cpu_features(&bits, some.feature);
    machine_isa(&some, &b);
    return b.at;
}

Test(base_machine, a_feature_needs_the_cpu_and_the_kernel)
{
    CpuBits bits = everything;
    cr_assert_str_eq(features_of(bits), "x family 0: sse4.2 avx avx2 fma f16c avx512f avx512bw "
                                        "avx512dq avx512vl avx512vnni avxvnni avx512bf16");
    bits.xcr0 = 0x07; /* the kernel saves no masks and no 512-bit registers */
    cr_assert_str_eq(features_of(bits), "x family 0: sse4.2 avx avx2 fma f16c avxvnni");
    bits.xcr0 = 0x67;
    cr_assert_str_eq(features_of(bits), "x family 0: sse4.2 avx avx2 fma f16c avxvnni");
    bits.xcr0 = 0x03;
    cr_assert_str_eq(features_of(bits), "x family 0: sse4.2");
    bits = everything;
    bits.leaf7_ebx = 0;
    cr_assert_str_eq(features_of(bits), "x family 0: sse4.2 avx fma f16c avx512vnni avxvnni "
                                        "avx512bf16");
    cr_assert_str_eq(features_of((CpuBits){.xcr0 = 0xe7}), "x family 0:");
}

Test(base_machine, the_sum_of_a_package_is_no_cache)
{
    static const struct {
        const char *vendor;
        bool counts_instances;
        int64_t told_mib, mib;
    } row[] = {{"AuthenticAMD", false, 508, 96},  {"HygonGenuine", false, 508, 96},
               {"AuthenticAMD", false, 32, 32},   {"AuthenticAMD", true, 508, 508},
               {"GenuineIntel", false, 504, 504}, {"AuthenticAMD", false, 0, 0}};
    for (size_t i = 0; i < countof(row); i++) {
        CpuBits bits = row[i].counts_instances ? everything : (CpuBits){0};
        cr_expect_eq(cpu_l3_bytes(row[i].vendor, &bits, row[i].told_mib << 20),
                     row[i].mib << 20, "row %zu", i);
    }
}

static void mask_body(Env *e, void *level)
{
    cpu_mask(e, level, m.feature);
}

Test(base_machine, the_mask_only_takes_away)
{
    memset(m.feature, true, sizeof m.feature);
    must_work(&env, mask_body, "avx2");
    cr_assert(m.feature[FEAT_AVX2] && m.feature[FEAT_FMA] && m.feature[FEAT_SSE42]);
    cr_assert(!m.feature[FEAT_AVX512F] && !m.feature[FEAT_AVXVNNI] && !m.feature[FEAT_NEON]);
    must_work(&env, mask_body, "sse4.2");
    cr_assert(m.feature[FEAT_SSE42] && !m.feature[FEAT_AVX]);
    must_work(&env, mask_body, "avx2");
    cr_assert_not(m.feature[FEAT_AVX2]);
    must_work(&env, mask_body, "generic");
    cr_assert_not(m.feature[FEAT_SSE42]);
    must_fail(&env, mask_body, "avx1024", E_INPUT, "avx2, sse4.2 or generic");
}

Test(base_machine, the_environment_variable_masks_this_machine)
{
    setenv("NANOCOMPILE_CPU", "generic", 1);
    machine();
    for (int f = 0; f < N_FEATURES; f++) {
        cr_assert_not(m.feature[f], "%s", feature_name((Feature)f));
    }
    setenv("NANOCOMPILE_CPU", "", 1);
    machine();
    setenv("NANOCOMPILE_CPU", "best", 1);
    must_fail(&env, read_body, dir.path, E_INPUT, "NANOCOMPILE_CPU is \"best\"");
}

/* ---- threads ---- */

static int own_affinity(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
}

Test(base_machine, cpu_lists_are_counted)
{
    static const struct {
        const char *list;
        int count;
    } row[] = {{"0", 1},  {"0-3,5\n", 5}, {"0,2,4-7", 6},
               {"", 0},   {"3-1", 0},     {"0-", 0},
               {"x", 0},  {"0-3x", 0},    {"0-99999999999", 0},
               {"-1", 0}, {"0,,1", 0},    {"0-1048576", 0}};
    for (size_t i = 0; i < countof(row); i++) {
        cr_assert_eq(cpu_list_count(row[i].list), row[i].count, "%s", row[i].list);
    }
}

Test(base_machine, an_empty_root_leaves_what_the_process_knows)
{
    machine();
    cr_assert_eq(m.n_affinity, own_affinity());
    cr_assert_geq(m.n_online, 1);
    cr_assert_eq(m.cpu_quota, 0);
    cr_assert_eq(m.n_nodes, 1);
    cr_assert_geq(m.n_threads, 1);
}

Test(base_machine, one_online_cpu_binds)
{
    put("sys/devices/system/cpu/online", "0\n");
    put("sys/devices/system/node/online", "0-1\n");
    machine();
    cr_assert_eq(m.n_online, 1);
    cr_assert_eq(m.n_threads, 1);
    cr_assert_str_eq(m.bound_by, "online");
    cr_assert_eq(m.n_nodes, 2);
}

Test(base_machine, the_affinity_mask_binds)
{
    put("sys/devices/system/cpu/online", "0-1023\n");
    cpu_set_t set, one;
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    CPU_ZERO(&one);
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT(&one) == 0; cpu--) {
        if (CPU_ISSET(cpu, &set)) {
            CPU_SET(cpu, &one);
        }
    }
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    machine();
    cr_assert_eq(m.n_online, 1024);
    cr_assert_eq(m.n_affinity, 1);
    cr_assert_eq(m.n_threads, 1);
    cr_assert_str_eq(m.bound_by, "affinity");
}

static void quota_is(double cpus)
{
    cr_assert_float_eq(machine()->cpu_quota, cpus, 1e-9, "%g", m.cpu_quota);
}

Test(base_machine, a_v2_quota_binds_and_is_rounded_down_but_not_to_zero)
{
    put("sys/devices/system/cpu/online", "0-63\n");
    put("proc/self/cgroup", "0::/user/job\n");
    put("sys/fs/cgroup/user/job/cpu.max", "50000 100000\n");
    quota_is(0.5);
    cr_assert_eq(m.n_threads, 1);
    cr_assert_eq(strcmp(m.bound_by, "quota") == 0, own_affinity() > 1);
    put("sys/fs/cgroup/user/job/cpu.max", "190000 100000\n");
    quota_is(1.9);
    cr_assert_eq(m.n_threads, 1);
}

Test(base_machine, the_smallest_quota_of_the_group_and_its_parents_wins)
{
    put("proc/self/cgroup", "0::/a/b/c\n");
    put("sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    quota_is(0);
    put("sys/fs/cgroup/a/b/cpu.max", "800000 100000\n");
    quota_is(8);
    put("sys/fs/cgroup/a/cpu.max", "300000 100000\n");
    quota_is(3);
    put("sys/fs/cgroup/cpu.max", "200000 50000\n");
    quota_is(3);
    put("sys/fs/cgroup/a/b/c/cpu.max", "100000 50000\n");
    quota_is(2);
}

Test(base_machine, v1_quotas_count_under_either_mount_name)
{
    put("proc/self/cgroup", "9:memory:/x\n4:cpu,cpuacct:/a/b\n2:cpuset:/y\n0::/\n");
    put("sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
    quota_is(0);
    put("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n");
    put("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    quota_is(2.5);
}

Test(base_machine, a_container_that_sees_the_hosts_path_has_its_limit_at_the_mount)
{
    put("proc/self/cgroup", "4:cpu:/docker/0123456789\n0::/../outside\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    quota_is(4);
    put("sys/fs/cgroup/cpu.max", "300000 100000\n");
    quota_is(3);
    put("sys/fs/outside/cpu.max", "100000 100000\n");
    quota_is(3);
}

static void cpuset_is(int n)
{
    cr_assert_eq(machine()->n_cpuset, n, "%d", m.n_cpuset);
}

Test(base_machine, cases_8_the_set_of_cpus_of_the_groups_is_told)
{
    cpuset_is(0);
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/cpuset.cpus.effective", "0-3,8\n");
    cpuset_is(5);
    put("sys/fs/cgroup/a/cpuset.cpus.effective", "all\n");
    cpuset_is(5);
    put("proc/self/cgroup", "2:cpuset:/y\n");
    put("sys/fs/cgroup/cpuset/y/cpuset.effective_cpus", "2\n");
    cpuset_is(1);
}

static const char *cpus;

static void cpus_body(Env *e, void *root)
{
    cpus = machine_cpus(e, &e->model, root);
}

Test(base_machine, cases_9_the_mask_is_told_as_the_kernel_numbers_it)
{
    must_work(&env, cpus_body, dir.path);
    cr_expect_null(cpus);
    put("proc/self/status", "Name:\ttune\nCpus_allowed:\t0104\nCpus_allowed_list:\t2,8-9\n"
                            "Mems_allowed:\t1\n");
    must_work(&env, cpus_body, dir.path);
    cr_expect_str_eq(cpus, "2,8-9");
    put("proc/self/status", "Cpus_allowed_list:\tall of them\n");
    must_work(&env, cpus_body, dir.path);
    cr_expect_null(cpus);
}

Test(base_machine, memory_is_what_is_installed_or_the_least_limit_of_the_groups)
{
    cr_assert_eq(machine()->memory_bytes, 0);
    put("proc/meminfo", "MemTotal:       16384 kB\nMemFree:          100 kB\n");
    cr_assert_eq(machine()->memory_bytes, 16 << 20);
    put("proc/self/cgroup", "9:cpu,memory:/x\n0::/a/b\n");
    put("sys/fs/cgroup/a/b/memory.max", "max\n");
    put("sys/fs/cgroup/cpu,memory/x/memory.limit_in_bytes", "9223372036854771712\n");
    cr_assert_eq(machine()->memory_bytes, 16 << 20);
    put("sys/fs/cgroup/a/memory.max", "4096000\n");
    cr_assert_eq(machine()->memory_bytes, 4096000);
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "1024000\n");
    cr_assert_eq(machine()->memory_bytes, 1024000);
    put("proc/meminfo", "MemTotal: much\n");
    cr_assert_eq(machine()->memory_bytes, 1024000);
}

static int64_t n_throttled;

static void throttled_body(Env *e, void *root)
{
    n_throttled = machine_throttled(e, root);
}

static void throttled_is(int64_t n)
{
    must_work(&env, throttled_body, dir.path);
    cr_assert_eq(n_throttled, n, "%d", (int)n_throttled);
}

Test(base_machine, throttled_periods_of_the_groups_that_can_hold_us_back_are_added)
{
    throttled_is(0);
    put("proc/self/cgroup", "0::/a/b\n");
    put("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 7\nnr_periods 9\nnr_throttled 4\n");
    throttled_is(4);
    put("sys/fs/cgroup/a/cpu.stat", "nr_throttled 30\nthrottled_usec 5\n");
    throttled_is(34);
    put("sys/fs/cgroup/a/cpu.stat", "nr_throttled many\n");
    throttled_is(4);
    put("proc/self/cgroup", "4:cpu,cpuacct:/c\n");
    put("sys/fs/cgroup/cpu,cpuacct/c/cpu.stat", "nr_periods 9\nnr_throttled 2\n");
    throttled_is(2);
}

/* ---- what it is doing ---- */

static MachineLoad now;
static int cpu;

static void load_body(Env *e, void *root)
{
    machine_load(e, root, cpu, &now);
}

static const MachineLoad *load_of(int of_cpu)
{
    cpu = of_cpu;
    must_work(&env, load_body, dir.path);
    return &now;
}

Test(base_machine, what_it_is_doing_is_read_from_its_files)
{
    put("proc/stat", "cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
    put("proc/loadavg", "0.50 1.25 2.00 3/200 4711\n");
    put("proc/cpuinfo", "processor\t: 0\ncpu MHz\t\t: 1000.5\n\nprocessor\t: 12\n"
                        "model name\t: x\ncpu MHz\t\t: 2400.25\n\nprocessor\t: 13\n\n");
    put("sys/class/thermal/thermal_zone0/temp", "41000\n");
    put("sys/class/thermal/thermal_zone1/temp", "56500\n");
    put("sys/class/thermal/thermal_zone2/temp", "-274000\n");
    put("proc/self/cgroup", "0::/a\n");
    put("sys/fs/cgroup/a/cpu.stat", "nr_throttled 7\n");
    const MachineLoad *l = load_of(12);
    cr_expect(l->steal == 80 && l->throttled == 7);
    cr_expect(l->load[0] == 0.5 && l->load[1] == 1.25 && l->load[2] == 2);
    cr_expect(l->mhz == 2400.25 && l->celsius == 56.5);
    cr_expect(load_of(0)->mhz == 1000.5);
    cr_expect(isnan(load_of(13)->mhz), "it says none of its own");
    cr_expect(isnan(load_of(2)->mhz));
    put("sys/devices/system/cpu/cpu12/cpufreq/scaling_cur_freq", "3100000\n");
    cr_expect(load_of(12)->mhz == 3100, "the driver knows better");
}

Test(base_machine, what_it_does_not_say_of_itself_is_not_known)
{
    for (int nonsense = 0; nonsense < 2; nonsense++) {
        const MachineLoad *l = load_of(nonsense ? 0 : -1);
        cr_expect(l->steal == -1 && l->throttled == 0);
        cr_expect(isnan(l->load[0]) && isnan(l->load[2]) && isnan(l->mhz) && isnan(l->celsius));
        put("proc/stat", "cpu  10 20 30 40 50 60 70\n");
        put("proc/loadavg", "0.50 much\n");
        put("proc/cpuinfo", "processor : 0\ncpu MHz : fast\n");
        put("sys/class/thermal/thermal_zone0/temp", "nan\n");
    }
}

Test(base_machine, nonsense_in_proc_and_sys_counts_as_silence)
{
    put("proc/self/cgroup", "\n:\n::\n0:\n0::nowhere\n4:cpu\n\xff\xfe");
    put("sys/fs/cgroup/cpu.max", "many 0\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000");
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "0");
    put("sys/devices/system/cpu/online", "all of them");
    put("sys/devices/system/node/online", "");
    put("sys/devices/system/cpu/cpu0/cache/index0/level", "");
    quota_is(0);
    cr_assert_geq(m.n_threads, 1);
    cr_assert_eq(m.n_nodes, 1);
}

Test(base_machine, caches_are_read_by_level_and_kind)
{
    static const char *const row[][3] = {{"1", "Data", "48K"},
                                         {"1", "Instruction", "32K"},
                                         {"2", "Unified", "2048K"},
                                         {"3", "Unified", "36M"}};
    for (size_t i = 0; i < countof(row); i++) {
        static const char *const file[] = {"level", "type", "size"};
        for (size_t k = 0; k < countof(file); k++) {
            char path[96];
            snprintf(path, sizeof path, "sys/devices/system/cpu/cpu0/cache/index%zu/%s", i,
                     file[k]);
            put(path, row[i][k]);
        }
    }
    machine();
    cr_assert_eq(m.l1d_bytes, 48 << 10);
    cr_assert_eq(m.l2_bytes, 2 << 20);
    cr_assert_eq(m.l3_bytes, 36 << 20);
}

/* ---- this machine ---- */

Test(base_machine, this_machine_reads_the_same_twice)
{
    Machine first;
    must_work(&env, read_body, "");
    first = m;
    must_work(&env, read_body, "");
    cr_assert_str_eq(first.brand, m.brand);
    cr_assert_eq(memcmp(first.feature, m.feature, sizeof m.feature), 0);
    cr_assert_eq(first.l2_bytes, m.l2_bytes);
    cr_assert_gt(strlen(m.arch), 0);
    cr_assert_leq(m.n_threads, m.n_affinity);
}

static bool read_in_a_new_env(void *ctx, Err *err)
{
    (void)ctx;
    Env e;
    env_init(&e);
    bool ok = env_try(&e, read_body, dir.path);
    *err = e.err;
    env_release(&e);
    return ok;
}

Test(base_machine, failing_calls_leave_no_descriptor_open)
{
    put("proc/self/cgroup", "0::/a\n");
    put("sys/fs/cgroup/a/cpu.max", "200000 100000\n");
    cr_assert_geq(fault_loop("open", read_in_a_new_env, NULL), 4);
    cr_assert_geq(fault_loop("read", read_in_a_new_env, NULL), 4);
    cr_assert_geq(fault_loop("alloc", read_in_a_new_env, NULL), 2);
}

Test(base_machine, without_memory_there_is_no_answer_rather_than_a_wrong_one)
{
    char padding[200001];
    memset(padding, '\n', sizeof padding - 1);
    padding[sizeof padding - 1] = 0;
    put("proc/self/cgroup", padding);
    int runs = 0;
    for (bool hit = true; hit; runs += hit) {
        Err err;
        fault_arm("alloc", runs + 1, false, ENOMEM);
        bool ok = read_in_a_new_env(NULL, &err);
        hit = fault_hits() > 0;
        fault_disarm();
        cr_assert(ok != hit && (ok || err.code == E_NOMEM));
    }
    cr_assert_geq(runs, 3);
}
