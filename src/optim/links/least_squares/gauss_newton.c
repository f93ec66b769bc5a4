/* Gauss-Newton: the objective returns residuals r, the step solves (J^T J + reg I) d = J^T r.
 *
 * As the child of a trust region it hands over J^T r and J^T J, half of the gradient and Hessian of the sum of squares;
 * trust regions compute the factorisation themselves.  Cost: min(m, 2 n) reverse passes, one QR of J (m, n residuals and parameters).
 * J with fewer rows than columns works: reg makes the solution the one of least norm; with reg = 0 and columns that depend on
 * each other it is found by the SVD. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("reg", 1e-8, 0, INFINITY, "added to the diagonal of J^T J"),
    GD_FIXED_FLAG("batched", true, "rows of the Jacobian are always made together"),
};

/* Of the last update; no state between steps. */
typedef struct model {
    gd_tensor *j, *r; /* owned */
} model;

static void forget(gd_link *link)
{
    model *m = gd_link_data(link);
    gd_release(m->j);
    gd_release(m->r);
    *m = (model){0};
}

/* Residuals and Jacobian here; loss, gradient and, as update, J^T r. */
static gd_status gauss_newton_update(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    gd_tensor *j = NULL, *r = NULL, **pieces = gd_link_scratch(link, count);
    if (!pieces) return gd_error(ctx);
    model *m = gd_link_data(link);
    forget(link);
    gd_scope_begin(ctx);
    gd_status status = gd_var_linearised(var, &j, &r);
    if (!status) *m = (model){gd_retain(j), gd_retain(r)};
    gd_tensor *b = status ? NULL : gd_matmul(gd_transpose(m->j, 0, 1), m->r),
              *loss = b ? gd_dot(m->r, m->r) : NULL;
    if (loss) {
        gd_var_set_loss(var, loss);
        gd_var_set_loss_approx(var, loss);
    }
    if (!status) status = loss ? GD_OK : gd_error(ctx);
    if (!status) status = gd_list_split(gd_mul_scalar(b, 2), gd_var_params(var), count, pieces);
    if (!status) status = gd_var_set_grad(var, pieces);
    if (!status) status = gd_list_split(b, gd_var_params(var), count, pieces);
    if (!status) status = gd_var_set_update(var, pieces);
    gd_scope_end(ctx);
    return status;
}

/* J; inside bounds its columns of held elements are 0. */
static gd_tensor *free_columns(const model *m, gd_var *var)
{
    gd_tensor *mask = gd_var_free_mask(var);
    return mask ? gd_mul(m->j, gd_cast(mask, gd_tensor_dtype(m->j))) : m->j;
}

static gd_status gauss_newton_apply(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    model *m = gd_link_data(link);
    if (!m->j) return gd_fail(ctx, GD_STATE, "gauss_newton: apply without an update before it");
    gd_tensor *j = free_columns(m, var);
    gd_linop *a = gd_linop_gram(j, m->r);
    gd_linop *sum = a ? gd_linop_shifted(a, gd_link_real(link, "reg", NULL)) : NULL;
    gd_tensor *b = gd_list_vector(gd_var_read_update(var), gd_var_count(var));
    gd_tensor *d = sum && b ? gd_linop_solve(sum, b) : NULL;
    gd_linop_release(sum);
    if (!d && gd_error(ctx) == GD_SINGULAR) {
        gd_clear_error(ctx);
        d = gd_least_norm(j, m->r);
    }
    if (gd_error(ctx)) return gd_error(ctx);
    if (d && gd_vector_finite(d)) return gd_var_set_update_vector(var, d);
    /* something is not finite: stay */
    gd_var_note_skipped(var);
    return gd_var_set_zero_update(var);
}

static gd_linop *gauss_newton_hessian(gd_link *link, gd_var *var)
{
    model *m = gd_link_data(link);
    if (m->j) return gd_linop_gram(free_columns(m, var), m->r);
    (void)gd_fail(gd_var_ctx(var), GD_STATE, "gauss_newton: its Hessian was asked for before an update");
    return NULL;
}

GD_LINK(least_squares, gauss_newton,
    .spread = GD_SPREAD_WHOLE,
    .summary = "Gauss-Newton step for residuals",
    .formula = "d = (J^T J + reg I)^-1 J^T r",
    .paper = "Bjorck, Numerical Methods for Least Squares Problems, SIAM 1996, 9.2",
    .cost = "min(m, 2 n) reverse passes and one QR of the Jacobian, for m residuals and n elements",
    .example = "levenberg_marquardt(gauss_newton)",
    GD_FIELDS(fields),
    .data_size = sizeof(model),
    .update = gauss_newton_update,
    .apply = gauss_newton_apply,
    .hessian = gauss_newton_hessian,
    .reset = forget,
    .destroy = forget,
    .traits.needs_closure = true);
