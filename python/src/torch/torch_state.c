/* Links of a _Borrower and what they keep: see torch.c. */
#include "torch/torch.h"

#include <string.h>

/* Link number *left of a tree, parents first; *left is what is missing where there are fewer. */
static gd_link *find_link(gd_link *link, Py_ssize_t *left)
{
    if ((*left)-- == 0) return link;
    for (int i = 0; i < gd_link_children(link); i++) {
        gd_link *found = find_link(gd_link_child_at(link, i), left);
        if (found) return found;
    }
    return NULL;
}

static gd_link *link_number(gd_optimizer *o, Py_ssize_t number)
{
    gd_link *link = number < 0 ? NULL : find_link(gd_optimizer_chain(o), &number);
    if (!link) (void)gd_py_fail(GD_INDEX, "there is no such link");
    return link;
}

static PyObject *settings_of(gd_link *link)
{
    const gd_link_class *cls = gd_link_class_of(link);
    PyObject *dict = PyDict_New();
    for (int i = 0; i < cls->field_count && dict; i++) {
        const gd_setting *s = gd_link_get(link, cls->fields[i].name, NULL);
        PyObject *value = s && s->kind == GD_SET_REAL ? PyFloat_FromDouble(s->real) : NULL;
        if (!value) continue;
        if (PyDict_SetItemString(dict, cls->fields[i].name, value) < 0) Py_CLEAR(dict);
        Py_DECREF(value);
    }
    return dict;
}

static int list_links(PyObject *list, gd_link *link, const char *path, int number)
{
    char own[400];
    const gd_link_class *cls = gd_link_class_of(link);
    PyOS_snprintf(own, sizeof own, "%s%s%d:%s", path, *path ? "." : "", number, cls->name);
    PyObject *slots = PyTuple_New(cls->slot_count);
    for (int i = 0; i < cls->slot_count && slots; i++)
        if (PyTuple_SetItem(slots, i, PyUnicode_FromString(cls->slots[i].name)) < 0) Py_CLEAR(slots);
    PyObject *row = slots ? Py_BuildValue("(ssNNNNN)", number < 0 ? "" : own, cls->name, slots,
                                          settings_of(link), PyBool_FromLong(cls->traits.needs_closure),
                                          PyBool_FromLong(gd_link_is_local(link)),
                                          PyBool_FromLong(gd_link_acts_first(link)))
                          : NULL;
    int fine = row && PyList_Append(list, row) == 0;
    Py_XDECREF(row);
    for (int i = 0; i < gd_link_children(link) && fine; i++)
        fine = list_links(list, gd_link_child_at(link, i), number < 0 ? "" : own, i);
    return fine;
}

/* links(): (path, class, slots, numbers in its settings, needs a closure, works on pieces of tensors, acts before the objective is asked),
 * parents first. */
PyObject *gd_py_borrower_links(PyObject *o, PyObject *unused)
{
    (void)unused;
    BORROWER_OR_RETURN(o);
    gd_link *chain = gd_optimizer_chain(optimizer);
    PyObject *list = PyList_New(0);
    bool is_chain = !strcmp(gd_link_class_of(chain)->name, "chain");
    if (list && !list_links(list, chain, "", is_chain ? -1 : 0)) Py_CLEAR(list);
    gd_clear_error(c->ctx);
    return list;
}

static borrowed *param_number(py_borrower *self, Py_ssize_t i)
{
    if (i >= 0 && i < self->count) return &self->param[i];
    (void)gd_py_fail(GD_INDEX, "there is no such parameter");
    return NULL;
}

/* state(link, parameter, slot): a Tensor on its memory, or None before there is any. */
PyObject *gd_py_borrower_state(PyObject *o, PyObject *args)
{
    Py_ssize_t link, number;
    const char *slot;
    BORROWER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "nns:state", &link, &number, &slot)) return NULL;
    gd_link *l = link_number(optimizer, link);
    borrowed *b = l ? param_number(self, number) : NULL;
    if (!b) return NULL;
    if (!gd_link_has_state(l, b->t, slot)) Py_RETURN_NONE;
    gd_tensor *t = gd_link_state(l, b->t, slot);
    return t ? gd_py_borrowed_tensor(c, t) : gd_py_raise(c);
}

PyObject *gd_py_borrower_set_state(PyObject *o, PyObject *args)
{
    Py_ssize_t link, number;
    const char *slot;
    PyObject *value;
    BORROWER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "nnsO!:set_state", &link, &number, &slot, gd_py.tensor_type, &value))
        return NULL;
    gd_link *l = link_number(optimizer, link);
    borrowed *b = l ? param_number(self, number) : NULL;
    gd_tensor *t = b ? gd_py_tensor_of(value) : NULL;
    if (!t) return NULL;
    if (gd_link_set_state(l, b->t, slot, t)) return gd_py_raise_for(c, b->name);
    Py_RETURN_NONE;
}

PyObject *gd_py_borrower_steps_of(PyObject *o, PyObject *args)
{
    Py_ssize_t link, number;
    BORROWER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "nn:steps_of", &link, &number)) return NULL;
    gd_link *l = link_number(optimizer, link);
    borrowed *b = l ? param_number(self, number) : NULL;
    return b ? PyLong_FromLongLong(gd_link_steps_of(l, b->t)) : NULL;
}

PyObject *gd_py_borrower_set_steps_of(PyObject *o, PyObject *args)
{
    Py_ssize_t link, number;
    long long steps;
    BORROWER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "nnL:set_steps_of", &link, &number, &steps)) return NULL;
    gd_link *l = link_number(optimizer, link);
    borrowed *b = l ? param_number(self, number) : NULL;
    if (!b) return NULL;
    if (gd_link_set_steps_of(l, b->t, steps)) return gd_py_raise_for(c, b->name);
    Py_RETURN_NONE;
}

/* set(link, field, value, first, last): a number of a link for some of the parameters. */
PyObject *gd_py_borrower_set(PyObject *o, PyObject *args)
{
    Py_ssize_t link, first, last;
    const char *field;
    double value;
    BORROWER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "nsdnn:set", &link, &field, &value, &first, &last)) return NULL;
    gd_link *l = link_number(optimizer, link);
    gd_setting setting = {.kind = GD_SET_REAL, .real = value};
    for (; l && first < last && first < self->count; first++)
        if (gd_link_set_for(l, self->param[first].t, field, setting)) return gd_py_raise(c);
    if (!l) return NULL;
    Py_RETURN_NONE;
}

/* pack(): the text and the tensors of a state file. */
PyObject *gd_py_borrower_pack(PyObject *o, PyObject *unused)
{
    (void)unused;
    BORROWER_OR_RETURN(o);
    gd_archive *archive = gd_archive_new(c->ctx);
    if (!archive || gd_optimizer_pack(optimizer, archive, NULL)) {
        gd_archive_free(archive);
        return gd_py_raise(c);
    }
    PyObject *dict = PyDict_New();
    for (int64_t i = 0; i < gd_archive_count(archive) && dict; i++) {
        PyObject *t = gd_py_borrowed_tensor(c, gd_archive_get(archive, i));
        if (!t || PyDict_SetItemString(dict, gd_archive_name(archive, i), t) < 0) Py_CLEAR(dict);
        Py_XDECREF(t);
    }
    PyObject *result = dict ? Py_BuildValue("(sN)", gd_archive_get_meta(archive, "optimizer"), dict) : NULL;
    gd_archive_free(archive);
    return result;
}

PyObject *gd_py_borrower_unpack(PyObject *o, PyObject *args)
{
    const char *text;
    PyObject *dict, *name, *value;
    Py_ssize_t at = 0;
    BORROWER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "sO!:unpack", &text, &PyDict_Type, &dict)) return NULL;
    gd_archive *archive = gd_archive_new(c->ctx);
    gd_status status = archive ? gd_archive_set_meta(archive, "optimizer", text) : GD_NOMEM;
    while (!status && PyDict_Next(dict, &at, &name, &value)) {
        const char *word = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        gd_tensor *t = word && gd_py_is_tensor(value) ? gd_py_tensor_of(value) : NULL;
        status = t ? gd_archive_put(archive, word, t) : GD_ARGUMENT;
    }
    if (!status) status = gd_optimizer_unpack(optimizer, archive, NULL, true);
    gd_archive_free(archive);
    if (!status) Py_RETURN_NONE;
    if (PyErr_Occurred()) return NULL;
    return gd_error(c->ctx) ? gd_py_raise(c) : gd_py_fail(GD_ARGUMENT, "unpack: tensors by name are needed");
}
