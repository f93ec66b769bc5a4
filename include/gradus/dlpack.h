/* gradus/dlpack.h: tensors over memory of other owners, and DLPack, the exchange format of NumPy, PyTorch, JAX and CuPy.
 *
 *     float mine[12] = {0};                                       stays mine; with a function to call in place of the last two NULLs
 *     gd_device *cpu = gd_device_get(ctx, "cpu");                  gradus calls it when the memory is no longer in use
 *     gd_tensor *t = gd_from_memory(cpu, GD_F32, 2, (int64_t[]){3, 4}, NULL, mine, 0, NULL, NULL);
 *
 *     struct DLManagedTensorVersioned *capsule = gd_to_dlpack(t);             for others: the same bytes
 *     gd_tensor *u = gd_from_dlpack(ctx, capsule);                            from others: the same bytes
 *     gd_release(u);
 *     gd_release(t);
 *
 * The structs are those of DLPack 1.x (dlpack.h of that project may be included beside this header); older
 * programs use unversioned ones.  gradus does not notice what other programs write into shared memory: a graph that recorded
 * the old values computes with the new ones.  A context is for one thread at a time, and so are the deleters of capsules that it
 * gave out. */
#ifndef GRADUS_DLPACK_H
#define GRADUS_DLPACK_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;
struct DLManagedTensorVersioned;

enum { GD_READ_ONLY = 1 }; /* nothing may change the elements: assigning and steps are refused with STATE */

/* A tensor over memory of a different owner, on a device of a context.  strides: in elements, NULL for row-major; 0 and
 * negative ones are fine.  release(user), if given, is called once when the last tensor over it is freed; not if this function
 * fails.  data: the element with all indices 0, aligned as its dtype is.  New.  ARGUMENT, SHAPE, OVERFLOW. */
gd_tensor *gd_from_memory(gd_device *device, gd_dtype dtype, int ndim, const int64_t *shape,
                          const int64_t *strides, void *data, int flags, void (*release)(void *user),
                          void *user);

/* Gives a leaf the memory, dtype and device of a tensor of the same shape; its holders (an optimizer, with its state; a module)
 * keep using the leaf.  Counts as a change in place.  Its gradient is forgotten.  GRAPH: one of them is a result; SHAPE;
 * STATE: the memory is read-only and the leaf wants gradients. */
GD_NODISCARD gd_status gd_take_memory(gd_tensor *leaf, gd_tensor *of);

/* Moves a tensor of gd_from_memory without `release` to a different address; all else stays.  Cheaper than a new tensor if the
 * memory changes at every step, as that of gradients does.  Counts as a change in place.  ARGUMENT: its memory is not of that kind, or
 * the address is not aligned; STATE: there is a second reference to the tensor or its memory. */
GD_NODISCARD gd_status gd_point_at(gd_tensor *t, void *data);

/* The tensor of a capsule, which is consumed: its deleter is called when the last tensor over it is freed.  On failure
 * the capsule stays the caller's.  New.  DEVICE: memory that no device of this context has; DTYPE: such as complex numbers. */
gd_tensor *gd_from_dlpack(gd_ctx *ctx, struct DLManagedTensorVersioned *capsule);
gd_tensor *gd_from_dlpack_unversioned(gd_ctx *ctx, struct DLManagedTensor *capsule);

/* A capsule over the memory of a tensor, which stays allocated until the capsule's deleter is called.  New.  NULL with STATE recorded:
 * the tensor has a history or wants gradients (gd_detach gives one that does not); unversioned and read-only. */
struct DLManagedTensorVersioned *gd_to_dlpack(gd_tensor *t);
struct DLManagedTensor *gd_to_dlpack_unversioned(gd_tensor *t);

/* True if its elements cannot be changed. */
bool gd_is_read_only(const gd_tensor *t);

#ifdef __cplusplus
}
#endif

#endif
