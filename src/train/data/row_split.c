/* Splitting rows; see row_split.h. */
#include "train/data/row_split.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

void gd__shuffle(int64_t *order, int64_t count, int64_t seed, int64_t stream)
{
    /* a separate key, so that no random number is used twice: the context's generator uses the seed itself */
    uint64_t key = (uint64_t)seed ^ UINT64_C(0x5368756666C3A921), first = (uint64_t)stream << 40;
    for (int64_t i = 0; i < count; i++) order[i] = i;
    for (int64_t i = count - 1; i > 0; i--) {
        uint32_t word[4];
        gd__philox(key, first + (uint64_t)i, word);
        int64_t k = (int64_t)(gd__unit_f64(word[0], word[1]) * (double)(i + 1)), swapped = order[i];
        order[i] = order[k];
        order[k] = swapped;
    }
}

/* Rows of each class, then where its first one goes. */
static gd_status sort_by_class(gd_ctx *ctx, int64_t *order, int64_t count, const gd_classes *classes)
{
    size_t first_bytes = ((size_t)classes->count + 1) * sizeof(int64_t),
           bytes = (size_t)count * sizeof *order;
    int64_t *first = gd__calloc(ctx, first_bytes), *sorted = first ? gd__alloc(ctx, bytes) : NULL;
    if (sorted) {
        for (int64_t i = 0; i < count; i++) first[classes->of[i] + 1]++;
        for (int64_t k = 0; k < classes->count; k++) first[k + 1] += first[k];
        for (int64_t i = 0; i < count; i++) sorted[first[classes->of[order[i]]]++] = order[i];
        memcpy(order, sorted, bytes);
    }
    gd__free(ctx, sorted, sorted ? bytes : 0);
    gd__free(ctx, first, first ? first_bytes : 0);
    return sorted ? GD_OK : GD_NOMEM;
}

/* The same with the rows of each class one after the other: every k-th row is then a stratified sample. */
static gd_status shuffle_classes(gd_ctx *ctx, int64_t *order, int64_t count, int64_t seed,
                                 const gd_classes *classes)
{
    gd__shuffle(order, count, seed, 0);
    return classes->of ? sort_by_class(ctx, order, count, classes) : GD_OK;
}

/* Rows with `taken` set first, then the others, each in order. */
static gd_status bring_forward(gd_ctx *ctx, int64_t *order, int64_t count,
                               bool (*taken)(const void *user, int64_t place), const void *user,
                               int64_t *apart)
{
    size_t bytes = (size_t)count * sizeof *order;
    int64_t *rest = gd__alloc(ctx, bytes), others = 0;
    if (!rest) return GD_NOMEM;
    *apart = 0;
    for (int64_t i = 0; i < count; i++) {
        if (taken(user, i))
            order[(*apart)++] = order[i];
        else
            rest[others++] = order[i];
    }
    memcpy(order + *apart, rest, (size_t)others * sizeof *order);
    gd__free(ctx, rest, bytes);
    return GD_OK;
}

typedef struct sample {
    int64_t count, wanted;
    const int64_t *order;
    const gd_classes *classes;
} sample;

/* Evenly distributed indices: the i-th is taken where i * wanted / count passes a whole number. */
static bool is_sampled(const void *user, int64_t i)
{
    const sample *s = user;
    const int64_t *of = s->classes->of;
    if (!of) return i < s->wanted;
    bool alone = (!i || of[s->order[i - 1]] != of[s->order[i]]) &&
                 (i + 1 == s->count || of[s->order[i + 1]] != of[s->order[i]]);
    return !alone && (i + 1) * s->wanted / s->count > i * s->wanted / s->count;
}

gd_status gd__split_rows(gd_ctx *ctx, int64_t *order, int64_t count, int64_t seed, double share,
                         const gd_classes *classes, int64_t *apart)
{
    gd_status status = shuffle_classes(ctx, order, count, seed, classes);
    return status ? status : gd__split_more(ctx, order, count, share, classes, apart);
}

gd_status gd__split_more(gd_ctx *ctx, int64_t *order, int64_t count, double share, const gd_classes *classes,
                         int64_t *apart)
{
    size_t bytes = (size_t)count * sizeof *order;
    int64_t *before = gd__alloc(ctx, bytes);
    if (!before) return GD_NOMEM;
    memcpy(before, order, bytes);
    sample s = {
        .count = count, .wanted = (int64_t)((double)count * share), .order = before, .classes = classes};
    gd_status status = bring_forward(ctx, order, count, is_sampled, &s, apart);
    gd__free(ctx, before, bytes);
    return status;
}

static int compare_rows(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

void gd__sort_rows(int64_t *rows, int64_t count) { qsort(rows, (size_t)count, sizeof *rows, compare_rows); }

typedef struct fold {
    int64_t folds, k;
} fold;

static bool is_in_fold(const void *user, int64_t i)
{
    const fold *f = user;
    return i % f->folds == f->k;
}

gd_status gd__split_fold(gd_ctx *ctx, int64_t *order, int64_t count, int64_t seed, int64_t folds, int64_t k,
                         const gd_classes *classes, int64_t *apart)
{
    gd_status status = shuffle_classes(ctx, order, count, seed, classes);
    return status ? status : bring_forward(ctx, order, count, is_in_fold, &(fold){folds, k}, apart);
}
