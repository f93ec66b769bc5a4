/* Gradients from random directions: a few evaluations whatever the number of elements.
 *
 *     g = mean over samples of z (D_z f),   D_z f = sum_k weight_k f(x + at_k h z) / h
 *
 * z has mean 0 and unit covariance (rademacher, gaussian, uniform in +-sqrt 3, or on a sphere of radius sqrt n), so g is
 * the gradient up to the error of the difference, with covariance |g|^2 I + ... (Spall 1992; Nesterov & Spokoiny 2017).
 * For rademacher z = 1/z: spsa, randomized_fdm and rdsa are then the same; gaussian_smoothing and rdsa differ in defaults.
 *
 * z is never stored: every element of it is a function of a counter, recomputed wherever it is needed.  With pre_generate
 * all evaluations of a step use the same directions.
 *
 * mezo (Malladi et al. 2023) allocates nothing of the size of the parameters (elsewhere than on the CPU a few pieces of
 * THERE elements): it moves them in place and back, which leaves them within rounding of where they were, after a failed
 * evaluation too.  As last link, or before the last lr, it also applies the step in place; elsewhere in a chain it must hand
 * on a gradient. */
#include "gradus/link/estimate.h"

#include <math.h>

#define DISTRIBUTION(d) \
    GD_CHOICE("distribution", d, "rademacher|gaussian|normal|uniform|sphere", "of the directions")
#define SAMPLES(n, f)                                             \
    GD_INT("n_samples", n, 1, 1e6, "directions to average over"), \
        GD_CHOICE("formula", f, GD_DIFFERENCE_NAMES, "which points along a direction")
#define H(h)  GD_REAL("h", h, 1e-300, INFINITY, "distance of the points")
#define FIXED GD_FLAG("pre_generate", true, "the same directions for all evaluations of a step")
#define SEED  GD_SEED("of its own random numbers; none: those of the context")

static const gd_field spsa_fields[] = {H(1e-3), SAMPLES(1, "central"), DISTRIBUTION("rademacher"), FIXED,
                                       SEED,    GD_ESTIMATE_TARGET};
static const gd_field rdsa_fields[] = {H(1e-3), SAMPLES(1, "central2"), DISTRIBUTION("gaussian"),
                                       FIXED,   GD_ESTIMATE_TARGET,     SEED};
static const gd_field smoothing_fields[] = {H(1e-2), SAMPLES(100, "forward2"), DISTRIBUTION("gaussian"),
                                            FIXED,   GD_ESTIMATE_TARGET,       SEED};
static const gd_field mezo_fields[] = {H(1e-3), SAMPLES(1, "central2"), DISTRIBUTION("rademacher"),
                                       GD_ESTIMATE_TARGET};

static gd_status sampled_step(gd_link *link, gd_var *var)
{
    gd_status status = gd_link_flag(link, "pre_generate") ? gd_directions_draw(link, var) : GD_OK;
    return status ? status : gd_estimate_step(link, var, gd_directions_estimate);
}

static gd_status mezo_step(gd_link *link, gd_var *var)
{
    gd_status status = gd_directions_draw(link, var);
    if (status) return status;
    bool whole = gd_var_is_last(var) && !gd_var_has_update(var) && !gd_link_is(link, "target", "grad");
    return whole ? gd_directions_step(link, var)
                 : gd_estimate_step(link, var, gd_directions_estimate_in_place);
}

#define SAMPLED(NAME, FIELDS, STEP, SUMMARY, PAPER) \
    GD_LINK(grad_approximation, NAME, .spread = GD_SPREAD_VECTOR, .summary = SUMMARY, \
            .formula = "g = mean of z (f(p + h z) - f(p - h z)) / 2 h", .paper = PAPER, \
            .cost = "2 n_samples evaluations per step, n_samples and one with formula \"forward\"; no gradients", \
            .example = #NAME " | lr(0.01)", GD_FIELDS(FIELDS), \
            .data_size = sizeof(gd_directions), .step = STEP, .traits.needs_closure = true, \
            .traits.restores_params = true);

SAMPLED(gaussian_smoothing, smoothing_fields, sampled_step, "gradient of the loss smoothed by a gaussian",
        "Nesterov & Spokoiny, Random gradient-free minimization of convex functions, 2017")
SAMPLED(mezo, mezo_fields, mezo_step, "gradients from random directions, without memory for them",
        "Malladi et al., Fine-tuning language models with just forward passes, 2023")
SAMPLED(
    randomized_fdm, spsa_fields, sampled_step, "finite differences along random directions",
    "Spall, Multivariate stochastic approximation using a simultaneous perturbation gradient approximation, 1992")
SAMPLED(rdsa, rdsa_fields, sampled_step, "random direction stochastic approximation",
        "Kushner & Clark, Stochastic approximation methods for constrained and unconstrained systems, 1978")
SAMPLED(
    spsa, spsa_fields, sampled_step, "simultaneous perturbation stochastic approximation",
    "Spall, Multivariate stochastic approximation using a simultaneous perturbation gradient approximation, 1992")
