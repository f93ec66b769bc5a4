/* Reading an expression: recursive descent, one function a level of precedence; see expr.h for the language. */
#include "cli/expr/expr_program.h"
#include "base/number.h"
#include "base/suggest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_LIST   1024  /* parts of a list literal */
#define MAX_CALL   16    /* arguments of a call; each function says its own limit */
#define MAX_COPIES 20000 /* bodies of sums and of functions of one's own that are read in all */

typedef struct binding {
    const char *name;
    size_t length;
    int node;
} binding;

/* name(argument, ...) = body; the body is read anew at every call. */
typedef struct function {
    const char *name; /* interned */
    const char *argument[MAX_CALL];
    size_t argument_length[MAX_CALL];
    int arguments;
    size_t begin, end; /* of the body in the text */
    int bindings;      /* that there were before it */
} function;

typedef struct parser {
    gd_expr *e;
    const char *text;
    size_t at, size;
    int depth;
    bool open; /* unknown names become variables */
    binding *binding;
    int bindings;
    size_t binding_bytes;
    int hidden_from, hidden_to; /* bindings that a body does not see: those of its caller */
    function *function;
    int functions, visible; /* a body sees the functions before its own */
    size_t function_bytes;
    int copies;
} parser;

static int expression(parser *p);
static int either(parser *p);
static int primary(parser *p);

/* ---- errors ---- */

static int GD_PRINTF(3, 4) fail_at(parser *p, size_t at, const char *format, ...)
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

/* "'+'", or "the end": what stands at the current place. */
static const char *found(const parser *p, char buf[32])
{
    if (p->at >= p->size) return "the end";
    unsigned char c = (unsigned char)p->text[p->at];
    if (c < 0x20 || c >= 0x7F)
        (void)snprintf(buf, 32, "the byte 0x%02X", c);
    else
        (void)snprintf(buf, 32, "'%c'", c);
    return buf;
}

static int expected(parser *p, const char *what)
{
    char buf[32];
    return fail_at(p, p->at, "%s expected, %s found", what, found(p, buf));
}

/* ---- letters ---- */

static void skip_space(parser *p)
{
    for (bool comment = false; p->at < p->size; p->at++) {
        char c = p->text[p->at];
        comment = c == '#' || (comment && c != '\n'); /* to the end of its line */
        if (!comment && c != ' ' && c != '\t' && c != '\r' && c != '\n') break;
    }
}

static char peek(parser *p)
{
    skip_space(p);
    return p->at < p->size ? p->text[p->at] : 0;
}

static char after(const parser *p) { return p->at + 1 < p->size ? p->text[p->at + 1] : 0; }

static bool accept(parser *p, char c)
{
    if (peek(p) != c) return false;
    p->at++;
    return true;
}

static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool digit(char c) { return c >= '0' && c <= '9'; }

/* The name at the current place; *name points into the text.  False where there is none, or with an error. */
static bool read_name(parser *p, const char **name, size_t *length)
{
    char c = peek(p);
    size_t begin = p->at;
    if (c == '`') {
        const char *end = memchr(p->text + begin + 1, '`', p->size - begin - 1);
        if (!end || end == p->text + begin + 1) {
            (void)fail_at(p, begin, end ? "an empty name" : "no closing '`'");
            return false;
        }
        *name = p->text + begin + 1;
        *length = (size_t)(end - *name);
        p->at = begin + *length + 2;
        return true;
    }
    if (!letter(c)) return false;
    while (p->at < p->size && (letter(p->text[p->at]) || digit(p->text[p->at]))) p->at++;
    *name = p->text + begin;
    *length = p->at - begin;
    return true;
}

static bool same(const char *a, size_t length, const char *b)
{
    return strlen(b) == length && !memcmp(a, b, length);
}

/* ---- names ---- */

static int find_variable(const gd_expr *e, const char *name, size_t length)
{
    for (int i = 0; i < e->variables; i++)
        if (same(name, length, e->name[i])) return i;
    return -1;
}

static const struct {
    const char *name;
    double value;
} constants[] = {{"pi", 3.14159265358979323846}, {"e", 2.71828182845904523536}, {"inf", INFINITY}};

static int unknown_name(parser *p, size_t at, const char *name, size_t length)
{
    int shown = length > 60 ? 60 : (int)length;
    if (gd__expr_find_call(name, length))
        return fail_at(p, at, "'%.*s' is a function: '(' expected after it", shown, name);
    gd_suggest nearest = gd__suggest(name, length);
    for (int i = 0; i < p->e->variables; i++) gd__suggest_try(&nearest, p->e->name[i]);
    char hint[GD_HINT_SIZE];
    return fail_at(p, at, "unknown name '%.*s'%s", shown, name, gd__suggest_hint(&nearest, hint));
}

/* Bindings first, the latest of a name; then variables; then constants. */
static int resolve(parser *p, size_t at, const char *name, size_t length)
{
    for (int i = p->bindings; i-- > 0;)
        if ((i < p->hidden_from || i >= p->hidden_to) && p->binding[i].length == length &&
            !memcmp(p->binding[i].name, name, length))
            return p->binding[i].node;
    int variable = find_variable(p->e, name, length);
    for (size_t i = 0; i < sizeof constants / sizeof *constants && variable < 0; i++)
        if (same(name, length, constants[i].name)) return gd__expr_number(p->e, (int)at, constants[i].value);
    if (variable < 0 && !p->open) return unknown_name(p, at, name, length);
    if (variable < 0) variable = gd__expr_add_variable(p->e, name, length);
    return variable < 0 ? -1 : gd__expr_variable_node(p->e, (int)at, variable);
}

/* ---- depth ---- */

static bool enter(parser *p)
{
    if (++p->depth <= GD_EXPR_MAX_DEPTH) return true;
    (void)fail_at(p, p->at, "nested too deep");
    return false;
}

/* ---- whole numbers: indices, axes, shapes ---- */

/* The whole number that an expression folds to. */
static bool whole_number(parser *p, const char *what, int64_t *value)
{
    (void)peek(p);
    size_t at = p->at;
    double number;
    int node = either(p); /* a ':' after it belongs to a range */
    if (node < 0) return false;
    if (!gd__expr_value(p->e, node, &number) || number != floor(number) || fabs(number) > 9e15) {
        (void)fail_at(p, at, "%s must be a whole number", what);
        return false;
    }
    *value = (int64_t)number;
    return true;
}

/* ---- indexing ---- */

/* start:stop:step, each optional, or one index. */
static bool read_place(parser *p, int64_t place[PLACE_SIZE])
{
    place[PLACE_RANGE] = 0;
    place[PLACE_START] = 0;
    place[PLACE_STOP] = INT64_MAX;
    place[PLACE_STEP] = 1;
    if (peek(p) != ':' && !whole_number(p, "an index", &place[PLACE_START])) return false;
    if (!accept(p, ':')) return true;
    place[PLACE_RANGE] = 1;
    char c = peek(p);
    if (c != ':' && c != ',' && c != ']' && !whole_number(p, "the end of a range", &place[PLACE_STOP]))
        return false;
    if (!accept(p, ':')) return true;
    size_t at = p->at;
    c = peek(p);
    if (c != ',' && c != ']' && !whole_number(p, "the step of a range", &place[PLACE_STEP])) return false;
    if (place[PLACE_STEP] > 0) return true;
    (void)fail_at(p, at, "the step of a range must be positive");
    return false;
}

/* x[k] for an array k; 0 where the index is another, and p is as it was. */
static int element_of_each(parser *p, int x, size_t at)
{
    size_t before = p->at;
    double number;
    if (peek(p) == ':') return 0;
    int index = either(p);
    if (index < 0) return -1;
    if (!gd__expr_value(p->e, index, &number) && accept(p, ']'))
        return gd__expr_add(p->e, gd__expr_node(EXPR_GATHER, (int)at), (int[]){x, index}, 2, NULL, 0);
    p->at = before; /* nodes that nothing needs are dropped in the end */
    return 0;
}

static int index_of(parser *p, int x, size_t at)
{
    int64_t places[GD_MAX_DIMS * PLACE_SIZE];
    int count = 0, gathered = element_of_each(p, x, at);
    if (gathered) return gathered;
    do {
        if (count == GD_MAX_DIMS) return fail_at(p, p->at, "more than %d indices", GD_MAX_DIMS);
        if (!read_place(p, places + count * PLACE_SIZE)) return -1;
        count++;
    } while (accept(p, ','));
    if (!accept(p, ']')) return expected(p, "',' or ']'");
    gd_expr_node node = gd__expr_node(EXPR_INDEX, (int)at);
    return gd__expr_add(p->e, node, &x, 1, places, count * PLACE_SIZE);
}

/* ---- calls ---- */

typedef struct arguments {
    int node[MAX_CALL];
    size_t at[MAX_CALL];
    int count;
    const char *axis; /* interned; NULL: not given */
} arguments;

static bool set_axis(parser *p, arguments *a, int64_t axis)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%lld", (long long)axis);
    a->axis = gd__intern(p->e->ctx, text, (size_t)length);
    return a->axis != NULL;
}

/* `axis=1` or `axis=name`.  1: it was one; 0: it was not; -1: error. */
static int read_axis(parser *p, arguments *a)
{
    size_t begin = p->at, length;
    const char *name;
    (void)peek(p);
    if (p->size - p->at < 4 || memcmp(p->text + p->at, "axis", 4) != 0) return 0;
    if (!read_name(p, &name, &length) || length != 4 || peek(p) != '=' || after(p) == '=') {
        p->at = begin;
        return gd_error(p->e->ctx) ? -1 : 0;
    }
    if (a->axis) return fail_at(p, p->at, "axis is given twice");
    p->at++;
    int64_t axis;
    if (letter(peek(p))) {
        if (!read_name(p, &name, &length)) return -1;
        a->axis = gd__intern(p->e->ctx, name, length);
        return a->axis ? 1 : -1;
    }
    return whole_number(p, "an axis", &axis) && set_axis(p, a, axis) ? 1 : -1;
}

static bool read_arguments(parser *p, arguments *a)
{
    memset(a, 0, sizeof *a);
    if (accept(p, ')')) return true;
    do {
        int is_axis = read_axis(p, a);
        if (is_axis < 0) return false;
        if (is_axis) continue;
        (void)peek(p);
        if (a->count == MAX_CALL) return fail_at(p, p->at, "more than %d arguments", MAX_CALL) >= 0;
        a->at[a->count] = p->at;
        if ((a->node[a->count] = expression(p)) < 0) return false;
        a->count++;
    } while (accept(p, ','));
    return accept(p, ')') || expected(p, "',' or ')'") >= 0;
}

/* An argument that must be a whole number. */
static bool argument_number(parser *p, const arguments *a, int k, const char *what, int64_t *value)
{
    double number;
    if (gd__expr_value(p->e, a->node[k], &number) && number == floor(number) && fabs(number) <= 9e15) {
        *value = (int64_t)number;
        return true;
    }
    (void)fail_at(p, a->at[k], "%s must be a whole number", what);
    return false;
}

static int reshape_node(parser *p, gd_expr_node node, const arguments *a)
{
    int64_t shape[MAX_CALL];
    for (int k = 1; k < a->count; k++)
        if (!argument_number(p, a, k, "a size", &shape[k - 1])) return -1;
    node.op = EXPR_RESHAPE;
    return gd__expr_add(p->e, node, a->node, 1, shape, a->count - 1);
}

static int extreme_node(parser *p, const gd_expr_call *call, int at, const arguments *a)
{
    int node = a->node[0];
    for (int k = 1; k < a->count; k++)
        node = gd__expr_function_node(p->e, at, call->binary, node, a->node[k]);
    return node;
}

/* The axis of a reduction may also be its second argument, as in NumPy. */
static int reduce_node(parser *p, const gd_expr_call *call, gd_expr_node node, arguments *a)
{
    int64_t axis;
    if (a->count == 2) {
        if (a->axis) return fail_at(p, a->at[1], "the axis is given twice");
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

static int norm_node(parser *p, gd_expr_node node, const arguments *a)
{
    node.op = EXPR_NORM;
    node.number = 2;
    node.axis = a->axis;
    if (a->count == 2 && (!gd__expr_value(p->e, a->node[1], &node.number) || !(node.number > 0)))
        return fail_at(p, a->at[1], "the order of a norm must be a positive number");
    return gd__expr_add(p->e, node, a->node, 1, NULL, 0);
}

static int bessel_node(parser *p, int at, const arguments *a)
{
    int64_t order;
    if (!argument_number(p, a, 0, "the order", &order)) return -1;
    if (order < -1000 || order > 1000)
        return fail_at(p, a->at[0], "the order is %lld, it may be -1000 to 1000", (long long)order);
    return gd__expr_scalar_node(p->e, at, bessel, a->node[1], (double)order);
}

static int call_node(parser *p, const gd_expr_call *call, int at, arguments *a)
{
    gd_expr_node node = gd__expr_node(EXPR_NUMBER, at);
    switch (call->kind) {
    case CALL_UNARY: return gd__expr_unary_node(p->e, at, call->unary, call->fold, a->node[0]);
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
    case CALL_ODE: break; /* read in another way */
    case CALL_WHERE: node.op = EXPR_WHERE; return gd__expr_add(p->e, node, a->node, 3, NULL, 0);
    }
    return -1;
}

static bool takes_axis(const gd_expr_call *call, int count)
{
    return call->kind == CALL_REDUCE || call->kind == CALL_ALONG || call->kind == CALL_NORM ||
           (call->kind == CALL_EXTREME && count == 1);
}

/* ---- bodies that are read more than once ---- */

static bool add_binding(parser *p, const char *name, size_t length, int node);

static bool count_copy(parser *p, size_t at)
{
    if (++p->copies <= MAX_COPIES) return true;
    return fail_at(p, at, "sums and functions of one's own stand for more than %d terms", MAX_COPIES) >= 0;
}

/* An end of a range a..b: digits, a name or what stands in parentheses; "1..5" must not be read as 1. and .5 */
static bool range_end(parser *p, int64_t *value)
{
    bool negative = accept(p, '-');
    char c = peek(p);
    size_t at = p->at;
    double number = 0;
    if (digit(c)) {
        for (; p->at < p->size && digit(p->text[p->at]); p->at++)
            number = 10 * number + (p->text[p->at] - '0');
    } else {
        int node = primary(p);
        if (node < 0) return false;
        if (!gd__expr_value(p->e, node, &number)) number = NAN;
    }
    if (number != floor(number) || !(fabs(number) <= 1e9))
        return fail_at(p, at, "an end of a range must be a whole number") >= 0;
    *value = (int64_t)(negative ? -number : number);
    return true;
}

/* `k = ` of sum(k = 1..5, a[k] * x^k), not `axis =`. */
static bool range_name(parser *p, const char **name, size_t *length)
{
    size_t begin = p->at;
    if (read_name(p, name, length) && !same(*name, *length, "axis") && accept(p, '=') && peek(p) != '=')
        return true;
    p->at = begin;
    return false;
}

/* The body once for every k; p stands before it, and after it in the end. */
static int body_over(parser *p, size_t at, char op, binding k, int64_t first, int64_t last)
{
    size_t body = p->at;
    int sum = gd__expr_number(p->e, (int)at, op == '*');
    int64_t i = first;
    do { /* an empty range is read once, too: what stands after it must be found */
        p->at = body;
        k.node = gd__expr_number(p->e, (int)at, (double)i);
        if (k.node < 0 || !count_copy(p, at) || !add_binding(p, k.name, k.length, k.node)) return -1;
        int term = expression(p);
        p->bindings--;
        if (term < 0) return -1;
        if (i <= last) sum = i == first ? term : gd__expr_binary_node(p->e, (int)at, op, sum, term);
    } while (sum >= 0 && i++ < last);
    return sum;
}

static int sum_over(parser *p, size_t at, char op, const char *name, size_t length)
{
    int64_t first, last;
    if (!range_end(p, &first)) return -1;
    if (!accept(p, '.') || !accept(p, '.')) return expected(p, "'..'");
    if (!range_end(p, &last)) return -1;
    if (!accept(p, ',')) return expected(p, "','");
    if (!enter(p)) return -1;
    int node = body_over(p, at, op, (binding){name, length, -1}, first, last);
    p->depth--;
    return node < 0 || accept(p, ')') ? node : expected(p, "')'");
}

static const function *find_function(const parser *p, const char *name, size_t length)
{
    for (int i = p->visible; i-- > 0;)
        if (same(name, length, p->function[i].name)) return &p->function[i];
    return NULL;
}

/* The body of f with nodes for its arguments. */
static int expand(parser *p, size_t at, const function *f, const int *node)
{
    parser caller = *p;
    for (int i = 0; i < f->arguments; i++)
        if (!add_binding(p, f->argument[i], f->argument_length[i], node[i])) return -1;
    p->hidden_from = f->bindings;
    p->hidden_to = caller.bindings;
    p->visible = (int)(f - p->function);
    p->at = f->begin;
    p->size = f->end;
    int value = count_copy(p, at) && enter(p) ? expression(p) : -1;
    if (value >= 0 && peek(p)) value = expected(p, "an operator or ';'");
    p->at = caller.at;
    p->size = caller.size;
    p->depth = caller.depth;
    p->bindings = caller.bindings;
    p->hidden_from = caller.hidden_from;
    p->hidden_to = caller.hidden_to;
    p->visible = caller.visible;
    return value;
}

static int own_call(parser *p, size_t at, const function *f)
{
    arguments a;
    if (!enter(p) || !read_arguments(p, &a)) return -1;
    p->depth--;
    if (a.axis) return fail_at(p, at, "%.60s takes no axis", f->name);
    if (a.count != f->arguments)
        return fail_at(p, at, "%.60s takes %d argument%s, %d given", f->name, f->arguments,
                       f->arguments == 1 ? "" : "s", a.count);
    return expand(p, at, f, a.node);
}

/* ---- differential equations ---- */

/* The text between quotes that comes next; its length, or -1. */
static int read_text(parser *p, const char **text)
{
    if (!accept(p, '"')) return expected(p, "equations between \"quotes\"");
    const char *begin = p->text + p->at, *end = memchr(begin, '"', p->size - p->at);
    if (!end) return fail_at(p, p->at - 1, "a quote is never closed");
    *text = begin;
    p->at += (size_t)(end - begin) + 1;
    return (int)(end - begin);
}

/* Its error told at a place of ours. */
static int told_at(parser *p, size_t at)
{
    gd_ctx *ctx = p->e->ctx;
    char text[400];
    if (gd_error(ctx) == GD_NOMEM) return -1;
    (void)snprintf(text, sizeof text, "%s", gd_error_text(ctx));
    gd_clear_error(ctx);
    return fail_at(p, at, "ode: %s", text);
}

static gd_expr_ode *read_equations(parser *p, const char *text, int length, bool stiff)
{
    gd_expr *e = p->e;
    char *definitions = gd__alloc(e->ctx, e->own + 1);
    if (!definitions) return NULL;
    memcpy(definitions, e->text, e->own);
    definitions[e->own] = 0;
    gd_expr_ode *o = gd__expr_ode_parse(e->ctx, definitions, text, (size_t)length, stiff);
    gd__free(e->ctx, definitions, e->own + 1);
    if (o && gd__expr_room(e, &e->ode, &e->ode_bytes, e->odes, 1, sizeof *e->ode))
        return e->ode[e->odes++] = o;
    gd__expr_ode_free(o);
    return NULL;
}

/* ode("x' = -k*x", x0, t) or ode("x' = -k*x", x0, t, t0) */
static int ode_call(parser *p, size_t at, bool stiff)
{
    int node[3 + MAX_CALL], count = 3;
    arguments a;
    int64_t which = p->e->odes;
    (void)peek(p);
    size_t inside = p->at;
    const char *text = NULL;
    int length = read_text(p, &text);
    if (length < 0) return -1;
    const gd_expr_ode *o = read_equations(p, text, length, stiff);
    if (!o) return told_at(p, inside);
    if (!accept(p, ',')) return expected(p, "',' and the start values");
    if (!enter(p) || !read_arguments(p, &a)) return -1;
    p->depth--;
    if (a.axis || a.count < 2 || a.count > 3)
        return fail_at(p, at, "ode takes equations, start values, times and perhaps the time of the start");
    if (gd__expr_ode_names(o) > MAX_CALL) return fail_at(p, inside, "ode: more than %d names", MAX_CALL);
    for (int i = 0; i < 2; i++) node[i] = a.node[i];
    node[2] = a.count > 2 ? a.node[2] : gd__expr_number(p->e, (int)at, 0);
    for (int i = 0; i < gd__expr_ode_names(o); i++) {
        const char *name = gd__expr_ode_name(o, i);
        node[count] = resolve(p, inside, name, strlen(name));
        if (node[count++] < 0) return -1;
    }
    return gd__expr_add(p->e, gd__expr_node(EXPR_ODE, (int)at), node, count, &which, 1);
}

static int function_call(parser *p, size_t at, const char *name, size_t length)
{
    const function *own = find_function(p, name, length);
    if (own) return own_call(p, at, own);
    const gd_expr_call *call = gd__expr_find_call(name, length);
    if (!call) {
        gd_suggest nearest = gd__suggest(name, length);
        for (int i = 0; i < p->visible; i++) gd__suggest_try(&nearest, p->function[i].name);
        char hint[GD_HINT_SIZE];
        gd__expr_suggest_call(&nearest, hint);
        return fail_at(p, at, "unknown function '%.*s'%s", length > 60 ? 60 : (int)length, name, hint);
    }
    if (call->kind == CALL_ODE) return ode_call(p, at, length > 3);
    const char *index;
    size_t index_length;
    if (call->over && range_name(p, &index, &index_length))
        return sum_over(p, at, call->over, index, index_length);
    arguments a;
    if (gd_error(p->e->ctx) || !enter(p) || !read_arguments(p, &a)) return -1;
    p->depth--;
    if (a.count < call->least || a.count > call->most) {
        if (call->least == call->most)
            return fail_at(p, at, "%s takes %d argument%s, %d given", call->name, call->least,
                           call->least == 1 ? "" : "s", a.count);
        return fail_at(p, at, "%s takes %d to %d arguments, %d given", call->name, call->least, call->most,
                       a.count);
    }
    if (a.axis && !takes_axis(call, a.count))
        return fail_at(p, at, "%s takes no axis%s", call->name, a.count > 1 ? " with several arguments" : "");
    return call_node(p, call, (int)at, &a);
}

/* ---- the levels of precedence, tightest first ---- */

static int list(parser *p, size_t at)
{
    int few[32], *element = few, count = 0, capacity = 32;
    gd_ctx *ctx = p->e->ctx;
    int node = -1;
    if (accept(p, ']')) return fail_at(p, at, "an empty list");
    do {
        if (count == MAX_LIST) {
            (void)fail_at(p, p->at, "more than %d parts in a list", MAX_LIST);
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
        if ((element[count++] = expression(p)) < 0) goto done;
    } while (accept(p, ','));
    if (!accept(p, ']')) {
        (void)expected(p, "',' or ']'");
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

static int primary(parser *p)
{
    char c = peek(p);
    size_t at = p->at, length;
    const char *name;
    if (digit(c) || c == '.') {
        double value = 0;
        size_t used = gd__parse_number(p->text + at, p->size - at, false, &value);
        if (!used) return expected(p, "a number");
        p->at += used;
        return gd__expr_number(p->e, (int)at, value);
    }
    if (accept(p, '(')) {
        int node = expression(p);
        if (node < 0) return -1;
        return accept(p, ')') ? node : expected(p, "')'");
    }
    if (accept(p, '[')) return list(p, at);
    if (read_name(p, &name, &length)) {
        if (c != '`' && accept(p, '(')) return function_call(p, at, name, length);
        return resolve(p, at, name, length);
    }
    return gd_error(p->e->ctx) ? -1 : expected(p, "a number, a name or '('");
}

static int postfix(parser *p)
{
    int node = primary(p);
    while (node >= 0 && peek(p) == '[') {
        size_t at = p->at++;
        node = index_of(p, node, at);
    }
    return node;
}

static double negative(double x) { return -x; }
static double is_zero(double x) { return x == 0; }

static int unary(parser *p);

/* x ^ y: y may have a sign and is itself a power. */
static int power(parser *p)
{
    int node = postfix(p);
    if (node < 0 || peek(p) != '^') return node;
    size_t at = p->at++;
    int exponent = unary(p);
    return gd__expr_binary_node(p->e, (int)at, '^', node, exponent);
}

static int unary(parser *p)
{
    char c = peek(p);
    size_t at = p->at;
    if (!enter(p)) return -1;
    int node;
    if (c == '-' || c == '+' || (c == '!' && after(p) != '=')) {
        p->at++;
        node = unary(p);
        if (node >= 0 && c == '-') node = gd__expr_unary_node(p->e, (int)at, gd_neg, negative, node);
        if (node >= 0 && c == '!') node = gd__expr_unary_node(p->e, (int)at, gd_logical_not, is_zero, node);
    } else {
        node = power(p);
    }
    p->depth--;
    return node;
}

static int product(parser *p)
{
    int node = unary(p);
    for (char c; node >= 0 && ((c = peek(p)) == '*' || c == '/' || c == '%' || c == '@');) {
        size_t at = p->at++;
        if (c == '*' && p->at < p->size && p->text[p->at] == '*')
            return fail_at(p, at, "'**' is not known, a power is '^'");
        node = gd__expr_binary_node(p->e, (int)at, c, node, unary(p));
    }
    return node;
}

static int sum(parser *p)
{
    int node = product(p);
    for (char c; node >= 0 && ((c = peek(p)) == '+' || c == '-');) {
        size_t at = p->at++;
        node = gd__expr_binary_node(p->e, (int)at, c, node, product(p));
    }
    return node;
}

/* The comparison at the current place as one letter, 0 if there is none. */
static char comparison_sign(parser *p)
{
    char c = peek(p);
    bool equal = after(p) == '=';
    if (c == '<' || c == '>') {
        p->at += equal ? 2 : 1;
        return !equal ? c : c == '<' ? 'l' : 'g';
    }
    if ((c != '=' && c != '!') || !equal) return 0;
    p->at += 2;
    return c;
}

static int comparison(parser *p)
{
    int node = sum(p);
    (void)peek(p);
    size_t at = p->at;
    char sign = node >= 0 ? comparison_sign(p) : 0;
    if (sign) {
        node = gd__expr_binary_node(p->e, (int)at, sign, node, sum(p));
        (void)peek(p);
        at = p->at;
        if (node >= 0 && comparison_sign(p))
            return fail_at(p, at, "comparisons do not chain; write a < b && b < c");
    }
    return node;
}

/* a && b && ..., a || b || ... */
static int joined_by(parser *p, char sign, int (*tighter)(parser *))
{
    int node = tighter(p);
    while (node >= 0 && peek(p) == sign) {
        size_t at = p->at++;
        if (p->at >= p->size || p->text[p->at] != sign)
            return fail_at(p, at, "'%c' is not known, write '%c%c'", sign, sign, sign);
        p->at++;
        node = gd__expr_binary_node(p->e, (int)at, sign, node, tighter(p));
    }
    return node;
}

static int both(parser *p) { return joined_by(p, '&', comparison); }
static int either(parser *p) { return joined_by(p, '|', both); }

/* condition ? a : b, to the right; a condition that is known chooses now. */
static int expression(parser *p)
{
    if (!enter(p)) return -1;
    int condition = either(p);
    if (condition < 0 || peek(p) != '?') {
        p->depth--;
        return condition;
    }
    size_t at = p->at++;
    int a = expression(p);
    if (a < 0) return -1;
    if (!accept(p, ':')) return expected(p, "':'");
    int b = expression(p);
    if (b < 0) return -1;
    p->depth--;
    double known;
    if (gd__expr_value(p->e, condition, &known)) return known != 0 ? a : b;
    gd_expr_node node = gd__expr_node(EXPR_WHERE, (int)at);
    return gd__expr_add(p->e, node, (int[]){condition, a, b}, 3, NULL, 0);
}

/* ---- statements ---- */

static bool add_binding(parser *p, const char *name, size_t length, int node)
{
    if (!gd__expr_room(p->e, &p->binding, &p->binding_bytes, p->bindings, 1, sizeof *p->binding))
        return false;
    p->binding[p->bindings++] = (binding){name, length, node};
    return true;
}

/* `name =` at the current place, but not `name ==`. */
static bool binding_name(parser *p, const char **name, size_t *length)
{
    size_t begin = p->at;
    if (read_name(p, name, length) && peek(p) == '=' && after(p) != '=') {
        p->at++;
        return true;
    }
    p->at = begin;
    return false;
}

/* `name(a, b) =` at the current place, but not `f(x) == y`: a function of one's own begins. */
static bool definition_head(parser *p, function *f)
{
    size_t begin = p->at, length;
    const char *name;
    memset(f, 0, sizeof *f);
    bool is = read_name(p, &name, &length) && accept(p, '(');
    do {
        is = is && f->arguments < MAX_CALL &&
             read_name(p, &f->argument[f->arguments], &f->argument_length[f->arguments]);
        f->arguments++;
    } while (is && accept(p, ','));
    if (is && accept(p, ')') && peek(p) == '=' && after(p) != '=') {
        p->at++;
        f->name = gd__intern(p->e->ctx, name, length);
        return true;
    }
    p->at = begin;
    return false;
}

/* Where the ';' after the current place is, or the end. */
static size_t body_end(const parser *p)
{
    char inside = 0; /* of a name in backquotes or of a comment */
    size_t at = p->at;
    for (; at < p->size; at++) {
        char c = p->text[at];
        if (inside ? c == inside : c == '`' || c == '#')
            inside = inside ? 0 : c == '#' ? '\n' : c;
        else if (!inside && c == ';')
            break;
    }
    return at;
}

/* A body is read once where it stands, so that what is wrong in it is said even if nobody calls it. */
static bool try_body(parser *p, size_t at, const function *f)
{
    int node[MAX_CALL];
    if (p->open) return true; /* unknown names are variables of the caller's */
    for (int i = 0; i < f->arguments; i++) node[i] = gd__expr_number(p->e, (int)at, 1);
    return expand(p, at, f, node) >= 0;
}

static bool define(parser *p, size_t at, function f)
{
    f.begin = p->at;
    f.end = p->at = body_end(p);
    f.bindings = p->bindings;
    if (!f.name) return false;
    if (gd__expr_find_call(f.name, strlen(f.name)))
        return fail_at(p, at, "'%.60s' is a function of the language", f.name) >= 0;
    if (!gd__expr_room(p->e, &p->function, &p->function_bytes, p->functions, 1, sizeof f)) return false;
    p->function[p->functions++] = f;
    p->visible = p->functions;
    return try_body(p, at, &p->function[p->functions - 1]);
}

/* What a file of definitions has: functions and bindings, with ';' between them. */
static bool definitions(parser *p)
{
    while (peek(p)) {
        size_t at = p->at, length;
        const char *name;
        function f;
        if (definition_head(p, &f)) {
            if (!define(p, at, f)) return false;
        } else if (binding_name(p, &name, &length)) {
            int node = expression(p);
            if (node < 0 || !add_binding(p, name, length, node)) return false;
        } else {
            return gd_error(p->e->ctx) ? false : expected(p, "'name =' or 'name(x, ...) ='") >= 0;
        }
        if (!accept(p, ';') && peek(p)) return expected(p, "an operator or ';'") >= 0;
    }
    return true;
}

static int statements(parser *p)
{
    for (;;) {
        (void)peek(p);
        function f;
        size_t at = p->at;
        if (definition_head(p, &f)) {
            if (!define(p, at, f)) return -1;
            if (!accept(p, ';') || !peek(p))
                return fail_at(p, p->at, "the value is missing: only definitions");
            continue;
        }
        const char *name;
        size_t length;
        bool binds = binding_name(p, &name, &length);
        if (gd_error(p->e->ctx)) return -1;
        int node = expression(p);
        if (node < 0) return -1;
        if (binds) {
            if (!accept(p, ';')) return expected(p, peek(p) ? "an operator or ';'" : "';' and the value");
            if (!add_binding(p, name, length, node)) return -1;
            if (peek(p) == 0 && p->at >= p->size)
                return fail_at(p, p->at, "the value is missing: only bindings");
            continue;
        }
        bool more = accept(p, ';');
        (void)peek(p);
        if (p->at >= p->size) return node;
        if (more) return fail_at(p, p->at, "only the last expression may have no name");
        if (p->text[p->at] == '=')
            return fail_at(p, p->at, "only a name can be bound with '='; equality is '=='");
        return expected(p, "an operator");
    }
}

gd_expr *gd__expr_parse(gd_ctx *ctx, const char *text, const char *const *names, int count)
{
    return gd__expr_parse_with(ctx, "", NULL, text, names, count);
}

gd_expr *gd__expr_parse_with(gd_ctx *ctx, const char *defined, const char *file, const char *text,
                             const char *const *names, int count)
{
    gd_expr *e = gd__calloc(ctx, sizeof *e);
    if (!e) return NULL;
    e->ctx = ctx;
    e->own = strlen(defined);
    e->file = file ? gd__intern(ctx, file, strlen(file)) : NULL;
    parser p = {.e = e, .size = e->own + strlen(text), .open = !names};
    int root = -1;
    bool ok = !gd_error(ctx) && (e->text = gd__alloc(ctx, p.size + 1));
    if (ok) {
        memcpy(e->text, defined, e->own);
        memcpy(e->text + e->own, text, p.size - e->own + 1);
        p.text = e->text;
    }
    for (int i = 0; ok && i < count && names; i++)
        ok = gd__expr_add_variable(e, names[i], strlen(names[i])) >= 0;
    if (ok && p.size > GD_EXPR_MAX_TEXT) {
        (void)gd_fail(ctx, GD_PARSE, "expression: %zu bytes, at most %d are read", p.size, GD_EXPR_MAX_TEXT);
    } else if (ok) {
        size_t size = p.size;
        p.size = e->own;
        ok = definitions(&p);
        p.at = e->own;
        p.size = size;
        root = ok ? statements(&p) : -1;
    }
    gd__free(ctx, p.binding, p.binding_bytes);
    gd__free(ctx, p.function, p.function_bytes);
    if (root >= 0 && gd__expr_finish(e, root) == GD_OK) return e;
    gd__expr_free(e);
    return NULL;
}
