/* gradus fit: parameters, their spread and the intervals, by gd_least_squares or a chain. */
#include "fit/fit_job.h"
#include "world/world_internal.h"
#include "base/special.h"
#include "gradus/autograd.h"
#include "optim/chain/bounds_chain.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <string.h>

#define RESTARTS 4 /* after an interval has found a better point */

/* ---- the model ---- */

static gd_status move_one(gd_tensor **t, gd_device *device, bool wants_grad)
{
    if (!*t || gd_tensor_device(*t) == device) return GD_OK;
    gd_ctx *ctx = gd_tensor_ctx(*t);
    gd__aside_begin(ctx);
    gd_tensor *moved = gd_to_device(*t, device);
    if (moved) moved = gd_keep(moved);
    gd__aside_end(ctx);
    if (!moved || (wants_grad && !gd_require_grad(moved))) return gd_error(ctx);
    gd_release(*t);
    *t = moved;
    return GD_OK;
}

/* Parameters and columns to a device. */
static gd_status move(gd_fit *j, const char *name)
{
    gd_device *device = gd_device_get(j->ctx, name);
    gd_status status = device ? GD_OK : gd_error(j->ctx);
    for (int i = 0; i < j->params && !status; i++) status = move_one(&j->param[i], device, true);
    for (int i = j->params; i < j->names && !status; i++) status = move_one(&j->value[i], device, false);
    for (int k = 0; k < j->x_errors.count && !status; k++)
        status = move_one(&j->x_errors.value[k], device, false);
    if (!status) status = move_one(&j->y, device, false);
    return status ? status : move_one(&j->scale, device, false);
}

gd_tensor *gd__fit_model(gd_fit *j, gd_tensor *const *params)
{
    for (int i = 0; i < j->params; i++) j->value[i] = params[i];
    return gd__fit_eval(j, j->model, j->value);
}

/* A solver that does not know of a signal yet may be interrupted within a step; one that knows ends by itself. */
gd_tensor *gd__fit_residuals(void *user)
{
    gd_fit *j = user;
    /* processes end between two steps, together */
    if (!j->spec.world && !j->stopping && gd__fit_interrupted(j))
        return gd__refuse(j->ctx, GD_INTERRUPTED, "fit: interrupted");
    for (int i = 0; i < j->params; i++) j->value[i] = j->param[i];
    return gd__fit_off_curve(j, j->model, j->value, j->x_errors.value, j->y, j->scale);
}

/* The caller may save the point of a step. */
static void show_point(gd_fit *j, double loss)
{
    double before = j->reached;
    j->reached = loss;
    if (j->spec.step) j->spec.step(j->spec.step_user, j);
    j->reached = before;
}

static bool report(void *user, const gd_progress *progress)
{
    gd_fit *j = user;
    gd__fit_tell(j, "step", progress->step, 0, progress->loss);
    j->stopping = gd__fit_all_interrupted(j);
    if (j->stopping) {
        atomic_store(&j->watch->ending, true);
        gd__fit_listen(j, j->ctx, false);
    }
    if (!j->stopping && isfinite(progress->loss)) show_point(j, progress->loss);
    return !j->stopping;
}

/* Inside an interval or a start: progress is known, and Ctrl-C works. */
static bool go_on(void *user, const gd_progress *progress)
{
    const gd_fit *j = user;
    (void)progress;
    gd__fit_tell_again(j);
    return !gd__fit_interrupted(j);
}

/* The same of all processes: they end at the same place. */
static bool all_go_on(void *user, const gd_progress *progress)
{
    gd_fit *j = user;
    return !gd__world_any(j->ctx, j->spec.world, !go_on(j, progress));
}

#define FIRST_OF_ODE 0.1 /* the first trust region of differential equations, by the size of the parameters */

/* ---- a chain, and statistics at its end ---- */

/* Statistics at the current parameters: every gradient counts as small enough, so no step is taken. */
static gd_status look(gd_fit *j, gd_lsq_options *o)
{
    o->solve = gd_solve_defaults();
    o->solve.gradient_tol = INFINITY;
    o->polish = o->leave_saddles = false;
    gd_lsq_result_clear(&j->fit);
    return gd_least_squares(j->param, j->params, gd__fit_residuals, j, o, &j->fit);
}

/* One row has one residual: one element would be the loss itself. */
static gd_tensor *squares_of_one(void *user)
{
    gd_tensor *r = gd__fit_residuals(user);
    return r ? gd_square(r) : NULL;
}

/* Steps of a chain over the sum of squares, then the spread of the parameters where they end. */
static gd_status fit_by_chain(gd_fit *j, gd_lsq_options *o)
{
    gd_solve_result solved;
    bool one = gd_numel(j->y) == 1;
    gd_objective objective = {.loss = one ? squares_of_one : gd__fit_residuals,
                              .residuals = one ? gd__fit_residuals : NULL,
                              .user = j,
                              .rows = o->rows};
    o->solve.gradient_tol = gd_solve_defaults().gradient_tol;
    if (j->bounded)
        j->chain = gd__bounds_chain(j->ctx, j->chain, j->param, j->params, j->element.low, j->element.high);
    if (!j->chain) return gd_error(j->ctx);
    gd_status status = gd_minimize_link(j->param, j->params, &objective, j->chain, &o->solve, &solved);
    j->chain = NULL;
    j->fit.solve = solved;
    j->reached = solved.loss;
    /* after a failure too: the parameters are at the best point */
    gd_trouble why = {.status = GD_OK};
    gd__put_aside(j->ctx, status, &why);
    if (why.status) return gd__tell(j->ctx, &why, NULL, NULL);
    status = look(j, o);
    if (status) {
        j->fit.solve = solved;
        return status;
    }
    gd_stop reason = j->fit.solve.reason;
    bool keep = reason == GD_STOP_NOT_FINITE ||
                (reason == GD_STOP_UNDETERMINED && gd_stop_converged(solved.reason));
    j->fit.solve = solved;
    if (keep) j->fit.solve.reason = reason, j->fit.solve.converged = false;
    return status;
}

/* ---- intervals ---- */

/* Value plus and minus t standard errors, inside the bounds; at an active bound the profile interval. */
static gd_status make_interval(gd_fit *j, const gd_lsq_options *o, int64_t at, bool *better)
{
    double *ends = j->element.interval + 2 * at;
    if (j->element.active[at] != 0 && j->robust.loss) { /* nothing is known but the bounds */
        ends[0] = j->element.low[at], ends[1] = j->element.high[at];
        return GD_OK;
    }
    bool determined = j->fit.solve.reason != GD_STOP_UNDETERMINED;
    if (j->element.active[at] != 0 || (j->how.kind == GD_INTERVALS_PROFILE && determined))
        return gd_lsq_profile(j->param, j->params, gd__fit_residuals, j, o, &j->fit, at, j->t, ends, better);
    double margin = isfinite(j->t * j->element.error[at]) ? j->t * j->element.error[at] : INFINITY;
    ends[0] = fmax(j->element.x[at] - margin, j->element.low[at]);
    ends[1] = fmin(j->element.x[at] + margin, j->element.high[at]);
    return GD_OK;
}

/* Estimates per element. */
static gd_status read_spread(gd_fit *j)
{
    const gd_lsq_result *r = &j->fit;
    gd_status status = gd__list_read(j->param, j->params, j->element.x);
    for (int64_t i = 0; i < j->element.count; i++)
        j->element.error[i] = NAN, j->element.active[i] = j->element.flat[i] = 0;
    if (!status && r->standard_errors)
        status = gd_read_f64(r->standard_errors, j->element.error, j->element.count);
    if (!status && r->active) status = gd_read_f64(r->active, j->element.active, j->element.count);
    if (!status && r->undetermined) status = gd_read_f64(r->undetermined, j->element.flat, j->element.count);
    return status;
}

/* Intervals of elements that no bound holds, by fits of resampled rows. */
static gd_status bootstrap(gd_fit *j, const gd_lsq_options *o)
{
    size_t bytes = (size_t)((j->how.resamples + 2) * j->element.count) * sizeof(double);
    if (j->fit.dof <= 0)
        return gd_fail(j->ctx, GD_VALUE, "fit: {intervals} bootstrap wants more rows than parameters");
    double *samples = gd__alloc(j->ctx, bytes),
           *ends = samples ? samples + j->how.resamples * j->element.count : NULL;
    gd_lsq_options each = *o; /* on threads, without other processes */
    each.solve.callback = go_on;
    each.solve.callback_user = j;
    gd_status status = samples ? gd__fit_resample(j, &each, samples) : GD_NOMEM;
    if (!status)
        status = gd_lsq_bca(j->param, j->params, gd__fit_residuals, j, o, &j->fit, samples, j->how.resamples,
                            gd_lsq_bca_level(&j->fit, j->how.of_residuals, j->spec.level), ends);
    for (int64_t i = 0; i < 2 * j->element.count && !status; i++)
        if (j->element.active[i / 2] == 0) j->element.interval[i] = ends[i];
    gd__free(j->ctx, samples, bytes);
    return status;
}

/* Profiles of all elements, until one finds a better point. */
static gd_status make_intervals(gd_fit *j, gd_lsq_options *o, bool *better)
{
    gd_status status = read_spread(j);
    o->solve = gd_lsq_defaults().solve;
    o->solve.callback = all_go_on;
    o->solve.callback_user = j;
    gd__fit_tell(j, "intervals", 0, j->element.count, NAN);
    for (int64_t at = 0; at < j->element.count && !status && !*better; at++) {
        status = make_interval(j, o, at, better);
        gd__fit_tell(j, "intervals", at + 1, j->element.count, NAN);
    }
    gd__fit_tell_end(j);
    bool resampled = j->how.kind == GD_INTERVALS_BOOTSTRAP && j->fit.solve.reason != GD_STOP_UNDETERMINED;
    return resampled && !status && !*better ? bootstrap(j, o) : status;
}

/* ---- fitting ---- */

static void set_budget(const gd_fit *j, gd_lsq_options *o)
{
    o->solve.max_steps = j->spec.max_steps;
    o->solve.max_evals = j->spec.max_evals;
    o->solve.max_seconds = j->spec.max_seconds;
}

static gd_status solve(gd_fit *j, gd_lsq_options *o)
{
    gd__fit_tell(j, "step", 0, 0, NAN);
    gd_lsq_result_clear(&j->fit);
    j->fit.rss = NAN;
    set_budget(j, o);
    o->solve.callback = report;
    o->solve.callback_user = j;
    gd_status status = j->chain ? fit_by_chain(j, o)
                                : gd_least_squares(j->param, j->params, gd__fit_residuals, j, o, &j->fit);
    gd__fit_tell_end(j);
    if (isfinite(j->fit.rss)) j->reached = j->fit.rss;
    if (status) return status;
    if (j->fit.solve.reason == GD_STOP_NOT_FINITE)
        return gd_fail(j->ctx, GD_VALUE,
                       "fit: the model or its derivatives are not finite at the start of the parameters");
    if (j->stopping) return gd_fail(j->ctx, GD_INTERRUPTED, "fit: interrupted");
    if (!gd__fit_interrupted(j)) show_point(j, j->reached);
    j->t = j->absolute ? gd__normal_quantile(j->spec.level)
                       : gd__student_quantile(j->spec.level, (double)j->fit.dof);
    return GD_OK;
}

gd_lsq_options gd__fit_options(const gd_fit *j)
{
    gd_lsq_options o = gd_lsq_defaults();
    o.low = j->bounded ? j->element.low : NULL;
    o.high = j->bounded ? j->element.high : NULL;
    o.names = j->name;
    o.sigma = j->absolute ? 1 : 0;
    o.errors = j->spec.errors && !strcmp(j->spec.errors, "hc3") ? GD_LSQ_HC3 : GD_LSQ_USUAL;
    o.loss = j->robust.loss;
    o.loss_scale = j->robust.scale;
    o.rows = j->rows.count ? &j->rows : NULL;
    /* a linear model of a solution soon loses its phase: a first step across the whole interval leads into other valleys */
    if (gd__expr_has_ode(j->model)) o.first_radius = FIRST_OF_ODE;
    return o;
}

gd_status gd__fit_prepare(gd_fit *j)
{
    const char *chain = j->spec.chain;
    if (chain && !(j->chain = gd_chain(j->ctx, chain))) return gd_error(j->ctx);
    gd_lsq_options o = gd__fit_options(j);
    gd_status status = j->start.guess ? gd__fit_guess(j, &o, j->start.before) : GD_OK;
    if (status) return status;
    return j->spec.device ? move(j, j->spec.device) : gd__fit_by_rows(j);
}

/* Chooses the start, fits, and fits again if an interval finds a better point. */
static gd_status run(gd_fit *j)
{
    gd_lsq_options o = gd__fit_options(j);
    set_budget(j, &o);
    o.solve.callback = all_go_on;
    o.solve.callback_user = j;
    gd_status status = j->start.guess ? gd__fit_better_start(j, &o, j->start.before) : GD_OK;
    if (j->start.count && !status) status = gd__fit_try_starts(j, &o);
    bool better = true;
    for (int again = 0; again < RESTARTS && better && !status; again++) {
        better = false;
        status = solve(j, &o);
        if (!status) status = make_intervals(j, &o, &better);
    }
    return status;
}

gd_status gd_fit_run(gd_fit *j)
{
    if (!j) return GD_ARGUMENT;
    if (gd_error(j->ctx)) return gd_error(j->ctx);
    if (j->state != GD_FIT_READY)
        return gd_fail(j->ctx, GD_VALUE, "fit: it was %s already",
                       j->state == GD_FIT_LOADED ? "loaded, and ran" : "run");
    j->state = GD_FIT_BEGUN;
    gd__fit_listen(j, j->ctx, true);
    gd_status status = run(j);
    gd__fit_listen(j, j->ctx, false);
    if (status && gd_error(j->ctx) == GD_INTERRUPTED) {
        gd_clear_error(j->ctx);
        return gd_fail(j->ctx, GD_INTERRUPTED, "fit: interrupted after %lld steps",
                       (long long)j->fit.solve.steps);
    }
    if (!status && j->spec.device) status = move(j, "cpu"); /* only tables and pictures follow */
    if (!status) status = gd__fit_judge(j);
    if (!status) status = gd__fit_derive(j);
    if (!status) j->state = GD_FIT_DONE;
    return status;
}
