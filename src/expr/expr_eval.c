/* Evaluating an expression: one loop over its nodes, each a recorded operator. */
#include "expr/expr_program.h"
#include "gradus/autograd.h"
#include "trace/trace_internal.h"

#include <math.h>
#include <stdio.h>

int gd_expr_variables(const gd_expr *e) { return e ? e->variables : 0; }

const char *gd_expr_variable(const gd_expr *e, int index)
{
    return e && index >= 0 && index < e->variables ? e->name[index] : NULL;
}

bool gd_expr_uses(const gd_expr *e, int index)
{
    return e && index >= 0 && index < e->variables && e->used[index];
}

/* ---- constant subexpressions ---- */

static void mark_fixed(gd_expr *e)
{
    for (int i = 0; i < e->nodes; i++) {
        gd_expr_node *n = &e->node[i];
        bool fixed = n->op != EXPR_VARIABLE || e->fixed[n->u.variable];
        for (int k = 0; k < n->operands && fixed; k++) fixed = e->node[e->operand[n->first + k]].fixed;
        n->fixed = fixed;
    }
}

/* Evaluations of tensors that want no gradients are recorded and replayed. */
typedef struct gd_expr_replays {
    gd_trace_set set;
    gd_tensor **input, **value; /* variables that are used, and all */
} gd_expr_replays;

static void forget_recordings(gd_expr *e)
{
    gd_expr_replays *again = e->again;
    e->evaluations = 0;
    e->again = NULL;
    if (!again) return;
    gd__trace_set_free(&again->set);
    gd__free(e->ctx, again->input, 2 * (size_t)e->variables * sizeof *again->input);
    gd__free(e->ctx, again, sizeof *again);
}

void gd_expr_forget(gd_expr *e)
{
    if (e) forget_recordings(e); /* they read values of fixed nodes */
    for (int i = 0; e && i < e->nodes && e->slot; i++) {
        if (e->node[i].fixed) gd_release(e->slot[i]);
        e->slot[i] = NULL;
    }
    if (e) e->device = NULL;
}

void gd_expr_fix(gd_expr *e, int index)
{
    if (!e || index < 0 || index >= e->variables) return;
    gd_expr_forget(e);
    e->fixed[index] = true;
    mark_fixed(e);
}

/* ---- one node ---- */

typedef struct run {
    gd_expr *e;
    gd_tensor *const *values;
    gd_dtype dtype;
    gd_device *device; /* NULL: no variable is used */
} run;

static gd_tensor *operand(const run *r, const gd_expr_node *n, int k)
{
    return r->e->slot[r->e->operand[n->first + k]];
}

/* An operand of arithmetic: the result of a comparison counts as 0 and 1. */
static gd_tensor *number_operand(const run *r, const gd_expr_node *n, int k)
{
    gd_tensor *t = operand(r, n, k);
    return gd_tensor_dtype(t) == GD_BOOL ? gd_cast(t, r->dtype) : t;
}

static gd_tensor *variable(const run *r, const gd_expr_node *n)
{
    gd_tensor *t = r->values[n->u.variable];
    if (!t) (void)gd_fail(r->e->ctx, GD_ARGUMENT, "no value for '%.60s'", r->e->name[n->u.variable]);
    return t;
}

static gd_tensor *number(const run *r, const gd_expr_node *n)
{
    gd_tensor *t = gd_scalar(r->e->ctx, r->dtype, n->number);
    return t && r->device && gd_tensor_device(t) != r->device ? gd_to_device(t, r->device) : t;
}

static gd_tensor *indexed(const run *r, const gd_expr_node *n)
{
    static const char *const axis[GD_MAX_DIMS] = {"0", "1", "2", "3", "4", "5", "6", "7"};
    gd_tensor *t = operand(r, n, 0);
    int places = n->integers / PLACE_SIZE;
    if (places > gd_ndim(t))
        return gd__refuse(r->e->ctx, GD_INDEX, "%d indices for an array with %d axes", places, gd_ndim(t));
    /* from the last axis, so that the numbers of those before it hold */
    for (int k = places; k-- > 0 && t;) {
        const int64_t *place = r->e->integer + n->integer + k * PLACE_SIZE;
        if (!place[PLACE_RANGE])
            t = gd_index(t, axis[k], place[PLACE_START]);
        else if (place[PLACE_START] != 0 || place[PLACE_STOP] != INT64_MAX || place[PLACE_STEP] != 1)
            t = gd_slice(t, axis[k], place[PLACE_START], place[PLACE_STOP], place[PLACE_STEP]);
    }
    return t;
}

/* The numbers of an array as indices. */
static gd_tensor *whole_numbers(const run *r, gd_tensor *t)
{
    gd_ctx *ctx = r->e->ctx;
    int64_t count = gd_numel(t);
    size_t bytes = (size_t)count * sizeof(double);
    double *v = gd__alloc(ctx, bytes);
    gd_tensor *out = NULL;
    gd_status status = v ? gd_read_f64(t, v, count) : GD_NOMEM;
    for (int64_t i = 0; i < count && !status; i++)
        if (v[i] != floor(v[i]) || fabs(v[i]) > 9e15)
            status = gd_fail(ctx, GD_INDEX, "an index is a whole number, not %g", v[i]);
    if (!status) out = gd_from_f64(ctx, GD_I64, 1, &count, v);
    gd__free(ctx, v, v ? bytes : 0);
    return out && gd_tensor_device(t) != gd_tensor_device(out) ? gd_to_device(out, gd_tensor_device(t)) : out;
}

static gd_tensor *gathered(const run *r, const gd_expr_node *n)
{
    gd_tensor *x = operand(r, n, 0), *index = number_operand(r, n, 1);
    if (gd_ndim(index) > 1)
        return gd__refuse(r->e->ctx, GD_INDEX, "an index has %d axes, one is possible", gd_ndim(index));
    if (gd_ndim(x) == 0) return gd__refuse(r->e->ctx, GD_INDEX, "an index of a single number");
    gd_tensor *whole = whole_numbers(r, index), *t = whole ? gd_index_select(x, "0", whole) : NULL;
    return t && gd_ndim(index) == 0 ? gd_index(t, "0", 0) : t;
}

static gd_tensor *transposed(gd_tensor *t)
{
    int order[GD_MAX_DIMS], ndim = gd_ndim(t);
    for (int i = 0; i < ndim; i++) order[i] = ndim - 1 - i;
    return ndim < 2 ? t : gd_permute(t, order);
}

static gd_tensor *chosen(const run *r, const gd_expr_node *n)
{
    gd_tensor *condition = operand(r, n, 0);
    if (gd_tensor_dtype(condition) != GD_BOOL) condition = gd_cast(condition, GD_BOOL);
    return gd_where(condition, number_operand(r, n, 1), number_operand(r, n, 2));
}

static gd_tensor *stacked(const run *r, const gd_expr_node *n)
{
    gd_tensor *few[16] = {NULL}, **element = few;
    size_t bytes = (size_t)n->operands * sizeof *element;
    if (n->operands > 16 && !(element = gd__alloc(r->e->ctx, bytes))) return NULL;
    for (int k = 0; k < n->operands; k++) element[k] = number_operand(r, n, k);
    gd_tensor *t = gd_stack(element, n->operands, 0, NULL);
    if (element != few) gd__free(r->e->ctx, element, bytes);
    return t;
}

static gd_tensor *solution(const run *r, const gd_expr_node *n)
{
    const gd_expr_ode *o = r->e->ode[r->e->integer[n->integer]];
    size_t bytes = (size_t)n->operands * sizeof(gd_tensor *);
    gd_tensor **value = gd__alloc(r->e->ctx, bytes), *t = NULL;
    bool ok = value != NULL;
    for (int k = 0; k < n->operands && ok; k++) ok = (value[k] = number_operand(r, n, k)) != NULL;
    if (ok) t = gd__expr_ode_solve(o, value[0], value[1], value[2], value + 3, r->dtype);
    gd__free(r->e->ctx, value, value ? bytes : 0);
    return t;
}

static gd_tensor *compute(const run *r, const gd_expr_node *n)
{
    switch ((gd_expr_op)n->op) {
    case EXPR_NUMBER: return number(r, n);
    case EXPR_VARIABLE: return variable(r, n);
    case EXPR_UNARY: return n->u.unary(number_operand(r, n, 0));
    case EXPR_BINARY: return n->u.binary(number_operand(r, n, 0), number_operand(r, n, 1));
    case EXPR_SCALAR: return n->u.scalar(number_operand(r, n, 0), n->number);
    case EXPR_REDUCE: return n->u.reduce(number_operand(r, n, 0), n->axis, false);
    case EXPR_ALONG: return n->u.along(number_operand(r, n, 0), n->axis);
    case EXPR_NORM: return gd_norm(number_operand(r, n, 0), n->number, n->axis, false);
    case EXPR_INDEX: return indexed(r, n);
    case EXPR_GATHER: return gathered(r, n);
    case EXPR_RESHAPE: return gd_reshape(operand(r, n, 0), n->integers, r->e->integer + n->integer);
    case EXPR_TRANSPOSE: return transposed(operand(r, n, 0));
    case EXPR_WHERE: return chosen(r, n);
    case EXPR_STACK: return stacked(r, n);
    case EXPR_ODE: return solution(r, n);
    }
    return NULL;
}

/* The recorded error with its place in front. */
static void locate(const gd_expr *e, int at)
{
    gd_ctx *ctx = e->ctx;
    gd_status status = gd_error(ctx);
    if (status == GD_NOMEM) return;
    char text[800];
    (void)snprintf(text, sizeof text, "%s", status ? gd_error_text(ctx) : "no value");
    gd_clear_error(ctx);
    char place[GD_EXPR_PLACE];
    (void)gd_fail(ctx, status ? status : GD_INTERNAL, "%s: %s", gd__expr_place(e, at, place), text);
}

/* ---- all nodes ---- */

static gd_device *device_of(const gd_expr *e, gd_tensor *const *values)
{
    for (int i = 0; i < e->variables; i++)
        if (e->used[i] && values[i]) return gd_tensor_device(values[i]);
    return NULL;
}

static bool run_nodes(const run *r)
{
    gd_expr *e = r->e;
    for (int i = 0; i < e->nodes; i++) {
        const gd_expr_node *n = &e->node[i];
        if (n->fixed && e->slot[i]) continue;
        e->slot[i] = compute(r, n);
        if (!e->slot[i]) {
            locate(e, n->at);
            return false;
        }
        if (n->fixed) gd_retain(e->slot[i]);
    }
    return true;
}

static void begin_run(gd_expr *e, const run *r)
{
    if (e->dtype == r->dtype && e->device == r->device) return;
    gd_expr_forget(e);
    mark_fixed(e);
    e->dtype = r->dtype;
    e->device = r->device;
}

/* ---- evaluation by rows ---- */

static bool each_alone(const gd_expr_node *n)
{
    switch ((gd_expr_op)n->op) {
    case EXPR_UNARY:
    case EXPR_SCALAR:
    case EXPR_WHERE: return true;
    case EXPR_BINARY: return n->u.binary != gd_matmul && n->u.binary != gd_dot && n->u.binary != gd_solve;
    default: return false;
    }
}

/* Nodes that do not depend on rows are evaluated, because their shape matters. */
static bool node_by_rows(const run *r, const bool *rows, bool *is, int i)
{
    gd_expr *e = r->e;
    const gd_expr_node *n = &e->node[i];
    is[i] = n->op == EXPR_VARIABLE && rows[n->u.variable];
    if (is[i]) return true;
    for (int k = 0; k < n->operands; k++) is[i] = is[i] || is[e->operand[n->first + k]];
    if (!is[i]) {
        if (!(n->fixed && e->slot[i])) {
            e->slot[i] = compute(r, n);
            if (n->fixed) gd_retain(e->slot[i]);
        }
        return e->slot[i] != NULL;
    }
    if (n->op == EXPR_GATHER) return !is[e->operand[n->first]] && gd_ndim(operand(r, n, 0)) == 1;
    bool alone = each_alone(n);
    for (int k = 0; k < n->operands && alone; k++)
        alone = is[e->operand[n->first + k]] || gd_ndim(operand(r, n, k)) == 0;
    return alone;
}

bool gd__expr_by_rows(gd_expr *e, const bool *rows, gd_tensor *const *values, gd_dtype dtype)
{
    if (!e || gd_error(e->ctx)) return false;
    gd_ctx *ctx = e->ctx;
    run r = {.e = e, .values = values, .dtype = dtype, .device = device_of(e, values)};
    bool *is = gd__calloc(ctx, (size_t)e->nodes), by_rows = is != NULL;
    begin_run(e, &r);
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    for (int i = 0; i < e->nodes && by_rows; i++) by_rows = node_by_rows(&r, rows, is, i);
    by_rows = by_rows && (is[e->nodes - 1] || gd_ndim(e->slot[e->nodes - 1]) == 0);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    if (is) gd__free(ctx, is, (size_t)e->nodes);
    gd_clear_error(ctx); /* an evaluation will report it */
    return by_rows;
}

/* ---- the value ---- */

/* The value as a tensor of its own, in the dtype of the run. */
static gd_tensor *result(const run *r)
{
    gd_expr *e = r->e;
    gd_tensor *t = e->slot[e->nodes - 1];
    if (gd_tensor_dtype(t) != r->dtype) return gd_cast(t, r->dtype);
    bool borrowed = e->node[e->nodes - 1].fixed;
    for (int i = 0; i < e->variables && !borrowed; i++) borrowed = t == r->values[i];
    return borrowed ? gd_copy(t) : t;
}

/* Do the given values have this dtype? A missing one is reported where it is used, with its position. */
static bool values_fit(const gd_expr *e, gd_tensor *const *values, gd_dtype dtype)
{
    for (int i = 0; i < e->variables; i++) {
        if (!e->used[i] || (values && (!values[i] || gd_tensor_dtype(values[i]) == dtype))) continue;
        if (!values)
            (void)gd_fail(e->ctx, GD_ARGUMENT, "expression: no value for '%s'", e->name[i]);
        else
            (void)gd_fail(e->ctx, GD_DTYPE, "expression: '%s' is %s, %s expected", e->name[i],
                          gd_dtype_name(gd_tensor_dtype(values[i])), gd_dtype_name(dtype));
        return false;
    }
    return true;
}

static gd_tensor *evaluated(const run *r)
{
    gd_scope_begin(r->e->ctx);
    return gd__scope_leave(r->e->ctx, run_nodes(r) ? result(r) : NULL);
}

/* ---- the same again ---- */

#define EVALUATED_BEFORE 2 /* so often without a recording, which costs as much as some evaluations */
#define MOST_SHAPES      8

/* Values of fixed nodes must be there before a recording reads them: its inputs end with it. */
static bool may_replay(const run *r)
{
    gd_expr *e = r->e;
    bool grad = gd_grad_enabled(e->ctx), used = false;
    if (e->ctx->recorder) return false;
    for (int i = 0; i < e->variables; i++) {
        const gd_tensor *t = r->values[i];
        if (!e->used[i]) continue;
        if (!t || gd_tensor_ctx(t) != e->ctx || (grad && gd_requires_grad(t))) return false;
        used = true;
    }
    if (e->evaluations >= EVALUATED_BEFORE) return used;
    e->evaluations++;
    return false;
}

static bool make_replays(gd_expr *e)
{
    if (e->again) return true;
    gd_expr_replays *again = gd__calloc(e->ctx, sizeof *again);
    if (!again) return false;
    gd__trace_set_init(&again->set, e->ctx, MOST_SHAPES, false);
    again->input = gd__calloc(e->ctx, 2 * (size_t)e->variables * sizeof *again->input);
    again->value = again->input + e->variables;
    e->again = again;
    if (again->input) return true;
    forget_recordings(e);
    return false;
}

static gd_status evaluate_inputs(void *user, gd_tensor *const *inputs, int count, gd_tensor **outputs)
{
    run r = *(const run *)user;
    gd_expr *e = r.e;
    (void)count;
    for (int i = 0; i < e->variables; i++) e->again->value[i] = e->used[i] ? *inputs++ : NULL;
    r.values = e->again->value;
    gd_no_grad_begin(e->ctx);
    *outputs = evaluated(&r);
    gd_no_grad_end(e->ctx);
    return *outputs ? GD_OK : gd_error(e->ctx);
}

/* A tensor of the caller's own over the memory of the result, which the next replay leaves alone while it is referenced. */
static gd_tensor *replayed(run *r)
{
    gd_expr *e = r->e;
    int count = 0;
    if (!make_replays(e)) return NULL;
    for (int i = 0; i < e->variables; i++)
        if (e->used[i]) e->again->input[count++] = r->values[i];
    const gd_evaluation what = {
        .name = "value", .kind = (int)r->dtype, .body = evaluate_inputs, .user = r, .outputs = 1};
    gd_tensor *const *outputs = gd__trace_call(&e->again->set, &what, e->again->input, count);
    return outputs ? gd_detach(outputs[0]) : NULL;
}

gd_tensor *gd_expr_eval(gd_expr *e, gd_tensor *const *values, gd_dtype dtype)
{
    if (!e || gd_error(e->ctx) || !values_fit(e, values, dtype)) return NULL;
    run r = {.e = e, .values = values, .dtype = dtype, .device = device_of(e, values)};
    begin_run(e, &r);
    return may_replay(&r) ? replayed(&r) : evaluated(&r);
}
