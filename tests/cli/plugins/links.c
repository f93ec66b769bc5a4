/* Plugins that the tests load: one source, compiled as what the macro says. */
#include <gradus/gradus.h>

static gd_value twice(gd_rule *r, gd_value u)
{
    return gd_rule_mul(r, u, gd_rule_mul(r, gd_rule_const(r, 2), gd_rule_setting(r, "factor")));
}

static const gd_field fields[] = {GD_REAL("factor", 1, 0, 100, "times two")};

#ifdef PLUGIN_TAKEN
#define SECOND "adam"
#else
#define SECOND "plugin_gradient"
#endif

static const gd_link_class twice_class = {.name = "plugin_twice",
                                          .family = "plugins",
                                          .summary = "doubles the update",
                                          GD_FIELDS(fields),
                                          .rule = twice};

/* Asks for the gradient by functions of the library that the program must offer. */
static gd_status gradient_step(gd_link *link, gd_var *var)
{
    (void)link;
    return gd_var_grad(var) ? gd_var_set_update(var, gd_var_grad(var)) : gd_error(gd_var_ctx(var));
}

static const gd_link_class gradient_class = {
    .name = SECOND, .family = "plugins", .summary = "the gradient", .step = gradient_step};

#if defined PLUGIN_NOTHING
const gd_link_class *plugin_test_classes[] = {&twice_class, &gradient_class};
#elif defined PLUGIN_OLDER
static const gd_link_class *const classes[] = {&twice_class, &gradient_class};
const gd_link_plugin gd_plugin_links = {"0.0.9", sizeof(gd_link_class), sizeof(gd_field), classes, 2};
#elif defined PLUGIN_OTHER
static const gd_link_class *const classes[] = {&twice_class, &gradient_class};
const gd_link_plugin gd_plugin_links = {GD_VERSION, sizeof(gd_link_class) + 8, sizeof(gd_field), classes, 2};
#elif defined PLUGIN_EMPTY
static const gd_link_class *const classes[] = {&twice_class, &gradient_class};
const gd_link_plugin gd_plugin_links = {GD_VERSION, sizeof(gd_link_class), sizeof(gd_field), classes, 0};
#elif defined PLUGIN_SENSELESS
static const gd_link_class senseless_class = {.name = "plugin_senseless", .summary = "does nothing"};
GD_LINK_PLUGIN(&twice_class, &gradient_class, &senseless_class)
#elif defined PLUGIN_UNRESOLVED
void nobody_has_this(void);
static gd_status lost_step(gd_link *link, gd_var *var)
{
    nobody_has_this();
    return gradient_step(link, var);
}
static const gd_link_class lost_class = {.name = "plugin_lost", .summary = "", .step = lost_step};
GD_LINK_PLUGIN(&twice_class, &gradient_class, &lost_class)
#else
GD_LINK_PLUGIN(&twice_class, &gradient_class)
#endif
