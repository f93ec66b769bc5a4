/* libFuzzer target: any bytes as a CSV file; the first byte chooses the options. */
#include "table/csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Is every cell of the column a finite number, or missing? */
static bool is_numeric(const gd_csv *csv, int column)
{
    double value;
    for (int64_t row = 0; row < gd__csv_rows(csv); row++)
        if (gd__csv_number(csv, row, column, &value) < 0 || isinf(value)) return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    if (!ctx) ctx = gd_ctx_new(NULL);
    if (!size) return 0;
    gd_csv_options options = {.separator = data[0] & 8 ? GD_CSV_WIDTHS : ",;\t\0"[data[0] >> 1 & 3],
                              .no_header = data[0] & 1,
                              .encoding = (gd_encoding)(data[0] >> 6)};
    gd_csv *csv = gd__csv_parse(ctx, "data.csv", data + 1, size - 1, &options);
    if ((csv != NULL) != (gd_error(ctx) == GD_OK)) abort();
    gd_clear_error(ctx);
    if (!csv) return 0;
    int64_t rows = gd__csv_rows(csv);
    double *numbers = malloc((size_t)(rows + 1) * sizeof *numbers);
    for (int i = 0; i < gd__csv_columns(csv); i++) {
        gd_status strict = gd__csv_numbers(csv, i, false, numbers);
        gd_clear_error(ctx);
        gd_status lax = gd__csv_numbers(csv, i, true, numbers);
        gd_clear_error(ctx);
        /* what the strict reading takes, the lax one takes; and it takes exactly the numeric columns */
        if ((!strict && lax) || (lax == GD_OK) != is_numeric(csv, i)) abort();
        if (i > 2) continue; /* a search goes over all of them */
        (void)gd__csv_column(csv, gd__csv_name(csv, i));
        gd_clear_error(ctx);
    }
    /* every cell is a text inside the block: the sanitizer looks */
    size_t total = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (gd__csv_line(csv, row) < 1) abort();
        for (int i = 0; i < gd__csv_columns(csv); i++) total += strlen(gd__csv_cell(csv, row, i));
    }
    if (total > 3 * size) abort(); /* a byte of Windows-1252 may become three of UTF-8 */
    free(numbers);
    gd__csv_free(csv);
    return 0;
}
