/* Statistics of a fit besides its parameters: likelihood, information criteria, and the comparison of two fits of the same data. */
#include "base/special.h"
#include "fit/fit_job.h"

#include <math.h>

/* The logarithm of the likelihood of normal errors.  With --absolute-sigma their standard deviations are the given ones, and
 * rss is chi-square; else one more is estimated, rss / n, and for weighted rows this is the number that R's logLik gives. */
static double log_likelihood(const gd_fit *j)
{
    double n = (double)j->fit.residuals, weights = 0;
    const double *scale = j->scale ? gd_data(j->scale) : NULL;
    for (int64_t i = 0; scale && i < gd_numel(j->scale); i++) weights += 2 * log(scale[i]);
    double misfit = j->absolute ? j->fit.rss : n * (1 - log(n) + log(j->fit.rss));
    return -0.5 * (n * log(2 * 3.14159265358979323846) + misfit - weights);
}

/* A fingerprint of the fitted rows: FNV-1a over their values and factors. */
static uint64_t rows_hash(const gd_fit *j)
{
    uint64_t hash = 14695981039346656037u;
    gd_tensor *const column[] = {j->y, j->scale};
    for (int k = 0; k < 2; k++) {
        const unsigned char *byte = column[k] ? gd_data(column[k]) : NULL;
        for (int64_t i = 0; byte && i < gd_numel(column[k]) * (int64_t)sizeof(double); i++)
            hash = (hash ^ byte[i]) * 1099511628211u;
    }
    return hash;
}

gd_fit_numbers gd__fit_numbers(double log_likelihood, double free, double points, bool known)
{
    double k = known ? free : free + 1; /* an estimated standard deviation counts */
    gd_fit_numbers out = {.log_likelihood = log_likelihood,
                          .aic = -2 * log_likelihood + 2 * k,
                          .bic = -2 * log_likelihood + k * log(points)};
    out.aicc = points - k - 1 > 0 ? out.aic + 2 * k * (k + 1) / (points - k - 1) : INFINITY;
    return out;
}

/* 1 - rss / sum of squares about the mean, weighted; NAN where y is constant. */
static double r_squared(gd_fit *j)
{
    const double *y = gd_data(j->y), *s = j->scale ? gd_data(j->scale) : NULL;
    double weight = 0, mean = 0, total = 0;
    int64_t rows = gd_numel(j->y);
    for (int64_t i = 0; i < rows; i++) {
        double w = s ? s[i] * s[i] : 1;
        weight += w;
        mean += w * y[i];
    }
    mean /= weight;
    for (int64_t i = 0; i < rows; i++) total += (s ? s[i] * s[i] : 1) * (y[i] - mean) * (y[i] - mean);
    return total > 0 ? 1 - j->fit.rss / total : NAN;
}

#define FAR 3 /* standard deviations from the curve: an outlier */

static void note_outlier(gd_fit *j, void *user, int64_t line, int64_t i, double fitted)
{
    bool *failed = user;
    double z = gd__fit_standardized(j, i, fitted);
    if (!(fabs(z) > FAR) || *failed) return;
    *failed = !gd__grow(j->ctx, &j->robust.outlier, &j->robust.outlier_bytes,
                        (size_t)(j->robust.outliers + 1) * sizeof *j->robust.outlier);
    if (!*failed)
        j->robust.outlier[j->robust.outliers++] = (gd_outlier){
            line,
            j->x_errors.distance ? -j->x_errors.distance[i] : ((const double *)gd_data(j->y))[i] - fitted, z};
}

gd_status gd__fit_judge(gd_fit *j)
{
    bool failed = false;
    if (j->robust.loss) { /* no likelihood of normal errors, and no statistics based on it */
        j->r2 = NAN;
        j->numbers = (gd_fit_numbers){NAN, NAN, NAN, NAN, NAN, rows_hash(j)};
        gd_status status = gd__fit_each_row(j, &failed, note_outlier);
        return failed ? GD_NOMEM : status;
    }
    j->numbers = (gd_fit_numbers){NAN, NAN, NAN, NAN, NAN, rows_hash(j)};
    j->numbers.p = j->absolute && j->fit.dof > 0 ? gd__chi_square_tail(j->fit.rss, (double)j->fit.dof) : NAN;
    if (j->x_errors.count) { /* the points are unknowns too: no comparable likelihood */
        j->r2 = NAN;
        return GD_OK;
    }
    double p = j->numbers.p;
    j->r2 = r_squared(j);
    j->numbers = gd__fit_numbers(log_likelihood(j), (double)j->fit.free, (double)j->fit.residuals,
                                 j->absolute);
    j->numbers.rows = rows_hash(j);
    j->numbers.p = p;
    return GD_OK;
}
