/* record.c - what a run is, into the database: the command, the machine, the compiler, the constants, and the
 * tasks with all that is known of them before anything is measured. What happens in a task's session is
 * recorded by tuner/record.c. */
#include "tuner/cli/tune.h"

/* ---- the run ------------------------------------------------------------------------------- */

static void put_run(Env *e, void *arg)
{
    Record *r = arg;
    const TuneOptions *o = r->w->o;
    ClockQuality q = clock_quality();
    DbMachine machine = r->w->db_machine;
    DbToolchain tc = r->w->db_toolchain;
    DbRun row = db_blank_run();
    row.started_ns = os_wall_ns();
    row.program = "tune", row.version = NC_VERSION, row.command = o->words;
    row.protocol = PROTOCOL_VERSION;
    row.machine = db_put_machine(r->in.db, &machine);
    row.toolchain = db_put_toolchain(r->in.db, &tc);
    row.strategy = o->command ? NULL : strategy_name(o->strategy); /* NULL: no search */
    row.seed = (int64_t)o->seed, row.n_threads = r->w->n_threads;
    row.n_batch = o->protocol.batch;
    row.budget_ns = o->budget.ns ? (int64_t)o->budget.ns : DB_NONE;
    row.budget_trials = o->budget.trials ? o->budget.trials : DB_NONE;
    row.clock_grain_ns = (int64_t)q.grain_ns, row.clock_cost_ns = (int64_t)q.cost_ns;
    row.cpus = machine_cpus(e, &e->model, "");
    row.n_cpuset = r->w->machine.n_cpuset > 0 ? r->w->machine.n_cpuset : DB_NONE;
    r->in.run = db_add_new_run(r->in.db, &row);
    for (int i = 0; i < N_PROTOCOL; i++) {
        db_add_run_constant(r->in.db, &(DbRunConstant){r->in.run, protocol_row[i].name,
                                                       protocol_get(&o->protocol, i)});
    }
}

void record_run(Record *r)
{
    db_transact(r->in.db, put_run, r);
}

typedef struct RunEnd {
    Record *r;
    const char *ending, *why;
} RunEnd;

static void put_run_end(Env *e, void *arg)
{
    const RunEnd *t = arg;
    (void)e;
    db_end_run(t->r->in.db, t->r->in.run, os_wall_ns(), t->ending, t->why);
}

void record_run_end(Record *r, const char *ending, const char *why)
{
    RunEnd t = {r, ending, why};
    db_transact(r->in.db, put_run_end, &t);
}

/* ---- a task ---------------------------------------------------------------------------------- */

static int64_t put_space(Env *e, Db *db, const Space *s)
{
    DbSpace row = {.class = class_name(s->class),
                   .n_points = (int64_t)s->n_points,
                   .n_legal = (int64_t)s->n_legal};
    DbKnob *knob = arena_array(&e->kernel, DbKnob, s->n_knobs);
    Vec(DbKnobChoice) choice = {0};
    for (int i = 0; i < s->n_knobs; i++) {
        knob[i] = (DbKnob){.idx = i, .name = s->knob[i].name, .meaning = s->knob[i].meaning};
        for (int c = 0; c < s->knob[i].n; c++) {
            Buf word;
            buf_init(&word, &e->kernel);
            knob_word(s, i, c, &word);
            *vec_push(&e->kernel, &choice) = (DbKnobChoice){
                .knob = i, .idx = c, .value = s->knob[i].value[c], .word = word.at};
        }
    }
    return db_put_space(db, &row, knob, s->n_knobs, choice.at, choice.n);
}

int64_t item_task_row(const Workplace *w, Db *db, const Item *it)
{
    DbTask task = {.kernel = db_put_kernel(db, it->kernel->text),
                   .n_threads = it->task.n_threads,
                   .regime = regime_name[it->task.regime],
                   .sizes = db_sizes_text(&w->e->kernel, it->task.sym, it->task.n_syms)};
    return db_put_task(db, &task);
}

typedef struct TaskRow {
    Record *r;
    Item *item;
} TaskRow;

static void put_task(Env *e, void *arg)
{
    const TaskRow *t = arg;
    const Item *it = t->item;
    Db *db = t->r->in.db;
    bool searches = !t->r->w->o->command;
    DbRunTask row = db_blank_run_task();
    t->item->id = item_task_row(t->r->w, db, it);
    row.run = t->r->in.run, row.task = it->id, row.idx = t->r->n_tasks++;
    row.label = it->label;
    row.space = searches ? put_space(e, db, &it->space) : DB_NONE;
    row.flops = it->flops, row.read_bytes = it->read_bytes, row.write_bytes = it->write_bytes;
    row.share = it->share;
    row.default_schedule = it->base_text, row.default_c_hash = it->base_c_hash;
    row.default_rank = searches && it->has_rank ? (int64_t)it->base_rank : DB_NONE;
    db_add_run_task(db, &row);
    env_reset_kernel(e);
}

void record_task(Record *r, Item *item)
{
    TaskRow t = {r, item};
    db_transact(r->in.db, put_task, &t);
}

TaskRecord task_record_of(Record *r, const Item *item)
{
    return (TaskRecord){.run = &r->in,
                        .id = item->id,
                        .task = &item->task,
                        .space = &item->space,
                        .base = item->base_text,
                        .base_c_hash = item->base_c_hash};
}

typedef struct SliceRow {
    Record *r;
    DbSlice row;
} SliceRow;

static void put_slice(Env *e, void *arg)
{
    const SliceRow *t = arg;
    (void)e;
    db_add_slice(t->r->in.db, &t->row);
}

void record_slice(Record *r, const Item *item, const Bid *b, const Slice *s)
{
    const Workplace *w = r->w;
    SliceRow t = {r,
                  {.run = r->in.run,
                   .idx = r->n_slices++,
                   .task = item->id,
                   .elapsed_ns = (int64_t)workplace_spent_ns(w),
                   .budget_ns = (int64_t)s->ns,
                   .share = b->share,
                   .headroom = b->headroom,
                   .chance = s->chance,
                   .cost_ns = (int64_t)(b->candidate_ns * (uint64_t)s->n)}};
    db_transact(r->in.db, put_slice, &t);
}

typedef struct TaskEnd {
    Record *r;
    const Item *item;
    const char *ending, *why;
} TaskEnd;

static void put_task_end(Env *e, void *arg)
{
    const TaskEnd *t = arg;
    (void)e;
    db_end_run_task(t->r->in.db, t->r->in.run, t->item->id, os_wall_ns(), t->ending, t->why);
}

void record_task_over(Record *r, const Item *item, const char *ending, const char *why)
{
    TaskEnd t = {r, item, ending, why};
    db_transact(r->in.db, put_task_end, &t);
}

/* Not of one that was stopped: it has not ended, and can be taken up again. */
void record_task_end(Record *r, const Item *item, const SessionResult *s)
{
    record_task_over(r, item, s->winner.confirmed ? "winner" : ending_name[s->ending], s->why);
}
