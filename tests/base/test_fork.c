/* fork() after threads were at work: the child goes on with the context, and so does the parent. */
#include "support/support.h"

#include "base/ctx.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS 64

static void note_task(void *arg, int64_t i) { ((double *)arg)[i] += (double)i; }

/* Every task runs once. */
static bool all_run(gd_ctx *ctx)
{
    double done[TASKS] = {0};
    gd__parallel(ctx, TASKS, note_task, done);
    for (int i = 0; i < TASKS; i++)
        if (done[i] != i) return false;
    return true;
}

/* A product that is cut into tiles for all threads, and a sum. */
static double use_tensors(gd_ctx *ctx)
{
    gd_scope_begin(ctx);
    gd_tensor *a = gd_ones(ctx, GD_F64, 2, (int64_t[]){300, 300});
    double sum = gd_item(gd_sum(gd_matmul(a, a), NULL, false));
    gd_scope_end(ctx);
    return sum;
}

/* The status of a child that runs `fn`; a child that hangs dies of SIGALRM. */
static int in_child(gd_ctx *ctx, int (*fn)(gd_ctx *ctx))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        _exit(fn(ctx));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) fail_msg("the child died of signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static int go_on(gd_ctx *ctx)
{
    for (int i = 0; i < 3; i++)
        if (!all_run(ctx) || use_tensors(ctx) != 27e6) return 1;
    /* threads of its own do the work */
    return ctx->workers ? 0 : 2;
}

static int go_on_and_free(gd_ctx *ctx)
{
    int wrong = go_on(ctx);
    gd_ctx_free(ctx);
    return wrong;
}

static int only_free(gd_ctx *ctx)
{
    gd_ctx_free(ctx);
    return 0;
}

static int fork_again(gd_ctx *ctx) { return go_on(ctx) || in_child(ctx, go_on_and_free) || go_on(ctx); }

static void a_child_goes_on_with_the_context(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* ThreadSanitizer ends a child that starts threads while it remembers the parent's ("dup thread with used id") */
#endif
    static int (*const children[])(gd_ctx *) = {go_on, go_on_and_free, only_free, fork_again};
    gd_ctx *ctx = context(NULL, 4, NULL);
    for (int i = 0; i < COUNT_OF(children); i++) {
        assert_true(all_run(ctx));
        assert_float_equal(use_tensors(ctx), 27e6, 0);
        assert_int_equal(in_child(ctx, children[i]), 0);
    }
    assert_int_equal(go_on(ctx), 0); /* the parent's threads are as they were */
    end_context(ctx, NULL);
}

static void a_fork_before_any_thread_is_fine(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 4, NULL);
    assert_int_equal(in_child(ctx, go_on_and_free), 0);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_goes_on_with_the_context),
        cmocka_unit_test(a_fork_before_any_thread_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
