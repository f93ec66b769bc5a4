/* gradus fit --guess: starting values of parameters.
 *
 * Data over one column are tried as a line, an exponential, a power, a peak (Gaussian or Lorentzian), a step and a sine:
 * each gives the characteristic numbers of such a curve (height, place, width, rate, ...), also as their negatives and reciprocals. The
 * roles of parameters need not be known: all assignments of the numbers of a shape to the parameters are tried on some rows, the best few are fitted,
 * and the best of those is the start. So the form of the model and the names of its parameters do not matter. */
#include "fit/fit_job.h"
#include "gradus/autograd.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ROLES 6
#define MOST_FORMS 8
#define MOST_TRIES 20000      /* of a shape */
#define LOOKED_AT  4096       /* rows, to find the numbers */
#define TRIED_ON   200        /* rows, to compare */
#define KEPT       8          /* assignments that are fitted */
#define GIVEN      "as given" /* the name of the user's start */
#define FFT        1024
#define TURN       6.283185307179586476925
#define FWHM       2.354820045030949 /* of a Gaussian by its sigma */

typedef struct role {
    double form[MOST_FORMS];
    int forms;
} role;

typedef struct shape {
    role role[MOST_ROLES];
    int roles;
} shape;

/* Rows in the order of x. */
typedef struct rows {
    double *x, *y;
    int count;
    double low, high, span; /* of y; of x */
} rows;

static void add_role(shape *s, const double *form, int count)
{
    role *r = &s->role[s->roles++];
    for (int i = 0; i < count; i++)
        if (isfinite(form[i])) r->form[r->forms++] = form[i];
}
#define ROLE(s, ...) \
    add_role(s, (const double[]){__VA_ARGS__}, (int)(sizeof(double[]){__VA_ARGS__} / sizeof(double)))

/* ---- small regressions ---- */

/* Least squares of y on up to three columns, by elimination; false where they are dependent. */
static bool regress(const double *const *column, int k, const double *y, int count, double *out)
{
    double a[3][4] = {{0}};
    for (int i = 0; i < count; i++)
        for (int r = 0; r < k; r++) {
            for (int c = 0; c < k; c++) a[r][c] += column[r][i] * column[c][i];
            a[r][3] += column[r][i] * y[i];
        }
    for (int p = 0; p < k; p++) {
        if (!(fabs(a[p][p]) > 1e-12 * fabs(a[0][0])) || !isfinite(a[p][p])) return false;
        for (int r = 0; r < k; r++) {
            double by = r == p ? 0 : a[r][p] / a[p][p];
            for (int c = p; c < 4 && by != 0; c++) a[r][c] -= by * a[p][c];
        }
    }
    for (int r = 0; r < k; r++) out[r] = a[r][3] / a[r][r];
    return true;
}

/* Intercept and slope of v over u. */
static bool line_through(const double *u, const double *v, int count, double out[2])
{
    double mu = 0, mv = 0, uu = 0, uv = 0;
    for (int i = 0; i < count; i++) mu += u[i] / count, mv += v[i] / count;
    for (int i = 0; i < count; i++) uu += (u[i] - mu) * (u[i] - mu), uv += (u[i] - mu) * (v[i] - mv);
    out[1] = uv / uu;
    out[0] = mv - out[1] * mu;
    return uu > 0;
}

/* ---- shapes; work has room for 4 count numbers ---- */

static bool find_line(const rows *d, double *work, shape *s)
{
    double c[2];
    (void)work;
    if (!line_through(d->x, d->y, d->count, c)) return false;
    ROLE(s, c[0]);
    ROLE(s, c[1], -c[1], 1 / c[1]);
    return true;
}

/* a e^(bx) + c: y over x and its integral is linear, with the rate as a slope (Jacquelin 2009). */
static bool find_exponential(const rows *d, double *work, shape *s)
{
    double *area = work, *shift = work + d->count, *rise = shift + d->count, *e = rise + d->count, c[3];
    int n = d->count;
    area[0] = 0;
    for (int i = 0; i < n; i++) {
        if (i) area[i] = area[i - 1] + (d->x[i] - d->x[i - 1]) * (d->y[i] + d->y[i - 1]) / 2;
        shift[i] = d->x[i] - d->x[0];
        rise[i] = d->y[i] - d->y[0];
    }
    if (!regress((const double *const[]){area, shift}, 2, rise, n, c)) return false;
    double b = c[0];
    for (int i = 0; i < n; i++) e[i] = exp(b * d->x[i]), shift[i] = 1;
    if (b == 0 || !regress((const double *const[]){e, shift}, 2, d->y, n, c)) return false;
    ROLE(s, c[0], -c[0], c[0] + c[1]);
    ROLE(s, b, -b, 1 / b, -1 / b, log(2) / fabs(b));
    ROLE(s, c[1], c[0] + c[1]);
    return true;
}

/* log y over x, or over log x. */
static bool find_by_logarithm(const rows *d, double *work, shape *s, bool of_x)
{
    double *u = work, *v = work + d->count, c[2];
    int n = 0;
    for (int i = 0; i < d->count; i++) {
        if (!(d->y[i] > 0) || (of_x && !(d->x[i] > 0))) continue;
        u[n] = of_x ? log(d->x[i]) : d->x[i];
        v[n++] = log(d->y[i]);
    }
    if (n < 3 || n < d->count / 2 || !line_through(u, v, n, c)) return false;
    ROLE(s, exp(c[0]), c[0]);
    ROLE(s, c[1], -c[1], 1 / c[1], -1 / c[1], log(2) / fabs(c[1]));
    return true;
}

static bool find_decay(const rows *d, double *work, shape *s) { return find_by_logarithm(d, work, s, false); }
static bool find_power(const rows *d, double *work, shape *s)
{
    if (!find_by_logarithm(d, work, s, true)) return false;
    ROLE(s, 0, d->low);
    return true;
}

/* y smoothed by the mean of its neighbours. */
static void smooth(const rows *d, double *out)
{
    int half = d->count / 100;
    for (int i = 0; i < d->count; i++) {
        double sum = 0, count = 0;
        for (int k = i - half; k <= i + half; k++)
            if (k >= 0 && k < d->count) sum += d->y[k], count++;
        out[i] = sum / count;
    }
}

/* A peak or a dip over the level of the ends; its width at half height. */
static bool find_peak(const rows *d, double *work, shape *s)
{
    double base = 0;
    int n = d->count, edge = n / 10 + 1, top = 0;
    smooth(d, work);
    for (int i = 0; i < edge; i++) base += (work[i] + work[n - 1 - i]) / (2 * edge);
    for (int i = 0; i < n; i++)
        if (fabs(work[i] - base) > fabs(work[top] - base)) top = i;
    double height = work[top] - base;
    int left = top, right = top;
    while (left > 0 && (work[left] - base) / height > 0.5) left--;
    while (right < n - 1 && (work[right] - base) / height > 0.5) right++;
    double width = d->x[right] - d->x[left], sigma = width / FWHM;
    if (!(width > 0) || height == 0) return false;
    ROLE(s, height, height * sigma * sqrt(TURN), height * width * TURN / 4);
    ROLE(s, d->x[top], -d->x[top]);
    ROLE(s, sigma, width, width / 2, sigma * sqrt(2), 2 * sigma * sigma, sigma * sigma,
         1 / (2 * sigma * sigma), 1 / sigma);
    ROLE(s, base);
    return true;
}

/* A step between two levels; the position of its middle, and its slope there. */
static bool find_step(const rows *d, double *work, shape *s)
{
    double from = 0, to = 0;
    int n = d->count, edge = n / 20 + 1, at = 0;
    smooth(d, work);
    for (int i = 0; i < edge; i++) from += work[i] / edge, to += work[n - 1 - i] / edge;
    double part[3] = {0.5, 0.25, 0.75}, place[3];
    for (int k = 0; k < 3; k++) {
        for (at = 0; at < n - 1 && (work[at] - from) / (to - from) < part[k];) at++;
        place[k] = d->x[at];
    }
    double rate = place[2] > place[1] ? 2 * log(3) / (place[2] - place[1]) : 10 / d->span;
    if (to == from) return false;
    ROLE(s, to - from, to, from, from - to);
    ROLE(s, place[0], -place[0]);
    ROLE(s, rate, -rate, 1 / rate, -1 / rate, rate * fabs(place[0]));
    ROLE(s, from, to);
    return true;
}

/* Radix-2 transform in place, FFT numbers (Cooley & Tukey 1965). */
static void transform(double *re, double *im)
{
    for (int i = 1, k = 0; i < FFT; i++) {
        int bit = FFT >> 1;
        for (; k & bit; bit >>= 1) k ^= bit;
        k ^= bit;
        if (i >= k) continue;
        double a = re[i], b = im[i];
        re[i] = re[k], im[i] = im[k];
        re[k] = a, im[k] = b;
    }
    for (int half = 1; half < FFT; half *= 2)
        for (int k = 0; k < half; k++) {
            double c = cos(TURN / 2 * k / half), s = -sin(TURN / 2 * k / half);
            for (int i = k; i < FFT; i += 2 * half) {
                double a = re[i + half] * c - im[i + half] * s, b = re[i + half] * s + im[i + half] * c;
                re[i + half] = re[i] - a, im[i + half] = im[i] - b;
                re[i] += a, im[i] += b;
            }
        }
}

/* The strongest frequency of y between equal steps of x, in turns over the whole span. */
static double strongest(const rows *d)
{
    double re[FFT], im[FFT] = {0}, mean = 0, most = 0;
    int at = 0, best = 1;
    for (int i = 0; i < FFT; i++) {
        double x = d->x[0] + d->span * i / (FFT - 1);
        while (at < d->count - 2 && d->x[at + 1] < x) at++;
        double gap = d->x[at + 1] - d->x[at], part = gap > 0 ? (x - d->x[at]) / gap : 0;
        re[i] = d->y[at] * (1 - part) + d->y[at + 1] * part;
        mean += re[i] / FFT;
    }
    for (int i = 0; i < FFT; i++) re[i] -= mean;
    transform(re, im);
    for (int k = 1; k < FFT / 2; k++) {
        double power = re[k] * re[k] + im[k] * im[k];
        if (power > most) most = power, best = k;
    }
    return best;
}

/* A sin(wx + phase) + c, w the best around the strongest frequency. */
static bool find_sine(const rows *d, double *work, shape *s)
{
    double *sine = work, *cosine = work + d->count, *one = cosine + d->count, least = INFINITY, w = 0,
           c[3] = {0};
    double turns = strongest(d);
    for (int i = 0; i < d->count; i++) one[i] = 1;
    for (int k = -40; k <= 40; k++) {
        double try = TURN * fmax(turns + k / 40.0, 0.1) / d->span, rss = 0, found[3];
        for (int i = 0; i < d->count; i++) sine[i] = sin(try * d->x[i]), cosine[i] = cos(try * d->x[i]);
        if (!regress((const double *const[]){one, sine, cosine}, 3, d->y, d->count, found)) continue;
        for (int i = 0; i < d->count; i++)
            rss += pow(d->y[i] - found[0] - found[1] * sine[i] - found[2] * cosine[i], 2);
        if (rss < least) least = rss, w = try, memcpy(c, found, sizeof c);
    }
    if (!isfinite(least)) return false;
    double phase = atan2(c[2], c[1]), quarter = TURN / 4;
    ROLE(s, hypot(c[1], c[2]), -hypot(c[1], c[2]));
    ROLE(s, w, w / TURN, TURN / w);
    ROLE(s, phase, -phase, phase - quarter, -phase / w, phase / w, (quarter - phase) / w);
    ROLE(s, c[0]);
    return true;
}

static const struct {
    const char *name;
    bool (*find)(const rows *d, double *work, shape *s);
} shapes[] = {{"line", find_line},         {"exponential", find_exponential},
              {"exponential", find_decay}, {"power", find_power},
              {"peak", find_peak},         {"step", find_step},
              {"sine", find_sine}};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

/* ---- assignment of numbers to parameters ---- */

typedef struct way {
    double cost, x[GD_GUESS_PARAMS];
    const char *name;
} way;

typedef struct search {
    gd_fit *j;
    const shape *s;
    const char *name;
    double x[GD_GUESS_PARAMS];
    way best[KEPT]; /* from the lowest cost on */
    int kept, tries;
} search;

/* The cost at the parameters, over the sampled rows. */
static gd_status cost_here(gd_fit *j, double *out)
{
    gd_scope_begin(j->ctx);
    gd_no_grad_begin(j->ctx);
    gd_tensor *r = gd__fit_residuals(j), *sum = r ? gd_sum(gd_square(r), NULL, false) : NULL;
    gd_status status = sum ? GD_OK : gd_error(j->ctx);
    *out = sum ? gd_item(sum) : NAN;
    gd_no_grad_end(j->ctx);
    gd_scope_end(j->ctx);
    return status;
}

static gd_status consider(search *q)
{
    gd_fit *j = q->j;
    way w = {.name = q->name};
    for (int i = 0; i < j->params; i++)
        if (!(q->x[i] >= j->element.low[i] && q->x[i] <= j->element.high[i])) return GD_OK;
    q->tries++;
    memcpy(w.x, q->x, sizeof w.x);
    gd_status status = gd__list_write(j->param, j->params, q->x);
    if (!status) status = cost_here(j, &w.cost);
    if (status || !isfinite(w.cost)) return status;
    int at = q->kept < KEPT ? q->kept++ : KEPT;
    if (at == KEPT && !(w.cost < q->best[--at].cost)) return GD_OK;
    for (; at > 0 && w.cost < q->best[at - 1].cost; at--) q->best[at] = q->best[at - 1];
    q->best[at] = w;
    return GD_OK;
}

/* Assigns free roles to parameters from `i` on. */
static gd_status assign(search *q, int i, unsigned taken)
{
    gd_status status = GD_OK;
    if (i == q->j->params) return consider(q);
    for (int r = 0; r < q->s->roles && !status; r++) {
        if (taken >> r & 1) continue;
        for (int f = 0; f < q->s->role[r].forms && !status && q->tries < MOST_TRIES; f++) {
            q->x[i] = q->s->role[r].form[f];
            status = assign(q, i + 1, taken | 1u << r);
        }
    }
    return status;
}

static gd_status try_shapes(search *q, const rows *d, double *work)
{
    gd_status status = gd__list_read(q->j->param, q->j->params, q->x);
    q->name = GIVEN;
    if (!status) status = consider(q);
    for (int k = 0; k < SHAPES && !status; k++) {
        shape s = {.roles = 0};
        if (!shapes[k].find(d, work, &s)) continue;
        /* parameters without a number of the shape */
        while (s.roles < q->j->params && s.roles < MOST_ROLES) ROLE(&s, 1, 0, -1);
        q->s = &s;
        q->name = shapes[k].name;
        q->tries = 0;
        status = assign(q, 0, 0);
    }
    return status;
}

/* Fits from the best assignments; the parameters end at the start of the best fit. */
static gd_status choose(search *q, const gd_lsq_options *options)
{
    gd_fit *j = q->j;
    gd_lsq_options o = *options;
    double least = INFINITY;
    int chosen = 0;
    gd_status status = GD_OK;
    o.covariance = o.polish = false;
    o.loss = GD_LSQ_SQUARES;
    o.rows = NULL;
    o.solve.max_steps = 50;
    for (int k = 0; k < q->kept && !status; k++) {
        gd_lsq_result fit;
        status = gd__list_write(j->param, j->params, q->best[k].x);
        if (!status) status = gd_least_squares(j->param, j->params, gd__fit_residuals, j, &o, &fit);
        if (status) break;
        if (fit.rss < least * (1 - 1e-6)) least = fit.rss, chosen = k;
        gd_lsq_result_clear(&fit);
    }
    if (!q->kept && !status)
        return gd_fail(j->ctx, GD_VALUE,
                       "fit: {guess}: the model is finite for none of the shapes: give the starts");
    j->start.guessed = q->best[chosen].name;
    memcpy(j->element.x, q->best[chosen].x, (size_t)j->params * sizeof *j->element.x);
    return status ? status : gd__list_write(j->param, j->params, q->best[chosen].x);
}

/* Inside its bounds? */
static bool allowed(const gd_fit *j, const double *x)
{
    for (int64_t i = 0; i < j->element.count; i++)
        if (!(x[i] >= j->element.low[i] && x[i] <= j->element.high[i])) return false;
    return true;
}

/* A least-squares fit of some rows does not predict the end of a fit of all rows with their loss, and the user's start may lead to
 * the lower minimum from a higher cost. So both are fitted to the end, with the steps of the fit itself. */
gd_status gd__fit_better_start(gd_fit *j, const gd_lsq_options *o, const double *given)
{
    if (!j->start.given || j->start.guessed == NULL || !strcmp(j->start.guessed, GIVEN) || !allowed(j, given))
        return GD_OK;
    bool first = false;
    gd_status status = gd__fit_try_two(j, o, given, &first);
    if (!status && first) j->start.guessed = GIVEN;
    return status;
}

/* ---- rows ---- */

typedef struct pair {
    double x, y;
} pair;

static int by_x(const void *a, const void *b)
{
    double x = ((const pair *)a)->x, y = ((const pair *)b)->x;
    return (x > y) - (x < y);
}

/* Evenly chosen rows of a vector.  New. */
static gd_tensor *some_of(gd_tensor *t, int64_t count)
{
    if (!t) return NULL;
    gd_tensor *out = gd_empty(gd_tensor_ctx(t), GD_F64, 1, &count);
    const double *from = gd_data(t);
    double *to = out ? gd_data_mut(out) : NULL;
    for (int64_t i = 0; i < count && to; i++) to[i] = from[i * gd_numel(t) / count];
    return out;
}

static void sort_rows(const gd_fit *j, int x, pair *p, rows *d)
{
    const double *xs = gd_data(j->value[x]), *ys = gd_data(j->y);
    int64_t all = gd_numel(j->y);
    for (int i = 0; i < d->count; i++) p[i] = (pair){xs[i * all / d->count], ys[i * all / d->count]};
    qsort(p, (size_t)d->count, sizeof *p, by_x);
    d->low = INFINITY, d->high = -INFINITY;
    for (int i = 0; i < d->count; i++) {
        d->x[i] = p[i].x, d->y[i] = p[i].y;
        d->low = fmin(d->low, p[i].y), d->high = fmax(d->high, p[i].y);
    }
    d->span = d->x[d->count - 1] - d->x[0];
}

/* Uses some rows instead of all; all are restored. */
static gd_status guess_on_few(gd_fit *j, const gd_lsq_options *o, int x, const rows *d, double *work)
{
    gd_tensor *all[3] = {j->value[x], j->y, j->scale}, *few[3];
    int64_t count = gd_numel(j->y) < TRIED_ON ? gd_numel(j->y) : TRIED_ON;
    for (int k = 0; k < 3; k++) few[k] = some_of(all[k], count);
    gd_status status = few[0] && few[1] && (few[2] || !all[2]) ? GD_OK : gd_error(j->ctx);
    search q = {.j = j};
    gd_expr_forget(j->model);
    j->value[x] = few[0], j->y = few[1], j->scale = few[2];
    if (!status) status = try_shapes(&q, d, work);
    if (!status) status = choose(&q, o);
    gd_expr_forget(j->model);
    j->value[x] = all[0], j->y = all[1], j->scale = all[2];
    for (int k = 0; k < 3; k++) gd_release(few[k]);
    return status;
}

gd_status gd__fit_guess(gd_fit *j, const gd_lsq_options *o, double *given)
{
    int x = gd__fit_only_column(j);
    if (x < 0)
        return gd_fail(j->ctx, GD_ARGUMENT,
                       "fit: {guess} knows shapes over one column, the model has several or none");
    if (j->params > GD_GUESS_PARAMS || j->element.count != j->params)
        return gd_fail(j->ctx, GD_ARGUMENT,
                       "fit: {guess} knows shapes of up to %d parameters, each one number", GD_GUESS_PARAMS);
    memcpy(given, j->element.x, (size_t)j->element.count * sizeof *given);
    int64_t all = gd_numel(j->y);
    rows d = {.count = (int)(all < LOOKED_AT ? all : LOOKED_AT)};
    size_t bytes = (size_t)d.count * 8 * sizeof(double);
    if (!(d.x = gd__alloc(j->ctx, bytes))) return GD_NOMEM;
    d.y = d.x + d.count;
    double *work = d.y + d.count;
    sort_rows(j, x, (pair *)(void *)work, &d);
    int noisy = j->x_errors.count;
    j->x_errors.count = 0; /* shapes are found by the data above and below */
    gd_status status = d.count < 3 || !(d.span > 0)
                           ? gd_fail(j->ctx, GD_VALUE,
                                     "fit: {guess} wants three rows and more than one value of '%.60s'",
                                     j->name[x])
                           : guess_on_few(j, o, x, &d, work);
    j->x_errors.count = noisy;
    gd__free(j->ctx, d.x, bytes);
    return status;
}
