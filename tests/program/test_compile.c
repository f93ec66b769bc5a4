/* The run-time compiler: its kernels give the interpreter's bits; whatever is wrong with the compiler, programs are
 * interpreted.  Its cache: test_compile_cache.c. */
#include "optim/step/optimizer.h"
#include "program/compile_support.h"

#include <signal.h>

/* ---- the same bits ---- */

static void compare_with_interpreter(gd_ctx *ctx, const gd_program *p, uint64_t seed)
{
    static const int64_t lengths[] = {0, 1, 7, 15, 16, 17, 1000, 100003};
    gd_kernel_fn kernel[GD_MAX_REDUCTIONS + 1];
    assert_int_equal(gd__program_verify(p), GD_OK);
    for (int level = 0; level <= p->levels; level++) {
        gd_pass pass;
        gd_executor how;
        gd__program_pass(p, level, &pass);
        kernel[level] = gd__kernel_for(ctx, p, &pass, &how);
        if (!kernel[level]) fail_msg("seed %llu: %s", (unsigned long long)seed, gd__kernel_trouble(ctx));
    }
    uint64_t s = seed;
    double input[GD_MAX_UNIFORMS];
    for (int u = 0; u < p->uniforms; u++) input[u] = random_number(&s);
    for (int i = 0; i < COUNT_OF(lengths); i++) {
        tensors a = make_tensors(p, lengths[i], seed), b = make_tensors(p, lengths[i], seed);
        double want[GD_MAX_REDUCTIONS] = {0}, got[GD_MAX_REDUCTIONS] = {0};
        run_program(p, NULL, &a, input, want);
        run_program(p, kernel, &b, input, got);
        bool same = same_tensors(p, &a, &b);
        for (int r = 0; r < p->reductions; r++) same = same && same_number(want[r], got[r]);
        if (!same) fail_msg("seed %llu, %lld elements", (unsigned long long)seed, (long long)lengths[i]);
        free_tensors(&a);
        free_tensors(&b);
    }
}

static void compiled_programs_give_the_bits_of_the_interpreter(void **state)
{
    place *at = *state;
    static const gd_dtype states[] = {GD_F32, GD_BF16, GD_F16, GD_F64};
    gd_ctx *ctx = compiling_context(at, NULL);
    for (int i = 0; i < COUNT_OF(states); i++) {
        make_adamw(at->p, ctx, i == 3 ? GD_F64 : GD_F32, states[i], true);
        compare_with_interpreter(ctx, at->p, (uint64_t)i);
    }
    const char *more = getenv("GD_TEST_PROGRAMS"); /* for a long run */
    int programs = more ? atoi(more) : 10;
    for (int seed = 0; seed < programs; seed++) {
        uint64_t s = (uint64_t)seed;
        make_random(at->p, ctx, &s, 15 + pick(&s, 40));
        compare_with_interpreter(ctx, at->p, (uint64_t)seed);
    }
    end_context(ctx, NULL);
}

/* x^k for many k as instructions, compiled and interpreted, against gd_pow_scalar. */
static void powers_have_the_bits_of_the_operator(void **state)
{
    static const double exponents[] = {0,  1,  2,   3,   4,    5,    8,   13,  32,   -1,   -2,
                                       -3, -7, 0.5, 1.5, -0.5, -1.5, 2.5, 7.5, -6.5, 31.5, -32},
                        special[] = {0, -0.0,  1,      -1,     INFINITY, -INFINITY, NAN,  5e-324, 2, -1.7e308,
                                     3, 1e-38, -1e-38, 1e-160, 1e38,     -1e-310,   0.99, -1.01};
    enum { N = 2000, MANY = COUNT_OF(exponents) };
    place *at = *state;
    gd_ctx *ctx = compiling_context(at, NULL);
    uint64_t seed = 4;
    double x[N];
    for (int i = 0; i < N; i++)
        x[i] = i < COUNT_OF(special) ? special[i] : (i % 2 ? 1 : -1) * exp2(8 * random_unit(&seed) - 4);
    for (int wide = 0; wide < 2; wide++) {
        gd_dtype dtype = wide ? GD_F64 : GD_F32;
        gd_program *p = at->p;
        *p = (gd_program){.ctx = ctx, .compute = dtype};
        int32_t value = add_load(p, add_array(p, dtype));
        for (int k = 0; k < MANY; k++) {
            int32_t to = add_array(p, dtype);
            p->array[to].store = add_op(p, GD_I_scalar_pow, value, add_const(p, exponents[k]), -1);
        }
        gd_kernel_fn kernel[GD_MAX_REDUCTIONS + 1] = {NULL};
        gd_executor how;
        assert_int_equal(gd__program_verify(p), GD_OK);
        gd__program_pass(p, 0, &at->pass);
        kernel[0] = gd__kernel_for(ctx, p, &at->pass, &how);
        if (!kernel[0]) fail_msg("%s", gd__kernel_trouble(ctx));
        gd_scope_begin(ctx);
        gd_tensor *t = gd_from_f64(ctx, dtype, 1, (int64_t[]){N}, x);
        for (int compiled = 0; compiled < 2; compiled++) {
            tensors a = make_tensors(p, N, 1);
            memcpy(a.array[0], gd_data(t), N * gd_dtype_size(dtype));
            run_program(p, compiled ? kernel : NULL, &a, NULL, NULL);
            for (int k = 0; k < MANY; k++) {
                gd_tensor *want = gd_pow_scalar(t, exponents[k]);
                for (int i = 0; i < N; i++)
                    if (!same_number(get_number(a.array[k + 1], dtype, i),
                                     get_number(gd_data(want), dtype, i)))
                        fail_msg("%a to the power of %g, compiled %d", x[i], exponents[k], compiled);
            }
            free_tensors(&a);
        }
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

static void every_instruction_compiles_to_the_bits_of_the_interpreter(void **state)
{
    place *at = *state;
    gd_ctx *ctx = compiling_context(at, NULL);
    for (int type = 0; type < 2; type++) {
        gd_dtype compute = type ? GD_F64 : GD_F32;
        gd_program *p = at->p;
        *p = (gd_program){.ctx = ctx, .compute = compute};
        int32_t x[3];
        for (int k = 0; k < 3; k++) x[k] = add_load(p, add_array(p, compute));
        for (int op = GD_I_neg; op < GD_I_SUM; op++) {
            int n = gd__opcode_operands((unsigned)op);
            int32_t out = p->arrays < GD_MAX_ARRAYS ? add_array(p, compute) : 0;
            p->array[out].store = add_op(p, (gd_opcode)op, x[0], n > 1 ? x[1] : -1, n > 2 ? x[2] : -1);
        }
        compare_with_interpreter(ctx, p, 7);
    }
    end_context(ctx, NULL);
}

static void clang_gives_the_same_bits(void **state)
{
    place *at = *state;
    set_compiler(at, "exec clang \"$@\"");
    if (system("command -v clang > /dev/null 2>&1")) skip();
    gd_ctx *ctx = compiling_context(at, NULL);
    make_adamw(at->p, ctx, GD_F32, GD_BF16, true);
    compare_with_interpreter(ctx, at->p, 1);
    for (uint64_t seed = 100; seed < 103; seed++) {
        uint64_t s = seed;
        make_random(at->p, ctx, &s, 40);
        compare_with_interpreter(ctx, at->p, seed);
    }
    end_context(ctx, NULL);
}

/* ---- compilers that do not work ---- */

/* Interpreted, with a reason, and the compiler is not tried again. */
static void check_trouble(place *at, const char *text, int expected_runs)
{
    gd_ctx *ctx = compiling_context(at, NULL);
    for (int i = 0; i < 3; i++) {
        ask(at, ctx, GD_EXEC_INTERPRETER);
        if (!strstr(gd__kernel_trouble(ctx), text)) fail_msg("trouble is: %s", gd__kernel_trouble(ctx));
    }
    assert_int_equal(runs(at), expected_runs);
    end_context(ctx, NULL);
    unlink(at->log);
}

static void without_a_compiler_programs_are_interpreted(void **state)
{
    place *at = *state;
    char script[128];
    snprintf(script, sizeof script, "%s", at->compiler);
    snprintf(at->compiler, sizeof at->compiler, "/nonexistent/cc");
    check_trouble(at, "not found", 0);
    snprintf(at->compiler, sizeof at->compiler, "no-such-compiler-anywhere");
    check_trouble(at, "not found", 0);
    snprintf(at->compiler, sizeof at->compiler, "%s", at->home); /* a folder */
    check_trouble(at, "not found", 0);
    snprintf(at->compiler, sizeof at->compiler, "/bin/false");
    check_trouble(at, "failed", 0);
    snprintf(at->compiler, sizeof at->compiler, "/bin/true"); /* makes no file */
    check_trouble(at, "cannot read back", 0);
    snprintf(at->compiler, sizeof at->compiler, "%s", script);
    write_file(at->compiler, "neither a program nor a script", 0700);
    check_trouble(at, "", 0);
    set_compiler(at, "exit 3");
    check_trouble(at, "failed", 1);
    set_compiler(at, "kill -SEGV $$");
    check_trouble(at, "failed", 1);
    /* an object that is none; -o is followed by its name */
    set_compiler(at, "while [ \"$1\" != -o ]; do shift; done; echo rubbish > \"$2\"");
    check_trouble(at, "cannot load", 2); /* in the cache, then aside: the folder might be to blame */
    assert_int_equal(count_files(at->cache, "", NULL, 0), 0);
}

/* A source that the compiler cannot do is interpreted; others are compiled. */
static void a_failure_is_one_programs_own(void **state)
{
    place *at = *state;
    char command[400];
    snprintf(command, sizeof command,
             "if [ ! -e '%s/failed' ]; then : > '%s/failed'; exit 3; fi\nexec cc \"$@\"", at->home, at->home);
    set_compiler(at, command);
    gd_ctx *ctx = compiling_context(at, NULL);
    gd_executor how;
    gd_pass pass;
    for (int i = 0; i < 3; i++) {
        ask(at, ctx, GD_EXEC_INTERPRETER);
        make_adamw(at->p, ctx, GD_F64, GD_F64, false);
        gd__program_pass(at->p, 0, &pass);
        assert_true(gd__kernel_for(ctx, at->p, &pass, &how) != NULL);
        assert_int_equal(how, GD_EXEC_COMPILED);
    }
    assert_int_equal(runs(at), 2);
    end_context(ctx, NULL);
}

static void a_compiler_that_is_loose_with_numbers_is_refused(void **state)
{
    place *at = *state;
    set_compiler(at, "exec cc \"$@\" -Ofast -mrecip -fno-trapping-math");
    gd_ctx *ctx = compiling_context(at, NULL);
    gd_executor how;
    make_adamw(at->p, ctx, GD_F32, GD_F32, false);
    gd__program_pass(at->p, 0, &at->pass);
    gd_kernel_fn fn = gd__kernel_for(ctx, at->p, &at->pass, &how);
#ifdef __x86_64__
    assert_true(fn == NULL);
    assert_non_null(strstr(gd__kernel_trouble(ctx), "something else"));
#else
    (void)fn;
#endif
    end_context(ctx, NULL);
}

static void compiling_can_be_switched_off(void **state)
{
    place *at = *state;
    gd_options options = gd_options_default();
    options.isa = "none";
    options.compile = false;
    options.compiler = at->compiler;
    gd_ctx *ctx = gd_ctx_new(&options);
    ask(at, ctx, GD_EXEC_INTERPRETER);
    assert_string_equal(gd__kernel_trouble(ctx), "compiling is switched off");
    end_context(ctx, NULL);
    options.compile = true;
    options.compiler = NULL;
    setenv("GRADUS_CC", "", 1);
    ctx = gd_ctx_new(&options);
    ask(at, ctx, GD_EXEC_INTERPRETER);
    end_context(ctx, NULL);
    setenv("GRADUS_CC", at->compiler, 1);
    ctx = gd_ctx_new(&options);
    assert_string_equal(gd__kernel_trouble(ctx), "");
    ctx->compile = true;
    options.cache_dir = at->cache;
    end_context(ctx, NULL);
    ctx = gd_ctx_new(&options);
    ask(at, ctx, GD_EXEC_COMPILED);
    end_context(ctx, NULL);
    unsetenv("GRADUS_CC");
    assert_int_equal(runs(at), 1);
}

static void a_program_that_ignores_its_children_can_compile(void **state)
{
    place *at = *state;
    signal(SIGCHLD, SIG_IGN);
    ask_anew(at, GD_EXEC_COMPILED);
    set_compiler(at, "exit 1");
    ask_anew(at, GD_EXEC_INTERPRETER);
    signal(SIGCHLD, SIG_DFL);
}

/* ---- built in ---- */

static gd_status check_builtin(void *user, const gd_program *p, const gd_pass *pass)
{
    gd_executor how;
    gd_kernel_fn fn = gd__kernel_for(p->ctx, p, pass, &how);
    if (!fn || how != GD_EXEC_BUILT_IN) fail_msg("not built in: %s", (const char *)user);
    return GD_OK;
}

static void chains_of_the_list_are_built_in(void **state)
{
    (void)state;
    static const char *const isas[] = {"base", "avx2", "avx512"};
    for (int k = 0; k < COUNT_OF(isas); k++) {
        gd_options options = gd_options_default();
        options.isa = isas[k];
        options.compile = false;
        gd_ctx *ctx = gd_ctx_new(&options);
        FILE *file = fopen(GD_TEST_DIR "/../src/optim/plan/builtin.def", "r");
        assert_non_null(file);
        char line[1024];
        while (fgets(line, sizeof line, file)) {
            line[strcspn(line, "\n")] = 0;
            char *chain = strchr(line, ' ');
            if (!chain || *line == '#') continue;
            if (strstr(line, "f32")) (void)gd__plan_programs(ctx, chain, GD_F32, check_builtin, line);
            if (strstr(line, "f64")) (void)gd__plan_programs(ctx, chain, GD_F64, check_builtin, line);
            assert_no_error(ctx);
        }
        fclose(file);
        end_context(ctx, NULL);
    }
}

/* ---- memory ---- */

static void every_allocation_may_fail(void **state)
{
    place *at = *state;
    ask_anew(at, GD_EXEC_COMPILED);
    for (int64_t k = 1;; k++) {
        memory m = {0};
        gd_ctx *ctx = compiling_context(at, &m);
        gd_executor how;
        make_adamw(at->p, ctx, GD_F32, GD_F32, false);
        gd__program_pass(at->p, 0, &at->pass);
        m.fail_at = m.requests + k;
        gd_kernel_fn fn = gd__kernel_for(ctx, at->p, &at->pass, &how);
        assert_no_error(ctx);
        assert_true((fn != NULL) == (how == GD_EXEC_COMPILED));
        bool failed = m.failed;
        m.fail_at = 0;
        assert_true(failed == (fn == NULL));
        ask(at, ctx, GD_EXEC_COMPILED); /* with memory, it works */
        end_context(ctx, &m);
        if (!failed) break;
        assert_true(k < 100);
    }
    assert_int_equal(runs(at), 1);
}

static void an_error_from_before_stays(void **state)
{
    place *at = *state;
    memory m = {0};
    gd_ctx *ctx = compiling_context(at, &m);
    gd_executor how;
    make_adamw(at->p, ctx, GD_F32, GD_F32, false);
    gd__program_pass(at->p, 0, &at->pass);
    (void)gd_fail(ctx, GD_SHAPE, "earlier");
    m.fail_at = m.requests + 1;
    assert_true(gd__kernel_for(ctx, at->p, &at->pass, &how) == NULL);
    assert_error(ctx, GD_SHAPE, "earlier");
    end_context(ctx, &m);
}

int main(void)
{
    unsetenv("GRADUS_CC");
    unsetenv("GRADUS_CACHE");
    unsetenv("XDG_CACHE_HOME");
    const struct CMUnitTest tests[] = {
        TEST(compiled_programs_give_the_bits_of_the_interpreter),
        TEST(powers_have_the_bits_of_the_operator),
        TEST(every_instruction_compiles_to_the_bits_of_the_interpreter),
        TEST(clang_gives_the_same_bits),
        TEST(without_a_compiler_programs_are_interpreted),
        TEST(a_failure_is_one_programs_own),
        TEST(a_compiler_that_is_loose_with_numbers_is_refused),
        TEST(compiling_can_be_switched_off),
        TEST(a_program_that_ignores_its_children_can_compile),
        TEST(chains_of_the_list_are_built_in),
        TEST(every_allocation_may_fail),
        TEST(an_error_from_before_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
