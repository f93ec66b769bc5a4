/* Kernels of poolings of f32 and of f64 (cpu/images/pooling.h), compiled once for every instruction set. */
#include "tensor/cpu/images/pooling.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define NAME(name)  JOIN(name, SUFFIX)

#define FEW  12  /* windows of a row that are computed sequentially */
#define SOME 256 /* windows of a row (or places of one) that are kept at a time */

#define T      float
#define WHOLE  int32_t
#define SUFFIX _f32
#include "tensor/cpu/images/pooling_impl.h"
#undef T
#undef WHOLE
#undef SUFFIX

#define T      double
#define WHOLE  int64_t
#define SUFFIX _f64
#include "tensor/cpu/images/pooling_impl.h"
#undef T
#undef WHOLE
#undef SUFFIX

#define TABLE(suffix)                                                                           \
    {                                                                                           \
        .highest = highest##suffix, .mean = mean##suffix, .highest_grad = highest_grad##suffix, \
        .mean_grad = mean_grad##suffix                                                          \
    }

const gd_pool_table JOIN(gd__pool_, GD_ISA)[2] = {TABLE(_f32), TABLE(_f64)};
