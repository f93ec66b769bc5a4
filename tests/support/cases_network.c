/* Network operators; those of images are in cases_images.c. */
#include "support/op_cases.h"
#include "support/op_references.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"
#include "tensor/linalg.h"

#include <math.h>

/* ---- the others ---- */

APPLY(layer_norm, gd_layer_norm(in[0], "1", in[1], in[2], 1e-5))
APPLY(layer_norm_plain, gd_layer_norm(in[0], "0, 1", NULL, NULL, 1e-3))

static void normalise(const array *x, int64_t n, long double eps, const array *weight, const array *bias,
                      array *out)
{
    *out = array_new(x->ndim, x->size);
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    for (int64_t start = 0; start + n <= x->numel && n; start += n) {
        long double mean = 0, spread = 0;
        for (int64_t i = 0; i < n; i++) mean += x->v[start + i] / (long double)n;
        for (int64_t i = 0; i < n; i++) spread += powl(x->v[start + i] - mean, 2) / (long double)n;
        for (int64_t i = 0; i < n; i++) {
            long double y = (x->v[start + i] - mean) / sqrtl(spread + eps), w = weight ? weight->v[i] : 1;
            out->v[start + i] = y * w + (bias ? bias->v[i] : 0);
            out->scale[start + i] = 4 + (2 + fabsl(y)) * fabsl(w) * (1 + 1 / sqrtl(spread + eps));
        }
    }
}

static void ref_layer_norm(const array *in, array *out)
{
    normalise(in, in->size[1], 1e-5L, &in[1], &in[2], out);
}
static void ref_layer_norm_plain(const array *in, array *out)
{
    normalise(in, in->numel, 1e-3L, NULL, NULL, out);
}

/* ---- operators behind them, and their gradients in one pass ---- */

APPLY(standardize, gd__standardize(in[0], 1, 1e-3))
static void ref_standardize(const array *in, array *out)
{
    normalise(in, in->size[1], 1e-3L, NULL, NULL, out);
}

APPLY(standardize_grad, gd__standardize_grad(BARE(0), BARE(1), 1, 1e-3))
static void ref_standardize_grad(const array *in, array *out)
{
    int64_t n = in->size[1];
    array y;
    normalise(&in[1], n, 1e-3L, NULL, NULL, &y);
    *out = array_new(in->ndim, in->size);
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    for (int64_t start = 0; start + n <= in->numel && n; start += n) {
        long double mean = 0, spread = 0, g = 0, gy = 0, size = 0;
        for (int64_t i = 0; i < n; i++) mean += in[1].v[start + i] / (long double)n;
        for (int64_t i = 0; i < n; i++) spread += powl(in[1].v[start + i] - mean, 2) / (long double)n;
        for (int64_t i = 0; i < n; i++) {
            g += in->v[start + i] / (long double)n;
            gy += in->v[start + i] * y.v[start + i] / (long double)n;
            size += fabsl(in->v[start + i]) * (1 + fabsl(y.v[start + i])) / (long double)n;
        }
        long double rate = 1 / sqrtl(spread + 1e-3L);
        for (int64_t i = 0; i < n; i++) {
            out->v[start + i] = rate * (in->v[start + i] - g - y.v[start + i] * gy);
            out->scale[start + i] = rate * (4 + size) * (2 + fabsl(y.v[start + i])) * (1 + rate);
        }
    }
    array_free(&y);
}

/* The gradients of layer_norm in one pass each, with statistics of their own. */
static gd_tensor *stats_of(gd_tensor *x)
{
    gd_tensor *mean = gd_mean(x, "1", true), *spread = gd_mean(gd_square(gd_sub(x, mean)), "1", true);
    gd_tensor *both[2] = {mean, gd_rsqrt(gd_add_scalar(spread, 1e-3))};
    return mean ? gd_cast(gd_cat(both, 2, "1"), gd_tensor_dtype(x) == GD_F64 ? GD_F64 : GD_F32) : NULL;
}
static gd_tensor *apply_layer_norm_grad(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_tensor *x = BARE(1);
    if (x && !gd__need_float("layer_norm_grad", x)) return NULL;
    return gd__layer_norm_grad(BARE(0), x, BARE(2), stats_of(x));
}
static void ref_layer_norm_grad(const array *in, array *out)
{
    array scaled[2] = {array_new(in->ndim, in->size), in[1]};
    for (int64_t i = 0; i < in->numel; i++) scaled[0].v[i] = in->v[i] * in[2].v[i % in->size[1]];
    ref_standardize_grad(scaled, out);
    array_free(&scaled[0]);
}
static gd_tensor *apply_layer_norm_sums(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_tensor *x = BARE(1), *sums[2];
    if (x && !gd__need_float("layer_norm_sums", x)) return NULL;
    return gd__layer_norm_sums(BARE(0), x, stats_of(x), sums) ? NULL : gd_cat(sums, 2, "0");
}
static void ref_layer_norm_sums(const array *in, array *out)
{
    int64_t n = in->size[1];
    array y;
    normalise(&in[1], n, 1e-3L, NULL, NULL, &y);
    *out = array_new(1, (int64_t[]){2 * n});
    out->scale = calloc((size_t)(2 * n) + 1, sizeof *out->scale);
    for (int64_t i = 0; i < in->numel; i++) {
        out->v[i % n] += in->v[i] * y.v[i];
        out->v[n + i % n] += in->v[i];
        out->scale[i % n] += fabsl(in->v[i]) * y.scale[i];
        out->scale[n + i % n] += fabsl(in->v[i]);
    }
    array_free(&y);
}

static gd_tensor *apply_softmax_grad(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    int64_t sizes[3] = {gd_size(in[0], 0), gd_size(in[0], 1), 1};
    return gd__softmax_grad(BARE(0), BARE(1), sizes, 0.5, 0);
}
/* along the first axis */
static gd_tensor *apply_softmax_grad_first(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    int64_t sizes[3] = {1, gd_size(in[0], 0), gd_size(in[0], 1)};
    return gd__softmax_grad(BARE(0), BARE(1), sizes, 1, 0);
}
static void softmax_grads(const array *in, int64_t outer, int64_t n, int64_t inner, long double scale,
                          array *out)
{
    *out = array_new(in->ndim, in->size);
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    for (int64_t row = 0; row < outer * inner; row++) {
        int64_t first = row / inner * n * inner + row % inner;
        long double dot = 0, size = 0;
        for (int64_t i = first; i < first + n * inner; i += inner) {
            dot += in[0].v[i] * in[1].v[i];
            size += fabsl(in[0].v[i] * in[1].v[i]);
        }
        for (int64_t i = first; i < first + n * inner; i += inner) {
            out->v[i] = scale * in[1].v[i] * (in[0].v[i] - dot);
            out->scale[i] = fabsl(in[1].v[i]) * (fabsl(in[0].v[i]) + size);
        }
    }
}
static void ref_softmax_grad(const array *in, array *out)
{
    softmax_grads(in, in->size[0], in->size[1], 1, 0.5L, out);
}
static void ref_softmax_grad_first(const array *in, array *out)
{
    softmax_grads(in, 1, in->size[0], in->size[1], 1, out);
}

static gd_tensor *apply_softmax_times(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    return gd__softmax_times(BARE(0), BARE(1), (int64_t[]){gd_size(in[0], 0), gd_size(in[0], 1), 1});
}
static gd_tensor *apply_softmax_times_first(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    return gd__softmax_times(BARE(0), BARE(1), (int64_t[]){1, gd_size(in[0], 0), gd_size(in[0], 1)});
}
static gd_tensor *apply_log_softmax_grad(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    return gd__log_softmax_grad(BARE(0), BARE(1), (int64_t[]){gd_size(in[0], 0), gd_size(in[0], 1), 1});
}
static gd_tensor *apply_log_softmax_grad_first(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    return gd__log_softmax_grad(BARE(0), BARE(1), (int64_t[]){1, gd_size(in[0], 0), gd_size(in[0], 1)});
}
/* Rows of a matrix, or its columns: softmax of the first operand times the second, or the second's exponentials times sums of the first. */
static void shares_of(const array *in, bool columns, bool times, array *out)
{
    int64_t rows = in->size[0], width = in->size[1], count = columns ? width : rows,
            n = columns ? rows : width, step = columns ? width : 1;
    *out = array_new(in->ndim, in->size);
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    for (int64_t k = 0; k < count; k++) {
        int64_t first = columns ? k : k * width;
        long double sum = 0, size = 0;
        for (int64_t i = first; i < first + n * step; i += step) {
            sum += times ? expl(in->v[i]) : in->v[i];
            size += fabsl(in->v[i]);
        }
        for (int64_t i = first; i < first + n * step; i += step) {
            out->v[i] = times ? expl(in->v[i]) / sum * in[1].v[k] : in->v[i] - expl(in[1].v[i]) * sum;
            out->scale[i] = times ? fabsl(in[1].v[k]) : fabsl(in->v[i]) + expl(in[1].v[i]) * (1 + size);
        }
    }
}
static void ref_softmax_times(const array *in, array *out) { shares_of(in, false, true, out); }
static void ref_softmax_times_first(const array *in, array *out) { shares_of(in, true, true, out); }
static void ref_log_softmax_grad(const array *in, array *out) { shares_of(in, false, false, out); }
static void ref_log_softmax_grad_first(const array *in, array *out) { shares_of(in, true, false, out); }

APPLY(slope, gd__slope(GD_OP_sinh, 0, in[0], in[1]))
static void ref_slope(const array *in, array *out)
{
    *out = array_new(in->ndim, in->size);
    for (int64_t i = 0; i < in->numel; i++) out->v[i] = in->v[i] * coshl(in[1].v[i]);
}
APPLY(slope_of_power, gd__slope(GD_OP_pow_scalar, 3, in[0], in[1]))
static void ref_slope_of_power(const array *in, array *out)
{
    *out = array_new(in->ndim, in->size);
    for (int64_t i = 0; i < in->numel; i++) out->v[i] = in->v[i] * 3 * in[1].v[i] * in[1].v[i];
}

APPLY(softmax_causal, gd__attention_softmax(in[0], 0.5, true))
static void ref_softmax_causal(const array *in, array *out)
{
    int64_t rows = in->size[1], columns = in->size[2];
    *out = array_new(3, in->size);
    for (int64_t k = 0; k < in->numel; k += columns) {
        int64_t seen = columns - rows + k / columns % rows + 1;
        long double sum = 0;
        for (int64_t i = 0; i < seen; i++) sum += expl(0.5L * in->v[k + i]);
        for (int64_t i = 0; i < columns; i++) out->v[k + i] = i < seen ? expl(0.5L * in->v[k + i]) / sum : 0;
    }
}

/* A product and a sum in one. */
APPLY(linear, gd__linear(BARE(0), BARE(1), BARE(2)))
static void ref_linear(const array *in, array *out)
{
    int64_t rows = in->size[0], depth = in->size[1], columns = in[1].size[0];
    *out = array_new(2, (int64_t[]){rows, columns});
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    for (int64_t k = 0; k < out->numel; k++) {
        int64_t row = k / columns, column = k % columns;
        out->v[k] = in[2].v[column];
        out->scale[k] = fabsl(in[2].v[column]);
        for (int64_t i = 0; i < depth; i++) {
            long double part = in->v[row * depth + i] * in[1].v[column * depth + i];
            out->v[k] += part;
            out->scale[k] += fabsl(part);
        }
    }
}

APPLY(gelu_grad, gd__binary(GD_OP_gelu_grad, in[0], in[1]))
static void ref_gelu_grad(const array *in, array *out)
{
    *out = array_new(in->ndim, in->size);
    for (int64_t i = 0; i < in->numel; i++) {
        long double y = in[1].v[i], phi = expl(-0.5L * y * y) / sqrtl(2 * acosl(-1));
        out->v[i] = in->v[i] * (0.5L * erfcl(-y * sqrtl(0.5L)) + y * phi);
    }
    out->scale = calloc((size_t)out->numel + 1, sizeof *out->scale);
    for (int64_t i = 0; i < in->numel; i++) out->scale[i] = 2 * fabsl(in->v[i]);
}

/* Of slopes that are next to nothing, too, in their own size: rounding of y^2 / 2 is that of its exponential. */
static void ref_gelu_grad_tail(const array *in, array *out)
{
    ref_gelu_grad(in, out);
    for (int64_t i = 0; i < out->numel; i++) out->scale[i] = fabsl(out->v[i]);
}

APPLY(relu_grad, gd__binary(GD_OP_relu_grad, in[0], in[1]))
static void ref_relu_grad(const array *in, array *out)
{
    *out = array_new(in->ndim, in->size);
    for (int64_t i = 0; i < in->numel; i++) out->v[i] = in[1].v[i] > 0 ? in->v[i] : 0;
}

APPLY(tanh_grad, gd__binary(GD_OP_tanh_grad, in[0], in[1]))
static void ref_tanh_grad(const array *in, array *out)
{
    *out = array_new(in->ndim, in->size);
    for (int64_t i = 0; i < in->numel; i++) out->v[i] = in->v[i] * (1 - in[1].v[i] * in[1].v[i]);
}

APPLY(sigmoid_grad, gd__binary(GD_OP_sigmoid_grad, in[0], in[1]))
static void ref_sigmoid_grad(const array *in, array *out)
{
    *out = array_new(in->ndim, in->size);
    for (int64_t i = 0; i < in->numel; i++) out->v[i] = in->v[i] * in[1].v[i] * (1 - in[1].v[i]);
}

/* All three gradients, one after the other. */
static gd_tensor *apply_linear_grad(gd_ctx *ctx, gd_tensor *const *in)
{
    gd_tensor *all[3], *flat[3];
    gd_status status = gd__linear_grad(gd__nameless(in[0]), gd__nameless(in[1]), gd__nameless(in[2]), all);
    for (int k = 0; k < 3 && !status; k++) {
        flat[k] = gd__reshape(all[k], 1, &all[k]->numel);
        if (!flat[k]) status = gd_error(ctx);
    }
    return status ? NULL : gd_cat(flat, 3, "0");
}
static void ref_linear_grad(const array *in, array *out)
{
    int64_t rows = in->size[0], outputs = in->size[1], inputs = in[1].size[1];
    int64_t parts[3] = {rows * inputs, outputs * inputs, outputs}, numel = parts[0] + parts[1] + parts[2];
    const long double *g = in[0].v, *x = in[1].v, *w = in[2].v;
    *out = array_new(1, &numel);
    out->scale = calloc((size_t)numel + 1, sizeof *out->scale);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < outputs; o++) {
            long double v = g[r * outputs + o], *bias = out->v + parts[0] + parts[1] + o;
            *bias += v;
            out->scale[bias - out->v] += fabsl(v);
            for (int64_t i = 0; i < inputs; i++) {
                int64_t back = r * inputs + i, weight = parts[0] + o * inputs + i;
                out->v[back] += v * w[o * inputs + i];
                out->v[weight] += v * x[r * inputs + i];
                out->scale[back] += fabsl(v * w[o * inputs + i]);
                out->scale[weight] += fabsl(v * x[r * inputs + i]);
            }
        }
}

static gd_tensor *apply_pieces(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)ctx;
    gd_tensor *part[3];
    return gd__split(in[0], 3, part) ? NULL : gd_cat((gd_tensor *[]){part[2], part[0], part[1]}, 3, "0");
}
static void ref_pieces(const array *in, array *out)
{
    int64_t n = in->numel / 3;
    *out = array_new(2, (int64_t[]){3 * in->size[1], in->size[2]});
    for (int64_t i = 0; i < in->numel; i++) out->v[(i + n) % in->numel] = in->v[i];
}

APPLY(embedding, gd_embedding(in[0], in[1]))
static void ref_embedding(const array *in, array *out)
{
    int64_t wide = in->size[1];
    *out = array_new(3, (int64_t[]){in[1].size[0], in[1].size[1], wide});
    for (int64_t k = 0; k < out->numel; k++) out->v[k] = in->v[(int64_t)in[1].v[k / wide] * wide + k % wide];
}

/* The same mask at every call. */
static gd_tensor *apply_dropout(gd_ctx *ctx, gd_tensor *const *in)
{
    gd_seed(ctx, 3);
    return gd_dropout(in[0], 0.25);
}
static const char *holds_dropout(const array *in, const array *out, long double eps)
{
    for (int64_t i = 0; i < in->numel; i++) {
        long double kept = in->v[i] / 0.75L;
        if (out->v[i] != 0 && fabsl(out->v[i] - kept) > 2 * eps * fabsl(kept))
            return "neither 0 nor x / (1 - p)";
    }
    return NULL;
}

APPLY(cross_entropy, gd_cross_entropy(in[0], in[1]))
static void ref_cross_entropy(const array *in, array *out)
{
    *out = array_new(0, NULL);
    int64_t rows = in->size[0], classes = in->size[1];
    long double sum = 0;
    for (int64_t i = 0; i < rows; i++) {
        long double all = 0;
        for (int64_t j = 0; j < classes; j++) all += expl(in->v[i * classes + j]);
        sum += logl(all) - in->v[i * classes + (int64_t)in[1].v[i]];
    }
    out->v[0] = sum / (long double)rows;
    out->scale = calloc(1, sizeof *out->scale);
    out->scale[0] = 4;
}

APPLY(mse, gd_mse(in[0], in[1]))
static void ref_mse(const array *in, array *out)
{
    *out = array_new(0, NULL);
    for (int64_t i = 0; i < in->numel; i++)
        out->v[0] += powl(in[0].v[i] - in[1].v[i], 2) / (long double)in->numel;
    if (!in->numel) out->v[0] = NAN;
}

/* ---- the table ---- */

#define FLAT(domain)                                                                    \
    {                                                                                   \
        domain, "row=2 col=3", NULL, "row=0 col=3", "row=1 col=1", "row=300 col=400", 0 \
    }

static const op_case rows[] = {
    {.name = "layer_norm",
     .op = GD_OP_layer_norm,
     .apply = apply_layer_norm,
     .reference = ref_layer_norm,
     .operands = 3,
     .in = {FLAT(ANY),
            {ANY, "col=3", NULL, "col=3", "col=1", "col=400", 0},
            {ANY, "col=3", NULL, "col=3", "col=1", "col=400", 0}},
     .dtypes = FLOATS,
     .order = 2,
     .error = 4},
    {.name = "layer_norm/plain",
     .op = GD_OP_standardize,
     .apply = apply_layer_norm_plain,
     .reference = ref_layer_norm_plain,
     .operands = 1,
     .in = {FLAT(ANY)},
     .dtypes = FLOATS,
     .order = 2,
     .error = 4},
    {.name = "standardize",
     .op = GD_OP_standardize,
     .apply = apply_standardize,
     .reference = ref_standardize,
     .operands = 1,
     .in = {FLAT(ANY)},
     .dtypes = FLOATS,
     .order = 2,
     .error = 4},
    {.name = "standardize_grad",
     .op = GD_OP_standardize_grad,
     .apply = apply_standardize_grad,
     .reference = ref_standardize_grad,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(ANY)},
     .dtypes = FLOATS,
     .error = 4},
    {.name = "layer_norm_grad",
     .op = GD_OP_layer_norm_grad,
     .apply = apply_layer_norm_grad,
     .reference = ref_layer_norm_grad,
     .operands = 3,
     .in = {FLAT(ANY), FLAT(ANY), {ANY, "col=3", NULL, "col=3", "col=1", "col=400", 0}},
     .dtypes = 1 << GD_F32 | 1 << GD_F64,
     .error = 8},
    {.name = "layer_norm_sums",
     .op = GD_OP_layer_norm_sums,
     .apply = apply_layer_norm_sums,
     .reference = ref_layer_norm_sums,
     .operands = 2,
     .in = {{ANY, "row=2 col=3", NULL, NULL, "row=1 col=1", "row=300 col=400", 0},
            {ANY, "row=2 col=3", NULL, NULL, "row=1 col=1", "row=300 col=400", 0}},
     .dtypes = 1 << GD_F32 | 1 << GD_F64,
     .error = 8},
    {.name = "softmax_grad",
     .op = GD_OP_softmax_grad,
     .apply = apply_softmax_grad,
     .reference = ref_softmax_grad,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(ANY)},
     .dtypes = FLOATS,
     .error = 4},
    {.name = "softmax_grad/first",
     .op = GD_OP_softmax_grad,
     .apply = apply_softmax_grad_first,
     .reference = ref_softmax_grad_first,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(ANY)},
     .dtypes = FLOATS,
     .error = 4},
    {.name = "softmax_times",
     .op = GD_OP_softmax_times,
     .apply = apply_softmax_times,
     .reference = ref_softmax_times,
     .operands = 2,
     .in = {{ANY, "row=2 col=3", NULL, "row=0 col=3", "row=1 col=1", "row=300 col=400", 0},
            {ANY, "row=2", NULL, "row=0", "row=1", "row=300", 0}},
     .dtypes = 1 << GD_F32 | 1 << GD_F64,
     .error = 8},
    {.name = "softmax_times/first",
     .op = GD_OP_softmax_times,
     .apply = apply_softmax_times_first,
     .reference = ref_softmax_times_first,
     .operands = 2,
     .in = {{ANY, "row=2 col=3", NULL, "row=2 col=0", "row=1 col=1", "row=5000 col=3", 0},
            {ANY, "col=3", NULL, "col=0", "col=1", "col=3", 0}},
     .dtypes = 1 << GD_F32 | 1 << GD_F64,
     .error = 8},
    {.name = "log_softmax_grad",
     .op = GD_OP_log_softmax_grad,
     .apply = apply_log_softmax_grad,
     .reference = ref_log_softmax_grad,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(ANY)},
     .dtypes = 1 << GD_F32 | 1 << GD_F64,
     .error = 8},
    {.name = "log_softmax_grad/long",
     .op = GD_OP_log_softmax_grad,
     .apply = apply_log_softmax_grad,
     .reference = ref_log_softmax_grad,
     .operands = 2,
     .in = {{ANY, "row=2 col=3", NULL, "row=0 col=3", "row=1 col=1", "row=3 col=5000", 0},
            {ANY, "row=2 col=3", NULL, "row=0 col=3", "row=1 col=1", "row=3 col=5000", 0}},
     .dtypes = 1 << GD_F32 | 1 << GD_F64,
     .error = 8},
    {.name = "log_softmax_grad/first",
     .op = GD_OP_log_softmax_grad,
     .apply = apply_log_softmax_grad_first,
     .reference = ref_log_softmax_grad_first,
     .operands = 2,
     .in = {{ANY, "row=2 col=3", NULL, "row=2 col=0", "row=1 col=1", "row=5000 col=3", 0},
            {ANY, "row=2 col=3", NULL, "row=2 col=0", "row=1 col=1", "row=5000 col=3", 0}},
     .dtypes = 1 << GD_F32 | 1 << GD_F64,
     .error = 8},
    {.name = "slope",
     .op = GD_OP_slope,
     .apply = apply_slope,
     .reference = ref_slope,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(ANY)},
     .dtypes = FLOATS,
     .error = 4},
    {.name = "slope/power",
     .op = GD_OP_slope,
     .apply = apply_slope_of_power,
     .reference = ref_slope_of_power,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(ANY)},
     .dtypes = FLOATS,
     .error = 4},
    {.name = "softmax/causal",
     .op = GD_OP_softmax,
     .apply = apply_softmax_causal,
     .reference = ref_softmax_causal,
     .operands = 1,
     .in = {{ANY, "deep=2 row=2 col=3", NULL, "deep=0 row=2 col=3", "deep=1 row=1 col=1",
             "deep=40 row=50 col=60", 0}},
     .dtypes = FLOATS,
     .order = 2,
     .error = 8},
    {.name = "linear",
     .op = GD_OP_linear,
     .apply = apply_linear,
     .reference = ref_linear,
     .operands = 3,
     .in = {{ANY, "row=2 col=3", NULL, "row=0 col=3", "row=1 col=1", "row=60 col=70", 0},
            {ANY, "out=4 col=3", NULL, "out=4 col=3", "out=1 col=1", "out=50 col=70", 0},
            {ANY, "out=4", NULL, "out=4", "out=1", "out=50", 0}},
     .dtypes = FLOATS,
     .order = 2,
     .error = 4},
    {.name = "linear_grad",
     .op = GD_OP_linear_grad,
     .apply = apply_linear_grad,
     .reference = ref_linear_grad,
     .operands = 3,
     .in = {{ANY, "row=2 out=4", NULL, "row=0 out=4", "row=1 out=1", "row=60 out=50", 0},
            {ANY, "row=2 col=3", NULL, "row=0 col=3", "row=1 col=1", "row=60 col=70", 0},
            {ANY, "out=4 col=3", NULL, "out=4 col=3", "out=1 col=1", "out=50 col=70", 0}},
     .dtypes = FLOATS,
     .error = 4},
    {.name = "gelu_grad",
     .op = GD_OP_gelu_grad,
     .apply = apply_gelu_grad,
     .reference = ref_gelu_grad,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(ANY)},
     .dtypes = FLOATS,
     .error = 4},
    {.name = "gelu_grad/tail",
     .op = GD_OP_gelu_grad,
     .apply = apply_gelu_grad,
     .reference = ref_gelu_grad_tail,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(LOW_TAIL)},
     .dtypes = 1 << GD_F32 | 1 << GD_F64,
     .error = 40,
     .apart = true},
    {.name = "relu_grad",
     .op = GD_OP_relu_grad,
     .apply = apply_relu_grad,
     .reference = ref_relu_grad,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(ANY)},
     .dtypes = FLOATS},
    {.name = "tanh_grad",
     .op = GD_OP_tanh_grad,
     .apply = apply_tanh_grad,
     .reference = ref_tanh_grad,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(INSIDE)},
     .dtypes = FLOATS},
    {.name = "sigmoid_grad",
     .op = GD_OP_sigmoid_grad,
     .apply = apply_sigmoid_grad,
     .reference = ref_sigmoid_grad,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(INSIDE)},
     .dtypes = FLOATS},
    {.name = "split/pieces",
     .op = GD_OP_split,
     .apply = apply_pieces,
     .reference = ref_pieces,
     .operands = 1,
     .in = {{ANY, "third=3 row=2 col=2", NULL, "third=3 row=0 col=2", "third=3 row=1 col=1",
             "third=3 row=60 col=400", 0}},
     .dtypes = EVERYTHING,
     .order = 2},
    {.name = "embedding",
     .op = GD_OP_index_select,
     .apply = apply_embedding,
     .reference = ref_embedding,
     .operands = 2,
     .in = {{ANY, "word=3 col=2", NULL, "word=3 col=0", "word=3 col=1", "word=300 col=400", 0},
            {PLACES, "row=2 step=2", NULL, "row=2 step=2", "row=1 step=1", "row=20 step=20", 3}},
     .dtypes = EVERYTHING,
     .order = 2},
    {.name = "dropout",
     .op = GD_OP_random,
     .apply = apply_dropout,
     .holds = holds_dropout,
     .operands = 1,
     .in = {FLAT(ANY)},
     .dtypes = FLOATS,
     .order = 2},
    {.name = "cross_entropy",
     .op = GD_OP_gather,
     .apply = apply_cross_entropy,
     .reference = ref_cross_entropy,
     .operands = 2,
     .in = {{ANY, "row=2 class=3", NULL, NULL, "row=1 class=3", "row=3000 class=50", 0},
            {PLACES, "row=2", NULL, NULL, "row=1", "row=3000", 3}},
     .dtypes = FLOATS,
     .order = 2,
     .error = 4},
    {.name = "mse",
     .op = GD_OP_square,
     .apply = apply_mse,
     .reference = ref_mse,
     .operands = 2,
     .in = {FLAT(ANY), FLAT(ANY)},
     .dtypes = FLOATS,
     .order = 2,
     .scramble = true,
     .error = 10},
};

const op_case_table network_cases = {rows, COUNT_OF(rows)};
