/* The operators that are not element-wise: arguments for the kernels of full.cu. */
#include "plugin.h"

#include "common_bytes.h"
#include "full_bytes.h"
#include "rng_bytes.h"

#include <stdio.h>
#include <string.h>

#define LIST 32 /* addresses of a kernel that takes many */

/* As struct Args in full.cu. */
typedef struct full_args {
    int64_t n;
    const void *in[4];
    void *out, *more;
    int64_t i[16];
    double f[2];
    int ndim;
    int64_t size[8], from[8], to[8];
    int *trouble;
    int op;
    const void *list[LIST];
} full_args;

static const char *const kernel_names[] = {
#define KERNEL_NAME(name, family) #name,
    CUDA_FULL_KERNELS(KERNEL_NAME)
#undef KERNEL_NAME
};
static const char *const kernel_families[] = {
#define KERNEL_FAMILY(name, family) #family,
    CUDA_FULL_KERNELS(KERNEL_FAMILY)
#undef KERNEL_FAMILY
};

size_t cuda_full_source(cuda_full_kernel kernel, gd_dtype dtype, gd_dtype from, char *text, size_t size)
{
    char source_dtype[32] = "";
    if (kernel == CUDA_FULL_copy_strided || kernel == CUDA_FULL_copy_dense || kernel == CUDA_FULL_sum_rows ||
        kernel == CUDA_FULL_sum_columns)
        snprintf(source_dtype, sizeof source_dtype, "#define SRC %d\n", (int)from);
    int n = snprintf(text, size, "%s\n#define DT %d\n#define %s\n%s%s%s", common_text, (int)dtype,
                     kernel_families[kernel], source_dtype,
                     kernel == CUDA_FULL_random_numbers ? rng_text : "", full_text);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

static gd_status full_kernel(gd_device *device, cuda_full_kernel kernel, gd_dtype dtype, gd_dtype from,
                             CUfunction *f)
{
    CUfunction *quick = &cuda_of(device)->full_quick[kernel][dtype][from];
    char source[CUDA_SOURCE_SIZE];
    if (!*quick) {
        if (!cuda_full_source(kernel, dtype, from, source, sizeof source))
            return device->host->fail(device->ctx, GD_INTERNAL, "%s: the source is too long",
                                      kernel_names[kernel]);
        gd_status status = cuda_kernel(device, kernel_names[kernel], source, kernel_names[kernel], quick);
        if (status) return status;
    }
    *f = *quick;
    return GD_OK;
}

/* How many of a->n a block of 256 threads does. */
typedef enum cuda_share { BY_BLOCK = 1, BY_WARP = 8, BY_THREAD = 256 } cuda_share;

static gd_status go(gd_device *device, cuda_full_kernel kernel, gd_dtype dtype, gd_dtype from, full_args *a,
                    cuda_share share)
{
    CUfunction f = NULL;
    if (a->n == 0) return GD_OK;
    gd_status status = full_kernel(device, kernel, dtype, from, &f);
    if (status) return status;
    int64_t blocks = (a->n + share - 1) / share, most = (int64_t)cuda_of(device)->processors * 64;
    return cuda_launch(device, f, blocks < most ? blocks : most, 256, 0, (void *[]){a});
}

static gd_status fill_with(gd_device *device, gd_tensor *out, double value)
{
    full_args a = {.n = out->numel, .out = out->data, .f = {value}};
    return go(device, CUDA_FULL_fill, out->dtype, out->dtype, &a, BY_THREAD);
}

gd_status cuda_split(gd_device *device, const void *in, void *high, void *low, int64_t n)
{
    full_args a = {.n = n, .in = {in}, .out = high, .more = low};
    return go(device, CUDA_FULL_split, GD_F32, GD_F32, &a, BY_THREAD);
}

/* ---- copies ---- */

bool cuda_is_dense(const gd_tensor *t)
{
    int64_t step = 1;
    for (int i = t->ndim; i-- > 0;) {
        if (t->size[i] != 1 && t->stride[i] != step) return false;
        step *= t->size[i];
    }
    return true;
}

/* Axes that a copy goes over, in pieces of 16 bytes where everything is a multiple of that. */
static bool in_pieces(full_args *a, gd_dtype dtype)
{
    int64_t item = (int64_t)gd_dtype_size(dtype), whole = 16 / item;
    int last = a->ndim - 1;
    if (last < 0 || a->from[last] != 1 || a->to[last] != 1 || a->size[last] % whole) return false;
    if (((uintptr_t)a->in[0] | (uintptr_t)a->out) & 15 || a->n / whole > UINT32_MAX) return false;
    for (int d = 0; d < last; d++)
        if (a->from[d] % whole || a->to[d] % whole) return false;
    for (int d = 0; d < last; d++) {
        a->from[d] /= whole;
        a->to[d] /= whole;
    }
    a->size[last] /= whole;
    a->n /= whole;
    return true;
}

/* In order on both sides, in wholes of four. */
static bool converts_in_order(const gd_tensor *dst, const gd_tensor *src)
{
    return dst->numel == src->numel && dst->numel % 4 == 0 && cuda_is_dense(dst) && cuda_is_dense(src) &&
           (((uintptr_t)dst->data | (uintptr_t)src->data) & 31) == 0;
}

gd_status cuda_copy_strided(gd_device *device, gd_tensor *dst, const gd_tensor *src)
{
    if (dst->numel == 0) return GD_OK;
    if (dst->dtype != src->dtype && converts_in_order(dst, src)) {
        full_args flat = {.n = dst->numel / 4, .in = {src->data}, .out = dst->data};
        return go(device, CUDA_FULL_copy_dense, dst->dtype, src->dtype, &flat, BY_THREAD);
    }
    if (dst->dtype == src->dtype && dst->numel == src->numel && cuda_is_dense(dst) && cuda_is_dense(src)) {
        CUDA_TRY(device, cuMemcpyDtoDAsync_v2(
                             (CUdeviceptr)(uintptr_t)dst->data, (CUdeviceptr)(uintptr_t)src->data,
                             (size_t)dst->numel * gd_dtype_size(dst->dtype), cuda_of(device)->stream));
        return GD_OK;
    }
    full_args a = {.n = dst->numel, .in = {src->data}, .out = dst->data};
    int shift = dst->ndim - src->ndim;
    for (int d = 0; d < dst->ndim; d++) {
        bool spread = d < shift || (src->size[d - shift] == 1 && dst->size[d] != 1);
        int64_t from = spread ? 0 : src->stride[d - shift], to = dst->stride[d], size = dst->size[d];
        if (size == 1) continue;
        int n = a.ndim;
        bool joins = n > 0 && a.from[n - 1] == from * size && a.to[n - 1] == to * size;
        if (joins) n--;
        a.size[n] = joins ? a.size[n] * size : size;
        a.from[n] = from;
        a.to[n] = to;
        a.ndim = n + 1;
    }
    bool pieces = dst->dtype == src->dtype && in_pieces(&a, dst->dtype);
    return pieces ? go(device, CUDA_FULL_copy_pieces, GD_F32, GD_F32, &a, BY_THREAD)
                  : go(device, CUDA_FULL_copy_strided, dst->dtype, src->dtype, &a, BY_THREAD);
}

gd_status cuda_write_places(gd_device *device, void *to, int64_t n, const char *base, int ndim,
                            const int64_t *size, const int64_t *step)
{
    full_args a = {.n = n, .in = {base}, .out = to, .ndim = ndim};
    memcpy(a.size, size, (size_t)ndim * sizeof *size);
    memcpy(a.from, step, (size_t)ndim * sizeof *step);
    return go(device, CUDA_FULL_places, GD_I64, GD_I64, &a, BY_THREAD);
}

/* A part of out, seen as a tensor. */
static gd_status copy_to_window(gd_device *device, gd_tensor *window, const gd_tensor *piece)
{
    return piece->numel ? cuda_copy_strided(device, window, piece) : GD_OK;
}

static gd_status embed(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0], *out = call->out[0], window = *out;
    const int64_t *start = call->attrs->i, *step = start + x->ndim;
    gd_status status = fill_with(device, out, call->attrs->f[0]);
    for (int i = 0; i < x->ndim; i++) {
        window.data += start[i] * out->stride[i] * (int64_t)gd_dtype_size(out->dtype);
        window.stride[i] = out->stride[i] * step[i];
        window.size[i] = x->size[i];
    }
    window.numel = x->numel;
    return status ? status : copy_to_window(device, &window, x);
}

/* Pieces of one size that come to lie one after the other. */
static bool are_blocks(const gd_call *call, int axis)
{
    const gd_tensor *out = call->out[0], *first = call->in[0];
    uintptr_t places = (uintptr_t)out->data | (uintptr_t)first->numel * gd_dtype_size(first->dtype);
    for (int d = 0; d < axis; d++)
        if (out->size[d] != 1) return false;
    for (int k = 0; k < call->nin; k++) {
        if (call->in[k]->numel != first->numel || !cuda_is_dense(call->in[k])) return false;
        places |= (uintptr_t)call->in[k]->data;
    }
    return call->nin > 1 && !(places & 15) && out->numel / 4 < UINT32_MAX && cuda_is_dense(out);
}

static gd_status cat_blocks(gd_device *device, const gd_call *call)
{
    gd_tensor *out = call->out[0];
    int64_t bytes = call->in[0]->numel * (int64_t)gd_dtype_size(out->dtype);
    gd_status status = GD_OK;
    for (int first = 0; first < call->nin && !status; first += LIST) {
        int count = call->nin - first < LIST ? call->nin - first : LIST;
        full_args a = {.n = count * (bytes / 16), .out = out->data + first * bytes, .i = {bytes / 16}};
        for (int k = 0; k < count; k++) a.list[k] = call->in[first + k]->data;
        status = go(device, CUDA_FULL_copy_list, GD_F32, GD_F32, &a, BY_THREAD);
    }
    return status;
}

static gd_status cat(gd_device *device, const gd_call *call)
{
    gd_tensor *out = call->out[0], window = *out;
    int axis = (int)call->attrs->i[0];
    gd_status status = GD_OK;
    if (are_blocks(call, axis)) return cat_blocks(device, call);
    for (int k = 0; k < call->nin && !status; k++) {
        window.size[axis] = call->in[k]->size[axis];
        window.numel = call->in[k]->numel;
        status = copy_to_window(device, &window, call->in[k]);
        window.data += call->in[k]->size[axis] * out->stride[axis] * (int64_t)gd_dtype_size(out->dtype);
    }
    return status;
}

/* ---- reductions ---- */

#define COLUMN_ROWS 128
#define ROW_CHUNK   16384

/* Halves are summed in f32. */
static gd_dtype wide(gd_dtype dtype) { return dtype == GD_F16 || dtype == GD_BF16 ? GD_F32 : dtype; }

/* One reduction on its way: kernels, the dtypes of what is read, of partial results and of the result. */
typedef struct reduction {
    gd_device *device;
    cuda_full_kernel rows, columns;
    gd_dtype from, between, to;
    int64_t outer, inner, flag, whole;
    const void *values; /* of places: what they are places of */
} reduction;

/* Joins chunks into a temporary until one is left. */
static gd_status reduce_into(const reduction *r, const void *in, void *out, int64_t reduced)
{
    int64_t chunk = r->inner == 1 ? ROW_CHUNK : COLUMN_ROWS, chunks = (reduced + chunk - 1) / chunk;
    int64_t groups = r->inner == 1 ? 1 : (r->inner + 31) / 32;
    bool last = chunks == 1, places = r->values != NULL;
    gd_dtype to = last ? r->to : r->between;
    size_t bytes = (size_t)(r->outer * chunks * r->inner) * gd_dtype_size(to);
    void *room = last ? out : cuda_alloc(r->device, bytes);
    if (!room) return GD_NOMEM;
    full_args a = {.n = r->outer * chunks * groups,
                   .in = {places ? r->values : in, places && in != r->values ? in : NULL},
                   .out = room,
                   .i = {reduced, r->inner, chunk, chunks, groups, r->flag, r->whole}};
    gd_status status = go(r->device, r->inner == 1 ? r->rows : r->columns, places ? r->from : to, r->from, &a,
                          BY_BLOCK);
    if (last) return status;
    reduction next = *r;
    if (!places) next.from = to;
    if (!status) status = reduce_into(&next, room, out, chunks);
    cuda_free(r->device, room, bytes);
    return status;
}

static gd_status reduce(gd_device *device, const gd_call *call, reduction r, double of_nothing)
{
    const int64_t *i = call->attrs->i;
    gd_tensor *x = call->in[0], *out = call->out[0];
    if (out->numel == 0) return GD_OK;
    if (i[1] == 0) return fill_with(device, out, of_nothing);
    r.device = device;
    r.from = x->dtype;
    r.outer = i[0];
    r.whole = i[1];
    r.inner = i[2];
    return reduce_into(&r, x->data, out->data, i[1]);
}

static gd_status sum(gd_device *device, const gd_call *call)
{
    gd_dtype to = call->out[0]->dtype;
    reduction r = {
        .rows = CUDA_FULL_sum_rows, .columns = CUDA_FULL_sum_columns, .between = wide(to), .to = to};
    return reduce(device, call, r, 0);
}

static gd_status prod(gd_device *device, const gd_call *call)
{
    gd_dtype to = call->out[0]->dtype;
    reduction r = {.rows = CUDA_FULL_prod_rows, .columns = CUDA_FULL_prod_columns, .between = to, .to = to};
    return reduce(device, call, r, 1);
}

static gd_status truth(gd_device *device, const gd_call *call)
{
    bool any = call->op == GD_OP_any;
    reduction r = {.rows = CUDA_FULL_truth_rows,
                   .columns = CUDA_FULL_truth_columns,
                   .between = GD_BOOL,
                   .to = GD_BOOL,
                   .flag = any};
    return reduce(device, call, r, !any);
}

static gd_status extreme(gd_device *device, const gd_call *call)
{
    reduction r = {.rows = CUDA_FULL_extreme_rows,
                   .columns = CUDA_FULL_extreme_columns,
                   .between = GD_I64,
                   .to = GD_I64,
                   .flag = call->op == GD_OP_argmin,
                   .values = call->in[0]->data};
    return reduce(device, call, r, 0);
}

/* Kernels with a thread a result; `flag` is their last number. */
static gd_status by_result(gd_device *device, const gd_call *call, cuda_full_kernel kernel, int64_t flag)
{
    const int64_t *i = call->attrs->i;
    full_args a = {.n = i[0] * i[2],
                   .in = {call->in[0]->data},
                   .out = call->out[0]->data,
                   .i = {i[0], i[1], i[2], flag}};
    return go(device, kernel, call->in[0]->dtype, call->in[0]->dtype, &a, BY_THREAD);
}

/* Kernels with a warp a row. */
static gd_status by_row(gd_device *device, const gd_call *call, cuda_full_kernel kernel, int64_t flag)
{
    const int64_t *i = call->attrs->i;
    full_args a = {
        .n = i[0] * i[2],
        .in = {call->in[0]->data, call->nin > 1 ? call->in[1]->data : NULL},
        .out = call->out[0]->data,
        .i = {i[0], i[1], i[2], flag, call->op == GD_OP_softmax || call->op == GD_OP_softmax_grad ? i[5] : 0},
        .f = {kernel == CUDA_FULL_exponentials && call->op != GD_OP_softmax ? 1 : call->attrs->f[0]}};
    return go(device, kernel, call->in[0]->dtype, call->in[0]->dtype, &a, BY_WARP);
}

static gd_status layer_norm(gd_device *device, const gd_call *call)
{
    const int64_t *i = call->attrs->i;
    bool forward = call->op == GD_OP_layer_norm;
    full_args a = {.n = i[0], .out = call->out[0]->data, .i = {i[0], i[1], 1}, .f = {call->attrs->f[0]}};
    for (int k = 0; k < call->nin; k++) a.in[k] = call->in[k]->data;
    if (forward) a.more = call->out[1]->data;
    if (i[1] == 0) return GD_OK;
    return go(device, forward ? CUDA_FULL_layer_norm : CUDA_FULL_layer_norm_grad, call->in[0]->dtype,
              call->in[0]->dtype, &a, BY_WARP);
}

#define NORM_ROWS 128

static gd_status layer_norm_sums(gd_device *device, const gd_call *call)
{
    int64_t rows = call->attrs->i[0], columns = call->attrs->i[1];
    int64_t chunks = (rows + NORM_ROWS - 1) / NORM_ROWS, groups = (columns + 31) / 32;
    gd_dtype dtype = call->in[0]->dtype;
    size_t bytes = (size_t)(2 * chunks * columns) * gd_dtype_size(wide(dtype));
    if (columns == 0) return GD_OK;
    void *room = cuda_alloc(device, bytes ? bytes : 1);
    if (!room) return GD_NOMEM;
    full_args a = {.n = chunks * groups,
                   .in = {call->in[0]->data, call->in[1]->data, call->in[2]->data},
                   .out = room,
                   .i = {rows, columns, 1, NORM_ROWS, chunks, groups}};
    gd_status status = go(device, CUDA_FULL_layer_norm_sums, dtype, dtype, &a, BY_BLOCK);
    a = (full_args){.n = 2 * columns,
                    .in = {room},
                    .out = call->out[0]->data,
                    .more = call->out[1]->data,
                    .i = {columns, chunks}};
    if (!status) status = go(device, CUDA_FULL_layer_norm_join, dtype, dtype, &a, BY_THREAD);
    cuda_free(device, room, bytes ? bytes : 1);
    return status;
}

/* ---- picking and placing ---- */

static void split_at(const gd_tensor *t, int axis, int64_t *outer, int64_t *inner)
{
    *outer = *inner = 1;
    for (int i = 0; i < t->ndim; i++) {
        if (i < axis) *outer *= t->size[i];
        if (i > axis) *inner *= t->size[i];
    }
}

static gd_status pick(gd_device *device, const gd_call *call, cuda_full_kernel kernel)
{
    gd_tensor *x = call->in[0], *index = call->in[1], *out = call->out[0];
    int axis = (int)call->attrs->i[0];
    int64_t outer, inner;
    split_at(x, axis, &outer, &inner);
    cuda_state *s = cuda_of(device);
    int64_t count = kernel == CUDA_FULL_index_select ? index->numel : index->size[axis];
    full_args a = {.n = out->numel,
                   .in = {x->data, index->data},
                   .out = out->data,
                   .i = {x->size[axis], inner, count},
                   .trouble = (int *)(uintptr_t)s->trouble,
                   .op = (int)call->op};
    s->troubled_possible = true;
    return go(device, kernel, out->dtype, out->dtype, &a, BY_THREAD);
}

static gd_status add_at(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0], *index = call->in[1], *out = call->out[0];
    int axis = (int)call->attrs->i[0];
    int64_t outer, inner;
    split_at(x, axis, &outer, &inner);
    bool scatter = call->op == GD_OP_scatter_add;
    gd_status status = cuda_copy_strided(device, out, x);
    cuda_state *s = cuda_of(device);
    int64_t count = scatter ? index->size[axis] : index->numel;
    full_args a = {.n = outer * inner,
                   .in = {x->data, index->data, call->in[2]->data},
                   .out = out->data,
                   .i = {x->size[axis], inner, count, scatter},
                   .trouble = (int *)(uintptr_t)s->trouble,
                   .op = (int)call->op};
    s->troubled_possible = true;
    /* a thread that walks the whole index is slow; blocks that look for their rows are many where the table is large */
    int64_t groups = (inner + 255) / 256, blocks = outer * x->size[axis] * groups;
    bool few = !scatter && count > 32 && blocks <= (int64_t)1 << 18;
    if (few) {
        a.n = blocks;
        a.i[4] = groups;
    }
    if (status) return status;
    return go(device, few ? CUDA_FULL_add_rows : CUDA_FULL_add_at, out->dtype, out->dtype, &a,
              few ? BY_BLOCK : BY_THREAD);
}

static gd_status put_at(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0], *index = call->in[1], *values = call->in[2], *out = call->out[0];
    int axis = (int)call->attrs->i[0];
    int64_t outer, inner, places = x->size[axis];
    split_at(x, axis, &outer, &inner);
    cuda_state *s = cuda_of(device);
    gd_status status = out->data == x->data ? GD_OK : cuda_copy_strided(device, out, x);
    if (status || !index->numel) return status;
    size_t bytes = (size_t)(places ? places : 1) * sizeof(int64_t);
    void *last = cuda_alloc(device, bytes);
    if (!last) return GD_NOMEM;
    full_args none = {.n = places, .out = last};
    full_args a = {.n = index->numel,
                   .in = {NULL, index->data, values->data},
                   .out = last,
                   .i = {places, inner, index->numel},
                   .trouble = (int *)(uintptr_t)s->trouble,
                   .op = (int)call->op};
    s->troubled_possible = true;
    status = go(device, CUDA_FULL_fill, GD_I64, GD_I64, &none, BY_THREAD);
    if (!status) status = go(device, CUDA_FULL_last_at, GD_I64, GD_I64, &a, BY_THREAD);
    a.n = values->numel;
    a.in[0] = last;
    a.out = out->data;
    if (!status) status = go(device, CUDA_FULL_put_at, out->dtype, out->dtype, &a, BY_THREAD);
    cuda_free(device, last, bytes);
    return status;
}

static gd_status random_numbers(gd_device *device, const gd_call *call)
{
    gd_tensor *out = call->out[0];
    full_args a = {.n = out->numel, .out = out->data};
    memcpy(a.i, call->attrs->i, 3 * sizeof a.i[0]);
    return go(device, CUDA_FULL_random_numbers, out->dtype, out->dtype, &a, BY_THREAD);
}

static gd_status tri(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0];
    full_args a = {.n = x->numel,
                   .in = {x->data},
                   .out = call->out[0]->data,
                   .i = {x->size[x->ndim - 2], x->size[x->ndim - 1], call->attrs->i[0], call->attrs->i[1]}};
    return go(device, CUDA_FULL_tri, x->dtype, x->dtype, &a, BY_THREAD);
}

/* See cpu/images/unfold.c for the layouts. */
static gd_status windows(gd_device *device, const gd_call *call)
{
    bool fold = call->op == GD_OP_fold2d;
    gd_tensor *image = fold ? call->out[0] : call->in[0];
    const int64_t *i = call->attrs->i;
    int64_t down = (i[4] + 2 * i[3] - 1 - (i[0] - 1) * (i[8] + 1)) / i[2] + 1, stride = i[2] + i[7],
            across = (i[5] + 2 * i[3] - 1 - (i[1] - 1) * (i[9] + 1)) / stride + 1;
    full_args a = {.n = fold ? image->numel : image->size[0] * image->size[1] * i[0] * i[1] * down * across,
                   .in = {call->in[0]->data},
                   .out = call->out[0]->data,
                   .f = {call->attrs->f[0]},
                   .i = {image->size[0], image->size[1], i[4], i[5], i[0], i[1], i[2], i[3], down, across,
                         i[6], stride, i[8] + 1, i[9] + 1}};
    return go(device, fold ? CUDA_FULL_fold2d : CUDA_FULL_unfold2d, image->dtype, image->dtype, &a,
              BY_THREAD);
}

gd_status cuda_integer_product(gd_device *device, const gd_call *call, const void *a, const int64_t *a_stride,
                               const void *b, const int64_t *b_stride)
{
    gd_tensor *out = call->out[0];
    int n = out->ndim;
    full_args x = {.n = out->numel,
                   .in = {a, b},
                   .out = out->data,
                   .i = {out->size[n - 2], out->size[n - 1], call->in[0]->size[call->in[0]->ndim - 1]}};
    memcpy(x.from, a_stride, 3 * sizeof *a_stride);
    memcpy(x.to, b_stride, 3 * sizeof *b_stride);
    return go(device, CUDA_FULL_integer_product, out->dtype, out->dtype, &x, BY_THREAD);
}

gd_status cuda_full(gd_device *device, const gd_call *call)
{
    switch (call->op) {
    case GD_OP_cast:
    case GD_OP_copy: return cuda_copy_strided(device, call->out[0], call->in[0]);
    case GD_OP_fill: return fill_with(device, call->out[0], call->attrs->f[0]);
    case GD_OP_random: return random_numbers(device, call);
    case GD_OP_embed: return embed(device, call);
    case GD_OP_cat: return cat(device, call);
    case GD_OP_tri: return tri(device, call);
    case GD_OP_sum: return sum(device, call);
    case GD_OP_prod: return prod(device, call);
    case GD_OP_argmax:
    case GD_OP_argmin: return extreme(device, call);
    case GD_OP_any:
    case GD_OP_all: return truth(device, call);
    case GD_OP_cumsum: return by_result(device, call, CUDA_FULL_cumsum, call->attrs->i[5]);
    case GD_OP_logsumexp: return by_row(device, call, CUDA_FULL_exponentials, 0);
    case GD_OP_softmax: return by_row(device, call, CUDA_FULL_exponentials, 1);
    case GD_OP_log_softmax: return by_row(device, call, CUDA_FULL_exponentials, 2);
    case GD_OP_softmax_grad: return by_row(device, call, CUDA_FULL_softmax_grad, 0);
    case GD_OP_standardize: return by_row(device, call, CUDA_FULL_standardize, 0);
    case GD_OP_layer_norm:
    case GD_OP_layer_norm_grad: return layer_norm(device, call);
    case GD_OP_layer_norm_sums: return layer_norm_sums(device, call);
    case GD_OP_standardize_grad: return by_row(device, call, CUDA_FULL_standardize_grad, 0);
    case GD_OP_index_select: return pick(device, call, CUDA_FULL_index_select);
    case GD_OP_gather: return pick(device, call, CUDA_FULL_gather);
    case GD_OP_index_add:
    case GD_OP_scatter_add: return add_at(device, call);
    case GD_OP_index_put: return put_at(device, call);
    case GD_OP_unfold2d:
    case GD_OP_fold2d: return windows(device, call);
    case GD_OP_matmul: return cuda_matmul(device, call);
    case GD_OP_addmm: return cuda_addmm(device, call);
    case GD_OP_linear: return cuda_linear(device, call);
    case GD_OP_linear_grad: return cuda_linear_grad(device, call);
    case GD_OP_cholesky:
    case GD_OP_qr:
    case GD_OP_eigh:
    case GD_OP_svd:
    case GD_OP_solve:
    case GD_OP_triangular_solve:
    case GD_OP_logdet: return cuda_factor(device, call);
    default: break;
    }
    return device->host->fail(device->ctx, GD_INTERNAL, "%s: has no CUDA kernel",
                              device->host->ops[call->op].name);
}
