/* Student's t distribution. */
#ifndef GD_CLI_COMMANDS_STUDENT_H
#define GD_CLI_COMMANDS_STUDENT_H

/* P(T <= t) with that many degrees of freedom. */
double gd__student_cdf(double t, double dof);
/* The t with P(|T| <= t) = level; INFINITY for dof <= 0. */
double gd__student_quantile(double level, double dof);

#endif
