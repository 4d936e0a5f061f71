/* place_util.c - see place_util.h. */
#include "tests/place_util.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOBODY = 65534 };

void drop_root(void)
{
    if (geteuid() == 0 && setresuid(NOBODY, NOBODY, 0)) {
        cr_skip_test("this process may not become another user");
    }
}

void regain_root(void)
{
    if (getuid() == NOBODY) {
        cr_assert_eq(setresuid(0, 0, 0), 0);
    }
}

bool mounted_at(const char *path, unsigned long flags, const char *options)
{
    return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
           !mkdir(path, 0777) && !mount("tmpfs", path, "tmpfs", flags, options);
}

void mount_at(const char *path, unsigned long flags, const char *options)
{
    if (!mounted_at(path, flags, options)) {
        cr_skip_test("file systems cannot be mounted here");
    }
}

void unmount(const char *path)
{
    umount2(path, MNT_DETACH);
}

char *noise_bytes(Arena *m, size_t n, uint64_t seed)
{
    char *noise = arena_array(m, char, n);
    Rng r;
    rng_seed(&r, seed);
    for (size_t i = 0; i < n; i++) {
        noise[i] = (char)rng_u64(&r);
    }
    return noise;
}

void stays_as_it_is(Env *e, const char *path, const char *bytes, size_t n,
                    void (*meets)(const char *words), const char *words)
{
    char *now, folder[PATH_MAX];
    size_t n_now;
    FILE *f = fopen(path, "w");
    cr_assert(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    meets(words);
    cr_assert(os_read_file(&e->model, path, 1 << 24, &now, &n_now, NULL));
    cr_expect(n_now == n && !memcmp(now, bytes, n), "the file was changed");
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    cr_expect_eq(folder_entries(folder), 1, "something was left beside it");
}
