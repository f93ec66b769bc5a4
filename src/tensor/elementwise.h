/* How operands meet. */
#ifndef GD_TENSOR_ELEMENTWISE_H
#define GD_TENSOR_ELEMENTWISE_H

#include "tensor/tensor.h"

/* Replaces a and b by recorded views whose axes stand in one order, checking names, sizes and labels. */
gd_status gd__meet(const char *what, gd_tensor **a, gd_tensor **b);
/* x with its axes and labels in the order of like's, for functions that put one tensor into the place of another; x itself
 * where they are, or where one of the two has no names.  Axes of like that x has not appear with size 1.  AXIS when x has an
 * axis that like has not, LABEL when labels differ. */
gd_tensor *gd__aligned_to(const char *what, gd_tensor *x, const gd_tensor *like);
/* Do two tensors have the same names and labels in the same order?  (Labels on one side alone do not matter.) */
bool gd__same_axes(const gd_tensor *x, const gd_tensor *like);
/* Would it be more than x itself?  The cheap question for hot paths. */
static inline bool gd__may_differ(const gd_tensor *x, const gd_tensor *like)
{
    return x->axes != like->axes && x->axes && like->axes;
}

gd_tensor *gd__binary(gd_op_id op, gd_tensor *a, gd_tensor *b);

#endif
