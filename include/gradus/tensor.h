/* gradus/tensor.h: labelled tensors and their operators.
 *
 *     gd_scope_begin(ctx);
 *     gd_tensor *x = gd_randn(ctx, GD_F64, 2, (int64_t[]){32, 4});
 *     x = gd_rename(x, "batch, feature");
 *     gd_tensor *mean = gd_mean(x, "batch", false);        one axis left: feature
 *     gd_tensor *centred = gd_sub(x, mean);                 named axes meet by name
 *     gd_scope_end(ctx);                                    frees all of it
 *
 * A failed operator returns NULL and records the error in the context; every operator takes NULL and returns NULL, so a
 * whole expression is checked once at its end.  All results are *new* (owned by the innermost scope, or by you).
 * Axes are chosen by text: a name "batch", a number "0" or "-1", several "h, w"; NULL or "" means all axes. */
#ifndef GRADUS_TENSOR_H
#define GRADUS_TENSOR_H

#include "gradus/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GD_MAX_DIMS 8 /* axes that a tensor may have */

/* Every dtype: name, bytes, kind ('f' floating, 'i' integer, 'b' bool), safetensors name, NumPy descr. */
#define GD_DTYPE_LIST(X)              \
    X(F32, f32, 4, 'f', "F32", "<f4") \
    X(F64, f64, 8, 'f', "F64", "<f8") \
    X(F16, f16, 2, 'f', "F16", "<f2") \
    X(BF16, bf16, 2, 'f', "BF16", "") \
    X(I32, i32, 4, 'i', "I32", "<i4") \
    X(I64, i64, 8, 'i', "I64", "<i8") \
    X(U8, u8, 1, 'i', "U8", "|u1")    \
    X(BOOL, bool, 1, 'b', "BOOL", "|b1")

/* The type of an element. */
typedef enum gd_dtype {
#define GD_DTYPE_ENUM(NAME, name, bytes, kind, st, np) GD_##NAME,
    GD_DTYPE_LIST(GD_DTYPE_ENUM)
#undef GD_DTYPE_ENUM
        GD_DTYPE_COUNT
} gd_dtype;

const char *gd_dtype_name(gd_dtype dtype); /* "f32"; borrowed, static */
size_t gd_dtype_size(gd_dtype dtype);      /* bytes per element */
bool gd_dtype_is_float(gd_dtype dtype);    /* floating types have gradients */
/* GD_DTYPE_COUNT for an unknown name. */
gd_dtype gd_dtype_from_name(const char *name);

typedef struct gd_tensor gd_tensor; /* an array with names and labels for its axes; a counted reference */
typedef struct gd_device gd_device; /* the memory and processor of tensors; belongs to the context */

/* ---- devices ---- */

/* The device of a text: "cpu", "gpu", "gpu:1".  Borrowed; NULL with DEVICE recorded if there is none. */
gd_device *gd_device_get(gd_ctx *ctx, const char *name);
const char *gd_device_name(const gd_device *device); /* "cpu", "gpu:0"; borrowed */
gd_device *gd_tensor_device(const gd_tensor *t);     /* the device of t; borrowed */
/* The number of GPUs (0 without the plugin or a driver; records no error). */
int gd_gpu_count(gd_ctx *ctx);
/* A description of a GPU: "NVIDIA H200, compute capability 9.0, 139 GiB".  False if there is no GPU of that number.  Does
 * not open it. */
bool gd_gpu_describe(gd_ctx *ctx, int index, char *text, size_t size);
/* The number of operations that the host computed for a device, on copies, because its plugin lacks an operator or cannot
 * run fused programs.  0 on the CPU and on NVIDIA GPUs. */
int64_t gd_device_host_calls(const gd_device *device);
/* Waits until all queued work of the device is done. */
gd_status gd_device_sync(gd_device *device);
/* The device queues its work on a stream of the caller from now on: on a GPU a cudaStream_t or CUstream of its primary context (NULL:
 * CUDA's default stream).  New work runs after what both streams have queued so far; the host does not wait.  The stream stays the
 * caller's and must live until a different one is set or the context is freed.  Setting the same stream again costs nothing.
 * DEVICE: a device without streams, such as the CPU. */
GD_NODISCARD gd_status gd_device_use_stream(gd_device *device, void *stream);
/* The stream that is in use, at first the device's own.  Borrowed; NULL without streams. */
void *gd_device_stream(const gd_device *device);

/* ---- references ---- */

gd_tensor *gd_retain(gd_tensor *t); /* one more reference; returns t */
void gd_release(gd_tensor *t);      /* one reference less; NULL is fine; allowed inside a scope */
gd_tensor *gd_keep(gd_tensor *t);   /* moves t one scope out; returns t */

/* ---- looking at a tensor ---- */

gd_ctx *gd_tensor_ctx(const gd_tensor *t);    /* the context it was made in; borrowed */
gd_dtype gd_tensor_dtype(const gd_tensor *t); /* GD_DTYPE_COUNT for NULL */
int gd_ndim(const gd_tensor *t);              /* number of axes */
int64_t gd_size(const gd_tensor *t,
                int axis); /* negative axes count from the end; -1 if there is no such axis */
const int64_t *gd_shape(const gd_tensor *t);   /* borrowed */
const int64_t *gd_strides(const gd_tensor *t); /* borrowed; in elements */
int64_t gd_numel(const gd_tensor *t);          /* number of elements */
bool gd_is_contiguous(const gd_tensor *t);     /* are its elements in row-major order without gaps? */
const char *gd_axis_name(const gd_tensor *t, int axis);                 /* NULL: anonymous; borrowed */
const char *gd_axis_label(const gd_tensor *t, int axis, int64_t index); /* NULL: no labels; borrowed */
int gd_axis_find(const gd_tensor *t, const char *name);                 /* -1 if there is none */
int64_t gd_axis_index(const gd_tensor *t, int axis, const char *label); /* -1 if there is none */

/* The elements of a CPU tensor, borrowed; NULL (error recorded) for one on another device.  gd_data_mut counts as a
 * change of the tensor: a gradient that needs the old values then reports it. */
const void *gd_data(const gd_tensor *t);
void *gd_data_mut(gd_tensor *t);
/* True if t shares its elements: a second reference, a view, or a tensor that it is a view of.  The graph does not count where t is a
 * result. */
bool gd_is_shared(const gd_tensor *t);

/* One element as a number, whatever dtype and device; NaN with an error recorded if the index is out of range. */
double gd_item(const gd_tensor *t);
double gd_at(const gd_tensor *t, const int64_t *index);

/* Copies all elements, in row-major order, converted to f64 / to the tensor's dtype. */
GD_NODISCARD gd_status gd_read_f64(const gd_tensor *t, double *out, int64_t count);
GD_NODISCARD gd_status gd_read(const gd_tensor *t, void *out, size_t bytes);

/* Writes a readable form into `out` as snprintf does; returns the length it would need. */
int gd_format(const gd_tensor *t, char *out, size_t size);

/* ---- changing a tensor in place (never recorded in a graph; counts as a change) ---- */

GD_NODISCARD gd_status gd_assign(
    gd_tensor *dst, const gd_tensor *src); /* broadcasts and casts src into dst; axes meet by place with names
                                                           equal or absent, labels by label: else AXIS, LABEL */
GD_NODISCARD gd_status gd_fill(gd_tensor *dst, double value); /* every element becomes the value */
GD_NODISCARD gd_status gd_add_into(gd_tensor *dst, const gd_tensor *src,
                                   double alpha); /* dst += alpha * src */
/* Row-major elements, converted to its dtype. */
GD_NODISCARD gd_status gd_write_f64(gd_tensor *dst, const double *values, int64_t count);

/* ---- making tensors ---- */

/* Uninitialised elements. */
gd_tensor *gd_empty(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape);
/* The same on a device. */
gd_tensor *gd_empty_on(gd_device *device, gd_dtype dtype, int ndim, const int64_t *shape);
gd_tensor *gd_zeros(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape); /* every element 0 */
gd_tensor *gd_ones(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape);  /* every element 1 */
/* Every element has the value. */
gd_tensor *gd_full(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape, double value);
gd_tensor *gd_zeros_like(const gd_tensor *t); /* 0 with the shape, names, labels, dtype and device of t */
gd_tensor *gd_ones_like(const gd_tensor *t);  /* 1 with the shape, names, labels, dtype and device of t */
gd_tensor *gd_full_like(const gd_tensor *t, double value);       /* the value, like t */
gd_tensor *gd_scalar(gd_ctx *ctx, gd_dtype dtype, double value); /* one number without axes */
/* Start, start + step, ... before stop. */
gd_tensor *gd_arange(gd_ctx *ctx, gd_dtype dtype, double start, double stop, double step);
/* `count` equally spaced numbers, both ends included. */
gd_tensor *gd_linspace(gd_ctx *ctx, gd_dtype dtype, double first, double last, int64_t count);
gd_tensor *gd_eye(gd_ctx *ctx, gd_dtype dtype, int64_t rows, int64_t columns); /* 1 on the diagonal, else 0 */
/* Copies row-major elements of that dtype. */
gd_tensor *gd_from_data(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape, const void *data);
gd_tensor *gd_from_f64(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape, const double *data);

/* Random tensors from the context's counter-based generator: the same numbers for any thread count and device. */
void gd_seed(gd_ctx *ctx, uint64_t seed); /* restarts the generator */
typedef enum gd_random_kind {
    GD_RANDOM_UNIFORM, /* in [0, 1) */
    GD_RANDOM_NORMAL,  /* standard normal */
    GD_RANDOM_SIGN     /* -1 or 1, equally likely */
} gd_random_kind;
gd_tensor *gd_rand(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape);  /* uniform in [0, 1) */
gd_tensor *gd_randn(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape); /* standard normal */
/* -1 or 1, equally likely. */
gd_tensor *gd_rademacher(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape);
gd_tensor *gd_permutation(gd_ctx *ctx, int64_t count); /* 0 to count - 1 in a random order; i64 */

gd_tensor *gd_cast(gd_tensor *t, gd_dtype dtype); /* a view of t if it has that dtype */
gd_tensor *gd_copy(gd_tensor *t);                 /* contiguous, own storage; gradients flow through */
gd_tensor *gd_contiguous(gd_tensor *t);           /* a view of t if it is contiguous */
/* A copy on the device, or a view of t if it is there already; gradients flow through. */
gd_tensor *gd_to_device(gd_tensor *t, gd_device *device);
gd_tensor *gd_detach(gd_tensor *t); /* the same storage without its history */

/* ---- element-wise ----
 *
 * How axes meet.  If one operand has no names: by position from the right as in NumPy; the result has the names and labels of the
 * other, and extra axes are anonymous and in front.  If both have names: equal names meet at any position, anonymous axes meet
 * anonymous ones from the right, and a name that one side lacks is an axis of the result; an anonymous axis without partner beside
 * a name without partner is an error (AXIS) that names both.  An axis of size 1 is broadcast.  The same labels in a different order
 * are permuted; different labels (LABEL), or one name with two sizes (SHAPE), are an error.  Of three operands those with names meet
 * first, from left to right; so gd_add(gd_add(a, b), c) and gd_add(a, gd_add(b, c)) may differ if b has no names.
 * A gradient has the axes of its tensor. */

/* clang-format off */
/* Operators of one and of two operands: prototypes, tests and the Python package come from these lists.  Those of real numbers
 * are available in rules of links too (gradus/link/rule.h). */
#define GD_UNARY_REALS(X)                                                                                \
    X(neg)                                                                                               \
    X(abs)                                                                                               \
    X(sign)                                                                                              \
    X(sqrt) X(rsqrt) X(exp) X(expm1) X(log) X(log1p) X(log2) X(log10) X(sin) X(cos) X(tan) X(asin)       \
        X(acos) X(atan) X(sinh) X(cosh) X(tanh) X(sigmoid) X(softplus) X(relu) X(gelu) X(erf) X(erfc)    \
            X(lgamma) X(square) X(reciprocal) X(floor) X(ceil) X(round) X(isfinite) X(logical_not)       \
                X(asinh) X(acosh) X(atanh) X(trunc) X(isnan) X(isinf) X(signbit)
#define GD_UNARY_LIST(X) GD_UNARY_REALS(X) X(bit_not)
#define GD_BINARY_REALS(X)                                                                               \
    X(add)                                                                                               \
    X(sub)                                                                                               \
    X(mul)                                                                                               \
    X(div) X(pow) X(atan2) X(mod) X(minimum) X(maximum) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(logical_and) \
        X(logical_or) X(logical_xor) X(floor_div) X(hypot) X(logaddexp) X(copysign) X(nextafter)
#define GD_BINARY_LIST(X) GD_BINARY_REALS(X) X(bit_and) X(bit_or) X(bit_xor) X(shift_left) X(shift_right)
/* clang-format on */

/* One operand, element by element.
 *   neg          -x
 *   abs          |x|
 *   sign         -1, 0 or 1
 *   sqrt         x^(1/2)
 *   rsqrt        x^(-1/2)
 *   exp          e^x
 *   expm1        e^x - 1
 *   log          ln x
 *   log1p        ln(1 + x)
 *   log2         ln x / ln 2
 *   log10        ln x / ln 10
 *   sin          sin x
 *   cos          cos x
 *   tan          tan x
 *   asin         arcsin x
 *   acos         arccos x
 *   atan         arctan x
 *   sinh         (e^x - e^-x) / 2
 *   cosh         (e^x + e^-x) / 2
 *   tanh         sinh x / cosh x
 *   sigmoid      1 / (1 + e^-x)
 *   softplus     ln(1 + e^x)
 *   relu         max(x, 0)
 *   gelu         x (1 + erf(x / sqrt 2)) / 2
 *   erf          2 / sqrt(pi) int_0^x e^(-t^2) dt
 *   erfc         1 - erf x
 *   lgamma       ln |Gamma(x)|
 *   square       x^2
 *   reciprocal   1 / x
 *   floor        the whole number below
 *   ceil         the whole number above
 *   round        the nearest whole number, halves to even
 *   isfinite     is it neither infinite nor NaN?
 *   logical_not  x == 0
 *   asinh        arsinh x = ln(x + sqrt(x^2 + 1))
 *   acosh        arcosh x = ln(x + sqrt(x^2 - 1))
 *   atanh        artanh x = ln((1 + x) / (1 - x)) / 2
 *   trunc        the whole number towards 0
 *   isnan        is it NaN?
 *   isinf        is it infinite?
 *   signbit      is its sign minus? Of -0, too
 *   bit_not      every bit of an integer inverted; of a bool its opposite */
#define GD_UNARY_PROTOTYPE(name) gd_tensor *gd_##name(gd_tensor *x);
GD_UNARY_LIST(GD_UNARY_PROTOTYPE)
#undef GD_UNARY_PROTOTYPE

/* Two operands, element by element.  Different dtypes are promoted: to the wider of two floats or two integers, to the float if
 * one is an integer or bool, to f32 for f16 and bf16.  This holds for products, gd_where, gd_cat and gd_stack too.  Each gradient has
 * the dtype of its operand.
 *   add          a + b
 *   sub          a - b
 *   mul          a b
 *   div          a / b, of integers in f64
 *   pow          a^b; of integers the whole part where b is below 0
 *   atan2        the angle of (b, a)
 *   mod          a - b floor(a / b); of integers 0 where b is 0
 *   minimum      min(a, b)
 *   maximum      max(a, b)
 *   eq           a == b
 *   ne           a != b
 *   lt           a < b
 *   le           a <= b
 *   gt           a > b
 *   ge           a >= b
 *   logical_and  a != 0 and b != 0
 *   logical_or   a != 0 or b != 0
 *   logical_xor  (a != 0) != (b != 0)
 *   floor_div    floor(a / b); of integers 0 where b is 0, and the smallest integer divided by -1 is itself
 *   hypot        sqrt(a^2 + b^2), without overflow
 *   logaddexp    ln(e^a + e^b), without overflow
 *   copysign     |a| with the sign of b, + where b is NaN
 *   nextafter    the number of its dtype next to a in the direction of b
 *   bit_and      the bits that both integers have; of bools: both
 *   bit_or       the bits that one of them has; of bools: one of them
 *   bit_xor      the bits that only one of them has; of bools: only one
 *   shift_left   the bits of a, b places up; 0 where b is below 0 or beyond all bits
 *   shift_right  the bits of a, b places down; the sign alone where b is below 0 or beyond all bits */
#define GD_BINARY_PROTOTYPE(name) gd_tensor *gd_##name(gd_tensor *a, gd_tensor *b);
GD_BINARY_LIST(GD_BINARY_PROTOTYPE)
#undef GD_BINARY_PROTOTYPE

gd_tensor *gd_add_scalar(gd_tensor *x, double value);    /* x + value */
gd_tensor *gd_mul_scalar(gd_tensor *x, double value);    /* x value */
gd_tensor *gd_pow_scalar(gd_tensor *x, double exponent); /* x^exponent */
/* The derivative of order `order` (0 to 20) of the digamma function, which is the slope of lgamma. */
gd_tensor *gd_polygamma(gd_tensor *x, int order);
/* Bessel function of the first kind of a whole order, -1000 to 1000. */
gd_tensor *gd_bessel_j(gd_tensor *x, int order);
gd_tensor *gd_clamp(gd_tensor *x, double low,
                    double high); /* min(max(x, low), high); infinities for no bound */
/* Takes a where the condition is not 0, else b. */
gd_tensor *gd_where(gd_tensor *condition, gd_tensor *a, gd_tensor *b);
gd_tensor *gd_fma(gd_tensor *a, gd_tensor *b, gd_tensor *c);       /* a * b + c, rounded once */
gd_tensor *gd_lerp(gd_tensor *a, gd_tensor *b, gd_tensor *weight); /* a + weight * (b - a) */

/* ---- reductions over axes; with keep_dims a reduced axis stays with size 1 ---- */

gd_tensor *gd_sum(gd_tensor *x, const char *axes, bool keep_dims);    /* sum_i x_i */
gd_tensor *gd_mean(gd_tensor *x, const char *axes, bool keep_dims);   /* sum_i x_i / n; of integers in f64 */
gd_tensor *gd_prod(gd_tensor *x, const char *axes, bool keep_dims);   /* prod_i x_i */
gd_tensor *gd_max(gd_tensor *x, const char *axes, bool keep_dims);    /* the largest; NaN wins */
gd_tensor *gd_min(gd_tensor *x, const char *axes, bool keep_dims);    /* the smallest; NaN wins */
gd_tensor *gd_argmax(gd_tensor *x, const char *axis, bool keep_dims); /* the first i of max_i x_i; NaN wins */
gd_tensor *gd_argmin(gd_tensor *x, const char *axis, bool keep_dims); /* the first i of min_i x_i; NaN wins */
/* The order in which the elements along an axis rise, or fall: i64 places.  Equal ones stay in their order; NaN is the largest. */
gd_tensor *gd_argsort(gd_tensor *x, const char *axis, bool descending);
gd_tensor *gd_sort(gd_tensor *x, const char *axis,
                   bool descending); /* the elements in that order; the axis has no labels */
gd_tensor *gd_any(gd_tensor *x, const char *axes, bool keep_dims); /* bool: is one of them not 0? */
gd_tensor *gd_all(gd_tensor *x, const char *axes, bool keep_dims); /* bool: is none of them 0? */
gd_tensor *gd_norm(gd_tensor *x, double p, const char *axes,
                   bool keep_dims); /* (sum_i |x_i|^p)^(1/p); p > 0 or INFINITY */
/* The variance: sum_i (x_i - mean)^2 / (n - correction). */
gd_tensor *gd_variance(gd_tensor *x, const char *axes, int correction, bool keep_dims);
/* The logarithm of a sum, ln sum_i e^x_i, without overflow. */
gd_tensor *gd_logsumexp(gd_tensor *x, const char *axes, bool keep_dims);
gd_tensor *gd_softmax(gd_tensor *x, const char *axis);     /* e^x_i / sum_j e^x_j */
gd_tensor *gd_log_softmax(gd_tensor *x, const char *axis); /* x_i - ln sum_j e^x_j */
gd_tensor *gd_cumsum(gd_tensor *x, const char *axis);      /* sum_(j <= i) x_j */

/* ---- shape: views where possible, never a change of values ---- */

gd_tensor *gd_reshape(gd_tensor *x, int ndim,
                      const int64_t *shape);           /* one size may be -1; drops axis names */
gd_tensor *gd_permute(gd_tensor *x, const int *order); /* axis order[i] of x becomes axis i */
gd_tensor *gd_transpose(gd_tensor *x, int a, int b);   /* swaps two axes */
gd_tensor *gd_squeeze(gd_tensor *x, const char *axes); /* without axes of size 1; NULL: all of those */
/* An axis of size 1 at that position. */
gd_tensor *gd_unsqueeze(gd_tensor *x, int position, const char *name);
/* Repeats axes of size 1, without copies. */
gd_tensor *gd_expand(gd_tensor *x, int ndim, const int64_t *shape);
gd_tensor *gd_slice(gd_tensor *x, const char *axis, int64_t start, int64_t stop,
                    int64_t step);                                            /* as in Python */
gd_tensor *gd_index(gd_tensor *x, const char *axis, int64_t index);           /* x_i; drops the axis */
gd_tensor *gd_index_select(gd_tensor *x, const char *axis, gd_tensor *index); /* x_i, i in a 1-D index */
/* The element of that label; drops the axis. */
gd_tensor *gd_index_label(gd_tensor *x, const char *axis, const char *label);
/* Picks along the axis: out[.., i, ..] = x[.., index[.., i, ..], ..]. */
gd_tensor *gd_gather(gd_tensor *x, const char *axis, gd_tensor *index);
/* A copy of x with the values added at index; values for the same element add up. */
gd_tensor *gd_scatter_add(gd_tensor *x, const char *axis, gd_tensor *index, gd_tensor *values);

/* One part of a NumPy index expression. */
typedef enum gd_key_kind {
    GD_KEY_NUMBER, /* the element at `start`, negative from the end; drops the axis */
    GD_KEY_SLICE,  /* start:stop:step as in Python; INT64_MIN and INT64_MAX for omitted ends */
    GD_KEY_NEW,    /* a new axis of size 1 */
    GD_KEY_REST,   /* all axes that no other part selects; at most once */
    GD_KEY_INDEX   /* integers, negative from the end, or a mask of bool over as many axes as it has */
} gd_key_kind;
typedef struct gd_key {
    gd_key_kind kind;
    int64_t start, stop, step;
    gd_tensor *index; /* borrowed */
} gd_key;

/* Elements by an index expression: x[key[0], key[1], ...] of NumPy.  Integers broadcast together; a mask selects the positions
 * where it is true.  The axes of the integers replace the integers and numbers if those are adjacent in the key, else they are in front.
 * A slice keeps its axis' name and labels; an axis of one 1-D index without names too, with the labels that it picks; names and
 * labels of other indices name their axes.  Numbers and slices alone give a view.  INDEX: an index is out of range, or a mask of
 * another size. */
gd_tensor *gd_get(gd_tensor *x, const gd_key *key, int count);
/* A copy of x with x[key[0], key[1], ...] = values, which are cast and broadcast.  Of two values for one element the last
 * counts. */
gd_tensor *gd_put(gd_tensor *x, const gd_key *key, int count, gd_tensor *values);
/* The same in place; never recorded. */
GD_NODISCARD gd_status gd_put_into(gd_tensor *dst, const gd_key *key, int count, const gd_tensor *values);

/* Joins along an existing axis; axes meet by position, with names that are equal or absent. */
gd_tensor *gd_cat(gd_tensor *const *pieces, int count, const char *axis);
/* Joins along a new axis at that position; the other axes meet as in gd_cat. */
gd_tensor *gd_stack(gd_tensor *const *pieces, int count, int position, const char *name);
/* Cuts into pieces of `size` (the last may be smaller) and stores them in out, which has room for `capacity`. */
GD_NODISCARD gd_status gd_split(gd_tensor *x, const char *axis, int64_t size, gd_tensor **out, int capacity);
gd_tensor *gd_flip(gd_tensor *x, const char *axes); /* reverses the order along axes */
/* Adds `before` and `after` elements of that value to each axis. */
gd_tensor *gd_pad(gd_tensor *x, const int64_t *before, const int64_t *after, double value);

/* Axis names: one for each axis from the left, "_" for an anonymous one: gd_rename(x, "batch, _, feature"). */
gd_tensor *gd_rename(gd_tensor *x, const char *names);
gd_tensor *gd_rename_axis(gd_tensor *x, const char *axis, const char *name); /* renames one axis */
gd_tensor *gd_drop_names(gd_tensor *x); /* all axes anonymous, no labels */
/* One label for each element of the axis, copied. */
gd_tensor *gd_with_labels(gd_tensor *x, const char *axis, const char *const *labels);
/* The axes of x in the order, and labels in the order, of `like`; missing axes appear with size 1. */
gd_tensor *gd_align(gd_tensor *x, gd_tensor *like);

/* ---- linear algebra; matrices are the last two axes, the others are batches ---- */

gd_tensor *gd_matmul(gd_tensor *a, gd_tensor *b); /* as NumPy's @, batches broadcast */
/* beta c + alpha a b: one BLAS call if c has the shape of a b, no operand has names and all have one dtype; otherwise separate
 * operators. */
gd_tensor *gd_addmm(gd_tensor *c, gd_tensor *a, gd_tensor *b, double beta, double alpha);
/* a b, faster and less accurate: on devices with fast bf16 products, large f32 products are sums of three products of bf16
 * parts, summed in f32; the error is up to about 2^-15 of |a| |b| instead of 2^-22.  Elsewhere as gd_matmul.  Gradients are plain
 * products. */
gd_tensor *gd_matmul_fast(gd_tensor *a, gd_tensor *b);
gd_tensor *gd_contract(gd_tensor *a, gd_tensor *b, const char *axes); /* sums products over named axes */
/* "ij,jk->ik" with one letter an axis, or "batch i j, batch j k -> batch i k" with names. */
gd_tensor *gd_einsum(const char *spec, gd_tensor *const *operands, int count);
gd_tensor *gd_dot(gd_tensor *a, gd_tensor *b);                            /* sum_i a_i b_i of two vectors */
gd_tensor *gd_outer(gd_tensor *a, gd_tensor *b);                          /* a_i b_j */
gd_tensor *gd_cholesky(gd_tensor *a);                                     /* lower l with a = l l^T */
GD_NODISCARD gd_status gd_qr(gd_tensor *a, gd_tensor **q, gd_tensor **r); /* a = q r, reduced */
GD_NODISCARD gd_status gd_eigh(gd_tensor *a, gd_tensor **values, gd_tensor **vectors); /* a v = v w, rising */
GD_NODISCARD gd_status gd_svd(gd_tensor *a, gd_tensor **u, gd_tensor **s,
                              gd_tensor **vt);   /* a = u diag(s) vt, reduced; s descending */
gd_tensor *gd_solve(gd_tensor *a, gd_tensor *b); /* x with a x = b */
/* The x with a x = b for a triangular a, or its transpose; unit: with 1 on its diagonal. */
gd_tensor *gd_triangular_solve(gd_tensor *a, gd_tensor *b, bool lower, bool transpose, bool unit);
gd_tensor *gd_inverse(gd_tensor *a);                /* a^-1 */
gd_tensor *gd_logdet(gd_tensor *a);                 /* log |det a| */
gd_tensor *gd_tril(gd_tensor *a, int64_t diagonal); /* 0 above that diagonal */
gd_tensor *gd_triu(gd_tensor *a, int64_t diagonal); /* 0 below that diagonal */
gd_tensor *gd_diagonal(gd_tensor *a);               /* its elements, as a vector */

/* ---- networks; images are [batch, channel, height, width], a bias may be NULL ---- */

gd_tensor *gd_conv2d(gd_tensor *x, gd_tensor *weight, gd_tensor *bias, int stride,
                     int padding); /* sum weight x + bias a window */

/* Start from gd_conv_defaults(). */
typedef struct gd_conv_options {
    int stride[2],
        dilation[2]; /* along height and width; pixels from one place of a window to the next; default 1 */
    int padding[4];  /* zeros above, below, on the left and right; default 0 */
    int groups;      /* channels and outputs in so many parts, each outputs of its channels only; default 1 */
} gd_conv_options;

gd_conv_options gd_conv_defaults(void); /* as the comments above say */
/* gd_conv2d with all settings (NULL: defaults); the weight is [out, in / groups, height, width]. */
gd_tensor *gd_conv2d_with(gd_tensor *x, gd_tensor *weight, gd_tensor *bias, const gd_conv_options *options);
gd_tensor *gd_max_pool2d(gd_tensor *x, int size, int stride, int padding); /* the largest of each window */
/* The mean of each window, padding counted as 0. */
gd_tensor *gd_avg_pool2d(gd_tensor *x, int size, int stride, int padding);
/* (x - mean) / sqrt(variance + eps) over the axes, times weight, plus bias; both may be NULL. */
gd_tensor *gd_layer_norm(gd_tensor *x, const char *axes, gd_tensor *weight, gd_tensor *bias, double eps);
gd_tensor *gd_embedding(gd_tensor *table, gd_tensor *index);        /* table[i] for each i of the index */
gd_tensor *gd_dropout(gd_tensor *x, double p);                      /* 0 with chance p, else x / (1 - p) */
gd_tensor *gd_cross_entropy(gd_tensor *logits, gd_tensor *classes); /* [n,k], [n]: mean -log_softmax_class */
gd_tensor *gd_mse(gd_tensor *x, gd_tensor *y);                      /* mean((x - y)^2) */

#ifdef __cplusplus
}
#endif
#endif
