/* Many fits of models made of operators. */
#ifndef GD_OPTIM_SOLVE_MANY_FITS_H
#define GD_OPTIM_SOLVE_MANY_FITS_H

#include "optim/solve/numbers/numbers.h"

typedef struct gd_many_rows {
    const gd_lsq_many *of;
    gd_tensor **table; /* [columns] contiguous, owned */
    int64_t params;
    bool pads; /* many different lengths: rows are repeated up to a few lengths */
} gd_many_rows;

/* The fits of a model made of operators as problems of arrays. */
GD_NODISCARD gd_status gd__many_rows(gd_ctx *ctx, const gd_lsq_many *of, gd_many_rows *rows,
                                     gd_lsq_many *out);
void gd__many_rows_end(gd_ctx *ctx, gd_many_rows *rows);

#endif
