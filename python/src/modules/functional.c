/* gradus.Functional: functions chosen by the classes of two Python objects.
 *
 * Each Python class that takes part has a gd_class with the same bases, and registrations are gd_register's, so the order of the
 * search, what is remembered and what a new registration forgets are those of gradus/class.h.  Functionals belong to no context of
 * the user: the classes are in a context of their own, used only under the interpreter's lock and never while Python code runs. */
#include "core.h"

static gd_ctx *registry;        /* made with the first class, kept until the process ends */
static PyObject *class_of_type; /* Python class -> address of its gd_class */
static PyObject *functions;     /* (functional, object class) -> function: keeps what gd_register borrows */

static int prepare(void)
{
    if (!class_of_type) class_of_type = PyDict_New();
    if (!functions) functions = PyDict_New();
    if (!class_of_type || !functions) return 0;
    if (!registry && !(registry = gd_ctx_new(NULL))) PyErr_NoMemory();
    return registry != NULL;
}

/* Raises what the registry recorded; always NULL. */
static void *raise_recorded(void)
{
    (void)gd_py_fail(gd_error(registry) ? gd_error(registry) : GD_NOMEM, "%s", gd_error_text(registry));
    gd_clear_error(registry);
    return NULL;
}

static int keep_class(PyObject *type, gd_class *cls)
{
    PyObject *address = PyLong_FromVoidPtr(cls);
    int fine = address && PyDict_SetItem(class_of_type, type, address) == 0;
    Py_XDECREF(address);
    return fine;
}

static gd_class *library_class(PyObject *type);

/* A class with the bases of a Python class. */
static gd_class *new_class(PyObject *type)
{
    gd_class *cls = NULL, **base = NULL;
    PyObject *name = PyType_GetName((PyTypeObject *)type), *bases = PyObject_GetAttrString(type, "__bases__");
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    Py_ssize_t count = bases ? PyTuple_Size(bases) : -1, b = 0;
    if (text && count > 0 && !(base = malloc((size_t)count * sizeof *base))) PyErr_NoMemory();
    while (base && b < count && (base[b] = library_class(PyTuple_GetItem(bases, b)))) b++;
    if (text && b == count && !(cls = gd_class_new(registry, text, base, (int)count))) raise_recorded();
    free(base);
    Py_XDECREF(name);
    Py_XDECREF(bases);
    return cls;
}

/* The gd_class of a Python class, made when it is first asked for; NULL with an exception. */
static gd_class *library_class(PyObject *type)
{
    PyObject *known = PyDict_GetItemWithError(class_of_type, type);
    if (known || PyErr_Occurred()) return known ? PyLong_AsVoidPtr(known) : NULL;
    gd_class *cls;
    if (type == (PyObject *)&PyBaseObject_Type)
        cls = gd_class_object(registry);
    else
        cls = new_class(type);
    return cls && keep_class(type, cls) ? cls : NULL;
}

/* Gives gradus.Functional, when it is defined, the library's class of that name. */
static PyObject *is_functional(PyObject *module, PyObject *type)
{
    (void)module;
    gd_class *cls = prepare() ? gd_class_functional(registry) : NULL;
    if (!cls) return PyErr_Occurred() ? NULL : raise_recorded();
    if (!keep_class(type, cls)) return NULL;
    return Py_NewRef(type);
}

/* The library only carries these functions: Python calls them, with Python's objects. */
static gd_object *called_by_python(gd_object *functional, gd_object *argument, const gd_kwargs *kwargs,
                                   void *fn)
{
    (void)argument, (void)kwargs, (void)fn;
    (void)gd_fail(gd_object_ctx(functional), GD_NOT_IMPLEMENTED,
                  "a function of Python is called from Python");
    return NULL;
}

static PyObject *register_function(PyObject *module, PyObject *args)
{
    PyObject *functional, *type, *fn;
    (void)module;
    if (!PyArg_ParseTuple(args, "OOO:_register", &functional, &type, &fn) || !prepare()) return NULL;
    if (!PyType_Check(type))
        return PyErr_Format(PyExc_TypeError, "register: a class is needed, not %R", type);
    gd_class *of = library_class(functional), *on = of ? library_class(type) : NULL;
    PyObject *pair = on ? PyTuple_Pack(2, functional, type) : NULL;
    PyObject *before = pair ? Py_XNewRef(PyDict_GetItemWithError(functions, pair)) : NULL;
    int fine = pair && !PyErr_Occurred() && PyDict_SetItem(functions, pair, fn) == 0;
    if (fine && gd_register(of, on, called_by_python, fn)) {
        if (before ? PyDict_SetItem(functions, pair, before) : PyDict_DelItem(functions, pair)) PyErr_Clear();
        raise_recorded();
        fine = 0;
    }
    Py_XDECREF(pair);
    Py_XDECREF(before);
    if (!fine) return NULL;
    Py_RETURN_NONE;
}

/* _handler(functional class, object's class): the function, or None. */
static PyObject *handler_of(PyObject *module, PyObject *args)
{
    PyObject *functional, *type;
    void *fn = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO:_handler", &functional, &type) || !prepare()) return NULL;
    gd_class *of = library_class(functional), *on = of ? library_class(type) : NULL;
    if (!on) return NULL;
    if (gd_class_handler(of, on, &fn)) return Py_NewRef((PyObject *)fn);
    if (gd_error(registry)) return raise_recorded();
    Py_RETURN_NONE;
}

/* The Python class of a gd_class; borrowed. */
static PyObject *type_of(const gd_class *cls)
{
    PyObject *type, *address;
    Py_ssize_t at = 0;
    while (PyDict_Next(class_of_type, &at, &type, &address))
        if (PyLong_AsVoidPtr(address) == cls) return type;
    return Py_None;
}

static PyObject *applicable_types(PyObject *module, PyObject *functional)
{
    (void)module;
    gd_class *of = prepare() ? library_class(functional) : NULL;
    if (!of) return NULL;
    int count = gd_applicable_types(of, NULL, 0);
    const gd_class **on = malloc(((size_t)count + 1) * sizeof *on);
    PyObject *all = on ? PyTuple_New(gd_applicable_types(of, on, count)) : PyErr_NoMemory();
    for (int i = 0; i < count && all; i++)
        if (PyTuple_SetItem(all, i, Py_NewRef(type_of(on[i]))) < 0) Py_CLEAR(all);
    free(on);
    return all;
}

PyMethodDef gd_py_functional_functions[] = {{"_is_functional", is_functional, METH_O, NULL},
                                            {"_register", register_function, METH_VARARGS, NULL},
                                            {"_handler", handler_of, METH_VARARGS, NULL},
                                            {"_applicable_types", applicable_types, METH_O, NULL},
                                            {NULL, NULL, 0, NULL}};
