/* IDX files, the format of MNIST: images and labels as a small header and big-endian elements, plain or gzip. */
#ifndef GD_FILE_IDX_H
#define GD_FILE_IDX_H

#include "file/input.h"
#include "gradus/tensor.h"

typedef struct gd_idx {
    gd_dtype dtype; /* of the tensor: u8 stays, i8 and i16 become i32, i32 f32 f64 stay */
    int file_size;  /* bytes of an element in the file */
    int ndim;
    int64_t shape[GD_MAX_DIMS];
    int64_t count;
    size_t data_at;
} gd_idx;

/* The tensor of an IDX file, gzip or not.  New. */
gd_tensor *gd__idx_load(gd_ctx *ctx, const char *path, const gd_input *how);
/* Does the name look like one: .idx, .idx.gz, -ubyte, -ubyte.gz, .idx3-ubyte ... */
bool gd__idx_is_path(const char *path);

#endif
