/* The interface of expressions for fits, minimisations and pictures, besides gradus/expr.h, which explains the language. */
#ifndef GD_EXPR_INTERNAL_H
#define GD_EXPR_INTERNAL_H

#include "base/ctx.h"
#include "gradus/expr.h"

#define GD_EXPR_MAX_TEXT  65536 /* bytes of an expression */
#define GD_EXPR_MAX_DEPTH 400   /* levels of parentheses (two each), calls (three), signs and powers (one) */

#define GD_EXPR_UNKNOWN "unknown name '" /* begins, after the column, the error about one */

/* What the text may be. */
typedef enum gd_expr_form {
    GD_EXPR_VALUE,    /* an expression */
    GD_EXPR_EQUATION, /* or an equation, `a = b`, whose value is a - b */
    GD_EXPR_RIGHT,    /* or the value of a name, `name = b`: b */
    GD_EXPR_RELATION  /* or a relation, `a <= b`, or several in a row, `a <= b <= c` */
} gd_expr_form;

/* gd_expr_parse of a text of this form. */
gd_expr *gd__expr_parse_form(gd_ctx *ctx, const char *text, const gd_expr_options *options,
                             gd_expr_form form);
/* Was it an equation?  Then *left is the name that its left side is, interned, or NULL. */
bool gd__expr_is_equation(const gd_expr *e, const char **left);
/* Is the value a comparison, or a combination of comparisons: true or false, not a number?  Then *at is its place, for gd__expr_fail_at. */
bool gd__expr_is_truth(const gd_expr *e, int *at);
/* Records PARSE: "expression: column 9: TEXT". */
void gd__expr_fail_at(const gd_expr *e, int at, const char *text);

/* A relation of an expression, `a <= b`. */
typedef struct gd_expr_relation {
    int count; /* relations in the row; 0: the text is a plain expression */
    char
        sign; /* of this one: '<' for < and <=, whose value a - b is to be at most 0; '>' for b - a; '=' for = and ==: a - b is 0 */
    const char *words; /* "<=", as it was written; static */
    int at;            /* place of the sign */
    int begin, end;    /* of this relation, in the expression's own text */
} gd_expr_relation;

/* Reads a text as GD_EXPR_RELATION: the value is that of the part-th relation, from 0, which *out describes. */
gd_expr *gd__expr_parse_relation(gd_ctx *ctx, const char *text, const gd_expr_options *options, int part,
                                 gd_expr_relation *out);

/* Does every element of the value depend only on the same element of the variables marked in `rows`, vectors of one length, and of single
 * numbers?  values as for gd_expr_eval, those of `rows` may be NULL.  False also if this is unknown. */
bool gd__expr_by_rows(gd_expr *e, const bool *rows, gd_tensor *const *values, gd_dtype dtype);

/* Does the expression, or what it calls, solve differential equations? */
bool gd__expr_has_ode(const gd_expr *e);

#endif
