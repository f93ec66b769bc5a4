/* Distributions that the statistics of a fit need. */
#ifndef GD_CLI_FIT_DISTRIBUTION_H
#define GD_CLI_FIT_DISTRIBUTION_H

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
