/* Deferred failures; see trouble.h. */
#include "base/trouble.h"

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
