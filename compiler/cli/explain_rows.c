/* explain_rows.c - what is known of an answer, as rows of tables: a table of sections, each with its columns
 * and the function that fills its rows. Times are of one call, in ns. */
#include <math.h>
#include <string.h>

#include "cli/explain.h"

static const char *hex(Arena *m, Hash h)
{
    char text[33] = "";
    if (h.hi || h.lo) {
        hash_hex(h, text);
    }
    return arena_str(m, text);
}

static void begin_row(Table *t, const Answer *a)
{
    table_cell(t, "%s", a->site->label);
}

static void id_cell(Table *t, int64_t id)
{
    if (id == DB_NONE) {
        table_cell(t, "%s", "");
    } else {
        table_cell(t, "%lld", (long long)id);
    }
}

static const DbWinner *winner_of(const Answer *a)
{
    return a->found.found == DB_HIT ? &a->found.winner : NULL;
}

/* ---- answer ------------------------------------------------------------------------------ */

static const char *const answer_columns[] = {
    "call_site", "answer", "field",    "why",    "schedule", "c_hash",       "#run",
    "#duel",     "#ns",    "#ratio",   "#lo",    "#hi",      "also_differs", "kernel",
    "kind",      "#calls", "#threads", "regime", "sizes"};

static void answer_rows(const Here *h, const Answer *a, Table *t)
{
    const DbWinner *w = winner_of(a);
    Buf schedule;
    buf_init(&schedule, t->arena);
    schedule_print(&a->schedule, &schedule);
    begin_row(t, a);
    table_cell(t, "%s", a->outcome);
    table_cell(t, "%s", a->field);
    table_cell(t, "%s", a->why);
    table_cell(t, "%s", schedule.at);
    table_cell(t, "%s", hex(t->arena, a->c_hash));
    id_cell(t, w ? w->run : DB_NONE);
    id_cell(t, w ? w->duel : DB_NONE);
    table_number(t, w ? w->b_ns : NAN, "%.1f");
    table_number(t, w ? w->ratio : NAN, "%.4f");
    table_number(t, w ? w->ratio_lo : NAN, "%.4f");
    table_number(t, w ? w->ratio_hi : NAN, "%.4f");
    table_cell(t, "%s", a->found.soft ? a->found.soft : "");
    table_cell(t, "%s", hex(t->arena, a->site->kernel->hash));
    table_cell(t, "%s", a->site->kernel->kind);
    table_cell(t, "%.0f", a->site->n_calls);
    table_cell(t, "%d", h->n_threads);
    table_cell(t, "%s", a->site->regime);
    table_cell(t, "%s", db_sizes_text(t->arena, a->site->sym, a->site->kernel->n_syms));
}

/* ---- key: what agrees is not said twice -------------------------------------------------- */

static const char *const key_columns[] = {"call_site", "field", "here", "recorded", "differs"};

static void key_rows(const Here *h, const Answer *a, Table *t)
{
    DbKeyText here, there = {{NULL}};
    bool miss = a->found.found == DB_MISS;
    db_key_text(t->arena, &a->key, &here);
    if (h->db && (winner_of(a) || a->found.has_nearest)) {
        const DbWinner *w = &a->found.winner;
        db_winner_text(h->db, t->arena, w->run, w->task, &there);
    }
    for (int i = 0; i < N_DB_KEY_FIELDS; i++) {
        bool first = h->db && miss && (int)a->found.field == i;
        const char *has = there.value[i] ? there.value[i] : "";
        has = first && !*has ? a->found.has : has;
        begin_row(t, a);
        table_cell(t, "%s", db_key_field_name((DbKeyField)i));
        table_cell(t, "%s", here.value[i]);
        table_cell(t, "%s", *has && !strcmp(has, here.value[i]) ? "same" : has);
        table_cell(t, "%s", first ? "first" : "");
    }
}

/* ---- steps ------------------------------------------------------------------------------- */

static const char *const step_columns[] = {"call_site", "#number", "step", "meaning"};

static void step_rows(const Here *h, const Answer *a, Table *t)
{
    static const char *const meanings[] = {
#define X(id, name, args, exact, meaning) meaning,
        STEPS(X)
#undef X
    };
    (void)h;
    for (int i = 0; i < a->schedule.n; i++) {
        Schedule one = {.n = 1, .step = {a->schedule.step[i]}};
        Buf text;
        buf_init(&text, t->arena);
        schedule_print(&one, &text);
        begin_row(t, a);
        table_cell(t, "%d", i + 1);
        table_cell(t, "%s", text.at);
        table_cell(t, "%s", meanings[one.step[0].kind]);
    }
}

/* ---- evidence ---------------------------------------------------------------------------- */

static const char *const evidence_columns[] = {
    "call_site", "#run",    "#duel",  "against", "verdict", "#ratio",      "#lo",  "#hi",
    "#wins",     "#losses", "#pairs", "#p",      "#ns",     "#against_ns", "noisy"};

static int64_t n_pairs(const Here *h, const DbDuel *d, Arena *m)
{
    DbProcess p;
    int64_t n = 0;
    DbCursor c = DB_FIND(h->db, PROCESSES, d->run, d->idx);
    while (db_next(&c, m, &p)) {
        n += p.n_pairs;
    }
    return n;
}

/* The winner's match, if there is one. */
static void evidence_rows(const Here *h, const Answer *a, Table *t)
{
    const DbWinner *w = winner_of(a);
    DbDuel d;
    if (!w || !DB_ONE(h->db, DUEL, t->arena, &d, w->run, w->duel)) {
        return;
    }
    begin_row(t, a);
    id_cell(t, d.run);
    id_cell(t, d.idx);
    table_cell(t, "%s", d.a_name);
    table_cell(t, "%s", d.verdict);
    table_number(t, d.ratio, "%.4f");
    table_number(t, d.ratio_lo, "%.4f");
    table_number(t, d.ratio_hi, "%.4f");
    id_cell(t, d.wins);
    id_cell(t, d.losses);
    id_cell(t, n_pairs(h, &d, t->arena));
    table_number(t, d.p_anytime, "%.2g");
    table_number(t, d.b_ns, "%.1f");
    table_number(t, d.a_ns, "%.1f");
    table_cell(t, "%s", d.noisy ? "yes" : "no");
}

/* ---- roofline ---------------------------------------------------------------------------- */

static const char *const roofline_columns[] = {
    "call_site", "#read_bytes", "#written_bytes", "#flops",    "#read_gb_s",
    "#gflop_s",  "peaks",       "#memory_ns",     "#flops_ns", "#least_ns",
    "bound_by",  "#ns",         "#part"};

typedef struct Peak {
    double read, flops; /* per ns; 0: not known */
    const char *source;
} Peak;

/* What the probes beside the winner's own pairs say, the mean over its processes; else what was
 * measured now. */
static Peak peak_of(const Here *h, const Answer *a, Arena *m)
{
    const DbWinner *w = winner_of(a);
    Peak sum = {.source = "recorded beside its pairs"};
    DbProcess p;
    int n = 0;
    DbCursor c = DB_FIND(h->db, PROCESSES, w ? w->run : 0, w ? w->duel : 0);
    while (w && db_next(&c, m, &p)) {
        if (p.flipped == 0) {
            sum.read += (p.read_before + p.read_after) / 2;
            sum.flops += (p.flops_before + p.flops_after) / 2;
            n++;
        }
    }
    return (Peak){sum.read / n, sum.flops / n, sum.source};
}

static void roofline_rows(const Here *h, const Answer *a, Table *t)
{
    DbRunTask work = db_blank_run_task();
    const DbWinner *w = winner_of(a);
    Peak peak = {h->read_bytes_per_ns, h->flops_per_ns, "measured now"};
    work_row(h->e, a->site->kernel, a->site->sym, &work);
    if (peak.flops == 0) {
        peak = w ? peak_of(h, a, t->arena) : (Peak){NAN, NAN, "none; --peaks measures them"};
    }
    double memory_ns = (double)work.read_bytes / peak.read;
    double flops_ns = work.flops == DB_NONE ? NAN : (double)work.flops / peak.flops;
    double least_ns =
        fmax(isfinite(memory_ns) ? memory_ns : 0, isfinite(flops_ns) ? flops_ns : 0);
    begin_row(t, a);
    id_cell(t, work.read_bytes);
    id_cell(t, work.write_bytes);
    id_cell(t, work.flops);
    table_number(t, peak.read, "%.2f");
    table_number(t, peak.flops, "%.2f");
    table_cell(t, "%s", peak.source);
    table_number(t, memory_ns, "%.1f");
    table_number(t, flops_ns, "%.1f");
    table_number(t, least_ns > 0 ? least_ns : NAN, "%.1f");
    table_cell(t, "%s", !(least_ns > 0) ? "" : least_ns == memory_ns ? "memory" : "arithmetic");
    table_number(t, w ? w->b_ns : NAN, "%.1f");
    table_number(t, w && least_ns > 0 ? least_ns / w->b_ns : NAN, "%.3f");
}

/* ---- the sections ------------------------------------------------------------------------ */

static const char *const text_columns[] = {"call_site", "text"};

#define COLUMNS(list) list, countof(list)
const Section section[N_SECTIONS] = {
    {"answer", "hit, miss or stale, and why; what is built, and its gain",
     COLUMNS(answer_columns), answer_rows, NULL},
    {"key", "what is looked up, beside the row that serves or comes nearest",
     COLUMNS(key_columns), key_rows, NULL},
    {"steps", "the schedule, step by step", COLUMNS(step_columns), step_rows, NULL},
    {"evidence", "the match that a winner stands on", COLUMNS(evidence_columns), evidence_rows,
     NULL},
    {"roofline", "bytes and flops of a call, and the least time they take",
     COLUMNS(roofline_columns), roofline_rows, NULL},
    {"loops", "the loop nest after each step", COLUMNS(text_columns), NULL, code_loops},
    {"c", "the C", COLUMNS(text_columns), NULL, code_c},
    {"asm", "the machine code, by objdump", COLUMNS(text_columns), NULL, code_asm},
};

void section_rows(const Here *h, const Section *s, const Answer *a, Table *t)
{
    if (s->rows) {
        s->rows(h, a, t);
    } else {
        Buf b;
        buf_init(&b, t->arena);
        s->text(h, a, &b);
        begin_row(t, a);
        table_cell(t, "%s", b.at);
    }
}
