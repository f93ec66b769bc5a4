/* What tests/world/same_bits.c trains: losses by ranges of rows, over parameters that an optimizer gets by name. */
#ifndef GD_TESTS_WORLD_MODELS_H
#define GD_TESTS_WORLD_MODELS_H

#include <gradus/gradus.h>

enum { MODEL_ROWS = 10, MODEL_MICROBATCH = 3, MODEL_TENSORS = 3 };

typedef struct model {
    gd_ctx *ctx;
    gd_module *net;   /* a sequence of layers; NULL: tensors alone */
    gd_tensor *x, *y; /* a row of each for a row of the batch */
    gd_tensor *p[MODEL_TENSORS];
    int count; /* of tensors alone */
    gd_tensor *(*loss)(void *model, int64_t first, int64_t count);
} model;

typedef struct model_class {
    const char *name;
    void (*open)(model *m); /* what fails is in the context */
} model_class;

extern const model_class model_classes[];
extern const int model_count;

/* Some tensors that a link is tried on: few, small ones where it makes a matrix of all elements. */
void open_tensors(model *m, bool large);
/* To a device, data and all. */
gd_status place_model(model *m, gd_device *device);
/* Into an optimizer. */
gd_status add_model(gd_optimizer *o, const model *m);

#endif
