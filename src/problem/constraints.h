/* Constraints of a problem: expressions and relations in its names.
 *
 *   below    'x^2 + y^2 - 1'    the value is at most 0
 *            'x^2 + y^2 <= 1'   a relation; > and >= are turned round; several in a row, '0 <= x*y <= 1', are a constraint each
 *   equal    'sum(w) = 1'       both sides are equal; = and == mean the same
 *   subject  RELATION           any of them */
#ifndef GD_PROBLEM_CONSTRAINTS_H
#define GD_PROBLEM_CONSTRAINTS_H

#include "problem/problem.h"

/* Reads those of the spec into p->equal and p->below; part of gd__problem_open.  ARGUMENT: no parameter is in one.  PARSE: its sign
 * contradicts the list, or its value is true or false. */
GD_NODISCARD gd_status gd__problem_read_constraints(gd_problem *p);
void gd__problem_free_constraints(gd_problem *p);
/* All elements of all of them, one after the other.  New. */
gd_tensor *gd__constraints_values(const gd_problem *p, const gd_constraints *c);

/* A constraint at the values of the parameters. */
typedef struct gd_constraint_state {
    const gd_constraint *item;
    bool equal;
    double *value, *multiplier; /* of each element; multiplier NULL: not known */
    int64_t count, before;      /* elements, and those of its side before them */
    int64_t first;              /* those of both sides before them */
    double violation;           /* the largest; NaN counts as infinite */
} gd_constraint_state;

/* Calls fn for each, equalities first, numbered from 0.  multipliers: those of all elements of `equal`, then of `below`; NULL: not known. */
typedef void (*gd_constraint_visitor)(void *user, const gd_constraint_state *state, int number);
GD_NODISCARD gd_status gd__constraints_visit(const gd_problem *p, const gd_tensor *multipliers,
                                             gd_constraint_visitor fn, void *user);
/* After a run that failed: where a constraint is not finite at the parameters, the error becomes one that names it by its text. */
GD_NODISCARD gd_status gd__constraints_explain(const gd_problem *p, gd_status failed);

#endif
