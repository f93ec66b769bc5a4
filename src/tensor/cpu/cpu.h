/* The CPU backend: kernel declarations and the vector tables.
 *
 * An element-wise operator runs over blocks: each operand is a plain array of a compute type (f32, f64, i64), so a
 * kernel is one loop.  Halves compute in f32, small integers and bool in i64. */
#ifndef GD_TENSOR_CPU_H
#define GD_TENSOR_CPU_H

#include "tensor/device.h"

#define OP(name, ...) gd_status gd__cpu_##name(gd_device *device, const gd_call *call);
#define OP0           OP
#include "tensor/ops.def"

enum { GD_AS_F32, GD_AS_F64, GD_AS_I64, GD_AS_COUNT };

/* o[i] = op(a[i], b[i], c[i]); TEST kernels write bytes; `where` reads a as bytes.  f are the operator's settings. */
typedef void (*gd_vec_fn)(void *o, const void *a, const void *b, const void *c, int64_t n, const double *f);
/* o[i] = a[i * across_a] op b[i * across_b]: strided operands, or single elements. */
typedef void (*gd_spaced_fn)(void *o, const void *a, int64_t across_a, const void *b, int64_t across_b,
                             int64_t n);
/* Converts n elements between a memory dtype and its compute type. */
typedef void (*gd_convert_fn)(void *to, const void *from, int64_t n);

struct gd_rows_table;
struct gd_conv_table;
struct gd_pool_table;
struct gd_sources_table;

typedef struct gd_vec_table {
    const char *isa;
    const struct gd_rows_table *rows;       /* of f32 and f64: cpu/row_kernels.h */
    const struct gd_conv_table *conv;       /* of f32 and f64: cpu/images/convolution.h */
    const struct gd_pool_table *pool;       /* of f32 and f64: cpu/images/pooling.h */
    const struct gd_sources_table *sources; /* cpu/source_kernels.h */
    gd_vec_fn map[GD_OP_COUNT][GD_AS_COUNT];
    const gd_vec_fn (*slopes)[2]; /* o = a times the slope of an operator, in terms of b: cpu/slopes_impl.h */
    gd_spaced_fn spaced[GD_OP_COUNT][2]; /* of f32 and f64; NULL: through dense copies, same bits */
    gd_vec_fn halves[GD_OP_COUNT][2]; /* of f16 and bf16 in place, if faster; NULL: through f32, same bits */
    gd_convert_fn load[GD_DTYPE_COUNT];              /* to the compute type; NULL: the same */
    gd_convert_fn store[GD_DTYPE_COUNT];             /* from the compute type; NULL: the same */
    gd_convert_fn between[GD_AS_COUNT][GD_AS_COUNT]; /* compute type to compute type */
    float (*sum_f32)(const float *x, int64_t n);     /* in the fixed order of reduce.c */
    double (*sum_f64)(const double *x, int64_t n);
    /* of f16 and bf16, before they are rounded: of rows of n that follow one another */
    void (*sum_halves[2])(float *out, const uint16_t *x, int64_t rows, int64_t n);
    /* The place of the first of n numbers that equals `wanted`; of the first NaN where that is one. */
    int64_t (*first_f32)(const float *x, int64_t n, float wanted);
    int64_t (*first_f64)(const double *x, int64_t n, double wanted);
    void (*add_f32)(float *acc, const float *x, int64_t n);
    void (*add_f64)(double *acc, const double *x, int64_t n);
} gd_vec_table;

/* The best instruction set of this CPU that the library has code for, unless the context sets a different one.  A context
 * that asks for "none" gets the best, but no built-in programs: for tests. */
typedef enum gd_isa { GD_ISA_BASE, GD_ISA_AVX2, GD_ISA_AVX512 } gd_isa;
gd_isa gd__isa(const gd_ctx *ctx);

/* The address of a table that is compiled for each instruction set as NAME_base, NAME_avx2, NAME_avx512: the one for the context. */
#ifdef GD_HAVE_AVX512
#define GD_BY_ISA(ctx, name)                        \
    (gd__isa(ctx) == GD_ISA_AVX512 ? &name##_avx512 \
     : gd__isa(ctx) == GD_ISA_AVX2 ? &name##_avx2   \
                                   : &name##_base)
#else
#define GD_BY_ISA(ctx, name) ((void)(ctx), &name##_base)
#endif

extern const gd_vec_table gd__vec_base, gd__vec_avx2, gd__vec_avx512;
extern const gd_vec_fn gd__slopes_base[GD_OP_COUNT][2], gd__slopes_avx2[GD_OP_COUNT][2],
    gd__slopes_avx512[GD_OP_COUNT][2];

static inline const gd_vec_table *gd__vec(const gd_device *device) { return device->state; }

static inline int gd__compute_type(gd_dtype dtype)
{
    return dtype == GD_F64                                          ? GD_AS_F64
           : dtype == GD_F32 || dtype == GD_F16 || dtype == GD_BF16 ? GD_AS_F32
                                                                    : GD_AS_I64;
}

/* Indices of f16 and bf16 in pairs of kernels. */
static inline bool gd__is_half(gd_dtype dtype) { return dtype == GD_F16 || dtype == GD_BF16; }
static inline int gd__half_at(gd_dtype dtype) { return dtype == GD_BF16; }

/* Element-wise execution of MAP and TEST operators. */
gd_status gd__cpu_map(gd_device *device, const gd_call *call);

/* Work below this many elements, about 2 us, uses one thread. */
#define GD_MICROBATCH 16384

/* n times the same element. */
void gd__repeat(char *to, const char *from, int64_t n, size_t item);

/* Runs tasks that work on so many elements in all; a thread is woken only if there are enough. */
static inline void gd__run_tasks(gd_ctx *ctx, int64_t elements, int64_t tasks, void (*fn)(void *, int64_t),
                                 void *arg)
{
    if (elements <= 2 * GD_MICROBATCH)
        gd__parallel_light(ctx, tasks, fn, arg);
    else
        gd__parallel(ctx, tasks, fn, arg);
}

/* A task for each piece of GD_MICROBATCH elements. */
static inline void gd__run_pieces(gd_ctx *ctx, int64_t elements, void (*fn)(void *, int64_t), void *arg)
{
    gd__run_tasks(ctx, elements, (elements + GD_MICROBATCH - 1) / GD_MICROBATCH, fn, arg);
}

#endif
