/* Making tensors: constants, sequences, data, random numbers; casts and copies. */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/source_kernels.h"
#include "tensor/device.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

/* ---- constants ---- */

bool gd__holds(gd_ctx *ctx, const char *what, gd_dtype dtype, double v)
{
    double low = dtype == GD_U8 ? -1 : dtype == GD_I32 ? -0x1p31 - 1 : -0x1p63 - 2048;
    double high = dtype == GD_U8 ? 0x1p8 : dtype == GD_I32 ? 0x1p31 : 0x1p63;
    bool whole = dtype == GD_U8 || dtype == GD_I32 || dtype == GD_I64;
    if (!whole || v != v || (v > low && v < high)) return true;
    (void)gd_fail(ctx, GD_OVERFLOW, "%s: %.17g does not fit into %s", what, v, gd_dtype_name(dtype));
    return false;
}

#define FEW_BYTES 1024 /* elements up to which writing here is faster than looking up a kernel */

/* Is a tensor small and on the host, without a recording of kernels? */
static inline bool is_small(const gd_tensor *t)
{
    return t->storage->device->backend == &gd__cpu_backend &&
           (size_t)t->numel <= FEW_BYTES / gd__item_size(t);
}

/* A new tensor of floats, or of zero bits; false: a kernel fills it. */
static bool fill_small(gd_tensor *t, double v)
{
    bool zero = v == 0 && !signbit(v);
    if (!is_small(t) || !(zero || t->dtype == GD_F64 || t->dtype == GD_F32)) return false;
    double *wide = (double *)(void *)t->data;
    float *narrow = (float *)(void *)t->data;
    if (zero)
        memset(t->data, 0, (size_t)t->numel * gd__item_size(t));
    else if (t->dtype == GD_F64)
        for (int64_t i = 0; i < t->numel; i++) wide[i] = v;
    else
        for (int64_t i = 0; i < t->numel; i++) narrow[i] = (float)v;
    return true;
}

/* The same elements in the same places; false: a kernel copies them. */
static bool copy_small(gd_tensor *to, const gd_tensor *from)
{
    if (to->dtype != from->dtype || to->ndim != from->ndim || !is_small(to) ||
        from->storage->device != to->storage->device)
        return false;
    for (int i = 0; i < to->ndim; i++)
        if (to->size[i] != from->size[i]) return false;
    if (!gd__contiguous(to) || !gd__contiguous(from)) return false;
    memmove(to->data, from->data, (size_t)to->numel * gd__item_size(to));
    return true;
}

static inline gd_tensor *fill_new(gd_tensor *t, double v)
{
    if (t && fill_small(t, v)) return t;
    return gd__run1(GD_OP_fill, NULL, 0, &(gd_attrs){.nf = 1, .f = {v}}, t);
}

static gd_tensor *filled(gd_device *device, const char *what, gd_dtype dtype, int ndim, const int64_t *shape,
                         double v)
{
    if (device && !gd__holds(device->ctx, what, dtype, v)) return NULL;
    return fill_new(gd__new_checked(device, what, dtype, ndim, shape), v);
}

gd_tensor *gd_zeros(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape)
{
    return filled(gd__cpu(ctx), "zeros", dtype, ndim, shape, 0);
}

gd_tensor *gd_ones(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape)
{
    return filled(gd__cpu(ctx), "ones", dtype, ndim, shape, 1);
}

gd_tensor *gd_full(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape, double value)
{
    return filled(gd__cpu(ctx), "full", dtype, ndim, shape, value);
}

gd_tensor *gd_full_like(const gd_tensor *t, double value)
{
    if (!t) return NULL;
    gd_device *device = t->storage->device;
    if (!gd__holds(device->ctx, "full_like", t->dtype, value)) return NULL;
    gd_tensor *out = fill_new(gd__new(device, t->dtype, t->ndim, t->size), value); /* a shape that there is */
    if (out) gd__axes_retain(out->axes = t->axes);
    return out;
}

gd_tensor *gd_zeros_like(const gd_tensor *t) { return gd_full_like(t, 0); }

gd_tensor *gd_ones_like(const gd_tensor *t) { return gd_full_like(t, 1); }

gd_tensor *gd_scalar(gd_ctx *ctx, gd_dtype dtype, double value)
{
    return filled(gd__cpu(ctx), "scalar", dtype, 0, NULL, value);
}

gd_status gd_fill(gd_tensor *dst, double value)
{
    if (!dst) return GD_ARGUMENT;
    gd_ctx *ctx = dst->head.ctx;
    if (gd__writable("fill", dst)) return gd_error(ctx);
    gd_scope_begin(ctx);
    gd_tensor *one = filled(dst->storage->device, "fill", dst->dtype, 0, NULL, value);
    gd_status status = one ? gd__copy_into(dst, one) : gd_error(ctx);
    if (!status) gd__touch(dst);
    gd_scope_end(ctx);
    return status;
}

/* ---- data and sequences ---- */

gd_tensor *gd_from_data(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape, const void *data)
{
    gd_tensor *t = gd__new_checked(gd__cpu(ctx), "from_data", dtype, ndim, shape);
    if (t && t->numel && !data) {
        (void)gd__null(ctx, "from_data: the elements are NULL");
        gd_release(t);
        return NULL;
    }
    if (t && t->numel) memcpy(t->data, data, (size_t)t->numel * gd__item_size(t));
    if (t) gd__host_writes(t, "gd_from_data");
    return t;
}

gd_tensor *gd_from_f64(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape, const double *data)
{
    if (dtype == GD_F64) return gd_from_data(ctx, dtype, ndim, shape, data);
    gd_scope_begin(ctx);
    gd_tensor *wide = gd_from_data(ctx, GD_F64, ndim, shape, data), *out = gd_cast(wide, dtype);
    return gd__scope_leave(ctx, out);
}

typedef struct steps_job {
    const gd_sources_table *make;
    gd_tensor *out;
    double first, step;
} steps_job;

static void steps_piece(void *arg, int64_t k)
{
    const steps_job *j = arg;
    int64_t start = k * GD_MICROBATCH, left = j->out->numel - start,
            n = left < GD_MICROBATCH ? left : GD_MICROBATCH;
    if (j->out->dtype == GD_F32)
        j->make->steps_f32((float *)(void *)j->out->data + start, j->first, j->step, start, n);
    else
        j->make->steps_f64((double *)(void *)j->out->data + start, j->first, j->step, start, n);
}

/* count values first + i * step, the last one exactly `last` if that is given. */
static gd_tensor *sequence(gd_ctx *ctx, const char *what, gd_dtype dtype, double first, double step,
                           int64_t count, const double *last)
{
    gd_scope_begin(ctx);
    gd_tensor *made = gd__new_checked(gd__cpu(ctx), what, dtype == GD_F32 ? GD_F32 : GD_F64, 1, &count);
    if (made) {
        double *wide = (double *)(void *)made->data;
        float *narrow = (float *)(void *)made->data;
        steps_job j = {.make = gd__vec(gd__cpu(ctx))->sources, .out = made, .first = first, .step = step};
        gd__run_pieces(ctx, count, steps_piece, &j);
        if (last && count > 0 && dtype == GD_F32) narrow[count - 1] = (float)*last;
        if (last && count > 0 && dtype != GD_F32) wide[count - 1] = *last;
        gd__host_writes(made, what);
    }
    return gd__scope_leave(ctx, gd_cast(made, dtype));
}

gd_tensor *gd_arange(gd_ctx *ctx, gd_dtype dtype, double start, double stop, double step)
{
    double count = ceil((stop - start) / step);
    if (step == 0 || !isfinite(count) || count > 0x1p53)
        return gd__refuse(ctx, GD_VALUE, "arange: from %g to %g in steps of %g", start, stop, step);
    double last = start + (count > 0 ? count - 1 : 0) * step;
    if (count > 0 && (!gd__holds(ctx, "arange", dtype, start) || !gd__holds(ctx, "arange", dtype, last)))
        return NULL;
    return sequence(ctx, "arange", dtype, start, step, count > 0 ? (int64_t)count : 0, NULL);
}

gd_tensor *gd_linspace(gd_ctx *ctx, gd_dtype dtype, double first, double last, int64_t count)
{
    double step = count > 1 ? (last - first) / (double)(count - 1) : 0;
    return sequence(ctx, "linspace", dtype, first, step, count, count > 1 ? &last : NULL);
}

gd_tensor *gd_eye(gd_ctx *ctx, gd_dtype dtype, int64_t rows, int64_t columns)
{
    gd_tensor *t = filled(gd__cpu(ctx), "eye", dtype, 2, (int64_t[]){rows, columns}, 0);
    int64_t n = rows < columns ? rows : columns;
    if (!t || n == 0) return t;
    gd_scope_begin(ctx);
    gd_tensor *diagonal = gd__bare(t);
    gd_status status = GD_NOMEM;
    if (diagonal) {
        diagonal->ndim = 1;
        diagonal->size[0] = diagonal->numel = n;
        diagonal->stride[0] = columns + 1;
        status = gd_fill(diagonal, 1);
    }
    gd_scope_end(ctx);
    if (!status) return t;
    gd_release(t);
    return NULL;
}

/* ---- random numbers ---- */

void gd_seed(gd_ctx *ctx, uint64_t seed)
{
    if (ctx) ctx->rng = (gd_rng){.key = seed};
}

/* Element pair (2k, 2k + 1) comes from block k of this call's part of the stream. */
gd_tensor *gd__random(gd_device *device, gd_rng *rng, const char *what, gd_random_kind kind, gd_dtype dtype,
                      int ndim, const int64_t *shape)
{
    if (!device) return NULL;
    if ((int)kind < GD_RANDOM_UNIFORM || kind > GD_RANDOM_SIGN)
        return gd__refuse(device->ctx, GD_ARGUMENT, "%s: there is no kind %d of random numbers", what,
                          (int)kind);
    if (!gd_dtype_is_float(dtype))
        return gd__refuse(device->ctx, GD_DTYPE, "%s: needs a floating dtype, got %s", what,
                          gd_dtype_name(dtype));
    gd_tensor *t = gd__new_checked(device, what, dtype, ndim, shape);
    if (!t) return NULL;
    uint64_t first = gd__rng_take(rng, ((uint64_t)t->numel + 1) / 2);
    gd_attrs attrs = {.ni = 3, .i = {kind, (int64_t)rng->key, (int64_t)first}};
    return gd__run1(GD_OP_random, NULL, 0, &attrs, t);
}

gd_tensor *gd_rand(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape)
{
    if (!ctx) return NULL;
    return gd__random(gd__cpu(ctx), &ctx->rng, "rand", GD_RANDOM_UNIFORM, dtype, ndim, shape);
}

gd_tensor *gd_randn(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape)
{
    if (!ctx) return NULL;
    return gd__random(gd__cpu(ctx), &ctx->rng, "randn", GD_RANDOM_NORMAL, dtype, ndim, shape);
}

gd_tensor *gd_rademacher(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape)
{
    if (!ctx) return NULL;
    return gd__random(gd__cpu(ctx), &ctx->rng, "rademacher", GD_RANDOM_SIGN, dtype, ndim, shape);
}

#define DRAWN 1024 /* random numbers made per call */

/* Fisher-Yates; a bounded number is the high half of a 64 x 64 bit product.  Number i is that of block i. */
gd_tensor *gd_permutation(gd_ctx *ctx, int64_t count)
{
    gd_tensor *t = gd__new_checked(gd__cpu(ctx), "permutation", GD_I64, 1, &count);
    if (!t) return NULL;
    const gd_sources_table *make = gd__vec(gd__cpu(ctx))->sources;
    int64_t *p = (int64_t *)(void *)t->data;
    uint64_t random[DRAWN];
    gd__not_recorded(ctx, "it draws a permutation");
    uint64_t first = gd__rng_take(&ctx->rng, (uint64_t)count);
    for (int64_t i = 0; i < count; i++) p[i] = i;
    for (int64_t end = count; end > 1;) {
        int64_t start = end > DRAWN + 1 ? end - DRAWN : 1;
        make->random_u64(random, ctx->rng.key, first + (uint64_t)start, end - start);
        for (int64_t i = end; i-- > start;) {
            __extension__ typedef unsigned __int128 wide;
            int64_t j = (int64_t)(((wide)random[i - start] * (uint64_t)(i + 1)) >> 64), swap = p[i];
            p[i] = p[j];
            p[j] = swap;
        }
        end = start;
    }
    return t;
}

/* ---- casts and copies ---- */

gd_status gd__copy_into(gd_tensor *dst, const gd_tensor *src)
{
    if (copy_small(dst, src)) return GD_OK;
    gd_device *device = dst->storage->device;
    int shift = dst->ndim - src->ndim;
    bool fits = shift >= 0;
    for (int i = 0; fits && i < src->ndim; i++)
        fits = src->size[i] == 1 || src->size[i] == dst->size[i + shift];
    char a[256], b[256];
    if (!fits)
        return gd_fail(device->ctx, GD_SHAPE, "assign: %s does not broadcast into %s",
                       gd__shape_text(src, a, sizeof a), gd__shape_text(dst, b, sizeof b));
    gd_tensor *from = (gd_tensor *)(uintptr_t)src;
    gd_call call = {.op = GD_OP_cast, .nin = 1, .nout = 1, .in = &from, .out = &dst, .attrs = &(gd_attrs){0}};
    if (src->storage->device == device) return gd__device_run(device, &call);
    gd_scope_begin(device->ctx);
    from = gd_to_device(from, device);
    gd_status status = from ? gd__device_run(device, &call) : GD_NOMEM;
    gd_scope_end(device->ctx);
    return status;
}

gd_tensor *gd_cast(gd_tensor *t, gd_dtype dtype)
{
    if (!t) return NULL;
    if ((unsigned)dtype >= GD_DTYPE_COUNT)
        return gd__refuse(t->head.ctx, GD_DTYPE, "cast: dtype number %d does not exist", (int)dtype);
    if (t->dtype == dtype) return gd__same(t);
    gd_tensor *out = gd__new_like(t, dtype);
    if (!out || gd_dtype_is_float(dtype)) return gd__run1(GD_OP_cast, &t, 1, &(gd_attrs){0}, out);
    /* to an integer: nothing to differentiate */
    if (gd__execute(GD_OP_cast, &t, 1, &(gd_attrs){0}, &out, 1) == GD_OK) return out;
    gd_release(out);
    return NULL;
}

gd_tensor *gd_copy(gd_tensor *t)
{
    gd_tensor *out = t ? gd__new_like(t, t->dtype) : NULL;
    if (!out || !copy_small(out, t)) return t ? gd__run1(GD_OP_copy, &t, 1, &(gd_attrs){0}, out) : NULL;
    if (!gd__record(GD_OP_copy, &t, 1, &(gd_attrs){0}, &out, 1)) return out;
    gd_release(out);
    return NULL;
}

gd_tensor *gd_contiguous(gd_tensor *t) { return t && gd__contiguous(t) ? gd__same(t) : gd_copy(t); }

gd_tensor *gd__own_copy(gd_tensor *t, gd_dtype dtype, gd_device *device)
{
    gd_ctx *ctx = t->head.ctx;
    bool alike = t->storage->device == device && t->dtype == dtype;
    if (alike && is_small(t) && gd__contiguous(t)) {
        gd_tensor *copy = gd__new_like(t, dtype);
        if (copy) memcpy(copy->data, t->data, (size_t)t->numel * gd__item_size(t));
        gd__own_made(copy);
        return copy;
    }
    gd__aside_begin(ctx);
    gd_tensor *made = t->storage->device == device ? t : gd_to_device(t, device);
    if (made && made->dtype != dtype) made = gd_cast(made, dtype);
    if (made && made->storage == t->storage) made = gd_copy(made);
    gd__own(made);
    gd__aside_end(ctx);
    return made;
}

gd_tensor *gd__copy_laid(const gd_tensor *t, const gd_tensor *like)
{
    gd_ctx *ctx = t->head.ctx;
    gd__aside_begin(ctx);
    gd_tensor *made = gd__new_laid(like, t->dtype);
    if (made && gd__copy_into(made, t)) made = NULL;
    gd__own(made);
    gd__aside_end(ctx);
    return made;
}

/* CPU and one GPU exchange bytes; GPU to GPU goes over the CPU. */
gd_tensor *gd_to_device(gd_tensor *t, gd_device *device)
{
    if (!t || !device) return NULL;
    gd_device *from = t->storage->device;
    if (from == device) return gd__same(t);
    gd_ctx *ctx = device->ctx;
    if (ctx != t->head.ctx)
        return gd__refuse(ctx, GD_DEVICE, "to_device: the device belongs to a different context");
    gd_scope_begin(ctx);
    gd_tensor *flat = gd__contiguous(t) ? t : gd_copy(t), *out = NULL;
    if (flat && from != ctx->cpu && device != ctx->cpu) flat = gd_to_device(flat, ctx->cpu);
    if (flat) out = gd__new(device, flat->dtype, flat->ndim, flat->size);
    if (out) {
        gd__axes_retain(out->axes = flat->axes);
        size_t bytes = (size_t)flat->numel * gd__item_size(flat);
        gd_device *mover = device == ctx->cpu ? flat->storage->device : device;
        gd_status status = bytes == 0 ? GD_OK
                           : device == ctx->cpu
                               ? mover->backend->download(mover, out->data, flat->data, bytes)
                               : mover->backend->upload(mover, out->data, flat->data, bytes);
        if (!status && ctx->recorder) ctx->recorder->move(ctx->recorder, flat, out);
        if (!status) status = gd__record(GD_OP_to_device, &flat, 1, &(gd_attrs){0}, &out, 1);
        if (status) out = NULL;
    }
    return gd__scope_leave(ctx, out);
}
