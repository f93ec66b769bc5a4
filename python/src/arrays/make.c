/* Tensors from lists, numbers and buffers, and their elements as Python objects. */
#include "core.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- dtypes ---- */

typedef struct alias {
    const char *name;
    gd_dtype dtype;
} alias;
static const alias aliases[] = {{"float32", GD_F32},   {"float64", GD_F64}, {"float16", GD_F16},
                                {"bfloat16", GD_BF16}, {"int32", GD_I32},   {"int64", GD_I64},
                                {"uint8", GD_U8},      {"float", GD_F64},   {"int", GD_I64}};

static gd_dtype dtype_of_text(const char *text)
{
    gd_dtype dtype = gd_dtype_from_name(text);
    if (dtype != GD_DTYPE_COUNT) return dtype;
    if (!strncmp(text, "torch.", 6)) text += 6;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcmp(text, aliases[i].name)) return aliases[i].dtype;
    return gd_dtype_from_name(text);
}

/* A text, or what has a name: NumPy's types and dtypes, torch's, float, int, bool. */
gd_dtype gd_py_dtype(PyObject *o)
{
    for (int i = 0; i < GD_DTYPE_COUNT; i++)
        if (o == gd_py.dtype[i]) return (gd_dtype)i;
    PyObject *name = PyUnicode_Check(o) ? Py_NewRef(o) : NULL;
    if (!name && !(name = PyObject_GetAttrString(o, "__name__"))) {
        PyErr_Clear();
        if (!(name = PyObject_GetAttrString(o, "name"))) {
            PyErr_Clear();
            name = PyObject_Str(o);
        }
    }
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    gd_dtype dtype = text ? dtype_of_text(text) : GD_DTYPE_COUNT;
    if (dtype == GD_DTYPE_COUNT && !PyErr_Occurred() && PyNumber_Check(o))
        PyErr_Format(
            gd_py.error[GD_DTYPE],
            "a dtype is a name such as 'f64', not the number %R; sizes are given together, as (2, 3)", o);
    else if (text && dtype == GD_DTYPE_COUNT && strstr(text, "complex"))
        (void)gd_py_fail(GD_DTYPE, "no dtype %R: there are no complex numbers", o);
    else if (dtype == GD_DTYPE_COUNT && !PyErr_Occurred())
        (void)gd_py_fail(GD_DTYPE, "no dtype %R: there are f32, f64, f16, bf16, i32, i64, u8 and bool", o);
    Py_XDECREF(name);
    return dtype;
}

PyObject *gd_py_dtype_object(gd_dtype dtype)
{
    PyObject *object = gd_py.dtype[dtype];
    return object ? Py_NewRef(object) : PyUnicode_InternFromString(gd_dtype_name(dtype));
}

/* _dtype(what): the object that stands for a dtype. */
static PyObject *dtype_object(PyObject *module, PyObject *what)
{
    (void)module;
    gd_dtype dtype = gd_py_dtype(what);
    return dtype == GD_DTYPE_COUNT ? NULL : gd_py_dtype_object(dtype);
}

/* _set_dtypes(objects): texts of the package that stand for dtypes, in any order. */
static PyObject *set_dtypes(PyObject *module, PyObject *objects)
{
    (void)module;
    for (Py_ssize_t i = 0; i < PyTuple_Size(objects); i++) {
        PyObject *object = PyTuple_GetItem(objects, i);
        gd_dtype dtype = gd_py_dtype(object);
        if (dtype == GD_DTYPE_COUNT) return NULL;
        gd_py_set(&gd_py.dtype[dtype], Py_NewRef(object));
    }
    Py_RETURN_NONE;
}

int gd_py_range(gd_dtype dtype, int64_t *low, int64_t *high)
{
    if (dtype != GD_U8 && dtype != GD_I32 && dtype != GD_I64) return 0;
    *low = dtype == GD_U8 ? 0 : dtype == GD_I32 ? INT32_MIN : INT64_MIN;
    *high = dtype == GD_U8 ? UINT8_MAX : dtype == GD_I32 ? INT32_MAX : INT64_MAX;
    return 1;
}

/* ---- buffers ---- */

/* An element type that a buffer may have: code of the struct module, bytes, and the dtype that holds its values. */
typedef struct element {
    char kind; /* i, u, f, b */
    int bytes;
    int swapped;
} element;

static int read_format(const char *format, Py_ssize_t bytes, element *e)
{
    const uint16_t probe = 1;
    int little = *(const unsigned char *)&probe == 1;
    *e = (element){'u', (int)bytes, 0};
    if (!format) return 1;
    if (*format == '@' || *format == '=' || *format == '<' || *format == '>' || *format == '!') {
        e->swapped = (*format == '<' && !little) || ((*format == '>' || *format == '!') && little);
        format++;
    }
    if (!format[0] || format[1]) return 0;
    if (strchr("bhilqn", *format))
        e->kind = 'i';
    else if (strchr("BHILQN", *format))
        e->kind = 'u';
    else if (strchr("efd", *format))
        e->kind = 'f';
    else if (*format == '?')
        e->kind = 'b';
    else
        return 0;
    if (e->bytes == 1) e->swapped = 0;
    return 1;
}

/* The dtype that holds every value of an element type; GD_DTYPE_COUNT: none. */
static gd_dtype dtype_of_element(element e)
{
    if (e.kind == 'f')
        return e.bytes == 8 ? GD_F64 : e.bytes == 4 ? GD_F32 : e.bytes == 2 ? GD_F16 : GD_DTYPE_COUNT;
    if (e.kind == 'b') return GD_BOOL;
    if (e.kind == 'u' && e.bytes == 1) return GD_U8;
    if (e.bytes < 4 || (e.kind == 'i' && e.bytes == 4)) return GD_I32;
    return GD_I64;
}

static int is_native(element e)
{
    gd_dtype dtype = dtype_of_element(e);
    return !e.swapped && dtype != GD_DTYPE_COUNT && (int)gd_dtype_size(dtype) == e.bytes &&
           !(e.kind == 'u' && e.bytes > 1);
}

static void release_buffer(void *user)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(user);
    PyMem_Free(user);
    PyGILState_Release(state);
}

/* A tensor over the buffer, which it then owns; NULL with an error recorded. */
static gd_tensor *over_buffer(gd_ctx *ctx, Py_buffer *view, gd_dtype dtype)
{
    int64_t shape[GD_MAX_DIMS], stride[GD_MAX_DIMS];
    for (int i = 0; i < view->ndim; i++) {
        shape[i] = view->shape[i];
        stride[i] = view->strides[i] / view->itemsize;
        if (view->strides[i] % view->itemsize) {
            (void)gd_fail(ctx, GD_SHAPE, "tensor: elements of the buffer are not whole elements apart");
            return NULL;
        }
    }
    return gd_from_memory(gd_device_get(ctx, "cpu"), dtype, view->ndim, shape, stride, view->buf,
                          view->readonly ? GD_READ_ONLY : 0, release_buffer, view);
}

/* One element, widened to 64 bits. */
static int64_t whole_at(const unsigned char *p, element e)
{
    uint64_t bits = 0;
    for (int i = 0; i < e.bytes; i++) {
        int from = e.swapped ? i : e.bytes - 1 - i;
        bits = bits << 8 | p[from];
    }
    if (e.kind == 'i' && e.bytes < 8 && bits >> (8 * e.bytes - 1)) bits |= ~(uint64_t)0 << (8 * e.bytes);
    return (int64_t)bits;
}

/* Copies what has no dtype of its own: narrow integers, other byte orders. */
static gd_tensor *widened(gd_ctx *ctx, const Py_buffer *view, element e)
{
    gd_dtype dtype = dtype_of_element(e);
    int64_t shape[GD_MAX_DIMS], count = 1, index[GD_MAX_DIMS] = {0};
    for (int i = 0; i < view->ndim; i++) count *= shape[i] = view->shape[i];
    size_t bytes = gd_dtype_size(dtype);
    unsigned char *data = PyMem_Malloc((size_t)count * bytes + 1);
    if (!data) return NULL;
    for (int64_t k = 0; k < count; k++) {
        const unsigned char *p = view->buf;
        for (int i = 0; i < view->ndim; i++) p += index[i] * view->strides[i];
        int64_t value = whole_at(p, e);
        if (e.kind == 'u' && e.bytes == 8 && value < 0) {
            (void)gd_fail(ctx, GD_VALUE, "tensor: an unsigned number of 2^63 or more does not fit into i64");
            break;
        }
        int32_t half = (int32_t)value;
        uint16_t narrow = (uint16_t)value;
        uint8_t byte = (uint8_t)value;
        memcpy(data + (size_t)k * bytes,
               bytes == 8   ? (void *)&value
               : bytes == 4 ? (void *)&half
               : bytes == 2 ? (void *)&narrow
                            : (void *)&byte,
               bytes);
        for (int i = view->ndim; i-- > 0 && ++index[i] == shape[i];) index[i] = 0;
    }
    gd_tensor *t = gd_error(ctx) ? NULL : gd_from_data(ctx, dtype, view->ndim, shape, data);
    PyMem_Free(data);
    return t;
}

/* Takes the buffer.  NULL with an error recorded or raised. */
static gd_tensor *from_buffer(gd_py_context *c, Py_buffer *view, int share)
{
    element e;
    if (!read_format(view->format, view->itemsize, &e) || dtype_of_element(e) == GD_DTYPE_COUNT)
        (void)gd_fail(c->ctx, GD_DTYPE, "tensor: elements of format '%s' have no dtype", view->format);
    else if (view->ndim > GD_MAX_DIMS)
        (void)gd_fail(c->ctx, GD_SHAPE, "tensor: %d axes, at most %d are possible", view->ndim, GD_MAX_DIMS);
    else if (is_native(e) && ((uintptr_t)view->buf % gd_dtype_size(dtype_of_element(e)) == 0)) {
        gd_tensor *look = over_buffer(c->ctx, view, dtype_of_element(e));
        if (!look) release_buffer(view);
        if (!look || share) return look;
        gd_tensor *copy = gd_copy(look);
        gd_release(look);
        return copy;
    } else {
        gd_tensor *t = widened(c->ctx, view, e);
        release_buffer(view);
        return t;
    }
    release_buffer(view);
    return NULL;
}

/* ---- lists ---- */

typedef struct reading {
    int64_t shape[GD_MAX_DIMS];
    int ndim;
    int has_real, has_whole, has_flag;
    double *real;
    int64_t *whole;
    size_t count, capacity;
} reading;

static int grow(reading *r)
{
    if (r->count < r->capacity) return 1;
    size_t capacity = r->capacity ? 2 * r->capacity : 16;
    double *real = PyMem_Realloc(r->real, capacity * sizeof *real);
    if (real) r->real = real;
    int64_t *whole = real ? PyMem_Realloc(r->whole, capacity * sizeof *whole) : NULL;
    if (whole) r->whole = whole;
    if (!whole) return PyErr_NoMemory() != NULL;
    r->capacity = capacity;
    return 1;
}

/* A number of NumPy's as Python's: whole or a flag or with fractions, as it is. */
static PyObject *scalar_of(PyObject *o)
{
    gd_py_context *c = PyObject_CheckBuffer(o) ? gd_py_current() : NULL;
    if (!PyObject_CheckBuffer(o)) return PyNumber_Index(o);
    PyObject *t = c ? gd_py_make(c, o, GD_DTYPE_COUNT, 0) : NULL, *number = NULL;
    if (t) number = gd_py_item((gd_py_tensor *)t);
    Py_XDECREF(t);
    return number;
}

static int read_number(reading *r, PyObject *o)
{
    if (!grow(r)) return 0;
    size_t k = r->count++;
    r->whole[k] = 0;
    if (PyFloat_Check(o)) {
        r->has_real = 1;
        r->real[k] = PyFloat_AsDouble(o);
        return 1;
    }
    if (PyBool_Check(o)) {
        r->has_flag = 1;
        r->real[k] = (double)(r->whole[k] = o == Py_True);
        return 1;
    }
    if (PyLong_Check(o)) {
        r->has_whole = 1;
        r->real[k] = PyLong_AsDouble(o);
        int overflow;
        r->whole[k] = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow) r->whole[k] = 0;
        return !PyErr_Occurred();
    }
    if (gd_py_is_tensor_like(o)) {
        PyObject *value = gd_py_as_tensor(o), *item = value ? gd_py_item((gd_py_tensor *)value) : NULL;
        r->count--;
        int fine = item && read_number(r, item);
        Py_XDECREF(item);
        Py_XDECREF(value);
        return fine;
    }
    if (PyObject_CheckBuffer(o) || PyIndex_Check(o)) { /* NumPy's numbers */
        PyObject *number = scalar_of(o);
        r->count--;
        int fine = number && read_number(r, number);
        Py_XDECREF(number);
        return fine;
    }
    r->has_real = 1;
    r->real[k] = PyFloat_AsDouble(o);
    if (r->real[k] != -1.0 || !PyErr_Occurred()) return 1;
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "tensor: numbers or lists of them are needed, not %R",
                 (PyObject *)Py_TYPE(o));
    return 0;
}

static int is_list(PyObject *o) { return PyList_Check(o) || PyTuple_Check(o) || PyRange_Check(o); }

static int read_list(reading *r, PyObject *o, int level)
{
    if (!is_list(o)) {
        if (level == r->ndim) return read_number(r, o);
        PyErr_SetString(gd_py.error[GD_SHAPE], "tensor: a number stands where others have lists");
        return 0;
    }
    Py_ssize_t n = PySequence_Size(o);
    if (level >= r->ndim || n != r->shape[level]) {
        PyErr_Format(gd_py.error[GD_SHAPE], level >= r->ndim
                                                ? "tensor: a list stands where others have numbers"
                                                : "tensor: lists of one level have different lengths");
        return 0;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(o, i);
        int fine = item && read_list(r, item, level + 1);
        Py_XDECREF(item);
        if (!fine) return 0;
    }
    return 1;
}

/* The lengths of the first list of each level. */
static int read_shape(reading *r, PyObject *o)
{
    PyObject *at = Py_NewRef(o);
    while (at && is_list(at)) {
        if (r->ndim == GD_MAX_DIMS) {
            Py_DECREF(at);
            return gd_py_fail(GD_SHAPE, "tensor: lists are nested more than %d deep", GD_MAX_DIMS) != NULL;
        }
        Py_ssize_t n = PySequence_Size(at);
        r->shape[r->ndim++] = n;
        PyObject *next = n ? PySequence_GetItem(at, 0) : Py_NewRef(Py_None);
        Py_DECREF(at);
        at = next;
    }
    Py_XDECREF(at);
    return at != NULL;
}

/* Whole numbers and others that the dtype cannot hold are refused. */
static int all_fit(const reading *r, gd_dtype dtype)
{
    int64_t low, high;
    if (!gd_py_range(dtype, &low, &high)) return 1;
    for (size_t k = 0; k < r->count; k++) {
        /* f64 cannot tell the ends of i64 from larger numbers; r->whole can: it is 0 for numbers that do not fit */
        double x = r->real[k];
        int fits = x > (double)low - 1 && x < (double)high + 1;
        if (dtype == GD_I64) fits = x > -0x1p63 && x < 0x1p63;
        if (dtype == GD_I64 && (r->whole[k] == INT64_MAX || r->whole[k] == INT64_MIN)) fits = 1;
        if (fits || x != x) continue;
        (void)gd_py_fail(GD_OVERFLOW, "tensor: %.17g does not fit into %s, which holds %lld to %lld", x,
                         gd_dtype_name(dtype), (long long)low, (long long)high);
        return 0;
    }
    return 1;
}

static gd_tensor *from_lists(gd_py_context *c, PyObject *o, gd_dtype dtype)
{
    reading r = {.ndim = 0};
    gd_tensor *t = NULL;
    if (read_shape(&r, o) && read_list(&r, o, 0) &&
        gd_py_enter(c)) { /* again: reading may have run Python code */
        if (dtype == GD_DTYPE_COUNT) dtype = r.has_real || !r.count ? GD_F64 : r.has_whole ? GD_I64 : GD_BOOL;
        if (!all_fit(&r, dtype))
            t = NULL;
        else if (dtype == GD_I64 && !r.has_real)
            t = gd_from_data(c->ctx, GD_I64, r.ndim, r.shape, r.count ? r.whole : (int64_t[1]){0});
        else
            t = gd_from_f64(c->ctx, dtype, r.ndim, r.shape, r.count ? r.real : (double[1]){0});
    }
    PyMem_Free(r.real);
    PyMem_Free(r.whole);
    return t;
}

static int is_nested(PyObject *o) { return PyList_Check(o) || PyTuple_Check(o); }

/* Tensors in a list, at any depth. */
typedef struct tensors_seen {
    PyObject *like; /* the first that is no condition: numbers beside it take its dtype; a reference */
    int whole;      /* are they more than numbers: with gradients to flow through, or several elements? */
} tensors_seen;

static int see_tensors(tensors_seen *seen, PyObject *o, int level)
{
    if (is_nested(o)) {
        Py_ssize_t n = level < GD_MAX_DIMS ? PySequence_Size(o) : 0;
        int fine = 1;
        for (Py_ssize_t i = 0; i < n && fine; i++) {
            PyObject *item = PySequence_GetItem(o, i);
            fine = item && see_tensors(seen, item, level + 1);
            Py_XDECREF(item);
        }
        return fine;
    }
    if (PyFloat_Check(o) || PyLong_Check(o)) return 1; /* most are: no look at attributes */
    PyObject *value = gd_py_as_tensor(o);
    const gd_tensor *t = value ? gd_py_tensor_of(value) : NULL;
    if (t) {
        seen->whole |= level == 1 || gd_requires_grad(t) || gd_numel(t) != 1;
        if (!seen->like || gd_tensor_dtype(((gd_py_tensor *)seen->like)->t) == GD_BOOL)
            gd_py_set(&seen->like, Py_NewRef(value));
    }
    Py_XDECREF(value);
    return !PyErr_Occurred();
}

static gd_tensor *stacked(gd_py_context *c, PyObject *o, const gd_tensor *like);

/* An element of such a list as a tensor, new; NULL with an error recorded or raised. */
static gd_tensor *piece_of(gd_py_context *c, PyObject *item, const gd_tensor *like)
{
    if (is_nested(item)) return stacked(c, item, like);
    PyObject *number = PyFloat_Check(item) || PyLong_Check(item) ? Py_NewRef(item) : gd_py_plain_number(item);
    gd_tensor *t = NULL;
    if (number) {
        t = gd_py_number(c->ctx, number, like);
        Py_DECREF(number);
        return t;
    }
    PyObject *tensor = PyErr_Occurred() ? NULL : gd_py_as_tensor(item);
    if (tensor && gd_py_tensor_of(tensor)) t = gd_retain(((gd_py_tensor *)tensor)->t);
    Py_XDECREF(tensor);
    if (!tensor && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "tensor: a list has tensors and %R", (PyObject *)Py_TYPE(item));
    return t;
}

static gd_tensor *stacked(gd_py_context *c, PyObject *o, const gd_tensor *like)
{
    Py_ssize_t n = PySequence_Size(o), done = 0;
    gd_tensor **piece = PyMem_Calloc((size_t)n + 1, sizeof *piece), *t = NULL;
    for (; piece && done < n; done++) {
        PyObject *item = PySequence_GetItem(o, done);
        piece[done] = item ? piece_of(c, item, like) : NULL;
        Py_XDECREF(item);
        if (!piece[done]) break;
    }
    if (piece && done == n) t = gd_stack(piece, (int)n, 0, NULL);
    for (Py_ssize_t i = 0; i < done; i++) gd_release(piece[i]);
    PyMem_Free(piece);
    return t;
}

/* A tensor of a list of tensors: they are stacked, with gradients.  *is_one: is it such a list? */
static gd_tensor *from_tensors(gd_py_context *c, PyObject *o, int *is_one)
{
    tensors_seen seen = {0};
    gd_tensor *t = NULL;
    *is_one = (is_nested(o) && !see_tensors(&seen, o, 0)) || (seen.like && seen.whole);
    if (*is_one && !PyErr_Occurred()) t = stacked(c, o, ((gd_py_tensor *)seen.like)->t);
    Py_XDECREF(seen.like);
    return t;
}

/* ---- anything ---- */

static gd_tensor *made(gd_py_context *c, PyObject *data, gd_dtype dtype, int share);

/* A tensor of an object that NumPy converts to an array: columns of pandas and others. */
static gd_tensor *from_array(gd_py_context *c, PyObject *data, gd_dtype dtype, int share)
{
    PyObject *numpy = PyImport_ImportModule("numpy");
    PyObject *array = numpy ? PyObject_CallMethod(numpy, "asarray", "O", data) : NULL;
    gd_tensor *t = array ? made(c, array, dtype, share) : NULL;
    Py_XDECREF(numpy);
    Py_XDECREF(array);
    return t;
}

static gd_tensor *made(gd_py_context *c, PyObject *data, gd_dtype dtype, int share)
{
    if (gd_py_is_tensor(data)) {
        gd_tensor *t = gd_py_tensor_of(data);
        return share ? gd_retain(t) : gd_copy(t);
    }
    if (gd_py_is_virtual(data)) {
        PyObject *value = gd_py_virtual_value(data);
        gd_tensor *t = value ? made(c, value, dtype, share) : NULL;
        Py_XDECREF(value);
        return t;
    }
    int holds_tensors;
    gd_tensor *joined = from_tensors(c, data, &holds_tensors);
    if (holds_tensors) return joined;
    if (PyList_CheckExact(data) || PyTuple_CheckExact(data)) return from_lists(c, data, dtype);
    if (PyObject_CheckBuffer(data) && !PyBytes_Check(data)) {
        Py_buffer *view = PyMem_Calloc(1, sizeof *view);
        if (!view) return (gd_tensor *)PyErr_NoMemory();
        if (PyObject_GetBuffer(data, view, PyBUF_FULL) < 0) {
            PyErr_Clear();
            if (PyObject_GetBuffer(data, view, PyBUF_FULL_RO) < 0) {
                PyMem_Free(view);
                return NULL;
            }
        }
        return from_buffer(c, view, share);
    }
    if (PyObject_HasAttrString(data, "__dlpack__")) {
        PyObject *o = gd_py_from_dlpack(NULL, data);
        if (!o) return NULL;
        gd_tensor *t = ((gd_py_tensor *)o)->t;
        t = share ? gd_retain(t) : gd_copy(t);
        Py_DECREF(o);
        return t;
    }
    if (!PyType_Check(data) && PyObject_HasAttrString(data, "__array__"))
        return from_array(c, data, dtype, share);
    if (is_list(data) || PyNumber_Check(data)) return from_lists(c, data, dtype);
    PyErr_Format(PyExc_NotImplementedError,
                 "tensor: numbers, lists, buffers and objects with __dlpack__ or __array__ are fine, not %R",
                 (PyObject *)Py_TYPE(data));
    return NULL;
}

PyObject *gd_py_make(gd_py_context *c, PyObject *data, gd_dtype dtype, int share)
{
    gd_tensor *t = made(c, data, dtype, share);
    if (!t) return PyErr_Occurred() ? NULL : gd_py_raise(c);
    if (dtype != GD_DTYPE_COUNT && gd_tensor_dtype(t) != dtype) {
        gd_tensor *cast = gd_cast(t, dtype);
        gd_release(t);
        t = cast;
    }
    if (t && share && gd_py_is_tensor(data) && t == ((gd_py_tensor *)data)->t) {
        gd_release(t);
        return Py_NewRef(data);
    }
    return gd_py_new_tensor(c, t);
}

static PyObject *make_function(PyObject *const *args, Py_ssize_t n, PyObject *names, int share)
{
    PyObject *data = n ? args[0] : NULL, *dtype = n > 1 ? args[1] : Py_None;
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        if (PyUnicode_CompareWithASCIIString(name, "dtype") == 0)
            dtype = args[n + i];
        else if (PyUnicode_CompareWithASCIIString(name, "data") == 0)
            data = args[n + i];
        else
            return PyErr_Format(PyExc_TypeError, "tensor has no argument '%U'", name);
    }
    if (!data || n > 2)
        return PyErr_Format(PyExc_TypeError, "one thing to make a tensor of is needed, and its dtype");
    gd_dtype kind = dtype == Py_None ? GD_DTYPE_COUNT : gd_py_dtype(dtype);
    if (dtype != Py_None && kind == GD_DTYPE_COUNT) return NULL;
    gd_py_context *c = gd_py_current();
    return c ? gd_py_make(c, data, kind, share) : NULL;
}
static PyObject *make_tensor(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)module;
    return make_function(args, n, names, 0);
}
static PyObject *make_shared(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)module;
    return make_function(args, n, names, 1);
}

static PyObject *make_seed(PyObject *module, PyObject *seed)
{
    (void)module;
    gd_py_context *c = gd_py_current();
    uint64_t value = PyLong_AsUnsignedLongLongMask(seed);
    if (!c || PyErr_Occurred()) return NULL;
    gd_seed(c->ctx, value);
    Py_RETURN_NONE;
}

PyMethodDef gd_py_make_functions[] = {
    {"tensor", (PyCFunction)(void (*)(void))make_tensor, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"asarray", (PyCFunction)(void (*)(void))make_shared, METH_FASTCALL | METH_KEYWORDS,
     "asarray(data, dtype=None)\n--\n\n"
     "A tensor over the same memory where data is an array (NumPy, any buffer, any object with __dlpack__) of a dtype that there "
     "is; else a copy."},
    {"from_dlpack", gd_py_from_dlpack, METH_O,
     "from_dlpack(object, /)\n--\n\nA tensor over the memory of an object with __dlpack__: NumPy, PyTorch, JAX, CuPy."},
    {"_dtype", dtype_object, METH_O, NULL},
    {"_set_dtypes", set_dtypes, METH_O, NULL},
    {"seed", make_seed, METH_O,
     "seed(number, /)\n--\n\nStarts the random numbers of the current context anew."},
    {NULL, NULL, 0, NULL}};

/* ---- back to Python ---- */

static double half_value(uint16_t bits, int is_bfloat)
{
    if (is_bfloat) {
        uint32_t wide = (uint32_t)bits << 16;
        float f;
        memcpy(&f, &wide, sizeof f);
        return (double)f;
    }
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                 : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
}

static PyObject *number_at(const void *data, gd_dtype dtype)
{
    switch (dtype) {
    case GD_F64: return PyFloat_FromDouble(*(const double *)data);
    case GD_F32: return PyFloat_FromDouble((double)*(const float *)data);
    case GD_I64: return PyLong_FromLongLong(*(const int64_t *)data);
    case GD_I32: return PyLong_FromLong(*(const int32_t *)data);
    case GD_U8: return PyLong_FromLong(*(const uint8_t *)data);
    case GD_BOOL: return PyBool_FromLong(*(const uint8_t *)data);
    default: return PyFloat_FromDouble(half_value(*(const uint16_t *)data, dtype == GD_BF16));
    }
}

PyObject *gd_py_item(gd_py_tensor *self)
{
    gd_tensor *t = gd_py_tensor_of((PyObject *)self);
    double room;
    if (!t || !gd_py_note_read((PyObject *)self)) return NULL;
    if (gd_numel(t) != 1)
        return gd_py_fail(GD_SHAPE, "item: the tensor has %lld elements, not one", (long long)gd_numel(t));
    gd_dtype dtype = gd_tensor_dtype(t);
    if (gd_read(t, &room, gd_dtype_size(dtype))) return gd_py_raise(self->head.owner);
    return number_at(&room, dtype);
}

static PyObject *list_level(const gd_tensor *t, int level, const char **at)
{
    size_t bytes = gd_dtype_size(gd_tensor_dtype(t));
    if (level == gd_ndim(t)) {
        PyObject *number = number_at(*at, gd_tensor_dtype(t));
        *at += bytes;
        return number;
    }
    PyObject *list = PyList_New((Py_ssize_t)gd_size(t, level));
    for (int64_t i = 0; i < gd_size(t, level) && list; i++) {
        PyObject *item = list_level(t, level + 1, at);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

PyObject *gd_py_tolist(gd_py_tensor *self)
{
    gd_tensor *t = gd_py_tensor_of((PyObject *)self);
    if (!t || !gd_py_note_read((PyObject *)self)) return NULL;
    size_t bytes = (size_t)gd_numel(t) * gd_dtype_size(gd_tensor_dtype(t));
    char *data = PyMem_Malloc(bytes + 1);
    if (!data) return PyErr_NoMemory();
    const char *at = data;
    PyObject *list = bytes && gd_read(t, data, bytes) ? gd_py_raise(self->head.owner) : list_level(t, 0, &at);
    PyMem_Free(data);
    return list;
}
