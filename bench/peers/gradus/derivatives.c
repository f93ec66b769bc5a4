/* Derivatives of the chained Rosenbrock function, f64: gradient, Hessian, product with the Hessian. */
#include "work.h"

#include <math.h>
#include <stdlib.h>

typedef struct chained {
    gd_ctx *ctx;
    gd_tensor *x, *v;
    int64_t n;
    double found;
} chained;

/* sum of 100 (x_(i+1) - x_i^2)^2 + (1 - x_i)^2 */
static gd_tensor *value(void *user, gd_tensor *const *inputs, int count)
{
    (void)count;
    chained *c = user;
    gd_tensor *a = gd_slice(inputs[0], "0", 0, c->n - 1, 1), *b = gd_slice(inputs[0], "0", 1, c->n, 1);
    gd_tensor *high = gd_mul_scalar(gd_square(gd_sub(b, gd_square(a))), 100);
    return gd_sum(gd_add(high, gd_square(gd_add_scalar(gd_neg(a), 1))), NULL, false);
}

static void *open_chained(void)
{
    chained *c = gradus_memory(sizeof *c);
    c->n = (int64_t)peer_number("size", 2);
    c->ctx = gradus_context();
    c->x = gd_zeros(c->ctx, GD_F64, 1, &c->n);
    c->v = gd_ones(c->ctx, GD_F64, 1, &c->n);
    double *x = c->x ? gd_data_mut(c->x) : NULL;
    for (int64_t i = 0; x && i < c->n; i++) x[i] = i % 2 ? 1 : -1.2;
    gd_require_grad(c->x);
    gradus_check(c->ctx);
    return c;
}

static void run_gradient(void *job)
{
    chained *c = job;
    gd_tensor *g = NULL;
    gd_scope_begin(c->ctx);
    gd_tensor *f = value(c, &c->x, 1);
    if (gd_grad(f, NULL, &c->x, 1, 0, &g)) gradus_check(c->ctx);
    c->found = gd_item(f);
    gd_scope_end(c->ctx);
}

static void run_product(void *job)
{
    chained *c = job;
    gd_tensor *out = NULL;
    gd_scope_begin(c->ctx);
    if (gd_hvp(value, c, &c->x, 1, &c->v, &out)) gradus_check(c->ctx);
    c->found = fabs(gd_at(out, (int64_t[]){0}));
    gd_scope_end(c->ctx);
}

static void run_hessian(void *job)
{
    chained *c = job;
    gd_scope_begin(c->ctx);
    gd_tensor *h = gd_hessian(value, c, &c->x, 1);
    c->found = fabs(gd_at(h, (int64_t[]){0, 0}));
    gradus_check(c->ctx);
    gd_scope_end(c->ctx);
}

static void check_chained(void *job, peer_result *out) { out->check = ((chained *)job)->found; }

static void close_chained(void *job)
{
    chained *c = job;
    gradus_end(c->ctx);
    free(c);
}

const peer_kind gradus_gradient = {"gradient", open_chained, run_gradient, check_chained, close_chained};
const peer_kind gradus_product = {"product", open_chained, run_product, check_chained, close_chained};
const peer_kind gradus_hessian = {"hessian", open_chained, run_hessian, check_chained, close_chained};
