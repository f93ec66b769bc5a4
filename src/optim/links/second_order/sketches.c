/* Newton's method in a random subspace, with Hessian products only.  S [n, k] has orthonormal columns, Y = H S:
 *
 *   rsn                        d = S (S^T H S + damping I)^+ S^T g                                  (Gower et al. 2019)
 *   nystrom_sketch_and_solve   H ~ Q L Q^T from Y;  d = Q (L + reg)^-1 Q^T g + (g - Q Q^T g) / reg  (Frangella et al. 2023)
 *   nystrom_pcg                (H + reg I) d = g by conjugate gradients with the preconditioner
 *                              (l + reg) Q (L + reg)^-1 Q^T + I - Q Q^T,  l the least of L
 *
 * Q L Q^T is Y (S^T Y)^-1 Y^T, made stable by a shift of the size of rounding; eigenvalues of S^T Y that are not positive are left
 * out, so negative curvature counts as zero.  nystrom_sketch_and_solve steps by g / reg outside the sketch: with rank < n
 * and a small reg those steps are huge.
 *
 * sketch_type of rsn: orthonormal, gaussian (columns N(0, 1/n)); common_directions: the last k gradients, made orthonormal;
 * mixed: gradient, a fast and a slow average of gradients, then random ones. */
#include "gradus/link/hessian.h"
#include "gradus/link/trust_region.h"

#include <math.h>

#define PRODUCTS(fallback, h_step)                                                                      \
    GD_HVP_CHOICE(fallback, "autograd|batched|batched_autograd|forward|central|fd_forward|fd_central"), \
        GD_REAL("h", h_step, 0, INFINITY, "step of gradient differences")
#define INNER GD_INNER("links whose update takes the place of the gradient")
#define SEED  GD_SEED("of the sketches; none: the context's")

static const gd_field rsn_fields[] = {
    GD_INT_NEEDED("sketch_size", 1, 1e6, "dimensions of the subspace"),
    GD_CHOICE("sketch_type", "orthonormal", "orthonormal|gaussian|common_directions|mixed", "what spans it"),
    GD_REAL("damping", 0, -INFINITY, INFINITY, "added to the diagonal of the small Hessian"),
    PRODUCTS("batched", 1e-2),
    GD_FLAG("use_lstsq", true, "solve by least squares at once"),
    GD_UPDATE_FREQ("steps between new subspaces"),
    SEED,
    INNER,
};
static const gd_field solve_fields[] = {
    GD_INT_NEEDED("rank", 1, 1e6, "products per step"),
    GD_REAL("reg", 1e-3, 1e-300, INFINITY,
            "added to the eigenvalues; the step is g / reg where the sketch sees nothing"),
    PRODUCTS("autograd", 1e-3),
    INNER,
    SEED,
};
static const gd_field pcg_fields[] = {
    GD_INT_NEEDED("sketch_size", 1, 1e6, "products for the preconditioner"),
    GD_INT_OR_NONE("maxiter", 1, 1e15, "iterations at most; none: one per parameter"),
    GD_REAL("tol", 1e-3, 0, INFINITY, "norm of the residual, by that of the gradient, at which it is enough"),
    GD_REAL("reg", 1e-6, 0, INFINITY, "added to the diagonal of the Hessian"),
    PRODUCTS("autograd", 1e-3),
    INNER,
    SEED,
};

/* ---- subspaces, as rows [k, n] ---- */

/* Rows made orthonormal. */
static gd_tensor *orthonormal(gd_tensor *rows)
{
    gd_tensor *q = NULL, *r = NULL;
    if (!rows || gd_qr(gd_transpose(rows, 0, 1), &q, &r)) return NULL;
    return gd_contiguous(gd_transpose(q, 0, 1));
}

static gd_tensor *random_rows(gd_link *link, gd_tensor *like, int64_t k)
{
    int64_t n = gd_numel(like);
    gd_tensor *shape = gd_empty_on(gd_tensor_device(like), gd_tensor_dtype(like), 2,
                                   (int64_t[]){k < n ? k : n, n});
    return shape ? gd_link_random(link, GD_RANDOM_NORMAL, shape) : NULL;
}

/* ---- rsn ---- */

/* A running average of gradients, kept. */
static gd_tensor *average(gd_link *link, const char *name, gd_tensor *g, double beta)
{
    gd_tensor *before = gd_link_global_tensor(link, name);
    gd_tensor *now = before ? gd_vector_sum(gd_mul_scalar(before, beta), 1 - beta, g) : g;
    return now && !gd_link_set_global_tensor(link, name, now) ? now : NULL;
}

/* The gradient and those before it, k at most. */
static gd_tensor *last_gradients(gd_link *link, gd_tensor *g, int64_t k)
{
    gd_tensor *before = gd_link_global_tensor(link, "gradients"), *row = gd_unsqueeze(g, 0, NULL);
    gd_tensor *rows = before ? gd_cat((gd_tensor *[]){row, before}, 2, "0") : row;
    if (rows && gd_size(rows, 0) > k) rows = gd_slice(rows, "0", 0, k, 1);
    return rows && !gd_link_set_global_tensor(link, "gradients", rows) ? rows : NULL;
}

static gd_tensor *subspace(gd_link *link, gd_tensor *g)
{
    int64_t k = (int64_t)gd_link_real(link, "sketch_size", NULL), n = gd_numel(g);
    if (k > n) k = n;
    if (gd_link_is(link, "sketch_type", "gaussian"))
        return gd_mul_scalar(random_rows(link, g, k), 1 / sqrt((double)n));
    if (gd_link_is(link, "sketch_type", "orthonormal")) return orthonormal(random_rows(link, g, k));
    if (gd_link_is(link, "sketch_type", "common_directions")) return orthonormal(last_gradients(link, g, k));
    gd_tensor *rows[] = {g, average(link, "fast", g, 0.9), average(link, "slow", g, 0.99)};
    gd_tensor *front = gd_stack(rows, 3, 0, NULL), *rest = k > 3 ? random_rows(link, g, k - 3) : NULL;
    if (front && k < 3) front = gd_slice(front, "0", 0, k, 1);
    return orthonormal(k > 3 ? gd_cat((gd_tensor *[]){front, rest}, 2, "0") : front);
}

/* H times each row. */
static gd_tensor *products_with(gd_link *link, gd_linop *hessian, gd_tensor *rows)
{
    int64_t k = rows ? gd_size(rows, 0) : 0;
    gd_tensor **each = rows ? gd_link_scratch(link, (int)k) : NULL;
    for (int64_t i = 0; each && i < k; i++)
        if (!(each[i] = gd_linop_matvec(hessian, gd_index(rows, "0", i)))) return NULL;
    return each ? gd_stack(each, (int)k, 0, NULL) : NULL;
}

/* x y^T made symmetric, with a shift of its diagonal. */
static gd_tensor *small_matrix(gd_tensor *x, gd_tensor *y, double shift)
{
    gd_tensor *m = gd_matmul(x, gd_transpose(y, 0, 1));
    m = m ? gd_mul_scalar(gd_add(m, gd_transpose(m, 0, 1)), 0.5) : NULL;
    if (!m || shift == 0) return m;
    gd_tensor *one = gd_eye(gd_tensor_ctx(m), gd_tensor_dtype(m), gd_size(m, 0), gd_size(m, 0));
    return gd_add(m, gd_mul_scalar(gd_to_device(one, gd_tensor_device(m)), shift));
}

/* d, or nothing if it is not finite. */
static gd_status step_by(gd_var *var, gd_tensor *d)
{
    gd_ctx *ctx = gd_var_ctx(var);
    if (gd_error(ctx)) return gd_error(ctx);
    if (d && gd_vector_finite(d)) return gd_var_set_update_vector(var, d);
    gd_var_note_skipped(var);
    return gd_var_set_zero_update(var);
}

static gd_status rsn_apply(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    double *steps = gd_link_global(link, "steps", 0);
    gd_linop *hessian = steps ? gd_link_hessian_products(link, var) : NULL;
    gd_tensor *g = hessian ? gd_link_update_vector(link, var) : NULL, *d = NULL;
    bool usable = g && gd_numel(g) && gd_vector_finite(g),
         due = usable && fmod(*steps, gd_link_real(link, "update_freq", NULL)) == 0;
    gd_tensor *s = NULL, *m = NULL;
    if (due) {
        s = subspace(link, g);
        m = s ? small_matrix(s, products_with(link, hessian, s), gd_link_real(link, "damping", NULL)) : NULL;
        if (m &&
            (gd_link_set_global_tensor(link, "subspace", s) || gd_link_set_global_tensor(link, "hessian", m)))
            m = NULL;
    } else if (usable) {
        s = gd_link_global_tensor(link, "subspace");
        m = gd_link_global_tensor(link, "hessian");
    }
    gd_linop_release(hessian);
    if (usable && m && s && !gd_error(ctx)) {
        gd_tensor *z = gd_hessian_solve(m, gd_matmul(s, g), gd_link_flag(link, "use_lstsq"));
        d = z ? gd_matmul(z, s) : NULL;
        *gd_link_global(link, "steps", 0) += 1;
    }
    return step_by(var, d);
}

/* ---- Nystrom ---- */

/* Eigenvectors q as rows [k, n] and values l [k] of Y (S^T Y)^-1 Y^T, as far as S^T Y is positive. */
static gd_status nystrom(gd_link *link, gd_linop *hessian, gd_tensor *g, int64_t k, gd_tensor **q,
                         gd_tensor **l)
{
    gd_ctx *ctx = gd_link_ctx(link);
    gd_tensor *s = orthonormal(random_rows(link, g, k)), *y = products_with(link, hessian, s), *m = NULL,
              *w = NULL;
    *q = *l = NULL;
    if (!y || !gd_vector_finite(y)) return gd_error(ctx);
    double shift = sqrt((double)gd_numel(g)) * gd_vector_epsilon(g) * gd_item(gd_norm(y, 2, NULL, false));
    y = gd_vector_sum(y, shift, s);
    gd_tensor *core = small_matrix(s, y, 0);
    if (!core || !gd_vector_finite(core)) return gd_error(ctx);
    gd_status status = gd_eigh(core, &m, &w);
    if (status) return status;
    gd_tensor *least = gd_full_like(m, shift), *positive = gd_gt(m, least);
    gd_tensor *root = gd_where(positive, gd_reciprocal(gd_sqrt(gd_maximum(m, least))), gd_zeros_like(m));
    /* rows of b: m^-1/2 W^T Y, so that b^T b is the approximation; its eigenvectors by those of b b^T */
    gd_tensor *b = gd_mul(gd_unsqueeze(root, 1, NULL), gd_matmul(gd_transpose(w, 0, 1), y)), *values = NULL,
              *turn = NULL;
    gd_tensor *gram = b ? small_matrix(b, b, 0) : NULL;
    if (!gram || !gd_vector_finite(gram)) return gd_error(ctx);
    status = gd_eigh(gram, &values, &turn);
    if (status) return status;
    gd_tensor *none = gd_full_like(values, shift), *seen = gd_gt(values, none);
    gd_tensor *size = gd_where(seen, gd_reciprocal(gd_sqrt(gd_maximum(values, none))), gd_zeros_like(values));
    *q = gd_mul(gd_unsqueeze(size, 1, NULL), gd_matmul(gd_transpose(turn, 0, 1), b));
    *l = gd_maximum(gd_add_scalar(values, -shift), gd_zeros_like(values));
    return *q && *l ? GD_OK : gd_error(ctx);
}

/* scale * Q (L + reg)^-1 Q^T x + rest * (x - Q Q^T x) */
static gd_tensor *through(gd_tensor *q, gd_tensor *l, double reg, double scale, double rest, gd_tensor *x)
{
    gd_tensor *along = gd_matmul(q, x);
    gd_tensor *factor = gd_add_scalar(gd_mul_scalar(gd_reciprocal(gd_add_scalar(l, reg)), scale), -rest);
    return gd_vector_sum(gd_matmul(gd_mul(along, factor), q), rest, x);
}

static gd_status nystrom_sketch_and_solve_apply(gd_link *link, gd_var *var)
{
    gd_linop *hessian = gd_link_hessian_products(link, var);
    gd_tensor *g = hessian ? gd_link_update_vector(link, var) : NULL, *q = NULL, *l = NULL, *d = NULL;
    double reg = gd_link_real(link, "reg", NULL);
    bool usable = g && gd_numel(g) && gd_vector_finite(g);
    gd_status status = usable ? nystrom(link, hessian, g, (int64_t)gd_link_real(link, "rank", NULL), &q, &l)
                              : GD_OK;
    gd_linop_release(hessian);
    if (!status && q) d = through(q, l, reg, 1, 1 / reg, g);
    return status ? status : step_by(var, d);
}

/* What conjugate gradients on P^1/2 (H + reg) P^1/2 would do, written with P (Frangella et al. 2023, algorithm 5.1).  Negative
 * curvature ends it at the current iterate, or with b at the first one. */
static gd_tensor *preconditioned(gd_link *link, gd_linop *hessian, gd_tensor *b, gd_tensor *q, gd_tensor *l)
{
    double reg = gd_link_real(link, "reg", NULL), least = gd_item(gd_min(l, NULL, false)) + reg;
    int64_t most = gd_link_is_none(link, "maxiter") ? gd_numel(b)
                                                    : (int64_t)gd_link_real(link, "maxiter", NULL);
    double enough = gd_link_real(link, "tol", NULL) * gd_vector_norm(b);
    gd_tensor *x = gd_zeros_like(b), *r = b, *z = through(q, l, reg, least > 0 ? least : 1, 1, b), *p = z;
    double rz = gd_vector_dot(r, z);
    for (int64_t i = 0; i < most && gd_vector_norm(r) > enough; i++) {
        gd_tensor *hp = gd_vector_sum(gd_linop_matvec(hessian, p), reg, p);
        double curvature = gd_vector_dot(p, hp);
        if (!(curvature > 0)) return gd_error(gd_link_ctx(link)) ? NULL : i ? x : b;
        x = gd_vector_sum(x, rz / curvature, p);
        r = gd_vector_sum(r, -rz / curvature, hp);
        z = through(q, l, reg, least > 0 ? least : 1, 1, r);
        double before = rz;
        rz = gd_vector_dot(r, z);
        p = gd_vector_sum(z, rz / before, p);
    }
    return x;
}

static gd_status nystrom_pcg_apply(gd_link *link, gd_var *var)
{
    gd_linop *hessian = gd_link_hessian_products(link, var);
    gd_tensor *g = hessian ? gd_link_update_vector(link, var) : NULL, *q = NULL, *l = NULL, *d = NULL;
    bool usable = g && gd_numel(g) && gd_vector_finite(g);
    gd_status status = usable ? nystrom(link, hessian, g, (int64_t)gd_link_real(link, "sketch_size", NULL),
                                        &q, &l)
                              : GD_OK;
    if (!status && q) d = gd_vector_norm(g) > 0 ? preconditioned(link, hessian, g, q, l) : g;
    gd_linop_release(hessian);
    return status ? status : step_by(var, d);
}

static int64_t rsn_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t n = 0, item = 4, k = (int64_t)gd_link_real(link, "sketch_size", NULL);
    for (int i = 0; i < count; i++) {
        n += gd_numel(params[i]);
        if (gd_tensor_dtype(params[i]) == GD_F64) item = 8;
    }
    if (k > n) k = n;
    int64_t more = gd_link_is(link, "sketch_type", "common_directions") ? k * n
                   : gd_link_is(link, "sketch_type", "mixed")           ? 2 * n
                                                                        : 0;
    return (k * n + k * k + more) * item;
}

static int64_t no_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    (void)link, (void)params, (void)count;
    return 0;
}

GD_LINK(second_order, rsn,
    .spread = GD_SPREAD_VECTOR,
    .summary = "Newton's method in a random subspace",
    .formula = "d = S (S^T H S + damping I)^+ S^T g",
    .paper = "Gower, Kovalev, Lieder & Richtarik, RSN: Randomized subspace Newton, 2019",
    .cost = "sketch_size Hessian products and the factorisation of a small matrix per step",
    .example = "rsn(10) | strong_wolfe",
    GD_FIELDS(rsn_fields),
    .apply = rsn_apply,
    .state_bytes = rsn_bytes,
    .traits.needs_closure = true);

GD_LINK(second_order, nystrom_sketch_and_solve,
    .spread = GD_SPREAD_VECTOR,
    .summary = "Newton's method with a Hessian of low rank from random products; g / reg beside it",
    .formula = "d = Q (L + reg)^-1 Q^T g + (g - Q Q^T g) / reg",
    .paper = "Frangella, Rathore, Zhao & Udell, SketchySGD, 2024",
    .cost = "rank Hessian products per step",
    .example = "nystrom_sketch_and_solve(10, reg=1) | strong_wolfe",
    GD_FIELDS(solve_fields),
    .apply = nystrom_sketch_and_solve_apply,
    .state_bytes = no_bytes,
    .traits.needs_closure = true);

GD_LINK(second_order, nystrom_pcg,
    .spread = GD_SPREAD_VECTOR,
    .summary = "Newton-CG with a random preconditioner",
    .formula = "d ~ (H + reg I)^-1 g",
    .paper = "Frangella, Tropp & Udell, Randomized Nystrom preconditioning, 2023",
    .cost = "sketch_size Hessian products, and one per iteration of conjugate gradients, per step",
    .example = "nystrom_pcg(10) | strong_wolfe",
    GD_FIELDS(pcg_fields),
    .apply = nystrom_pcg_apply,
    .state_bytes = no_bytes,
    .traits.needs_closure = true);
