/* gradus fit: nonlinear least squares on a table. */
#include "file/output.h"
#include "cli/fit/fit.h"

#include <math.h>

static const gd_option options[] = {
    GD_OPTION("y", "COLUMN", "what the model is to give (y)"),
    GD_VALUES("param", "a parameter and where it starts; values as for gradus minimize"),
    GD_VALUES("fix", "a constant of the model, held: values as for --param"),
    GD_OPTION("weights", "COLUMN", "weights of the squared residuals; rows of weight 0 are left out"),
    GD_OPTION("sigma", "COLUMN", "standard deviations of y: residuals are divided by them"),
    GD_REPEATED(
        "x-errors", "[NAME=]COLUMN|NUMBER",
        "standard deviations of a column of the model, beside those of y (--sigma, or 1): the sum of squared distances from the "
        "curve is minimised (orthogonal distance regression); NAME= where the model has several columns; --plot has bars for them, and bands of new "
        "measurements where they are the same in all rows"),
    GD_SWITCH("absolute-sigma",
              "--sigma are the standard deviations, not only their ratios: errors are not scaled by "
              "the residuals, likelihood, AIC and BIC use them as known, and a chi-square test is made"),
    GD_REPEATED("bound", "BOUND", "keep a parameter inside, ends included: 'b>0', 'b<5', '0<b<1'"),
    GD_REPEATED("exclude", "CONDITION", "leave out the rows where it holds: 'x > 3 && y < 0'"),
    GD_OPTION(
        "dates", "days|seconds[:ORIGIN]",
        "what a column of ISO dates is to the model: days or seconds since ORIGIN, as in days:2000-01-01 "
        "(days where no cell has a time of day, else seconds; since the midnight before the earliest)"),
    GD_OPTION("missing", "error|drop", "what rows with missing cells are (error)"),
    GD_OPTION(
        "loss", "squares|huber|soft_l1|cauchy|tukey[:SCALE]",
        "what outliers cost: squares, huber, soft_l1, cauchy or tukey; SCALE is the standard deviation of good residuals "
        "(found from a Huber fit); errors are then those of an M-estimator, and outliers are listed (squares)"),
    GD_OPTION(
        "intervals", "normal|profile|bootstrap[:N][:residuals]",
        "normal (value and standard error), profile (where the sum of squares has risen enough, the other parameters "
        "fitted again), or bootstrap[:N][:residuals] (N fits of resampled rows, or residuals; BCa, wider by Student's "
        "quantile as few rows want it; 2000) (normal)"),
    GD_REPEATED("derive", "NAME=EXPR", "a quantity of the parameters with its error: 'thalf=log(2)/b'"),
    GD_SWITCH(
        "guess",
        "start where a line, an exponential, a power, a peak, a step or a sine through the data says; parameters are then "
        "written --param NAME, or with a start that is tried too: the fit that ends lower is kept"),
    GD_OPTION(
        "starts", "N",
        "fit from N points and go on from the best: in the bounds, or a tenth to ten times around the start (1)"),
    GD_OPTION("chain", "CHAIN", "another method: links joined by |, see gradus links (Levenberg-Marquardt)"),
    GD_PLUGIN_OPTION,
    GD_OPTION("steps", "N", "the most steps, of each fit with --guess, --starts or profile intervals (1000)"),
    GD_DEF_OPTION,
    GD_OUTPUT(
        "plot",
        "data, fitted curve, its band and that of new measurements, residuals; more than 20000 points as a density; as " GD_PICTURES),
    GD_OPTION("log", "x|y|xy", "logarithmic axes of the picture"),
    GD_DARK_OPTION,
    {"export", "FILE", "the fitted function as .c, .py or .tex; may be given several times", true,
     GD_PATH_WRITE},
    GD_OUTPUT("residuals", "each fitted row with fitted value, residual and standardized residual, as .csv"),
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

static gd_status check_outputs(gd_fit_job *j)
{
    gd_status status = GD_OK;
    j->plot = gd__args_get(j->args, "plot");
    j->out = gd__args_get(j->args, "out");
    j->residuals = gd__args_get(j->args, "residuals");
    static const char *const of_plot[] = {"log", "dark"};
    for (int i = 0; i < 2 && !j->plot; i++)
        if (gd__args_has(j->args, of_plot[i]))
            return gd_fail(j->ctx, GD_ARGUMENT, "fit: --%s is for --plot, which is not given", of_plot[i]);
    if (gd__args_has(j->args, "log")) {
        int axes = 0;
        status = gd__args_choice(j->args, "log", "x y xy", &axes);
        j->log[0] = axes != 1;
        j->log[1] = axes != 0;
    }
    if (j->plot && !status) status = gd_plot_check_path(j->ctx, j->plot);
    if (j->plot && !status) status = gd__check_output(j->ctx, j->plot);
    if (j->residuals && !status) status = gd__check_output(j->ctx, j->residuals);
    return j->out && !status ? gd__check_file(j->ctx, j->out) : status;
}

static gd_status prepare_fit(gd_fit_job *j)
{
    int64_t seed = 0;
    gd_status status = gd__args_integer(j->args, "seed", 0, INT64_MAX, &seed);
    gd_seed(j->ctx, j->seed = (uint64_t)seed);
    if (!status) status = check_outputs(j);
    if (!status) status = gd__fit_read(j);
    return status ? status : gd__fit_export(j, true);
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
        status = gd__fit_save(j);
        saved = !status;
        gd__put_aside(j->ctx, status, &j->why);
    }
    if (done) gd__put_aside(j->ctx, gd__fit_export(j, false), &j->why);
    if (done && j->residuals) gd__put_aside(j->ctx, gd__fit_write_residuals(j), &j->why);
    if (done && j->plot) gd__put_aside(j->ctx, gd__fit_draw(j), &j->why);
    if (done) gd__put_aside(j->ctx, print(j), &j->why);
    if (!j->why.status) gd__put_aside(j->ctx, admit(j), &j->why);
    if (done && j->why.status) gd__put_aside(j->ctx, gd__cli_flush(j->cli), &j->why);
    return gd__tell(j->ctx, &j->why, saved ? j->out : NULL, NULL);
}

static int run_fit(gd_cli *cli, const gd_args *args)
{
    gd_fit_job j = {.cli = cli, .args = args, .ctx = cli->ctx, .reached = NAN, .numbers = {.aic = NAN}};
    gd_status status = prepare_fit(&j);
    if (!status) status = gd__fit_run(&j);
    if (!status || cli->running) status = finish_fit(&j, status);
    gd__fit_close(&j);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_fit = {
    .name = "fit",
    .summary = "Fit a model to a table by nonlinear least squares.",
    .arguments = "'MODEL' DATA.csv [MORE.csv...]",
    .description =
        "MODEL is an expression (see `gradus help eval`) in the parameters and the columns of the table; a column whose "
        "name is no plain word is written between backquotes, one with a unit, 'S [mM]', also without it: S. Tables are text, or "
        ".npy, .npz and .safetensors files, whose vectors are columns; a column of dates is a number of days or seconds, see --dates; a "
        "column without a name is called by its position, c1 for the first. Of several tables the rows are taken together, and the column "
        "set has the number of the table from 0: `A[set]` in the model and `--param 'A[set]=1'` give each its own A, while other "
        "parameters are shared. `y = MODEL` names the column as --y does; any other equation, 'x^2/a^2 + y^2/b^2 = 1', is an implicit model: all "
        "its columns have errors, of standard deviation 1 unless --x-errors says another, and distances from its curve are minimised. "
        "Levenberg-Marquardt with exact Jacobians, or --chain. Prints the "
        "parameters with standard errors and 95 % intervals; of a parameter that is held by its bound, the interval from the "
        "bound inwards. Ends with status 1, after all was printed, where the fit is stuck, at the limit of its steps, or where the "
        "data do not determine all parameters: these are named. Ctrl-C, SIGTERM, SIGHUP or an output that fails end it with the "
        "parameters in --out.",
    .options = options,
    .examples =
        "gradus fit 'a*exp(-b*t)+c' examples/data/decay.csv --y y --param a=1 --param b=1 --param c=0 --plot fit.svg\n"
        "gradus fit '(x-p)^2 + (y-q)^2 = r^2' points.csv --param p=0 --param q=0 --param r=1 --plot circle.svg\n"
        "gradus fit 'k*x^n' data.csv --param k=1 --param n=1 --bound 'k>0' --sigma s --json\n"
        "gradus fit 'h*exp(-(x-m)^2/(2*s^2))+b' peak.csv --guess --param h --param m --param s --param b\n"
        "gradus fit 'a + b*x' data.csv --param a=0 --param b=1 --out fit.safetensors && gradus predict fit.safetensors new.csv\n",
    .least = 2,
    .most = 1000,
    .reads_from = 2,
    .run = run_fit,
};
