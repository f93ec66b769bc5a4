/* The interpreter's loops, and facts of instructions.
 *
 * Each element instruction is defined once, in its row of tensor/ops.def, which becomes C in the interpreter and in
 * gd__program_uniforms, and text in emitted source. */
#ifndef GD_PROGRAM_ELEMENT_H
#define GD_PROGRAM_ELEMENT_H

#include "program/program.h"
#include "tensor/cpu/cpu.h"

#define GD_LANES 16 /* of a reduction, as sums in tensor/cpu/vec/kernels.c */

/* ---- the interpreter's loops: a table for each instruction set ---- */

enum { GD_ELEMENT_F32, GD_ELEMENT_F64, GD_ELEMENT_TYPES };
#define GD_ELEMENT_DTYPES 4 /* GD_F32, GD_F64, GD_F16, GD_BF16 */

/* As operators' own loops; f is not read. */
typedef gd_vec_fn gd_block_fn;
typedef void (*gd_block_convert_fn)(void *to, const void *from, int64_t n);
/* The same to 16 bits, with stochastic rounding: element i is number first + i of its tensor; by the lower bits where `second`. */
typedef void (*gd_block_chance_fn)(void *to, const void *from, int64_t n, double drawn, int64_t first,
                                   bool second);
/* Codes of one block: to numbers of the compute type; from f32, with their scale. */
typedef void (*gd_block_decode_fn)(void *to, const void *code, float scale, int64_t n);
typedef void (*gd_block_code_fn)(const float *from, int n, float *scale, uint8_t *code);
typedef void (*gd_block_reduce_fn)(void *lanes, const void *x, int64_t n);
/* Numbers first, first + 1, ... of a stream, first being even; o has room for an even number of them. */
typedef void (*gd_block_random_fn)(void *o, const gd_stream *stream, int64_t first, int64_t n);

/* One result per row of n, in sixteen lanes; to out[0], out[step], ...  x has room for sixteen more. */
typedef void (*gd_block_rows_fn)(double *out, int64_t step, const void *x, int64_t rows, int64_t n);
/* Joins every row to the one result of all; result and x have room for sixteen more. */
typedef void (*gd_block_columns_fn)(void *result, const void *x, int64_t rows, int64_t n);

/* Results of one partial result each; false when one is not finite. */
typedef bool (*gd_block_results_fn)(void *to, const double *x, int64_t n);
/* Items from[0], from[1], ..., `columns` of each, n in all, of which the first begins with number `column`; to has room for
 * sixteen more. */
typedef void (*gd_block_spread_fn)(void *to, const void *from, int64_t columns, int64_t column, int64_t n);

typedef struct gd_block_table {
    const gd_vec_table *vec; /* operators' loops */
    /* loops that operators lack: numbers where operators return bool, operands where those have settings, and the C library's
     * functions; NULL: the operator's */
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

extern const gd_block_table gd__blocks_base, gd__blocks_avx2, gd__blocks_avx512;

const gd_block_table *gd__blocks(const gd_ctx *ctx);

/* The interpreter's loop of an element instruction; eager: as gd_program.eager. */
gd_block_fn gd__block_op(const gd_block_table *table, int type, unsigned op, bool eager);

const char *gd__opcode_name(unsigned op);
int gd__opcode_operands(unsigned op);
/* The instruction that computes an element-wise operator, its settings being operands after the inputs; -1: there is none. */
int gd__opcode_of(gd_op_id op);

/* Reads an array. */
static inline bool gd__is_load(unsigned op) { return op == GD_I_LOAD || op == GD_I_RANDOM; }
static inline bool gd__is_along(unsigned op) { return op == GD_I_SUM_ALONG || op == GD_I_MAXIMUM_ALONG; }
static inline bool gd__is_reduction(unsigned op) { return op == GD_I_SUM || op == GD_I_MAXIMUM; }

#endif
