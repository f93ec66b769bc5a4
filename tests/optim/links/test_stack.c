/* How much stack a step needs: version.h says at most GD_STEP_STACK.  Measured for every link of the table on a stack of the test's own,
 * filled with a pattern beforehand: what is still there was not needed. */
#include "optim/optim_support.h"
#include "optim/table_support.h"

#include <gradus/version.h>

#include <math.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* frames of instrumented code are several times as large */
#else
#define SANITIZED 0
#endif

enum { STACK = 1 << 20, PATTERN = 0xa5 };

typedef enum way { AS_IT_IS, INTERPRETED, COMPILED, WAYS } way;

typedef struct run {
    char chain[500];
    way how;
    gd_dtype dtype;
    const char *cache; /* where kernels are kept */
    gd_status status;
    char error[300];
} run;

/* Residuals, so that links of every family have what they need; matrices for those that want them. */
static gd_tensor *residuals(void *user)
{
    gd_tensor *const *p = user;
    gd_tensor *a = gd_reshape(gd_sub(gd_matmul(p[0], p[0]), p[0]), 1, (int64_t[]){-1});
    gd_tensor *b = gd_exp(gd_mul_scalar(p[1], 0.1));
    return gd_cat((gd_tensor *[]){a, b}, 2, "0");
}

static void run_steps(run *r, gd_ctx *ctx)
{
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, r->chain));
    gd_tensor *p[2] = {
        gd_require_grad(gd_from_f64(ctx, r->dtype, 2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 5})),
        gd_require_grad(gd_from_f64(ctx, r->dtype, 1, (int64_t[]){3}, (double[]){1, -1, 2}))};
    gd_status status = gd_optimizer_add(o, "a", p[0]);
    if (!status) status = gd_optimizer_add(o, "b", p[1]);
    if (o) o->test.interpret = r->how == INTERPRETED;
    gd_objective objective = {.loss = residuals, .user = p};
    for (int i = 0; i < 3 && !status; i++) status = gd_optimizer_step(o, &objective, NULL);
    r->status = status;
    snprintf(r->error, sizeof r->error, "%s", gd_error_text(ctx));
    gd_optimizer_free(o);
    gd_release(p[0]);
    gd_release(p[1]);
}

static void *in_thread(void *user)
{
    run *r = user;
    gd_options options = gd_options_default();
    options.threads = 1;
    options.compile = r->how == COMPILED;
    options.cache_dir = r->cache;
    gd_ctx *ctx = gd_ctx_new(&options);
    run_steps(r, ctx);
    gd_ctx_free(ctx);
    return NULL;
}

/* Runs it on a stack of `size` bytes above a page that must not be touched; gives the bytes that were. */
static size_t stack_of(run *r, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *area = mmap(NULL, size + page, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    assert_true(area != MAP_FAILED && mprotect(area, page, PROT_NONE) == 0);
    unsigned char *stack = memset(area + page, PATTERN, size);
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, size), 0);
    assert_int_equal(pthread_create(&thread, &attributes, in_thread, r), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    size_t untouched = 0;
    while (untouched < size && stack[untouched] == PATTERN) untouched++;
    munmap(area, size + page);
    return size - untouched;
}

static size_t most;

static void measure(const gd_link_class *cls, const char *text)
{
    (void)cls;
    for (way how = AS_IT_IS; how < COMPILED; how++)
        for (int wide = 0; wide < 2; wide++) {
            run r = {.how = how, .dtype = wide ? GD_F64 : GD_F32};
            snprintf(r.chain, sizeof r.chain, "%s", text);
            size_t used = stack_of(&r, STACK);
            if (used > most) most = used;
            if (r.status) fail_msg("%s: %s", text, r.error);
            if (used > GD_STEP_STACK) fail_msg("a step of '%s' needs %zu bytes of stack", text, used);
        }
}

static void every_link_steps_on_the_stack_that_is_promised(void **state)
{
    (void)state;
    each_link_text(measure);
    print_message("most: %zu bytes\n", most);
    /* far more promised than needed would be wrong too */
    assert_true(most > GD_STEP_STACK / 3);
}

/* What version.h says beside the limit; other compilers make frames of other sizes. */
static void assert_as_said(size_t used, double said)
{
    if (!(fabs((double)used / (said * 1000) - 1) <= 0.15))
        fail_msg("%zu bytes at most, version.h says about %g KB", used, said);
}

static void chains_step_in_threads_of_that_size(void **state)
{
    size_t of[WAYS] = {0};
    (void)state;
    char cache[] = "stack_XXXXXX", remove[64]; /* empty: the compiler is run too */
    assert_non_null(mkdtemp(cache));
    static const char *const chains[] = {"clip_norm(1) | adam | weight_decay(0.01) | lr(1e-3)",
                                         "lbfgs | strong_wolfe",
                                         "newton | strong_wolfe",
                                         "levenberg_marquardt(gauss_newton)",
                                         "ema(0.83) | adam | clip_value(0.37) | adam(0.77) | lr(0.013)",
                                         "bfgs | strong_wolfe"};
    for (int i = 0; i < COUNT_OF(chains); i++)
        for (way how = AS_IT_IS; how < WAYS; how++) {
            run r = {.how = how, .dtype = GD_F64, .cache = cache};
            snprintf(r.chain, sizeof r.chain, "%s", chains[i]);
            size_t used = stack_of(&r, GD_STEP_STACK);
            print_message("%s: %zu bytes\n", chains[i], used);
            if (used > of[how]) of[how] = used;
            if (used > GD_STEP_STACK * 9 / 10)
                fail_msg("%s: %zu bytes leave too little room", chains[i], used);
            if (r.status) fail_msg("%s: %s", chains[i], r.error);
        }
    assert_as_said(of[INTERPRETED], 130);
    assert_as_said(of[COMPILED], 167);
    snprintf(remove, sizeof remove, "rm -r %s", cache);
    assert_int_equal(system(remove), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(every_link_steps_on_the_stack_that_is_promised),
                                       TEST(chains_step_in_threads_of_that_size)};
    if (SANITIZED) return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
