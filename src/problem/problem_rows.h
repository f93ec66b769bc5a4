/* Data whose rows are evaluated by microbatches, and distributed over processes. */
#ifndef GD_PROBLEM_PROBLEM_ROWS_H
#define GD_PROBLEM_PROBLEM_ROWS_H

#include "problem/problem.h"

typedef struct gd_problem_rows {
    gd_problem *problem;
    gd_expr *expr;     /* the same expression, of some of the rows */
    gd_tensor **value; /* its names, cut if `cut` is set */
    bool *cut;
    size_t bytes;
    gd_batch batch; /* rows 0: all is evaluated at once */
} gd_problem_rows;

/* The data of these names are cut into microbatches, and p->rows is set.  microbatch: its rows; 0: all rows at once; -1: not given, with a
 * world an eighth of the rows, else all.  ARGUMENT, SHAPE: names that are not data, different numbers of rows; VALUE: a loss that is not a sum
 * or mean over the rows at the start.  gd__problem_rows_close also after a failure. */
GD_NODISCARD gd_status gd__problem_rows_open(gd_problem *p, const gd_words *names, gd_world *world,
                                             int64_t microbatch, gd_problem_rows *out);
void gd__problem_rows_close(gd_problem_rows *g);

#endif
