/* The problems of tests/problems and a few large ones, for every peer alike: the same functions with the same exact derivatives, the
 * same starts and bounds, and one count of evaluations.  A shared library: C calls it, Python by ctypes.
 *
 * set: "minimize" (115 problems, MGH's first), "bounds" (30), "nist" (54 fits), and by their size "chained" and "paired" (Rosenbrock's
 * function) and "quadratic" (between bounds), in plain loops. */
#ifndef GD_PEER_PROBLEM_H
#define GD_PEER_PROBLEM_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct problem problem;

int problem_count(const char *set); /* 1 for those by size; 0: there is none (files of NIST) */
problem *problem_open(const char *set, long number); /* or the size; NULL: it is not there */
void problem_close(problem *p);
const char *problem_name(const problem *p);
int problem_size(const problem *p);
const double *problem_start(const problem *p);
const double *problem_low(const problem *p); /* bounds, or NULL: none */
const double *problem_high(const problem *p);

/* The loss, and its gradient in g. */
double problem_evaluate(problem *p, const double *x, double *g);
/* Sums of squares: how many residuals; what they are in r, and their Jacobian in j, row by row, NULL: not wanted. */
int problem_rows(const problem *p);
void problem_residuals(problem *p, const double *x, double *r, double *j);

/* After a run that ended at x with that loss: evaluations and seconds from the opening to the first point that is as good as asked
 * for; 0: it ended at no minimum. */
int problem_solved(problem *p, const double *x, double loss, double *seconds);
double problem_digits(const problem *p, const double *x); /* of certified parameters that x has */
int problem_evals(const problem *p);
/* What a run may take of the processor, everybody's alike: 1 s, 10 s of more than 1000 numbers.  Not by the clock, which others slow. */
double problem_seconds(const problem *p);
/* 1: a run may end: its time is over, far more evaluations than anybody needs, or a large problem is solved. */
int problem_over(const problem *p);

#ifdef __cplusplus
}
#endif
#endif
