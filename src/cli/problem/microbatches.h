/* Data whose rows are evaluated by microbatches, and shared by processes: --split and --microbatch. */
#ifndef GD_CLI_PROBLEM_MICROBATCHES_H
#define GD_CLI_PROBLEM_MICROBATCHES_H

#include "cli/cli.h"
#include "cli/problem/problem.h"
#include "gradus/optim.h"

#define GD_SPLIT_OPTIONS                                                                                                         \
    GD_OPTION(                                                                                                                   \
        "split", "NAMES",                                                                                                        \
        "data, joined by commas, whose rows processes share: the loss is then to be a vector, or a sum or mean over them"),      \
        GD_OPTION(                                                                                                               \
            "microbatch", "ROWS",                                                                                                \
            "rows of --split that are evaluated at a time; equal microbatches give equal bits with any number of processes; 0: " \
            "all (0; with several processes an eighth of the rows)"),                                                            \
        GD_WORLD_OPTION

typedef struct gd_problem_microbatches {
    gd_problem *problem;
    gd_expr *expr;     /* the same expression, of some of the rows */
    gd_tensor **value; /* what it is of */
    bool *cut;         /* which are cut */
    size_t bytes;
    gd_batch batch;
} gd_problem_microbatches;

/* Reads --split and --microbatch; out->batch.rows stays 0 where all is evaluated at once.  ARGUMENT, SHAPE: names that are no data, other
 * numbers of rows; VALUE: a loss that is no sum or mean over the rows where the parameters start.  gd__microbatches_close also after a
 * failure. */
GD_NODISCARD gd_status gd__microbatches_open(gd_problem *p, gd_cli *cli, const gd_args *args,
                                             gd_problem_microbatches *out);
void gd__microbatches_close(gd_problem_microbatches *g);

#endif
