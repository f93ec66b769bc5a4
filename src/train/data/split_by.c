/* Validation rows that are later, or of other groups, than the training rows; see row_split.h. */
#include "train/data/row_split.h"

#include <stdlib.h>
#include <string.h>

gd_status gd__split_parse(gd_ctx *ctx, const char *text, gd_row_split *out)
{
    static const char *const names[] = {"random", "ordered", "group"};
    size_t length = strcspn(text, ":");
    const char *column = text[length] ? text + length + 1 : NULL;
    int k = 0;
    while (k < 3 && (strlen(names[k]) != length || memcmp(names[k], text, length) != 0)) k++;
    bool wants = k == GD_SPLIT_GROUP, may = wants || k == GD_SPLIT_ORDERED;
    if (k == 3 || (column && (!may || !*column)) || (!column && wants))
        return gd_fail(ctx, GD_ARGUMENT,
                       "{split}: '%.60s' is none of random, ordered, ordered:COLUMN and group:COLUMN", text);
    *out = (gd_row_split){.kind = (gd_split_kind)k, .column = column};
    return GD_OK;
}

/* ---- sorting ---- */

typedef struct place {
    double key;
    int64_t rank, row; /* rank decides where keys are equal */
} place;

static int compare_places(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* The rows of order by their keys, equal ones as they were. */
static gd_status sort_by_key(gd_ctx *ctx, const double *key, int64_t *order, int64_t count)
{
    place *all = gd__alloc_array(ctx, (size_t)count, sizeof *all);
    if (!all) return GD_NOMEM;
    for (int64_t i = 0; i < count; i++)
        all[i] = (place){.key = key ? key[order[i]] : (double)order[i], .rank = i, .row = order[i]};
    qsort(all, (size_t)count, sizeof *all, compare_places);
    for (int64_t i = 0; i < count; i++) order[i] = all[i].row;
    gd__free(ctx, all, (size_t)count * sizeof *all);
    return GD_OK;
}

/* ---- groups ---- */

typedef struct group {
    int64_t first, count, rank; /* in the order; which fold it is of, or whether it is apart */
} group;

typedef struct groups {
    group *all;
    int64_t count, room;
} groups;

/* Runs of rows with the same key. */
static gd_status find_groups(gd_ctx *ctx, const double *key, const int64_t *order, int64_t count, groups *out)
{
    *out = (groups){.room = count ? count : 1};
    if (!(out->all = gd__alloc_array(ctx, (size_t)out->room, sizeof *out->all))) return GD_NOMEM;
    for (int64_t i = 0; i < count; i++) {
        bool next = !i || key[order[i]] != key[order[i - 1]];
        if (next) out->all[out->count++] = (group){.first = i};
        out->all[out->count - 1].count++;
    }
    return GD_OK;
}

static void free_groups(gd_ctx *ctx, groups *g)
{
    gd__free(ctx, g->all, g->all ? (size_t)g->room * sizeof *g->all : 0);
}

/* The groups whose rank is `first`, then the others, each as they were; rows of the first in *apart. */
static gd_status bring_groups_forward(gd_ctx *ctx, const groups *g, int64_t first, int64_t *order,
                                      int64_t count, int64_t *apart)
{
    int64_t *before = gd__alloc_array(ctx, (size_t)count, sizeof *before), at = 0;
    if (!before) return GD_NOMEM;
    memcpy(before, order, (size_t)count * sizeof *order);
    for (int side = 0; side < 2; side++) {
        for (int64_t k = 0; k < g->count; k++) {
            const group *one = &g->all[k];
            if ((one->rank == first) != !side) continue;
            memcpy(order + at, before + one->first, (size_t)one->count * sizeof *order);
            at += one->count;
        }
        if (!side) *apart = at;
    }
    gd__free(ctx, before, (size_t)count * sizeof *before);
    return GD_OK;
}

/* Groups one after the other in an order of the seed. */
static gd_status shuffle_groups(gd_ctx *ctx, const gd_row_split *split, int64_t *order, int64_t count)
{
    groups g;
    gd_status status = sort_by_key(ctx, split->key, order, count);
    if (!status) status = find_groups(ctx, split->key, order, count, &g);
    if (status) return status;
    size_t bytes = (size_t)(count + g.count) * sizeof *order;
    int64_t *turn = gd__alloc(ctx, bytes), *before = turn + g.count, at = 0;
    if (turn) {
        memcpy(before, order, (size_t)count * sizeof *order);
        gd__shuffle(turn, g.count, split->seed, 0);
        for (int64_t k = 0; k < g.count; k++) {
            const group *one = &g.all[turn[k]];
            memcpy(order + at, before + one->first, (size_t)one->count * sizeof *order);
            at += one->count;
        }
    }
    gd__free(ctx, turn, turn ? bytes : 0);
    free_groups(ctx, &g);
    return turn ? GD_OK : GD_NOMEM;
}

/* Marks groups with about `wanted` rows by rank 1: each that brings their number nearer; at least one, never all. */
static void choose_groups(groups *g, int64_t wanted)
{
    int64_t taken = 0, chosen = 0, smallest = 0;
    for (int64_t k = 0; k < g->count; k++) {
        group *one = &g->all[k];
        one->rank = llabs(taken + one->count - wanted) < llabs(taken - wanted) && chosen + 1 < g->count;
        if (one->rank) taken += one->count, chosen++;
        if (one->count < g->all[smallest].count) smallest = k;
    }
    if (!chosen && wanted && g->count > 1) g->all[smallest].rank = 1;
}

static int larger_first(const void *a, const void *b)
{
    const group *x = a, *y = b;
    if (x->count != y->count) return x->count > y->count ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Gives every group its fold as rank: the largest first, each to the fold with the fewest rows. */
static gd_status deal_groups(gd_ctx *ctx, groups *g, int64_t folds)
{
    if (g->count < folds)
        return gd_fail(ctx, GD_ARGUMENT, "train: {folds} %lld: {split} finds %lld groups", (long long)folds,
                       (long long)g->count);
    int64_t *rows = gd__calloc(ctx, (size_t)folds * sizeof *rows);
    if (!rows) return GD_NOMEM;
    qsort(g->all, (size_t)g->count, sizeof *g->all, larger_first);
    for (int64_t i = 0; i < g->count; i++) {
        int64_t least = 0;
        for (int64_t k = 1; k < folds; k++)
            if (rows[k] < rows[least]) least = k;
        g->all[i].rank = least;
        rows[least] += g->all[i].count;
    }
    gd__free(ctx, rows, (size_t)folds * sizeof *rows);
    return GD_OK;
}

static gd_status split_groups(gd_ctx *ctx, const gd_row_split *split, int64_t *order, int64_t count,
                              double share, int64_t *apart)
{
    groups g;
    gd_status status = find_groups(ctx, split->key, order, count, &g);
    if (status) return status;
    choose_groups(&g, (int64_t)((double)count * share));
    status = bring_groups_forward(ctx, &g, 1, order, count, apart);
    free_groups(ctx, &g);
    return status;
}

static gd_status fold_of_groups(gd_ctx *ctx, const gd_row_split *split, int64_t *order, int64_t count,
                                int64_t folds, int64_t k, int64_t *apart)
{
    groups g;
    gd_status status = find_groups(ctx, split->key, order, count, &g);
    if (status) return status;
    status = deal_groups(ctx, &g, folds);
    if (!status) status = bring_groups_forward(ctx, &g, k, order, count, apart);
    free_groups(ctx, &g);
    return status;
}

/* ---- order ---- */

/* Rows from `at` on; those with the key of the row before go to it, unless that leaves none. */
static int64_t cut_at(const gd_row_split *split, const int64_t *order, int64_t count, int64_t at)
{
    int64_t cut = at;
    if (!split->key || at == 0 || at == count) return at;
    while (cut < count && split->key[order[cut]] == split->key[order[cut - 1]]) cut++;
    if (cut < count) return cut;
    for (cut = at; cut > 0 && split->key[order[cut]] == split->key[order[cut - 1]];) cut--;
    return cut ? cut : at;
}

/* [from, to) of the order first, then [0, from). */
static gd_status bring_block_forward(gd_ctx *ctx, int64_t *order, int64_t from, int64_t to)
{
    int64_t *before = gd__alloc_array(ctx, (size_t)to + 1, sizeof *before);
    if (!before) return GD_NOMEM;
    memcpy(before, order, (size_t)to * sizeof *order);
    memcpy(order, before + from, (size_t)(to - from) * sizeof *order);
    memcpy(order + (to - from), before, (size_t)from * sizeof *order);
    gd__free(ctx, before, ((size_t)to + 1) * sizeof *before);
    return GD_OK;
}

static gd_status split_ordered(gd_ctx *ctx, const gd_row_split *split, int64_t *order, int64_t count,
                               double share, int64_t *apart)
{
    int64_t from = cut_at(split, order, count, count - (int64_t)((double)count * share));
    *apart = count - from;
    return bring_block_forward(ctx, order, from, count);
}

/* ---- all of them ---- */

gd_status gd__split_by_more(gd_ctx *ctx, const gd_row_split *split, int64_t *order, int64_t count,
                            double share, int64_t *apart)
{
    if (split->kind == GD_SPLIT_ORDERED) return split_ordered(ctx, split, order, count, share, apart);
    if (split->kind == GD_SPLIT_GROUP) return split_groups(ctx, split, order, count, share, apart);
    return gd__split_more(ctx, order, count, share, &split->classes, apart);
}

/* All rows in the order in which splits are taken. */
static gd_status begin_order(gd_ctx *ctx, const gd_row_split *split, int64_t *order, int64_t count)
{
    for (int64_t i = 0; i < count; i++) order[i] = i;
    return (split->kind == GD_SPLIT_GROUP ? shuffle_groups(ctx, split, order, count)
                                          : sort_by_key(ctx, split->key, order, count));
}

gd_status gd__split_by(gd_ctx *ctx, const gd_row_split *split, int64_t *order, int64_t count, double share,
                       int64_t *apart)
{
    if (split->kind == GD_SPLIT_RANDOM)
        return gd__split_rows(ctx, order, count, split->seed, share, &split->classes, apart);
    gd_status status = begin_order(ctx, split, order, count);
    return status ? status : gd__split_by_more(ctx, split, order, count, share, apart);
}

gd_status gd__split_by_fold(gd_ctx *ctx, const gd_row_split *split, int64_t *order, int64_t count,
                            int64_t folds, int64_t k, int64_t *apart, int64_t *learn)
{
    gd_status status;
    *apart = *learn = 0;
    if (split->kind == GD_SPLIT_RANDOM) {
        status = gd__split_fold(ctx, order, count, split->seed, folds, k, &split->classes, apart);
    } else {
        status = begin_order(ctx, split, order, count);
        if (!status && split->kind == GD_SPLIT_GROUP)
            status = fold_of_groups(ctx, split, order, count, folds, k, apart);
    }
    *learn = count - *apart;
    if (status || split->kind != GD_SPLIT_ORDERED) return status;
    int64_t from = cut_at(split, order, count, count * (k + 1) / (folds + 1));
    int64_t to = cut_at(split, order, count, count * (k + 2) / (folds + 1));
    if (to <= from || !from)
        return gd_fail(ctx, GD_ARGUMENT, "train: {folds} %lld: too few different values to order rows by",
                       (long long)folds);
    *apart = to - from;
    *learn = from;
    return bring_block_forward(ctx, order, from, to);
}
