/* The variable of a step, for links written in Python that have step(self, var): see links.c.
 *
 * Python asks by name (_var_call): one function a question, all in one table.  A capsule holds the variable and ends with the call, so
 * that what somebody keeps says so when it is used. */
#include "view.h"

#include <math.h>
#include <string.h>

static const char *const alive = "gradus.var", *const ended = "gradus.var.ended",
                         *const hook_name = "gradus.hook";

/* ---- views and their capsules ---- */

PyObject *gd_py_view_open(gd_py_view *v) { return PyCapsule_New(v, alive, NULL); }

static void end_made(PyObject *list)
{
    for (Py_ssize_t i = 0; list && i < PyList_Size(list); i++) {
        PyObject *capsule = PyList_GetItem(list, i);
        gd_py_view *v = PyCapsule_GetPointer(capsule, alive);
        (void)PyCapsule_SetName(capsule, ended);
        if (v->owned) gd_var_free(v->var);
        free(v);
    }
}

void gd_py_view_close(gd_py_view *v, PyObject *capsule)
{
    PyObject *type, *value, *trace; /* what it was called for may have failed */
    PyErr_Fetch(&type, &value, &trace);
    end_made(v->made);
    Py_CLEAR(v->made);
    if (capsule) (void)PyCapsule_SetName(capsule, ended);
    Py_XDECREF(capsule);
    PyErr_Restore(type, value, trace);
}

/* A different variable for the rest of the call; owned ones are taken over, also on failure. */
static PyObject *sub_view(gd_py_view *v, gd_var *var, int owned)
{
    gd_py_view *root = v->root ? v->root : v, *s = calloc(1, sizeof *s);
    if (s)
        *s = (gd_py_view){
            .link = v->link, .var = var, .c = v->c, .hooks = v->hooks, .root = root, .owned = owned};
    PyObject *capsule = s ? PyCapsule_New(s, alive, NULL) : PyErr_NoMemory();
    if (capsule && !root->made) root->made = PyList_New(0);
    if (capsule && root->made && PyList_Append(root->made, capsule) == 0) return capsule;
    if (capsule) (void)PyCapsule_SetName(capsule, ended);
    Py_XDECREF(capsule);
    if (owned) gd_var_free(var);
    free(s);
    return NULL;
}

gd_py_view *gd_py_view_of(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, alive)) return PyCapsule_GetPointer(capsule, alive);
    (void)gd_py_fail(GD_STATE, "a variable is used after its step");
    return NULL;
}

/* ---- lists ---- */

PyObject *gd_py_borrowed_list(gd_py_view *v, gd_tensor *const *t, int count)
{
    PyObject *list = t ? PyList_New(count) : gd_py_raise(v->c);
    for (int i = 0; i < count && list; i++) {
        PyObject *item = gd_py_borrowed_tensor(v->c, t[i]);
        if (!item || PyList_SetItem(list, i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *borrowed_list(gd_py_view *v, gd_tensor *const *t)
{
    return gd_py_borrowed_list(v, t, gd_var_count(v->var));
}

gd_tensor **gd_py_tensors_of(PyObject *list, const char *what, int count)
{
    PyObject *values = gd_py_is_tensor(list) ? NULL : PySequence_Tuple(list);
    int fine = values && PyTuple_Size(values) == count;
    gd_tensor **t = fine ? PyMem_Calloc((size_t)count + 1, sizeof *t) : NULL;
    for (int i = 0; t && i < count && fine; i++) {
        PyObject *item = PyTuple_GetItem(values, i);
        fine = gd_py_is_tensor(item) && (t[i] = gd_py_tensor_of(item));
    }
    Py_XDECREF(values);
    if (t && fine) return t;
    PyMem_Free(t);
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s: a list of %d tensors is needed, one per parameter", what, count);
    return NULL;
}

static gd_tensor **tensors_of(gd_py_view *v, PyObject *list)
{
    return gd_py_tensors_of(list, "var", gd_var_count(v->var));
}

PyObject *gd_py_none_or_raise(gd_py_view *v, gd_status status)
{
    if (status) return gd_py_raise(v->c);
    Py_RETURN_NONE;
}

/* ---- what the step is about ---- */

static PyObject *var_params(gd_py_view *v, PyObject *args)
{
    (void)args;
    return borrowed_list(v, gd_var_params(v->var));
}

static PyObject *var_names(gd_py_view *v, PyObject *args)
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

static PyObject *var_number(gd_py_view *v, PyObject *args)
{
    (void)args;
    return PyLong_FromLongLong(gd_var_step(v->var));
}

/* [is_last, nested_is_last, has_closure, stopped, has_loss, has_grad, has_update] */
static PyObject *var_flags(gd_py_view *v, PyObject *args)
{
    (void)args;
    const gd_var *x = v->var;
    return Py_BuildValue("[NNNNNNN]", PyBool_FromLong(gd_var_is_last(x)),
                         PyBool_FromLong(gd_var_nested_is_last(x)), PyBool_FromLong(gd_var_has_closure(x)),
                         PyBool_FromLong(gd_var_stopped(x)), PyBool_FromLong(gd_var_has_loss(x)),
                         PyBool_FromLong(gd_var_has_grad(x)), PyBool_FromLong(gd_var_has_update(x)));
}

static PyObject *var_last_lrs(gd_py_view *v, PyObject *args)
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

static PyObject *var_loss(gd_py_view *v, PyObject *args)
{
    int backward = 1;
    if (!PyArg_ParseTuple(args, "|p:get_loss", &backward)) return NULL;
    gd_tensor *loss = gd_var_loss(v->var, backward);
    return loss ? gd_py_borrowed_tensor(v->c, loss) : gd_py_raise(v->c);
}

static PyObject *var_grad(gd_py_view *v, PyObject *args)
{
    int graph = 0;
    if (!PyArg_ParseTuple(args, "|p:get_grad", &graph)) return NULL;
    return borrowed_list(v, graph ? gd_var_grad_graph(v->var) : gd_var_grad(v->var));
}

/* The loss that is known, or one near it: None if there is none. */
static PyObject *var_known_loss(gd_py_view *v, PyObject *args)
{
    int approx;
    if (!PyArg_ParseTuple(args, "p", &approx)) return NULL;
    gd_tensor *loss = approx                    ? gd_var_loss_approx(v->var)
                      : gd_var_has_loss(v->var) ? gd_var_loss(v->var, false)
                                                : NULL;
    return loss ? gd_py_borrowed_tensor(v->c, loss) : Py_NewRef(Py_None);
}

static PyObject *var_set_loss(gd_py_view *v, PyObject *args)
{
    PyObject *value;
    int approx;
    if (!PyArg_ParseTuple(args, "Op", &value, &approx)) return NULL;
    gd_tensor *t = NULL;
    if (gd_py_is_tensor(value)) {
        t = gd_py_tensor_of(value);
        if (t && gd_numel(t) != 1) PyErr_SetString(PyExc_ValueError, "var: a loss is one number");
        t = PyErr_Occurred() ? NULL : gd_detach(gd_copy(t)); /* what Python holds may change */
    } else if (value != Py_None) {
        double number = PyFloat_AsDouble(value);
        if (!PyErr_Occurred()) t = gd_scalar(v->c->ctx, GD_F64, number);
    }
    if (PyErr_Occurred()) return NULL;
    if (!t && value != Py_None) return gd_py_raise(v->c);
    if (approx)
        gd_var_set_loss_approx(v->var, t);
    else
        gd_var_set_loss(v->var, t);
    Py_RETURN_NONE;
}

static PyObject *var_zero_grad(gd_py_view *v, PyObject *args)
{
    int in_place;
    if (!PyArg_ParseTuple(args, "p:zero_grad", &in_place)) return NULL;
    return gd_py_none_or_raise(v, gd_var_zero_grad(v->var, in_place));
}

static PyObject *var_update(gd_py_view *v, PyObject *args)
{
    (void)args;
    return borrowed_list(v, gd_var_update(v->var));
}

static PyObject *set_list(gd_py_view *v, PyObject *args, gd_status (*set)(gd_var *, gd_tensor *const *))
{
    PyObject *list;
    if (!PyArg_ParseTuple(args, "O", &list)) return NULL;
    if (list == Py_None) return gd_py_none_or_raise(v, set(v->var, NULL));
    gd_tensor **t = tensors_of(v, list),
              **own = t ? PyMem_Calloc((size_t)gd_var_count(v->var) + 1, sizeof *own) : NULL;
    gd_status status = own ? GD_OK : GD_NOMEM;
    for (int i = 0; own && i < gd_var_count(v->var) && !status; i++) /* later links may write into them */
        if (!(own[i] = gd_copy(t[i]))) status = gd_error(v->c->ctx);
    if (!status) status = set(v->var, own);
    PyMem_Free(own);
    PyMem_Free(t);
    if (!t) return NULL;
    return gd_py_none_or_raise(v, status);
}
static PyObject *var_set_update(gd_py_view *v, PyObject *args)
{
    return set_list(v, args, gd_var_set_update);
}
static PyObject *var_set_grad(gd_py_view *v, PyObject *args) { return set_list(v, args, gd_var_set_grad); }

/* ---- evaluations ---- */

PyObject *gd_py_evaluate(gd_py_view *v, PyObject *args,
                         gd_status (*evaluate)(gd_var *var, gd_tensor **loss, gd_tensor **grads))
{
    int backward = 1, count = gd_var_count(v->var);
    if (!PyArg_ParseTuple(args, "|p:evaluate", &backward)) return NULL;
    gd_tensor *loss = NULL, **grads = PyMem_Calloc((size_t)count + 1, sizeof *grads);
    if (!grads) return PyErr_NoMemory();
    gd_status status = evaluate(v->var, &loss, backward ? grads : NULL);
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

/* At the current parameters. */
static PyObject *var_evaluate(gd_py_view *v, PyObject *args)
{
    return gd_py_evaluate(v, args, gd_var_evaluate);
}

static PyObject *var_evaluate_at(gd_py_view *v, PyObject *args)
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

static PyObject *var_move(gd_py_view *v, PyObject *args)
{
    double alpha;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "dO:move", &alpha, &list)) return NULL;
    gd_tensor **direction = tensors_of(v, list);
    if (!direction) return NULL;
    gd_status status = gd_var_move(v->var, alpha, direction);
    PyMem_Free(direction);
    return gd_py_none_or_raise(v, status);
}

static PyObject *var_hvp(gd_py_view *v, PyObject *args)
{
    static const char *const methods[] = {"autograd", "forward", "central"};
    PyObject *list, *result;
    const char *name;
    double h;
    int normalize, method = 0, count = gd_var_count(v->var);
    if (!PyArg_ParseTuple(args, "Osdp:hvp", &list, &name, &h, &normalize)) return NULL;
    while (method < 3 && strcmp(methods[method], name)) method++;
    if (method == 3)
        return PyErr_Format(PyExc_ValueError, "hvp: method is 'autograd', 'forward' or 'central', not '%s'",
                            name);
    gd_tensor **t = tensors_of(v, list), **out = t ? PyMem_Calloc((size_t)count + 1, sizeof *out) : NULL;
    if (out && !gd_var_hvp(v->var, (gd_hvp_method)method, h, normalize, t, out))
        result = gd_py_tuple_of(v->c, out, count);
    else
        result = out ? gd_py_raise(v->c) : NULL;
    PyMem_Free(t);
    PyMem_Free(out);
    return result;
}

static PyObject *var_hessian(gd_py_view *v, PyObject *args)
{
    (void)args;
    return gd_py_new_tensor(v->c, gd_var_hessian(v->var));
}

/* ---- what comes of it ---- */

static PyObject *var_stop(gd_py_view *v, PyObject *args)
{
    (void)args;
    gd_var_stop(v->var);
    Py_RETURN_NONE;
}
static PyObject *var_skip_update(gd_py_view *v, PyObject *args)
{
    (void)args;
    gd_var_skip_update(v->var);
    Py_RETURN_NONE;
}
static PyObject *var_terminate(gd_py_view *v, PyObject *args)
{
    int yes = 1;
    if (!PyArg_ParseTuple(args, "|p:terminate", &yes)) return NULL;
    gd_var_terminate(v->var, yes);
    Py_RETURN_NONE;
}

static PyObject *put(gd_py_view *v, PyObject *args, gd_status (*number)(gd_var *, const char *, double),
                     gd_status (*tensor)(gd_var *, const char *, gd_tensor *))
{
    const char *name;
    PyObject *value;
    if (!PyArg_ParseTuple(args, "sO", &name, &value)) return NULL;
    gd_tensor *t = gd_py_is_tensor(value) ? gd_py_tensor_of(value) : NULL;
    double x = t ? 0 : PyFloat_AsDouble(value);
    if (PyErr_Occurred()) return NULL;
    if (t && !(t = gd_copy(t))) return gd_py_raise(v->c); /* what Python holds may change */
    return gd_py_none_or_raise(v, t ? tensor(v->var, name, t) : number(v->var, name, x));
}
static PyObject *var_set_attr(gd_py_view *v, PyObject *args)
{
    return put(v, args, gd_var_set_attr, gd_var_set_attr_tensor);
}
static PyObject *var_set_storage(gd_py_view *v, PyObject *args)
{
    return put(v, args, gd_var_set_storage, gd_var_set_storage_tensor);
}

static PyObject *var_storage(gd_py_view *v, PyObject *args)
{
    const char *name;
    if (!PyArg_ParseTuple(args, "s:storage", &name)) return NULL;
    gd_tensor *t = gd_var_storage_tensor(v->var, name);
    if (t) return gd_py_borrowed_tensor(v->c, t);
    double x = gd_var_storage(v->var, name, NAN);
    return isnan(x) ? Py_NewRef(Py_None) : PyFloat_FromDouble(x);
}

/* ---- children ---- */

/* A step of a child from the update that is there: its update, or None where there is no such child. */
static PyObject *var_child(gd_py_view *v, PyObject *args)
{
    const char *field;
    if (!PyArg_ParseTuple(args, "s:child", &field)) return NULL;
    gd_link *child = gd_link_child(v->link, field);
    if (!child) Py_RETURN_NONE;
    gd_var *clone = gd_var_clone(v->var, true, NULL);
    if (!clone) return gd_py_raise(v->c);
    gd_py_view inner = {.link = child, .var = clone, .c = v->c};
    gd_status status = gd_link_step(child, clone);
    PyObject *update = status ? gd_py_raise(v->c) : borrowed_list(&inner, gd_var_update(clone));
    if (!status) gd_var_take_from(v->var, clone);
    gd_var_free(clone);
    return update;
}

/* ---- other variables of the step ---- */

/* clone(update): shares everything else; ends with the call. */
static PyObject *var_clone(gd_py_view *v, PyObject *args)
{
    int update;
    PyObject *parent = Py_None;
    if (!PyArg_ParseTuple(args, "p|O:clone", &update, &parent)) return NULL;
    gd_py_view *above = parent == Py_None ? NULL : gd_py_view_of(parent);
    if (PyErr_Occurred()) return NULL;
    gd_var *clone = gd_var_clone(v->var, update, above ? above->var : NULL);
    return clone ? sub_view(v, clone, 1) : gd_py_raise(v->c);
}

static PyObject *var_parent(gd_py_view *v, PyObject *args)
{
    gd_var *parent = gd_var_parent(v->var);
    (void)args;
    return parent ? sub_view(v, parent, 0) : Py_NewRef(Py_None);
}

/* take(clone): loss, gradient and the end of the run, if they are not known here. */
static PyObject *var_take(gd_py_view *v, PyObject *args)
{
    PyObject *capsule;
    if (!PyArg_ParseTuple(args, "O:update_attrs_from_clone", &capsule)) return NULL;
    gd_py_view *clone = gd_py_view_of(capsule);
    if (!clone) return NULL;
    gd_var_take_from(v->var, clone->var);
    Py_RETURN_NONE;
}

static PyObject *var_optimizer(gd_py_view *v, PyObject *args)
{
    (void)args;
    return PyLong_FromVoidPtr(gd_var_optimizer(v->var));
}

static PyObject *var_attr(gd_py_view *v, PyObject *args)
{
    const char *name;
    if (!PyArg_ParseTuple(args, "s:attrs", &name)) return NULL;
    gd_tensor *t = gd_var_attr_tensor(v->var, name);
    if (t) return gd_py_borrowed_tensor(v->c, t);
    gd_optimizer *o = gd_var_optimizer(v->var);
    double x = o ? gd_optimizer_attr(o, name, NAN) : NAN;
    return isnan(x) ? Py_NewRef(Py_None) : PyFloat_FromDouble(x);
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

PyObject *gd_py_call_with_view(PyObject *object, const char *method, gd_py_view *v)
{
    PyObject *capsule = gd_py_view_open(v), *result = NULL;
    if (capsule && method)
        result = PyObject_CallMethod(object, method, "O", capsule);
    else if (capsule)
        result = PyObject_CallFunctionObjArgs(object, capsule, NULL);
    gd_py_view_close(v, capsule);
    return result;
}

gd_status gd_py_run_with_view(PyObject *object, const char *method, gd_py_view *v)
{
    PyGILState_STATE state = gd_py_callback_begin(v->c);
    PyObject *result = gd_py_call_with_view(object, method, v);
    if (!result) gd_py_keep_exception(v->c);
    int fine = result != NULL;
    Py_XDECREF(result);
    gd_py_callback_end(v->c, state);
    return fine ? GD_OK : GD_CALLBACK;
}

static gd_status run_hook(void *user, gd_optimizer *optimizer, gd_var *var)
{
    waiting *w = user;
    gd_py_context *c = w->c;
    (void)optimizer;
    PyGILState_STATE state = gd_py_callback_begin(c);
    PyObject *fn = Py_NewRef(w->fn), *hooks = Py_NewRef(w->hooks);
    gd_py_view v = {.link = w->link, .var = var, .c = c, .hooks = hooks};
    Py_ssize_t at = PySequence_Index(hooks, w->capsule);
    if (at >= 0) (void)PySequence_DelItem(hooks, at); /* ends what was waiting */
    PyObject *result = gd_py_call_with_view(fn, NULL, &v);
    if (!result) gd_py_keep_exception(c);
    int fine = result != NULL;
    Py_XDECREF(result);
    Py_DECREF(fn);
    Py_DECREF(hooks);
    gd_py_callback_end(c, state);
    return fine ? GD_OK : GD_CALLBACK;
}

static PyObject *var_after_step(gd_py_view *v, PyObject *args)
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
    return kept ? gd_py_none_or_raise(v, gd_var_after_step(v->var, run_hook, w)) : NULL;
}

/* ---- asking by name ---- */

static const gd_py_question questions[] = {{"params", var_params, 1},
                                           {"names", var_names, 1},
                                           {"number", var_number, 1},
                                           {"flags", var_flags, 1},
                                           {"last_lrs", var_last_lrs, 1},
                                           {"get_loss", var_loss, 1},
                                           {"known_loss", var_known_loss, 1},
                                           {"set_loss", var_set_loss, 1},
                                           {"get_grad", var_grad, 1},
                                           {"get_update", var_update, 1},
                                           {"set_update", var_set_update, 1},
                                           {"set_grad", var_set_grad, 1},
                                           {"zero_grad", var_zero_grad, 1},
                                           {"evaluate", var_evaluate, 1},
                                           {"evaluate_at", var_evaluate_at, 1},
                                           {"move", var_move, 1},
                                           {"hvp", var_hvp, 1},
                                           {"hessian", var_hessian, 1},
                                           {"stop", var_stop, 1},
                                           {"skip_update", var_skip_update, 1},
                                           {"terminate", var_terminate, 1},
                                           {"attr", var_attr, 1},
                                           {"set_attr", var_set_attr, 1},
                                           {"set_storage", var_set_storage, 1},
                                           {"storage", var_storage, 1},
                                           {"child", var_child, 1},
                                           {"clone", var_clone, 1},
                                           {"parent", var_parent, 1},
                                           {"take", var_take, 1},
                                           {"optimizer", var_optimizer, 1},
                                           {"after_step", var_after_step, 1},
                                           {NULL, NULL, 0}};

static const gd_py_question *find(const gd_py_question *list, const char *name)
{
    while (list->name && strcmp(list->name, name)) list++;
    return list->name ? list : NULL;
}

/* _var_call(var, name, arguments) */
PyObject *gd_py_var_call(PyObject *module, PyObject *all)
{
    PyObject *capsule, *args;
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(all, "OsO!:_var_call", &capsule, &name, &PyTuple_Type, &args)) return NULL;
    gd_py_view *v = gd_py_view_of(capsule);
    if (!v) return NULL;
    const gd_py_question *q = find(questions, name);
    int of_var = q != NULL;
    if (!q && !(q = find(gd_py_link_questions, name)))
        of_var = (q = find(gd_py_closure_questions, name)) != NULL;
    if (!q) return PyErr_Format(PyExc_AttributeError, "a variable has no '%s'", name);
    if (q->of_step && !v->var && (of_var || !v->t))
        return gd_py_fail(GD_STATE, "'%s': there is no step here", name);
    return q->fn(v, args);
}
