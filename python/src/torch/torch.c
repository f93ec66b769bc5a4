/* Optimizers over memory of a different library, the base of gradus.torch.
 *
 * A _Borrower belongs to a _Optimizer.  Its parameters are objects of a type that has DLPack's table of C functions
 * (__dlpack_c_exchange_api__): reading one costs no Python call.  Every step reads all of them again: if the object, its memory or its dtype
 * has changed, its parameter is moved there (gd_take_memory).  Gradients are read,
 * used and dropped.  The other library's counters are raised for changes (its counter of versions), and on a GPU work goes to its
 * stream. */
#include "torch/torch.h"

#include <gradus/dlpack.h>
#include <string.h>

/* ---- the type ---- */

gd_optimizer *gd_py_borrower_optimizer(py_borrower *self)
{
    PyObject *address = self->optimizer ? PyObject_GetAttrString(self->optimizer, "_handle") : NULL;
    gd_optimizer *o = address ? PyLong_AsVoidPtr(address) : NULL;
    Py_XDECREF(address);
    if (!o && !PyErr_Occurred()) (void)gd_py_fail(GD_STATE, "this optimizer has not been made");
    return o;
}

static void forget_params(py_borrower *self)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        borrowed *b = &self->param[i];
        if (b->t) gd_release(b->t);
        if (b->grad) gd_release(b->grad);
        b->t = b->grad = NULL;
    }
}
static void drop_borrower(gd_py_handle *h) { forget_params((py_borrower *)h); }

static void end_tensor(void *t) { gd_release(t); }

static int borrower_traverse(PyObject *o, visitproc visit, void *arg)
{
    py_borrower *self = (py_borrower *)o;
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(self->optimizer);
    Py_VISIT(self->type);
    Py_VISIT(self->touch);
    Py_VISIT(self->getter);
    for (Py_ssize_t i = 0; i < self->count; i++) Py_VISIT(self->param[i].object);
    return 0;
}

static int borrower_clear(PyObject *o)
{
    py_borrower *self = (py_borrower *)o;
    Py_CLEAR(self->optimizer);
    Py_CLEAR(self->type);
    Py_CLEAR(self->touch);
    Py_CLEAR(self->grad);
    Py_CLEAR(self->getter);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        borrowed *b = &self->param[i];
        Py_CLEAR(b->object);
        Py_CLEAR(b->name);
        Py_CLEAR(b->held);
        if (b->t && self->head.owner) gd_py_release(self->head.owner, end_tensor, b->t);
        if (b->grad && self->head.owner) gd_py_release(self->head.owner, end_tensor, b->grad);
        b->t = b->grad = NULL;
    }
    self->count = 0;
    return 0;
}

static void borrower_dealloc(PyObject *o)
{
    py_borrower *self = (py_borrower *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    (void)borrower_clear(o);
    PyMem_Free(self->param);
    gd_py_leave(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

/* The table of the other library's type; NULL with an exception. */
static const dl_exchange *find_api(PyObject *type)
{
    PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    const dl_exchange *api = capsule && PyCapsule_IsValid(capsule, "dlpack_exchange_api")
                                 ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
                                 : NULL;
    Py_XDECREF(capsule);
    while (api && api->major > 1) api = api->older;
    if (api && api->look && api->stream) return api;
    PyErr_Clear();
    (void)gd_py_fail(
        GD_NOT_IMPLEMENTED,
        "gradus.torch needs a PyTorch whose tensors have __dlpack_c_exchange_api__ (2.11 has it)");
    return NULL;
}

/* _Borrower(optimizer, type, touch) */
static int borrower_init(PyObject *o, PyObject *args, PyObject *keywords)
{
    py_borrower *self = (py_borrower *)o;
    PyObject *optimizer, *type, *touch;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O!O!O:_Borrower", gd_py.optimizer_type, &optimizer, &PyType_Type, &type,
                          &touch))
        return -1;
    if (self->optimizer) return gd_py_fail(GD_STATE, "this object is made already") ? 0 : -1;
    if (!(self->api = find_api(type))) return -1;
    self->grad = PyUnicode_InternFromString("grad");
    self->optimizer = Py_NewRef(optimizer);
    self->type = Py_NewRef(type);
    self->touch = Py_NewRef(touch);
    self->getter = self->grad ? PyObject_GetAttr(type, self->grad) : NULL;
    if (!self->getter) return -1;
    self->get = (descrgetfunc)PyType_GetSlot(Py_TYPE(self->getter), Py_tp_descr_get);
    gd_optimizer *made = self->grad ? gd_py_borrower_optimizer(self) : NULL;
    PyObject *context = made ? PyObject_GetAttrString(optimizer, "context") : NULL;
    if (!context) return -1;
    gd_py_join((gd_py_context *)context, self, drop_borrower);
    Py_DECREF(context);
    if (!gd_optimizer_skip_missing(made, true)) return 0;
    (void)gd_py_raise(self->head.owner);
    return -1;
}

/* ---- parameters ---- */

static int make_room(py_borrower *self, Py_ssize_t more)
{
    if (self->count + more <= self->room) return 1;
    Py_ssize_t room = 2 * (self->count + more);
    borrowed *list = PyMem_Realloc(self->param, (size_t)room * sizeof *list);
    if (!list) return PyErr_NoMemory() != NULL;
    self->param = list;
    self->room = room;
    return 1;
}

PyObject *gd_py_raise_for(gd_py_context *c, PyObject *name)
{
    char text[2048];
    gd_status status = gd_error(c->ctx);
    gd_py_error_text(c, text, sizeof text);
    PyErr_Format(gd_py.error[status ? status : GD_NOMEM], "gradus.torch: parameter '%U': %s", name, text);
    gd_clear_error(c->ctx);
    return NULL;
}

/* add(names, tensors): a group more; its number. */
static PyObject *borrower_add(PyObject *o, PyObject *args)
{
    PyObject *names, *tensors, *result = NULL;
    BORROWER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "O!O!:add", &PyTuple_Type, &names, &PyTuple_Type, &tensors)) return NULL;
    Py_ssize_t n = PyTuple_Size(tensors), made = 0;
    int group = 0;
    if (PyTuple_Size(names) != n) return gd_py_fail(GD_ARGUMENT, "add: as many names as tensors are needed");
    if (!make_room(self, n)) return NULL;
    self->seen = NULL;
    gd_tensor **t = PyMem_Calloc((size_t)n + 1, sizeof *t);
    const char **text = PyMem_Calloc((size_t)n + 1, sizeof *text);
    int fine = t && text;
    for (; made < n && fine; made++) {
        borrowed *b = &self->param[self->count + made];
        *b = (borrowed){.object = PyTuple_GetItem(tensors, made), .name = PyTuple_GetItem(names, made)};
        text[made] = PyUnicode_AsUTF8AndSize(b->name, NULL);
        fine = text[made] && gd_py_look(self, b->object, b->name, 0, &b->at) != BAD &&
               gd_py_is_plain(b->object, b->name);
        t[made] = fine ? gd_py_tensor_over(c->ctx, &b->at) : NULL;
        if (fine && !t[made]) fine = gd_py_raise_for(c, b->name) != NULL;
        if (fine && gd_set_requires_grad(t[made], true)) fine = gd_py_raise_for(c, b->name) != NULL;
        if (!fine && t[made]) gd_release(t[made]);
        if (!fine) break;
        b->t = t[made];
    }
    if (fine && gd_optimizer_add_group(optimizer, text, t, (int)n, NULL, &group))
        fine = gd_py_raise(c) != NULL;
    for (Py_ssize_t i = 0; i < made; i++) {
        if (fine) {
            Py_INCREF(self->param[self->count + i].object);
            Py_INCREF(self->param[self->count + i].name);
        } else
            gd_release(t[i]);
    }
    if (fine) {
        self->count += n;
        result = PyLong_FromLong(group);
    } else if (!PyErr_Occurred())
        PyErr_NoMemory();
    PyMem_Free(t);
    PyMem_Free((void *)text);
    return result;
}

/* Is it where it was?  If not, the parameter is put where it is now. */
static int follow(py_borrower *self, borrowed *b, PyObject *object)
{
    form now = b->at;
    gd_py_context *c = self->head.owner;
    int seen = gd_py_look(self, object, b->name, 0, &now);
    if (seen == BAD) return 0;
    if (seen == OTHER || now.data != b->at.data) {
        if (!gd_py_is_plain(object, b->name)) return 0;
        gd_tensor *t = gd_py_tensor_over(c->ctx, &now);
        gd_status status = t ? gd_take_memory(b->t, t) : gd_error(c->ctx);
        if (t) gd_release(t);
        if (status || !t) return gd_py_raise_for(c, b->name) != NULL;
        b->at = now;
    }
    if (object != b->object) {
        Py_INCREF(object);
        gd_py_set(&b->object, object);
    }
    return 1;
}

/* Is it a parameter already?  Its state belongs to its position, and it would get that of a different parameter.  `known` is made on first use. */
static int has_a_place(py_borrower *self, PyObject *object, PyObject **known)
{
    if (!*known && (*known = PySet_New(NULL)))
        for (Py_ssize_t i = 0; i < self->count; i++) {
            PyObject *address = PyLong_FromVoidPtr(self->param[i].object);
            int added = address ? PySet_Add(*known, address) : -1;
            Py_XDECREF(address);
            if (added < 0) return -1;
        }
    PyObject *address = *known ? PyLong_FromVoidPtr(object) : NULL;
    int has = address ? PySet_Contains(*known, address) : -1;
    Py_XDECREF(address);
    return has;
}

static int others(void)
{
    return gd_py_fail(GD_STATE,
                      "gradus.torch: the groups have other parameters than were added, or another order of "
                      "them; add_param_group adds some") != NULL;
}

typedef int (*visit_param)(py_borrower *self, borrowed *b, PyObject *object);

/* All of them, from the lists of the groups.  Sizes are asked for anew: a method of the user's may change the lists. */
static int for_all(py_borrower *self, PyObject *groups, visit_param visit)
{
    Py_ssize_t at = 0;
    PyObject *known = NULL;
    int fitting = PyList_Check(groups), fine = 1;
    for (Py_ssize_t g = 0; fitting && fine && g < PyList_Size(groups); g++) {
        PyObject *list = PyList_GetItem(groups, g);
        fitting = PyList_Check(list);
        for (Py_ssize_t i = 0; fitting && fine && i < PyList_Size(list); i++, at++) {
            if (!(fitting = at < self->count)) break;
            PyObject *object = PyList_GetItem(list, i);
            borrowed *b = &self->param[at];
            fitting = object == b->object || has_a_place(self, object, &known) == 0;
            fine = fitting && visit(self, b, object);
        }
    }
    Py_XDECREF(known);
    if (PyErr_Occurred()) return 0;
    return (fitting && at == self->count) || others();
}

static int follow_all(py_borrower *self, PyObject *groups)
{
    self->seen = self->plain = NULL;
    return for_all(self, groups, follow);
}

static int let_be(py_borrower *self, borrowed *b, PyObject *object)
{
    (void)self;
    (void)b;
    (void)object;
    return 1;
}

/* check(groups): are they the parameters that were added, in that order? */
static PyObject *borrower_check(PyObject *o, PyObject *groups)
{
    BORROWER_OR_RETURN(o);
    if (!for_all(self, groups, let_be)) return NULL;
    Py_RETURN_NONE;
}

/* In a step that evaluates: what is written to must stay where it was. */
static int still_there(py_borrower *self)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        borrowed *b = &self->param[i];
        form now = b->at;
        if (!gd_py_look(self, b->object, b->name, 0, &now)) return 0;
        if (now.data != b->at.data)
            return gd_py_refuse(b->name, "was put elsewhere by the closure, in the middle of a step");
    }
    return 1;
}

/* ---- steps ---- */

/* Its work goes where the other library's goes. */
static int follow_streams(py_borrower *self)
{
    gd_py_context *c = self->head.owner;
    int32_t last = -1;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        int32_t device = self->param[i].at.device;
        void *stream = NULL;
        if (device < 0 || device == last) continue;
        last = device;
        if (self->api->stream(GD_PY_DL_CUDA, device, &stream) < 0) return 0;
        if (gd_device_use_stream(gd_tensor_device(self->param[i].t), stream)) return gd_py_raise(c) != NULL;
    }
    return 1;
}

static int same_strides(const form *a, const form *b)
{
    int same = a->ndim == b->ndim;
    for (int i = 0; i < a->ndim && same; i++)
        same = a->axis[i].stride == b->axis[i].stride || a->axis[i].size == 1;
    return same;
}

/* Replaces an object by the result of one of its methods. */
static int replace_by(PyObject **object, const char *method)
{
    PyObject *name = PyUnicode_FromString(method);
    PyObject *now = name ? PyObject_CallMethodObjArgs(*object, name, NULL) : NULL;
    Py_XDECREF(name);
    if (now) gd_py_set(object, now);
    return now != NULL;
}

/* Its attribute `grad`, new: at once by the type's own getter where nothing stands before that. */
static PyObject *gradient_of(py_borrower *self, PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    if (type == self->plain) return self->get(self->getter, object, (PyObject *)type);
    if (self->get && PyType_GetSlot(type, Py_tp_getattro) == (void *)PyObject_GenericGetAttr) {
        PyObject *own = PyObject_GetAttr((PyObject *)type, self->grad);
        if (!own) return NULL;
        if (own == self->getter) self->plain = type;
        Py_DECREF(own);
    }
    return PyObject_GetAttr(object, self->grad);
}

/* A tensor over a gradient: that of the last step, put where this one lies, or a new one.  NULL with the error recorded. */
static gd_tensor *gradient_over(gd_py_context *c, borrowed *b, int seen)
{
    if (b->grad && seen == SAME) {
        if (gd_point_at(b->grad, b->grad_at.data) == GD_OK) return b->grad;
        gd_clear_error(c->ctx); /* it has other references */
    }
    if (b->grad) gd_release(b->grad);
    return b->grad = gd_py_tensor_over(c->ctx, &b->grad_at);
}

/* The gradient of a parameter in *grad, borrowed, or NULL; the object is in b->held as long as it is used.  Views that are conjugate or
 * negative are not what lies in memory: the first are complex, the second strided parts of such, and both have copies that are. */
static int take_gradient(py_borrower *self, borrowed *b, gd_tensor **grad)
{
    *grad = NULL;
    gd_py_set(&b->held, gradient_of(self, b->object));
    if (!b->held) return 0;
    if (b->held == Py_None) return 1;
    int seen = gd_py_look(self, b->held, b->name, 1, &b->grad_at);
    if (seen != BAD && (b->grad_at.pairs || !same_strides(&b->grad_at, &b->at))) {
        int plain = replace_by(&b->held, "resolve_conj") && replace_by(&b->held, "resolve_neg");
        seen = plain && gd_py_look(self, b->held, b->name, 1, &b->grad_at) != BAD ? OTHER : BAD;
    }
    if (seen != BAD && !(*grad = gradient_over(self->head.owner, b, seen)))
        (void)gd_py_raise_for(self->head.owner, b->name);
    if (!*grad) b->grad_at.kind = 0; /* like nothing that comes */
    return *grad != NULL;
}

static int set_gradients(py_borrower *self)
{
    for (Py_ssize_t i = 0; i < self->count; i++) {
        borrowed *b = &self->param[i];
        gd_tensor *grad;
        if (!take_gradient(self, b, &grad)) return 0;
        b->has_grad = grad != NULL;
        if (grad && gd_set_grad(b->t, grad)) return gd_py_raise_for(self->head.owner, b->name) != NULL;
    }
    return 1;
}

static void let_gradient_go(borrowed *b)
{
    gd_zero_grad(b->t);
    Py_CLEAR(b->held);
}

/* The other library hears that the parameters were changed. */
static int tell(py_borrower *self, PyObject *changed)
{
    if (!PyList_Size(changed)) return 1;
    PyObject *done = PyObject_CallFunctionObjArgs(self->touch, changed, NULL);
    Py_XDECREF(done);
    return done != NULL;
}

/* The same after a step with gradients, of those that had one.  Where all had, the lists of the groups are those. */
static int tell_stepped(py_borrower *self, PyObject *groups)
{
    Py_ssize_t stepped = 0;
    int fine = 1;
    for (Py_ssize_t i = 0; i < self->count; i++) stepped += self->param[i].has_grad;
    if (stepped == self->count) {
        for (Py_ssize_t g = 0; g < PyList_Size(groups) && fine; g++)
            fine = tell(self, PyList_GetItem(groups, g));
        return fine;
    }
    PyObject *some = PyList_New(0);
    for (Py_ssize_t i = 0; i < self->count && some; i++)
        if (self->param[i].has_grad && PyList_Append(some, self->param[i].object) < 0) Py_CLEAR(some);
    fine = some && tell(self, some);
    Py_XDECREF(some);
    return fine;
}

static PyObject *all_objects(py_borrower *self)
{
    PyObject *list = PyList_New(self->count);
    for (Py_ssize_t i = 0; i < self->count && list; i++)
        if (PyList_SetItem(list, i, Py_NewRef(self->param[i].object)) < 0) Py_CLEAR(list);
    return list;
}

static gd_status run_step(py_borrower *self, gd_optimizer *optimizer, const gd_objective *objective,
                          gd_tensor *loss, const gd_py_numbers *numbers)
{
    gd_py_context *c = self->head.owner;
    gd_step_extra extra = {loss, numbers->name, numbers->number, numbers->count};
    PyThreadState *state = gd_py_begin(c);
    gd_status status = gd_optimizer_step_with(optimizer, objective, loss || extra.count ? &extra : NULL,
                                              NULL);
    gd_py_end(c, state);
    return status;
}

/* None, or numbers by name that a link may read. */
static int take_numbers(const gd_optimizer *optimizer, PyObject *dict, gd_py_numbers *numbers)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    numbers->count = 0;
    while (dict && dict != Py_None && PyDict_Next(dict, &at, &name, &value)) {
        const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
        if (!text || !gd_py_add_number(numbers, text, value)) return 0;
    }
    return gd_py_check_numbers(optimizer, numbers);
}

/* The loss that is known already, or NULL in *t. */
static int take_loss(py_borrower *self, PyObject *loss, gd_tensor **t)
{
    form at = {.kind = 0};
    *t = NULL;
    if (!loss || loss == Py_None) return 1;
    PyObject *name = PyUnicode_FromString("loss");
    int fine = name && gd_py_look(self, loss, name, 0, &at);
    Py_XDECREF(name);
    if (fine) *t = gd_py_tensor_over(self->head.owner->ctx, &at);
    return *t ? 1 : fine ? gd_py_raise(self->head.owner) != NULL : 0;
}

/* With the gradients that are there. */
static int step_with_gradients(py_borrower *self, gd_optimizer *optimizer, PyObject *loss,
                               const gd_py_numbers *numbers)
{
    gd_tensor *known = NULL;
    int fine = set_gradients(self) && take_loss(self, loss, &known);
    if (fine && run_step(self, optimizer, NULL, known, numbers)) fine = gd_py_raise(self->head.owner) != NULL;
    if (known) gd_release(known);
    for (Py_ssize_t i = 0; i < self->count; i++) let_gradient_go(&self->param[i]);
    return fine;
}

/* Which parameters a step that evaluates is about: those that want gradients.  A step with existing gradients takes all. */
static int follow_frozen(py_borrower *self, int evaluates)
{
    if (!evaluates && !self->has_frozen) return 1;
    self->has_frozen = 0;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        borrowed *b = &self->param[i];
        PyObject *wants = evaluates ? PyObject_GetAttrString(b->object, "requires_grad") : Py_NewRef(Py_True);
        int yes = wants ? PyObject_IsTrue(wants) : -1;
        Py_XDECREF(wants);
        if (yes < 0) return 0;
        self->has_frozen |= !yes;
        if (gd_requires_grad(b->t) != yes && gd_set_requires_grad(b->t, yes))
            return gd_py_raise_for(self->head.owner, b->name) != NULL;
    }
    return 1;
}

/* step(groups, loss=None, numbers=None) */
static PyObject *borrower_step(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    BORROWER_OR_RETURN(o);
    gd_py_numbers numbers;
    if (n < 1 || n > 3)
        return PyErr_Format(PyExc_TypeError, "step: the lists of parameters, the loss, and numbers");
    if (!take_numbers(optimizer, n > 2 ? args[2] : NULL, &numbers)) return NULL;
    if (!gd_py_own(c)) return NULL;
    int fine = follow_all(self, args[0]) && follow_streams(self) && follow_frozen(self, 0) &&
               step_with_gradients(self, optimizer, n > 1 ? args[1] : NULL, &numbers);
    gd_py_disown(c);
    if (!fine || !tell_stepped(self, args[0]) || !gd_py_done(c)) return NULL;
    Py_RETURN_NONE;
}

/* evaluate(groups, on): the parameters as links recommend them, and back. */
static PyObject *borrower_evaluate(PyObject *o, PyObject *args)
{
    PyObject *groups;
    int on;
    BORROWER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "Op:evaluate", &groups, &on)) return NULL;
    if (!gd_py_own(c)) return NULL;
    int fine = follow_all(self, groups) && follow_streams(self);
    if (fine && gd_optimizer_evaluate(optimizer, on)) fine = gd_py_raise(c) != NULL;
    gd_py_disown(c);
    PyObject *changed = fine ? all_objects(self) : NULL;
    fine = changed && tell(self, changed) && gd_py_done(c);
    Py_XDECREF(changed);
    if (!fine) return NULL;
    Py_RETURN_NONE;
}

/* ---- closures ---- */

/* The loss that a function of the user gives. */
static int call_for_loss(py_borrower *self, PyObject *fn, double *loss)
{
    PyObject *changed = all_objects(self);
    int fine = changed && PyErr_CheckSignals() == 0 && tell(self, changed);
    PyObject *value = fine ? PyObject_CallNoArgs(fn) : NULL;
    Py_XDECREF(changed);
    *loss = value ? PyFloat_AsDouble(value) : 0;
    fine = value && !(*loss == -1 && PyErr_Occurred());
    Py_XDECREF(value);
    return fine && still_there(self);
}

static gd_status call_value(void *user, double *loss)
{
    py_borrower *self = user;
    gd_py_context *c = self->head.owner;
    PyGILState_STATE state = gd_py_callback_begin(c);
    int fine = call_for_loss(self, self->value, loss);
    if (!fine) gd_py_keep_exception(c);
    gd_py_callback_end(c, state);
    return fine ? GD_OK : GD_CALLBACK;
}

static void forget_gradient(borrowed *b)
{
    if (b->grad) gd_release(b->grad);
    b->grad = NULL;
}

/* A gradient that is not there is zeros.  The tensor over it belongs to a scope of the step that calls: it cannot stay. */
static int copy_gradient(py_borrower *self, borrowed *b, gd_tensor *to)
{
    gd_tensor *grad;
    int fine = take_gradient(self, b, &grad);
    if (fine && (grad ? gd_assign(to, grad) : gd_fill(to, 0)))
        fine = gd_py_raise_for(self->head.owner, b->name) != NULL;
    forget_gradient(b);
    Py_CLEAR(b->held);
    return fine;
}

static gd_status gradient_by(py_borrower *self, PyObject *fn, double *loss, gd_tensor *const *grads)
{
    gd_py_context *c = self->head.owner;
    PyGILState_STATE state = gd_py_callback_begin(c);
    int fine = call_for_loss(self, fn, loss);
    for (Py_ssize_t i = 0; i < self->count && fine; i++)
        if (gd_requires_grad(self->param[i].t)) fine = copy_gradient(self, &self->param[i], *grads++);
    if (!fine) gd_py_keep_exception(c);
    gd_py_callback_end(c, state);
    return fine ? GD_OK : GD_CALLBACK;
}

static gd_status call_gradient(void *user, double *loss, gd_tensor *const *grads)
{
    return gradient_by(user, ((py_borrower *)user)->gradient, loss, grads);
}

static gd_status call_kept(void *user, double *loss, gd_tensor *const *grads)
{
    return gradient_by(user, ((py_borrower *)user)->kept, loss, grads);
}

/* hvp(vectors) gives the products as a list of tensors of the other library; both are for the parameters that want gradients. */
static int call_for_products(py_borrower *self, gd_tensor *const *v, gd_tensor *const *out)
{
    gd_py_context *c = self->head.owner;
    PyObject *list = PyList_New(0), *products = NULL;
    int fine = list != NULL;
    for (Py_ssize_t i = 0; i < self->count && fine; i++) {
        PyObject *one = gd_requires_grad(self->param[i].t) ? gd_py_borrowed_tensor(c, *v++) : NULL;
        fine = one ? PyList_Append(list, one) == 0 : !PyErr_Occurred();
        Py_XDECREF(one);
    }
    if (fine) products = PyObject_CallFunctionObjArgs(self->hvp, list, NULL);
    fine = products && PyList_Check(products) && PyList_Size(products) == PyList_Size(list) &&
           still_there(self);
    for (Py_ssize_t i = 0, k = 0; i < self->count && fine; i++) {
        form at = {.kind = 0};
        borrowed *b = &self->param[i];
        if (!gd_requires_grad(b->t)) continue;
        fine = gd_py_look(self, PyList_GetItem(products, k), b->name, 1, &at);
        gd_tensor *t = fine ? gd_py_tensor_over(c->ctx, &at) : NULL;
        if (fine && (!t || gd_assign(out[k++], t))) fine = gd_py_raise_for(c, b->name) != NULL;
        if (t) gd_release(t);
    }
    Py_XDECREF(list);
    Py_XDECREF(products);
    return fine;
}

/* A copy of what an object of the other library has; NULL with an exception. */
static gd_tensor *copy_of(py_borrower *self, PyObject *object, PyObject *name)
{
    form at = {.kind = 0};
    gd_py_context *c = self->head.owner;
    if (!gd_py_look(self, object, name, 0, &at)) return NULL;
    gd_tensor *t = gd_py_tensor_over(c->ctx, &at), *copy = t ? gd_copy(t) : NULL;
    if (t) gd_release(t);
    if (!copy) (void)gd_py_raise(c);
    return copy;
}

/* jacobian() gives the Jacobian [m, n] and the residuals [m]. */
static int call_for_jacobian(py_borrower *self, gd_tensor **j, gd_tensor **r)
{
    PyObject *changed = all_objects(self), *name = PyUnicode_FromString("residuals"), *both = NULL;
    if (changed && name && PyErr_CheckSignals() == 0 && tell(self, changed))
        both = PyObject_CallNoArgs(self->jacobian);
    int fine = both && PyTuple_Check(both) && PyTuple_Size(both) == 2 && still_there(self) &&
               (*j = copy_of(self, PyTuple_GetItem(both, 0), name)) &&
               (*r = copy_of(self, PyTuple_GetItem(both, 1), name));
    Py_XDECREF(both);
    Py_XDECREF(name);
    Py_XDECREF(changed);
    return fine;
}

static gd_status call_jacobian(void *user, gd_tensor **j, gd_tensor **r)
{
    py_borrower *self = user;
    gd_py_context *c = self->head.owner;
    PyGILState_STATE state = gd_py_callback_begin(c);
    int fine = call_for_jacobian(self, j, r);
    if (!fine) gd_py_keep_exception(c);
    gd_py_callback_end(c, state);
    return fine ? GD_OK : GD_CALLBACK;
}

static gd_status call_hvp(void *user, gd_tensor *const *v, gd_tensor *const *out)
{
    py_borrower *self = user;
    gd_py_context *c = self->head.owner;
    PyGILState_STATE state = gd_py_callback_begin(c);
    int fine = call_for_products(self, v, out);
    if (!fine && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "gradus.torch: products are a list of tensors, one a parameter");
    if (!fine) gd_py_keep_exception(c);
    gd_py_callback_end(c, state);
    return fine ? GD_OK : GD_CALLBACK;
}

/* minimize(groups, value, gradient, products, jacobian, numbers=None): a step whose links evaluate.  products: None, or the gradient whose
 * graph is kept, and products of that. */
static PyObject *borrower_minimize(PyObject *o, PyObject *args)
{
    PyObject *groups, *value, *gradient, *products, *jacobian, *dict = NULL;
    PyObject *kept = Py_None, *hvp = Py_None;
    gd_py_numbers numbers;
    BORROWER_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "OOOOO|O:minimize", &groups, &value, &gradient, &products, &jacobian, &dict))
        return NULL;
    if (products != Py_None && !PyArg_ParseTuple(products, "OO:minimize", &kept, &hvp)) return NULL;
    if (!take_numbers(optimizer, dict, &numbers)) return NULL;
    if (self->value) return gd_py_fail(GD_STATE, "gradus.torch: a step is under way");
    self->value = value, self->gradient = gradient, self->jacobian = jacobian;
    self->kept = kept, self->hvp = hvp;
    gd_objective objective = {.user = self,
                              .value = call_value,
                              .gradient = call_gradient,
                              .gradient_kept = kept == Py_None ? NULL : call_kept,
                              .hvp = hvp == Py_None ? NULL : call_hvp,
                              .jacobian = jacobian == Py_None ? NULL : call_jacobian};
    Py_INCREF(o);
    int owned = gd_py_own(c),
        fine = owned && follow_all(self, groups) && follow_streams(self) && follow_frozen(self, 1);
    if (fine && run_step(self, optimizer, &objective, NULL, &numbers)) fine = gd_py_raise(c) != NULL;
    if (owned) gd_py_disown(c);
    self->value = self->gradient = self->kept = self->hvp = self->jacobian = NULL;
    PyObject *changed = fine ? all_objects(self) : NULL;
    fine = changed && tell(self, changed) && gd_py_done(c);
    Py_XDECREF(changed);
    Py_DECREF(o);
    if (!fine) return NULL;
    Py_RETURN_NONE;
}

/* ---- the type's table ---- */

static PyMethodDef borrower_methods[] = {
    {"add", borrower_add, METH_VARARGS, "add($self, names, tensors, /)\n--\n\nA group of parameters more."},
    {"step", (PyCFunction)(void (*)(void))borrower_step, METH_FASTCALL,
     "step($self, groups, loss=None, numbers=None, /)\n--\n\nA step with the gradients that are on the parameters."},
    {"minimize", borrower_minimize, METH_VARARGS,
     "minimize($self, groups, value, gradient, products, jacobian, numbers=None, /)\n--\n\nA step whose links evaluate the objective."},
    {"check", borrower_check, METH_O,
     "check($self, groups, /)\n--\n\nAre these the parameters that were added, in that order?"},
    {"evaluate", borrower_evaluate, METH_VARARGS,
     "evaluate($self, groups, on, /)\n--\n\nThe parameters as links recommend them, and back."},
    {"links", gd_py_borrower_links, METH_NOARGS, "links($self, /)\n--\n\nWhat is known of every link."},
    {"state", gd_py_borrower_state, METH_VARARGS,
     "state($self, link, parameter, slot, /)\n--\n\nThe memory of a slot."},
    {"set_state", gd_py_borrower_set_state, METH_VARARGS,
     "set_state($self, link, parameter, slot, value, /)\n--\n\nA copy into a slot."},
    {"steps_of", gd_py_borrower_steps_of, METH_VARARGS,
     "steps_of($self, link, parameter, /)\n--\n\nSteps that a parameter was part of."},
    {"set_steps_of", gd_py_borrower_set_steps_of, METH_VARARGS,
     "set_steps_of($self, link, parameter, steps, /)\n--\n\nSets them."},
    {"set", gd_py_borrower_set, METH_VARARGS,
     "set($self, link, field, value, first, last, /)\n--\n\nA number of one link for some parameters."},
    {"pack", gd_py_borrower_pack, METH_NOARGS, "pack($self, /)\n--\n\nText and tensors of the state."},
    {"unpack", gd_py_borrower_unpack, METH_VARARGS,
     "unpack($self, text, tensors, /)\n--\n\nTakes them back."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot borrower_slots[] = {
    {Py_tp_doc, "Steps over memory of a different library; see gradus.torch."},
    {Py_tp_init, borrower_init},
    {Py_tp_dealloc, borrower_dealloc},
    {Py_tp_traverse, borrower_traverse},
    {Py_tp_clear, borrower_clear},
    {Py_tp_methods, borrower_methods},
    {0, NULL}};
static PyType_Spec borrower_spec = {"gradus._core._Borrower", sizeof(py_borrower), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, borrower_slots};

int gd_py_add_borrower(PyObject *module)
{
    PyObject *type = (PyObject *)gd_py_add_type(module, &borrower_spec, NULL);
    Py_XDECREF(type);
    return type != NULL;
}
