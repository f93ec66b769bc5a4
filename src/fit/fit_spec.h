/* What a fit is made of. */
#ifndef GD_FIT_FIT_SPEC_H
#define GD_FIT_FIT_SPEC_H

#include "gradus/world.h"
#include "table/csv.h"

typedef struct gd_fit gd_fit;

/* A parameter, or a constant of the model. */
typedef struct gd_fit_param {
    const char *name;       /* "A"; "A[set]": one for every number of the column `set` */
    double start;           /* where it starts, or the constant */
    const gd_tensor *value; /* the same of an array, or of each set; NULL: start */
    double low, high;       /* bounds of all its elements; both 0: none */
    bool open;              /* its start is to be guessed */
    bool fixed;             /* a constant: it is not fitted */
    const char *tied;       /* it is not fitted, but follows from parameters: "a/2"; NULL: it is */
} gd_fit_param;

/* Start from gd_fit_spec_defaults().  Lists of texts end with NULL; a list that is NULL is empty. */
typedef struct gd_fit_spec {
    const char *model;       /* an expression in parameters and columns, or an equation */
    const char *definitions; /* read before it, as gd_expr_options has them; NULL: none */
    const char *definitions_file;

    gd_csv *table;               /* borrowed until the fit ends */
    const char *y;               /* the column that the model is to give; "y" */
    const char *weights;         /* a column: weights of the squared residuals; NULL: none */
    const char *sigma;           /* a column: standard deviations of y; NULL: none */
    bool absolute_sigma;         /* these are the standard deviations, not only their ratios */
    const char *const *x_errors; /* "NAME=COLUMN", "NAME=NUMBER": standard deviations of columns */
    const char *const *exclude;  /* conditions: rows where one holds are left out */
    bool drop_missing;           /* rows with missing cells are left out; false: they are an error */
    const char *dates;           /* what dates are, "days:2000-01-01"; NULL: found */

    const gd_fit_param *params;
    int param_count;
    const char *const *bounds; /* "b>0", "0<b<1" */
    const char *const *derive; /* "thalf=log(2)/b" */

    const char *loss;      /* "huber:0.5"; NULL: squares */
    const char *intervals; /* "profile", "bootstrap:1000"; NULL: normal */
    double level;          /* of intervals and bands; 0.95 */
    bool guess;            /* start at numbers of the shape that the data have */
    int64_t starts;        /* fit from so many points; 1 */
    const char *chain;     /* another method; NULL: Levenberg-Marquardt */
    int64_t max_steps;     /* of each fit; 1000 */
    const char *device;    /* NULL: cpu */
    uint64_t seed;         /* of random starts and resamples */

    gd_world *world;             /* the processes that share the work; NULL: this one alone */
    const gd_observer *observer; /* NULL: nobody */
    void (*step)(void *user,
                 const gd_fit *fit); /* after each step, with the point that it found; NULL: nobody */
    void *step_user;
} gd_fit_spec;

gd_fit_spec gd_fit_spec_defaults(void);

#endif
