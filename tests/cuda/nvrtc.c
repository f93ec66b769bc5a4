/* The CUDA plugin without a GPU: every kernel and every built-in chain goes through NVRTC. */
#include "cuda/pretended.h"

#include <time.h>
#include <unistd.h>

#include "base/kernel_cache.h"
#include "dialect.h"
#include "optim/step/optimizer.h"
#include "program/axes_property.h"
#include "tensor/linalg.h"
#include "tensor/shape.h"

#define ARCHITECTURE "sm_90"      /* through the assembler */
#define VIRTUAL      "compute_90" /* without: three times as fast */

/* ---- NVRTC ---- */

static cuda_api real; /* only NVRTC is there on a machine without a driver */
static gd_cache cache;

static int open_nvrtc(void **state)
{
    (void)state;
    char why[256];
    /* without a driver NVRTC alone serves */
    if (!cuda_api_open(&real, why, sizeof why) && !cuda_api_library(&real, 'N', why, sizeof why))
        print_message("%s\n", why);
    if (!real.nvrtcCompileProgram) print_message("libnvrtc is not there: nothing is compiled\n");
    return gd__cache_open_passing(&cache) ? 0 : -1;
}

static int close_nvrtc(void **state)
{
    (void)state;
    gd__cache_close(&cache);
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

/* Operators that are not element-wise and have no kernel. */
static bool is_left_to_the_host(int op)
{
    switch (op) {
    case GD_OP_argsort:
    case GD_OP_highest:
    case GD_OP_lowest:
    case GD_OP_sum_squares:
    case GD_OP_slope:
    case GD_OP_softmax_times:
    case GD_OP_log_softmax_grad:
    case GD_OP_conv2d:
    case GD_OP_conv2d_image:
    case GD_OP_conv2d_weight:
    case GD_OP_max_pool2d:
    case GD_OP_max_pool2d_grad:
    case GD_OP_avg_pool2d:
    case GD_OP_avg_pool2d_grad: return true;
    default: return false;
    }
}

static void an_element_wise_operator_without_an_expression_is_left_to_the_host(void **state)
{
    (void)state;
    char source[CUDA_SOURCE_SIZE];
    int here = 0;
    for (int op = 0; op < GD_OP_COUNT; op++) {
        bool written = !is_map(op) || map_source(op, GD_F32, source);
        if (!written)
            print_message("operator '%s' has no expression in backends/cuda/map.c\n", gd__ops[op].name);
        assert_int_equal(cuda_has((gd_op_id)op), written && !is_left_to_the_host(op));
        here += is_map(op) && written;
    }
    assert_true(here >= 61);
}

static void element_wise_kernels_assemble(void **state)
{
    (void)state;
    need_nvrtc();
    char source[CUDA_SOURCE_SIZE];
    int failures = 0, count = 0;
    for (int op = 0; op < GD_OP_COUNT; op++) {
        if (!is_map(op) || !cuda_has((gd_op_id)op)) continue;
        for (int whole = 0; whole <= (gd__ops[op].takes & GD_TAKES_INTS); whole++) {
            assert_true(map_source(op, whole ? GD_I64 : GD_F32, source) > 0);
            failures += !compiles(gd__ops[op].name, source, ARCHITECTURE);
            count++;
        }
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

/* Settings and step counts of their own change only where scalars come from: some of those are enough. */

static gd_status compile_pass(void *user, const gd_program *p, const gd_pass *pass)
{
    emitted *all = user;
    for (int common = GD_COMMON_ALL; common >= (all->chains % 4 ? 1 : 0); common -= GD_COMMON_ALL) {
        gd_text text = {.ctx = p->ctx}, hash = {.hash_only = true};
        gd__emit_table(p, pass, &cuda_dialect, "rule_pass", common, &hash);
        bool seen = false;
        for (int i = 0; i < all->count && !seen; i++) seen = all->seen[i] == hash.hash;
        if (seen) continue;
        assert_true(all->count < COUNT_OF(all->seen));
        all->seen[all->count++] = hash.hash;
        gd__emit_table(p, pass, &cuda_dialect, "rule_pass", common, &text);
        assert_false(text.failed);
        all->failures += !compiles(all->chain, text.data,
                                   common == GD_COMMON_ALL && p->compute == GD_F32 ? ARCHITECTURE : VIRTUAL);
        gd__text_free(&text);
    }
    return GD_OK;
}

/* The lines of src/optim/plan/builtin.def, the same chains for halves, and some programs with axes. */
static void built_in_chains_compile(void **state)
{
    (void)state;
    need_nvrtc();
    gd_ctx *ctx = context(NULL, 1, NULL);
    emitted *all = calloc(1, sizeof *all);
    FILE *list = fopen(GD_TEST_DIR "/../src/optim/plan/builtin.def", "r");
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
    uint64_t random = 3;
    all->chain = "a program with axes";
    for (int k = 0; k < 6; k++) {
        axes_case *a = random_axes_case(ctx, &random, k % 2);
        for (int i = 0; i < gd__program_passes(a->p); i++) {
            gd_pass pass;
            gd__program_pass(a->p, i, &pass);
            assert_int_equal(compile_pass(all, a->p, &pass), GD_OK);
        }
        free(a->p);
        free(a);
    }
    gd_text joins = {.ctx = ctx};
    gd__emit_joins(&cuda_dialect, &joins);
    all->failures += !compiles("joins", joins.data, ARCHITECTURE);
    gd__text_free(&joins);
    print_message("%d chains, %d kernels\n", all->chains, all->count);
    int failures = all->failures;
    free(all);
    end_context(ctx, NULL);
    assert_int_equal(failures, 0);
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
static bool sampled(int k, gd_dtype dtype, uint32_t dtypes)
{
    if (dtype == GD_I64 && !(dtypes >> GD_F32 & 1)) return true; /* of whole numbers alone */
    switch (dtype) {
    case GD_F32: return true;
    case GD_F64:
    case GD_I64:
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
    gd_cache fresh; /* where nothing is that the pretended compiler made */
    assert_true(gd__cache_open_passing(&fresh));
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
    gd_ctx *ctx = cached_context(NULL, fresh.path);
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
            if (!(c->dtypes >> d & 1) || !sampled(k, d, c->dtypes)) continue;
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
        bool wanted = gd__ops[op].kind != GD_KIND_VIEW && op != GD_OP_to_device && cuda_has((gd_op_id)op);
        if (!wanted || ran[op]) continue;
        print_error("operator '%s' has not run on the plugin\n", gd__ops[op].name);
        failures++;
    }
    print_message("%d kernels compiled in %.1f s, %lld launches\n", compiled, seconds() - start,
                  (long long)fake.launches);
    assert_int_equal(fake.out_of_context, 0);
    close_fake(&gpu);
    end_context(ctx, NULL);
    gd__cache_close(&fresh);
    assert_true(fake_is_clean());
    assert_int_equal(failures + compile_failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_element_wise_operator_without_an_expression_is_left_to_the_host),
        cmocka_unit_test(element_wise_kernels_assemble),
        cmocka_unit_test(full_kernels_compile_for_every_dtype),
        cmocka_unit_test(built_in_chains_compile),
        cmocka_unit_test(every_operator_runs_and_compiles),
    };
    return cmocka_run_group_tests(tests, open_nvrtc, close_nvrtc);
}
