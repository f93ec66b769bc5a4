/* The linear model of a least-squares problem. */
#include "optim/solve.h"

#include "base/ctx.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Doubles in one block: scale, values, c, gradient, columns, vt. */
static size_t room(const gd_lm_model *a)
{
    return (size_t)(3 * a->n + 2 * a->k + a->k * a->n) * sizeof(double);
}

gd_status gd__lm_begin(gd_lm_model *a, gd_ctx *ctx, int64_t m, int64_t n)
{
    *a = (gd_lm_model){.ctx = ctx, .m = m, .n = n, .k = m < n ? m : n};
    if (!(a->scale = gd__calloc(ctx, room(a)))) return GD_NOMEM;
    a->gradient = a->scale + n;
    a->columns = a->gradient + n;
    a->values = a->columns + n;
    a->c = a->values + a->k;
    a->vt = a->c + a->k;
    return GD_OK;
}

void gd__lm_end(gd_lm_model *a)
{
    if (a->scale) gd__free(a->ctx, a->scale, room(a));
    a->scale = NULL;
}

static gd_status read_all(gd_tensor *t, double *out, int64_t count)
{
    return t ? gd_read_f64(t, out, count) : GD_NOMEM;
}

/* Norms of the columns into a->columns; false where one is not finite. */
static gd_status measure(gd_lm_model *a, gd_tensor *j, gd_tensor *r, bool *finite)
{
    gd_tensor *norms = gd_norm(j, 2, "0", false), *size = gd_norm(r, 2, NULL, false);
    gd_status status = read_all(norms, a->columns, a->n);
    *finite = !status && size && isfinite(gd_item(size));
    for (int64_t i = 0; i < a->n; i++) *finite = *finite && isfinite(a->columns[i]);
    return status ? status : size ? GD_OK : gd_error(a->ctx);
}

static void rescale(gd_lm_model *a, bool grow)
{
    for (int64_t i = 0; i < a->n; i++)
        if (a->scale[i] == 0 || (grow && a->scale[i] < a->columns[i]) || !grow)
            a->scale[i] = a->columns[i] > 0 ? a->columns[i] : a->scale[i] > 0 ? a->scale[i] : 1;
}

/* U S V^T of the triangle, c = U^T q. */
static gd_status decompose(gd_lm_model *a, gd_tensor *scaled, gd_tensor *r)
{
    gd_tensor *side = gd_unsqueeze(r, 1, NULL), *both = gd_cat((gd_tensor *[]){scaled, side}, 2, "1");
    gd_tensor *q = NULL, *triangle = NULL, *u = NULL, *values = NULL, *vt = NULL;
    if (!side || !both) return gd_error(a->ctx);
    gd_status status = gd_qr(both, &q, &triangle);
    if (status) return status;
    gd_release(q);
    triangle = gd_slice(triangle, "0", 0, a->k, 1);
    gd_tensor *right = gd_index(triangle, "1", a->n);
    status = gd_svd(gd_slice(triangle, "1", 0, a->n, 1), &u, &values, &vt);
    if (!status) status = read_all(values, a->values, a->k);
    if (!status) status = read_all(vt, a->vt, a->k * a->n);
    if (!status) status = read_all(gd_matmul(gd_transpose(u, 0, 1), right), a->c, a->k);
    return status;
}

gd_status gd__lm_set(gd_lm_model *a, gd_tensor *j, gd_tensor *r, bool grow, bool *finite)
{
    gd_ctx *ctx = a->ctx;
    gd_scope_begin(ctx);
    gd_status status = measure(a, j, r, finite);
    if (!status && *finite) {
        rescale(a, grow);
        gd_tensor *scale = gd_from_f64(ctx, GD_F64, 1, &a->n, a->scale);
        gd_tensor *scaled = scale ? gd_div(j, scale) : NULL;
        status = scaled ? decompose(a, scaled, r) : gd_error(ctx);
        if (!status) status = read_all(gd_matmul(gd_transpose(j, 0, 1), r), a->gradient, a->n);
        double least = a->k ? a->values[0] * DBL_EPSILON * (double)(a->m > a->n ? a->m : a->n) : 0;
        for (a->rank = 0; a->rank < a->k && a->values[a->rank] > least;) a->rank++;
    }
    gd_scope_end(ctx);
    return status;
}

/* |s(lambda)| and, where asked, its derivative. */
static double norm_at(const gd_lm_model *a, double lambda, double *slope)
{
    double sum = 0, change = 0;
    int64_t used = lambda > 0 ? a->k : a->rank;
    for (int64_t i = 0; i < used; i++) {
        double d = a->values[i] * a->values[i] + lambda, q = a->values[i] * a->c[i] / d;
        sum += q * q;
        change += q * q / d;
    }
    double norm = sqrt(sum);
    if (slope) *slope = norm > 0 ? -change / norm : 0;
    return norm;
}

/* lambda with |s(lambda)| within a tenth of the radius: Newton on a reciprocal, inside a bracket (More 1978). */
static double damping(const gd_lm_model *a, double radius, double guess)
{
    double low = 0, high = 0, lambda = guess;
    for (int64_t i = 0; i < a->k; i++) high = hypot(high, a->values[i] * a->c[i]);
    high /= radius;
    if (!(lambda > low && lambda < high)) lambda = fmax(lambda, 1e-3 * high);
    if (!(lambda < high)) lambda = 0.5 * high;
    for (int i = 0; i < 60; i++) {
        double slope, norm = norm_at(a, lambda, &slope);
        if (fabs(norm - radius) <= 0.1 * radius) break;
        if (norm > radius)
            low = fmax(low, lambda);
        else
            high = fmin(high, lambda);
        lambda -= norm / radius * (norm - radius) / slope;
        if (!(lambda > low && lambda < high)) lambda = fmax(1e-3 * high, sqrt(low * high));
    }
    return lambda;
}

void gd__lm_step(const gd_lm_model *a, double radius, double *lambda, double *s)
{
    double full = norm_at(a, 0, NULL);
    *lambda = full <= 1.1 * radius ? 0 : damping(a, radius, *lambda);
    memset(s, 0, (size_t)a->n * sizeof *s);
    for (int64_t i = 0; i < (*lambda > 0 ? a->k : a->rank); i++) {
        double q = -a->values[i] * a->c[i] / (a->values[i] * a->values[i] + *lambda);
        for (int64_t j = 0; j < a->n; j++) s[j] += q * a->vt[i * a->n + j];
    }
}

void gd__lm_acceleration(const gd_lm_model *a, double lambda, const double *jty, double *out)
{
    memset(out, 0, (size_t)a->n * sizeof *out);
    for (int64_t i = 0; i < (lambda > 0 ? a->k : a->rank); i++) {
        const double *v = a->vt + i * a->n;
        double part = 0;
        for (int64_t j = 0; j < a->n; j++) part += v[j] * jty[j] / a->scale[j];
        part *= -0.5 / (a->values[i] * a->values[i] + lambda);
        for (int64_t j = 0; j < a->n; j++) out[j] += part * v[j];
    }
}

void gd__lm_predict(const gd_lm_model *a, double lambda, double *decrease, double *bent)
{
    *decrease = *bent = 0;
    for (int64_t i = 0; i < (lambda > 0 ? a->k : a->rank); i++) {
        double d = a->values[i] * a->values[i], y = d * a->c[i] / (d + lambda);
        *decrease += y * (2 * a->c[i] - y);
        *bent += y * y;
    }
}

void gd__lm_covariance(const gd_lm_model *a, double *out)
{
    memset(out, 0, (size_t)(a->n * a->n) * sizeof *out);
    for (int64_t i = 0; i < a->rank; i++) {
        const double *v = a->vt + i * a->n;
        double w = 1 / (a->values[i] * a->values[i]);
        for (int64_t j = 0; j < a->n; j++)
            for (int64_t l = 0; l < a->n; l++)
                out[j * a->n + l] += w * (v[j] / a->scale[j]) * (v[l] / a->scale[l]);
    }
    /* a parameter with a part outside the determined directions */
    for (int64_t j = 0; j < a->n && a->rank < a->n; j++) {
        double inside = 0;
        for (int64_t i = 0; i < a->rank; i++) inside += a->vt[i * a->n + j] * a->vt[i * a->n + j];
        if (inside < 1 - 1e-10) out[j * a->n + j] = INFINITY;
    }
}
