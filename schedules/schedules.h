/* schedules.h - policy: which steps a kernel's nest should take. Knows kernel classes by the
 * look of their nests; changes no nest itself. Sections are named after the .c files that
 * define them. DESIGN 5 */
#ifndef NC_SCHEDULES_H
#define NC_SCHEDULES_H

#include "compile.h"

/* ---- classify.c: what a nest looks like ------------------------------------------------ */

/* Columns: id, name, what its nest looks like */
#define KERNEL_CLASSES(X)                                                  \
    X(CONTRACTION, "contraction",                                          \
      "sums of products over one reduce axis, both factors reused")        \
    X(ROW, "row", "reductions, and what each row does with their results") \
    X(ELEMENTWISE, "elementwise", "one statement a point, no reduction")   \
    X(GATHER, "gather", "rows looked up by an index that is data")         \
    X(OTHER, "other", "anything else: only spread over threads")

typedef enum KernelClass {
#define X(id, name, meaning) CLASS_##id,
    KERNEL_CLASSES(X) N_KERNEL_CLASSES
#undef X
} KernelClass;

const char *class_name(KernelClass c);
KernelClass kernel_class(Env *e, const Kernel *k);

/* ---- default.c: a legal schedule that needs no tuning ---------------------------------- */

/* Chosen from the target's registers and lanes, the threads, and the sizes where they are known;
 * right at every size. No steps where nothing else is legal. */
void schedule_default(Env *e, const Kernel *k, const PickHint *hint, Schedule *out);
Picker picker_default(void);

/* ---- space.c, knobs.c: what can be tuned in one kernel on one machine ------------------ */

#define MAX_KNOBS 16
#define MAX_CHOICES 16

typedef struct Knob {
    const char *name, *meaning;
    int n;                  /* choices; a knob with one choice is no choice */
    int value[MAX_CHOICES]; /* rising; knob_word says what it means */
} Knob;

typedef struct Point { /* a choice for each knob, by place */
    uint8_t at[MAX_KNOBS];
} Point;

typedef struct SpaceRule {
    const char *name, *reason; /* why points that break it are left out */
} SpaceRule;

#define MAX_RULES 16
#define MAX_FEATURES 32
typedef struct Space {
    KernelClass class;
    const Kernel *kernel;
    PickHint hint;
    int n_knobs;
    Knob knob[MAX_KNOBS];
    int n_rules;
    SpaceRule rule[MAX_RULES];
    uint64_t n_points; /* the product of the knobs' choices */
    uint64_t n_legal;  /* points that keep every rule; no two are the same schedule */
    const struct SpaceInside *in; /* space.c's own: what the kernel looks like, counts */
} Space;

/* Looks at the kernel, asks the mechanism what it accepts, counts. Memory is m; the kernel must
 * outlive it. */
void space_init(Env *e, Arena *m, Space *s, const Kernel *k, const PickHint *hint);
void knob_word(const Space *s, int knob, int choice, Buf *out); /* "12", "panels", "k32" ... */
/* Does the point keep every rule? broken: the first that it does not, as its place; may be
 * NULL. */
bool space_legal(const Space *s, const Point *p, int *broken);
void space_schedule(const Space *s, const Point *p, Schedule *out); /* of a legal point */
/* The default's point. False: it is none of the space. */
bool space_default(Env *e, const Space *s, Point *out);
/* Every legal point that differs in one knob, in knob order; at most MAX_KNOBS *
 * MAX_CHOICES. */
int space_neighbours(const Space *s, const Point *p, Point *out);
void space_sample(const Space *s, Rng *r, Point *out); /* uniform over the legal points */
bool point_eq(const Space *s, const Point *a, const Point *b);
/* Numbers for cost models: the knobs (sizes as log2), then what follows from them; how many. */
int space_features(const Space *s, const Point *p, double out[MAX_FEATURES]);
const char *space_feature_name(const Space *s, int feature);

/* ---- rank.c: legal points in knob order, numbered from 0 ------------------------------- */

uint64_t space_rank(const Space *s, const Point *p);          /* of a legal point */
void space_unrank(const Space *s, uint64_t rank, Point *out); /* rank < n_legal */

/* ---- tuned.c: a picker over what a database or a file knows ---------------------------- */

#define MAX_RANGES 8
typedef struct SymRange { /* sizes that a schedule was found best for, both ends included */
    int64_t least, most;
} SymRange;

typedef struct TunedRow {
    Hash key;         /* of the kernel's text */
    const char *text; /* the kernel's text, compared when the hash agrees; NULL: not known */
    int n_ranges;     /* by symbol slot; symbols beyond have any size */
    SymRange range[MAX_RANGES];
    Schedule schedule;
    Hash c_hash; /* of the C when it was measured; zero: not known */
} TunedRow;

/* Columns: id, name, meaning */
#define PICK_OUTCOMES(X)                                                      \
    X(HIT, "hit", "a row serves this kernel at these sizes")                  \
    X(MISS, "miss", "no row has this kernel at these sizes: the default")     \
    X(STALE, "stale", "other C than was measured comes out now: the default") \
    X(REFUSED, "refused", "the row's schedule is not legal any more: the default")

typedef enum PickOutcome {
#define X(id, name, meaning) PICK_##id,
    PICK_OUTCOMES(X) N_PICK_OUTCOMES
#undef X
} PickOutcome;

const char *pick_outcome_name(PickOutcome o);

typedef struct Tuned {
    const TunedRow *row;
    int n;
    /* Told of every answer; row is NULL on a miss, why is a sentence or NULL. May be NULL. */
    void (*note)(void *ctx, const Kernel *k, PickOutcome o, const TunedRow *row,
                 const char *why);
    void *note_ctx;
} Tuned;

Picker picker_tuned(Tuned *t); /* t must outlive it; the first row that fits serves */

/* ---- file.c: .sched files: tuned rows as text ------------------------------------------ */

typedef struct SchedFile {
    const char *signature; /* of the machine and compiler they were found on: one line */
    Vec(TunedRow) row;
} SchedFile;

void sched_print(const SchedFile *f, Buf *out);
/* All or nothing; memory is e->model. signature: what the file must have been made for; NULL:
 * anything. Fails with E_SYNTAX or E_INPUT "file:line: ...". */
void sched_parse(Env *e, const char *text, size_t len, const char *file, const char *signature,
                 SchedFile *out);

#endif
