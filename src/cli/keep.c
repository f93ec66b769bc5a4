/* Keys of rows; see keep.h. */
#include "cli/keep.h"
#include "cli/table_options.h"

#include <string.h>

static gd_status find_kept(const gd_words *names, const char *taken, gd_kept_columns *out)
{
    for (int i = 0; i < names->count; i++) {
        int column = gd__csv_column(out->csv, names->word[i]);
        if (column < 0) return gd_error(out->ctx);
        if (!strcmp(gd__csv_name(out->csv, column), taken))
            return gd_fail(
                out->ctx, GD_ARGUMENT,
                "--keep '%.60s': the predictions have that name; --score compares them with the column",
                taken);
        for (int k = 0; k < i; k++)
            if (out->column[k] == column)
                return gd_fail(out->ctx, GD_ARGUMENT, "--keep '%.60s': the column is named twice",
                               names->word[i]);
        out->column[out->count++] = column;
    }
    return GD_OK;
}

gd_status gd__keep_open(const gd_args *args, const gd_csv *csv, const char *taken, gd_kept_columns *out)
{
    gd_words names = {0};
    *out = (gd_kept_columns){.ctx = args->ctx, .csv = csv};
    gd_status status = gd__words_of_option(args, "keep", true, &names);
    if (!status && names.count && !(out->column = gd__calloc(args->ctx, (size_t)names.count * sizeof(int))))
        status = GD_NOMEM;
    if (!status) status = find_kept(&names, taken, out);
    if (status && out->column) {
        gd__free(args->ctx, out->column, (size_t)names.count * sizeof(int));
        *out = (gd_kept_columns){.ctx = args->ctx};
    }
    gd__words_free(args->ctx, &names);
    return status;
}

void gd__keep_close(gd_kept_columns *kept)
{
    gd__free(kept->ctx, kept->column, (size_t)kept->count * sizeof(int));
    *kept = (gd_kept_columns){.ctx = kept->ctx};
}

void gd__keep_names(gd_text *out, const gd_kept_columns *kept)
{
    for (int i = 0; i < kept->count; i++) {
        gd__csv_put(out, gd__csv_name(kept->csv, kept->column[i]));
        gd__text_char(out, ',');
    }
}

void gd__keep_row(gd_text *out, const gd_kept_columns *kept, int64_t row)
{
    for (int i = 0; i < kept->count; i++) {
        double number;
        char text[GD_CELL_SIZE];
        if (gd__csv_ready_number(kept->csv, row, kept->column[i], &number))
            gd__text_put(out, "%.17g", number);
        else
            gd__csv_put(out, gd__csv_text(kept->csv, row, kept->column[i], text));
        gd__text_char(out, ',');
    }
}

static void json_cell(gd_text *out, const gd_csv *csv, int64_t row, int column)
{
    double number;
    char text[GD_CELL_SIZE];
    if (gd__csv_ready_number(csv, row, column, &number))
        gd__json_number(out, number);
    else
        gd__json_string(out, gd__csv_text(csv, row, column, text));
}

void gd__keep_json(gd_text *out, const gd_kept_columns *kept)
{
    if (!kept->count) return;
    gd__json_key(out, "kept");
    gd__text_char(out, '{');
    for (int i = 0; i < kept->count; i++) {
        gd__json_key(out, gd__csv_name(kept->csv, kept->column[i]));
        for (int64_t row = 0; row < gd__csv_rows(kept->csv) && !out->failed; row++) {
            gd__text_add(out, row ? ", " : "[");
            json_cell(out, kept->csv, row, kept->column[i]);
        }
        gd__text_char(out, ']');
    }
    gd__text_char(out, '}');
}
