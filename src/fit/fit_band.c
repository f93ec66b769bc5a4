/* How sure the values of a fitted model are: to first order, sqrt(g' C g) with the slopes g by the parameters and their
 * covariance C. */
#include "fit/fit_job.h"
#include "optim/vector/jacobian.h"

#include <math.h>

double gd__fit_error(const double *covariance, int64_t n, const double *g)
{
    double sum = 0;
    for (int64_t a = 0; a < n; a++)
        for (int64_t b = 0; b < n && g[a] != 0; b++)
            if (g[b] != 0) sum += g[a] * covariance[a * n + b] * g[b];
    return sqrt(sum);
}

gd_status gd__fit_band(gd_tensor *values, gd_tensor *const *params, int count, const gd_tensor *covariance,
                       double *error)
{
    gd_ctx *ctx = gd_tensor_ctx(values);
    int64_t rows = gd_numel(values), n = gd_size(covariance, 0);
    gd_tensor *slopes = gd__jacobian_matrix(values, params, count);
    double *g = slopes ? gd__alloc_array(ctx, (size_t)(rows * n), sizeof *g) : NULL;
    gd_status status = !slopes ? gd_error(ctx) : !g ? GD_NOMEM : gd_read_f64(slopes, g, rows * n);
    for (int64_t i = 0; i < rows && !status; i++) error[i] = gd__fit_error(gd_data(covariance), n, g + i * n);
    gd__free(ctx, g, (size_t)(rows * n) * sizeof *g);
    return status;
}
