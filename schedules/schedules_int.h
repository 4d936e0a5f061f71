/* schedules_int.h - what the files of schedules/ share: how a policy sees a nest (Look), what it wants to do
 * with it (Recipe), and what each class provides (ClassPolicy). A recipe is a point of the class's space: the same
 * function turns a default's recipe and a tuner's point into steps, so every default is a point of its space. */
#ifndef NC_SCHEDULES_INT_H
#define NC_SCHEDULES_INT_H

#include "schedules/schedules.h"

/* ---- look.c: questions about a kernel that is only read ------------------------------------------------ */

#define MAX_LOOK_AXES 8
#define MAX_LOOK_NAME 6 /* characters of an axis or operand; longer ones might not fit a step's arguments */

typedef struct AxisList {
    int n, at[MAX_LOOK_AXES];
} AxisList;

typedef void ExprVisit(const Expr *x, void *ctx);

bool list_has(const AxisList *l, int axis);
void list_add(AxisList *l, int axis); /* at the end, once */
const char *axis_text(const Kernel *k, int axis);
bool expr_has_axis(const Expr *x, int axis);
const Expr *let_of(const Phase *p, const Expr *x); /* the value of a let of the phase's body, else x */
bool value_has_axis(const Phase *p, const Expr *x, int axis); /* also by its lets */
void reduction_visit(const Phase *p, ExprVisit *visit, void *ctx); /* lets and updates inside the reduction */
void finish_visit(const Phase *p, ExprVisit *visit, void *ctx);
bool kernel_has_op(const Kernel *k, ScalarOp op);
bool names_fit(const Kernel *k); /* few axes with short names */
int64_t axis_extent(const Kernel *k, const PickHint *hint, int axis); /* where known, by the hint too; else -1 */
int64_t axis_constant(const Kernel *k, int axis); /* a constant extent, else -1 */
/* Product of all extents, at most `most`; an extent that is not known counts as most. */
int64_t kernel_work(const Kernel *k, const PickHint *hint, int64_t most);
const Target *hint_target(const PickHint *hint);
int hint_threads(const PickHint *hint); /* 2 where not known: as good as many */
int64_t power_below(int64_t n, int64_t most); /* the largest power of two that is at most both; n >= 1 */
int64_t blocks(int64_t n, int64_t block);     /* rounded up; huge where n is not known */

typedef struct Words { /* the arguments of one step, as they grow */
    char text[MAX_STEP_ARGS];
} Words;

void word_add(Words *w, char between, const char *name, const char *half);

/* The bound of "axis < bound ? .. : .." where it is a constant or a symbol; NULL: another expression. */
const Expr *cut_bound(const Expr *x, int axis);
const char *cut_word(Arena *m, const Expr *bound); /* as step cut takes it */

/* ---- legal.c ---- */

/* Is this schedule legal on the kernel? why may be NULL. Leaves only when memory is short. */
bool schedule_legal(Env *e, const Kernel *k, const Schedule *s, Err *why);

/* ---- look_contraction.c ---- */

#define MAX_READS 4
typedef struct Contraction {
    AxisList batch;        /* space axes that neither or both factors of the products vary along */
    int shared;            /* the batch axis that threads can share; -1: none turns more than once */
    int m, n;              /* one factor varies along n, the other along m; m is -1 where no axis does */
    int red;               /* the reduce axis */
    int n_sums;
    int n_panels, panel[MAX_READS];    /* constant operands read along n by one index: they can be packed */
    AxisList panel_batch[MAX_READS];   /* batch axes of that index */
    int n_loose, loose[MAX_READS];     /* other operands read along n in the reduction */
    int loose_piece[MAX_READS];        /* 1: only below the cut; 2: only from it on; 0: anywhere */
    bool loose_all;        /* more of them than are listed */
    const char *cut;       /* "n < cut" chooses what is read; NULL: nothing does */
    int64_t chunk;         /* an index holds red / chunk or red % chunk; 0: none does */
    bool exp;
} Contraction;

/* ---- classify.c ---- */

typedef struct Rows {
    AxisList outer;        /* space axes around the reductions */
    AxisList reduce;       /* reduce axes, innermost in their phases */
    AxisList inner;        /* space axes innermost in phases of their own */
    bool single;           /* one phase: `outer` are its own space axes, and there is no inner axis */
    const char *keep;      /* what step keep can take, "t2 r"; NULL: nothing is computed twice */
    bool product, exp;     /* a sum adds products; exp is computed */
} Rows;

#define MAX_CUTS 3
typedef struct Points {   /* elementwise and gather */
    AxisList outer;        /* around all phases */
    AxisList inner;        /* the last phase's own */
    int n_cuts;            /* conditions on the last axis end here */
    const char *cut[MAX_CUTS];     /* as step cut takes them, each counted from the one before */
    int64_t piece[MAX_CUTS + 1];   /* elements of the last axis between cuts; -1: not constant */
    bool exp;
} Points;

typedef struct Look {
    KernelClass class;
    const Kernel *k;
    union {
        Contraction c;
        Rows r;
        Points p;
    };
} Look;

void kernel_look(Env *e, const Kernel *k, Look *l); /* memory is e->model */
bool look_contraction(Env *e, const Kernel *k, Contraction *c); /* false: it is none */

/* ---- contraction.c, row.c, points.c: recipes as steps ---------------------------------------------------- */

enum { LANES_NONE = 0, LANES_N = 1, LANES_STAGED = 2 };  /* Tile.lanes; else so many along the reduction */
enum { PAR_NONE = 0, PAR_BATCH = 1, PAR_OUTER = 2 };     /* Tile.par */
enum { TAIL_BY_PEEL = 0, TAIL_BY_MASK = 1 };             /* RowRecipe.tail, PointRecipe.tail */

typedef struct Tile {
    int lanes;         /* LANES_NONE; along n; along n, of local copies of what cannot be packed; or how many
                          along the reduction, 4 and more */
    int mr;            /* rows of the register tile; 1: m stays a loop */
    int nr;            /* columns; 1: n stays a loop */
    int ku;            /* unroll of the reduction; 1: none */
    int kc;            /* the reduction in blocks of this many; 0: none */
    int cut;           /* n is cut where what is read changes */
    int panels;        /* pack what can be packed */
    int m_outer;       /* the loop over tiles of m stands outside that of n */
    int par;           /* which loop threads share: PAR_NONE, _BATCH, _OUTER: of m and n the outer one */
    int prefetch;      /* bytes ahead in the panels; 0: none */
    int bf16;          /* panels stored as bf16 */
    int fma, approx;
} Tile;

typedef struct RowRecipe {
    int lanes_r;       /* lanes along each reduction; 0: none */
    int lanes_j;       /* along the axes of the other phases; single: along the last space axis */
    int tail;          /* where lanes do not divide */
    int keep;          /* values computed for a reduction are kept for the last phase */
    int par;           /* 1 + place of the outer axis that threads share; 0: none */
    int fma, approx;
} RowRecipe;

typedef struct PointRecipe {
    int lanes;         /* along the last axis; 0: none */
    int tail;
    int cut;           /* cut the last axis where conditions on it end */
    int par;           /* 1 + place of the axis that threads share; 0: none */
    int approx;
} PointRecipe;

typedef union Recipe {
    Tile tile;
    RowRecipe row;
    PointRecipe point;
} Recipe;

typedef void ScheduleFn(const Look *l, const Recipe *p, Schedule *out);
ScheduleFn contraction_schedule, row_schedule, point_schedule, other_schedule;
bool recipe_legal(Env *e, const Look *l, const Recipe *p);

/* Vector registers that a tile keeps: accumulators, the vectors of one factor, and one of the other's. */
int tile_registers(const Look *l, const Target *t, const Tile *tile);
bool panel_fits(const Look *l, const PickHint *hint, const Tile *tile); /* the caches, for tiles of rows to read again */
int row_lanes_for(const Look *l, const AxisList *axes, int64_t widest); /* 0: an axis is too short for any */
int64_t row_turns(const Look *l, const PickHint *hint, const RowRecipe *p);     /* of the shared loop */
int64_t point_turns(const Look *l, const PickHint *hint, const PointRecipe *p); /* the same; p->par > 0 */
int point_lanes(const Look *l, bool cut, int widest);       /* a power of two; 1 where an axis is too short */
int point_least_lanes(const Look *l, const Target *t);      /* half a vector, or what short pieces hold; >= 2 */
int64_t point_longest(const Look *l, bool cut); /* piece of the last axis; -1: not constant */

/* ---- default_*.c: the recipe without tuning. False: none but the empty one is legal ---------------------- */

typedef bool DefaultFn(Env *e, const Look *l, const PickHint *hint, Recipe *out);
DefaultFn default_contraction, default_row, default_elementwise, default_gather, default_other;

/* ---- space_*.c: the knobs and rules of a class ---------------------------------------------------------- */

#define MAX_KNOB_WORDS 4
typedef struct KnobRow {
    const char *name;
    size_t offset;         /* of the recipe's int that it sets */
    const char *meaning;
    const char *word[MAX_KNOB_WORDS]; /* of the values 0, 1 ...; beyond: the number behind `prefix` */
    const char *prefix;
} KnobRow;

typedef struct SpaceInside SpaceInside;
typedef struct Rule {
    SpaceRule say;
    unsigned knobs;        /* bits of the knobs that it looks at, and of no others */
    bool (*holds)(const SpaceInside *in, const Recipe *p);
} Rule;

typedef struct ClassPolicy {
    ScheduleFn *schedule;
    DefaultFn *recipe;
    const KnobRow *knob;
    int n_knobs;
    const Rule *rule;
    int n_rules;
    void (*choices)(Env *e, Arena *m, Space *s, SpaceInside *in); /* fills the knobs' values, sets in->facts */
    int n_features;        /* beside the knobs */
    const char *const *feature;
    void (*features)(const SpaceInside *in, const Recipe *p, double *out);
} ClassPolicy;

/* space_elementwise.c, shared with gathers */
extern const KnobRow point_knobs[];
extern const Rule point_rules[];
enum { N_POINT_KNOBS = 5, N_POINT_RULES = 4 };
void point_choices(Env *e, Arena *m, Space *s, SpaceInside *in);

extern const ClassPolicy policy_contraction, policy_row, policy_elementwise, policy_gather, policy_other;
const ClassPolicy *class_policy(KernelClass c);

struct SpaceInside {
    Look look;
    PickHint hint;
    const ClassPolicy *policy;
    const void *facts;             /* what the class asked the mechanism */
    int n_knobs;
    const Knob *knob;
    unsigned live[MAX_KNOBS + 1];  /* by depth: earlier knobs that later rules look at */
    uint64_t *count[MAX_KNOBS + 1];/* by depth, then by the values of the live knobs: legal points below */
};

/* ---- space.c, knobs.c, rank.c ---- */
void choice_add(Knob *k, int value);               /* once, kept rising */
void choice_powers(Knob *k, int64_t least, int64_t most); /* powers of two */
int *recipe_slot(const SpaceInside *in, Recipe *p, int knob);
void recipe_set(const SpaceInside *in, Recipe *p, const Point *at);
bool rules_hold(const SpaceInside *in, const Recipe *p, int knob); /* those whose last knob this is */
int rule_last_knob(const Rule *r);
uint64_t count_all(Arena *m, SpaceInside *in);     /* the one counting pass */

#endif
