/* Projected Newton-Raphson (Pearson 1969, algorithm 7): two matrices, R that gives the direction and is projected after each step,
 * and A that becomes the inverse Hessian,
 *
 *     A + (s - A y) (R y)^T / y R y,    then R - R y (R y)^T / y R y
 *
 * Every restart_interval steps (auto: the number of elements) R becomes A, and the pair of that step is not used. */
#include "gradus/link/quasi_newton.h"

static const gd_field fields[] = {GD_DENSE_FIELDS_("auto", GD_SET_STRING, "auto", GD_SET_STRING),
                                  GD_DENSE_INNER};
static const gd_slot slots[] = {GD_DENSE_SLOTS, {"next", 0}};
static const char *const scalars[] = {GD_DENSE_SCALAR};

static gd_status projected_newton_raphson_pair(gd_dense *d)
{
    gd_tensor *r = d->matrix, *ay = gd_zeros_like(d->y);
    gd_status status = ay ? gd_dense_times(d, d->y, d->z) : gd_error(gd_link_ctx(d->link));
    double yry = gd_dense_dot(d, d->y, d->z);
    if (status) return status;
    status = gd_dense_use(d, "next");
    if (!status && d->pairs == 0) status = gd_assign(d->matrix, r);
    if (!status && fabs(yry) > d->tol) {
        status = gd_dense_times(d, d->y, ay);
        if (!status) status = gd_dense_add(d, ay, -1, d->s);
        if (!status) status = gd_dense_outer(d, -1 / yry, ay, d->z);
    }
    if (!status) status = gd_dense_use(d, "matrix");
    return status || !(fabs(yry) > d->tol) ? status : gd_dense_rank_two(d, d->z, d->z, -1 / yry, 0, 0);
}

static gd_status again(gd_dense *d)
{
    gd_tensor *r = d->matrix;
    if (d->pairs == 0) return GD_OK;
    gd_status status = gd_dense_use(d, "next");
    if (!status) status = gd_assign(r, d->matrix);
    return status ? status : gd_dense_use(d, "matrix");
}

GD_DENSE_LINK(projected_newton_raphson, .restart = again, .unsymmetric = true)

GD_LINK(quasi_newton, projected_newton_raphson,
    GD_DENSE_CLASS(projected_newton_raphson),
    .summary =
        "Pearson's projected Newton-Raphson method: directions that avoid each other, then the Newton step",
    .formula = "A = A + (s - A y) (R y)^T / y R y;  R = R - R y (R y)^T / y R y, every n steps R = A;  R u",
    .paper = "Pearson, Variable metric methods of minimisation, 1969",
    .example = "projected_newton_raphson | strong_wolfe(fallback=true)");
