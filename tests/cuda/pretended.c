/* The CUDA plugin on a driver that only pretends (fake_driver.h) and can fail at any call: what is asked of the driver, what
 * is left when a call, an allocation or the context fails. */
#include "cuda/pretended.h"

#include "base/kernel_cache.h"
#include "optim/step/optimizer.h"
#include "tensor/linalg.h"
#include "tensor/shape.h"

static gd_cache cache;

static int make_cache(void **state)
{
    (void)state;
    return gd__cache_open_passing(&cache) ? 0 : -1;
}

static int remove_cache(void **state)
{
    (void)state;
    gd__cache_close(&cache);
    return 0;
}

/* Opens the GPU of a driver that is as new, in that context, and returns the context. */
static gd_ctx *open_only_gpu(gd_ctx *ctx, gd_device *gpu)
{
    cuda_api api;
    fake_fill(&api);
    fake_reset(1);
    assert_int_equal(open_fake(ctx, gpu, 0, &api), GD_OK);
    return ctx;
}

/* Nothing may be left in the context or on the device. */
static void close_only_gpu(gd_ctx *ctx, gd_device *gpu)
{
    close_fake(gpu);
    end_context(ctx, NULL);
    assert_true(fake_is_clean());
}

/* Freed memory is kept for the next who asks, under sanitizers too. */
static gd_ctx *pooled_context(void)
{
    gd_options options = gd_options_default();
    options.threads = 1;
    options.pool = true;
    return gd_ctx_new(&options);
}

/* ---- failures ---- */

/* Runs a case with the k-th driver call, or the k-th allocation on the host, failing.  False when nothing failed. */
static bool fail_once(const op_case *c, int64_t k, bool on_host, bool lost)
{
    memory m = {0};
    cuda_api api;
    gd_device gpu = {.backend = NULL};
    case_inputs in;
    fake_fill(&api);
    fake_reset(1);
    gd_ctx *ctx = cached_context(&m, cache.path);
    assert_non_null(ctx);
    gd_scope_begin(ctx);
    assert_true(case_build(&in, ctx, c, CONTIGUOUS, case_dtype(c), 7, false, true));
    array before[MAX_OPERANDS];
    for (int i = 0; i < c->operands; i++) before[i] = array_of(in.leaf[i]);
    if (on_host)
        m.fail_at = m.requests + k;
    else
        fake.fail_at = k;
    fake.fail_on = lost;
    if (lost) fake.failure = CUDA_ERROR_ILLEGAL_ADDRESS;
    gd_status opened = open_fake(ctx, &gpu, 0, &api);
    bool done = !opened && run_case(ctx, &in, &gpu, true);
    bool failed = on_host ? m.failed : fake.calls >= k;
    m.fail_at = fake.fail_at = 0;
    if (failed && !on_host) {
        /* a cubin from the disk that does not load is compiled again; freeing goes on whatever happens */
        gd_status want = done && (lost || fake.failed_loads) ? GD_OK : lost ? GD_DEVICE : GD_NOMEM;
        const char *text = gd_error_text(ctx);
        bool said = !strstr(text, "CUDA error 700") || strstr(text, "data on the CPU is not");
        if (done != !want || gd_error(ctx) != want || !said)
            fail_msg("%s, driver call %lld: %s: %s", c->name, (long long)k, gd_status_name(gd_error(ctx)),
                     text);
    }
    if (failed && on_host && !done && gd_error(ctx) != GD_NOMEM)
        fail_msg("%s, allocation %lld: %s", c->name, (long long)k, gd_error_text(ctx));
    gd_clear_error(ctx);
    /* what was on the CPU is as it was */
    for (int i = 0; i < c->operands; i++) {
        array after = array_of(in.leaf[i]);
        for (int64_t e = 0; e < after.numel; e++)
            if (after.v[e] != before[i].v[e]) fail_msg("%s: operand %d has changed", c->name, i);
        array_free(&after);
        array_free(&before[i]);
    }
    case_free(&in);
    gd_scope_end(ctx);
    close_fake(&gpu);
    end_context(ctx, &m);
    if (!fake_is_clean())
        fail_msg("%s, failure %lld: something is left on the device", c->name, (long long)k);
    return failed;
}

static bool takes_f64(const op_case *c)
{
    return c->operands && c->dtypes >> GD_F64 & 1 && case_has_layout(c, CONTIGUOUS);
}

static void failing_driver_calls_are_errors_and_leak_nothing(void **state)
{
    (void)state;
    int64_t points = 0;
    for (int k = 0; k < op_case_count(); k++) {
        const op_case *c = op_case_at(k);
        for (int64_t at = 1; takes_f64(c) && fail_once(c, at, false, false); at += 1 + at / 16) points++;
    }
    print_message("%lld failures\n", (long long)points);
}

static void failing_allocations_are_errors_and_leak_nothing(void **state)
{
    (void)state;
    int64_t points = 0;
    for (int k = 0; k < op_case_count(); k += 3) {
        const op_case *c = op_case_at(k);
        for (int64_t at = 1; takes_f64(c) && fail_once(c, at, true, false); at += 1 + at / 16) points++;
    }
    print_message("%lld failures\n", (long long)points);
}

static void a_lost_context_is_an_error_and_the_host_goes_on(void **state)
{
    (void)state;
    for (int k = 0; k < op_case_count(); k += 7) {
        const op_case *c = op_case_at(k);
        for (int64_t at = 14; takes_f64(c) && fail_once(c, at, false, true); at += 3) continue;
    }
}

static void errors_name_what_is_wrong(void **state)
{
    (void)state;
    cuda_api api;
    gd_device gpu;
    gd_ctx *ctx = context(NULL, 1, NULL); /* its cache has nothing of the pretended compiler */
    fake_fill(&api);
    fake_reset(2);
    assert_int_equal(open_fake(ctx, &gpu, 5, &api), GD_DEVICE);
    assert_error(ctx, GD_DEVICE, "device 'gpu:5': there are 2 GPUs");
    fake.major = 6;
    assert_int_equal(open_fake(ctx, &gpu, 0, &api), GD_DEVICE);
    assert_error(ctx, GD_DEVICE, "device 'gpu:0': compute capability 6.0 is below 7.0");
    fake.major = 21;
    assert_int_equal(open_fake(ctx, &gpu, 0, &api), GD_DEVICE);
    assert_error(
        ctx, GD_DEVICE,
        "device 'gpu:0': compute capability 21.0 is not one that libnvrtc 13.0 compiles for (7.5 to 9.0)");
    fake.major = 9;
    assert_int_equal(open_fake(ctx, &gpu, 0, &api), GD_OK);
    gd_scope_begin(ctx);
    fake.compile_result = NVRTC_ERROR_COMPILATION;
    assert_null(gpu.backend->program(&gpu, "nonsense", "rule_pass"));
    assert_error(
        ctx, GD_DEVICE,
        "gpu:0: the kernel 'rule_pass' does not compile: NVRTC_ERROR_COMPILATION: gradus.cu(1): error: pretended");
    fake.compile_result = NVRTC_SUCCESS;
    fake.fail_at = fake.calls + 1;
    assert_null(gd_to_device(VECTOR(ctx, 1, 2, 3), &gpu));
    assert_error(ctx, GD_NOMEM, "gpu:0: no memory for 24 bytes; 1 of 3 MiB are free");
    fake.fail_at = 0;
    gd_tensor *x = gd_to_device(VECTOR(ctx, 1, 2, 3), &gpu);
    assert_values(gd_to_device(x, gd_device_get(ctx, "cpu")), 1, 2, 3);
    gd_tensor *m = gd_to_device(MATRIX(ctx, 1, 1, 1), &gpu);
    fake.info = 1;
    assert_null(gd_cholesky(m));
    assert_error(ctx, GD_SINGULAR, "cholesky: the matrix is not positive definite");
    gd_scope_end(ctx);
    close_only_gpu(ctx, &gpu);
}

/* A kernel is compiled once for all its names, and taken from the disk by the next context. */
static void kernels_are_compiled_once(void **state)
{
    (void)state;
    cuda_api api;
    fake_fill(&api);
    fake_reset(1);
    for (int round = 0; round < 2; round++) {
        gd_device gpu;
        gd_ctx *ctx = cached_context(NULL, cache.path);
        assert_int_equal(open_fake(ctx, &gpu, 0, &api), GD_OK);
        const char *source = "extern \"C\" __global__ void a() {}\nextern \"C\" __global__ void b() {}";
        assert_non_null(gpu.backend->program(&gpu, source, "a"));
        assert_non_null(gpu.backend->program(&gpu, source, "b"));
        assert_int_equal(fake.compilations, 1);
        assert_int_equal(fake.modules, 1);
        close_fake(&gpu);
        end_context(ctx, NULL);
    }
    assert_true(fake_is_clean());
}

/* A graph is made once; arguments that change are set, others are not; each call fails once, and nothing is left. */
static void graphs_are_made_once_and_updated(void **state)
{
    (void)state;
    gd_device gpu;
    gd_ctx *ctx = open_only_gpu(cached_context(NULL, cache.path), &gpu);
    void *kernel = gpu.backend->program(&gpu, "extern \"C\" __global__ void a() {}", "a"), *graph = NULL;
    assert_non_null(kernel);
    double args[2][3] = {{1, 2, 3}, {4, 5, 6}};
    gd_launch launch[2];
    for (int i = 0; i < 2; i++)
        launch[i] = (gd_launch){kernel, args[i], sizeof args[i], .blocks = 3, .threads = 64};
    for (int round = 0; round < 3; round++) {
        args[1][0] = round;
        assert_int_equal(gpu.backend->replay(&gpu, &graph, launch, 2), GD_OK);
        assert_int_equal(fake.nodes, 2);
        assert_int_equal(fake.updates, round);
        assert_int_equal(fake.replays, round + 1);
    }
    gpu.backend->forget(&gpu, graph);
    graph = NULL;
    assert_int_equal(fake.graphs, 0);
    int64_t failures = 0;
    for (int64_t k = 1; failures == k - 1; k++) {
        fake.fail_at = fake.calls + k;
        gd_status status = gpu.backend->replay(&gpu, &graph, launch, 2);
        args[0][2]++; /* so that the next time sets it */
        if (!status) status = gpu.backend->replay(&gpu, &graph, launch, 2);
        fake.fail_at = 0;
        failures += status != GD_OK;
        assert_true(!status || gd_error(ctx) == GD_NOMEM);
        gd_clear_error(ctx);
        if (graph) gpu.backend->forget(&gpu, graph);
        graph = NULL;
    }
    assert_int_equal(failures, 7); /* graph, two nodes, making it ready, launch, arguments, launch */
    close_only_gpu(ctx, &gpu);
}

/* Each GPU has a context of the driver: whoever worked last, a call goes to its own. */
static void two_gpus_do_not_mix(void **state)
{
    (void)state;
    cuda_api api;
    fake_fill(&api);
    fake_reset(2);
    gd_device gpu[2];
    gd_ctx *ctx = cached_context(NULL, cache.path);
    for (int i = 0; i < 2; i++) assert_int_equal(open_fake(ctx, &gpu[i], i, &api), GD_OK);
    gd_scope_begin(ctx);
    gd_tensor *x[2];
    for (int i = 0; i < 2; i++) x[i] = gd_to_device(VECTOR(ctx, 1, 2, 3), &gpu[i]);
    for (int i = 0; i < 6; i++) x[i % 2] = gd_sum(gd_exp(x[i % 2]), NULL, true);
    assert_no_error(ctx);
    assert_null(gd_add(x[0], x[1]));
    assert_error(ctx, GD_DEVICE, "add: one operand is on gpu:1, a second on gpu:0");
    fake.current = NULL; /* as in another thread */
    assert_non_null(gd_to_device(gd_exp(x[0]), &gpu[1]));
    assert_int_equal(gd_device_sync(&gpu[0]), GD_OK);
    gd_scope_end(ctx);
    assert_int_equal(fake.out_of_context, 0);
    for (int i = 0; i < 2; i++) close_fake(&gpu[i]);
    end_context(ctx, NULL);
    assert_true(fake_is_clean());
}

/* The driver reads pinned memory after it has returned: the plugin waits, but for nothing else. */
static void uploads_wait_for_pinned_memory_only(void **state)
{
    (void)state;
    gd_device gpu;
    gd_ctx *ctx = open_only_gpu(cached_context(NULL, cache.path), &gpu);
    gd_scope_begin(ctx);
    for (int pinned = 0; pinned < 2; pinned++) {
        int64_t before = fake.waits;
        fake.pinned = pinned;
        assert_non_null(gd_exp(gd_to_device(VECTOR(ctx, 1, 2), &gpu)));
        assert_int_equal(fake.waits - before, pinned);
    }
    gd_scope_end(ctx);
    close_only_gpu(ctx, &gpu);
}

/* Freed blocks wait for the next who asks, and go back when the driver has nothing left. */
static void freed_memory_is_used_again(void **state)
{
    (void)state;
    gd_device gpu;
    gd_ctx *ctx = open_only_gpu(pooled_context(), &gpu);
    void *a = gpu.backend->alloc(&gpu, 1000), *b;
    int64_t calls = fake.calls, blocks = fake.blocks;
    gpu.backend->free(&gpu, a, 1000);
    assert_ptr_equal(b = gpu.backend->alloc(&gpu, 1020), a);
    gpu.backend->free(&gpu, b, 1020);
    assert_int_equal(fake.calls, calls);
    assert_int_equal(fake.blocks, blocks);
    fake.fail_at = fake.calls + 1; /* the first try of the next */
    assert_non_null(b = gpu.backend->alloc(&gpu, 1 << 20));
    assert_no_error(ctx);
    assert_int_equal(fake.blocks, blocks); /* one went, one came */
    gpu.backend->free(&gpu, b, 1 << 20);
    fake.fail_at = fake.calls + 1;
    fake.fail_on = true;
    assert_null(gpu.backend->alloc(&gpu, 1 << 21));
    assert_error(ctx, GD_NOMEM, "gpu:0: ");
    fake.fail_at = 0;
    fake.fail_on = false;
    close_only_gpu(ctx, &gpu);
}

/* A batch axis that is broadcast inside another one: the fake cuBLAS touches what it is given. */
static void broadcast_batches_are_multiplied_in_place(void **state)
{
    (void)state;
    gd_device gpu;
    gd_ctx *ctx = open_only_gpu(cached_context(NULL, cache.path), &gpu);
    gd_scope_begin(ctx);
    gd_tensor *a = gd_to_device(gd_zeros(ctx, GD_F32, 4, (int64_t[]){5, 1, 2, 3}), &gpu);
    gd_tensor *b = gd_to_device(gd_zeros(ctx, GD_F32, 4, (int64_t[]){5, 7, 3, 4}), &gpu);
    gd_tensor *c = gd_matmul(a, b),
              *d = gd_matmul(gd_flip(b, "0"),
                             gd_to_device(gd_zeros(ctx, GD_F32, 2, (int64_t[]){4, 4}), &gpu));
    assert_no_error(ctx);
    assert_shape(c, 5, 7, 2, 4);
    assert_shape(d, 5, 7, 3, 4);
    gd_scope_end(ctx);
    close_only_gpu(ctx, &gpu);
}

/* y = (q k^T) v of heads that lie side by side, [batch, time, 3, heads, size], into the same order. */
static void multiply_heads(gd_ctx *ctx, gd_device *gpu, int64_t time)
{
    gd_tensor *x = gd_to_device(gd_zeros(ctx, GD_F32, 5, (int64_t[]){2, time, 3, 6, 8}), gpu), *part[3];
    int64_t launches = fake.launches;
    assert_int_equal(gd__split(gd_permute(x, (int[]){2, 0, 3, 1, 4}), 3, part), GD_OK);
    assert_int_equal(fake.launches, launches);
    gd_tensor *scores = gd__product(part[0], gd_transpose(part[1], 2, 3));
    gd_tensor *y = gd__product_into(gd__new_laid_like(gpu, part[0]), scores, part[2]);
    assert_no_error(ctx);
    assert_shape(scores, 2, 6, time, time);
    assert_shape(y, 2, 6, time, 8);
    assert_true(gd__contiguous(gd_permute(y, (int[]){0, 2, 1, 3})));
}

/* No copies, and what is known of addresses is there for the next step. */
static void products_of_heads_copy_nothing(void **state)
{
    (void)state;
    gd_device gpu;
    gd_ctx *ctx = open_only_gpu(pooled_context(), &gpu); /* the same addresses in the second round */
    static const int64_t launches[2] = {5, 0};           /* lists of q, k, scores, v and y */
    for (int round = 0; round < 2; round++) {
        int64_t before = fake.launches, listed = fake.listed;
        gd_scope_begin(ctx);
        multiply_heads(ctx, &gpu, 4);
        gd_scope_end(ctx);
        assert_int_equal(fake.launches - before, launches[round]);
        assert_int_equal(fake.listed - listed, 2);
    }
    /* scores of 25 floats are not at multiples of 16 bytes: copies */
    int64_t before = fake.launches, listed = fake.listed;
    gd_scope_begin(ctx);
    multiply_heads(ctx, &gpu, 5);
    gd_scope_end(ctx);
    assert_int_equal(fake.listed, listed);
    assert_int_equal(fake.launches - before, 4); /* q, k, v and the result */
    close_only_gpu(ctx, &gpu);
}

/* Large products of a gradient go to two streams, which meet at the beginning and at the end; if there is no second one,
 * everything goes to the first. */
static void gradients_of_large_layers_are_made_side_by_side(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        gd_device gpu;
        gd_ctx *ctx = open_only_gpu(cached_context(NULL, cache.path), &gpu);
        gd_scope_begin(ctx);
        for (int round = 0; round < 3; round++) {
            int64_t n = round == 2 ? 64 : 1024, meetings = fake.meetings;
            gd_tensor *g = gd_empty_on(&gpu, GD_F32, 2, (int64_t[]){n, n}), *grad[3];
            assert_int_equal(gd__product(g, g) ? GD_OK : gd_error(ctx), GD_OK); /* opens cuBLAS */
            if (refused && round == 0)
                fake.fail_at = fake.calls + 3 + 1; /* room of the gradients, then a stream */
            assert_int_equal(gd__linear_grad(g, g, g, grad), GD_OK);
            fake.fail_at = 0;
            assert_int_equal(fake.meetings - meetings, refused || round == 2 ? 0 : 2);
            assert_int_equal(fake.streams, refused ? 1 : 2);
        }
        assert_no_error(ctx);
        gd_scope_end(ctx);
        close_only_gpu(ctx, &gpu);
    }
}

/* The new stream waits for the old one, libraries follow, and where any of that fails the old one stays in use. */
static void work_goes_to_the_stream_of_the_caller(void **state)
{
    (void)state;
    gd_device gpu;
    gd_ctx *ctx = open_only_gpu(cached_context(NULL, cache.path), &gpu);
    void *own = gd_device_stream(&gpu), *callers = &fake.callers;
    gd_scope_begin(ctx);
    gd_tensor *g = gd_empty_on(&gpu, GD_F32, 2, (int64_t[]){8, 8});
    assert_non_null(gd__product(g, g)); /* opens cuBLAS */
    assert_non_null(gd_cholesky(g));    /* and cuSOLVER */
    for (int64_t k = 1;; k++) {
        fake.fail_at = fake.calls + k;
        int64_t meetings = fake.meetings;
        gd_status status = gd_device_use_stream(&gpu, callers);
        bool done = fake.calls < fake.fail_at;
        fake.fail_at = 0;
        assert_int_equal(status, done ? GD_OK : gd_error(ctx));
        assert_ptr_equal(gd_device_stream(&gpu), done ? callers : own);
        assert_ptr_equal(fake.blas, gd_device_stream(&gpu));
        assert_ptr_equal(fake.solver, gd_device_stream(&gpu));
        if (done) assert_int_equal(fake.meetings - meetings, 1);
        gd_clear_error(ctx);
        if (done) break;
    }
    int64_t calls = fake.calls, launches = fake.launches;
    assert_int_equal(gd_device_use_stream(&gpu, callers), GD_OK); /* nothing to do */
    assert_int_equal(fake.calls, calls);
    assert_non_null(gd_exp(g));
    assert_true(fake.launches > launches);
    assert_int_equal(fake.on_callers, fake.launches - launches);
    assert_int_equal(gd_device_use_stream(&gpu, own), GD_OK);
    assert_non_null(gd_exp(g));
    assert_int_equal(fake.on_callers, fake.launches - launches - 1);
    assert_int_equal(gd_device_use_stream(&gpu, callers),
                     GD_OK); /* and is in use when the device is closed */
    gd_scope_end(ctx);
    close_only_gpu(ctx, &gpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_goes_to_the_stream_of_the_caller),
        cmocka_unit_test(kernels_are_compiled_once),
        cmocka_unit_test(errors_name_what_is_wrong),
        cmocka_unit_test(graphs_are_made_once_and_updated),
        cmocka_unit_test(two_gpus_do_not_mix),
        cmocka_unit_test(uploads_wait_for_pinned_memory_only),
        cmocka_unit_test(freed_memory_is_used_again),
        cmocka_unit_test(broadcast_batches_are_multiplied_in_place),
        cmocka_unit_test(products_of_heads_copy_nothing),
        cmocka_unit_test(gradients_of_large_layers_are_made_side_by_side),
        cmocka_unit_test(failing_driver_calls_are_errors_and_leak_nothing),
        cmocka_unit_test(failing_allocations_are_errors_and_leak_nothing),
        cmocka_unit_test(a_lost_context_is_an_error_and_the_host_goes_on),
    };
    return cmocka_run_group_tests(tests, make_cache, remove_cache);
}
