/* Whole files in; see input.h. */
#include "file/input.h"
#include "base/spelling.h"
#include "base/observer.h"
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_BLOCK ((size_t)1 << 16)
#define AT_A_TIME   ((size_t)1 << 24) /* between reads of the clock */

/* ---- limits ---- */

uint64_t gd__input_limit(const gd_ctx *ctx)
{
    if (ctx->input_limit) return ctx->input_limit;
    uint64_t memory = gd__memory_bytes();
    return memory ? memory / 4 : UINT64_MAX;
}

gd_status gd__input_too_large(gd_ctx *ctx, const char *source, const char *verb, uint64_t limit)
{
    bool option = limit == gd__input_limit(ctx);
    return gd_fail(ctx, GD_FORMAT, "%s: %s more than %llu bytes%s", source, verb, (unsigned long long)limit,
                   option ? gd__spell_of(ctx, "; {max_bytes} allows more") : "");
}

gd_status gd__input_fits(gd_ctx *ctx, const char *path)
{
    struct stat about;
    uint64_t limit = gd__input_limit(ctx);
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode) || (uint64_t)about.st_size <= limit) return GD_OK;
    return gd__input_too_large(ctx, path, "has", limit);
}

/* ---- reading ---- */

bool gd__is_gzip(const void *data, size_t size)
{
    const unsigned char *b = data;
    return size >= 2 && b[0] == 0x1F && b[1] == 0x8B;
}

static bool is_standard(const char *path, const gd_input *how)
{
    return how && how->standard && !strcmp(path, "-");
}

const char *gd__input_name(const char *path, const gd_input *how)
{
    return is_standard(path, how) ? "standard input" : path;
}

const char *gd__input_label(const char *source)
{
    const char *name = strrchr(source, '/');
    return name ? name + 1 : source;
}

static int open_input(gd_ctx *ctx, const char *path, const gd_input *how)
{
    int fd;
    if (is_standard(path, how)) return STDIN_FILENO;
    do fd = ctx->files.open(ctx->files.user, path, O_RDONLY | O_NOCTTY, 0);
    while (fd < 0 && errno == EINTR);
    return fd;
}

/* Reads to the end into a block that doubles. */
static gd_status read_all(gd_ctx *ctx, const char *path, const gd_input *how, int fd, int64_t known,
                          uint64_t limit, gd_need_fn *look, char **data, size_t *size, size_t *block)
{
    const gd_observer *observer = how ? how->observer : NULL;
    const char *label = gd__input_label(path);
    uint64_t total = 0;
    for (bool first = true;; first = false) {
        gd__progress(observer, label, "MB", (int64_t)(*size >> 20), known > 0 ? known >> 20 : 0, NAN);
        if (gd__is_interrupted(observer)) return gd_fail(ctx, GD_INTERRUPTED, "%s: interrupted", path);
        if (!gd__grow(ctx, data, block, *size ? *size + 2 : FIRST_BLOCK)) return GD_NOMEM;
        size_t room = *block - *size - 1;
        int64_t got = ctx->files.read(ctx->files.user, fd, *data + *size,
                                      room < AT_A_TIME ? room : AT_A_TIME);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return gd__io_error(ctx, path, "read", errno);
        if (got == 0) break;
        *size += (size_t)got;
        if (*size > limit) return gd__input_too_large(ctx, path, "has", limit);
        gd_status status = first && look && !gd__is_gzip(*data, *size) ? look(ctx, path, *data, *size, &total)
                                                                       : GD_OK;
        if (status) return status;
    }
    (*data)[*size] = 0;
    return GD_OK;
}

gd_status gd__read_input(gd_ctx *ctx, const char *path, const gd_input *how, uint64_t limit, gd_need_fn *look,
                         char **data, size_t *size, size_t *block)
{
    *data = NULL;
    *size = *block = 0;
    if (gd__input_limit(ctx) < limit) limit = gd__input_limit(ctx);
    if (!*path) return gd_fail(ctx, GD_IO, "no file name given");
    int fd = open_input(ctx, path, how);
    if (fd < 0) return gd__io_error(ctx, path, "open", errno);
    bool standard = is_standard(path, how);
    path = gd__input_name(path, how);
    /* one block of the right size for an ordinary file */
    int64_t known = ctx->files.size(ctx->files.user, fd);
    if (known > 0 && (uint64_t)known > limit) {
        if (!standard) (void)ctx->files.close(ctx->files.user, fd);
        return gd__input_too_large(ctx, path, "has", limit);
    }
    if (known > 0 && (*data = gd__alloc(ctx, (size_t)known + 2))) *block = (size_t)known + 2;
    gd_status status = gd_error(ctx) ? gd_error(ctx)
                                     : read_all(ctx, path, how, fd, known, limit, look, data, size, block);
    gd__progress_end(how ? how->observer : NULL);
    if (!standard) (void)ctx->files.close(ctx->files.user, fd);
    if (status) {
        gd__free(ctx, *data, *block);
        *data = NULL;
        *size = *block = 0;
    }
    return status;
}
