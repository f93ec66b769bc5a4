/* Reductions over [outer, reduced, inner], in an order that does not depend on threads:
 *
 *   inner == 1: every row is cut into chunks of 4096, each folded in sixteen lanes, the chunks joined pairwise
 *   inner  > 1: rows of `inner` are folded in chunks of 128 rows, the chunk rows joined pairwise
 *
 * Rows of at most 16 elements are transposed in tiles of 64, so that a vector has an element of each. */
#include "tensor/cpu/reduce.h"

#include <string.h>

#define CHUNK         4096
#define ROWS          128
#define COLUMNS       1024 /* columns of a block: does not affect sums */
#define COLUMNS_ALONE 128  /* if there is one chunk of rows */

typedef gd_reduction view;

gd_reduction gd__reduction_of(gd_device *device, const gd_call *call)
{
    gd_tensor *in = call->in[0];
    const int64_t *i = call->attrs->i;
    const gd_vec_table *vec = gd__vec(device);
    int type = gd__compute_type(in->dtype);
    return (view){.vec = vec,
                  .rows = type == GD_AS_I64 ? NULL : &vec->rows[type],
                  .in = in->data,
                  .other = call->nin > 1 ? call->in[1]->data : NULL,
                  .out = call->out[0]->data,
                  .f = call->attrs->f[0],
                  .outer = i[0],
                  .reduced = i[1],
                  .inner = i[2],
                  .type = type,
                  .dtype = in->dtype,
                  .load = vec->load[in->dtype],
                  .item = type == GD_AS_F32 ? 4 : 8,
                  .step = gd__item_size(in),
                  .op = call->op};
}

void gd__spread(gd_device *device, view *v, int64_t units, int64_t size, void (*fn)(void *, int64_t))
{
    v->units = units;
    v->units_per_task = size >= GD_MICROBATCH ? 1 : GD_MICROBATCH / (size > 0 ? size : 1);
    gd__run_tasks(device->ctx, units * size, (units + v->units_per_task - 1) / v->units_per_task, fn, v);
}

/* Chunks and blocks of columns, and numbering of the units of work. */
static void cut(view *v)
{
    v->chunk = v->inner == 1 ? CHUNK : ROWS;
    v->chunks = (v->reduced + v->chunk - 1) / v->chunk;
    v->columns = v->outer * v->chunks == 1 && v->inner <= COLUMNS ? COLUMNS_ALONE : COLUMNS;
    v->blocks = (v->inner + v->columns - 1) / v->columns;
}

/* One unit: rows first..last of columns column..column + n of the outer row `row`; at: its place in [outer, chunks, inner]. */
typedef struct unit {
    int64_t row, chunk, first, last, column, n, at;
    const char *x;
} unit;

static unit unit_at(const view *v, int64_t u)
{
    unit p = {.column = u % v->blocks * v->columns,
              .chunk = u / v->blocks % v->chunks,
              .row = u / v->blocks / v->chunks};
    p.first = p.chunk * v->chunk;
    p.last = p.first + v->chunk < v->reduced ? p.first + v->chunk : v->reduced;
    p.n = v->inner - p.column < v->columns ? v->inner - p.column : v->columns;
    p.at = (p.row * v->chunks + p.chunk) * v->inner + p.column;
    p.x = v->in + ((p.row * v->reduced + p.first) * v->inner + p.column) * (int64_t)v->step;
    return p;
}

static void spread_units(gd_device *device, view *v, void (*fn)(void *, int64_t))
{
    int64_t length = v->reduced < v->chunk ? v->reduced : v->chunk;
    gd__spread(device, v, v->outer * v->chunks * v->blocks,
               length * (v->inner < v->columns ? v->inner : v->columns), fn);
}

/* ---- sums, products, extremes ---- */

/* Integers wrap, so their order does not matter. */
static int64_t fold_integers(const view *v, const char *x, int64_t n)
{
    int64_t loaded[COLUMNS];
    uint64_t sum = 0, product = 1;
    for (int64_t done = 0; done < n; done += COLUMNS) {
        int64_t k = n - done < COLUMNS ? n - done : COLUMNS;
        const void *from = x + done * (int64_t)v->step;
        if (v->load) v->load(loaded, from, k);
        const int64_t *values = v->load ? loaded : from;
        if (v->fold == GD_FOLD_SUM)
            for (int64_t i = 0; i < k; i++) sum += (uint64_t)values[i];
        else
            for (int64_t i = 0; i < k; i++) product *= (uint64_t)values[i];
    }
    return (int64_t)(v->fold == GD_FOLD_SUM ? sum : product);
}

static void join_row(const view *v, char *acc, const char *x, int64_t n)
{
    uint64_t *a = (uint64_t *)(void *)acc;
    const uint64_t *b = (const uint64_t *)(const void *)x;
    if (v->rows)
        v->rows->join[v->fold](acc, x, n);
    else if (v->fold == GD_FOLD_SUM)
        for (int64_t i = 0; i < n; i++) a[i] += b[i];
    else
        for (int64_t i = 0; i < n; i++) a[i] *= b[i];
}

/* How many units from u on, of those up to `end`, have chunks of the same length: rows that follow one another. */
static int64_t equal_chunks(const view *v, int64_t u, int64_t end)
{
    int64_t left = v->chunks - u % v->chunks, last = v->reduced - (v->chunks - 1) * v->chunk;
    if (last == v->chunk || v->chunks == 1) return end - u;
    return left == 1 ? 1 : left - 1 < end - u ? left - 1 : end - u;
}

static void fold_rows(void *arg, int64_t task)
{
    view *v = arg;
    int64_t u = task * v->units_per_task, end = u + v->units_per_task, count;
    if (end > v->units) end = v->units;
    for (; u < end; u += count) {
        unit p = unit_at(v, u);
        int64_t n = p.last - p.first;
        char *out = v->partial + p.at * (int64_t)v->item;
        count = v->rows ? equal_chunks(v, u, end) : 1;
        if (gd__is_half(v->dtype))
            v->vec->sum_halves[gd__half_at(v->dtype)]((float *)(void *)out, (const void *)p.x, count, n);
        else if (v->rows)
            v->rows->row[v->fold](out, p.x, count, n);
        else
            *(int64_t *)(void *)out = fold_integers(v, p.x, n);
    }
}

static void fold_tiles(void *arg, int64_t task)
{
    view *v = arg;
    double loaded[GD_TILE_LONG * GD_TILE_ROWS];
    EACH_UNIT(v, task, u)
    {
        int64_t row = u * GD_TILE_ROWS, rows = gd__tile_rows(v->outer, u);
        const void *x = v->in + row * v->reduced * (int64_t)v->step;
        if (v->load) v->load(loaded, x, rows * v->reduced);
        v->rows->short_rows[v->fold](v->partial + row * (int64_t)v->item, v->load ? loaded : x, rows,
                                     v->reduced);
    }
}

/* Rows of numbers that are loaded first: as many at a time as there is room for, what was folded before as the first of them. */
static void fold_loaded(const view *v, const unit *p, char *acc)
{
    int64_t room[4 * COLUMNS], most = (int64_t)sizeof room / (int64_t)v->item / p->n,
                               bytes = p->n * (int64_t)v->item;
    for (int64_t r = p->first, rows; r < p->last; r += rows) {
        int64_t kept = r > p->first;
        char *to = (char *)room + kept * bytes;
        rows = p->last - r < most - kept ? p->last - r : most - kept;
        const char *x = p->x + (r - p->first) * v->inner * (int64_t)v->step;
        if (kept) memcpy(room, acc, (size_t)bytes);
        if (p->n == v->inner)
            v->load(to, x, rows * p->n);
        else
            for (int64_t k = 0; k < rows; k++)
                v->load(to + k * bytes, x + k * v->inner * (int64_t)v->step, p->n);
        v->rows->columns[v->fold](acc, room, p->n, rows + kept, p->n);
    }
}

static void fold_columns(void *arg, int64_t task)
{
    view *v = arg;
    int64_t loaded[COLUMNS];
    EACH_UNIT(v, task, u)
    {
        unit p = unit_at(v, u);
        char *acc = v->partial + p.at * (int64_t)v->item;
        if (v->rows && v->load)
            fold_loaded(v, &p, acc);
        else if (v->rows)
            v->rows->columns[v->fold](acc, p.x, v->inner, p.last - p.first, p.n);
        const char *x = p.x;
        for (int64_t r = p.first; r < p.last && !v->rows; r++, x += v->inner * (int64_t)v->step) {
            if (v->load) v->load(loaded, x, p.n);
            const char *from = v->load ? (const char *)loaded : x;
            if (r == p.first)
                memcpy(acc, from, (size_t)p.n * v->item);
            else
                join_row(v, acc, from, p.n);
        }
    }
}

/* Joins the chunks of one outer row pairwise, then moves the result out: 16-bit results are rounded here, once. */
static void join_chunks(void *arg, int64_t task)
{
    view *v = arg;
    if (v->chunks == 1) {
        int64_t row = task * v->units_per_task, rows = v->units - row;
        if (rows > v->units_per_task) rows = v->units_per_task;
        v->store(v->out + row * v->inner * (int64_t)v->step, v->partial + row * v->inner * (int64_t)v->item,
                 rows * v->inner);
        return;
    }
    EACH_UNIT(v, task, row)
    {
        int64_t bytes = v->inner * (int64_t)v->item;
        char *p = v->partial + row * v->chunks * bytes;
        for (int64_t width = 1; width < v->chunks; width *= 2)
            for (int64_t c = 0; c + width < v->chunks; c += 2 * width)
                join_row(v, p + c * bytes, p + (c + width) * bytes, v->inner);
        if (v->store)
            v->store(v->out + row * v->inner * (int64_t)v->step, p, v->inner);
        else
            memcpy(v->out + row * bytes, p, (size_t)bytes);
    }
}

gd_status gd__fold(gd_device *device, view *v, int fold)
{
    v->fold = fold;
    cut(v);
    size_t bytes = (size_t)(v->outer * v->chunks * v->inner) * v->item;
    bool joined = v->chunks > 1 || v->store,
         tiled = v->inner == 1 && v->reduced <= GD_TILE_LONG && v->outer > 1;
    v->partial = joined ? gd__alloc(device->ctx, bytes) : v->out;
    if (!v->partial) return GD_NOMEM;
    if (tiled && v->rows)
        gd__spread(device, v, (v->outer + GD_TILE_ROWS - 1) / GD_TILE_ROWS, GD_TILE_ROWS * v->reduced,
                   fold_tiles);
    else
        spread_units(device, v, v->inner == 1 ? fold_rows : fold_columns);
    if (joined) {
        gd__spread(device, v, v->outer, v->chunks * v->inner, join_chunks);
        gd__free(device->ctx, v->partial, bytes);
    }
    return GD_OK;
}

/* begin: the result for no elements, 0 or 1 */
static gd_status folded(gd_device *device, const gd_call *call, int fold, int begin)
{
    view v = gd__reduction_of(device, call);
    gd_tensor *out = call->out[0];
    v.store = gd__is_half(v.dtype) ? v.vec->store[v.dtype] : NULL;
    if (gd__item_size(out) != (v.store ? v.step : v.item))
        return gd_fail(device->ctx, GD_INTERNAL, "%s: a result of %s", gd__ops[call->op].name,
                       gd_dtype_name(out->dtype));
    if (out->numel == 0) return GD_OK;
    if (v.reduced > 0) return gd__fold(device, &v, fold);
    gd_attrs attrs = {.nf = 1, .f = {begin}};
    return gd__cpu_fill(device, &(gd_call){.op = GD_OP_fill, .nout = 1, .out = call->out, .attrs = &attrs});
}

gd_status gd__cpu_sum(gd_device *device, const gd_call *call) { return folded(device, call, GD_FOLD_SUM, 0); }

gd_status gd__cpu_sum_squares(gd_device *device, const gd_call *call)
{
    return folded(device, call, GD_FOLD_SQUARES, 0);
}

gd_status gd__cpu_prod(gd_device *device, const gd_call *call)
{
    return folded(device, call, GD_FOLD_PROD, 1);
}

gd_status gd__cpu_highest(gd_device *device, const gd_call *call)
{
    return folded(device, call, GD_FOLD_MAX, 0);
}

gd_status gd__cpu_lowest(gd_device *device, const gd_call *call)
{
    return folded(device, call, GD_FOLD_MIN, 0);
}

/* ---- indices of extremes: the first of equals; the first NaN beats all ---- */

#define BLOCK 1024

static double element(const view *v, const char *data, int64_t i)
{
    return v->type == GD_AS_F32 ? (double)((const float *)(const void *)data)[i]
                                : ((const double *)(const void *)data)[i];
}

static double extreme_of(const view *v, const char *x, int64_t n)
{
    double found;
    v->rows->row[v->f < 0 ? GD_FOLD_MIN : GD_FOLD_MAX](&found, x, 1, n);
    return element(v, (const char *)&found, 0);
}

/* The place of the extreme of n elements: block by block, then in the first block that has it. */
static int64_t place_in_row(const view *v, const char *row, int64_t length)
{
    double best = 0, sign = v->f;
    int64_t at = 0;
    for (int64_t r = 0; r < length && best == best; r += BLOCK) {
        int64_t n = length - r < BLOCK ? length - r : BLOCK;
        double here = extreme_of(v, row + r * (int64_t)v->item, n);
        if (r && here == here && sign * here <= sign * best) continue;
        best = here;
        at = r;
    }
    row += at * (int64_t)v->item;
    return at + (v->type == GD_AS_F32
                     ? v->vec->first_f32((const float *)(const void *)row, length - at, (float)best)
                     : v->vec->first_f64((const double *)(const void *)row, length - at, best));
}

static void place_columns(void *arg, int64_t task)
{
    view *v = arg;
    double thrown[COLUMNS];
    EACH_UNIT(v, task, u)
    {
        unit p = unit_at(v, u);
        char *acc = v->partial ? v->partial + p.at * (int64_t)v->item : (char *)thrown;
        if (v->inner > 1) {
            v->rows->places(acc, v->place + p.at, p.x, v->inner, p.last - p.first, p.n, p.first, v->f);
            continue;
        }
        int64_t place = place_in_row(v, p.x, p.last - p.first);
        memcpy(acc, p.x + place * (int64_t)v->item, v->item);
        v->place[p.at] = p.first + place;
    }
}

static void place_tiles(void *arg, int64_t task)
{
    view *v = arg;
    double tile[GD_TILE_LONG * GD_TILE_ROWS], thrown[GD_TILE_ROWS];
    EACH_UNIT(v, task, u)
    {
        int64_t row = u * GD_TILE_ROWS, n = gd__tile_rows(v->outer, u);
        v->rows->turn(tile, GD_TILE_ROWS, v->in + row * v->reduced * (int64_t)v->item, v->reduced, n,
                      v->reduced);
        v->rows->places(thrown, v->place + row, tile, GD_TILE_ROWS, v->reduced, n, 0, v->f);
    }
}

/* The first of equal chunks wins. */
static void join_places(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, u)
    {
        int64_t row = u / v->inner, column = u % v->inner, best = row * v->chunks * v->inner + column;
        for (int64_t c = 1, at = best + v->inner; c < v->chunks; c++, at += v->inner) {
            double a = v->f * element(v, v->partial, best), b = v->f * element(v, v->partial, at);
            if (a == a && !(b <= a)) best = at;
        }
        ((int64_t *)(void *)v->out)[u] = v->place[best];
    }
}

static gd_status float_places(gd_device *device, view *v)
{
    cut(v);
    int64_t units = v->outer * v->chunks * v->inner;
    size_t bytes = (size_t)units * (v->item + 8);
    v->place = (int64_t *)(void *)v->out;
    if (v->chunks > 1) {
        char *room = gd__alloc(device->ctx, bytes);
        if (!room) return GD_NOMEM;
        v->place = (int64_t *)(void *)room;
        v->partial = room + units * 8;
    }
    if (v->inner == 1 && v->reduced <= GD_TILE_LONG)
        gd__spread(device, v, (v->outer + GD_TILE_ROWS - 1) / GD_TILE_ROWS, GD_TILE_ROWS * v->reduced,
                   place_tiles);
    else
        spread_units(device, v, place_columns);
    if (v->chunks > 1) {
        gd__spread(device, v, v->outer * v->inner, v->chunks, join_places);
        gd__free(device->ctx, v->place, bytes);
    }
    return GD_OK;
}

#define WALK(type, body)                                                                     \
    do {                                                                                     \
        const type *x = (const type *)(const void *)v->in + (o * v->reduced) * v->inner + i; \
        for (int64_t r = 0; r < v->reduced; r++, x += v->inner) body                         \
    } while (0)

#define EXTREME(type)                                           \
    WALK(type, {                                                \
        if (r && !(v->f < 0 ? *x < best : *x > best)) continue; \
        best = *x;                                              \
        place = r;                                              \
    })

static void integer_places(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, u)
    {
        int64_t o = u / v->inner, i = u % v->inner, place = 0, best = 0;
        if (v->dtype == GD_I64)
            EXTREME(int64_t);
        else if (v->dtype == GD_I32)
            EXTREME(int32_t);
        else
            EXTREME(uint8_t);
        ((int64_t *)(void *)v->out)[u] = place;
    }
}

/* sign: 1 for the highest, -1 for the lowest */
static gd_status placed(gd_device *device, const gd_call *call, double sign)
{
    view v = gd__reduction_of(device, call);
    v.f = sign;
    if (call->out[0]->numel == 0) return GD_OK;
    if (v.reduced == 0) {
        memset(v.out, 0, (size_t)call->out[0]->numel * 8);
        return GD_OK;
    }
    if (v.rows) return float_places(device, &v);
    gd__spread(device, &v, v.outer * v.inner, v.reduced, integer_places);
    return GD_OK;
}

gd_status gd__cpu_argmax(gd_device *device, const gd_call *call) { return placed(device, call, 1); }

gd_status gd__cpu_argmin(gd_device *device, const gd_call *call) { return placed(device, call, -1); }

/* ---- truth: bytes that are 0 or 1 ---- */

static bool truth_of_row(const uint8_t *x, int64_t n, bool any)
{
    if (n > GD_TILE_LONG) return (memchr(x, any, (size_t)n) != NULL) == any;
    bool found = false; /* the searched value decides */
    for (int64_t i = 0; i < n; i++) found |= x[i] == any;
    return found == any;
}

/* Units are rows. */
static void truths_of_rows(void *arg, int64_t task)
{
    view *v = arg;
    const int64_t n = v->reduced;
    const bool any = v->op == GD_OP_any;
    const uint8_t *x = (const uint8_t *)v->in + task * v->units_per_task * n;
    uint8_t *out = (uint8_t *)v->out;
#define SHORT_ROWS(join2, join3, join4)                                      \
    switch (n) {                                                             \
    case 2: EACH_UNIT(v, task, u) out[u] = (uint8_t)(join2), x += 2; return; \
    case 3: EACH_UNIT(v, task, u) out[u] = (uint8_t)(join3), x += 3; return; \
    case 4: EACH_UNIT(v, task, u) out[u] = (uint8_t)(join4), x += 4; return; \
    default: break;                                                          \
    }
    if (any)
        SHORT_ROWS(x[0] | x[1], x[0] | x[1] | x[2], x[0] | x[1] | x[2] | x[3])
    else
        SHORT_ROWS(x[0] & x[1], x[0] & x[1] & x[2], x[0] & x[1] & x[2] & x[3])
#undef SHORT_ROWS
    EACH_UNIT(v, task, u)
    {
        out[u] = truth_of_row(x, n, any);
        x += n;
    }
}

/* Eight at a time. */
static void join_truths(uint8_t *out, const uint8_t *x, int64_t n, bool any)
{
    int64_t i = 0;
    for (uint64_t a, b; i + 8 <= n; i += 8) {
        memcpy(&a, out + i, 8);
        memcpy(&b, x + i, 8);
        a = any ? a | b : a & b;
        memcpy(out + i, &a, 8);
    }
    for (; i < n; i++) out[i] = (uint8_t)(any ? out[i] | x[i] : out[i] & x[i]);
}

/* Few columns: as many rows as a block holds are joined as one long row, and the block is folded at the end. */
static void truths_of_few(uint8_t *out, const uint8_t *x, int64_t rows, int64_t columns, bool any)
{
    uint8_t block[COLUMNS];
    const int64_t wide = COLUMNS / columns * columns, all = rows * columns;
    memset(block, !any, sizeof block);
    for (int64_t i = 0; i < all; i += wide) join_truths(block, x + i, all - i < wide ? all - i : wide, any);
    memset(out, !any, (size_t)columns);
    for (int64_t i = 0; i < wide; i += columns) join_truths(out, block + i, columns, any);
}

/* Units are blocks of columns. */
static void truths_of_columns(void *arg, int64_t task)
{
    view *v = arg;
    const bool any = v->op == GD_OP_any;
    EACH_UNIT(v, task, u)
    {
        int64_t o = u / v->blocks, column = u % v->blocks * COLUMNS,
                n = v->inner - column < COLUMNS ? v->inner - column : COLUMNS;
        const uint8_t *x = (const uint8_t *)v->in + o * v->reduced * v->inner + column;
        uint8_t *out = (uint8_t *)v->out + o * v->inner + column;
        if (v->inner <= COLUMNS / 8 && v->reduced * v->inner >= 4 * COLUMNS) {
            truths_of_few(out, x, v->reduced, v->inner, any);
            continue;
        }
        memset(out, !any, (size_t)n);
        for (int64_t r = 0; r < v->reduced; r++, x += v->inner) join_truths(out, x, n, any);
    }
}

static gd_status truth(gd_device *device, const gd_call *call)
{
    view v = gd__reduction_of(device, call);
    v.blocks = (v.inner + COLUMNS - 1) / COLUMNS;
    if (call->out[0]->numel)
        gd__spread(device, &v, v.outer * v.blocks, v.reduced * (v.inner < COLUMNS ? v.inner : COLUMNS),
                   v.inner == 1 ? truths_of_rows : truths_of_columns);
    return GD_OK;
}

gd_status gd__cpu_any(gd_device *device, const gd_call *call) { return truth(device, call); }

gd_status gd__cpu_all(gd_device *device, const gd_call *call) { return truth(device, call); }

/* ---- cumsum ---- */

static void running_integers(const view *v, int64_t at, int64_t n, int64_t step)
{
    uint64_t sums[COLUMNS] = {0};
    const uint64_t *x = (const uint64_t *)(const void *)v->in;
    for (int64_t r = 0; r < v->reduced; r++, at += step)
        for (int64_t i = 0; i < n; i++) ((uint64_t *)(void *)v->out)[at + i] = sums[i] += x[at + i];
}

static void running_sums(void *arg, int64_t task)
{
    view *v = arg;
    EACH_UNIT(v, task, u)
    {
        int64_t o = u / v->blocks, column = u % v->blocks * COLUMNS, at = o * v->reduced * v->inner + column,
                n = v->inner - column < COLUMNS ? v->inner - column : COLUMNS, step = v->inner;
        if (v->reverse) {
            at += (v->reduced - 1) * v->inner;
            step = -step;
        }
        if (v->rows)
            v->rows->running(v->out + at * (int64_t)v->item, v->in + at * (int64_t)v->item, step, v->reduced,
                             n);
        else
            running_integers(v, at, n, step);
    }
}

static void running_along_rows(void *arg, int64_t task)
{
    view *v = arg;
    int64_t row = task * v->units_per_task, rows = v->units - row, at = row * v->reduced * (int64_t)v->item;
    if (rows > v->units_per_task) rows = v->units_per_task;
    v->rows->running_rows(v->out + at, v->in + at, rows, v->reduced, v->reverse);
}

gd_status gd__cpu_cumsum(gd_device *device, const gd_call *call)
{
    view v = gd__reduction_of(device, call);
    v.reverse = call->attrs->i[5];
    v.blocks = (v.inner + COLUMNS - 1) / COLUMNS;
    if (call->out[0]->numel)
        gd__spread(device, &v, v.outer * v.blocks, v.reduced * (v.inner < COLUMNS ? v.inner : COLUMNS),
                   v.rows && v.inner == 1 ? running_along_rows : running_sums);
    return GD_OK;
}
