/* Matching of operands. */
#ifndef GD_TENSOR_ELEMENTWISE_H
#define GD_TENSOR_ELEMENTWISE_H

#include "tensor/tensor_internal.h"

/* Replaces two or three operands by recorded views whose axes match by position from the right, checking names, labels and the
 * sizes of named axes. */
gd_status gd__meet(const char *what, gd_tensor **in, int count);
/* x with its axes and labels in the order of like's, for functions that replace one tensor by a second; x itself if they
 * are, or if one of the two has neither. Without names on one side, axes match by position. Axes of like that x lacks appear with size 1. AXIS if x
 * has an axis that like lacks, LABEL if labels differ. */
gd_tensor *gd__aligned_to(const char *what, gd_tensor *x, const gd_tensor *like);
/* x, whose axes match like's by position from the right, with its labels in the order of like's, except for axis `but` of
 * like (-1: all).  AXIS if names at one position differ, LABEL if labels do. */
gd_tensor *gd__placed_in(const char *what, gd_tensor *x, const gd_tensor *like, int but);
/* AXIS if two axes at one position have different names. */
gd_status gd__same_name(const char *what, const gd_tensor *a, int i, const gd_tensor *b, int j);
/* Do two tensors have the same names and labels in the same order?  (Labels on one side alone do not matter.) */
bool gd__same_axes(const gd_tensor *x, const gd_tensor *like);
/* Would the result differ from x itself? A cheap test for hot paths. */
static inline bool gd__may_differ(const gd_tensor *x, const gd_tensor *like)
{
    return x->axes != like->axes && x->axes && like->axes;
}

/* Has one of its axes a name?  (Labels alone are none.) */
bool gd__has_names(const gd_tensor *t);

/* The common dtype of two operands. */
gd_dtype gd__promoted(gd_dtype a, gd_dtype b);
/* fn of both in that dtype. */
gd_tensor *gd__in_common(gd_tensor *(*fn)(gd_tensor *a, gd_tensor *b), gd_tensor *a, gd_tensor *b);

gd_tensor *gd__binary(gd_op_id op, gd_tensor *a, gd_tensor *b);

/* Does a kernel compute the gradient of this operator of one operand in one pass? */
bool gd__has_slope(gd_op_id op);
/* g times that slope; `of` is the operand or result that the row of ops.def needs, `setting` that of the call. */
gd_tensor *gd__slope(gd_op_id op, double setting, gd_tensor *g, gd_tensor *of);

#endif
