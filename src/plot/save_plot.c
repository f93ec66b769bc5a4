/* A plot as a file, in the format that the ending of its path names. */
#include "file/output.h"
#include "plot/plot_layout.h"

#include <stdio.h>
#include <string.h>

static bool ends_with(const char *path, const char *end)
{
    size_t length = strlen(path), size = strlen(end);
    return length >= size && !strcmp(path + length - size, end);
}

gd_status gd_plot_check_path(gd_ctx *ctx, const char *path)
{
    if (!ctx) return GD_NOMEM;
    if (!path) return gd_fail(ctx, GD_ARGUMENT, "plot: no path given");
    if (ends_with(path, ".svg") || ends_with(path, ".png") || ends_with(path, ".pdf")) return GD_OK;
    return gd_fail(ctx, GD_ARGUMENT, "%s: a picture ends in .svg, .png or .pdf", path);
}

/* Warns once about letters that are drawn as numbers, with the first of them. */
static void warn_of_letters(const gd_picture *picture, const char *path)
{
    const char *all = picture->text.data, *end = all ? all + picture->text.used : NULL;
    char first[8] = "";
    int64_t count = 0;
    for (const char *s = all; s < end; s += *s ? 0 : 1)
        while (*s) {
            size_t length = gd__utf8_length(s);
            if (!gd__font_knows(s, length) && (!count || strncmp(first, s, length) != 0) && !count++)
                memcpy(first, s, length);
            s += length ? length : 1;
        }
    if (count)
        gd_warn(picture->ctx,
                "%s: '%s'%s not among the letters that PNG and PDF pictures have; the number is drawn "
                "in a box, and .svg has all letters",
                path, first, count > 1 ? " and others are" : " is");
}

gd_status gd_plot_save(gd_plot *p, const char *path, bool dark)
{
    if (!p) return GD_NOMEM;
    gd_status status = gd_plot_check_path(p->ctx, path);
    if (status) return status;
    gd_picture *picture = gd__plot_render(p);
    if (!picture) return gd_error(p->ctx) ? gd_error(p->ctx) : GD_NOMEM;
    if (!ends_with(path, ".svg")) warn_of_letters(picture, path);
    gd_text bytes = gd__text(p->ctx);
    status = ends_with(path, ".svg")   ? gd__picture_svg(picture, dark, &bytes)
             : ends_with(path, ".pdf") ? gd__picture_pdf(picture, dark, &bytes)
                                       : gd__picture_png(picture, dark, 2, &bytes);
    if (!status) status = gd__write_output(p->ctx, path, gd__text_string(&bytes), bytes.used);
    gd__text_free(&bytes);
    gd__picture_free(picture);
    return status;
}

int64_t gd_plot_svg(gd_plot *p, bool dark, char *out, size_t size)
{
    gd_picture *picture = p && !gd_error(p->ctx) ? gd__plot_render(p) : NULL;
    if (!picture) return -1;
    gd_text text = gd__text(p->ctx);
    gd_status status = gd__picture_svg(picture, dark, &text);
    const char *svg = gd__text_string(&text);
    int64_t length = status || text.failed ? -1 : (int64_t)text.used;
    if (length >= 0 && out && size) (void)snprintf(out, size, "%s", svg);
    gd__text_free(&text);
    gd__picture_free(picture);
    return length;
}
