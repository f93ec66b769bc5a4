/* Systems of ordinary differential equations as a function of an expression: ode("x' = v; v' = -k*x", [x0, 0], t). */
#ifndef GD_EXPR_ODE_H
#define GD_EXPR_ODE_H

#include "expr/expr_internal.h"

typedef struct gd_expr_ode gd_expr_ode;

struct gd_expr_parser;

/* Reads the equations: names of states with ' and right sides, separated by ;.  They see the definitions before the one that `outer`
 * is reading.  t in them is the time.  New; NULL with PARSE recorded. */
gd_expr_ode *gd__expr_ode_parse(struct gd_expr_parser *outer, const char *text, size_t length, bool stiff);
void gd__expr_ode_free(gd_expr_ode *o); /* NULL is fine */
/* The names in the right sides that are neither states nor t. */
int gd__expr_ode_names(const gd_expr_ode *o);
const char *gd__expr_ode_name(const gd_expr_ode *o, int i); /* borrowed */

/* The states at times t [rows] or 0-d, from x0 (a number, or [states]) at t0, with values for the names: [rows] of one state, else
 * [states, rows].  Recorded for gradients.  New; NULL: SHAPE, or what a right side fails with. */
gd_tensor *gd__expr_ode_solve(const gd_expr_ode *o, gd_tensor *x0, gd_tensor *t, gd_tensor *t0,
                              gd_tensor *const *values, gd_dtype dtype);

#endif
