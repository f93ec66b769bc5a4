/* Sequential quadratic programming in a trust region, whose subproblems the interior point solves. */
#ifndef GD_OPTIM_METHODS_NLP_SQP_H
#define GD_OPTIM_METHODS_NLP_SQP_H

#include "optim/methods/nlp/interior_point.h"

/* Numbers kept from step to step; all are doubles. */
typedef struct gd_sqp_numbers {
    double weight, nu, radius, useless, lowered, evals, begun;
} gd_sqp_numbers;

typedef struct gd_sqp {
    const gd_ip_problem *p; /* rows without a tail first, then those of the slacks */
    int64_t n, rows, equal;
    double tol, violation_tol;
    int most_evals;
    gd_sqp_numbers k;
    double *x, *y, *scale; /* kept; [n], [rows], [rows] */
    double f, *c, *g, *j, *w;
    double error, violation;
    gd_ip qp;
    gd_ip_problem sub;
    const double *from; /* the rows of the subproblem at 0 */
    const double *slope, *curve;
    double *d, *d2, *yd, *trial, *ct, *ct2, *shifted, *size, *low, *high, *cost, *zero, *little, *best;
} gd_sqp;

int64_t gd__sqp_room(const gd_ip_problem *p);
int64_t gd__sqp_kept(const gd_ip_problem *p);
void gd__sqp_open(gd_sqp *s, const gd_ip_problem *p, double *room);
/* f, c and derivatives at s->x, and at the first step scales and multipliers.  *end: GOES_ON or BAD_START. */
gd_status gd__sqp_look(gd_sqp *s, gd_ip_end *end);
/* To the next accepted point.  Only SOLVED is final. */
gd_status gd__sqp_step(gd_sqp *s, gd_ip_end *end);

#endif
