/* Classes; see labels.h. */
#include "table/labels.h"
#include "base/text/number.h"
#include "base/text/scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST 100000

static gd_status add_name(gd_class_names *l, const char *name)
{
    const char *word = gd__intern(l->ctx, name, strlen(name));
    if (!word) return GD_NOMEM;
    if (gd__map_find(&l->seen, word) >= 0) return GD_OK;
    if (l->names.count >= MOST) return gd_fail(l->ctx, GD_FORMAT, "more than %d classes", MOST);
    gd_status status = gd__map_reserve(l->ctx, &l->seen);
    if (!status) status = gd__words_add(l->ctx, &l->names, word, strlen(word));
    if (!status) gd__map_put(&l->seen, word, l->names.count - 1);
    return status;
}

gd_status gd__labels_add(gd_class_names *l, const gd_frame_column *c, int64_t rows)
{
    gd_status status = GD_OK;
    for (int k = 0; k < c->words.count && !status; k++) status = add_name(l, c->words.word[k]);
    double last = NAN;
    for (int64_t i = 0; i < rows && !status && c->kind == GD_CELLS_NUMBERS; i++) {
        char text[GD_NUMBER_SIZE];
        if (c->value[i] == last) continue;
        status = add_name(l, gd__number_text(last = c->value[i], text));
    }
    return status;
}

static double value_of(const char *name)
{
    double value = 0;
    (void)gd__is_number(name, strlen(name), false, &value);
    return value;
}

static int by_value(const void *a, const void *b)
{
    double x = value_of(*(const char *const *)a), y = value_of(*(const char *const *)b);
    return x < y ? -1 : x > y;
}

static int by_letters(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

gd_status gd__labels_take(gd_class_names *l, bool numeric, gd_words *out)
{
    if (l->names.count < 2)
        return gd_fail(l->ctx, GD_FORMAT, "every row is of class '%.60s': nothing to tell apart",
                       l->names.count ? l->names.word[0] : "");
    qsort(l->names.word, (size_t)l->names.count, sizeof *l->names.word, numeric ? by_value : by_letters);
    gd__words_free(l->ctx, out);
    *out = l->names;
    l->names = (gd_words){0};
    return GD_OK;
}

void gd__labels_close(gd_class_names *l)
{
    gd__map_free(l->ctx, &l->seen);
    gd__words_free(l->ctx, &l->names);
}

static gd_status no_class(gd_ctx *ctx, const char *source, const char *name)
{
    return gd_fail(ctx, GD_FORMAT, "%s: the model knows no class '%.60s'", source, name);
}

/* Numeric classes are sorted: finds a value by bisection. */
static gd_status number_values(gd_ctx *ctx, const char *source, const double *value, int64_t rows,
                               const gd_words *classes, int64_t *out)
{
    size_t bytes = (size_t)classes->count * sizeof(double);
    double *known = gd__alloc(ctx, bytes);
    gd_status status = known ? GD_OK : GD_NOMEM;
    for (int k = 0; k < classes->count && known; k++) known[k] = value_of(classes->word[k]);
    for (int64_t i = 0; i < rows && !status; i++) {
        int low = 0, high = classes->count - 1;
        while (low < high) {
            int middle = (low + high) / 2;
            if (known[middle] < value[i])
                low = middle + 1;
            else
                high = middle;
        }
        char text[GD_NUMBER_SIZE];
        out[i] = low;
        if (known[low] != value[i]) status = no_class(ctx, source, gd__number_text(value[i], text));
    }
    gd__free(ctx, known, known ? bytes : 0);
    return status;
}

static gd_status number_words(gd_ctx *ctx, const char *source, const gd_frame_column *c, int64_t rows,
                              const gd_words *classes, int64_t *out)
{
    gd_name_index index = {.first_again = -1};
    gd_status status = gd__name_index_build(ctx, classes->word, classes->count, &index);
    size_t bytes = ((size_t)c->words.count + 1) * sizeof(int);
    int *place = status ? NULL : gd__alloc(ctx, bytes);
    if (!status && !place) status = GD_NOMEM;
    for (int k = 0; k < c->words.count && !status; k++) {
        place[k] = gd__name_index_find(&index, classes->word, c->words.word[k]);
        if (place[k] < 0) status = no_class(ctx, source, c->words.word[k]);
    }
    for (int64_t i = 0; i < rows && !status; i++) out[i] = place[(int)c->value[i]];
    gd__free(ctx, place, place ? bytes : 0);
    gd__name_index_free(ctx, &index);
    return status;
}

gd_status gd__labels_number(gd_ctx *ctx, const char *source, const gd_frame_column *c, int64_t rows,
                            bool numeric, const gd_words *classes, int64_t *out)
{
    return numeric ? number_values(ctx, source, c->value, rows, classes, out)
                   : number_words(ctx, source, c, rows, classes, out);
}
