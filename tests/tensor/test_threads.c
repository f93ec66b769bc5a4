/* The same bits with 1, 2 and 4 threads, from run to run, and with every instruction set, for every
 * operator case and its gradients, on operands large enough to be cut into pieces. */
#include "support/op_cases.h"
#include "tensor/cpu/cpu.h"

#include <inttypes.h>
#include <pthread.h>

/* The bytes of a result and of the gradients of its operands. */
typedef struct outcome {
    size_t count;
    unsigned char *byte[MAX_OPERANDS + 1];
    size_t bytes[MAX_OPERANDS + 1];
} outcome;

static void take(outcome *o, gd_tensor *t)
{
    size_t bytes = (size_t)gd_numel(t) * gd_dtype_size(gd_tensor_dtype(t));
    o->byte[o->count] = malloc(bytes + 1);
    assert_non_null(o->byte[o->count]);
    assert_int_equal(gd_read(t, o->byte[o->count], bytes), GD_OK);
    o->bytes[o->count++] = bytes;
}

static void outcome_free(outcome *o)
{
    for (size_t i = 0; i < o->count; i++) free(o->byte[i]);
}

static outcome run_case(gd_ctx *ctx, const case_inputs *original)
{
    const op_case *c = original->c;
    case_inputs inputs;
    outcome o = {0};
    gd_scope_begin(ctx);
    assert_true(case_clone(&inputs, ctx, original));
    gd_tensor *want[MAX_OPERANDS], *grad[MAX_OPERANDS];
    int count = 0;
    for (int k = 0; k < c->operands && c->order; k++)
        if (gd_dtype_is_float(gd_tensor_dtype(inputs.leaf[k])))
            want[count++] = gd_require_grad(inputs.leaf[k]);
    gd_tensor *y = case_apply(&inputs, ctx, inputs.leaf);
    assert_no_error(ctx);
    take(&o, y);
    if (count) {
        if (gd_grad(y, gd_detach(y), want, count, 0, grad)) fail_msg("%s: %s", c->name, gd_error_text(ctx));
        for (int k = 0; k < count; k++) take(&o, grad[k]);
    }
    gd_scope_end(ctx);
    return o;
}

static void assert_same(const op_case *c, layout l, const outcome *a, const outcome *b, const char *what)
{
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++)
        if (a->bytes[i] != b->bytes[i] || memcmp(a->byte[i], b->byte[i], a->bytes[i]) != 0)
            fail_msg("%s, %s: %s differs with %s", c->name, layout_names[l], i ? "a gradient" : "the result",
                     what);
}

/* Sanitizers make everything ten times slower: they see only the variants that matter to them. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define QUICK true
#else
#define QUICK false
#endif
/* ThreadSanitizer, slower still: who writes where depends neither on the layout of operands nor on the instruction set. */
#ifdef __SANITIZE_THREAD__
#define ONLY_THREADS true
#define LAST_LAYOUT  CONTIGUOUS
#else
#define ONLY_THREADS false
#define LAST_LAYOUT  BROADCAST
#endif

/* Contexts to compare with the first. */
static const struct {
    const char *what;
    int threads;
    const char *isa;
    bool always; /* not only for contiguous f32 and f64 operands */
} variants[] = {
    {"1 thread", 1, NULL, true},     {"2 threads", 2, NULL, false}, {"4 threads", 4, NULL, true},
    {"another run", 4, NULL, false}, {"AVX2", 2, "avx2", false},    {"AVX-512", 1, "avx512", false},
    {"no AVX", 2, "base", true},
};

static void compare_variants(gd_dtype dtype, layout first, layout last)
{
    gd_ctx *ctx[COUNT_OF(variants)];
    for (int v = 0; v < COUNT_OF(variants); v++) ctx[v] = context(NULL, variants[v].threads, variants[v].isa);
    for (int k = 0; k < op_case_count(); k += test_share()) {
        const op_case *c = op_case_at(k);
        for (layout l = first; l <= last; l++) {
            if (!case_has_layout(c, l) || !(c->dtypes >> dtype & 1)) continue;
            case_inputs inputs;
            gd_scope_begin(ctx[0]);
            assert_true(case_build(&inputs, ctx[0], c, l, dtype, 1, true, false));
            outcome reference = run_case(ctx[0], &inputs);
            for (int v = 1; v < COUNT_OF(variants); v++) {
                if ((QUICK || l != CONTIGUOUS || dtype == GD_F16) && !variants[v].always) continue;
                if (ONLY_THREADS && variants[v].isa) continue;
                outcome o = run_case(ctx[v], &inputs);
                assert_same(c, l, &reference, &o, variants[v].what);
                outcome_free(&o);
            }
            outcome_free(&reference);
            gd_scope_end(ctx[0]);
        }
    }
    for (int v = 0; v < COUNT_OF(variants); v++) end_context(ctx[v], NULL);
}

static void f64_results_have_the_same_bits(void **state)
{
    (void)state, compare_variants(GD_F64, CONTIGUOUS, LAST_LAYOUT);
}
static void f32_results_have_the_same_bits(void **state)
{
    (void)state, compare_variants(GD_F32, CONTIGUOUS, CONTIGUOUS);
}
static void f16_results_have_the_same_bits(void **state)
{
    (void)state, compare_variants(GD_F16, CONTIGUOUS, CONTIGUOUS);
}
static void i32_results_have_the_same_bits(void **state)
{
    (void)state, compare_variants(GD_I32, STRIDED, STRIDED);
}

/* The large shapes are meant to be cut: most cases hand work to the pool. */
static void large_cases_use_several_threads(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 4, NULL);
    int large = 0, cases = 0;
    for (int k = 0; k < op_case_count(); k++) {
        const op_case *c = op_case_at(k);
        if (!c->operands) continue;
        case_inputs inputs;
        int64_t elements = 0;
        gd_scope_begin(ctx);
        assert_true(case_build(&inputs, ctx, c, CONTIGUOUS, case_dtype(c), 1, true, false));
        for (int i = 0; i < c->operands; i++) elements += gd_numel(inputs.leaf[i]);
        gd_tensor *y = case_apply(&inputs, ctx, inputs.leaf);
        elements += gd_numel(y);
        large += elements > 3 * GD_MICROBATCH;
        cases++;
        gd_scope_end(ctx);
    }
    print_message("%d of %d cases have more than %d elements\n", large, cases, 3 * GD_MICROBATCH);
    assert_true(large * 100 >= cases * 75);
    end_context(ctx, NULL);
}

/* Long sums in every direction, lengths around the sizes of the summation tree. */
static void sums_of_every_length_have_the_same_bits(void **state)
{
    (void)state;
    gd_ctx *one = context(NULL, 1, "base"), *four = context(NULL, 4, NULL);
    static const int64_t lengths[] = {1,    15,   16,   17,   127,  128,  129,   1023,  1024,
                                      1025, 4095, 4096, 4097, 8192, 8193, 32768, 32769, 100001};
    for (int i = 0; i < COUNT_OF(lengths); i++) {
        int64_t n = lengths[i], shapes[3][3] = {{1, n, 1}, {3, n, 1}, {1, n, 7}};
        for (int s = 0; s < 3; s++) {
            double result[2][21];
            gd_ctx *both[2] = {one, four};
            for (int v = 0; v < 2; v++) {
                gd_scope_begin(both[v]);
                gd_seed(both[v], 3);
                gd_tensor *sum = gd_sum(gd_randn(both[v], GD_F64, 3, shapes[s]), "1", false);
                assert_int_equal(gd_read_f64(sum, result[v], gd_numel(sum)), GD_OK);
                gd_scope_end(both[v]);
            }
            assert_memory_equal(result[0], result[1], (size_t)(shapes[s][0] * shapes[s][2]) * sizeof(double));
        }
    }
    end_context(one, NULL);
    end_context(four, NULL);
}

/* ---- contexts in parallel ---- */

/* Fits a line by gradient descent; the loss at the end. */
static void *fit_line(void *arg)
{
    double *loss = arg;
    gd_ctx *ctx = context(NULL, 2, NULL);
    gd_seed(ctx, 4);
    gd_tensor *x = gd_randn(ctx, GD_F64, 2, (int64_t[]){3000, 20}),
              *w = gd_zeros(ctx, GD_F64, 2, (int64_t[]){20, 1});
    gd_tensor *y = gd_sum(x, "1", true);
    (void)gd_require_grad(w);
    for (int step = 0; step < 30; step++) {
        gd_scope_begin(ctx);
        gd_tensor *error = gd_mse(gd_sum(gd_mul(x, gd_transpose(w, 0, 1)), "1", true), y);
        *loss = gd_item(error);
        if (gd_backward(error, NULL, 0) || gd_add_into(w, gd_grad_of(w), -0.1)) *loss = -1;
        gd_zero_grad(w);
        gd_scope_end(ctx);
    }
    if (gd_error(ctx)) *loss = -2;
    gd_release(x);
    gd_release(y);
    gd_release(w);
    if (gd_ctx_live(ctx)) *loss = -3;
    gd_ctx_free(ctx);
    return NULL;
}

static void contexts_in_parallel_do_not_disturb_each_other(void **state)
{
    (void)state;
    enum { CONTEXTS = 6 };
    double loss[CONTEXTS], alone;
    pthread_t thread[CONTEXTS];
    fit_line(&alone);
    assert_true(alone > 0 && alone < 1);
    for (int i = 0; i < CONTEXTS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fit_line, &loss[i]), 0);
    for (int i = 0; i < CONTEXTS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < CONTEXTS; i++) assert_true(loss[i] == alone);
}

/* ---- the pool itself ---- */

typedef struct tally {
    gd_ctx *ctx;
    _Atomic int count[1000];
    bool nested;
} tally;

static void count_inner(void *arg, int64_t i)
{
    tally *t = arg;
    t->count[i]++;
}

static void count_task(void *arg, int64_t i)
{
    tally *t = arg;
    t->count[i]++;
    if (t->nested && i == 7) gd__parallel(t->ctx, 5, count_inner, t);
}

static void every_task_runs_once(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 4, NULL);
    static tally t;
    t.ctx = ctx;
    for (int round = 0; round < 300; round += test_share()) {
        int64_t tasks = round % 40 + (round == 299) * 960;
        memset((void *)t.count, 0, sizeof t.count);
        t.nested = round % 3 == 0 && tasks > 7;
        gd__parallel(ctx, tasks, count_task, &t);
        for (int64_t i = 0; i < 1000; i++) assert_int_equal(t.count[i], (i < tasks) + (t.nested && i < 5));
    }
    end_context(ctx, NULL);
}

/* Jobs so short that threads come late to most of them: none may meet the tasks of another job. */
static void short_jobs_in_a_row_do_not_mix(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 4, NULL);
    static tally t[3];
    memset((void *)t, 0, sizeof t);
    int rounds = 3000 / test_share();
    for (int round = 0; round < rounds; round++)
        for (int k = 0; k < 3; k++) /* of 2, 5 and 8 tasks */
            (round % 2 ? gd__parallel : gd__parallel_light)(ctx, 2 + 3 * k, count_inner, &t[k]);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 10; i++) assert_int_equal(t[k].count[i], i < 2 + 3 * k ? rounds : 0);
    end_context(ctx, NULL);
}

typedef struct who {
    pthread_t caller;
    _Atomic int others;
} who;

static void note_thread(void *arg, int64_t i)
{
    who *w = arg;
    (void)i;
    if (!pthread_equal(w->caller, pthread_self())) w->others++;
}

static int others_in_light_job(gd_ctx *ctx)
{
    who w = {.caller = pthread_self()};
    gd__parallel_light(ctx, 100, note_thread, &w);
    return w.others;
}

static void a_light_job_starts_and_wakes_no_thread(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 2, NULL);
    assert_int_equal(others_in_light_job(ctx), 0);
    assert_null(ctx->workers);
    who w = {.caller = pthread_self()};
    gd__parallel(ctx, 100, note_thread, &w);
    assert_non_null(ctx->workers);
    /* the worker sleeps in the end, and is not woken: nobody helps however often that is asked for */
    int alone = 0;
    for (int k = 0; k < 1000 && alone < 5; k++) {
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        alone = others_in_light_job(ctx) ? 0 : alone + 1;
    }
    assert_int_equal(alone, 5);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_results_have_the_same_bits),
        cmocka_unit_test(f32_results_have_the_same_bits),
        cmocka_unit_test(f16_results_have_the_same_bits),
        cmocka_unit_test(i32_results_have_the_same_bits),
        cmocka_unit_test(large_cases_use_several_threads),
        cmocka_unit_test(sums_of_every_length_have_the_same_bits),
        cmocka_unit_test(contexts_in_parallel_do_not_disturb_each_other),
        cmocka_unit_test(every_task_runs_once),
        cmocka_unit_test(short_jobs_in_a_row_do_not_mix),
        cmocka_unit_test(a_light_job_starts_and_wakes_no_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
