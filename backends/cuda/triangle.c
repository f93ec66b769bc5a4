/* Products of causal attention in f32: see kernels/triangle.cu. */
#include "plugin.h"

#include "batch.h"
#include "tensor/linalg.h"

#include "common_text.h"
#include "triangle_text.h"

#include <limits.h>
#include <stdio.h>

#define TILE 64

/* As struct Args in triangle.cu. */
typedef struct triangle_args {
    const void *left, *right;
    void *result;
    int rows, columns, inner, part;
    int64_t left_ld, right_ld, result_ld;
    int left_along, right_along;
    int across, batches;
    int inside;
    int64_t outer_step[3], inner_step[3];
} triangle_args;

size_t cuda_triangle_source(char *text, size_t size)
{
    int n = snprintf(text, size, "%s\n%s", common_text, triangle_text);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

static int64_t tiles_of(int64_t size) { return (size + TILE - 1) / TILE; }

/* Square where a triangle is meant, at multiples of four numbers everywhere, in at most two batch axes. */
static bool fits(const cuda_triangle *t, int64_t rows, int64_t columns, int64_t inner)
{
    const cuda_batch *b = t->batch;
    bool square = t->part == GD_PRODUCT_LOWER ? rows == columns : rows == inner;
    bool good = t->tensor[2]->dtype == GD_F32 && square && b->ndim <= 2 &&
                (rows | columns | inner) % 4 == 0 &&
                cuda_batch_is_aligned(b, t->tensor[0]->data, t->tensor[1]->data, t->tensor[2]->data);
    for (int k = 0; k < 3; k++) good = good && t->matrix[k].ld % 4 == 0;
    return good && rows <= 1 << 24 && columns <= 1 << 24 && inner <= 1 << 24 &&
           (double)tiles_of(rows) * (double)tiles_of(columns) * (double)b->count < INT_MAX;
}

static gd_status launch(gd_device *device, const triangle_args *a, int64_t blocks)
{
    cuda_state *s = cuda_of(device);
    char source[CUDA_SOURCE_SIZE];
    if (!s->triangle) {
        if (!cuda_triangle_source(source, sizeof source))
            return device->host->fail(device->ctx, GD_INTERNAL, "triangle_product: the source is too long");
        gd_status status = cuda_kernel(device, "triangle_product", source, "triangle_product", &s->triangle);
        if (status) return status;
    }
    return cuda_launch(device, s->triangle, blocks, 128, 0, (void *[]){(void *)(uintptr_t)a});
}

bool cuda_triangle_product(gd_device *device, const cuda_triangle *t, gd_status *status)
{
    const gd_tensor *left = t->tensor[0], *result = t->tensor[2];
    const cuda_batch *b = t->batch;
    int n = result->ndim;
    int64_t rows = result->size[n - 2], columns = result->size[n - 1], inner = left->size[n - 1];
    if (cuda_of(device)->tf32 || !fits(t, rows, columns, inner)) return false;
    triangle_args a = {.left = left->data,
                       .right = t->tensor[1]->data,
                       .result = result->data,
                       .rows = (int)rows,
                       .columns = (int)columns,
                       .inner = (int)inner,
                       .part = t->part,
                       .left_ld = t->matrix[0].ld,
                       .right_ld = t->matrix[1].ld,
                       .result_ld = t->matrix[2].ld,
                       .left_along = !t->matrix[0].turned,
                       .right_along = t->matrix[1].turned,
                       .across = (int)tiles_of(columns),
                       .batches = (int)b->count,
                       .inside = b->ndim ? (int)b->size[b->ndim - 1] : 1};
    for (int k = 0; k < 3; k++) {
        a.inner_step[k] = b->ndim > 0 ? b->step[k][b->ndim - 1] / (int64_t)sizeof(float) : 0;
        a.outer_step[k] = b->ndim > 1 ? b->step[k][0] / (int64_t)sizeof(float) : 0;
    }
    int64_t down = tiles_of(rows),
            tiles = t->part == GD_PRODUCT_LOWER ? down * (down + 1) / 2 : down * tiles_of(columns);
    *status = launch(device, &a, tiles * b->count);
    return true;
}
