/* Code shared by links that multiply the update by one number. */
#include "gradus/link.h"

gd_status gd_transform_scale(const gd_transform *t, double factor)
{
    if (!t || !t->link) return GD_ARGUMENT;
    gd_tensor **out = gd_link_scratch(t->link, t->count);
    gd_status status = out ? gd_list_scaled(t->tensors, factor, t->count, out)
                           : gd_error(gd_link_ctx(t->link));
    for (int i = 0; i < t->count && !status; i++) t->tensors[i] = out[i];
    return status;
}

/* The previous tensors of a slot in list, replaced by copies of now. */
static gd_status exchange(const gd_transform *t, const char *slot, gd_tensor *const *now, gd_tensor **list,
                          bool *first)
{
    gd_status status = GD_OK;
    for (int i = 0; i < t->count && !status; i++) {
        gd_tensor *key = t->keys[i];
        if (!gd_link_has_state(t->link, key, slot))
            *first = true;
        else if (!(list[i] = gd_copy(gd_link_state(t->link, key, slot))))
            status = gd_error(gd_link_ctx(t->link));
        if (!status) status = gd_link_set_state(t->link, key, slot, now[i]);
    }
    return status;
}

gd_status gd_transform_change(const gd_transform *t, gd_tensor *const *list, gd_change *out)
{
    if (!t || !t->link || !out) return GD_ARGUMENT;
    *out = (gd_change){0};
    gd_tensor **s = gd_link_scratch(t->link, 4 * t->count);
    if (!s || !list) return gd_error(gd_link_ctx(t->link)) ? gd_error(gd_link_ctx(t->link)) : GD_ARGUMENT;
    gd_tensor **y = s + t->count, **before = y + t->count;
    gd_status status = exchange(t, "previous_params", t->params, before, &out->first);
    if (!status) status = exchange(t, "previous_update", list, before + t->count, &out->first);
    if (status || out->first) return status;
    status = gd_list_combined(t->params, 1, before, -1, t->count, s);
    if (!status) status = gd_list_combined(list, 1, before + t->count, -1, t->count, y);
    if (!status) status = gd_list_dot(s, s, t->count, &out->ss);
    if (!status) status = gd_list_dot(s, y, t->count, &out->sy);
    return status ? status : gd_list_dot(y, y, t->count, &out->yy);
}
