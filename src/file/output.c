/* Files that are written whole or not at all; see output.h. */
#include "file/output.h"
#include "file/file_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

gd_status gd__io_error(gd_ctx *ctx, const char *path, const char *action, int code)
{
    char text[128];
    if (strerror_r(code, text, sizeof text) != 0) (void)snprintf(text, sizeof text, "error %d", code);
    return gd_fail(ctx, GD_IO, "%s: cannot %s: %s", path, action, text);
}

/* Must the path be written in place?  Devices and pipes, and whatever /dev and /proc lead to. */
static bool written_directly(const char *path)
{
    struct stat info;
    if (!strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6)) return true;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

static gd_status write_directly(gd_ctx *ctx, const char *path, const char *data, size_t size)
{
    int fd;
    do fd = ctx->files.open(ctx->files.user, path, O_WRONLY | O_NOCTTY, 0);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) return gd__io_error(ctx, path, "open", errno);
    gd_status status = GD_OK;
    while (size && !status) {
        int64_t put = ctx->files.write(ctx->files.user, fd, data, size < INT_MAX ? size : INT_MAX);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) {
            status = gd__io_error(ctx, path, "write", errno);
        } else {
            data += put;
            size -= (size_t)put;
        }
    }
    if (ctx->files.close(ctx->files.user, fd) && errno != EINTR && !status)
        status = gd__io_error(ctx, path, "write", errno);
    return status;
}

static gd_status replace_file(gd_ctx *ctx, const char *path, const void *data, size_t size)
{
    gd_file_writer writer;
    gd_status status = gd__file_create(ctx, path, &writer);
    if (status) return status;
    status = gd__file_write(&writer, data, size);
    if (!status) return gd__file_commit(&writer);
    gd__file_discard(&writer);
    return status;
}

gd_status gd__write_output(gd_ctx *ctx, const char *path, const void *data, size_t size)
{
    if (!*path) return gd_fail(ctx, GD_IO, "no file name given for the output");
    return written_directly(path) ? write_directly(ctx, path, data, size)
                                  : replace_file(ctx, path, data, size);
}

gd_status gd__check_output(gd_ctx *ctx, const char *path)
{
    struct stat info;
    if (!*path) return gd_fail(ctx, GD_IO, "no file name given for the output");
    if (stat(path, &info) == 0) {
        if (S_ISDIR(info.st_mode)) return gd__io_error(ctx, path, "write", EISDIR);
        if (!S_ISREG(info.st_mode))
            return access(path, W_OK) == 0 ? GD_OK : gd__io_error(ctx, path, "write", errno);
    }
    char folder[GD_FILE_PATH];
    if (!gd__file_target(path, folder))
        return gd__io_error(ctx, path, "write", strlen(path) < sizeof folder ? ELOOP : ENAMETOOLONG);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    else
        memcpy(folder, ".", 2);
    if (stat(folder, &info) != 0) return gd__io_error(ctx, path, "write", errno);
    if (!S_ISDIR(info.st_mode)) return gd__io_error(ctx, path, "write", ENOTDIR);
    return access(folder, W_OK | X_OK) == 0 ? GD_OK : gd__io_error(ctx, path, "write", errno);
}

gd_status gd__check_file(gd_ctx *ctx, const char *path)
{
    gd_status status = gd__check_output(ctx, path);
    if (!status && written_directly(path))
        status = gd_fail(ctx, GD_IO, "%s: cannot write: not a regular file", path);
    return status;
}
