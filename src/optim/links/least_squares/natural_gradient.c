/* Natural gradient with the empirical Fisher matrix: the elements f of a loss that is a vector have the gradients G, as rows.
 *
 *     u = (G^T G + reg I)^-1 G^T 1 = G^T (G G^T + reg I)^-1 1
 *
 * With sqrt the power is -1/2: the sum of gradients, whitened; with gn_grad as well the elements weigh it, G^T (...)^(-1/2) f.
 * gn_grad makes G^T f the gradient that later links see.  The smaller of the two matrices is factored.  The incoming update is replaced.
 *
 * No state.  Cost: a Jacobian, products of m n min(m, n) and a factorisation of min(m, n)^3 for m elements.  Losses or
 * gradients that are not finite give no step. */
#include "gradus/link.h"
#include "gradus/link/matrices.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("reg", 1e-8, 0, INFINITY, "added to the diagonal of the matrix"),
    GD_FLAG("sqrt", false, "the inverse root of the matrix, else its inverse"),
    GD_FLAG("gn_grad", false, "elements of the loss weigh their gradients, as in Gauss-Newton's"),
    GD_FIXED_FLAG("batched", true, "rows of the Jacobian are always made together"),
};

static gd_tensor *powered(const gd_link *link, gd_tensor *a)
{
    double reg = gd_link_real(link, "reg", NULL), exponent = gd_link_flag(link, "sqrt") ? -0.5 : -1;
    return gd_squeeze(gd_matrix_power(gd_unsqueeze(a, 0, NULL), reg, exponent), "0");
}

static gd_tensor *natural(const gd_link *link, gd_tensor *g, gd_tensor *f)
{
    gd_tensor *across = gd_transpose(g, 0, 1);
    bool weighed = gd_link_flag(link, "sqrt") && gd_link_flag(link, "gn_grad");
    gd_tensor *x = weighed ? f : gd_ones_like(f);
    if (gd_size(g, 0) <= gd_size(g, 1))
        return gd_matmul(across, gd_matmul(powered(link, gd_matmul(g, across)), x));
    return gd_matmul(powered(link, gd_matmul(across, g)), gd_matmul(across, x));
}

static gd_status set_gradient(gd_link *link, gd_var *var, gd_tensor *g, gd_tensor *f)
{
    gd_tensor **list = gd_link_scratch(link, gd_var_count(var));
    gd_tensor *vector = list ? gd_matmul(gd_transpose(g, 0, 1), f) : NULL;
    gd_status status = vector ? gd_list_split(vector, gd_var_params(var), gd_var_count(var), list)
                              : gd_error(gd_var_ctx(var));
    return status ? status : gd_var_set_grad(var, list);
}

static gd_status natural_gradient_step(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *g = NULL, *f = NULL, *u = NULL;
    gd_status status = gd_var_linearised(var, &g, &f);
    if (status) return status;
    if (gd_numel(g) == 0) return gd_var_set_zero_update(var);
    if (gd_vector_finite(g) && gd_vector_finite(f)) u = natural(link, g, f);
    if (gd_error(ctx)) return gd_error(ctx);
    if (!u || !gd_vector_finite(u)) {
        gd_var_note_skipped(var);
        return gd_var_set_zero_update(var);
    }
    if (gd_link_flag(link, "gn_grad")) status = set_gradient(link, var, g, f);
    return status ? status : gd_var_set_update_vector(var, u);
}

GD_LINK(least_squares, natural_gradient,
    .spread = GD_SPREAD_WHOLE,
    .summary = "the natural gradient of a loss that is a vector",
    .formula =
        "G the gradients of the elements of the loss, as rows;  (G^T G + reg)^-1 G^T 1; sqrt: the power -1/2",
    .paper = "Amari, Natural gradient works efficiently in learning, Neural Computation 10, 1998",
    .cost = "a Jacobian of m elements, m n min(m, n) + min(m, n)^3 flops",
    .example = "natural_gradient | lr(0.1)",
    GD_FIELDS(fields),
    .step = natural_gradient_step,
    .traits.needs_closure = true);
