/* Updates in units of the loss f: multiplied by it, divided by it, or replaced by it in every element. A loss below min_value
 * counts as min_value.
 *
 * backward: the gradient is evaluated too, with the loss if that is not known yet; false: only the loss, which saves work if
 * nothing reads the gradient, and costs one more evaluation if a later link does.  No state.  mul_by_loss and
 * div_by_loss are element-wise and fuse; fill_loss, which must not ask for an update, does not. */
#include "gradus/link.h"

#define ALPHA    GD_REAL("alpha", 1, -INFINITY, INFINITY, "factor of the loss")
#define LEAST    GD_REAL("min_value", 1e-8, -INFINITY, INFINITY, "least value that the loss counts as")
#define BACKWARD GD_FLAG("backward", true, "evaluate the gradient with the loss")

static const gd_field fields[] = {ALPHA, LEAST, BACKWARD};
static const gd_field fill_fields[] = {ALPHA, BACKWARD};

static gd_value factor(gd_rule *r)
{
    /* naming the gradient makes the step evaluate it; an unused input is not read */
    if (gd_rule_flag(r, "backward")) (void)gd_rule_grad(r);
    gd_value loss = gd_rule_max(r, gd_rule_loss(r), gd_rule_setting(r, "min_value"));
    return gd_rule_mul(r, gd_rule_setting(r, "alpha"), loss);
}

static gd_value mul_by_loss_rule(gd_rule *r, gd_value u) { return gd_rule_mul(r, u, factor(r)); }

static gd_value div_by_loss_rule(gd_rule *r, gd_value u) { return gd_rule_div(r, u, factor(r)); }

static gd_status fill_loss_step(gd_link *link, gd_var *var)
{
    double loss = gd_var_loss_value(var, gd_link_flag(link, "backward"));
    int count = gd_var_count(var);
    gd_tensor **filled = gd_error(gd_var_ctx(var)) ? NULL : gd_link_scratch(link, count);
    gd_status status = filled ? GD_OK : gd_error(gd_var_ctx(var));
    for (int i = 0; i < count && !status; i++) {
        gd_tensor *param = gd_var_params(var)[i];
        filled[i] = gd_full_like(param, loss * gd_link_real(link, "alpha", param));
        if (!filled[i]) status = gd_error(gd_var_ctx(var));
    }
    return status ? status : gd_var_set_update(var, filled);
}

#define BY_LOSS(NAME, SUMMARY, FORMULA, EXAMPLE) \
    GD_RULE_LINK(misc, NAME, SUMMARY, FORMULA, EXAMPLE, GD_FIELDS(fields), .traits.uses_loss = true)

BY_LOSS(mul_by_loss, "multiplies the update by the loss", "u alpha max(f, min_value)",
        "mul_by_loss | lr(0.001)");
BY_LOSS(div_by_loss, "divides the update by the loss", "u / (alpha max(f, min_value))",
        "div_by_loss | lr(0.1)");

GD_LINK(misc, fill_loss,
    .summary = "the loss in every element",
    .formula = "alpha f",
    .cost = "an evaluation where there was none; a pass that writes",
    .example = "mul([fill_loss | sqrt]) | lr(0.01)",
    GD_FIELDS(fill_fields),
    .step = fill_loss_step,
    .spread = GD_SPREAD_FLAT);
