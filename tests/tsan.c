/* tsan.c - lets Criterion run under the thread sanitizer. Its sandbox maps an arena at a fixed
 * address made from rand_r: 0x200000000000 plus a random multiple of 16 MB. The sanitizer keeps
 * most of that range for itself and refuses. So in such a build rand_r gives multiples that end
 * just above 0x567000000000, which is left to programs; where something is mapped already, the
 * sandbox tries another. On x86-64; other machines have other maps. */
#ifdef NC_TSAN

int rand_r(unsigned *seed);

enum { FIRST_UNIT = 0x367000, N_UNITS = 0x1000 };

int rand_r(unsigned *seed)
{
    return FIRST_UNIT + (int)((*seed)++ % N_UNITS);
}

#endif
