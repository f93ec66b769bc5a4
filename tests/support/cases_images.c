/* Operators of images: convolution, pooling, windows, and what their gradients are made of. */
#include "support/op_cases.h"
#include "support/op_references.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/linalg.h"

#include <math.h>

/* ---- convolution and pooling ---- */

APPLY(conv2d, gd_conv2d(in[0], in[1], in[2], 1, 1))
static void ref_conv(const array *in, array *out) { ref_conv2d(&in[0], &in[1], &in[2], 1, 1, out); }
APPLY(conv2d_with, gd_conv2d_with(in[0], in[1], in[2], &(gd_conv_options){{1, 1}, {1, 1}, {1, 1, 1, 1}, 1}))
APPLY(conv2d_stride, gd_conv2d(in[0], in[1], NULL, 2, 0))
static void ref_conv_stride(const array *in, array *out) { ref_conv2d(&in[0], &in[1], NULL, 2, 0, out); }

static void pooled(const array *x, int64_t size, int64_t stride, int64_t padding, bool max, array *out)
{
    int64_t down = (x->size[2] + 2 * padding - size) / stride + 1,
            across = (x->size[3] + 2 * padding - size) / stride + 1;
    *out = array_new(4, (int64_t[]){x->size[0], x->size[1], down, across});
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    int64_t at[GD_MAX_DIMS] = {0}, k = 0;
    if (out->numel) do {
            long double best = -INFINITY, sum = 0;
            for (int64_t p = 0; p < size * size; p++) {
                int64_t i = at[2] * stride + p / size - padding, j = at[3] * stride + p % size - padding;
                if (i < 0 || j < 0 || i >= x->size[2] || j >= x->size[3]) continue;
                long double v = x->v[array_offset(x, (int64_t[]){at[0], at[1], i, j})];
                best = v > best ? v : best;
                sum += v;
            }
            out->scale[k] = 2;
            out->v[k++] = max ? best : sum / (long double)(size * size);
        } while (array_next(out, at));
}

APPLY(max_pool2d, gd_max_pool2d(in[0], 2, 2, 1))
static void ref_max_pool(const array *in, array *out) { pooled(in, 2, 2, 1, true, out); }
APPLY(avg_pool2d, gd_avg_pool2d(in[0], 2, 1, 1))
static void ref_avg_pool(const array *in, array *out) { pooled(in, 2, 1, 1, false, out); }

/* Windows of 2 x 2 cut out and added back: every pixel times the number of windows it is in. */
static gd_tensor *apply_fold2d(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_tensor *x = gd_drop_names(in[0]);
    gd_windows w = gd__windows(2, 2, 1, 0, x, false);
    return gd__fold2d(gd__unfold2d(x, &w, 0), &w);
}
static void ref_fold2d(const array *in, array *out)
{
    *out = array_new(4, in->size);
    int64_t tall = in->size[2], wide = in->size[3];
    for (int64_t k = 0; k < in->numel; k++) {
        int64_t i = k / wide % tall, j = k % wide;
        int64_t rows = (i > 0) + (i < tall - 1), columns = (j > 0) + (j < wide - 1);
        out->v[k] = in->v[k] * (long double)(rows * columns);
    }
}

/* What convolutions and poolings hand back, by their definitions.  The result's gradient g comes first. */
static void conv_sums(const array *g, const array *other, int64_t stride, int64_t padding, bool image,
                      array *out)
{
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    const array *x = image ? out : other, *w = image ? other : out;
    int64_t at[GD_MAX_DIMS] = {0}, n = 0;
    if (g->numel) do {
            for (int64_t k = 0; k < x->size[1] * w->size[2] * w->size[3]; k++) {
                int64_t c = k / (w->size[2] * w->size[3]), u = k / w->size[3] % w->size[2],
                        v = k % w->size[3];
                int64_t i = at[2] * stride + u - padding, j = at[3] * stride + v - padding;
                if (i < 0 || j < 0 || i >= x->size[2] || j >= x->size[3]) continue;
                int64_t pixel = array_offset(x, (int64_t[]){at[0], c, i, j});
                int64_t tap = array_offset(w, (int64_t[]){at[1], c, u, v}), to = image ? pixel : tap;
                long double part = g->v[n] * other->v[image ? tap : pixel];
                out->v[to] += part;
                out->scale[to] += fabsl(part);
            }
            n++;
        } while (array_next(g, at));
}

#define CONV_STRIDE 2
APPLY(conv2d_image, gd__conv2d_image(BARE(0), BARE(1), &(gd_convolution){CONV_STRIDE, 1},
                                     2 * gd_size(in[0], 2), 2 * gd_size(in[0], 3)))
static void ref_conv2d_image(const array *in, array *out)
{
    *out = array_new(4, (int64_t[]){in->size[0], in[1].size[1], 2 * in->size[2], 2 * in->size[3]});
    conv_sums(&in[0], &in[1], CONV_STRIDE, 1, true, out);
}
APPLY(conv2d_weight, gd__conv2d_weight(BARE(0), BARE(1), &(gd_convolution){1, 1}, 3, 3))
static void ref_conv2d_weight(const array *in, array *out)
{
    *out = array_new(4, (int64_t[]){in->size[1], in[1].size[1], 3, 3});
    conv_sums(&in[0], &in[1], 1, 1, false, out);
}

static const gd_pool small_pool = {2, 1, 1};
APPLY(avg_pool2d_grad, gd__avg_pool2d_grad(BARE(0), &small_pool,
                                           (int64_t[]){gd_size(in[0], 0), gd_size(in[0], 1),
                                                       gd_size(in[0], 2) - 1, gd_size(in[0], 3) - 1}))
static void pool_grad(const array *g, const array *x, const gd_pool *p, array *out)
{
    int64_t at[GD_MAX_DIMS] = {0}, n = 0;
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    if (g->numel) do {
            int64_t highest = -1;
            for (int64_t k = 0; k < p->size * p->size; k++) {
                int64_t i = at[2] * p->stride + k / p->size - p->padding,
                        j = at[3] * p->stride + k % p->size - p->padding;
                if (i < 0 || j < 0 || i >= out->size[2] || j >= out->size[3]) continue;
                int64_t to = array_offset(out, (int64_t[]){at[0], at[1], i, j});
                if (!x) {
                    out->v[to] += g->v[n] / (long double)(p->size * p->size);
                    out->scale[to] += fabsl(g->v[n]);
                } else if (highest < 0 || x->v[to] > x->v[highest])
                    highest = to;
            }
            if (x && highest >= 0) out->v[highest] += g->v[n], out->scale[highest] += fabsl(g->v[n]);
            n++;
        } while (array_next(g, at));
}
static void ref_avg_pool2d_grad(const array *in, array *out)
{
    *out = array_new(4, (int64_t[]){in->size[0], in->size[1], in->size[2] - 1, in->size[3] - 1});
    pool_grad(in, NULL, &small_pool, out);
}
/* windows of 3 x 3 with a border: as many as pixels */
static const gd_pool same_pool = {3, 1, 1};
APPLY(max_pool2d_grad, gd__max_pool2d_grad(BARE(0), BARE(1), &same_pool))
static void ref_max_pool2d_grad(const array *in, array *out)
{
    *out = array_new(4, in->size);
    pool_grad(in, &in[1], &same_pool, out);
}

APPLY(unfold2d, gd__unfold2d(BARE(0),
                             &(gd_windows){.tall = 2,
                                           .wide = 2,
                                           .stride = 1,
                                           .height = gd_size(in[0], 2),
                                           .width = gd_size(in[0], 3),
                                           .together = true},
                             0))
static void ref_unfold2d(const array *in, array *out)
{
    int64_t tall = in->size[2] - 1, wide = in->size[3] - 1, at[GD_MAX_DIMS] = {0}, k = 0;
    *out = array_new(4, (int64_t[]){in->size[0], in->size[1], tall * wide, 4});
    if (out->numel) do {
            int64_t i = at[2] / wide + at[3] / 2, j = at[2] % wide + at[3] % 2;
            out->v[k++] = in->v[array_offset(in, (int64_t[]){at[0], at[1], i, j})];
        } while (array_next(out, at));
}

/* Padding 1; strides 2 and 1; rows of a window are 2 apart. */
APPLY(unfold2d_apart, gd__unfold2d(BARE(0),
                                   &(gd_windows){.tall = 2,
                                                 .wide = 2,
                                                 .stride = 2,
                                                 .padding = 1,
                                                 .height = gd_size(in[0], 2),
                                                 .width = gd_size(in[0], 3),
                                                 .more_stride = -1,
                                                 .apart = {1, 0}},
                                   0))
static void ref_unfold2d_apart(const array *in, array *out)
{
    int64_t tall = (in->size[2] - 1) / 2 + 1, wide = in->size[3] + 1, at[GD_MAX_DIMS] = {0}, k = 0;
    *out = array_new(4, (int64_t[]){in->size[1], 4, in->size[0], tall * wide});
    if (out->numel) do {
            int64_t i = at[3] / wide * 2 - 1 + at[1] / 2 * 2, j = at[3] % wide - 1 + at[1] % 2;
            bool inside = i >= 0 && i < in->size[2] && j >= 0 && j < in->size[3];
            out->v[k++] = inside ? in->v[array_offset(in, (int64_t[]){at[2], at[0], i, j})] : 0;
        } while (array_next(out, at));
}

/* ---- the table ---- */

#define IMAGE(domain)                                                                             \
    {                                                                                             \
        domain, "batch=2 channel=2 height=4 width=3", NULL, "batch=0 channel=2 height=4 width=3", \
            "batch=1 channel=1 height=2 width=2", "batch=4 channel=8 height=40 width=40", 0       \
    }

static const op_case rows[] = {
    {.name = "unfold2d/apart",
     .op = GD_OP_unfold2d,
     .apply = apply_unfold2d_apart,
     .reference = ref_unfold2d_apart,
     .operands = 1,
     .in = {IMAGE(ANY)},
     .dtypes = FLOATS,
     .order = 2},
    {.name = "unfold2d",
     .op = GD_OP_unfold2d,
     .apply = apply_unfold2d,
     .reference = ref_unfold2d,
     .operands = 1,
     .in = {IMAGE(ANY)},
     .dtypes = FLOATS,
     .order = 2},
    {.name = "conv2d_image",
     .op = GD_OP_conv2d_image,
     .apply = apply_conv2d_image,
     .reference = ref_conv2d_image,
     .operands = 2,
     .in = {{ANY, "batch=2 out=3 height=2 width=3", NULL, "batch=0 out=3 height=2 width=3",
             "batch=1 out=1 height=1 width=1", "batch=3 out=9 height=20 width=21", 0},
            {ANY, "out=3 channel=2 tall=3 wide=3", NULL, "out=3 channel=2 tall=3 wide=3",
             "out=1 channel=1 tall=3 wide=3", "out=9 channel=6 tall=3 wide=3", 0}},
     .dtypes = FLOATS,
     .order = 2,
     .error = 8},
    {.name = "conv2d_weight",
     .op = GD_OP_conv2d_weight,
     .apply = apply_conv2d_weight,
     .reference = ref_conv2d_weight,
     .operands = 2,
     .in = {{ANY, "batch=2 out=3 height=2 width=3", NULL, "batch=0 out=3 height=2 width=3",
             "batch=1 out=1 height=2 width=2", "batch=5 out=9 height=20 width=21", 0},
            {ANY, "batch=2 channel=2 height=2 width=3", NULL, "batch=0 channel=2 height=2 width=3",
             "batch=1 channel=1 height=2 width=2", "batch=5 channel=7 height=20 width=21", 0}},
     .dtypes = FLOATS,
     .order = 2,
     .error = 8},
    {.name = "avg_pool2d_grad",
     .op = GD_OP_avg_pool2d_grad,
     .apply = apply_avg_pool2d_grad,
     .reference = ref_avg_pool2d_grad,
     .operands = 1,
     .in = {{ANY, "batch=2 channel=2 height=4 width=3", NULL, "batch=0 channel=2 height=4 width=3",
             "batch=1 channel=1 height=2 width=2", "batch=4 channel=8 height=40 width=40", 0}},
     .dtypes = FLOATS,
     .order = 2},
    {.name = "max_pool2d_grad",
     .op = GD_OP_max_pool2d_grad,
     .apply = apply_max_pool2d_grad,
     .reference = ref_max_pool2d_grad,
     .operands = 2,
     .in = {IMAGE(ANY), IMAGE(ANY)},
     .dtypes = FLOATS},
    {.name = "conv2d",
     .op = GD_OP_conv2d,
     .apply = apply_conv2d,
     .reference = ref_conv,
     .operands = 3,
     .in = {IMAGE(ANY),
            {ANY, "out=2 channel=2 tall=2 wide=3", NULL, "out=2 channel=2 tall=2 wide=3",
             "out=1 channel=1 tall=1 wide=1", "out=8 channel=8 tall=3 wide=3", 0},
            {ANY, "out=2", NULL, "out=2", "out=1", "out=8", 0}},
     .dtypes = FLOATS,
     .order = 2,
     .error = 8},
    {.name = "conv2d_with",
     .op = GD_OP_conv2d,
     .apply = apply_conv2d_with,
     .reference = ref_conv,
     .operands = 3,
     .in = {IMAGE(ANY),
            {ANY, "out=2 channel=2 tall=2 wide=3", NULL, "out=2 channel=2 tall=2 wide=3",
             "out=1 channel=1 tall=1 wide=1", "out=8 channel=8 tall=3 wide=3", 0},
            {ANY, "out=2", NULL, "out=2", "out=1", "out=8", 0}},
     .dtypes = FLOATS,
     .order = 2,
     .error = 8},
    {.name = "conv2d/stride",
     .op = GD_OP_conv2d,
     .apply = apply_conv2d_stride,
     .reference = ref_conv_stride,
     .operands = 2,
     .in = {IMAGE(ANY),
            {ANY, "out=2 channel=2 tall=2 wide=2", NULL, "out=2 channel=2 tall=2 wide=2",
             "out=1 channel=1 tall=1 wide=1", "out=8 channel=8 tall=3 wide=3", 0}},
     .dtypes = FLOATS,
     .order = 2,
     .error = 8},
    {.name = "max_pool2d",
     .op = GD_OP_max_pool2d,
     .apply = apply_max_pool2d,
     .reference = ref_max_pool,
     .operands = 1,
     .in = {IMAGE(ANY)},
     .dtypes = FLOATS,
     .order = 2},
    {.name = "avg_pool2d",
     .op = GD_OP_avg_pool2d,
     .apply = apply_avg_pool2d,
     .reference = ref_avg_pool,
     .operands = 1,
     .in = {IMAGE(ANY)},
     .dtypes = FLOATS,
     .order = 2},
    {.name = "fold2d",
     .op = GD_OP_fold2d,
     .apply = apply_fold2d,
     .reference = ref_fold2d,
     .operands = 1,
     .in = {IMAGE(ANY)},
     .dtypes = FLOATS,
     .order = 2},
};

const op_case_table image_cases = {rows, COUNT_OF(rows)};
