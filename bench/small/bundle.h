/* A bundle adjustment that is made up: cameras on a circle look at points around its middle, and where each sees them is known with noise.
 *
 * A camera has nine parameters, as in the data sets "bundle adjustment in the large" (Agarwal et al. 2010): a rotation as a vector, a
 * translation, a focal length and two distortions.  Each camera has a weak prior, so that place and size of the whole are determined. */
#ifndef GD_BENCH_BUNDLE_H
#define GD_BENCH_BUNDLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BUNDLE_CAMERA = 9, BUNDLE_POINT = 3 };

typedef struct bundle {
    int64_t cameras, points, seen, residuals,
        params;                 /* seen: observations, two residuals each; then nine per camera */
    int32_t *camera, *point;    /* [seen] */
    double *at, *truth, *start; /* [seen, 2]; [params]: cameras, then points */
    int64_t *row_start, *column;
} bundle;

/* NULL: no memory. */
bundle *bench_bundle(int64_t cameras, int64_t points, int64_t views);
void bench_bundle_free(bundle *b);

/* Two residuals of an observation; dc [2, 9] and dp [2, 3] may be NULL. */
void bench_bundle_seen(const double *camera, const double *point, const double *at, double *r, double *dc,
                       double *dp);
/* The weight of element k of a camera's prior, which is at `start`. */
double bench_bundle_prior(int k);

/* Minimises with Ceres, SPARSE_SCHUR on one thread, from x, which ends at the minimum; seconds without setting the problem up, *cost the
 * sum of squares, *steps how many. */
double bench_bundle_ceres(const bundle *b, double tolerance, double *x, double *cost, int *steps);

#ifdef __cplusplus
}
#endif
#endif
