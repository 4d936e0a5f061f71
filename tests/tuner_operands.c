/* tuner_operands.c - operands of a kernel that is called over and over: values from the seed
 * alone, rings for what rotates, one ring where two sides lay out alike, and each call on the
 * next copies. */
#include "tests/env_fixture.h"
#include "tests/helpers.h"
#include "tuner/tuner.h"

#include <string.h>

TestSuite(tuner_operands, .init = start, .fini = stop, .timeout = 60);

static const char text[] = "kernel matmul\n"
                           "y: f32[8*s0]\n"
                           "a: f32[16*s0]\n"
                           "b: const f32 from bf16[128]\n"
                           "ids: const i64[8]\n"
                           "axis m space s0\n"
                           "axis n space 8\n"
                           "axis k reduce 16\n"
                           "phase m n k\n"
                           "    acc0: f32 = 0.0f -> acc0 + a[m*16 + k] * b[k + n*16]\n"
                           "    y[m*8 + n] = acc0 + f32(ids[n])\n";

static const int64_t syms[] = {3};
enum { Y, A, B, IDS, N_OPERANDS };

static void *seen[8][N_OPERANDS];
static int n_calls;

static int32_t note(void *const *p, const int64_t *s, int part, int n_parts)
{
    (void)s, (void)part, (void)n_parts;
    memcpy(seen[n_calls++ % 8], p, sizeof seen[0]);
    return 0;
}

static int64_t reversed(void *to, const void *from, const int64_t *s)
{
    (void)s;
    for (int i = 0; to && i < 128; i++) {
        ((float *)to)[i] = bf16_float(((const uint16_t *)from)[127 - i]);
    }
    return 128;
}

static Kernel *kernel_with(bool packed)
{
    Pack *pack = arena_new(&env.model, Pack); /* only whether there is one matters here */
    Kernel *k = kernel_parse(&env, text, strlen(text), "test");
    pack->count = x_int(&env.model, 128);
    *vec_push(&env.model, &pack->span) = pack->count;
    k->operand.at[B].pack = packed ? pack : NULL;
    return k;
}

typedef struct Setting {
    Runnable a, b;
    PackFn pack_a[N_OPERANDS], pack_b[N_OPERANDS];
    void *param[N_OPERANDS];
    bool bf16; /* a reads its constant so, in place */
    int n_copies;
    uint64_t rotates;
    size_t bytes_a, bytes_b;
} Setting;

static void set_up(Env *e, void *arg)
{
    Setting *s = arg;
    s->a = (Runnable){.k = kernel_with(s->pack_a[B]),
                      .fn = note,
                      .pack = s->pack_a,
                      .syms = syms,
                      .param = s->param};
    s->b = (Runnable){.k = kernel_with(s->pack_b[B]),
                      .fn = note,
                      .pack = s->pack_b,
                      .syms = syms,
                      .param = s->param};
    ((Kernel *)s->a.k)->operand.at[B].bf16 = s->bf16;
    operands_fill(e, s->a.k, syms, 9, s->param);
    s->bytes_a = runnable_lay(e, &s->a, s->rotates, NULL);
    s->bytes_b = runnable_lay(e, &s->b, s->rotates, &s->a);
    runnable_rings(e, &s->a, s->n_copies, NULL);
    runnable_rings(e, &s->b, s->n_copies, NULL);
    n_calls = 0;
}

static void release(Setting *s)
{
    runnable_release(&s->b);
    runnable_release(&s->a);
}

Test(tuner_operands, values_are_the_seeds)
{
    Kernel *k = kernel_with(false);
    void *p[N_OPERANDS] = {0}, *q[N_OPERANDS] = {0}, *r[N_OPERANDS] = {0};
    operands_fill(&env, k, syms, 9, p);
    q[A] = p[A]; /* given: it stays */
    operands_fill(&env, k, syms, 9, q);
    operands_fill(&env, k, syms, 10, r);
    cr_expect_eq(q[A], p[A]);
    for (int i = 0; i < N_OPERANDS; i++) {
        cr_expect_eq((uintptr_t)p[i] % 64, 0);
        cr_expect(!memcmp(p[i], q[i], operand_stored_bytes(k, i, syms)));
    }
    cr_expect(memcmp(p[B], r[B], 512));
    for (int i = 0; i < 128; i++) {
        uint32_t bits;
        memcpy(&bits, (float *)p[B] + i, sizeof bits);
        cr_expect_eq(bits & 0xffff, 0, "was promised to come from bf16");
    }
    for (int i = 0; i < 8; i++) {
        cr_expect(((int64_t *)p[IDS])[i] == 0 || ((int64_t *)p[IDS])[i] == 1);
    }
}

Test(tuner_operands, constants_rotate_and_what_is_asked_to)
{
    Kernel *k = kernel_with(false);
    cr_expect(operand_rotates(k, B, 0) && operand_rotates(k, IDS, 0));
    cr_expect_not(operand_rotates(k, A, 0));
    cr_expect_not(operand_rotates(k, Y, UINT64_MAX), "never the output");
    cr_expect(operand_rotates(k, A, 1 << A));
    cr_expect_eq(operands_rotating_bytes(k, syms, 0), 128 * 4 + 8 * 8);
    cr_expect_eq(operands_rotating_bytes(k, syms, 1 << A), 128 * 4 + 8 * 8 + 48 * 4);
}

Test(tuner_operands, each_call_takes_the_next_copies)
{
    Setting s = {.n_copies = 3, .pack_a = {[B] = reversed}, .pack_b = {[B] = reversed}};
    must_work(&env, set_up, &s);
    for (int i = 0; i < 4; i++) {
        runnable_call(&s.a);
    }
    for (int i = 0; i < 4; i++) {
        cr_expect(seen[i][Y] == s.param[Y] && seen[i][A] == s.param[A], "in place");
        cr_expect_neq(seen[i][B], s.param[B]);
        cr_expect_eq(((float *)seen[i][B])[5], ((float *)s.param[B])[122], "laid out");
        cr_expect(!memcmp(seen[i][IDS], s.param[IDS], 64));
    }
    cr_expect(seen[0][B] != seen[1][B] && seen[1][B] != seen[2][B] && seen[0][B] == seen[3][B]);
    release(&s);
}

Test(tuner_operands, layouts_that_agree_share_a_ring)
{
    Setting s = {.n_copies = 5, .pack_a = {[B] = reversed}, .pack_b = {[B] = reversed}};
    must_work(&env, set_up, &s);
    cr_expect_eq(s.bytes_a, 512 + 64);
    cr_expect_eq(s.bytes_b, 0);
    runnable_call(&s.a);
    runnable_call(&s.b);
    cr_expect_neq(seen[0][B], seen[1][B], "b does not find what a has just read");
    cr_expect_eq(s.a.ring[B], s.b.ring[B]);
    release(&s);
}

Test(tuner_operands, other_layouts_have_their_own)
{
    Setting s = {.n_copies = 2, .pack_a = {[B] = reversed}};
    must_work(&env, set_up, &s);
    cr_expect_eq(s.bytes_b, 512, "the other constant is shared");
    cr_expect_neq(s.a.ring[B], s.b.ring[B]);
    cr_expect_eq(s.a.ring[IDS], s.b.ring[IDS]);
    cr_expect_null(s.a.ring[A]);
    release(&s);
}

Test(tuner_operands, an_activation_may_rotate)
{
    Setting s = {.n_copies = 2, .rotates = 1 << A};
    must_work(&env, set_up, &s);
    runnable_call(&s.a);
    cr_expect_neq(seen[0][A], s.param[A]);
    cr_expect(!memcmp(seen[0][A], s.param[A], 48 * 4));
    release(&s);
}

Test(tuner_operands, a_constant_may_be_stored_as_bf16_in_place)
{
    Setting s = {.n_copies = 2, .bf16 = true};
    must_work(&env, set_up, &s);
    cr_expect_eq(s.bytes_a, 256 + 64, "half of its bytes");
    cr_expect_eq(s.bytes_b, 512, "of the other's, as the graph has it");
    runnable_call(&s.a);
    for (int i = 0; i < 128; i++) {
        cr_expect_eq(bf16_float(((uint16_t *)seen[0][B])[i]), ((float *)s.param[B])[i]);
    }
    release(&s);
}

Test(tuner_operands, values_that_are_no_bf16_are_refused)
{
    static const float third[128] = {[127] = 1.0f / 3};
    Setting packed = {
        .n_copies = 2, .pack_a = {[B] = reversed}, .param = {[B] = (void *)third}};
    Setting in_place = {.n_copies = 2, .bf16 = true, .param = {[B] = (void *)third}};
    must_fail(&env, set_up, &packed, E_INPUT, "is said to come from bf16, but some value is");
    must_fail(&env, set_up, &in_place, E_INPUT, "is said to come from bf16, but some value is");
    runnable_release(&packed.a);
    runnable_release(&in_place.a);
}
