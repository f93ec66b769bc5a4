/* gradus fit, in parts:
 *
 *   read.c         table, parameters, bounds, model; rows.c which rows, dates.c dates, derive.c derived quantities
 *   noise.c        equations, columns with errors, and what a residual is
 *   solve.c        the fit and its intervals; by_rows.c residuals of long tables, resample.c fits of resampled rows
 *   guess.c, starts.c   where it may start
 *   statistics.c   how well it does
 *   save.c         what --out leaves; predict.c reads it again
 *   report.c       what is printed; residuals.c, export.c, draw.c, curve.c files and pictures */
#ifndef GD_CLI_FIT_FIT_H
#define GD_CLI_FIT_FIT_H

#include "base/text/date.h"
#include "table/bound.h"
#include "cli/cli.h"
#include "cli/problem/problem.h"
#include "file/run_log.h"
#include "cli/outcome.h"
#include "table/frame.h"
#include "table/value.h"
#include "gradus/file.h"
#include "gradus/solve.h"

#define GD_FIT_PARAMS   256   /* the most parameters */
#define GD_FIT_SETS     10000 /* the most sets of rows with parameters of their own */
#define GD_GUESS_PARAMS 6     /* the most parameters of --guess */
#define GD_FIT_DERIVED  64    /* the most derived quantities */

/* Why a row is not fitted. */
enum { GD_ROW_MISSING = 1, GD_ROW_EXCLUDED = 2, GD_ROW_WEIGHTLESS = 4 };

/* --derive NAME=EXPRESSION */
typedef struct gd_derived {
    const char *name, *text;
    double value, error;
} gd_derived;

/* A column of dates: numbers since its origin. */
typedef struct gd_fit_date {
    double unit;   /* in seconds: of a day or 1; 0: the column holds no dates */
    double origin; /* in seconds since 1970, or of times of day since midnight */
    bool day;      /* dates; false: times of day */
} gd_fit_date;

/* How well a model does beside others; R's logLik, AIC and BIC of nls, or those of the known standard deviations. */
typedef struct gd_fit_numbers {
    double log_likelihood, aic, aicc, bic; /* INFINITY: too few points */
    double p;                              /* of chi-square; NAN without --absolute-sigma */
    uint64_t rows;                         /* the same for fits of the same rows */
} gd_fit_numbers;

/* free: parameters that are not at an active bound; known: the standard deviation was given, so it is no parameter. */
gd_fit_numbers gd__fit_numbers(double log_likelihood, double free, double points, bool known);

/* --intervals */
typedef enum gd_fit_intervals {
    GD_INTERVALS_NORMAL,
    GD_INTERVALS_PROFILE,
    GD_INTERVALS_BOOTSTRAP
} gd_fit_intervals;
extern const char *const gd__fit_intervals[]; /* their names */

/* A row far from the curve. */
typedef struct gd_outlier {
    int64_t line; /* of the file */
    double residual, standardized;
} gd_outlier;

typedef struct gd_fit_job {
    gd_cli *cli;
    const gd_args *args;
    gd_ctx *ctx;
    gd_csv *csv;
    gd_value_tables tables; /* how tables are read */
    gd_expr *model;
    gd_expr_form form;  /* how its text is read */
    const char *y_name; /* the column that it is to give; NULL: it is an equation, and y is 0 */
    int noisy; /* columns with errors: their places among the names, and standard deviations [rows] */
    int noisy_at[GD_DISTANCE_COLUMNS];
    int noisy_given; /* by --x-errors, the first ones; others are those of an equation, as large as each other */
    const char *noise_text[GD_DISTANCE_COLUMNS]; /* a column or a number */
    gd_tensor *noise[GD_DISTANCE_COLUMNS];
    const double
        *distance;     /* of each fitted row, while gd__fit_each_row goes over them; NULL: y less fitted */
    const char **name; /* parameters, then columns, then what --fix holds */
    gd_tensor **value; /* what the model sees, in that order */
    gd_tensor **param; /* owned */
    bool bounded;
    int64_t elements; /* of all parameters */
    /* values, bounds, standard errors (NAN: none), at an active bound, not determined: [elements] each; intervals: [elements,
     * 2]; one block */
    double *x, *low, *high, *error, *active, *flat, *interval;
    gd_fit_date *date;                     /* of each column of the table */
    bool drop_missing;                     /* --missing drop */
    unsigned char *drop;                   /* of each row of the table: why it is left out, or 0 */
    int64_t weightless, missing, excluded; /* rows left out */
    int64_t steps;                         /* the most */
    gd_derived derived[GD_FIT_DERIVED];
    int derived_count;
    int params, names;
    const char *set; /* the column that tells sets of rows apart; interned; NULL: none */
    size_t name_bytes;
    gd_tensor *y, *scale; /* scale: factor of the residuals, or NULL */
    gd_rows rows;         /* of long tables, whose residuals are made by ranges of rows; else without rows */
    gd_tensor **row_data; /* the columns used, y, scale; borrowed from above */
    gd_lsq_result fit;
    gd_meter meter;
    double t, r2;
    bool absolute; /* --sigma are standard deviations as they are */
    gd_fit_numbers numbers;
    gd_lsq_loss loss;
    double loss_scale;   /* given; 0: to be found */
    gd_outlier *outlier; /* of a fit by another loss than squares */
    int64_t outliers;
    size_t outlier_bytes;
    gd_fit_intervals intervals;
    int64_t resamples; /* of a bootstrap */
    bool of_residuals;
    uint64_t seed;
    bool guess;          /* --guess */
    bool start_given;    /* a parameter has a start beside --guess, so that start is tried too */
    const char *guessed; /* the shape whose numbers are the start */
    int64_t starts;      /* --starts; 0: one */
    int64_t agreed;      /* starts that led to the best */
    bool log[2];         /* axes of the picture */
    const char *plot, *out, *residuals;
    gd_link *chain; /* NULL: Levenberg-Marquardt */
    double reached; /* the sum of squares where the parameters are; NAN: not known to be finite */
    bool stopping;  /* the solver has heard of a signal */
    gd_trouble why; /* the first failure */
    gd_slow_save slow;
} gd_fit_job;

/* Table, parameters, model, rows.  gd__fit_close also after a failure. */
GD_NODISCARD gd_status gd__fit_read(gd_fit_job *j);
void gd__fit_close(gd_fit_job *j);
/* Fits, and fills all that the job says of the fit. */
GD_NODISCARD gd_status gd__fit_run(gd_fit_job *j);
/* --guess: the parameters at numbers of the shape that the data have; ARGUMENT for models over several columns.  given
 * [elements]: where they were before. */
GD_NODISCARD gd_status gd__fit_guess(gd_fit_job *j, const gd_lsq_options *o, double *given);
/* Fits from the parameters as they are and from `given`; they end where the fit with the lower loss began. */
GD_NODISCARD gd_status gd__fit_better_start(gd_fit_job *j, const gd_lsq_options *o, const double *given);
/* --starts: the parameters where the best of several fits ended. */
GD_NODISCARD gd_status gd__fit_try_starts(gd_fit_job *j, const gd_lsq_options *o);
/* Fits from `one` and from where the parameters are; they end where the better began, *first: at `one`.  Interrupted, they
 * end at the best point so far. */
GD_NODISCARD gd_status gd__fit_try_two(gd_fit_job *j, const gd_lsq_options *o, const double *one,
                                       bool *first);
/* The only column that the model uses; -1 if there are none or several. */
int gd__fit_only_column(const gd_fit_job *j);
/* Model less y, by the scale; user is a job. */
gd_tensor *gd__fit_residuals(void *user);
/* job->resamples fits of resampled rows, [resamples, elements]. */
GD_NODISCARD gd_status gd__fit_resample(gd_fit_job *j, const gd_lsq_options *o, double *samples);
/* To job->out. */
GD_NODISCARD gd_status gd__fit_save(gd_fit_job *j);

/* The model at parameters, or at what stands for them in a chain; columns as in job->value. */
gd_tensor *gd__fit_model(gd_fit_job *j, gd_tensor *const *params);

/* Calls `see` for each fitted row: the line of the file, its number among the fitted, the value there and y less it. */
GD_NODISCARD gd_status gd__fit_each_row(gd_fit_job *j, void *user,
                                        void (*see)(gd_fit_job *j, void *user, int64_t line, int64_t i,
                                                    double fitted));
/* The residual of row i by its standard deviation; NAN where nothing says what that is. */
double gd__fit_standardized(const gd_fit_job *j, int64_t i, double fitted);
/* The model at the fitted rows, without history.  New. */
gd_tensor *gd__fit_fitted(gd_fit_job *j);
/* To job->residuals. */
GD_NODISCARD gd_status gd__fit_write_residuals(gd_fit_job *j);

/* sqrt(g' C g), C [n, n]; elements that g does not depend on may have any covariance. */
double gd__fit_error(const double *covariance, int64_t n, const double *g);
/* Standard errors of values [rows] with history, by the covariance of all elements of the parameters. */
GD_NODISCARD gd_status gd__fit_band(gd_tensor *values, gd_tensor *const *params, int count,
                                    const gd_tensor *covariance, double *error);

/* A column of the table as a vector.  New. */
gd_tensor *gd__fit_column(gd_fit_job *j, const char *name);
/* The same for a column of the model, which may hold dates. */
gd_tensor *gd__fit_model_column(gd_fit_job *j, int column);

/* ---- dates (dates.c) ---- */

/* Is the first cell that is there a date? */
bool gd__fit_holds_dates(const gd_csv *csv, int column);
/* A column of dates as numbers; date->unit 0: unit and origin are those of --dates, or found from the column.  missing: cells may
 * be, and are NaN. */
GD_NODISCARD gd_status gd__fit_dates(const gd_args *args, const gd_csv *csv, int column, bool missing,
                                     gd_fit_date *date, double *out);
#define GD_FIT_DATE_SIZE 64
/* days:2024-02-29, seconds:2024-02-29T13:45, or without an origin (NaN); false: no such text. */
bool gd__fit_date_parse(const char *text, gd_fit_date *out);
/* "days", `between`, the origin. */
void gd__fit_date_print(char out[GD_FIT_DATE_SIZE], const gd_fit_date *date, const char *between);
/* How the values of the model at that place are dates; NULL: they are not, or the model does not use them. */
const gd_fit_date *gd__fit_date_of(const gd_fit_job *j, int place);
/* A value as the date that it is. */
void gd__fit_date_cell(gd_text *out, const gd_fit_date *date, double value);
/* The axis of a plot shows dates where the column at that place holds them. */
void gd__fit_date_axis(const gd_fit_job *j, gd_plot *plot, int axis, int place);
/* The model from its text, and what it is a model of. */
GD_NODISCARD gd_status gd__fit_read_form(gd_fit_job *j);
/* --x-errors, and those of the columns of an equation; after the columns are there. */
GD_NODISCARD gd_status gd__fit_read_noise(gd_fit_job *j);
bool gd__fit_is_noisy(const gd_fit_job *j, int place);
/* The errors of a column that --x-errors gives, [rows]; NULL: none. */
const double *gd__fit_noise_of(const gd_fit_job *j, int place);
/* What one standard deviation of errors in x does to each of values [rows], which have their history: slope times error. */
GD_NODISCARD gd_status gd__fit_noise_in_y(gd_tensor *values, gd_tensor *x, const double *errors, double *out);
/* Bars of the rows' y where --sigma says how long they are: new, [rows], freed by gd__free; NULL with OK: none. */
GD_NODISCARD gd_status gd__fit_bars(const gd_fit_job *j, double **half);
/* Residuals: the model less y, by the scale, or where columns have errors the distances from its curve. */
gd_tensor *gd__fit_off_curve(const gd_fit_job *j, gd_expr *model, gd_tensor **value, gd_tensor *const *noise,
                             gd_tensor *y, gd_tensor *scale);
/* Takes the rows that are not to be fitted out of y, scale and the columns. */
GD_NODISCARD gd_status gd__fit_choose_rows(gd_fit_job *j);

/* Does the model look at one row at a time? */
bool gd__fit_rows_apart(gd_fit_job *j);
/* Fills job->rows where the table is long and the model looks at one row at a time. */
GD_NODISCARD gd_status gd__fit_by_rows(gd_fit_job *j);

/* --derive: before the fit the texts, after it values and errors. */
GD_NODISCARD gd_status gd__fit_read_derived(gd_fit_job *j);
GD_NODISCARD gd_status gd__fit_derive(gd_fit_job *j);

/* Fills job->r2 and job->numbers, NAN for another loss than squares, and then the outliers. */
GD_NODISCARD gd_status gd__fit_judge(gd_fit_job *j);

/* ---- what --out has left ---- */

/* Is it a file of gradus fit that values can be had from? */
bool gd__fit_is_saved(const gd_archive *archive);
/* gradus predict with such a file. */
GD_NODISCARD gd_status gd__fit_predict(gd_cli *cli, const gd_args *args, const gd_archive *archive);

/* --export: the fitted function as C, Python or LaTeX; with `check` only whether it can be, before the fit. */
GD_NODISCARD gd_status gd__fit_export(gd_fit_job *j, bool check);

/* Why it stopped, in words; borrowed from the job, or static. */
const char *gd__fit_stop_text(const gd_fit_job *j);
void gd__fit_print_table(gd_fit_job *j);
void gd__fit_print_json(gd_fit_job *j);

/* The line of the model over one column, as a picture draws it (curve.c). */
typedef struct gd_fit_line {
    gd_ctx *ctx;
    int x, set; /* places of the column, and of that of the sets, which is k there; -1: there are no sets */
    double k;
    double *xs, *ys; /* count of each, x going up; one block */
    int64_t count;
} gd_fit_line;

/* Points over the range of data [rows], closer where the line bends; gd__fit_curve_close also after a failure. */
GD_NODISCARD gd_status gd__fit_curve(gd_fit_job *j, gd_fit_line *line, const double *data, int64_t rows);
void gd__fit_curve_close(gd_fit_line *line);
/* Does the model use one column beside that of the sets?  Their places among the names. */
bool gd__fit_has_sets(const gd_fit_job *j, int *x, int *set);
/* Points and curve of each set over column x. */
GD_NODISCARD gd_status gd__fit_draw_sets(gd_fit_job *j, gd_plot *plot, int x, int set);
/* The name of a column with its unit; borrowed. */
const char *gd__fit_axis_name(const gd_fit_job *j, const char *name);
/* An equation of two columns: the points, and the curve where it holds. */
GD_NODISCARD gd_status gd__fit_draw_equation(gd_fit_job *j);
/* To job->plot: over one column a curve with its band, else measured over fitted values. */
GD_NODISCARD gd_status gd__fit_draw(gd_fit_job *j);

#endif
