/* Foreign memory, and DLPack; see gradus/dlpack.h. */
#include "gradus/dlpack.h"
#include "tensor/device.h"
#include "tensor/tensor_internal.h"

#include <string.h>

/* ---- the structs of DLPack 1.x; their layout is the format ---- */

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* strides NULL: row-major */
    uint64_t byte_offset;
} dl_tensor;

struct DLManagedTensor {
    dl_tensor tensor;
    void *manager;
    void (*deleter)(struct DLManagedTensor *self);
};

struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    dl_tensor tensor;
};

enum { DL_MAJOR = 1, DL_MINOR = 0, DL_READ_ONLY = 1 };

static const struct {
    uint8_t code, bits;
    gd_dtype dtype;
} dtypes[] = {{2, 32, GD_F32}, {2, 64, GD_F64}, {2, 16, GD_F16}, {4, 16, GD_BF16},
              {0, 32, GD_I32}, {0, 64, GD_I64}, {1, 8, GD_U8},   {6, 8, GD_BOOL}};
#define DTYPES ((int)(sizeof dtypes / sizeof *dtypes))

/* ---- foreign memory ---- */

/* Checks given strides: no element may be beyond the address space. */
static gd_status set_strides(gd_tensor *t, const int64_t *strides)
{
    int64_t reach = 0, size = (int64_t)gd__item_size(t);
    for (int i = 0; i < t->ndim && strides && t->numel; i++) {
        int64_t last, bytes;
        if (__builtin_mul_overflow(t->size[i] - 1, strides[i], &last) || last == INT64_MIN ||
            __builtin_mul_overflow(last < 0 ? -last : last, size, &bytes) ||
            __builtin_add_overflow(reach, bytes, &reach))
            return gd_fail(t->head.ctx, GD_OVERFLOW, "from_memory: axis %d reaches further than 2^63 bytes",
                           i);
        t->stride[i] = t->size[i] == 1 ? t->stride[i] : strides[i];
    }
    return GD_OK;
}

/* Elements that overlap cannot be changed one by one. */
static bool overlaps(const gd_tensor *t)
{
    for (int i = 0; i < t->ndim; i++)
        if (t->size[i] > 1 && t->stride[i] == 0) return t->numel > 0;
    return false;
}

static gd_status check_address(const gd_tensor *t, const char *what, const void *data)
{
    gd_ctx *ctx = t->head.ctx;
    if (!t->numel) return GD_OK; /* there are no elements */
    if (!data) return gd_fail(ctx, GD_ARGUMENT, "%s: the memory is NULL", what);
    if ((uintptr_t)data % gd__item_size(t) == 0) return GD_OK;
    return gd_fail(ctx, GD_ARGUMENT, "%s: the address is no multiple of %zu, the size of %s", what,
                   gd__item_size(t), gd_dtype_name(t->dtype));
}

gd_tensor *gd_from_memory(gd_device *device, gd_dtype dtype, int ndim, const int64_t *shape,
                          const int64_t *strides, void *data, int flags, void (*release)(void *user),
                          void *user)
{
    if (!device) return NULL;
    gd_ctx *ctx = device->ctx;
    if (!device->backend->dlpack) {
        (void)gd_fail(ctx, GD_DEVICE, "from_memory: %s takes no memory of others", device->name);
        return NULL;
    }
    gd_tensor *t = gd__new_over(device, "from_memory", dtype, ndim, shape);
    if (!t) return NULL;
    gd_status status = set_strides(t, strides);
    if (!status) status = check_address(t, "from_memory", data);
    if (!status && (flags & ~GD_READ_ONLY))
        status = gd_fail(ctx, GD_ARGUMENT, "from_memory: unknown flags %d", flags);
    bool fixed = (flags & GD_READ_ONLY) || overlaps(t);
    if (!status) status = gd__storage_over(t, device, data, fixed, release, user);
    if (!status) return t;
    gd_release(t);
    return NULL;
}

bool gd_is_read_only(const gd_tensor *t) { return t && t->storage && t->storage->read_only; }

gd_status gd_take_memory(gd_tensor *t, gd_tensor *of)
{
    if (!t || !of) return gd__null(gd_tensor_ctx(t ? t : of), "take_memory: a tensor is NULL");
    gd_ctx *ctx = t->head.ctx;
    char a[256], b[256];
    if (of->head.ctx != ctx) return gd_fail(ctx, GD_ARGUMENT, "take_memory: a tensor of a different context");
    if (t->node || of->node) return gd_fail(ctx, GD_GRAPH, "take_memory: a tensor is a result, not a leaf");
    if (!gd__same_shape(t, of))
        return gd_fail(ctx, GD_SHAPE, "take_memory: the memory is for %s, the tensor is %s",
                       gd__shape_text(of, a, sizeof a), gd__shape_text(t, b, sizeof b));
    if (t->leaf_grad && (gd_is_read_only(of) || !gd_dtype_is_float(of->dtype)))
        return gd_fail(ctx, GD_STATE, "take_memory: the tensor wants gradients, the memory is %s",
                       gd_is_read_only(of) ? "read-only" : gd_dtype_name(of->dtype));
    gd_tensor *look = gd__bare(of);
    if (!look) return gd_error(ctx);
    gd__swap_storage(t, look);
    gd__put_grad(t, NULL);
    gd_release(look);
    return GD_OK;
}

gd_status gd_point_at(gd_tensor *t, void *data)
{
    if (!t) return GD_ARGUMENT;
    gd_storage *s = t->storage;
    if (!s || !s->foreign || ((gd_foreign *)s)->release || t->node || t->data != s->data)
        return gd_fail(t->head.ctx, GD_ARGUMENT, "point_at: the tensor's memory is not borrowed");
    if (s->refs != 1 || t->head.refs != 1)
        return gd_fail(t->head.ctx, GD_STATE,
                       "point_at: there are other references to the tensor or its memory");
    gd_status status = check_address(t, "point_at", data);
    if (status) return status;
    t->data = s->data = data;
    gd__touch(t);
    t->head.ctx->changes++;
    return GD_OK;
}

/* ---- import ---- */

static gd_device *device_of(gd_ctx *ctx, const dl_tensor *d)
{
    gd_device *device = gd__device_of_dlpack(ctx, d->device_type, d->device_id);
    if (device) return device;
    (void)gd_fail(
        ctx, GD_DEVICE,
        "from_dlpack: memory of DLPack's device type %d, number %d; open that device with gd_device_get first",
        (int)d->device_type, (int)d->device_id);
    return NULL;
}

static bool read_dtype(gd_ctx *ctx, const dl_tensor *d, gd_dtype *dtype)
{
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].code == d->code && dtypes[i].bits == d->bits && d->lanes == 1) {
            *dtype = dtypes[i].dtype;
            return true;
        }
    (void)gd_fail(ctx, GD_DTYPE, "from_dlpack: elements of code %d with %d bits and %d lanes", d->code,
                  d->bits, d->lanes);
    return false;
}

static gd_tensor *taken_over(gd_ctx *ctx, const dl_tensor *d, bool read_only, void (*release)(void *),
                             void *capsule)
{
    gd_dtype dtype;
    gd_device *device = device_of(ctx, d);
    if (!device || !read_dtype(ctx, d, &dtype)) return NULL;
    if (d->ndim < 0 || d->ndim > GD_MAX_DIMS || (d->ndim && !d->shape)) {
        (void)gd_fail(ctx, GD_SHAPE, "from_dlpack: %d axes, 0 to %d are possible", (int)d->ndim, GD_MAX_DIMS);
        return NULL;
    }
    uintptr_t data = (uintptr_t)d->data;
    if (data && __builtin_add_overflow(data, d->byte_offset, &data)) {
        (void)gd_fail(ctx, GD_OVERFLOW, "from_dlpack: a byte offset of %llu leads beyond the last address",
                      (unsigned long long)d->byte_offset);
        return NULL;
    }
    return gd_from_memory(device, dtype, d->ndim, d->shape, d->strides, (void *)data,
                          read_only ? GD_READ_ONLY : 0, release, capsule);
}

static void end_versioned(void *capsule)
{
    struct DLManagedTensorVersioned *c = capsule;
    if (c->deleter) c->deleter(c);
}

static void end_unversioned(void *capsule)
{
    struct DLManagedTensor *c = capsule;
    if (c->deleter) c->deleter(c);
}

gd_tensor *gd_from_dlpack(gd_ctx *ctx, struct DLManagedTensorVersioned *capsule)
{
    if (!ctx) return NULL;
    if (!capsule) {
        (void)gd__null(ctx, "from_dlpack: the capsule is NULL");
        return NULL;
    }
    if (capsule->major != DL_MAJOR) {
        (void)gd_fail(ctx, GD_FORMAT, "from_dlpack: version %u of DLPack, %d is known",
                      (unsigned)capsule->major, DL_MAJOR);
        return NULL;
    }
    return taken_over(ctx, &capsule->tensor, capsule->flags & DL_READ_ONLY, end_versioned, capsule);
}

gd_tensor *gd_from_dlpack_unversioned(gd_ctx *ctx, struct DLManagedTensor *capsule)
{
    if (!ctx) return NULL;
    if (!capsule) {
        (void)gd__null(ctx, "from_dlpack: the capsule is NULL");
        return NULL;
    }
    return taken_over(ctx, &capsule->tensor, false, end_unversioned, capsule);
}

/* ---- export ---- */

/* The data of a capsule, which holds a reference to the tensor. */
typedef struct lent {
    gd_tensor *tensor;
    int64_t shape[GD_MAX_DIMS], strides[GD_MAX_DIMS];
    union {
        struct DLManagedTensor plain;
        struct DLManagedTensorVersioned versioned;
    } capsule;
} lent;

static void end_lent(lent *l)
{
    gd_ctx *ctx = l->tensor->head.ctx;
    gd_release(l->tensor);
    gd__free(ctx, l, sizeof *l);
}

static void end_plain(struct DLManagedTensor *self) { end_lent(self->manager); }
static void end_lent_versioned(struct DLManagedTensorVersioned *self) { end_lent(self->manager); }

static lent *lend(gd_tensor *t, dl_tensor **fill, bool versioned)
{
    if (!gd__given1("to_dlpack", t)) return NULL;
    gd_ctx *ctx = t->head.ctx;
    gd_device *device = gd_tensor_device(t);
    gd_status status = GD_OK;
    if (t->node || t->leaf_grad)
        status = gd_fail(ctx, GD_STATE,
                         "to_dlpack: the tensor has a history or wants gradients; gd_detach it first");
    else if (!device || !device->backend->dlpack)
        status = gd_fail(ctx, GD_DEVICE, "to_dlpack: DLPack has no word for %s", gd_device_name(device));
    else if (!versioned && gd_is_read_only(t))
        status = gd_fail(ctx, GD_STATE, "to_dlpack: a read-only tensor needs a versioned capsule");
    lent *l = status ? NULL : gd__calloc(ctx, sizeof *l);
    if (!l) return NULL;
    l->tensor = gd_retain(t);
    dl_tensor *d = versioned ? &l->capsule.versioned.tensor : &l->capsule.plain.tensor;
    *d = (dl_tensor){.data = t->data,
                     .device_type = device->backend->dlpack,
                     .device_id = device->index,
                     .ndim = t->ndim,
                     .lanes = 1,
                     .shape = l->shape,
                     .strides = l->strides};
    for (int i = 0; i < DTYPES; i++)
        if (dtypes[i].dtype == t->dtype) d->code = dtypes[i].code, d->bits = dtypes[i].bits;
    memcpy(l->shape, t->size, sizeof l->shape);
    memcpy(l->strides, t->stride, sizeof l->strides);
    *fill = d;
    return l;
}

struct DLManagedTensorVersioned *gd_to_dlpack(gd_tensor *t)
{
    dl_tensor *d;
    lent *l = lend(t, &d, true);
    if (!l) return NULL;
    gd__host_reads(t, "gd_to_dlpack");
    gd__host_writes(t, "gd_to_dlpack");
    struct DLManagedTensorVersioned *c = &l->capsule.versioned;
    c->major = DL_MAJOR;
    c->minor = DL_MINOR;
    c->manager = l;
    c->deleter = end_lent_versioned;
    c->flags = gd_is_read_only(t) ? DL_READ_ONLY : 0;
    return c;
}

struct DLManagedTensor *gd_to_dlpack_unversioned(gd_tensor *t)
{
    dl_tensor *d;
    lent *l = lend(t, &d, false);
    if (!l) return NULL;
    gd__host_reads(t, "gd_to_dlpack");
    gd__host_writes(t, "gd_to_dlpack");
    l->capsule.plain.manager = l;
    l->capsule.plain.deleter = end_plain;
    return &l->capsule.plain;
}
