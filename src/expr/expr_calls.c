/* The functions of the expression language: one row each. */
#include "expr/expr_program.h"
#include "base/text/compose.h"
#include "base/text/suggest.h"

#include <string.h>

static gd_tensor *digamma(gd_tensor *x) { return gd_polygamma(x, 0); }

#define CALL(title, what, least_, most_, ...)                                     \
    {                                                                             \
        .name = #title, .kind = what, .least = least_, .most = most_, __VA_ARGS__ \
    }
#define UNARY(name, fn, text)   CALL(name, CALL_UNARY, 1, 1, .unary = fn, .help = text)
#define BINARY(name, fn, text)  CALL(name, CALL_BINARY, 2, 2, .binary = fn, .help = text)
#define REDUCE(name, text)      CALL(name, CALL_REDUCE, 1, 2, .reduce = gd_##name, .help = text)
#define RANGE(name, sign, text) CALL(name, CALL_REDUCE, 1, 2, .reduce = gd_##name, .over = sign, .help = text)
#define EXTREME(name, pair, text) \
    CALL(name, CALL_EXTREME, 1, 8, .binary = pair, .reduce = gd_##name, .help = text)
#define ALONG(name, text)             CALL(name, CALL_ALONG, 1, 2, .along = gd_##name, .help = text)
#define OTHER(name, kind, a, b, text) CALL(name, kind, a, b, .help = text)
#define MATRIX(name, text)            UNARY(name, gd_##name, text)

static const gd_expr_call calls[] = {
#define FUNCTION(text, ...)     .help = text
#define SIGN(...)               .help = NULL
#define UNSPELT                 .help = NULL
#define ROW(title, inputs, ...) CALL(title, CALL_ELEMENT, inputs, inputs, .op = GD_OP_##title, __VA_ARGS__),
#define ELEMENT(name, inputs, settings, kind, needs, takes, batch, element, whole, gradient, ...) \
    ROW(name, inputs, __VA_ARGS__)
#define ELEMENT0(name, inputs, settings, kind, takes, element, whole, ...) ROW(name, inputs, __VA_ARGS__)
#include "tensor/ops.def"
    UNARY(digamma, digamma, "slope of lgamma"),
    OTHER(besselj, CALL_BESSEL, 2, 2, "besselj(n, x): Bessel function of the first kind, n a whole number"),
    RANGE(sum, '+', "sum of all elements, or sum(x, axis=0), or sum(k=1..3, a[k]*x^k)"),
    REDUCE(mean, "mean of all elements, or mean(x, axis=0)"),
    RANGE(prod, '*', "product of all elements, or prod(x, axis=0), or prod(k=1..3, x-k)"),
    EXTREME(max, gd_maximum,
            "largest element, max(x, axis=0); with several arguments the larger of each pair"),
    EXTREME(min, gd_minimum,
            "smallest element, min(x, axis=0); with several arguments the smaller of each pair"),
    BINARY(dot, gd_dot, "sum of products of two vectors"),
    OTHER(norm, CALL_NORM, 1, 2, "root of the sum of squares; norm(x, 1) and norm(x, inf) are other orders"),
    REDUCE(logsumexp, "log(sum(exp(x))) without overflow"),
    ALONG(softmax, "exp(x) / sum(exp(x)) along the last axis, or softmax(x, axis=0)"),
    ALONG(log_softmax, "log(softmax(x))"),
    ALONG(cumsum, "running sum along the last axis"),
    OTHER(T, CALL_TRANSPOSE, 1, 1, "axes in reverse order"),
    OTHER(reshape, CALL_RESHAPE, 2, 9, "reshape(x, 3, -1): the same elements in a different shape"),
    OTHER(where, CALL_WHERE, 3, 3, "where(condition, a, b): a where the condition is true, else b"),
    OTHER(ode, CALL_ODE, 2, 3,
          "ode(\"x' = -k*x\", x0, t): solution at times t of differential equations, x0 at t = 0, or at the "
          "time given next; several equations, \"x' = v; v' = -k*x\" with [x0, v0], give [x, v]"),
    OTHER(ode_stiff, CALL_ODE, 2, 3, "the same for stiff equations"),
    BINARY(solve, gd_solve, "solve(A, b): the x with A @ x = b"),
    MATRIX(inverse, "inverse of a matrix"),
    MATRIX(logdet, "log |det A|"),
    MATRIX(diagonal, "diagonal of a matrix"),
};

#define CALLS ((int)(sizeof calls / sizeof *calls))

const gd_expr_call *gd__expr_find_call(const char *name, size_t length)
{
    for (int i = 0; i < CALLS; i++)
        if (calls[i].help && strlen(calls[i].name) == length && !memcmp(calls[i].name, name, length))
            return &calls[i];
    return NULL;
}

void gd__expr_suggest_call(gd_suggest *nearest, char hint[GD_HINT_SIZE])
{
    for (int i = 0; i < CALLS; i++)
        if (calls[i].help) gd__suggest_try(nearest, calls[i].name);
    (void)gd__suggest_hint(nearest, hint);
}

const char *gd_expr_function(int i, const char **help)
{
    int k = 0;
    while (k < CALLS && (!calls[k].help || i-- > 0)) k++;
    if (k == CALLS || i < -1) return NULL;
    if (help) *help = calls[k].help;
    return calls[k].name;
}
