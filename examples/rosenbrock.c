/* The example of the README: the minimum of a function of two numbers, whose derivatives come from its operators. */
#include <gradus/gradus.h>
#include <stdio.h>

static gd_tensor *loss(void *user)
{
    gd_tensor *p = user, *x = gd_index(p, "0", 0), *y = gd_index(p, "0", 1);
    return gd_add(gd_square(gd_add_scalar(gd_neg(x), 1)),
                  gd_mul_scalar(gd_square(gd_sub(y, gd_square(x))), 100));
}

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_tensor *p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){-1.2, 1}));
    gd_objective objective = {.loss = loss, .user = p};
    gd_solve_result result = {0};
    gd_status status = gd_minimize(&p, 1, &objective, "lbfgs | strong_wolfe", NULL, &result);
    printf("%g %g: %s\n", gd_at(p, (int64_t[]){0}), gd_at(p, (int64_t[]){1}),
           status ? gd_error_text(ctx) : gd_stop_text(result.reason));
    gd_release(p);
    gd_ctx_free(ctx);
    return status != GD_OK;
}
