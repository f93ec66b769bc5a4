/* Arrow's C data interface, version 1: three structs by which programs lend columns to each other.  The layout is that of the
 * specification (https://arrow.apache.org/docs/format/CDataInterface.html); the names are ours, so that Arrow's own header
 * may be included beside this one. */
#ifndef GD_TABLE_ARROW_H
#define GD_TABLE_ARROW_H

#include <stdint.h>

typedef struct gd_arrow_schema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct gd_arrow_schema **children, *dictionary;
    void (*release)(struct gd_arrow_schema *); /* NULL: released already */
    void *private_data;
} gd_arrow_schema;

typedef struct gd_arrow_array {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct gd_arrow_array **children, *dictionary;
    void (*release)(struct gd_arrow_array *);
    void *private_data;
} gd_arrow_array;

typedef struct gd_arrow_stream {
    int (*get_schema)(struct gd_arrow_stream *, gd_arrow_schema *out);
    int (*get_next)(struct gd_arrow_stream *, gd_arrow_array *out); /* out->release NULL: the end */
    const char *(*get_last_error)(struct gd_arrow_stream *);
    void (*release)(struct gd_arrow_stream *);
    void *private_data;
} gd_arrow_stream;

#endif
