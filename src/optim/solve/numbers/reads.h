/* Which elements of the parameters each residual reads. */
#ifndef GD_OPTIM_SOLVE_READS_H
#define GD_OPTIM_SOLVE_READS_H

#include "gradus/tensor.h"

/* As CSR: residual i reads column[start[i]] .. column[start[i + 1] - 1], ascending. */
typedef struct gd_reads {
    int64_t m, entries, *start, *column;
} gd_reads;

/* From residuals with history, over the n elements of all parameters in their order.  *found false: they read more than about `most`
 * elements, or have no history. */
GD_NODISCARD gd_status gd__reads_find(gd_tensor *residuals, gd_tensor *const *params, int count, int64_t n,
                                      int64_t most, gd_reads *out, bool *found);
void gd__reads_free(gd_ctx *ctx, gd_reads *reads);

#endif
