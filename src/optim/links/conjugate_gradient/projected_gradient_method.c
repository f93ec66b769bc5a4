/* Projected gradients (Zoutendijk 1960; Pearson 1969): each direction is orthogonal to the changes of the gradient in earlier steps,
 *
 *     P - P y (P y)^T / y P y
 *
 * on a quadratic the directions are conjugate.  Every restart_interval steps (auto: the number of elements and one) P restarts. */
#include "gradus/link/quasi_newton.h"

static const gd_field fields[] = {GD_DENSE_FIELDS_(NULL, GD_SET_REAL, "auto", GD_SET_STRING), GD_DENSE_INNER};
static const gd_slot slots[] = {GD_DENSE_SLOTS};
static const char *const scalars[] = {GD_DENSE_SCALAR};

static gd_status projected_gradient_method_pair(gd_dense *d)
{
    gd_status status = gd_dense_times(d, d->y, d->z);
    double ypy = gd_dense_dot(d, d->y, d->z);
    return status || !(ypy > d->tol) ? status : gd_dense_rank_two(d, d->z, d->z, -1 / ypy, 0, 0);
}

GD_DENSE_LINK(projected_gradient_method, .diagonal = false)

GD_LINK(conjugate_gradient, projected_gradient_method,
    GD_DENSE_OPERATIONS(projected_gradient_method),
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .state_bytes = gd_dense_bytes,
    .cost = GD_DENSE_COST,
    .summary = "gradients projected away from where earlier steps went",
    .formula = "P = P - P y (P y)^T / y P y;  P u",
    .paper = "Pearson, Variable metric methods of minimisation, 1969",
    .example = "projected_gradient_method | strong_wolfe");
