/* Programs: what passes compute, what every instruction means, and the order of sums.  The
 * expected numbers come from tables and from a plain evaluator in this file, one element at a time. */
#include "program/axes_property.h"
#include "support/corpus.h"

#include <locale.h>

/* ---- what instructions mean ---- */

typedef struct meaning {
    gd_opcode op;
    double a, b, c, result;
} meaning;

/* From the definitions; exact in f32 and f64. */
static const meaning meanings[] = {
    {GD_I_neg, 2, 0, 0, -2},
    {GD_I_neg, 0, 0, 0, -0.0},
    {GD_I_abs, -3, 0, 0, 3},
    {GD_I_abs, -0.0, 0, 0, 0},
    {GD_I_sign, 5, 0, 0, 1},
    {GD_I_sign, -5, 0, 0, -1},
    {GD_I_sign, 0, 0, 0, 0},
    {GD_I_sign, INFINITY, 0, 0, 1},
    {GD_I_sign, NAN, 0, 0, NAN},
    {GD_I_sqrt, 9, 0, 0, 3},
    {GD_I_sqrt, -1, 0, 0, NAN},
    {GD_I_sqrt, -0.0, 0, 0, -0.0},
    {GD_I_square, -3, 0, 0, 9},
    {GD_I_reciprocal, 4, 0, 0, 0.25},
    {GD_I_reciprocal, -0.0, 0, 0, -INFINITY},
    {GD_I_exp, 0, 0, 0, 1},
    {GD_I_exp, -INFINITY, 0, 0, 0},
    {GD_I_exp, INFINITY, 0, 0, INFINITY},
    {GD_I_exp, NAN, 0, 0, NAN},
    {GD_I_log, 1, 0, 0, 0},
    {GD_I_log, 0, 0, 0, -INFINITY},
    {GD_I_log, -1, 0, 0, NAN},
    {GD_I_tanh, 0, 0, 0, 0},
    {GD_I_tanh, 50, 0, 0, 1},
    {GD_I_floor, -1.5, 0, 0, -2},
    {GD_I_floor, 1.5, 0, 0, 1},
    {GD_I_isfinite, 1e30, 0, 0, 1},
    {GD_I_isfinite, -INFINITY, 0, 0, 0},
    {GD_I_isfinite, NAN, 0, 0, 0},
    {GD_I_logical_not, 0, 0, 0, 1},
    {GD_I_logical_not, -2, 0, 0, 0},
    {GD_I_logical_not, NAN, 0, 0, 0},
    {GD_I_add, 1, 2, 0, 3},
    {GD_I_sub, 1, 2, 0, -1},
    {GD_I_mul, 3, -2, 0, -6},
    {GD_I_div, 1, 0, 0, INFINITY},
    {GD_I_div, 0, 0, 0, NAN},
    {GD_I_minimum, 1, 2, 0, 1},
    {GD_I_minimum, 2, 1, 0, 1},
    {GD_I_minimum, NAN, 1, 0, NAN},
    {GD_I_minimum, 1, NAN, 0, NAN},
    {GD_I_maximum, 1, 2, 0, 2},
    {GD_I_maximum, 2, 1, 0, 2},
    {GD_I_maximum, NAN, 1, 0, NAN},
    {GD_I_maximum, INFINITY, NAN, 0, NAN},
    {GD_I_pow, 2, 10, 0, 1024},
    {GD_I_pow, -2, 3, 0, -8},
    {GD_I_pow, -2, 0.5, 0, NAN},
    {GD_I_pow, 0, 0, 0, 1},
    {GD_I_scalar_pow, -2, 3, 0, -8},
    {GD_I_scalar_pow, 4, 2.5, 0, 32},
    {GD_I_scalar_pow, 2, -10, 0, 0x1p-10},
    {GD_I_scalar_pow, -0.0, 0.5, 0, 0},
    {GD_I_scalar_pow, -INFINITY, -1.5, 0, 0},
    {GD_I_scalar_pow, 2, 40, 0, 0x1p40},
    {GD_I_scalar_pow, -2, 0.25, 0, NAN},
    {GD_I_copysign, 3, -1, 0, -3},
    {GD_I_copysign, -3, 0, 0, 3},
    {GD_I_copysign, 3, -0.0, 0, -3},
    {GD_I_copysign, -3, NAN, 0, 3},
    {GD_I_lt, 1, 2, 0, 1},
    {GD_I_lt, 2, 2, 0, 0},
    {GD_I_lt, NAN, 2, 0, 0},
    {GD_I_le, 2, 2, 0, 1},
    {GD_I_le, 3, 2, 0, 0},
    {GD_I_gt, 3, 2, 0, 1},
    {GD_I_gt, 2, 2, 0, 0},
    {GD_I_ge, 2, 2, 0, 1},
    {GD_I_ge, 1, 2, 0, 0},
    {GD_I_eq, 0, -0.0, 0, 1},
    {GD_I_eq, NAN, NAN, 0, 0},
    {GD_I_ne, NAN, NAN, 0, 1},
    {GD_I_ne, 1, 1, 0, 0},
    {GD_I_logical_and, 2, -1, 0, 1},
    {GD_I_logical_and, 2, 0, 0, 0},
    {GD_I_logical_and, NAN, 1, 0, 1},
    {GD_I_logical_or, 0, -0.0, 0, 0},
    {GD_I_logical_or, 0, 7, 0, 1},
    {GD_I_rsqrt, 0.25, 0, 0, 2},
    {GD_I_expm1, 0, 0, 0, 0},
    {GD_I_expm1, -INFINITY, 0, 0, -1},
    {GD_I_log1p, 0, 0, 0, 0},
    {GD_I_log1p, -1, 0, 0, -INFINITY},
    {GD_I_log2, 8, 0, 0, 3},
    {GD_I_log10, 1000, 0, 0, 3},
    {GD_I_sin, -0.0, 0, 0, -0.0},
    {GD_I_cos, 0, 0, 0, 1},
    {GD_I_tan, 0, 0, 0, 0},
    {GD_I_asin, 2, 0, 0, NAN},
    {GD_I_acos, 1, 0, 0, 0},
    {GD_I_atan, -0.0, 0, 0, -0.0},
    {GD_I_sinh, 0, 0, 0, 0},
    {GD_I_cosh, 0, 0, 0, 1},
    {GD_I_sigmoid, 0, 0, 0, 0.5},
    {GD_I_softplus, -INFINITY, 0, 0, 0},
    {GD_I_relu, -3, 0, 0, 0},
    {GD_I_relu, 3, 0, 0, 3},
    {GD_I_gelu, 0, 0, 0, 0},
    {GD_I_erf, INFINITY, 0, 0, 1},
    {GD_I_erfc, -INFINITY, 0, 0, 2},
    {GD_I_lgamma, 1, 0, 0, 0},
    {GD_I_ceil, 2.5, 0, 0, 3},
    {GD_I_round, 2.5, 0, 0, 2},
    {GD_I_add_scalar, 2, 3, 0, 5},
    {GD_I_mul_scalar, 2, 3, 0, 6},
    {GD_I_clamp, 5, -1, 2, 2},
    {GD_I_clamp, -5, -1, 2, -1},
    {GD_I_atan2, 0, 1, 0, 0},
    {GD_I_mod, -7, 3, 0, 2},
    {GD_I_floor_div, -7, 2, 0, -4},
    {GD_I_logical_xor, 1, 0, 0, 1},
    {GD_I_logical_xor, 1, 2, 0, 0},
    {GD_I_gelu_grad, 3, 0, 0, 1.5},
    {GD_I_relu_grad, 3, 1, 0, 3},
    {GD_I_relu_grad, 3, 0, 0, 0},
    {GD_I_tanh_grad, 4, 0.5, 0, 3},
    {GD_I_sigmoid_grad, 8, 0.25, 0, 1.5},
    {GD_I_asinh, 0, 0, 0, 0},
    {GD_I_acosh, 1, 0, 0, 0},
    {GD_I_atanh, 1, 0, 0, INFINITY},
    {GD_I_trunc, -2.5, 0, 0, -2},
    {GD_I_trunc, 2.5, 0, 0, 2},
    {GD_I_isnan, NAN, 0, 0, 1},
    {GD_I_isnan, INFINITY, 0, 0, 0},
    {GD_I_isinf, -INFINITY, 0, 0, 1},
    {GD_I_isinf, NAN, 0, 0, 0},
    {GD_I_isinf, 1e30, 0, 0, 0},
    {GD_I_signbit, -0.0, 0, 0, 1},
    {GD_I_signbit, 0, 0, 0, 0},
    {GD_I_signbit, -3, 0, 0, 1},
    {GD_I_hypot, -3, 4, 0, 5},
    {GD_I_hypot, -INFINITY, NAN, 0, INFINITY},
    {GD_I_logaddexp, -INFINITY, -INFINITY, 0, -INFINITY},
    {GD_I_logaddexp, INFINITY, INFINITY, 0, INFINITY},
    {GD_I_logaddexp, -INFINITY, 2, 0, 2},
    {GD_I_logaddexp, 1, NAN, 0, NAN},
    {GD_I_nextafter, 2, 2, 0, 2},
    {GD_I_nextafter, 2, NAN, 0, NAN},
    {GD_I_mod, 6, -3, 0, -0.0},
    {GD_I_fma, 2, 3, 4, 10},
    {GD_I_lerp, 2, 4, 0.5, 3},
    {GD_I_as_f16, 1.0001, 0, 0, 1},
    {GD_I_as_f16, 1e6, 0, 0, INFINITY},
    {GD_I_as_bf16, 1.001, 0, 0, 1},
    {GD_I_where, 1, 2, 3, 2},
    {GD_I_where, 0, 2, 3, 3},
    {GD_I_where, -0.0, 2, 3, 3},
    {GD_I_where, NAN, 2, 3, 2},
};

/* One instruction on three loaded elements. */
static double interpreted(gd_ctx *ctx, const meaning *m, gd_dtype compute)
{
    gd_program *p = new_program();
    gd_pass pass;
    *p = (gd_program){.ctx = ctx, .compute = compute};
    int32_t in[3];
    for (int k = 0; k < 3; k++) in[k] = add_load(p, add_array(p, compute));
    int n = gd__opcode_operands(m->op);
    int32_t out = add_array(p, compute);
    p->array[out].store = add_op(p, m->op, in[0], n > 1 ? in[1] : -1, n > 2 ? in[2] : -1);
    assert_int_equal(gd__program_verify(p), GD_OK);
    gd__program_pass(p, 0, &pass);
    tensors t = make_tensors(p, 1, 1);
    set_number(t.array[0], compute, 0, m->a);
    set_number(t.array[1], compute, 0, m->b);
    set_number(t.array[2], compute, 0, m->c);
    gd__interpret(p, &pass, 0, 1, t.array, NULL, NULL);
    double result = get_number(t.array[out], compute, 0);
    free_tensors(&t);
    free(p);
    return result;
}

/* The same with uniform operands. */
static double uniform(gd_ctx *ctx, const meaning *m)
{
    gd_program *p = new_program();
    *p = (gd_program){.ctx = ctx, .compute = GD_F32};
    int32_t in[3];
    for (int k = 0; k < 3; k++) in[k] = add_uniform(p);
    int n = gd__opcode_operands(m->op);
    int32_t at = add_op(p, m->op, in[0], n > 1 ? in[1] : -1, n > 2 ? in[2] : -1);
    assert_int_equal(gd__program_verify(p), GD_OK);
    double value[8];
    all_uniforms(p, 0, (double[]){m->a, m->b, m->c}, NULL, value);
    double result = value[at];
    free(p);
    return result;
}

static void instructions_mean_what_the_table_says(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    bool seen[GD_I_COUNT] = {false};
    for (int i = 0; i < COUNT_OF(meanings); i++) {
        const meaning *m = &meanings[i];
        double got[] = {interpreted(ctx, m, GD_F32), interpreted(ctx, m, GD_F64), uniform(ctx, m)};
        for (int k = 0; k < COUNT_OF(got); k++)
            if (!same_number(got[k], m->result))
                fail_msg("%s(%g, %g, %g) in way %d is %g, not %g", gd__opcode_name(m->op), m->a, m->b, m->c,
                         k, got[k], m->result);
        seen[m->op] = true;
    }
    for (int op = GD_I_neg; op < GD_I_SUM; op++)
        if (!seen[op]) fail_msg("no example of %s", gd__opcode_name((unsigned)op));
    end_context(ctx, NULL);
}

/* ---- a plain evaluator ---- */

/* What each instruction does to two or three floats (kind 0) or doubles; written out again, not taken from ops.def. */
#define PLAIN(name, type, suffix, ABS, SQRT, EXP, LOG, TANH, POW, FLOOR)                \
    static type name(unsigned op, type a, type b, type c)                               \
    {                                                                                   \
        switch (op) {                                                                   \
        case GD_I_neg: return -a;                                                       \
        case GD_I_abs: return ABS(a);                                                   \
        case GD_I_sign:                                                                 \
            if (isnan(a) || a == 0) return a;                                           \
            return a > 0 ? (type)1 : -(type)1;                                          \
        case GD_I_sqrt: return SQRT(a);                                                 \
        case GD_I_square: return a * a;                                                 \
        case GD_I_reciprocal: return 1 / a;                                             \
        case GD_I_exp: return EXP(a);                                                   \
        case GD_I_log: return LOG(a);                                                   \
        case GD_I_tanh: return TANH(a);                                                 \
        case GD_I_rsqrt: return 1 / SQRT(a);                                            \
        case GD_I_expm1: return gd__expm1_##suffix(a);                                  \
        case GD_I_log1p: return gd__log1p_##suffix(a);                                  \
        case GD_I_log2: return gd__log2_##suffix(a);                                    \
        case GD_I_log10: return gd__log10_##suffix(a);                                  \
        case GD_I_sin: return gd__sin_##suffix(a);                                      \
        case GD_I_cos: return gd__cos_##suffix(a);                                      \
        case GD_I_tan: return gd__tan_##suffix(a);                                      \
        case GD_I_asin: return gd__asin_##suffix(a);                                    \
        case GD_I_acos: return gd__acos_##suffix(a);                                    \
        case GD_I_atan: return gd__atan_##suffix(a);                                    \
        case GD_I_sinh: return gd__sinh_##suffix(a);                                    \
        case GD_I_cosh: return gd__cosh_##suffix(a);                                    \
        case GD_I_asinh: return gd__asinh_##suffix(a);                                  \
        case GD_I_acosh: return gd__acosh_##suffix(a);                                  \
        case GD_I_atanh: return gd__atanh_##suffix(a);                                  \
        case GD_I_trunc: return gd__trunc_##suffix(a);                                  \
        case GD_I_isnan: return (type)(isnan(a) != 0);                                  \
        case GD_I_isinf: return (type)(isinf(a) != 0);                                  \
        case GD_I_signbit: return (type)(!isnan(a) && signbit(a));                      \
        case GD_I_hypot: return gd__hypot_##suffix(a, b);                               \
        case GD_I_nextafter: return gd__nextafter_##suffix(a, b);                       \
        case GD_I_logaddexp:                                                            \
            if (a == b) return a + (type)0.69314718055994531;                           \
            return (a > b ? a : b) + gd__log1p_##suffix(gd__exp_##suffix(-ABS(a - b))); \
        case GD_I_sigmoid: return gd__sigmoid_##suffix(a);                              \
        case GD_I_softplus: return gd__softplus_##suffix(a);                            \
        case GD_I_gelu: return gd__gelu_##suffix(a);                                    \
        case GD_I_erf: return gd__erf_##suffix(a);                                      \
        case GD_I_erfc: return gd__erfc_##suffix(a);                                    \
        case GD_I_lgamma: return gd__lgamma_##suffix(a);                                \
        case GD_I_ceil: return gd__ceil_##suffix(a);                                    \
        case GD_I_round: return gd__round_##suffix(a);                                  \
        case GD_I_relu: return a < 0 ? 0 : a;                                           \
        case GD_I_add_scalar: return a + b;                                             \
        case GD_I_mul_scalar: return a * b;                                             \
        case GD_I_clamp: return a < b ? b : a > c ? c : a;                              \
        case GD_I_atan2: return gd__atan2_##suffix(a, b);                               \
        case GD_I_mod: return gd__mod_##suffix(a, b);                                   \
        case GD_I_floor_div: return FLOOR(a / b);                                       \
        case GD_I_logical_xor: return (a != 0) != (b != 0);                             \
        case GD_I_gelu_grad: return a * gd__gelu_slope_##suffix(b);                     \
        case GD_I_relu_grad: return b > 0 ? a : 0;                                      \
        case GD_I_tanh_grad: return a * (1 - b * b);                                    \
        case GD_I_sigmoid_grad: return a * (b * (1 - b));                               \
        case GD_I_fma: return gd__fma_##suffix(a, b, c);                                \
        case GD_I_lerp: return a + c * (b - a);                                         \
        case GD_I_as_f16: return gd__f16_to_f32(gd__f32_to_f16((float)a));              \
        case GD_I_as_bf16: return gd__bf16_to_f32(gd__f32_to_bf16((float)a));           \
        case GD_I_floor: return FLOOR(a);                                               \
        case GD_I_isfinite: return isfinite(a) ? 1 : 0;                                 \
        case GD_I_logical_not: return a == 0;                                           \
        case GD_I_add: return a + b;                                                    \
        case GD_I_sub: return a - b;                                                    \
        case GD_I_mul: return a * b;                                                    \
        case GD_I_div: return a / b;                                                    \
        case GD_I_minimum:                                                              \
            if (isnan(a) || isnan(b)) return (type)NAN;                                 \
            return b < a ? b : a;                                                       \
        case GD_I_maximum:                                                              \
            if (isnan(a) || isnan(b)) return (type)NAN;                                 \
            return b > a ? b : a;                                                       \
        case GD_I_pow: return (type)POW(a, b);                                          \
        case GD_I_scalar_pow: return gd__scalar_pow_##suffix(a, b);                     \
        case GD_I_copysign: return !isnan(b) && signbit(b) ? -ABS(a) : ABS(a);          \
        case GD_I_lt: return a < b;                                                     \
        case GD_I_le: return a <= b;                                                    \
        case GD_I_gt: return a > b;                                                     \
        case GD_I_ge: return a >= b;                                                    \
        case GD_I_eq: return a == b;                                                    \
        case GD_I_ne: return a != b;                                                    \
        case GD_I_logical_and: return a != 0 && b != 0;                                 \
        case GD_I_logical_or: return a != 0 || b != 0;                                  \
        default: return a != 0 ? b : c;                                                 \
        }                                                                               \
    }
static float libm_pow(float a, float b) { return (float)pow((double)a, (double)b); }
PLAIN(of_optimizers_f32, float, f32, fabsf, sqrtf, gd__exp_f32, gd__log_f32, gd__tanh_f32, libm_pow, floorf)
PLAIN(of_optimizers_f64, double, f64, fabs, sqrt, exp, log, tanh, pow, floor)
PLAIN(eager_f32, float, f32, fabsf, sqrtf, gd__exp_f32, gd__log_f32, gd__tanh_f32, gd__pow_f32, floorf)
PLAIN(eager_f64, double, f64, fabs, sqrt, gd__exp_f64, gd__log_f64, gd__tanh_f64, gd__pow_f64, floor)

static double plain(const gd_program *p, unsigned op, double a, double b, double c)
{
    if (p->compute == GD_F32)
        return (double)(p->eager ? eager_f32 : of_optimizers_f32)(op, (float)a, (float)b, (float)c);
    return (p->eager ? eager_f64 : of_optimizers_f64)(op, a, b, c);
}

/* All element values of element i, in the compute type held as double; uniform values are in `value` already. */
static void plain_element(const gd_program *p, const tensors *t, int64_t i, const double *uniforms,
                          double *value)
{
    bool f32 = p->compute == GD_F32;
    for (int k = 0; k < p->count; k++) {
        const gd_instr *in = &p->instr[k];
        double x;
        if (in->uniform) {
            x = uniforms[k];
        } else if (gd__is_load(in->op)) {
            x = get_number(t->array[in->index], p->array[in->index].dtype, i);
        } else {
            double a = value[in->a], b = in->b < 0 ? 0 : value[in->b], c = in->c < 0 ? 0 : value[in->c];
            x = plain(p, in->op, a, b, c);
        }
        value[k] = f32 ? (double)(float)x : x;
    }
}

/* Adds the n values of one reduction in sixteen lanes, then the lanes pairwise. */
static double plain_reduce(const gd_program *p, unsigned op, double (*lane)[16])
{
    unsigned join = op == GD_I_SUM ? GD_I_add : GD_I_maximum;
    for (int width = 8; width; width /= 2)
        for (int k = 0; k < width; k++) {
            double a = (*lane)[k], b = (*lane)[k + width];
            (*lane)[k] = plain(p, join, a, b, 0);
        }
    return (*lane)[0];
}

static void plain_run(const gd_program *p, tensors *t, const double *input, double *reduced)
{
    static const double nothing[2] = {0, -INFINITY};
    double uniforms[GD_MAX_INSTRS] = {0}, value[GD_MAX_INSTRS];
    for (int level = 0; level <= p->levels; level++) {
        gd_pass pass;
        gd__program_pass(p, level, &pass);
        all_uniforms(p, level, input, reduced, uniforms);
        make_randoms(p, &pass, uniforms, t);
        double lane[GD_MAX_REDUCTIONS][16];
        for (int r = 0; r < p->reductions; r++)
            for (int k = 0; k < 16; k++) lane[r][k] = nothing[p->instr[p->reduction[r]].op == GD_I_MAXIMUM];
        for (int64_t i = 0; i < t->n; i++) {
            plain_element(p, t, i, uniforms, value);
            for (int r = 0; r < p->reductions; r++) {
                const gd_instr *in = &p->instr[p->reduction[r]];
                unsigned join = in->op == GD_I_SUM ? GD_I_add : GD_I_maximum;
                double *to = &lane[r][i % 16];
                *to = plain(p, join, *to, value[in->a], 0);
            }
            for (int k = 0; level == p->levels && k < p->arrays; k++)
                if (p->array[k].store >= 0)
                    set_number(t->array[k], p->array[k].dtype, i, value[p->array[k].store]);
        }
        for (int r = 0; r < p->reductions; r++) {
            const gd_instr *in = &p->instr[p->reduction[r]];
            if (in->level == level + 1) reduced[r] = plain_reduce(p, in->op, &lane[r]);
        }
    }
}

static void check_interpreter(gd_ctx *ctx, uint64_t seed, int length, int64_t n)
{
    gd_program *p = new_program();
    uint64_t s = seed;
    make_random(p, ctx, &s, length);
    double input[GD_MAX_UNIFORMS], want[GD_MAX_REDUCTIONS] = {0}, got[GD_MAX_REDUCTIONS] = {0};
    for (int u = 0; u < p->uniforms; u++) input[u] = random_number(&s);
    tensors a = make_tensors(p, n, seed), b = make_tensors(p, n, seed);
    plain_run(p, &a, input, want);
    run_program(p, NULL, &b, input, got);
    bool same = same_tensors(p, &a, &b);
    for (int r = 0; r < p->reductions; r++) same = same && same_number(want[r], got[r]);
    if (!same) fail_msg("seed %llu, %lld elements", (unsigned long long)seed, (long long)n);
    free_tensors(&a);
    free_tensors(&b);
    free(p);
}

static void interpreter_gives_the_bits_of_a_plain_evaluator(void **state)
{
    (void)state;
    static const char *const isas[] = {"base", "avx2", "avx512"};
    static const int64_t lengths[] = {0, 1, 7, 15, 16, 17, 33, 1000};
    for (int k = 0; k < COUNT_OF(isas); k++) {
        gd_ctx *ctx = context(NULL, 1, isas[k]);
        for (uint64_t seed = 0; seed < 150; seed++)
            check_interpreter(ctx, seed, 10 + (int)(seed % 60), lengths[seed % 8]);
        check_interpreter(ctx, 1000, GD_MAX_INSTRS, 700); /* many slots, short blocks */
        check_interpreter(ctx, 1001, 40, 100003);
        end_context(ctx, NULL);
    }
}

/* As many values alive at a time as asked for: x + 1, x + 2, ..., then all of them added from the last on. */
static void make_wide(gd_program *p, gd_ctx *ctx, gd_dtype compute, int width)
{
    *p = (gd_program){.ctx = ctx, .compute = compute};
    int32_t from = add_array(p, compute), x = add_load(p, from), one = add_const(p, 1), value[GD_MAX_INSTRS];
    for (int k = 0; k < width; k++) value[k] = add_op(p, GD_I_add, k ? value[k - 1] : x, one, -1);
    int32_t sum = x;
    for (int k = width - 1; k >= 0; k--) sum = add_op(p, GD_I_add, sum, value[k], -1);
    p->array[from].store = sum;
}

/* x + (x+1) + ... + (x+width) = (width+1) x + width (width+1)/2 */
static void values_alive_at_a_time_have_room_for_any_number_of_elements(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_program *p = new_program();
    for (int width = 1; 2 * width + 2 <= GD_MAX_INSTRS; width += test_share())
        for (int64_t n = 1; n <= 49; n += 8) {
            make_wide(p, ctx, width % 2 ? GD_F32 : GD_F64, width);
            assert_int_equal(gd__program_verify(p), GD_OK);
            tensors t = make_tensors(p, n, 1);
            for (int64_t i = 0; i < n; i++) set_number(t.array[0], p->compute, i, (double)i);
            run_program(p, NULL, &t, NULL, NULL);
            for (int64_t i = 0; i < n; i++) {
                double got = get_number(t.array[0], p->compute, i), all = width + 1;
                if (got != all * (double)i + width * all / 2) fail_msg("width %d, element %d", width, (int)i);
            }
            free_tensors(&t);
        }
    free(p);
    end_context(ctx, NULL);
}

static gd_ctx *isa_context[3];
static gd_ctx *cc_context;

static void check_program(gd_ctx *own, const corpus_file *file)
{
    (void)own;
    const char *wrong = program_fault(isa_context, 3, cc_context, file->data, file->size);
    if (wrong) fail_msg("%s: %s", file->path, wrong);
}

static void the_corpus_runs_alike_on_every_executor(void **state)
{
    (void)state;
    static const char *const isas[] = {"base", "avx2", "avx512"};
    gd_options options = gd_options_default();
    options.isa = "none"; /* nothing built in: every pass is compiled */
    options.cache_dir = "";
    cc_context = gd_ctx_new(&options);
    for (int k = 0; k < 3; k++) isa_context[k] = context(NULL, 1 + k, isas[k]);
    replay_corpus(cc_context, GD_TEST_DIR "/program/corpus/program", 8, check_program);
    for (int k = 0; k < 3; k++) end_context(isa_context[k], NULL);
    end_context(cc_context, NULL);
}

/* ---- memory ---- */

static void arrays_can_change_places(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_program *p = new_program();
    *p = (gd_program){.ctx = ctx, .compute = GD_F32};
    int32_t a = add_array(p, GD_F32), b = add_array(p, GD_F32);
    p->array[b].store = add_load(p, a);
    p->array[a].store = add_load(p, b);
    tensors t = make_tensors(p, 1000, 3), old = make_tensors(p, 1000, 3);
    run_program(p, NULL, &t, NULL, NULL);
    assert_memory_equal(t.array[a], old.array[b], t.bytes[a]);
    assert_memory_equal(t.array[b], old.array[a], t.bytes[a]);
    free_tensors(&t);
    free_tensors(&old);
    free(p);
    end_context(ctx, NULL);
}

static void uniform_values_and_constants_can_be_stored(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_program *p = new_program();
    *p = (gd_program){.ctx = ctx, .compute = GD_F32};
    int32_t a = add_array(p, GD_BF16), b = add_array(p, GD_F64);
    p->array[a].store = add_uniform(p);
    p->array[b].store = add_const(p, 0.1);
    tensors t = make_tensors(p, 20, 3);
    run_program(p, NULL, &t, (double[]){3}, NULL);
    for (int i = 0; i < 20; i++) {
        assert_true(get_number(t.array[a], GD_BF16, i) == 3);
        assert_true(get_number(t.array[b], GD_F64, i) == (double)0.1f); /* computed in f32 */
    }
    free_tensors(&t);
    free(p);
    end_context(ctx, NULL);
}

/* ---- text and hash ---- */

static uint64_t hash_of(const gd_program *p, int level)
{
    gd_pass pass;
    gd__program_pass(p, level, &pass);
    return gd__program_hash(p, &pass);
}

static void hash_is_of_the_kernel_alone(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_program *p = new_program(), *q = new_program();
    make_adamw(p, ctx, GD_F32, GD_F32, true);
    make_adamw(q, ctx, GD_F32, GD_F32, true);
    /* owners, and uniform work that no element sees, do not enter */
    for (int k = 0; k < q->arrays; k++) q->array[k].owner = &q->array[k];
    add_op(q, GD_I_square, add_uniform(q), -1, -1);
    assert_true(hash_of(p, 0) == hash_of(q, 0));
    assert_true(hash_of(p, 1) == hash_of(q, 1));
    assert_true(hash_of(p, 0) != hash_of(p, 1));
    make_adamw(q, ctx, GD_F32, GD_BF16, true);
    assert_true(hash_of(p, 0) == hash_of(q, 0)); /* reads no state */
    assert_true(hash_of(p, 1) != hash_of(q, 1));
    make_adamw(q, ctx, GD_F64, GD_F64, true);
    assert_true(hash_of(p, 0) != hash_of(q, 0));
    free(p);
    free(q);
    end_context(ctx, NULL);
}

static void emitted_text_does_not_depend_on_the_locale(void **state)
{
    (void)state;
    static const char *const locales[] = {"C", "de_DE.UTF-8", "fr_FR.UTF-8", "C.UTF-8"};
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_program *p = new_program();
    *p = (gd_program){.ctx = ctx, .compute = GD_F64};
    int32_t x = add_load(p, add_array(p, GD_F64));
    static const double numbers[] = {0.1, -0.1, 1e300, 5e-324, 3, -0.0, 65536.5, NAN, -INFINITY};
    for (int i = 0; i < COUNT_OF(numbers); i++) x = add_op(p, GD_I_add, x, add_const(p, numbers[i]), -1);
    p->array[0].store = x;
    uint64_t hash = hash_of(p, 0);
    char *own = strdup(setlocale(LC_ALL, NULL));
    for (int i = 0; i < COUNT_OF(locales); i++)
        if (setlocale(LC_ALL, locales[i])) assert_true(hash_of(p, 0) == hash);
    setlocale(LC_ALL, own); /* the suite goes on in its own */
    free(own);
    free(p);
    end_context(ctx, NULL);
}

static void text_grows_and_remembers_a_failure(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_text t = {.ctx = ctx};
    for (int i = 0; i < 1000; i++) gd__text_put(&t, "%d,", i);
    assert_int_equal(t.used, 10 * 2 + 90 * 3 + 900 * 4);
    assert_int_equal(strlen(t.data), t.used);
    gd__text_free(&t);
    gd__text_free(&t);
    m.fail_at = m.requests + 1;
    gd__text_put(&t, "lost");
    assert_true(t.failed);
    gd__text_put(&t, "lost too");
    assert_int_equal(t.used, 0);
    assert_error(ctx, GD_NOMEM, "");
    gd__text_free(&t);
    end_context(ctx, &m);
}

/* ---- uniform values ---- */

static void powers_that_are_too_small_are_zero_and_others_those_of_pow(void **state)
{
    (void)state;
    const double base[] = {0.5, 0.9, 0.99, 0.999, 1 - 1e-9, 1e-300, 5e-324,
                           1,   1.5, 0,    -0.0,  -0.5,     NAN,    INFINITY};
    gd_uniform_list list = {.item = {{.op = GD_I_pow, .to = 2, .a = 0, .b = 1}, {.level = UINT8_MAX}}};
    for (size_t i = 0; i < sizeof base / sizeof *base; i++) {
        double last = log(4.94065645841246544e-324) / log(base[i]); /* about where the result becomes 0 */
        for (int k = 0; k < 4000; k++) {
            double exponent = k < 1000   ? k
                              : k < 2000 ? floor(last) + k - 1500
                              : k < 3000 ? 746 / (1 - base[i]) + (k - 2500) * 1e-3
                                         : -pow(1.02, k - 3500);
            double value[3] = {base[i], exponent, 17}, expected = pow(base[i], exponent);
            gd__program_uniforms(&list, 0, 0, NULL, NULL, value);
            if (isnan(expected) ? !isnan(value[2]) : memcmp(&value[2], &expected, sizeof expected))
                fail_msg("%.17g to the power %.17g: %a, not %a", base[i], exponent, value[2], expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(instructions_mean_what_the_table_says),
        cmocka_unit_test(interpreter_gives_the_bits_of_a_plain_evaluator),
        cmocka_unit_test(values_alive_at_a_time_have_room_for_any_number_of_elements),
        cmocka_unit_test(the_corpus_runs_alike_on_every_executor),
        cmocka_unit_test(arrays_can_change_places),
        cmocka_unit_test(uniform_values_and_constants_can_be_stored),
        cmocka_unit_test(hash_is_of_the_kernel_alone),
        cmocka_unit_test(emitted_text_does_not_depend_on_the_locale),
        cmocka_unit_test(text_grows_and_remembers_a_failure),
        cmocka_unit_test(powers_that_are_too_small_are_zero_and_others_those_of_pow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
