/* Tables as text; see gradus/table.h. */
#include "base/text/compose.h"
#include "base/text/date.h"
#include "file/output.h"
#include "table/csv_inside.h"

#include <string.h>

typedef struct writer {
    gd_text out;
    gd_table *table;
    char separator;
} writer;

/* A cell that a reader could take for something else is quoted: one with a separator of any kind, with blanks, or like a comment. */
static void put_cell(writer *w, const char *text)
{
    bool quoted = strpbrk(text, ",;\t\"\r\n ") || *text == '#' || (!*text && w->table->columns == 1);
    if (quoted) gd__text_char(&w->out, '"');
    for (const char *s = text; *s; s++) {
        if (*s == '"') gd__text_char(&w->out, '"');
        gd__text_char(&w->out, *s);
    }
    if (quoted) gd__text_char(&w->out, '"');
}

static void end_cell(writer *w, int column)
{
    gd__text_char(&w->out, column + 1 < w->table->columns ? w->separator : '\n');
}

static gd_status write_row(writer *w, int64_t row)
{
    char number[GD_CELL_SIZE];
    for (int i = 0; i < w->table->columns; i++) {
        const char *text = gd__csv_text(w->table, row, i, number);
        gd_date date;
        if (*text && gd__csv_told(w->table, i) == GD_CELLS_DATES && !gd__date_parse(text, &date))
            return gd_fail(w->table->ctx, GD_VALUE, "%s: row %lld of '%.60s' has no year of four digits",
                           w->table->source, (long long)row + 1, w->table->name[i]);
        put_cell(w, text);
        end_cell(w, i);
    }
    return w->out.failed ? GD_NOMEM : GD_OK;
}

gd_status gd_table_save(gd_table *table, const char *path)
{
    if (!table) return GD_ARGUMENT;
    if (!path) return gd__null(table->ctx, "table: the path is NULL");
    if (gd_error(table->ctx)) return gd_error(table->ctx);
    if (!table->columns) return gd_fail(table->ctx, GD_ARGUMENT, "%s: no columns to write", table->source);
    size_t length = strlen(path);
    bool tabs = length > 4 && !strcmp(path + length - 4, ".tsv");
    writer w = {.out = gd__text(table->ctx), .table = table, .separator = tabs ? '\t' : ','};
    for (int i = 0; i < table->columns; i++) {
        put_cell(&w, table->name[i]);
        end_cell(&w, i);
    }
    gd_status status = w.out.failed ? GD_NOMEM : GD_OK;
    for (int64_t row = 0; row < gd__csv_rows(table) && !status; row++) status = write_row(&w, row);
    if (!status) status = gd__write_output(table->ctx, path, gd__text_string(&w.out), w.out.used);
    gd__text_free(&w.out);
    return status;
}
