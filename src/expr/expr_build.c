/* Building the program of an expression: constant folding, cheaper operators for common operations, common subexpressions once. */
#include "expr/expr_program.h"
#include "tensor/device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define LOOK_BACK 128 /* number of previous nodes that are searched for an equal one */

/* Room for `more` items in an array that knows its size in bytes. */
bool gd__expr_room(gd_expr *e, void *array, size_t *bytes, int count, int more, size_t item)
{
    return gd__grow(e->ctx, array, bytes, ((size_t)count + (size_t)more) * item);
}

int gd__expr_add_variable(gd_expr *e, const char *name, size_t length)
{
    if (!gd__expr_room(e, &e->name, &e->name_bytes, e->variables, 1, sizeof *e->name) ||
        !gd__expr_room(e, &e->used, &e->used_bytes, e->variables, 1, sizeof *e->used) ||
        !gd__expr_room(e, &e->fixed, &e->fixed_bytes, e->variables, 1, sizeof *e->fixed))
        return -1;
    char *copy = gd__alloc(e->ctx, length + 1);
    if (!copy) return -1;
    memcpy(copy, name, length);
    copy[length] = 0;
    e->name[e->variables] = copy;
    e->used[e->variables] = e->fixed[e->variables] = false;
    return e->variables++;
}

/* ---- nodes ---- */

static bool same_number(double a, double b) { return memcmp(&a, &b, sizeof a) == 0; }

static bool same_node(const gd_expr *e, const gd_expr_node *a, const gd_expr_node *b, const int *operand,
                      const int64_t *integer)
{
    return a->op == b->op && a->operands == b->operands && a->integers == b->integers && a->axis == b->axis &&
           same_number(a->number, b->number) && !memcmp(&a->u, &b->u, sizeof a->u) &&
           (!a->operands || !memcmp(e->operand + a->first, operand, (size_t)a->operands * sizeof *operand)) &&
           (!a->integers || !memcmp(e->integer + a->integer, integer, (size_t)a->integers * sizeof *integer));
}

int gd__expr_add(gd_expr *e, gd_expr_node node, const int *operand, int operands, const int64_t *integer,
                 int integers)
{
    for (int i = 0; i < operands; i++)
        if (operand[i] < 0) return -1;
    node.operands = operands;
    node.integers = integers;
    node.truth = gd__expr_truth(e, &node, operand, operands);
    for (int i = e->nodes; i-- > 0 && i >= e->nodes - LOOK_BACK;)
        if (same_node(e, &e->node[i], &node, operand, integer)) return i;
    if (!gd__expr_room(e, &e->node, &e->node_bytes, e->nodes, 1, sizeof *e->node) ||
        !gd__expr_room(e, &e->operand, &e->operand_bytes, e->operands, operands, sizeof *e->operand) ||
        !gd__expr_room(e, &e->integer, &e->integer_bytes, e->integers, integers, sizeof *e->integer))
        return -1;
    node.first = e->operands;
    node.integer = e->integers;
    if (operands) memcpy(e->operand + e->operands, operand, (size_t)operands * sizeof *operand);
    if (integers) memcpy(e->integer + e->integers, integer, (size_t)integers * sizeof *integer);
    e->operands += operands;
    e->integers += integers;
    e->node[e->nodes] = node;
    return e->nodes++;
}

gd_expr_node gd__expr_node(gd_expr_op op, int at)
{
    gd_expr_node node;
    memset(&node, 0, sizeof node); /* padding too: nodes are compared as bytes */
    node.op = (uint8_t)op;
    node.at = at;
    return node;
}

int gd__expr_number(gd_expr *e, int at, double value)
{
    gd_expr_node node = gd__expr_node(EXPR_NUMBER, at);
    node.number = value;
    return gd__expr_add(e, node, NULL, 0, NULL, 0);
}

int gd__expr_variable_node(gd_expr *e, int at, int variable)
{
    gd_expr_node node = gd__expr_node(EXPR_VARIABLE, at);
    node.u.variable = variable;
    return gd__expr_add(e, node, NULL, 0, NULL, 0);
}

bool gd__expr_value(const gd_expr *e, int node, double *value)
{
    if (node < 0 || e->node[node].op != EXPR_NUMBER) return false;
    *value = e->node[node].number;
    return true;
}

/* Numbers are folded by the operator's kernel: 1.7 written out or given gives the same bits. */
int gd__expr_unary_node(gd_expr *e, int at, gd_expr_unary fn, int x)
{
    double value;
    gd_op_id op = gd__expr_unary_op(fn);
    if (op != GD_OP_COUNT && gd__expr_value(e, x, &value))
        return gd__expr_number(e, at, gd__element_f64(op, value, 0, 0));
    gd_expr_node node = gd__expr_node(EXPR_UNARY, at);
    node.u.unary = fn;
    return gd__expr_add(e, node, &x, 1, NULL, 0);
}

int gd__expr_scalar_node(gd_expr *e, int at, gd_expr_scalar fn, int x, double value)
{
    gd_expr_node node = gd__expr_node(EXPR_SCALAR, at);
    node.number = value;
    node.u.scalar = fn;
    return gd__expr_add(e, node, &x, 1, NULL, 0);
}

int gd__expr_function_node(gd_expr *e, int at, gd_expr_binary fn, int a, int b)
{
    double x, y;
    gd_op_id op = gd__expr_binary_op(fn);
    if (op != GD_OP_COUNT && gd__expr_value(e, a, &x) && gd__expr_value(e, b, &y))
        return gd__expr_number(e, at, gd__element_f64(op, x, y, 0));
    gd_expr_node node = gd__expr_node(EXPR_BINARY, at);
    node.u.binary = fn;
    return gd__expr_add(e, node, (int[]){a, b}, 2, NULL, 0);
}

/* ---- operators ---- */

static const struct {
    char op;
    gd_expr_binary fn;
} operators[] = {{'+', gd_add},    {'-', gd_sub}, {'*', gd_mul},         {'/', gd_div},        {'^', gd_pow},
                 {'@', gd_matmul}, {'%', gd_mod}, {'&', gd_logical_and}, {'|', gd_logical_or}, {'<', gd_lt},
                 {'>', gd_gt},     {'l', gd_le},  {'g', gd_ge},          {'=', gd_eq},         {'!', gd_ne}};

static gd_expr_binary operator_fn(char op)
{
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (operators[i].op == op) return operators[i].fn;
    return NULL;
}

/* As with_number and gd__expr_binary_node write a power. */
static double fold_power(double a, double b)
{
    if (a == exp(1)) return gd__element_f64(GD_OP_exp, b, 0, 0);
    if (b == 2) return gd__element_f64(GD_OP_square, a, 0, 0);
    if (b == 0.5) return gd__element_f64(GD_OP_sqrt, a, 0, 0);
    if (b == -1) return gd__element_f64(GD_OP_reciprocal, a, 0, 0);
    return gd__element_f64(GD_OP_pow_scalar, a, 0, b);
}

static bool fold_binary(char op, double a, double b, double *out)
{
    gd_op_id id = gd__expr_binary_op(operator_fn(op));
    if (id == GD_OP_COUNT) return false; /* a product of matrices */
    *out = op == '^' ? fold_power(a, b) : gd__element_f64(id, a, b, 0);
    return true;
}

/* Dividing by a power of two is multiplying by its reciprocal, bit for bit. */
static bool reciprocal_is_exact(double x)
{
    int exponent;
    return isfinite(x) && fabs(frexp(x, &exponent)) == 0.5 && exponent > -1000 && exponent < 1000;
}

/* x op value in one operator with an immediate number, or -1 if there is none. */
static int with_number(gd_expr *e, int at, char op, int x, double value)
{
    switch (op) {
    case '+': return gd__expr_scalar_node(e, at, gd_add_scalar, x, value);
    case '-': return gd__expr_scalar_node(e, at, gd_add_scalar, x, -value);
    case '*': return gd__expr_scalar_node(e, at, gd_mul_scalar, x, value);
    case '/':
        return reciprocal_is_exact(value) ? gd__expr_scalar_node(e, at, gd_mul_scalar, x, 1 / value) : -1;
    case '^':
        if (value == 2) return gd__expr_unary_node(e, at, gd_square, x);
        if (value == 0.5) return gd__expr_unary_node(e, at, gd_sqrt, x);
        if (value == -1) return gd__expr_unary_node(e, at, gd_reciprocal, x);
        return gd__expr_scalar_node(e, at, gd_pow_scalar, x, value);
    default: return -1;
    }
}

int gd__expr_binary_node(gd_expr *e, int at, char op, int a, int b)
{
    if (a < 0 || b < 0) return -1;
    double x = 0, y = 0, value;
    bool left = gd__expr_value(e, a, &x), right = gd__expr_value(e, b, &y);
    if (left && right && fold_binary(op, x, y, &value)) return gd__expr_number(e, at, value);
    int node = -1;
    if (right) node = with_number(e, at, op, a, y);
    if (left && (op == '+' || op == '*')) node = with_number(e, at, op, b, x);
    if (left && op == '^' && x == exp(1)) node = gd__expr_unary_node(e, at, gd_exp, b);
    if (node >= 0 || gd_error(e->ctx)) return node;
    return gd__expr_function_node(e, at, operator_fn(op), a, b);
}

/* ---- finishing ---- */

/* Characters of the line from `from` to `at`, from 1. */
static int column(const char *text, int from, int at)
{
    int column = 1;
    for (int i = from; i < at && text[i]; i++) column += (text[i] & 0xC0) != 0x80;
    return column;
}

const char *gd__expr_place(const gd_expr *e, int at, char out[GD_EXPR_PLACE])
{
    int line = 1, begin = 0;
    if (at >= (int)e->own) {
        (void)snprintf(out, GD_EXPR_PLACE, "expression: column %d", column(e->text, (int)e->own, at));
        return out;
    }
    for (int i = 0; i < at; i++)
        if (e->text[i] == '\n') line++, begin = i + 1;
    (void)snprintf(out, GD_EXPR_PLACE, "%.100s: line %d, column %d", e->file ? e->file : "definitions", line,
                   column(e->text, begin, at));
    return out;
}

bool gd__expr_has_ode(const gd_expr *e) { return e && e->odes > 0; }

/* Nodes that the root needs, renumbered without gaps. */
static void compact(gd_expr *e, int *place, int root)
{
    for (int i = 0; i <= root; i++) place[i] = 0;
    place[root] = 1;
    for (int i = root; i >= 0; i--) {
        if (!place[i]) continue;
        const gd_expr_node *n = &e->node[i];
        if (n->op == EXPR_VARIABLE) e->used[n->u.variable] = true;
        for (int k = 0; k < n->operands; k++) place[e->operand[n->first + k]] = 1;
    }
    int kept = 0;
    for (int i = 0; i <= root; i++) {
        if (!place[i]) continue;
        gd_expr_node n = e->node[i];
        for (int k = 0; k < n.operands; k++) e->operand[n.first + k] = place[e->operand[n.first + k]];
        e->node[kept] = n;
        place[i] = kept++;
    }
    e->nodes = kept;
}

gd_status gd__expr_finish(gd_expr *e, int root)
{
    size_t bytes = ((size_t)root + 1) * sizeof(int);
    int *place = gd__alloc(e->ctx, bytes);
    if (!place) return GD_NOMEM;
    compact(e, place, root);
    gd__free(e->ctx, place, bytes);
    e->slot_bytes = (size_t)e->nodes * sizeof *e->slot;
    e->slot = gd__calloc(e->ctx, e->slot_bytes);
    return e->slot ? GD_OK : GD_NOMEM;
}

void gd_expr_free(gd_expr *e)
{
    if (!e) return;
    gd_expr_forget(e);
    gd_ctx *ctx = e->ctx;
    for (int i = 0; i < e->variables; i++) gd__strfree(ctx, e->name[i]);
    for (int i = 0; i < e->odes; i++) gd__expr_ode_free(e->ode[i]);
    gd__free(ctx, e->ode, e->ode_bytes);
    gd__strfree(ctx, e->text);
    gd__free(ctx, e->node, e->node_bytes);
    gd__free(ctx, e->operand, e->operand_bytes);
    gd__free(ctx, e->integer, e->integer_bytes);
    gd__free(ctx, e->name, e->name_bytes);
    gd__free(ctx, e->used, e->used_bytes);
    gd__free(ctx, e->fixed, e->fixed_bytes);
    gd__free(ctx, e->slot, e->slot_bytes);
    gd__free(ctx, e, sizeof *e);
}
