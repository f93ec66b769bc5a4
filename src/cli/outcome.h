/* Steps so slow that a signal may not wait for their end: the point is saved after each of them. */
#ifndef GD_CLI_OUTCOME_H
#define GD_CLI_OUTCOME_H

#include "base/trouble.h"

typedef struct gd_slow_save {
    double begun; /* the step */
    bool saved;   /* something is in the file */
    bool failed;  /* and a warning was printed */
} gd_slow_save;

/* After a step: was it slow? Starts the clock of the next one. */
bool gd__slow_step(gd_slow_save *s);
/* The result of a save: the first failure is a warning, and the run continues. */
void gd__slow_saved(gd_ctx *ctx, gd_slow_save *s, gd_status status);

#endif
