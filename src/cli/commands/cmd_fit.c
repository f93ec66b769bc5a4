/* gradus fit: nonlinear least squares on a table. */
#include "cli/fit/fit_arguments.h"
#include "cli/fit/fit_by_groups.h"
#include "cli/outcome.h"
#include "cli/problem_options.h"
#include "file/output.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const gd_option options[] = {
    GD_OPTION("y", "COLUMN", "the column that the model is fitted to (y)"),
    GD_VALUES("param", "a parameter and its start; values as for gradus minimize"),
    GD_VALUES("fix", "a constant of the model; values as for --param"),
    GD_OPTION("weights", "COLUMN", "weights of the squared residuals; rows of weight 0 are left out"),
    GD_OPTION("sigma", "COLUMN", "standard deviations of y: residuals are divided by them"),
    GD_REPEATED(
        "x-errors", "[NAME=]COLUMN|NUMBER",
        "standard deviations of a column of the model, in addition to those of y (--sigma, or 1): minimises "
        "the sum of squared distances from the curve (orthogonal distance regression); NAME= if the model "
        "has several columns; --plot draws error bars, and prediction bands if they are the same in all rows"),
    GD_SWITCH(
        "absolute-sigma",
        "--sigma are absolute standard deviations, not only ratios: errors are not scaled by the residuals, "
        "likelihood, AIC and BIC use them, and a chi-square test is added"),
    GD_REPEATED("bound", "BOUND", "keep a parameter inside, ends included: 'b>0', 'b<5', '0<b<1'"),
    GD_REPEATED("exclude", "CONDITION", "leave out rows for which it is true: 'x > 3 && y < 0'"),
    GD_OPTION(
        "dates", "days|seconds[:ORIGIN]",
        "unit and origin of columns of ISO dates, as in days:2000-01-01 (days if no cell has a time of day, "
        "else seconds; since the midnight before the earliest)"),
    GD_OPTION("missing", "error|drop", "treatment of rows with missing cells (error)"),
    GD_OPTION(
        "loss", "squares|huber|soft_l1|cauchy|tukey[:SCALE]",
        "loss of residuals: squares, huber, soft_l1, cauchy or tukey; SCALE is the standard deviation of "
        "residuals that are no outliers (from a Huber fit); errors are then those of an M-estimator, and "
        "outliers are listed (squares)"),
    GD_OPTION(
        "intervals", "normal|profile|bootstrap[:N][:residuals]",
        "normal (value and standard error), profile (by the increase of the sum of squares with the other "
        "parameters refitted), or bootstrap[:N][:residuals] (N fits of resampled rows or residuals; BCa, "
        "widened for few rows by Student's quantile; 2000) (normal)"),
    GD_OPTION(
        "errors", "usual|hc3",
        "standard errors: usual (one variance of all residuals) or hc3 (each has its own: MacKinnon & White 1985) (usual)"),
    GD_OPTION("level", "P", "confidence level of intervals and bands, between 0 and 1 (0.95)"),
    GD_REPEATED("derive", "NAME=EXPR", "a quantity of the parameters with its error: 'thalf=log(2)/b'"),
    GD_SWITCH(
        "guess",
        "estimate starts from a line, an exponential, a power, a peak, a step or a sine through the data; "
        "write --param NAME, or a start that is tried too: the better fit is kept"),
    GD_OPTION(
        "starts", "N",
        "fit from N starting points and refine the best: in the bounds, or a tenth to ten times around the start (1)"),
    GD_OPTION(
        "by", "COLUMN[,COLUMN]",
        "fit each group of rows with equal cells in these columns by itself, on all threads: prints a table with a row per group; --out writes it as .csv, --plot draws groups"),
    GD_PATH_OPTION(
        "group-starts", "FILE", GD_PATH_READ,
        "starts and bounds of the groups of --by: a table with their columns, starts in columns named like parameters, bounds in NAME_low and NAME_high, as --out of an earlier fit (those of --param and --bound)"),
    GD_OPTION(
        "groups", "NAME[,NAME]",
        "the groups of --by that --plot draws, up to 16, by their cells: 'A,B', of two columns 'A/0,B/1' (the first 8)"),
    GD_OPTION("chain", "CHAIN", "the method: links joined by |, see gradus links (Levenberg-Marquardt)"),
    GD_PLUGIN_OPTION,
    GD_OPTION("steps", "N", "most steps; per fit with --guess, --starts or profile intervals (1000)"),
    GD_DEF_OPTION,
    GD_OUTPUT(
        "plot",
        "data, fitted curve, confidence and prediction bands, residuals; more than 20000 points as a density; as " GD_PICTURES),
    GD_OPTION("log", "x|y|xy", "logarithmic axes of the picture"),
    GD_DARK_OPTION,
    {"export", "FILE", "the fitted function as .c, .py or .tex; may be given several times", true,
     GD_PATH_WRITE},
    GD_OUTPUT("residuals", "every fitted row with fitted value, residual and standardized residual, as .csv"),
    GD_OUTPUT(
        "out",
        "parameters, standard errors and covariance, as .safetensors; gradus predict and gradus compare read it"),
    GD_SWITCH(
        "json",
        "print one JSON object: params, stderr, interval, active, undetermined, names, covariance, correlation, rss, sigma, "
        "r2, dof, points, log_likelihood, aic, aicc, bic, chi_square_p, derived, dates, guess, starts, agreed, intervals, loss, x_errors, scale, outliers, steps, evals, stop, reason"),
    GD_TABLE_OPTIONS,
    GD_OPTION("device", "NAME", "cpu, gpu or gpu:1 (cpu)"),
    GD_OPTION("seed", "N", "of random starts and resamples (0)"),
    GD_OPTION("threads", "N", "CPU threads (all cores); results do not depend on it"),
    GD_WORLD_OPTION,
    {0},
};

/* A run of the command. */
typedef struct run {
    gd_cli *cli;
    gd_ctx *ctx;
    const gd_args *args;
    gd_fit_arguments read;
    gd_fit *fit;
    gd_meter meter;
    gd_observer observer;
    const char *plot, *out, *residuals;
    bool log[2];
    gd_trouble why; /* the first failure */
    gd_slow_save slow;
} run;

static gd_status check_outputs(run *r)
{
    gd_status status = GD_OK;
    r->plot = gd__args_get(r->args, "plot");
    r->out = gd__args_get(r->args, "out");
    r->residuals = gd__args_get(r->args, "residuals");
    static const char *const of_plot[] = {"log", "dark"};
    static const char *const of_groups[] = {"groups", "group-starts"};
    for (int i = 0; i < 2; i++)
        if (gd__args_has(r->args, of_groups[i]))
            return gd_fail(r->ctx, GD_ARGUMENT, "fit: --%s is for --by, which is not given", of_groups[i]);
    for (int i = 0; i < 2 && !r->plot; i++)
        if (gd__args_has(r->args, of_plot[i]))
            return gd_fail(r->ctx, GD_ARGUMENT, "fit: --%s is for --plot, which is not given", of_plot[i]);
    if (gd__args_has(r->args, "log")) {
        int axes = 0;
        status = gd__args_choice(r->args, "log", "x y xy", &axes);
        r->log[0] = axes != 1;
        r->log[1] = axes != 0;
    }
    if (r->plot && !status) status = gd_plot_check_path(r->ctx, r->plot);
    if (r->plot && !status) status = gd__check_output(r->ctx, r->plot);
    if (r->residuals && !status) status = gd__check_output(r->ctx, r->residuals);
    return r->out && !status ? gd__check_file(r->ctx, r->out) : status;
}

/* ---- callbacks of the fit ---- */

static bool is_interrupted(void *user)
{
    (void)user;
    return gd__interrupt_pending();
}

/* A signal may not wait for the end of the next step. */
static void save_slow(void *user, gd_fit *fit)
{
    run *r = user;
    if (!r->out || !gd__slow_step(&r->slow)) return;
    gd__slow_saved(r->ctx, &r->slow, gd_fit_save(fit, r->out));
}

static void observe(run *r)
{
    gd_fit_spec *s = &r->read.spec;
    r->observer = gd__meter_observer(&r->meter);
    r->observer.interrupted = is_interrupted;
    s->observer = &r->observer;
    s->world = r->cli->world;
    s->step = save_slow;
    s->step_user = r;
}

/* ---- before the fit ---- */

/* All --export files, or with `check` only whether they can be written. */
static gd_status export_all(run *r, bool check)
{
    int at = 0;
    gd_status status = GD_OK;
    for (const char *path; !status && (path = gd__args_next(r->args, "export", &at));)
        status = gd__fit_export(r->fit, path, check);
    return status;
}

/* Refuses options that this kind of model cannot serve. */
static gd_status check_model(run *r)
{
    bool exports = gd__args_has(r->args, "export");
    gd_status status = gd__fit_only_of_y(r->fit, exports                        ? "export"
                                                 : gd__args_has(r->args, "log") ? "log"
                                                                                : NULL);
    if (!status && r->plot) status = gd__fit_check_draw(r->fit);
    return status ? status : export_all(r, true);
}

static gd_status prepare_fit(run *r)
{
    gd_status status = check_outputs(r);
    if (status) return status;
    int64_t seed = 0;
    status = gd__args_integer(r->args, "seed", 0, INT64_MAX, &seed);
    gd_seed(r->ctx, (uint64_t)seed); /* of randn(...) as a start */
    if (!status) status = gd__fit_arguments_read(r->args, &r->read);
    if (status) return status;
    observe(r);
    r->fit = gd_fit_new(r->ctx, &r->read.spec);
    if (!r->fit) return gd_error(r->ctx) ? gd_error(r->ctx) : GD_NOMEM;
    return check_model(r);
}

/* ---- after it ---- */

/* A fit that did not converge: everything is printed, then this is the error. */
static gd_status admit(run *r)
{
    gd_stop reason = r->fit->fit.solve.reason;
    bool asked = reason == GD_STOP_MAX_STEPS && gd__args_has(r->args, "steps");
    if (gd_stop_converged(reason) || asked) return GD_OK;
    return gd_fail(r->ctx, GD_VALUE, "fit: not converged: %s", gd__fit_stop_text(r->fit));
}

static gd_status print(run *r)
{
    bool json = gd__args_has(r->args, "json");
    gd_text *out = &r->cli->out;
    (json ? gd__fit_put_json : gd__fit_put_table)(r->fit, out);
    if (r->plot && !json && !r->why.status) gd__text_put(out, "%s\n", r->plot);
    return out->failed ? GD_NOMEM : GD_OK;
}

static gd_status draw_fit(run *r)
{
    gd_fit_picture how = {.log_x = r->log[0], .log_y = r->log[1], .dark = gd__args_has(r->args, "dark")};
    gd_plot *plot = gd__fit_plot(r->fit, &how);
    gd_status status = plot               ? gd_plot_save(plot, r->plot, how.dark)
                       : gd_error(r->ctx) ? gd_error(r->ctx)
                                          : GD_NOMEM;
    gd_plot_free(plot);
    return status;
}

/* Defers the failure of a run; an interrupted one reports what is lost. */
static void put_run_aside(run *r, gd_status status)
{
    gd__put_aside(r->ctx, status, &r->why);
    size_t used = strlen(r->why.text);
    if (r->why.status == GD_INTERRUPTED && !r->out)
        (void)snprintf(r->why.text + used, sizeof r->why.text - used, ", nothing saved without --out");
}

/* Writes all available results, the parameters first; then the first failure. After an interruption, the results are those of the best point. */
static gd_status finish_fit(run *r, gd_status status)
{
    bool done = !status, saved = r->slow.saved;
    put_run_aside(r, status);
    if (r->out && (done || isfinite(r->fit->reached))) {
        status = gd_fit_save(r->fit, r->out);
        saved = !status;
        gd__put_aside(r->ctx, status, &r->why);
    }
    if (done) gd__put_aside(r->ctx, export_all(r, false), &r->why);
    if (done && r->residuals) gd__put_aside(r->ctx, gd_fit_save_residuals(r->fit, r->residuals), &r->why);
    if (done && r->plot) gd__put_aside(r->ctx, draw_fit(r), &r->why);
    if (done) gd__put_aside(r->ctx, print(r), &r->why);
    if (!done && r->why.status == GD_INTERRUPTED && isfinite(r->fit->reached)) {
        gd__fit_put_point(r->fit, &r->cli->out, gd__args_has(r->args, "json"));
        done = true;
    }
    if (!r->why.status) gd__put_aside(r->ctx, admit(r), &r->why);
    if (done && r->why.status) gd__put_aside(r->ctx, gd__cli_flush(r->cli), &r->why);
    return gd__tell(r->ctx, &r->why, saved ? r->out : NULL, NULL);
}

static int run_fit(gd_cli *cli, const gd_args *args)
{
    run r = {.cli = cli, .ctx = cli->ctx, .args = args, .read = {.ctx = cli->ctx, .args = args}};
    bool by_groups = gd__args_has(args, "by");
    gd_status status = by_groups ? gd__fit_arguments_read(args, &r.read) : prepare_fit(&r);
    if (by_groups && !status) {
        if (gd__args_has(args, "dates")) r.read.spec.dates = gd__args_get(args, "dates");
        r.read.spec.world = cli->world;
        status = gd__fit_by_groups(cli, args, &r.read.spec);
    } else if (!status) {
        cli->running = true;
        gd__interrupt_catch(GD_GRACE);
        r.slow.begun = gd__cli_seconds();
        status = gd_fit_run(r.fit);
        (void)gd__interrupted();
        status = finish_fit(&r, status);
    }
    gd_fit_free(r.fit);
    gd__fit_arguments_close(&r.read);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_fit = {
    .name = "fit",
    .summary = "Fit a model to a table by nonlinear least squares.",
    .arguments = "'MODEL' DATA.csv [MORE.csv...]",
    .description =
        "MODEL is an expression (see `gradus help eval`) in the parameters and the columns of the table; a "
        "column name with other characters is written between backquotes; a unit, 'S [mM]', may be omitted: "
        "S. Tables are text, or .npy, .npz and .safetensors files, whose vectors are columns; a column of "
        "dates is a number of days or seconds, see --dates; a column without a name is called by its "
        "position, c1 for the first. Rows of several tables are joined, and the column set has the number of "
        "the table from 0: `A[set]` in the model and `--param 'A[set]=1'` give each its own A, while other "
        "parameters are shared. `y = MODEL` names the column as --y does; any other equation, 'x^2/a^2 + "
        "y^2/b^2 = 1', is an implicit model: all its columns have errors, of standard deviation 1 unless "
        "--x-errors is given, and distances from its curve are minimised. Levenberg-Marquardt with exact "
        "Jacobians, or --chain. Prints the parameters with standard errors and 95 % intervals (--level); for "
        "a parameter at its bound, the interval from the bound inwards. Exit status 1, after printing, if "
        "the fit is stuck, at the default limit of its steps, or if the data do not determine all parameters, which "
        "are named. On Ctrl-C, SIGTERM, SIGHUP or a failing output it ends with the parameters in --out.",
    .options = options,
    .examples =
        "gradus fit 'a*exp(-b*t)+c' examples/data/decay.csv --y y --param a=1 --param b=1 --param c=0 --plot fit.svg\n"
        "gradus fit '(x-p)^2 + (y-q)^2 = r^2' points.csv --param p=0 --param q=0 --param r=1 --plot circle.svg\n"
        "gradus fit 'k*x^n' data.csv --param k=1 --param n=1 --bound 'k>0' --sigma s --json\n"
        "gradus fit 'h*exp(-(x-m)^2/(2*s^2))+b' peak.csv --guess --param h --param m --param s --param b\n"
        "gradus fit 'a*exp(-b*t)+c' wells.csv --by plate,well --param a=1 --param b=1 --param c=0 --out fits.csv --plot fits.svg --groups A/0,B/1\n"
        "gradus fit 'a + b*x' data.csv --param a=0 --param b=1 --out fit.safetensors && gradus predict fit.safetensors new.csv\n",
    .least = 2,
    .most = 1000,
    .reads_from = 2,
    .run = run_fit,
};
