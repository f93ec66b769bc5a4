/* Homotopies: minimise a monotone function of the loss instead.  log and sqrt are taken a little above the loss, so that a
 * loss of zero has a slope. */
#include "gradus/link.h"

#define ABOVE 1e-12

static gd_tensor *square_root(void *user, gd_tensor *loss)
{
    (void)user;
    return gd_sqrt(gd_add_scalar(loss, ABOVE));
}

static gd_tensor *logarithm(void *user, gd_tensor *loss)
{
    (void)user;
    return gd_log(gd_add_scalar(loss, ABOVE));
}

/* With the sign of the loss: monotone below zero too. */
static gd_tensor *square(void *user, gd_tensor *loss)
{
    (void)user;
    return gd_mul(loss, gd_abs(loss));
}

static gd_tensor *exponential(void *user, gd_tensor *loss)
{
    (void)user;
    return gd_exp(loss);
}

#define HOMOTOPY(NAME, function, SUMMARY, FORMULA)           \
    static gd_status NAME##_step(gd_link *link, gd_var *var) \
    {                                                        \
        (void)link;                                          \
        return gd_var_reformulate(var, function, NULL);      \
    }                                                        \
    GD_LINK(misc, NAME, .spread = GD_SPREAD_WHOLE, .summary = SUMMARY, .formula = FORMULA, \
            .cost = "nothing beyond the evaluation", .example = #NAME " | lbfgs | strong_wolfe", \
            .step = NAME##_step, .traits.needs_closure = true, .traits.restores_params = true);

HOMOTOPY(exp_homotopy, exponential, "minimises the exponential of the loss", "loss -> exp(loss)")
HOMOTOPY(log_homotopy, logarithm, "minimises the logarithm of the loss", "loss -> log(loss + 1e-12)")
HOMOTOPY(sqrt_homotopy, square_root, "minimises the root of the loss", "loss -> sqrt(loss + 1e-12)")
HOMOTOPY(square_homotopy, square, "minimises the square of the loss", "loss -> loss |loss|")
