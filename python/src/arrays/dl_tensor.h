/* DLPack's description of a tensor; its layout is the format. */
#ifndef GD_PYTHON_DL_TENSOR_H
#define GD_PYTHON_DL_TENSOR_H

#include <stdint.h>

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

#endif
