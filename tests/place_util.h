/* place_util.h - places that make trouble, and files that are none of ours: what mode bits keep a user from,
 * small file systems, noise. Tests are skipped where this process may not make them. */
#ifndef NC_TESTS_PLACE_UTIL_H
#define NC_TESTS_PLACE_UTIL_H

#include "tests/helpers.h"

/* From here on as nobody where this is root, whom no mode bits stop; and back. */
void drop_root(void);
void regain_root(void);

/* A new folder that is a tmpfs of this process's own, until it is unmounted. False: not here. */
bool mounted_at(const char *path, unsigned long flags, const char *options);
void mount_at(const char *path, unsigned long flags,
              const char *options); /* or skips the test */
void unmount(const char *path);

char *noise_bytes(Arena *m, size_t n, uint64_t seed);
/* A file of these bytes, alone in its folder, stays the same and alone whatever meets it. */
void stays_as_it_is(Env *e, const char *path, const char *bytes, size_t n,
                    void (*meets)(const char *words), const char *words);

#endif
