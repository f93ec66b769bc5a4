/* The update of a var as one vector; see gradus/link/list.h. */
#include "optim/step/var_internal.h"
#include "optim/vector/layout.h"

gd_status gd_var_set_update_vector(gd_var *var, gd_tensor *vector)
{
    if (!var) return GD_ARGUMENT;
    gd_ctx *ctx = gd_var_ctx(var);
    if (!vector) return gd__null(ctx, "the vector of an update is NULL");
    int count = gd_var_count(var);
    gd_tensor **list = gd__calloc(ctx, (size_t)count * sizeof *list);
    gd_status status = list ? gd_list_split(vector, gd_var_params(var), count, list) : GD_NOMEM;
    if (!status) status = gd_var_set_update(var, list);
    gd__free(ctx, list, (size_t)count * sizeof *list);
    return status;
}

gd_status gd_var_set_zero_update(gd_var *var)
{
    if (!var) return GD_ARGUMENT;
    gd_layout l;
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    gd_tensor **list = gd__calloc(ctx, (size_t)count * sizeof *list);
    gd_status status = list ? gd__layout_init(&l, ctx, gd_var_params(var), count) : GD_NOMEM;
    if (!status) {
        status = gd__list_new(&l, list, true);
        gd__layout_free(&l);
    }
    if (!status) status = gd_var_set_update(var, list);
    gd__free(ctx, list, (size_t)count * sizeof *list);
    return status;
}

gd_tensor *gd_link_update_vector(gd_link *link, gd_var *var)
{
    int count = gd_var_count(var);
    gd_link *inner = gd_link_child(link, "inner");
    gd_tensor *const *update = gd_var_read_update(var);
    if (!link || !update) return NULL;
    if (!inner) return gd_list_vector(update, count);
    gd_var *clone = gd_var_clone(var, false, var);
    gd_tensor *vector = NULL;
    if (clone && gd_link_step(inner, clone) == GD_OK && (update = gd_var_read_update(clone))) {
        vector = gd_list_vector(update, count);
        /* one parameter: the vector may be a view of what the clone owns */
        if (vector && count == 1) vector = gd_copy(vector);
    }
    if (clone) gd_var_take_from(var, clone);
    gd_var_free(clone);
    return vector;
}
