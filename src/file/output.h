/* Files that are written whole or not at all, and checks before long runs that they can be. */
#ifndef GD_FILE_OUTPUT_H
#define GD_FILE_OUTPUT_H

#include "base/ctx.h"

/* Records IO: "PATH: cannot ACTION: what the system says about the error number". */
gd_status gd__io_error(gd_ctx *ctx, const char *path, const char *action, int code);

/* Writes a file, whole or not at all; what was there before stays when it fails.  A path that leads to something else than a
 * regular file (a pipe, /dev/stdout) is written directly. */
GD_NODISCARD gd_status gd__write_output(gd_ctx *ctx, const char *path, const void *data, size_t size);

/* Fails now, rather than after a long run, where gd__write_output could not write: the folder is missing or not writable,
 * the path is a folder. */
GD_NODISCARD gd_status gd__check_output(gd_ctx *ctx, const char *path);

/* The same for a file that a library writes and renames: also fails where the path leads to a device or pipe, which that would
 * replace. */
GD_NODISCARD gd_status gd__check_file(gd_ctx *ctx, const char *path);

#endif
