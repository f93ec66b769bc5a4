/* Schedules: values against closed forms and against PyTorch's step-by-step definitions, text there and back.
 *
 * Numbers marked "PyTorch" were computed in Python by writing out the algorithms that its documentation gives for
 * OneCycleLR, CosineAnnealingLR (the recursive form), CosineAnnealingWarmRestarts and PolynomialLR (the recursive form). */
#include "gradus/schedule.h"
#include "optim/text/setting.h"
#include "support/support.h"

#include <math.h>

static void expect_at(const gd_schedule *s, int64_t step, double want, int line)
{
    double got = gd_schedule_value(s, step);
    if (fabs(got - want) <= 1e-15 + 1e-13 * fabs(want)) return;
    print_error("step %lld: wanted %.17g, got %.17g\n", (long long)step, want, got);
    _fail(__FILE__, line);
}

/* The values at steps 0, 1, 2, ... */
static void expect_from_start(gd_schedule s, const double *want, int count, int line)
{
    for (int i = 0; i < count; i++) expect_at(&s, i, want[i], line);
}

#define EXPECT(schedule, ...)                            \
    expect_from_start(schedule, (double[]){__VA_ARGS__}, \
                      (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), __LINE__)

/* ---- values ---- */

static void a_constant_stays(void **state)
{
    (void)state;
    EXPECT(gd_schedule_constant(0.3), 0.3, 0.3, 0.3);
}

static void linear_goes_straight_and_stays_at_the_end(void **state)
{
    (void)state;
    EXPECT(gd_schedule_linear(1, 0, 4), 1, 0.75, 0.5, 0.25, 0, 0, 0);
    EXPECT(gd_schedule_linear(0, 3, 3), 0, 1, 2, 3, 3);
    EXPECT(gd_schedule_linear(5, 2, 0), 2, 2);
}

static void cosine_agrees_with_the_recursive_form(void **state)
{
    (void)state;
    /* PyTorch: CosineAnnealingLR(T_max=8, eta_min=0.001) from 0.1; then it stays, where PyTorch would turn back */
    EXPECT(gd_schedule_cosine(0.1, 0.001, 8), 0.1, 0.096232036859308701, 0.085501785668734107,
           0.069442829902071956, 0.0505, 0.031557170097928057, 0.0154982143312659, 0.0047679631406913059,
           0.001, 0.001, 0.001);
}

static void both_ends_of_a_schedule_are_exact(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int i = 0; i < 1000; i++) {
        double first = random_unit(&seed), last = random_unit(&seed);
        gd_schedule all[] = {gd_schedule_linear(first, last, 77), gd_schedule_cosine(first, last, 77),
                             gd_schedule_polynomial(first, last, 77, 2.5)};
        for (int k = 0; k < COUNT_OF(all); k++) {
            assert_true(gd_schedule_value(&all[k], 0) == first);
            assert_true(gd_schedule_value(&all[k], 77) == last);
            assert_true(gd_schedule_value(&all[k], INT64_MAX) == last);
        }
    }
}

static void cosine_restarts_with_longer_and_longer_rounds(void **state)
{
    (void)state;
    /* PyTorch: CosineAnnealingWarmRestarts(T_0=2, T_mult=2, eta_min=0.1), and T_0=3, T_mult=1 */
    EXPECT(gd_schedule_cosine_restarts(1, 0.1, 2, 2), 1, 0.55, 1, 0.86819805153394636, 0.55,
           0.23180194846605365, 1, 0.96574578963007907, 0.86819805153394636);
    EXPECT(gd_schedule_cosine_restarts(1, 0.1, 3, 1), 1, 0.775, 0.325, 1, 0.775, 0.325, 1);
    /* rounds of 2, 4, ... 2^k begin at 2^(k+1) - 2 */
    gd_schedule s = gd_schedule_cosine_restarts(1, 0, 2, 2);
    for (int k = 1; k < 50; k++) expect_at(&s, ((int64_t)2 << k) - 2, 1, __LINE__);
}

static void exponential_is_a_power(void **state)
{
    (void)state;
    EXPECT(gd_schedule_exponential(2, 0.5), 2, 1, 0.5, 0.25, 0.125);
    gd_schedule s = gd_schedule_exponential(0.1, 0.999);
    expect_at(&s, 1000, 0.1 * exp(1000 * log(0.999)), __LINE__);
}

static void polynomial_agrees_with_the_recursive_form(void **state)
{
    (void)state;
    /* PyTorch: PolynomialLR(total_iters=5, power=2) */
    EXPECT(gd_schedule_polynomial(0.5, 0, 5, 2), 0.5, 0.32, 0.18, 0.08, 0.02, 0, 0);
    EXPECT(gd_schedule_polynomial(3, 1, 2, 1), 3, 2, 1, 1);
}

static void step_falls_every_so_often(void **state)
{
    (void)state;
    EXPECT(gd_schedule_step(8, 3, 0.5), 8, 8, 8, 4, 4, 4, 2, 2, 2, 1);
}

static void multistep_falls_at_its_milestones(void **state)
{
    (void)state;
    /* PyTorch's MultiStepLR example: 0.05 below 30, 0.005 below 80, then 0.0005 */
    gd_schedule s = gd_schedule_multistep(0.05, (int64_t[]){30, 80}, 2, 0.1);
    expect_at(&s, 0, 0.05, __LINE__);
    expect_at(&s, 29, 0.05, __LINE__);
    expect_at(&s, 30, 0.005, __LINE__);
    expect_at(&s, 79, 0.005, __LINE__);
    expect_at(&s, 80, 0.0005, __LINE__);
    expect_at(&s, 1000, 0.0005, __LINE__);
    EXPECT(gd_schedule_multistep(1, NULL, 0, 0.1), 1, 1);
}

static void one_cycle_rises_and_falls(void **state)
{
    (void)state;
    /* PyTorch: OneCycleLR(max_lr=0.1, total_steps=10) */
    EXPECT(gd_schedule_one_cycle(0.1, 10, 0.3, 25, 1e4), 0.004, 0.052, 0.1, 0.095048463201347383,
           0.081174565394976306, 0.06112620219362893, 0.038874197806371073, 0.018825834605023701,
           0.0049519367986526289, 4e-07, 4e-07, 4e-07);
    /* PyTorch: max_lr=1, total_steps=25, pct_start=0.4, div_factor=10, final_div_factor=100 */
    static const struct {
        int64_t step;
        double value;
    } values[] = {{0, 0.1},
                  {1, 0.12713832064634123},
                  {5, 0.6281416799501186},
                  {9, 1},
                  {10, 0.9890847265665359},
                  {17, 0.4482880325978072},
                  {23, 0.011915273433464057},
                  {24, 0.001}};
    gd_schedule s = gd_schedule_one_cycle(1, 25, 0.4, 10, 100);
    for (int i = 0; i < COUNT_OF(values); i++) expect_at(&s, values[i].step, values[i].value, __LINE__);
    /* nothing to rise in: starts at the peak */
    EXPECT(gd_schedule_one_cycle(1, 3, 0, 10, 100), 1, (1 + 0.001) / 2, 0.001, 0.001);
    EXPECT(gd_schedule_one_cycle(1, 1, 0.5, 10, 100), 0.001, 0.001);
}

static void wsd_warms_up_stays_and_decays(void **state)
{
    (void)state;
    EXPECT(gd_schedule_wsd(1, 0.2, 2, 3, 4), 0, 0.5, 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2, 0.2);
    EXPECT(gd_schedule_wsd(1, 0, 0, 0, 2), 1, 0.5, 0, 0);
}

static void warm_up_is_joined_in_front(void **state)
{
    (void)state;
    EXPECT(gd_schedule_warmup(4, gd_schedule_linear(1, 0, 2), 0), 0, 0.25, 0.5, 0.75, 1, 0.5, 0, 0);
    EXPECT(gd_schedule_warmup(2, gd_schedule_step(3, 1, 0.5), 1), 1, 2, 3, 1.5, 0.75);
    EXPECT(gd_schedule_warmup(0, gd_schedule_constant(3), 1), 3, 3);
    gd_schedule s = gd_schedule_warmup(100, gd_schedule_cosine(0.1, 0.001, 1000), 0);
    expect_at(&s, 50, 0.05, __LINE__);
    expect_at(&s, 600, 0.0505, __LINE__);
    expect_at(&s, 1100, 0.001, __LINE__);
    assert_true(gd_schedule_value(&s, -5) == gd_schedule_value(&s, 0));
}

static void plateau_cuts_after_patience_runs_out(void **state)
{
    (void)state;
    /* ReduceLROnPlateau(factor=0.5, patience=2), cooldown 1, min_lr 0.2 */
    gd_plateau p = gd_plateau_start(1, 0.5, 2);
    p.cooldown = 1;
    p.lowest = 0.2;
    static const struct {
        double loss, value;
    } run[] = {{10, 1},   {9, 1},      {9, 1},    {9, 1},        {9, 0.5}, /* the third without improvement */
               {9, 0.5},  {9, 0.5},    {9, 0.5},  {9, 0.25},               /* one does not count */
               {8, 0.25}, {NAN, 0.25}, {8, 0.25}, {7.9999, 0.2},           /* less than 1e-4 better */
               {8, 0.2},  {8, 0.2},    {8, 0.2},  {8, 0.2}};
    for (int i = 0; i < COUNT_OF(run); i++) {
        double got = gd_plateau_measure(&p, run[i].loss);
        if (got != run[i].value) fail_msg("measurement %d: wanted %g, got %g", i, run[i].value, got);
    }
    /* an improvement of a negative loss is a smaller one */
    p = gd_plateau_start(1, 0.5, 0);
    assert_true(gd_plateau_measure(&p, -1) == 1);
    assert_true(gd_plateau_measure(&p, -0.99999) == 0.5);
    assert_true(gd_plateau_measure(&p, -1.1) == 0.5);
}

/* ---- text ---- */

static const struct {
    const char *text, *print;
} texts[] = {
    {"0.1", "constant(0.1)"},
    {"-1/2", "constant(-0.5)"},
    {"constant(3)", "constant(3)"},
    {"linear(1, 0, 10)", "linear(1, 0, 10)"},
    {" cosine ( 0.1 , last=1e-3 , steps = 1000 ) ", "cosine(0.1, 0.001, 1000)"},
    {"cosine_restarts(1, 0, 10)", "cosine_restarts(1, 0, 10)"},
    {"cosine_restarts(1, 0, 10, 2)", "cosine_restarts(1, 0, 10, factor=2)"},
    {"exponential(0.1, 0.99)", "exponential(0.1, 0.99)"},
    {"polynomial(0.1, 0, 100, power=2)", "polynomial(0.1, 0, 100, power=2)"},
    {"step(0.1, 30)", "step(0.1, 30)"},
    {"step(0.1, every=30, factor=0.5)", "step(0.1, 30, factor=0.5)"},
    {"multistep(1, [30, 80])", "multistep(1, [30, 80])"},
    {"multistep(1, [], 0.5)", "multistep(1, [], factor=0.5)"},
    {"multistep(factor=0.5, milestones=[3], first=1)", "multistep(1, [3], factor=0.5)"},
    {"one_cycle(0.1, 100)", "one_cycle(0.1, 100)"},
    {"one_cycle(0.1, 100, divide=10)", "one_cycle(0.1, 100, divide=10)"},
    {"wsd(1, 0, 10, 100, 20)", "wsd(1, 0, 10, 100, 20)"},
    {"warmup(100, cosine(0.1, 0.001, 1000))", "warmup(100, cosine(0.1, 0.001, 1000))"},
    {"warmup(100, 0.1, 0.01)", "warmup(100, constant(0.1), start=0.01)"},
    {"warmup(after=step(1, 5), start=1, steps=7)", "warmup(7, step(1, 5), start=1)"},
    {"warmup(0, constant(1), start=5)", "constant(1)"},
    {"warmup(3, warmup(0, constant(1)))", "warmup(3, constant(1))"},
};

static void texts_are_read_and_printed(void **state)
{
    for (int i = 0; i < COUNT_OF(texts); i++) {
        gd_schedule s, again;
        char print[256], second[256];
        if (gd_schedule_parse(*state, texts[i].text, &s)) print_error("'%s'\n", texts[i].text);
        assert_no_error(*state);
        assert_int_equal(gd_schedule_print(&s, print, sizeof print), strlen(texts[i].print));
        assert_string_equal(print, texts[i].print);
        assert_int_equal(gd_schedule_check(*state, &s), GD_OK);
        assert_int_equal(gd_schedule_parse(*state, print, &again), GD_OK);
        assert_true(gd_schedule_equal(&s, &again));
        (void)gd_schedule_print(&again, second, sizeof second);
        assert_string_equal(print, second);
    }
}

static void texts_and_constructors_agree(void **state)
{
    const struct {
        const char *text;
        gd_schedule made;
    } pairs[] = {
        {"constant(2)", gd_schedule_constant(2)},
        {"linear(1, 2, 3)", gd_schedule_linear(1, 2, 3)},
        {"cosine(1, 2, 3)", gd_schedule_cosine(1, 2, 3)},
        {"cosine_restarts(1, 2, 3, 4)", gd_schedule_cosine_restarts(1, 2, 3, 4)},
        {"exponential(1, 2)", gd_schedule_exponential(1, 2)},
        {"polynomial(1, 2, 3, 4)", gd_schedule_polynomial(1, 2, 3, 4)},
        {"step(1, 2, 3)", gd_schedule_step(1, 2, 3)},
        {"step(1, 2)", gd_schedule_step(1, 2, 0.1)},
        {"multistep(1, [2, 3], 4)", gd_schedule_multistep(1, (int64_t[]){2, 3}, 2, 4)},
        {"one_cycle(1, 2, 0.5, 4, 5)", gd_schedule_one_cycle(1, 2, 0.5, 4, 5)},
        {"one_cycle(1, 2)", gd_schedule_one_cycle(1, 2, 0.3, 25, 1e4)},
        {"wsd(1, 2, 3, 4, 5)", gd_schedule_wsd(1, 2, 3, 4, 5)},
        {"warmup(5, linear(1, 2, 3), 0.5)", gd_schedule_warmup(5, gd_schedule_linear(1, 2, 3), 0.5)},
    };
    for (int i = 0; i < COUNT_OF(pairs); i++) {
        gd_schedule s;
        assert_int_equal(gd_schedule_parse(*state, pairs[i].text, &s), GD_OK);
        assert_true(gd_schedule_equal(&s, &pairs[i].made));
    }
}

static void errors_say_where_and_what(void **state)
{
    static const struct {
        const char *text, *error;
    } wrong[] = {
        {"", "schedule: column 1: expected a schedule, but the text ends"},
        {"cosin(1, 2, 3)", "schedule: column 1: schedule 'cosin' unknown, did you mean 'cosine'?"},
        {"cosine(1, 2)", "schedule: column 1: cosine: needs 'steps'"},
        {"cosine", "schedule: column 1: cosine: needs 'first'"},
        {"cosine(1, 2, 1.5)", "schedule: column 14: cosine: steps is 1.5, must be a whole number"},
        {"cosine(1, 2, -1)", "schedule: column 14: cosine: steps is -1, must be from 0 to 9007199254740992"},
        {"cosine(nan, 2, 1)", "schedule: column 8: cosine: first is nan, must be a number"},
        {"nan", "schedule: column 1: constant: value is nan, must be a number"},
        {"cosine(1, 2, 3, 4)", "schedule: column 17: cosine takes at most 3 values"},
        {"cosine(1, frist=2)", "schedule: column 11: cosine has no 'frist', did you mean 'first'?"},
        {"cosine(1, first=2)", "schedule: column 11: cosine: first is given twice"},
        {"cosine(first=1, 2)", "schedule: column 17: cosine: a value by position after one by name"},
        {"cosine(1, 2, 3", "schedule: column 7: '(' is not closed"},
        {"cosine(1, 2, 3) | lr", "schedule: column 17: expected the end, got '|'"},
        {"cosine(1, [2], 3)", "schedule: column 11: expected a number, got '['"},
        {"step(1, 0)", "schedule: column 9: step: every is 0, must be from 1 to 9007199254740992"},
        {"multistep(1, 5)", "schedule: column 14: expected a list of steps, got '5'"},
        {"multistep(1, [5, 3])", "schedule: column 14: multistep: milestones must ascend"},
        {"multistep(1, [5, 5])", "schedule: column 14: multistep: milestones must ascend"},
        {"multistep(1, [5,])", "schedule: column 17: expected a number, got ']'"},
        {"multistep(1, [5", "schedule: column 14: '[' is not closed"},
        {"multistep(1, [2.5])",
         "schedule: column 14: multistep: milestones item 0 is 2.5, must be a whole number"},
        {"multistep(1, [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17])",
         "schedule: column 54: more than 16 milestones"},
        {"one_cycle(1, 10, rise=2)", "schedule: column 23: one_cycle: rise is 2, must be from 0 to 1"},
        {"warmup(5)", "schedule: column 1: warmup: needs 'after'"},
        {"warmup(5, \"x\")", "schedule: column 11: expected a schedule, got '\"'"},
        {"warmup(5, warmup(5, constant(1)))", "schedule: column 11: a warm-up inside a warm-up"},
        {"warmup(5, cosine(1, 2))", "schedule: column 11: cosine: needs 'steps'"},
    };
    gd_ctx *ctx = *state;
    gd_schedule s = gd_schedule_constant(7);
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(gd_schedule_parse(ctx, wrong[i].text, &s), GD_PARSE);
        assert_string_equal(gd_error_text(ctx), wrong[i].error);
        gd_clear_error(ctx);
        assert_true(gd_schedule_value(&s, 0) == 7);
    }
    assert_int_equal(gd_schedule_parse(ctx, NULL, &s), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "schedule: no text");
    char deep[800] = "";
    for (int i = 0; i < 70; i++) strcat(deep, "warmup(1, ");
    assert_int_equal(gd_schedule_parse(ctx, deep, &s), GD_PARSE);
    assert_error(ctx, GD_PARSE, "schedule: column 647: nested deeper than 64 levels");
}

static void arguments_out_of_range_are_found(void **state)
{
    const struct {
        gd_schedule s;
        const char *error;
    } wrong[] = {
        {{.kind = GD_SCHEDULE_INVALID}, "schedule: of no kind"},
        {{.kind = (gd_schedule_kind)99}, "schedule: of no kind"},
        {gd_schedule_constant(NAN), "constant: value is nan, must be a number"},
        {gd_schedule_step(1, 0, 0.1), "step: every is 0, must be from 1"},
        {gd_schedule_linear(1, 0, -4), "linear: steps is -4, must be from 0"},
        {gd_schedule_warmup(-4, gd_schedule_constant(1), 0), "warmup: steps is -4, must be from 0"},
        {gd_schedule_warmup(4, gd_schedule_constant(1), NAN), "warmup: start is nan"},
        {gd_schedule_warmup(4, gd_schedule_warmup(4, gd_schedule_constant(1), 0), 0), "schedule: of no kind"},
        {gd_schedule_multistep(1, (int64_t[]){3, 2}, 2, 1), "multistep: milestones must ascend"},
        {gd_schedule_multistep(1, NULL, 17, 1), "schedule: of no kind"},
    };
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(gd_schedule_check(*state, &wrong[i].s), GD_VALUE);
        assert_error(*state, GD_VALUE, wrong[i].error);
    }
    assert_true(isnan(gd_schedule_value(&wrong[0].s, 3)));
    assert_int_equal(gd_schedule_print(&wrong[0].s, NULL, 0), 0);
}

static void printing_keeps_to_the_room_it_has(void **state)
{
    (void)state;
    gd_schedule s = gd_schedule_warmup(100, gd_schedule_cosine(0.1, 0.001, 1000), 0.5);
    const char *text = "warmup(100, cosine(0.1, 0.001, 1000), start=0.5)";
    for (size_t size = 0; size < 60; size++) {
        char out[64];
        memset(out, '#', sizeof out);
        assert_int_equal(gd_schedule_print(&s, size ? out : NULL, size), strlen(text));
        if (size) assert_int_equal(strlen(out), size > strlen(text) ? strlen(text) : size - 1);
        if (size) assert_memory_equal(out, text, strlen(out));
    }
}

static void no_memory_is_needed(void **state)
{
    /* parsing and printing allocate nothing, so nothing can fail */
    int64_t before = test_memory()->requests;
    for (int i = 0; i < COUNT_OF(texts); i++) {
        gd_schedule s;
        char print[256];
        test_memory()->fail_at = test_memory()->requests + 1;
        assert_int_equal(gd_schedule_parse(*state, texts[i].text, &s), GD_OK);
        (void)gd_schedule_print(&s, print, sizeof print);
        (void)gd_schedule_value(&s, 3);
    }
    assert_int_equal(test_memory()->requests, before);
    test_memory()->fail_at = 0;
}

/* Every step looked at, against what the schedule says of itself. */
static void whether_a_schedule_stays_in_range_is_as_counted(void **state)
{
    static const char *const forms[] = {
        "constant(%g)",
        "linear(%g, %g, 37)",
        "cosine(%g, %g, 41)",
        "cosine_restarts(%g, %g, 7)",
        "exponential(%g, 1.01)",
        "cosine_restarts(%g, %g, 3, 2)",
        "polynomial(%g, %g, 29, 2)",
        "step(%g, 11, factor=0.5)",
        "multistep(%g, [5, 19], factor=1.5)",
        "one_cycle(%g, 30, 0.3, 2, 4)",
        "wsd(%g, %g, 5, 10, 20)",
        "warmup(6, linear(%g, %g, 9), start=0.5)",
        "warmup(4, exponential(%g, 0.9), start=%g)",
    };
    const gd_field field = GD_REAL("x", 0.5, 0.25, 1, "a number");
    int inside = 0, outside = 0;
    for (int f = 0; f < COUNT_OF(forms); f++)
        for (int i = 0; i < 100; i++) {
            char text[120];
            gd_schedule s;
            snprintf(text, sizeof text, forms[f], 0.13 * (i % 10), 0.13 * (i / 10));
            assert_int_equal(gd_schedule_parse(*state, text, &s), GD_OK);
            bool fits = gd__schedule_fits(*state, NULL, "y", &field, &s) == GD_OK;
            int first = 0;
            while (first < 5000 && gd_schedule_value(&s, first) >= 0.25 && gd_schedule_value(&s, first) <= 1)
                first++;
            if (fits != (first == 5000)) fail_msg("%s: step %d", text, first);
            long said = -1;
            if (!fits) assert_int_equal(sscanf(gd_error_text(*state), "schedule: step %ld:", &said), 1);
            if (!fits && strncmp(text, "cosine_r", 8)) assert_int_equal(said, first);
            inside += fits;
            outside += !fits;
            gd_clear_error(*state);
        }
    assert_true(inside > 100 && outside > 100);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_constant_stays),
        TEST(linear_goes_straight_and_stays_at_the_end),
        TEST(cosine_agrees_with_the_recursive_form),
        TEST(both_ends_of_a_schedule_are_exact),
        TEST(cosine_restarts_with_longer_and_longer_rounds),
        TEST(exponential_is_a_power),
        TEST(polynomial_agrees_with_the_recursive_form),
        TEST(step_falls_every_so_often),
        TEST(multistep_falls_at_its_milestones),
        TEST(one_cycle_rises_and_falls),
        TEST(wsd_warms_up_stays_and_decays),
        TEST(warm_up_is_joined_in_front),
        TEST(plateau_cuts_after_patience_runs_out),
        TEST(texts_are_read_and_printed),
        TEST(texts_and_constructors_agree),
        TEST(errors_say_where_and_what),
        TEST(arguments_out_of_range_are_found),
        TEST(printing_keeps_to_the_room_it_has),
        TEST(no_memory_is_needed),
        TEST(whether_a_schedule_stays_in_range_is_as_counted),
    };
    return cmocka_run_group_tests_name("optim/schedule", tests, NULL, NULL);
}
