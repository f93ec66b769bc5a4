/* The POSIX file table. */
#include "base/ctx.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int posix_open(void *user, const char *path, int flags, unsigned mode)
{
    (void)user;
    return open(path, flags | O_CLOEXEC, (mode_t)mode);
}

static int64_t posix_read(void *user, int fd, void *data, size_t size)
{
    (void)user;
    return read(fd, data, size);
}

static int64_t posix_write(void *user, int fd, const void *data, size_t size)
{
    (void)user;
    return write(fd, data, size);
}

static int64_t posix_size(void *user, int fd)
{
    (void)user;
    struct stat info;
    return fstat(fd, &info) == 0 ? (int64_t)info.st_size : -1;
}

static int posix_sync(void *user, int fd)
{
    (void)user;
    return fsync(fd);
}

static int posix_close(void *user, int fd)
{
    (void)user;
    return close(fd);
}

static int posix_rename(void *user, const char *from, const char *to)
{
    (void)user;
    return rename(from, to);
}

static int posix_unlink(void *user, const char *path)
{
    (void)user;
    return unlink(path);
}

static int posix_skip(void *user, int fd, int64_t bytes)
{
    (void)user;
    return lseek(fd, (off_t)bytes, SEEK_CUR) < 0 ? -1 : 0;
}

const gd_file_ops gd__posix_files = {
    .open = posix_open,
    .read = posix_read,
    .write = posix_write,
    .size = posix_size,
    .sync = posix_sync,
    .close = posix_close,
    .rename = posix_rename,
    .unlink = posix_unlink,
    .skip = posix_skip,
};
