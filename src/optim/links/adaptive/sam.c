/* Sharpness-aware minimisation: the gradient is taken at the worst point near by (Foret et al. 2020).
 *
 *     e = rho sign(g) |g|^(q-1) / |g|_q^(q/p),  1/p + 1/q = 1;  gradient at x + e.  p = 2: e = rho g / |g|
 *
 * p = 1 is the limit: all of rho along the steepest coordinate, shared where several are.
 *
 * asam (Kwon et al. 2021) measures distance relative to the parameters: with w = |x|, e = rho w^2 g / |w g|.
 *
 * A closure made of two evaluations: all links after it see the loss at x and the gradient at x + e.  A gradient of zero, or
 * one that is not finite, leads nowhere: it is handed on after the first.  eps is added to the norm. */
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

/* u = sign(g) |g|^(q-1), of which the way is a multiple; *sum is that of |g|^q, or of what is left for p = 1. */
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

/* The way to the worst point, in out: new tensors of the current scope.  *leads is false where there is none. */
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
        /* this gradient is needed no more, and there is a second one to come */
        for (int i = 0; i < count; i++) gd_release(grads[i]);
        status = gd_var_inner_evaluate_at(var, 1, way, &there, grads);
    }
    gd_no_grad_end(ctx);
    return status;
}

static gd_status sam_step(gd_link *link, gd_var *var) { return gd_var_wrap_closure(var, worst_point, link); }

const gd_link_class gd_link_sam = {
    .spread = GD_SPREAD_VECTOR,
    .name = "sam",
    .family = "adaptive",
    .summary = "gradient at the worst point near by",
    .formula = "g(x + rho g / |g|)",
    .paper = "Foret, Kleiner, Mobahi & Neyshabur, Sharpness-aware minimization, 2020",
    .cost = "one more evaluation with gradient a step; a copy of the parameters meanwhile",
    .example = "sam(0.05) | heavy_ball | lr(0.01)",
    GD_FIELDS(sam_fields),
    .step = sam_step,
    .needs_closure = true,
    .restores_params = true,
};

const gd_link_class gd_link_asam = {
    .spread = GD_SPREAD_VECTOR,
    .name = "asam",
    .family = "adaptive",
    .summary = "gradient at the worst point near by, measured relative to the parameters",
    .formula = "g(x + rho x^2 g / |x g|)",
    .paper = "Kwon, Kim, Park & Choi, ASAM: adaptive sharpness-aware minimization, 2021",
    .cost = "one more evaluation with gradient a step; a copy of the parameters meanwhile",
    .example = "asam(0.5) | heavy_ball | lr(0.01)",
    GD_FIELDS(asam_fields),
    .step = sam_step,
    .needs_closure = true,
    .restores_params = true,
};
