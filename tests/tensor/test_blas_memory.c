/* Where OpenBLAS finds no memory for its buffers (ulimit -v), products and factorisations are refused, not tried for ever. */
#include "support/support.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Addresses in use. */
static rlim_t address_space(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

typedef gd_tensor *(*operation)(gd_tensor *a);

static gd_tensor *multiply(gd_tensor *a) { return gd_matmul(a, a); }
static gd_tensor *factor(gd_tensor *a) { return gd_cholesky(a); }
static gd_tensor *invert(gd_tensor *a) { return gd_inverse(a); }

static gd_tensor *decompose(gd_tensor *a)
{
    gd_tensor *values = NULL, *vectors = NULL;
    return gd_eigh(a, &values, &vectors) ? NULL : vectors;
}

/* In a process of its own.  0: refused with NOMEM, and done once there is memory. */
static int under_a_limit(operation run)
{
    gd_ctx *ctx = context(NULL, 2, NULL);
    gd_tensor *a = gd_add(gd_ones(ctx, GD_F64, 2, (int64_t[]){200, 200}), gd_eye(ctx, GD_F64, 200, 200));
    struct rlimit before, limit;
    if (!a || getrlimit(RLIMIT_AS, &before)) return 1;
    limit = before;
    limit.rlim_cur = address_space() + ((rlim_t)64 << 20);
    if (setrlimit(RLIMIT_AS, &limit)) return 2;
    alarm(60); /* it would hang */
    if (run(a)) return 3;
    if (gd_error(ctx) != GD_NOMEM || !strstr(gd_error_text(ctx), "OpenBLAS")) return 4;
    gd_clear_error(ctx);
    if (setrlimit(RLIMIT_AS, &before)) return 5;
    return run(a) && !gd_error(ctx) ? 0 : 6;
}

static void no_memory_for_blas_is_an_error(void **state)
{
    (void)state;
#if !defined GD_HAVE_BLAS || defined GD_BLAS_SHARED || defined __SANITIZE_ADDRESS__ || \
    defined __SANITIZE_THREAD__
    print_message("skipped: needs the static OpenBLAS, and no sanitizer, which maps terabytes\n");
    skip();
#endif
    static const operation operations[] = {multiply, factor, invert, decompose};
    for (int i = 0; i < COUNT_OF(operations); i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) _exit(under_a_limit(operations[i]));
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFSIGNALED(status)) fail_msg("operation %d died of signal %d", i, WTERMSIG(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_memory_for_blas_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
