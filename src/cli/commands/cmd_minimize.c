/* gradus minimize: an expression, its parameters, a chain. */
#include "cli/cli.h"
#include "base/text/number.h"
#include "file/output.h"
#include "cli/problem_options.h"
#include "expr/expr_advice.h"
#include "plot/plot_internal.h"
#include "problem/constraints.h"
#include "problem/kept.h"
#include "problem/problem_rows.h"
#include "problem/run_state.h"
#include "file/run_log.h"
#include "cli/commands/tuning_options.h"
#include "cli/table_options.h"
#include "optim/state/tuning.h"
#include "optim/text/until.h"
#include "cli/outcome.h"
#include "gradus/autograd.h"
#include "gradus/file.h"
#include "gradus/solve.h"
#include "optim/solve/solve_internal.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BY_LOSSES_ONLY "cma_es" /* without gradients */
#define VIOLATION      1e-6     /* the default tolerance of augmented_lagrangian */
#define NO_LOSS \
    "the value is true or false, which is no loss; a condition on the parameters is --subject 'EXPR'"

static const gd_option options[] = {
    GD_PARAM_OPTION,
    GD_TUNING_OPTIONS(GD_DEFAULT_CHAIN),
    GD_REPEATED(
        "bound", "BOUND",
        "keep a parameter inside, ends included: 'x>0', '0<x<1', 'x[2]<5', 'x>[0,1,2]', 'x<@high.npy'"),
    GD_REPEATED(
        "subject", "EXPR",
        "a constraint: 'x^2+y^2 <= 1', 'sum(w) = 1', '0 <= x*y <= 1', for every element; < means <=; uses "
        "the chain nlp, or augmented_lagrangian around that of --chain"),
    GD_REPEATED("equal", "EXPR", "a constraint: EXPR = 0; or an equality, 'sum(w) = 1'"),
    GD_REPEATED("below", "EXPR", "a constraint: EXPR <= 0; or an inequality, 'x*y <= 1' or 'x*y >= 1'"),
    GD_OPTION(
        "starts", "N",
        "number of starts: the given one and others spread between the bounds, or around it without bounds; "
        "the result is the lowest minimum, with constraints the lowest feasible one; adds multi_start around "
        "the chain (1)"),
    GD_OPTION("gradient", "exact|differences|none",
              "differences of losses, or none: losses only, by the chain " BY_LOSSES_ONLY
              " unless --chain is given, which takes differences where it asks for gradients (exact)"),
    GD_OPTION(
        "steps", "N",
        "exactly N steps of the chain as written; with --until at most N (until converged, at most 1000)"),
    GD_REPEATED(
        "until", "CONDITION",
        "also stop at one of these: loss<X, loss_change<X, grad_norm<X, kkt<X, step_norm<X, evals>N, seconds>X"),
    GD_OUTPUT(
        "trace",
        "one JSON object per line and step, the start as step 0: step, loss (before the step), loss_after, "
        "evals, params (after it)"),
    GD_OUTPUT("plot", "the loss, or for two parameters their path over contours, as " GD_PICTURES),
    GD_DARK_OPTION,
    GD_OUTPUT("out", "the parameters, as .safetensors"),
    GD_PATH_OPTION("save", "FILE", GD_PATH_WRITE_CONTINUED, "the state for --resume, as .safetensors"),
    GD_PATH_OPTION(
        "resume", "FILE", GD_PATH_CONTINUE,
        "continue a saved run with its parameters, chain and optimizer; --chain, --group and --schedule may "
        "change settings; with --steps the bits are the same as without the stop; also the default of --save"),
    GD_SWITCH(
        "json",
        "print one JSON object: loss, gradient_norm, condition_estimate, steps, evals, converged, stopped, "
        "reason, derivatives (exact, differences or none), seconds, params; kkt with bounds or constraints; "
        "violation, constraint_evals, multipliers and constraints (text, values, violation, active, multipliers of each) with constraints; "
        "bound_multipliers if the chain has them"),
    GD_SWITCH(
        "sensitivities",
        "also print how the minimum moves per unit of b if constraints are left - right = b or <= b (for >= "
        "the sides are swapped); with --json a member of each constraint. The loss changes by - multiplier"),
    GD_DATA_OPTIONS,
    GD_OPTION(
        "split", "NAMES",
        "data, joined by commas, whose rows are distributed over processes: the loss must be a vector, or a sum or mean over them"),
    GD_OPTION("microbatch", "ROWS",
              "rows of --split evaluated at a time; equal microbatches give equal bits for any number of "
              "processes; 0: all (0; with several processes an eighth of the rows)"),
    GD_WORLD_OPTION,
    {0},
};

#define DEFAULT_STEPS 1000

typedef struct job {
    gd_cli *cli;
    const gd_args *args;
    gd_problem_arguments arguments;
    gd_problem *problem;  /* of the arguments */
    gd_problem_rows rows; /* --split */
    gd_optimizer *optimizer;
    gd_run_writer *tracer;
    gd_until until;
    int64_t steps, starts;
    gd_gradients gradient;
    const char *chosen;  /* without --chain: the chain chosen by the constraints; else NULL */
    bool exact;          /* the chain demands a fixed number of steps */
    const char *stopped; /* by a condition, or interrupted; else NULL */
    char ended[80];      /* message of a search at its end */
    gd_trouble why;      /* the first failure */
    bool lost;           /* without a result */
    gd_kept kept;
    gd_archive *run; /* --resume */
    gd_slow_save slow;
    gd_solve_result result;
    double *slopes; /* --sensitivities: [elements of the parameters, constraints], or NULL */
    size_t slopes_bytes;
    double condition; /* of the Hessian at the end; NAN: not known */
    bool saddle;      /* there is no gradient at the end, but the loss falls along some direction */
    double last_loss;
    gd_meter progress;
    const char *plot, *out, *save;
    double (*history)[4]; /* step, loss, x, y */
    size_t count, history_bytes;
    bool plane;
} job;

/* ---- preparing ---- */

static const char *chain_text(const job *j)
{
    const char *given = gd__args_get(j->args, "chain");
    if (!given) given = gd__run_chain(j->run);
    if (given || j->chosen) return given ? given : j->chosen;
    return j->gradient == GD_GRADIENTS_NONE ? BY_LOSSES_ONLY : GD_DEFAULT_CHAIN;
}

static bool constrained(const job *j) { return gd__problem_is_constrained(j->problem); }

static gd_status check_schedules(const gd_args *args)
{
    gd_words given = {0};
    gd_status status = gd__words_of_option(args, "schedule", false, &given);
    if (!status) status = gd__tune_check_schedules(args->ctx, given.word, given.count);
    gd__words_free(args->ctx, &given);
    return status;
}

/* Without --chain and without a chain in --resume, the constraints decide. */
static gd_status choose_chain(job *j)
{
    bool named = gd__args_has(j->args, "chain") || gd__run_chain(j->run);
    return named ? GD_OK : gd__problem_choose_chain(j->problem, &j->chosen);
}

static gd_status make_optimizer(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    if (choose_chain(j)) return gd_error(ctx);
    gd_link *link = gd_chain(ctx, chain_text(j)), *chain = link;
    gd_status status = link ? check_schedules(j->args) : gd_error(ctx);
    int at = 0;
    for (const char *text; !status && (text = gd__args_next(j->args, "group", &at));)
        status = gd__tune_split(ctx, &link, text);
    const gd_link *split = link;
    if (status) gd_link_release(link);
    if (!status) status = gd__problem_restrict(j->problem, j->starts, DEFAULT_STEPS, &link);
    j->optimizer = status ? NULL : gd_optimizer_new(ctx, link);
    if (!j->optimizer) return gd_error(ctx);
    for (int i = 0; i < j->problem->params && !status; i++)
        status = gd_optimizer_add(j->optimizer, j->problem->name[i], j->problem->value[i]);
    at = 0;
    for (const char *text; !status && (text = gd__args_next(j->args, "group", &at));)
        status = gd__tune_group(j->optimizer, text);
    at = 0;
    for (const char *text; !status && (text = gd__args_next(j->args, "schedule", &at));)
        status = gd__tune_schedule(j->optimizer, text);
    if (!status && gd__args_has(j->args, "chain") && !gd__tune_uses(j->optimizer, split, chain))
        gd_warn(ctx,
                "minimize: --chain has no effect: every parameter has a --group with a chain of its own");
    return status;
}

static gd_status check_outputs(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    gd_status status = GD_OK;
    j->plot = gd__args_get(j->args, "plot");
    j->out = gd__args_get(j->args, "out");
    if (!j->plot && gd__args_has(j->args, "dark"))
        status = gd_fail(ctx, GD_ARGUMENT, "minimize: --dark is for --plot, which is not given");
    if (j->plot) status = gd_plot_check_path(ctx, j->plot);
    if (j->plot && !status) status = gd__check_output(ctx, j->plot);
    if (j->out && !status) status = gd__check_file(ctx, j->out);
    j->save = gd__args_get(j->args, "save");
    if (!j->save) j->save = gd__args_get(j->args, "resume");
    if (!gd__cli_speaks(j->cli)) j->save = NULL;
    if (j->save && !status) status = gd__check_file(ctx, j->save);
    return status;
}

/* Checks combinations of options. */
static gd_status check_options(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    bool asks = j->until.uses[GD_UNTIL_GRAD_NORM] || j->until.uses[GD_UNTIL_KKT];
    if (constrained(j) && j->gradient == GD_GRADIENTS_NONE)
        return gd_fail(ctx, GD_ARGUMENT,
                       "minimize: --subject, --equal and --below need gradients, --gradient none gives none");
    if (!constrained(j) && gd__args_has(j->args, "sensitivities"))
        return gd_fail(
            ctx, GD_ARGUMENT,
            "minimize: --sensitivities are those of --subject, --equal and --below, and none is given");
    if (j->gradient == GD_GRADIENTS_NONE && gd__args_has(j->args, "split"))
        return gd_fail(ctx, GD_ARGUMENT, "minimize: --split does not go with --gradient none");
    if (asks && j->gradient == GD_GRADIENTS_NONE)
        return gd_fail(ctx, GD_ARGUMENT,
                       "minimize: --until asks for the gradient, --gradient none gives none");
    return GD_OK;
}

/* Settings of the command line apply to a resumed run. */
static bool gives_settings(const gd_args *args)
{
    return gd__args_has(args, "chain") || gd__args_has(args, "group") || gd__args_has(args, "schedule");
}

/* Checks --split against the number of processes. */
static gd_status open_rows(job *j, const gd_words *names)
{
    gd_cli *cli = j->cli;
    gd_ctx *ctx = cli->ctx;
    int64_t microbatch = -1;
    if (!names->count) {
        if (gd__args_has(j->args, "microbatch"))
            return gd_fail(ctx, GD_ARGUMENT, "minimize: --microbatch is for --split, which is not given");
        if (cli->world)
            gd_warn(ctx, "minimize: every process computes all of it: --split NAMES shares rows of data");
        return GD_OK;
    }
    gd_status status = gd__args_integer(j->args, "microbatch", 0, INT64_MAX, &microbatch);
    if (!status) status = gd__problem_rows_open(j->problem, names, cli->world, microbatch, &j->rows);
    const gd_batch *b = &j->rows.batch;
    if (status) return status;
    if (!b->microbatch)
        gd_warn(ctx,
                cli->world
                    ? "minimize: --split has no effect: with --microbatch 0 every process computes all rows"
                    : "minimize: --split has no effect: this process is alone, and there is no --microbatch");
    int64_t size = cli->world ? gd_world_size(cli->world) : 1;
    int64_t parts = b->microbatch ? (b->rows - 1) / b->microbatch + 1 : size;
    if (parts < size)
        gd_warn(ctx, "minimize: %lld rows in microbatches of %lld: %lld of %lld processes without work",
                (long long)b->rows, (long long)b->microbatch, (long long)(size - parts), (long long)size);
    return GD_OK;
}

static gd_status split_rows(job *j)
{
    gd_words names = {0};
    gd_status status = gd__words_of_option(j->args, "split", true, &names);
    if (!status) status = open_rows(j, &names);
    gd__words_free(j->cli->ctx, &names);
    return status;
}

/* A step that runs is completed; after a signal, slow steps need not be. */
static bool is_stopped(void *user)
{
    const job *j = user;
    return !j->exact && !j->stopped && !j->cli->world && gd__interrupt_pending();
}

static gd_status open_problem(job *j)
{
    gd_problem_arguments *a = &j->arguments;
    gd_status status = gd__problem_arguments_read(a, j->args, j->args->argument[0]);
    a->spec.gradients = j->gradient;
    a->spec.interrupted = is_stopped;
    a->spec.user = j;
    if (!status && !a->spec.params->count)
        status = gd_fail(j->cli->ctx, GD_ARGUMENT, "minimize: no --param given: nothing to change");
    if (!status) status = gd__problem_arguments_open(a);
    if (!status) status = gd__expr_refuse_truth(j->cli->ctx, NULL, j->problem->expr, NO_LOSS);
    if (!status) status = gd__problem_check_names(j->problem);
    if (!status) status = check_options(j);
    return status ? status : split_rows(j);
}

static gd_status read_how(job *j)
{
    int at = 0, gradient = 0;
    gd_status status = gd__args_integer(j->args, "starts", 1, 1000000, &j->starts);
    if (!status) status = gd__args_choice(j->args, "gradient", "exact differences none", &gradient);
    j->gradient = (gd_gradients)gradient;
    j->steps *= j->starts;
    if (!status) status = gd__args_integer(j->args, "steps", 0, INT64_MAX, &j->steps);
    for (const char *text; !status && (text = gd__args_next(j->args, "until", &at));)
        status = gd__until_parse(j->cli->ctx, text, &j->until);
    j->exact = gd__args_has(j->args, "steps") && (!j->until.count || j->steps == 0);
    return status;
}

static gd_status prepare_minimize(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    gd_status status = read_how(j);
    if (!status) status = check_outputs(j);
    if (!status) status = open_problem(j);
    const char *resume = gd__args_get(j->args, "resume");
    if (!status && resume && !(j->run = gd__run_open(j->problem, j->args->argument[0], resume)))
        status = gd_error(ctx);
    if (!status) status = make_optimizer(j);
    if (!status && resume)
        status = gd__run_load(j->problem, j->optimizer, j->run, gd__args_get(j->args, "chain"),
                              gives_settings(j->args), resume);
    const char *trace = gd__args_get(j->args, "trace");
    if (!status && trace && !(j->tracer = gd__run_writer_open(ctx, trace))) status = gd_error(ctx);
    char axis[2][80];
    j->plane = !status && gd__problem_is_plane(j->problem, axis);
    return status;
}

/* ---- stepping ---- */

/* A row for the plot: the parameters and their loss, NAN until it is known. */
static gd_status add_history(job *j, int64_t step, double loss)
{
    if (!j->plot) return GD_OK;
    if ((j->count + 1) * sizeof *j->history > j->history_bytes) {
        size_t bytes = j->history_bytes ? j->history_bytes * 2 : 256 * sizeof *j->history;
        void *grown = gd__realloc(j->cli->ctx, j->history, j->history_bytes, bytes);
        if (!grown) return GD_NOMEM;
        j->history = grown;
        j->history_bytes = bytes;
    }
    double *row = j->history[j->count++];
    row[0] = (double)step;
    row[1] = loss;
    return j->plane ? gd__list_read(j->problem->value, j->problem->params, row + 2) : GD_OK;
}

/* The loss of the last row, once it is known. */
static void set_history(job *j, double loss)
{
    if (j->count && isnan(j->history[j->count - 1][1])) j->history[j->count - 1][1] = loss;
}

/* The stopping condition that holds after this step, if any. A failed step does not count as small. */
static const char *condition_met(const job *j, const gd_progress *p)
{
    double seconds = j->until.uses[GD_UNTIL_SECONDS] ? gd__cli_first(j->cli, p->seconds) : p->seconds;
    bool known = !isnan(p->loss_after);
    double change = known ? fabs(p->loss_after - p->loss) : fabs(p->loss - j->last_loss);
    double values[GD_UNTIL_COUNT] = {[GD_UNTIL_LOSS] = known ? p->loss_after : p->loss,
                                     [GD_UNTIL_LOSS_CHANGE] = p->failed ? NAN : change,
                                     [GD_UNTIL_GRAD_NORM] = p->gradient_length,
                                     [GD_UNTIL_STEP_NORM] = p->failed ? NAN : p->step_norm,
                                     [GD_UNTIL_KKT] = p->gradient_norm,
                                     [GD_UNTIL_EVALS] = (double)p->evals,
                                     [GD_UNTIL_SECONDS] = seconds};
    return gd__until_met(&j->until, values);
}

static gd_status save(job *j, gd_tensor *const *values, double loss)
{
    char number[40];
    gd_ctx *ctx = j->cli->ctx;
    gd_archive *archive = gd_archive_new(ctx);
    if (!archive) return GD_NOMEM;
    gd_status status = GD_OK;
    for (int i = 0; i < j->problem->params && !status; i++)
        status = gd_archive_put(archive, j->problem->name[i], values[i]);
    (void)gd__format(number, sizeof number, "%.17g", loss);
    if (!status) status = gd_archive_set_meta(archive, "expression", j->args->argument[0]);
    if (!status) status = gd_archive_set_meta(archive, "chain", chain_text(j));
    if (!status && !isnan(loss)) status = gd_archive_set_meta(archive, "loss", number);
    if (!status) status = gd_archive_save(archive, j->out);
    gd_archive_free(archive);
    return status;
}

/* A signal may not wait for the end of the next step. */
static void save_slow(job *j, const gd_progress *p)
{
    bool good = isnan(p->loss_after) ? isfinite(p->loss) : p->loss_after <= p->loss;
    if (!j->out || !gd__slow_step(&j->slow) || !good) return;
    gd__slow_saved(j->cli->ctx, &j->slow, save(j, j->problem->value, p->loss_after));
}

static gd_status record(job *j, const gd_progress *p)
{
    gd_run_numbers numbers = {p->step, p->loss, p->loss_after, p->evals};
    gd_status status = GD_OK;
    if (j->tracer)
        status = gd__run_writer_step(j->tracer, &numbers, j->problem->name, j->problem->value,
                                     j->problem->params);
    set_history(j, p->loss);
    if (!status) status = add_history(j, p->step, p->loss_after);
    return status ? status : gd__kept_step(&j->kept, j->problem, p->loss);
}

/* After every step; false ends the run. */
static bool after_step(void *user, const gd_progress *p)
{
    job *j = user;
    /* deferred: the remaining work for the result is done without an error in the context */
    gd__put_aside(j->cli->ctx, record(j, p), &j->why);
    j->stopped = condition_met(j, p);
    int any = gd__cli_any(j->cli, gd__interrupt_pending() | (j->why.status != GD_OK) << 1);
    if (any & 1) j->stopped = "interrupted";
    if (!j->stopped) save_slow(j, p);
    j->last_loss = p->failed ? NAN : p->loss;
    gd__meter_show(&j->progress, "step", p->step, p->loss);
    return !(any & 2) && !j->stopped;
}

/* The tolerance of the gradient, in the dtype of the computation. */
static double gradient_tolerance(const job *j) { return j->problem->spec.dtype == GD_F64 ? 1e-8 : 1e-4; }

/* Inside a long evaluation; several processes end together between two steps. */
static bool is_interrupted(void *user)
{
    const job *j = user;
    return !j->cli->world && !j->stopped && gd__interrupt_pending();
}

/* After a failure the best point is saved; the error is deferred until then. */
static void step_all(job *j)
{
    gd_problem *p = j->problem;
    gd_solve_options o = gd_solve_defaults();
    o.max_steps = j->steps;
    o.gradient_tol = gradient_tolerance(j);
    o.plain = j->exact;
    o.curvature_products = 0; /* the condition number is requested too: estimate_condition checks */
    o.look = j->until.uses[GD_UNTIL_GRAD_NORM] || j->until.uses[GD_UNTIL_KKT];
    o.callback = after_step;
    o.callback_user = j;
    j->progress = gd__meter_start(j->steps);
    gd__interrupt_catch(GD_GRACE);
    j->slow.begun = gd__cli_seconds();
    gd_status status = add_history(j, 0, NAN);
    if (!status && j->tracer) status = gd__run_writer_start(j->tracer, p->name, p->value, p->params);
    if (!status && j->out && j->exact) status = gd__kept_start(&j->kept, p);
    gd_objective objective = gd__problem_objective(j->problem);
    const gd_observer asks = {.interrupted = is_interrupted, .user = j};
    gd_ctx_observe(j->cli->ctx, &asks);
    if (!status) status = gd_minimize_with(j->optimizer, &objective, &o, &j->result);
    gd_ctx_observe(j->cli->ctx, NULL);
    status = gd__constraints_explain(p, status);
    if (isnan(j->result.loss)) j->result.loss = NAN; /* its sign says nothing */
    gd__meter_end(&j->progress);
    (void)gd__interrupted();
    if (status && gd_error(j->cli->ctx) == GD_INTERRUPTED && isfinite(j->result.loss)) {
        gd_clear_error(j->cli->ctx); /* as between two steps */
        j->stopped = "interrupted";
        status = GD_OK;
    }
    j->lost = status != GD_OK;
    gd__put_aside(j->cli->ctx, status, &j->why);
    set_history(j, j->result.loss);
    if (!j->lost && j->tracer)
        gd__put_aside(j->cli->ctx,
                      gd__run_writer_last(j->tracer, j->result.loss, p->name, p->value, p->params), &j->why);
}

static bool has_box(const gd_link *link)
{
    if (!strcmp(gd_link_class_of(link)->name, "box")) return true;
    for (int i = 0; i < gd_link_children(link); i++)
        if (has_box(gd_link_child_at(link, i))) return true;
    return false;
}

/* By --bound, or by the chain. */
static bool bounded(const job *j)
{
    return gd__problem_is_bounded(j->problem) || (j->optimizer && has_box(gd_optimizer_chain(j->optimizer)));
}

/* At any end without constraints: costs at most a small fraction of the run. */
static gd_status estimate_condition(job *j)
{
    gd_curvature found;
    if (bounded(j) || j->gradient != GD_GRADIENTS_EXACT || !isfinite(j->result.loss)) return GD_OK;
    int64_t most = gd__curvature_budget(j->problem->value, j->problem->params, j->result.evals);
    gd_objective objective = gd__problem_objective(j->problem);
    gd_status status = gd__curvature(j->optimizer, &objective, most, &found);
    if (status) return status;
    j->saddle = found.falls && j->result.gradient_norm <= gradient_tolerance(j);
    if (!j->saddle) j->condition = found.condition; /* it is one of minima */
    return GD_OK;
}

/* ---- results ---- */

/* Short words for programs. */
static const char *stopped_by(const job *j)
{
    static const char *const words[GD_STOP_COUNT] = {[GD_STOP_GRADIENT] = "gradient",
                                                     [GD_STOP_LOSS] = "loss",
                                                     [GD_STOP_LINK] = "terminated by a link",
                                                     [GD_STOP_INFEASIBLE] = "infeasible",
                                                     [GD_STOP_UNBOUNDED] = "unbounded",
                                                     [GD_STOP_DEGENERATE] = "degenerate",
                                                     [GD_STOP_STUCK] = "stuck",
                                                     [GD_STOP_DIVERGED] = "diverged",
                                                     [GD_STOP_NOT_FINITE] = "not finite",
                                                     [GD_STOP_MAX_STEPS] = "steps"};
    const char *word = j->saddle ? "saddle" : words[j->result.reason];
    if (j->result.reason == GD_STOP_CALLER && !j->stopped) return "output failed";
    return j->stopped ? j->stopped : word ? word : gd_stop_name(j->result.reason);
}

/* The run stopped because of it, or the point satisfies it. */
static bool converged(const job *j)
{
    const gd_solve_result *r = &j->result;
    bool small = r->gradient_norm <= gradient_tolerance(j);
    if (constrained(j) &&
        r->reason ==
            GD_STOP_LINK) /* solved according to augmented_lagrangian, at the best of several starts */
        return gd_optimizer_attr(j->optimizer, "solved", 0) != 0;
    return !j->saddle && ((r->converged && r->reason != GD_STOP_LINK) || (small && !constrained(j)));
}

/* The progress message of a search among many minima. */
static const char *why(job *j)
{
    double starts = gd_optimizer_attr(j->optimizer, "starts", NAN),
           restarts = gd_optimizer_attr(j->optimizer, "restarts", NAN);
    if (j->stopped) return j->stopped;
    if (j->result.reason == GD_STOP_CALLER && j->why.status) return j->why.text; /* an output that failed */
    if (j->saddle)
        return "there is no gradient, but a direction in which the loss falls: a saddle or a maximum; start elsewhere";
    if (j->result.reason != GD_STOP_LINK || (isnan(starts) && isnan(restarts)))
        return gd_stop_text(j->result.reason);
    if (!isnan(starts))
        (void)gd__format(j->ended, sizeof j->ended, "the lowest of %.0f starts", starts);
    else
        (void)gd__format(j->ended, sizeof j->ended, "the lowest of %.0f runs", restarts);
    return j->ended;
}

static const gd_tensor *multipliers(const job *j)
{
    return gd_optimizer_attr_tensor(j->optimizer, "multipliers");
}

static gd_status print_json(job *j)
{
    gd_text *out = &j->cli->out;
    gd_status status = GD_OK;
    gd__text_char(out, '{');
    gd__json_put_number(out, "loss", j->result.loss);
    gd__json_put_number(out, "gradient_norm", j->result.gradient_norm);
    gd__json_put_number(out, "condition_estimate", j->condition);
    if (bounded(j)) gd__json_put_number(out, "kkt", j->result.gradient_norm);
    status = gd__bounds_json(j->problem, gd_optimizer_attr_tensor(j->optimizer, "bound_multipliers"), out);
    if (constrained(j) && !status) {
        gd__json_put_number(out, "violation", j->result.violation);
        gd__json_put_whole(out, "constraint_evals", j->result.constraint_evals);
        status = gd__constraints_json(j->problem, multipliers(j), j->slopes, VIOLATION, out);
    }
    gd__json_put_whole(out, "steps", j->result.steps);
    gd__json_put_whole(out, "evals", j->result.evals);
    gd__json_key(out, "converged");
    gd__text_add(out, converged(j) ? "true" : "false");
    gd__json_put_string(out, "stopped", stopped_by(j));
    gd__json_put_string(out, "reason", why(j));
    gd__json_put_string(out, "derivatives", gd_derivatives_name(j->result.derivatives));
    gd__json_put_number(out, "seconds", j->result.seconds);
    gd__json_key(out, "params");
    gd__text_char(out, '{');
    for (int i = 0; i < j->problem->params && !status; i++) {
        gd__json_key(out, j->problem->name[i]);
        status = gd__json_tensor(out, j->problem->value[i]);
    }
    gd__text_add(out, "}}\n");
    return status;
}

/* A parameter with ten digits; of a large one only the shape. */
static gd_status print_param(gd_text *out, const char *name, const gd_tensor *t)
{
    double v[12];
    int64_t count = gd_numel(t);
    gd__text_put(out, "%s = ", name);
    if (count > 12 || gd_ndim(t) > 1) {
        gd__text_add(out, "array");
        for (int i = 0; i < gd_ndim(t); i++)
            gd__text_put(out, "%s%lld", i ? " x " : " of ", (long long)gd_size(t, i));
        gd__text_char(out, '\n');
        return GD_OK;
    }
    gd_status status = gd_read_f64(t, v, count);
    if (gd_ndim(t)) gd__text_char(out, '[');
    for (int64_t i = 0; i < count && !status; i++) gd__text_put(out, "%s%.10g", i ? ", " : "", v[i]);
    gd__text_add(out, gd_ndim(t) ? "]\n" : "\n");
    return status;
}

static gd_status print_text(job *j)
{
    gd_text *out = &j->cli->out;
    const gd_solve_result *r = &j->result;
    gd_status status = GD_OK;
    gd__text_put(out, "loss %.10g after %lld steps, %lld evaluations, %.3g s\n", r->loss, (long long)r->steps,
                 (long long)r->evals, r->seconds);
    gd__text_add(out, converged(j)                               ? "converged"
                      : r->reason == GD_STOP_LINK && !j->stopped ? "ended"
                                                                 : "not converged");
    if (!isnan(r->gradient_norm))
        gd__text_put(out, ", %s %.3g", bounded(j) ? "KKT residual" : "gradient", r->gradient_norm);
    if (constrained(j)) gd__text_put(out, ", violation %.3g", r->violation);
    gd__text_put(out, ": %s\n", why(j));
    if (r->derivatives != GD_DERIVATIVES_EXACT && r->steps)
        gd__text_put(out, "derivatives: %s\n", gd_derivatives_name(r->derivatives));
    if (!isnan(j->condition)) gd__text_put(out, "condition %.2g (estimate)\n", j->condition);
    for (int i = 0; i < j->problem->params && !status; i++)
        status = print_param(out, j->problem->name[i], j->problem->value[i]);
    if (!status && constrained(j))
        status = gd__constraints_print(j->problem, multipliers(j), j->slopes, VIOLATION, out);
    const gd_tensor *bounds = gd_optimizer_attr_tensor(j->optimizer, "bound_multipliers");
    return status ? status : gd__bounds_print(j->problem, bounds, out);
}

/* Columns of the history as arrays. */
static double *column(job *j, int k)
{
    double *out = gd__alloc_array(j->cli->ctx, j->count + 1, sizeof *out);
    for (size_t i = 0; out && i < j->count; i++) out[i] = j->history[i][k];
    return out;
}

static gd_status draw(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    char axis[2][80] = {"step", "loss"};
    size_t bytes = (j->count + 1) * sizeof(double);
    double *x = column(j, j->plane ? 2 : 0), *y = column(j, j->plane ? 3 : 1), box[4];
    if (j->plane) (void)gd__problem_is_plane(j->problem, axis);
    gd_plot *plot = gd_plot_new(ctx, j->args->argument[0], axis[0], axis[1]);
    gd_status status = x && y && plot ? GD_OK : GD_NOMEM;
    if (!status && j->plane) {
        gd__plane_box(x, y, j->count, box);
        gd_plot_limits(plot, box[0], box[1], box[2], box[3]);
        status = gd__problem_contours(j->problem, plot, box);
        gd_plot_path(plot, chain_text(j), x, y, j->count);
    } else if (!status) {
        double low = INFINITY, high = 0;
        gd_plot_log(plot, false, gd__spans_decades(y, j->count, &low, &high));
        gd_plot_line(plot, chain_text(j), x, y, j->count);
    }
    if (!status) status = gd_plot_save(plot, j->plot, gd__args_has(j->args, "dark"));
    gd_plot_free(plot);
    gd__free(ctx, x, bytes);
    gd__free(ctx, y, bytes);
    return status;
}

/* The error of a run that did not converge, after its results. */
static gd_status verdict(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    gd_stop reason = j->result.reason;
    long long steps = (long long)j->result.steps;
    bool limit = reason == GD_STOP_MAX_STEPS && !gd__args_has(j->args, "steps") && !converged(j);
    bool lost = reason == GD_STOP_STUCK || reason == GD_STOP_INFEASIBLE || reason == GD_STOP_DIVERGED ||
                reason == GD_STOP_NOT_FINITE || reason == GD_STOP_UNBOUNDED || reason == GD_STOP_DEGENERATE ||
                (j->saddle && !j->exact && !j->stopped);
    bool interrupted = j->stopped && !strcmp(j->stopped, "interrupted");
    bool unsolved = constrained(j) && reason == GD_STOP_LINK &&
                    !isnan(gd_optimizer_attr(j->optimizer, "solved", NAN)) && !converged(j) && !j->stopped;
    if (unsolved)
        return gd_fail(ctx, GD_VALUE, "not converged after %lld steps: no start led to a minimum", steps);
    if (isfinite(j->result.loss) && !lost && !limit && !interrupted) return GD_OK;
    if (interrupted) return gd_fail(ctx, GD_INTERRUPTED, "interrupted after %lld steps", steps);
    if (!isfinite(j->result.loss))
        return gd_fail(ctx, GD_VALUE, "the loss is %g after %lld steps", j->result.loss, steps);
    return gd_fail(ctx, GD_VALUE, "%s after %lld steps: %s%s", limit ? "not converged" : stopped_by(j), steps,
                   why(j), limit ? "; --steps N takes as many as you say" : "");
}

/* The final point, or after a failure the best one before. A point without a finite loss replaces nothing. */
static gd_status save_end(job *j)
{
    bool here = isfinite(j->result.loss);
    if (!j->out || (!here && !isfinite(j->kept.loss))) return GD_OK;
    gd_status status = save(j, here ? j->problem->value : j->kept.best, here ? j->result.loss : j->kept.loss);
    j->slow.saved = !status;
    return status;
}

static gd_status find_sensitivities(job *j)
{
    const gd_tensor *y = multipliers(j);
    gd_ctx *ctx = j->cli->ctx;
    gd_objective objective = gd__problem_objective(j->problem);
    if (!gd__args_has(j->args, "sensitivities")) return GD_OK;
    if (!y) {
        gd_warn(ctx, "minimize: --sensitivities are not known: the chain gives no multipliers");
        return GD_OK;
    }
    int64_t n = gd__list_numel(j->problem->value, j->problem->params), rows = gd_numel(y);
    j->slopes_bytes = (size_t)(n * rows + 1) * sizeof *j->slopes;
    if (!(j->slopes = gd__alloc(ctx, j->slopes_bytes))) return GD_NOMEM;
    return gd__sensitivities(j->optimizer, &objective, converged(j), rows, NULL, j->slopes);
}

static gd_status print(job *j)
{
    gd_status status = find_sensitivities(j);
    if (status) return status;
    status = gd__args_has(j->args, "json") ? print_json(j) : print_text(j);
    return !status && j->cli->out.failed ? GD_NOMEM : status;
}

/* Writes all available results, the parameters first; then the first failure. */
static gd_status finish_minimize(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    gd__put_aside(ctx, save_end(j), &j->why);
    if (j->save && !j->lost && isfinite(j->result.loss))
        gd__put_aside(ctx,
                      gd__run_save(j->problem, j->optimizer, j->args->argument[0], chain_text(j), j->save),
                      &j->why);
    gd__put_aside(ctx, gd__run_writer_close(j->tracer), &j->why);
    j->tracer = NULL;
    if (j->plot && !j->lost) gd__put_aside(ctx, draw(j), &j->why);
    if (!j->lost && !j->why.status) gd__put_aside(ctx, estimate_condition(j), &j->why);
    if (!j->lost) gd__put_aside(ctx, print(j), &j->why);
    if (!j->why.status) gd__put_aside(ctx, verdict(j), &j->why);
    if (j->why.status && !j->lost) gd__put_aside(ctx, gd__cli_flush(j->cli), &j->why);
    return gd__tell(ctx, &j->why, j->slow.saved ? j->out : NULL,
                    isfinite(j->result.loss) ? NULL : "the best parameters before");
}

static void close_job(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    (void)gd__run_writer_close(j->tracer);
    gd__kept_stop(&j->kept, j->problem);
    gd_optimizer_free(j->optimizer);
    gd__free(ctx, j->history, j->history_bytes);
    if (j->slopes) gd__free(ctx, j->slopes, j->slopes_bytes);
    gd_archive_free(j->run);
    gd__problem_rows_close(&j->rows);
    gd__problem_arguments_close(&j->arguments);
}

static int run_minimize(gd_cli *cli, const gd_args *args)
{
    job j = {.cli = cli,
             .args = args,
             .steps = DEFAULT_STEPS,
             .starts = 1,
             .arguments = {.args = args, .problem = {.ctx = cli->ctx}},
             .last_loss = NAN,
             .kept = {.loss = INFINITY},
             .condition = NAN,
             .result = {.loss = NAN, .gradient_norm = NAN}};
    j.problem = &j.arguments.problem;
    gd_status status = prepare_minimize(&j);
    if (!status) {
        cli->running = true;
        step_all(&j);
        status = finish_minimize(&j);
    }
    close_job(&j);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_minimize = {
    .name = "minimize",
    .summary = "Minimise an expression over its parameters.",
    .arguments = "'EXPR'",
    .description =
        "EXPR is as for `gradus eval`. A vector of more than one element counts as residuals: the sum of "
        "their squares is minimised. It makes steps until no element of the gradient is larger than 1e-8 "
        "(f32: 1e-4) or improvements are below rounding errors. Prints loss and parameters of the best point "
        "and the reason of the stop. Exit status 1 if it is stuck, diverges, ends on a saddle, or has not "
        "converged after 1000 steps. On Ctrl-C, SIGTERM, SIGHUP or a failing output it ends with the best "
        "point in --out.",
    .options = options,
    .examples =
        "gradus minimize '(1-p[0])^2 + 100*(p[1]-p[0]^2)^2' --param p=[-1.1,2.5] --plot path.svg\n"
        "gradus minimize '(x-2)^2+(y-1)^2' --param x=2 --param y=2 --subject 'x^2/4+y^2 <= 1' --subject 'x-2*y = -1' --bound 'x>0'\n"
        "gradus minimize 'mean((X@W+b-Y)^2)' --param W='zeros(4,2)' --param b='zeros(2)' --data X=@X.npy --data Y=@Y.npy "
        "--chain 'adam | lr(0.1)' --steps 500 --trace run.jsonl\n"
        "gradus minimize '20+sum(x^2-10*cos(2*pi*x))' --param x=[3,-4] --bound '-5.12<x<5.12' --starts 20\n"
        "gradus minimize 'abs(x-1)+floor(y)^2' --param x=5 --param y=3 --gradient none\n"
        "mpirun -n 4 gradus minimize 'mean((X@w-y)^2)' --param w='zeros(4)' --data X=@X.npy --data y=@y.npy --split X,y\n",
    .least = 1,
    .most = 1,
    .run = run_minimize,
};
