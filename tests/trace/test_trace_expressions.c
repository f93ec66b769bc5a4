/* Expressions as traced functions: every function of the language, and some programs, with the bits of gd_expr_eval. */
#include "gradus/expr.h"
#include "support/own_context.h"
#include "trace_support.h"

#include <math.h>

#define CALLS 6

static gd_tensor *evaluated(void *user, gd_tensor *const *in, int count)
{
    (void)count;
    gd_tensor *y = gd_expr_eval(user, in, GD_F64);
    return gd_dtype_is_float(gd_tensor_dtype(y))
               ? gd_sum(gd_sin(y), NULL, false)
               : gd_add(gd_sum(gd_cast(y, GD_F64), NULL, false), gd_sum(in[0], NULL, false));
}

static gd_tensor *point(int which, int call)
{
    double v[9];
    for (int i = 0; i < 9; i++) v[i] = 0.6 + 0.3 * sin(1.3 * i + call + 5 * which);
    for (int i = 0; i < 3; i++) v[4 * i] += 2; /* positive definite as a matrix, nearly */
    return gd_from_data(ctx, GD_F64, 2, (int64_t[]){3, 3}, v);
}

/* 1: compared and replayed, 0: the text is no expression of two matrices. */
static int try_text(const char *text)
{
    static const char *const names[] = {"x", "y"};
    gd_expr *e = gd_expr_parse(ctx, text, &(gd_expr_options){.names = names, .count = 2});
    gd_clear_error(ctx);
    if (!e) return 0;
    gd_traced *f = gd_trace(ctx, evaluated, e, NULL);
    int done = 1;
    for (int call = 0; call < CALLS && done; call++) {
        gd_scope_begin(ctx);
        gd_tensor *in[2] = {point(0, call), point(1, call)}, *value = NULL, *grad[2] = {0}, *got = NULL,
                  *slope[2] = {0};
        gd_seed(ctx, (uint64_t)call);
        done = eager_gradient(evaluated, e, in, 2, &value, grad) == GD_OK;
        gd_clear_error(ctx);
        if (done) {
            gd_seed(ctx, (uint64_t)call);
            assert_int_equal(gd_traced_gradient(f, in, 2, &got, slope), GD_OK);
            if (!same_bits(got, value)) fail_msg("%s: the value differs in call %d", text, call);
            for (int i = 0; i < 2; i++)
                if (!same_bits(slope[i], grad[i])) fail_msg("%s: a gradient differs in call %d", text, call);
        }
        gd_scope_end(ctx);
    }
    char why[2000];
    (void)gd_explain_trace(f, why, sizeof why);
    if (done && !strstr(why, "replayed") && !strstr(text, "prod")) fail_msg("%s: %s", text, why);
    gd_traced_free(f);
    gd_expr_free(e);
    return done;
}

static void every_function_is_replayed(void **unused)
{
    (void)unused;
    int done = 0, all = 0;
    for (const char *name; (name = gd_expr_function(all, NULL)); all++) {
        static const char *const forms[] = {"%s(x)",       "%s(x, y)",        "%s(x + y, 1)",
                                            "%s(x, 0, 2)", "%s(x > y, x, y)", "%s(x[0], y[0])"};
        int found = 0;
        for (int k = 0; k < COUNT_OF(forms); k++) {
            char text[128];
            snprintf(text, sizeof text, forms[k], name);
            found += try_text(text);
        }
        if (!found) print_message("%s: no form was tried\n", name);
        done += found > 0;
    }
    assert_true(done * 10 >= all * 8);
}

static void programs_are_replayed(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "100*(y - x^2)^2 + (1 - x)^2",          "a = x @ y; b = a + T(a); sum(b * b)",
        "f(t) = t*exp(-t); f(x) + f(y)^2",      "[x[0,0], y[1,1], x[0,0]*y[1,1]]",
        "sum(x[0:2, 1] * y[1:3, 0]) / norm(x)", "where(x > y, x^3, log(1 + y^2))",
        "softmax(x @ y) * logsumexp(x)",        "x^0.5 + y^-1 + 2^x",
    };
    int done = 0;
    for (int k = 0; k < COUNT_OF(texts); k++) {
        int one = try_text(texts[k]);
        if (!one) print_message("%s: not an expression\n", texts[k]);
        done += one;
    }
    assert_true(done >= COUNT_OF(texts) - 3);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_function_is_replayed),
        TEST(programs_are_replayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
