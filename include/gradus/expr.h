/* gradus/expr.h: expressions over arrays, as text.
 *
 *     gd_expr *e = gd_expr_parse(ctx, "a*exp(-t) + a^2", NULL);
 *     gd_tensor *values[] = {x, t};                                in the order of gd_expr_variable(e, 0), (e, 1), ...
 *     gd_tensor *y = gd_expr_eval(e, values, GD_F32);              any number of times; recorded for gradients
 *     gd_backward(gd_sum(y, NULL, false), NULL, 0);
 *     gd_expr_free(e);
 *
 * The language, as in `gradus minimize` and `gradus fit`:
 *
 *   h = tanh(X @ W1 + b1); mean((h @ W2 + b2 - Y)^2)
 *
 * Bindings `name = expr;` come first, the last expression is the value.  From loosest to tightest:
 *
 *   c ? a : b            a if c is true, else b; right-associative
 *   ||                   or; numbers other than 0 are true
 *   &&                   and
 *   < <= > >= == !=      compare; the result counts as 0 and 1 in arithmetic
 *   + -
 *   * / % @              % is the remainder with the sign of the divisor, @ the matrix product
 *   -x +x !x
 *   x^y                  right-associative: 2^3^2 is 2^9, -x^2 is -(x^2), 2^-1 is 0.5
 *   x[0] x[-1,2] x[1:5]  whole numbers and ranges start:stop:step, as in Python
 *   x[k]                 one element per number of an array k
 *   f(x, ...)  [a, b]    calls (gd_expr_function lists them); a list stacks its parts along a new first axis
 *
 * sum(k = 1..3, a[k] * x^k) and prod(...) are written out term by term, both ends included.  Functions are defined before
 * their use and may use earlier definitions: `decay(t, k) = exp(-k * t); a * decay(t, b)`.  # begins a comment.
 *
 * ode("x' = -k*x", x0, t) and ode_stiff(...) solve differential equations: an equation per state, start values, times.
 *
 * Both sides of c ? a : b are computed; if the derivative of the side not chosen is infinite or NaN, so is the gradient.
 *
 * Names are letters of any script (UTF-8), digits, subscripts and _, not starting with a digit, or any text between backquotes.  pi, e and
 * inf are numbers unless a variable has that name.  Arrays meet as tensors do (gradus/tensor.h).  Constants are folded when the text is read, and equal parts
 * are computed once. */
#ifndef GRADUS_EXPR_H
#define GRADUS_EXPR_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A parsed expression.  It belongs to its context. */
typedef struct gd_expr gd_expr;

/* Options for parsing; all members may be 0. */
typedef struct gd_expr_options {
    const char *const *
        names; /* the variables; NULL: every name that is neither bound nor a constant, in order of appearance */
    int count; /* of the names */
    const char *
        definitions; /* functions and bindings read first, `name(x, ...) = ...;` and `name = ...;`; NULL: none */
    const char *file; /* the file of the definitions, for error messages; NULL: none */
} gd_expr_options;

/* Reads an expression.  options NULL: defaults.  New: gd_expr_free.  NULL with PARSE recorded: "expression: column 9: unknown
 * function 'expp', did you mean 'exp'?" */
gd_expr *gd_expr_parse(gd_ctx *ctx, const char *text, const gd_expr_options *options);
void gd_expr_free(gd_expr *e); /* NULL is fine */

/* The number of variables, given or found. */
int gd_expr_variables(const gd_expr *e);
/* The name of a variable.  Borrowed; NULL if there is none. */
const char *gd_expr_variable(const gd_expr *e, int index);
/* Does the value depend on it? */
bool gd_expr_uses(const gd_expr *e, int index);

/* Declares that a variable has the same tensor with the same elements in every evaluation: parts that depend on fixed variables
 * only are computed once. */
void gd_expr_fix(gd_expr *e, int index);
/* Discards values computed from fixed variables; the variables stay fixed. */
void gd_expr_forget(gd_expr *e);

/* The value with values[i] for variable i (NULL if it is not used).  All values have the dtype given, and are on one device.  New; NULL
 * with ARGUMENT (a value is missing), DTYPE, or the operator's error recorded, its text prefixed with "expression: column N: ".
 *
 * Evaluations of values that need no gradients are recorded from the third on and replayed (gradus/trace.h) for values of the same
 * shapes: the same bits, without operators.  The expression then keeps the memory of its last value. */
gd_tensor *gd_expr_eval(gd_expr *e, gd_tensor *const *values, gd_dtype dtype);

/* The name of the i-th function of the language, and in *help, unless NULL, a short description; NULL past the end. */
const char *gd_expr_function(int i, const char **help);

/* Languages that an expression can be written in. */
typedef enum gd_expr_language {
    GD_EXPR_C,
    GD_EXPR_PYTHON,
    GD_EXPR_LATEX,
    GD_EXPR_LANGUAGES /* how many */
} gd_expr_language;

/* The text for a variable in that language; axes 0: a number, else an array of that shape in row-major order. */
typedef struct gd_expr_symbol {
    const char *text;
    int axes;
    const int64_t *shape;
} gd_expr_symbol;

/* Writes the expression with symbols[i] for variable i (symbols or a text NULL: its own name, as a number): in C and Python the lines of a
 * function's body, the last of them "    return ..." without its end, in LaTeX a formula.  Returns the length of the text; if that is
 * not less than size, only its beginning was written.  -1 with ARGUMENT recorded: a part cannot be written in that language; the text names its column. */
int gd_expr_export(const gd_expr *e, gd_expr_language language, const gd_expr_symbol *symbols, char *out,
                   size_t size);

#ifdef __cplusplus
}
#endif
#endif
