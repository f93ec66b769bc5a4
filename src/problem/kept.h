/* The parameters of the lowest loss so far, of a run without a line search: for --out, if the last point has no finite loss. */
#ifndef GD_PROBLEM_KEPT_H
#define GD_PROBLEM_KEPT_H

#include "problem/problem.h"

typedef struct gd_kept {
    gd_tensor **before, **best; /* where the last step began (its loss is known after it); owned */
    size_t bytes;
    double loss; /* of the best; INFINITY at first */
} gd_kept;

/* Begins with the parameters where they are; gd__kept_stop also after a failure. */
GD_NODISCARD gd_status gd__kept_start(gd_kept *k, const gd_problem *p);
/* After a step: the loss is that of the point where it began.  Does nothing if not started. */
GD_NODISCARD gd_status gd__kept_step(gd_kept *k, const gd_problem *p, double loss);
void gd__kept_stop(gd_kept *k, const gd_problem *p);

#endif
