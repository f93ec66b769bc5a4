/* Which link of a file is which link of a chain.
 *
 * The file knows its links by paths like "1:adam.0:clip_value": number and class of each child on the way.  Strict loading
 * requires the same places. Otherwise siblings are matched by class and order:
 *
 *     file   adam | lr                    here   clip_norm | adam | lr
 *
 * pairs adam with adam and lr with lr.  Of several ways the one that pairs most links without crossing is taken (a longest
 * common subsequence of the classes); the remaining ones are paired by class, at any place.  The children of
 * a pair are matched among each other; a chain among them is replaced by its links, so that one child may become several. */
#include "optim/state/state.h"

#include <stdlib.h>
#include <string.h>

/* A link here or in the file. */
typedef struct node {
    char *path; /* owned here, borrowed from the JSON there */
    const char *cls;
    gd_link *link;   /* NULL: in the file */
    int index, pair; /* among its siblings; in the other list, -1: none */
} node;

typedef struct nodes {
    node *item;
    int count, room;
} nodes;

typedef struct matching {
    gd_ctx *ctx;
    json_t *links, *map;
    bool strict;
} matching;

static gd_status add_node(gd_ctx *ctx, nodes *list, node n)
{
    if (!gd__reserve(ctx, &list->item, list->count, &list->room, sizeof *list->item)) return GD_NOMEM;
    n.pair = -1;
    list->item[list->count++] = n;
    return GD_OK;
}

static void free_nodes(gd_ctx *ctx, nodes *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->item[i].link) gd__strfree(ctx, list->item[i].path);
    gd__free(ctx, list->item, (size_t)list->room * sizeof *list->item);
}

/* ---- siblings ---- */

static gd_status add_here(matching *m, nodes *list, const char *parent, int index, gd_link *link)
{
    gd_text name = {.ctx = m->ctx};
    gd__text_put(&name, "%s%s%d:%s", parent, *parent ? "." : "", index, link->cls->name);
    char *path = name.failed ? NULL : gd__strdup(m->ctx, name.data);
    gd__text_free(&name);
    if (!path) return GD_NOMEM;
    gd_status status = add_node(m->ctx, list,
                                (node){.path = path, .cls = link->cls->name, .link = link, .index = index});
    if (status) gd__strfree(m->ctx, path);
    return status;
}

/* Replaces a chain at the end of a list by its links. */
static gd_status children_here(matching *m, gd_link *link, const char *path, nodes *list)
{
    gd_status status = GD_OK;
    for (int i = 0; i < link->children && !status; i++) {
        status = add_here(m, list, path, i, link->child[i]);
        if (status || !gd__is_chain(link->child[i])) continue;
        node chain = list->item[--list->count];
        status = children_here(m, chain.link, chain.path, list);
        gd__strfree(m->ctx, chain.path);
    }
    return status;
}

static int by_index(const void *a, const void *b)
{
    int x = ((const node *)a)->index, y = ((const node *)b)->index;
    return (x > y) - (x < y);
}

static gd_status direct_children(matching *m, const char *parent, nodes *list)
{
    size_t length = strlen(parent);
    const char *key;
    json_t *j;
    gd_status status = GD_OK;
    json_object_foreach(m->links, key, j)
    {
        if (length && (strncmp(key, parent, length) != 0 || key[length] != '.')) continue;
        const char *last = key + (length ? length + 1 : 0), *colon = strchr(last, ':');
        if (!colon || strchr(last, '.')) continue;
        node n = {.path = (char *)(uintptr_t)key, .cls = colon + 1, .index = (int)strtol(last, NULL, 10)};
        if ((status = add_node(m->ctx, list, n))) return status;
    }
    if (list->count) qsort(list->item, (size_t)list->count, sizeof *list->item, by_index);
    return GD_OK;
}

static gd_status children_there(matching *m, const char *parent, nodes *list)
{
    nodes direct = {0};
    gd_status status = direct_children(m, parent, &direct);
    for (int i = 0; i < direct.count && !status; i++)
        status = strcmp(direct.item[i].cls, "chain") == 0 ? children_there(m, direct.item[i].path, list)
                                                          : add_node(m->ctx, list, direct.item[i]);
    free_nodes(m->ctx, &direct);
    return status;
}

/* ---- pairs ---- */

static bool same_class(const node *a, const node *b) { return strcmp(a->cls, b->cls) == 0; }

static void pair(nodes *here, int i, nodes *there, int k)
{
    here->item[i].pair = k;
    there->item[k].pair = i;
}

/* In the order here, each with the first free one there: of the same class, or also in the same place. */
static void pair_free(nodes *here, nodes *there, bool same_place)
{
    for (int i = 0; i < here->count; i++)
        for (int k = 0; k < there->count && here->item[i].pair < 0; k++) {
            const node *a = &here->item[i], *b = &there->item[k];
            if (b->pair < 0 && same_class(a, b) && (!same_place || strcmp(a->path, b->path) == 0))
                pair(here, i, there, k);
        }
}

/* longest[i][k]: pairs that the links from i on and those of the file from k on can make without crossing. */
static gd_status pair_in_order(gd_ctx *ctx, nodes *here, nodes *there)
{
    int n = here->count, width = there->count + 1;
    int *longest = gd__alloc_array(ctx, (size_t)(n + 1) * (size_t)width, sizeof *longest);
    if (!longest) return GD_NOMEM;
    memset(longest, 0, (size_t)(n + 1) * (size_t)width * sizeof *longest);
    for (int i = n - 1; i >= 0; i--)
        for (int k = width - 2; k >= 0; k--) {
            int *at = &longest[i * width + k], skip_here = at[width], skip_there = at[1];
            *at = skip_here > skip_there ? skip_here : skip_there;
            if (same_class(&here->item[i], &there->item[k])) *at = at[width + 1] + 1;
        }
    for (int i = 0, k = 0; i < n && k < width - 1;) {
        const int *at = &longest[i * width + k];
        if (same_class(&here->item[i], &there->item[k]))
            pair(here, i++, there, k++);
        else if (at[width] >= at[1])
            i++;
        else
            k++;
    }
    gd__free(ctx, longest, (size_t)(n + 1) * (size_t)width * sizeof *longest);
    return GD_OK;
}

static gd_status match_siblings(matching *m, nodes *here, nodes *there);

static gd_status match_children(matching *m, const node *here, const node *there)
{
    nodes ours = {0}, theirs = {0};
    gd_status status = children_here(m, here->link, here->path, &ours);
    if (!status && ours.count) status = children_there(m, there->path, &theirs);
    if (!status && ours.count) status = match_siblings(m, &ours, &theirs);
    free_nodes(m->ctx, &ours);
    free_nodes(m->ctx, &theirs);
    return status;
}

static gd_status match_siblings(matching *m, nodes *here, nodes *there)
{
    gd_status status = m->strict ? GD_OK : pair_in_order(m->ctx, here, there);
    if (!status) pair_free(here, there, m->strict);
    for (int i = 0; i < here->count && !status; i++) {
        if (here->item[i].pair < 0) continue;
        const node *with = &there->item[here->item[i].pair];
        if (json_object_set_new(m->map, here->item[i].path, json_string(with->path))) return GD_NOMEM;
        status = match_children(m, &here->item[i], with);
    }
    return status;
}

gd_status gd__match_links(gd_optimizer *o, json_t *links, bool strict, json_t **map)
{
    matching m = {.ctx = o->ctx, .links = links, .map = json_object(), .strict = strict};
    nodes here = {0}, there = {0};
    gd_status status = !m.map                   ? GD_NOMEM
                       : gd__is_chain(o->chain) ? children_here(&m, o->chain, "", &here)
                                                : add_here(&m, &here, "", 0, o->chain);
    if (!status) status = children_there(&m, "", &there);
    if (!status) status = match_siblings(&m, &here, &there);
    free_nodes(m.ctx, &here);
    free_nodes(m.ctx, &there);
    if (status == GD_NOMEM && !gd_error(m.ctx)) (void)gd_fail(m.ctx, GD_NOMEM, "out of memory");
    *map = status ? NULL : m.map;
    if (status) json_decref(m.map);
    return status;
}
