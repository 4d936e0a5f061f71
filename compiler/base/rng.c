/* rng.c - xoshiro256** by Blackman and Vigna, seeded by splitmix64 as they advise: small, fast,
 * and the same bits on every machine (rng_normal: as far as libm's log is). For tests and
 * tuning, never for secrets. */
#include "base/base.h"

#include <math.h>

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

void rng_seed(Rng *r, uint64_t seed)
{
    for (size_t i = 0; i < countof(r->s); i++) {
        r->s[i] = splitmix64(&seed);
    }
}

uint64_t rng_u64(Rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

/* Draws again below 2^64 mod n: what is left is a whole multiple of n. */
uint64_t rng_below(Rng *r, uint64_t n)
{
    check(n > 0);
    uint64_t skip = -n % n;
    uint64_t x = rng_u64(r);
    while (x < skip) {
        x = rng_u64(r);
    }
    return x % n;
}

double rng_unit(Rng *r)
{
    return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

/* The second value of each pair is dropped, so that the state is only s. */
double rng_normal(Rng *r)
{
    for (;;) {
        double u = 2 * rng_unit(r) - 1;
        double v = 2 * rng_unit(r) - 1;
        double q = u * u + v * v;
        if (q > 0 && q < 1) {
            return u * sqrt(-2 * log(q) / q);
        }
    }
}
