/* Element-wise operators in expressions: their functions, and their spellings in other languages, from the rows of tensor/ops.def.
 *
 * A form is a text in which $, # and @ stand for the operands, and how tightly it binds, so that only the parentheses that are
 * needed are written:
 *
 *   FORM(text, binds, first, others)   the whole, and the least tightness of the first operand and of the others
 *   CALL(text)                         binds tightest, accepts any operand
 *   INFIX(text, binds)                 associates to the left
 *   NAMED(name, LaTeX)                 three calls, with the same name in C and Python
 *   TRUTH(sign, LaTeX)                 three comparisons */
#include "expr/expr_program.h"
#include "tensor/device.h"

#define FORM(text, binds, first, others) \
    {                                    \
        text, binds, first, others       \
    }
#define CALL(text)         FORM(text, ATOM, LOOSE, LOOSE)
#define INFIX(text, binds) FORM(text, binds, binds, (binds) + 1)
#define NAMED(name, latex) CALL(name "($)"), CALL("math." name "($)"), CALL(latex)
#define BESIDE(word)       "\\" word "\\left($\\right)"
#define TRUTH(sign, latex)                                                                       \
    FORM("(double)($ " sign " #)", ATOM, SUM, SUM), FORM("float($ " sign " #)", ATOM, SUM, SUM), \
        FORM("[$ " latex " #]", ATOM, SUM, SUM)

#define LOOSE    GD_EXPR_LOOSE
#define COMPARED GD_EXPR_COMPARED
#define SUM      GD_EXPR_SUM
#define PRODUCT  GD_EXPR_PRODUCT
#define SIGNED   GD_EXPR_SIGNED
#define POWER    GD_EXPR_POWER
#define ATOM     GD_EXPR_ATOM

#define FUNCTION(help_, ...) .help = help_, .form = {__VA_ARGS__}
#define SIGN(...)            .form = {__VA_ARGS__}
#define UNSPELT              .help = NULL

const gd_expr_element *gd__expr_element(gd_op_id op)
{
    static const gd_expr_element elements[GD_OP_COUNT] = {
#define ELEMENT(name_, inputs_, settings, kind, needs, takes, batch, element, whole, gradient, ...) \
    [GD_OP_##name_] = {.name = #name_, .inputs = inputs_, __VA_ARGS__},
#define ELEMENT0(name_, inputs_, settings, kind, takes, element, whole, ...) \
    [GD_OP_##name_] = {.name = #name_, .inputs = inputs_, __VA_ARGS__},
#include "tensor/ops.def"
    };
    return &elements[op];
}

/* ---- their functions of tensors ---- */

static const struct {
    gd_op_id op;
    gd_expr_unary fn;
} unary[] = {
#define ENTRY(name) {GD_OP_##name, gd_##name},
    GD_UNARY_LIST(ENTRY)};

static const struct {
    gd_op_id op;
    gd_expr_binary fn;
} binary[] = {GD_BINARY_LIST(ENTRY)};

gd_op_id gd__expr_unary_op(gd_expr_unary fn)
{
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
        if (unary[i].fn == fn) return unary[i].op;
    return GD_OP_COUNT;
}

gd_op_id gd__expr_binary_op(gd_expr_binary fn)
{
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        if (binary[i].fn == fn) return binary[i].op;
    return GD_OP_COUNT;
}

gd_expr_unary gd__expr_unary_of(gd_op_id op)
{
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++)
        if (unary[i].op == op) return unary[i].fn;
    return NULL;
}

gd_expr_binary gd__expr_binary_of(gd_op_id op)
{
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++)
        if (binary[i].op == op) return binary[i].fn;
    return NULL;
}

bool gd__expr_tests(gd_op_id op) { return op != GD_OP_COUNT && gd__ops[op].kind == GD_KIND_TEST; }
