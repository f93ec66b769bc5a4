/* How the plugin sees the matrices of a product; needs no GPU. */
#include "support/support.h"

#include "../../backends/cuda/batch.c"

static gd_tensor shaped(int ndim, const int64_t *size, const int64_t *stride)
{
    gd_tensor t = {.dtype = GD_F32, .ndim = (uint8_t)ndim, .numel = 1};
    for (int i = 0; i < ndim; i++) {
        t.size[i] = size[i];
        t.stride[i] = stride[i];
        t.numel *= size[i];
    }
    return t;
}

static void rows_or_columns_that_are_adjacent_are_read_in_place(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, columns, row, column;
        bool fits, turned;
        int64_t ld;
    } sample[] = {
        {3, 4, 4, 1, true, false, 4},   /* dense */
        {3, 4, 9, 1, true, false, 9},   /* rows apart */
        {3, 4, 1, 3, true, true, 3},    /* turned */
        {3, 4, 1, 7, true, true, 7},    /* turned, columns apart */
        {3, 4, 0, 1, false, false, 0},  /* one row many times */
        {3, 4, 1, 0, false, false, 0},  /* one column many times */
        {3, 4, 2, 1, false, false, 0},  /* rows that overlap */
        {3, 4, 8, 2, false, false, 0},  /* every second column */
        {3, 4, -4, 1, false, false, 0}, /* upside down */
        {3, 4, 4, -1, false, false, 0}, /* mirrored */
        {1, 4, 99, 1, true, false, 4},  /* a row, whatever its stride */
        {1, 4, -4, 5, true, true, 5},   /* elements of a row apart: columns of one element */
        {1, 4, 4, -1, false, false, 0}, /* a row backwards */
        {3, 1, 5, 77, true, false, 5},  /* elements of a column apart */
        {3, 1, 1, 0, true, false, 1},   /* a column, whatever its stride */
        {3, 1, -1, 1, false, false, 0}, /* a column backwards */
        {1, 1, -3, -5, true, false, 1}, /* one element */
    };
    for (size_t i = 0; i < sizeof sample / sizeof *sample; i++) {
        gd_tensor t = shaped(2, (int64_t[]){sample[i].rows, sample[i].columns},
                             (int64_t[]){sample[i].row, sample[i].column});
        cuda_matrix m;
        bool fits = cuda_matrix_of(&t, &m);
        if (fits != sample[i].fits) fail_msg("sample %zu: %s", i, fits ? "fits" : "does not fit");
        if (!fits) continue;
        assert_int_equal(m.turned, sample[i].turned);
        assert_int_equal(m.ld, sample[i].ld);
    }
}

/* [2, 3, 5, 4] in order, and as [2, 5, 3, 4] in memory: heads of one time side by side. */
static const int64_t size[4] = {2, 3, 5, 4};
static const int64_t ordered[4] = {60, 20, 4, 1}, heads[4] = {60, 4, 12, 1};

static void batches_become_one_stride_where_all_operands_allow_it(void **state)
{
    (void)state;
    gd_tensor a = shaped(4, size, ordered), b = a, c = a;
    cuda_batch batch;
    cuda_batch_of(&a, &b, &c, &batch);
    assert_int_equal(batch.ndim, 1);
    assert_int_equal(batch.count, 6);
    assert_int_equal(batch.size[0], 6);
    for (int k = 0; k < 3; k++) assert_int_equal(batch.step[k][0], 20 * 4);
    assert_true(cuda_batch_is_plain(&batch));

    /* one matrix for all of them */
    b = shaped(4, size, (int64_t[]){0, 0, 4, 1});
    cuda_batch_of(&a, &b, &c, &batch);
    assert_true(cuda_batch_is_plain(&batch));
    assert_int_equal(batch.step[1][0], 0);

    /* one for each of the first axis only */
    b = shaped(4, size, (int64_t[]){20, 0, 4, 1});
    cuda_batch_of(&a, &b, &c, &batch);
    assert_int_equal(batch.ndim, 2);
    assert_false(cuda_batch_is_plain(&batch));
    assert_true(!cuda_is_plain(&b) && cuda_is_plain(&a));

    /* axes in another order, but the same in all three */
    int64_t swapped[4] = {20, 40, 4, 1};
    a = b = c = shaped(4, size, swapped);
    cuda_batch_of(&a, &b, &c, &batch);
    assert_int_equal(batch.ndim, 1);
    assert_int_equal(batch.step[2][0], 20 * 4);

    /* axes of one element do not count */
    int64_t thin[4] = {2, 1, 5, 4}, odd[4] = {20, 12345, 4, 1};
    a = b = c = shaped(4, thin, odd);
    cuda_batch_of(&a, &b, &c, &batch);
    assert_true(cuda_batch_is_plain(&batch) && batch.count == 2);
}

static void other_batches_keep_their_axes(void **state)
{
    (void)state;
    gd_tensor a = shaped(4, size, heads), c = shaped(4, size, ordered);
    cuda_batch batch;
    cuda_batch_of(&a, &a, &c, &batch);
    assert_int_equal(batch.ndim, 2);
    assert_int_equal(batch.count, 6);
    assert_int_equal(batch.size[0], 2);
    assert_int_equal(batch.size[1], 3);
    assert_int_equal(batch.step[0][0], 60 * 4);
    assert_int_equal(batch.step[0][1], 4 * 4);
    assert_int_equal(batch.step[2][1], 20 * 4);
    assert_false(cuda_batch_is_plain(&batch));

    /* backwards is no stride for a library */
    gd_tensor back = shaped(3, (int64_t[]){3, 5, 4}, (int64_t[]){-20, 4, 1}),
              forth = shaped(3, (int64_t[]){3, 5, 4}, (int64_t[]){20, 4, 1});
    cuda_batch_of(&back, &forth, &forth, &batch);
    assert_int_equal(batch.ndim, 1);
    assert_false(cuda_batch_is_plain(&batch));
    assert_false(cuda_is_plain(&back));
}

static void lists_need_multiples_of_16_bytes(void **state)
{
    (void)state;
    gd_tensor a = shaped(4, size, heads), c = shaped(4, size, ordered);
    cuda_batch batch;
    cuda_batch_of(&a, &a, &c, &batch);
    char *at = (char *)(uintptr_t)4096;
    assert_true(cuda_batch_is_aligned(&batch, at, at + 16, at + 32));
    assert_false(cuda_batch_is_aligned(&batch, at, at, at + 4));
    assert_false(cuda_batch_is_aligned(&batch, at + 8, at, at));
    assert_false(cuda_batch_is_aligned(&batch, at, at + 2, at));
    a.dtype = c.dtype = GD_F16; /* heads of 4: 8 bytes */
    cuda_batch_of(&a, &a, &c, &batch);
    assert_false(cuda_batch_is_aligned(&batch, at, at, at));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_or_columns_that_are_adjacent_are_read_in_place),
        cmocka_unit_test(batches_become_one_stride_where_all_operands_allow_it),
        cmocka_unit_test(other_batches_keep_their_axes),
        cmocka_unit_test(lists_need_multiples_of_16_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
