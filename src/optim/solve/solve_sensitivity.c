/* Which constraints hold with equality at a minimum, and how it moves with their right-hand sides.
 *
 * If f' + y c' = z and the active rows A of c' are independent, x(b) of c = b on those rows solves (Fiacco 1976)
 *
 *     | W  A' | | dx |   |  0 |
 *     | A  0  | | dy | = | db |      W the Hessian of f + y c, without the elements that a bound holds
 *
 * A constraint at its limit whose multiplier is 0 is not in A, and x(b) has two slopes there: NAN. */
#include "optim/solve/solve_internal.h"

#include "optim/methods/nlp/ldl.h"
#include "optim/step/objective/bounds.h"
#include "optim/step/objective/lagrangian.h"
#include "optim/vector/layout.h"
#include "optim/vector/origin.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define NEAR   1e-6 /* distance from its limit of a constraint that holds with equality */
#define STRONG 1e-6 /* multiplier, relative to the largest, of one that affects the minimum */
#define EXACT  1e-6 /* relative residual of a solution that counts */

typedef struct sensitivity {
    gd_ctx *ctx;
    gd_var *var;
    int64_t n, equal, rows;     /* elements that want gradients, constraints */
    double *x, *low, *high, *z; /* [n] */
    double *c, *y, *g, *j, *w;  /* [rows], [rows], [n], [rows, n], [n, n] */
    double *moved, *j2;         /* [n], [rows, n], for differences */
    int64_t *variable, *row;    /* free elements, and rows of A */
    int64_t variables, chosen;
} sensitivity;

/* ---- the numbers ---- */

static gd_status read_attribute(gd_optimizer *o, const char *name, int64_t count, double *out)
{
    gd_tensor *t = gd_optimizer_attr_tensor(o, name);
    for (int64_t i = 0; i < count; i++) out[i] = NAN;
    return t && gd_numel(t) == count ? gd_read_f64(t, out, count) : GD_OK;
}

static gd_status read_minimum(sensitivity *s, gd_optimizer *o)
{
    gd_var *var = s->var;
    double f;
    gd_status status = gd__list_read(var->params, var->count, s->x);
    if (!status) status = gd__var_bound_numbers(var, s->low, s->high);
    if (!status) status = read_attribute(o, "multipliers", s->rows, s->y);
    if (!status) status = read_attribute(o, "bound_multipliers", s->n, s->z);
    return status ? status : gd__lagrangian_values(var, false, &f, s->c);
}

static bool is_active(const sensitivity *s, int64_t i)
{
    return i < s->equal || s->c[i] >= -NEAR || s->y[i] >= -s->c[i];
}

/* Free elements, and rows that affect the minimum; an element with equal bounds, or held by a bound, is not free. */
static void choose_system(sensitivity *s)
{
    double most = 1;
    for (int64_t i = 0; i < s->rows; i++) most = fmax(most, fabs(s->y[i]));
    for (int64_t i = 0; i < s->n; i++)
        if (s->low[i] < s->high[i] && !(fabs(s->z[i]) > STRONG * most)) s->variable[s->variables++] = i;
    for (int64_t i = 0; i < s->rows; i++)
        if (i < s->equal || (is_active(s, i) && s->y[i] > STRONG * most)) s->row[s->chosen++] = i;
}

/* ---- second derivatives ---- */

/* The gradient of the Lagrangian at x + h e_i into `out`. */
static gd_status slope_beside(sensitivity *s, int64_t i, double h, double *out)
{
    gd_var *var = s->var;
    double f, *c = s->moved + s->n;
    memcpy(s->moved, s->x, (size_t)s->n * sizeof *s->moved);
    s->moved[i] += h;
    gd_status status = gd__list_write(var->params, var->count, s->moved);
    if (!status) status = gd__lagrangian_values(var, false, &f, c);
    if (!status) status = gd__lagrangian_first(var, out, s->j2);
    for (int64_t k = 0; k < s->n && !status; k++)
        for (int64_t r = 0; r < s->rows; r++) out[k] += s->y[r] * s->j2[r * s->n + k];
    return status;
}

/* By central differences inside the bounds, or one-sided ones if there is no room. */
static gd_status differences(sensitivity *s)
{
    double *ahead = s->w + s->n * s->n, *behind = ahead + s->n;
    gd_status status = GD_OK;
    for (int64_t v = 0; v < s->variables && !status; v++) {
        int64_t i = s->variable[v];
        double h = cbrt(DBL_EPSILON) * fmax(fabs(s->x[i]), 1), up = fmin(h, s->high[i] - s->x[i]),
               down = fmin(h, s->x[i] - s->low[i]);
        status = slope_beside(s, i, up, ahead);
        if (!status) status = slope_beside(s, i, -down, behind);
        for (int64_t k = 0; k < s->n; k++) s->w[i * s->n + k] = (ahead[k] - behind[k]) / (up + down);
    }
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t k = 0; k < i; k++)
            s->w[i * s->n + k] = s->w[k * s->n + i] = 0.5 * (s->w[i * s->n + k] + s->w[k * s->n + i]);
    return status;
}

static gd_status second(sensitivity *s)
{
    gd_var *var = s->var;
    if (gd__lagrangian_bends(var)) return gd__lagrangian_second(var, 1, s->y, s->w);
    gd_origin here = {0};
    gd_status status = gd__origin_keep(&here, s->ctx, var->params, var->count);
    if (!status) {
        status = differences(s);
        gd_status back = gd__origin_return(&here);
        if (!status) status = back;
    }
    gd__origin_free(&here);
    return status;
}

/* ---- the system ---- */

static double entry(const sensitivity *s, int64_t i, int64_t k)
{
    int64_t n = s->variables;
    if (i < k) return entry(s, k, i);
    if (i < n) return s->w[s->variable[i] * s->n + s->variable[k]];
    return k < n ? s->j[s->row[i - n] * s->n + s->variable[k]] : 0;
}

/* b - K x into r; the largest element. */
static double residual(const sensitivity *s, int64_t order, const double *x, int64_t unit, double *r)
{
    double most = 0;
    for (int64_t i = 0; i < order; i++) {
        r[i] = i == unit;
        for (int64_t k = 0; k < order; k++) r[i] -= entry(s, i, k) * x[k];
        most = fmax(most, fabs(r[i]));
    }
    return most;
}

/* The column of one row of A; false: not determined. */
static bool solve_one(const sensitivity *s, const gd_ldl *f, int64_t unit, double *x, double *r)
{
    double most = 0;
    memset(x, 0, (size_t)f->n * sizeof *x);
    for (int pass = 0; pass < 3; pass++) {
        (void)residual(s, f->n, x, unit, r);
        gd__ldl_solve(f, r);
        for (int64_t i = 0; i < f->n; i++) x[i] += r[i];
    }
    for (int64_t i = 0; i < f->n; i++) most = fmax(most, fabs(x[i]));
    return isfinite(most) && residual(s, f->n, x, unit, r) <= EXACT && most < 1 / DBL_EPSILON;
}

static gd_status solve_all(const sensitivity *s, int64_t most, const int64_t *place, double *out)
{
    int64_t order = s->variables + s->chosen;
    size_t bytes = (size_t)(order * order + 2 * order + 1) * sizeof(double);
    double *room = gd__alloc(s->ctx, bytes), *x = room ? room + order * order : NULL,
           *r = x ? x + order : NULL;
    int64_t *pivot = gd__alloc_array(s->ctx, (size_t)order + 1, sizeof *pivot);
    gd_status status = room && pivot ? GD_OK : GD_NOMEM;
    gd_ldl f = {.n = order, .a = room, .pivot = pivot};
    for (int64_t k = 0; k < order && !status; k++)
        for (int64_t i = k; i < order; i++) room[k * order + i] = entry(s, i, k);
    if (!status) gd__ldl_factor(&f);
    bool regular = !status && !f.zero && f.negative == s->chosen; /* a strict minimum */
    for (int64_t a = 0; a < s->chosen && !status; a++) {
        if (s->row[a] >= most) continue;
        bool known = regular && solve_one(s, &f, s->variables + a, x, r);
        for (int64_t i = 0; i < s->variables; i++)
            out[place[s->variable[i]] * most + s->row[a]] = known ? x[i] : NAN;
    }
    gd__free(s->ctx, pivot, ((size_t)order + 1) * sizeof *pivot);
    gd__free(s->ctx, room, bytes);
    return status;
}

/* ---- results ---- */

static void write_active(const sensitivity *s, int64_t most, int *active)
{
    for (int64_t i = 0; i < most && active; i++) active[i] = i < s->rows && is_active(s, i);
}

static gd_status write_slopes(sensitivity *s, int64_t most, const int64_t *place, double *out)
{
    gd_status status = gd__lagrangian_first(s->var, s->g, s->j);
    choose_system(s);
    if (!status) status = second(s);
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t r = 0; r < most; r++) {
            bool weak = r < s->rows && r >= s->equal && is_active(s, r);
            out[place[i] * most + r] = r >= s->rows || isnan(s->y[r]) || weak ? NAN : 0;
        }
    for (int64_t a = 0; a < s->chosen; a++) /* elements that bounds hold stay */
        for (int64_t i = 0; i < s->n && s->row[a] < most; i++) out[place[i] * most + s->row[a]] = 0;
    bool known = s->rows && !isnan(s->y[0]);
    return status || !known ? status : solve_all(s, most, place, out);
}

static gd_status with_room(sensitivity *s, gd_optimizer *o, bool converged, int64_t most,
                           const int64_t *place, int *active, double *out)
{
    int64_t below, n = s->n;
    gd_status status = gd__lagrangian_counts(s->var, &s->equal, &below);
    if (status) return status;
    s->rows = s->equal + below;
    int64_t count = 5 * n + 2 * (s->rows + s->rows * n) + n * n + 3 * n + s->rows;
    double *room = gd__calloc(s->ctx, (size_t)(count + 1) * sizeof *room);
    s->variable = gd__calloc(s->ctx, (size_t)(n + s->rows + 1) * sizeof *s->variable);
    if (!room || !s->variable)
        status = GD_NOMEM;
    else {
        s->row = s->variable + n;
        s->x = room, s->low = s->x + n, s->high = s->low + n, s->z = s->high + n, s->g = s->z + n;
        s->c = s->g + n, s->y = s->c + s->rows, s->j = s->y + s->rows, s->j2 = s->j + s->rows * n;
        s->w = s->j2 + s->rows * n, s->moved = s->w + n * n + 2 * n;
        status = read_minimum(s, o);
        if (!status) write_active(s, most, active);
        if (!status && out && converged) status = write_slopes(s, most, place, out);
    }
    gd__free(s->ctx, s->variable, (size_t)(n + s->rows + 1) * sizeof *s->variable);
    gd__free(s->ctx, room, (size_t)(count + 1) * sizeof *room);
    return status;
}

/* Places of the elements that want gradients among all elements. */
static int64_t *places(gd_optimizer *o, gd_tensor **wanted, int *count, int64_t *all)
{
    *all = 0;
    for (int i = 0; i < o->count; i++) *all += o->param[i].tensor->numel;
    int64_t *place = gd__alloc_array(o->ctx, (size_t)*all + 1, sizeof *place), at = 0, n = 0;
    *count = 0;
    for (int i = 0; i < o->count && place; i++) {
        gd_tensor *t = o->param[i].tensor;
        if (t->leaf_grad) wanted[(*count)++] = t;
        for (int64_t k = 0; k < t->numel; k++, at++)
            if (t->leaf_grad) place[n++] = at;
    }
    return place;
}

gd_status gd__sensitivities(gd_optimizer *o, const gd_objective *objective, bool converged, int64_t most,
                            int *active, double *out)
{
    int64_t all;
    gd_closure base = {.eval = gd__objective_eval, .objective = objective};
    gd_step_share share = {.first_kkt = NAN, .violation = NAN};
    gd_var var;
    int count = 0;
    gd_tensor **wanted = gd__tensors_new(o->ctx, o->count);
    int64_t *place = wanted ? places(o, wanted, &count, &all) : NULL;
    gd_status status = place ? GD_OK : GD_NOMEM;
    if (!status) {
        for (int64_t i = 0; i < most && active; i++) active[i] = 0;
        for (int64_t i = 0; i < all * most && out; i++) out[i] = NAN;
        gd__var_init(&var, o, o->ctx, wanted, count);
        var.share = &share;
        var.closure = &base;
        var.step = gd_optimizer_steps(o);
        sensitivity s = {.ctx = o->ctx, .var = &var, .n = gd__list_numel(wanted, count)};
        gd__aside_begin(o->ctx);
        if (objective->equal || objective->below)
            status = with_room(&s, o, converged, most, place, active, out);
        gd__aside_end(o->ctx);
        gd__share_clear(o->ctx, &share);
        gd__var_clear(&var);
        gd__free(o->ctx, place, ((size_t)all + 1) * sizeof *place);
    }
    gd__free(o->ctx, wanted, (size_t)o->count * sizeof *wanted);
    return status;
}
