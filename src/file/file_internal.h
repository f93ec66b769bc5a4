/* Files through the context's table of operations: a durable writer and a bounded reader.
 *
 *   gd_file_writer w;
 *   gd_status s = gd__file_create(ctx, "a/b.bin", &w);      a/.gradus-PID-TRY-RANDOM.tmp, new, locked
 *   if (!s) s = gd__file_write(&w, data, size);             any number of times
 *   if (!s) s = gd__file_commit(&w);                        fsync, rename, fsync of a/
 *   else gd__file_discard(&w);
 *
 * Until the rename the old file is untouched; after it the new one is complete.  A symbolic link is followed: its target is replaced.
 * The new file has the permissions of the old one.  Temporary files in a/ whose process has died are removed on
 * the way: they are not locked, and there is no process of that number. */
#ifndef GD_FILE_FILE_INTERNAL_H
#define GD_FILE_FILE_INTERNAL_H

#include "base/ctx.h"
#include "gradus/tensor.h"

#define GD_FILE_PATH 4096 /* of a buffer for a path */

/* Resolves a path: symbolic links in its last component are followed, also to a file that does not exist yet.  False: too long, or
 * links in a circle. */
bool gd__file_target(const char *path, char out[GD_FILE_PATH]);

typedef struct gd_file_writer {
    gd_ctx *ctx;
    const char *path; /* borrowed: must outlive the writer */
    char *target;     /* the target of path */
    char *temp;       /* NULL: nothing to remove */
    size_t temp_size; /* of the block `temp` is in */
    int fd;
    int folder; /* opened first, so that after the rename only its fsync can fail */
} gd_file_writer;

/* Starts a file beside `path`.  On failure (IO, ARGUMENT, NOMEM) there is nothing to discard. */
GD_NODISCARD gd_status gd__file_create(gd_ctx *ctx, const char *path, gd_file_writer *writer);
/* Appends bytes, in as many pieces as it takes. */
GD_NODISCARD gd_status gd__file_write(gd_file_writer *writer, const void *data, size_t size);
/* Replaces the old file and ends the writer, also on failure. */
GD_NODISCARD gd_status gd__file_commit(gd_file_writer *writer);
/* Removes the temporary file and ends the writer; harmless on one that has ended. */
void gd__file_discard(gd_file_writer *writer);

/* ---- a file that several processes write: one creates it, and commits it when all others have finished ---- */

#define GD_FILE_TEMP_NAME 80
/* The temporary name in its folder, followed by zeros. */
void gd__file_temp_name(const gd_file_writer *writer, char out[GD_FILE_TEMP_NAME]);
/* A writer at the start of a file that a different process creates for the same path.  IO if there is no such file. */
GD_NODISCARD gd_status gd__file_join(gd_ctx *ctx, const char *path, const char *temp_name,
                                     gd_file_writer *writer);
/* Continues without writing, because other processes write. */
GD_NODISCARD gd_status gd__file_pass(gd_file_writer *writer, uint64_t bytes);
/* Syncs its data to the disk, unless there is an error already, which is returned; ends the writer. */
GD_NODISCARD gd_status gd__file_leave(gd_file_writer *writer, gd_status status);

typedef struct gd_file_reader {
    gd_ctx *ctx;
    const char *path; /* borrowed: must outlive the reader */
    int fd;           /* -1: closed */
    uint64_t size;    /* when it was opened */
    uint64_t position;
} gd_file_reader;

/* Opens a file of at most `limit` bytes for reading; a larger one is FORMAT. */
GD_NODISCARD gd_status gd__file_open(gd_ctx *ctx, const char *path, uint64_t limit, gd_file_reader *reader);
/* Reads exactly `size` bytes; FORMAT when the file ends before. */
GD_NODISCARD gd_status gd__file_read(gd_file_reader *reader, void *out, size_t size);
/* Skips bytes, without reading them if the operations can. */
GD_NODISCARD gd_status gd__file_skip(gd_file_reader *reader, uint64_t bytes);
/* Goes to a byte of the file, on or back. */
GD_NODISCARD gd_status gd__file_seek(gd_file_reader *reader, uint64_t position);
/* FORMAT when there are bytes left. */
GD_NODISCARD gd_status gd__file_at_end(gd_file_reader *reader);
/* Harmless on a reader that is closed or failed to open. */
void gd__file_close(gd_file_reader *reader);

/* A whole file of at most `limit` bytes.  *data is new: gd__free(ctx, *data, *size). */
GD_NODISCARD gd_status gd__file_read_all(gd_ctx *ctx, const char *path, uint64_t limit, void **data,
                                         size_t *size);

/* ---- the elements of a tensor as bytes ---- */

typedef struct gd_bytes {
    const void *data;
    size_t size;
    void *scratch; /* a copy made for a view or a tensor on a GPU, else NULL */
} gd_bytes;

/* Row-major elements: the tensor's memory if it is row-major, a copy otherwise. */
GD_NODISCARD gd_status gd__bytes_of(const gd_tensor *t, gd_bytes *bytes);
void gd__bytes_free(gd_ctx *ctx, gd_bytes *bytes);

/* Bytes of a bool other than 0 and 1 come from foreign files: every one that is set becomes 1. */
void gd__normalise_bools(void *data, size_t size);

#endif
