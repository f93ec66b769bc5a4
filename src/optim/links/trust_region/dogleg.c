/* Dogleg (Powell 1970): along the steepest descent to the minimum of the model there, then towards the Newton point, as far
 * as the radius allows; the Newton point itself where it is inside.
 *
 * The path is meant for positive definite H.  If the curvature along the gradient is not positive the step goes down
 * the gradient to the edge; where the Newton point is uphill, to the minimum along the gradient at most.
 * Cost: one solution and one product per step, whatever the number of attempts. */
#include "gradus/link/trust_region.h"

#include <math.h>

#define OFF 1e-8 /* what is added to a singular Hessian, by its curvature along the gradient */

static const gd_field fields[] = {
    GD_TRUST_HESSIAN,
    GD_TRUST_RATIOS(2, 0.75, 0.25),
    GD_REAL_OR_NONE(
        "boundary_tol", 0, 1,
        "the radius grows only after steps of at least (1 - boundary_tol) radius; none: after any"),
    GD_TRUST_TRIES,
    GD_TRUST_UPDATE,
    GD_TRUST_INNER,
};

/* The corners of the path, found once per step. */
typedef struct corners {
    gd_tensor *newton;    /* NULL: none */
    double bb, curvature; /* b . b, b . H b */
} corners;

/* H^-1 b, or of H moved a little off a singular one; NULL if there is none or it is uphill. */
static gd_tensor *newton_point(gd_trust *t, double curvature)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    gd_tensor *x = gd_linop_solve(t->hessian, t->b);
    if (!x && gd_error(ctx) == GD_SINGULAR) {
        gd_clear_error(ctx);
        gd_linop *off = curvature > 0 ? gd_linop_shifted(gd_linop_retain(t->hessian), OFF * curvature) : NULL;
        x = off ? gd_linop_solve(off, t->b) : NULL;
        gd_linop_release(off);
        if (!x && gd_error(ctx) == GD_SINGULAR) gd_clear_error(ctx);
    }
    return x && gd_vector_finite(x) && gd_vector_dot(x, t->b) > 0 ? x : NULL;
}

static corners *corners_of(gd_trust *t)
{
    if (t->memo) return t->memo;
    gd_ctx *ctx = gd_link_ctx(t->link);
    corners *c = t->memo = gd_link_memory(t->link, sizeof *c);
    if (!c) return NULL;
    gd_scope_begin(ctx);
    gd_tensor *hb = gd_linop_matvec(t->hessian, t->b);
    c->bb = gd_vector_dot(t->b, t->b);
    c->curvature = gd_vector_dot(t->b, hb);
    c->newton = newton_point(t, c->curvature / c->bb);
    gd_keep(c->newton);
    gd_scope_end(ctx);
    return gd_error(ctx) ? NULL : c;
}

/* tau in 0 .. 1 with |a + tau (z - a)| = radius. */
static double crossing(gd_tensor *a, gd_tensor *leg, double radius)
{
    double ll = gd_vector_dot(leg, leg), al = gd_vector_dot(a, leg);
    double room = radius * radius - gd_vector_dot(a, a), root = sqrt(al * al + ll * room);
    return al > 0 ? room / (al + root) : (root - al) / ll;
}

static gd_tensor *propose(gd_trust *t)
{
    corners *c = corners_of(t);
    if (!c) return NULL;
    double norm = sqrt(c->bb), edge = norm > 0 ? t->radius / norm : 0;
    if (!(c->curvature > 0)) return gd_mul_scalar(t->b, edge);
    double cauchy = c->bb / c->curvature;
    t->inside = c->newton && gd_vector_norm(c->newton) <= t->radius;
    if (t->inside) return gd_mul_scalar(c->newton, 1);
    if (cauchy >= edge || !c->newton) return gd_mul_scalar(t->b, fmin(cauchy, edge));
    gd_tensor *a = gd_mul_scalar(t->b, cauchy), *leg = gd_vector_sum(c->newton, -1, a);
    return leg ? gd_vector_sum(a, crossing(a, leg, t->radius), leg) : NULL;
}

static gd_status dogleg_apply(gd_link *link, gd_var *var)
{
    return gd_trust_apply(link, var, &(gd_trust_method){.propose = propose, .boundary = true});
}

GD_LINK(trust_region, dogleg,
    .spread = GD_SPREAD_WHOLE,
    .summary = "trust region along steepest descent, then towards the Newton point",
    .formula = "the point of the path 0, (u.u / u.H u) u, H^-1 u at the radius",
    .paper = "Powell, A new algorithm for unconstrained optimization, in Nonlinear Programming, 1970",
    .cost =
        "one solution and one product with the Hessian of its child per step; an evaluation per trial step",
    .example = "dogleg(bfgs)",
    GD_FIELDS(fields),
    .update = gd_trust_update,
    .apply = dogleg_apply,
    .traits.needs_closure = true);
