/* Links: settings in three levels, state, children, generators, Hessians. */
#include "optim/optim_support.h"
#include <gradus/dlpack.h>

static gd_link *top(const problem *x, int i) { return gd_link_child_at(gd_optimizer_chain(x->o), i); }

/* ---- settings ---- */

static void a_setting_comes_from_link_then_group_then_single_parameters(void **state)
{
    problem x = open_problem(CTX(state), "heavy_ball(momentum=0.5) | lr(0.25)");
    gd_link *momentum = top(&x, 0), *lr = top(&x, 1);
    assert_true(gd_link_real(lr, "lr", x.p) == 0.25);
    OK(gd_optimizer_regroup(x.o, "p", "lr=0.5"));
    assert_true(gd_link_real(lr, "lr", x.p) == 0.5);
    assert_true(gd_link_real(lr, "lr", x.q) == 0.25);
    OK(gd_link_set_for(lr, x.p, "lr", (gd_setting){.kind = GD_SET_REAL, .real = 0.125}));
    assert_true(gd_link_real(lr, "lr", x.p) == 0.125);
    assert_true(gd_link_real(lr, "lr", NULL) == 0.125); /* of the step: the first's */
    assert_true(gd_link_real(momentum, "momentum", x.p) == 0.5);
    OK(step(&x, NULL)); /* first velocities: (1 + 0.5) g */
    assert_values(x.p, 3 - 0.125 * 6, -1 + 0.125 * 6);
    assert_values(x.q, 0.5 - 0.25 * 3);
    close_problem(&x);
}

static void settings_of_single_parameters_from_text(void **state)
{
    problem x = open_problem(CTX(state), "heavy_ball(momentum=0.5, ema_init=\"zeros\") | lr(1)");
    OK(gd_link_set_group(top(&x, 0), &x.q, 1, "momentum=0, lerp=true"));
    OK(step(&x, NULL));
    OK(step(&x, NULL));
    /* p: v1 = g1, v2 = 0.5 v1 + g2; with lr 1: p1 = p0 - g1 */
    assert_values(x.p, -1 - (0.5 * 4 + -4), 3 - (0.5 * -4 + 4));
    /* q: lerp with momentum 0 is the gradient itself: q -> q - 4 q */
    assert_values(x.q, 0.5 * 9);
    close_problem(&x);
}

static void settings_that_shape_the_program_differ_between_parameters(void **state)
{
    problem x = open_problem(CTX(state), "weight_decay(0.5, ord=2)");
    OK(gd_link_set_group(gd_optimizer_chain(x.o), &x.q, 1, "ord=1"));
    OK(step(&x, NULL));
    assert_values(x.p, 3 - (4 + 1.5), -1 - (-4 - 0.5));
    assert_values(x.q, 0.5 - (2 + 0.5));
    close_problem(&x);
}

static void changing_a_setting_acts_on_the_next_step(void **state)
{
    problem x = open_problem(CTX(state), "lr(0.25)");
    gd_link *lr = gd_optimizer_chain(x.o);
    OK(step(&x, NULL));
    assert_values(x.p, 2, 0);
    OK(gd_link_set_real(lr, "lr", 0.5));
    OK(step(&x, NULL));
    assert_values(x.p, 1, 1);
    close_problem(&x);
    x = open_problem(CTX(state), "weight_decay(1)");
    OK(gd_link_set_real(gd_optimizer_chain(x.o), "ord", 1)); /* another program */
    OK(step(&x, NULL));
    assert_values(x.p, 3 - 5, -1 + 5);
    OK(gd_link_set_real(gd_optimizer_chain(x.o), "ord", 2));
    OK(step(&x, NULL));
    assert_values(x.p, -2 - (-6 - 2), 4 - (6 + 4));
    close_problem(&x);
}

static void wrong_settings_are_refused_and_change_nothing(void **state)
{
    problem x = open_problem(CTX(state), "adam | lr(1)");
    gd_link *adam = top(&x, 0);
    assert_int_equal(gd_link_set_real(adam, "beta1", 1.5), GD_VALUE);
    assert_error(x.ctx, GD_VALUE, "adam: beta1 is 1.5, must be from 0 to 1");
    assert_int_equal(gd_link_set_string(adam, "beta1", "x"), GD_TYPE);
    gd_clear_error(x.ctx);
    assert_int_equal(gd_link_set_real(adam, "beta3", 0.5), GD_ATTRIBUTE);
    assert_error(x.ctx, GD_ATTRIBUTE, "adam has no setting 'beta3', did you mean");
    assert_int_equal(gd_link_set_for(adam, x.p, "beta1", (gd_setting){.kind = GD_SET_REAL, .real = 2}),
                     GD_VALUE);
    gd_clear_error(x.ctx);
    assert_true(gd_link_real(adam, "beta1", x.p) == 0.9);
    close_problem(&x);
}

/* ---- state ---- */

static gd_tensor *make_threes(void *user, gd_tensor *param)
{
    ++*(int *)user;
    return gd_full_like(param, 3);
}

static void state_starts_as_zeros_copy_constant_or_function(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    gd_link *link = gd_optimizer_chain(x.o);
    int made = 0;
    assert_false(gd_link_has_state(link, x.p, "kept"));
    assert_values(gd_link_state(link, x.p, "kept"), 0, 0);
    assert_true(gd_link_has_state(link, x.p, "kept"));
    gd_link_reset(link);
    gd_tensor *copy = gd_link_state_from(link, x.p, "kept", (gd_init){.kind = GD_INIT_COPY, .tensor = x.p});
    assert_values(copy, 3, -1);
    assert_ptr_not_equal(copy, x.p);
    assert_false(gd_requires_grad(copy));
    gd_link_reset(link);
    gd_tensor *sevens = gd_full_like(x.p, 7);
    OK(gd_set_grad(x.p, sevens));
    gd_release(sevens);
    assert_values(
        gd_link_state_from(link, x.p, "kept", (gd_init){.kind = GD_INIT_COPY, .tensor = gd_grad_of(x.p)}), 7,
        7);
    gd_link_reset(link);
    assert_values(gd_link_state_from(link, x.p, "kept", (gd_init){.kind = GD_INIT_CONSTANT, .value = 2}), 2,
                  2);
    gd_link_reset(link);
    gd_init function = {.kind = GD_INIT_FUNCTION, .make = make_threes, .user = &made};
    assert_values(gd_link_state_from(link, x.p, "kept", function), 3, 3);
    assert_values(gd_link_state_from(link, x.p, "kept", function), 3, 3);
    assert_int_equal(made, 1); /* only the first time */
    assert_values(gd_link_state(link, x.q, "kept"), 0);
    gd_zero_grad(x.p);
    close_problem(&x);
}

static void set_state_copies_and_null_forgets(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    gd_link *link = gd_optimizer_chain(x.o);
    gd_tensor *value = VECTOR(x.ctx, 1, 2, 3);
    OK(gd_link_set_state(link, x.p, "kept", value));
    OK(gd_fill(value, 9));
    assert_values(gd_link_state(link, x.p, "kept"), 1, 2, 3); /* any shape */
    OK(gd_link_set_state(link, x.p, "kept", NULL));
    assert_false(gd_link_has_state(link, x.p, "kept"));
    assert_int_equal(gd_link_set_state(link, x.p, "other", value), GD_ATTRIBUTE);
    assert_error(x.ctx, GD_ATTRIBUTE, "probe_a declares no state 'other'");
    gd_release(value);
    close_problem(&x);
}

static void numbers_a_parameter_and_link_wide_state_are_kept(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    gd_link *link = gd_optimizer_chain(x.o);
    *gd_link_scalar(link, x.p, "number") = 4;
    assert_true(*gd_link_scalar(link, x.p, "number") == 4);
    assert_true(*gd_link_scalar(link, x.q, "number") == 0);
    assert_false(gd_link_has_global(link, "count"));
    double *first = gd_link_global(link, "count", 5);
    char name[16];
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "g%d", i);
        assert_non_null(gd_link_global(link, name, i));
    }
    assert_true(*first == 5); /* addresses hold */
    *first += 1;
    assert_true(*gd_link_global(link, "count", 5) == 6);
    gd_tensor *t = VECTOR(x.ctx, 1);
    OK(gd_link_set_global_tensor(link, "tensor", t));
    gd_release(t);
    assert_values(gd_link_global_tensor(link, "tensor"), 1);
    assert_null(gd_link_global_tensor(link, "none"));
    close_problem(&x);
}

static void reset_forgets_state_of_the_link_and_its_children_but_no_settings(void **state)
{
    problem x = open_problem(CTX(state), "probe_a(child=probe_b)");
    gd_link *link = gd_optimizer_chain(x.o), *child = gd_link_child(link, "child");
    OK(gd_link_set_for(link, x.p, "knob", (gd_setting){.kind = GD_SET_REAL, .real = 2}));
    for (int i = 0; i < 2; i++) {
        gd_link *l = i ? child : link;
        assert_non_null(gd_link_state(l, x.p, "kept"));
        *gd_link_scalar(l, x.p, "number") = 4;
        *gd_link_global(l, "g", 0) = 1;
        l->step = 3;
    }
    gd_optimizer_reset(x.o);
    for (int i = 0; i < 2; i++) {
        gd_link *l = i ? child : link;
        assert_false(gd_link_has_state(l, x.p, "kept"));
        assert_true(*gd_link_scalar(l, x.p, "number") == 0);
        assert_false(gd_link_has_global(l, "g"));
        assert_int_equal(l->step, 0);
    }
    assert_true(gd_link_real(link, "knob", x.p) == 2);
    close_problem(&x);
}

static void a_reset_optimizer_steps_as_a_new_one(void **state)
{
    problem x = open_problem(CTX(state), "clip_norm(3) | adam | heavy_ball | lr(0.1)");
    double first[3], again[3];
    OK(step(&x, NULL));
    OK(gd_read_f64(x.p, first, 2));
    for (int i = 0; i < 3; i++) OK(step(&x, NULL));
    gd_optimizer_reset(x.o);
    assert_int_equal(gd_optimizer_steps(x.o), 0);
    OK(gd_write_f64(x.p, (double[]){3, -1}, 2));
    OK(gd_write_f64(x.q, (double[]){0.5}, 1));
    OK(step(&x, NULL));
    OK(gd_read_f64(x.p, again, 2));
    assert_memory_equal(first, again, 16);
    close_problem(&x);
}

static void reset_for_online_forgets_what_depends_on_the_evaluation_before(void **state)
{
    problem x = open_problem(CTX(state), "probe_a(child=probe_b)");
    gd_link *link = gd_optimizer_chain(x.o), *child = gd_link_child(link, "child");
    for (int i = 0; i < 2; i++) {
        assert_non_null(gd_link_state(i ? child : link, x.p, "kept"));
        assert_non_null(gd_link_state(i ? child : link, x.p, "previous"));
    }
    gd_link_reset_for_online(link);
    for (int i = 0; i < 2; i++) {
        assert_true(gd_link_has_state(i ? child : link, x.p, "kept"));
        assert_false(gd_link_has_state(i ? child : link, x.p, "previous"));
    }
    close_problem(&x);
}

/* ---- generators ---- */

static gd_tensor *draw(gd_link *link, gd_tensor *like)
{
    return gd_link_random(link, GD_RANDOM_NORMAL, like);
}

static void a_seeded_link_has_a_generator_of_its_own(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "probe_a(seed=5)");
    gd_link *link = gd_optimizer_chain(x.o);
    gd_scope_begin(ctx);
    double a[2], b[2], c[2];
    OK(gd_read_f64(draw(link, x.p), a, 2));
    OK(gd_read_f64(draw(link, x.p), b, 2));
    assert_memory_not_equal(a, b, 16);
    assert_int_equal(ctx->rng.counter, 0); /* the context's is untouched */
    gd_link_reset(link);
    OK(gd_read_f64(draw(link, x.p), c, 2));
    assert_memory_equal(a, c, 16);
    gd_scope_end(ctx);
    close_problem(&x);
}

static void a_link_without_a_seed_uses_the_generator_of_the_context(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "probe_a");
    gd_scope_begin(ctx);
    double a[2], b[2];
    gd_seed(ctx, 11);
    OK(gd_read_f64(draw(gd_optimizer_chain(x.o), x.p), a, 2));
    gd_seed(ctx, 11);
    OK(gd_read_f64(gd_randn(ctx, GD_F64, 1, (int64_t[]){2}), b, 2));
    assert_memory_equal(a, b, 16);
    gd_scope_end(ctx);
    close_problem(&x);
}

/* ---- Hessians ---- */

static gd_linop *unit_hessian(gd_link *link, gd_var *var)
{
    (void)var;
    return gd_linop_diagonal(gd_ones(gd_link_ctx(link), GD_F64, 1, (int64_t[]){3}));
}

static gd_status idle(gd_link *link, gd_var *var)
{
    (void)link;
    (void)var;
    return GD_OK;
}

static const gd_field pair_fields[] = {GD_CHILD("first", ""), GD_CHILD("second", "")};
static const gd_link_class curved = {.name = "curved", .step = idle, .hessian = unit_hessian};
static const gd_link_class pair = {.name = "pair", GD_FIELDS(pair_fields), .step = idle};
static const gd_link_class opaque = {
    .name = "opaque", GD_FIELDS(pair_fields), .step = idle, .traits.no_child_hessian = true};

static gd_linop *hessian_of(gd_ctx *ctx, const char *chain)
{
    gd_link *link = gd_chain(ctx, chain);
    assert_non_null(link);
    gd_scope_begin(ctx);
    gd_linop *h = gd_link_hessian(link, NULL);
    gd_scope_end(ctx);
    gd_link_release(link);
    return h;
}

static void a_hessian_is_found_in_children_and_two_are_an_error(void **state)
{
    gd_ctx *ctx = CTX(state);
    OK(gd_link_class_register(ctx, &curved));
    OK(gd_link_class_register(ctx, &pair));
    OK(gd_link_class_register(ctx, &opaque));
    static const char *const found[] = {"curved", "pair(curved)",
                                        "pair(first=lr(1), second=[adam | pair(curved)])"};
    for (int i = 0; i < 3; i++) {
        gd_linop *h = hessian_of(ctx, found[i]);
        assert_non_null(h);
        assert_int_equal(gd_linop_size(h), 3);
        gd_linop_release(h);
    }
    assert_null(hessian_of(ctx, "pair(adam, lr(1))"));
    assert_null(hessian_of(ctx, "opaque(curved)"));
    assert_no_error(ctx);
    assert_null(hessian_of(ctx, "pair(curved, [adam | curved])"));
    assert_error(ctx, GD_STATE, "pair: two children have a Hessian, the second is 'chain'");
}

/* ---- children and printing ---- */

static void printing_gives_the_chain_text_back(void **state)
{
    problem x = open_problem(CTX(state), "clip_norm(1) | probe_a(knob=2, child=[adam | lr(0.5)]) | lr(0.1)");
    char text[200];
    gd_link_print(gd_optimizer_chain(x.o), text, sizeof text);
    assert_string_equal(text, "clip_norm(1) | probe_a(knob=2, child=[adam | lr(0.5)]) | lr(0.1)");
    close_problem(&x);
}

static void a_child_can_be_replaced_and_removed_between_steps(void **state)
{
    problem x = open_problem(CTX(state), "rmsprop(inner=lr(2)) | lr(1)");
    gd_link *rmsprop = top(&x, 0);
    OK(step(&x, NULL));
    OK(gd_link_set_child(rmsprop, "inner", gd_chain(x.ctx, "[lr(3) | lr(4)]")));
    OK(step(&x, NULL));
    assert_int_equal(gd_link_children(rmsprop), 1);
    gd_link *inner = gd_link_child(rmsprop, "inner");
    assert_ptr_equal(gd_link_child_at(inner, 0)->optimizer, x.o); /* adopted */
    OK(gd_link_set_none(rmsprop, "inner"));
    assert_int_equal(gd_link_children(rmsprop), 0);
    OK(step(&x, NULL));
    close_problem(&x);
}

static void a_link_is_in_one_chain_only(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_link *a = gd_chain(ctx, "rmsprop"), *b = gd_chain(ctx, "rmsprop"), *c = gd_chain(ctx, "lr(1)");
    OK(gd_link_set_child(a, "inner", c));
    assert_int_equal(gd_link_set_child(b, "inner", c), GD_STATE); /* not retained: it stays a's */
    assert_error(ctx, GD_STATE, "rmsprop: the link 'lr' is already in a chain");
    assert_int_equal(gd_link_set_child(b, "inner", gd_link_retain(c)), GD_STATE);
    gd_clear_error(ctx);
    assert_ptr_equal(gd_link_child(a, "inner"), c);
    assert_null(gd_chain_of(ctx, (gd_link *const[]){b, b}, 2));
    assert_error(ctx, GD_STATE, "chain: the link 'rmsprop' is already in a chain");
    gd_optimizer *o = gd_optimizer_new(ctx, a);
    assert_non_null(o);
    assert_null(gd_optimizer_new(ctx, a));
    assert_error(ctx, GD_STATE, "optimizer: the link 'rmsprop' is already in use");
    gd_optimizer_free(o);
}

static void a_link_cannot_be_below_itself(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_link *outer = gd_chain(ctx, "rmsprop(inner=rmsprop)"), *inner = gd_link_child(outer, "inner");
    assert_int_equal(gd_link_set_child(inner, "inner", gd_link_retain(outer)), GD_CYCLE);
    assert_error(ctx, GD_CYCLE, "rmsprop: a link cannot be below itself");
    assert_int_equal(gd_link_set_child(outer, "inner", gd_link_retain(outer)), GD_CYCLE);
    gd_clear_error(ctx);
    assert_int_equal(gd_link_set_child(outer, "eps", gd_chain(ctx, "lr(1)")), GD_TYPE);
    assert_error(ctx, GD_TYPE, "rmsprop: 'eps' takes no link");
    assert_int_equal(gd_link_set_child(outer, "inner", NULL), GD_ARGUMENT);
    gd_clear_error(ctx);
    gd_link_release(outer);
}

static void maybe_chain_gives_the_one_link_itself(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_link *one = gd_chain(ctx, "adam"), *two = gd_chain(ctx, "clip_value(1) | lr(1)");
    assert_ptr_equal(gd_chain_of(ctx, &one, 1), one);
    gd_link *all = gd_chain_of(ctx, (gd_link *const[]){one, two}, 2);
    assert_string_equal(gd_link_class_of(all)->name, "chain");
    assert_int_equal(gd_link_children(all), 3); /* chains are taken apart */
    gd_link_release(all);
}

static int checked;

static gd_status check_knob(gd_link *link)
{
    checked++;
    return gd_link_real(link, "knob", NULL) == 3 ? gd_fail(gd_link_ctx(link), GD_VALUE, "3 does not fit")
                                                 : GD_OK;
}

static void the_class_checks_settings_when_an_optimizer_takes_the_link(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const gd_field fields[] = {GD_REAL("knob", 1, 0, 10, "")};
    static const gd_link_class cls = {
        .name = "checked", GD_FIELDS(fields), .step = idle, .check = check_knob};
    gd_link *link = gd_link_new(ctx, &cls);
    OK(gd_link_set_real(link, "knob", 3));
    assert_null(gd_optimizer_new(ctx, gd_link_retain(link)));
    assert_error(ctx, GD_VALUE, "3 does not fit");
    OK(gd_link_set_real(link, "knob", 4));
    gd_optimizer *o = gd_optimizer_new(ctx, link);
    assert_non_null(o);
    gd_optimizer_free(o);
}

static void a_chain_can_be_used_again_when_its_optimizer_is_gone(void **state)
{
    problem x = open_problem(CTX(state), "adam | lr(0.1)");
    gd_link *chain = gd_link_retain(gd_optimizer_chain(x.o));
    OK(step(&x, NULL));
    gd_optimizer_free(x.o);
    x.o = gd_optimizer_new(x.ctx, chain);
    assert_non_null(x.o);
    OK(gd_optimizer_add(x.o, "p", x.p));
    OK(step(&x, NULL)); /* with the state it had */
    assert_int_equal(top(&x, 0)->step, 2);
    close_problem(&x);
}

static void every_link_says_how_it_spreads_over_processes(void **state)
{
    (void)state;
    int count = 0;
    const gd_link_class *const *classes = gd_link_classes(&count);
    for (int i = 0; i < count; i++) {
        const gd_link_class *c = classes[i];
        bool said = c->spread >= GD_SPREAD_FLAT && c->spread <= GD_SPREAD_WHOLE;
        /* a rule that always serves is flat, and saying otherwise would be wrong */
        bool always = c->rule && !c->element_wise;
        if (always ? c->spread > GD_SPREAD_FLAT : !said) fail_msg("%s does not say how it spreads", c->name);
    }
}

static void a_link_spreads_as_its_settings_make_it(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    static const struct {
        const char *text;
        gd_spread spread;
    } rows[] = {{"adam", GD_SPREAD_FLAT},
                {"clip_norm(1)", GD_SPREAD_FLAT},
                {"clip_norm(1, dim=[0])", GD_SPREAD_TENSOR},
                {"lbfgs", GD_SPREAD_VECTOR},
                {"newton", GD_SPREAD_WHOLE}};
    for (int i = 0; i < COUNT_OF(rows); i++) {
        gd_link *link = gd_chain(ctx, rows[i].text);
        assert_non_null(link);
        if (gd_link_spread(link) != rows[i].spread)
            fail_msg("%s: %s", rows[i].text, gd_spread_name(gd_link_spread(link)));
        gd_link_release(link);
    }
    assert_string_equal(gd_spread_name(GD_SPREAD_VECTOR), "vector");
    end_context(ctx, NULL);
}

enum { PIECE = 3, WHOLE = 8 };

/* Steps of a chain over elements [first, last) of a vector, whose gradients are known; false where it does not step. */
static bool step_piece(gd_ctx *ctx, const char *text, int first, int last, double *at)
{
    double slope[WHOLE];
    int64_t shape[1] = {last - first};
    gd_device *cpu = gd_device_get(ctx, "cpu");
    gd_tensor *p = gd_require_grad(gd_from_memory(cpu, GD_F64, 1, shape, NULL, at + first, 0, NULL, NULL));
    gd_tensor *g = gd_from_memory(cpu, GD_F64, 1, shape, NULL, slope + first, 0, NULL, NULL);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, text));
    gd_status status = gd_optimizer_add(o, "p", p);
    for (int step = 0; step < 6 && !status; step++) {
        for (int i = 0; i < WHOLE; i++) slope[i] = sin(1.7 * i + step) * (i + 1);
        status = gd_set_grad(p, g);
        if (!status) status = gd_optimizer_step(o, NULL, NULL);
    }
    gd_clear_error(ctx);
    gd_optimizer_free(o);
    gd_release(p), gd_release(g);
    return !status;
}

/* What says that it works on pieces has the bits of the whole on them; all classes are asked. */
static void a_link_that_is_local_steps_pieces_as_it_steps_the_whole(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    int count, tried = 0;
    const gd_link_class *const *classes = gd_link_classes(&count);
    for (int i = 0; i < count; i++) {
        gd_link *link = gd_chain(ctx, classes[i]->name);
        bool local = gd_link_is_local(link);
        gd_link_release(link);
        gd_clear_error(ctx);
        double whole[WHOLE] = {1, -2, 3, -4, 5, -6, 7, -8}, pieces[WHOLE];
        memcpy(pieces, whole, sizeof pieces);
        if (!local || !step_piece(ctx, classes[i]->name, 0, WHOLE, whole)) continue;
        assert_true(step_piece(ctx, classes[i]->name, 0, PIECE, pieces));
        assert_true(step_piece(ctx, classes[i]->name, PIECE, WHOLE, pieces));
        if (memcmp(whole, pieces, sizeof whole)) fail_msg("%s differs on pieces", classes[i]->name);
        tried++;
    }
    assert_true(tried > 60);
    static const char *const others[] = {"clip_norm(1)",
                                         "dropout",
                                         "adafactor",
                                         "lbfgs",
                                         "newton",
                                         "adam | clip_norm(1)",
                                         "split(\"axes>=2\", normalize, adam)"};
    for (int i = 0; i < COUNT_OF(others); i++) {
        gd_link *link = gd_chain(ctx, others[i]);
        assert_non_null(link);
        if (gd_link_is_local(link)) fail_msg("%s needs more than a piece", others[i]);
        gd_link_release(link);
    }
    assert_false(gd_link_is_local(NULL));
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_that_is_local_steps_pieces_as_it_steps_the_whole),
        cmocka_unit_test(every_link_says_how_it_spreads_over_processes),
        cmocka_unit_test(a_link_spreads_as_its_settings_make_it),
        CASE(a_setting_comes_from_link_then_group_then_single_parameters),
        CASE(settings_of_single_parameters_from_text),
        CASE(settings_that_shape_the_program_differ_between_parameters),
        CASE(changing_a_setting_acts_on_the_next_step),
        CASE(wrong_settings_are_refused_and_change_nothing),
        CASE(state_starts_as_zeros_copy_constant_or_function),
        CASE(set_state_copies_and_null_forgets),
        CASE(numbers_a_parameter_and_link_wide_state_are_kept),
        CASE(reset_forgets_state_of_the_link_and_its_children_but_no_settings),
        CASE(a_reset_optimizer_steps_as_a_new_one),
        CASE(reset_for_online_forgets_what_depends_on_the_evaluation_before),
        CASE(a_seeded_link_has_a_generator_of_its_own),
        CASE(a_link_without_a_seed_uses_the_generator_of_the_context),
        CASE(a_hessian_is_found_in_children_and_two_are_an_error),
        CASE(printing_gives_the_chain_text_back),
        CASE(a_child_can_be_replaced_and_removed_between_steps),
        CASE(a_link_is_in_one_chain_only),
        CASE(a_link_cannot_be_below_itself),
        CASE(maybe_chain_gives_the_one_link_itself),
        CASE(the_class_checks_settings_when_an_optimizer_takes_the_link),
        CASE(a_chain_can_be_used_again_when_its_optimizer_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
