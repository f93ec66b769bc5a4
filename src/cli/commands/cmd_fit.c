/* gradus fit: nonlinear least squares on a table. */
#include "base/number.h"
#include "cli/files.h"
#include "cli/commands/problem.h"
#include "cli/commands/fit.h"
#include "cli/commands/distribution.h"
#include "cli/data/value.h"
#include "gradus/autograd.h"
#include "optim/vector/layout.h"
#include "gradus/file.h"
#include "base/suggest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEVEL    0.95 /* of the intervals */
#define RESTARTS 4    /* after an interval has found a better point */

static const gd_option options[] = {
    GD_OPTION("y", "COLUMN", "what the model is to give (y)"),
    GD_VALUES("param", "a parameter and where it starts; values as for gradus minimize"),
    GD_VALUES("fix", "a constant of the model, held: values as for --param"),
    GD_OPTION("weights", "COLUMN", "weights of the squared residuals; rows of weight 0 are left out"),
    GD_OPTION("sigma", "COLUMN", "standard deviations of y: residuals are divided by them"),
    GD_SWITCH("absolute-sigma",
              "--sigma are the standard deviations, not only their ratios: errors are not scaled by "
              "the residuals, and a chi-square test is made"),
    GD_REPEATED("bound", "BOUND", "keep a parameter inside, ends included: 'b>0', 'b<5', '0<b<1'"),
    GD_REPEATED("exclude", "CONDITION", "leave out the rows where it holds: 'x > 3 && y < 0'"),
    GD_OPTION("missing", "error|drop", "what rows with missing cells are (error)"),
    GD_REPEATED("derive", "NAME=EXPR", "a quantity of the parameters with its error: 'thalf=log(2)/b'"),
    GD_OPTION("chain", "CHAIN", "another method: links joined by |, see gradus links (Levenberg-Marquardt)"),
    GD_OPTION("steps", "N", "the most steps (1000)"),
    GD_DEF_OPTION,
    GD_OUTPUT("plot", "data and fitted curve, as .svg or .png"),
    GD_OUTPUT("out", "parameters, standard errors and covariance, as .safetensors"),
    GD_SWITCH(
        "json",
        "print one JSON object: params, stderr, interval, active, undetermined, names, covariance, correlation, rss, sigma, "
        "r2, dof, points, log_likelihood, aic, aicc, bic, chi_square_p, derived, steps, evals, stop, reason"),
    GD_TABLE_OPTIONS,
    GD_OPTION("device", "NAME", "cpu, gpu or gpu:1 (cpu)"),
    GD_OPTION("seed", "N", "of random starts (0)"),
    GD_OPTION("threads", "N", "CPU threads (all cores); results do not depend on it"),
    {0},
};

/* ---- reading ---- */

/* NAME=VALUE of an option: a name that is not there yet and its value. */
static gd_tensor *read_value(gd_fit_job *j, const char *option, const char *spec, const char **name)
{
    const char *equals = strchr(spec, '=');
    if (!equals || equals == spec) {
        (void)gd_fail(j->ctx, GD_ARGUMENT, "--%s: NAME=VALUE expected, '%.60s' found", option, spec);
        return NULL;
    }
    if (!(*name = gd__intern(j->ctx, spec, (size_t)(equals - spec)))) return NULL;
    bool again = false;
    for (int i = 0; i < j->params; i++) again = again || j->name[i] == *name;
    for (int i = j->params + gd__csv_columns(j->csv); i < j->names; i++) again = again || j->name[i] == *name;
    if (again) {
        (void)gd_fail(j->ctx, GD_ARGUMENT, "--%s: '%.60s' is there already", option, *name);
        return NULL;
    }
    if (gd__csv_find(j->csv, *name) >= 0) {
        (void)gd_fail(j->ctx, GD_ARGUMENT, "--%s: '%.60s' is also a column of %s", option, *name,
                      gd__csv_source(j->csv));
        return NULL;
    }
    char what[100];
    (void)snprintf(what, sizeof what, "--%s %.80s", option, *name);
    return gd__value_parse(j->ctx, what, equals + 1, GD_F64, &j->tables);
}

/* A constant of the model, behind the columns. */
static gd_status read_fixed(gd_fit_job *j, const char *spec)
{
    const char *name;
    gd_tensor *t = read_value(j, "fix", spec, &name);
    if (!t) return gd_error(j->ctx);
    j->name[j->names] = name;
    j->value[j->names++] = t;
    return GD_OK;
}

static gd_status read_param(gd_fit_job *j, const char *spec)
{
    const char *name;
    if (j->params == GD_FIT_PARAMS)
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: more than %d parameters", GD_FIT_PARAMS);
    gd_tensor *t = read_value(j, "param", spec, &name);
    if (!t) return gd_error(j->ctx);
    j->name[j->params] = name;
    j->param[j->params++] = t;
    return GD_OK;
}

static gd_status read_bounds(gd_fit_job *j)
{
    int at = 0;
    gd_status status = GD_OK;
    for (const char *text; !status && (text = gd__args_next(j->args, "bound", &at)); j->bounded = true)
        status = gd__bounds_read(j->ctx, text, j->name, j->param, j->params, j->low, j->high);
    int64_t k = 0;
    for (int i = 0; i < j->params && !status; i++) {
        if (!status) status = gd_read_f64(j->param[i], j->x + k, gd_numel(j->param[i]));
        for (int64_t end = k + gd_numel(j->param[i]); k < end && !status; k++)
            if (j->x[k] < j->low[k] || j->x[k] > j->high[k])
                status = gd_fail(j->ctx, GD_VALUE, "--bound: %.60s starts at %g, outside its bound",
                                 j->name[i], j->x[k]);
    }
    return status;
}

/* Factors of the residuals: roots of weights, or one over sigma. */
static gd_status read_scale(gd_fit_job *j)
{
    const char *weights = gd__args_get(j->args, "weights"), *sigma = gd__args_get(j->args, "sigma");
    if (weights && sigma)
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: --weights and --sigma say the same: give one");
    j->absolute = gd__args_has(j->args, "absolute-sigma");
    if (j->absolute && !sigma)
        return gd_fail(j->ctx, GD_ARGUMENT,
                       "fit: --absolute-sigma says something of --sigma, which is not given");
    if (!weights && !sigma) return GD_OK;
    j->scale = gd__fit_column(j, weights ? weights : sigma);
    if (!j->scale) return gd_error(j->ctx);
    double *v = gd_data_mut(j->scale);
    for (int64_t i = 0; i < gd__csv_rows(j->csv); i++) {
        if (weights ? v[i] < 0 : v[i] <= 0)
            return gd_fail(j->ctx, GD_FORMAT, "%s: line %lld, column '%.60s': %g is not %s",
                           gd__csv_source(j->csv), (long long)gd__csv_line(j->csv, i),
                           weights ? weights : sigma, v[i], weights ? "a weight" : "positive");
        v[i] = weights ? sqrt(v[i]) : 1 / v[i];
    }
    return GD_OK;
}

static gd_status read_table(gd_fit_job *j)
{
    int drop = 0;
    gd_status status = gd__csv_options(j->args, &j->tables.csv);
    if (!status) status = gd__args_choice(j->args, "missing", "error drop", &drop);
    if (status) return status;
    j->drop_missing = drop;
    j->csv = gd__csv_load(j->ctx, j->args->argument[1], &j->tables.csv);
    if (!j->csv) return gd_error(j->ctx);
    if (!gd__csv_rows(j->csv)) return gd_fail(j->ctx, GD_FORMAT, "%s: no rows", gd__csv_source(j->csv));
    return GD_OK;
}

/* The model in parameters and columns; the columns it uses become vectors. */
static gd_status read_model(gd_fit_job *j)
{
    for (int i = 0; i < gd__csv_columns(j->csv); i++) j->name[j->params + i] = gd__csv_name(j->csv, i);
    j->names = j->params + gd__csv_columns(j->csv);
    gd_status status = GD_OK;
    int at = 0;
    for (const char *spec; !status && (spec = gd__args_next(j->args, "fix", &at));)
        status = read_fixed(j, spec);
    if (status) return status;
    j->model = gd__problem_expression(j->ctx, j->args, j->args->argument[0], j->name, j->names);
    if (!j->model) return gd_error(j->ctx);
    int columns = j->params + gd__csv_columns(j->csv);
    for (int i = 0; i < j->names; i++) {
        if (i < j->params && !gd__expr_uses(j->model, i))
            return gd_fail(j->ctx, GD_ARGUMENT, "--param %.60s: the model does not use it", j->name[i]);
        if (i >= columns && !gd__expr_uses(j->model, i))
            return gd_fail(j->ctx, GD_ARGUMENT, "--fix %.60s: the model does not use it", j->name[i]);
        if (i >= columns) gd__expr_fix(j->model, i);
        if (i < j->params || i >= columns || !gd__expr_uses(j->model, i)) continue;
        if (!(j->value[i] = gd__fit_column(j, j->name[i]))) return gd_error(j->ctx);
        gd__expr_fix(j->model, i);
    }
    return GD_OK;
}

static gd_status make_fit_room(gd_fit_job *j)
{
    size_t count = (size_t)j->args->options + (size_t)gd__csv_columns(j->csv) + 1;
    j->name_bytes = count * sizeof(void *);
    j->name = gd__calloc(j->ctx, j->name_bytes);
    j->value = gd__calloc(j->ctx, j->name_bytes);
    j->param = gd__calloc(j->ctx, j->name_bytes);
    return j->name && j->value && j->param ? GD_OK : GD_NOMEM;
}

static size_t element_bytes(const gd_fit_job *j) { return (size_t)j->elements * 8 * sizeof(double); }

/* Numbers of each element. */
static gd_status make_element_room(gd_fit_job *j)
{
    j->elements = gd__list_numel(j->param, j->params);
    if (!(j->x = gd__calloc(j->ctx, element_bytes(j)))) return GD_NOMEM;
    j->low = j->x + j->elements;
    j->high = j->low + j->elements;
    j->error = j->high + j->elements;
    j->active = j->error + j->elements;
    j->flat = j->active + j->elements;
    j->interval = j->flat + j->elements;
    for (int64_t i = 0; i < j->elements; i++) {
        j->low[i] = -INFINITY;
        j->high[i] = INFINITY;
    }
    return GD_OK;
}

static gd_status check_outputs(gd_fit_job *j)
{
    gd_status status = GD_OK;
    j->plot = gd__args_get(j->args, "plot");
    j->out = gd__args_get(j->args, "out");
    if (j->plot) status = gd__plot_check_path(j->ctx, j->plot);
    if (j->plot && !status) status = gd__check_output(j->ctx, j->plot);
    return j->out && !status ? gd__check_file(j->ctx, j->out) : status;
}

static gd_status prepare_fit(gd_fit_job *j)
{
    int64_t seed = 0, threads = 0;
    int at = 0;
    gd_status status = gd__args_integer(j->args, "seed", 0, INT64_MAX, &seed);
    if (!status) status = gd__args_integer(j->args, "threads", 1, 1024, &threads);
    gd_seed(j->ctx, (uint64_t)seed);
    if (!status) status = check_outputs(j);
    if (!status) status = read_table(j);
    if (!status) status = make_fit_room(j);
    for (const char *spec; !status && (spec = gd__args_next(j->args, "param", &at));)
        status = read_param(j, spec);
    if (!status && !j->params) status = gd_fail(j->ctx, GD_ARGUMENT, "fit: no --param given: nothing to fit");
    if (!status) status = read_model(j);
    if (!status) status = make_element_room(j);
    if (!status) status = read_bounds(j);
    const char *y = gd__args_get(j->args, "y");
    if (!status && !(j->y = gd__fit_column(j, y ? y : "y"))) status = gd_error(j->ctx);
    if (!status) status = read_scale(j);
    if (!status) status = gd__fit_choose_rows(j);
    if (!status) status = gd__fit_read_derived(j);
    for (int i = 0; i < j->params && !status; i++)
        if (!gd_require_grad(j->param[i])) status = gd_error(j->ctx);
    return status;
}

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
static gd_status move(gd_fit_job *j, const char *name)
{
    gd_device *device = gd_device_get(j->ctx, name);
    gd_status status = device ? GD_OK : gd_error(j->ctx);
    for (int i = 0; i < j->params && !status; i++) status = move_one(&j->param[i], device, true);
    for (int i = j->params; i < j->names && !status; i++) status = move_one(&j->value[i], device, false);
    if (!status) status = move_one(&j->y, device, false);
    return status ? status : move_one(&j->scale, device, false);
}

gd_tensor *gd__fit_model(gd_fit_job *j, gd_tensor *const *params)
{
    for (int i = 0; i < j->params; i++) j->value[i] = params[i];
    return gd__expr_eval(j->model, j->value, GD_F64);
}

/* A solver that has not heard of a signal need not take its step to the end; one that has, ends where it is. */
static gd_tensor *residuals(void *user)
{
    gd_fit_job *j = user;
    if (!j->stopping && gd__interrupt_pending())
        return gd__refuse(j->ctx, GD_INTERRUPTED, "fit: interrupted");
    gd_tensor *difference = gd_sub(gd__fit_model(j, j->param), j->y);
    return j->scale ? gd_mul(difference, j->scale) : difference;
}

/* 1 - rss / sum of squares about the mean, weighted; NAN where y is constant. */
static double r_squared(gd_fit_job *j)
{
    const double *y = gd_data(j->y), *s = j->scale ? gd_data(j->scale) : NULL;
    double weight = 0, mean = 0, total = 0;
    int64_t rows = gd_numel(j->y);
    for (int64_t i = 0; i < rows; i++) {
        double w = s ? s[i] * s[i] : 1;
        weight += w;
        mean += w * y[i];
    }
    mean /= weight;
    for (int64_t i = 0; i < rows; i++) total += (s ? s[i] * s[i] : 1) * (y[i] - mean) * (y[i] - mean);
    return total > 0 ? 1 - j->fit.rss / total : NAN;
}

/* ---- saving ---- */

/* What gradus compare reads. */
static gd_status save_numbers(const gd_fit_job *j, gd_archive *archive)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"fit.rss", j->fit.rss},
                   {"fit.dof", (double)j->fit.dof},
                   {"fit.points", (double)j->fit.residuals},
                   {"fit.free", (double)j->fit.free},
                   {"fit.active", (double)(j->elements - j->fit.free)},
                   {"fit.log_likelihood", j->numbers.log_likelihood}};
    char text[40];
    gd_status status = GD_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++) {
        (void)gd__format(text, sizeof text, "%.17g", numbers[i].value);
        status = gd_archive_set_meta(archive, numbers[i].key, text);
    }
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)j->numbers.rows);
    return status ? status : gd_archive_set_meta(archive, "fit.rows", text);
}

/* Parameters, and what there is of their spread. */
static gd_status save(gd_fit_job *j)
{
    gd_archive *archive = gd_archive_new(j->ctx);
    if (!archive) return GD_NOMEM;
    gd_status status = GD_OK;
    gd__aside_begin(j->ctx);
    for (int i = 0; i < j->params && !status; i++) status = gd_archive_put(archive, j->name[i], j->param[i]);
    if (j->fit.covariance && !status) status = gd_archive_put(archive, "fit.covariance", j->fit.covariance);
    if (j->fit.standard_errors && !status)
        status = gd_archive_put(archive, "fit.standard_errors", j->fit.standard_errors);
    if (!status) status = gd_archive_set_meta(archive, "model", j->args->argument[0]);
    if (!status && isfinite(j->numbers.aic)) status = save_numbers(j, archive);
    if (!status) status = gd_archive_save(archive, j->out);
    gd__aside_end(j->ctx);
    gd_archive_free(archive);
    return status;
}

/* A signal may not wait for the end of the next step. */
static void save_slow(gd_fit_job *j)
{
    if (!j->out || !gd__slow_step(&j->slow)) return;
    gd__slow_saved(j->ctx, &j->slow, save(j));
}

static bool report(void *user, const gd_progress *progress)
{
    gd_fit_job *j = user;
    gd__meter_show(&j->meter, "step", progress->step, progress->loss);
    j->stopping = gd__interrupt_pending();
    if (!j->stopping && isfinite(progress->loss)) save_slow(j);
    return !j->stopping;
}

/* Nothing to show while intervals are made, but Ctrl-C is heard. */
static bool go_on(void *user, const gd_progress *progress)
{
    (void)user;
    (void)progress;
    return !gd__interrupt_pending();
}

/* ---- a chain, and what the residuals say where it ended ---- */

/* What the residuals say where the parameters are: every gradient is small enough, so no step is taken. */
static gd_status look(gd_fit_job *j, gd_fit_options *o)
{
    o->solve = gd_solve_defaults();
    o->solve.gradient_tol = INFINITY;
    o->polish = o->leave_saddles = false;
    gd_fit_result_clear(&j->fit);
    return gd_least_squares(j->param, j->params, residuals, j, o, &j->fit);
}

/* Steps of a chain over the sum of squares, then the spread of the parameters where they end. */
static gd_status fit_by_chain(gd_fit_job *j, gd_fit_options *o)
{
    gd_solve_result solved;
    gd_objective objective = {.loss = residuals, .user = j};
    o->solve.gradient_tol = gd_solve_defaults().gradient_tol;
    if (j->bounded) j->chain = gd__bounds_chain(j->ctx, j->chain, j->param, j->params, j->low, j->high);
    if (!j->chain) return gd_error(j->ctx);
    gd_status status = gd_minimize_link(j->param, j->params, &objective, j->chain, &o->solve, &solved);
    j->chain = NULL;
    j->fit.solve = solved;
    j->reached = solved.loss;
    /* also where it failed: the best point is there */
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
static gd_status make_interval(gd_fit_job *j, const gd_fit_options *o, int64_t at, bool *better)
{
    double *ends = j->interval + 2 * at;
    if (j->active[at] != 0)
        return gd_fit_profile(j->param, j->params, residuals, j, o, &j->fit, at, j->t, ends, better);
    double margin = isfinite(j->t * j->error[at]) ? j->t * j->error[at] : INFINITY;
    ends[0] = fmax(j->x[at] - margin, j->low[at]);
    ends[1] = fmin(j->x[at] + margin, j->high[at]);
    return GD_OK;
}

/* What the fit says of each element. */
static gd_status read_spread(gd_fit_job *j)
{
    const gd_fit_result *r = &j->fit;
    gd_status status = gd__list_read(j->param, j->params, j->x);
    for (int64_t i = 0; i < j->elements; i++) j->error[i] = NAN, j->active[i] = j->flat[i] = 0;
    if (!status && r->standard_errors) status = gd_read_f64(r->standard_errors, j->error, j->elements);
    if (!status && r->active) status = gd_read_f64(r->active, j->active, j->elements);
    if (!status && r->undetermined) status = gd_read_f64(r->undetermined, j->flat, j->elements);
    return status;
}

/* Of all elements, until a profile finds a better point. */
static gd_status make_intervals(gd_fit_job *j, gd_fit_options *o, bool *better)
{
    gd_status status = read_spread(j);
    o->solve = gd_fit_defaults().solve;
    o->solve.callback = go_on;
    for (int64_t at = 0; at < j->elements && !status && !*better; at++)
        status = make_interval(j, o, at, better);
    return status;
}

/* ---- fitting ---- */

static gd_status solve(gd_fit_job *j, gd_fit_options *o)
{
    j->meter = gd__meter_start(0);
    j->slow.begun = gd__cli_seconds();
    gd_fit_result_clear(&j->fit);
    j->fit.rss = NAN;
    o->solve.max_steps = j->steps;
    o->solve.callback = report;
    o->solve.callback_user = j;
    gd_status status = j->chain ? fit_by_chain(j, o)
                                : gd_least_squares(j->param, j->params, residuals, j, o, &j->fit);
    gd__meter_end(&j->meter);
    if (isfinite(j->fit.rss)) j->reached = j->fit.rss;
    if (status) return status;
    if (j->fit.solve.reason == GD_STOP_NOT_FINITE)
        return gd_fail(j->ctx, GD_VALUE,
                       "fit: the model or its derivatives are not finite where the parameters start");
    if (j->stopping) return gd_fail(j->ctx, GD_INTERRUPTED, "fit: interrupted");
    if (!gd__interrupt_pending()) save_slow(j);
    j->t = j->absolute ? gd__normal_quantile(LEVEL) : gd__student_quantile(LEVEL, (double)j->fit.dof);
    return GD_OK;
}

static gd_status fit(gd_fit_job *j)
{
    gd_fit_options o = gd_fit_defaults();
    j->steps = o.solve.max_steps;
    gd_status status = gd__args_integer(j->args, "steps", 1, INT64_MAX, &j->steps);
    const char *chain = gd__args_get(j->args, "chain");
    if (!status && chain && !(j->chain = gd_chain(j->ctx, chain))) status = gd_error(j->ctx);
    if (status) return status;
    o.low = j->bounded ? j->low : NULL;
    o.high = j->bounded ? j->high : NULL;
    o.names = j->name;
    o.sigma = j->absolute ? 1 : 0;
    const char *device = gd__args_get(j->args, "device");
    if (device) status = move(j, device);
    if (status) return status;
    j->cli->running = true;
    gd__interrupt_catch(GD_GRACE);
    bool better = true;
    for (int again = 0; again < RESTARTS && better && !status; again++) {
        better = false;
        status = solve(j, &o);
        if (!status) status = make_intervals(j, &o, &better);
    }
    (void)gd__interrupted();
    if (status && gd_error(j->ctx) == GD_INTERRUPTED) {
        gd_clear_error(j->ctx);
        return gd_fail(j->ctx, GD_INTERRUPTED, "fit: interrupted after %lld steps%s",
                       (long long)j->fit.solve.steps, j->out ? "" : ", nothing saved without --out");
    }
    if (!status && device) status = move(j, "cpu"); /* what comes after is tables and drawings */
    if (!status) {
        j->r2 = r_squared(j);
        gd__fit_judge(j);
        status = gd__fit_derive(j);
    }
    return status;
}

/* ---- the command ---- */

static void close_job(gd_fit_job *j)
{
    gd_link_release(j->chain);
    gd_fit_result_clear(&j->fit);
    gd__expr_free(j->model);
    for (int i = 0; i < j->params; i++) gd_release(j->param[i]);
    for (int i = j->params; i < j->names; i++) gd_release(j->value[i]);
    gd_release(j->y);
    gd_release(j->scale);
    gd__free(j->ctx, j->name, j->name_bytes);
    gd__free(j->ctx, j->value, j->name_bytes);
    gd__free(j->ctx, j->param, j->name_bytes);
    if (j->x) gd__free(j->ctx, j->x, element_bytes(j));
    if (j->csv) gd__free(j->ctx, j->drop, j->drop ? (size_t)gd__csv_rows(j->csv) : 0);
    gd__csv_free(j->csv);
}

/* A fit that did not end where it should: everything is printed, then this is the error. */
static gd_status admit(gd_fit_job *j)
{
    gd_stop reason = j->fit.solve.reason;
    bool asked = reason == GD_STOP_MAX_STEPS && gd__args_has(j->args, "steps");
    if (gd_stop_converged(reason) || asked) return GD_OK;
    return gd_fail(j->ctx, GD_VALUE, "fit: not converged: %s", gd__fit_stop_text(j));
}

static gd_status print(gd_fit_job *j)
{
    bool json = gd__args_has(j->args, "json");
    if (json)
        gd__fit_print_json(j);
    else
        gd__fit_print_table(j);
    if (j->plot && !json && !j->why.status) gd__text_put(&j->cli->out, "%s\n", j->plot);
    return j->cli->out.failed ? GD_NOMEM : GD_OK;
}

/* Everything that can be had of the fit, the parameters first; then the first failure. */
static gd_status finish_fit(gd_fit_job *j, gd_status status)
{
    bool done = !status, saved = j->slow.saved;
    gd__put_aside(j->ctx, status, &j->why);
    if (j->out && (done || isfinite(j->reached))) {
        status = save(j);
        saved = !status;
        gd__put_aside(j->ctx, status, &j->why);
    }
    if (done && j->plot) gd__put_aside(j->ctx, gd__fit_draw(j), &j->why);
    if (done) gd__put_aside(j->ctx, print(j), &j->why);
    if (!j->why.status) gd__put_aside(j->ctx, admit(j), &j->why);
    if (done && j->why.status) gd__put_aside(j->ctx, gd__cli_flush(j->cli), &j->why);
    return gd__tell(j->ctx, &j->why, saved ? j->out : NULL, NULL);
}

static int run_fit(gd_cli *cli, const gd_args *args)
{
    gd_fit_job j = {.cli = cli, .args = args, .ctx = cli->ctx, .reached = NAN};
    gd_status status = prepare_fit(&j);
    if (!status) status = fit(&j);
    if (!status || cli->running) status = finish_fit(&j, status);
    close_job(&j);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_fit = {
    .name = "fit",
    .summary = "Fit a model to a table by nonlinear least squares.",
    .arguments = "'MODEL' DATA.csv",
    .description =
        "MODEL is an expression (see `gradus help eval`) in the parameters and the columns of the table; a column whose "
        "name is no plain word is written between backquotes. Levenberg-Marquardt with exact Jacobians, or --chain. Prints the "
        "parameters with standard errors and 95 % intervals; of a parameter that is held by its bound, the interval from the "
        "bound inwards. Ends with status 1, after all was printed, where the fit is stuck, at the limit of its steps, or where the "
        "data do not determine all parameters: these are named. Ctrl-C, SIGTERM, SIGHUP or an output that fails end it with the "
        "parameters in --out.",
    .options = options,
    .examples =
        "gradus fit 'a*exp(-b*t)+c' examples/data/decay.csv --y y --param a=1 --param b=1 --param c=0 --plot fit.svg\n"
        "gradus fit 'k*x^n' data.csv --param k=1 --param n=1 --bound 'k>0' --sigma s --json\n",
    .least = 2,
    .most = 2,
    .reads_from = 2,
    .run = run_fit,
};
