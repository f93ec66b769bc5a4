/* A map from addresses to numbers, such as the position of a parameter in a list. */
#ifndef GD_BASE_ADDRESS_MAP_H
#define GD_BASE_ADDRESS_MAP_H

#include "base/ctx.h"

typedef struct gd_map_item {
    const void *key; /* NULL: free */
    int32_t number;
} gd_map_item;

/* Open addressing, at most half full.  A zeroed one is empty. */
typedef struct gd_map {
    gd_map_item *item;
    int size, used;
} gd_map;

static inline size_t gd__map_start(const gd_map *t, const void *key)
{
    return (size_t)(((uintptr_t)key >> 6) * 0x9E3779B97F4A7C15u >> 20) & (size_t)(t->size - 1);
}

/* The number of a key, -1 if it is not there. */
static inline int gd__map_find(const gd_map *t, const void *key)
{
    if (!t->size) return -1;
    size_t i = gd__map_start(t, key);
    while (t->item[i].key && t->item[i].key != key) i = (i + 1) & (size_t)(t->size - 1);
    return t->item[i].key ? t->item[i].number : -1;
}

/* Memory for one more key, so that the next put cannot fail. */
gd_status gd__map_reserve(gd_ctx *ctx, gd_map *t);
void gd__map_put(gd_map *t, const void *key, int number); /* a key that is not in the map */
void gd__map_clear(gd_map *t);                            /* keeps its memory */
void gd__map_free(gd_ctx *ctx, gd_map *t);

#endif
