/* The work memory of OpenBLAS. */
#ifndef GD_TENSOR_CPU_BLAS_H
#define GD_TENSOR_CPU_BLAS_H

#include "base/ctx.h"

/* Makes sure that `tasks` calls of BLAS and LAPACK at a time (never more than the context has threads) find memory, because
 * OpenBLAS would retry forever without it. NOMEM; STATE if OpenBLAS may not be called from several threads.  Once a
 * context has it, this costs a comparison. */
gd_status gd__blas_reserve(gd_ctx *ctx, int64_t tasks);

#endif
