/* Homotopies: minimise a monotone function of the loss instead. */
#include "gradus/link.h"

static gd_tensor *square_root(void *user, gd_tensor *loss)
{
    (void)user;
    return gd_sqrt(loss);
}

static gd_status sqrt_step(gd_link *link, gd_var *var)
{
    (void)link;
    return gd_var_reformulate(var, square_root, NULL);
}

const gd_link_class gd_link_sqrt_homotopy = {
    .name = "sqrt_homotopy",
    .family = "misc",
    .summary = "minimises the root of the loss",
    .formula = "loss -> sqrt(loss)",
    .step = sqrt_step,
    .needs_closure = true,
};
