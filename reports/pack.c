/* pack.c - everything that a stranger needs to check and to rebuild what is claimed, as one tar archive:
 * all rows, kernels, schedules, hashes, machines and compilers. The same database gives the same bytes. */
#include <string.h>

#include "reports/reports.h"

enum { RECORD = 512, MODE = 0644 };

typedef struct Packing {
    Report *r;
    Buf tar, names; /* names: the manifest so far */
} Packing;

/* ---- tar ---- */

typedef struct TarHeader { /* POSIX ustar */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], spare[12];
} TarHeader;
_Static_assert(sizeof(TarHeader) == RECORD, "a tar header is one record");

static void add_header(Buf *tar, const char *name, size_t len)
{
    TarHeader h;
    unsigned sum = 0;
    memset(&h, 0, sizeof h);
    check(strlen(name) < sizeof h.name);
    memcpy(h.name, name, strlen(name));
    snprintf(h.mode, sizeof h.mode, "%07o", MODE);
    snprintf(h.uid, sizeof h.uid, "%07o", 0);
    snprintf(h.gid, sizeof h.gid, "%07o", 0);
    snprintf(h.size, sizeof h.size, "%011llo", (unsigned long long)len);
    snprintf(h.mtime, sizeof h.mtime, "%011o", 0);
    memset(h.sum, ' ', sizeof h.sum);
    h.type = '0';
    memcpy(h.magic, "ustar", sizeof h.magic);
    memcpy(h.version, "00", sizeof h.version);
    for (size_t i = 0; i < sizeof h; i++) {
        sum += ((const unsigned char *)&h)[i];
    }
    snprintf(h.sum, sizeof h.sum, "%06o", sum);
    buf_bytes(tar, &h, sizeof h);
}

static void pad_to(Buf *tar, size_t unit)
{
    static const char zeros[RECORD];
    while (tar->len % unit) {
        size_t left = unit - tar->len % unit;
        buf_bytes(tar, zeros, left < sizeof zeros ? left : sizeof zeros);
    }
}

static void add_file(Packing *p, const char *name, const char *text, size_t len)
{
    char hex[33];
    hash_hex(hash_bytes(text, len), hex);
    buf_printf(&p->names, "%s  %s\n", hex, name);
    add_header(&p->tar, name, len);
    buf_bytes(&p->tar, text, len);
    pad_to(&p->tar, RECORD);
}

/* ---- what is in it ---- */

static void append(void *ctx, const char *text, size_t len)
{
    buf_bytes(ctx, text, len);
}

static void add_rows(Packing *p)
{
    Buf rows;
    buf_init(&rows, p->r->a);
    db_export_json(p->r->db, append, &rows);
    add_file(p, "rows.json", rows.at, rows.len);
}

static void add_kernels(Packing *p)
{
    DbKernel k;
    DbCursor at = DB_FIND_ALL(p->r->db, KERNELS);
    while (db_next(&at, p->r->a, &k)) {
        char hex[33];
        hash_hex(k.hash, hex);
        add_file(p, arena_printf(p->r->a, "kernels/%s.txt", hex), k.text, strlen(k.text));
    }
}

/* What a rebuild compares: kernel, sizes and schedule in, the hash of the C out. */
static void add_winners(Packing *p)
{
    Buf b;
    buf_init(&b, p->r->a);
    db_write_csv(db_sql(p->r->db,
                        "SELECT kernel_hash, sizes, n_threads, regime, label, schedule, "
                        "c_hash, default_schedule, default_c_hash, ratio, ratio_lo, "
                        "ratio_hi, run, duel FROM v_best ORDER BY kernel_hash, sizes, "
                        "n_threads, regime, machine, run"),
                 append, &b);
    add_file(p, "winners.csv", b.at, b.len);
}

static void add_report(Packing *p, const char *name, void (*run)(Report *r))
{
    Report r;
    Buf b;
    report_init(&r, p->r->e, p->r->db, true);
    buf_init(&b, r.a);
    run(&r);
    report_print(&r, FORMAT_TEXT, &b);
    add_file(p, name, b.at, b.len);
}

static const char read_me[] =
    "What a schedule database of nanocompile " NC_VERSION
    " claims, with all that it stands on.\n"
    "\n"
    "rows.json       all rows, raw pairs too. To check that every verdict follows from them:\n"
    "                  schedb import rows.json --db checked.db && schedb verify --db "
    "checked.db\n"
    "summary.txt     what is claimed; evidence.txt: counted again from the pairs\n"
    "winners.csv     kernel, sizes and schedule of each winner, and the hash of its C\n"
    "kernels/        the kernels' texts, each under its hash (XXH3-128): a kernel can be\n"
    "                compiled and tuned again from its text alone\n"
    "environment.txt machines and compilers; runs.txt: commands, seeds and budgets\n"
    "MANIFEST        XXH3-128 of every file (`xxh128sum -c MANIFEST`)\n";

static void pack_all(Packing *p)
{
    add_file(p, "README", read_me, sizeof read_me - 1);
    add_rows(p);
    add_report(p, "summary.txt", report_summary);
    add_report(p, "evidence.txt", report_evidence);
    add_winners(p);
    add_kernels(p);
    add_report(p, "environment.txt", report_machine);
    add_report(p, "runs.txt", report_runs);
    const char *manifest = arena_strn(p->r->a, p->names.at, p->names.len);
    add_file(p, "MANIFEST", manifest, p->names.len);
    buf_bytes(&p->tar, (char[2 * RECORD]){0}, 2 * RECORD);
}

void report_pack(Report *r, const char *path)
{
    Err err;
    Packing p = {.r = r};
    buf_init(&p.tar, r->a);
    buf_init(&p.names, r->a);
    pack_all(&p);
    if (!os_write_file(path, p.tar.at, p.tar.len, &err)) {
        fail_err(r->e, &err);
    }
}
