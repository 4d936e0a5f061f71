/* lookup.c - which schedule for this kernel here? The kernel is found by its hash and
 * confirmed by its text; then the winners of that kernel, best first, are compared with the
 * key field by field. Only rows of this kernel are touched, so other records never change an
 * answer. */
#include <stdlib.h>
#include <string.h>

#include "db/db_int.h"

typedef struct Lookup {
    Db *db;
    Arena *a;
    const DbKey *key;
    DbAnswer *out;
    DbMachine machine; /* those of the row at hand, kept while their ids stay */
    DbToolchain toolchain;
} Lookup;

/* ---- one row against the key ---- */

typedef struct Row {
    int64_t run, task, n_threads;
    const char *regime, *sizes;
    bool tuned_here; /* its task's sizes are those asked for */
    const DbWinnerRange *range;
    int n_ranges;
    int n_same, first; /* fields that agree; the first that does not */
} Row;

static bool in_ranges(const DbKey *key, const Row *r)
{
    for (int i = 0; i < r->n_ranges; i++) {
        const DbWinnerRange *g = &r->range[i];
        if (g->slot < key->n_sizes &&
            (key->size[g->slot] < g->least || key->size[g->slot] > g->most)) {
            return false;
        }
    }
    return true;
}

static void compare(const Lookup *l, Row *r)
{
    const DbMachine *m = l->key->machine, *n = &l->machine;
    const DbToolchain *t = l->key->toolchain, *u = &l->toolchain;
    const bool same[N_DB_KEY_FIELDS] = {
        [DB_KEY_KERNEL] = true,
        [DB_KEY_THREADS] = l->key->n_threads == r->n_threads,
        [DB_KEY_REGIME] = !strcmp(l->key->regime, r->regime),
        [DB_KEY_SIZES] = r->n_ranges >= 0 ? in_ranges(l->key, r) : r->tuned_here,
        [DB_KEY_ISA] = !strcmp(m->isa, n->isa),
        [DB_KEY_L1D] = m->l1d_bytes == n->l1d_bytes,
        [DB_KEY_L2] = m->l2_bytes == n->l2_bytes,
        [DB_KEY_L3] = m->l3_bytes == n->l3_bytes,
        [DB_KEY_CORES] = m->n_cores == n->n_cores,
        [DB_KEY_COMPILER] = !strcmp(t->version, u->version),
        [DB_KEY_WORDS] = !strcmp(t->words, u->words),
        [DB_KEY_FLAGS] = !strcmp(t->flags, u->flags),
        [DB_KEY_TARGET] = !strcmp(t->target, u->target),
    };
    r->n_same = 0, r->first = N_DB_KEY_FIELDS;
    for (int i = N_DB_KEY_FIELDS - 1; i >= 0; i--) {
        r->n_same += same[i];
        r->first = same[i] ? r->first : i;
    }
}

static void load_identity(Lookup *l, int64_t machine, int64_t toolchain)
{
    if (l->machine.id != machine) {
        DB_ONE(l->db, MACHINE, l->a, &l->machine, machine);
    }
    if (l->toolchain.id != toolchain) {
        DB_ONE(l->db, TOOLCHAIN, l->a, &l->toolchain, toolchain);
    }
}

static void load_ranges(Lookup *l, Row *r)
{
    Vec(DbWinnerRange) v = {0};
    DbWinnerRange g;
    DbCursor c = DB_FIND(l->db, RANGES, r->run, r->task);
    while (db_next(&c, l->a, &g)) {
        *vec_push(l->a, &v) = g;
    }
    r->range = v.at, r->n_ranges = v.n;
}

/* ---- a kernel that is not there ---- */

/* The line in which two texts differ first. */
static const char *line_at(Arena *a, const char *text, size_t at)
{
    size_t from = at;
    while (from > 0 && text[from - 1] != '\n') {
        from--;
    }
    return arena_strn(a, text + from, strcspn(text + from, "\n"));
}

static size_t same_length(const char *a, const char *b)
{
    size_t n = 0;
    while (a[n] && a[n] == b[n]) {
        n++;
    }
    return n;
}

static void unknown_kernel(Lookup *l, int64_t n_same_hash)
{
    DbAnswer *out = l->out;
    sqlite3_stmt *s = statement_of(l->db, ST_TUNED_KERNELS);
    size_t best = 0;
    int code;
    out->found = DB_MISS, out->field = DB_KEY_KERNEL;
    out->wanted = out->has = "";
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(s, 0);
        size_t n = same_length(l->key->kernel, text ? text : "");
        if (text && n > best) {
            best = n;
            out->wanted = line_at(l->a, l->key->kernel, n);
            out->has = line_at(l->a, text, n);
        }
    }
    sqlite3_reset(s);
    if (code != SQLITE_DONE) {
        db_fail(l->db, code, "read");
    }
    const char *unknown = "No winner has this kernel.";
    if (best) {
        unknown = arena_printf(
            l->a, "No winner has this kernel; the nearest says first '%s', and it '%s'.",
            out->has, out->wanted);
    }
    out->why = n_same_hash ? "A kernel of the same hash has another text." : unknown;
}

/* Its id; -1: it is not there. */
static int64_t find_kernel(Lookup *l)
{
    char hex[33];
    hash_hex(hash_str(l->key->kernel), hex);
    sqlite3_stmt *s = statement_of(l->db, ST_KERNEL_BY_HASH);
    must_bind(l->db, sqlite3_bind_text(s, 1, hex, 32, SQLITE_TRANSIENT));
    int64_t id = -1, n_same_hash = 0;
    int code;
    while ((code = sqlite3_step(s)) == SQLITE_ROW && id < 0) {
        const char *text = (const char *)sqlite3_column_text(s, 1);
        id = text && !strcmp(text, l->key->kernel) ? sqlite3_column_int64(s, 0) : -1;
        n_same_hash++;
    }
    sqlite3_reset(s);
    if (code != SQLITE_DONE && code != SQLITE_ROW) {
        db_fail(l->db, code, "read");
    }
    if (id < 0) {
        unknown_kernel(l, n_same_hash);
    }
    return id;
}

/* ---- winners ---- */

static bool nearer(const Row *a, const Row *b)
{
    return a->first != b->first ? a->first > b->first : a->n_same > b->n_same;
}

/* The best winner that serves, one that was tuned at these very sizes first; else the
 * nearest. */
static bool best_winner(Lookup *l, int64_t kernel, const char *sizes, Row *best)
{
    sqlite3_stmt *s = statement_of(l->db, ST_CANDIDATES);
    int code;
    bool any = false;
    sqlite3_bind_int64(s, 1, kernel);
    while ((code = sqlite3_step(s)) == SQLITE_ROW) {
        Row r = {.run = sqlite3_column_int64(s, 0),
                 .task = sqlite3_column_int64(s, 1),
                 .n_threads = sqlite3_column_int64(s, 2),
                 .regime = arena_str(l->a, (const char *)sqlite3_column_text(s, 3)),
                 .sizes = arena_str(l->a, (const char *)sqlite3_column_text(s, 4))};
        r.tuned_here = !strcmp(r.sizes, sizes);
        load_identity(l, sqlite3_column_int64(s, 5), sqlite3_column_int64(s, 6));
        load_ranges(l, &r);
        compare(l, &r);
        bool serves = r.first == N_DB_KEY_FIELDS;
        if (!any || nearer(&r, best) || (serves && r.tuned_here && !best->tuned_here)) {
            *best = r;
        }
        any = true;
    }
    sqlite3_reset(s);
    if (code != SQLITE_DONE) {
        db_fail(l->db, code, "read");
    }
    return any;
}

/* Soft facts that are known on both sides and differ. */
static const char *soft_differences(Lookup *l, int64_t run)
{
    DbRun r;
    Buf out, here, there;
    buf_init(&out, l->a);
    buf_init(&here, l->a);
    buf_init(&there, l->a);
    if (DB_ONE(l->db, RUN, l->a, &r, run)) {
        load_identity(l, r.machine, r.toolchain);
    }
    for (int i = FIRST_SOFT; i < db_table[DB_T_MACHINE].n_columns; i++) {
        buf_clear(&here);
        buf_clear(&there);
        row_cell(DB_T_MACHINE, l->key->machine, i, &here);
        row_cell(DB_T_MACHINE, &l->machine, i, &there);
        if (strcmp(here.at, there.at) && strcmp(here.at, "-") && strcmp(there.at, "-")) {
            buf_printf(&out, "%s%s", out.len ? ", " : "",
                       db_table[DB_T_MACHINE].column[i].name);
        }
    }
    return out.len ? out.at : NULL;
}

static void say_nearest(Lookup *l, const Row *r)
{
    DbAnswer *out = l->out;
    DbKeyText here, there;
    out->found = DB_MISS, out->has_nearest = true, out->field = (DbKeyField)r->first;
    db_key_text(l->a, l->key, &here);
    if (!db_winner_text(l->db, l->a, r->run, r->task, &there)) {
        fail(l->db->e, E_IO, "%s lacks rows: `schedb verify` says which.", l->db->path);
    }
    out->wanted = here.value[out->field];
    out->has = there.value[out->field];
    out->why = arena_printf(l->a, "The nearest winner differs in %s: '%s' there, '%s' here.",
                            db_key_field_name(out->field), out->has, out->wanted);
}

/* ---- other answers ---- */

static bool was_kept(Lookup *l, int64_t kernel, const char *sizes)
{
    sqlite3_stmt *s = statement_of(l->db, ST_KEPT);
    int code = SQLITE_DONE;
    bool kept = false;
    sqlite3_bind_int64(s, 1, kernel);
    while (!kept && (code = sqlite3_step(s)) == SQLITE_ROW) {
        Row r = {.n_threads = sqlite3_column_int64(s, 0),
                 .regime = arena_str(l->a, (const char *)sqlite3_column_text(s, 1)),
                 .n_ranges = -1};
        r.tuned_here = !strcmp((const char *)sqlite3_column_text(s, 2), sizes);
        load_identity(l, sqlite3_column_int64(s, 3), sqlite3_column_int64(s, 4));
        compare(l, &r);
        kept = r.first == N_DB_KEY_FIELDS;
        if (kept) {
            l->out->run = sqlite3_column_int64(s, 5);
            l->out->n_trials = sqlite3_column_int64(s, 6);
        }
    }
    sqlite3_reset(s);
    if (!kept && code != SQLITE_DONE) {
        db_fail(l->db, code, "read");
    }
    if (kept) {
        l->out->found = DB_KEPT;
        l->out->why = arena_printf(
            l->a, "%lld candidates were tried here, and none proved faster than the default.",
            (long long)l->out->n_trials);
    }
    return kept;
}

/* "s0=1..64,s1=*", or "*": is this size of that symbol within? */
static bool within(const char *sizes, int slot, int64_t size)
{
    char name[24];
    snprintf(name, sizeof name, "s%d=", slot);
    const char *at = strstr(sizes, name);
    if (!at || at[strlen(name)] == '*') {
        return true;
    }
    char *end;
    int64_t least = strtoll(at + strlen(name), &end, 10);
    bool open = strncmp(end, "..", 2) != 0 || end[2] < '0' || end[2] > '9';
    return size >= least && (open || size <= strtoll(end + 2, NULL, 10));
}

static bool was_imported(Lookup *l)
{
    char hex[33];
    hash_hex(hash_str(l->key->kernel), hex);
    const DbKey *k = l->key;
    sqlite3_stmt *s = statement_of(l->db, ST_IMPORTED_BY_KEY);
    const char *signature =
        db_signature(l->a, k->machine, k->toolchain, k->n_threads, k->regime);
    must_bind(l->db, sqlite3_bind_text(s, 1, signature, -1, SQLITE_TRANSIENT));
    must_bind(l->db, sqlite3_bind_text(s, 2, hex, 32, SQLITE_TRANSIENT));
    DbImported row;
    bool found = false;
    int code = SQLITE_DONE;
    while (!found && (code = sqlite3_step(s)) == SQLITE_ROW) {
        row_read(s, DB_T_IMPORTED, l->a, &row);
        found = true;
        for (int i = 0; i < k->n_sizes; i++) {
            found = found && within(row.sizes, i, k->size[i]);
        }
    }
    sqlite3_reset(s);
    if (!found && code != SQLITE_DONE) {
        db_fail(l->db, code, "read");
    }
    if (found) {
        l->out->imported = row;
        l->out->found = DB_IMPORTED_ROW;
        l->out->why = "It comes from a .sched file: this database has no evidence for it.";
    }
    return found;
}

void db_lookup(Db *db, Arena *a, const DbKey *key, DbAnswer *out)
{
    Lookup l = {.db = db, .a = a, .key = key, .out = out};
    Row best;
    *out = (DbAnswer){.found = DB_MISS, .wanted = "", .has = "", .why = ""};
    db_blank(DB_T_WINNER, &out->winner);
    db_blank(DB_T_IMPORTED, &out->imported);
    db_blank(DB_T_MACHINE, &l.machine);
    db_blank(DB_T_TOOLCHAIN, &l.toolchain);
    const char *sizes = db_sizes_text(a, key->size, key->n_sizes);
    int64_t kernel = find_kernel(&l);
    bool any = kernel >= 0 && best_winner(&l, kernel, sizes, &best);
    if (any && best.first == N_DB_KEY_FIELDS) {
        out->found = DB_HIT, out->run = best.run;
        DB_ONE(db, WINNER, a, &out->winner, best.run, best.task);
        out->soft = soft_differences(&l, best.run);
        return;
    }
    if ((kernel >= 0 && was_kept(&l, kernel, sizes)) || was_imported(&l)) {
        return;
    }
    if (any) {
        out->run = best.run;
        DB_ONE(db, WINNER, a, &out->winner, best.run, best.task);
        say_nearest(&l, &best);
    } else if (kernel >= 0) {
        unknown_kernel(&l, 0);
    }
}

const char *db_signature(Arena *a, const DbMachine *m, const DbToolchain *t, int64_t n_threads,
                         const char *regime)
{
    char *text = arena_printf(
        a, "%s, L1d %lld L2 %lld L3 %lld, %lld cores; %s%s%s, %s, %s; %lld threads, %s", m->isa,
        (long long)m->l1d_bytes, (long long)m->l2_bytes, (long long)m->l3_bytes,
        (long long)m->n_cores, t->version, *t->words ? " " : "", t->words, t->flags, t->target,
        (long long)n_threads, regime);
    for (char *at = text; (at = strpbrk(at, "\r\n")); at++) {
        *at = ' ';
    }
    return text;
}
