/* What links that multiply the update by one number share. */
#include "optim/methods/step_size.h"
#include "optim/vector/layout.h"
#include "optim/methods/line.h"

gd_status gd__scale_by_kept(const gd_transform *t)
{
    gd_layout l;
    gd_status status = gd__layout_init(&l, gd_link_ctx(t->link), t->params, t->count);
    gd_tensor **out = gd_link_scratch(t->link, t->count);
    if (!status && !out) status = gd_error(l.ctx);
    if (!status) status = gd__list_scaled(&l, t->tensors, gd__kept(t->link, "step_size", 1), out);
    for (int i = 0; i < t->count && !status; i++) t->tensors[i] = out[i];
    gd__layout_free(&l);
    return status;
}

/* The previous tensors of a slot in list, replaced by copies of now. */
static gd_status exchange(const gd_transform *t, const char *slot, gd_tensor *const *now, gd_tensor **list,
                          bool *first)
{
    gd_status status = GD_OK;
    for (int i = 0; i < t->count && !status; i++) {
        gd_tensor *key = t->params[i];
        if (!gd_link_has_state(t->link, key, slot))
            *first = true;
        else if (!(list[i] = gd_copy(gd_link_state(t->link, key, slot))))
            status = gd_error(gd_link_ctx(t->link));
        if (!status) status = gd_link_set_state(t->link, key, slot, now[i]);
    }
    return status;
}

gd_status gd__change(const gd_transform *t, gd_change *out)
{
    gd_layout l;
    gd_tensor **s = gd_link_scratch(t->link, 4 * t->count);
    *out = (gd_change){0};
    if (!s) return gd_error(gd_link_ctx(t->link));
    gd_tensor **y = s + t->count, **before = y + t->count;
    gd_tensor *const *u = gd_link_flag(t->link, "use_grad") ? t->grads : t->tensors;
    gd_status status = gd__layout_init(&l, gd_link_ctx(t->link), t->params, t->count);
    if (!status) status = exchange(t, "previous_params", t->params, before, &out->first);
    if (!status) status = exchange(t, "previous_update", u, before + t->count, &out->first);
    if (!status && !out->first) {
        status = gd__list_combined(&l, t->params, 1, before, -1, s);
        if (!status) status = gd__list_combined(&l, u, 1, before + t->count, -1, y);
        if (!status) status = gd__list_dot(&l, s, s, &out->ss);
        if (!status) status = gd__list_dot(&l, s, y, &out->sy);
        if (!status) status = gd__list_dot(&l, y, y, &out->yy);
    }
    gd__layout_free(&l);
    return status;
}
