/* Archives of NumPy: zip files of npy files, as numpy.savez and savez_compressed write them. */
#ifndef GD_FILE_ZIP_H
#define GD_FILE_ZIP_H

#include "file/input.h"
#include "gradus/file.h"

/* All arrays by their names, without ".npy".  New; NULL with FORMAT (not such a file, damaged, larger than 4 GB, packed by an unknown
 * method), or the error of reading or of an array. */
gd_archive *gd__npz_load(gd_ctx *ctx, const char *path, const gd_input *how);
/* The same of the bytes of such a file; `source` names it in errors. */
gd_archive *gd__npz_read(gd_ctx *ctx, const char *source, const void *data, size_t size);

#endif
