/* base_arena.c - tests of arenas, of the error boundary, and of the text an Err holds. */
#include "tests/env_fixture.h"
#include "tests/fault.h"
#include "tests/helpers.h"

#include <signal.h>
#include <string.h>

TestSuite(base_arena, .init = start, .fini = stop);

static bool all_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i]) {
            return false;
        }
    }
    return true;
}

Test(base_arena, memory_is_zeroed_aligned_and_distinct)
{
    char *last = NULL;
    for (size_t bytes = 0; bytes < 3000; bytes += 7) {
        char *p = arena_alloc(&env.model, bytes);
        cr_assert_eq((uintptr_t)p % 16, 0);
        cr_assert_neq(p, last);
        cr_assert(all_zero(p, bytes));
        memset(p, 0xff, bytes);
        last = p;
    }
}

Test(base_arena, requests_larger_than_a_block_leave_the_block_in_use)
{
    char *before = arena_alloc(&env.model, 16);
    char *large = arena_alloc(&env.model, 10 << 20);
    char *after = arena_alloc(&env.model, 16);
    cr_assert(all_zero(large, 10 << 20));
    memset(large, 1, 10 << 20);
    cr_assert(all_zero(before, 16) && all_zero(after, 16));
    cr_assert_eq(env.model.used_bytes, (10 << 20) + 32);
}

Test(base_arena, reset_empties_the_kernel_arena_only)
{
    char *kept = arena_str(&env.model, "kept");
    memset(arena_alloc(&env.kernel, 5000), 0xff, 5000);
    cr_assert_eq(env.kernel.used_bytes, 5000);
    env_reset_kernel(&env);
    cr_assert_eq(env.kernel.used_bytes, 0);
    cr_assert_str_eq(kept, "kept");
    cr_assert(all_zero(arena_alloc(&env.kernel, 5000), 5000));
}

Test(base_arena, copies_and_formats_text_of_any_length)
{
    cr_assert_str_eq(arena_strn(&env.model, "abcdef", 3), "abc");
    cr_assert_str_eq(arena_printf(&env.model, "%d and %s", 7, "x"), "7 and x");
    char *longer = arena_printf(&env.model, "%0999d", 5);
    cr_assert_eq(strlen(longer), 999);
    cr_assert_eq(longer[998], '5');
}

Test(base_arena, a_vec_grows_and_keeps_its_elements)
{
    Vec(int) v = {0};
    for (int i = 0; i < 10000; i++) {
        *vec_push(&env.model, &v) = i * 3;
    }
    cr_assert_eq(v.n, 10000);
    for (int i = 0; i < v.n; i++) {
        cr_assert_eq(v.at[i], i * 3);
    }
}

static void ask_too_much(Env *e, void *arg)
{
    arena_alloc(&e->model, *(size_t *)arg);
}

static void ask_for_too_many(Env *e, void *arg)
{
    (void)arg;
    arena_alloc_n(&e->model, SIZE_MAX / 4, 8);
}

Test(base_arena, impossible_sizes_fail_with_nomem)
{
    size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, PTRDIFF_MAX};
    for (size_t i = 0; i < countof(sizes); i++) {
        must_fail(&env, ask_too_much, &sizes[i], E_NOMEM, "is too large");
    }
    must_fail(&env, ask_for_too_many, NULL, E_NOMEM, "elements of 8 bytes");
}

static void grow_many(Env *e, void *arg)
{
    (void)arg;
    for (int i = 0; i < 40; i++) {
        arena_alloc(&e->model, 30000);
    }
}

static bool grow_in_a_new_env(void *ctx, Err *err)
{
    (void)ctx;
    Env e;
    env_init(&e);
    bool ok = env_try(&e, grow_many, NULL);
    *err = e.err;
    env_release(&e);
    return ok;
}

Test(base_arena, every_failing_allocation_is_reported_and_leaks_nothing)
{
    cr_assert_geq(fault_loop("alloc", grow_in_a_new_env, NULL), 6);
}

/* ---- the boundary ---- */

static void fail_with(Env *e, void *arg)
{
    fail(e, E_SHAPE, "add: %s", (const char *)arg);
}

static void nest(Env *e, void *arg)
{
    cr_assert_not(env_try(e, fail_with, "inner"));
    cr_assert_str_eq(e->err.text, "add: inner");
    *(int *)arg += 1;
    fail(e, E_GRAPH, "outer");
}

Test(base_arena, a_failure_ends_the_innermost_try_only)
{
    int reached = 0;
    must_fail(&env, nest, &reached, E_GRAPH, "outer");
    cr_assert_eq(reached, 1);
    cr_assert_null(env.trap);
}

static void pass_on(Env *e, void *arg)
{
    (void)arg;
    if (!env_try(e, fail_with, "once")) {
        fail_err(e, &e->err);
    }
}

Test(base_arena, an_error_can_be_passed_on)
{
    must_fail(&env, pass_on, NULL, E_SHAPE, "add: once");
}

static void count_up(Env *e, void *arg)
{
    (void)e;
    *(int *)arg += 1;
}

Test(base_arena, a_body_that_returns_is_a_success)
{
    int n = 0;
    must_work(&env, count_up, &n);
    cr_assert_eq(n, 1);
    cr_assert_null(env.trap);
}

Test(base_arena, fail_without_a_try_is_a_bug, .signal = SIGABRT)
{
    fail(&env, E_IO, "nobody listens");
}

/* ---- err ---- */

Test(base_err, set_returns_false_and_accepts_no_receiver)
{
    Err err = {0};
    cr_assert_not(err_set(&err, E_IO, "%d", 5));
    cr_assert_eq(err.code, E_IO);
    cr_assert_str_eq(err.text, "5");
    cr_assert_not(err_set(NULL, E_IO, "%d", 5));
}

Test(base_err, text_may_quote_the_error_it_replaces)
{
    Err err;
    err_set(&err, E_IO, "inner");
    err_set(&err, E_BUILD, "outer: %s", err.text);
    cr_assert_str_eq(err.text, "outer: inner");
}

Test(base_err, long_text_is_cut_between_characters)
{
    char name[3000] = "";
    for (int i = 0; i < 900; i++) {
        strcat(name, "\u20ac"); /* three bytes */
    }
    Err err;
    err_set(&err, E_IO, "%s", name);
    size_t len = strlen(err.text);
    cr_assert_eq(len, 1020 / 3 * 3 + 3);
    cr_assert_str_eq(err.text + len - 6, "\u20ac...");
}

Test(base_err, control_characters_cannot_reach_a_terminal)
{
    Err err;
    err_set(&err, E_IO, "%s",
            "a\033[2Jb\nc\td\x7f\xc2\x9b"
            "1m\u00e9");
    cr_assert_str_eq(err.text, "a?[2Jb c d???1m\u00e9");
}

Test(base_err, every_code_has_a_meaning)
{
    cr_assert_str_eq(err_name(E_OK), "ok");
    cr_assert_str_eq(err_name(E_INTERRUPT), "stopped by the user");
    cr_assert_str_eq(err_name((ErrCode)999), "unknown error");
}
