/* Cells of Arrow's columns; see arrow_cells.h.  Nothing is assumed to be aligned. */
#include "table/arrow/arrow_cells.h"

#include <math.h>
#include <string.h>

/* ---- formats ---- */

static const struct {
    const char *format;
    gd_arrow_type type;
} formats[] = {
    {"n", {'n', 0, GD_CELLS_NUMBERS, false, false, 0}},
    {"b", {'b', 0, GD_CELLS_NUMBERS, false, false, 0}},
    {"c", {'i', 1, GD_CELLS_NUMBERS, false, false, 0}},
    {"C", {'u', 1, GD_CELLS_NUMBERS, false, false, 0}},
    {"s", {'i', 2, GD_CELLS_NUMBERS, false, false, 0}},
    {"S", {'u', 2, GD_CELLS_NUMBERS, false, false, 0}},
    {"i", {'i', 4, GD_CELLS_NUMBERS, false, false, 0}},
    {"I", {'u', 4, GD_CELLS_NUMBERS, false, false, 0}},
    {"l", {'i', 8, GD_CELLS_NUMBERS, false, false, 0}},
    {"L", {'u', 8, GD_CELLS_NUMBERS, false, false, 0}},
    {"e", {'f', 2, GD_CELLS_NUMBERS, false, false, 0}},
    {"f", {'f', 4, GD_CELLS_NUMBERS, false, false, 0}},
    {"g", {'f', 8, GD_CELLS_NUMBERS, false, false, 0}},
    {"u", {'s', 4, GD_CELLS_WORDS, false, false, 0}},
    {"U", {'s', 8, GD_CELLS_WORDS, false, false, 0}},
    {"vu", {'v', 0, GD_CELLS_WORDS, false, false, 0}},
    {"tdD", {'i', 4, GD_CELLS_DATES, true, false, 86400}},
    {"tdm", {'i', 8, GD_CELLS_DATES, true, false, 1e-3}},
    {"tts", {'i', 4, GD_CELLS_DATES, false, true, 1}},
    {"ttm", {'i', 4, GD_CELLS_DATES, false, true, 1e-3}},
    {"ttu", {'i', 8, GD_CELLS_DATES, false, true, 1e-6}},
    {"ttn", {'i', 8, GD_CELLS_DATES, false, true, 1e-9}},
    {"tss:", {'i', 8, GD_CELLS_DATES, true, true, 1}},
    {"tsm:", {'i', 8, GD_CELLS_DATES, true, true, 1e-3}},
    {"tsu:", {'i', 8, GD_CELLS_DATES, true, true, 1e-6}},
    {"tsn:", {'i', 8, GD_CELLS_DATES, true, true, 1e-9}},
};

bool gd__arrow_type(const char *format, gd_arrow_type *out)
{
    for (size_t i = 0; format && i < sizeof formats / sizeof *formats; i++) {
        size_t length = strlen(formats[i].format);
        bool zone = formats[i].format[length - 1] == ':'; /* a time zone follows: the numbers are UTC */
        if (strncmp(format, formats[i].format, length) != 0 || (!zone && format[length])) continue;
        *out = formats[i].type;
        return true;
    }
    return false;
}

/* ---- columns ---- */

static const char *take_views(const gd_arrow_array *a, gd_arrow_cells *out)
{
    if (a->n_buffers < 3) return "has no buffer with the sizes of its texts";
    out->view_count = a->n_buffers - 3;
    out->views = a->buffers + 2;
    out->view_bytes = a->buffers[a->n_buffers - 1];
    return out->view_count && !out->view_bytes ? "has no sizes of its texts" : NULL;
}

static const char *take_buffers(const gd_arrow_array *a, gd_arrow_cells *out)
{
    char kind = out->type.kind;
    if (kind == 'n') return NULL;
    int64_t need = kind == 's' ? 3 : 2;
    if (a->n_buffers < need || !a->buffers) return "has too few buffers";
    if (a->null_count != 0) out->valid = a->buffers[0];
    out->data = a->buffers[1];
    if (kind == 's') out->text = a->buffers[2];
    if (!out->data && out->rows) return "has no data";
    return kind == 'v' ? take_views(a, out) : NULL;
}

const char *gd__arrow_cells(const gd_arrow_array *a, const gd_arrow_type *type, int64_t offset, int64_t rows,
                            gd_arrow_cells *out)
{
    *out = (gd_arrow_cells){.type = *type, .rows = rows};
    if (!a) return "is not there";
    if (a->length < 0 || a->offset < 0 || a->offset > INT64_MAX / 16 || a->length > INT64_MAX / 16)
        return "has an impossible length";
    if (offset > a->length || rows > a->length - offset) return "has fewer rows than its batch";
    out->first = a->offset + offset;
    return take_buffers(a, out);
}

bool gd__arrow_valid(const gd_arrow_cells *c, int64_t row)
{
    uint64_t at = (uint64_t)(c->first + row);
    return c->type.kind != 'n' && (!c->valid || (c->valid[at >> 3] >> (at & 7) & 1));
}

/* ---- numbers ---- */

static double half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return bits >> 15 ? -value : value;
}

static uint64_t bits_at(const gd_arrow_cells *c, int64_t row)
{
    uint64_t bits = 0; /* no other byte order is built for */
    memcpy(&bits, c->data + (size_t)(c->first + row) * (size_t)c->type.bytes, (size_t)c->type.bytes);
    return bits;
}

int64_t gd__arrow_whole(const gd_arrow_cells *c, int64_t row)
{
    uint64_t bits = bits_at(c, row);
    int unused = 64 - 8 * c->type.bytes;
    if (c->type.kind == 'u') return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    return (int64_t)(bits << unused) >> unused;
}

static double float_at(const gd_arrow_cells *c, int64_t row)
{
    uint64_t bits = bits_at(c, row);
    uint32_t few = (uint32_t)bits;
    float single;
    double value;
    memcpy(&single, &few, sizeof single);
    memcpy(&value, &bits, sizeof value);
    return c->type.bytes == 8 ? value : c->type.bytes == 4 ? (double)single : half((uint16_t)bits);
}

/* Seconds of a date: whole seconds and the rest separately, so that nanoseconds since 1970 are rounded once. */
static double seconds_of(const gd_arrow_type *type, int64_t number)
{
    if (type->unit >= 1) return (double)number * type->unit;
    int64_t parts = type->unit == 1e-3 ? 1000 : type->unit == 1e-6 ? 1000000 : 1000000000;
    int64_t whole = number / parts, rest = number % parts;
    return (double)whole + (double)rest / (double)parts;
}

double gd__arrow_number(const gd_arrow_cells *c, int64_t row)
{
    uint64_t at = (uint64_t)(c->first + row);
    if (!gd__arrow_valid(c, row)) return NAN;
    if (c->type.kind == 'b') return c->data[at >> 3] >> (at & 7) & 1;
    if (c->type.kind == 'f') return float_at(c, row);
    if (c->type.cells == GD_CELLS_DATES) {
        int64_t number = gd__arrow_whole(c, row);
        return number == INT64_MIN ? NAN : seconds_of(&c->type, number); /* NumPy's missing date (NaT) */
    }
    return c->type.kind == 'u' ? (double)bits_at(c, row) : (double)gd__arrow_whole(c, row);
}

/* ---- texts ---- */

static int64_t offset_at(const gd_arrow_cells *c, int64_t at)
{
    int64_t wide = 0;
    int32_t narrow = 0;
    if (c->type.bytes == 8)
        memcpy(&wide, c->data + 8 * at, sizeof wide);
    else
        memcpy(&narrow, c->data + 4 * at, sizeof narrow);
    return c->type.bytes == 8 ? wide : narrow;
}

/* A view: 4 bytes of length, and up to 12 bytes of text; or 4 bytes of it, the number of a buffer and where the text is there. */
static const char *view_at(const gd_arrow_cells *c, int64_t at, size_t *size)
{
    const unsigned char *view = c->data + 16 * at;
    int32_t length, buffer, from;
    memcpy(&length, view, sizeof length);
    memcpy(&buffer, view + 8, sizeof buffer);
    memcpy(&from, view + 12, sizeof from);
    if (length < 0) return NULL;
    *size = (size_t)length;
    if (length <= 12) return (const char *)view + 4;
    if (buffer < 0 || buffer >= c->view_count || from < 0) return NULL;
    int64_t have;
    memcpy(&have, (const unsigned char *)c->view_bytes + 8 * (size_t)buffer, sizeof have);
    const char *text = c->views[buffer];
    return text && from <= have && length <= have - from ? text + from : NULL;
}

const char *gd__arrow_text(const gd_arrow_cells *c, int64_t row, size_t *size)
{
    int64_t at = c->first + row;
    if (c->type.kind == 'v') return view_at(c, at, size);
    int64_t from = offset_at(c, at), to = offset_at(c, at + 1);
    if (from < 0 || to < from) return NULL;
    *size = (size_t)(to - from);
    if (!*size) return "";
    return c->text ? (const char *)c->text + from : NULL;
}
