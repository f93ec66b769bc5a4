/* Kernels that fill, place and select elements. */
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/source_kernels.h"

#include <string.h>

/* ---- fill ---- */

/* value as one element of the dtype */
static void encode(gd_device *device, gd_dtype dtype, double value, char out[8])
{
    const gd_vec_table *vec = gd__vec(device);
    int type = gd__compute_type(dtype);
    char compute[8];
    if (dtype == GD_BOOL) value = value != 0;
    if (type == GD_AS_F64)
        memcpy(compute, &value, 8);
    else
        vec->between[GD_AS_F64][type](compute, &value, 1);
    if (vec->store[dtype])
        vec->store[dtype](out, compute, 1);
    else
        memcpy(out, compute, gd_dtype_size(dtype));
}

typedef struct fill_job {
    char *data;
    char item[8];
    size_t size;
    int64_t numel;
    bool zero; /* all its bytes are */
} fill_job;

static void fill_piece(void *arg, int64_t k)
{
    fill_job *j = arg;
    int64_t start = k * GD_MICROBATCH,
            n = j->numel - start < GD_MICROBATCH ? j->numel - start : GD_MICROBATCH;
    char *to = j->data + start * (int64_t)j->size;
    if (j->zero)
        memset(to, 0, (size_t)n * j->size);
    else
        gd__repeat(to, j->item, n, j->size);
}

static void fill_with(gd_device *device, gd_tensor *out, double value)
{
    fill_job j = {.data = out->data, .size = gd__item_size(out), .numel = out->numel};
    encode(device, out->dtype, value, j.item);
    j.zero = memcmp(j.item, (char[8]){0}, j.size) == 0;
    gd__run_pieces(device->ctx, out->numel, fill_piece, &j);
}

gd_status gd__cpu_fill(gd_device *device, const gd_call *call)
{
    fill_with(device, call->out[0], call->attrs->f[0]);
    return GD_OK;
}

gd_status gd__cpu_to_device(gd_device *device, const gd_call *call)
{
    (void)call;
    return gd_fail(device->ctx, GD_INTERNAL, "to_device: runs outside the kernels");
}

/* ---- random ---- */

typedef struct random_job {
    gd_tensor *out;
    const gd_vec_table *vec;
    uint64_t key, first;
    int kind;
    double scale; /* 2 to the number of bits the dtype holds */
} random_job;

static void random_piece(void *arg, int64_t k)
{
    random_job *j = arg;
    const gd_sources_table *make = j->vec->sources;
    float narrow[512];
    int64_t start = k * GD_MICROBATCH,
            end = start + GD_MICROBATCH < j->out->numel ? start + GD_MICROBATCH : j->out->numel;
    gd_dtype dtype = j->out->dtype;
    gd_convert_fn store = j->vec->store[dtype];
    char *to = j->out->data + start * (int64_t)gd_dtype_size(dtype);
    uint64_t first = j->first + (uint64_t)start / 2;
    if (dtype == GD_F64)
        make->random_f64((double *)(void *)to, j->key, first, end - start, j->kind, j->scale);
    else if (!store)
        make->random_f32((float *)(void *)to, j->key, first, end - start, j->kind, j->scale);
    for (int64_t i = start; i < end && store; i += 512, first += 256) {
        int64_t n = end - i < 512 ? end - i : 512;
        make->random_f32(narrow, j->key, first, n, j->kind, j->scale);
        store(j->out->data + i * (int64_t)gd_dtype_size(dtype), narrow, n);
    }
}

gd_status gd__cpu_random(gd_device *device, const gd_call *call)
{
    const int64_t *i = call->attrs->i;
    gd_dtype dtype = call->out[0]->dtype;
    random_job j = {.out = call->out[0],
                    .scale = dtype == GD_F64   ? 0x1p53
                             : dtype == GD_F32 ? 0x1p24
                             : dtype == GD_F16 ? 0x1p11
                                               : 0x1p8,
                    .vec = gd__vec(device),
                    .kind = (int)i[0],
                    .key = (uint64_t)i[1],
                    .first = (uint64_t)i[2]};
    gd__run_pieces(device->ctx, j.out->numel, random_piece, &j);
    return GD_OK;
}

/* ---- placing ---- */

gd_status gd__cpu_embed(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0], *out = call->out[0];
    const int64_t *start = call->attrs->i, *step = start + x->ndim;
    if (x->numel < out->numel) fill_with(device, out, call->attrs->f[0]);
    if (x->numel == 0) return GD_OK;
    gd_tensor window = *out; /* the positions of x inside out */
    for (int i = 0; i < x->ndim; i++) {
        window.data += start[i] * out->stride[i] * (int64_t)gd__item_size(out);
        window.stride[i] = out->stride[i] * step[i];
        window.size[i] = x->size[i];
    }
    window.numel = x->numel;
    return gd__copy_into(&window, x);
}

gd_status gd__cpu_cat(gd_device *device, const gd_call *call)
{
    (void)device;
    gd_tensor *out = call->out[0];
    int axis = (int)call->attrs->i[0];
    gd_tensor window = *out;
    for (int k = 0; k < call->nin; k++) {
        gd_tensor *piece = call->in[k];
        window.size[axis] = piece->size[axis];
        window.numel = piece->numel;
        gd_status status = piece->numel ? gd__copy_into(&window, piece) : GD_OK;
        if (status) return status;
        window.data += piece->size[axis] * out->stride[axis] * (int64_t)gd__item_size(out);
    }
    return GD_OK;
}

gd_status gd__cpu_tri(gd_device *device, const gd_call *call)
{
    (void)device;
    gd_tensor *x = call->in[0], *out = call->out[0];
    int64_t diagonal = call->attrs->i[0], rows = x->size[x->ndim - 2], columns = x->size[x->ndim - 1];
    bool lower = call->attrs->i[1];
    size_t item = gd__item_size(x);
    int64_t total = columns ? x->numel / columns : 0;
    memset(out->data, 0, (size_t)out->numel * item);
    for (int64_t r = 0; r < total; r++) {
        /* columns kept in this row: up to the diagonal, or from it on */
        int64_t edge = r % rows + diagonal;
        int64_t first = lower ? 0 : edge < 0 ? 0 : edge, last = lower ? edge + 1 : columns;
        if (last > columns) last = columns;
        if (first < last)
            memcpy(out->data + (r * columns + first) * (int64_t)item,
                   x->data + (r * columns + first) * (int64_t)item, (size_t)(last - first) * item);
    }
    return GD_OK;
}

/* ---- selection by index: operands seen as [outer, axis, inner] ---- */

typedef struct split {
    int64_t outer, axis, inner;
} split;

static split split_at(const gd_tensor *t, int axis)
{
    split s = {1, t->size[axis], 1};
    for (int i = 0; i < t->ndim; i++) {
        if (i < axis) s.outer *= t->size[i];
        if (i > axis) s.inner *= t->size[i];
    }
    return s;
}

typedef struct pick_job {
    const char *x, *values;
    char *out;
    const int64_t *at;
    split from, to; /* of x and of the selection */
    size_t item;
    int64_t size, count, blocks; /* of the axis, of indices; blocks: of columns */
    int type;
    _Atomic int bad;
} pick_job;

static void look_at_index(void *arg, int64_t task)
{
    pick_job *j = arg;
    int64_t start = task * GD_MICROBATCH,
            end = start + GD_MICROBATCH < j->count ? start + GD_MICROBATCH : j->count;
    uint64_t size = (uint64_t)j->size;
    int bad = 0;
    for (int64_t k = start; k < end; k++) bad |= (uint64_t)j->at[k] >= size;
    if (bad) j->bad = 1;
}

static gd_status check_index(gd_device *device, gd_op_id op, const gd_tensor *index, int64_t size)
{
    pick_job j = {.at = (const int64_t *)(const void *)index->data, .size = size, .count = index->numel};
    gd__run_pieces(device->ctx, index->numel, look_at_index, &j);
    for (int64_t k = 0; k < index->numel && j.bad; k++)
        if (j.at[k] < 0 || j.at[k] >= size)
            return gd_fail(device->ctx, GD_INDEX, "%s: index %lld at place %lld is not in 0 to %lld",
                           gd__ops[op].name, (long long)j.at[k], (long long)k, (long long)size - 1);
    return GD_OK;
}

/* to[k] = from[at[k]]: separate loops per type, because a memcpy of variable size is a call per element. */
static void pick(char *to, const char *from, const int64_t *at, int64_t n, size_t item)
{
#define PICK(type) \
    for (int64_t k = 0; k < n; k++) ((type *)(void *)to)[k] = ((const type *)(const void *)from)[at[k]]
#define PICK_BYTES(bytes) \
    for (int64_t k = 0; k < n; k++) memcpy(to + k * (int64_t)(bytes), from + at[k] * (int64_t)(bytes), bytes)
    switch (item) {
    case 1: PICK(uint8_t); break;
    case 2: PICK(uint16_t); break;
    case 4: PICK(uint32_t); break;
    case 8: PICK(uint64_t); break;
    case 12: PICK_BYTES(12); break; /* rows of three */
    case 16: PICK_BYTES(16); break;
    case 24: PICK_BYTES(24); break;
    default: PICK_BYTES(item); break;
    }
#undef PICK_BYTES
#undef PICK
}

/* to[k] = element at[k] of column i of rows of `inner` numbers; `columns` adjacent columns. */
static void pick_columns(char *to, const char *from, const int64_t *at, int64_t n, int64_t i, int64_t columns,
                         int64_t inner, size_t item)
{
#define PICK(type)                                                   \
    for (int64_t k = 0; k < n; k++, i = i + 1 < columns ? i + 1 : 0) \
    ((type *)(void *)to)[k] = ((const type *)(const void *)from)[at[k] * inner + i]
    switch (item) {
    case 1: PICK(uint8_t); break;
    case 2: PICK(uint16_t); break;
    case 4: PICK(uint32_t); break;
    default: PICK(uint64_t); break;
    }
#undef PICK
}

/* Places start..end of [outer, index]. */
static void select_piece(void *arg, int64_t task)
{
    pick_job *j = arg;
    int64_t start = task * j->blocks, end = start + j->blocks, all = j->from.outer * j->count;
    size_t bytes = (size_t)j->from.inner * j->item;
    if (end > all) end = all;
    while (start < end) {
        int64_t o = start / j->count, k = start % j->count,
                n = j->count - k < end - start ? j->count - k : end - start;
        pick(j->out + (size_t)start * bytes, j->x + (size_t)(o * j->from.axis) * bytes, j->at + k, n, bytes);
        start += n;
    }
}

gd_status gd__cpu_index_select(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0], *index = call->in[1];
    split s = split_at(x, (int)call->attrs->i[0]);
    gd_status status = check_index(device, call->op, index, s.axis);
    if (status) return status;
    pick_job j = {.x = x->data,
                  .out = call->out[0]->data,
                  .at = (const int64_t *)(const void *)index->data,
                  .from = s,
                  .item = gd__item_size(x),
                  .count = index->numel};
    int64_t places = s.outer * index->numel;
    if (places == 0 || s.inner == 0) return GD_OK;
    j.blocks = s.inner < GD_MICROBATCH ? GD_MICROBATCH / s.inner : 1;
    gd__run_tasks(device->ctx, places * s.inner, (places + j.blocks - 1) / j.blocks, select_piece, &j);
    return GD_OK;
}

static void add_items(int type, char *acc, const char *x, int64_t n)
{
    if (type == GD_AS_F32)
        for (int64_t i = 0; i < n; i++) ((float *)(void *)acc)[i] += ((const float *)(const void *)x)[i];
    else if (type == GD_AS_F64)
        for (int64_t i = 0; i < n; i++) ((double *)(void *)acc)[i] += ((const double *)(const void *)x)[i];
    else
        for (int64_t i = 0; i < n; i++)
            ((uint64_t *)(void *)acc)[i] += ((const uint64_t *)(const void *)x)[i];
}

/* acc[at[k]] += x[k] */
static void add_at(int type, char *acc, const int64_t *at, const char *x, int64_t n)
{
#define ADD(type) \
    for (int64_t k = 0; k < n; k++) ((type *)(void *)acc)[at[k]] += ((const type *)(const void *)x)[k]
    if (type == GD_AS_F32)
        ADD(float);
    else if (type == GD_AS_F64)
        ADD(double);
    else
        ADD(uint64_t);
#undef ADD
}

/* Columns of values are added by one task, in the order of the indices. */
#define ADDED_COLUMNS 64

static void add_columns(void *arg, int64_t task)
{
    pick_job *j = arg;
    int64_t o = task / j->blocks, column = task % j->blocks * ADDED_COLUMNS, inner = j->from.inner,
            n = inner - column < ADDED_COLUMNS ? inner - column : ADDED_COLUMNS;
    char *out = j->out + (o * j->from.axis * inner + column) * (int64_t)j->item;
    const char *from = j->values + (o * j->to.axis * inner + column) * (int64_t)j->item;
    if (inner == 1)
        add_at(j->type, out, j->at, from, j->to.axis);
    else
        for (int64_t k = 0; k < j->to.axis; k++)
            add_items(j->type, out + j->at[k] * inner * (int64_t)j->item, from + k * inner * (int64_t)j->item,
                      n);
}

/* The result of this one and of scatter_add may be x itself. */
gd_status gd__cpu_index_add(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0], *index = call->in[1], *values = call->in[2], *out = call->out[0];
    split s = split_at(x, (int)call->attrs->i[0]);
    gd_status status = check_index(device, call->op, index, s.axis);
    if (status) return status;
    pick_job j = {.values = values->data,
                  .out = out->data,
                  .at = (const int64_t *)(const void *)index->data,
                  .to = {s.outer, index->numel, s.inner},
                  .from = s,
                  .item = gd__item_size(x),
                  .type = gd__compute_type(x->dtype),
                  .blocks = (s.inner + ADDED_COLUMNS - 1) / ADDED_COLUMNS};
    if (out->data != x->data) memcpy(out->data, x->data, (size_t)x->numel * gd__item_size(x));
    gd__run_tasks(device->ctx, values->numel, s.outer * j.blocks, add_columns, &j);
    return GD_OK;
}

/* The last value for one position counts.  The result may be x itself. */
gd_status gd__cpu_index_put(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0], *index = call->in[1], *values = call->in[2], *out = call->out[0];
    split s = split_at(x, (int)call->attrs->i[0]);
    gd_status status = check_index(device, call->op, index, s.axis);
    if (status) return status;
    const int64_t *at = (const int64_t *)(const void *)index->data;
    size_t bytes = (size_t)s.inner * gd__item_size(x);
    if (out->data != x->data) memcpy(out->data, x->data, (size_t)x->numel * gd__item_size(x));
    const char *from = values->data;
    for (int64_t o = 0; o < s.outer; o++)
        for (int64_t k = 0; k < index->numel; k++, from += bytes)
            memcpy(out->data + (size_t)(o * s.axis + at[k]) * bytes, from, bytes);
    return GD_OK;
}

/* Elements start..end of the gathered result: those of one outer row at a time. */
static void gather_piece(void *arg, int64_t task)
{
    pick_job *j = arg;
    int64_t start = task * GD_MICROBATCH,
            end = start + GD_MICROBATCH < j->count ? start + GD_MICROBATCH : j->count;
    int64_t row = j->to.axis * j->to.inner, inner = j->from.inner;
    while (start < end) {
        int64_t o = start / row, last = (o + 1) * row < end ? (o + 1) * row : end;
        const char *x = j->x + (size_t)(o * j->from.axis * inner) * j->item;
        if (inner == 1 && j->to.inner == 1)
            pick(j->out + (size_t)start * j->item, x, j->at + start, last - start, j->item);
        else
            pick_columns(j->out + (size_t)start * j->item, x, j->at + start, last - start,
                         start % j->to.inner, j->to.inner, inner, j->item);
        start = last;
    }
}

gd_status gd__cpu_gather(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0], *index = call->in[1];
    int axis = (int)call->attrs->i[0];
    pick_job j = {.x = x->data,
                  .out = call->out[0]->data,
                  .at = (const int64_t *)(const void *)index->data,
                  .from = split_at(x, axis),
                  .to = split_at(index, axis),
                  .item = gd__item_size(x),
                  .count = index->numel};
    gd_status status = check_index(device, call->op, index, j.from.axis);
    if (!status) gd__run_pieces(device->ctx, index->numel, gather_piece, &j);
    return status;
}

static void scatter_row(void *arg, int64_t o)
{
    pick_job *j = arg;
    int64_t row = j->to.axis * j->to.inner, inner = j->from.inner;
    char *out = j->out + (size_t)(o * j->from.axis * inner) * j->item;
    const char *from = j->values + (size_t)(o * row) * j->item;
    const int64_t *at = j->at + o * row;
    if (inner == 1 && j->to.inner == 1) {
        add_at(j->type, out, at, from, row);
        return;
    }
    for (int64_t k = 0, i = 0; k < row; k++, i = i + 1 < j->to.inner ? i + 1 : 0)
        add_at(j->type, out + (size_t)i * j->item, (int64_t[]){at[k] * inner}, from + (size_t)k * j->item, 1);
}

gd_status gd__cpu_scatter_add(gd_device *device, const gd_call *call)
{
    gd_tensor *x = call->in[0], *index = call->in[1], *values = call->in[2], *out = call->out[0];
    int axis = (int)call->attrs->i[0];
    pick_job j = {.values = values->data,
                  .out = out->data,
                  .at = (const int64_t *)(const void *)index->data,
                  .from = split_at(x, axis),
                  .to = split_at(index, axis),
                  .item = gd__item_size(x),
                  .type = gd__compute_type(x->dtype)};
    gd_status status = check_index(device, call->op, index, j.from.axis);
    if (status) return status;
    if (out->data != x->data) memcpy(out->data, x->data, (size_t)x->numel * j.item);
    gd__run_tasks(device->ctx, index->numel, j.to.outer, scatter_row, &j);
    return GD_OK;
}
