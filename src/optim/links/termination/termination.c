/* Links that say when to stop.  They change nothing; the step info and gd_optimizer_should_terminate tell.  Put them where
 * what they look at is known: most at the end of the chain. */
#include "gradus/optim.h"

#include <math.h>

typedef gd_status (*criterion_fn)(gd_link *link, gd_var *var, bool *stop);

static gd_status decide(gd_link *link, gd_var *var, criterion_fn fn)
{
    bool stop = false;
    gd_status status = fn(link, var, &stop);
    if (!status) gd_var_terminate(var, stop);
    return status;
}

/* True in the n-th step in a row that it happens. */
static gd_status in_a_row(gd_link *link, bool happens, bool *stop)
{
    double times = happens ? gd_link_kept(link, "times", 0) + 1 : 0;
    *stop = times >= gd_link_real(link, "n", NULL);
    return gd_link_keep(link, "times", times);
}

/* ---- steps that failed ---- */

/* At the end of a step, when the parameters have moved: nothing here may fail. */
static gd_status keep_failure(void *user, gd_optimizer *optimizer, gd_var *var)
{
    (void)optimizer;
    if (gd_link_has_global(user, "failed")) *gd_link_global(user, "failed", 0) = gd_var_failed(var);
    return GD_OK;
}

/* *failed: the step before this one was a search that found nothing, or was skipped.  That parameters and loss are as they
 * were says nothing then.  What becomes of this step is known at its end only. */
static gd_status failed_before(gd_link *link, gd_var *var, bool *failed)
{
    double before = gd_link_kept(link, "failed", 0);
    *failed = before != 0;
    gd_status status = gd_link_keep(link, "failed", before);
    return status ? status : gd_var_after_step(var, keep_failure, link);
}

/* ---- counts ---- */

static gd_status after_evaluations(gd_link *link, gd_var *var, bool *stop)
{
    *stop = (double)gd_optimizer_evals(gd_var_optimizer(var)) >= gd_link_real(link, "maxevals", NULL);
    return GD_OK;
}

static gd_status after_steps(gd_link *link, gd_var *var, bool *stop)
{
    (void)var;
    double steps = gd_link_kept(link, "steps", 0) + 1;
    *stop = steps >= gd_link_real(link, "steps", NULL);
    return gd_link_keep(link, "steps", steps);
}

/* Time spent before a checkpoint counts. */
static gd_status after_seconds(gd_link *link, gd_var *var, bool *stop)
{
    double time, *last = gd_link_data(link);
    gd_status status = gd_var_seconds(var, &time);
    if (status) return status;
    double spent = gd_link_kept(link, "seconds", 0) + (*last > 0 ? time - *last : 0);
    *last = time;
    *stop = spent >= gd_link_real(link, "seconds", NULL);
    return gd_link_keep(link, "seconds", spent);
}

static void forget_clock(gd_link *link) { *(double *)gd_link_data(link) = 0; }

static gd_status never(gd_link *link, gd_var *var, bool *stop)
{
    (void)link;
    (void)var;
    *stop = false;
    return GD_OK;
}

/* ---- norms ---- */

static gd_status by_gradient(gd_link *link, gd_var *var, bool *stop)
{
    gd_tensor *const *grad = gd_var_grad(var);
    double norm = 0;
    gd_status status = grad ? gd_list_norm(grad, gd_var_count(var), gd_link_real(link, "ord", NULL), &norm)
                            : gd_error(gd_var_ctx(var));
    return status ? status : in_a_row(link, norm <= gd_link_real(link, "tol", NULL), stop);
}

/* The change of the parameters since the last step. */
static gd_status by_update(gd_link *link, gd_var *var, bool *stop)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    gd_tensor *const *params = gd_var_params(var);
    gd_tensor **change = gd_link_scratch(link, 2 * count);
    if (!change) return gd_error(ctx);
    gd_tensor **before = change + count;
    bool known = true;
    gd_status status = GD_OK;
    for (int i = 0; i < count && known; i++) known = gd_link_has_state(link, params[i], "previous_params");
    for (int i = 0; i < count && known && !status; i++)
        if (!(before[i] = gd_link_state(link, params[i], "previous_params"))) status = gd_error(ctx);
    double norm = INFINITY;
    if (!status && known) {
        status = gd_list_combined(params, 1, before, -1, count, change);
        if (!status) status = gd_list_norm(change, count, gd_link_real(link, "ord", NULL), &norm);
    }
    for (int i = 0; i < count && !status; i++)
        status = gd_link_set_state(link, params[i], "previous_params", params[i]);
    bool failed = false;
    if (!status) status = failed_before(link, var, &failed);
    return status ? status : in_a_row(link, !failed && norm <= gd_link_real(link, "tol", NULL), stop);
}

/* ---- the loss ---- */

/* The loss at the parameters, with the gradient where that has to be evaluated anyway. */
static gd_status loss_of(gd_var *var, double *loss)
{
    *loss = gd_var_loss_value(var, gd_var_wants_gradient(var));
    return gd_error(gd_var_ctx(var));
}

static gd_status on_loss(gd_link *link, gd_var *var, bool *stop)
{
    double loss;
    gd_status status = loss_of(var, &loss);
    *stop = loss <= gd_link_real(link, "value", NULL);
    return status;
}

/* None in n steps was better than the best before by more than tol. */
static gd_status no_improvement(gd_link *link, gd_var *var, bool *stop)
{
    double loss, best = gd_link_kept(link, "best", INFINITY);
    bool failed = false;
    gd_status status = loss_of(var, &loss);
    if (!status) status = failed_before(link, var, &failed);
    bool better = loss < best - gd_link_real(link, "tol", NULL) || (isfinite(loss) && isinf(best));
    if (!status && better) status = gd_link_keep(link, "best", loss);
    return status ? status : in_a_row(link, !better && !failed, stop);
}

/* ---- several criteria ---- */

static gd_status combined(gd_link *link, gd_var *var, bool all, bool *stop)
{
    gd_status status = GD_OK;
    int yes = 0, count = gd_link_children(link);
    /* every one is asked: they count steps */
    for (int i = 0; i < count && !status; i++) {
        bool says = false;
        status = gd_var_ask(var, gd_link_child_at(link, i), &says);
        yes += says;
    }
    *stop = count > 0 && (all ? yes == count : yes > 0);
    return status;
}

static gd_status all_of(gd_link *link, gd_var *var, bool *stop) { return combined(link, var, true, stop); }
static gd_status any_of(gd_link *link, gd_var *var, bool *stop) { return combined(link, var, false, stop); }

/* ---- classes ---- */

#define TOL   GD_REAL("tol", 1e-8, 0, INFINITY, "what counts as small")
#define N(d)  GD_INT("n", d, 1, 1e9, "steps in a row that it must hold")
#define ORDER GD_REAL("ord", 2, 1e-3, INFINITY, "order of the norm")

static const gd_field evaluation_fields[] = {GD_INT_NEEDED("maxevals", 0, 1e15, "evaluations to stop after")};
static const gd_field second_fields[] = {GD_REAL_NEEDED("seconds", 0, INFINITY, "time to stop after")};
static const gd_field step_fields[] = {GD_INT_NEEDED("steps", 0, 1e15, "steps to stop after")};
static const gd_field criteria_fields[] = {GD_CHILDREN("criteria", "termination links")};
static const gd_field norm_fields[] = {TOL, N(3), ORDER};
static const gd_field loss_fields[] = {GD_REAL_NEEDED("value", -INFINITY, INFINITY, "loss to reach")};
static const gd_field improvement_fields[] = {TOL, N(10)};
static const gd_slot update_slots[] = {{"previous_params", 0}};

#define CRITERION(NAME, fn, SUMMARY, FORMULA, EXAMPLE, ...)                                    \
    static gd_status NAME##_step(gd_link *link, gd_var *var) { return decide(link, var, fn); } \
    GD_LINK(termination, NAME, .spread = GD_SPREAD_WHOLE, .summary = SUMMARY, .formula = FORMULA, \
            .example = EXAMPLE, \
            .cost = "a comparison per step, with a norm where it looks at one", \
            .step = NAME##_step, __VA_ARGS__);

CRITERION(terminate_after_n_evaluations, after_evaluations, "stops after a number of evaluations",
          "evals >= maxevals", "lbfgs | strong_wolfe | terminate_after_n_evaluations(200)",
          GD_FIELDS(evaluation_fields))
CRITERION(terminate_after_n_seconds, after_seconds, "stops after a time", "time >= seconds",
          "adam | lr(0.01) | terminate_after_n_seconds(60)", GD_FIELDS(second_fields),
          .data_size = sizeof(double), .reset = forget_clock)
CRITERION(terminate_after_n_steps, after_steps, "stops after a number of steps", "step >= steps",
          "adam | lr(0.01) | terminate_after_n_steps(1000)", GD_FIELDS(step_fields))
CRITERION(terminate_all, all_of, "stops when all its criteria say so", "c_1 and ... and c_n",
          "adam | lr(0.01) | terminate_all(terminate_after_n_steps(100), terminate_on_no_improvement)",
          GD_FIELDS(criteria_fields))
CRITERION(terminate_any, any_of, "stops when one of its criteria says so", "c_1 or ... or c_n",
          "adam | lr(0.01) | terminate_any(terminate_after_n_steps(1000), terminate_by_gradient_norm(1e-6))",
          GD_FIELDS(criteria_fields))
CRITERION(terminate_by_gradient_norm, by_gradient, "stops when the gradient is small",
          "norm(g) <= tol, n steps in a row", "lbfgs | strong_wolfe | terminate_by_gradient_norm(1e-6)",
          GD_FIELDS(norm_fields))
CRITERION(terminate_by_update_norm, by_update, "stops when the parameters hardly move",
          "norm(p - p_before) <= tol, n steps in a row that did not fail",
          "lbfgs | strong_wolfe | terminate_by_update_norm(1e-9)", GD_FIELDS(norm_fields),
          GD_SLOTS(update_slots))
CRITERION(terminate_never, never, "never stops", "false", "adam | lr(0.01) | terminate_never", .fields = NULL)
CRITERION(terminate_on_loss_reached, on_loss, "stops when the loss is low enough", "f <= value",
          "adam | lr(0.01) | terminate_on_loss_reached(0.001)", GD_FIELDS(loss_fields))
CRITERION(terminate_on_no_improvement, no_improvement, "stops when the loss gets no better",
          "f >= best - tol, n steps in a row that did not fail",
          "adam | lr(0.01) | terminate_on_no_improvement(n=20)", GD_FIELDS(improvement_fields))
