#include "tensor/cpu/blas.h"

#if defined GD_HAVE_BLAS && !defined GD_BLAS_SHARED

/* cmake/openblas_glue.c */
int gd__openblas_promise(int more);
void gd__openblas_release(int count);

static const char key;

static void *make(gd_ctx *ctx) { return gd__calloc(ctx, sizeof(int)); }

static void destroy(gd_ctx *ctx, void *data)
{
    gd__openblas_release(*(int *)data);
    gd__free(ctx, data, sizeof(int));
}

gd_status gd__blas_reserve(gd_ctx *ctx, int64_t tasks)
{
    int wanted = tasks < ctx->threads ? (int)tasks : ctx->threads;
    int *promised = gd__extension(ctx, &key, make, destroy);
    if (!promised) return GD_NOMEM;
    if (wanted <= *promised) return GD_OK;
    if (!gd__openblas_promise(wanted - *promised))
        return gd_fail(ctx, GD_NOMEM, "no memory for OpenBLAS, which needs %d MB of addresses a thread",
                       (int)(GD_OPENBLAS_BUFFER >> 20));
    *promised = wanted;
    return GD_OK;
}

#else

/* A shared OpenBLAS is used by others too, and does not let itself be looked into. */
gd_status gd__blas_reserve(gd_ctx *ctx, int64_t tasks)
{
    (void)ctx;
    (void)tasks;
    return GD_OK;
}

#endif
