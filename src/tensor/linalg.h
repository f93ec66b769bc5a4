/* Common code of linear algebra, contractions and network operators. */
#ifndef GD_TENSOR_LINALG_H
#define GD_TENSOR_LINALG_H

#include "tensor/tensor_internal.h"

/* The source of an axis of a result; `from` NULL: an anonymous axis. */
typedef struct gd_axis_source {
    gd_tensor *from;
    int axis;
} gd_axis_source;

/* x, which has no names, with names and labels from the sources, one per axis; a repeated name becomes anonymous, labels
 * of a different size are dropped. x itself if there is nothing to add. */
gd_tensor *gd__with_axes(gd_tensor *x, const gd_axis_source *source);

/* b with the elements of axis j in the order of a's axis i where both are labelled and do not have different names. */
gd_tensor *gd__match_labels(const char *what, gd_tensor *a, int i, gd_tensor *b, int j);

/* Both of the same dtype, with arithmetic. */
bool gd__can_multiply(const char *what, const gd_tensor *a, const gd_tensor *b);

/* The operator itself: nameless [..., m, k] and [..., k, n] with equal batch sizes. */
gd_tensor *gd__product(gd_tensor *a, gd_tensor *b);
/* The same written to `out`, a view or new, which is returned (released on failure; NULL: NULL). */
/* c += alpha a b in place, without memory of its size: matrices of one dtype, f32 or f64, c contiguous and without recording for
 * gradients. */
gd_status gd__add_product(gd_tensor *c, gd_tensor *a, gd_tensor *b, double alpha);
gd_tensor *gd__product_into(gd_tensor *out, gd_tensor *a, gd_tensor *b);
/* x w^T + b in one operator: x [..., in], w [out, in], b [out], of one dtype and without names. */
gd_tensor *gd__linear(gd_tensor *x, gd_tensor *w, gd_tensor *b);
/* Its gradients for g [rows, out]: of x [rows, in], w and b, together, because a device may compute them in parallel. */
gd_status gd__linear_grad(gd_tensor *g, gd_tensor *x, gd_tensor *w, gd_tensor *grad[3]);

/* Windows of images, see cpu/windows.c. */
typedef struct gd_windows {
    int64_t tall, wide, stride, padding, height, width;
    bool together;       /* [batch, channel, window, place] instead of [channel, place, batch, window] */
    int64_t more_stride; /* along the width, added to `stride` */
    int64_t apart[2];    /* pixels that the places of a window skip, along height and width */
} gd_windows;

/* Of neighbouring pixels, with one stride. */
static inline gd_windows gd__windows(int64_t tall, int64_t wide, int64_t stride, int64_t padding,
                                     const gd_tensor *image, bool together)
{
    return (gd_windows){.tall = tall,
                        .wide = wide,
                        .stride = stride,
                        .padding = padding,
                        .height = image ? image->size[2] : 0,
                        .width = image ? image->size[3] : 0,
                        .together = together};
}

gd_tensor *gd__unfold2d(gd_tensor *image, const gd_windows *w, double fill);
gd_tensor *gd__fold2d(gd_tensor *columns, const gd_windows *w);

/* Convolutions of images without names, and their gradients by image and weight; bias NULL: zeros.  For devices with these operators. */
typedef struct gd_convolution {
    int64_t stride, padding;
} gd_convolution;

gd_tensor *gd__conv2d(gd_tensor *x, gd_tensor *w, gd_tensor *bias, const gd_convolution *c);
gd_tensor *gd__conv2d_image(gd_tensor *g, gd_tensor *w, const gd_convolution *c, int64_t height,
                            int64_t width);
gd_tensor *gd__conv2d_weight(gd_tensor *g, gd_tensor *x, const gd_convolution *c, int64_t tall, int64_t wide);

/* Poolings over square windows. */
typedef struct gd_pool {
    int64_t size, stride, padding;
} gd_pool;

gd_tensor *gd__avg_pool2d(gd_tensor *x, const gd_pool *p);
gd_tensor *gd__avg_pool2d_grad(gd_tensor *g, const gd_pool *p, const int64_t size[4]);
gd_tensor *gd__max_pool2d_grad(gd_tensor *g, gd_tensor *x, const gd_pool *p);

/* gd_cholesky for matrices that are symmetric to the last bit, without names. */
gd_tensor *gd__cholesky(gd_tensor *a);

#endif
