/* Virtual tensors: creation, reading, dtype and device, lifetimes, gradients. */
#include "module/virtual_support.h"

#include "module/module_internal.h"
#include "tensor/device.h"

static void count_end(void *user) { ((counter *)user)->ends++; }

static gd_object *twice_method(gd_object *self, const gd_kwargs *kwargs, void *user)
{
    (void)kwargs;
    if (user) ((counter *)user)->calls++;
    return gd_tensor_object(gd_mul_scalar(gd_module_get_tensor(gd_object_module(self), "weight"), 2));
}

static gd_virtual_options by_method(const char *name)
{
    gd_virtual_options options = gd_virtual_defaults();
    options.method = name;
    options.dtype = GD_F64;
    return options;
}

/* ---- creation ---- */

static void the_value_is_computed_from_the_owner_when_it_is_read(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    counter c = {0};
    gd_virtual_options options = by_function(twice, &c);
    ok(gd_virtual_create(m, "double_weight", &options));
    assert_int_equal(c.calls, 0);
    expect_values(gd_module_get_tensor(m, "double_weight"), 2, 4, 6);
    ok(gd_fill(gd_module_get_tensor(m, "weight"), 5));
    expect_values(gd_module_get_tensor(m, "double_weight"), 10, 10, 10);
    assert_int_equal(c.calls, 2);
    assert_int_equal(gd_module_kind(m, "double_weight"), GD_ATTRIBUTE_VIRTUAL);
    gd_scope_end(ctx);
}

static void create_is_new_and_assignment(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *a = net(ctx), *b = net(ctx);
    gd_virtual_options options = by_function(twice, NULL);
    ok(gd_virtual_create(a, "x", &options));
    gd_virtual *v = gd_virtual_new(b, "x", &options);
    assert_true(gd_module_has(b, "_x_ref")); /* what making adds */
    assert_false(gd_module_has(b, "x"));
    ok(gd_module_set_virtual(v));
    assert_int_equal(gd_module_count(a), gd_module_count(b));
    expect_values(gd_module_get_tensor(a, "x"), 2, 4, 6);
    expect_values(gd_module_get_tensor(b, "x"), 2, 4, 6);
    assert_ptr_equal(gd_module_get_virtual(b, "x"), v);
    gd_scope_end(ctx);
}

static void a_method_of_the_owners_class_can_compute_it(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *base = module_class(ctx, "Base"), *cls = gd_class_new(ctx, "Net", &base, 1);
    ok(gd_class_add_method(base, "doubled", twice_method, NULL)); /* inherited */
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(cls);
    ok(gd_module_set_parameter(m, "weight", VECTOR(ctx, 1, 2)));
    gd_virtual_options options = by_method("doubled");
    ok(gd_virtual_create(m, "x", &options));
    expect_values(gd_module_get_tensor(m, "x"), 2, 4);
    gd_scope_end(ctx);
}

static gd_object *tell(gd_object *self, const gd_kwargs *kwargs, void *user)
{
    gd_ctx *ctx = gd_object_ctx(self);
    int64_t *dtype = user;
    void *device = NULL;
    if (gd_kwargs_int(ctx, kwargs, "dtype", dtype) || gd_kwargs_pointer(ctx, kwargs, "device", &device))
        return NULL;
    return gd_tensor_object(device == gd_device_get(ctx, "cpu") ? gd_scalar(ctx, (gd_dtype)*dtype, 1) : NULL);
}

static void the_method_is_told_dtype_and_device(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *cls = module_class(ctx, "Net");
    int64_t dtype = -1;
    ok(gd_class_add_method(cls, "tell", tell, &dtype));
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(cls);
    gd_virtual_options options = by_method("tell");
    ok(gd_virtual_create(m, "x", &options));
    expect_values(gd_module_get_tensor(m, "x"), 1);
    assert_int_equal(dtype, GD_F64);
    gd_scope_end(ctx);
}

static void the_method_is_held_weakly_and_the_function_strongly(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *cls = module_class(ctx, "Net");
    counter first = {0}, second = {0}, function = {0};
    ok(gd_class_add_method(cls, "doubled", twice_method, &first));
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(cls);
    ok(gd_module_set_parameter(m, "weight", VECTOR(ctx, 1)));
    gd_virtual_options options = by_method("doubled");
    ok(gd_virtual_create(m, "x", &options));
    ok(gd_class_add_method(cls, "doubled", twice_method, &second)); /* the class's method of now is called */
    expect_values(gd_module_get_tensor(m, "x"), 2);
    assert_int_equal(first.calls, 0);
    assert_int_equal(second.calls, 1);
    options = by_function(twice, &function);
    options.destroy = count_end;
    ok(gd_virtual_create(m, "y", &options));
    assert_int_equal(function.ends, 0);
    ok(gd_module_delete(m, "y"));
    assert_int_equal(function.ends, 1); /* what it held is let go with it */
    gd_scope_end(ctx);
}

static void a_method_that_does_not_exist_is_an_attribute_error(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_method("doubled");
    assert_null(gd_virtual_new(m, "x", &options));
    expect_error(ctx, GD_ATTRIBUTE, "module 'Net': virtual tensor 'x': class 'Net' has no method 'doubled'");
    assert_int_equal(gd_virtual_create(m, "x", &options), GD_ATTRIBUTE);
    gd_clear_error(ctx);
    assert_int_equal(gd_module_count(m), 1); /* nothing was added */
    gd_scope_end(ctx);
}

static void an_attribute_that_is_not_a_method_is_a_type_error(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_method("weight");
    assert_null(gd_virtual_new(m, "x", &options));
    expect_error(ctx, GD_TYPE, "'weight' is not a method");
    assert_int_equal(gd_module_count(m), 1);
    gd_scope_end(ctx);
}

static void the_name_must_be_an_identifier(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_function(twice, NULL);
    const char *bad[] = {"", "1x", "a b", "a.b", "tensor:x", "x-y"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_null(gd_virtual_new(m, bad[i], &options));
        expect_error(ctx, GD_ARGUMENT, "is no identifier");
    }
    assert_null(gd_virtual_new(m, NULL, &options));
    expect_error(ctx, GD_ARGUMENT, "is no identifier");
    gd_scope_end(ctx);
}

static void a_name_that_is_taken_is_refused(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_function(twice, NULL);
    assert_null(gd_virtual_new(m, "weight", &options));
    expect_error(ctx, GD_ARGUMENT, "the name 'weight' is taken");
    ok(gd_module_set_int(m, "_y_ref", 1));
    assert_null(gd_virtual_new(m, "y", &options));
    expect_error(ctx, GD_ARGUMENT, "the name '_y_ref' is taken");
    gd_virtual *first = gd_virtual_new(m, "x", &options);
    assert_non_null(first);
    assert_null(gd_virtual_new(m, "x", &options)); /* even when it was not assigned yet */
    expect_error(ctx, GD_ARGUMENT, "the name '_x_ref' is taken");
    gd_class *cls = module_class(ctx, "Other");
    ok(gd_class_add_method(cls, "doubled", twice_method, NULL));
    gd_module *other = gd_module_new(cls);
    assert_null(gd_virtual_new(other, "doubled", &options)); /* a method's name */
    expect_error(ctx, GD_ARGUMENT, "the name 'doubled' is taken");
    gd_scope_end(ctx);
}

static void it_needs_a_method_or_a_function_and_not_both(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = gd_virtual_defaults();
    assert_null(gd_virtual_new(m, "x", &options));
    expect_error(ctx, GD_ARGUMENT, "needs a method or a function");
    options.fn = twice;
    options.method = "doubled";
    assert_null(gd_virtual_new(m, "x", &options));
    expect_error(ctx, GD_ARGUMENT, "and not both");
    options.method = NULL;
    options.dtype = (gd_dtype)77;
    assert_null(gd_virtual_new(m, "x", &options));
    expect_error(ctx, GD_DTYPE, "77");
    assert_null(gd_virtual_new(NULL, "x", &options));
    gd_scope_end(ctx);
}

/* ---- properties ---- */

static void it_knows_its_name_owner_and_reference(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_function(twice, NULL);
    gd_virtual *v = gd_virtual_new(m, "x", &options);
    assert_string_equal(gd_virtual_name(v), "x");
    assert_ptr_equal(gd_virtual_owner(v), m);
    assert_string_equal(gd_virtual_reference(v), "_x_ref");
    gd_tensor *reference = gd_module_get_tensor(m, gd_virtual_reference(v));
    assert_int_equal(gd_numel(reference), 0);
    assert_int_equal(gd_tensor_dtype(reference), GD_F64);
    assert_ptr_equal(gd_module_get_tensor(m, "buffer:_x_ref"), reference); /* a buffer */
    gd_scope_end(ctx);
}

static void dtype_and_device_have_defaults(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_device other = *gd_device_get(ctx, "cpu");
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = gd_virtual_defaults();
    options.fn = twice;
    gd_virtual *v = gd_virtual_new(m, "x", &options);
    assert_int_equal(gd_virtual_dtype(v), GD_F32);
    assert_ptr_equal(gd_virtual_device(v), gd_device_get(ctx, "cpu"));
    ok(gd_module_to_device(m, &other));
    gd_virtual *w = gd_virtual_new(m, "y", &options); /* the owner's device of now */
    assert_ptr_equal(gd_virtual_device(w), &other);
    gd_scope_end(ctx);
}

static void the_reference_belongs_to_the_virtual_tensor(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_function(twice, NULL);
    ok(gd_virtual_create(m, "x", &options));
    assert_int_equal(gd_module_delete(m, "_x_ref"), GD_STATE);
    expect_error(ctx, GD_STATE, "'_x_ref' belongs to the virtual tensor 'x'");
    assert_int_equal(gd_module_set_tensor(m, "_x_ref", VECTOR(ctx, 1)), GD_STATE);
    expect_error(ctx, GD_STATE, "belongs to");
    assert_int_equal(gd_module_set_int(m, "_x_ref", 1), GD_STATE);
    expect_error(ctx, GD_STATE, "belongs to");
    expect_values(gd_module_get_tensor(m, "x"), 2, 4, 6);
    gd_scope_end(ctx);
}

static void dtype_and_device_follow_the_module(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_device other = *gd_device_get(ctx, "cpu");
    gd_scope_begin(ctx);
    gd_module *m = net(ctx), *root = gd_module_new(gd_class_module(ctx));
    ok(gd_module_set_module(root, "net", m));
    gd_virtual_options options = by_function(twice, NULL);
    ok(gd_virtual_create(m, "x", &options));
    gd_virtual *v = gd_module_get_virtual(m, "x");
    ok(gd_module_to(root, GD_F32));
    assert_int_equal(gd_virtual_dtype(v), GD_F32);
    assert_int_equal(gd_tensor_dtype(gd_module_get_tensor(root, "net.x")), GD_F32);
    ok(gd_module_to_device(root, &other));
    assert_ptr_equal(gd_virtual_device(v), &other);
    assert_ptr_equal(gd_tensor_device(gd_module_get_tensor(root, "net.x")), &other);
    expect_values(gd_module_get_tensor(root, "net.x"), 2, 4, 6);
    gd_scope_end(ctx);
}

static void to_sets_dtype_and_device_of_the_reference(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_device other = *gd_device_get(ctx, "cpu");
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_function(twice, NULL);
    ok(gd_virtual_create(m, "x", &options));
    gd_virtual *v = gd_module_get_virtual(m, "x");
    ok(gd_virtual_to(v, GD_F16, NULL));
    assert_int_equal(gd_virtual_dtype(v), GD_F16);
    assert_int_equal(gd_tensor_dtype(gd_module_get_tensor(m, "_x_ref")), GD_F16);
    ok(gd_virtual_to(v, GD_DTYPE_COUNT, &other));
    assert_int_equal(gd_virtual_dtype(v), GD_F16);
    assert_ptr_equal(gd_virtual_device(v), &other);
    ok(gd_virtual_to(v, GD_F64, gd_device_get(ctx, "cpu")));
    expect_values(gd_module_get_tensor(m, "x"), 2, 4, 6);
    assert_int_equal(gd_virtual_to(v, (gd_dtype)77, NULL), GD_DTYPE);
    expect_error(ctx, GD_DTYPE, "77");
    gd_scope_end(ctx);
}

/* ---- what the function returns ---- */

static gd_tensor *whatever(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)owner, (void)dtype, (void)device;
    return user;
}

static void another_dtype_is_cast_and_another_device_left(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_device other = *gd_device_get(ctx, "cpu");
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_function(whatever, gd_cast(VECTOR(ctx, 1.5, 2), GD_F32));
    ok(gd_virtual_create(m, "cast", &options));
    assert_int_equal(gd_tensor_dtype(gd_module_get_tensor(m, "cast")), GD_F64);
    expect_values(gd_module_get_tensor(m, "cast"), 1.5, 2);
    options = by_function(whatever, gd_to_device(VECTOR(ctx, 3), &other));
    ok(gd_virtual_create(m, "moved", &options));
    assert_ptr_equal(gd_tensor_device(gd_module_get_tensor(m, "moved")), gd_device_get(ctx, "cpu"));
    expect_values(gd_module_get_tensor(m, "moved"), 3);
    gd_scope_end(ctx);
}

static void axis_names_and_labels_survive(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_tensor *named = gd_rename(VECTOR(ctx, 1, 2), "row");
    gd_virtual_options options = by_function(whatever,
                                             gd_with_labels(named, "row", (const char *[]){"up", "down"}));
    options.dtype = GD_F32;
    ok(gd_virtual_create(m, "x", &options));
    gd_tensor *x = gd_module_get_tensor(m, "x");
    assert_string_equal(gd_axis_name(x, 0), "row");
    assert_string_equal(gd_axis_label(x, 0, 1), "down");
    gd_scope_end(ctx);
}

static gd_tensor *own_weight(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device, (void)user;
    return gd_module_get_tensor(owner, "weight");
}

static void it_may_return_one_of_the_owners_tensors(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_function(own_weight, NULL);
    ok(gd_virtual_create(m, "x", &options));
    gd_tensor *x = gd_module_get_tensor(m, "x"), *weight = gd_module_get_tensor(m, "weight");
    assert_ptr_not_equal(x, weight);
    ok(gd_backward(gd_sum(gd_square(x), NULL, false), NULL, 0));
    expect_values(gd_grad_of(weight), 2, 4, 6);
    gd_scope_end(ctx);
    assert_int_equal(gd_ctx_live(ctx), 0);
}

static gd_tensor *fails(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device, (void)user;
    (void)gd_fail(gd_module_ctx(owner), GD_VALUE, "no luck");
    return NULL;
}

static gd_object *wrong_object(gd_object *self, const gd_kwargs *kwargs, void *user)
{
    (void)kwargs, (void)user;
    return gd_instance_new(gd_class_object(gd_object_ctx(self)), NULL, NULL);
}

static void a_function_that_fails_is_an_error_of_the_read(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_class *cls = module_class(ctx, "Net");
    ok(gd_class_add_method(cls, "wrong", wrong_object, NULL));
    gd_module *m = gd_module_new(cls);
    gd_virtual_options options = by_function(fails, NULL);
    ok(gd_virtual_create(m, "x", &options)); /* creation calls nothing */
    assert_null(gd_module_get_tensor(m, "x"));
    expect_error(ctx, GD_VALUE, "no luck");
    options = by_function(whatever, NULL);
    ok(gd_virtual_create(m, "y", &options));
    assert_null(gd_module_get_tensor(m, "y"));
    expect_error(ctx, GD_CALLBACK, "module 'Net': the function of virtual tensor 'y' returned nothing");
    options = by_method("wrong");
    ok(gd_virtual_create(m, "z", &options));
    assert_null(gd_module_get_tensor(m, "z"));
    expect_error(ctx, GD_TYPE, "a tensor was expected");
    gd_ctx *far = gd_ctx_new(NULL);
    gd_tensor *foreign = gd_scalar(far, GD_F64, 1);
    options = by_function(whatever, foreign);
    ok(gd_virtual_create(m, "far", &options));
    assert_null(gd_module_get_tensor(m, "far"));
    expect_error(ctx, GD_CALLBACK, "different context");
    gd_release(foreign);
    gd_ctx_free(far);
    gd_scope_end(ctx);
}

static gd_tensor *read_name(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device;
    return gd_add_scalar(gd_module_get_tensor(owner, user), 1);
}

static void reading_itself_is_a_cycle_not_a_stack_overflow(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options self = by_function(read_name, "x");
    ok(gd_virtual_create(m, "x", &self));
    assert_null(gd_module_get_tensor(m, "x"));
    expect_error(ctx, GD_CYCLE, "virtual tensor 'x' reads itself: 'x' <- 'x'");
    gd_virtual_options to_b = by_function(read_name, "b"), to_a = by_function(read_name, "a");
    ok(gd_virtual_create(m, "a", &to_b));
    ok(gd_virtual_create(m, "b", &to_a));
    assert_null(gd_module_get_tensor(m, "a"));
    expect_error(ctx, GD_CYCLE, "'a' <- 'b' <- 'a'");
    ok(gd_module_set_tensor(m, "b", VECTOR(ctx, 1))); /* the cycle is gone */
    expect_values(gd_module_get_tensor(m, "a"), 2);
    gd_scope_end(ctx);
}

/* ---- lifetimes ---- */

static void when_it_dies_what_it_added_is_removed(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_function(twice, NULL);
    gd_virtual *v = gd_virtual_new(m, "x", &options);
    assert_true(gd_module_has(m, "_x_ref"));
    gd_virtual_release(v);
    assert_false(gd_module_has(m, "_x_ref"));
    ok(gd_virtual_create(m, "x", &options));
    ok(gd_module_delete(m, "x")); /* the module's was the last reference */
    assert_false(gd_module_has(m, "_x_ref"));
    ok(gd_virtual_create(m, "x", &options));
    ok(gd_module_set_tensor(m, "x", VECTOR(ctx, 1))); /* replaced */
    assert_false(gd_module_has(m, "_x_ref"));
    expect_values(gd_module_get_tensor(m, "x"), 1);
    assert_int_equal(gd_module_count(m), 2);
    gd_scope_end(ctx);
}

static void it_may_be_released_early_inside_a_scope(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = gd_module_keep(net(ctx));
    gd_virtual_options options = by_function(twice, NULL);
    gd_virtual *v = gd_virtual_new(m, "x", &options);
    ok(gd_module_set_virtual(v));
    gd_virtual_release(v);
    gd_virtual *kept = gd_virtual_keep(gd_virtual_new(m, "y", &options));
    gd_scope_end(ctx);
    assert_true(gd_module_has(m, "_y_ref"));
    gd_virtual_release(kept);
    assert_false(gd_module_has(m, "_y_ref"));
    gd_tensor *x = gd_virtual_value(gd_module_get_virtual(m, "x"));
    expect_values(x, 2, 4, 6);
    gd_release(x);
    gd_module_release(m);
}

static void while_someone_holds_it_the_reference_stays(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_function(twice, NULL);
    ok(gd_virtual_create(m, "x", &options));
    gd_virtual *v = gd_virtual_retain(gd_module_get_virtual(m, "x"));
    ok(gd_module_delete(m, "x"));
    assert_true(gd_module_has(m, "_x_ref"));
    expect_values(gd_virtual_value(v), 2, 4, 6);
    ok(gd_module_set_virtual(v)); /* and back */
    expect_values(gd_module_get_tensor(m, "x"), 2, 4, 6);
    ok(gd_module_delete(m, "x"));
    gd_virtual_release(v);
    assert_false(gd_module_has(m, "_x_ref"));
    gd_scope_end(ctx);
}

static void the_owner_is_held_weakly(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    counter c = {0};
    gd_virtual_options options = by_function(twice, &c);
    options.destroy = count_end;
    options.memoise = true;
    ok(gd_virtual_create(m, "x", &options));
    gd_virtual *v = gd_virtual_retain(gd_module_get_virtual(m, "x"));
    assert_non_null(gd_virtual_value(v));
    gd_scope_end(ctx); /* the owner goes first */
    assert_null(gd_virtual_owner(v));
    assert_string_equal(gd_virtual_name(v), "x");
    assert_null(gd_virtual_value(v));
    expect_error(ctx, GD_STATE, "virtual tensor 'x': its owner is gone");
    assert_int_equal(gd_virtual_dtype(v), GD_DTYPE_COUNT);
    expect_error(ctx, GD_STATE, "gone");
    assert_null(gd_virtual_device(v));
    expect_error(ctx, GD_STATE, "gone");
    assert_int_equal(gd_virtual_to(v, GD_F32, NULL), GD_STATE);
    expect_error(ctx, GD_STATE, "gone");
    assert_int_equal(gd_module_set_virtual(v), GD_STATE);
    expect_error(ctx, GD_STATE, "gone");
    assert_int_equal(c.ends, 0);
    gd_virtual_release(v);
    assert_int_equal(c.ends, 1);
}

static gd_tensor *delete_me(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device;
    if (gd_module_delete(owner, user)) return NULL;
    return gd_mul_scalar(gd_module_get_tensor(owner, "weight"), 3);
}

static void the_function_may_delete_its_own_attribute(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_function(delete_me, "x");
    ok(gd_virtual_create(m, "x", &options));
    expect_values(gd_module_get_tensor(m, "x"), 3, 6, 9);
    assert_int_equal(gd_module_count(m), 1);
    gd_scope_end(ctx);
}

static gd_tensor *drop_owner(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device;
    gd_tensor *value = gd_mul_scalar(gd_module_get_tensor(owner, "weight"), 3);
    gd_module_release(*(gd_module **)user);
    return value;
}

static void the_function_may_drop_its_owner(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *w = VECTOR(ctx, 1);
    gd_module *m = gd_module_new(gd_class_module(ctx));
    ok(gd_module_set_tensor(m, "weight", w));
    gd_release(w);
    gd_virtual_options options = by_function(drop_owner, &m);
    gd_virtual *v = gd_virtual_new(m, "x", &options);
    gd_tensor *value = gd_virtual_value(v);
    expect_values(value, 3);
    assert_null(gd_virtual_owner(v));
    gd_release(value);
    gd_virtual_release(v);
}

static void a_value_read_outside_every_scope_is_the_callers(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = gd_module_keep(net(ctx));
    gd_scope_end(ctx);
    gd_virtual_options options = by_function(twice, NULL);
    ok(gd_virtual_create(m, "x", &options));
    gd_tensor *x = gd_virtual_value(gd_module_get_virtual(m, "x"));
    expect_values(x, 2, 4, 6);
    gd_release(x);
    assert_null(gd_module_get_tensor(m, "x")); /* nobody would own what is borrowed here */
    expect_error(ctx, GD_STATE, "'x' by name needs a scope");
    options.memoise = true;
    ok(gd_virtual_create(m, "y", &options));
    expect_values(gd_module_get_tensor(m, "y"), 2, 4, 6); /* the memo owns it */
    assert_ptr_equal(gd_module_get_tensor(m, "y"), gd_module_get_tensor(m, "y"));
    gd_module_release(m);
}

static void exports_have_the_value_and_not_the_reference(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = gd_module_keep(net(ctx));
    gd_virtual_options options = by_function(twice, NULL);
    ok(gd_virtual_create(m, "x", &options));
    gd_scope_end(ctx);
    gd_tensor *x = gd_module_export(m, "x");
    gd_named *all = gd_module_export_all(m);
    assert_int_equal(gd_named_count(all), 2);
    assert_string_equal(gd_named_name(all, 1), "x");
    gd_module_release(m);
    expect_values(x, 2, 4, 6);
    expect_values(gd_named_find(all, "x"), 2, 4, 6);
    assert_false(gd_requires_grad(x));
    gd_release(x);
    gd_named_release(all);
}

/* ---- gradients ---- */

static gd_tensor *outer_square(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device, (void)user;
    gd_tensor *w = gd_module_get_tensor(owner, "weight");
    return gd_square(w);
}

static void gradients_flow_through_the_value(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = net(ctx);
    gd_virtual_options options = by_function(outer_square, NULL);
    ok(gd_virtual_create(m, "x", &options));
    gd_tensor *weight = gd_module_get_tensor(m, "weight");
    ok(gd_backward(gd_sum(gd_module_get_tensor(m, "x"), NULL, false), NULL, 0));
    expect_values(gd_grad_of(weight), 2, 4, 6); /* d w^2 */
    gd_zero_grad(weight);
    ok(gd_virtual_to(gd_module_get_virtual(m, "x"), GD_F32, NULL)); /* through the cast too */
    ok(gd_backward(gd_sum(gd_module_get_tensor(m, "x"), NULL, false), NULL, 0));
    expect_values(gd_grad_of(weight), 2, 4, 6);
    gd_scope_end(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_value_is_computed_from_the_owner_when_it_is_read),
        TEST(create_is_new_and_assignment),
        TEST(a_method_of_the_owners_class_can_compute_it),
        TEST(the_method_is_told_dtype_and_device),
        TEST(the_method_is_held_weakly_and_the_function_strongly),
        TEST(a_method_that_does_not_exist_is_an_attribute_error),
        TEST(an_attribute_that_is_not_a_method_is_a_type_error),
        TEST(the_name_must_be_an_identifier),
        TEST(a_name_that_is_taken_is_refused),
        TEST(it_needs_a_method_or_a_function_and_not_both),
        TEST(it_knows_its_name_owner_and_reference),
        TEST(dtype_and_device_have_defaults),
        TEST(the_reference_belongs_to_the_virtual_tensor),
        TEST(dtype_and_device_follow_the_module),
        TEST(to_sets_dtype_and_device_of_the_reference),
        TEST(another_dtype_is_cast_and_another_device_left),
        TEST(axis_names_and_labels_survive),
        TEST(it_may_return_one_of_the_owners_tensors),
        TEST(a_function_that_fails_is_an_error_of_the_read),
        TEST(reading_itself_is_a_cycle_not_a_stack_overflow),
        TEST(when_it_dies_what_it_added_is_removed),
        TEST(it_may_be_released_early_inside_a_scope),
        TEST(while_someone_holds_it_the_reference_stays),
        TEST(the_owner_is_held_weakly),
        TEST(the_function_may_delete_its_own_attribute),
        TEST(the_function_may_drop_its_owner),
        TEST(a_value_read_outside_every_scope_is_the_callers),
        TEST(exports_have_the_value_and_not_the_reference),
        TEST(gradients_flow_through_the_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
