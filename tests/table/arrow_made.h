/* Arrow streams made by hand: batches of columns over static memory, with counts of what was released. */
#ifndef GD_TESTS_ARROW_MADE_H
#define GD_TESTS_ARROW_MADE_H

#include "table/arrow/arrow.h"

#include <errno.h>
#include <string.h>

enum { MADE_COLUMNS = 8, MADE_BATCHES = 4 };

typedef struct made_stream {
    /* what is to be given */
    const char *format; /* of the whole; "+s" */
    int columns, batches;
    gd_arrow_schema column[MADE_COLUMNS], dictionary[MADE_COLUMNS];
    gd_arrow_array array[MADE_BATCHES][MADE_COLUMNS], words[MADE_BATCHES][MADE_COLUMNS];
    int64_t rows[MADE_BATCHES], offset[MADE_BATCHES];
    int fail_at; /* this batch fails; -1: the schema; MADE_BATCHES: nothing */
    /* what happened */
    int next, schemas, arrays, streams; /* released */
    gd_arrow_schema *schema_list[MADE_COLUMNS];
    gd_arrow_array *array_list[MADE_BATCHES][MADE_COLUMNS];
} made_stream;

static void made_release_schema(gd_arrow_schema *s)
{
    ((made_stream *)s->private_data)->schemas++;
    s->release = NULL;
}

static void made_release_array(gd_arrow_array *a)
{
    ((made_stream *)a->private_data)->arrays++;
    a->release = NULL;
}

static void made_release(gd_arrow_stream *s)
{
    ((made_stream *)s->private_data)->streams++;
    s->release = NULL;
}

static const char *made_error(gd_arrow_stream *s)
{
    (void)s;
    return "the disk is gone";
}

static int made_schema(gd_arrow_stream *s, gd_arrow_schema *out)
{
    made_stream *m = s->private_data;
    if (m->fail_at == -1) return EIO;
    for (int i = 0; i < m->columns; i++) m->schema_list[i] = &m->column[i];
    *out = (gd_arrow_schema){.format = m->format ? m->format : "+s",
                             .n_children = m->columns,
                             .children = m->schema_list,
                             .release = made_release_schema,
                             .private_data = m};
    return 0;
}

static int made_next(gd_arrow_stream *s, gd_arrow_array *out)
{
    static const void *no_nulls[1];
    made_stream *m = s->private_data;
    int k = m->next++;
    memset(out, 0, sizeof *out);
    if (k == m->fail_at) return EIO;
    if (k >= m->batches) return 0;
    for (int i = 0; i < m->columns; i++) {
        m->array_list[k][i] = &m->array[k][i];
        if (m->column[i].dictionary) m->array[k][i].dictionary = &m->words[k][i];
    }
    *out = (gd_arrow_array){.length = m->rows[k],
                            .offset = m->offset[k],
                            .n_buffers = 1,
                            .buffers = no_nulls,
                            .n_children = m->columns,
                            .children = m->array_list[k],
                            .release = made_release_array,
                            .private_data = m};
    return 0;
}

static inline gd_arrow_stream made(made_stream *m)
{
    return (gd_arrow_stream){made_schema, made_next, made_error, made_release, m};
}

#endif
