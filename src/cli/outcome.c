/* Failures put aside; see outcome.h. */
#include "cli/outcome.h"
#include "cli/cli.h"

#include <stdio.h>

void gd__put_aside(gd_ctx *ctx, gd_status status, gd_trouble *trouble)
{
    if (!status) return;
    if (!trouble->status) {
        trouble->status = gd_error(ctx) ? gd_error(ctx) : status;
        (void)snprintf(trouble->text, sizeof trouble->text, "%s",
                       gd_error(ctx) ? gd_error_text(ctx) : "out of memory");
    }
    gd_clear_error(ctx);
}

gd_status gd__tell(gd_ctx *ctx, const gd_trouble *trouble, const char *file, const char *what)
{
    if (!trouble->status) return GD_OK;
    if (!file) return gd_fail(ctx, trouble->status, "%s", trouble->text);
    return gd_fail(ctx, trouble->status, "%s; %s has %s", trouble->text, file,
                   what ? what : "the parameters");
}

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
    if (status && !s->failed) gd_warn(ctx, "%s; the run goes on", why.text);
    s->failed = status != GD_OK;
    s->begun = gd__cli_seconds();
}
