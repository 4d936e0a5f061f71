/* tuner_child_hostile.c - candidates that crash, hang, cheat and lie: each ends with the status
 * that it earns, within its limit, and leaves nothing behind. Numbers are those of
 * AUTOTUNERS.md section 5. */
#include "tests/child_util.h"

static Lab lab;

static void start(void)
{
    lab_init(&lab, product_text);
}

static void stop(void)
{
    lab_release(&lab);
}

TestSuite(tuner_child_hostile, .init = start, .fini = stop, .timeout = 300);

#define ENDS(name, status, words, text)                  \
    Test(tuner_child_hostile, name)                      \
    {                                                    \
        lab_refuses(&lab, text, STATUS_##status, words); \
    }
/* Of memory and files there is no limit where sanitizers map terabytes and write reports. */
#ifdef NC_SANITIZED
#define UNSANITIZED(name, status, words, text)                  \
    Test(tuner_child_hostile, name)                             \
    {                                                           \
        cr_skip_test("sanitized processes have no such limit"); \
    }
#else
#define UNSANITIZED ENDS
#endif
#define LIMITED(name, status, words, text)               \
    Test(tuner_child_hostile, name)                      \
    {                                                    \
        lab.job.limit_ns = 2000000000;                   \
        lab_refuses(&lab, text, STATUS_##status, words); \
        cr_expect_lt(lab.result.took_ns, 30000000000);   \
    }

/* Finds the results as nobody should: by their name among the mappings; and says how far the
 * process has come. */
_Static_assert(offsetof(AreaHead, state) == 24 && AREA_WARMING == 5 && AREA_TIMING == 6,
               "the hostile texts know them as numbers");
#define FIND                                                                               \
    "static char *area(size_t *len)\n{\n    static char line[512], *at;\n"                 \
    "    static unsigned long from, to;\n"                                                 \
    "    FILE *f = at ? NULL : fopen(\"/proc/self/maps\", \"r\");\n"                       \
    "    while (f && fgets(line, sizeof line, f)) {\n"                                     \
    "        if (strstr(line, \"memfd:nanocompile\")) {\n"                                 \
    "            sscanf(line, \"%lx-%lx\", &from, &to);\n            at = (char *)from;\n" \
    "        }\n    }\n    if (f) {\n        fclose(f);\n    }\n    *len = to - from;\n"   \
    "    return at;\n}\n"                                                                  \
    "static int state(void)\n{\n    size_t len;\n    return ((volatile char "              \
    "*)area(&len))[24];\n}\n"

Test(tuner_child_hostile, the_right_one_passes)
{
    lab.b =
        lab_hostile(&lab, "int32_t candidate(P) { return right(p, syms, part, n_parts); }\n");
    const ProcessResult *r = lab_run(&lab);
    cr_expect_eq(r->status, STATUS_OK, "%s", r->why);
    cr_expect_eq(r->n_pairs, 5);
}

/* ---- 7: distinct ends ---------------------------------------------------------------- */

ENDS(acceptance_7_segfault, CRASH, "SIGSEGV",
     "int32_t candidate(P) { return *(volatile int *)8; }\n")
ENDS(acceptance_7_abort, CRASH, "SIGABRT", "int32_t candidate(P) { abort(); }\n")
ENDS(acceptance_7_illegal_instruction, CRASH, "SIGILL",
     "int32_t candidate(P) { __builtin_trap(); }\n")
UNSANITIZED(
    acceptance_7_memory_eaten_up, OOM, "memory",
    "int32_t candidate(P)\n{\n"
    "    for (;;) {\n        char *q = malloc(1 << 26);\n        q[1 << 20] = 1;\n    }\n}\n")
ENDS(acceptance_7_stack_without_end, CRASH, "SIGSEGV",
     "static int deep(volatile char *p)\n{\n    volatile char q[4096];\n    q[0] = *p;\n"
     "    return deep(q) + q[0];\n}\n"
     "int32_t candidate(P) { char q = 1; return deep(&q); }\n")
ENDS(acceptance_7_early_exit_without_error, GARBAGE, "left early",
     "int32_t candidate(P) { exit(0); }\n")
ENDS(acceptance_7_early_exit_with_an_error, CRASH, "status 5",
     "int32_t candidate(P) { _exit(5); }\n")
ENDS(an_exit_when_it_is_loaded, GARBAGE, "while its libraries were loaded",
     "__attribute__((constructor)) static void early(void) { exit(0); }\n"
     "int32_t candidate(P) { return right(p, syms, part, n_parts); }\n")
ENDS(no_such_function, CC_ERROR, "lacks kernel candidate",
     "int32_t another(P) { return right(p, syms, part, n_parts); }\n")

/* ---- 6: hangs ------------------------------------------------------------------------ */

LIMITED(acceptance_6_spin, TIMEOUT, "while it was verified",
        "int32_t candidate(P)\n{\n    for (volatile int i = 0;; i++) {\n    }\n}\n")
LIMITED(acceptance_6_spin_that_ignores_signals, TIMEOUT, "stopped after 2.000 s",
        "int32_t candidate(P)\n{\n    for (int i = 1; i < 65; i++) {\n"
        "        signal(i, SIG_IGN);\n    }\n    for (volatile int i = 0;; i++) {\n    }\n}\n")
LIMITED(acceptance_6_sleep, TIMEOUT, NULL,
        "int32_t candidate(P)\n{\n    for (;;) {\n        pause();\n    }\n}\n")
LIMITED(acceptance_6_hang_when_it_is_timed, TIMEOUT, "while it was timed",
        FIND "int32_t candidate(P)\n{\n    while (state() == 6) {\n    }\n"
             "    return right(p, syms, part, n_parts);\n}\n")
LIMITED(acceptance_6_hang_when_it_is_loaded, TIMEOUT, "while its libraries were loaded",
        "__attribute__((constructor)) static void early(void)\n{\n    for (;;) {\n        "
        "pause();\n    }\n}\n"
        "int32_t candidate(P) { return right(p, syms, part, n_parts); }\n")

/* ---- what it may not do -------------------------------------------------------------- */

ENDS(a_fork, CRASH, "tried to start a process",
     "int32_t candidate(P) { return fork() >= 0 ? right(p, syms, part, n_parts) : 0; }\n")
ENDS(a_program, CRASH, "tried to start a process",
     "int32_t candidate(P) { return execl(\"/bin/true\", \"true\", NULL); }\n")
ENDS(a_group_of_its_own, CRASH, NULL, "int32_t candidate(P) { return setsid(); }\n")
ENDS(a_gigabyte_of_words, GARBAGE, "said more than",
     "int32_t candidate(P)\n{\n    static char text[1 << 20];\n    memset(text, 'x', sizeof "
     "text);\n"
     "    for (int i = 0; i < 1024; i++) {\n        if (write(1, text, sizeof text) < 0) {\n"
     "            abort();\n        }\n    }\n    return right(p, syms, part, n_parts);\n}\n")
UNSANITIZED(a_file, CRASH, NULL,
            "int32_t candidate(P)\n{\n    int fd = memfd_create(\"x\", 0);\n"
            "    return write(fd, p, 8) == 8 ? right(p, syms, part, n_parts) : 0;\n}\n")

/* ---- 1 to 4: wrong ------------------------------------------------------------------- */

ENDS(acceptance_1_half_of_the_output_unwritten, WRONG, "never written",
     "int32_t candidate(P)\n{\n    int64_t half = syms[0] / 2;\n"
     "    return right(p, &half, part, n_parts);\n}\n")
ENDS(
    acceptance_2_result_right_only_on_the_first_call, WRONG, NULL,
    "int32_t candidate(P)\n{\n    float *y = p[0];\n    right(p, syms, part, n_parts);\n"
    "    if (n_calls % 2 == 0 && syms[0] > 0) {\n        y[2] += 1;\n    }\n    return 0;\n}\n")
ENDS(
    acceptance_2_accumulation_into_the_output, WRONG, NULL,
    "int32_t candidate(P)\n{\n    static float was[4096 * 45];\n    float *y = p[0];\n"
    "    int64_t n = syms[0] < 4096 ? syms[0] * 45 : 0;\n"
    "    memcpy(was, y, sizeof *y * n);\n    right(p, syms, part, n_parts);\n"
    "    for (int64_t i = 0; i < n; i++) {\n        y[i] += was[i];\n    }\n    return 0;\n}\n")
ENDS(acceptance_2_result_that_is_wrong_from_the_first_pair_on, WRONG,
     "computes something else than before",
     FIND "int32_t candidate(P)\n{\n    static int late;\n    right(p, syms, part, n_parts);\n"
          "    late = late || state() == 6;\n    if (syms[0] > 0 && late) {\n"
          "        ((float *)p[0])[0] += 1;\n    }\n    return 0;\n}\n")
ENDS(acceptance_2_result_that_is_wrong_when_it_is_verified_again, WRONG, "(floats",
     FIND "int32_t candidate(P)\n{\n    right(p, syms, part, n_parts);\n"
          "    if (syms[0] > 0 && state() == 7) {\n        ((float *)p[0])[0] += 1;\n    }\n"
          "    return 0;\n}\n")
ENDS(acceptance_3_output_of_zeros, WRONG, "y[",
     "int32_t candidate(P)\n{\n    memset(p[0], 0, sizeof(float) * 45 * syms[0]);\n    return "
     "0;\n}\n")
ENDS(acceptance_3_output_of_nan, WRONG, "is nan",
     "int32_t candidate(P)\n{\n    right(p, syms, part, n_parts);\n"
     "    ((float *)p[0])[0] = syms[0] ? NAN : 0;\n    return 0;\n}\n")
ENDS(acceptance_3_input_taken_for_the_output, WRONG, "overwrites its input",
     "int32_t candidate(P)\n{\n    void *q[3] = {p[1], p[1], p[2]};\n    float row[37];\n"
     "    memcpy(row, p[1], sizeof row);\n    int64_t one = syms[0] > 0;\n"
     "    right(p, syms, part, n_parts);\n    (void)q, (void)one;\n"
     "    if (syms[0] > 0) {\n        memcpy(p[1], p[0], sizeof row);\n    }\n    return "
     "0;\n}\n")
ENDS(acceptance_4_tail_left_out, WRONG, NULL,
     "int32_t candidate(P)\n{\n    int64_t whole = syms[0] / 5 * 5;\n"
     "    return right(p, &whole, part, n_parts);\n}\n")
ENDS(acceptance_4_wrong_last_element, WRONG, "y[539] is ",
     "int32_t candidate(P)\n{\n    right(p, syms, part, n_parts);\n"
     "    if (syms[0] > 0 && part == 0) {\n        ((float *)p[0])[45 * syms[0] - 1] *= "
     "1.0001f;\n    }\n"
     "    return 0;\n}\n")
ENDS(a_write_behind_the_output, CRASH, "does not return from its first call",
     "int32_t candidate(P)\n{\n    right(p, syms, part, n_parts);\n"
     "    ((volatile float *)p[0])[45 * syms[0]] = 1;\n    return 0;\n}\n")

ENDS(a_write_before_the_output, WRONG, "writes outside of its buffers: 4 bytes before y",
     "int32_t candidate(P)\n{\n    right(p, syms, part, n_parts);\n"
     "    ((volatile float *)p[0])[-1] = 1;\n    return 0;\n}\n")

/* ---- the results --------------------------------------------------------------------- */

#define ONCE_TIMED(text)                                        \
    "int32_t candidate(P)\n{\n    static int done;\n"           \
    "    if (state() == 6 && !done++) {\n        size_t len;\n" \
    "        char *at = area(&len);\n        (void)at;\n" text  \
    "    }\n    return right(p, syms, part, n_parts);\n}\n"

ENDS(results_filled_with_bytes, GARBAGE, NULL,
     FIND ONCE_TIMED("        memset(at, 0x5a, len);\n"))
ENDS(results_filled_with_zeros, GARBAGE, NULL, FIND ONCE_TIMED("        memset(at, 0, len);\n"))
/* The third pair is there when the fourth is timed. */
Test(tuner_child_hostile, one_bit_of_an_older_pair_changed)
{
    size_t at = (sizeof(AreaHead) + 63) / 64 * 64 + 5 * sizeof(uint64_t) + 2 * sizeof(Pair);
    const char *where = arena_printf(&lab.w.e.model, "enum { COUNT = %zu, AT = %zu };\n",
                                     offsetof(AreaHead, n_pairs), at);
    const char *text = FIND "int32_t candidate(P)\n{\n    static int done;\n    size_t len;\n"
                            "    char *at = area(&len);\n"
                            "    if (*(uint32_t *)(at + COUNT) >= 3 && !done++) {\n"
                            "        at[AT] ^= 1;\n    }\n"
                            "    return right(p, syms, part, n_parts);\n}\n";
    lab_refuses(&lab, arena_printf(&lab.w.e.model, "%s%s", where, text), STATUS_GARBAGE,
                "changed after they were written");
}

ENDS(a_write_that_runs_into_the_results, CRASH, "SIGSEGV",
     FIND ONCE_TIMED("        *(volatile char *)(at - 1) = 1;\n"))

/* ---- the other side ------------------------------------------------------------------ */

Test(tuner_child_hostile, the_incumbents_crash_is_not_the_challengers)
{
    static const char bad[] =
        "int32_t candidate(P)\n{\n    if (n_calls > 20) {\n        abort();\n    }\n"
        "    return right(p, syms, part, n_parts);\n}\n";
    lab.b = lab_build(&lab, "order n m k");
    lab.a = lab_hostile(&lab, bad);
    cr_expect_eq(lab_run(&lab)->status, STATUS_CRASH, "%s", lab.result.why);
    cr_expect(lab.result.in_a);
    lab.a = lab.b;
    lab.b = lab_hostile(&lab, bad);
    lab.job.verify = false;
    cr_expect_eq(lab_run(&lab)->status, STATUS_CRASH, "%s", lab.result.why);
    cr_expect_not(lab.result.in_a);
}

/* ---- the tuner goes on --------------------------------------------------------------- */

Test(tuner_child_hostile, after_all_that_a_right_one_still_passes)
{
    static const char *const bad[] = {"int32_t candidate(P) { abort(); }\n",
                                      "int32_t candidate(P) { exit(0); }\n"};
    for (int i = 0; i < 6; i++) {
        lab.b = lab_hostile(&lab, bad[i % 2]);
        cr_expect_neq(lab_run(&lab)->status, STATUS_OK);
    }
    lab.b = lab_build(&lab, "order n m k");
    cr_expect_eq(lab_run(&lab)->status, STATUS_OK, "%s", lab.result.why);
}
