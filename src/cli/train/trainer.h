/* The training loop: epochs of shuffled batches, validation, early stopping, checkpoints, metrics.
 *
 * All that the next step depends on is in the checkpoint, down to the rows of the epoch that are done, and the order of an
 * epoch's rows is a function of seed and epoch: a run that was stopped anywhere goes on with the same bits. */
#ifndef GD_CLI_TRAIN_TRAINER_H
#define GD_CLI_TRAIN_TRAINER_H

#include "cli/cli.h"
#include "cli/train/events.h"
#include "cli/train/recipe.h"
#include "cli/data/trace.h"

typedef struct gd_metrics {
    double loss;     /* cross entropy, or mean square of the standardised numbers */
    double accuracy; /* of classes */
    double rmse, r2; /* of numbers, in their own units */
} gd_metrics;

/* Over standardised rows on the model's device: y are classes, or standardised numbers. */
GD_NODISCARD gd_status gd__measure(const gd_checkpoint *c, gd_tensor *x, gd_tensor *y, gd_metrics *out);
/* A line, and members of a JSON object. */
void gd__metrics_print(gd_text *out, gd_task task, const gd_metrics *m);
void gd__json_metrics(gd_text *out, gd_task task, const gd_metrics *m);

typedef struct gd_trainer {
    gd_cli *cli;
    gd_ctx *ctx;
    gd_checkpoint point;
    gd_device *device;
    gd_optimizer *optimizer;
    gd_tensor *x, *y;             /* to learn from, standardised */
    gd_tensor *check_x, *check_y; /* to validate with; NULL: none */
    int64_t rows, check_rows;
    double save_every; /* seconds */
    const char *out;   /* the checkpoint; NULL: none */
    gd_tracer *tracer; /* NULL: none */
    gd_events *events;
    bool quiet; /* no line an epoch on standard output */

    /* The last two checkpoints kept in memory, the younger first: after a step that failed the model is worth nothing, and
     * the younger may be what that step stumbled over. */
    gd_archive *kept[2]; /* NULL: none yet */
    gd_progress_state kept_at[2];
    double kept_time, kept_cost; /* seconds: when, and how long that took */
    gd_tensor **lowest;          /* without a validation: the parameters after the epoch of the lowest loss */
    bool broken;                 /* a step failed */
    bool save_fails;             /* and has been complained about */

    const char *stopped;  /* why, after the run */
    gd_metrics checked;   /* of the last whole epoch, if there is validation */
    double seconds;       /* of this run */
    int64_t trained_rows; /* in this run */

    int64_t *order; /* rows of this epoch */
    size_t order_bytes;
    gd_tensor *batch_x, *batch_y; /* during a step */
    double saved;
    gd_meter meter;
} gd_trainer;

/* order[0..count) becomes a permutation of 0 .. count - 1, a function of seed and stream alone. */
void gd__shuffle(int64_t *order, int64_t count, int64_t seed, int64_t stream);

/* Trains to the last epoch, an early stop, a termination link or Ctrl-C, and saves.  When something fails on the way (VALUE: the
 * loss is not finite; IO: a record or standard output cannot be written), what there is to save is saved first: the checkpoint
 * as it is, or after a step that failed one of shortly before, with the best model of all.  A save in between that fails is a warning and tried again. */
GD_NODISCARD gd_status gd__trainer_run(gd_trainer *t);
void gd__trainer_close(gd_trainer *t);

#endif
