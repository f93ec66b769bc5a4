/* Rosenbrock's function in two numbers as an objective by graph, by callbacks and as residuals, with everything in closed form. */
#ifndef GD_TESTS_OPTIM_CLOSURE_SUPPORT_H
#define GD_TESTS_OPTIM_CLOSURE_SUPPORT_H

#include "optim/optim_support.h"

typedef struct rosenbrock {
    gd_ctx *ctx;
    gd_tensor *p;
    gd_optimizer *o;
    int values, gradients, products, jacobians, kept;
    double kept_x, kept_y;
    gd_status fail;
} rosenbrock;

static UNUSED void at(const rosenbrock *r, double *x, double *y)
{
    double v[2];
    OK(gd_read_f64(r->p, v, 2));
    *x = v[0];
    *y = v[1];
}

static UNUSED double f(double x, double y) { return (1 - x) * (1 - x) + 100 * (y - x * x) * (y - x * x); }
static UNUSED double fx(double x, double y) { return -2 * (1 - x) - 400 * x * (y - x * x); }
static UNUSED double fy(double x, double y) { return 200 * (y - x * x); }
static UNUSED double fxx(double x, double y) { return 2 - 400 * y + 1200 * x * x; }
static UNUSED double fxy(double x) { return -400 * x; }

static UNUSED gd_tensor *loss_graph(void *user)
{
    rosenbrock *r = user;
    r->values++;
    gd_tensor *x = gd_index(r->p, "0", 0), *y = gd_index(r->p, "0", 1);
    gd_tensor *a = gd_square(gd_add_scalar(gd_neg(x), 1)), *b = gd_square(gd_sub(y, gd_square(x)));
    return gd_add(a, gd_mul_scalar(b, 100));
}

/* (1 - x, 10 (y - x^2)) */
static UNUSED gd_tensor *residual_graph(void *user)
{
    rosenbrock *r = user;
    r->values++;
    gd_tensor *x = gd_index(r->p, "0", 0), *y = gd_index(r->p, "0", 1);
    gd_tensor *parts[2] = {gd_add_scalar(gd_neg(x), 1), gd_mul_scalar(gd_sub(y, gd_square(x)), 10)};
    return gd_stack(parts, 2, 0, "r");
}

static UNUSED gd_status value_callback(void *user, double *loss)
{
    rosenbrock *r = user;
    double x, y;
    at(r, &x, &y);
    r->values++;
    *loss = f(x, y);
    return r->fail;
}

static UNUSED gd_status gradient_callback(void *user, double *loss, gd_tensor *const *grads)
{
    rosenbrock *r = user;
    double x, y;
    at(r, &x, &y);
    r->gradients++;
    *loss = f(x, y);
    return r->fail ? r->fail : gd_write_f64(grads[0], (double[]){fx(x, y), fy(x, y)}, 2);
}

static UNUSED gd_status hvp_callback(void *user, gd_tensor *const *v, gd_tensor *const *out)
{
    rosenbrock *r = user;
    double x, y, d[2];
    at(r, &x, &y);
    r->products++;
    OK(gd_read_f64(v[0], d, 2));
    return gd_write_f64(out[0], (double[]){fxx(x, y) * d[0] + fxy(x) * d[1], fxy(x) * d[0] + 200 * d[1]}, 2);
}

/* An evaluation that is kept, and products of that one. */
static UNUSED gd_status kept_callback(void *user, double *loss, gd_tensor *const *grads)
{
    rosenbrock *r = user;
    at(r, &r->kept_x, &r->kept_y);
    r->kept++;
    return gradient_callback(user, loss, grads);
}

static UNUSED gd_status kept_hvp_callback(void *user, gd_tensor *const *v, gd_tensor *const *out)
{
    rosenbrock *r = user;
    double x = r->kept_x, y = r->kept_y, d[2];
    r->products++;
    assert_true(r->kept > 0);
    OK(gd_read_f64(v[0], d, 2));
    return gd_write_f64(out[0], (double[]){fxx(x, y) * d[0] + fxy(x) * d[1], fxy(x) * d[0] + 200 * d[1]}, 2);
}

static UNUSED gd_objective by_graph(rosenbrock *r) { return (gd_objective){.loss = loss_graph, .user = r}; }

static UNUSED gd_objective by_callbacks(rosenbrock *r)
{
    return (gd_objective){
        .value = value_callback, .gradient = gradient_callback, .hvp = hvp_callback, .user = r};
}

static UNUSED gd_objective by_kept(rosenbrock *r)
{
    return (gd_objective){.value = value_callback,
                          .gradient = gradient_callback,
                          .gradient_kept = kept_callback,
                          .hvp = kept_hvp_callback,
                          .user = r};
}

static UNUSED rosenbrock open_it(gd_ctx *ctx, const char *chain)
{
    rosenbrock r = {.ctx = ctx};
    probe = (probes){0};
    OK(gd_link_class_register(ctx, &probe_a_class));
    OK(gd_link_class_register(ctx, &probe_b_class));
    OK(gd_link_class_register(ctx, &probe_c_class));
    r.p = gd_require_grad(VECTOR(ctx, -1.1, 2.5));
    r.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_no_error(ctx);
    OK(gd_optimizer_add(r.o, "p", r.p));
    return r;
}

static UNUSED void close_it(rosenbrock *r)
{
    gd_optimizer_free(r->o);
    gd_release(r->p);
}

#endif
