/* The settings of a model and the progress of its training: the metadata of a checkpoint.
 *
 * A checkpoint is one safetensors file:
 *
 *   tensors    model.NAME, best.NAME               current parameters, and those of the best validation
 *              memberK.NAME                        those of further models, made with other seeds
 *              input.mean, input.scale             standardisation; output.mean, output.scale of numbers to predict
 *              class.weight                        of each class in the loss
 *              optimizer/...                       state of the links, see src/optim/state/state.c
 *   metadata   "train"                             recipe and progress, as JSON
 *              "optimizer/optimizer"               of the links
 *
 * `gradus predict` needs nothing else, `gradus train --resume` only the data. */
#ifndef GD_TRAIN_RECIPE_H
#define GD_TRAIN_RECIPE_H

#include "train/data/learnt_columns.h"
#include "train/model/loss.h"
#include "train/model/train_network.h"
#include "gradus/optim.h"

/* Words are interned. */
typedef struct gd_recipe {
    gd_task task;
    gd_dtype dtype;
    const char *model, *chain, *target;
    const char *class_weights; /* as requested; "": none */
    const char *stop_on;       /* the metric of the best epoch */
    const char *split;         /* validation rows, see row_split.h */
    gd_loss loss;
    int64_t seeds; /* models whose predictions are averaged */
    gd_words groups, schedules, features, ignored, text, classes;
    gd_columns columns; /* encoding of the features of a table; none for arrays */
    int row_axes;
    int64_t row[GD_MAX_DIMS];
    int64_t outputs, batch, seed;
    int64_t microbatch; /* rows of a batch that are evaluated at a time; 0: all of them, -1: not decided */
    int64_t epochs, patience; /* patience 0: no early stopping */
    double validation;        /* share of the rows */
    bool stratified;          /* of each class alike */
    bool stream;              /* read in blocks */
    gd_standardise standardise;
    uint64_t data; /* gd__dataset_sum */
} gd_recipe;

typedef struct gd_progress_state {
    int64_t epoch;           /* whole epochs done */
    int64_t at;              /* rows of the next one done */
    double loss_sum;         /* over them */
    double last_loss;        /* mean of the last whole epoch; NAN before */
    double best_loss;        /* of the validation (of the training without one); INFINITY before */
    int64_t best_epoch, bad; /* epochs since */
} gd_progress_state;

/* Everything that is saved. */
typedef struct gd_checkpoint {
    gd_ctx *ctx;
    gd_world *world; /* whose ranks measure and save together; NULL: this process alone; borrowed */
    gd_recipe recipe;
    gd_progress_state progress;
    gd_scaling input, output;
    gd_tensor *weight; /* of each class in the loss, f64; NULL: all alike */
    gd_network model;
    gd_network *member; /* further ones, made with other seeds */
    int members;
    gd_tensor **best; /* copies of the parameters, in their order; NULL: none */
    int params;
} gd_checkpoint;

void gd__checkpoint_close(gd_checkpoint *c);

/* Writes the file, of several ranks the first; all get the status.  optimizer NULL: without its state. */
GD_NODISCARD gd_status gd__checkpoint_save(gd_checkpoint *c, gd_optimizer *optimizer, const char *path);
/* Is this the rank that writes? */
bool gd__checkpoint_writes(const gd_checkpoint *c);
/* Reads recipe, progress, standardisation and parameters, and makes the model.  The archive is for gd_optimizer_unpack:
 * gd_archive_free.  parts: it is read on request, so that each process reads only its shards. FORMAT if it is not a checkpoint
 * of gradus train.  gd__checkpoint_close also after a failure. */
GD_NODISCARD gd_status gd__checkpoint_load(gd_ctx *ctx, const char *path, bool parts, gd_checkpoint *out,
                                           gd_archive **archive);
/* The same from a file already read. */
GD_NODISCARD gd_status gd__checkpoint_read(gd_ctx *ctx, const char *path, const gd_archive *archive,
                                           gd_checkpoint *out);

/* The current checkpoint without the best parameters, as copies in the CPU's memory.  New: gd_archive_free.  NULL: no memory. */
gd_archive *gd__checkpoint_keep(gd_checkpoint *c, gd_optimizer *optimizer);
/* Are the parameters of such a copy finite? */
bool gd__checkpoint_kept_finite(gd_ctx *ctx, const gd_archive *kept);
/* Writes it as a file, with its progress and the current best parameters. */
GD_NODISCARD gd_status gd__checkpoint_save_kept(gd_checkpoint *c, const gd_archive *kept,
                                                const gd_progress_state *then, const char *path);

/* Sets the weights of classes by the recipe's words: "balanced" (rows / (classes * rows of the class)) or CLASS=WEIGHT,...
 * ARGUMENT: an unknown class, or not a number above 0. */
GD_NODISCARD gd_status gd__class_weights(gd_checkpoint *c, gd_tensor *y);

/* Adds the current model to the members of an ensemble. */
GD_NODISCARD gd_status gd__checkpoint_add_member(gd_checkpoint *c);

/* Moves parameters and their copies. */
GD_NODISCARD gd_status gd__checkpoint_move(gd_checkpoint *c, gd_device *device);
/* Copies of the parameters as they are now, in their order; *copies NULL: new, for gd__checkpoint_free_copies. */
GD_NODISCARD gd_status gd__checkpoint_copy(gd_checkpoint *c, gd_tensor ***copies);
void gd__checkpoint_free_copies(gd_checkpoint *c, gd_tensor ***copies); /* sets NULL */
/* The same as the best ones. */
GD_NODISCARD gd_status gd__checkpoint_remember(gd_checkpoint *c);
/* Copies the kept parameters into the model. */
GD_NODISCARD gd_status gd__checkpoint_take_best(gd_checkpoint *c);

/* ---- the text (recipe.c) ---- */

void gd__recipe_print(gd_text *out, const gd_recipe *recipe, const gd_progress_state *progress);
/* `source` leads the errors. */
GD_NODISCARD gd_status gd__recipe_parse(gd_ctx *ctx, const char *source, const char *text, gd_recipe *recipe,
                                        gd_progress_state *progress);
void gd__recipe_free(gd_ctx *ctx, gd_recipe *recipe);

const char *gd__task_name(gd_task task);

#endif
