/* L-SR1: symmetric rank one from the last pairs, on the identity.
 *
 * Pair by pair, oldest first, v_k = s_k - H_k y_k and H_(k+1) = H_k + v_k v_k^T / v_k y_k.  Each v is a combination of
 * w_j = s_j - y_j, so the recursion runs on coefficients and products of the history:
 *
 *     v_k = sum_j c_kj w_j,   H u = u + sum_j e_j w_j,   e = sum_k c_k (c_k W^T u) / v_k y_k
 *
 * A pair with |v y| <= 1e-8 |v| |y| is passed over (Nocedal & Wright 2006, 6.26).  The Hessian is the same recursion with s
 * and y exchanged. */
#include "gradus/link/quasi_newton.h"

#include <math.h>

static const gd_field fields[] = {
    GD_INT("history_size", 10, 1, 1000, "pairs to keep"),
    GD_REAL_OR_NONE("ptol", 0, INFINITY, "parameters that moved less give no pair"),
    GD_FLAG("ptol_restart", false, "forget all pairs then"),
    GD_REAL_OR_NONE("gtol", 0, INFINITY, "an update that changed less gives no pair"),
    GD_FLAG("gtol_restart", false, "forget all pairs then"),
    GD_OPEN_FLAG("scale_first", "shorten the first step; none: only where gd_minimize runs it"),
    GD_UPDATE_FREQ("steps from pair to pair"),
    GD_CHOICE_OR_NONE("damping", "powell|double", "bend pairs with little curvature"),
    GD_INNER("links that change the update after the pair is taken"),
};

static const gd_slot slots[] = {GD_PAIR_SLOTS};

/* Products over pairs i, j of the recursion: the matrix maps b to a; w = a - b. */
typedef struct products {
    const gd_pairs *p;
    bool hessian; /* a = y, b = s instead of a = s, b = y */
} products;

static double at(const products *p, const double *m, int i, int j) { return m[i * p->p->count + j]; }
static double aa(const products *p, int i, int j) { return at(p, p->hessian ? p->p->yy : p->p->ss, i, j); }
static double bb(const products *p, int i, int j) { return at(p, p->hessian ? p->p->ss : p->p->yy, i, j); }
static double ab(const products *p, int i, int j)
{
    return p->hessian ? at(p, p->p->sy, j, i) : at(p, p->p->sy, i, j);
}
static double wb(const products *p, int i, int j) { return ab(p, i, j) - bb(p, i, j); }
static double ww(const products *p, int i, int j)
{
    return aa(p, i, j) - ab(p, i, j) - ab(p, j, i) + bb(p, i, j);
}

/* c[k] the coefficients of v_k, inverse[k] = 1 / v_k b_k, 0 where the pair is passed over. */
static void recursion(const products *p, double *c, double *inverse)
{
    int n = p->p->count;
    for (int k = 0; k < n; k++) {
        double *ck = c + k * n;
        for (int i = 0; i < n; i++) ck[i] = i == k;
        for (int j = 0; j < k; j++) {
            double vb = 0;
            for (int i = 0; i <= j; i++) vb += c[j * n + i] * wb(p, i, k);
            for (int i = 0; i <= j; i++) ck[i] -= c[j * n + i] * vb * inverse[j];
        }
        double vb = 0, vv = 0;
        for (int i = 0; i <= k; i++) {
            vb += ck[i] * wb(p, i, k);
            for (int j = 0; j <= k; j++) vv += ck[i] * ck[j] * ww(p, i, j);
        }
        inverse[k] = fabs(vb) > 1e-8 * sqrt(fmax(vv, 0) * bb(p, k, k)) ? 1 / vb : 0;
    }
}

/* c and inverse of the recursion, one after the other; NULL without memory. */
static double *recursed(gd_link *link, const gd_pairs *pairs, bool hessian)
{
    size_t n = (size_t)pairs->count;
    double *c = gd_link_memory(link, (n * n + n) * sizeof *c);
    const products p = {.p = pairs, .hessian = hessian};
    if (c) recursion(&p, c, c + n * n);
    return c;
}

static gd_status lsr1_direction(gd_link *link, const gd_pairs *p, double *one, double *es, double *ey)
{
    (void)one;
    int n = p->count;
    const double *c = recursed(link, p, false), *inverse = c ? c + n * n : NULL;
    if (!c) return gd_error(gd_link_ctx(link));
    for (int k = 0; k < n; k++) {
        double vu = 0;
        for (int i = 0; i <= k; i++) vu += c[k * n + i] * (p->su[i] - p->yu[i]);
        for (int i = 0; i <= k; i++) es[i] += c[k * n + i] * vu * inverse[k];
    }
    for (int i = 0; i < n; i++) ey[i] = -es[i];
    return GD_OK;
}

/* I + W C^T diag(inverse) C W^T with W [n, pairs]. */
static gd_linop *low_rank_hessian(gd_link *link, const gd_pairs *p, gd_tensor *s, gd_tensor *y)
{
    gd_ctx *ctx = gd_link_ctx(link);
    gd_dtype dtype = gd_tensor_dtype(s);
    gd_device *device = gd_tensor_device(s);
    int64_t n = p->count;
    const double *c = recursed(link, p, true);
    if (!c) return NULL;
    gd_tensor *coef = gd_from_f64(ctx, dtype, 2, (int64_t[]){n, n}, c);
    gd_tensor *scale = gd_from_f64(ctx, dtype, 1, &n, c + n * n);
    gd_tensor *v = gd_matmul(gd_to_device(coef, device), gd_sub(y, s));
    return gd_linop_shifted(gd_linop_low_rank(gd_transpose(v, 0, 1), gd_to_device(scale, device)), 1);
}

static const gd_limited_memory lsr1_method = {
    .direction = lsr1_direction, .hessian = low_rank_hessian, .uses_ss = true};
GD_LIMITED_MEMORY_LINK(lsr1)

GD_LINK(quasi_newton, lsr1,
    GD_LIMITED_MEMORY_CLASS(lsr1),
    .summary = "limited-memory symmetric rank one",
    .formula = "H = I, then for the last history_size pairs v = s - H y;  H = H + v v^T / v y;  H u",
    .paper =
        "Byrd, Nocedal & Schnabel, Representations of quasi-Newton matrices and their use in limited memory methods, 1994",
    .cost = "about 4 m n operations per step and 2 m vectors, for a history of m and n elements",
    .example = "trust_cg(lsr1)",
    GD_FIELDS(fields),
    GD_SLOTS(slots));
