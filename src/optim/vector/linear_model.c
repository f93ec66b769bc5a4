/* Residuals linearised at a point. */
#include "optim/vector/linear_model.h"
#include "gradus/link/linop.h"
#include "gradus/link/list.h"

#include "base/ctx.h"
#include "optim/vector/jacobian.h"
#include "optim/vector/triangle.h"
#include "tensor/tensor_internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define FEW 16 /* number of parameters whose SVD is cheap */

/* ---- Jacobian and residuals ---- */

gd_tensor *gd__linear_copy(gd_tensor *t, gd_device *device, gd_dtype dtype)
{
    gd_ctx *ctx = t->head.ctx;
    gd__aside_begin(ctx);
    gd_tensor *out = gd_cast(gd_to_device(gd_drop_names(gd_detach(t)), device), dtype);
    gd__own(out);
    gd__aside_end(ctx);
    return out;
}

gd_tensor *gd__numbers(gd_tensor *t) { return t ? gd__linear_copy(t, gd__cpu(t->head.ctx), GD_F64) : NULL; }

gd_status gd__linear_from(gd_tensor *residuals, gd_tensor *const *params, int count, bool numbers,
                          gd_tensor **j, gd_tensor **r)
{
    gd_ctx *ctx = residuals->head.ctx;
    *j = *r = NULL;
    gd_scope_begin(ctx);
    gd_tensor *raw = gd__jacobian_matrix(residuals, params, count);
    if (raw) {
        gd_device *device = numbers ? gd__cpu(ctx) : raw->storage->device;
        gd_dtype dtype = numbers ? GD_F64 : raw->dtype;
        *j = gd__linear_copy(raw, device, dtype);
        *r = *j ? gd__linear_copy(residuals, device, dtype) : NULL;
    }
    gd_scope_end(ctx);
    if (*r) return GD_OK;
    gd__release(*j);
    *j = NULL;
    return gd_error(ctx);
}

/* ---- triangles ---- */

/* For a matrix whose first n columns are A. */
static gd_tensor *reduced(gd_tensor *rows, int64_t n)
{
    gd_tensor *q = NULL, *triangle = NULL;
    if (!rows || gd_qr(rows, &q, &triangle)) return NULL;
    gd_release(q);
    return gd_slice(triangle, "0", 0, gd_size(rows, 0) < n ? gd_size(rows, 0) : n, 1);
}

static gd_tensor *joined(gd_tensor *a, gd_tensor *b)
{
    return b ? gd_cat((gd_tensor *[]){a, gd_unsqueeze(b, 1, NULL)}, 2, "1") : a;
}

/* More rows than columns are processed in blocks: a QR would form Q, which costs as much again and is not needed. */
static bool is_tall(gd_tensor *a)
{
    return gd_size(a, 0) > 2 * gd_size(a, 1) && gd_tensor_dtype(a) == GD_F64 &&
           gd_tensor_device(a) == gd__cpu(gd_tensor_ctx(a));
}

gd_tensor *gd__triangle(gd_tensor *a, gd_tensor *b)
{
    if (!a || !is_tall(a)) return reduced(joined(a, b), gd_size(a, 1));
    gd_tensor *triangle = gd__triangle_of_rows(a, b);
    return triangle ? gd_slice(triangle, "0", 0, gd_size(a, 1), 1) : NULL;
}

gd_tensor *gd__damped(gd_tensor *a, gd_tensor *b, double factor, double shift)
{
    int64_t n = gd_size(a, 1);
    gd_tensor *left = factor == 1 ? a : gd_mul_scalar(a, sqrt(factor)),
              *right = factor == 1 || !b ? b : gd_mul_scalar(b, 1 / sqrt(factor)), *rows = NULL;
    if (left && (right || !b)) rows = joined(left, right);
    if (!rows || !(shift > 0)) return reduced(rows, n);
    gd_tensor *below = gd_to_device(gd_eye(a->head.ctx, a->dtype, n, gd_size(rows, 1)), a->storage->device);
    return reduced(gd_cat((gd_tensor *[]){rows, gd_mul_scalar(below, sqrt(shift))}, 2, "0"), n);
}

/* A = U diag(values) V^T, c = U^T b.  New. */
static gd_status decompose(gd_tensor *a, gd_tensor *b, gd_tensor **values, gd_tensor **vt, gd_tensor **c)
{
    gd_tensor *u = NULL;
    gd_status status = a && b ? gd_svd(a, &u, values, vt) : gd_error((a ? a : b)->head.ctx);
    *c = status ? NULL : gd_matmul(gd_transpose(u, 0, 1), b);
    return status || *c ? status : gd_error(a->head.ctx);
}

/* ---- the model of a fit ---- */

/* Doubles in one block: scale, gradient, columns, values, c, vt, triangle, work. */
static size_t room(const gd_lm_model *a)
{
    return (size_t)(3 * a->n + 2 * a->k + a->k * (3 * a->n + 2)) * sizeof(double);
}

gd_status gd__lm_begin(gd_lm_model *a, gd_ctx *ctx, int64_t m, int64_t n)
{
    *a = (gd_lm_model){.ctx = ctx, .m = m, .n = n, .k = m < n ? m : n};
    if (!(a->scale = gd__calloc(ctx, room(a)))) return GD_NOMEM;
    if (!(a->fixed = gd__calloc(ctx, (size_t)n * sizeof *a->fixed))) return GD_NOMEM;
    a->gradient = a->scale + n;
    a->columns = a->gradient + n;
    a->values = a->columns + n;
    a->c = a->values + a->k;
    a->vt = a->c + a->k;
    a->triangle = a->vt + a->k * n;
    a->work = a->triangle + a->k * (n + 1);
    return n > FEW && m >= n ? gd__direct_begin(&a->direct, ctx, n) : GD_OK;
}

void gd__lm_end(gd_lm_model *a)
{
    if (a->scale) gd__free(a->ctx, a->scale, room(a));
    if (a->fixed) gd__free(a->ctx, a->fixed, (size_t)a->n * sizeof *a->fixed);
    gd__direct_end(&a->direct);
    a->scale = NULL;
    a->fixed = NULL;
}

static gd_status read_all(gd_tensor *t, double *out, int64_t count)
{
    return t ? gd_read_f64(t, out, count) : GD_NOMEM;
}

/* Norms of the columns into a->columns where all are finite. */
static gd_status measure(gd_lm_model *a, gd_tensor *j, gd_tensor *r, bool *finite)
{
    gd_tensor *norms = gd_norm(j, 2, "0", false), *size = gd_norm(r, 2, NULL, false);
    gd_status status = read_all(norms, a->work, a->n);
    *finite = !status && size && isfinite(gd_item(size));
    for (int64_t i = 0; i < a->n; i++) *finite = *finite && isfinite(a->work[i]);
    if (*finite) memcpy(a->columns, a->work, (size_t)a->n * sizeof *a->columns);
    return status ? status : size ? GD_OK : gd_error(a->ctx);
}

static void rescale(gd_lm_model *a, bool grow)
{
    for (int64_t i = 0; i < a->n; i++)
        if (a->scale[i] == 0 || (grow && a->scale[i] < a->columns[i]) || !grow)
            a->scale[i] = a->columns[i] > 0 ? a->columns[i] : a->scale[i] > 0 ? a->scale[i] : 1;
}

/* U S V^T of the matrix in work, c = U^T of the right side behind it. */
static gd_status decompose_work(gd_lm_model *a)
{
    gd_tensor *values = NULL, *vt = NULL, *c = NULL;
    gd_tensor *matrix = gd_from_f64(a->ctx, GD_F64, 2, (int64_t[]){a->k, a->n}, a->work);
    gd_tensor *right = gd_from_f64(a->ctx, GD_F64, 1, &a->k, a->work + a->k * a->n);
    gd_status status = matrix && right ? decompose(matrix, right, &values, &vt, &c) : gd_error(a->ctx);
    if (!status) status = read_all(values, a->values, a->k);
    if (!status) status = read_all(vt, a->vt, a->k * a->n);
    if (!status) status = read_all(c, a->c, a->k);
    a->rank = status ? 0 : gd__lm_rank(a, DBL_EPSILON * (double)(a->m > a->n ? a->m : a->n));
    return status;
}

int64_t gd__lm_rank(const gd_lm_model *a, double tolerance)
{
    int64_t rank = 0;
    if (a->is_direct) return a->free;
    while (rank < a->k && a->values[rank] > tolerance * a->values[0]) rank++;
    return rank;
}

gd_status gd__lm_restrict(gd_lm_model *a, const bool *fixed, const double *s)
{
    int64_t n = a->n;
    a->free = n;
    for (int64_t j = 0; j < n; j++) {
        a->fixed[j] = fixed && fixed[j];
        a->free -= a->fixed[j];
    }
    a->rank = a->free;
    a->is_direct = a->direct.factor && gd__direct_set(&a->direct, a->triangle, n, a->fixed, s);
    if (a->is_direct) return GD_OK;
    for (int64_t i = 0; i < a->k; i++) {
        const double *row = a->triangle + i * (n + 1);
        double *right = a->work + a->k * n + i;
        *right = row[n];
        for (int64_t j = 0; j < n; j++) {
            a->work[i * n + j] = a->fixed[j] ? 0 : row[j];
            if (a->fixed[j] && s) *right += row[j] * s[j];
        }
    }
    gd_scope_begin(a->ctx);
    gd_status status = decompose_work(a);
    gd_scope_end(a->ctx);
    return status;
}

gd_status gd__lm_set(gd_lm_model *a, gd_tensor *j, gd_tensor *r, bool grow, bool *finite)
{
    gd_ctx *ctx = a->ctx;
    gd_scope_begin(ctx);
    bool tall = is_tall(j);
    if (tall) { /* its triangle has the same norms and products */
        gd_tensor *triangle = gd__triangle_of_rows(j, r);
        j = triangle ? gd_contiguous(gd_slice(triangle, "1", 0, a->n, 1)) : NULL;
        r = j ? gd_contiguous(gd_index(triangle, "1", a->n)) : NULL;
    }
    gd_status status = j && r ? measure(a, j, r, finite) : gd_error(ctx);
    if (!status && *finite) {
        rescale(a, grow);
        gd_tensor *scale = gd_from_f64(ctx, GD_F64, 1, &a->n, a->scale);
        gd_tensor *scaled = scale ? gd_div(j, scale) : NULL;
        gd_tensor *triangle = !scaled ? NULL : tall ? joined(scaled, r) : gd__triangle(scaled, r);
        if (tall && triangle) triangle = gd_slice(triangle, "0", 0, a->n, 1); /* it is one already */
        status = triangle ? read_all(triangle, a->triangle, a->k * (a->n + 1)) : gd_error(ctx);
        if (!status) status = gd__lm_restrict(a, NULL, NULL);
        if (!status) status = read_all(gd_matmul(gd_transpose(j, 0, 1), r), a->gradient, a->n);
    }
    gd_scope_end(ctx);
    return status;
}

gd_status gd__lm_rescale(gd_lm_model *a)
{
    for (int64_t j = 0; j < a->n; j++) {
        double before = a->scale[j];
        if (a->columns[j] > 0) a->scale[j] = a->columns[j];
        for (int64_t i = 0; i < a->k; i++) a->triangle[i * (a->n + 1) + j] *= before / a->scale[j];
    }
    return gd__lm_restrict(a, NULL, NULL);
}

/* |s(lambda)| and, if requested, its derivative. */
static double norm_at(gd_lm_model *a, double lambda, double *slope)
{
    double sum = 0, change = 0;
    if (a->is_direct) return gd__direct_step(&a->direct, lambda, slope);
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
static double damping(gd_lm_model *a, double radius, double guess)
{
    double low = 0, high = a->is_direct ? gd__direct_gradient(&a->direct) : 0, lambda = guess;
    for (int64_t i = 0; i < a->k && !a->is_direct; i++) high = hypot(high, a->values[i] * a->c[i]);
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

/* Numbers of the free parameters to their places among all, and back. */
static void spread_out(const gd_lm_model *a, const double *free, double *all)
{
    for (int64_t j = 0; j < a->n; j++) all[j] = a->fixed[j] ? 0 : *free++;
}

void gd__lm_step(gd_lm_model *a, double radius, double *lambda, double *s)
{
    double full = norm_at(a, 0, NULL);
    *lambda = full <= 1.1 * radius ? 0 : damping(a, radius, *lambda);
    if (a->is_direct) {
        (void)gd__direct_step(&a->direct, *lambda, NULL);
        spread_out(a, a->direct.x, s);
        return;
    }
    memset(s, 0, (size_t)a->n * sizeof *s);
    for (int64_t i = 0; i < (*lambda > 0 ? a->k : a->rank); i++) {
        double q = -a->values[i] * a->c[i] / (a->values[i] * a->values[i] + *lambda);
        for (int64_t j = 0; j < a->n; j++) s[j] += q * a->vt[i * a->n + j];
    }
}

/* The same from the triangle: a->work has room. */
static void direct_acceleration(gd_lm_model *a, double lambda, const double *jty, double *out)
{
    double *x = a->work;
    for (int64_t j = 0; j < a->n; j++)
        if (!a->fixed[j]) *x++ = -0.5 * jty[j] / a->scale[j];
    gd__direct_solve(&a->direct, lambda, a->work);
    spread_out(a, a->work, out);
}

void gd__lm_acceleration(gd_lm_model *a, double lambda, const double *jty, double *out)
{
    if (a->is_direct) {
        direct_acceleration(a, lambda, jty, out);
        return;
    }
    memset(out, 0, (size_t)a->n * sizeof *out);
    for (int64_t i = 0; i < (lambda > 0 ? a->k : a->rank); i++) {
        const double *v = a->vt + i * a->n;
        double partial = 0;
        for (int64_t j = 0; j < a->n; j++) partial += v[j] * jty[j] / a->scale[j];
        partial *= -0.5 / (a->values[i] * a->values[i] + lambda);
        for (int64_t j = 0; j < a->n; j++) out[j] += partial * v[j];
    }
}

void gd__lm_predict(const gd_lm_model *a, double lambda, double *decrease, double *bent)
{
    *decrease = *bent = 0;
    if (a->is_direct) gd__direct_predict(&a->direct, decrease, bent);
    for (int64_t i = 0; i < (a->is_direct ? 0 : lambda > 0 ? a->k : a->rank); i++) {
        double d = a->values[i] * a->values[i], y = d * a->c[i] / (d + lambda);
        *decrease += y * (2 * a->c[i] - y);
        *bent += y * y;
    }
}

void gd__lm_predict_for(const gd_lm_model *a, const double *s, double *decrease, double *slope)
{
    double bent = 0;
    *slope = 0;
    for (int64_t j = 0; j < a->n; j++) *slope += a->gradient[j] * (s[j] / a->scale[j]);
    for (int64_t i = 0; i < a->k; i++) {
        double sum = 0;
        for (int64_t j = 0; j < a->n; j++) sum += a->triangle[i * (a->n + 1) + j] * s[j];
        bent += sum * sum;
    }
    *decrease = -2 * *slope - bent;
}

void gd__lm_full(gd_lm_model *a, double *decrease, double *length)
{
    *decrease = *length = 0;
    if (a->is_direct) {
        double bent;
        *length = gd__direct_step(&a->direct, 0, NULL);
        gd__direct_predict(&a->direct, decrease, &bent);
        return;
    }
    for (int64_t i = 0; i < a->rank; i++) {
        *decrease += a->c[i] * a->c[i];
        *length = hypot(*length, a->c[i] / a->values[i]);
    }
}

bool gd__lm_undetermined(const gd_lm_model *a, int64_t rank, int64_t j)
{
    if (a->fixed[j] || rank >= a->free) return false;
    double inside = 0;
    for (int64_t i = 0; i < rank; i++) inside += a->vt[i * a->n + j] * a->vt[i * a->n + j];
    return inside < 1 - 1e-10;
}

double gd__lm_alike(const gd_lm_model *a, int64_t i, int64_t j)
{
    double dot = 0, left = 0, right = 0;
    for (const double *row = a->triangle; row < a->triangle + a->k * (a->n + 1); row += a->n + 1) {
        dot += row[i] * row[j];
        left += row[i] * row[i];
        right += row[j] * row[j];
    }
    return left > 0 && right > 0 ? fabs(dot) / (sqrt(left) * sqrt(right)) : 0;
}

/* (J^T J)^-1 over the free parameters, [n, n]. */
static void direct_covariance(const gd_lm_model *a, double *out)
{
    for (int64_t i = 0, k = 0; i < a->n; i++) {
        if (a->fixed[i]) continue;
        for (int64_t j = 0, l = 0; j < a->n; j++)
            if (!a->fixed[j])
                out[i * a->n + j] = gd__direct_covariance(&a->direct, k, l++) / (a->scale[i] * a->scale[j]);
        k++;
    }
}

gd_tensor *gd__lm_covariance(const gd_lm_model *a, int64_t rank, double variance)
{
    size_t bytes = (size_t)(a->n * a->n) * sizeof(double);
    double *out = gd__calloc(a->ctx, bytes);
    if (!out) return NULL;
    if (a->is_direct) direct_covariance(a, out);
    for (int64_t i = 0; i < (a->is_direct ? 0 : rank); i++) {
        const double *v = a->vt + i * a->n;
        double w = 1 / (a->values[i] * a->values[i]);
        for (int64_t j = 0; j < a->n; j++)
            for (int64_t l = 0; l < a->n && !a->fixed[j]; l++)
                if (!a->fixed[l]) out[j * a->n + l] += w * (v[j] / a->scale[j]) * (v[l] / a->scale[l]);
    }
    for (int64_t j = 0; j < a->n; j++)
        if (gd__lm_undetermined(a, rank, j)) out[j * a->n + j] = INFINITY;
    for (int64_t i = 0; i < a->n * a->n; i++) out[i] *= variance;
    gd_tensor *matrix = gd_from_f64(a->ctx, GD_F64, 2, (int64_t[]){a->n, a->n}, out);
    gd__free(a->ctx, out, bytes);
    return matrix;
}

gd_tensor *gd_least_norm(gd_tensor *a, gd_tensor *b)
{
    if (!a || !b)
        return gd__none(gd__null(gd_tensor_ctx(a ? a : b), "least_norm: a matrix or vector is NULL"));
    gd_ctx *ctx = gd_tensor_ctx(a);
    gd_tensor *s = NULL, *vt = NULL, *c = NULL, *x = NULL;
    gd_scope_begin(ctx);
    if (gd_vector_finite(a) && !decompose(a, b, &s, &vt, &c)) {
        gd_tensor *most = gd_vector_most(s);
        double eps = gd_vector_epsilon(a) * (double)(gd_size(a, 0) + gd_size(a, 1));
        double least = most ? eps * gd_item(most) : 0;
        gd_tensor *used = gd_gt(s, gd_full_like(s, least)), *divisor = gd_where(used, s, gd_ones_like(s));
        x = gd_matmul(gd_transpose(vt, 0, 1), gd_where(used, gd_div(c, divisor), gd_zeros_like(s)));
        gd_keep(x);
    }
    gd_scope_end(ctx);
    return x;
}
