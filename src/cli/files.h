/* Whole files in for the commands. */
#ifndef GD_CLI_FILES_H
#define GD_CLI_FILES_H

#include "file/output.h"

/* All bytes of a file, pipe or (path "-") of standard input, at most `limit`.  *data is new and has a NUL behind its last byte:
 * gd__free(ctx, *data, *block). */
GD_NODISCARD gd_status gd__read_input(gd_ctx *ctx, const char *path, uint64_t limit, char **data,
                                      size_t *size, size_t *block);

#endif
