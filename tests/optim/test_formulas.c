/* What `gradus links NAME` prints as a link's formula is what the link computes.
 *
 * The formulas of rules are read here and evaluated in plain doubles:
 *
 *     v = beta v + (1 - beta) u;  u / (sqrt(v) + eps)
 *
 * statements in order, products by juxtaposition, names of settings, u the update, g the gradient, p the parameter, t the
 * step from 1, f the loss; other names are state that starts at zero, or where a statement `v_0 = ...` says.  norm(x) and sum(x) are those of the
 * tensor, the rest goes by elements.  The last statement without a name is the result. */
#include "optim_support.h"
#include "table_support.h"

#include <ctype.h>
#include <stdlib.h>

#define N         3 /* elements */
#define STEPS     14
#define VARIABLES 24

typedef struct value {
    double v[N];
} value;

typedef struct variable {
    char name[32];
    value value;
} variable;

typedef struct evaluation {
    const gd_link *link;
    const char *at;
    variable variable[VARIABLES];
    int variables, step;
    bool failed;
} evaluation;

static value all(double x) { return (value){{x, x, x}}; }

static value *variable_of(evaluation *e, const char *name)
{
    for (int i = 0; i < e->variables; i++)
        if (!strcmp(e->variable[i].name, name)) return &e->variable[i].value;
    variable *made = &e->variable[e->variables++];
    assert_true(e->variables <= VARIABLES);
    *made = (variable){0};
    snprintf(made->name, sizeof made->name, "%s", name);
    return &made->value;
}

/* ---- the language ---- */

static char peek(evaluation *e)
{
    while (*e->at == ' ') e->at++;
    return *e->at;
}

static bool take(evaluation *e, const char *text)
{
    (void)peek(e);
    size_t length = strlen(text);
    if (strncmp(e->at, text, length) != 0) return false;
    if (isalpha((unsigned char)*text) && (isalnum((unsigned char)e->at[length]) || e->at[length] == '_'))
        return false;
    e->at += length;
    return true;
}

static value sum_of(evaluation *e);

static value apply(const char *name, value a, value b)
{
    value out = a;
    double square = 0, sum = 0;
    for (int i = 0; i < N; i++) {
        square += a.v[i] * a.v[i];
        sum += a.v[i];
    }
    for (int i = 0; i < N; i++)
        out.v[i] = !strcmp(name, "sqrt")       ? sqrt(a.v[i])
                   : !strcmp(name, "norm")     ? sqrt(square)
                   : !strcmp(name, "sign")     ? (a.v[i] > 0) - (a.v[i] < 0)
                   : !strcmp(name, "abs")      ? fabs(a.v[i])
                   : !strcmp(name, "mean")     ? sum / N
                   : !strcmp(name, "sum")      ? sum
                   : !strcmp(name, "isfinite") ? isfinite(a.v[i]) != 0
                   : !strcmp(name, "min")      ? fmin(a.v[i], b.v[i])
                   : !strcmp(name, "max")      ? fmax(a.v[i], b.v[i])
                                               : NAN;
    return out;
}

static bool is_function(const char *name)
{
    static const char *const names[] = {"sqrt", "norm",     "sign", "abs", "sum",
                                        "mean", "isfinite", "min",  "max"};
    for (int i = 0; i < COUNT_OF(names); i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static value named(evaluation *e, const char *name)
{
    if (is_function(name)) {
        e->failed = e->failed || !take(e, "(");
        value a = sum_of(e), b = take(e, ",") ? sum_of(e) : all(0);
        e->failed = e->failed || !take(e, ")");
        return apply(name, a, b);
    }
    if (gd__field_index(gd_link_class_of(e->link), name) >= 0) return all(gd_link_real(e->link, name, NULL));
    return *variable_of(e, name);
}

static value base_of(evaluation *e)
{
    char name[32] = "", next = peek(e), *end;
    int length = 0;
    if (take(e, "(")) {
        value inside = sum_of(e);
        e->failed = e->failed || !take(e, ")");
        return inside;
    }
    if (isdigit((unsigned char)next)) {
        double number = strtod(e->at, &end);
        e->at = end;
        return all(number);
    }
    while ((isalnum((unsigned char)*e->at) || *e->at == '_') && length < 31) name[length++] = *e->at++;
    e->failed = e->failed || !length;
    return length ? named(e, name) : all(NAN);
}

static value factor_of(evaluation *e)
{
    if (take(e, "-")) {
        value x = factor_of(e);
        for (int i = 0; i < N; i++) x.v[i] = -x.v[i];
        return x;
    }
    value a = base_of(e);
    if (!take(e, "^")) return a;
    value b = factor_of(e);
    for (int i = 0; i < N; i++) a.v[i] = pow(a.v[i], b.v[i]);
    return a;
}

static value product_of(evaluation *e)
{
    value a = factor_of(e);
    while (!e->failed) {
        bool over = take(e, "/"), times = !over && take(e, "*");
        const char *before = e->at;
        bool word = take(e, "where") || take(e, "else");
        e->at = before;
        char next = peek(e);
        if (!over && !times && (word || !(isalnum((unsigned char)next) || next == '('))) return a;
        value b = factor_of(e);
        for (int i = 0; i < N; i++) a.v[i] = over ? a.v[i] / b.v[i] : a.v[i] * b.v[i];
    }
    return a;
}

static value sum_of(evaluation *e)
{
    value a = product_of(e);
    while (!e->failed) {
        bool plus = take(e, "+"), minus = !plus && take(e, "-");
        if (!plus && !minus) return a;
        value b = product_of(e);
        for (int i = 0; i < N; i++) a.v[i] += minus ? -b.v[i] : b.v[i];
    }
    return a;
}

/* x, or x where a > b, else y */
static value result_of(evaluation *e)
{
    value x = sum_of(e);
    if (!take(e, "where")) return x;
    value a = sum_of(e);
    e->failed = e->failed || !take(e, ">");
    value b = sum_of(e);
    e->failed = e->failed || !take(e, ",") || !take(e, "else");
    value y = sum_of(e);
    for (int i = 0; i < N; i++) x.v[i] = a.v[i] > b.v[i] ? x.v[i] : y.v[i];
    return x;
}

/* The name before a '=', taken with it; false: an expression. */
static bool assigned(evaluation *e, char *name, size_t size)
{
    (void)peek(e);
    size_t length = 0;
    while (isalnum((unsigned char)e->at[length]) || e->at[length] == '_') length++;
    const char *after = e->at + length;
    while (*after == ' ') after++;
    if (!length || length >= size || *after != '=') return false;
    snprintf(name, size, "%.*s", (int)length, e->at);
    e->at = after + 1;
    return true;
}

static value evaluate(evaluation *e)
{
    value out = all(NAN);
    e->at = gd_link_class_of(e->link)->formula;
    do {
        char name[32];
        if (!assigned(e, name, sizeof name)) {
            out = result_of(e);
            continue;
        }
        value x = result_of(e);
        char *start = strstr(name, "_0");
        if (start) *start = 0;
        if (!start || e->step == 1) *variable_of(e, name) = x;
    } while (!e->failed && take(e, ";"));
    e->failed = e->failed || peek(e);
    return out;
}

/* ---- every rule of the table ---- */

/* Numbers other than the defaults, so that what a formula leaves out is seen. */
static void change_settings(gd_link *link)
{
    const gd_link_class *cls = gd_link_class_of(link);
    for (int i = 0; i < cls->field_count; i++) {
        const gd_field *f = &cls->fields[i];
        double number = f->fallback.real * 0.75 + 0.2;
        if (f->kinds != GD_SET_REAL || f->structural || f->integer) continue;
        OK(gd_link_set_real(link, f->name, number < f->low ? f->low : number > f->high ? f->high : number));
    }
}

static const double updates[][N] = {{0.5, -2, 1}, {-1, 0.25, 3}, {2, 1, -0.5}, {0.1, -0.2, -4}, {1, 1, 1}};
static const double gradients[][N] = {{1, 2, -1}, {-1, -3, 2}, {-2, 1, -1}, {1, -1, 1}, {2, -1, 3}};
static const double point[N] = {1.5, -0.5, 2};

/* The rows of a table in turn, longer each time round. */
static value row_of(const double (*table)[N], int rows, int step)
{
    value x;
    for (int i = 0; i < N; i++) x.v[i] = table[(step - 1) % rows][i] * (1 + 0.1 * ((step - 1) / rows));
    return x;
}

static void compare(const evaluation *e, const value *want, gd_tensor *got)
{
    double x[N];
    OK(gd_read_f64(got, x, N));
    for (int i = 0; i < N; i++)
        if (!(fabs(x[i] - want->v[i]) <= 1e-12 * (1 + fabs(want->v[i]))))
            fail_msg("%s, step %d: '%s' gives %.17g, the link %.17g", gd_link_class_of(e->link)->name,
                     e->step, gd_link_class_of(e->link)->formula, want->v[i], x[i]);
}

static void follow(gd_ctx *ctx, gd_link *link)
{
    evaluation e = {.link = link};
    gd_tensor *p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, point));
    for (e.step = 1; e.step <= STEPS; e.step++) {
        value update = row_of(updates, COUNT_OF(updates), e.step),
              gradient = row_of(gradients, COUNT_OF(gradients), e.step);
        gd_scope_begin(ctx);
        gd_tensor *u = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, update.v);
        gd_tensor *g = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, gradient.v);
        *variable_of(&e, "u") = update;
        *variable_of(&e, "g") = gradient;
        memcpy(variable_of(&e, "p")->v, point, sizeof point);
        *variable_of(&e, "t") = all(e.step);
        double loss = 3 / (0.5 + e.step);
        *variable_of(&e, "f") = all(loss);
        value want = evaluate(&e);
        if (e.failed)
            fail_msg("%s: the formula '%s' cannot be read at '%s'", gd_link_class_of(link)->name,
                     gd_link_class_of(link)->formula, e.at);
        gd_tensor *f = gd_scalar(ctx, GD_F64, loss);
        OK(gd_link_keyed_update(link, &u, &p, &g, f, 1));
        OK(gd_link_keyed_apply(link, &u, &p, &g, f, 1));
        compare(&e, &want, u);
        gd_scope_end(ctx);
    }
    gd_release(p);
}

static int followed;
static gd_ctx *shared;

static void follow_text(const gd_link_class *cls, const char *text)
{
    if (!cls->rule || strchr(text, '[')) return; /* a formula of children is one of theirs */
    for (int changed = 0; changed < 2; changed++) {
        gd_link *link = gd_chain(shared, text);
        assert_no_error(shared);
        if (changed) change_settings(link);
        follow(shared, link);
        gd_link_release(link);
    }
    followed++;
}

static void the_formula_of_every_rule_is_what_it_computes(void **state)
{
    shared = CTX(state);
    followed = 0;
    each_link_text(follow_text);
    assert_true(followed >= 12);
}

/* ---- where eps goes in Adam ---- */

/* raw: Kingma & Ba's efficient form, section 2; corrected: algorithm 1, as PyTorch has it. */
static void eps_of_adam_is_added_to_the_raw_or_to_the_corrected_root(void **state)
{
    gd_ctx *ctx = CTX(state);
    for (int corrected = 0; corrected < 2; corrected++) {
        gd_link *link = gd_chain(ctx, corrected ? "adam(eps=0.1, eps_at=\"corrected\")" : "adam(eps=0.1)");
        gd_tensor *p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, point));
        double m[N] = {0}, v[N] = {0};
        for (int t = 1; t <= COUNT_OF(updates); t++) {
            value want;
            double first = 1 - pow(0.9, t), second = sqrt(1 - pow(0.999, t));
            for (int i = 0; i < N; i++) {
                double u = updates[t - 1][i];
                m[i] = 0.9 * m[i] + 0.1 * u;
                v[i] = 0.999 * v[i] + 0.001 * u * u;
                want.v[i] = corrected ? m[i] / first / (sqrt(v[i]) / second + 0.1)
                                      : m[i] * second / first / (sqrt(v[i]) + 0.1);
            }
            gd_scope_begin(ctx);
            gd_tensor *u = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, updates[t - 1]);
            OK(gd_link_keyed_apply(link, &u, &p, NULL, NULL, 1));
            compare(&(evaluation){.link = link, .step = t}, &want, u);
            gd_scope_end(ctx);
        }
        gd_release(p);
        gd_link_release(link);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_formula_of_every_rule_is_what_it_computes),
        CASE(eps_of_adam_is_added_to_the_raw_or_to_the_corrected_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
