/* Is a point one where the conditions of Karush, Kuhn and Tucker hold?  With derivatives and multipliers of its own. */
#ifndef GD_SUPPORT_KKT_H
#define GD_SUPPORT_KKT_H

#define KKT_MOST 96 /* variables; columns of multipliers */

typedef struct kkt_problem {
    int n, equal, below; /* c: first those that are to be 0, then those that are to be at most 0 */
    const double *low, *high;
    void *user;
    void (*values)(void *user, const double *x, double *f, double *c);
} kkt_problem;

/* The largest element of grad f + J'y + multipliers of bounds, by max(1, largest of grad f), and of multipliers times distances, by
 * max(1, |f|).  The multipliers are the best ones of what x is within `near` of: those of inequalities and bounds have their sign
 * (nonnegative least squares).  Derivatives: differences of fourth order. */
double kkt_residual(const kkt_problem *p, const double *x, double near);

#endif
