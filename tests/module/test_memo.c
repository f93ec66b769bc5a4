/* Memoised virtual tensors: computed again exactly when something they read has changed. */
#include "module/virtual_support.h"

#include "module/module_internal.h"
#include "tensor/device.h"

static gd_tensor *outer_square(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device, (void)user;
    gd_tensor *w = gd_module_get_tensor(owner, "weight");
    return gd_square(w);
}

/* ---- memoising ---- */

/* Reads x by name and says whether the function ran. */
static bool computed(gd_module *m, counter *c)
{
    int before = c->calls;
    assert_non_null(gd_module_get_tensor(m, "x"));
    return c->calls > before;
}

static gd_virtual_options memoised(gd_materializer fn, counter *c)
{
    gd_virtual_options options = by_function(fn, c);
    options.memoise = true;
    return options;
}

static void a_memoised_value_is_computed_again_only_when_what_it_read_has_changed(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    ok(gd_module_set_tensor(m, "other", VECTOR(ctx, 1)));
    counter c = {0};
    gd_virtual_options options = memoised(twice, &c);
    ok(gd_virtual_create(m, "x", &options));
    assert_true(computed(m, &c));
    assert_false(computed(m, &c));
    ok(gd_fill(gd_module_get_tensor(m, "other"), 3)); /* not read */
    ok(gd_module_set_int(m, "n", 3));
    ok(gd_module_set_tensor(m, "other", VECTOR(ctx, 2)));
    assert_false(computed(m, &c));
    ok(gd_fill(gd_module_get_tensor(m, "weight"), 3)); /* in place */
    assert_true(computed(m, &c));
    expect_values(gd_module_get_tensor(m, "x"), 6, 6, 6);
    ok(gd_module_set_parameter(m, "weight", VECTOR(ctx, 1, 1))); /* assigned */
    assert_true(computed(m, &c));
    expect_values(gd_module_get_tensor(m, "x"), 2, 2);
    assert_false(computed(m, &c));
    expect_values(gd_virtual_value(gd_module_get_virtual(m, "x")), 2, 2);
    assert_false(computed(m, &c));
    gd_scope_end(ctx);
}

static gd_tensor *scaled(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device;
    ((counter *)user)->calls++;
    double scale = 1;
    if (gd_module_has(owner, "scale") && gd_module_get_real(owner, "scale", &scale)) return NULL;
    return gd_mul_scalar(gd_module_get_tensor(owner, "child.w"), scale);
}

static void plain_values_and_nested_modules_count_as_read(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx), *child = gd_module_new(gd_class_module(ctx)),
              *next = gd_module_new(gd_class_module(ctx));
    ok(gd_module_set_parameter(child, "w", VECTOR(ctx, 1)));
    ok(gd_module_set_parameter(next, "w", VECTOR(ctx, 10)));
    ok(gd_module_set_module(m, "child", child));
    counter c = {0};
    gd_virtual_options options = memoised(scaled, &c);
    ok(gd_virtual_create(m, "x", &options));
    assert_true(computed(m, &c));
    assert_false(computed(m, &c));
    ok(gd_module_set_real(m, "scale", 2)); /* it asked for it when it was not there */
    assert_true(computed(m, &c));
    expect_values(gd_module_get_tensor(m, "x"), 2);
    ok(gd_module_set_real(m, "scale", 3));
    assert_true(computed(m, &c));
    ok(gd_module_delete(m, "scale"));
    assert_true(computed(m, &c));
    ok(gd_module_set_module(m, "child", next)); /* another module under the same name */
    assert_true(computed(m, &c));
    expect_values(gd_module_get_tensor(m, "x"), 10);
    ok(gd_fill(gd_module_get_tensor(m, "child.w"), 20));
    assert_true(computed(m, &c));
    ok(gd_fill(gd_module_get_tensor(child, "w"), 7)); /* the old one is out of it */
    assert_false(computed(m, &c));
    gd_scope_end(ctx);
}

static gd_tensor *read_inner(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device;
    ((counter *)user)->calls++;
    return gd_add_scalar(gd_module_get_tensor(owner, "inner"), 1);
}

static void what_another_virtual_tensor_read_counts_too(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    for (int inner_memo = 0; inner_memo < 2; inner_memo++) {
        gd_module *m = net(ctx);
        counter inner = {0}, c = {0};
        gd_virtual_options options = by_function(twice, &inner);
        options.memoise = inner_memo;
        ok(gd_virtual_create(m, "inner", &options));
        if (inner_memo) assert_non_null(gd_module_get_tensor(m, "inner")); /* remembered before x reads it */
        options = memoised(read_inner, &c);
        ok(gd_virtual_create(m, "x", &options));
        assert_true(computed(m, &c));
        assert_false(computed(m, &c));
        ok(gd_fill(gd_module_get_tensor(m, "weight"), 4));
        assert_true(computed(m, &c));
        expect_values(gd_module_get_tensor(m, "x"), 9, 9, 9);
        ok(gd_virtual_to(gd_module_get_virtual(m, "inner"), GD_F32, NULL));
        assert_true(computed(m, &c));
    }
    gd_scope_end(ctx);
}

static void a_new_dtype_or_device_computes_again(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_device other = *gd_device_get(ctx, "cpu");
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    counter c = {0};
    gd_virtual_options options = memoised(twice, &c);
    ok(gd_virtual_create(m, "x", &options));
    assert_true(computed(m, &c));
    ok(gd_virtual_to(gd_module_get_virtual(m, "x"), GD_F32, NULL));
    assert_true(computed(m, &c));
    assert_int_equal(gd_tensor_dtype(gd_module_get_tensor(m, "x")), GD_F32);
    ok(gd_module_to_device(m, &other));
    assert_true(computed(m, &c));
    assert_ptr_equal(gd_tensor_device(gd_module_get_tensor(m, "x")), &other);
    ok(gd_module_to(m, GD_F64));
    assert_true(computed(m, &c));
    assert_false(computed(m, &c));
    gd_scope_end(ctx);
}

static void a_value_made_without_gradients_is_not_used_where_they_are_wanted(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    counter c = {0};
    gd_virtual_options options = memoised(twice, &c);
    ok(gd_virtual_create(m, "x", &options));
    gd_no_grad_begin(ctx);
    assert_true(computed(m, &c));
    assert_false(computed(m, &c));
    gd_no_grad_end(ctx);
    assert_true(computed(m, &c));
    ok(gd_backward(gd_sum(gd_module_get_tensor(m, "x"), NULL, false), NULL, GD_RETAIN_GRAPH));
    expect_values(gd_grad_of(gd_module_get_tensor(m, "weight")), 2, 2, 2);
    gd_no_grad_begin(ctx); /* the other way round it serves */
    assert_false(computed(m, &c));
    gd_no_grad_end(ctx);
    ok(gd_module_freeze(m)); /* frozen and thawed: the history has changed */
    assert_true(computed(m, &c));
    assert_false(gd_requires_grad(gd_module_get_tensor(m, "x")));
    ok(gd_module_unfreeze(m));
    assert_true(computed(m, &c));
    assert_true(gd_requires_grad(gd_module_get_tensor(m, "x")));
    gd_scope_end(ctx);
}

static void a_value_whose_history_was_used_up_is_computed_again(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    counter c = {0};
    gd_virtual_options options = memoised(outer_square, &c);
    ok(gd_virtual_create(m, "x", &options));
    gd_tensor *weight = gd_module_get_tensor(m, "weight");
    for (int pass = 1; pass <= 3; pass++) { /* gradients add up over backward passes without a step between */
        ok(gd_backward(gd_sum(gd_square(gd_module_get_tensor(m, "x")), NULL, false), NULL, 0));
        expect_values(gd_grad_of(weight), 4 * pass, 32 * pass, 108 * pass); /* d w^4 */
    }
    gd_scope_end(ctx);
}

static void a_value_read_in_a_scope_outlives_the_next_computation(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    counter c = {0};
    gd_virtual_options options = memoised(twice, &c);
    ok(gd_virtual_create(m, "x", &options));
    assert_true(computed(m, &c));
    gd_tensor *old = gd_module_get_tensor(m, "x"); /* out of the memo */
    assert_int_equal(c.calls, 1);
    ok(gd_fill(gd_module_get_tensor(m, "weight"), 5));
    expect_values(gd_module_get_tensor(m, "x"), 10, 10, 10);
    expect_values(old, 2, 4, 6);
    gd_scope_end(ctx);
}

static void a_value_that_was_written_to_is_computed_again(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    counter c = {0};
    gd_virtual_options options = memoised(twice, &c);
    ok(gd_virtual_create(m, "x", &options));
    ok(gd_fill(gd_module_get_tensor(m, "x"), 77));
    expect_values(gd_module_get_tensor(m, "x"), 2, 4, 6);
    gd_scope_end(ctx);
}

static gd_tensor *count_parameters(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)device;
    ((counter *)user)->calls++;
    return gd_scalar(gd_module_ctx(owner), dtype, (double)gd_named_count(gd_module_parameters(owner, NULL)));
}

static void a_function_that_lists_its_owner_depends_on_the_tree(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = gd_module_keep(net(ctx)), *below = net(ctx);
    ok(gd_module_set_module(m, "below", below));
    counter c = {0};
    gd_virtual_options options = memoised(count_parameters, &c);
    ok(gd_virtual_create(m, "x", &options));
    for (int i = 0; i < 3; i++) expect_values(gd_module_get_tensor(m, "x"), 2);
    assert_int_equal(c.calls, 1);
    ok(gd_module_set_parameter(below, "more", VECTOR(ctx, 1)));
    for (int i = 0; i < 2; i++) expect_values(gd_module_get_tensor(m, "x"), 3);
    assert_int_equal(c.calls, 2);
    gd_module_touch(below);
    expect_values(gd_module_get_tensor(m, "x"), 3);
    assert_int_equal(c.calls, 3);
    ok(gd_fill(gd_module_get_tensor(below, "weight"), 77)); /* the listed tensors themselves */
    expect_values(gd_module_get_tensor(m, "x"), 3);
    assert_int_equal(c.calls, 4);
    ok(gd_module_delete(below, "more"));
    expect_values(gd_module_get_tensor(m, "x"), 2);
    assert_int_equal(c.calls, 5);
    gd_scope_end(ctx);
    expect_values(gd_module_get_tensor(m, "x"), 2); /* the memo owns it */
    gd_module_release(m);
}

static void a_failure_is_not_remembered(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(gd_class_module(ctx));
    counter c = {0};
    gd_virtual_options options = memoised(twice, &c);
    ok(gd_virtual_create(m, "x", &options));
    assert_null(gd_module_get_tensor(m, "x"));
    expect_error(ctx, GD_ATTRIBUTE, "no attribute 'weight'");
    ok(gd_module_set_parameter(m, "weight", VECTOR(ctx, 4)));
    expect_values(gd_module_get_tensor(m, "x"), 8);
    gd_scope_end(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_memoised_value_is_computed_again_only_when_what_it_read_has_changed),
        TEST(plain_values_and_nested_modules_count_as_read),
        TEST(what_another_virtual_tensor_read_counts_too),
        TEST(a_new_dtype_or_device_computes_again),
        TEST(a_value_made_without_gradients_is_not_used_where_they_are_wanted),
        TEST(a_value_whose_history_was_used_up_is_computed_again),
        TEST(a_value_read_in_a_scope_outlives_the_next_computation),
        TEST(a_value_that_was_written_to_is_computed_again),
        TEST(a_function_that_lists_its_owner_depends_on_the_tree),
        TEST(a_failure_is_not_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
