/* gradus/autograd.h: gradients of anything computed with the operators.
 *
 *     gd_tensor *x = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){3}));
 *     gd_tensor *loss = gd_sum(gd_square(x), NULL, false);
 *     gd_status status = gd_backward(loss, NULL, 0);
 *     gd_grad_of(x)                                         [2, 2, 2]
 *
 * Reverse mode over the graph that the operators record.  Every gradient rule is written with operators, so gradients
 * made with GD_CREATE_GRAPH can be differentiated again. */
#ifndef GRADUS_AUTOGRAD_H
#define GRADUS_AUTOGRAD_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Flags of gd_backward and gd_grad. */
enum {
    GD_RETAIN_GRAPH = 1, /* keep the graph for a second backward */
    GD_CREATE_GRAPH = 2, /* record the gradient computation itself (implies GD_RETAIN_GRAPH) */
    GD_ALLOW_UNUSED = 4  /* gd_grad: NULL instead of zeros for an input that the output does not depend on */
};

/* Requests gradients for a leaf (a tensor without history); returns it.  Floating dtypes only. */
gd_tensor *gd_require_grad(gd_tensor *t);
gd_status gd_set_requires_grad(gd_tensor *t, bool on);
bool gd_requires_grad(
    const gd_tensor *t); /* true for leaves that want gradients and for tensors that depend on them */
bool gd_is_leaf(const gd_tensor *t); /* it is no result of recorded operators */

/* The accumulated gradient of a leaf, or NULL; borrowed.  gd_set_grad takes a reference, or a copy in the order of t if
 * the names or labels of the gradient are in a different order.  The gradient may have a different floating dtype and any strides.
 * AXIS, LABEL, SHAPE, DEVICE if it does not fit. */
gd_tensor *gd_grad_of(const gd_tensor *t);
gd_status gd_set_grad(gd_tensor *t, gd_tensor *grad);
void gd_zero_grad(gd_tensor *t); /* forgets the gradient */
/* Sets an existing gradient to zero in its memory; without one nothing happens. */
GD_NODISCARD gd_status gd_zero_grad_in_place(gd_tensor *t);

/* Adds the gradient of `output` to .grad of every leaf it depends on.  seed NULL: output must have one element.  Seeds
 * here and vectors below meet their output or input by name and label, as operands of operators do. */
GD_NODISCARD gd_status gd_backward(gd_tensor *output, gd_tensor *seed, int flags);

/* The gradients of output (times seed) by inputs, new, in grads[0..count); inputs may be inner tensors. */
GD_NODISCARD gd_status gd_grad(gd_tensor *output, gd_tensor *seed, gd_tensor *const *inputs, int count,
                               int flags, gd_tensor **grads);

/* Between these two, operators record nothing. They nest. */
void gd_no_grad_begin(gd_ctx *ctx);
void gd_no_grad_end(gd_ctx *ctx);
bool gd_grad_enabled(const gd_ctx *ctx);
/* Between these two, operators record again even inside gd_no_grad. They nest with the pair above. */
int gd_enable_grad_begin(gd_ctx *ctx);
void gd_enable_grad_end(gd_ctx *ctx, int previous);

/* A function of several tensors that returns one; `user` is passed through.  New result. */
typedef gd_tensor *(*gd_function)(void *user, gd_tensor *const *inputs, int count);

/* H v of a scalar function at inputs, one product per input (reverse over reverse).  New. */
GD_NODISCARD gd_status gd_hvp(gd_function fn, void *user, gd_tensor *const *inputs, int count,
                              gd_tensor *const *v, gd_tensor **out);
/* J v for a function with any output (double reverse).  New. */
gd_tensor *gd_jvp(gd_function fn, void *user, gd_tensor *const *inputs, int count, gd_tensor *const *v);
/* d output / d inputs[k] as [output axes..., input axes...].  New. */
GD_NODISCARD gd_status gd_jacobian(gd_function fn, void *user, gd_tensor *const *inputs, int count,
                                   gd_tensor **out);
/* The same of a tensor that is recorded, by leaves or inner tensors that it depends on; its graph stays. */
GD_NODISCARD gd_status gd_jacobian_of(gd_tensor *output, gd_tensor *const *inputs, int count,
                                      gd_tensor **out);
/* The Hessian of a scalar function of all inputs, flattened and concatenated: [n, n].  New. */
gd_tensor *gd_hessian(gd_function fn, void *user, gd_tensor *const *inputs, int count);

/* The gradient of a value that gd_custom made: given that of the value, it sets grads[k] for each input that needs one, new and shaped
 * like the input; NULL: zeros.  Made of operators it can be differentiated again.  It keeps what it reads in `user`. */
typedef gd_status (*gd_custom_gradient)(void *user, gd_tensor *grad, const bool *need, gd_tensor **grads);

/* The value, computed in any way, as a function of inputs whose gradient is the caller's: what another program computes, a gradient
 * that is clipped or estimated, a part that is computed again instead of kept.  `destroy` (may be NULL) ends `user` with the graph, at
 * once if nothing is recorded, also on failure.  Where the inputs need no gradients it is the value.  New.  ARGUMENT, DTYPE. */
gd_tensor *gd_custom(gd_tensor *value, gd_tensor *const *inputs, int count, gd_custom_gradient gradient,
                     void *user, void (*destroy)(void *user));

/* The leaves that want gradients and that t depends on, at most `most` of them in leaves, borrowed, each once.  Returns how many there
 * are; beyond `most` a leaf counts as often as it is used.  -1 with the error recorded: no memory, or the graph was freed. */
int gd_leaves(gd_tensor *t, gd_tensor **leaves, int most);

/* Compares analytic with central-difference gradients at f64 inputs.  On disagreement: MISMATCH with text that names
 * the input, the element and both numbers.  order 2 also checks the gradient of the gradient. */
typedef struct gd_gradcheck_options {
    double eps, atol, rtol;
    int order;
} gd_gradcheck_options;
gd_gradcheck_options gd_gradcheck_defaults(void);
GD_NODISCARD gd_status gd_gradcheck(gd_function fn, void *user, gd_tensor *const *inputs, int count,
                                    const gd_gradcheck_options *options);

#ifdef __cplusplus
}
#endif
#endif
