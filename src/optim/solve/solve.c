/* Minimising with a chain in one call. */
#include "optim/solve/solve_internal.h"

#include "base/ctx.h"
#include "optim/ranks/share.h"
#include "optim/step/objective/bounds.h"
#include "optim/step/objective/evaluator.h"
#include "optim/step/objective/memo.h"
#include "optim/vector/layout.h"

#include <float.h>
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

const char *gd_derivatives_name(gd_derivatives derivatives)
{
    static const char *const names[] = {
#define NAME(id, name) name,
        GD_DERIVATIVES_LIST(NAME)
#undef NAME
    };
    return (int)derivatives >= 0 && derivatives < GD_DERIVATIVES_COUNT ? names[derivatives] : "?";
}

bool gd_stop_converged(gd_stop reason) { return is_stop(reason) && stops[reason].converged; }

double gd__seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

gd_status gd__stop_together(gd_world *world, int64_t step, gd_stop *reason)
{
    int64_t size = gd_world_size(world);
    if (size < 2) return GD_OK;
    gd_ctx *ctx = gd_world_ctx(world);
    char name[40];
    snprintf(name, sizeof name, "the end of step %lld", (long long)step);
    gd_scope_begin(ctx);
    gd_collective what = {.kind = GD_ALL_GATHER, .name = name};
    what.tensor = gd_full(ctx, GD_I32, 1, (int64_t[]){1}, *reason);
    what.out = gd_full(ctx, GD_I32, 1, &size, GD_STOP_COUNT);
    gd_exchange *work = gd_world_start(world, &what);
    gd_status status = work ? gd_world_wait(work) : gd_error(ctx);
    for (int64_t r = size - 1; r >= 0 && !status; r--) {
        gd_stop other = (gd_stop)((const int32_t *)gd_data(what.out))[r];
        if (other != GD_STOP_COUNT) *reason = other;
    }
    gd_scope_end(ctx);
    return status;
}

gd_status gd__solve_tell(gd_world *world, gd_ctx *ctx, gd_status status)
{
    if (status && gd_world_size(world) > 1 && gd_world_ctx(world) == ctx)
        (void)!gd_world_agree(world, status);
    return status;
}

gd_solve_options gd_solve_defaults(void)
{
    return (gd_solve_options){
        .max_steps = 1000, .gradient_tol = 1e-8, .patience = 3, .curvature_products = GD_CURVATURE_PRODUCTS};
}

/* Values known at a point. */
typedef struct place {
    double loss, gradient, length; /* largest element and 2-norm of the gradient; NAN: not known */
    double violation;              /* of constraints; 0 without, NAN: not known */
} place;

static const place nowhere = {NAN, NAN, NAN, 0};

/* A run of a chain. */
typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *optimizer;
    const gd_objective *objective;
    const gd_solve_options *options;
    gd_tensor **params;     /* borrowed, an array of our own */
    gd_origin before, best; /* where the step began, and the best point */
    int count;
    int64_t first_step, first_eval, first_constraints; /* of the optimizer, before the run */
    double start;                                      /* time */
    place began, now, lowest;     /* where the last step began and ended, and the best before */
    int small, failures, endless; /* consecutive steps: below a tolerance, failed, of maximal length */
    int idle;                     /* and that changed loss and gradient only by rounding */
    double eps, least_gradient; /* from 1 to the next number of the coarsest parameter; the smallest so far */
    double violation_tol;       /* of the link that handles constraints */
    bool constrained, solved, infeasible;
    gd_outcome outcome; /* a link's outcome for the whole run */
    bool many_minima;   /* a link searches among minima, and decides when it has ended */
    bool was_endless, at_end, failed, weighing, lost;
    gd_stop reason;
    bool stopped;
} run;

static void stop(run *r, gd_stop reason)
{
    if (!r->stopped) r->reason = reason;
    r->stopped = true;
}

/* The world whose ranks share the objective or the optimizer; NULL: this process is alone. */
static gd_world *world_of(const gd_optimizer *o, const gd_objective *objective)
{
    if (o && o->shared.share) return o->shared.share->world;
    if (!objective) return NULL;
    if (objective->batch) return objective->batch->world;
    return objective->rows ? objective->rows->world : NULL;
}

static gd_status stop_together(run *r)
{
    gd_stop reason = r->stopped ? r->reason : GD_STOP_COUNT;
    int64_t step = gd_optimizer_steps(r->optimizer) - r->first_step;
    gd_status status = gd__stop_together(world_of(r->optimizer, r->objective), step, &reason);
    if (!status && reason != GD_STOP_COUNT) {
        r->reason = reason;
        r->stopped = true;
    }
    return status;
}

/* ---- looking ---- */

/* The same in loops over lists, without a tensor, because every step computes them. */
static gd_status measure_plain(run *r, gd_tensor *const *grads, int count, place *out)
{
    gd_layout l;
    double square = 0;
    gd_status status = gd__layout_init(&l, r->ctx, grads, count);
    if (status) return status;
    gd__aside_begin(r->ctx);
    status = gd__list_largest(&l, grads, &out->gradient);
    if (!status) status = gd__list_dot(&l, grads, grads, &square);
    gd__aside_end(r->ctx);
    gd__layout_free(&l);
    out->length = isnan(out->gradient) ? NAN : sqrt(square);
    return status;
}

/* Largest element and 2-norm over a list; both NAN where one element is.  weighing: of g max(|p|, 1). */
static gd_status measure_list(run *r, gd_tensor *const *grads, gd_tensor *const *params, int count,
                              place *out)
{
    if (!r->weighing) return measure_plain(r, grads, count, out);
    double most = 0, length = 0;
    for (int i = 0; i < count; i++) {
        gd__aside_begin(r->ctx);
        gd_tensor *size = gd_abs(gd_drop_names(gd_detach(params[i])));
        gd_tensor *g = gd_mul(gd_drop_names(gd_detach(grads[i])), gd_maximum(size, gd_ones_like(size)));
        gd_tensor *largest = gd_max(gd_abs(g), NULL, false), *norm = gd_norm(g, 2, NULL, false);
        double one = largest ? gd_item(largest) : 0;
        if (norm) length = hypot(length, gd_item(norm));
        gd__aside_end(r->ctx);
        most = one > most || isnan(one) ? one : most;
    }
    out->gradient = most;
    out->length = isnan(most) ? NAN : length;
    return gd_error(r->ctx);
}

/* Inside bounds the residual is x - P(x - g). */
static gd_status measure_gradient(run *r, gd_tensor *const *grads, gd_tensor *const *params, int count,
                                  place *out)
{
    if (!r->optimizer->bounded) return measure_list(r, grads, params, count, out);
    gd_tensor **list = gd__tensors_new(r->ctx, count);
    if (!list) return GD_NOMEM;
    gd_scope_begin(r->ctx);
    gd_no_grad_begin(r->ctx);
    gd_status status = gd__bounds_residual(r->optimizer, params, grads, count, list);
    if (!status) status = measure_list(r, list, params, count, out);
    gd_no_grad_end(r->ctx);
    gd_scope_end(r->ctx);
    gd__free(r->ctx, list, (size_t)count * sizeof *list);
    return status;
}

/* The gradient that the step has evaluated, and the outcome of its searches. */
static gd_status watch(void *user, gd_optimizer *optimizer, gd_var *var)
{
    run *r = user;
    r->was_endless = var->share->endless;
    r->at_end = var->share->no_number;
    r->many_minima = var->share->many_minima;
    r->outcome = var->share->outcome;
    /* the step began where the last one ended, unless the caller has moved the parameters */
    if (!isnan(r->now.gradient) && !r->options->callback && !r->constrained) {
        r->began = r->now;
        return GD_OK;
    }
    r->began.gradient = var->share->first_kkt;
    r->began.length = r->constrained ? NAN : sqrt(var->share->kkt_square);
    r->began.violation = r->constrained ? var->share->violation : 0;
    r->violation_tol = var->share->violation_tol;
    r->solved = var->share->solved;
    r->infeasible = var->share->infeasible;
    if (optimizer->bounded || r->constrained) return GD_OK;
    return gd_var_has_grad(var) ? measure_gradient(r, var->grad, var->params, var->count, &r->began) : GD_OK;
}

/* Parameters that want gradients, at the front of a list. */
static int active(const run *r, gd_tensor **list)
{
    int count = 0;
    for (int i = 0; i < r->count; i++)
        if (r->params[i]->leaf_grad) list[count++] = r->params[i];
    return count;
}

static gd_status evaluate(run *r, gd_var *var, bool gradient, place *out)
{
    gd_tensor *loss = NULL, **grads = gradient ? gd__tensors_new(r->ctx, var->count) : NULL;
    gd_status status = gradient && !grads ? GD_NOMEM : gd__var_evaluate(var, &loss, grads);
    if (!status) out->loss = gd_item(loss);
    if (!status && r->constrained) status = gd__violation(var, &out->violation);
    if (!status && gradient) status = measure_gradient(r, grads, var->params, var->count, out);
    gd__release(loss);
    gd__tensors_free(r->ctx, grads, var->count);
    return status ? status : gd_error(r->ctx);
}

/* Has the chain requested a gradient of the objective itself? A chain with finite differences has not: then the function may read numbers on
 * the host, and its graph, if there is one, may be incomplete. */
static bool differentiated(const run *r)
{
    const gd_objective *o = r->objective;
    const gd_memo *memo = r->optimizer->asked.memo;
    return (o->loss || o->gradient || o->rows || o->batch) &&
           (memo ? gd__memo_met_gradients(memo) : !isnan(r->began.gradient));
}

/* Loss, and on request gradient, at the present parameters. The next step uses the results. known: only if that needs no
 * evaluation. */
static gd_status look(run *r, bool gradient, bool known, place *out)
{
    gd_closure base = {.eval = gd__objective_eval, .objective = r->objective};
    gd_step_share share = {0};
    gd_var var;
    gd_tensor **list = gd__tensors_new(r->ctx, r->count);
    const gd_asked asked = r->optimizer->asked; /* derivatives that are only shown have not been used */
    if (!list) return GD_NOMEM;
    gd__var_init(&var, r->optimizer, r->ctx, list, active(r, list));
    var.share = &share;
    var.closure = &base;
    var.step = gd_optimizer_steps(r->optimizer);
    gd__aside_begin(r->ctx);
    gd_memo *memo = known ? gd__memo_of(&var) : NULL;
    const gd_point *p = memo ? gd__memo_find(memo) : NULL;
    gd_status status = GD_OK;
    if (known)
        gradient = gradient && p && (gd__memo_has_gradient(memo, p) || (p->graph && differentiated(r)));
    if (!known || (p && p->loss)) status = evaluate(r, &var, gradient && var.count, out);
    gd__aside_end(r->ctx);
    r->optimizer->asked.exact = asked.exact;
    r->optimizer->asked.estimated = asked.estimated;
    gd__share_clear(r->ctx, &share);
    gd__var_clear(&var);
    gd__free(r->ctx, list, (size_t)r->count * sizeof *list);
    return status;
}

/* After a step: known values, or, if the next step begins with the same evaluation, its results. */
static gd_status look_after(run *r)
{
    const gd_memo *memo = r->optimizer->asked.memo;
    bool free = memo && gd__memo_serves(memo, gd_optimizer_steps(r->optimizer) - 1);
    r->now = nowhere;
    /* the relevant gradient is that of the Lagrangian, which the link knows and the objective does not */
    if (r->constrained || (!memo && !r->options->look)) return GD_OK;
    return look(r, true, !free && !r->options->look, &r->now);
}

/* Norms over all parameters: of their change in the step, and of themselves. */
static gd_status measure(run *r, double *moved, double *size)
{
    gd_layout l;
    gd_status status = gd__layout_init(&l, r->ctx, r->params, r->count);
    if (!status) {
        status = gd__list_apart(&l, r->params, r->before.value, moved);
        if (!status) status = gd__list_dot(&l, r->params, r->params, size);
        gd__layout_free(&l);
    }
    *moved = sqrt(*moved);
    *size = sqrt(*size);
    return status;
}

/* Compares by the loss among points whose violation is within the tolerance, else by the violation. */
static bool better(const run *r, const place *a, const place *b)
{
    if (!r->constrained) return a->loss < b->loss;
    bool good = a->violation <= r->violation_tol, other = b->violation <= r->violation_tol;
    if (good && other) return a->loss < b->loss;
    return good || (!other && (a->violation < b->violation || isinf(b->loss)));
}

/* The loss belongs to the point where the step began. */
static void remember_best(run *r)
{
    if (!better(r, &r->began, &r->lowest)) return;
    r->lowest = r->began;
    gd_origin other = r->best;
    r->best = r->before;
    r->before = other;
}

/* ---- stopping ---- */

#define UNBOUNDED -1e20 /* a loss below this is unbounded (the limit that other libraries use) */
#define IN_A_ROW  3     /* failures, or steps of maximal length */
#define LOST      16    /* roundings of the loss: searches that could gain less are finished */

/* Is the gradient, by the sizes of parameters and loss (Dennis & Schnabel 1996, 7.2.5), below the root of the rounding error? */
static gd_status at_rounding(run *r, bool *yes)
{
    place here = nowhere, size = nowhere;
    gd_status status;
    r->weighing = differentiated(r);
    if (r->weighing)
        status = look(r, true, false, &here);
    else { /* the gradient of the chain */
        here = r->began;
        status = measure_plain(r, r->params, r->count, &size);
        here.gradient *= fmax(size.gradient, 1);
    }
    r->weighing = false;
    *yes = here.gradient <= cbrt(r->eps) * fmax(fabs(here.loss), 1);
    return status;
}

#define IDLE 10 /* steps in a row without a change beyond rounding */

/* A loss of many terms is large, and so is the rounding of its gradient: if the gradient times the parameters is below the rounding
 * of the loss, or neither of them has fallen for some steps, the run has ended. */
static gd_status check_rounding(run *r, double last, double size)
{
    bool known = !isnan(r->now.gradient);
    double f = fabs(known ? r->now.loss : r->began.loss), g = known ? r->now.gradient : r->began.gradient;
    double from = known ? r->began.loss : last, to = known ? r->now.loss : r->began.loss;
    if (r->failed || !isfinite(f) || !isfinite(g)) return GD_OK;
    bool lower = !(g >= 0.5 * r->least_gradient), same = fabs(from - to) <= 8 * r->eps * f;
    r->idle = same && !lower ? r->idle + 1 : 0;
    if (lower) r->least_gradient = g;
    bool done = g * fmax(size, 1) <= r->eps * f;
    gd_status status = done || r->idle < IDLE ? GD_OK : at_rounding(r, &done);
    if (done) stop(r, GD_STOP_LOSS);
    if (r->idle >= IDLE) r->idle = 0;
    return status;
}

static gd_status start_again(void *user, gd_link *link, const char *path)
{
    (void)user;
    (void)path;
    const char *family = link->cls->family;
    if (!strcmp(family, "quasi_newton") || !strcmp(family, "conjugate_gradient")) gd_link_reset(link);
    return GD_OK;
}

/* After a failed step: the state of links may have misled it. Several in a row end the run. */
static gd_status after_failure(run *r, double moved)
{
    double gain = r->optimizer->searching.gain, least = LOST * r->eps * fabs(r->began.loss);
    r->optimizer->searching.steepest = r->failed && moved == 0;
    r->optimizer->searching.gain = NAN;
    if (!r->optimizer->searching.steepest) {
        r->failures = 0;
        return GD_OK;
    }
    r->lost = !(gain > least) && (gain <= least || (r->failures > 0 && r->lost));
    if (++r->failures == 1) return gd__visit_links(r->optimizer->chain, "", start_again, NULL);
    if (r->failures <= IN_A_ROW) return GD_OK;
    /* a point that violates constraints has not converged: it ends the search for feasible ones */
    if (r->constrained && !(r->began.violation <= r->violation_tol)) {
        bool still = isfinite(r->began.violation) && r->began.gradient <= r->violation_tol;
        stop(r, still ? GD_STOP_INFEASIBLE : GD_STOP_STUCK);
        return GD_OK;
    }
    bool done = r->lost;
    gd_status status = done || isnan(r->began.gradient) ? GD_OK : at_rounding(r, &done);
    stop(r, done ? GD_STOP_LOSS : r->at_end ? GD_STOP_DIVERGED : GD_STOP_STUCK);
    return status;
}

/* The loss is no longer finite, is unbounded, or every step has the maximal length of the search. */
static bool diverged(run *r, const gd_step_info *info)
{
    r->endless = r->was_endless ? r->endless + 1 : 0;
    bool first = info->step == r->first_step + 1;
    bool lost = (info->has_loss && !first && !isfinite(r->began.loss)) || isinf(r->now.loss) ||
                r->endless >= IN_A_ROW;
    return (lost && !r->many_minima) || r->began.loss < UNBOUNDED || r->now.loss < UNBOUNDED;
}

/* Steps and changes of the loss within the tolerances, several in a row. */
static void check_small(run *r, double last, double moved, double size)
{
    const gd_solve_options *o = r->options;
    bool still = o->step_tol > 0 && moved <= o->step_tol * size;
    double from = isnan(r->now.loss) ? last : r->began.loss,
           to = isnan(r->now.loss) ? r->began.loss : r->now.loss;
    bool same = o->loss_tol > 0 && fabs(from - to) <= o->loss_tol * fabs(to);
    r->small = !r->failed && (still || same) ? r->small + 1 : 0;
    if (r->small >= (o->patience > 0 ? o->patience : 1)) stop(r, still ? GD_STOP_STEP : GD_STOP_LOSS);
}

static void check_limits(run *r, const gd_step_info *info)
{
    const gd_solve_options *o = r->options;
    if (o->max_steps && info->step - r->first_step >= o->max_steps) stop(r, GD_STOP_MAX_STEPS);
    if (o->max_evals && info->evals - r->first_eval >= o->max_evals) stop(r, GD_STOP_MAX_EVALS);
    if (o->max_seconds > 0 && gd__seconds() - r->start >= o->max_seconds) stop(r, GD_STOP_TIME);
}

/* The tolerance of the link that checks them. */
static void check_constraints(run *r)
{
    if (r->solved) stop(r, GD_STOP_GRADIENT);
    if (r->infeasible) stop(r, GD_STOP_INFEASIBLE);
}

/* The outcome of the whole run by a link. */
static void check_outcome(run *r)
{
    static const gd_stop reasons[] = {
        [GD_OUTCOME_SOLVED] = GD_STOP_GRADIENT,     [GD_OUTCOME_INFEASIBLE] = GD_STOP_INFEASIBLE,
        [GD_OUTCOME_UNBOUNDED] = GD_STOP_UNBOUNDED, [GD_OUTCOME_DEGENERATE] = GD_STOP_DEGENERATE,
        [GD_OUTCOME_FLAT] = GD_STOP_LOSS,           [GD_OUTCOME_STUCK] = GD_STOP_STUCK};
    if (r->outcome) stop(r, reasons[r->outcome]);
}

/* Where the nearest minimum is. */
static gd_status check_descent(run *r, const gd_step_info *info, double last, double moved, double size)
{
    const gd_solve_options *o = r->options;
    check_outcome(r);
    if (r->constrained)
        check_constraints(r);
    else if (o->gradient_tol > 0 && fmin(r->began.gradient, r->now.gradient) <= o->gradient_tol)
        stop(r, GD_STOP_GRADIENT);
    if (info->step == r->first_step + 1 && info->has_loss && !isfinite(r->began.loss))
        stop(r, GD_STOP_NOT_FINITE);
    if (diverged(r, info)) stop(r, GD_STOP_DIVERGED);
    if (!r->constrained) check_small(r, last, moved, size);
    bool judged = r->constrained || r->stopped || o->noisy ||
                  !(o->gradient_tol > 0); /* part of the gradient's rule */
    gd_status status = judged ? GD_OK : check_rounding(r, last, size);
    return r->stopped || status ? status : after_failure(r, moved);
}

static gd_status check(run *r, const gd_step_info *info, double last, double moved, double size)
{
    gd_status status = GD_OK;
    if (info->terminate) stop(r, GD_STOP_LINK);
    if (r->many_minima && !r->options->plain) {
        if (diverged(r, info)) stop(r, GD_STOP_DIVERGED);
    } else if (!r->options->plain)
        status = check_descent(r, info, last, moved, size);
    check_limits(r, info);
    return status;
}

/* ---- stepping ---- */

static gd_status one_step(run *r)
{
    const gd_solve_options *o = r->options;
    gd_step_info info;
    double last = r->failed ? NAN : r->began.loss, moved = 0, size = 0;
    bool outside = false;
    gd_status status = gd__origin_keep(&r->before, r->ctx, r->params, r->count);
    if (r->optimizer->asked.memo) gd__memo_arrive(r->optimizer->asked.memo);
    if (!status) status = gd_optimizer_step(r->optimizer, r->objective, &info);
    /* after a link with bounds: inside them */
    if (!status && r->optimizer->bounded)
        status = gd__bounds_clamp(r->optimizer, r->params, r->before.value, r->count, &outside);
    if (status) return status;
    r->began.loss = info.has_loss ? info.loss : NAN;
    r->failed = info.search_failed || info.skipped;
    if ((status = measure(r, &moved, &size))) return status;
    /* the link for constraints evaluated them before a box inside it moved a start from outside */
    if (!outside || !r->constrained) remember_best(r);
    status = look_after(r);
    if (!status) status = check(r, &info, last, moved, size);
    if (status) return status;
    bool known = !isnan(r->now.gradient);
    gd_progress progress = {.step = info.step - r->first_step,
                            .evals = info.evals - r->first_eval,
                            .loss = r->began.loss,
                            .loss_after = r->now.loss,
                            .gradient_norm = known ? r->now.gradient : r->began.gradient,
                            .gradient_length = known ? r->now.length : r->began.length,
                            .violation = r->constrained ? r->began.violation : NAN,
                            .step_norm = moved,
                            .seconds = gd__seconds() - r->start,
                            .failed = r->failed};
    if (o->callback && !o->callback(o->callback_user, &progress)) stop(r, GD_STOP_CALLER);
    return stop_together(r);
}

/* The reported outcome must hold at the point that is returned. */
static void settle(run *r)
{
    if (!r->constrained || r->options->plain) return;
    bool broken = !(r->now.violation <= r->violation_tol);
    if (r->reason == GD_STOP_INFEASIBLE && !broken) r->reason = GD_STOP_STUCK;
    if (gd_stop_converged(r->reason) && broken) r->reason = GD_STOP_INFEASIBLE;
}

/* Ends at the better of the last point and the best one before it; with plain, at the last. */
static gd_status finish(run *r, gd_status status)
{
    bool plain = r->options->plain, steps = gd_optimizer_steps(r->optimizer) > r->first_step;
    /* the gradient of a chain may be an estimate, for objectives without derivatives */
    const gd_objective *given = r->objective;
    bool has = (given->loss || given->gradient || given->rows || given->batch) && !r->constrained;
    bool gradient = has && (!steps || differentiated(r));
    if (!status && (isnan(r->now.loss) || (gradient && isnan(r->now.gradient))))
        status = look(r, gradient, false, &r->now);
    /* if the last step did not move, the link's outcome there is known */
    bool level = r->now.loss <= r->lowest.loss + 8 * r->eps * fabs(r->lowest.loss) &&
                 r->now.gradient <=
                     r->lowest.gradient; /* rounding alone does not make the other point better */
    if (!r->constrained && (plain || r->now.loss <= r->lowest.loss || level)) return status;
    bool chosen = r->reason == GD_STOP_GRADIENT || (r->reason == GD_STOP_LINK && r->many_minima);
    if (r->constrained && (plain || chosen || !better(r, &r->lowest, &r->now))) {
        r->now.gradient = r->began.gradient;
        return status;
    }
    gd_status back = gd__origin_return(&r->best);
    if (!status) status = back;
    if (isfinite(r->lowest.loss)) r->now = r->lowest;
    return status;
}

/* The gradient also vanishes at a saddle: checks the curvature before a run reports convergence. */
static gd_status look_for_saddle(run *r)
{
    const gd_solve_options *o = r->options;
    gd_curvature found;
    bool alone = !r->constrained && !r->optimizer->bounded && !o->noisy;
    if (!gd_stop_converged(r->reason) || !alone || !(r->now.gradient <= o->gradient_tol)) return GD_OK;
    int64_t evals = gd_optimizer_evals(r->optimizer) - r->first_eval;
    int64_t most = gd__curvature_budget(r->params, r->count, evals);
    if (o->max_evals && evals >= o->max_evals) return GD_OK; /* the graph costs one */
    most = most < o->curvature_products ? most : o->curvature_products;
    gd_status status = gd__curvature(r->optimizer, r->objective, most, &found);
    if (!status && found.falls) r->reason = GD_STOP_SADDLE;
    return status;
}

gd_status gd__solve_check(gd_ctx *ctx, const char *what, const gd_solve_options *o)
{
    const struct {
        const char *name;
        double value;
    } from_0[] = {{"max_steps", (double)o->max_steps}, {"max_evals", (double)o->max_evals},
                  {"max_seconds", o->max_seconds},     {"gradient_tol", o->gradient_tol},
                  {"step_tol", o->step_tol},           {"loss_tol", o->loss_tol},
                  {"patience", o->patience},           {"curvature_products", (double)o->curvature_products}};
    for (size_t i = 0; i < sizeof from_0 / sizeof *from_0; i++)
        if (!(from_0[i].value >= 0))
            return gd_fail(ctx, GD_ARGUMENT, "%s: %s is %g, must be 0 or more", what, from_0[i].name,
                           from_0[i].value);
    return GD_OK;
}

/* Where no parameter is to be changed every point is a minimum. */
static gd_status check_params(const run *r)
{
    for (int i = 0; i < r->count; i++)
        if (r->params[i]->leaf_grad) return GD_OK;
    return gd_fail(r->ctx, GD_ARGUMENT, "minimize: no parameter wants gradients (gd_require_grad)");
}

static gd_status prepare(run *r)
{
    gd_optimizer *o = r->optimizer;
    gd_status status = gd__solve_check(r->ctx, "minimize", r->options);
    if (status) return status;
    r->start = gd__seconds();
    r->count = gd_optimizer_count(o);
    r->first_step = gd_optimizer_steps(o);
    r->first_eval = gd_optimizer_evals(o);
    r->first_constraints = o->constraint_evals;
    r->params = gd__tensors_new(r->ctx, r->count);
    if (!r->params) return GD_NOMEM;
    for (int i = 0; i < r->count; i++) {
        r->params[i] = gd_optimizer_param(o, i);
        gd_dtype dtype = r->params[i]->dtype;
        r->eps = fmax(r->eps, dtype == GD_F64 ? DBL_EPSILON : dtype == GD_F32 ? FLT_EPSILON : 0x1p-7);
    }
    r->least_gradient = INFINITY;
    if (r->count && (status = check_params(r))) return status;
    o->watch = watch;
    o->watch_user = r;
    o->searching.careful = !r->options->plain;
    o->searching.steepest = false;
    o->searching.moved = false;
    o->searching.shorter = 0;
    o->searching.gain = NAN;
    gd_tensor **wanted = gd__tensors_new(r->ctx, r->count);
    if (!wanted) return GD_NOMEM;
    int count = active(r, wanted);
    const gd_objective *single = gd__evaluator_for(o, wanted, count, r->objective);
    if (single) r->objective = single;
    if (single && !r->options->noisy) o->asked.memo = gd__memo_new(r->ctx, wanted, count, r->first_step);
    r->constrained = r->objective->equal || r->objective->below;
    gd__free(r->ctx, wanted, (size_t)r->count * sizeof *wanted);
    return single && (o->asked.memo || r->options->noisy) ? GD_OK : gd_error(r->ctx);
}

/* An attribute of the optimizer as numbers, NAN if there is none. */
static gd_status copy_numbers(const run *r, const char *name, int64_t most, double *out)
{
    gd_tensor *t = gd_optimizer_attr_tensor(r->optimizer, name);
    int64_t count = t ? gd_numel(t) : 0;
    for (int64_t i = 0; i < most && out; i++) out[i] = NAN;
    if (!out || !count) return GD_OK;
    double *all = gd__alloc_array(r->ctx, (size_t)count, sizeof *all);
    gd_status status = all ? gd_read_f64(t, all, count) : GD_NOMEM;
    for (int64_t i = 0; i < count && i < most && !status; i++) out[i] = all[i];
    gd__free(r->ctx, all, (size_t)count * sizeof *all);
    return status;
}

static gd_status give_multipliers(const run *r)
{
    const gd_solve_options *o = r->options;
    int64_t n = 0;
    for (int i = 0; i < r->count; i++) n += gd_numel(r->params[i]);
    gd_status status = copy_numbers(r, "multipliers", o->multiplier_count, o->multipliers);
    if (!status) status = copy_numbers(r, "bound_multipliers", n, o->bound_multipliers);
    if (status || (!o->active && !o->sensitivities)) return status;
    return gd__sensitivities(r->optimizer, r->objective, gd_stop_converged(r->reason), o->multiplier_count,
                             o->active, o->sensitivities);
}

/* Gives the optimizer back to the caller. */
static void end_run(run *r)
{
    gd_optimizer *o = r->optimizer;
    gd__memo_free(o->asked.memo);
    o->asked.memo = NULL;
    gd__evaluator_forget(o);
    o->watch = NULL;
    o->searching.careful = o->searching.steepest = false;
    gd__origin_free(&r->before);
    gd__origin_free(&r->best);
    gd__free(r->ctx, r->params, (size_t)r->count * sizeof *r->params);
}

static gd_derivatives used_derivatives(const gd_asked *a)
{
    return a->estimated ? GD_DERIVATIVES_DIFFERENCES : a->exact ? GD_DERIVATIVES_EXACT : GD_DERIVATIVES_NONE;
}

static const gd_solve_result failure = {
    .reason = GD_STOP_ERROR, .loss = NAN, .gradient_norm = NAN, .violation = NAN};

gd_status gd_minimize_with(gd_optimizer *o, const gd_objective *objective, const gd_solve_options *options,
                           gd_solve_result *result)
{
    gd_solve_options defaults = gd_solve_defaults();
    if (result) *result = failure;
    if (!o || !objective)
        return gd__null(o ? gd_optimizer_ctx(o) : NULL, "minimize: the optimizer or the objective is NULL");
    run r = {.ctx = gd_optimizer_ctx(o),
             .optimizer = o,
             .objective = objective,
             .options = options ? options : &defaults,
             .began = nowhere,
             .now = nowhere,
             .lowest = {INFINITY, NAN, NAN, INFINITY},
             .reason = GD_STOP_ERROR};
    gd_status status = gd__not_stepping(o, "minimising");
    if (status) return gd__solve_tell(world_of(o, objective), r.ctx, status);
    status = prepare(&r);
    if (!status && r.options->plain && r.options->max_steps == 0 && !r.options->max_evals)
        stop(&r, GD_STOP_MAX_STEPS); /* plain steps: exactly zero */
    o->asked.exact = o->asked.estimated = false;
    while (!status && !r.stopped) status = one_step(&r);
    gd_derivatives derivatives = used_derivatives(&o->asked);
    if (r.params) status = finish(&r, status);
    if (!status) settle(&r);
    if (!status) status = look_for_saddle(&r);
    if (!status) status = give_multipliers(&r);
    if (result)
        *result = (gd_solve_result){.reason = status ? GD_STOP_ERROR : r.reason,
                                    .converged = !status && gd_stop_converged(r.reason),
                                    .loss = r.now.loss,
                                    .gradient_norm = r.now.gradient,
                                    .violation = r.now.violation,
                                    .steps = gd_optimizer_steps(o) - r.first_step,
                                    .evals = gd_optimizer_evals(o) - r.first_eval,
                                    .constraint_evals = o->constraint_evals - r.first_constraints,
                                    .seconds = gd__seconds() - r.start,
                                    .derivatives = derivatives};
    end_run(&r);
    return gd__solve_tell(world_of(o, objective), r.ctx, status);
}

/* A frozen parameter among others may be an oversight; with an optimizer of the caller it is intended. */
static void warn_of_frozen(gd_ctx *ctx, gd_tensor *const *params, int count)
{
    int frozen = 0, first = 0;
    for (int i = count - 1; i >= 0; i--)
        if (!params[i]->leaf_grad) frozen++, first = i;
    if (frozen && frozen < count)
        gd_warn(ctx,
                "minimize: %d of %d parameters, first params[%d], do not want gradients and stay as they are "
                "(gd_require_grad)",
                frozen, count, first);
}

/* e: where the default chain has counted the constraints, or NULL; consumed. */
static gd_status minimize_link(gd_tensor *const *params, int count, const gd_objective *objective,
                               gd_link *chain, gd_evaluator *e, const gd_solve_options *options,
                               gd_solve_result *result)
{
    if (result) *result = failure;
    if (!params || count <= 0 || !params[0] || !objective || !chain) {
        gd_ctx *ctx = params && count > 0 && params[0] ? gd_tensor_ctx(params[0]) : gd_link_ctx(chain);
        gd_status status = gd__null(ctx, "minimize: the parameters, the objective or the chain are NULL");
        gd_link_release(chain);
        gd__evaluator_free(e);
        return gd__solve_tell(world_of(NULL, objective), ctx, status);
    }
    gd_ctx *ctx = gd_tensor_ctx(params[0]);
    gd_optimizer *o = gd_optimizer_new(ctx, chain);
    gd_status status = o ? GD_OK : gd_error(ctx);
    for (int i = 0; i < count && !status; i++) {
        char name[24];
        snprintf(name, sizeof name, "p%d", i);
        status = gd_optimizer_add(o, name, params[i]);
    }
    if (o)
        gd__evaluator_give(o, e);
    else
        gd__evaluator_free(e);
    if (!status) {
        warn_of_frozen(ctx, params, count);
        status = gd_minimize_with(o, objective, options, result);
    } else
        (void)gd__solve_tell(world_of(NULL, objective), ctx, status);
    gd_optimizer_free(o);
    return status;
}

gd_status gd_minimize_link(gd_tensor *const *params, int count, const gd_objective *objective, gd_link *chain,
                           const gd_solve_options *options, gd_solve_result *result)
{
    return minimize_link(params, count, objective, chain, NULL, options, result);
}

gd_status gd_minimize(gd_tensor *const *params, int count, const gd_objective *objective, const char *chain,
                      const gd_solve_options *options, gd_solve_result *result)
{
    if (result) *result = failure;
    if (!params || count <= 0 || !params[0]) return GD_ARGUMENT;
    gd_ctx *ctx = gd_tensor_ctx(params[0]);
    gd_evaluator *e = NULL;
    gd_link *link = chain ? gd_chain(ctx, chain)
                          : gd__chain_for(params, count, objective, options && options->noisy, &e);
    if (link) return minimize_link(params, count, objective, link, e, options, result);
    gd__evaluator_free(e);
    return gd__solve_tell(world_of(NULL, objective), ctx, gd_error(ctx));
}
