/* gradus._core: the extension module. */
#include "core.h"

#include <string.h>

gd_py_state gd_py;

PyTypeObject *gd_py_add_type(PyObject *module, PyType_Spec *spec, PyObject *bases)
{
    PyObject *type = PyType_FromModuleAndSpec(module, spec, bases);
    const char *dot = strrchr(spec->name, '.');
    if (type && PyModule_AddObjectRef(module, dot + 1, type) < 0) Py_CLEAR(type);
    return (PyTypeObject *)type;
}

/* ---- what the package looks up in the library ---- */

static PyObject *text_or_none(const char *text)
{
    return text && *text ? PyUnicode_FromString(text) : Py_NewRef(Py_None);
}

static PyObject *default_of(const gd_field *f)
{
    const gd_setting *s = &f->fallback;
    switch ((int)s->kind) {
    case GD_SET_REAL: return f->integer ? PyLong_FromDouble(s->real) : PyFloat_FromDouble(s->real);
    case GD_SET_BOOL: return PyBool_FromLong(s->real != 0);
    case GD_SET_STRING: return PyUnicode_FromString(s->string);
    case GD_SET_LIST: {
        PyObject *list = PyList_New(s->list_count);
        for (int i = 0; i < s->list_count && list; i++)
            if (PyList_SetItem(list, i, PyFloat_FromDouble(s->list[i])) < 0) Py_CLEAR(list);
        return list;
    }
    default: return Py_NewRef(Py_None);
    }
}

/* A setting of a link: (name, kinds, needed, default, low, high, whole, choices, variadic, help); a bit more in kinds for a selection. */
static PyObject *describe_field(const gd_field *f)
{
    unsigned kinds = f->kinds | (f->selection ? 64u : 0);
    return Py_BuildValue("(sIONddNNNN)", f->name, kinds, f->fallback.kind || f->variadic ? Py_False : Py_True,
                         default_of(f), f->low, f->high, PyBool_FromLong(f->integer),
                         text_or_none(f->choices), PyBool_FromLong(f->variadic), text_or_none(f->help));
}

static PyObject *describe_link(const gd_link_class *c)
{
    PyObject *fields = PyTuple_New(c->field_count);
    for (int i = 0; i < c->field_count && fields; i++) {
        PyObject *field = describe_field(&c->fields[i]);
        if (!field || PyTuple_SetItem(fields, i, field) < 0) Py_CLEAR(fields);
    }
    if (!fields) return NULL;
    return Py_BuildValue("{sNsNsNsNsNsNsNsN}", "name", PyUnicode_FromString(c->name), "family",
                         text_or_none(c->family), "summary", text_or_none(c->summary), "formula",
                         text_or_none(c->formula), "paper", text_or_none(c->paper), "cost",
                         text_or_none(c->cost), "example", text_or_none(c->example), "fields", fields);
}

static PyObject *link_names(PyObject *module, PyObject *unused)
{
    int count = 0, presets = 0;
    (void)module, (void)unused;
    const gd_link_class *const *all = gd_link_classes(&count), *const *preset = gd_link_presets(&presets);
    PyObject *names = PyTuple_New(count + presets);
    for (int i = 0; i < count + presets && names; i++) {
        PyObject *name = PyUnicode_FromString(i < count ? all[i]->name : preset[i - count]->name);
        if (!name || PyTuple_SetItem(names, i, name) < 0) Py_CLEAR(names);
    }
    return names;
}

/* The class or preset of a name as a dict; None where there is none. */
static PyObject *link_table(PyObject *module, PyObject *name)
{
    int presets = 0;
    (void)module;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (!text) return PyErr_Format(PyExc_TypeError, "the name of a link is a text");
    const gd_link_class *found = gd_link_class_find(text);
    const gd_link_class *const *preset = gd_link_presets(&presets);
    for (int i = 0; i < presets && !found; i++)
        if (!strcmp(preset[i]->name, text)) found = preset[i];
    if (!found) Py_RETURN_NONE;
    return describe_link(found);
}

static PyObject *current_context(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    gd_py_context *c = gd_py_current();
    return c ? Py_NewRef((PyObject *)c) : NULL;
}

static PyObject *gpu_count(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    gd_py_context *c = gd_py_current();
    return c ? PyLong_FromLong(gd_gpu_count(c->ctx)) : NULL;
}

static PyObject *gpu_describe(PyObject *module, PyObject *index)
{
    char text[256];
    (void)module;
    gd_py_context *c = gd_py_current();
    long number = PyLong_AsLong(index);
    if (!c || PyErr_Occurred()) return NULL;
    if (!gd_gpu_describe(c->ctx, (int)number, text, sizeof text))
        return gd_py_fail(GD_DEVICE, "there is no gpu:%ld", number);
    return PyUnicode_FromString(text);
}

static PyObject *stop_table(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *all = PyList_New(GD_STOP_COUNT);
    for (int i = 0; i < GD_STOP_COUNT && all; i++) {
        PyObject *row = Py_BuildValue("(ssN)", gd_stop_name((gd_stop)i), gd_stop_text((gd_stop)i),
                                      PyBool_FromLong(gd_stop_converged((gd_stop)i)));
        if (!row || PyList_SetItem(all, i, row) < 0) Py_CLEAR(all);
    }
    return all;
}

static PyMethodDef core_functions[] = {
    {"link_names", link_names, METH_NOARGS, "link_names()\n--\n\nThe names of all links and presets."},
    {"link_table", link_table, METH_O, "link_table(name, /)\n--\n\nWhat is known of a link."},
    {"check_chain", gd_py_check_chain, METH_O,
     "check_chain(text, /)\n--\n\nReads a chain and writes it again."},
    {"_link_text", gd_py_link_text, METH_VARARGS, NULL},
    {"current_context", current_context, METH_NOARGS,
     "current_context()\n--\n\nThe context in which tensors are made."},
    {"gpu_count", gpu_count, METH_NOARGS, "gpu_count()\n--\n\nHow many GPUs there are."},
    {"gpu_describe", gpu_describe, METH_O, "gpu_describe(index, /)\n--\n\nWhat a GPU is, as text."},
    {"stop_table", stop_table, METH_NOARGS, "stop_table()\n--\n\nWhy solvers stop: name, text, converged."},
    {NULL, NULL, 0, NULL}};

/* ---- the module ---- */

static int refuse_other_interpreters(void)
{
    if (gd_py.module || PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(PyExc_ImportError, "gradus runs in the main interpreter only, and is loaded once");
        return 0;
    }
    return 1;
}

/* Operators for which the package has functions of its own. */
static int is_replaced(const char *name)
{
    static const char *const names[] = {"tensor", "grad", "jvp", "hessian"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return 1;
    return 0;
}

/* __all__: what `import *` takes. */
static int add_public_names(PyObject *module)
{
    PyObject *all = PyList_New(0), *name, *value;
    Py_ssize_t at = 0;
    int fine = all != NULL;
    while (fine && PyDict_Next(PyModule_GetDict(module), &at, &name, &value)) {
        const char *text = gd_py_text(name);
        fine = text && (*text == '_' || is_replaced(text) || PyList_Append(all, name) == 0);
    }
    fine = fine && PyList_Sort(all) == 0 && PyModule_AddObjectRef(module, "__all__", all) == 0;
    Py_XDECREF(all);
    return fine;
}

static int fill_module(PyObject *module)
{
    if (!refuse_other_interpreters()) return -1;
    gd_py.home = PyThread_get_thread_ident();
    gd_py.empty_tuple = PyTuple_New(0);
    int fine = gd_py.empty_tuple && gd_py_add_errors(module) && gd_py_add_context(module) &&
               gd_py_add_tensor(module) && gd_py_add_module_type(module) && gd_py_add_optimizer(module) &&
               gd_py_add_fit(module) && gd_py_add_borrower(module) && gd_py_add_training(module) &&
               gd_py_add_tables(module) && gd_py_add_traced(module) &&
               PyModule_AddFunctions(module, core_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_make_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_operator_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_autograd_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_solve_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_file_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_functional_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_link_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_timing_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_traced_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_loop_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_layer_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_optimizer_functions) == 0 &&
               PyModule_AddFunctions(module, gd_py_by_hand_functions) == 0 &&
               PyModule_AddStringConstant(module, "__version__", gd_version()) == 0;
    fine = fine && add_public_names(module);
    if (fine) gd_py.module = module;
    return fine ? 0 : -1;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, (void *)fill_module}, {0, NULL}};
static struct PyModuleDef module_def = {PyModuleDef_HEAD_INIT,
                                        "_core",
                                        "The library, for the package gradus.",
                                        0,
                                        NULL,
                                        module_slots,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&module_def); }
