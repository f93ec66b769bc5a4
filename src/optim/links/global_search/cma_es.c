/* CMA-ES: evolution strategy with covariance matrix adaptation and restarts (Hansen & Ostermeier 2001; Hansen 2016; Auger & Hansen 2005).
 *
 * A step is a generation: lambda points x_k = m + sigma s y_k, y_k normal with covariance C, s the sizes of the elements (the distance
 * of two bounds, else max(1, |start|)), are evaluated and sorted, y_1 the lowest.  With weights w_k ~ log(mu + 1/2) - log k of the
 * better half, 1 in all, and mu_w = 1 / sum w_k^2:
 *
 *     d = sum w_k y_k,  m += sigma s d
 *     p_s = (1 - c_s) p_s + sqrt(c_s (2 - c_s) mu_w) C^-1/2 d,  sigma *= exp(c_s / d_s (|p_s| / E|N(0, I)| - 1))
 *     p_c = (1 - c_c) p_c + h sqrt(c_c (2 - c_c) mu_w) d
 *     C = (1 - c_1 - c_mu) C + c_1 (p_c p_c' + (1 - h) c_c (2 - c_c) C) + c_mu sum w_k y_k y_k'
 *
 * A point outside the bounds is drawn again, a few times, then reflected.  A run ends when losses or points no longer differ, or C is
 * numerically singular; the next begins anywhere between the bounds (around the start) with `growth` times as many points
 * (IPOP).  A run that ended above its lowest point is followed by one from there, with a tenth of sigma; this is not a restart.  After
 * `restarts` of them the link says stop.
 *
 * State: mean, both paths, C, its eigenvectors and roots of eigenvalues; start and best; numbers of the run. */
#include "gradus/link/matrices.h"
#include "gradus/link/search.h"

#include <math.h>
#include <string.h>

static const gd_field fields[] = {
    GD_REAL("sigma", 0.3, 1e-300, 1e300, "first standard deviation, by the size of an element"),
    GD_INT_OR_NONE("population", 4, 1e9, "points of the first run; none: 4 + 3 log n"),
    GD_INT("restarts", 5, 0, 1e9, "runs after the first"),
    GD_REAL("growth", 2, 1, 1e6, "of the population from run to run"),
    GD_SEED("of its own random numbers; none: those of the context"),
};

#define REDRAWS   10    /* of a point outside the bounds */
#define SAME      1e-9  /* losses that differ by less, by their size, are equal */
#define TINY      1e-11 /* a deviation, relative to the size of the element, that counts as 0 */
#define CONDITION 1e14  /* condition number of a matrix that is no longer usable */

typedef struct run {
    gd_search s;
    int64_t n, lambda, mu;
    double *mean, *path, *path_c, *c, *basis,
        *axis;                         /* basis: eigenvectors in columns; axis: roots of eigenvalues */
    double *weight, *y, *point, *loss; /* y, point: [lambda, n] */
    int64_t *order;
    double sigma, generation, restarts, still, level; /* level: lowest loss of the last generation */
    double seen;                                      /* the lowest point so far is of this run */
    double mu_w, c_s, d_s, c_c, c_1, c_mu, length;
} run;

/* ---- the numbers of a run ---- */

static void set_rates(run *r)
{
    double n = (double)r->n, sum = 0, squares = 0;
    for (int64_t k = 0; k < r->mu; k++) sum += r->weight[k] = log((double)r->mu + 0.5) - log((double)k + 1);
    for (int64_t k = 0; k < r->mu; k++) {
        r->weight[k] /= sum;
        squares += r->weight[k] * r->weight[k];
    }
    r->mu_w = 1 / squares;
    r->c_s = (r->mu_w + 2) / (n + r->mu_w + 5);
    r->d_s = 1 + 2 * fmax(0, sqrt((r->mu_w - 1) / (n + 1)) - 1) + r->c_s;
    r->c_c = (4 + r->mu_w / n) / (n + 4 + 2 * r->mu_w / n);
    r->c_1 = 2 / ((n + 1.3) * (n + 1.3) + r->mu_w);
    r->c_mu = fmin(1 - r->c_1, 2 * (r->mu_w - 2 + 1 / r->mu_w) / ((n + 2) * (n + 2) + r->mu_w));
    r->length = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n));
}

static int64_t population_of(const gd_link *link, int64_t n, double restarts)
{
    double first = gd_link_is_none(link, "population") ? floor(4 + 3 * log((double)n))
                                                       : gd_link_real(link, "population", NULL);
    return (int64_t)fmin(first * pow(gd_link_real(link, "growth", NULL), restarts), 1e9);
}

static void begin_run(run *r, const double *mean)
{
    int64_t n = r->n;
    memcpy(r->mean, mean, (size_t)n * sizeof *mean);
    memset(r->path, 0, 2 * (size_t)n * sizeof *r->path); /* both */
    memset(r->c, 0, 2 * (size_t)(n * n) * sizeof *r->c);
    for (int64_t i = 0; i < n; i++) r->c[i * n + i] = r->basis[i * n + i] = r->axis[i] = 1;
    r->sigma = gd_link_real(r->s.link, "sigma", NULL);
    r->generation = r->still = r->seen = 0;
    r->level = INFINITY;
}

static gd_status open_run(run *r, gd_link *link)
{
    gd_search *s = &r->s;
    int64_t n = r->n = s->n;
    r->restarts = gd_link_kept(link, "restarts", 0);
    r->lambda = population_of(link, n, r->restarts);
    r->mu = r->lambda / 2;
    double *room = gd_search_numbers(s, 4 * n + 2 * n * n);
    r->weight = room ? gd_search_numbers(s, r->mu + r->lambda) : NULL;
    r->y = r->weight ? gd_search_numbers(s, r->lambda * n) : NULL;
    r->point = r->y ? gd_search_numbers(s, r->lambda * n) : NULL;
    r->order = r->point ? gd_link_memory(link, (size_t)r->lambda * sizeof *r->order) : NULL;
    if (!r->order) return gd_error(gd_link_ctx(link));
    r->loss = r->weight + r->mu;
    r->mean = room;
    r->path = room + n;
    r->path_c = room + 2 * n;
    r->axis = room + 3 * n;
    r->c = room + 4 * n;
    r->basis = r->c + n * n;
    set_rates(r);
    bool known = gd_search_kept(s, "mean", n, r->mean) && gd_search_kept(s, "path_sigma", n, r->path) &&
                 gd_search_kept(s, "path_c", n, r->path_c) && gd_search_kept(s, "axes", n, r->axis) &&
                 gd_search_kept(s, "covariance", n * n, r->c) && gd_search_kept(s, "basis", n * n, r->basis);
    r->sigma = gd_link_kept(link, "sigma", 0);
    r->generation = gd_link_kept(link, "generation", 0);
    r->still = gd_link_kept(link, "still", 0);
    r->level = gd_link_kept(link, "level", INFINITY);
    r->seen = gd_link_kept(link, "seen", 0);
    if (!known || !(r->sigma > 0)) begin_run(r, s->x);
    return gd_error(gd_link_ctx(link));
}

static gd_status keep_run(run *r)
{
    gd_search *s = &r->s;
    int64_t n = r->n;
    gd_status status = gd_search_keep(s, "mean", n, r->mean);
    if (!status) status = gd_search_keep(s, "path_sigma", n, r->path);
    if (!status) status = gd_search_keep(s, "path_c", n, r->path_c);
    if (!status) status = gd_search_keep(s, "axes", n, r->axis);
    if (!status) status = gd_search_keep(s, "covariance", n * n, r->c);
    if (!status) status = gd_search_keep(s, "basis", n * n, r->basis);
    if (!status) status = gd_link_keep(s->link, "sigma", r->sigma);
    if (!status) status = gd_link_keep(s->link, "generation", r->generation);
    if (!status) status = gd_link_keep(s->link, "still", r->still);
    if (!status) status = gd_link_keep(s->link, "level", r->level);
    if (!status) status = gd_link_keep(s->link, "seen", r->seen);
    return status ? status : gd_link_keep(s->link, "restarts", r->restarts);
}

/* ---- a generation ---- */

/* m + sigma s B D z; true where it is inside the bounds. */
static bool place(run *r, const double *z, double *y, double *point)
{
    int64_t n = r->n;
    bool inside = true;
    for (int64_t i = 0; i < n; i++) {
        double sum = 0, size = gd_search_scale(&r->s, i);
        for (int64_t j = 0; j < n; j++) sum += r->basis[i * n + j] * r->axis[j] * z[j];
        y[i] = size > 0 ? sum : 0;
        point[i] = r->mean[i] + r->sigma * size * y[i];
        inside = inside && point[i] >= r->s.low[i] && point[i] <= r->s.high[i];
    }
    return inside;
}

/* Elements that are still outside are reflected into the bounds, and count as drawn there. */
static void bring_in(run *r, double *y, double *point)
{
    for (int64_t i = 0; i < r->n; i++) {
        double in = gd_search_reflect(&r->s, i, point[i]), size = r->sigma * gd_search_scale(&r->s, i);
        if (in != point[i] && size > 0) y[i] = (in - r->mean[i]) / size;
        point[i] = in;
    }
}

static gd_status sample(run *r)
{
    int64_t n = r->n;
    double *z = gd_search_numbers(&r->s, r->lambda * n);
    gd_status status = z ? gd_search_draw(&r->s, GD_RANDOM_NORMAL, r->lambda * n, z)
                         : gd_error(gd_link_ctx(r->s.link));
    for (int64_t k = 0; k < r->lambda && !status; k++) {
        double *y = r->y + k * n, *point = r->point + k * n;
        bool inside = place(r, z + k * n, y, point);
        for (int i = 0; i < REDRAWS && !inside && !status; i++) {
            status = gd_search_draw(&r->s, GD_RANDOM_NORMAL, n, z + k * n);
            inside = place(r, z + k * n, y, point);
        }
        if (!inside) bring_in(r, y, point);
    }
    return status;
}

/* Lowest first; equal ones in the order they were drawn. */
static void sort_points(run *r)
{
    for (int64_t k = 0; k < r->lambda; k++) r->order[k] = k;
    for (int64_t gap = r->lambda / 2; gap > 0; gap /= 2)
        for (int64_t k = gap; k < r->lambda; k++) {
            int64_t one = r->order[k], at = k;
            for (; at >= gap; at -= gap) {
                int64_t other = r->order[at - gap];
                bool before = r->loss[one] < r->loss[other] ||
                              (r->loss[one] == r->loss[other] && one < other);
                if (!before) break;
                r->order[at] = other;
            }
            r->order[at] = one;
        }
}

/* ---- what is learnt from it ---- */

/* d, without points that have no finite loss. */
static void mean_step(const run *r, double *d)
{
    for (int64_t k = 0; k < r->mu; k++) {
        const double *y = r->y + r->order[k] * r->n;
        if (isfinite(r->loss[r->order[k]]))
            for (int64_t i = 0; i < r->n; i++) d[i] += r->weight[k] * y[i];
    }
}

/* p_s; gives its length. */
static double follow_path(run *r, const double *d)
{
    int64_t n = r->n;
    double gain = sqrt(r->c_s * (2 - r->c_s) * r->mu_w), square = 0;
    for (int64_t i = 0; i < n; i++) r->path[i] *= 1 - r->c_s;
    for (int64_t j = 0; j < n; j++) {
        double along = 0;
        for (int64_t i = 0; i < n; i++) along += r->basis[i * n + j] * d[i];
        for (int64_t i = 0; i < n; i++) r->path[i] += gain * r->basis[i * n + j] * along / r->axis[j];
    }
    for (int64_t i = 0; i < n; i++) square += r->path[i] * r->path[i];
    return sqrt(square);
}

static void learn_covariance(run *r, bool h)
{
    int64_t n = r->n;
    double old = 1 - r->c_1 - r->c_mu + (h ? 0 : r->c_1 * r->c_c * (2 - r->c_c));
    for (int64_t i = 0; i < n * n; i++) r->c[i] *= old;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) r->c[i * n + j] += r->c_1 * r->path_c[i] * r->path_c[j];
    for (int64_t k = 0; k < r->mu; k++) {
        const double *y = r->y + r->order[k] * n;
        double w = isfinite(r->loss[r->order[k]]) ? r->c_mu * r->weight[k] : 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++) r->c[i * n + j] += w * y[i] * y[j];
    }
}

static void learn(run *r, double *d)
{
    int64_t n = r->n;
    mean_step(r, d);
    for (int64_t i = 0; i < n; i++) r->mean[i] += r->sigma * gd_search_scale(&r->s, i) * d[i];
    double length = follow_path(r, d), faded = pow(1 - r->c_s, 2 * (r->generation + 1));
    bool h = length < (1.4 + 2 / ((double)n + 1)) * r->length * sqrt(1 - faded);
    double gain = h ? sqrt(r->c_c * (2 - r->c_c) * r->mu_w) : 0;
    for (int64_t i = 0; i < n; i++) r->path_c[i] = (1 - r->c_c) * r->path_c[i] + gain * d[i];
    learn_covariance(r, h);
    r->sigma *= exp(fmin(1, r->c_s / r->d_s * (length / r->length - 1)));
    r->generation++;
}

/* Eigenvectors and roots of eigenvalues, not at every step: they change slowly.  *good: it is still a covariance. */
static gd_status turn(run *r, bool *good)
{
    int64_t n = r->n;
    gd_ctx *ctx = gd_link_ctx(r->s.link);
    double every = fmax(1, floor(0.1 / ((r->c_1 + r->c_mu) * (double)n)));
    *good = isfinite(r->sigma) && r->sigma > 0;
    if (fmod(r->generation, every) != 0 || !*good) return GD_OK;
    gd_tensor *c = gd_from_f64(ctx, GD_F64, 3, (int64_t[]){1, n, n}, r->c), *l, *v;
    gd_status status = c ? gd_finite_eigh(c, &l, &v) : gd_error(ctx);
    if (!status) status = gd_read_f64(l, r->axis, n);
    if (!status) status = gd_read_f64(v, r->basis, n * n);
    if (status) return status;
    double most = r->axis[n - 1];
    *good = r->axis[0] > 0 && isfinite(most) && most <= CONDITION * r->axis[0];
    for (int64_t i = 0; i < n; i++) r->axis[i] = sqrt(fmax(r->axis[i], 0));
    return GD_OK;
}

/* ---- the end of a run ---- */

/* Has the run converged: the lowest losses of many generations, and all those of this one; or where points are? */
static bool is_over(run *r)
{
    double low = r->loss[r->order[0]], high = r->loss[r->order[r->lambda - 1]], widest = 0;
    double same = SAME * fmax(fabs(low), fabs(r->level));
    bool flat = (low == r->level || fabs(low - r->level) <= same) && (high == low || high - low <= same);
    r->still = flat ? r->still + 1 : 0;
    r->level = low;
    for (int64_t i = 0; i < r->n; i++)
        if (gd_search_scale(&r->s, i) > 0) widest = fmax(widest, r->c[i * r->n + i]);
    return r->still >= 10 + 30 * (double)r->n / (double)r->lambda || !(r->sigma * sqrt(widest) > TINY);
}

static gd_status next_run(run *r)
{
    gd_search *s = &r->s;
    bool left = r->seen != 0 && s->best_loss < r->level - SAME * fmax(fabs(s->best_loss), fabs(r->level));
    double *from = gd_search_numbers(s, r->n);
    gd_status status = from ? gd_search_spread(s, 1, from) : gd_error(gd_link_ctx(s->link));
    if (!status) begin_run(r, left ? s->best : from);
    if (left)
        r->sigma /= 10;
    else
        r->restarts++;
    return status;
}

static gd_status generation(run *r)
{
    gd_search *s = &r->s;
    double *d = gd_search_numbers(s, r->n);
    bool good = true;
    double before = s->best_loss;
    gd_status status = d ? sample(r) : gd_error(gd_link_ctx(s->link));
    if (!status) status = gd_search_evaluate(s, r->lambda, r->point, r->loss);
    if (status) return status;
    if (s->best_loss < before) r->seen = 1;
    sort_points(r);
    learn(r, d);
    status = turn(r, &good);
    if (!status && (is_over(r) || !good)) status = next_run(r);
    if (!status) status = keep_run(r);
    return status ? status : gd_var_set_attr(s->var, "restarts", r->restarts);
}

static gd_status cma_es_step(gd_link *link, gd_var *var)
{
    run r = {0};
    gd_status status = gd_search_begin(&r.s, link, var);
    if (!status && !r.s.n) return gd_var_set_zero_update(var);
    if (!status) status = gd_search_here(&r.s);
    if (!status) status = open_run(&r, link);
    bool more = r.restarts <= gd_link_real(link, "restarts", NULL);
    if (!status && more) status = generation(&r);
    if (!status && r.restarts > gd_link_real(link, "restarts", NULL)) gd_var_terminate(var, true);
    return status ? status : gd_search_end(&r.s);
}

static int64_t cma_es_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    int64_t n = 0;
    (void)link;
    for (int i = 0; i < count; i++) n += gd_numel(params[i]);
    return (6 * n + 2 * n * n) * (int64_t)sizeof(double);
}

GD_LINK(global_search, cma_es,
    .spread = GD_SPREAD_WHOLE,
    .summary = "generations of random points that learn where to go, from losses alone, with restarts",
    .formula =
        "x_k = m + sigma s y_k, y_k ~ N(0, C);  m += sigma s sum w_k y_k;  C and sigma from y_k and their paths;  u = p - best",
    .paper =
        "Hansen 2016, The CMA evolution strategy: a tutorial; Auger & Hansen 2005, A restart CMA evolution strategy with increasing population size",
    .cost =
        "4 + 3 log n values per step, more after restarts, no gradients; n^2 work for each, n^3 now and then; two matrices n x n",
    .example = "box(-5, 5) | cma_es",
    GD_FIELDS(fields),
    .step = cma_es_step,
    .state_bytes = cma_es_bytes,
    .traits.needs_closure = true);
