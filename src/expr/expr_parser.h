/* Reading an expression: common declarations of the parser.  See expr.h for the language.
 *
 *   expr_parse.c   letters, names, one function per level of precedence
 *   expr_relation.c  relations `a <= b <= c`; which values are true or false
 *   expr_statements.c  definitions, bindings, equations, the value
 *   expr_circle.c circular definitions
 *   expr_bodies.c  bodies read more than once, and nested texts: sums over a range, user-defined functions, differential equations */
#ifndef GD_EXPR_PARSER_H
#define GD_EXPR_PARSER_H

#include "expr/expr_program.h"

#include <string.h>

#define GD_EXPR_MAX_CALL 16 /* arguments of a call; each function has its own limit */

typedef struct gd_expr_binding {
    const char *name;
    size_t length;
    int node;
    size_t start; /* of its definition in the text; SIZE_MAX: an argument or an index, no definition */
} gd_expr_binding;

/* name(argument, ...) = body; the body is read again at every call. */
typedef struct gd_expr_definition {
    const char *name; /* interned */
    const char *argument[GD_EXPR_MAX_CALL];
    size_t argument_length[GD_EXPR_MAX_CALL];
    int arguments;     /* 0: a name of a value, which `outer` has read */
    size_t start;      /* of the definition in the text */
    size_t begin, end; /* of its body */
    int bindings;      /* that there were before it */
} gd_expr_definition;

typedef struct gd_expr_parser {
    gd_expr *e;
    const char *text;
    size_t at, size;
    int depth;
    bool open; /* unknown names become variables */
    gd_expr_form form;
    int part; /* index of the wanted relation in a row */
    gd_expr_binding *binding;
    int bindings;
    size_t binding_bytes;
    int hidden_from, hidden_to; /* bindings that a body does not see: those of its caller */
    gd_expr_definition *function;
    int functions, visible; /* a body sees the functions before its own */
    size_t function_bytes;
    int copies;
    const char *defining; /* the name whose definition is being read; NULL: none */
    size_t defining_length;
    size_t before; /* end of the definitions that an ode of this definition sees: those before it */
    /* For the equations of an ode: the parser of the surrounding text, which has the values of all definitions before them. */
    struct gd_expr_parser *outer;
    uintptr_t floor; /* of the stack */
} gd_expr_parser;

typedef struct gd_expr_arguments {
    int node[GD_EXPR_MAX_CALL];
    size_t at[GD_EXPR_MAX_CALL];
    int count;
    const char *axis; /* interned; NULL: not given */
} gd_expr_arguments;

/* ---- expr_parse.c; a node number, or -1 with the error recorded ---- */

int GD_PRINTF(3, 4) gd__parser_fail(gd_expr_parser *p, size_t at, const char *format, ...);
/* "')' expected, '+' found" */
int gd__parser_expected(gd_expr_parser *p, const char *what);
/* The next character that is not a space, or 0; the same, consumed if it is c. */
char gd__parser_peek(gd_expr_parser *p);
bool gd__parser_accept(gd_expr_parser *p, char c);
/* The name at the current place; *name points into the text.  False if there is none, or with an error. */
bool gd__parser_name(gd_expr_parser *p, const char **name, size_t *length);
/* A name as a node: bindings first, the latest of a name; then variables; then constants. */
int gd__parser_resolve(gd_expr_parser *p, size_t at, const char *name, size_t length);
bool gd__parser_bind(gd_expr_parser *p, const char *name, size_t length, int node);
/* One level deeper; false where that is too deep. */
bool gd__parser_enter(gd_expr_parser *p);
int gd__parser_expression(gd_expr_parser *p);
int gd__parser_primary(gd_expr_parser *p);
/* A side of a comparison. */
int gd__parser_sum(gd_expr_parser *p);
/* -1 with an error about the value of the node where that is true or false, else the node. */
int gd__parser_number(gd_expr_parser *p, size_t at, int node);
/* The arguments after the '(' of a call. */
bool gd__parser_arguments(gd_expr_parser *p, gd_expr_arguments *a);

static inline bool gd__parser_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool gd__parser_same(const char *a, size_t length, const char *b)
{
    return strlen(b) == length && !memcmp(a, b, length);
}
/* The letter behind the current place. */
static inline char gd__parser_after(const gd_expr_parser *p)
{
    return p->at + 1 < p->size ? p->text[p->at + 1] : 0;
}

/* ---- expr_relation.c ---- */

/* Does a statement follow after the ';' that ends this one? */
bool gd__parser_statement_follows(const gd_expr_parser *p);
/* The rest of the text: a relation, or an expression.  A node, or -1. */
int gd__parser_relation(gd_expr_parser *p);

/* ---- expr_statements.c ---- */

/* A text inside that which `outer` reads, with all definitions that it sees; every unknown name becomes a variable. */
gd_expr *gd__parser_inside(gd_expr_parser *outer, const char *text);

/* ---- expr_circle.c ---- */

/* If an unknown name is that of a later definition, or of the one being read, reports that, with
 * the circle if there is one, and is true. */
bool gd__parser_circle(gd_expr_parser *p, size_t at, const char *name, size_t length);

/* ---- expr_bodies.c; the '(' has been read ---- */

/* `k = ` of sum(k = 1..5, a[k] * x^k), not `axis =`; then the rest of it, terms joined by op. */
bool gd__parser_range_name(gd_expr_parser *p, const char **name, size_t *length);
int gd__parser_sum_over(gd_expr_parser *p, size_t at, char op, const char *name, size_t length);
/* Where the ';' after a place is, or the end of the text. */
size_t gd__parser_body_end(const char *text, size_t at, size_t size);
/* Inside an ode, the node of a name defined outside: a number, or a variable with a reserved name that outer resolves.  -2: there is no such name. */
int gd__parser_from_outside(gd_expr_parser *p, size_t at, const char *name, size_t length);
/* A visible user-defined function, or NULL; a call of it. */
const gd_expr_definition *gd__parser_find(const gd_expr_parser *p, const char *name, size_t length);
int gd__parser_own_call(gd_expr_parser *p, size_t at, const gd_expr_definition *f);
/* `name(a, b) =` at the current place, but not `f(x) == y`: a function of one's own begins; then its body up to ';' or the end. */
bool gd__parser_definition(gd_expr_parser *p, gd_expr_definition *f);
bool gd__parser_define(gd_expr_parser *p, size_t at, gd_expr_definition f);
/* ode("x' = -k*x", x0, t) or ode("x' = -k*x", x0, t, t0) */
int gd__parser_ode(gd_expr_parser *p, size_t at, bool stiff);

#endif
