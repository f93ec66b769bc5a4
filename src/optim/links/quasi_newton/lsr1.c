/* L-SR1: symmetric rank one from the last pairs, on the identity.
 *
 * Pair by pair, oldest first, v_k = s_k - H_k y_k and H_(k+1) = H_k + v_k v_k^T / v_k y_k.  Each v is a combination of
 * w_j = s_j - y_j, so the recursion runs on coefficients and products of the history:
 *
 *     v_k = sum_j c_kj w_j,   H u = u + sum_j e_j w_j,   e = sum_k c_k (c_k W^T u) / v_k y_k
 *
 * A pair with |v y| <= 1e-8 |v| |y| is passed over (Nocedal & Wright 2006, 6.26).  The Hessian is the same recursion with s
 * and y exchanged. */
#include "optim/methods/history.h"
#include "optim/step/optimizer.h"

#include <math.h>

static const gd_field fields[] = {
    GD_INT("history_size", 10, 1, 1000, "pairs to keep"),
    GD_REAL_OR_NONE("ptol", 0, INFINITY, "parameters that moved less give no pair"),
    GD_FLAG("ptol_restart", false, "forget all pairs then"),
    GD_REAL_OR_NONE("gtol", 0, INFINITY, "an update that changed less gives no pair"),
    GD_FLAG("gtol_restart", false, "forget all pairs then"),
    GD_OPEN_FLAG("scale_first", "shorten the first step; none: only where gd_minimize runs it"),
    GD_UPDATE_FREQ("steps from pair to pair"),
    {.name = "damping",
     .kinds = GD_SET_STRING | GD_SET_NONE,
     .fallback = {.kind = GD_SET_NONE},
     .choices = "powell|double",
     .help = "bend pairs with little curvature"},
    GD_INNER("links that change the update after the pair is taken"),
};

static const gd_slot slots[] = {GD_HISTORY_SLOTS};

/* Products over pairs i, j of the recursion: a is what the matrix must give, b what it is applied to; w = a - b. */
typedef struct products {
    const gd_history *h;
    bool hessian; /* a = y, b = s instead of a = s, b = y */
} products;

static double aa(const products *p, int i, int j)
{
    return gd__gram(p->h, p->hessian ? p->h->yy : p->h->ss, i, j);
}
static double bb(const products *p, int i, int j)
{
    return gd__gram(p->h, p->hessian ? p->h->ss : p->h->yy, i, j);
}
static double ab(const products *p, int i, int j)
{
    return p->hessian ? gd__gram(p->h, p->h->sy, j, i) : gd__gram(p->h, p->h->sy, i, j);
}
static double wb(const products *p, int i, int j) { return ab(p, i, j) - bb(p, i, j); }
static double ww(const products *p, int i, int j)
{
    return aa(p, i, j) - ab(p, i, j) - ab(p, j, i) + bb(p, i, j);
}

/* c[k] the coefficients of v_k, inverse[k] = 1 / v_k b_k, 0 where the pair is passed over. */
static void recursion(const products *p, double *c, double *inverse)
{
    int n = p->h->pairs;
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

/* Room for c, inverse and one more vector. */
static double *room(const gd_history *h, size_t *bytes)
{
    size_t n = (size_t)h->pairs;
    *bytes = (n * n + 4 * n) * sizeof(double);
    return gd__calloc(h->layout.ctx, *bytes);
}

static gd_status direction(gd_history *h, gd_tensor *const *update, gd_tensor **out)
{
    int n = h->pairs;
    if (!n) return gd__history_first(h, update, out);
    size_t bytes;
    double *c = room(h, &bytes);
    if (!c) return GD_NOMEM;
    double *inverse = c + n * n, *es = inverse + n, *ey = es + n;
    products p = {.h = h};
    recursion(&p, c, inverse);
    for (int k = 0; k < n; k++) {
        double vu = 0;
        for (int i = 0; i <= k; i++) {
            int row = gd__history_row(h, i);
            vu += c[k * n + i] * (h->s_dots[row] - h->y_dots[row]);
        }
        for (int i = 0; i <= k; i++) es[i] += c[k * n + i] * vu * inverse[k];
    }
    for (int i = 0; i < n; i++) ey[i] = -es[i];
    gd_status status = gd__history_combine(h, update, 1, es, ey, out);
    gd__free(h->layout.ctx, c, bytes);
    return status;
}

static gd_status lsr1_step(gd_link *link, gd_var *var)
{
    return gd__limited_memory(link, var, true, true, true, direction);
}

static gd_status lsr1_update(gd_link *link, gd_var *var)
{
    return gd__limited_memory(link, var, true, false, true, direction);
}

static gd_status lsr1_apply(gd_link *link, gd_var *var)
{
    return gd__limited_memory(link, var, false, true, true, direction);
}

/* I + W C^T diag(inverse) C W^T with W [n, pairs]. */
static gd_linop *low_rank_hessian(gd_history *h)
{
    gd_ctx *ctx = h->layout.ctx;
    int64_t n = h->pairs;
    size_t bytes;
    double *c = room(h, &bytes);
    gd_tensor *s = NULL, *y = NULL;
    gd_linop *op = NULL;
    if (c && !gd__history_matrices(h, &s, &y)) {
        products p = {.h = h, .hessian = true};
        recursion(&p, c, c + n * n);
        gd_tensor *coef = gd_from_f64(ctx, h->layout.dtype, 2, (int64_t[]){n, n}, c);
        gd_tensor *scale = gd_from_f64(ctx, h->layout.dtype, 1, &n, c + n * n);
        gd_tensor *v = gd_matmul(gd_to_device(coef, h->layout.device), gd_sub(y, s));
        op = gd_linop_low_rank(gd_transpose(v, 0, 1), gd_to_device(scale, h->layout.device));
        op = op ? gd_linop_shifted(op, 1) : NULL;
    }
    if (c) gd__free(ctx, c, bytes);
    return op;
}

static gd_linop *lsr1_hessian(gd_link *link, gd_var *var)
{
    gd_history h;
    gd_linop *op = NULL;
    gd_scope_begin(gd_var_ctx(var));
    if (!gd__history_open(&h, link, var, true))
        op = h.pairs ? low_rank_hessian(&h) : gd__history_identity(&h);
    gd__history_close(&h);
    gd_scope_end(gd_var_ctx(var));
    return op;
}

const gd_link_class gd_link_lsr1 = {
    .spread = GD_SPREAD_VECTOR,
    .name = "lsr1",
    .family = "quasi_newton",
    .summary = "limited-memory symmetric rank one",
    .formula = "H u with H = I + sum v v^T / v y over the last pairs",
    .paper =
        "Byrd, Nocedal & Schnabel, Representations of quasi-Newton matrices and their use in limited memory methods, 1994",
    .cost = "about 4 m n operations a step and 2 m vectors, for a history of m and n elements",
    .example = "trust_cg(lsr1)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .state_bytes = gd__history_bytes,
    .step = lsr1_step,
    .update = lsr1_update,
    .apply = lsr1_apply,
    .hessian = lsr1_hessian,
};
