/* The memory that OpenBLAS works in. */
#ifndef GD_TENSOR_CPU_BLAS_H
#define GD_TENSOR_CPU_BLAS_H

#include "base/ctx.h"

/* Makes sure that `tasks` calls of BLAS and LAPACK at a time (never more than the context has threads) find memory: where
 * there is none OpenBLAS would try for ever.  NOMEM; STATE where OpenBLAS may not be called from several threads.  Once a
 * context has it, this costs a comparison. */
gd_status gd__blas_reserve(gd_ctx *ctx, int64_t tasks);

#endif
