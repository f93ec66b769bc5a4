/* The npy format, without tensors.
 *
 *   "\x93NUMPY" major minor  length (2 bytes; 4 from version 2 on)  header of that length  elements
 *   header: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   padded with spaces, ends in a
 *   newline */
#ifndef GD_FILE_NPY_H
#define GD_FILE_NPY_H

#include "base/ctx.h"
#include "gradus/tensor.h"

#define GD_NPY_PREFIX     12       /* bytes that hold magic, version and length, whatever the version */
#define GD_NPY_MAX_HEADER 1000000u /* ours: real ones have about a hundred bytes */
#define GD_NPY_WRITTEN    320      /* room for a header of 8 axes: under 300 bytes */

typedef struct gd_npy {
    gd_dtype dtype; /* what the elements become */
    char kind;      /* in the file: 'f', 'i', 'u' or 'b' */
    size_t item;    /* bytes of an element in the file */
    bool swap;      /* the other byte order */
    bool fortran;   /* first axis fastest */
    int ndim;
    int64_t shape[GD_MAX_DIMS];
    uint64_t count;     /* elements */
    uint64_t data_at;   /* where they begin in the file */
    uint64_t data_size; /* their bytes in the file */
} gd_npy;

/* Where the header text begins and how long it is, from the first min(12, file_size) bytes. */
GD_NODISCARD gd_status gd__npy_prefix(gd_ctx *ctx, const char *source, const void *first, uint64_t file_size,
                                      size_t *at, size_t *length);

/* Parses the header text at `at`.  FORMAT, DTYPE or SHAPE when it cannot be read; FORMAT also when the
 * elements would not fill the rest of the file exactly. */
GD_NODISCARD gd_status gd__npy_header(gd_ctx *ctx, const char *source, const char *text, size_t at,
                                      size_t length, uint64_t file_size, gd_npy *npy);

/* The length of a file by its header, given its first `size` bytes; *total stays 0: more bytes are needed. */
GD_NODISCARD gd_status gd__npy_total(gd_ctx *ctx, const char *source, const char *data, size_t size,
                                     uint64_t *total);

/* Elements of the file to row-major elements of npy->dtype. */
void gd__npy_unpack(const gd_npy *npy, const void *data, void *out);

/* The tensor of a whole file in memory; `source` leads the errors.  New. */
gd_tensor *gd__npy_tensor(gd_ctx *ctx, const char *source, const void *data, size_t size);

/* The bytes before the elements; returns their number, a multiple of 64. */
size_t gd__npy_print(gd_dtype dtype, int ndim, const int64_t *shape, char out[GD_NPY_WRITTEN]);

#endif
