/* The inside of linear operators, for other files; see gradus/link.h. */
#ifndef GD_OPTIM_VECTOR_LINOP_INTERNAL_H
#define GD_OPTIM_VECTOR_LINOP_INTERNAL_H

#include "gradus/link.h"

/* The matrix of an operator that is stored as one, or as its inverse: *inverse.  Borrowed; NULL for other operators. */
gd_tensor *gd__linop_matrix(const gd_linop *a, bool *inverse);

#endif
