/* Matrices over all parameters, a column per element, as histories of L-BFGS are: each rank has those of the elements it owns.
 *
 *     whole    a0 a0 a1 a1 b0 b1 c2 c2      columns of parameters a, b, c, and their owners
 *     rank 1         a1 a1    b1            one after the other, the same number of rows */
#include "optim/ranks/share.h"

#include <string.h>

gd_column_owners *gd__columns_new(gd_optimizer *o, gd_tensor *const *params, int count)
{
    int ranks = gd_world_size(o->shared.share->world);
    gd_column_owners *c = gd__calloc(o->ctx, gd__columns_size(count * ranks));
    if (!c) return NULL;
    c->runs = count * ranks;
    for (int i = 0; i < count; i++) {
        const gd_param *p = &o->param[gd__param_index(o, params[i])];
        for (int r = 0; r < ranks; r++) {
            c->run[i * ranks + r].rank = r;
            c->run[i * ranks + r].count = p->cut[r + 1] - p->cut[r];
        }
        c->total += p->tensor->numel;
    }
    return c;
}

gd_tensor *gd__columns_of(gd_optimizer *o, const gd_tensor *whole, const gd_column_owners *c)
{
    int rank = gd_world_rank(o->shared.share->world);
    int64_t rows = whole->size[0], size[2] = {rows, 0};
    size_t item = gd__item_size(whole);
    for (int k = 0; k < c->runs; k++) size[1] += c->run[k].rank == rank ? c->run[k].count : 0;
    gd_scope_begin(o->ctx);
    gd_tensor *own = gd__new(gd__cpu(o->ctx), whole->dtype, 2, size);
    gd__own(own);
    gd_scope_end(o->ctx);
    const char *from = whole->data;
    char *to = own ? own->data : NULL;
    for (int64_t i = 0; i < rows && own; i++)
        for (int k = 0; k < c->runs; k++) {
            size_t bytes = (size_t)c->run[k].count * item;
            if (bytes && c->run[k].rank == rank) {
                memcpy(to, from, bytes);
                to += bytes;
            }
            from += bytes;
        }
    return own;
}

/* Where each rank's columns begin when they are concatenated by rank. */
static void cut_columns(const gd_column_owners *c, int ranks, int64_t *cuts)
{
    memset(cuts, 0, (size_t)(ranks + 1) * sizeof *cuts);
    for (int k = 0; k < c->runs; k++) cuts[c->run[k].rank + 1] += c->run[k].count;
    for (int r = 0; r < ranks; r++) cuts[r + 1] += cuts[r];
}

/* Such a row in the order of the whole. */
static void order_row(const gd_column_owners *c, const int64_t *cuts, int64_t *next, int ranks,
                      const gd_tensor *row, char *to)
{
    size_t item = gd__item_size(row);
    memcpy(next, cuts, (size_t)ranks * sizeof *next);
    for (int k = 0; k < c->runs; k++) {
        int r = c->run[k].rank;
        size_t bytes = (size_t)c->run[k].count * item;
        if (bytes) memcpy(to, row->data + (size_t)next[r] * item, bytes);
        next[r] += c->run[k].count;
        to += bytes;
    }
}

/* Row by row, so that ranks that pass them on need memory for one row. */
static gd_status gather_rows(gd_link *link, const gd_global *g, gd_tensor *whole, int64_t *cuts)
{
    gd_share *share = link->optimizer->shared.share;
    const gd_column_owners *c = g->columns;
    int ranks = gd_world_size(share->world), rank = gd_world_rank(share->world);
    size_t item = gd__item_size(g->tensor), own = (size_t)g->tensor->size[1] * item;
    gd_tensor *row = cuts ? gd__new(gd__cpu(link->head.ctx), g->tensor->dtype, 1, &c->total) : NULL;
    gd_status status = GD_OK;
    if (cuts) cut_columns(c, ranks, cuts);
    for (int64_t i = 0; i < g->tensor->size[0] && !status; i++) {
        gd_collective what = {.kind = GD_ALL_GATHER, .name = g->name, .cuts = cuts, .out = row};
        if (!row) what.failed = GD_NOMEM;
        if (row && own) memcpy(row->data + (size_t)cuts[rank] * item, g->tensor->data + (size_t)i * own, own);
        status = gd__share_call(share, &what);
        if (!status && whole)
            order_row(c, cuts, cuts + ranks + 1, ranks, row, whole->data + (size_t)(i * c->total) * item);
    }
    return status;
}

gd_status gd__columns_whole(gd_link *link, const gd_global *g, bool all, gd_tensor **whole)
{
    gd_optimizer *o = link->optimizer;
    int ranks = gd_world_size(o->shared.share->world);
    int64_t size[2] = {g->tensor->size[0], g->columns->total};
    bool wants = all || !gd_world_rank(o->shared.share->world);
    gd_tensor *t = wants ? gd__new(gd__cpu(o->ctx), g->tensor->dtype, 2, size) : NULL;
    size_t bytes = 2 * (size_t)(ranks + 1) * sizeof(int64_t);
    int64_t *cuts = t || !wants ? gd__alloc(o->ctx, bytes) : NULL;
    gd_status status = gather_rows(link, g, t, cuts);
    gd__free(o->ctx, cuts, bytes);
    *whole = t;
    return status;
}

gd_status gd__columns_make_whole(gd_link *link, gd_global *g)
{
    gd_optimizer *o = link->optimizer;
    if (!o->stepping && !o->shared.share->together)
        return gd_fail(o->ctx, GD_STATE,
                       "%s: '%s' is kept by several ranks, a part each; gd_optimizer_save has all of it",
                       link->cls->name, g->name);
    gd_tensor *whole = NULL;
    gd_scope_begin(o->ctx);
    gd_status status = gd__columns_whole(link, g, true, &whole);
    if (!status) {
        gd__own(whole);
        gd__global_put(link, g, whole, NULL);
    }
    gd_scope_end(o->ctx);
    return status;
}
