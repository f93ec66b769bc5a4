/* A training: settings (settings.c), data and model (prepare.c, feed.c), runs (modes.c).
 *
 *   gd_train_job j;
 *   gd__train_init(ctx, table, &spec, NULL, &j);
 *   gd_status status = gd__train_open(&j);
 *   if (!status) status = gd__train_run(&j);
 *   gd__train_close(&j); */
#ifndef GD_TRAIN_JOB_H
#define GD_TRAIN_JOB_H

#include "train/data/row_split.h"
#include "train/run/explore.h"

/* Compared with scikit-learn's networks by bench/train.c.  The average of the weights replaces a falling learning rate, and does not
 * need the length of the run. */
#define GD_TRAIN_CHAIN        "adam | lr(0.003) | ema_weights(0.99)"
#define GD_TRAIN_MODEL        "mlp(100)"
#define GD_TRAIN_PATIENCE     20
#define GD_TRAIN_MICROBATCHES 8       /* of a batch, with several processes */
#define GD_TRAIN_EPOCHS       100     /* of small data; */
#define GD_TRAIN_ROWS         2000000 /* about so many rows in total, but at least */
#define GD_TRAIN_LEAST        20      /* epochs */

typedef struct gd_train_stream gd_train_stream; /* feed.c */
typedef struct gd_train_job gd_train_job;

/* Hooks of the caller; each may be NULL.  A failure ends the training. */
typedef struct gd_train_hooks {
    /* Data and model are ready, before the first step; with folds, those of the first. */
    gd_status (*begun)(void *user, gd_train_job *j);
    /* A member of an ensemble is trained, the one of seed `number`; a fold is measured. */
    gd_status (*seed_done)(void *user, gd_train_job *j, int64_t number);
    gd_status (*fold_done)(void *user, gd_train_job *j, int64_t fold, const gd_metrics *measured);
    void *user;
} gd_train_hooks;

struct gd_train_job {
    gd_trainer t;
    gd_train_spec spec;
    gd_csv_options csv;
    gd_train_hooks hooks;
    gd_table *table;    /* the data; NULL: the file spec.path */
    const char *source; /* the name of the data in messages: a path, or the name of the table */
    const char *resume;
    bool whole_rows;     /* every process keeps all rows, because importance permutes single columns */
    gd_archive *archive; /* of resume */
    gd_dataset data;
    gd_row_split split;
    gd_network_spec network;
    int standardise; /* 3: the data decides */
    int64_t *order;  /* the rows of the data: validation, then training */
    size_t order_bytes;
    gd_metrics trained;      /* of the final model, on the training rows */
    gd_report report;        /* of the validation, for classes */
    int64_t folds, seeds;    /* 0, 1: neither */
    gd_train_stream *stream; /* NULL: the data is in memory */
    gd_words changed;        /* differences of a resumed run, as text */
    bool other_steps;        /* chain, groups or schedules are among it */
    bool told_unused;        /* true if no parameter uses --chain */
};

/* An empty job.  table NULL: the file spec->path, read as csv says (NULL: defaults). */
void gd__train_init(gd_ctx *ctx, gd_table *table, const gd_train_spec *spec, const gd_csv_options *csv,
                    gd_train_job *j);
/* Reads the data and makes the model; of folds (j->folds) only the former.  gd__train_close also after a failure. */
GD_NODISCARD gd_status gd__train_open(gd_train_job *j);
/* Trains the model, or those of j->seeds, saves, and measures the best one. */
GD_NODISCARD gd_status gd__train_run(gd_train_job *j);
void gd__train_close(gd_train_job *j);

/* Cross-validation with j->folds folds: scores of the models in all[0..folds), mean and deviation (n - 1) over them. */
GD_NODISCARD gd_status gd__train_folds(gd_train_job *j, gd_metrics *all, gd_metrics *mean,
                                       gd_metrics *deviation);
/* Trains with other seeds: the last model is that of the seed itself, the others are members of the checkpoint. */
GD_NODISCARD gd_status gd__train_seeds(gd_train_job *j);

/* ---- internal interface ---- */

/* The recipe from the spec, or from the checkpoint for unset members. Automatic task and standardise are decided by the data. */
GD_NODISCARD gd_status gd__train_settings(gd_train_job *j, int *task, int *standardise);
/* ARGUMENT: an option differs from that of the checkpoint. */
gd_status gd__train_differs(const gd_train_job *j, const char *option, const char *has, const char *given);
/* Makes model, optimizer and tensors for some rows: the table is encoded and scaled by the training rows. Replaces earlier ones. */
GD_NODISCARD gd_status gd__train_begin(gd_train_job *j, const int64_t *learn, int64_t rows,
                                       const int64_t *check, int64_t check_rows);
/* The same with a model of a different seed. */
GD_NODISCARD gd_status gd__train_again(gd_train_job *j, int64_t shift);
/* Some rows of the data in the model's encoding, on its device.  *x and *y are new. */
GD_NODISCARD gd_status gd__train_rows(gd_train_job *j, const int64_t *rows, int64_t count, gd_tensor **x,
                                      gd_tensor **y);

/* ---- data in blocks (feed.c) ---- */

/* Opens the data, learns its columns and classes, and leaves a sample of it in j->data. */
GD_NODISCARD gd_status gd__train_stream_open(gd_train_job *j, const gd_data_request *request);
/* After the trainer has begun with the sample: the validation rows, and pools of training rows. */
GD_NODISCARD gd_status gd__train_stream_begin(gd_train_job *j);
void gd__train_stream_close(gd_train_job *j);
/* Rows of all blocks, blocks, a fingerprint of the file. */
int64_t gd__train_stream_rows(const gd_train_job *j);
int64_t gd__train_stream_blocks(const gd_train_job *j);
uint64_t gd__train_stream_sum(const gd_train_job *j);

#endif
