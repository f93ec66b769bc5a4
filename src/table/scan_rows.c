/* Fast reading; see scan_rows.h.
 *
 * Text is cut at line ends into pieces.  A piece is read without allocations and without access to the context, so pieces run in parallel:
 * numbers are stored, words and dates stay positions in the text, and the first error is remembered. Then one thread resolves words and dates in the
 * order of the rows, and reports the first error of all.
 *
 * Within a piece, 64 bytes at a time, a bit for every byte at which a cell may end is computed first. The start of the next cell is known
 * before this one's digits are read, so the processor reads several at once. */
#include "table/scan_rows.h"
#include "base/text/number.h"
#include "table/csv_inside.h"
#include "base/text/compose.h"

#include <math.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define CHUNK       64 /* bytes that have their bits in a word */
#define PIECE       ((size_t)16 << 10)
#define MOST_PIECES 64
#define WORD_BITS   20 /* of the length of a word, after its position in the text: both fit a double */
#define WORD_SIZE   ((size_t)1 << WORD_BITS)

/* The error of a row. */
typedef struct fault {
    const char *what;
    const char *cell; /* NULL: the row itself is wrong */
    size_t length;
    int column, cells;
    int64_t line;
} fault;

/* Data shared by the pieces of a text. */
typedef struct table {
    const gd_table_layout *layout;
    const char *text, *end;
    const char *plain;             /* the end, if digits are always numbers and never missing cells */
    char separator, second, point; /* second: a second separator, or the first again */
    bool blanks, quotes;
    bool lax; /* a cell that is not a number ends its column, not the reading */
    gd_frame_column *
        *column;    /* of each column of a row: destination, NULL: none; NULL: only rows are located */
    size_t *row_at; /* offsets of rows, and their lines; NULL: not needed */
    int64_t *row_line;
} table;

typedef struct piece {
    const table *t;
    const char *at, *end;
    const char *chunk; /* the bytes that `stops` is about */
    uint64_t stops;    /* remaining positions where cells may end */
    int64_t line, row, rows;
    gd_frame_column **column; /* as in the table; a copy if columns may end */
    fault fault;
} piece;

typedef struct cell {
    const char *begin, *end, *stop; /* stop: the position of its end, after blanks */
} cell;

/* ---- finding ---- */

static inline uint64_t marks_of_few(const char *s, size_t size, char a, char b, char c)
{
    uint64_t marks = 0;
    for (size_t i = 0; i < size; i++) marks |= (uint64_t)(s[i] == a || s[i] == b || s[i] == c) << i;
    return marks;
}

/* A bit for each of the 64 bytes at s that is one of three; end: of the text. */
static inline uint64_t marks(const char *s, const char *end, char a, char b, char c)
{
    if (end - s < CHUNK) return marks_of_few(s, (size_t)(end - s), a, b, c);
#ifdef __SSE2__
    uint64_t all = 0;
    for (int i = 0; i < CHUNK; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(s + i));
        __m128i same = _mm_or_si128(
            _mm_cmpeq_epi8(bytes, _mm_set1_epi8(a)),
            _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(b)), _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c))));
        all |= (uint64_t)(unsigned)_mm_movemask_epi8(same) << i;
    }
    return all;
#else
    return marks_of_few(s, CHUNK, a, b, c);
#endif
}

static int64_t count_line_ends(const char *text, size_t size)
{
    int64_t lines = 0;
    for (const char *end = text + size; (text = memchr(text, '\n', (size_t)(end - text))); text++) lines++;
    return lines;
}

static inline void look_at(piece *p, const char *at)
{
    p->chunk = at;
    p->stops = marks(at, p->t->end, p->t->separator, p->t->second, '\n');
}

static void go_to(piece *p, const char *at)
{
    p->at = at;
    look_at(p, at);
}

/* The next separator, line end or the end of the text, which is passed. */
static inline const char *next_stop(piece *p)
{
    while (!p->stops) {
        if (p->t->end - p->chunk <= CHUNK) return p->t->end;
        look_at(p, p->chunk + CHUNK);
    }
    const char *at = p->chunk + __builtin_ctzll(p->stops);
    p->stops &= p->stops - 1;
    return at;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* A line ends at `at`, or behind the \r there. */
static bool ends_line(const table *t, const char *at)
{
    if (at < t->end && *at == '\r') at++;
    return at >= t->end || *at == '\n';
}

static const char *skip_blanks(const table *t, const char *at)
{
    while (at < t->end && is_blank(*at) && (t->blanks || *at != t->separator)) at++;
    return at;
}

static bool row_fault(piece *p, int64_t line, const char *what)
{
    p->fault = (fault){.what = what, .line = line};
    return false;
}

/* The position after the closing quote of the cell at `at`; NULL: there is none.  Line ends in between count. */
static const char *pass_quotes(const table *t, const char *at, int64_t *line)
{
    for (at++; at < t->end; at++) {
        const char *quote = memchr(at, '"', (size_t)(t->end - at));
        if (!quote) return NULL;
        *line += count_line_ends(at, (size_t)(quote - at));
        at = quote + 1;
        if (at >= t->end || *at != '"') return at;
    }
    return NULL;
}

/* A cell in quotes; blanks around its text are dropped. */
static bool find_quoted(piece *p, cell *c, int64_t *line)
{
    const table *t = p->t;
    int64_t first = *line;
    c->end = pass_quotes(t, c->begin, line);
    if (!c->end) return row_fault(p, first, "a quote is never closed");
    const char *behind = t->blanks ? c->end : skip_blanks(t, c->end);
    go_to(p, behind);
    c->stop = next_stop(p);
    if (!t->column || c->stop == behind || (ends_line(t, behind) && ends_line(t, c->stop))) return true;
    return row_fault(p, *line, "text follows a closing quote");
}

/* Blanks after a cell are one separator, or none at the end of a line. */
static void pass_blanks(piece *p, cell *c)
{
    const table *t = p->t;
    while (c->stop < t->end && is_blank(*c->stop)) {
        const char *next = c->stop + 1;
        if (next < t->end && !is_blank(*next) && !ends_line(t, next)) return;
        c->stop = next_stop(p);
    }
}

static bool find_with_care(piece *p, cell *c, int64_t *line)
{
    const table *t = p->t;
    c->begin = skip_blanks(t, p->at);
    if (c->begin < t->end && *c->begin == '"') {
        if (!find_quoted(p, c, line)) return false;
    } else {
        do c->end = c->stop = next_stop(p);
        while (c->stop < c->begin);
    }
    if (t->blanks) pass_blanks(p, c);
    return true;
}

/* care: there may be quotes, or blanks are separators. */
static inline __attribute__((always_inline)) bool find_cell(piece *p, bool care, cell *c, int64_t *line)
{
    if (care) {
        if (!find_with_care(p, c, line)) return false;
    } else {
        c->begin = p->at;
        c->end = c->stop = next_stop(p);
    }
    p->at = c->stop + 1; /* at the end of the text: behind its NUL */
    return true;
}

/* ---- numbers ---- */

/* Eight digits, the first in the lowest byte, as a number. */
static inline uint64_t eight_digits(uint64_t word)
{
    word = word * 10 + (word >> 8);
    return ((word & UINT64_C(0x000000FF000000FF)) * UINT64_C(0x000F424000000064) +
            (word >> 16 & UINT64_C(0x000000FF000000FF)) * UINT64_C(0x0000271000000001)) >>
           32;
}

/* The bytes at s as digits less '0', the first in the lowest byte. */
static inline uint64_t load_digits(const char *s)
{
    uint64_t word;
    memcpy(&word, s, sizeof word);
    return word ^ UINT64_C(0x3030303030303030); /* no other byte order is built for: cmake/ByteOrder.cmake */
}

/* The upper bit of every byte that is not a digit: those above 9, which have it, or have it when 0x76 is added.  Carries only affect bytes after
 * the first one. */
static inline uint64_t no_digits(uint64_t word)
{
    return (word | (word + UINT64_C(0x7676767676767676))) & UINT64_C(0x8080808080808080);
}

typedef struct few {
    uint64_t digits;
    int behind;
    bool point;
} few;

/* All of the n <= 8 bytes at s are digits, one of them perhaps the point: the digits as a number, and the number of decimals. */
static inline __attribute__((always_inline)) bool few_digits(const char *s, int n, char point, few *out)
{
    uint64_t word = load_digits(s) << (64 - 8 * n); /* leading zeros */
    uint64_t other = no_digits(word);
    *out = (few){.point = other != 0};
    if (other) {
        int at = __builtin_ctzll(other) & ~7;
        if ((other & (other - 1)) || (word >> at & 0xFF) != (uint64_t)(point ^ '0') || n == 1) return false;
        uint64_t before = word & ((UINT64_C(1) << at) - 1);
        word = (word >> at >> 8 << at << 8) | before << 8;
        out->behind = 7 - at / 8;
    }
    out->digits = eight_digits(word);
    return true;
}

/* Digits at s, eight at a time, appended to *digits; returns their end. */
static inline const char *take_digits(const char *s, uint64_t *digits)
{
    static const uint64_t tens[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    for (int round = 0, n = 8; round < 3 && n == 8; round++, s += n) {
        uint64_t word = load_digits(s), other = no_digits(word);
        n = other ? __builtin_ctzll(other) / 8 : 8;
        if (n) *digits = *digits * tens[n] + eight_digits(word << (64 - 8 * n));
    }
    return s;
}

static const char *take_exponent(const char *s, int64_t *exponent)
{
    uint64_t value = 0;
    bool minus = s[1] == '-';
    const char *from = s + 1 + (minus || s[1] == '+'), *end = take_digits(from, &value);
    if (end == from || end - from > 4) return s;
    *exponent += minus ? -(int64_t)value : (int64_t)value;
    return end;
}

/* All of [s, end) is a number of up to 19 digits, perhaps with an exponent. */
static bool long_number(const char *s, const char *end, char point, double *out)
{
    uint64_t digits = 0;
    int64_t exponent = 0;
    const char *from = s;
    s = take_digits(s, &digits);
    int64_t count = s - from;
    if (*s == point) {
        from = ++s;
        s = take_digits(s, &digits);
        exponent = from - s;
        count -= exponent;
    }
    if (!count || count > 19) return false;
    if (s != end && (*s == 'e' || *s == 'E')) s = take_exponent(s, &exponent);
    return s == end && gd__decimal(digits, exponent, out);
}

/* All of [s, end) is a number without a sign of up to 16 bytes and no exponent. */
static inline __attribute__((always_inline)) bool short_number(const char *s, const char *end, char point,
                                                               double *out)
{
    int64_t n = end - s;
    few f, last;
    if (n < 1 || n > 16) return false;
    if (!few_digits(s, n > 8 ? (int)n - 8 : (int)n, point, &f)) return false;
    if (n > 8) {
        if (!few_digits(end - 8, 8, point, &last) || (f.point && last.point)) return false;
        f.digits = f.digits * (last.point ? 10000000 : 100000000) + last.digits;
        f.behind = f.point ? f.behind + 8 : last.behind;
    }
    *out = (double)f.digits / gd__tens[f.behind]; /* both are exact (Clinger 1990) */
    return true;
}

/* A number that is digits, a point, an exponent; false: the general reader is needed. CHUNK bytes of the text follow s. */
static inline __attribute__((always_inline)) bool plain_number(const char *s, const char *end, char point,
                                                               double *out)
{
    static const double signs[] = {1, -1}; /* no branch, as the sign is unpredictable */
    size_t minus = *s == '-';
    s += minus;
    double value;
    if (!short_number(s, end, point, &value) && !long_number(s, end, point, &value)) return false;
    *out = value * signs[minus];
    return true;
}

/* ---- cells ---- */

static bool cell_fault(piece *p, const cell *c, int column, const char *what)
{
    p->fault = (fault){.what = what,
                       .cell = c->begin,
                       .length = (size_t)(c->end - c->begin),
                       .column = column,
                       .line = p->line};
    return false;
}

/* The text of a cell without its quotes; out has room for length + 1. */
static void copy_cell(const char *from, size_t length, char *out)
{
    size_t used = 0;
    bool quoted = length && *from == '"';
    for (size_t i = quoted; i + quoted < length; i++) {
        out[used++] = from[i];
        i += quoted && from[i] == '"'; /* the second of two */
    }
    out[used] = 0;
}

/* All other cells: decimals in quotes, missing cells, words. */
static bool careful_number(piece *p, const cell *c, int column, double *out)
{
    char text[1024];
    gd_csv csv = {.decimal = p->t->layout->decimal};
    if (p->t->layout->missing) csv.missing = *p->t->layout->missing;
    size_t length = (size_t)(c->end - c->begin);
    if (!length) { /* the usual hole */
        *out = NAN;
        return true;
    }
    if (length >= sizeof text) return cell_fault(p, c, column, "is not a number");
    copy_cell(c->begin, length, text);
    int kind = gd__csv_text_number(&csv, text, out);
    if (kind < 0) return cell_fault(p, c, column, "is not a number");
    return kind == 0 || isfinite(*out) || cell_fault(p, c, column, "is not finite");
}

/* A word is kept as its position in the text until all pieces are read. */
static bool place_word(piece *p, const cell *c, int column, double *out)
{
    size_t length = (size_t)(c->end - c->begin), step = 1;
    if (length >= WORD_SIZE) return cell_fault(p, c, column, "is too long a word");
    for (const char *u = c->begin; u < c->end && step; u += step) step = gd__utf8_length(u);
    static const char hidden[] = "?"; /* it is not printable */
    if (!step) return cell_fault(p, &(cell){hidden, &hidden[1], NULL}, column, "is not UTF-8");
    *out = (double)((uint64_t)(c->begin - p->t->text) << WORD_BITS | length);
    return true;
}

static inline __attribute__((always_inline)) bool is_plain_number(const table *t, const cell *c, double *out)
{
    return t->plain - c->begin >= CHUNK && plain_number(c->begin, c->end, t->point, out);
}

static bool put_trimmed(piece *p, cell *c, int column, double *out)
{
    const char *begin = skip_blanks(p->t, c->begin), *end = c->end;
    if (begin > end) begin = end;
    while (end > begin && is_blank(end[-1])) end--;
    bool trimmed = begin != c->begin || end != c->end;
    *c = (cell){begin, end, c->stop};
    if (p->column[column]->kind != GD_CELLS_NUMBERS) return place_word(p, c, column, out);
    if ((trimmed && is_plain_number(p->t, c, out)) || careful_number(p, c, column, out)) return true;
    if (!p->t->lax) return false;
    p->fault = (fault){0};
    p->column[column] = NULL;
    return true;
}

static inline __attribute__((always_inline)) bool put_cell(piece *p, cell *c, int column, int64_t row)
{
    const gd_frame_column *to = p->column[column];
    if (!to || (to->kind == GD_CELLS_NUMBERS && is_plain_number(p->t, c, &to->value[row]))) return true;
    return put_trimmed(p, c, column, &to->value[row]);
}

/* ---- rows ---- */

/* Counts the cells of the rest of a row that has too many or too few. */
static bool wrong_width(piece *p, int cells, bool last)
{
    cell c;
    int64_t line = p->line;
    for (; !last; cells++) {
        if (!find_cell(p, true, &c, &line)) return false;
        last = c.stop >= p->t->end || *c.stop == '\n';
    }
    (void)row_fault(p, p->line, "");
    p->fault.cells = cells;
    return false;
}

/* One cell of a row; *last: a line end follows. */
static inline __attribute__((always_inline)) bool take_cell(piece *p, bool care, int column, int64_t *line,
                                                            bool *last)
{
    const table *t = p->t;
    cell c;
    if (!find_cell(p, care, &c, line)) return false;
    *last = *c.stop == '\n' || c.stop >= t->end;
    if (*last && c.end > c.begin && c.end[-1] == '\r') c.end--;
    return put_cell(p, &c, column, p->row + p->rows);
}

/* One row; p->line is left at its first line, *lines are how many it has. */
static inline __attribute__((always_inline)) bool take_row(piece *p, bool care, int64_t *lines)
{
    int columns = p->t->layout->columns, column = 0;
    int64_t line = p->line;
    bool last = false;
    for (; column < columns && !last; column++)
        if (!take_cell(p, care, column, &line, &last)) return false;
    *lines = line - p->line + 1;
    return (column == columns && last) || wrong_width(p, column, last);
}

/* A line of only blanks is not a row. */
static bool skip_empty(piece *p)
{
    const char *at = p->at;
    if (*at > ' ') return false;
    while (at < p->end && (*at == '\r' || (is_blank(*at) && (p->t->blanks || *at != p->t->separator)))) at++;
    if (at < p->end && *at != '\n') return false;
    go_to(p, at < p->end ? at + 1 : at);
    p->line++;
    return true;
}

static void note_row(const piece *p)
{
    p->t->row_at[p->row + p->rows] = (size_t)(p->at - p->t->text);
    p->t->row_line[p->row + p->rows] = p->line;
}

static inline __attribute__((always_inline)) void take_rows(piece *p, bool care)
{
    int64_t lines = 0;
    while (p->at < p->end) {
        if (skip_empty(p)) continue;
        if (p->t->row_at) note_row(p);
        if (!take_row(p, care, &lines)) return;
        p->line += lines;
        p->rows++;
    }
}

static void read_piece(void *arg, int64_t index)
{
    piece *p = (piece *)arg + index;
    look_at(p, p->at);
    /* two copies of the loop: the simple one is faster without the variables of the other */
    if (p->t->blanks || p->t->quotes)
        take_rows(p, true);
    else
        take_rows(p, false);
}

/* ---- pieces ---- */

/* Cuts the text; rows of a piece begin at that of its first line.  Quotes may hold line ends: then all is one piece.  *lines: of all. */
static int cut(const table *t, int64_t first_line, piece *out, int64_t *lines)
{
    size_t size = (size_t)(t->end - t->text), count = t->quotes ? 1 : size / PIECE + 1;
    if (count > MOST_PIECES) count = MOST_PIECES;
    const char *at = t->text;
    int64_t line = 0;
    int made = 0;
    for (size_t k = 1; k <= count && at < t->end; k++) {
        const char *from = t->text + size / count * k, *end = t->end;
        if (k < count && (from < at || !(end = memchr(from, '\n', (size_t)(t->end - from))))) continue;
        end += end < t->end;
        out[made++] = (piece){.t = t, .at = at, .end = end, .line = first_line + line, .row = line};
        line += count_line_ends(at, (size_t)(end - at));
        at = end;
    }
    *lines = line + 1; /* the last one may have no end */
    return made;
}

/* Rows of a piece move up to those of the previous piece, if lines were empty.  Ends with the first fault; a row that is wrong is not
 * counted, but its cells are stored. */
static int64_t join_pieces(const table *t, const piece *pieces, int count, fault *first)
{
    int64_t rows = 0;
    for (const piece *p = pieces; p < pieces + count && !first->what; p++) {
        size_t bytes = (size_t)(p->rows + (p->fault.what != NULL)) * sizeof(double);
        for (int i = 0; i < t->layout->columns && rows != p->row; i++)
            if (t->column[i]) memmove(t->column[i]->value + rows, t->column[i]->value + p->row, bytes);
        if (t->row_at && rows != p->row) {
            memmove(t->row_at + rows, t->row_at + p->row, (size_t)p->rows * sizeof *t->row_at);
            memmove(t->row_line + rows, t->row_line + p->row, (size_t)p->rows * sizeof *t->row_line);
        }
        rows += p->rows;
        *first = p->fault;
    }
    return rows;
}

/* ---- words ---- */

typedef struct namer {
    gd_ctx *ctx;
    const table *t;
    gd_word_places *places; /* of each column of a row */
    int64_t first_line;
    char *text;
    size_t bytes;
} namer;

/* Cells kept as places in the text become words or dates; a cell that is not a date is an error. */
static gd_status name_cell(namer *n, int column, int64_t row, fault *f)
{
    gd_frame_column *c = n->t->column[column];
    uint64_t place = (uint64_t)c->value[row];
    size_t length = place & (WORD_SIZE - 1);
    const char *from = n->t->text + (place >> WORD_BITS);
    if (!gd__grow(n->ctx, &n->text, &n->bytes, length + 1)) return GD_NOMEM;
    copy_cell(from, length, n->text);
    if (c->kind == GD_CELLS_WORDS)
        return gd__frame_word(n->ctx, &n->places[column], c, n->text, &c->value[row]);
    if (!gd__frame_date(c, n->text, &c->value[row]))
        *f = (fault){.what = "is not a date as in 2024-02-29 or 2024-02-29T13:45",
                     .cell = from,
                     .length = length,
                     .column = column,
                     .line = n->first_line + count_line_ends(n->t->text, (size_t)(from - n->t->text))};
    return GD_OK;
}

/* All words and dates in the order of the rows; those before the first error, or up to a given row. */
static gd_status name_cells(namer *n, int64_t rows, fault *first)
{
    gd_status status = GD_OK;
    fault other = {0};
    bool any = false;
    for (int i = 0; i < n->t->layout->columns; i++)
        any = any || (n->t->column[i] && n->t->column[i]->kind != GD_CELLS_NUMBERS);
    for (int64_t row = 0; row <= rows && any && !status && !other.what; row++) {
        int end = row < rows ? n->t->layout->columns : first->what && first->cell ? first->column : 0;
        for (int i = 0; i < end && !status && !other.what; i++)
            if (n->t->column[i] && n->t->column[i]->kind != GD_CELLS_NUMBERS)
                status = name_cell(n, i, row, &other);
    }
    if (other.what) *first = other;
    return status;
}

static gd_status tell(gd_ctx *ctx, const gd_table_layout *layout, const fault *f)
{
    char shown[64];
    long long line = f->line;
    size_t length = f->length < sizeof shown ? f->length : sizeof shown - 1;
    if (!f->what) return GD_OK;
    if (f->cells)
        return gd_fail(ctx, GD_FORMAT, "%s: line %lld: %d cell%s, but the first line has %d", layout->source,
                       line, f->cells, f->cells == 1 ? "" : "s", layout->columns);
    if (!f->cell) return gd_fail(ctx, GD_FORMAT, "%s: line %lld: %s", layout->source, line, f->what);
    copy_cell(f->cell, length, shown);
    return gd_fail(ctx, GD_FORMAT, "%s: line %lld, column '%.60s': '%.60s' %s", layout->source, line,
                   layout->name[f->column], shown, f->what);
}

/* ---- all of it ---- */

static table table_of(const gd_table_layout *layout, const char *text, size_t size)
{
    bool blanks = layout->separator == ' ';
    return (table){.layout = layout,
                   .text = text,
                   .end = text + size,
                   .plain = layout->missing && layout->missing->count ? text : text + size,
                   .separator = layout->separator,
                   .second = blanks ? '\t' : layout->separator,
                   .point = layout->decimal ? layout->decimal : '.',
                   .blanks = blanks,
                   .quotes = memchr(text, '"', size) != NULL};
}

static gd_status read_pieces(namer *n, piece *pieces, int count, gd_frame *out)
{
    fault first = {0};
    for (int k = 0; k < count; k++) pieces[k].column = n->t->column;
    gd__parallel(n->ctx, count, read_piece, pieces);
    out->rows = join_pieces(n->t, pieces, count, &first);
    gd_status status = name_cells(n, out->rows, &first);
    gd__free(n->ctx, n->text, n->bytes);
    return status ? status : tell(n->ctx, n->t->layout, &first);
}

gd_status gd__scan_rows(gd_ctx *ctx, const gd_table_layout *layout, const char *text, size_t size,
                        int64_t first_line, const int *wanted, const gd_cells *kind, int count, gd_frame *out)
{
    table t = table_of(layout, text, size);
    namer n = {.ctx = ctx, .t = &t, .first_line = first_line};
    piece pieces[MOST_PIECES];
    int64_t lines;
    int made = cut(&t, first_line, pieces, &lines);
    gd_status status = gd__frame_new(ctx, lines, kind, count, out);
    size_t columns = (size_t)layout->columns;
    t.column = status ? NULL : gd__calloc(ctx, columns * sizeof *t.column);
    n.places = t.column ? gd__calloc(ctx, columns * sizeof *n.places) : NULL;
    if (!status && !n.places) status = GD_NOMEM;
    for (int i = 0; i < count && !status; i++) {
        t.column[wanted[i]] = &out->column[i];
        out->column[i].name = layout->name[wanted[i]];
        out->column[i].missing = layout->missing;
    }
    if (!status) status = read_pieces(&n, pieces, made, out);
    for (size_t i = 0; i < columns && n.places; i++) gd__frame_places_free(ctx, &n.places[i]);
    gd__free(ctx, n.places, n.places ? columns * sizeof *n.places : 0);
    gd__free(ctx, t.column, t.column ? columns * sizeof *t.column : 0);
    return status;
}

/* Columns that ended in one piece end in all. */
static void end_columns(const table *t, const piece *pieces, int count)
{
    for (int k = 0; k < count; k++)
        for (int i = 0; i < t->layout->columns; i++)
            if (!pieces[k].column[i]) t->column[i] = NULL;
}

gd_status gd__scan_numbers(gd_ctx *ctx, const gd_table_layout *layout, const char *text, size_t size,
                           int64_t first_line, gd_frame_column **column, size_t *row_at, int64_t *row_line,
                           int64_t *rows)
{
    table t = table_of(layout, text, size);
    piece pieces[MOST_PIECES];
    int64_t lines;
    t.lax = true;
    t.column = column;
    t.row_at = row_at;
    t.row_line = row_line;
    size_t columns = (size_t)layout->columns;
    int made = cut(&t, first_line, pieces, &lines);
    size_t bytes = (size_t)made * columns * sizeof(gd_frame_column *);
    gd_frame_column **own = gd__alloc(ctx, bytes + 1);
    if (!own) return GD_NOMEM;
    for (int k = 0; k < made; k++) {
        pieces[k].column = own + (size_t)k * columns;
        memcpy(pieces[k].column, column, columns * sizeof *own);
    }
    gd__parallel(ctx, made, read_piece, pieces);
    end_columns(&t, pieces, made);
    gd__free(ctx, own, bytes + 1);
    fault first = {0};
    *rows = join_pieces(&t, pieces, made, &first);
    if (first.what) *rows = -1;
    return GD_OK;
}

int64_t gd__scan_lines(const char *text, size_t size) { return count_line_ends(text, size) + 1; }

/* ---- cells of rows that were read ---- */

typedef struct cell_finder {
    table t;
    const size_t *row_at;
    const int *slot; /* of each column its number among the wanted, or -1 */
    int last;        /* the last column wanted */
    int64_t rows;
    size_t *place; /* [count, rows, 2]: where a cell begins, and its bytes */
} cell_finder;

#define FIND_ROWS 4096 /* of a task */

/* The next cell of a row, without blanks and line end. */
static void next_cell(piece *p, cell *c)
{
    int64_t line = 0;
    if (!find_cell(p, true, c, &line))
        *c = (cell){p->at, p->at, p->at}; /* cannot happen: the row was read before */
    if ((c->stop >= p->t->end || *c->stop == '\n') && c->end > c->begin && c->end[-1] == '\r') c->end--;
    while (c->end > c->begin && is_blank(c->end[-1])) c->end--;
    if (c->end < c->begin) c->end = c->begin;
}

static void put_place(const table *t, const cell *c, size_t place[2])
{
    place[0] = (size_t)(c->begin - t->text);
    place[1] = (size_t)(c->end - c->begin);
}

static void find_in_row(const cell_finder *f, int64_t row)
{
    piece p = {.t = &f->t};
    cell c;
    go_to(&p, f->t.text + f->row_at[row]);
    for (int i = 0; i <= f->last; i++) {
        next_cell(&p, &c);
        if (f->slot[i] >= 0)
            put_place(&f->t, &c, f->place + 2 * ((size_t)f->slot[i] * (size_t)f->rows + (size_t)row));
    }
}

static void find_rows(void *arg, int64_t index)
{
    const cell_finder *f = arg;
    int64_t end = (index + 1) * FIND_ROWS < f->rows ? (index + 1) * FIND_ROWS : f->rows;
    for (int64_t row = index * FIND_ROWS; row < end; row++) find_in_row(f, row);
}

void gd__scan_find(gd_ctx *ctx, const gd_table_layout *layout, const char *text, size_t size,
                   const size_t *row_at, int64_t rows, const int *slot, size_t *place)
{
    cell_finder f = {
        .t = table_of(layout, text, size), .row_at = row_at, .slot = slot, .rows = rows, .place = place};
    for (int i = 0; i < layout->columns; i++) f.last = slot[i] >= 0 ? i : f.last;
    gd__parallel(ctx, (rows + FIND_ROWS - 1) / FIND_ROWS, find_rows, &f);
}

void gd__scan_find_one(const gd_table_layout *layout, const char *text, size_t size, size_t row_at,
                       int column, size_t place[2])
{
    table t = table_of(layout, text, size);
    piece p = {.t = &t};
    cell c;
    go_to(&p, text + row_at);
    for (int i = 0; i <= column; i++) next_cell(&p, &c);
    put_place(&t, &c, place);
}

void gd__scan_copy(const char *from, size_t length, char *out) { copy_cell(from, length, out); }

size_t gd__scan_whole_rows(const gd_table_layout *layout, const char *text, size_t size, int64_t *lines)
{
    table t = table_of(layout, text, size);
    size_t end = size;
    *lines = 0;
    if (!t.quotes) {
        while (end > 0 && text[end - 1] != '\n') end--;
        *lines = count_line_ends(text, end);
        return end;
    }
    piece p = {.t = &t, .at = text, .end = t.end};
    cell c;
    int64_t line = 0;
    look_at(&p, text);
    end = 0;
    while (p.at < t.end && find_cell(&p, true, &c, &line))
        if (c.stop < t.end && *c.stop == '\n') {
            end = (size_t)(p.at - text);
            *lines = ++line;
        }
    return end;
}
