/* Operators between two tensors, or a tensor and a number: a + b, a < b, and a += b.  tensor.c puts their slots into its type. */
#include "arrays/operators.h"

/* ---- between two ---- */

typedef gd_tensor *(*two_fn)(gd_tensor *, gd_tensor *);
typedef gd_tensor *(*scalar_fn)(gd_tensor *, double);

static PyObject *run_two(gd_py_context *c, two_fn fn, gd_tensor *a, gd_tensor *b, int heavy)
{
    if (gd_numel(a) + gd_numel(b) < (heavy ? GD_PY_LARGE / 32 : GD_PY_LARGE))
        return gd_py_new_tensor(c, fn(a, b));
    PyThreadState *state = gd_py_begin(c);
    gd_tensor *result = fn(a, b);
    gd_py_end(c, state);
    return gd_py_new_tensor(c, result);
}

/* Whatever else may stand beside a tensor: arrays, virtual tensors. */
static PyObject *run_converted(two_fn fn, PyObject *a, PyObject *b, int heavy)
{
    gd_py_call call = {.name = "operator"};
    PyObject *own = gd_py_is_tensor(a) ? a : gd_py_is_tensor(b) ? b : NULL;
    if (!own) Py_RETURN_NOTIMPLEMENTED; /* both are virtual: they ask for their values */
    PyObject *other = own == a ? b : a, *number = heavy ? NULL : gd_py_plain_number(other);
    if (number) {
        PyObject *result = own == a ? gd_py_binary(fn, a, number, 0) : gd_py_binary(fn, number, b, 0);
        Py_DECREF(number);
        return result;
    }
    if (PyErr_Occurred()) return NULL;
    gd_tensor *like = gd_py_tensor_of(own);
    if (!like) return NULL;
    call.context = ((gd_py_tensor *)own)->head.owner;
    gd_tensor *x = gd_py_operand(&call, a, like), *y = x ? gd_py_operand(&call, b, like) : NULL;
    PyObject *result = NULL;
    if (x && y && gd_py_enter(call.context))
        result = run_two(call.context, fn, x, y, heavy);
    else if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_NotImplementedError)) {
        PyErr_Clear();
        result = Py_NotImplemented;
        Py_INCREF(result);
    }
    gd_py_call_clear(&call);
    return result;
}

static PyObject *with_number(two_fn fn, PyObject *a, PyObject *b)
{
    PyObject *own = gd_py_is_tensor(a) ? a : b, *number = own == a ? b : a;
    gd_tensor *t = gd_py_tensor_of(own);
    if (!t) return NULL;
    gd_py_context *c = ((gd_py_tensor *)own)->head.owner;
    gd_tensor *n = gd_py_number(c->ctx, number, t);
    if (!n) return PyErr_Occurred() ? NULL : gd_py_raise(c);
    PyObject *result = run_two(c, fn, own == a ? t : n, own == a ? n : t, 0);
    gd_release(n);
    return result;
}

PyObject *gd_py_binary(two_fn fn, PyObject *a, PyObject *b, int heavy)
{
    if (Py_TYPE(a) == gd_py.tensor_type && Py_TYPE(b) == gd_py.tensor_type) {
        gd_tensor *x = gd_py_tensor_of(a), *y = x ? gd_py_tensor_of(b) : NULL;
        return y ? run_two(((gd_py_tensor *)a)->head.owner, fn, x, y, heavy) : NULL;
    }
    if (!heavy && (gd_py_is_number(a) || gd_py_is_number(b))) return with_number(fn, a, b);
    return run_converted(fn, a, b, heavy);
}

static inline int both_tensors(PyObject *a, PyObject *b)
{
    return Py_TYPE(a) == gd_py.tensor_type && Py_TYPE(b) == gd_py.tensor_type;
}

/* A number on the right that the library has an operator for. */
static PyObject *with_scalar(scalar_fn scalar, double factor, two_fn fn, PyObject *a, PyObject *b)
{
    if (both_tensors(a, b)) return gd_py_binary(fn, a, b, 0);
    if (gd_py_is_tensor(a) && (PyFloat_Check(b) || PyLong_Check(b))) {
        gd_tensor *x = gd_py_tensor_of(a);
        if (!x) return NULL;
        gd_dtype dtype = gd_tensor_dtype(x);
        if (!gd_dtype_is_float(dtype)) return with_number(fn, a, b);
        double value = PyFloat_AsDouble(b);
        if (value == -1.0 && PyErr_Occurred()) return NULL;
        gd_py_context *c = ((gd_py_tensor *)a)->head.owner;
        if (gd_numel(x) < GD_PY_LARGE) return gd_py_new_tensor(c, scalar(x, factor * value));
        PyThreadState *state = gd_py_begin(c);
        gd_tensor *result = scalar(x, factor * value);
        gd_py_end(c, state);
        return gd_py_new_tensor(c, result);
    }
    return gd_py_binary(fn, a, b, 0);
}

static PyObject *tensor_add(PyObject *a, PyObject *b)
{
    return gd_py_is_tensor(a) ? with_scalar(gd_add_scalar, 1, gd_add, a, b)
                              : with_scalar(gd_add_scalar, 1, gd_add, b, a);
}
static PyObject *tensor_sub(PyObject *a, PyObject *b) { return with_scalar(gd_add_scalar, -1, gd_sub, a, b); }
static PyObject *tensor_mul(PyObject *a, PyObject *b)
{
    return gd_py_is_tensor(a) ? with_scalar(gd_mul_scalar, 1, gd_mul, a, b)
                              : with_scalar(gd_mul_scalar, 1, gd_mul, b, a);
}
static PyObject *tensor_div(PyObject *a, PyObject *b) { return gd_py_binary(gd_div, a, b, 0); }
static PyObject *tensor_mod(PyObject *a, PyObject *b) { return gd_py_binary(gd_mod, a, b, 0); }
static PyObject *tensor_matmul(PyObject *a, PyObject *b) { return gd_py_binary(gd_matmul, a, b, 1); }
static PyObject *tensor_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None) return gd_py_fail(GD_NOT_IMPLEMENTED, "pow: a tensor has no third argument");
    return with_scalar(gd_pow_scalar, 1, gd_pow, a, b);
}

static PyObject *tensor_floor_div(PyObject *a, PyObject *b) { return gd_py_binary(gd_floor_div, a, b, 0); }
static PyObject *tensor_and(PyObject *a, PyObject *b) { return gd_py_binary(gd_bit_and, a, b, 0); }
static PyObject *tensor_or(PyObject *a, PyObject *b) { return gd_py_binary(gd_bit_or, a, b, 0); }
static PyObject *tensor_xor(PyObject *a, PyObject *b) { return gd_py_binary(gd_bit_xor, a, b, 0); }
static PyObject *tensor_lshift(PyObject *a, PyObject *b) { return gd_py_binary(gd_shift_left, a, b, 0); }
static PyObject *tensor_rshift(PyObject *a, PyObject *b) { return gd_py_binary(gd_shift_right, a, b, 0); }

/* -1 or 1 where a whole number is below or above all that an integer tensor can hold, else 0. */
static int beyond(PyObject *number, const gd_tensor *t)
{
    int64_t low, high;
    int overflow;
    if (!PyLong_Check(number) || !gd_py_range(gd_tensor_dtype(t), &low, &high)) return 0;
    int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
    return overflow ? overflow : value < low ? -1 : value > high;
}

/* A comparison with a number that no element can be: every one is less than it, or more. */
static PyObject *compare_beyond(PyObject *o, int side, int how)
{
    int yes = how == Py_NE || (side > 0 ? how == Py_LT || how == Py_LE : how == Py_GT || how == Py_GE);
    gd_tensor *t = gd_py_tensor_of(o);
    return t ? gd_py_new_tensor(((gd_py_tensor *)o)->head.owner, (yes ? gd_eq : gd_ne)(t, t)) : NULL;
}

static PyObject *tensor_compare(PyObject *a, PyObject *b, int how)
{
    static const two_fn fn[] = {
        [Py_LT] = gd_lt, [Py_LE] = gd_le, [Py_EQ] = gd_eq, [Py_NE] = gd_ne, [Py_GT] = gd_gt, [Py_GE] = gd_ge};
    if (b == Py_None || PyUnicode_Check(b)) Py_RETURN_NOTIMPLEMENTED;
    int side = PyLong_Check(b) && ((gd_py_tensor *)a)->t ? beyond(b, ((gd_py_tensor *)a)->t) : 0;
    if (side) return compare_beyond(a, side, how);
    return gd_py_binary(fn[how], a, b, 0);
}

/* ---- in place: x += y ---- */

/* The handles change tensors, and with them who holds those: this one gets what operators have just recorded. */
static void exchange_tensors(gd_py_tensor *self, gd_py_tensor *made)
{
    gd_py_context *c = self->head.owner;
    gd_tensor *old = self->t;
    int16_t in_scope = self->head.in_scope;
    Py_INCREF((PyObject *)c);
    gd_py_leave(self); /* among the newest, whom gd_py_callback_end looks at */
    gd_py_join(c, self, gd_py_drop_tensor);
    Py_DECREF((PyObject *)c);
    self->t = made->t;
    self->head.in_scope = made->head.in_scope;
    made->t = old;
    made->head.in_scope = in_scope;
}

/* Does the result fit into the tensor?  False with an exception. */
static int fits_in_place(const gd_tensor *t, const gd_tensor *r)
{
    int same = gd_ndim(t) == gd_ndim(r);
    for (int i = 0; same && i < gd_ndim(t); i++) same = gd_size(t, i) == gd_size(r, i);
    if (!same)
        return gd_py_fail(GD_SHAPE, "in place: the result has other axes than the tensor; write x = x + y") !=
               NULL;
    if (gd_dtype_is_float(gd_tensor_dtype(r)) && !gd_dtype_is_float(gd_tensor_dtype(t)))
        return gd_py_fail(GD_DTYPE, "in place: the result is %s, which a tensor of dtype %s cannot hold",
                          gd_dtype_name(gd_tensor_dtype(r)), gd_dtype_name(gd_tensor_dtype(t))) != NULL;
    return 1;
}

/* While operators record, the result takes the place of the tensor in its handle: gradients flow through old and new value, and
 * views that were made before keep theirs.  Else elements change where they lie, which graphs that need them notice. */
static int put_in_place(gd_py_tensor *self, PyObject *made)
{
    gd_tensor *t = self->t, *r = ((gd_py_tensor *)made)->t;
    gd_py_context *c = self->head.owner;
    int recorded = gd_grad_enabled(c->ctx) && gd_requires_grad(t);
    if (!fits_in_place(t, r)) return 0;
    if (recorded && gd_is_leaf(t))
        return gd_py_fail(GD_GRAPH,
                          "in place: the tensor wants gradients and operators record; change it inside "
                          "no_grad(), or write x = x + y") != NULL;
    if (gd_is_read_only(t) || (!recorded && !gd_requires_grad(r)))
        return gd_assign(t, r) == GD_OK || gd_py_raise(c) != NULL;
    int cast = gd_tensor_dtype(r) != gd_tensor_dtype(t);
    PyObject *kept = cast ? gd_py_new_tensor(c, gd_cast(r, gd_tensor_dtype(t))) : Py_NewRef(made);
    if (!kept) return 0;
    exchange_tensors(self, (gd_py_tensor *)kept);
    Py_DECREF(kept);
    return 1;
}

static PyObject *in_place(PyObject *o, PyObject *made)
{
    if (!made || made == Py_NotImplemented || !gd_py_is_tensor(made)) return made;
    int fine = gd_py_tensor_of(o) && gd_py_tensor_of(made) && put_in_place((gd_py_tensor *)o, made);
    Py_DECREF(made);
    return fine ? Py_NewRef(o) : NULL;
}

#define IN_PLACE(name)                                                \
    static PyObject *tensor_in_place_##name(PyObject *a, PyObject *b) \
    {                                                                 \
        return in_place(a, tensor_##name(a, b));                      \
    }
IN_PLACE(add)
IN_PLACE(sub)
IN_PLACE(mul)
IN_PLACE(div)
IN_PLACE(floor_div)
IN_PLACE(mod)
IN_PLACE(matmul)
IN_PLACE(and)
IN_PLACE(or)
IN_PLACE(xor)
IN_PLACE(lshift)
IN_PLACE(rshift)
static PyObject *tensor_in_place_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    return in_place(a, tensor_pow(a, b, modulus));
}

const PyType_Slot gd_py_arithmetic_slots[GD_PY_ARITHMETIC_SLOTS] = {
    {Py_tp_richcompare, tensor_compare},
    {Py_nb_add, tensor_add},
    {Py_nb_subtract, tensor_sub},
    {Py_nb_multiply, tensor_mul},
    {Py_nb_true_divide, tensor_div},
    {Py_nb_floor_divide, tensor_floor_div},
    {Py_nb_remainder, tensor_mod},
    {Py_nb_power, tensor_pow},
    {Py_nb_matrix_multiply, tensor_matmul},
    {Py_nb_and, tensor_and},
    {Py_nb_or, tensor_or},
    {Py_nb_xor, tensor_xor},
    {Py_nb_lshift, tensor_lshift},
    {Py_nb_rshift, tensor_rshift},
    {Py_nb_inplace_add, tensor_in_place_add},
    {Py_nb_inplace_subtract, tensor_in_place_sub},
    {Py_nb_inplace_multiply, tensor_in_place_mul},
    {Py_nb_inplace_true_divide, tensor_in_place_div},
    {Py_nb_inplace_floor_divide, tensor_in_place_floor_div},
    {Py_nb_inplace_remainder, tensor_in_place_mod},
    {Py_nb_inplace_power, tensor_in_place_pow},
    {Py_nb_inplace_matrix_multiply, tensor_in_place_matmul},
    {Py_nb_inplace_and, tensor_in_place_and},
    {Py_nb_inplace_or, tensor_in_place_or},
    {Py_nb_inplace_xor, tensor_in_place_xor},
    {Py_nb_inplace_lshift, tensor_in_place_lshift},
    {Py_nb_inplace_rshift, tensor_in_place_rshift}};

PyObject *gd_py_places(PyObject *condition)
{
    PyObject *module = PyImport_ImportModule("gradus._array");
    PyObject *places = module ? PyObject_CallMethod(module, "nonzero", "(O)", condition) : NULL;
    Py_XDECREF(module);
    return places;
}
