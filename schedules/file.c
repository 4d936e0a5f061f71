/* file.c - .sched files: tuned rows as text, for machines without a database. Loading is all or
 * nothing: a file that was cut short, at any byte, is refused. Lines that start with # are for
 * people.
 *
 *     nanocompile schedules 1 SIGNATURE
 *     KEY s0=1..64,s1=* => split n 32 pad; par n.o ; C-HASH     (C-HASH - : not known; sizes * : any)
 *     end ROWS */
#include <inttypes.h>
#include <string.h>

#include "schedules/schedules_int.h"

#define HEADER "nanocompile schedules 1 "

/* ---- writing ---- */

static void print_hash(Hash h, Buf *out)
{
    char hex[33];
    hash_hex(h, hex);
    buf_str(out, h.hi || h.lo ? hex : "-");
}

static void print_ranges(const TunedRow *r, Buf *out)
{
    buf_str(out, r->n_ranges ? "" : "*");
    for (int i = 0; i < r->n_ranges; i++) {
        const SymRange *s = &r->range[i];
        buf_printf(out, "%ss%d=", i ? "," : "", i);
        if (s->least <= 0 && s->most == INT64_MAX) {
            buf_char(out, '*');
        } else if (s->most == INT64_MAX) {
            buf_printf(out, "%" PRId64 "..", s->least);
        } else {
            buf_printf(out, "%" PRId64 "..%" PRId64, s->least, s->most);
        }
    }
}

void sched_print(const SchedFile *f, Buf *out)
{
    check(f->signature && *f->signature && !strchr(f->signature, '\n'));
    buf_printf(out, HEADER "%s\n", f->signature);
    for (int i = 0; i < f->row.n; i++) {
        const TunedRow *r = &f->row.at[i];
        print_hash(r->key, out);
        buf_char(out, ' ');
        print_ranges(r, out);
        buf_str(out, " => ");
        schedule_print(&r->schedule, out);
        buf_str(out, r->schedule.n ? " ; " : "; ");
        print_hash(r->c_hash, out);
        buf_char(out, '\n');
    }
    buf_printf(out, "end %d\n", f->row.n);
}

/* ---- reading ---- */

typedef struct Reader {
    Env *e;
    const char *file;
    const char *at, *end; /* what is left */
    int line;
} Reader;

static _Noreturn void bad_line(const Reader *r, const char *what)
{
    fail(r->e, E_SYNTAX, "%s:%d: %s.", r->file, r->line, what);
}

/* The next line without its newline, NUL-terminated. A line without one was cut short. */
static char *next_line(Reader *r)
{
    do {
        r->line++;
        const char *nl = memchr(r->at, '\n', (size_t)(r->end - r->at));
        if (!nl) {
            bad_line(r, r->at == r->end ? "the file ends without its closing line"
                                        : "the line is not complete");
        }
        char *line = arena_strn(&r->e->model, r->at, (size_t)(nl - r->at));
        if (memchr(r->at, '\0', (size_t)(nl - r->at))) {
            bad_line(r, "the line holds a NUL byte");
        }
        r->at = nl + 1;
        if (*line && *line != '#') {
            return line;
        }
    } while (true);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_hash(const char *s, Hash *out)
{
    uint64_t half[2] = {0, 0};
    for (int i = 0; i < 32; i++) {
        int d = hex_digit(s[i]);
        if (d < 0) {
            return false;
        }
        half[i / 16] = half[i / 16] << 4 | (uint64_t)d;
    }
    *out = (Hash){half[0], half[1]};
    return s[32] == '\0';
}

/* A number of digits only, at *s, which goes behind it. */
static bool parse_count(const char **s, int64_t *out)
{
    int64_t v = 0;
    const char *from = *s;
    for (; **s >= '0' && **s <= '9'; ++*s) {
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, **s - '0', &v)) {
            return false;
        }
    }
    *out = v;
    return *s > from;
}

/* "1..64", "16..", "*" */
static bool parse_range(const char **s, SymRange *out)
{
    *out = (SymRange){0, INT64_MAX};
    if (**s == '*') {
        ++*s;
        return true;
    }
    if (!parse_count(s, &out->least) || strncmp(*s, "..", 2)) {
        return false;
    }
    *s += 2;
    return !(**s >= '0' && **s <= '9') ||
           (parse_count(s, &out->most) && out->least <= out->most);
}

static bool parse_ranges(const char *s, TunedRow *row)
{
    if (!strcmp(s, "*")) {
        return true;
    }
    while (row->n_ranges < MAX_RANGES) {
        int64_t slot;
        if (*s++ != 's' || !parse_count(&s, &slot) || slot != row->n_ranges || *s++ != '=' ||
            !parse_range(&s, &row->range[row->n_ranges++])) {
            return false;
        }
        if (*s == '\0') {
            return true;
        }
        if (*s++ != ',') {
            return false;
        }
    }
    return false;
}

/* "KEY RANGES => STEPS ; C-HASH": the line is taken apart in place. */
static void parse_row(Reader *r, char *line, TunedRow *row)
{
    Err err;
    char *sizes = strchr(line, ' '), *steps = strstr(line, " => "), *hash = strrchr(line, ';');
    if (!sizes || !steps || sizes >= steps || !hash || hash < steps + 4 || hash[1] != ' ') {
        bad_line(r, "a row is 'KEY SIZES => STEPS ; C-HASH'");
    }
    *sizes = *steps = *hash = '\0';
    if (!parse_hash(line, &row->key)) {
        bad_line(r, "the key is not 32 hexadecimal digits");
    }
    if (!parse_ranges(sizes + 1, row)) {
        bad_line(r, "sizes are * or like s0=1..64,s1=16..,s2=*, one a symbol in order");
    }
    if (strcmp(hash + 2, "-") && !parse_hash(hash + 2, &row->c_hash)) {
        bad_line(r, "the hash of the C is neither - nor 32 hexadecimal digits");
    }
    if (!schedule_parse(steps + 4, &row->schedule, &err)) {
        fail(r->e, E_SYNTAX, "%s:%d: %s", r->file, r->line, err.text);
    }
}

static void parse_header(Reader *r, const char *signature, SchedFile *out)
{
    const char *line = next_line(r);
    if (strncmp(line, HEADER, strlen(HEADER)) || !line[strlen(HEADER)]) {
        bad_line(r, "this is no schedule file of version 1");
    }
    out->signature = line + strlen(HEADER);
    if (signature && strcmp(signature, out->signature)) {
        fail(r->e, E_INPUT, "%s:%d: the schedules were found on '%s', not on '%s'.", r->file,
             r->line, out->signature, signature);
    }
}

void sched_parse(Env *e, const char *text, size_t len, const char *file, const char *signature,
                 SchedFile *out)
{
    Reader r = {e, file, text, text + len, 0};
    char *line;
    SchedFile f = {0};
    int64_t n = -1;
    parse_header(&r, signature, &f);
    while (strncmp(line = next_line(&r), "end ", 4)) {
        TunedRow row = {.n_ranges = 0};
        parse_row(&r, line, &row);
        *vec_push(&e->model, &f.row) = row;
    }
    const char *s = line + 4;
    if (!parse_count(&s, &n) || *s || n != f.row.n) {
        bad_line(&r, "the closing line counts other rows than there are");
    }
    if (r.at != r.end) {
        r.line++;
        bad_line(&r, "there is text behind the closing line");
    }
    *out = f;
}
