/* Residuals by blocks of rows: the passes of a fit, with memory for one block per thread.
 *
 *     rows       [----------------------------------------------------]
 *     shards  [------------------][------------------][------------]      one thread per shard, each with its own context
 *     blocks     [----][----][----][-][----][----][----][-][----][----]      residuals with their graph, used and freed
 *
 * Each pass calls the function once per block, computes the requested results from its graph, and adds them up: inside a shard in the
 * order of the rows, then the shards in order.  The cut depends on the number of rows alone, so results have the same bits on
 * any number of threads.  Ranks of a world have adjacent shards; all gather the results, and join them in the same order. */
#ifndef GD_OPTIM_VECTOR_ROW_BLOCKS_H
#define GD_OPTIM_VECTOR_ROW_BLOCKS_H

#include "gradus/optim.h"

#define GD_BLOCK_ROWS 1024 /* up to here there is one block, and keeping its graph is cheaper */

typedef struct gd_blocks gd_blocks;

/* Checks the table before anything is called. */
GD_NODISCARD gd_status gd__blocks_check(gd_ctx *ctx, const gd_rows *rows);
/* The parameters (borrowed, on the CPU) are read in every pass.  New; NULL with the error. */
gd_blocks *gd__blocks_new(const gd_rows *rows, gd_tensor *const *params, int count);
void gd__blocks_free(gd_blocks *b); /* NULL is fine */
/* Residuals of all rows; known after a pass. */
int64_t gd__blocks_residuals(const gd_blocks *b);

/* The sum of squares. */
GD_NODISCARD gd_status gd__blocks_loss(gd_blocks *b, double *loss);
/* And the triangle of a QR of [J r], [n + 1, n + 1] f64: it replaces Jacobian and residuals: it has the same products and norms.
 * Owned. */
GD_NODISCARD gd_status gd__blocks_triangle(gd_blocks *b, gd_tensor **triangle, double *loss);
/* J^T r''(v, v), [n]. */
GD_NODISCARD gd_status gd__blocks_second(gd_blocks *b, const double *v, double *out);
/* The term of the Hessian of half the sum of squares besides J^T J: the sum of r r'', [n, n]. */
GD_NODISCARD gd_status gd__blocks_curvature(gd_blocks *b, double *out);
/* The product of the whole Hessian with v, [n]; out may be v. */
GD_NODISCARD gd_status gd__blocks_product(gd_blocks *b, const double *v, double *out);

#endif
