/* The structs of DLPack, written down once more from its specification: what the library assumes is not what tests assume. */
#ifndef GD_TESTS_DLPACK_SUPPORT_H
#define GD_TESTS_DLPACK_SUPPORT_H

#include <stdint.h>

typedef struct dl_array {
    void *data;
    int32_t device_type;
    int32_t device_id;
    int32_t ndim;
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides;
    uint64_t byte_offset;
} dl_array;

typedef struct dl_plain {
    dl_array tensor;
    void *manager;
    void (*deleter)(struct dl_plain *self);
} dl_plain;

typedef struct dl_versioned {
    uint32_t major;
    uint32_t minor;
    void *manager;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_array tensor;
} dl_versioned;

static inline void count_deleted(dl_versioned *self) { ++*(int *)self->manager; }

#endif
