/* Sparse Cholesky by a plugin: what steps of sparse least squares ask of it.
 *
 *     gd__cholesky_begin -> gd_plugin_cholesky of the first plugin that has one -> factor, solve, ... -> close
 *
 * If there is no plugin, sparse.h has an own factorisation. */
#ifndef GD_OPTIM_SOLVE_CHOLESKY_PLUGIN_H
#define GD_OPTIM_SOLVE_CHOLESKY_PLUGIN_H

#include "tensor/device.h"

/* A^T A + shift I with A = J / scale, J [m, n] by rows (CSR), columns that are fixed being zero except for a one on the diagonal. */
typedef struct gd_outer_factor {
    gd_ctx *ctx;
    const gd_host *host;
    uint64_t layout; /* GD_CHOLESKY_LAYOUT of the library */
    int64_t m, n;
    const int64_t *start, *column; /* borrowed until close */
    int64_t most;                  /* elements of the factor, and multiplications, that are too many */
    double work;
    /* filled by the plugin */
    char title[48]; /* "CHOLMOD 3.0.14" */
    void *state;    /* NULL: nothing to close */
    /* value: the elements of J.  *definite false: a pivot was not above 0, and there is no factor.  NOMEM. */
    gd_status (*factor)(void *state, const double *value, const double *scale, const bool *fixed,
                        double shift, bool *definite);
    gd_status (*solve)(void *state, double *x); /* x [n] becomes the solution.  NOMEM */
    void (*close)(void *state);
} gd_outer_factor;

#define GD_CHOLESKY_LAYOUT (GD_PLUGIN_LAYOUT ^ (uint64_t)sizeof(gd_outer_factor) << 6)

/* What a plugin exports as `gd_plugin_cholesky`.  *fits false: the factor would be too large.  DEVICE: of another version; NOMEM. */
typedef gd_status (*gd_plugin_cholesky_fn)(gd_outer_factor *c, bool *fits);

/* out->state NULL afterwards: there is no plugin, or *fits is false.  NOMEM; DEVICE: a plugin of another version. */
GD_NODISCARD gd_status gd__cholesky_begin(gd_ctx *ctx, int64_t m, int64_t n, const int64_t *start,
                                          const int64_t *column, int64_t most, double work,
                                          gd_outer_factor *out, bool *fits);
void gd__cholesky_end(gd_outer_factor *c);

#endif
