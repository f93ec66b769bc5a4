/* The full Hessian and ways to solve with it. */
#include "optim/methods/hessian_internal.h"
#include "optim/vector/layout.h"
#include "tensor/linalg.h"

#include <math.h>
#include <string.h>

#define TILE 32

/* (H + H^T) / 2 in place, tile by tile. */
static void symmetrize(double *h, int64_t n)
{
    for (int64_t a = 0; a < n; a += TILE)
        for (int64_t b = a; b < n; b += TILE)
            for (int64_t i = a; i < n && i < a + TILE; i++)
                for (int64_t j = b > i + 1 ? b : i + 1; j < n && j < b + TILE; j++)
                    h[i * n + j] = h[j * n + i] = 0.5 * (h[i * n + j] + h[j * n + i]);
}

static gd_tensor *symmetric(gd_tensor *h)
{
    bool here = gd_tensor_dtype(h) == GD_F64 && gd_is_contiguous(h) &&
                gd_tensor_device(h) == gd_device_get(gd_tensor_ctx(h), "cpu");
    if (!here) return gd_mul_scalar(gd_add(h, gd_transpose(h, 0, 1)), 0.5);
    symmetrize(gd_data_mut(h), gd_size(h, 0));
    return h;
}

/* One product with each unit vector. */
static gd_tensor *by_products(gd_link *link, gd_var *var, gd_hvp_method method, double step)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    gd_tensor *const *params = gd_var_params(var);
    gd_tensor **v = gd_link_scratch(link, count), **hv = gd_link_scratch(link, count);
    gd_tensor *p = v && hv ? gd_list_vector(params, count) : NULL;
    if (!p) return NULL;
    int64_t n = gd_numel(p);
    gd_tensor *h = gd_empty_on(gd_tensor_device(p), gd_tensor_dtype(p), 2, (int64_t[]){n, n});
    gd_status status = h ? GD_OK : gd_error(ctx); /* every row is written below */
    for (int64_t i = 0; i < n && !status; i++) {
        gd_scope_begin(ctx);
        gd_tensor *unit = gd_zeros_like(p), *one = gd_slice(unit, "0", i, i + 1, 1);
        status = one ? gd_fill(one, 1) : gd_error(ctx);
        if (!status) status = gd_list_split(unit, params, count, v);
        if (!status) status = gd_var_hvp(var, method, step, false, v, hv);
        if (!status) {
            gd_tensor *row = gd_index(h, "0", i), *product = gd_list_vector(hv, count);
            status = row && product ? gd_assign(row, product) : gd_error(ctx);
            for (int k = 0; k < count; k++) gd_release(hv[k]);
        }
        gd_scope_end(ctx);
    }
    return status ? NULL : h;
}

int64_t gd_link_matrix_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    (void)link;
    if (!params || count < 1) return 0;
    int64_t n, item = gd__vector_item(params, count, &n);
    return n * n * item;
}

gd_tensor *gd_link_hessian_matrix(gd_link *link, gd_var *var, double h)
{
    if (!link || !var) return NULL;
    gd_ctx *ctx = gd_var_ctx(var);
    bool chosen = gd_link_has_field(link, "hessian_method");
    gd_scope_begin(ctx);
    gd_tensor *matrix = chosen && gd_link_is(link, "hessian_method", "gfd_forward")
                            ? by_products(link, var, GD_HVP_FORWARD, h)
                        : chosen && gd_link_is(link, "hessian_method", "gfd_central")
                            ? by_products(link, var, GD_HVP_CENTRAL, h)
                            : gd_var_hessian(var);
    matrix = matrix ? gd_keep(symmetric(matrix)) : NULL;
    gd_scope_end(ctx);
    return matrix;
}

/* H - H_A^T H_AA^-1 H_A for the rows A of held elements; H over the free ones alone if H_AA is singular. */
static gd_tensor *inverse_of_free(gd_tensor *h, gd_tensor *mask)
{
    gd_ctx *ctx = gd_tensor_ctx(h);
    int64_t n = gd_numel(mask), held = 0;
    double *of = gd__alloc_array(ctx, (size_t)n + 1, sizeof *of);
    gd_tensor *index = NULL;
    if (of && !gd_read_f64(mask, of, n)) {
        for (int64_t i = 0; i < n; i++)
            if (of[i] == 0) of[held++] = (double)i;
        index = gd_to_device(gd_from_f64(ctx, GD_I64, 1, &held, of), gd_tensor_device(h));
    }
    gd__free(ctx, of, ((size_t)n + 1) * sizeof *of);
    gd_tensor *rows = gd_index_select(h, "0", index), *corner = gd_index_select(rows, "1", index);
    gd_tensor *x = corner ? gd_solve(corner, rows) : NULL;
    if (!x && gd_error(ctx) == GD_SINGULAR) gd_clear_error(ctx);
    if (gd_error(ctx)) return NULL;
    gd_tensor *free_part = x ? gd_sub(h, gd_matmul(gd_transpose(rows, 0, 1), x)) : h;
    return gd_mul(gd_mul(free_part, mask), gd_unsqueeze(mask, 1, NULL));
}

gd_tensor *gd_hessian_free(gd_tensor *h, gd_tensor *mask, bool inverse)
{
    if (!h || !mask) return gd__null(gd_tensor_ctx(h ? h : mask), "hessian: a matrix or mask is NULL"), NULL;
    gd_ctx *ctx = gd_tensor_ctx(h);
    gd_scope_begin(ctx);
    gd_tensor *out = NULL;
    mask = gd_cast(mask, gd_tensor_dtype(h));
    if (inverse)
        out = mask ? inverse_of_free(h, mask) : NULL;
    else if (mask) {
        gd_tensor *eye = gd_to_device(gd_eye(ctx, gd_tensor_dtype(h), gd_size(h, 0), gd_size(h, 0)),
                                      gd_tensor_device(h));
        gd_tensor *both = gd_mul(mask, gd_unsqueeze(mask, 1, NULL)),
                  *one = gd_mul(eye, gd_sub(gd_ones_like(mask), mask));
        out = gd_add(gd_mul(h, both), one);
    }
    gd_keep(out);
    gd_scope_end(ctx);
    return out;
}

/* The `most` largest in size, as a mask; all of them for 0. */
static gd_tensor *largest(gd_tensor *size, int64_t most)
{
    gd_tensor *rank = gd_gt(gd_unsqueeze(size, 0, NULL),
                            gd_unsqueeze(size, 1, NULL)); /* comparison by size */
    rank = gd_sum(gd_cast(rank, GD_I64), "1", false);
    return rank ? gd_lt(rank, gd_full_like(rank, most > 0 ? (double)most : INT32_MAX)) : NULL;
}

gd_tensor *gd_hessian_spectral(gd_tensor *h, gd_tensor *b, const char *how, double tolerance, int64_t most)
{
    if (!h || !b) return gd__none(gd__null(gd_tensor_ctx(h ? h : b), "hessian: a matrix or vector is NULL"));
    gd_ctx *ctx = gd_tensor_ctx(h);
    gd_tensor *values = NULL, *vectors = NULL;
    gd_scope_begin(ctx);
    if (gd_eigh(h, &values, &vectors)) values = vectors = NULL;
    gd_tensor *size = gd_abs(values), *least = gd_mul_scalar(gd_vector_most(size), tolerance);
    gd_tensor *divisor = values, *used = gd_gt(size, least);
    if (how && !strcmp(how, "abs")) divisor = size;
    if (how && (!strcmp(how, "clip") || !strcmp(how, "floor"))) {
        divisor = gd_maximum(*how == 'c' ? values : size, least);
        used = divisor ? gd_gt(divisor, gd_zeros_like(divisor)) : NULL;
    }
    if (most > 0 && size) used = gd_logical_and(used, largest(size, most));
    gd_tensor *turned = gd_matmul(gd_transpose(vectors, 0, 1), b);
    if (turned && divisor) {
        gd_tensor *safe = gd_where(used, divisor, gd_ones_like(divisor));
        turned = gd_where(used, gd_div(turned, safe), gd_zeros_like(turned));
    }
    return gd__scope_leave(ctx, gd_matmul(vectors, turned));
}

gd_tensor *gd__spectral_product(gd_tensor *m, gd_tensor *b, double floor)
{
    gd_ctx *ctx = gd_tensor_ctx(m);
    if (!gd_vector_finite(m) || !gd_vector_finite(b)) return NULL;
    gd_tensor *values = NULL, *vectors = NULL;
    gd_scope_begin(ctx);
    if (gd_eigh(m, &values, &vectors)) values = vectors = NULL;
    gd_tensor *size = gd_abs(values), *least = gd_mul_scalar(gd_vector_most(size), floor);
    gd_tensor *turned = gd_matmul(gd_transpose(vectors, 0, 1), b);
    return gd__scope_leave(ctx, gd_matmul(vectors, gd_mul(gd_maximum(size, least), turned)));
}

/* L^-T L^-1 b where H = L L^T, exactly symmetric, is far enough from singular; NULL otherwise. */
static gd_tensor *by_cholesky(gd_tensor *h, gd_tensor *b, double eps)
{
    gd_ctx *ctx = gd_tensor_ctx(h);
    gd_tensor *lower = gd__cholesky(h), *x = NULL;
    if (lower && !gd_numel(b)) {
        x = gd_copy(b);
    } else if (lower) {
        gd_tensor *pivots = gd_diagonal(lower), *least = gd_min(pivots, NULL, false),
                  *most = gd_max(pivots, NULL, false);
        double ratio = least && most ? gd_item(least) / gd_item(most) : 0;
        if (ratio * ratio > eps)
            x = gd_triangular_solve(lower, gd_triangular_solve(lower, b, true, false, false), true, true,
                                    false);
    } else if (gd_error(ctx) == GD_SINGULAR)
        gd_clear_error(ctx);
    return x;
}

/* The same by LU, for indefinite H; a solution larger than the norms of H and b allow means that H is singular. */
static gd_tensor *by_lu(gd_tensor *h, gd_tensor *b, double eps)
{
    gd_ctx *ctx = gd_tensor_ctx(h);
    gd_tensor *x = gd_solve(h, b), *size = x ? gd_norm(h, 2, NULL, false) : NULL;
    if (!x && gd_error(ctx) == GD_SINGULAR) gd_clear_error(ctx);
    if (!size || !gd_vector_finite(x)) return NULL;
    return gd_vector_norm(x) * gd_item(size) * eps < gd_vector_norm(b) ? x : NULL;
}

gd_tensor *gd_hessian_solve(gd_tensor *h, gd_tensor *b, bool lstsq)
{
    if (!h || !b) return gd__none(gd__null(gd_tensor_ctx(h ? h : b), "hessian: a matrix or vector is NULL"));
    gd_ctx *ctx = gd_tensor_ctx(h);
    double eps = gd_vector_epsilon(h) * (double)gd_numel(b);
    if (!gd_vector_finite(h) || !gd_vector_finite(b)) return NULL;
    gd_scope_begin(ctx);
    gd_tensor *x = lstsq ? NULL : by_cholesky(h, b, eps);
    if (!x && !lstsq && !gd_error(ctx)) x = by_lu(h, b, eps);
    if (!x && !gd_error(ctx)) x = gd_hessian_spectral(h, b, NULL, eps, 0);
    return gd__scope_leave(ctx, x);
}
