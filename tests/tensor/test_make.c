/* Making, reading, writing and showing tensors, in every dtype. */
#include "support/own_context.h"

#include <math.h>

#define EACH_DTYPE(d) for (gd_dtype d = 0; d < GD_DTYPE_COUNT; d++)
#define SIX \
    2, (int64_t[]) { 2, 3 }

static void dtypes_have_names_and_sizes(void **state)
{
    (void)state;
#define CHECK(NAME, name, bytes, kind, st, np)                     \
    assert_string_equal(gd_dtype_name(GD_##NAME), #name);          \
    assert_int_equal(gd_dtype_size(GD_##NAME), bytes);             \
    assert_int_equal(gd_dtype_is_float(GD_##NAME), (kind) == 'f'); \
    assert_int_equal(gd_dtype_from_name(#name), GD_##NAME);
    GD_DTYPE_LIST(CHECK)
    assert_int_equal(gd_dtype_from_name("f8"), GD_DTYPE_COUNT);
    assert_string_equal(gd_dtype_name(GD_DTYPE_COUNT), "unknown");
    assert_int_equal(gd_dtype_size((gd_dtype)-1), 0);
}

static void constants_in_every_dtype(void **state)
{
    (void)state;
    EACH_DTYPE(d)
    {
        double three = d == GD_BOOL ? 1 : 3;
        assert_values(gd_zeros(ctx, d, SIX), 0, 0, 0, 0, 0, 0);
        assert_values(gd_ones(ctx, d, SIX), 1, 1, 1, 1, 1, 1);
        assert_values(gd_full(ctx, d, SIX, 3), three, three, three, three, three, three);
        assert_values(gd_scalar(ctx, d, 3), three);
        assert_int_equal(gd_ndim(gd_scalar(ctx, d, 3)), 0);
        gd_tensor *like = gd_full_like(gd_rename(gd_zeros(ctx, d, SIX), "a, b"), 3);
        assert_int_equal(gd_tensor_dtype(like), d);
        assert_string_equal(gd_axis_name(like, 1), "b");
        assert_values(gd_eye(ctx, d, 2, 3), 1, 0, 0, 0, 1, 0);
        assert_values(gd_eye(ctx, d, 3, 2), 1, 0, 0, 1, 0, 0);
        assert_int_equal(gd_numel(gd_eye(ctx, d, 0, 3)), 0);
        assert_int_equal(gd_numel(gd_empty(ctx, d, 3, (int64_t[]){2, 0, 3})), 0);
        gd_tensor *t = gd_zeros(ctx, d, SIX);
        assert_int_equal(gd_fill(t, 3), GD_OK);
        assert_values(t, three, three, three, three, three, three);
        /* larger than one piece of work */
        gd_tensor *large = gd_full(ctx, d, 1, (int64_t[]){70000}, 3);
        assert_true(gd_at(large, (int64_t[]){69999}) == three && gd_at(large, (int64_t[]){0}) == three);
    }
    assert_values(gd_full(ctx, GD_F64, 1, (int64_t[]){2}, NAN), NAN, NAN);
    assert_values(gd_full(ctx, GD_BOOL, 1, (int64_t[]){1}, 0.25), 1);
    assert_values(gd_full(ctx, GD_I32, 1, (int64_t[]){1}, -2.75), -2);
}

static void sequences_in_every_dtype(void **state)
{
    (void)state;
    EACH_DTYPE(d)
    {
        if (d == GD_BOOL) continue;
        assert_values(gd_arange(ctx, d, 0, 4, 1), 0, 1, 2, 3);
        assert_values(gd_arange(ctx, d, 7, 1, -2), 7, 5, 3);
        assert_values(gd_linspace(ctx, d, 0, 8, 5), 0, 2, 4, 6, 8);
    }
    assert_values_near(gd_arange(ctx, GD_F64, 0, 0.35, 0.1), 1e-15, 0, 0.1, 0.2, 0.3);
    assert_int_equal(gd_numel(gd_arange(ctx, GD_F64, 0, -1, 1)), 0);
    assert_values(gd_linspace(ctx, GD_F64, 3, 5, 1), 3);
    assert_int_equal(gd_numel(gd_linspace(ctx, GD_F64, 3, 5, 0)), 0);
    /* the end is hit exactly */
    assert_true(gd_at(gd_linspace(ctx, GD_F64, 0, 0.7, 8), (int64_t[]){7}) == 0.7);
    assert_no_error(ctx);
}

static void data_goes_in_and_comes_out(void **state)
{
    (void)state;
    EACH_DTYPE(d)
    {
        size_t item = gd_dtype_size(d);
        char in[6 * 8], out[6 * 8];
        for (int i = 0; i < 6; i++) encode_item(d, d == GD_BOOL ? i % 2 : i * 2, in + (size_t)i * item);
        gd_tensor *t = gd_from_data(ctx, d, SIX, in);
        assert_int_equal(gd_read(t, out, 6 * item), GD_OK);
        assert_memory_equal(in, out, 6 * item);
        double number[6];
        assert_int_equal(gd_read_f64(gd_transpose(t, 0, 1), number, 6), GD_OK);
        assert_true(number[1] == (d == GD_BOOL ? 1 : 6));
        assert_int_equal(gd_write_f64(t, (double[]){1, 0, 1, 0, 1, 0}, 6), GD_OK);
        assert_values(t, 1, 0, 1, 0, 1, 0);
        assert_values(gd_from_f64(ctx, d, SIX, (double[]){0, 1, 0, 1, 0, 1}), 0, 1, 0, 1, 0, 1);
    }
    assert_int_equal(gd_read(gd_zeros(ctx, GD_F32, SIX), test_memory(), 20), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "read: the tensor has 24 bytes, the buffer 20");
    double few[5];
    assert_int_equal(gd_read_f64(gd_zeros(ctx, GD_F32, SIX), few, 5), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "read_f64: the tensor has 6 elements, the buffer 5");
    assert_int_equal(gd_write_f64(gd_zeros(ctx, GD_F32, SIX), few, 5), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "write_f64: the tensor has 6 elements, 5 were given");
}

static void casts_between_all_dtypes(void **state)
{
    (void)state;
    EACH_DTYPE(from)
    EACH_DTYPE(to)
    {
        gd_tensor *t = gd_from_f64(ctx, from, 1, (int64_t[]){4}, (double[]){0, 1, 5, 100});
        gd_tensor *c = gd_cast(t, to);
        assert_int_equal(gd_tensor_dtype(c), to);
        bool truth = from == GD_BOOL || to == GD_BOOL;
        assert_values(c, 0, 1, truth ? 1 : 5, truth ? 1 : 100);
        if (from == to) assert_ptr_equal(gd_data(c), gd_data(t));
    }
    /* towards zero, cut to the 64-bit range, wrapped into small integers */
    assert_values(gd_cast(VECTOR(ctx, -1.9, 1.9, 300), GD_U8), 255, 1, 44);
    assert_values(gd_cast(VECTOR(ctx, 0.25, 0, -0.5), GD_BOOL), 1, 0, 1);
    /* numbers beyond 2^53 pass between integers unharmed */
    int64_t large = ((int64_t)1 << 62) + 1;
    gd_tensor *exact = gd_copy(gd_from_data(ctx, GD_I64, 1, (int64_t[]){1}, &large));
    assert_true(*(const int64_t *)gd_data(exact) == large);
}

static void single_elements(void **state)
{
    (void)state;
    EACH_DTYPE(d)
    {
        gd_tensor *t = gd_from_f64(ctx, d, SIX, (double[]){0, 1, 0, 1, 1, 0});
        assert_true(gd_at(t, (int64_t[]){1, 0}) == 1 && gd_at(t, (int64_t[]){1, 2}) == 0);
        assert_true(gd_at(gd_transpose(t, 0, 1), (int64_t[]){1, 1}) == 1);
        assert_true(gd_item(gd_index(gd_index(t, "0", 0), "0", 1)) == 1);
    }
    assert_true(isnan(gd_item(gd_zeros(ctx, GD_F64, SIX))));
    assert_error(ctx, GD_SHAPE, "item: needs one element, the shape is [2, 3]");
    assert_true(isnan(gd_at(gd_rename(gd_zeros(ctx, GD_F64, SIX), "a, b"), (int64_t[]){0, 3})));
    assert_error(ctx, GD_INDEX, "at: index 3 on axis 'b' of size 3");
    assert_true(isnan(gd_item(NULL)) && isnan(gd_at(NULL, NULL)));
}

static void looking_at_nothing_is_harmless(void **state)
{
    (void)state;
    assert_null(gd_tensor_ctx(NULL));
    assert_null(gd_tensor_device(NULL));
    assert_null(gd_shape(NULL));
    assert_null(gd_strides(NULL));
    assert_null(gd_data(NULL));
    assert_null(gd_data_mut(NULL));
    assert_null(gd_axis_name(NULL, 0));
    assert_null(gd_axis_label(NULL, 0, 0));
    assert_int_equal(gd_ndim(NULL), -1);
    assert_int_equal(gd_numel(NULL), -1);
    assert_int_equal(gd_size(NULL, 0), -1);
    assert_int_equal(gd_axis_find(NULL, "a"), -1);
    assert_int_equal(gd_axis_index(NULL, 0, "a"), -1);
    assert_int_equal(gd_tensor_dtype(NULL), GD_DTYPE_COUNT);
    char text[8];
    assert_int_equal(gd_format(NULL, text, sizeof text), 4);
    assert_string_equal(text, "NULL");
    gd_tensor *t = gd_zeros(ctx, GD_F64, SIX);
    assert_int_equal(gd_size(t, -1), 3);
    assert_int_equal(gd_size(t, 2), -1);
    assert_int_equal(gd_size(t, -3), -1);
    assert_ptr_equal(gd_tensor_ctx(t), ctx);
    assert_string_equal(gd_device_name(gd_tensor_device(t)), "cpu");
    assert_no_error(ctx);
}

static void tensors_are_shown(void **state)
{
    (void)state;
    char text[512];
    gd_format(gd_rename(gd_from_f64(ctx, GD_F32, SIX, (double[]){0, 1, 2, 3.5, -4, 1e10}), "a, _"), text,
              sizeof text);
    assert_string_equal(text, "[[0, 1, 2],\n [3.5, -4, 1e+10]]  f32[a=2, 3]");
    gd_format(gd_scalar(ctx, GD_BOOL, 1), text, sizeof text);
    assert_string_equal(text, "1  bool[]");
    gd_format(gd_arange(ctx, GD_I64, 0, 100, 1), text, sizeof text);
    assert_string_equal(text, "[0, 1, 2, 3, 4, ..., 95, 96, 97, 98, 99]  i64[100]");
    gd_format(gd_zeros(ctx, GD_F64, 2, (int64_t[]){2, 0}), text, sizeof text);
    assert_string_equal(text, "[[],\n []]  f64[2, 0]");
    /* rows without elements, more than can be shown */
    gd_format(gd_zeros(ctx, GD_F64, 8, (int64_t[]){12, 12, 12, 12, 12, 12, 12, 0}), text, sizeof text);
    assert_int_equal(strncmp(text, "[]  f64[", 8), 0);
    /* as snprintf: cut, terminated, and the full length returned */
    char small[6];
    gd_tensor *t = VECTOR(ctx, 1, 2);
    int need = gd_format(t, small, sizeof small);
    assert_string_equal(small, "[1, 2");
    assert_int_equal(need, gd_format(t, NULL, 0));
    assert_int_equal(need, (int)strlen("[1, 2]  f64[2]"));
}

static void devices_by_name(void **state)
{
    (void)state;
    assert_string_equal(gd_device_name(gd_device_get(ctx, "cpu")), "cpu");
    assert_string_equal(gd_device_name(NULL), "none");
    assert_int_equal(gd_device_sync(gd_device_get(ctx, "cpu")), GD_OK);
    assert_int_equal(gd_device_sync(NULL), GD_ARGUMENT);
    static const char *const wrong[] = {"tpu", "", "gpu:", "gpu:-1", "gpu:99", "gpux", "cpu:0"};
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        assert_null(gd_device_get(ctx, wrong[i]));
        assert_error(ctx, GD_DEVICE, "device '");
    }
    assert_null(gd_device_get(ctx, NULL));
    assert_error(ctx, GD_DEVICE, "device ''");
    gd_tensor *t = gd_zeros(ctx, GD_F64, SIX);
    assert_ptr_equal(gd_data(gd_to_device(t, gd_device_get(ctx, "cpu"))), gd_data(t));
    assert_values(gd_empty_on(gd_device_get(ctx, "cpu"), GD_F64, 1, (int64_t[]){0})
                      ? gd_zeros(ctx, GD_F64, 0, NULL)
                      : NULL,
                  0);
    if (gd_gpu_count(ctx) == 0) {
        assert_no_error(ctx);
        assert_null(gd_device_get(ctx, "gpu"));
        assert_error(ctx, GD_DEVICE, "device 'gpu:0'");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(dtypes_have_names_and_sizes),    TEST(constants_in_every_dtype), TEST(sequences_in_every_dtype),
        TEST(data_goes_in_and_comes_out),     TEST(casts_between_all_dtypes), TEST(single_elements),
        TEST(looking_at_nothing_is_harmless), TEST(tensors_are_shown),        TEST(devices_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
