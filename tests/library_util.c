/* library_util.c - see library_util.h. */
#include "tests/library_util.h"

#include "tests/db_util.h"
#include "tests/schedule_util.h"
#include "tuner/evidence.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void tables_body(Env *e, void *arg)
{
    TestLibrary *l = arg;
    TestModel *m = l->m;
    Machine machine;
    machine_read(e, "", &machine);
    toolchain_find(e, &l->tc);
    LibraryOptions o = {.dir = m->dir,
                        .config = &m->c,
                        .file = &m->w.file,
                        .context = l->context,
                        .n_threads = 2,
                        .n_jobs = 2,
                        .picker = l->picker,
                        .hint = hint_of_machine(&machine, 2),
                        .tc = &l->tc,
                        .f32 = l->f32,
                        .at_usual_sizes = l->bucket != NULL,
                        .bucket = l->bucket,
                        .n_buckets = l->n_buckets};
    o.hint.in_place = !l->panels;
    model_library_compile(e, &o, &l->made);
}

static void make_body(Env *e, void *arg)
{
    TestLibrary *l = arg;
    tables_body(e, l);
    model_library_build(e, &l->made);
}

static void open_body(Env *e, void *arg)
{
    TestLibrary *l = arg;
    built_model_load(e, &l->built, l->made.path);
    built_model_open(e, &l->built, &l->options);
}

void library_make_test(TestLibrary *l, TestModel *m)
{
    l->m = m;
    must_work(&m->e, make_body, l);
}

void library_open_test(TestLibrary *l, TestModel *m)
{
    library_make_test(l, m);
    must_work(&m->e, open_body, l);
}

void library_tables_test(TestLibrary *l, TestModel *m)
{
    l->m = m;
    must_work(&m->e, tables_body, l);
}

void library_record_winner(TestLibrary *l, const char *db, int part, int call,
                           const char *schedule, bool same_c)
{
    Env *e = &l->m->e;
    const Program *p = l->made.parts.part[part].program;
    const Kernel *k = p->kernel.at[p->call.at[call].kernel];
    Machine m;
    DbMachine machine;
    DbToolchain toolchain = toolchain_row(&e->model, &l->tc);
    Story s = story();
    machine_read(e, "", &m);
    db_machine_here(e, &e->model, "", &m, &machine);
    s.kernel = k->text;
    s.machine = &machine, s.toolchain = &toolchain;
    s.schedule = schedule;
    s.seed = 1 + (uint64_t)call; /* a run of its own */
    s.c_hash = emit_hash(e, kernel_under(e, k, schedule), l->tc.target);
    s.c_hash.lo ^= !same_c;
    Db *opened = open_db(e, db, DB_WRITE);
    tell(opened, &s);
    db_close(opened);
}

static void load_body(Env *e, void *arg)
{
    TestLibrary *l = arg;
    built_model_load(e, &l->built, l->made.path);
}

void library_load_test(TestLibrary *l)
{
    must_work(&l->m->e, load_body, l);
}

NcTables library_tables(TestLibrary *l)
{
    const LibraryText *text = &l->made.text;
    NcTables t = *text->tables;
    Arena *m = &l->m->e.model;
    NcPanel *panel = arena_dup(m, t.panel, (size_t)t.n_panels * sizeof *panel);
    const void **fixed = arena_array(m, const void *, text->n_fixed);
    library_load_test(l);
    for (int i = 0; i < t.n_panels; i++) {
        panel[i].fill = (PackFn)dlsym(l->built.handle, text->fill[i]);
        cr_assert(panel[i].fill, "%s is missing", text->fill[i]);
    }
    for (int i = 0; i < text->n_fixed; i++) {
        fixed[i] = text->fixed[i]->value;
    }
    t.panel = panel;
    t.fixed = fixed;
    return t;
}

const float *library_feed(TestLibrary *l, const int32_t *ids, int n, bool all)
{
    Stepper *s = &l->built.stepper;
    const float *logits;
    Err err;
    cr_assert(s->feed(s, ids, n, all, &logits, &err), "%s", err.text);
    return logits;
}

typedef struct Writing {
    const TestLibrary *l;
    const char *dir;
} Writing;

static void write_body(Env *e, void *arg)
{
    const Writing *w = arg;
    model_library_write(e, &w->l->made, w->dir);
}

void library_write_test(TestLibrary *l, const char *dir)
{
    must_work(&l->m->e, write_body, &(Writing){l, dir});
}

const char *shell(Env *e, int *status, const char *fmt, ...)
{
    va_list ap;
    char command[4096];
    char *argv[] = {"/bin/sh", "-c", command, NULL};
    Buf said;
    Err err;
    va_start(ap, fmt);
    int n = vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    cr_assert_lt(n, (int)sizeof command);
    buf_init(&said, &e->model);
    cr_assert(os_run(argv, NULL, 600000, 1 << 20, &said, status, &err), "%s", err.text);
    return said.len ? said.at : "";
}

void library_compile_folder(Env *e, const char *dir, const char *out, const char *more)
{
    static const char usual[] = "-shared -o model.so";
    char *line = read_text(e, arena_printf(&e->model, "%s/cc.txt", dir));
    char *at = strstr(line, usual);
    int status;
    cr_assert(at, "%s", line);
    at += strlen(usual);
    const char *said = shell(e, &status, "cd %s && rm -f model.so && %.*s %s %.*s %s", dir,
                             (int)(at - line - (ptrdiff_t)strlen(usual)), line,
                             out ? out : usual, (int)strcspn(at, "\n"), at, more);
    cr_assert_eq(status, 0, "%s", said);
    cr_assert_eq(strlen(said), 0, "the compiler said: %s", said);
}
