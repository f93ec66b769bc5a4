#include "autograd/walk.h"
#include "tensor/op.h"

#include <stdlib.h>

static gd_status push(gd_walk *w, gd_node *node)
{
    if (w->count + node->nout > w->capacity) {
        size_t capacity = 2 * w->capacity + 32 + node->nout;
        gd_visit *item = gd__realloc(w->ctx, w->item, w->capacity * sizeof *item, capacity * sizeof *item);
        if (!item) return GD_NOMEM;
        w->item = item;
        w->capacity = capacity;
    }
    node->pass = w->ctx->pass;
    for (uint8_t k = 0; k < node->nout; k++) w->item[w->count++] = (gd_visit){.node = node, .output = k};
    return GD_OK;
}

static int later_first(const void *a, const void *b)
{
    const gd_visit *x = a, *y = b;
    if (x->node == y->node) return x->output - y->output;
    return x->node->sequence < y->node->sequence ? 1 : -1;
}

static void sort_visits(gd_walk *w)
{
    if (w->count > 48)
        qsort(w->item, w->count, sizeof *w->item, later_first);
    else
        for (size_t i = 1; i < w->count; i++) {
            gd_visit e = w->item[i];
            size_t j = i;
            for (; j > 0 && w->item[j - 1].node->sequence < e.node->sequence; j--)
                w->item[j] = w->item[j - 1];
            w->item[j] = e;
        }
}

/* Breadth first: the list itself is the queue. */
gd_status gd__walk_collect(gd_walk *w, gd_node *root, const gd_node **spent)
{
    w->ctx->pass++;
    *spent = NULL;
    gd_status status = push(w, root);
    for (size_t i = 0; i < w->count && !status; i += w->item[i].node->nout) {
        gd_node *node = w->item[i].node;
        if (node->spent) {
            *spent = node;
            return GD_GRAPH;
        }
        for (int k = 0; k < node->nin && !status; k++) {
            gd_node *next = node->in[k]->node;
            if (next && next->pass != w->ctx->pass && !gd__stops_at(w, node->in[k])) status = push(w, next);
        }
    }
    if (status) return status;
    sort_visits(w);
    for (size_t i = 0; i < w->count; i += w->item[i].node->nout) w->item[i].node->slot = i;
    return GD_OK;
}

int gd__changed(const gd_node *node)
{
    uint8_t needs = gd__ops[node->op].needs;
    for (int k = 0; k < node->nin && k < 3; k++)
        if ((needs >> k & 1) && node->in[k]->storage && gd__version(node->in[k]) != node->version[k])
            return k;
    for (int k = 0; k < node->nout && (needs & GD_NEEDS_OUT); k++)
        if (gd__version(node->out[k]) != node->out_version[k]) return node->nin;
    return -1;
}

bool gd__graph_intact(const gd_tensor *t)
{
    gd_walk w = {.ctx = t->head.ctx};
    const gd_node *spent;
    bool intact = !t->node || gd__walk_collect(&w, t->node, &spent) == GD_OK;
    for (size_t i = 0; i < w.count && intact; i++) intact = gd__changed(w.item[i].node) < 0;
    gd__walk_free(&w);
    return intact;
}

void gd__walk_free(gd_walk *w)
{
    for (size_t i = 0; i < w->count; i++) {
        if (w->item[i].room) gd__release(w->item[i].room);
        if (w->item[i].grad) gd__release(w->item[i].grad);
    }
    gd__free(w->ctx, w->item, w->capacity * sizeof *w->item);
}

gd_status gd__accumulate(gd_tensor **sum, gd_tensor *g)
{
    if (!*sum) {
        gd__retain(g);
        *sum = g;
        return GD_OK;
    }
    gd_tensor *both = gd_add(*sum, g);
    if (!both) return GD_NOMEM;
    gd__own(both);
    gd__release(*sum);
    *sum = both;
    return GD_OK;
}
