/* steps.h - the schedule steps: one row is one step. The enum, the parser's and the printer's names, the
 * table of functions and docs/steps.md are expanded from this list. Each step is a file-local function in
 * apply*.c that edits the axis table and the loop lists of a nest, or refuses with a sentence.
 * exact: the step never changes a bit of the result.
 *
 *    id        name        arguments     exact  meaning and legality */
/* clang-format off */
#define STEPS(X)                                                                                                    \
    X(SPLIT,    "split",    "a f [tail]", true,  "axis a into a.o and a.i of extent f; tail is peel, mask, pad, overlap or switch where f does not divide") \
    X(ORDER,    "order",    "a b ...",    true,  "these loops, outermost first; a reduction may move outward over space axes, a reduce axis never over another of its own") \
    X(ACC,      "acc",      "a",          false, "private accumulators over the constant reduce axis a, combined afterwards in a fixed tree: reassociates sums") \
    X(RESUME,   "resume",   "a",          true,  "between turns of a, the outermost reduce loop, sums lie in the output: space loops of any extent may stand inside it; comes before order") \
    X(VEC,      "vec",      "a",          true,  "the constant axis a into lanes: every access has unit stride or none along it") \
    X(UNROLL,   "unroll",   "a",          true,  "the constant axis a is written out; accumulators become named scalars") \
    X(DOT,      "dot",      "a",          true,  "the constant-4 reduce axis a of int8 products into one lane operation: exact; a is the innermost loop") \
    X(FMA,      "fma",      "",           false, "a multiply feeding an accumulator's add becomes one fused operation") \
    X(APPROX,   "approx",   "exp [fma]",  false, "libm's exp becomes the library's polynomial, scalar and vector alike; fma: its multiplies and adds fused") \
    X(PACK,     "pack",     "x layout",   true,  "the constant operand x in panels, laid out once at load; layout: axes, outermost first, as n.o,k,n.i") \
    X(STAGE,    "stage",    "x a",        true,  "the tile of x that one turn of axis a reads is copied to a local, contiguous buffer first; comes after splits and order") \
    X(KEEP,     "keep",     "t a",        true,  "the value t, computed at each a, is left in the output's row and read back by the last phase instead of computed again") \
    X(CUT,      "cut",      "a e",        true,  "the space axis a at e: axes a.0 below and a.1 from there on, each with code of its own, in which selects on a fold") \
    X(STORE,    "store",    "x dtype",    true,  "storage of operand x, in place or in panels, lossless only: bf16 where its source is bf16; widened when it is loaded") \
    X(PREFETCH, "prefetch", "x a d",      true,  "software prefetch of x, d bytes ahead, at each turn of axis a") \
    X(PAR,      "par",      "a",          true,  "the outermost space axis a over the pool; a reduction is never split over threads")
/* clang-format on */
