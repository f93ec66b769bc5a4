/* Updates that are not finite:
 *
 *   zero_nonfinite   elements that are NaN or infinite become 0; a rule, fuses
 *   skip_nonfinite with one such element in any parameter the step is skipped: no further link runs, so their state and
 *                    the parameters stay, and schedules do not count it.  It should be first, since links before it have already run.
 *   loss_scale       for gradients in few bits: the loss is multiplied by a scale before its gradient is taken, the gradient
 *                    divided by it.  A gradient that is not finite skips the step as above and halves the scale; 2000 good
 *                    steps double it (Micikevicius et al. 2018).  A power of two changes no bits. It comes first. Without an
 *                    objective the caller multiplies the loss: by the optimizer's attribute loss_scale, or before the first step by the setting of
 *                    the chain.
 *
 * Skipped steps are in gd_step_info, their number is the attribute skipped_steps.  Cost: a check of every element, and on a GPU the
 * host waits for the answer. */
#include "gradus/link.h"

#include <math.h>

static const gd_field zero_fields[] = {GD_TARGET};

static gd_value zero_rule(gd_rule *r, gd_value u)
{
    return gd_rule_where(r, gd_rule_isfinite(r, u), u, gd_rule_const(r, 0));
}

/* ---- skipping ---- */

static gd_status look(gd_var *var, gd_tensor *const *list, bool *finite)
{
    gd_ctx *ctx = gd_var_ctx(var);
    *finite = true;
    gd_scope_begin(ctx);
    for (int i = 0; i < gd_var_count(var) && *finite; i++) {
        gd_tensor *all = gd_all(gd_isfinite(list[i]), NULL, false);
        *finite = all && gd_item(all) != 0;
    }
    gd_scope_end(ctx);
    return gd_error(ctx);
}

static gd_status skip(gd_link *link, gd_var *var)
{
    double *skipped = gd_link_global(link, "skipped", 0);
    if (!skipped) return gd_error(gd_var_ctx(var));
    gd_status status = gd_var_set_attr(var, "skipped_steps", *skipped + 1);
    if (status) return status;
    *skipped += 1;
    gd_var_note_skipped(var);
    gd_var_hold(var);
    return GD_OK;
}

static gd_status skip_step(gd_link *link, gd_var *var)
{
    gd_tensor *const *update = gd_var_read_update(var);
    bool finite = false;
    gd_status status = update ? look(var, update, &finite) : gd_error(gd_var_ctx(var));
    return status || finite ? status : skip(link, var);
}

/* ---- scaling ---- */

static const gd_field scale_fields[] = {
    GD_REAL("scale", 65536, 1e-300, INFINITY, "first factor of the loss"),
    GD_INT("growth_interval", 2000, 1, 1e15, "good steps in a row after which it grows"),
    GD_REAL("growth", 2, 1, INFINITY, "factor of the scale then"),
    GD_REAL("backoff", 0.5, 1e-300, 1, "factor of the scale after a bad step"),
};

static gd_tensor *scaled_loss(void *user, gd_tensor *loss)
{
    const double *scale = gd_link_data(user);
    return gd_mul_scalar(loss, *scale);
}

static gd_status divide(gd_link *link, int count, gd_tensor **list)
{
    const double *scale = gd_link_data(link);
    for (int i = 0; i < count; i++) {
        list[i] = gd_mul_scalar(list[i], 1 / *scale);
        if (!list[i]) return gd_error(gd_link_ctx(link));
    }
    return GD_OK;
}

/* The links after this one see loss and gradient of the objective itself. */
static gd_status unscaled(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    gd_status status = gd_var_inner_evaluate(var, loss, grads);
    if (!status) status = divide(user, 1, loss);
    return status || !backward ? status : divide(user, gd_var_count(var), grads);
}

/* The gradient, divided by the scale. An existing one was computed without the scale. */
static gd_status take_gradient(gd_link *link, gd_var *var, gd_tensor *const **grad)
{
    gd_status status = GD_OK;
    bool fresh = !gd_var_has_grad(var);
    if (fresh && gd_var_has_closure(var)) {
        status = gd_var_reformulate(var, scaled_loss, link);
        if (!status) status = gd_var_wrap_closure(var, unscaled, link);
    }
    *grad = status ? NULL : gd_var_grad(var);
    if (!*grad) return gd_error(gd_var_ctx(var));
    if (gd_var_has_closure(var)) return GD_OK;
    int count = gd_var_count(var);
    gd_tensor **list = gd_link_scratch(link, count);
    if (!list) return gd_error(gd_var_ctx(var));
    for (int i = 0; i < count; i++) list[i] = (*grad)[i];
    status = divide(link, count, list);
    if (!status) status = gd_var_set_grad(var, list);
    *grad = list;
    return status;
}

static gd_status scale_step(gd_link *link, gd_var *var)
{
    double *scale = gd_link_global(link, "scale", gd_link_real(link, "scale", NULL)),
           *in_use = gd_link_data(link);
    double *good = gd_link_global(link, "good_steps", 0);
    if (!scale || !good) return gd_error(gd_var_ctx(var));
    *in_use = *scale;
    gd_tensor *const *grad = NULL;
    bool finite = false;
    gd_status status = take_gradient(link, var, &grad);
    if (!status) status = look(var, grad, &finite);
    if (!status && !finite) status = skip(link, var);
    if (status) return status;
    double count = finite ? *good + 1 : 0, next = *scale;
    bool grows = finite && count >= gd_link_real(link, "growth_interval", NULL);
    if (grows) next *= gd_link_real(link, "growth", NULL);
    if (!finite) next *= gd_link_real(link, "backoff", NULL);
    *good = grows ? 0 : count;
    *scale = isfinite(next) && next > 0 ? next : *scale;
    return gd_var_set_attr(var, "loss_scale", *scale);
}

GD_LINK(misc, zero_nonfinite,
    .summary = "elements that are not finite become zero",
    .formula = "u where isfinite(u) > 0, else 0",
    .example = "zero_nonfinite | adam | lr(0.001)",
    GD_FIELDS(zero_fields),
    .rule = zero_rule);

GD_LINK(misc, skip_nonfinite,
    .summary = "skips steps whose update is not finite",
    .formula = "no step where an element of u is not finite",
    .cost = "one more pass, which searches for numbers that are not finite",
    .example = "skip_nonfinite | adam | lr(0.001)",
    .step = skip_step,
    .spread = GD_SPREAD_VECTOR);

GD_LINK(misc, loss_scale,
    .summary = "gradients of a scaled loss, for dtypes with few bits",
    .formula =
        "grad(scale f) / scale;  not finite: no step, scale backoff;  growth_interval good steps: scale growth",
    .paper = "Micikevicius et al., Mixed precision training, ICLR 2018",
    .cost = "one more pass, which searches for numbers that are not finite",
    .example = "loss_scale | adam | lr(0.001)",
    GD_FIELDS(scale_fields),
    .data_size = sizeof(double),
    .step = scale_step,
    .traits.acts_first = true,
    .spread = GD_SPREAD_VECTOR);
