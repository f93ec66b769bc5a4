/* All unconstrained problems as one list: MGH's sums of squares, those of CUTE, those of many numbers. */
#ifndef GD_PROBLEMS_UNCONSTRAINED_H
#define GD_PROBLEMS_UNCONSTRAINED_H

#include "expr/expr_internal.h"
#include "table/value.h"
#include "gradus/autograd.h"
#include "gradus/optim.h"
#include "gradus/solve.h"
#include "problems/cute.h"
#include "problems/large.h"
#include "problems/mgh.h"
#include "support/support.h"

#define SMALL_COUNT (MGH_COUNT + (int)CUTE_COUNT)
#define ALL_COUNT   (SMALL_COUNT + LARGE_COUNT)

typedef struct instance {
    const char *name;
    const mgh_problem *mgh; /* or NULL */
    gd_expr *expression;
    gd_tensor *value[2]; /* x, and k = 1, 2, ..., n */
    double minimum[MGH_MINIMA];
    int minima;
    int64_t calls;
} instance;

static inline gd_tensor *instance_value(void *user)
{
    instance *i = user;
    i->calls++;
    return i->mgh ? i->mgh->residuals(i->value[0], i->mgh->n, i->mgh->m)
                  : gd_expr_eval(i->expression, i->value, GD_F64);
}

static inline instance open_mgh(gd_ctx *ctx, const mgh_problem *p)
{
    double x[MGH_MOST];
    instance i = {.name = p->name, .mgh = p};
    p->start(x, p->n);
    i.value[0] = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){p->n}, x));
    while (i.minima < MGH_MINIMA && p->minimum[i.minima] >= 0) {
        i.minimum[i.minima] = p->minimum[i.minima];
        i.minima++;
    }
    return i;
}

static inline instance open_cute(gd_ctx *ctx, const cute_problem *p)
{
    instance i = {.name = p->name};
    i.expression = gd_expr_parse(ctx, p->expression,
                                 &(gd_expr_options){.names = (const char *[]){"x"}, .count = 1});
    i.value[0] = gd_require_grad(gd__value_parse(ctx, "start", p->start, GD_F64, NULL));
    for (; i.minima < 3 && !isnan(p->minimum[i.minima]); i.minima++)
        i.minimum[i.minima] = p->minimum[i.minima];
    return i;
}

static inline instance open_large(gd_ctx *ctx, const large_problem *p)
{
    instance i = {.name = p->name, .minimum = {p->minimum}, .minima = 1};
    int64_t n = p->n;
    double k[1000];
    for (int64_t at = 0; at < n; at++) k[at] = (double)at + 1;
    i.value[1] = gd_from_f64(ctx, GD_F64, 1, &n, k);
    gd_expr *start = gd_expr_parse(ctx, p->start,
                                   &(gd_expr_options){.names = (const char *[]){"k"}, .count = 1});
    gd_tensor *x = start ? gd_expr_eval(start, &i.value[1], GD_F64) : NULL;
    i.value[0] = gd_require_grad(gd_copy(x));
    gd_expr_free(start);
    i.expression = gd_expr_parse(ctx, p->expression,
                                 &(gd_expr_options){.names = (const char *[]){"x", "k"}, .count = 2});
    return i;
}

/* By its number; inside a scope. */
static inline instance open_instance(gd_ctx *ctx, int number)
{
    instance i = number < MGH_COUNT     ? open_mgh(ctx, &mgh_problems[number])
                 : number < SMALL_COUNT ? open_cute(ctx, &cute_problems[number - MGH_COUNT])
                                        : open_large(ctx, &large_problems[number - SMALL_COUNT]);
    assert_no_error(ctx);
    return i;
}

static inline void close_instance(instance *i) { gd_expr_free(i->expression); }

/* Within 1e-4 of a known minimum; within 1e-8 where that is 0. */
static inline bool instance_solved(const instance *i, double loss)
{
    if (i->mgh) return mgh_solved(i->mgh, loss);
    for (int k = 0; k < i->minima; k++) {
        double least = i->minimum[k];
        if (fabs(loss - least) <= (least == 0 ? 1e-8 : 1e-4 * fabs(least))) return true;
    }
    return false;
}

#endif
