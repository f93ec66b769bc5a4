/* Special functions that the C library lacks, or implements with a global variable.  Each is one function for every instruction
 * set: the same bits everywhere. */
#ifndef GD_BASE_SPECIAL_H
#define GD_BASE_SPECIAL_H

#define GD_POLYGAMMA_ORDERS 20 /* the highest order */

double gd__lgamma(double x); /* log |Gamma(x)| */
/* The derivative of order 0 to GD_POLYGAMMA_ORDERS of the digamma function; NaN at its poles 0, -1, -2, ... */
double gd__polygamma(int order, double x);

/* ---- distributions ---- */

/* Student's t: P(T <= t) with that many degrees of freedom. */
double gd__student_cdf(double t, double dof);
/* The t with P(|T| <= t) = level; INFINITY for dof <= 0. */
double gd__student_quantile(double level, double dof);
/* The z with P(|Z| <= z) = level for the normal distribution. */
double gd__normal_quantile(double level);
/* P(X > x) of chi-square and of F. */
double gd__chi_square_tail(double x, double dof);
double gd__f_tail(double x, double dof1, double dof2);

#endif
