/* Random numbers in rules: the same however the chain is run, new every step, and one's own for each link and parameter. */
#include "optim/same_bits.h"

static gd_value noise_rule(gd_rule *r, gd_value u)
{
    gd_value keep = gd_rule_lt(r, gd_rule_random(r, GD_RANDOM_UNIFORM), gd_rule_const(r, 0.8));
    gd_value z = gd_rule_mul(r, gd_rule_setting(r, "scale"), gd_rule_random(r, GD_RANDOM_NORMAL));
    z = gd_rule_mul(r, z, gd_rule_random(r, GD_RANDOM_SIGN));
    return gd_rule_mul(r, gd_rule_add(r, u, z), keep);
}

static const gd_field noise_fields[] = {GD_REAL("scale", 1, 0, 10, "of the noise"), GD_SEED("of the noise")};
static const gd_link_class noise_class = {.name = "noise", GD_FIELDS(noise_fields), .rule = noise_rule};

/* Random numbers and nothing else, its update_rule draws too. */
static void draw_update(gd_rule *r, gd_value u)
{
    (void)u;
    gd_rule_set(r, "drawn", gd_rule_random(r, GD_RANDOM_UNIFORM));
}

static gd_value draw_rule(gd_rule *r, gd_value u)
{
    (void)u;
    return gd_rule_add(r, gd_rule_random(r, GD_RANDOM_UNIFORM), gd_rule_random(r, GD_RANDOM_UNIFORM));
}

static const gd_slot draw_slots[] = {{"drawn", 0}};
static const gd_field draw_fields[] = {GD_SEED("of the numbers")};
static const gd_link_class draw_class = {.name = "draw",
                                         GD_FIELDS(draw_fields),
                                         GD_SLOTS(draw_slots),
                                         .update_rule = draw_update,
                                         .rule = draw_rule};

static gd_value asks_for_nonsense(gd_rule *r, gd_value u)
{
    return gd_rule_add(r, u, gd_rule_random(r, (gd_random_kind)9));
}

static const gd_link_class nonsense_class = {.name = "nonsense", .rule = asks_for_nonsense};

static void register_all(gd_ctx *ctx)
{
    OK(gd_link_class_register(ctx, &noise_class));
    OK(gd_link_class_register(ctx, &draw_class));
    OK(gd_link_class_register(ctx, &nonsense_class));
}

static void chains_with_random_numbers_give_the_same_bits_in_every_way(void **state)
{
    (void)state;
    static const char *const chains[] = {"noise(0.1, seed=3) | adam | lr(0.1)",
                                         "adam(inner=[noise(2)]) | noise | clip_norm(1) | lr(0.1)",
                                         "noise(seed=1) | noise(seed=1) | heavy_ball",
                                         "random_step_size | adam | random_step_size(0, 0.1, true)"};
    for (int i = 0; i < 3; i++) register_all(contexts[i]);
    for (int i = 0; i < COUNT_OF(chains); i++) {
        every_way(chains[i], GD_F32);
        every_way(chains[i], GD_F64);
    }
}

typedef struct drawing {
    gd_optimizer *o;
    gd_tensor *p[2];
} drawing;

static drawing open_drawing(gd_ctx *ctx, const char *chain, const char *device)
{
    drawing d = {.o = gd_optimizer_new(ctx, gd_chain(ctx, chain))};
    assert_no_error(ctx);
    for (int i = 0; i < 2; i++) {
        gd_scope_begin(ctx);
        gd_tensor *t = gd_to_device(gd_zeros(ctx, GD_F64, 2, (int64_t[]){50, 20}),
                                    gd_device_get(ctx, device));
        d.p[i] = gd_keep(gd_require_grad(t));
        gd_scope_end(ctx);
        OK(gd_optimizer_add(d.o, i ? "q" : "p", d.p[i]));
    }
    return d;
}

static void close_drawing(drawing *d)
{
    gd_optimizer_free(d->o);
    for (int i = 0; i < 2; i++) gd_release(d->p[i]);
}

/* A step with zero gradients; the parameters afterwards. */
static void draw(drawing *d, double (*values)[1000])
{
    gd_ctx *ctx = d->p[0]->head.ctx;
    gd_scope_begin(ctx);
    for (int i = 0; i < 2; i++) OK(gd_set_grad(d->p[i], gd_zeros_like(d->p[i])));
    OK(gd_optimizer_step(d->o, NULL, NULL));
    for (int i = 0; i < 2; i++) OK(gd_read_f64(d->p[i], values[i], 1000));
    gd_scope_end(ctx);
}

static int equal_numbers(const double *a, const double *b)
{
    int same = 0;
    for (int i = 0; i < 1000; i++) same += a[i] == b[i];
    return same;
}

static void steps_links_parameters_and_calls_have_numbers_of_their_own(void **state)
{
    gd_ctx *ctx = CTX(state);
    static double first[2][1000], second[2][1000], drawn[1000];
    register_all(ctx);
    gd_seed(ctx, 5);
    drawing d = open_drawing(ctx, "draw", "cpu");
    draw(&d, first);
    draw(&d, second);
    for (int i = 0; i < 1000; i++) second[0][i] -= first[0][i];
    assert_true(equal_numbers(first[0], first[1]) < 5);
    assert_true(equal_numbers(first[0], second[0]) < 5);
    OK(gd_read_f64(gd_link_state(gd_optimizer_chain(d.o), d.p[0], "drawn"), drawn, 1000));
    for (int i = 0; i < 1000; i++) drawn[i] *= -2; /* the sum of twice the same */
    assert_true(equal_numbers(second[0], drawn) < 5);
    close_drawing(&d);
    d = open_drawing(ctx, "draw | draw(seed=5)", "cpu");
    draw(&d, second);
    assert_true(equal_numbers(first[0], second[0]) < 5);
    close_drawing(&d);
}

static void a_seed_draws_the_same_again_whatever_else_was_drawn(void **state)
{
    gd_ctx *ctx = CTX(state);
    static double first[2][1000], again[2][1000];
    register_all(ctx);
    drawing d = open_drawing(ctx, "draw(seed=7)", "cpu"), e = open_drawing(ctx, "draw(seed=7)", "cpu"),
            f = open_drawing(ctx, "draw(seed=8)", "cpu");
    draw(&d, first);
    gd_release(gd_randn(ctx, GD_F32, 1, (int64_t[]){100}));
    gd_seed(ctx, 99);
    draw(&e, again);
    assert_memory_equal(first, again, sizeof first);
    draw(&f, again);
    assert_true(equal_numbers(first[0], again[0]) < 5);
    close_drawing(&d);
    close_drawing(&e);
    close_drawing(&f);
}

static void saved_and_loaded_it_goes_on_with_the_same_numbers(void **state)
{
    gd_ctx *ctx = CTX(state);
    static double want[2][1000], got[2][1000];
    char path[] = "/tmp/gradus-test-draw-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && close(file) == 0);
    register_all(ctx);
    drawing d = open_drawing(ctx, "draw(seed=7)", "cpu");
    for (int i = 0; i < 3; i++) draw(&d, want);
    OK(gd_optimizer_save(d.o, path));
    drawing e = open_drawing(ctx, "draw(seed=7)", "cpu");
    OK(gd_optimizer_load(e.o, path, true));
    for (int i = 0; i < 2; i++) OK(gd_write_f64(e.p[i], want[i], 1000));
    draw(&d, want);
    draw(&e, got);
    assert_memory_equal(want, got, sizeof want);
    assert_int_equal(unlink(path), 0);
    close_drawing(&d);
    close_drawing(&e);
}

/* The step sizes of p and q in a step of the chain: gradients of one. */
static void step_sizes(drawing *d, double out[2])
{
    gd_ctx *ctx = d->p[0]->head.ctx;
    gd_scope_begin(ctx);
    for (int i = 0; i < 2; i++) {
        double before = gd_at(d->p[i], (int64_t[]){0, 0});
        OK(gd_set_grad(d->p[i], gd_ones_like(d->p[i])));
        out[i] = before;
    }
    OK(gd_optimizer_step(d->o, NULL, NULL));
    for (int i = 0; i < 2; i++) {
        double now = gd_at(d->p[i], (int64_t[]){0, 0});
        assert_true(now == gd_at(d->p[i], (int64_t[]){49, 19})); /* one for all of its elements */
        out[i] -= now;
    }
    gd_scope_end(ctx);
}

/* Mean and mean square over many steps, within five standard deviations. */
static void step_sizes_are_uniform_and_one_a_step_or_one_a_tensor(void **state)
{
    gd_ctx *ctx = CTX(state);
    enum { DRAWN = 2000 };
    for (int own = 0; own < 2; own++) {
        double a[2], mean = 0, square = 0, product = 0;
        int same = 0;
        drawing d = open_drawing(ctx, own ? "random_step_size(-1, 3, true)" : "random_step_size(-1, 3)",
                                 "cpu");
        for (int i = 0; i < DRAWN; i++) {
            step_sizes(&d, a);
            same += fabs(a[0] - a[1]) < 1e-9;
            mean += a[0] / DRAWN;
            square += a[0] * a[0] / DRAWN;
            product += (a[0] - 1) * (a[1] - 1) / DRAWN;
            assert_true(a[0] > -1 - 1e-9 && a[0] < 3 + 1e-9);
        }
        assert_true(fabs(mean - 1) < 5 * sqrt(4.0 / 3 / DRAWN));
        assert_true(fabs(square - 7.0 / 3) < 5 * sqrt((12.2 - 49.0 / 9) / DRAWN));
        assert_true(own ? same < 5 && fabs(product) < 5 * 4.0 / 3 / sqrt(DRAWN) : same == DRAWN);
        close_drawing(&d);
    }
}

static void step_sizes_follow_their_seed(void **state)
{
    gd_ctx *ctx = CTX(state);
    double a[2], b[2], c[2];
    drawing d = open_drawing(ctx, "random_step_size(seed=7)", "cpu"),
            e = open_drawing(ctx, "random_step_size(seed=7)", "cpu"),
            f = open_drawing(ctx, "random_step_size(seed=8)", "cpu");
    step_sizes(&d, a);
    gd_seed(ctx, 99);
    step_sizes(&e, b);
    step_sizes(&f, c);
    assert_memory_equal(a, b, sizeof a);
    assert_true(a[0] != c[0]);
    close_drawing(&d);
    close_drawing(&e);
    close_drawing(&f);
}

static void a_kind_that_is_not_there_is_refused(void **state)
{
    gd_ctx *ctx = CTX(state);
    register_all(ctx);
    drawing d = open_drawing(ctx, "nonsense", "cpu");
    gd_scope_begin(ctx);
    for (int i = 0; i < 2; i++) OK(gd_set_grad(d.p[i], gd_zeros_like(d.p[i])));
    gd_scope_end(ctx);
    assert_int_equal(gd_optimizer_step(d.o, NULL, NULL), GD_INTERNAL);
    assert_error(ctx, GD_INTERNAL, "rule of 'nonsense': there is no such kind of random numbers");
    close_drawing(&d);
}

static int open_all(void **state) { return open_contexts(state); }
static int close_all(void **state) { return close_contexts(state); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(chains_with_random_numbers_give_the_same_bits_in_every_way),
        CASE(steps_links_parameters_and_calls_have_numbers_of_their_own),
        CASE(a_seed_draws_the_same_again_whatever_else_was_drawn),
        CASE(saved_and_loaded_it_goes_on_with_the_same_numbers),
        CASE(step_sizes_are_uniform_and_one_a_step_or_one_a_tensor),
        CASE(step_sizes_follow_their_seed),
        CASE(a_kind_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
