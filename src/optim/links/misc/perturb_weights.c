/* Evaluates the objective at changed weights: later links see loss and gradient there; the parameters stay.
 *
 *   perturb_weights   at p + alpha c z, z random, c the mean of |p| of the tensor with relative, else 1
 *   weight_dropout    with each weight 0 with probability p; graft: the tensor keeps its norm
 *
 * One draw per step, the same for all its evaluations.  A group's perturb=false or use_dropout=false leaves its parameters out. */
#include "gradus/autograd.h"
#include "gradus/link.h"

#include <math.h>

static const gd_field perturb_fields[] = {
    GD_REAL("alpha", 0.1, -INFINITY, INFINITY, "size of the perturbation"),
    GD_FLAG("relative", true, "times the mean magnitude of the tensor"),
    GD_CHOICE("distribution", "normal", GD_DISTRIBUTIONS, "of the perturbation"),
    GD_SEED("of its own random numbers; none: those of the context"),
    GD_FLAG("perturb", true, "false in a group: its parameters are left as they are"),
};

static const gd_field dropout_fields[] = {
    GD_REAL("p", 0.5, 0, 1, "probability of 0"),
    GD_FLAG("graft", true, "rescale each tensor to its norm before"),
    GD_SEED("of its own random numbers; none: those of the context"),
    GD_FLAG("use_dropout", true, "false in a group: its parameters are left as they are"),
};

static bool wanted(gd_link *link, const char *flag, gd_tensor *param)
{
    return gd_numel(param) > 0 && gd_link_get(link, flag, param)->real != 0;
}

/* alpha c z, 0 for those that are left out. */
static gd_status perturbation(gd_link *link, gd_var *var, gd_tensor **out)
{
    gd_tensor *const *params = gd_var_params(var);
    const char *kind = gd_link_get(link, "distribution", NULL)->string;
    gd_status status = gd_link_random_list(link, kind, params, gd_var_count(var), out);
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        gd_tensor *p = gd_detach(params[i]);
        double size = wanted(link, "perturb", params[i]) ? gd_link_real(link, "alpha", params[i]) : 0;
        if (size != 0 && gd_link_get(link, "relative", params[i])->real != 0)
            size *= gd_item(gd_mean(gd_abs(p), NULL, false));
        if (!(out[i] = gd_mul_scalar(out[i], size))) status = gd_error(gd_var_ctx(var));
    }
    return status;
}

/* The tensor whose sum with t has some elements 0. */
static gd_tensor *dropped(gd_link *link, gd_tensor *param)
{
    gd_tensor *p = gd_drop_names(gd_detach(param)), *draw = gd_link_random(link, GD_RANDOM_UNIFORM, param);
    gd_tensor *limit = draw ? gd_full_like(draw, gd_link_real(link, "p", param)) : NULL;
    gd_tensor *left = limit ? gd_mul(p, gd_cast(gd_ge(draw, limit), gd_tensor_dtype(p))) : NULL;
    if (left && gd_link_get(link, "graft", param)->real != 0) {
        double before = gd_item(gd_norm(p, 2, NULL, false)), after = gd_item(gd_norm(left, 2, NULL, false));
        if (after > 0 && isfinite(before / after)) left = gd_mul_scalar(left, before / after);
    }
    return left ? gd_sub(left, p) : NULL;
}

static gd_status dropout_way(gd_link *link, gd_var *var, gd_tensor **out)
{
    for (int i = 0; i < gd_var_count(var); i++) {
        gd_tensor *p = gd_var_params(var)[i];
        out[i] = wanted(link, "use_dropout", p) ? dropped(link, p) : gd_zeros_like(p);
        if (!out[i]) return gd_error(gd_var_ctx(var));
    }
    return GD_OK;
}

/* ---- the closure ---- */

typedef struct there {
    gd_tensor **way;
} there;

static gd_status at_others(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    const there *t = user;
    return gd_var_inner_evaluate_at(var, 1, t->way, loss, backward ? grads : NULL);
}

static gd_status step_at(gd_link *link, gd_var *var, gd_status (*draw)(gd_link *, gd_var *, gd_tensor **))
{
    gd_ctx *ctx = gd_var_ctx(var);
    there *t = gd_link_memory(link, sizeof *t);
    gd_tensor **way = gd_link_scratch(link, gd_var_count(var));
    if (!t || !way) return gd_error(ctx);
    t->way = way;
    gd_no_grad_begin(ctx);
    gd_status status = draw(link, var, way);
    gd_no_grad_end(ctx);
    return status ? status : gd_var_wrap_closure(var, at_others, t);
}

static gd_status perturb_step(gd_link *link, gd_var *var) { return step_at(link, var, perturbation); }
static gd_status dropout_step(gd_link *link, gd_var *var) { return step_at(link, var, dropout_way); }

GD_LINK(misc, perturb_weights,
    .spread = GD_SPREAD_VECTOR,
    .summary = "loss and gradient at weights with noise",
    .formula = "g(p + alpha mean|p| z)",
    .cost = "a copy of the parameters during evaluations, and the noise",
    .example = "perturb_weights(0.01) | adam | lr(0.001)",
    GD_FIELDS(perturb_fields),
    .step = perturb_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);

GD_LINK(misc, weight_dropout,
    .spread = GD_SPREAD_VECTOR,
    .summary = "loss and gradient with some weights 0",
    .formula = "the gradient at m w |w| / |m w|, w the parameters, m = 0 with probability p, else 1",
    .cost = "a copy of the parameters during evaluations, and the perturbation",
    .example = "weight_dropout(0.1) | adam | lr(0.001)",
    GD_FIELDS(dropout_fields),
    .step = dropout_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);
