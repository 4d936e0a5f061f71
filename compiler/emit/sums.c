/* sums.c - the helper that joins the lanes of as many vectors as each has lanes: lane i of the result is the
 * sum over vector i, in the same tree as sum: the upper half joins the lower until one lane is left.
 *
 * A step takes two vectors x and y in segments of 2 * h lanes, and makes one vector of segments of h lanes:
 * lower halves plus upper ones. For h >= 4 the segments of x come before those of y; below that they do so
 * within every 4 lanes, which is one operation on every machine. The order in which vectors meet makes
 * up for it. */
#include <stdio.h>

#include "emit/emit_int.h"

/* Lanes within which the segments of x come before those of y. */
static int block_of(int lanes, int h)
{
    return h >= 4 || lanes < 4 ? lanes : 4;
}

/* Where the lower halves are in x and y, one behind the other; the upper ones are h further. */
static void write_places(int lanes, int h, int further, Buf *out)
{
    int block = block_of(lanes, h);
    buf_str(out, "__builtin_shufflevector(x, y");
    for (int i = 0; i < lanes; i++) {
        int in_block = i % block, of_y = in_block / (block / 2);
        int segment = in_block % (block / 2) / h;
        buf_printf(out, ", %d",
                   of_y * lanes + i / block * block + segment * 2 * h + i % h + further);
    }
    buf_char(out, ')');
}

static void write_step(int lanes, int h, Buf *out)
{
    buf_printf(out, "static inline f32x%d halves%d_%d(f32x%d x, f32x%d y)\n{\n    return ",
               lanes, lanes, h, lanes, lanes);
    write_places(lanes, h, 0, out);
    buf_str(out, " +\n           ");
    write_places(lanes, h, h, out);
    buf_str(out, ";\n}\n");
}

/* Which vector has this turn to meet others, so that its sum ends in the lane of its number. */
static int vector_at(int lanes, int turn)
{
    int block = block_of(lanes, 1), blocks = lanes / block;
    return turn % blocks * block + turn / blocks;
}

/* before, with a number for each vector, and after. */
static void write_each(int lanes, const char *before, const char *after, Buf *out)
{
    for (int i = 0; i < lanes; i++) {
        const char *between = i == 0 ? "" : i % 4 ? ", " : ",\n    ";
        buf_printf(out, "%s%s%d%s", between, before, i, after);
    }
}

/* Two by two, until one is left. */
static void write_steps(int lanes, Buf *out)
{
    for (int h = lanes / 2; h > 0; h /= 2) {
        int apart = lanes / 2 / h;
        for (int turn = 0; turn < lanes; turn += 2 * apart) {
            int x = vector_at(lanes, turn), y = vector_at(lanes, turn + apart);
            buf_printf(out, "    v%d = halves%d_%d(v%d, v%d);\n", x, lanes, h, x, y);
        }
    }
}

#define CAN_SHUFFLE "#if defined __clang__ || __GNUC__ >= 12\n"

void write_sums(int lanes, Buf *out)
{
    char param[16], sum[16];
    snprintf(param, sizeof param, "f32x%d v", lanes);
    snprintf(sum, sizeof sum, "sum%d(v", lanes);
    buf_str(out, CAN_SHUFFLE "/* Lower halves of segments plus upper ones. */\n");
    for (int h = lanes / 2; h > 0; h /= 2) {
        write_step(lanes, h, out);
    }
    buf_str(out, "#endif\n/* Each lane is the sum over one vector, as sum has it. */\n");
    buf_printf(out, "static inline f32x%d sums%d(\n    ", lanes, lanes);
    write_each(lanes, param, "", out);
    buf_str(out, ")\n{\n" CAN_SHUFFLE);
    write_steps(lanes, out);
    buf_printf(out, "    return v0;\n#else\n    return (f32x%d){", lanes);
    write_each(lanes, sum, ")", out);
    buf_str(out, "};\n#endif\n}\n");
}
