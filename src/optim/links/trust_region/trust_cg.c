/* Trust region by truncated conjugate gradients (Steihaug 1983, Toint 1981).
 *
 * Conjugate gradients on H d = b from 0.  If they leave the region, or meet negative curvature, the step ends at the
 * edge.  Inside bounds they are projected into the box (Lin & More 1999).  Only products with H are used.  Cost: at most maxiter products per
 * step, whatever the number of attempts. */
#include "gradus/link/trust_region.h"

#include <math.h>

#define KEPT 100

static const gd_field fields[] = {
    GD_TRUST_HESSIAN,
    GD_TRUST_RATIOS(3.5, 0.99, 1e-4),
    GD_REAL_OR_OFF(
        "boundary_tol", 1e-6, 0, 1,
        "the radius grows only after steps of at least (1 - boundary_tol) radius; none: after any"),
    GD_TRUST_TRIES,
    GD_REAL("reg", 0, 0, INFINITY, "added to the diagonal of the Hessian"),
    GD_INT_OR_NONE("maxiter", 1, 1e15, "iterations at most; none: one per parameter"),
    GD_INT("miniter", 1, 0, 1e15, "iterations at least"),
    GD_REAL("cg_tol", 1e-8, 0, INFINITY,
            "norm of the residual, by that of a gradient shorter than 1, at which it is enough"),
    GD_FLAG("prefer_exact", true, "solve exactly where that is easy; CG does, in one iteration"),
    GD_TRUST_UPDATE,
    GD_TRUST_INNER,
};

static double tolerance_of(gd_trust *t)
{
    return gd_link_real(t->link, "cg_tol", NULL) * fmin(1, gd_vector_norm(t->b));
}

static int64_t most_of(const gd_trust *t)
{
    bool all = gd_link_is_none(t->link, "maxiter");
    return all ? 4 * gd_numel(t->b) : (int64_t)gd_link_real(t->link, "maxiter", NULL);
}

static gd_krylov *path_of(gd_trust *t)
{
    if (t->memo) return t->memo;
    const gd_krylov_options options = {.tolerance = tolerance_of(t),
                                       .shift = gd_link_real(t->link, "reg", NULL),
                                       .least = (int64_t)gd_link_real(t->link, "miniter", NULL),
                                       .most = most_of(t),
                                       .kept_most = KEPT};
    return t->memo = gd_krylov_new(t->hessian, t->b, &options);
}

static gd_tensor *propose(gd_trust *t)
{
    gd_krylov *k = path_of(t);
    gd_tensor *d = NULL;
    return k && gd_krylov_at(k, t->radius, &d, &t->hd) == GD_OK ? d : NULL;
}

/* Inside bounds: conjugate gradients projected into them. */
static gd_tensor *propose_within(gd_trust *t, gd_tensor *low, gd_tensor *high)
{
    gd_linop *h = gd_linop_shifted(gd_linop_retain(t->hessian), gd_link_real(t->link, "reg", NULL));
    gd_tensor *d = h ? gd_projected_cg(h, t->b, low, high, t->radius, tolerance_of(t), most_of(t), &t->hd)
                     : NULL;
    gd_linop_release(h);
    return d;
}

static void forget(gd_trust *t) { gd_krylov_free(t->memo); }

static gd_status trust_cg_apply(gd_link *link, gd_var *var)
{
    return gd_trust_apply(
        link, var,
        &(gd_trust_method){
            .propose = propose, .propose_within = propose_within, .end = forget, .boundary = true});
}

GD_LINK(trust_region, trust_cg,
    .spread = GD_SPREAD_VECTOR,
    .summary = "trust region by truncated conjugate gradients",
    .formula = "argmin of -u.d + d.H d / 2 along the path of conjugate gradients with norm(d) <= radius",
    .paper =
        "Steihaug, The conjugate gradient method and trust regions in large scale optimization, SIAM J. Numer. "
        "Anal. 20, 1983",
    .cost = "products with the Hessian of its child, one per iteration; an evaluation per trial step",
    .example = "trust_cg(lsr1)",
    GD_FIELDS(fields),
    .update = gd_trust_update,
    .apply = trust_cg_apply,
    .traits.needs_closure = true);
