/* Compiled kernels on disk.
 *
 *   FOLDER/gd-0123456789abcdef0123456789abcdef.so     a shared object (or .cubin), then 32 bytes: word, length, digest
 *   FOLDER/tmp-XXXXXX.c, .so                          being made; renamed when done, deleted when an hour old
 *
 * The folder must be ours alone (no link, owner, 0700): what lies in it is executed.  The seal shows damage, not malice:
 * whoever can write into the folder is us. */
#ifndef GD_BASE_KERNEL_CACHE_H
#define GD_BASE_KERNEL_CACHE_H

#include "base/ctx.h"

#define GD_CACHE_FILES 500
#define GD_CACHE_BYTES (64 << 20)
#define GD_PATH        4096 /* longest path in use */

/* 128 bits of whatever was added. */
typedef struct gd_digest {
    uint64_t a, b;
} gd_digest;
void gd__digest_add(gd_digest *d, const void *data, size_t size);
void gd__digest_text(gd_digest *d, const char *text); /* with its end, so that pieces do not run together */

/* The folder for compiled kernels: the context's, else under XDG_CACHE_HOME or HOME.  Made if it is not there.  False
 * when there is none that is safe. */
bool gd__cache_folder(const gd_ctx *ctx, char folder[GD_PATH]);
/* A new private folder in TMPDIR or /tmp, for when there is no cache. */
bool gd__cache_private(char folder[GD_PATH]);
void gd__cache_remove_private(const char *folder);

/* True for a sealed, undamaged file of ours that nobody else may write; it then counts as used just now. */
bool gd__cache_intact(const char *path);
/* Makes a fresh file private and appends the seal. */
bool gd__cache_seal(const char *path);
/* Deletes the files used least recently until the folder is within its limits, and leftovers. */
void gd__cache_trim(const char *folder);

#endif
