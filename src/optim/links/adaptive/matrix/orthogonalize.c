/* Matrices with all singular values near 1 in place of the update's, as in Muon (Jordan et al. 2024).
 *
 * The first two axes of a tensor are the matrix, the others count matrices; tensors with fewer axes go through as they are.
 * With X = U S V^T, method "svd" gives U V^T; "newton-schulz" drives every singular value s / norm(X) into about [0.7, 1.2]
 * by ns_steps times s -> a s + b s^3 + c s^5, products only.  It does so in bf16 as published, products summed in f32 (matrices
 * of 65536 numbers and more add to them before they round), and with precision="full" in f32 (f64 for f64).
 *
 * No state.  Cost: for r x c with r <= c, ns_steps products of 4 r^2 c + 2 r^3 flops; matrices of one size are one batch.
 * A matrix with a number that is not finite becomes NaN, the others are not touched by it; a zero matrix stays zero.
 */
#include "gradus/link.h"
#include "gradus/link/matrices.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const gd_field fields[] = {
    GD_INT("ns_steps", 5, 0, 1000, "iterations of Newton-Schulz"),
    GD_FLAG("adjust_lr", false, "times 0.2 sqrt(max(rows, columns))"),
    GD_FLAG("dual_norm_correction", false, "times the sum of products with what came in, for each matrix"),
    GD_CHOICE("method", "newton-schulz", "newton-schulz|svd", "products only, or exactly"),
    GD_TARGET,
    GD_CHOICE("precision", "bf16", "bf16|full", "of the products of Newton-Schulz"),
};

static bool is_matrix(const gd_tensor *x) { return gd_ndim(x) >= 2 && gd_numel(x) > 0; }

static double adjustment(const gd_tensor *x)
{
    return 0.2 * sqrt((double)(gd_size(x, 0) > gd_size(x, 1) ? gd_size(x, 0) : gd_size(x, 1)));
}

/* u times the sum of g u over each matrix: the step of steepest descent in the norm dual to that of u (Bernstein & Newhouse
 * 2024). */
static gd_tensor *dual_corrected(gd_tensor *u, gd_tensor *g)
{
    return gd_mul(u, gd_sum(gd_mul(g, u), "0, 1", true));
}

/* ---- Newton-Schulz ---- */

#define LARGE 65536 /* numbers of a matrix from which sums are made while products are still in registers */

/* beta c + alpha a b.  Small matrices round after every operator, as in the original program; large ones round once. */
static gd_tensor *sum_with_product(gd_tensor *c, gd_tensor *a, gd_tensor *b, double beta, double alpha)
{
    if (gd_size(b, 1) * gd_size(b, 2) >= LARGE) return gd_addmm(c, a, b, beta, alpha);
    gd_tensor *left = alpha == 1 ? a : gd_mul_scalar(a, alpha);
    return gd_add(gd_mul_scalar(c, beta), gd_matmul(left, b));
}

/* One iteration of a stack [k, r, c] with r <= c: (a + b A + c A^2) X with A = X X^T. */
static gd_tensor *iterate(gd_tensor *x)
{
    gd_ctx *ctx = gd_tensor_ctx(x);
    gd_scope_begin(ctx);
    gd_tensor *a = gd_matmul(x, gd_transpose(x, -1, -2));
    gd_tensor *b = a ? sum_with_product(a, a, a, -4.7750, 2.0315) : NULL;
    gd_tensor *out = b ? gd_keep(sum_with_product(x, b, x, 3.4445, 1)) : NULL;
    gd_scope_end(ctx);
    return out;
}

/* x / (norm + 1e-7) in the given dtype.  Small matrices are rounded first, as in the original program; large ones once. */
static gd_tensor *normalised(gd_tensor *x, gd_dtype dtype)
{
    gd_dtype wide = dtype == GD_F64
                        ? GD_F64
                        : GD_F32; /* squares in bf16 would lose the precision that the sum needs */
    bool large = gd_size(x, 1) * gd_size(x, 2) >= LARGE;
    x = gd_cast(x, large ? wide : dtype);
    gd_tensor *norm = gd_sqrt(gd_sum(gd_square(gd_cast(x, wide)), "1, 2", true));
    if (!large) norm = gd_cast(norm, dtype);
    return gd_cast(gd_div(x, gd_add_scalar(norm, 1e-7)), dtype);
}

static gd_tensor *newton_schulz(gd_tensor *x, int steps, gd_dtype dtype)
{
    x = normalised(x, dtype);
    for (int i = 0; i < steps && x; i++) {
        gd_tensor *next = iterate(x);
        gd_release(x); /* large, and otherwise alive until the step ends */
        x = next;
    }
    return x;
}

/* ---- by singular values ---- */

/* U V^T without the directions in which X is zero except for rounding: they are arbitrary.  NaN where X is not finite. */
static gd_tensor *polar_factor(gd_tensor *x)
{
    gd_tensor *finite = gd_all(gd_isfinite(x), "1, 2", true), *u = NULL, *s = NULL, *vt = NULL;
    if (!finite || gd_svd(gd_where(finite, x, gd_zeros_like(x)), &u, &s, &vt)) return NULL;
    double epsilon = gd_tensor_dtype(x) == GD_F64 ? DBL_EPSILON : FLT_EPSILON;
    double share = epsilon * (double)(gd_size(x, 1) > gd_size(x, 2) ? gd_size(x, 1) : gd_size(x, 2));
    gd_tensor *there = gd_gt(s, gd_mul_scalar(gd_max(s, "1", true), share));
    u = gd_mul(u, gd_unsqueeze(gd_cast(there, gd_tensor_dtype(x)), 1, NULL));
    return gd_where(finite, gd_matmul(u, vt), gd_full_like(x, NAN));
}

/* ---- the link ---- */

/* Settings of the iteration as one number: parameters that agree in it are computed together. */
enum { SVD = 1, FULL = 2, STEPS = 4 };

static bool has(const gd_transform *t, int index, const char *field, const char *value)
{
    const gd_setting *s = gd_link_get(t->link, field, t->keys[index]);
    return s && !strcmp(s->string, value);
}

static bool flag(const gd_transform *t, int index, const char *field)
{
    return gd_link_real(t->link, field, t->keys[index]) != 0;
}

static int kind_of(void *user, int index)
{
    const gd_transform *t = user;
    return (has(t, index, "method", "svd") ? SVD : 0) | (has(t, index, "precision", "full") ? FULL : 0) |
           STEPS * (int)gd_link_real(t->link, "ns_steps", t->keys[index]);
}

/* A stack [k, r, c]: the shorter side first. */
static gd_tensor *orthogonal(void *user, gd_tensor *stack, const int *entry, int entries)
{
    (void)entries;
    int kind = kind_of(user, entry[0]);
    gd_dtype own = gd_tensor_dtype(stack), wide = own == GD_F64 ? GD_F64 : GD_F32;
    bool tall = gd_size(stack, 1) > gd_size(stack, 2);
    if (tall) stack = gd_transpose(stack, 1, 2);
    gd_tensor *out = kind & SVD ? polar_factor(gd_cast(stack, wide))
                                : newton_schulz(stack, kind / STEPS, kind & FULL ? wide : GD_BF16);
    return gd_cast(tall ? gd_transpose(out, 1, 2) : out, own);
}

static gd_tensor *finished(const gd_transform *t, int i, gd_tensor *stack)
{
    gd_tensor *u = gd_from_matrices(stack, t->tensors[i]);
    if (flag(t, i, "dual_norm_correction")) u = dual_corrected(u, t->tensors[i]);
    return flag(t, i, "adjust_lr") ? gd_mul_scalar(u, adjustment(u)) : u;
}

static gd_status orthogonalize_apply(const gd_transform *t)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    gd_tensor **stack = gd_link_scratch(t->link, t->count);
    if (!stack) return gd_error(ctx);
    for (int i = 0; i < t->count; i++)
        if (is_matrix(t->tensors[i]) && !(stack[i] = gd_to_matrices(t->tensors[i]))) return gd_error(ctx);
    gd_status status = gd_map_stacked(stack, t->count, kind_of, orthogonal, (void *)t);
    for (int i = 0; i < t->count && !status; i++) {
        gd_tensor *u = stack[i] ? finished(t, i, stack[i]) : t->tensors[i];
        if (!u) return gd_error(ctx);
        t->tensors[i] = u;
    }
    return status;
}

GD_LINK(adaptive, orthogonalize,
    .summary = "makes matrices of the update orthogonal: the core of Muon",
    .formula = "svd: U V^T of u = U S V^T;  newton-schulz: X = u / (norm(u) + 1e-7), ns_steps times "
               "X = 3.4445 X - 4.7750 A X + 2.0315 A^2 X with A = X X^T",
    .paper =
        "Jordan et al., Muon: an optimizer for hidden layers in neural networks, 2024; Bernstein & Newhouse, Old "
        "optimizer, new norm, 2024",
    .cost = "products of 4 r^2 c + 2 r^3 flops for r x c with r <= c, ns_steps times; svd: about 20 r^2 c",
    .example = "nag(0.95) | orthogonalize(adjust_lr=true) | lr(0.01)",
    GD_FIELDS(fields),
    .apply_tensors = orthogonalize_apply,
    .spread = GD_SPREAD_TENSOR,
    .traits.reads_only = true);

/* ---- its two corrections on their own ---- */

static const gd_field dual_fields[] = {GD_TARGET};

static gd_status dual_apply(const gd_transform *t)
{
    for (int i = 0; i < t->count; i++) {
        if (!is_matrix(t->tensors[i])) continue;
        gd_tensor *u = dual_corrected(t->tensors[i], t->grads[i]);
        if (!u) return gd_error(gd_link_ctx(t->link));
        t->tensors[i] = u;
    }
    return GD_OK;
}

GD_LINK(adaptive, dual_norm_correction,
    .summary = "multiplies matrices of the update by the sum of their products with the gradient",
    .formula = "u sum(g u), the sum over each matrix",
    .paper = "Bernstein & Newhouse, Old optimizer, new norm: an anthology, 2024",
    .cost = "two passes",
    .example = "orthogonalize | dual_norm_correction | lr(0.01)",
    GD_FIELDS(dual_fields),
    .apply_tensors = dual_apply,
    .spread = GD_SPREAD_TENSOR,
    .traits.reads_only = true,
    .traits.uses_grad = true);

static const gd_field adjust_fields[] = {
    GD_REAL("alpha", 1, -INFINITY, INFINITY, "times it"),
    GD_TARGET,
};

static gd_status adjust_apply(const gd_transform *t)
{
    for (int i = 0; i < t->count; i++) {
        if (!is_matrix(t->tensors[i])) continue;
        double alpha = gd_link_real(t->link, "alpha", t->keys[i]);
        gd_tensor *u = gd_mul_scalar(t->tensors[i], alpha * adjustment(t->tensors[i]));
        if (!u) return gd_error(gd_link_ctx(t->link));
        t->tensors[i] = u;
    }
    return GD_OK;
}

GD_LINK(adaptive, muon_adjust_lr,
    .summary = "gives orthogonal matrices of any size the root mean square of Adam's updates",
    .formula = "alpha 0.2 sqrt(max(size of axis 0, size of axis 1)) u; u with fewer than two axes",
    .paper = "Liu et al., Muon is scalable for LLM training, 2025",
    .cost = "one pass",
    .example = "orthogonalize | muon_adjust_lr | lr(0.01)",
    GD_FIELDS(adjust_fields),
    .apply_tensors = adjust_apply,
    .spread = GD_SPREAD_TENSOR,
    .traits.reads_only = true);
