/* Bounds of parameters as a link in front of a chain. */
#include "optim/chain/bounds_chain.h"

gd_link *gd__bounds_chain(gd_ctx *ctx, gd_link *chain, gd_tensor *const *params, int count, const double *low,
                          const double *high)
{
    gd_link *box = chain ? gd_chain(ctx, "box") : NULL;
    gd_status status = box ? GD_OK : gd_error(ctx);
    for (int i = 0; i < count && !status; low += gd_numel(params[i]), high += gd_numel(params[i]), i++) {
        int n = (int)gd_numel(params[i]);
        status = gd_link_set_for(box, params[i], "low", gd_setting_list(low, n));
        if (!status) status = gd_link_set_for(box, params[i], "high", gd_setting_list(high, n));
    }
    if (!status) return gd_chain_of(ctx, (gd_link *[]){box, chain}, 2);
    gd_link_release(box);
    gd_link_release(chain);
    return NULL;
}
