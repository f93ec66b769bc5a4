/* Work outside kernels, which only process contiguous elements: inputs that are not in memory element by element (random numbers,
 * values of a coarser space), and sums along axes of their results.
 *
 * Both use buffers of a thread, so that a kernel sees plain arrays. The order of a sum along axes depends only on the sizes of the
 * tensor.  The space is divided into blocks of rows of columns (program.h) and cuts it into tiles:
 *
 *             columns reduced                    columns kept
 *   tile      some rows                          at most MOST_ROWS rows
 *   makes     a number per row, lane by lane     a number per column, row by row
 *   joined    tile by tile along the row         block of rows by block of rows */
#include "program/execute.h"
#include "program/dialect.h"
#include "program/element.h"

#include <math.h>
#include <string.h>

#define WIDTH 4096 /* most elements of a kernel call, and columns of a tile */
#define BUFFER \
    (WIDTH * sizeof(double) + GD_LANES * sizeof(double)) /* room for them, and for whole vectors at the end */
#define TILE        65536                                /* elements of a tile where rows are reduced */
#define TALL_TILE   131072                               /* and where columns are */
#define MOST_ROWS   256                                  /* that are added sequentially */
#define DEVICE_TILE 16384                                /* elements of a tile on a device */

typedef struct tiles {
    int64_t blocks, rows, columns; /* of the space */
    int64_t height, width;         /* of a tile */
    int64_t heights, widths;       /* tiles in a block and in a row */
} tiles;

static int64_t product(const gd_exec *x, int member, unsigned along)
{
    int64_t n = 1;
    for (int g = 0; g < x->p->axes; g++)
        if (along >> g & 1) n *= x->size[member * x->p->axes + g];
    return n;
}

static int64_t clamp(int64_t n, int64_t low, int64_t high) { return n < low ? low : n > high ? high : n; }

static tiles tiles_of(const gd_exec *x, const gd_pass *pass, int member)
{
    gd_tiling t = gd__tiling(x->p, &x->p->instr[pass->sum[0]]);
    tiles s = {.columns = product(x, member, t.inner), .rows = product(x, member, t.next)};
    s.blocks = product(x, member, pass->along & ~(unsigned)(t.inner | t.next));
    bool host = gd__exec_by_host(x);
    s.width = clamp(s.columns, 1, host ? WIDTH : GD_TILE_LANES * gd__table_width(x->p, pass));
    s.height = !host            ? clamp(DEVICE_TILE / s.width, 1, DEVICE_TILE)
               : t.columns_kept ? clamp(TALL_TILE / s.width, 1, MOST_ROWS)
                                : clamp(TILE / s.width, 1, TILE);
    s.heights = (s.rows + s.height - 1) / s.height;
    s.widths = (s.columns + s.width - 1) / s.width;
    return s;
}

gd_status gd__tiles_make(const gd_exec *x, const gd_pass *pass, gd_work *w)
{
    gd_ctx *ctx = x->device->ctx;
    for (int m = 0; m < x->members; m++) {
        tiles s = tiles_of(x, pass, m);
        w->chunks += s.blocks * s.heights * s.widths;
    }
    w->chunk = gd__alloc_array(ctx, (size_t)w->chunks, sizeof *w->chunk);
    w->task = gd__alloc_array(ctx, (size_t)w->chunks + 1, sizeof *w->task);
    if (!w->chunk || !w->task) return GD_NOMEM;
    int64_t at = 0;
    for (int m = 0; m < x->members; m++) {
        tiles s = tiles_of(x, pass, m);
        for (int64_t k = 0; k < s.blocks * s.heights * s.widths; k++) {
            int64_t block = k / (s.heights * s.widths), row = k / s.widths % s.heights * s.height,
                    column = k % s.widths * s.width;
            gd_chunk c = {.member = m, .row = block * s.rows + row, .column = column};
            c.rows = s.rows - row < s.height ? s.rows - row : s.height;
            c.n = s.columns - column < s.width ? s.columns - column : s.width;
            c.start = c.row * s.columns + column;
            w->task[w->tasks++] = at;
            w->chunk[at++] = c;
        }
    }
    w->task[w->tasks] = at;
    return GD_OK;
}

/* ---- room ---- */

static size_t item_of(const gd_exec *x) { return gd_dtype_size(x->p->compute); }

size_t gd__buffer_bytes(const gd_pass *pass)
{
    int buffers = pass->randoms + __builtin_popcount(pass->views) + 2 * pass->sums;
    return (size_t)buffers * BUFFER;
}

/* Partial results of a sum of a pass for a member. */
static int64_t partials(const gd_exec *x, const gd_pass *pass, int s, int member)
{
    tiles t = tiles_of(x, pass, member);
    bool kept = gd__tiling(x->p, &x->p->instr[pass->sum[s]]).columns_kept;
    return kept ? t.blocks * t.heights * t.columns : t.blocks * t.rows * t.widths;
}

int64_t gd__partials_place(const gd_exec *x, const gd_pass *pass, int64_t *at)
{
    int64_t used = 0;
    for (int s = 0; s < pass->sums; s++)
        for (int m = 0; m < x->members; m++) {
            if (at) at[s * x->members + m] = used;
            used += partials(x, pass, s, m);
        }
    return used;
}

/* ---- tiles of a device ---- */

void gd__tiles_table(const gd_exec *x, const gd_pass *pass, const gd_work *w, gd_table_tile *tile)
{
    for (int64_t k = 0; k < w->chunks; k++) {
        const gd_chunk *c = &w->chunk[k];
        tiles t = tiles_of(x, pass, c->member);
        int64_t block = c->row / t.rows, height = c->row % t.rows / t.height;
        tile[k] = (gd_table_tile){.n = c->n,
                                  .member = c->member,
                                  .first = c->start,
                                  .rows = gd__exec_is_elsewhere(x, c) ? 0 : c->rows,
                                  .columns = t.columns,
                                  .rows_at = c->row * t.widths + c->column / t.width,
                                  .row_step = t.widths,
                                  .columns_at = (block * t.heights + height) * t.columns + c->column};
    }
}

void gd__along_places(const gd_exec *x, const gd_pass *pass, int s, const int64_t *at, gd_along_place *place)
{
    bool kept = gd__tiling(x->p, &x->p->instr[pass->sum[s]]).columns_kept;
    for (int m = 0; m < x->members; m++) {
        tiles t = tiles_of(x, pass, m);
        place[m] = (gd_along_place){.at = at[s * x->members + m],
                                    .columns = kept ? t.columns : 1,
                                    .steps = kept ? t.heights : t.widths};
    }
}

/* ---- what a kernel reads ---- */

/* The number of a row of a space among those that differ along `kept`. */
static int64_t row_among(const gd_exec *x, int member, unsigned others, unsigned kept, int64_t row)
{
    int64_t among = 0, step = 1;
    if ((kept & others) == others) return row;
    if (!(kept & others)) return 0;
    for (int g = x->p->axes - 1; g >= 0; g--) {
        if (!(others >> g & 1)) continue;
        int64_t size = x->size[member * x->p->axes + g];
        if (kept >> g & 1) {
            among += row % size * step;
            step *= size;
        }
        row /= size;
    }
    return among;
}

/* A row of `columns` again and again, n items from column `column` on: by doubling the copied part. */
static void repeat_row(char *to, const char *row, size_t size, int64_t columns, int64_t column, int64_t n)
{
    size_t bytes = (size_t)n * size, whole = (size_t)columns * size, first = whole - (size_t)column * size;
    if (first > bytes) first = bytes;
    memcpy(to, row + (size_t)column * size, first);
    size_t rest = bytes - first, begin = rest < (size_t)column * size ? rest : (size_t)column * size;
    memcpy(to + first, row, begin);
    for (size_t done = first + begin; done < bytes; done *= 2)
        memcpy(to + done, to, done < bytes - done ? done : bytes - done);
}

/* Elements start, start + 1, ... of an array of a coarser space, as if it had all axes of the pass. */
static void make_view(const gd_exec *x, const gd_pass *pass, int member, int array, int64_t start, int64_t n,
                      char *to)
{
    unsigned space = pass->along, kept = x->p->array[array].along & space, inner = 0;
    int g = x->p->axes - 1;
    while (!(space >> g & 1)) g--;
    bool differs = kept >> g & 1;
    for (; g >= 0 && (!(space >> g & 1) || (kept >> g & 1) == differs); g--) inner |= 1u << g & space;
    unsigned others = space & ~inner;
    size_t size = gd_dtype_size(x->p->array[array].dtype);
    int64_t columns = product(x, member, inner), row = start / columns, column = start % columns;
    const char *from = x->pointer[member * x->p->arrays + array];
    if (differs && !(kept & others)) {
        repeat_row(to, from, size, columns, column, n);
        return;
    }
    gd_block_spread_fn spread = gd__blocks(x->p->ctx)->spread[size / 4];
    if (!differs && (kept & others) == others) {
        spread(to, from + (size_t)row * size, columns, column, n);
        return;
    }
    for (int64_t done = 0, length; done < n; done += length, row++, column = 0) {
        length = columns - column < n - done ? columns - column : n - done;
        int64_t at = row_among(x, member, others, kept, row) * (differs ? columns : 1);
        if (differs)
            memcpy(to + (size_t)done * size, from + (size_t)(at + column) * size, (size_t)length * size);
        else
            spread(to + (size_t)done * size, from + (size_t)at * size, length, 0, length);
    }
}

char *gd__make_inputs(const gd_exec *x, const gd_pass *pass, int member, int64_t start, int64_t n,
                      const double *scalar, char *buffer, char **array)
{
    const gd_program *p = x->p;
    int type = p->compute == GD_F64 ? GD_ELEMENT_F64 : GD_ELEMENT_F32;
    for (int k = 0; k < pass->randoms; k++, buffer += BUFFER) {
        const gd_instr *in = &p->instr[pass->random[k]];
        const double *key = scalar + pass->used_count + 2 * k;
        gd_stream stream = gd__stream(p, in, key[0], key[1]);
        array[in->index] = buffer;
        gd__blocks(p->ctx)->random[type](buffer, &stream, start, n);
    }
    for (int k = 0; k < p->arrays; k++) {
        if (!(pass->views >> k & 1)) continue;
        make_view(x, pass, member, k, start, n, buffer);
        array[k] = buffer;
        buffer += BUFFER;
    }
    return buffer;
}

/* ---- a tile ---- */

static double nothing_of(unsigned op) { return op == GD_I_SUM_ALONG ? 0 : -INFINITY; }

static void fill_with(const gd_exec *x, char *to, int64_t n, double value)
{
    float narrow = (float)value;
    if (x->p->compute == GD_F64)
        for (int64_t i = 0; i < n; i++) memcpy(to + 8 * i, &value, 8);
    else
        for (int64_t i = 0; i < n; i++) memcpy(to + 4 * i, &narrow, 4);
}

static void widen(const gd_exec *x, double *to, const char *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = x->p->compute == GD_F64 ? ((const double *)(const void *)from)[i]
                                        : (double)((const float *)(const void *)from)[i];
}

typedef struct tile_run {
    const gd_exec *x;
    const gd_pass *pass;
    const gd_chunk *tile;
    tiles shape;
    char *operand[GD_MAX_ARRAYS], *result[GD_MAX_ARRAYS]; /* one per sum: its elements; its columns so far */
} tile_run;

static double *partial_of(const tile_run *r, int s)
{
    return r->x->along + r->x->along_at[s * r->x->members + r->tile->member];
}

/* Adds the kernel's results for some rows to the sums. */
static void add_rows(const tile_run *r, int64_t row, int64_t rows)
{
    const gd_program *p = r->x->p;
    const gd_block_table *table = gd__blocks(p->ctx);
    int type = p->compute == GD_F64 ? GD_ELEMENT_F64 : GD_ELEMENT_F32;
    for (int s = 0; s < r->pass->sums; s++) {
        const gd_instr *in = &p->instr[r->pass->sum[s]];
        bool largest = in->op == GD_I_MAXIMUM_ALONG;
        int64_t widths = r->shape.widths;
        double *out = partial_of(r, s) + row * widths + r->tile->column / r->shape.width;
        if (gd__tiling(p, in).columns_kept)
            table->columns[type][largest](r->result[s], r->operand[s], rows, r->tile->n);
        else
            table->rows[type][largest](out, widths, r->operand[s], rows, r->tile->n);
    }
}

static void keep_columns(const tile_run *r)
{
    const gd_program *p = r->x->p;
    const tiles *t = &r->shape;
    int64_t block = r->tile->row / t->rows, height = r->tile->row % t->rows / t->height;
    for (int s = 0; s < r->pass->sums; s++)
        if (gd__tiling(p, &p->instr[r->pass->sum[s]]).columns_kept)
            widen(r->x, partial_of(r, s) + (block * t->heights + height) * t->columns + r->tile->column,
                  r->result[s], r->tile->n);
}

void gd__run_tile(const gd_exec *x, const gd_pass *pass, const gd_chunk *tile, char *buffer, gd_chunk_fn run,
                  const void *user)
{
    tile_run r = {.x = x, .pass = pass, .tile = tile, .shape = tiles_of(x, pass, tile->member)};
    for (int s = 0; s < pass->sums; s++) {
        r.operand[s] = buffer;
        r.result[s] = buffer + BUFFER;
        fill_with(x, r.result[s], tile->n, nothing_of(x->p->instr[pass->sum[s]].op));
        buffer += 2 * BUFFER;
    }
    /* whole rows are contiguous: as many as fit at a time */
    int64_t most = tile->n == r.shape.columns ? clamp(GD_PIECE / tile->n, 1, tile->rows) : 1;
    for (int64_t done = 0; done < tile->rows; done += most) {
        int64_t rows = tile->rows - done < most ? tile->rows - done : most;
        gd_chunk piece = {.member = tile->member, .n = rows * tile->n};
        piece.start = tile->start + done * r.shape.columns;
        run(user, &piece, buffer, r.operand);
        add_rows(&r, tile->row + done, rows);
    }
    keep_columns(&r);
}

/* ---- joining ---- */

static double joined(unsigned op, double a, double b)
{
    if (op == GD_I_SUM_ALONG) return a + b;
    return a != a ? a : b > a || b != b ? b : a;
}

/* Columns reduced: the tiles of a row, then the rows of a result. */
static void join_rows(const gd_exec *x, const gd_pass *pass, const gd_instr *in, int member, const double *p)
{
    tiles t = tiles_of(x, pass, member);
    unsigned others = pass->along & ~(unsigned)gd__tiling(x->p, in).inner;
    for (int64_t row = 0; row < t.blocks * t.rows && t.columns; row++, p += t.widths) {
        double v = p[0], *to = x->joined + row_among(x, member, others, in->along, row);
        for (int64_t k = 1; k < t.widths; k++) v = joined(in->op, v, p[k]);
        *to = joined(in->op, *to, v);
    }
}

/* Columns kept: tile after tile of rows, then the blocks of a result. */
static void join_columns(const gd_exec *x, const gd_pass *pass, const gd_instr *in, int member,
                         const double *p)
{
    tiles t = tiles_of(x, pass, member);
    gd_tiling own = gd__tiling(x->p, in);
    unsigned others = pass->along & ~(unsigned)(own.inner | own.next);
    for (int64_t k = 0; k < t.blocks * t.heights; k++, p += t.columns) {
        double *to = x->joined + row_among(x, member, others, in->along, k / t.heights) * t.columns;
        for (int64_t c = 0; c < t.columns; c++) to[c] = joined(in->op, to[c], p[c]);
    }
}

/* One result per row, and one tile per row: partial results are results. */
static bool is_joined(const gd_exec *x, const gd_pass *pass, const gd_instr *in, int member)
{
    gd_tiling own = gd__tiling(x->p, in);
    unsigned others = pass->along & ~(unsigned)own.inner;
    return !own.columns_kept && tiles_of(x, pass, member).widths == 1 && (in->along & others) == others;
}

bool gd__join_along(gd_exec *x, const gd_pass *pass)
{
    bool finite = true;
    for (int i = 0; i < pass->sums * x->members; i++) {
        int s = i / x->members, m = i % x->members;
        if (!gd__exec_runs(x, m)) continue;
        const gd_instr *in = &x->p->instr[pass->sum[s]];
        int64_t results = product(x, m, in->along);
        gd_block_results_fn finish =
            gd__blocks(x->p->ctx)->results[x->p->compute == GD_F64][in->op == GD_I_MAXIMUM_ALONG];
        char *to = x->pointer[m * x->p->arrays + in->place];
        const double *from = x->along + x->along_at[i];
        if (!is_joined(x, pass, in, m)) {
            for (int64_t k = 0; k < results; k++) x->joined[k] = nothing_of(in->op);
            (gd__tiling(x->p, in).columns_kept ? join_columns : join_rows)(x, pass, in, m, from);
            from = x->joined;
        }
        bool good = finish(to, from, results);
        finite = finite && (good || !x->numel[m]);
    }
    return finite;
}

/* ---- memory between passes ---- */

static size_t scratch_bytes(const gd_exec *x, int member, int array)
{
    const gd_array *a = &x->p->array[array];
    if (a->kind != GD_ARRAY_SCRATCH) return 0;
    return ((size_t)product(x, member, a->along) * gd_dtype_size(a->dtype) + 63) & ~(size_t)63;
}

gd_status gd__axes_rooms(gd_exec *x)
{
    gd_ctx *ctx = x->device->ctx;
    int arrays = x->p->arrays;
    if (!x->p->axes) return GD_OK;
    int sums = 0;
    for (int i = 0; i < x->passes; i++) {
        int64_t room = gd__partials_place(x, &x->pass[i], NULL);
        if (room > x->along_room) x->along_room = room;
        if (x->pass[i].sums > sums) sums = x->pass[i].sums;
    }
    for (int i = 0; i < x->members * arrays; i++) {
        x->scratch_bytes += scratch_bytes(x, i / arrays, i % arrays);
        int64_t results = (int64_t)(scratch_bytes(x, i / arrays, i % arrays) / item_of(x));
        if (results > x->joined_room) x->joined_room = results;
    }
    x->along_places = (size_t)sums * (size_t)x->members;
    if (!gd__exec_by_host(x)) return GD_OK; /* all of it is on the device */
    x->along = gd__alloc_array(ctx, (size_t)x->along_room, sizeof *x->along);
    x->along_at = gd__alloc_array(ctx, x->along_places, sizeof *x->along_at);
    x->joined = gd__alloc_array(ctx, (size_t)x->joined_room, sizeof *x->joined);
    x->scratch = gd__calloc(ctx, x->scratch_bytes);
    if (!x->along || !x->along_at || !x->joined || !x->scratch) return GD_NOMEM;
    gd__scratch_place(x, x->scratch);
    return GD_OK;
}

void gd__scratch_place(gd_exec *x, char *scratch)
{
    int arrays = x->p->arrays;
    for (int i = 0; i < x->members * arrays; i++) {
        size_t bytes = scratch_bytes(x, i / arrays, i % arrays);
        if (x->p->array[i % arrays].kind == GD_ARRAY_SCRATCH) x->pointer[i] = scratch;
        scratch += bytes;
    }
}

void gd__axes_free(gd_exec *x)
{
    gd_ctx *ctx = x->device->ctx;
    gd__free(ctx, x->along, (size_t)x->along_room * sizeof *x->along);
    gd__free(ctx, x->along_at, x->along_places * sizeof *x->along_at);
    gd__free(ctx, x->joined, (size_t)x->joined_room * sizeof *x->joined);
    gd__free(ctx, x->scratch, x->scratch_bytes);
    gd__free(ctx, x->size, (size_t)x->members * (size_t)x->p->axes * sizeof *x->size);
}
