/* Products with the Hessian of the objective: by its own callback, by the graph of a gradient, or by differences of gradients. */
#include "autograd/walk.h"
#include "gradus/autograd.h"
#include "optim/step/microbatch_loss.h"
#include "optim/vector/jacobian.h"
#include "optim/vector/layout.h"

#include <math.h>

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

/* Products leave the scope they were made in; none do on failure. */
static void own_products(gd_var *var, gd_tensor **out, gd_status status)
{
    for (int i = 0; i < var->count; i++) {
        if (status)
            out[i] = NULL;
        else
            gd__own(out[i]);
    }
}

gd_status gd__product_along(gd_var *var, gd_tensor *const *grads, gd_tensor *const *v, int flags,
                            gd_tensor **out)
{
    gd_tensor *product = NULL;
    for (int i = 0; i < var->count; i++) {
        gd_tensor *term = gd_sum(gd_mul(gd_drop_names(grads[i]), gd_drop_names(v[i])), NULL, false);
        product = product ? gd_add(product, term) : term;
    }
    if (!product) return gd_error(var->ctx);
    /* a gradient that does not depend on the parameters has no history: the loss is linear */
    return gd_requires_grad(product) ? gd_grad(product, NULL, var->params, var->count, flags, out)
                                     : gd__zeros_like_params(var, out);
}

static gd_status hvp_autograd(gd_var *var, gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    gd_status status = gd__var_need_grad(var, true);
    if (status) return status;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    status = gd__product_along(var, var->grad, v, GD_RETAIN_GRAPH, out);
    own_products(var, out, status);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    return status;
}

/* (ahead - behind) / width for each parameter; owned, none on failure. */
static gd_status quotients(gd_var *var, gd_tensor *const *ahead, gd_tensor *const *behind, double width,
                           gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    gd_status status = GD_OK;
    gd_no_grad_begin(ctx);
    for (int i = 0; i < var->count && !status; i++) {
        gd_scope_begin(ctx);
        out[i] = gd_mul_scalar(gd_sub(ahead[i], behind[i]), 1 / width);
        if (out[i])
            gd__own(out[i]);
        else
            status = gd_error(ctx);
        gd_scope_end(ctx);
    }
    gd_no_grad_end(ctx);
    for (int i = 0; i < var->count && status; i++) {
        gd__release(out[i]);
        out[i] = NULL;
    }
    return status;
}

/* Inside bounds on both sides, whatever the request: there may be room on neither. */
static gd_status hvp_difference(gd_var *var, bool central, double h, gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    int count = var->count;
    bool around = central || var->bounded;
    gd_tensor **ahead = gd__tensors_new(ctx, count), **behind = gd__tensors_new(ctx, count);
    gd_status status = ahead && behind ? GD_OK : GD_NOMEM;
    if (!status && !around) status = gd__var_need_grad(var, false);
    if (!status)
        status = around ? gd__evaluate_around(var, &h, v, NULL, ahead, behind)
                        : gd__evaluate_moved(var, h, v, NULL, ahead);
    if (!status) status = quotients(var, ahead, around ? behind : var->grad, around ? 2 * h : h, out);
    gd__tensors_free(ctx, ahead, count);
    gd__tensors_free(ctx, behind, count);
    return status;
}

/* The objective's last kept evaluation is the one that gave this gradient. */
static gd_status need_kept(gd_var *var)
{
    if (var->kept != var->optimizer->kept) var->grad_history = false;
    return gd__var_need_grad(var, true);
}

static gd_status hvp_callback(gd_var *var, const gd_objective *o, gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    gd_status status = gd__var_keeps_products(var) ? need_kept(var) : GD_OK;
    if (status) return status;
    gd_scope_begin(ctx);
    double loss;
    status = o->hvp ? gd__zeros_like_params(var, out) : gd__batch_eval(var, o->batch, v, &loss, out);
    if (!status && o->hvp) status = o->hvp(o->user, v, out);
    status = gd__callback_status(ctx, status);
    own_products(var, out, status);
    gd_scope_end(ctx);
    return status;
}

static gd_status hvp_of_nothing(gd_var *var, gd_tensor **out)
{
    gd_scope_begin(var->ctx);
    gd_status status = gd__zeros_like_params(var, out);
    own_products(var, out, status);
    gd_scope_end(var->ctx);
    return status;
}

bool gd__var_gives_products(const gd_var *var)
{
    if (!var->closure || var->closure->below) return false;
    const gd_objective *o = var->closure->objective;
    return o->hvp || (o->batch && !o->loss && !o->gradient);
}

bool gd__var_keeps_products(const gd_var *var)
{
    if (!var->closure || var->closure->below) return false;
    const gd_objective *o = var->closure->objective;
    return !o->loss && o->hvp && o->gradient_kept;
}

/* Reformulations, terms and subsets pass a graph on; wrapped and estimated closures and objectives of numbers have none: products are
 * differences then. */
bool gd__var_has_graph(const gd_var *var)
{
    const gd_closure *c = var->closure;
    while (c && c->below && !c->wrap && !c->estimate) c = c->below;
    return c && !c->below && c->objective->loss;
}

bool gd__var_has_products(const gd_var *var) { return gd__var_gives_products(var) || gd__var_has_graph(var); }

/* The distance of differences along unit vectors: large enough for gradients that are estimates themselves. */
static double difference_step(const gd_var *var)
{
    double eps = 0;
    for (int i = 0; i < var->count; i++) eps = fmax(eps, gd_vector_epsilon(var->params[i]));
    return sqrt(sqrt(eps));
}

static gd_status owned_products(gd_var *var, gd_hvp_method method, double h, bool normalize,
                                gd_tensor *const *v, gd_tensor **out)
{
    if (!var || !v || !out)
        return gd__null(gd_var_ctx(var), "var: the vectors of a Hessian product are NULL");
    for (int i = 0; i < var->count; i++) out[i] = NULL;
    if ((int)method < GD_HVP_AUTOGRAD || method > GD_HVP_CENTRAL)
        return gd_fail(var->ctx, GD_ARGUMENT, "a Hessian-vector product: there is no method %d", (int)method);
    if (!var->closure)
        return gd_fail(var->ctx, GD_STATE, "a Hessian-vector product needs a step with an objective");
    if (method == GD_HVP_AUTOGRAD && gd__var_gives_products(var))
        return hvp_callback(var, var->closure->objective, v, out);
    if (method == GD_HVP_AUTOGRAD && gd__var_has_graph(var)) return hvp_autograd(var, v, out);
    if (method == GD_HVP_AUTOGRAD) method = GD_HVP_CENTRAL, normalize = true, h = difference_step(var);
    if (!(h > 0))
        return gd_fail(var->ctx, GD_VALUE, "a Hessian-vector product by differences needs a step above 0");
    double norm = normalize ? norm_of(v, var->count) : 1;
    if (gd_error(var->ctx)) return gd_error(var->ctx);
    if (norm == 0) return hvp_of_nothing(var, out);
    return hvp_difference(var, method == GD_HVP_CENTRAL, h / norm, v, out);
}

gd_status gd_var_hvp(gd_var *var, gd_hvp_method method, double h, bool normalize, gd_tensor *const *v,
                     gd_tensor **out)
{
    if (!var || !v || !out)
        return gd__null(gd_var_ctx(var), "a Hessian-vector product: the vectors or the results are NULL");
    gd_tensor **list = gd__tensors_share(var->ctx, v, var->count);
    gd_status status = list
                           ? gd__lsq_like(var->ctx, "a Hessian-vector product", list, var->params, var->count)
                           : GD_NOMEM;
    for (int i = 0; i < var->count && status; i++) out[i] = NULL;
    if (!status) status = owned_products(var, method, h, normalize, list, out);
    gd__tensors_free(var->ctx, list, var->count);
    return status ? status : gd__give_out(var->ctx, out, var->count);
}

/* Row i = H e_i, from the objective's own products or from differences; unit and list are room for e_i. */
static gd_status row_by_product(gd_var *var, const gd_layout *l, gd_tensor *unit, gd_tensor **list,
                                gd_tensor *matrix, int64_t i)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor **out = list + var->count;
    gd_tensor *one = gd_slice(unit, "0", i, i + 1, 1), *row = gd_index(matrix, "0", i);
    gd_status status = one && row ? gd_fill(one, 1) : gd_error(ctx);
    if (!status) status = gd__vector_to_list(l, unit, list);
    if (!status) status = owned_products(var, GD_HVP_AUTOGRAD, 0, false, list, out);
    if (status) return status;
    status = gd__list_to_vector(l, out, row);
    for (int k = 0; k < var->count; k++) gd__release(out[k]);
    return status ? status : gd_fill(one, 0);
}

static gd_tensor *hessian_by_products(gd_var *var)
{
    gd_ctx *ctx = var->ctx;
    gd_layout l;
    gd_tensor **list = gd__calloc(ctx, 2 * (size_t)var->count * sizeof *list);
    gd_status status = gd__layout_init(&l, ctx, var->params, var->count);
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *matrix = gd_empty_on(l.device, l.dtype, 2, (int64_t[]){l.total, l.total}), *unit = NULL;
    if (matrix) unit = gd_to_device(gd_zeros(ctx, l.dtype, 1, &l.total), l.device);
    if (!list || !unit) status = gd_error(ctx);
    if (!status) status = gd__zeros_like_params(var, list);
    for (int64_t i = 0; i < l.total && !status; i++) {
        gd_scope_begin(ctx);
        status = row_by_product(var, &l, unit, list, matrix, i);
        gd_scope_end(ctx);
    }
    gd_no_grad_end(ctx);
    matrix = status ? NULL : gd_keep(matrix);
    gd_scope_end(ctx);
    gd__free(ctx, list, 2 * (size_t)var->count * sizeof *list);
    gd__layout_free(&l);
    return matrix;
}

gd_tensor *gd_var_hessian(gd_var *var)
{
    if (!var) return NULL;
    gd_ctx *ctx = var->ctx;
    if (!var->closure) return gd__refuse(ctx, GD_STATE, "a Hessian needs a step with an objective");
    if (!var->count) return NULL;
    if (gd__var_gives_products(var) || !gd__var_has_graph(var)) return hessian_by_products(var);
    if (gd__var_need_grad(var, true)) return NULL;
    return gd__derivative_rows(var->grad, var->count, var->params, var->count);
}
