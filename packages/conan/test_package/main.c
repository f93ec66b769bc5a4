/* The installed library, shared and static, computes. */
#include <gradus/gradus.h>
#include <math.h>
#include <stdio.h>

int main(void)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_tensor *x = gd_full(ctx, GD_F64, 1, (int64_t[]){1}, 0);
    gd_tensor *away = gd_add_scalar(x, -3);
    double at = away ? fabs(gd_item(away)) : -1;
    gd_release(away);
    gd_release(x);
    gd_ctx_free(ctx);
    printf("gradus %s\n", gd_version());
    return at == 3 ? 0 : 1;
}
