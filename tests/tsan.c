/* tsan.c - lets Criterion run under the thread sanitizer. Its sandbox maps an arena at a fixed address
 * made from rand_r: 0x200000000000 plus a random multiple of 16 MB. The sanitizer keeps most of that
 * range for itself and refuses. So in such a build rand_r gives multiples that end above 0x567000000000,
 * which is left to programs; the sandbox tries on where something is mapped already. */
#ifdef NC_TSAN

int rand_r(unsigned *seed);

enum { FIRST_UNIT = 0x367000, N_UNITS = 0x1000 };

int rand_r(unsigned *seed)
{
    return FIRST_UNIT + (int)((*seed)++ % N_UNITS);
}

#endif
