/* Contexts, who may use them, errors and messages: see core.h. */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

/* The class of each status: its name, and what of Python it is too. */
typedef struct error_class {
    const char *name;
    PyObject **also;
} error_class;

#define ERROR_CLASS_OK       \
    {                        \
        "gradus.Error", NULL \
    }
#define ERROR_CLASS_NOMEM                             \
    {                                                 \
        "gradus.OutOfMemoryError", &PyExc_MemoryError \
    }
#define ERROR_CLASS_ARGUMENT                      \
    {                                             \
        "gradus.ArgumentError", &PyExc_ValueError \
    }
#define ERROR_CLASS_SHAPE                      \
    {                                          \
        "gradus.ShapeError", &PyExc_ValueError \
    }
#define ERROR_CLASS_DTYPE                     \
    {                                         \
        "gradus.DtypeError", &PyExc_TypeError \
    }
#define ERROR_CLASS_AXIS                    \
    {                                       \
        "gradus.AxisError", &PyExc_KeyError \
    }
#define ERROR_CLASS_LABEL                    \
    {                                        \
        "gradus.LabelError", &PyExc_KeyError \
    }
#define ERROR_CLASS_INDEX                           \
    {                                               \
        "gradus.OutOfRangeError", &PyExc_IndexError \
    }
#define ERROR_CLASS_VALUE                            \
    {                                                \
        "gradus.OutOfBoundsError", &PyExc_ValueError \
    }
#define ERROR_CLASS_OVERFLOW                     \
    {                                            \
        "gradus.SizeError", &PyExc_OverflowError \
    }
#define ERROR_CLASS_SINGULAR                           \
    {                                                  \
        "gradus.SingularError", &PyExc_ArithmeticError \
    }
#define ERROR_CLASS_GRAPH                        \
    {                                            \
        "gradus.GraphError", &PyExc_RuntimeError \
    }
#define ERROR_CLASS_DEVICE                        \
    {                                             \
        "gradus.DeviceError", &PyExc_RuntimeError \
    }
#define ERROR_CLASS_TYPE                          \
    {                                             \
        "gradus.WrongTypeError", &PyExc_TypeError \
    }
#define ERROR_CLASS_ATTRIBUTE                            \
    {                                                    \
        "gradus.NoAttributeError", &PyExc_AttributeError \
    }
#define ERROR_CLASS_NOT_IMPLEMENTED                           \
    {                                                         \
        "gradus.UnsupportedError", &PyExc_NotImplementedError \
    }
#define ERROR_CLASS_CYCLE                      \
    {                                          \
        "gradus.CycleError", &PyExc_ValueError \
    }
#define ERROR_CLASS_IO                     \
    {                                      \
        "gradus.FileError", &PyExc_OSError \
    }
#define ERROR_CLASS_FORMAT                      \
    {                                           \
        "gradus.FormatError", &PyExc_ValueError \
    }
#define ERROR_CLASS_MISMATCH                      \
    {                                             \
        "gradus.MismatchError", &PyExc_ValueError \
    }
#define ERROR_CLASS_PARSE                      \
    {                                          \
        "gradus.ParseError", &PyExc_ValueError \
    }
#define ERROR_CLASS_STATE                        \
    {                                            \
        "gradus.StateError", &PyExc_RuntimeError \
    }
#define ERROR_CLASS_CALLBACK                        \
    {                                               \
        "gradus.CallbackError", &PyExc_RuntimeError \
    }
#define ERROR_CLASS_INTERRUPTED                           \
    {                                                     \
        "gradus.InterruptedRunError", &PyExc_RuntimeError \
    }
#define ERROR_CLASS_INTERNAL                        \
    {                                               \
        "gradus.InternalError", &PyExc_RuntimeError \
    }

static const error_class error_classes[] = {
#define CLASS_OF(name, text) ERROR_CLASS_##name,
    GD_STATUS_LIST(CLASS_OF)
#undef CLASS_OF
};
static const char *const error_says[] = {
#define SAYS(name, text) "Status " #name " of the library: " text ".",
    GD_STATUS_LIST(SAYS)
#undef SAYS
};

static int add_exception(PyObject *module, PyObject **slot, const char *name, const char *doc,
                         PyObject *bases, PyObject *dict)
{
    *slot = PyErr_NewExceptionWithDoc(name, doc, bases, dict);
    return *slot && PyModule_AddObjectRef(module, strchr(name, '.') + 1, *slot) == 0;
}

/* KeyError shows its argument as repr does; ours are sentences, so the base class says how they are shown. */
static PyObject *error_dict(void)
{
    PyObject *shown = PyObject_GetAttrString(PyExc_Exception, "__str__"), *dict = PyDict_New();
    if (!shown || !dict || PyDict_SetItemString(dict, "__str__", shown) < 0) Py_CLEAR(dict);
    Py_XDECREF(shown);
    return dict;
}

int gd_py_add_errors(PyObject *module)
{
    PyObject *dict = error_dict();
    int fine = dict && add_exception(module, &gd_py.error[GD_OK], error_classes[GD_OK].name,
                                     "What the library refuses, with its one sentence.", NULL, dict);
    Py_XDECREF(dict);
    for (int s = GD_OK + 1; s < GD_STATUS_COUNT && fine; s++) {
        PyObject *bases = PyTuple_Pack(2, gd_py.error[GD_OK], *error_classes[s].also);
        fine = bases &&
               add_exception(module, &gd_py.error[s], error_classes[s].name, error_says[s], bases, NULL);
        Py_XDECREF(bases);
    }
    return fine && add_exception(module, &gd_py.warning, "gradus.GradusWarning", "What the library warns of.",
                                 PyExc_UserWarning, NULL);
}

PyObject *gd_py_fail(gd_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)PyErr_FormatV(gd_py.error[status], format, list);
    va_end(list);
    return NULL;
}

/* The library's sentence with Python's names for what it tells to do: detach, not gd_detach. */
static void in_python(const char *text, char *out, size_t size)
{
    static const struct {
        const char *here, *python;
    } words[] = {{"GD_RETAIN_GRAPH", "retain_graph=True"},
                 {"gd_optimizer_", "optimizer."},
                 {"gd_module_", ""},
                 {"gd_virtual_", ""},
                 {"gd_", ""}};
    size_t used = 0;
    for (const char *at = text; *at && used + 32 < size;) {
        int begins = at == text || at[-1] == ' ' || at[-1] == '(' || at[-1] == '\'';
        size_t w = 0, count = sizeof words / sizeof *words;
        while (w < count && !(begins && !strncmp(at, words[w].here, strlen(words[w].here)))) w++;
        if (w < count) {
            used += (size_t)snprintf(out + used, size - used, "%s", words[w].python);
            at += strlen(words[w].here);
        } else
            out[used++] = *at++;
    }
    out[used] = 0;
}

/* Warnings of a call that fails are issued first; the error is raised even if a warning becomes an exception. */
static void show_before_failure(gd_py_context *c)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (!gd_py_flush(c)) PyErr_Clear();
    PyErr_Restore(type, value, trace);
}

void gd_py_error_text(gd_py_context *c, char *out, size_t size)
{
    in_python(gd_error(c->ctx) ? gd_error_text(c->ctx) : "out of memory", out, size);
}

PyObject *gd_py_raise(gd_py_context *c)
{
    char text[2048];
    if (c->messages) show_before_failure(c);
    gd_status status = gd_error(c->ctx);
    PyObject *raised = c->raised;
    c->raised = NULL;
    if (raised && status == GD_CALLBACK) {
        PyErr_SetObject((PyObject *)Py_TYPE(raised), raised);
    } else if (!PyErr_Occurred()) {
        gd_py_error_text(c, text, sizeof text);
        PyErr_SetString(gd_py.error[status ? status : GD_NOMEM], text);
    }
    Py_XDECREF(raised);
    gd_clear_error(c->ctx);
    return NULL;
}

void gd_py_keep_exception(gd_py_context *c)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace && value) PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    gd_py_set(&c->raised, value);
    (void)gd_fail(c->ctx, GD_CALLBACK, "a Python function failed");
}

gd_tensor *gd_py_returned(gd_py_context *c, PyObject **value, const char *wanted)
{
    if (*value && gd_py_is_virtual(*value)) gd_py_set(value, gd_py_virtual_value(*value));
    if (*value && !gd_py_is_tensor(*value)) {
        PyErr_Format(PyExc_TypeError, "%s, not %R", wanted, (PyObject *)Py_TYPE(*value));
        Py_CLEAR(*value);
    }
    if (*value) return ((gd_py_tensor *)*value)->t;
    gd_py_keep_exception(c);
    return NULL;
}

/* ---- messages: the library may not be left in the middle, so they wait ---- */

static void keep_message(void *user, const char *text, int is_warning)
{
    gd_py_context *c = user;
    size_t bytes = strlen(text) + 1;
    gd_py_message *m = malloc(sizeof *m + bytes);
    if (!m) return;
    memcpy(m->text, text, bytes);
    m->is_warning = is_warning;
    m->next = c->messages;
    c->messages = m;
}
static void keep_warning(void *user, const char *text) { keep_message(user, text, 1); }
static void keep_line(void *user, const char *text) { keep_message(user, text, 0); }

static int show_line(const char *text)
{
    PyObject *out = PySys_GetObject("stdout");
    return !out || out == Py_None ||
           (PyFile_WriteString(text, out) == 0 && PyFile_WriteString("\n", out) == 0);
}

/* Is it code of the package? */
int gd_py_is_ours(PyObject *frame)
{
    PyObject *globals = PyObject_GetAttrString(frame, "f_globals");
    PyObject *name = globals ? PyMapping_GetItemString(globals, "__name__") : NULL;
    const char *text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    int ours = text && !strncmp(text, "gradus", 6) && (!text[6] || text[6] == '.');
    Py_XDECREF(globals);
    Py_XDECREF(name);
    PyErr_Clear();
    return ours;
}

/* How far up the line of the user is that called the package. */
static Py_ssize_t level_of_caller(void)
{
    Py_ssize_t level = 1;
    PyObject *frame = (PyObject *)PyEval_GetFrame();
    Py_XINCREF(frame);
    for (; frame && frame != Py_None && gd_py_is_ours(frame); level++) {
        PyObject *back = PyObject_GetAttrString(frame, "f_back");
        Py_DECREF(frame);
        frame = back;
    }
    Py_XDECREF(frame);
    PyErr_Clear();
    return level;
}

static int show(const gd_py_message *m)
{
    char text[2048];
    if (!m->is_warning) return show_line(m->text);
    in_python(m->text, text, sizeof text);
    return PyErr_WarnEx(gd_py.warning, text, level_of_caller()) == 0;
}

int gd_py_flush(gd_py_context *c)
{
    gd_py_message *first = NULL;
    int fine = 1;
    for (gd_py_message *m = c->messages, *next; m; m = next) {
        next = m->next;
        m->next = first;
        first = m;
    }
    c->messages = NULL;
    for (gd_py_message *m = first, *next; m; m = next) {
        next = m->next;
        if (fine) fine = show(m);
        free(m);
    }
    return fine;
}

/* ---- one thread at a time ---- */

static void bury(gd_py_context *c)
{
    while (c->graves) {
        gd_py_grave *g = c->graves;
        c->graves = g->next;
        g->end(g->object);
        free(g);
    }
}

int gd_py_is_taken(const gd_py_context *c) { return c->owner && c->owner != PyThread_get_thread_ident(); }

/* Lets others run until the owner has let the context go. */
static void wait_for_owner(const gd_py_context *c)
{
    PyThreadState *state = PyEval_SaveThread();
    PyThread_acquire_lock(c->lock, WAIT_LOCK);
    PyThread_release_lock(c->lock);
    PyEval_RestoreThread(state);
}

/* How deep the context is inside no_grad(). */
static int mode_of(gd_ctx *ctx)
{
    int off = gd_enable_grad_begin(ctx);
    gd_enable_grad_end(ctx, off);
    return off;
}

void gd_py_mode_changed(gd_py_context *c)
{
    c->mode_thread = PyThread_get_thread_ident();
    c->has_modes = mode_of(c->ctx) || c->modes;
}

/* Saves the mode of a different thread and sets this thread's; false with an exception. */
static int change_mode(gd_py_context *c, unsigned long self)
{
    int off = mode_of(c->ctx), own = 0;
    if (off) {
        gd_py_mode *aside = malloc(sizeof *aside);
        if (!aside) return PyErr_NoMemory() != NULL;
        *aside = (gd_py_mode){c->modes, c->mode_thread, off};
        c->modes = aside;
    }
    for (gd_py_mode **m = &c->modes; *m; m = &(*m)->next) {
        if ((*m)->thread != self) continue;
        gd_py_mode *found = *m;
        own = found->off;
        *m = found->next;
        free(found);
        break;
    }
    gd_enable_grad_end(c->ctx, own);
    gd_py_mode_changed(c);
    return 1;
}

int gd_py_wait(gd_py_context *c)
{
    unsigned long self = PyThread_get_thread_ident();
    while (c->ctx && gd_py_is_taken(c)) wait_for_owner(c);
    if (!c->ctx) {
        (void)gd_py_fail(GD_STATE, "the context of this object is closed");
        return 0;
    }
    if (c->graves) bury(c);
    return !c->has_modes || c->mode_thread == self || change_mode(c, self);
}

int gd_py_own(gd_py_context *c)
{
    if (!gd_py_enter(c)) return 0;
    if (c->depth++) return 1;
    c->owner = PyThread_get_thread_ident();
    PyThread_acquire_lock(c->lock,
                          WAIT_LOCK); /* free, or for a moment in the hands of one who waited for it */
    return 1;
}

PyThreadState *gd_py_begin(gd_py_context *c) { return gd_py_own(c) ? PyEval_SaveThread() : NULL; }

void gd_py_end(gd_py_context *c, PyThreadState *state)
{
    PyEval_RestoreThread(state);
    gd_py_disown(c);
}

void gd_py_disown(gd_py_context *c)
{
    if (--c->depth) return;
    PyObject *kept = c->kept; /* the step is over */
    c->kept = NULL;
    c->owner = 0;
    PyThread_release_lock(c->lock);
    if (c->graves) bury(c);
    Py_XDECREF(kept);
}

void gd_py_release(gd_py_context *c, void (*end)(void *), void *object)
{
    if (!gd_py_is_taken(c)) {
        end(object);
        return;
    }
    gd_py_grave *g = malloc(sizeof *g);
    if (!g) return; /* leaked rather than freed while a different thread uses it */
    *g = (gd_py_grave){c->graves, end, object};
    c->graves = g;
}

/* ---- functions of the user ---- */

PyGILState_STATE gd_py_callback_begin(gd_py_context *c)
{
    PyGILState_STATE state = PyGILState_Ensure();
    /* at once: the thread has it, or was called without gd_py_begin and has held the interpreter's lock all the way */
    (void)gd_py_own(c);
    c->callbacks++;
    return state;
}

void gd_py_callback_end(gd_py_context *c, PyGILState_STATE state)
{
    int16_t inside = (int16_t)c->callbacks;
    for (gd_py_handle *h = c->handles; h && h->depth >= inside; h = h->next) {
        if (h->in_scope) (void)gd_retain(((gd_py_tensor *)h)->t);
        h->in_scope = 0;
        h->depth = (int16_t)(inside - 1);
    }
    c->callbacks--;
    if (!--c->depth) { /* no graves yet: the library is in the middle of a call */
        c->owner = 0;
        PyThread_release_lock(c->lock);
    }
    PyGILState_Release(state);
}

/* ---- devices ---- */

static void look_for_cuda(void)
{
    gd_py.looked_for_cuda = 1;
    PyObject *module = PyImport_ImportModule("gradus._cuda");
    PyObject *paths = module ? PyObject_CallMethod(module, "preload", NULL) : NULL;
    if (!paths) PyErr_Clear(); /* then the system's libraries serve, or the library says what is missing */
    Py_XDECREF(module);
    Py_XDECREF(paths);
}

gd_device *gd_py_device(gd_py_context *c, const char *name)
{
    if (name && !strncmp(name, "gpu", 3) && !gd_py.looked_for_cuda) look_for_cuda();
    return gd_device_get(c->ctx, name ? name : "");
}

/* ---- the list of a context ---- */

void gd_py_join(gd_py_context *c, void *handle, void (*drop)(gd_py_handle *))
{
    gd_py_handle *h = handle;
    Py_INCREF((PyObject *)c);
    h->owner = c;
    h->drop = drop;
    h->depth = (int16_t)c->callbacks;
    h->in_scope = 0;
    h->previous = NULL;
    h->next = c->handles;
    if (c->handles) c->handles->previous = h;
    c->handles = h;
}

void gd_py_leave(void *handle)
{
    gd_py_handle *h = handle;
    gd_py_context *c = h->owner;
    if (!c) return;
    if (h->previous)
        h->previous->next = h->next;
    else if (c->handles == h)
        c->handles = h->next;
    if (h->next) h->next->previous = h->previous;
    h->owner = NULL;
    Py_DECREF((PyObject *)c);
}

/* ---- the type Context ---- */

/* Keyword arguments that are called differently from the members of specs. */
static const char *const keywords_of[][2] = {{"fixed", "fix="},
                                             {"bounds", "bound="},
                                             {"max_steps", "steps="},
                                             {"drop_missing", "missing="},
                                             {"definitions", "def="},
                                             {"chosen_groups", "groups="},
                                             {NULL, NULL}};
static const gd_vocabulary as_keywords = {.before = "", .after = "=", .join = '_', .names = keywords_of};

static gd_py_context *context_new(int threads, PyObject *seed)
{
    gd_py_context *c = (gd_py_context *)PyType_GenericAlloc(gd_py.context_type, 0);
    if (!c) return NULL;
    gd_options options = gd_options_default();
    options.threads = threads;
    if (seed && seed != Py_None) options.seed = PyLong_AsUnsignedLongLongMask(seed);
    options.vocabulary = &as_keywords;
    options.warn = keep_warning;
    options.tell = keep_line;
    options.warn_user = options.tell_user = c;
    c->lock = PyThread_allocate_lock();
    if (!PyErr_Occurred() && c->lock) c->ctx = gd_ctx_new(&options);
    if (c->ctx) return c;
    if (!PyErr_Occurred()) PyErr_NoMemory();
    Py_DECREF(c);
    return NULL;
}

static PyObject *new_context(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"threads", "seed", NULL};
    int threads = 0;
    PyObject *seed = NULL;
    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|iO:Context", names, &threads, &seed)) return NULL;
    if (threads < 0) return gd_py_fail(GD_VALUE, "Context: threads is %d, it must be 0 or more", threads);
    return (PyObject *)context_new(threads, seed);
}

static const char chosen_key[] = "gradus.context";

/* The context that this thread has chosen, borrowed; NULL: none that is open. */
static gd_py_context *chosen(void)
{
    PyObject *dict = gd_py.threads_chose ? PyThreadState_GetDict() : NULL;
    gd_py_context *c = dict ? (gd_py_context *)PyDict_GetItemString(dict, chosen_key) : NULL;
    return c && c->ctx ? c : NULL;
}

gd_py_context *gd_py_current(void)
{
    gd_py_context *own = chosen();
    if (own) return gd_py_enter(own) ? own : NULL;
    if (!gd_py.current) gd_py.current = context_new(0, NULL);
    if (!gd_py.current || !gd_py_enter(gd_py.current)) return NULL;
    return gd_py.current;
}

static void close_all(gd_py_context *c)
{
    if (!c->ctx) return;
    bury(c);
    while (c->modes) {
        gd_py_mode *m = c->modes;
        c->modes = m->next;
        free(m);
    }
    c->has_modes = 0;
    for (gd_py_handle *h = c->handles; h; h = h->next) h->drop(h);
    c->lingering = c->ctx;
    c->ctx = NULL;
    gd_py_linger(c);
}

void gd_py_linger(gd_py_context *c)
{
    if (!c->lingering || gd_ctx_live(c->lingering)) return;
    gd_ctx_free(c->lingering);
    c->lingering = NULL;
    gd_py_free_links(c);
}

static PyObject *close_context(PyObject *self, PyObject *unused)
{
    gd_py_context *c = (gd_py_context *)self;
    (void)unused;
    if (!c->ctx) Py_RETURN_NONE;
    if (!gd_py_enter(c)) return NULL;
    if (c->depth)
        return gd_py_fail(GD_STATE, "Context.close: a function that the context calls cannot close it");
    close_all(c);
    if (gd_py.current == c) Py_CLEAR(gd_py.current);
    Py_RETURN_NONE;
}

static void context_dealloc(PyObject *self)
{
    gd_py_context *c = (gd_py_context *)self;
    PyTypeObject *type = Py_TYPE(self);
    close_all(c);
    if (c->lock) PyThread_free_lock(c->lock);
    Py_CLEAR(c->raised);
    Py_CLEAR(c->kept);
    Py_CLEAR(c->classes);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *use_context(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!gd_py_enter((gd_py_context *)self)) return NULL;
    if (PyThread_get_thread_ident() != gd_py.home) {
        PyObject *dict = PyThreadState_GetDict();
        if (!dict || PyDict_SetItemString(dict, chosen_key, self) < 0) return NULL;
        gd_py.threads_chose = 1;
        Py_RETURN_NONE;
    }
    Py_INCREF(self);
    gd_py_set((PyObject **)&gd_py.current, self);
    Py_RETURN_NONE;
}

static PyObject *context_live(PyObject *self, void *unused)
{
    (void)unused;
    return gd_py_enter((gd_py_context *)self) ? PyLong_FromLongLong(gd_ctx_live(((gd_py_context *)self)->ctx))
                                              : NULL;
}

static PyObject *context_threads(PyObject *self, void *unused)
{
    (void)unused;
    return gd_py_enter((gd_py_context *)self) ? PyLong_FromLong(gd_ctx_threads(((gd_py_context *)self)->ctx))
                                              : NULL;
}

static PyObject *context_closed(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!((gd_py_context *)self)->ctx);
}

static PyMethodDef context_methods[] = {
    {"close", close_context, METH_NOARGS,
     "close($self)\n--\n\nEnds the context and everything in it; what is used afterwards raises StateError."},
    {"use", use_context, METH_NOARGS,
     "use($self)\n--\n\nNew tensors are made in this context from now on.  The thread that imported the package chooses for all that have "
     "not chosen themselves, every other for itself alone."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef context_values[] = {
    {"live", context_live, NULL, "Tensors, modules and graphs of the context that are alive.", NULL},
    {"threads", context_threads, NULL, "CPU threads that operators use; results never depend on it.", NULL},
    {"closed", context_closed, NULL, "Has close() been called?", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot context_slots[] = {
    {Py_tp_doc,
     "Context(threads=0, seed=None)\n--\n\n"
     "Memory, threads and random numbers of tensors.  One is made at the first use of the package; more of them "
     "run in parallel.\nthreads: 0 means GRADUS_THREADS or the number of cores."},
    {Py_tp_new, new_context},
    {Py_tp_dealloc, context_dealloc},
    {Py_tp_methods, context_methods},
    {Py_tp_getset, context_values},
    {0, NULL}};
static PyType_Spec context_spec = {"gradus.Context", sizeof(gd_py_context), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, context_slots};

int gd_py_add_context(PyObject *module)
{
    return (gd_py.context_type = gd_py_add_type(module, &context_spec, NULL)) != NULL;
}
