/* options.c - the values of options, shared by every command. What is no such value leaves
 * through argp_error: one sentence and exit status 2. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

int64_t option_int(struct argp_state *state, const char *name, const char *text, int64_t least,
                   int64_t most)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (*end || end == text || errno || v < least || v > most) {
        argp_error(state, "--%s takes a whole number from %lld to %lld, not '%s'", name,
                   (long long)least, (long long)most, text);
    }
    return v;
}

int64_t option_bytes(struct argp_state *state, const char *name, const char *text)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}};
    char *end;
    double v = strtod(text, &end);
    for (size_t i = 0; i < countof(units); i++) {
        if (end != text && !strcmp(end, units[i].name) && v * units[i].bytes >= 1 &&
            v * units[i].bytes < 1e15) {
            return (int64_t)(v * units[i].bytes);
        }
    }
    argp_error(state, "--%s takes a number of bytes, or one with kB, MB or GB, not '%s'", name,
               text);
    return 0;
}

double option_real(struct argp_state *state, const char *name, const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (*end || end == text) {
        argp_error(state, "--%s takes a number, not '%s'", name, text);
    }
    return v;
}

uint64_t option_seed(struct argp_state *state, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 0);
    if (*end || end == text || errno || strchr(text, '-')) { /* strtoull would negate */
        argp_error(state, "--seed takes a number from 0 to %llu, not '%s'",
                   (unsigned long long)UINT64_MAX, text);
    }
    return v;
}

int option_choice(struct argp_state *state, const char *name, const char *text, int n,
                  const char *const *choices)
{
    for (int i = 0; i < n; i++) {
        if (!strcmp(text, choices[i])) {
            return i;
        }
    }
    argp_error(state, "--%s cannot be '%s'", name, text);
    return 0;
}

unsigned option_words(struct argp_state *state, const char *name, const char *what,
                      const char *list, int n, const char *const *words)
{
    unsigned bits = 0;
    while (*list) {
        size_t len = strcspn(list, ",");
        int found = -1;
        for (int i = 0; i < n; i++) {
            found = strlen(words[i]) == len && !strncmp(list, words[i], len) ? i : found;
        }
        if (found < 0) {
            argp_error(state, "--%s: there is no %s '%.*s'", name, what, (int)len, list);
            return bits;
        }
        bits |= 1u << found;
        list += len + (list[len] == ',');
    }
    return bits;
}

Format option_format(struct argp_state *state, const char *text)
{
    return (Format)option_choice(state, "format", text, N_FORMATS, format_name);
}
