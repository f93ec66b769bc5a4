/* L-BFGS: the inverse Hessian from the last pairs (Nocedal 1980; Liu & Nocedal 1989).
 *
 * The two loops run on coefficients: with S, Y the pairs as columns and u the update,
 *
 *     newest to oldest   alpha_i = (s_i u - sum_(j>i) alpha_j s_i y_j) / s_i y_i
 *     oldest to newest   c_i = alpha_i - (gamma (y_i u - sum_j alpha_j y_i y_j) + sum_(j<i) c_j s_j y_i) / s_i y_i
 *     H u = gamma u - gamma Y alpha + S c,    gamma = s y / y y of the newest pair
 *
 * so all products with the history are computed in one pass over it, and the sum in a second one.  Before the first pair the update
 * is scaled to a 1-norm of at most 1 (scale_first).  A pair without positive curvature is not taken.
 *
 * Its Hessian: the compact form (Byrd, Nocedal & Schnabel 1994) as shifted operator of low rank. */
#include "gradus/link/quasi_newton.h"

#include <math.h>

static const gd_field fields[] = {
    GD_INT("history_size", 10, 1, 10000, "pairs to keep"),
    GD_REAL_OR_OFF("ptol", 1e-32, 0, INFINITY, "parameters that moved less give no pair"),
    GD_FLAG("ptol_restart", false, "forget all pairs then"),
    GD_REAL_OR_OFF("gtol", 1e-32, 0, INFINITY, "an update that changed less gives no pair"),
    GD_FLAG("gtol_restart", false, "forget all pairs then"),
    GD_REAL("sy_tol", 1e-32, -INFINITY, INFINITY, "least curvature s y of a pair"),
    GD_FLAG("scale_first", true, "shorten the first step"),
    GD_UPDATE_FREQ("steps from pair to pair"),
    GD_CHOICE_OR_NONE("damping", "powell|double",
                      "bend pairs with little curvature instead of leaving them out"),
    GD_INNER("links that change the update after the pair is taken"),
};

static const gd_slot slots[] = {GD_PAIR_SLOTS};

/* The two loops; c is gamma. */
static gd_status lbfgs_direction(gd_link *link, const gd_pairs *p, double *c, double *cs, double *cy)
{
    (void)link;
    int n = p->count;
    double gamma = p->sy[n * n - 1] / p->yy[n * n - 1];
    for (int i = n - 1; i >= 0; i--) {
        double t = p->su[i];
        for (int j = i + 1; j < n; j++) t -= cy[j] * p->sy[i * n + j];
        cy[i] = t / p->sy[i * n + i];
    }
    for (int i = 0; i < n; i++) {
        double t = p->yu[i];
        for (int j = 0; j < n; j++) t -= cy[j] * p->yy[i * n + j];
        t *= gamma;
        for (int j = 0; j < i; j++) t += cs[j] * p->sy[j * n + i];
        cs[i] = cy[i] - t / p->sy[i * n + i];
    }
    for (int i = 0; i < n; i++) cy[i] *= -gamma;
    *c = gamma;
    return GD_OK;
}

/* ---- the Hessian ---- */

/* sigma I - W M^-1 W^T, with W [n, k] and a symmetric M [k, k]: by the eigenvectors of M. */
static gd_linop *compact_form(gd_tensor *w, gd_tensor *m, double sigma)
{
    gd_tensor *values = NULL, *vectors = NULL;
    if (!w || !m || gd_eigh(m, &values, &vectors)) return NULL;
    gd_tensor *most = gd_vector_most(gd_abs(values));
    if (!most) return NULL;
    /* directions in the null space of M add nothing */
    gd_tensor *seen = gd_gt(gd_abs(values), gd_full_like(values, 1e-14 * gd_item(most)));
    gd_tensor *divisor = gd_where(seen, values, gd_ones_like(values));
    gd_tensor *inverse = gd_where(seen, gd_neg(gd_reciprocal(divisor)), gd_zeros_like(values));
    gd_dtype dtype = gd_tensor_dtype(w);
    return gd_linop_shifted(gd_linop_low_rank(gd_matmul(w, gd_cast(vectors, dtype)), gd_cast(inverse, dtype)),
                            sigma);
}

/* B = sigma I - [sigma S, Y] [sigma S^T S, L; L^T, -D]^-1 [sigma S, Y]^T with sigma = 1 / gamma, D and L the diagonal and the
 * lower triangle of S^T Y (Byrd et al. 1994, 2.17).  Here pairs are rows. */
static gd_linop *compact_hessian(gd_link *link, const gd_pairs *p, gd_tensor *s, gd_tensor *y)
{
    int n = p->count;
    double sigma = p->yy[n * n - 1] / p->sy[n * n - 1];
    gd_tensor *sy = gd_cast(gd_matmul(s, gd_transpose(y, 0, 1)), GD_F64), *below = gd_tril(sy, -1);
    gd_tensor *ss = gd_cast(gd_matmul(s, gd_transpose(s, 0, 1)), GD_F64),
              *eye = gd_eye(gd_link_ctx(link), GD_F64, n, n);
    gd_tensor *diagonal = gd_mul(sy, gd_to_device(eye, gd_tensor_device(s)));
    gd_tensor *upper[] = {gd_mul_scalar(ss, sigma), below},
              *lower[] = {gd_transpose(below, 0, 1), gd_neg(diagonal)};
    gd_tensor *halves[] = {gd_cat(upper, 2, "1"), gd_cat(lower, 2, "1")},
              *rows[] = {gd_mul_scalar(s, sigma), y};
    return compact_form(gd_transpose(gd_cat(rows, 2, "0"), 0, 1), gd_cat(halves, 2, "0"), sigma);
}

static const gd_limited_memory lbfgs_method = {.direction = lbfgs_direction, .hessian = compact_hessian};
GD_LIMITED_MEMORY_LINK(lbfgs)

GD_LINK(quasi_newton, lbfgs,
    GD_LIMITED_MEMORY_CLASS(lbfgs),
    .summary = "limited-memory BFGS",
    .formula =
        "H = (s y / y y) I, then for the last history_size pairs V = I - y s^T / s y;  H = V^T H V + s s^T / s y;  H u",
    .paper = "Liu & Nocedal, On the limited memory BFGS method for large scale optimization, 1989",
    .cost = "4 m n operations per step and 2 m vectors, for a history of m and n elements",
    .example = "lbfgs | strong_wolfe",
    GD_FIELDS(fields),
    GD_SLOTS(slots));
