/* Files that are written whole or not at all, and checks of outputs before long runs. */
#ifndef GD_FILE_OUTPUT_H
#define GD_FILE_OUTPUT_H

#include "base/ctx.h"

/* Records IO: "PATH: cannot ACTION: what the system says about the error number". */
gd_status gd__io_error(gd_ctx *ctx, const char *path, const char *action, int code);

/* Writes a file, whole or not at all; the old file stays on failure. A path to something other than a regular file
 * (a pipe, /dev/stdout) is written directly. */
GD_NODISCARD gd_status gd__write_output(gd_ctx *ctx, const char *path, const void *data, size_t size);

/* Fails now, rather than after a long run, if gd__write_output could not write: the folder is missing or not writable,
 * the path is a folder. */
GD_NODISCARD gd_status gd__check_output(gd_ctx *ctx, const char *path);

/* The same for a file that a library writes and renames: also fails if the path is a device or pipe, which would be replaced. */
GD_NODISCARD gd_status gd__check_file(gd_ctx *ctx, const char *path);

#endif
