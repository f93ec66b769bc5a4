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
    PyObject *
        code; /* of the last closure that was inspected, and whether it takes `backward`; a reference or NULL */
    int takes_backward;
    int warn_of_reads; /* closures have read nothing on the host yet */
} py_optimizer;

/* ---- closures ---- */

typedef struct closure {
    PyObject *fn;
    gd_py_context *c;
    PyObject *last; /* the loss of the last call: alive until the step is back */
    gd_optimizer *optimizer;
    int residuals; /* fn gives those, not a loss */
    int *warn_of_reads;
} closure;

/* A vector could be residuals or losses that were to be added: whoever calls says which. */
static gd_tensor *one_loss(closure *f, PyObject *value, gd_tensor *t)
{
    if (!t || gd_numel(t) == 1) return t;
    PyObject *shape = PyObject_GetAttrString(value, "shape");
    if (shape)
        PyErr_Format(
            PyExc_ValueError,
            "step: the closure returned a tensor of shape %R, a loss is one number: return its sum() or "
            "mean(), or write step(residuals=closure), which minimises the sum of squares",
            shape);
    Py_XDECREF(shape);
    gd_py_keep_exception(f->c);
    return NULL;
}

/* Objectives take one element for the loss itself: with a residual of 0 behind it, it is a vector. */
static gd_tensor *as_residuals(gd_tensor *t)
{
    int64_t one = 1;
    if (!t || gd_numel(t) != 1) return t;
    gd_tensor *flat = gd_reshape(gd_drop_names(t), 1, &one);
    return gd_cat((gd_tensor *[]){flat, gd_zeros_like(flat)}, 2, "0");
}

static gd_tensor *call_closure(void *user)
{
    closure *f = user;
    PyGILState_STATE state = gd_py_callback_begin(f->c);
    gd_py_reads reads;
    gd_py_reads_begin(f->c, &reads, f->warn_of_reads);
    PyObject *value = PyErr_CheckSignals() < 0 ? NULL : PyObject_CallNoArgs(f->fn);
    gd_py_reads_end(f->c, &reads);
    Py_XDECREF(reads.where);
    gd_tensor *t = gd_py_returned(f->c, &value,
                                  f->residuals ? "residuals are a Tensor made of the parameters"
                                               : "a closure returns the loss as a Tensor");
    t = f->residuals ? as_residuals(t) : one_loss(f, value, t);
    gd_py_set(&f->last, value);
    gd_py_callback_end(f->c, state);
    return t;
}

/* Closures that take `backward` are callbacks: with False they give the loss alone, else they leave its gradients on the parameters. */

/* New; NULL with an exception. */
static PyObject *call_without_backward(PyObject *fn)
{
    PyObject *keywords = PyErr_CheckSignals() < 0 ? NULL : Py_BuildValue("{sO}", "backward", Py_False);
    PyObject *value = keywords ? PyObject_Call(fn, gd_py.empty_tuple, keywords) : NULL;
    Py_XDECREF(keywords);
    return value;
}

/* Takes `value` over. */
static int loss_number(closure *f, PyObject *value, double *loss)
{
    if (value && gd_py_is_virtual(value)) gd_py_set(&value, gd_py_virtual_value(value));
    int fine = value != NULL, is_tensor = fine && gd_py_is_tensor(value);
    gd_tensor *t = is_tensor ? gd_py_tensor_of(value) : NULL;
    if (t && gd_numel(t) != 1) {
        PyErr_SetString(PyExc_ValueError, "a closure that takes backward returns one number");
        fine = 0;
    } else if (fine)
        *loss = t ? gd_item(t) : PyFloat_AsDouble(value);
    fine = fine && !PyErr_Occurred();
    gd_py_set(&f->last, value);
    if (!fine) gd_py_keep_exception(f->c);
    return fine;
}

static gd_status closure_value(void *user, double *loss)
{
    closure *f = user;
    PyGILState_STATE state = gd_py_callback_begin(f->c);
    int fine = loss_number(f, call_without_backward(f->fn), loss);
    gd_py_callback_end(f->c, state);
    return fine ? GD_OK : GD_CALLBACK;
}

/* The parameters that a step is about: k-th of those that want gradients; NULL: there are no more. */
static gd_tensor *wanted_param(const gd_optimizer *o, int *at)
{
    for (; *at < gd_optimizer_count(o); (*at)++)
        if (gd_requires_grad(gd_optimizer_param(o, *at))) return gd_optimizer_param(o, (*at)++);
    return NULL;
}

static gd_status closure_gradient(void *user, double *loss, gd_tensor *const *grads)
{
    closure *f = user;
    PyGILState_STATE state = gd_py_callback_begin(f->c);
    int previous = gd_enable_grad_begin(f->c->ctx), at = 0;
    int fine = loss_number(f, PyErr_CheckSignals() < 0 ? NULL : PyObject_CallNoArgs(f->fn), loss);
    gd_enable_grad_end(f->c->ctx, previous);
    gd_py_callback_end(f->c, state);
    gd_tensor *p;
    int k = 0, found = 0;
    for (; fine && (p = wanted_param(f->optimizer, &at)); k++) {
        gd_tensor *grad = gd_grad_of(p);
        found |= grad != NULL;
        if (grad && gd_assign(grads[k], grad)) return gd_error(f->c->ctx);
    }
    if (fine && k && !found)
        return gd_fail(f->c->ctx, GD_STATE,
                       "the closure left no gradients on the parameters: one that takes "
                       "backward calls backward() itself");
    return fine ? GD_OK : GD_CALLBACK;
}

/* out = gradient of sum(gradient v), the parameters being p[0 .. n). */
static gd_status product_of(gd_tensor *loss, gd_tensor *const *p, int n, gd_tensor *const *v,
                            gd_tensor **slope, gd_tensor *const *out)
{
    gd_tensor *along = NULL;
    gd_status status = gd_grad(loss, NULL, p, n, GD_CREATE_GRAPH, slope);
    for (int i = 0; i < n && !status; i++) {
        gd_tensor *term = gd_sum(gd_mul(gd_drop_names(slope[i]), gd_drop_names(v[i])), NULL, false);
        along = along ? gd_add(along, term) : term;
    }
    if (status || !gd_requires_grad(along)) return status; /* a linear loss: the zeros that are there */
    status = gd_grad(along, NULL, p, n, 0, slope);
    for (int i = 0; i < n && !status; i++) status = gd_assign(out[i], slope[i]);
    return status;
}

static gd_status closure_product(void *user, gd_tensor *const *v, gd_tensor *const *out)
{
    closure *f = user;
    gd_ctx *ctx = f->c->ctx;
    int n = 0, at = 0, count = gd_optimizer_count(f->optimizer);
    gd_tensor **p = calloc((size_t)count * 2 + 1, sizeof *p);
    if (!p) return GD_NOMEM;
    while ((p[n] = wanted_param(f->optimizer, &at))) n++;
    int previous = gd_enable_grad_begin(ctx);
    PyGILState_STATE state = gd_py_callback_begin(f->c);
    PyObject *value = call_without_backward(f->fn);
    gd_tensor *loss = gd_py_returned(f->c, &value, "a closure returns the loss as a Tensor");
    gd_py_set(&f->last, value);
    gd_py_callback_end(f->c, state);
    gd_status status = loss ? product_of(loss, p, n, v, p + count, out) : GD_CALLBACK;
    gd_enable_grad_end(ctx, previous);
    free(p);
    return status;
}

/* By its signature; inspected once for all closures of one function. */
static int takes_backward(py_optimizer *self, PyObject *fn)
{
    PyObject *code = PyObject_GetAttrString(fn, "__code__");
    PyErr_Clear();
    int known = code && code == self->code;
    Py_XDECREF(code);
    if (known) return self->takes_backward;
    PyObject *module = PyImport_ImportModule("gradus._optim");
    PyObject *said = module ? PyObject_CallMethod(module, "takes_backward", "O", fn) : NULL;
    Py_XDECREF(module);
    int takes = said ? PyObject_IsTrue(said) : -1;
    Py_XDECREF(said);
    if (takes < 0 || PyObject_HasAttrString(fn, "__wrapped__")) return takes; /* its code is that of many */
    gd_py_set(&self->code, PyObject_GetAttrString(fn, "__code__"));
    PyErr_Clear();
    return self->takes_backward = takes;
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
    Py_VISIT(((py_optimizer *)o)->code);
    return 0;
}
static int optimizer_clear(PyObject *o)
{
    Py_CLEAR(((py_optimizer *)o)->params);
    Py_CLEAR(((py_optimizer *)o)->code);
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
    self->warn_of_reads = 1;
    gd_py_join(c, self, drop_optimizer);
    return gd_py_done(c) ? 0 : -1;
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
    if (!PyArg_ParseTuple(args, "sO:add", &name, &tensor)) return NULL;
    if (!gd_py_is_tensor(tensor)) return gd_py_no_tensor("add", tensor);
    gd_tensor *t = gd_py_tensor_of(tensor);
    return t ? done(c, gd_optimizer_add(optimizer, name, t)) : NULL;
}

static PyObject *optimizer_add_group(PyObject *o, PyObject *args)
{
    PyObject *names, *tensors, *settings = Py_None, *result = NULL;
    gd_py_options options;
    int group = 0;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "O!O!|O:add_group", &PyTuple_Type, &names, &PyTuple_Type, &tensors,
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
        if (item && !gd_py_is_tensor(item)) gd_py_no_tensor("add_group", item);
        fine = item && gd_py_is_tensor(item) && (t[i] = gd_py_tensor_of(item)) &&
               (text[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL));
    }
    if (!fine && !PyErr_Occurred()) PyErr_NoMemory();
    if (fine && gd_py_group_options(c, &options, optimizer, settings)) {
        gd_status status = options.text
                               ? gd_optimizer_add_group(optimizer, text, t, (int)n, options.text, &group)
                               : gd_optimizer_add_group_with(optimizer, text, t, (int)n, options.option,
                                                             (int)options.count, &group);
        gd_py_options_clear(&options);
        result = status ? gd_py_raise(c) : gd_py_done(c) ? PyLong_FromLong(group) : NULL;
    }
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
    const char *selection;
    PyObject *settings;
    gd_py_options options;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "sO:regroup", &selection, &settings)) return NULL;
    if (!gd_py_group_options(c, &options, optimizer, settings)) return NULL;
    gd_status status = options.text ? gd_optimizer_regroup(optimizer, selection, options.text)
                                    : gd_optimizer_regroup_with(optimizer, selection, options.option,
                                                                (int)options.count);
    gd_py_options_clear(&options);
    return done(c, status);
}

static PyObject *optimizer_set_group(PyObject *o, PyObject *args)
{
    int group;
    PyObject *settings;
    gd_py_options options;
    OPTIMIZER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "iO:_set_group", &group, &settings)) return NULL;
    if (!gd_py_group_options(c, &options, optimizer, settings)) return NULL;
    gd_status status = gd_optimizer_group_settings(optimizer, group, options.option, (int)options.count);
    gd_py_options_clear(&options);
    return done(c, status);
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
    if (number == -1.0 && PyErr_Occurred())
        return PyErr_Format(PyExc_TypeError, "set: '%s' is a number or the text of a schedule, not %R", key,
                            value);
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

int gd_py_add_number(gd_py_numbers *numbers, const char *name, PyObject *value)
{
    int i = numbers->count;
    if (i == GD_PY_MOST_NUMBERS)
        return PyErr_Format(PyExc_TypeError, "step: at most %d numbers for links", i) != NULL;
    numbers->name[i] = name;
    numbers->number[i] = PyFloat_AsDouble(value);
    if (PyErr_Occurred())
        return PyErr_Format(PyExc_TypeError, "step: '%s' is for links, which read numbers, not %R", name,
                            value) != NULL;
    numbers->count++;
    return 1;
}

/* Links of the library read no numbers by name; those of other links are not known before they run. */
static int may_read_numbers(const gd_link *link)
{
    const gd_link_class *cls = gd_link_class_of(link);
    int may = !cls || !gd_link_class_find(cls->name);
    for (int i = 0; i < gd_link_children(link) && !may; i++)
        may = may_read_numbers(gd_link_child_at(link, i));
    return may;
}

int gd_py_check_numbers(const gd_optimizer *optimizer, const gd_py_numbers *numbers)
{
    if (!numbers->count || may_read_numbers(gd_optimizer_chain(optimizer))) return 1;
    return PyErr_Format(PyExc_TypeError,
                        "step() got an unexpected keyword argument '%s': no link of the chain reads numbers",
                        numbers->name[0]) != NULL;
}

/* The arguments of a step besides its optimizer. */
typedef struct given {
    PyObject *fn, *loss, *residuals; /* borrowed; None: not given */
    gd_py_numbers numbers;
    int jit; /* is the closure recorded and replayed? */
} given;

static int take_argument(given *g, const char *name, PyObject *value)
{
    if (!name) return 0;
    if (!strcmp(name, "closure"))
        g->fn = value;
    else if (!strcmp(name, "loss"))
        g->loss = value;
    else if (!strcmp(name, "residuals"))
        g->residuals = value;
    else if (!strcmp(name, "jit"))
        return (g->jit = PyObject_IsTrue(value)) >= 0;
    else
        return gd_py_add_number(&g->numbers, name, value);
    return 1;
}

static int take_arguments(given *g, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const char *const by_place[] = {"closure", "loss"};
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    g->fn = g->loss = g->residuals = Py_None;
    g->numbers.count = 0;
    g->jit = 0;
    if (n > 2) return PyErr_Format(PyExc_TypeError, "step() takes a closure and a loss") != NULL;
    for (Py_ssize_t i = 0; i < n + named; i++) {
        const char *name = i < n ? by_place[i] : PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i - n), NULL);
        if (!take_argument(g, name, args[i])) return 0;
    }
    if (g->fn != Py_None && g->loss != Py_None)
        return PyErr_Format(PyExc_TypeError, "step: a closure gives the loss; one that is known is for steps "
                                             "without a closure") != NULL;
    if (g->residuals != Py_None && (g->fn != Py_None || g->loss != Py_None))
        return PyErr_Format(PyExc_TypeError,
                            "step: residuals stand for closure and loss; give one of them") != NULL;
    PyObject *called = g->residuals != Py_None ? g->residuals : g->fn;
    if (called == Py_None || PyCallable_Check(called)) return 1;
    return PyErr_Format(PyExc_TypeError, "step: %s must be callable, not %R",
                        g->fn == Py_None ? "residuals" : "the closure", (PyObject *)Py_TYPE(called)) != NULL;
}

/* New in *t, or NULL where no loss was given. */
static int take_loss(gd_py_context *c, PyObject *loss, gd_tensor **t)
{
    *t = NULL;
    if (loss == Py_None) return 1;
    PyObject *held = gd_py_as_tensor(loss);
    gd_tensor *own = held ? gd_py_tensor_of(held) : NULL;
    double number = own || PyErr_Occurred() ? 0 : PyFloat_AsDouble(loss);
    if (own && gd_numel(own) != 1)
        PyErr_Format(PyExc_ValueError, "step: the loss is one number, not a tensor of %lld",
                     (long long)gd_numel(own));
    else if (!PyErr_Occurred() && !(*t = own ? gd_detach(own) : gd_scalar(c->ctx, GD_F64, number)))
        (void)gd_py_raise(c);
    Py_XDECREF(held);
    return *t != NULL;
}

static PyObject *optimizer_step(PyObject *o, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    py_optimizer *self = (py_optimizer *)o;
    given g;
    gd_tensor *loss;
    OPTIMIZER_OR_RETURN(o);
    if (!take_arguments(&g, args, n, names) || !gd_py_check_numbers(optimizer, &g.numbers) ||
        !take_loss(c, g.loss, &loss))
        return NULL;
    int residuals = g.residuals != Py_None;
    closure f = {residuals ? g.residuals : g.fn, c, NULL, optimizer, residuals, &self->warn_of_reads};
    gd_objective objective = {.user = &f, .loss = call_closure, .traced = g.jit != 0};
    int takes = g.fn == Py_None ? 0 : takes_backward(self, g.fn);
    if (takes < 0) return NULL;
    if (takes)
        objective = (gd_objective){
            .user = &f, .value = closure_value, .gradient = closure_gradient, .hvp = closure_product};
    gd_step_extra extra = {loss, g.numbers.name, g.numbers.number, g.numbers.count};
    gd_step_info info;
    Py_INCREF(o); /* a closure may drop the last reference */
    PyThreadState *state = gd_py_begin(c);
    if (!state) {
        Py_DECREF(o);
        return NULL;
    }
    gd_status status = gd_optimizer_step_with(optimizer, f.fn == Py_None ? NULL : &objective,
                                              loss || extra.count ? &extra : NULL, &info);
    gd_py_end(c, state);
    if (loss) gd_release(loss);
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
    PyThreadState *state = gd_py_begin(c); /* links in Python may have a reset of their own */
    if (!state) return NULL;
    gd_optimizer_reset(optimizer);
    gd_py_end(c, state);
    return done(c, gd_error(c->ctx));
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
    return Py_BuildValue(
        "{sNsNsNsNsNsLsLsLsdsdsi}", "loss", i->has_loss ? PyFloat_FromDouble(i->loss) : Py_NewRef(Py_None),
        "finite", PyBool_FromLong(i->finite), "search_failed", PyBool_FromLong(i->search_failed), "skipped",
        PyBool_FromLong(i->skipped), "terminate", PyBool_FromLong(i->terminate), "step", (long long)i->step,
        "evals", (long long)i->evals, "constraint_evals", (long long)i->constraint_evals, "kkt", i->kkt,
        "violation", i->violation, "detached_params", i->detached_params);
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
     "add_group($self, names, tensors, settings=None, /)\n--\n\nAdds a group with settings of its own: {'lr': 0.1, 'momentum': "
     "0.5}, or the text 'lr=0.1, momentum=0.5'."},
    {"add_module", optimizer_add_module, METH_VARARGS,
     "add_module($self, module, glob=None, settings=None, /)\n--\n\nAdds the parameters of a module whose names match."},
    {"rebind", optimizer_rebind, METH_O,
     "rebind($self, module, /)\n--\n\nTakes the tensors that the module has now for the parameters of their names."},
    {"regroup", optimizer_regroup, METH_VARARGS,
     "regroup($self, selection, settings, /)\n--\n\nGives the parameters that match settings of their own: regroup('*.bias', "
     "{'lr': 0.1}), or the text 'lr=0.1'."},
    {"_set_group", optimizer_set_group, METH_VARARGS, NULL},
    {"remove", optimizer_remove, METH_VARARGS,
     "remove($self, name, /)\n--\n\nForgets a parameter and its state."},
    {"set", KEYWORDS(optimizer_set),
     "set($self, key, value, group=-1)\n--\n\nA setting of every link that has it: a number, or a schedule as text: "
     "'warmup(100, cosine(0.1, 0.001, 1000))'."},
    {"unset", KEYWORDS(optimizer_unset),
     "unset($self, key, group=-1)\n--\n\nTakes a setting or schedule back."},
    {"step", (PyCFunction)(void (*)(void))optimizer_step, METH_FASTCALL | METH_KEYWORDS,
     "step($self, closure=None, loss=None, *, residuals=None, jit=False, **numbers)\n--\n\n"
     "One step.  closure() computes the loss from the parameters, one number; residuals() a tensor whose sum of squares is the loss; "
     "without either the gradients of backward() are used.  A closure that takes "
     "`backward` is called with False where the loss alone is wanted, and else leaves the gradients on the parameters itself.  Links "
     "take a loss that is known, and numbers by name.  jit: the closure does the same each time and is the same object, so it is recorded and "
     "replayed, see gradus.jit.  Returns the first loss of the step, or None.  What the closure raises "
     "comes out of here, with the parameters as before."},
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
