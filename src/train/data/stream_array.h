/* Interface between stream.c and stream_array.c. */
#ifndef GD_TRAIN_STREAM_ARRAY_H
#define GD_TRAIN_STREAM_ARRAY_H

#include "table/labels.h"
#include "train/data/stream.h"

GD_NODISCARD gd_status gd__stream_bytes(gd_row_stream *s, uint64_t at, size_t size, char *out);
GD_NODISCARD gd_status gd__stream_add_block(gd_row_stream *s, gd_block block);
GD_NODISCARD gd_status gd__stream_open_file(gd_row_stream *s);

GD_NODISCARD gd_status gd__stream_open_array(gd_row_stream *s, const gd_data_request *request);
void gd__stream_close_array(gd_row_stream *s);
GD_NODISCARD gd_status gd__stream_sample_array(gd_row_stream *s, const gd_data_request *request,
                                               const int64_t *blocks, int64_t count, gd_dataset *out);
GD_NODISCARD gd_status gd__stream_read_array(gd_row_stream *s, int64_t block, gd_tensor **x, gd_tensor **y);

#endif
