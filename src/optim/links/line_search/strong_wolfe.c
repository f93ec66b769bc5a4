/* Line search for the strong Wolfe conditions (Nocedal & Wright 2006, algorithms 3.5 and 3.6):
 *
 *     f(p - a u) <= f(p) + c1 a phi'(0)        enough decrease
 *     |phi'(a)|  <= c2 |phi'(0)|               slope small enough
 *
 * Steps grow by extrapolation until an interval with a good step in it is known; then it is narrowed by interpolation.
 * A trial that is not finite bounds the interval from above.  The extrapolated step is between 1.01 and 10 times the
 * last; an interpolated one that twice comes near an end is moved a tenth into the interval.
 *
 * Outcome: with no acceptable step within maxiter + maxzoom trials (non-finite ones do not count) the update is zero, or
 * with fallback the lowest point seen.  adaptive: then the next search starts at half the step.  At a_max enough decrease
 * is enough, and so it is before points where f is not finite.  An update that does not point downhill is not searched, unless plus_minus (its
 * opposite is searched) or descent (a direction that points downhill is, line.h).
 *
 * State: scale (of the first step), previous value, slope and step (for a_init). */
#include "gradus/link/line.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const gd_field fields[] = {
    GD_REAL("c1", 1e-4, 0, 1, "share of the promised decrease to reach"),
    GD_REAL("c2", 0.9, 0, 1, "share of the slope to keep at most; 0.1 for conjugate gradients"),
    GD_CHOICE("a_init", "fixed", "fixed|previous|first-order|quadratic|quadratic-clip",
              "how the first step is chosen"),
    GD_REAL("a_max", 1e12, 0, INFINITY, "longest step"),
    GD_REAL("init_value", 1, 0, INFINITY, "first step, where a_init gives none"),
    GD_INT("maxiter", 25, 1, 1e6, "trials of the first phase"),
    GD_INT("maxzoom", 10, 0, 1e6, "trials of the second phase"),
    GD_INT_OR_NONE("maxeval", 1, 1e9, "evaluations in all"),
    GD_REAL("tol_change", 1e-9, 0, INFINITY, "narrowest interval"),
    GD_CHOICE("interpolation", "cubic", "cubic|quadratic|bisection|polynomial|polynomial2",
              "how trials are chosen"),
    GD_FLAG("adaptive", true, "halve the first step after a failure"),
    GD_FLAG("fallback", false, "without an acceptable step take the lowest point seen"),
    GD_FLAG("plus_minus", false, "search the other way where the update points uphill"),
    GD_LINE_DESCENT,
};

#define MAX_POINTS     6  /* that polynomials go through */
#define MAX_NOT_FINITE 60 /* trials that are not finite */

typedef struct search {
    gd_line *line;
    double c1, c2, a_max, tol, sign; /* sign -1: steps are negative */
    int maxiter, maxzoom, maxeval, not_finite;
    char interpolation;         /* c, q, b, p or P */
    gd_trial point[MAX_POINTS]; /* the latest trials, for polynomials */
    int points;
    double accepted;
} search;

/* ---- where to try next ---- */

static double clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* Minimiser of the cubic through values and slopes at two points, l left of r; NAN if there is none. */
#define CUBIC(name, T, root)                                                    \
    static T name(T la, T lf, T ls, T ra, T rf, T rs)                           \
    {                                                                           \
        T d1 = ls + rs - 3 * (lf - rf) / (la - ra), square = d1 * d1 - ls * rs; \
        T d2 = square >= 0 ? root(square) : (T)NAN;                             \
        return ra - (ra - la) * ((rs + d2 - d1) / (rs - ls + 2 * d2));          \
    }
CUBIC(cubic_wide, double, sqrt)
CUBIC(cubic_short, float, sqrtf)

/* Values so different that 24 bits of them suffice. */
static bool far_apart(const gd_trial *l, const gd_trial *r)
{
    double most = fmax(fabs(l->f), fabs(r->f)), size = fmax(fabs(l->slope), fabs(r->slope));
    return fabs(l->f - r->f) > 1e-4 * most && most < FLT_MAX && size < FLT_MAX && fmin(size, most) > FLT_MIN;
}

/* To f32 and back.  volatile: gcc 12 drops the rounding when it vectorises a pair of these. */
static double in_f32(double x)
{
    volatile float narrow = (float)x;
    return (double)narrow;
}

/* The runs that searches are compared with (tests/golden) hold trials in f32, but not the point where the search began, and compute
 * in the wider of the two. This search does the same where it does not affect the result. */
static double cubic(const gd_trial *l, const gd_trial *r)
{
    if (l->a > r->a) return cubic(r, l);
    if (!far_apart(l, r)) return cubic_wide(l->a, l->f, l->slope, r->a, r->f, r->slope);
    if (l->a > 0)
        return (double)cubic_short((float)l->a, (float)l->f, (float)l->slope, (float)r->a, (float)r->f,
                                   (float)r->slope);
    return cubic_wide(l->a, l->f, l->slope, in_f32(r->a), in_f32(r->f), in_f32(r->slope));
}

/* Minimiser of the parabola through value and slope at one point and the value at a second point; INFINITY if it has none. */
static double quadratic(const gd_trial *l, const gd_trial *r)
{
    double h = r->a - l->a, curvature = r->f - l->f - l->slope * h;
    return curvature > 0 ? l->a - l->slope * h * h / (2 * curvature) : copysign(INFINITY, h);
}

/* Derivative at x of the polynomial with the given divided differences over doubled nodes. */
static double slope_at(const double *node, const double *coef, int count, double x)
{
    double value = coef[count - 1], slope = 0;
    for (int i = count - 2; i >= 0; i--) {
        slope = slope * (x - node[i]) + value;
        value = value * (x - node[i]) + coef[i];
    }
    return slope;
}

/* Hermite interpolation through the latest `points` trials, minimised in [low, high]; NAN if its slope has no zero there
 * that it crosses upwards. */
static double polynomial(const search *s, int points, double low, double high)
{
    double node[2 * MAX_POINTS] = {0}, table[2 * MAX_POINTS] = {0};
    int n = 2 * points;
    const gd_trial *t = s->point + s->points - points;
    for (int i = 0; i < n; i++) {
        node[i] = t[i / 2].a;
        table[i] = t[i / 2].f;
    }
    for (int order = 1; order < n; order++)
        for (int i = n - 1; i >= order; i--) {
            double h = node[i] - node[i - order];
            table[i] = h == 0 ? t[i / 2].slope : (table[i] - table[i - 1]) / h;
        }
    double best = NAN, from = slope_at(node, table, n, low);
    for (int k = 1; k <= 64 && isnan(best); k++) {
        double a = low + (high - low) * (k - 1) / 64, b = low + (high - low) * k / 64,
               to = slope_at(node, table, n, b);
        if (from < 0 && to >= 0) {
            for (int i = 0; i < 60; i++) {
                double middle = a + (b - a) / 2;
                if (slope_at(node, table, n, middle) < 0)
                    a = middle;
                else
                    b = middle;
            }
            best = b;
        }
        from = to;
    }
    return best;
}

/* The model's minimiser for the interval between two trials, kept in [low, high]. */
static double model(const search *s, const gd_trial *l, const gd_trial *r, double low, double high)
{
    double x = NAN, middle = low + (high - low) / 2;
    if (!isfinite(l->f) || !isfinite(r->f)) return middle;
    switch (s->interpolation) {
    case 'b': return middle;
    case 'q': x = quadratic(l, r); break;
    case 'p': x = polynomial(s, s->points, low, high); break;
    case 'P':
        for (int k = s->points; k > 1 && isnan(x); k--) x = polynomial(s, k, low, high);
        break;
    default: break;
    }
    if (isnan(x)) x = cubic(l, r);
    return isnan(x) ? middle : clamp(x, low, high);
}

/* Beyond b, the latest of two trials. */
static double extrapolate(const search *s, const gd_trial *a, const gd_trial *b)
{
    double low = b->a + 0.01 * (b->a - a->a), high = 10 * b->a;
    if (s->interpolation == 'b') return fmin(2 * b->a, s->a_max);
    return fmin(model(s, a, b, low, high), s->a_max);
}

/* Between two trials; *near remembers that the last one came near an end. */
static double interpolate(const search *s, const gd_trial *lo, const gd_trial *hi, bool *near)
{
    double low = fmin(lo->a, hi->a), high = fmax(lo->a, hi->a), x = model(s, lo, hi, low, high),
           tenth = 0.1 * (high - low);
    if (fmin(high - x, x - low) >= tenth) {
        *near = false;
        return x;
    }
    if (!*near && x > low && x < high) {
        *near = true;
        return x;
    }
    *near = false;
    return high - x < x - low ? high - tenth : low + tenth;
}

/* ---- the two phases ---- */

static gd_status try_step(search *s, double a, gd_trial *t)
{
    gd_status status = gd_line_try(s->line, s->sign * a, t);
    t->a = a;
    t->slope *= s->sign;
    if (status || !isfinite(t->f)) {
        s->not_finite++;
        return status;
    }
    if (s->points == MAX_POINTS) memmove(s->point, s->point + 1, (size_t)--s->points * sizeof *s->point);
    s->point[s->points++] = *t;
    return status;
}

static bool enough(const search *s)
{
    return s->line->evals >= s->maxeval || s->not_finite >= MAX_NOT_FINITE;
}

/* Lower by a measurable amount, and flatter: if the decrease is below the rounding of f, the slope decides
 * (approximate Wolfe conditions, Hager & Zhang 2005). */
static bool as_low(const search *s, const gd_trial *t, const gd_trial *zero)
{
    return isfinite(t->f) && t->f <= zero->f + s->line->noise && t->slope <= (2 * s->c1 - 1) * zero->slope;
}

/* Not infinite, and low enough. */
static bool decreases(const search *s, const gd_trial *t, const gd_trial *zero)
{
    return isfinite(t->f) && t->f <= zero->f + s->c1 * t->a * zero->slope;
}

static bool flat(const search *s, const gd_trial *t, const gd_trial *zero)
{
    return fabs(t->slope) <= -s->c2 * zero->slope;
}

/* lo is the lowest acceptable trial so far; a good step is between it and hi. */
static gd_status narrow(search *s, const gd_trial *zero, gd_trial lo, gd_trial hi)
{
    bool near = false;
    gd_status status = GD_OK;
    for (int i = 0; i < s->maxzoom && !enough(s) && fabs(hi.a - lo.a) >= s->tol;) {
        gd_trial t;
        status = try_step(s, interpolate(s, &lo, &hi, &near), &t);
        if (status) return status;
        i += isfinite(t.f);
        bool lower = decreases(s, &t, zero) && t.f < lo.f;
        if (flat(s, &t, zero) && (lower || as_low(s, &t, zero))) {
            s->accepted = t.a;
            return GD_OK;
        }
        if (!lower) {
            hi = t;
            continue;
        }
        if (t.slope * (hi.a - lo.a) >= 0) hi = lo;
        lo = t;
    }
    /* towards the end of its domain f gets steeper and steeper (log, towards 0): as at a_max, enough decrease suffices */
    if (!isfinite(hi.f)) s->accepted = lo.a;
    return GD_OK;
}

static gd_status bracket(search *s, const gd_trial *zero, double a)
{
    gd_trial before = *zero, t;
    for (int i = 0; i < s->maxiter && !enough(s); i++) {
        gd_status status = try_step(s, a, &t);
        if (status) return status;
        bool lower = decreases(s, &t, zero) && (!i || t.f < before.f);
        if (flat(s, &t, zero) && (lower || as_low(s, &t, zero))) {
            s->accepted = t.a;
            return GD_OK;
        }
        if (!lower) return narrow(s, zero, before, t);
        if (t.slope >= 0) return narrow(s, zero, t, before);
        if (t.a >= s->a_max) {
            s->accepted = t.a;
            return GD_OK;
        }
        a = extrapolate(s, &before, &t);
        before = t;
    }
    return GD_OK;
}

/* ---- the step ---- */

/* The first trial (Nocedal & Wright 2006, 3.5). */
static double first_step(gd_link *link, const gd_trial *zero, double scale)
{
    double init = gd_link_real(link, "init_value", NULL), a = NAN;
    double step = gd_link_is(link, "a_init", "fixed") ? 0 : gd_link_kept(link, "previous_step", 0);
    if (step > 0) {
        double change = 2 * (zero->f - gd_link_kept(link, "previous_value", NAN)) / zero->slope;
        if (gd_link_is(link, "a_init", "previous")) a = step;
        if (gd_link_is(link, "a_init", "first-order"))
            a = step * gd_link_kept(link, "previous_slope", NAN) / zero->slope;
        if (gd_link_is(link, "a_init", "quadratic")) a = change;
        if (gd_link_is(link, "a_init", "quadratic-clip")) a = fmin(1, 1.01 * change);
    }
    return (isfinite(a) && a > 0 ? a : init) * scale;
}

static search settings_of(const gd_link *link)
{
    const gd_setting *most = gd_link_get(link, "maxeval", NULL);
    const char *how = gd_link_get(link, "interpolation", NULL)->string;
    return (search){.c1 = gd_link_real(link, "c1", NULL),
                    .c2 = gd_link_real(link, "c2", NULL),
                    .a_max = gd_link_real(link, "a_max", NULL),
                    .tol = gd_link_real(link, "tol_change", NULL),
                    .maxiter = (int)gd_link_real(link, "maxiter", NULL),
                    .maxzoom = (int)gd_link_real(link, "maxzoom", NULL),
                    .maxeval = most->kind == GD_SET_REAL ? (int)fmin(most->real, 1e9) : 1000000000,
                    .interpolation = !strcmp(how, "polynomial2") ? 'P' : *how,
                    .sign = 1};
}

static gd_status remember(gd_link *link, const gd_trial *zero, double step)
{
    gd_status status = gd_link_keep(link, "previous_step", step);
    if (!status) status = gd_link_keep(link, "previous_value", zero->f);
    return status ? status : gd_link_keep(link, "previous_slope", zero->slope);
}

static gd_status strong_wolfe_step(gd_link *link, gd_var *var)
{
    search s = settings_of(link);
    if (!(s.line = gd_line_begin(link, var))) return gd_error(gd_var_ctx(var));
    gd_status status = GD_OK;
    if (s.line->slope > 0 && gd_link_flag(link, "plus_minus"))
        s.sign = -1;
    else if (gd_link_flag(link, "descent"))
        status = gd_line_descend(s.line);
    s.a_max = fmin(s.a_max, s.line->most);
    gd_trial zero = {.f = s.line->value, .slope = s.sign * s.line->slope};
    double scale = gd_link_kept(link, "scale", 1);
    if (!status && isfinite(zero.f) && isfinite(zero.slope) && zero.slope < 0) {
        s.point[s.points++] = zero;
        status = bracket(&s, &zero, fmin(first_step(link, &zero, scale), s.a_max));
        double lowest = s.sign * s.line->best.a;
        if (!status && s.accepted == 0 && gd_link_flag(link, "fallback") && lowest > 0) s.accepted = lowest;
        if (!status) status = remember(link, &zero, s.accepted);
    }
    bool halve = s.accepted == 0 && gd_link_flag(link, "adaptive");
    if (!status) status = gd_link_keep(link, "scale", halve ? scale / 2 : 1);
    return gd_line_end(s.line, s.sign * s.accepted, status);
}

GD_LINK(line_search, strong_wolfe,
    .spread = GD_SPREAD_VECTOR,
    .summary = "finds a step that satisfies the strong Wolfe conditions",
    .formula = "a u with f(p - a u) <= f(p) - c1 a <g, u> and |<g(p - a u), u>| <= c2 |<g, u>|",
    .paper = "Nocedal & Wright, Numerical Optimization, 2nd ed. 2006, algorithms 3.5 and 3.6",
    .cost = "1 evaluation with gradient per trial step, mostly one or two per step; a copy of the parameters",
    .example = "lbfgs | strong_wolfe",
    GD_FIELDS(fields),
    .step = strong_wolfe_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);
