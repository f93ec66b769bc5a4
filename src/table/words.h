/* Lists of words: names of columns, classes, settings.  The words are interned: they have the lifetime of the context. */
#ifndef GD_TABLE_WORDS_H
#define GD_TABLE_WORDS_H

#include "base/text/compose.h"

#include <jansson.h>

typedef struct gd_words {
    const char **word;
    int count;
    size_t bytes;
} gd_words;

GD_NODISCARD gd_status gd__words_add(gd_ctx *ctx, gd_words *words, const char *text, size_t length);
void gd__words_free(gd_ctx *ctx, gd_words *words);
/* -1 if it is not there. */
int gd__words_find(const gd_words *words, const char *text);
bool gd__words_equal(const gd_words *a, const gd_words *b);

/* Finds names among many at once: a table may have a hundred thousand columns. The caller keeps the list of names and must not change
 * it. */
typedef struct gd_name_index {
    int32_t *slot; /* open addressing: 1 + number of the name, negative if it occurs twice; 0: free */
    size_t slots;
    int first_again; /* the first duplicate name; -1: none */
} gd_name_index;

GD_NODISCARD gd_status gd__name_index_build(gd_ctx *ctx, const char *const *names, int count,
                                            gd_name_index *out);
/* Room for one name more than `count`; builds the index if there is none. */
GD_NODISCARD gd_status gd__name_index_reserve(gd_ctx *ctx, gd_name_index *index, const char *const *names,
                                              int count);
/* The name at `place`, which is not there yet; after gd__name_index_reserve. */
void gd__name_index_add(gd_name_index *index, const char *const *names, int place);
void gd__name_index_free(gd_ctx *ctx, gd_name_index *index);
/* The first of a name; -1 if it is not there. */
int gd__name_index_find(const gd_name_index *index, const char *const *names, const char *name);
/* Is the name there twice? */
bool gd__name_index_is_twice(const gd_name_index *index, const char *const *names, const char *name);

/* "a, b, c" or "a, b, c and 20 more", for messages. */
void gd__names_list(const char *const *names, int count, char *out, size_t size);

/* As a JSON list and back; FORMAT for something else. */
void gd__words_print(gd_text *out, const gd_words *words);
GD_NODISCARD gd_status gd__words_read(gd_ctx *ctx, const json_t *list, gd_words *out);

#endif
