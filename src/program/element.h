/* What each element instruction computes, said once: as C in the interpreter and in gd__program_uniforms, as text in
 * emitted source.
 *
 * Operands are a, b, c.  T is the compute type; a name ending in _T stands for the function of that type, such as
 * sqrt_T, which becomes sqrtf or sqrt here (see GD_ELEMENT_F32 below) and sqrt_f32 or sqrt_f64 in emitted source. */
#ifndef GD_PROGRAM_ELEMENT_H
#define GD_PROGRAM_ELEMENT_H

#include "program/program.h"

/* clang-format off */
#define GD_ELEMENT_LIST(X)                                           \
    X(NEG, -a)                                                       \
    X(ABS, abs_T(a))                                                 \
    X(SIGN, a > 0 ? (T)1 : a < 0 ? (T)-1 : a * 0) /* NaN of a NaN */ \
    X(SQRT, sqrt_T(a))                                               \
    X(SQUARE, a * a)                                                 \
    X(RECIPROCAL, (T)1 / a)                                          \
    X(EXP, exp_T(a))                                                 \
    X(LOG, log_T(a))                                                 \
    X(TANH, tanh_T(a))                                               \
    X(FLOOR, floor_T(a))                                             \
    X(ISFINITE, (T)(abs_T(a) <= largest_T))                          \
    X(NOT, (T)(a == 0))                                              \
    X(ADD, a + b)                                                    \
    X(SUB, a - b)                                                    \
    X(MUL, a * b)                                                    \
    X(DIV, a / b)                                                    \
    X(MIN, ((b < a) | (b != b)) ? b : a) /* NaN wins */              \
    X(MAX, ((b > a) | (b != b)) ? b : a)                             \
    X(POW, (T)pow_wide((double)a, (double)b))                        \
    X(COPYSIGN, copysign_T(a, b != b ? 0 : b)) /* the sign of a NaN is left to chance by compilers: + */ \
    X(LT, (T)(a < b))                                                \
    X(LE, (T)(a <= b))                                               \
    X(GT, (T)(a > b))                                                \
    X(GE, (T)(a >= b))                                               \
    X(EQ, (T)(a == b))                                               \
    X(NE, (T)(a != b))                                               \
    X(AND, (T)((a != 0) & (b != 0)))                                 \
    X(OR, (T)((a != 0) | (b != 0)))                                  \
    X(WHERE, a != 0 ? b : c)
/* clang-format on */

#define GD_LANES 16 /* of a reduction, as sums in tensor/cpu/vec/kernels.c */

/* ---- the interpreter's loops: a table for each instruction set ---- */

enum { GD_ELEMENT_F32, GD_ELEMENT_F64, GD_ELEMENT_TYPES };
#define GD_ELEMENT_DTYPES 4 /* GD_F32, GD_F64, GD_F16, GD_BF16 */

typedef void (*gd_block_fn)(void *o, const void *a, const void *b, const void *c, int64_t n);
typedef void (*gd_block_convert_fn)(void *to, const void *from, int64_t n);
/* The same to halves, rounded by chance: element i is number first + i of its tensor; by the lower bits where `second`. */
typedef void (*gd_block_chance_fn)(void *to, const void *from, int64_t n, double drawn, int64_t first,
                                   bool second);
/* Codes of one block: to numbers of the compute type; from f32, with their scale. */
typedef void (*gd_block_decode_fn)(void *to, const void *code, float scale, int64_t n);
typedef void (*gd_block_code_fn)(const float *from, int n, float *scale, uint8_t *code);
typedef void (*gd_block_reduce_fn)(void *lanes, const void *x, int64_t n);
/* Numbers first, first + 1, ... of a stream, first being even; o has room for an even number of them. */
typedef void (*gd_block_random_fn)(void *o, const gd_stream *stream, int64_t first, int64_t n);

/* One result a row of n, in sixteen lanes; to out[0], out[step], ...  x has room for sixteen more. */
typedef void (*gd_block_rows_fn)(double *out, int64_t step, const void *x, int64_t rows, int64_t n);
/* Joins every row to the one result of all; result and x have room for sixteen more. */
typedef void (*gd_block_columns_fn)(void *result, const void *x, int64_t rows, int64_t n);

/* Results of one partial result each; false when one is not finite. */
typedef bool (*gd_block_results_fn)(void *to, const double *x, int64_t n);
/* Items from[0], from[1], ..., `columns` of each, n in all, of which the first begins with number `column`; to has room for
 * sixteen more. */
typedef void (*gd_block_spread_fn)(void *to, const void *from, int64_t columns, int64_t column, int64_t n);

typedef struct gd_block_table {
    gd_block_fn op[GD_ELEMENT_TYPES][GD_I_COUNT];
    gd_block_convert_fn load[GD_ELEMENT_TYPES][GD_ELEMENT_DTYPES];
    gd_block_convert_fn store[GD_ELEMENT_TYPES][GD_ELEMENT_DTYPES];
    gd_block_chance_fn by_chance[GD_ELEMENT_TYPES][2];                   /* f16, bf16 */
    gd_block_decode_fn decode[GD_ELEMENT_TYPES][2];                      /* signed, positive */
    gd_block_code_fn code[2];                                            /* the same */
    gd_block_reduce_fn sum[GD_ELEMENT_TYPES], maximum[GD_ELEMENT_TYPES]; /* into sixteen lanes */
    gd_block_random_fn random[GD_ELEMENT_TYPES];
    gd_block_rows_fn rows[GD_ELEMENT_TYPES][2]; /* sum, maximum */
    gd_block_columns_fn columns[GD_ELEMENT_TYPES][2];
    gd_block_results_fn results[GD_ELEMENT_TYPES][2];
    gd_block_spread_fn spread[3]; /* of 2, 4 and 8 bytes */
} gd_block_table;

extern const gd_block_table gd__blocks_base;
#ifdef GD_HAVE_AVX2
extern const gd_block_table gd__blocks_avx2;
#endif
#ifdef GD_HAVE_AVX512
extern const gd_block_table gd__blocks_avx512;
#endif

/* The best instruction set of this CPU that the library has code for, unless the context asks for another.  A context
 * that asks for "none" gets the best for the interpreter, but no built-in programs: for tests. */
typedef enum gd_isa { GD_ISA_BASE, GD_ISA_AVX2, GD_ISA_AVX512 } gd_isa;
gd_isa gd__isa(const gd_ctx *ctx);
const gd_block_table *gd__blocks(const gd_ctx *ctx);

const char *gd__opcode_name(unsigned op);
int gd__opcode_operands(unsigned op);

/* Reads an array. */
static inline bool gd__is_load(unsigned op) { return op == GD_I_LOAD || op == GD_I_RANDOM; }
static inline bool gd__is_along(unsigned op) { return op == GD_I_SUM_ALONG || op == GD_I_MAXIMUM_ALONG; }
static inline bool gd__is_reduction(unsigned op) { return op == GD_I_SUM || op == GD_I_MAXIMUM; }

#endif
