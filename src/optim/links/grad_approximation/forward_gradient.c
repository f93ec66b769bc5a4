/* Gradients from derivatives along random directions, which are kept in memory.
 *
 *   forward_gradient   g = mean over samples of (g.z) z, g.z by autograd or by differences of values      (Baydin et al. 2022)
 *   spsa1              g = mean over samples of f(x + h z) / h z, z = +-1: one value per sample             (Spall 1997)
 *
 * z has unit covariance (uniform numbers in +-sqrt 3, a sphere of radius sqrt n), so both are the gradient on average.  Each sample of
 * spsa1 contains the whole value of f, so it is noisy.  pre_generate: the same directions for all evaluations of a step.
 * forward_gradient by autograd takes all slopes from one gradient, because autograd has reverse mode only. */
#include "gradus/autograd.h"
#include "gradus/link/estimate.h"

#include <math.h>
#include <string.h>

#define SEED     GD_SEED("of its own random numbers; none: those of the context")
#define SAMPLES  GD_INT("n_samples", 1, 1, 1e6, "directions to average over")
#define PRE(yes) GD_FLAG("pre_generate", yes, "the same directions for all evaluations of a step")

static const gd_field forward_fields[] = {
    SAMPLES,
    GD_CHOICE("distribution", "gaussian", GD_DISTRIBUTIONS, "of the directions"),
    PRE(true),
    GD_CHOICE("jvp_method", "autograd", "autograd|forward|central|fd_forward|fd_central",
              "slopes by autograd or by differences of values"),
    GD_REAL("h", 1e-3, 1e-300, INFINITY, "step of differences"),
    GD_ESTIMATE_TARGET,
    SEED,
};

static const gd_field spsa1_fields[] = {
    GD_REAL("h", 1e-3, 1e-300, INFINITY, "distance of the points"),
    SAMPLES,
    GD_REAL("eps", 1e-8, 0, INFINITY, "standard deviation of noise that is added to the value"),
    PRE(false),
    SEED,
    GD_ESTIMATE_TARGET,
};

/* Directions of a step, one list after the other; NULL: each evaluation draws its own. */
typedef struct drawn {
    gd_tensor **z;
} drawn;

static gd_status draw_direction(gd_link *link, gd_var *var, gd_tensor **z)
{
    int count = gd_var_count(var);
    bool named = gd_link_has_field(link, "distribution");
    const char *kind = named ? gd_link_get(link, "distribution", NULL)->string : "rademacher";
    int64_t n = 0;
    for (int i = 0; i < count; i++) n += gd_numel(gd_var_params(var)[i]);
    double scale = !strcmp(kind, "uniform") ? sqrt(3) : !strcmp(kind, "sphere") ? sqrt((double)n) : 1;
    gd_status status = gd_link_random_list(link, kind, gd_var_params(var), count, z);
    for (int i = 0; i < count && !status && scale != 1; i++)
        if (!(z[i] = gd_mul_scalar(z[i], scale))) status = gd_error(gd_var_ctx(var));
    return status;
}

/* ---- slopes ---- */

typedef gd_status (*slope_fn)(gd_link *link, gd_var *var, gd_tensor *const *z, gd_tensor *const *gradient,
                              double *slope);

static gd_status value_at(gd_var *var, double a, gd_tensor *const *z, double *out)
{
    gd_tensor *loss = NULL;
    gd_status status = gd_var_inner_evaluate_at(var, a, z, &loss, NULL);
    *out = status ? NAN : gd_item(loss);
    return status ? status : gd_error(gd_var_ctx(var));
}

static gd_status slope_along(gd_link *link, gd_var *var, gd_tensor *const *z, gd_tensor *const *gradient,
                             double *slope)
{
    if (gradient) return gd_list_dot(gradient, z, gd_var_count(var), slope);
    double h = gd_link_real(link, "h", NULL), ahead = NAN, behind = NAN;
    bool central = gd_link_is(link, "jvp_method", "central") || gd_link_is(link, "jvp_method", "fd_central");
    gd_status status = value_at(var, h, z, &ahead);
    if (!status) status = central ? value_at(var, -h, z, &behind) : gd_var_inner_value(var, &behind);
    *slope = (ahead - behind) / (central ? 2 * h : h);
    return status;
}

static gd_status whole_value(gd_link *link, gd_var *var, gd_tensor *const *z, gd_tensor *const *gradient,
                             double *slope)
{
    (void)gradient;
    double h = gd_link_real(link, "h", NULL), noise = gd_link_real(link, "eps", NULL);
    gd_status status = value_at(var, h, z, slope);
    if (!status && noise > 0) {
        gd_tensor *one = gd_link_random(link, GD_RANDOM_NORMAL, gd_scalar(gd_var_ctx(var), GD_F64, 0));
        if (!one) return gd_error(gd_var_ctx(var));
        *slope += noise * gd_item(one);
    }
    *slope /= h;
    return status;
}

/* ---- estimates ---- */

static gd_status add_sample(gd_link *link, gd_var *var, gd_tensor *const *z, gd_tensor *const *gradient,
                            slope_fn fn, gd_tensor **grads)
{
    double slope = 0, samples = gd_link_real(link, "n_samples", NULL);
    gd_status status = fn(link, var, z, gradient, &slope);
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        gd_tensor *one = gd_mul_scalar(z[i], slope / samples);
        if (!(grads[i] = grads[i] ? gd_add(grads[i], one) : one)) status = gd_error(gd_var_ctx(var));
    }
    return status;
}

static gd_status estimate(gd_link *link, gd_var *var, gd_tensor *const *gradient, slope_fn fn,
                          gd_tensor **grads)
{
    int count = gd_var_count(var), samples = (int)gd_link_real(link, "n_samples", NULL);
    const drawn *d = gd_link_data(link);
    gd_tensor **own = gd_link_scratch(link, count);
    gd_status status = own ? GD_OK : gd_error(gd_var_ctx(var));
    gd_no_grad_begin(gd_var_ctx(var));
    for (int s = 0; s < samples && !status; s++) {
        if (!d->z) status = draw_direction(link, var, own);
        if (!status)
            status = add_sample(link, var, d->z ? d->z + (size_t)s * (size_t)count : own, gradient, fn,
                                grads);
    }
    gd_no_grad_end(gd_var_ctx(var));
    return status;
}

static gd_status forward_estimate(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    bool exact = gd_link_is(link, "jvp_method", "autograd");
    gd_tensor **gradient = gd_link_scratch(link, gd_var_count(var));
    gd_status status = gradient ? gd_var_inner_evaluate(var, loss, exact ? gradient : NULL)
                                : gd_error(gd_var_ctx(var));
    return status ? status : estimate(link, var, exact ? gradient : NULL, slope_along, grads);
}

static gd_status spsa1_estimate(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    (void)loss;
    return estimate(link, var, NULL, whole_value, grads);
}

/* Draws what all evaluations of the step use. */
static gd_status draw_directions(gd_link *link, gd_var *var)
{
    int count = gd_var_count(var), samples = (int)gd_link_real(link, "n_samples", NULL);
    drawn *d = gd_link_data(link);
    d->z = NULL;
    if (!gd_link_flag(link, "pre_generate")) return GD_OK;
    gd_tensor **z = gd_link_memory(link, (size_t)samples * (size_t)count * sizeof *z);
    gd_status status = z ? GD_OK : gd_error(gd_var_ctx(var));
    for (int s = 0; s < samples && !status; s++)
        status = draw_direction(link, var, z + (size_t)s * (size_t)count);
    if (!status) d->z = z;
    return status;
}

static gd_status forward_step(gd_link *link, gd_var *var)
{
    gd_status status = draw_directions(link, var);
    return status ? status : gd_estimate_step(link, var, forward_estimate);
}

static gd_status spsa1_step(gd_link *link, gd_var *var)
{
    gd_status status = draw_directions(link, var);
    return status ? status : gd_estimate_step(link, var, spsa1_estimate);
}

GD_LINK(grad_approximation, forward_gradient,
    .spread = GD_SPREAD_VECTOR,
    .summary = "gradient from slopes along random directions",
    .formula = "g = mean of (g.z) z",
    .paper = "Baydin et al., Gradients without backpropagation, 2022",
    .cost = "one gradient per step, or two values per sample",
    .example = "forward_gradient | lr(0.01)",
    GD_FIELDS(forward_fields),
    .data_size = sizeof(drawn),
    .step = forward_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);

GD_LINK(grad_approximation, spsa1,
    .spread = GD_SPREAD_VECTOR,
    .summary = "simultaneous perturbation with one value per sample",
    .formula = "g = mean of z f(p + h z) / h",
    .paper = "Spall, A one-measurement form of simultaneous perturbation stochastic approximation, 1997",
    .cost = "n_samples values per step; no gradients",
    .example = "spsa1(0.1) | lr(1e-6)",
    GD_FIELDS(spsa1_fields),
    .data_size = sizeof(drawn),
    .step = spsa1_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);
