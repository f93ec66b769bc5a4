/* The inside of an archive, and archives that several processes write into one file.
 *
 *   file     [ header ][ tensor a ][ tensor b             ][ tensor c ]
 *   writes   rank 0     rank 0      rank 0 | rank 1 | ...   rank 0        each into its place, the header last
 *
 * A file does not know how many have written it: it has the bytes that one process would have written.  The name of the file
 * leads to the old one until all of the new one is on the disk. */
#ifndef GD_FILE_ARCHIVE_H
#define GD_FILE_ARCHIVE_H

#include "base/ctx.h"
#include "gradus/file.h"

/* The tensor that a slot has a part of. */
typedef struct gd_archive_whole {
    int ndim;
    int64_t size[GD_MAX_DIMS];
    int64_t
        first; /* its elements from here on are the part's, in row-major order; parts end where chunks of checksums do */
} gd_archive_whole;

typedef struct gd_archive_slot {
    char *name;
    gd_tensor *tensor;       /* owned, outside every scope */
    gd_archive_whole *whole; /* owned; NULL: the tensor is all of it */
    gd_tensor *axes_of;      /* retained: has the names and labels of the whole; NULL: there are none */
} gd_archive_slot;

typedef struct gd_archive_meta {
    char *key, *text;
} gd_archive_meta;

struct gd_archive {
    gd_ctx *ctx;
    gd_archive_slot *slot;
    size_t count, capacity;
    size_t *bucket; /* open addressing: 1 + slot number, 0 is free; at most half full */
    size_t buckets;
    gd_archive_meta *meta;
    size_t meta_count, meta_bytes;
};

/* As gd_archive_put, of which this process has a part, perhaps nothing.  An archive with parts is saved together only. */
GD_NODISCARD gd_status gd__archive_put_part(gd_archive *archive, const char *name, gd_tensor *part,
                                            const gd_archive_whole *whole, gd_tensor *axes_of);

/* The processes that save together. */
typedef struct gd_together {
    /* Adds up the numbers of all, each of which is zero but for one process; all call it as often.  Brings how the work of this
     * one went: where one has failed, all get its error. */
    gd_status (*join)(void *user, gd_status mine, uint64_t *number, size_t count);
    void *user;
    bool first; /* this one makes the file, and writes what all have */
} gd_together;

/* All processes call it, with archives of the same names and shapes; texts are those of the first one.  status: how making the
 * archive went (then it may be NULL).  All return with the new file in place, or all with an error and the old one as it was.
 * IO where the folder is not the same for all of them. */
GD_NODISCARD gd_status gd__archive_save_together(const gd_archive *archive, const char *path,
                                                 gd_status status, const gd_together *together);

#endif
