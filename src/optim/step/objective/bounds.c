/* Bounds of the parameters of a step; see bounds.h. */
#include "optim/step/objective/bounds.h"
#include "optim/vector/layout.h"
#include "tensor/device.h"
#include "tensor/elementwise.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define INLINED inline __attribute__((always_inline)) /* so that loops are compiled for each kind of bounds */
#define NEAR    1e-8 /* relative to 1 + |x|: so near a bound counts as on it, unless the residual is smaller */

/* ---- numbers of a tensor ---- */

/* The elements of a tensor as f64: in place, or a copy. */
typedef struct numbers {
    gd_tensor *t;
    double *v;
    size_t bytes; /* of the copy; 0: there is none */
} numbers;

static gd_status numbers_open(numbers *n, gd_tensor *t)
{
    gd_ctx *ctx = t->head.ctx;
    *n = (numbers){.t = t};
    if (t->dtype == GD_F64 && gd__contiguous(t) && t->storage->device == gd__cpu(ctx)) {
        n->v = (double *)(void *)t->data;
        return GD_OK;
    }
    n->bytes = ((size_t)t->numel + 1) * sizeof *n->v;
    n->v = gd__alloc(ctx, n->bytes);
    gd_status status = n->v ? gd_read_f64(t, n->v, t->numel) : GD_NOMEM;
    if (status && n->v) {
        gd__free(ctx, n->v, n->bytes);
        n->v = NULL;
    }
    return status;
}

/* Copies changed elements back to the tensor. */
static gd_status numbers_write(numbers *n)
{
    if (n->bytes) return n->t->numel ? gd_write_f64(n->t, n->v, n->t->numel) : GD_OK;
    gd__touch(n->t);
    return GD_OK;
}

static void numbers_close(numbers *n)
{
    if (n->bytes && n->v) gd__free(n->t->head.ctx, n->v, n->bytes);
}

/* ---- the bounds of a parameter ---- */

/* Arrays of a loop over elements; without bounds low and high are infinite. */
typedef struct strip {
    const double *low, *high;
    int64_t low_step, high_step; /* 0: one number for all */
    uint8_t *side;               /* NULL: not known */
    double eps;                  /* from 1 to the next number of the parameter */
    int64_t n;
} strip;

static const double lowest = -INFINITY, highest = INFINITY;

static gd_param *param_of(gd_optimizer *o, const gd_tensor *t)
{
    int index = o ? gd__param_index(o, t) : -1;
    return index < 0 ? NULL : &o->param[index];
}

static const double *bound_numbers(const gd_tensor *t, const double *none, int64_t *step)
{
    *step = t && t->numel > 1;
    return t ? (const double *)(const void *)t->data : none;
}

static strip strip_of(gd_optimizer *o, const gd_tensor *t)
{
    const gd_param *p = param_of(o, t);
    strip s = {.n = t->numel,
               .eps = t->dtype == GD_F64   ? DBL_EPSILON
                      : t->dtype == GD_F32 ? FLT_EPSILON
                                           : 0x1p-7};
    s.low = bound_numbers(p ? p->low : NULL, &lowest, &s.low_step);
    s.high = bound_numbers(p ? p->high : NULL, &highest, &s.high_step);
    s.side = p ? p->side : NULL;
    return s;
}

/* Known until its next change: every trial of a search is evaluated without another look. */
static void note_inside(gd_param *p)
{
    if (p) p->inside = (uint64_t)gd__version(p->tensor) + 1;
}

static double low_at(const strip *s, int64_t i) { return s->low[i * s->low_step]; }
static double high_at(const strip *s, int64_t i) { return s->high[i * s->high_step]; }

/* NaN stays. */
static double clamp_to(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* The loops over its numbers, which are f64. */
static const gd_vector_loops *loops_of(const numbers *n) { return gd__loops_for(n->t->head.ctx, GD_F64); }

static gd_edges edges_of(const strip *s)
{
    return (gd_edges){.low = s->low, .high = s->high, .low_step = s->low_step, .high_step = s->high_step};
}

static double residual_at(const strip *s, int64_t i, double x, double g)
{
    /* of g, not of x - g, which is x far out */
    return clamp_to(g, x - high_at(s, i), x - low_at(s, i));
}

/* ---- setting bounds ---- */

/* A bound for the loops: f64 on the host, rounded to the parameter's dtype, owned.  NULL for NULL. */
static gd_status host_bound(gd_tensor *bound, const gd_tensor *param, gd_tensor **out)
{
    gd_ctx *ctx = param->head.ctx;
    *out = NULL;
    if (!bound) return GD_OK;
    if (bound->numel != 1 && !gd__same_shape(bound, param))
        return gd_fail(ctx, GD_SHAPE, "bounds: a bound has %lld elements, its parameter %lld",
                       (long long)bound->numel, (long long)param->numel);
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *seen = gd_detach(bound);
    if (seen && bound->numel != 1) seen = gd__aligned_to("bounds", seen, param);
    seen = gd_to_device(gd_cast(gd_cast(seen, param->dtype), GD_F64), gd__cpu(ctx));
    *out = seen ? gd__copy_on(seen, gd__cpu(ctx)) : NULL;
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return *out ? GD_OK : gd_error(ctx);
}

static gd_status check_bounds(const gd_var *var, int index, gd_tensor *const both[2])
{
    strip s = {.n = var->params[index]->numel};
    s.low = bound_numbers(both[0], &lowest, &s.low_step);
    s.high = bound_numbers(both[1], &highest, &s.high_step);
    const char *name = gd_var_param_name(var, index);
    int64_t different = s.low_step || s.high_step || !s.n ? s.n : 1;
    for (int64_t i = 0; i < different; i++)
        if (!(low_at(&s, i) <= high_at(&s, i)) || low_at(&s, i) == INFINITY || high_at(&s, i) == -INFINITY)
            return gd_fail(var->ctx, GD_VALUE,
                           "bounds: parameter '%.60s', element %lld: no number is between %g and %g",
                           name ? name : "", (long long)i, low_at(&s, i), high_at(&s, i));
    return GD_OK;
}

/* Unchanged bounds need no work. */
static bool same_bound(const gd_tensor *a, const gd_tensor *b)
{
    if (!a || !b || a->numel != b->numel) return a == b;
    return !memcmp(a->data, b->data, (size_t)a->numel * sizeof(double));
}

/* The tighter of two bounds, consumed and owned. */
static gd_status meet(gd_ctx *ctx, gd_tensor *before, gd_tensor **bound, bool low)
{
    gd_tensor *now = *bound;
    if (!before) return GD_OK;
    if (!now) {
        gd__own(before);
        *bound = before;
        return GD_OK;
    }
    gd_tensor *larger = now->numel >= before->numel ? now : before;
    gd_no_grad_begin(ctx);
    gd_tensor *both = gd__copy_on(larger, gd__cpu(ctx));
    gd_no_grad_end(ctx);
    *bound = both;
    double *out = both ? (double *)(void *)both->data : NULL;
    int64_t step[2];
    const double *a = bound_numbers(now, NULL, &step[0]), *b = bound_numbers(before, NULL, &step[1]);
    for (int64_t i = 0; both && i < both->numel; i++)
        out[i] = low ? fmax(a[i * step[0]], b[i * step[1]]) : fmin(a[i * step[0]], b[i * step[1]]);
    gd__release(now);
    return both ? GD_OK : gd_error(ctx);
}

/* Two boxes in a step are intersected; if no point is in both, the error names them. */
static gd_status meet_both(gd_var *var, int index, gd_tensor *both[2])
{
    const char *name = gd_var_param_name(var, index);
    strip before = strip_of(var->optimizer, var->params[index]), now = before;
    now.low = bound_numbers(both[0], &lowest, &now.low_step);
    now.high = bound_numbers(both[1], &highest, &now.high_step);
    for (int64_t i = 0; i < now.n; i++)
        if (fmax(low_at(&now, i), low_at(&before, i)) > fmin(high_at(&now, i), high_at(&before, i)))
            return gd_fail(
                var->ctx, GD_VALUE,
                "bounds: parameter '%.60s', element %lld: no number is both between %g and %g, as the bounds "
                "before it say, and between %g and %g, as box says",
                name ? name : "", (long long)i, low_at(&before, i), high_at(&before, i), low_at(&now, i),
                high_at(&now, i));
    const gd_param *p = param_of(var->optimizer, var->params[index]);
    gd_status status = meet(var->ctx, p->low, &both[0], true);
    return status ? status : meet(var->ctx, p->high, &both[1], false);
}

static gd_status set_one(gd_var *var, int index, gd_tensor *low, gd_tensor *high)
{
    gd_tensor *t = var->params[index];
    gd_param *p = param_of(var->optimizer, t);
    gd_tensor *both[2] = {NULL, NULL};
    if (!p) return gd_fail(var->ctx, GD_STATE, "bounds: parameter %d is none of the optimizer", index);
    gd_status status = host_bound(low, t, &both[0]);
    if (!status) status = host_bound(high, t, &both[1]);
    if (!status && !p->side && !(p->side = gd__calloc(var->ctx, (size_t)t->numel + 1))) status = GD_NOMEM;
    if (!status) status = check_bounds(var, index, both);
    if (!status && p->bounded_in == var->optimizer->attempts) status = meet_both(var, index, both);
    if (status || (same_bound(both[0], p->low) && same_bound(both[1], p->high))) {
        gd__release(both[0]);
        gd__release(both[1]);
    } else {
        gd__release(p->low);
        gd__release(p->high);
        p->low = both[0];
        p->high = both[1];
        p->inside = 0;
    }
    if (!status) p->bounded_in = var->optimizer->attempts;
    return status;
}

/* Known values belong to a different point. */
static gd_status forget_evaluation(gd_var *var)
{
    gd_var_set_loss(var, NULL);
    gd_var_set_loss_approx(var, NULL);
    gd_status status = var->closure ? gd_var_set_grad(var, NULL) : GD_OK;
    if (!status && var->closure && !gd_var_has_update(var)) status = gd_var_set_update(var, NULL);
    return status;
}

gd_status gd_var_set_bounds(gd_var *var, gd_tensor *const *low, gd_tensor *const *high)
{
    if (!var) return GD_ARGUMENT;
    if (!var->optimizer) return gd_fail(var->ctx, GD_STATE, "bounds: there is no optimizer to keep them");
    bool moved = false;
    gd_status status = GD_OK;
    for (int i = 0; i < var->count && !status; i++)
        status = set_one(var, i, low ? low[i] : NULL, high ? high[i] : NULL);
    if (status) return status;
    var->bounded = var->optimizer->bounded = true;
    var->sides = 0;
    status = gd__bounds_clamp(var->optimizer, var->params, var->params, var->count, &moved);
    return status || !moved ? status : forget_evaluation(var);
}

bool gd_var_bounds(const gd_var *var, int index, gd_tensor **low, gd_tensor **high)
{
    const gd_param *p = var && var->bounded && index >= 0 && index < var->count
                            ? param_of(var->optimizer, var->params[index])
                            : NULL;
    if (low) *low = p ? p->low : NULL;
    if (high) *high = p ? p->high : NULL;
    return p && (p->low || p->high);
}

/* ---- who is held ---- */

const uint8_t *gd__bounds_sides(const gd_var *var, const gd_tensor *param)
{
    if (!var->bounded || !var->sides || var->sides != var->optimizer->sides) return NULL;
    const gd_param *p = param_of(var->optimizer, param);
    return p ? p->side : NULL;
}

/* Residuals of all elements, and the largest distance of a held one from its bound. */
typedef struct residuals {
    double kkt, sum, square, furthest;
    bool boxed;
} residuals;

/* Determines the held elements, including those nearer than `most` to their bound, and the residual. The strip is a copy, because the sides
 * that are written may overlap. */
static INLINED void hold_with(const strip of, bool alike, const double *x, const double *g, double most,
                              residuals *all)
{
    residuals r = *all;
    const strip *s = &of;
    uint8_t *side = of.side;
    const double first_low = of.low[0], first_high = of.high[0];
    if (alike) r.boxed = r.boxed && first_low > -INFINITY && first_high < INFINITY;
    for (int64_t i = 0; i < of.n; i++) {
        double low = alike ? first_low : low_at(s, i), high = alike ? first_high : high_at(s, i);
        double to = x[i] - g[i], near = NEAR * (1 + fabs(x[i])), below = x[i] - low, above = high - x[i];
        /* further from both bounds than the gradient is long: neither clamped nor held */
        bool clear = (below < above ? below : above) > fabs(g[i]) + near;
        double one = fabs(x[i] - (clear ? to : clamp_to(to, low, high)));
        if (!(one <= r.kkt)) r.kkt = one;
        r.sum += one;
        r.square += one * one;
        if (!alike) r.boxed = r.boxed && low > -INFINITY && high < INFINITY;
        if (clear) {
            if (side) side[i] = 0;
            continue;
        }
        double off = g[i] > 0 ? below : above;
        bool held = (g[i] > 0 || g[i] < 0) && off <= (most < near ? most : near);
        if (held && off > r.furthest && low != high) r.furthest = off;
        if (side) side[i] = low == high ? 1 : !held ? 0 : g[i] > 0 ? 1 : 2;
    }
    *all = r;
}

static void hold(const strip of, const double *x, const double *g, double most, residuals *all)
{
    if (!of.n) return;
    if (of.low_step || of.high_step)
        hold_with(of, false, x, g, most, all);
    else
        hold_with(of, true, x, g, most, all);
}

static gd_status each_pair(gd_var *var, gd_tensor *const *grad, double most, residuals *r)
{
    gd_status status = GD_OK;
    *r = (residuals){.boxed = true};
    for (int i = 0; i < var->count && !status; i++) {
        numbers x = {0}, g = {0};
        strip s = strip_of(var->optimizer, var->params[i]);
        status = numbers_open(&x, var->params[i]);
        if (!status) status = numbers_open(&g, grad[i]);
        if (!status) hold(s, x.v, g.v, most, r);
        numbers_close(&x);
        numbers_close(&g);
    }
    return status;
}

/* Determines the held elements and the residual x - P(x - g), unless they are known. */
static gd_status bounds_know(gd_var *var)
{
    gd_status status = gd__var_need_grad(var, false);
    if (status || (var->sides && var->sides == var->optimizer->sides)) return status;
    gd_step_share *share = var->share;
    residuals r;
    status = each_pair(var, var->grad, INFINITY, &r);
    /* the residual is known only now: repeats if an element is held from a larger distance */
    if (!status && !(r.furthest <= r.kkt)) status = each_pair(var, var->grad, r.kkt, &r);
    share->kkt = r.kkt;
    share->kkt_sum = r.sum;
    share->kkt_square = r.square;
    share->boxed = r.boxed;
    if (!status) var->sides = ++var->optimizer->sides;
    if (!status && isnan(share->first_kkt)) share->first_kkt = share->kkt;
    return status;
}

gd_tensor *gd__bounds_vector(gd_var *var, gd_tensor *const *params, int count)
{
    bool any = false;
    int64_t at = 0, n = gd__list_numel(params, count);
    if (!var->bounded || bounds_know(var)) return NULL;
    gd_tensor *mask = gd_ones(var->ctx, GD_F64, 1, &n);
    for (int i = 0; i < count && mask; i++) {
        const uint8_t *side = gd__bounds_sides(var, params[i]);
        for (int64_t k = 0; k < params[i]->numel; k++, at++) {
            if (!side || !side[k]) continue;
            ((double *)(void *)mask->data)[at] = 0;
            any = true;
        }
    }
    if (!any) return NULL;
    return gd_to_device(gd_cast(mask, gd__list_dtype(params, count)), params[0]->storage->device);
}

gd_tensor *gd_var_free_mask(gd_var *var)
{
    return var && var->count ? gd__bounds_vector(var, var->params, var->count) : NULL;
}

static bool any_held(const uint8_t *side, int64_t n)
{
    int64_t i = 0;
    for (uint64_t eight; side && i + 8 <= n; i += 8) {
        memcpy(&eight, side + i, sizeof eight);
        if (eight) return true;
    }
    for (; side && i < n; i++)
        if (side[i]) return true;
    return false;
}

gd_status gd__bounds_hold(gd_var *var, bool *any)
{
    *any = false;
    gd_status status = bounds_know(var);
    for (int i = 0; i < var->count && !status && !*any; i++)
        *any = any_held(gd__bounds_sides(var, var->params[i]), var->params[i]->numel);
    return status;
}

/* to = from, 0 where held; they may be the same. */
static gd_status mask_one(gd_tensor *from, const uint8_t *side, gd_tensor *to)
{
    gd_ctx *ctx = from->head.ctx;
    numbers n;
    bool plain = (from->dtype == GD_F64 || from->dtype == GD_F32) && from->storage->device == gd__cpu(ctx);
    if (plain && gd__contiguous(from) && gd__contiguous(to)) {
        gd__loops_for(ctx, from->dtype)->free_part(to->data, from->data, side, from->numel);
        gd__touch(to);
        return GD_OK;
    }
    gd_status status = to == from ? GD_OK : gd_assign(to, from);
    if (!status) status = numbers_open(&n, to);
    if (status) return status;
    for (int64_t k = 0; k < to->numel; k++)
        if (side[k]) n.v[k] = 0;
    status = numbers_write(&n);
    numbers_close(&n);
    return status;
}

gd_status gd__bounds_mask(gd_var *var, gd_tensor *const *from, gd_tensor **out)
{
    gd_status status = bounds_know(var);
    for (int i = 0; i < var->count && !status; i++) {
        const uint8_t *side = gd__bounds_sides(var, var->params[i]);
        bool any = any_held(side, var->params[i]->numel);
        /* nobody writes an alias: gd_var_update copies */
        out[i] = any ? gd__new_like(from[i], from[i]->dtype) : gd_detach(from[i]);
        status = !out[i] ? gd_error(var->ctx) : any ? mask_one(from[i], side, out[i]) : GD_OK;
    }
    return status;
}

gd_status gd__bounds_mask_here(gd_var *var, gd_tensor *const *list)
{
    gd_status status = bounds_know(var);
    for (int i = 0; i < var->count && !status; i++) {
        const uint8_t *side = gd__bounds_sides(var, var->params[i]);
        if (any_held(side, var->params[i]->numel)) status = mask_one(list[i], side, list[i]);
    }
    return status;
}

gd_status gd__bounds_first_update(gd_var *var)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor **list = gd__tensors_new(ctx, var->count);
    gd_status status = list ? gd__var_need_grad(var, false) : GD_NOMEM;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    if (!status) status = gd__bounds_mask(var, var->grad, list);
    for (int i = 0; i < var->count && list; i++) {
        if (status)
            list[i] = NULL;
        else
            gd__own(list[i]);
    }
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    if (status) {
        gd__tensors_free(ctx, list, var->count);
        return status;
    }
    gd__tensors_free(ctx, var->update, var->count);
    var->update = list;
    var->update_is_grad = false;
    var->masked = true;
    return GD_OK;
}

/* ---- an update inside them ---- */

static INLINED void bring_with(const strip of, bool alike, const double *x, const double *g, const double *u,
                               bool project, double kkt, double *out, gd_within *w)
{
    gd_within all = *w;
    const strip *s = &of;
    uint8_t *side = of.side;
    const double first_low = of.low[0], first_high = of.high[0];
    for (int64_t i = 0; i < of.n; i++) {
        double low = alike ? first_low : low_at(s, i), high = alike ? first_high : high_at(s, i),
               v = side && side[i] ? 0 : u[i], to = x[i] - v;
        if (to < low || to > high) { /* beyond */
            double room = to < low ? x[i] - low : high - x[i];
            if (side && room <= fmin(NEAR * (1 + fabs(x[i])), kkt)) {
                side[i] = to < low ? 1 : 2;
                all.joined++;
                v = 0;
            } else if (project)
                v = to < low ? x[i] - low : x[i] - high;
        }
        /* the largest a with x - a v inside: divides only if it is the least so far */
        double left = v > 0 ? x[i] - low : high - x[i];
        if (v != 0 && left < all.most * fabs(v)) all.most = left == fabs(v) ? 1 : left / fabs(v);
        all.slope += g[i] * v;
        all.length += v * v;
        out[i] = v;
    }
    *w = all;
}

static void bring_within(const strip of, const double *x, const double *g, const double *u, bool project,
                         double kkt, double *out, gd_within *w)
{
    if (!of.n) return;
    if (of.low_step || of.high_step)
        bring_with(of, false, x, g, u, project, kkt, out, w);
    else
        bring_with(of, true, x, g, u, project, kkt, out, w);
}

gd_status gd__bounds_within(gd_var *var, gd_tensor *const *u, bool project, gd_tensor **out,
                            gd_within *within)
{
    *within = (gd_within){.most = INFINITY};
    gd_status status = bounds_know(var);
    for (int i = 0; i < var->count && !status; i++) {
        numbers n[4] = {{0}};
        strip s = strip_of(var->optimizer, var->params[i]);
        gd_tensor *of[4] = {var->params[i], var->grad[i], u[i], NULL};
        out[i] = of[3] = gd_empty_on(u[i]->storage->device, u[i]->dtype, u[i]->ndim, u[i]->size);
        if (!out[i]) return gd_error(var->ctx);
        for (int k = 0; k < 4 && !status; k++) status = numbers_open(&n[k], of[k]);
        if (!status) bring_within(s, n[0].v, n[1].v, n[2].v, project, var->share->kkt, n[3].v, within);
        if (!status) status = numbers_write(&n[3]);
        for (int k = 0; k < 4; k++) numbers_close(&n[k]);
    }
    within->length = sqrt(within->length);
    return status;
}

/* ---- moving ---- */

/* Within the rounding of the move, the bound itself is taken. */
static double settle(const strip *s, int64_t i, double x, double step)
{
    double low = low_at(s, i), high = high_at(s, i), to = x - step;
    double far = 4 * s->eps * (fabs(x) + fabs(to)); /* the remaining elements cannot change the result */
    if (to - low > far && high - to > far) return to;
    if (step > 0 && isfinite(low) && to - low <= 2 * s->eps * (fabs(x) + fabs(low))) return low;
    if (step < 0 && isfinite(high) && high - to <= 2 * s->eps * (fabs(x) + fabs(high))) return high;
    return clamp_to(to, low, high);
}

/* Elements from k on are free up to there: all, where nobody is held, else some times eight. */
static int64_t free_until(const uint8_t *side, int64_t k, int64_t n)
{
    int64_t end = side ? k : n;
    for (uint64_t eight; end + 8 <= n; end += 8) {
        memcpy(&eight, side + end, sizeof eight);
        if (eight) break;
    }
    return end;
}

/* Element by element where a bound is near, else with the vector loop: the same numbers.  Rounded as the scaled update, so that a search and
 * the end of its step give the same bits. */
static void move_strip(const strip *s, const uint8_t *side, bool narrow, const numbers *from, const double *u,
                       double a, double *to)
{
    const gd_vector_loops *loops = loops_of(from);
    const double *x = from->v;
    for (int64_t k = 0, reach = 0; k < s->n;) {
        int64_t end = s->n;
        if (!narrow && k >= reach) reach = free_until(side, k, s->n);
        if (k < reach) {
            gd_edges edges = edges_of(s);
            edges.low = s->low + k * s->low_step;
            edges.high = s->high + k * s->high_step;
            k += loops->move_inside(to + k, x + k, u + k, a, 4 * s->eps, &edges, reach - k);
        }
        if (!narrow) end = k + 8 < s->n ? k + 8 : s->n;
        for (; k < end; k++) {
            double step = narrow ? (double)(float)(a * u[k]) : a * u[k];
            to[k] = !side || !side[k] ? settle(s, k, x[k], step)
                    : side[k] == 1    ? low_at(s, k)
                                      : high_at(s, k);
        }
    }
}

gd_status gd__bounds_move(gd_var *var, gd_tensor *const *x, gd_tensor *const *u, double a)
{
    gd_status status = GD_OK;
    for (int i = 0; i < var->count && !status; i++) {
        numbers from = {0}, by = {0}, to = {0};
        const strip s = strip_of(var->optimizer, var->params[i]);
        const uint8_t *side = var->share->search_failed || a == 0 ? NULL
                                                                  : gd__bounds_sides(var, var->params[i]);
        if (!any_held(side, s.n)) side = NULL;
        bool narrow = var->params[i]->dtype != GD_F64;
        status = numbers_open(&from, x[i]);
        if (!status) status = numbers_open(&by, u[i]);
        if (!status) status = numbers_open(&to, var->params[i]);
        if (!status) move_strip(&s, side, narrow, &from, by.v, a, to.v);
        if (!status) status = numbers_write(&to);
        if (!status) note_inside(param_of(var->optimizer, var->params[i]));
        numbers_close(&to);
        numbers_close(&by);
        numbers_close(&from);
    }
    var->grad_history = false;
    return status;
}

gd_status gd__bounds_finish(gd_var *var)
{
    gd_status status = gd__var_flush(var, GD_SINK_UPDATE);
    if (status || var->skip) {
        if (!status) status = gd__bounds_clamp(var->optimizer, var->params, var->params, var->count, NULL);
        return status;
    }
    gd_tensor *const *update = gd_var_read_update(var);
    return update ? gd__bounds_move(var, var->params, update, 1) : gd_error(var->ctx);
}

gd_status gd__bounds_clamp(gd_optimizer *o, gd_tensor *const *params, gd_tensor *const *values, int count,
                           bool *moved)
{
    gd_status status = GD_OK;
    if (moved) *moved = false;
    for (int i = 0; i < count && !status; i++) {
        numbers v;
        bool any = false;
        strip s = strip_of(o, params[i]);
        status = numbers_open(&v, values[i]);
        gd_edges edges = edges_of(&s);
        if (!status) any = loops_of(&v)->outside(v.v, &edges, s.n);
        for (int64_t k = 0; k < s.n && any; k++) v.v[k] = clamp_to(v.v[k], low_at(&s, k), high_at(&s, k));
        if (!status && any) status = numbers_write(&v);
        if (!status && values[i] == params[i]) note_inside(param_of(o, params[i]));
        numbers_close(&v);
        if (moved) *moved = *moved || any;
    }
    return status;
}

gd_status gd__bounds_outside(gd_var *var, bool *outside)
{
    gd_status status = GD_OK;
    *outside = false;
    for (int i = 0; i < var->count && !status && !*outside; i++) {
        gd_param *p = param_of(var->optimizer, var->params[i]);
        if (!p || (!p->low && !p->high)) continue;
        bool known = p->inside == (uint64_t)gd__version(p->tensor) + 1;
        if (known && !var->optimizer->test.always_look) continue;
        numbers x;
        strip s = strip_of(var->optimizer, var->params[i]);
        status = numbers_open(&x, var->params[i]);
        gd_edges edges = edges_of(&s);
        if (!status) *outside = loops_of(&x)->outside(x.v, &edges, s.n);
        if (!status && !*outside) note_inside(p);
        numbers_close(&x);
    }
    return status;
}

/* h becomes the largest distance for which there is room along v, whose elements with equal bounds become 0. */
static gd_status fit_distance(gd_var *var, gd_tensor *const *v, double *h)
{
    gd_status status = GD_OK;
    for (int i = 0; i < var->count && !status; i++) {
        numbers along = {0};
        strip s = strip_of(var->optimizer, var->params[i]);
        status = numbers_open(&along, v[i]);
        for (int64_t k = 0; k < s.n && !status; k++) {
            double half = high_at(&s, k) / 2 - low_at(&s, k) / 2;
            if (half == 0) along.v[k] = 0;
            if (*h * fabs(along.v[k]) > half) *h = half / fabs(along.v[k]);
        }
        if (!status) status = numbers_write(&along);
        numbers_close(&along);
    }
    return status;
}

gd_status gd__bounds_centre(gd_var *var, gd_tensor *const *v, double *h)
{
    gd_status status = fit_distance(var, v, h);
    for (int i = 0; i < var->count && !status; i++) {
        numbers x = {0}, along = {0};
        strip s = strip_of(var->optimizer, var->params[i]);
        status = numbers_open(&x, var->params[i]);
        if (!status) status = numbers_open(&along, v[i]);
        for (int64_t k = 0; k < s.n && !status; k++) {
            double reach = *h * fabs(along.v[k]);
            x.v[k] = clamp_to(x.v[k], low_at(&s, k) + reach, high_at(&s, k) - reach);
        }
        if (!status) status = numbers_write(&x);
        numbers_close(&along);
        numbers_close(&x);
    }
    var->grad_history = false;
    return status;
}

gd_status gd__bounds_residual(gd_optimizer *o, gd_tensor *const *params, gd_tensor *const *grads, int count,
                              gd_tensor **out)
{
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++) {
        numbers x = {0}, g = {0};
        strip s = strip_of(o, params[i]);
        if (!(out[i] = gd_copy(grads[i]))) return gd_error(gd_tensor_ctx(grads[i]));
        status = numbers_open(&x, params[i]);
        if (!status) status = numbers_open(&g, out[i]);
        for (int64_t k = 0; k < s.n && !status; k++) g.v[k] = residual_at(&s, k, x.v[k], g.v[k]);
        if (!status) status = numbers_write(&g);
        numbers_close(&g);
        numbers_close(&x);
    }
    return status;
}

/* ---- as numbers ---- */

/* A bound of one parameter; a single element applies to all. */
static gd_status read_bound(gd_tensor *t, int64_t n, double none, double *out)
{
    double one = none;
    if (t && gd_numel(t) == n) return gd_read_f64(t, out, n);
    gd_status status = t ? gd_read_f64(t, &one, 1) : GD_OK;
    for (int64_t i = 0; i < n; i++) out[i] = one;
    return status;
}

gd_status gd__var_bound_numbers(const gd_var *var, double *low, double *high)
{
    gd_status status = GD_OK;
    int64_t at = 0;
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        int64_t n = gd_numel(gd_var_params(var)[i]);
        gd_tensor *least, *most;
        (void)gd_var_bounds(var, i, &least, &most);
        status = read_bound(least, n, -INFINITY, low + at);
        if (!status) status = read_bound(most, n, INFINITY, high + at);
        at += n;
    }
    return status;
}
