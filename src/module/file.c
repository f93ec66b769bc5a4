/* Durable writes and bounded reads; see file.h. */
#include "module/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEMP_TRIES     100
#define TEMP_NAME_SIZE 80
#define PIECE          ((size_t)1 << 30) /* the most one read or write asks for */

/* IO with the path, what was tried and what the system said. */
static gd_status io_error(gd_ctx *ctx, const char *verb, const char *path, const char *action, int code)
{
    char text[128];
    if (strerror_r(code, text, sizeof text) != 0) snprintf(text, sizeof text, "error %d", code);
    return gd_fail(ctx, GD_IO, "%s '%s': cannot %s: %s", verb, path, action, text);
}

static int open_file(gd_ctx *ctx, const char *path, int flags, unsigned mode)
{
    int fd;
    do fd = ctx->files.open(ctx->files.user, path, flags, mode);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static int sync_file(gd_ctx *ctx, int fd)
{
    int failed;
    do failed = ctx->files.sync(ctx->files.user, fd);
    while (failed && errno == EINTR);
    return failed;
}

static int rename_file(gd_ctx *ctx, const char *from, const char *to)
{
    int failed;
    do failed = ctx->files.rename(ctx->files.user, from, to);
    while (failed && errno == EINTR);
    return failed;
}

/* A close that was interrupted has closed (Linux): trying again could close another thread's file. */
static int close_file(gd_ctx *ctx, int *fd)
{
    int failed = *fd >= 0 ? ctx->files.close(ctx->files.user, *fd) : 0;
    *fd = -1;
    return failed && errno != EINTR ? -1 : 0;
}

/* ---- writing ---- */

static uint64_t random_bits(const void *address)
{
    uint64_t bits;
    if (getentropy(&bits, sizeof bits) == 0) return bits;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_nsec << 32) ^ (uint64_t)now.tv_sec ^ (uint64_t)(uintptr_t)address;
}

/* Opens a new file in the folder of writer->path.  Its name does not grow with the target's, which may be as
 * long as the file system allows.  writer->temp holds the folder ("" or ending in '/') on entry. */
static gd_status open_temp(gd_file_writer *writer)
{
    gd_ctx *ctx = writer->ctx;
    char *name = writer->temp + strlen(writer->temp);
    for (int attempt = 0; attempt < TEMP_TRIES; attempt++) {
        snprintf(name, TEMP_NAME_SIZE, ".gradus-%ld-%d-%016" PRIx64 ".tmp", (long)getpid(), attempt,
                 random_bits(writer));
        writer->fd = open_file(ctx, writer->temp, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (writer->fd >= 0) return GD_OK;
        if (errno != EEXIST) break;
    }
    return io_error(ctx, "save", writer->path, "make a temporary file beside it", errno);
}

gd_status gd__file_create(gd_ctx *ctx, const char *path, gd_file_writer *writer)
{
    *writer = (gd_file_writer){.ctx = ctx, .path = path, .fd = -1, .folder = -1};
    if (!path || !*path) return gd_fail(ctx, GD_ARGUMENT, "save: no path given");
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash + 1 - path) : 0;
    writer->temp_size = folder + TEMP_NAME_SIZE;
    writer->temp = gd__alloc(ctx, writer->temp_size);
    if (!writer->temp) return GD_NOMEM;
    memcpy(writer->temp, path, folder);
    writer->temp[folder] = 0;
    gd_status status = GD_OK;
    writer->folder = open_file(ctx, folder ? writer->temp : ".", O_RDONLY | O_DIRECTORY, 0);
    if (writer->folder < 0)
        status = io_error(ctx, "save", path, "open its folder", errno);
    else
        status = open_temp(writer);
    if (!status) return GD_OK;
    close_file(ctx, &writer->folder);
    gd__free(ctx, writer->temp, writer->temp_size);
    writer->temp = NULL;
    return status;
}

gd_status gd__file_write(gd_file_writer *writer, const void *data, size_t size)
{
    gd_ctx *ctx = writer->ctx;
    const char *next = data;
    while (size) {
        int64_t done = ctx->files.write(ctx->files.user, writer->fd, next, size < PIECE ? size : PIECE);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return io_error(ctx, "save", writer->path, "write", done ? errno : EIO);
        next += done;
        size -= (size_t)done;
    }
    return GD_OK;
}

gd_status gd__file_commit(gd_file_writer *writer)
{
    gd_ctx *ctx = writer->ctx;
    gd_status status = GD_OK;
    if (sync_file(ctx, writer->fd))
        status = io_error(ctx, "save", writer->path, "write to the disk", errno);
    else if (close_file(ctx, &writer->fd))
        status = io_error(ctx, "save", writer->path, "close", errno);
    else if (rename_file(ctx, writer->temp, writer->path))
        status = io_error(ctx, "save", writer->path, "put the new file in place", errno);
    if (status) {
        gd__file_discard(writer);
        return status;
    }
    gd__free(ctx, writer->temp, writer->temp_size);
    writer->temp = NULL;
    /* a file system that cannot sync folders says EINVAL: nothing more can be done there */
    if (sync_file(ctx, writer->folder) && errno != EINVAL)
        status = io_error(ctx, "save", writer->path, "make the new file in place durable", errno);
    close_file(ctx, &writer->folder);
    return status;
}

void gd__file_discard(gd_file_writer *writer)
{
    gd_ctx *ctx = writer->ctx;
    close_file(ctx, &writer->fd);
    if (writer->temp) {
        (void)ctx->files.unlink(ctx->files.user, writer->temp);
        gd__free(ctx, writer->temp, writer->temp_size);
        writer->temp = NULL;
    }
    close_file(ctx, &writer->folder);
}

/* ---- reading ---- */

gd_status gd__file_open(gd_ctx *ctx, const char *path, uint64_t limit, gd_file_reader *reader)
{
    *reader = (gd_file_reader){.ctx = ctx, .path = path, .fd = -1};
    if (!path || !*path) return gd_fail(ctx, GD_ARGUMENT, "load: no path given");
    /* without O_NONBLOCK, opening a pipe would wait for a writer */
    reader->fd = open_file(ctx, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (reader->fd < 0) return io_error(ctx, "load", path, "open", errno);
    int64_t size;
    do size = ctx->files.size(ctx->files.user, reader->fd);
    while (size < 0 && errno == EINTR);
    gd_status status = GD_OK;
    if (size < 0)
        status = io_error(ctx, "load", path, "find its size", errno);
    else if ((uint64_t)size > limit)
        status = gd_fail(ctx, GD_FORMAT, "load '%s': %" PRId64 " bytes, at most %" PRIu64 " are read", path,
                         size, limit);
    reader->size = (uint64_t)size;
    if (status) gd__file_close(reader);
    return status;
}

gd_status gd__file_read(gd_file_reader *reader, void *out, size_t size)
{
    gd_ctx *ctx = reader->ctx;
    char *next = out;
    while (size) {
        int64_t got = ctx->files.read(ctx->files.user, reader->fd, next, size < PIECE ? size : PIECE);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return io_error(ctx, "load", reader->path, "read", errno);
        if (got == 0)
            return gd_fail(ctx, GD_FORMAT,
                           "load '%s': the file ends at byte %" PRIu64 ", %zu more are needed", reader->path,
                           reader->position, size);
        next += got;
        size -= (size_t)got;
        reader->position += (uint64_t)got;
    }
    return GD_OK;
}

gd_status gd__file_at_end(gd_file_reader *reader)
{
    gd_ctx *ctx = reader->ctx;
    char byte;
    int64_t got;
    do got = ctx->files.read(ctx->files.user, reader->fd, &byte, 1);
    while (got < 0 && errno == EINTR);
    if (got < 0) return io_error(ctx, "load", reader->path, "read", errno);
    if (got == 0) return GD_OK;
    return gd_fail(ctx, GD_FORMAT, "load '%s': bytes follow the end of the data at byte %" PRIu64,
                   reader->path, reader->position);
}

void gd__file_close(gd_file_reader *reader) { close_file(reader->ctx, &reader->fd); }

gd_status gd__file_read_all(gd_ctx *ctx, const char *path, uint64_t limit, void **data, size_t *size)
{
    *data = NULL;
    *size = 0;
    gd_file_reader reader;
    gd_status status = gd__file_open(ctx, path, limit < SIZE_MAX ? limit : SIZE_MAX, &reader);
    if (status) return status;
    size_t bytes = (size_t)reader.size;
    void *block = gd__alloc(ctx, bytes);
    if (!block) status = GD_NOMEM;
    if (!status) status = gd__file_read(&reader, block, bytes);
    if (!status) status = gd__file_at_end(&reader);
    gd__file_close(&reader);
    if (status) {
        gd__free(ctx, block, bytes);
        return status;
    }
    *data = block;
    *size = bytes;
    return GD_OK;
}
