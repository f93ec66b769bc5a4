/* The unconstrained problems of the tests: losses and gradients by operators. */
#include "problem_parts.h"
#include "problems/unconstrained.h"

static int count(void) { return ALL_COUNT; }

static bool open_minimize(problem *p, long number)
{
    instance *i = p->job = calloc(1, sizeof *i);
    if (!i) abort();
    *i = open_instance(p->ctx, (int)number);
    p->name = i->name;
    p->n = (int)gd_numel(i->value[0]);
    p->start = problem_numbers(p->n);
    if (gd_read_f64(i->value[0], p->start, p->n)) problem_check(p->ctx);
    for (p->minima = 0; p->minima < i->minima; p->minima++) {
        double least = p->minimum[p->minima] = i->minimum[p->minima];
        p->margin[p->minima] = least == 0 ? 1e-8 : 1e-4 * fabs(least);
    }
    return true;
}

static double evaluate(problem *p, const double *x, double *g)
{
    return problem_value_of(p, ((instance *)p->job)->value[0], instance_value, x, g);
}

static void close_minimize(problem *p)
{
    close_instance(p->job);
    free(p->job);
}

const problem_class problem_minimize = {
    .name = "minimize", .count = count, .open = open_minimize, .evaluate = evaluate, .close = close_minimize};
