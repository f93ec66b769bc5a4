/* The shortest loops we know for what count.c counts, one vector of NEON a turn: same polynomials and results to a few last bits, but
 * fused multiply-adds, no care for sizes that are no multiple of a vector, and of NaNs in halves only what the instructions do. */
#ifndef GD_BENCH_FLOOR_H
#define GD_BENCH_FLOOR_H

#include <stdint.h>

typedef void floor_loop(void *o, const void *a, void *b, int64_t n);

#define FLOOR_BOTH(name) floor_loop floor_##name##_f32, floor_##name##_f64;
FLOOR_BOTH(add)
FLOOR_BOTH(mul)
FLOOR_BOTH(div)
FLOOR_BOTH(sqrt)
FLOOR_BOTH(square)
FLOOR_BOTH(relu)
FLOOR_BOTH(exp)
FLOOR_BOTH(log)
FLOOR_BOTH(tanh)
FLOOR_BOTH(sigmoid)
FLOOR_BOTH(sum)
FLOOR_BOTH(max)
FLOOR_BOTH(softmax)
FLOOR_BOTH(adam)         /* o: parameter; a: gradient; b: both moments, one after the other */
FLOOR_BOTH(clipped_adam) /* after a pass for the norm */
FLOOR_BOTH(product)      /* of matrices n x n, n a multiple of 24, laid out as product_tile() reads them */
#define FLOOR_HALVES(name) floor_loop floor_##name##_f16, floor_##name##_bf16;
FLOOR_HALVES(add)
FLOOR_HALVES(mul)
FLOOR_HALVES(relu)
FLOOR_HALVES(exp)
FLOOR_HALVES(sum)

#endif
