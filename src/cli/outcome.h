/* What a long run leaves when it fails: the first failure is put aside, what there is gets written, then it is told.
 *
 *   gd_trouble why = {0};
 *   gd__put_aside(ctx, solve(), &why);
 *   gd__put_aside(ctx, save(), &why);       after a failure too
 *   return gd__tell(ctx, &why, out, NULL);  "trace.jsonl: cannot write: ...; run.safetensors has the parameters"
 */
#ifndef GD_CLI_OUTCOME_H
#define GD_CLI_OUTCOME_H

#include "base/ctx.h"

typedef struct gd_trouble {
    gd_status status; /* OK: none so far */
    char text[1024];
} gd_trouble;

/* Keeps the first failure, and clears the context's error so that work can go on. */
void gd__put_aside(gd_ctx *ctx, gd_status status, gd_trouble *trouble);
/* Records it again, with the file that has `what` (NULL: the parameters); file NULL: none has.  Its status. */
GD_NODISCARD gd_status gd__tell(gd_ctx *ctx, const gd_trouble *trouble, const char *file, const char *what);

/* ---- steps so slow that a signal may not wait for their end: the point is saved after each of them ---- */

typedef struct gd_slow_save {
    double begun; /* the step */
    bool saved;   /* something is in the file */
    bool failed;  /* and was told */
} gd_slow_save;

/* After a step: has it taken so long?  The next one begins. */
bool gd__slow_step(gd_slow_save *s);
/* What came of the save: a failure is a warning, the first time, and the run goes on. */
void gd__slow_saved(gd_ctx *ctx, gd_slow_save *s, gd_status status);

#endif
