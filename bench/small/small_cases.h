/* The small problems that gradus and its peers are counted on: the same starts, functions and numbers of steps. */
#ifndef GD_BENCH_SMALL_CASES_H
#define GD_BENCH_SMALL_CASES_H

/* L-BFGS from the start, so many steps per repeat. */
#define SMALL_ITERATIONS 30

/* Rosenbrock's function of n numbers, chained, its gradient to g, and where it begins. */
double bench_small_chained(const double *x, double *g, long n);
void bench_small_start(double *x, long n);

/* A fit of a exp(-b t) + c to 20 points, from a = b = c = 1. */
#define SMALL_POINTS 20
void bench_small_points(double *t, double *y, long fit);

/* Reports the 115 problems of bench/peers beside NLopt, where it is there. */
void bench_small_set(void);

#endif
