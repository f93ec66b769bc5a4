/* A run over the parameters of a problem that another run can go on with. */
#ifndef GD_CLI_PROBLEM_RUN_STATE_H
#define GD_CLI_PROBLEM_RUN_STATE_H

#include "cli/problem/problem.h"
#include "gradus/optim.h"

/* Parameters, optimizer and random numbers, for an expression, in one file. */
GD_NODISCARD gd_status gd__run_save(const gd_problem *p, gd_optimizer *optimizer, const char *expression,
                                    const char *path);
/* They become those of the file.  VALUE: it is none of these, or of another expression, or a parameter is missing or has another
 * shape; MISMATCH: of another chain.  What gd_archive_load records. */
GD_NODISCARD gd_status gd__run_load(gd_problem *p, gd_optimizer *optimizer, const char *expression,
                                    const char *path);

#endif
