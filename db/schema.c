/* schema.c - schema.sql within the program, and its sections: how a database is made, and
 * how an older one is brought up to date. */
#include <stdlib.h>
#include <string.h>

#include "db/db_int.h"

__asm__(".section .rodata\n"
        ".global db_schema\n"
        ".hidden db_schema\n"
        "db_schema:\n"
        ".incbin \"db/schema.sql\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char db_schema[] __attribute__((visibility("hidden")));

#define OPENS_VERSION "\n-- version "
#define OPENS_VIEWS "\n-- views\n"

int schema_version(const char *schema)
{
    int version = 0;
    for (const char *at = schema; (at = strstr(at, OPENS_VERSION)); at++) {
        version = atoi(at + strlen(OPENS_VERSION));
    }
    return version;
}

/* The statements from here to the next section. */
static int run_section(sqlite3 *sql, const char *from)
{
    const char *version = strstr(from + 1, OPENS_VERSION),
               *views = strstr(from + 1, OPENS_VIEWS);
    const char *end = version ? version : views ? views : from + strlen(from);
    char *text = sqlite3_mprintf("%.*s", (int)(end - from), from);
    int code = text ? sqlite3_exec(sql, text, NULL, NULL, NULL) : SQLITE_NOMEM;
    sqlite3_free(text);
    return code;
}

/* Views hold no data: all that there are go, those of the schema come. */
static int make_views(sqlite3 *sql, const char *schema)
{
    char name[128] = "";
    sqlite3_stmt *s;
    do {
        int code = sqlite3_prepare_v2(sql, "SELECT name FROM sqlite_schema WHERE type = 'view'",
                                      -1, &s, NULL);
        if (code) {
            return code;
        }
        bool any = sqlite3_step(s) == SQLITE_ROW;
        snprintf(name, sizeof name, "%s", any ? (const char *)sqlite3_column_text(s, 0) : "");
        sqlite3_finalize(s);
        char *text = sqlite3_mprintf("DROP VIEW \"%w\"", name);
        code = !any   ? SQLITE_OK
               : text ? sqlite3_exec(sql, text, NULL, NULL, NULL)
                      : SQLITE_NOMEM;
        sqlite3_free(text);
        if (code) {
            return code;
        }
    } while (*name);
    const char *views = strstr(schema, OPENS_VIEWS);
    return views ? run_section(sql, views) : SQLITE_OK;
}

static int run_versions(sqlite3 *sql, const char *schema, int64_t from)
{
    int code = SQLITE_OK;
    for (const char *at = schema; !code && (at = strstr(at, OPENS_VERSION)); at++) {
        if (atoi(at + strlen(OPENS_VERSION)) > from) {
            code = run_section(sql, at);
        }
    }
    code = code ? code : make_views(sql, schema);
    char text[64];
    snprintf(text, sizeof text, "PRAGMA user_version = %d", schema_version(schema));
    return code ? code : sqlite3_exec(sql, text, NULL, NULL, NULL);
}

int migrate(sqlite3 *sql, const char *schema)
{
    int64_t from = 0; /* read within: another program may have been faster */
    int code = sqlite3_exec(sql, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (code) {
        return code;
    }
    if (!sqlite_number(sql, "PRAGMA user_version", &from)) {
        code = sqlite3_extended_errcode(sql);
    } else if (from < schema_version(schema)) {
        code = run_versions(sql, schema, from);
    }
    code = code ? code : sqlite3_exec(sql, "COMMIT", NULL, NULL, NULL);
    if (code) {
        sqlite3_exec(sql, "ROLLBACK", NULL, NULL, NULL);
    }
    return code;
}
