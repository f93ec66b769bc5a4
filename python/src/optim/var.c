/* The variable of a step, for links written in Python that have step(self, var): see links.c.
 *
 * Python asks by name (_var_call): one function a question, all in one table.  A capsule holds the variable and ends with the call, so
 * that what somebody keeps says so when it is used. */
#include "core.h"

#include <math.h>
#include <string.h>

static const char *const alive = "gradus.var", *const ended = "gradus.var.ended",
                         *const hook_name = "gradus.hook";

/* What the functions below see. */
typedef struct view {
    gd_link *link;
    gd_var *var;
    gd_py_context *c;
    PyObject *hooks; /* functions that wait for the end of a step; borrowed */
} view;

/* ---- lists ---- */

static PyObject *borrowed_list(view *v, gd_tensor *const *t)
{
    int count = gd_var_count(v->var);
    PyObject *list = t ? PyList_New(count) : gd_py_raise(v->c);
    for (int i = 0; i < count && list; i++) {
        PyObject *item = gd_py_borrowed_tensor(v->c, t[i]);
        if (!item || PyList_SetItem(list, i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

/* The tensors of a list, borrowed, in memory for PyMem_Free; NULL with an exception. */
static gd_tensor **tensors_of(view *v, PyObject *list)
{
    int count = gd_var_count(v->var), fine = PyList_Check(list) && PyList_Size(list) == count;
    gd_tensor **t = fine ? PyMem_Calloc((size_t)count + 1, sizeof *t) : NULL;
    for (int i = 0; t && i < count && fine; i++) {
        PyObject *item = PyList_GetItem(list, i);
        fine = gd_py_is_tensor(item) && (t[i] = gd_py_tensor_of(item));
    }
    if (t && fine) return t;
    PyMem_Free(t);
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "var: a list of %d tensors is needed", count);
    return NULL;
}

static PyObject *none_or_raise(view *v, gd_status status)
{
    if (status) return gd_py_raise(v->c);
    Py_RETURN_NONE;
}

/* ---- what the step is about ---- */

static PyObject *var_params(view *v, PyObject *args)
{
    (void)args;
    return borrowed_list(v, gd_var_params(v->var));
}

static PyObject *var_names(view *v, PyObject *args)
{
    (void)args;
    PyObject *list = PyList_New(0);
    for (int i = 0; i < gd_var_count(v->var) && list; i++) {
        const char *name = gd_var_param_name(v->var, i);
        PyObject *text = name ? PyUnicode_FromString(name) : Py_NewRef(Py_None);
        if (!text || PyList_Append(list, text) < 0) Py_CLEAR(list);
        Py_XDECREF(text);
    }
    return list;
}

static PyObject *var_number(view *v, PyObject *args)
{
    (void)args;
    return PyLong_FromLongLong(gd_var_step(v->var));
}

/* [is_last, nested_is_last, has_closure, stopped, has_loss, has_grad, has_update] */
static PyObject *var_flags(view *v, PyObject *args)
{
    (void)args;
    const gd_var *x = v->var;
    return Py_BuildValue("[NNNNNNN]", PyBool_FromLong(gd_var_is_last(x)),
                         PyBool_FromLong(gd_var_nested_is_last(x)), PyBool_FromLong(gd_var_has_closure(x)),
                         PyBool_FromLong(gd_var_stopped(x)), PyBool_FromLong(gd_var_has_loss(x)),
                         PyBool_FromLong(gd_var_has_grad(x)), PyBool_FromLong(gd_var_has_update(x)));
}

static PyObject *var_last_lrs(view *v, PyObject *args)
{
    (void)args;
    const double *lrs = gd_var_last_lrs(v->var);
    if (!lrs) Py_RETURN_NONE;
    PyObject *list = PyList_New(gd_var_count(v->var));
    for (int i = 0; i < gd_var_count(v->var) && list; i++)
        if (PyList_SetItem(list, i, PyFloat_FromDouble(lrs[i])) < 0) Py_CLEAR(list);
    return list;
}

/* ---- loss, gradient, update ---- */

static PyObject *var_loss(view *v, PyObject *args)
{
    int backward = 1;
    if (!PyArg_ParseTuple(args, "|p:get_loss", &backward)) return NULL;
    gd_tensor *loss = gd_var_loss(v->var, backward);
    return loss ? gd_py_borrowed_tensor(v->c, loss) : gd_py_raise(v->c);
}

static PyObject *var_grad(view *v, PyObject *args)
{
    (void)args;
    return borrowed_list(v, gd_var_grad(v->var));
}

static PyObject *var_update(view *v, PyObject *args)
{
    (void)args;
    return borrowed_list(v, gd_var_update(v->var));
}

static PyObject *set_list(view *v, PyObject *args, gd_status (*set)(gd_var *, gd_tensor *const *))
{
    PyObject *list;
    if (!PyArg_ParseTuple(args, "O", &list)) return NULL;
    if (list == Py_None) return none_or_raise(v, set(v->var, NULL));
    gd_tensor **t = tensors_of(v, list),
              **own = t ? PyMem_Calloc((size_t)gd_var_count(v->var) + 1, sizeof *own) : NULL;
    gd_status status = own ? GD_OK : GD_NOMEM;
    for (int i = 0; own && i < gd_var_count(v->var) && !status; i++) /* later links may write into them */
        if (!(own[i] = gd_copy(t[i]))) status = gd_error(v->c->ctx);
    if (!status) status = set(v->var, own);
    PyMem_Free(own);
    PyMem_Free(t);
    if (!t) return NULL;
    return none_or_raise(v, status);
}
static PyObject *var_set_update(view *v, PyObject *args) { return set_list(v, args, gd_var_set_update); }
static PyObject *var_set_grad(view *v, PyObject *args) { return set_list(v, args, gd_var_set_grad); }

/* ---- evaluations ---- */

/* (loss, gradients or None) where the parameters are now. */
static PyObject *var_evaluate(view *v, PyObject *args)
{
    int backward = 1, count = gd_var_count(v->var);
    if (!PyArg_ParseTuple(args, "|p:evaluate", &backward)) return NULL;
    gd_tensor *loss = NULL, **grads = PyMem_Calloc((size_t)count + 1, sizeof *grads);
    if (!grads) return PyErr_NoMemory();
    gd_status status = gd_var_evaluate(v->var, &loss, backward ? grads : NULL);
    PyObject *slopes = status     ? gd_py_raise(v->c)
                       : backward ? gd_py_tuple_of(v->c, grads, count)
                                  : Py_NewRef(Py_None);
    PyObject *value = slopes ? gd_py_new_tensor(v->c, loss) : NULL;
    PyMem_Free(grads);
    PyObject *both = value ? PyTuple_Pack(2, value, slopes) : NULL;
    Py_XDECREF(value);
    Py_XDECREF(slopes);
    return both;
}

static PyObject *var_evaluate_at(view *v, PyObject *args)
{
    double alpha, loss = NAN;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "dO:evaluate_at", &alpha, &list)) return NULL;
    gd_tensor **direction = tensors_of(v, list);
    if (!direction) return NULL;
    gd_status status = gd_var_evaluate_moved(v->var, alpha, direction, &loss, NULL);
    PyMem_Free(direction);
    return status ? gd_py_raise(v->c) : PyFloat_FromDouble(loss);
}

static PyObject *var_move(view *v, PyObject *args)
{
    double alpha;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "dO:move", &alpha, &list)) return NULL;
    gd_tensor **direction = tensors_of(v, list);
    if (!direction) return NULL;
    gd_status status = gd_var_move(v->var, alpha, direction);
    PyMem_Free(direction);
    return none_or_raise(v, status);
}

static PyObject *var_hvp(view *v, PyObject *args)
{
    PyObject *list, *result;
    int count = gd_var_count(v->var);
    if (!PyArg_ParseTuple(args, "O:hvp", &list)) return NULL;
    gd_tensor **t = tensors_of(v, list), **out = t ? PyMem_Calloc((size_t)count + 1, sizeof *out) : NULL;
    if (out && !gd_var_hvp(v->var, GD_HVP_AUTOGRAD, 1e-3, false, t, out))
        result = gd_py_tuple_of(v->c, out, count);
    else
        result = out ? gd_py_raise(v->c) : NULL;
    PyMem_Free(t);
    PyMem_Free(out);
    return result;
}

static PyObject *var_hessian(view *v, PyObject *args)
{
    (void)args;
    return gd_py_new_tensor(v->c, gd_var_hessian(v->var));
}

/* ---- what comes of it ---- */

static PyObject *var_stop(view *v, PyObject *args)
{
    (void)args;
    gd_var_stop(v->var);
    Py_RETURN_NONE;
}
static PyObject *var_skip_update(view *v, PyObject *args)
{
    (void)args;
    gd_var_skip_update(v->var);
    Py_RETURN_NONE;
}
static PyObject *var_terminate(view *v, PyObject *args)
{
    int yes = 1;
    if (!PyArg_ParseTuple(args, "|p:terminate", &yes)) return NULL;
    gd_var_terminate(v->var, yes);
    Py_RETURN_NONE;
}

static PyObject *put(view *v, PyObject *args, gd_status (*number)(gd_var *, const char *, double),
                     gd_status (*tensor)(gd_var *, const char *, gd_tensor *))
{
    const char *name;
    PyObject *value;
    if (!PyArg_ParseTuple(args, "sO", &name, &value)) return NULL;
    gd_tensor *t = gd_py_is_tensor(value) ? gd_py_tensor_of(value) : NULL;
    double x = t ? 0 : PyFloat_AsDouble(value);
    if (PyErr_Occurred()) return NULL;
    if (t && !(t = gd_copy(t))) return gd_py_raise(v->c); /* what Python holds may change */
    return none_or_raise(v, t ? tensor(v->var, name, t) : number(v->var, name, x));
}
static PyObject *var_set_attr(view *v, PyObject *args)
{
    return put(v, args, gd_var_set_attr, gd_var_set_attr_tensor);
}
static PyObject *var_set_storage(view *v, PyObject *args)
{
    return put(v, args, gd_var_set_storage, gd_var_set_storage_tensor);
}

static PyObject *var_storage(view *v, PyObject *args)
{
    const char *name;
    if (!PyArg_ParseTuple(args, "s:storage", &name)) return NULL;
    gd_tensor *t = gd_var_storage_tensor(v->var, name);
    if (t) return gd_py_borrowed_tensor(v->c, t);
    double x = gd_var_storage(v->var, name, NAN);
    return isnan(x) ? Py_NewRef(Py_None) : PyFloat_FromDouble(x);
}

/* ---- the link ---- */

static gd_tensor *param_at(view *v, int i)
{
    if (i >= 0 && i < gd_var_count(v->var)) return gd_var_params(v->var)[i];
    (void)gd_py_fail(GD_INDEX, "var: there are %d parameters, not %d", gd_var_count(v->var), i + 1);
    return NULL;
}

static PyObject *var_state(view *v, PyObject *args)
{
    const char *slot;
    int i;
    if (!PyArg_ParseTuple(args, "is:state", &i, &slot)) return NULL;
    gd_tensor *p = param_at(v, i), *state = p ? gd_link_state(v->link, p, slot) : NULL;
    if (!p) return NULL;
    return state ? gd_py_borrowed_tensor(v->c, state) : gd_py_raise(v->c);
}

static PyObject *var_setting(view *v, PyObject *args)
{
    const char *name;
    int i;
    if (!PyArg_ParseTuple(args, "is:setting", &i, &name)) return NULL;
    gd_tensor *p = param_at(v, i);
    return p ? gd_py_setting(v->c, v->link, name, p) : NULL;
}

/* A step of a child from the update that is there: its update, or None where there is no such child. */
static PyObject *var_child(view *v, PyObject *args)
{
    const char *field;
    if (!PyArg_ParseTuple(args, "s:child", &field)) return NULL;
    gd_link *child = gd_link_child(v->link, field);
    if (!child) Py_RETURN_NONE;
    gd_var *clone = gd_var_clone(v->var, true, NULL);
    if (!clone) return gd_py_raise(v->c);
    view inner = {child, clone, v->c, v->hooks};
    gd_status status = gd_link_step(child, clone);
    PyObject *update = status ? gd_py_raise(v->c) : borrowed_list(&inner, gd_var_update(clone));
    if (!status) gd_var_take_from(v->var, clone);
    gd_var_free(clone);
    return update;
}

/* ---- hooks ---- */

typedef struct waiting {
    gd_py_context *c;
    gd_link *link;
    PyObject *fn, *hooks; /* references */
    PyObject *capsule;    /* this, in the list; borrowed */
} waiting;

static void end_waiting(PyObject *capsule)
{
    waiting *w = PyCapsule_GetPointer(capsule, hook_name);
    Py_DECREF(w->fn);
    Py_DECREF(w->hooks);
    free(w);
}

static PyObject *call_with_var(PyObject *fn, const char *method, view *v)
{
    PyObject *capsule = PyCapsule_New(v, alive, NULL), *result = NULL;
    if (capsule && method)
        result = PyObject_CallMethod(fn, method, "O", capsule);
    else if (capsule)
        result = PyObject_CallFunctionObjArgs(fn, capsule, NULL);
    if (capsule) (void)PyCapsule_SetName(capsule, ended);
    Py_XDECREF(capsule);
    return result;
}

static gd_status run_hook(void *user, gd_optimizer *optimizer, gd_var *var)
{
    waiting *w = user;
    gd_py_context *c = w->c;
    (void)optimizer;
    PyGILState_STATE state = gd_py_callback_begin(c);
    PyObject *fn = Py_NewRef(w->fn), *hooks = Py_NewRef(w->hooks);
    view v = {w->link, var, c, hooks};
    Py_ssize_t at = PySequence_Index(hooks, w->capsule);
    if (at >= 0) (void)PySequence_DelItem(hooks, at); /* ends what was waiting */
    PyObject *result = call_with_var(fn, NULL, &v);
    if (!result) gd_py_keep_exception(c);
    int fine = result != NULL;
    Py_XDECREF(result);
    Py_DECREF(fn);
    Py_DECREF(hooks);
    gd_py_callback_end(c, state);
    return fine ? GD_OK : GD_CALLBACK;
}

static PyObject *var_after_step(view *v, PyObject *args)
{
    PyObject *fn;
    if (!PyArg_ParseTuple(args, "O:after_step", &fn)) return NULL;
    waiting *w = calloc(1, sizeof *w);
    PyObject *capsule = w ? PyCapsule_New(w, hook_name, NULL) : PyErr_NoMemory();
    if (!capsule) {
        free(w);
        return NULL;
    }
    *w = (waiting){v->c, v->link, Py_NewRef(fn), Py_NewRef(v->hooks), capsule};
    (void)PyCapsule_SetDestructor(capsule, end_waiting);
    int kept = PyList_Append(v->hooks, capsule) == 0;
    Py_DECREF(capsule);
    return kept ? none_or_raise(v, gd_var_after_step(v->var, run_hook, w)) : NULL;
}

/* ---- asking by name ---- */

static const struct {
    const char *name;
    PyObject *(*fn)(view *, PyObject *);
} questions[] = {{"params", var_params},
                 {"names", var_names},
                 {"number", var_number},
                 {"flags", var_flags},
                 {"last_lrs", var_last_lrs},
                 {"get_loss", var_loss},
                 {"get_grad", var_grad},
                 {"get_update", var_update},
                 {"set_update", var_set_update},
                 {"set_grad", var_set_grad},
                 {"evaluate", var_evaluate},
                 {"evaluate_at", var_evaluate_at},
                 {"move", var_move},
                 {"hvp", var_hvp},
                 {"hessian", var_hessian},
                 {"stop", var_stop},
                 {"skip_update", var_skip_update},
                 {"terminate", var_terminate},
                 {"set_attr", var_set_attr},
                 {"set_storage", var_set_storage},
                 {"storage", var_storage},
                 {"state", var_state},
                 {"setting", var_setting},
                 {"child", var_child},
                 {"after_step", var_after_step}};

/* _var_call(var, name, arguments) */
PyObject *gd_py_var_call(PyObject *module, PyObject *all)
{
    PyObject *capsule, *args;
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(all, "OsO!:_var_call", &capsule, &name, &PyTuple_Type, &args)) return NULL;
    if (!PyCapsule_IsValid(capsule, alive)) return gd_py_fail(GD_STATE, "a variable is used after its step");
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (!strcmp(questions[i].name, name))
            return questions[i].fn(PyCapsule_GetPointer(capsule, alive), args);
    return PyErr_Format(PyExc_AttributeError, "a variable has no '%s'", name);
}

gd_status gd_py_step_link(gd_py_context *c, PyObject *object, PyObject *hooks, gd_link *link, gd_var *var)
{
    PyGILState_STATE state = gd_py_callback_begin(c);
    view v = {link, var, c, hooks};
    PyObject *result = call_with_var(object, "_step", &v);
    if (!result) gd_py_keep_exception(c);
    int fine = result != NULL;
    Py_XDECREF(result);
    gd_py_callback_end(c, state);
    return fine ? GD_OK : GD_CALLBACK;
}
