/* loop_text.c - kernel text: printed and read back, comments and free form allowed, and one
 * message for every way in which it can be malformed. */
#include "tests/compile_util.h"
#include "tests/loop_util.h"

#include <string.h>

Test(loop_text, canonical_text_reads_back_to_itself)
{
    static const char *const texts[] = {matmul_text, softmax_text, gather_text, concat_text};
    Env e;
    env_init(&e);
    for (size_t i = 0; i < countof(texts); i++) {
        cr_expect_str_eq(kernel_of(&e, texts[i])->text, texts[i]);
    }
    env_release(&e);
}

Test(loop_text, form_is_free_and_comments_are_left_out)
{
    Env e;
    env_init(&e);
    Kernel *k =
        kernel_of(&e, "\n# written by hand\n  kernel matmul # its kind\r\n\n y : f32 [ s3*5 ]\n"
                      "a: f32[7*s3]\nb: const f32[30 + 5]\naxis m space s3\n"
                      "axis n space 5\naxis k reduce 7\nphase m n k\n\tacc0: f32 = 0.0 ->"
                      "acc0+a[m * 7+k]*b[(n*7) + k]\ny[m*5+n]=(acc0)");
    char *expected = arena_str(&e.model, matmul_text);
    memcpy(strstr(expected, "a: f32[s0*7]"), "a: f32[7*s0]", 12);
    cr_assert_str_eq(k->text, expected);
    env_release(&e);
}

Test(loop_text, lets_before_the_accumulators_are_inside_the_reduction)
{
    Env e;
    env_init(&e);
    Kernel *k = kernel_of(&e, "kernel row\ny: f32[s0]\nx0: f32[s0*4]\naxis i space s0\n"
                              "axis r reduce 4\nphase i r\nt0: f32 = x0[i*4 + r]\n"
                              "acc0: f32 = 0.0f -> acc0 + t0\nt1: f32 = acc0 / 4.0f\n"
                              "fail 3 if t1 != t1\ny[i] = t1\n");
    const Phase *p = &k->nest.phase.at[0];
    cr_assert_eq(p->body.n, 1);
    cr_assert_eq(p->acc.n, 1);
    cr_assert_eq(p->finish.n, 3);
    cr_expect_eq(p->finish.at[1].kind, STMT_FAIL);
    cr_expect_eq(p->finish.at[1].code, 3);
    env_release(&e);
}

Test(loop_text, an_axis_may_be_called_like_a_dtype)
{
    static const char text[] = "kernel copy\ny: i8[4]\nx0: f32[4]\naxis i8 space 4\nphase i8\n"
                               "    y[i8] = i8(x0[i8] + f32(i8))\n";
    Env e;
    env_init(&e);
    cr_expect_str_eq(kernel_of(&e, text)->text, text);
    env_release(&e);
}

/* ---- malformed text ---- */

#define HEAD "kernel k\ny: f32[s0]\nx0: f32[s0]\nid: i64[s0]\n"
#define AXES HEAD "axis i space s0\naxis r reduce 4\n"
#define PHASE HEAD "axis i space s0\nphase i\n"
#define REDUCTION AXES "phase i r\n"

typedef struct Bad {
    const char *text, *message; /* behind "test:" */
} Bad;

/* clang-format off */
static const Bad bad[] = {
    /* lines and their order */
    {"", "1:1: the kernel ends without a phase"},
    {"y: f32[1]\n", "1:1: expected \"kernel\" on the first line"},
    {"kernel ?\n", "1:8: expected the kernel's kind: up to 64 letters, digits, _ + - ."},
    {"kernel a b\n", "1:10: the line should end here"},
    {HEAD, "5:1: the kernel ends without a phase"},
    {"kernel k\nphase\n", "2:1: the kernel has no operands; the first is the output"},
    {"kernel k\nkernel k\n", "2:1: \"kernel\" is reserved and cannot be a name"},
    {AXES "z: f32[1]\n", "7:1: this cannot stand here: first the kernel line, then operands, axes, "
                         "outer, phases"},
    {AXES "outer i\naxis q space 2\n", "8:1: an axis cannot stand here: first the kernel line, then "
                                       "operands, axes, outer, phases"},
    {PHASE "y[i] = x0[i]\nouter i\n", "8:1: outer cannot stand here: first the kernel line, then "
                                      "operands, axes, outer, phases"},
    {HEAD "axis i space s0\naxis q space 2\nphase i\ny[i] = x0[i]\n", "9:1: axis q is in no loop"},
    {PHASE "y[i] = x0[i] x0[i]\n", "7:14: the line should end here"},
    /* operands and axes */
    {"kernel k\ny: const f32[1]\n", "2:1: the first operand is the output and cannot be const"},
    {"kernel k\ny f32[1]\n", "2:3: expected \":\" behind an operand's name"},
    {"kernel k\ny: f16[1]\n", "2:4: expected a dtype: f32, i64, i32, i8 or bool"},
    {"kernel k\ny: f32\n", "2:7: expected \"[\" behind the dtype"},
    {"kernel k\ny: f32[max 3]\n", "2:12: expected \"(\" behind max"},
    {"kernel k\ny: f32[max(1, 2]\n", "2:16: expected \")\" behind the spans"},
    {"kernel k\ny: f32[3\n", "2:9: expected \"]\" behind the span"},
    {"kernel k\ny: f32[-3]\n", "2:8: a span is negative"},
    {"kernel k\ny: f32[n]\n", "2:8: sizes are made of numbers and symbols s0, s1 ... only"},
    {"kernel k\ny: f32[1.5f]\n", "2:8: a span is f32, not i64"},
    {"kernel k\ny: f32[s255]\n", "2:8: symbols are s0 to s254"},
    {"kernel k\ny: f32[s0 ? 1 : 2]\n", "2:11: expected \"]\" behind the span"},
    {HEAD "axis i\n", "5:7: expected \"reduce\" or \"space\" behind an axis' name"},
    {HEAD "axis i space -1\n", "5:14: an extent is negative"},
    {HEAD "axis i space i\n", "5:14: sizes are made of numbers and symbols s0, s1 ... only"},
    /* names */
    {"kernel k\nfor: f32[1]\n", "2:1: \"for\" is reserved and cannot be a name"},
    {"kernel k\ns0: f32[1]\n", "2:1: \"s0\" is reserved and cannot be a name"},
    {"kernel k\nparams: f32[1]\n", "2:1: \"params\" is reserved and cannot be a name"},
    {"kernel k\npart: f32[1]\n", "2:1: \"part\" is reserved and cannot be a name"},
    {"kernel k\nexp: f32[1]\n", "2:1: \"exp\" is reserved and cannot be a name"},
    {"kernel k\nint8_t: f32[1]\n", "2:1: \"int8_t\" is reserved and cannot be a name"},
    {"kernel k\nnc_x: f32[1]\n", "2:1: \"nc_x\" is reserved and cannot be a name"},
    {"kernel k\nf32_to_i8: f32[1]\n", "2:1: \"f32_to_i8\" is reserved and cannot be a name"},
    {"kernel k\nNAN: f32[1]\n", "2:1: \"NAN\" is no name: names are a lower-case letter, then "
                                "lower-case letters, digits and _"},
    {"kernel k\n_y: f32[1]\n", "2:1: \"_y\" is no name: names are a lower-case letter, then "
                               "lower-case letters, digits and _"},
    {"kernel k\n7: f32[1]\n", "2:1: a name is missing"},
    {"kernel k\n\xc3\xa9: f32[1]\n", "2:1: a name is missing"},
    {HEAD "y: f32[1]\n", "5:1: the name \"y\" is already taken"},
    {HEAD "axis x0 space 3\n", "5:6: the name \"x0\" is already taken"},
    {PHASE "i: f32 = 0.0f\n", "7:1: the name \"i\" is already taken"},
    /* loops */
    {AXES "outer r\n", "7:7: reduce axis r cannot be outer"},
    {AXES "outer\n", "7:6: expected the name of an axis"},
    {AXES "phase q\n", "7:7: expected the name of an axis"},
    {AXES "phase i i\n", "7:9: axis i already has a loop here"},
    {AXES "outer i\nphase i\n", "8:7: axis i already has a loop here"},
    {AXES "phase r i\n", "7:9: space axis i stands inside a reduction"},
    {REDUCTION "t: f32 = x0[r]\n", "9:1: the phase before this has reduce axes but no accumulator"},
    {PHASE, "7:1: the phase before this does nothing"},
    /* statements */
    {PHASE "x0[i] = 1.0f\n", "7:1: expected a let, an accumulator, a fail, or a store to the output y"},
    {PHASE "y = 1.0f\n", "7:3: expected \"[\" behind the output's name"},
    {PHASE "y[1.0f] = 1.0f\n", "7:3: an index is f32, not i64"},
    {PHASE "y[i] = id[i]\n", "7:8: the stored value is i64, not f32"},
    {PHASE "y[i] 1.0f\n", "7:6: expected \"=\" behind the element to store"},
    {PHASE "t: f32 = i\n", "7:10: the value is i64, not f32"},
    {PHASE "t: f32 = t\n", "7:10: t is not known here any more"},
    {PHASE "t: f32 = 0.0f -> t\n", "7:1: an accumulator needs a reduce axis in its phase"},
    {PHASE "fail 0 if true\n", "7:6: expected a code, a number from 1 to 2147483647"},
    {PHASE "fail 1 true\n", "7:8: expected \"if\" behind the code"},
    {PHASE "fail 1 if i\n", "7:11: the condition is i64, not bool"},
    {REDUCTION "y[i] = 0.0f\n", "8:1: the finish cannot stand before the accumulators"},
    {REDUCTION "c: f32 = 0.0f -> c\ny[i] = c\nd: f32 = 0.0f -> d\n",
     "10:1: an accumulator cannot stand behind the finish"},
    {REDUCTION "c: f32 = x0[r] -> c\n",
     "8:10: this reads r, which is known inside the reduction only"},
    {REDUCTION "t: f32 = x0[r]\nc: f32 = 0.0f -> c + t\ny[i] = t\n",
     "10:8: this reads t, which is known inside the reduction only"},
    {REDUCTION "c: f32 = 0.0f -> c\ny[r] = c\n",
     "9:3: this reads r, which is known inside the reduction only"},
    {REDUCTION "c: f32 = 0.0f -> i\n", "8:18: the update is i64, not f32"},
    {PHASE "t: f32 = 0.0f\ny[i] = t\nphase\ny[0] = t\n", "10:8: t is not known here any more"},
    /* expressions */
    {PHASE "y[i] = x0[r]\n", "7:11: \"r\" is not known here"},
    {AXES "phase i\ny[i] = x0[r]\n", "8:11: axis r has no loop here"},
    {PHASE "y[i] = y[i]\n", "7:8: the output cannot be read"},
    {PHASE "y[i] = x0\n", "7:10: expected \"[\" behind an operand"},
    {PHASE "y[i] = x0[i\n", "7:12: expected \"]\" behind an index"},
    {PHASE "y[i] =\n", "7:7: an operand is missing"},
    {PHASE "y[i] = x0[i] +\n", "7:15: an operand is missing"},
    {PHASE "y[i] = (x0[i]\n", "7:14: expected \")\" to close \"(\""},
    {PHASE "y[i] = exp x0[i]\n", "7:12: expected \"(\" behind a function"},
    {PHASE "y[i] = exp(i)\n", "7:8: exp takes no i64"},
    {PHASE "y[i] = x0[i] + i\n", "7:14: + joins f32 and i64"},
    {PHASE "y[i] = x0[i] % x0[i]\n", "7:14: % takes no f32"},
    {PHASE "y[i] = x0[i] || x0[i]\n", "7:14: || takes no f32"},
    {PHASE "y[-(i < i)] = x0[i]\n", "7:3: - takes no bool"},
    {PHASE "y[i / 0] = x0[i]\n", "7:5: index arithmetic divides by positive numbers only"},
    {PHASE "y[i % -2] = x0[i]\n", "7:5: index arithmetic divides by positive numbers only"},
    {PHASE "y[i] = i ? 1.0f : 2.0f\n", "7:10: the condition of ? is i64, not bool"},
    {PHASE "y[i] = i < 1 ? 1.0f : 2\n", "7:14: the sides of ? are f32 and i64"},
    {PHASE "y[i] = i < 1 ? 1.0f\n", "7:20: expected \":\" between the sides of ?"},
    {PHASE "y[i] = 1.5x\n", "7:8: \"1.5x\" is no number"},
    {PHASE "y[i] = 1.0ff\n", "7:8: \"1.0ff\" is no number"},
    {PHASE "y[i] = 1e99\n", "7:8: 1e99 is beyond the range of f32"},
    {PHASE "y[12z] = 1.0f\n", "7:3: \"12z\" is no number"},
    {PHASE "y[300i8] = 1.0f\n", "7:3: the number is beyond the range of i8"},
    {PHASE "y[9223372036854775808] = 1.0f\n", "7:3: the number is beyond the range of i64"},
};
/* clang-format on */

typedef struct Source {
    const char *text;
    size_t len;
} Source;

static void parse(Env *e, void *arg)
{
    const Source *s = arg;
    kernel_parse(e, s->text, s->len, "test");
}

Test(loop_text, every_malformed_text_is_refused_with_its_place_and_reason)
{
    for (size_t i = 0; i < countof(bad); i++) {
        Env e;
        env_init(&e);
        Source s = {bad[i].text, strlen(bad[i].text)};
        cr_expect(!env_try(&e, parse, &s), "accepted:\n%s", bad[i].text);
        const char *expected = arena_printf(&e.model, "test:%s", bad[i].message);
        cr_expect_str_eq(e.err.text, expected, "%s\nshould be\n%s\nfor\n%s", e.err.text,
                         expected, bad[i].text);
        cr_expect_eq(e.err.code, E_SYNTAX);
        env_release(&e);
    }
}

/* A one-phase kernel whose stored value is `piece` n times between before and after. */
static char *repeated(Env *e, const char *before, const char *piece, int n, const char *after)
{
    Buf b;
    buf_init(&b, &e->model);
    buf_printf(&b, PHASE "y[i] = %s", before);
    for (int i = 0; i < n; i++) {
        buf_str(&b, piece);
    }
    buf_printf(&b, "%s\n", after);
    return b.at;
}

Test(loop_text, deep_long_and_hostile_expressions_are_refused)
{
    Env e;
    env_init(&e);
    static const struct {
        const char *before, *piece, *after, *words;
    } rows[] = {
        {"", "(", "", "nested over 500 deep"},
        {"", "-", "x0[i]", "nested over 500 deep"},
        {"", "i < 1 ? x0[i] : ", "x0[i]", "has over 2000 terms"},
        {"x0[i]", " + x0[i]", "", "has over 2000 terms"},
        {"", "9", ".0", "the number has"},
        {"", "z", "", "is not known here"},
    };
    for (size_t i = 0; i < countof(rows); i++) {
        char *text = repeated(&e, rows[i].before, rows[i].piece, 100000, rows[i].after);
        must_fail(&e, parse, &(Source){text, strlen(text)}, E_SYNTAX, rows[i].words);
    }
    char *long_sum = repeated(&e, "x0[i]", " + 1.0f", 1900, "");
    must_work(&e, parse, &(Source){long_sum, strlen(long_sum)});
    Source nul = {"kernel k\0 k\n", 12};
    must_fail(&e, parse, &nul, E_SYNTAX, "1:9: the line should end here");
    env_release(&e);
}

/* Whatever is done to a text, it is read or refused; what is read is canonical. */
static void read_twice(Env *e, void *arg)
{
    const Source *s = arg;
    Kernel *k = kernel_parse(e, s->text, s->len, "test");
    Kernel *back = kernel_parse(e, k->text, strlen(k->text), "again");
    cr_assert_str_eq(back->text, k->text);
}

static size_t mutate(Rng *rng, char *text, size_t len)
{
    static const char alphabet[] = "kyx0abs1srm[]()+-*/%<=!|?:.,# \n7fi";
    for (uint64_t n = 1 + rng_below(rng, 3); n > 0; n--) {
        size_t at = rng_below(rng, len - 8), other = rng_below(rng, len - 8);
        switch (rng_below(rng, 3)) {
        case 0: text[at] = alphabet[rng_below(rng, sizeof alphabet - 1)]; break;
        case 1: memmove(text + at, text + other, 1 + rng_below(rng, 8)); break;
        default: memmove(text + at, text + at + 1, len - at - 1); len--;
        }
    }
    return len;
}

Test(loop_text, mutated_texts_are_read_or_refused)
{
    static const char *const texts[] = {matmul_text, softmax_text, gather_text, concat_text};
    Rng rng;
    rng_seed(&rng, 3);
    int accepted = 0, refused = 0;
    for (int i = 0; i < 8000; i++) {
        Env e;
        env_init(&e);
        const char *from = texts[i % countof(texts)];
        char *text = arena_str(&e.model, from);
        Source s = {text, mutate(&rng, text, strlen(from))};
        if (env_try(&e, read_twice, &s)) {
            accepted++;
        } else {
            cr_assert_eq(e.err.code, E_SYNTAX, "%s", e.err.text);
            refused++;
        }
        env_release(&e);
    }
    cr_expect_gt(accepted, 100);
    cr_expect_gt(refused, 100);
}

/* ---- lowered kernels ---- */

static void read_back_model(Env *e, void *arg)
{
    (void)arg;
    const Graph *g = model_graph(e, size_05b, true);
    for (unsigned without = 0; without <= ALL_STAGES; without += ALL_STAGES) {
        const Program *p = compiled(e, g, without, NULL);
        cr_assert_eq(p->kernel.n, without ? 63 : 20);
        for (int i = 0; i < p->kernel.n; i++) {
            const Kernel *k = p->kernel.at[i];
            const Kernel *back = kernel_parse(e, k->text, strlen(k->text), k->symbol);
            cr_expect_str_eq(back->text, k->text);
            cr_expect(hash_eq(emit_hash(e, back, target_generic()),
                              emit_hash(e, k, target_generic())));
        }
    }
}

Test(loop_text, every_kernel_of_the_model_reads_back_to_the_same_kernel)
{
    Env e;
    env_init(&e);
    must_work(&e, read_back_model, NULL);
    env_release(&e);
}
