/* child_util.h - real processes that measure: a workshop of its own, candidates built as a
 * build would, and hostile ones, written by hand in C around a right product. */
#ifndef NC_TESTS_CHILD_UTIL_H
#define NC_TESTS_CHILD_UTIL_H

#include "tests/loop_util.h" /* product_text */
#include "tests/run_util.h"
#include "tuner/tuner_int.h"

typedef struct Lab {
    Workshop w;
    Children children;
    Runner runner;
    const Kernel *naive;
    Task task;
    Built a, b;
    ProcessJob job; /* of a against b: 5 pairs, verified */
    ProcessResult result;
} Lab;

/* Sanitized processes die of signals as others do, and do not look for leaks, which takes a process
 * that they may not start. Memory is e->model. */
void tame_sanitizers(Env *e);
/* a is the naive nest, s0 is 12, one thread, hot. */
void lab_init(Lab *l, const char *kernel_text);
void lab_release(Lab *l);
/* The kernel under a schedule; asserts that it is built. */
Built lab_build(Lab *l, const char *schedule);
/* A library of C text that defines `int32_t candidate(P)`, and may call right(p, syms, part,
 * n_parts), y is its output, m its rows. */
Built lab_hostile(Lab *l, const char *text);
/* Runs the job; asserts that nothing of the process is left, nor of one that keeps rings. */
const ProcessResult *lab_run(Lab *l);
const ProcessResult *lab_run_on(Lab *l); /* that one stays */
void lab_keeps(Lab *l);                  /* from now on jobs are such that rings are kept */
/* Runs it with a hostile b, from its parent and from a process that keeps rings; asserts its
 * status and, where given, words of the reason. */
void lab_refuses(Lab *l, const char *text, Status s, const char *words);

/* A body for fault_loop: runs the job of the Lab, and ends who keeps rings; an error where it was not OK. */
bool lab_run_once(void *lab, Err *err);
/* tune with a hidden word and up to three arguments refuses in one sentence. */
void lab_word_is_hidden(Lab *l, const char *word, const char *const *argument);
/* Waits some seconds for a process that is not ours to be gone. */
bool process_goes(int pid);

#endif
