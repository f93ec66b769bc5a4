/* From addresses to numbers. */
#include "base/text/address_map.h"

#include <string.h>

void gd__map_put(gd_map *t, const void *key, int number)
{
    size_t i = gd__map_start(t, key);
    while (t->item[i].key) i = (i + 1) & (size_t)(t->size - 1);
    t->item[i] = (gd_map_item){.key = key, .number = number};
    t->used++;
}

gd_status gd__map_reserve(gd_ctx *ctx, gd_map *t)
{
    if (2 * (t->used + 1) <= t->size) return GD_OK;
    gd_map grown = {.size = t->size ? 2 * t->size : 16};
    grown.item = gd__calloc(ctx, (size_t)grown.size * sizeof *grown.item);
    if (!grown.item) return GD_NOMEM;
    for (int i = 0; i < t->size; i++)
        if (t->item[i].key) gd__map_put(&grown, t->item[i].key, t->item[i].number);
    gd__map_free(ctx, t);
    *t = grown;
    return GD_OK;
}

void gd__map_clear(gd_map *t)
{
    if (t->size) memset(t->item, 0, (size_t)t->size * sizeof *t->item);
    t->used = 0;
}

void gd__map_free(gd_ctx *ctx, gd_map *t)
{
    gd__free(ctx, t->item, (size_t)t->size * sizeof *t->item);
    *t = (gd_map){0};
}
