/* Standardising, and the options of data sets; see dataset.h. */
#include "cli/rows/dataset.h"

#include <math.h>
#include <string.h>

/* Numbers of few bits are exact in f32. */
static gd_dtype wide(const gd_tensor *t)
{
    switch (gd_tensor_dtype(t)) {
    case GD_F64:
    case GD_I64:
    case GD_I32: return GD_F64;
    default: return GD_F32;
    }
}

gd_status gd__scaling_measure(gd_tensor *x, gd_standardise how, gd_scaling *out)
{
    *out = (gd_scaling){0};
    if (how == GD_SCALE_NONE) return GD_OK;
    gd_ctx *ctx = gd_tensor_ctx(x);
    const char *axes = how == GD_SCALE_EACH ? "0" : NULL;
    gd__aside_begin(ctx);
    gd_tensor *v = gd_cast(x, GD_F64);
    gd_tensor *mean = gd_mean(v, axes, false);
    gd_tensor *spread = gd_sqrt(gd_mean(gd_square(gd_sub(v, mean)), axes, false));
    gd_tensor *one = gd_ones_like(spread);
    out->mean = gd_keep(gd_copy(mean));
    out->scale = gd_keep(gd_where(gd_gt(spread, gd_zeros_like(spread)), spread, one));
    gd__aside_end(ctx);
    if (out->mean && out->scale) return GD_OK;
    gd__scaling_close(out);
    return gd_error(ctx);
}

gd_status gd__scaling_of_rates(gd_tensor *y, gd_scaling *out)
{
    gd_ctx *ctx = gd_tensor_ctx(y);
    *out = (gd_scaling){0};
    gd__aside_begin(ctx);
    gd_tensor *mean = gd_mean(gd_cast(y, GD_F64), "0", false);
    out->mean = gd_keep(gd_log(gd_clamp(mean, 1e-6, INFINITY)));
    out->scale = gd_keep(gd_ones_like(mean));
    gd__aside_end(ctx);
    if (out->mean && out->scale) return GD_OK;
    gd__scaling_close(out);
    return gd_error(ctx);
}

void gd__scaling_close(gd_scaling *s)
{
    gd_release(s->mean);
    gd_release(s->scale);
    *s = (gd_scaling){0};
}

gd_tensor *gd__scaling_apply(const gd_scaling *s, gd_tensor *x, gd_dtype dtype)
{
    if (!x) return NULL;
    gd_ctx *ctx = gd_tensor_ctx(x);
    gd_dtype within = wide(x);
    gd__aside_begin(ctx);
    if (s->mean) {
        x = gd_cast(x, within);
        gd_device *device = gd_tensor_device(x);
        gd_tensor *mean = gd_to_device(s->mean, device), *scale = gd_to_device(s->scale, device);
        x = gd_div(gd_sub(x, gd_cast(mean, within)), gd_cast(scale, within));
    }
    return gd__aside_leave(ctx, gd_contiguous(gd_cast(x, dtype)));
}

gd_tensor *gd__scaling_undo(const gd_scaling *s, gd_tensor *x)
{
    if (!x) return NULL;
    gd_ctx *ctx = gd_tensor_ctx(x);
    gd_scope_begin(ctx);
    x = gd_cast(x, GD_F64);
    gd_device *device = gd_tensor_device(x);
    if (s->mean) x = gd_add(gd_mul(x, gd_to_device(s->scale, device)), gd_to_device(s->mean, device));
    return gd__scope_leave(ctx, x);
}

/* ---- options ---- */

gd_status gd__csv_options(const gd_args *args, gd_csv_options *out)
{
    static const char widths[] = {GD_CSV_WIDTHS, 0};
    const char *separator = gd__args_get(args, "separator");
    *out = (gd_csv_options){.no_header = gd__args_has(args, "no-header")};
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
