/* Element-wise operators: one kernel for each operator and dtype, in two layouts. */
#include "plugin.h"

#include "common_bytes.h"
#include "map_bytes.h"

#include <stdio.h>
#include <string.h>

/* The operator as an expression of x, y, z and its settings f; overloads choose the type. */
static const char *const expressions[GD_OP_COUNT] = {
    [GD_OP_neg] = "-x",
    [GD_OP_abs] = "d_abs(x)",
    [GD_OP_sign] = "d_sign(x)",
    [GD_OP_sqrt] = "d_sqrt(x)",
    [GD_OP_rsqrt] = "d_rsqrt(x)",
    [GD_OP_exp] = "d_exp(x)",
    [GD_OP_expm1] = "d_expm1(x)",
    [GD_OP_log] = "d_log(x)",
    [GD_OP_log1p] = "d_log1p(x)",
    [GD_OP_log2] = "d_log2(x)",
    [GD_OP_log10] = "d_log10(x)",
    [GD_OP_sin] = "d_sin(x)",
    [GD_OP_cos] = "d_cos(x)",
    [GD_OP_tan] = "d_tan(x)",
    [GD_OP_asin] = "d_asin(x)",
    [GD_OP_acos] = "d_acos(x)",
    [GD_OP_atan] = "d_atan(x)",
    [GD_OP_sinh] = "d_sinh(x)",
    [GD_OP_cosh] = "d_cosh(x)",
    [GD_OP_asinh] = "d_asinh(x)",
    [GD_OP_acosh] = "d_acosh(x)",
    [GD_OP_atanh] = "d_atanh(x)",
    [GD_OP_tanh] = "d_tanh(x)",
    [GD_OP_sigmoid] = "d_sigmoid(x)",
    [GD_OP_softplus] = "d_softplus(x)",
    [GD_OP_relu] = "(x < 0 ? (C)0 : x)",
    [GD_OP_gelu] = "d_gelu(x)",
    [GD_OP_erf] = "d_erf(x)",
    [GD_OP_erfc] = "d_erfc(x)",
    [GD_OP_lgamma] = "d_lgamma(x)",
    [GD_OP_polygamma] = "(C)d_polygamma((int)f[0], (double)x)",
    [GD_OP_bessel_j] = "(C)d_bessel_j((int)f[0], (double)x)",
    [GD_OP_square] = "x * x",
    [GD_OP_reciprocal] = "1 / x",
    [GD_OP_floor] = "d_floor(x)",
    [GD_OP_ceil] = "d_ceil(x)",
    [GD_OP_round] = "d_round(x)",
    [GD_OP_trunc] = "d_trunc(x)",
    [GD_OP_add_scalar] = "x + (C)f[0]",
    [GD_OP_mul_scalar] = "x * (C)f[0]",
    [GD_OP_pow_scalar] = "d_pow(x, f[0])",
    [GD_OP_clamp] = "d_clamp(x, f)",
    [GD_OP_isfinite] = "d_isfinite(x)",
    [GD_OP_isnan] = "x != x",
    [GD_OP_isinf] = "x == x && !d_isfinite(x)",
    [GD_OP_signbit] = "d_signbit(x)",
    [GD_OP_logical_not] = "x == 0",
    [GD_OP_add] = "x + y",
    [GD_OP_sub] = "x - y",
    [GD_OP_mul] = "x * y",
    [GD_OP_div] = "x / y",
    [GD_OP_pow] = "d_pow(x, y)",
    [GD_OP_atan2] = "d_atan2(x, y)",
    [GD_OP_hypot] = "d_hypot(x, y)",
    [GD_OP_logaddexp] = "d_logaddexp(x, y)",
    [GD_OP_copysign] = "d_copysign(x, y != y ? (C)0 : y)",
    [GD_OP_nextafter] = "d_nextafter(x, y)",
    [GD_OP_mod] = "(C)d_mod(x, y)",
    [GD_OP_floor_div] = "(C)d_floor_div(x, y)",
    [GD_OP_bit_not] = "(C)~(u64)x",
    [GD_OP_bit_and] = "(C)((u64)x & (u64)y)",
    [GD_OP_bit_or] = "(C)((u64)x | (u64)y)",
    [GD_OP_bit_xor] = "(C)((u64)x ^ (u64)y)",
    [GD_OP_shift_left] = "((u64)y < 64 ? (C)((u64)x << (u64)y) : (C)0)",
    [GD_OP_shift_right] = "(C)((long long)x >> ((u64)y < 64 ? (int)y : 63))",
    [GD_OP_minimum] = "d_min(x, y)",
    [GD_OP_maximum] = "d_max(x, y)",
    [GD_OP_eq] = "x == y",
    [GD_OP_ne] = "x != y",
    [GD_OP_lt] = "x < y",
    [GD_OP_le] = "x <= y",
    [GD_OP_gt] = "x > y",
    [GD_OP_ge] = "x >= y",
    [GD_OP_logical_and] = "(x != 0) && (y != 0)",
    [GD_OP_logical_or] = "(x != 0) || (y != 0)",
    [GD_OP_logical_xor] = "(x != 0) != (y != 0)",
    [GD_OP_where] = "(x ? y : z)",
    [GD_OP_fma] = "d_fma(x, y, z)",
    [GD_OP_gelu_grad] = "x * d_gelu_slope(y)",
    [GD_OP_relu_grad] = "(y > 0 ? x : (C)0)",
    [GD_OP_tanh_grad] = "x * (-(y * y) + (C)1)",
    [GD_OP_sigmoid_grad] = "x * (y * (-y + (C)1))",
    [GD_OP_lerp] = "x + z * (y - x)",
};

#define ELEMENT_WISE_MAP  true
#define ELEMENT_WISE_TEST true
#define ELEMENT_WISE_VIEW false
#define ELEMENT_WISE_FULL false
#define ELEMENT_WISE_LAID false
static const bool element_wise[GD_OP_COUNT] = {
#define OP(name, nin, nout, kind, ...) ELEMENT_WISE_##kind,
#define OP0                            OP
#include "tensor/ops.def"
};

bool cuda_has(gd_op_id op)
{
    switch (op) {
    case GD_OP_conv2d: /* gd_conv2d and the poolings unfold windows here */
    case GD_OP_conv2d_image:
    case GD_OP_conv2d_weight:
    case GD_OP_max_pool2d:
    case GD_OP_max_pool2d_grad:
    case GD_OP_avg_pool2d:
    case GD_OP_avg_pool2d_grad:
    case GD_OP_argsort:
    case GD_OP_sum_squares: /* these are only asked for on the CPU */
    case GD_OP_slope:
    case GD_OP_softmax_times:
    case GD_OP_log_softmax_grad:
    case GD_OP_highest: /* gd_max and gd_min take the places of the extremes here */
    case GD_OP_lowest: return false;
    default: return !element_wise[op] || expressions[op];
    }
}

const char *cuda_expression(gd_op_id op) { return expressions[op]; }

size_t cuda_map_source(gd_op_id op, int nin, gd_dtype first, gd_dtype dtype, gd_dtype out, char *text,
                       size_t size)
{
    if (!expressions[op]) return 0;
    int n = snprintf(text, size,
                     "%s\n#define FIRST %d\n#define DT %d\n#define OUT %d\n#define NIN %d\n"
                     "#define EXPR(x, y, z, f) (%s)\n%s",
                     common_text, (int)first, (int)dtype, (int)out, nin, expressions[op], map_text);
    return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

static const char *const layout_names[] = {"map_strided", "map_contiguous", "map_rows"};
enum { STRIDED, CONTIGUOUS, ROWS };

static gd_status map_kernel(gd_device *device, const gd_call *call, int layout, CUfunction *f)
{
    cuda_state *s = cuda_of(device);
    const char *name = device->host->ops[call->op].name;
    gd_tensor *typed = call->in[call->op == GD_OP_where ? 1 : 0];
    CUfunction *quick = &s->map_quick[call->op][typed->dtype][layout];
    char source[CUDA_SOURCE_SIZE];
    if (!*quick) {
        if (!cuda_map_source(call->op, call->nin, call->in[0]->dtype, typed->dtype, call->out[0]->dtype,
                             source, sizeof source))
            return device->host->fail(device->ctx, GD_INTERNAL, "%s: has no CUDA expression", name);
        gd_status status = cuda_kernel(device, name, source, layout_names[layout], quick);
        if (status) return status;
    }
    *f = *quick;
    return GD_OK;
}

/* Axes of all operands together, neighbours merged where every operand allows it. */
static void merge(cuda_map_args *a, int nin)
{
    int n = 0;
    for (int d = 0; d < a->ndim; d++) {
        if (a->size[d] == 1) continue;
        bool joins = n > 0;
        for (int j = 0; j < nin && joins; j++) joins = a->stride[j][n - 1] == a->stride[j][d] * a->size[d];
        int to = joins ? n - 1 : n++;
        a->size[to] = joins ? a->size[to] * a->size[d] : a->size[d];
        for (int j = 0; j < nin; j++) a->stride[j][to] = a->stride[j][d];
    }
    a->ndim = n;
}

/* One axis as a matrix of one row. */
static void one_row(cuda_map_args *a, int nin)
{
    a->ndim = 2;
    a->size[1] = a->size[0];
    a->size[0] = 1;
    for (int j = 0; j < nin; j++) {
        a->stride[j][1] = a->stride[j][0];
        a->stride[j][0] = 0;
    }
}

gd_status cuda_map(gd_device *device, const gd_call *call)
{
    gd_tensor *out = call->out[0];
    if (out->numel == 0) return GD_OK;
    cuda_map_args a = {
        .n = out->numel, .ndim = out->ndim, .out = out->data, .f = {call->attrs->f[0], call->attrs->f[1]}};
    memcpy(a.size, out->size, sizeof a.size);
    bool contiguous = ((uintptr_t)out->data & 31) == 0;
    for (int j = 0; j < call->nin; j++) {
        gd_tensor *t = call->in[j];
        a.in[j] = t->data;
        int shift = out->ndim - t->ndim;
        for (int d = 0; d < out->ndim; d++)
            a.stride[j][d] = d < shift || (t->size[d - shift] == 1 && out->size[d] != 1)
                                 ? 0
                                 : t->stride[d - shift];
        contiguous = contiguous && ((uintptr_t)t->data & 31) == 0;
    }
    merge(&a, call->nin);
    for (int j = 0; j < call->nin; j++)
        contiguous = contiguous && (a.ndim == 0 || (a.ndim == 1 && a.stride[j][0] == 1));
    CUfunction f = NULL;
    /* a matrix with a vector along its rows or columns, or a number: four neighbours share the arithmetic of their place */
    if (a.ndim == 1) one_row(&a, call->nin);
    for (int j = 0; j < call->nin; j++)
        a.wide[j] = a.stride[j][1] == 1 && a.stride[j][0] % 4 == 0 && ((uintptr_t)a.in[j] & 31) == 0;
    bool rows = a.ndim == 2 && a.size[1] % 4 == 0 && a.n < INT32_MAX && ((uintptr_t)out->data & 31) == 0;
    int layout = contiguous ? CONTIGUOUS : rows ? ROWS : STRIDED;
    gd_status status = map_kernel(device, call, layout, &f);
    if (status) return status;
    int64_t work = layout == STRIDED ? a.n : (a.n + 3) / 4, blocks = (work + 255) / 256;
    int64_t most = (int64_t)cuda_of(device)->processors * 32;
    return cuda_launch(device, f, blocks < most ? blocks : most, 256, 0, (void *[]){&a});
}
