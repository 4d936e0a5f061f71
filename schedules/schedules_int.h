/* schedules_int.h - what the files of schedules/ share: how a policy sees a nest (Look), what
 * it wants to do with it (Recipe), and what each class provides (ClassPolicy). A recipe is a
 * point of the class's space: the same function turns a default's recipe and a tuner's point
 * into steps, so every default is a point of its space. */
#ifndef NC_SCHEDULES_INT_H
#define NC_SCHEDULES_INT_H

#include "schedules/schedules.h"

/* ---- look.c: questions about a kernel that is only read ------------------------------- */

#define MAX_LOOK_AXES 8
/* Of axes and operands: longer names might not fit a step's arguments */
#define MAX_LOOK_NAME 6

typedef struct AxisList {
    int n, at[MAX_LOOK_AXES];
} AxisList;

typedef void ExprVisit(const Expr *x, void *ctx);

bool list_has(const AxisList *l, int axis);
void list_add(AxisList *l, int axis); /* at the end, once */
bool names_fit(const Kernel *k);      /* few axes with short names */
const char *axis_text(const Kernel *k, int axis);
int kernel_outermost(const Kernel *k); /* axis of the outermost loop; -1: there is none */

bool expr_has_axis(const Expr *x, int axis);
/* The value of a let of the phase's body, else x itself. */
const Expr *let_of(const Phase *p, const Expr *x);
bool value_has_axis(const Phase *p, const Expr *x, int axis); /* also by its lets */
/* Lets and updates inside the reduction; what comes after it. */
void reduction_visit(const Phase *p, ExprVisit *visit, void *ctx);
void finish_visit(const Phase *p, ExprVisit *visit, void *ctx);
bool kernel_has_op(const Kernel *k, ScalarOp op);
/* The bound of "axis < bound ? .. : .." where it is a constant or a symbol, else NULL. */
const Expr *cut_bound(const Expr *x, int axis);
const char *cut_word(Arena *m, const Expr *bound); /* as step cut takes it */

/* An extent where it is constant, or known by the hint; else -1. */
int64_t axis_extent(const Kernel *k, const PickHint *hint, int axis);
int64_t axis_constant(const Kernel *k, int axis);
/* Product of all extents, at most `most`; an extent that is not known counts as most. */
int64_t kernel_work(const Kernel *k, const PickHint *hint, int64_t most);
const Target *hint_target(const PickHint *hint);
int exp_for(const PickHint *hint,
            bool exp);                  /* EXP_*, the fastest; EXP_LIBM: none is computed */
void add_exp(Schedule *s, int way);     /* EXP_* as a step */
int hint_threads(const PickHint *hint); /* 2 where not known: as good as many */
/* The largest power of two that is at most both; n >= 1. */
int64_t power_below(int64_t n, int64_t most);
int64_t blocks(int64_t n, int64_t block); /* rounded up; INT32_MAX where n is not known */

typedef struct Words { /* the arguments of one step, as they grow */
    char text[MAX_STEP_ARGS];
} Words;

void word_add(Words *w, char between, const char *name, const char *half);

/* ---- legal.c ---- */

/* Runs body with an arena that is gone afterwards, also when body fails. */
typedef void ScratchBody(Env *e, Arena *scratch, void *arg);
void with_scratch(Env *e, ScratchBody *body, void *arg);
/* Is it legal on the kernel? Else why says why not; it may be NULL. */
bool schedule_legal(Env *e, const Kernel *k, const Schedule *s, Err *why);

/* ---- classify.c, look_contraction.c: kernels as policies see them --------------------- */

#define MAX_READS 4
typedef struct Contraction {
    AxisList batch; /* space axes that neither or both factors of the products vary along */
    int shared;     /* the batch axis that threads can share; -1: none turns more than once */
    int64_t group;  /* so many turns of `shared` read the same along n; 0: each reads its own */
    int m, n;       /* one factor varies along n, the other along m; m -1: along no axis */
    int red;        /* the reduce axis */
    int n_sums;
    /* Constant operands read along n, each by one index: they can be packed. */
    int n_panels, panel[MAX_READS];
    AxisList panel_batch[MAX_READS]; /* batch axes of that index */
    /* Other operands read along n in the reduction. */
    int n_loose, loose[MAX_READS];
    int loose_piece[MAX_READS]; /* 1: only below the cut; 2: only from it on; 0: anywhere */
    bool loose_all;             /* more of them than are listed */
    const char *cut;            /* "n < cut" chooses what is read; NULL: nothing does */
    bool resumes;               /* a sum can wait in the output between blocks of red */
    int64_t chunk;              /* an index holds red / chunk or red % chunk; 0: none does */
    bool exp;
} Contraction;

typedef struct Rows {
    AxisList outer;    /* space axes around the reductions */
    AxisList reduce;   /* reduce axes, innermost in their phases */
    AxisList inner;    /* space axes innermost in phases of their own */
    bool single;       /* one phase: `outer` are its space axes, and there is no inner axis */
    const char *keep;  /* what step keep can take, "t2 r"; NULL: nothing is computed twice */
    bool product, exp; /* a sum adds products; exp is computed */
} Rows;

#define MAX_CUTS 3
typedef struct Points {          /* elementwise and gather */
    AxisList outer;              /* around all phases */
    AxisList inner;              /* the last phase's own */
    int n_cuts;                  /* conditions on the last axis end here */
    const char *cut[MAX_CUTS];   /* as step cut takes them, each counted from the one before */
    int64_t piece[MAX_CUTS + 1]; /* elements of the last axis between cuts; -1: not constant */
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

void kernel_look(Env *e, const Kernel *k, Look *l);             /* memory is e->model */
bool look_contraction(Env *e, const Kernel *k, Contraction *c); /* false: it is none */

/* ---- recipes: what to do with a kernel of a class ------------------------------------- */

enum { LANES_NONE, LANES_N, LANES_STAGED }; /* Tile.lanes; else so many along the reduction */
enum { PAR_NONE, PAR_BATCH, PAR_OUTER };    /* Tile.par: of m and n the outer one */
/* Tile.group: rows of the tile, or in turns around it */
enum { GROUP_NONE, GROUP_ROWS, GROUP_AROUND };
enum { EXP_LIBM, EXP_POLYNOMIAL, EXP_FUSED };
enum { MOST_PREFETCH = 1 << 14 };    /* a distance; a panel that is a distance too is larger */
enum { MOST_AHEAD = 1 << 18 };       /* of two such panels a second-level cache has room */
enum { PREFETCH_PANEL = 1 };         /* Tile.prefetch: the same place of the next panel */
enum { TAIL_BY_PEEL, TAIL_BY_MASK }; /* RowRecipe.tail, PointRecipe.tail */

typedef struct Tile {
    /* LANES_NONE; along n; along n, of local copies of what cannot be packed; or how many along
     * the reduction, 4 and more. */
    int lanes;
    int mr;       /* rows of the register tile; 1: m stays a loop */
    int nr;       /* columns; 1: n stays a loop */
    int ku;       /* unroll of the reduction; 1: none */
    int kc;       /* the reduction in blocks of this many; 0: none */
    int around;   /* these blocks stand around the loop over tiles of rows */
    int group;    /* GROUP_*: turns of the batch that read the same along n */
    int cut;      /* n is cut where what is read changes */
    int panels;   /* pack what can be packed */
    int m_outer;  /* the loop over tiles of m stands outside that of n */
    int par;      /* which loop threads share */
    int prefetch; /* bytes ahead in the panels; PREFETCH_PANEL; 0: none */
    int bf16;     /* what could be packed is stored as bf16, where it comes from that */
    int fma, approx;
} Tile;

typedef struct RowRecipe {
    int lanes_r; /* along each reduction; 0: none */
    int lanes_j; /* along the axes of the other phases; single: along the last space axis */
    int tail;    /* where lanes do not divide */
    int keep;    /* values computed for a reduction are kept for the last phase */
    int par;     /* 1 + place of the outer axis that threads share; 0: none */
    int fma, approx;
} RowRecipe;

typedef struct PointRecipe {
    int lanes; /* along the last axis; 0: none */
    int tail;
    int cut;  /* the last axis is cut where conditions on it end */
    int par;  /* 1 + place of the axis that threads share; 0: none */
    int bf16; /* constants that come from bf16 are stored so */
    int approx;
} PointRecipe;

typedef union Recipe {
    Tile tile;
    RowRecipe row;
    PointRecipe point;
} Recipe;

/* contraction.c, row.c, points.c: as steps */
typedef void ScheduleFn(const Look *l, const Recipe *p, Schedule *out);
ScheduleFn contraction_schedule, row_schedule, point_schedule, other_schedule;
bool recipe_legal(Env *e, const Look *l, const Recipe *p);

/* default_*.c: the recipe without tuning. False: none is legal but no steps at all */
typedef bool DefaultFn(Env *e, const Look *l, const PickHint *hint, Recipe *out);
DefaultFn default_contraction, default_row, default_elementwise, default_gather, default_other;

/* contraction.c: does what can be packed come from bf16? Registers for accumulators, the vectors of one factor and one of the other; and
 * whether the caches hold a panel until the next tile of rows reads it again */
int tile_rows(const Look *l, const Tile *tile);
bool comes_from_bf16(const Look *l);
int tile_registers(const Look *l, const Target *t, const Tile *tile);
bool panel_fits(const Look *l, const PickHint *hint, const Tile *tile);
/* Of one operand; not above 0 where k is not known. */
int64_t panel_bytes(const Kernel *k, const Contraction *c, const Tile *t);

/* points.c: does any constant come from bf16? */
bool points_from_bf16(const Kernel *k);

/* row.c, points.c: lanes that fit the axes, powers of two; turns of the loop that is shared */
int row_lanes(const Look *l, const AxisList *axes, int64_t widest); /* 0: too short for any */
int64_t row_turns(const Look *l, const PickHint *hint, const RowRecipe *p);
int point_lanes(const Look *l, bool cut, int widest);  /* 1: too short for any */
int point_least_lanes(const Look *l, const Target *t); /* half a vector, less in short pieces */
int64_t point_longest(const Look *l, bool cut);        /* piece of the last axis; -1: unknown */
int64_t point_turns(const Look *l, const PickHint *hint, const PointRecipe *p);

/* ---- what a class provides ------------------------------------------------------------ */

#define MAX_KNOB_WORDS 4
typedef struct KnobRow {
    const char *name;
    size_t offset; /* of the recipe's int that it sets */
    const char *meaning;
    const char *word[MAX_KNOB_WORDS]; /* of the values 0, 1 ... */
    const char *prefix;               /* of values without a word */
} KnobRow;

typedef struct SpaceInside SpaceInside;
typedef struct Rule {
    SpaceRule say;
    unsigned knobs; /* bits of the knobs that it looks at, and of no others */
    bool (*holds)(const SpaceInside *in, const Recipe *p);
} Rule;

typedef struct ClassPolicy {
    ScheduleFn *schedule;
    DefaultFn *recipe;
    const KnobRow *knob;
    int n_knobs;
    const Rule *rule;
    int n_rules;
    /* Fills the knobs' values for this kernel and sets in->facts. */
    void (*choices)(Env *e, Arena *m, Space *s, SpaceInside *in);
    int n_features; /* beside the knobs */
    const char *const *feature;
    void (*features)(const SpaceInside *in, const Recipe *p, double *out);
} ClassPolicy;

extern const ClassPolicy policy_contraction, policy_row, policy_elementwise, policy_gather;
extern const ClassPolicy policy_other;
const ClassPolicy *class_policy(KernelClass c);

/* space_elementwise.c, shared with gathers */
enum { N_POINT_KNOBS = 6, N_POINT_RULES = 4 };
extern const KnobRow point_knobs[N_POINT_KNOBS];
extern const Rule point_rules[N_POINT_RULES];
void point_choices(Env *e, Arena *m, Space *s, SpaceInside *in);

/* ---- space.c, knobs.c, rank.c ---------------------------------------------------------- */

struct SpaceInside {
    Look look;
    PickHint hint;
    const ClassPolicy *policy;
    const void *facts; /* what the class asked the mechanism */
    int n_knobs;
    const Knob *knob;
    /* By depth: earlier knobs that later rules look at; and, by their values, legal points
     * below. */
    unsigned live[MAX_KNOBS + 1];
    uint64_t *count[MAX_KNOBS + 1];
};

#define MAX_LOG2 9                                        /* lanes and columns below 512 */
int log2_of(int n);                                       /* 0 for 0 too */
void choice_add(Knob *k, int value);                      /* once, kept rising */
void choice_flag(Knob *k, bool both);                     /* 0, and 1 */
void choice_exp(Knob *k, bool exp, const PickHint *hint); /* where exp is computed */
void choice_powers(Knob *k, int64_t least, int64_t most); /* powers of two */
int *recipe_slot(const SpaceInside *in, Recipe *p, int knob);
void recipe_set(const SpaceInside *in, Recipe *p, const Point *at);
int rule_last_knob(const Rule *r);
bool rules_hold(const SpaceInside *in, const Recipe *p, int knob); /* with this last knob */
uint64_t count_all(Arena *m, SpaceInside *in);                     /* the one counting pass */

#endif
