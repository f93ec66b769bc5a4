/* The training loop: epochs of shuffled batches, validation, early stopping, checkpoints, metrics.
 *
 * Everything that the next step depends on is in the checkpoint, including the completed rows of the epoch, and the order of an
 * epoch's rows is a function of seed and epoch: a run that was stopped anywhere continues with the same bits. */
#ifndef GD_TRAIN_TRAINER_H
#define GD_TRAIN_TRAINER_H

#include "base/observer.h"
#include "file/run_log.h"
#include "train/data/row_split.h"
#include "train/model/metrics.h"
#include "train/run/events.h"

/* Streamed rows: an epoch is pools of them, one at a time. */
typedef struct gd_feed {
    void *user;
    int64_t pools;
    int64_t (*rows)(void *user, int64_t epoch, int64_t pool);
    /* x and y are new. */
    gd_status (*load)(void *user, int64_t epoch, int64_t pool, gd_tensor **x, gd_tensor **y);
} gd_feed;

typedef struct gd_trainer {
    gd_ctx *ctx;
    const gd_observer *observer; /* NULL: none; borrowed */
    /* Called after every epoch; a failure ends the run as a failed step does.  NULL: none. */
    gd_status (*epoch_done)(void *user, const struct gd_trainer *t);
    void *user;
    gd_checkpoint point;
    gd_device *device;
    gd_optimizer *optimizer;
    gd_reduce reduce; /* of several ranks, see point.world */
    gd_shard shard;
    gd_tensor *x, *y;             /* training rows, standardised */
    gd_tensor *weight, *offset;   /* of the loss: of each class; of the logarithm of a rate; NULL: none */
    gd_tensor *check_x, *check_y; /* validation rows; NULL: none */
    int64_t rows, check_rows;
    const gd_feed *feed;   /* NULL: x and y are all rows; else they are a pool */
    double save_every;     /* seconds */
    double time;           /* seconds that the run may take; INFINITY: any */
    int64_t shift;         /* added to the seed of the order: members of an ensemble have their own */
    const char *out;       /* the checkpoint; NULL: none */
    gd_run_writer *tracer; /* NULL: none */
    gd_events *events;

    /* The last two checkpoints kept in memory, the younger first: after a failed step the model is unusable, and the younger
     * checkpoint may be the cause of the failure. */
    gd_archive *kept[2]; /* NULL: none yet */
    gd_progress_state kept_at[2];
    double kept_time, kept_cost; /* seconds: when, and how long that took */
    gd_tensor **lowest;          /* without validation: the parameters after the epoch of the lowest loss */
    bool broken;                 /* a step failed */
    bool save_fails;             /* and was reported */

    const char *stopped;  /* why, after the run */
    gd_metrics checked;   /* of the last whole epoch, if there is validation */
    double seconds;       /* of this run */
    int64_t trained_rows; /* in this run */

    int64_t *order; /* rows of this epoch */
    size_t order_bytes;
    gd_tensor *batch_x, *batch_y; /* during a step, of it or of a microbatch */
    gd_tensor *room_x,
        *room_y; /* where batches of the usual size are, so that a recorded step finds them; NULL: not yet */
    int64_t batch_at; /* in the order */
    bool parted;      /* x and check_x are the part of this rank, and rows come every epoch (row_parts.h): */
    gd_tensor *taken;
    int64_t *place;
    size_t place_bytes;
    double begun, saved;
} gd_trainer;

/* Ranks of a world (point.world) evaluate microbatches of every batch, decide together when to stop and save, and have the same
 * parameters, losses and progress; the first one writes.
 *
 * Trains to the last epoch, an early stop, a termination link or the observer's interruption, and saves.  If something fails (VALUE: the loss is not
 * finite; IO: a record cannot be written), the state is saved first: the current checkpoint, or after a failed step a recent one, with the best model
 * of all.  A save in between that fails is a warning and tried again. */
GD_NODISCARD gd_status gd__trainer_run(gd_trainer *t);
/* One step, over the next rows in the order of the epoch; after the last ones the next epoch begins.  Nothing is
 * measured, reported or saved. */
GD_NODISCARD gd_status gd__trainer_step(gd_trainer *t, gd_step_info *info);
void gd__trainer_close(gd_trainer *t);

#endif
