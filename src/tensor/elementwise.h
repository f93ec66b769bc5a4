/* How operands meet. */
#ifndef GD_TENSOR_ELEMENTWISE_H
#define GD_TENSOR_ELEMENTWISE_H

#include "tensor/tensor.h"

/* Replaces a and b by recorded views whose axes stand in one order, checking names, sizes and labels. */
gd_status gd__meet(const char *what, gd_tensor **a, gd_tensor **b);
/* An empty tensor of the broadcast shape of all operands (right-aligned), with their axes merged. */
gd_tensor *gd__broadcast_result(const char *what, gd_tensor *const *in, int nin, gd_dtype dtype);

gd_tensor *gd__unary(gd_op_id op, gd_tensor *x, const gd_attrs *attrs);
gd_tensor *gd__binary(gd_op_id op, gd_tensor *a, gd_tensor *b);
gd_tensor *gd__ternary(gd_op_id op, gd_tensor *a, gd_tensor *b, gd_tensor *c);

#endif
