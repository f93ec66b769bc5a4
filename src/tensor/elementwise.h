/* How operands meet. */
#ifndef GD_TENSOR_ELEMENTWISE_H
#define GD_TENSOR_ELEMENTWISE_H

#include "tensor/tensor_internal.h"

/* Replaces two or three operands by recorded views whose axes meet by place from the right, checking names, labels and the
 * sizes of named axes. */
gd_status gd__meet(const char *what, gd_tensor **in, int count);
/* x with its axes and labels in the order of like's, for functions that replace one tensor by a second; x itself
 * where they are, or where one of the two has neither.  Without names on one side, axes meet by place.  Axes of like that x
 * has not appear with size 1.  AXIS when x has an axis that like has not, LABEL when labels differ. */
gd_tensor *gd__aligned_to(const char *what, gd_tensor *x, const gd_tensor *like);
/* x, whose axes stand at the places of like's from the right, with its labels in the order of like's, but for axis `but` of
 * like (-1: all).  AXIS when names at one place differ, LABEL when labels do. */
gd_tensor *gd__placed_in(const char *what, gd_tensor *x, const gd_tensor *like, int but);
/* AXIS when two axes that meet by place have different names. */
gd_status gd__same_name(const char *what, const gd_tensor *a, int i, const gd_tensor *b, int j);
/* Do two tensors have the same names and labels in the same order?  (Labels on one side alone do not matter.) */
bool gd__same_axes(const gd_tensor *x, const gd_tensor *like);
/* Would it be more than x itself?  The cheap question for hot paths. */
static inline bool gd__may_differ(const gd_tensor *x, const gd_tensor *like)
{
    return x->axes != like->axes && x->axes && like->axes;
}

/* Has one of its axes a name?  (Labels alone are none.) */
bool gd__has_names(const gd_tensor *t);

/* The dtype that two operands meet in. */
gd_dtype gd__promoted(gd_dtype a, gd_dtype b);
/* fn of both in that dtype. */
gd_tensor *gd__in_common(gd_tensor *(*fn)(gd_tensor *a, gd_tensor *b), gd_tensor *a, gd_tensor *b);

gd_tensor *gd__binary(gd_op_id op, gd_tensor *a, gd_tensor *b);

/* Does a kernel compute the gradient of this operator of one operand in one pass? */
bool gd__has_slope(gd_op_id op);
/* g times that slope; `of` is the operand or result that the row of ops.def needs, `setting` that of the call. */
gd_tensor *gd__slope(gd_op_id op, double setting, gd_tensor *g, gd_tensor *of);

#endif
