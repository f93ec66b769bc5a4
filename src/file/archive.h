/* The inside of an archive, and archives that several processes write into one file.
 *
 *   file     [ header ][ tensor a ][ tensor b             ][ tensor c ]
 *   writes   rank 0     rank 0      rank 0 | rank 1 | ...   rank 0        each into its place, the header last
 *
 * The file does not depend on the number of writers: it has the bytes that one process would write. The name refers to the old file
 * until the new one is completely on the disk. */
#ifndef GD_FILE_ARCHIVE_H
#define GD_FILE_ARCHIVE_H

#include "base/ctx.h"
#include "base/text/text.h"
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
    gd_tensor *tensor;       /* owned, outside every scope; NULL: it is not read yet */
    gd_archive_whole *whole; /* owned; NULL: the tensor is all of it */
    gd_tensor *axes_of;      /* retained: has the names and labels of the whole; NULL: there are none */
} gd_archive_slot;

typedef struct gd_archive_source gd_archive_source; /* a file whose tensors are read on request */

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
    gd_archive_source *source; /* owned; NULL: all tensors are here */
};

/* As gd_archive_load, but a tensor is read, and its checksum compared, on request: gd_archive_get and gd_archive_find return NULL
 * with an error recorded if it cannot be read.  Not for saving.  New. */
gd_archive *gd__archive_open(gd_ctx *ctx, const char *path);

/* The axes of a tensor as JSON, [{"name":"..","labels":["..",..]},null]; no text when none has a name or labels.  tensor: its
 * name, for errors. */
GD_NODISCARD gd_status gd__archive_axes(gd_text *text, const gd_tensor *t, const char *tensor);

/* ---- parts of a tensor that is not read yet ---- */

typedef struct gd_archive_unread {
    gd_dtype dtype;
    int ndim;
    const int64_t *size; /* borrowed */
} gd_archive_unread;

/* False: it is read already, or cannot be read in parts. */
bool gd__archive_unread(const gd_archive *archive, int64_t index, gd_archive_unread *out);
/* Reads `count` elements from `first` on, which is the start of a checksum chunk; sum: memory for the sums of its chunks. */
GD_NODISCARD gd_status gd__archive_read_part(const gd_archive *archive, int64_t index, int64_t first,
                                             int64_t count, void *out, uint64_t *sum);
/* Are these the checksums of all its chunks?  FORMAT. */
GD_NODISCARD gd_status gd__archive_check(const gd_archive *archive, int64_t index, const uint64_t *sum,
                                         size_t count);

/* As gd_archive_put, of which this process has a part, perhaps nothing.  An archive with parts is saved together only. */
GD_NODISCARD gd_status gd__archive_put_part(gd_archive *archive, const char *name, gd_tensor *part,
                                            const gd_archive_whole *whole, gd_tensor *axes_of);

/* The processes that save together. */
typedef struct gd_together {
    /* Sums numbers over all processes, each nonzero on one process only; all make the same calls. Passes the status of this process: if
     * one has failed, all get its error. */
    gd_status (*join)(void *user, gd_status mine, uint64_t *number, size_t count);
    void *user;
    bool first; /* this process makes the file, and writes the common data */
} gd_together;

/* All processes call it, with archives of the same names and shapes; texts are those of the first one.  status: of making the archive
 * (then it may be NULL).  All return with the new file in place, or all with an error and the old one as it was.
 * IO if the folder is not the same for all of them. */
GD_NODISCARD gd_status gd__archive_save_together(const gd_archive *archive, const char *path,
                                                 gd_status status, const gd_together *together);

#endif
