/* A machine without a GPU: asking for one is one clear error, and nothing else is different afterwards. */
#include "support/support.h"

#include "gradus/chain.h"
#include "gradus/optim.h"

/* What a program does on the CPU. */
static void work_on_the_cpu(gd_ctx *ctx)
{
    gd_scope_begin(ctx);
    gd_tensor *x = gd_require_grad(VECTOR(ctx, 1, -2, 3));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "clip_norm(1) | lr(0.5)"));
    assert_non_null(o);
    assert_int_equal(gd_optimizer_add(o, "x", x), GD_OK);
    assert_int_equal(gd_backward(gd_sum(gd_square(x), NULL, false), NULL, 0), GD_OK);
    assert_int_equal(gd_optimizer_step(o, NULL, NULL), GD_OK);
    /* the gradient 2 x has the norm sqrt(56) */
    double scale = 1 - 0.5 * 2 / 7.4833147735478827712;
    assert_values_near(x, 1e-6, scale, -2 * scale, 3 * scale);
    gd_zero_grad(x);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    assert_no_error(ctx);
}

static void ask_and_go_on(const char *text)
{
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    if (gd_gpu_count(ctx) > 0) {
        end_context(ctx, &m);
        print_message("skipped: there is a GPU\n");
        skip();
    }
    gd_device *cpu = gd_device_get(ctx, "cpu");
    for (int round = 0; round < 2; round++) {
        assert_null(gd_device_get(ctx, "gpu"));
        print_message("%s\n", gd_error_text(ctx));
        assert_error(ctx, GD_DEVICE, text);
        assert_null(gd_device_get(ctx, "gpu:1"));
        assert_int_equal(gd_error(ctx), GD_DEVICE);
        gd_clear_error(ctx);
        assert_int_equal(gd_gpu_count(ctx), 0);
        assert_ptr_equal(gd_device_get(ctx, "cpu"), cpu);
        assert_no_error(ctx);
        work_on_the_cpu(ctx);
    }
    gd_scope_begin(ctx);
    gd_tensor *x = VECTOR(ctx, 1, 2);
    assert_null(gd_to_device(x, gd_device_get(ctx, "gpu")));
    assert_error(ctx, GD_DEVICE, text);
    assert_values(x, 1, 2);
    assert_ptr_equal(gd_tensor_device(x), cpu);
    gd_scope_end(ctx);
    end_context(ctx, &m);
}

static void asking_for_a_gpu_is_one_clear_error(void **state)
{
    (void)state;
    ask_and_go_on("device 'gpu:0': ");
}

static void a_missing_plugin_is_named(void **state)
{
    (void)state;
    assert_int_equal(setenv("GRADUS_CUDA", "/nowhere/libgradus_cuda.so", 1), 0);
    ask_and_go_on("device 'gpu:0': the CUDA plugin could not be loaded (/nowhere/libgradus_cuda.so: ");
    unsetenv("GRADUS_CUDA");
}

static void another_library_is_no_plugin(void **state)
{
    (void)state;
    assert_int_equal(setenv("GRADUS_CUDA", "libm.so.6", 1), 0);
    ask_and_go_on("device 'gpu:0': the CUDA plugin could not be loaded (it has no 'gd_plugin_open')");
    unsetenv("GRADUS_CUDA");
}

static void names_that_are_no_device_are_refused(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    const char *const names[] = {"",       "GPU",    "gpu:",    "gpu:x",  "gpu:-1",
                                 "gpu:16", "gpu:1 ", "gpu:1:2", "cuda:0", "cpu:0"};
    for (int i = 0; i < COUNT_OF(names); i++) {
        assert_null(gd_device_get(ctx, names[i]));
        assert_error(ctx, GD_DEVICE, "device '");
    }
    assert_null(gd_device_get(ctx, NULL));
    assert_error(ctx, GD_DEVICE, "device '' is not one of 'cpu', 'gpu', 'gpu:0' to 'gpu:15'");
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asking_for_a_gpu_is_one_clear_error),
        cmocka_unit_test(a_missing_plugin_is_named),
        cmocka_unit_test(another_library_is_no_plugin),
        cmocka_unit_test(names_that_are_no_device_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
