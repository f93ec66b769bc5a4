/* Newton: solves (H + damping I) d = b with the full Hessian from autograd.
 *
 * Solved by Cholesky; where H is not positive definite by LU, where it is singular by least squares of least norm.  With
 * eigval_fn, eigv_tol or truncate through eigenvalues.  A Hessian that is not finite gives no step.
 *
 * inm: the step divided by 1 + a d, with s and y the change of parameters and gradient since the last step and
 *     a = (1 - y (H s) / y y) s / s s
 * so that it solves (H + g a^T) d = g (Saheya et al. 2016).  The first step, and one where the divisor is 0 or no number, is Newton's.
 *
 * State: H (kept for update_freq).  Cost: n reverse passes, n^3 / 3 operations, n^2 memory. */
#include "gradus/hessian.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("damping", 0, -INFINITY, INFINITY, "added to the diagonal of the Hessian"),
    GD_FLAG("use_lstsq", false, "solve by least squares at once"),
    GD_UPDATE_FREQ("steps between new Hessians"),
    GD_HESSIAN_METHOD,
    GD_FLAG("vectorize", true, "for the sake of chains that set it"),
    GD_INNER("links whose update takes the place of the gradient"),
    {.name = "eigval_fn",
     .kinds = GD_SET_STRING | GD_SET_NONE,
     .fallback = {.kind = GD_SET_NONE},
     .choices = "abs|clip",
     .help = "what is done to the eigenvalues: their size, or at least eigv_tol times the largest size"},
    GD_REAL_OR_NONE("eigv_tol", 0, 1, "eigenvalues smaller than this times the largest count as zero"),
    GD_INT_OR_NONE("truncate", 1, 1e15, "eigenvalues to use, the largest in size"),
    GD_REAL("h", 1e-3, 0, INFINITY, "step of gradient differences"),
};

static const gd_field inm_fields[] = {
    GD_REAL("damping", 0, -INFINITY, INFINITY, "added to the diagonal of the Hessian"),
    GD_FLAG("use_lstsq", false, "solve by least squares at once"),
    GD_UPDATE_FREQ("steps between new Hessians"),
    GD_HESSIAN_METHOD,
    GD_FLAG("vectorize", true, "for the sake of chains that set it"),
    GD_INNER("links whose update takes the place of the gradient"),
};

static const gd_slot inm_slots[] = {GD_CHANGE_SLOTS};

static gd_status newton_update(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    double *steps = gd_link_global(link, "steps", 0);
    if (!steps) return gd_error(ctx);
    if (fmod(*steps, gd_link_real(link, "update_freq", NULL)) == 0) {
        double step = gd_link_has_field(link, "h") ? gd_link_real(link, "h", NULL) : 1e-3;
        gd_tensor *h = gd_link_hessian_matrix(link, var, step);
        gd_status status = h ? gd_link_set_global_tensor(link, "hessian", h) : gd_error(ctx);
        if (status) return status;
    }
    *gd_link_global(link, "steps", 0) += 1;
    return GD_OK;
}

/* H + damping I, borrowed or new. */
static gd_tensor *damped(gd_link *link)
{
    gd_tensor *h = gd_link_global_tensor(link, "hessian");
    double damping = gd_link_real(link, "damping", NULL);
    if (!h) (void)gd_fail(gd_link_ctx(link), GD_STATE, "newton: the Hessian was asked for before an update");
    if (!h || damping == 0) return h;
    gd_tensor *one = gd_eye(gd_link_ctx(link), gd_tensor_dtype(h), gd_size(h, 0), gd_size(h, 0));
    return gd_add(h, gd_mul_scalar(gd_to_device(one, gd_tensor_device(h)), damping));
}

static gd_tensor *solved(gd_link *link, gd_tensor *h, gd_tensor *b)
{
    if (!gd_link_has_field(link, "eigval_fn")) return gd_hessian_solve(h, b, gd_link_flag(link, "use_lstsq"));
    const gd_setting *how = gd_link_get(link, "eigval_fn", NULL);
    bool spectral = how->kind == GD_SET_STRING || !gd_link_is_none(link, "eigv_tol") ||
                    !gd_link_is_none(link, "truncate");
    if (!spectral) return gd_hessian_solve(h, b, gd_link_flag(link, "use_lstsq"));
    if (!gd_vector_finite(h)) return NULL;
    double tolerance = gd_link_is_none(link, "eigv_tol") ? gd_vector_epsilon(h)
                                                         : gd_link_real(link, "eigv_tol", NULL);
    int64_t most = gd_link_is_none(link, "truncate") ? 0 : (int64_t)gd_link_real(link, "truncate", NULL);
    return gd_hessian_spectral(h, b, how->kind == GD_SET_STRING ? how->string : NULL, tolerance, most);
}

/* The step; NULL without an error where there is none. */
static gd_tensor *newton_step(gd_link *link, gd_var *var)
{
    gd_tensor *b = gd_link_update_vector(link, var), *h = b ? damped(link) : NULL;
    gd_tensor *mask = gd_var_free_mask(var);
    if (h && mask) h = gd_hessian_free(h, mask, false);
    gd_tensor *d = h ? solved(link, h, b) : NULL;
    return d && gd_vector_finite(d) ? d : NULL;
}

static gd_status step_or_skip(gd_var *var, gd_tensor *d)
{
    gd_ctx *ctx = gd_var_ctx(var);
    if (gd_error(ctx)) return gd_error(ctx);
    if (d) return gd_var_set_update_vector(var, d);
    gd_var_note_skipped(var);
    return gd_var_set_zero_update(var);
}

static gd_status newton_apply(gd_link *link, gd_var *var)
{
    return step_or_skip(var, newton_step(link, var));
}

/* ---- inm ---- */

/* The change of a list since the last step as a vector, NULL where there was none; what there is now is kept. */
static gd_tensor *change_of(gd_link *link, gd_var *var, const char *slot, gd_tensor *const *now)
{
    int count = gd_var_count(var);
    gd_tensor *const *params = gd_var_params(var), **before = gd_link_scratch(link, count), *change = NULL;
    bool first = !before || !count || !gd_link_has_state(link, params[0], slot);
    for (int i = 0; i < count && !first; i++)
        if (!(before[i] = gd_link_state(link, params[i], slot))) return NULL;
    if (!first) change = gd_vector_sum(gd_list_vector(now, count), -1, gd_list_vector(before, count));
    for (int i = 0; i < count; i++)
        if (gd_link_set_state(link, params[i], slot, now[i])) return NULL;
    return change;
}

/* 1 + a d; 1 where there is no such number. */
static double divisor(gd_tensor *h, gd_tensor *s, gd_tensor *y, gd_tensor *d)
{
    if (!h || !s || !y || !d) return 1;
    double rest = 1 - gd_vector_dot(y, gd_matmul(h, s)) / gd_vector_dot(y, y);
    double by = 1 + rest * gd_vector_dot(s, d) / gd_vector_dot(s, s);
    return isfinite(by) && fabs(by) > 1e-8 ? by : 1;
}

static gd_status inm_apply(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *const *grad = gd_var_grad(var);
    gd_tensor *s = grad ? change_of(link, var, "previous_params", gd_var_params(var)) : NULL;
    gd_tensor *y = grad ? change_of(link, var, "previous_update", grad) : NULL;
    gd_tensor *d = gd_error(ctx) ? NULL : newton_step(link, var);
    double by = divisor(gd_link_global_tensor(link, "hessian"), s, y, d);
    return step_or_skip(var, d && by != 1 ? gd_mul_scalar(d, 1 / by) : d);
}

static int64_t inm_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return gd_link_matrix_bytes(link, params, count) + gd_link_slot_bytes(2, params, count);
}

static gd_linop *newton_hessian(gd_link *link, gd_var *var)
{
    (void)var;
    gd_tensor *h = damped(link);
    return h ? gd_linop_dense(h) : NULL;
}

const gd_link_class gd_link_newton = {
    .spread = GD_SPREAD_WHOLE,
    .name = "newton",
    .family = "second_order",
    .summary = "Newton's method with the exact Hessian",
    .formula = "d = (H + damping I)^-1 g",
    .paper = "Nocedal & Wright, Numerical Optimization, 2006, 3.4",
    .cost =
        "n reverse passes, fewer where the Hessian has zeros, and one factorisation of an [n, n] matrix a step, for n elements",
    .example = "newton | strong_wolfe",
    GD_FIELDS(fields),
    .update = newton_update,
    .apply = newton_apply,
    .hessian = newton_hessian,
    .state_bytes = gd_link_matrix_bytes,
    .needs_closure = true,
};

const gd_link_class gd_link_inm = {
    .spread = GD_SPREAD_WHOLE,
    .name = "inm",
    .family = "second_order",
    .summary = "Newton's method corrected by what the last step says of the curvature",
    .formula = "a = (1 - y (H s) / y y) s / s s;  d = H^-1 g / (1 + a H^-1 g)",
    .paper = "Saheya, Chen, Sui & Wu, A new Newton-like method for solving nonlinear equations, 2016",
    .cost =
        "n reverse passes, fewer where the Hessian has zeros, and one factorisation of an [n, n] matrix a step, for n elements",
    .example = "inm | strong_wolfe",
    GD_FIELDS(inm_fields),
    GD_SLOTS(inm_slots),
    .update = newton_update,
    .apply = inm_apply,
    .state_bytes = inm_bytes,
    .needs_closure = true,
};
