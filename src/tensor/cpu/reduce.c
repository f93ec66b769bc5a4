/* Reductions over [outer, reduced, inner], in an order that does not depend on threads:
 *
 *   inner == 1: every row is cut into chunks of 4096, each summed in sixteen lanes, the chunk sums added pairwise
 *   inner  > 1: rows of `inner` are added in chunks of 128 rows, the chunk rows added pairwise */
#include "tensor/cpu/cpu.h"

#include <math.h>
#include <string.h>

#define CHUNK         4096
#define ROWS          128
#define COLUMNS       1024 /* of a block: which it is changes no sum */
#define COLUMNS_ALONE 128  /* where there is one chunk of rows */

typedef struct view {
    const gd_vec_table *vec;
    const char *in, *other; /* other: the second operand */
    char *out;
    char *
        partial; /* [outer, chunks, inner]; the output itself when one chunk is enough and of the compute type */
    int64_t outer, reduced, inner;
    int64_t chunks, chunk, blocks, columns; /* columns: of a block */
    int64_t units, units_per_task;
    int type;
    gd_dtype dtype;            /* of the operand */
    gd_convert_fn load, store; /* from it to the compute type, and from that to the result; NULL: the same */
    size_t item, step;         /* bytes of an element of the compute type, and of the operand */
    bool lowest, reverse;
    int64_t
        causal; /* rows of a matrix whose row i has elements only up to column i, counted from its end; 0: no matrix */
    double f; /* scale or eps */
    gd_op_id op;
} view;

static view view_of(gd_device *device, const gd_call *call)
{
    gd_tensor *in = call->in[0];
    const int64_t *i = call->attrs->i;
    return (view){.vec = gd__vec(device),
                  .in = in->data,
                  .other = call->nin > 1 ? call->in[1]->data : NULL,
                  .out = call->out[0]->data,
                  .f = call->attrs->f[0],
                  .outer = i[0],
                  .reduced = i[1],
                  .inner = i[2],
                  .type = gd__compute_type(in->dtype),
                  .dtype = in->dtype,
                  .load = gd__vec(device)->load[in->dtype],
                  .item = gd__compute_type(in->dtype) == GD_AS_F32 ? 4 : 8,
                  .step = gd__item_size(in),
                  .op = call->op};
}

/* Runs fn over `units` pieces of work of about `size` elements each. */
static void spread(gd_device *device, view *v, int64_t units, int64_t size, void (*fn)(void *, int64_t))
{
    v->units = units;
    v->units_per_task = size >= GD_MICROBATCH ? 1 : GD_MICROBATCH / (size > 0 ? size : 1);
    gd__run_tasks(device->ctx, units * size, (units + v->units_per_task - 1) / v->units_per_task, fn, v);
}

#define EACH_UNIT(v, task, u)                                                                        \
    for (int64_t u = (task) * (v)->units_per_task,                                                   \
                 end_ = u + (v)->units_per_task < (v)->units ? u + (v)->units_per_task : (v)->units; \
         u < end_; u++)

/* ---- sum ---- */

/* Integers wrap, so their order does not matter. */
static int64_t sum_integers(const view *v, const char *x, int64_t n)
{
    int64_t loaded[COLUMNS];
    uint64_t sum = 0;
    for (int64_t done = 0; done < n; done += COLUMNS) {
        int64_t k = n - done < COLUMNS ? n - done : COLUMNS;
        const void *from = x + done * (int64_t)v->step;
        if (v->load) v->load(loaded, from, k);
        const int64_t *values = v->load ? loaded : from;
        for (int64_t i = 0; i < k; i++) sum += (uint64_t)values[i];
    }
    return (int64_t)sum;
}

static void sum_rows(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, u)
    {
        int64_t row = u / v->chunks, c = u % v->chunks, start = c * v->chunk;
        int64_t n = v->reduced - start < v->chunk ? v->reduced - start : v->chunk;
        const char *x = v->in + (row * v->reduced + start) * (int64_t)v->step;
        char *out = v->partial + u * (int64_t)v->item;
        if (gd__is_half(v->dtype))
            *(float *)(void *)out = v->vec->sum_halves[gd__half_at(v->dtype)]((const void *)x, n);
        else if (v->type == GD_AS_F32)
            *(float *)(void *)out = v->vec->sum_f32((const float *)(const void *)x, n);
        else if (v->type == GD_AS_F64)
            *(double *)(void *)out = v->vec->sum_f64((const double *)(const void *)x, n);
        else
            *(int64_t *)(void *)out = sum_integers(v, x, n);
    }
}

static void add_row(const view *v, char *acc, const char *x, int64_t n)
{
    if (v->type == GD_AS_F32)
        v->vec->add_f32((float *)(void *)acc, (const float *)(const void *)x, n);
    else if (v->type == GD_AS_F64)
        v->vec->add_f64((double *)(void *)acc, (const double *)(const void *)x, n);
    else
        for (int64_t i = 0; i < n; i++)
            ((uint64_t *)(void *)acc)[i] += ((const uint64_t *)(const void *)x)[i];
}

/* n elements of the operand as the compute type: where they are, or in `loaded`. */
static const char *load_row(const view *v, const char *x, int64_t n, void *loaded)
{
    if (!v->load) return x;
    v->load(loaded, x, n);
    return loaded;
}

static void sum_columns(void *arg, int64_t task)
{
    view *v = arg;
    int64_t loaded[COLUMNS];
    EACH_UNIT(v, task, u)
    {
        int64_t block = u % v->blocks, c = u / v->blocks % v->chunks, row = u / v->blocks / v->chunks;
        int64_t first = c * v->chunk, last = first + v->chunk < v->reduced ? first + v->chunk : v->reduced;
        int64_t column = block * v->columns,
                n = v->inner - column < v->columns ? v->inner - column : v->columns;
        char *acc = v->partial + ((row * v->chunks + c) * v->inner + column) * (int64_t)v->item;
        const char *x = v->in + ((row * v->reduced + first) * v->inner + column) * (int64_t)v->step;
        memcpy(acc, load_row(v, x, n, loaded), (size_t)n * v->item);
        for (int64_t r = first + 1; r < last; r++) {
            x += v->inner * (int64_t)v->step;
            add_row(v, acc, load_row(v, x, n, loaded), n);
        }
    }
}

/* Adds the chunks of one outer row pairwise, then moves the sum out: that of halves is rounded here, once. */
static void join_chunks(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, row)
    {
        int64_t bytes = v->inner * (int64_t)v->item;
        char *p = v->partial + row * v->chunks * bytes;
        for (int64_t width = 1; width < v->chunks; width *= 2)
            for (int64_t c = 0; c + width < v->chunks; c += 2 * width)
                add_row(v, p + c * bytes, p + (c + width) * bytes, v->inner);
        if (v->store)
            v->store(v->out + row * v->inner * (int64_t)v->step, p, v->inner);
        else
            memcpy(v->out + row * bytes, p, (size_t)bytes);
    }
}

gd_status gd__cpu_sum(gd_device *device, const gd_call *call)
{
    view v = view_of(device, call);
    gd_tensor *out = call->out[0];
    v.store = gd__is_half(v.dtype) ? v.vec->store[v.dtype] : NULL;
    if (gd__item_size(out) != (v.store ? v.step : v.item))
        return gd_fail(device->ctx, GD_INTERNAL, "sum: a result of %s", gd_dtype_name(out->dtype));
    if (out->numel == 0) return GD_OK;
    if (v.reduced == 0) {
        memset(out->data, 0, (size_t)out->numel * gd__item_size(out));
        return GD_OK;
    }
    v.chunk = v.inner == 1 ? CHUNK : ROWS;
    v.chunks = (v.reduced + v.chunk - 1) / v.chunk;
    v.columns = v.outer * v.chunks == 1 && v.inner <= COLUMNS ? COLUMNS_ALONE : COLUMNS;
    v.blocks = (v.inner + v.columns - 1) / v.columns;
    size_t bytes = (size_t)(v.outer * v.chunks * v.inner) * v.item;
    bool joined = v.chunks > 1 || v.store;
    v.partial = joined ? gd__alloc(device->ctx, bytes) : v.out;
    if (!v.partial) return GD_NOMEM;
    int64_t length = v.reduced < v.chunk ? v.reduced : v.chunk;
    if (v.inner == 1)
        spread(device, &v, v.outer * v.chunks, length, sum_rows);
    else
        spread(device, &v, v.outer * v.chunks * v.blocks,
               length * (v.inner < v.columns ? v.inner : v.columns), sum_columns);
    if (joined) {
        spread(device, &v, v.outer, v.chunks * v.inner, join_chunks);
        gd__free(device->ctx, v.partial, bytes);
    }
    return GD_OK;
}

/* ---- one result at a time: prod, arg extremes, truth ---- */

#define WALK(type, body)                                                                     \
    do {                                                                                     \
        const type *x = (const type *)(const void *)v->in + (o * v->reduced) * v->inner + i; \
        for (int64_t r = 0; r < v->reduced; r++, x += v->inner) body                         \
    } while (0)

static void one_prod(view *v, int64_t o, int64_t i)
{
    double f64 = 1;
    float f32 = 1;
    uint64_t i64 = 1;
    int64_t at = o * v->inner + i;
    if (v->type == GD_AS_F32) {
        WALK(float, { f32 *= *x; });
        ((float *)(void *)v->out)[at] = f32;
    } else if (v->type == GD_AS_F64) {
        WALK(double, { f64 *= *x; });
        ((double *)(void *)v->out)[at] = f64;
    } else {
        if (v->dtype == GD_I64)
            WALK(uint64_t, { i64 *= *x; });
        else if (v->dtype == GD_I32)
            WALK(int32_t, { i64 *= (uint64_t)(int64_t)*x; });
        else
            WALK(uint8_t, { i64 *= *x; });
        ((int64_t *)(void *)v->out)[at] = (int64_t)i64;
    }
}

/* The first of equals; the first NaN beats all. */
#define EXTREME(type)                                                             \
    WALK(type, {                                                                  \
        type y = *x;                                                              \
        if (r == 0)                                                               \
            best = y;                                                             \
        else if (best == best && (y != y || (v->lowest ? y < best : y > best))) { \
            best = y;                                                             \
            place = r;                                                            \
        }                                                                         \
    })

static double element(const view *v, const char *data, int64_t i)
{
    return v->type == GD_AS_F32 ? (double)((const float *)(const void *)data)[i]
                                : ((const double *)(const void *)data)[i];
}

static double highest_of(const view *v, const char *x, int64_t n, double sign)
{
    return v->type == GD_AS_F32 ? (double)v->vec->highest_f32((const float *)(const void *)x, n, (float)sign)
                                : v->vec->highest_f64((const double *)(const void *)x, n, sign);
}

#define BLOCK 1024

/* The same of a row without gaps: block by block, and then the place in the first block that has it. */
static int64_t place_in_row(const view *v, const char *row)
{
    double best = 0, sign = v->lowest ? -1 : 1;
    int64_t at = 0;
    for (int64_t r = 0; r < v->reduced && best == best; r += BLOCK) {
        int64_t n = v->reduced - r < BLOCK ? v->reduced - r : BLOCK;
        double here = highest_of(v, row + r * (int64_t)v->item, n, sign);
        if (r && here == here && sign * here <= sign * best) continue;
        best = here;
        at = r;
    }
    row += at * (int64_t)v->item;
    return at + (v->type == GD_AS_F32
                     ? v->vec->first_f32((const float *)(const void *)row, v->reduced - at, (float)best)
                     : v->vec->first_f64((const double *)(const void *)row, v->reduced - at, best));
}

static void one_extreme(view *v, int64_t o, int64_t i)
{
    int64_t place = 0;
    if (v->inner == 1 && v->reduced && v->type != GD_AS_I64)
        place = place_in_row(v, v->in + o * v->reduced * (int64_t)v->item);
    else if (v->type == GD_AS_F32) {
        float best = 0;
        EXTREME(float);
    } else if (v->type == GD_AS_F64) {
        double best = 0;
        EXTREME(double);
    } else if (v->dtype == GD_I64) {
        int64_t best = 0;
        EXTREME(int64_t);
    } else if (v->dtype == GD_I32) {
        int32_t best = 0;
        EXTREME(int32_t);
    } else {
        uint8_t best = 0;
        EXTREME(uint8_t);
    }
    ((int64_t *)(void *)v->out)[o * v->inner + i] = place;
}

static void one_truth(view *v, int64_t o, int64_t i)
{
    bool any = v->op == GD_OP_any, result = !any; /* what is looked for decides */
    if (v->inner == 1)
        result = (memchr(v->in + o * v->reduced, any, (size_t)v->reduced) != NULL) == any;
    else
        WALK(char, {
            if ((*x != 0) == any) result = any;
        });
    v->out[o * v->inner + i] = result;
}

static void single_results(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, u)
    {
        int64_t o = u / v->inner, i = u % v->inner;
        if (v->op == GD_OP_prod)
            one_prod(v, o, i);
        else if (v->op == GD_OP_any || v->op == GD_OP_all)
            one_truth(v, o, i);
        else
            one_extreme(v, o, i);
    }
}

static gd_status by_results(gd_device *device, const gd_call *call)
{
    view v = view_of(device, call);
    v.lowest = call->op == GD_OP_argmin;
    if (call->out[0]->numel) spread(device, &v, v.outer * v.inner, v.reduced, single_results);
    return GD_OK;
}

gd_status gd__cpu_prod(gd_device *device, const gd_call *call) { return by_results(device, call); }

gd_status gd__cpu_argmax(gd_device *device, const gd_call *call) { return by_results(device, call); }

gd_status gd__cpu_argmin(gd_device *device, const gd_call *call) { return by_results(device, call); }

gd_status gd__cpu_any(gd_device *device, const gd_call *call) { return by_results(device, call); }

gd_status gd__cpu_all(gd_device *device, const gd_call *call) { return by_results(device, call); }

/* ---- cumsum ---- */

static void running_sums(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, u)
    {
        int64_t o = u / v->inner, i = u % v->inner, step = v->inner;
        int64_t at = o * v->reduced * v->inner + i;
        if (v->reverse) {
            at += (v->reduced - 1) * v->inner;
            step = -step;
        }
        double f64 = 0;
        float f32 = 0;
        uint64_t i64 = 0;
        for (int64_t r = 0; r < v->reduced; r++, at += step) {
            if (v->type == GD_AS_F32)
                ((float *)(void *)v->out)[at] = f32 += ((const float *)(const void *)v->in)[at];
            else if (v->type == GD_AS_F64)
                ((double *)(void *)v->out)[at] = f64 += ((const double *)(const void *)v->in)[at];
            else
                ((uint64_t *)(void *)v->out)[at] = i64 += ((const uint64_t *)(const void *)v->in)[at];
        }
    }
}

gd_status gd__cpu_cumsum(gd_device *device, const gd_call *call)
{
    view v = view_of(device, call);
    v.reverse = call->attrs->i[5];
    if (call->out[0]->numel) spread(device, &v, v.outer * v.inner, v.reduced, running_sums);
    return GD_OK;
}

/* ---- elements as f64 ---- */

static void put_number(const view *v, char *to, int64_t i, double x)
{
    if (v->type == GD_AS_F32)
        ((float *)(void *)to)[i] = (float)x;
    else
        ((double *)(void *)to)[i] = x;
}

static void put_element(const view *v, int64_t i, double x) { put_number(v, v->out, i, x); }

/* ---- exponentials of rows ---- */

/* Writes exp(scale x - shift) to `to` (or only sums it when to is NULL); returns the sum. */
static double exp_row(const view *v, const char *row, int64_t count, double shift, char *to)
{
    _Alignas(64) char buffer[1024 * 8], scaled[1024 * 8];
    double sum = 0, f[2] = {-shift, 0}, scale[2] = {v->f, 0};
    for (int64_t i = 0; i < count; i += 1024) {
        int64_t n = count - i < 1024 ? count - i : 1024;
        char *out = to ? to + i * (int64_t)v->item : buffer;
        const char *x = row + i * (int64_t)v->item;
        if (v->f != 1) {
            v->vec->map[GD_OP_mul_scalar][v->type](scaled, x, NULL, NULL, n, scale);
            x = scaled;
        }
        v->vec->map[GD_OP_add_scalar][v->type](buffer, x, NULL, NULL, n, f);
        v->vec->map[GD_OP_exp][v->type](out, buffer, NULL, NULL, n, f);
        sum += v->type == GD_AS_F32 ? (double)v->vec->sum_f32((float *)(void *)out, n)
                                    : v->vec->sum_f64((double *)(void *)out, n);
    }
    return sum;
}

/* Multiplies a row in place; kernels do not take their result as operand, so each block is put aside first. */
static void scale_row(const view *v, char *row, double factor)
{
    _Alignas(64) char buffer[1024 * 8];
    double f[2] = {factor, 0};
    for (int64_t i = 0; i < v->reduced; i += 1024) {
        int64_t n = v->reduced - i < 1024 ? v->reduced - i : 1024;
        char *at = row + i * (int64_t)v->item;
        memcpy(buffer, at, (size_t)n * v->item);
        v->vec->map[GD_OP_mul_scalar][v->type](at, buffer, NULL, NULL, n, f);
    }
}

static void one_exp_row(const view *v, int64_t o)
{
    int64_t bytes = v->reduced * (int64_t)v->item;
    const char *row = v->in + o * bytes;
    char *out = v->out + (v->op == GD_OP_logsumexp ? o * (int64_t)v->item : o * bytes);
    int64_t count = v->causal ? v->reduced - v->causal + o % v->causal + 1 : v->reduced;
    double max = v->f * highest_of(v, row, count, 1), shift = isinf(max) ? 0 : max;
    if (v->op == GD_OP_softmax) {
        double sum = exp_row(v, row, count, shift, out);
        memset(out + count * (int64_t)v->item, 0, (size_t)((v->reduced - count) * (int64_t)v->item));
        scale_row(v, out, 1 / sum);
        return;
    }
    double log_sum = log(exp_row(v, row, count, shift, NULL)) + shift, f[2] = {-log_sum, 0};
    if (v->op == GD_OP_log_softmax)
        v->vec->map[GD_OP_add_scalar][v->type](out, row, NULL, NULL, v->reduced, f);
    else
        put_number(v, out, 0, log_sum);
}

static void exp_rows(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, o)
    one_exp_row(v, o);
}

/* A row costs as much as so many elements of a sum: a logarithm and a few calls, and an exponential for each number. */
static int64_t exp_cost(int64_t reduced) { return 512 + 8 * reduced; }

/* With inner axes the rows are first laid out one after the other. */
static gd_status exp_strided(gd_device *device, const gd_call *call, view v)
{
    gd_ctx *ctx = device->ctx;
    gd_tensor *x = call->in[0], *out = call->out[0];
    int64_t size[3] = {v.outer, v.inner, v.reduced};
    gd_scope_begin(ctx);
    gd_tensor *rows = gd__new(device, x->dtype, 3, size), *done = gd__new(device, x->dtype, 3, size);
    gd_tensor *seen = gd__bare(x), *target = gd__bare(out);
    gd_status status = rows && done && seen && target ? GD_OK : GD_NOMEM;
    if (!status) {
        seen->ndim = target->ndim = 3;
        int64_t stride[3] = {v.reduced * v.inner, 1, v.inner};
        for (int i = 0; i < 3; i++) {
            seen->size[i] = target->size[i] = size[i];
            seen->stride[i] = target->stride[i] = stride[i];
        }
        status = gd__copy_into(rows, seen);
    }
    if (!status) {
        v.in = rows->data;
        v.out = v.op == GD_OP_logsumexp ? out->data : done->data;
        spread(device, &v, v.outer * v.inner, exp_cost(v.reduced), exp_rows);
        if (v.op != GD_OP_logsumexp) status = gd__copy_into(target, done);
    }
    gd_scope_end(ctx);
    return status;
}

static gd_status exponentials(gd_device *device, const gd_call *call)
{
    view v = view_of(device, call);
    if (v.op == GD_OP_softmax)
        v.causal = call->attrs->i[5];
    else
        v.f = 1;
    if (call->out[0]->numel == 0) return GD_OK;
    if (v.inner > 1) return exp_strided(device, call, v);
    spread(device, &v, v.outer, exp_cost(v.reduced), exp_rows);
    return GD_OK;
}

gd_status gd__cpu_logsumexp(gd_device *device, const gd_call *call) { return exponentials(device, call); }

gd_status gd__cpu_softmax(gd_device *device, const gd_call *call) { return exponentials(device, call); }

gd_status gd__cpu_log_softmax(gd_device *device, const gd_call *call) { return exponentials(device, call); }

/* ---- rows and their gradients: each row in f64, elements `inner` apart ---- */

#define EACH_ELEMENT(v, first, i) \
    for (int64_t i = first, last_ = (first) + (v)->reduced * (v)->inner; i < last_; i += (v)->inner)

/* scale y (g - sum g y) */
static void one_softmax_grad(const view *v, int64_t first)
{
    double dot = 0;
    EACH_ELEMENT(v, first, i) dot += element(v, v->in, i) * element(v, v->other, i);
    EACH_ELEMENT(v, first, i)
    put_element(v, i, v->f * element(v, v->other, i) * (element(v, v->in, i) - dot));
}

static void moments(const view *v, const char *data, int64_t first, double *mean, double *rate)
{
    double sum = 0, squares = 0, n = (double)v->reduced;
    EACH_ELEMENT(v, first, i) sum += element(v, data, i);
    *mean = sum / n;
    EACH_ELEMENT(v, first, i)
    {
        double d = element(v, data, i) - *mean;
        squares += d * d;
    }
    *rate = 1 / sqrt(squares / n + v->f);
}

/* (x - mean) / sqrt(variance + eps) */
static void one_standardize(const view *v, int64_t first)
{
    double mean, rate;
    moments(v, v->in, first, &mean, &rate);
    EACH_ELEMENT(v, first, i) put_element(v, i, (element(v, v->in, i) - mean) * rate);
}

/* rate (g - mean g - y mean g y), y the standardized x */
static void one_standardize_grad(const view *v, int64_t first)
{
    double mean, rate, g = 0, gy = 0, n = (double)v->reduced;
    moments(v, v->other, first, &mean, &rate);
    EACH_ELEMENT(v, first, i)
    {
        g += element(v, v->in, i);
        gy += element(v, v->in, i) * (element(v, v->other, i) - mean) * rate;
    }
    EACH_ELEMENT(v, first, i)
    {
        double y = (element(v, v->other, i) - mean) * rate;
        put_element(v, i, rate * (element(v, v->in, i) - g / n - y * gy / n));
    }
}

static void plain_rows(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, u)
    {
        int64_t first = u / v->inner * v->reduced * v->inner + u % v->inner;
        if (v->op == GD_OP_softmax_grad)
            one_softmax_grad(v, first);
        else if (v->op == GD_OP_standardize)
            one_standardize(v, first);
        else
            one_standardize_grad(v, first);
    }
}

static gd_status by_row(gd_device *device, const gd_call *call)
{
    view v = view_of(device, call);
    if (call->out[0]->numel) spread(device, &v, v.outer * v.inner, v.reduced, plain_rows);
    return GD_OK;
}

gd_status gd__cpu_softmax_grad(gd_device *device, const gd_call *call) { return by_row(device, call); }

gd_status gd__cpu_standardize(gd_device *device, const gd_call *call) { return by_row(device, call); }

gd_status gd__cpu_standardize_grad(gd_device *device, const gd_call *call) { return by_row(device, call); }

/* ---- layer_norm: rows with weight and bias, which are as long as a row ---- */

typedef struct norm {
    view v;
    const char *weight, *bias, *stats; /* stats: mean and rate of each row */
    char *out, *more;                  /* more: stats, or the second sums */
} norm;

static void norm_rows(void *arg, int64_t task)
{
    norm *m = arg;
    view *v = &m->v;
    EACH_UNIT(v, task, row)
    {
        double mean, rate;
        moments(v, v->in, row * v->reduced, &mean, &rate);
        put_number(v, m->more, 2 * row, mean);
        put_number(v, m->more, 2 * row + 1, rate);
        for (int64_t k = 0, i = row * v->reduced; k < v->reduced; k++, i++)
            put_element(v, i,
                        (element(v, v->in, i) - mean) * rate * element(v, m->weight, k) +
                            element(v, m->bias, k));
    }
}

/* rate (h - mean h - y mean h y), h = g weight */
static void norm_grad_rows(void *arg, int64_t task)
{
    norm *m = arg;
    view *v = &m->v;
    EACH_UNIT(v, task, row)
    {
        double mean = element(v, m->stats, 2 * row), rate = element(v, m->stats, 2 * row + 1), h = 0, hy = 0,
               n = (double)v->reduced;
        int64_t first = row * v->reduced;
        for (int64_t k = 0; k < v->reduced; k++) {
            double x = element(v, v->in, first + k) * element(v, m->weight, k);
            h += x;
            hy += x * (element(v, v->other, first + k) - mean) * rate;
        }
        for (int64_t k = 0; k < v->reduced; k++) {
            double y = (element(v, v->other, first + k) - mean) * rate;
            put_element(v, first + k,
                        rate *
                            (element(v, v->in, first + k) * element(v, m->weight, k) - h / n - y * hy / n));
        }
    }
}

#define SOME 64

/* A task has some columns of all rows. */
static void norm_columns(void *arg, int64_t task)
{
    norm *m = arg;
    const view *v = &m->v;
    int64_t first = task * SOME, count = v->reduced - first < SOME ? v->reduced - first : SOME;
    double weight[SOME] = {0}, bias[SOME] = {0};
    for (int64_t row = 0; row < v->outer; row++) {
        double mean = element(v, m->stats, 2 * row), rate = element(v, m->stats, 2 * row + 1);
        for (int64_t k = 0, i = row * v->reduced + first; k < count; k++, i++) {
            double g = element(v, v->in, i);
            bias[k] += g;
            weight[k] += g * (element(v, v->other, i) - mean) * rate;
        }
    }
    for (int64_t k = 0; k < count; k++) {
        put_number(v, m->out, first + k, weight[k]);
        put_number(v, m->more, first + k, bias[k]);
    }
}

gd_status gd__cpu_layer_norm(gd_device *device, const gd_call *call)
{
    norm m = {.v = view_of(device, call),
              .weight = call->in[1]->data,
              .bias = call->in[2]->data,
              .more = call->out[1]->data};
    if (m.v.outer > 0 && m.v.reduced > 0) spread(device, &m.v, m.v.outer, m.v.reduced, norm_rows);
    return GD_OK;
}

gd_status gd__cpu_layer_norm_grad(gd_device *device, const gd_call *call)
{
    norm m = {.v = view_of(device, call), .weight = call->in[2]->data, .stats = call->in[3]->data};
    if (m.v.outer > 0 && m.v.reduced > 0) spread(device, &m.v, m.v.outer, m.v.reduced, norm_grad_rows);
    return GD_OK;
}

gd_status gd__cpu_layer_norm_sums(gd_device *device, const gd_call *call)
{
    norm m = {.v = view_of(device, call),
              .stats = call->in[2]->data,
              .out = call->out[0]->data,
              .more = call->out[1]->data};
    gd__parallel(device->ctx, (m.v.reduced + SOME - 1) / SOME, norm_columns, &m);
    return GD_OK;
}
