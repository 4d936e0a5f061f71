/* child_util.c - see child_util.h. */
#include "tests/child_util.h"
#include "tests/cli_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char prelude[] =
    "#define _GNU_SOURCE\n"
    "#include <fcntl.h>\n#include <math.h>\n#include <signal.h>\n#include <stdint.h>\n"
    "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/mman.h>\n"
    "#include <unistd.h>\n"
    "#define P void *const *p, const int64_t *syms, int part, int n_parts\n"
    "static int n_calls;\n"
    "static int32_t right(P)\n"
    "{\n"
    "    float *y = p[0];\n"
    "    const float *a = p[1], *b = p[2];\n"
    "    (void)n_parts, n_calls++;\n"
    "    for (int64_t m = 0; part == 0 && m < syms[0]; m++) {\n"
    "        for (int n = 0; n < 45; n++) {\n"
    "            float acc = 0;\n"
    "            for (int k = 0; k < 37; k++) {\n"
    "                acc = acc + a[m * 37 + k] * b[k + n * 37];\n"
    "            }\n"
    "            y[m * 45 + n] = acc;\n"
    "        }\n"
    "    }\n"
    "    return 0;\n"
    "}\n";

static void prepare(Env *e, void *arg)
{
    Lab *l = arg;
    toolchain_find(e, &l->w.tc);
    cache_open(e, &l->w.cache, NULL);
    l->naive = kernel_parse(e, l->task.kernel, strlen(l->task.kernel), "test.kernel");
}

void tame_sanitizers(Env *e)
{
    const char *had = getenv("ASAN_OPTIONS");
    setenv("ASAN_OPTIONS",
           arena_printf(&e->model,
                        "%s:detect_leaks=0:handle_segv=0:handle_abort=0:handle_sigill=0:"
                        "handle_sigbus=0:handle_sigfpe=0",
                        had ? had : ""),
           1);
}

void lab_init(Lab *l, const char *kernel_text)
{
    memset(l, 0, sizeof *l);
    workshop_init(&l->w);
    tame_sanitizers(&l->w.e);
    use_test_cache(); /* one for all: finding the compiler takes a second */
    l->children.program = built_program(&l->w.e, "tune");
    l->children.ring_limit_bytes = 4 << 20;
    l->runner = child_runner(&l->children);
    l->task = (Task){.kernel = kernel_text, .n_syms = 1, .sym = {12}, .n_threads = 1};
    must_work(&l->w.e, prepare, l);
    l->task.n_syms = l->naive->n_syms;
    l->a = lab_build(l, "");
    l->job = (ProcessJob){.task = &l->task,
                          .a = &l->a,
                          .b = &l->b,
                          .stage = DUEL_TITLE,
                          .n_pairs = 5,
                          .verify = true,
                          .seed = 7,
                          .limit_ns = 60000000000};
}

void lab_release(Lab *l)
{
    children_release(&l->children);
    workshop_release(&l->w);
}

typedef struct Making {
    Lab *l;
    Schedule s;
    Attempt made;
} Making;

static void make(Env *e, void *arg)
{
    Making *m = arg;
    candidates_build(e, &e->model, &m->l->w.cache, &m->l->w.tc, m->l->naive, &m->s, 1, 1,
                     &m->made);
}

Built lab_build(Lab *l, const char *schedule)
{
    Making m = {.l = l};
    Err err;
    cr_assert(schedule_parse(schedule, &m.s, &err), "%s", err.text);
    must_work(&l->w.e, make, &m);
    cr_assert_eq(m.made.status, STATUS_OK, "%s", m.made.why);
    return m.made.built;
}

Built lab_hostile(Lab *l, const char *text)
{
    static int n;
    Env *e = &l->w.e;
    const Toolchain *tc = &l->w.tc;
    const char *c = arena_printf(&e->model, "%s/hostile-%d.c", l->w.dir.path, n);
    const char *so = arena_printf(&e->model, "%s/hostile-%d.so", l->w.dir.path, n++);
    write_text(c, arena_printf(&e->model, "%s%s", prelude, text));
    char *argv[64],
        *rest[] = {"-fno-builtin-malloc", "-shared", "-o", (char *)so, (char *)c, "-lm", NULL};
    int at = 0, status;
    for (int i = 0; i < tc->n_argv; i++) {
        argv[at++] = tc->argv[i];
    }
    for (int i = 0; i < tc->n_flags; i++) {
        argv[at++] = (char *)tc->flags[i];
    }
    memcpy(argv + at, rest, sizeof rest);
    Buf out;
    Err err;
    buf_init(&out, &e->model);
    cr_assert(os_run(argv, tc->env, 60000, 65536, &out, &status, &err), "%s", err.text);
    cr_assert_eq(status, 0, "%s", out.at);
    return (Built){.schedule = "", .library = so, .symbol = "candidate"};
}

static int n_mappings(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    int n = 0;
    cr_assert(f);
    while (fgets(line, sizeof line, f)) {
        n += strstr(line, "nanocompile (deleted)") != NULL;
    }
    fclose(f);
    return n;
}

const ProcessResult *lab_run_on(Lab *l)
{
    l->runner.process(l->runner.ctx, &l->w.e, &l->w.e.model, &l->job, &l->result);
    return &l->result;
}

const ProcessResult *lab_run(Lab *l)
{
    int before = open_descriptors();
    lab_run_on(l);
    children_release(&l->children);
    cr_expect_eq(open_descriptors(), before, "a descriptor is left");
    cr_expect_eq(n_mappings(), 0, "a mapping is left");
    cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a process is left");
    return &l->result;
}

void lab_keeps(Lab *l)
{
    l->job.stage = DUEL_SEARCH;
    l->task.regime = REGIME_COLD;
}

static void expect_refused(const ProcessResult *r, Status s, const char *words)
{
    cr_expect_eq(r->status, s, "status %d: %s", (int)r->status, r->why);
    cr_expect(!words || strstr(r->why, words), "no '%s' in: %s", words, r->why);
    cr_expect_eq(r->n_pairs, 0);
    cr_expect_gt(r->took_ns, 0);
}

void lab_refuses(Lab *l, const char *text, Status s, const char *words)
{
    l->b = lab_hostile(l, text);
    expect_refused(lab_run(l), s, words);
    lab_keeps(l);
    expect_refused(lab_run(l), s, words);
    cr_expect_eq(l->children.keeper.n_asked, 1, "was not forked from a keeper");
}

/* ---- what tests of processes and of keepers share ------------------------------------- */

bool lab_run_once(void *lab, Err *err)
{
    Lab *l = lab;
    Env own;
    env_init(&own);
    l->runner.process(l->runner.ctx, &own, &own.model, &l->job, &l->result);
    env_release(&own);
    children_release(&l->children);
    l->children.keeper.hopeless = false;
    return l->result.status == STATUS_OK || err_set(err, E_IO, "%s", l->result.why);
}

void lab_word_is_hidden(Lab *l, const char *word, const char *const *argument)
{
    char *argv[] = {(char *)l->children.program, (char *)word,        (char *)argument[0],
                    (char *)argument[1],         (char *)argument[2], NULL};
    Buf out;
    int status;
    Err err;
    buf_init(&out, &l->w.e.model);
    cr_assert(os_run(argv, NULL, 10000, 4096, &out, &status, &err), "%s", err.text);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 3, "%s", out.at);
    cr_expect(strchr(out.at, '\n') == out.at + out.len - 1, "one sentence: %s", out.at);
}

static bool is_gone(int pid)
{
    char path[64], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    bool gone = !f || fscanf(f, "%*d (%*[^)]) %c", &state) != 1 || state == 'Z' || state == 'X';
    if (f) {
        fclose(f);
    }
    return gone;
}

bool process_goes(int pid)
{
    for (int i = 0; i < 500 && !is_gone(pid); i++) {
        usleep(10000);
    }
    return is_gone(pid);
}
