/* Gradients of element-wise operators in one pass (cpu/slopes_impl.h), compiled once for every instruction set: apart from
 * vec/kernels.c, as what compilers inline depends on how much there is in a file. */
#include "base/rng.h"
#include "base/vmath.h"
#include "base/vmath_special.h"
#include "base/math/short.h"
#include "tensor/cpu/cpu.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)

typedef const double *settings;

/* SLOPED_inputs(needs, name, gradient) is SLOPE_OF_1(name, d) of the rows that have one. */
#define SLOPED_1(needs, name, gradient) SLOPED_BY_##needs(name, gradient)
#define SLOPED_2(...)
#define SLOPED_3(...)
#define RANGED_1(needs, name, gradient) RANGED_BY_##needs(name, gradient)
#define RANGED_2(...)
#define SLOPED_BY_A(name, gradient)   SLOPED_IF(name, HAS_##gradient)
#define SLOPED_BY_OUT(name, gradient) SLOPED_IF(name, HAS_##gradient)
#define SLOPED_BY_NONE(...)
#define RANGED_BY_OUT(name, gradient) SLOPED_IF(name, HAS_##gradient)
#define RANGED_BY_A(...)
#define HAS_SLOPE(d)              1, d
#define HAS_BY_HAND               0, 0
#define SLOPED_IF(name, ...)      SLOPED_AS(name, __VA_ARGS__)
#define SLOPED_AS(name, has, ...) SLOPE_OF_##has(name, (__VA_ARGS__))
#define SLOPE_OF_0(...)

#define SUFFIX  _f32
#define T       float
#define AS      GD_AS_F32
#define F(name) gd__##name##_f32
#include "tensor/cpu/slopes_impl.h"
#undef SUFFIX
#undef T
#undef AS
#undef F
#define SUFFIX  _f64
#define T       double
#define AS      GD_AS_F64
#define F(name) gd__##name##_f64
#include "tensor/cpu/slopes_impl.h"
#undef SUFFIX
#undef T
#undef AS
#undef F

#define SLOPE_OF_1(name, d) [GD_OP_##name] = {slope_of_##name##_f32, slope_of_##name##_f64},
#define ELEMENT(name, inputs, settings_, kind, needs, takes, batch, element, whole, gradient, ...) \
    SLOPED_##inputs(needs, name, gradient)
#define ELEMENT_R(name, inputs, settings_, kind, needs, takes, batch, element, whole, gradient, ...) \
    RANGED_##inputs(needs, name, gradient)
#define ELEMENT_C(...)
#define ELEMENT0(...)
const gd_vec_fn JOIN(gd__slopes_, GD_ISA)[GD_OP_COUNT][2] = {
#include "tensor/ops.def"
    [GD_OP_pow_scalar] = {slope_of_pow_scalar_f32, slope_of_pow_scalar_f64},
};
