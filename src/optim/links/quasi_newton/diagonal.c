/* Quasi-Newton methods that keep a diagonal: b of the Hessian, or h of its inverse.
 *
 *   diagonal_bfgs    h + (1 + y h y / s y) s^2 / s y - 2 h y s / s y     b + y^2 / s y - (b s)^2 / s b s
 *                    the diagonal of BFGS' change (Gilbert & Lemarechal 1989)
 *   diagonal_sr1     h + v^2 / v y, v = s - h y                         b + v^2 / v s, v = y - b s
 *   diagonal_quasi_cauchi            b + (s y - s b s) / sum(s^4) s^2: the least change with s b s = s y
 *   diagonal_weighted_quasi_cauchi   b + (s y - s b s) / sum(b^2 s^4) b^2 s^2
 *   dnrtr            b - 1 + (s y + s s - s b s) / sum(s^4) s^2: least change and least trace; outside [lb, ub]: 1
 *   new_dqn          b + s y / sum(s^4) s^2; outside [lb, ub]: 1
 *
 * With h in place of b the last ones have s and y exchanged.  diagonal_bfgs leaves out pairs with s y <= tol, diagonal_sr1
 * those whose denominator is below 1e-8 of the norms in it.  Quasi-Cauchy changes leave an element as it was if it would not stay
 * positive: the update would point uphill there. */
#include "gradus/link/quasi_newton.h"

static const gd_field fields[] = {GD_DENSE_FIELDS, GD_DENSE_INVERSE(true), GD_DENSE_INNER};
static const gd_field direct_fields[] = {GD_DENSE_FIELDS, GD_DENSE_INVERSE(false), GD_DENSE_INNER};
static const gd_field bounded_fields[] = {GD_REAL("lb", 0.01, 0, INFINITY, "least element of the Hessian"),
                                          GD_REAL("ub", 1e5, 0, INFINITY, "greatest element of the Hessian"),
                                          GD_DENSE_FIELDS, GD_DENSE_INNER};
static const gd_slot slots[] = {GD_DENSE_SLOTS};
static const char *const scalars[] = {GD_DENSE_SCALAR};

/* The diagonal a with a y = x to reach; x is s and y is y for the inverse. */
static gd_tensor *x_of(const gd_dense *d) { return d->inverse ? d->s : d->y; }
static gd_tensor *y_of(const gd_dense *d) { return d->inverse ? d->y : d->s; }

static double sum_of(gd_dense *d, gd_tensor *a, gd_tensor *b) { return a && b ? gd_dense_dot(d, a, b) : NAN; }

/* Takes a + value; nothing if a divisor or the value is not finite. */
static gd_status taken(gd_dense *d, double divisor, gd_tensor *value)
{
    gd_ctx *ctx = gd_link_ctx(d->link);
    if (gd_error(ctx)) return gd_error(ctx);
    bool usable = isfinite(divisor) && fabs(divisor) > d->tol && gd_vector_finite(value);
    return usable ? gd_dense_set(d, value) : gd_error(ctx);
}

static gd_status diagonal_bfgs_pair(gd_dense *d)
{
    if (d->sy <= d->tol) return GD_OK;
    gd_tensor *a = d->matrix, *x = x_of(d), *y = y_of(d), *ay = gd_mul(a, y);
    double yay = sum_of(d, y, ay), sy = d->sy;
    if (!d->inverse) {
        gd_tensor *more = gd_vector_sum(a, 1 / sy, gd_square(x));
        return yay > 0 ? taken(d, yay, gd_vector_sum(more, -1 / yay, gd_square(ay)))
                       : gd_error(gd_link_ctx(d->link));
    }
    gd_tensor *more = gd_vector_sum(a, (1 + yay / sy) / sy, gd_square(x));
    return taken(d, sy, gd_vector_sum(more, -2 / sy, gd_mul(ay, x)));
}

static gd_status diagonal_sr1_pair(gd_dense *d)
{
    gd_tensor *y = y_of(d), *v = gd_vector_sum(x_of(d), -1, gd_mul(d->matrix, y));
    double vy = sum_of(d, v, y), least = fmax(d->tol, 1e-8 * sqrt(sum_of(d, v, v) * sum_of(d, y, y)));
    if (fabs(vy) <= least) return GD_OK;
    return taken(d, vy, gd_vector_sum(d->matrix, 1 / vy, gd_square(v)));
}

/* a + (x y + more - y a y) / sum(w^2 y^4) w^2 y^2, w = 1 or a. */
static gd_tensor *weak_secant(gd_dense *d, bool weighted, double more, double *divisor)
{
    gd_tensor *yy = gd_square(y_of(d)), *wyy = weighted ? gd_mul(d->matrix, yy) : yy;
    double missing = d->sy + more - sum_of(d, d->matrix, yy);
    *divisor = sum_of(d, wyy, wyy);
    return gd_vector_sum(d->matrix, missing / *divisor, weighted ? gd_mul(d->matrix, wyy) : wyy);
}

static gd_status kept_positive(gd_dense *d, bool weighted)
{
    double divisor = 0;
    gd_tensor *value = weak_secant(d, weighted, 0, &divisor);
    gd_tensor *positive = value ? gd_gt(value, gd_zeros_like(value)) : NULL;
    return taken(d, divisor, gd_where(positive, value, d->matrix));
}

static gd_status diagonal_quasi_cauchi_pair(gd_dense *d) { return kept_positive(d, false); }
static gd_status diagonal_weighted_quasi_cauchi_pair(gd_dense *d) { return kept_positive(d, true); }

static gd_status bounded(gd_dense *d, double divisor, gd_tensor *value)
{
    if (!value) return gd_error(gd_link_ctx(d->link));
    gd_tensor *low = gd_full_like(value, gd_link_real(d->link, "lb", NULL)),
              *high = gd_full_like(value, gd_link_real(d->link, "ub", NULL));
    gd_tensor *inside = gd_logical_and(gd_ge(value, low), gd_le(value, high));
    return taken(d, divisor, gd_where(inside, value, gd_ones_like(value)));
}

static gd_status dnrtr_pair(gd_dense *d)
{
    double divisor = 0;
    gd_tensor *value = weak_secant(d, false, gd_dense_dot(d, d->s, d->s), &divisor);
    return bounded(d, divisor, gd_add_scalar(value, -1));
}

static gd_status new_dqn_pair(gd_dense *d)
{
    gd_tensor *ss = gd_square(d->s);
    double divisor = sum_of(d, ss, ss);
    return bounded(d, divisor, gd_vector_sum(d->matrix, d->sy / divisor, ss));
}

GD_DENSE_LINK(diagonal_bfgs, .diagonal = true)
GD_DENSE_LINK(diagonal_quasi_cauchi, .diagonal = true)
GD_DENSE_LINK(diagonal_sr1, .diagonal = true)
GD_DENSE_LINK(diagonal_weighted_quasi_cauchi, .diagonal = true)
GD_DENSE_LINK(dnrtr, .diagonal = true, .hessian = true)
GD_DENSE_LINK(new_dqn, .diagonal = true, .hessian = true)

GD_LINK(quasi_newton, diagonal_bfgs,
    GD_DIAGONAL_CLASS(diagonal_bfgs, fields),
    .summary = "the diagonal of BFGS",
    .formula = "h = h + (1 + y h y / s y) s^2 / s y - 2 h y s / s y;  h u",
    .paper =
        "Gilbert & Lemarechal, Some numerical experiments with variable-storage quasi-Newton algorithms, 1989",
    .example = "diagonal_bfgs | strong_wolfe");

GD_LINK(quasi_newton, diagonal_quasi_cauchi,
    GD_DIAGONAL_CLASS(diagonal_quasi_cauchi, direct_fields),
    .summary = "quasi-Cauchy: the least change of a diagonal that fits the curvature along the step",
    .formula = "b = b + (s y - s b s) / sum(s^4) s^2, where that is positive;  u / b",
    .paper = "Zhu, Nazareth & Wolkowicz, The quasi-Cauchy relation and diagonal updating, 1999",
    .example = "diagonal_quasi_cauchi | strong_wolfe");

GD_LINK(quasi_newton, diagonal_sr1,
    GD_DIAGONAL_CLASS(diagonal_sr1, fields),
    .summary = "the diagonal of symmetric rank one",
    .formula = "v = s - h y;  h = h + v^2 / v y;  h u",
    .paper = "Nocedal & Wright, Numerical Optimization, 2006, 6.2",
    .example = "diagonal_sr1 | strong_wolfe(fallback=true)");

GD_LINK(quasi_newton, diagonal_weighted_quasi_cauchi,
    GD_DIAGONAL_CLASS(diagonal_weighted_quasi_cauchi, direct_fields),
    .summary = "quasi-Cauchy, large elements changed more",
    .formula = "b = b + (s y - s b s) / sum(b^2 s^4) b^2 s^2, where that is positive;  u / b",
    .paper =
        "Leong, Enshaei & Kek, Diagonal quasi-Newton methods via least change updating principle with weighted Frobenius norm, 2021",
    .example = "diagonal_weighted_quasi_cauchi | strong_wolfe");

GD_LINK(quasi_newton, dnrtr,
    GD_DIAGONAL_CLASS(dnrtr, bounded_fields),
    .summary = "a diagonal of least change and least trace",
    .formula = "b = b - 1 + (s y + s s - s b s) / sum(s^4) s^2, 1 where that is not in [lb, ub];  u / b",
    .paper =
        "Andrei, A new diagonal quasi-Newton updating method with scaled forward finite differences directional derivative, 2019",
    .example = "dnrtr | strong_wolfe");

GD_LINK(quasi_newton, new_dqn,
    GD_DIAGONAL_CLASS(new_dqn, bounded_fields),
    .summary = "a diagonal that grows with the curvature along the steps",
    .formula = "b = b + s y / sum(s^4) s^2, 1 where that is not in [lb, ub];  u / b",
    .paper = "Nosrati & Amini, A new diagonal quasi-Newton algorithm for unconstrained optimization, 2024",
    .example = "new_dqn | strong_wolfe");
