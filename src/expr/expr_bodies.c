/* Bodies that are read more than once, and nested texts: sums over a range, user-defined functions, differential equations. */
#include "expr/expr_parser.h"

#include <math.h>
#include <stdio.h>

#define MAX_NAMES  64    /* in the equations of an ode, besides states and time */
#define MAX_COPIES 20000 /* limit of bodies of sums and user-defined functions that are read */

static bool count_copy(gd_expr_parser *p, size_t at)
{
    if (++p->copies <= MAX_COPIES) return true;
    return gd__parser_fail(p, at, "sums and functions of one's own stand for more than %d terms",
                           MAX_COPIES) >= 0;
}

/* An end of a range a..b: digits, a name or a parenthesised expression; "1..5" must not be read as 1. and .5 */
static bool range_end(gd_expr_parser *p, int64_t *value)
{
    bool negative = gd__parser_accept(p, '-');
    char c = gd__parser_peek(p);
    size_t at = p->at;
    double number = 0;
    if (gd__parser_digit(c)) {
        for (; p->at < p->size && gd__parser_digit(p->text[p->at]); p->at++)
            number = 10 * number + (p->text[p->at] - '0');
    } else {
        int node = gd__parser_primary(p);
        if (node < 0) return false;
        if (!gd__expr_value(p->e, node, &number)) number = NAN;
    }
    if (number != floor(number) || !(fabs(number) <= 1e9))
        return gd__parser_fail(p, at, "an end of a range must be a whole number") >= 0;
    *value = (int64_t)(negative ? -number : number);
    return true;
}

/* `k = ` of sum(k = 1..5, a[k] * x^k), not `axis =`. */
bool gd__parser_range_name(gd_expr_parser *p, const char **name, size_t *length)
{
    size_t begin = p->at;
    if (gd__parser_name(p, name, length) && !gd__parser_same(*name, *length, "axis") &&
        gd__parser_accept(p, '=') && gd__parser_peek(p) != '=')
        return true;
    p->at = begin;
    return false;
}

/* Reads the body once for every k; p is before it, and finally after it. */
static int body_over(gd_expr_parser *p, size_t at, char op, gd_expr_binding k, int64_t first, int64_t last)
{
    size_t body = p->at;
    int sum = gd__expr_number(p->e, (int)at, op == '*');
    int64_t i = first;
    do { /* an empty range is read once too, to find the text after it */
        p->at = body;
        k.node = gd__expr_number(p->e, (int)at, (double)i);
        if (k.node < 0 || !count_copy(p, at) || !gd__parser_bind(p, k.name, k.length, k.node)) return -1;
        int term = gd__parser_expression(p);
        p->bindings--;
        if (term < 0) return -1;
        if (i <= last) sum = i == first ? term : gd__expr_binary_node(p->e, (int)at, op, sum, term);
    } while (sum >= 0 && i++ < last);
    return sum;
}

int gd__parser_sum_over(gd_expr_parser *p, size_t at, char op, const char *name, size_t length)
{
    int64_t first, last;
    if (!range_end(p, &first)) return -1;
    if (!gd__parser_accept(p, '.') || !gd__parser_accept(p, '.')) return gd__parser_expected(p, "'..'");
    if (!range_end(p, &last)) return -1;
    if (!gd__parser_accept(p, ',')) return gd__parser_expected(p, "','");
    if (!gd__parser_enter(p)) return -1;
    int node = body_over(p, at, op, (gd_expr_binding){name, length, -1, SIZE_MAX}, first, last);
    p->depth--;
    return node < 0 || gd__parser_accept(p, ')') ? node : gd__parser_expected(p, "')'");
}

const gd_expr_definition *gd__parser_find(const gd_expr_parser *p, const char *name, size_t length)
{
    for (int i = p->visible; i-- > 0;)
        if (p->function[i].arguments && gd__parser_same(name, length, p->function[i].name))
            return &p->function[i];
    return NULL;
}

/* ---- functions of one's own ---- */

/* The body of f with nodes for its arguments. */
static int expand(gd_expr_parser *p, size_t at, const gd_expr_definition *f, const int *node)
{
    gd_expr_parser caller = *p;
    for (int i = 0; i < f->arguments; i++)
        if (!gd__parser_bind(p, f->argument[i], f->argument_length[i], node[i])) return -1;
    p->hidden_from = f->bindings;
    p->hidden_to = caller.bindings;
    p->visible = (int)(f - p->function);
    p->before = f->start < p->e->own ? f->start : p->e->own;
    p->defining = f->name;
    p->defining_length = strlen(f->name);
    p->at = f->begin;
    p->size = f->end;
    int value = count_copy(p, at) && gd__parser_enter(p) ? gd__parser_expression(p) : -1;
    if (value >= 0 && gd__parser_peek(p)) value = gd__parser_expected(p, "an operator or ';'");
    p->at = caller.at;
    p->size = caller.size;
    p->depth = caller.depth;
    p->bindings = caller.bindings;
    p->hidden_from = caller.hidden_from;
    p->hidden_to = caller.hidden_to;
    p->visible = caller.visible;
    p->before = caller.before;
    p->defining = caller.defining;
    p->defining_length = caller.defining_length;
    return value;
}

/* The first letter of the name of a variable that represents the definition at the following position. */
#define OUTSIDE '\1'

/* The value of the definition that begins at `start`. */
static int value_of_definition(gd_expr_parser *p, size_t at, size_t start)
{
    const gd_expr_parser *root = p;
    double value;
    while (root->outer) root = root->outer;
    int i = root->bindings;
    while (i-- > 0 && root->binding[i].start != start) continue;
    if (i < 0) return -2;
    if (root == p) return root->binding[i].node;
    if (gd__expr_value(root->e, root->binding[i].node, &value)) return gd__expr_number(p->e, (int)at, value);
    char name[32];
    int length = snprintf(name, sizeof name, "%c%zu", OUTSIDE, start), variable = -1;
    for (int k = 0; k < p->e->variables && variable < 0; k++)
        if (!strcmp(p->e->name[k], name)) variable = k;
    if (variable < 0) variable = gd__expr_add_variable(p->e, name, (size_t)length);
    return variable < 0 ? -1 : gd__expr_variable_node(p->e, (int)at, variable);
}

int gd__parser_from_outside(gd_expr_parser *p, size_t at, const char *name, size_t length)
{
    if (length > 1 && name[0] == OUTSIDE) {
        size_t start = 0;
        for (size_t i = 1; i < length; i++) start = 10 * start + (size_t)(name[i] - '0');
        return value_of_definition(p, at, start);
    }
    for (int i = p->visible; i-- > 0;)
        if (!p->function[i].arguments && gd__parser_same(name, length, p->function[i].name))
            return value_of_definition(p, at, p->function[i].start);
    return -2;
}

int gd__parser_own_call(gd_expr_parser *p, size_t at, const gd_expr_definition *f)
{
    gd_expr_arguments a;
    if (!gd__parser_enter(p) || !gd__parser_arguments(p, &a)) return -1;
    p->depth--;
    if (a.axis) return gd__parser_fail(p, at, "%.60s takes no axis", f->name);
    if (a.count != f->arguments)
        return gd__parser_fail(p, at, "%.60s takes %d argument%s, %d given", f->name, f->arguments,
                               f->arguments == 1 ? "" : "s", a.count);
    return expand(p, at, f, a.node);
}

/* `name(a, b) =` at the current place, but not `f(x) == y`: a user-defined function begins. */
bool gd__parser_definition(gd_expr_parser *p, gd_expr_definition *f)
{
    size_t begin = p->at, length;
    const char *name;
    memset(f, 0, sizeof *f);
    bool is = gd__parser_name(p, &name, &length) && gd__parser_accept(p, '(');
    do {
        is = is && f->arguments < GD_EXPR_MAX_CALL &&
             gd__parser_name(p, &f->argument[f->arguments], &f->argument_length[f->arguments]);
        f->arguments++;
    } while (is && gd__parser_accept(p, ','));
    if (is && gd__parser_accept(p, ')') && gd__parser_peek(p) == '=' && gd__parser_after(p) != '=') {
        p->at++;
        f->name = gd__intern(p->e->ctx, name, length);
        return true;
    }
    p->at = begin;
    return false;
}

size_t gd__parser_body_end(const char *text, size_t at, size_t size)
{
    char inside = 0; /* of a name in backquotes, of equations in quotes or of a comment */
    for (; at < size; at++) {
        char c = text[at];
        if (inside ? c == inside : c == '`' || c == '#' || c == '"')
            inside = inside ? 0 : c == '#' ? '\n' : c;
        else if (!inside && c == ';')
            break;
    }
    return at;
}

/* A body is read once at its definition, so that errors in it are reported even if it is never called. */
static bool try_body(gd_expr_parser *p, size_t at, const gd_expr_definition *f)
{
    int node[GD_EXPR_MAX_CALL];
    if (p->open) return true; /* unknown names are variables of the caller's */
    for (int i = 0; i < f->arguments; i++) node[i] = gd__expr_number(p->e, (int)at, 1);
    return expand(p, at, f, node) >= 0;
}

bool gd__parser_define(gd_expr_parser *p, size_t at, gd_expr_definition f)
{
    f.begin = p->at;
    f.start = at;
    f.end = p->at = gd__parser_body_end(p->text, p->at, p->size);
    f.bindings = p->bindings;
    if (!f.name) return false;
    if (f.arguments && gd__expr_find_call(f.name, strlen(f.name)))
        return gd__parser_fail(p, at, "'%.60s' is a function of the language", f.name) >= 0;
    if (!gd__expr_room(p->e, &p->function, &p->function_bytes, p->functions, 1, sizeof f)) return false;
    p->function[p->functions++] = f;
    p->visible = p->functions;
    return try_body(p, at, &p->function[p->functions - 1]);
}

/* ---- differential equations ---- */

/* The text between quotes that comes next; its length, or -1. */
static int read_text(gd_expr_parser *p, const char **text)
{
    if (!gd__parser_accept(p, '"')) return gd__parser_expected(p, "equations between \"quotes\"");
    const char *begin = p->text + p->at, *end = memchr(begin, '"', p->size - p->at);
    if (!end) return gd__parser_fail(p, p->at - 1, "a quote is never closed");
    *text = begin;
    p->at += (size_t)(end - begin) + 1;
    return (int)(end - begin);
}

/* Reports its error at our position. */
static int told_at(gd_expr_parser *p, size_t at)
{
    gd_ctx *ctx = p->e->ctx;
    char text[400];
    if (gd_error(ctx) == GD_NOMEM) return -1;
    (void)snprintf(text, sizeof text, "%s", gd_error_text(ctx));
    gd_clear_error(ctx);
    return gd__parser_fail(p, at, "ode: %s", text);
}

static gd_expr_ode *read_equations(gd_expr_parser *p, const char *text, int length, bool stiff)
{
    gd_expr *e = p->e;
    gd_expr_ode *o = gd__expr_ode_parse(p, text, (size_t)length, stiff);
    if (o && gd__expr_room(e, &e->ode, &e->ode_bytes, e->odes, 1, sizeof *e->ode))
        return e->ode[e->odes++] = o;
    gd__expr_ode_free(o);
    return NULL;
}

/* ode("x' = -k*x", x0, t) or ode("x' = -k*x", x0, t, t0) */
int gd__parser_ode(gd_expr_parser *p, size_t at, bool stiff)
{
    int node[3 + MAX_NAMES], count = 3;
    gd_expr_arguments a;
    int64_t which = p->e->odes;
    (void)gd__parser_peek(p);
    size_t inside = p->at;
    const char *text = NULL;
    int length = read_text(p, &text);
    if (length < 0) return -1;
    if (!gd__parser_enter(p)) return -1;
    const gd_expr_ode *o = read_equations(p, text, length, stiff);
    if (!o) return told_at(p, inside);
    p->depth--;
    if (!gd__parser_accept(p, ',')) return gd__parser_expected(p, "',' and the start values");
    if (!gd__parser_enter(p) || !gd__parser_arguments(p, &a)) return -1;
    p->depth--;
    if (a.axis || a.count < 2 || a.count > 3)
        return gd__parser_fail(p, at,
                               "ode takes equations, start values, times and perhaps the time of the start");
    if (gd__expr_ode_names(o) > MAX_NAMES)
        return gd__parser_fail(p, inside, "ode: more than %d names", MAX_NAMES);
    for (int i = 0; i < 2; i++) node[i] = a.node[i];
    node[2] = a.count > 2 ? a.node[2] : gd__expr_number(p->e, (int)at, 0);
    for (int i = 0; i < gd__expr_ode_names(o); i++) {
        const char *name = gd__expr_ode_name(o, i);
        node[count] = gd__parser_resolve(p, inside, name, strlen(name));
        if (node[count++] < 0) return -1;
    }
    return gd__expr_add(p->e, gd__expr_node(EXPR_ODE, (int)at), node, count, &which, 1);
}
