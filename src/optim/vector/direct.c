#include "optim/vector/direct.h"

#include "base/ctx.h"
#include "optim/vector/triangle.h"

#include <math.h>
#include <string.h>

#define APART \
    1e7 /* |R| |R^-1| up to which columns count as independent: ten times the limit beyond which singular values are used */

static size_t numbers(const gd_direct *d)
{
    size_t wide = (size_t)d->most + 1;
    return (4 * wide + 1) * wide * sizeof(double);
}

static size_t pointers(const gd_direct *d) { return ((size_t)d->most + 1) * sizeof *d->column; }

gd_status gd__direct_begin(gd_direct *d, gd_ctx *ctx, int64_t most)
{
    *d = (gd_direct){.ctx = ctx, .loops = gd__loops_for(ctx, GD_F64), .most = most, .lambda = NAN};
    if (!(d->factor = gd__alloc(ctx, numbers(d))) || !(d->column = gd__alloc(ctx, pointers(d))))
        return GD_NOMEM;
    int64_t square = (most + 1) * (most + 1);
    d->damped = d->factor + square;
    d->inverse = d->damped + square;
    d->room = d->inverse + square;
    d->x = d->room + square;
    return GD_OK;
}

void gd__direct_end(gd_direct *d)
{
    if (d->column) gd__free(d->ctx, d->column, pointers(d));
    if (d->factor) gd__free(d->ctx, d->factor, numbers(d));
    *d = (gd_direct){0};
}

/* ---- the triangle ---- */

/* R^-1 row by row from below: a row of it is a sum of the rows below. */
static void invert(gd_direct *d)
{
    int64_t n = d->n;
    memset(d->inverse, 0, (size_t)(n * n) * sizeof *d->inverse);
    for (int64_t i = n; i-- > 0;) {
        const double *r = d->factor + i * (n + 1);
        double *x = d->inverse + i * n;
        for (int64_t l = i + 1; l < n; l++) d->loops->move(x + l, x + l, d->inverse + l * n + l, r[l], n - l);
        x[i] = 1;
        d->loops->scale(x + i, x + i, 1 / r[i], n - i);
    }
}

static bool is_apart(gd_direct *d)
{
    int64_t n = d->n;
    double size = 0, back = 0;
    for (int64_t i = 0; i < n; i++) {
        if (d->factor[i * (n + 2)] == 0) return false;
        size += d->loops->dot(d->factor + i * (n + 1), d->factor + i * (n + 1), n);
    }
    invert(d);
    for (int64_t i = 0; i < n; i++) back += d->loops->dot(d->inverse + i * n, d->inverse + i * n, n);
    return sqrt(size) * sqrt(back) < APART;
}

/* Columns of a triangle without some of its columns are no triangle. */
static void take_columns(gd_direct *d, const double *triangle, int64_t all, const bool *fixed,
                         const double *s)
{
    int64_t at = 0;
    for (int64_t j = 0; j <= all; j++) {
        if (j < all && fixed[j]) continue;
        double *column = d->column[at] = d->room + at * all;
        for (int64_t i = 0; i < all; i++) column[i] = triangle[i * (all + 1) + j];
        at++;
    }
    for (int64_t j = 0; j < all && s; j++)
        for (int64_t i = 0; i <= j && fixed[j]; i++) d->column[d->n][i] += triangle[i * (all + 1) + j] * s[j];
    gd__triangle_add(d->loops, d->factor, d->n + 1, d->column, all);
}

bool gd__direct_set(gd_direct *d, const double *triangle, int64_t all, const bool *fixed, const double *s)
{
    d->n = 0;
    for (int64_t j = 0; j < all; j++) d->n += !fixed[j];
    d->lambda = NAN;
    if (!d->n) return false;
    memset(d->factor, 0, (size_t)((d->n + 1) * (d->n + 1)) * sizeof *d->factor);
    if (d->n == all)
        memcpy(d->factor, triangle, (size_t)(all * (all + 1)) * sizeof *d->factor);
    else
        take_columns(d, triangle, all, fixed, s);
    return is_apart(d);
}

static void damp(gd_direct *d, double lambda)
{
    int64_t wide = d->n + 1;
    if (d->lambda == lambda) return;
    memcpy(d->damped, d->factor, (size_t)(wide * wide) * sizeof *d->damped);
    if (lambda > 0) gd__triangle_damp(d->loops, d->damped, wide, d->room, d->column, sqrt(lambda));
    d->lambda = lambda;
}

/* ---- solving ---- */

/* x = T^-T x, T the damped triangle. */
static void forward(const gd_direct *d, double *x)
{
    for (int64_t i = 0, n = d->n; i < n; i++) {
        const double *t = d->damped + i * (n + 1);
        x[i] /= t[i];
        d->loops->move(x + i + 1, x + i + 1, t + i + 1, x[i], n - i - 1);
    }
}

/* x = T^-1 x */
static void backward(const gd_direct *d, double *x)
{
    for (int64_t n = d->n, i = n; i-- > 0;) {
        const double *t = d->damped + i * (n + 1);
        x[i] = (x[i] - d->loops->dot(t + i + 1, x + i + 1, n - i - 1)) / t[i];
    }
}

double gd__direct_step(gd_direct *d, double lambda, double *slope)
{
    int64_t n = d->n;
    damp(d, lambda);
    for (int64_t i = 0; i < n; i++) d->x[i] = -d->damped[i * (n + 1) + n];
    backward(d, d->x);
    double norm = sqrt(d->loops->dot(d->x, d->x, n));
    if (!slope) return norm;
    /* d |s| / d lambda = -s (R^T R + lambda I)^-1 s / |s| */
    double *y = d->room;
    memcpy(y, d->x, (size_t)n * sizeof *y);
    forward(d, y);
    *slope = norm > 0 ? -d->loops->dot(y, y, n) / norm : 0;
    return norm;
}

double gd__direct_gradient(gd_direct *d)
{
    int64_t n = d->n;
    double *y = d->room;
    memset(y, 0, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++) {
        const double *r = d->factor + i * (n + 1);
        d->loops->move(y + i, y + i, r + i, -r[n], n - i);
    }
    return sqrt(d->loops->dot(y, y, n));
}

void gd__direct_solve(gd_direct *d, double lambda, double *x)
{
    damp(d, lambda);
    forward(d, x);
    backward(d, x);
}

void gd__direct_predict(const gd_direct *d, double *decrease, double *bent)
{
    *decrease = *bent = 0;
    for (int64_t i = 0, n = d->n; i < n; i++) {
        const double *r = d->factor + i * (n + 1);
        double y = -d->loops->dot(r + i, d->x + i, n - i);
        *decrease += y * (2 * r[n] - y);
        *bent += y * y;
    }
}

double gd__direct_covariance(const gd_direct *d, int64_t i, int64_t j)
{
    int64_t from = i > j ? i : j;
    return d->loops->dot(d->inverse + i * d->n + from, d->inverse + j * d->n + from, d->n - from);
}
