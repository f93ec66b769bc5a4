/* Sharpness-aware minimisation: the gradient is taken at the worst point near by (Foret et al. 2020).
 *
 *     e = rho sign(g) |g|^(q-1) / |g|_q^(q/p),  1/p + 1/q = 1;  gradient at x + e.  p = 2: e = rho g / |g|
 *
 * p = 1 is the limit: all of rho along the steepest coordinate, divided among equal ones.
 *
 * asam (Kwon et al. 2021) measures distance relative to the parameters: with w = |x|, e = rho w^2 g / |w g|.
 *
 * A closure made of two evaluations: all links after it see the loss at x and the gradient at x + e.  A gradient of zero, or
 * one that is not finite, gives no direction: it is passed on after the first evaluation.  eps is added to the norm. */
#include "gradus/autograd.h"
#include "gradus/link.h"

#include <math.h>

#define COMMON(r)                                                  \
    GD_REAL("rho", r, 0, INFINITY, "radius of the neighbourhood"), \
        GD_REAL("p", 2, 1, INFINITY, "norm of the neighbourhood"), \
        GD_REAL("eps", 1e-10, 0, INFINITY, "added to the norm")

static const gd_field sam_fields[] = {COMMON(0.05),
                                      GD_FLAG("asam", false, "distance relative to the parameters")};
static const gd_field asam_fields[] = {COMMON(0.5)};

/* |x| |g| for asam, g otherwise. */
static gd_tensor *weighted(gd_tensor *x, gd_tensor *g, bool relative)
{
    return relative ? gd_mul(gd_abs(gd_detach(x)), g) : g;
}

/* One number of all parameters: sums of |g|^q added, or the largest |g| for q = infinity. */
static gd_status total(gd_var *var, gd_tensor *const *grads, double q, bool relative, double *out)
{
    gd_status status = GD_OK;
    *out = 0;
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        if (!gd_numel(grads[i])) continue;
        gd_scope_begin(gd_var_ctx(var));
        gd_tensor *size = gd_abs(weighted(gd_var_params(var)[i], grads[i], relative));
        gd_tensor *one = isinf(q) ? gd_max(size, NULL, false)
                                  : gd_sum(q == 2 ? gd_square(size) : gd_pow_scalar(size, q), NULL, false);
        double value = one ? gd_item(one) : 0;
        *out = !isinf(q) ? *out + value : value > *out || isnan(value) ? value : *out;
        if (!one) status = gd_error(gd_var_ctx(var));
        gd_scope_end(gd_var_ctx(var));
    }
    return status;
}

/* sign(g) where |g| is the largest, 0 elsewhere. */
static gd_tensor *steepest(gd_tensor *g, double most)
{
    gd_tensor *sign = gd_sign(g), *limit = gd_mul_scalar(gd_ones_like(g), most);
    return sign && limit ? gd_mul(sign, gd_cast(gd_ge(gd_abs(g), limit), gd_tensor_dtype(g))) : NULL;
}

/* u = sign(g) |g|^(q-1), a multiple of the displacement; *sum is that of |g|^q, or of what is left for p = 1. */
static gd_status shape(gd_var *var, gd_tensor *const *grads, double q, bool relative, gd_tensor **u,
                       double *sum)
{
    gd_status status = total(var, grads, q, relative, sum);
    if (status || !isfinite(*sum) || *sum <= 0) return status;
    for (int i = 0; i < gd_var_count(var); i++) {
        gd_tensor *g = weighted(gd_var_params(var)[i], grads[i], relative);
        u[i] = isinf(q) ? steepest(g, *sum)
               : q == 2 ? g
                        : gd_mul(gd_sign(g), gd_pow_scalar(gd_abs(g), q - 1));
        if (!u[i]) return gd_error(gd_var_ctx(var));
    }
    return isinf(q) ? total(var, u, 1, false, sum) : GD_OK;
}

/* The displacement to the worst point, in out: new tensors of the current scope.  *leads is false if there is none. */
static gd_status ascent(gd_link *link, gd_var *var, gd_tensor *const *grads, bool relative, gd_tensor **out,
                        bool *leads)
{
    double p = gd_link_real(link, "p", NULL), q = isinf(p) ? 1 : p / (p - 1), sum = 0;
    gd_status status = shape(var, grads, q, relative, out, &sum);
    double norm = isinf(p) ? 1 : pow(sum, 1 / p);
    double scale = gd_link_real(link, "rho", NULL) / (norm + gd_link_real(link, "eps", NULL));
    *leads = isfinite(sum) && isfinite(scale) && sum > 0;
    for (int i = 0; i < gd_var_count(var) && !status && *leads; i++) {
        out[i] = gd_mul_scalar(weighted(gd_var_params(var)[i], out[i], relative), scale);
        if (!out[i]) status = gd_error(gd_var_ctx(var));
    }
    return status;
}

static gd_status worst_point(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    gd_link *link = user;
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    gd_status status = gd_var_inner_evaluate(var, loss, backward ? grads : NULL);
    if (status || !backward) return status;
    bool relative = !gd_link_has_field(link, "asam") || gd_link_flag(link, "asam"), leads = true;
    gd_tensor *there = NULL, **way = gd_link_scratch(link, count);
    gd_no_grad_begin(ctx);
    status = way ? ascent(link, var, grads, relative, way, &leads) : gd_error(ctx);
    if (!status && leads) {
        /* this gradient is no longer needed, and a second one follows */
        for (int i = 0; i < count; i++) gd_release(grads[i]);
        status = gd_var_inner_evaluate_at(var, 1, way, &there, grads);
    }
    gd_no_grad_end(ctx);
    return status;
}

static gd_status sam_step(gd_link *link, gd_var *var) { return gd_var_wrap_closure(var, worst_point, link); }

GD_LINK(adaptive, sam,
    .spread = GD_SPREAD_VECTOR,
    .summary = "gradient at the worst point near by",
    .formula = "the gradient at w + rho g / |g|, w the parameters",
    .paper = "Foret, Kleiner, Mobahi & Neyshabur, Sharpness-aware minimization, 2020",
    .cost = "one more evaluation with gradient per step; a copy of the parameters meanwhile",
    .example = "sam(0.05) | heavy_ball | lr(0.01)",
    GD_FIELDS(sam_fields),
    .step = sam_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);

GD_LINK(adaptive, asam,
    .spread = GD_SPREAD_VECTOR,
    .summary = "gradient at the worst point near by, measured relative to the parameters",
    .formula = "the gradient at w + rho w^2 g / |w g|, w the parameters",
    .paper = "Kwon, Kim, Park & Choi, ASAM: adaptive sharpness-aware minimization, 2021",
    .cost = "one more evaluation with gradient per step; a copy of the parameters meanwhile",
    .example = "asam(0.5) | heavy_ball | lr(0.01)",
    GD_FIELDS(asam_fields),
    .step = sam_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);

/* ---- down the momentum ---- */

/* Momentum-SAM: gradients are taken a distance rho down the momentum, without an extra evaluation (Becker et al. 2024).
 *
 *     v' = momentum v + g;  u = lr v' + rho v' / |v'| - rho v / |v|
 *
 * The stored parameters are displaced by rho v / |v|; p + rho v / |v| are the true ones.  With weight_decay these
 * decay.  Norms are over all parameters.  msam has its own learning rate: no lr after it.  msam_objective: the step of a chain,
 * with its learning rate, in place of lr v'.  nesterov: g + momentum v' in place of v' in the step; lerp: v' is an average.
 * State: velocity.  A reduction, then one pass. */

#define SETTINGS                                                                                    \
    GD_REAL("momentum", 0.9, -INFINITY, INFINITY, "weight of the past"),                            \
        GD_REAL("rho", 0.3, 0, INFINITY, "distance along the momentum"),                            \
        GD_REAL("weight_decay", 0, -INFINITY, INFINITY, "factor of the parameters that are meant"), \
        GD_FLAG("nesterov", false, "a look ahead in the step"),                                     \
        GD_FLAG("lerp", false, "an average instead of a sum")

static const gd_field msam_fields[] = {GD_REAL_NEEDED("lr", -INFINITY, INFINITY, "step size"), SETTINGS};
static const gd_field objective_fields[] = {
    GD_CHILD_NEEDED("modules", "the chain of the step, with its learning rate"), SETTINGS};

/* Exact, because the stored parameters are displaced by this amount. */
static const gd_slot slots[] = {{"velocity", GD_SLOT_EXACT}};

/* rho v / |v|, 0 for v = 0. */
static gd_value ahead(gd_rule *r, gd_value v)
{
    gd_value norm = gd_rule_norm(r, v, 2, GD_ALL), zero = gd_rule_const(r, 0);
    gd_value scaled = gd_rule_mul(r, v, gd_rule_div(r, gd_rule_setting(r, "rho"), norm));
    return gd_rule_where(r, gd_rule_eq(r, norm, zero), zero, scaled);
}

typedef struct moved {
    gd_value step; /* the new velocity, with nesterov the velocity one step ahead */
    gd_value way;  /* rho v' / |v'| - rho v / |v|, and the decay */
} moved;

static moved move(gd_rule *r, gd_value g, gd_value decay)
{
    gd_value before = gd_rule_state(r, "velocity"), momentum = gd_rule_setting(r, "momentum");
    gd_value now = gd_rule_flag(r, "lerp")
                       ? gd_rule_lerp(r, before, g, gd_rule_sub(r, gd_rule_const(r, 1), momentum))
                       : gd_rule_add(r, gd_rule_mul(r, before, momentum), g);
    gd_value old = ahead(r, before), way = gd_rule_sub(r, ahead(r, now), old);
    gd_value meant = gd_rule_add(r, gd_rule_param(r), old);
    gd_rule_set(r, "velocity", now);
    gd_value step = gd_rule_flag(r, "nesterov") ? gd_rule_add(r, g, gd_rule_mul(r, now, momentum)) : now;
    return (moved){step, gd_rule_add(r, way, gd_rule_mul(r, meant, decay))};
}

static gd_value msam_rule(gd_rule *r, gd_value g)
{
    gd_value lr = gd_rule_setting(r, "lr");
    moved m = move(r, g, gd_rule_mul(r, lr, gd_rule_setting(r, "weight_decay")));
    return gd_rule_add(r, gd_rule_mul(r, m.step, lr), m.way);
}

static gd_value msam_objective_rule(gd_rule *r, gd_value g)
{
    moved m = move(r, g, gd_rule_setting(r, "weight_decay"));
    return gd_rule_add(r, gd_rule_child(r, "modules", g), m.way);
}

#define PAPER \
    "Becker, Altrock & Risse, Momentum-SAM: sharpness aware minimization without computational overhead, 2024"

GD_LINK(adaptive, msam,
    .summary = "momentum with the gradient taken down the momentum",
    .formula =
        "b = rho v / max(norm(v), 1e-300);  v = momentum v + u;  lr v + rho v / max(norm(v), 1e-300) - b + lr weight_decay (p + b)",
    .cost = "one more pass, for the norms",
    .paper = PAPER,
    .example = "msam(0.01)",
    GD_FIELDS(msam_fields),
    GD_SLOTS(slots),
    .rule = msam_rule);

GD_LINK(adaptive, msam_objective,
    .summary = "a chain with its gradient taken down a momentum",
    .formula =
        "b = rho v / max(norm(v), 1e-300);  v = momentum v + u;  modules(u) + rho v / max(norm(v), 1e-300) - b + weight_decay (p + b)",
    .cost = "one more pass, for the norms",
    .paper = PAPER,
    .example = "msam_objective([adam | lr(0.001)])",
    GD_FIELDS(objective_fields),
    GD_SLOTS(slots),
    .rule = msam_objective_rule);
