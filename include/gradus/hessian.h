/* gradus/hessian.h: Hessians for links that use them: as a matrix, as products, and ways to solve with them.
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

/* Settings of links that make a Hessian, for their lists of fields: how it is made. */
#define GD_HESSIAN_CHOICE(fallback)                                                                     \
    GD_CHOICE("hessian_method", fallback,                                                               \
              "autograd|batched_autograd|func|autograd.functional|functional_revrev|functional_fwdrev|" \
              "gfd_forward|gfd_central",                                                                \
              "autograd in all its names, or differences of gradients")
#define GD_HESSIAN_METHOD GD_HESSIAN_CHOICE("autograd")
/* The Hessian over all parameters at their values, exactly symmetric, [n, n]: by the link's setting hessian_method where it has
 * one, with h as step of differences.  New. */
gd_tensor *gd_link_hessian_matrix(gd_link *link, gd_var *var, double h);
/* For gd_link_class.state_bytes: one matrix over all parameters. */
int64_t gd_link_matrix_bytes(const gd_link *link, gd_tensor *const *params, int count);

/* Inside bounds: H with the rows and columns of held elements (0 in the mask, gd_var_free_mask) as those of the identity, so
 * that solving moves free elements alone.  inverse: H is the inverse of a Hessian, and what is returned the inverse of that one's
 * free block, 0 elsewhere.  New. */
gd_tensor *gd_hessian_free(gd_tensor *h, gd_tensor *mask, bool inverse);
/* H x = b by Cholesky, else LU, else least squares (of least norm, by eigenvalues); lstsq: least squares at once.
 * New; NULL without an error where something is not finite. */
gd_tensor *gd_hessian_solve(gd_tensor *h, gd_tensor *b, bool lstsq);
/* H^-1 b by eigenvalues: those below tolerance times the largest in size, and all but the `most` largest (0: all), count
 * as zero and their directions are left out; then `how`: NULL as they are, "abs", "clip" at the tolerance, or "floor":
 * their sizes, at least the tolerance, and no direction left out.  New. */
gd_tensor *gd_hessian_spectral(gd_tensor *h, gd_tensor *b, const char *how, double tolerance, int64_t most);

/* The same for products with the Hessian, with the ways that the link knows.  "autograd" stands for the products that the objective
 * has, its own or those of its graph; "auto" for these too, and for central differences where it has none. */
#define GD_HVP_CHOICE(fallback, choices)       \
    GD_CHOICE("hvp_method", fallback, choices, \
              "products of the objective or by autograd, or by differences of gradients")
/* Products with the Hessian at the parameters as an operator, by the link's settings hvp_method and h where it has them.  To be made before the
 * gradient is asked for: products by autograd need it with its history, and so it is evaluated once.  Lives no longer than the
 * step.  New; NULL on failure. */
gd_linop *gd_link_hessian_products(gd_link *link, gd_var *var);
/* H v as lists, by the same settings (h may be called fd_h).  Rules that wait run before.  New. */
GD_NODISCARD gd_status gd_link_hessian_times(gd_link *link, gd_var *var, gd_tensor *const *v,
                                             gd_tensor **out);
/* For links that need such products at this step, in pre_step or before they ask for anything: the gradient becomes one with its
 * history, where the method wants that, also one that is there already (and would change under the hands of update_tensors). */
GD_NODISCARD gd_status gd_link_expect_products(gd_link *link, gd_var *var);

/* A step of sequential quadratic programming or of the interior point under the constraints of the objective and the bounds in force, as the
 * link nlp makes it, for a link with its settings `tol`, `method` and `hessian`. */
GD_NODISCARD gd_status gd_link_step_nlp(gd_link *link, gd_var *var);
/* For gd_link_class.state_bytes of such a link: what it keeps where the objective has second derivatives and no constraints, and
 * no element is held by its bounds. */
int64_t gd_link_nlp_bytes(const gd_link *link, gd_tensor *const *params, int count);

#ifdef __cplusplus
}
#endif
#endif
