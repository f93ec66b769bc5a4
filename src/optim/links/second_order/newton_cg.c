/* Newton-CG: solves (H + reg I) d = b by conjugate gradients or minimal residuals, with Hessian-vector products only.
 *
 * Negative curvature does not stop it (the system still has a solution), but an update that is not downhill is not handed
 * on: then it is what had been reached when negative curvature was first met, or b itself.
 * State: the previous solution, with warm_start.  Cost: a product per iteration. */
#include "gradus/link/hessian.h"
#include "gradus/link/trust_region.h"

#include <math.h>

static const gd_field fields[] = {
    GD_INT_OR_NONE("maxiter", 1, 1e15, "iterations at most; none: one per parameter"),
    GD_REAL("tol", 1e-8, 0, INFINITY, "norm of the residual at which it is enough"),
    GD_REAL("reg", 1e-8, 0, INFINITY, "added to the diagonal of the Hessian"),
    GD_HVP_CHOICE("autograd", "autograd|batched_autograd|forward|central|fd_forward|fd_central"),
    GD_CHOICE("solver", "cg", "cg|minres", "conjugate gradients or minimal residuals"),
    GD_REAL("h", 1e-3, 0, INFINITY, "step of gradient differences"),
    GD_INT("miniter", 1, 0, 1e15, "iterations at least"),
    GD_FLAG("warm_start", false, "start from the solution of the step before"),
    GD_INNER("links whose update takes the place of the gradient"),
};

static const gd_slot slots[] = {{.name = "solution"}};

/* The previous solution as a vector, or NULL. */
static gd_tensor *start_of(gd_link *link, gd_var *var)
{
    int count = gd_var_count(var);
    gd_tensor *const *params = gd_var_params(var);
    if (!gd_link_flag(link, "warm_start") || !gd_link_has_state(link, params[0], "solution")) return NULL;
    gd_tensor **list = gd_link_scratch(link, count);
    for (int i = 0; list && i < count; i++)
        if (!(list[i] = gd_link_state(link, params[i], "solution"))) return NULL;
    return list ? gd_list_vector(list, count) : NULL;
}

static gd_status keep_solution(gd_link *link, gd_var *var)
{
    gd_status status = GD_OK;
    gd_tensor *const *update = gd_var_read_update(var);
    for (int i = 0; update && i < gd_var_count(var) && !status; i++)
        status = gd_link_set_state(link, gd_var_params(var)[i], "solution", update[i]);
    return update ? status : gd_error(gd_var_ctx(var));
}

/* d, or a downhill direction instead. */
static gd_tensor *downhill(gd_tensor *d, gd_tensor *before, gd_tensor *b)
{
    if (gd_vector_finite(d) && gd_vector_dot(d, b) > 0) return d;
    if (before && gd_vector_finite(before) && gd_vector_dot(before, b) > 0) return gd_copy(before);
    return b;
}

static gd_status newton_cg_apply(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_linop *hessian = gd_link_hessian_products(link, var);
    gd_tensor *b = hessian ? gd_link_update_vector(link, var) : NULL, *d = NULL, *hd = NULL;
    bool all = gd_link_is_none(link, "maxiter");
    const gd_krylov_options options = {.start = b ? start_of(link, var) : NULL,
                                       .tolerance = gd_link_real(link, "tol", NULL),
                                       .shift = gd_link_real(link, "reg", NULL),
                                       .least = (int64_t)gd_link_real(link, "miniter", NULL),
                                       .most = all ? gd_numel(b)
                                                   : (int64_t)gd_link_real(link, "maxiter", NULL),
                                       .minres = gd_link_is(link, "solver", "minres")};
    gd_krylov *k = b ? gd_krylov_new(hessian, b, &options) : NULL;
    gd_status status = k ? GD_OK : gd_error(ctx);
    if (!status && gd_vector_finite(b)) status = gd_krylov_at(k, INFINITY, &d, &hd);
    if (!status && d)
        status = gd_var_set_update_vector(var, downhill(d, k->before, b));
    else if (!status) {
        gd_var_note_skipped(var);
        status = gd_var_set_zero_update(var);
    }
    gd_krylov_free(k);
    gd_linop_release(hessian);
    if (!status && d && gd_link_flag(link, "warm_start")) status = keep_solution(link, var);
    return status;
}

static int64_t solution_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return gd_link_flag(link, "warm_start") ? gd_link_slot_bytes(1, params, count) : 0;
}

GD_LINK(second_order, newton_cg,
    .spread = GD_SPREAD_VECTOR,
    .summary = "Newton's method by conjugate gradients, without the Hessian",
    .formula = "d ~ (H + reg I)^-1 g",
    .paper =
        "Dembo & Steihaug, Truncated-Newton algorithms for large-scale unconstrained optimization, Math. Program. 26, "
        "1983",
    .cost = "a Hessian product per iteration of conjugate gradients, at most n per step; vectors only",
    .example = "newton_cg | strong_wolfe",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .state_bytes = solution_bytes,
    .apply = newton_cg_apply,
    .traits.needs_closure = true);
