/* A run of gradus train as its command has it: options, recipe, data.  cmd_train.c says what is run. */
#ifndef GD_CLI_COMMANDS_TRAIN_JOB_H
#define GD_CLI_COMMANDS_TRAIN_JOB_H

#include "cli/commands/tuning.h"
#include "cli/table_options.h"
#include "cli/train/split.h"
#include "cli/train/trainer.h"

/* Compared with scikit-learn's networks by bench/train.c.  The average of the weights stands for a learning rate that falls, and does
 * not ask how long the run is to be. */
#define GD_TRAIN_CHAIN        "adam | lr(0.003) | ema_weights(0.99)"
#define GD_TRAIN_MODEL        "mlp(100)"
#define GD_TRAIN_PATIENCE     20
#define GD_TRAIN_MICROBATCHES 8       /* of a batch, with several processes */
#define GD_TRAIN_EPOCHS       100     /* of small data; */
#define GD_TRAIN_ROWS         2000000 /* about so many rows in all, but at least */
#define GD_TRAIN_LEAST        20      /* epochs */

typedef struct gd_train_stream gd_train_stream; /* train_stream.c */

typedef struct gd_train_job {
    gd_trainer t;
    const gd_args *args;
    const char *resume;
    gd_archive *archive; /* of --resume */
    gd_dataset data;
    gd_row_split split;
    gd_model_spec spec;
    int standardise; /* 3: the data decides */
    int64_t *order;  /* the rows of the data: those to validate with, then those to learn from */
    size_t order_bytes;
    gd_metrics trained;      /* of the model in the end, on what it learnt from */
    gd_report report;        /* of the validation, for classes */
    int64_t folds, seeds;    /* 0, 1: neither */
    gd_train_stream *stream; /* NULL: the data is in memory */
    gd_words changed;        /* what a resumed run does in another way, for people */
    bool other_steps;        /* chain, groups or schedules are among it */
    bool told_unused;        /* that no parameter goes through --chain */
} gd_train_job;

/* The recipe from options, or from the checkpoint where they are not given (train_recipe.c).  task and standardise are told for the
 * data to decide where they are automatic. */
GD_NODISCARD gd_status gd__train_settings(gd_train_job *j, int *task, int *standardise);
/* ARGUMENT: an option is another than the checkpoint was made with. */
gd_status gd__train_differs(const gd_train_job *j, const char *option, const char *has, const char *given);

/* Options, recipe and data (train_prepare.c). */
GD_NODISCARD gd_status gd__train_open(gd_train_job *j);
void gd__train_close(gd_train_job *j);
/* Makes model, optimizer and tensors for some rows: the table is encoded and scaled by those to learn from.  What was made before
 * is forgotten. */
GD_NODISCARD gd_status gd__train_begin(gd_train_job *j, const int64_t *learn, int64_t rows,
                                       const int64_t *check, int64_t check_rows);
/* The same with a model made by another seed. */
GD_NODISCARD gd_status gd__train_again(gd_train_job *j, int64_t shift);
/* Some rows of the data as the model takes them, on its device.  *x and *y are new. */
GD_NODISCARD gd_status gd__train_rows(gd_train_job *j, const int64_t *rows, int64_t count, gd_tensor **x,
                                      gd_tensor **y);

/* ---- data in blocks (train_stream.c) ---- */

/* Opens the data, learns its columns and classes, and leaves a sample of it in j->data. */
GD_NODISCARD gd_status gd__train_stream_open(gd_train_job *j, const gd_data_request *request);
/* Once the trainer has begun with the sample: the rows to validate with, and pools to learn from. */
GD_NODISCARD gd_status gd__train_stream_begin(gd_train_job *j);
void gd__train_stream_close(gd_train_job *j);
/* Rows of all blocks, blocks, a number that tells other files apart. */
int64_t gd__train_stream_rows(const gd_train_job *j);
int64_t gd__train_stream_blocks(const gd_train_job *j);
uint64_t gd__train_stream_sum(const gd_train_job *j);

#endif
