/* Sparse least squares: a Jacobian by rows (CSR), its normal equations and how they are solved.
 *
 *     J [m, n] --transpose--> columns --gd__min_degree--> order --gd__sparse_begin--> pattern of L --gd__sparse_factor--> L D L^T
 *
 * If L would be too large, gd__lsmr solves without it. */
#ifndef GD_OPTIM_SOLVE_SPARSE_H
#define GD_OPTIM_SOLVE_SPARSE_H

#include "base/ctx.h"

/* Where a Jacobian has elements: those of row i are column[start[i]] .. column[start[i + 1] - 1], ascending. */
typedef struct gd_csr {
    int64_t m, n;
    const int64_t *start, *column; /* borrowed */
    int64_t *down; /* [n + 1]: the elements of column j are down[j] .. down[j + 1] - 1 of the next two */
    int32_t *row;  /* [entries] their rows */
    int64_t *at;   /* [entries] their places in `column` */
} gd_csr;

/* Transposes what start and column say.  NOMEM. */
GD_NODISCARD gd_status gd__csr_begin(gd_ctx *ctx, gd_csr *j);
void gd__csr_end(gd_ctx *ctx, gd_csr *j);
/* group [n], new: columns of one group share no row, first fit in their order; *groups of them.  NOMEM. */
GD_NODISCARD gd_status gd__csr_groups(gd_ctx *ctx, const gd_csr *j, int32_t **group, int32_t *groups);
/* out [m] = J v and out [n] = J^T u, where `value` has the elements. */
void gd__csr_times(const gd_csr *j, const double *value, const double *v, double *out);
void gd__csr_transposed(const gd_csr *j, const double *value, const double *u, double *out);

/* An elimination order of J^T J with little fill-in: order[k] is the column that comes k-th.  *fits false: this elimination would fill more than
 * `most` elements, and order is not complete.  NOMEM. */
GD_NODISCARD gd_status gd__min_degree(gd_ctx *ctx, const gd_csr *j, int64_t most, int32_t *order, bool *fits);

/* L D L^T of a symmetric matrix in an order, L by columns with ones on the diagonal. */
typedef struct gd_sparse_factor {
    gd_ctx *ctx;
    int32_t n;
    int64_t entries, weight; /* of L below the diagonal; the sum of squares of their counts per column */
    int32_t *order, *place;  /* column k of L is column order[k] of J, and back */
    int32_t *parent;         /* of the elimination tree; -1: a root */
    int64_t *start;          /* [n + 1] */
    int32_t *row;            /* [entries] */
    double *value;           /* [entries] */
    double *diagonal;        /* D [n] */
    int64_t *above; /* [n + 1] where the elements of the matrix in the upper triangle are, column by column */
    int32_t *above_row;    /* [above[n]], the diagonal last in its column */
    double *element;       /* [above[n]] */
    double *work;          /* [n], zero between calls */
    int32_t *stack, *flag; /* [n] */
    int64_t *filled;       /* [n] */
} gd_sparse_factor;

/* Order and pattern of J^T J.  *fits false: L would have more than `most` elements or take more than `work` multiplications.  NOMEM. */
GD_NODISCARD gd_status gd__sparse_begin(gd_ctx *ctx, const gd_csr *j, int64_t most, double work,
                                        gd_sparse_factor *out, bool *fits);
void gd__sparse_end(gd_sparse_factor *l);
/* element = A^T diag(weight) A with A = J / scale, columns that are fixed being zero except for a one on the diagonal; weight, fixed NULL:
 * ones, none. */
void gd__sparse_normal(gd_sparse_factor *l, const gd_csr *j, const double *value, const double *scale,
                       const double *weight, const bool *fixed);
/* Factors element + shift I.  Columns whose pivot is not above `tiny` are left out: their pivot becomes INFINITY, which solves them as
 * 0.  Returns how many. */
int64_t gd__sparse_factor(gd_sparse_factor *l, double shift, double tiny);
/* x = (L D L^T)^-1 x, by the numbers of J's columns; x [n]. */
void gd__sparse_solve(const gd_sparse_factor *l, double *x);
/* A null vector, of the column k of L (in L's order) that was left out; out [n] by J's columns. */
void gd__sparse_null(const gd_sparse_factor *l, int32_t k, double *out);
/* The elements of the inverse at the pattern of L (Takahashi, Fagan & Chin 1973): z [entries], z_diagonal [n], in L's order. */
void gd__sparse_inverse(gd_sparse_factor *l, double *z, double *z_diagonal);

/* A block of columns that is eliminated. */
typedef struct gd_schur_block {
    int32_t first, size; /* its columns, in gd_schur.column */
    int32_t lead;        /* one of them: all have the same rows */
    int32_t nears;       /* columns of the rest that share rows with it */
    int64_t near, w;     /* their positions in gd_schur.near, and the block's columns of W */
} gd_schur_block;

/* A normal matrix many of whose columns form small blocks that share no row: see schur.c. */
typedef struct gd_schur {
    gd_ctx *ctx;
    int32_t n, blocks, eliminated, rest; /* columns, blocks, columns in blocks, others */
    int32_t *place, *column;             /* [n] */
    gd_schur_block *block;
    int64_t nears, widths, alones, rows_alone;
    int32_t *near;
    int64_t *alone; /* rows without a column in a block */
    double *w;      /* W by blocks, [size, nears] each */
    double *h;      /* the blocks, then their factors */
    double *s;      /* [rest, rest], lower triangles: the rest, then the factor of Schur's complement */
    int32_t *local; /* [rest] */
    double *room;
    size_t room_numbers;
} gd_schur;

/* Finds the blocks.  *fits false: there are none, or the rest is too large; then nothing is allocated.  NOMEM. */
GD_NODISCARD gd_status gd__schur_begin(gd_ctx *ctx, const gd_csr *j, gd_schur *out, bool *fits);
void gd__schur_end(gd_schur *s);
/* As gd__sparse_normal, gd__sparse_factor and gd__sparse_solve. */
GD_NODISCARD gd_status gd__schur_normal(gd_schur *s, const gd_csr *j, const double *value,
                                        const double *scale, const bool *fixed);
int64_t gd__schur_factor(gd_schur *s, double shift, double tiny);
void gd__schur_solve(const gd_schur *s, double *x);

/* min |A s + r|^2 + damp^2 |s|^2 by LSMR (Fong & Saunders 2011), A = J / scale without the fixed columns, until its gradient has fallen
 * to `tol` of that at 0.  room: 2 m + 6 n numbers.  Returns the number of products. */
int64_t gd__lsmr(const gd_csr *j, const double *value, const double *scale, const bool *fixed,
                 const double *r, double damp, double tol, int64_t most, double *room, double *s);

#endif
