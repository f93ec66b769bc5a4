/* The data of a link written in Python: state, settings, children, random numbers. */
#include "view.h"

#include <math.h>
#include <string.h>

/* How many parameters it is about, their keys for state, and tensors with the shapes that it sees. */
static int count_of(const gd_py_view *v) { return v->t ? v->t->count : gd_var_count(v->var); }

static gd_tensor *key_at(gd_py_view *v, int i)
{
    if (i >= 0 && i < count_of(v)) return v->t ? v->t->keys[i] : gd_var_params(v->var)[i];
    (void)gd_py_fail(GD_INDEX, "there are %d tensors, not %d", count_of(v), i + 1);
    return NULL;
}

static gd_tensor *like_at(const gd_py_view *v, int i)
{
    return v->t ? v->t->params[i] : gd_var_params(v->var)[i];
}

/* ---- state of parameters ---- */

/* (index, slot, first): what is there, or else `first` there: zeros, a number everywhere, or a copy of a tensor. */
static PyObject *state(gd_py_view *v, PyObject *args)
{
    const char *slot;
    int i;
    PyObject *first = Py_None;
    if (!PyArg_ParseTuple(args, "is|O:state", &i, &slot, &first)) return NULL;
    gd_tensor *key = key_at(v, i);
    if (!key) return NULL;
    gd_init init = {.kind = GD_INIT_ZEROS, .tensor = like_at(v, i)};
    if (gd_py_is_tensor(first)) {
        init.kind = GD_INIT_COPY;
        if (!(init.tensor = gd_py_tensor_of(first))) return NULL;
    } else if (first != Py_None) {
        init.kind = GD_INIT_CONSTANT;
        init.value = PyFloat_AsDouble(first);
        if (PyErr_Occurred()) return NULL;
    }
    gd_tensor *found = gd_link_state_from(v->link, key, slot, init);
    return found ? gd_py_borrowed_tensor(v->c, found) : gd_py_raise(v->c);
}

static PyObject *has_state(gd_py_view *v, PyObject *args)
{
    const char *slot;
    int i;
    if (!PyArg_ParseTuple(args, "is:has_state", &i, &slot)) return NULL;
    gd_tensor *key = key_at(v, i);
    if (!key) return NULL;
    bool there = gd_link_has_state(v->link, key, slot);
    return gd_error(v->c->ctx) ? gd_py_raise(v->c) : PyBool_FromLong(there);
}

/* (index, slot, value): None forgets it. */
static PyObject *set_state(gd_py_view *v, PyObject *args)
{
    const char *slot;
    int i;
    PyObject *value;
    if (!PyArg_ParseTuple(args, "isO:set_state", &i, &slot, &value)) return NULL;
    gd_tensor *key = key_at(v, i), *t = NULL;
    if (!key) return NULL;
    if (value != Py_None) {
        if (!gd_py_is_tensor(value)) return gd_py_no_tensor("set_state", value);
        if (!(t = gd_py_tensor_of(value))) return NULL;
    }
    return gd_py_none_or_raise(v, gd_link_set_state(v->link, key, slot, t));
}

static PyObject *slots(gd_py_view *v, PyObject *args)
{
    const gd_link_class *cls = gd_link_class_of(v->link);
    PyObject *list = PyList_New(0);
    (void)args;
    for (int i = 0; i < cls->slot_count && list; i++) {
        PyObject *name = PyUnicode_FromString(cls->slots[i].name);
        if (!name || PyList_Append(list, name) < 0) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

/* ---- state of the link ---- */

static PyObject *global(gd_py_view *v, PyObject *args)
{
    const char *name;
    if (!PyArg_ParseTuple(args, "s:global_state", &name)) return NULL;
    if (!gd_link_has_global(v->link, name)) Py_RETURN_NONE;
    gd_tensor *t = gd_link_global_tensor(v->link, name);
    if (t) return gd_py_borrowed_tensor(v->c, t);
    return gd_error(v->c->ctx) ? gd_py_raise(v->c) : PyFloat_FromDouble(gd_link_kept(v->link, name, NAN));
}

static PyObject *set_global(gd_py_view *v, PyObject *args)
{
    const char *name;
    PyObject *value;
    if (!PyArg_ParseTuple(args, "sO:global_state", &name, &value)) return NULL;
    gd_tensor *t = gd_py_is_tensor(value) ? gd_py_tensor_of(value) : NULL;
    double x = t ? NAN : PyFloat_AsDouble(value);
    if (PyErr_Occurred()) return NULL;
    if (t && !(t = gd_copy(t))) return gd_py_raise(v->c); /* what Python holds may change */
    gd_status status = gd_link_set_global_tensor(v->link, name, t);
    return gd_py_none_or_raise(v, status || t ? status : gd_link_keep(v->link, name, x));
}

/* ---- settings ---- */

/* (index, name); index -1: one value for all parameters. */
static PyObject *setting(gd_py_view *v, PyObject *args)
{
    const char *name;
    int i;
    if (!PyArg_ParseTuple(args, "is:setting", &i, &name)) return NULL;
    gd_tensor *key = i < 0 ? NULL : key_at(v, i);
    return i < 0 || key ? gd_py_setting(v->c, v->link, name, key) : NULL;
}

static PyObject *settings(gd_py_view *v, PyObject *args)
{
    const gd_link_class *cls = gd_link_class_of(v->link);
    PyObject *list = PyList_New(0);
    (void)args;
    for (int i = 0; i < cls->field_count && list; i++) {
        if (cls->fields[i].kinds & GD_SET_CHAIN) continue;
        PyObject *name = PyUnicode_FromString(cls->fields[i].name);
        if (!name || PyList_Append(list, name) < 0) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *steps(gd_py_view *v, PyObject *args)
{
    (void)args;
    return PyLong_FromLongLong(gd_link_steps(v->link));
}

/* ---- children ---- */

static PyObject *text_of(const gd_link *link)
{
    int need = gd_link_print(link, NULL, 0);
    char *out = need < 0 ? NULL : PyMem_Malloc((size_t)need + 1);
    if (out) (void)gd_link_print(link, out, (size_t)need + 1);
    PyObject *text = out ? PyUnicode_FromString(out) : PyErr_NoMemory();
    PyMem_Free(out);
    return text;
}

/* How many children a field has: a class has at most one that takes any number. */
static int children_in(const gd_link *link, const gd_field *f)
{
    const gd_link_class *cls = gd_link_class_of(link);
    int all = gd_link_children(link);
    if (!(f->kinds & GD_SET_CHAIN)) return 0;
    if (!f->variadic) return gd_link_child(link, f->name) != NULL;
    for (int i = 0; i < cls->field_count; i++)
        if (!cls->fields[i].variadic) all -= children_in(link, &cls->fields[i]);
    return all;
}

/* [(field, text), ...] in their order. */
static PyObject *children(gd_py_view *v, PyObject *args)
{
    const gd_link_class *cls = gd_link_class_of(v->link);
    PyObject *list = PyList_New(0);
    int at = 0;
    (void)args;
    for (int i = 0; i < cls->field_count; i++)
        for (int k = children_in(v->link, &cls->fields[i]); k-- > 0 && list; at++) {
            PyObject *text = text_of(gd_link_child_at(v->link, at));
            PyObject *pair = text ? Py_BuildValue("(sN)", cls->fields[i].name, text) : NULL;
            if (!pair || PyList_Append(list, pair) < 0) Py_CLEAR(list);
            Py_XDECREF(pair);
        }
    return list;
}

static gd_link *child_at(gd_py_view *v, int i)
{
    gd_link *child = gd_link_child_at(v->link, i);
    if (!child) (void)gd_py_fail(GD_INDEX, "there are %d children, not %d", gd_link_children(v->link), i + 1);
    return child;
}

/* (index, what, var): a step of a child, or a half of it, on that variable. */
static PyObject *run_child(gd_py_view *v, PyObject *args)
{
    const char *what;
    PyObject *capsule;
    int i;
    if (!PyArg_ParseTuple(args, "isO:child", &i, &what, &capsule)) return NULL;
    gd_link *child = child_at(v, i);
    gd_py_view *on = child ? gd_py_view_of(capsule) : NULL;
    if (!on) return NULL;
    if (!on->var) return gd_py_fail(GD_STATE, "there is no step here");
    return gd_py_none_or_raise(v, !strcmp(what, "update")  ? gd_link_update(child, on->var)
                                  : !strcmp(what, "apply") ? gd_link_apply(child, on->var)
                                                           : gd_link_step(child, on->var));
}

/* (index, online): clears its state. */
static PyObject *reset_child(gd_py_view *v, PyObject *args)
{
    int i, online;
    if (!PyArg_ParseTuple(args, "ip:reset", &i, &online)) return NULL;
    gd_link *child = child_at(v, i);
    if (!child) return NULL;
    if (online)
        gd_link_reset_for_online(child);
    else
        gd_link_reset(child);
    return gd_py_none_or_raise(v, gd_error(v->c->ctx));
}

/* (index, var): its Hessian as a matrix; None if it has none. */
static PyObject *child_hessian(gd_py_view *v, PyObject *args)
{
    PyObject *capsule;
    int i;
    if (!PyArg_ParseTuple(args, "iO:get_H", &i, &capsule)) return NULL;
    gd_link *child = child_at(v, i);
    gd_py_view *on = child ? gd_py_view_of(capsule) : NULL;
    if (!on) return NULL;
    gd_linop *h = gd_link_hessian(child, on->var);
    if (!h) return gd_py_none_or_raise(v, gd_error(v->c->ctx));
    gd_tensor *matrix = gd_linop_to_dense(h);
    PyObject *result = gd_py_new_tensor(v->c, matrix);
    gd_linop_release(h);
    return result;
}

/* (index, tensors, params, grads): what a whole chain makes of tensors, keyed by the parameters. */
static PyObject *child_transform(gd_py_view *v, PyObject *args)
{
    PyObject *list;
    int i, n = count_of(v);
    if (!PyArg_ParseTuple(args, "iO:transform", &i, &list)) return NULL;
    gd_link *child = child_at(v, i);
    gd_tensor **x = child ? gd_py_tensors_of(list, "child", n) : NULL;
    if (!x) return NULL;
    if (v->t && v->t->count != v->t->key_count) {
        PyMem_Free(x);
        return gd_py_fail(GD_SHAPE,
                          "children of a link with concat_params are settings with one chain: child()");
    }
    gd_status status = GD_OK;
    for (int k = 0; k < n && !status; k++) /* links may write into them */
        if (!(x[k] = gd_copy(x[k]))) status = gd_error(v->c->ctx);
    gd_tensor *const *params = v->t ? v->t->params : gd_var_params(v->var);
    if (!status) status = gd_link_transform(child, x, params, v->t ? v->t->grads : NULL, v->var, n);
    PyObject *result = status ? gd_py_raise(v->c) : gd_py_borrowed_list(v, x, n);
    PyMem_Free(x);
    return result;
}

/* (setting, tensors): the child on them, a new list; the same if there is no child. */
static PyObject *child_of_transform(gd_py_view *v, PyObject *args)
{
    const char *field;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "sO:child", &field, &list)) return NULL;
    if (!v->t) return gd_py_fail(GD_STATE, "child of tensors is for update and apply");
    if (!gd_link_has_field(v->link, field))
        return PyErr_Format(gd_py.error[GD_ATTRIBUTE], "%s has no setting '%s'",
                            gd_link_class_of(v->link)->name, field);
    if (!gd_link_child(v->link, field)) return Py_NewRef(list);
    int n = v->t->count;
    gd_tensor **x = gd_py_tensors_of(list, "child", n);
    if (!x) return NULL;
    gd_status status = GD_OK;
    for (int i = 0; i < n && !status; i++) /* links may write into them */
        if (!(x[i] = gd_copy(x[i]))) status = gd_error(v->c->ctx);
    if (!status) status = gd_transform_child(v->t, field, x);
    PyObject *result = status ? gd_py_raise(v->c) : gd_py_borrowed_list(v, x, n);
    PyMem_Free(x);
    return result;
}

/* ---- random numbers ---- */

static PyObject *random_list(gd_py_view *v, PyObject *args)
{
    const char *distribution;
    int n = count_of(v);
    if (!PyArg_ParseTuple(args, "s:random", &distribution)) return NULL;
    gd_tensor **out = PyMem_Calloc((size_t)n + 1, sizeof *out);
    if (!out) return PyErr_NoMemory();
    gd_tensor *const *like = v->t ? v->t->params : gd_var_params(v->var);
    PyObject *result = gd_link_random_list(v->link, distribution, like, n, out)
                           ? gd_py_raise(v->c)
                           : gd_py_tuple_of(v->c, out, n);
    PyMem_Free(out);
    return result;
}

const gd_py_question gd_py_link_questions[] = {{"state", state, 1},
                                               {"has_state", has_state, 1},
                                               {"set_state", set_state, 1},
                                               {"slots", slots, 0},
                                               {"global", global, 0},
                                               {"set_global", set_global, 0},
                                               {"setting", setting, 0},
                                               {"settings", settings, 0},
                                               {"steps", steps, 0},
                                               {"children", children, 0},
                                               {"run_child", run_child, 0},
                                               {"reset_child", reset_child, 0},
                                               {"child_hessian", child_hessian, 1},
                                               {"child_transform", child_transform, 1},
                                               {"child_of_transform", child_of_transform, 1},
                                               {"random", random_list, 1},
                                               {NULL, NULL, 0}};
