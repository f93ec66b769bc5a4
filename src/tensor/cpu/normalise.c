/* Exponentials of rows (softmax and its relatives) and standardized rows, over [outer, reduced, inner].
 *
 *   inner == 1: a row at a time; rows of at most 16 elements in transposed tiles of 64
 *   inner  > 1: strips of at most 128 columns; few long columns are cut into chunks of rows */
#include "tensor/cpu/reduce.h"

#include <string.h>

typedef gd_reduction view;

/* A row costs as much as so many elements of a sum: a logarithm and a few calls, and an exponential for each number. */
static int64_t exp_cost(int64_t reduced) { return 512 + 8 * reduced; }

/* n results of columns whose sums of exp(scale x - shift) are known: logarithms, or factors of the exponentials. */
static void results_of(const view *v, double *result, const double *sum, const double *shift, int64_t n)
{
    if (v->op == GD_OP_softmax) {
        for (int64_t c = 0; c < n; c++) result[c] = 1 / sum[c];
        return;
    }
    v->rows->logs(result, sum, shift, n);
    for (int64_t c = 0; c < n && v->op == GD_OP_log_softmax; c++) result[c] = -result[c];
}

/* What n shares are multiplied by after that, each rounded: the numbers from `at` on of the second operand; false: nothing. */
static bool factors(const view *v, double *by, int64_t at, int64_t n)
{
    const float *narrow = (const float *)(const void *)v->other;
    const double *wide = (const double *)(const void *)v->other;
    for (int64_t c = 0; c < n && v->other; c++)
        by[c] = v->type == GD_AS_F32 ? (double)narrow[at + c] : wide[at + c];
    return v->other != NULL;
}

/* ---- a row at a time ---- */

static void one_row(const view *v, int64_t o)
{
    int64_t bytes = v->reduced * (int64_t)v->item;
    const char *row = v->in + o * bytes;
    char *out = v->out + (v->op == GD_OP_logsumexp ? o * (int64_t)v->item : o * bytes);
    int64_t count = v->causal ? v->reduced - v->causal + o % v->causal + 1 : v->reduced;
    double highest, shift, result;
    v->rows->row[GD_FOLD_MAX](&highest, row, 1, count);
    v->rows->shifts(&shift, &highest, 1, v->f);
    double sum = v->rows->exp_row(v->op == GD_OP_softmax ? out : NULL, row, count, v->f, shift);
    results_of(v, &result, &sum, &shift, 1);
    if (v->op == GD_OP_softmax) {
        memset(out + count * (int64_t)v->item, 0, (size_t)((v->reduced - count) * (int64_t)v->item));
        v->rows->scale_row(out, count, result);
        if (factors(v, &result, o, 1)) v->rows->scale_row(out, count, result);
    } else if (v->op == GD_OP_log_softmax)
        v->rows->shift_row(out, row, v->reduced, result);
    else
        v->rows->from_f64(out, &result, 1, 1);
}

static void exp_rows(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, o)
    one_row(v, o);
}

/* ---- columns ---- */

/* The results of n columns at x, elements `apart`, to `to` in the same way; contiguous for logsumexp.  The first is
 * number `at` of all. */
static void strip(const view *v, char *to, const char *x, int64_t apart, int64_t n, int64_t at)
{
    double acc[GD_STRIP], shift[GD_STRIP], sum[GD_STRIP] = {0}, result[GD_STRIP];
    bool keep = v->op == GD_OP_softmax;
    v->rows->columns[GD_FOLD_MAX](acc, x, apart, v->reduced, n);
    v->rows->shifts(shift, acc, n, v->f);
    v->rows->exp_columns(keep ? to : NULL, apart, x, apart, v->reduced, n, v->f, shift, sum);
    results_of(v, result, sum, shift, n);
    if (keep) {
        v->rows->scale_columns(to, apart, v->reduced, n, result);
        if (factors(v, result, at, n)) v->rows->scale_columns(to, apart, v->reduced, n, result);
    } else if (v->op == GD_OP_log_softmax)
        v->rows->shift_columns(to, apart, x, apart, v->reduced, n, result);
    else
        v->rows->from_f64(to, result, n, 1);
}

static void exp_tiles(void *arg, int64_t task)
{
    view *v = arg;
    double tile[GD_TILE_LONG * GD_TILE_ROWS], done[GD_TILE_LONG * GD_TILE_ROWS];
    EACH_UNIT(v, task, u)
    {
        int64_t row = u * GD_TILE_ROWS, n = gd__tile_rows(v->outer, u), at = row * v->reduced;
        bool one = v->op == GD_OP_logsumexp;
        char *out = v->out + (one ? row : at) * (int64_t)v->item;
        v->rows->turn(tile, GD_TILE_ROWS, v->in + at * (int64_t)v->item, v->reduced, n, v->reduced);
        strip(v, one ? out : (char *)done, (const char *)tile, GD_TILE_ROWS, n, row);
        if (!one) v->rows->turn(out, v->reduced, done, GD_TILE_ROWS, v->reduced, n);
    }
}

static void exp_strips(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, u)
    {
        int64_t o = u / v->blocks, column = u % v->blocks * GD_STRIP,
                n = v->inner - column < GD_STRIP ? v->inner - column : GD_STRIP;
        int64_t at = o * v->reduced * v->inner + column,
                to = v->op == GD_OP_logsumexp ? o * v->inner + column : at;
        strip(v, v->out + to * (int64_t)v->item, v->in + at * (int64_t)v->item, v->inner, n,
              o * v->inner + column);
    }
}

static bool has_tiles(const view *v)
{
    return v->inner == 1 && v->reduced && v->reduced <= GD_TILE_LONG && !v->causal;
}

void gd__exponentials_of_rows(view *v)
{
    v->units = v->units_per_task = has_tiles(v) ? (v->outer + GD_TILE_ROWS - 1) / GD_TILE_ROWS : v->outer;
    (has_tiles(v) ? exp_tiles : exp_rows)(v, 0);
}

/* ---- few long columns: chunks of rows, several of which form a wide row ---- */

typedef struct tall {
    view v;
    int64_t wide, chunk, chunks;       /* rows of memory in a wide one; wide rows in a chunk */
    double *shift, *sum, *result, *by; /* [outer, wide * inner], sum: [outer, chunks, wide * inner] */
    bool finishing;                    /* the second pass */
} tall;

/* The wide rows of a chunk; the last chunk also has the remaining rows. */
static void tall_part(const tall *m, int64_t o, int64_t first, int64_t rows, int64_t columns, double *sum)
{
    const view *v = &m->v;
    int64_t at = o * v->reduced * v->inner + first, width = m->wide * v->inner;
    const char *x = v->in + at * (int64_t)v->item;
    char *to = v->out + at * (int64_t)v->item;
    const double *result = m->result + o * width;
    if (!m->finishing)
        v->rows->exp_columns(v->op == GD_OP_softmax ? to : NULL, columns, x, columns, rows, columns, v->f,
                             m->shift + o * width, sum);
    else if (v->op == GD_OP_softmax) {
        v->rows->scale_columns(to, columns, rows, columns, result);
        if (v->other) v->rows->scale_columns(to, columns, rows, columns, m->by + o * width);
    } else
        v->rows->shift_columns(to, columns, x, columns, rows, columns, result);
}

static void tall_chunk(void *arg, int64_t task)
{
    tall *m = arg;
    EACH_UNIT(&m->v, task, u)
    {
        int64_t o = u / m->chunks, c = u % m->chunks, width = m->wide * m->v.inner,
                all = m->v.reduced / m->wide;
        int64_t first = c * m->chunk, last = first + m->chunk < all ? first + m->chunk : all;
        double *sum = m->sum + u * width;
        tall_part(m, o, first * width, last - first, width, sum);
        if (c == m->chunks - 1) tall_part(m, o, all * width, m->v.reduced - all * m->wide, m->v.inner, sum);
    }
}

/* Sums of the chunks in their order, then of the rows in a wide row; the result is repeated for each. */
static void join_tall(tall *m)
{
    const view *v = &m->v;
    int64_t width = m->wide * v->inner;
    for (int64_t o = 0; o < v->outer; o++) {
        double *sum = m->sum + o * m->chunks * width, *result = m->result + o * width;
        for (int64_t c = 1; c < m->chunks; c++)
            for (int64_t i = 0; i < width; i++) sum[i] += sum[c * width + i];
        for (int64_t i = v->inner; i < width; i++) sum[i % v->inner] += sum[i];
        results_of(v, result, sum, m->shift + o * width, v->inner);
        for (int64_t i = v->inner; i < width; i++) result[i] = result[i - v->inner];
        double *by = m->by + o * width;
        for (int64_t i = 0; i < width && factors(v, by + i, o * v->inner, v->inner); i += v->inner) {}
        if (v->op == GD_OP_logsumexp)
            v->rows->from_f64(v->out + o * v->inner * (int64_t)v->item, result, v->inner, 1);
    }
}

#define WIDE_ROWS 512 /* of a chunk */

static gd_status exp_tall(gd_device *device, view *seen)
{
    gd_ctx *ctx = device->ctx;
    tall m = {.v = *seen, .wide = GD_STRIP / seen->inner, .chunk = WIDE_ROWS};
    view *v = &m.v, most = *seen;
    int64_t width = m.wide * v->inner, all = v->reduced / m.wide, results = v->outer * width;
    m.chunks = (all + m.chunk - 1) / m.chunk;
    size_t bytes = (size_t)(results * (4 + m.chunks)) * sizeof(double);
    double *room = gd__calloc(ctx, bytes);
    if (!room) return GD_NOMEM;
    m.shift = room;
    m.result = room + results;
    m.by = room + 2 * results;
    m.sum = room + 3 * results;
    most.out = (char *)(m.sum + results * m.chunks);
    gd_status status = gd__fold(device, &most, GD_FOLD_MAX);
    for (int64_t o = 0; o < v->outer && !status; o++) {
        double *shift = m.shift + o * width;
        v->rows->shifts(shift, most.out + o * v->inner * (int64_t)v->item, v->inner, v->f);
        for (int64_t i = v->inner; i < width; i++) shift[i] = shift[i - v->inner];
    }
    for (int pass = 0; pass < (v->op == GD_OP_logsumexp ? 1 : 2) && !status; pass++) {
        m.finishing = pass;
        gd__spread(device, v, v->outer * m.chunks, 8 * m.chunk * width, tall_chunk);
        if (pass == 0) join_tall(&m);
    }
    gd__free(ctx, room, bytes);
    return status;
}

static gd_status exponentials(gd_device *device, const gd_call *call)
{
    view v = gd__reduction_of(device, call);
    if (v.op == GD_OP_softmax)
        v.causal = call->attrs->i[5];
    else
        v.f = 1;
    if (v.op == GD_OP_softmax_times) v.op = GD_OP_softmax;
    if (call->out[0]->numel == 0) return GD_OK;
    v.blocks = (v.inner + GD_STRIP - 1) / GD_STRIP;
    if (has_tiles(&v))
        gd__spread(device, &v, (v.outer + GD_TILE_ROWS - 1) / GD_TILE_ROWS, 8 * GD_TILE_ROWS * v.reduced,
                   exp_tiles);
    else if (v.inner == 1 || v.reduced == 0)
        gd__spread(device, &v, v.outer * v.inner, exp_cost(v.reduced), exp_rows);
    else if (v.inner <= GD_STRIP / 2 && v.reduced >= 4096)
        return exp_tall(device, &v);
    else
        gd__spread(device, &v, v.outer * v.blocks,
                   exp_cost(v.reduced * (v.inner < GD_STRIP ? v.inner : GD_STRIP)), exp_strips);
    return GD_OK;
}

gd_status gd__cpu_logsumexp(gd_device *device, const gd_call *call) { return exponentials(device, call); }

gd_status gd__cpu_softmax(gd_device *device, const gd_call *call) { return exponentials(device, call); }

gd_status gd__cpu_log_softmax(gd_device *device, const gd_call *call) { return exponentials(device, call); }

gd_status gd__cpu_softmax_times(gd_device *device, const gd_call *call) { return exponentials(device, call); }

/* ---- scale y (g - sum g y) ---- */

static void softmax_grads(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, u)
    {
        int64_t o = u / v->blocks, column = u % v->blocks * GD_STRIP,
                n = v->inner - column < GD_STRIP ? v->inner - column : GD_STRIP,
                at = (o * v->reduced * v->inner + column) * (int64_t)v->item;
        if (v->inner == 1)
            v->rows->softmax_grad_row(v->out + at, v->in + at, v->other + at, v->reduced, v->f);
        else
            v->rows->softmax_grad(v->out + at, v->in + at, v->other + at, v->inner, v->reduced, n, v->f);
    }
}

static void softmax_grad_tiles(void *arg, int64_t task)
{
    view *v = arg;
    double g[GD_TILE_LONG * GD_TILE_ROWS], y[GD_TILE_LONG * GD_TILE_ROWS], done[GD_TILE_LONG * GD_TILE_ROWS];
    EACH_UNIT(v, task, u)
    {
        int64_t n = gd__tile_rows(v->outer, u), at = u * GD_TILE_ROWS * v->reduced * (int64_t)v->item;
        v->rows->turn(g, GD_TILE_ROWS, v->in + at, v->reduced, n, v->reduced);
        v->rows->turn(y, GD_TILE_ROWS, v->other + at, v->reduced, n, v->reduced);
        v->rows->softmax_grad(done, g, y, GD_TILE_ROWS, v->reduced, n, v->f);
        v->rows->turn(v->out + at, v->reduced, done, GD_TILE_ROWS, v->reduced, n);
    }
}

gd_status gd__cpu_softmax_grad(gd_device *device, const gd_call *call)
{
    view v = gd__reduction_of(device, call);
    if (call->out[0]->numel == 0) return GD_OK;
    v.blocks = (v.inner + GD_STRIP - 1) / GD_STRIP;
    if (v.inner == 1 && v.reduced <= GD_TILE_LONG)
        gd__spread(device, &v, (v.outer + GD_TILE_ROWS - 1) / GD_TILE_ROWS, GD_TILE_ROWS * v.reduced,
                   softmax_grad_tiles);
    else
        gd__spread(device, &v, v.outer * v.blocks, v.reduced * (v.inner < GD_STRIP ? v.inner : GD_STRIP),
                   softmax_grads);
    return GD_OK;
}

/* ---- g - exp(y) sum g ---- */

#define SHARES 1024 /* of rows or columns side by side */
#define PIECE  4096 /* elements of one of few long rows */

static int64_t rows_together(const view *v)
{
    return v->reduced <= GD_TILE_LONG ? GD_TILE_ROWS : v->reduced <= SHARES / 16 ? 16 : 8;
}

/* Some rows: their sums, then each beside its own. */
static void less_rows(void *arg, int64_t task)
{
    view *v = arg;
    double sums[GD_TILE_ROWS], shares[SHARES];
    int64_t together = rows_together(v), item = (int64_t)v->item;
    EACH_UNIT(v, task, u)
    {
        int64_t row = u * together, n = v->outer - row < together ? v->outer - row : together,
                at = row * v->reduced * item;
        (v->reduced <= GD_TILE_LONG ? v->rows->short_rows : v->rows->row)[GD_FOLD_SUM](sums, v->in + at, n,
                                                                                       v->reduced);
        if (n * v->reduced <= SHARES) {
            v->rows->runs(shares, sums, &(gd_runs){.outer = 1, .rows = n, .apart = 1, .n = v->reduced});
            v->rows->less_shares(v->out + at, v->in + at, v->other + at, shares, 1, n * v->reduced);
            continue;
        }
        for (int64_t r = 0; r < n; r++, at += v->reduced * item)
            v->rows->less_shares(v->out + at, v->in + at, v->other + at, (const char *)sums + r * item, 0,
                                 v->reduced);
    }
}

/* A piece of an outer row, whose sums are in `partial`: of short rows several side by side. */
static void less_pieces(void *arg, int64_t task)
{
    view *v = arg;
    char shares[SHARES * 8];
    int64_t item = (int64_t)v->item;
    EACH_UNIT(v, task, u)
    {
        int64_t o = u / v->chunks, first = u % v->chunks * v->chunk, all = v->reduced * v->inner,
                n = all - first < v->chunk ? all - first : v->chunk, wide = v->inner, step;
        const char *share = v->partial + o * v->inner * item;
        if (v->inner > 1 && v->inner <= SHARES / 2) {
            gd__repeat(shares, share, SHARES / v->inner, (size_t)(v->inner * item));
            wide = SHARES / v->inner * v->inner;
            share = shares;
        }
        for (int64_t i = 0; i < n; i += step) {
            int64_t at = (o * all + first + i) * item;
            step = v->inner == 1 || n - i < wide ? n - i : wide;
            v->rows->less_shares(v->out + at, v->in + at, v->other + at, share, v->inner > 1, step);
        }
    }
}

gd_status gd__cpu_log_softmax_grad(gd_device *device, const gd_call *call)
{
    view v = gd__reduction_of(device, call), sum = v;
    if (call->out[0]->numel == 0) return GD_OK;
    if (v.inner == 1 && v.reduced <= PIECE) {
        int64_t together = rows_together(&v);
        gd__spread(device, &v, (v.outer + together - 1) / together, 8 * together * v.reduced, less_rows);
        return GD_OK;
    }
    size_t bytes = (size_t)(v.outer * v.inner) * v.item;
    if (!(sum.out = v.partial = gd__alloc(device->ctx, bytes))) return GD_NOMEM;
    gd_status status = gd__fold(device, &sum, GD_FOLD_SUM);
    v.chunk = v.inner > PIECE ? v.inner : PIECE / v.inner * v.inner;
    v.chunks = (v.reduced * v.inner + v.chunk - 1) / v.chunk;
    if (!status) gd__spread(device, &v, v.outer * v.chunks, 8 * v.chunk, less_pieces);
    gd__free(device->ctx, v.partial, bytes);
    return status;
}

/* ---- standardized rows: (x - mean) / sqrt(variance + eps) ---- */

typedef struct norm {
    view v;
    const char *weight, *bias, *stats; /* stats: mean and rate of each row */
    char *out, *more;                  /* more: stats, or the second sums */
} norm;

static void get_stats(const norm *m, int64_t row, double *mean, double *rate)
{
    const float *narrow = (const float *)(const void *)m->stats;
    const double *wide = (const double *)(const void *)m->stats;
    bool f32 = m->v.type == GD_AS_F32;
    *mean = f32 ? (double)narrow[2 * row] : wide[2 * row];
    *rate = f32 ? (double)narrow[2 * row + 1] : wide[2 * row + 1];
}

static void norm_rows(void *arg, int64_t task)
{
    norm *m = arg;
    const view *v = &m->v;
    EACH_UNIT(v, task, row)
    {
        double stats[2];
        int64_t at = row * v->reduced * (int64_t)v->item;
        v->rows->moments(v->in + at, v->reduced, v->f, &stats[0], &stats[1]);
        if (m->more) v->rows->from_f64(m->more + 2 * row * (int64_t)v->item, stats, 2, 1);
        v->rows->standardize(v->out + at, v->in + at, v->reduced, stats[0], stats[1], m->weight, m->bias);
    }
}

static void norm_grad_rows(void *arg, int64_t task)
{
    norm *m = arg;
    const view *v = &m->v;
    EACH_UNIT(v, task, row)
    {
        double mean, rate;
        int64_t at = row * v->reduced * (int64_t)v->item;
        if (m->stats)
            get_stats(m, row, &mean, &rate);
        else
            v->rows->moments(v->other + at, v->reduced, v->f, &mean, &rate);
        v->rows->standardize_grad(v->out + at, v->in + at, v->other + at, v->reduced, mean, rate, m->weight);
    }
}

static gd_status by_row(gd_device *device, norm *m, void (*fn)(void *, int64_t))
{
    if (m->v.outer > 0 && m->v.reduced > 0) gd__spread(device, &m->v, m->v.outer, m->v.reduced, fn);
    return GD_OK;
}

gd_status gd__cpu_standardize(gd_device *device, const gd_call *call)
{
    return by_row(device, &(norm){.v = gd__reduction_of(device, call)}, norm_rows);
}

gd_status gd__cpu_standardize_grad(gd_device *device, const gd_call *call)
{
    return by_row(device, &(norm){.v = gd__reduction_of(device, call)}, norm_grad_rows);
}

gd_status gd__cpu_layer_norm(gd_device *device, const gd_call *call)
{
    norm m = {.v = gd__reduction_of(device, call),
              .weight = call->in[1]->data,
              .bias = call->in[2]->data,
              .more = call->out[1]->data};
    return by_row(device, &m, norm_rows);
}

gd_status gd__cpu_layer_norm_grad(gd_device *device, const gd_call *call)
{
    norm m = {.v = gd__reduction_of(device, call), .weight = call->in[2]->data, .stats = call->in[3]->data};
    return by_row(device, &m, norm_grad_rows);
}

/* A task has some columns of all rows. */
#define SOME 64

static void norm_columns(void *arg, int64_t task)
{
    norm *m = arg;
    const view *v = &m->v;
    int64_t first = task * SOME, count = v->reduced - first < SOME ? v->reduced - first : SOME;
    double weight[SOME] = {0}, bias[SOME] = {0};
    for (int64_t row = 0; row < v->outer; row++) {
        double mean, rate;
        int64_t at = (row * v->reduced + first) * (int64_t)v->item;
        get_stats(m, row, &mean, &rate);
        v->rows->norm_sums(weight, bias, v->in + at, v->other + at, count, mean, rate);
    }
    v->rows->from_f64(m->out + first * (int64_t)v->item, weight, count, 1);
    v->rows->from_f64(m->more + first * (int64_t)v->item, bias, count, 1);
}

gd_status gd__cpu_layer_norm_sums(gd_device *device, const gd_call *call)
{
    norm m = {.v = gd__reduction_of(device, call),
              .stats = call->in[2]->data,
              .out = call->out[0]->data,
              .more = call->out[1]->data};
    gd__parallel(device->ctx, (m.v.reduced + SOME - 1) / SOME, norm_columns, &m);
    return GD_OK;
}
