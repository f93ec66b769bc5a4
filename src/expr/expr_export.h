/* Expressions as text in other languages. */
#ifndef GD_EXPR_EXPORT_H
#define GD_EXPR_EXPORT_H

#include "expr/expr_internal.h"
#include "base/text/compose.h"

#define GD_EXPORT_LONGEST 200000 /* bytes */

/* The value of the expression with symbol[i] for variable i: in C and Python lines of a function's body, the last of them
 * "    return ..." without its end, in LaTeX a formula.  ARGUMENT: a part has no form in that language, with its place. */
GD_NODISCARD gd_status gd__expr_export(const gd_expr *e, gd_expr_language language,
                                       const gd_expr_symbol *symbol, gd_text *out);
/* A number that reads back as itself. */
void gd__export_number(gd_text *out, gd_expr_language language, double value);

#endif
