/* Kernels over rows: a matrix is reduced along its rows ("columns": one result per column) or within them ("row": one result).
 * Compiled once for each instruction set by vec/row_kernels.c; the order of every sum is fixed there. */
#ifndef GD_TENSOR_CPU_ROW_KERNELS_H
#define GD_TENSOR_CPU_ROW_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of a register of the instruction set that a file is compiled for. */
#if defined __AVX512F__
#define GD_REGISTER 64
#elif defined __AVX2__
#define GD_REGISTER 32
#else
#define GD_REGISTER 16
#endif

/* The operation of a fold; SQUARES: the sum of their squares. */
enum { GD_FOLD_SUM, GD_FOLD_PROD, GD_FOLD_MAX, GD_FOLD_MIN, GD_FOLD_SQUARES, GD_FOLD_COUNT };

#define GD_TILE_ROWS 64  /* short rows that are processed together */
#define GD_TILE_LONG 16  /* elements of the longest row that is short */
#define GD_STRIP     128 /* columns that kernels with a sum per column take at most */

/* Elements of an operand in the order of a result: `outer` times `rows` runs of n elements each. */
typedef struct gd_runs {
    int64_t outer, far, rows, apart, n, step; /* far, apart, step: how far the next is */
} gd_runs;

/* For f32 and f64.  x[r * apart + c] is element c of row r. */
typedef struct gd_rows_table {
    /* acc[c] = row 0, then joined with the following rows, in order */
    void (*columns[GD_FOLD_COUNT])(void *acc, const void *x, int64_t apart, int64_t rows, int64_t columns);
    /* acc[c] joined with x[c] */
    void (*join[GD_FOLD_COUNT])(void *acc, const void *x, int64_t columns);
    /* out[r]: n elements of each of some rows that follow one another, in sixteen lanes, then the lanes pairwise */
    void (*row[GD_FOLD_COUNT])(void *out, const void *x, int64_t rows, int64_t n);
    /* columns[] for rows of at most GD_TILE_LONG elements, at most GD_TILE_ROWS of them, in the order of row[] */
    void (*short_rows[GD_FOLD_COUNT])(void *out, const void *x, int64_t rows, int64_t n);
    /* As columns of MAX or MIN (sign 1 or -1) with the place of the first extreme, counted from `first`; the first NaN wins. */
    void (*places)(void *acc, int64_t *place, const void *x, int64_t apart, int64_t rows, int64_t columns,
                   int64_t first, double sign);
    /* to[c][r] = from[r][c] */
    void (*turn)(void *to, int64_t to_apart, const void *from, int64_t from_apart, int64_t rows,
                 int64_t columns);
    /* sum[c] += exp(scale x - shift[c]) of all rows; kept in `to` unless that is NULL.  At most GD_STRIP columns. */
    void (*exp_columns)(void *to, int64_t to_apart, const void *x, int64_t apart, int64_t rows,
                        int64_t columns, double scale, const double *shift, double *sum);
    /* Element c of each row times factor[c], or plus it. */
    void (*scale_columns)(void *to, int64_t apart, int64_t rows, int64_t columns, const double *factor);
    void (*shift_columns)(void *to, int64_t to_apart, const void *x, int64_t apart, int64_t rows,
                          int64_t columns, const double *term);
    /* shift[c] = scale times the extreme in acc[c], or 0 where that is infinite; and log(sum) + shift. */
    void (*shifts)(double *shift, const void *acc, int64_t columns, double scale);
    void (*logs)(double *to, const double *sum, const double *shift, int64_t columns);
    void (*from_f64)(void *to, const double *x, int64_t n, int64_t step);
    /* One row: exp(scale x - shift) to `to`, unless that is NULL; returns the sum. */
    double (*exp_row)(void *to, const void *x, int64_t n, double scale, double shift);
    void (*scale_row)(void *to, int64_t n, double factor);
    void (*shift_row)(void *to, const void *x, int64_t n, double term);
    /* dot[c] = sum of g y over the rows, then to = factor y (g - dot) */
    void (*softmax_grad)(void *to, const void *g, const void *y, int64_t apart, int64_t rows, int64_t columns,
                         double factor);
    void (*softmax_grad_row)(void *to, const void *g, const void *y, int64_t n, double factor);
    /* to = g - exp(y) share, of n numbers; across: 1, or 0 for one share */
    void (*less_shares)(void *to, const void *g, const void *y, const void *share, int64_t across, int64_t n);
    /* Mean and 1 / sqrt(variance + eps) of a row. */
    void (*moments)(const void *x, int64_t n, double eps, double *mean, double *rate);
    /* (x - mean) rate, times weight plus bias unless they are NULL */
    void (*standardize)(void *to, const void *x, int64_t n, double mean, double rate, const void *weight,
                        const void *bias);
    /* rate (h - mean h - y mean h y), h = g weight (1 if NULL), y the standardized x */
    void (*standardize_grad)(void *to, const void *g, const void *x, int64_t n, double mean, double rate,
                             const void *weight);
    /* weight[c] += g y, bias[c] += g, of one row */
    void (*norm_sums)(double *weight, double *bias, const void *g, const void *x, int64_t n, double mean,
                      double rate);
    /* to[c] = the sum of x[c] of the rows up to this one; `step` elements from row to row, of which 0 is added to the first */
    void (*running)(void *to, const void *x, int64_t step, int64_t rows, int64_t columns);
    /* Sums along rows of n elements that follow one another. */
    void (*running_rows)(void *to, const void *x, int64_t rows, int64_t n, bool reverse);
    /* to[(o rows + r) n + k] = from[o far + r apart + k step] */
    void (*runs)(void *to, const void *from, const gd_runs *runs);
    /* n elements: every `by`-th, the first at `begin` (which may be before 0), is one of the `size` elements of `from`, which are `step`
     * apart; the others are the fill */
    void (*padded)(void *to, int64_t n, double fill, const void *from, int64_t size, int64_t step,
                   int64_t begin, int64_t by);
} gd_rows_table;

/* f32, f64 */
extern const gd_rows_table gd__rows_base[2], gd__rows_avx2[2], gd__rows_avx512[2];

#endif
