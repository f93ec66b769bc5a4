/* The triangle of a QR of a matrix with many rows and few columns, a few rows at a time.
 *
 *     [ R ]          the rows of a block are reduced into the triangle by one reflection per column, which affects one row of R
 *     [ x ]          and the block: R stays a triangle, Q is never formed, and nothing is squared except for norms
 *
 * Rows are cut into shards that depend only on their number; each has a triangle, and these are joined in order:
 * the same bits on any number of threads. */
#ifndef GD_OPTIM_VECTOR_TRIANGLE_H
#define GD_OPTIM_VECTOR_TRIANGLE_H

#include "gradus/tensor.h"
#include "optim/vector/layout.h"

#define GD_ROW_SHARDS 64 /* at most: enough for the threads there are */

/* Triangle [n, n], row by row and zeros below its diagonal, += `rows` rows of n columns, column[j] each, which are used up. */
void gd__triangle_add(const gd_vector_loops *loops, double *triangle, int64_t n, double *const *column,
                      int64_t rows);
/* += `by` times the identity, as rows below all columns but the last; room: n^2 numbers, column: n. */
void gd__triangle_damp(const gd_vector_loops *loops, double *triangle, int64_t n, double *room,
                       double **column, double by);
/* The first += the second; room: n^2 + n numbers, column: n. */
void gd__triangle_join(const gd_vector_loops *loops, double *triangle, const double *other, int64_t n,
                       double *room, double **column);

/* Of [A b] (b NULL: of A) for A [m, n], b [m], f64 on the CPU, m > n: [n + 1, n + 1] or [n, n].  New. */
gd_tensor *gd__triangle_of_rows(gd_tensor *a, gd_tensor *b);

#endif
