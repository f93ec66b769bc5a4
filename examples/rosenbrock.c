/* The example of the README: a function of two numbers, a chain, fifty steps. */
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
    gd_tensor *p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){-1.1, 2.5}));
    gd_optimizer *opt = gd_optimizer_new(ctx, gd_chain(ctx, "lbfgs | strong_wolfe"));
    gd_status status = gd_optimizer_add(opt, "p", p);
    gd_objective objective = {.loss = loss, .user = p};
    for (int i = 0; i < 50 && !status; i++) status = gd_optimizer_step(opt, &objective, NULL);
    printf("%g %g %s\n", gd_at(p, (int64_t[]){0}), gd_at(p, (int64_t[]){1}), gd_error_text(ctx));
    gd_optimizer_free(opt);
    gd_release(p);
    gd_ctx_free(ctx);
    return status != GD_OK;
}
