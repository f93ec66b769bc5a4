/* Lists of tensors as one vector: what methods that work on all parameters together share. */
#ifndef GD_LINKS_VECTORS_H
#define GD_LINKS_VECTORS_H

#include "gradus/link.h"

/* All elements of a list as one nameless vector: f64 where one of them is, else f32.  New. */
gd_tensor *gd__vector_of(gd_ctx *ctx, gd_tensor *const *list, int count);
/* The same in memory of its own, of any dtype.  New. */
gd_tensor *gd__vector_copy(gd_ctx *ctx, gd_tensor *const *list, int count, gd_dtype dtype);
/* The pieces of a vector with shapes, dtypes and names of `like`, in out[0..count).  New. */
gd_status gd__vector_split(gd_tensor *vector, gd_tensor *const *like, int count, gd_tensor **out);
/* The update of a var becomes a vector cut into pieces. */
gd_status gd__set_update_vector(gd_link *link, gd_var *var, gd_tensor *vector);
/* The update, after the link's `inner` chain where it has one, as a vector.  New; NULL on failure. */
gd_tensor *gd__inner_update_vector(gd_link *link, gd_var *var);
/* An update of zeros: the parameters stay. */
gd_status gd__set_zero_update(gd_link *link, gd_var *var);

double gd__vector_dot(gd_tensor *a, gd_tensor *b); /* NAN on failure */
double gd__vector_norm(gd_tensor *a);
bool gd__vector_finite(gd_tensor *a);
/* a + alpha * b, new. */
gd_tensor *gd__vector_sum(gd_tensor *a, double alpha, gd_tensor *b);
/* Distance from 1 to the next number of the dtype. */
double gd__vector_eps(const gd_tensor *a);

/* The largest element as a tensor without axes; 0 where there are no elements.  NULL for NULL. */
gd_tensor *gd__vector_most(gd_tensor *x);

#endif
