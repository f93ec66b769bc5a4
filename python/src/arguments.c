/* Arguments of generated operators: a table of parameters says what each is. */
#include "arrays/operators.h"

#include <stdio.h>
#include <string.h>

static int held(gd_py_call *call, PyObject *o) /* takes the reference */
{
    if (call->held_count == GD_PY_MOST_PARAMETERS) {
        Py_DECREF(o);
        PyErr_SetString(PyExc_SystemError, "more operands than parameters");
        return 0;
    }
    call->held[call->held_count++] = o;
    return 1;
}

gd_tensor *gd_py_operand(gd_py_call *call, PyObject *o, const gd_tensor *like)
{
    if (gd_py_is_tensor(o)) return gd_py_tensor_of(o);
    if (PyFloat_Check(o) || PyLong_Check(o)) {
        gd_tensor *t = gd_py_number(call->context->ctx, o, like);
        if (!t) return PyErr_Occurred() ? NULL : (gd_tensor *)gd_py_raise(call->context);
        if (call->made_count < GD_PY_MOST_PARAMETERS) call->made[call->made_count++] = t;
        return t;
    }
    PyObject *number = gd_py_plain_number(o);
    if (number) {
        gd_tensor *t = gd_py_operand(call, number, like);
        Py_DECREF(number);
        return t;
    }
    if (PyErr_Occurred()) return NULL;
    PyObject *made = gd_py_is_virtual(o) ? gd_py_virtual_value(o)
                                         : gd_py_make(call->context, o, GD_DTYPE_COUNT, 1);
    return made && held(call, made) ? gd_py_tensor_of(made) : NULL;
}

gd_tensor *gd_py_value_for(gd_py_call *call, PyObject *o, const gd_tensor *x)
{
    int64_t low, high;
    if (!(PyList_Check(o) || PyTuple_Check(o)) || !gd_py_range(gd_tensor_dtype(x), &low, &high))
        return gd_py_operand(call, o, x);
    PyObject *made = gd_py_make(call->context, o, gd_tensor_dtype(x), 1);
    return made && held(call, made) ? gd_py_tensor_of(made) : NULL;
}

void gd_py_call_clear(gd_py_call *call)
{
    for (int i = 0; i < call->made_count; i++) gd_release(call->made[i]);
    for (int i = 0; i < call->held_count; i++) Py_DECREF(call->held[i]);
    for (int i = 0; i < call->count; i++)
        if (call->value[i].list) PyMem_Free(call->value[i].list);
    call->made_count = call->held_count = call->count = 0;
}

int gd_py_cast_first(gd_py_call *call, int place)
{
    gd_dtype dtype = (gd_dtype)call->value[place].integer;
    gd_tensor *x = call->value[0].t;
    if (dtype == GD_DTYPE_COUNT || dtype == gd_tensor_dtype(x)) return 1;
    gd_tensor *cast = gd_cast(x, dtype);
    if (cast && call->made_count < GD_PY_MOST_PARAMETERS) {
        call->value[0].t = call->made[call->made_count++] = cast;
        return 1;
    }
    gd_release(cast);
    (void)gd_py_raise(call->context);
    gd_py_call_clear(call);
    return 0;
}

gd_tensor *gd_py_dtype_of(gd_py_call *call, gd_tensor *made, int place)
{
    gd_dtype dtype = (gd_dtype)call->value[place].integer;
    if (!made || dtype == GD_DTYPE_COUNT || dtype == gd_tensor_dtype(made)) return made;
    gd_tensor *cast = gd_cast(made, dtype);
    gd_release(made);
    return cast;
}

gd_tensor *gd_py_device_of(gd_py_call *call, gd_tensor *made, int place)
{
    gd_device *device = call->value[place].device;
    if (!made || !device) return made;
    gd_tensor *moved = gd_to_device(made, device);
    gd_release(made);
    return moved;
}

/* Does a reshaped tensor lie on the memory of the other? */
static int is_view(const gd_tensor *made, const gd_tensor *x)
{
    if (!gd_numel(x)) return 1;
    int on_cpu = !strncmp(gd_device_name(gd_tensor_device(x)), "cpu", 3);
    return on_cpu ? gd_data(made) == gd_data(x) : gd_is_contiguous(x);
}

gd_tensor *gd_py_copy_of(gd_py_call *call, gd_tensor *made, int place)
{
    int wanted = (int)call->value[place].integer;
    if (!made || wanted < 0 || wanted != is_view(made, call->value[0].t)) return made;
    gd_tensor *copy = wanted ? gd_copy(made) : NULL;
    if (!wanted) (void)gd_fail(call->context->ctx, GD_VALUE, "%s: copy=False, but it needs one", call->name);
    gd_release(made);
    return copy;
}

/* ---- one value ---- */

static int wrong(const gd_py_call *call, int k, const char *what, PyObject *o)
{
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s: '%s' must be %s, not %R", call->name, call->parameter[k].name,
                     what, (PyObject *)Py_TYPE(o));
    }
    return 0;
}

int gd_py_axes(PyObject *o, const char **text, char *buffer, size_t size)
{
    size_t used = 0;
    *text = NULL;
    if (o == Py_None) return 1;
    if (PyUnicode_Check(o)) return (*text = PyUnicode_AsUTF8AndSize(o, NULL)) != NULL;
    if (PyLong_Check(o)) {
        snprintf(buffer, size, "%ld", PyLong_AsLong(o));
        *text = buffer;
        return !PyErr_Occurred();
    }
    if (!PyTuple_Check(o) && !PyList_Check(o)) return 0;
    Py_ssize_t n = PySequence_Size(o);
    buffer[0] = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        char number[24];
        const char *one = NULL;
        PyObject *item = PySequence_GetItem(o, i);
        int fine = item && !PyTuple_Check(item) && !PyList_Check(item) && item != Py_None &&
                   gd_py_axes(item, &one, number, sizeof number);
        if (fine) used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? ", " : "", one);
        Py_XDECREF(item);
        if (!fine) return 0;
        if (used >= size) {
            (void)gd_py_fail(GD_AXIS, "the names of the axes are too long together");
            return 0;
        }
    }
    *text = n ? buffer : NULL;
    return 1;
}

/* Whole numbers from a number or a sequence of them; how many, or -1 with an exception. */
static int whole_numbers(gd_py_call *call, int k, PyObject *o, int64_t *out)
{
    if (PyIndex_Check(o)) {
        PyObject *whole = PyNumber_Index(o);
        if (whole) out[0] = PyLong_AsLongLong(whole);
        Py_XDECREF(whole);
        return PyErr_Occurred() ? -1 : 1;
    }
    Py_ssize_t n = PySequence_Check(o) ? PySequence_Size(o) : -1;
    if (n < 0) return wrong(call, k, "a whole number or a sequence of them", o) - 1;
    if (n > GD_MAX_DIMS) {
        (void)gd_py_fail(GD_SHAPE, "%s: '%s' has %zd numbers, at most %d axes are possible", call->name,
                         call->parameter[k].name, n, GD_MAX_DIMS);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(o, i), *whole = item ? PyNumber_Index(item) : NULL;
        if (whole) out[i] = PyLong_AsLongLong(whole);
        Py_XDECREF(item);
        Py_XDECREF(whole);
        if (PyErr_Occurred()) return wrong(call, k, "a sequence of whole numbers", o) - 1;
    }
    return (int)n;
}

/* One number per axis of the first operand. */
static int numbers_of_axes(gd_py_call *call, int k, PyObject *o)
{
    gd_py_value *v = &call->value[k];
    const gd_tensor *x = call->value[0].t;
    v->count = whole_numbers(call, k, o, v->size);
    if (v->count < 0) return 0;
    if (v->count != gd_ndim(x)) {
        (void)gd_py_fail(GD_SHAPE, "%s: '%s' has %d numbers for a tensor with %d axes", call->name,
                         call->parameter[k].name, v->count, gd_ndim(x));
        return 0;
    }
    for (int i = 0; i < v->count; i++) {
        int64_t axis = v->size[i];
        v->order[i] = axis < INT32_MIN || axis > INT32_MAX ? INT32_MIN : (int)axis;
    }
    return 1;
}

static int read_tensors(gd_py_call *call, int k, PyObject *o)
{
    gd_py_value *v = &call->value[k];
    if (!PyTuple_Check(o) && !PyList_Check(o)) return wrong(call, k, "a list or tuple of tensors", o);
    Py_ssize_t n = PySequence_Size(o);
    if (!n)
        return gd_py_fail(GD_ARGUMENT, "%s: '%s' has no tensors", call->name, call->parameter[k].name) !=
               NULL;
    gd_tensor **list = PyMem_Calloc((size_t)n + 1, sizeof *list);
    if (!list) return PyErr_NoMemory() != NULL;
    v->list = list;
    v->count = (int)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(o, i); /* the list has it too */
        int fine = item && gd_py_is_tensor(item);
        if (item && !fine) (void)wrong(call, k, "a list or tuple of tensors", item);
        list[i] = fine ? gd_py_tensor_of(item) : NULL;
        if (list[i] && !call->context) call->context = ((gd_py_tensor *)item)->head.owner;
        Py_XDECREF(item);
        if (!list[i]) return 0;
        call->elements += gd_numel(list[i]);
    }
    return 1;
}

static int read_texts(gd_py_call *call, int k, PyObject *o)
{
    gd_py_value *v = &call->value[k];
    if (!PyTuple_Check(o) && !PyList_Check(o)) return wrong(call, k, "a list or tuple of texts", o);
    Py_ssize_t n = PySequence_Size(o);
    const char **list = PyMem_Calloc((size_t)n + 1, sizeof *list);
    if (!list) return PyErr_NoMemory() != NULL;
    v->list = (void *)list;
    v->count = (int)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(o, i);
        if (item && PyUnicode_Check(item)) list[i] = PyUnicode_AsUTF8AndSize(item, NULL);
        if (item && !list[i]) (void)wrong(call, k, "a list or tuple of texts", item);
        Py_XDECREF(item);
        if (!list[i]) return 0;
    }
    return 1;
}

static int read_whole(gd_py_call *call, int k, PyObject *o)
{
    gd_py_value *v = &call->value[k];
    PyObject *whole = PyNumber_Index(o);
    if (whole) v->integer = PyLong_AsLongLong(whole);
    Py_XDECREF(whole);
    if (PyErr_Occurred()) return wrong(call, k, "a whole number", o);
    if (call->parameter[k].kind == GD_PY_LONG || (v->integer >= INT32_MIN && v->integer <= INT32_MAX))
        return 1;
    (void)gd_py_fail(GD_VALUE, "%s: '%s' is %lld, which is too large", call->name, call->parameter[k].name,
                     (long long)v->integer);
    return 0;
}

static int read_value(gd_py_call *call, int k, PyObject *o)
{
    gd_py_value *v = &call->value[k];
    switch (call->parameter[k].kind) {
    case GD_PY_REAL:
        v->real = PyFloat_AsDouble(o);
        return v->real == -1.0 && PyErr_Occurred() ? wrong(call, k, "a number", o) : 1;
    case GD_PY_INT:
    case GD_PY_LONG: return read_whole(call, k, o);
    case GD_PY_BOOL: v->integer = PyObject_IsTrue(o); return v->integer >= 0;
    case GD_PY_AXES:
        return gd_py_axes(o, &v->text, v->buffer, sizeof v->buffer) ||
               wrong(call, k, "an axis: a name, a number, a tuple of them or None", o);
    case GD_PY_TEXT_OR_NONE:
        if (o == Py_None) return 1;
        /* fallthrough */
    case GD_PY_TEXT:
        if (!PyUnicode_Check(o)) return wrong(call, k, "a text", o);
        return (v->text = PyUnicode_AsUTF8AndSize(o, NULL)) != NULL;
    case GD_PY_SHAPE: return (v->count = whole_numbers(call, k, o, v->size)) >= 0;
    case GD_PY_ORDER:
    case GD_PY_SIZES: return numbers_of_axes(call, k, o);
    case GD_PY_DTYPE: return (v->integer = gd_py_dtype(o)) != GD_DTYPE_COUNT;
    case GD_PY_TEXTS: return read_texts(call, k, o);
    case GD_PY_FLAG: return (v->integer = o == Py_None ? -1 : PyObject_IsTrue(o)) >= 0 || o == Py_None;
    case GD_PY_DEVICE:
        if (o == Py_None) return 1;
        if (!PyUnicode_Check(o)) return wrong(call, k, "a device such as 'gpu:0'", o);
        if (!(v->text = PyUnicode_AsUTF8AndSize(o, NULL))) return 0;
        v->device = gd_py_device(call->context, v->text);
        return v->device || gd_py_raise(call->context);
    default: return 1;
    }
}

/* ---- all of them ---- */

/* Names of arguments that users of PyTorch know. */
static const char *const elsewhere[][2] = {
    {"dim", "axis"}, {"keepdim", "keepdims"}, {"min", "low"}, {"max", "high"}};

static int place_elsewhere(const gd_py_call *call, PyObject *name)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        for (int k = 0; k < call->count; k++)
            if (strcmp(call->parameter[k].name, elsewhere[i][1]) == 0 &&
                PyUnicode_CompareWithASCIIString(name, elsewhere[i][0]) == 0)
                return k;
    return -1;
}

static int place_of(const gd_py_call *call, PyObject *name)
{
    for (int k = 0; k < call->count; k++)
        if (PyUnicode_CompareWithASCIIString(name, call->parameter[k].name) == 0) return k;
    for (int k = 0; k < call->count; k++)
        if (call->parameter[k].also && PyUnicode_CompareWithASCIIString(name, call->parameter[k].also) == 0)
            return k;
    return place_elsewhere(call, name);
}

/* The parameter that takes all numbers from its place on, as in reshape(2, 3): the last one but for copy=; -1: none does. */
static int place_of_rest(const gd_py_call *call)
{
    int last = call->count - 1;
    if (last >= 0 && call->parameter[last].kind == GD_PY_FLAG) last--;
    gd_py_kind kind = last >= 0 ? call->parameter[last].kind : GD_PY_TENSOR;
    return kind == GD_PY_SHAPE || kind == GD_PY_ORDER ? last : -1;
}

/* reshape(2, 3): numbers at the end that are one parameter, as a tuple that the call holds. */
static PyObject *joined(gd_py_call *call, PyObject *const *args, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; i < n && tuple; i++)
        if (PyTuple_SetItem(tuple, i, Py_NewRef(args[i])) < 0) Py_CLEAR(tuple);
    return tuple && held(call, tuple) ? tuple : NULL;
}

/* zeros(2, 3, dtype): how many sizes stand at the beginning; 0: none, or they are one argument. */
static Py_ssize_t sizes_in_front(const gd_py_call *call, PyObject *const *args, Py_ssize_t n)
{
    Py_ssize_t count = 0;
    if (call->count < 2 || call->parameter[0].kind != GD_PY_SHAPE || call->parameter[1].kind != GD_PY_DTYPE)
        return 0;
    while (count < n && PyLong_Check(args[count]) && !PyBool_Check(args[count])) count++;
    return count > 1 ? count : 0;
}

/* Which argument is for which parameter. */
static int place_arguments(gd_py_call *call, PyObject *self, PyObject *const *args, Py_ssize_t n,
                           PyObject *names, PyObject **given)
{
    int first = self != NULL;
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    if (self) given[0] = self;
    int rest = n + first > 1 ? place_of_rest(call) : -1;
    Py_ssize_t all = n; /* names follow */
    if (rest >= first && n + first > rest + 1) {
        Py_ssize_t before = rest - first;
        if (!(given[rest] = joined(call, args + before, n - before))) return 0;
        n = before;
    }
    Py_ssize_t sizes = self ? 0 : sizes_in_front(call, args, n);
    if (sizes) {
        if (!(given[0] = joined(call, args, sizes))) return 0;
        args += sizes - 1, n -= sizes - 1, all -= sizes - 1;
    }
    if (n + first > call->count) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d arguments, %zd were given", call->name,
                     call->count - first, n);
        return 0;
    }
    for (Py_ssize_t i = sizes ? 1 : 0; i < n; i++) given[i + first] = args[i];
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        int k = place_of(call, name);
        if (k < 0 || given[k]) {
            PyErr_Format(PyExc_TypeError, k < 0 ? "%s() has no argument '%U'" : "%s(): '%U' is given twice",
                         call->name, name);
            return 0;
        }
        given[k] = args[all + i];
    }
    for (int k = 0; k < call->count; k++) {
        if (given[k] || !call->parameter[k].needed) continue;
        PyErr_Format(PyExc_TypeError, "%s() needs '%s'", call->name, call->parameter[k].name);
        return 0;
    }
    return 1;
}

PyObject *gd_py_values(PyObject *list)
{
    PyObject *copy = PySequence_List(list), *tuple = NULL;
    Py_ssize_t n = copy ? PyList_Size(copy) : 0, i = 0;
    for (; i < n; i++) {
        PyObject *item = PyList_GetItem(copy, i);
        PyObject *value = gd_py_is_virtual(item) ? gd_py_virtual_value(item) : Py_NewRef(item);
        if (!value || PyList_SetItem(copy, i, value) < 0) break;
    }
    if (copy && i == n) tuple = PyList_AsTuple(copy);
    Py_XDECREF(copy);
    return tuple;
}

static int has_virtual(PyObject *list)
{
    int found = 0;
    Py_ssize_t n = PyTuple_Check(list) || PyList_Check(list) ? PySequence_Size(list) : 0;
    for (Py_ssize_t i = 0; i < n && !found; i++) {
        PyObject *item = PySequence_GetItem(list, i);
        found = item && gd_py_is_virtual(item);
        Py_XDECREF(item);
    }
    return found;
}

/* Puts values in the place of virtual tensors, before anything looks at dtypes; false with an exception. */
static int take_values(gd_py_call *call, PyObject **given)
{
    for (int k = 0; k < call->count; k++) {
        PyObject *value;
        if (!given[k]) continue;
        if (gd_py_is_virtual(given[k]))
            value = gd_py_virtual_value(given[k]);
        else if (call->parameter[k].kind == GD_PY_TENSORS && has_virtual(given[k]))
            value = gd_py_values(given[k]);
        else
            continue;
        if (!value || !held(call, value)) return 0;
        given[k] = value;
    }
    return 1;
}

static int is_tensor_kind(gd_py_kind kind) { return kind == GD_PY_TENSOR || kind == GD_PY_TENSOR_OR_NONE; }

/* The first operand that is a tensor already: numbers take its dtype, everything its context. */
static gd_tensor *leading(gd_py_call *call, PyObject *const *given)
{
    gd_tensor *lead = NULL;
    for (int k = call->count; k-- > 0;) {
        if (!is_tensor_kind(call->parameter[k].kind) || !given[k] || !gd_py_is_tensor(given[k])) continue;
        gd_tensor *t = gd_py_tensor_of(given[k]);
        if (!t) return NULL;
        /* a condition says nothing about the numbers that are chosen from */
        if (!lead || gd_tensor_dtype(t) != GD_BOOL) lead = t;
        call->context = ((gd_py_tensor *)given[k])->head.owner;
    }
    return lead;
}

static int is_empty_list(PyObject *o)
{
    return o && (PyTuple_Check(o) || PyList_Check(o)) && !PySequence_Size(o);
}

/* axis=() reduces nothing: the operator gets a new axis of size 1.  False with an exception. */
static int reduce_none(gd_py_call *call, PyObject *const *given)
{
    if (call->count < 3 || call->parameter[1].kind != GD_PY_AXES ||
        strcmp(call->parameter[2].name, "keepdims") || !is_empty_list(given[1]))
        return 1;
    gd_tensor *x = gd_unsqueeze(call->value[0].t, 0, NULL);
    if (!x) return gd_py_raise(call->context) != NULL;
    call->made[call->made_count++] = call->value[0].t = x;
    call->value[1].text = "0";
    call->value[2].integer = 0;
    return 1;
}

int gd_py_read(gd_py_call *call, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    PyObject *given[GD_PY_MOST_PARAMETERS] = {NULL};
    int placed = place_arguments(call, self, args, n, names, given) && take_values(call, given);
    gd_tensor *lead = placed ? leading(call, given) : NULL;
    if (!placed || (!lead && PyErr_Occurred()) || (!call->context && !(call->context = gd_py_current()))) {
        call->count = 0; /* no value is there yet */
        gd_py_call_clear(call);
        return 0;
    }
    for (int k = 0; k < call->count; k++) {
        gd_py_value *v = &call->value[k];
        gd_py_kind kind = call->parameter[k].kind;
        v->t = NULL, v->text = NULL, v->list = NULL, v->device = NULL, v->count = 0;
        if (!given[k] || (given[k] == Py_None && (kind == GD_PY_TENSOR_OR_NONE ||
                                                  (kind == GD_PY_DTYPE && !call->parameter[k].needed)))) {
            v->real = call->parameter[k].fallback;
            v->integer = is_tensor_kind(kind) || kind == GD_PY_REAL ? 0
                         : kind == GD_PY_FLAG                       ? -1
                                                                    : (int64_t)call->parameter[k].fallback;
            continue;
        }
        int fine;
        if (is_tensor_kind(kind)) {
            fine = (v->t = gd_py_operand(call, given[k], lead)) != NULL;
            if (fine) call->elements += gd_numel(v->t);
        } else
            fine = kind == GD_PY_TENSORS ? read_tensors(call, k, given[k]) : read_value(call, k, given[k]);
        if (!fine) {
            for (int rest = k + 1; rest < call->count; rest++) call->value[rest].list = NULL;
            gd_py_call_clear(call);
            return 0;
        }
    }
    /* again: reading them may have run Python code */
    if (gd_py_enter(call->context) && reduce_none(call, given)) return 1;
    gd_py_call_clear(call);
    return 0;
}

PyObject *gd_py_finish(gd_py_call *call, gd_tensor *result)
{
    gd_py_context *c = call->context;
    PyObject *o = gd_py_new_tensor(c, result);
    gd_py_call_clear(call);
    return o;
}

PyObject *gd_py_finish_tuple(gd_py_call *call, gd_status status, gd_tensor *const *result, int count)
{
    gd_py_context *c = call->context;
    PyObject *o = status ? gd_py_raise(c) : gd_py_tuple_of(c, result, count);
    gd_py_call_clear(call);
    return o;
}

int gd_py_labels_fit(gd_py_call *call, int place)
{
    const gd_tensor *x = call->value[0].t;
    const char *text = call->value[1].text;
    int axis = text ? gd_axis_find(x, text) : -1;
    if (axis < 0 && text && (*text == '-' || (*text >= '0' && *text <= '9')))
        axis = (int)strtol(text, NULL, 10);
    else if (axis < 0)
        return 1; /* no such axis: the library says so */
    int64_t size = gd_size(x, axis);
    if (size < 0 || size == call->value[place].count) return 1;
    (void)gd_py_fail(GD_LABEL, "%s: %d labels for an axis of %lld elements", call->name,
                     call->value[place].count, (long long)size);
    gd_py_call_clear(call);
    return 0;
}
