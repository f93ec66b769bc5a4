/* The cost of calls in C, for `./dev bench python`: the same work without Python around it. */
#include "core.h"

#include <string.h>
#include <time.h>

static double nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* _time_c(what, object, count): nanoseconds per call of add, exp, mul_scalar or sum on a tensor with itself, or of a step. */
static PyObject *time_c(PyObject *module, PyObject *args)
{
    const char *what;
    PyObject *object;
    long count;
    (void)module;
    if (!PyArg_ParseTuple(args, "sOl:_time_c", &what, &object, &count)) return NULL;
    int steps = !strcmp(what, "step");
    if (!PyObject_TypeCheck(object, steps ? gd_py.optimizer_type : gd_py.tensor_type))
        return PyErr_Format(PyExc_TypeError, "_time_c: a tensor or an optimizer is needed");
    gd_tensor *x = steps ? NULL : gd_py_tensor_of(object);
    gd_optimizer *optimizer = steps ? gd_py_optimizer_of(object) : NULL;
    gd_status status = GD_OK;
    gd_step_info info;
    if (!x && !optimizer) return NULL;
    double start = nanoseconds();
    for (long i = 0; i < count && !status; i++) {
        if (steps)
            status = gd_optimizer_step(optimizer, NULL, &info);
        else if (!strcmp(what, "add"))
            gd_release(gd_add(x, x));
        else if (!strcmp(what, "mul_scalar"))
            gd_release(gd_mul_scalar(x, 2));
        else if (!strcmp(what, "sum"))
            gd_release(gd_sum(x, NULL, false));
        else
            gd_release(gd_exp(x));
    }
    double spent = nanoseconds() - start;
    gd_py_context *c = ((gd_py_handle *)object)->owner;
    return gd_error(c->ctx) ? gd_py_raise(c) : PyFloat_FromDouble(spent / (double)(count ? count : 1));
}

PyMethodDef gd_py_timing_functions[] = {{"_time_c", time_c, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
