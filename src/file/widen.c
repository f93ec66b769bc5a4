/* Widening; see widen.h.  Bytes are little-endian and need not be aligned. */
#include "file/widen.h"

#include <math.h>
#include <string.h>

#define WIDEN_INTEGER(name, from_type, to_type)                                  \
    size_t gd__widen_##name(const void *from, size_t count, void *to)            \
    {                                                                            \
        to_type *out = to;                                                       \
        for (size_t i = 0; i < count; i++) {                                     \
            from_type value;                                                     \
            memcpy(&value, (const char *)from + i * sizeof value, sizeof value); \
            out[i] = (to_type)value;                                             \
        }                                                                        \
        return count;                                                            \
    }

WIDEN_INTEGER(i8, int8_t, int32_t)
WIDEN_INTEGER(i16, int16_t, int32_t)
WIDEN_INTEGER(u16, uint16_t, int32_t)
WIDEN_INTEGER(u32, uint32_t, int64_t)

size_t gd__widen_u64(const void *from, size_t count, void *to)
{
    int64_t *out = to;
    for (size_t i = 0; i < count; i++) {
        uint64_t value;
        memcpy(&value, (const char *)from + i * sizeof value, sizeof value);
        if (value > INT64_MAX) return i;
        out[i] = (int64_t)value;
    }
    return count;
}

/* ---- eight bits: sign, exponent, fraction ---- */

typedef struct small_float {
    int fraction, bias;
    bool infinite;      /* has infinities, and many NaN, as IEEE 754; else only NaN with all bits set */
    bool unsigned_zero; /* what would be -0 is the only NaN ("fnuz") */
} small_float;

static float decode(small_float f, unsigned byte)
{
    unsigned exponent = (byte & 0x7F) >> f.fraction, fraction = byte & ((1u << f.fraction) - 1);
    unsigned top = 0x7Fu >> f.fraction;
    float sign = byte & 0x80 ? -1 : 1;
    if (f.unsigned_zero && byte == 0x80) return NAN;
    if (f.infinite && exponent == top) return fraction ? NAN : sign * INFINITY;
    if (!f.infinite && !f.unsigned_zero && (byte & 0x7F) == 0x7F) return NAN;
    if (!exponent) return sign * ldexpf((float)fraction, 1 - f.bias - f.fraction);
    return sign * ldexpf((float)(fraction + (1u << f.fraction)), (int)exponent - f.bias - f.fraction);
}

static size_t widen_floats(small_float f, const void *from, size_t count, void *to)
{
    float table[256], *out = to;
    const uint8_t *in = from;
    for (unsigned i = 0; i < 256; i++) table[i] = decode(f, i);
    for (size_t i = 0; i < count; i++) out[i] = table[in[i]];
    return count;
}

size_t gd__widen_e4m3(const void *from, size_t count, void *to)
{
    return widen_floats((small_float){.fraction = 3, .bias = 7}, from, count, to);
}

size_t gd__widen_e5m2(const void *from, size_t count, void *to)
{
    return widen_floats((small_float){.fraction = 2, .bias = 15, .infinite = true}, from, count, to);
}

size_t gd__widen_e4m3fnuz(const void *from, size_t count, void *to)
{
    return widen_floats((small_float){.fraction = 3, .bias = 8, .unsigned_zero = true}, from, count, to);
}

size_t gd__widen_e5m2fnuz(const void *from, size_t count, void *to)
{
    return widen_floats((small_float){.fraction = 2, .bias = 16, .unsigned_zero = true}, from, count, to);
}

/* Only an exponent: powers of two from 2^-127, and one NaN. */
size_t gd__widen_e8m0(const void *from, size_t count, void *to)
{
    const uint8_t *in = from;
    float *out = to;
    for (size_t i = 0; i < count; i++) out[i] = in[i] == 0xFF ? NAN : ldexpf(1, in[i] - 127);
    return count;
}
