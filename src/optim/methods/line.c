/* The loss along the update. */
#include "optim/vector/linop_internal.h"
#include "gradus/link/line.h"
#include "optim/vector/layout.h"
#include "optim/vector/origin.h"
#include "optim/methods/hessian_internal.h"
#include "optim/step/objective/bounds.h"

#include <float.h>
#include <math.h>

/* Distance from 1 to the next number of the dtype. */
static double epsilon(const gd_tensor *t)
{
    gd_dtype dtype = t ? t->dtype : GD_F64;
    return dtype == GD_F64 ? DBL_EPSILON : dtype == GD_F32 ? FLT_EPSILON : dtype == GD_F16 ? 0x1p-10 : 0x1p-7;
}

/* The line, and its internals. */
typedef struct inside {
    gd_line seen;
    gd_layout layout;
    gd_tensor *const *params, *const *update;
    gd_origin start;            /* kept before the first evaluation */
    gd_tensor **grads;          /* room for gradients */
    gd_trial shortest, longest; /* of the trials; longest: with a finite value */
    gd_trial telling;           /* the shortest whose rise above the tangent exceeds rounding */
} inside;

#define DOWNHILL 1e-8 /* least cosine between gradient and update */
#define SHORTER  1e-3 /* factor for a length that was far too long, for the next search */
#define TELLS    64   /* changes of so many roundings count as none */
#define FLOOR    1e-8 /* least eigenvalue, by the largest */
#define AGAIN    20   /* how often a link is asked for an update inside bounds */

/* |H|^-1 g by the matrix of the last link that has one; *made is false if there is none. */
static gd_status by_curvature(inside *line, bool *made)
{
    gd_var *var = line->seen.var;
    gd_ctx *ctx = line->layout.ctx;
    *made = false;
    gd_linop *h = var->curved ? gd_link_hessian(var->curved, var) : NULL;
    if (!h) return gd_error(ctx) == GD_NOMEM ? GD_NOMEM : (gd_clear_error(ctx), GD_OK);
    bool inverse = false;
    gd_tensor *matrix = gd__linop_matrix(h, &inverse), *u = NULL;
    gd_scope_begin(ctx);
    gd_tensor *g = gd_list_vector(gd_var_grad(var), line->layout.count), *mask = gd_var_free_mask(var);
    if (mask && matrix && g) {
        matrix = gd_hessian_free(matrix, mask, inverse);
        g = gd_mul(g, gd_cast(mask, gd_tensor_dtype(g)));
    }
    if (matrix && g && gd_size(matrix, 0) == gd_numel(g) && gd_vector_finite(matrix))
        u = inverse ? gd__spectral_product(matrix, g, FLOOR)
                    : gd_hessian_spectral(matrix, g, "floor", FLOOR, 0);
    *made = u && gd_vector_finite(u);
    gd_status status = gd_error(ctx);
    if (!status && *made) status = gd_var_set_update_vector(var, u);
    gd_scope_end(ctx);
    gd_linop_release(h);
    return status;
}

/* ---- bounds ---- */

static bool goes_down(const gd_var *var, const gd_within *w)
{
    return w->slope > DOWNHILL * w->length * sqrt(var->share->kkt_square);
}

/* Asks the link that made the update again, with the elements held that it pushed outwards. */
static gd_status ask_again(gd_var *var)
{
    gd_link *link = var->curved;
    gd_status status = gd_var_set_update(var, var->given);
    if (!status) status = gd_link_apply(link, var);
    var->answered = !status;
    return status;
}

/* Down the gradient: a multiple of it, as long as the update or as the last search suggests, or with a 1-norm of at most 1 if neither
 * is usable. */
static gd_status down_the_gradient(inside *line, double length, gd_tensor **out, gd_within *w)
{
    gd_var *var = line->seen.var;
    const gd_step_share *share = var->share;
    double r = sqrt(share->kkt_square);
    gd_status status = GD_OK;
    if (var->optimizer && var->optimizer->searching.steepest) {
        length = var->optimizer->searching.shorter;
        status = gd__list_dot(&line->layout, var->grad, var->grad, &r);
        r = sqrt(r);
    }
    double t = length / r;
    if (!isfinite(t) || t <= 0) t = share->kkt_sum > 1 ? 1 / share->kkt_sum : 1;
    gd_tensor **scaled = out + line->layout.count;
    if (!status) status = gd__list_scaled(&line->layout, var->grad, t, scaled);
    var->sides = 0; /* only elements that the gradient holds are held */
    return status ? status : gd__bounds_within(var, scaled, true, out, w);
}

/* The part of the update up to the first bound. */
static gd_status up_to_a_bound(inside *line, gd_tensor *const *u, gd_tensor **out, gd_within *w)
{
    gd_tensor **whole = out + line->layout.count;
    gd_status status = gd__bounds_within(line->seen.var, u, false, whole, w);
    double part = fmin(1, w->most);
    if (!(part > 0)) w->slope = NAN;
    w->most /= part;
    return status ? status : gd__list_scaled(&line->layout, whole, part, out);
}

/* With the sizes of the eigenvalues of the free block, if there is one. */
static gd_status by_free_curvature(inside *line, gd_tensor **out, gd_within *w)
{
    gd_var *var = line->seen.var;
    bool made = false;
    var->sides = 0;
    gd_status status = by_curvature(line, &made);
    gd_tensor *const *u = status || !made ? NULL : gd_var_read_update(var);
    if (!made || status) return status;
    status = u ? gd__bounds_within(var, u, true, out, w) : gd_error(line->layout.ctx);
    return status || goes_down(var, w) ? status : up_to_a_bound(line, u, out, w);
}

/* The result of the previous link for the gradient, ended inside the bounds; asked again while it pushes against a bound. */
static gd_status ended_inside(inside *line, gd_tensor *const **u, gd_tensor **out, gd_within *w)
{
    gd_var *var = line->seen.var;
    *u = gd_var_read_update(var);
    gd_status status = *u ? gd__bounds_within(var, *u, true, out, w) : gd_error(line->layout.ctx);
    for (int i = 0; i < AGAIN && !status && w->joined && var->answered; i++) {
        status = ask_again(var);
        *u = status ? NULL : gd_var_read_update(var);
        if (!*u) return gd_error(line->layout.ctx);
        status = gd__bounds_within(var, *u, true, out, w);
    }
    return status;
}

/* The update becomes one that stays inside the bounds and points downhill: with its end moved inside, else up to the first
 * bound, else by the sizes of the eigenvalues, else down the gradient. */
static gd_status stay_within(inside *line, bool steepest)
{
    gd_var *var = line->seen.var;
    gd_tensor **out = gd_link_scratch(line->seen.link, 2 * line->layout.count);
    gd_tensor *const *u = NULL;
    gd_within w = {.slope = NAN};
    gd_status status = out ? GD_OK : gd_error(line->layout.ctx);
    if (!status && !steepest) status = ended_inside(line, &u, out, &w);
    if (status || !isfinite(var->share->kkt)) return status;
    double length = w.length;
    if (!steepest && !goes_down(var, &w)) {
        status = up_to_a_bound(line, u, out, &w);
        if (!status && !goes_down(var, &w)) status = by_free_curvature(line, out, &w);
    }
    if (!status && !goes_down(var, &w)) status = down_the_gradient(line, length, out, &w);
    if (!status) status = gd_var_set_update(var, out);
    line->seen.most = fmax(w.most, 1);
    return status;
}

/* Makes the layout. */
static gd_status know_start(inside *line)
{
    gd_var *var = line->seen.var;
    line->seen.most = INFINITY;
    /* the gradient first, because the loss comes with it */
    gd_tensor *const *grad = gd_var_grad(var);
    if (grad && gd__bounded(var)) {
        gd_status within = stay_within(line, false);
        if (within) return within;
    }
    line->update = grad ? gd_var_read_update(var) : NULL;
    if (!line->update || !(line->grads = gd_link_scratch(line->seen.link, line->layout.count)))
        return gd_error(line->layout.ctx);
    line->seen.value = gd_var_loss_value(var, false);
    gd_status status = gd_error(line->layout.ctx);
    if (!status) status = gd__list_dot(&line->layout, grad, line->update, &line->seen.slope);
    line->seen.slope = -line->seen.slope;
    line->seen.noise = 8 * epsilon(gd_var_loss(var, false)) * fabs(line->seen.value);
    line->seen.best = (gd_trial){.f = line->seen.value, .slope = line->seen.slope};
    return status;
}

gd_line *gd_line_begin(gd_link *link, gd_var *var)
{
    inside *line = var ? gd_link_memory(link, sizeof *line) : NULL;
    if (!line) return NULL;
    *line = (inside){.seen = {.link = link, .var = var}, .params = gd_var_params(var)};
    if (gd__layout_init(&line->layout, gd_var_ctx(var), line->params, gd_var_count(var))) return NULL;
    if (!know_start(line)) return &line->seen;
    gd__layout_free(&line->layout);
    return NULL;
}

static inside *inside_of(gd_line *line) { return line && line->var ? (inside *)line : NULL; }

/* ---- descent ---- */

/* Does the update point downhill?  known: its slope is. */
static gd_status look_again(inside *line, bool known, bool *downhill)
{
    const gd_layout *l = &line->layout;
    gd_tensor *const *grad = gd_var_grad(line->seen.var);
    double gg = 0, uu = 0;
    line->update = gd_var_read_update(line->seen.var);
    if (!grad || !line->update) return gd_error(l->ctx);
    double slope = -line->seen.slope;
    gd_status status = known ? GD_OK : gd__list_dot(l, grad, line->update, &slope);
    if (!status) status = gd__list_dot(l, grad, grad, &gg);
    if (!status) status = gd__list_dot(l, line->update, line->update, &uu);
    /* not finite: searches handle that themselves; a gradient of 0 has no descent direction */
    *downhill = !isfinite(gg) || isnan(slope) || gg == 0 || slope > DOWNHILL * sqrt(gg) * sqrt(uu);
    line->seen.slope = line->seen.best.slope = -slope;
    return status;
}

/* The gradient; shortened after a failed search, because it may have been far too long: to the length that search suggests, else to a
 * 1-norm of at most 1. */
static gd_status by_gradient(inside *line, bool shorten)
{
    double sum = 0, square = 0,
           length = line->seen.var->optimizer ? line->seen.var->optimizer->searching.shorter : 0;
    gd_tensor *const *grad = gd_var_grad(line->seen.var);
    gd_tensor **short_one = grad && shorten ? gd_link_scratch(line->seen.link, line->layout.count) : NULL;
    if (!grad || (shorten && !short_one)) return gd_error(line->layout.ctx);
    if (!shorten) return gd_var_set_update(line->seen.var, NULL);
    gd_status status = gd__list_sum(&line->layout, grad, &sum);
    if (!status && length > 0) status = gd__list_dot(&line->layout, grad, grad, &square);
    double factor = square > 0 ? length / sqrt(square) : sum > 1 && isfinite(sum) ? 1 / sum : 1;
    if (!status) status = gd__list_scaled(&line->layout, grad, factor, short_one);
    return status ? status : gd_var_set_update(line->seen.var, short_one);
}

gd_status gd_line_descend(gd_line *of)
{
    inside *line = inside_of(of);
    if (!line) return GD_ARGUMENT;
    bool downhill = true, made = false,
         steepest = line->seen.var->optimizer && line->seen.var->optimizer->searching.steepest;
    if (!isfinite(line->seen.value)) return GD_OK;
    gd_status status = GD_OK;
    if (gd__bounded(line->seen.var)) {
        if (steepest) status = stay_within(line, true); /* else it is so already */
        return status || !steepest ? status : look_again(line, false, &downhill);
    }
    status = look_again(line, true, &downhill);
    if (status || (downhill && !steepest)) return status;
    if (!steepest) status = by_curvature(line, &made);
    if (!status && made) status = look_again(line, false, &downhill);
    if (status || (made && downhill)) return status;
    status = by_gradient(line, steepest);
    return status ? status : look_again(line, false, &downhill);
}

#define ENDLESS \
    1e12 /* a step of this many updates that is still downhill suggests that the loss is unbounded */

/* ---- trials ---- */

/* Moves the parameters to x - a u; *there is false if that point is not finite: nothing is evaluated there. Steps of one update and
 * less are not checked: overflow would need an update near the largest number. */
static gd_status go_to(inside *line, double a, bool *there)
{
    double most = 0;
    *there = true;
    if (!line->start.kept) {
        gd_status status = gd__origin_keep(&line->start, line->layout.ctx, line->params, line->layout.count);
        if (status) return status;
    }
    gd_status status = gd__bounded(line->seen.var)
                           ? gd__bounds_move(line->seen.var, line->start.value, line->update, a)
                           : gd__list_move(&line->layout, line->params, line->start.value, line->update, a);
    if (!status && fabs(a) > 1) status = gd__list_largest(&line->layout, line->params, &most);
    *there = isfinite(most);
    if (*there) line->seen.evals++;
    return status;
}

/* How far a value lies above the tangent at 0. */
static double rise_of(const inside *line, const gd_trial *t)
{
    return t->f - line->seen.value + fabs(line->seen.slope) * fabs(t->a);
}

static void note(inside *line, const gd_trial *t)
{
    if (line->shortest.a == 0 || fabs(t->a) < fabs(line->shortest.a)) line->shortest = *t;
    if (isfinite(t->f) && fabs(t->a) > fabs(line->longest.a)) line->longest = *t;
    if (t->f < line->seen.best.f) line->seen.best = *t;
    bool tells = isfinite(t->f) &&
                 rise_of(line, t) > TELLS * epsilon(line->params[0]) * fabs(line->seen.value);
    if (tells && (line->telling.a == 0 || fabs(t->a) < fabs(line->telling.a))) line->telling = *t;
}

gd_status gd_line_value(gd_line *of, double a, double *value)
{
    inside *line = inside_of(of);
    if (!line || !value) return GD_ARGUMENT;
    gd_trial t = {.a = a, .f = INFINITY, .slope = NAN};
    bool there;
    gd_status status = go_to(line, a, &there);
    if (!status && there) status = gd_var_evaluate_at(line->seen.var, &t.f);
    if (!isfinite(t.f)) t.f = INFINITY;
    line->seen.var->share->no_number = !isfinite(t.f);
    note(line, &t);
    *value = t.f;
    return status;
}

gd_status gd_line_try(gd_line *of, double a, gd_trial *t)
{
    inside *line = inside_of(of);
    if (!line || !t) return GD_ARGUMENT;
    *t = (gd_trial){.a = a, .f = INFINITY, .slope = NAN};
    gd_tensor *loss = NULL;
    bool there;
    gd_status status = go_to(line, a, &there);
    if (!status && there) status = gd__var_evaluate(line->seen.var, &loss, line->grads);
    if (!there) line->seen.var->share->no_number = true;
    if (status || !there) return status;
    status = gd__list_dot(&line->layout, line->grads, line->update, &t->slope);
    t->slope = -t->slope;
    t->f = gd_item(loss);
    if (!isfinite(t->f) || !isfinite(t->slope)) *t = (gd_trial){.a = a, .f = INFINITY, .slope = NAN};
    line->seen.var->share->no_number = !isfinite(t->f);
    note(line, t);
    gd__release(loss);
    for (int i = 0; i < line->layout.count; i++) gd__release(line->grads[i]);
    return status;
}

static gd_status scale_update(inside *line, double a)
{
    gd_tensor **scaled = gd_link_scratch(line->seen.link, line->layout.count);
    if (!scaled) return gd_error(line->layout.ctx);
    gd_status status = a == 0 ? gd__list_new(&line->layout, scaled, true)
                              : gd__list_scaled(&line->layout, line->update, a, scaled);
    return status ? status : gd_var_set_update(line->seen.var, scaled);
}

/* Where the tangent at 0 and a power of the length, both from what was tried, add up to a minimum: the power that the shortest and
 * the longest trial show, at least 2.  A value that is not finite only shows that the step is too long. */
static double suggested(const inside *line)
{
    const gd_trial *t = &line->shortest, *far = &line->longest;
    double a = fabs(t->a), most = fabs(far->a), power = 2, rise = rise_of(line, t);
    if (!isfinite(t->f)) return SHORTER * a;
    if (most > a) power = log(rise_of(line, far) / rise) / log(most / a);
    if (!(power > 1.5)) return 0; /* the loss rises from the start: the gradient is wrong */
    power = power > 2 && power < 100 ? power : 2;
    double part = pow(fabs(line->seen.slope) * a / (power * rise), 1 / (power - 1));
    return part < 1.0 / 8 ? part * a : 0; /* else the lengths were not the cause */
}

/* The decrease of the parabola with the slope at 0 through the shortest trial whose rise exceeds rounding. */
static double possible_gain(const inside *line)
{
    const gd_trial *t = &line->telling;
    double fall = line->seen.slope * t->a;
    return t->a != 0 ? fall * fall / (4 * rise_of(line, t)) : NAN;
}

/* A search along the gradient that found nothing lower: the gradient has different units than the parameters. */
static gd_status learn_length(inside *line, gd_tensor *const *grad)
{
    gd_optimizer *o = line->seen.var->optimizer;
    double gg = 0, uu = 0, xx = 0, slope = fabs(line->seen.slope);
    if (!o) return GD_OK;
    o->searching.gain = possible_gain(line);
    gd_status status = gd__list_dot(&line->layout, grad, grad, &gg);
    if (!status) status = gd__list_dot(&line->layout, line->update, line->update, &uu);
    if (!status) status = gd__list_dot(&line->layout, line->params, line->params, &xx);
    bool along = o->searching.steepest || slope >= (1 - 1e-8) * sqrt(gg) * sqrt(uu),
         known = along && line->shortest.a != 0;
    double length = known ? suggested(line) * sqrt(uu) : 0,
           least = 16 * epsilon(line->params[0]) * sqrt(xx); /* a shorter one would be lost to rounding */
    /* its units are not known yet, and values may rise faster than any power */
    if (length > 0 && length <= least && !o->searching.moved)
        length = SHORTER * fabs(line->shortest.a) * sqrt(uu);
    if (!isfinite(line->shortest.f) && o->searching.moved) length = 0;
    o->searching.shorter = isfinite(length) && length > least ? length : 0;
    return status;
}

static gd_status note_failure(inside *line)
{
    double most = NAN;
    gd_tensor *const *grad = gd_var_grad(line->seen.var);
    gd_status status = gd__list_largest(&line->layout, grad, &most);
    if (!status && line->update && isfinite(most)) status = learn_length(line, grad);
    gd_var_note_failed_search(line->seen.var);
    if (most == 0) line->seen.var->share->flat = true;
    return status;
}

gd_status gd_line_end(gd_line *of, double a, gd_status status)
{
    inside *line = inside_of(of);
    if (!line) return GD_ARGUMENT;
    if (line->start.kept) {
        gd_status back = gd__origin_return(&line->start);
        if (!status) status = back;
    }
    gd__origin_free(&line->start);
    if (!status && a == 0) status = note_failure(line);
    if (!status && a != 1) status = scale_update(line, a);
    if (!status && a != 0 && line->seen.var->optimizer) line->seen.var->optimizer->searching.moved = true;
    if (fabs(a) >= ENDLESS) line->seen.var->share->endless = true;
    gd__layout_free(&line->layout);
    return status;
}
