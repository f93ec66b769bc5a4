/* Lives of objects: scopes, keep, retain, early release. */
#include "support/support.h"

#include "base/ctx.h"

static gd_tensor *number(gd_ctx *ctx, double v) { return gd_scalar(ctx, GD_F64, v); }

static void a_scope_frees_what_was_made_in_it(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_tensor *outside = number(ctx, 1);
    gd_scope_begin(ctx);
    for (int i = 0; i < 200; i++) (void)gd_add(outside, number(ctx, i));
    assert_int_equal(gd_ctx_live(ctx), 401);
    gd_scope_end(ctx);
    assert_int_equal(gd_ctx_live(ctx), 1);
    gd_release(outside);
    end_context(ctx, &m);
}

static void scopes_nest(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    for (int i = 0; i < 100; i++) {
        gd_scope_begin(ctx);
        (void)number(ctx, i);
    }
    for (int i = 100; i > 0; i--) {
        assert_int_equal(gd_ctx_live(ctx), i);
        gd_scope_end(ctx);
    }
    gd_scope_end(ctx); /* one end too many does nothing */
    assert_int_equal(gd_ctx_live(ctx), 0);
    end_context(ctx, &m);
}

static void keep_moves_one_scope_out(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_scope_begin(ctx);
    (void)number(ctx, 1);
    gd_tensor *kept = gd_keep(number(ctx, 2));
    (void)number(ctx, 3);
    gd_tensor *second = gd_keep(gd_keep(number(ctx, 4))); /* twice is once */
    gd_scope_end(ctx);
    assert_int_equal(gd_ctx_live(ctx), 2);
    assert_true(gd_item(kept) == 2 && gd_item(second) == 4);
    gd_scope_end(ctx);
    assert_int_equal(gd_ctx_live(ctx), 0);
    end_context(ctx, &m);
}

static void keep_from_the_outermost_scope_hands_it_to_the_caller(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *kept = gd_keep(number(ctx, 2));
    gd_scope_end(ctx);
    assert_true(gd_item(kept) == 2);
    gd_release(kept);
    assert_null(gd_keep(NULL));
    gd_tensor *mine = gd_keep(number(ctx, 3)); /* without a scope it is the caller's anyway */
    gd_release(mine);
    end_context(ctx, &m);
}

static void keep_leaves_objects_of_outer_scopes_where_they_are(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *outer = number(ctx, 1);
    gd_scope_begin(ctx);
    (void)gd_keep(outer);
    gd_scope_end(ctx);
    gd_scope_end(ctx);
    assert_int_equal(gd_ctx_live(ctx), 0);
    end_context(ctx, &m);
}

static void a_retained_object_outlives_its_scope(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *t = gd_retain(number(ctx, 5));
    gd_scope_end(ctx);
    assert_true(gd_item(t) == 5);
    gd_release(t);
    assert_int_equal(gd_ctx_live(ctx), 0);
    end_context(ctx, &m);
}

static void retain_and_release_inside_a_scope_leave_it_alone(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *t = number(ctx, 5);
    (void)gd_retain(t);
    (void)gd_retain(t);
    gd_release(t);
    gd_release(t);
    assert_true(gd_item(t) == 5);
    gd_scope_end(ctx);
    assert_int_equal(gd_ctx_live(ctx), 0);
    end_context(ctx, &m);
}

static void release_inside_a_scope_frees_at_once(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *t = number(ctx, 1), *u = number(ctx, 2);
    gd_release(t);
    assert_int_equal(gd_ctx_live(ctx), 1);
    assert_true(gd_item(u) == 2);
    gd_release(NULL);
    gd_scope_end(ctx);
    assert_int_equal(gd_ctx_live(ctx), 0);
    end_context(ctx, &m);
}

/* The graph holds what was released early, and the scope does not release it again. */
static void early_release_of_an_operand_does_not_break_its_graph(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_tensor *x = gd_require_grad(VECTOR(ctx, 1, 2)), *loss;
    gd_scope_begin(ctx);
    gd_tensor *y = gd_exp(x), *z = gd_mul(y, y);
    gd_release(y);
    loss = gd_keep(gd_sum(z, NULL, false));
    gd_release(z);
    gd_scope_end(ctx);
    assert_int_equal(gd_backward(loss, NULL, 0), GD_OK);
    assert_values(gd_grad_of(x), 2 * 7.38905609893065, 2 * 54.598150033144236);
    gd_release(loss);
    gd_release(x);
    assert_int_equal(gd_ctx_live(ctx), 0);
    end_context(ctx, &m);
}

/* Objects whose destructor releases others of the same scope. */
static void views_and_gradients_die_with_their_scope(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_require_grad(VECTOR(ctx, 1, 2, 3));
    gd_tensor *y = gd_sum(gd_square(gd_slice(x, "0", 0, 2, 1)), NULL, false);
    assert_int_equal(gd_backward(y, NULL, 0), GD_OK);
    assert_non_null(gd_grad_of(x));
    gd_scope_end(ctx);
    assert_int_equal(gd_ctx_live(ctx), 0);
    end_context(ctx, &m);
}

static void freeing_a_context_ends_its_scopes(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_scope_begin(ctx);
    (void)number(ctx, 1);
    gd_ctx_free(ctx);
    assert_int_equal(m.blocks, 0);
}

/* Random sequences of making, keeping, retaining and releasing. */
static void random_lives_add_up(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    uint64_t seed = 9;
    enum { DEPTH = 40, HELD = 50 };
    gd_tensor *held[HELD] = {NULL}; /* references of ours */
    for (int round = 0; round < 300; round++) {
        int64_t depth = random_below(&seed, DEPTH);
        gd_scope_begin(ctx); /* catches what is kept */
        for (int64_t d = 0; d < depth; d++) {
            gd_scope_begin(ctx);
            for (int64_t n = random_below(&seed, 8); n > 0; n--) {
                gd_tensor *t = number(ctx, (double)n);
                int64_t what = random_below(&seed, 4), place = random_below(&seed, HELD);
                if (what == 0) (void)gd_keep(t);
                if (what == 1) gd_release(t);
                if (what == 2) {
                    gd_release(held[place]);
                    held[place] = gd_retain(t);
                }
                /* given to this scope again, as a function does that returns its argument: to be released early or not */
                int64_t again = random_below(&seed, 3);
                for (int64_t k = 0; k < again && what != 1; k++) {
                    gd__retain(t);
                    assert_int_equal(gd__scope_take(t), GD_OK);
                    if (what != 2 && random_below(&seed, 2))
                        gd_release(t); /* a retained one gives back that */
                    if (random_below(&seed, 3) == 0) (void)gd_keep(t);
                }
                if (!held[place]) continue;
                gd__retain(held[place]);
                assert_int_equal(gd__scope_take(held[place]), GD_OK);
            }
        }
        for (int64_t d = 0; d <= depth; d++) gd_scope_end(ctx);
        int64_t ours = 0;
        for (int i = 0; i < HELD; i++) ours += held[i] != NULL;
        assert_int_equal(gd_ctx_live(ctx), ours);
    }
    for (int i = 0; i < HELD; i++) gd_release(held[i]);
    end_context(ctx, &m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scope_frees_what_was_made_in_it),
        cmocka_unit_test(scopes_nest),
        cmocka_unit_test(keep_moves_one_scope_out),
        cmocka_unit_test(keep_from_the_outermost_scope_hands_it_to_the_caller),
        cmocka_unit_test(keep_leaves_objects_of_outer_scopes_where_they_are),
        cmocka_unit_test(a_retained_object_outlives_its_scope),
        cmocka_unit_test(retain_and_release_inside_a_scope_leave_it_alone),
        cmocka_unit_test(release_inside_a_scope_frees_at_once),
        cmocka_unit_test(early_release_of_an_operand_does_not_break_its_graph),
        cmocka_unit_test(views_and_gradients_die_with_their_scope),
        cmocka_unit_test(freeing_a_context_ends_its_scopes),
        cmocka_unit_test(random_lives_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
