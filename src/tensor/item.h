/* Single elements of floating arrays as f64. */
#ifndef GD_TENSOR_ITEM_H
#define GD_TENSOR_ITEM_H

#include "base/vmath.h"
#include "gradus/tensor.h"

static inline double gd__float_item(const void *data, gd_dtype dtype, int64_t i)
{
    switch (dtype) {
    case GD_F64: return ((const double *)data)[i];
    case GD_F16: return (double)gd__f16_to_f32(((const uint16_t *)data)[i]);
    case GD_BF16: return (double)gd__bf16_to_f32(((const uint16_t *)data)[i]);
    default: return (double)((const float *)data)[i];
    }
}

static inline void gd__set_float_item(void *data, gd_dtype dtype, int64_t i, double value)
{
    float single = (float)value;
    switch (dtype) {
    case GD_F64: ((double *)data)[i] = value; break;
    case GD_F16: ((uint16_t *)data)[i] = gd__f32_to_f16(single); break;
    case GD_BF16: ((uint16_t *)data)[i] = gd__f32_to_bf16(single); break;
    default: ((float *)data)[i] = single; break;
    }
}

#endif
