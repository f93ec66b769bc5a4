/* gd_fit for Python: gradus.fit without its reading of tables and keywords. */
#include "core.h"

#include <string.h>

typedef struct py_fit {
    gd_py_handle head;
    gd_fit *fit; /* NULL: not made, or its context is closed */
    PyObject
        *function; /* (the model, how many parameters, how many columns it is called with); NULL: a text */
    gd_observer observer;
    PyObject *last; /* what it returned last: alive until the library is back */
} py_fit;

static void drop_fit(gd_py_handle *h)
{
    py_fit *self = (py_fit *)h;
    gd_fit_free(self->fit);
    self->fit = NULL;
}

static void end_fit(void *fit) { gd_fit_free(fit); }

/* ---- what the library calls ---- */

static int add_tensors(const py_fit *self, PyObject *args, Py_ssize_t at, gd_tensor *const *list,
                       Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = gd_py_borrowed_tensor(self->head.owner, list[i]);
        if (!item || PyTuple_SetItem(args, at + i, item) < 0) return 0;
    }
    return 1;
}

static gd_tensor *call_model(void *user, gd_tensor *const *params, gd_tensor *const *columns)
{
    py_fit *self = user;
    gd_py_context *c = self->head.owner;
    PyGILState_STATE state = gd_py_callback_begin(c);
    Py_ssize_t n = PyLong_AsSsize_t(PyTuple_GetItem(self->function, 1)),
               m = PyLong_AsSsize_t(PyTuple_GetItem(self->function, 2));
    PyObject *args = PyErr_CheckSignals() < 0 ? NULL : PyTuple_New(n + m), *value = NULL;
    if (args && add_tensors(self, args, 0, params, n) && add_tensors(self, args, n, columns, m))
        value = PyObject_Call(PyTuple_GetItem(self->function, 0), args, NULL);
    Py_XDECREF(args);
    gd_tensor *t = gd_py_returned(c, &value, "the model must return a Tensor made of its arguments");
    gd_py_set(&self->last, value);
    gd_py_callback_end(c, state);
    return t;
}

static bool is_interrupted(void *user)
{
    py_fit *self = user;
    gd_py_context *c = self->head.owner;
    PyGILState_STATE state = gd_py_callback_begin(c);
    bool stop = PyErr_CheckSignals() < 0;
    if (stop) gd_py_keep_exception(c);
    gd_py_callback_end(c, state);
    return stop;
}

/* ---- the spec ---- */

#define MOST_TEXTS 512

/* The memory that a spec points to while a fit is made. */
typedef struct reading {
    gd_fit_spec spec;
    gd_table_options table;
    gd_fit_param *params;
    const char *texts[MOST_TEXTS];
    const char *const *by;     /* columns whose cells say which rows belong together; NULL: one fit of all */
    const char *const *groups; /* of a picture; NULL: the first ones */
    int used;
    int64_t seed;
} reading;

/* The entry as UTF-8; NULL: there is none, or with an exception. */
static const char *text_of(PyObject *options, const char *name)
{
    PyObject *value = PyDict_GetItemString(options, name);
    if (!value || value == Py_None) return NULL;
    if (!PyUnicode_Check(value)) {
        (void)PyErr_Format(PyExc_TypeError, "fit: %s= is a text, not %R", name, value);
        return NULL;
    }
    return PyUnicode_AsUTF8AndSize(value, NULL);
}

/* A list of texts, ended by NULL. */
static const char *const *texts_of(reading *r, PyObject *options, const char *name)
{
    PyObject *list = PyDict_GetItemString(options, name);
    Py_ssize_t count = list && PyTuple_Check(list) ? PyTuple_Size(list) : 0;
    const char **out = r->texts + r->used;
    if (!count) return NULL;
    if (r->used + count + 1 > MOST_TEXTS) {
        (void)PyErr_Format(PyExc_ValueError, "fit: more than %d texts", MOST_TEXTS);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) out[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(list, i), NULL);
    r->used += (int)count + 1;
    return out;
}

static bool flag_of(PyObject *options, const char *name)
{
    PyObject *value = PyDict_GetItemString(options, name);
    return value && PyObject_IsTrue(value) > 0;
}

static void number_of(PyObject *options, const char *name, double *out)
{
    PyObject *value = PyDict_GetItemString(options, name);
    if (value && value != Py_None) *out = PyFloat_AsDouble(value);
}

static void count_of(PyObject *options, const char *name, int64_t *out)
{
    PyObject *value = PyDict_GetItemString(options, name);
    if (value && value != Py_None) *out = PyLong_AsLongLong(value);
}

/* (name, start or Tensor or None, low, high, fixed, tied) */
static int read_param(PyObject *entry, gd_fit_param *p)
{
    PyObject *start, *tied;
    int fixed;
    if (!PyArg_ParseTuple(entry, "sOddpO", &p->name, &start, &p->low, &p->high, &fixed, &tied)) return 0;
    p->fixed = fixed;
    p->open = start == Py_None;
    p->start = 1;
    if (tied != Py_None && !(p->tied = PyUnicode_AsUTF8AndSize(tied, NULL))) return 0;
    if (gd_py_is_tensor(start)) return (p->value = gd_py_tensor_of(start)) != NULL;
    if (start != Py_None) p->start = PyFloat_AsDouble(start);
    return !PyErr_Occurred();
}

static int read_params(reading *r, PyObject *params)
{
    Py_ssize_t count = PyTuple_Size(params);
    if (!(r->params = PyMem_Calloc((size_t)count + 1, sizeof *r->params))) return PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!read_param(PyTuple_GetItem(params, i), &r->params[i])) return 0;
    r->spec.params = r->params;
    r->spec.param_count = (int)count;
    return 1;
}

static int read_spec(reading *r, PyObject *options)
{
    gd_fit_spec *s = &r->spec;
    const char *separator = text_of(options, "separator");
    *s = gd_fit_defaults();
    s->model = text_of(options, "model");
    s->definitions = text_of(options, "definitions");
    s->definitions_file = text_of(options, "definitions_file");
    s->y = text_of(options, "y");
    s->weights = text_of(options, "weights");
    s->sigma = text_of(options, "sigma");
    s->dates = text_of(options, "dates");
    s->loss = text_of(options, "loss");
    s->errors = text_of(options, "errors");
    s->intervals = text_of(options, "intervals");
    s->chain = text_of(options, "chain");
    s->device = text_of(options, "device");
    s->absolute_sigma = flag_of(options, "absolute_sigma");
    s->drop_missing = flag_of(options, "drop_missing");
    s->guess = flag_of(options, "guess");
    s->by_rows = flag_of(options, "by_rows");
    s->columns = texts_of(r, options, "columns");
    s->x_errors = texts_of(r, options, "x_errors");
    s->exclude = texts_of(r, options, "exclude");
    s->bounds = texts_of(r, options, "bounds");
    s->derive = texts_of(r, options, "derive");
    r->by = texts_of(r, options, "by");
    r->groups = texts_of(r, options, "groups");
    number_of(options, "level", &s->level);
    number_of(options, "max_seconds", &s->max_seconds);
    count_of(options, "starts", &s->starts);
    count_of(options, "max_steps", &s->max_steps);
    count_of(options, "max_evals", &s->max_evals);
    count_of(options, "seed", &r->seed);
    s->seed = (uint64_t)r->seed;
    r->table.separator = separator ? separator[0] : 0;
    r->table.decimal = flag_of(options, "comma") ? ',' : 0;
    r->table.no_header = flag_of(options, "no_header");
    int64_t encoding = 0, limit = 0;
    count_of(options, "encoding", &encoding);
    count_of(options, "max_bytes", &limit);
    r->table.encoding = (gd_encoding)encoding;
    r->table.max_bytes = (uint64_t)limit;
    return !PyErr_Occurred();
}

/* ---- objects ---- */

static int is_usable(py_fit *self)
{
    if (self->fit) return gd_py_enter(self->head.owner);
    return gd_py_fail(GD_STATE, "this fit has no context any more") != NULL;
}

/* A column as a list of numbers, or of texts. */
static PyObject *column_list(gd_table *t, int column)
{
    int64_t rows = gd_table_rows(t);
    int words = 0;
    const char *const *word = gd_table_words(t, column, &words);
    gd_tensor *numbers = gd_table_numbers(t, column);
    PyObject *list = numbers ? PyList_New((Py_ssize_t)rows) : NULL;
    for (int64_t i = 0; i < rows && list; i++) {
        double x = ((const double *)gd_data(numbers))[i];
        PyObject *item = word ? PyUnicode_FromString(word[(int64_t)x]) : PyFloat_FromDouble(x);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) Py_CLEAR(list);
    }
    gd_release(numbers);
    return list;
}

static PyObject *columns_of(gd_table *t)
{
    PyObject *out = PyDict_New();
    for (int k = 0; out && k < gd_table_columns(t); k++) {
        PyObject *list = column_list(t, k);
        if (!list || PyDict_SetItemString(out, gd_table_name(t, k), list) < 0) Py_CLEAR(out);
        Py_XDECREF(list);
    }
    return out;
}

/* The table of gd_fit_by as a dict of lists; NULL with an exception, or with the error in the context. */
static PyObject *fit_groups(gd_py_context *c, const reading *r)
{
    PyThreadState *state = gd_py_begin(c);
    gd_table *t = gd_fit_by(c->ctx, &r->spec, r->by);
    gd_py_end(c, state);
    PyObject *out = t && !PyErr_Occurred() ? columns_of(t) : NULL;
    gd_table_free(t);
    return out;
}

static int64_t make_svg(void *thing, int how, char *out, size_t size)
{
    return gd_plot_svg(thing, how, out, size);
}

/* The text that a function writes; NULL with an exception. */
static PyObject *text_from(gd_py_context *c, int64_t (*make)(void *thing, int how, char *out, size_t size),
                           void *thing, int how)
{
    int64_t length = make(thing, how, NULL, 0);
    char *text = length < 0 ? NULL : PyMem_Malloc((size_t)length + 1);
    PyObject *out = NULL;
    if (text && make(thing, how, text, (size_t)length + 1) == length)
        out = PyUnicode_FromStringAndSize(text, (Py_ssize_t)length);
    PyMem_Free(text);
    return out || PyErr_Occurred() ? out : gd_py_raise(c);
}

/* The picture of groups as SVG, of what fit_groups gave; with options["path"] a file and None.  NULL: as fit_groups. */
static PyObject *draw_groups(gd_py_context *c, const reading *r, PyObject *options, PyObject *columns)
{
    gd_table_options plain = {0};
    const char *path = text_of(options, "path");
    bool dark = flag_of(options, "dark");
    gd_fit_picture how = {.log_x = flag_of(options, "log_x"), .log_y = flag_of(options, "log_y")};
    gd_table *fits = gd_py_table(c, columns, &plain);
    gd_plot *plot = fits ? gd_fit_by_plot(c->ctx, &r->spec, r->by, fits, r->groups, &how) : NULL;
    PyObject *out = NULL;
    if (plot && !path)
        out = text_from(c, make_svg, plot, dark);
    else if (plot && gd_plot_save(plot, path, dark) == GD_OK) {
        Py_INCREF(Py_None);
        out = Py_None;
    }
    gd_plot_free(plot);
    gd_table_free(fits);
    return out;
}

/* _fit(table, params, options, function): fitted, or with options["by"] the columns of the fits of all groups, or with these
 * columns in options["fits"] a picture of the groups.  function: None or (callable, parameters, columns). */
static PyObject *fit(PyObject *module, PyObject *args)
{
    PyObject *table, *params, *options, *function;
    reading r = {.seed = 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!O!O:_fit", &table, &PyTuple_Type, &params, &PyDict_Type, &options,
                          &function) ||
        !read_spec(&r, options) || !read_params(&r, params)) {
        PyMem_Free(r.params);
        return NULL;
    }
    gd_py_context *c = gd_py_current();
    py_fit *self = c && gd_py_own(c) ? (py_fit *)PyType_GenericAlloc(gd_py.fit_type, 0) : NULL;
    if (!self) {
        PyMem_Free(r.params);
        return NULL;
    }
    gd_py_join(c, self, drop_fit);
    if (function != Py_None) {
        Py_INCREF(function);
        self->function = function;
        r.spec.function = call_model;
        r.spec.user = self;
    }
    self->observer = (gd_observer){.interrupted = is_interrupted, .user = self};
    r.spec.observer = &self->observer;
    PyObject *starts = PyDict_GetItemString(options, "group_starts");
    gd_table_options plain = {0};
    gd_table *own = starts ? gd_py_table(c, starts, &plain) : NULL,
             *read = starts && !own ? NULL : gd_py_table(c, table, &r.table);
    r.spec.table = read;
    r.spec.group_starts = own;
    gd_status status = GD_PARSE;
    PyObject *columns = PyDict_GetItemString(options, "fits");
    PyObject *groups = !read || !r.by ? NULL
                       : columns      ? draw_groups(c, &r, options, columns)
                                      : fit_groups(c, &r);
    if (read && !r.by) self->fit = gd_fit_new(c->ctx, &r.spec);
    gd_table_free(read);
    gd_table_free(own);
    if (self->fit) {
        PyThreadState *state = gd_py_begin(c);
        status = gd_fit_run(self->fit);
        gd_py_end(c, state);
    }
    Py_CLEAR(self->last);
    PyMem_Free(r.params);
    if (status && !groups && !PyErr_Occurred()) (void)gd_py_raise(c);
    gd_py_disown(c);
    if (groups && !gd_py_done(c)) Py_CLEAR(groups);
    if (!status && gd_py_done(c)) return (PyObject *)self;
    Py_DECREF(self);
    return groups;
}

static int fit_traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(((py_fit *)o)->function);
    Py_VISIT(((py_fit *)o)->last);
    return 0;
}

static int fit_clear(PyObject *o)
{
    Py_CLEAR(((py_fit *)o)->function);
    Py_CLEAR(((py_fit *)o)->last);
    return 0;
}

static void fit_dealloc(PyObject *o)
{
    py_fit *self = (py_fit *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    if (self->fit) gd_py_release(self->head.owner, end_fit, self->fit);
    (void)fit_clear(o);
    gd_py_leave(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

static int64_t make_report(void *thing, int how, char *out, size_t size)
{
    return gd_fit_report(thing, how, out, size);
}

static PyObject *fit_report(PyObject *o, PyObject *json)
{
    py_fit *self = (py_fit *)o;
    return is_usable(self) ? text_from(self->head.owner, make_report, self->fit, PyObject_IsTrue(json) > 0)
                           : NULL;
}

static PyObject *fit_svg(PyObject *o, PyObject *args)
{
    py_fit *self = (py_fit *)o;
    int log_x, log_y, dark;
    if (!PyArg_ParseTuple(args, "ppp:svg", &log_x, &log_y, &dark) || !is_usable(self)) return NULL;
    gd_fit_picture how = {.log_x = log_x, .log_y = log_y};
    gd_plot *plot = gd_fit_plot(self->fit, &how);
    PyObject *text = plot ? text_from(self->head.owner, make_svg, plot, dark) : gd_py_raise(self->head.owner);
    gd_plot_free(plot);
    Py_CLEAR(self->last);
    if (text && !gd_py_done(self->head.owner)) Py_CLEAR(text);
    return text;
}

static PyObject *fit_predict(PyObject *o, PyObject *table)
{
    py_fit *self = (py_fit *)o;
    gd_table_options how = {0};
    if (!is_usable(self)) return NULL;
    gd_table *read = gd_py_table(self->head.owner, table, &how);
    gd_tensor *bands = read ? gd_fit_predict(self->fit, read) : NULL;
    gd_table_free(read);
    Py_CLEAR(self->last);
    if (!bands) return PyErr_Occurred() ? NULL : gd_py_raise(self->head.owner);
    PyObject *result = gd_py_new_tensor(self->head.owner, bands);
    if (result && !gd_py_done(self->head.owner)) Py_CLEAR(result);
    return result;
}

/* Fitted values, residuals or standardized residuals of the rows. */
static PyObject *fit_rows(PyObject *o, PyObject *what)
{
    py_fit *self = (py_fit *)o;
    gd_tensor *(*const rows[])(gd_fit *) = {gd_fit_fitted, gd_fit_residuals, gd_fit_standardized};
    long which = PyLong_AsLong(what);
    if (which < 0 || which > 2 || !is_usable(self))
        return PyErr_Occurred() ? NULL : (PyErr_SetNone(PyExc_IndexError), NULL);
    gd_tensor *found = rows[which](self->fit);
    Py_CLEAR(self->last);
    if (!found) return PyErr_Occurred() ? NULL : gd_py_raise(self->head.owner);
    PyObject *result = gd_py_new_tensor(self->head.owner, found);
    if (result && !gd_py_done(self->head.owner)) Py_CLEAR(result);
    return result;
}

/* compare(other): (F, p, nested, why, aicc, the other's aicc, evidence ratio) */
static PyObject *fit_compare(PyObject *o, PyObject *other)
{
    py_fit *self = (py_fit *)o, *second = (py_fit *)other;
    gd_fit_comparison c;
    if (Py_TYPE(other) != Py_TYPE(o)) return PyErr_Format(PyExc_TypeError, "compare: a fit, not %R", other);
    if (!is_usable(self) || !is_usable(second)) return NULL;
    if (self->head.owner != second->head.owner)
        return PyErr_Format(PyExc_ValueError, "compare: the fits are of different contexts");
    gd_status status = gd_fit_compare(self->fit, second->fit, &c);
    Py_CLEAR(self->last);
    Py_CLEAR(second->last);
    if (status) return PyErr_Occurred() ? NULL : gd_py_raise(self->head.owner);
    return Py_BuildValue("(ddNzddd)", c.f, c.p, PyBool_FromLong(c.nested), c.why, c.aicc[0], c.aicc[1],
                         c.evidence_ratio);
}

/* ("out" | "export" | "residuals", path) */
static PyObject *fit_write(PyObject *o, PyObject *args)
{
    py_fit *self = (py_fit *)o;
    const char *what;
    PyObject *path = NULL;
    if (!PyArg_ParseTuple(args, "sO&:write", &what, PyUnicode_FSConverter, &path)) return NULL;
    gd_status status = GD_STATE;
    const char *name = PyBytes_AsString(path);
    if (is_usable(self))
        status = !strcmp(what, "out")      ? gd_fit_save(self->fit, name)
                 : !strcmp(what, "export") ? gd_fit_export(self->fit, name)
                                           : gd_fit_save_residuals(self->fit, name);
    Py_DECREF(path);
    Py_CLEAR(self->last);
    if (!status) Py_RETURN_NONE;
    return PyErr_Occurred() ? NULL : gd_py_raise(self->head.owner);
}

static PyMethodDef fit_methods[] = {{"report", fit_report, METH_O, NULL},
                                    {"svg", fit_svg, METH_VARARGS, NULL},
                                    {"predict", fit_predict, METH_O, NULL},
                                    {"rows", fit_rows, METH_O, NULL},
                                    {"compare", fit_compare, METH_O, NULL},
                                    {"write", fit_write, METH_VARARGS, NULL},
                                    {NULL, NULL, 0, NULL}};

static PyType_Slot fit_slots[] = {{Py_tp_doc, "A fit of the library; see gradus.fit."},
                                  {Py_tp_dealloc, fit_dealloc},
                                  {Py_tp_traverse, fit_traverse},
                                  {Py_tp_clear, fit_clear},
                                  {Py_tp_methods, fit_methods},
                                  {0, NULL}};
static PyType_Spec fit_spec = {"gradus._core._Fit", sizeof(py_fit), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               fit_slots};

static PyMethodDef fit_functions[] = {{"_fit", fit, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

int gd_py_add_fit(PyObject *module)
{
    gd_py.fit_type = gd_py_add_type(module, &fit_spec, NULL);
    return gd_py.fit_type && PyModule_AddFunctions(module, fit_functions) == 0;
}
