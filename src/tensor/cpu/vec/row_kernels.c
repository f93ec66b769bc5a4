/* Kernels over rows of f32 and of f64 (cpu/row_kernels.h), compiled once for every instruction set. */
#include "base/rng.h"
#include "base/vmath.h"
#include "base/math/short.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/row_kernels.h"

#include <string.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define NAME(name)  JOIN(name, SUFFIX)

#define LANES 16
#define WIDE  64  /* columns whose results stay in registers */
#define ADDED 128 /* terms that are added in the type itself before the sum continues in f64 */

#define T       float
#define BITS    int32_t
#define SUFFIX  _f32
#define F(name) gd__##name##_f32
#include "tensor/cpu/row_kernels_impl.h"
#undef T
#undef BITS
#undef SUFFIX
#undef F

#define T       double
#define BITS    int64_t
#define SUFFIX  _f64
#define F(name) gd__##name##_f64
#include "tensor/cpu/row_kernels_impl.h"
#undef T
#undef BITS
#undef SUFFIX
#undef F

#define FOLDS(name, suffix)                                                              \
    {                                                                                    \
        name##_sum##suffix, name##_prod##suffix, name##_max##suffix, name##_min##suffix, \
            name##_squares##suffix                                                       \
    }
#define TABLE(suffix)                                                                              \
    {                                                                                              \
        .columns = FOLDS(columns, suffix), .join = FOLDS(join, suffix), .row = FOLDS(row, suffix), \
        .short_rows = FOLDS(short_rows, suffix), .places = places##suffix, .turn = turn##suffix,   \
        .exp_columns = exp_columns##suffix, .scale_columns = scale_columns##suffix,                \
        .shift_columns = shift_columns##suffix, .shifts = shifts##suffix, .logs = logs##suffix,    \
        .from_f64 = from_f64##suffix, .exp_row = exp_row##suffix, .scale_row = scale_row##suffix,  \
        .shift_row = shift_row##suffix, .softmax_grad = softmax_grad##suffix,                      \
        .softmax_grad_row = softmax_grad_row##suffix, .less_shares = less_shares##suffix,          \
        .moments = moments##suffix, .standardize = standardize##suffix,                            \
        .standardize_grad = standardize_grad##suffix, .norm_sums = norm_sums##suffix,              \
        .running = running##suffix, .running_rows = running_rows##suffix, .runs = runs##suffix,    \
        .padded = padded##suffix,                                                                  \
    }

const gd_rows_table JOIN(gd__rows_, GD_ISA)[2] = {TABLE(_f32), TABLE(_f64)};
