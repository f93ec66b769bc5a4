/* State of a link as a whole; link_state.c has the state per parameter. */
#include "optim/link/owner.h"

#include <string.h>

gd_global *gd__global_find(const gd_link *link, const char *name)
{
    if (!name) return NULL;
    /* the same address usually has the same text */
    for (int i = 0; i < link->globals; i++)
        if (link->global[i]->asked == name && !strcmp(link->global[i]->name, name)) return link->global[i];
    for (int i = 0; i < link->globals; i++) {
        const char *other = link->global[i]->name;
        if (other[0] != name[0] || strcmp(other, name) != 0) continue;
        link->global[i]->asked = name;
        return link->global[i];
    }
    return NULL;
}

/* Each in its own block, because callers hold addresses. */
static gd_global *add_global(gd_link *link, const char *name)
{
    gd_ctx *ctx = link->head.ctx;
    size_t n = (size_t)link->globals;
    const char *interned = gd__intern(ctx, name, strlen(name));
    gd_global *g = interned ? gd__calloc(ctx, sizeof *g) : NULL;
    gd_global **list = g ? gd__realloc(ctx, link->global, n * sizeof *list, (n + 1) * sizeof *list) : NULL;
    if (!list) {
        gd__free(ctx, g, sizeof *g);
        return NULL;
    }
    g->name = interned;
    link->global = list;
    return list[link->globals++] = g;
}

void gd__global_put(gd_link *link, gd_global *g, gd_tensor *t, gd_column_owners *columns)
{
    gd__release(g->tensor);
    if (g->columns && g->columns != columns)
        gd__free(link->head.ctx, g->columns, gd__columns_size(g->columns->runs));
    g->tensor = t;
    g->columns = columns;
}

void gd__globals_free(gd_link *link)
{
    gd_ctx *ctx = link->head.ctx;
    for (int i = 0; i < link->globals; i++) {
        gd__global_put(link, link->global[i], NULL, NULL);
        gd__free(ctx, link->global[i], sizeof *link->global[i]);
    }
    gd__free(ctx, link->global, (size_t)link->globals * sizeof *link->global);
    link->global = NULL;
    link->globals = 0;
}

double *gd_link_global(gd_link *link, const char *name, double first)
{
    if (!link || !name) return gd__none(gd__null(gd_link_ctx(link), "link: the name of a state is NULL"));
    gd_global *g = gd__global_find(link, name);
    if (!g && (g = add_global(link, name))) g->value = first;
    return g ? &g->value : NULL;
}

double gd_link_kept(const gd_link *link, const char *name, double first)
{
    const gd_global *g = link ? gd__global_find(link, name) : NULL;
    return g ? g->value : first;
}

gd_status gd_link_keep(gd_link *link, const char *name, double value)
{
    double *place = gd_link_global(link, name, value);
    if (!place) return link ? gd_error(link->head.ctx) : GD_ARGUMENT;
    *place = value;
    return GD_OK;
}

bool gd_link_has_global(const gd_link *link, const char *name)
{
    return link && gd__global_find(link, name) != NULL;
}

gd_tensor *gd_link_global_tensor(gd_link *link, const char *name)
{
    if (!link) return NULL;
    gd_global *g = gd__global_find(link, name);
    if (g && g->columns && link->optimizer && link->optimizer->shared.call->columns_whole(link, g))
        return NULL;
    return g ? g->tensor : NULL;
}

gd_status gd_link_set_global_tensor(gd_link *link, const char *name, gd_tensor *value)
{
    if (!link || !name) return gd__null(gd_link_ctx(link), "link: the name of a state is NULL");
    if (!value && gd_error(link->head.ctx)) return gd_error(link->head.ctx);
    gd_global *g = gd__global_find(link, name);
    if (!g && !(g = add_global(link, name))) return GD_NOMEM;
    gd__retain(value);
    gd__global_put(link, g, value, NULL);
    return GD_OK;
}
