/* Constraints of the objective, and objectives with an additional term. */
#include "autograd/walk.h"
#include "gradus/autograd.h"
#include "optim/step/objective/bounds.h"
#include "optim/step/objective/evaluator.h"
#include "optim/step/objective/memo.h"
#include "optim/step/objective/residuals.h"
#include "optim/step/optimizer.h"
#include "optim/vector/layout.h"
#include "tensor/shape.h"

#include <math.h>
#include <string.h>

const gd_objective *gd__objective_of(const gd_var *var)
{
    const gd_closure *c = var->closure;
    while (c && c->below) c = c->below;
    return c ? c->objective : NULL;
}

/* A number or vector of the caller's as a vector without names. */
static gd_status one_constraint(gd_ctx *ctx, gd_tensor *(*fn)(void *user), void *user, const char *what,
                                gd_tensor **out)
{
    *out = NULL;
    if (!fn) return GD_OK;
    gd_tensor *t = fn(user);
    if (gd_error(ctx)) return gd_error(ctx);
    if (!t) return gd_fail(ctx, GD_CALLBACK, "the constraints '%s' returned NULL", what);
    if (!gd__is_float(t)) /* x <= 1 as a tensor is true or false, not a distance */
        return gd_fail(
            ctx, GD_DTYPE,
            "the constraints '%s' are of dtype %s, which has no gradients; return left - right of %s", what,
            gd_dtype_name(t->dtype), *what == 'e' ? "left = right" : "left <= right");
    *out = gd__reshape(gd_drop_names(t), 1, &t->numel);
    return *out ? GD_OK : gd_error(ctx);
}

static gd_status both(gd_ctx *ctx, const gd_objective *o, gd_tensor **equal, gd_tensor **below)
{
    gd_status status = one_constraint(ctx, o->equal, o->user, "equal", equal);
    return status ? status : one_constraint(ctx, o->below, o->user, "below", below);
}

/* Where constraints are remembered.  An objective that may change from step to step keeps them for the length of a step. */
static gd_point *kept_values(gd_var *var)
{
    gd_memo *memo = gd__memo_of(var);
    gd_point *p = memo ? gd__memo_find(memo) : NULL;
    if (memo) return p ? p : gd__memo_place(memo);
    if (var->optimizer->asked.memo || !var->share) return NULL;
    if (!var->share->points) var->share->points = gd__memo_new(var->ctx, var->params, var->count, var->step);
    memo = var->share->points;
    if (!memo || !gd__memo_is_for(memo, var)) return NULL;
    p = gd__memo_look(memo);
    return p ? p : gd__memo_place(memo);
}

static bool is_intact(const gd_point *p)
{
    for (int k = 0; k < 2; k++)
        if (p->constraint[k] && !(p->constraint_graph[k] && gd__graph_intact(p->constraint_graph[k])))
            return false;
    return true;
}

static gd_memo *memo_of(gd_var *var)
{
    return var->optimizer->asked.memo ? var->optimizer->asked.memo : var->share->points;
}

static bool is_plain(const gd_tensor *c) { return c && c->numel && !gd_requires_grad(c); }

/* Calls the functions.  With a record, the graph is always made: an accepted trial needs gradients, and should not be computed
 * again. */
static gd_status compute(gd_var *var, const gd_objective *o, gd_point *p, gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    int previous = gd_grad_enabled(ctx);
    if (p) previous = gd_enable_grad_begin(ctx);
    gd_status status = both(ctx, o, &out[0], &out[1]);
    if (p) gd_enable_grad_end(ctx, previous);
    if (!gd__evaluator_of(var->optimizer, o)) var->optimizer->constraint_evals++;
    if (status || !p) return status;
    gd__memo_keep_constraints(memo_of(var), p, out);
    var->optimizer->asked.flat_constraints = is_plain(out[0]) || is_plain(out[1]);
    return GD_OK;
}

gd_tensor *gd__with_slopes(gd_tensor *const *params, int count, gd_tensor *c, gd_tensor *j)
{
    gd_tensor *sum = gd_cast(gd_detach(c), GD_F64);
    int64_t at = 0;
    for (int i = 0; i < count && sum; i++) {
        int64_t size = params[i]->numel;
        gd_tensor *x = gd_cast(gd__reshape(gd_drop_names(params[i]), 1, &size), GD_F64);
        gd_tensor *part = gd_cast(gd_slice(gd_detach(j), "1", at, at + size, 1), GD_F64);
        sum = gd_add(sum, gd_matmul(part, gd_sub(x, gd_detach(x))));
        at += size;
    }
    return sum;
}

/* ---- constraints of numbers ---- */

/* Both sides where the parameters are moved. */
static gd_status numbers_there(gd_var *var, void *user, double *out)
{
    const gd_objective *o = gd__objective_of(var);
    gd_tensor *c[2];
    (void)user;
    gd_scope_begin(var->ctx);
    gd_no_grad_begin(var->ctx);
    gd_status status = both(var->ctx, o, &c[0], &c[1]);
    for (int k = 0; k < 2 && !status; k++) {
        if (c[k]) status = gd_read_f64(c[k], out, c[k]->numel);
        out += c[k] ? c[k]->numel : 0;
    }
    gd_no_grad_end(var->ctx);
    gd_scope_end(var->ctx);
    if (!status && !gd__evaluator_of(var->optimizer, o)) var->optimizer->constraint_evals++;
    return status;
}

/* Sides of numbers get a history, of their values and central differences. */
static gd_status add_differences(gd_var *var, const bool *flat, gd_tensor **made)
{
    int64_t n = gd__list_numel(var->params, var->count), from = 0, size[2], count;
    for (int k = 0; k < 2; k++) size[k] = made[k] ? made[k]->numel : 0;
    count = size[0] + size[1];
    double *here = gd__alloc_array(var->ctx, (size_t)(count * (n + 1)), sizeof *here), *j = here + count;
    const gd_differences of = {gd_difference_named("central"), 0, 1, count, here, numbers_there, NULL};
    gd_status status = here ? GD_OK : GD_NOMEM;
    for (int k = 0; k < 2 && !status; k++)
        if (made[k]) status = gd_read_f64(made[k], here + (k ? size[0] : 0), size[k]);
    if (!status) status = gd__differences(var, &of, j);
    gd_tensor *slopes = status ? NULL : gd_from_f64(var->ctx, GD_F64, 2, (int64_t[]){n, count}, j);
    for (int k = 0; k < 2 && slopes; from += size[k++]) {
        if (!made[k]) continue;
        gd_tensor *own = gd_transpose(gd_slice(slopes, "1", from, from + size[k], 1), 0, 1);
        made[k] = flat[k] ? gd__with_slopes(var->params, var->count, made[k], own)
                          : gd__reshape(made[k], 1, &size[k]); /* not the remembered one, which is dropped */
    }
    var->optimizer->asked.estimated = true;
    gd__free(var->ctx, here, (size_t)(count * (n + 1)) * sizeof *here);
    return status ? status : gd_error(var->ctx);
}

gd_status gd_var_constraints(gd_var *var, gd_tensor **equal, gd_tensor **below)
{
    if (!var || !equal || !below) return gd__null(gd_var_ctx(var), "var: the place for constraints is NULL");
    const gd_objective *o = gd__objective_of(var);
    *equal = *below = NULL;
    if (!o || (!o->equal && !o->below)) return GD_OK;
    bool grad = gd_grad_enabled(var->ctx);
    gd_tensor *made[2] = {NULL, NULL};
    gd_point *p = kept_values(var);
    if (gd_error(var->ctx)) return gd_error(var->ctx);
    if (!p || !p->constraints || (grad && !is_intact(p))) {
        gd_status status = compute(var, o, p, made);
        if (status) return status;
    } else {
        memcpy(made, grad ? p->constraint_graph : p->constraint, sizeof made);
    }
    gd_evaluator *e = grad ? gd__evaluator_of(var->optimizer, o) : NULL;
    const bool flat[] = {grad && is_plain(made[0]) && !gd__evaluator_gives(e, GD_WANT_EQUAL_JACOBIAN),
                         grad && is_plain(made[1]) && !gd__evaluator_gives(e, GD_WANT_BELOW_JACOBIAN)};
    if (flat[0] || flat[1]) {
        gd_status status = add_differences(var, flat, made);
        if (status) return status;
        if (p) gd__memo_keep_constraints(memo_of(var), p, made);
    }
    for (int k = 0; k < 2 && e; k++)
        if (made[k] && gd__evaluator_gives(e, k ? GD_WANT_BELOW_JACOBIAN : GD_WANT_EQUAL_JACOBIAN))
            made[k] = gd__evaluator_with_slopes(e, k, made[k]);
    if (gd_error(var->ctx)) return gd_error(var->ctx);
    /* views: what is remembered may be dropped before the caller is done */
    *equal = made[0] ? gd__reshape(made[0], 1, &made[0]->numel) : NULL;
    *below = made[1] ? gd__reshape(made[1], 1, &made[1]->numel) : NULL;
    return gd_error(var->ctx);
}

static double largest(gd_tensor *t)
{
    gd_tensor *most = t && t->numel ? gd_vector_most(t) : NULL;
    return most ? gd_item(most) : 0;
}

gd_status gd__violation(gd_var *var, double *most)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor *equal = NULL, *below = NULL;
    *most = 0;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_status status = gd_var_constraints(var, &equal, &below);
    if (!status) {
        double e = largest(gd_abs(equal)), b = largest(below);
        *most = isnan(e) || isnan(b) ? INFINITY : fmax(fmax(e, b), 0);
        status = gd_error(ctx);
    }
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return status;
}

void gd_var_note_constraints(gd_var *var, double violation, double tol, double kkt, bool solved,
                             bool infeasible)
{
    if (!var || !var->share) return;
    var->share->violation = isnan(violation) ? INFINITY : violation; /* NaN: not computed */
    var->share->violation_tol = tol;
    var->share->solved = solved;
    var->share->first_kkt = kkt;
    var->share->infeasible = infeasible;
}

bool gd_var_noted_constraints(const gd_var *var, gd_constraints_note *out)
{
    const gd_step_share *share = var ? var->share : NULL;
    if (!share || !out || isnan(share->violation)) return false;
    *out = (gd_constraints_note){share->violation, share->violation_tol, share->first_kkt,
                                 share->solved,    share->infeasible,    share->outcome};
    return true;
}

void gd_var_note_outcome(gd_var *var, gd_outcome outcome)
{
    if (var && var->share) var->share->outcome = outcome;
}

double gd_var_kkt(gd_var *var)
{
    double most = 0;
    if (!var || gd__var_need_grad(var, false)) return NAN;
    gd_tensor **out = gd__tensors_new(var->ctx, var->count);
    if (!out) return NAN;
    gd_scope_begin(var->ctx);
    gd_no_grad_begin(var->ctx);
    gd_status status = gd__bounds_residual(var->optimizer, var->params, var->grad, var->count, out);
    if (!status) status = gd_list_norm(out, var->count, INFINITY, &most);
    gd_no_grad_end(var->ctx);
    gd_scope_end(var->ctx);
    gd__free(var->ctx, out, (size_t)var->count * sizeof *out);
    return status ? NAN : most;
}

gd_status gd_var_take_update(gd_var *var, gd_var *clone)
{
    if (!var || !clone) return gd__null(gd_var_ctx(var ? var : clone), "var: there is no clone to take from");
    gd_tensor *const *update = gd_var_read_update(clone);
    gd_status status = update ? gd_var_set_update(var, update) : gd_error(var->ctx);
    var->skip = var->skip || clone->skip;
    var->bounded = clone->bounded;
    var->sides = clone->sides;
    if (clone->terminate >= 0) var->terminate = clone->terminate;
    return status;
}

/* ---- an objective with an additional term ---- */

/* The result of the caller's function in the dtype of the loss; NULL if the function recorded an error. */
static gd_tensor *term_of(gd_closure *c, gd_ctx *ctx, gd_dtype dtype)
{
    gd_tensor *t = c->term(c->user);
    if (!t && !gd_error(ctx)) (void)gd_fail(ctx, GD_CALLBACK, "a term of the objective is NULL");
    return gd_error(ctx) ? NULL : gd_cast(t, dtype);
}

/* The gradients of the term are added to factor times those below, owned. */
static gd_status add_slopes(gd_closure *c, gd_var *var, gd_tensor *term, gd_tensor **grads)
{
    gd_tensor **more = gd__tensors_new(var->ctx, var->count);
    gd_status status = more ? GD_OK : GD_NOMEM;
    bool depends = !status && gd_requires_grad(term);
    /* the graphs of constraints are remembered, and serve again */
    if (!status && depends) status = gd_grad(term, NULL, var->params, var->count, GD_RETAIN_GRAPH, more);
    gd_no_grad_begin(var->ctx);
    for (int i = 0; i < var->count && !status; i++) {
        gd_tensor *g = gd_mul_scalar(gd_drop_names(grads[i]), c->factor);
        if (depends) g = gd_add(g, gd_drop_names(more[i]));
        g = g ? gd__relabel_like(g, grads[i]) : NULL;
        if (!g) status = gd_error(var->ctx);
        if (status) break;
        gd__own(g);
        gd__release(grads[i]);
        grads[i] = g;
    }
    gd_no_grad_end(var->ctx);
    gd__free(var->ctx, more, (size_t)var->count * sizeof *more);
    return status;
}

static gd_tensor *with_term(gd_closure *c, gd_tensor *below)
{
    gd_tensor *term = term_of(c, below->head.ctx, below->dtype);
    return term ? gd_add(gd_mul_scalar(below, c->factor), term) : NULL;
}

static gd_status term_eval(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    if (flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY)) return gd__closure_graph(c, var, with_term, loss, grads);
    gd_ctx *ctx = var->ctx;
    gd_status status = gd__closure_eval(c->below, var, flags, loss, grads);
    if (status) return status;
    gd_var *parent = var->parent;
    if (parent && parent->closure == c->below && !parent->loss && parent->params == var->params)
        gd_var_set_loss(parent, *loss); /* the loss without the term is the parent's */
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    if (!grads) gd_no_grad_begin(ctx);
    gd_tensor *term = term_of(c, ctx, (*loss)->dtype);
    status = term ? GD_OK : gd_error(ctx);
    if (!status && grads) status = add_slopes(c, var, term, grads);
    gd_enable_grad_end(ctx, previous);
    gd_no_grad_begin(ctx);
    gd_tensor *sum = status ? NULL : gd_add(gd_mul_scalar(gd_detach(*loss), c->factor), gd_detach(term));
    if (!status && !sum) status = gd_error(ctx);
    if (!status) {
        gd__own(sum);
        gd__release(*loss);
        *loss = sum;
    }
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return status;
}

gd_status gd_var_add_term(gd_var *var, double factor, gd_term_fn fn, void *user)
{
    if (!var || !fn) return gd__null(gd_var_ctx(var), "var: the function of a term is NULL");
    if (!var->closure) return gd_fail(var->ctx, GD_STATE, "a term more needs a step with an objective");
    gd_closure *c = gd__closure_push(var);
    if (!c) return GD_NOMEM;
    c->eval = term_eval;
    c->term = fn;
    c->factor = factor;
    c->user = user;
    var->closure = c;
    return GD_OK;
}
