/* Intervals by resampling (Efron 1987): fits of data made from the data, and from their values intervals that are corrected for
 * bias and acceleration (BCa).
 *
 * Rows drawn with replacement are rows that count as often as they were drawn: residuals times the roots of counts, so the user's
 * function runs as it is.  Alternatively residuals are drawn, divided by the root of 1 - leverage, and added to the model at the fit.
 * Resample k is a function of seed and k only, whichever context computes it. */
#include "base/ctx.h"
#include "base/special.h"
#include "gradus/autograd.h"
#include "optim/solve/solve_budget.h"
#include "optim/solve/solve_fit.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP_TOL 1e-10 /* of fits used only for quantiles */
#define LOSS_TOL 1e-13
#define MOST_BAD 0.1 /* of the fits may fail */

typedef struct bootstrap {
    gd_ctx *ctx;
    gd_tensor *const *params;
    int count;
    gd_tensor *(*fn)(void *user);
    void *user;
    const gd_lsq_options *options;
    const gd_lsq_result *fit;
    int64_t n, m;     /* elements of the parameters, residuals */
    double *best;     /* where the fit ended [n] */
    double *r, *pull; /* at the fit [m]: residuals; divided by the root of 1 - leverage, less their mean */
    double *jump;     /* how far each element moves when a row is left out, [m, n] */
    double *
        drawn; /* of the resample under way [m]: roots of counts, or the differences added to the residuals */
    gd_tensor *change; /* the same as a tensor */
    bool of_residuals;
    gd_budget budget; /* of all fits */
} bootstrap;

/* Residuals at the point, flat; those of a robust loss transformed, at the scale of the fit. */
static gd_tensor *plain_residuals(const bootstrap *b)
{
    gd_tensor *r = b->fn(b->user);
    if (!r) return NULL;
    r = gd__reshape(gd_drop_names(r), 1, &r->numel);
    return b->options->loss == GD_LSQ_SQUARES ? r : gd__bent(b->options->loss, r, b->fit->scale);
}

static gd_tensor *changed_residuals(void *user)
{
    bootstrap *b = user;
    gd_tensor *r = plain_residuals(b);
    if (!r) return NULL;
    gd_tensor *change = gd_to_device(gd_cast(b->change, gd_tensor_dtype(r)), gd_tensor_device(r));
    return (b->of_residuals ? gd_add : gd_mul)(r, change);
}

/* ---- leverages and influence of rows ---- */

/* The columns of J that are not held by a bound. */
static gd_tensor *free_columns(const bootstrap *b, gd_tensor *j, int64_t *index, int64_t *count)
{
    double *active = b->best; /* memory for n numbers, overwritten */
    *count = 0;
    if (b->fit->active && gd_read_f64(b->fit->active, active, b->n)) return NULL;
    for (int64_t i = 0; i < b->n; i++)
        if (!b->fit->active || active[i] == 0) index[(*count)++] = i;
    if (gd__list_read(b->params, b->count, b->best)) return NULL;
    if (!*count) return gd__refuse(b->ctx, GD_VALUE, "bootstrap: every parameter is held by its bound");
    double *numbers = gd__alloc_array(b->ctx, (size_t)*count, sizeof *numbers);
    if (!numbers) return NULL;
    for (int64_t i = 0; i < *count; i++) numbers[i] = (double)index[i];
    gd_tensor *chosen = gd_from_f64(b->ctx, GD_I64, 1, count, numbers);
    gd__free(b->ctx, numbers, (size_t)*count * sizeof *numbers);
    return gd_index_select(j, "1", chosen);
}

/* b->pull and b->jump from J and r: with J = Q R, the leverage of row i is |R^-T J_i|^2, and the fit without it lies R^-1 R^-T J_i
 * r_i / (1 - leverage) away. */
static gd_status look_at_rows(bootstrap *b, gd_tensor *j, int64_t *index)
{
    int64_t count = 0;
    gd_tensor *free = free_columns(b, j, index, &count);
    gd_tensor *rows = free ? gd_transpose(free, 0, 1) : NULL,
              *triangle = free ? gd__triangle(free, NULL) : NULL;
    gd_tensor *z = triangle ? gd_triangular_solve(triangle, rows, false, true, false) : NULL;
    gd_tensor *away = z ? gd_triangular_solve(triangle, z, false, false, false) : NULL;
    gd_tensor *leverage = away ? gd_sum(gd_square(z), "0", false) : NULL;
    double *moves = leverage ? gd__alloc_array(b->ctx, (size_t)(count * b->m), sizeof *moves) : NULL;
    gd_status status = !leverage ? gd_error(b->ctx)
                       : !moves  ? GD_NOMEM
                                 : gd_read_f64(leverage, b->pull, b->m);
    if (!status) status = gd_read_f64(away, moves, count * b->m);
    double mean = 0;
    for (int64_t i = 0; i < b->m && !status; i++) {
        double rest = fmax(1 - b->pull[i], 1e-12);
        for (int64_t k = 0; k < count; k++)
            b->jump[i * b->n + index[k]] = moves[k * b->m + i] * b->r[i] / rest;
        mean += (b->pull[i] = b->r[i] / sqrt(rest)) / (double)b->m;
    }
    for (int64_t i = 0; i < b->m && !status; i++) b->pull[i] -= mean;
    gd__free(b->ctx, moves, (size_t)(count * b->m) * sizeof *moves);
    if (status == GD_SINGULAR) {
        gd_clear_error(b->ctx);
        status = gd_fail(b->ctx, GD_VALUE, "bootstrap: the residuals do not determine all parameters");
    }
    return status;
}

static size_t room_of(const bootstrap *b)
{
    return (size_t)(b->n * 2 + b->m * 3 + b->m * b->n) * sizeof(double);
}

static gd_status make_row_room(bootstrap *b, int64_t m)
{
    b->m = m;
    if (!(b->best = gd__calloc(b->ctx, room_of(b)))) return GD_NOMEM;
    b->r = b->best + 2 * b->n;
    b->pull = b->r + m;
    b->drawn = b->pull + m;
    b->jump = b->drawn + m;
    return gd__list_read(b->params, b->count, b->best);
}

static gd_status open_bootstrap(bootstrap *b)
{
    gd_tensor *j = NULL, *r = NULL;
    b->n = gd__list_numel(b->params, b->count);
    gd_scope_begin(b->ctx);
    int previous = gd_enable_grad_begin(b->ctx);
    gd_tensor *at = plain_residuals(b);
    gd_status status = at ? make_row_room(b, at->numel) : gd__lsq_no_residuals(b->ctx);
    if (!status) status = gd__linear_from(at, b->params, b->count, true, &j, &r);
    gd_enable_grad_end(b->ctx, previous);
    gd_no_grad_begin(b->ctx);
    if (!status) status = gd_read_f64(r, b->r, b->m);
    _Static_assert(sizeof(int64_t) == sizeof(double), "places of free elements lie where numbers do");
    if (!status) status = look_at_rows(b, j, (int64_t *)(void *)(b->best + b->n));
    gd_no_grad_end(b->ctx);
    gd__release(j);
    gd__release(r);
    gd_scope_end(b->ctx);
    return status;
}

static void close_bootstrap(bootstrap *b)
{
    if (b->best) gd__free(b->ctx, b->best, room_of(b));
}

/* ---- resamples ---- */

/* m numbers of 0 .. m - 1 for resample k, that determine how the residuals change. */
static void draw_rows(bootstrap *b, uint64_t seed, int64_t k)
{
    memset(b->drawn, 0, (size_t)b->m * sizeof *b->drawn);
    for (int64_t i = 0; i < b->m; i += 2) {
        uint32_t word[4];
        double pair[2];
        gd__philox_at(seed, (uint64_t)i / 2, (uint64_t)k + 1, word);
        gd__random_pair(0, 0x1p53, word, pair);
        for (int h = 0; h < 2 && i + h < b->m; h++) {
            int64_t row = (int64_t)(pair[h] * (double)b->m);
            if (b->of_residuals)
                b->drawn[i + h] = b->pull[row] - b->r[i + h];
            else
                b->drawn[row]++;
        }
    }
    for (int64_t i = 0; i < b->m && !b->of_residuals; i++) b->drawn[i] = sqrt(b->drawn[i]);
}

/* The fit of resample k from where the fit of the data ended; NAN where the budget is spent. */
static gd_status fit_resample(bootstrap *b, gd_lsq_options *o, uint64_t seed, int64_t k, double *out)
{
    gd_lsq_result result;
    for (int64_t i = 0; i < b->n; i++) out[i] = NAN;
    if (!gd__budget_left(&b->budget, &o->solve)) return GD_OK;
    o->solve.step_tol = STEP_TOL;
    o->solve.loss_tol = LOSS_TOL;
    draw_rows(b, seed, k);
    gd_scope_begin(b->ctx);
    b->change = gd_from_f64(b->ctx, GD_F64, 1, &b->m, b->drawn);
    gd_status status = b->change ? gd__list_write(b->params, b->count, b->best) : gd_error(b->ctx);
    if (!status) status = gd_least_squares(b->params, b->count, changed_residuals, b, o, &result);
    gd_stop reason = status ? GD_STOP_ERROR : result.solve.reason;
    if (!status) gd__budget_add(&b->budget, &result.solve);
    if (!status) gd_lsq_result_clear(&result); /* its tensors belong to this scope */
    gd_scope_end(b->ctx);
    if (status) return status;
    if (reason == GD_STOP_CALLER)
        return gd_fail(b->ctx, GD_INTERRUPTED, "bootstrap: the callback stopped it");
    status = gd__list_read(b->params, b->count, out);
    /* an unreliable one is marked */
    for (int64_t i = 0; i < b->n && !gd_stop_converged(reason) && reason != GD_STOP_STUCK; i++) out[i] = NAN;
    return status;
}

static bootstrap bootstrap_of(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user),
                              void *user, const gd_lsq_options *options, const gd_lsq_result *fit)
{
    return (bootstrap){.ctx = params[0]->head.ctx,
                       .params = params,
                       .count = count,
                       .fn = residuals,
                       .user = user,
                       .options = options,
                       .fit = fit};
}

gd_status gd_lsq_resample(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user),
                          void *user, const gd_lsq_options *options, const gd_lsq_result *fit,
                          bool of_residuals, uint64_t seed, int64_t first, int64_t number, double *out)
{
    gd_lsq_options defaults = gd_lsq_defaults(), o = options ? *options : defaults;
    if (!params || count <= 0 || !params[0] || !residuals || !fit || !out || first < 0 || number < 0)
        return GD_ARGUMENT;
    bootstrap b = bootstrap_of(params, count, residuals, user, options ? options : &defaults, fit);
    b.of_residuals = of_residuals;
    gd_status status = gd__lsq_check_params(b.ctx, "bootstrap", params, count);
    if (!status) status = open_bootstrap(&b);
    o.loss = GD_LSQ_SQUARES;
    o.rows = NULL; /* draws are from all of them */
    o.covariance = o.polish = o.leave_saddles = false;
    b.budget = gd__budget_begin(&b.options->solve, true);
    for (int64_t k = 0; k < number && !status; k++)
        status = fit_resample(&b, &o, seed, first + k, out + k * b.n);
    if (!status && b.budget.spent)
        gd_warn(b.ctx, "bootstrap: not all of %lld resamples were fitted: %s", (long long)number,
                gd_stop_text(b.budget.reason));
    if (b.best) {
        gd_status back = gd__list_write(params, count, b.best);
        if (!status) status = back;
    }
    close_bootstrap(&b);
    return status;
}

/* ---- intervals ---- */

static double normal_cdf(double z) { return 0.5 * erfc(-z * sqrt(0.5)); }

/* The z with P(Z <= z) = p. */
static double normal_inverse(double p)
{
    return p >= 0.5 ? gd__normal_quantile(2 * p - 1) : -gd__normal_quantile(1 - 2 * p);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Interpolates sorted values at the rank p (count + 1). */
static double quantile_of(const double *sorted, int64_t count, double p)
{
    double at = fmin(fmax(p * (double)(count + 1) - 1, 0), (double)(count - 1));
    int64_t low = (int64_t)at;
    double part = at - (double)low;
    return low + 1 < count ? sorted[low] * (1 - part) + sorted[low + 1] * part : sorted[low];
}

/* Sum of cubes by 6 sums of squares to 3/2: how the standard error of an element changes with its value. */
static double acceleration_of(const bootstrap *b, int64_t element)
{
    double mean = 0, squares = 0, cubes = 0;
    for (int64_t i = 0; i < b->m; i++) mean += b->jump[i * b->n + element] / (double)b->m;
    for (int64_t i = 0; i < b->m; i++) {
        double d = mean - b->jump[i * b->n + element];
        squares += d * d;
        cubes += d * d * d;
    }
    return squares > 0 ? cubes / (6 * squares * sqrt(squares)) : 0;
}

static void interval_of(const bootstrap *b, int64_t element, double *sorted, int64_t count, double level,
                        double *interval)
{
    double below = 0, a = acceleration_of(b, element), edge = gd__normal_quantile(level);
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    for (int64_t i = 0; i < count; i++)
        below += sorted[i] < b->best[element] ? 1 : sorted[i] == b->best[element] ? 0.5 : 0;
    double part = fmin(fmax(below / (double)count, 1 / (double)(count + 1)),
                       (double)count / (double)(count + 1));
    double bias = normal_inverse(part);
    for (int side = 0; side < 2; side++) {
        double z = bias + (side ? edge : -edge), bent = 1 - a * z;
        double p = bent > 0 ? normal_cdf(bias + z / bent) : z > 0;
        interval[side] = quantile_of(sorted, count, p);
    }
}

double gd_lsq_bca_level(const gd_lsq_result *fit, bool of_residuals, double level)
{
    if (!fit || fit->dof <= 0 || !(level > 0 && level < 1)) return level;
    double dof = (double)fit->dof, rows = dof + (double)fit->free;
    double z = gd__student_quantile(level, dof) * (of_residuals ? 1 : sqrt(rows / dof));
    return fmin(erf(z * sqrt(0.5)), 1 - 0x1p-53); /* 1 is not a level */
}

gd_status gd_lsq_bca(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user), void *user,
                     const gd_lsq_options *options, const gd_lsq_result *fit, const double *samples,
                     int64_t number, double level, double *intervals)
{
    gd_lsq_options defaults = gd_lsq_defaults();
    if (!params || count <= 0 || !params[0] || !residuals || !fit || !samples || !intervals || number < 1 ||
        !(level > 0 && level < 1))
        return GD_ARGUMENT;
    bootstrap b = bootstrap_of(params, count, residuals, user, options ? options : &defaults, fit);
    gd_status status = gd__lsq_check_params(b.ctx, "bootstrap", params, count);
    if (!status) status = open_bootstrap(&b);
    double *sorted = status ? NULL : gd__alloc_array(b.ctx, (size_t)number, sizeof *sorted);
    if (!status && !sorted) status = GD_NOMEM;
    for (int64_t e = 0; e < b.n && !status; e++) {
        int64_t good = 0;
        for (int64_t k = 0; k < number; k++)
            if (!isnan(samples[k * b.n + e])) sorted[good++] = samples[k * b.n + e];
        if ((double)(number - good) > MOST_BAD * (double)number)
            status = gd_fail(b.ctx, GD_VALUE,
                             "bootstrap: %lld of %lld fits of resampled rows did not converge",
                             (long long)(number - good), (long long)number);
        else
            interval_of(&b, e, sorted, good, level, intervals + 2 * e);
    }
    gd__free(b.ctx, sorted, (size_t)number * sizeof *sorted);
    close_bootstrap(&b);
    return status;
}
