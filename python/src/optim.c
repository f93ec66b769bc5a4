/* Optimizers over tensors and modules. */
#include "core.h"

#include <math.h>
#include <string.h>

typedef struct py_optimizer {
    gd_py_handle head;
    gd_optimizer *optimizer; /* NULL: its context is closed */
    gd_step_info info;
    int has_info;
    PyObject *params; /* what it was made with: kept for who asks */
} py_optimizer;

/* ---- closures ---- */

typedef struct closure {
    PyObject *fn;
    gd_py_context *c;
    PyObject *last; /* the loss of the last call: alive until the step is back */
} closure;

static gd_tensor *call_closure(void *user)
{
    closure *f = user;
    PyGILState_STATE state = gd_py_callback_begin(f->c);
    PyObject *value = PyErr_CheckSignals() < 0 ? NULL : PyObject_CallNoArgs(f->fn);
    gd_tensor *t = gd_py_returned(f->c, &value, "a closure returns the loss as a Tensor");
    gd_py_set(&f->last, value);
    gd_py_callback_end(f->c, state);
    return t;
}

/* ---- the type ---- */

static void end_optimizer(void *optimizer) { gd_optimizer_free(optimizer); }

static void drop_optimizer(gd_py_handle *h)
{
    py_optimizer *self = (py_optimizer *)h;
    gd_optimizer_free(self->optimizer);
    self->optimizer = NULL;
}

gd_optimizer *gd_py_optimizer_of(PyObject *o)
{
    py_optimizer *self = (py_optimizer *)o;
    if (!self->optimizer) {
        (void)gd_py_fail(GD_STATE, self->head.owner
                                       ? "the context of this optimizer is closed"
                                       : "this optimizer has not been made: its __init__ did not run");
        return NULL;
    }
    return gd_py_enter(self->head.owner) ? self->optimizer : NULL;
}

#define OPTIMIZER_OR_RETURN(o)                            \
    gd_optimizer *optimizer = gd_py_optimizer_of(o);      \
    if (!optimizer) return NULL;                          \
    gd_py_context *c = ((py_optimizer *)(o))->head.owner; \
    (void)c

static int optimizer_traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(((py_optimizer *)o)->params);
    return 0;
}
static int optimizer_clear(PyObject *o)
{
    Py_CLEAR(((py_optimizer *)o)->params);
    return 0;
}

static void optimizer_dealloc(PyObject *o)
{
    py_optimizer *self = (py_optimizer *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    (void)optimizer_clear(o);
    if (self->optimizer) gd_py_release(self->head.owner, end_optimizer, self->optimizer);
    gd_py_leave(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

/* _Optimizer(context, chain): empty; parameters are added. */
static int optimizer_init(PyObject *o, PyObject *args, PyObject *keywords)
{
    py_optimizer *self = (py_optimizer *)o;
    PyObject *context;
    const char *chain;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O!s:_Optimizer", gd_py.context_type, &context, &chain)) return -1;
    gd_py_context *c = (gd_py_context *)context;
    if (self->optimizer) return gd_py_fail(GD_STATE, "this optimizer is made already") ? 0 : -1;
    if (!gd_py_enter(c)) return -1;
    gd_optimizer *optimizer = gd_optimizer_new(c->ctx, gd_chain(c->ctx, chain));
    if (!optimizer) {
        (void)gd_py_raise(c);
        return -1;
    }
    self->optimizer = optimizer;
    gd_py_join(c, self, drop_optimizer);
    return 0;
}

/* ---- parameters ---- */

static PyObject *done(gd_py_context *c, gd_status status)
{
    if (status) return gd_py_raise(c);
    if (!gd_py_done(c)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *optimizer_add(PyObject *o, PyObject *args)
{
    const char *name;
    PyObject *tensor;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "sO!:add", &name, gd_py.tensor_type, &tensor)) return NULL;
    gd_tensor *t = gd_py_tensor_of(tensor);
    return t ? done(c, gd_optimizer_add(optimizer, name, t)) : NULL;
}

static PyObject *optimizer_add_group(PyObject *o, PyObject *args)
{
    PyObject *names, *tensors, *result = NULL;
    const char *settings = NULL;
    int group = 0;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "O!O!|z:add_group", &PyTuple_Type, &names, &PyTuple_Type, &tensors,
                          &settings))
        return NULL;
    Py_ssize_t n = PyTuple_Size(tensors);
    if (PyTuple_Size(names) != n)
        return PyErr_Format(PyExc_ValueError, "add_group: as many names as tensors are needed");
    gd_tensor **t = PyMem_Calloc((size_t)n + 1, sizeof *t);
    const char **text = PyMem_Calloc((size_t)n + 1, sizeof *text);
    int fine = t && text;
    for (Py_ssize_t i = 0; i < n && fine; i++) {
        PyObject *item = PyTuple_GetItem(tensors, i);
        fine = gd_py_is_tensor(item) && (t[i] = gd_py_tensor_of(item)) &&
               (text[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL));
    }
    if (fine && !gd_optimizer_add_group(optimizer, text, t, (int)n, settings, &group))
        result = PyLong_FromLong(group);
    else if (!PyErr_Occurred())
        result = fine ? gd_py_raise(c) : PyErr_Format(PyExc_TypeError, "add_group: tensors are needed");
    PyMem_Free(t);
    PyMem_Free((void *)text);
    return result;
}

static PyObject *optimizer_add_module(PyObject *o, PyObject *args)
{
    PyObject *module;
    const char *glob = NULL, *settings = NULL;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "O!|zz:add_module", gd_py.module_type, &module, &glob, &settings))
        return NULL;
    gd_module *m = gd_py_module_of(module);
    return m ? done(c, gd_optimizer_add_module(optimizer, m, glob, settings)) : NULL;
}

static PyObject *optimizer_rebind(PyObject *o, PyObject *module)
{
    OPTIMIZER_OR_RETURN(o);
    if (!PyObject_TypeCheck(module, gd_py.module_type))
        return PyErr_Format(PyExc_TypeError, "rebind: a Module is needed");
    gd_module *m = gd_py_module_of(module);
    return m ? done(c, gd_optimizer_rebind(optimizer, m)) : NULL;
}

static PyObject *optimizer_regroup(PyObject *o, PyObject *args)
{
    const char *selection, *settings;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "ss:regroup", &selection, &settings)) return NULL;
    return done(c, gd_optimizer_regroup(optimizer, selection, settings));
}

static PyObject *optimizer_remove(PyObject *o, PyObject *args)
{
    const char *name;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "s:remove", &name)) return NULL;
    return done(c, gd_optimizer_remove(optimizer, name));
}

/* ---- settings ---- */

static PyObject *optimizer_set(PyObject *o, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"key", "value", "group", NULL};
    const char *key;
    PyObject *value;
    int group = -1;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "sO|i:set", names, &key, &value, &group)) return NULL;
    if (PyUnicode_Check(value)) {
        const char *schedule = PyUnicode_AsUTF8AndSize(value, NULL);
        return schedule ? done(c, gd_optimizer_schedule(optimizer, group, key, schedule)) : NULL;
    }
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) return NULL;
    return done(c, gd_optimizer_set(optimizer, group, key, number));
}

static PyObject *optimizer_unset(PyObject *o, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"key", "group", NULL};
    const char *key;
    int group = -1;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|i:unset", names, &key, &group)) return NULL;
    return done(c, gd_optimizer_unset(optimizer, group, key));
}

/* ---- steps ---- */

static PyObject *optimizer_step(PyObject *o, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    py_optimizer *self = (py_optimizer *)o;
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    if (n + named > 1 || (named && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "closure")))
        return PyErr_Format(PyExc_TypeError, "step() takes one argument, closure");
    OPTIMIZER_OR_RETURN(o);
    PyObject *fn = n + named ? args[0] : Py_None;
    if (fn != Py_None && !PyCallable_Check(fn))
        return PyErr_Format(PyExc_TypeError, "step: the closure must be callable, not %R",
                            (PyObject *)Py_TYPE(fn));
    closure f = {fn, c, NULL};
    gd_objective objective = {.user = &f, .loss = call_closure};
    gd_step_info info;
    Py_INCREF(o); /* a closure may drop the last reference */
    PyThreadState *state = gd_py_begin(c);
    gd_status status = gd_optimizer_step(optimizer, fn == Py_None ? NULL : &objective, &info);
    gd_py_end(c, state);
    Py_XDECREF(f.last);
    self->has_info = !status;
    if (!status) self->info = info;
    PyObject *result = NULL;
    if (status)
        (void)gd_py_raise(c);
    else if (gd_py_done(c))
        result = info.has_loss ? PyFloat_FromDouble(info.loss) : Py_NewRef(Py_None);
    Py_DECREF(o);
    return result;
}

static PyObject *optimizer_zero_grad(PyObject *o, PyObject *unused)
{
    (void)unused;
    OPTIMIZER_OR_RETURN(o);
    gd_optimizer_zero_grad(optimizer);
    Py_RETURN_NONE;
}

static PyObject *optimizer_reset(PyObject *o, PyObject *unused)
{
    (void)unused;
    OPTIMIZER_OR_RETURN(o);
    gd_optimizer_reset(optimizer);
    Py_RETURN_NONE;
}

static PyObject *optimizer_evaluate(PyObject *o, PyObject *on)
{
    int yes = PyObject_IsTrue(on);
    OPTIMIZER_OR_RETURN(o);
    return yes < 0 ? NULL : done(c, gd_optimizer_evaluate(optimizer, yes));
}

/* ---- state on disk ---- */

static PyObject *optimizer_save(PyObject *o, PyObject *path)
{
    PyObject *bytes = NULL;
    OPTIMIZER_OR_RETURN(o);
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    gd_status status = gd_optimizer_save(optimizer, PyBytes_AsString(bytes));
    Py_DECREF(bytes);
    return done(c, status);
}

static PyObject *optimizer_load(PyObject *o, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"path", "strict", NULL};
    PyObject *bytes = NULL;
    int strict = 1;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|p:load", names, PyUnicode_FSConverter, &bytes,
                                     &strict))
        return NULL;
    gd_status status = gd_optimizer_load(optimizer, PyBytes_AsString(bytes), strict);
    Py_DECREF(bytes);
    return done(c, status);
}

/* ---- looking ---- */

static PyObject *text_of(gd_py_context *c, int (*print)(void *user, char *out, size_t size), void *user)
{
    int need = print(user, NULL, 0);
    if (need < 0) return gd_py_raise(c);
    char *text = PyMem_Malloc((size_t)need + 1);
    if (!text) return PyErr_NoMemory();
    need = print(user, text, (size_t)need + 1);
    PyObject *result = need < 0 ? gd_py_raise(c) : PyUnicode_FromString(text);
    PyMem_Free(text);
    return result;
}
static int print_explain(void *user, char *out, size_t size) { return gd_explain(user, false, out, size); }
static int print_source(void *user, char *out, size_t size) { return gd_explain(user, true, out, size); }
static int print_chain(void *user, char *out, size_t size) { return gd_link_print(user, out, size); }

static PyObject *optimizer_explain(PyObject *o, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"source", NULL};
    int source = 0;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|p:explain", names, &source)) return NULL;
    return text_of(c, source ? print_source : print_explain, optimizer);
}

/* A number or tensor that a link has left for the user; None where there is none. */
static PyObject *optimizer_attr(PyObject *o, PyObject *args)
{
    const char *name;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "s:attr", &name)) return NULL;
    gd_tensor *t = gd_optimizer_attr_tensor(optimizer, name);
    if (t) return gd_py_borrowed_tensor(c, t);
    double value = gd_optimizer_attr(optimizer, name, NAN);
    return isnan(value) ? Py_NewRef(Py_None) : PyFloat_FromDouble(value);
}

static PyObject *get_chain(PyObject *o, void *unused)
{
    (void)unused;
    OPTIMIZER_OR_RETURN(o);
    return text_of(c, print_chain, gd_optimizer_chain(optimizer));
}
static PyObject *get_parameters(PyObject *o, void *unused)
{
    (void)unused;
    OPTIMIZER_OR_RETURN(o);
    PyObject *dict = PyDict_New();
    for (int i = 0; i < gd_optimizer_count(optimizer) && dict; i++) {
        PyObject *t = gd_py_borrowed_tensor(c, gd_optimizer_param(optimizer, i));
        if (!t || PyDict_SetItemString(dict, gd_optimizer_param_name(optimizer, i), t) < 0) Py_CLEAR(dict);
        Py_XDECREF(t);
    }
    return dict;
}
static PyObject *get_steps(PyObject *o, void *unused)
{
    (void)unused;
    OPTIMIZER_OR_RETURN(o);
    return PyLong_FromLongLong(gd_optimizer_steps(optimizer));
}
static PyObject *get_evaluations(PyObject *o, void *unused)
{
    (void)unused;
    OPTIMIZER_OR_RETURN(o);
    return PyLong_FromLongLong(gd_optimizer_evals(optimizer));
}
static PyObject *get_groups(PyObject *o, void *unused)
{
    (void)unused;
    OPTIMIZER_OR_RETURN(o);
    return PyLong_FromLong(gd_optimizer_groups(optimizer));
}
static PyObject *get_terminate(PyObject *o, void *unused)
{
    (void)unused;
    OPTIMIZER_OR_RETURN(o);
    return PyBool_FromLong(gd_optimizer_should_terminate(optimizer));
}
static PyObject *get_info(PyObject *o, void *unused)
{
    (void)unused;
    OPTIMIZER_OR_RETURN(o);
    const gd_step_info *i = &((py_optimizer *)o)->info;
    if (!((py_optimizer *)o)->has_info) Py_RETURN_NONE;
    return Py_BuildValue("{sNsNsNsNsNsLsLsdsdsi}", "loss",
                         i->has_loss ? PyFloat_FromDouble(i->loss) : Py_NewRef(Py_None), "finite",
                         PyBool_FromLong(i->finite), "search_failed", PyBool_FromLong(i->search_failed),
                         "skipped", PyBool_FromLong(i->skipped), "terminate", PyBool_FromLong(i->terminate),
                         "step", (long long)i->step, "evals", (long long)i->evals, "kkt", i->kkt, "violation",
                         i->violation, "detached_params", i->detached_params);
}
static PyObject *get_optimizer_context(PyObject *o, void *unused)
{
    (void)unused;
    OPTIMIZER_OR_RETURN(o);
    return Py_NewRef((PyObject *)c);
}
static PyObject *get_pointer(PyObject *o, void *unused)
{
    (void)unused;
    OPTIMIZER_OR_RETURN(o);
    return PyLong_FromVoidPtr(optimizer);
}

static PyGetSetDef optimizer_values[] = {
    {"chain", get_chain, NULL, "The chain as text, settings that are not the default included.", NULL},
    {"parameters", get_parameters, NULL, "The parameters by name.", NULL},
    {"steps", get_steps, NULL, "Steps done.", NULL},
    {"evaluations", get_evaluations, NULL, "Evaluations of closures so far.", NULL},
    {"groups", get_groups, NULL, "How many groups of parameters there are.", NULL},
    {"should_terminate", get_terminate, NULL, "Has a termination link said stop?", NULL},
    {"info", get_info, NULL, "What the last step did, or None before the first.", NULL},
    {"context", get_optimizer_context, NULL, "The context it belongs to.", NULL},
    {"_handle", get_pointer, NULL, "Address of the gd_optimizer, for extensions.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

#define KEYWORDS(fn) (PyCFunction)(void (*)(void)) fn, METH_VARARGS | METH_KEYWORDS
static PyMethodDef optimizer_methods[] = {
    {"add", optimizer_add, METH_VARARGS,
     "add($self, name, tensor, /)\n--\n\nAdds a parameter to the first group."},
    {"add_group", optimizer_add_group, METH_VARARGS,
     "add_group($self, names, tensors, settings=None, /)\n--\n\nAdds a group with settings of its own: 'lr=0.1, momentum=0.5'."},
    {"add_module", optimizer_add_module, METH_VARARGS,
     "add_module($self, module, glob=None, settings=None, /)\n--\n\nAdds the parameters of a module whose names match."},
    {"rebind", optimizer_rebind, METH_O,
     "rebind($self, module, /)\n--\n\nTakes the tensors that the module has now for the parameters of their names."},
    {"regroup", optimizer_regroup, METH_VARARGS,
     "regroup($self, selection, settings, /)\n--\n\nGives the parameters that match settings of their own: regroup('*.bias', 'lr=0.1')."},
    {"remove", optimizer_remove, METH_VARARGS,
     "remove($self, name, /)\n--\n\nForgets a parameter and its state."},
    {"set", KEYWORDS(optimizer_set),
     "set($self, key, value, group=-1)\n--\n\nA setting of every link that has it: a number, or a schedule as text: "
     "'warmup(100, cosine(0.1, 0.001, 1000))'."},
    {"unset", KEYWORDS(optimizer_unset),
     "unset($self, key, group=-1)\n--\n\nTakes a setting or schedule back."},
    {"step", (PyCFunction)(void (*)(void))optimizer_step, METH_FASTCALL | METH_KEYWORDS,
     "step($self, closure=None)\n--\n\n"
     "One step.  closure() computes the loss from the parameters; without one the gradients of backward() are used.  Returns the "
     "first loss of the step, or None.  What the closure raises comes out of here, with the parameters as before."},
    {"zero_grad", optimizer_zero_grad, METH_NOARGS,
     "zero_grad($self)\n--\n\nForgets the gradients on the parameters."},
    {"reset", optimizer_reset, METH_NOARGS, "reset($self)\n--\n\nForgets all state; the parameters stay."},
    {"evaluate", optimizer_evaluate, METH_O,
     "evaluate($self, on, /)\n--\n\nSets the parameters to what links recommend to evaluate with (averages), and with False back."},
    {"save", optimizer_save, METH_O,
     "save($self, path, /)\n--\n\nWrites all state but the parameters to a safetensors file."},
    {"load", KEYWORDS(optimizer_load), "load($self, path, strict=True)\n--\n\nReads what save() wrote."},
    {"attr", optimizer_attr, METH_VARARGS,
     "attr($self, name, /)\n--\n\nA number or tensor that a link has left for the user, or None."},
    {"explain", KEYWORDS(optimizer_explain),
     "explain($self, source=False)\n--\n\nHow a step runs: passes over memory, state, cost."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot optimizer_slots[] = {{Py_tp_doc, "The optimizer of the library; see gradus.Optimizer."},
                                        {Py_tp_init, optimizer_init},
                                        {Py_tp_dealloc, optimizer_dealloc},
                                        {Py_tp_traverse, optimizer_traverse},
                                        {Py_tp_clear, optimizer_clear},
                                        {Py_tp_methods, optimizer_methods},
                                        {Py_tp_getset, optimizer_values},
                                        {0, NULL}};
static PyType_Spec optimizer_spec = {"gradus._core._Optimizer", sizeof(py_optimizer), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                     optimizer_slots};

int gd_py_add_optimizer(PyObject *module)
{
    return (gd_py.optimizer_type = gd_py_add_type(module, &optimizer_spec, NULL)) != NULL;
}
