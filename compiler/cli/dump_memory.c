/* dump_memory.c - `dump plan` and `dump traffic`: where temporaries lie in the arena at the sizes that were
 * given, and what each kind of kernel reads and writes, as numbers and as polynomials in the symbols. */
#include <string.h>

#include "cli/dump.h"

static const char *const buffer_kinds[] = {[BUF_INPUT] = "input",
                                           [BUF_WEIGHT] = "weight",
                                           [BUF_CONST] = "const",
                                           [BUF_TEMP] = "temporary",
                                           [BUF_OUTPUT] = "output"};

void dump_plan(Dump *d)
{
    static const char *const columns[] = {"#buffer", "kind",        "type",      "#bytes",
                                          "#offset", "#first call", "#last call"};
    Table t;
    Plan plan;
    table_init(&t, &d->e->kernel, "plan", countof(columns), columns);
    plan_init(&plan, d->p, &d->e->kernel);
    if (!plan_update(&plan, d->p, d->sizes.value)) {
        fail(d->e, E_INPUT,
             "%s: at these sizes the temporaries take more bytes than can be counted.",
             d->source->path);
    }
    for (int i = 0; i < d->p->buffer.n; i++) {
        const Buffer *b = &d->p->buffer.at[i];
        if (b->kind != BUF_TEMP) {
            continue;
        }
        Buf type;
        buf_init(&type, &d->e->kernel);
        type_print(d->e, b->dtype, &b->shape, &type);
        table_cell(&t, "%d", i);
        table_cell(&t, "%s", buffer_kinds[b->kind]);
        table_cell(&t, "%s", type.at);
        table_cell(&t, "%lld", (long long)plan.bytes[i]);
        table_cell(&t, "%lld", (long long)plan.offset[i]);
        table_cell(&t, "%d", b->first);
        table_cell(&t, "%d", b->last);
    }
    table_print(&t, d->source->format, &d->out);
    if (d->source->format == FORMAT_TEXT) {
        buf_printf(&d->out, "Arena %lld bytes with reuse, %lld without.\n",
                   (long long)plan.arena_bytes, (long long)plan.total_bytes);
    }
}

static long long value_at(Dump *d, Dim poly)
{
    Err err;
    int64_t v;
    if (!dim_eval(d->e, poly, &d->sizes, &v, &err)) {
        fail(d->e, err.code, "%s: %s", d->source->path, err.text);
    }
    return v;
}

static void traffic_row(Dump *d, Table *t, const char *what, int calls, Dim read, Dim written)
{
    Dim sum = dim_add(d->e, read, written);
    table_cell(t, "%s", what);
    table_cell(t, "%d", calls);
    table_cell(t, "%lld", value_at(d, read));
    table_cell(t, "%lld", value_at(d, written));
    table_cell(t, "%lld", value_at(d, sum));
    table_cell(t, "%s", dim_text(d->e, sum));
}

static Sums sums_of_kind(Dump *d, const char *kind)
{
    Sums all = {0, dim_int(0), dim_int(0)};
    for (int i = 0; i < d->p->kernel.n; i++) {
        if (!strcmp(d->p->kernel.at[i]->kind, kind)) {
            Sums s = dump_sums(d, i);
            all.calls += s.calls;
            all.read_bytes = dim_add(d->e, all.read_bytes, s.read_bytes);
            all.write_bytes = dim_add(d->e, all.write_bytes, s.write_bytes);
        }
    }
    return all;
}

static bool first_of_its_kind(const Dump *d, int kernel)
{
    for (int i = 0; i < kernel; i++) {
        if (!strcmp(d->p->kernel.at[i]->kind, d->p->kernel.at[kernel]->kind)) {
            return false;
        }
    }
    return true;
}

void dump_traffic(Dump *d)
{
    static const char *const columns[] = {"kernels",  "#calls", "#read",
                                          "#written", "#bytes", "polynomial"};
    Table t;
    Dim read, written;
    table_init(&t, &d->e->kernel, "traffic", countof(columns), columns);
    for (int i = 0; i < d->p->kernel.n; i++) {
        const char *kind = d->p->kernel.at[i]->kind;
        if (first_of_its_kind(d, i)) {
            Sums s = sums_of_kind(d, kind);
            traffic_row(d, &t, kind, s.calls, s.read_bytes, s.write_bytes);
        }
    }
    program_bytes(d->e, d->p, &read, &written);
    traffic_row(d, &t, "all", d->p->call.n, read, written);
    table_print(&t, d->source->format, &d->out);
    if (d->source->format == FORMAT_TEXT) {
        Dim flops = program_flops(d->e, d->p);
        buf_printf(&d->out, "Float operations: %lld = %s\n", value_at(d, flops),
                   dim_text(d->e, flops));
    }
}
