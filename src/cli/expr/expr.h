/* The expression language of the command line.
 *
 *   h = tanh(X @ W1 + b1); mean((h @ W2 + b2 - Y)^2)
 *
 *   const char *names[] = {"p"};
 *   gd_expr *e = gd__expr_parse(ctx, "(1-p[0])^2 + 100*(p[1]-p[0]^2)^2", names, 1);
 *   gd_tensor *loss = gd__expr_eval(e, &p, GD_F64);         any number of times; recorded for gradients
 *   gd__expr_free(e);
 *
 * Bindings `name = expr;` come first, the last expression is the value.  From loosest to tightest:
 *
 *   c ? a : b            a where c holds, else b; to the right
 *   ||                   either; what is not 0 holds
 *   &&                   both
 *   < <= > >= == !=      compare; the result counts as 0 and 1 in arithmetic
 *   + -
 *   * / % @              % is the remainder with the sign of the divisor, @ the matrix product
 *   -x +x !x
 *   x^y                  to the right: 2^3^2 is 2^9, -x^2 is -(x^2), 2^-1 is 0.5
 *   x[0] x[-1,2] x[1:5]  whole numbers and ranges start:stop:step, as in Python
 *   x[k]                 an element for each number of an array k
 *   f(x, ...)  [a, b]    calls (gd__expr_function lists them); a list stacks its parts along a new first axis
 *
 * sum(k = 1..3, a[k] * x^k) and prod(...) stand for their terms, both ends included.  Functions of one's own come before
 * their use and see what stands before them: `decay(t, k) = exp(-k * t); a * decay(t, b)`.  # begins a comment.
 *
 * ode("x' = -k*x", x0, t) and ode_stiff(...) solve differential equations; see expr_ode.h.
 *
 * Both sides of c ? a : b are computed; where the slope of the one not chosen is infinite or NaN, so is the gradient.
 *
 * Names are letters, digits and _, or any text between backquotes.  pi, e and inf are numbers unless a variable has that
 * name.  Arrays meet as in NumPy.  Numbers are folded when the text is read and equal parts are computed once. */
#ifndef GD_CLI_EXPR_EXPR_H
#define GD_CLI_EXPR_EXPR_H

#include "base/ctx.h"
#include "gradus/tensor.h"

#define GD_EXPR_MAX_TEXT  65536 /* bytes of an expression */
#define GD_EXPR_MAX_DEPTH 400   /* levels of parentheses (two each), calls (three), signs and powers (one) */

typedef struct gd_expr gd_expr;

/* Reads an expression in the variables names[0..count).  With names NULL every name that is neither bound nor a constant
 * becomes a variable.  New; NULL with PARSE recorded: "expression: column 9: unknown function 'expp', did you mean
 * 'exp'?" */
gd_expr *gd__expr_parse(gd_ctx *ctx, const char *text, const char *const *names, int count);
#define GD_EXPR_UNKNOWN "unknown name '" /* so begins, behind the column, the error about one */
/* With functions and bindings from a file, `name(x, ...) = ...;` and `name = ...;`, in front. */
gd_expr *gd__expr_parse_with(gd_ctx *ctx, const char *defined, const char *file, const char *text,
                             const char *const *names, int count);
/* What the text may end with. */
typedef enum gd_expr_form {
    GD_EXPR_VALUE,    /* an expression */
    GD_EXPR_EQUATION, /* or an equation, `a = b`, whose value is a - b */
    GD_EXPR_RIGHT,    /* or the value of a name, `name = b`: b */
    GD_EXPR_RELATION  /* or a relation, `a <= b`, or several in a row, `a <= b <= c` */
} gd_expr_form;

gd_expr *gd__expr_parse_form(gd_ctx *ctx, const char *defined, const char *file, const char *text,
                             const char *const *names, int count, gd_expr_form form);
/* Was it an equation?  Then *left is the name that its left side is, interned, or NULL. */
bool gd__expr_is_equation(const gd_expr *e, const char **left);
/* Is the value a comparison, or made of nothing else: true or false, not a number?  Then *at is its place, for gd__expr_fail_at. */
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
gd_expr *gd__expr_parse_relation(gd_ctx *ctx, const char *defined, const char *file, const char *text,
                                 const char *const *names, int count, int part, gd_expr_relation *out);
void gd__expr_free(gd_expr *e); /* NULL is fine */

/* The variables: those given, or those found.  Borrowed. */
int gd__expr_variables(const gd_expr *e);
const char *gd__expr_variable(const gd_expr *e, int index);
/* Does the value depend on it? */
bool gd__expr_uses(const gd_expr *e, int index);

/* A promise that the values of a variable will be the same tensor with the same elements in every evaluation: parts that
 * depend on nothing else are computed once. */
void gd__expr_fix(gd_expr *e, int index);
/* Takes back what was computed from fixed variables; they stay fixed. */
void gd__expr_forget(gd_expr *e);

/* Is every element of the value made of the same element of the variables marked in `rows`, vectors of one length, and of single
 * numbers?  values as for gd__expr_eval, those of `rows` may be NULL.  False also where that cannot be told. */
bool gd__expr_by_rows(gd_expr *e, const bool *rows, gd_tensor *const *values, gd_dtype dtype);

/* The value with values[i] for variable i (NULL where it is not used), all of that dtype and on one device.  New; NULL with
 * the operator's error recorded, its text led by "expression: column N: ". */
gd_tensor *gd__expr_eval(gd_expr *e, gd_tensor *const *values, gd_dtype dtype);

/* Name and short description of the i-th function; NULL past the end. */
const char *gd__expr_function(int i, const char **help);

#endif
