/* carried.c - the files of compiler/runtime, and what of base they use, within the compiler, as the
 * text that every built library carries. There they stand without base, so alone.h takes the place
 * of the headers that they include by name; otherwise they are, line for line, the files that the
 * tests know. */
#include <string.h>

#include "emit/emit.h"

#define CARRY(name, path)                     \
    __asm__(".section .rodata\n"              \
            ".global nc_text_" #name "\n"     \
            ".hidden nc_text_" #name "\n"     \
            "nc_text_" #name ":\n"            \
            ".incbin \"compiler/" path "\"\n" \
            ".byte 0\n"                       \
            ".previous\n");                   \
    extern const char nc_text_##name[] __attribute__((visibility("hidden")))

CARRY(api, "runtime/api.h");
CARRY(alone, "runtime/alone.h");
CARRY(runtime, "runtime/runtime.h");
CARRY(bf16, "base/bf16.c");
CARRY(pool, "runtime/pool.c");
CARRY(cpu, "runtime/cpu.c");
CARRY(weights, "runtime/weights.c");
CARRY(pack, "runtime/pack.c");
CARRY(model, "runtime/model.c");

/* Without the lines that include files of this project. */
static void carry(const char *text, Buf *out)
{
    while (*text) {
        size_t len = strcspn(text, "\n") + 1;
        if (strncmp(text, "#include \"", 10)) {
            buf_bytes(out, text, len);
        }
        text += len;
    }
    buf_char(out, '\n');
}

void emit_api(Buf *out)
{
    carry(nc_text_api, out);
}

void emit_runtime_header(Buf *out)
{
    buf_str(out, "/* runtime.h - what a library of nanocompile runs on: libc and threads. */\n"
                 "#ifndef NC_RUNTIME_ALONE_H\n#define NC_RUNTIME_ALONE_H\n\n");
    const char *const part[] = {nc_text_alone, nc_text_api, nc_text_runtime};
    for (size_t i = 0; i < countof(part); i++) {
        carry(part[i], out);
    }
    buf_str(out, "#endif\n");
}

void emit_runtime(Buf *out)
{
    const char *const part[] = {nc_text_pool,    nc_text_cpu,  nc_text_bf16,
                                nc_text_weights, nc_text_pack, nc_text_model};
    for (size_t i = 0; i < countof(part); i++) {
        carry(part[i], out);
    }
}

void emit_needs(Buf *out)
{
    buf_printf(out,
               "/* needs.c - which instructions its compiler may use; compiled as the kernels "
               "are. */\n"
               "const unsigned char nc_needs[%d] = {\n",
               N_CPU_NEEDS);
    for (int i = 0; i < N_CPU_NEEDS; i++) {
        buf_printf(out, "#ifdef __%s%s\n    [%d] = 1,\n#endif\n", cpu_need_macro[i],
                   strncmp(cpu_need_macro[i], "ARM", 3) ? "__" : "", i);
    }
    buf_str(out, "};\n");
}
