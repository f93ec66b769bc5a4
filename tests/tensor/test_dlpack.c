/* Memory of others and DLPack capsules, taken and given. */
#include "gradus/dlpack.h"
#include "gradus/chain.h"
#include "gradus/optim.h"
#include "support/support.h"
#include "tensor/dlpack_support.h"

#include <math.h>

/* The recorded error has that text somewhere; it is cleared. */
static void says(gd_ctx *ctx, gd_status status, const char *text)
{
    if (gd_error(ctx) != status || !strstr(gd_error_text(ctx), text))
        fail_msg("wanted '%s', got %s", text, gd_error_text(ctx));
    gd_clear_error(ctx);
}

static int released;
static void count_release(void *user) { (void)user, released++; }

static gd_tensor *over(gd_ctx *ctx, int ndim, const int64_t *shape, const int64_t *strides, void *data,
                       int flags)
{
    return gd_from_memory(gd_device_get(ctx, "cpu"), GD_F64, ndim, shape, strides, data, flags, count_release,
                          NULL);
}

static void a_tensor_over_memory_is_that_memory(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    double mine[6] = {1, 2, 3, 4, 5, 6};
    released = 0;
    gd_tensor *t = over(ctx, 2, (int64_t[]){2, 3}, NULL, mine, 0);
    assert_values_near(t, 0, 1., 2., 3., 4., 5., 6.);
    assert_ptr_equal(gd_data(t), mine);
    mine[4] = 50;
    assert_true(gd_at(t, (int64_t[]){1, 1}) == 50);
    assert_int_equal(gd_fill(t, 7), GD_OK);
    assert_true(mine[0] == 7 && mine[5] == 7);
    gd_tensor *row = gd_index(t, "0", 1);
    gd_release(t);
    assert_int_equal(released, 0); /* a view holds it */
    gd_release(row);
    assert_int_equal(released, 1);
    end_context(ctx, NULL);
}

/* Nothing was made in the context before. */
static void the_first_tensor_may_come_from_elsewhere(void **state)
{
    (void)state;
    double numbers[2] = {1, 2};
    int deleted = 0;
    dl_versioned c = {.major = 1,
                      .deleter = count_deleted,
                      .manager = &deleted,
                      .tensor = {numbers, 1, 0, 1, 2, 64, 1, (int64_t[]){2}, NULL, 0}};
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_tensor *t = gd_from_dlpack(ctx, (struct DLManagedTensorVersioned *)&c);
    assert_ptr_equal(gd_data(t), numbers);
    assert_int_equal(gd_error(ctx), GD_OK);
    gd_release(t);
    assert_int_equal(deleted, 1);
    gd_ctx_free(ctx);
}

static void strides_of_others_are_kept(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    double mine[6] = {1, 2, 3, 4, 5, 6};
    gd_tensor *columns = over(ctx, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, mine, 0);
    assert_values_near(columns, 0, 1., 4., 2., 5., 3., 6.);
    gd_tensor *back = over(ctx, 1, (int64_t[]){6}, (int64_t[]){-1}, mine + 5, 0);
    assert_values_near(back, 0, 6., 5., 4., 3., 2., 1.);
    gd_tensor *spread = over(ctx, 2, (int64_t[]){2, 3}, (int64_t[]){0, 1}, mine, 0);
    assert_values_near(spread, 0, 1., 2., 3., 1., 2., 3.);
    assert_true(gd_is_read_only(spread)); /* two elements in one place */
    gd_tensor *none = over(ctx, 2, (int64_t[]){0, 3}, NULL, NULL, 0);
    assert_non_null(none);
    gd_release(columns), gd_release(back), gd_release(spread), gd_release(none);
    end_context(ctx, NULL);
}

static void refused(gd_ctx *ctx, gd_tensor *t, gd_status status, const char *text)
{
    assert_null(t);
    says(ctx, status, text);
}

static void what_cannot_be_is_refused_and_nothing_released(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    double mine[2] = {1, 2};
    gd_device *cpu = gd_device_get(ctx, "cpu");
    released = 0;
    refused(ctx, over(ctx, 1, (int64_t[]){2}, NULL, NULL, 0), GD_ARGUMENT, "from_memory: the memory is NULL");
    refused(ctx, over(ctx, 1, (int64_t[]){-1}, NULL, mine, 0), GD_SHAPE, "from_memory: axis 0 has size -1");
    refused(ctx, over(ctx, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, NULL, mine, 0), GD_SHAPE,
            "9 dimensions");
    refused(ctx, over(ctx, 1, (int64_t[]){2}, (int64_t[]){INT64_MAX / 4}, mine, 0), GD_OVERFLOW,
            "reaches further");
    refused(ctx, over(ctx, 1, (int64_t[]){2}, (int64_t[]){INT64_MIN}, mine, 0), GD_OVERFLOW,
            "reaches further");
    refused(ctx, over(ctx, 1, (int64_t[]){1}, NULL, (char *)mine + 3, 0), GD_ARGUMENT, "no multiple of 8");
    refused(ctx, over(ctx, 1, (int64_t[]){1}, NULL, mine, 64), GD_ARGUMENT, "unknown flags 64");
    refused(ctx, gd_from_memory(cpu, (gd_dtype)99, 0, NULL, NULL, mine, 0, NULL, NULL), GD_DTYPE,
            "dtype number 99");
    assert_int_equal(released, 0);
    end_context(ctx, NULL);
}

static void read_only_memory_is_never_written(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    double mine[2] = {1, 2};
    gd_tensor *t = over(ctx, 1, (int64_t[]){2}, NULL, mine, GD_READ_ONLY), *one = VECTOR(ctx, 5, 6);
    assert_null(gd_data_mut(t));
    says(ctx, GD_STATE, "data_mut: the tensor is read-only");
    assert_int_equal(gd_assign(t, one), GD_STATE);
    says(ctx, GD_STATE, "assign: the tensor is read-only");
    assert_int_equal(gd_fill(t, 3), GD_STATE);
    says(ctx, GD_STATE, "fill");
    assert_int_equal(gd_write_f64(t, (double[]){8, 9}, 2), GD_STATE);
    says(ctx, GD_STATE, "write_f64");
    gd_tensor *view = gd_slice(t, "0", 0, 1, 1);
    assert_int_equal(gd_fill(view, 3), GD_STATE); /* a view is no way around it */
    gd_clear_error(ctx);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lr(1)"));
    gd_require_grad(t);
    assert_int_equal(gd_optimizer_add(o, "t", t), GD_STATE);
    says(ctx, GD_STATE, "read-only");
    assert_true(mine[0] == 1 && mine[1] == 2);
    gd_tensor *sum = gd_add(t, one); /* reading is fine */
    assert_values_near(sum, 0, 6., 8.);
    gd_optimizer_free(o);
    gd_release(view), gd_release(sum), gd_release(t), gd_release(one);
    end_context(ctx, NULL);
}

static void parameters_may_live_in_memory_of_others(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    double weight[3] = {1, 2, 3}, gradient[3] = {0.5, 0.5, 1};
    gd_tensor *p = gd_require_grad(over(ctx, 1, (int64_t[]){3}, NULL, weight, 0));
    gd_tensor *g = over(ctx, 1, (int64_t[]){3}, NULL, gradient, 0);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lr(2)"));
    assert_int_equal(gd_optimizer_add(o, "w", p), GD_OK);
    assert_int_equal(gd_set_grad(p, g), GD_OK);
    assert_int_equal(gd_optimizer_step(o, NULL, NULL), GD_OK);
    assert_true(weight[0] == 0 && weight[1] == 1 && weight[2] == 1);
    gd_optimizer_free(o);
    gd_release(p), gd_release(g);
    end_context(ctx, NULL);
}

/* ---- capsules ---- */

static void every_dtype_goes_round(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    for (int dtype = 0; dtype < GD_DTYPE_COUNT; dtype++) {
        gd_tensor *t = gd_ones(ctx, (gd_dtype)dtype, 2, (int64_t[]){2, 3});
        dl_versioned *c = (dl_versioned *)gd_to_dlpack(t);
        assert_non_null(c);
        assert_true(c->major == 1 && c->tensor.ndim == 2 && c->tensor.shape[1] == 3 &&
                    c->tensor.strides[0] == 3);
        assert_true(c->tensor.bits == 8 * gd_dtype_size((gd_dtype)dtype) && c->tensor.device_type == 1);
        gd_tensor *u = gd_from_dlpack(ctx, (struct DLManagedTensorVersioned *)c);
        assert_non_null(u);
        assert_int_equal(gd_tensor_dtype(u), dtype);
        assert_ptr_equal(gd_data(u), gd_data(t));
        gd_release(t); /* what it was made of stays as long as somebody looks */
        assert_true(gd_at(u, (int64_t[]){1, 2}) == 1);
        gd_release(u);
        t = gd_ones(ctx, (gd_dtype)dtype, 0, NULL);
        u = gd_from_dlpack_unversioned(ctx, gd_to_dlpack_unversioned(t));
        assert_true(gd_item(u) == 1);
        gd_release(t), gd_release(u);
    }
    end_context(ctx, NULL);
}

static void capsules_end_by_their_deleter(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_tensor *ones = gd_ones(ctx, GD_F32, 2, (int64_t[]){2, 3}), *t = gd_permute(ones, (int[]){1, 0});
    gd_release(ones);
    dl_plain *c = (dl_plain *)gd_to_dlpack_unversioned(t);
    assert_true(c->tensor.shape[0] == 3 && c->tensor.strides[0] == 1 && c->tensor.strides[1] == 3);
    gd_release(t);
    c->deleter(c);
    end_context(ctx, &m); /* nothing is left */
}

static void capsules_of_others_are_taken_or_left(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    float data[4] = {9, 1, 2, 3};
    int64_t shape[2] = {1, 3};
    static int deleted;
    deleted = 0;
    dl_versioned c = {.major = 1,
                      .deleter = count_deleted,
                      .manager = &deleted,
                      .flags = 1,
                      .tensor = {data, 1, 0, 2, 2, 32, 1, shape, NULL, 4}};
    struct DLManagedTensorVersioned *capsule = (struct DLManagedTensorVersioned *)&c;
    gd_tensor *t = gd_from_dlpack(ctx, capsule);
    assert_values_near(t, 0, 1., 2., 3.);
    assert_true(gd_is_read_only(t));
    gd_release(t);
    assert_int_equal(deleted, 1);
    c.tensor.lanes = 4;
    refused(ctx, gd_from_dlpack(ctx, capsule), GD_DTYPE, "code 2 with 32 bits and 4 lanes");
    c.tensor.lanes = 1, c.tensor.device_type = 2;
    refused(ctx, gd_from_dlpack(ctx, capsule), GD_DEVICE, "device type 2, number 0");
    c.tensor.device_type = 1, c.tensor.ndim = 9;
    refused(ctx, gd_from_dlpack(ctx, capsule), GD_SHAPE, "9 axes");
    c.tensor.ndim = 2, c.major = 2;
    refused(ctx, gd_from_dlpack(ctx, capsule), GD_FORMAT, "version 2 of DLPack");
    refused(ctx, gd_from_dlpack(ctx, NULL), GD_ARGUMENT, "the capsule is NULL");
    assert_int_equal(deleted, 1);
    end_context(ctx, NULL);
}

static void tensors_with_a_history_are_not_lent(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *leaf = gd_require_grad(VECTOR(ctx, 1, 2)), *made = gd_square(leaf), *plain = gd_detach(made);
    assert_null(gd_to_dlpack(leaf));
    says(ctx, GD_STATE, "gd_detach it first");
    assert_null(gd_to_dlpack_unversioned(made));
    says(ctx, GD_STATE, "gd_detach it first");
    dl_versioned *c = (dl_versioned *)gd_to_dlpack(plain);
    c->deleter(c);
    double mine[1] = {1};
    gd_tensor *fixed = over(ctx, 1, (int64_t[]){1}, NULL, mine, GD_READ_ONLY);
    assert_null(gd_to_dlpack_unversioned(fixed));
    says(ctx, GD_STATE, "needs a versioned capsule");
    c = (dl_versioned *)gd_to_dlpack(fixed);
    assert_true(c->flags & 1);
    c->deleter(c);
    gd_release(fixed), gd_release(plain), gd_release(made), gd_release(leaf);
    end_context(ctx, NULL);
}

/* Somebody has put a parameter elsewhere: the optimizer goes on there, with its state. */
static void a_leaf_takes_other_memory(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    double here[3] = {1, 2, 3}, there[3] = {1, 2, 3}, slope[3] = {1, -1, 2};
    gd_tensor *p = gd_require_grad(over(ctx, 1, (int64_t[]){3}, NULL, here, 0));
    gd_tensor *q = over(ctx, 1, (int64_t[]){3}, NULL, there, 0),
              *g = over(ctx, 1, (int64_t[]){3}, NULL, slope, 0);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "heavy_ball(0.9, ema_init=\"zeros\") | lr(0.1)"));
    assert_int_equal(gd_optimizer_add(o, "p", p), GD_OK);
    assert_int_equal(gd_set_grad(p, g), GD_OK);
    assert_int_equal(gd_optimizer_step(o, NULL, NULL), GD_OK);
    memcpy(there, here, sizeof there);
    released = 0;
    assert_int_equal(gd_take_memory(p, q), GD_OK);
    assert_int_equal(released, 1);
    assert_ptr_equal(gd_data(p), there);
    assert_null(gd_grad_of(p));
    assert_int_equal(gd_set_grad(p, g), GD_OK);
    assert_int_equal(gd_optimizer_step(o, NULL, NULL), GD_OK);
    assert_true(here[0] == 1 - 0.1 && fabs(there[0] - (1 - 0.1 - 0.1 * 1.9)) < 1e-15);
    gd_tensor *short_one = VECTOR(ctx, 1, 2), *counts = INDEX(ctx, 1, 2, 3);
    assert_int_equal(gd_take_memory(p, short_one), GD_SHAPE);
    says(ctx, GD_SHAPE, "the memory is for [2], the tensor is [3]");
    assert_int_equal(gd_take_memory(p, counts), GD_STATE);
    says(ctx, GD_STATE, "wants gradients, the memory is i64");
    gd_optimizer_free(o);
    gd_release(p), gd_release(q), gd_release(g), gd_release(short_one), gd_release(counts);
    end_context(ctx, NULL);
}

/* Gradients of somebody else, which lie elsewhere at every step, under one tensor. */
static void lent_memory_may_be_elsewhere_at_every_step(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    double at[2] = {1, 2}, slope[2][2] = {{1, -1}, {4, 8}};
    gd_device *cpu = gd_device_get(ctx, "cpu");
    gd_tensor *p = gd_require_grad(over(ctx, 1, (int64_t[]){2}, NULL, at, 0));
    gd_tensor *g = gd_from_memory(cpu, GD_F64, 1, (int64_t[]){2}, NULL, slope[0], 0, NULL, NULL);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lr(0.5)"));
    assert_int_equal(gd_optimizer_add(o, "p", p), GD_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gd_point_at(g, slope[i]), GD_OK);
        assert_int_equal(gd_set_grad(p, g), GD_OK);
        assert_int_equal(gd_optimizer_step(o, NULL, NULL), GD_OK);
        assert_int_equal(gd_point_at(g, slope[0]), GD_STATE); /* the leaf has it */
        says(ctx, GD_STATE, "there are other references to the tensor or its memory");
        gd_zero_grad(p);
    }
    assert_true(at[0] == 1 - 0.5 - 2 && at[1] == 2 + 0.5 - 4);
    gd_tensor *view = gd_detach(g);
    assert_int_equal(gd_point_at(g, slope[0]), GD_STATE);
    says(ctx, GD_STATE, "there are other references to the tensor or its memory");
    gd_release(view);
    assert_int_equal(gd_point_at(g, (char *)slope + 1), GD_ARGUMENT);
    says(ctx, GD_ARGUMENT, "point_at: the address is no multiple of 8, the size of f64");
    assert_int_equal(gd_point_at(g, NULL), GD_ARGUMENT);
    says(ctx, GD_ARGUMENT, "point_at: the memory is NULL");
    assert_int_equal(gd_point_at(p, slope), GD_ARGUMENT); /* its owner waits to be called */
    says(ctx, GD_ARGUMENT, "memory is not borrowed");
    gd_tensor *own = VECTOR(ctx, 1, 2);
    assert_int_equal(gd_point_at(own, slope), GD_ARGUMENT);
    says(ctx, GD_ARGUMENT, "memory is not borrowed");
    assert_ptr_equal(gd_data(g), slope[1]);
    gd_optimizer_free(o);
    gd_release(p), gd_release(g), gd_release(own);
    end_context(ctx, NULL);
}

static void the_cpu_has_no_streams(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_device *cpu = gd_device_get(ctx, "cpu");
    assert_null(gd_device_stream(cpu));
    assert_int_equal(gd_device_use_stream(cpu, ctx), GD_DEVICE);
    assert_string_equal(gd_error_text(ctx), "use_stream: cpu has no streams");
    gd_clear_error(ctx);
    end_context(ctx, NULL);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int64_t k = 1;; k++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        double mine[2] = {1, 2};
        gd_tensor *t = VECTOR(ctx, 1, 2);
        m.fail_at = m.requests + k;
        released = 0;
        gd_tensor *u = over(ctx, 1, (int64_t[]){2}, NULL, mine, 0);
        dl_versioned *c = u ? (dl_versioned *)gd_to_dlpack(t) : NULL;
        bool done = c && !m.failed;
        if (!u) assert_int_equal(released, 0);
        gd_clear_error(ctx);
        if (c) c->deleter(c);
        gd_release(u), gd_release(t);
        end_context(ctx, &m);
        if (done) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tensor_over_memory_is_that_memory),
        cmocka_unit_test(the_first_tensor_may_come_from_elsewhere),
        cmocka_unit_test(strides_of_others_are_kept),
        cmocka_unit_test(what_cannot_be_is_refused_and_nothing_released),
        cmocka_unit_test(read_only_memory_is_never_written),
        cmocka_unit_test(parameters_may_live_in_memory_of_others),
        cmocka_unit_test(every_dtype_goes_round),
        cmocka_unit_test(capsules_end_by_their_deleter),
        cmocka_unit_test(capsules_of_others_are_taken_or_left),
        cmocka_unit_test(tensors_with_a_history_are_not_lent),
        cmocka_unit_test(a_leaf_takes_other_memory),
        cmocka_unit_test(lent_memory_may_be_elsewhere_at_every_step),
        cmocka_unit_test(the_cpu_has_no_streams),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
