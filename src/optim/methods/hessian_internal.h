/* Functions of Hessian approximations for line searches, besides those of gradus/link/hessian.h. */
#ifndef GD_OPTIM_METHODS_HESSIAN_INTERNAL_H
#define GD_OPTIM_METHODS_HESSIAN_INTERNAL_H

#include "gradus/link/hessian.h"

/* V |L| V^T b for a symmetric M = V L V^T, the sizes of the eigenvalues at least floor times the largest: a solution where
 * the inverse of a Hessian is M.  New; NULL without an error where something is not finite. */
gd_tensor *gd__spectral_product(gd_tensor *m, gd_tensor *b, double floor);

#endif
