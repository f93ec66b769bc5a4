/* Reading tensors of a different library: see torch.c. */
#include "torch/torch.h"

#include <gradus/dlpack.h>

enum { DL_CPU = 1, DL_CUDA = GD_PY_DL_CUDA, DL_PINNED = 3, DL_MANAGED = 13 };

int gd_py_refuse(PyObject *name, const char *what)
{
    (void)PyErr_Format(gd_py.error[GD_ARGUMENT], "gradus.torch: parameter '%U' %s", name, what);
    return 0;
}

static int read_dtype(const dl_tensor *d, gd_dtype *dtype)
{
    int bits = d->code == 5 ? d->bits / 2 : d->bits; /* complex numbers are pairs */
    *dtype = d->code == 4 && bits == 16     ? GD_BF16
             : d->code != 2 && d->code != 5 ? GD_DTYPE_COUNT
             : bits == 32                   ? GD_F32
             : bits == 64                   ? GD_F64
             : bits == 16 && d->code == 2   ? GD_F16
                                            : GD_DTYPE_COUNT;
    return d->lanes == 1 && *dtype != GD_DTYPE_COUNT;
}

static uint32_t kind_of(const dl_tensor *d)
{
    return d->code | (uint32_t)d->bits << 8 | (uint32_t)d->lanes << 16;
}

/* Dtype, device and strides of a tensor by DLPack; false with an exception that names the parameter. */
static int read_form(const dl_tensor *d, PyObject *name, int is_grad, form *f)
{
    int pairs = d->code == 5;
    if (d->ndim + pairs > GD_MAX_DIMS) return gd_py_refuse(name, "has more axes than 8");
    if (!read_dtype(d, &f->dtype))
        return gd_py_refuse(name, is_grad ? "has a gradient of no floating dtype" : "has no floating dtype");
    int64_t numel = 1, scale = pairs ? 2 : 1;
    f->ndim = d->ndim + pairs;
    f->pairs = pairs;
    for (int i = d->ndim; i-- > 0;) {
        f->axis[i].size = d->shape[i];
        f->axis[i].stride = scale * (d->strides ? d->strides[i] : numel);
        numel *= d->shape[i];
    }
    if (pairs) f->axis[d->ndim].size = 2, f->axis[d->ndim].stride = 1;
    if (d->device_type != DL_CPU && d->device_type != DL_PINNED && d->device_type != DL_CUDA &&
        d->device_type != DL_MANAGED)
        return gd_py_refuse(name, "is on a device that gradus has not");
    f->device_type = d->device_type;
    f->device_id = d->device_id;
    f->kind = kind_of(d);
    f->device = d->device_type == DL_CUDA || d->device_type == DL_MANAGED ? d->device_id : -1;
    f->data = d->data ? (char *)d->data + d->byte_offset : NULL;
    if (!f->data && numel)
        return gd_py_refuse(name, "has no memory of its own (a wrapper, fake or meta tensor)");
    return 1;
}

/* Is it as it was, but perhaps for where it lies? */
static int as_before(const dl_tensor *d, const form *f)
{
    if (kind_of(d) != f->kind || d->device_type != f->device_type || d->device_id != f->device_id ||
        d->ndim + f->pairs != f->ndim || !d->strides || (!d->data && f->data))
        return 0;
    for (int i = 0; i < d->ndim; i++)
        if (d->shape[i] != f->axis[i].size || d->strides[i] * (1 + f->pairs) != f->axis[i].stride) return 0;
    return 1;
}

int gd_py_look(py_borrower *self, PyObject *object, PyObject *name, int is_grad, form *f)
{
    dl_tensor d;
    if (Py_TYPE(object) != self->seen) {
        if (!PyObject_TypeCheck(object, (PyTypeObject *)self->type))
            return gd_py_refuse(name, is_grad ? "has a gradient that is no tensor" : "is no tensor");
        self->seen = Py_TYPE(object);
    }
    if (self->api->look(object, &d) < 0) {
        if (PyErr_ExceptionMatches(PyExc_MemoryError)) return BAD;
        PyErr_Clear();
        return gd_py_refuse(
            name, is_grad ? "has a gradient whose memory cannot be looked at (sparse, or of a subclass)"
                          : "has memory that cannot be looked at (sparse, quantized, or of a subclass)");
    }
    if (as_before(&d, f)) {
        f->data = d.data ? (char *)d.data + d.byte_offset : NULL;
        return SAME;
    }
    return read_form(&d, name, is_grad, f) ? OTHER : BAD;
}

gd_tensor *gd_py_tensor_over(gd_ctx *ctx, const form *f)
{
    char name[24] = "cpu";
    if (f->device >= 0) PyOS_snprintf(name, sizeof name, "gpu:%d", (int)f->device);
    int64_t shape[GD_MAX_DIMS], stride[GD_MAX_DIMS];
    for (int i = 0; i < f->ndim; i++) shape[i] = f->axis[i].size, stride[i] = f->axis[i].stride;
    gd_device *device = gd_device_get(ctx, name);
    return device ? gd_from_memory(device, f->dtype, f->ndim, shape, stride, f->data, 0, NULL, NULL) : NULL;
}

int gd_py_is_plain(PyObject *object, PyObject *name)
{
    static const char *const views[] = {"is_conj", "is_neg"};
    for (int i = 0; i < 2; i++) {
        PyObject *said = PyObject_CallMethod(object, views[i], NULL);
        int is_view = said ? PyObject_IsTrue(said) : -1;
        Py_XDECREF(said);
        if (is_view < 0) return 0;
        if (is_view) return gd_py_refuse(name, "is a conjugate or negative view");
    }
    return 1;
}
