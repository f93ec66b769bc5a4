/* Data whose rows are evaluated by grains, and shared by processes: --split and --grain. */
#ifndef GD_CLI_PROBLEM_GRAINS_H
#define GD_CLI_PROBLEM_GRAINS_H

#include "cli/cli.h"
#include "cli/problem/problem.h"
#include "gradus/optim.h"

#define GD_SPLIT_OPTIONS                                                                                                    \
    GD_OPTION(                                                                                                              \
        "split", "NAMES",                                                                                                   \
        "data, joined by commas, whose rows processes share: the loss is then to be a vector, or a sum or mean over them"), \
        GD_OPTION(                                                                                                          \
            "grain", "ROWS",                                                                                                \
            "rows of --split that are evaluated at a time; equal grains give equal bits with any number of processes; 0: "  \
            "all (0; with several processes an eighth of the rows)"),                                                       \
        GD_WORLD_OPTION

typedef struct gd_problem_grains {
    gd_problem *problem;
    gd_expr *expr;     /* the same expression, of some of the rows */
    gd_tensor **value; /* what it is of */
    bool *cut;         /* which are cut */
    size_t bytes;
    gd_batch batch;
} gd_problem_grains;

/* Reads --split and --grain; out->batch.rows stays 0 where all is evaluated at once.  ARGUMENT, SHAPE: names that are no data, other
 * numbers of rows; VALUE: a loss that is no sum or mean over the rows where the parameters start.  gd__grains_close also after a
 * failure. */
GD_NODISCARD gd_status gd__grains_open(gd_problem *p, gd_cli *cli, const gd_args *args,
                                       gd_problem_grains *out);
void gd__grains_close(gd_problem_grains *g);

#endif
