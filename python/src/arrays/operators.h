/* Declarations for the generated operators, besides core.h. */
#ifndef GD_PYTHON_OPERATORS_H
#define GD_PYTHON_OPERATORS_H

#include "core.h"

/* The values are set by gd_py_read: clearing all of them would cost more than a small operator does. */
static inline void gd_py_call_init(gd_py_call *call, const char *name, const gd_py_parameter *parameter,
                                   int count)
{
    call->name = name;
    call->parameter = parameter;
    call->count = count;
    call->context = NULL;
    call->elements = 0;
    call->made_count = call->held_count = 0;
}

PyObject *gd_py_unary(gd_tensor *(*fn)(gd_tensor *), PyObject *o);
PyObject *gd_py_binary(gd_tensor *(*fn)(gd_tensor *, gd_tensor *), PyObject *a, PyObject *b, int heavy);
/* The slots of operators between two, for the type Tensor. */
#define GD_PY_ARITHMETIC_SLOTS 27
extern const PyType_Slot gd_py_arithmetic_slots[GD_PY_ARITHMETIC_SLOTS];
/* with_labels: as many labels as the axis has elements; false with an exception, the call cleared. */
int gd_py_labels_fit(gd_py_call *call, int place);
/* The places where a condition holds, a tensor for each axis: nonzero() of the package. */
PyObject *gd_py_places(PyObject *condition);

#endif
