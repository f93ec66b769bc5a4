/* One budget for several fits: a call that fits more than once keeps max_steps, max_evals and max_seconds over all of its fits, and its
 * callback sees counts and seconds of the whole call. */
#ifndef GD_OPTIM_SOLVE_SOLVE_BUDGET_H
#define GD_OPTIM_SOLVE_SOLVE_BUDGET_H

#include "gradus/solve.h"

typedef struct gd_budget {
    const gd_solve_options *whole; /* the limits of the call; borrowed */
    bool each;                     /* max_steps limits each fit, not their sum */
    int64_t steps, evals;          /* of the fits so far */
    double begun;                  /* clock at the start of the call */
    bool spent;                    /* no further fit may run */
    gd_stop reason;                /* why, if spent */
} gd_budget;

/* The clock of the call starts. */
gd_budget gd__budget_begin(const gd_solve_options *whole, bool each);
/* *o: the rules of the whole call with the limits that are left, and a callback that adds what was spent before.  False if nothing
 * is left: then the budget is spent. */
bool gd__budget_left(gd_budget *b, gd_solve_options *o);
/* Counts the steps and evaluations of a fit that has ended; a callback that stopped it has stopped the whole call. */
void gd__budget_add(gd_budget *b, const gd_solve_result *result);

#endif
