/* Newton without factorisations: an approximate inverse Y of the Hessian is kept and improved by one
 * Newton-Schulz iteration per step (Schulz 1933; Massalski & Nockowska-Rosiak 2025).
 *
 *     Y_0 = H^T / (norm_1(H) norm_inf(H)),    Y <- Y (2 I - H Y)
 *
 * Starts again from Y_0 if the Hessian has moved too far from the inverse of Y (the iteration would diverge).
 * Directions that a singular Hessian left out of Y would stay out: if R = I - H Y no longer shrinks, Y_0 R^2 is added.
 * State: Y.  Cost: n reverse passes, two products of matrices. */
#include "gradus/link/hessian.h"

#include <math.h>

#define STUCK (1 - 1e-12)

static const gd_field fields[] = {
    GD_UPDATE_FREQ("steps between new Hessians"),
    GD_HESSIAN_METHOD,
    GD_FIXED_FLAG("vectorize", true, "rows of derivatives are always made together"),
    GD_INNER("links whose update takes the place of the gradient"),
    GD_REAL("h", 1e-3, 0, INFINITY, "step of gradient differences"),
};

/* Converges from here whatever H is. */
static gd_tensor *first_inverse(gd_tensor *h)
{
    gd_tensor *size = gd_vector_most(gd_sum(gd_abs(h), "0", false));
    double norm = size ? gd_item(size) : NAN;
    return gd_mul_scalar(h, norm > 0 ? 1 / norm / norm : 0);
}

static gd_tensor *next_inverse(gd_tensor *h, gd_tensor *y)
{
    int64_t n = gd_size(h, 0);
    gd_tensor *one = gd_to_device(gd_eye(gd_tensor_ctx(h), gd_tensor_dtype(h), n, n), gd_tensor_device(h));
    gd_tensor *rest = gd_sub(one, gd_matmul(h, y)), *size = rest ? gd_norm(rest, 2, NULL, false) : NULL;
    if (!size) return NULL;
    if (!(gd_item(size) <= sqrt((double)n))) return first_inverse(h);
    gd_tensor *next = gd_matmul(y, gd_add(one, rest));
    if (gd_item(size) < STUCK) return next;
    gd_tensor *square = gd_matmul(rest, rest), *later = square ? gd_norm(square, 2, NULL, false) : NULL;
    if (!later || gd_item(later) < STUCK * gd_item(size)) return next;
    return gd_add(next, gd_matmul(first_inverse(h), square));
}

static gd_status inverse_free_update(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    double *steps = gd_link_global(link, "steps", 0);
    if (!steps) return gd_error(ctx);
    if (fmod(*steps, gd_link_real(link, "update_freq", NULL)) == 0) {
        gd_tensor *h = gd_link_hessian_matrix(link, var, gd_link_real(link, "h", NULL));
        gd_tensor *old = gd_link_global_tensor(link, "inverse");
        if (!h) return gd_error(ctx);
        /* a Hessian that is not finite is ignored: Y stays */
        gd_tensor *y = gd_vector_finite(h) ? (old ? next_inverse(h, old) : first_inverse(h)) : old;
        gd_status status = y && y != old ? gd_link_set_global_tensor(link, "inverse", y) : gd_error(ctx);
        if (status) return status;
    }
    *gd_link_global(link, "steps", 0) += 1;
    return GD_OK;
}

static gd_status inverse_free_apply(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *b = gd_link_update_vector(link, var), *y = gd_link_global_tensor(link, "inverse");
    gd_tensor *mask = gd_var_free_mask(var);
    if (y && mask) y = gd_hessian_free(y, mask, true);
    gd_tensor *d = b && y ? gd_matmul(y, b) : NULL;
    if (gd_error(ctx)) return gd_error(ctx);
    if (d && gd_vector_finite(d)) return gd_var_set_update_vector(var, d);
    gd_var_note_skipped(var);
    return gd_var_set_zero_update(var);
}

/* Until the first finite Hessian Y is NaN, which gives no step. */
static gd_linop *inverse_free_hessian(gd_link *link, gd_var *var)
{
    gd_tensor *y = gd_link_global_tensor(link, "inverse");
    if (y) return gd_linop_dense_inverse(y);
    gd_tensor *p = gd_list_vector(gd_var_params(var), gd_var_count(var));
    return p ? gd_linop_diagonal(gd_full_like(p, NAN)) : NULL;
}

GD_LINK(second_order, inverse_free_newton,
    .spread = GD_SPREAD_WHOLE,
    .summary = "Newton's method with an inverse improved by matrix products",
    .formula = "Y <- Y (2 I - H Y),  d = Y g",
    .paper = "Massalski & Nockowska-Rosiak, Inverse-free Newton's method, J. Appl. Anal. Comput. 15, 2025",
    .cost = "n reverse passes and two products of [n, n] matrices per step, for n elements",
    .example = "inverse_free_newton | lr(1)",
    GD_FIELDS(fields),
    .update = inverse_free_update,
    .apply = inverse_free_apply,
    .hessian = inverse_free_hessian,
    .state_bytes = gd_link_matrix_bytes,
    .traits.needs_closure = true);
