/* Compiled kernels on disk: the private folder, sealed files, limits. */
#include "base/kernel_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LEFTOVER 3600 /* seconds after which a file in the making is nobody's */
#define LONGEST  (16 << 20)

/* ---- digests: two lanes of multiply and rotate, mixed at the end of every piece ---- */

static uint64_t rotate(uint64_t x, int by) { return x << by | x >> (64 - by); }

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    x = (x ^ x >> 29) * 0xA0761D6478BD642Fu;
    return x ^ x >> 32;
}

void gd__digest_add(gd_digest *d, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t a = d->a ^ 0x9E3779B97F4A7C15u, b = d->b + (uint64_t)size;
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, size - i < 8 ? size - i : 8);
        a = rotate(a ^ word * 0x8EBC6AF09C88C6E3u, 29) * 0xE7037ED1A0B428DBu + b;
        b = rotate(b + (word ^ a), 37) * 0x589965CC75374CC3u;
    }
    d->a = mix(a + b);
    d->b = mix(b ^ rotate(d->a, 17));
}

void gd__digest_text(gd_digest *d, const char *text) { gd__digest_add(d, text, strlen(text) + 1); }

/* ---- the folder ---- */

static bool is_private(const char *folder)
{
    struct stat s;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return false;
    bool ours = fstat(fd, &s) == 0 && s.st_uid == geteuid() && !(s.st_mode & 077);
    close(fd);
    return ours;
}

/* Makes a folder and the one above it, if they are not there. */
static void make_folder(const char *folder)
{
    char above[GD_PATH];
    snprintf(above, sizeof above, "%s", folder);
    char *slash = strrchr(above, '/');
    if (slash && slash != above) {
        *slash = 0;
        mkdir(above, 0700);
    }
    mkdir(folder, 0700);
}

static bool name_folder(const gd_ctx *ctx, char folder[GD_PATH])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (ctx->cache_dir)
        n = *ctx->cache_dir ? snprintf(folder, GD_PATH, "%s", ctx->cache_dir) : -1;
    else if (cache && *cache == '/')
        n = snprintf(folder, GD_PATH, "%s/gradus", cache);
    else if (home && *home == '/')
        n = snprintf(folder, GD_PATH, "%s/.cache/gradus", home);
    if (n <= 0 || n >= GD_PATH - 64) return false; /* files have room */
    /* a slash at the end would follow a link */
    while (n > 1 && folder[n - 1] == '/') folder[--n] = 0;
    return true;
}

bool gd__cache_folder(const gd_ctx *ctx, char folder[GD_PATH])
{
    if (!name_folder(ctx, folder)) return false;
    if (access(folder, F_OK) && errno == ENOENT) make_folder(folder);
    return is_private(folder);
}

bool gd__cache_private(char folder[GD_PATH])
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(folder, GD_PATH, "%s/gradus-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp");
    return n < GD_PATH - 64 && mkdtemp(folder) != NULL;
}

void gd__cache_remove_private(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir));) unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    rmdir(folder);
}

/* ---- sealed files ---- */

typedef struct seal {
    char word[8];
    uint64_t length;
    gd_digest digest;
} seal;

static const char seal_word[8] = "gradus1";

/* A regular file of ours that only we can write, opened; -1 if it is not that. */
static int open_ours(const char *path, int flags, struct stat *s)
{
    int fd = open(path, flags | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return -1;
    if (fstat(fd, s) == 0 && S_ISREG(s->st_mode) && s->st_uid == geteuid() && !(s->st_mode & 022) &&
        s->st_size > 0 && s->st_size < LONGEST)
        return fd;
    close(fd);
    return -1;
}

static bool read_fully(int fd, void *data, size_t size)
{
    char *at = data;
    while (size) {
        ssize_t n = read(fd, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static bool write_fully(int fd, const void *data, size_t size)
{
    const char *at = data;
    while (size) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* The digest of the first `length` bytes. */
static bool digest_file(int fd, uint64_t length, gd_digest *digest)
{
    char block[16384];
    *digest = (gd_digest){0};
    while (length) {
        size_t n = length < sizeof block ? (size_t)length : sizeof block;
        if (!read_fully(fd, block, n)) return false;
        gd__digest_add(digest, block, n);
        length -= n;
    }
    return true;
}

bool gd__cache_intact(const char *path)
{
    struct stat s;
    seal found;
    gd_digest digest;
    int fd = open_ours(path, O_RDONLY, &s);
    if (fd < 0) return false;
    uint64_t size = (uint64_t)s.st_size, length = size - sizeof found;
    bool intact = size > sizeof found && digest_file(fd, length, &digest) &&
                  read_fully(fd, &found, sizeof found) && !memcmp(found.word, seal_word, sizeof found.word) &&
                  found.length == length && found.digest.a == digest.a && found.digest.b == digest.b;
    if (intact) (void)futimens(fd, NULL);
    close(fd);
    return intact;
}

bool gd__cache_seal(const char *path)
{
    struct stat s;
    seal new = {.length = 0};
    /* compilers follow the umask: make it ours alone before looking at it */
    if (chmod(path, 0600)) return false;
    int fd = open_ours(path, O_RDWR, &s);
    if (fd < 0) return false;
    memcpy(new.word, seal_word, sizeof new.word);
    new.length = (uint64_t)s.st_size;
    bool done = digest_file(fd, new.length, &new.digest) && write_fully(fd, &new, sizeof new);
    return close(fd) == 0 && done;
}

/* ---- limits ---- */

typedef struct census {
    int files;
    int64_t bytes;
    char oldest[256];
    struct timespec used;
} census;

static bool earlier(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/* Counts the kernels and finds the one used least recently; deletes leftovers on the way. */
static census take_census(DIR *dir)
{
    census all = {.files = 0};
    time_t now = time(NULL);
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name;
        struct stat s;
        if (fstatat(dirfd(dir), name, &s, AT_SYMLINK_NOFOLLOW) || S_ISDIR(s.st_mode)) continue;
        if (!strncmp(name, "tmp-", 4) && now - s.st_mtime > LEFTOVER) unlinkat(dirfd(dir), name, 0);
        if (strncmp(name, "gd-", 3) != 0) continue;
        if (!all.files++ || earlier(s.st_mtim, all.used)) {
            snprintf(all.oldest, sizeof all.oldest, "%s", name);
            all.used = s.st_mtim;
        }
        all.bytes += s.st_size;
    }
    return all;
}

void gd__cache_trim(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (int rounds = 0; rounds < GD_CACHE_FILES; rounds++) {
        census all = take_census(dir);
        if (all.files <= GD_CACHE_FILES && all.bytes <= GD_CACHE_BYTES) break;
        if (unlinkat(dirfd(dir), all.oldest, 0)) break;
    }
    closedir(dir);
}
