/* Tensors: storage, creation, access. */
#include "tensor/tensor_internal.h"
#include "base/memory/pool.h"
#include "base/text/number.h"
#include "tensor/device.h"
#include "tensor/elementwise.h"
#include "tensor/item.h"

#include <math.h>
#include <string.h>

#define INLINE_BYTES 192 /* data up to this size is in the same block as its storage */

/* ---- storage ---- */

static size_t storage_block(const gd_storage *storage)
{
    bool inside = storage->data == (const char *)(storage + 1) || storage->data == NULL;
    return sizeof *storage + (inside ? storage->bytes : 0);
}

static inline gd_storage *storage_new(gd_device *device, size_t bytes)
{
    gd_ctx *ctx = device->ctx;
    bool inside = bytes <= INLINE_BYTES && device == ctx->cpu;
    gd_storage *storage = gd__pool_take(ctx, sizeof *storage + (inside ? bytes : 0));
    if (!storage) return NULL;
    *storage = (gd_storage){.ctx = ctx, .device = device, .bytes = bytes, .refs = 1};
    if (ctx->recorder) storage->serial = ++ctx->storages;
    if (inside)
        storage->data = (char *)(storage + 1);
    else if (bytes && !(storage->data = device->backend->alloc(device, bytes))) {
        gd__free(ctx, storage, sizeof *storage);
        return NULL;
    }
    return storage;
}

void gd__storage_release(gd_storage *storage)
{
    if (!storage || --storage->refs) return;
    if (storage->foreign) {
        gd_foreign *f = (gd_foreign *)storage;
        if (f->release) f->release(f->user);
        gd__free(storage->ctx, f, sizeof *f);
        return;
    }
    size_t block = storage_block(storage);
    if (block == sizeof *storage && storage->data && storage->bytes)
        storage->device->backend->free(storage->device, storage->data, storage->bytes);
    gd__pool_give(storage->ctx, storage, block);
}

gd_status gd__writable(const char *what, const gd_tensor *t)
{
    if (!t->storage || !t->storage->read_only) return GD_OK;
    return gd_fail(t->head.ctx, GD_STATE, "%s: the tensor is read-only: its memory has a different owner",
                   what);
}

void gd__as_before(gd_tensor *t, uint32_t version)
{
    if (t->storage) t->storage->version = version;
}

/* ---- fields that counters track ---- */

void gd__put_grad(gd_tensor *t, gd_tensor *grad) { gd__put_checked_grad(t, grad, gd__can_stream(grad, t)); }

void gd__put_wants_grad(gd_tensor *t, bool on)
{
    t->leaf_grad = on;
    t->head.ctx->changes++;
}

void gd__put_dropped(gd_tensor *t)
{
    t->dropped = true;
    t->head.ctx->changes++;
}

void gd__swap_storage(gd_tensor *t, gd_tensor *with)
{
    gd_tensor old = *t;
    t->head.ctx->layouts += !gd__laid_alike(t, with) || t->dtype != with->dtype ||
                            t->storage->device != with->storage->device;
    t->dtype = with->dtype;
    t->data = with->data;
    t->storage = with->storage;
    t->rows = with->rows;
    memcpy(t->stride, with->stride, sizeof t->stride);
    with->dtype = old.dtype;
    with->data = old.data;
    with->storage = old.storage;
    with->rows = old.rows;
    memcpy(with->stride, old.stride, sizeof with->stride);
    if (t->storage->last < old.storage->last) t->storage->last = old.storage->last;
    gd__touch(t);
    t->head.ctx->changes++;
    t->head.ctx->structure++;
}

/* ---- tensors ---- */

static void tensor_destroy(void *object)
{
    gd_tensor *t = object;
    gd_ctx *ctx = t->head.ctx;
    if (t->node) gd__node_release(t->node);
    if (t->axes) gd__axes_release(t->axes);
    gd__storage_release(t->storage);
    if (t->grad) gd__release(t->grad);
    gd__pool_give(ctx, t, sizeof *t);
}

const gd_object_type gd__tensor_type = {"Tensor", tensor_destroy};

void gd__row_major(int ndim, const int64_t *size, int64_t *stride)
{
    int64_t step = 1;
    for (int i = ndim; i-- > 0;) {
        stride[i] = step;
        step *= size[i] > 0 ? size[i] : 1;
    }
}

/* The struct alone: shape set, strides row-major, no storage. */
static inline gd_tensor *shell(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *size)
{
    gd_tensor *t = gd__pool_take(ctx, sizeof *t);
    if (!t) return NULL;
    if (gd__object_init(ctx, t, &gd__tensor_type)) {
        gd__free(ctx, t, sizeof *t);
        return NULL;
    }
    t->dtype = dtype;
    t->ndim = (uint8_t)ndim;
    t->leaf_grad = t->dropped = t->streams = t->rows = false;
    t->output = 0;
    t->data = NULL;
    t->storage = NULL;
    t->axes = NULL;
    t->node = NULL;
    t->grad = NULL;
    int64_t numel = 1;
    for (int i = ndim; i-- > 0;) {
        t->size[i] = size[i];
        t->stride[i] = numel > 0 ? numel : 1;
        numel *= size[i];
    }
    t->numel = numel;
    return t;
}

gd_tensor *gd__new(gd_device *device, gd_dtype dtype, int ndim, const int64_t *size)
{
    gd_tensor *t = shell(device->ctx, dtype, ndim, size);
    if (!t) return NULL;
    int64_t bytes;
    if (__builtin_mul_overflow(t->numel, (int64_t)gd_dtype_size(dtype),
                               &bytes)) /* an expanded view may be huge */
        (void)gd_fail(device->ctx, GD_OVERFLOW, "new: %lld elements of %s need more than 2^63 bytes",
                      (long long)t->numel, gd_dtype_name(dtype));
    else
        t->storage = storage_new(device, (size_t)bytes);
    if (!t->storage) {
        gd__release(t);
        return NULL;
    }
    t->data = t->storage->data;
    t->rows = true;
    return t;
}

gd_tensor *gd__new_laid_like(gd_device *device, const gd_tensor *t)
{
    gd_tensor *out = gd__new(device, t->dtype, t->ndim, t->size);
    int order[GD_MAX_DIMS];
    int64_t size[GD_MAX_DIMS], stride[GD_MAX_DIMS];
    for (int i = 0; i < t->ndim; i++) { /* largest stride first */
        int j = i;
        for (; j > 0 && t->stride[i] > t->stride[order[j - 1]]; j--) order[j] = order[j - 1];
        order[j] = i;
    }
    for (int i = 0; i < t->ndim; i++) size[i] = t->size[order[i]];
    gd__row_major(t->ndim, size, stride);
    if (out) out->rows = false;
    for (int i = 0; i < t->ndim && out; i++) out->stride[order[i]] = stride[i];
    return out;
}

gd_tensor *gd__piece_view(const gd_tensor *t, int64_t k)
{
    gd_tensor *view = gd__bare(t);
    if (!view) return NULL;
    gd_tensor piece = gd__piece_of(t, k);
    view->ndim = piece.ndim;
    view->numel = piece.numel;
    view->data = piece.data;
    memcpy(view->size, piece.size, sizeof view->size);
    memcpy(view->stride, piece.stride, sizeof view->stride);
    return view;
}

bool gd__matrix_in_place(const gd_tensor *t, bool write)
{
    int64_t rows = t->size[t->ndim - 2], columns = t->size[t->ndim - 1];
    int64_t row = t->stride[t->ndim - 2], column = t->stride[t->ndim - 1];
    if ((column == 1 || columns <= 1) && (rows <= 1 || row >= columns)) return true;
    return !write && (row == 1 || rows <= 1) && column >= rows;
}

/* Checks shape and dtype. */
static bool checked(gd_device *device, const char *what, gd_dtype dtype, int ndim, const int64_t *size)
{
    gd_ctx *ctx = device->ctx;
    if ((unsigned)dtype >= GD_DTYPE_COUNT)
        return gd__refuse(ctx, GD_DTYPE, "%s: dtype number %d does not exist", what, (int)dtype) != NULL;
    if (ndim < 0 || ndim > GD_MAX_DIMS || (ndim && !size)) {
        (void)gd_fail(ctx, GD_SHAPE, "%s: %d dimensions; a tensor has 0 to %d", what, ndim, GD_MAX_DIMS);
        return false;
    }
    int64_t numel = 1, bytes;
    for (int i = 0; i < ndim; i++) {
        if (size[i] < 0)
            return gd__refuse(ctx, GD_SHAPE, "%s: axis %d has size %lld", what, i, (long long)size[i]) !=
                   NULL;
        if (size[i] && __builtin_mul_overflow(numel, size[i], &numel)) numel = -1;
        if (numel < 0) break;
    }
    if (numel < 0 || __builtin_mul_overflow(numel, (int64_t)gd_dtype_size(dtype), &bytes))
        return gd__refuse(ctx, GD_OVERFLOW, "%s: the sizes multiply to more than 2^63 bytes", what) != NULL;
    return true;
}

gd_tensor *gd__new_checked(gd_device *device, const char *what, gd_dtype dtype, int ndim, const int64_t *size)
{
    return device && checked(device, what, dtype, ndim, size) ? gd__new(device, dtype, ndim, size) : NULL;
}

gd_tensor *gd__new_over(gd_device *device, const char *what, gd_dtype dtype, int ndim, const int64_t *size)
{
    return checked(device, what, dtype, ndim, size) ? shell(device->ctx, dtype, ndim, size) : NULL;
}

gd_status gd__storage_over(gd_tensor *t, gd_device *device, void *data, bool read_only,
                           void (*release)(void *user), void *user)
{
    gd_foreign *f = gd__alloc(t->head.ctx, sizeof *f);
    if (!f) return GD_NOMEM;
    *f = (gd_foreign){.storage = {.ctx = t->head.ctx,
                                  .device = device,
                                  .data = data,
                                  .bytes = (size_t)t->numel * gd__item_size(t),
                                  .refs = 1,
                                  .foreign = true,
                                  .read_only = read_only},
                      .release = release,
                      .user = user};
    if (t->head.ctx->recorder) f->storage.serial = ++t->head.ctx->storages;
    t->storage = &f->storage;
    t->data = data;
    return GD_OK;
}

gd_tensor *gd__bare(const gd_tensor *t)
{
    gd_tensor *a = shell(t->head.ctx, t->dtype, t->ndim, t->size);
    if (!a) return NULL;
    memcpy(a->stride, t->stride, sizeof a->stride);
    a->data = t->data;
    a->storage = t->storage;
    if (a->storage) a->storage->refs++;
    return a;
}

gd_tensor *gd__alias(const gd_tensor *t)
{
    gd_tensor *a = gd__bare(t);
    if (a) gd__axes_retain(a->axes = t->axes);
    return a;
}

gd_tensor *gd__new_like(const gd_tensor *t, gd_dtype dtype)
{
    gd_tensor *n = gd__new(t->storage->device, dtype, t->ndim, t->size);
    if (n) gd__axes_retain(n->axes = t->axes);
    return n;
}

gd_tensor *gd__new_laid(const gd_tensor *t, gd_dtype dtype)
{
    gd_tensor *n = gd__new_like(t, dtype);
    bool other = n && !gd__contiguous(t) && gd__dense(t);
    if (other) n->rows = false;
    for (int i = 0; other && i < t->ndim; i++)
        if (t->size[i] != 1) n->stride[i] = t->stride[i];
    return n;
}

gd_tensor *gd_retain(gd_tensor *t)
{
    gd__user_retain(t);
    return t;
}

void gd_release(gd_tensor *t) { gd__user_release(t); }

gd_tensor *gd_keep(gd_tensor *t)
{
    gd__keep(t);
    return t;
}

gd_tensor *gd_empty_on(gd_device *device, gd_dtype dtype, int ndim, const int64_t *shape)
{
    return gd__new_checked(device, "empty", dtype, ndim, shape);
}

gd_tensor *gd_empty(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape)
{
    return gd__new_checked(gd__cpu(ctx), "empty", dtype, ndim, shape);
}

gd_tensor *gd_detach(gd_tensor *t) { return gd__given1("detach", t) ? gd__alias(t) : NULL; }

/* ---- looking ---- */

gd_ctx *gd_tensor_ctx(const gd_tensor *t) { return t ? t->head.ctx : NULL; }

gd_dtype gd_tensor_dtype(const gd_tensor *t) { return t ? t->dtype : GD_DTYPE_COUNT; }

gd_device *gd_tensor_device(const gd_tensor *t) { return t && t->storage ? t->storage->device : NULL; }

int gd_ndim(const gd_tensor *t) { return t ? t->ndim : -1; }

int64_t gd_size(const gd_tensor *t, int axis)
{
    if (!t) return -1;
    if (axis < 0) axis += t->ndim;
    return axis >= 0 && axis < t->ndim ? t->size[axis] : -1;
}

const int64_t *gd_shape(const gd_tensor *t) { return t ? t->size : NULL; }

const int64_t *gd_strides(const gd_tensor *t) { return t ? t->stride : NULL; }

int64_t gd_numel(const gd_tensor *t) { return t ? t->numel : -1; }

bool gd__contiguous(const gd_tensor *t)
{
    int64_t step = 1;
    for (int i = t->ndim; i-- > 0;) {
        if (t->size[i] != 1 && t->stride[i] != step) return t->numel == 0;
        step *= t->size[i];
    }
    return true;
}

/* Finds axis after axis: the one whose stride equals the size so far. */
bool gd__dense(const gd_tensor *t)
{
    if (gd__contiguous(t)) return true;
    unsigned left = 0;
    for (int i = 0; i < t->ndim; i++) left |= (unsigned)(t->size[i] != 1) << i;
    for (int64_t step = 1; left;) {
        int i = 0;
        while (i < t->ndim && !(left >> i & 1 && t->stride[i] == step)) i++;
        if (i == t->ndim) return false;
        left &= ~(1u << i);
        step *= t->size[i];
    }
    return true;
}

bool gd_is_contiguous(const gd_tensor *t) { return t && gd__contiguous(t); }

const void *gd_data(const gd_tensor *t)
{
    if (!t) return NULL;
    if (t->storage->device != t->head.ctx->cpu) {
        (void)gd_fail(t->head.ctx, GD_DEVICE,
                      "data: the tensor is on %s; copy it with gd_read or gd_to_device",
                      t->storage->device->name);
        return NULL;
    }
    gd__host_reads(t, "gd_data");
    return t->data;
}

void *gd_data_mut(gd_tensor *t)
{
    if (!gd_data(t) || gd__writable("data_mut", t)) return NULL;
    gd__touch(t);
    gd__host_writes(t, "gd_data_mut");
    return t->data;
}

gd_status gd_read(const gd_tensor *t, void *out, size_t bytes)
{
    if (!t) return GD_ARGUMENT;
    gd_ctx *ctx = t->head.ctx;
    size_t need = (size_t)t->numel * gd__item_size(t);
    if (bytes != need)
        return gd_fail(ctx, GD_SHAPE, "read: the tensor has %zu bytes, the buffer %zu", need, bytes);
    gd__host_reads(t, "gd_read");
    if (t->storage->device == ctx->cpu && gd__contiguous(t)) {
        if (need) memcpy(out, t->data, need);
        return GD_OK;
    }
    gd_scope_begin(ctx);
    const gd_tensor *flat = t;
    gd_status status = GD_OK;
    if (!gd__contiguous(t)) {
        gd_tensor *copy = gd__new_like(t, t->dtype);
        status = copy ? gd__copy_into(copy, t) : GD_NOMEM;
        flat = copy;
    }
    if (!status && need)
        status = t->storage->device->backend->download(t->storage->device, out, flat->data, need);
    gd_scope_end(ctx);
    return status;
}

gd_status gd_read_f64(const gd_tensor *t, double *out, int64_t count)
{
    if (!t) return GD_ARGUMENT;
    gd_ctx *ctx = t->head.ctx;
    if (count != t->numel)
        return gd_fail(ctx, GD_SHAPE, "read_f64: the tensor has %lld elements, the buffer %lld",
                       (long long)t->numel, (long long)count);
    if (t->dtype == GD_F64) return gd_read(t, out, (size_t)count * sizeof *out);
    gd_scope_begin(ctx);
    gd_tensor *wide = gd__new_like(t, GD_F64);
    gd_status status = wide ? gd__copy_into(wide, t) : gd_fail(ctx, GD_NOMEM, NULL);
    if (!status) status = gd_read(wide, out, (size_t)count * sizeof *out);
    gd_scope_end(ctx);
    return status;
}

double gd_at(const gd_tensor *t, const int64_t *index)
{
    if (!t || (t->ndim && !index)) return gd__null(gd_tensor_ctx(t), "at: the index is NULL"), NAN;
    int64_t offset = 0;
    for (int i = 0; i < t->ndim; i++) {
        if (index[i] < 0 || index[i] >= t->size[i]) {
            char axis[64];
            (void)gd_fail(t->head.ctx, GD_INDEX, "at: index %lld on axis %s of size %lld",
                          (long long)index[i], gd__axis_text(t, i, axis), (long long)t->size[i]);
            return NAN;
        }
        offset += index[i] * t->stride[i];
    }
    gd__host_reads(t, "gd_item or gd_at");
    /* on the host, this needs no memory */
    if (gd_dtype_is_float(t->dtype) && t->storage->device == t->head.ctx->cpu)
        return gd__float_item(t->data + offset * (int64_t)gd__item_size(t), t->dtype, 0);
    gd_tensor one = *t; /* a 0-dimensional view of that element, on the stack */
    one.ndim = 0;
    one.numel = 1;
    one.axes = NULL;
    one.data = t->data + offset * (int64_t)gd__item_size(t);
    double value = NAN;
    return gd_read_f64(&one, &value, 1) ? NAN : value;
}

double gd_item(const gd_tensor *t)
{
    if (!t) return NAN;
    if (t->numel != 1) {
        char shape[256];
        (void)gd_fail(t->head.ctx, GD_SHAPE, "item: needs one element, the shape is %s",
                      gd__shape_text(t, shape, sizeof shape));
        return NAN;
    }
    return gd_at(t, (int64_t[GD_MAX_DIMS]){0});
}

/* ---- changing in place ---- */

gd_status gd_assign(gd_tensor *dst, const gd_tensor *src)
{
    if (!dst || !src) return gd__null(gd_tensor_ctx(dst ? dst : src), "assign: an operand is NULL");
    gd_ctx *ctx = dst->head.ctx;
    gd_status status = gd__writable("assign", dst);
    if (status) return status;
    gd_scope_begin(ctx);
    if (gd__may_differ(src, dst)) {
        uint8_t grad_off = ctx->grad_off;
        ctx->grad_off = 1;
        src = gd__placed_in("assign", (gd_tensor *)(uintptr_t)src, dst, -1);
        ctx->grad_off = grad_off;
        if (!src) {
            gd_scope_end(ctx);
            return gd_error(ctx);
        }
    }
    if (src->storage == dst->storage) { /* the two may overlap: the old values are used */
        gd_tensor *copy = gd__new_like(src, src->dtype);
        status = copy ? gd__copy_into(copy, src) : gd_error(ctx);
        src = copy;
    }
    if (!status) status = gd__copy_into(dst, src);
    if (!status) gd__touch(dst);
    gd_scope_end(ctx);
    return status;
}

gd_status gd_write_f64(gd_tensor *dst, const double *values, int64_t count)
{
    if (!gd__given1("write_f64", dst)) return GD_ARGUMENT;
    gd_ctx *ctx = dst->head.ctx;
    if (count != dst->numel)
        return gd_fail(ctx, GD_SHAPE, "write_f64: the tensor has %lld elements, %lld were given",
                       (long long)dst->numel, (long long)count);
    if (gd__writable("write_f64", dst)) return GD_STATE;
    if (dst->dtype == GD_F64 && dst->storage->device->backend == &gd__cpu_backend && gd__contiguous(dst)) {
        if (count && values) memmove(dst->data, values, (size_t)count * sizeof *values);
        if (!count || values) {
            gd__touch(dst);
            return GD_OK;
        }
    }
    gd_scope_begin(ctx);
    gd_tensor *src = gd_from_f64(ctx, GD_F64, dst->ndim, dst->size, values);
    if (src && dst->storage->device != ctx->cpu) src = gd_to_device(src, dst->storage->device);
    gd_status status = src ? gd__copy_into(dst, src) : gd_fail(ctx, GD_NOMEM, NULL);
    if (!status) gd__touch(dst);
    gd_scope_end(ctx);
    return status;
}

/* ---- checks shared by the operators ---- */

bool gd__given(const char *what, gd_tensor *const *t, int count)
{
    gd_ctx *ctx = NULL;
    bool all = true;
    if (!t) return count <= 0;
    for (int i = 0; i < count; i++) {
        if (!t[i])
            all = false;
        else if (!ctx)
            ctx = t[i]->head.ctx;
    }
    if (!all && ctx) (void)gd_fail(ctx, GD_ARGUMENT, "%s: an operand is NULL", what);
    return all;
}

bool gd__given1(const char *what, gd_tensor *t)
{
    (void)what;
    return t != NULL;
}

bool gd__given2(const char *what, gd_tensor *a, gd_tensor *b)
{
    return (a && b) || gd__given(what, (gd_tensor *[]){a, b}, 2);
}

bool gd__need_float(const char *what, const gd_tensor *t)
{
    if (gd_dtype_is_float(t->dtype)) return true;
    (void)gd_fail(t->head.ctx, GD_DTYPE, "%s: needs a floating dtype, got %s; cast it first", what,
                  gd_dtype_name(t->dtype));
    return false;
}

/* ---- text ---- */

typedef struct writer {
    char *out;
    size_t size, used;
} writer;

static void put(writer *w, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++, w->used++)
        if (w->used + 1 < w->size) w->out[w->used] = text[i];
}

static void put_level(writer *w, const gd_tensor *t, int axis, int64_t *index)
{
    if (axis == t->ndim) {
        char number[40];
        gd__format(number, sizeof number, "%.6g", gd_at(t, index));
        put(w, number);
        return;
    }
    put(w, "[");
    for (int64_t i = 0; i < t->size[axis]; i++) {
        if (i) put(w, axis == t->ndim - 1 ? ", " : ",\n ");
        if (t->size[axis] > 12 && i == 5) { /* only both ends of long axes are shown */
            put(w, "...");
            i = t->size[axis] - 5;
            put(w, axis == t->ndim - 1 ? ", " : ",\n ");
        }
        index[axis] = i;
        put_level(w, t, axis + 1, index);
    }
    put(w, "]");
}

#define MANY_ROWS 100 /* rows without elements that are printed */

/* Rows of a tensor without elements, as printed. */
static int64_t empty_rows(const gd_tensor *t)
{
    int64_t rows = 1;
    for (int i = 0; i < t->ndim && t->size[i]; i++) rows *= t->size[i] > 12 ? 11 : t->size[i];
    return rows;
}

int gd_format(const gd_tensor *t, char *out, size_t size)
{
    writer w = {out, out ? size : 0, 0};
    if (!t)
        put(&w, "NULL");
    else {
        char shape[512];
        if (t->numel || empty_rows(t) <= MANY_ROWS)
            put_level(&w, t, 0, (int64_t[GD_MAX_DIMS]){0});
        else
            put(&w, "[]");
        put(&w, "  ");
        put(&w, gd_dtype_name(t->dtype));
        put(&w, gd__shape_text(t, shape, sizeof shape));
    }
    if (w.size) out[w.used < size ? w.used : size - 1] = 0;
    return (int)w.used;
}
