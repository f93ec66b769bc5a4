/* Convolutions of images [batch, channel, height, width] on the CPU, and their gradients; convolution.h has the method.
 *
 *   conv2d         in x, w [out, in, tall, wide], bias [out]    out y
 *   conv2d_image   in g, w                                      out gradient of x
 *   conv2d_weight  in g, x                                      out gradient of w
 *
 * attrs.i = stride, padding.  This file plans copies, offsets of taps, and tasks. */
#include "tensor/cpu/images/convolution.h"
#include "tensor/cpu/cpu.h"

#include <math.h>
#include <string.h>

#define COPY_BYTES 196608    /* of a tile with its padding: it stays in a cache with the results */
#define SUMS_BYTES 524288    /* of copies whose products are summed: longer sums, fewer of them */
#define LEAST_ROWS 4         /* of a tile: taps read additional rows, which adjacent tiles copy again */
#define LEAST_SPAN 512       /* columns of a tile */
#define UNITS      8         /* tiles of a call, if its images have the rows: work for several threads */
#define SLABS      16        /* partial sums of a gradient of weights */
#define SUMS_MAX   (1 << 22) /* total of their elements */

typedef struct shape {
    int64_t batch, inputs, height, width; /* of the image */
    int64_t outputs, tall, wide, stride, padding;
    int64_t down, across; /* of the result */
    bool f64;
    size_t item;
} shape;

static shape shape_of(const gd_call *call, const gd_tensor *x, const gd_tensor *w, const gd_tensor *y)
{
    return (shape){.batch = x->size[0],
                   .inputs = x->size[1],
                   .height = x->size[2],
                   .width = x->size[3],
                   .outputs = w->size[0],
                   .tall = w->size[2],
                   .wide = w->size[3],
                   .stride = call->attrs->i[0],
                   .padding = call->attrs->i[1],
                   .down = y->size[2],
                   .across = y->size[3],
                   .f64 = y->dtype == GD_F64,
                   .item = gd__item_size(y)};
}

static const gd_conv_table *kernels(gd_device *device, bool f64) { return &gd__vec(device)->conv[f64]; }

static int64_t pieces(int64_t size, int64_t piece) { return (size + piece - 1) / piece; }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- tiles ---- */

/* Cuts positions so that a copy of `channels` planes takes COPY_BYTES.  It depends on sizes alone. */
static gd_conv_grid grid_of(int64_t rows, int64_t columns, const int64_t reach[2], int64_t channels,
                            size_t item, int64_t images)
{
    gd_conv_grid g = {.rows = rows, .columns = columns};
    int64_t room = COPY_BYTES / (int64_t)item / larger(channels, 1);
    int64_t least = smaller(LEAST_ROWS, rows);
    g.span = larger(room / (least + reach[0]) - reach[1], LEAST_SPAN);
    if (g.span > columns) g.span = columns;
    g.band = larger(room / (g.span + reach[1]) - reach[0], least);
    int64_t wanted = images && images < UNITS ? pieces(UNITS, images) : 1;
    g.band = larger(smaller(g.band, pieces(rows, wanted)), least);
    g.spans = pieces(columns, g.span);
    g.span = pieces(columns, g.spans);
    g.bands = pieces(rows, smaller(g.band, rows));
    g.band = pieces(rows, g.bands);
    return g;
}

/* The pitch of copies of `span` positions: zeros on the right of a row are those on the left of the next one. */
static int64_t pitch_of(const gd_conv_copy *c, const gd_conv_grid *g, const int64_t reach[2])
{
    int64_t columns = g->span + reach[1], left = -c->origin[1], right = columns - left - c->width;
    int64_t both = smaller(smaller(left, right), reach[1]); /* rows of positions stay apart */
    return c->stride == 1 && g->spans == 1 && both > 0 ? columns - both : columns;
}

/* If each tap of a window on x reads in a copy of it, [channel][row][column]; `step` elements from plane to plane. */
static void taps_of(const shape *s, const gd_conv_copy *c, int64_t step, int64_t *offset)
{
    for (int64_t k = 0; k < s->inputs * s->tall * s->wide; k++) {
        int64_t x = k % s->wide, y = k / s->wide % s->tall, channel = k / s->wide / s->tall;
        int64_t plane = (channel * c->phases[0] + y % s->stride) * c->phases[1] + x % s->stride;
        offset[k] = plane * step + y / s->stride * c->pitch + x / s->stride;
    }
}

static gd_conv_copy copy_of_image(const shape *s)
{
    return (gd_conv_copy){.channels = s->inputs,
                          .height = s->height,
                          .width = s->width,
                          .stride = s->stride,
                          .phases = {smaller(s->stride, s->tall), smaller(s->stride, s->wide)},
                          .origin = {-s->padding, -s->padding}};
}

/* ---- correlations ---- */

/* One block of memory: phases, offsets and places of taps, packed weights, scratch. */
typedef struct plan {
    char *block;
    size_t bytes;
    gd_conv_phase *phase;
    int64_t *offset, *place;
    char *weights;
} plan;

static size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

static gd_status plan_memory(gd_ctx *ctx, gd_correlation *c, int64_t taps, size_t item, plan *p)
{
    int64_t tall = c->grid.band + c->reach[0], strip = c->grid.band * c->from.pitch + GD_CONV_PAST;
    int64_t units = c->batch * c->grid.bands * c->grid.spans;
    c->tasks = smaller(units, ctx->threads > 1 ? 4 * ctx->threads : 1);
    c->bytes = (int64_t)rounded((size_t)(gd__conv_copy_size(&c->from, tall) +
                                         gd__conv_slack(c->from.pitch, c->reach) + GD_CONV_BLOCK * strip) *
                                item);
    size_t phases = rounded((size_t)c->phases * sizeof *p->phase),
           list = rounded((size_t)taps * sizeof(int64_t));
    size_t weights = rounded((size_t)(taps * (c->outputs + GD_CONV_BLOCK)) * item);
    p->bytes = phases + 2 * list + weights + (size_t)(c->tasks * c->bytes);
    if (!(p->block = gd__alloc(ctx, p->bytes))) return GD_NOMEM;
    p->phase = (gd_conv_phase *)(void *)p->block;
    p->offset = (int64_t *)(void *)(p->block + phases);
    p->place = (int64_t *)(void *)(p->block + phases + list);
    p->weights = p->block + phases + 2 * list;
    c->phase = p->phase;
    c->scratch = p->weights + weights;
    return GD_OK;
}

static void run_correlation(gd_ctx *ctx, const gd_conv_table *t, gd_correlation *c, int64_t taps, plan *p)
{
    double work = (double)c->batch * (double)(c->grid.rows * c->from.pitch) * (double)taps *
                  (double)c->outputs;
    gd__run_tasks(ctx, work < 1e15 ? (int64_t)(work / 16) : INT64_MAX, c->tasks, t->correlate, c);
    gd__free(ctx, p->block, p->bytes);
}

gd_status gd__cpu_conv2d(gd_device *device, const gd_call *call)
{
    const gd_tensor *x = call->in[0], *w = call->in[1];
    gd_tensor *y = call->out[0];
    if (y->numel == 0) return GD_OK;
    shape s = shape_of(call, x, w, y);
    const gd_conv_table *t = kernels(device, s.f64);
    gd_correlation c = {.from = copy_of_image(&s), .x = x->data, .y = y->data, .start = call->in[2]->data};
    int64_t taps = s.inputs * s.tall * s.wide;
    c.batch = s.batch;
    c.outputs = s.outputs;
    c.height = s.down;
    c.width = s.across;
    c.stride = c.phases = 1;
    c.reach[0] = (s.tall - 1) / s.stride;
    c.reach[1] = (s.wide - 1) / s.stride;
    c.grid = grid_of(s.down, s.across, c.reach, s.inputs * c.from.phases[0] * c.from.phases[1], s.item,
                     s.batch);
    c.from.pitch = pitch_of(&c.from, &c.grid, c.reach);
    plan p;
    gd_status status = plan_memory(device->ctx, &c, taps, s.item, &p);
    if (status) return status;
    taps_of(&s, &c.from, (c.grid.band + c.reach[0]) * c.from.pitch, p.offset);
    for (int64_t k = 0; k < taps; k++) p.place[k] = k;
    p.phase[0] = (gd_conv_phase){.taps = taps, .offset = p.offset, .weights = p.weights};
    t->pack(p.weights, w->data, s.outputs, taps, taps, p.place);
    run_correlation(device->ctx, t, &c, taps, &p);
    return GD_OK;
}

/* Pixels whose place, padding included, leaves (a, b) when divided by the stride are seen by the taps that do. */
static int64_t add_phase(const shape *s, const gd_correlation *c, const gd_conv_table *t, const char *w,
                         int64_t a, int64_t b, const int64_t first[2], plan *p, int64_t used)
{
    int64_t step = (c->grid.band + c->reach[0]) * c->from.pitch, count = 0;
    int64_t *offset = p->offset + used, *place = p->place + used;
    char *weights = p->weights + (size_t)(used * (s->inputs + GD_CONV_BLOCK)) * s->item;
    for (int64_t o = 0; o < s->outputs; o++)
        for (int64_t y = a; y < s->tall; y += s->stride)
            for (int64_t x = b; x < s->wide; x += s->stride, count++) {
                place[count] = (o * s->inputs * s->tall + y) * s->wide + x;
                offset[count] = o * step + (c->reach[0] - y / s->stride) * c->from.pitch + c->reach[1] -
                                x / s->stride;
            }
    p->phase[a * s->stride + b] = (gd_conv_phase){
        .taps = count,
        .offset = offset,
        .weights = weights,
        .first = {first[0] + a - s->padding, first[1] + b - s->padding}};
    t->pack(weights, w, s->inputs, count, s->tall * s->wide, place);
    return used + count;
}

gd_status gd__cpu_conv2d_image(gd_device *device, const gd_call *call)
{
    const gd_tensor *g = call->in[0], *w = call->in[1];
    gd_tensor *x = call->out[0];
    if (x->numel == 0) return GD_OK;
    shape s = shape_of(call, x, w, g);
    const gd_conv_table *t = kernels(device, s.f64);
    int64_t taps = s.outputs * s.tall * s.wide, start = s.padding / s.stride, used = 0;
    int64_t rows = (s.height - 1 + s.padding) / s.stride - start + 1;
    int64_t columns = (s.width - 1 + s.padding) / s.stride - start + 1,
            first[2] = {start * s.stride, start * s.stride};
    gd_correlation c = {.x = g->data, .y = x->data};
    c.batch = s.batch;
    c.outputs = s.inputs;
    c.height = s.height;
    c.width = s.width;
    c.stride = s.stride;
    c.phases = s.stride * s.stride;
    c.reach[0] = (s.tall - 1) / s.stride;
    c.reach[1] = (s.wide - 1) / s.stride;
    c.from = (gd_conv_copy){
        .channels = s.outputs, .height = s.down, .width = s.across, .stride = 1, .phases = {1, 1}};
    c.from.origin[0] = start - c.reach[0];
    c.from.origin[1] = start - c.reach[1];
    c.grid = grid_of(rows, columns, c.reach, s.outputs, s.item, s.batch);
    c.from.pitch = pitch_of(&c.from, &c.grid, c.reach);
    plan p;
    gd_status status = plan_memory(device->ctx, &c, larger(taps, 1), s.item, &p);
    if (status) return status;
    for (int64_t k = 0; k < c.phases; k++)
        used = add_phase(&s, &c, t, w->data, k / s.stride, k % s.stride, first, &p, used);
    run_correlation(device->ctx, t, &c, taps, &p);
    return GD_OK;
}

/* ---- gradients of weights ---- */

static bool has_nan(const gd_tensor *t)
{
    bool found = false;
    if (t->dtype == GD_F64)
        for (int64_t i = 0; i < t->numel; i++) found |= isnan(((const double *)(const void *)t->data)[i]);
    else
        for (int64_t i = 0; i < t->numel; i++) found |= isnan(((const float *)(const void *)t->data)[i]);
    return found;
}

/* The sums of all slabs, first to last. */
#define JOIN_SLABS(real)                                                           \
    static void join_##real(void *to, const void *slabs, int64_t count, int64_t n) \
    {                                                                              \
        real *out = to;                                                            \
        const real *from = slabs;                                                  \
        memcpy(out, from, (size_t)n * sizeof *out);                                \
        for (int64_t k = 1; k < count; k++)                                        \
            for (int64_t i = 0; i < n; i++) out[i] += from[k * n + i];             \
    }
JOIN_SLABS(float)
JOIN_SLABS(double)

static void plan_sums(const shape *s, gd_conv_sums *c)
{
    int64_t planes = s->inputs * c->from.phases[0] * c->from.phases[1] + s->outputs;
    c->grid = grid_of(s->down, s->across, c->reach, planes, s->item, 0);
    c->from.pitch = c->seed.pitch = pitch_of(&c->from, &c->grid, c->reach);
    int64_t piece = (c->grid.band + c->reach[0]) * c->from.pitch;
    c->images = c->grid.bands * c->grid.spans > 1
                    ? 1
                    : smaller(s->batch, larger(SUMS_BYTES / (int64_t)s->item / (piece * planes), 1));
    c->groups = pieces(s->batch, c->images);
    int64_t units = c->groups * c->grid.bands * c->grid.spans;
    c->slabs = larger(smaller(smaller(units, SLABS), SUMS_MAX / (s->outputs * c->taps)), 1);
    c->parts = c->slabs >= 4 ? 1 : smaller(4, s->outputs);
    int64_t numbers = gd__conv_copy_size(&c->from, c->images * (c->grid.band + c->reach[0])) +
                      gd__conv_slack(c->from.pitch, c->reach) +
                      (pieces(s->outputs, c->parts) + 1) * (c->images * piece + GD_CONV_PAST);
    c->bytes = (int64_t)rounded((size_t)numbers * s->item);
}

gd_status gd__cpu_conv2d_weight(gd_device *device, const gd_call *call)
{
    const gd_tensor *g = call->in[0], *x = call->in[1];
    gd_tensor *w = call->out[0];
    if (w->numel == 0) return GD_OK;
    if (g->numel == 0) {
        memset(w->data, 0, (size_t)w->numel * gd__item_size(w));
        return GD_OK;
    }
    gd_ctx *ctx = device->ctx;
    shape s = shape_of(call, x, w, g);
    gd_conv_sums c = {
        .from = copy_of_image(&s), .x = x->data, .g = g->data, .batch = s.batch, .outputs = s.outputs};
    c.seed = (gd_conv_copy){
        .channels = s.outputs, .height = s.down, .width = s.across, .stride = 1, .phases = {1, 1}};
    c.taps = s.inputs * s.tall * s.wide;
    c.reach[0] = (s.tall - 1) / s.stride;
    c.reach[1] = (s.wide - 1) / s.stride;
    plan_sums(&s, &c);
    size_t list = rounded((size_t)c.taps * sizeof(int64_t)),
           sums = rounded((size_t)(c.slabs * w->numel) * s.item);
    size_t bytes = list + sums + (size_t)(c.slabs * c.parts * c.bytes);
    char *block = gd__alloc(ctx, bytes);
    if (!block) return GD_NOMEM;
    int64_t *offset = (int64_t *)(void *)block;
    c.offset = offset;
    c.sums = block + list;
    c.scratch = block + list + sums;
    taps_of(&s, &c.from, c.images * (c.grid.band + c.reach[0]) * c.from.pitch, offset);
    for (int round = 0; round < 2 && (!round || has_nan(w)); round++) {
        c.careful = round;
        gd__run_tasks(ctx, g->numel * smaller(c.taps, 1 << 20), c.slabs * c.parts,
                      kernels(device, s.f64)->sum, &c);
        (s.f64 ? join_double : join_float)(w->data, c.sums, c.slabs, w->numel);
    }
    gd__free(ctx, block, bytes);
    return GD_OK;
}
