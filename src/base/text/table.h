/* From addresses to numbers: where a parameter stands in a list. */
#ifndef GD_BASE_TABLE_H
#define GD_BASE_TABLE_H

#include "base/ctx.h"

typedef struct gd_table_item {
    const void *key; /* NULL: free */
    int32_t number;
} gd_table_item;

/* Open addressing, at most half full.  A zeroed one is empty. */
typedef struct gd_table {
    gd_table_item *item;
    int size, used;
} gd_table;

static inline size_t gd__table_start(const gd_table *t, const void *key)
{
    return (size_t)(((uintptr_t)key >> 6) * 0x9E3779B97F4A7C15u >> 20) & (size_t)(t->size - 1);
}

/* The number of a key, -1 if it is not there. */
static inline int gd__table_find(const gd_table *t, const void *key)
{
    if (!t->size) return -1;
    size_t i = gd__table_start(t, key);
    while (t->item[i].key && t->item[i].key != key) i = (i + 1) & (size_t)(t->size - 1);
    return t->item[i].key ? t->item[i].number : -1;
}

/* Room for one key more, so that the next put cannot fail. */
gd_status gd__table_reserve(gd_ctx *ctx, gd_table *t);
void gd__table_put(gd_table *t, const void *key, int number); /* a key that is not there */
void gd__table_clear(gd_table *t);                            /* keeps its memory */
void gd__table_free(gd_ctx *ctx, gd_table *t);

#endif
