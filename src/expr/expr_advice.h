/* The owner of a wrong expression, and its allowed names. */
#ifndef GD_EXPR_EXPR_ADVICE_H
#define GD_EXPR_EXPR_ADVICE_H

#include "expr/expr_internal.h"

typedef enum gd_expr_name_kind {
    GD_EXPR_NAME_PARAMETER,
    GD_EXPR_NAME_CONSTANT,
    GD_EXPR_NAME_COLUMN
} gd_expr_name_kind;

typedef struct gd_expr_advice {
    const char *option; /* the option of the text; NULL: the caller's own */
    gd_expr_name_kind (*kind)(const void *user, const char *name);
    const void *user;
    bool params;           /* a name could be made a parameter, by --param */
    const char *constants; /* the option that makes one a constant; NULL: none */
} gd_expr_advice;

/* The error "expression: column 3: ..." in the context becomes one of the option, with advice after it: "--below: column 3: ...".  option
 * NULL: it stays one of the expression. */
void gd__expr_blame(gd_ctx *ctx, const char *option, const char *advice);
/* The same after parsing has failed; for an unknown name, with the known names. */
void gd__expr_advise(gd_ctx *ctx, const gd_expr_advice *advice, const char *const *names, int count);
/* PARSE: the value is true or false, where a number is wanted; text: what is wrong, and what to write. */
GD_NODISCARD gd_status gd__expr_refuse_truth(gd_ctx *ctx, const char *option, const gd_expr *e,
                                             const char *text);

#endif
