/* Two-point Newton: two steps with one Hessian, the second from the end of the first; third order (Potra & Ptak 1984;
 * Sharma & Kumar 2018).
 *
 *     y = x - H^-1 g(x),    d = H^-1 (g(x) + g(y)) */
#include "gradus/link/hessian.h"

static const gd_field fields[] = {
    GD_FLAG("lstsq", false, "solve by least squares at once"),
    GD_FIXED_FLAG("vectorize", true, "rows of derivatives are always made together"),
    GD_CHOICE("hessian_method", "autograd", "autograd", "where the Hessian comes from"),
};

/* The gradient at x - d, as a vector. */
static gd_tensor *gradient_there(gd_link *link, gd_var *var, gd_tensor *d)
{
    int count = gd_var_count(var);
    gd_tensor *const *params = gd_var_params(var);
    gd_tensor **step = gd_link_scratch(link, count), **grads = gd_link_scratch(link, count);
    if (!step || !grads || gd_list_split(d, params, count, step) ||
        gd_var_evaluate_moved(var, -1, step, NULL, grads))
        return NULL;
    gd_tensor *out = gd_copy(gd_list_vector(grads, count));
    for (int i = 0; i < count; i++) gd_release(grads[i]);
    return out;
}

static gd_status two_point_step(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    bool lstsq = gd_link_flag(link, "lstsq");
    gd_tensor *h = gd_link_hessian_matrix(link, var, 0);
    gd_tensor *b = h ? gd_list_vector(gd_var_grad(var), gd_var_count(var)) : NULL,
              *mask = gd_var_free_mask(var);
    if (b && mask) {
        h = gd_hessian_free(h, mask, false);
        b = gd_mul(b, gd_cast(mask, gd_tensor_dtype(b)));
    }
    gd_tensor *first = b ? gd_hessian_solve(h, b, lstsq) : NULL;
    if (gd_error(ctx)) return gd_error(ctx);
    if (first && gd_vector_finite(first)) {
        gd_tensor *there = gradient_there(link, var, first);
        if (!there) return gd_error(ctx);
        gd_tensor *second = gd_hessian_solve(h, there, lstsq);
        if (gd_error(ctx)) return gd_error(ctx);
        /* if the gradient there is not finite, the first step is the result */
        return gd_var_set_update_vector(var, second ? gd_add(first, second) : first);
    }
    gd_var_note_skipped(var);
    return gd_var_set_zero_update(var);
}

GD_LINK(second_order, two_point_newton,
    .spread = GD_SPREAD_WHOLE,
    .summary = "two Newton steps with one Hessian",
    .formula = "d = H^-1 (g(p) + g(p - H^-1 g(p)))",
    .paper = "Sharma & Kumar, A fast and efficient composite Newton-Chebyshev method, J. Complexity 49, 2018",
    .cost =
        "n reverse passes, one factorisation of an [n, n] matrix and one more evaluation per step, for n elements",
    .example = "two_point_newton | strong_wolfe",
    GD_FIELDS(fields),
    .step = two_point_step,
    .traits.needs_closure = true);
