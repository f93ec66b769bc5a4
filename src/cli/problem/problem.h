/* A problem of the command line: an expression in parameters and data. */
#ifndef GD_CLI_PROBLEM_PROBLEM_H
#define GD_CLI_PROBLEM_PROBLEM_H

#include "cli/table_options.h"
#include "expr/expr_internal.h"
#include "plot/plot_internal.h"
#include "table/value.h"

/* The options that describe one, for the tables of the commands. */
#define GD_DEF_OPTION                \
    GD_PATH_OPTION(                  \
        "def", "FILE", GD_PATH_READ, \
        "functions of one's own for the expression: lines 'decay(t, k) = exp(-k*t);'; # begins a comment")
#define GD_PICTURES ".svg, .png or .pdf"
#define GD_DARK_OPTION \
    GD_SWITCH("dark", "the picture on dark paper; without, an .svg follows the system of its reader")
#define GD_DATA_OPTIONS                                                                          \
    GD_VALUES("data", "a constant of the expression; values as for --param"), GD_DEF_OPTION,     \
        GD_TABLE_OPTIONS, GD_OPTION("dtype", "f32|f64", "number type of the computation (f64)"), \
        GD_OPTION("device", "NAME", "cpu, gpu or gpu:1 (cpu)"),                                  \
        GD_OPTION("seed", "N", "of the random numbers (0)"),                                     \
        GD_OPTION("threads", "N", "CPU threads (all cores); results do not depend on it")
#define GD_PARAM_OPTION                                                                                    \
    GD_VALUES("param",                                                                                     \
              "a parameter and where it starts: a number, [1, 2], [[1, 2], [3, 4]], zeros(3,4), ones(3), " \
              "0.1*randn(3,4), @file.npy, @file.csv:column, @file.safetensors:name")

typedef struct gd_problem {
    gd_ctx *ctx;
    gd_expr *expr;
    const char **name; /* parameters first, then data; interned */
    gd_tensor **value;
    int count, params;
    size_t bytes;
    gd_dtype dtype;
    gd_device *device;
    gd_value_tables tables; /* how @file.csv is read */
} gd_problem;

/* What --def of args defines: *text is new (gd__strfree), or NULL without the option. */
GD_NODISCARD gd_status gd__problem_definitions(gd_ctx *ctx, const gd_args *args, char **text);
/* An expression in the names, with what --def of args defines.  option: whose it is, for errors; NULL: that of the command.
 * New; NULL with the error recorded. */
gd_expr *gd__problem_form(gd_ctx *ctx, const gd_args *args, const char *text, const char *const *names,
                          int count, gd_expr_form form);
gd_expr *gd__problem_expression(gd_ctx *ctx, const gd_args *args, const char *option, const char *text,
                                const char *const *names, int count);
/* A relation of an option, as gd__expr_parse_relation has it. */
gd_expr *gd__problem_relation(gd_ctx *ctx, const gd_args *args, const char *option, const char *text,
                              const char *const *names, int count, int part, gd_expr_relation *out);
/* The error "expression: column 3: ..." in the context becomes one of the option: "--below: column 3: ...". */
void gd__problem_blame(gd_ctx *ctx, const char *option);
/* PARSE: the value is true or false, where a number is wanted.  option: as above; text: what is wrong, and what to write. */
GD_NODISCARD gd_status gd__problem_no_truth(gd_ctx *ctx, const char *option, const gd_expr *e,
                                            const char *text);

/* Reads --param, --data, --def, the options of tables (ARGUMENT where no value is one), --dtype, --device and --seed of args.  params: what to use in place of --param ("p=[0,0]", ...), or
 * NULL.  gd__problem_close also after a failure. */
GD_NODISCARD gd_status gd__problem_open(gd_problem *p, gd_ctx *ctx, const gd_args *args, const char *expr,
                                        const char *const *params, int count);
void gd__problem_close(gd_problem *p);

/* The value of the expression.  New. */
gd_tensor *gd__problem_value(gd_problem *p);
/* A value as a loss: itself where it is one element, the sum of the squares of more.  New. */
gd_tensor *gd__problem_loss_of(gd_tensor *value);
gd_tensor *gd__problem_loss(gd_problem *p);

/* Are there two numbers among all parameters?  Then their names, as "x" or "p[0]". */
bool gd__problem_is_plane(const gd_problem *p, char axis[2][80]);
/* Adds contours of the loss over box x0 x1 y0 y1 to a plot; the parameters are as before afterwards. */
GD_NODISCARD gd_status gd__problem_contours(gd_problem *p, gd_plot *plot, const double box[4]);
/* A box around points with space, never flat. */
void gd__plane_box(const double *x, const double *y, size_t count, double box[4]);

#endif
