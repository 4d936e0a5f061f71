/* build_make.c - a build as far as its C: the model's files opened, the schedules asked for, the tables made.
 * `build` goes on to a folder, the first use of a model to the cache. */
#include "cli/build.h"

static LibraryOptions library_options(Building *b, const char *baked)
{
    const Here *h = &b->picks.here;
    LibraryOptions lo = {.dir = baked,
                         .config = &b->config,
                         .file = &b->file,
                         .context = b->o->context,
                         .n_threads = h->n_threads,
                         .n_jobs = h->machine.n_threads,
                         .picker = &b->picks.picker,
                         .hint = hint_of_machine(&h->machine, h->n_threads),
                         .tc = &h->tc,
                         .f32 = b->o->f32,
                         .at_usual_sizes = true,
                         .stop = &interrupted,
                         .settle = layouts_settle,
                         .explain = picks_explain,
                         .ctx = b};
    return lo;
}

void building_compile(Env *e, Building *b, const char *dir, bool at_home)
{
    b->config = config_read(e, dir);
    checkpoint_open(e, &b->file, dir);
    picks_open(e, &b->picks, b->o);
    LibraryOptions lo = library_options(b, at_home ? dir : NULL);
    buckets_choice(e, b, &lo);
    model_library_compile(e, &lo, &b->library);
}

void building_close(void *building)
{
    Building *b = building;
    built_model_close(&b->built);
    checkpoint_release(&b->file);
    picks_close(&b->picks);
}
