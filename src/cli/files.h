/* Whole files in and out for the commands. */
#ifndef GD_CLI_FILES_H
#define GD_CLI_FILES_H

#include "base/ctx.h"

/* Records IO: "PATH: cannot ACTION: what the system says about the error number". */
gd_status gd__io_error(gd_ctx *ctx, const char *path, const char *action, int code);

/* All bytes of a file, pipe or (path "-") of standard input, at most `limit`.  *data is new and has a NUL behind its last byte:
 * gd__free(ctx, *data, *block). */
GD_NODISCARD gd_status gd__read_input(gd_ctx *ctx, const char *path, uint64_t limit, char **data,
                                      size_t *size, size_t *block);

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
