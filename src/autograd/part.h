/* Entries of a matrix of derivatives, d output / d t, without its zeros.
 *
 * The entries are those of `value`.  Along every axis of it the row (which element of the output, or which seed) moves by a
 * fixed stride, perhaps 0.  Its last axes are also the axes of t, each from `start` in steps of `step`:
 *
 *     value[i, j]   is   d output[row + i stride[0] + j stride[1]] / d t[start[0] + j step[0]]
 *
 * A function of single elements has a diagonal, value [n] with stride 1; the whole matrix has one axis more than t, in front,
 * with stride 1 there and 0 elsewhere.  No two entries of a part are of the same place.
 *
 * Functions change a part in place; new values are the scope's.  NOT_IMPLEMENTED, without an error: not in this form, and the
 * part is undefined; the whole matrix can always go through. */
#ifndef GD_AUTOGRAD_PART_H
#define GD_AUTOGRAD_PART_H

#include "tensor/tensor_internal.h"

typedef struct gd_part {
    gd_tensor *value;
    int ndim;                                      /* axes of t */
    int64_t row, stride[GD_MAX_DIMS];              /* by axis of value */
    int64_t start[GD_MAX_DIMS], step[GD_MAX_DIMS]; /* by axis of t */
} gd_part;

/* How many axes of value are none of t. */
static inline int gd__part_lead(const gd_part *p) { return p->value->ndim - p->ndim; }

/* d t / d t; value NULL if there is no memory. */
gd_part gd__part_identity(const gd_tensor *t);
/* The whole matrix, [rows, axes of t]. */
gd_part gd__part_whole(gd_tensor *value);
bool gd__part_is_whole(const gd_part *p, const gd_tensor *t, int64_t rows);
/* Axes of size 1 have stride 0 and step 1. */
void gd__part_tidy(gd_part *p);
/* The same places?  Of tidy parts. */
bool gd__part_alike(const gd_part *a, const gd_part *b);
/* matrix [rows, elements of t] += p, or = where nothing is there yet. */
GD_NODISCARD gd_status gd__part_write(const gd_part *p, const gd_tensor *t, gd_tensor *matrix, bool first);

/* x, with axes like t or broadcast to it, at the elements of t that p has. */
gd_tensor *gd__part_look(const gd_part *p, gd_tensor *x);

/* From t to what it was made of. */

/* t = x[start + i step] on one axis, which t may have left out. */
GD_NODISCARD gd_status gd__part_of_slice(gd_part *p, int axis, int64_t start, int64_t step, bool left_out);
/* x is at start + i step of t, i < count, on one axis. */
GD_NODISCARD gd_status gd__part_of_embed(gd_part *p, const gd_tensor *t, int axis, int64_t start,
                                         int64_t count, int64_t step);
/* Axis i of t is axis order[i] of x. */
GD_NODISCARD gd_status gd__part_of_permute(gd_part *p, const int64_t *order);
GD_NODISCARD gd_status gd__part_of_reshape(gd_part *p, const gd_tensor *t, const gd_tensor *x);
/* t = x broadcast. */
GD_NODISCARD gd_status gd__part_of_expand(gd_part *p, const gd_tensor *x);
/* t = x summed over its axes first .. last. */
GD_NODISCARD gd_status gd__part_of_sum(gd_part *p, const gd_tensor *x, int first, int last);
/* Matrices: t = x m^T with m [columns of t, columns of x], or t = m^T x with m [rows of t, rows of x].  NOT_IMPLEMENTED also
 * for more than `most` entries. */
GD_NODISCARD gd_status gd__part_of_right_product(gd_part *p, const gd_tensor *t, gd_tensor *m, int64_t most);
GD_NODISCARD gd_status gd__part_of_left_product(gd_part *p, const gd_tensor *t, gd_tensor *m, int64_t most);

#endif
