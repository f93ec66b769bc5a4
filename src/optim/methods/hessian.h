/* The full Hessian, for links that factor it. */
#ifndef GD_LINKS_HESSIAN_H
#define GD_LINKS_HESSIAN_H

#include "gradus/link.h"

#define GD_HESSIAN_METHOD                                                                               \
    GD_CHOICE("hessian_method", "autograd",                                                             \
              "autograd|batched_autograd|func|autograd.functional|functional_revrev|functional_fwdrev|" \
              "gfd_forward|gfd_central",                                                                \
              "autograd in all its names, or differences of gradients")

/* The Hessian at the current parameters, exactly symmetric, [n, n]; new.  By the link's hessian_method, with steps h. */
gd_tensor *gd__hessian_matrix(gd_link *link, gd_var *var, double h);

/* H x = b by Cholesky, else LU, else least squares (of least norm, by eigenvalues); lstsq: least squares at once.
 * New; NULL without an error where something is not finite. */
gd_tensor *gd__hessian_solve(gd_tensor *h, gd_tensor *b, bool lstsq);

/* H^-1 b by eigenvalues: those below tolerance times the largest in size, and all but the `most` largest (0: all), count
 * as zero and their directions are left out; then `how`: NULL as they are, "abs", "clip" at the tolerance, or "floor":
 * their sizes, at least the tolerance, and no direction left out. */
gd_tensor *gd__hessian_spectral(gd_tensor *h, gd_tensor *b, const char *how, double tolerance, int64_t most);

/* V |L| V^T b for a symmetric M = V L V^T, the sizes of the eigenvalues at least floor times the largest: a solution where
 * the inverse of a Hessian is M.  New; NULL without an error where something is not finite. */
gd_tensor *gd__spectral_product(gd_tensor *m, gd_tensor *b, double floor);

/* One matrix over all parameters, for gd_link_class. */
int64_t gd__matrix_bytes(const gd_link *link, gd_tensor *const *params, int count);

#endif
