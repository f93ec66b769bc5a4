/* Relations: `a <= b`, `a = b`, `a <= b <= c`; and which values are true or false.
 *
 * A constraint needs the distance from holding, not only true or false: so `a <= b` is read as the
 * number a - b here, and a value that is true or false is not a number where a loss or a constraint is wanted. */
#include "expr/expr_parser.h"

/* ---- true or false ---- */

bool gd__expr_truth(const gd_expr *e, const gd_expr_node *n, const int *operand, int operands)
{
    bool any = false, all = true, first = operands && e->node[operand[0]].truth;
    for (int k = 0; k < operands; k++) {
        any = any || e->node[operand[k]].truth;
        all = all && e->node[operand[k]].truth;
    }
    switch ((gd_expr_op)n->op) {
    case EXPR_UNARY:
        return gd__expr_tests(gd__expr_unary_op(n->u.unary)) || (n->u.unary == gd_diagonal && first);
    case EXPR_BINARY:
        if (n->u.binary == gd_maximum || n->u.binary == gd_minimum) return all;
        return gd__expr_tests(gd__expr_binary_op(n->u.binary));
    case EXPR_REDUCE: return first && (n->u.reduce == gd_max || n->u.reduce == gd_min);
    case EXPR_INDEX:
    case EXPR_GATHER:
    case EXPR_RESHAPE:
    case EXPR_TRANSPOSE: return first;
    case EXPR_STACK: return any;
    case EXPR_WHERE: return e->node[operand[1]].truth || e->node[operand[2]].truth;
    default: return false; /* arithmetic counts 0 and 1, as intended there */
    }
}

bool gd__expr_is_truth(const gd_expr *e, int *at)
{
    const gd_expr_node *root = &e->node[e->nodes - 1];
    *at = root->at;
    return root->truth;
}

void gd__expr_fail_at(const gd_expr *e, int at, const char *text)
{
    char place[GD_EXPR_PLACE];
    (void)gd_fail(e->ctx, GD_PARSE, "%s: %s", gd__expr_place(e, at, place), text);
}

int gd__parser_number(gd_expr_parser *p, size_t at, int node)
{
    if (node < 0 || !p->e->node[node].truth) return node;
    return gd__parser_fail(p, at, "one side is a comparison, true or false; a number is wanted");
}

/* ---- relations ---- */

#define MOST 16 /* relations in a row */

typedef struct row {
    gd_expr_relation relation[MOST];
    int side[MOST + 1]; /* nodes */
    int count;
} row;

static const struct {
    const char *words;
    char sign;
} signs[] = {{"<=", '<'}, {">=", '>'}, {"==", '='}, {"!=", '!'}, {"<", '<'}, {">", '>'}, {"=", '='}};

/* The sign at the current place; false if there is none. */
static bool read_sign(gd_expr_parser *p, gd_expr_relation *out)
{
    (void)gd__parser_peek(p);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        size_t length = strlen(signs[i].words);
        if (p->size - p->at < length || memcmp(p->text + p->at, signs[i].words, length) != 0) continue;
        *out = (gd_expr_relation){.sign = signs[i].sign, .words = signs[i].words, .at = (int)p->at};
        p->at += length;
        return true;
    }
    return false;
}

static size_t without_space(const gd_expr_parser *p, size_t end)
{
    while (end && strchr(" \t\r\n", p->text[end - 1])) end--;
    return end;
}

/* Sides and signs as far as they go; false with an error. */
static bool read_row(gd_expr_parser *p, row *r)
{
    (void)gd__parser_peek(p);
    size_t begin = p->at;
    gd_expr_relation next;
    r->count = 0;
    if ((r->side[0] = gd__parser_sum(p)) < 0) return false;
    while (read_sign(p, &next)) {
        if (r->count == MOST)
            return gd__parser_fail(p, (size_t)next.at, "more than %d comparisons in a row", MOST) >= 0;
        (void)gd__parser_peek(p);
        size_t middle = p->at;
        if ((r->side[r->count + 1] = gd__parser_sum(p)) < 0) return false;
        next.begin = (int)(begin - p->e->own);
        next.end = (int)(without_space(p, p->at) - p->e->own);
        r->relation[r->count++] = next;
        begin = middle;
    }
    return true;
}

/* a - b, or b - a: the value that must be at most 0; if one side is 0, the other alone. */
static int difference(gd_expr *e, const gd_expr_relation *r, int a, int b)
{
    double zero;
    if (r->sign == '>') {
        int swap = a;
        a = b, b = swap;
    }
    if (gd__expr_value(e, b, &zero) && zero == 0) return a;
    if (gd__expr_value(e, a, &zero) && zero == 0) return gd__expr_unary_node(e, r->at, gd_neg, b);
    return gd__expr_binary_node(e, r->at, '-', a, b);
}

static int wanted(gd_expr_parser *p, const row *r)
{
    const gd_expr_relation *this = &r->relation[p->part];
    for (int i = 0; i <= r->count; i++)
        if (gd__parser_number(p, (size_t)r->relation[i ? i - 1 : 0].at, r->side[i]) < 0) return -1;
    if (this->sign == '!')
        return gd__parser_fail(p, (size_t)this->at,
                               "'!=' leaves nothing to hold on to; <=, >= or = expected");
    p->e->relation = *this;
    p->e->relation.count = r->count;
    return difference(p->e, this, r->side[p->part], r->side[p->part + 1]);
}

int gd__parser_relation(gd_expr_parser *p)
{
    size_t begin = p->at;
    row r;
    if (!gd__parser_enter(p) || !read_row(p, &r)) return -1;
    p->depth--;
    char next = gd__parser_peek(p);
    if (r.count && (!next || next == ';')) return wanted(p, &r);
    p->at = begin; /* c ? a : b, a && b, or no relation at all */
    return gd__parser_expression(p);
}

bool gd__parser_statement_follows(const gd_expr_parser *p)
{
    char within = 0; /* a quote that is open, or # of a comment */
    for (size_t i = p->at; i < p->size; i++) {
        char c = p->text[i];
        if (within) {
            if (c == (within == '#' ? '\n' : within)) within = 0;
        } else if (c == '"' || c == '`' || c == '#') {
            within = c;
        } else if (c == ';') {
            gd_expr_parser rest = *p;
            rest.at = i + 1;
            return gd__parser_peek(&rest) != 0;
        }
    }
    return false;
}
