/* Internals of a gd_model. */
#ifndef GD_TRAIN_TRAINED_MODEL_H
#define GD_TRAIN_TRAINED_MODEL_H

#include "train/run/job.h"

struct gd_model {
    gd_ctx *ctx;
    gd_device *device;
    gd_checkpoint point; /* without an optimizer, world and earlier parameters */
    gd_train_result result;
};

/* Takes the model out of a job that has run.  New; NULL: no memory. */
gd_model *gd__model_take(gd_train_job *j);
/* The status of a call: the recorded error, or else this one with a text. */
gd_status gd__train_status(gd_ctx *ctx, gd_status status);

#endif
