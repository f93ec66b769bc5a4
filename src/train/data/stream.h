/* Streamed data sets: blocks of rows, read when needed.
 *
 *   table     a CSV file (UTF-8, not packed) in pieces of about GD_BLOCK bytes that end with a row
 *   arrays    an npy or safetensors file in ranges of rows; the target, one or a few numbers per row, is in memory
 *
 * Encodings and scales are learnt from a sample of at most GD_SAMPLE_BLOCKS blocks distributed over the file; classes are those of all rows. */
#ifndef GD_TRAIN_STREAM_H
#define GD_TRAIN_STREAM_H

#include "train/data/learnt_columns.h"
#include "table/scan_rows.h"

#define GD_BLOCK         ((size_t)1 << 17)
#define GD_SMALL_BLOCK   ((size_t)16 << 10) /* of small files, so that there are blocks to shuffle */
#define GD_SAMPLE_BLOCKS 32

typedef struct gd_block {
    uint64_t at; /* in the file; of arrays the first row */
    size_t size; /* bytes */
    int64_t rows, first_line;
} gd_block;

typedef struct gd_row_stream {
    gd_ctx *ctx;
    const char *path;
    int file;
    uint64_t size; /* of the file */
    gd_block *block;
    int64_t blocks, rows;
    size_t block_bytes;
    bool table;
    /* of a table */
    gd_csv *head; /* its first lines: names */
    gd_table_layout layout;
    int *wanted; /* columns of the features, then of the target */
    gd_cells *kind;
    int wanted_count;
    /* of arrays */
    uint64_t data_at;
    int64_t row_numbers;
    void *array;  /* what they are in the file (stream_array.c) */
    gd_tensor *y; /* of all rows, as gd_dataset has it */
    char *text;   /* of one block */
    size_t text_bytes;
} gd_row_stream;

/* Opens the file and cuts it into blocks.  ARGUMENT: compressed, standard input, a different encoding; FORMAT as for other files.
 * gd__stream_close also after a failure. */
GD_NODISCARD gd_status gd__stream_open(gd_ctx *ctx, const gd_data_request *request, gd_row_stream *out);
void gd__stream_close(gd_row_stream *s);
/* The sample, blocks[0..count), as a data set. */
GD_NODISCARD gd_status gd__stream_sample(gd_row_stream *s, const gd_data_request *request,
                                         const int64_t *blocks, int64_t count, gd_dataset *out);
/* Once the sample's columns are known: reads all rows, which are counted, and finds classes missing in the sample (in
 * data->classes; NULL if they are known: others are an error). */
GD_NODISCARD gd_status gd__stream_survey(gd_row_stream *s, gd_dataset *data, const gd_columns *columns,
                                         bool known);
/* The rows of a block: x as numbers, y as in gd_dataset.  New. */
GD_NODISCARD gd_status gd__stream_read(gd_row_stream *s, int64_t block, const gd_columns *columns,
                                       const gd_dataset *data, gd_tensor **x, gd_tensor **y);

#endif
