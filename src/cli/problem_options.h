/* The options that describe a problem: an expression, its parameters and data. */
#ifndef GD_CLI_PROBLEM_OPTIONS_H
#define GD_CLI_PROBLEM_OPTIONS_H

#include "cli/table_options.h"
#include "problem/constraints.h"

#define GD_DEF_OPTION                \
    GD_PATH_OPTION(                  \
        "def", "FILE", GD_PATH_READ, \
        "user-defined functions for the expression: lines 'decay(t, k) = exp(-k*t);'; # begins a comment")
#define GD_PICTURES ".svg, .png or .pdf"
#define GD_DARK_OPTION \
    GD_SWITCH("dark", "a dark background; otherwise an .svg follows the viewer's colour scheme")
#define GD_DATA_OPTIONS                                                                          \
    GD_VALUES("data", "a constant of the expression; values as for --param"), GD_DEF_OPTION,     \
        GD_TABLE_OPTIONS, GD_OPTION("dtype", "f32|f64", "number type of the computation (f64)"), \
        GD_OPTION("device", "NAME", "cpu, gpu or gpu:1 (cpu)"),                                  \
        GD_OPTION("seed", "N", "of the random numbers (0)"),                                     \
        GD_OPTION("threads", "N", "CPU threads (all cores); results do not depend on it")
#define GD_PARAM_OPTION                                                                                        \
    GD_VALUES(                                                                                                 \
        "param",                                                                                               \
        "a parameter and its start: a number, [1, 2], [[1, 2], [3, 4]], zeros(3,4), ones(3), 0.1*randn(3,4), " \
        "@file.npy, @file.csv:column, @file.safetensors:name")

/* Options that are lists of texts. */
enum {
    GD_LIST_PARAM,
    GD_LIST_DATA,
    GD_LIST_EQUAL,
    GD_LIST_BELOW,
    GD_LIST_SUBJECT,
    GD_LIST_BOUND,
    GD_PROBLEM_LISTS
};

/* A problem and its borrowed data. */
typedef struct gd_problem_arguments {
    const gd_args *args;
    gd_problem_spec spec;
    gd_words list[GD_PROBLEM_LISTS];
    char *definitions;
    gd_problem problem;
} gd_problem_arguments;

/* The values of a repeated option, which may be empty. */
GD_NODISCARD gd_status gd__texts_of_option(const gd_args *args, const char *name, gd_words *out);
/* The text of the file of --def: *text is new (gd__strfree), or NULL without the option. */
GD_NODISCARD gd_status gd__definitions_option(const gd_args *args, char **text);

/* Reads options into a->spec, and seeds the context.  The spec may be changed before gd__problem_arguments_open builds the problem (ARGUMENT
 * also: an option of tables without a table).  gd__problem_arguments_close also after a failure. */
GD_NODISCARD gd_status gd__problem_arguments_read(gd_problem_arguments *a, const gd_args *args,
                                                  const char *expression);
GD_NODISCARD gd_status gd__problem_arguments_open(gd_problem_arguments *a);
void gd__problem_arguments_close(gd_problem_arguments *a);

/* ---- results ---- */

/* JSON: the members "multipliers" and "constraints" of an object.  multipliers: as for gd__constraints_visit; an inequality nearer to its bound
 * than the tolerance is active. */
GD_NODISCARD gd_status gd__constraints_json(const gd_problem *p, const gd_tensor *multipliers,
                                            const double *sensitivities, double tolerance, gd_text *out);
/* One line per constraint, which marks violations above the tolerance. */
GD_NODISCARD gd_status gd__constraints_print(const gd_problem *p, const gd_tensor *multipliers,
                                             const double *sensitivities, double tolerance, gd_text *out);

/* Multipliers of bounds, a number for each element of the parameters in their order; NULL: not known.  JSON: the member "bound_multipliers",
 * an array for each parameter; text: a line for each that is not 0, of the first ones. */
GD_NODISCARD gd_status gd__bounds_json(const gd_problem *p, const gd_tensor *multipliers, gd_text *out);
GD_NODISCARD gd_status gd__bounds_print(const gd_problem *p, const gd_tensor *multipliers, gd_text *out);

#endif
