#include "tensor/cpu/blas.h"

#ifdef GD_BLAS_SHARED
#include <cblas.h>
#endif

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

/* A shared OpenBLAS is also used by other code, and cannot be inspected. Which build it is depends on the machine that runs the
 * program: the sequential one returns wrong products when two threads call it. */
gd_status gd__blas_reserve(gd_ctx *ctx, int64_t tasks)
{
    (void)tasks;
#ifdef GD_BLAS_SHARED
    if (!openblas_get_parallel())
        return gd_fail(ctx, GD_STATE,
                       "the OpenBLAS that is installed here is the sequential one, which may not be called "
                       "from several threads: install the one with threads (Debian: libopenblas0-pthread)");
#else
    (void)ctx;
#endif
    return GD_OK;
}

#endif
