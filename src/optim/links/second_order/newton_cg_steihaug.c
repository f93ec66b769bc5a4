/* Newton-CG in a trust region (Steihaug 1983) with Hessian-vector products only.
 *
 * One run of conjugate gradients per step: its products are kept, so smaller radii after rejected trial points cost one
 * evaluation each.  The predicted decrease comes from the same products.  Cost: a product per iteration (by differences,
 * where the objective has no products, two gradients), max_history vectors of memory. */
#include "gradus/link/hessian.h"
#include "gradus/link/trust_region.h"

#include <math.h>

static const gd_field fields[] = {
    GD_TRUST_RATIOS(3.5, 0.99, 1e-4),
    GD_REAL("init", 1, 0, INFINITY, "first radius"),
    GD_INT("max_attempts", 100, 1, 1e9, "radii tried in a step"),
    GD_INT("max_history", 100, 0, 1e9, "products kept for smaller radii"),
    GD_REAL_OR_OFF(
        "boundary_tol", 1e-6, 0, 1,
        "the radius grows only after steps of at least (1 - boundary_tol) radius; none: after any"),
    GD_INT_OR_NONE("maxiter", 1, 1e15, "iterations at most; none: one per parameter"),
    GD_INT("miniter", 1, 0, 1e15, "iterations at least"),
    GD_REAL("tol", 1e-8, 0, INFINITY, "norm of the residual at which it is enough"),
    GD_REAL("reg", 1e-8, 0, INFINITY, "added to the diagonal of the Hessian"),
    GD_CHOICE("solver", "cg", "cg|minres", "conjugate gradients or minimal residuals"),
    GD_FLAG("adapt_tol", true, "a tenth of tol whenever no radius helped"),
    GD_FLAG("npc_terminate", false,
            "stay where negative curvature is met, instead of following it to the edge"),
    GD_HVP_CHOICE("auto", "auto|autograd|forward|central|fd_forward|fd_central"),
    GD_REAL("h", 1e-3, 0, INFINITY, "step of gradient differences"),
    GD_INNER("links whose update takes the place of the gradient"),
};

static gd_tensor *propose(gd_trust *t)
{
    gd_tensor *d = NULL;
    return gd_krylov_at(t->memo, t->radius, &d, &t->hd) == GD_OK ? d : NULL;
}

/* Inside bounds: conjugate gradients projected into them. */
static gd_tensor *propose_within(gd_trust *t, gd_tensor *low, gd_tensor *high)
{
    gd_link *link = t->link;
    gd_linop *h = gd_linop_shifted(gd_linop_retain(t->hessian), gd_link_real(link, "reg", NULL));
    double tolerance = gd_link_kept(link, "tol_factor", 1) * gd_link_real(link, "tol", NULL);
    int64_t most = gd_link_is_none(link, "maxiter") ? gd_numel(t->b)
                                                    : (int64_t)gd_link_real(link, "maxiter", NULL);
    gd_tensor *d = h ? gd_projected_cg(h, t->b, low, high, t->radius, tolerance, most, &t->hd) : NULL;
    gd_linop_release(h);
    return d;
}

/* b is finite. */
static gd_status search(gd_link *link, gd_var *var, gd_linop *hessian, gd_tensor *b)
{
    double *factor = gd_link_global(link, "tol_factor", 1), before = gd_link_kept(link, "radius", 1);
    bool all = gd_link_is_none(link, "maxiter");
    if (!factor) return gd_error(gd_var_ctx(var));
    const gd_krylov_options options = {.tolerance = *factor * gd_link_real(link, "tol", NULL),
                                       .shift = gd_link_real(link, "reg", NULL),
                                       .least = (int64_t)gd_link_real(link, "miniter", NULL),
                                       .most = all ? gd_numel(b)
                                                   : (int64_t)gd_link_real(link, "maxiter", NULL),
                                       .kept_most = (int64_t)gd_link_real(link, "max_history", NULL),
                                       .minres = gd_link_is(link, "solver", "minres"),
                                       .stop_at_negative = gd_link_flag(link, "npc_terminate")};
    gd_krylov *k = gd_krylov_new(hessian, b, &options);
    if (!k) return gd_error(gd_var_ctx(var));
    gd_trust t = {.link = link, .var = var, .b = b, .hessian = hessian, .memo = k};
    const gd_trust_method method = {.propose = propose, .propose_within = propose_within, .boundary = true};
    gd_status status = gd_trust_search(&t, &method, 1);
    gd_krylov_free(k);
    /* the radius was reset to its initial value because nothing moved any more */
    bool collapsed = gd_link_kept(link, "radius", 1) > t.radius && before > 0;
    if (!status && collapsed && gd_link_flag(link, "adapt_tol"))
        *gd_link_global(link, "tol_factor", 1) *= 0.1;
    return status;
}

static gd_status steihaug_apply(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    if (!gd_link_global(link, "radius", gd_link_real(link, "init", NULL))) return gd_error(ctx);
    gd_linop *hessian = gd_link_hessian_products(link, var);
    gd_tensor *b = hessian ? gd_link_update_vector(link, var) : NULL;
    gd_status status = gd_error(ctx);
    if (b && gd_vector_finite(b))
        status = search(link, var, hessian, b);
    else if (b) {
        gd_var_note_failed_search(var);
        status = gd_var_set_zero_update(var);
    }
    gd_linop_release(hessian);
    return status;
}

GD_LINK(second_order, newton_cg_steihaug,
    .spread = GD_SPREAD_VECTOR,
    .summary = "Newton's method in a trust region by conjugate gradients, without the Hessian",
    .formula = "argmin of -u.d + d.H d / 2 along the path of conjugate gradients with norm(d) <= radius",
    .paper =
        "Steihaug, The conjugate gradient method and trust regions in large scale optimization, SIAM J. Numer. "
        "Anal. 20, 1983",
    .cost =
        "a Hessian product per iteration of conjugate gradients and an evaluation per trial step; vectors only",
    .example = "newton_cg_steihaug",
    GD_FIELDS(fields),
    .apply = steihaug_apply,
    .traits.needs_closure = true);
