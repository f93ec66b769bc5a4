/* Levenberg-Marquardt: the damping is the reciprocal of a radius that follows the gain ratio.
 *
 *     (H + W / radius) d = b,    W = (1 - y) I + y diag(H)
 *
 * With gauss_newton below, H = J^T J and the system is solved by QR of J with rows of sqrt(W / radius) under it. */
#include "gradus/link/trust_region.h"

#include <math.h>

#define UNFELT 1e-8 /* damping times step by gradient below which it makes no difference */

static const gd_field fields[] = {
    GD_TRUST_HESSIAN,
    GD_TRUST_RATIOS(3.5, 0.99, 1e-4),
    GD_TRUST_TRIES,
    GD_REAL("y", 0, 0, 1, "0: the identity is added; 1: the diagonal of the Hessian; between: both"),
    GD_FIXED_FLAG("fallback", false, "links that have an inverse alone are always handled"),
    GD_TRUST_UPDATE,
    GD_TRUST_INNER,
};

/* 1 / sqrt(W), where W has a smallest element so that zero columns do not matter. */
static gd_tensor *scale_of(gd_trust *t, double y)
{
    gd_tensor *d = gd_linop_diagonal_of(t->hessian);
    gd_tensor *w = gd_add_scalar(gd_mul_scalar(gd_abs(d), y), 1 - y);
    gd_tensor *most = gd_max(w, NULL, false);
    double least = most ? gd_item(most) * gd_vector_epsilon(w) * gd_vector_epsilon(w) : 1;
    return gd_rsqrt(gd_clamp(w, least > 0 ? least : 1, INFINITY));
}

/* (A + shift I)^-1 b; NULL without an error if there is none. */
static gd_tensor *solve_shifted(gd_linop *a, double shift, gd_tensor *b)
{
    gd_linop *sum = gd_linop_shifted(gd_linop_retain(a), shift);
    gd_tensor *d = sum ? gd_linop_solve(sum, b) : NULL;
    gd_linop_release(sum);
    gd_ctx *ctx = gd_tensor_ctx(b);
    if (!d && gd_error(ctx) == GD_SINGULAR) gd_clear_error(ctx);
    return d;
}

/* With S = W^(-1/2): (S H S + damping I) (S^-1 d) = S b.  The same for all attempts of a step. */
typedef struct scaled {
    gd_linop *h;      /* S H S */
    gd_tensor *s, *b; /* S, S b */
} scaled;

static scaled *scaled_of(gd_trust *t, double y)
{
    if (t->memo) return t->memo;
    gd_ctx *ctx = gd_link_ctx(t->link);
    scaled *m = t->memo = gd_link_memory(t->link, sizeof *m);
    if (!m) return NULL;
    gd_scope_begin(ctx);
    m->s = gd_keep(scale_of(t, y));
    m->b = gd_keep(m->s ? gd_mul(m->s, t->b) : NULL);
    m->h = m->b ? gd_linop_congruent(t->hessian, m->s) : NULL;
    gd_scope_end(ctx);
    return m->h ? m : NULL;
}

static void free_scaled(gd_trust *t)
{
    scaled *m = t->memo;
    if (m) gd_linop_release(m->h);
}

static gd_tensor *propose(gd_trust *t)
{
    double y = gd_link_real(t->link, "y", NULL), damping = 1 / t->radius;
    scaled *m = y == 0 ? NULL : scaled_of(t, y);
    if (y != 0 && !m) return NULL;
    gd_tensor *b = m ? m->b : t->b, *d = solve_shifted(m ? m->h : t->hessian, damping, b);
    /* the damping no longer counts: less of it would give the same step, and a radius that went on growing would take many
     * rejections to come back */
    t->inside = d && damping * gd_vector_norm(d) <= UNFELT * gd_vector_norm(b);
    return d && m ? gd_mul(m->s, d) : d;
}

static gd_status levenberg_marquardt_apply(gd_link *link, gd_var *var)
{
    return gd_trust_apply(link, var, &(gd_trust_method){.propose = propose, .end = free_scaled});
}

GD_LINK(trust_region, levenberg_marquardt,
    .spread = GD_SPREAD_WHOLE,
    .summary = "damped Newton or Gauss-Newton steps, the damping set by the gain ratio",
    .formula = "d = (H + ((1 - y) I + y diag(H)) / radius)^-1 u",
    .paper = "Marquardt, An algorithm for least-squares estimation of nonlinear parameters, J. SIAM 11, 1963",
    .cost =
        "one solution with the Hessian of its child (gauss_newton: a QR) and an evaluation per trial step",
    .example = "levenberg_marquardt(gauss_newton)",
    GD_FIELDS(fields),
    .update = gd_trust_update,
    .apply = levenberg_marquardt_apply,
    .traits.needs_closure = true);
