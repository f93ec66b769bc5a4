/* The problems between bounds of the tests. */
#include "expr/expr_internal.h"
#include "problem_parts.h"
#include "problems/bounds.h"

typedef struct instance {
    const bound_problem *p;
    gd_expr *expression;
    gd_tensor *value[1 + BOUND_DATA]; /* x, then data */
} instance;

static int count(void) { return BOUND_COUNT; }

static gd_tensor *value_of(void *job)
{
    instance *i = job;
    return gd_expr_eval(i->expression, i->value, GD_F64);
}

static void set_expression(problem *p, instance *i)
{
    bound_data data = {.count = 0};
    const char *names[1 + BOUND_DATA] = {"x"};
    int64_t size[2] = {i->p->rows ? i->p->rows : p->n, i->p->rows ? p->n / i->p->rows : 1};
    if (i->p->data) i->p->data(p->ctx, &data);
    for (int k = 0; k < data.count; k++) {
        names[1 + k] = data.name[k];
        i->value[1 + k] = data.value[k];
    }
    i->expression = gd_expr_parse(p->ctx, i->p->expression,
                                  &(gd_expr_options){.names = names, .count = 1 + data.count});
    i->value[0] = gd_require_grad(gd_from_f64(p->ctx, GD_F64, i->p->rows ? 2 : 1, size, p->start));
}

static void set_points(problem *p, const bound_problem *b)
{
    bound_point *at = calloc(1, sizeof *at);
    if (!at) abort();
    bound_fill(b->start, 0, b->n, at->x);
    bound_fill(b->low, -INFINITY, b->n, at->low);
    bound_fill(b->high, INFINITY, b->n, at->high);
    if (b->fill) b->fill(at);
    p->start = problem_numbers(b->n);
    p->low = problem_numbers(b->n);
    p->high = problem_numbers(b->n);
    for (int k = 0; k < b->n; k++) {
        p->low[k] = at->low[k];
        p->high[k] = at->high[k];
        p->start[k] = fmin(fmax(at->x[k], at->low[k]), at->high[k]);
    }
    free(at);
}

static bool open_bounds(problem *p, long number)
{
    instance *i = p->job = calloc(1, sizeof *i);
    if (!i) abort();
    i->p = &bound_problems[number];
    p->name = i->p->name;
    p->n = i->p->n;
    set_points(p, i->p);
    set_expression(p, i);
    for (; p->minima < PROBLEM_MINIMA && !isnan(i->p->minimum[p->minima]); p->minima++) {
        double m = p->minimum[p->minima] = i->p->minimum[p->minima], size = fabs(m);
        p->margin[p->minima] = m == 0 ? 1e-8 : size < 0.01 ? 1e-4 * size : 1e-6 * fmax(1, size);
    }
    return true;
}

static double evaluate(problem *p, const double *x, double *g)
{
    return problem_value_of(p, ((instance *)p->job)->value[0], value_of, x, g);
}

static void close_bounds(problem *p)
{
    gd_expr_free(((instance *)p->job)->expression);
    free(p->job);
}

const problem_class problem_bounds = {
    .name = "bounds", .count = count, .open = open_bounds, .evaluate = evaluate, .close = close_bounds};
