/* Gradients by finite differences, one element after the other: for objectives that give values alone, and for links that ask for them.
 *
 * The distance is, by the dtype of the parameter, where rounding of the loss and the error of the formula are alike (Dennis &
 * Schnabel 1996, 5.6): eps^(1 / (order + 1)) max(|x|, typical), so sqrt(eps) for forward and cbrt(eps) for central differences,
 * as a power of 2, that x + h is what was meant.  Inside bounds no point lies outside: where the formula would need one its
 * mirror image or a one-sided formula of the same order is taken, between near bounds with a smaller distance. */
#include "gradus/autograd.h"
#include "gradus/link/estimate.h"
#include "optim/step/microbatch_loss.h"
#include "optim/step/objective/memo.h"
#include "optim/step/objective/residuals.h"
#include "optim/step/optimizer.h"
#include "optim/vector/layout.h"
#include "optim/vector/origin.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One-sided formulas, used if only one side has room, have the order of the central ones. */
#define ONE_SIDED(k) &formulas[k]
static const gd_difference formulas[] = {
    {"forward", 2, {0, 1}, {-1, 1}, 1, ONE_SIDED(0)},
    {"backward", 2, {0, -1}, {1, -1}, 1, ONE_SIDED(1)},
    {"central", 2, {1, -1}, {1.0 / 2, -1.0 / 2}, 2, ONE_SIDED(3)},
    {"forward3", 3, {0, 1, 2}, {-3.0 / 2, 2, -1.0 / 2}, 2, ONE_SIDED(3)},
    {"backward3", 3, {0, -1, -2}, {3.0 / 2, -2, 1.0 / 2}, 2, ONE_SIDED(4)},
    {"central4", 4, {1, 2, -1, -2}, {2.0 / 3, -1.0 / 12, -2.0 / 3, 1.0 / 12}, 4, ONE_SIDED(7)},
    {"forward4", 4, {0, 1, 2, 3}, {-11.0 / 6, 3, -3.0 / 2, 1.0 / 3}, 3, ONE_SIDED(6)},
    {"forward5", 5, {0, 1, 2, 3, 4}, {-25.0 / 12, 4, -3, 4.0 / 3, -1.0 / 4}, 4, ONE_SIDED(7)},
    /* bias of fourth order in h (Pradeep & Bhatnagar 2023) */
    {"bspsa4", 4, {1, -1, 3, -3}, {27.0 / 48, -27.0 / 48, -1.0 / 48, 1.0 / 48}, 4, ONE_SIDED(7)},
};

const gd_difference *gd_difference_named(const char *name)
{
    if (!name) return &formulas[2];
    if (!strcmp(name, "forward2")) name = "forward";
    if (!strcmp(name, "backward2")) name = "backward";
    if (!strcmp(name, "central2") || !strcmp(name, "central3")) name = "central";
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        if (!strcmp(formulas[i].name, name)) return &formulas[i];
    return &formulas[2];
}

/* One element of x, the i-th in the order of its axes, as a tensor on the same memory, however that lies. */
static gd_tensor *element(gd_tensor *x, int64_t i)
{
    gd_tensor *one = gd_drop_names(gd_detach(x));
    for (int axis = gd_ndim(x) - 1; axis >= 0 && one; axis--) {
        int64_t size = gd_size(x, axis);
        char name[12];
        snprintf(name, sizeof name, "%d", axis);
        one = gd_index(one, name, i % size);
        i /= size;
    }
    return one;
}

/* ---- which points ---- */

/* Where an element is, and where it may be. */
typedef struct range {
    double x, low, high;
} range;

static bool fits(const gd_difference *d, double h, const range *r)
{
    for (int k = 0; k < d->points; k++)
        if (r->x + d->at[k] * h < r->low || r->x + d->at[k] * h > r->high) return false;
    return true;
}

/* The formula and the distance, below 0 for the other way round, that stay inside; a distance of 0: there is no room. */
static const gd_difference *inside(const gd_difference *d, const range *r, double *h)
{
    if (fits(d, *h, r)) return d;
    if (fits(d, -*h, r)) {
        *h = -*h;
        return d;
    }
    const gd_difference *one = d->one_sided;
    double reach = 0;
    for (int k = 0; k < one->points; k++) reach = fabs(one->at[k]) > fabs(reach) ? one->at[k] : reach;
    double above = r->high - r->x, below = r->x - r->low, room = fmax(above, below) / fabs(reach);
    *h = copysign(fmin(*h, room), above >= below ? reach : -reach);
    return one;
}

static double distance(const gd_differences *of, const gd_tensor *x, double at)
{
    if (of->h > 0) return of->h;
    double size = fmax(isfinite(at) ? fabs(at) : 0, of->typical);
    return exp2(round(log2(pow(gd_vector_epsilon(x), 1.0 / (of->formula->order + 1)) * size)));
}

/* ---- derivatives ---- */

/* d f / d x into out [count], by way of f [count]; one, the element x, is back at its value afterwards. */
static gd_status derivative(gd_var *var, const gd_differences *of, const gd_difference *d, double h,
                            const range *r, gd_tensor *one, double *f, double *out)
{
    /* a copy, so that going back needs no memory */
    gd_tensor *kept = gd_copy(one);
    gd_status status = gd_error(gd_var_ctx(var));
    memset(out, 0, (size_t)of->count * sizeof *out);
    if (status || h == 0) return status;
    for (int k = 0; k < d->points && !status; k++) {
        const double *values = of->here;
        if (d->at[k] != 0) {
            double at = r->x + d->at[k] * h;
            status = gd_fill(one, at < r->low ? r->low : at > r->high ? r->high : at);
            if (!status) status = of->values(var, of->user, f);
            values = f;
        }
        for (int64_t i = 0; i < of->count && !status; i++) out[i] += d->weight[k] * values[i] / h;
    }
    gd_status back = gd_assign(one, kept);
    return status ? status : back;
}

/* Bounds are f64 on the CPU, of one element or of all. */
static double bound_at(const gd_tensor *bound, int64_t i, double none)
{
    if (!bound) return none;
    const double *numbers = gd_data(bound);
    return numbers[gd_numel(bound) > 1 ? i : 0];
}

static gd_status of_param(gd_var *var, const gd_differences *of, int index, double *f, double *out)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *x = gd_var_params(var)[index], *low = NULL, *high = NULL;
    gd_status status = GD_OK;
    (void)gd_var_bounds(var, index, &low, &high);
    for (int64_t k = 0; k < gd_numel(x) && !status; k++) {
        gd_scope_begin(ctx);
        gd_tensor *one = element(x, k);
        range r = {one ? gd_item(one) : NAN, bound_at(low, k, -INFINITY), bound_at(high, k, INFINITY)};
        status = gd_error(ctx);
        if (!status) {
            double h = distance(of, x, r.x);
            const gd_difference *d = inside(of->formula, &r, &h);
            status = derivative(var, of, d, h, &r, one, f, out + k * of->count);
        }
        gd_scope_end(ctx);
    }
    return status;
}

gd_status gd__differences(gd_var *var, const gd_differences *of, double *out)
{
    gd_origin here = {0};
    double *f = gd__alloc_array(var->ctx, (size_t)of->count, sizeof *f);
    gd_status status = f ? gd__origin_keep(&here, var->ctx, var->params, var->count) : GD_NOMEM;
    for (int i = 0; i < var->count && !status; i++) {
        status = of_param(var, of, i, f, out);
        out += gd_numel(var->params[i]) * of->count;
    }
    gd_status back = gd__origin_return(&here); /* graphs that were made here serve again */
    gd__origin_free(&here);
    gd__free(var->ctx, f, (size_t)of->count * sizeof *f);
    return status ? status : back;
}

static gd_status value_moved(gd_var *var, void *user, double *out)
{
    return ((const gd_difference_of *)user)->value(var, out);
}

gd_status gd_difference_gradient(gd_var *var, const gd_difference_of *of, gd_tensor *const *grads)
{
    if (!var || !of || !of->formula || !of->value || !grads)
        return gd__null(gd_var_ctx(var), "differences: the formula, its values or the gradients are NULL");
    gd_difference_of copy = *of;
    const gd_differences d = {of->formula, of->h, of->typical, 1, &of->loss, value_moved, &copy};
    int64_t n = gd__list_numel(var->params, var->count);
    double *slope = gd__alloc_array(var->ctx, (size_t)n, sizeof *slope);
    gd_status status = slope ? gd__differences(var, &d, slope) : GD_NOMEM;
    if (!status) status = gd__list_write(grads, var->count, slope);
    gd__free(var->ctx, slope, (size_t)n * sizeof *slope);
    return status;
}

/* ---- of an objective that gives values alone ---- */

static gd_status value_there(gd_var *var, double *loss)
{
    gd_status status = gd__callback_value(var, gd__objective_of(var), loss);
    if (!status) var->optimizer->evals++;
    return gd__callback_status(var->ctx, status);
}

/* The value where the parameters are is known if the objective was evaluated there before. */
static gd_status value_here(gd_var *var, double *loss)
{
    gd_memo *memo = gd__memo_of(var);
    const gd_point *p = memo ? gd__memo_look(memo) : NULL;
    if (!p || !p->loss) return gd__callback_value(var, gd__objective_of(var), loss);
    *loss = p->value;
    var->optimizer->evals--; /* the caller counts one */
    return GD_OK;
}

gd_status gd__objective_differences(gd_var *var, double *loss, gd_tensor *const *grads)
{
    gd_status status = value_here(var, loss);
    if (status) return status;
    const gd_difference_of of = {gd_difference_named("central"), 0, 1, *loss, value_there};
    return gd_difference_gradient(var, &of, grads);
}
