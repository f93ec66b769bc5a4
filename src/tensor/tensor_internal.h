/* Internals of a tensor.
 *
 *   gd_tensor --> gd_storage --> bytes on a device        several tensors (views) can have one storage
 *       |-------> gd_axes                                 names and labels, shared, never changed; NULL: all anonymous
 *       |-------> gd_node                                 its computation, NULL for a leaf
 *
 * Element (i0, i1, ...) is at data + (i0 * stride[0] + i1 * stride[1] + ...) * dtype size. */
#ifndef GD_TENSOR_TENSOR_INTERNAL_H
#define GD_TENSOR_TENSOR_INTERNAL_H

#include "base/ctx.h"
#include "gradus/tensor.h"
#include "tensor/op.h"

typedef struct gd_storage {
    gd_ctx *ctx;
    gd_device *device;
    char *data;
    size_t bytes;
    uint32_t refs;
    uint32_t version;  /* identifies its contents: changes with every change in place */
    uint32_t last;     /* the last version used: none is reused */
    uint64_t serial;   /* number among storages made during a recording; 0: made before, or after */
    bool foreign;      /* the bytes have a different owner: a gd_foreign */
    bool read_only;    /* they must not be changed */
    uint32_t recorded; /* references held by recordings: without others, no function can still read it */
    /* an inline block for small CPU data follows when data points right behind the struct */
} gd_storage;

/* Bytes of a different owner. */
typedef struct gd_foreign {
    gd_storage storage;
    void (*release)(void *user); /* or NULL */
    void *user;
} gd_foreign;

typedef struct gd_labels {
    gd_ctx *ctx;
    uint32_t refs;
    int64_t count;
    const char **text; /* interned */
} gd_labels;

typedef struct gd_axes {
    gd_ctx *ctx;
    uint32_t refs;
    const char *name[GD_MAX_DIMS]; /* interned, NULL: anonymous */
    gd_labels *labels[GD_MAX_DIMS];
} gd_axes;

struct gd_tensor {
    gd_object head;
    gd_dtype dtype;
    uint8_t ndim;
    bool leaf_grad : 1;  /* a leaf that wants gradients */
    bool dropped : 1;    /* was an attribute of a module, which has replaced or deleted it since */
    bool streams : 1;    /* its gradient has its strides, as of ctx->layouts; see gd__can_stream */
    bool rows : 1;       /* known to be row-major since its creation; false: unknown */
    uint16_t output;     /* which output of its node */
    gd_storage *storage; /* NULL for a ghost: only shape and history, see node.c */
    char *data;          /* one cache line up to here: steps over many small tensors mostly wait for it */
    gd_tensor *grad;
    gd_axes *axes;
    struct gd_node *node;
    int64_t numel;
    int64_t size[GD_MAX_DIMS];
    int64_t stride[GD_MAX_DIMS]; /* in elements */
};

/* ---- making ---- */

/* A contiguous tensor with its own, uninitialised storage. */
gd_tensor *gd__new(gd_device *device, gd_dtype dtype, int ndim, const int64_t *size);
/* The same, checked for overflow and bad sizes, error text prefixed with `what`. */
gd_tensor *gd__new_checked(gd_device *device, const char *what, gd_dtype dtype, int ndim,
                           const int64_t *size);
/* Can an integer dtype hold a number?  Fractions are cut off; NaN becomes 0.  False with OVERFLOW recorded. */
bool gd__holds(gd_ctx *ctx, const char *what, gd_dtype dtype, double v);
/* A contiguous tensor without storage, for gd__storage_over. */
gd_tensor *gd__new_over(gd_device *device, const char *what, gd_dtype dtype, int ndim, const int64_t *size);
/* Foreign memory becomes the storage of a tensor without one. */
gd_status gd__storage_over(gd_tensor *t, gd_device *device, void *data, bool read_only,
                           void (*release)(void *user), void *user);
/* Another tensor on the same storage, same shape and axes, no history. */
gd_tensor *gd__alias(const gd_tensor *t);
/* An alias without names and labels. */
gd_tensor *gd__bare(const gd_tensor *t);
/* New tensor shaped like t (axes too), contiguous. */
gd_tensor *gd__new_like(const gd_tensor *t, gd_dtype dtype);

/* New dense tensor shaped like t, without names, its axes in memory in the order of t's strides. */
gd_tensor *gd__new_laid_like(gd_device *device, const gd_tensor *t);

/* New tensor shaped like t (axes too), with the strides of t if t has no gaps, else row-major. */
gd_tensor *gd__new_laid(const gd_tensor *t, gd_dtype dtype);

void gd__storage_release(gd_storage *storage);
static inline uint32_t gd__version(const gd_tensor *t) { return t->storage ? t->storage->version : 0; }
static inline void gd__touch(gd_tensor *t) /* it was changed in place */
{
    if (t->storage) t->storage->version = ++t->storage->last;
}
/* STATE if its elements must not change. */
gd_status gd__writable(const char *what, const gd_tensor *t);
/* The storage has again, bit for bit, the contents of an earlier version. */
void gd__as_before(gd_tensor *t, uint32_t version);

/* ---- fields that counters track: only these functions write them in a tensor in use ---- */

/* Its gradient, whose reference it takes; NULL: none. */
void gd__put_grad(gd_tensor *t, gd_tensor *grad);
/* The same if gd__can_stream was checked. */
static inline void gd__put_checked_grad(gd_tensor *t, gd_tensor *grad, bool streams)
{
    gd__release(t->grad);
    t->grad = grad;
    t->streams = streams;
    t->head.ctx->changes++;
}
void gd__put_wants_grad(gd_tensor *t, bool on);
/* Its module has replaced or deleted it: an optimizer that still holds it warns at its next step. */
void gd__put_dropped(gd_tensor *t);
/* Gives `t` the storage, dtype and strides of `with` (same shape), which is left with the old ones.  Counts as a change in
 * place too. */
void gd__swap_storage(gd_tensor *t, gd_tensor *with);

/* ---- axes ---- */

gd_axes *gd__axes_new(gd_ctx *ctx);
void gd__axes_retain(gd_axes *axes);
/* The names and labels of another context's axes, for ctx.  NULL: no memory. */
gd_axes *gd__axes_copy(gd_ctx *ctx, const gd_axes *axes);
void gd__axes_release(gd_axes *axes);
gd_labels *gd__labels_new(gd_ctx *ctx, int64_t count); /* texts not set yet */
gd_labels *gd__labels_retain(gd_labels *labels);
void gd__labels_release(gd_labels *labels);
/* Labels (consumed; NULL: none) for one axis of a tensor whose axes are its own; nothing if it has none. */
void gd__labels_put(gd_tensor *t, int axis, gd_labels *labels);
/* Sets *twice to a label that occurs more than once, or NULL. */
gd_status gd__labels_repeat(const gd_labels *labels, const char **twice);
static inline const char *gd__name(const gd_tensor *t, int axis)
{
    return t->axes ? t->axes->name[axis] : NULL;
}
static inline gd_labels *gd__labels(const gd_tensor *t, int axis)
{
    return t->axes ? t->axes->labels[axis] : NULL;
}
/* Sets the axes of out from `from`: out axis i is from axis map[i] (NULL: i), or anonymous where map[i] < 0. */
gd_status gd__axes_map(gd_tensor *out, const gd_tensor *from, const int *map);
/* The same; out, which is released on failure, or NULL. */
gd_tensor *gd__mapped(gd_tensor *out, const gd_tensor *from, const int *map);

/* Axis numbers of a text ("k", "-1", "h, w"; NULL or "": all) in increasing order; returns the count or -1. */
int gd__parse_axes(const char *what, const gd_tensor *t, const char *text, int out[GD_MAX_DIMS]);
int gd__parse_axis(const char *what, const gd_tensor *t, const char *text);
/* "'batch'" or "1" for messages; buf is returned. */
const char *gd__axis_text(const gd_tensor *t, int axis, char buf[64]);
/* "[batch=32, 4]" for messages. */
const char *gd__shape_text(const gd_tensor *t, char *buf, size_t size);

/* ---- helpers ---- */

static inline size_t gd__item_size(const gd_tensor *t) { return gd_dtype_size(t->dtype); }
static inline bool gd__is_float(const gd_tensor *t)
{
#define GD_FLOAT_BIT(NAME, name, bytes, kind, st, np) | (unsigned)((kind) == 'f') << GD_##NAME
    return (0U GD_DTYPE_LIST(GD_FLOAT_BIT)) >> t->dtype & 1;
#undef GD_FLOAT_BIT
}
static inline bool gd__same_shape(const gd_tensor *a, const gd_tensor *b)
{
    if (a->ndim != b->ndim) return false;
    for (int i = a->ndim; i-- > 0;)
        if (a->size[i] != b->size[i]) return false;
    return true;
}
bool gd__contiguous(const gd_tensor *t);
/* Do its elements fill their memory, with the axes in any order? */
bool gd__dense(const gd_tensor *t);
/* Do two tensors of one shape have the same layout, including gaps? */
static inline bool gd__laid_alike(const gd_tensor *a, const gd_tensor *b)
{
    for (int i = 0; i < a->ndim; i++)
        if (a->stride[i] != b->stride[i] && a->size[i] != 1) return a->numel == 0;
    return true;
}
/* Does a gradient exist, on the device of its tensor, with its shape, names and layout? */
static inline bool gd__can_stream(const gd_tensor *grad, const gd_tensor *t)
{
    if (!grad || grad->storage->device != t->storage->device || !gd__is_float(grad) ||
        (grad->axes != t->axes && grad->axes && t->axes))
        return false;
    return gd__same_shape(grad, t) && ((grad->rows && t->rows) || gd__laid_alike(grad, t));
}
void gd__row_major(int ndim, const int64_t *size, int64_t *stride);
gd_device *gd__cpu(gd_ctx *ctx);

/* True if no tensor is NULL; otherwise records ARGUMENT, unless an error is recorded already.  The context is that of the first non-NULL tensor. */
bool gd__given(const char *what, gd_tensor *const *t, int count);
bool gd__given1(const char *what, gd_tensor *t);
bool gd__given2(const char *what, gd_tensor *a, gd_tensor *b);
bool gd__need_float(const char *what, const gd_tensor *t);

/* A tensor of random numbers from any generator on any device. */
gd_tensor *gd__random(gd_device *device, gd_rng *rng, const char *what, gd_random_kind kind, gd_dtype dtype,
                      int ndim, const int64_t *shape);

/* Piece k of a tensor along its first axis, as a struct that owns nothing. */
static inline gd_tensor gd__piece_of(const gd_tensor *t, int64_t k)
{
    gd_tensor piece = *t;
    piece.ndim--;
    piece.numel = t->size[0] ? t->numel / t->size[0] : 0;
    piece.data += k * t->stride[0] * (int64_t)gd__item_size(t);
    for (int i = 0; i < piece.ndim; i++) {
        piece.size[i] = t->size[i + 1];
        piece.stride[i] = t->stride[i + 1];
    }
    return piece;
}

/* The same as a tensor, without history and names. */
gd_tensor *gd__piece_view(const gd_tensor *t, int64_t k);

/* Are the rows or the columns of the last two axes adjacent in memory, and not overlapping? Then a product reads them in place.
 * With `write`: rows only. */
bool gd__matrix_in_place(const gd_tensor *t, bool write);

/* A copy on its own storage with that dtype and device, without history; owned by the caller, outside every scope. */
gd_tensor *gd__own_copy(gd_tensor *t, gd_dtype dtype, gd_device *device);

/* A copy of its dtype and device with the strides of `like`, which has its shape and no gaps; owned by the caller, outside every
 * scope. */
gd_tensor *gd__copy_laid(const gd_tensor *t, const gd_tensor *like);

/* Strided copy with cast and broadcast of src into dst (same device). */
gd_status gd__copy_into(gd_tensor *dst, const gd_tensor *src);

/* ---- recordings ----
 *
 * Functions may be recorded once and run again (trace/trace_internal.h).  The recorder takes the place of a device's backend while it
 * records, so kernels cost nothing if none records.  Computation without a kernel is reported here: elements that the host reads
 * or writes, and work that cannot be run again. */

typedef struct gd_recorder {
    /* The host reads elements of t; it may write them from now on. */
    void (*read)(struct gd_recorder *r, const gd_tensor *t, const char *what);
    void (*write)(struct gd_recorder *r, const gd_tensor *t, const char *what);
    /* t was made from the numbers at data, which are read again in each run. */
    void (*input)(struct gd_recorder *r, const gd_tensor *t, const void *data);
    void (*refuse)(struct gd_recorder *r, const char *why);
    /* to has the elements of from, on a different device. */
    void (*move)(struct gd_recorder *r, const gd_tensor *from, const gd_tensor *to);
} gd_recorder;

static inline void gd__host_reads(const gd_tensor *t, const char *what)
{
    gd_recorder *r = t->head.ctx->recorder;
    if (r) r->read(r, t, what);
}

static inline void gd__host_writes(const gd_tensor *t, const char *what)
{
    gd_recorder *r = t->head.ctx->recorder;
    if (r) r->write(r, t, what);
}

/* This work would be missing in a replay: "it moves tensors between devices". */
static inline void gd__not_recorded(gd_ctx *ctx, const char *why)
{
    if (ctx->recorder) ctx->recorder->refuse(ctx->recorder, why);
}

#endif
