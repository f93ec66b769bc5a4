/* gradus/link/hessian.h: Hessians for links: matrices, products, and solvers.
 *
 *     static gd_status newton_step(gd_link *link, gd_var *var)
 *     {
 *         gd_tensor *b = gd_link_update_vector(link, var), *h = gd_link_hessian_matrix(link, var, 0);
 *         gd_tensor *d = h && b ? gd_hessian_solve(h, b, false) : NULL;
 *         if (d) return gd_var_set_update_vector(var, d);
 *         return gd_error(gd_var_ctx(var)) ? gd_error(gd_var_ctx(var)) : gd_var_set_zero_update(var);
 *     }
 *
 * It is the .step of a class with needs_closure (gradus/link.h). */
#ifndef GRADUS_HESSIAN_H
#define GRADUS_HESSIAN_H

#include "gradus/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The field hessian_method of links that compute a Hessian. */
#define GD_HESSIAN_CHOICE(fallback)                                                                     \
    GD_CHOICE("hessian_method", fallback,                                                               \
              "autograd|batched_autograd|func|autograd.functional|functional_revrev|functional_fwdrev|" \
              "gfd_forward|gfd_central",                                                                \
              "autograd in all its names, or differences of gradients")
#define GD_HESSIAN_METHOD GD_HESSIAN_CHOICE("autograd")
/* The Hessian over all parameters at their values, exactly symmetric, [n, n]: by the link's setting hessian_method if it has
 * one, with h as difference step.  New. */
gd_tensor *gd_link_hessian_matrix(gd_link *link, gd_var *var, double h);
/* For gd_link_class.state_bytes: one matrix over all parameters. */
int64_t gd_link_matrix_bytes(const gd_link *link, gd_tensor *const *params, int count);

/* Inside bounds: H with rows and columns of held elements (0 in the mask, gd_var_free_mask) replaced by those of the identity,
 * so that solving moves free elements only.  inverse: H is an inverse Hessian, and the result is the inverse of the Hessian's free
 * block, 0 elsewhere.  New. */
gd_tensor *gd_hessian_free(gd_tensor *h, gd_tensor *mask, bool inverse);
/* H x = b by Cholesky, else LU, else least squares (of least norm, by eigenvalues); lstsq: least squares at once.
 * New; NULL without an error if an element is not finite. */
gd_tensor *gd_hessian_solve(gd_tensor *h, gd_tensor *b, bool lstsq);
/* H^-1 b by eigenvalues: directions of eigenvalues below tolerance times the largest absolute value, and of all but
 * the `most` largest (0: all), are left out; `how` changes the others: NULL not at all, "abs", "clip" at the tolerance.  "floor"
 * takes absolute values of at least the tolerance and leaves out no direction.  New. */
gd_tensor *gd_hessian_spectral(gd_tensor *h, gd_tensor *b, const char *how, double tolerance, int64_t most);

/* The field hvp_method, with the methods of the link.  "autograd" means the objective's own products or those of its graph; "auto"
 * also central differences if it has neither. */
#define GD_HVP_CHOICE(fallback, choices)       \
    GD_CHOICE("hvp_method", fallback, choices, \
              "products of the objective or by autograd, or by differences of gradients")
/* Products with the Hessian at the parameters as an operator, by the link's settings hvp_method and h if it has them.  Call it before using
 * the gradient: products by autograd need its history, so the gradient is evaluated only once.  Valid until the end of the
 * step.  New; NULL on failure. */
gd_linop *gd_link_hessian_products(gd_link *link, gd_var *var);
/* H v as lists, by the same settings (h may be called fd_h).  Runs pending rules first.  New. */
GD_NODISCARD gd_status gd_link_hessian_times(gd_link *link, gd_var *var, gd_tensor *const *v,
                                             gd_tensor **out);
/* For links that need such products at this step: call it in pre_step or before anything is evaluated.  The gradient gets a
 * history if the method needs it, even if it is known already (update_tensors could change it in place). */
GD_NODISCARD gd_status gd_link_expect_products(gd_link *link, gd_var *var);

/* A step of the link nlp (sequential quadratic programming or interior point, with constraints and bounds), for links with its
 * settings `tol`, `method` and `hessian`. */
GD_NODISCARD gd_status gd_link_step_nlp(gd_link *link, gd_var *var);
/* For gd_link_class.state_bytes of such a link: its state for an objective with second derivatives, without constraints and
 * active bounds. */
int64_t gd_link_nlp_bytes(const gd_link *link, gd_tensor *const *params, int count);

#ifdef __cplusplus
}
#endif
#endif
