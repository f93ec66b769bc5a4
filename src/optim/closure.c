/* Closures: the objective as links see it, and as links change it. */
#include "gradus/autograd.h"
#include "optim/optimizer.h"
#include "tensor/shape.h"

#include <math.h>

gd_status gd__closure_eval(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    *loss = NULL;
    return closure->eval(closure, var, flags, loss, grads);
}

gd_closure *gd__closure_push(gd_var *var)
{
    gd_closure *made = gd__calloc(var->ctx, sizeof *made);
    if (!made) return NULL;
    made->below = var->closure;
    made->next_made = var->optimizer->closures;
    var->optimizer->closures = made;
    return made;
}

/* ---- the objective itself ---- */

static void remember_first(gd_var *var, gd_tensor *loss)
{
    gd_optimizer *o = var->optimizer;
    if (o->first_loss) return;
    gd__retain(loss);
    o->first_loss = loss;
}

/* Owned references out of the scope the closure ran in. */
static gd_status hand_over(gd_var *var, gd_tensor *result, bool history, gd_tensor **loss, gd_tensor **grads)
{
    gd_tensor *out = history ? result : gd_detach(result);
    if (!out) return gd_error(var->ctx);
    gd__own(out);
    *loss = out;
    for (int i = 0; grads && i < var->count; i++) gd__own(grads[i]);
    return GD_OK;
}

static gd_status eval_autograd(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    gd_ctx *ctx = var->ctx;
    bool history = flags & GD_EVAL_HISTORY, backward = flags & GD_EVAL_BACKWARD, graph = flags & GD_EVAL_GRAPH;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    if (!backward && !history) gd_no_grad_begin(ctx);
    gd_tensor *result = c->objective->loss(c->objective->user);
    if (result && result->ndim > 0) { /* residuals; a vector of one element is one too */
        gd_tensor *bare = gd_drop_names(result);
        result = gd_sum(gd_square(bare), NULL, false);
    }
    gd_status status = GD_OK;
    if (!result) {
        status = gd_error(ctx);
        if (!status) status = gd_fail(ctx, GD_CALLBACK, "the objective returned NULL");
    }
    if (!status && backward)
        status = gd_grad(result, NULL, var->params, var->count, graph ? GD_CREATE_GRAPH : history ? GD_RETAIN_GRAPH : 0,
                         grads);
    if (!status) status = hand_over(var, result, history || graph, loss, backward ? grads : NULL);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    return status;
}

/* A foreign objective fills numbers. */
static gd_status eval_callbacks(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    gd_ctx *ctx = var->ctx;
    const gd_objective *o = c->objective;
    if (flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY))
        return gd_fail(ctx, GD_NOT_IMPLEMENTED, "a link asks for the graph of an objective given by callbacks");
    double value = NAN;
    gd_scope_begin(ctx);
    gd_status status = GD_OK;
    for (int i = 0; flags & GD_EVAL_BACKWARD && i < var->count && !status; i++)
        if (!(grads[i] = gd_zeros_like(var->params[i]))) status = GD_NOMEM;
    if (!status) {
        if (flags & GD_EVAL_BACKWARD)
            status = o->gradient ? o->gradient(o->user, &value, grads)
                                 : gd_fail(ctx, GD_NOT_IMPLEMENTED, "the objective has no gradient");
        else if (o->value) status = o->value(o->user, &value);
        else {
            /* only value and gradient together: compute both, keep one */
            gd_tensor **all = gd__tensors_new(ctx, var->count);
            for (int i = 0; all && i < var->count && !status; i++)
                if (!(all[i] = gd_zeros_like(var->params[i]))) status = GD_NOMEM;
            if (!status) status = all && o->gradient ? o->gradient(o->user, &value, all) : GD_NOMEM;
            gd__free(ctx, all, (size_t)var->count * sizeof *all);
        }
    }
    if (status && !gd_error(ctx)) (void)gd_fail(ctx, status, "the objective failed (%s)", gd_status_name(status));
    gd_tensor *result = status ? NULL : gd_scalar(ctx, GD_F64, value);
    if (!status && !result) status = GD_NOMEM;
    if (!status) status = hand_over(var, result, true, loss, flags & GD_EVAL_BACKWARD ? grads : NULL);
    for (int i = 0; status && flags & GD_EVAL_BACKWARD && i < var->count; i++) grads[i] = NULL;
    gd_scope_end(ctx);
    return status;
}

gd_status gd__objective_eval(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    var->optimizer->evals++;
    gd_status status = c->objective->loss ? eval_autograd(c, var, flags, loss, grads)
                                          : eval_callbacks(c, var, flags, loss, grads);
    if (status && grads)
        for (int i = 0; i < var->count; i++) grads[i] = NULL;
    if (!status) remember_first(var, *loss);
    return status;
}

/* ---- reformulations: L' = f(L) ---- */

static void release_all(gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    gd__release(*loss);
    *loss = NULL;
    for (int i = 0; grads && i < var->count; i++) {
        gd__release(grads[i]);
        grads[i] = NULL;
    }
}

/* With a graph the chain rule is autograd's. */
static gd_status reformulate_graph(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor *below = NULL;
    gd_status status = gd__closure_eval(c->below, var, GD_EVAL_HISTORY, &below, NULL);
    if (status) return status;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *result = c->reformulate(c->user, below);
    status = result ? GD_OK : gd_error(ctx);
    if (!status && flags & GD_EVAL_BACKWARD)
        status = gd_grad(result, NULL, var->params, var->count, GD_CREATE_GRAPH, grads);
    if (!status) status = hand_over(var, result, true, loss, flags & GD_EVAL_BACKWARD ? grads : NULL);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    gd__release(below);
    return status;
}

/* Without one: g' = f'(L) g. */
static gd_status reformulate_eval(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    if (flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY)) return reformulate_graph(c, var, flags, loss, grads);
    gd_ctx *ctx = var->ctx;
    gd_status status = gd__closure_eval(c->below, var, flags, loss, grads);
    if (status) return status;
    gd_tensor *old = *loss;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *leaf = gd_require_grad(gd__alias(old)), *result = leaf ? c->reformulate(c->user, leaf) : NULL;
    gd_tensor *slope = NULL;
    status = result ? gd_grad(result, NULL, &leaf, 1, 0, &slope) : gd_error(ctx);
    gd_enable_grad_end(ctx, previous);
    gd_no_grad_begin(ctx);
    gd_tensor *detached = status ? NULL : gd_detach(result);
    if (!status && !detached) status = GD_NOMEM;
    for (int i = 0; flags & GD_EVAL_BACKWARD && i < var->count && !status; i++) {
        gd_tensor *factor = grads[i]->dtype == slope->dtype ? slope : gd_cast(slope, grads[i]->dtype);
        gd_tensor *g = gd_mul(gd_drop_names(grads[i]), factor);
        g = g ? gd__relabel_like(g, grads[i]) : NULL;
        if (!g) status = gd_error(ctx);
        else {
            gd__own(g);
            gd__release(grads[i]);
            grads[i] = g;
        }
    }
    if (!status) {
        gd__own(detached);
        gd__release(old);
        *loss = detached;
    }
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    if (status) release_all(var, loss, flags & GD_EVAL_BACKWARD ? grads : NULL);
    return status;
}

gd_status gd_var_reformulate(gd_var *var, gd_reformulate_fn fn, void *user)
{
    if (!var->closure) return gd_fail(var->ctx, GD_STATE, "a reformulation needs a step with an objective");
    gd_closure *c = gd__closure_push(var);
    if (!c) return GD_NOMEM;
    c->eval = reformulate_eval;
    c->reformulate = fn;
    c->user = user;
    var->closure = c;
    return GD_OK;
}

/* ---- wrapped closures ---- */

static gd_status wrap_eval(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    if (flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY))
        return gd_fail(var->ctx, GD_NOT_IMPLEMENTED, "a link asks for the graph of a closure that another link changed");
    gd_closure *outer = var->closure;
    var->closure = c;
    gd_status status = c->wrap(c->user, var, flags & GD_EVAL_BACKWARD, loss, grads);
    var->closure = outer;
    return status;
}

gd_status gd_var_wrap_closure(gd_var *var, gd_wrap_fn fn, void *user)
{
    if (!var->closure) return gd_fail(var->ctx, GD_STATE, "target \"closure\" needs a step with an objective");
    gd_closure *c = gd__closure_push(var);
    if (!c) return GD_NOMEM;
    c->eval = wrap_eval;
    c->wrap = fn;
    c->user = user;
    var->closure = c;
    return GD_OK;
}

gd_status gd_var_inner_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    gd_closure *outer = var->closure;
    if (!outer || !outer->below) return gd_fail(var->ctx, GD_STATE, "there is no closure below");
    var->closure = outer->below;
    gd_status status = gd__closure_eval(outer->below, var, grads ? GD_EVAL_BACKWARD : 0, loss, grads);
    var->closure = outer;
    return status;
}

/* ---- evaluating for links ---- */

gd_status gd_var_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    if (!var->closure) return gd_fail(var->ctx, GD_STATE, "a link evaluates the objective, but the step has none");
    return gd__closure_eval(var->closure, var, grads ? GD_EVAL_BACKWARD : 0, loss, grads);
}

gd_status gd_var_evaluate_at(gd_var *var, double *loss)
{
    gd_tensor *value = NULL;
    gd_status status = gd_var_evaluate(var, &value, NULL);
    *loss = status ? NAN : gd_item(value);
    gd__release(value);
    return status;
}

gd_status gd_var_residuals(gd_var *var, gd_tensor **residuals, bool graph)
{
    gd_ctx *ctx = var->ctx;
    gd_closure *c = var->closure;
    *residuals = NULL;
    if (!c) return gd_fail(ctx, GD_STATE, "a link asks for residuals, but the step has no objective");
    if (c->below) return gd_fail(ctx, GD_NOT_IMPLEMENTED, "a link asks for residuals of a closure that another link changed");
    const gd_objective *o = c->objective;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    if (!graph) gd_no_grad_begin(ctx);
    gd_tensor *r = o->loss ? o->loss(o->user) : o->residuals ? o->residuals(o->user) : NULL;
    gd_status status = r ? GD_OK : gd_error(ctx);
    var->optimizer->evals++;
    if (!r && !status) status = gd_fail(ctx, GD_NOT_IMPLEMENTED, "the objective gives no residuals");
    if (!status && r->ndim == 0)
        status = gd_fail(ctx, GD_SHAPE, "a link needs a vector of residuals, the objective returned one number");
    if (!status) {
        r = gd__reshape(r, 1, &r->numel);
        if (r) gd__own(r);
        *residuals = r;
        status = r ? GD_OK : gd_error(ctx);
    }
    gd_enable_grad_end(ctx, previous);
    if (!status && !var->optimizer->first_loss) {
        gd_no_grad_begin(ctx);
        gd_tensor *loss = gd_sum(gd_square(gd_detach(r)), NULL, false);
        gd_no_grad_end(ctx);
        if (loss) {
            gd__own(loss);
            var->optimizer->first_loss = loss;
        } else status = gd_error(ctx);
    }
    gd_scope_end(ctx);
    return status;
}

/* ---- Hessian-vector products ---- */

static double norm_of(gd_tensor *const *v, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        gd_ctx *ctx = v[i]->head.ctx;
        gd_scope_begin(ctx);
        gd_no_grad_begin(ctx);
        sum += gd_item(gd_sum(gd_square(gd_detach(v[i])), NULL, false));
        gd_no_grad_end(ctx);
        gd_scope_end(ctx);
    }
    return sqrt(sum);
}

static gd_status hvp_autograd(gd_var *var, gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    gd_status status = gd__var_need_grad(var, true);
    if (status) return status;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *product = NULL;
    for (int i = 0; i < var->count; i++) {
        gd_tensor *part = gd_sum(gd_mul(gd_drop_names(var->grad[i]), gd_drop_names(v[i])), NULL, false);
        product = product ? gd_add(product, part) : part;
    }
    status = product ? GD_OK : gd_error(ctx);
    if (!status && gd_requires_grad(product))
        status = gd_grad(product, NULL, var->params, var->count, GD_RETAIN_GRAPH, out);
    else
        for (int i = 0; i < var->count && !status; i++)
            if (!(out[i] = gd_zeros_like(var->params[i]))) status = GD_NOMEM;
    for (int i = 0; i < var->count && !status; i++) gd__own(out[i]);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    return status;
}

/* Gradient at the parameters moved by step * v, moved back bit for bit. */
static gd_status gradient_at(gd_var *var, double step, gd_tensor *const *v, gd_tensor *const *saved, gd_tensor **grads)
{
    gd_tensor *loss = NULL;
    gd_status status = gd_var_move(var, step, v);
    if (!status) status = gd_var_evaluate(var, &loss, grads);
    gd_status back = gd_var_restore_params(var, saved);
    gd__release(loss);
    return status ? status : back;
}

static gd_status hvp_difference(gd_var *var, bool central, double h, double scale, gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    int count = var->count;
    gd_tensor **saved = gd__tensors_new(ctx, count), **ahead = gd__tensors_new(ctx, count);
    gd_tensor **behind = gd__tensors_new(ctx, count);
    gd_status status = saved && ahead && behind ? GD_OK : GD_NOMEM;
    if (!status && !central) status = gd__var_need_grad(var, false);
    if (!status) status = gd_var_save_params(var, saved);
    if (!status) status = gradient_at(var, h, v, saved, ahead);
    if (!status && central) status = gradient_at(var, -h, v, saved, behind);
    gd_no_grad_begin(ctx);
    for (int i = 0; i < count && !status; i++) {
        gd_scope_begin(ctx);
        gd_tensor *base = central ? behind[i] : var->grad[i];
        out[i] = gd_mul_scalar(gd_sub(ahead[i], base), scale / (central ? 2 * h : h));
        if (out[i]) gd__own(out[i]);
        else status = gd_error(ctx);
        gd_scope_end(ctx);
    }
    gd_no_grad_end(ctx);
    gd__tensors_free(ctx, saved, count);
    gd__tensors_free(ctx, ahead, count);
    gd__tensors_free(ctx, behind, count);
    return status;
}

static gd_status hvp_callback(gd_var *var, const gd_objective *o, gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    gd_status status = GD_OK;
    gd_scope_begin(ctx);
    for (int i = 0; i < var->count && !status; i++)
        if (!(out[i] = gd_zeros_like(var->params[i]))) status = GD_NOMEM;
    if (!status) status = o->hvp(o->user, v, out);
    for (int i = 0; i < var->count && !status; i++) gd__own(out[i]);
    for (int i = 0; i < var->count && status; i++) out[i] = NULL;
    gd_scope_end(ctx);
    return status;
}

gd_status gd_var_hvp(gd_var *var, gd_hvp_method method, double h, bool normalize, gd_tensor *const *v, gd_tensor **out)
{
    for (int i = 0; i < var->count; i++) out[i] = NULL;
    if (!var->closure) return gd_fail(var->ctx, GD_STATE, "a Hessian-vector product needs a step with an objective");
    gd_closure *c = var->closure;
    if (method == GD_HVP_AUTOGRAD && !c->below && c->objective->hvp) return hvp_callback(var, c->objective, v, out);
    if (method == GD_HVP_AUTOGRAD) return hvp_autograd(var, v, out);
    double norm = normalize ? norm_of(v, var->count) : 1;
    if (norm == 0) norm = 1;
    return hvp_difference(var, method == GD_HVP_CENTRAL, h / norm, 1, v, out);
}

gd_tensor *gd_var_hessian(gd_var *var)
{
    gd_ctx *ctx = var->ctx;
    if (gd__var_need_grad(var, true)) return NULL;
    int64_t n = 0;
    for (int i = 0; i < var->count; i++) n += var->params[i]->numel;
    gd_scope_begin(ctx);
    gd_tensor **flat = gd__tensors_new(ctx, var->count), **row = gd__tensors_new(ctx, var->count);
    gd_tensor *h = gd_zeros(ctx, var->params[0]->dtype, 2, (int64_t[]){n, n}), *all = NULL;
    gd_status status = flat && row && h ? GD_OK : GD_NOMEM;
    int previous = gd_enable_grad_begin(ctx);
    for (int i = 0; i < var->count && !status; i++)
        if (!(flat[i] = gd__reshape(var->grad[i], 1, &var->params[i]->numel))) status = GD_NOMEM;
    if (!status && !(all = gd_cat(flat, var->count, "0"))) status = gd_error(ctx);
    for (int64_t k = 0; k < n && !status && gd_requires_grad(all); k++) {
        gd_scope_begin(ctx);
        gd_tensor *one = gd__slice(all, 0, k, 1, 1);
        status = one ? gd_grad(one, NULL, var->params, var->count, GD_RETAIN_GRAPH, row) : GD_NOMEM;
        int64_t at = 0;
        for (int i = 0; i < var->count && !status; i++) {
            int64_t m = var->params[i]->numel;
            gd_tensor *target = gd__slice(gd__slice(h, 0, k, 1, 1), 1, at, m, 1);
            gd_tensor *source = gd__reshape(row[i], 2, (int64_t[]){1, m});
            status = target && source ? gd_assign(target, source) : GD_NOMEM;
            at += m;
        }
        gd_scope_end(ctx);
    }
    gd_enable_grad_end(ctx, previous);
    gd__free(ctx, flat, (size_t)var->count * sizeof *flat);
    gd__free(ctx, row, (size_t)var->count * sizeof *row);
    if (!status) gd__keep(h);
    gd_scope_end(ctx);
    return status ? NULL : h;
}
