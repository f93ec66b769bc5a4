/* gd_train and its models: the parts of gradus.train that are C. */
#include "core.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct py_model {
    gd_py_handle head;
    gd_model *model; /* NULL: its context is closed */
} py_model;

/* ---- settings ---- */

typedef enum setting_kind { TEXT, LIST, WHOLE, REAL, FLAG, SHAPE } setting_kind;

static const struct {
    const char *name;
    setting_kind kind;
    size_t at;
} settings[] = {
#define SETTING(name, kind) {#name, kind, offsetof(gd_train_spec, name)},
    SETTING(path, TEXT) SETTING(target, TEXT) SETTING(features, LIST) SETTING(ignore, LIST)
        SETTING(text, LIST) SETTING(stream, FLAG) SETTING(task, TEXT) SETTING(model, TEXT) SETTING(loss, TEXT)
            SETTING(class_weights, TEXT) SETTING(standardise, TEXT) SETTING(dtype, TEXT) SETTING(device, TEXT)
                SETTING(chain, TEXT) SETTING(groups, LIST) SETTING(schedules, LIST) SETTING(epochs, WHOLE)
                    SETTING(batch, WHOLE) SETTING(patience, WHOLE) SETTING(stop_on, TEXT) SETTING(time, REAL)
                        SETTING(seed, WHOLE) SETTING(seeds, WHOLE) SETTING(validation, REAL)
                            SETTING(split, TEXT) SETTING(out, TEXT) SETTING(save_every, REAL)
                                SETTING(resume, TEXT) SETTING(trace, TEXT) SETTING(events, TEXT)
                                    SETTING(microbatch, WHOLE)
#undef SETTING
                                        {"shape", SHAPE, 0},
};

#define SETTINGS (sizeof settings / sizeof *settings)

typedef struct py_spec {
    gd_train_spec spec;
    const char **list[SETTINGS]; /* freed with it */
} py_spec;

static void clear_spec(py_spec *s)
{
    for (size_t i = 0; i < SETTINGS; i++) PyMem_Free(s->list[i]);
}

static int read_shape(gd_train_spec *s, PyObject *value)
{
    Py_ssize_t count = PySequence_Size(value);
    if (count < 0 || count >= GD_MAX_DIMS) {
        if (count >= 0)
            PyErr_Format(PyExc_ValueError, "train: shape has more than %d sizes", GD_MAX_DIMS - 1);
        return 0;
    }
    s->row_axes = (int)count;
    for (Py_ssize_t i = 0; i < count && !PyErr_Occurred(); i++) {
        PyObject *item = PySequence_GetItem(value, i);
        s->row[i] = item ? PyLong_AsLongLong(item) : 0;
        Py_XDECREF(item);
    }
    return !PyErr_Occurred();
}

static int read_list(py_spec *s, size_t k, PyObject *value, const char *const **to)
{
    Py_ssize_t count = PyList_Size(value);
    const char **list = count < 0 ? NULL : gd_py_texts(value, count);
    s->list[k] = list;
    *to = list;
    return list != NULL;
}

static int read_setting(py_spec *s, size_t k, PyObject *value)
{
    void *to = (char *)&s->spec + settings[k].at;
    switch (settings[k].kind) {
    case TEXT: return (*(const char **)to = gd_py_text(value)) != NULL;
    case LIST: return read_list(s, k, value, to);
    case WHOLE: *(int64_t *)to = PyLong_AsLongLong(value); break;
    case REAL: *(double *)to = PyFloat_AsDouble(value); break;
    case FLAG: *(bool *)to = PyObject_IsTrue(value) > 0; break;
    case SHAPE: return read_shape(&s->spec, value);
    }
    return !PyErr_Occurred();
}

/* The members of a dict that are not None; false with an exception. */
static int read_spec(py_spec *s, PyObject *dict)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    *s = (py_spec){.spec = gd_train_defaults()};
    while (PyDict_Next(dict, &at, &key, &value)) {
        const char *name = gd_py_text(key);
        size_t k = 0;
        if (!name) return 0;
        while (k < SETTINGS && strcmp(settings[k].name, name) != 0) k++;
        if (k == SETTINGS) {
            PyErr_Format(PyExc_TypeError, "train: no setting '%s'", name);
            return 0;
        }
        if (value != Py_None && !read_setting(s, k, value)) return 0;
    }
    return 1;
}

/* ---- callers ---- */

typedef struct caller {
    gd_py_context *c;
    PyObject *epoch_done; /* None: no callback */
    /* The exception of a signal.  It is not an error of the context, so the model is saved first. */
    PyObject *type, *value, *trace;
} caller;

static PyObject *metrics_dict(const gd_metrics *m)
{
    const struct {
        const char *name;
        double value;
    } all[] = {{"loss", m->loss}, {"accuracy", m->accuracy}, {"f1", m->f1}, {"auc", m->auc},
               {"rmse", m->rmse}, {"mae", m->mae},           {"r2", m->r2}, {"below", m->below}};
    PyObject *dict = PyDict_New();
    for (size_t i = 0; i < sizeof all / sizeof *all && dict; i++) {
        if (isnan(all[i].value)) continue;
        PyObject *number = PyFloat_FromDouble(all[i].value);
        if (!number || PyDict_SetItemString(dict, all[i].name, number) < 0) Py_CLEAR(dict);
        Py_XDECREF(number);
    }
    return dict;
}

static gd_status epoch_done(void *user, const gd_train_epoch *e)
{
    caller *f = user;
    if (f->epoch_done == Py_None) return GD_OK;
    PyGILState_STATE state = gd_py_callback_begin(f->c);
    PyObject *judged = e->validation ? metrics_dict(e->validation) : Py_NewRef(Py_None);
    PyObject *seen = judged ? Py_BuildValue("{sLsLsdsO}", "epoch", (long long)e->epoch, "step",
                                            (long long)e->step, "loss", e->loss, "validation", judged)
                            : NULL;
    PyObject *answer = seen ? PyObject_CallFunctionObjArgs(f->epoch_done, seen, NULL) : NULL;
    gd_status status = answer ? GD_OK : GD_CALLBACK;
    if (!answer) gd_py_keep_exception(f->c);
    Py_XDECREF(answer);
    Py_XDECREF(seen);
    Py_XDECREF(judged);
    gd_py_callback_end(f->c, state);
    return status;
}

/* Ctrl-C. */
static bool was_interrupted(void *user)
{
    caller *f = user;
    PyGILState_STATE state = gd_py_callback_begin(f->c);
    if (!f->type && PyErr_CheckSignals() < 0) PyErr_Fetch(&f->type, &f->value, &f->trace);
    bool stop = f->type != NULL;
    gd_py_callback_end(f->c, state);
    return stop;
}

/* ---- models ---- */

static void end_model(void *model) { gd_model_free(model); }

static void model_drop(gd_py_handle *h)
{
    py_model *self = (py_model *)h;
    gd_model_free(self->model);
    self->model = NULL;
}

static void model_dealloc(PyObject *o)
{
    py_model *self = (py_model *)o;
    PyTypeObject *type = Py_TYPE(o);
    if (self->model) gd_py_release(self->head.owner, end_model, self->model);
    gd_py_leave(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

/* Consumes the model; NULL raises what was recorded. */
static PyObject *new_model(gd_py_context *c, gd_model *model)
{
    if (!model) return gd_py_raise(c);
    allocfunc alloc = (allocfunc)PyType_GetSlot(gd_py.model_type, Py_tp_alloc);
    py_model *self = (py_model *)alloc(gd_py.model_type, 0);
    if (!self) {
        gd_model_free(model);
        return NULL;
    }
    self->model = model;
    gd_py_join(c, self, model_drop);
    return (PyObject *)self;
}

/* The context of a model, entered; NULL with an exception. */
static gd_py_context *enter_model(PyObject *o)
{
    py_model *self = (py_model *)o;
    gd_py_context *c = self->head.owner;
    if (self->model && gd_py_enter(c)) return c;
    return PyErr_Occurred() ? NULL
                            : (gd_py_context *)gd_py_fail(GD_STATE, "the context of the model is closed");
}

static PyObject *names(const gd_model *m, int count, const char *(*name)(const gd_model *, int))
{
    PyObject *list = PyList_New(count);
    for (int i = 0; i < count && list; i++)
        if (PyList_SetItem(list, i, PyUnicode_FromString(name(m, i))) < 0) Py_CLEAR(list);
    return list;
}

/* The results of the model as a dict. */
static PyObject *model_about(PyObject *o, PyObject *unused)
{
    const gd_model *m = enter_model(o) ? ((py_model *)o)->model : NULL;
    (void)unused;
    if (!m) return NULL;
    const gd_train_result *r = gd_model_result(m);
    return Py_BuildValue("{sssssssssssNsNsNsNsLsLsLsLsLsLsd}", "task",
                         gd_model_task(m) == GD_TASK_CLASSIFY ? "class" : "regress", "target",
                         gd_model_target(m), "model", gd_model_text(m), "chain", gd_model_chain(m), "stopped",
                         r->stopped, "classes", names(m, gd_model_classes(m), gd_model_class), "features",
                         names(m, gd_model_features(m), gd_model_feature), "training",
                         metrics_dict(&r->training), "validation", metrics_dict(&r->validation), "rows",
                         (long long)r->rows, "validation_rows", (long long)r->validation_rows, "epochs",
                         (long long)r->epochs, "best_epoch", (long long)r->best_epoch, "steps",
                         (long long)r->steps, "parameters", (long long)r->parameters, "seconds", r->seconds);
}

static PyObject *model_save(PyObject *o, PyObject *path)
{
    const char *text = gd_py_text(path);
    gd_py_context *c = text ? enter_model(o) : NULL;
    if (!c) return NULL;
    if (gd_model_save(((py_model *)o)->model, text)) return gd_py_raise(c);
    return gd_py_done(c) ? Py_NewRef(Py_None) : NULL;
}

/* Rows are a Tensor; else a path or columns. */
static PyObject *model_predict(PyObject *o, PyObject *source)
{
    gd_py_context *c = enter_model(o);
    if (!c) return NULL;
    gd_model *m = ((py_model *)o)->model;
    gd_tensor *rows = gd_py_is_tensor(source) ? gd_py_tensor_of(source) : NULL, *out = NULL;
    if (!rows && PyErr_Occurred()) return NULL;
    gd_table *table = rows ? NULL : gd_py_table(c, source, NULL);
    if (!rows && !table) return NULL;
    PyThreadState *state = gd_py_begin(c);
    if (state) {
        out = rows ? gd_model_predict_rows(m, rows) : gd_model_predict(m, table);
        gd_table_free(table);
        gd_py_end(c, state);
    }
    if (PyErr_Occurred()) return NULL;
    PyObject *result = gd_py_new_tensor(c, out);
    if (result && !gd_py_done(c)) Py_CLEAR(result);
    return result;
}

static PyObject *model_score(PyObject *o, PyObject *args)
{
    PyObject *source;
    const char *target;
    gd_metrics measured;
    gd_status status = GD_STATE;
    gd_py_context *c = enter_model(o);
    if (!c || !PyArg_ParseTuple(args, "Oz:score", &source, &target)) return NULL;
    gd_table *table = gd_py_table(c, source, NULL);
    PyThreadState *state = table ? gd_py_begin(c) : NULL;
    if (!state) return NULL;
    status = gd_model_score(((py_model *)o)->model, table, target, &measured);
    gd_table_free(table);
    gd_py_end(c, state);
    if (status) return gd_py_raise(c);
    return gd_py_done(c) ? metrics_dict(&measured) : NULL;
}

static PyMethodDef model_methods[] = {{"about", model_about, METH_NOARGS, NULL},
                                      {"save", model_save, METH_O, NULL},
                                      {"predict", model_predict, METH_O, NULL},
                                      {"score", model_score, METH_VARARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
static PyType_Slot model_slots[] = {{Py_tp_doc, "A model of the library; see gradus.Model."},
                                    {Py_tp_dealloc, model_dealloc},
                                    {Py_tp_methods, model_methods},
                                    {0, NULL}};
static PyType_Spec model_spec = {"gradus._core._Model", sizeof(py_model), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, model_slots};

/* ---- training ---- */

/* _train(columns, settings, epoch_done): columns None: the settings have a path. */
static PyObject *train(PyObject *module, PyObject *args)
{
    PyObject *columns, *dict, *result = NULL;
    py_spec s;
    caller f = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!O:_train", &columns, &PyDict_Type, &dict, &f.epoch_done)) return NULL;
    f.c = gd_py_current();
    if (!f.c || !gd_py_enter(f.c)) return NULL;
    gd_observer observer = {.interrupted = was_interrupted, .user = &f};
    int fine = read_spec(&s, dict);
    gd_table *table = fine && columns != Py_None ? gd_py_table(f.c, columns, NULL) : NULL;
    fine = fine && (table || columns == Py_None);
    s.spec.observer = &observer;
    s.spec.epoch_done = epoch_done;
    s.spec.user = &f;
    PyThreadState *state = fine ? gd_py_begin(f.c) : NULL;
    if (state) {
        gd_model *model = gd_train(f.c->ctx, table, &s.spec);
        gd_table_free(table);
        gd_py_end(f.c, state);
        result = new_model(f.c, model);
    }
    if (f.type) { /* the cause of the error, or a signal in the last step */
        PyErr_Clear();
        Py_CLEAR(result);
        PyErr_Restore(f.type, f.value, f.trace);
    }
    clear_spec(&s);
    if (result && !gd_py_done(f.c)) Py_CLEAR(result);
    return result;
}

static PyObject *load_model(PyObject *module, PyObject *path)
{
    const char *text = gd_py_text(path);
    gd_py_context *c = text ? gd_py_current() : NULL;
    (void)module;
    if (!c || !gd_py_enter(c)) return NULL;
    PyObject *result = new_model(c, gd_model_load(c->ctx, text));
    if (result && !gd_py_done(c)) Py_CLEAR(result);
    return result;
}

static PyMethodDef train_functions[] = {
    {"_train", train, METH_VARARGS, NULL}, {"_load_model", load_model, METH_O, NULL}, {NULL, NULL, 0, NULL}};

int gd_py_add_training(PyObject *module)
{
    gd_py.model_type = gd_py_add_type(module, &model_spec, NULL);
    return gd_py.model_type && PyModule_AddFunctions(module, train_functions) == 0;
}
