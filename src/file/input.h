/* Whole files in. */
#ifndef GD_FILE_INPUT_H
#define GD_FILE_INPUT_H

#include "file/output.h"

/* How an input is read; NULL in its place: a file, without an observer. */
typedef struct gd_input {
    const gd_observer *observer; /* sees MB read; borrowed; NULL: none */
    bool standard;               /* the path "-" is standard input, not a file of that name */
} gd_input;

/* The name of an input in messages: its path, or "standard input". */
const char *gd__input_name(const char *path, const gd_input *how);
/* The last part of a path, or "standard input": what an observer shows beside the progress. */
const char *gd__input_label(const char *source);

/* The size of a file by its first `size` bytes: *total is its length by the header; it stays 0 if more bytes are needed.
 * An error ends the reading. */
typedef gd_status gd_need_fn(gd_ctx *ctx, const char *source, const char *data, size_t size, uint64_t *total);

/* All bytes of a file, a pipe or standard input, at most `limit` and what gd__input_limit allows.  `look` (NULL: none) sees the
 * first bytes before the rest is read, unless they are gzip.  *data is new and has a NUL behind its last byte:
 * gd__free(ctx, *data, *block).  FORMAT: larger; INTERRUPTED: the observer asked for it. */
GD_NODISCARD gd_status gd__read_input(gd_ctx *ctx, const char *path, const gd_input *how, uint64_t limit,
                                      gd_need_fn *look, char **data, size_t *size, size_t *block);

/* Is it gzip? */
bool gd__is_gzip(const void *data, size_t size);

/* Bytes that one input may have in memory, unpacked: ctx->input_limit (--max-bytes), or a quarter of the memory, because the
 * numbers of a table take more room than its text. */
uint64_t gd__input_limit(const gd_ctx *ctx);
/* FORMAT: "data.csv: unpacks to more than 1000 bytes ; --max-bytes allows more", the option only if it does. */
GD_NODISCARD gd_status gd__input_too_large(gd_ctx *ctx, const char *source, const char *verb, uint64_t limit);
/* The same for a file that is read by its size. */
GD_NODISCARD gd_status gd__input_fits(gd_ctx *ctx, const char *path);

#endif
