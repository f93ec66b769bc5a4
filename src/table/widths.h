/* Fixed-width tables, whose empty cells are blank:
 *
 *     time   level    note
 *     0.0     1.25    start
 *     0.5             a gauge was out
 *     1.0     1.31
 *
 * A column is a run of positions where some line has a character, up to a position where all lines are blank. Positions are counted in
 * characters, not bytes. */
#ifndef GD_TABLE_WIDTHS_H
#define GD_TABLE_WIDTHS_H

#include "gradus/tensor.h"

typedef struct gd_widths {
    size_t *edge; /* columns begin and end at edge[2 i] and edge[2 i + 1]; owned */
    int columns;  /* 0: the text is not such a table */
    size_t bytes;
} gd_widths;

/* Finds the columns of a text that begins with its first line.  Without `asked`, only if other readers fail and this one does not:
 * the first line has as many words as there are columns, neither quotes nor separators, each column has something
 * below, and lines differ in their words.  NOMEM. */
GD_NODISCARD gd_status gd__widths_find(gd_ctx *ctx, const char *text, size_t size, bool asked,
                                       gd_widths *out);
void gd__widths_free(gd_ctx *ctx, gd_widths *w);
/* The cell of a column in a line of that many bytes, without blanks around it: where it begins; its length. */
size_t gd__widths_cell(const gd_widths *w, int column, const char *line, size_t size, size_t *length);

/* The words of a first line between blanks; text in brackets is the unit of the word before it: two in "t [s] S [mol / l]". */
size_t gd__header_words(const char *line, size_t size);

#endif
