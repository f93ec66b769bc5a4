/* Finds the plugin that factors sparse matrices. */
#include "optim/solve/numbers/cholesky_plugin.h"

#include <string.h>

gd_status gd__cholesky_begin(gd_ctx *ctx, int64_t m, int64_t n, const int64_t *start, const int64_t *column,
                             int64_t most, double work, gd_outer_factor *out, bool *fits)
{
    const char *name;
    *fits = false;
    *out = (gd_outer_factor){.ctx = ctx, .host = gd__plugin_host(), .layout = GD_CHOLESKY_LAYOUT};
    for (int i = 0; (name = gd__plugin_name(GD_PLUGIN_SPARSE, i)); i++) {
        gd_plugin_found found = gd__plugin_symbol(ctx, GD_PLUGIN_SPARSE, name, "gd_plugin_cholesky");
        if (!found.symbol) continue;
        gd_plugin_cholesky_fn open;
        memcpy(&open, &found.symbol, sizeof open);
        out->m = m, out->n = n, out->start = start, out->column = column;
        out->most = most, out->work = work;
        gd_status status = open(out, fits);
        if (status || !*fits) gd__cholesky_end(out);
        return status;
    }
    return GD_OK;
}

void gd__cholesky_end(gd_outer_factor *c)
{
    if (c->state) c->close(c->state);
    c->state = NULL;
}
