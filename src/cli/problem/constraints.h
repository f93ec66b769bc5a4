/* Constraints of the command line: expressions and relations in the names of a problem.
 *
 *   --below 'x^2 + y^2 - 1'    the value is at most 0
 *   --below 'x^2 + y^2 <= 1'   a relation; > and >= are turned round; several in a row, '0 <= x*y <= 1', are a constraint each
 *   --equal 'sum(w) = 1'       both sides are equal; = and == mean the same
 *   --subject RELATION         any of them */
#ifndef GD_CLI_PROBLEM_CONSTRAINTS_H
#define GD_CLI_PROBLEM_CONSTRAINTS_H

#include "cli/problem/problem.h"

typedef struct gd_constraint {
    gd_expr *expr;      /* whose value is to be 0, or at most 0 */
    const char *option; /* that gave it; static */
    char *text;         /* as it was written */
} gd_constraint;

typedef struct gd_constraints {
    gd_constraint *item;
    int count;
    size_t bytes;
} gd_constraints;

/* Reads --equal, --below and --subject of args; gd__constraints_free also after a failure.  ARGUMENT: no parameter is in one.  PARSE:
 * its sign contradicts the option, or its value is true or false. */
GD_NODISCARD gd_status gd__constraints_read(const gd_problem *p, const gd_args *args, gd_constraints *equal,
                                            gd_constraints *below);
/* ARGUMENT: a --param or --data that neither the expression nor a constraint has (NULL: there are none). */
GD_NODISCARD gd_status gd__names_check(const gd_problem *p, const gd_constraints *equal,
                                       const gd_constraints *below);
void gd__constraints_free(gd_ctx *ctx, gd_constraints *c);
/* All elements of all of them, one after the other.  New. */
gd_tensor *gd__constraints_values(const gd_problem *p, const gd_constraints *c);

/* What is known of them where the parameters are.  multipliers: those of all elements of `equal`, then of `below`; NULL: not known. */
typedef struct gd_constraints_report {
    const gd_problem *problem;
    const gd_constraints *equal, *below;
    const gd_tensor *multipliers;
    double tolerance; /* a line of text says of more than this that it is violated */
} gd_constraints_report;

/* JSON: the members "multipliers" and "constraints" of an object. */
GD_NODISCARD gd_status gd__constraints_json(const gd_constraints_report *r, gd_text *out);
/* A line each. */
GD_NODISCARD gd_status gd__constraints_print(const gd_constraints_report *r, gd_text *out);

/* Multipliers of bounds, a number for each element of the parameters in their order; NULL: not known.  JSON: the member "bound_multipliers",
 * an array for each parameter; text: a line for each that is not 0, of the first ones. */
GD_NODISCARD gd_status gd__bounds_json(const gd_problem *p, const gd_tensor *multipliers, gd_text *out);
GD_NODISCARD gd_status gd__bounds_print(const gd_problem *p, const gd_tensor *multipliers, gd_text *out);

#endif
