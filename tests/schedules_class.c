/* schedules_class.c - which class a nest is taken for, whatever the kernel is called; and the
 * layers below, which must not know that there are classes at all. */
#include "tests/env_fixture.h"
#include "tests/schedules_util.h"

#include <ctype.h>
#include <dirent.h>
#include <string.h>

TestSuite(schedules_class, .init = start, .fini = stop, .timeout = 120);

static const char *class_of(const char *ncg)
{
    return class_name(kernel_class(&env, kernel_of_graph(&env, ncg)));
}

Test(schedules_class, by_the_look_of_the_nest)
{
    static const struct {
        const char *graph, *class;
    } cases[] = {
        {"graph g\nx = input f32[seq, 8]\nw = weight f32[8, 9]\ny = matmul x, w\nreturn y=y\n",
         "contraction"},
        {"graph g\nx = input f32[3, seq, 8]\nw = input f32[3, 8, past]\ny = matmul x, "
         "w\nreturn y=y\n",
         "contraction"},
        {"graph g\nx = input f32[seq, 8]\ny = reduce_sum x axis=-1\nreturn y=y\n", "row"},
        {"graph g\nx = input f32[seq, 8]\nq = mul x, x\ny = reduce_sum q axis=-1\nreturn y=y\n",
         "row"},
        {"graph g\nx = input f32[seq, 8]\ny = reduce_max x axis=0\nreturn y=y\n", "row"},
        {"graph g\nx = input f32[seq, 8]\ny = exp x\nreturn y=y\n", "elementwise"},
        {"graph g\nx = input f32[seq, 8]\nz = input f32[past, 8]\ny = concat x, z "
         "axis=0\nreturn y=y\n",
         "elementwise"},
        {"graph g\nt = weight f32[5, 8]\ni = input i64[seq]\ny = gather t, i\nreturn y=y\n",
         "gather"},
        {"graph g\nx = input f32[0, 8]\ny = exp x\nreturn y=y\n", "other"},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        cr_expect_str_eq(class_of(cases[i].graph), cases[i].class, "%s", cases[i].graph);
    }
}

/* A product spelt with elementwise operations and a sum is the same nest as a matmul. */
Test(schedules_class, a_contraction_without_matmul)
{
    cr_expect_str_eq(
        class_of(
            "graph g\nx = input f32[seq, 8]\nw = weight f32[9, 8]\nxr = reshape x shape=[seq, "
            "1, 8]\n"
            "wr = reshape w shape=[1, 9, 8]\nxb = broadcast xr shape=[seq, 9, 8]\n"
            "wb = broadcast wr shape=[seq, 9, 8]\np = mul xb, wb\ny = reduce_sum p axis=-1\n"
            "return y=y\n"),
        "contraction");
}

static void count_classes(Env *e, void *arg)
{
    int *n = arg;
    const Program *p = compiled(e, model_graph(e, size_05b, true), 0, NULL);
    for (int i = 0; i < p->kernel.n; i++) {
        n[kernel_class(e, p->kernel.at[i])]++;
    }
}

Test(schedules_class, of_the_model)
{
    int n[N_KERNEL_CLASSES] = {0};
    must_work(&env, count_classes, n);
    cr_expect_eq(n[CLASS_CONTRACTION], 10);
    cr_expect_eq(n[CLASS_ROW], 3);
    cr_expect_eq(n[CLASS_ELEMENTWISE], 6);
    cr_expect_eq(n[CLASS_GATHER], 1);
    cr_expect_eq(n[CLASS_OTHER], 0);
}

/* ---- mechanism knows no class ---- */

/* Comments may explain; code and strings may not name. */
static void blank_comments(char *s)
{
    bool inside = false;
    for (; *s; s++) {
        bool ends = inside && s[0] == '*' && s[1] == '/';
        inside = inside || (s[0] == '/' && s[1] == '*');
        if (inside && *s != '\n') {
            *s = ' ';
        }
        if (ends) {
            *++s = ' ';
            inside = false;
        }
    }
}

/* The word stands there, not as a part of a longer one; an underscore parts words. */
static bool has_word(const char *text, const char *word)
{
    size_t len = strlen(word);
    for (const char *s = text; (s = strcasestr(s, word)); s++) {
        if ((s == text || !isalpha((unsigned char)s[-1])) && !isalpha((unsigned char)s[len])) {
            return true;
        }
    }
    return false;
}

static void expect_no_class_names(const char *path)
{
    static const char *const words[] = {
        "matmul", "gemm", "gemv",      "softmax",     "rms",         "norm",   "swiglu",
        "silu",   "rope", "attention", "contraction", "elementwise", "gather", "qwen"};
    char *text = read_text(&env, path);
    blank_comments(text);
    for (size_t i = 0; i < countof(words); i++) {
        cr_expect(!has_word(text, words[i]), "%s names %s", path, words[i]);
    }
}

Test(schedules_class, loops_and_emission_name_none)
{
    static const char *const folders[] = {"compiler/loop", "compiler/emit"};
    int n_files = 0;
    for (size_t i = 0; i < countof(folders); i++) {
        DIR *dir = opendir(folders[i]);
        cr_assert(dir, "run from the top of the source tree");
        for (struct dirent *d; (d = readdir(dir));) {
            if (d->d_name[0] != '.') {
                expect_no_class_names(arena_printf(&env.model, "%s/%s", folders[i], d->d_name));
                n_files++;
            }
        }
        closedir(dir);
    }
    cr_expect_gt(n_files, 20);
}
