/* Files that may be packed with gzip. */
#ifndef GD_FILE_GZIP_H
#define GD_FILE_GZIP_H

#include "file/input.h"

/* Unpacks gzip of at most `limit` bytes, and with `need` (NULL: none) of no more than the header announces, so that a few bytes
 * cannot become unexpected gigabytes.  *out is new and has a NUL behind its last byte:
 * gd__free(ctx, *out, *block).  FORMAT: damaged, cut off or larger. */
GD_NODISCARD gd_status gd__gunzip(gd_ctx *ctx, const char *source, const void *data, size_t size,
                                  size_t limit, gd_need_fn *need, char **out, size_t *out_size,
                                  size_t *block);
/* gd__read_input, unpacked if it is gzip; limit applies to both, and `need` gets the bytes of both.  A NUL behind the last byte, as there. */
GD_NODISCARD gd_status gd__read_unpacked(gd_ctx *ctx, const char *path, const gd_input *how, uint64_t limit,
                                         gd_need_fn *need, char **data, size_t *size, size_t *block);

#endif
