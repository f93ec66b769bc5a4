/* Presets with typed settings: the same chains as the texts "sgd(...)" and "adamw(...)". */
#include "gradus/presets.h"
#include "base/text.h"

static gd_link *from_text(gd_text *text)
{
    gd_link *chain = text->failed ? NULL : gd_chain(text->ctx, text->data);
    gd__text_free(text);
    return chain;
}

gd_sgd_options gd_sgd_defaults(void) { return (gd_sgd_options){.lr = 1e-3}; }

gd_link *gd_sgd(gd_ctx *ctx, const gd_sgd_options *given)
{
    if (!ctx) return NULL;
    gd_sgd_options o = given ? *given : gd_sgd_defaults();
    gd_text text = {.ctx = ctx};
    gd__text_put(&text, "sgd(%.17g, %.17g, %.17g, %.17g, %s)", o.lr, o.momentum, o.dampening, o.weight_decay,
                 o.nesterov ? "true" : "false");
    return from_text(&text);
}

gd_adamw_options gd_adamw_defaults(void)
{
    return (gd_adamw_options){.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01};
}

gd_link *gd_adamw(gd_ctx *ctx, const gd_adamw_options *given)
{
    if (!ctx) return NULL;
    gd_adamw_options o = given ? *given : gd_adamw_defaults();
    gd_text text = {.ctx = ctx};
    gd__text_put(&text, "adamw(%.17g, %.17g, %.17g, %.17g, %.17g, %s)", o.lr, o.beta1, o.beta2, o.eps,
                 o.weight_decay, o.amsgrad ? "true" : "false");
    return from_text(&text);
}
