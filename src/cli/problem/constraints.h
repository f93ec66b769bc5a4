/* Constraints of the command line: expressions in the names of a problem. */
#ifndef GD_CLI_PROBLEM_CONSTRAINTS_H
#define GD_CLI_PROBLEM_CONSTRAINTS_H

#include "cli/problem/problem.h"

/* The expressions of an option. */
typedef struct gd_constraints {
    gd_expr **expr;
    int count;
    size_t bytes;
} gd_constraints;

/* Reads an option of args; gd__constraints_free also after a failure.  ARGUMENT: no parameter is in one. */
GD_NODISCARD gd_status gd__constraints_read(const gd_problem *p, const gd_args *args, const char *option,
                                            gd_constraints *out);
/* ARGUMENT: a --data that neither the expression nor a constraint has (NULL: there are none). */
GD_NODISCARD gd_status gd__data_check(const gd_problem *p, const gd_constraints *equal,
                                      const gd_constraints *below);
void gd__constraints_free(gd_ctx *ctx, gd_constraints *c);
/* All elements of all of them, one after the other.  New. */
gd_tensor *gd__constraints_values(const gd_problem *p, const gd_constraints *c);

#endif
