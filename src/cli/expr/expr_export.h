/* Expressions as text in other languages. */
#ifndef GD_CLI_EXPR_EXPR_EXPORT_H
#define GD_CLI_EXPR_EXPR_EXPORT_H

#include "cli/expr/expr.h"
#include "cli/text.h"

typedef enum gd_export_language {
    GD_EXPORT_C,
    GD_EXPORT_PYTHON,
    GD_EXPORT_LATEX,
    GD_EXPORT_COUNT
} gd_export_language;

#define GD_EXPORT_LONGEST 200000 /* bytes */

/* What a variable is called there; axes 0: a number, else an array of that shape whose elements lie row by row. */
typedef struct gd_export_symbol {
    const char *text;
    int axes;
    const int64_t *shape;
} gd_export_symbol;

/* The value of the expression with symbol[i] for variable i: in C and Python lines of a function's body, the last of them
 * "    return ..." without its end, in LaTeX a formula.  ARGUMENT: a part has no form in that language, with its place. */
GD_NODISCARD gd_status gd__expr_export(const gd_expr *e, gd_export_language language,
                                       const gd_export_symbol *symbol, gd_text *out);
/* A number that reads back as itself. */
void gd__export_number(gd_text *out, gd_export_language language, double value);

#endif
