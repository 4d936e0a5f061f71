/* schedules_file.c - .sched files come back as they were, or not at all; and the picker over
 * their rows says what it took and why not. */
#include "tests/env_fixture.h"
#include "tests/schedules_util.h"

#include <string.h>

TestSuite(schedules_file, .init = start, .fini = stop, .timeout = 120);

#define KEY "0123456789abcdef0123456789abcdef"
#define CHASH "fedcba9876543210fedcba9876543210"
#define HEADER "nanocompile schedules 1 zen gcc-12\n"
#define ROW KEY " s0=1..64,s1=* => split n 32 pad; vec n.i; fma; par n.o ; " CHASH "\n"
#define TEXT                                                                           \
    HEADER "# found overnight\n" ROW KEY " * => ; -\n\n" KEY " s0=16.. => par i ; -\n" \
           "end 3\n"

typedef struct Load {
    const char *text;
    size_t len;
    const char *signature;
    SchedFile out;
} Load;

static void load(Env *e, void *arg)
{
    Load *l = arg;
    sched_parse(e, l->text, l->len, "x.sched", l->signature, &l->out);
}

static SchedFile loaded(const char *text)
{
    Load l = {text, strlen(text), NULL, {0}};
    must_work(&env, load, &l);
    return l.out;
}

Test(schedules_file, rows_are_read)
{
    SchedFile f = loaded(TEXT);
    cr_assert_eq(f.row.n, 3);
    cr_expect_str_eq(f.signature, "zen gcc-12");
    const TunedRow *r = &f.row.at[0];
    cr_expect_eq(r->key.hi, 0x0123456789abcdef);
    cr_expect_eq(r->c_hash.lo, 0xfedcba9876543210);
    cr_expect_eq(r->n_ranges, 2);
    cr_expect_eq(r->range[0].least, 1);
    cr_expect_eq(r->range[0].most, 64);
    cr_expect_eq(r->range[1].least, 0);
    cr_expect_eq(r->range[1].most, INT64_MAX);
    cr_expect_eq(r->schedule.n, 4);
    cr_expect_eq(f.row.at[1].schedule.n, 0);
    cr_expect_eq(f.row.at[1].n_ranges, 0);
    cr_expect_eq(f.row.at[2].range[0].least, 16);
    cr_expect_eq(f.row.at[2].range[0].most, INT64_MAX);
}

Test(schedules_file, printing_and_reading_are_inverse)
{
    SchedFile f = loaded(TEXT);
    Buf once, twice;
    buf_init(&once, &env.model);
    buf_init(&twice, &env.model);
    sched_print(&f, &once);
    SchedFile g = loaded(once.at);
    sched_print(&g, &twice);
    cr_expect_str_eq(once.at, twice.at);
    cr_assert_eq(f.row.n, g.row.n);
    for (int i = 0; i < f.row.n; i++) {
        cr_expect(schedule_eq(&f.row.at[i].schedule, &g.row.at[i].schedule));
        cr_expect(hash_eq(f.row.at[i].c_hash, g.row.at[i].c_hash));
        cr_expect_eq(f.row.at[i].n_ranges, g.row.at[i].n_ranges);
        cr_expect_arr_eq(f.row.at[i].range, g.row.at[i].range, sizeof f.row.at[i].range);
    }
}

Test(schedules_file, a_file_cut_at_any_byte_is_refused)
{
    for (size_t len = 0; len < strlen(TEXT); len++) {
        Load l = {TEXT, len, NULL, {0}};
        must_fail(&env, load, &l, E_SYNTAX, "x.sched:");
        cr_assert_eq(l.out.row.n, 0);
    }
}

Test(schedules_file, bad_lines_are_named)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "x.sched:1: the file ends without its closing line."},
        {"hello\n", "x.sched:1: this is no schedule file of version 1."},
        {"nanocompile schedules 2 zen\nend 0\n",
         "x.sched:1: this is no schedule file of version 1."},
        {HEADER "end 1\n", "x.sched:2: the closing line counts other rows than there are."},
        {HEADER "end 0x\n", "x.sched:2: the closing line counts other rows than there are."},
        {HEADER "end 0\nmore\n", "x.sched:3: there is text behind the closing line."},
        {HEADER "abc\nend 1\n", "x.sched:2: a row is 'KEY SIZES => STEPS ; C-HASH'."},
        {HEADER KEY " * => fma\nend 1\n", "x.sched:2: a row is 'KEY SIZES => STEPS ; C-HASH'."},
        {HEADER "12 * => fma ; -\nend 1\n", "x.sched:2: the key is not 32 hexadecimal digits."},
        {HEADER KEY "0 * => fma ; -\nend 1\n",
         "x.sched:2: the key is not 32 hexadecimal digits."},
        {HEADER KEY " s1=* => fma ; -\nend 1\n", "x.sched:2: sizes are * or like s0=1..64"},
        {HEADER KEY " s0=5..4 => fma ; -\nend 1\n", "x.sched:2: sizes are * or like s0=1..64"},
        {HEADER KEY " s0=1..99999999999999999999 => fma ; -\nend 1\n",
         "x.sched:2: sizes are * or like s0=1..64"},
        {HEADER KEY " s0=1..2, => fma ; -\nend 1\n", "x.sched:2: sizes are * or like s0=1..64"},
        {HEADER KEY " * => fma ; 12\nend 1\n",
         "x.sched:2: the hash of the C is neither - nor 32 hexadecimal digits."},
        {HEADER KEY " * => flip n ; -\nend 1\n",
         "x.sched:2: there is no schedule step 'flip'."},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        Load l = {cases[i].text, strlen(cases[i].text), NULL, {0}};
        must_fail(&env, load, &l, E_SYNTAX, cases[i].words);
    }
    Load nul = {HEADER "a\0b\nend 1\n", sizeof HEADER "a\0b\nend 1\n" - 1, NULL, {0}};
    must_fail(&env, load, &nul, E_SYNTAX, "x.sched:2: the line holds a NUL byte.");
}

Test(schedules_file, made_for_another_machine)
{
    Load l = {TEXT, strlen(TEXT), "zen gcc-12", {0}};
    must_work(&env, load, &l);
    l.signature = "skylake gcc-12";
    must_fail(&env, load, &l, E_INPUT,
              "x.sched:1: the schedules were found on 'zen gcc-12', not on 'skylake gcc-12'.");
}

/* ---- the picker ---- */

typedef struct Told {
    PickOutcome o;
    char why[256];
    int n;
} Told;

static void note(void *ctx, const Kernel *k, PickOutcome o, const TunedRow *row,
                 const char *why)
{
    Told *t = ctx;
    (void)k;
    cr_expect_eq(row == NULL, o == PICK_MISS);
    t->o = o;
    t->n++;
    snprintf(t->why, sizeof t->why, "%s", why ? why : "");
}

static const Kernel *small_matmul(void)
{
    return kernel_of_graph(
        &env,
        "graph g\nx = input f32[seq, 37]\nw = weight f32[45, 37]\nt = permute w perm=[1, 0]\n"
        "y = matmul x, t\nreturn y=y\n");
}

static Schedule steps(const char *text)
{
    Schedule s;
    Err err;
    cr_assert(schedule_parse(text, &s, &err), "%s", err.text);
    return s;
}

static PickOutcome picked(const TunedRow *row, const Kernel *k, int64_t rows, Schedule *out,
                          Told *told)
{
    Tuned t = {row, 1, note, told};
    Picker p = picker_tuned(&t);
    PickHint hint = hint_at(target_named("avx2"), 2, rows);
    p.pick(p.ctx, &env, k, &hint, out);
    cr_expect_gt(told->n, 0);
    return told->o;
}

Test(schedules_file, the_picker_takes_what_fits_and_says_why_not)
{
    const Kernel *k = small_matmul();
    PickHint hint = hint_at(target_named("avx2"), 2, 5);
    Schedule tuned = steps("split n 8 peel; par m"), out, by_default;
    Told told = {.n = 0};
    Err err;
    TunedRow row = {
        .key = k->hash, .text = k->text, .n_ranges = 1, .range = {{1, 8}}, .schedule = tuned};
    schedule_default(&env, k, &hint, &by_default);

    cr_expect_eq(picked(&row, k, 5, &out, &told), PICK_HIT);
    cr_expect(schedule_eq(&out, &tuned));
    const Kernel *scheduled = kernel_schedule(&env, &env.model, k, &tuned, tuned.n, &err);
    row.c_hash = emit_hash(&env, scheduled, hint.target);
    cr_expect_eq(picked(&row, k, 5, &out, &told), PICK_HIT);

    row.c_hash.lo ^= 1;
    cr_expect_eq(picked(&row, k, 5, &out, &told), PICK_STALE);
    cr_expect_str_eq(told.why,
                     "the C that this schedule gives is not the C that was measured.");
    cr_expect(schedule_eq(&out, &by_default));

    row.schedule = steps("par n");
    cr_expect_eq(picked(&row, k, 5, &out, &told), PICK_REFUSED);
    cr_expect_str_eq(told.why, "par n: axis n is not the outermost loop.");
    cr_expect(schedule_eq(&out, &by_default));
}

Test(schedules_file, the_picker_misses_other_sizes_and_other_kernels)
{
    const Kernel *k = small_matmul();
    Schedule out;
    Told told = {.n = 0};
    TunedRow row = {
        .key = k->hash, .n_ranges = 1, .range = {{1, 8}}, .schedule = steps("par m")};
    cr_expect_eq(picked(&row, k, 8, &out, &told), PICK_HIT);
    cr_expect_eq(picked(&row, k, 9, &out, &told), PICK_MISS);
    cr_expect_eq(picked(&row, k, 0, &out, &told), PICK_MISS);
    cr_expect_eq(picked(&row, k, -1, &out, &told), PICK_MISS);
    row.range[0] = (SymRange){0, INT64_MAX};
    cr_expect_eq(picked(&row, k, -1, &out, &told), PICK_HIT);
    row.text = "another text with the same hash";
    cr_expect_eq(picked(&row, k, 5, &out, &told), PICK_MISS);
    row.text = NULL;
    row.key.hi ^= 1;
    cr_expect_eq(picked(&row, k, 5, &out, &told), PICK_MISS);
}
