/* Reading an expression: recursive descent, one function a level of precedence; see expr.h for the language. */
#include "cli/expr/expr_program.h"
#include "base/number.h"
#include "cli/text.h"
#include "base/suggest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_LIST 1024 /* parts of a list literal */
#define MAX_CALL 16   /* arguments of a call; each function says its own limit */

typedef struct binding {
    const char *name;
    size_t length;
    int node;
} binding;

typedef struct parser {
    gd_expr *e;
    const char *text;
    size_t at, size;
    int depth;
    bool open; /* unknown names become variables */
    binding *binding;
    int bindings;
    size_t binding_bytes;
} parser;

static int comparison(parser *p);

/* ---- errors ---- */

static int GD_PRINTF(3, 4) fail_at(parser *p, size_t at, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    (void)gd__vformat(text, sizeof text, format, args);
    va_end(args);
    (void)gd_fail(p->e->ctx, GD_PARSE, "expression: column %d: %s", gd__expr_column(p->e, (int)at), text);
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
    while (p->at < p->size && strchr(" \t\r\n", p->text[p->at])) p->at++;
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
        if (p->binding[i].length == length && !memcmp(p->binding[i].name, name, length))
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
    int node = comparison(p);
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

static int index_of(parser *p, int x, size_t at)
{
    int64_t places[GD_MAX_DIMS * PLACE_SIZE];
    int count = 0;
    do {
        if (count == GD_MAX_DIMS) return fail_at(p, p->at, "more than %d indices", GD_MAX_DIMS);
        if (!read_place(p, places + count * PLACE_SIZE)) return -1;
        count++;
    } while (accept(p, ','));
    if (!accept(p, ']')) return expected(p, "',' or ']'");
    gd_expr_node node;
    memset(&node, 0, sizeof node);
    node.op = EXPR_INDEX;
    node.at = (int)at;
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
        if ((a->node[a->count] = comparison(p)) < 0) return false;
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

static int norm_node(parser *p, gd_expr_node node, const arguments *a)
{
    node.op = EXPR_NORM;
    node.number = 2;
    node.axis = a->axis;
    if (a->count == 2 && (!gd__expr_value(p->e, a->node[1], &node.number) || !(node.number > 0)))
        return fail_at(p, a->at[1], "the order of a norm must be a positive number");
    return gd__expr_add(p->e, node, a->node, 1, NULL, 0);
}

static int call_node(parser *p, const gd_expr_call *call, int at, arguments *a)
{
    gd_expr_node node;
    memset(&node, 0, sizeof node);
    node.at = at;
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
    case CALL_WHERE: node.op = EXPR_WHERE; return gd__expr_add(p->e, node, a->node, 3, NULL, 0);
    }
    return -1;
}

static bool takes_axis(const gd_expr_call *call, int count)
{
    return call->kind == CALL_REDUCE || call->kind == CALL_ALONG || call->kind == CALL_NORM ||
           (call->kind == CALL_EXTREME && count == 1);
}

static int function_call(parser *p, size_t at, const char *name, size_t length)
{
    const gd_expr_call *call = gd__expr_find_call(name, length);
    if (!call) {
        char hint[GD_HINT_SIZE];
        gd__expr_suggest_call(name, length, hint);
        return fail_at(p, at, "unknown function '%.*s'%s", length > 60 ? 60 : (int)length, name, hint);
    }
    arguments a;
    if (!enter(p) || !read_arguments(p, &a)) return -1;
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
        if ((element[count++] = comparison(p)) < 0) goto done;
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
        int node = comparison(p);
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
    if (c == '-' || c == '+') {
        p->at++;
        node = unary(p);
        if (node >= 0 && c == '-') node = gd__expr_unary_node(p->e, (int)at, gd_neg, negative, node);
    } else {
        node = power(p);
    }
    p->depth--;
    return node;
}

static int product(parser *p)
{
    int node = unary(p);
    for (char c; node >= 0 && ((c = peek(p)) == '*' || c == '/' || c == '@');) {
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
    if (!enter(p)) return -1;
    int node = sum(p);
    (void)peek(p);
    size_t at = p->at;
    char sign = node >= 0 ? comparison_sign(p) : 0;
    if (sign) {
        node = gd__expr_binary_node(p->e, (int)at, sign, node, sum(p));
        (void)peek(p);
        at = p->at;
        if (node >= 0 && comparison_sign(p))
            return fail_at(p, at, "comparisons do not chain; write (a < b) * (b < c)");
    }
    p->depth--;
    return node;
}

/* ---- statements ---- */

static bool add_binding(parser *p, const char *name, size_t length, int node)
{
    size_t need = ((size_t)p->bindings + 1) * sizeof *p->binding;
    if (need > p->binding_bytes) {
        size_t bytes = p->binding_bytes ? p->binding_bytes * 2 : 8 * sizeof *p->binding;
        binding *grown = gd__realloc(p->e->ctx, p->binding, p->binding_bytes, bytes);
        if (!grown) return false;
        p->binding = grown;
        p->binding_bytes = bytes;
    }
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

static int statements(parser *p)
{
    for (;;) {
        const char *name;
        size_t length;
        bool binds = binding_name(p, &name, &length);
        if (gd_error(p->e->ctx)) return -1;
        int node = comparison(p);
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
    gd_expr *e = gd__calloc(ctx, sizeof *e);
    if (!e) return NULL;
    e->ctx = ctx;
    parser p = {.e = e, .text = text, .size = strlen(text), .open = !names};
    int root = -1;
    bool ok = !gd_error(ctx) && (e->text = gd__strdup(ctx, text));
    for (int i = 0; ok && i < count && names; i++)
        ok = gd__expr_add_variable(e, names[i], strlen(names[i])) >= 0;
    if (ok && p.size > GD_EXPR_MAX_TEXT)
        (void)gd_fail(ctx, GD_PARSE, "expression: %zu bytes, at most %d are read", p.size, GD_EXPR_MAX_TEXT);
    else if (ok)
        root = statements(&p);
    gd__free(ctx, p.binding, p.binding_bytes);
    if (root >= 0 && gd__expr_finish(e, root) == GD_OK) return e;
    gd__expr_free(e);
    return NULL;
}
