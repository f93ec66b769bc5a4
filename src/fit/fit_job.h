/* A fit, in parts:
 *
 *   fit_model.c    the model: text, and errors about unknown names
 *   fit_read.c     table, parameters, bounds; fit_rows.c which rows, fit_dates.c dates, fit_derive.c derived quantities
 *   fit_noise.c    equations, columns with errors, and residuals
 *   fit_solve.c    the fit and its intervals; fit_by_rows.c residuals of long tables, fit_resample.c fits of resampled rows
 *   fit_guess.c, fit_starts.c   starting points
 *   fit_statistics.c            statistics; fit_compare.c two fits of the same data
 *   fit_save.c     the saved file; fit_predict.c reads it
 *   fit_residuals.c, fit_export.c, fit_draw.c, fit_curve.c   files and pictures
 *   fit_watch.c    progress for the caller, and interruption */
#ifndef GD_FIT_FIT_JOB_H
#define GD_FIT_FIT_JOB_H

#include "base/text/compose.h"
#include "base/text/date.h"
#include "base/trouble.h"
#include "expr/expr_internal.h"
#include "gradus/chain.h"
#include "gradus/file.h"
#include "gradus/fit.h"
#include "table/frame.h"

#include <pthread.h>
#include <stdatomic.h>

#define GD_FIT_LISTS    5     /* lists of texts of a spec */
#define GD_FIT_PARAMS   256   /* the most parameters */
#define GD_FIT_SETS     10000 /* sets of rows with their own parameters, at most */
#define GD_GUESS_PARAMS 6     /* parameters of --guess, at most */
#define GD_FIT_DERIVED  64    /* derived quantities, at most */

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

/* Statistics for comparing models; R's logLik, AIC and BIC of nls, or those of the known standard deviations. */
typedef struct gd_fit_numbers {
    double log_likelihood, aic, aicc, bic; /* INFINITY: too few points */
    double p;                              /* of chi-square; NAN without --absolute-sigma */
    uint64_t rows;                         /* the same for fits of the same rows */
} gd_fit_numbers;

/* free: parameters that are not at an active bound; known: the standard deviation was given, so it is not a parameter. */
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

/* Progress for the caller (fit_watch.c); copies of a fit for other threads share that of the first. */
typedef struct gd_fit_watch {
    const gd_observer *observer;
    gd_observer asks; /* the same, for operators of the contexts that the fit computes in (gd_ctx_observe) */
    pthread_t thread; /* of the caller; only on it the caller is asked */
    atomic_bool interrupted, ending; /* ending: the solver knows */
    const char *unit;                /* of the last report; NULL: none */
    int64_t done, total;
    double loss;
} gd_fit_watch;

typedef enum gd_fit_state {
    GD_FIT_READY,
    GD_FIT_BEGUN, /* and not at its end: running, or failed */
    GD_FIT_DONE,
    GD_FIT_LOADED
} gd_fit_state;

/* Copies of the texts and lists of the spec, or of the loaded file. */
typedef struct gd_fit_texts {
    const char **list[GD_FIT_LISTS];
    size_t list_bytes[GD_FIT_LISTS];
    gd_fit_param *params;
    gd_text definitions; /* of the spec, then of tied parameters: for expressions that know these */
    const char *given;   /* definitions of the spec, if there are tied parameters */
    gd_archive *archive; /* of a loaded fit, from `path` */
    char *path;
} gd_fit_texts;

/* A model that is a function. */
typedef struct gd_fit_callee {
    gd_expr **tied; /* parameters that follow from others */
    int tied_count;
    gd_tensor **call; /* its arguments, parameters and columns */
    size_t call_bytes;
} gd_fit_callee;

/* Columns with errors. */
typedef struct gd_fit_noise {
    int count, at[GD_DISTANCE_COLUMNS]; /* their places among the names */
    int given; /* the first ones are from --x-errors; others are those of an equation, all of equal size */
    const char *text[GD_DISTANCE_COLUMNS]; /* a column or a number */
    gd_tensor *value[GD_DISTANCE_COLUMNS]; /* standard deviations [rows] */
    const double
        *distance; /* of each fitted row, while gd__fit_each_row goes over them; NULL: y less fitted */
} gd_fit_noise;

/* Elements of all parameters, [count] each; intervals: [count, 2]; one block. */
typedef struct gd_fit_elements {
    int64_t count;
    double *x, *low, *high;
    double *error;  /* standard errors; NaN: none */
    double *active; /* at a bound */
    double *flat;   /* not determined */
    double *interval;
} gd_fit_elements;

/* Rows of the table that are left out. */
typedef struct gd_fit_left_out {
    unsigned char *why; /* of each row, or 0 */
    int64_t weightless, missing, excluded;
} gd_fit_left_out;

/* Another loss than squares. */
typedef struct gd_fit_robust {
    gd_lsq_loss loss;
    double scale; /* given; 0: estimated */
    gd_outlier *outlier;
    int64_t outliers;
    size_t outlier_bytes;
} gd_fit_robust;

/* Where the fit starts. */
typedef struct gd_fit_start {
    bool guess;          /* --guess */
    bool given;          /* a parameter has a start in addition to --guess, so that start is tried too */
    const char *guessed; /* the shape whose numbers are the start */
    double before[GD_GUESS_PARAMS]; /* where parameters started before the guess */
    int64_t count;                  /* --starts; 0: one */
    int64_t agreed;                 /* starts that led to the best */
} gd_fit_start;

/* How intervals are found. */
typedef struct gd_fit_how {
    gd_fit_intervals kind;
    int64_t resamples; /* of a bootstrap */
    bool of_residuals;
} gd_fit_how;

struct gd_fit {
    gd_ctx *ctx;
    gd_fit_spec spec; /* pointers lead to interned strings, or into `texts` */
    gd_fit_texts texts;
    gd_fit_state state;
    gd_csv *csv; /* a reference; NULL: the fit was loaded */
    gd_fit_watch *watch, own_watch;
    /* the model */
    gd_expr *model; /* NULL: a function */
    gd_fit_callee function;
    char shown[96];     /* the name that was given last */
    gd_expr_form form;  /* the syntax of its text */
    const char *y_name; /* the column that it models; NULL: it is an equation, and y is 0 */
    gd_fit_noise x_errors;
    const char **name; /* parameters, then columns, then constants of --fix */
    gd_tensor **value; /* inputs of the model, in that order */
    gd_tensor **param; /* owned */
    int params, names;
    size_t name_bytes;
    bool bounded;
    gd_fit_elements element;
    gd_derived derived[GD_FIT_DERIVED];
    int derived_count;
    /* the data */
    gd_fit_date *date; /* of each column of the table */
    gd_fit_left_out left_out;
    const char *set;      /* the column that separates sets of rows; interned; NULL: none */
    gd_tensor *y, *scale; /* scale: factor of the residuals, or NULL */
    gd_rows rows;         /* of long tables, whose residuals are made by ranges of rows; else without rows */
    gd_tensor **row_data; /* the columns used, y, scale; borrowed from above */
    bool absolute;        /* --sigma are standard deviations as they are */
    /* the method */
    gd_fit_robust robust;
    gd_fit_how how;
    gd_fit_start start;
    gd_link *chain; /* NULL: Levenberg-Marquardt */
    bool stopping;  /* the solver knows that it has to end */
    /* results */
    double reached; /* the sum of squares at the parameters; NAN: not known to be finite */
    gd_lsq_result fit;
    double t, r2;
    gd_fit_numbers numbers;
    bool log[2]; /* axes of the picture that is being drawn */
};

/* VALUE: it did not complete. */
GD_NODISCARD gd_status gd__fit_check_done(gd_fit *j);
/* "a", "A[2]" */
void gd__fit_element_name(const gd_fit *j, int param, int64_t element, char out[96]);
/* Of two elements by their covariance c; NAN where one has none. */
double gd__fit_correlation(const gd_fit *j, const double *c, int64_t a, int64_t b);
/* An empty fit. New. */
gd_fit *gd__fit_make(gd_ctx *ctx);

/* Memory for the numbers of each element. */
GD_NODISCARD gd_status gd__fit_make_elements(gd_fit *j);
/* Table, parameters, model, rows.  gd__fit_close also after a failure. */
GD_NODISCARD gd_status gd__fit_read(gd_fit *j);
void gd__fit_close(gd_fit *j);
/* Sets the starting values, and the device of the data. */
GD_NODISCARD gd_status gd__fit_prepare(gd_fit *j);

/* ---- the model (fit_model.c) ---- */

/* Parses the model's text in a context.  New; NULL with the error recorded. */
gd_expr *gd__fit_parse_model(const gd_fit *j, gd_ctx *ctx, gd_expr_form form);
/* Another expression, in some names; option: its owner. */
gd_expr *gd__fit_parse(const gd_fit *j, const char *option, const char *text, const char *const *names,
                       int count);
/* The model with parameters, columns and constants `value`.  In the innermost scope. */
gd_tensor *gd__fit_eval(const gd_fit *j, gd_expr *model, gd_tensor **value);
/* A function: its columns, and tied parameters. */
GD_NODISCARD gd_status gd__fit_read_function(gd_fit *j);
/* Definitions of tied parameters, after those of the spec. */
GD_NODISCARD gd_status gd__fit_read_tied(gd_fit *j);
/* Does the model use the name at that position? */
bool gd__fit_uses(const gd_fit *j, int place);

/* ---- the caller (fit_watch.c) ---- */

void gd__fit_watch(gd_fit *j);
/* Has the caller asked to stop?  On any thread. */
bool gd__fit_interrupted(const gd_fit *j);
/* Makes long operators of a context of the fit check for that. */
void gd__fit_listen(const gd_fit *j, gd_ctx *ctx, bool yes);
/* The same of all processes. */
bool gd__fit_all_interrupted(gd_fit *j);
/* Reports progress; only on the caller's thread. */
void gd__fit_tell(const gd_fit *j, const char *unit, int64_t done, int64_t total, double loss);
/* The same report at a later time: called from inside a unit of work. */
void gd__fit_tell_again(const gd_fit *j);
void gd__fit_tell_end(const gd_fit *j);

/* --guess: the parameters at numbers of the shape that the data have; ARGUMENT for models over several columns.  given
 * [elements]: their previous values. */
GD_NODISCARD gd_status gd__fit_guess(gd_fit *j, const gd_lsq_options *o, double *given);
/* Options of the solver, except for limits and callbacks. */
gd_lsq_options gd__fit_options(const gd_fit *j);
/* Fits from the parameters as they are and from `given`; they end where the fit with the lower loss began. */
GD_NODISCARD gd_status gd__fit_better_start(gd_fit *j, const gd_lsq_options *o, const double *given);
/* --starts: the parameters where the best of several fits ended. */
GD_NODISCARD gd_status gd__fit_try_starts(gd_fit *j, const gd_lsq_options *o);
/* Fits from `one` and from the present parameters; they end at the start of the better fit, *first: it was `one`.  Interrupted, they
 * end at the best point so far. */
GD_NODISCARD gd_status gd__fit_try_two(gd_fit *j, const gd_lsq_options *o, const double *one, bool *first);
/* The only column that the model uses; -1 if there are none or several. */
int gd__fit_only_column(const gd_fit *j);
/* Model less y, by the scale; user is a job. */
gd_tensor *gd__fit_residuals(void *user);
/* job->resamples fits of resampled rows, [resamples, elements]. */
GD_NODISCARD gd_status gd__fit_resample(gd_fit *j, const gd_lsq_options *o, double *samples);
/* Parameters and, if known, their covariance. New. */
gd_archive *gd__fit_archive(const gd_fit *j);

/* The model at parameters, or at their stand-ins in a chain; columns as in job->value. */
gd_tensor *gd__fit_model(gd_fit *j, gd_tensor *const *params);

/* Calls `see` for each fitted row: the line of the file, its number among the fitted, the value there and y less it. */
GD_NODISCARD gd_status gd__fit_each_row(gd_fit *j, void *user,
                                        void (*see)(gd_fit *j, void *user, int64_t line, int64_t i,
                                                    double fitted));
/* The residual of row i by its standard deviation; NAN if that is unknown. */
double gd__fit_standardized(const gd_fit *j, int64_t i, double fitted);
/* The model at the fitted rows, without history.  New. */
gd_tensor *gd__fit_fitted(gd_fit *j);
/* Adds fitted values and residuals to the archive of a fit that is done. */
GD_NODISCARD gd_status gd__fit_put_rows(gd_fit *j, gd_archive *archive);
/* sqrt(g' C g), C [n, n]; elements that g does not depend on may have any covariance. */
double gd__fit_error(const double *covariance, int64_t n, const double *g);
/* Standard errors of values [rows] with history, by the covariance of all elements of the parameters. */
GD_NODISCARD gd_status gd__fit_band(gd_tensor *values, gd_tensor *const *params, int count,
                                    const gd_tensor *covariance, double *error);

/* A column of the table as a vector.  New. */
gd_tensor *gd__fit_column(gd_fit *j, const char *name);
/* The same for a column of the model, which may hold dates. */
gd_tensor *gd__fit_model_column(gd_fit *j, int column);

/* ---- dates (dates.c) ---- */

/* Is the first cell that is there a date? */
bool gd__fit_holds_dates(const gd_csv *csv, int column);
/* A column of dates as numbers; date->unit 0: unit and origin are those of `wanted` (--dates; NULL: none), or found from the column.  missing:
 * cells may be, and are NaN. */
GD_NODISCARD gd_status gd__fit_dates(gd_ctx *ctx, const char *wanted, const gd_csv *csv, int column,
                                     bool missing, gd_fit_date *date, double *out);
#define GD_FIT_DATE_SIZE 64
/* days:2024-02-29, seconds:2024-02-29T13:45, or without an origin (NaN); false: not such a text. */
bool gd__fit_date_parse(const char *text, gd_fit_date *out);
/* "days", `between`, the origin. */
void gd__fit_date_print(char out[GD_FIT_DATE_SIZE], const gd_fit_date *date, const char *between);
/* The date format of the model's values at that index; NULL: they are not dates, or the model does not use them. */
const gd_fit_date *gd__fit_date_of(const gd_fit *j, int place);
/* Was any column read as dates? */
bool gd__fit_has_dates(const gd_fit *j);
/* ARGUMENT: it is neither days nor seconds, with an origin; NULL is fine. */
GD_NODISCARD gd_status gd__fit_check_dates(gd_ctx *ctx, const char *text);
/* A value as a date. */
void gd__fit_date_cell(gd_text *out, const gd_fit_date *date, double value);
/* The axis of a plot shows dates if the column at that index holds dates. */
void gd__fit_date_axis(const gd_fit *j, gd_plot *plot, int axis, int place);
/* The model from its text, and the column that it models. */
GD_NODISCARD gd_status gd__fit_read_form(gd_fit *j);
/* ARGUMENT: the model is an equation, and this option is for models of a y; NULL: none. */
GD_NODISCARD gd_status gd__fit_only_of_y(const gd_fit *j, const char *option);
/* --x-errors, and those of the columns of an equation; after the columns are there. */
GD_NODISCARD gd_status gd__fit_read_noise(gd_fit *j);
bool gd__fit_is_noisy(const gd_fit *j, int place);
/* The errors of a column that --x-errors gives, [rows]; NULL: none. */
const double *gd__fit_noise_of(const gd_fit *j, int place);
/* The effect of one standard deviation of errors in x on each of values [rows], which have a graph: slope times error. */
GD_NODISCARD gd_status gd__fit_noise_in_y(gd_tensor *values, gd_tensor *x, const double *errors, double *out);
/* Bars of the rows' y if --sigma gives their lengths: new, [rows], freed by gd__free; NULL with OK: none. */
GD_NODISCARD gd_status gd__fit_bars(const gd_fit *j, double **half);
/* Residuals: the model less y, by the scale, or, if columns have errors, the distances from its curve. */
gd_tensor *gd__fit_off_curve(const gd_fit *j, gd_expr *model, gd_tensor **value, gd_tensor *const *noise,
                             gd_tensor *y, gd_tensor *scale);
/* Removes excluded rows from y, scale and the columns. */
GD_NODISCARD gd_status gd__fit_choose_rows(gd_fit *j);

/* Does the model look at one row at a time? */
bool gd__fit_rows_apart(gd_fit *j);
/* Fills job->rows where the table is long and the model looks at one row at a time. */
GD_NODISCARD gd_status gd__fit_by_rows(gd_fit *j);
/* j->rows, for a model that looks at one row at a time (gd__fit_rows_apart). */
GD_NODISCARD gd_status gd__fit_fill_rows(gd_fit *j);

/* --derive: before the fit the texts, after it values and errors. */
GD_NODISCARD gd_status gd__fit_read_derived(gd_fit *j);
GD_NODISCARD gd_status gd__fit_derive(gd_fit *j);

/* Fills job->r2 and job->numbers, NAN for robust losses, and then the outliers. */
GD_NODISCARD gd_status gd__fit_judge(gd_fit *j);

/* ---- files of --out ---- */

/* Is it a file of gradus fit with predictions? */
bool gd__fit_is_saved(const gd_archive *archive);
/* ---- predictions (fit_predict.c) ---- */

/* New rows, with the predictions of a saved fit. */
typedef struct gd_fit_prediction gd_fit_prediction;

/* Of the rows of a table; both are borrowed; path: of the archive, for errors; function: a fit whose model is one;
 * NULL: the archive has the model.  New: gd__fit_prediction_free; NULL with the error
 * recorded. */
gd_fit_prediction *gd__fit_predict(gd_ctx *ctx, const gd_archive *archive, const char *path,
                                   const gd_csv *csv, gd_fit *function);
/* The model at the rows, and its errors where the archive has a covariance. */
GD_NODISCARD gd_status gd__fit_prediction_run(gd_fit_prediction *p);
void gd__fit_prediction_free(gd_fit_prediction *p);           /* NULL is fine */
const char *gd__fit_prediction_y(const gd_fit_prediction *p); /* borrowed */
int64_t gd__fit_prediction_rows(const gd_fit_prediction *p);
/* After the run: value, ends of confidence, ends of prediction; unknown ends are infinite. */
void gd__fit_bands(const gd_fit_prediction *p, int64_t row, double out[5]);
/* A column of the table as the fit reads it, dates too.  New. */
gd_tensor *gd__fit_prediction_column(const gd_fit_prediction *p, const char *name);

/* ---- two fits (fit_compare.c) ---- */

/* Data of a saved fit. */
typedef struct gd_fit_file {
    const char *path, *model;
    gd_archive *archive; /* owned */
    double rss, dof, points, free, active, log_likelihood;
    const char *rows;
    gd_fit_numbers numbers;
} gd_fit_file;

/* The F-test of one fit inside the other. */
typedef struct gd_fit_verdict {
    int small;         /* index of the fit with fewer parameters */
    const char *no;    /* why there is no F-test; NULL: there is one */
    double f, p, more; /* more: additional parameters of the larger fit */
} gd_fit_verdict;

/* Reads what gd_fit_save wrote; the archive is to be freed also after a failure. */
GD_NODISCARD gd_status gd__fit_file_load(gd_ctx *ctx, const char *path, gd_fit_file *out);
/* The same of an archive, which is consumed; path: for errors. */
GD_NODISCARD gd_status gd__fit_file_of(gd_ctx *ctx, gd_archive *archive, const char *path, gd_fit_file *out);
/* VALUE: they are of different rows. */
GD_NODISCARD gd_status gd__fit_check_rows(gd_ctx *ctx, const gd_fit_file fit[2]);
gd_fit_verdict gd__fit_compare(const gd_fit_file fit[2]);

/* The fitted function as C, Python or LaTeX (.c, .py, .tex); with `check` only a test before the fit. */
GD_NODISCARD gd_status gd__fit_export(gd_fit *j, const char *path, bool check);

/* Why it stopped, in words; borrowed from the fit, or static. */
const char *gd__fit_stop_text(const gd_fit *j);
/* A table of the parameters and statistics of the fit; one JSON object. */
void gd__fit_put_table(const gd_fit *j, gd_text *out);
void gd__fit_put_json(const gd_fit *j, gd_text *out);
/* Of an incomplete fit: the best point, as lines or as an object. */
void gd__fit_put_point(const gd_fit *j, gd_text *out, bool json);

/* The line of the model over one column, as a picture draws it (curve.c). */
typedef struct gd_fit_line {
    gd_ctx *ctx;
    int x, set; /* places of the column, and of that of the sets, which is k there; -1: there are no sets */
    double k;
    double *xs, *ys; /* count of each, x going up; one block */
    int64_t count;
} gd_fit_line;

/* Points over the range of data [rows], closer where the line bends; gd__fit_curve_close also after a failure. */
GD_NODISCARD gd_status gd__fit_curve(gd_fit *j, gd_fit_line *line, const double *data, int64_t rows);
void gd__fit_curve_close(gd_fit_line *line);
/* Does the model use one column beside that of the sets?  Their places among the names. */
bool gd__fit_has_sets(const gd_fit *j, int *x, int *set);
/* Points and curve of each set over column x. */
GD_NODISCARD gd_status gd__fit_draw_sets(gd_fit *j, gd_plot *plot, int x, int set);
/* The name of a column with its unit; borrowed. */
const char *gd__fit_axis_name(const gd_fit *j, const char *name);
/* An equation of two columns: the points, and the curve where it holds.  New. */
gd_plot *gd__fit_plot_equation(gd_fit *j);
/* gd_fit_plot, whose errors name the options of gradus fit. */
gd_plot *gd__fit_plot(gd_fit *j, const gd_fit_picture *how);
/* ARGUMENT: only equations of two columns have a picture. */
GD_NODISCARD gd_status gd__fit_check_draw(const gd_fit *j);

#endif
