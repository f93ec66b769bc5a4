/* Stand-ins: tensors of a link that its children step over instead of parameters.
 *
 * Children treat them as parameters: their state is keyed by them.  They belong to the link, which knows what each stands
 * in for: settings in force are those of the parameter, and state is saved under the parameter's and the link's name. */
#include "optim/link/owner.h"

#include <string.h>

/* ---- the list ---- */

static void free_tensors(gd_ctx *ctx, gd_tensor **tensor, int count)
{
    for (int k = 0; k < count; k++) gd__release(tensor[k]);
    gd__free(ctx, tensor, (size_t)count * sizeof *tensor);
}

/* The table again, which has room. */
static void number_all(gd_link *link)
{
    gd__map_clear(&link->standing);
    for (int i = 0; i < link->stand_ins; i++)
        for (int k = 0; k < link->stand_in[i].count; k++)
            gd__map_put(&link->standing, link->stand_in[i].tensor[k], i);
}

void gd__stand_ins_free(gd_link *link)
{
    gd_ctx *ctx = link->head.ctx;
    for (int i = 0; i < link->stand_ins; i++) {
        free_tensors(ctx, link->stand_in[i].tensor, link->stand_in[i].count);
        gd__release(link->stand_in[i].param);
    }
    gd__free(ctx, link->stand_in, (size_t)link->stand_in_room * sizeof *link->stand_in);
    gd__map_free(ctx, &link->standing);
    link->stand_in = NULL;
    link->stand_ins = link->stand_in_room = 0;
}

gd_status gd__stand_ins_add(gd_link *link, gd_tensor *param, gd_tensor **tensor, int count)
{
    gd_ctx *ctx = link->head.ctx;
    gd_status status = GD_OK;
    if (!gd__reserve(ctx, &link->stand_in, link->stand_ins, &link->stand_in_room, sizeof *link->stand_in))
        status = GD_NOMEM;
    for (int k = 0; k < count && !status; k++) {
        status = gd__map_reserve(ctx, &link->standing);
        if (!status) gd__map_put(&link->standing, tensor[k], link->stand_ins);
    }
    if (status) {
        number_all(link);
        free_tensors(ctx, tensor, count);
        return status;
    }
    gd__retain(param);
    link->stand_in[link->stand_ins++] = (gd_stand_in){param, tensor, count};
    if (link->optimizer) link->optimizer->stand_ins = true;
    return GD_OK;
}

const gd_stand_in *gd__stands_for(const gd_link *link, const gd_tensor *t)
{
    int number = gd__map_find(&link->standing, t);
    const gd_stand_in *found = number < 0 ? NULL : &link->stand_in[number];
    for (int i = 0; i < link->children && !found; i++) found = gd__stands_for(link->child[i], t);
    return found;
}

/* ---- forgetting ---- */

/* State that links from here down keep for some stand-ins of a different link; number -1: for all. */
static void drop_below(gd_link *link, const gd_link *owner, int number)
{
    int left = 0;
    for (int i = 0; i < link->entries; i++) {
        gd_entry *e = link->entry[i];
        int of = gd__map_find(&owner->standing, e->param);
        if (of < 0 || (number >= 0 && of != number)) {
            link->entry[left++] = e;
            continue;
        }
        gd__stand_ins_drop(link, e->param);
        link->locals -= e->local != NULL;
        gd__entry_free(link, e);
    }
    if (left < link->entries) {
        link->entries = left;
        gd__map_clear(&link->table);
        for (int i = 0; i < left; i++) gd__map_put(&link->table, link->entry[i]->param, i);
    }
    for (int i = 0; i < link->children; i++) drop_below(link->child[i], owner, number);
}

static void drop_for_children(gd_link *link, int number)
{
    for (int i = 0; i < link->children; i++) drop_below(link->child[i], link, number);
    gd__optimizer_changed(link->optimizer, true);
}

static int find_block(const gd_link *link, const gd_tensor *param)
{
    int i = 0;
    while (i < link->stand_ins && link->stand_in[i].param != param) i++;
    return i < link->stand_ins ? i : -1;
}

static void drop_block(gd_link *link, int number)
{
    gd_ctx *ctx = link->head.ctx;
    drop_for_children(link, number);
    gd_stand_in gone = link->stand_in[number];
    link->stand_ins--;
    memmove(&link->stand_in[number], &link->stand_in[number + 1],
            (size_t)(link->stand_ins - number) * sizeof gone);
    number_all(link);
    free_tensors(ctx, gone.tensor, gone.count);
    gd__release(gone.param);
}

void gd__stand_ins_drop(gd_link *link, const gd_tensor *param)
{
    int number = param ? find_block(link, param) : -1;
    if (number >= 0) drop_block(link, number);
}

void gd__stand_ins_reset(gd_link *link)
{
    if (!link->stand_ins) return;
    drop_for_children(link, -1);
    gd__stand_ins_free(link);
}

/* ---- making ---- */

static bool same_shapes(const gd_stand_in *s, gd_tensor *const *like, int count)
{
    bool same = s->count == count;
    for (int k = 0; k < count && same; k++) same = gd__same_shape(s->tensor[k], like[k]);
    return same;
}

/* State moves to the tensor that replaced its old one. */
static gd_status follow_below(gd_link *link, const gd_tensor *t)
{
    gd_entry *e = gd__entry_find(link, t);
    gd_status status = e ? gd__slots_follow(link, e) : GD_OK;
    for (int i = 0; i < link->children && !status; i++) status = follow_below(link->child[i], t);
    return status;
}

/* A different dtype or device. */
static gd_status replace(gd_link *link, gd_tensor **place, gd_tensor *like)
{
    gd_tensor *old = *place, *now = gd__copy_on(like, like->storage->device);
    gd_status status = now ? GD_OK : gd_error(link->head.ctx);
    if (status) return status;
    for (int i = 0; i < link->children; i++) gd__entries_rekey(link->child[i], old, now);
    *place = now;
    gd__release(old);
    number_all(link);
    gd__optimizer_changed(link->optimizer, true);
    for (int i = 0; i < link->children && !status; i++) status = follow_below(link->child[i], now);
    return status;
}

static gd_status new_block(gd_link *link, gd_tensor *param, gd_tensor *const *like, int count)
{
    gd_ctx *ctx = link->head.ctx;
    gd_tensor **tensor = gd__calloc(ctx, (size_t)count * sizeof *tensor);
    gd_status status = tensor ? GD_OK : GD_NOMEM;
    for (int k = 0; k < count && !status; k++)
        if (!(tensor[k] = gd__copy_on(like[k], like[k]->storage->device))) status = gd_error(ctx);
    if (!status) return gd__stand_ins_add(link, param, tensor, count);
    if (tensor) free_tensors(ctx, tensor, count);
    return status;
}

gd_status gd__stand_ins(gd_link *link, gd_tensor *param, gd_tensor *const *like, int count,
                        gd_tensor *const **out)
{
    int number = find_block(link, param);
    if (number >= 0 && !same_shapes(&link->stand_in[number], like, count)) {
        drop_block(link, number);
        number = -1;
    }
    gd_status status = number < 0 ? new_block(link, param, like, count) : GD_OK;
    if (number < 0) number = link->stand_ins - 1;
    for (int k = 0; k < count && !status; k++) {
        gd_tensor **t = &link->stand_in[number].tensor[k];
        if ((*t)->dtype != like[k]->dtype || (*t)->storage->device != like[k]->storage->device)
            status = replace(link, t, like[k]);
    }
    if (!status) *out = link->stand_in[number].tensor;
    return status;
}
