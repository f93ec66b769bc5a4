/* How the matrices of a product lie in memory.  Nothing here calls CUDA. */
#ifndef GD_CUDA_BATCH_H
#define GD_CUDA_BATCH_H

#include "tensor/tensor_internal.h"

/* A matrix that a library can read: rows adjacent, or columns where it is turned. */
typedef struct cuda_matrix {
    bool turned;
    int64_t ld;
} cuda_matrix;

/* The batch axes of left, right and result together, outermost in the result first; steps in bytes. */
typedef struct cuda_batch {
    int ndim;
    int64_t count;
    int64_t size[GD_MAX_DIMS], step[3][GD_MAX_DIMS];
} cuda_batch;

/* False when the last two axes of t must be copied. */
bool cuda_matrix_of(const gd_tensor *t, cuda_matrix *m);
/* Joins axes that are one for all three; all have the same batch sizes, 0 steps repeat a matrix. */
void cuda_batch_of(const gd_tensor *left, const gd_tensor *right, const gd_tensor *result, cuda_batch *b);
/* At most one axis, which goes forward: a library needs one stride. */
bool cuda_batch_is_plain(const cuda_batch *b);
/* Are all matrices at multiples of 16 bytes, when the three first ones are at these addresses? */
bool cuda_batch_is_aligned(const cuda_batch *b, const void *left, const void *right, const void *result);
/* Are the batch axes of t one by themselves? */
bool cuda_is_plain(const gd_tensor *t);

#endif
