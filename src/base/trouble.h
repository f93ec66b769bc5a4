/* Failures of long runs: the first failure is deferred, the rest of the work is done, then the failure is recorded.
 *
 *   gd_trouble why = {0};
 *   gd__put_aside(ctx, solve(), &why);
 *   gd__put_aside(ctx, save(), &why);       after a failure too
 *   return gd__tell(ctx, &why, out, NULL);  "trace.jsonl: cannot write: ...; run.safetensors has the parameters"
 */
#ifndef GD_BASE_TROUBLE_H
#define GD_BASE_TROUBLE_H

#include "base/ctx.h"

typedef struct gd_trouble {
    gd_status status; /* OK: none so far */
    char text[1024];
} gd_trouble;

/* Keeps the first failure, and clears the context's error so that work can continue. */
void gd__put_aside(gd_ctx *ctx, gd_status status, gd_trouble *trouble);
/* Records it again, with the file that has `what` (NULL: the parameters); file NULL: no file. Returns its status. */
GD_NODISCARD gd_status gd__tell(gd_ctx *ctx, const gd_trouble *trouble, const char *file, const char *what);

#endif
