/* Well-known optimizers as chains, written as the text a user would write. */
#include "gradus/presets.h"
#include "base/text.h"

gd_sgd_options gd_sgd_defaults(void) { return (gd_sgd_options){.lr = 1e-3}; }

static gd_link *from_text(gd_text *text)
{
    gd_link *chain = text->failed ? NULL : gd_chain(text->ctx, text->data);
    gd__text_free(text);
    return chain;
}

gd_link *gd_sgd(gd_ctx *ctx, const gd_sgd_options *given)
{
    if (!ctx) return NULL;
    gd_sgd_options o = given ? *given : gd_sgd_defaults();
    gd_text text = {.ctx = ctx};
    if (o.weight_decay != 0) gd__text_put(&text, "weight_decay(%.17g) | ", o.weight_decay);
    if (o.momentum != 0 && o.nesterov)
        gd__text_put(&text, "nag(%.17g, dampening=%.17g) | ", o.momentum, o.dampening);
    else if (o.momentum != 0)
        gd__text_put(&text, "heavy_ball(%.17g, dampening=%.17g, ema_init=\"zeros\") | ", o.momentum,
                     o.dampening);
    gd__text_put(&text, "lr(%.17g)", o.lr);
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
    gd__text_put(&text, "adam(%.17g, %.17g, %.17g, amsgrad=%s) | weight_decay(%.17g) | lr(%.17g)", o.beta1,
                 o.beta2, o.eps, o.amsgrad ? "true" : "false", o.weight_decay, o.lr);
    return from_text(&text);
}
