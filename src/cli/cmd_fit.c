/* gradus fit: nonlinear least squares on a table. */
#include "cli/bound.h"
#include "cli/cli.h"
#include "cli/dataset.h"
#include "cli/files.h"
#include "cli/problem.h"
#include "cli/student.h"
#include "cli/trace.h"
#include "cli/value.h"
#include "gradus/autograd.h"
#include "gradus/file.h"
#include "gradus/solve.h"
#include "optim/suggest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEVEL      0.95 /* of the intervals */
#define CURVE      241  /* points of a drawn curve */
#define MAX_PARAMS 256

static const gd_option options[] = {
    GD_OPTION("y", "COLUMN", "what the model is to give (y)"),
    GD_VALUES("param", "a parameter and where it starts; values as for gradus minimize"),
    GD_OPTION("weights", "COLUMN", "weights of the squared residuals"),
    GD_OPTION("sigma", "COLUMN", "standard deviations of y: residuals are divided by them"),
    GD_REPEATED("bound", "BOUND", "keep a parameter inside: 'b>0', 'b<5', '0<b<1'"),
    GD_OPTION("chain", "CHAIN", "another method: links joined by |, see gradus links (Levenberg-Marquardt)"),
    GD_OPTION("steps", "N", "the most steps (1000)"),
    GD_OUTPUT("plot", "data and fitted curve, as .svg or .png"),
    GD_OUTPUT("out", "parameters, standard errors and covariance, as .safetensors"),
    GD_SWITCH(
        "json",
        "print one JSON object: params, stderr, interval, rss, sigma, r2, dof, points, steps, evals, reason"),
    GD_TABLE_OPTIONS,
    GD_OPTION("device", "NAME", "cpu, gpu or gpu:1 (cpu)"),
    GD_OPTION("seed", "N", "of random starts (0)"),
    GD_OPTION("threads", "N", "CPU threads (all cores); results do not depend on it"),
    {0},
};

typedef struct job {
    gd_cli *cli;
    const gd_args *args;
    gd_ctx *ctx;
    gd_csv *csv;
    gd_expr *model;
    const char **name; /* parameters, then columns */
    gd_tensor **value; /* what the model sees: bounded parameters (made anew each time), columns */
    gd_tensor **free;  /* what the solver changes, one a parameter */
    gd_bound *bound;
    int params, names;
    size_t name_bytes, bound_bytes;
    gd_tensor *y, *scale; /* scale: factor of the residuals, or NULL */
    gd_fit_result fit;
    gd_meter meter;
    double t, r2;
    const char *plot, *out;
    gd_link *chain; /* NULL: Levenberg-Marquardt */
} job;

/* ---- reading ---- */

static gd_status read_param(job *j, const char *spec)
{
    const char *equals = strchr(spec, '=');
    if (!equals || equals == spec)
        return gd_fail(j->ctx, GD_ARGUMENT, "--param: NAME=VALUE expected, '%.60s' found", spec);
    const char *name = gd__intern(j->ctx, spec, (size_t)(equals - spec));
    if (!name) return GD_NOMEM;
    if (j->params == MAX_PARAMS)
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: more than %d parameters", MAX_PARAMS);
    for (int i = 0; i < j->params; i++)
        if (j->name[i] == name)
            return gd_fail(j->ctx, GD_ARGUMENT, "--param: '%.60s' is there already", name);
    if (gd__csv_find(j->csv, name) >= 0)
        return gd_fail(j->ctx, GD_ARGUMENT, "--param: '%.60s' is also a column of %s", name,
                       gd__csv_source(j->csv));
    char what[100];
    (void)snprintf(what, sizeof what, "--param %.80s", name);
    gd_tensor *t = gd__value_parse(j->ctx, what, equals + 1, GD_F64);
    if (!t) return gd_error(j->ctx);
    j->name[j->params] = name;
    j->free[j->params++] = t;
    return GD_OK;
}

static gd_status read_bound(job *j, const char *text)
{
    const char *name;
    size_t length;
    gd_bound bound;
    gd_status status = gd__bound_parse(j->ctx, text, &name, &length, &bound);
    if (status) return status;
    gd_suggest nearest = gd__suggest(name, length);
    for (int i = 0; i < j->params; i++) {
        gd__suggest_try(&nearest, j->name[i]);
        if (strlen(j->name[i]) != length || memcmp(j->name[i], name, length) != 0) continue;
        if (j->bound[i].has_low || j->bound[i].has_high)
            return gd_fail(j->ctx, GD_PARSE, "--bound: '%.60s' has one already; write low<%.60s<high",
                           j->name[i], j->name[i]);
        gd_tensor *u = gd__bound_free(&bound, j->name[i], j->free[i]);
        if (!u) return gd_error(j->ctx);
        gd_release(j->free[i]);
        j->free[i] = u;
        j->bound[i] = bound;
        return GD_OK;
    }
    char hint[GD_HINT_SIZE];
    return gd_fail(j->ctx, GD_PARSE, "--bound: no parameter '%.*s'%s", length > 60 ? 60 : (int)length, name,
                   gd__suggest_hint(&nearest, hint));
}

/* A column as a vector. */
static gd_tensor *column(job *j, int index)
{
    gd_tensor *t = gd_empty(j->ctx, GD_F64, 1, (int64_t[]){gd__csv_rows(j->csv)});
    if (t && gd__csv_numbers(j->csv, index, false, gd_data_mut(t)) == GD_OK) return t;
    gd_release(t);
    return NULL;
}

static gd_tensor *named_column(job *j, const char *name)
{
    int index = gd__csv_column(j->csv, name);
    return index < 0 ? NULL : column(j, index);
}

/* Factors of the residuals: roots of weights, or one over sigma. */
static gd_status read_scale(job *j)
{
    const char *weights = gd__args_get(j->args, "weights"), *sigma = gd__args_get(j->args, "sigma");
    if (weights && sigma)
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: --weights and --sigma say the same: give one");
    if (!weights && !sigma) return GD_OK;
    j->scale = named_column(j, weights ? weights : sigma);
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

static gd_status read_table(job *j)
{
    gd_csv_options o;
    gd_status status = gd__csv_options(j->args, &o);
    if (status) return status;
    j->csv = gd__csv_load(j->ctx, j->args->argument[1], &o);
    if (!j->csv) return gd_error(j->ctx);
    if (!gd__csv_rows(j->csv)) return gd_fail(j->ctx, GD_FORMAT, "%s: no rows", gd__csv_source(j->csv));
    return GD_OK;
}

/* The model in parameters and columns; the columns it uses become vectors. */
static gd_status read_model(job *j)
{
    for (int i = 0; i < gd__csv_columns(j->csv); i++) j->name[j->params + i] = gd__csv_name(j->csv, i);
    j->names = j->params + gd__csv_columns(j->csv);
    j->model = gd__expr_parse(j->ctx, j->args->argument[0], j->name, j->names);
    if (!j->model) return gd_error(j->ctx);
    for (int i = 0; i < j->names; i++) {
        if (i < j->params && !gd__expr_uses(j->model, i))
            return gd_fail(j->ctx, GD_ARGUMENT, "--param %.60s: the model does not use it", j->name[i]);
        if (i < j->params || !gd__expr_uses(j->model, i)) continue;
        if (!(j->value[i] = column(j, i - j->params))) return gd_error(j->ctx);
        gd__expr_fix(j->model, i);
    }
    return GD_OK;
}

static gd_status make_room(job *j)
{
    size_t count = (size_t)j->args->options + (size_t)gd__csv_columns(j->csv) + 1;
    j->name_bytes = count * sizeof(void *);
    j->bound_bytes = count * sizeof *j->bound;
    j->name = gd__calloc(j->ctx, j->name_bytes);
    j->value = gd__calloc(j->ctx, j->name_bytes);
    j->free = gd__calloc(j->ctx, j->name_bytes);
    j->bound = gd__calloc(j->ctx, j->bound_bytes);
    return j->name && j->value && j->free && j->bound ? GD_OK : GD_NOMEM;
}

static gd_status check_outputs(job *j)
{
    gd_status status = GD_OK;
    j->plot = gd__args_get(j->args, "plot");
    j->out = gd__args_get(j->args, "out");
    if (j->plot) status = gd__plot_check_path(j->ctx, j->plot);
    if (j->plot && !status) status = gd__check_output(j->ctx, j->plot);
    return j->out && !status ? gd__check_file(j->ctx, j->out) : status;
}

static gd_status prepare(job *j)
{
    int64_t seed = 0, threads = 0;
    int at = 0;
    gd_status status = gd__args_integer(j->args, "seed", 0, INT64_MAX, &seed);
    if (!status) status = gd__args_integer(j->args, "threads", 1, 1024, &threads);
    gd_seed(j->ctx, (uint64_t)seed);
    if (!status) status = check_outputs(j);
    if (!status) status = read_table(j);
    if (!status) status = make_room(j);
    for (const char *spec; !status && (spec = gd__args_next(j->args, "param", &at));)
        status = read_param(j, spec);
    if (!status && !j->params) status = gd_fail(j->ctx, GD_ARGUMENT, "fit: no --param given: nothing to fit");
    if (!status) status = read_model(j);
    at = 0;
    for (const char *text; !status && (text = gd__args_next(j->args, "bound", &at));)
        status = read_bound(j, text);
    const char *y = gd__args_get(j->args, "y");
    if (!status && !(j->y = named_column(j, y ? y : "y"))) status = gd_error(j->ctx);
    if (!status) status = read_scale(j);
    for (int i = 0; i < j->params && !status; i++)
        if (!gd_require_grad(j->free[i])) status = gd_error(j->ctx);
    return status;
}

/* ---- fitting ---- */

static gd_status move_one(gd_tensor **t, gd_device *device, bool wants_grad)
{
    if (!*t || gd_tensor_device(*t) == device) return GD_OK;
    gd_ctx *ctx = gd_tensor_ctx(*t);
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *moved = gd_to_device(*t, device);
    if (moved) moved = gd_keep(moved);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    if (!moved || (wants_grad && !gd_require_grad(moved))) return gd_error(ctx);
    gd_release(*t);
    *t = moved;
    return GD_OK;
}

/* Parameters and columns to a device. */
static gd_status move(job *j, const char *name)
{
    gd_device *device = gd_device_get(j->ctx, name);
    gd_status status = device ? GD_OK : gd_error(j->ctx);
    for (int i = 0; i < j->params && !status; i++) status = move_one(&j->free[i], device, true);
    for (int i = j->params; i < j->names && !status; i++) status = move_one(&j->value[i], device, false);
    if (!status) status = move_one(&j->y, device, false);
    return status ? status : move_one(&j->scale, device, false);
}

/* The model at free parameters. */
static gd_tensor *model_at(job *j, gd_tensor *const *free)
{
    for (int i = 0; i < j->params; i++) j->value[i] = gd__bound_value(&j->bound[i], free[i]);
    return gd__expr_eval(j->model, j->value, GD_F64);
}

static gd_tensor *residuals(void *user)
{
    job *j = user;
    gd_tensor *difference = gd_sub(model_at(j, j->free), j->y);
    return j->scale ? gd_mul(difference, j->scale) : difference;
}

static bool report(void *user, const gd_progress *progress)
{
    job *j = user;
    gd__meter_show(&j->meter, "step", progress->step, progress->loss);
    return !gd__interrupted();
}

/* 1 - rss / sum of squares about the mean, weighted. */
static double r_squared(job *j)
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
    return 1 - j->fit.rss / total;
}

/* Steps of a chain over the sum of squares, then the spread of the parameters where they end. */
static gd_status fit_by_chain(job *j, gd_fit_options *o)
{
    gd_solve_result solved;
    gd_objective objective = {.loss = residuals, .user = j};
    o->solve.gradient_tol = gd_solve_defaults().gradient_tol;
    gd_status status = gd_minimize_link(j->free, j->params, &objective, j->chain, &o->solve, &solved);
    j->chain = NULL;
    if (status) return status;
    /* every gradient is small enough: no step is taken */
    o->solve = gd_solve_defaults();
    o->solve.gradient_tol = INFINITY;
    o->polish = false;
    status = gd_least_squares(j->free, j->params, residuals, j, o, &j->fit);
    if (solved.reason != GD_STOP_NOT_FINITE && j->fit.solve.reason == GD_STOP_NOT_FINITE)
        solved.reason = GD_STOP_NOT_FINITE;
    j->fit.solve = solved;
    return status;
}

static gd_status fit(job *j)
{
    gd_fit_options o = gd_fit_defaults();
    gd_status status = gd__args_integer(j->args, "steps", 1, INT64_MAX, &o.solve.max_steps);
    const char *chain = gd__args_get(j->args, "chain");
    if (!status && chain && !(j->chain = gd_chain(j->ctx, chain))) status = gd_error(j->ctx);
    if (status) return status;
    o.solve.callback = report;
    o.solve.callback_user = j;
    const char *device = gd__args_get(j->args, "device");
    if (device) status = move(j, device);
    if (status) return status;
    j->cli->running = true;
    j->meter = gd__meter_start(0);
    gd__interrupt_catch();
    status = j->chain ? fit_by_chain(j, &o) : gd_least_squares(j->free, j->params, residuals, j, &o, &j->fit);
    gd__meter_end(&j->meter);
    if (!status && device) status = move(j, "cpu"); /* what comes after is tables and drawings */
    if (status) return status;
    if (j->fit.solve.reason == GD_STOP_NOT_FINITE)
        return gd_fail(j->ctx, GD_VALUE,
                       "fit: the model or its derivatives are not finite where the parameters start");
    if (gd__interrupted())
        return gd_fail(j->ctx, GD_INTERRUPTED, "fit: interrupted after %lld steps",
                       (long long)j->fit.solve.steps);
    j->t = gd__student_quantile(LEVEL, (double)j->fit.dof);
    j->r2 = r_squared(j);
    return GD_OK;
}

/* ---- results, one row an element of a parameter ---- */

typedef struct row {
    char name[96];
    double value, error, low, high;
} row;

/* Value, standard error and interval of one element; `at` counts elements over all parameters.  With a bound, the interval is
 * that of the free number, carried over, so it lies inside. */
static gd_status make_row(job *j, int param, int64_t element, int64_t at, row *out)
{
    double *u = gd__alloc_array(j->ctx, (size_t)gd_numel(j->free[param]), sizeof *u), v[3];
    if (!u) return GD_NOMEM;
    const gd_bound *b = &j->bound[param];
    gd_status status = gd_read_f64(j->free[param], u, gd_numel(j->free[param]));
    double error = j->fit.standard_errors && !status ? gd_at(j->fit.standard_errors, &at) : NAN;
    gd_scope_begin(j->ctx);
    gd_no_grad_begin(j->ctx);
    double margin = isfinite(j->t * error) ? j->t * error : INFINITY;
    double centre = status ? NAN : u[element], points[3] = {centre, centre - margin, centre + margin};
    gd_tensor *ends = gd__bound_value(b, gd_from_f64(j->ctx, GD_F64, 1, (int64_t[]){3}, points));
    if (!status) status = ends ? gd_read_f64(ends, v, 3) : gd_error(j->ctx);
    gd_no_grad_end(j->ctx);
    gd_scope_end(j->ctx);
    gd__free(j->ctx, u, (size_t)gd_numel(j->free[param]) * sizeof *u);
    if (status) return status;
    *out = (row){.value = v[0],
                 .error = error * fabs(gd__bound_slope(b, centre)),
                 .low = fmin(v[1], v[2]),
                 .high = fmax(v[1], v[2])};
    if (gd_ndim(j->free[param]) == 0)
        (void)snprintf(out->name, sizeof out->name, "%.80s", j->name[param]);
    else
        (void)snprintf(out->name, sizeof out->name, "%.60s[%lld]", j->name[param], (long long)element);
    return GD_OK;
}

static gd_status print_table(job *j)
{
    gd_text *out = &j->cli->out;
    gd_status status = GD_OK;
    int64_t at = 0;
    gd__text_put(out, "%-16s %16s %14s   %s\n", "parameter", "value", "std. error", "95 % interval");
    for (int i = 0; i < j->params; i++) {
        for (int64_t k = 0; k < gd_numel(j->free[i]) && !status; k++, at++) {
            row r;
            status = make_row(j, i, k, at, &r);
            if (!status)
                gd__text_put(out, "%-16s %16.8g %14.4g   %.6g .. %.6g\n", r.name, r.value, r.error, r.low,
                             r.high);
        }
    }
    gd__text_put(out, "\nresidual standard deviation %.6g with %lld degrees of freedom\n", j->fit.sigma,
                 (long long)j->fit.dof);
    gd__text_put(out, "R2 %.6f, sum of squares %.8g, %lld points\n", j->r2, j->fit.rss,
                 (long long)j->fit.residuals);
    gd__text_put(out, "%lld steps, %lld evaluations, %.3g s: %s\n", (long long)j->fit.solve.steps,
                 (long long)j->fit.solve.evals, j->fit.solve.seconds, gd_stop_text(j->fit.solve.reason));
    return status;
}

typedef enum part { VALUE, ERROR, INTERVAL } part;

static void put_part(gd_text *out, part what, const row *r)
{
    if (what != INTERVAL) {
        gd__json_number(out, what == VALUE ? r->value : r->error);
        return;
    }
    gd__text_char(out, '[');
    gd__json_number(out, r->low);
    gd__text_add(out, ", ");
    gd__json_number(out, r->high);
    gd__text_char(out, ']');
}

/* {name: number or list, ...}; lists are flat, in row-major order. */
static gd_status put_parts(job *j, part what)
{
    gd_text *out = &j->cli->out;
    gd_status status = GD_OK;
    bool first = true;
    int64_t at = 0;
    gd__text_char(out, '{');
    for (int i = 0; i < j->params && !status; i++) {
        bool list = gd_ndim(j->free[i]) > 0;
        gd__json_key(out, &first, j->name[i]);
        if (list) gd__text_char(out, '[');
        for (int64_t k = 0; k < gd_numel(j->free[i]) && !status; k++, at++) {
            row r;
            status = make_row(j, i, k, at, &r);
            if (k) gd__text_add(out, ", ");
            if (!status) put_part(out, what, &r);
        }
        if (list) gd__text_char(out, ']');
    }
    gd__text_char(out, '}');
    return status;
}

static gd_status print_json(job *j)
{
    gd_text *out = &j->cli->out;
    bool first = true;
    static const char *const keys[] = {"params", "stderr", "interval"};
    gd_status status = GD_OK;
    gd__text_char(out, '{');
    for (int k = 0; k < 3 && !status; k++) {
        gd__json_key(out, &first, keys[k]);
        status = put_parts(j, (part)k);
    }
    const char *const names[] = {"rss", "sigma", "r2", "dof", "points", "rank", "steps", "evals", "seconds"};
    const double numbers[] = {j->fit.rss,
                              j->fit.sigma,
                              j->r2,
                              (double)j->fit.dof,
                              (double)j->fit.residuals,
                              (double)j->fit.rank,
                              (double)j->fit.solve.steps,
                              (double)j->fit.solve.evals,
                              j->fit.solve.seconds};
    for (int k = 0; k < 9; k++) {
        gd__json_key(out, &first, names[k]);
        gd__json_number(out, numbers[k]);
    }
    gd__json_key(out, &first, "converged");
    gd__text_add(out, j->fit.solve.converged ? "true" : "false");
    gd__json_key(out, &first, "reason");
    gd__json_string(out, gd_stop_text(j->fit.solve.reason));
    gd__text_add(out, "}\n");
    return status;
}

/* ---- files ---- */

static gd_status save(job *j)
{
    gd_archive *archive = gd_archive_new(j->ctx);
    if (!archive) return GD_NOMEM;
    gd_status status = GD_OK;
    gd_scope_begin(j->ctx);
    gd_no_grad_begin(j->ctx);
    for (int i = 0; i < j->params && !status; i++) {
        gd_tensor *t = gd__bound_value(&j->bound[i], j->free[i]);
        status = t ? gd_archive_put(archive, j->name[i], t) : gd_error(j->ctx);
    }
    bool bounded = false;
    for (int i = 0; i < j->params; i++) bounded = bounded || j->bound[i].has_low || j->bound[i].has_high;
    /* with bounds the solver's covariance is that of the free numbers: not what a reader would expect */
    if (!bounded && j->fit.covariance && !status)
        status = gd_archive_put(archive, "fit.covariance", j->fit.covariance);
    if (!bounded && j->fit.standard_errors && !status)
        status = gd_archive_put(archive, "fit.standard_errors", j->fit.standard_errors);
    if (!status) status = gd_archive_set_meta(archive, "model", j->args->argument[0]);
    if (!status) status = gd_archive_save(archive, j->out);
    gd_no_grad_end(j->ctx);
    gd_scope_end(j->ctx);
    gd_archive_free(archive);
    return status;
}

/* The only column that the model uses; -1 if there are none or several. */
static int only_column(const job *j)
{
    int found = -1;
    for (int i = j->params; i < j->names; i++) {
        if (!gd__expr_uses(j->model, i)) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

static gd_tensor *curve_of(void *user, gd_tensor *const *inputs, int count)
{
    job *j = user;
    (void)count;
    return gd_reshape(model_at(j, inputs), 1, (int64_t[]){-1});
}

/* Half the width of the band of the curve: t times the root of g C g', with g the derivatives of each point. */
static gd_status band(job *j, double *half)
{
    gd_tensor *jacobian[MAX_PARAMS] = {NULL}, *flat[MAX_PARAMS];
    gd_status status = gd_jacobian(curve_of, j, j->free, j->params, jacobian);
    for (int i = 0; i < j->params && !status; i++)
        flat[i] = gd_reshape(jacobian[i], 2, (int64_t[]){CURVE, gd_numel(j->free[i])});
    if (status) return status;
    gd_tensor *g = gd_cat(flat, j->params, "1");
    gd_tensor *spread = gd_sqrt(gd_sum(gd_mul(gd_matmul(g, j->fit.covariance), g), "1", false));
    if (!spread) return gd_error(j->ctx);
    status = gd_read_f64(spread, half, CURVE);
    for (int i = 0; i < CURVE; i++) half[i] *= j->t;
    return status;
}

/* The curve over the range of the one column, with its band, under the points. */
static gd_status draw_curve(job *j, gd_plot *plot, int x)
{
    double xs[CURVE], ys[CURVE], half[CURVE], low[CURVE], high[CURVE];
    gd_tensor *data = j->value[x];
    const double *v = gd_data(data);
    double first = INFINITY, last = -INFINITY;
    for (int64_t i = 0; i < gd_numel(data); i++) first = fmin(first, v[i]), last = fmax(last, v[i]);
    gd_scope_begin(j->ctx);
    j->value[x] = gd_linspace(j->ctx, GD_F64, first, last, CURVE);
    gd__expr_forget(j->model);
    gd_tensor *curve = j->value[x] ? model_at(j, j->free) : NULL;
    gd_status status = curve ? gd_read_f64(j->value[x], xs, CURVE) : gd_error(j->ctx);
    if (!status) status = gd_read_f64(curve, ys, CURVE);
    bool has_band = !status && j->fit.covariance && isfinite(j->t) && band(j, half) == GD_OK;
    if (!status && !has_band) gd_clear_error(j->ctx);
    for (int i = 0; i < CURVE && has_band; i++) low[i] = ys[i] - half[i], high[i] = ys[i] + half[i];
    gd__expr_forget(j->model);
    j->value[x] = data;
    gd_scope_end(j->ctx);
    if (status) return status;
    if (has_band) gd__plot_band(plot, "95 % band of the curve", xs, low, high, CURVE);
    gd__plot_line(plot, "fit", xs, ys, CURVE);
    gd__plot_points(plot, "data", v, gd_data(j->y), (size_t)gd_numel(j->y));
    return GD_OK;
}

/* Several columns: measured over fitted values, with the line where they agree. */
static gd_status draw_agreement(job *j, gd_plot *plot)
{
    int64_t rows = gd_numel(j->y);
    double ends[2] = {INFINITY, -INFINITY};
    const double *y = gd_data(j->y);
    gd_scope_begin(j->ctx);
    gd_no_grad_begin(j->ctx);
    gd_tensor *fitted = gd_copy(gd_expand(model_at(j, j->free), 1, (int64_t[]){rows}));
    gd_no_grad_end(j->ctx);
    if (fitted) {
        const double *f = gd_data(fitted);
        for (int64_t i = 0; i < rows; i++)
            ends[0] = fmin(ends[0], fmin(y[i], f[i])), ends[1] = fmax(ends[1], fmax(y[i], f[i]));
        gd__plot_line(plot, "agreement", ends, ends, 2);
        gd__plot_points(plot, "data", f, y, (size_t)rows);
    }
    gd_scope_end(j->ctx);
    return fitted ? GD_OK : gd_error(j->ctx);
}

static gd_status draw(job *j)
{
    int x = only_column(j);
    const char *y = gd__args_get(j->args, "y");
    gd_plot *plot = gd__plot_new(j->ctx, j->args->argument[0], x >= 0 ? j->name[x] : "fitted", y ? y : "y");
    if (!plot) return GD_NOMEM;
    gd_status status = x >= 0 ? draw_curve(j, plot, x) : draw_agreement(j, plot);
    if (!status) status = gd__plot_save(plot, j->plot, false);
    gd__plot_free(plot);
    return status;
}

/* ---- the command ---- */

static void close_job(job *j)
{
    gd_link_release(j->chain);
    gd_fit_result_clear(&j->fit);
    gd__expr_free(j->model);
    for (int i = 0; i < j->params; i++) gd_release(j->free[i]);
    for (int i = j->params; i < j->names; i++) gd_release(j->value[i]);
    gd_release(j->y);
    gd_release(j->scale);
    gd__free(j->ctx, j->name, j->name_bytes);
    gd__free(j->ctx, j->value, j->name_bytes);
    gd__free(j->ctx, j->free, j->name_bytes);
    gd__free(j->ctx, j->bound, j->bound_bytes);
    gd__csv_free(j->csv);
}

static int run(gd_cli *cli, const gd_args *args)
{
    job j = {.cli = cli, .args = args, .ctx = cli->ctx};
    gd_status status = prepare(&j);
    if (!status) status = fit(&j);
    if (!status && j.out) status = save(&j);
    if (!status && j.plot) status = draw(&j);
    if (!status) status = gd__args_has(args, "json") ? print_json(&j) : print_table(&j);
    if (!status && j.plot && !gd__args_has(args, "json")) gd__text_put(&cli->out, "%s\n", j.plot);
    if (!status && cli->out.failed) status = GD_NOMEM;
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
        "parameters with standard errors and 95 % intervals.",
    .options = options,
    .examples =
        "gradus fit 'a*exp(-b*t)+c' examples/data/decay.csv --y y --param a=1 --param b=1 --param c=0 --plot fit.svg\n"
        "gradus fit 'k*x^n' data.csv --param k=1 --param n=1 --bound 'k>0' --sigma s --json\n",
    .least = 2,
    .most = 2,
    .reads_from = 2,
    .run = run,
};
