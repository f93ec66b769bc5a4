/* Links that optimizers are written with as text: settings that are a number or a chain, and any number of them. */
#include "gradus/chain.h"
#include "optim/optim_support.h"

#include <float.h>

static gd_link *link_at(const problem *x, int i) { return gd_link_child_at(gd_optimizer_chain(x->o), i); }

/* What the chain makes of one update, in the dtype given. */
static double made_of(gd_ctx *ctx, const char *chain, gd_dtype dtype, double update)
{
    gd_scope_begin(ctx);
    gd_link *link = gd_chain(ctx, chain);
    gd_tensor *p = gd_ones(ctx, dtype, 1, (int64_t[]){1}),
              *u = gd_from_f64(ctx, dtype, 1, (int64_t[]){1}, &update);
    double out;
    OK(gd_link_keyed_apply(link, &u, &p, NULL, NULL, 1));
    OK(gd_read_f64(u, &out, 1));
    gd_link_release(link);
    gd_scope_end(ctx);
    return out;
}

/* Whole and half exponents are products and roots, with the bits of the operator. */
static void powers_are_those_of_the_operator(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const double exponents[] = {1, 2, 3, 4, 7, -1, -2, 0.5, 1.5, 2.5, -0.5, -3.5, 32},
                        x[] = {1.1, 3.7, 0.013};
    for (int wide = 0; wide < 2; wide++)
        for (int e = 0; e < COUNT_OF(exponents); e++)
            for (int i = 0; i < COUNT_OF(x); i++) {
                char chain[40];
                gd_dtype dtype = wide ? GD_F64 : GD_F32;
                snprintf(chain, sizeof chain, "pow(%g)", exponents[e]);
                gd_scope_begin(ctx);
                gd_tensor *one = gd_from_f64(ctx, dtype, 1, (int64_t[]){1}, &x[i]);
                double want = gd_item(gd_pow_scalar(one, exponents[e])),
                       got = made_of(ctx, chain, dtype, x[i]);
                gd_scope_end(ctx);
                if (!(got == want)) fail_msg("%s of %g: %a, not %a", chain, x[i], got, want);
            }
}

static void an_optimizer_written_as_text_is_one_pass(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(
        ctx, "ema(0.9) | div([sqrt_ema_squared(0.999) | add(1e-8)]) | clip(min=-1, max=sum(1, abs)) | "
             "sub(mul(0.5)) | lr(0.1)");
    char text[4000];
    assert_in_range(gd_explain(x.o, false, text, sizeof text), 1, sizeof text - 1);
    assert_non_null(strstr(text, "total: 1 pass"));
    close_problem(&x);
}

static void a_number_in_place_of_a_chain_is_a_setting_of_groups_and_parameters(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "mul(2) | lr(0.25)");
    OK(gd_optimizer_regroup(x.o, "q", "other=4"));
    OK(step(&x, NULL));
    assert_values(x.p, 3 - 0.25 * 2 * 4, -1 - 0.25 * 2 * -4);
    assert_values(x.q, 0.5 - 0.25 * 4 * 2);
    close_problem(&x);
}

static void a_chain_is_no_setting_of_groups_and_parameters(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "mul(sign) | lr(0.25)");
    assert_int_equal(gd_optimizer_regroup(x.o, "q", "other=4"), GD_TYPE);
    assert_error(ctx, GD_TYPE, "group: 'other' of mul is a link, which groups cannot have");
    assert_int_equal(
        gd_link_set_for(link_at(&x, 0), x.q, "other", (gd_setting){.kind = GD_SET_REAL, .real = 4}), GD_TYPE);
    assert_error(ctx, GD_TYPE, "mul: 'other' is a link, which no single parameter can have");
    /* a number again: then it is one */
    OK(gd_link_set_real(link_at(&x, 0), "other", 2));
    assert_int_equal(gd_link_children(link_at(&x, 0)), 0);
    OK(gd_optimizer_regroup(x.o, "q", "other=4"));
    /* and cannot become a chain that the group would not see */
    assert_int_equal(gd_link_set_child(link_at(&x, 0), "other", gd_chain(ctx, "sign")), GD_STATE);
    assert_error(ctx, GD_STATE,
                 "mul: 'other' cannot become a link while parameters or groups have a number for it");
    OK(step(&x, NULL));
    assert_values(x.q, 0.5 - 0.25 * 4 * 2);
    close_problem(&x);
}

static void any_number_of_chains_may_have_numbers_among_them(void **state)
{
    gd_ctx *ctx = CTX(state);
    char text[200];
    gd_link *link = gd_chain(ctx, "sum(1, [sign | abs], fill(2.5), lr(0.5))");
    assert_int_equal(gd_link_children(link), 4);
    (void)gd_link_print(link, text, sizeof text);
    assert_string_equal(text, "sum(1, [sign | abs], 2.5, lr(0.5))");
    OK(gd_link_set_real(link, "inputs", -3)); /* one more */
    (void)gd_link_print(link, text, sizeof text);
    assert_string_equal(text, "sum(1, [sign | abs], 2.5, lr(0.5), -3)");
    assert_int_equal(gd_link_set_real(link, "inputs", NAN), GD_VALUE);
    gd_clear_error(ctx);
    assert_int_equal(gd_link_set_bool(link, "inputs", true), GD_TYPE);
    gd_clear_error(ctx);
    assert_int_equal(gd_link_children(link), 5);
    gd_link_release(link);
    assert_float_equal(made_of(ctx, "sum(1, [sign | abs], fill(2.5), lr(0.5))", GD_F64, 4), 1 + 1 + 2.5 + 2,
                       0);
}

static void weights_are_as_many_as_what_they_weigh(void **state)
{
    gd_ctx *ctx = CTX(state);
    assert_null(gd_chain(ctx, "lr(1) | weighted_sum(ema, 1, weights=[1, 2, 3])"));
    assert_error(ctx, GD_PARSE, "chain: column 9: weighted_sum: 2 inputs need as many weights, not 3");
    assert_null(gd_chain(ctx, "weighted_mean(weights=[1])"));
    gd_clear_error(ctx);
}

static void what_is_no_number_becomes_the_largest_of_the_dtype(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const struct {
        gd_dtype dtype;
        double largest;
    } cases[] = {{GD_F64, DBL_MAX}, {GD_F32, FLT_MAX}, {GD_F16, 65504}, {GD_BF16, 0x1.fep127}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        assert_true(made_of(ctx, "nan_to_num", cases[i].dtype, INFINITY) == cases[i].largest);
        assert_true(made_of(ctx, "nan_to_num", cases[i].dtype, -INFINITY) == -cases[i].largest);
        assert_true(made_of(ctx, "nan_to_num", cases[i].dtype, NAN) == 0);
        assert_true(made_of(ctx, "nan_to_num(nan=2)", cases[i].dtype, NAN) == 2);
        assert_true(made_of(ctx, "nan_to_num(posinf=3, neginf=-4)", cases[i].dtype, -INFINITY) == -4);
    }
}

static void a_forgotten_gradient_is_evaluated_again_and_the_update_stays(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "mul(2) | grad_to_none | add(grad) | lr(0.125)");
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 2);
    assert_values(x.p, 3 - 0.125 * 3 * 4, -1 - 0.125 * 3 * -4);
    close_problem(&x);
}

/* With the identity as Hessian a step to the edge of a small region is along the gradient (4, -4, 2). */
static void identity_is_the_identity_as_a_hessian(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "trust_cg(identity, init=0.06)");
    OK(step(&x, NULL));
    assert_values(x.p, 3 - 0.04, -1 + 0.04);
    assert_values(x.q, 0.5 - 0.02);
    close_problem(&x);
}

/* ---- random numbers ---- */

#define MANY 40000

/* What a link makes of zeros: mean, mean square and mean fourth power. */
static void moments_of(gd_ctx *ctx, const char *text, double out[3], double *sample)
{
    gd_link *link = gd_chain(ctx, text);
    gd_scope_begin(ctx);
    gd_tensor *p = gd_zeros(ctx, GD_F64, 1, (int64_t[]){MANY}), *u = gd_zeros_like(p);
    OK(gd_link_keyed_apply(link, &u, &p, NULL, NULL, 1));
    OK(gd_read_f64(u, sample, MANY));
    gd_scope_end(ctx);
    gd_link_release(link);
    memset(out, 0, 3 * sizeof *out);
    for (int i = 0; i < MANY; i++) {
        out[0] += sample[i] / MANY;
        out[1] += sample[i] * sample[i] / MANY;
        out[2] += pow(sample[i], 4) / MANY;
    }
}

/* Bounds are five standard deviations of the estimates. */
static void random_links_have_the_moments_of_their_distribution(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const struct {
        const char *text;
        double mean, square, fourth;
    } cases[] = {
        {"randn", 0, 1, 3},
        {"uniform(-1, 3)", 1, 7.0 / 3, 12.2},
        {"random_sample", 0, 1, 3},
        {"random_sample(\"gaussian\", variance=4)", 0, 4, 48},
        {"random_sample(\"uniform\")", 0, 1.0 / 3, 0.2},
        {"random_sample(\"uniform\", variance=3)", 0, 3, 16.2},
        {"random_sample(\"rademacher\", variance=0.25)", 0, 0.25, 0.0625},
        {"random_sample(\"sphere\")", 0, 1.0 / MANY, 3.0 / MANY / MANY},
        {"random_sample(\"sphere\", variance=2)", 0, 2, 12},
    };
    static double sample[MANY];
    for (int i = 0; i < COUNT_OF(cases); i++) {
        double got[3], root = sqrt((double)MANY);
        moments_of(ctx, cases[i].text, got, sample);
        double spread = sqrt(fmax(0, cases[i].fourth - cases[i].square * cases[i].square));
        if (fabs(got[0] - cases[i].mean) > 5 * sqrt(cases[i].square) / root ||
            fabs(got[1] - cases[i].square) > 5 * spread / root + 1e-9 * cases[i].square ||
            fabs(got[2] / cases[i].fourth - 1) > 0.2)
            fail_msg("%s: moments %g %g %g", cases[i].text, got[0], got[1], got[2]);
    }
}

static void random_links_draw_anew_at_every_step_and_fuse(void **state)
{
    gd_ctx *ctx = CTX(state);
    char text[4000];
    problem x = open_problem(ctx, "add(randn, 0.5) | mul(uniform(1, 2)) | lr(0.125)");
    assert_in_range(gd_explain(x.o, false, text, sizeof text), 1, sizeof text - 1);
    assert_non_null(strstr(text, "total: 1 pass"));
    double first, second;
    gd_link *link = gd_chain(ctx, "randn");
    for (int i = 0; i < 2; i++) {
        gd_scope_begin(ctx);
        gd_tensor *u = gd_zeros_like(x.q);
        OK(gd_link_keyed_apply(link, &u, &x.q, NULL, NULL, 1));
        OK(gd_read_f64(u, i ? &second : &first, 1));
        gd_scope_end(ctx);
    }
    assert_true(first != second);
    gd_link_release(link);
    close_problem(&x);
}

/* What a link makes of -1, 1, -1, ... */
static void made_of_signs(gd_ctx *ctx, const char *text, double *out)
{
    gd_link *link = gd_chain(ctx, text);
    gd_scope_begin(ctx);
    gd_tensor *p = gd_zeros(ctx, GD_F64, 1, (int64_t[]){MANY}), *u;
    for (int i = 0; i < MANY; i++) out[i] = i % 2 ? 1 : -1;
    u = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){MANY}, out);
    OK(gd_link_keyed_apply(link, &u, &p, NULL, NULL, 1));
    OK(gd_read_f64(u, out, MANY));
    gd_scope_end(ctx);
    gd_link_release(link);
}

static void noise_sign_has_the_magnitudes_of_a_distribution_and_the_signs_of_the_update(void **state)
{
    static double out[MANY];
    double square = 0;
    made_of_signs(CTX(state), "noise_sign(variance=4)", out);
    for (int i = 0; i < MANY; i++) {
        assert_true(i % 2 ? out[i] > 0 : out[i] < 0);
        square += out[i] * out[i] / MANY;
    }
    assert_true(fabs(square - 4) < 5 * sqrt(32.0 / MANY)); /* five standard deviations */
}

/* Elements that are kept stay bit for bit, or are grafted to the norm of all: 1 / sqrt(share that is left). */
static void dropout_drops_its_share_and_grafts_what_is_left(void **state)
{
    static double out[MANY];
    for (int graft = 0; graft < 2; graft++) {
        int left = 0;
        made_of_signs(CTX(state), graft ? "dropout(0.3, true)" : "dropout(0.3)", out);
        for (int i = 0; i < MANY; i++) left += out[i] != 0;
        assert_true(fabs((double)left / MANY - 0.7) < 5 * sqrt(0.21 / MANY));
        double size = graft ? sqrt((double)MANY / left) : 1;
        for (int i = 0; i < MANY; i++)
            if (out[i] != 0) assert_true(fabs(out[i] - (i % 2 ? size : -size)) <= graft * 1e-12);
    }
    made_of_signs(CTX(state), "dropout(1, true)", out);
    for (int i = 0; i < MANY; i++) assert_true(out[i] == 0);
}

/* Evaluated without, the gradient that a later link asks for takes one more evaluation. */
static void a_loss_is_evaluated_with_or_without_its_gradient(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const struct {
        const char *chain;
        int calls;
    } cases[] = {{"fill_loss(backward=false) | lr(0.001)", 1},
                 {"fill_loss(backward=true) | skip_nonfinite | update_to_none | lr(0.001)", 1},
                 {"fill_loss(backward=false) | skip_nonfinite | update_to_none | lr(0.001)", 2},
                 {"mul_by_loss(backward=false) | lr(0.001)", 1}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        problem x = open_problem(ctx, cases[i].chain);
        for (int k = 0; k < 2; k++) OK(step(&x, NULL));
        assert_int_equal(x.calls, 2 * cases[i].calls);
        close_problem(&x);
    }
}

typedef struct heard {
    int count;
    char text[4][2100];
} heard;

static void hear(void *user, const char *text)
{
    heard *h = user;
    snprintf(h->text[h->count++ % 4], sizeof h->text[0], "%s", text);
}

static void what_links_print_is_told_to_the_context_and_changes_nothing(void **state)
{
    (void)state;
    heard h = {0};
    gd_options options = gd_options_default();
    options.tell = hear;
    options.tell_user = &h;
    gd_ctx *ctx = gd_ctx_new(&options);
    problem x = open_problem(ctx, "print_loss(\"f: \") | lr(0.125) | print_update | print_loss");
    OK(step(&x, NULL));
    assert_int_equal(h.count, 4);
    assert_int_equal(x.calls, 1);
    assert_string_equal(h.text[1], "update = [0.5, -0.5]  f64[2]");
    assert_string_equal(h.text[2], "update = [0.25]  f64[1]");
    assert_true(!strncmp(h.text[0], "f: ", 3) && !strncmp(h.text[3], "loss = ", 7));
    assert_true(strtod(h.text[0] + 3, NULL) == strtod(h.text[3] + 7, NULL));
    assert_values(x.p, 2.5, -0.5);
    close_problem(&x);
    gd_tell(ctx, "%.3000d", 0); /* cut, not lost */
    assert_int_equal(strlen(h.text[0]), 2000);
    end_context(ctx, NULL);
}

static void a_long_update_is_printed_from_its_beginning(void **state)
{
    (void)state;
    heard h = {0};
    gd_options options = gd_options_default();
    options.tell = hear;
    options.tell_user = &h;
    gd_ctx *ctx = gd_ctx_new(&options);
    gd_link *link = gd_chain(ctx, "print_update");
    gd_optimizer *o = gd_optimizer_new(ctx, link);
    gd_tensor *p = gd_require_grad(gd_full(ctx, GD_F64, 2, (int64_t[]){40, 40}, 1.0 / 3));
    OK(gd_optimizer_add(o, "p", p));
    gd_scope_begin(ctx);
    OK(gd_set_grad(p, gd_full_like(p, 1.0 / 3)));
    OK(gd_optimizer_step(o, NULL, NULL));
    gd_scope_end(ctx);
    assert_int_equal(h.count, 1);
    assert_non_null(strstr(h.text[0], "..."));
    gd_optimizer_free(o);
    gd_release(p);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(powers_are_those_of_the_operator),
        CASE(an_optimizer_written_as_text_is_one_pass),
        CASE(a_number_in_place_of_a_chain_is_a_setting_of_groups_and_parameters),
        CASE(a_chain_is_no_setting_of_groups_and_parameters),
        CASE(any_number_of_chains_may_have_numbers_among_them),
        CASE(weights_are_as_many_as_what_they_weigh),
        CASE(what_is_no_number_becomes_the_largest_of_the_dtype),
        CASE(a_forgotten_gradient_is_evaluated_again_and_the_update_stays),
        CASE(identity_is_the_identity_as_a_hessian),
        CASE(random_links_have_the_moments_of_their_distribution),
        CASE(random_links_draw_anew_at_every_step_and_fuse),
        CASE(noise_sign_has_the_magnitudes_of_a_distribution_and_the_signs_of_the_update),
        CASE(dropout_drops_its_share_and_grafts_what_is_left),
        TEST(what_links_print_is_told_to_the_context_and_changes_nothing),
        TEST(a_long_update_is_printed_from_its_beginning),
        CASE(a_loss_is_evaluated_with_or_without_its_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
