/* Internal versions of the shape operators, with axis numbers instead of texts. */
#ifndef GD_TENSOR_SHAPE_H
#define GD_TENSOR_SHAPE_H

#include "tensor/tensor_internal.h"

/* Elements of axis in the order of a 1-D i64 index; `labels` (borrowed, may be NULL) name the new axis. */
gd_tensor *gd__index_select(gd_tensor *x, int axis, gd_tensor *index, gd_labels *labels);
/* x with size * on `axis` at start, start + step, ... */
gd_tensor *gd__slice(gd_tensor *x, int axis, int64_t start, int64_t count, int64_t step);
/* Zeros of `size` with x put at start[i] + k * step[i] along each axis. */
gd_tensor *gd__embed(gd_tensor *x, const int64_t *size, const int64_t *start, const int64_t *step,
                     double fill);
/* Adds rows of values at index along axis into zeros of size `count` on that axis. */
gd_tensor *gd__index_add(gd_tensor *zeros, int axis, gd_tensor *index, gd_tensor *values);
/* x with rows of values, of its dtype, in place of those at a 1-D i64 index along axis; the last of two for one position counts. */
gd_tensor *gd__index_put(gd_tensor *x, int axis, gd_tensor *index, gd_tensor *values);
/* The labels of x's axis that a 1-D i64 index picks, on an axis of out; none if one would occur twice. */
gd_status gd__label_picked(gd_tensor *out, int at, gd_tensor *x, int axis, gd_tensor *index);
/* An integer tensor as i64; NULL with an error for other dtypes. */
gd_tensor *gd__as_index(const char *what, gd_tensor *index);
/* One position of an axis, which is removed. */
gd_tensor *gd__at_place(gd_tensor *x, int axis, int64_t place);
/* The number of elements selected by Python's start:stop:step; *start becomes the first. -1 for an invalid step. */
int64_t gd__slice_count(int64_t size, int64_t *start, int64_t stop, int64_t step);
/* Reshape without names: the caller adds them. */
gd_tensor *gd__reshape(gd_tensor *x, int ndim, const int64_t *size);
/* Strides that show t's elements as `size` without moving them; false if impossible. */
bool gd__view_strides(const gd_tensor *t, int ndim, const int64_t *size, int64_t *stride);
/* A view of x, made by the caller, with its history: the view, which is released on failure, or NULL. */
gd_tensor *gd__recorded(gd_op_id op, gd_tensor *x, const gd_attrs *attrs, gd_tensor *view);
/* An alias of x: the result of operators that have nothing to do. */
gd_tensor *gd__same(gd_tensor *x);
/* x without names; x itself if it has none. */
gd_tensor *gd__nameless(gd_tensor *x);
/* Moves the given axes (increasing) to the end; x itself if they are there. */
gd_tensor *gd__axes_last(gd_tensor *x, const int *axes, int count);
/* x with a name (NULL: none) on one axis. */
gd_tensor *gd__rename_axis(gd_tensor *x, const char *what, int axis, const char *name);
/* x without an axis of size 1. */
gd_tensor *gd__squeeze(gd_tensor *x, int axis);
/* x with the axis names and labels of like (same shape). */
gd_tensor *gd__relabel_like(gd_tensor *x, gd_tensor *like);
/* x with the axes of `from` by map, as gd__axes_map, recorded. */
gd_tensor *gd__relabel(gd_tensor *x, gd_tensor *from, const int *map);
gd_tensor *gd__scatter_add(gd_tensor *x, int axis, gd_tensor *index, gd_tensor *values);
gd_tensor *gd__gather(gd_tensor *x, int axis, gd_tensor *index);
gd_tensor *gd__cumsum(gd_tensor *x, int axis, bool reverse);
/* Sum over the axes whose bits are set. */
gd_tensor *gd__sum_axes(gd_tensor *x, unsigned mask, bool keep_dims);
gd_tensor *gd__tri(gd_tensor *x, int64_t diagonal, bool lower);
/* The pieces of x along its first axis, of size `count`, as views without names.  Gradient rules are asked to write their gradients
 * into one tensor with the strides of x. */
#define GD_MAX_SPLIT 64
gd_status gd__split(gd_tensor *x, int count, gd_tensor **piece);

/* ---- rows: operators that are one pass over memory ---- */

/* softmax(scale x) along the last axis, scale > 0.  causal: row i of each matrix, counted from its last one, sees no column
 * after i; there must be at least as many columns as rows. */
gd_tensor *gd__attention_softmax(gd_tensor *x, double scale, bool causal);
/* The gradient of softmax: scale y (g - sum g y); sizes are outer, reduced and inner; causal: the rows of a matrix where it
 * was, else 0. */
gd_tensor *gd__softmax_grad(gd_tensor *g, gd_tensor *y, const int64_t *sizes, double scale, int64_t causal);
/* softmax(x) times g, which has one number for each row of the softmax; and g - exp(y) sum g.  Shaped like x, and y. */
gd_tensor *gd__softmax_times(gd_tensor *x, gd_tensor *g, const int64_t *sizes);
gd_tensor *gd__log_softmax_grad(gd_tensor *g, gd_tensor *y, const int64_t *sizes);
/* (x - mean) / sqrt(variance + eps) over the last `count` axes, and its gradient. */
gd_tensor *gd__standardize(gd_tensor *x, int count, double eps);
gd_tensor *gd__standardize_grad(gd_tensor *g, gd_tensor *x, int count, double eps);
/* The same times weight plus bias, of the last `count` axes in one row; *stats gets mean and 1 / sqrt(variance + eps) of
 * every row, in the dtype of sums. */
gd_tensor *gd__layer_norm(gd_tensor *x, gd_tensor *weight, gd_tensor *bias, int count, double eps);
gd_tensor *gd__layer_norm_grad(gd_tensor *g, gd_tensor *x, gd_tensor *weight, gd_tensor *stats);
/* Gradients of weight and bias, [elements of a row]. */
gd_status gd__layer_norm_sums(gd_tensor *g, gd_tensor *x, gd_tensor *stats, gd_tensor *sums[2]);

#endif
