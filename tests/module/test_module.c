/* Modules: owned tensors, replacing and deleting, plain values. */
#include "module/support.h"

static gd_module *container(gd_ctx *ctx) { return gd_module_new(gd_class_module(ctx)); }

static gd_tensor *labelled(gd_ctx *ctx)
{
    gd_tensor *t = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){2, 3}, (double[]){1, 2, 3, 4, 5, 6});
    return gd_with_labels(gd_rename(t, "row, _"), "row", (const char *[]){"up", "down"});
}

/* ---- assigning tensors ---- */

static void setting_a_tensor_copies_it(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = container(ctx);
    gd_tensor *source = VECTOR(ctx, 1, 2, 3);
    ok(gd_module_set_tensor(m, "weight", source));
    ok(gd_fill(source, 9)); /* later edits of the source */
    gd_tensor *weight = gd_module_get_tensor(m, "weight");
    expect_values(weight, 1, 2, 3);
    ok(gd_fill(weight, 5)); /* and of the module's tensor */
    expect_values(source, 9, 9, 9);
    expect_values(gd_module_get_tensor(m, "weight"), 5, 5, 5);
    gd_scope_end(ctx);
}

static void a_view_is_copied_to_storage_of_its_own(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = container(ctx);
    gd_tensor *t = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 4});
    ok(gd_module_set_tensor(m, "turned", gd_transpose(t, 0, 1)));
    ok(gd_fill(t, 0));
    expect_values(gd_module_get_tensor(m, "turned"), 1, 3, 2, 4);
    assert_true(gd_is_contiguous(gd_module_get_tensor(m, "turned")));
    gd_scope_end(ctx);
}

static void a_tensor_is_registered_as_parameter_under_its_prefix(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = container(ctx);
    ok(gd_module_set_tensor(m, "weight", VECTOR(ctx, 1)));
    assert_ptr_equal(gd_module_get_tensor(m, "tensor:weight"), gd_module_get_tensor(m, "weight"));
    assert_false(gd_module_has(m, "buffer:weight"));
    gd_named *all = gd_module_parameters(m, NULL);
    assert_int_equal(gd_named_count(all), 1);
    assert_string_equal(gd_named_name(all, 0), "weight");
    assert_string_equal(gd_named_registered(all, 0), "tensor:weight");
    assert_ptr_equal(gd_named_tensor(all, 0), gd_module_get_tensor(m, "weight"));
    assert_int_equal(gd_named_count(gd_module_buffers(m, NULL)), 0);
    gd_scope_end(ctx);
}

static void a_name_declared_without_gradients_is_registered_as_buffer(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *cls = module_class(ctx, "Net");
    ok(gd_class_no_grad(cls, "basis"));
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(cls);
    ok(gd_module_set_tensor(m, "basis", gd_require_grad(VECTOR(ctx, 1, 2))));
    ok(gd_module_set_tensor(m, "weight", VECTOR(ctx, 3)));
    gd_tensor *basis = gd_module_get_tensor(m, "basis");
    expect_values(basis, 1, 2);
    assert_ptr_equal(gd_module_get_tensor(m, "buffer:basis"), basis);
    assert_false(gd_module_has(m, "tensor:basis"));
    assert_false(gd_requires_grad(basis)); /* detached, whatever the source wanted */
    gd_named *buffers = gd_module_buffers(m, NULL);
    assert_int_equal(gd_named_count(buffers), 1);
    assert_string_equal(gd_named_registered(buffers, 0), "buffer:basis");
    gd_named *parameters = gd_module_parameters(m, NULL); /* excluded from optimisation */
    assert_int_equal(gd_named_count(parameters), 1);
    assert_string_equal(gd_named_name(parameters, 0), "weight");
    gd_scope_end(ctx);
}

static void names_without_gradients_are_inherited_by_classes_below(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *a = module_class(ctx, "A"), *b = module_class(ctx, "B");
    ok(gd_class_no_grad(a, "basis"));
    ok(gd_class_no_grad(b, "mask"));
    gd_class *c = gd_class_new(ctx, "C", (gd_class *[]){a, b}, 2);
    ok(gd_class_no_grad(c, "offset"));
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(c);
    const char *names[] = {"basis", "mask", "offset", "weight"};
    for (int i = 0; i < 4; i++) ok(gd_module_set_tensor(m, names[i], VECTOR(ctx, 1)));
    gd_named *buffers = gd_module_buffers(m, NULL);
    assert_int_equal(gd_named_count(buffers), 3);
    for (int i = 0; i < 3; i++) assert_string_equal(gd_named_name(buffers, i), names[i]);
    gd_scope_end(ctx);
}

static void the_copy_wants_gradients_if_the_source_does(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = container(ctx);
    gd_tensor *leaf = gd_require_grad(VECTOR(ctx, 1, 2));
    ok(gd_module_set_tensor(m, "plain", VECTOR(ctx, 1)));
    ok(gd_module_set_tensor(m, "leaf", leaf));
    ok(gd_module_set_tensor(m, "inner", gd_mul_scalar(leaf, 2)));
    assert_false(gd_requires_grad(gd_module_get_tensor(m, "plain")));
    assert_true(gd_requires_grad(gd_module_get_tensor(m, "leaf")));
    gd_tensor *inner = gd_module_get_tensor(m, "inner");
    assert_true(gd_requires_grad(inner));
    assert_true(gd_is_leaf(inner)); /* history is left behind */
    ok(gd_backward(gd_sum(gd_square(inner), NULL, false), NULL, 0));
    expect_values(gd_grad_of(inner), 4, 8);
    assert_null(gd_grad_of(leaf));
    gd_scope_end(ctx);
}

static void set_parameter_turns_gradients_on(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *cls = module_class(ctx, "Net");
    ok(gd_class_no_grad(cls, "basis"));
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(cls);
    gd_tensor *source = VECTOR(ctx, 3);
    ok(gd_module_set_parameter(m, "weight", source));
    assert_true(gd_requires_grad(gd_module_get_tensor(m, "weight")));
    assert_false(gd_requires_grad(source));
    assert_int_equal(gd_module_set_parameter(m, "basis", source), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "module 'Net': 'basis' is declared without gradients");
    assert_int_equal(gd_module_set_parameter(m, "index", gd_cast(source, GD_I64)), GD_DTYPE);
    expect_error(ctx, GD_DTYPE, "'index' is i64");
    ok(gd_module_set_tensor(m, "index", gd_cast(source, GD_I64))); /* owned, but not to optimise */
    assert_int_equal(gd_module_set_parameter(m, "none", NULL), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "no tensor given for 'none'");
    gd_ctx *other = gd_ctx_new(NULL);
    gd_tensor *far = gd_scalar(other, GD_F64, 1);
    assert_int_equal(gd_module_set_tensor(m, "far", far), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "the tensor for 'far' is of a different context");
    gd_release(far);
    gd_ctx_free(other);
    gd_scope_end(ctx);
}

static void the_attribute_keeps_axis_names_labels_and_class(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *tensor = gd_class_tensor(ctx), *spin = gd_class_new(ctx, "Spin", &tensor, 1);
    gd_scope_begin(ctx);
    gd_module *m = container(ctx);
    gd_tensor *source = labelled(ctx);
    ok(gd_tensor_set_class(source, spin));
    ok(gd_module_set_parameter(m, "weight", source));
    gd_tensor *weight = gd_module_get_tensor(m, "weight");
    assert_string_equal(gd_axis_name(weight, 0), "row");
    assert_null(gd_axis_name(weight, 1));
    assert_string_equal(gd_axis_label(weight, 0, 1), "down");
    assert_ptr_equal(gd_object_class(gd_tensor_object(weight)), spin);
    ok(gd_backward(gd_sum(weight, NULL, false), NULL, 0));
    assert_string_equal(gd_axis_name(gd_grad_of(weight), 0), "row"); /* gradients too */
    gd_scope_end(ctx);
}

static void reading_gives_the_tensor_the_module_owns(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = container(ctx);
    ok(gd_module_set_parameter(m, "weight", VECTOR(ctx, 1, 2)));
    gd_tensor *weight = gd_module_get_tensor(m, "weight");
    for (int step = 0; step < 3; step++) { /* plain gradient descent on w^2 / 2 acts on the module's state */
        gd_scope_begin(ctx);
        ok(gd_backward(gd_mul_scalar(gd_sum(gd_square(weight), NULL, false), 0.5), NULL, 0));
        ok(gd_add_into(weight, gd_grad_of(weight), -0.5));
        gd_zero_grad(weight);
        gd_scope_end(ctx);
    }
    expect_values(gd_module_get_tensor(m, "weight"), 0.125, 0.25);
    gd_scope_end(ctx);
}

static void a_module_is_a_plain_container_of_tensors_to_optimise(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = container(ctx); /* no forward function anywhere */
    ok(gd_module_set_parameter(m, "a", VECTOR(ctx, 4)));
    ok(gd_module_set_parameter(m, "b", VECTOR(ctx, -1, 1)));
    gd_named *all = gd_module_parameters(m, NULL);
    gd_tensor *const *p = gd_named_tensors(all);
    gd_tensor *loss = gd_add(gd_sum(gd_square(p[0]), NULL, false), gd_sum(gd_square(p[1]), NULL, false));
    ok(gd_backward(loss, NULL, 0));
    for (int64_t i = 0; i < gd_named_count(all); i++) ok(gd_add_into(p[i], gd_grad_of(p[i]), -0.5));
    expect_values(gd_module_get_tensor(m, "a"), 0);
    expect_values(gd_module_get_tensor(m, "b"), 0, 0);
    assert_null(gd_module_call(m, VECTOR(ctx, 1)));
    expect_error(ctx, GD_NOT_IMPLEMENTED, "'Module' on 'Tensor'");
    gd_scope_end(ctx);
}

static void owned_tensors_outlive_the_scope_they_were_assigned_in(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *m = container(ctx);
    gd_scope_begin(ctx);
    ok(gd_module_set_parameter(m, "weight", gd_mul_scalar(VECTOR(ctx, 1, 2), 2)));
    gd_scope_end(ctx);
    expect_values(gd_module_get_tensor(m, "weight"), 2, 4);
    gd_module_release(m);
}

static void a_module_made_in_a_scope_dies_with_it_unless_kept(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    container(ctx);
    gd_module *kept = gd_module_keep(container(ctx));
    ok(gd_module_set_tensor(kept, "t", VECTOR(ctx, 1)));
    gd_scope_end(ctx);
    expect_values(gd_module_get_tensor(kept, "t"), 1);
    assert_ptr_equal(gd_module_ctx(kept), ctx);
    assert_ptr_equal(gd_module_class(kept), gd_class_module(ctx));
    gd_module_release(gd_module_retain(kept));
    gd_module_release(kept);
}

/* ---- replacing and deleting ---- */

static void a_new_tensor_replaces_the_old_one_in_its_place(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = container(ctx);
    ok(gd_module_set_tensor(m, "a", VECTOR(ctx, 1)));
    ok(gd_module_set_tensor(m, "b", VECTOR(ctx, 2)));
    ok(gd_module_set_tensor(m, "a", VECTOR(ctx, 3, 4)));
    assert_int_equal(gd_module_count(m), 2);
    assert_string_equal(gd_module_name(m, 0), "a");
    expect_values(gd_module_get_tensor(m, "a"), 3, 4);
    ok(gd_module_set_tensor(m, "a", gd_module_get_tensor(m, "a"))); /* itself */
    expect_values(gd_module_get_tensor(m, "a"), 3, 4);
    assert_int_equal(gd_named_count(gd_module_parameters(m, NULL)), 2);
    gd_scope_end(ctx);
}

static void a_plain_value_in_the_place_of_a_tensor_removes_the_registration(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *cls = module_class(ctx, "Net");
    ok(gd_class_no_grad(cls, "basis"));
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(cls);
    ok(gd_module_set_tensor(m, "weight", VECTOR(ctx, 1)));
    ok(gd_module_set_tensor(m, "basis", VECTOR(ctx, 1)));
    ok(gd_module_set_int(m, "weight", 3));
    ok(gd_module_set_string(m, "basis", "none"));
    assert_int_equal(gd_named_count(gd_module_parameters(m, NULL)), 0);
    assert_int_equal(gd_named_count(gd_module_buffers(m, NULL)), 0);
    assert_false(gd_module_has(m, "tensor:weight"));
    assert_int_equal(gd_module_kind(m, "weight"), GD_ATTRIBUTE_INT);
    gd_scope_end(ctx);
}

static void a_name_declared_later_moves_from_parameter_to_buffer_when_assigned_again(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *cls = module_class(ctx, "Net");
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(cls);
    ok(gd_module_set_tensor(m, "basis", VECTOR(ctx, 1)));
    ok(gd_class_no_grad(cls, "basis"));
    assert_true(gd_module_has(m, "tensor:basis"));
    ok(gd_module_set_tensor(m, "basis", VECTOR(ctx, 2)));
    assert_false(gd_module_has(m, "tensor:basis"));
    assert_true(gd_module_has(m, "buffer:basis"));
    gd_scope_end(ctx);
}

static void deleting_an_attribute_removes_its_registration(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_class *cls = module_class(ctx, "Net");
    ok(gd_class_no_grad(cls, "basis"));
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(cls);
    ok(gd_module_set_tensor(m, "weight", VECTOR(ctx, 1)));
    ok(gd_module_set_tensor(m, "basis", VECTOR(ctx, 1)));
    ok(gd_module_set_int(m, "n", 1));
    ok(gd_module_delete(m, "weight"));
    ok(gd_module_delete(m, "basis"));
    assert_int_equal(
        gd_named_count(gd_module_parameters(m, NULL)) + gd_named_count(gd_module_buffers(m, NULL)), 0);
    assert_int_equal(gd_module_count(m), 1);
    assert_int_equal(gd_module_delete(m, "weight"), GD_ATTRIBUTE);
    expect_error(ctx, GD_ATTRIBUTE, "module 'Net': no attribute 'weight'");
    gd_scope_end(ctx);
}

/* ---- plain values ---- */

static void count_end(void *pointer) { ++*(int *)pointer; }

static void plain_values_are_kept_in_order(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *m = container(ctx);
    int ends = 0;
    char text[] = "text";
    ok(gd_module_set_int(m, "i", -7));
    ok(gd_module_set_real(m, "r", 2.5));
    ok(gd_module_set_string(m, "s", text));
    ok(gd_module_set_pointer(m, "p", &ends, count_end));
    text[0] = 'n'; /* was copied */
    int64_t i;
    double r, whole;
    const char *s;
    void *p;
    ok(gd_module_get_int(m, "i", &i));
    ok(gd_module_get_real(m, "r", &r));
    ok(gd_module_get_real(m, "i", &whole));
    ok(gd_module_get_string(m, "s", &s));
    ok(gd_module_get_pointer(m, "p", &p));
    assert_int_equal(i, -7);
    assert_true(r == 2.5 && whole == -7);
    assert_string_equal(s, "text");
    assert_ptr_equal(p, &ends);
    const char *names[] = {"i", "r", "s", "p", NULL};
    const gd_attribute_kind kinds[] = {GD_ATTRIBUTE_INT, GD_ATTRIBUTE_REAL, GD_ATTRIBUTE_STRING,
                                       GD_ATTRIBUTE_POINTER};
    for (int k = 0; names[k]; k++) {
        assert_string_equal(gd_module_name(m, k), names[k]);
        assert_int_equal(gd_module_kind(m, names[k]), kinds[k]);
    }
    assert_null(gd_module_name(m, 4));
    gd_module_release(m);
    assert_int_equal(ends, 1);
}

static void a_pointer_is_destroyed_when_it_is_replaced_or_deleted(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *m = container(ctx);
    int first = 0, second = 0;
    ok(gd_module_set_pointer(m, "p", &first, count_end));
    ok(gd_module_set_pointer(m, "p", &first, count_end)); /* the same one again stays */
    assert_int_equal(first, 0);
    ok(gd_module_set_pointer(m, "p", &second, count_end));
    assert_int_equal(first, 1);
    ok(gd_module_delete(m, "p"));
    assert_int_equal(second, 1);
    assert_int_equal(gd_module_set_pointer(m, "not a name", &second, count_end), GD_ARGUMENT);
    assert_int_equal(second, 1); /* still the caller's */
    gd_clear_error(ctx);
    gd_module_release(m);
}

static void a_value_of_another_kind_is_a_type_error(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_scope_begin(ctx);
    gd_module *m = gd_module_new(module_class(ctx, "Net"));
    ok(gd_module_set_tensor(m, "w", VECTOR(ctx, 1)));
    ok(gd_module_set_string(m, "s", ""));
    int64_t i;
    double r;
    const char *s;
    void *p;
    assert_int_equal(gd_module_get_int(m, "s", &i), GD_TYPE);
    expect_error(ctx, GD_TYPE, "module 'Net': attribute 's' is a string, not an int");
    assert_int_equal(gd_module_get_real(m, "s", &r), GD_TYPE);
    expect_error(ctx, GD_TYPE, "not a real");
    assert_int_equal(gd_module_get_string(m, "w", &s), GD_TYPE);
    expect_error(ctx, GD_TYPE, "'w' is a tensor, not a string");
    assert_int_equal(gd_module_get_pointer(m, "w", &p), GD_TYPE);
    expect_error(ctx, GD_TYPE, "not a pointer");
    assert_null(gd_module_get_tensor(m, "s"));
    expect_error(ctx, GD_TYPE, "'s' is a string, not a tensor");
    assert_null(gd_module_get_module(m, "s"));
    expect_error(ctx, GD_TYPE, "not a module");
    assert_null(gd_module_get_virtual(m, "s"));
    expect_error(ctx, GD_TYPE, "not a virtual tensor");
    gd_scope_end(ctx);
}

static void names_are_letters_digits_and_underscores(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *m = container(ctx);
    ok(gd_module_set_int(m, "0", 1));
    ok(gd_module_set_int(m, "_x9", 1));
    ok(gd_module_set_int(m, "\xce\xb2", 1)); /* UTF-8 */
    const char *bad[] = {"", "a b", "tensor:x", "a-b", "a/b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(gd_module_set_int(m, bad[i], 1), GD_ARGUMENT);
        expect_error(ctx, GD_ARGUMENT, "is no attribute name");
    }
    assert_int_equal(gd_module_set_string(m, "s", NULL), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "no string given for 's'");
    assert_int_equal(gd_module_set_int(m, NULL, 1), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "no name given");
    assert_int_equal(gd_module_count(m), 3);
    gd_module_release(m);
}

static void a_module_must_be_of_a_class_of_modules(void **state)
{
    gd_ctx *ctx = CTX(state);
    assert_null(gd_module_new(gd_class_functional(ctx)));
    expect_error(ctx, GD_TYPE, "'Functional' is not a class of modules");
    assert_null(gd_module_new(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(setting_a_tensor_copies_it),
        TEST(a_view_is_copied_to_storage_of_its_own),
        TEST(a_tensor_is_registered_as_parameter_under_its_prefix),
        TEST(a_name_declared_without_gradients_is_registered_as_buffer),
        TEST(names_without_gradients_are_inherited_by_classes_below),
        TEST(the_copy_wants_gradients_if_the_source_does),
        TEST(set_parameter_turns_gradients_on),
        TEST(the_attribute_keeps_axis_names_labels_and_class),
        TEST(reading_gives_the_tensor_the_module_owns),
        TEST(a_module_is_a_plain_container_of_tensors_to_optimise),
        TEST(owned_tensors_outlive_the_scope_they_were_assigned_in),
        TEST(a_module_made_in_a_scope_dies_with_it_unless_kept),
        TEST(a_new_tensor_replaces_the_old_one_in_its_place),
        TEST(a_plain_value_in_the_place_of_a_tensor_removes_the_registration),
        TEST(a_name_declared_later_moves_from_parameter_to_buffer_when_assigned_again),
        TEST(deleting_an_attribute_removes_its_registration),
        TEST(plain_values_are_kept_in_order),
        TEST(a_pointer_is_destroyed_when_it_is_replaced_or_deleted),
        TEST(a_value_of_another_kind_is_a_type_error),
        TEST(names_are_letters_digits_and_underscores),
        TEST(a_module_must_be_of_a_class_of_modules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
