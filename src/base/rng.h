/* Counter-based random numbers: Philox 4x32 with 10 rounds (Salmon, Moraes, Dror and Shaw, SC 2011).
 * Block number i of a key is a pure function, so any thread or device can make any part of the stream. */
#ifndef GD_BASE_RNG_H
#define GD_BASE_RNG_H

#include <stdint.h>

typedef struct gd_rng {
    uint64_t key;
    uint64_t counter; /* next unused block; a block is four 32-bit words */
} gd_rng;

static inline void gd__philox(uint64_t key, uint64_t block, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* 53 random bits in [0, 1). */
static inline double gd__unit_f64(uint32_t hi, uint32_t lo)
{
    return (double)(((uint64_t)hi << 21) | (lo >> 11)) * 0x1p-53;
}

/* Takes `blocks` blocks from the stream; returns the number of the first. */
static inline uint64_t gd__rng_take(gd_rng *rng, uint64_t blocks)
{
    uint64_t first = rng->counter;
    rng->counter += blocks;
    return first;
}

#endif
