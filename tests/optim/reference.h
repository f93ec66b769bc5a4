/* Links beside straight loops in double, written from their papers.
 *
 * A reference is one function: it gets a step as numbers and turns the update u into what the link makes of it.  The elements
 * of all parameters lie one after the other, those of parameter k are begin[k] <= i < begin[k + 1]. */
#ifndef GD_TESTS_OPTIM_REFERENCE_H
#define GD_TESTS_OPTIM_REFERENCE_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define N       7 /* elements: a vector of 3, a 2 x 2 matrix */
#define TENSORS 2

static const int begin[TENSORS + 1] = {0, 3, 7};

typedef struct moment_of {
    int t; /* from 1 */
    double loss;
    const double *p, *g;
    double *u;
    double s[16][N]; /* what elements keep from step to step; zeros at first */
    double k[8];     /* numbers that are kept; zeros at first */
} moment_of;

typedef void (*reference_fn)(moment_of *x);

typedef struct reference {
    const char *text; /* the link */
    reference_fn fn;
    double lr;
} reference;

#define EACH(i)       for (int i = 0; i < N; i++)
#define EACH_OF(i, k) for (int i = begin[k]; i < begin[(k) + 1]; i++)

static inline double sign_of(double x) { return (x > 0) - (x < 0); }

static inline double clip(double x, double bound) { return fmax(-bound, fmin(bound, x)); }

static inline double norm_in(const double *x, int from, int to)
{
    double sum = 0;
    for (int i = from; i < to; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

/* ---- the function that is minimised ---- */

/* f(p) = sum w (p - c)^2 / 2 - sum cos(3 p) / 10 + (sum p)^2 / 20 */
static const double bowl_start[N] = {1.3, -0.7, 0.4, 2.1, -1.6, 0.9, -0.3};
static const double bowl_weight[N] = {1, 0.3, 2, 0.5, 1.5, 0.8, 1.2};
static const double bowl_centre[N] = {0.2, 0.5, -0.6, 0.1, 0.4, -0.9, 0.7};

static inline double loss_at(const double *p, double *g)
{
    double sum = 0, loss = 0;
    EACH(i) sum += p[i];
    EACH(i)
    {
        double d = p[i] - bowl_centre[i];
        g[i] = bowl_weight[i] * d + 0.3 * sin(3 * p[i]) + 0.1 * sum;
        loss += 0.5 * bowl_weight[i] * d * d - 0.1 * cos(3 * p[i]);
    }
    return loss + 0.05 * sum * sum;
}

#endif
