/* Trust regions: the common code. */
#include "gradus/link/trust_region.h"
#include "gradus/link/hessian.h"
#include "optim/step/objective/bounds.h"
#include "optim/step/var_internal.h"
#include "optim/vector/linop_internal.h"

#include <math.h>

/* Noise of a loss relative to its size: differences below it are meaningless (Conn, Gould & Toint 2000, 17.4.2). */
#define NOISE    10
#define LARGEST  1e100
#define SMALLEST 1e-100

gd_status gd_trust_update(gd_link *link, gd_var *var)
{
    if (!link || !var)
        return gd__null(link ? gd_link_ctx(link) : gd_var_ctx(var), "trust region: no link or step");
    gd_ctx *ctx = gd_var_ctx(var);
    double *steps = gd_link_global(link, "steps", 0);
    gd_link *child = gd_link_child(link, "hess_module");
    if (!steps || !child) return gd_error(ctx);
    bool due = fmod(*steps, gd_link_real(link, "update_freq", NULL)) == 0;
    double *unit = gd_link_global(link, "unit", 1);
    if (!unit) return gd_error(ctx);
    bool had = gd_var_has_update(var);
    gd_status status = due ? gd_link_update(child, var) : GD_OK;
    if (status) return status;
    *gd_link_global(link, "steps", 0) += 1;
    /* a child that set its own update may have its own scale */
    if (due && !had && gd_var_has_update(var)) {
        gd_tensor *const *update = gd_var_read_update(var), *const *grad = update ? gd_var_grad(var) : NULL;
        if (!grad) return gd_error(ctx);
        gd_tensor *b = gd_list_vector(update, gd_var_count(var));
        double bb = gd_vector_dot(b, b), gb = gd_vector_dot(gd_list_vector(grad, gd_var_count(var)), b);
        unit = gd_link_global(link, "unit", 1);
        *unit = bb > 0 && gb > 0 && isfinite(gb / bb) ? gb / bb : 1;
        return gd_error(ctx);
    }
    return GD_OK;
}

/* ---- one trial ---- */

/* True when p - d is p: nothing would change. */
static bool is_negligible(gd_var *var, gd_tensor *d)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_scope_begin(ctx);
    gd_tensor *p = gd_list_vector(gd_var_params(var), gd_var_count(var));
    gd_tensor *same = p ? gd_all(gd_eq(gd_sub(p, d), p), NULL, false) : NULL;
    bool yes = same && gd_item(same) != 0;
    gd_scope_end(ctx);
    return yes;
}

static double predicted(gd_trust *t, gd_tensor *d)
{
    gd_tensor *hd = t->hd ? t->hd : gd_linop_matvec(t->hessian, d);
    return gd_vector_dot(t->b, d) - gd_vector_dot(d, hd) / 2 - t->less;
}

/* A proposal and its outcome. */
typedef struct trial {
    gd_tensor *d, **pieces;
    double ratio; /* actual by predicted decrease; NAN: no usable point */
    bool still;   /* the step is too small to change anything */
} trial;

/* One bound of d: p minus the opposite bound of p; NULL without an error: there is none. */
static gd_tensor *side_of(gd_trust *t, bool low)
{
    gd_ctx *ctx = gd_var_ctx(t->var);
    int64_t n = gd_numel(t->b), at = 0;
    double *x = gd_link_memory(t->link, (size_t)n * sizeof *x);
    bool any = false;
    for (int k = 0; k < gd_var_count(t->var) && x; k++) {
        gd_tensor *p = gd_var_params(t->var)[k], *bound[2];
        int64_t numel = gd_numel(p);
        (void)gd_var_bounds(t->var, k, &bound[0], &bound[1]);
        gd_tensor *other = bound[low];
        if (numel && gd_read_f64(p, x + at, numel)) return NULL;
        for (int64_t i = 0; i < numel; i++, at++) {
            const double *v = other ? gd_data(other) : NULL;
            x[at] = !v ? low ? -INFINITY : INFINITY : x[at] - v[gd_numel(other) > 1 ? i : 0];
            any = any || v;
        }
    }
    if (!x || !any) return NULL;
    gd_tensor *side = gd_cast(gd_from_f64(ctx, GD_F64, 1, &n, x), gd_tensor_dtype(t->b));
    return side ? gd_to_device(side, gd_tensor_device(t->b)) : NULL;
}

static gd_tensor *proposal(gd_trust *t, const gd_trust_method *method)
{
    if (!gd__bounded(t->var) || !method->propose_within) return method->propose(t);
    gd_tensor *low = side_of(t, true), *high = side_of(t, false);
    return gd_error(gd_var_ctx(t->var)) ? NULL : method->propose_within(t, low, high);
}

/* The proposal, ended inside the bounds. */
static gd_status bring_inside(gd_trust *t, trial *out)
{
    int count = gd_var_count(t->var);
    gd_within w;
    gd_tensor **pieces = gd_link_scratch(t->link, count), **inside = gd_link_scratch(t->link, count);
    gd_status status = pieces && inside ? gd_list_split(out->d, gd_var_params(t->var), count, pieces)
                                        : gd_error(gd_var_ctx(t->var));
    if (!status) status = gd__bounds_within(t->var, pieces, true, inside, &w);
    gd_tensor *d = status ? NULL : gd_list_vector(inside, count);
    gd_tensor *same = d ? gd_all(gd_eq(d, out->d), NULL, false) : NULL;
    if (!same) return gd_error(gd_var_ctx(t->var));
    if (gd_item(same) == 0) {
        out->d = d;
        t->hd = NULL; /* of an earlier step */
        t->less = 0;
    }
    return GD_OK;
}

static gd_status try_trial(gd_trust *t, gd_origin *here, const trial *now, double *there)
{
    gd_var *var = t->var;
    if (!gd__bounded(var)) return gd__var_try(var, here, -1, now->pieces, there, NULL);
    bool history = var->grad_history;
    gd_status status = gd__bounds_move(var, here->value, now->pieces, 1);
    if (!status) status = gd_var_evaluate_at(var, there);
    gd_status back = gd__origin_return(here);
    var->grad_history = history && !back;
    return status ? status : back;
}

static gd_status attempt(gd_trust *t, const gd_trust_method *method, double unit, gd_origin *here, trial *out)
{
    gd_var *var = t->var;
    gd_ctx *ctx = gd_var_ctx(var);
    double loss = gd_var_loss_value(var, false), there = NAN;
    *out = (trial){.ratio = NAN};
    t->hd = NULL;
    t->less = 0;
    t->inside = false;
    gd_status status = gd_error(ctx);
    if (status) return status;
    out->d = proposal(t, method);
    if (!out->d || !gd_vector_finite(out->d)) return gd_error(ctx);
    if (gd__bounded(var) && (status = bring_inside(t, out))) return status;
    out->still = is_negligible(var, out->d);
    if (out->still) return gd_error(ctx);
    double noise = NOISE * gd_vector_epsilon(t->b) * fabs(loss), decrease = unit * predicted(t, out->d);
    out->pieces = gd_link_scratch(t->link, gd_var_count(var));
    if (!out->pieces) return gd_error(ctx);
    if (!(decrease + noise > 0)) return gd_error(ctx);
    status = gd_list_split(out->d, gd_var_params(var), gd_var_count(var), out->pieces);
    if (!status) status = try_trial(t, here, out, &there);
    if (!status) var->share->no_number = !isfinite(there);
    if (!status && isfinite(there)) out->ratio = (loss - there + noise) / (decrease + noise);
    /* from a start that is not finite, any finite point is accepted */
    if (!status && !isfinite(loss) && isfinite(there)) out->ratio = 1;
    return status;
}

/* ---- attempts ---- */

static bool at_boundary(gd_trust *t, gd_tensor *d)
{
    double tolerance = gd_link_real(t->link, "boundary_tol", NULL);
    return isnan(tolerance) || gd_vector_norm(d) >= (1 - tolerance) * t->radius;
}

static void adapt_radius(gd_trust *t, const gd_trust_method *method, const trial *done)
{
    if (!(done->ratio >= gd_link_real(t->link, "rho_bad", NULL)))
        t->radius *= gd_link_real(t->link, "nminus", NULL);
    else if (done->ratio > gd_link_real(t->link, "rho_good", NULL) && !t->inside &&
             (!method->boundary || at_boundary(t, done->d)))
        t->radius = fmin(t->radius * gd_link_real(t->link, "nplus", NULL), LARGEST);
}

gd_status gd_trust_search(gd_trust *t, const gd_trust_method *method, double unit)
{
    if (!t || !t->link || !t->var || !t->b || !method || !method->propose) return GD_ARGUMENT;
    gd_link *link = t->link;
    gd_var *var = t->var;
    gd_ctx *ctx = gd_var_ctx(var);
    double init = gd_link_real(link, "init", NULL), eta = gd_link_real(link, "eta", NULL);
    if (isnan(init)) init = 1;
    double *radius = gd_link_global(link, "radius", init);
    int count = gd_var_count(var), attempts = (int)gd_link_real(link, "max_attempts", NULL);
    gd_origin here = {0};
    gd_status status = radius ? gd__origin_keep(&here, ctx, gd_var_params(var), count) : gd_error(ctx);
    t->radius = radius ? *radius : init;
    trial now = {0};
    bool taken = false, tried = false;
    for (int i = 0; i < attempts && !taken && !status; i++) {
        status = attempt(t, method, unit, &here, &now);
        if (status || now.still) break;
        tried = true;
        adapt_radius(t, method, &now);
        taken = now.ratio > eta;
        if (!taken && t->radius < SMALLEST) break;
    }
    gd__origin_free(&here);
    if (status) return status;
    /* a radius too small to change anything is reset */
    bool collapsed = !taken && (now.still || t->radius < SMALLEST);
    *gd_link_global(link, "radius", init) = collapsed ? init : t->radius;
    if (taken) return gd_var_set_update(var, now.pieces);
    if (tried) gd_var_note_failed_search(var);
    return gd_var_set_zero_update(var);
}

/* No ratios: the step for the first radius. */
static gd_status fixed_radius(gd_trust *t, const gd_trust_method *method)
{
    t->radius = gd_link_real(t->link, "init", NULL);
    gd_tensor *d = method->propose(t);
    if (!d && gd_error(gd_var_ctx(t->var))) return gd_error(gd_var_ctx(t->var));
    if (d && gd_vector_finite(d)) return gd_var_set_update_vector(t->var, d);
    gd_var_note_failed_search(t->var);
    return gd_var_set_zero_update(t->var);
}

/* Inside bounds: the free block of the Hessian, and the update there. */
static gd_status restrict_model(gd_trust *t)
{
    gd_tensor *mask = t->b && t->hessian ? gd_var_free_mask(t->var) : NULL;
    if (!mask) return gd_error(gd_var_ctx(t->var));
    bool inverse = false;
    gd_tensor *matrix = gd__linop_matrix(t->hessian, &inverse);
    mask = gd_cast(mask, gd_tensor_dtype(t->b));
    gd_linop *all = t->hessian;
    gd_tensor *block = matrix && !inverse ? gd_hessian_free(matrix, mask, false) : NULL;
    t->hessian = block ? gd_linop_dense(block) : gd_linop_congruent(all, mask);
    t->b = gd_mul(t->b, mask);
    gd_linop_release(all);
    return t->b && t->hessian ? GD_OK : gd_error(gd_var_ctx(t->var));
}

gd_status gd_trust_apply(gd_link *link, gd_var *var, const gd_trust_method *method)
{
    if (!link || !var || !method || !method->propose)
        return gd__null(link ? gd_link_ctx(link) : gd_var_ctx(var), "trust region: no link, step or method");
    gd_ctx *ctx = gd_var_ctx(var);
    gd_link *child = gd_link_child(link, "hess_module");
    if (!child) return gd_fail(ctx, GD_STATE, "%s: has no child hess_module", gd_link_class_of(link)->name);
    gd_linop *hessian = gd_link_hessian(child, var);
    if (!hessian)
        return gd_error(ctx) ? gd_error(ctx)
                             : gd_fail(ctx, GD_STATE, "%s: its child '%s' has no Hessian",
                                       gd_link_class_of(link)->name, gd_link_class_of(child)->name);
    gd_trust t = {.link = link, .var = var, .hessian = gd_linop_for_products(hessian)};
    gd_linop_release(hessian);
    double *unit = gd_link_global(link, "unit", 1);
    bool own_scale = unit && *unit != 1 &&
                     !gd_var_has_update(var); /* a gradient for a Hessian of an earlier step */
    t.b = gd_link_update_vector(link, var);
    if (own_scale) t.b = gd_mul_scalar(t.b, 1 / *unit);
    gd_status status = t.b && t.hessian && unit ? restrict_model(&t) : gd_error(ctx);
    if (!status && gd_linop_size(t.hessian) != gd_numel(t.b))
        status = gd_fail(ctx, GD_SHAPE, "%s: the Hessian is of %lld parameters, the update of %lld",
                         gd_link_class_of(link)->name, (long long)gd_linop_size(t.hessian),
                         (long long)gd_numel(t.b));
    if (!status && !gd_vector_finite(t.b)) {
        /* no model without a gradient */
        gd_var_note_failed_search(var);
        status = gd_var_set_zero_update(var);
    } else if (!status) {
        status = gd_link_is(link, "radius_strategy", "fixed") ? fixed_radius(&t, method)
                                                              : gd_trust_search(&t, method, *unit);
    }
    if (method->end) method->end(&t);
    gd_linop_release(t.hessian);
    return status;
}
