/* Differential evolution (Storn & Price 1997): a population whose differences are the trial steps.
 *
 * The first step spreads the population evenly between the bounds (around the start), the start among it.  Every further step is a
 * generation: for each member x_i, with a, b, c other members and F drawn between low and high,
 *
 *     v = best + F (a - b), or a + F (b - c), or x_i + F (best - x_i) + F (a - b)
 *
 * takes the place of a fraction `crossover` of the elements of x_i, one at least; where the loss is not higher it takes the place of
 * x_i.  A trial outside the bounds is drawn again, a few times, then reflected.  If the members lie within tol of each other, by the
 * sizes of the elements, or their losses do not differ, the population is spread again; after `restarts` of that the link says stop.
 *
 * State: population and its losses; start and best. */
#include "gradus/link/search.h"

#include <math.h>
#include <string.h>

static const gd_field fields[] = {
    GD_INT_OR_NONE("population", 5, 1e9, "members; none: 10 for each element, from 20 to 300"),
    GD_CHOICE("strategy", "best1bin", "best1bin|rand1bin|current_to_best1bin", "the strategy for trials"),
    GD_REAL("low", 0.5, 0, 2, "one end of the range of factors of a difference"),
    GD_REAL("high", 1, 0, 2, "the other end"),
    GD_REAL("crossover", 0.7, 0, 1, "fraction of elements that are new in a trial"),
    GD_REAL("tol", 1e-6, 0, INFINITY, "distance of members, by the size of an element, that is none"),
    GD_INT("restarts", 5, 0, 1e9, "populations after the first"),
    GD_SEED("of its own random numbers; none: those of the context"),
};

#define REDRAWS 3     /* of a trial outside the bounds */
#define SAME    1e-12 /* losses that differ by less, by their size, are equal */
#define DRAWS \
    5 /* numbers of a trial besides one per element: three members, F, and the element that always changes */

typedef struct population {
    gd_search s;
    int64_t n, count, lowest;
    double *x, *loss, *trial, *found; /* [count, n], [count] */
    double restarts;
} population;

static int64_t count_of(const gd_link *link, int64_t n)
{
    if (!gd_link_is_none(link, "population")) return (int64_t)gd_link_real(link, "population", NULL);
    return n < 2 ? 20 : n > 30 ? 300 : 10 * n;
}

static gd_status open_population(population *p, gd_link *link)
{
    gd_search *s = &p->s;
    gd_tensor *kept = gd_link_global_tensor(link, "losses");
    p->n = s->n;
    /* as many as it began with, whatever the setting says now */
    p->count = kept && !s->first ? gd_numel(kept) : count_of(link, s->n);
    p->restarts = gd_link_kept(link, "restarts", 0);
    p->x = gd_search_numbers(s, 2 * p->count * (p->n + 1));
    if (!p->x) return gd_error(gd_link_ctx(link));
    p->trial = p->x + p->count * p->n;
    p->loss = p->trial + p->count * p->n;
    p->found = p->loss + p->count;
    return GD_OK;
}

static void find_lowest(population *p)
{
    for (int64_t i = p->lowest = 0; i < p->count; i++)
        if (p->loss[i] < p->loss[p->lowest]) p->lowest = i;
}

static gd_status keep_count(population *p)
{
    gd_status status = gd_link_keep(p->s.link, "restarts", p->restarts);
    return status ? status : gd_var_set_attr(p->s.var, "restarts", p->restarts);
}

static gd_status keep_population(population *p)
{
    gd_status status = gd_search_keep(&p->s, "population", p->count * p->n, p->x);
    if (!status) status = gd_search_keep(&p->s, "losses", p->count, p->loss);
    return status ? status : keep_count(p);
}

/* with_start: the first member is at the parameters, where the loss is known. */
static gd_status populate(population *p, bool with_start)
{
    int64_t from = with_start ? 1 : 0;
    gd_status status = gd_search_spread(&p->s, p->count, p->x);
    if (status) return status;
    if (with_start) {
        memcpy(p->x, p->s.x, (size_t)p->n * sizeof *p->x);
        double here = gd_var_loss_value(p->s.var, false);
        p->loss[0] = isfinite(here) ? here : INFINITY;
    }
    return gd_search_evaluate(&p->s, p->count - from, p->x + from * p->n, p->loss + from);
}

/* ---- trials ---- */

/* A member different from those given. */
static int64_t member(const population *p, double draw, const int64_t *but, int count)
{
    int64_t k = (int64_t)(draw * (double)(p->count - count));
    int64_t sorted[4];
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > but[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = but[i];
    }
    for (int i = 0; i < count; i++) k += k >= sorted[i];
    return k < p->count ? k : p->count - 1;
}

/* True where it is inside the bounds.  draw: DRAWS and n numbers. */
static bool make_trial(population *p, int64_t i, const double *draw, double *out)
{
    gd_link *link = p->s.link;
    int64_t n = p->n, of[4] = {i, 0, 0, 0}, always = (int64_t)(draw[4] * (double)n);
    double low = gd_link_real(link, "low", NULL), high = gd_link_real(link, "high", NULL);
    double f = low + (high - low) * draw[3], crossover = gd_link_real(link, "crossover", NULL);
    bool inside = true, random = gd_link_is(link, "strategy", "rand1bin"),
         best = gd_link_is(link, "strategy", "best1bin");
    for (int k = 1; k < 4; k++) of[k] = member(p, draw[k - 1], of, k);
    const double *x = p->x + i * n, *a = p->x + of[1] * n, *b = p->x + of[2] * n, *c = p->x + of[3] * n,
                 *lowest = p->x + p->lowest * n;
    for (int64_t j = 0; j < n; j++) {
        double v = random ? a[j] + f * (b[j] - c[j])
                   : best ? lowest[j] + f * (a[j] - b[j])
                          : x[j] + f * (lowest[j] - x[j]) + f * (a[j] - b[j]);
        out[j] = draw[DRAWS + j] < crossover || j == always ? v : x[j];
        inside = inside && out[j] >= p->s.low[j] && out[j] <= p->s.high[j];
    }
    return inside;
}

static gd_status make_trials(population *p)
{
    int64_t n = p->n, each = DRAWS + n;
    double *draw = gd_search_numbers(&p->s, p->count * each);
    gd_status status = draw ? gd_search_draw(&p->s, GD_RANDOM_UNIFORM, p->count * each, draw)
                            : gd_error(gd_link_ctx(p->s.link));
    for (int64_t i = 0; i < p->count && !status; i++) {
        double *out = p->trial + i * n, *own = draw + i * each;
        bool inside = make_trial(p, i, own, out);
        for (int k = 0; k < REDRAWS && !inside && !status; k++) {
            status = gd_search_draw(&p->s, GD_RANDOM_UNIFORM, each, own);
            inside = make_trial(p, i, own, out);
        }
        for (int64_t j = 0; j < n && !inside; j++) out[j] = gd_search_reflect(&p->s, j, out[j]);
    }
    return status;
}

/* ---- generations ---- */

static bool is_one_point(const population *p)
{
    double tol = gd_link_real(p->s.link, "tol", NULL), low = INFINITY, high = -INFINITY;
    bool near = true;
    for (int64_t j = 0; j < p->n && near; j++) {
        double from = INFINITY, to = -INFINITY;
        for (int64_t i = 0; i < p->count; i++) {
            from = fmin(from, p->x[i * p->n + j]);
            to = fmax(to, p->x[i * p->n + j]);
        }
        near = to - from <= tol * gd_search_scale(&p->s, j);
    }
    for (int64_t i = 0; i < p->count; i++) {
        low = fmin(low, p->loss[i]);
        high = fmax(high, p->loss[i]);
    }
    return near || low == high || high - low <= SAME * fmax(fabs(low), fabs(high));
}

static gd_status evolve(population *p)
{
    gd_status status = make_trials(p);
    if (!status) status = gd_search_evaluate(&p->s, p->count, p->trial, p->found);
    for (int64_t i = 0; i < p->count && !status; i++) {
        if (!(p->found[i] <= p->loss[i])) continue;
        memcpy(p->x + i * p->n, p->trial + i * p->n, (size_t)p->n * sizeof *p->x);
        p->loss[i] = p->found[i];
    }
    return status;
}

static gd_status generation(population *p)
{
    gd_search *s = &p->s;
    bool known = !s->first && gd_search_kept(s, "population", p->count * p->n, p->x) &&
                 gd_search_kept(s, "losses", p->count, p->loss);
    find_lowest(p);
    bool again = known && is_one_point(p);
    if (again) p->restarts++;
    if (p->restarts > gd_link_real(s->link, "restarts", NULL)) return keep_count(p);
    gd_status status = known && !again ? evolve(p) : populate(p, !known);
    return status ? status : keep_population(p);
}

static gd_status differential_evolution_step(gd_link *link, gd_var *var)
{
    population p = {0};
    gd_status status = gd_search_begin(&p.s, link, var);
    if (!status && !p.s.n) return gd_var_set_zero_update(var);
    if (!status) status = gd_search_here(&p.s);
    if (!status) status = open_population(&p, link);
    double most = gd_link_real(link, "restarts", NULL);
    if (!status && p.restarts <= most) status = generation(&p);
    if (!status && p.restarts > most) gd_var_terminate(var, true);
    return status ? status : gd_search_end(&p.s);
}

static int64_t differential_evolution_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t n = 0;
    for (int i = 0; i < count; i++) n += gd_numel(params[i]);
    return n ? (2 * n + count_of(link, n) * (n + 1)) * (int64_t)sizeof(double) : 0;
}

GD_LINK(global_search, differential_evolution,
    .spread = GD_SPREAD_WHOLE,
    .summary = "a population of points whose differences are the steps it tries, from losses alone",
    .formula = "v = best + F (a - b) in some elements of x_i;  x_i = v where f(v) <= f(x_i);  u = p - best",
    .paper =
        "Storn & Price 1997, Differential evolution: a simple and efficient heuristic for global optimization over continuous spaces",
    .cost = "a value for each of the population per step, no gradients; the population",
    .example = "box(-5, 5) | differential_evolution",
    GD_FIELDS(fields),
    .step = differential_evolution_step,
    .state_bytes = differential_evolution_bytes,
    .traits.needs_closure = true);
