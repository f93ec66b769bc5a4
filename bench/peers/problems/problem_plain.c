/* Large problems in plain loops: what is measured is the method.  Solved is what the largest element of the gradient says, between
 * bounds that of x - P(x - gradient), P being the way into them. */
#include "problem_parts.h"

#include <math.h>
#include <stdlib.h>

static void good_enough(problem *p, double most, double tolerance)
{
    if (!p->reached && most <= tolerance) p->reached = p->evals + 1;
}

/* ---- Rosenbrock's function in a chain ---- */

static bool open_chained(problem *p, long n)
{
    p->n = (int)n;
    p->name = p->cls->name;
    p->start = problem_numbers(p->n);
    for (int i = 0; i < p->n; i++) p->start[i] = i % 2 ? 1 : -1.2;
    return true;
}

static double evaluate_chained(problem *p, const double *restrict x, double *restrict g)
{
    double f = 0, before = 0, most = 0;
    for (int i = 0; i + 1 < p->n; i++) {
        double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
        f += 100 * a * a + b * b;
        g[i] = before - 400 * a * x[i] - 2 * b;
        before = 200 * a;
    }
    g[p->n - 1] = before;
    for (int i = 0; i < p->n; i++) most = fmax(most, fabs(g[i]));
    good_enough(p, most, 1e-6);
    return f;
}

const problem_class problem_chained = {.name = "chained", .open = open_chained, .evaluate = evaluate_chained};

/* ---- Rosenbrock's function in pairs: as many steps for a million numbers as for two ---- */

static double evaluate_paired(problem *p, const double *restrict x, double *restrict g)
{
    double f = 0, most = 0;
    for (int i = 0; i + 1 < p->n; i += 2) {
        double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
        f += 100 * a * a + b * b;
        g[i] = -400 * a * x[i] - 2 * b;
        g[i + 1] = 200 * a;
        most = fmax(most, fmax(fabs(g[i]), fabs(g[i + 1])));
    }
    good_enough(p, most, 1e-6);
    return f;
}

const problem_class problem_paired = {.name = "paired", .open = open_chained, .evaluate = evaluate_paired};

/* ---- sum w (x - c)^2 / 2 + sum (x_(i+1) - x_i)^2 / 2, -1 <= x <= 1 ---- */

static bool open_quadratic(problem *p, long n)
{
    p->n = (int)n;
    p->name = "quadratic between bounds";
    p->start = problem_numbers(p->n);
    p->low = problem_numbers(p->n);
    p->high = problem_numbers(p->n);
    for (int i = 0; i < p->n; i++) p->high[i] = 1, p->low[i] = -1;
    double *job = p->job = problem_numbers(2 * p->n); /* weights and centres */
    for (int i = 0; i < p->n; i++) {
        job[i] = 1 + 9.0 * (i % 1000) / 999;
        job[p->n + i] = 2 * sin(0.37 * i);
    }
    return true;
}

static double evaluate_quadratic(problem *p, const double *restrict x, double *restrict g)
{
    const double *w = p->job, *c = w + p->n;
    double f = 0, before = 0, most = 0;
    for (int i = 0; i < p->n; i++) {
        double away = x[i] - c[i], next = i + 1 < p->n ? x[i + 1] - x[i] : 0;
        f += 0.5 * (w[i] * away * away + next * next);
        g[i] = w[i] * away + before - next;
        before = next;
    }
    for (int i = 0; i < p->n; i++) most = fmax(most, fabs(x[i] - fmin(fmax(x[i] - g[i], -1), 1)));
    good_enough(p, most, 1e-5);
    return f;
}

static void close_quadratic(problem *p) { free(p->job); }

const problem_class problem_quadratic = {
    .name = "quadratic", .open = open_quadratic, .evaluate = evaluate_quadratic, .close = close_quadratic};
