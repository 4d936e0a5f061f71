/* export_trial.c - what the formats of autotuning research have in common: a trial's knobs, its samples and
 * its moment, as pieces of JSON. Times are in milliseconds, as Kernel Tuner's are. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "db/db_int.h"

void json_text(Buf *out, const char *s)
{
    buf_json(out, s, strlen(s));
}

double ms_of(int64_t ns)
{
    return ns == DB_NONE ? 0 : (double)ns / 1e6;
}

/* A plain number bare, every other choice by its word. */
void json_choice(Buf *out, const char *word, const char *value)
{
    if (strcmp(word, value) == 0) {
        buf_str(out, value);
    } else {
        json_text(out, word);
    }
}

bool json_knobs(Db *db, const DbTrial *r, Buf *out)
{
    DbSql *q = db_sql(db, "SELECT name, word, value FROM v_knobs WHERE run = ?1 AND trial = ?2 "
                          "AND name IS NOT NULL ORDER BY knob");
    bool any = false;
    db_sql_bind_int(q, 1, r->run);
    db_sql_bind_int(q, 2, r->idx);
    while (db_sql_next(q)) {
        buf_str(out, any ? ", " : "");
        json_text(out, db_sql_cell(q, 0).text);
        buf_str(out, ": ");
        json_choice(out, db_sql_cell(q, 1).text, db_sql_cell(q, 2).text);
        any = true;
    }
    return any;
}

enum { DISCARDED = 1 | 2 | 4 | 32, INVALID = 32 }; /* flags of pairs that do not count */

double json_samples(Db *db, const DbTrial *r, Buf *out)
{
    DbSql *q = db_sql(
        db, "SELECT p.b_call_ns, p.a_ns + p.b_ns, p.flags, d.noisy FROM duel d JOIN v_pairs p "
            "ON p.run = d.run AND p.duel = d.idx WHERE d.run = ?1 AND d.trial "
            "= ?2 AND d.stage = 'search' ORDER BY p.process, p.pair");
    double total_ns = 0;
    bool any = false;
    db_sql_bind_int(q, 1, r->run);
    db_sql_bind_int(q, 2, r->idx);
    buf_char(out, '[');
    while (db_sql_next(q)) {
        total_ns += db_sql_cell(q, 1).r;
        int64_t drop = db_sql_cell(q, 3).i ? INVALID : DISCARDED;
        if (!(db_sql_cell(q, 2).i & drop)) {
            buf_printf(out, "%s%.9g", any ? ", " : "", db_sql_cell(q, 0).r / 1e6);
            any = true;
        }
    }
    buf_char(out, ']');
    return total_ns / 1e6;
}

double trial_ns(Db *db, const DbTrial *r)
{
    DbDuel d;
    double ns = NAN;
    DbCursor c = DB_FIND(db, TRIAL_DUELS, r->run, r->idx);
    while (db_next(&c, &db->work, &d)) {
        ns = strcmp(d.stage, "search") ? ns : d.b_ns;
    }
    return ns;
}

void json_moment(Buf *out, int64_t ns)
{
    time_t s = (time_t)((ns == DB_NONE ? 0 : ns) / 1000000000);
    struct tm tm;
    char text[40] = "";
    if (gmtime_r(&s, &tm)) {
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    }
    json_text(out, text);
}
