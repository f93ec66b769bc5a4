/* Downhill simplex (Nelder & Mead 1965) with coefficients that follow the dimension (Gao & Han 2012).
 *
 * n + 1 points, the lowest first.  With c the centre of all but the highest point w, a step tries c + (c - w); where that is the
 * lowest so far c + b (c - w), where it is no better than the second highest c + g (c - w) or c - g (c - w), and where these do
 * not help all points move towards the lowest, x_i = x_0 + d (x_i - x_0):
 *
 *     b = 1 + 2/n,  g = 3/4 - 1/(2n),  d = 1 - 1/n        (n = 1, and adaptive=false: 2, 1/2, 1/2)
 *
 * In high dimensions the classical coefficients flatten the simplex.  Points outside the bounds are moved onto them; elements whose
 * bounds are equal stay.  If the points lie within tol of each other by the sizes of the elements, or no loss differs, a new simplex is
 * put around the lowest, each time on the other side; after `restarts` of these that found nothing lower the link says stop.
 * Lower is by more than rounding, and at a point farther than a few tol from where the simplex was put: around a minimum of 0 every
 * simplex finds a smaller number.  If no loss of a simplex is a number, the next is twice as large, and the first 20 of these are not counted.
 *
 * From losses alone: any function of numbers will do.  State: the simplex and its losses; start, best, and where the simplex was put. */
#include "gradus/link/search.h"

#include <math.h>
#include <string.h>

static const gd_field fields[] = {
    GD_REAL("size", 0.05, 1e-12, 1e12,
            "of the first simplex along an element, by its value, at least 1/200 of 1"),
    GD_FLAG("adaptive", true, "coefficients that follow the dimension"),
    GD_REAL("tol", 1e-8, 0, INFINITY, "distance of the points, by the size of an element, that is none"),
    GD_INT("restarts", 2, 0, 1e9, "new simplices in a row that find nothing lower, before it stops"),
};

#define MOST_GROWN 0x1p20
#define FEW        10

typedef struct simplex {
    gd_search s;
    int64_t n, count; /* free elements, points */
    int64_t *element; /* [n] */
    double *x, *loss; /* [count, s.n], [count]; the lowest first */
    double *centre, *trial, *other, *room;
    double *placed;                /* [s.n], the lowest point then */
    double restarts, sign, lowest; /* in a row; the side of the next simplex; of the last one */
    double grown;                  /* by this, while no loss is a number */
} simplex;

static double *point(const simplex *p, int64_t i) { return p->x + i * p->s.n; }

static gd_status open_simplex(simplex *p, gd_link *link)
{
    gd_search *s = &p->s;
    p->element = gd_link_memory(link, ((size_t)s->n + 1) * sizeof *p->element);
    if (!p->element) return gd_error(gd_link_ctx(link));
    for (int64_t i = 0; i < s->n; i++)
        if (s->low[i] < s->high[i]) p->element[p->n++] = i;
    p->count = p->n + 1;
    p->x = gd_search_numbers(s, (p->count + 5) * (s->n + 1));
    if (!p->x) return gd_error(gd_link_ctx(link));
    p->loss = p->x + p->count * s->n;
    p->centre = p->loss + p->count;
    p->trial = p->centre + s->n;
    p->other = p->trial + s->n;
    p->room = p->other + s->n;
    p->placed = p->room + s->n;
    p->restarts = gd_link_kept(link, "restarts", 0);
    p->sign = gd_link_kept(link, "sign", 1);
    p->lowest = gd_link_kept(link, "lowest", INFINITY);
    p->grown = gd_link_kept(link, "grown", 1);
    return GD_OK;
}

static gd_status keep_simplex(simplex *p)
{
    gd_link *link = p->s.link;
    gd_status status = gd_search_keep(&p->s, "simplex", p->count * p->s.n, p->x);
    if (!status) status = gd_search_keep(&p->s, "losses", p->count, p->loss);
    if (!status) status = gd_search_keep(&p->s, "placed", p->s.n, p->placed);
    if (!status) status = gd_link_keep(link, "restarts", p->restarts);
    if (!status) status = gd_link_keep(link, "sign", p->sign);
    if (!status) status = gd_link_keep(link, "lowest", p->lowest);
    if (!status) status = gd_link_keep(link, "grown", p->grown);
    return status ? status : gd_var_set_attr(p->s.var, "restarts", p->restarts);
}

/* By losses; equal ones keep their order. */
static void sort(simplex *p)
{
    size_t bytes = (size_t)p->s.n * sizeof *p->x;
    for (int64_t i = 1; i < p->count; i++)
        for (int64_t k = i; k > 0 && p->loss[k] < p->loss[k - 1]; k--) {
            double loss = p->loss[k];
            p->loss[k] = p->loss[k - 1];
            p->loss[k - 1] = loss;
            memcpy(p->room, point(p, k), bytes);
            memcpy(point(p, k), point(p, k - 1), bytes);
            memcpy(point(p, k - 1), p->room, bytes);
        }
}

/* Around the lowest point, a step along each element, to the inside where a bound is near. */
static gd_status place(simplex *p)
{
    gd_search *s = &p->s;
    double size = gd_link_real(s->link, "size", NULL) * p->grown;
    memcpy(point(p, 0), s->best, (size_t)s->n * sizeof *s->best);
    memcpy(p->placed, s->best, (size_t)s->n * sizeof *s->best);
    p->loss[0] = s->best_loss;
    for (int64_t i = 0; i < p->n; i++) {
        int64_t k = p->element[i];
        double *x = point(p, i + 1), here = s->best[k], step = p->sign * size * (here != 0 ? here : 0.005);
        memcpy(x, s->best, (size_t)s->n * sizeof *x);
        if (here + step > s->high[k] || here + step < s->low[k]) step = -step;
        x[k] = fmin(fmax(here + step, s->low[k]), s->high[k]);
    }
    gd_status status = gd_search_evaluate(s, p->n, point(p, 1), p->loss + 1);
    p->lowest = p->loss[0];
    p->sign = -p->sign;
    sort(p);
    return status;
}

/* From the lowest point, by the sizes of its elements. */
static double distance(const simplex *p, const double *x)
{
    double most = 0;
    for (int64_t k = 0; k < p->s.n; k++) most = fmax(most, fabs(x[k] - p->x[k]) / fmax(1, fabs(p->x[k])));
    return most;
}

static bool is_one_point(const simplex *p)
{
    double tol = gd_link_real(p->s.link, "tol", NULL), most = 0;
    for (int64_t i = 1; i < p->count; i++) most = fmax(most, distance(p, point(p, i)));
    return most <= tol || p->loss[0] == p->loss[p->n];
}

/* Since the simplex was placed.  When its points are tol apart, the lowest is within a few tol of a minimum. */
static bool found_lower(const simplex *p)
{
    double gain = p->lowest - p->loss[0], tol = gd_link_real(p->s.link, "tol", NULL);
    return gain > 1e-12 * fmax(1e-12, fabs(p->loss[0])) && distance(p, p->placed) > FEW * tol;
}

/* c + t (c - w), on the bounds where it is outside. */
static gd_status try_at(simplex *p, double t, double *x, double *loss)
{
    const double *worst = point(p, p->n);
    for (int64_t k = 0; k < p->s.n; k++)
        x[k] = fmin(fmax(p->centre[k] + t * (p->centre[k] - worst[k]), p->s.low[k]), p->s.high[k]);
    return gd_search_evaluate(&p->s, 1, x, loss);
}

static void replace_worst(simplex *p, const double *x, double loss)
{
    memcpy(point(p, p->n), x, (size_t)p->s.n * sizeof *x);
    p->loss[p->n] = loss;
}

static gd_status shrink(simplex *p, double d)
{
    for (int64_t i = 1; i < p->count; i++)
        for (int64_t k = 0; k < p->s.n; k++) point(p, i)[k] = p->x[k] + d * (point(p, i)[k] - p->x[k]);
    return gd_search_evaluate(&p->s, p->n, point(p, 1), p->loss + 1);
}

static gd_status iterate(simplex *p)
{
    double n = (double)p->n, reflected = 0, other = 0;
    bool follows = gd_link_flag(p->s.link, "adaptive") && p->n > 1;
    double b = follows ? 1 + 2 / n : 2, g = follows ? 0.75 - 0.5 / n : 0.5, d = follows ? 1 - 1 / n : 0.5;
    memset(p->centre, 0, (size_t)p->s.n * sizeof *p->centre);
    for (int64_t i = 0; i < p->n; i++)
        for (int64_t k = 0; k < p->s.n; k++) p->centre[k] += point(p, i)[k] / n;
    gd_status status = try_at(p, 1, p->trial, &reflected);
    if (status) return status;
    if (reflected < p->loss[0]) {
        status = try_at(p, b, p->other, &other);
        if (!status) replace_worst(p, other < reflected ? p->other : p->trial, fmin(other, reflected));
    } else if (reflected < p->loss[p->n - 1])
        replace_worst(p, p->trial, reflected);
    else {
        bool outside = reflected < p->loss[p->n];
        status = try_at(p, outside ? g : -g, p->other, &other);
        if (!status && (outside ? other <= reflected : other < p->loss[p->n]))
            replace_worst(p, p->other, other);
        else if (!status)
            status = shrink(p, d);
    }
    sort(p);
    return status;
}

static gd_status move_on(simplex *p)
{
    gd_search *s = &p->s;
    bool known = !s->first && gd_search_kept(s, "simplex", p->count * s->n, p->x) &&
                 gd_search_kept(s, "losses", p->count, p->loss) &&
                 gd_search_kept(s, "placed", s->n, p->placed);
    if (!known) return place(p);
    if (p->loss[0] < INFINITY)
        p->grown = 1;
    else if (p->grown < MOST_GROWN) {
        p->grown *= 2;
        return place(p);
    }
    if (!is_one_point(p)) return iterate(p);
    p->restarts = found_lower(p) ? 0 : p->restarts + 1;
    return p->restarts > gd_link_real(s->link, "restarts", NULL) ? GD_OK : place(p);
}

static gd_status nelder_mead_step(gd_link *link, gd_var *var)
{
    simplex p = {0};
    gd_status status = gd_search_begin(&p.s, link, var);
    if (!status && !p.s.n) return gd_var_set_zero_update(var);
    if (!status) status = gd_search_here(&p.s);
    if (!status) status = open_simplex(&p, link);
    if (!status && !p.n) return gd_var_set_zero_update(var);
    double most = gd_link_real(link, "restarts", NULL);
    if (!status && p.restarts <= most) status = move_on(&p);
    if (!status) status = keep_simplex(&p);
    if (!status && p.restarts > most) gd_var_terminate(var, true);
    return status ? status : gd_search_end(&p.s);
}

static int64_t nelder_mead_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t n = 0;
    (void)link;
    for (int i = 0; i < count; i++) n += gd_numel(params[i]);
    return n ? (3 * n + (n + 1) * (n + 1)) * (int64_t)sizeof(double) : 0;
}

GD_LINK(zeroth_order, nelder_mead,
    .spread = GD_SPREAD_WHOLE,
    .summary = "a simplex that moves downhill, from losses alone",
    .formula = "w = c + b (c - w);  u = p - best",
    .paper = "Gao & Han 2012, Implementing the Nelder-Mead simplex algorithm with adaptive parameters",
    .cost = "a value or two per step, sometimes one for each element, no gradients; elements + 1 points",
    .example = "box(-5, 5) | nelder_mead",
    GD_FIELDS(fields),
    .step = nelder_mead_step,
    .state_bytes = nelder_mead_bytes,
    .traits.needs_closure = true);
