/* Options of tables; see table_options.h. */
#include "cli/table_options.h"
#include "base/text/number.h"

#include <string.h>

gd_status gd__csv_options(const gd_args *args, gd_csv_options *out)
{
    static const char widths[] = {GD_CSV_WIDTHS, 0};
    const char *separator = gd__args_get(args, "separator");
    *out = (gd_csv_options){.no_header = gd__args_has(args, "no-header"),
                            .input = {.observer = args->observer, .standard = true}};
    if (separator && !strcmp(separator, "tab")) separator = "\t";
    if (separator && !strcmp(separator, "space")) separator = " ";
    if (separator && !strcmp(separator, "width")) separator = widths;
    if (separator && strlen(separator) != 1)
        return gd_fail(args->ctx, GD_ARGUMENT,
                       "%s: --separator: '%.20s' is not one character, tab, space or width",
                       args->command->name, separator);
    if (separator) out->separator = separator[0];
    int encoding = GD_UTF8, comma = 0;
    gd_status status = gd__args_choice(args, "decimal", "point comma", &comma);
    if (!status && comma && out->separator == ',')
        status = gd_fail(args->ctx, GD_ARGUMENT, "%s: --separator and --decimal are both a comma",
                         args->command->name);
    if (comma) out->decimal = ',';
    if (!status) status = gd__args_choice(args, "encoding", GD_ENCODINGS, &encoding);
    out->encoding = (gd_encoding)encoding;
    return status;
}

gd_status gd__csv_options_used(const gd_args *args, bool used)
{
    static const char *const names[] = {"separator", "decimal", "no-header", "encoding"};
    for (size_t i = 0; i < sizeof names / sizeof *names && !used; i++)
        if (gd__args_has(args, names[i]))
            return gd_fail(args->ctx, GD_ARGUMENT, "%s: --%s: no value is a table, as @file.csv would be",
                           args->command->name, names[i]);
    return GD_OK;
}

gd_status gd__shape_option(const gd_args *args, int *axes, int64_t *shape)
{
    const char *text = gd__args_get(args, "shape");
    *axes = 0;
    for (const char *s = text; s;) {
        char number[24] = "";
        size_t length = strcspn(s, ",x");
        int64_t size = 0;
        if (length < sizeof number) memcpy(number, s, length);
        if (*axes == GD_MAX_DIMS - 1 || !gd__is_integer(number, &size) || size < 1 || size > 1000000)
            return gd_fail(args->ctx, GD_ARGUMENT, "%s: --shape: '%.40s' is not whole numbers as in 28,28",
                           args->command->name, text);
        shape[(*axes)++] = size;
        s = s[length] ? s + length + 1 : NULL;
    }
    return GD_OK;
}

gd_status gd__words_of_option(const gd_args *args, const char *name, bool split, gd_words *out)
{
    int at = 0;
    for (const char *value; (value = gd__args_next(args, name, &at));) {
        for (const char *s = value;;) {
            size_t length = split ? strcspn(s, ",") : strlen(s);
            if (!length)
                return gd_fail(args->ctx, GD_ARGUMENT, "%s: --%s: '%.60s' has an empty name",
                               args->command->name, name, value);
            gd_status status = gd__words_add(args->ctx, out, s, length);
            if (status) return status;
            if (!s[length]) break;
            s += length + 1;
        }
    }
    return GD_OK;
}
