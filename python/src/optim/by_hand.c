/* Parts of an optimizer by hand: its chain on any tensors, single links, names of attributes. */
#include "core.h"
#include "view.h"

#include <stdio.h>
#include <string.h>

static gd_optimizer *optimizer_in(PyObject *o, gd_py_context **c)
{
    if (!PyObject_TypeCheck(o, gd_py.optimizer_type)) {
        PyErr_Format(PyExc_TypeError, "an Optimizer is needed, not %R", (PyObject *)Py_TYPE(o));
        return NULL;
    }
    gd_optimizer *optimizer = gd_py_optimizer_of(o);
    if (optimizer) *c = ((gd_py_handle *)o)->owner;
    return optimizer;
}

/* ---- a chain on tensors ---- */

typedef struct by_hand {
    gd_tensor **tensors, **params, **grads;
    gd_tensor *loss;
    int count;
} by_hand;

static void by_hand_clear(by_hand *b)
{
    PyMem_Free(b->tensors);
    PyMem_Free(b->params);
    PyMem_Free(b->grads);
}

static int by_hand_read(by_hand *b, const gd_optimizer *o, PyObject *tensors, PyObject *grads, PyObject *loss)
{
    *b = (by_hand){.count = gd_optimizer_count(o)};
    if (!b->count) return gd_py_fail(GD_STATE, "transform: the optimizer has no parameters") != NULL;
    b->params = PyMem_Calloc((size_t)b->count + 1, sizeof *b->params);
    if (!b->params) return !PyErr_NoMemory();
    for (int i = 0; i < b->count; i++) b->params[i] = gd_optimizer_param(o, i);
    if (!(b->tensors = gd_py_tensors_of(tensors, "transform", b->count))) return 0;
    if (grads != Py_None && !(b->grads = gd_py_tensors_of(grads, "transform: grads", b->count))) return 0;
    if (loss == Py_None) return 1;
    if (!gd_py_is_tensor(loss)) return gd_py_no_tensor("transform: loss", loss) != NULL;
    return (b->loss = gd_py_tensor_of(loss)) != NULL;
}

static gd_status run_by_hand(gd_link *chain, by_hand *b, const char *what)
{
    gd_status status = GD_OK;
    for (int i = 0; i < b->count && !status; i++) /* links may write into them */
        if (!(b->tensors[i] = gd_copy(b->tensors[i]))) status = gd_error(gd_link_ctx(chain));
    if (status) return status;
    if (!strcmp(what, "update"))
        return gd_link_keyed_update(chain, b->tensors, b->params, b->grads, b->loss, b->count);
    if (!strcmp(what, "apply"))
        return gd_link_keyed_apply(chain, b->tensors, b->params, b->grads, b->loss, b->count);
    return gd_link_transform(chain, b->tensors, b->params, b->grads, NULL, b->count);
}

/* _optimizer_transform(optimizer, what, tensors, grads, loss): new tensors; what: "both", "update" or "apply". */
static PyObject *transform(PyObject *module, PyObject *args)
{
    PyObject *o, *tensors, *grads, *loss;
    const char *what;
    gd_py_context *c;
    by_hand b;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsOOO:transform", &o, &what, &tensors, &grads, &loss)) return NULL;
    gd_optimizer *optimizer = optimizer_in(o, &c);
    if (!optimizer) return NULL;
    if (!by_hand_read(&b, optimizer, tensors, grads, loss)) {
        by_hand_clear(&b);
        return NULL;
    }
    PyThreadState *state = gd_py_begin(c);
    if (!state) {
        by_hand_clear(&b);
        return NULL;
    }
    gd_scope_begin(c->ctx);
    gd_no_grad_begin(c->ctx);
    gd_status status = run_by_hand(gd_optimizer_chain(optimizer), &b, what);
    gd_no_grad_end(c->ctx);
    for (int i = 0; i < b.count && !status; i++) (void)gd_keep(b.tensors[i]);
    gd_scope_end(c->ctx);
    gd_py_end(c, state);
    PyObject *result = status ? gd_py_raise(c) : PyList_New(b.count);
    for (int i = 0; i < b.count && !status; i++) {
        PyObject *t = gd_py_new_tensor(c, b.tensors[i]);
        if (result && (!t || PyList_SetItem(result, i, t) < 0)) Py_CLEAR(result);
    }
    by_hand_clear(&b);
    return result && gd_py_done(c) ? result : NULL;
}

/* ---- single links ---- */

static int path_of(char *out, size_t size, const char *above, int i, const gd_link *link)
{
    return snprintf(out, size, "%s%s%d:%s", above, *above ? "." : "", i, gd_link_class_of(link)->name);
}

/* Calls fn for every link of a tree with its path; parents first, until one gives 0. */
typedef int (*link_fn)(void *user, gd_link *link, const char *path);
static int each(gd_link *link, const char *path, link_fn fn, void *user)
{
    char below[1024];
    if (!fn(user, link, path)) return 0;
    for (int i = 0; i < gd_link_children(link); i++) {
        gd_link *child = gd_link_child_at(link, i);
        (void)path_of(below, sizeof below, path, i, child);
        if (!each(child, below, fn, user)) return 0;
    }
    return 1;
}

/* One link alone has the path that it would have in a chain. */
static int each_of(gd_optimizer *o, link_fn fn, void *user)
{
    char path[256] = "";
    gd_link *chain = gd_optimizer_chain(o);
    int one = strcmp(gd_link_class_of(chain)->name, "chain") != 0;
    if (one) (void)path_of(path, sizeof path, "", 0, chain);
    return each(chain, path, fn, user);
}

static int add_path(void *user, gd_link *link, const char *path)
{
    PyObject *text = *path ? Py_BuildValue("(ss)", path, gd_link_class_of(link)->name) : NULL;
    int fine = !*path || (text && PyList_Append(user, text) == 0);
    Py_XDECREF(text);
    return fine;
}

/* _optimizer_links(optimizer): [(path, name), ...] */
static PyObject *links(PyObject *module, PyObject *o)
{
    gd_py_context *c;
    (void)module;
    gd_optimizer *optimizer = optimizer_in(o, &c);
    PyObject *list = optimizer ? PyList_New(0) : NULL;
    if (list && !each_of(optimizer, add_path, list)) Py_CLEAR(list);
    return list;
}

static int add_selections(void *user, gd_link *link, const char *path)
{
    const gd_link_class *cls = gd_link_class_of(link);
    for (int i = 0; i < cls->field_count; i++) {
        const gd_setting *s = cls->fields[i].selection ? gd_link_get(link, cls->fields[i].name, NULL) : NULL;
        if (!s || s->kind != GD_SET_STRING) continue;
        PyObject *row = Py_BuildValue("(sss)", path, cls->fields[i].name, s->string);
        int fine = row && PyList_Append(user, row) == 0;
        Py_XDECREF(row);
        if (!fine) return 0;
    }
    return 1;
}

/* _optimizer_selections(optimizer): [(path, setting, text), ...] of links that choose parameters. */
static PyObject *selections(PyObject *module, PyObject *o)
{
    gd_py_context *c;
    (void)module;
    gd_optimizer *optimizer = optimizer_in(o, &c);
    PyObject *list = optimizer ? PyList_New(0) : NULL;
    if (list && !each_of(optimizer, add_selections, list)) Py_CLEAR(list);
    return list;
}

typedef struct wanted {
    const char *path;
    gd_link *found;
} wanted;

static int is_wanted(void *user, gd_link *link, const char *path)
{
    wanted *w = user;
    if (strcmp(path, w->path)) return 1;
    w->found = link;
    return 0;
}

static gd_link *link_at(gd_optimizer *o, const char *path)
{
    wanted w = {path, NULL};
    (void)each_of(o, is_wanted, &w);
    if (!w.found) PyErr_Format(PyExc_KeyError, "the chain has no link '%s'", path);
    return w.found;
}

static PyObject *none(gd_py_context *c, gd_status status)
{
    if (status) return gd_py_raise(c);
    if (!gd_py_done(c)) return NULL;
    Py_RETURN_NONE;
}

/* _optimizer_reset(optimizer, path): clears the state of a link and its children; path None: all. */
static PyObject *reset(PyObject *module, PyObject *args)
{
    PyObject *o;
    const char *path;
    gd_py_context *c;
    (void)module;
    if (!PyArg_ParseTuple(args, "Oz:reset", &o, &path)) return NULL;
    gd_optimizer *optimizer = optimizer_in(o, &c);
    gd_link *link = !optimizer ? NULL : path ? link_at(optimizer, path) : gd_optimizer_chain(optimizer);
    if (!link) return NULL;
    PyThreadState *state = gd_py_begin(c);
    if (!state) return NULL;
    if (path)
        gd_link_reset(link);
    else
        gd_optimizer_reset(optimizer);
    gd_py_end(c, state);
    return none(c, gd_error(c->ctx));
}

/* _optimizer_set_text(optimizer, path, setting, text): the link's own. */
static PyObject *set_text(PyObject *module, PyObject *args)
{
    PyObject *o;
    const char *path, *field, *text;
    gd_py_context *c;
    (void)module;
    if (!PyArg_ParseTuple(args, "Osss:_optimizer_set_text", &o, &path, &field, &text)) return NULL;
    gd_optimizer *optimizer = optimizer_in(o, &c);
    gd_link *link = optimizer ? link_at(optimizer, path) : NULL;
    return link ? none(c, gd_link_set_string(link, field, text)) : NULL;
}

/* _optimizer_set_for(optimizer, path, tensors, settings): settings of that link for some parameters. */
static PyObject *set_for(PyObject *module, PyObject *args)
{
    PyObject *o, *tensors;
    const char *path, *text;
    gd_py_context *c;
    (void)module;
    if (!PyArg_ParseTuple(args, "OsO!s:set_param_groups", &o, &path, &PyTuple_Type, &tensors, &text))
        return NULL;
    gd_optimizer *optimizer = optimizer_in(o, &c);
    gd_link *link = optimizer ? link_at(optimizer, path) : NULL;
    int n = (int)PyTuple_Size(tensors);
    gd_tensor **t = link ? gd_py_tensors_of(tensors, "set_param_groups", n) : NULL;
    if (!t) return NULL;
    gd_status status = gd_link_set_group(link, t, n, text);
    PyMem_Free(t);
    return none(c, status);
}

/* ---- attributes ---- */

/* _optimizer_description(optimizer): the text about its state that save() writes. */
static PyObject *description(PyObject *module, PyObject *o)
{
    gd_py_context *c;
    (void)module;
    gd_optimizer *optimizer = optimizer_in(o, &c);
    if (!optimizer) return NULL;
    gd_archive *archive = gd_archive_new(c->ctx);
    PyObject *texts = PyDict_New();
    int fine = texts && archive && !gd_optimizer_pack(optimizer, archive, NULL);
    if (!fine && texts) (void)gd_py_raise(c);
    for (int64_t i = 0; i < gd_archive_meta_count(archive) && fine; i++) {
        PyObject *text = PyUnicode_FromString(gd_archive_meta_text(archive, i));
        fine = text && PyDict_SetItemString(texts, gd_archive_meta_key(archive, i), text) == 0;
        Py_XDECREF(text);
    }
    gd_archive_free(archive);
    if (!fine) Py_CLEAR(texts);
    return texts;
}

PyMethodDef gd_py_by_hand_functions[] = {{"_optimizer_transform", transform, METH_VARARGS, NULL},
                                         {"_optimizer_links", links, METH_O, NULL},
                                         {"_optimizer_selections", selections, METH_O, NULL},
                                         {"_optimizer_reset", reset, METH_VARARGS, NULL},
                                         {"_optimizer_set_text", set_text, METH_VARARGS, NULL},
                                         {"_optimizer_set_for", set_for, METH_VARARGS, NULL},
                                         {"_optimizer_description", description, METH_O, NULL},
                                         {NULL, NULL, 0, NULL}};
