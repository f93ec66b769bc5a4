/* Links that show something and change nothing: print_loss the loss, print_update the update, one message per parameter, long ones
 * shortened.  The library prints nothing itself: messages go to the `tell` of the context's gd_options; the program
 * gradus writes them on standard error.  No state. */
#include "gradus/link.h"

#define TEXT(WORDS)                                                                                   \
    {                                                                                                 \
        .name = "text", .kinds = GD_SET_STRING, .fallback = {.kind = GD_SET_STRING, .string = WORDS}, \
        .help = "text in front of it"                                                                 \
    }

static const gd_field loss_fields[] = {TEXT("loss = ")};
static const gd_field update_fields[] = {TEXT("update = ")};

static const char *text_of(const gd_link *link) { return gd_link_get(link, "text", NULL)->string; }

/* With its gradient, so that a chain which continues with it evaluates once. */
static gd_status print_loss_step(gd_link *link, gd_var *var)
{
    double loss = gd_var_loss_value(var, true);
    if (gd_error(gd_var_ctx(var))) return gd_error(gd_var_ctx(var));
    gd_tell(gd_var_ctx(var), "%.1000s%.17g", text_of(link), loss);
    return GD_OK;
}

static gd_status print_update_step(gd_link *link, gd_var *var)
{
    gd_tensor *const *update = gd_var_read_update(var);
    if (!update) return gd_error(gd_var_ctx(var));
    for (int i = 0; i < gd_var_count(var); i++) {
        char form[900];
        bool whole = (size_t)gd_format(update[i], form, sizeof form) < sizeof form;
        gd_tell(gd_var_ctx(var), "%.1000s%s%s", text_of(link), form, whole ? "" : "...");
    }
    return gd_error(gd_var_ctx(var));
}

#define PRINT(NAME, SUMMARY, COST, EXAMPLE, FIELDS) \
    GD_LINK(misc, NAME, .summary = SUMMARY, .formula = "u", .cost = COST, .example = EXAMPLE, \
            GD_FIELDS(FIELDS), .step = NAME##_step, .spread = GD_SPREAD_WHOLE)

PRINT(print_loss, "shows the loss", "nothing where a later link asks for the gradient",
      "print_loss | adam | lr(0.01)", loss_fields);
PRINT(print_update, "shows the update", "ends the pass before it; reads the update",
      "adam | print_update | lr(0.01)", update_fields);
