#include "batch.h"

bool cuda_matrix_of(const gd_tensor *t, cuda_matrix *m)
{
    int64_t rows = t->size[t->ndim - 2], columns = t->size[t->ndim - 1];
    int64_t row = t->stride[t->ndim - 2], column = t->stride[t->ndim - 1];
    if ((column == 1 || columns == 1) && (rows == 1 || row >= columns)) {
        *m = (cuda_matrix){.turned = false, .ld = rows == 1 ? columns : row};
        return true;
    }
    *m = (cuda_matrix){.turned = true, .ld = columns == 1 ? rows : column};
    return (row == 1 || rows == 1) && (columns == 1 || column >= rows);
}

static int64_t size_of(int64_t step) { return step < 0 ? -step : step; }

/* Puts an axis where it belongs: larger steps of the result first. */
static void insert(cuda_batch *b, int64_t size, const int64_t *step)
{
    int at = b->ndim++;
    for (; at > 0 && size_of(step[2]) > size_of(b->step[2][at - 1]); at--) {
        b->size[at] = b->size[at - 1];
        for (int k = 0; k < 3; k++) b->step[k][at] = b->step[k][at - 1];
    }
    b->size[at] = size;
    for (int k = 0; k < 3; k++) b->step[k][at] = step[k];
}

static void join_neighbours(cuda_batch *b)
{
    int n = 0;
    for (int d = 0; d < b->ndim; d++) {
        bool joins = n > 0;
        for (int k = 0; k < 3 && joins; k++) joins = b->step[k][n - 1] == b->step[k][d] * b->size[d];
        int to = joins ? n - 1 : n++;
        b->size[to] = joins ? b->size[to] * b->size[d] : b->size[d];
        for (int k = 0; k < 3; k++) b->step[k][to] = b->step[k][d];
    }
    b->ndim = n;
}

void cuda_batch_of(const gd_tensor *left, const gd_tensor *right, const gd_tensor *result, cuda_batch *b)
{
    int64_t item = (int64_t)gd_dtype_size(result->dtype);
    *b = (cuda_batch){.count = 1};
    for (int i = 0; i < result->ndim - 2; i++) {
        b->count *= result->size[i];
        if (result->size[i] != 1)
            insert(b, result->size[i],
                   (int64_t[]){left->stride[i] * item, right->stride[i] * item, result->stride[i] * item});
    }
    join_neighbours(b);
}

bool cuda_batch_is_plain(const cuda_batch *b)
{
    return b->ndim == 0 || (b->ndim == 1 && b->step[0][0] >= 0 && b->step[1][0] >= 0 && b->step[2][0] >= 0);
}

bool cuda_batch_is_aligned(const cuda_batch *b, const void *left, const void *right, const void *result)
{
    bool aligned = (((uintptr_t)left | (uintptr_t)right | (uintptr_t)result) & 15) == 0;
    for (int d = 0; d < b->ndim; d++)
        for (int k = 0; k < 3; k++) aligned = aligned && b->step[k][d] % 16 == 0;
    return aligned;
}

bool cuda_is_plain(const gd_tensor *t)
{
    int64_t expected = 0;
    bool first = true;
    for (int i = t->ndim - 3; i >= 0; i--) {
        if (t->size[i] == 1) continue;
        if (t->stride[i] < 0 || (!first && t->stride[i] != expected)) return false;
        expected = t->stride[i] * t->size[i];
        first = false;
    }
    return true;
}
