/* A decay and a peak over many rows: a exp(-b t) + c exp(-((t - d) / s)^2) + g, with noise. */
#ifndef GD_PEER_DECAY_H
#define GD_PEER_DECAY_H

#include <math.h>
#include <stdlib.h>

#define DECAY_PARAMS 6

typedef struct decay_table {
    long rows;
    double *t, *y, p[DECAY_PARAMS];
} decay_table;

static const double decay_start[DECAY_PARAMS] = {1, 1, 1, 4, 1, 0};

static inline void decay_fill(long rows, double *t, double *y)
{
    for (long i = 0; i < rows; i++) {
        t[i] = 10.0 * (double)i / (double)rows;
        double z = (t[i] - 5) / 0.8, noise = 0.1 * ((double)(i * 7919 % 10007) / 10007 - 0.5);
        y[i] = 2.5 * exp(-0.7 * t[i]) + 1.2 * exp(-z * z) + 0.3 + noise;
    }
}

static inline decay_table *decay_open(long rows)
{
    decay_table *d = (decay_table *)calloc(1, sizeof *d);
    d->rows = rows;
    d->t = (double *)malloc((size_t)rows * sizeof(double));
    d->y = (double *)malloc((size_t)rows * sizeof(double));
    if (!d->t || !d->y) exit(1);
    decay_fill(rows, d->t, d->y);
    return d;
}

static inline void decay_close(void *job)
{
    decay_table *d = (decay_table *)job;
    free(d->t);
    free(d->y);
    free(d);
}

/* Residuals in r, their Jacobian row by row in j; NULL: not wanted. */
static inline void decay_residuals(const decay_table *d, const double *p, double *r, double *j)
{
    for (long i = 0; i < d->rows; i++) {
        double t = d->t[i], fall = exp(-p[1] * t), z = (t - p[3]) / p[4], peak = exp(-z * z);
        if (r) r[i] = p[0] * fall + p[2] * peak + p[5] - d->y[i];
        if (!j) continue;
        double *row = j + DECAY_PARAMS * i;
        row[0] = fall;
        row[1] = -p[0] * t * fall;
        row[2] = peak;
        row[3] = 2 * p[2] * peak * z / p[4];
        row[4] = 2 * p[2] * peak * z * z / p[4];
        row[5] = 1;
    }
}

#endif
