/* Compiled kernels on disk: the private folder, sealed files, limits. */
#define _GNU_SOURCE /* mkostemps */
#include "base/kernel_cache.h"

#include "base/safe_folder.h"
#include "base/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LEFTOVER 3600 /* seconds after which an unfinished file counts as abandoned, if there are no locks */
#define LONGEST  (16 << 20)
#define TRIES    10
#define NAMES    4096 /* most names of a folder that are checked for leftovers */
#define PASSING  "gradus-kernels-"

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
    if (n <= 0 || n >= GD_PATH - 64) return false; /* temporary files can be made */
    /* a slash at the end would follow a link */
    while (n > 1 && folder[n - 1] == '/') folder[--n] = 0;
    return true;
}

static DIR *list_folder(int folder)
{
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !dir) close(fd);
    return dir;
}

/* ---- files left by dead processes ----
 *
 * A lock ends with its process, however it dies, and works across machines and containers that share a disk, where process numbers
 * are meaningless. Without locks, the age of a file decides. */

/* Locks a new file.  False: a concurrent cleanup has removed it. */
static bool lock_new(int fd)
{
    struct stat s;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    return fstat(fd, &s) != 0 || s.st_nlink > 0;
}

/* If the file is ours and not in use, a descriptor that holds its lock, else -1. */
static int take_left_over(int folder, const char *name, int flags)
{
    struct stat s;
    int fd = openat(folder, name, flags | O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return -1;
    bool left = fstat(fd, &s) == 0 && s.st_uid == geteuid();
    if (left && flock(fd, LOCK_EX | LOCK_NB) != 0)
        left = errno != EWOULDBLOCK && time(NULL) - s.st_mtime > LEFTOVER;
    if (left) return fd;
    close(fd);
    return -1;
}

/* Objects whose source is missing or abandoned, and all other files without a lock. */
static void remove_left_over(int folder, const char *name)
{
    char source[256];
    size_t length = strlen(name);
    bool object = length > 3 && length < sizeof source && !strcmp(name + length - 3, ".so");
    if (object) snprintf(source, sizeof source, "%.*s.c", (int)length - 3, name);
    bool orphan = object && faccessat(folder, source, F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT;
    int fd = take_left_over(folder, object && !orphan ? source : name, 0);
    if (fd < 0) return;
    unlinkat(folder, name, 0);
    close(fd);
}

static void remove_left_overs(int folder)
{
    DIR *dir = list_folder(folder);
    struct dirent *entry;
    for (int i = 0; dir && i < NAMES && (entry = readdir(dir)); i++)
        if (!strncmp(entry->d_name, "tmp-", 4)) remove_left_over(folder, entry->d_name);
    if (dir) closedir(dir);
}

/* A temporary folder in a shared one: deletes only our files, and the folder if it is then empty. */
static void remove_passed(int where, const char *name)
{
    int fd = take_left_over(where, name, O_DIRECTORY);
    if (fd < 0) return;
    remove_left_overs(fd);
    unlinkat(where, name, AT_REMOVEDIR);
    close(fd);
}

static void remove_all_passed(const char *where)
{
    int folder = open(where, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = folder < 0 ? NULL : list_folder(folder);
    struct dirent *entry;
    for (int i = 0; dir && i < NAMES && (entry = readdir(dir)); i++)
        if (!strncmp(entry->d_name, PASSING, strlen(PASSING))) remove_passed(folder, entry->d_name);
    if (dir) closedir(dir);
    if (folder >= 0) close(folder);
}

/* ---- opening and closing ---- */

bool gd__cache_open(const gd_ctx *ctx, gd_cache *cache)
{
    cache->passing = false;
    if (!name_folder(ctx, cache->path)) return false;
    cache->fd = gd__open_safe_folder(cache->path);
    if (cache->fd >= 0) remove_left_overs(cache->fd);
    return cache->fd >= 0;
}

static bool make_passing(gd_cache *cache, const char *where)
{
    for (int i = 0; i < TRIES; i++) {
        int n = snprintf(cache->path, GD_PATH, "%s/" PASSING "XXXXXX", where);
        if (n >= GD_PATH - 64 || !mkdtemp(cache->path)) return false;
        cache->fd = gd__open_safe_folder(cache->path);
        if (cache->fd >= 0 && lock_new(cache->fd)) return true;
        if (cache->fd >= 0) close(cache->fd);
        rmdir(cache->path);
    }
    cache->fd = -1;
    return false;
}

bool gd__cache_open_passing(gd_cache *cache)
{
    const char *tmp = getenv("TMPDIR");
    bool own = tmp && *tmp == '/';
    cache->passing = true;
    if (own) remove_all_passed(tmp);
    if (own && make_passing(cache, tmp)) return true;
    remove_all_passed("/tmp");
    return make_passing(cache, "/tmp");
}

void gd__cache_close(gd_cache *cache)
{
    DIR *dir = cache->passing ? list_folder(cache->fd) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir));) unlinkat(cache->fd, entry->d_name, 0);
    if (dir) closedir(dir);
    if (cache->passing) rmdir(cache->path);
    close(cache->fd);
    cache->fd = -1;
}

int gd__cache_temporary(const gd_cache *cache, const char *ending, char path[GD_PATH + 16])
{
    for (int i = 0; i < TRIES; i++) {
        snprintf(path, GD_PATH + 16, "%s/tmp-XXXXXX%s", cache->path, ending);
        int fd = mkostemps(path, (int)strlen(ending), O_CLOEXEC);
        if (fd < 0 || lock_new(fd)) return fd;
        close(fd);
    }
    errno = EEXIST;
    return -1;
}

/* ---- sealed files ---- */

typedef struct seal {
    char word[8];
    uint64_t length;
    gd_digest digest, key;
} seal;

static const char seal_word[8] = "gradus2";

/* Opens a regular file that only we own and can write; -1 otherwise.  Opening a FIFO would wait for its other end. */
static int open_ours(const gd_cache *cache, const char *name, int flags, struct stat *s)
{
    int fd = openat(cache->fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
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

static bool same_digest(const gd_digest *x, const gd_digest *y) { return x->a == y->a && x->b == y->b; }

/* The digest of the next `length` bytes, which are also written to `copy` unless that is negative. */
static bool digest_file(int fd, uint64_t length, int copy, gd_digest *digest)
{
    char block[16384];
    *digest = (gd_digest){0};
    while (length) {
        size_t n = length < sizeof block ? (size_t)length : sizeof block;
        if (!read_fully(fd, block, n) || (copy >= 0 && !write_fully(copy, block, n))) return false;
        gd__digest_add(digest, block, n);
        length -= n;
    }
    return true;
}

/* The digest is of the copied bytes, so the file cannot change between the check and the use. */
static bool copy_checked(int fd, uint64_t size, const gd_digest *key, int copy)
{
    seal found;
    gd_digest digest;
    uint64_t length = size - sizeof found;
    return size > sizeof found && digest_file(fd, length, copy, &digest) &&
           read_fully(fd, &found, sizeof found) && !memcmp(found.word, seal_word, sizeof found.word) &&
           found.length == length && same_digest(&found.digest, &digest) && same_digest(&found.key, key) &&
           gd__freeze(copy);
}

int gd__cache_copy(const gd_cache *cache, const char *name, const gd_digest *key)
{
    struct stat s;
    int fd = open_ours(cache, name, O_RDONLY, &s);
    if (fd < 0) return -1;
    int copy = gd__memory_file();
    if (copy >= 0 && !copy_checked(fd, (uint64_t)s.st_size, key, copy)) {
        close(copy);
        copy = -1;
    }
    if (copy >= 0) (void)futimens(fd, NULL);
    close(fd);
    return copy;
}

bool gd__cache_seal(const gd_cache *cache, const char *name, const gd_digest *key)
{
    struct stat s;
    seal new = {.key = *key};
    /* compilers follow the umask: make it ours alone before looking at it */
    if (fchmodat(cache->fd, name, 0600, 0)) return false;
    int fd = open_ours(cache, name, O_RDWR, &s);
    if (fd < 0) return false;
    memcpy(new.word, seal_word, sizeof new.word);
    new.length = (uint64_t)s.st_size;
    bool done = digest_file(fd, new.length, -1, &new.digest) && write_fully(fd, &new, sizeof new);
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

/* Counts the kernels and finds the one used least recently. */
static census take_census(DIR *dir)
{
    census all = {.files = 0};
    rewinddir(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        const char *name = entry->d_name;
        struct stat s;
        if (fstatat(dirfd(dir), name, &s, AT_SYMLINK_NOFOLLOW) || S_ISDIR(s.st_mode)) continue;
        if (strncmp(name, "gd-", 3) != 0) continue;
        if (!all.files++ || earlier(gd__written_at(&s), all.used)) {
            snprintf(all.oldest, sizeof all.oldest, "%s", name);
            all.used = gd__written_at(&s);
        }
        all.bytes += s.st_size;
    }
    return all;
}

void gd__cache_trim(const gd_cache *cache)
{
    DIR *dir = list_folder(cache->fd);
    if (!dir) return;
    for (int rounds = 0; rounds < GD_CACHE_FILES; rounds++) {
        census all = take_census(dir);
        if (all.files <= GD_CACHE_FILES && all.bytes <= GD_CACHE_BYTES) break;
        if (unlinkat(dirfd(dir), all.oldest, 0)) break;
    }
    closedir(dir);
}
