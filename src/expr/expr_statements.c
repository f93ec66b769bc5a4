/* Reading an expression: definitions, bindings, equations and the value; see expr.h for the language. */
#include "expr/expr_parser.h"
#include "base/system.h"

#include <string.h>

#define STACK_RESERVE 32768 /* bytes of stack that recursion leaves for calls */

/* `name =` at the current place, but not `name ==`. */
static bool binding_name(gd_expr_parser *p, const char **name, size_t *length)
{
    size_t begin = p->at;
    if (gd__parser_name(p, name, length) && gd__parser_peek(p) == '=' && gd__parser_after(p) != '=') {
        p->at++;
        return true;
    }
    p->at = begin;
    return false;
}

/* The value of `name = `, which may not need itself. */
static int bound_value(gd_expr_parser *p, size_t at, const char *name, size_t length)
{
    p->defining = name;
    p->defining_length = length;
    p->before = at < p->e->own ? at : p->e->own;
    int node = gd__parser_expression(p);
    p->defining = NULL;
    p->before = p->e->own;
    return node;
}

/* `name = value` of a file of definitions.  Of a text inside another: outer has the value. */
static bool named_value(gd_expr_parser *p, size_t at, const char *name, size_t length)
{
    if (p->outer)
        return gd__parser_define(p, at, (gd_expr_definition){.name = gd__intern(p->e->ctx, name, length)});
    int node = bound_value(p, at, name, length);
    if (node < 0 || !gd__parser_bind(p, name, length, node)) return false;
    p->binding[p->bindings - 1].start = at;
    return true;
}

/* The contents of a file of definitions: functions and bindings, separated by ';'. */
static bool definitions(gd_expr_parser *p)
{
    while (gd__parser_peek(p)) {
        size_t at = p->at, length;
        const char *name;
        gd_expr_definition f;
        if (gd__parser_definition(p, &f)) {
            if (!gd__parser_define(p, at, f)) return false;
        } else if (binding_name(p, &name, &length)) {
            if (!named_value(p, at, name, length)) return false;
        } else {
            return gd_error(p->e->ctx) ? false : gd__parser_expected(p, "'name =' or 'name(x, ...) ='") >= 0;
        }
        if (!gd__parser_accept(p, ';') && gd__parser_peek(p))
            return gd__parser_expected(p, "an operator or ';'") >= 0;
    }
    return true;
}

/* `name = node` at the end of the text. */
static int left_name(gd_expr_parser *p, size_t at, const char *name, size_t length, int node)
{
    gd_expr *e = p->e;
    int left = gd__parser_number(p, at, node) < 0 ? -1 : gd__parser_resolve(p, at, name, length);
    if (left < 0 || p->form == GD_EXPR_RIGHT) return left < 0 ? -1 : node;
    e->equation = true;
    if (!(e->left = gd__intern(e->ctx, name, length))) return -1;
    return gd__expr_binary_node(e, (int)at, '-', left, node);
}

/* `left = ` and its right side. */
static int equation(gd_expr_parser *p, int left)
{
    size_t at = p->at++;
    int right = gd__parser_expression(p);
    if (right < 0) return -1;
    if (gd__parser_peek(p)) return gd__parser_expected(p, "an operator");
    if (gd__parser_number(p, at, left) < 0 || gd__parser_number(p, at, right) < 0) return -1;
    p->e->equation = true;
    return gd__expr_binary_node(p->e, (int)at, '-', left, right);
}

static int statements(gd_expr_parser *p)
{
    for (;;) {
        (void)gd__parser_peek(p);
        gd_expr_definition f;
        size_t at = p->at;
        /* `exp(x) = 2` at the end of a constraint or model is an equation: a definition there would be unused */
        bool last = p->form != GD_EXPR_VALUE && !gd__parser_statement_follows(p);
        if (!last && gd__parser_definition(p, &f)) {
            if (!gd__parser_define(p, at, f)) return -1;
            if (!gd__parser_accept(p, ';') || !gd__parser_peek(p))
                return gd__parser_fail(p, p->at, "the value is missing: only definitions");
            continue;
        }
        const char *name;
        size_t length;
        bool binds = binding_name(p, &name, &length);
        if (gd_error(p->e->ctx)) return -1;
        bool relates = p->form == GD_EXPR_RELATION && !(binds && gd__parser_statement_follows(p));
        if (relates) binds = false, p->at = at;
        int node = relates ? gd__parser_relation(p)
                   : binds ? bound_value(p, at, name, length)
                           : gd__parser_expression(p);
        if (node < 0) return -1;
        if (binds && p->form != GD_EXPR_VALUE && !gd__parser_peek(p))
            return left_name(p, at, name, length, node);
        if (binds) {
            if (!gd__parser_accept(p, ';'))
                return gd__parser_expected(p,
                                           gd__parser_peek(p) ? "an operator or ';'" : "';' and the value");
            if (!gd__parser_bind(p, name, length, node)) return -1;
            if (gd__parser_peek(p) == 0 && p->at >= p->size)
                return gd__parser_fail(p, p->at, "the value is missing: only bindings");
            continue;
        }
        bool more = gd__parser_accept(p, ';');
        (void)gd__parser_peek(p);
        if (p->at >= p->size) return node;
        if (more) return gd__parser_fail(p, p->at, "only the last expression may have no name");
        if (p->text[p->at] == '=' && p->form == GD_EXPR_EQUATION) return equation(p, node);
        if (p->text[p->at] == '=')
            return gd__parser_fail(p, p->at, "only a name can be bound with '='; equality is '=='");
        return gd__parser_expected(p, "an operator");
    }
}

bool gd__expr_is_equation(const gd_expr *e, const char **left)
{
    *left = e->left;
    return e->equation;
}

/* Definitions (the first `own` bytes of their text), then the text itself. */
static gd_expr *new_expression(gd_ctx *ctx, const char *defined, size_t own, const char *file,
                               const char *text)
{
    gd_expr *e = gd__calloc(ctx, sizeof *e);
    if (!e) return NULL;
    size_t size = strlen(text);
    e->ctx = ctx;
    e->own = own;
    e->file = file ? gd__intern(ctx, file, strlen(file)) : NULL;
    if (gd_error(ctx) || !(e->text = gd__alloc(ctx, own + size + 1))) {
        gd_expr_free(e);
        return NULL;
    }
    memcpy(e->text, defined, own);
    memcpy(e->text + own, text, size + 1);
    return e;
}

/* Parses all of the text of p->e, which is freed on failure. */
static gd_expr *read_all(gd_expr_parser *p)
{
    gd_expr *e = p->e;
    size_t size = strlen(e->text);
    int root = -1;
    p->text = e->text;
    if (size > GD_EXPR_MAX_TEXT) {
        (void)gd_fail(e->ctx, GD_PARSE, "expression: %zu bytes, at most %d are read", size, GD_EXPR_MAX_TEXT);
    } else {
        p->size = p->before = e->own;
        bool ok = definitions(p);
        p->at = e->own;
        p->size = size;
        root = ok ? statements(p) : -1;
    }
    gd__free(e->ctx, p->binding, p->binding_bytes);
    gd__free(e->ctx, p->function, p->function_bytes);
    if (root >= 0 && gd__expr_finish(e, root) == GD_OK) return e;
    gd_expr_free(e);
    return NULL;
}

static gd_expr *parse(gd_ctx *ctx, const char *text, const gd_expr_options *options, gd_expr_form form,
                      int part)
{
    if (!ctx || gd_error(ctx)) return NULL;
    if (!text) {
        (void)gd_fail(ctx, GD_ARGUMENT, "expression: no text given");
        return NULL;
    }
    gd_expr_options o = options ? *options : (gd_expr_options){.names = NULL};
    const char *defined = o.definitions ? o.definitions : "";
    gd_expr *e = new_expression(ctx, defined, strlen(defined), o.file, text);
    bool ok = e != NULL;
    for (int i = 0; ok && i < o.count && o.names; i++)
        ok = gd__expr_add_variable(e, o.names[i], strlen(o.names[i])) >= 0;
    if (!ok) {
        gd_expr_free(e);
        return NULL;
    }
    return read_all(&(gd_expr_parser){
        .e = e, .open = !o.names, .form = form, .part = part, .floor = gd__stack_floor(STACK_RESERVE)});
}

gd_expr *gd_expr_parse(gd_ctx *ctx, const char *text, const gd_expr_options *options)
{
    return parse(ctx, text, options, GD_EXPR_VALUE, 0);
}

gd_expr *gd__expr_parse_form(gd_ctx *ctx, const char *text, const gd_expr_options *options, gd_expr_form form)
{
    return parse(ctx, text, options, form, 0);
}

gd_expr *gd__expr_parse_relation(gd_ctx *ctx, const char *text, const gd_expr_options *options, int part,
                                 gd_expr_relation *out)
{
    gd_expr *e = parse(ctx, text, options, GD_EXPR_RELATION, part);
    if (e) *out = e->relation;
    return e;
}

gd_expr *gd__parser_inside(gd_expr_parser *outer, const char *text)
{
    gd_expr *e = new_expression(outer->e->ctx, outer->e->text, outer->before, NULL, text);
    if (!e) return NULL;
    gd_expr_parser p = {.e = e,
                        .open = true,
                        .form = GD_EXPR_VALUE,
                        .outer = outer,
                        .depth = outer->depth,
                        .copies = outer->copies,
                        .floor = outer->floor};
    e = read_all(&p);
    outer->copies = p.copies;
    return e;
}
