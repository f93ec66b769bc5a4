/* Distances of points from a curve, both of which have errors: orthogonal distance regression (Boggs, Byrd & Schnabel 1987).
 *
 * A point x is measured with the standard deviations s.  In u = (x' - x) / s the nearest point of the curve F(x') = 0 is
 *
 *     min |u|^2, F = 0        or, where F has an error of its own of standard deviation 1,       min |u|^2 + F^2
 *
 * for each row separately, so that a fit over the parameters remains, and only the time grows with the rows.  With g, H the
 * derivatives of F by u, and l the multiplier (F itself where it has an error), both are stationary where u + l g = 0.
 *
 * The residual of the fit is the distance from the tangent at that point, c = 1 where F has an error, else 0:
 *
 *     (F - g.u) / sqrt(c + g.g)
 *
 * It has a sign, is smooth where the curve goes through the point, and a foot that is off by e changes it by e^2 only.  The feet are
 * found as numbers; then one Newton step from there is recorded with its history in the parameters.  That step is zero, but its
 * derivatives are those of the foot, to first order: so first and second derivatives of the distance are exact.  Its Jacobian is
 * dF/dp / sqrt(c + g.g), and the covariance from it the block of the parameters in that of all unknowns. */
#include "base/ctx.h"
#include "gradus/autograd.h"
#include "gradus/solve.h"
#include "tensor/tensor_internal.h"

#include <math.h>
#include <string.h>

#define COLUMNS  GD_DISTANCE_COLUMNS
#define PAIRS    (COLUMNS * (COLUMNS + 1) / 2)
#define LOOKS    80    /* at all rows, until every foot is found */
#define NEAR     1e-10 /* a step from which the next is rounding */
#define ENOUGH   1e-4  /* of what the slope promises */
#define HALVINGS 40

/* Derivatives of F by u; pairs j <= k of columns, row after row of the lower triangle. */
typedef struct looks {
    gd_tensor *f, *g[COLUMNS], *h[PAIRS];
} looks;

/* A row whose foot is searched. */
typedef struct foot {
    double u[COLUMNS], step[COLUMNS];
    double f, g[COLUMNS], h[PAIRS]; /* F and its derivatives at u */
    double l, next;                 /* multiplier at u, and where the step leads */
    double weight, loss;            /* of |F| beside |u|^2 / 2 where F must be 0; what is to fall */
    double slope, part;             /* of the loss along the step; how much of the step is tried */
    bool done;
} foot;

typedef struct search {
    gd_ctx *ctx;
    const gd_distance *d;
    int q;
    int64_t rows;
    foot *foot;     /* [rows] */
    double *column; /* [rows, 1 + q + pairs of q]: the last values, or a column in transfer */
} search;

static int pair(int j, int k) { return j >= k ? j * (j + 1) / 2 + k : k * (k + 1) / 2 + j; }
static int seen(const search *s) { return 1 + s->q + s->q * (s->q + 1) / 2; }

/* ---- evaluating the equation ---- */

/* d of / d by, with history; zeros where it does not depend on it. */
static gd_tensor *derivative(gd_tensor *of, gd_tensor *by)
{
    gd_tensor *out = NULL, *sum = gd_requires_grad(of) ? gd_sum(of, NULL, false) : NULL;
    if (!sum) return gd_error(by->head.ctx) ? NULL : gd_zeros_like(by);
    return gd_grad(sum, NULL, &by, 1, GD_CREATE_GRAPH, &out) ? NULL : out;
}

static gd_status check_value(const search *s, const gd_tensor *f)
{
    if (!f && gd_error(s->ctx)) return gd_error(s->ctx);
    if (!f) return gd_fail(s->ctx, GD_CALLBACK, "distances: the equation returned NULL");
    if (f->ndim == 1 && f->numel == s->rows && f->dtype == GD_F64) return GD_OK;
    return gd_fail(s->ctx, GD_SHAPE, "distances: the equation must give one f64 number for each of %lld rows",
                   (long long)s->rows);
}

/* F and its derivatives where the columns are u standard deviations off; u[j] are leaves. */
static gd_status look_at_curve(const search *s, gd_tensor *const *u, looks *out)
{
    const gd_distance *d = s->d;
    gd_tensor *x[COLUMNS];
    for (int j = 0; j < s->q; j++)
        if (!(x[j] = gd_add(d->x[j], gd_mul(u[j], d->sigma[j])))) return gd_error(s->ctx);
    out->f = d->equation(d->user, x);
    gd_status status = check_value(s, out->f);
    for (int j = 0; j < s->q && !status; j++) {
        if (!(out->g[j] = derivative(out->f, u[j]))) return gd_error(s->ctx);
        for (int k = 0; k <= j && !status; k++)
            if (!(out->h[pair(j, k)] = derivative(out->g[j], u[k]))) status = gd_error(s->ctx);
    }
    return status;
}

/* Leaves with u plus the fraction of the step that is tried. */
static gd_status make_leaves(search *s, gd_tensor **u)
{
    for (int j = 0; j < s->q; j++) {
        for (int64_t i = 0; i < s->rows; i++) {
            const foot *p = &s->foot[i];
            s->column[i] = p->u[j] + (p->done ? 0 : p->part * p->step[j]);
        }
        gd_tensor *t = gd_from_f64(s->ctx, GD_F64, 1, &s->rows, s->column);
        t = t ? gd_to_device(t, gd_tensor_device(s->d->x[j])) : NULL;
        if (!(u[j] = t ? gd_require_grad(t) : NULL)) return gd_error(s->ctx);
    }
    return GD_OK;
}

/* The values there, as numbers. */
static gd_status see(search *s)
{
    gd_tensor *u[COLUMNS];
    looks now;
    gd_scope_begin(s->ctx);
    gd_status status = make_leaves(s, u);
    if (!status) status = look_at_curve(s, u, &now);
    for (int k = 0; k < seen(s) && !status; k++)
        status = gd_read_f64(!k          ? now.f
                             : k <= s->q ? now.g[k - 1]
                                         : now.h[k - 1 - s->q],
                             s->column + k * s->rows, s->rows);
    gd_scope_end(s->ctx);
    return status;
}

/* ---- one row ---- */

static double dot(const double *a, const double *b, int q)
{
    double sum = 0;
    for (int j = 0; j < q; j++) sum += a[j] * b[j];
    return sum;
}

/* x = K^-1 x by the root of K, lower triangle; false where K is not positive definite. */
static bool root(double *k, int q)
{
    for (int i = 0; i < q; i++)
        for (int j = 0; j <= i; j++) {
            double sum = k[pair(i, j)];
            for (int m = 0; m < j; m++) sum -= k[pair(i, m)] * k[pair(j, m)];
            if (i == j && !(sum > 0)) return false;
            k[pair(i, j)] = i == j ? sqrt(sum) : sum / k[pair(j, j)];
        }
    return true;
}

static void solve(const double *k, int q, double *x)
{
    for (int i = 0; i < q; i++) {
        for (int j = 0; j < i; j++) x[i] -= k[pair(i, j)] * x[j];
        x[i] /= k[pair(i, i)];
    }
    for (int i = q; i-- > 0;) {
        for (int j = i + 1; j < q; j++) x[i] -= k[pair(j, i)] * x[j];
        x[i] /= k[pair(i, i)];
    }
}

/* Of g g^T in K: 1 where F has an error; else the step does not depend on it, and a value larger than l H makes K positive definite
 * where the curve bends away. */
static double stiffness(const foot *p, int q, bool implicit)
{
    double size = 0;
    if (!implicit) return 1;
    for (int k = 0; k < q * (q + 1) / 2; k++) size = hypot(size, p->h[k]);
    return (1 + fabs(p->l) * size) / dot(p->g, p->g, q);
}

/* Newton's step if the second derivatives allow it, else that of Gauss and Newton. */
static void aim(foot *p, int q, bool implicit)
{
    double k[PAIRS], w[COLUMNS], v[COLUMNS], along = stiffness(p, q, implicit);
    for (int bent = 1; bent >= 0; bent--) {
        for (int i = 0; i < q; i++)
            for (int j = 0; j <= i; j++)
                k[pair(i, j)] = (i == j) + along * p->g[i] * p->g[j] + (bent ? p->l * p->h[pair(i, j)] : 0);
        if (root(k, q)) break;
    }
    for (int j = 0; j < q; j++) v[j] = p->u[j] + p->l * p->g[j], w[j] = p->g[j];
    double change = 0;
    solve(k, q, v);
    if (implicit) {
        solve(k, q, w);
        change = (p->f - dot(p->g, v, q)) / dot(p->g, w, q);
        p->next = p->l + change - along * p->f;
    }
    double before[COLUMNS];
    for (int j = 0; j < q; j++) {
        before[j] = p->u[j] + (implicit ? 0 : p->f * p->g[j]);
        p->step[j] = -v[j] - change * w[j];
    }
    /* of |u|^2 / 2 + weight |F|, or of (|u|^2 + F^2) / 2 */
    if (implicit) p->weight = fmax(p->weight, 2 * fabs(p->next));
    p->slope = dot(before, p->step, q) - (implicit ? p->weight * fabs(p->f) : 0);
    p->part = 1;
}

static double loss_of(const foot *p, int q, bool implicit, const double *u, double f)
{
    return 0.5 * dot(u, u, q) + (implicit ? p->weight * fabs(f) : 0.5 * f * f);
}

/* Accepts the trial, or halves the step. */
static void advance(search *s, int64_t i, bool first)
{
    foot *p = &s->foot[i];
    const double *here = s->column + i;
    bool implicit = s->d->implicit;
    double u[COLUMNS], far = 0, size = 0;
    for (int j = 0; j < s->q; j++) {
        u[j] = p->u[j] + p->part * p->step[j];
        far = fmax(far, fabs(p->step[j]));
        size = fmax(size, fabs(u[j]));
    }
    double before = loss_of(p, s->q, implicit, p->u, p->f), loss = loss_of(p, s->q, implicit, u, here[0]);
    bool small = !first && far <= NEAR * (1 + size), fine = isfinite(loss);
    for (int k = 0; k < seen(s); k++) fine = fine && isfinite(here[k * s->rows]);
    if (!first && !(fine && (small || loss <= before + ENOUGH * p->part * p->slope))) {
        p->part /= 2;
        p->done = p->part < ldexp(1, -HALVINGS);
        return;
    }
    p->f = here[0];
    memcpy(p->u, u, sizeof u);
    for (int k = 1; k < seen(s); k++) *(k <= s->q ? &p->g[k - 1] : &p->h[k - 1 - s->q]) = here[k * s->rows];
    p->l = implicit ? p->next : p->f;
    p->done = small || !fine;
    if (!p->done) aim(p, s->q, implicit);
}

static gd_status find_feet(search *s)
{
    bool left = true;
    gd_status status = GD_OK;
    for (int i = 0; i < LOOKS && left && !status; i++) {
        status = see(s);
        left = false;
        for (int64_t row = 0; row < s->rows && !status; row++) {
            if (!s->foot[row].done) advance(s, row, i == 0);
            left = left || !s->foot[row].done;
        }
    }
    for (int64_t row = 0; row < s->rows; row++) s->foot[row].done = true; /* the nearest points found */
    return status;
}

/* ---- the distances, with history ---- */

/* Gauss's elimination, row by row of the table: b = K^-1 b for `count` right sides; K is overwritten. */
static void eliminate(gd_tensor **k, int q, gd_tensor *(*b)[COLUMNS], int count)
{
    for (int i = 0; i < q; i++)
        for (int j = i + 1; j < q; j++) {
            gd_tensor *by = gd_div(k[pair(j, i)], k[pair(i, i)]);
            for (int m = i + 1; m <= j; m++) k[pair(j, m)] = gd_sub(k[pair(j, m)], gd_mul(by, k[pair(m, i)]));
            for (int r = 0; r < count; r++) b[r][j] = gd_sub(b[r][j], gd_mul(by, b[r][i]));
        }
    for (int r = 0; r < count; r++)
        for (int i = q; i-- > 0;) {
            for (int j = i + 1; j < q; j++) b[r][i] = gd_sub(b[r][i], gd_mul(k[pair(j, i)], b[r][j]));
            b[r][i] = gd_div(b[r][i], k[pair(i, i)]);
        }
}

static gd_tensor *products(gd_tensor *const *a, gd_tensor *const *b, int q)
{
    gd_tensor *sum = gd_mul(a[0], b[0]);
    for (int j = 1; j < q; j++) sum = gd_add(sum, gd_mul(a[j], b[j]));
    return sum;
}

/* A number of each row, where the columns are. */
static gd_tensor *number_of(search *s, double (*of)(const foot *p, int q, bool implicit))
{
    for (int64_t i = 0; i < s->rows; i++) s->column[i] = of(&s->foot[i], s->q, s->d->implicit);
    gd_tensor *t = gd_from_f64(s->ctx, GD_F64, 1, &s->rows, s->column);
    return t ? gd_to_device(t, gd_tensor_device(s->d->x[0])) : NULL;
}

static double multiplier(const foot *p, int q, bool implicit)
{
    (void)q, (void)implicit;
    return p->l;
}

/* One Newton step from the feet, as a function of the parameters. */
static void record_step(search *s, gd_tensor *const *u, const looks *at, gd_tensor **step)
{
    bool implicit = s->d->implicit;
    int q = s->q;
    gd_tensor *k[PAIRS], *b[2][COLUMNS], *l = implicit ? number_of(s, multiplier) : at->f,
                                         *along = implicit ? number_of(s, stiffness) : NULL;
    for (int i = 0; i < q; i++) {
        for (int j = 0; j <= i; j++) {
            gd_tensor *square = gd_mul(at->g[i], at->g[j]);
            if (implicit) square = gd_mul(square, along);
            k[pair(i, j)] = gd_add(gd_mul(l, at->h[pair(i, j)]), square);
            if (i == j) k[pair(i, j)] = gd_add_scalar(k[pair(i, j)], 1);
        }
        b[0][i] = gd_add(u[i], gd_mul(l, at->g[i]));
        b[1][i] = at->g[i];
    }
    eliminate(k, q, b, implicit ? 2 : 1);
    gd_tensor *change = NULL;
    if (implicit) change = gd_div(gd_sub(at->f, products(at->g, b[0], q)), products(at->g, b[1], q));
    for (int j = 0; j < q; j++) {
        step[j] = gd_neg(b[0][j]);
        if (implicit) step[j] = gd_sub(step[j], gd_mul(change, b[1][j]));
    }
}

/* (F - g.u) / sqrt(c + g.g) where the step leads, by the derivatives here. */
static gd_tensor *measure(search *s)
{
    gd_tensor *u[COLUMNS], *step[COLUMNS], *g[COLUMNS], *bent[COLUMNS];
    looks at;
    int q = s->q;
    if (make_leaves(s, u) || look_at_curve(s, u, &at)) return NULL;
    record_step(s, u, &at, step);
    for (int i = 0; i < q; i++) {
        bent[i] = gd_mul(at.h[pair(i, 0)], step[0]);
        for (int j = 1; j < q; j++) bent[i] = gd_add(bent[i], gd_mul(at.h[pair(i, j)], step[j]));
        g[i] = gd_add(at.g[i], bent[i]);
    }
    /* F + g.d + d.H d / 2 - (g + H d).(u + d) */
    gd_tensor *value = gd_sub(gd_sub(at.f, products(g, u, q)), gd_mul_scalar(products(bent, step, q), 0.5));
    gd_tensor *square = products(g, g, q);
    if (!s->d->implicit) square = gd_add_scalar(square, 1);
    return gd_div(value, gd_sqrt(square));
}

static gd_status check_columns(gd_ctx *ctx, const gd_distance *d)
{
    if (d->count < 1 || d->count > COLUMNS)
        return gd_fail(ctx, GD_ARGUMENT, "distances: %d columns, there may be 1 to %d", d->count, COLUMNS);
    for (int j = 0; j < d->count; j++) {
        const gd_tensor *x = d->x[j], *sigma = d->sigma[j];
        if (!x || !sigma) return gd_fail(ctx, GD_ARGUMENT, "distances: column %d is NULL", j);
        if (x->ndim != 1 || x->numel != d->x[0]->numel || x->dtype != GD_F64)
            return gd_fail(ctx, GD_SHAPE,
                           "distances: columns are f64 vectors of one length, column %d is not", j);
        if (sigma->dtype != GD_F64 || (sigma->numel != 1 && (sigma->ndim != 1 || sigma->numel != x->numel)))
            return gd_fail(ctx, GD_SHAPE,
                           "distances: column %d: its standard deviations are not one f64 number per row", j);
    }
    return GD_OK;
}

gd_tensor *gd_distances(const gd_distance *d)
{
    gd_ctx *ctx = d && d->x && d->count > 0 ? gd_tensor_ctx(d->x[0]) : NULL;
    if (!ctx || !d->sigma || !d->equation || gd_error(ctx)) return NULL;
    if (check_columns(ctx, d)) return NULL;
    search s = {.ctx = ctx, .d = d, .q = d->count, .rows = gd_numel(d->x[0])};
    size_t feet = (size_t)s.rows * sizeof *s.foot, numbers = (size_t)(s.rows * seen(&s)) * sizeof *s.column;
    gd_tensor *out = NULL;
    bool recorded = gd_grad_enabled(ctx);
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    s.foot = gd__calloc(ctx, feet);
    s.column = gd__alloc(ctx, numbers);
    if (s.foot && s.column && !find_feet(&s)) out = measure(&s);
    gd__free(ctx, s.foot, feet);
    gd__free(ctx, s.column, numbers);
    if (out && !recorded) out = gd_detach(out);
    gd_enable_grad_end(ctx, previous);
    return gd__scope_leave(ctx, out);
}
