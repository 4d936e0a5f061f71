/* model_regress.c - every input in tests/regress that a fuzzer of model files found, or
 * starts from, is read or refused in one sentence that begins with the file's name; and the
 * inputs to start from do get through. */
#include "model/model.h"
#include "tests/helpers.h"

#include <dirent.h>
#include <string.h>

typedef struct Input {
    const char *text;
    size_t len;
} Input;

static void read_config(Env *e, void *arg)
{
    const Input *in = arg;
    config_parse(e, in->text, in->len, "in");
}

static void read_tensors(Env *e, void *arg)
{
    const Input *in = arg;
    FileTensors list;
    safetensors_parse(e, (const uint8_t *)in->text, in->len, "in", &list);
}

static void read_generation(Env *e, void *arg)
{
    const Input *in = arg;
    generation_parse(e, in->text, in->len, "in");
}

/* Reads every file of a folder; returns how many were accepted. */
static int read_all(const char *folder, void (*body)(Env *e, void *arg))
{
    int n_accepted = 0;
    DIR *dir = opendir(folder);
    cr_assert(dir, "no folder %s", folder);
    for (struct dirent *d; (d = readdir(dir));) {
        Env e;
        Err err;
        Input in;
        char *text;
        env_init(&e);
        if (d->d_name[0] != '.') {
            const char *path = arena_printf(&e.model, "%s/%s", folder, d->d_name);
            cr_assert(os_read_file(&e.model, path, 1u << 24, &text, &in.len, &err), "%s",
                      err.text);
            in.text = text;
            bool ok = env_try(&e, body, &in);
            n_accepted += ok;
            cr_expect(ok || !strncmp(e.err.text, "in", 2), "%s: %s", path, e.err.text);
            cr_expect(ok || !strchr(e.err.text, '\n'), "%s: %s", path, e.err.text);
        }
        env_release(&e);
    }
    closedir(dir);
    return n_accepted;
}

Test(model_regress, configs)
{
    cr_expect_geq(read_all("tests/regress/config", read_config), 2);
}

Test(model_regress, headers)
{
    cr_expect_geq(read_all("tests/regress/safetensors", read_tensors), 2);
}

Test(model_regress, generation_configs)
{
    cr_expect_geq(read_all("tests/regress/folder", read_generation), 1);
}
