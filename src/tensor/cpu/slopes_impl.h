/* Gradients of element-wise operators of one operand in one pass over memory: those that their rows of ops.def say, with numbers in
 * the place of tensors.  Each step is rounded as its operator rounds it, so f32 and f64 have the bits of the passes one by one.
 * Included by vec/slope_kernels.c once per type, with T, SUFFIX, F and AS.
 *
 * A row has none if it needs neither operand nor result (one pass as it is), if it calls functions of the library, if its function
 * has a straight-line form for some operands only, and if its gradient is written by hand. */
#define gd_neg(x)           (-(x))
#define gd_add(x, y)        ((x) + (y))
#define gd_sub(x, y)        ((x) - (y))
#define gd_mul(x, y)        ((x) * (y))
#define gd_div(x, y)        ((x) / (y))
#define gd_add_scalar(x, y) ((x) + (T)(y))
#define gd_mul_scalar(x, y) ((x) * (T)(y))
#define gd_square(x)        ((x) * (x))
#define gd_sqrt(x)          F(sqrt)(x)
#define gd_exp(x)           F(exp)(x)
#define gd_sinh(x)          F(sinh)(x)
#define gd_cosh(x)          F(cosh)(x)
#define gd_sigmoid(x)       F(sigmoid)(x)
#define gd_sign(x)          ((x) > 0 ? (T)1 : (x) < 0 ? (T)-1 : (x) == 0 ? 0 : (x))
#define cubed(x)            ((x) * ((x) * (x)))
#define one_minus(x)        (-(x) + (T)1)
#define one_minus_square(x) (one_minus(x) * ((x) + (T)1))

#define SLOPE_OF_1(name, d)                                                                             \
    static void JOIN(slope_of_##name, SUFFIX)(void *o_, const void *g_, const void *v_, const void *c_, \
                                              int64_t n, settings f)                                    \
    {                                                                                                   \
        T *restrict o = o_;                                                                             \
        const T *g = g_, *v = v_;                                                                       \
        (void)c_;                                                                                       \
        (void)f;                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                               \
            const T G = g[i], X = v[i], Y = X;                                                          \
            (void)Y;                                                                                    \
            o[i] = d;                                                                                   \
        }                                                                                               \
    }
#define ELEMENT(name, inputs, settings_, kind, needs, takes, batch, element, whole, gradient, ...) \
    SLOPED_##inputs(needs, name, gradient)
#define ELEMENT_R(name, inputs, settings_, kind, needs, takes, batch, element, whole, gradient, ...) \
    RANGED_##inputs(needs, name, gradient)
#define ELEMENT_C(...)
#define ELEMENT0(...)
#include "tensor/ops.def"
#undef SLOPE_OF_1

/* pow_scalar: g (e x^(e - 1)), of blocks that stay in a cache */
static void JOIN(slope_of_pow_scalar, SUFFIX)(void *o_, const void *g_, const void *v_, const void *c_,
                                              int64_t n, settings f)
{
    enum { POWERS_OF = 512 };
    T *restrict o = o_, power[POWERS_OF], e = (T)f[0];
    const T *g = g_, *v = v_;
    const double less = f[0] - 1;
    for (int64_t i = 0; i < n; i += POWERS_OF) {
        int64_t count = n - i < POWERS_OF ? n - i : POWERS_OF;
        JOIN(gd__vec_, GD_ISA).map[GD_OP_pow_scalar][AS](power, v + i, NULL, c_, count, &less);
        for (int64_t k = 0; k < count; k++) o[i + k] = g[i + k] * (power[k] * e);
    }
}

#undef gd_neg
#undef gd_add
#undef gd_sub
#undef gd_mul
#undef gd_div
#undef gd_add_scalar
#undef gd_mul_scalar
#undef gd_square
#undef gd_sqrt
#undef gd_exp
#undef gd_sinh
#undef gd_cosh
#undef gd_sigmoid
#undef gd_sign
#undef cubed
#undef one_minus
#undef one_minus_square
