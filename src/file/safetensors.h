/* The safetensors format, without tensors: header text to entries and back.
 *
 *   file:   [ header length N, 8 bytes ][ header, N bytes of JSON, padded with spaces ][ data ]
 *   header: {"__metadata__":{"gradus.header":"SUM","gradus.format":"2","gradus.tensor:w":"NOTE",...,"k":"v"},
 *            "w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},...}
 *
 * Offsets count from the start of the data; together the tensors cover it without a hole or an overlap.  The
 * header may list them in a different order than that of their data: gradus lists them in the order of the archive and
 * lays large items first, so that each is aligned to its item size.
 *
 * What gradus adds, in keys that start with "gradus." (a file without any is a foreign one, and loads without
 * checksums):
 *   SUM   checksum of the length and the header, as if without these 16 digits.  Always at this very place.
 *   NOTE  JSON again: {"sum":"16 hex digits","axes":[{"name":"batch","labels":["a","b"]},null]};
 *         axes only if there is a name or a label.  sum: gd__tensor_sum; in files of format 1 gd__checksum of all bytes. */
#ifndef GD_FILE_SAFETENSORS_H
#define GD_FILE_SAFETENSORS_H

#include "base/text/text.h"
#include "file/widen.h"

#define GD_SAFETENSORS_MAX_HEADER 100000000u
#define GD_SAFETENSORS_SUM_SIZE   17 /* 16 lower-case hex digits and the end */

struct json_t;

/* A 64-bit checksum.  A change within one aligned group of 8 bytes is always found: every step is a bijection
 * of the word it takes in.  Any other change is missed with a probability of 2^-64.  Not for use against an
 * adversary. */
uint64_t gd__checksum(uint64_t seed, const void *data, size_t size);
/* A tensor's checksum is one of the checksums of its chunks, each of GD_CHECKSUM_CHUNK elements from the first on (the last may
 * be shorter): sum = gd__checksum(sum, &chunk, 8), from 0.  Several processes can each make those of their share, whatever
 * its dtype, and the file does not depend on the number of processes. */
#define GD_CHECKSUM_CHUNK 16384
uint64_t gd__tensor_sum(const void *data, size_t size, size_t item);
/* The same in two: the checksums of chunks, of a tensor or of a shard that begins with one; and their total. */
void gd__chunk_sums(const void *data, size_t size, size_t item, uint64_t *out);
uint64_t gd__sum_of_sums(const uint64_t *chunk, size_t count);
void gd__checksum_text(uint64_t sum, char out[GD_SAFETENSORS_SUM_SIZE]);

/* Text that JSON can hold. */
bool gd__is_utf8(const char *text);

/* ---- reading ---- */

typedef struct gd_safetensors_entry {
    const char *name;       /* borrowed from the header */
    const char *dtype_name; /* static */
    gd_dtype dtype;         /* GD_DTYPE_COUNT: known to the format, not to gradus */
    gd_widen_fn *widen;     /* from the bytes of the file to that dtype; NULL: they are the same */
    int ndim;
    int64_t shape[GD_MAX_DIMS];
    uint64_t offset;     /* in the data */
    uint64_t size;       /* in bytes */
    size_t item;         /* bytes of an element in the file, 1 for smaller ones */
    const void *data;    /* NULL when only the header was parsed */
    const char *sum;     /* the checksum's text, NULL in a foreign file */
    struct json_t *note; /* owned; NULL in a foreign file */
} gd_safetensors_entry;

typedef struct gd_safetensors_meta {
    const char *key, *value; /* borrowed from the header */
} gd_safetensors_meta;

typedef struct gd_safetensors {
    gd_ctx *ctx;
    const char *source; /* borrowed: names the file in messages */
    struct json_t *root;
    gd_safetensors_entry *entry; /* in the order of the header */
    size_t *by_offset;           /* entries in the order of the data */
    size_t count;
    gd_safetensors_meta *meta; /* without the "gradus." keys */
    size_t meta_count, meta_capacity;
    bool own;      /* written by gradus */
    bool by_chunk; /* format 2: sums are of chunks */
} gd_safetensors;

/* The header's length from the first 8 bytes of a file of `file_size` bytes; FORMAT when it cannot be. */
GD_NODISCARD gd_status gd__safetensors_length(gd_ctx *ctx, const char *source, const void *first8,
                                              uint64_t file_size, size_t *length);

/* Parses the first 8 + length bytes of a file of `file_size` bytes.  New.  FORMAT, SHAPE or NOMEM. */
gd_safetensors *gd__safetensors_header(gd_ctx *ctx, const char *source, const void *data, size_t length,
                                       uint64_t file_size);

/* Compares the entry's checksum, if it has one, with that of its elements. */
GD_NODISCARD gd_status gd__safetensors_check(const gd_safetensors *file, const gd_safetensors_entry *entry,
                                             const void *elements);
/* The same with the checksum that was found. */
GD_NODISCARD gd_status gd__safetensors_compare(const gd_safetensors *file, const gd_safetensors_entry *entry,
                                               uint64_t found);

/* Reads the one tensor of a file that `pick` chooses from its header (its number; -1 with an error recorded), and nothing else
 * of its data.  New. */
typedef int64_t gd_pick_fn(void *user, const gd_safetensors *file);
gd_tensor *gd__archive_pick(gd_ctx *ctx, const char *path, gd_pick_fn *pick, void *user);

/* Name and labels of an axis.  Borrowed; NULL if there are none. */
const char *gd__safetensors_axis(const gd_safetensors_entry *entry, int axis);
const char *gd__safetensors_label(const gd_safetensors_entry *entry, int axis, int64_t index);

void gd__safetensors_free(gd_safetensors *file);

/* ---- writing ----
 * JSON is printed by our own code, because jansson 2.14 silently drops characters if it runs out of memory. */

typedef struct gd_safetensors_item {
    const char *name;
    gd_dtype dtype;
    int ndim;
    const int64_t *shape;
    uint64_t sum;
    const char *axes; /* JSON text as in NOTE, NULL: none */
} gd_safetensors_item;

size_t gd__safetensors_bytes(const gd_safetensors_item *item); /* of its elements */

/* The first 8 + N bytes of a file; the elements follow in the order of `order` (count numbers, filled here).
 * *header is new: gd__free(ctx, *header, *size). */
GD_NODISCARD gd_status gd__safetensors_write(gd_ctx *ctx, const gd_safetensors_item *item, size_t count,
                                             const gd_safetensors_meta *meta, size_t meta_count,
                                             size_t *order, char **header, size_t *size);

/* Sets the checksum of a header that begins as gradus's do (for the fuzzer: it cannot guess one).  False if
 * not. */
bool gd__safetensors_seal(void *data, size_t size);

#endif
