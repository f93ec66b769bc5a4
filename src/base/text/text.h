/* A text that grows.  This folder: numbers, words, JSON and maps from addresses, the same in every locale; no tensors. */
#ifndef GD_BASE_TEXT_H
#define GD_BASE_TEXT_H

#include "base/ctx.h"

typedef struct gd_text {
    gd_ctx *ctx;
    char *data; /* ends in 0; NULL while empty */
    size_t used, capacity;
    bool failed;    /* NOMEM is recorded; everything after is ignored */
    bool hash_only; /* only hashes: needs no context and cannot fail; pieces are cut at 1023 characters */
    uint64_t hash;  /* with hash_only: of all that was put */
} gd_text;

void gd__text_put(gd_text *text, const char *format, ...) GD_PRINTF(2, 3);
void gd__text_add(gd_text *text, const char *added);
void gd__text_comma(gd_text *text); /* of JSON: ", " unless an object or a list has just begun */
void gd__text_append(gd_text *text, const char *data, size_t size);
void gd__text_number(gd_text *text, uint64_t number);
void gd__text_quote(gd_text *text, const char *string); /* as a JSON string; must be UTF-8 */
void gd__text_free(gd_text *text);

#endif
