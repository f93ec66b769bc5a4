/* Reading an expression: recursive descent, one function per level of precedence; see expr.h for the language. */
#include "expr/expr_parser.h"
#include "base/system.h"
#include "base/text/compose.h"
#include "base/text/suggest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_LIST 1024 /* parts of a list literal */

static int either(gd_expr_parser *p);

/* ---- errors ---- */

int GD_PRINTF(3, 4) gd__parser_fail(gd_expr_parser *p, size_t at, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    (void)gd__vformat(text, sizeof text, format, args);
    va_end(args);
    char place[GD_EXPR_PLACE];
    (void)gd_fail(p->e->ctx, GD_PARSE, "%s: %s", gd__expr_place(p->e, (int)at, place), text);
    return -1;
}

/* "'+'", or "the end": the token at the current place. */
static const char *found(const gd_expr_parser *p, char buf[32])
{
    if (p->at >= p->size) return "the end";
    char c[5] = {0};
    memcpy(c, p->text + p->at, p->size - p->at < 4 ? p->size - p->at : 4);
    size_t length = gd__utf8_length(c);
    if (!length || gd__is_control(c, length))
        (void)snprintf(buf, 32, "the byte 0x%02X", (unsigned)(unsigned char)*c);
    else
        (void)snprintf(buf, 32, "'%.*s'", (int)length, c);
    return buf;
}

int gd__parser_expected(gd_expr_parser *p, const char *what)
{
    char buf[32];
    return gd__parser_fail(p, p->at, "%s expected, %s found", what, found(p, buf));
}

/* ---- letters ---- */

static void skip_space(gd_expr_parser *p)
{
    for (bool comment = false; p->at < p->size; p->at++) {
        char c = p->text[p->at];
        comment = c == '#' || (comment && c != '\n'); /* to the end of its line */
        if (!comment && c != ' ' && c != '\t' && c != '\r' && c != '\n') break;
    }
}

char gd__parser_peek(gd_expr_parser *p)
{
    skip_space(p);
    return p->at < p->size ? p->text[p->at] : 0;
}

bool gd__parser_accept(gd_expr_parser *p, char c)
{
    if (gd__parser_peek(p) != c) return false;
    p->at++;
    return true;
}

/* The name at the current place; *name points into the text.  False if there is none, or with an error. */
bool gd__parser_name(gd_expr_parser *p, const char **name, size_t *length)
{
    char c = gd__parser_peek(p);
    size_t begin = p->at;
    if (c == '`') {
        const char *end = memchr(p->text + begin + 1, '`', p->size - begin - 1);
        if (!end || end == p->text + begin + 1) {
            (void)gd__parser_fail(p, begin, end ? "an empty name" : "no closing '`'");
            return false;
        }
        *name = p->text + begin + 1;
        *length = (size_t)(end - *name);
        p->at = begin + *length + 2;
        return true;
    }
    if (gd__parser_digit(c)) return false;
    for (size_t n = 1; n; p->at += n) n = gd__name_letter(p->text + p->at, p->size - p->at);
    if (p->at == begin) return false;
    *name = p->text + begin;
    *length = p->at - begin;
    return true;
}

/* ---- names ---- */

static int find_variable(const gd_expr *e, const char *name, size_t length)
{
    for (int i = 0; i < e->variables; i++)
        if (gd__parser_same(name, length, e->name[i])) return i;
    return -1;
}

static const struct {
    const char *name;
    double value;
} constants[] = {{"pi", 3.14159265358979323846}, {"e", 2.71828182845904523536}, {"inf", INFINITY}};

static int unknown_name(gd_expr_parser *p, size_t at, const char *name, size_t length)
{
    int shown = length > 60 ? 60 : (int)length;
    if (gd__parser_circle(p, at, name, length)) return -1;
    if (gd__expr_find_call(name, length))
        return gd__parser_fail(p, at, "'%.*s' is a function: '(' expected after it", shown, name);
    gd_suggest nearest = gd__suggest(name, length);
    for (int i = 0; i < p->e->variables; i++) gd__suggest_try(&nearest, p->e->name[i]);
    char hint[GD_HINT_SIZE];
    return gd__parser_fail(p, at, GD_EXPR_UNKNOWN "%.*s'%s", shown, name, gd__suggest_hint(&nearest, hint));
}

/* Bindings first, the latest of a name; then variables; then constants. */
int gd__parser_resolve(gd_expr_parser *p, size_t at, const char *name, size_t length)
{
    for (int i = p->bindings; i-- > 0;)
        if ((i < p->hidden_from || i >= p->hidden_to) && p->binding[i].length == length &&
            !memcmp(p->binding[i].name, name, length))
            return p->binding[i].node;
    int outside = gd__parser_from_outside(p, at, name, length);
    if (outside != -2) return outside;
    int variable = find_variable(p->e, name, length);
    for (size_t i = 0; i < sizeof constants / sizeof *constants && variable < 0; i++)
        if (gd__parser_same(name, length, constants[i].name))
            return gd__expr_number(p->e, (int)at, constants[i].value);
    if (variable < 0 && !p->open) return unknown_name(p, at, name, length);
    if (variable < 0) variable = gd__expr_add_variable(p->e, name, length);
    return variable < 0 ? -1 : gd__expr_variable_node(p->e, (int)at, variable);
}

bool gd__parser_bind(gd_expr_parser *p, const char *name, size_t length, int node)
{
    if (!gd__expr_room(p->e, &p->binding, &p->binding_bytes, p->bindings, 1, sizeof *p->binding))
        return false;
    p->binding[p->bindings++] = (gd_expr_binding){name, length, node, SIZE_MAX};
    return true;
}

/* ---- depth ---- */

bool gd__parser_enter(gd_expr_parser *p)
{
    if (++p->depth <= GD_EXPR_MAX_DEPTH && gd__stack_here() > p->floor) return true;
    (void)gd__parser_fail(p, p->at, "nested too deep%s",
                          p->depth > GD_EXPR_MAX_DEPTH ? "" : " for the stack of this process (ulimit -s)");
    return false;
}

/* ---- whole numbers: indices, axes, shapes ---- */

/* The whole number that an expression folds to. */
static bool whole_number(gd_expr_parser *p, const char *what, int64_t *value)
{
    (void)gd__parser_peek(p);
    size_t at = p->at;
    double number;
    int node = either(p); /* a ':' after it belongs to a range */
    if (node < 0) return false;
    if (!gd__expr_value(p->e, node, &number) || number != floor(number) || fabs(number) > 9e15) {
        (void)gd__parser_fail(p, at, "%s must be a whole number", what);
        return false;
    }
    *value = (int64_t)number;
    return true;
}

/* ---- indexing ---- */

/* start:stop:step, each optional, or one index. */
static bool read_place(gd_expr_parser *p, int64_t place[PLACE_SIZE])
{
    place[PLACE_RANGE] = 0;
    place[PLACE_START] = 0;
    place[PLACE_STOP] = INT64_MAX;
    place[PLACE_STEP] = 1;
    if (gd__parser_peek(p) != ':' && !whole_number(p, "an index", &place[PLACE_START])) return false;
    if (!gd__parser_accept(p, ':')) return true;
    place[PLACE_RANGE] = 1;
    char c = gd__parser_peek(p);
    if (c != ':' && c != ',' && c != ']' && !whole_number(p, "the end of a range", &place[PLACE_STOP]))
        return false;
    if (!gd__parser_accept(p, ':')) return true;
    size_t at = p->at;
    c = gd__parser_peek(p);
    if (c != ',' && c != ']' && !whole_number(p, "the step of a range", &place[PLACE_STEP])) return false;
    if (place[PLACE_STEP] > 0) return true;
    (void)gd__parser_fail(p, at, "the step of a range must be positive");
    return false;
}

/* x[k] for an array k; 0 if the index is of a different form; p is then unchanged. */
static int element_of_each(gd_expr_parser *p, int x, size_t at)
{
    size_t before = p->at;
    double number;
    if (gd__parser_peek(p) == ':') return 0;
    int index = either(p);
    if (index < 0) return -1;
    if (!gd__expr_value(p->e, index, &number) && gd__parser_accept(p, ']'))
        return gd__expr_add(p->e, gd__expr_node(EXPR_GATHER, (int)at), (int[]){x, index}, 2, NULL, 0);
    p->at = before; /* nodes that nothing needs are dropped in the end */
    return 0;
}

static int index_of(gd_expr_parser *p, int x, size_t at)
{
    int64_t places[GD_MAX_DIMS * PLACE_SIZE];
    int count = 0, gathered = element_of_each(p, x, at);
    if (gathered) return gathered;
    do {
        if (count == GD_MAX_DIMS) return gd__parser_fail(p, p->at, "more than %d indices", GD_MAX_DIMS);
        if (!read_place(p, places + count * PLACE_SIZE)) return -1;
        count++;
    } while (gd__parser_accept(p, ','));
    if (!gd__parser_accept(p, ']')) return gd__parser_expected(p, "',' or ']'");
    gd_expr_node node = gd__expr_node(EXPR_INDEX, (int)at);
    return gd__expr_add(p->e, node, &x, 1, places, count * PLACE_SIZE);
}

/* ---- calls ---- */

static bool set_axis(gd_expr_parser *p, gd_expr_arguments *a, int64_t axis)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%lld", (long long)axis);
    a->axis = gd__intern(p->e->ctx, text, (size_t)length);
    return a->axis != NULL;
}

/* `axis=1` or `axis=name`.  1: it was one; 0: it was not; -1: error. */
static int read_axis(gd_expr_parser *p, gd_expr_arguments *a)
{
    size_t begin = p->at, length;
    const char *name;
    (void)gd__parser_peek(p);
    if (p->size - p->at < 4 || memcmp(p->text + p->at, "axis", 4) != 0) return 0;
    if (!gd__parser_name(p, &name, &length) || length != 4 || gd__parser_peek(p) != '=' ||
        gd__parser_after(p) == '=') {
        p->at = begin;
        return gd_error(p->e->ctx) ? -1 : 0;
    }
    if (a->axis) return gd__parser_fail(p, p->at, "axis is given twice");
    p->at++;
    int64_t axis;
    if (gd__parser_name(p, &name, &length)) {
        a->axis = gd__intern(p->e->ctx, name, length);
        return a->axis ? 1 : -1;
    }
    if (gd_error(p->e->ctx)) return -1;
    return whole_number(p, "an axis", &axis) && set_axis(p, a, axis) ? 1 : -1;
}

bool gd__parser_arguments(gd_expr_parser *p, gd_expr_arguments *a)
{
    memset(a, 0, sizeof *a);
    if (gd__parser_accept(p, ')')) return true;
    do {
        int is_axis = read_axis(p, a);
        if (is_axis < 0) return false;
        if (is_axis) continue;
        (void)gd__parser_peek(p);
        if (a->count == GD_EXPR_MAX_CALL)
            return gd__parser_fail(p, p->at, "more than %d arguments", GD_EXPR_MAX_CALL) >= 0;
        a->at[a->count] = p->at;
        if ((a->node[a->count] = gd__parser_expression(p)) < 0) return false;
        a->count++;
    } while (gd__parser_accept(p, ','));
    return gd__parser_accept(p, ')') || gd__parser_expected(p, "',' or ')'") >= 0;
}

/* An argument that must be a whole number. */
static bool argument_number(gd_expr_parser *p, const gd_expr_arguments *a, int k, const char *what,
                            int64_t *value)
{
    double number;
    if (gd__expr_value(p->e, a->node[k], &number) && number == floor(number) && fabs(number) <= 9e15) {
        *value = (int64_t)number;
        return true;
    }
    (void)gd__parser_fail(p, a->at[k], "%s must be a whole number", what);
    return false;
}

static int reshape_node(gd_expr_parser *p, gd_expr_node node, const gd_expr_arguments *a)
{
    int64_t shape[GD_EXPR_MAX_CALL];
    for (int k = 1; k < a->count; k++)
        if (!argument_number(p, a, k, "a size", &shape[k - 1])) return -1;
    node.op = EXPR_RESHAPE;
    return gd__expr_add(p->e, node, a->node, 1, shape, a->count - 1);
}

static int extreme_node(gd_expr_parser *p, const gd_expr_call *call, int at, const gd_expr_arguments *a)
{
    int node = a->node[0];
    for (int k = 1; k < a->count; k++)
        node = gd__expr_function_node(p->e, at, call->binary, node, a->node[k]);
    return node;
}

/* The axis of a reduction may also be its second argument, as in NumPy. */
static int reduce_node(gd_expr_parser *p, const gd_expr_call *call, gd_expr_node node, gd_expr_arguments *a)
{
    int64_t axis;
    if (a->count == 2) {
        if (a->axis) return gd__parser_fail(p, a->at[1], "the axis is given twice");
        if (!argument_number(p, a, 1, "an axis", &axis) || !set_axis(p, a, axis)) return -1;
    }
    node.axis = a->axis;
    if (call->kind == CALL_ALONG) {
        node.op = EXPR_ALONG;
        node.u.along = call->along;
        if (!node.axis) node.axis = gd__intern(p->e->ctx, "-1", 2);
        if (!node.axis) return -1;
    } else {
        node.op = EXPR_REDUCE;
        node.u.reduce = call->reduce;
    }
    return gd__expr_add(p->e, node, a->node, 1, NULL, 0);
}

static gd_tensor *bessel(gd_tensor *x, double order) { return gd_bessel_j(x, (int)order); }

static int norm_node(gd_expr_parser *p, gd_expr_node node, const gd_expr_arguments *a)
{
    node.op = EXPR_NORM;
    node.number = 2;
    node.axis = a->axis;
    if (a->count == 2 && (!gd__expr_value(p->e, a->node[1], &node.number) || !(node.number > 0)))
        return gd__parser_fail(p, a->at[1], "the order of a norm must be a positive number");
    return gd__expr_add(p->e, node, a->node, 1, NULL, 0);
}

static int bessel_node(gd_expr_parser *p, int at, const gd_expr_arguments *a)
{
    int64_t order;
    if (!argument_number(p, a, 0, "the order", &order)) return -1;
    if (order < -1000 || order > 1000)
        return gd__parser_fail(p, a->at[0], "the order is %lld, it may be -1000 to 1000", (long long)order);
    return gd__expr_scalar_node(p->e, at, bessel, a->node[1], (double)order);
}

static int call_node(gd_expr_parser *p, const gd_expr_call *call, int at, gd_expr_arguments *a)
{
    gd_expr_node node = gd__expr_node(EXPR_NUMBER, at);
    switch (call->kind) {
    case CALL_ELEMENT:
        if (call->most == 2)
            return gd__expr_function_node(p->e, at, gd__expr_binary_of(call->op), a->node[0], a->node[1]);
        return gd__expr_unary_node(p->e, at, gd__expr_unary_of(call->op), a->node[0]);
    case CALL_UNARY: return gd__expr_unary_node(p->e, at, call->unary, a->node[0]);
    case CALL_BINARY: return gd__expr_function_node(p->e, at, call->binary, a->node[0], a->node[1]);
    case CALL_EXTREME:
        if (a->count > 1) return extreme_node(p, call, at, a);
        return reduce_node(p, call, node, a);
    case CALL_REDUCE:
    case CALL_ALONG: return reduce_node(p, call, node, a);
    case CALL_NORM: return norm_node(p, node, a);
    case CALL_TRANSPOSE: node.op = EXPR_TRANSPOSE; return gd__expr_add(p->e, node, a->node, 1, NULL, 0);
    case CALL_RESHAPE: return reshape_node(p, node, a);
    case CALL_BESSEL: return bessel_node(p, at, a);
    case CALL_ODE: break; /* read separately */
    case CALL_WHERE: node.op = EXPR_WHERE; return gd__expr_add(p->e, node, a->node, 3, NULL, 0);
    }
    return -1;
}

static bool takes_axis(const gd_expr_call *call, int count)
{
    return call->kind == CALL_REDUCE || call->kind == CALL_ALONG || call->kind == CALL_NORM ||
           (call->kind == CALL_EXTREME && count == 1);
}

static int function_call(gd_expr_parser *p, size_t at, const char *name, size_t length)
{
    const gd_expr_definition *own = gd__parser_find(p, name, length);
    if (own) return gd__parser_own_call(p, at, own);
    const gd_expr_call *call = gd__expr_find_call(name, length);
    if (!call) {
        if (gd__parser_circle(p, at, name, length)) return -1;
        gd_suggest nearest = gd__suggest(name, length);
        for (int i = 0; i < p->visible; i++) gd__suggest_try(&nearest, p->function[i].name);
        char hint[GD_HINT_SIZE];
        gd__expr_suggest_call(&nearest, hint);
        return gd__parser_fail(p, at, "unknown function '%.*s'%s", length > 60 ? 60 : (int)length, name,
                               hint);
    }
    if (call->kind == CALL_ODE) return gd__parser_ode(p, at, length > 3);
    const char *index;
    size_t index_length;
    if (call->over && gd__parser_range_name(p, &index, &index_length))
        return gd__parser_sum_over(p, at, call->over, index, index_length);
    gd_expr_arguments a;
    if (gd_error(p->e->ctx) || !gd__parser_enter(p) || !gd__parser_arguments(p, &a)) return -1;
    p->depth--;
    if (a.count < call->least || a.count > call->most) {
        if (call->least == call->most)
            return gd__parser_fail(p, at, "%s takes %d argument%s, %d given", call->name, call->least,
                                   call->least == 1 ? "" : "s", a.count);
        return gd__parser_fail(p, at, "%s takes %d to %d arguments, %d given", call->name, call->least,
                               call->most, a.count);
    }
    if (a.axis && !takes_axis(call, a.count))
        return gd__parser_fail(p, at, "%s takes no axis%s", call->name,
                               a.count > 1 ? " with several arguments" : "");
    return call_node(p, call, (int)at, &a);
}

/* ---- the levels of precedence, tightest first ---- */

static int list(gd_expr_parser *p, size_t at)
{
    int few[32], *element = few, count = 0, capacity = 32;
    gd_ctx *ctx = p->e->ctx;
    int node = -1;
    if (gd__parser_accept(p, ']')) return gd__parser_fail(p, at, "an empty list");
    do {
        if (count == MAX_LIST) {
            (void)gd__parser_fail(p, p->at, "more than %d parts in a list", MAX_LIST);
            goto done;
        }
        if (count == capacity) {
            int *grown = gd__alloc(ctx, (size_t)capacity * 2 * sizeof *grown);
            if (!grown) goto done;
            memcpy(grown, element, (size_t)capacity * sizeof *element);
            if (element != few) gd__free(ctx, element, (size_t)capacity * sizeof *element);
            element = grown;
            capacity *= 2;
        }
        if ((element[count++] = gd__parser_expression(p)) < 0) goto done;
    } while (gd__parser_accept(p, ','));
    if (!gd__parser_accept(p, ']')) {
        (void)gd__parser_expected(p, "',' or ']'");
        goto done;
    }
    gd_expr_node n;
    memset(&n, 0, sizeof n);
    n.op = EXPR_STACK;
    n.at = (int)at;
    node = gd__expr_add(p->e, n, element, count, NULL, 0);
done:
    if (element != few) gd__free(ctx, element, (size_t)capacity * sizeof *element);
    return node;
}

int gd__parser_primary(gd_expr_parser *p)
{
    char c = gd__parser_peek(p);
    size_t at = p->at, length;
    const char *name;
    if (gd__parser_digit(c) || c == '.') {
        double value = 0;
        size_t used = gd__parse_number(p->text + at, p->size - at, false, &value);
        if (!used) return gd__parser_expected(p, "a number");
        if (!isfinite(value))
            return gd__parser_fail(p, at, "the number %.*s is too large", used < 40 ? (int)used : 40,
                                   p->text + at);
        p->at += used;
        return gd__expr_number(p->e, (int)at, value);
    }
    if (gd__parser_accept(p, '(')) {
        int node = gd__parser_expression(p);
        if (node < 0) return -1;
        return gd__parser_accept(p, ')') ? node : gd__parser_expected(p, "')'");
    }
    if (gd__parser_accept(p, '[')) return list(p, at);
    if (gd__parser_name(p, &name, &length)) {
        if (c != '`' && gd__parser_accept(p, '(')) return function_call(p, at, name, length);
        return gd__parser_resolve(p, at, name, length);
    }
    return gd_error(p->e->ctx) ? -1 : gd__parser_expected(p, "a number, a name or '('");
}

static int postfix(gd_expr_parser *p)
{
    int node = gd__parser_primary(p);
    while (node >= 0 && gd__parser_peek(p) == '[') {
        size_t at = p->at++;
        node = index_of(p, node, at);
    }
    return node;
}

static int unary(gd_expr_parser *p);

/* x ^ y: y may have a sign and is itself a power. */
static int power(gd_expr_parser *p)
{
    int node = postfix(p);
    if (node < 0 || gd__parser_peek(p) != '^') return node;
    size_t at = p->at++;
    int exponent = unary(p);
    return gd__expr_binary_node(p->e, (int)at, '^', node, exponent);
}

static int unary(gd_expr_parser *p)
{
    char c = gd__parser_peek(p);
    size_t at = p->at;
    if (!gd__parser_enter(p)) return -1;
    int node;
    if (c == '-' || c == '+' || (c == '!' && gd__parser_after(p) != '=')) {
        p->at++;
        node = unary(p);
        if (node >= 0 && c == '-') node = gd__expr_unary_node(p->e, (int)at, gd_neg, node);
        if (node >= 0 && c == '!') node = gd__expr_unary_node(p->e, (int)at, gd_logical_not, node);
    } else {
        node = power(p);
    }
    p->depth--;
    return node;
}

static int product(gd_expr_parser *p)
{
    int node = unary(p);
    for (char c; node >= 0 && ((c = gd__parser_peek(p)) == '*' || c == '/' || c == '%' || c == '@');) {
        size_t at = p->at++;
        if (c == '*' && p->at < p->size && p->text[p->at] == '*')
            return gd__parser_fail(p, at, "'**' is not known, a power is '^'");
        node = gd__expr_binary_node(p->e, (int)at, c, node, unary(p));
    }
    return node;
}

int gd__parser_sum(gd_expr_parser *p)
{
    int node = product(p);
    for (char c; node >= 0 && ((c = gd__parser_peek(p)) == '+' || c == '-');) {
        size_t at = p->at++;
        node = gd__expr_binary_node(p->e, (int)at, c, node, product(p));
    }
    return node;
}

/* The comparison at the current place as one letter, 0 if there is none. */
static char comparison_sign(gd_expr_parser *p)
{
    char c = gd__parser_peek(p);
    bool equal = gd__parser_after(p) == '=';
    if (c == '<' || c == '>') {
        p->at += equal ? 2 : 1;
        return !equal ? c : c == '<' ? 'l' : 'g';
    }
    if ((c != '=' && c != '!') || !equal) return 0;
    p->at += 2;
    return c;
}

static int comparison(gd_expr_parser *p)
{
    int node = gd__parser_sum(p);
    (void)gd__parser_peek(p);
    size_t at = p->at;
    char sign = node >= 0 ? comparison_sign(p) : 0;
    if (sign) {
        node = gd__expr_binary_node(p->e, (int)at, sign, node, gd__parser_sum(p));
        (void)gd__parser_peek(p);
        at = p->at;
        if (node >= 0 && comparison_sign(p))
            return gd__parser_fail(p, at, "comparisons do not chain; write a < b && b < c");
    }
    return node;
}

/* a && b && ..., a || b || ... */
static int joined_by(gd_expr_parser *p, char sign, int (*tighter)(gd_expr_parser *))
{
    int node = tighter(p);
    while (node >= 0 && gd__parser_peek(p) == sign) {
        size_t at = p->at++;
        if (p->at >= p->size || p->text[p->at] != sign)
            return gd__parser_fail(p, at, "'%c' is not known, write '%c%c'", sign, sign, sign);
        p->at++;
        node = gd__expr_binary_node(p->e, (int)at, sign, node, tighter(p));
    }
    return node;
}

static int both(gd_expr_parser *p) { return joined_by(p, '&', comparison); }
static int either(gd_expr_parser *p) { return joined_by(p, '|', both); }

/* condition ? a : b, to the right; a condition that is known chooses now. */
int gd__parser_expression(gd_expr_parser *p)
{
    if (!gd__parser_enter(p)) return -1;
    int condition = either(p);
    if (condition < 0 || gd__parser_peek(p) != '?') {
        p->depth--;
        return condition;
    }
    size_t at = p->at++;
    int a = gd__parser_expression(p);
    if (a < 0) return -1;
    if (!gd__parser_accept(p, ':')) return gd__parser_expected(p, "':'");
    int b = gd__parser_expression(p);
    if (b < 0) return -1;
    p->depth--;
    double known;
    if (gd__expr_value(p->e, condition, &known)) return known != 0 ? a : b;
    gd_expr_node node = gd__expr_node(EXPR_WHERE, (int)at);
    return gd__expr_add(p->e, node, (int[]){condition, a, b}, 3, NULL, 0);
}
