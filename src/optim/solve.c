/* Minimising with a chain in one call. */
#include "optim/solve.h"

#include "base/ctx.h"
#include "optim/memo.h"
#include "optim/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

static const struct {
    const char *name, *text;
    bool converged;
} stops[] = {
#define STOP(name, converged, text) {#name, text, converged},
    GD_STOP_LIST(STOP)
#undef STOP
};

static bool is_stop(gd_stop reason) { return (int)reason >= 0 && reason < GD_STOP_COUNT; }

const char *gd_stop_name(gd_stop reason) { return is_stop(reason) ? stops[reason].name : "?"; }

const char *gd_stop_text(gd_stop reason) { return is_stop(reason) ? stops[reason].text : "unknown reason"; }

bool gd_stop_converged(gd_stop reason) { return is_stop(reason) && stops[reason].converged; }

double gd__seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

gd_solve_options gd_solve_defaults(void)
{
    return (gd_solve_options){.max_steps = 1000, .gradient_tol = 1e-8, .patience = 3};
}

/* A run of a chain. */
typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *optimizer;
    const gd_objective *objective;
    const gd_solve_options *options;
    gd_tensor *const *params;
    gd_tensor **before, **best; /* parameters before the step, and at the best loss; owned */
    int count;
    double start, loss, best_loss, gradient; /* loss and gradient where the last step began */
    int small, failures;                     /* steps in a row below a tolerance; failed searches in a row */
    gd_stop reason;
    bool stopped;
} run;

static void stop(run *r, gd_stop reason)
{
    if (!r->stopped) r->reason = reason;
    r->stopped = true;
}

/* The largest element of the gradient the step has looked at. */
static gd_status watch(void *user, gd_optimizer *optimizer, gd_var *var)
{
    (void)optimizer;
    run *r = user;
    r->gradient = NAN;
    if (!gd_var_has_grad(var)) return GD_OK;
    double most = 0;
    for (int i = 0; i < var->count; i++) {
        gd_scope_begin(r->ctx);
        gd_tensor *size = gd_max(gd_abs(gd_detach(var->grad[i])), NULL, false);
        double one = size ? gd_item(size) : NAN;
        gd_scope_end(r->ctx);
        most = one > most || isnan(one) ? one : most;
    }
    r->gradient = most;
    return gd_error(r->ctx);
}

/* list[i] = a copy of parameter i, in memory that is there after the first time. */
static gd_status copy_params(run *r, gd_tensor **list)
{
    gd_status status = GD_OK;
    for (int i = 0; i < r->count && !status; i++) {
        gd_tensor *p = r->params[i];
        if (list[i]) {
            status = gd_assign(list[i], p);
            continue;
        }
        gd_scope_begin(r->ctx);
        gd_no_grad_begin(r->ctx);
        list[i] = gd_copy(p);
        gd__own(list[i]);
        gd_no_grad_end(r->ctx);
        gd_scope_end(r->ctx);
        if (!list[i]) status = gd_error(r->ctx);
    }
    return status;
}

/* Norms over all parameters: of their change in the step, and of themselves. */
static void measure(run *r, double *moved, double *size)
{
    *moved = *size = 0;
    for (int i = 0; i < r->count; i++) {
        gd_scope_begin(r->ctx);
        gd_no_grad_begin(r->ctx);
        gd_tensor *p = gd_detach(r->params[i]);
        gd_tensor *change = gd_norm(gd_sub(p, r->before[i]), 2, NULL, false),
                  *all = gd_norm(p, 2, NULL, false);
        if (change && all) {
            *moved = hypot(*moved, gd_item(change));
            *size = hypot(*size, gd_item(all));
        }
        gd_no_grad_end(r->ctx);
        gd_scope_end(r->ctx);
    }
}

/* The loss belongs to the point where the step began. */
static gd_status remember_best(run *r)
{
    if (!(r->loss < r->best_loss)) return GD_OK;
    r->best_loss = r->loss;
    gd_tensor **list = r->best;
    r->best = r->before;
    r->before = list;
    return GD_OK;
}

static void check(run *r, const gd_step_info *info, double last, double moved, double size)
{
    const gd_solve_options *o = r->options;
    bool small = (o->step_tol > 0 && moved <= o->step_tol * size) ||
                 (o->loss_tol > 0 && fabs(last - r->loss) <= o->loss_tol * fabs(r->loss));
    bool still = o->step_tol > 0 && moved <= o->step_tol * size;
    r->small = small ? r->small + 1 : 0;
    if (info->terminate) stop(r, GD_STOP_LINK);
    if (r->gradient <= o->gradient_tol && o->gradient_tol > 0) stop(r, GD_STOP_GRADIENT);
    if (info->step == 1 && info->has_loss && !isfinite(r->loss)) stop(r, GD_STOP_NOT_FINITE);
    if (r->small >= (o->patience > 0 ? o->patience : 1)) stop(r, still ? GD_STOP_STEP : GD_STOP_LOSS);
    if (info->search_failed && moved == 0 && ++r->failures >= 3) stop(r, GD_STOP_STUCK);
    if (!info->search_failed) r->failures = 0;
    if (o->max_steps && info->step >= o->max_steps) stop(r, GD_STOP_MAX_STEPS);
    if (o->max_evals && info->evals >= o->max_evals) stop(r, GD_STOP_MAX_EVALS);
    if (o->max_seconds > 0 && gd__seconds() - r->start >= o->max_seconds) stop(r, GD_STOP_TIME);
}

static gd_status one_step(run *r)
{
    const gd_solve_options *o = r->options;
    gd_step_info info;
    double last = r->loss, moved = 0, size = 0;
    gd_status status = copy_params(r, r->before);
    if (!status) status = gd_optimizer_step(r->optimizer, r->objective, &info);
    if (status) return status;
    r->loss = info.has_loss ? info.loss : NAN;
    measure(r, &moved, &size);
    if ((status = remember_best(r))) return status;
    check(r, &info, last, moved, size);
    gd_progress progress = {.step = info.step,
                            .evals = info.evals,
                            .loss = r->loss,
                            .gradient_norm = r->gradient,
                            .step_norm = moved,
                            .seconds = gd__seconds() - r->start};
    if (o->callback && !o->callback(o->callback_user, &progress)) stop(r, GD_STOP_CALLER);
    return GD_OK;
}

/* The loss where the parameters are now. */
static gd_status look(run *r, double *loss)
{
    gd_closure base = {.eval = gd__objective_eval, .objective = r->objective};
    gd_step_share share = {0};
    gd_var var;
    gd__var_init(&var, r->optimizer, r->ctx, r->params, r->count);
    var.share = &share;
    var.closure = &base;
    gd_scope_begin(r->ctx);
    gd_no_grad_begin(r->ctx);
    gd_status status = gd_var_evaluate_at(&var, loss);
    gd_no_grad_end(r->ctx);
    gd_scope_end(r->ctx);
    gd__var_clear(&var);
    return status;
}

/* Ends at the better of the last point and the best one before it. */
static gd_status finish(run *r, gd_status status)
{
    double loss = NAN;
    if (!status && r->reason != GD_STOP_GRADIENT) status = look(r, &loss);
    if (!status && r->reason == GD_STOP_GRADIENT) loss = NAN; /* the rule held where the last step began */
    bool worse = !(loss <= r->best_loss);
    for (int i = 0; i < r->count && worse && r->best[i]; i++) {
        gd_status back = gd_assign(r->params[i], r->best[i]);
        if (!status) status = back;
    }
    r->loss = worse && isfinite(r->best_loss) ? r->best_loss : loss;
    return status;
}

static gd_status prepare(run *r, gd_link *chain)
{
    r->start = gd__seconds();
    r->optimizer = gd_optimizer_new(r->ctx, chain);
    gd_status status = r->optimizer ? GD_OK : gd_error(r->ctx);
    for (int i = 0; i < r->count && !status; i++) {
        char name[24];
        snprintf(name, sizeof name, "p%d", i);
        status = gd_optimizer_add(r->optimizer, name, r->params[i]);
    }
    if (status) return status;
    r->optimizer->watch = watch;
    r->optimizer->watch_user = r;
    if (!r->options->noisy && !(r->optimizer->memo = gd__memo_new(r->ctx, r->count))) return GD_NOMEM;
    r->before = gd__tensors_new(r->ctx, r->count);
    r->best = gd__tensors_new(r->ctx, r->count);
    return r->before && r->best ? GD_OK : GD_NOMEM;
}

gd_status gd_minimize_link(gd_tensor *const *params, int count, const gd_objective *objective, gd_link *chain,
                           const gd_solve_options *options, gd_solve_result *result)
{
    gd_solve_options defaults = gd_solve_defaults();
    if (result) *result = (gd_solve_result){.reason = GD_STOP_ERROR, .loss = NAN, .gradient_norm = NAN};
    if (!params || count <= 0 || !params[0] || !objective || !chain) {
        gd_ctx *ctx = params && count > 0 && params[0] ? gd_tensor_ctx(params[0]) : gd_link_ctx(chain);
        gd_status status = gd__null(ctx, "minimize: the parameters, the objective or the chain are NULL");
        gd_link_release(chain);
        return status;
    }
    run r = {.ctx = gd_tensor_ctx(params[0]),
             .params = params,
             .count = count,
             .objective = objective,
             .options = options ? options : &defaults,
             .best_loss = INFINITY,
             .loss = NAN,
             .gradient = NAN,
             .reason = GD_STOP_ERROR};
    gd_status status = prepare(&r, chain);
    while (!status && !r.stopped) status = one_step(&r);
    if (r.optimizer && r.best) status = finish(&r, status);
    if (result && r.optimizer)
        *result = (gd_solve_result){.reason = status ? GD_STOP_ERROR : r.reason,
                                    .converged = !status && gd_stop_converged(r.reason),
                                    .loss = r.loss,
                                    .gradient_norm = r.gradient,
                                    .steps = gd_optimizer_steps(r.optimizer),
                                    .evals = gd_optimizer_evals(r.optimizer),
                                    .seconds = gd__seconds() - r.start};
    gd__tensors_free(r.ctx, r.before, count);
    gd__tensors_free(r.ctx, r.best, count);
    if (r.optimizer) gd__memo_free(r.optimizer->memo);
    gd_optimizer_free(r.optimizer);
    return status;
}

gd_status gd_minimize(gd_tensor *const *params, int count, const gd_objective *objective, const char *chain,
                      const gd_solve_options *options, gd_solve_result *result)
{
    if (result) *result = (gd_solve_result){.reason = GD_STOP_ERROR, .loss = NAN, .gradient_norm = NAN};
    if (!params || count <= 0 || !params[0]) return GD_ARGUMENT;
    gd_ctx *ctx = gd_tensor_ctx(params[0]);
    gd_link *link = gd_chain(ctx, chain);
    return link ? gd_minimize_link(params, count, objective, link, options, result) : gd_error(ctx);
}
