/* Presets with typed settings: the same chains as the texts "sgd(...)" and "adamw(...)". */
#include "gradus/presets.h"

gd_sgd_options gd_sgd_defaults(void) { return (gd_sgd_options){.lr = 1e-3}; }

gd_link *gd_sgd(gd_ctx *ctx, const gd_sgd_options *given)
{
    gd_sgd_options o = given ? *given : gd_sgd_defaults();
    const gd_link_option list[] = {gd_number_option("lr", o.lr), gd_number_option("momentum", o.momentum),
                                   gd_number_option("dampening", o.dampening),
                                   gd_number_option("weight_decay", o.weight_decay),
                                   gd_flag_option("nesterov", o.nesterov)};
    return gd_link_with(ctx, "sgd", list, sizeof list / sizeof *list);
}

gd_adamw_options gd_adamw_defaults(void)
{
    return (gd_adamw_options){
        .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01, .eps_at = "raw"};
}

gd_link *gd_adamw(gd_ctx *ctx, const gd_adamw_options *given)
{
    gd_adamw_options o = given ? *given : gd_adamw_defaults();
    const gd_link_option adam[] = {gd_number_option("beta1", o.beta1), gd_number_option("beta2", o.beta2),
                                   gd_number_option("eps", o.eps), gd_flag_option("amsgrad", o.amsgrad),
                                   gd_string_option("eps_at", o.eps_at ? o.eps_at : "raw")};
    const gd_link_option decay = gd_number_option("weight_decay", o.weight_decay),
                         lr = gd_number_option("lr", o.lr);
    gd_link *links[] = {gd_link_with(ctx, "adam", adam, sizeof adam / sizeof *adam),
                        gd_link_with(ctx, "weight_decay", &decay, 1), gd_link_with(ctx, "lr", &lr, 1)};
    return ctx ? gd_chain_of(ctx, links, 3) : NULL;
}
