/* identity.c - rows that are named by what they say (machines, compilers, kernels, tasks,
 * spaces) or by who made them and when (runs, builds). An id is 53 bits of the hash of the
 * row's text, so that it means the same in every database. */
#include <string.h>
#include <unistd.h>

#include "db/db_int.h"

enum { AFTER_ID = 1, AFTER_HARD = 2 };

int64_t id_of(Hash h)
{
    return (int64_t)(h.lo >> 11);
}

/* Of the columns from first on. */
static Hash row_hash(Db *db, DbTable t, const void *row, int first)
{
    Buf b;
    buf_init(&b, work(db));
    row_text(t, row, first, &b);
    return hash_bytes(b.at, b.len);
}

/* ---- names ---- */

void identify_machine(Db *db, DbMachine *m)
{
    DbMachine hard = db_blank_machine();
    hard.isa = m->isa, hard.n_cores = m->n_cores;
    hard.l1d_bytes = m->l1d_bytes, hard.l2_bytes = m->l2_bytes, hard.l3_bytes = m->l3_bytes;
    m->hard = row_hash(db, DB_T_MACHINE, &hard, AFTER_HARD);
    m->id = id_of(row_hash(db, DB_T_MACHINE, m, AFTER_HARD));
}

void identify_toolchain(Db *db, DbToolchain *t)
{
    DbToolchain hard = *t;
    hard.path = NULL;
    t->hard = row_hash(db, DB_T_TOOLCHAIN, &hard, AFTER_HARD);
    t->id = id_of(row_hash(db, DB_T_TOOLCHAIN, t, AFTER_HARD));
}

void identify_kernel(DbKernel *k)
{
    k->hash = hash_str(k->text);
    k->id = id_of(k->hash);
}

void identify_task(Db *db, DbTask *t)
{
    t->id = id_of(row_hash(db, DB_T_TASK, t, AFTER_ID));
}

void identify_space(Db *db, DbSpace *s, const DbKnob *knob, int n_knobs,
                    const DbKnobChoice *choice, int n_choices)
{
    Buf b;
    buf_init(&b, work(db));
    row_text(DB_T_SPACE, s, AFTER_ID, &b);
    for (int i = 0; i < n_knobs; i++) {
        row_text(DB_T_KNOB, &knob[i], AFTER_ID, &b);
    }
    for (int i = 0; i < n_choices; i++) {
        row_text(DB_T_KNOB_CHOICE, &choice[i], AFTER_ID, &b);
    }
    s->id = id_of(hash_bytes(b.at, b.len));
}

/* ---- recorded where they are new ---- */

static bool is_known(Db *db, DbQuery q, int64_t id, void *row)
{
    return db_one(db, q, &id, 1, work(db), row);
}

void db_name_machine(Db *db, DbMachine *m)
{
    identify_machine(db, m);
}

int64_t db_put_machine(Db *db, DbMachine *m)
{
    DbMachine known;
    identify_machine(db, m);
    if (!is_known(db, DB_Q_MACHINE, m->id, &known)) {
        db_add_machine(db, m);
    }
    return m->id;
}

int64_t db_put_toolchain(Db *db, DbToolchain *t)
{
    DbToolchain known;
    identify_toolchain(db, t);
    if (!is_known(db, DB_Q_TOOLCHAIN, t->id, &known)) {
        db_add_toolchain(db, t);
    }
    return t->id;
}

int64_t db_put_kernel(Db *db, const char *text)
{
    DbKernel k = {.text = text}, known;
    identify_kernel(&k);
    if (!is_known(db, DB_Q_KERNEL, k.id, &known)) {
        db_add_kernel(db, &k);
    } else if (strcmp(known.text, text) != 0) {
        fail(db->e, E_INPUT, "Cannot record a kernel in %s: another one has its id %lld.",
             db->path, (long long)k.id);
    }
    return k.id;
}

int64_t db_put_task(Db *db, DbTask *t)
{
    DbTask known;
    identify_task(db, t);
    if (!is_known(db, DB_Q_TASK, t->id, &known)) {
        db_add_task(db, t);
    }
    return t->id;
}

int64_t db_put_space(Db *db, DbSpace *s, DbKnob *knob, int n_knobs, DbKnobChoice *choice,
                     int n_choices)
{
    DbSpace known;
    identify_space(db, s, knob, n_knobs, choice, n_choices);
    if (is_known(db, DB_Q_SPACE, s->id, &known)) {
        return s->id;
    }
    db_add_space(db, s);
    for (int i = 0; i < n_knobs; i++) {
        knob[i].space = s->id;
        db_add_knob(db, &knob[i]);
    }
    for (int i = 0; i < n_choices; i++) {
        choice[i].space = s->id;
        db_add_knob_choice(db, &choice[i]);
    }
    return s->id;
}

bool db_put_imported(Db *db, const DbImported *row)
{
    sqlite3_stmt *s = statement_of(db, ST_PUT_IMPORTED);
    must_bind(db, row_bind(s, DB_T_IMPORTED, row));
    run_statement(db, s);
    return sqlite3_changes(db->sql) > 0;
}

/* ---- always new ---- */

static int64_t new_id(Db *db, DbTable t, const void *row)
{
    Buf b;
    buf_init(&b, work(db));
    buf_printf(&b, "process %ld at %llu\n", (long)getpid(), (unsigned long long)os_now_ns());
    row_text(t, row, AFTER_ID, &b);
    return id_of(hash_bytes(b.at, b.len));
}

int64_t db_add_new_run(Db *db, DbRun *r)
{
    r->id = new_id(db, DB_T_RUN, r);
    db_add_run(db, r);
    return r->id;
}

int64_t db_add_new_build(Db *db, DbBuild *b, DbBuildSite *site, int n_sites)
{
    b->id = new_id(db, DB_T_BUILD, b);
    db_add_build(db, b);
    for (int i = 0; i < n_sites; i++) {
        site[i].build = b->id, site[i].idx = i;
        db_add_build_site(db, &site[i]);
    }
    return b->id;
}

const char *db_sizes_text(Arena *a, const int64_t *value, int n)
{
    Buf b;
    buf_init(&b, a);
    for (int i = 0; i < n; i++) {
        buf_printf(&b, "%ss%d=%lld", i ? "," : "", i, (long long)value[i]);
    }
    return b.at;
}
