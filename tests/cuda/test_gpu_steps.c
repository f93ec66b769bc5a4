/* Optimizers on the GPU: the same steps as on the CPU, the same bits in every run, and what happens when memory runs out.
 * Skipped without a GPU. */
#include "cuda/trials.h"

#include "gradus/layers.h"
#include "tensor/linalg.h"

static gd_device *gpu_of(gd_ctx *ctx) { return gd_gpu_count(ctx) > 0 ? gd_device_get(ctx, "gpu") : NULL; }

static void need_gpu(void)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    bool there = gpu_of(ctx);
    if (!there) print_message("skipped: %s\n", gd_error(ctx) ? gd_error_text(ctx) : "there is no GPU");
    end_context(ctx, NULL);
    if (!there) skip();
}

static void optimizers_step_as_on_the_cpu(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    assert_int_equal(run_trials(ctx, gpu_of(ctx), 1, 40), 0);
    end_context(ctx, NULL);
}

static void links_along_axes_step_as_on_the_cpu(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    assert_int_equal(run_axes_trials(ctx, gpu_of(ctx)), 0);
    end_context(ctx, NULL);
}

static void steps_have_the_same_bits_in_every_run(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    for (int i = 0; i < COUNT_OF(trial_rows); i++) {
        const trial_row *r = &trial_rows[i];
        trial t[2];
        gd_scope_begin(ctx);
        for (int k = 0; k < 2; k++) make_trial(&t[k], ctx, gpu_of(ctx), r->chain, r->places, r->dtypes);
        for (int step = 0; step < 10; step++) {
            for (int k = 0; k < 2; k++) assert_int_equal(trial_step(&t[k]), GD_OK);
            if (!trials_agree(&t[0], &t[1], 0)) fail_msg("%s, step %d", r->chain, step);
        }
        for (int k = 0; k < 2; k++) gd_optimizer_free(t[k].optimizer);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

static void replayed_steps_have_the_bits_of_eager_ones(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    all_replays_agree(ctx, gpu_of(ctx));
    captures_are_refused(ctx, gpu_of(ctx));
    end_context(ctx, NULL);
}

static void parameters_count_their_own_steps_and_lie_as_they_like(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    all_skips_agree(ctx, gpu_of(ctx));
    all_layouts_agree(ctx, gpu_of(ctx));
    end_context(ctx, NULL);
}

static void state_and_checkpoints_go_from_device_to_device(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    states_and_checkpoints_cross(ctx, gpu_of(ctx));
    end_context(ctx, NULL);
}

static void random_numbers_are_those_of_the_cpu(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    random_numbers_agree(ctx, gpu_of(ctx));
    end_context(ctx, NULL);
}

/* Output and gradients of causal attention, one after the other. */
static array attention_on(gd_ctx *ctx, gd_device *device, gd_dtype dtype, int64_t time)
{
    gd_attention_options o = gd_attention_defaults();
    o.causal = true;
    o.dtype = dtype;
    gd_seed(ctx, 4);
    gd_module *m = gd_attention_new(ctx, 32, 2, &o);
    gd_tensor *x = gd_cast(gd_randn(ctx, GD_F64, 3, (int64_t[]){2, time, 32}), dtype);
    assert_int_equal(gd_module_to_device(m, device), GD_OK);
    x = gd_require_grad(gd_detach(gd_to_device(x, device)));
    gd_tensor *y = gd_module_call(m, x), *part[6];
    assert_int_equal(gd_backward(gd_sum(gd_mul(y, gd_square(y)), NULL, false), NULL, 0), GD_OK);
    gd_named *named = gd_module_parameters(m, NULL);
    int count = 0;
    part[count++] = gd_reshape(gd_detach(y), 1, (int64_t[]){-1});
    part[count++] = gd_reshape(gd_grad_of(x), 1, (int64_t[]){-1});
    for (int64_t i = 0; i < gd_named_count(named); i++)
        part[count++] = gd_reshape(gd_contiguous(gd_grad_of(gd_named_tensor(named, i))), 1, (int64_t[]){-1});
    array all = array_of(gd_cat(part, count, "0"));
    for (int64_t i = 0; i < gd_named_count(named); i++) gd_zero_grad(gd_named_tensor(named, i));
    gd_zero_grad(x);
    gd_named_release(named);
    return all;
}

static void attention_agrees_with_the_cpu(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    /* 1024 and 1027: products by halves, evenly and not */
    static const int64_t times[] = {5, 64, 131, 200, 600, 1024, 1027};
    for (int k = 0; k < 2 * COUNT_OF(times); k++) {
        gd_dtype dtype = k % 2 ? GD_F32 : GD_F64;
        int64_t time = times[k / 2];
        long double allowed = dtype == GD_F32 ? 1e-4L : 1e-10L, most = 1;
        gd_scope_begin(ctx);
        array want = attention_on(ctx, gd_device_get(ctx, "cpu"), dtype, time),
              got = attention_on(ctx, gpu_of(ctx), dtype, time);
        assert_int_equal(want.numel, got.numel);
        for (int64_t i = 0; i < want.numel && dtype == GD_F32; i++) /* sums of cubes cancel */
            if (fabsl(want.v[i]) > most) most = fabsl(want.v[i]);
        for (int64_t i = 0; i < want.numel; i++)
            if (!(fabsl(want.v[i] - got.v[i]) <= allowed * (most + fabsl(want.v[i]))))
                fail_msg("%s, time %lld, number %lld: %.17Lg and %.17Lg", gd_dtype_name(dtype),
                         (long long)time, (long long)i, want.v[i], got.v[i]);
        array_free(&want);
        array_free(&got);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

static void out_of_memory_leaves_everything_usable(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    gd_device *gpu = gpu_of(ctx);
    gd_scope_begin(ctx);
    /* seen from the host: four bytes; on the device a terabyte */
    gd_tensor *small = gd_to_device(gd_from_f64(ctx, GD_F32, 1, (int64_t[]){1}, (double[]){3}), gpu);
    assert_null(gd_add_scalar(gd_contiguous(gd_expand(small, 1, (int64_t[]){(int64_t)1 << 38})), 1));
    print_message("%s\n", gd_error_text(ctx));
    assert_error(ctx, GD_NOMEM, "gpu:0: no memory for ");
    assert_values(gd_add_scalar(small, 1), 4);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void an_index_out_of_range_is_reported_when_the_host_reads(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    gd_device *gpu = gpu_of(ctx);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_to_device(VECTOR(ctx, 1, 2, 3), gpu), *index = gd_to_device(INDEX(ctx, 0, 7), gpu);
    gd_tensor *y = gd_index_select(x, "0", index);
    double out[2];
    assert_int_equal(y ? gd_read_f64(y, out, 2) : gd_error(ctx), GD_INDEX);
    print_message("%s\n", gd_error_text(ctx));
    gd_clear_error(ctx);
    assert_values(gd_index_select(x, "0", gd_to_device(INDEX(ctx, 2, 0), gpu)), 3, 1);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* Batches that are broadcast inside one another. */
static void products_of_broadcast_batches_agree_with_the_cpu(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    gd_device *gpu = gpu_of(ctx);
    gd_scope_begin(ctx);
    gd_tensor *a = gd_randn(ctx, GD_F64, 4, (int64_t[]){5, 1, 2, 3}),
              *b = gd_randn(ctx, GD_F64, 4, (int64_t[]){5, 7, 3, 4});
    for (int flipped = 0; flipped < 2; flipped++) {
        gd_tensor *there = gd_to_device(b, gpu), *here = flipped ? gd_flip(b, "0") : b;
        if (flipped) there = gd_flip(there, "0");
        gd_tensor *want = gd_matmul(a, here), *got = gd_matmul(gd_to_device(a, gpu), there);
        assert_no_error(ctx);
        array x = array_of(want), y = array_of(got);
        assert_int_equal(x.numel, y.numel);
        for (int64_t i = 0; i < x.numel; i++)
            if (fabsl(x.v[i] - y.v[i]) > 1e-12L) fail_msg("element %lld", (long long)i);
        array_free(&x);
        array_free(&y);
    }
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* Gradients of a layer large enough for two streams: the CPU's numbers, and the same bits whatever came before. */
static void gradients_of_large_layers_agree_with_the_cpu(void **state)
{
    (void)state;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    gd_device *gpu = gpu_of(ctx);
    gd_scope_begin(ctx);
    gd_tensor *in[3] = {gd_randn(ctx, GD_F32, 2, (int64_t[]){2048, 512}),
                        gd_randn(ctx, GD_F32, 2, (int64_t[]){2048, 384}),
                        gd_randn(ctx, GD_F32, 2, (int64_t[]){512, 384})};
    gd_tensor *there[3], *grad[3];
    array first[3];
    assert_int_equal(gd__linear_grad(in[0], in[1], in[2], grad), GD_OK);
    for (int k = 0; k < 3; k++) {
        there[k] = gd_to_device(in[k], gpu);
        first[k] = array_of(grad[k]);
    }
    for (int round = 0; round < 20; round++) {
        gd_scope_begin(ctx);
        gd_tensor *sum = gd_mul_scalar(there[0], 1 + round); /* others use the memory that was given back */
        assert_int_equal(gd__linear_grad(there[0], there[1], there[2], grad), GD_OK);
        sum = gd_add(sum, there[0]);
        assert_non_null(sum);
        for (int k = 0; k < 3; k++) {
            array now = array_of(grad[k]);
            long double allowed = round ? 0 : 2e-3L; /* sums of 2048 products of size 1 */
            for (int64_t i = 0; i < now.numel; i++)
                if (!(fabsl(now.v[i] - first[k].v[i]) <= allowed))
                    fail_msg("round %d, gradient %d, number %lld: %.9Lg and %.9Lg", round, k, (long long)i,
                             first[k].v[i], now.v[i]);
            array_free(&first[k]);
            first[k] = now;
        }
        gd_scope_end(ctx);
    }
    for (int k = 0; k < 3; k++) array_free(&first[k]);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_step_as_on_the_cpu),
        cmocka_unit_test(links_along_axes_step_as_on_the_cpu),
        cmocka_unit_test(steps_have_the_same_bits_in_every_run),
        cmocka_unit_test(replayed_steps_have_the_bits_of_eager_ones),
        cmocka_unit_test(parameters_count_their_own_steps_and_lie_as_they_like),
        cmocka_unit_test(state_and_checkpoints_go_from_device_to_device),
        cmocka_unit_test(random_numbers_are_those_of_the_cpu),
        cmocka_unit_test(attention_agrees_with_the_cpu),
        cmocka_unit_test(out_of_memory_leaves_everything_usable),
        cmocka_unit_test(an_index_out_of_range_is_reported_when_the_host_reads),
        cmocka_unit_test(products_of_broadcast_batches_agree_with_the_cpu),
        cmocka_unit_test(gradients_of_large_layers_agree_with_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
