/* seal.c - files that know whether they are whole.
 *
 * A cached object may be cut short by a full disk or a crash, or damaged later. Behind its
 * bytes stands a line with the checksum of those bytes and of the key they were stored
 * under, so that also an intact file in the wrong place is noticed. Linkers and dlopen
 * ignore what follows the last section, so the file is used as it is. */
#include "run/run_int.h"

#include <string.h>

static const char mark[] = "\nnanocompile-seal ";
enum {
    MARK_LEN = sizeof mark - 1,
    SEAL_LEN = MARK_LEN + 32 + 1,
};
#define MAX_SEALED_BYTES ((size_t)1 << 30)

static void seal_text(const char *text, size_t len, const char *key, char out[SEAL_LEN + 1])
{
    char bytes[33], both[80], hex[33];
    hash_hex(hash_bytes(text, len), bytes);
    snprintf(both, sizeof both, "%s%.40s", bytes, key);
    hash_hex(hash_str(both), hex);
    snprintf(out, SEAL_LEN + 1, "%s%s\n", mark, hex);
}

Seal seal_read(Arena *a, const char *path, const char *key, char **text, size_t *len)
{
    struct stat st;
    char want[SEAL_LEN + 1];
    if (os.stat(path, &st) != 0) {
        return SEAL_ABSENT;
    }
    if (!S_ISREG(st.st_mode)) {
        return SEAL_BROKEN;
    }
    /* What cannot be read now may be whole for another process: it is built again, not set aside. */
    if (!os_read_file(a, path, MAX_SEALED_BYTES, text, len, NULL)) {
        return SEAL_ABSENT;
    }
    if (*len < SEAL_LEN) {
        return SEAL_BROKEN;
    }
    *len -= SEAL_LEN;
    seal_text(*text, *len, key, want);
    return memcmp(*text + *len, want, SEAL_LEN) == 0 ? SEAL_INTACT : SEAL_BROKEN;
}

bool seal_write(Arena *a, const char *path, const char *key, const char *text, size_t len,
                Err *err)
{
    char seal[SEAL_LEN + 1];
    seal_text(text, len, key, seal);
    char *whole = arena_alloc(a, len + SEAL_LEN);
    memcpy(whole, text, len);
    memcpy(whole + len, seal, SEAL_LEN);
    return os_write_file(path, whole, len + SEAL_LEN, err);
}
