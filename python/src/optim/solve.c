/* gd_minimize and gd_least_squares with Python functions: the parts of gradus.minimize and gradus.curve_fit that are C. */
#include "core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the functions of the user ---- */

typedef struct functions {
    gd_py_context *c;
    PyObject *loss, *equal, *below, *callback;
    PyObject *last[3]; /* what they returned last: alive until the solver is back */
    PyObject *answer;  /* the same of a function that is the whole evaluation */
    unsigned gives;    /* of such a function, else 0 */
    PyObject *why;     /* new: why there is no gradient through operators; NULL: there is */
    long long calls;   /* of the loss */
    int64_t equals;    /* elements of equal */
} functions;

static const char wanted[] = "the function must return a Tensor made of its arguments, or a number";

static int is_number(PyObject *value)
{
    return !PyBool_Check(value) && !PyComplex_Check(value) &&
           (PyFloat_Check(value) || PyLong_Check(value) || PyObject_HasAttrString(value, "__array__"));
}

/* By gradus.tensor: new, or NULL with an exception. */
static PyObject *as_tensor(PyObject *value)
{
    PyObject *module = PyImport_ImportModule("gradus._tensor");
    PyObject *made = module ? PyObject_CallMethod(module, "tensor", "O", value) : NULL;
    Py_XDECREF(module);
    return made;
}

/* A function that records, and reads a value on the host or gives a number, has no gradient through operators: the solver is ended with
 * the reason, and gradus._solve begins again with differences.  What it raised besides may come of the read. */
static void take_for_numbers(functions *f, PyObject **value, gd_py_reads *reads)
{
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception)) return; /* Ctrl-C */
    int plain = *value && !gd_py_is_tensor_like(*value) && is_number(*value);
    if (plain && !gd_grad_enabled(f->c->ctx)) {
        gd_py_set(value, as_tensor(*value));
        return;
    }
    if (!reads->where && !plain) return;
    PyErr_Clear();
    f->why = reads->where ? PyUnicode_FromFormat("the function reads a value on the host (%U)", reads->where)
                          : PyUnicode_FromString("the function returns a number, not a tensor");
    gd_py_set(value, NULL);
    if (f->why) PyErr_SetString(PyExc_ValueError, "the function is one of numbers");
}

static gd_tensor *ask(functions *f, PyObject *fn, PyObject **last)
{
    gd_py_reads reads;
    PyGILState_STATE state = gd_py_callback_begin(f->c);
    gd_py_reads_begin(f->c, &reads, NULL);
    PyObject *value = PyErr_CheckSignals() < 0 ? NULL : PyObject_CallNoArgs(fn);
    gd_py_reads_end(f->c, &reads);
    take_for_numbers(f, &value, &reads);
    Py_XDECREF(reads.where);
    gd_tensor *t = gd_py_returned(f->c, &value, wanted);
    gd_py_set(last, value);
    gd_py_callback_end(f->c, state);
    return t;
}
static gd_tensor *ask_loss(void *user)
{
    functions *f = user;
    f->calls++;
    return ask(f, f->loss, &f->last[0]);
}

/* Without a graph: the loss, or the sum of squares of what it gives. */
static gd_status ask_value(void *user, double *value)
{
    functions *f = user;
    gd_ctx *ctx = f->c->ctx;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *t = ask_loss(f);
    if (t && gd_tensor_dtype(t) == GD_BOOL)
        (void)gd_fail(ctx, GD_DTYPE, "the objective returned true or false, which is no loss");
    else if (t && gd_numel(t) != 1)
        t = gd_sum(gd_square(gd_drop_names(t)), NULL, false);
    if (t && !gd_error(ctx)) *value = gd_item(t);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return gd_error(ctx);
}
static gd_tensor *ask_equal(void *user)
{
    functions *f = user;
    gd_tensor *t = ask(f, f->equal, &f->last[1]);
    f->equals = t ? gd_numel(t) : 0;
    return t;
}
static gd_tensor *ask_below(void *user)
{
    functions *f = user;
    return ask(f, f->below, &f->last[2]);
}

/* The results of a call, in the order of gd_want: tensors, or None. */
static int read_answer(functions *f, PyObject *tuple, gd_answer *out)
{
    gd_tensor **const place[] = {&out->loss,    &out->gradient,       &out->equal,
                                 &out->below,   &out->equal_jacobian, &out->below_jacobian,
                                 &out->hessian, &out->residuals,      &out->residual_jacobian};
    for (int i = 0; i < (int)(sizeof place / sizeof *place); i++) {
        PyObject *item = tuple ? PyTuple_GetItem(tuple, i) : NULL;
        if (!item) return 0;
        if (item == Py_None) continue;
        if (!gd_py_is_tensor(item) || !(*place[i] = gd_py_tensor_of(item))) return 0;
    }
    if (out->equal) f->equals = gd_numel(out->equal);
    return 1;
}

/* The function is called with what is wanted, whether the point is new, and the numbers of the Hessian; gradus._minimize makes the rest. */
static gd_status ask_evaluate(void *user, const gd_request *q, gd_answer *out)
{
    functions *f = user;
    PyGILState_STATE state = gd_py_callback_begin(f->c);
    PyObject *multipliers = q->multipliers ? PyList_New((Py_ssize_t)q->multiplier_count) : Py_NewRef(Py_None);
    for (int64_t i = 0; multipliers && multipliers != Py_None && i < q->multiplier_count; i++)
        PyList_SetItem(multipliers, (Py_ssize_t)i, PyFloat_FromDouble(q->multipliers[i]));
    PyObject *answer = NULL;
    f->calls += q->new_point;
    if (multipliers && PyErr_CheckSignals() == 0)
        answer = PyObject_CallFunction(f->loss, "IOdO", q->wanted, q->new_point ? Py_True : Py_False,
                                       q->weight, multipliers);
    Py_XDECREF(multipliers);
    int fine = answer && read_answer(f, answer, out);
    gd_py_set(&f->answer, answer);
    if (!fine && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "the results of evaluate are tensors");
    if (!fine) gd_py_keep_exception(f->c);
    gd_py_callback_end(f->c, state);
    return fine ? GD_OK : gd_error(f->c->ctx) ? gd_error(f->c->ctx) : GD_CALLBACK;
}

static PyObject *progress_dict(const gd_progress *p)
{
    return Py_BuildValue("{sLsLsdsdsdsdsdsd}", "step", (long long)p->step, "evals", (long long)p->evals,
                         "loss", p->loss, "loss_after", p->loss_after, "gradient_norm", p->gradient_norm,
                         "violation", p->violation, "step_norm", p->step_norm, "seconds", p->seconds);
}

/* After every step: Ctrl-C, and the callback, which stops by returning True or raising StopIteration. */
static bool after_step(void *user, const gd_progress *progress)
{
    functions *f = user;
    PyGILState_STATE state = gd_py_callback_begin(f->c);
    int go_on = PyErr_CheckSignals() == 0;
    if (go_on && f->callback != Py_None) {
        PyObject *seen = progress_dict(progress);
        PyObject *answer = seen ? PyObject_CallFunctionObjArgs(f->callback, seen, NULL) : NULL;
        Py_XDECREF(seen);
        go_on = answer && answer != Py_True;
        Py_XDECREF(answer);
        if (!answer && PyErr_ExceptionMatches(PyExc_StopIteration)) PyErr_Clear();
    }
    if (PyErr_Occurred()) gd_py_keep_exception(f->c);
    gd_py_callback_end(f->c, state);
    return go_on;
}

static void functions_clear(functions *f)
{
    for (int i = 0; i < 3; i++) Py_CLEAR(f->last[i]);
    Py_CLEAR(f->answer);
    Py_CLEAR(f->why);
}

/* In place of a result the reason why there are no gradients: {"numbers": why, "calls": so far}. */
static PyObject *numbers_dict(functions *f)
{
    PyErr_Clear();
    Py_CLEAR(f->c->raised);
    gd_clear_error(f->c->ctx);
    return Py_BuildValue("{sOsL}", "numbers", f->why, "calls", f->calls);
}

/* ---- parameters and bounds ---- */

typedef struct parameters {
    gd_tensor **t;
    int count;
    gd_py_context *c;
    double *low, *high; /* of all elements, NULL: none */
    int64_t elements;
} parameters;

static void parameters_clear(parameters *p)
{
    PyMem_Free(p->t);
    PyMem_Free(p->low);
    PyMem_Free(p->high);
}

static double *numbers(PyObject *list, int64_t count)
{
    double *out = PyMem_Calloc((size_t)count + 1, sizeof *out);
    if (!out) return (double *)PyErr_NoMemory();
    for (int64_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(list, (Py_ssize_t)i);
        out[i] = item ? PyFloat_AsDouble(item) : 0;
        Py_XDECREF(item);
        if (PyErr_Occurred()) {
            PyMem_Free(out);
            return NULL;
        }
    }
    return out;
}

/* tensors: a tuple; low and high: None, or as many numbers as there are elements. */
static int read_parameters(parameters *p, PyObject *tensors, PyObject *low, PyObject *high)
{
    *p = (parameters){.count = (int)PyTuple_Size(tensors)};
    p->t = PyMem_Calloc((size_t)p->count + 1, sizeof *p->t);
    int fine = p->t != NULL;
    for (int i = 0; i < p->count && fine; i++) {
        PyObject *item = PyTuple_GetItem(tensors, i);
        fine = gd_py_is_tensor(item) && (p->t[i] = gd_py_tensor_of(item));
        if (!fine) break;
        p->c = ((gd_py_tensor *)item)->head.owner;
        p->elements += gd_numel(p->t[i]);
    }
    if (fine && low != Py_None)
        fine = (p->low = numbers(low, p->elements)) && (p->high = numbers(high, p->elements));
    if (fine && p->count) return 1;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "at least one tensor is needed as parameter");
    parameters_clear(p);
    return 0;
}

/* The chain, behind a box where there are bounds; NULL with an error recorded. */
static gd_link *bounded_chain(const parameters *p, const char *text, const gd_objective *objective,
                              bool noisy)
{
    gd_link *chain = *text ? gd_chain(p->c->ctx, text) : gd_chain_for(p->t, p->count, objective, noisy);
    gd_link *box = chain && p->low ? gd_chain(p->c->ctx, "box") : NULL;
    gd_status status = GD_OK;
    int64_t at = 0;
    if (!chain || !p->low) return chain;
    for (int i = 0; i < p->count && box && !status; i++) {
        int n = (int)gd_numel(p->t[i]);
        status = gd_link_set_for(box, p->t[i], "low", gd_setting_list(p->low + at, n));
        if (!status) status = gd_link_set_for(box, p->t[i], "high", gd_setting_list(p->high + at, n));
        at += n;
    }
    if (box && !status) return gd_chain_of(p->c->ctx, (gd_link *[]){box, chain}, 2);
    gd_link_release(box);
    gd_link_release(chain);
    return NULL;
}

/* ---- options and results ---- */

static int read_number(PyObject *options, const char *name, double *out)
{
    PyObject *value = PyDict_GetItemString(options, name);
    if (!value || value == Py_None) return 1;
    *out = PyFloat_AsDouble(value);
    return !(*out == -1.0 && PyErr_Occurred());
}
static int read_count(PyObject *options, const char *name, int64_t *out)
{
    PyObject *value = PyDict_GetItemString(options, name);
    if (!value || value == Py_None) return 1;
    *out = PyLong_AsLongLong(value);
    return !PyErr_Occurred();
}
static int read_flag(PyObject *options, const char *name, bool *out)
{
    PyObject *value = PyDict_GetItemString(options, name);
    if (!value || value == Py_None) return 1;
    int yes = PyObject_IsTrue(value);
    *out = yes > 0;
    return yes >= 0;
}

static int read_solve_options(PyObject *options, gd_solve_options *o)
{
    int64_t patience = o->patience;
    int fine = read_count(options, "max_steps", &o->max_steps) &&
               read_count(options, "max_evals", &o->max_evals) &&
               read_number(options, "max_seconds", &o->max_seconds) &&
               read_number(options, "gradient_tol", &o->gradient_tol) &&
               read_number(options, "step_tol", &o->step_tol) &&
               read_number(options, "loss_tol", &o->loss_tol) && read_count(options, "patience", &patience) &&
               read_flag(options, "noisy", &o->noisy) && read_flag(options, "plain", &o->plain) &&
               read_count(options, "curvature_products", &o->curvature_products);
    o->patience = (int)patience;
    return fine;
}

static PyObject *solve_dict(const gd_solve_result *r)
{
    return Py_BuildValue("{sssssNsdsdsdsLsLsLsdss}", "stop", gd_stop_name(r->reason), "message",
                         gd_stop_text(r->reason), "success", PyBool_FromLong(r->converged), "loss", r->loss,
                         "gradient_norm", r->gradient_norm, "violation", r->violation, "steps",
                         (long long)r->steps, "evals", (long long)r->evals, "constraint_evals",
                         (long long)r->constraint_evals, "seconds", r->seconds, "derivatives",
                         gd_derivatives_name(r->derivatives));
}

/* An exception of the user's that stopped it without an error of the library: Ctrl-C, or out of the callback. */
static int was_raised(gd_py_context *c)
{
    PyObject *raised = c->raised;
    if (!raised) return 0;
    c->raised = NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(raised), raised);
    Py_DECREF(raised);
    gd_clear_error(c->ctx);
    return 1;
}

/* A copy of an attribute as an object, None where there is none. */
static int put_attribute(PyObject *dict, gd_py_context *c, const gd_optimizer *o, const char *name)
{
    gd_tensor *t = gd_optimizer_attr_tensor(o, name), *copy = t ? gd_copy(t) : NULL;
    PyObject *value = copy ? gd_py_new_tensor(c, copy) : t ? gd_py_raise(c) : Py_NewRef(Py_None);
    int fine = value && PyDict_SetItemString(dict, name, value) == 0;
    Py_XDECREF(value);
    return fine;
}

static int put_multipliers(PyObject *dict, const functions *f, const gd_optimizer *o)
{
    PyObject *equals = PyLong_FromLongLong((long long)f->equals);
    int fine = equals && PyDict_SetItemString(dict, "equals", equals) == 0;
    Py_XDECREF(equals);
    return fine && put_attribute(dict, f->c, o, "multipliers") &&
           put_attribute(dict, f->c, o, "bound_multipliers");
}

/* Elements of a constraint where the parameters are. */
static int64_t size_of(gd_tensor *(*fn)(void *user), void *user)
{
    gd_tensor *t = fn ? fn(user) : NULL;
    return t ? gd_numel(t) : 0;
}

/* How many constraints there are, by a call. */
static int64_t count_rows(functions *f, const gd_objective *o)
{
    gd_ctx *ctx = f->c->ctx;
    unsigned sides = f->gives & (GD_WANT_EQUAL | GD_WANT_BELOW);
    gd_request q = {.wanted = sides | (f->gives & GD_WANT_LOSS), .new_point = true, .weight = 1};
    gd_answer out = {0};
    int64_t rows = 0;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    if (!f->gives)
        rows = size_of(o->equal, f) + size_of(o->below, f);
    else if (sides && !ask_evaluate(f, &q, &out))
        rows = (out.equal ? gd_numel(out.equal) : 0) + (out.below ? gd_numel(out.below) : 0);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return rows;
}

/* Room for gd_solve_options.sensitivities; NULL: not wanted. */
static double *room_for_slopes(functions *f, const parameters *p, const gd_objective *o,
                               gd_solve_options *options)
{
    options->multiplier_count = count_rows(f, o);
    int64_t numbers = p->elements * options->multiplier_count;
    return options->sensitivities = calloc((size_t)numbers + 1, sizeof(double));
}

/* The sensitivities as a tensor [elements, rows] of the result. */
static int put_slopes(PyObject *dict, const parameters *p, const gd_solve_options *o)
{
    gd_tensor *t = gd_from_f64(p->c->ctx, GD_F64, 2, (int64_t[]){p->elements, o->multiplier_count},
                               o->sensitivities);
    PyObject *value = t ? gd_py_new_tensor(p->c, t) : gd_py_raise(p->c);
    int fine = value && PyDict_SetItemString(dict, "sensitivities", value) == 0;
    Py_XDECREF(value);
    return fine;
}

/* gd_minimize_link, with what its optimizer knows at the end. */
static gd_status run_chain(const parameters *p, const gd_objective *objective, gd_link *link,
                           const gd_solve_options *options, gd_optimizer **o, gd_solve_result *r)
{
    *o = gd_optimizer_new(p->c->ctx, link);
    gd_status status = *o ? GD_OK : gd_error(p->c->ctx);
    for (int i = 0; i < p->count && !status; i++) {
        char name[24];
        PyOS_snprintf(name, sizeof name, "p%d", i);
        status = gd_optimizer_add(*o, name, p->t[i]);
    }
    return status ? status : gd_minimize_with(*o, objective, options, r);
}

/* minimize(tensors, loss, chain, low, high, equal, below, callback, options, by_value, gives, sensitivities).  gives: loss is all of an
 * evaluation, see ask_evaluate. */
static PyObject *minimize(PyObject *module, PyObject *args)
{
    PyObject *tensors, *low, *high, *options, *result = NULL;
    const char *chain;
    functions f = {0};
    parameters p;
    int by_value = 0, slopes = 0;
    double *room = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OsOOOOOO!|pIp:_minimize", &PyTuple_Type, &tensors, &f.loss, &chain, &low,
                          &high, &f.equal, &f.below, &f.callback, &PyDict_Type, &options, &by_value, &f.gives,
                          &slopes) ||
        !read_parameters(&p, tensors, low, high))
        return NULL;
    f.c = p.c;
    gd_solve_options o = gd_solve_defaults();
    o.callback = after_step;
    o.callback_user = &f;
    gd_objective objective = {.user = &f,
                              .loss = by_value ? NULL : ask_loss,
                              .value = by_value ? ask_value : NULL,
                              .equal = f.equal == Py_None ? NULL : ask_equal,
                              .below = f.below == Py_None ? NULL : ask_below};
    if (f.gives) objective = (gd_objective){.user = &f, .evaluate = ask_evaluate, .gives = f.gives};
    gd_solve_result r;
    if (read_solve_options(options, &o) && read_flag(options, "traced", &objective.traced) &&
        gd_py_own(p.c)) {
        gd_optimizer *optimizer = NULL;
        gd_status status = GD_PARSE;
        PyThreadState *state = gd_py_begin(p.c);
        if (slopes) room = room_for_slopes(&f, &p, &objective, &o);
        gd_link *link = slopes && !room ? NULL : bounded_chain(&p, chain, &objective, o.noisy);
        if (link) status = run_chain(&p, &objective, link, &o, &optimizer, &r);
        gd_py_end(p.c, state);
        if (f.why)
            result = numbers_dict(&f);
        else if (!was_raised(p.c))
            result = status ? gd_py_raise(p.c) : solve_dict(&r);
        if (result && !f.why && !put_multipliers(result, &f, optimizer)) Py_CLEAR(result);
        if (result && !f.why && room && !put_slopes(result, &p, &o)) Py_CLEAR(result);
        gd_optimizer_free(optimizer);
        gd_py_disown(p.c);
    }
    functions_clear(&f);
    parameters_clear(&p);
    free(room);
    if (result && !gd_py_done(p.c)) Py_CLEAR(result);
    return result;
}

/* ---- least squares ---- */

static int read_fit_options(PyObject *options, gd_lsq_options *o)
{
    PyObject *loss = PyDict_GetItemString(options, "loss");
    const char *name = loss && PyUnicode_Check(loss) ? PyUnicode_AsUTF8AndSize(loss, NULL) : "squares";
    int found = 0;
    if (!name) return 0;
    for (int i = 0; name && i < GD_LSQ_LOSS_COUNT; i++)
        if (!strcmp(name, gd_lsq_loss_name((gd_lsq_loss)i))) o->loss = (gd_lsq_loss)i, found = 1;
    if (!found)
        return gd_py_fail(GD_VALUE, "there is no loss '%s': squares, huber, soft_l1, cauchy, tukey", name) !=
               NULL;
    return read_solve_options(options, &o->solve) && read_number(options, "sigma", &o->sigma) &&
           read_number(options, "loss_scale", &o->loss_scale) &&
           read_count(options, "weightless", &o->weightless);
}

/* A tensor of a result as an object, or None; takes the reference. */
static PyObject *result_tensor(gd_py_context *c, gd_tensor **t)
{
    PyObject *o = *t ? gd_py_new_tensor(c, *t) : Py_NewRef(Py_None);
    *t = NULL;
    return o;
}

static PyObject *fit_dict(gd_py_context *c, gd_lsq_result *r)
{
    PyObject *dict = solve_dict(&r->solve);
    PyObject *more = Py_BuildValue(
        "{sdsLsLsLsLsdsdsNsNsNsNssss}", "rss", r->rss, "residuals", (long long)r->residuals, "dof",
        (long long)r->dof, "free", (long long)r->free, "rank", (long long)r->rank, "sigma", r->sigma, "scale",
        r->scale, "covariance", result_tensor(c, &r->covariance), "standard_errors",
        result_tensor(c, &r->standard_errors), "active", result_tensor(c, &r->active), "undetermined",
        result_tensor(c, &r->undetermined), "says", r->says, "linear_solver", r->linear);
    if (dict && (!more || PyDict_Update(dict, more) < 0)) Py_CLEAR(dict);
    Py_XDECREF(more);
    return dict;
}

/* least_squares(tensors, residuals, low, high, names, callback, options) */
static PyObject *least_squares(PyObject *module, PyObject *args)
{
    PyObject *tensors, *low, *high, *names, *options, *result = NULL;
    functions f = {0};
    parameters p;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!OOOO!OO!:_least_squares", &PyTuple_Type, &tensors, &f.loss, &low, &high,
                          &PyTuple_Type, &names, &f.callback, &PyDict_Type, &options) ||
        !read_parameters(&p, tensors, low, high))
        return NULL;
    f.c = p.c;
    gd_lsq_options o = gd_lsq_defaults();
    const char **name = PyMem_Calloc((size_t)p.count + 1, sizeof *name);
    int fine = name && PyTuple_Size(names) == p.count && read_fit_options(options, &o);
    for (int i = 0; i < p.count && fine; i++)
        fine = (name[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i), NULL)) != NULL;
    o.solve.callback = after_step;
    o.solve.callback_user = &f;
    o.low = p.low;
    o.high = p.high;
    o.names = name;
    gd_lsq_result r = {0};
    if (fine && gd_py_own(p.c)) {
        PyThreadState *state = gd_py_begin(p.c);
        gd_status status = gd_least_squares(p.t, p.count, ask_loss, &f, &o, &r);
        gd_py_end(p.c, state);
        if (f.why)
            result = numbers_dict(&f);
        else if (!was_raised(p.c))
            result = status ? gd_py_raise(p.c) : fit_dict(p.c, &r);
        gd_lsq_result_clear(&r);
        gd_py_disown(p.c);
    } else if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a name for each parameter is needed");
    PyMem_Free((void *)name);
    functions_clear(&f);
    parameters_clear(&p);
    if (result && !gd_py_done(p.c)) Py_CLEAR(result);
    return result;
}

/* _watch_reads(fn): (what it returns, where it read a value on the host that depends on the parameters, or None) */
static PyObject *watch_reads(PyObject *module, PyObject *fn)
{
    gd_py_reads reads;
    (void)module;
    gd_py_context *c = gd_py_current();
    if (!c || !gd_py_enter(c)) return NULL;
    gd_py_reads_begin(c, &reads, NULL);
    PyObject *value = PyObject_CallNoArgs(fn);
    gd_py_reads_end(c, &reads);
    PyObject *where = reads.where ? reads.where : Py_NewRef(Py_None);
    PyObject *result = value ? PyTuple_Pack(2, value, where) : NULL;
    Py_DECREF(where);
    Py_XDECREF(value);
    return result;
}

PyMethodDef gd_py_solve_functions[] = {{"_minimize", minimize, METH_VARARGS, NULL},
                                       {"_watch_reads", watch_reads, METH_O, NULL},
                                       {"_least_squares", least_squares, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
