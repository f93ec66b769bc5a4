/* From addresses to numbers. */
#include "base/text/table.h"

#include <string.h>

void gd__table_put(gd_table *t, const void *key, int number)
{
    size_t i = gd__table_start(t, key);
    while (t->item[i].key) i = (i + 1) & (size_t)(t->size - 1);
    t->item[i] = (gd_table_item){.key = key, .number = number};
    t->used++;
}

gd_status gd__table_reserve(gd_ctx *ctx, gd_table *t)
{
    if (2 * (t->used + 1) <= t->size) return GD_OK;
    gd_table grown = {.size = t->size ? 2 * t->size : 16};
    grown.item = gd__calloc(ctx, (size_t)grown.size * sizeof *grown.item);
    if (!grown.item) return GD_NOMEM;
    for (int i = 0; i < t->size; i++)
        if (t->item[i].key) gd__table_put(&grown, t->item[i].key, t->item[i].number);
    gd__table_free(ctx, t);
    *t = grown;
    return GD_OK;
}

void gd__table_clear(gd_table *t)
{
    if (t->size) memset(t->item, 0, (size_t)t->size * sizeof *t->item);
    t->used = 0;
}

void gd__table_free(gd_ctx *ctx, gd_table *t)
{
    gd__free(ctx, t->item, (size_t)t->size * sizeof *t->item);
    *t = (gd_table){0};
}
