/* machine_load.c - what this machine is doing at the moment: how much time a hypervisor gave to
 * others, how often a quota held us back, its load, one CPU's clock, its warmest sensor. What
 * was measured meanwhile is read with that in mind. Files may be absent, as clocks and sensors
 * are on virtual machines: then that is not known. */
#include "base/base_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ZONES = 64 };

/* The eighth number of the first line. */
int64_t machine_steal(Env *e, const char *root)
{
    const char *text = machine_file(e, root, "/proc/stat");
    long long v[8];
    bool known = text && sscanf(text, "cpu %lld %lld %lld %lld %lld %lld %lld %lld", &v[0],
                                &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7]) == 8;
    return known && v[7] >= 0 ? v[7] : -1;
}

/* A number at the beginning of text, NAN where there is none. */
static double number_at(const char *text)
{
    char *end;
    double v = text ? strtod(text, &end) : NAN;
    return text && end != text && isfinite(v) ? v : NAN;
}

static void read_load(Env *e, const char *root, double load[3])
{
    const char *text = machine_file(e, root, "/proc/loadavg");
    bool known = text && sscanf(text, "%lf %lf %lf", &load[0], &load[1], &load[2]) == 3;
    for (int i = 0; i < 3; i++) {
        load[i] = known && isfinite(load[i]) ? load[i] : NAN;
    }
}

/* The value of "name : value" in the part of /proc/cpuinfo that is of this CPU. */
static double cpuinfo_mhz(Env *e, const char *root, int cpu)
{
    const char *text = machine_file(e, root, "/proc/cpuinfo");
    for (const char *line = text; line; line = strchr(line, '\n')) {
        int at;
        line += *line == '\n';
        if (sscanf(line, "processor : %d", &at) == 1 && at == cpu) {
            const char *end = strstr(line, "\n\n"), *mhz = strstr(line, "cpu MHz");
            mhz = mhz && (!end || mhz < end) ? strchr(mhz, ':') : NULL;
            return mhz ? number_at(mhz + 1) : NAN;
        }
    }
    return NAN;
}

/* By the driver, which knows better than /proc/cpuinfo, where there is one: it says kHz. */
static double clock_mhz(Env *e, const char *root, int cpu)
{
    if (cpu < 0) {
        return NAN;
    }
    double khz = number_at(machine_file(
        e, root,
        arena_printf(&e->kernel, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq",
                     cpu)));
    double mhz = khz > 0 ? khz / 1000 : cpuinfo_mhz(e, root, cpu);
    return mhz > 0 ? mhz : NAN;
}

/* Thousandths of a degree; a zone that is off says something below the absolute zero. */
static double warmest(Env *e, const char *root)
{
    double most = NAN;
    for (int i = 0; i < MAX_ZONES; i++) {
        const char *text = machine_file(
            e, root, arena_printf(&e->kernel, "/sys/class/thermal/thermal_zone%d/temp", i));
        double celsius = number_at(text) / 1000;
        most = celsius > -273.15 && !(celsius <= most) ? celsius : most;
        if (!text && i > 0) {
            break;
        }
    }
    return most;
}

void machine_load(Env *e, const char *root, int cpu, MachineLoad *out)
{
    *out = (MachineLoad){.steal = machine_steal(e, root),
                         .throttled = machine_throttled(e, root),
                         .mhz = clock_mhz(e, root, cpu),
                         .celsius = warmest(e, root)};
    read_load(e, root, out->load);
}
