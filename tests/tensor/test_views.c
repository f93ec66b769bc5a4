/* Views look at the same memory: no copies, changes are seen through all of them, strides are right. */
#include "tensor/tensor_internal.h"

#include "support/own_context.h"

static gd_tensor *counting(int64_t rows, int64_t columns)
{
    return gd_reshape(gd_arange(ctx, GD_F64, 0, (double)(rows * columns), 1), 2, (int64_t[]){rows, columns});
}

static bool share(const gd_tensor *a, const gd_tensor *b) { return a->storage == b->storage; }

#define assert_strides(t, ...) \
    assert_memory_equal(gd_strides(t), ((int64_t[]){__VA_ARGS__}), sizeof((int64_t[]){__VA_ARGS__}))

static void shape_operators_copy_nothing(void **state)
{
    (void)state;
    gd_tensor *x = counting(4, 6);
    int64_t before = test_memory()->bytes;
    gd_tensor *views[] = {
        gd_reshape(x, 3, (int64_t[]){2, 2, 6}),
        gd_transpose(x, 0, 1),
        gd_slice(x, "0", 1, 3, 1),
        gd_slice(x, "1", -1, INT64_MIN, -2),
        gd_index(x, "1", 3),
        gd_unsqueeze(x, 1, "new"),
        gd_expand(x, 3, (int64_t[]){9, 4, 6}),
        gd_flip(x, NULL),
        gd_squeeze(gd_unsqueeze(x, 0, NULL), NULL),
        gd_rename(x, "a, b"),
        gd_detach(x),
        gd_cast(x, GD_F64),
        gd_contiguous(x),
        gd_diagonal(x),
        gd_permute(x, (int[]){1, 0}),
    };
    for (int i = 0; i < COUNT_OF(views); i++) assert_true(share(views[i], x));
    gd_tensor *piece[3];
    assert_int_equal(gd_split(x, "1", 2, piece, 3), GD_OK);
    for (int i = 0; i < 3; i++) assert_true(share(piece[i], x));
    /* only the structs themselves */
    assert_true(test_memory()->bytes - before < 40 * 400);
    assert_no_error(ctx);
}

static void strides_tell_the_layout(void **state)
{
    (void)state;
    gd_tensor *x = counting(4, 6);
    assert_strides(x, 6, 1);
    assert_strides(gd_transpose(x, 0, 1), 1, 6);
    assert_strides(gd_slice(x, "1", 0, 6, 3), 6, 3);
    assert_strides(gd_flip(x, "0"), -6, 1);
    assert_strides(gd_expand(x, 3, (int64_t[]){2, 4, 6}), 0, 6, 1);
    assert_strides(gd_index(x, "0", 2), 1);
    assert_ptr_equal(gd_data(gd_index(x, "0", 2)), (const double *)gd_data(x) + 12);
    assert_ptr_equal(gd_data(gd_flip(x, "0")), (const double *)gd_data(x) + 18);
    assert_true(gd_is_contiguous(x));
    assert_true(gd_is_contiguous(gd_slice(x, "0", 1, 3, 1)));
    assert_true(gd_is_contiguous(gd_slice(x, "0", 1, 2, 1)));
    assert_false(gd_is_contiguous(gd_slice(x, "1", 0, 3, 1)));
    assert_false(gd_is_contiguous(gd_transpose(x, 0, 1)));
    assert_true(gd_is_contiguous(gd_slice(gd_transpose(x, 0, 1), "0", 0, 0, 1)));
    assert_false(gd_is_contiguous(NULL));
}

static void a_change_is_seen_through_every_view(void **state)
{
    (void)state;
    gd_tensor *x = counting(2, 3), *turned = gd_transpose(x, 0, 1), *copy = gd_copy(x);
    gd_tensor *row = gd_index(x, "0", 1), *flat = gd_reshape(x, 1, (int64_t[]){6});
    assert_int_equal(gd_fill(row, 9), GD_OK);
    assert_values(x, 0, 1, 2, 9, 9, 9);
    assert_values(turned, 0, 9, 1, 9, 2, 9);
    assert_values(flat, 0, 1, 2, 9, 9, 9);
    assert_int_equal(gd_assign(gd_index(turned, "0", 0), VECTOR(ctx, -1, -2)), GD_OK);
    assert_values(x, -1, 1, 2, -2, 9, 9);
    assert_int_equal(gd_write_f64(gd_slice(x, "1", 2, INT64_MIN, -2), (double[]){10, 11, 12, 13}, 4), GD_OK);
    assert_values(x, 11, 1, 10, 13, 9, 12);
    ((double *)gd_data_mut(row))[1] = 0;
    assert_values(flat, 11, 1, 10, 13, 0, 12);
    assert_int_equal(gd_add_into(flat, VECTOR(ctx, 1, 1, 1, 1, 1, 1), 2), GD_OK);
    assert_values(x, 13, 3, 12, 15, 2, 14);
    assert_values(copy, 0, 1, 2, 3, 4, 5);
}

static void assigning_broadcasts_and_casts(void **state)
{
    (void)state;
    gd_tensor *x = gd_zeros(ctx, GD_F32, 2, (int64_t[]){2, 3});
    assert_int_equal(gd_assign(x, VECTOR(ctx, 1.5, 2.5, 3.5)), GD_OK);
    assert_values(x, 1.5, 2.5, 3.5, 1.5, 2.5, 3.5);
    gd_tensor *whole = gd_zeros(ctx, GD_I32, 1, (int64_t[]){3});
    assert_int_equal(gd_assign(whole, VECTOR(ctx, 1.9, -1.9, 1e30)), GD_OK);
    assert_int_equal(gd_assign(x, gd_scalar(ctx, GD_BOOL, 1)), GD_OK);
    assert_values(x, 1, 1, 1, 1, 1, 1);
    assert_int_equal(gd_assign(x, VECTOR(ctx, 1, 2)), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "assign: [2] does not broadcast into [2, 3]");
    assert_int_equal(gd_assign(gd_index(x, "0", 0), x), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "assign: [2, 3] does not broadcast into [3]");
}

/* Elements of one, two, four and eight bytes; what lies between stays. */
static void assigning_to_spaced_places_of_every_dtype(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < GD_DTYPE_COUNT; dtype++) {
        gd_tensor *x = gd_zeros(ctx, (gd_dtype)dtype, 2, (int64_t[]){3, 2});
        gd_tensor *ones = gd_ones(ctx, (gd_dtype)dtype, 1, (int64_t[]){3});
        assert_int_equal(gd_fill(gd_index(ones, "0", 1), 0), GD_OK);
        assert_int_equal(gd_assign(gd_index(x, "1", 1), ones), GD_OK);
        assert_values(x, 0, 1, 0, 0, 0, 1);
        assert_int_equal(gd_fill(gd_index(x, "1", 0), 1), GD_OK);
        assert_values(x, 1, 1, 1, 0, 1, 1);
    }
}

/* Overlapping source and destination: the values before the assignment count. */
static void assigning_a_tensor_to_itself_reversed(void **state)
{
    (void)state;
    gd_tensor *x = VECTOR(ctx, 1, 2, 3, 4, 5);
    assert_int_equal(gd_assign(x, gd_flip(x, NULL)), GD_OK);
    assert_values(x, 5, 4, 3, 2, 1);
    gd_tensor *square = counting(3, 3);
    assert_int_equal(gd_assign(square, gd_transpose(square, 0, 1)), GD_OK);
    assert_values(square, 0, 3, 6, 1, 4, 7, 2, 5, 8);
    gd_tensor *tail = gd_slice(x, "0", 1, 5, 1), *head = gd_slice(x, "0", 0, 4, 1);
    assert_int_equal(gd_assign(tail, head), GD_OK);
    assert_values(x, 5, 5, 4, 3, 2);
    /* more than one block of elements */
    gd_tensor *large = gd_arange(ctx, GD_F64, 0, 100000, 1), *copy = gd_copy(gd_flip(large, NULL));
    assert_int_equal(gd_assign(large, gd_flip(large, NULL)), GD_OK);
    assert_true(gd_item(gd_all(gd_eq(large, copy), NULL, false)) == 1);
}

static void reshape_copies_only_where_it_must(void **state)
{
    (void)state;
    gd_tensor *x = counting(4, 6), *turned = gd_transpose(x, 0, 1);
    gd_tensor *flat = gd_reshape(turned, 1, (int64_t[]){24});
    assert_false(share(flat, x));
    assert_values(gd_slice(flat, "0", 0, 5, 1), 0, 6, 12, 18, 1);
    assert_true(share(gd_reshape(turned, 3, (int64_t[]){3, 2, 4}), x));
    assert_true(share(gd_reshape(gd_slice(x, "1", 0, 6, 2), 3, (int64_t[]){2, 2, 3}), x));
    gd_tensor *none = gd_zeros(ctx, GD_F64, 2, (int64_t[]){0, 5});
    assert_shape(gd_reshape(none, 3, (int64_t[]){2, 0, 7}), 2, 0, 7);
    assert_shape(gd_reshape(none, 2, (int64_t[]){-1, 5}), 0, 5);
    assert_null(gd_reshape(none, 2, (int64_t[]){-1, 0}));
    assert_error(ctx, GD_SHAPE, "reshape: 0 elements of [0, 5] do not fill");
}

/* Random reshapes of random views: the same elements in row-major order, whether copied or not. */
static void random_reshapes_keep_the_order_of_elements(void **state)
{
    (void)state;
    uint64_t seed = 21;
    int shared = 0, copied = 0;
    for (int round = 0; round < 4000; round++) {
        gd_scope_begin(ctx);
        static const int64_t factors[] = {1, 2, 3, 2, 1, 2};
        int64_t size[6];
        memcpy(size, factors, sizeof size);
        int order[6] = {0, 1, 2, 3, 4, 5};
        for (int i = 5; i > 0; i--) {
            int j = (int)random_below(&seed, i + 1), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        gd_tensor *x = gd_permute(gd_reshape(gd_arange(ctx, GD_F64, 0, 24, 1), 6, size), order);
        if (random_below(&seed, 2)) x = gd_flip(x, "0");
        if (random_below(&seed, 3) == 0) x = gd_expand(x, 7, (int64_t[]){2, -1, -1, -1, -1, -1, -1});
        int64_t numel = gd_numel(x), want[5];
        int ndim = 0;
        while (ndim < 4 && numel > 1) {
            int64_t f = random_below(&seed, 4) + 1;
            if (numel % f == 0) {
                want[ndim++] = f;
                numel /= f;
            }
        }
        want[ndim++] = numel;
        gd_tensor *y = gd_reshape(x, ndim, want);
        assert_no_error(ctx);
        shared += share(x, y);
        copied += !share(x, y);
        array a = array_of(x), b = array_of(y);
        assert_memory_equal(a.v, b.v, (size_t)a.numel * sizeof *a.v);
        array_free(&a);
        array_free(&b);
        gd_scope_end(ctx);
    }
    assert_true(shared > 100 && copied > 100);
}

static void slices_follow_python(void **state)
{
    (void)state;
    gd_tensor *x = VECTOR(ctx, 0, 1, 2, 3, 4);
    assert_values(gd_slice(x, "0", 1, -1, 1), 1, 2, 3);
    assert_values(gd_slice(x, "0", -2, 100, 1), 3, 4);
    assert_values(gd_slice(x, "0", -100, 2, 1), 0, 1);
    assert_values(gd_slice(x, "0", 0, 5, 3), 0, 3);
    assert_values(gd_slice(x, "0", 4, INT64_MIN, -2), 4, 2, 0);
    assert_values(gd_slice(x, "0", 100, 1, -1), 4, 3, 2);
    assert_values(gd_slice(x, "0", -2, 0, -1), 3, 2, 1);
    assert_values(gd_slice(x, "0", 1, 4, INT64_MAX), 1);
    assert_values(gd_slice(x, "0", 3, 0, -INT64_MAX), 3);
    assert_int_equal(gd_numel(gd_slice(x, "0", 3, 3, 1)), 0);
    assert_int_equal(gd_numel(gd_slice(x, "0", 4, 1, 1)), 0);
    assert_int_equal(gd_numel(gd_slice(x, "0", 1, 4, -1)), 0);
    gd_tensor *none = gd_zeros(ctx, GD_F64, 1, (int64_t[]){0});
    assert_int_equal(gd_numel(gd_slice(none, "0", 0, 10, 1)), 0);
    assert_int_equal(gd_numel(gd_flip(none, NULL)), 0);
    assert_null(gd_slice(x, "0", 0, 5, 0));
    assert_error(ctx, GD_VALUE, "slice: the step is 0");
}

static void splitting_gives_all_pieces_or_none(void **state)
{
    (void)state;
    gd_tensor *x = VECTOR(ctx, 0, 1, 2, 3, 4), *piece[3];
    assert_int_equal(gd_split(x, "0", 2, piece, 3), GD_OK);
    assert_values(piece[0], 0, 1);
    assert_values(piece[2], 4);
    assert_int_equal(gd_split(x, "0", 2, piece, 2), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "split: 3 pieces, room for 2");
    assert_int_equal(gd_split(x, "0", 0, piece, 3), GD_VALUE);
    assert_error(ctx, GD_VALUE, "split: pieces of size 0");
    assert_int_equal(gd_split(x, "0", INT64_MAX, piece, 3), GD_OK);
    assert_values(piece[0], 0, 1, 2, 3, 4);
    assert_int_equal(gd_split(gd_zeros(ctx, GD_F64, 1, (int64_t[]){0}), "0", 2, piece, 3), GD_OK);
}

/* A view keeps the storage alive after its owner is gone. */
static void a_view_outlives_its_tensor(void **state)
{
    (void)state;
    gd_scope_begin(ctx);
    gd_tensor *x = counting(2, 3), *row = gd_keep(gd_index(x, "0", 1));
    gd_scope_end(ctx);
    assert_values(row, 3, 4, 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shape_operators_copy_nothing),
        TEST(strides_tell_the_layout),
        TEST(a_change_is_seen_through_every_view),
        TEST(assigning_broadcasts_and_casts),
        TEST(assigning_to_spaced_places_of_every_dtype),
        TEST(assigning_a_tensor_to_itself_reversed),
        TEST(reshape_copies_only_where_it_must),
        TEST(random_reshapes_keep_the_order_of_elements),
        TEST(slices_follow_python),
        TEST(splitting_gives_all_pieces_or_none),
        TEST(a_view_outlives_its_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
