/* Durable writes and bounded reads; see file.h. */
#include "file/file_internal.h"

#include "base/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TEMP_TRIES 100
#define NAMES      4096              /* names of a folder that a save checks for leftovers, at most */
#define LINKS      40                /* links followed, at most, as in Linux */
#define PIECE      ((size_t)1 << 30) /* size of one read or write, at most */

/* IO with the path, the operation and the system's message. */
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

/* ---- resolving paths ---- */

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Replaces path by the target of the link at its end; false: too long. */
static bool follow(char path[GD_FILE_PATH], const char *link, size_t length)
{
    const char *slash = strrchr(path, '/');
    size_t folder = slash && link[0] != '/' ? (size_t)(slash + 1 - path) : 0;
    if (folder + length >= GD_FILE_PATH) return false;
    memcpy(path + folder, link, length);
    path[folder + length] = 0;
    return true;
}

bool gd__file_target(const char *path, char out[GD_FILE_PATH])
{
    char link[GD_FILE_PATH], before[GD_FILE_PATH];
    struct stat info;
    size_t length = strlen(path);
    if (length >= GD_FILE_PATH) return false;
    memcpy(out, path, length + 1);
    for (int i = 0; i < LINKS; i++) {
        ssize_t size = readlink(out, link, sizeof link);
        if (size <= 0 || (size_t)size >= sizeof link) return size < 0;
        memcpy(before, out, strlen(out) + 1);
        if (!follow(out, link, (size_t)size)) return false;
        /* links in /proc are not real paths: then the path itself is used */
        if (stat(before, &info) == 0 && !same_file(before, out)) {
            memcpy(out, before, strlen(before) + 1);
            return true;
        }
    }
    return false;
}

/* ---- temporary files ---- */

static uint64_t random_bits(const void *address)
{
    uint64_t bits;
    if (getentropy(&bits, sizeof bits) == 0) return bits;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_nsec << 32) ^ (uint64_t)now.tv_sec ^ (uint64_t)(uintptr_t)address;
}

/* The process in the name of a temporary file; 0: it is none. */
static pid_t maker_of(const char *name)
{
    long pid = 0;
    int attempt = 0, end = 0;
    uint64_t bits;
    if (sscanf(name, ".gradus-%ld-%d-%16" SCNx64 ".tmp%n", &pid, &attempt, &bits, &end) != 3 || !end ||
        name[end] || pid <= 0 || pid > INT_MAX)
        return 0;
    return (pid_t)pid;
}

/* Removes a temporary file that is not locked.  The process number alone is not enough: on a shared disk the process may run on
 * a different machine, but then it holds the lock. */
static void remove_left_over(int folder, const char *name)
{
    struct stat info;
    int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) return;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(folder, name, 0);
    (void)close(fd);
}

/* Only the first names of a large folder are checked, to keep saves fast. */
static void remove_left_overs(const char *folder)
{
    DIR *dir = opendir(*folder ? folder : ".");
    if (!dir) return;
    struct dirent *entry;
    for (int i = 0; i < NAMES && (entry = readdir(dir)); i++) {
        pid_t pid = maker_of(entry->d_name);
        if (pid && kill(pid, 0) != 0 && errno == ESRCH) remove_left_over(dirfd(dir), entry->d_name);
    }
    (void)closedir(dir);
}

/* Locks a new file.  False: a concurrent cleanup has removed it. */
static bool lock_temp(int fd)
{
    struct stat info;
    /* a file system without locks: its leftovers stay */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    return fstat(fd, &info) != 0 || info.st_nlink > 0;
}

/* Opens a new file in the folder of writer->target.  Its name does not grow with the target's, which may be as
 * long as the file system allows.  writer->temp holds the folder ("" or ending in '/') on entry. */
static gd_status open_temp(gd_file_writer *writer)
{
    gd_ctx *ctx = writer->ctx;
    char *name = writer->temp + strlen(writer->temp);
    for (int attempt = 0; attempt < TEMP_TRIES; attempt++) {
        snprintf(name, GD_FILE_TEMP_NAME, ".gradus-%ld-%d-%016" PRIx64 ".tmp", (long)getpid(), attempt,
                 random_bits(writer));
        writer->fd = open_file(ctx, writer->temp, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (writer->fd >= 0 && lock_temp(writer->fd)) return GD_OK;
        if (writer->fd < 0 && errno != EEXIST) break;
        if (writer->fd >= 0) close_file(ctx, &writer->fd);
        errno = EEXIST;
    }
    return io_error(ctx, "save", writer->path, "make a temporary file beside it", errno);
}

/* Gives the new file owner and permissions of the one it replaces, before there is anything in it.  If the group cannot
 * be kept, a different group must not get more than the permissions for others. */
static void keep_permissions(int fd, const struct stat *old)
{
    struct stat now;
    mode_t mode = old->st_mode & 0777;
    if (fstat(fd, &now) != 0) return;
    bool kept = (now.st_uid == old->st_uid && now.st_gid == old->st_gid) ||
                fchown(fd, old->st_uid, old->st_gid) == 0 || fchown(fd, (uid_t)-1, old->st_gid) == 0;
    if (!kept && now.st_gid != old->st_gid) mode = (mode_t)((mode & 0707) | (mode & 07) << 3);
    (void)fchmod(fd, mode);
}

/* ---- writing ---- */

/* The folder, then the new file in it. */
static gd_status open_writer(gd_file_writer *writer, size_t folder)
{
    gd_ctx *ctx = writer->ctx;
    struct stat old;
    bool replaces = stat(writer->target, &old) == 0;
    if (replaces && !S_ISREG(old.st_mode))
        return S_ISDIR(old.st_mode)
                   ? io_error(ctx, "save", writer->path, "put the new file in place", EISDIR)
                   : gd_fail(ctx, GD_IO, "save '%s': cannot replace a file that is not regular",
                             writer->path);
    writer->folder = open_file(ctx, folder ? writer->temp : ".", O_RDONLY | O_DIRECTORY, 0);
    if (writer->folder < 0) return io_error(ctx, "save", writer->path, "open its folder", errno);
    remove_left_overs(writer->temp);
    gd_status status = open_temp(writer);
    if (!status && replaces) keep_permissions(writer->fd, &old);
    return status;
}

static void free_names(gd_file_writer *writer)
{
    gd__free(writer->ctx, writer->temp, writer->temp_size);
    gd__strfree(writer->ctx, writer->target);
    writer->temp = writer->target = NULL;
}

gd_status gd__file_create(gd_ctx *ctx, const char *path, gd_file_writer *writer)
{
    *writer = (gd_file_writer){.ctx = ctx, .path = path, .fd = -1, .folder = -1};
    char target[GD_FILE_PATH];
    if (!path || !*path) return gd_fail(ctx, GD_ARGUMENT, "save: no path given");
    if (!gd__file_target(path, target))
        return io_error(ctx, "save", path, "follow it", strlen(path) < GD_FILE_PATH ? ELOOP : ENAMETOOLONG);
    const char *slash = strrchr(target, '/');
    size_t folder = slash ? (size_t)(slash + 1 - target) : 0;
    writer->temp_size = folder + GD_FILE_TEMP_NAME;
    writer->temp = gd__alloc(ctx, writer->temp_size);
    writer->target = writer->temp ? gd__strdup(ctx, target) : NULL;
    gd_status status = writer->target ? GD_OK : GD_NOMEM;
    if (!status) {
        memcpy(writer->temp, target, folder);
        writer->temp[folder] = 0;
        status = open_writer(writer, folder);
    }
    if (!status) return GD_OK;
    close_file(ctx, &writer->folder);
    free_names(writer);
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
    /* renamed before it is closed, which gives up the lock; once synced, a close has nothing to report */
    if (sync_file(ctx, writer->fd))
        status = io_error(ctx, "save", writer->path, "write to the disk", errno);
    else if (rename_file(ctx, writer->temp, writer->target))
        status = io_error(ctx, "save", writer->path, "put the new file in place", errno);
    if (status) {
        gd__file_discard(writer);
        return status;
    }
    close_file(ctx, &writer->fd);
    free_names(writer);
    /* a file system that cannot sync folders says EINVAL: nothing more can be done there */
    if (sync_file(ctx, writer->folder) && errno != EINVAL)
        status = io_error(ctx, "save", writer->path, "make the new file in place durable", errno);
    close_file(ctx, &writer->folder);
    return status;
}

void gd__file_discard(gd_file_writer *writer)
{
    gd_ctx *ctx = writer->ctx;
    /* removed before the lock is given up */
    if (writer->temp) (void)ctx->files.unlink(ctx->files.user, writer->temp);
    close_file(ctx, &writer->fd);
    free_names(writer);
    close_file(ctx, &writer->folder);
}

/* ---- several writers ---- */

void gd__file_temp_name(const gd_file_writer *writer, char out[GD_FILE_TEMP_NAME])
{
    const char *slash = strrchr(writer->temp, '/');
    memset(out, 0, GD_FILE_TEMP_NAME);
    (void)snprintf(out, GD_FILE_TEMP_NAME, "%s", slash ? slash + 1 : writer->temp);
}

gd_status gd__file_join(gd_ctx *ctx, const char *path, const char *temp_name, gd_file_writer *writer)
{
    char temp[GD_FILE_PATH + GD_FILE_TEMP_NAME];
    *writer = (gd_file_writer){.ctx = ctx, .path = path, .fd = -1, .folder = -1};
    if (!gd__file_target(path, temp)) return io_error(ctx, "save", path, "follow it", ELOOP);
    char *slash = strrchr(temp, '/');
    (void)snprintf(slash ? slash + 1 : temp, GD_FILE_TEMP_NAME, "%s", temp_name);
    writer->fd = open_file(ctx, temp, O_WRONLY, 0);
    if (writer->fd >= 0) return GD_OK;
    if (errno != ENOENT)
        return io_error(ctx, "save", path, "open the file that a different process has begun", errno);
    return gd_fail(
        ctx, GD_IO,
        "save '%s': the file that a different process has begun is not visible here: its folder must be the "
        "same for all of them",
        path);
}

gd_status gd__file_pass(gd_file_writer *writer, uint64_t bytes)
{
    gd_ctx *ctx = writer->ctx;
    if (!bytes) return GD_OK;
    if (ctx->files.skip && !ctx->files.skip(ctx->files.user, writer->fd, (int64_t)bytes)) return GD_OK;
    return io_error(ctx, "save", writer->path, "write in its place", ctx->files.skip ? errno : ENOSYS);
}

gd_status gd__file_leave(gd_file_writer *writer, gd_status status)
{
    if (!status && sync_file(writer->ctx, writer->fd))
        status = io_error(writer->ctx, "save", writer->path, "write to the disk", errno);
    close_file(writer->ctx, &writer->fd);
    return status;
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

gd_status gd__file_skip(gd_file_reader *reader, uint64_t bytes)
{
    gd_ctx *ctx = reader->ctx;
    if (ctx->files.skip && bytes <= INT64_MAX) {
        if (bytes && ctx->files.skip(ctx->files.user, reader->fd, (int64_t)bytes))
            return io_error(ctx, "load", reader->path, "pass over a part of it", errno);
        reader->position += bytes;
        return GD_OK;
    }
    char piece[16384];
    gd_status status = GD_OK;
    for (uint64_t left = bytes; left && !status;) {
        size_t size = left < sizeof piece ? (size_t)left : sizeof piece;
        status = gd__file_read(reader, piece, size);
        left -= size;
    }
    return status;
}

gd_status gd__file_seek(gd_file_reader *reader, uint64_t position)
{
    gd_ctx *ctx = reader->ctx;
    if (position >= reader->position) return gd__file_skip(reader, position - reader->position);
    int64_t back = -(int64_t)(reader->position - position);
    if (!ctx->files.skip || ctx->files.skip(ctx->files.user, reader->fd, back))
        return io_error(ctx, "load", reader->path, "go back in it", ctx->files.skip ? errno : ENOSYS);
    reader->position = position;
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
