/* What the file tests share: a folder of their own, file operations that fail on demand, an allocator that
 * counts. */
#ifndef GD_TESTS_FILE_SUPPORT_H
#define GD_TESTS_FILE_SUPPORT_H

#include "base/ctx.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/support.h"

/* ---- a folder ---- */

static char test_folder[64];

static inline int make_folder(void **state)
{
    (void)state;
    strcpy(test_folder, "/tmp/gradus_files_XXXXXX");
    return mkdtemp(test_folder) ? 0 : -1;
}

/* The path of a name in the folder; the last four stay valid. */
static inline const char *in_folder(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", test_folder, name);
    return path;
}

/* Removes everything in the folder whose name begins with `prefix`; returns how many there were. */
static inline int sweep(const char *prefix)
{
    int found = 0;
    DIR *folder = opendir(test_folder);
    for (struct dirent *e; folder && (e = readdir(folder));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
            strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        char path[512];
        snprintf(path, sizeof path, "%s/%s", test_folder, e->d_name);
        if (remove(path) == 0) found++;
    }
    if (folder) closedir(folder);
    return found;
}

static inline int temporary_files(void) { return sweep(".gradus-"); }

static inline int remove_folder(void **state)
{
    (void)state;
    sweep("");
    return rmdir(test_folder);
}

static inline void put_file(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* The whole file; free() it. */
static inline unsigned char *get_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = (size_t)ftell(f);
    rewind(f);
    unsigned char *data = malloc(*size + 1);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, f), *size);
    fclose(f);
    return data;
}

/* ---- file operations that fail ---- */

typedef struct faults {
    int calls;
    int at;        /* the call that fails, counted from 1; 0: none */
    bool lasting;  /* and every one after it */
    int error;     /* errno; 0: reads and writes move one byte, the others work */
    int open;      /* files that are open now */
    char log[512]; /* first letters of the operations, in order */
} faults;

static inline bool fault(faults *f, char letter)
{
    if ((size_t)f->calls < sizeof f->log - 1) f->log[f->calls] = letter;
    f->calls++;
    return f->at && (f->calls == f->at || (f->lasting && f->calls > f->at));
}

#define FAIL_IF_DUE(letter)      \
    faults *f = user;            \
    bool due = fault(f, letter); \
    if (due && f->error) {       \
        errno = f->error;        \
        return -1;               \
    }

static inline int faulty_open(void *user, const char *path, int flags, unsigned mode)
{
    FAIL_IF_DUE('o')
    int fd = gd__posix_files.open(NULL, path, flags, mode);
    if (fd >= 0) f->open++;
    return fd;
}

static inline int64_t faulty_read(void *user, int fd, void *data, size_t size)
{
    FAIL_IF_DUE('r')
    return gd__posix_files.read(NULL, fd, data, due && size ? 1 : size);
}

static inline int64_t faulty_write(void *user, int fd, const void *data, size_t size)
{
    FAIL_IF_DUE('w')
    return gd__posix_files.write(NULL, fd, data, due && size ? 1 : size);
}

static inline int64_t faulty_size(void *user, int fd)
{
    FAIL_IF_DUE('z')
    return gd__posix_files.size(NULL, fd);
}

static inline int faulty_sync(void *user, int fd)
{
    FAIL_IF_DUE('s')
    return gd__posix_files.sync(NULL, fd);
}

/* As on Linux: a close that reports an error has closed. */
static inline int faulty_close(void *user, int fd)
{
    ((faults *)user)->open--;
    gd__posix_files.close(NULL, fd);
    FAIL_IF_DUE('c')
    return 0;
}

static inline int faulty_rename(void *user, const char *from, const char *to)
{
    FAIL_IF_DUE('n')
    return gd__posix_files.rename(NULL, from, to);
}

static inline int faulty_unlink(void *user, const char *path)
{
    FAIL_IF_DUE('u')
    return gd__posix_files.unlink(NULL, path);
}

static inline gd_file_ops faulty_files(faults *f)
{
    return (gd_file_ops){.open = faulty_open,
                         .read = faulty_read,
                         .write = faulty_write,
                         .size = faulty_size,
                         .sync = faulty_sync,
                         .close = faulty_close,
                         .rename = faulty_rename,
                         .unlink = faulty_unlink,
                         .user = f};
}

/* ---- contexts ---- */

static inline gd_ctx *make_ctx(const gd_file_ops *files, memory *m)
{
    gd_options options = gd_options_default();
    options.files = files;
    options.threads = 1;
    if (m) {
        options.allocator = memory_allocator(m);
        options.pool = false;
    }
    return gd_ctx_new(&options);
}

#endif
