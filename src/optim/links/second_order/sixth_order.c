/* Newton steps of sixth order, F the gradient and J its Jacobian, the Hessian:
 *
 *   sixth_order_3p     q = p - J(p)^-1 F(p),  r = q - J(q)^-1 F(q),  r - J(q)^-1 F(r)           (Abro & Shaikh 2019)
 *   sixth_order_3pm2   q = p - J^-1 F(p),  W = 2 I - J^-1 J(q),  r = q - W J^-1 F(q),
 *                      r - W J^-1 F(r),  J at p: one factorisation                              (Wang & Li 2017)
 *   sixth_order_5p     q = p - J(p)^-1 F(p),  m the middle of p and q,  r = p - J(m)^-1 F(p), of third order
 *                      (Frontini & Sormani 2004),  r - J(r)^-1 F(r)
 *
 * A point with a Hessian or gradient that is not finite ends the step at the point before it. */
#include "gradus/link/hessian.h"

static const gd_field fields[] = {
    GD_FLAG("lstsq", false, "solve by least squares at once"),
    GD_FIXED_FLAG("vectorize", true, "rows of derivatives are always made together"),
};

typedef struct newton_point {
    gd_tensor *x, *g, *h; /* parameters [n], gradient [n], Hessian [n, n]; h NULL: not wanted */
} newton_point;

/* The points of a step, the first is where it begins: none is evaluated twice. */
typedef struct newton_points {
    gd_link *link;
    gd_var *var;
    newton_point at[4];
    int count;
} newton_points;

static gd_tensor *gradient_of(gd_var *var)
{
    gd_tensor *const *grad = gd_var_grad(var);
    return grad ? gd_copy(gd_list_vector(grad, gd_var_count(var))) : NULL;
}

static gd_tensor *params_of(gd_var *var)
{
    return gd_copy(gd_list_vector(gd_var_params(var), gd_var_count(var)));
}

/* Moved there: a copy of the step without loss and gradient. */
static gd_status look(newton_points *all, bool hessian, newton_point *at)
{
    gd_ctx *ctx = gd_var_ctx(all->var);
    gd_var *there = gd_var_clone(all->var, false, NULL);
    if (!there) return gd_error(ctx);
    gd_var_set_loss(there, NULL);
    gd_status status = gd_var_set_grad(there, NULL);
    if (!status && hessian && !(at->h = gd_link_hessian_matrix(all->link, there, 0))) status = gd_error(ctx);
    if (!status && !(at->g = gradient_of(there))) status = gd_error(ctx);
    gd_var_free(there);
    return status;
}

/* The record of the point where the parameters are, if there is one. */
static newton_point *known(newton_points *all, gd_tensor *x, bool hessian)
{
    for (int i = 0; i < all->count; i++) {
        gd_tensor *apart = gd_vector_most(gd_abs(gd_sub(all->at[i].x, x)));
        if (apart && gd_item(apart) == 0 && (all->at[i].h || !hessian)) return &all->at[i];
    }
    return NULL;
}

/* Gradient and, if wanted, Hessian at p - d. */
static gd_status look_at(newton_points *all, gd_tensor *d, bool hessian, newton_point *at)
{
    gd_var *var = all->var;
    int count = gd_var_count(var);
    gd_tensor **step = gd_link_scratch(all->link, 2 * count), **here = step ? step + count : NULL;
    *at = (newton_point){NULL, NULL, NULL};
    gd_status status = step ? gd_list_split(d, gd_var_params(var), count, step) : gd_error(gd_var_ctx(var));
    if (!status) status = gd_var_save_params(var, here);
    if (status) return status;
    status = gd_var_move(var, -1, step);
    at->x = status ? NULL : params_of(var);
    const newton_point *before = at->x ? known(all, at->x, hessian) : NULL;
    if (before)
        *at = *before;
    else if (!status)
        status = at->x ? look(all, hessian, at) : gd_error(gd_var_ctx(var));
    gd_status back = gd_var_restore_params(var, here);
    for (int i = 0; i < count; i++) gd_release(here[i]);
    if (!status && !before) all->at[all->count++] = *at;
    return status ? status : back;
}

/* *d += J^-1 b, through W where `other` is given; false: the result is not finite, *d stays. */
static bool further(gd_link *link, gd_tensor *h, gd_tensor *b, gd_tensor *other, gd_tensor **d)
{
    bool lstsq = gd_link_flag(link, "lstsq");
    gd_tensor *step = h && b ? gd_hessian_solve(h, b, lstsq) : NULL;
    gd_tensor *again = step && other && gd_vector_finite(other)
                           ? gd_hessian_solve(h, gd_matmul(other, step), lstsq)
                           : NULL;
    if (step && other) step = again ? gd_vector_sum(gd_mul_scalar(step, 2), -1, again) : NULL;
    gd_tensor *sum = !step ? NULL : *d ? gd_add(*d, step) : step;
    if (!sum || !gd_vector_finite(sum)) return false;
    *d = sum;
    return true;
}

/* The methods: *d is p minus the new point, as far as values are finite. */
typedef gd_status (*order_fn)(gd_link *link, newton_points *all, gd_tensor **d);

static gd_status by_3p(gd_link *link, newton_points *all, gd_tensor **d)
{
    const newton_point at = all->at[0];
    newton_point q, r;
    if (!further(link, at.h, at.g, NULL, d)) return GD_OK;
    gd_status status = look_at(all, *d, true, &q);
    if (status || !further(link, q.h, q.g, NULL, d)) return status;
    status = look_at(all, *d, false, &r);
    if (!status) (void)further(link, q.h, r.g, NULL, d);
    return status;
}

static gd_status by_3pm2(gd_link *link, newton_points *all, gd_tensor **d)
{
    const newton_point at = all->at[0];
    newton_point q, r;
    if (!further(link, at.h, at.g, NULL, d)) return GD_OK;
    gd_status status = look_at(all, *d, true, &q);
    if (status || !further(link, at.h, q.g, q.h, d)) return status;
    status = look_at(all, *d, false, &r);
    if (!status) (void)further(link, at.h, r.g, q.h, d);
    return status;
}

static gd_status by_5p(gd_link *link, newton_points *all, gd_tensor **d)
{
    const newton_point at = all->at[0];
    newton_point m, r;
    if (!further(link, at.h, at.g, NULL, d)) return GD_OK;
    gd_status status = look_at(all, gd_mul_scalar(*d, 0.5), true, &m);
    gd_tensor *third = NULL;
    if (status || !further(link, m.h, at.g, NULL, &third)) return status;
    *d = third;
    status = look_at(all, *d, true, &r);
    if (!status) (void)further(link, r.h, r.g, NULL, d);
    return status;
}

static gd_status sixth_order_step(gd_link *link, gd_var *var, order_fn fn)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *d = NULL, *h = gd_link_hessian_matrix(link, var, 0), *g = h ? gradient_of(var) : NULL;
    newton_points all = {.link = link, .var = var, .at = {{g ? params_of(var) : NULL, g, h}}, .count = 1};
    gd_status status = all.at[0].x ? fn(link, &all, &d) : gd_error(ctx);
    if (!status) status = gd_error(ctx);
    if (status || d) return status ? status : gd_var_set_update_vector(var, d);
    gd_var_note_skipped(var);
    return gd_var_set_zero_update(var);
}

#define SIXTH(NAME, FN) \
    static gd_status NAME##_step(gd_link *link, gd_var *var) { return sixth_order_step(link, var, FN); }
#define CLASS(NAME)                                                                                  \
    .spread = GD_SPREAD_WHOLE, GD_FIELDS(fields), .step = NAME##_step, .traits.needs_closure = true, \
    .example = #NAME " | strong_wolfe"

SIXTH(sixth_order_3p, by_3p)
SIXTH(sixth_order_3pm2, by_3pm2)
SIXTH(sixth_order_5p, by_5p)

GD_LINK(second_order, sixth_order_3p,
    CLASS(sixth_order_3p),
    .summary = "Newton's method of sixth order with two Hessians",
    .formula = "q = p - J(p)^-1 F(p);  r = q - J(q)^-1 F(q);  d = p - r + J(q)^-1 F(r)",
    .paper = "Abro & Shaikh, A new time-efficient and convergent nonlinear solver, 2019",
    .cost =
        "two Hessians, so 2 n reverse passes, three solves and one more evaluation per step, for n elements");

GD_LINK(second_order, sixth_order_3pm2,
    CLASS(sixth_order_3pm2),
    .summary = "Newton's method of sixth order that solves with one Hessian",
    .formula = "q = p - J^-1 F(p);  W = 2 I - J^-1 J(q);  r = q - W J^-1 F(q);  d = p - r + W J^-1 F(r)",
    .paper = "Wang & Li, An efficient sixth-order Newton-type method for solving nonlinear systems, 2017",
    .cost =
        "two Hessians, so 2 n reverse passes, five solves and one more evaluation per step, for n elements");

GD_LINK(second_order, sixth_order_5p,
    CLASS(sixth_order_5p),
    .summary = "Newton's method of sixth order over the middle of the Newton step",
    .formula = "q = p - J(p)^-1 F(p);  m = (p + q) / 2;  r = p - J(m)^-1 F(p);  d = p - r + J(r)^-1 F(r)",
    .paper =
        "Frontini & Sormani, Third-order methods from quadrature formulae for solving systems of nonlinear equations, 2004; "
        "one Newton step more",
    .cost = "three Hessians, so 3 n reverse passes, and three solves per step, for n elements");
