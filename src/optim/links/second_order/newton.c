/* Newton: solves (H + damping I) d = b with the full Hessian from autograd.
 *
 * Solved by Cholesky; where H is not positive definite by LU, where it is singular by least squares of least norm.  With
 * eigval_fn, eigv_tol or truncate through eigenvalues.  A Hessian that is not finite gives no step.
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

static gd_status newton_update(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    double *steps = gd_link_global(link, "steps", 0);
    if (!steps) return gd_error(ctx);
    if (fmod(*steps, gd_link_real(link, "update_freq", NULL)) == 0) {
        gd_tensor *h = gd_link_hessian_matrix(link, var, gd_link_real(link, "h", NULL));
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

static gd_status newton_apply(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *b = gd_link_update_vector(link, var), *h = b ? damped(link) : NULL;
    gd_tensor *d = h ? solved(link, h, b) : NULL;
    if (gd_error(ctx)) return gd_error(ctx);
    if (d && gd_vector_finite(d)) return gd_var_set_update_vector(var, d);
    gd_var_note_skipped(var);
    return gd_var_set_zero_update(var);
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
