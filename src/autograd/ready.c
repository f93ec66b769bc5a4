/* Callbacks for complete gradients of leaves. */
#include "autograd/ready.h"
#include "base/text/address_map.h"

/* The leaves of a pass, and how many operands each still waits for. */
struct gd_waiting {
    gd_map table;
    int *left, leaves, room;
};

void gd__ready_add(gd_ctx *ctx, gd_ready *ready)
{
    ready->next = ctx->ready;
    ctx->ready = ready;
}

void gd__ready_remove(gd_ctx *ctx, gd_ready *ready)
{
    for (gd_ready **at = &ctx->ready; *at; at = &(*at)->next)
        if (*at == ready) {
            *at = ready->next;
            return;
        }
}

gd_status gd__hand_on(gd_walk *w, const gd_tensor *leaf)
{
    gd_status status = GD_OK;
    for (int i = 0; i < w->inputs && !status; i++) {
        gd_tensor *grad = w->input[i] == leaf || !leaf ? w->result[i] : NULL;
        if (!grad) continue;
        w->result[i] = NULL;
        status = w->each(w->user, i, grad);
    }
    return status;
}

static gd_status call_all(gd_walk *w, gd_tensor *leaf)
{
    gd_status status = GD_OK;
    if (w->each) return gd__hand_on(w, leaf);
    for (gd_ready *r = w->ctx->ready; r && !status; r = r->next) status = r->fn(r->user, leaf);
    return status;
}

static gd_status count_leaf(gd_ctx *ctx, struct gd_waiting *all, const gd_tensor *leaf)
{
    int i = gd__map_find(&all->table, leaf);
    if (i < 0) {
        if (gd__map_reserve(ctx, &all->table) ||
            !gd__reserve(ctx, &all->left, all->leaves, &all->room, sizeof *all->left))
            return GD_NOMEM;
        gd__map_put(&all->table, leaf, i = all->leaves);
        all->left[all->leaves++] = 0;
    }
    all->left[i]++;
    return GD_OK;
}

gd_status gd__ready_count(gd_walk *w)
{
    gd_status status = GD_OK;
    if (!(w->waiting = gd__calloc(w->ctx, sizeof *w->waiting))) return GD_NOMEM;
    for (size_t i = 0; i < w->count && !status; i += w->item[i].node->nout) {
        const gd_node *node = w->item[i].node;
        for (int k = 0; w->item[i].useful && k < node->nin && !status; k++)
            if (!node->in[k]->node && gd__asked_for(w, node->in[k]))
                status = count_leaf(w->ctx, w->waiting, node->in[k]);
    }
    return status;
}

gd_status gd__ready_done(gd_walk *w, const gd_node *node)
{
    gd_status status = GD_OK;
    for (int k = 0; k < node->nin && !status; k++) {
        gd_tensor *t = node->in[k];
        int i = t->node ? -1 : gd__map_find(&w->waiting->table, t);
        if (i >= 0 && !--w->waiting->left[i]) status = call_all(w, t);
    }
    return status;
}

void gd__ready_free(gd_walk *w)
{
    if (!w->waiting) return;
    gd__map_free(w->ctx, &w->waiting->table);
    gd__free(w->ctx, w->waiting->left, (size_t)w->waiting->room * sizeof *w->waiting->left);
    gd__free(w->ctx, w->waiting, sizeof *w->waiting);
}
