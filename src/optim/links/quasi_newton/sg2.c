/* sg2: a Hessian from differences of gradients along random directions (Spall 2000, 2SPSA with gradients).
 *
 *     z: signs at random;  y = grad(p + h z) - grad(p - h z);  A = y z^T / (2 h), made symmetric: E A = H except for O(h^2)
 *     B = the mean of all A so far, or with beta their moving average
 *     before start_step: u;  then (|B| + damping)^-1 u, |B| with the eigenvalues of B in size
 *
 * The first step takes n_first_step_samples directions, the others n_samples.  Gradients come from the closure: they are estimates
 * if an approximating link comes first.  State: B.  Cost: two gradients per direction, a factorisation of n^3 per step.  A sample that
 * is not finite is left out. */
#include "gradus/link/hessian.h"
#include "gradus/link/matrices.h"

#include <math.h>

static const gd_field fields[] = {
    GD_INT("n_samples", 1, 1, 1e9, "directions per step"),
    GD_INT("n_first_step_samples", 10, 1, 1e9, "directions at the first step"),
    GD_INT("start_step", 10, 0, 1e15, "steps in which the Hessian is only gathered"),
    GD_REAL_OR_NONE("beta", 0, 1, "decay of the moving average; none: the mean of all"),
    GD_REAL("damping", 1e-4, 0, INFINITY, "added to the sizes of the eigenvalues"),
    GD_REAL("h", 0.01, 1e-300, INFINITY, "size of the differences"),
    GD_SEED("of the directions; none: the context's"),
    GD_UPDATE_FREQ("steps between samples"),
    GD_INNER("links whose update takes the place of the gradient"),
};

/* One sample, [n, n]. */
static gd_tensor *sampled(gd_link *link, gd_var *var)
{
    int count = gd_var_count(var);
    double h = gd_link_real(link, "h", NULL);
    gd_tensor **room = gd_link_scratch(link, 4 * count), **list = room, **plus = room + count,
              **minus = room + 2 * count;
    gd_tensor *like = room ? gd_list_vector(gd_var_params(var), count) : NULL;
    gd_tensor *z = like ? gd_link_random(link, GD_RANDOM_SIGN, like) : NULL;
    if (!z || gd_list_split(z, gd_var_params(var), count, list) ||
        gd_var_evaluate_around(var, &h, list, NULL, plus, minus))
        return NULL;
    gd_tensor *y = gd_sub(gd_list_vector(plus, count), gd_list_vector(minus, count));
    gd_tensor *a = y ? gd_mul_scalar(gd_outer(y, z), 0.25 / h) : NULL; /* 1 / z is z */
    return a ? gd_add(a, gd_transpose(a, 0, 1)) : NULL;
}

/* The mean of this step's samples. */
static gd_status gather_samples(gd_link *link, gd_var *var, bool first, gd_tensor **out)
{
    gd_ctx *ctx = gd_var_ctx(var);
    double count = gd_link_real(link, first ? "n_first_step_samples" : "n_samples", NULL), taken = 0;
    gd_tensor *sum = NULL;
    for (double i = 0; i < count; i++) {
        gd_tensor *a = sampled(link, var);
        if (!a) return gd_error(ctx);
        if (!gd_vector_finite(a)) continue;
        sum = sum ? gd_add(sum, a) : a;
        taken++;
    }
    *out = sum ? gd_mul_scalar(sum, 1 / taken) : NULL;
    return gd_error(ctx);
}

static gd_status sg2_update(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    double *steps = gd_link_global(link, "steps", 0), *taken = gd_link_global(link, "taken", 0);
    if (!steps || !taken) return gd_error(ctx);
    gd_tensor *mean = NULL, *old = gd_link_global_tensor(link, "hessian");
    bool due = fmod(*steps, gd_link_real(link, "update_freq", NULL)) == 0;
    gd_status status = due ? gather_samples(link, var, *taken == 0, &mean) : GD_OK;
    if (status) return status;
    *gd_link_global(link, "steps", 0) += 1;
    if (!mean) return GD_OK;
    double keep = gd_link_is_none(link, "beta") ? *taken / (*taken + 1) : gd_link_real(link, "beta", NULL);
    gd_tensor *next = old ? gd_add(gd_mul_scalar(old, keep), gd_mul_scalar(mean, 1 - keep)) : mean;
    status = next ? gd_link_set_global_tensor(link, "hessian", next) : gd_error(ctx);
    if (!status) *gd_link_global(link, "taken", 0) += 1;
    return status;
}

/* (|B| + damping)^-1 b; eigenvalues within rounding of zero count as zero. */
static gd_tensor *divided(const gd_link *link, gd_tensor *hessian, gd_tensor *b)
{
    gd_tensor *l = NULL, *v = NULL;
    if (gd_finite_eigh(gd_unsqueeze(hessian, 0, NULL), &l, &v)) return NULL;
    l = gd_abs(gd_squeeze(l, "0"));
    v = gd_squeeze(v, "0");
    gd_tensor *least = l ? gd_mul_scalar(gd_max(l, NULL, false), gd_vector_epsilon(b) * (double)gd_numel(b))
                         : NULL;
    l = least ? gd_add_scalar(gd_maximum(l, least), gd_link_real(link, "damping", NULL)) : NULL;
    return l ? gd_matmul(v, gd_div(gd_matmul(gd_transpose(v, 0, 1), b), l)) : NULL;
}

static gd_status sg2_apply(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *b = gd_link_update_vector(link, var), *h = gd_link_global_tensor(link, "hessian");
    if (!b) return gd_error(ctx);
    bool begun = h && gd_link_kept(link, "steps", 0) > gd_link_real(link, "start_step", NULL);
    gd_tensor *u = begun ? divided(link, h, b) : b;
    return u ? gd_var_set_update_vector(var, u) : gd_error(ctx);
}

GD_LINK(quasi_newton, sg2,
    .spread = GD_SPREAD_WHOLE,
    .summary = "a Hessian gathered from gradients along random directions",
    .formula =
        "A = sym((grad(p + h z) - grad(p - h z)) z^T) / (2 h), B the mean of all A;  (|B| + damping)^-1 u",
    .paper =
        "Spall, Adaptive stochastic approximation by the simultaneous perturbation method, IEEE TAC 45, 2000",
    .cost = "two gradients for each direction, n^3 flops; an n x n matrix",
    .example = "sg2 | lr(0.1)",
    GD_FIELDS(fields),
    .update = sg2_update,
    .apply = sg2_apply,
    .state_bytes = gd_link_matrix_bytes,
    .traits.needs_closure = true);
