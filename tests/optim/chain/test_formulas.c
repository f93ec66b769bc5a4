/* What `gradus links NAME` prints as a link's formula is what the link computes.
 *
 * The formulas of rules are read here and evaluated in plain doubles:
 *
 *     v = beta v + (1 - beta) u;  u / (sqrt(v) + eps)
 *
 * statements in order, products by juxtaposition, names of settings (none counts as 0), u the update, g the gradient, p the
 * parameter, t the step from 1, f the loss; other names are state that starts at zero, or where a statement `v_0 = ...` says.  norm(x),
 * sum(x) and dot(x, y) are those of the tensor, the rest goes by elements.  A setting that is a chain is a function, other(u), and
 * evaluated by the formulas of its links; where it is a number it is that whatever u, and none is no number.  sum, mean, prod,
 * max and min of any number of chains, inputs(u), and of what goes with them, weights, are over those.  Choices are written
 * `x where a > b, y where isnan(u), else z`.  The last statement without a name is the result; one that begins with ~ is
 * random. */
#include "optim/optim_support.h"
#include "optim/table_support.h"

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
    int turn; /* which of any number of children is meant */
    struct evaluation *child[4];
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

static double sign_of(double x, double b, double c) { return (void)b, (void)c, (double)((x > 0) - (x < 0)); }
static double root(double x, double b, double c) { return (void)b, (void)c, sqrt(x); }
static double magnitude(double x, double b, double c) { return (void)b, (void)c, fabs(x); }
static double exponential(double x, double b, double c) { return (void)b, (void)c, exp(x); }
static double is_finite(double x, double b, double c) { return (void)b, (void)c, (double)isfinite(x); }
static double is_nan(double x, double b, double c) { return (void)b, (void)c, (double)isnan(x); }
static double least(double x, double y, double c) { return (void)c, fmin(x, y); }
static double most(double x, double y, double c) { return (void)c, fmax(x, y); }
static double with_sign(double x, double y, double c) { return (void)c, copysign(x, y); }
/* a bound that is NaN is none */
static double clamped(double x, double low, double high) { return fmin(fmax(x, low), high); }

static const struct {
    const char *name;
    double (*fn)(double a, double b, double c);
} functions[] = {{"sqrt", root},          {"abs", magnitude},      {"exp", exponential}, {"sign", sign_of},
                 {"isnan", is_nan},       {"isfinite", is_finite}, {"min", least},       {"max", most},
                 {"copysign", with_sign}, {"clamp", clamped}};

static value dot_of(value a, value b)
{
    double sum = 0;
    for (int i = 0; i < N; i++) sum += a.v[i] * b.v[i];
    return all(sum);
}

/* The arguments of a function in their brackets; returns how many. */
static int arguments_of(evaluation *e, value out[3])
{
    int count = 0;
    e->failed = e->failed || !take(e, "(");
    do out[count++] = sum_of(e);
    while (count < 3 && take(e, ","));
    e->failed = e->failed || !take(e, ")");
    return count;
}

static bool is_function(const char *name)
{
    for (int i = 0; i < COUNT_OF(functions); i++)
        if (!strcmp(name, functions[i].name)) return true;
    static const char *const of_tensor[] = {"norm", "sum", "mean", "dot"};
    for (int i = 0; i < COUNT_OF(of_tensor); i++)
        if (!strcmp(name, of_tensor[i])) return true;
    return false;
}

static value called(evaluation *e, const char *name)
{
    value x[3] = {all(0), all(0), all(0)};
    (void)arguments_of(e, x);
    if (!strcmp(name, "dot")) return dot_of(x[0], x[1]);
    if (!strcmp(name, "sum")) return dot_of(x[0], all(1));
    if (!strcmp(name, "mean")) return dot_of(x[0], all(1.0 / N));
    if (!strcmp(name, "norm")) return all(sqrt(dot_of(x[0], x[0]).v[0]));
    for (int k = 0; k < COUNT_OF(functions); k++)
        for (int i = 0; i < N && !strcmp(name, functions[k].name); i++)
            x[0].v[i] = functions[k].fn(x[0].v[i], x[1].v[i], x[2].v[i]);
    return x[0];
}

/* ---- children ---- */

static value follow_child(evaluation *e, int index, value u);

static const gd_field *field_of(const evaluation *e, const char *name)
{
    const gd_link_class *cls = gd_link_class_of(e->link);
    int field = gd__field_index(cls, name);
    return field < 0 ? NULL : &cls->fields[field];
}

static bool takes_many(const gd_link *link)
{
    const gd_link_class *cls = gd_link_class_of(link);
    for (int i = 0; i < cls->field_count; i++)
        if (cls->fields[i].variadic) return true;
    return false;
}

/* A setting that is a chain, or a number in its place. */
static value child_called(evaluation *e, const gd_field *field)
{
    value x[3];
    e->failed = arguments_of(e, x) != 1 || e->failed;
    if (field->variadic) return follow_child(e, e->turn, x[0]);
    const gd_link *child = gd_link_child(e->link, field->name);
    for (int i = 0; child && i < gd_link_children(e->link); i++)
        if (gd_link_child_at(e->link, i) == child) return follow_child(e, i, x[0]);
    return all(gd_link_real(e->link, field->name, NULL));
}

/* sum(weights inputs(u)): what stands in the brackets for each child in turn. */
static value over_children(evaluation *e, const char *name)
{
    value out = all(0);
    int count = gd_link_children(e->link);
    e->failed = e->failed || !take(e, "(");
    const char *begin = e->at;
    for (e->turn = 0; e->turn < count; e->turn++) {
        e->at = begin;
        value x = sum_of(e);
        for (int i = 0; i < N && e->turn > 0; i++)
            x.v[i] = !strcmp(name, "prod")  ? out.v[i] * x.v[i]
                     : !strcmp(name, "max") ? fmax(out.v[i], x.v[i])
                     : !strcmp(name, "min") ? fmin(out.v[i], x.v[i])
                                            : out.v[i] + x.v[i];
        out = x;
    }
    e->failed = e->failed || !take(e, ")");
    for (int i = 0; i < N && !strcmp(name, "mean"); i++) out.v[i] /= count;
    return out;
}

static bool is_over_children(const evaluation *e, const char *name)
{
    static const char *const names[] = {"sum", "mean", "prod", "max", "min"};
    for (int i = 0; i < COUNT_OF(names) && takes_many(e->link); i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static value setting_of(const evaluation *e, const gd_field *field)
{
    const gd_setting *s = gd_link_get(e->link, field->name, NULL);
    if (s->kind == GD_SET_LIST) return all(e->turn < s->list_count ? s->list[e->turn] : NAN);
    return all(s->kind == GD_SET_NONE ? 0 : gd_link_real(e->link, field->name, NULL));
}

static value named(evaluation *e, const char *name)
{
    const gd_field *field = field_of(e, name);
    if (field && field->kinds & GD_SET_CHAIN) return child_called(e, field);
    if (is_over_children(e, name)) return over_children(e, name);
    if (is_function(name)) return called(e, name);
    return field ? setting_of(e, field) : *variable_of(e, name);
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

/* a > b, or a number that is not 0 */
static value condition_of(evaluation *e)
{
    static const char *const relations[] = {">=", "<=", ">", "<"};
    value a = sum_of(e);
    int k = 0;
    while (k < 4 && !take(e, relations[k])) k++;
    if (k == 4) return a;
    value b = sum_of(e);
    for (int i = 0; i < N; i++)
        a.v[i] = k == 0   ? a.v[i] >= b.v[i]
                 : k == 1 ? a.v[i] <= b.v[i]
                 : k == 2 ? a.v[i] > b.v[i]
                          : a.v[i] < b.v[i];
    return a;
}

/* x, or x where a > b, y where c, else z */
static value result_of(evaluation *e)
{
    value x = sum_of(e);
    if (!take(e, "where")) return x;
    value holds = condition_of(e);
    e->failed = e->failed || !take(e, ",");
    value y = take(e, "else") ? sum_of(e) : result_of(e);
    for (int i = 0; i < N; i++) x.v[i] = holds.v[i] != 0 ? x.v[i] : y.v[i];
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

static evaluation *child_evaluation(evaluation *e, int index)
{
    assert_true(index < COUNT_OF(e->child));
    if (!e->child[index]) {
        e->child[index] = test_calloc(1, sizeof *e);
        e->child[index]->link = gd_link_child_at(e->link, index);
    }
    return e->child[index];
}

static value follow_child(evaluation *e, int index, value u)
{
    evaluation *c = child_evaluation(e, index);
    *variable_of(c, "u") = u;
    *variable_of(c, "g") = *variable_of(e, "g");
    *variable_of(c, "p") = *variable_of(e, "p");
    *variable_of(c, "f") = *variable_of(e, "f");
    *variable_of(c, "t") = all(c->step = e->step);
    value out = u;
    if (gd_link_class_of(c->link)->rule)
        out = evaluate(c);
    else
        for (int i = 0; i < gd_link_children(c->link); i++) out = follow_child(c, i, out); /* a chain */
    e->failed = e->failed || c->failed;
    return out;
}

static void evaluation_end(evaluation *e)
{
    for (int i = 0; i < COUNT_OF(e->child); i++) {
        if (e->child[i]) evaluation_end(e->child[i]);
        test_free(e->child[i]);
    }
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
        if (!(isnan(x[i]) && isnan(want->v[i])) && x[i] != want->v[i] &&
            !(fabs(x[i] - want->v[i]) <= 1e-12 * (1 + fabs(want->v[i]))))
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
    evaluation_end(&e);
}

static int followed;
static gd_ctx *shared;

/* Formulas in words: what these compute is compared in optim/references. */
static bool is_in_words(const gd_link_class *cls)
{
    return *cls->formula == '~' || !strcmp(cls->name, "lookahead") || !strcmp(cls->name, "schedule_free");
}

static void follow_text(const gd_link_class *cls, const char *text)
{
    if (!cls->rule || is_in_words(cls)) return;
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
    each_number_text(follow_text);
    assert_true(followed * test_share() >= 80);
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
