/* An expression as text in other languages: C, Python, LaTeX.
 *
 * Each operator has a form in each language (expr_elements.c).  Common subexpressions become variables in C and Python.  Only
 * expressions of numbers have such forms: sums over arrays and matrices have none. */
#include "expr/expr_export.h"
#include "expr/expr_program.h"
#include "base/system.h"
#include "base/text/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STACK_RESERVE 32768 /* bytes of stack that recursion leaves for calls */

/* ---- numbers and names ---- */

/* The shortest text that reads back as the number. */
static void shortest(char out[40], double value)
{
    for (int digits = 15; digits <= 17; digits++) {
        double back;
        (void)gd__format(out, 40, "%.*g", digits, value);
        if (gd__parse_number(out, strlen(out), true, &back) == strlen(out) && back == value) return;
    }
}

void gd__export_number(gd_text *out, gd_expr_language language, double value)
{
    static const char *const infinite[] = {"INFINITY", "math.inf", "\\infty"};
    char text[40];
    if (!isfinite(value)) {
        gd__text_add(out, value < 0 ? "-" : "");
        gd__text_add(out, isnan(value) ? "NAN" : infinite[language]);
        return;
    }
    shortest(text, value);
    char *power = strchr(text, 'e');
    if (language == GD_EXPR_LATEX && power) {
        *power = 0;
        gd__text_put(out, "%s \\cdot 10^{%ld}", text, strtol(power + 1, NULL, 10));
        return;
    }
    gd__text_add(out, text);
    if (language != GD_EXPR_LATEX && !strpbrk(text, ".e")) gd__text_add(out, ".0");
}

/* ---- nodes ---- */

typedef struct writer {
    const gd_expr *e;
    gd_expr_language language;
    const gd_expr_symbol *symbol;
    gd_text *out;
    int *uses;       /* of each node */
    int *local;      /* number of the variable it became, 0: none */
    int failed;      /* the node that has no form; -1: none */
    uintptr_t floor; /* of the stack */
} writer;

/* NULL: there is none. */
static const gd_expr_form_text *form_of(const writer *w, const gd_expr_node *n)
{
    gd_op_id op = GD_OP_COUNT;
    if (n->op == EXPR_UNARY) op = gd__expr_unary_op(n->u.unary);
    if (n->op == EXPR_BINARY) op = gd__expr_binary_op(n->u.binary);
    if (n->op == EXPR_WHERE) op = GD_OP_where;
    return op == GD_OP_COUNT ? NULL : &gd__expr_element(op)->form[w->language];
}

static void put_node(writer *w, int at, int need);

static void put_form(writer *w, const gd_expr_node *n, const gd_expr_form_text *f)
{
    for (const char *s = f->text; *s; s++) {
        if (*s == '$')
            put_node(w, w->e->operand[n->first], f->left);
        else if (*s == '#' || *s == '@')
            put_node(w, w->e->operand[n->first + (*s == '#' ? 1 : 2)], f->right);
        else
            gd__text_char(w->out, *s);
    }
}

/* p[0], p[1,2]: the place among all elements. */
static bool put_element(writer *w, const gd_expr_node *n)
{
    const gd_expr_node *of = &w->e->node[w->e->operand[n->first]];
    if (of->op != EXPR_VARIABLE) return false;
    const gd_expr_symbol *symbol = &w->symbol[of->u.variable];
    int64_t place = 0;
    if (!symbol->axes || n->integers != symbol->axes * PLACE_SIZE) return false;
    for (int k = 0; k < symbol->axes; k++) {
        const int64_t *index = w->e->integer + n->integer + k * PLACE_SIZE;
        if (index[PLACE_RANGE]) return false;
        place = place * symbol->shape[k] + index[PLACE_START] +
                (index[PLACE_START] < 0 ? symbol->shape[k] : 0);
    }
    if (w->language == GD_EXPR_LATEX)
        gd__text_put(w->out, "%s_{%lld}", symbol->text, (long long)place);
    else
        gd__text_put(w->out, "%s[%lld]", symbol->text, (long long)place);
    return true;
}

/* x + 2, 2 * x, x^2.5 */
static bool put_scalar(writer *w, const gd_expr_node *n, int need)
{
    int x = w->e->operand[n->first];
    bool add = n->u.scalar == gd_add_scalar, mul = n->u.scalar == gd_mul_scalar,
         pow = n->u.scalar == gd_pow_scalar;
    if (!add && !mul && !pow) return false;
    bool call = pow && w->language == GD_EXPR_C;
    bool latex = w->language == GD_EXPR_LATEX, sign = mul && n->number == -1;
    int binds = call                                     ? GD_EXPR_ATOM
                : add || (mul && latex && n->number < 0) ? GD_EXPR_SUM
                : sign                                   ? GD_EXPR_SIGNED
                : mul                                    ? GD_EXPR_PRODUCT
                                                         : GD_EXPR_POWER;
    double value = add ? fabs(n->number) : n->number;
    if (binds < need) gd__text_char(w->out, '(');
    if (call) gd__text_add(w->out, "pow(");
    if (sign) {
        gd__text_char(w->out, '-');
    } else if (mul) {
        gd__export_number(w->out, w->language, value);
        gd__text_add(w->out, latex ? " \\, " : " * ");
    }
    if (pow && latex) gd__text_char(w->out, '{');
    put_node(w, x, call ? GD_EXPR_LOOSE : add ? GD_EXPR_SUM : mul ? GD_EXPR_POWER : GD_EXPR_ATOM);
    if (add) gd__text_add(w->out, n->number < 0 ? " - " : " + ");
    if (pow) gd__text_add(w->out, call ? ", " : w->language == GD_EXPR_PYTHON ? "**" : "}^{");
    bool negative = pow && !call && value < 0 && w->language == GD_EXPR_PYTHON;
    if (negative) gd__text_char(w->out, '(');
    if (!mul) gd__export_number(w->out, w->language, value);
    if (negative || call) gd__text_char(w->out, ')');
    if (pow && latex) gd__text_char(w->out, '}');
    if (binds < need) gd__text_char(w->out, ')');
    return true;
}

/* a + -b is a - b. */
static bool put_difference(writer *w, const gd_expr_node *n, int need)
{
    int right = n->op == EXPR_BINARY && n->u.binary == gd_add ? w->e->operand[n->first + 1] : -1;
    const gd_expr_node *b = right < 0 ? NULL : &w->e->node[right];
    if (!b || w->local[right] || b->op != EXPR_UNARY || b->u.unary != gd_neg) return false;
    if (GD_EXPR_SUM < need) gd__text_char(w->out, '(');
    put_node(w, w->e->operand[n->first], GD_EXPR_SUM);
    gd__text_add(w->out, " - ");
    put_node(w, w->e->operand[b->first], GD_EXPR_PRODUCT);
    if (GD_EXPR_SUM < need) gd__text_char(w->out, ')');
    return true;
}

/* The text of the node, in parentheses if it binds more loosely than its context needs. */
static void put_whole(writer *w, int at, int need)
{
    const gd_expr_node *n = &w->e->node[at];
    const gd_expr_form_text *f = form_of(w, n);
    bool done = true;
    if (w->failed >= 0 || put_difference(w, n, need)) return;
    if (f && f->text) {
        if (f->binds < need) gd__text_add(w->out, w->language == GD_EXPR_LATEX ? "\\left(" : "(");
        put_form(w, n, f);
        if (f->binds < need) gd__text_add(w->out, w->language == GD_EXPR_LATEX ? "\\right)" : ")");
    } else if (n->op == EXPR_NUMBER) {
        bool inside = n->number < 0 && need > GD_EXPR_SIGNED - 1;
        if (inside) gd__text_char(w->out, '(');
        gd__export_number(w->out, w->language, n->number);
        if (inside) gd__text_char(w->out, ')');
    } else if (n->op == EXPR_VARIABLE) {
        done = !w->symbol[n->u.variable].axes;
        if (done) gd__text_add(w->out, w->symbol[n->u.variable].text);
    } else
        done = n->op == EXPR_INDEX ? put_element(w, n) : n->op == EXPR_SCALAR && put_scalar(w, n, need);
    if (!done) w->failed = at;
}

static void put_node(writer *w, int at, int need)
{
    if (w->out->used > GD_EXPORT_LONGEST || gd__stack_here() <= w->floor) {
        w->failed = at;
        return;
    }
    if (w->local[at])
        gd__text_put(w->out, "part%d_", w->local[at]);
    else
        put_whole(w, at, need);
}

/* Subexpressions that are used several times, one line each. */
static void put_locals(writer *w)
{
    int count = 0;
    for (int i = 0; i + 1 < w->e->nodes && w->failed < 0; i++) {
        const gd_expr_node *n = &w->e->node[i];
        if (w->uses[i] < 2 || !n->operands || n->op == EXPR_INDEX) continue;
        gd__text_put(w->out,
                     w->language == GD_EXPR_C ? "    const double part%d_ = " : "    part%d_ = ", count + 1);
        put_whole(w, i, GD_EXPR_LOOSE);
        gd__text_add(w->out, w->language == GD_EXPR_C ? ";\n" : "\n");
        w->local[i] = ++count;
    }
}

gd_status gd__expr_export(const gd_expr *e, gd_expr_language language, const gd_expr_symbol *symbol,
                          gd_text *out)
{
    size_t bytes = (size_t)e->nodes * 2 * sizeof(int);
    writer w = {.e = e,
                .language = language,
                .symbol = symbol,
                .out = out,
                .failed = -1,
                .floor = gd__stack_floor(STACK_RESERVE)};
    if (!(w.uses = gd__calloc(e->ctx, bytes))) return GD_NOMEM;
    w.local = w.uses + e->nodes;
    for (int i = 0; i < e->nodes; i++)
        for (int k = 0; k < e->node[i].operands; k++) w.uses[e->operand[e->node[i].first + k]]++;
    if (language != GD_EXPR_LATEX) put_locals(&w);
    if (language != GD_EXPR_LATEX) gd__text_add(out, "    return ");
    put_node(&w, e->nodes - 1, GD_EXPR_LOOSE);
    gd_status status = out->failed ? GD_NOMEM : GD_OK;
    if (!status && w.failed >= 0) {
        static const char *const names[] = {"C", "Python", "LaTeX"};
        char place[GD_EXPR_PLACE];
        status = gd_fail(e->ctx, GD_ARGUMENT, "%s: this has no form in %s",
                         gd__expr_place(e, e->node[w.failed].at, place), names[language]);
    }
    gd__free(e->ctx, w.uses, bytes);
    return status;
}

/* The symbols given; a variable without one by its own name, as a number. */
static gd_expr_symbol *named_symbols(const gd_expr *e, const gd_expr_symbol *given, size_t *bytes)
{
    *bytes = (size_t)e->variables * sizeof(gd_expr_symbol) + 1;
    gd_expr_symbol *symbol = gd__calloc(e->ctx, *bytes);
    for (int i = 0; i < e->variables && symbol; i++) {
        if (given) symbol[i] = given[i];
        if (!symbol[i].text) symbol[i].text = e->name[i];
    }
    return symbol;
}

int gd_expr_export(const gd_expr *e, gd_expr_language language, const gd_expr_symbol *symbols, char *out,
                   size_t size)
{
    if (size && out) out[0] = 0;
    if (!e || gd_error(e->ctx)) return -1;
    if ((unsigned)language >= GD_EXPR_LANGUAGES) {
        (void)gd_fail(e->ctx, GD_ARGUMENT, "expression: no language %d", (int)language);
        return -1;
    }
    size_t bytes;
    gd_expr_symbol *named = named_symbols(e, symbols, &bytes);
    if (!named) return -1;
    gd_text text = gd__text(e->ctx);
    gd_status status = gd__expr_export(e, language, named, &text);
    int length = status ? -1 : (int)text.used;
    if (!status && out && size) (void)snprintf(out, size, "%s", gd__text_string(&text));
    gd__text_free(&text);
    gd__free(e->ctx, named, bytes);
    return length;
}
