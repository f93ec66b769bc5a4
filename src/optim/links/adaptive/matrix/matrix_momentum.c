/* Matrix momentum: the last step is repeated as far as the curvature along it allows (Orr & Leen 1996).
 *
 *     u = lr g - (s - mu H s),   s = x_k - x_(k-1), 0 at first
 *
 * adaptive: mu |s| / |y| in place of mu, y the change of the gradient, renewed every adapt_freq steps (none: each).  It has its own
 * learning rate: no lr after it.  State: previous parameters and, if adaptive, previous gradients.  Cost: a product per step. */
#include "gradus/autograd.h"
#include "gradus/link/hessian.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL_NEEDED("lr", -INFINITY, INFINITY, "step size of the update"),
    GD_REAL("mu", 0.1, -INFINITY, INFINITY, "weight of the curvature along the last step"),
    GD_HVP_CHOICE("autograd", "autograd|batched_autograd|forward|central|fd_forward|fd_central"),
    GD_REAL("h", 1e-3, 1e-300, INFINITY, "step of differences"),
    GD_FLAG("adaptive", false, "mu times |s| / |y|"),
    GD_INT_OR_NONE("adapt_freq", 1, 1e15, "steps from one such factor to the next; none: each has its own"),
};

static const gd_slot slots[] = {{"previous_params", GD_SLOT_ONLINE}, {"previous_grad", GD_SLOT_ONLINE}};

/* now - before, and now becomes before; false: there is no before. */
static gd_status change(gd_link *link, gd_var *var, const char *slot, gd_tensor *const *now, gd_tensor **out,
                        bool *first)
{
    gd_status status = GD_OK;
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        gd_tensor *key = gd_var_params(var)[i];
        bool known = gd_link_has_state(link, key, slot);
        *first = *first || !known;
        out[i] = known ? gd_sub(gd_detach(now[i]), gd_link_state(link, key, slot)) : gd_zeros_like(key);
        status = out[i] ? gd_link_set_state(link, key, slot, gd_detach(now[i])) : gd_error(gd_var_ctx(var));
    }
    return status;
}

/* |s| / |y|, of this step or of the last at which it was renewed. */
static gd_status factor(gd_link *link, gd_var *var, gd_tensor *const *s, bool first, double *out)
{
    int count = gd_var_count(var);
    *out = 1;
    if (!gd_link_flag(link, "adaptive")) return GD_OK;
    gd_tensor **y = gd_link_scratch(link, count);
    gd_tensor *const *grad = gd_var_grad(var);
    double length = 0, turned = 0, age = gd_link_kept(link, "age", 0);
    gd_status status = y && grad ? change(link, var, "previous_grad", grad, y, &first)
                                 : gd_error(gd_var_ctx(var));
    if (!status) status = gd_list_norm(s, count, 2, &length);
    if (!status) status = gd_list_norm(y, count, 2, &turned);
    *out = gd_link_kept(link, "factor", 1);
    double every = gd_link_is_none(link, "adapt_freq") ? 1 : gd_link_real(link, "adapt_freq", NULL);
    if (status || first) return status;
    if (age <= 0 && turned > 0 && isfinite(length / turned)) *out = length / turned;
    status = gd_link_keep(link, "factor", *out);
    return status ? status : gd_link_keep(link, "age", age <= 0 ? every - 1 : age - 1);
}

static gd_status combine(gd_link *link, gd_var *var, gd_tensor *const *s, gd_tensor *const *hs, double scale)
{
    int count = gd_var_count(var);
    gd_tensor *const *g = gd_var_read_update(var);
    gd_tensor **u = gd_link_scratch(link, count);
    if (!g || !u) return gd_error(gd_var_ctx(var));
    for (int i = 0; i < count; i++) {
        gd_tensor *key = gd_var_params(var)[i];
        gd_tensor *kept = gd_sub(s[i], gd_mul_scalar(hs[i], scale * gd_link_real(link, "mu", key)));
        u[i] = gd_sub(gd_mul_scalar(gd_detach(g[i]), gd_link_real(link, "lr", key)), kept);
        if (!u[i]) return gd_error(gd_var_ctx(var));
    }
    return gd_var_set_update(var, u);
}

static gd_status matrix_momentum_step(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    bool first = false;
    double scale = 1;
    gd_tensor **s = gd_link_scratch(link, 2 * count), **hs = s + count;
    gd_status status = s ? gd_link_expect_products(link, var) : gd_error(ctx);
    gd_no_grad_begin(ctx);
    if (!status) status = change(link, var, "previous_params", gd_var_params(var), s, &first);
    if (!status) status = factor(link, var, s, first, &scale);
    for (int i = 0; i < count && first && !status; i++) hs[i] = s[i]; /* zeros */
    if (!status && !first) status = gd_link_hessian_times(link, var, s, hs);
    if (!status) status = combine(link, var, s, hs, scale);
    gd_no_grad_end(ctx);
    return status;
}

/* Only adaptive needs previous gradients. */
static int64_t momentum_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return gd_link_slot_bytes(gd_link_flag(link, "adaptive") ? 2 : 1, params, count);
}

GD_LINK(adaptive, matrix_momentum,
    .spread = GD_SPREAD_VECTOR,
    .summary = "momentum that the curvature along the last step slows down",
    .formula = "lr u - (s - mu H s)",
    .paper = "Orr & Leen, Using curvature information for fast stochastic search, NeurIPS 1996",
    .cost = "a product with the Hessian per step, about two gradients",
    .example = "matrix_momentum(0.01, mu=0.1)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .step = matrix_momentum_step,
    .state_bytes = momentum_bytes,
    .traits.needs_closure = true,
    .traits.restores_params = true);
