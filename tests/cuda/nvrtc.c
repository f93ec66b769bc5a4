/* The CUDA plugin without a GPU: every kernel and every built-in chain goes through NVRTC, and everything the plugin does
 * with the driver goes to one that only pretends (fake_driver.h), which can fail at any call. */
#include "support/op_cases.h"

#include "cuda/fake_driver.h"

#include <time.h>
#include <unistd.h>

#include "base/kernel_cache.h"
#include "optim/optimizer.h"
#include "optim/program.h"
#include "tensor/linalg.h"
#include "tensor/shape.h"

#define ARCHITECTURE "sm_90"      /* through the assembler */
#define VIRTUAL      "compute_90" /* without: three times as fast */

/* ---- NVRTC ---- */

static cuda_api real; /* only NVRTC is there on a machine without a driver */
static char cache[GD_PATH];

static int open_nvrtc(void **state)
{
    (void)state;
    char why[256];
    /* without a driver NVRTC alone serves */
    if (!cuda_api_open(&real, why, sizeof why) && !cuda_api_library(&real, 'N', why, sizeof why))
        print_message("%s\n", why);
    if (!real.nvrtcCompileProgram) print_message("libnvrtc is not there: nothing is compiled\n");
    return gd__cache_private(cache) ? 0 : -1;
}

static int close_nvrtc(void **state)
{
    (void)state;
    gd__cache_remove_private(cache);
    cuda_api_close(&real);
    return 0;
}

static void need_nvrtc(void)
{
    if (!real.nvrtcCompileProgram) skip();
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Compiles, to a cubin where the architecture is a real one; false with the compiler's words printed. */
static bool compiles(const char *what, const char *source, const char *architecture)
{
    char option[64], log[4000] = "";
    snprintf(option, sizeof option, "--gpu-architecture=%s", architecture);
    if (!strcmp(architecture, ARCHITECTURE)) {
        size_t size = 0;
        char *cubin = cuda_compile(&real, source, architecture, &size, log, sizeof log);
        bool elf = cubin && size > 64 && !memcmp(cubin, "\177ELF", 4);
        if (!elf) print_error("%s: %s\n", what, log);
        free(cubin);
        return elf;
    }
    nvrtcProgram program = NULL;
    const char *const options[] = {option, "-std=c++17", "--fmad=false", "-default-device"};
    assert_int_equal(real.nvrtcCreateProgram(&program, source, "gradus.cu", 0, NULL, NULL), NVRTC_SUCCESS);
    nvrtcResult result = real.nvrtcCompileProgram(program, 4, options);
    size_t length = 0;
    if (result && !real.nvrtcGetProgramLogSize(program, &length) && length < sizeof log)
        (void)real.nvrtcGetProgramLog(program, log);
    if (result) print_error("%s: %s\n", what, log);
    (void)real.nvrtcDestroyProgram(&program);
    return result == NVRTC_SUCCESS;
}

/* ---- kernels of operators ---- */

static bool is_map(int op) { return gd__ops[op].kind == GD_KIND_MAP || gd__ops[op].kind == GD_KIND_TEST; }

static size_t map_source(int op, gd_dtype dtype, char *text)
{
    bool test = gd__ops[op].kind == GD_KIND_TEST;
    gd_dtype first = op == GD_OP_where ? GD_BOOL : dtype;
    return cuda_map_source((gd_op_id)op, gd__ops[op].inputs, first, dtype, test ? GD_BOOL : dtype, text,
                           CUDA_SOURCE_SIZE);
}

static void every_element_wise_operator_has_an_expression(void **state)
{
    (void)state;
    char source[CUDA_SOURCE_SIZE];
    int missing = 0;
    for (int op = 0; op < GD_OP_COUNT; op++) {
        if (!is_map(op) || map_source(op, GD_F32, source)) continue;
        print_error("operator '%s' has no expression in backends/cuda/map.c\n", gd__ops[op].name);
        missing++;
    }
    assert_int_equal(missing, 0);
}

static void element_wise_kernels_assemble(void **state)
{
    (void)state;
    need_nvrtc();
    char source[CUDA_SOURCE_SIZE];
    int failures = 0, count = 0;
    for (int op = 0; op < GD_OP_COUNT; op++) {
        if (!is_map(op)) continue;
        assert_true(map_source(op, GD_F32, source) > 0);
        failures += !compiles(gd__ops[op].name, source, ARCHITECTURE);
        count++;
    }
    print_message("%d kernels\n", count);
    assert_int_equal(failures, 0);
}

/* One kernel of each family is enough: it is compiled with the others of its family. */
static void full_kernels_compile_for_every_dtype(void **state)
{
    (void)state;
    need_nvrtc();
    static const char *const names[] = {
#define NAME(name, family) #name,
        CUDA_FULL_KERNELS(NAME)
#undef NAME
    };
    static const char *const families[] = {
#define FAMILY(name, family) #family,
        CUDA_FULL_KERNELS(FAMILY)
#undef FAMILY
    };
    char source[CUDA_SOURCE_SIZE], what[80];
    int failures = 0, count = 0;
    for (int k = 0; k < CUDA_FULL_COUNT; k++) {
        if (k && !strcmp(families[k], families[k - 1])) continue;
        for (gd_dtype d = 0; d < GD_DTYPE_COUNT; d++)
            for (gd_dtype from = 0; from < GD_DTYPE_COUNT; from++) {
                if (k != CUDA_FULL_copy_strided && from != d) continue;
                snprintf(what, sizeof what, "%s from %s to %s", names[k], gd_dtype_name(from),
                         gd_dtype_name(d));
                assert_true(cuda_full_source((cuda_full_kernel)k, d, from, source, sizeof source) > 0);
                bool whole = from == d && (d == GD_F32 || d == GD_I64);
                failures += !compiles(what, source, whole ? ARCHITECTURE : VIRTUAL);
                count++;
            }
    }
    print_message("%d sources\n", count);
    assert_int_equal(failures, 0);
}

/* ---- fused programs ---- */

typedef struct emitted {
    uint64_t seen[4096];
    int count, chains, failures;
    const char *chain;
} emitted;

/* Settings of their own change only where scalars come from: some of those are enough. */

static gd_status compile_pass(void *user, const gd_program *p, const gd_pass *pass)
{
    emitted *all = user;
    for (int common = 1; common >= (all->chains % 4 != 0); common--) {
        gd_text text = {.ctx = p->ctx}, hash = {.hash_only = true};
        gd__emit_cuda(p, pass, "rule_pass", common, &hash);
        bool seen = false;
        for (int i = 0; i < all->count && !seen; i++) seen = all->seen[i] == hash.hash;
        if (seen) continue;
        assert_true(all->count < COUNT_OF(all->seen));
        all->seen[all->count++] = hash.hash;
        gd__emit_cuda_prelude(&text);
        gd__emit_cuda(p, pass, "rule_pass", common, &text);
        assert_false(text.failed);
        all->failures += !compiles(all->chain, text.data,
                                   common && p->compute == GD_F32 ? ARCHITECTURE : VIRTUAL);
        gd__text_free(&text);
    }
    return GD_OK;
}

/* The lines of src/optim/builtin.def, and the same chains for halves. */
static void built_in_chains_compile(void **state)
{
    (void)state;
    need_nvrtc();
    gd_ctx *ctx = context(NULL, 1, NULL);
    emitted *all = calloc(1, sizeof *all);
    FILE *list = fopen(GD_TEST_DIR "/../src/optim/builtin.def", "r");
    assert_true(all && list);
    char line[1000];
    while (fgets(line, sizeof line, list)) {
        line[strcspn(line, "\n")] = 0;
        if (!*line || *line == '#') continue;
        size_t dtypes = strcspn(line, " \t");
        all->chain = line + dtypes + strspn(line + dtypes, " \t");
        line[dtypes] = 0;
        for (char *word = strtok(line, ","); word; word = strtok(NULL, ","))
            assert_int_equal(gd__plan_programs(ctx, all->chain, gd_dtype_from_name(word), compile_pass, all),
                             GD_OK);
        gd_dtype half = all->chains % 8 ? GD_BF16 : GD_F16;
        if (all->chains++ % 4 == 0)
            assert_int_equal(gd__plan_programs(ctx, all->chain, half, compile_pass, all), GD_OK);
    }
    fclose(list);
    gd_text joins = {.ctx = ctx};
    gd__emit_cuda_joins(&joins);
    all->failures += !compiles("joins", joins.data, ARCHITECTURE);
    gd__text_free(&joins);
    print_message("%d chains, %d kernels\n", all->chains, all->count);
    int failures = all->failures;
    free(all);
    end_context(ctx, NULL);
    assert_int_equal(failures, 0);
}

/* ---- a device on the pretending driver ---- */

static const gd_host host = {
    .layout = GD_PLUGIN_LAYOUT, .fail = gd_fail, .alloc = gd__alloc, .free = gd__free, .ops = gd__ops};

static gd_ctx *cached_context(memory *m, const char *folder)
{
    gd_options options = gd_options_default();
    options.threads = 1;
    options.cache_dir = folder;
    if (m) {
        options.allocator = memory_allocator(m);
        options.pool = false;
    }
    return gd_ctx_new(&options);
}

/* As gd_plugin_open does, but for the libraries. */
static gd_status open_fake(gd_ctx *ctx, gd_device *device, int index, const cuda_api *api)
{
    *device = (gd_device){.ctx = ctx, .index = index, .host = &host};
    snprintf(device->name, sizeof device->name, "gpu:%d", index);
    cuda_state *s = gd__calloc(ctx, sizeof *s);
    if (!s) return GD_NOMEM;
    s->api = *api;
    device->state = s;
    return cuda_open(device);
}

static void close_fake(gd_device *device)
{
    if (device->backend) device->backend->close(device);
    device->backend = NULL;
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

/* On the device with the axes in the same order in memory: views on the CPU become views there. */
static gd_tensor *moved(gd_tensor *t, gd_device *gpu)
{
    int n = gd_ndim(t), order[GD_MAX_DIMS], back[GD_MAX_DIMS];
    const int64_t *stride = gd_strides(t);
    for (int i = 0; i < n; i++) order[i] = i;
    for (int i = 1; i < n; i++) /* largest stride first */
        for (int j = i; j > 0; j--) {
            int64_t a = stride[order[j]], b = stride[order[j - 1]];
            if ((a < 0 ? -a : a) <= (b < 0 ? -b : b)) break;
            int swap = order[j];
            order[j] = order[j - 1];
            order[j - 1] = swap;
        }
    for (int i = 0; i < n; i++) back[order[i]] = i;
    return gd_permute(gd_to_device(gd_contiguous(gd_permute(t, order)), gpu), back);
}

/* The operator with its gradient; false with the error recorded. */
static bool run_case(gd_ctx *ctx, const case_inputs *in, gd_device *gpu, bool gradient)
{
    gd_tensor *there[MAX_OPERANDS] = {NULL};
    const op_case *c = in->c;
    bool wanted = gradient && c->order > 0;
    for (int k = 0; k < c->operands; k++) {
        there[k] = moved(in->leaf[k], gpu);
        if (there[k] && wanted && gd_dtype_is_float(gd_tensor_dtype(there[k])))
            there[k] = gd_require_grad(gd_detach(there[k]));
    }
    gd_tensor *out = case_apply(in, ctx, there);
    if (out && wanted && gd_requires_grad(out)) {
        gd_tensor *loss = gd_sum(gd_drop_names(out), NULL, false);
        if (loss) (void)!gd_backward(loss, NULL, 0);
        for (int k = 0; k < c->operands; k++) gd_zero_grad(there[k]);
    }
    return out && !gd_error(ctx);
}

/* ---- every operator, its kernels compiled ---- */

static int64_t ran[GD_OP_COUNT];
static int compile_failures, compiled;

static nvrtcResult compile_quickly(nvrtcProgram program, int count, const char *const *option)
{
    const char *other[8];
    assert_true(count <= 8);
    for (int i = 0; i < count; i++) other[i] = i ? option[i] : "--gpu-architecture=" VIRTUAL;
    nvrtcResult result = real.nvrtcCompileProgram(program, count, other);
    compiled++;
    compile_failures += result != NVRTC_SUCCESS;
    return result;
}

static gd_status counting_run(gd_device *device, const gd_call *call)
{
    ran[call->op]++;
    return is_map((int)call->op) ? cuda_map(device, call) : cuda_full(device, call);
}

/* f32 has been through the assembler, i32 differs from i64 by loads and stores only: those that are seldom used are
 * sampled. */
static bool sampled(int k, gd_dtype dtype)
{
    switch (dtype) {
    case GD_F32:
    case GD_F64:
    case GD_I64: return true;
    case GD_BF16: return k % 2 == 0;
    default: return k % 4 == 0;
    }
}

static void sources_without_operands(gd_ctx *ctx, gd_device *gpu)
{
    for (gd_dtype d = 0; d < GD_DTYPE_COUNT; d++) {
        gd_scope_begin(ctx);
        gd_tensor *t = gd__new(gpu, d, 1, (int64_t[]){5});
        assert_int_equal(gd_fill(t, 1), GD_OK);
        gd_attrs attrs = {.ni = 3, .i = {1, 2, 3}};
        if (gd_dtype_is_float(d)) assert_int_equal(gd__execute(GD_OP_random, NULL, 0, &attrs, &t, 1), GD_OK);
        gd_scope_end(ctx);
    }
}

static void every_operator_runs_and_compiles(void **state)
{
    (void)state;
    cuda_api api;
    char fresh[GD_PATH]; /* where nothing is that the pretended compiler made */
    assert_true(gd__cache_private(fresh));
    fake_fill(&api);
    if (real.nvrtcCompileProgram) {
        api.nvrtcCreateProgram = real.nvrtcCreateProgram;
        api.nvrtcDestroyProgram = real.nvrtcDestroyProgram;
        api.nvrtcGetProgramLog = real.nvrtcGetProgramLog;
        api.nvrtcGetProgramLogSize = real.nvrtcGetProgramLogSize;
        api.nvrtcGetErrorString = real.nvrtcGetErrorString;
        api.nvrtcCompileProgram = compile_quickly;
    }
    fake_reset(1);
    gd_ctx *ctx = cached_context(NULL, fresh);
    gd_device gpu;
    assert_int_equal(open_fake(ctx, &gpu, 0, &api), GD_OK);
    gd_backend watched = *gpu.backend;
    watched.run = counting_run;
    gpu.backend = &watched;
    int failures = 0;
    double start = seconds();
    for (int k = 0; k < op_case_count(); k++) {
        const op_case *c = op_case_at(k);
        for (gd_dtype d = 0; d < GD_DTYPE_COUNT && c->operands; d++) {
            if (!(c->dtypes >> d & 1) || !sampled(k, d)) continue;
            for (layout l = 0; l < LAYOUTS; l++) {
                if (!case_has_layout(c, l)) continue;
                case_inputs in;
                gd_scope_begin(ctx);
                assert_true(case_build(&in, ctx, c, l, d, 7, false, false));
                if (!run_case(ctx, &in, &gpu, d == GD_F64)) {
                    print_error("%s, %s, %s: %s\n", c->name, layout_names[l], gd_dtype_name(d),
                                gd_error_text(ctx));
                    failures++;
                }
                gd_clear_error(ctx);
                case_free(&in);
                gd_scope_end(ctx);
            }
        }
    }
    sources_without_operands(ctx, &gpu);
    for (int op = 0; op < GD_OP_COUNT; op++) {
        bool wanted = gd__ops[op].kind != GD_KIND_VIEW && op != GD_OP_to_device;
        if (!wanted || ran[op]) continue;
        print_error("operator '%s' has not run on the plugin\n", gd__ops[op].name);
        failures++;
    }
    print_message("%d kernels compiled in %.1f s, %lld launches\n", compiled, seconds() - start,
                  (long long)fake.launches);
    assert_int_equal(fake.out_of_context, 0);
    close_fake(&gpu);
    end_context(ctx, NULL);
    gd__cache_remove_private(fresh);
    assert_true(fake_is_clean());
    assert_int_equal(failures + compile_failures, 0);
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
    gd_ctx *ctx = cached_context(&m, cache);
    assert_non_null(ctx);
    gd_scope_begin(ctx);
    assert_true(case_build(&in, ctx, c, CONTIGUOUS, GD_F64, 7, false, true));
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
        bool said = !strstr(text, "CUDA error 700") || strstr(text, "what is on the CPU is not");
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
        gd_ctx *ctx = cached_context(NULL, cache);
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
    gd_ctx *ctx = open_only_gpu(cached_context(NULL, cache), &gpu);
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
    gd_ctx *ctx = cached_context(NULL, cache);
    for (int i = 0; i < 2; i++) assert_int_equal(open_fake(ctx, &gpu[i], i, &api), GD_OK);
    gd_scope_begin(ctx);
    gd_tensor *x[2];
    for (int i = 0; i < 2; i++) x[i] = gd_to_device(VECTOR(ctx, 1, 2, 3), &gpu[i]);
    for (int i = 0; i < 6; i++) x[i % 2] = gd_sum(gd_exp(x[i % 2]), NULL, true);
    assert_no_error(ctx);
    assert_null(gd_add(x[0], x[1]));
    assert_error(ctx, GD_DEVICE, "add: one operand is on gpu:1, another on gpu:0");
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
    gd_ctx *ctx = open_only_gpu(cached_context(NULL, cache), &gpu);
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
    gd_ctx *ctx = open_only_gpu(cached_context(NULL, cache), &gpu);
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
    assert_int_equal(gd__split3(gd_permute(x, (int[]){2, 0, 3, 1, 4}), part), GD_OK);
    assert_int_equal(fake.launches, launches);
    gd_tensor *scores = gd__product(part[0], gd_transpose(part[1], 2, 3));
    gd_tensor *y = gd__product_into(gd__new_laid_like(gpu, part[0]), scores, part[2], GD_PRODUCT_WHOLE);
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
        gd_ctx *ctx = open_only_gpu(cached_context(NULL, cache), &gpu);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_wise_operator_has_an_expression),
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
        cmocka_unit_test(element_wise_kernels_assemble),
        cmocka_unit_test(full_kernels_compile_for_every_dtype),
        cmocka_unit_test(built_in_chains_compile),
        cmocka_unit_test(every_operator_runs_and_compiles),
    };
    return cmocka_run_group_tests(tests, open_nvrtc, close_nvrtc);
}
