/* The order of elements: a stable merge sort of indices, row by row. */
#include "tensor/cpu/cpu.h"

#include <string.h>

typedef struct sorting {
    const char *in;
    int64_t *out, *room; /* as large as the result */
    int64_t n, rows, rows_per_task;
    int type;
    bool descending;
} sorting;

/* Does the element at b sort before the one at a, which is in front of it?  NaN is the largest. */
#define COMES_FIRST(T)                                                                        \
    static bool first_##T(const void *row, int64_t b, int64_t a, bool descending)             \
    {                                                                                         \
        T x = ((const T *)row)[descending ? a : b], y = ((const T *)row)[descending ? b : a]; \
        return x < y || (y != y && x == x);                                                   \
    }
COMES_FIRST(float)
COMES_FIRST(double)
COMES_FIRST(int64_t)

typedef bool (*first_fn)(const void *row, int64_t b, int64_t a, bool descending);

/* Merges adjacent runs of `width` indices of `from` into `to`. */
static void merge_runs(const sorting *s, const void *row, first_fn first, const int64_t *from, int64_t *to,
                       int64_t width)
{
    for (int64_t left = 0; left < s->n; left += 2 * width) {
        int64_t middle = left + width < s->n ? left + width : s->n;
        int64_t end = middle + width < s->n ? middle + width : s->n, i = left, j = middle;
        for (int64_t k = left; k < end; k++)
            to[k] = j < end && (i == middle || first(row, from[j], from[i], s->descending)) ? from[j++]
                                                                                            : from[i++];
    }
}

static void sort_row(const sorting *s, int64_t row)
{
    static const first_fn functions[] = {
        [GD_AS_F32] = first_float, [GD_AS_F64] = first_double, [GD_AS_I64] = first_int64_t};
    int64_t *out = s->out + row * s->n, *from = out, *to = s->room + row * s->n;
    const void *x = s->in + row * s->n * (s->type == GD_AS_F32 ? 4 : 8);
    for (int64_t i = 0; i < s->n; i++) from[i] = i;
    for (int64_t width = 1; width < s->n; width *= 2) {
        merge_runs(s, x, functions[s->type], from, to, width);
        int64_t *merged = to;
        to = from;
        from = merged;
    }
    if (from != out) memcpy(out, from, (size_t)s->n * sizeof *out);
}

static void sort_rows(void *arg, int64_t task)
{
    const sorting *s = arg;
    int64_t end = (task + 1) * s->rows_per_task;
    for (int64_t row = task * s->rows_per_task; row < end && row < s->rows; row++) sort_row(s, row);
}

gd_status gd__cpu_argsort(gd_device *device, const gd_call *call)
{
    gd_tensor *in = call->in[0], *out = call->out[0];
    if (!out->numel) return GD_OK;
    sorting s = {.in = in->data, .out = (void *)out->data, .rows = call->attrs->i[0], .n = call->attrs->i[1]};
    s.type = gd__compute_type(in->dtype);
    s.descending = call->attrs->i[2] != 0;
    s.rows_per_task = s.n >= GD_MICROBATCH ? 1 : GD_MICROBATCH / s.n;
    if (!(s.room = gd__alloc_array(device->ctx, (size_t)out->numel, sizeof *s.room))) return GD_NOMEM;
    gd__run_tasks(device->ctx, out->numel, (s.rows + s.rows_per_task - 1) / s.rows_per_task, sort_rows, &s);
    gd__free(device->ctx, s.room, (size_t)out->numel * sizeof *s.room);
    return GD_OK;
}
