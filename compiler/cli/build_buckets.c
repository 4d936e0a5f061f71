/* build_buckets.c - which lengths of prompts share a program, in a build: those that it is told, else those
 * that `bench --buckets` measured for a model of this shape here, else one for all. */
#include "cli/build.h"

#include <stdlib.h>
#include <string.h>

/* A number from 1, which ends at `end` or at the text's end. */
static const char *read_tokens(const char *at, int64_t *out, const char *ends)
{
    char *end;
    if (*at < '1' || *at > '9') {
        return NULL;
    }
    *out = strtoll(at, &end, 10);
    return *out < 1 << 24 && (!*end || strchr(ends, *end)) ? end : NULL;
}

bool buckets_parse(const char *text, Bucket *out, int *n)
{
    Bucket before = {0, 0};
    for (*n = 0; *n < MAX_BUCKETS; text++) {
        Bucket b;
        text = read_tokens(text, &b.usual, ":,");
        b.most = b.usual;
        if (text && *text == ':') {
            text = read_tokens(text + 1, &b.most, ",");
        }
        if (!text || b.usual <= before.usual || b.most <= before.most) {
            return false;
        }
        out[(*n)++] = before = b;
        if (!*text) {
            return true;
        }
    }
    return false;
}

BucketPlace buckets_place(const Building *b)
{
    const Here *h = &b->picks.here;
    return (BucketPlace){.config = &b->config,
                         .f32 = b->o->f32,
                         .machine = &h->db_machine,
                         .toolchain = &h->db_toolchain,
                         .n_threads = h->n_threads};
}

static void use_measured(Env *e, const Building *b, LibraryOptions *lo)
{
    BucketPlace at = buckets_place(b);
    BucketChoice c;
    if (!b->picks.here.db || b->o->naive || !buckets_find(b->picks.here.db, &at, &c)) {
        return;
    }
    lo->bucket = arena_dup(&e->model, c.bucket, sizeof *c.bucket * (size_t)c.n);
    lo->n_buckets = c.n;
    lo->buckets_why =
        arena_printf(&e->model, "measured: the worst regret is %.1f%% (margin %.3g%%)",
                     c.worst * 100, c.margin * 100);
}

void buckets_choice(Env *e, const Building *b, LibraryOptions *lo)
{
    Bucket *given = arena_array(&e->model, Bucket, MAX_BUCKETS);
    if (b->o->n_buckets) {
        lo->bucket = b->o->bucket;
        lo->n_buckets = b->o->n_buckets;
    } else if (b->o->buckets) {
        check(buckets_parse(b->o->buckets, given, &lo->n_buckets));
        lo->bucket = given;
        lo->buckets_why = "given";
    } else {
        use_measured(e, b, lo);
    }
}
