/* Settings of Python as values: a link with them, and options for groups.  No text of a user becomes part of another text. */
#include "core.h"

#include <string.h>

const char *gd_py_text(PyObject *o)
{
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(o, &size);
    if (text && strlen(text) == (size_t)size) return text;
    if (text) PyErr_SetString(PyExc_ValueError, "a text with a NUL character");
    return NULL;
}

static PyObject *printed(gd_link *link)
{
    int need = gd_link_print(link, NULL, 0);
    char *out = need < 0 ? NULL : PyMem_Malloc((size_t)need + 1);
    if (out) (void)gd_link_print(link, out, (size_t)need + 1);
    gd_link_release(link);
    PyObject *result = out ? PyUnicode_FromString(out) : PyErr_NoMemory();
    PyMem_Free(out);
    return result;
}

PyObject *gd_py_check_chain(PyObject *module, PyObject *chain)
{
    (void)module;
    gd_py_context *c = gd_py_current();
    if (!c) return NULL;
    if (!PyUnicode_Check(chain))
        return PyErr_Format(PyExc_TypeError, "a chain is a text, not %R", (PyObject *)Py_TYPE(chain));
    const char *text = gd_py_text(chain);
    gd_link *link = text ? gd_chain(c->ctx, text) : NULL;
    return link ? printed(link) : text ? gd_py_raise(c) : NULL;
}

void gd_py_options_clear(gd_py_options *o)
{
    for (Py_ssize_t i = 0; i < o->count; i++) {
        gd_link_option *option = &o->option[i];
        for (int k = 0; k < option->child_count; k++) gd_link_release(o->children[i][k]);
        PyMem_Free(o->children[i]);
        PyMem_Free(o->list[i]);
    }
    PyMem_Free(o->option);
    PyMem_Free(o->children);
    PyMem_Free(o->list);
    PyMem_Free(o->schedule);
    *o = (gd_py_options){0};
}

static int options_room(gd_py_options *o, Py_ssize_t count)
{
    o->option = PyMem_Calloc((size_t)count + 1, sizeof *o->option);
    o->children = PyMem_Calloc((size_t)count + 1, sizeof *o->children);
    o->list = PyMem_Calloc((size_t)count + 1, sizeof *o->list);
    o->schedule = PyMem_Calloc((size_t)count + 1, sizeof *o->schedule);
    return (o->option && o->children && o->list && o->schedule) || !PyErr_NoMemory();
}

/* The error that is recorded, with the setting it is about. */
static PyObject *raise_about(gd_py_context *c, const char *field)
{
    gd_status status = gd_error(c->ctx);
    if (!status) return gd_py_raise(c);
    char text[2048];
    gd_py_error_text(c, text, sizeof text);
    PyErr_Format(gd_py.error[status], "'%s': %s", field, text);
    gd_clear_error(c->ctx);
    return NULL;
}

/* A list of numbers. */
static int take_list(gd_py_options *o, Py_ssize_t i, PyObject *value)
{
    Py_ssize_t n = PySequence_Size(value);
    double *list = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof *list);
    o->list[i] = list;
    if (!list) return PyErr_Occurred() ? 0 : !PyErr_NoMemory();
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *item = PySequence_GetItem(value, k);
        list[k] = item ? PyFloat_AsDouble(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred()) return 0;
    }
    o->option[i].value = gd_setting_list(list, (int)n);
    return 1;
}

/* The links of a text, or of several, for a setting with children. */
static int take_children(gd_py_context *c, gd_py_options *o, Py_ssize_t i, PyObject *texts)
{
    Py_ssize_t n = PyTuple_Size(texts);
    gd_link **children = o->children[i] = PyMem_Calloc((size_t)n + 1, sizeof(gd_link *));
    gd_link_option *option = &o->option[i];
    if (!children) return !PyErr_NoMemory();
    *option = gd_children_option(option->field, children, 0);
    for (Py_ssize_t k = 0; k < n; k++) {
        const char *text = gd_py_text(PyTuple_GetItem(texts, k));
        if (!text) return 0;
        children[k] = gd_chain(c->ctx, text);
        if (!children[k]) return raise_about(c, option->field) != NULL;
        option->child_count++;
    }
    return 1;
}

/* A number in words, or a schedule. */
static int take_schedule(gd_py_context *c, gd_py_options *o, Py_ssize_t i, const char *text)
{
    gd_schedule *schedule = &o->schedule[i];
    if (gd_schedule_parse(c->ctx, text, schedule)) return 0;
    gd_setting *value = &o->option[i].value;
    *value = gd_setting_real(gd_schedule_value(schedule, 0));
    if (schedule->kind != GD_SCHEDULE_CONSTANT || strchr(text, '(')) value->schedule = schedule;
    return 1;
}

/* Text for a setting that takes none as such: a word, a number or schedule, or links. */
static int take_text(gd_py_context *c, gd_py_options *o, Py_ssize_t i, PyObject *value, unsigned kinds)
{
    const char *text = gd_py_text(value);
    gd_setting *setting = &o->option[i].value;
    if (!text) return 0;
    if (kinds & GD_SET_STRING) return (*setting = gd_setting_string(text)), 1;
    if (!strcmp(text, "none")) return (*setting = gd_setting_none()), 1;
    if (!strcmp(text, "true") || !strcmp(text, "false")) return (*setting = gd_setting_bool(*text == 't')), 1;
    if (kinds & GD_SET_CHAIN) {
        PyObject *texts = PyTuple_Pack(1, value);
        int fine = texts && take_children(c, o, i, texts);
        Py_XDECREF(texts);
        if (fine || !(kinds & GD_SET_REAL)) return fine;
        PyObject *kind, *what, *trace; /* of the links, unless it is a schedule */
        PyErr_Fetch(&kind, &what, &trace);
        fine = take_schedule(c, o, i, text);
        if (!fine) {
            gd_clear_error(c->ctx);
            PyErr_Restore(kind, what, trace);
        } else
            Py_XDECREF(kind), Py_XDECREF(what), Py_XDECREF(trace);
        return fine;
    }
    return take_schedule(c, o, i, text) || raise_about(c, o->option[i].field) != NULL;
}

static int take_number(gd_py_options *o, Py_ssize_t i, PyObject *value)
{
    double number = PyFloat_AsDouble(value);
    if (number == -1.0 && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_TypeError, "'%s' cannot be %R", o->option[i].field, value);
        return 0;
    }
    o->option[i].value = gd_setting_real(number);
    return 1;
}

static int take_value(gd_py_context *c, gd_py_options *o, Py_ssize_t i, PyObject *value, unsigned kinds)
{
    gd_setting *setting = &o->option[i].value;
    if (value == Py_None) return (*setting = gd_setting_none()), 1;
    if (PyBool_Check(value)) return (*setting = gd_setting_bool(value == Py_True)), 1;
    if (PyUnicode_Check(value)) return take_text(c, o, i, value, kinds);
    if (PyTuple_Check(value)) return take_children(c, o, i, value);
    if (PyList_Check(value)) return take_list(o, i, value);
    return take_number(o, i, value);
}

static int options_read(gd_py_context *c, gd_py_options *o, PyObject *settings,
                        unsigned (*kinds_of)(void *user, const char *field), void *user)
{
    Py_ssize_t n = PyTuple_Size(settings);
    *o = (gd_py_options){0};
    int fine = options_room(o, n);
    for (Py_ssize_t i = 0; i < n && fine; i++) {
        PyObject *name, *value;
        o->count = i + 1;
        fine = PyArg_ParseTuple(PyTuple_GetItem(settings, i), "UO", &name, &value) &&
               (o->option[i].field = gd_py_text(name)) &&
               take_value(c, o, i, value, kinds_of(user, o->option[i].field));
    }
    if (!fine) gd_py_options_clear(o);
    return fine;
}

static unsigned known_kinds(void *user, const char *field)
{
    PyObject *kinds = PyDict_GetItemString(user, field);
    return kinds ? (unsigned)PyLong_AsUnsignedLong(kinds) : 0;
}

PyObject *gd_py_link_text(PyObject *module, PyObject *args)
{
    PyObject *settings, *kinds;
    const char *name;
    gd_py_options o;
    (void)module;
    if (!PyArg_ParseTuple(args, "sO!O!:_link_text", &name, &PyTuple_Type, &settings, &PyDict_Type, &kinds))
        return NULL;
    gd_py_context *c = gd_py_current();
    if (!c || !options_read(c, &o, settings, known_kinds, kinds)) return NULL;
    gd_link *link = gd_link_with(c->ctx, name, o.option, (int)o.count);
    for (Py_ssize_t i = 0; i < o.count; i++) o.option[i].child_count = 0; /* consumed */
    gd_py_options_clear(&o);
    return link ? printed(link) : gd_py_raise(c);
}

/* ---- groups ---- */

/* The kinds that the links of a chain accept for a setting of that name. */
static unsigned kinds_in(const gd_link *link, const char *field)
{
    const gd_link_class *cls = gd_link_class_of(link);
    unsigned kinds = 0;
    for (int i = 0; cls && i < cls->field_count; i++)
        if (!strcmp(cls->fields[i].name, field)) kinds |= cls->fields[i].kinds;
    for (int i = 0; i < gd_link_children(link); i++) kinds |= kinds_in(gd_link_child_at(link, i), field);
    return kinds;
}

static unsigned kinds_of_group(void *user, const char *field)
{
    return kinds_in(gd_optimizer_chain(user), field);
}

int gd_py_group_options(gd_py_context *c, gd_py_options *o, gd_optimizer *optimizer, PyObject *settings)
{
    *o = (gd_py_options){0};
    if (PyUnicode_Check(settings)) return (o->text = gd_py_text(settings)) != NULL;
    PyObject *items = settings == Py_None       ? Py_NewRef(gd_py.empty_tuple)
                      : PyDict_Check(settings)  ? PyDict_Items(settings)
                      : PyTuple_Check(settings) ? Py_NewRef(settings)
                                                : NULL;
    PyObject *pairs = items ? PySequence_Tuple(items) : NULL;
    if (!items) PyErr_Format(PyExc_TypeError, "settings of a group are a dict, or a text, not %R", settings);
    int fine = pairs && options_read(c, o, pairs, kinds_of_group, optimizer);
    Py_XDECREF(items);
    Py_XDECREF(pairs);
    return fine;
}
