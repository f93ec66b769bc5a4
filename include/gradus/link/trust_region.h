/* gradus/link/trust_region.h: for trust-region links, and conjugate gradients inside a ball.
 *
 * A step takes the child's Hessian operator H and the update b as gradient of the model
 *
 *     loss(p - d) ~ loss(p) - unit (b . d - d . H d / 2)
 *
 * A method proposes d for a radius.  The ratio of actual to predicted decrease decides: above eta the step is taken, below
 * rho_bad the radius is multiplied by nminus, above rho_good by nplus.  A rejected step is repeated with the smaller
 * radius, up to max_attempts times; then the parameters stay and the step info has search_failed.
 *
 *     static gd_tensor *down_the_gradient(gd_trust *t)
 *     {
 *         return gd_mul_scalar(t->b, t->radius / gd_vector_norm(t->b));
 *     }
 *     static gd_status cauchy_apply(gd_link *link, gd_var *var)
 *     {
 *         const gd_trust_method method = {.propose = down_the_gradient};
 *         return gd_trust_apply(link, var, &method);
 *     }
 *
 * cauchy_apply is the .apply of a class, gd_trust_update its .update; the fields are GD_TRUST_HESSIAN, GD_TRUST_RATIOS, GD_TRUST_TRIES,
 * GD_TRUST_UPDATE and GD_TRUST_INNER.  `unit` is 1 unless the child scales its model: gauss_newton gives J^T r and J^T J,
 * half of the gradient and Hessian of the sum of squares. */
#ifndef GRADUS_TRUST_REGION_H
#define GRADUS_TRUST_REGION_H

#include "gradus/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The current step, for the method. */
typedef struct gd_trust {
    gd_link *link;
    gd_var *var;
    gd_linop *hessian;
    gd_tensor *b;
    double radius;
    /* set by the method with each proposal */
    gd_tensor *hd; /* H d; NULL: computed */
    double less;   /* subtracted from the predicted decrease of the quadratic model */
    bool inside;   /* a larger radius would give the same step, so it does not grow */
    void *memo;    /* the method's own data for this step: gd_link_memory */
} gd_trust;

/* How a link with a trust region proposes steps. */
typedef struct gd_trust_method {
    /* The step for t->radius, new; NULL without an error: none for this radius, try a smaller one. */
    gd_tensor *(*propose)(gd_trust *t);
    /* The same within bounds, low <= d <= high; NULL: the step of propose is shortened to stay inside. */
    gd_tensor *(*propose_within)(gd_trust *t, gd_tensor *low, gd_tensor *high);
    void (*end)(gd_trust *t); /* after the last attempt; may be NULL */
    bool boundary; /* the link has a setting boundary_tol: the radius grows only after steps to the edge */
} gd_trust_method;

/* Class functions: update runs the child's update every update_freq steps, apply sets the update. */
GD_NODISCARD gd_status gd_trust_update(gd_link *link, gd_var *var);
GD_NODISCARD gd_status gd_trust_apply(gd_link *link, gd_var *var, const gd_trust_method *method);
/* Only the attempts, for a link that has its own model: t with link, var, b and hessian (may be NULL if the method sets
 * hd).  unit as above; a setting init that is none: 1.  Sets the update. */
GD_NODISCARD gd_status gd_trust_search(gd_trust *t, const gd_trust_method *method, double unit);

/* Settings of links with a trust region, for their lists of fields. */
#define GD_TRUST_RATIOS(plus, good, bad)                                                                 \
    GD_REAL("eta", 0, 0, INFINITY, "ratio of actual to predicted decrease above which a step is taken"), \
        GD_REAL("nplus", plus, 1, INFINITY, "factor of the radius after a very good step"),              \
        GD_REAL("nminus", 0.25, 0, 1, "factor of the radius after a bad step"),                          \
        GD_REAL("rho_good", good, 0, INFINITY, "ratio above which the radius grows"),                    \
        GD_REAL("rho_bad", bad, 0, INFINITY, "ratio below which the radius shrinks")
#define GD_TRUST_TRIES                                               \
    GD_REAL("init", 1, 0, INFINITY, "first radius"),                 \
        GD_INT("max_attempts", 10, 1, 1e9, "radii tried in a step"), \
        GD_CHOICE("radius_strategy", "default", "default|fixed", "fixed: no ratios, the radius stays init")
#define GD_TRUST_HESSIAN GD_CHILD_NEEDED("hess_module", "the link whose Hessian is used")
#define GD_TRUST_UPDATE  GD_UPDATE_FREQ("steps between updates of the Hessian")
#define GD_TRUST_INNER   GD_INNER("links whose update takes the place of the gradient")

/* ---- conjugate gradients and minimal residuals for A x = b ---- */

/* Both build x step by step with growing norm (Steihaug 1983).  Products with A are kept, so that the point where the path
 * leaves a smaller ball is found without a new product. */
typedef struct gd_krylov_options {
    gd_tensor *start;      /* x_0 for an unbounded run; NULL: 0 */
    double tolerance;      /* norm of the residual at which it stops */
    double shift;          /* added to the diagonal of A */
    int64_t least, most;   /* steps */
    int64_t kept_most;     /* products to keep */
    bool minres;           /* minimal residuals instead of conjugate gradients */
    bool stop_at_negative; /* stop at negative curvature instead of following it to the edge */
} gd_krylov_options;

/* The last run; read only. */
typedef struct gd_krylov {
    int64_t steps;
    bool negative;     /* a direction without positive curvature was found */
    gd_tensor *before; /* an unbounded run: x when that happened first, NULL if x was still 0; borrowed */
} gd_krylov;

/* The operator and b are borrowed until gd_krylov_free.  NULL on failure; NULL options: one step per row, exact. */
gd_krylov *gd_krylov_new(gd_linop *a, gd_tensor *b, const gd_krylov_options *options);
/* The point of the path inside the ball (radius INFINITY: its end), and its product with A (shift included).  New. */
GD_NODISCARD gd_status gd_krylov_at(gd_krylov *k, double radius, gd_tensor **x, gd_tensor **ax);
void gd_krylov_free(gd_krylov *k); /* NULL is fine */

/* ---- a model in a box and a ball ---- */

/* A d that makes -b d + d H d / 2 small, with low <= d <= high element by element (NULL: none) and norm(d) <= radius, which 0
 * satisfies.  *hd, where it is wanted, is H d.  New.
 *
 * It begins at the generalised Cauchy point: on the path P(t b), P the projection onto the box, where the model falls by at least
 * 1 % of its linear prediction and longer steps are no better (More & Toraldo 1991); most 0: that point.  From there conjugate gradients
 * over the free elements, projected onto the box, until their gradient is at most `tolerance`, the edge of the ball, or `most`
 * products (Lin & More 1999).  Negative curvature is followed to the edge. */
gd_tensor *gd_projected_cg(gd_linop *h, gd_tensor *b, gd_tensor *low, gd_tensor *high, double radius,
                           double tolerance, int64_t most, gd_tensor **hd);

#ifdef __cplusplus
}
#endif
#endif
