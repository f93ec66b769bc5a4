/* A problem of constrained.h as an objective, and the optimizer for it. */
#ifndef GD_PROBLEMS_CONSTRAINED_RUN_H
#define GD_PROBLEMS_CONSTRAINED_RUN_H

#include "expr/expr_internal.h"
#include "gradus/autograd.h"
#include "gradus/optim.h"
#include "gradus/solve.h"
#include "problems/bounds.h"
#include "problems/constrained.h"
#include "support/kkt.h"
#include "support/support.h"

#define CONSTRAINED_N 16

typedef struct instance {
    const constrained_problem *p;
    gd_expr *f, *equal[CONSTRAINTS_MOST], *below[CONSTRAINTS_MOST];
    int equals, belows;
    gd_tensor *x;
    double low[CONSTRAINED_N], high[CONSTRAINED_N];
    int calls, reached;
} instance;

static inline gd_tensor *stacked(instance *i, gd_expr *const *list, int count)
{
    gd_tensor *value[CONSTRAINTS_MOST];
    for (int k = 0; k < count; k++) value[k] = gd_expr_eval(list[k], &i->x, GD_F64);
    return gd_stack(value, count, 0, NULL);
}

static inline gd_tensor *equal(void *user)
{
    return stacked(user, ((instance *)user)->equal, ((instance *)user)->equals);
}
static inline gd_tensor *below(void *user)
{
    return stacked(user, ((instance *)user)->below, ((instance *)user)->belows);
}

static inline double violation(gd_ctx *ctx, instance *i)
{
    double most = 0, v[CONSTRAINTS_MOST];
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    if (i->equals) assert_int_equal(gd_read_f64(equal(i), v, i->equals), GD_OK);
    for (int k = 0; k < i->equals; k++) most = fmax(most, fabs(v[k]));
    if (i->belows) assert_int_equal(gd_read_f64(below(i), v, i->belows), GD_OK);
    for (int k = 0; k < i->belows; k++) most = fmax(most, v[k]);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return most;
}

/* f, then what is to be 0, then what is to be at most 0, for kkt_residual. */
static inline void kkt_values(void *user, const double *x, double *f, double *c)
{
    instance *i = user;
    gd_ctx *ctx = gd_tensor_ctx(i->x);
    double here[CONSTRAINED_N];
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    assert_int_equal(gd_read_f64(i->x, here, i->p->n), GD_OK);
    assert_int_equal(gd_write_f64(i->x, x, i->p->n), GD_OK);
    *f = gd_item(gd_expr_eval(i->f, &i->x, GD_F64));
    if (i->equals) assert_int_equal(gd_read_f64(equal(i), c, i->equals), GD_OK);
    if (i->belows) assert_int_equal(gd_read_f64(below(i), c + i->equals, i->belows), GD_OK);
    assert_int_equal(gd_write_f64(i->x, here, i->p->n), GD_OK);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
}

/* How far the parameters are from a KKT point. */
static inline double kkt_here(instance *i)
{
    double x[CONSTRAINED_N];
    assert_int_equal(gd_read_f64(i->x, x, i->p->n), GD_OK);
    kkt_problem p = {.n = i->p->n,
                     .equal = i->equals,
                     .below = i->belows,
                     .low = i->low,
                     .high = i->high,
                     .user = i,
                     .values = kkt_values};
    return kkt_residual(&p, x, 1e-4);
}

static inline bool at_minimum(const constrained_problem *p, double f)
{
    return f <= p->minimum + (p->minimum == 0 ? 1e-8 : 1e-6 * fmax(1, fabs(p->minimum)));
}

static inline gd_tensor *loss(void *user)
{
    instance *i = user;
    gd_tensor *f = gd_expr_eval(i->f, &i->x, GD_F64);
    i->calls++;
    if (f && !i->reached && at_minimum(i->p, gd_item(f)) && violation(gd_tensor_ctx(f), i) <= 1e-6)
        i->reached = i->calls;
    return f;
}

static inline gd_expr *parsed(gd_ctx *ctx, const char *text)
{
    gd_expr *e = gd_expr_parse(ctx, text, &(gd_expr_options){.names = (const char *[]){"x"}, .count = 1});
    assert_no_error(ctx);
    return e;
}

static inline void open_instance(gd_ctx *ctx, const constrained_problem *p, instance *i)
{
    double x[CONSTRAINED_N];
    *i = (instance){.p = p, .f = parsed(ctx, p->expression)};
    for (; p->equal[i->equals]; i->equals++) i->equal[i->equals] = parsed(ctx, p->equal[i->equals]);
    for (; p->below[i->belows]; i->belows++) i->below[i->belows] = parsed(ctx, p->below[i->belows]);
    bound_fill(p->start, 0, p->n, x);
    bound_fill(p->low, -INFINITY, p->n, i->low);
    bound_fill(p->high, INFINITY, p->n, i->high);
    i->x = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){p->n}, x));
}

static inline void close_instance(instance *i)
{
    gd_expr_free(i->f);
    for (int k = 0; k < i->equals; k++) gd_expr_free(i->equal[k]);
    for (int k = 0; k < i->belows; k++) gd_expr_free(i->below[k]);
}

static inline gd_optimizer *optimizer_for(gd_ctx *ctx, instance *i, const char *inner)
{
    char text[300];
    bool nlp = strstr(inner, "nlp") != NULL;
    snprintf(text, sizeof text, nlp ? "box | %s" : "augmented_lagrangian([box | %s])", inner);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, text));
    assert_no_error(ctx);
    assert_int_equal(gd_optimizer_add(o, "x", i->x), GD_OK);
    gd_link *chain = gd_optimizer_chain(o);
    gd_link *box = gd_link_child_at(nlp ? chain : gd_link_child(chain, "inner"), 0);
    assert_int_equal(gd_link_set_for(box, i->x, "low", gd_setting_list(i->low, i->p->n)), GD_OK);
    assert_int_equal(gd_link_set_for(box, i->x, "high", gd_setting_list(i->high, i->p->n)), GD_OK);
    return o;
}

/* Five starts a problem: every element moved by up to its size, at least 1. */
static inline void move_start(instance *i, int number)
{
    uint64_t seed = 88172645463325252u + 1000003u * (uint64_t)number;
    double x[CONSTRAINED_N];
    assert_int_equal(gd_read_f64(i->x, x, i->p->n), GD_OK);
    for (int k = 0; k < i->p->n; k++) {
        for (int r = 0; r < 4; r++) seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        double u = 2 * (double)(seed >> 11) / 9007199254740992.0 - 1;
        x[k] = fmin(fmax(x[k] + u * fmax(1, fabs(x[k])), i->low[k]), i->high[k]);
    }
    gd_no_grad_begin(gd_tensor_ctx(i->x));
    assert_int_equal(gd_write_f64(i->x, x, i->p->n), GD_OK);
    gd_no_grad_end(gd_tensor_ctx(i->x));
}

#endif
