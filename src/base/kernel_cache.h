/* Compiled kernels on disk.
 *
 *   FOLDER/gd-0123456789abcdef0123456789abcdef.so     a shared object (or .cubin), then the seal of 48 bytes: word, length,
 *                                                     digest, key of the program it was made from
 *   FOLDER/tmp-XXXXXX.c, .so                          being made; the first is locked by its maker until they are renamed or
 *                                                     deleted, so an unlocked file was left by a dead process
 *
 * The contents of the folder are executed, so only we may own it and its path must be safe (base/safe_folder.h).  It is held by a
 * descriptor, and a file is loaded from the copy in memory that was checked.  The seal detects damage and mix-ups, not attacks: only
 * we can write into the folder. */
#ifndef GD_BASE_KERNEL_CACHE_H
#define GD_BASE_KERNEL_CACHE_H

#include "base/ctx.h"

#define GD_CACHE_FILES 500
#define GD_CACHE_BYTES (64 << 20)
#define GD_PATH        4096 /* longest path in use */

/* A digest of 128 bits. */
typedef struct gd_digest {
    uint64_t a, b;
} gd_digest;
void gd__digest_add(gd_digest *d, const void *data, size_t size);
void gd__digest_text(
    gd_digest *d,
    const char *text); /* with its end, so that adjacent pieces differ from their concatenation */

/* A folder for kernels, held open. */
typedef struct gd_cache {
    int fd;
    bool passing;       /* deleted when it is closed */
    char path[GD_PATH]; /* for compilers */
} gd_cache;

/* The context's folder, else one under XDG_CACHE_HOME or HOME.  Created if missing; files of dead processes are deleted. False if no
 * safe folder exists. */
bool gd__cache_open(const gd_ctx *ctx, gd_cache *cache);
/* A new folder in TMPDIR or /tmp, for when there is no cache; false when nothing there is safe.  Deletes folders of dead processes. */
bool gd__cache_open_passing(gd_cache *cache);
void gd__cache_close(gd_cache *cache);

/* A new empty file FOLDER/tmp-XXXXXX with an ending ("" or ".c"), locked; its path is for compilers.  Files of the same name with
 * a different ending are its maker's too.  Returns its descriptor, to be closed when none of them has that name any more; -1 with
 * errno when there is none. */
int gd__cache_temporary(const gd_cache *cache, const char *ending, char path[GD_PATH + 16]);

/* A copy in memory of a sealed, undamaged file that only we may write and that was made for `key`; the file
 * then counts as just used.  Returns a descriptor of the copy, without the seal, which cannot be changed any more;
 * -1 when there is no such file. */
int gd__cache_copy(const gd_cache *cache, const char *name, const gd_digest *key);
/* Makes a fresh file private and appends the seal. */
bool gd__cache_seal(const gd_cache *cache, const char *name, const gd_digest *key);
/* Deletes the files used least recently until the folder is within its limits. */
void gd__cache_trim(const gd_cache *cache);

#endif
