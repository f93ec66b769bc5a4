/* Links and rules written in Python: classes of the library whose functions call Python.
 *
 * A class lives as long as its context.  A rule gets no user data, so each has its own C function out of a
 * fixed supply; a link of tensors finds its Python object through its class. */
#include "view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct py_class {
    gd_link_class cls; /* first: the library gives this address back */
    gd_py_context *c;
    PyObject *object; /* the function of a rule; update and apply, or step, of a link */
    PyObject *hooks;  /* what its steps leave for their end: see var.c; NULL: it has no step */
    struct py_class *next;
    int field_count, slot_count;
    gd_field fields[16];
    gd_slot slots[16];
    char *strings[64];
    int string_count;
} py_class;

/* ---- rules ---- */

static const char *const rule_name = "gradus.rule", *const rule_ended = "gradus.rule.ended";

/* Calls the function with the rule as a capsule that ends with the call. */
static gd_value run_rule(py_class *p, gd_rule *r, gd_value update)
{
    PyGILState_STATE state = gd_py_callback_begin(p->c);
    gd_value result = -1;
    PyObject *capsule = PyCapsule_New(r, rule_name, NULL);
    PyObject *value = capsule ? PyObject_CallFunction(p->object, "Oi", capsule, (int)update) : NULL;
    if (value) result = (gd_value)PyLong_AsLong(value);
    if (PyErr_Occurred()) {
        gd_py_keep_exception(p->c);
        result = -1;
    }
    if (capsule) (void)PyCapsule_SetName(capsule, rule_ended);
    Py_XDECREF(capsule);
    Py_XDECREF(value);
    gd_py_callback_end(p->c, state);
    return result;
}

#define RULES 64
static py_class *rule_of[RULES];
#define EIGHT(X, a) X(a##0) X(a##1) X(a##2) X(a##3) X(a##4) X(a##5) X(a##6) X(a##7)
#define ALL_RULES(X) \
    EIGHT(X, 00) EIGHT(X, 01) EIGHT(X, 02) EIGHT(X, 03) EIGHT(X, 04) EIGHT(X, 05) EIGHT(X, 06) EIGHT(X, 07)
#define RULE_FUNCTION(n) \
    static gd_value rule_##n(gd_rule *r, gd_value update) { return run_rule(rule_of[n], r, update); }
ALL_RULES(RULE_FUNCTION)
#define RULE_ENTRY(n) rule_##n,
static gd_value (*const rule_functions[RULES])(gd_rule *, gd_value) = {ALL_RULES(RULE_ENTRY)};

typedef struct one_name {
    const char *name;
    gd_value (*fn)(gd_rule *, gd_value);
} one_name;
typedef struct two_name {
    const char *name;
    gd_value (*fn)(gd_rule *, gd_value, gd_value);
} two_name;
#define ONE_NAME(n) {#n, gd_rule_##n},
static const one_name ones[] = {GD_RULE_UNARY(ONE_NAME){"bias", gd_rule_bias}};
static const two_name twos[] = {GD_RULE_BINARY(ONE_NAME)};
#define ONES ((int)(sizeof ones / sizeof *ones))
#define TWOS ((int)(sizeof twos / sizeof *twos))

/* Names of X(not ) have a blank behind them. */
static int is_called(const char *own, const char *name)
{
    size_t n = strlen(name);
    return !strncmp(own, name, n) && (!own[n] || own[n] == ' ');
}

static PyObject *value_or_raise(gd_value v) { return PyLong_FromLong(v); }

static PyObject *call_by_text(gd_rule *r, const char *name, PyObject *args)
{
    const char *text;
    int a = 0, b = 0;
    if (!PyArg_ParseTuple(args, "s|ii", &text, &a, &b)) return NULL;
    if (!strcmp(name, "setting")) return value_or_raise(gd_rule_setting(r, text));
    if (!strcmp(name, "state")) return value_or_raise(gd_rule_state(r, text));
    if (!strcmp(name, "state_or")) return value_or_raise(gd_rule_state_or(r, text, a));
    if (!strcmp(name, "fresh")) return value_or_raise(gd_rule_fresh(r, text));
    if (!strcmp(name, "average")) return value_or_raise(gd_rule_average(r, text, a, b));
    if (!strcmp(name, "flag")) return PyBool_FromLong(gd_rule_flag(r, text));
    gd_rule_set(r, text, a);
    Py_RETURN_NONE;
}

static PyObject *call_by_values(gd_rule *r, const char *name, PyObject *args)
{
    int a = 0, b = 0, c = 0;
    if (!PyArg_ParseTuple(args, "|iii", &a, &b, &c)) return NULL;
    for (int i = 0; i < ONES; i++)
        if (is_called(ones[i].name, name)) return value_or_raise(ones[i].fn(r, a));
    for (int i = 0; i < TWOS; i++)
        if (is_called(twos[i].name, name)) return value_or_raise(twos[i].fn(r, a, b));
    if (!strcmp(name, "where")) return value_or_raise(gd_rule_where(r, a, b, c));
    if (!strcmp(name, "lerp")) return value_or_raise(gd_rule_lerp(r, a, b, c));
    if (!strcmp(name, "clamp")) return value_or_raise(gd_rule_clamp(r, a, b, c));
    if (!strcmp(name, "sum")) return value_or_raise(gd_rule_sum(r, a, b ? GD_ALL : GD_EACH));
    if (!strcmp(name, "max_over")) return value_or_raise(gd_rule_max_over(r, a, b ? GD_ALL : GD_EACH));
    if (!strcmp(name, "random")) return value_or_raise(gd_rule_random(r, (gd_random_kind)a));
    if (!strcmp(name, "param")) return value_or_raise(gd_rule_param(r));
    if (!strcmp(name, "grad")) return value_or_raise(gd_rule_grad(r));
    if (!strcmp(name, "step")) return value_or_raise(gd_rule_step(r));
    if (!strcmp(name, "numel")) return value_or_raise(gd_rule_numel(r));
    return PyErr_Format(PyExc_AttributeError, "rules have no '%s'", name);
}

/* _rule_functions(): names of the functions of one and of two values. */
static PyObject *rule_names(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *one = PyTuple_New(ONES), *two = PyTuple_New(TWOS);
    bool made = one && two;
    for (int i = 0; made && i < ONES; i++) {
        PyObject *name = PyUnicode_FromStringAndSize(ones[i].name, (Py_ssize_t)strcspn(ones[i].name, " "));
        made = name && !PyTuple_SetItem(one, i, name);
    }
    for (int i = 0; made && i < TWOS; i++) {
        PyObject *name = PyUnicode_FromString(twos[i].name);
        made = name && !PyTuple_SetItem(two, i, name);
    }
    PyObject *both = made ? PyTuple_Pack(2, one, two) : NULL;
    Py_XDECREF(one);
    Py_XDECREF(two);
    return both;
}

/* _rule_call(rule, name, arguments): values are numbers. */
static PyObject *rule_call(PyObject *module, PyObject *all)
{
    static const char *const by_text[] = {"setting", "state", "state_or", "set", "fresh", "average", "flag"};
    PyObject *capsule, *args;
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(all, "OsO!:_rule_call", &capsule, &name, &PyTuple_Type, &args)) return NULL;
    if (!PyCapsule_IsValid(capsule, rule_name))
        return gd_py_fail(GD_STATE, "a value of a rule is used after the rule was made");
    gd_rule *r = PyCapsule_GetPointer(capsule, rule_name);
    for (size_t i = 0; i < sizeof by_text / sizeof *by_text; i++)
        if (!strcmp(name, by_text[i])) return call_by_text(r, name, args);
    if (!strcmp(name, "const")) {
        double number;
        return PyArg_ParseTuple(args, "d", &number) ? value_or_raise(gd_rule_const(r, number)) : NULL;
    }
    if (!strcmp(name, "norm")) {
        int a, everywhere;
        double p;
        if (!PyArg_ParseTuple(args, "idp", &a, &p, &everywhere)) return NULL;
        return value_or_raise(gd_rule_norm(r, a, p, everywhere ? GD_ALL : GD_EACH));
    }
    return call_by_values(r, name, args);
}

/* ---- links of tensors ---- */

/* The result of apply becomes the update: tensors made here belong to the scope, others are copied, because later links may write
 * into them. */
static int take_results(const gd_transform *t, PyObject *result)
{
    if (result == Py_None) return 1;
    if ((!PyList_Check(result) && !PyTuple_Check(result)) || PySequence_Size(result) != t->count) {
        PyErr_Format(PyExc_TypeError, "apply: a list of %d tensors is needed, or None", t->count);
        return 0;
    }
    for (int i = 0; i < t->count; i++) {
        PyObject *item = PySequence_GetItem(result, i), *held = item ? gd_py_as_tensor(item) : NULL;
        gd_py_tensor *tensor = (gd_py_tensor *)held;
        int fine = held && tensor->t;
        /* what Python lets go of with `held` is copied */
        int stays = fine && held == item && tensor->head.in_scope;
        if (fine) t->tensors[i] = stays ? tensor->t : gd_copy(tensor->t);
        if (!fine && !PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "apply: a list of tensors is needed");
        Py_XDECREF(held);
        Py_XDECREF(item);
        if (!fine || !t->tensors[i]) return 0;
    }
    return 1;
}

static gd_py_view view_of(gd_link *link, gd_var *var)
{
    py_class *p = (py_class *)(uintptr_t)gd_link_class_of(link);
    return (gd_py_view){.link = link, .var = var, .c = p->c, .hooks = p->hooks};
}
static PyObject *object_of(const gd_link *link)
{
    return ((py_class *)(uintptr_t)gd_link_class_of(link))->object;
}

static gd_status run_tensors(const gd_transform *t, const char *what, int takes)
{
    gd_py_view v = view_of(t->link, t->var);
    gd_py_context *c = v.c;
    v.t = t;
    PyGILState_STATE state = gd_py_callback_begin(c);
    PyObject *capsule = gd_py_view_open(&v), *result = NULL;
    PyObject *tensors = gd_py_borrowed_list(&v, t->tensors, t->count),
             *params = gd_py_borrowed_list(&v, t->params, t->count);
    PyObject *grads = t->grads ? gd_py_borrowed_list(&v, t->grads, t->count) : Py_NewRef(Py_None),
             *loss = t->loss ? gd_py_borrowed_tensor(c, t->loss) : Py_NewRef(Py_None);
    if (capsule && tensors && params && grads && loss)
        result = PyObject_CallMethod(object_of(t->link), what, "OOOOO", capsule, tensors, params, grads,
                                     loss);
    if (result && takes && !take_results(t, result)) Py_CLEAR(result);
    gd_status status = result ? GD_OK : GD_CALLBACK;
    if (!result) gd_py_keep_exception(c);
    gd_py_view_close(&v, capsule);
    PyObject *seen[] = {tensors, params, grads, loss};
    for (int i = 0; i < 4; i++) Py_XDECREF(seen[i]);
    gd_py_callback_end(c, state);
    state = PyGILState_Ensure(); /* results now have references of their own: the scope keeps its */
    Py_XDECREF(result);
    PyGILState_Release(state);
    return status;
}
static gd_status update_tensors(const gd_transform *t) { return run_tensors(t, "_update", 0); }
static gd_status apply_tensors(const gd_transform *t) { return run_tensors(t, "_apply", 1); }

static gd_status run_step(gd_link *link, gd_var *var, const char *method)
{
    gd_py_view v = view_of(link, var);
    return gd_py_run_with_view(object_of(link), method, &v);
}
static gd_status step_link(gd_link *link, gd_var *var) { return run_step(link, var, "_step"); }
static gd_status update_link(gd_link *link, gd_var *var) { return run_step(link, var, "_link_update"); }
static gd_status apply_link(gd_link *link, gd_var *var) { return run_step(link, var, "_link_apply"); }
static gd_status before_link(gd_link *link, gd_var *var) { return run_step(link, var, "_pre_step"); }
static gd_status after_link(gd_link *link, gd_var *var) { return run_step(link, var, "_post_step"); }
static void reset_link(gd_link *link) { (void)run_step(link, NULL, "_reset"); }
static void reset_link_for_online(gd_link *link) { (void)run_step(link, NULL, "_reset_for_online"); }

static gd_linop *link_hessian(gd_link *link, gd_var *var)
{
    gd_py_view v = view_of(link, var);
    return gd_py_hessian_of(object_of(link), &v);
}

PyObject *gd_py_setting(gd_py_context *c, gd_link *link, const char *name, gd_tensor *key)
{
    const gd_setting *s = gd_link_get(link, name, key);
    if (!s) return gd_py_raise(c);
    if (s->kind == GD_SET_BOOL) return PyBool_FromLong(s->real != 0);
    if (s->kind == GD_SET_STRING) return PyUnicode_FromString(s->string);
    return s->kind == GD_SET_REAL ? PyFloat_FromDouble(s->real) : Py_NewRef(Py_None);
}

/* ---- registering ---- */

static const char *kept(py_class *p, PyObject *text)
{
    const char *s = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
    char *copy = s && p->string_count < 64 ? strdup(s) : NULL;
    if (copy) p->strings[p->string_count++] = copy;
    return copy;
}

static void class_free(py_class *p)
{
    for (int i = 0; i < p->string_count; i++) free(p->strings[i]);
    for (int i = 0; i < RULES; i++)
        if (rule_of[i] == p) rule_of[i] = NULL;
    Py_XDECREF(p->object);
    Py_XDECREF(p->hooks);
    free(p);
}

void gd_py_free_links(gd_py_context *c)
{
    while (c->links) {
        py_class *p = c->links;
        c->links = p->next;
        class_free(p);
    }
}

/* Settings that the library itself reads in every class that has them. */
static int add_known_field(py_class *p, gd_field *f, PyObject *value)
{
    if (!strcmp(f->name, "target") && PyUnicode_Check(value)) {
        *f = (gd_field)GD_TARGET;
        f->fallback = gd_setting_string(kept(p, value));
        return f->fallback.string != NULL;
    }
    if (!strcmp(f->name, "update_freq") && PyLong_Check(value)) {
        *f = (gd_field)GD_UPDATE_FREQ("update runs at every n-th step");
        f->fallback = gd_setting_real(PyFloat_AsDouble(value));
    } else if (!strcmp(f->name, "concat_params") && PyBool_Check(value)) {
        *f = (gd_field)GD_CONCAT_PARAMS("all parameters are one vector");
        f->fallback = gd_setting_bool(value == Py_True);
    } else if (!strcmp(f->name, "seed") && (value == Py_None || PyLong_Check(value))) {
        *f = (gd_field)GD_SEED("of the link's own random numbers");
        if (value != Py_None) f->fallback = gd_setting_real(PyFloat_AsDouble(value));
    } else
        return 0;
    return !PyErr_Occurred();
}

static int add_field(py_class *p, PyObject *name, PyObject *value)
{
    gd_field *f = &p->fields[p->field_count];
    if (p->field_count == 16) return PyErr_Format(PyExc_ValueError, "a link has at most 16 settings") != NULL;
    *f = (gd_field){.name = kept(p, name), .low = -INFINITY, .high = INFINITY, .help = "a setting"};
    if (!f->name) return 0;
    p->field_count++;
    if (add_known_field(p, f, value) || PyErr_Occurred()) return !PyErr_Occurred();
    if (value == Py_None) {
        *f = (gd_field)GD_CHILD(f->name, "links, or none");
    } else if (PyTuple_Check(value)) {
        *f = (gd_field)GD_CHILDREN(f->name, "links, one or more");
    } else if (PyBool_Check(value)) {
        f->kinds = GD_SET_BOOL;
        f->fallback = gd_setting_bool(value == Py_True);
    } else if (PyUnicode_Check(value)) {
        f->kinds = GD_SET_STRING;
        f->fallback = gd_setting_string(kept(p, value));
        return f->fallback.string != NULL;
    } else {
        f->kinds = GD_SET_REAL;
        f->fallback = gd_setting_real(PyFloat_AsDouble(value));
    }
    return !PyErr_Occurred();
}

static int add_rule_function(py_class *p)
{
    for (int i = 0; i < RULES; i++) {
        if (rule_of[i]) continue;
        rule_of[i] = p;
        p->cls.rule = rule_functions[i];
        return 1;
    }
    return gd_py_fail(GD_STATE, "at most %d rules can be made in Python", RULES) != NULL;
}

/* Traits of a link of Python, as bits: _links.py has the same list. */
enum {
    IS_RULE = 1,
    HAS_STEP = 2,
    HAS_UPDATE = 4,
    HAS_APPLY = 8,
    USES_GRAD = 16,
    USES_LOSS = 32,
    NEEDS_CLOSURE = 64,
    HAS_HESSIAN = 128,
    HAS_RESET = 256,
    HAS_RESET_FOR_ONLINE = 512,
    HAS_PRE_STEP = 1024,
    HAS_POST_STEP = 2048,
    CONCATENATES = 4096
};

static int add_slots(py_class *p, PyObject *slots, PyObject *online)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(slots); i++) {
        PyObject *name = PyTuple_GetItem(slots, i);
        if (i == 16) return PyErr_Format(PyExc_ValueError, "a link has at most 16 slots") != NULL;
        int forgotten = PySequence_Contains(online, name);
        if (forgotten < 0) return 0;
        p->slots[p->slot_count++] = (gd_slot){kept(p, name), forgotten ? GD_SLOT_ONLINE : 0};
        if (!p->slots[i].name) return PyErr_Format(PyExc_TypeError, "names of state are texts") != NULL;
    }
    return 1;
}

static void set_functions(gd_link_class *cls, unsigned is)
{
    if (is & HAS_STEP) {
        cls->step = step_link;
        if (is & HAS_UPDATE) cls->update = update_link;
        if (is & HAS_APPLY) cls->apply = apply_link;
        cls->traits.own_settings = cls->traits.moves_params = true;
    } else if (!(is & IS_RULE)) {
        cls->apply_tensors = apply_tensors;
        if (is & HAS_UPDATE) cls->update_tensors = update_tensors;
    }
    if (is & HAS_HESSIAN) cls->hessian = link_hessian;
    if (is & HAS_RESET) cls->reset = reset_link;
    if (is & HAS_RESET_FOR_ONLINE) cls->reset_for_online = reset_link_for_online;
    if (is & HAS_PRE_STEP) cls->pre_step = before_link;
    if (is & HAS_POST_STEP) cls->post_step = after_link;
}

static int fill_class(py_class *p, PyObject *fields, PyObject *slots, PyObject *online, unsigned is)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(fields, &at, &name, &value))
        if (!add_field(p, name, value)) return 0;
    if (!add_slots(p, slots, online)) return 0;
    p->cls.fields = p->field_count ? p->fields : NULL;
    p->cls.field_count = p->field_count;
    p->cls.slots = p->slot_count ? p->slots : NULL;
    p->cls.slot_count = p->slot_count;
    p->cls.traits.uses_grad = is & USES_GRAD;
    p->cls.traits.uses_loss = is & USES_LOSS;
    p->cls.traits.needs_closure = is & NEEDS_CLOSURE;
    p->cls.traits.concat_params = is & CONCATENATES;
    p->cls.traits.acts_first = is & (HAS_STEP | HAS_PRE_STEP); /* it may do anything */
    set_functions(&p->cls, is);
    if (is & IS_RULE) return add_rule_function(p);
    return (p->hooks = PyList_New(0)) != NULL;
}

/* _register_link(context, name, summary, object, settings, slots, online slots, traits); what is there already stays. */
static PyObject *register_link(PyObject *module, PyObject *args)
{
    PyObject *context, *name, *summary, *object, *fields, *slots, *online;
    unsigned is;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!UUOO!O!O!I:_register_link", gd_py.context_type, &context, &name, &summary,
                          &object, &PyDict_Type, &fields, &PyTuple_Type, &slots, &PyTuple_Type, &online, &is))
        return NULL;
    gd_py_context *c = (gd_py_context *)context;
    if (!gd_py_enter(c)) return NULL;
    for (py_class *p = c->links; p; p = p->next)
        if (p->object == object) Py_RETURN_NONE;
    py_class *p = calloc(1, sizeof *p);
    if (!p) return PyErr_NoMemory();
    p->c = c;
    p->object = Py_NewRef(object);
    p->cls.name = kept(p, name);
    p->cls.family = "python";
    p->cls.summary = kept(p, summary);
    if (!p->cls.name || !p->cls.summary || !fill_class(p, fields, slots, online, is)) {
        class_free(p);
        return NULL;
    }
    if (gd_link_class_register(c->ctx, &p->cls)) {
        class_free(p);
        return gd_py_raise(c);
    }
    p->next = c->links;
    c->links = p;
    Py_RETURN_NONE;
}

PyMethodDef gd_py_link_functions[] = {{"_register_link", register_link, METH_VARARGS, NULL},
                                      {"_rule_call", rule_call, METH_VARARGS, NULL},
                                      {"_rule_functions", rule_names, METH_NOARGS, NULL},
                                      {"_var_call", gd_py_var_call, METH_VARARGS, NULL},
                                      {NULL, NULL, 0, NULL}};
