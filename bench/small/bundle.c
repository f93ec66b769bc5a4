/* The made-up bundle adjustment of bundle.h: its geometry with derivatives, and its data. */
#include "small/bundle.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* R of a rotation vector (Rodrigues), and with d the derivatives of R p by the vector, d[i][k] (Gallego & Yezzi 2015). */
static void rotate(const double *w, const double *p, double out[3], double r[9], double d[9])
{
    double angle2 = w[0] * w[0] + w[1] * w[1] + w[2] * w[2], angle = sqrt(angle2);
    double s = angle > 1e-8 ? sin(angle) / angle : 1, c = angle > 1e-8 ? (1 - cos(angle)) / angle2 : 0.5;
    const double skew[9] = {0, -w[2], w[1], w[2], 0, -w[0], -w[1], w[0], 0};
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            r[3 * i + k] = (i == k) + s * skew[3 * i + k] + c * (w[i] * w[k] - (i == k) * angle2);
    for (int i = 0; i < 3; i++) out[i] = r[3 * i] * p[0] + r[3 * i + 1] * p[1] + r[3 * i + 2] * p[2];
    if (!d) return;
    const double px[9] = {0, -p[2], p[1], p[2], 0, -p[0], -p[1], p[0], 0};
    double inner[9]; /* (w w' + (R' - I) [w]) / |w|^2; I near 0 */
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            double sum = w[i] * w[k];
            for (int l = 0; l < 3; l++) sum += (r[3 * l + i] - (i == l)) * skew[3 * l + k];
            inner[3 * i + k] = angle > 1e-8 ? sum / angle2 : i == k;
        }
    double rp[9];
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            rp[3 * i + k] = 0;
            for (int l = 0; l < 3; l++) rp[3 * i + k] += r[3 * i + l] * px[3 * l + k];
        }
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            d[3 * i + k] = 0;
            for (int l = 0; l < 3; l++) d[3 * i + k] -= rp[3 * i + l] * inner[3 * l + k];
        }
}

/* u = -P_xy / P_z with P = R X + t, then f (1 + k1 |u|^2 + k2 |u|^4) u. */
void bench_bundle_seen(const double *camera, const double *point, const double *at, double *r, double *dc,
                       double *dp)
{
    double p[3], rotation[9], turned[9];
    rotate(camera, point, p, rotation, dc ? turned : NULL);
    for (int i = 0; i < 3; i++) p[i] += camera[3 + i];
    double inverse = -1 / p[2], u[2] = {p[0] * inverse, p[1] * inverse}, n = u[0] * u[0] + u[1] * u[1];
    double f = camera[6], distortion = 1 + n * (camera[7] + n * camera[8]);
    for (int i = 0; i < 2; i++) r[i] = f * distortion * u[i] - at[i];
    if (!dc) return;
    double slope = camera[7] + 2 * n * camera[8]; /* of distortion by n */
    for (int i = 0; i < 2; i++) {
        double by_u[2], by_p[3];
        for (int k = 0; k < 2; k++) by_u[k] = f * ((i == k) * distortion + 2 * slope * u[i] * u[k]);
        by_p[0] = by_u[0] * inverse;
        by_p[1] = by_u[1] * inverse;
        by_p[2] = (by_u[0] * u[0] + by_u[1] * u[1]) * inverse;
        double *c = dc + BUNDLE_CAMERA * i, *q = dp + BUNDLE_POINT * i;
        for (int k = 0; k < 3; k++) {
            c[k] = by_p[0] * turned[k] + by_p[1] * turned[3 + k] + by_p[2] * turned[6 + k];
            c[3 + k] = by_p[k];
            q[k] = by_p[0] * rotation[k] + by_p[1] * rotation[3 + k] + by_p[2] * rotation[6 + k];
        }
        c[6] = distortion * u[i];
        c[7] = f * n * u[i];
        c[8] = f * n * n * u[i];
    }
}

double bench_bundle_prior(int k)
{
    static const double weight[BUNDLE_CAMERA] = {10, 10, 10, 1, 1, 1, 0.01, 10, 10};
    return weight[k];
}

static double noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(*seed >> 8) / (1 << 23) - 1;
}

/* Cameras stand on a circle of radius 10 around the z-axis of the points, and look at its middle, along their own -z. */
static void place_camera(double *c, double turn)
{
    c[0] = 0, c[1] = turn, c[2] = 0;
    c[3] = 0, c[4] = 0, c[5] = -10;
    c[6] = 500, c[7] = -0.05, c[8] = 0.01;
}

static void fill(bundle *b, int64_t views)
{
    uint32_t seed = 3;
    for (int64_t i = 0; i < b->cameras; i++)
        place_camera(b->truth + i * BUNDLE_CAMERA, 3 * ((double)i / (double)b->cameras - 0.5));
    double *point = b->truth + b->cameras * BUNDLE_CAMERA;
    for (int64_t i = 0; i < BUNDLE_POINT * b->points; i++) point[i] = 2 * noise(&seed);
    for (int64_t i = 0; i < b->params; i++) {
        bool camera = i < b->cameras * BUNDLE_CAMERA;
        int64_t k = i % BUNDLE_CAMERA;
        double size = !camera ? 0.1 : k < 3 ? 0.01 : k < 6 ? 0.1 : k == 6 ? 5 : 0.01;
        b->start[i] = b->truth[i] + size * noise(&seed);
    }
    for (int64_t i = 0; i < b->seen; i++) {
        static const double none[2] = {0, 0};
        b->point[i] = (int32_t)(i / views);
        b->camera[i] = (int32_t)((b->point[i] * 7 + i % views * 3) % b->cameras);
        bench_bundle_seen(b->truth + b->camera[i] * BUNDLE_CAMERA, point + b->point[i] * BUNDLE_POINT, none,
                          b->at + 2 * i, NULL, NULL);
        b->at[2 * i] += 0.5 * noise(&seed);
        b->at[2 * i + 1] += 0.5 * noise(&seed);
    }
    int64_t at = 0;
    for (int64_t i = 0; i < b->residuals; i++) {
        int64_t k = i - 2 * b->seen, o = i / 2;
        for (int64_t c = 0; c < BUNDLE_CAMERA && k < 0; c++)
            b->column[at++] = b->camera[o] * BUNDLE_CAMERA + c;
        for (int64_t c = 0; c < BUNDLE_POINT && k < 0; c++)
            b->column[at++] = b->cameras * BUNDLE_CAMERA + b->point[o] * BUNDLE_POINT + c;
        if (k >= 0) b->column[at++] = k;
        b->row_start[i + 1] = at;
    }
}

bundle *bench_bundle(int64_t cameras, int64_t points, int64_t views)
{
    bundle *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    b->cameras = cameras, b->points = points, b->seen = points * views;
    b->params = cameras * BUNDLE_CAMERA + points * BUNDLE_POINT;
    b->residuals = 2 * b->seen + cameras * BUNDLE_CAMERA;
    b->camera = calloc((size_t)b->seen, sizeof *b->camera);
    b->point = calloc((size_t)b->seen, sizeof *b->point);
    b->at = calloc((size_t)(2 * b->seen), sizeof *b->at);
    b->truth = calloc((size_t)(2 * b->params), sizeof *b->truth);
    b->row_start = calloc((size_t)b->residuals + 1, sizeof *b->row_start);
    b->column = calloc((size_t)(b->residuals * (BUNDLE_CAMERA + BUNDLE_POINT)), sizeof *b->column);
    if (b->camera && b->point && b->at && b->truth && b->row_start && b->column) {
        b->start = b->truth + b->params;
        fill(b, views);
        return b;
    }
    bench_bundle_free(b);
    return NULL;
}

void bench_bundle_free(bundle *b)
{
    if (!b) return;
    free(b->camera);
    free(b->point);
    free(b->at);
    free(b->truth);
    free(b->row_start);
    free(b->column);
    free(b);
}
