/* Slow steps; see outcome.h. */
#include "cli/outcome.h"
#include "cli/cli.h"

bool gd__slow_step(gd_slow_save *s)
{
    double now = gd__cli_seconds(), begun = s->begun;
    s->begun = now;
    return now - begun > GD_GRACE / 2;
}

void gd__slow_saved(gd_ctx *ctx, gd_slow_save *s, gd_status status)
{
    gd_trouble why = {.status = GD_OK};
    s->saved = s->saved || !status;
    if (status) gd__put_aside(ctx, status, &why);
    if (status && !s->failed) gd_warn(ctx, "%s; the run continues", why.text);
    s->failed = status != GD_OK;
    s->begun = gd__cli_seconds();
}
