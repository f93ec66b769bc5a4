/* Files that may be packed with gzip. */
#ifndef GD_CLI_GZIP_H
#define GD_CLI_GZIP_H

#include "base/ctx.h"

/* Is it gzip? */
bool gd__is_gzip(const void *data, size_t size);
/* Unpacks gzip of at most `limit` bytes.  *out is new and has a NUL behind its last byte:
 * gd__free(ctx, *out, *block).  FORMAT: damaged, cut off or larger. */
GD_NODISCARD gd_status gd__gunzip(gd_ctx *ctx, const char *source, const void *data, size_t size,
                                  size_t limit, char **out, size_t *out_size, size_t *block);
/* gd__read_input, unpacked where it is gzip; limit holds for both.  A NUL behind the last byte, as there. */
GD_NODISCARD gd_status gd__read_unpacked(gd_ctx *ctx, const char *path, uint64_t limit, char **data,
                                         size_t *size, size_t *block);

#endif
