/* A problem for the solvers, from text: an expression in parameters and data, constraints, bounds, rows of several processes.
 *
 *     gd_problem_spec spec = {.expression = "(x-a)^2", .params = &params, .data = &data, .dtype = GD_F64, .device = cpu};
 *     gd_problem p;
 *     if (!gd__problem_open(&p, ctx, &spec)) ...        params has "x=2", data "a=@a.npy"
 *     gd_objective objective = gd__problem_objective(&p);
 *     gd__problem_close(&p);
 *
 * This is internal: a program in C has its objective as a function of operators (gd_minimize), and expressions as gd_expr. */
#ifndef GD_PROBLEM_PROBLEM_H
#define GD_PROBLEM_PROBLEM_H

#include "expr/expr_internal.h"
#include "gradus/optim.h"
#include "gradus/plot.h"
#include "table/value.h"

typedef enum gd_gradients {
    GD_GRADIENTS_EXACT,
    GD_GRADIENTS_DIFFERENCES, /* of losses */
    GD_GRADIENTS_NONE         /* losses are all there is */
} gd_gradients;

/* The description of a problem. Everything is borrowed until gd__problem_close; a list of texts that is NULL is empty. */
typedef struct gd_problem_spec {
    const char *expression;
    const char *definitions;       /* read before each expression; NULL: none */
    const char *definitions_file;  /* their source, for errors; NULL: none */
    const gd_words *params, *data; /* "NAME=VALUE" (table/value.h) */
    bool params_are_all;           /* no further parameter can be given: errors do not suggest one */
    const gd_words *equal, *below, *subject; /* constraints (constraints.h) */
    const gd_words *bounds;                  /* "0<x<1" (table/bound.h) */
    gd_dtype dtype;
    gd_device *device;
    gd_csv_options csv; /* options for reading @file.csv */
    gd_gradients gradients;
    bool (*interrupted)(
        void *user); /* called before each value: true ends it with INTERRUPTED; NULL: never */
    void *user;
} gd_problem_spec;

typedef struct gd_constraint {
    gd_expr *expr;      /* whose value is to be 0, or at most 0 */
    const char *option; /* the list of its text: "equal", "below", "subject"; static */
    char *text;         /* its text */
} gd_constraint;

typedef struct gd_constraints {
    gd_constraint *item;
    int count;
    size_t bytes;
} gd_constraints;

struct gd_problem_rows; /* problem_rows.h */

typedef struct gd_problem {
    gd_ctx *ctx;
    gd_problem_spec spec;
    gd_expr *expr;
    const char **name; /* parameters first, then data; interned */
    gd_tensor **value;
    int count, params;
    size_t bytes;
    gd_value_tables tables; /* how tables are read, and whether one was */
    gd_constraints equal, below;
    struct gd_problem_rows *rows; /* borrowed; NULL: all rows are evaluated at once */
} gd_problem;

/* Reads parameters, data and the expression.  ARGUMENT, PARSE, FORMAT: "--param x: ...".  gd__problem_close also after a failure. */
GD_NODISCARD gd_status gd__problem_open(gd_problem *p, gd_ctx *ctx, const gd_problem_spec *spec);
void gd__problem_close(gd_problem *p);

/* An expression in the names of the problem, with its definitions.  option: the list that has the text, for errors; NULL: it is the
 * expression itself.  New; NULL with the error recorded. */
gd_expr *gd__problem_expression(const gd_problem *p, const char *option, const char *text);
/* A relation, as in gd__expr_parse_relation. */
gd_expr *gd__problem_relation(const gd_problem *p, const char *option, const char *text, int part,
                              gd_expr_relation *out);
/* ARGUMENT: a parameter or datum that neither the expression nor a constraint has. */
GD_NODISCARD gd_status gd__problem_check_names(const gd_problem *p);

/* ---- values ---- */

/* The value of the expression.  New. */
gd_tensor *gd__problem_value(gd_problem *p);
/* A value as a loss: itself if it is one element, the sum of the squares of more.  New. */
gd_tensor *gd__problem_loss_of(gd_tensor *value);
gd_tensor *gd__problem_loss(gd_problem *p);

/* ---- for the solvers ---- */

/* The objective with its constraints and rows; it borrows p. */
gd_objective gd__problem_objective(gd_problem *p);
/* The chain "nlp" if it suits the constraints; NULL, without an error, if it does not.  Static. */
GD_NODISCARD gd_status gd__problem_choose_chain(gd_problem *p, const char **chain);
/* Wraps *chain in links for gradients, constraints, starts (more than 1) and bounds of the problem; `steps` is the budget of each
 * start.  *chain is consumed, and on failure NULL or to be released. */
GD_NODISCARD gd_status gd__problem_restrict(gd_problem *p, int64_t starts, int64_t steps, gd_link **chain);
static inline bool gd__problem_is_constrained(const gd_problem *p)
{
    return p->equal.count || p->below.count;
}
static inline bool gd__problem_is_bounded(const gd_problem *p)
{
    return gd__problem_is_constrained(p) || (p->spec.bounds && p->spec.bounds->count);
}

/* ---- two numbers as a plane ---- */

/* Are there two numbers among all parameters?  Then their names, as "x" or "p[0]". */
bool gd__problem_is_plane(const gd_problem *p, char axis[2][80]);
/* Adds contours of the loss over box x0 x1 y0 y1 to a plot; the parameters are as before afterwards. */
GD_NODISCARD gd_status gd__problem_contours(gd_problem *p, gd_plot *plot, const double box[4]);
/* A box around points with space, never flat. */
void gd__plane_box(const double *x, const double *y, size_t count, double box[4]);

#endif
