/* helpers.c - see helpers.h. Plain libc calls, not the os table: a test that makes the table
 * fail still has to tidy up. */
#include "tests/helpers.h"

#include <dirent.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In the build folder, which another working folder does not move. */
static void set_folder(const char *variable, const char *name)
{
    char build[PATH_MAX], path[PATH_MAX + 16];
    const char *given = getenv("NC_BUILD");
    if (!realpath(given ? given : "build/release", build)) {
        snprintf(build, sizeof build, "/tmp/nanocompile");
    }
    snprintf(path, sizeof path, "%s/%s", build, name);
    setenv(variable, path, 1);
}

void use_test_cache(void)
{
    set_folder("NANOCOMPILE_CACHE", "test-cache");
}

/* So it holds in every process of the tests, and for all that they start. */
static void __attribute__((constructor)) before_main(void)
{
    if (!getenv("NANOCOMPILE_CACHE")) {
        use_test_cache();
    }
    set_folder("XDG_DATA_HOME", "test-data");
    setenv("NANOCOMPILE_DB", "no/such.db", 1);
}

TempDir temp_dir(void)
{
    TempDir d;
    const char *base = getenv("TMPDIR");
    bool usable = base && *base && strlen(base) < sizeof d.path - 16;
    snprintf(d.path, sizeof d.path, "%s/nc-test-XXXXXX", usable ? base : "/tmp");
    cr_assert(mkdtemp(d.path), "no temporary folder %s", d.path);
    return d;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

void temp_remove(const TempDir *d)
{
    nftw(d->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *temp_path(const TempDir *d, const char *name)
{
    static char buffer[4][PATH_MAX];
    static unsigned next;
    char *out = buffer[next++ % countof(buffer)];
    snprintf(out, PATH_MAX, "%s/%s", d->path, name);
    return out;
}

int folder_entries(const char *path)
{
    DIR *dir = opendir(path);
    if (!dir) {
        return -1;
    }
    int n = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(dir);
    return n;
}

void write_text(const char *path, const char *text)
{
    Err err;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash && slash != folder) {
        *slash = 0;
        cr_assert(os_mkdirs(folder, &err), "%s", err.text);
    }
    FILE *f = fopen(path, "wb");
    cr_assert(f, "cannot make %s", path);
    size_t len = strlen(text);
    size_t written = fwrite(text, 1, len, f);
    cr_assert(fclose(f) == 0 && written == len, "cannot write %s", path);
}

char *read_text(Env *e, const char *path)
{
    Err err;
    char *text;
    size_t len;
    cr_assert(os_read_file(&e->model, path, 1u << 30, &text, &len, &err), "%s", err.text);
    return text;
}

bool shared_path(const char *rel, char out[PATH_MAX])
{
    const char *base = getenv("NC_SHARED");
    snprintf(out, PATH_MAX, "%s/%s", base && *base ? base : "../shared", rel);
    return access(out, R_OK) == 0;
}

void must_work(Env *e, void (*body)(Env *e, void *arg), void *arg)
{
    cr_assert(env_try(e, body, arg), "failed: %s", e->err.text);
}

void must_fail(Env *e, void (*body)(Env *e, void *arg), void *arg, ErrCode code,
               const char *words)
{
    cr_assert_not(env_try(e, body, arg), "it did not fail; expected \"%s\"", words);
    cr_assert_eq(e->err.code, code, "%s instead of %s: %s", err_name(e->err.code),
                 err_name(code), e->err.text);
    cr_assert(strstr(e->err.text, words), "\"%s\" is not in \"%s\"", words, e->err.text);
}

Dim dim_of(Env *e, const char *text)
{
    const char *s = text;
    Dim d = dim_parse(e, &s, "test");
    cr_assert_eq(*s, 0, "\"%s\" is not read to its end", text);
    return d;
}

void fill_normal(float *p, size_t n, uint64_t seed)
{
    Rng r;
    rng_seed(&r, seed);
    for (size_t i = 0; i < n; i++) {
        p[i] = (float)rng_normal(&r);
    }
}

int how_often(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part)) {
        n++;
    }
    return n;
}

int open_descriptors(void)
{
    return folder_entries("/proc/self/fd");
}
