/* Encoding of columns; see learnt_columns.h. */
#include "train/data/learnt_columns.h"
#include "train/data/median.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECONDS_A_DAY 86400.0
#define DAYS_A_WEEK   7.0
#define DAYS_A_YEAR   365.2425
#define WIDEST_CODE   50

static const char *const kind_names[GD_COLUMN_KINDS] = {"number", "words", "code", "date"};

gd_cells gd__column_cells(const gd_column *c)
{
    static const gd_cells cells[GD_COLUMN_KINDS] = {GD_CELLS_NUMBERS, GD_CELLS_WORDS, GD_CELLS_WORDS,
                                                    GD_CELLS_DATES};
    return cells[c->kind];
}

const gd_column *gd__columns_code(const gd_columns *columns, int64_t k)
{
    const gd_column *c = columns->column;
    while (c->kind != GD_COLUMN_CODE || k-- > 0) c++;
    return c;
}

void gd__columns_close(gd_columns *columns)
{
    for (int i = 0; i < columns->count; i++) gd__words_free(columns->ctx, &columns->column[i].words);
    gd__free(columns->ctx, columns->column, (size_t)columns->count * sizeof *columns->column);
    *columns = (gd_columns){.ctx = columns->ctx};
}

/* ---- places ---- */

/* Numbers of a date: days and the cycles of year and week, the cycle of the day. */
static int64_t date_width(const gd_column *c) { return 1 + (c->day ? 4 : 0) + (c->clock ? 2 : 0); }

static void place(gd_columns *columns)
{
    columns->numbers = columns->codes = 0;
    for (int i = 0; i < columns->count; i++) {
        gd_column *c = &columns->column[i];
        c->at = columns->numbers;
        c->width = c->missing + (c->kind == GD_COLUMN_NUMBER  ? 1
                                 : c->kind == GD_COLUMN_WORDS ? c->words.count
                                 : c->kind == GD_COLUMN_DATE  ? date_width(c)
                                                              : 0);
        columns->numbers += c->width;
        columns->codes += c->kind == GD_COLUMN_CODE;
    }
}

/* ---- learning ---- */

typedef struct chosen {
    const int64_t *row; /* NULL: all */
    int64_t count;
} chosen;

static double cell_at(const gd_frame_column *f, const chosen *rows, int64_t i)
{
    return f->value[rows->row ? rows->row[i] : i];
}

static gd_status learn_median(gd_ctx *ctx, const gd_frame_column *f, const chosen *rows, gd_column *c)
{
    size_t bytes = (size_t)rows->count * sizeof(double);
    double *there = gd__alloc(ctx, bytes);
    if (!there) return GD_NOMEM;
    int64_t count = 0;
    for (int64_t i = 0; i < rows->count; i++)
        if (!isnan(cell_at(f, rows, i))) there[count++] = cell_at(f, rows, i);
    c->missing = count < rows->count;
    if (count) c->median = gd__median(there, count);
    gd__free(ctx, there, bytes);
    return GD_OK;
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Words that occur at least `least` times, in alphabetical order. */
static gd_status take_words(gd_ctx *ctx, const gd_frame_column *f, const int64_t *times, int64_t least,
                            gd_words *out)
{
    gd_status status = GD_OK;
    gd__words_free(ctx, out);
    for (int k = 0; k < f->words.count && !status; k++)
        if (times[k] >= least) status = gd__words_add(ctx, out, f->words.word[k], strlen(f->words.word[k]));
    if (!status && out->count) qsort(out->word, (size_t)out->count, sizeof *out->word, compare_words);
    return status;
}

/* Numbers for a code: 1.6 n^0.56, the rule of thumb of fastai. */
static int64_t code_size(int words)
{
    double size = round(1.6 * pow(words, 0.56));
    return size > WIDEST_CODE ? WIDEST_CODE : (int64_t)size;
}

static gd_status learn_words(gd_ctx *ctx, const gd_frame_column *f, const chosen *rows, gd_column *c)
{
    size_t bytes = ((size_t)f->words.count + 1) * sizeof(int64_t);
    int64_t *times = gd__calloc(ctx, bytes);
    if (!times) return GD_NOMEM;
    for (int64_t i = 0; i < rows->count; i++) {
        double word = cell_at(f, rows, i);
        if (isnan(word))
            c->missing = true;
        else
            times[(int)word]++;
    }
    c->kind = GD_COLUMN_WORDS;
    gd_status status = take_words(ctx, f, times, 1, &c->words);
    if (!status && c->words.count > GD_ONE_HOT) {
        c->kind = GD_COLUMN_CODE;
        status = take_words(ctx, f, times, 2, &c->words);
        c->size = code_size(c->words.count + 1);
    }
    gd__free(ctx, times, bytes);
    return status;
}

static gd_status learn(gd_ctx *ctx, const gd_frame_column *f, const chosen *rows, gd_column *c)
{
    gd_status status;
    if (f->kind == GD_CELLS_WORDS) {
        status = learn_words(ctx, f, rows, c);
        if (!status && !c->words.count)
            return gd_fail(ctx, GD_FORMAT,
                           "column '%.60s': no word is there twice: nothing to learn from; leave it out with "
                           "{ignore} '%.60s'",
                           f->name, f->name);
        return status;
    }
    status = learn_median(ctx, f, rows, c);
    if (f->kind != GD_CELLS_DATES) return status;
    c->kind = GD_COLUMN_DATE;
    c->day = f->day;
    c->clock = f->clock || !f->day;
    return status;
}

static gd_status make_columns(gd_ctx *ctx, int count, gd_columns *out)
{
    *out = (gd_columns){.ctx = ctx};
    if (count && !(out->column = gd__calloc(ctx, (size_t)count * sizeof *out->column))) return GD_NOMEM;
    out->count = count;
    return GD_OK;
}

gd_status gd__columns_learn(gd_ctx *ctx, const gd_frame *frame, const int64_t *rows, int64_t count,
                            gd_columns *out)
{
    const chosen from = {.row = rows, .count = rows ? count : frame->rows};
    gd_status status = make_columns(ctx, frame->count, out);
    for (int i = 0; i < out->count && !status; i++)
        status = learn(ctx, &frame->column[i], &from, &out->column[i]);
    if (!status) place(out);
    return status;
}

/* ---- applying ---- */

/* A column being written: its frame, its first number in the first row, the numbers from row to row. */
typedef struct writer {
    const gd_column *c;
    const gd_frame_column *f;
    double *to;
    int64_t rows, stride;
} writer;

static void write_numbers(const writer *w)
{
    for (int64_t i = 0; i < w->rows; i++)
        w->to[i * w->stride] = isnan(w->f->value[i]) ? w->c->median : w->f->value[i];
}

static double *put_cycle(double *to, double part)
{
    double angle = isnan(part) ? NAN : 2 * 3.14159265358979323846 * part;
    *to++ = isnan(part) ? 0 : sin(angle);
    *to++ = isnan(part) ? 0 : cos(angle);
    return to;
}

static void write_dates(const writer *w)
{
    for (int64_t i = 0; i < w->rows; i++) {
        double seconds = w->f->value[i], *to = w->to + i * w->stride;
        *to++ = (isnan(seconds) ? w->c->median : seconds) / SECONDS_A_DAY;
        if (w->c->day) {
            to = put_cycle(to, seconds / SECONDS_A_DAY / DAYS_A_YEAR);
            to = put_cycle(to, floor(seconds / SECONDS_A_DAY) / DAYS_A_WEEK);
        }
        if (w->c->clock) (void)put_cycle(to, seconds / SECONDS_A_DAY);
    }
}

/* From a word of the frame to the learnt one; -1: not learnt.  New: of as many as the frame has. */
static int *match_words(gd_ctx *ctx, const gd_column *c, const gd_frame_column *f)
{
    gd_name_index index = {.first_again = -1};
    int *place = gd__alloc(ctx, ((size_t)f->words.count + 1) * sizeof *place);
    if (!place) return NULL;
    if (gd__name_index_build(ctx, c->words.word, c->words.count, &index)) {
        gd__free(ctx, place, ((size_t)f->words.count + 1) * sizeof *place);
        return NULL;
    }
    for (int k = 0; k < f->words.count; k++)
        place[k] = gd__name_index_find(&index, c->words.word, f->words.word[k]);
    gd__name_index_free(ctx, &index);
    return place;
}

/* code: where the code of the first row goes, for those. */
static gd_status write_words(gd_ctx *ctx, const writer *w, double *code)
{
    int *place = match_words(ctx, w->c, w->f);
    if (!place) return GD_NOMEM;
    for (int64_t i = 0; i < w->rows; i++) {
        int word = isnan(w->f->value[i]) ? -1 : place[(int)w->f->value[i]];
        if (w->c->kind == GD_COLUMN_CODE)
            code[i * w->stride] = word + 1;
        else if (word >= 0)
            w->to[i * w->stride + word] = 1;
    }
    gd__free(ctx, place, ((size_t)w->f->words.count + 1) * sizeof *place);
    return GD_OK;
}

static gd_status write_column(gd_ctx *ctx, const writer *w, double *code)
{
    if (w->c->missing) {
        double *to = w->to + w->c->width - 1;
        for (int64_t i = 0; i < w->rows; i++) to[i * w->stride] = isnan(w->f->value[i]);
    }
    if (w->f->kind == GD_CELLS_WORDS) return write_words(ctx, w, code);
    (w->c->kind == GD_COLUMN_DATE ? write_dates : write_numbers)(w);
    return GD_OK;
}

gd_tensor *gd__columns_apply(const gd_columns *columns, const gd_frame *frame)
{
    int64_t width = columns->numbers + columns->codes, code = columns->numbers;
    gd_ctx *ctx = columns->ctx;
    gd_tensor *x = gd_zeros(ctx, GD_F64, 2, (int64_t[]){frame->rows, width});
    if (!x) return NULL;
    double *data = gd_data_mut(x);
    for (int i = 0; i < columns->count; i++) {
        const gd_column *c = &columns->column[i];
        writer w = {c, &frame->column[i], data + c->at, frame->rows, width};
        if (write_column(ctx, &w, data + code)) {
            gd_release(x);
            return NULL;
        }
        code += c->kind == GD_COLUMN_CODE;
    }
    return x;
}

/* ---- standardising ---- */

static bool is_quantity(const gd_column *c)
{
    return c->kind == GD_COLUMN_NUMBER || c->kind == GD_COLUMN_DATE;
}

/* If all quantities are alike, their common mean and deviation. */
static void measure_all(const gd_columns *columns, const double *data, int64_t rows, double *mean,
                        double *scale)
{
    int64_t width = columns->numbers + columns->codes;
    double sum = 0, square = 0, count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < columns->count; i++) {
            const gd_column *c = &columns->column[i];
            for (int64_t row = 0; row < rows && is_quantity(c); row++) {
                double off = data[row * width + c->at] - (pass ? sum / count : 0);
                if (pass)
                    square += off * off;
                else
                    sum += off, count++;
            }
        }
    *mean = count > 0 ? sum / count : 0;
    *scale = count > 0 && square > 0 ? sqrt(square / count) : 1;
}

gd_status gd__columns_scaling(const gd_columns *columns, gd_tensor *x, gd_standardise how, gd_scaling *out)
{
    gd_status status = gd__scaling_measure(x, how == GD_SCALE_NONE ? how : GD_SCALE_EACH, out);
    if (status || !out->mean) return status;
    double *mean = gd_data_mut(out->mean), *scale = gd_data_mut(out->scale), all[2] = {0, 1};
    if (how == GD_SCALE_ALL) measure_all(columns, gd_data(x), gd_size(x, 0), &all[0], &all[1]);
    int64_t at = 0;
    for (int i = 0; i < columns->count; i++) {
        const gd_column *c = &columns->column[i];
        for (; at < c->at + c->width; at++) {
            bool quantity = at == c->at && is_quantity(c);
            if (quantity && how == GD_SCALE_EACH) continue;
            mean[at] = quantity ? all[0] : 0;
            scale[at] = quantity ? all[1] : 1;
        }
    }
    for (; at < columns->numbers + columns->codes; at++) mean[at] = 0, scale[at] = 1;
    return GD_OK;
}

gd_status gd__columns_numbers(gd_ctx *ctx, int count, gd_columns *out)
{
    gd_status status = make_columns(ctx, count, out);
    for (int i = 0; i < out->count; i++) out->column[i].median = NAN;
    place(out);
    return status;
}

/* ---- for people ---- */

void gd__column_describe(gd_text *out, const gd_column *c)
{
    if (c->kind == GD_COLUMN_NUMBER) gd__text_add(out, ": a number");
    if (c->kind == GD_COLUMN_WORDS)
        gd__text_put(out, ": %d word%s", c->words.count, c->words.count == 1 ? "" : "s");
    if (c->kind == GD_COLUMN_CODE)
        gd__text_put(out, ": %d words, %lld numbers are learnt for each", c->words.count, (long long)c->size);
    if (c->kind == GD_COLUMN_DATE)
        gd__text_add(out, !c->day    ? ": time of day"
                          : c->clock ? ": date, part of the year, the week and the day"
                                     : ": date, part of the year and the week");
    if (c->missing && is_quantity(c))
        gd__text_put(out, "; missing ones count as %.6g and are marked",
                     c->kind == GD_COLUMN_DATE ? c->median / SECONDS_A_DAY : c->median);
    else if (c->missing)
        gd__text_add(out, "; missing ones are marked");
}

/* ---- on disk ---- */

void gd__columns_print(gd_text *out, const gd_columns *columns)
{
    gd__text_char(out, '[');
    for (int i = 0; i < columns->count; i++) {
        const gd_column *c = &columns->column[i];
        gd__text_add(out, i ? ", {" : "{");
        gd__json_put_string(out, "kind", kind_names[c->kind]);
        gd__json_put_whole(out, "missing", c->missing);
        if (is_quantity(c)) gd__json_put_number(out, "median", c->median);
        if (c->kind == GD_COLUMN_DATE) gd__json_put_whole(out, "day", c->day);
        if (c->kind == GD_COLUMN_DATE) gd__json_put_whole(out, "clock", c->clock);
        if (c->kind == GD_COLUMN_CODE) gd__json_put_whole(out, "size", c->size);
        if (!is_quantity(c)) {
            gd__json_key(out, "words");
            gd__words_print(out, &c->words);
        }
        gd__text_char(out, '}');
    }
    gd__text_char(out, ']');
}

static bool read_whole(const json_t *object, const char *key, int64_t low, int64_t high, int64_t *out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= low && *out <= high;
}

static gd_status read_one(gd_ctx *ctx, const json_t *object, gd_column *c)
{
    const char *kind = json_string_value(json_object_get(object, "kind"));
    int64_t missing, day = 0, clock = 0;
    int k = 0;
    while (kind && k < GD_COLUMN_KINDS && strcmp(kind_names[k], kind) != 0) k++;
    bool good = kind && k < GD_COLUMN_KINDS && read_whole(object, "missing", 0, 1, &missing);
    if (!good) return gd_fail(ctx, GD_FORMAT, "a column expected");
    c->kind = (gd_column_kind)k;
    c->missing = missing;
    const json_t *median = json_object_get(object, "median");
    if (is_quantity(c)) good = json_is_number(median) && isfinite(c->median = json_number_value(median));
    if (c->kind == GD_COLUMN_DATE)
        good = good && read_whole(object, "day", 0, 1, &day) && read_whole(object, "clock", 0, 1, &clock);
    c->day = day;
    c->clock = clock;
    if (c->kind == GD_COLUMN_CODE) good = read_whole(object, "size", 1, 1000000, &c->size);
    if (!good) return gd_fail(ctx, GD_FORMAT, "a column expected");
    return is_quantity(c) ? GD_OK : gd__words_read(ctx, json_object_get(object, "words"), &c->words);
}

gd_status gd__columns_read(gd_ctx *ctx, const json_t *list, gd_columns *out)
{
    if (!json_is_array(list)) return gd_fail(ctx, GD_FORMAT, "a list of columns expected");
    gd_status status = make_columns(ctx, (int)json_array_size(list), out);
    for (int i = 0; i < out->count && !status; i++)
        status = read_one(ctx, json_array_get(list, (size_t)i), &out->column[i]);
    if (!status) place(out);
    return status;
}
