/* Broyden's family: secant updates of rank one that need not be symmetric,
 *
 *     H + (s - H y) c^T / c y        so that H y = s
 *
 *   broyden_good   c = H^T s      broyden_bad   c = y
 *   mccormick      c = s          pearson       c = H y
 *   greenstadt1    c = u          greenstadt2   c = H H y       u the update now
 *   icum           c = e_j, j the place of the largest |y|
 *   thomas         c = H^T d,  d = (R + |s|/2 I) s,  R = (1 + |s|) (|s| I + R - d d^T / d s), R = I at first
 *
 * Without `inverse` the matrix is B = H^-1 and the same change of it is made (Sherman & Morrison 1950):
 * B + (y - B s) b^T / b s with b = B^T c.  A pair whose denominator is below 1e-8 of the norms in it is left out.  Trust regions use
 * the symmetric part of the matrix. */
#include "gradus/link/quasi_newton.h"

static const gd_field fields[] = {GD_DENSE_FIELDS, GD_DENSE_INVERSE(true), GD_DENSE_INNER};
static const gd_slot slots[] = {GD_DENSE_SLOTS};
static const gd_slot thomas_slots[] = {GD_DENSE_SLOTS, {"inaccuracy", 0}};
static const char *const scalars[] = {GD_DENSE_SCALAR};

/* A vector like those of the pair. */
static gd_tensor *vector(gd_dense *d) { return gd_zeros_like(d->s); }

/* A += (x - A w) c^T / c w. */
static gd_status change(gd_dense *d, gd_tensor *c)
{
    gd_tensor *x = d->inverse ? d->s : d->y, *w = d->inverse ? d->y : d->s;
    gd_status status = c ? gd_dense_times(d, w, d->z) : gd_error(gd_link_ctx(d->link));
    if (!status) status = gd_dense_add(d, d->z, -1, x);
    if (status) return status;
    double cw = gd_dense_dot(d, c, w);
    double least = fmax(d->tol, 1e-8 * sqrt(gd_dense_dot(d, c, c) * gd_dense_dot(d, w, w)));
    return !isfinite(cw) || fabs(cw) <= least ? GD_OK : gd_dense_outer(d, -1 / cw, d->z, c);
}

static gd_tensor *transposed(gd_dense *d, gd_tensor *x)
{
    gd_tensor *out = x ? vector(d) : NULL;
    return out && !gd_dense_times_transposed(d, x, out) ? out : NULL;
}

/* H x. */
static gd_tensor *by_inverse(gd_dense *d, gd_tensor *x)
{
    gd_tensor *out = x ? vector(d) : NULL;
    if (!out) return NULL;
    return (d->inverse ? gd_dense_times(d, x, out) : gd_dense_solve(d, x, out)) ? NULL : out;
}

/* Converts a vector c for H into the one for the stored matrix; and one given as H^T c. */
static gd_status by_vector(gd_dense *d, gd_tensor *c) { return change(d, d->inverse ? c : transposed(d, c)); }
static gd_status by_turned(gd_dense *d, gd_tensor *c) { return change(d, d->inverse ? transposed(d, c) : c); }

static gd_status broyden_good_pair(gd_dense *d) { return by_turned(d, d->s); }
static gd_status broyden_bad_pair(gd_dense *d) { return by_vector(d, d->y); }
static gd_status mccormick_pair(gd_dense *d) { return by_vector(d, d->s); }
static gd_status greenstadt1_pair(gd_dense *d) { return by_vector(d, d->u); }
static gd_status pearson_pair(gd_dense *d) { return by_vector(d, by_inverse(d, d->y)); }
static gd_status greenstadt2_pair(gd_dense *d) { return by_vector(d, by_inverse(d, by_inverse(d, d->y))); }

static gd_status icum_pair(gd_dense *d)
{
    gd_tensor *place = gd_argmax(gd_abs(d->y), "0", false), *c = place ? vector(d) : NULL;
    int64_t j = c ? (int64_t)gd_item(place) : 0;
    gd_tensor *one = gd_slice(c, "0", j, j + 1, 1);
    gd_status status = one ? gd_fill(one, 1) : gd_error(gd_link_ctx(d->link));
    return status ? status : by_vector(d, c);
}

/* R of the next pair; the identity again if it has overflowed. */
static gd_status next_inaccuracy(gd_dense *d, gd_tensor *v, double norm)
{
    double vs = gd_dense_dot(d, v, d->s);
    if (vs == 0) return GD_OK;
    gd_status status = isfinite(vs) ? gd_dense_outer(d, -1 / vs, v, v) : gd_fill(d->matrix, 0);
    if (!status) status = gd_dense_shift(d, isfinite(vs) ? norm : 1);
    return status || !isfinite(vs) ? status : gd_dense_scale(d, 1 + norm);
}

static gd_status thomas_optimal_method_pair(gd_dense *d)
{
    gd_tensor *v = vector(d);
    double norm = sqrt(gd_dense_dot(d, d->s, d->s)), weight = d->weight;
    gd_status status = v ? gd_dense_use(d, "inaccuracy") : gd_error(gd_link_ctx(d->link));
    if (!status) status = gd_dense_times(d, d->s, v);
    if (!status) status = gd_dense_add(d, v, norm / 2, d->s);
    if (!status) status = gd_dense_use(d, "matrix");
    if (!status) status = by_turned(d, v);
    bool taken = d->taken;
    d->weight = 1; /* the inertia is H's */
    if (!status) status = gd_dense_use(d, "inaccuracy");
    if (!status) status = next_inaccuracy(d, v, norm);
    d->weight = weight;
    d->taken = taken;
    return status ? status : gd_dense_use(d, "matrix");
}

GD_DENSE_LINK(broyden_bad, .unsymmetric = true)
GD_DENSE_LINK(broyden_good, .unsymmetric = true)
GD_DENSE_LINK(greenstadt1, .unsymmetric = true)
GD_DENSE_LINK(greenstadt2, .unsymmetric = true)
GD_DENSE_LINK(icum, .unsymmetric = true)
GD_DENSE_LINK(mccormick, .unsymmetric = true)
GD_DENSE_LINK(pearson, .unsymmetric = true)
GD_DENSE_LINK(thomas_optimal_method, .unsymmetric = true)

#define PAPER "Broyden, A class of methods for solving nonlinear simultaneous equations, 1965"
#define SPEDICATO \
    "Spedicato & Huang, Numerical experience with Newton-like methods for nonlinear algebraic systems, 1997"

GD_LINK(quasi_newton, broyden_bad,
    GD_DENSE_CLASS(broyden_bad),
    .summary = "Broyden's second method: the least change of the inverse",
    .formula = "H = H + (s - H y) y^T / y y;  H u",
    .paper = PAPER,
    .example = "broyden_bad | strong_wolfe(fallback=true)");

GD_LINK(quasi_newton, broyden_good,
    GD_DENSE_CLASS(broyden_good),
    .summary = "Broyden's first method: the least change of the matrix",
    .formula = "H = H + (s - H y) s^T H / s H y;  H u",
    .paper = PAPER,
    .example = "broyden_good | strong_wolfe(fallback=true)");

GD_LINK(quasi_newton, greenstadt1,
    GD_DENSE_CLASS(greenstadt1),
    .summary = "Greenstadt's first method: the change is along the gradient",
    .formula = "H = H + (s - H y) u^T / u y;  H u",
    .paper = SPEDICATO,
    .example = "greenstadt1 | strong_wolfe(fallback=true)");

GD_LINK(quasi_newton, greenstadt2,
    GD_DENSE_CLASS(greenstadt2),
    .summary = "Greenstadt's second method",
    .formula = "c = H H y;  H = H + (s - H y) c^T / c y;  H u",
    .paper = SPEDICATO,
    .example = "greenstadt2 | strong_wolfe(fallback=true)");

GD_LINK(quasi_newton, icum,
    GD_DENSE_CLASS(icum),
    .summary = "column updating: changes one column of the inverse",
    .formula = "j = argmax |y|;  H = H + (s - H y) e_j^T / y_j;  H u",
    .paper =
        "Martinez & Zambaldi, An inverse column-updating method for solving large-scale nonlinear systems, 1992",
    .example = "icum | strong_wolfe(fallback=true)");

GD_LINK(quasi_newton, mccormick,
    GD_DENSE_CLASS(mccormick),
    .summary = "McCormick's method",
    .formula = "H = H + (s - H y) s^T / s y;  H u",
    .paper = "Pearson, Variable metric methods of minimisation, 1969",
    .example = "mccormick | strong_wolfe(fallback=true)");

GD_LINK(quasi_newton, pearson,
    GD_DENSE_CLASS(pearson),
    .summary = "Pearson's method",
    .formula = "H = H + (s - H y) (H y)^T / y H y;  H u",
    .paper = "Pearson, Variable metric methods of minimisation, 1969",
    .example = "pearson | strong_wolfe(fallback=true)");

GD_LINK(quasi_newton, thomas_optimal_method,
    GD_DENSE_OPERATIONS(thomas_optimal_method),
    .state_bytes = gd_dense_bytes,
    GD_FIELDS(fields),
    GD_SLOTS(thomas_slots),
    .summary = "Thomas' method: weighs the change by how far the matrix is off",
    .formula =
        "R_0 = I;  d = (R + |s|/2 I) s;  c = H^T d;  H = H + (s - H y) c^T / c y;  R = (1 + |s|) (|s| I + R - d d^T / d s);  H u",
    .paper = "Thomas, Sequential estimation techniques for quasi-Newton algorithms, 1975",
    .cost = "a few products of two [n, n] matrices with vectors per step, for n elements",
    .example = "thomas_optimal_method | strong_wolfe(fallback=true)");
