#include "support/op_references.h"

#include <math.h>

void ref_map(const array *in, int n, element_fn fn, array *out)
{
    int ndim = 0;
    int64_t size[GD_MAX_DIMS], index[GD_MAX_DIMS] = {0};
    for (int k = 0; k < n; k++) ndim = in[k].ndim > ndim ? in[k].ndim : ndim;
    for (int i = 0; i < ndim; i++) {
        size[i] = 1;
        for (int k = 0; k < n; k++) {
            int axis = i - (ndim - in[k].ndim);
            if (axis >= 0 && in[k].size[axis] != 1) size[i] = in[k].size[axis];
        }
    }
    *out = array_new(ndim, size);
    int64_t at = 0;
    if (out->numel) do {
            long double v[3] = {0};
            for (int k = 0; k < n; k++) v[k] = array_broadcast(&in[k], index, ndim);
            out->v[at++] = fn(v[0], v[1], v[2]);
        } while (array_next(out, index));
}

void ref_map_scaled(const array *in, int n, element_fn fn, element_fn scale, array *out)
{
    array magnitude;
    ref_map(in, n, scale, &magnitude);
    ref_map(in, n, fn, out);
    out->scale = magnitude.v;
}

void ref_reduce(const array *x, unsigned axes, bool keep, reduce_fn fn, array *out)
{
    int64_t size[GD_MAX_DIMS], kept[GD_MAX_DIMS], count = 1;
    int ndim = 0;
    for (int i = 0; i < x->ndim; i++) {
        bool gone = axes >> i & 1;
        kept[i] = gone ? 1 : x->size[i];
        if (gone) count *= x->size[i];
        if (!gone || keep) size[ndim++] = kept[i];
    }
    *out = array_new(ndim, size);
    array grid = {.ndim = x->ndim, .numel = out->numel}; /* out, reduced axes kept */
    memcpy(grid.size, kept, sizeof grid.size);
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    long double *v = calloc((size_t)count + 1, sizeof *v);
    int64_t place[GD_MAX_DIMS] = {0};
    for (int64_t at = 0; at < out->numel; at++, (void)array_next(&grid, place)) {
        array inner = {.ndim = x->ndim};
        for (int i = 0; i < x->ndim; i++) inner.size[i] = axes >> i & 1 ? x->size[i] : 1;
        int64_t step[GD_MAX_DIMS] = {0}, n = 0;
        if (count) do {
                int64_t index[GD_MAX_DIMS];
                for (int i = 0; i < x->ndim; i++) index[i] = place[i] + step[i];
                v[n++] = x->v[array_offset(x, index)];
            } while (array_next(&inner, step));
        out->scale[at] = -1;
        out->v[at] = fn(v, n, &out->scale[at]);
        if (out->scale[at] < 0) out->scale[at] = fabsl(out->v[at]);
    }
    free(v);
}

void ref_along(const array *x, int axis, along_fn fn, array *out)
{
    *out = array_new(x->ndim, x->size);
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    int64_t n = x->size[axis], inner = 1;
    for (int i = axis + 1; i < x->ndim; i++) inner *= x->size[i];
    long double *v = calloc((size_t)n + 1, sizeof *v), *scale = calloc((size_t)n + 1, sizeof *scale);
    for (int64_t row = 0; n && row < x->numel / n; row++) {
        int64_t start = row / inner * n * inner + row % inner;
        for (int64_t i = 0; i < n; i++) v[i] = x->v[start + i * inner];
        for (int64_t i = 0; i < n; i++) scale[i] = -1;
        fn(v, n, scale);
        for (int64_t i = 0; i < n; i++) {
            out->v[start + i * inner] = v[i];
            out->scale[start + i * inner] = scale[i] < 0 ? fabsl(v[i]) : scale[i];
        }
    }
    free(v);
    free(scale);
}

void ref_pick(const array *x, int ndim, const int64_t *size, place_fn from, const void *user,
              long double fill, array *out)
{
    *out = array_new(ndim, size);
    int64_t index[GD_MAX_DIMS] = {0}, at = 0;
    if (out->numel) do {
            int64_t source = from(x, index, user);
            out->v[at++] = source < 0 ? fill : x->v[source];
        } while (array_next(out, index));
}

/* ---- matrices ---- */

static int64_t rows_of(const array *a) { return a->size[a->ndim - 2]; }
static int64_t columns_of(const array *a) { return a->size[a->ndim - 1]; }

/* Matrix number `batch` of an array of `ndim` axes, its batch axes broadcast to those of `like`. */
static const long double *matrix_at(const array *a, const array *like, const int64_t *batch)
{
    int64_t offset = 0;
    for (int i = 0; i < a->ndim - 2; i++) {
        int64_t at = batch[like->ndim - a->ndim + i];
        offset = offset * a->size[i] + (a->size[i] == 1 ? 0 : at);
    }
    return a->v + offset * rows_of(a) * columns_of(a);
}

/* The batch axes alone. */
static array batches_of(const array *a)
{
    array b = {.ndim = a->ndim - 2, .numel = 1};
    for (int i = 0; i < b.ndim; i++) b.numel *= b.size[i] = a->size[i];
    return b;
}

void ref_matmul(const array *a, const array *b, array *out)
{
    int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    int64_t size[GD_MAX_DIMS], batch[GD_MAX_DIMS] = {0};
    for (int i = 0; i < ndim - 2; i++) {
        int p = i - (ndim - a->ndim), q = i - (ndim - b->ndim);
        int64_t x = p < 0 ? 1 : a->size[p], y = q < 0 ? 1 : b->size[q];
        size[i] = x == 1 ? y : x;
    }
    int64_t m = rows_of(a), k = columns_of(a), n = columns_of(b);
    size[ndim - 2] = m;
    size[ndim - 1] = n;
    *out = array_new(ndim, size);
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    array all = batches_of(out);
    long double *to = out->v, *scale = out->scale;
    for (int64_t done = 0; done < all.numel; done++, to += m * n, scale += m * n) {
        const long double *x = matrix_at(a, out, batch), *y = matrix_at(b, out, batch);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                for (int64_t l = 0; l < k; l++) {
                    to[i * n + j] += x[i * k + l] * y[l * n + j];
                    scale[i * n + j] += fabsl(x[i * k + l] * y[l * n + j]);
                }
        (void)array_next(&all, batch);
    }
}

void ref_transpose(const array *a, array *out)
{
    int64_t size[GD_MAX_DIMS], m = rows_of(a), n = columns_of(a);
    memcpy(size, a->size, sizeof size);
    size[a->ndim - 2] = n;
    size[a->ndim - 1] = m;
    *out = array_new(a->ndim, size);
    for (int64_t at = 0; at < a->numel; at += m * n)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) out->v[at + j * m + i] = a->v[at + i * n + j];
}

/* Errors of a solver are relative to the largest element of the whole result. */
static void scale_by_largest(array *out)
{
    long double most = 0;
    for (int64_t i = 0; i < out->numel; i++) most = fabsl(out->v[i]) > most ? fabsl(out->v[i]) : most;
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    for (int64_t i = 0; i < out->numel; i++) out->scale[i] = most;
}

void ref_cholesky(const array *a, array *out)
{
    *out = array_new(a->ndim, a->size);
    int64_t n = columns_of(a);
    for (int64_t at = 0; at < a->numel; at += n * n) {
        const long double *m = a->v + at;
        long double *l = out->v + at;
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = j; i < n; i++) {
                long double sum = m[i * n + j];
                for (int64_t k = 0; k < j; k++) sum -= l[i * n + k] * l[j * n + k];
                l[i * n + j] = i == j ? sqrtl(sum) : sum / l[j * n + j];
            }
    }
    scale_by_largest(out);
}

/* Gauss-Jordan with partial pivoting on copies. */
static long double solve_one(const long double *a, const long double *b, int64_t n, int64_t m, long double *x)
{
    long double *w = calloc((size_t)(n * n) + 1, sizeof *w), log_det = 0;
    memcpy(w, a, (size_t)(n * n) * sizeof *w);
    memcpy(x, b, (size_t)(n * m) * sizeof *x);
    for (int64_t c = 0; c < n; c++) {
        int64_t pivot = c;
        for (int64_t r = c; r < n; r++)
            if (fabsl(w[r * n + c]) > fabsl(w[pivot * n + c])) pivot = r;
        for (int64_t j = 0; j < n && pivot != c; j++) {
            long double swap = w[c * n + j];
            w[c * n + j] = w[pivot * n + j];
            w[pivot * n + j] = swap;
        }
        for (int64_t j = 0; j < m && pivot != c; j++) {
            long double swap = x[c * m + j];
            x[c * m + j] = x[pivot * m + j];
            x[pivot * m + j] = swap;
        }
        log_det += logl(fabsl(w[c * n + c]));
        for (int64_t r = 0; r < n; r++) {
            if (r == c) continue;
            long double factor = w[r * n + c] / w[c * n + c];
            for (int64_t j = c; j < n; j++) w[r * n + j] -= factor * w[c * n + j];
            for (int64_t j = 0; j < m; j++) x[r * m + j] -= factor * x[c * m + j];
        }
    }
    for (int64_t r = 0; r < n; r++)
        for (int64_t j = 0; j < m; j++) x[r * m + j] /= w[r * n + r];
    free(w);
    return log_det;
}

void ref_solve(const array *a, const array *b, array *out, long double *log_det)
{
    *out = array_new(b->ndim, b->size);
    int64_t n = columns_of(a), m = columns_of(b), count = batches_of(a).numel;
    for (int64_t k = 0; k < count; k++) {
        long double sum = solve_one(a->v + k * n * n, b->v + k * n * m, n, m, out->v + k * n * m);
        if (log_det) log_det[k] = sum;
    }
    scale_by_largest(out);
}

array ref_identity(const array *like)
{
    array one = array_new(like->ndim, like->size);
    int64_t n = columns_of(like);
    for (int64_t i = 0; i < one.numel; i++) one.v[i] = i / n % n == i % n;
    return one;
}

void ref_conv2d(const array *x, const array *weight, const array *bias, int64_t stride, int64_t padding,
                array *out)
{
    int64_t tall = weight->size[2], wide = weight->size[3], height = x->size[2], width = x->size[3];
    int64_t size[4] = {x->size[0], weight->size[0], (height + 2 * padding - tall) / stride + 1,
                       (width + 2 * padding - wide) / stride + 1};
    *out = array_new(4, size);
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    int64_t at[GD_MAX_DIMS] = {0}, place = 0;
    if (out->numel) do {
            long double sum = bias ? bias->v[at[1]] : 0, scale = fabsl(sum);
            for (int64_t c = 0; c < x->size[1]; c++)
                for (int64_t p = 0; p < tall; p++)
                    for (int64_t q = 0; q < wide; q++) {
                        int64_t i = at[2] * stride + p - padding, j = at[3] * stride + q - padding;
                        if (i < 0 || j < 0 || i >= height || j >= width) continue;
                        long double part = x->v[array_offset(x, (int64_t[]){at[0], c, i, j})] *
                                           weight->v[array_offset(weight, (int64_t[]){at[1], c, p, q})];
                        sum += part;
                        scale += fabsl(part);
                    }
            out->v[place] = sum;
            out->scale[place++] = scale;
        } while (array_next(out, at));
}

/* ---- random numbers ---- */

void ref_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]}, k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        uint64_t left = (uint64_t)0xD2511F53 * c[0], right = (uint64_t)0xCD9E8D57 * c[2];
        uint32_t next[4] = {(uint32_t)(right >> 32) ^ c[1] ^ k[0], (uint32_t)right,
                            (uint32_t)(left >> 32) ^ c[3] ^ k[1], (uint32_t)left};
        memcpy(c, next, sizeof c);
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
    memcpy(out, c, sizeof c);
}
