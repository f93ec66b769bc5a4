/* Bytes as an Arrow stream, for the fuzzer and the test that replays its corpus.  Buffers are as long as the interface lets a reader
 * assume: what a stream has to promise is kept, everything else is what the bytes say. */
#ifndef GD_TESTS_ARROW_RANDOM_H
#define GD_TESTS_ARROW_RANDOM_H

#include "table/arrow_made.h"

#include <gradus/table.h>

#include <stdlib.h>

enum { RANDOM_ROWS = 32, RANDOM_BYTES = 1024 };

typedef struct random_bytes {
    const unsigned char *at, *end;
} random_bytes;

static inline unsigned random_byte(random_bytes *r) { return r->at < r->end ? *r->at++ : 0; }

static const char *const random_formats[] = {
    "n", "b",  "c",   "C",   "s",   "S",   "i",   "I",   "l",    "L",    "e",     "f",    "g", "u",
    "U", "vu", "tdD", "tdm", "tts", "ttm", "ttu", "ttn", "tss:", "tsm:", "tsu:x", "tsn:", "+l"};

typedef struct random_column {
    unsigned char valid[RANDOM_BYTES / 8], data[RANDOM_BYTES], text[RANDOM_BYTES];
    int64_t sizes[2];
    const void *buffers[5];
} random_column;

/* Offsets stay inside the text, as the interface promises; they may go down. */
static void random_offsets(random_column *c, const char *format)
{
    for (size_t i = 0; i < RANDOM_BYTES / 8; i++) {
        int32_t narrow;
        int64_t wide;
        memcpy(&narrow, c->data + 4 * i, sizeof narrow);
        memcpy(&wide, c->data + 8 * i, sizeof wide);
        narrow = narrow % RANDOM_BYTES;
        wide = wide % RANDOM_BYTES;
        if (*format == 'u') memcpy(c->data + 4 * i, &narrow, sizeof narrow);
        if (*format == 'U') memcpy(c->data + 8 * i, &wide, sizeof wide);
    }
}

static gd_arrow_array random_array(random_bytes *r, random_column *c, const char *format)
{
    unsigned what = random_byte(r);
    gd_arrow_array a = {.length = (int)(what & 15) - 1, .offset = (int)(what >> 4 & 7) - 1, .n_buffers = 2};
    a.null_count = (int)(random_byte(r) % 4) - 1;
    for (size_t i = 0; i < sizeof c->valid; i++) c->valid[i] = (unsigned char)random_byte(r);
    for (size_t i = 0; i < sizeof c->data && r->at < r->end; i++) c->data[i] = (unsigned char)random_byte(r);
    for (size_t i = 0; i < sizeof c->text; i++) c->text[i] = (unsigned char)"ab\xC3\xA4NA"[i % 6];
    if (what & 128) c->text[5] = (unsigned char)random_byte(r);
    random_offsets(c, format);
    c->sizes[0] = c->sizes[1] = RANDOM_BYTES;
    bool views = !strcmp(format, "vu"), texts = *format == 'u' || *format == 'U';
    a.n_buffers = views ? 4 + (what & 1) : texts ? 3 : *format == 'n' ? 0 : 2;
    c->buffers[0] = c->valid;
    c->buffers[1] = c->data;
    c->buffers[2] = c->text;
    c->buffers[3] = a.n_buffers == 5 ? (const void *)c->text : c->sizes;
    c->buffers[4] = c->sizes;
    a.buffers = c->buffers;
    return a;
}

/* Looks at everything that comes of it; leaves no error and no object. */
static inline void random_stream(gd_ctx *own, const unsigned char *data, size_t size)
{
    random_bytes r = {data, data + size};
    made_stream *m = calloc(1, sizeof *m);
    random_column *c = calloc(2 * MADE_COLUMNS * MADE_BATCHES, sizeof *c);
    static const char *const names[] = {"x", "y", "z", "x", "w", "__index_level_0__", "q", ""};
    unsigned what = random_byte(&r);
    m->columns = (int)(what & 3) + 1;
    m->batches = (int)(what >> 2 & 3);
    m->fail_at = what >> 4 & 1 ? (int)(what >> 5) : MADE_BATCHES;
    for (int i = 0; i < m->columns; i++) {
        m->column[i].format =
            random_formats[random_byte(&r) % (sizeof random_formats / sizeof *random_formats)];
        unsigned coded = random_byte(&r);
        m->column[i].name = names[(unsigned)i + (coded >> 7) * 3];
        if (coded % 4 == 3) m->column[i].dictionary = &m->dictionary[i];
        m->dictionary[i].format =
            random_formats[coded / 4 % (sizeof random_formats / sizeof *random_formats)];
    }
    for (int k = 0; k < m->batches; k++) {
        m->rows[k] = (int)(random_byte(&r) % 16) - 1;
        m->offset[k] = random_byte(&r) % 3;
        for (int i = 0; i < m->columns; i++) {
            random_column *room = c + 2 * (k * MADE_COLUMNS + i);
            m->array[k][i] = random_array(&r, room, m->column[i].format);
            if (m->column[i].dictionary) m->words[k][i] = random_array(&r, room + 1, m->dictionary[i].format);
        }
    }
    gd_arrow_stream s = made(m);
    gd_table *t = gd_table_from_arrow(own, (struct ArrowArrayStream *)&s, NULL, 0);
    if ((t != NULL) != (gd_error(own) == GD_OK) || m->streams != 1 || s.release) abort();
    gd_clear_error(own);
    for (int i = 0; i < gd_table_columns(t); i++) {
        int count = 0;
        (void)gd_table_kind(t, i);
        (void)gd_table_words(t, i, &count);
        gd_release(gd_table_numbers(t, i));
        gd_clear_error(own);
    }
    gd_table_free(t);
    int given = m->next < m->batches ? m->next : m->batches;
    if (m->fail_at < given) given = m->fail_at;
    if (m->arrays != given) abort();
    free(c);
    free(m);
}

#endif
