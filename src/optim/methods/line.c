/* The loss along the update. */
#include "optim/vector/linop.h"
#include "optim/methods/line.h"
#include "optim/methods/hessian.h"
#include "optim/vector/vectors.h"
#include "optim/step/optimizer.h"

#include <float.h>
#include <math.h>

double gd__kept(gd_link *link, const char *name, double first)
{
    return gd_link_has_global(link, name) ? *gd_link_global(link, name, first) : first;
}

gd_status gd__keep_number(gd_link *link, const char *name, double value)
{
    double *place = gd_link_global(link, name, value);
    if (!place) return GD_NOMEM;
    *place = value;
    return GD_OK;
}

/* Distance from 1 to the next number of the dtype. */
static double epsilon(const gd_tensor *t)
{
    gd_dtype dtype = t ? t->dtype : GD_F64;
    return dtype == GD_F64 ? DBL_EPSILON : dtype == GD_F32 ? FLT_EPSILON : dtype == GD_F16 ? 0x1p-10 : 0x1p-7;
}

gd_status gd__line_begin(gd_line *line, gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    *line = (gd_line){.link = link, .var = var, .params = gd_var_params(var)};
    gd_status status = gd__layout_init(&line->layout, ctx, line->params, count);
    if (status) return status;
    /* the gradient first: the loss comes with it */
    gd_tensor *const *grad = gd_var_grad(var);
    line->update = grad ? gd_var_read_update(var) : NULL;
    if (!line->update || !(line->grads = gd_link_scratch(link, count))) return gd_error(ctx);
    line->value = gd_var_loss_value(var, false);
    status = gd_error(ctx);
    if (!status) status = gd__list_dot(&line->layout, grad, line->update, &line->slope);
    line->slope = -line->slope;
    line->noise = 8 * epsilon(gd_var_loss(var, false)) * fabs(line->value);
    line->best = (gd_trial){.f = line->value, .slope = line->slope};
    return status;
}

/* ---- descent ---- */

#define DOWNHILL 1e-8 /* least cosine between gradient and update */
#define FLOOR    1e-8 /* least eigenvalue, by the largest */

/* The update has changed: what is known of the line. */
static gd_status look_again(gd_line *line, bool *downhill)
{
    const gd_layout *l = &line->layout;
    gd_tensor *const *grad = gd_var_grad(line->var);
    double gg = 0, uu = 0;
    line->update = gd_var_read_update(line->var);
    if (!grad || !line->update) return gd_error(l->ctx);
    gd_status status = gd__list_dot(l, grad, line->update, &line->slope);
    if (!status) status = gd__list_dot(l, grad, grad, &gg);
    if (!status) status = gd__list_dot(l, line->update, line->update, &uu);
    /* not finite: searches have their own way with that; a gradient of 0 has no way down */
    *downhill = !isfinite(gg) || isnan(line->slope) || gg == 0 ||
                line->slope > DOWNHILL * sqrt(gg) * sqrt(uu);
    line->slope = -line->slope;
    line->best.slope = line->slope;
    return status;
}

/* |H|^-1 g by the matrix of the last link that has one; *made is false where there is none. */
static gd_status by_curvature(gd_line *line, bool *made)
{
    gd_var *var = line->var;
    gd_ctx *ctx = line->layout.ctx;
    *made = false;
    gd_linop *h = var->curved ? gd_link_hessian(var->curved, var) : NULL;
    if (!h) return gd_error(ctx) == GD_NOMEM ? GD_NOMEM : (gd_clear_error(ctx), GD_OK);
    bool inverse = false;
    gd_tensor *matrix = gd__linop_matrix(h, &inverse), *u = NULL;
    gd_scope_begin(ctx);
    gd_tensor *g = gd__vector_of(ctx, gd_var_grad(var), line->layout.count);
    if (matrix && g && gd_size(matrix, 0) == gd_numel(g) && gd__vector_finite(matrix))
        u = inverse ? gd__spectral_product(matrix, g, FLOOR)
                    : gd__hessian_spectral(matrix, g, "floor", FLOOR, 0);
    *made = u && gd__vector_finite(u);
    gd_status status = gd_error(ctx);
    if (!status && *made) status = gd__set_update_vector(line->link, var, u);
    gd_scope_end(ctx);
    gd_linop_release(h);
    return status;
}

/* The gradient; shortened, to a 1-norm of at most 1, after a search that failed: it may have been far too long. */
static gd_status by_gradient(gd_line *line, bool shorten)
{
    double sum = 0;
    gd_tensor *const *grad = gd_var_grad(line->var);
    gd_tensor **short_one = grad && shorten ? gd_link_scratch(line->link, line->layout.count) : NULL;
    if (!grad || (shorten && !short_one)) return gd_error(line->layout.ctx);
    if (!shorten) return gd_var_set_update(line->var, NULL);
    gd_status status = gd__list_sum(&line->layout, grad, &sum);
    if (!status)
        status = gd__list_scaled(&line->layout, grad, sum > 1 && isfinite(sum) ? 1 / sum : 1, short_one);
    return status ? status : gd_var_set_update(line->var, short_one);
}

gd_status gd__line_descend(gd_line *line)
{
    bool downhill = true, made = false, steepest = line->var->optimizer && line->var->optimizer->steepest;
    if (!isfinite(line->value)) return GD_OK;
    gd_status status = look_again(line, &downhill);
    if (status || (downhill && !steepest)) return status;
    if (!steepest) status = by_curvature(line, &made);
    if (!status && made) status = look_again(line, &downhill);
    if (status || (made && downhill)) return status;
    status = by_gradient(line, steepest);
    return status ? status : look_again(line, &downhill);
}

/* ---- trials ---- */

/* Moves the parameters to x - a u. */
static gd_status go_to(gd_line *line, double a)
{
    if (!line->start.kept) {
        gd_status status = gd__origin_keep(&line->start, line->layout.ctx, line->params, line->layout.count);
        if (status) return status;
    }
    line->evals++;
    return gd__list_move(&line->layout, line->params, line->start.value, line->update, a);
}

static void note(gd_line *line, const gd_trial *t)
{
    if (t->f < line->best.f) line->best = *t;
}

gd_status gd__line_value(gd_line *line, double a, double *value)
{
    gd_trial t = {.a = a, .slope = NAN};
    gd_status status = go_to(line, a);
    if (!status) status = gd_var_evaluate_at(line->var, &t.f);
    if (!isfinite(t.f)) t.f = INFINITY;
    line->var->share->no_number = !isfinite(t.f);
    note(line, &t);
    *value = t.f;
    return status;
}

gd_status gd__line_try(gd_line *line, double a, gd_trial *t)
{
    *t = (gd_trial){.a = a, .f = INFINITY, .slope = NAN};
    gd_tensor *loss = NULL;
    gd_status status = go_to(line, a);
    if (!status) status = gd__var_evaluate(line->var, &loss, line->grads);
    if (status) return status;
    status = gd__list_dot(&line->layout, line->grads, line->update, &t->slope);
    t->slope = -t->slope;
    t->f = gd_item(loss);
    if (!isfinite(t->f) || !isfinite(t->slope)) *t = (gd_trial){.a = a, .f = INFINITY, .slope = NAN};
    line->var->share->no_number = !isfinite(t->f);
    note(line, t);
    gd__release(loss);
    for (int i = 0; i < line->layout.count; i++) gd__release(line->grads[i]);
    return status;
}

static gd_status scale_update(gd_line *line, double a)
{
    gd_tensor **scaled = gd_link_scratch(line->link, line->layout.count);
    if (!scaled) return gd_error(line->layout.ctx);
    gd_status status = a == 0 ? gd__list_new(&line->layout, scaled, true)
                              : gd__list_scaled(&line->layout, line->update, a, scaled);
    return status ? status : gd_var_set_update(line->var, scaled);
}

static gd_status note_failure(gd_line *line)
{
    double most = NAN;
    gd_status status = gd__list_largest(&line->layout, gd_var_grad(line->var), &most);
    gd_var_note_failed_search(line->var);
    if (most == 0) line->var->share->flat = true;
    return status;
}

gd_status gd__line_end(gd_line *line, double a, gd_status status)
{
    if (line->start.kept) {
        gd_status back = gd__origin_return(&line->start);
        if (!status) status = back;
    }
    gd__origin_free(&line->start);
    if (!status && a != 1) status = scale_update(line, a);
    if (!status && a == 0) status = note_failure(line);
    gd__layout_free(&line->layout);
    return status;
}
