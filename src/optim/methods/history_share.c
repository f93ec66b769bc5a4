/* The history of L-BFGS and L-SR1 over several ranks: each has the columns of the elements that it owns.  Products are summed
 * span by span, each of which is one rank's, and joined by all in the order of one process. */
#include "optim/methods/history.h"
#include "optim/ranks/share.h"
#include "optim/step/optimizer.h"
#include "optim/step/transform.h"

#include <math.h>
#include <string.h>

static bool same_columns(const gd_column_owners *a, const gd_column_owners *b)
{
    return a && a->total == b->total && a->runs == b->runs &&
           !memcmp(a->run, b->run, (size_t)a->runs * sizeof *a->run);
}

gd_tensor *gd__history_columns(gd_history *h, const char *name, bool *made)
{
    gd_optimizer *o = h->shared;
    const gd_layout *l = &h->layout;
    gd_column_owners *columns = gd__columns_new(o, h->params, l->count);
    gd_global *g = columns ? gd__global_find(h->link, name) : NULL;
    if (g && same_columns(g->columns, columns) && g->tensor->size[0] == h->rows &&
        g->tensor->dtype == l->dtype) {
        gd__free(l->ctx, columns, gd__columns_size(columns->runs));
        return g->tensor;
    }
    gd_tensor *own = NULL,
              *whole = columns ? gd__history_held(h, name, l, 2, (int64_t[]){h->rows, l->total}, made) : NULL;
    if (whole) own = gd__columns_of(o, whole, columns);
    if (own)
        gd__global_put(h->link, gd__global_find(h->link, name), own, columns);
    else if (columns)
        gd__free(l->ctx, columns, gd__columns_size(columns->runs));
    return own;
}

/* Spans end where shards that ranks own do: each is one rank's.  Here they lie in the columns of this rank. */
void gd__history_find_columns(gd_history *h)
{
    int64_t from, to;
    h->width = 0;
    for (int i = 0; i < h->layout.spans; i++) {
        gd_span *s = &h->layout.span[i];
        bool own = h->shared->shared.call->owned(h->shared, h->params[s->tensor], &from, &to) &&
                   s->begin >= from && s->begin < to;
        s->at = own ? h->width : -1;
        if (own) h->width += s->size;
    }
}

bool gd__history_is_shared(const gd_link *link, const gd_var *var)
{
    return gd__shares_state(var->optimizer) && var->keys == var->params && gd__keeps_columns(link) &&
           gd__var_has_elements(var);
}

void *gd__history_own_at(const gd_history *h, gd_tensor *const *list, const gd_span *s)
{
    int64_t from = 0, to;
    (void)h->shared->shared.call->owned(h->shared, h->params[s->tensor], &from, &to);
    return list[s->tensor]->data + (size_t)(s->begin - from) * h->layout.item;
}

gd_status gd__history_own_new(const gd_history *h, gd_tensor **out)
{
    gd_tensor **list = gd__share_list(h->shared, h->params, h->params, h->layout.count, false);
    if (!list) return gd_error(h->layout.ctx) ? gd_error(h->layout.ctx) : GD_NOMEM;
    memcpy(out, list, (size_t)h->layout.count * sizeof *out);
    gd__free(h->layout.ctx, list, (size_t)h->layout.count * sizeof *list);
    return gd__give_out(h->layout.ctx, out, h->layout.count);
}

gd_status gd__history_own_first(const gd_history *h, gd_tensor *const *update, bool scale, gd_tensor **out)
{
    gd_own_lists own;
    double sum = 0;
    int count = h->layout.count;
    gd_status status = gd__own_lists_begin(&own, h->shared, h->params, count);
    if (status) return status;
    if (scale) status = gd_list_norm(update, count, 1, &sum);
    if (!status) status = gd_list_scaled(update, sum > 1 && isfinite(sum) ? 1 / sum : 1, count, out);
    gd__own_lists_end(&own, h->shared);
    return status;
}

gd_tensor *gd__history_previous(gd_history *h, int i, const char *name)
{
    gd_tensor *param = h->params[i];
    if (!h->shared) return gd_link_state(h->link, param, name);
    int slot = gd__slot_index(h->link->cls, name);
    gd_entry *e = gd__entry(h->link, param);
    int64_t from = 0, to = 0;
    (void)h->shared->shared.call->owned(h->shared, param, &from, &to);
    if (!e || gd__share_slot(h->link, e, slot, param->dtype, param, 0, from, to)) return NULL;
    return e->slot[slot];
}

gd_status gd__history_keep(gd_history *h, int i, const char *name, const gd_tensor *now, bool own)
{
    gd_tensor *t = gd__history_previous(h, i, name);
    int64_t from = 0, to = 0;
    if (!t) return gd_error(h->layout.ctx);
    (void)h->shared->shared.call->owned(h->shared, h->params[i], &from, &to);
    size_t item = h->layout.item;
    if (to > from) memcpy(t->data, now->data + (own ? 0 : (size_t)from * item), (size_t)(to - from) * item);
    gd__entry_put(h->link, gd__entry(h->link, h->params[i]), gd__slot_index(h->link->cls, name), t, false);
    return GD_OK;
}
