/* gradus/fit.h: fits of a model to a table: values, errors, intervals, predictions, pictures.
 *
 *     gd_table *table = gd_table_load(ctx, "decay.csv", NULL);
 *     gd_fit_param params[] = {{.name = "a", .start = 1}, {.name = "b", .start = 1}, {.name = "c"}};
 *     gd_fit_spec spec = gd_fit_defaults();
 *     spec.model = "a*exp(-b*t)+c";
 *     spec.table = table;
 *     spec.params = params, spec.param_count = 3;
 *     gd_fit *fit = gd_fit_new(ctx, &spec);
 *     if (gd_fit_run(fit) || gd_fit_draw(fit, "decay.svg", NULL)) puts(gd_error_text(ctx));
 *     for (int64_t i = 0; i < gd_fit_count(fit); i++) {
 *         gd_fit_estimate e;
 *         if (gd_fit_get(fit, i, &e) == GD_OK) printf("%s %g +- %g, %g to %g\n", e.name, e.value, e.error, e.low, e.high);
 *     }
 *     gd_fit_free(fit);
 *     gd_table_free(table);
 *
 * This is `gradus fit` for programs.  It prints nothing: a gd_observer gets the progress and may end the fit.  Texts of the spec have
 * the syntax of the program's options (`gradus help fit`).  Stopping without convergence is no error: gd_fit_summary has the
 * reason. */
#ifndef GRADUS_FIT_H
#define GRADUS_FIT_H

#include "gradus/plot.h"
#include "gradus/solve.h"
#include "gradus/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A model, a table and the result.  It belongs to its context. */
typedef struct gd_fit gd_fit;

/* A model as a function made of operators: its value at every row, [rows] or one number, in f64.  params: one tensor for each entry of
 * gd_fit_spec.params, in their order; columns: one vector for each of gd_fit_spec.columns.  New or borrowed; NULL ends the fit with the
 * error recorded in the context. */
typedef gd_tensor *(*gd_fit_function)(void *user, gd_tensor *const *params, gd_tensor *const *columns);

/* A parameter, or a constant of the model. */
typedef struct gd_fit_param {
    const char *name;       /* "A"; "A[set]": an A for every number of the column `set` */
    double start;           /* its start, or the constant */
    const gd_tensor *value; /* the same for an array, or for each set; borrowed; NULL: start */
    double low, high;       /* bounds of all its elements, infinite for none; both 0: none */
    bool open;              /* its start is to be guessed (gd_fit_spec.guess) */
    bool fixed;             /* a constant */
    const char *tied;       /* it follows from other parameters: "a/2"; NULL: it is fitted */
} gd_fit_param;

/* The arguments of a fit.  Start from gd_fit_defaults().  Lists of texts end with NULL; a list that is NULL is empty. */
typedef struct gd_fit_spec {
    /* the model: a text (an expression in parameters and columns, or an equation), or a function; then the text is its name in reports and
     * pictures */
    const char *model;
    const char *definitions;      /* read before the text, as for gd_expr_options; NULL: none */
    const char *definitions_file; /* their file, for error messages; NULL: none */
    gd_fit_function function;
    void *user;
    const char *const *columns; /* of a function */
    bool by_rows; /* of a function: every row depends only on the same row of the columns; x_errors need it */

    /* the data */
    gd_table *table;             /* needed */
    const char *y;               /* the column that the model is fitted to; NULL: "y" */
    const char *weights;         /* a column: weights of the squared residuals; NULL: none */
    const char *sigma;           /* a column: standard deviations of y; NULL: none */
    bool absolute_sigma;         /* they are the standard deviations, not only their ratios */
    const char *const *x_errors; /* "NAME=COLUMN" or "NAME=NUMBER": standard deviations of a column */
    const char *const *exclude;  /* "t > 3": rows for which it is true are left out */
    bool drop_missing;           /* rows with missing cells are left out; false: they are an error */
    const char *dates; /* the unit and origin of dates: "days:2000-01-01", "seconds"; NULL: automatic */

    /* the parameters */
    const gd_fit_param *params;
    int param_count;
    const char *const *bounds; /* "b>0", "0<b<1", "p[2]<3" */
    const char *const *derive; /* "thalf=log(2)/b": a quantity of the parameters with its error */

    /* the method */
    const char *loss;      /* "huber", "huber:0.5", ...; NULL: squares */
    const char *errors;    /* "usual"; "hc3": for residuals of unequal variances; NULL: "usual" */
    const char *intervals; /* "profile", "bootstrap:1000:residuals", ...; NULL: value and standard error */
    double level;          /* of intervals and bands; 0.95 */
    bool guess;            /* start at values estimated from the data */
    int64_t starts;        /* number of starting points; the best one is refined; 1 */
    /* gd_fit_by: starts and bounds of groups, a table with a row per group: the columns of `by`, starts in columns named like parameters
     * ("a", "p[0]"), bounds in NAME_low and NAME_high.  A missing cell or row: as for all.  The table of gd_fit_by is one; borrowed; NULL:
     * none */
    gd_table *group_starts;
    const char *chain;  /* the method; NULL: Levenberg-Marquardt */
    const char *device; /* "gpu"; NULL: the CPU */
    uint64_t seed;      /* of random starts and resamples; 0 */

    /* the budget of each fit, as in gd_solve_options */
    int64_t max_steps, max_evals; /* 1000, none (0) */
    double max_seconds;           /* none (0) */

    /* the caller */
    gd_world *world;                       /* ranks that share the work; borrowed; NULL: one process */
    const gd_observer *observer;           /* borrowed until the fit ends; NULL: none */
    void (*step)(void *user, gd_fit *fit); /* called after each step, for gd_fit_save; NULL: none */
    void *step_user;
} gd_fit_spec;

gd_fit_spec gd_fit_defaults(void); /* as the comments above say */

/* Copies the spec and checks it completely; spec->table must stay until the fit
 * is freed.  New: gd_fit_free.  NULL with ARGUMENT, PARSE, FORMAT or VALUE recorded: errors name the member as in C, ".bounds: ...". */
gd_fit *gd_fit_new(gd_ctx *ctx, const gd_fit_spec *spec);
/* Runs the fit, once.  INTERRUPTED by the observer; VALUE: the model is not finite at the start of the parameters, or the fit was run
 * or loaded.  After a failure parameters are at the best point so far. */
GD_NODISCARD gd_status gd_fit_run(gd_fit *fit);
void gd_fit_free(gd_fit *fit); /* NULL is fine */

/* Fits each group of rows by itself: rows of equal cells in the columns `by`, one to eight names ended by NULL.  A table with a row per
 * group, in the order of its cells: the columns of `by`, points, each parameter and NAME_error, quantities that follow, rss, sigma, dof,
 * converged (1 or 0), stop (gd_stop_name).  All threads share the groups of a model that looks at one row at a time, except for robust losses; members of the spec
 * are of each fit.  An error that the rows of a group do not determine is a missing cell; a group that cannot be fitted is a row of
 * missing cells with stop ERROR.  New: gd_table_free.  NULL with the
 * error of gd_fit_new recorded, ARGUMENT: no such column, or FORMAT: a missing cell there. */
gd_table *gd_fit_by(gd_ctx *ctx, const gd_fit_spec *spec, const char *const *by);

/* ---- results ---- */

/* One element of a parameter, or a derived quantity. */
typedef struct gd_fit_estimate {
    const char *name; /* "a", "A[2]"; borrowed from the fit until the next call */
    double value;
    double error;     /* standard error; NAN: none (at an active bound), INFINITY: not determined */
    double low, high; /* its interval */
    double t,
        p; /* value / error, and the probability of a larger |t| if the true value is 0; NAN without an error */
    int active;        /* -1, 1: its low or high bound is active; 0: neither */
    bool undetermined; /* the data do not determine it */
} gd_fit_estimate;

/* Statistics of a fit, and where it stopped. */
typedef struct gd_fit_summary {
    int64_t points, dof, free,
        rank;          /* rows, degrees of freedom, parameters not at a bound, determined parameters */
    double rss, sigma; /* sum of squared residuals, and their standard deviation */
    double r2;         /* NAN: y is constant, or not defined for this loss */
    double log_likelihood, aic, aicc, bic; /* of normal errors; NAN for other losses and errors in x */
    double chi_square_p;                   /* with absolute_sigma; else NAN */
    double scale;                          /* of a robust loss; NAN for squares */
    int64_t missing, excluded, weightless; /* rows left out, by reason */
    int64_t steps, evals;
    double seconds;
    gd_stop stop;
    bool converged;
    const char *reason; /* as text: "a and c cannot be told apart"; borrowed */
} gd_fit_summary;

int64_t gd_fit_count(const gd_fit *fit);   /* elements of all fitted parameters */
int64_t gd_fit_derived(const gd_fit *fit); /* derived quantities: tied parameters, then those of `derive` */
/* Element i, or from gd_fit_count on derived quantity i.  INDEX: there is none. */
GD_NODISCARD gd_status gd_fit_get(gd_fit *fit, int64_t i, gd_fit_estimate *out);
/* All but the estimates.  VALUE: the fit did not run to its end. */
GD_NODISCARD gd_status gd_fit_summarise(gd_fit *fit, gd_fit_summary *out);
/* Covariance of the elements [n, n]; VALUE: there is none.  New. */
gd_tensor *gd_fit_covariance(gd_fit *fit);
/* Their correlation [n, n], NAN if an element has no error.  New. */
gd_tensor *gd_fit_correlation(gd_fit *fit);
/* The model at the fitted rows [rows].  New. */
gd_tensor *gd_fit_fitted(gd_fit *fit);
/* y less the model at the fitted rows [rows]; for errors in x the distances from its curve.  New. */
gd_tensor *gd_fit_residuals(gd_fit *fit);
/* Residuals divided by their standard deviation; NAN if that is not known.  New. */
gd_tensor *gd_fit_standardized(gd_fit *fit);
/* What `gradus fit` prints: a table for people, or with json one JSON object.  Returns the length of the text; if that is not less
 * than size, only its beginning was written.  -1 with the error recorded. */
int64_t gd_fit_report(gd_fit *fit, bool json, char *out, size_t size);

/* ---- predictions, comparison, files ---- */

/* The model at the rows of a table: f64 [rows, 5], the columns labelled value, confidence_low, confidence_high (the curve),
 * prediction_low and prediction_high (a new measurement); unknown ends are infinite.  New.  VALUE: the fit is of an equation;
 * ARGUMENT, FORMAT: a column is missing or has no number. */
gd_tensor *gd_fit_predict(gd_fit *fit, gd_table *table);

/* Two fits of the same rows. */
typedef struct gd_fit_comparison {
    double f, p;     /* F-test of the smaller inside the larger model; NAN: not nested */
    bool nested;     /* all parameters of the smaller are parameters of the larger, and it fits no better */
    const char *why; /* why there is no F-test; static; NULL: there is one */
    double aicc[2];  /* smaller is better */
    double evidence_ratio; /* exp of half the difference: how much more likely the better one is by AICc */
} gd_fit_comparison;

/* Compares two fits, which were run or loaded.  VALUE: different rows, or a fit without a likelihood. */
GD_NODISCARD gd_status gd_fit_compare(gd_fit *a, gd_fit *b, gd_fit_comparison *out);

/* Writes a fit as .safetensors, for gd_fit_load, `gradus predict` and `gradus compare`.  Atomic.  Also after a run
 * that failed.  VALUE: the model is a function, or no point was found; IO. */
GD_NODISCARD gd_status gd_fit_save(gd_fit *fit, const char *path);
/* Reads a saved fit: estimates, covariance, fitted values and residuals, gd_fit_predict, gd_fit_compare and gd_fit_save work as before; the
 * table is not in the file, so reports and pictures are VALUE.  New: gd_fit_free.  NULL with IO or FORMAT recorded. */
gd_fit *gd_fit_load(gd_ctx *ctx, const char *path);
/* Writes the fitted function as C, Python or LaTeX: .c, .py or .tex.  ARGUMENT: a different ending, or a model that has no such form. */
GD_NODISCARD gd_status gd_fit_export(gd_fit *fit, const char *path);
/* Writes each fitted row with fitted value, residual and standardized residual, as .csv. */
GD_NODISCARD gd_status gd_fit_save_residuals(gd_fit *fit, const char *path);

/* How a fit is drawn; all members may be 0. */
typedef struct gd_fit_picture {
    bool log_x, log_y; /* logarithmic axes */
    bool dark;         /* with a dark background */
} gd_fit_picture;

/* A picture: the data, the curve with confidence and prediction bands, and residuals below.  how NULL: linear axes.  New:
 * gd_plot_free.  VALUE: a negative number on a logarithmic axis; ARGUMENT: an equation of more than two columns. */
gd_plot *gd_fit_plot(gd_fit *fit, const gd_fit_picture *how);
/* Writes the picture as .svg, .png or .pdf. */
GD_NODISCARD gd_status gd_fit_draw(gd_fit *fit, const char *path, const gd_fit_picture *how);

/* A picture of groups: the points of each and its fitted curve, in one colour.  spec, by: as given to gd_fit_by; fits: the table that it
 * made; nothing is fitted again.  groups: names ended by NULL, "A", or for two columns "A/0"; one text may be a list, "A,B"; NULL: the
 * first 8, with a warning if there are more.  At most 16: the second 8 have rings and dashed curves.  A model of several columns: measured
 * over fitted values.  how NULL: linear axes.  New: gd_plot_free.  ARGUMENT: no such group, a table of other groups, or an equation; VALUE:
 * a negative number on a logarithmic axis. */
gd_plot *gd_fit_by_plot(gd_ctx *ctx, const gd_fit_spec *spec, const char *const *by, gd_table *fits,
                        const char *const *groups, const gd_fit_picture *how);

#ifdef __cplusplus
}
#endif
#endif
