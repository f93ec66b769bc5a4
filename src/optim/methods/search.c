/* Code shared by the links of global search; see gradus/link/search.h. */
#include "gradus/link/search.h"

#include "base/ctx.h"
#include "optim/step/objective/bounds.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static gd_ctx *ctx_of(const gd_search *s) { return s ? gd_link_ctx(s->link) : NULL; }

static gd_status no_search(const gd_search *s)
{
    return gd__null(ctx_of(s), "search: it was not begun, or an argument is NULL");
}

static bool begun(const gd_search *s) { return s && s->link && s->var && s->x; }

/* ---- kept state ---- */

double *gd_search_numbers(gd_search *s, int64_t count)
{
    if (!s || !s->link || count < 0) return gd__none(no_search(s));
    return gd_link_memory(s->link, ((size_t)count + 1) * sizeof(double));
}

bool gd_search_kept(gd_search *s, const char *name, int64_t count, double *out)
{
    gd_tensor *t = s && name && out ? gd_link_global_tensor(s->link, name) : NULL;
    return t && gd_numel(t) == count && gd_read_f64(t, out, count) == GD_OK;
}

gd_status gd_search_keep(gd_search *s, const char *name, int64_t count, const double *values)
{
    if (!begun(s) || !name || !values) return no_search(s);
    gd_tensor *t = gd_from_f64(ctx_of(s), GD_F64, 1, &count, values);
    return t ? gd_link_set_global_tensor(s->link, name, t) : gd_error(ctx_of(s));
}

gd_status gd_search_refresh(gd_search *s)
{
    if (!begun(s)) return no_search(s);
    gd_status status = gd__var_bound_numbers(s->var, s->low, s->high);
    for (int64_t i = 0; i < s->n && !status; i++)
        s->x[i] = s->x[i] < s->low[i] ? s->low[i] : s->x[i] > s->high[i] ? s->high[i] : s->x[i];
    return status;
}

/* The kept state if its number of parameters matches; else NULL. */
static void read_kept(gd_search *s)
{
    s->first = !gd_search_kept(s, "start", s->n, s->start) || !gd_search_kept(s, "best", s->n, s->best);
    s->best_loss = gd_link_kept(s->link, "best_loss", INFINITY);
    if (s->constrained) s->best_violation = gd_link_kept(s->link, "best_violation", INFINITY);
    if (!s->first) return;
    if (gd_link_has_global(s->link, "start")) gd_link_reset(s->link);
    memcpy(s->start, s->x, (size_t)s->n * sizeof *s->x);
    memcpy(s->best, s->x, (size_t)s->n * sizeof *s->x);
    s->best_loss = INFINITY;
    if (s->constrained) s->best_violation = INFINITY;
}

static bool has_constraints(const gd_var *var)
{
    const gd_objective *o = gd_var_has_closure(var) ? gd__objective_of(var) : NULL;
    return o && (o->equal || o->below);
}

/* Is the loss that the link sees the objective plus penalties? */
static bool sees_penalties(const gd_var *var)
{
    for (const gd_closure *c = var->closure; c; c = c->below)
        if (c->term) return true;
    return false;
}

/* Without a child that satisfies the constraints, the lowest loss is not the best point. */
static gd_status refuse_constraints(const gd_link *link, const gd_var *var, bool constrained)
{
    const char *name = gd_link_class_of(link)->name;
    if (!has_constraints(var) || (constrained && !sees_penalties(var))) return GD_OK;
    if (!constrained)
        return gd_fail(gd_link_ctx(link), GD_NOT_IMPLEMENTED,
                       "%s: it searches inside bounds, not under constraints", name);
    return gd_fail(gd_link_ctx(link), GD_NOT_IMPLEMENTED,
                   "%s: it is inside augmented_lagrangian; write %s(augmented_lagrangian([...]))", name,
                   name);
}

static gd_status begin_search(gd_search *s, gd_link *link, gd_var *var, bool constrained)
{
    if (!s || !link || !var)
        return gd__null(gd_link_ctx(link), "search: the link or the variable of the step is NULL");
    *s = (gd_search){.link = link, .var = var, .n = gd__list_numel(gd_var_params(var), gd_var_count(var))};
    s->constrained = constrained && has_constraints(var);
    gd_var_note_search(var);
    double *room = gd_search_numbers(s, 5 * s->n);
    gd_status status = room ? refuse_constraints(link, var, constrained) : gd_error(gd_link_ctx(link));
    if (!status) status = gd_var_flush(var);
    if (status) return status;
    s->x = room;
    s->low = room + s->n;
    s->high = s->low + s->n;
    s->start = s->high + s->n;
    s->best = s->start + s->n;
    status = gd__list_read(gd_var_params(var), gd_var_count(var), s->x);
    if (!status) status = gd__var_bound_numbers(s->var, s->low, s->high);
    if (!status) read_kept(s);
    return status ? status : gd_error(gd_link_ctx(link));
}

gd_status gd_search_begin(gd_search *s, gd_link *link, gd_var *var)
{
    return begin_search(s, link, var, false);
}

gd_status gd_search_begin_constrained(gd_search *s, gd_link *link, gd_var *var)
{
    return begin_search(s, link, var, true);
}

static bool is_best(const gd_search *s) { return !memcmp(s->x, s->best, (size_t)s->n * sizeof *s->x); }

gd_status gd_search_here(gd_search *s)
{
    if (!begun(s)) return no_search(s);
    if (!s->first && is_best(s) && !gd_var_has_loss(s->var)) {
        gd_tensor *known = gd_scalar(ctx_of(s), GD_F64, s->best_loss);
        gd_var_set_loss(s->var, known);
        return known ? GD_OK : gd_error(ctx_of(s));
    }
    gd_search_offer(s, s->x, gd_var_loss_value(s->var, false));
    return gd_error(ctx_of(s));
}

void gd_search_offer(gd_search *s, const double *x, double loss)
{
    if (!begun(s) || s->constrained || !x || !isfinite(loss) || !(loss < s->best_loss)) return;
    memmove(s->best, x, (size_t)s->n * sizeof *x);
    s->best_loss = loss;
}

bool gd_search_offer_constrained(gd_search *s, const double *x, double loss, double violation, double tol)
{
    if (!begun(s) || !x || !isfinite(loss) || !isfinite(violation)) return false;
    bool good = violation <= tol, other = s->best_violation <= tol;
    bool better = good && other ? loss < s->best_loss : good || (!other && violation < s->best_violation);
    if (!better) return false;
    memmove(s->best, x, (size_t)s->n * sizeof *x);
    s->best_loss = loss;
    s->best_violation = violation;
    return true;
}

/* ---- where to look ---- */

double gd_search_scale(const gd_search *s, int64_t i)
{
    if (!begun(s) || i < 0 || i >= s->n) return NAN;
    double width = s->high[i] - s->low[i], size = fmax(1, fabs(s->start[i]));
    return isfinite(width) ? width : isfinite(size) ? size : 1;
}

double gd_search_reflect(const gd_search *s, int64_t i, double x)
{
    if (!begun(s) || i < 0 || i >= s->n) return NAN;
    double low = s->low[i], high = s->high[i], width = high - low;
    if (isfinite(width)) {
        double at = width > 0 ? fmod(fabs(x - low), 2 * width) : 0;
        x = isnan(x) || (x >= low && x <= high) ? x : low + (at > width ? 2 * width - at : at);
    } else if (x < low)
        x = 2 * low - x;
    else if (x > high)
        x = 2 * high - x;
    return x < low ? low : x > high ? high : x;
}

gd_status gd_search_draw(gd_search *s, gd_random_kind kind, int64_t count, double *out)
{
    if (!begun(s) || !out || count < 0) return no_search(s);
    gd_ctx *ctx = ctx_of(s);
    gd_scope_begin(ctx);
    gd_tensor *z = gd_link_random(s->link, kind, gd_zeros(ctx, GD_F64, 1, &count));
    gd_status status = z ? gd_read_f64(z, out, count) : gd_error(ctx);
    gd_scope_end(ctx);
    return status;
}

typedef struct ranked {
    double key;
    int64_t index;
} ranked;

static int by_key(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* The region of the population: the bounds, or the neighbourhood of the start. */
static void range_of(const gd_search *s, int64_t i, double *from, double *to)
{
    double size = gd_search_scale(s, i), at = isfinite(s->start[i]) ? s->start[i] : 0;
    bool two = isfinite(s->high[i] - s->low[i]);
    *from = two ? s->low[i] : fmax(at - size, s->low[i]);
    *to = two ? s->high[i] : fmin(at + size, s->high[i]);
}

gd_status gd_search_spread(gd_search *s, int64_t k, double *points)
{
    if (!begun(s) || !points || k < 0) return no_search(s);
    double *draw = gd_search_numbers(s, 2 * k);
    ranked *order = gd_link_memory(s->link, ((size_t)k + 1) * sizeof *order);
    gd_status status = draw && order ? GD_OK : gd_error(ctx_of(s));
    for (int64_t i = 0; i < s->n && !status; i++) {
        double from, to;
        range_of(s, i, &from, &to);
        status = gd_search_draw(s, GD_RANDOM_UNIFORM, 2 * k, draw);
        for (int64_t j = 0; j < k; j++) order[j] = (ranked){draw[j], j};
        qsort(order, (size_t)k, sizeof *order, by_key);
        for (int64_t j = 0; j < k && !status; j++) {
            double part = ((double)j + draw[k + j]) / (double)k;
            points[order[j].index * s->n + i] = fmin(from + (to - from) * part, to);
        }
    }
    return status;
}

/* ---- evaluating ---- */

/* The points rounded to the dtype of the parameters, if all have one dtype. */
static gd_tensor *as_held(const gd_search *s, int64_t k, const double *points)
{
    gd_tensor *const *params = gd_var_params(s->var);
    gd_dtype dtype = gd_tensor_dtype(params[0]);
    for (int i = 0; i < gd_var_count(s->var); i++)
        if (gd_tensor_dtype(params[i]) != dtype) dtype = GD_F64;
    return gd_from_f64(ctx_of(s), dtype, 2, (int64_t[]){k, s->n}, points);
}

gd_status gd_search_evaluate(gd_search *s, int64_t k, double *points, double *losses)
{
    if (!begun(s) || !points || !losses || k < 0) return no_search(s);
    gd_ctx *ctx = ctx_of(s);
    gd_scope_begin(ctx);
    gd_tensor *t = as_held(s, k, points);
    gd_status status = t ? gd_read_f64(t, points, k * s->n) : gd_error(ctx);
    if (!status) status = gd_var_evaluate_many(s->var, t, losses);
    gd_scope_end(ctx);
    for (int64_t i = 0; i < k && !status; i++) gd_search_offer(s, points + i * s->n, losses[i]);
    return status;
}

/* ---- the end ---- */

gd_status gd_search_stay(gd_search *s)
{
    if (!begun(s)) return no_search(s);
    gd_status status = s->first ? gd_search_keep(s, "start", s->n, s->start) : GD_OK;
    if (!status) status = gd_search_keep(s, "best", s->n, s->best);
    if (!status && s->constrained) status = gd_link_keep(s->link, "best_violation", s->best_violation);
    return status ? status : gd_link_keep(s->link, "best_loss", s->best_loss);
}

/* n numbers where the parameters are. */
static gd_tensor *vector_of(const gd_search *s, const double *x)
{
    gd_tensor *v = gd_from_f64(ctx_of(s), GD_F64, 1, &s->n, x);
    return v ? gd_to_device(v, gd_tensor_device(gd_var_params(s->var)[0])) : NULL;
}

static gd_status put_params(gd_search *s, const double *x)
{
    gd_var *var = s->var;
    gd_tensor *v = vector_of(s, x);
    gd_tensor **list = gd_link_scratch(s->link, gd_var_count(var));
    gd_status status = v && list ? gd_list_split(v, gd_var_params(var), gd_var_count(var), list)
                                 : gd_error(ctx_of(s));
    if (!status) status = gd_var_restore_params(var, list);
    gd_var_skip_update(var);
    return status;
}

gd_status gd_search_end(gd_search *s)
{
    if (!begun(s)) return no_search(s);
    gd_status status = gd_search_stay(s);
    if (status || is_best(s)) return status ? status : gd_var_set_zero_update(s->var);
    if (gd_var_is_last(s->var) && !gd_var_last_lrs(s->var)) return put_params(s, s->best);
    double *u = gd_search_numbers(s, s->n);
    for (int64_t i = 0; i < s->n && u; i++) u[i] = s->x[i] - s->best[i];
    gd_tensor *v = u ? vector_of(s, u) : NULL;
    return v ? gd_var_set_update_vector(s->var, v) : gd_error(ctx_of(s));
}

gd_status gd_search_jump(gd_search *s, const double *x)
{
    if (!begun(s) || !x) return no_search(s);
    gd_status status = gd_search_stay(s);
    if (!status) status = gd_var_set_zero_update(s->var);
    if (!status) status = put_params(s, x);
    gd_var_stop(s->var);
    return status;
}
